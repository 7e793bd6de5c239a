"""Tests which files a path stands for: names with wildcards or arbitrary bytes, links, and unreadable directories."""

import os

import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import unprivileged


def read_values(source):
    return aw.open(source)["x"].to_pylist()


def write_file(folder, name="a.arrow", values=(1,)):
    """Writes a file with the column `x`, and creates its folder if necessary."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    aw.write({"x": list(values)}, path)
    return path


def test_an_existing_name_is_not_a_pattern(tmp_path):
    values_by_name = {"run[1]": [111], "run1": [222], "only[x]": [333], "what?": [4], "a*b": [6]}
    # If "what?" were a pattern, it would match this folder.
    write_file(tmp_path / "whats", values=[5])
    for name, values in values_by_name.items():
        write_file(tmp_path / name, values=values)
    for name, values in values_by_name.items():
        assert read_values(tmp_path / name) == values, name
        assert aw.check(tmp_path / name).rows == 1
        assert read_values(tmp_path / name / "*.arrow") == values
        assert aw.sql(f'select x from "{tmp_path}/{name}"')["x"].to_pylist() == values
    # Names that do not exist are patterns.
    assert read_values(tmp_path / "run[123]" / "*.arrow") == [222]


def test_a_table_may_have_wildcards_in_its_name(tmp_path):
    path = tmp_path / "ticks[1]"
    with aw.writer(path, pa.schema({"x": "int64"})) as writer:
        writer.append_row(x=5)
    write_file(tmp_path / "ticks1", values=[7])
    assert read_values(path) == [5] and aw.check(path).rows == 1
    assert [len(rows) for rows in aw.follow(path, start=0, timeout=0)] == [1]


def test_file_names_that_are_not_utf8_are_found(tmp_path):
    write_file(tmp_path, "a.arrow", [1])
    path_not_utf8 = os.fsencode(tmp_path) + b"/\xff.arrow"
    os.rename(write_file(tmp_path, "one.arrow", [2]), path_not_utf8)
    assert read_values(tmp_path) == read_values(tmp_path / "*.arrow") == read_values(tmp_path / "?.arrow") == [1, 2]
    assert aw.check(tmp_path).rows == 2
    assert read_values(os.fsdecode(path_not_utf8)) == [2]
    os.truncate(path_not_utf8, 100)
    with pytest.raises(aw.InvalidData) as raised:
        aw.open(tmp_path)
    assert os.fsencode(raised.value.path) == path_not_utf8
    str(raised.value).encode()  # The message can be printed.


def test_broken_links_and_unreadable_directories_are_errors(tmp_path, monkeypatch):
    """Ignoring them would silently leave out rows."""
    write_file(tmp_path / "a")
    write_file(tmp_path / "b")
    os.symlink("nowhere", tmp_path / "a" / "lost.arrow")
    for source in (tmp_path / "a", tmp_path / "*" / "*.arrow"):
        with pytest.raises(aw.NotFound, match="lost"):
            aw.open(source)
    os.remove(tmp_path / "a" / "lost.arrow")
    assert read_values(tmp_path / "*" / "*.arrow") == [1, 1]
    os.chmod(tmp_path, 0o755)
    os.chmod(tmp_path / "b", 0)
    monkeypatch.chdir(tmp_path)
    with unprivileged(), pytest.raises(aw.PermissionDenied, match="^b: reading the directory"):
        aw.open("*/*.arrow")
    os.chmod(tmp_path / "b", 0o755)
