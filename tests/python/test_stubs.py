"""Tests that the type stubs agree with the compiled module, in signatures and in docstrings."""

import ast
import inspect
import pathlib
import subprocess
import sys

import pytest

import arrowwood
from arrowwood import _arrowwood, _types

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = pathlib.Path(arrowwood.__file__).parent
STUB = PACKAGE / "_arrowwood.pyi"
TYPES_STUB = PACKAGE / "_types.pyi"

# Names that stubtest finds in the compiled module and not in the stub: slots of C that have names in Python since 3.12,
# and in the package: a cached function, and a class that it creates, which belongs to no module.
ALLOWLIST = r"""
arrowwood._arrowwood.*.__(release_)?buffer__
arrowwood._engines.duckdb._table_class
arrowwood._engines.duckdb.Table@.*
"""


def test_stubs_match_the_compiled_module(tmp_path):
    pytest.importorskip("mypy.stubtest")
    allowlist = tmp_path / "allowed"
    allowlist.write_text(ALLOWLIST)
    config = ["--mypy-config-file", ROOT / "pyproject.toml", "--allowlist", allowlist, "--ignore-unused-allowlist"]
    command = [sys.executable, "-m", "mypy.stubtest", *config, "arrowwood"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def is_type_check_only(node: ast.ClassDef | ast.FunctionDef) -> bool:
    """Returns whether a definition exists in the stub and not at run time."""
    return any(isinstance(item, ast.Name) and item.id == "type_check_only" for item in node.decorator_list)


def documented_names():
    """Yields the qualified name, object and syntax tree of each public function, class and method in the stub."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, getattr(_arrowwood, node.name), node
        elif isinstance(node, ast.ClassDef) and not is_type_check_only(node):
            cls = getattr(_arrowwood, node.name)
            yield node.name, cls, node
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    yield f"{node.name}.{member.name}", getattr(cls, member.name), member


@pytest.mark.parametrize(
    ("name", "documented", "node"),
    [pytest.param(name, documented, node, id=name) for name, documented, node in documented_names()],
)
def test_docstrings_match_the_stub(name, documented, node):
    docstring = ast.get_docstring(node)
    assert docstring, f"{name} has no docstring in the stub"
    assert inspect.getdoc(documented) == docstring


def test_docstrings_of_python_types_match_the_stub():
    for node in ast.parse(TYPES_STUB.read_text()).body:
        if isinstance(node, ast.ClassDef):
            assert ast.get_docstring(node) == inspect.getdoc(getattr(_types, node.name)), node.name


def test_public_names_of_the_compiled_module_are_exported():
    public_names = {name for name in vars(_arrowwood) if not name.startswith("_")}
    assert public_names <= set(arrowwood.__all__)
