"""Tests that all packages have the version in Cargo.toml."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import arrowwood as aw

ROOT = Path(__file__).parents[2]


def read_toml(path):
    return tomllib.loads((ROOT / path).read_text())


WORKSPACE = read_toml("Cargo.toml")["workspace"]
VERSION = WORKSPACE["package"]["version"]


def run_module(name, *arguments):
    return subprocess.run([sys.executable, "-m", name, *arguments], capture_output=True, text=True)


def dependency_versions(dependencies):
    """Returns the versions of the dependencies on crates of Arrowwood."""
    return [crate["version"] for name, crate in dependencies.items() if name.startswith("arrowwood")]


def test_module_and_command_print_the_version():
    assert aw.__version__ == VERSION
    assert run_module("arrowwood._cli", "--version").stdout == f"arrowwood {VERSION}\nSQL: DuckDB\n"


def test_package_runs_as_the_command():
    """``python -m arrowwood`` has the output, the name in messages, and the exit codes of ``arrowwood``."""
    for arguments, exit_code in (
        (["--version"], 0),
        (["head", "--help"], 0),
        (["no-such-verb"], 2),
        (["stat", "/no/such/file"], 1),
    ):
        module = run_module("arrowwood", *arguments)
        command = run_module("arrowwood._cli", *arguments)
        assert (module.returncode, module.stdout, module.stderr) == (command.returncode, command.stdout, command.stderr)
        assert module.returncode == exit_code, module


def test_packages_take_the_version_from_the_workspace():
    project = read_toml("pyproject.toml")["project"]
    assert "version" in project["dynamic"] and "version" not in project
    for crate in [
        "bindings/python",
        "crates/arrowwood",
        "crates/cli",
        "crates/flight",
        "crates/mapping",
        "crates/objects",
        "crates/serve",
    ]:
        package = read_toml(f"{crate}/Cargo.toml")["package"]
        assert package["version"] == {"workspace": True}, crate
    # Dependencies need a version when crates are uploaded, and can't inherit it.
    assert dependency_versions(WORKSPACE["dependencies"]) == [VERSION] * 5
    try:
        installed = importlib.metadata.version("arrowwood")
    except importlib.metadata.PackageNotFoundError:
        return  # Tests run from the sources.
    assert installed == VERSION


def test_datafusion_packages_repeat_the_version():
    """They have a workspace of their own, and can't inherit the version of the other."""
    workspace = read_toml("crates/datafusion/Cargo.toml")["workspace"]
    assert workspace["package"]["version"] == VERSION
    assert dependency_versions(workspace["dependencies"]) == [VERSION] * 4
    for crate in ["crates/datafusion", "crates/datafusion/python", "crates/query"]:
        package = read_toml(f"{crate}/Cargo.toml")["package"]
        assert package["version"] == {"workspace": True}, crate
    project = read_toml("crates/datafusion/python/pyproject.toml")["project"]
    assert f"arrowwood=={VERSION}" in project["dependencies"]


def test_changelog_begins_with_the_version():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest[1] == VERSION
