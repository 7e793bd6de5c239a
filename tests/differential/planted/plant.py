"""Shows that the differential tester finds planted faults: `make planted`.

A copy of the tree is built once with all faults of bugs.toml, with a target directory of its own. Then each fault is
switched on, and cases are played until one is wrong. It prints after how many, and fails if a fault is not found, or if
anything is found without faults.
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


# Says which fault is switched on, in the copy of the library.
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


# Kernels take blocks of rows at once. In the copy these are small, as few random cases have the rows of two whole ones.
BLOCKS = [
    ("src/compute/frame.rs", "BLOCK: usize = 1 << 16;", "BLOCK: usize = 1 << 7;"),
    ("src/compute/group/aggregate.rs", "BLOCK: usize = 1 << 14;", "BLOCK: usize = 1 << 7;"),
]


def planted(name, bug, text):
    """The text of a file with a fault that can be switched on."""
    before, rest = bug["at"].split("«")
    sound, after = rest.split("»")
    at = before + sound + after
    count = text.count(at)
    if count != 1:
        raise ValueError(f"{bug['file']}: {at!r} stands there {count} times, expected once")
    library = "crate" if bug["file"].startswith("src/") else "arrowwood"
    choice = f'if {library}::planted::is_on("{name}") {{ {bug["fault"]} }} else {{ {sound} }}'
    # A statement stands for itself; in an expression the choice may not end it.
    if not sound.endswith(";"):
        choice = f"({choice})"
    return text.replace(at, before + choice + after)


def planted_files():
    """The text of each file that has faults, and of the library, with its switch."""
    texts = {"src/lib.rs": (ROOT / "src/lib.rs").read_text() + SWITCH}
    for path, large, small in BLOCKS:
        texts[path] = (ROOT / path).read_text()
        assert texts[path].count(large) == 1, large
        texts[path] = texts[path].replace(large, small)
    for name, bug in bugs().items():
        text = texts.get(bug["file"]) or (ROOT / bug["file"]).read_text()
        texts[bug["file"]] = planted(name, bug, text)
    return texts


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
        faulty = planted_files()
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in names.split("\0")[:-1]:
            source, copy = ROOT / name, self.tree / name
            # A second configuration of the linter of the pages would stop it.
            if source.is_file() and name not in ("python/Cargo.toml", "python/src/lib.rs", "biome.jsonc"):
                write(copy, faulty.get(name) or source.read_bytes())
        self.without_command()

    def without_command(self):
        """Leaves out the command and its server, which take longer to build than all that is tested here."""
        text = (ROOT / "python/Cargo.toml").read_text()
        for line in text.splitlines(keepends=True):
            if line.startswith(("arrowwood-cli", "objects =", "default =")):
                text = text.replace(line, "")
        write(self.tree / "python/Cargo.toml", text)
        parts = re.split(r"(?m)^(?=    ///)", (ROOT / "python/src/lib.rs").read_text())
        left_out = ("arrowwood_objects::", "fn with_notes(", "arrowwood_cli::")
        kept = "".join(
            part for part in parts if not any(name in part for name in left_out) and "impl Package" not in part
        )
        none = "    #[pyfunction]\n    fn _run_cli(_arguments: Vec<OsString>) -> i32 {\n        2\n    }\n}\n"
        write(self.tree / "python/src/lib.rs", kept + none)

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

    def play(self, name, seed, cases):
        """After how many cases something is wrong with this fault, and what; None if nothing is."""
        command = [sys.executable, str(ROOT / "tests/differential/differential.py")]
        done = subprocess.run(
            [*command, "--seed", str(seed), "--cases", str(cases), "--no-shrink"],
            env={**os.environ, "PYTHONPATH": str(self.package), "ARROWWOOD_PLANTED": name},
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
    failed = nursery.build()
    if failed:
        sys.exit(f"not built: {failed[-5000:]}")
    found = nursery.play("", args.seed, args.cases // 10)
    if found:
        sys.exit(f"without a fault: found after {found[0]} cases: {found[1]}")
    wanted = [name for name in bugs() if not args.only or name in args.only.split()]
    missed = []
    for name in wanted:
        found = nursery.play(name, args.seed, args.cases)
        if found:
            print(f"{name}: found after {found[0]} cases: {found[1]}", flush=True)
        else:
            print(f"{name}: NOT FOUND in {args.cases} cases", flush=True)
            missed.append(name)
    print(f"{len(wanted) - len(missed)} of {len(wanted)} planted faults found")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
