"""Shows that the differential tester finds planted faults: `make planted`.

A copy of the tree is built once with all faults of bugs.toml, in a target directory of its own. Then each fault is
switched on, and cases are played until one is wrong. It prints after how many cases a fault was found, and fails if
a fault is not found, or if anything is found without a fault.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# The file name of the extension as cargo builds it, and as Python imports it.
CARGO_NAME, PYTHON_NAME = "lib_arrowwood.so", "_arrowwood.abi3.so"


def bugs():
    return tomllib.loads((HERE / "bugs.toml").read_text())


# Added to the copy of the library. Each fault asks it whether it is switched on.
SWITCH = """
#[doc(hidden)]
pub mod planted {
    use std::sync::LazyLock;

    static ON: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("ARROWWOOD_PLANTED").ok());

    pub fn is_on(name: &str) -> bool {
        ON.as_deref() == Some(name)
    }
}
"""


# Kernels process rows in blocks. The blocks of the copy are small, as few random cases have enough rows for two blocks.
BLOCKS = [
    ("crates/arrowwood/src/compute/scan/frame.rs", "BLOCK: usize = 1 << 16;", "BLOCK: usize = 1 << 7;"),
    ("crates/arrowwood/src/compute/group/plan.rs", "BLOCK: usize = 1 << 14;", "BLOCK: usize = 1 << 7;"),
]


def plant(name: str, bug: dict, text: str) -> str:
    """Returns the text of a file with a fault that can be switched on."""
    before, rest = bug["at"].split("«")
    sound, after = rest.split("»")
    original = before + sound + after
    count = text.count(original)
    if count != 1:
        raise ValueError(f"{bug['file']}: {original!r} stands there {count} times, expected once")
    library = "crate" if bug["file"].startswith("crates/arrowwood/src/") else "arrowwood"
    choice = f'if {library}::planted::is_on("{name}") {{ {bug["fault"]} }} else {{ {sound} }}'
    # Rust would end a statement after an `if` that an expression begins with.
    if not sound.endswith(";"):
        choice = f"({choice})"
    return text.replace(original, before + choice + after)


def planted_files():
    """Returns the new texts of all files with faults, and of the library's root with the switch."""
    texts = {"crates/arrowwood/src/lib.rs": (ROOT / "crates/arrowwood/src/lib.rs").read_text() + SWITCH}
    for path, large, small in BLOCKS:
        texts[path] = (ROOT / path).read_text()
        assert texts[path].count(large) == 1, large
        texts[path] = texts[path].replace(large, small)
    for name, bug in bugs().items():
        text = texts.get(bug["file"]) or (ROOT / bug["file"]).read_text()
        texts[bug["file"]] = plant(name, bug, text)
    return texts


def write(path, content):
    """Writes a file if its content changed. Otherwise its time remains, and cargo doesn't build it again."""
    content = content.encode() if isinstance(content, str) else content
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class FaultyBuild:
    """A copy of the tree with all faults, and the Python package that is built from it."""

    def __init__(self, folder):
        self.tree, self.target, self.package = folder / "tree", folder / "target", folder / "package"
        faulty = planted_files()
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in names.split("\0")[:-1]:
            source, copy = ROOT / name, self.tree / name
            # The linter of the pages refuses to run where a second biome.jsonc is below its own.
            if source.is_file() and name not in (
                "bindings/python/Cargo.toml",
                "bindings/python/src/lib.rs",
                "biome.jsonc",
            ):
                write(copy, faulty.get(name) or source.read_bytes())
        self.leave_out_command()

    def leave_out_command(self):
        """Removes the command and the server from the package, as they take longer to build than the kernels."""
        text = (ROOT / "bindings/python/Cargo.toml").read_text()
        for line in text.splitlines(keepends=True):
            if line.startswith(("arrowwood-cli", "objects =", "default =")):
                text = text.replace(line, "")
        write(self.tree / "bindings/python/Cargo.toml", text)
        items = re.split(r"(?m)^(?=    ///)", (ROOT / "bindings/python/src/lib.rs").read_text())
        left_out = ("arrowwood_objects::", "fn with_notes(", "arrowwood_cli::", "impl Package")
        text = "".join(item for item in items if not any(name in item for name in left_out))
        stub = "    #[pyfunction]\n    fn _run_cli(_arguments: Vec<OsString>) -> i32 {\n        2\n    }\n}\n"
        write(self.tree / "bindings/python/src/lib.rs", text + stub)

    def run_cargo(self):
        """Builds the package. Returns the errors of cargo, or None."""
        command = ["cargo", "build", "--quiet", "--package", "arrowwood-python", "--lib", "--no-default-features"]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(self.target)}
        process = subprocess.run(command, cwd=self.tree, env=environment, capture_output=True, text=True)
        if process.returncode:
            return process.stderr
        package = self.package / "arrowwood"
        shutil.copytree(self.tree / "bindings/python/arrowwood", package, dirs_exist_ok=True)
        shutil.copyfile(self.target / "debug" / CARGO_NAME, package / PYTHON_NAME)
        return None

    def play(self, name, seed, cases):
        """Plays cases with a fault. Returns how many it took to find it, and the message, or None if it was missed."""
        command = [sys.executable, str(ROOT / "tests/differential/differential.py")]
        process = subprocess.run(
            [*command, "--seed", str(seed), "--cases", str(cases), "--no-shrink"],
            env={**os.environ, "PYTHONPATH": str(self.package), "ARROWWOOD_PLANTED": name},
            capture_output=True,
            text=True,
            errors="replace",
        )
        match = re.search(r"^seed \d+, after (\d+) cases: (.*)$", process.stdout, re.M)
        if match:
            return int(match[1]), match[2][:100]
        if process.returncode:
            return 0, f"the program ended with {process.returncode}: {process.stderr.strip()[-200:]}"
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names of faults, between spaces")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100_000, help="how many are played before a fault is not found")
    parser.add_argument(
        "--folder", type=Path, default=Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "planted"
    )
    args = parser.parse_args()
    build = FaultyBuild(args.folder.resolve())
    errors = build.run_cargo()
    if errors:
        sys.exit(f"not built: {errors[-5000:]}")
    found = build.play("", args.seed, args.cases // 10)
    if found:
        sys.exit(f"without a fault: found after {found[0]} cases: {found[1]}")
    names = [name for name in bugs() if not args.only or name in args.only.split()]
    missed = []
    for name in names:
        found = build.play(name, args.seed, args.cases)
        if found:
            print(f"{name}: found after {found[0]} cases: {found[1]}", flush=True)
        else:
            print(f"{name}: NOT FOUND in {args.cases} cases", flush=True)
            missed.append(name)
    print(f"{len(names) - len(missed)} of {len(names)} planted faults found")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
