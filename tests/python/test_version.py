"""The version is said once, in Cargo.toml; everything else has it from there, or agrees."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import arrowwood as aw

ROOT = Path(__file__).parents[2]
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())
VERSION = CARGO["workspace"]["package"]["version"]


def test_what_is_built_says_the_same():
    assert aw.__version__ == VERSION
    done = subprocess.run([sys.executable, "-m", "arrowwood._cli", "--version"], capture_output=True, text=True)
    assert done.stdout == f"arrowwood {VERSION}\n"


def test_the_package_is_the_command():
    """``python -m arrowwood`` prints what the command prints, names itself as that does, and has its exit codes."""
    for arguments in (["--version"], ["head", "--help"], ["no-such-verb"], ["stat", "/no/such/file"]):
        ways = [[sys.executable, "-m", name, *arguments] for name in ("arrowwood", "arrowwood._cli")]
        module, command = (subprocess.run(way, capture_output=True, text=True) for way in ways)
        assert (module.returncode, module.stdout, module.stderr) == (command.returncode, command.stdout, command.stderr)
        assert module.returncode == {"no-such-verb": 2, "stat": 1}.get(arguments[0], 0), module


def test_the_package_has_it_from_cargo():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"] and "version" not in project
    for crate in [".", "cli", "crates/mapping", "crates/objects", "python", "serve"]:
        package = tomllib.loads((ROOT / crate / "Cargo.toml").read_text())["package"]
        assert package["version"] == {"workspace": True}, crate
    # It is in no workspace to take it from.
    datafusion = tomllib.loads((ROOT / "crates/datafusion/Cargo.toml").read_text())
    assert [datafusion["package"]["version"], datafusion["dependencies"]["arrowwood"]["version"]] == [VERSION] * 2
    package = tomllib.loads((ROOT / "crates/datafusion/python/Cargo.toml").read_text())
    ours = [crate for name, crate in package["dependencies"].items() if name.startswith("arrowwood")]
    assert [package["package"]["version"], *(crate["version"] for crate in ours)] == [VERSION] * 3
    project = tomllib.loads((ROOT / "crates/datafusion/python/pyproject.toml").read_text())["project"]
    assert f"arrowwood=={VERSION}" in project["dependencies"]
    # Uploaded crates refer to the library by version, which Cargo can't inherit here.
    ours = [crate for name, crate in CARGO["workspace"]["dependencies"].items() if name.startswith("arrowwood")]
    assert [crate["version"] for crate in ours] == [VERSION] * 4
    try:
        installed = importlib.metadata.version("arrowwood")
    except importlib.metadata.PackageNotFoundError:
        return  # runs from the sources
    assert installed == VERSION


def test_the_changelog_begins_with_it():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest[1] == VERSION
