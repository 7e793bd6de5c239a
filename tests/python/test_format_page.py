"""Tests that docs/format.md is complete: `format_reader`, which is written from it, sees the same rows as Arrowwood."""

import contextlib
import datetime
import decimal
import gzip
import json
import os
import shutil
import subprocess
import sys

import pyarrow as pa
import pytest

import arrowwood as aw
import format_reader
from format_layout import PAGE, RECORD_SIZE, Malformed
from format_reader import DURABLE_RECORDS, VISIBLE_RECORDS, Segment, crc32c, open_table
from waits import PATIENCE, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="boot ids are read as Linux has them")

UTC = datetime.UTC
ALL_RECORDS = VISIBLE_RECORDS + DURABLE_RECORDS
SIMPLE = pa.schema([pa.field("i", pa.int64(), nullable=False), ("s", pa.string())])
ALL_TYPES = pa.schema(
    [
        pa.field("i", pa.int64(), nullable=False),
        ("u8", pa.uint8()),
        ("f", pa.float64()),
        pa.field("f32", pa.float32(), nullable=False),
        ("b", pa.bool_()),
        pa.field("b_full", pa.bool_(), nullable=False),
        ("t", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("dec", pa.decimal128(9, 2)),
        ("fsb", pa.binary(3)),
        ("s", pa.string()),
        pa.field("s_full", pa.string(), nullable=False),
        ("large", pa.large_string()),
        ("bytes", pa.binary()),
        ("v", pa.string_view()),
        pa.field("v_full", pa.string_view(), nullable=False),
        ("bv", pa.binary_view()),
        ("d", pa.dictionary(pa.int32(), pa.string())),
        ("l", pa.list_(pa.int32())),
        ("ll", pa.large_list(pa.list_(pa.field("item", pa.string(), nullable=False)))),
        ("fsl", pa.list_(pa.float32(), 3)),
        pa.field("st", pa.struct([pa.field("a", pa.int8(), nullable=False), ("u", pa.string()), ("b", pa.bool_())])),
        ("ld", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.field("deep", pa.struct([("x", pa.list_(pa.struct([("y", pa.list_(pa.bool_(), 2))])))]), nullable=False),
    ]
)


def make_row(number):
    """Returns a row of ALL_TYPES, with a null in each nullable column now and then."""
    row = {
        "i": number,
        "u8": number % 256,
        "f": number / 2,
        "f32": float(number % 1000),
        "b": number % 2 == 0,
        "b_full": number % 3 == 0,
        "t": datetime.datetime(2026, 1, 1, tzinfo=UTC) + datetime.timedelta(seconds=number),
        "day": datetime.date(2026, 1, 1) + datetime.timedelta(days=number % 365),
        "dec": decimal.Decimal(number).scaleb(-2),
        "fsb": b"%03d" % (number % 1000),
        "s": "é" * (number % 9),
        "s_full": str(number),
        "large": "L" * (number % 4),
        "bytes": bytes(number % 5),
        "v": "view" * (number % 8),
        "v_full": "more than twelve " + str(number),
        "bv": b"w" * (number % 30),
        "d": f"key {number % 17}",
        "l": [item if item % 2 else None for item in range(number % 5)],
        "ll": [["x" * length] * 2 if length else None for length in range(number % 4)],
        "fsl": [number, None, 0.5],
        "st": {"a": number % 100, "u": None if number % 2 else f"u{number}", "b": number % 5 == 0},
        "ld": [f"other {number % 7}", None],
        "deep": {"x": [{"y": [True, None]}, None, {"y": None}][: number % 4]},
    }
    for index, field in enumerate(ALL_TYPES):
        if field.nullable and (number + index) % (5 + index) == 0:
            row[field.name] = None
    return row


def simple_rows(first, end):
    """Returns the rows of SIMPLE with the numbers from `first` to `end`, as dicts."""
    return [{"i": i, "s": None if i % 3 == 0 else f"v{i}"} for i in range(first, end)]


def simple_table(first, end):
    return pa.Table.from_pylist(simple_rows(first, end), schema=SIMPLE)


def copy_of_killed(path, steps, **options):
    """Writes a table and copies its files before the writer closes, as a killed writer leaves them; returns the copy.

    A step is a number of rows to commit; "sync", which syncs, small commits through the log; or "record", which waits
    for a durable record. The first durable record must have the rows of the first commit, so tables whose writer made
    one before, without rows, are written again.
    """
    return wait_until(lambda: try_copy_of_killed(path, steps, **options), "the first record is of the first commit")


def try_copy_of_killed(path, steps, **options):
    """Does the work of `copy_of_killed`; returns None if there was a durable record without rows."""
    original = f"{path} being written"
    waits_for_records = "record" in steps
    if waits_for_records:
        shutil.rmtree(original, ignore_errors=True)
    options = {"sync": 0.1 if waits_for_records else "never", **options}
    is_first_record = True
    with aw.writer(original, SIMPLE, **options) as writer:
        for step in steps:
            if step == "sync":
                writer.sync()
            elif step == "record":
                wait_until(lambda: writer.durable_rows == writer.committed_rows, "the writer has synced by itself")
                [segment] = open_segments(original)
                if is_first_record and len(segment.read_whole_records(DURABLE_RECORDS)) == 2:
                    return None
                is_first_record = False
            else:
                writer.append(simple_table(writer.rows, writer.rows + step))
                writer.commit()
        return str(shutil.copytree(original, path))


def open_segments(path):
    """Returns all segments of a table, also those that do not count."""
    segments = [Segment(os.path.join(path, name)) for name in sorted(os.listdir(path))]
    for segment in segments:
        segment.refresh()
    return segments


def open_one_segment(path):
    [segment] = open_segments(path)
    return segment


def write_bytes(segment, offset, data):
    with open(segment.path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def flip_bit(segment, offset):
    """Flips a bit of a byte; a second call with the same segment, whose map shows the first flip, flips it back."""
    write_bytes(segment, offset, bytes([segment.data[offset] ^ 0x10]))


def replace_bytes(segment, start, length, changes, crc_offset):
    """Replaces bytes of the header or record at `start`, and corrects its checksum.

    `changes` has bytes by their offsets from `start`.
    """
    raw = bytearray(segment.data[start : start + length])
    for offset, data in changes.items():
        raw[offset : offset + len(data)] = data
    raw[crc_offset : crc_offset + 4] = bytes(4)
    raw[crc_offset : crc_offset + 4] = crc32c(raw).to_bytes(4, "little")
    write_bytes(segment, start, raw)


# Offsets of fields in the header and in a record.
HEADER_CRC, RECORD_CRC, RECORD_BOOT = 16, 12, 16


def pretend_reboot(path, records=ALL_RECORDS):
    """Gives records of all segments, and entries of their logs if all records are given, another boot ID."""
    for segment in open_segments(path):
        if segment.is_dense:
            continue
        header = segment.header
        offsets = [segment.record_offset(number) for number in records if segment.read_record(number)]
        if records == ALL_RECORDS:
            pages = range(header.log_offset, header.log_offset + header.log, PAGE)
            offsets += [page for page in pages if any(segment.data[page : page + 8])]
        for offset in offsets:
            record = segment.parse_record(segment.data[offset : offset + PAGE])
            if record:
                length = RECORD_SIZE + 8 * (header.counters + record.position_count)
                replace_bytes(segment, offset, length, {RECORD_BOOT: b"some other boot."}, RECORD_CRC)


def write_sequence(segment, sequence):
    write_bytes(segment, segment.header.live, sequence.to_bytes(8, "little"))


def undo_commit(segment):
    """Makes the commit before the newest the visible one."""
    write_sequence(segment, segment.live_sequence - 1)


def value_offset(segment, row):
    """Returns the offset of column `i` of a row of SIMPLE."""
    return segment.places[1].offset + 8 * row


def bitmap_offset(segment, row):
    """Returns the offset of the byte with the validity of column `s` of a row of SIMPLE."""
    return segment.places[2].offset + row // 8


def text_offset(segment, row):
    """Returns the offset of the end of column `s` of a row of SIMPLE, among the offsets of texts."""
    return segment.places[3].offset + 4 * (row + 1)


def read_with_both(path):
    """Returns the rows that both readers see."""
    rows = open_table(path).rows()
    assert rows == pa.table(aw.open(str(path))).to_pylist()
    return rows


def test_crc32c_equals_known_values():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_all_types_over_several_segments(tmp_path):
    path = tmp_path / "table"
    expected = [make_row(number) for number in range(700)]
    with aw.writer(str(path), ALL_TYPES, segment_rows=256) as writer:
        for first, end in [(0, 1), (1, 7), (7, 8), (8, 300), (300, 700)]:
            writer.append(pa.Table.from_pylist(expected[first:end], schema=ALL_TYPES))
            writer.commit()
            table = open_table(path)
            for segment in table.segments:
                segment.table().validate(full=True)
            assert table.rows() == expected[:end]
    assert len(table.segments) == 3
    assert read_with_both(path) == expected


def test_a_sorted_table_with_a_dictionary(tmp_path):
    path = tmp_path / "table"
    schema = pa.schema([pa.field("at", pa.timestamp("us"), nullable=False), ("name", pa.string()), ("x", pa.int16())])
    expected = [{"at": datetime.datetime(2026, 1, 1, 0, 0, i // 2), "name": f"n{i % 3}", "x": i} for i in range(25)]
    with aw.writer(str(path), schema, segment_rows=10, dictionary=["name"], sorted_by="at") as writer:
        for row in expected:
            writer.append_row(**row)
            writer.commit()
        assert read_with_both(path) == expected
    table = open_table(path)
    assert {segment.header.sorted_by for segment in table.segments} == {0}
    assert table.segments[0].schema.field("name").type == pa.dictionary(pa.int32(), pa.string())
    assert len(table.segments) == 3


VECTORS = os.path.join(os.path.dirname(__file__), "..", "vectors")


def is_variable_or_fixed_list(type):
    return (
        pa.types.is_list(type)
        or pa.types.is_large_list(type)
        or pa.types.is_fixed_size_list(type)
        or pa.types.is_list_view(type)
    )


def as_json(value, type):
    """Converts a value to its form in `expected.json`."""
    if value is None:
        return None
    if pa.types.is_struct(type):
        return {field.name: as_json(value[field.name], field.type) for field in type}
    if pa.types.is_map(type):
        return [list(entry) for entry in value]
    if is_variable_or_fixed_list(type):
        return [as_json(item, type.value_type) for item in value]
    if pa.types.is_interval(type):
        return list(value)
    if pa.types.is_decimal(type):
        return f"{value:f}"
    return value.hex() if isinstance(value, bytes) else value


def times_as_integers(array):
    """Replaces times by the integers that are stored for them."""
    type = array.type
    if pa.types.is_struct(type):
        children = [times_as_integers(array.field(i)) for i in range(type.num_fields)]
        fields = [pa.field(field.name, child.type) for field, child in zip(type, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if pa.types.is_list(type):
        return pa.ListArray.from_arrays(array.offsets, times_as_integers(array.values), mask=array.is_null())
    if pa.types.is_temporal(type) and not pa.types.is_interval(type):
        return array.view(pa.int64() if type.bit_width == 64 else pa.int32())
    return array


def rows_as_json(table):
    """Returns the rows of a table in their form in `expected.json`; columns that a segment lacks are null."""
    rows, names = [], table.segments[-1].table().schema.names
    for segment in table.segments:
        for batch in segment.table().to_batches():
            columns = [times_as_integers(array) for array in batch.columns]
            batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
            types = {field.name: field.type for field in batch.schema}
            for row in batch.to_pylist():
                rows.append({name: as_json(row[name], types[name]) if name in types else None for name in names})
    return rows


def unpack_vector(folder, target):
    """Unpacks the segments of a test vector, and returns its `expected.json`."""
    for name in os.listdir(folder):
        if name.endswith(".gz"):
            with gzip.open(os.path.join(folder, name)) as packed:
                (target / name.removesuffix(".gz")).write_bytes(packed.read())
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        return json.load(file)


def assert_zones_match(segment):
    """Compares the zones of a segment with its values."""
    for column, zones in segment.read_zones().items():
        column_values = segment.table()[column].to_pylist()
        for zone in zones:
            values = [column_values[row] for row in zone.rows if column_values[row] is not None]
            values = [value.encode() if isinstance(value, str) else value for value in values]
            assert zone.nulls == len(zone.rows) - len(values)
            assert (zone.smallest, zone.largest) == (min(values), max(values))


@pytest.mark.parametrize("name", sorted(os.listdir(VECTORS)))
def test_vectors_have_their_expected_rows(tmp_path, monkeypatch, name):
    expected = unpack_vector(os.path.join(VECTORS, name), tmp_path)
    monkeypatch.setattr(format_reader, "boot_id", lambda: bytes.fromhex(expected["boot"]))
    monkeypatch.setattr(format_reader, "mount_id", lambda path: expected["mount"])
    if "refused" in expected:
        with pytest.raises(Malformed):
            open_table(tmp_path)
        return
    table = open_table(tmp_path)
    assert (table.first_row, table.positions) == (expected["first_row"], expected["positions"])
    assert rows_as_json(table) == expected["rows"]
    for segment in table.segments:
        if not segment.is_dense:
            assert_zones_match(segment)


def test_an_empty_table(tmp_path):
    aw.writer(str(tmp_path / "table"), ALL_TYPES).close()
    assert read_with_both(tmp_path / "table") == []


def test_refresh_continues_in_new_segments(tmp_path):
    with aw.writer(str(tmp_path / "table"), SIMPLE, segment_rows=100) as writer:
        table = open_table(tmp_path / "table")
        assert (table.end, table.refresh()) == (0, False)
        end = 0
        for rows in [1, 0, 99, 1, 250, 3]:
            writer.append(simple_table(end, end + rows))
            assert not table.refresh(), "rows are visible before their commit"
            writer.commit()
            assert table.refresh() == (rows > 0)
            assert table.rows(end) == simple_rows(end, end + rows)
            end += rows
        assert [segment.first_row for segment in table.segments] == [0, 100, 200, 300]
    assert not table.refresh()
    assert table.rows() == simple_rows(0, end)


# Commits 6,000 rows in batches of several sizes.
WRITER = """if True:
    import sys, arrowwood as aw
    from test_format_page import SIMPLE, simple_table
    data = simple_table(0, 6000)
    with aw.writer(sys.argv[1], SIMPLE, segment_rows=500) as writer:
        print(flush=True)
        while writer.rows < 6000:
            first = writer.rows
            writer.append(data[first:min(first + 1 + first % 1300 // 2, 6000)])
            writer.commit()
"""


def test_refresh_while_another_process_commits(tmp_path):
    path = tmp_path / "table"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, path],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
    )
    try:
        child.stdout.readline()
        table, rows = open_table(path), []
        while len(rows) < 6000:
            # Look before refreshing, as the child may commit and end in between.
            has_ended = child.poll() is not None
            if table.refresh():
                rows += table.rows(len(rows))
                assert len(open_table(path).rows()) >= len(rows)
            else:
                assert not has_ended, f"the writer has ended, and {len(rows)} rows are seen"
        assert rows == simple_rows(0, 6000)
        assert child.wait(PATIENCE) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()
        child.stdout.close()


def test_dense_segments(tmp_path):
    path = tmp_path / "table"
    with aw.writer(str(path), SIMPLE, segment_rows=100) as writer:
        writer.append(simple_table(0, 250))
        writer.commit()
    opened_before = open_table(path)
    assert aw.compact(str(path)) == 3
    assert opened_before.rows() == read_with_both(path) == simple_rows(0, 250)
    table = open_table(path)
    assert all(segment.is_dense for segment in table.segments)
    with aw.writer(str(path)) as writer:
        writer.append(simple_table(250, 275))
        writer.commit()
        assert table.refresh()
        assert table.rows() == read_with_both(path) == simple_rows(0, 275)


def test_dropped_segments(tmp_path):
    path = tmp_path / "table"
    with aw.writer(str(path), SIMPLE, segment_rows=100) as writer:
        writer.append(simple_table(0, 250))
        writer.commit()
        writer.drop_before(120)
        assert read_with_both(path) == simple_rows(100, 250)


def test_provisional_segments_count_with_the_commit_that_seals_the_one_before(tmp_path):
    path = copy_of_killed(tmp_path / "table", [50, 350], segment_rows=100)
    old, *new = open_segments(path)
    assert len(read_with_both(path)) == 400
    # Undo the last step of the commit: the new segments are provisional again.
    for segment in new:
        undo_commit(segment)
        assert len(read_with_both(path)) == 400
    # Undo the store that made the commit visible, and repeat it.
    undo_commit(old)
    assert read_with_both(path) == simple_rows(0, 50)
    table = open_table(path)
    write_sequence(old, old.sequence)
    assert table.refresh()
    assert table.rows() == read_with_both(path) == simple_rows(0, 400)

    undo_commit(old)
    prepared = shutil.copytree(path, f"{path} prepared")
    # Clear the prepared record, as a writer does whose commit failed: the next writer removes the new segments.
    write_bytes(old, old.record_offset((old.live_sequence + 1) % 2), bytes(8))
    os.remove(new[-1].path)
    assert read_with_both(path) == simple_rows(0, 50)
    aw.writer(path).close()
    assert len(os.listdir(path)) == 1
    assert read_with_both(path) == simple_rows(0, 50)

    # With a prepared record the next writer finishes the commit.
    assert read_with_both(prepared) == simple_rows(0, 50)
    aw.writer(prepared).close()
    assert read_with_both(prepared) == simple_rows(0, 400)


def test_a_closed_table_after_a_reboot(tmp_path):
    with aw.writer(str(tmp_path / "table"), SIMPLE, segment_rows=100) as writer:
        writer.append(simple_table(0, 250))
        writer.commit()
    for name, records in [("all", ALL_RECORDS), ("visible", VISIBLE_RECORDS)]:
        copy = str(shutil.copytree(tmp_path / "table", tmp_path / name))
        pretend_reboot(copy, records)
        assert read_with_both(copy) == simple_rows(0, 250)
        with aw.writer(copy) as writer:
            writer.append(simple_table(250, 260))
            writer.commit()
            assert read_with_both(copy) == simple_rows(0, 260)


def test_a_reboot_loses_rows_that_were_not_durable(tmp_path):
    path = copy_of_killed(tmp_path / "table", [10, "sync", 15, "sync", 15])
    assert read_with_both(path) == simple_rows(0, 40)
    pretend_reboot(path)
    assert read_with_both(path) == simple_rows(0, 25)
    with aw.writer(path) as writer:
        assert (writer.rows, writer.dropped_rows) == (25, 15)
    assert read_with_both(path) == simple_rows(0, 25)


@pytest.mark.parametrize(
    ("damaged", "end"),
    [
        ([("i", 25)], 25),  # the first row of the newest delta
        ([("s", 31)], 25),  # its last row
        ([("i", 25), ("i", 3)], 25),  # the record before the older one was overwritten, so its delta isn't checked
        ([("i", 3)], 32),  # not in the newest delta
    ],
)
def test_damage_in_the_last_of_three_deltas(tmp_path, damaged, end):
    path = copy_of_killed(tmp_path / "table", [10, "record", 15, "record", 7, "record"])
    pretend_reboot(path)
    segment = open_one_segment(path)
    for column, row in damaged:
        flip_bit(segment, value_offset(segment, row) if column == "i" else text_offset(segment, row))
    assert len(read_with_both(path)) == end


def test_damage_in_the_log(tmp_path):
    """Damage in the columns is repaired from the log; a torn entry does not count, nor do the entries behind it."""
    path = copy_of_killed(tmp_path / "table", [10, "sync", 15, "sync", 7, "sync"])
    pretend_reboot(path)
    segment = open_one_segment(path)
    flip_bit(segment, value_offset(segment, 20))
    assert read_with_both(path) == simple_rows(0, 32)
    for entry, end in [(2, 25), (1, 10), (0, 0)]:
        flip_bit(segment, segment.header.log_offset + PAGE * entry + 200)
        assert read_with_both(path) == simple_rows(0, end)


def test_a_log_after_a_durable_record(tmp_path):
    original = copy_of_killed(tmp_path / "table", [10, "sync", 15, "sync"])
    path = f"{original} killed"
    with aw.writer(original, sync="never") as writer:
        for end in (30, 32):
            writer.append(simple_table(writer.rows, end))
            writer.commit(durable=True, positions={"i": end})
        shutil.copytree(original, path)
    pretend_reboot(path)
    assert read_with_both(path) == simple_rows(0, 32)
    assert open_one_segment(path).positions == aw.open(path).positions == {"i": 32}


def test_damage_in_the_first_and_second_delta(tmp_path):
    path = copy_of_killed(tmp_path / "table", [10, "record", 15, "record"])
    pretend_reboot(path)
    segment = open_one_segment(path)
    flip_bit(segment, value_offset(segment, 20))
    assert read_with_both(path) == simple_rows(0, 10)
    flip_bit(segment, value_offset(segment, 20))
    assert read_with_both(path) == simple_rows(0, 25)
    # Both deltas have the byte with the bit of row 12.
    flip_bit(segment, bitmap_offset(segment, 12))
    assert read_with_both(path) == simple_rows(0, 10)
    flip_bit(segment, value_offset(segment, 5))
    assert read_with_both(path) == []


def test_unused_bits_of_a_bitmap_are_ignored(tmp_path):
    path = copy_of_killed(tmp_path / "table", [10, "sync"])
    pretend_reboot(path)
    segment = open_one_segment(path)
    flip_bit(segment, bitmap_offset(segment, 12))
    assert read_with_both(path) == simple_rows(0, 10)


def test_torn_durable_records(tmp_path):
    path = copy_of_killed(tmp_path / "table", [10, "record", 15, "record"])
    pretend_reboot(path)
    segment = open_one_segment(path)
    older, newest = sorted(DURABLE_RECORDS, key=lambda number: segment.read_record(number).sequence)
    flip_bit(segment, segment.record_offset(newest) + RECORD_SIZE)
    assert read_with_both(path) == simple_rows(0, 10)
    flip_bit(segment, segment.record_offset(older))
    assert read_with_both(path) == []


def test_a_table_reopened_after_closing(tmp_path):
    with aw.writer(f"{tmp_path / 'table'} being written", SIMPLE) as writer:
        writer.append(simple_table(0, 12))
        writer.commit()
    path = copy_of_killed(tmp_path / "table", [9, "sync", 5])
    pretend_reboot(path)
    assert read_with_both(path) == simple_rows(0, 21)
    segment = open_one_segment(path)
    flip_bit(segment, value_offset(segment, 20))
    assert read_with_both(path) == simple_rows(0, 12)


def assert_refused_by_both(path, match=None):
    with pytest.raises(aw.InvalidData if match else aw.Error, match=match):
        aw.open(path)
    with pytest.raises(Malformed):
        open_table(path)


def test_a_damaged_header_is_refused(tmp_path):
    path = copy_of_killed(tmp_path / "table", [10])
    segment = open_one_segment(path)
    start = segment.header.live - PAGE
    for offset in [8, 16, 20, 40, 112, 130]:
        flip_bit(segment, start + offset)
        assert_refused_by_both(path)
        flip_bit(segment, start + offset)
    assert read_with_both(path) == simple_rows(0, 10)


# Values that fields of the header can't have, by the offset and size of the field.
WRONG_HEADER_VALUES = {
    (20, 4): [0, 1, 2**32 - 1],  # slots
    (24, 8): [1, 2**62],  # first_row
    (32, 8): [0, 9, 2**48],  # capacity
    (40, 8): [0, 1, 4096, 2**63],  # live
    (48, 8): [0, 100, 8192, 2**63],  # record
    (56, 8): [0, 65536, 2**63],  # ring
    (64, 8): [0, 32, 2**40],  # slot
    (72, 8): [0, 64, 2**63],  # tail
    (80, 8): [0, 32, 2**40],  # footer
    (88, 8): [0, 2**40],  # file
    (96, 4): [0, 1, 2**31],  # buffers
    (100, 4): [0, 1, 2**31],  # counters
    (104, 4): [2, 77],  # sorted_by
    (108, 2): [1, 2**16 - 1],  # zones
    (110, 2): [1, 2],  # flags
    (112, 8): [0, 1, 2**48],  # segment_rows
}
SLOTS_OFFSET, SEGMENT_ROWS_OFFSET = 20, 112


def wrong_header_values(header, field):
    """Returns wrong values by the offset and size of the fields that `field` stands for."""
    if field == "buffers":
        return {(128 + 8 * word, 8): [1, 4096, 2**63] for word in range(2 * header.buffers)}
    if field == "limits":
        start = 128 + 16 * header.buffers
        return {(start + 8 * number, 8): [2**48, 2**63] for number in range(header.counters)}
    return {field: WRONG_HEADER_VALUES[field]}


def read_integer(segment, offset, size):
    return int.from_bytes(segment.data[offset : offset + size], "little")


@pytest.mark.parametrize("field", [*WRONG_HEADER_VALUES, "buffers", "limits"])
def test_a_header_with_a_right_checksum_and_a_wrong_field_is_refused(tmp_path, field):
    path = copy_of_killed(tmp_path / "table", [10])
    segment = open_one_segment(path)
    header = segment.header
    start = header.live - PAGE
    for (offset, size), values in wrong_header_values(header, field).items():
        right = read_integer(segment, start + offset, size)
        if field != "limits" and offset != SEGMENT_ROWS_OFFSET:
            # A few more slots could fit before the next buffer, which is aligned, so add many.
            values = [*values, right + (64 if offset == SLOTS_OFFSET else 1)]
        for value in values:
            if value >> 8 * size:
                continue
            changes = {offset: value.to_bytes(size, "little")}
            replace_bytes(segment, start, header.length, changes, HEADER_CRC)
            assert_refused_by_both(path, match="header")
            changes = {offset: right.to_bytes(size, "little")}
            replace_bytes(segment, start, header.length, changes, HEADER_CRC)
    assert read_with_both(path) == simple_rows(0, 10)


def assert_record_is_checked(path, segment, number):
    """Gives fields of a record wrong values with right checksums, and checks that both readers refuse the segment."""
    record = segment.read_record(number)
    start, length = segment.record_offset(number), RECORD_SIZE + 8 * segment.header.counters
    wrong_values = {
        64: [record.counters[1] - 1, segment.limits[0] + 1, 2**63],  # rows: less than the nulls, and above the limit
        72: [21, 2**63],  # nulls
        80: [2**63],  # bytes of text
        32: [record.sequence, 2**63],  # previous
    }
    for offset, values in wrong_values.items():
        right = read_integer(segment, start + offset, 8)
        for value in values:
            replace_bytes(segment, start, length, {offset: value.to_bytes(8, "little")}, RECORD_CRC)
            assert_refused_by_both(path, match=f"the record of commit {record.sequence}")
            replace_bytes(segment, start, length, {offset: right.to_bytes(8, "little")}, RECORD_CRC)


def test_a_visible_record_with_a_right_checksum_and_a_wrong_field_is_refused(tmp_path):
    path = copy_of_killed(tmp_path / "table", [10, "record", 5, "record", 5])
    segment = open_one_segment(path)
    assert_record_is_checked(path, segment, segment.sequence % 2)
    assert len(read_with_both(path)) == 20


def test_a_durable_record_with_a_right_checksum_and_a_wrong_field_is_refused(tmp_path):
    path = copy_of_killed(tmp_path / "table", [10, "record", 5, "record"])
    pretend_reboot(path)
    segment = open_one_segment(path)
    newest = max(DURABLE_RECORDS, key=lambda number: segment.read_record(number).sequence)
    assert_record_is_checked(path, segment, newest)
    assert len(read_with_both(path)) == 15


def reboot_with_rows_in_several_segments(path, steps):
    path = copy_of_killed(path, steps, segment_rows=100)
    pretend_reboot(path)
    return path


SEVERAL_SEGMENTS = pytest.mark.parametrize(("steps", "end"), [([150, "sync", 120], 150), ([270], 0)])


@SEVERAL_SEGMENTS
def test_a_reboot_breaks_the_chain_of_segments(tmp_path, steps, end):
    path = reboot_with_rows_in_several_segments(tmp_path / "table", steps)
    assert open_table(path).rows() == simple_rows(0, end)


@SEVERAL_SEGMENTS
def test_a_writer_continues_before_a_broken_chain(tmp_path, steps, end):
    path = reboot_with_rows_in_several_segments(tmp_path / "table", steps)
    assert read_with_both(path) == simple_rows(0, end)
    with aw.writer(path) as writer:
        assert writer.rows == end
        writer.append(simple_table(end, end + 7))
        writer.commit()
    assert read_with_both(path) == simple_rows(0, end + 7)


def reboot_with_lost_pages(path, lost):
    """Writes 25 durable rows and 15 others, pretends a reboot, and damages what is visible."""
    path = copy_of_killed(path, [10, "sync", 15, "sync", 15])
    pretend_reboot(path)
    segment = open_one_segment(path)
    if lost == "all":
        write_bytes(segment, segment.header.live, bytes(PAGE + 2 * segment.header.record))
    elif lost == "sequence":
        write_sequence(segment, segment.sequence - 2)
    else:
        flip_bit(segment, segment.record_offset(segment.sequence % 2) + RECORD_SIZE)
    return path


LOST_PAGES = pytest.mark.parametrize("lost", ["record", "sequence", "all"])


@LOST_PAGES
def test_a_reboot_without_a_whole_visible_record(tmp_path, lost):
    path = reboot_with_lost_pages(tmp_path / "table", lost)
    assert open_table(path).rows() == simple_rows(0, 25)


@LOST_PAGES
def test_a_writer_continues_without_a_whole_visible_record(tmp_path, lost):
    path = reboot_with_lost_pages(tmp_path / "table", lost)
    assert read_with_both(path) == simple_rows(0, 25)
    with aw.writer(path) as writer:
        assert writer.rows == 25
