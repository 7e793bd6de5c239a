"""Tests that `check` names the damage and its position; `repair` keeps the rows before, and the damaged file."""

import pytest

import arrowwood as aw

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "ticks"
    with aw.writer(path, pa.schema({"n": "int64", "s": "utf8"}), segment_rows=10) as writer:
        writer.append({"n": range(25), "s": [f"t{n}" for n in range(25)]})
    return path


def damage(path, text):
    data = bytearray(path.read_bytes())
    data[data.index(text)] = 0xFF
    path.write_bytes(data)
    return bytes(data)


def test_what_is_good(table):
    report = aw.check(table)
    assert report.is_good and (report.rows, report.batches, report.segments) == (25, 3, 3)
    assert report.findings == [] and report.repaired is None
    assert aw.repair(table) == report


def test_a_table_is_repaired(table):
    name = table / f"{10:020}.arrow"
    data = damage(name, b"t14")
    report = aw.check(table)
    assert not report.is_good
    assert all(found.is_damage and found.path == name and 0 < found.offset < len(data) for found in report.findings)
    assert ["expected checksum" in report.findings[0].message, "column 's'" in report.findings[1].message] == [
        True,
        True,
    ]
    # Nothing under a checksum that is wrong is known to be good.
    report = aw.repair(table)
    aside = table.with_name("ticks.damaged")
    assert report.repaired == (10, 15, [aside / name.name, aside / f"{20:020}.arrow"])
    assert (aside / name.name).read_bytes() == data
    assert aw.check(table).is_good
    assert list(aw.open(table)["n"]) == list(range(10))
    with aw.writer(table) as writer:
        writer.append({"n": [10], "s": ["t10"]})
        with pytest.raises(aw.Busy):
            aw.repair(table)
    assert aw.open(table)[10] == {"n": 10, "s": "t10"}


def test_a_file_is_repaired(tmp_path):
    path = tmp_path / "a.arrow"
    aw.write({"s": [f"text {n}" for n in range(10)]}, path, max_rows=5)
    data = damage(path, b"text 7")
    report = aw.repair(path)
    assert report.repaired == (5, 5, [tmp_path / "a.arrow.damaged"])
    assert (tmp_path / "a.arrow.damaged").read_bytes() == data
    assert list(aw.open(path)["s"]) == [f"text {n}" for n in range(5)]


def test_what_is_not_there(tmp_path):
    for verb in [aw.check, aw.repair]:
        with pytest.raises(aw.NotFound):
            verb(tmp_path / "none")
