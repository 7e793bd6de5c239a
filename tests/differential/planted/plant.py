"""Shows that the differential tester finds planted faults: `make planted`.

Each of bugs.toml is applied to a copy of the tree, which is built with a target directory of its own; then cases are
played until one is wrong. It prints after how many, and fails if a fault is not found.
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
# As cargo and Python name the extension.
BUILT, WANTED = "lib_arrowwood.so", "_arrowwood.abi3.so"


def bugs():
    return tomllib.loads((HERE / "bugs.toml").read_text())


def planted(bug, text):
    """The text of a file with a fault in it."""
    count = text.count(bug["old"])
    if count != 1:
        raise ValueError(f"{bug['file']}: {bug['old']!r} stands there {count} times, expected once")
    return text.replace(bug["old"], bug["new"])


def write(path, content):
    """Writes a file; what is the same keeps its time, so that it is not built again."""
    content = content.encode() if isinstance(content, str) else content
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Nursery:
    """A copy of the tree, and the package that is built of it."""

    def __init__(self, folder):
        self.tree, self.target, self.package = folder / "tree", folder / "target", folder / "package"
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in names.split("\0")[:-1]:
            source, copy = ROOT / name, self.tree / name
            if source.is_file() and name not in ("python/Cargo.toml", "python/src/lib.rs"):
                write(copy, source.read_bytes())
        self.without_command()

    def without_command(self):
        """Leaves out the command and its server, which take longer to build than all that is tested here."""
        text = (ROOT / "python/Cargo.toml").read_text()
        for line in text.splitlines(keepends=True):
            if line.startswith(("arrowwood-cli", "objects =", "default =")):
                text = text.replace(line, "")
        write(self.tree / "python/Cargo.toml", text)
        start, rest = (
            (ROOT / "python/src/lib.rs").read_text().split("    /// The parts of the package used by the command", 1)
        )
        none = "    #[pyfunction]\n    fn _run_cli(_arguments: Vec<OsString>) -> i32 {\n        2\n    }\n}\n"
        assert rest.count("fn _run_cli(") == 1, "the command is the last thing in lib.rs"
        write(self.tree / "python/src/lib.rs", start + none)

    def build(self):
        """Builds the package, and returns what cargo says if it can't."""
        command = ["cargo", "build", "--quiet", "--package", "arrowwood-python", "--lib", "--no-default-features"]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(self.target)}
        done = subprocess.run(command, cwd=self.tree, env=environment, capture_output=True, text=True)
        if done.returncode:
            return done.stderr
        own = self.package / "arrowwood"
        shutil.copytree(self.tree / "python/arrowwood", own, dirs_exist_ok=True)
        shutil.copyfile(self.target / "debug" / BUILT, own / WANTED)
        return None

    def play(self, seed, cases):
        """After how many cases something is wrong, and what; None if nothing is."""
        command = [sys.executable, str(ROOT / "tests/differential/differential.py")]
        done = subprocess.run(
            [*command, "--seed", str(seed), "--cases", str(cases), "--no-shrink"],
            env={**os.environ, "PYTHONPATH": str(self.package)},
            capture_output=True,
            text=True,
            errors="replace",
        )
        found = re.search(r"^seed \d+, after (\d+) cases: (.*)$", done.stdout, re.M)
        if found:
            return int(found[1]), found[2][:100]
        if done.returncode:
            return 0, f"the program ended with {done.returncode}: {done.stderr.strip()[-200:]}"
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
    nursery = Nursery(args.folder.resolve())
    wanted = {name: bug for name, bug in bugs().items() if not args.only or name in args.only.split()}
    missed = []
    for name, bug in wanted.items():
        path = nursery.tree / bug["file"]
        sound = path.read_text()
        path.write_text(planted(bug, sound))
        try:
            failed = nursery.build()
            found = None if failed else nursery.play(args.seed, args.cases)
        finally:
            path.write_text(sound)
        if failed:
            print(f"{name}: not built: {failed[-2000:]}", flush=True)
        elif found:
            print(f"{name}: found after {found[0]} cases: {found[1]}", flush=True)
        else:
            print(f"{name}: NOT FOUND in {args.cases} cases", flush=True)
        if not found:
            missed.append(name)
    print(f"{len(wanted) - len(missed)} of {len(wanted)} planted faults found")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
