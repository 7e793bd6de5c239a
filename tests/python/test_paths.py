"""Which files a path stands for: names with wildcards in them, names of any bytes, links, what may not be read."""

import os

import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import unprivileged


def values(source):
    return aw.open(source)["x"].to_pylist()


def make(folder, name="a.arrow", rows=(1,)):
    os.makedirs(folder, exist_ok=True)
    aw.write({"x": list(rows)}, os.path.join(folder, name))


def test_a_directory_is_opened_by_its_name_and_not_as_a_pattern(tmp_path):
    for name, rows in (
        ("run[1]", [111]),
        ("run1", [222]),
        ("only[x]", [333]),
        ("what?", [4]),
        ("whats", [5]),
        ("a*b", [6]),
    ):
        make(tmp_path / name, rows=rows)
    for name, rows in (("run[1]", [111]), ("run1", [222]), ("only[x]", [333]), ("what?", [4]), ("a*b", [6])):
        assert values(tmp_path / name) == rows, name
        assert aw.check(tmp_path / name).rows == 1
        assert values(tmp_path / name / "*.arrow") == rows
        assert aw.sql(f'select x from "{tmp_path}/{name}"')["x"].to_pylist() == rows
    # Where nothing has the name it is a pattern.
    assert values(tmp_path / "run[123]" / "*.arrow") == [222]


def test_tables_with_wildcards_in_their_names(tmp_path):
    path = tmp_path / "ticks[1]"
    with aw.writer(path, pa.schema({"x": "int64"})) as writer:
        writer.append_row(x=5)
    make(tmp_path / "ticks1", rows=[7])
    assert values(path) == [5] and aw.check(path).rows == 1
    assert [len(rows) for rows in aw.follow(path, start=0, timeout=0)] == [1]


def test_files_whose_names_are_no_text_are_not_left_out(tmp_path):
    folder = os.fsencode(tmp_path)
    make(tmp_path, "a.arrow", [1])
    strange = folder + b"/\xff.arrow"
    os.rename(make_one(tmp_path, [2]), strange)
    assert values(tmp_path) == values(tmp_path / "*.arrow") == values(tmp_path / "?.arrow") == [1, 2]
    assert aw.check(tmp_path).rows == 2
    assert values(os.fsdecode(strange)) == [2]
    os.truncate(strange, 100)
    with pytest.raises(aw.InvalidData) as problem:
        aw.open(tmp_path)
    # The path can be used, the message can be printed.
    assert os.fsencode(problem.value.path) == strange
    str(problem.value).encode()


def make_one(folder, rows):
    make(folder, "one.arrow", rows)
    return os.fsencode(folder / "one.arrow")


def test_what_might_hold_rows_is_not_passed_over(tmp_path, monkeypatch):
    make(tmp_path / "a")
    make(tmp_path / "b")
    os.symlink("nowhere", tmp_path / "a" / "lost.arrow")
    for source in (tmp_path / "a", tmp_path / "*" / "*.arrow"):
        with pytest.raises(aw.NotFound, match="lost"):
            aw.open(source)
    os.remove(tmp_path / "a" / "lost.arrow")
    assert values(tmp_path / "*" / "*.arrow") == [1, 1]
    os.chmod(tmp_path, 0o755)
    os.chmod(tmp_path / "b", 0)
    monkeypatch.chdir(tmp_path)
    with unprivileged(), pytest.raises(aw.PermissionDenied, match="^b: reading the directory"):
        aw.open("*/*.arrow")
    os.chmod(tmp_path / "b", 0o755)
