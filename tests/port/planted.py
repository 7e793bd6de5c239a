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
# How long tests may take that find nothing, and how long they wait for what does not happen, in seconds.
MAX_SECONDS, PATIENCE = 240, 10


def faults():
    return tomllib.loads((HERE / "planted.toml").read_text())


def plant(text):
    """Returns the text of a file whose functions have faults that can be switched on."""

    def with_faults(note):
        found = {name: fault["fault"] for name, fault in faults().items() if fault.get("function", name) == note[1]}
        if not found:
            sys.exit(f"{note[1]} has no fault in planted.toml")
        planted = (f'if crate::os::portable::called::is_planted("{name}") {{ {code} }}' for name, code in found.items())
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
    """Builds the programs of the tests. Returns their paths by crate and name."""
    words = {word for fault in faults().values() for word in ["--package", fault["test"][0]]}
    packages = [word for name in sorted(words - {"--package"}) for word in ("--package", name)]
    programs = sorted({fault["test"][1] for fault in faults().values()} - {"lib"})
    command = ["cargo", "test", "--no-run", "--message-format=json", *packages, "--lib"]
    command += [word for name in programs for word in ("--test", name)]
    flags = f"{os.environ.get('RUSTFLAGS', '')} --cfg arrowwood_portable"
    environment = {**os.environ, "RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(TARGET)}
    process = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        sys.exit(process.returncode)
    messages = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    found = {}
    for message in messages:
        if message["reason"] == "compiler-artifact" and message["executable"]:
            crate = Path(message["manifest_path"]).parent.name
            name = "lib" if "lib" in message["target"]["kind"] else message["target"]["name"]
            found["arrowwood-mapping" if crate == "mapping" else crate, name] = message["executable"]
    return found


def failed_tests(tree, programs, name, test):
    """Runs tests with a fault switched on. Returns the names of those that fail."""
    crate, program, first = test
    folder = tree / "crates" / crate.removeprefix("arrowwood-")
    environment = {**os.environ, "ARROWWOOD_PLANTED": name, "ARROWWOOD_PATIENCE": str(PATIENCE)}
    environment["CARGO_MANIFEST_DIR"] = str(folder)
    command = [programs[crate, program], *([first] if first else [])]
    try:
        process = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=MAX_SECONDS
        )
    except subprocess.TimeoutExpired:
        return [f"{first or program} does not end"]
    failed = sorted(set(re.findall(r"^test (\S+) .*FAILED$", process.stdout, re.M)))
    if process.returncode and not failed:
        return [f"{first or program} ends with {process.returncode}"]
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names of faults, between spaces")
    args = parser.parse_args()
    tree = TARGET / "planted"
    copy_tree(tree)
    programs = build(tree)
    chosen = {name: fault for name, fault in faults().items() if not args.only or name in args.only.split()}
    sound = {tuple(fault["test"]): failed_tests(tree, programs, "", fault["test"]) for fault in chosen.values()}
    missed = []
    for name, fault in chosen.items():
        failed = sorted(set(failed_tests(tree, programs, name, fault["test"])) - set(sound[tuple(fault["test"])]))
        print(f"{name}: {'found by ' + ', '.join(failed) if failed else 'NOT FOUND'}", flush=True)
        missed += [] if failed else [name]
    for test, failed in sound.items():
        print(*(f"without a fault: {name} of {' '.join(test)} fails" for name in failed), sep="\n", end="")
    print(f"{len(chosen) - len(missed)} of {len(chosen)} planted faults found")
    sys.exit(bool(missed or any(sound.values())))


if __name__ == "__main__":
    main()
