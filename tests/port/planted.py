"""Shows that the tests of `make test-portable` find faults in crates/mapping/src/os/portable.

    python tests/port/planted.py [--only "NAME ..."]

A copy of the tree is built once with all faults of planted.toml, in $CARGO_TARGET_DIR/portable. Then each fault is
switched on while the tests run that have to find it: they fail, or are ended after a while. Prints for each fault the
tests that fail, and fails if there are none, if tests fail without a fault, or if a function has no fault.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "portable"
PORTABLE = "crates/mapping/src/os/portable/"
NOTE = r'note!\("([\w:]+)"\);'
SWITCH = """
pub fn is_planted(name: &str) -> bool {
    std::env::var_os("ARROWWOOD_PLANTED").is_some_and(|planted| planted == name)
}
"""
# How long tests may take that pass in a second or two. With a fault, some wait for what does not happen.
MAX_SECONDS = 60


def faults():
    return tomllib.loads((HERE / "planted.toml").read_text())


def plant(text):
    """Returns the text of a file whose functions have faults that can be switched on."""

    def with_faults(note):
        found = {name: fault for name, fault in faults().items() if fault.get("function", name) == note[1]}
        if not found:
            sys.exit(f"{note[1]} has no fault in planted.toml")
        code = {name: fault["fault"] for name, fault in found.items() if "fault" in fault}
        planted = (f'if crate::os::portable::called::is_planted("{name}") {{ {code} }}' for name, code in code.items())
        return f"{note[0]} {' '.join(planted)}"

    return re.sub(NOTE, with_faults, text)


def copy_tree(tree):
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.split("\0")[:-1]:
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if name.startswith(PORTABLE):
            text = plant(content.decode())
            content = (text + SWITCH if name.endswith("/called.rs") else text).encode()
        # Cargo doesn't build a file again that keeps its time.
        if not (tree / name).exists() or (tree / name).read_bytes() != content:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(content)


def build(tree):
    """Builds the programs of the crate's tests. Returns their paths by name."""
    command = ["cargo", "test", "--no-run", "--message-format=json", "--package=arrowwood-mapping", "--lib", "--tests"]
    flags = f"{os.environ.get('RUSTFLAGS', '')} --cfg arrowwood_portable"
    environment = {**os.environ, "RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(TARGET)}
    process = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        sys.exit(process.returncode)
    found = {}
    for message in (json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")):
        if message["reason"] == "compiler-artifact" and message["executable"]:
            target = message["target"]
            found["lib" if "lib" in target["kind"] else target["name"]] = message["executable"]
    return found


def failed_tests(tree, programs, name, tests):
    """Runs tests with a fault switched on. Returns the names of those that fail."""
    program, first = tests
    environment = {**os.environ, "ARROWWOOD_PLANTED": name}
    try:
        process = subprocess.run(
            [programs[program], first],
            cwd=tree / "crates/mapping",
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=MAX_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [f"{first} does not end"]
    failed = sorted(set(re.findall(r"^test (\S+) .*FAILED$", process.stdout, re.M)))
    return failed or ([f"{first} ends with {process.returncode}"] if process.returncode else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names of faults, between spaces")
    args = parser.parse_args()
    tree = TARGET / "planted"
    copy_tree(tree)
    chosen = {name: fault for name, fault in faults().items() if "fault" in fault}
    if args.only:
        chosen = {name: chosen[name] for name in args.only.split()}
    programs = build(tree)
    sound = {tuple(fault["tests"]): failed_tests(tree, programs, "", fault["tests"]) for fault in chosen.values()}
    missed = []
    for name, fault in chosen.items():
        failed = failed_tests(tree, programs, name, fault["tests"])
        print(f"{name}: {'found by ' + ', '.join(failed) if failed else 'NOT FOUND'}", flush=True)
        missed += [] if failed else [name]
    for failed in filter(None, sound.values()):
        print(f"without a fault: {', '.join(failed)}")
    print(f"{len(chosen) - len(missed)} of {len(chosen)} planted faults found")
    sys.exit(bool(missed or any(sound.values())))


if __name__ == "__main__":
    main()
