"""The stubs say what the compiled module does, and both say the same about it."""

import ast
import inspect
import pathlib
import subprocess
import sys

import pytest

import arrowwood
from arrowwood import _arrowwood, _types

ROOT = pathlib.Path(__file__).parents[2]
STUB = pathlib.Path(arrowwood.__file__).parent / "_arrowwood.pyi"
TYPES = pathlib.Path(arrowwood.__file__).parent / "_types.pyi"


def test_stubtest(tmp_path):
    pytest.importorskip("mypy.stubtest")
    # Slots of C until Python 3.12, which gave them names.
    allowed = tmp_path / "allowed"
    # A cached function, and the class that it makes, which no module contains.
    made_once = "arrowwood._sql._table_kind\narrowwood._sql.Table@.*\n"
    allowed.write_text("arrowwood._arrowwood.*.__(release_)?buffer__\n" + made_once)
    config = ["--mypy-config-file", ROOT / "pyproject.toml", "--allowlist", allowed, "--ignore-unused-allowlist"]
    command = [sys.executable, "-m", "mypy.stubtest", *config, "arrowwood"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def documented():
    for node in ast.parse(STUB.read_text()).body:
        hidden = any(isinstance(d, ast.Name) and d.id == "type_check_only" for d in getattr(node, "decorator_list", []))
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.ClassDef) and not hidden):
            yield node.name, getattr(_arrowwood, node.name), node
            for member in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    yield f"{node.name}.{member.name}", getattr(getattr(_arrowwood, node.name), member.name), member


@pytest.mark.parametrize(("name", "found", "node"), [pytest.param(*each, id=each[0]) for each in documented()])
def test_docstrings_agree(name, found, node):
    text = ast.get_docstring(node)
    assert text, f"{name} has no docstring in the stub"
    assert inspect.getdoc(found) == text


def test_docstrings_of_small_classes_agree():
    for node in ast.parse(TYPES.read_text()).body:
        if isinstance(node, ast.ClassDef):
            assert ast.get_docstring(node) == inspect.getdoc(getattr(_types, node.name)), node.name


def test_all_that_is_public_is_exported():
    public = {name for name in vars(_arrowwood) if not name.startswith("_")}
    assert public <= set(arrowwood.__all__)
