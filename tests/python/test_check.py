"""Tests that `check` reports damage with its position, and that `repair` keeps the rows before it and a backup."""

import pyarrow as pa
import pytest

import arrowwood as aw


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "ticks"
    with aw.writer(path, pa.schema({"n": "int64", "s": "utf8"}), segment_rows=10) as writer:
        writer.append({"n": range(25), "s": [f"t{n}" for n in range(25)]})
    return path


def overwrite(path, text):
    """Overwrites the first byte of `text` in a file, and returns the new contents."""
    data = bytearray(path.read_bytes())
    data[data.index(text)] = 0xFF
    path.write_bytes(data)
    return bytes(data)


def test_check_and_repair_find_nothing_in_a_good_table(table):
    report = aw.check(table)
    assert report.is_good and (report.rows, report.batches, report.segments) == (25, 3, 3)
    assert report.findings == [] and report.repaired is None
    assert aw.repair(table) == report


def test_repair_cuts_a_table_before_the_damaged_segment(table):
    damaged_segment, last_segment = table / f"{10:020}.arrow", table / f"{20:020}.arrow"
    data = overwrite(damaged_segment, b"t14")
    report = aw.check(table)
    assert not report.is_good
    for finding in report.findings:
        assert finding.is_damage and finding.path == damaged_segment and 0 < finding.offset < len(data)
    assert "expected checksum" in report.findings[0].message
    assert "column 's'" in report.findings[1].message

    # A wrong checksum makes all rows of its segment doubtful, so rows 10 to 13 are removed as well.
    report = aw.repair(table)
    backup = table.with_name("ticks.damaged")
    assert report.repaired == (10, 15, [backup / damaged_segment.name, backup / last_segment.name])
    assert (backup / damaged_segment.name).read_bytes() == data
    assert aw.check(table).is_good
    assert list(aw.open(table)["n"]) == list(range(10))
    with aw.writer(table) as writer:
        writer.append({"n": [10], "s": ["t10"]})
        with pytest.raises(aw.Busy):
            aw.repair(table)
    assert aw.open(table)[10] == {"n": 10, "s": "t10"}


def test_repair_cuts_a_file_before_the_damaged_batch(tmp_path):
    path = tmp_path / "a.arrow"
    aw.write({"s": [f"text {n}" for n in range(10)]}, path, max_rows=5)
    data = overwrite(path, b"text 7")
    report = aw.repair(path)
    assert report.repaired == (5, 5, [tmp_path / "a.arrow.damaged"])
    assert (tmp_path / "a.arrow.damaged").read_bytes() == data
    assert list(aw.open(path)["s"]) == [f"text {n}" for n in range(5)]


def test_check_and_repair_fail_for_a_missing_path(tmp_path):
    for call in [aw.check, aw.repair]:
        with pytest.raises(aw.NotFound):
            call(tmp_path / "none")
