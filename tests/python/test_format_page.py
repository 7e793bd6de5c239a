"""docs/format.md says enough: a reader written from that page sees the same rows as the real one."""

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
from format_reader import Malformed, Segment, crc32c, open_table
from waits import PATIENCE, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="boot ids are read as Linux has them")

UTC = datetime.UTC
SIMPLE = pa.schema([pa.field("i", pa.int64(), nullable=False), ("s", pa.string())])
EVERY = pa.schema(
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


def every(i):
    """Row `i`, with a null in each nullable column now and then."""
    row = {
        "i": i,
        "u8": i % 256,
        "f": i / 2,
        "f32": float(i % 1000),
        "b": i % 2 == 0,
        "b_full": i % 3 == 0,
        "t": datetime.datetime(2026, 1, 1, tzinfo=UTC) + datetime.timedelta(seconds=i),
        "day": datetime.date(2026, 1, 1) + datetime.timedelta(days=i % 365),
        "dec": decimal.Decimal(i).scaleb(-2),
        "fsb": b"%03d" % (i % 1000),
        "s": "é" * (i % 9),
        "s_full": str(i),
        "large": "L" * (i % 4),
        "bytes": bytes(i % 5),
        "v": "view" * (i % 8),
        "v_full": "more than twelve " + str(i),
        "bv": b"w" * (i % 30),
        "d": f"key {i % 17}",
        "l": [j if j % 2 else None for j in range(i % 5)],
        "ll": [["x" * j] * 2 if j else None for j in range(i % 4)],
        "fsl": [i, None, 0.5],
        "st": {"a": i % 100, "u": None if i % 2 else f"u{i}", "b": i % 5 == 0},
        "ld": [f"other {i % 7}", None],
        "deep": {"x": [{"y": [True, None]}, None, {"y": None}][: i % 4]},
    }
    fields = enumerate(EVERY)
    return {f.name: None if f.nullable and (i + n) % (5 + n) == 0 else row[f.name] for n, f in fields}


def rows_of(first, end):
    return [{"i": i, "s": None if i % 3 == 0 else f"v{i}"} for i in range(first, end)]


def simple(first, end):
    return pa.Table.from_pylist(rows_of(first, end), schema=SIMPLE)


def killed(path, steps, **options):
    """Returns a copy of the files of a writer that was killed after `steps`.

    A step is a number of rows to commit, "sync", which goes to the log where it is small, or "record", which waits for
    a durable record. The first of these is of the first commit: on a busy machine it may come before, of no rows.
    """
    return wait_until(lambda: killed_in_time(path, steps, **options), "the first record is of the first commit")


def killed_in_time(path, steps, **options):
    """Does the work of `killed`; returns None if there was a durable record without rows."""
    sync, records = 0.1 if "record" in steps else "never", 0
    if "record" in steps:
        shutil.rmtree(f"{path} being written", ignore_errors=True)
    with aw.writer(f"{path} being written", SIMPLE, **{"sync": sync, **options}) as writer:
        for step in steps:
            if step == "sync":
                writer.sync()
            elif step == "record":
                wait_until(lambda: writer.durable_rows == writer.committed_rows, "the writer has synced by itself")
                records += 1
                [segment] = segments(f"{path} being written")
                if records == 1 and all(segment.record_at(place) for place in (2, 3)):
                    return None
            else:
                writer.append(simple(writer.rows, writer.rows + step))
                writer.commit()
        return str(shutil.copytree(f"{path} being written", path))


def segments(path):
    found = [Segment(os.path.join(path, name)) for name in sorted(os.listdir(path))]
    for segment in found:
        segment.refresh()
    return found


def write(path, segment, at, data):
    with open(os.path.join(path, f"{segment.name:020}.arrow"), "r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path, segment, at):
    write(path, segment, at, bytes([segment.bytes[at] ^ 0x10]))


def set_boot(path, boot=b"some other boot.", places=range(4)):
    """Let the records of all segments be of another boot, with right checksums."""
    for segment in segments(path):
        if segment.dense is None:
            h = segment.header
            found = [h.live + 4096 + place * h.record for place in places if segment.record_at(place)]
            if len(places) == 4:
                log = h.live + 4096 + 4 * h.record
                found += [at for at in range(log, log + h.log, 4096) if any(segment.bytes[at : at + 8])]
            for at in found:
                record = segment.parse(segment.bytes[at : at + 4096])
                if record:
                    raw = bytearray(segment.bytes[at : at + 64 + 8 * (h.counters + record.count)])
                    raw[12:16], raw[16:32] = bytes(4), boot
                    raw[12:16] = crc32c(raw).to_bytes(4, "little")
                    write(path, segment, at, raw)


def undo(path, segment):
    """Let the commit before the newest be the visible one."""
    write(path, segment, segment.header.live, (segment.word[0] - 1).to_bytes(8, "little"))


def real(path):
    return pa.table(aw.open(str(path))).to_pylist()


def agree(path):
    """Returns the results of both readers."""
    rows = open_table(path).rows()
    assert rows == real(path)
    return rows


def test_checksum():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_every_type_over_several_segments(tmp_path):
    path = tmp_path / "table"
    wanted = [every(i) for i in range(700)]
    with aw.writer(str(path), EVERY, segment_rows=256) as writer:
        for first, end in [(0, 1), (1, 7), (7, 8), (8, 300), (300, 700)]:
            writer.append(pa.Table.from_pylist(wanted[first:end], schema=EVERY))
            writer.commit()
            table = open_table(path)
            for segment in table.segments:
                segment.table().validate(full=True)
            assert table.rows() == wanted[:end]
    assert len(table.segments) == 3
    assert agree(path) == wanted


def test_rows_one_by_one_sorted_and_with_a_dictionary(tmp_path):
    schema = pa.schema([pa.field("at", pa.timestamp("us"), nullable=False), ("name", pa.string()), ("x", pa.int16())])
    with aw.writer(str(tmp_path / "table"), schema, segment_rows=10, dictionary=["name"], sorted_by="at") as writer:
        wanted = []
        for i in range(25):
            wanted.append({"at": datetime.datetime(2026, 1, 1, 0, 0, i // 2), "name": f"n{i % 3}", "x": i})
            writer.append_row(**wanted[-1])
            writer.commit()
        assert agree(tmp_path / "table") == wanted
    table = open_table(tmp_path / "table")
    assert {segment.header.sorted_by for segment in table.segments} == {0}
    assert table.segments[0].schema.field("name").type == pa.dictionary(pa.int32(), pa.string())
    assert len(table.segments) == 3


VECTORS = os.path.join(os.path.dirname(__file__), "..", "vectors")


def as_json(value, t):
    """A value as `expected.json` has it."""
    if value is None:
        return None
    if pa.types.is_struct(t):
        return {field.name: as_json(value[field.name], field.type) for field in t}
    if pa.types.is_map(t):
        return [list(entry) for entry in value]
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t) or pa.types.is_list_view(t):
        return [as_json(item, t.value_type) for item in value]
    if pa.types.is_interval(t):
        return list(value)
    if pa.types.is_decimal(t):
        return f"{value:f}"
    return value.hex() if isinstance(value, bytes) else value


def stored(array):
    """The array with the numbers that stand in its buffers in the place of times."""
    t = array.type
    if pa.types.is_struct(t):
        fields = [stored(array.field(i)) for i in range(t.num_fields)]
        return pa.StructArray.from_arrays(
            fields, fields=[pa.field(t[i].name, f.type) for i, f in enumerate(fields)], mask=array.is_null()
        )
    if pa.types.is_list(t):
        return pa.ListArray.from_arrays(array.offsets, stored(array.values), mask=array.is_null())
    return (
        array.view(pa.int64() if t.bit_width == 64 else pa.int32())
        if pa.types.is_temporal(t) and not pa.types.is_interval(t)
        else array
    )


def vector_rows(table):
    rows, names = [], table.segments[-1].table().schema.names
    for segment in table.segments:
        for batch in segment.table().to_batches():
            batch = pa.RecordBatch.from_arrays([stored(array) for array in batch.columns], names=batch.schema.names)
            own = {f.name: f.type for f in batch.schema}
            # Rows of an older schema are null in the columns that it lacks.
            rows += [
                {name: as_json(row[name], own[name]) if name in own else None for name in names}
                for row in batch.to_pylist()
            ]
    return rows


@pytest.mark.parametrize("name", sorted(os.listdir(VECTORS)))
def test_golden_vectors(tmp_path, monkeypatch, name):
    folder = os.path.join(VECTORS, name)
    for file in os.listdir(folder):
        if file.endswith(".gz"):
            with gzip.open(os.path.join(folder, file)) as packed:
                (tmp_path / file.removesuffix(".gz")).write_bytes(packed.read())
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    monkeypatch.setattr(format_reader, "boot_id", lambda: bytes.fromhex(expected["boot"]))
    monkeypatch.setattr(format_reader, "mount_id", lambda path: expected["mount"])
    if "refused" in expected:
        with pytest.raises(Malformed):
            open_table(tmp_path)
        return
    table = open_table(tmp_path)
    assert (table.first_row, table.positions) == (expected["first_row"], expected["positions"])
    assert vector_rows(table) == expected["rows"]
    for segment in table.segments:
        for column, zones in (segment.bounds() if segment.dense is None else {}).items():
            values = segment.table()[column].to_pylist()
            for rows, nulls, low, high in zones:
                here = [values[row] for row in rows if values[row] is not None]
                here = [value.encode() if isinstance(value, str) else value for value in here]
                assert (len(rows) - len(here), min(here), max(here)) == (nulls, low, high)


def test_an_empty_table(tmp_path):
    aw.writer(str(tmp_path / "table"), EVERY).close()
    assert agree(tmp_path / "table") == []


def test_refresh_goes_on_over_segments(tmp_path):
    with aw.writer(str(tmp_path / "table"), SIMPLE, segment_rows=100) as writer:
        table = open_table(tmp_path / "table")
        assert (table.end, table.refresh()) == (0, False)
        end = 0
        for step in [1, 0, 99, 1, 250, 3]:
            writer.append(simple(end, end + step))
            assert not table.refresh()  # not committed yet
            writer.commit()
            assert table.refresh() == (step > 0)
            assert table.rows(end) == rows_of(end, end + step)
            end += step
        assert [segment.name for segment in table.segments] == [0, 100, 200, 300]
    assert not table.refresh()
    assert table.rows() == rows_of(0, end)


def test_while_a_writer_is_committing(tmp_path):
    code = """if True:
        import sys, arrowwood as aw
        from test_format_page import SIMPLE, simple
        data = simple(0, 6000)
        with aw.writer(sys.argv[1], SIMPLE, segment_rows=500) as writer:
            print(flush=True)
            while writer.rows < 6000:
                first = writer.rows
                writer.append(data[first:min(first + 1 + first % 1300 // 2, 6000)])
                writer.commit()
    """
    path = tmp_path / "table"
    child = subprocess.Popen(
        [sys.executable, "-c", code, path],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
    )
    try:
        child.stdout.readline()
        table, seen = open_table(path), []
        while len(seen) < 6000:
            is_over = child.poll() is not None
            if table.refresh():
                seen += table.rows(len(seen))
                assert len(open_table(path).rows()) >= len(seen)
            else:
                assert not is_over, f"the writer has ended, and {len(seen)} rows are seen"
        assert seen == rows_of(0, 6000)
        assert child.wait(PATIENCE) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()
        child.stdout.close()


def test_segments_that_are_dense(tmp_path):
    path = tmp_path / "table"
    with aw.writer(str(path), SIMPLE, segment_rows=100) as writer:
        writer.append(simple(0, 250))
        writer.commit()
    before = open_table(path)
    assert aw.compact(str(path)) == 3
    assert before.rows() == agree(path) == rows_of(0, 250)
    table = open_table(path)
    assert all(segment.dense is not None for segment in table.segments)
    with aw.writer(str(path)) as writer:
        writer.append(simple(250, 275))
        writer.commit()
        assert table.refresh()
        assert table.rows() == agree(path) == rows_of(0, 275)


def test_first_segments_that_are_dropped(tmp_path):
    path = tmp_path / "table"
    with aw.writer(str(path), SIMPLE, segment_rows=100) as writer:
        writer.append(simple(0, 250))
        writer.commit()
        writer.drop_before(120)
        assert agree(path) == rows_of(100, 250)


def test_segments_that_are_provisional(tmp_path):
    path = killed(tmp_path / "table", [50, 350], segment_rows=100)
    old, *new = segments(path)
    assert len(agree(path)) == 400
    for segment in new:  # the reverse of the order in which a writer commits
        undo(path, segment)
        assert len(agree(path)) == 400
    undo(path, old)  # the store that made them visible
    assert agree(path) == rows_of(0, 50)
    table = open_table(path)
    write(path, old, old.header.live, old.sequence.to_bytes(8, "little"))
    assert table.refresh()
    assert table.rows() == agree(path) == rows_of(0, 400)
    undo(path, old)
    prepared = shutil.copytree(path, f"{path} prepared")
    h = old.header  # as a writer does whose commit failed
    write(path, old, h.live + 4096 + (old.word[0] + 1) % 2 * h.record, bytes(8))
    os.remove(os.path.join(path, f"{new[-1].name:020}.arrow"))
    assert agree(path) == rows_of(0, 50)
    aw.writer(path).close()
    assert len(os.listdir(path)) == 1
    assert agree(path) == rows_of(0, 50)
    assert agree(prepared) == rows_of(0, 50)  # a whole record of the next number: the next writer goes forward
    aw.writer(prepared).close()
    assert agree(prepared) == rows_of(0, 400)


def test_another_boot_of_a_closed_table(tmp_path):
    with aw.writer(str(tmp_path / "table"), SIMPLE, segment_rows=100) as writer:
        writer.append(simple(0, 250))
        writer.commit()
    for name, places in [("all", range(4)), ("visible", range(2))]:
        copy = str(shutil.copytree(tmp_path / "table", tmp_path / name))
        set_boot(copy, places=places)
        assert agree(copy) == rows_of(0, 250)
        with aw.writer(copy) as writer:
            writer.append(simple(250, 260))
            writer.commit()
            assert agree(copy) == rows_of(0, 260)


def test_another_boot_loses_what_was_not_durable(tmp_path):
    path = killed(tmp_path / "table", [10, "sync", 15, "sync", 15])
    assert agree(path) == rows_of(0, 40)
    set_boot(path)
    assert agree(path) == rows_of(0, 25)
    with aw.writer(path) as writer:
        assert (writer.rows, writer.dropped_rows) == (25, 15)
    assert agree(path) == rows_of(0, 25)


@pytest.mark.parametrize(
    ("flips", "end"),
    [
        ([("i", 25)], 25),  # the first row of the newest delta
        ([("s", 31)], 25),  # its last
        ([("i", 25), ("i", 3)], 25),  # nothing says where the delta of the record before began
        ([("i", 3)], 32),  # the newest delta doesn't hold it
    ],
)
def test_damage_in_the_last_of_three_deltas(tmp_path, flips, end):
    path = killed(tmp_path / "table", [10, "record", 15, "record", 7, "record"])
    set_boot(path)
    [segment] = segments(path)
    for column, row in flips:
        flip(path, segment, segment.buffers[1][0] + 8 * row if column == "i" else segment.buffers[3][0] + 4 * (row + 1))
    assert len(agree(path)) == end


def test_damage_in_the_log(tmp_path):
    """An entry that is torn, and those behind it, are not there; what the columns have lost is in the log."""
    path = killed(tmp_path / "table", [10, "sync", 15, "sync", 7, "sync"])
    set_boot(path)
    [segment] = segments(path)
    log = segment.header.live + 4096 + 4 * segment.header.record
    flip(path, segment, segment.buffers[1][0] + 8 * 20)
    assert agree(path) == rows_of(0, 32)
    for entry, end in [(2, 25), (1, 10), (0, 0)]:
        flip(path, segment, log + 4096 * entry + 200)
        assert agree(path) == rows_of(0, end)


def test_a_log_behind_a_durable_record(tmp_path):
    path = killed(tmp_path / "table", [10, "sync", 15, "sync"])
    with aw.writer(path, sync="never") as writer:
        for end in (30, 32):
            writer.append(simple(writer.rows, end))
            writer.commit(durable=True, positions={"i": end})
        shutil.copytree(path, f"{path} killed")
    path = f"{path} killed"
    set_boot(path)
    assert agree(path) == rows_of(0, 32)
    [segment] = segments(path)
    assert segment.positions == aw.open(path).positions == {"i": 32}


def test_damage_in_the_first_delta_and_the_second(tmp_path):
    path = killed(tmp_path / "table", [10, "record", 15, "record"])
    set_boot(path)
    [segment] = segments(path)
    values, bitmap = segment.buffers[1][0], segment.buffers[2][0]
    flip(path, segment, values + 8 * 20)
    assert agree(path) == rows_of(0, 10)
    flip(path, segment, values + 8 * 20)
    assert agree(path) == rows_of(0, 25)
    flip(path, segment, bitmap + 1)  # row 12, in a byte that both deltas have
    assert agree(path) == rows_of(0, 10)
    flip(path, segment, values + 8 * 5)
    assert agree(path) == []


def test_bits_behind_the_last_row_are_not_looked_at(tmp_path):
    path = killed(tmp_path / "table", [10, "sync"])
    set_boot(path)
    [segment] = segments(path)
    flip(path, segment, segment.buffers[2][0] + 1)  # row 12, where there are 10
    assert agree(path) == rows_of(0, 10)


def test_a_durable_record_that_is_torn(tmp_path):
    path = killed(tmp_path / "table", [10, "record", 15, "record"])
    set_boot(path)
    [segment] = segments(path)
    h = segment.header
    newest = max((2, 3), key=lambda place: segment.record_at(place).sequence)
    flip(path, segment, h.live + 4096 + newest * h.record + 64)
    assert agree(path) == rows_of(0, 10)
    flip(path, segment, h.live + 4096 + (5 - newest) * h.record)
    assert agree(path) == []


def test_reopened_after_closing(tmp_path):
    with aw.writer(f"{tmp_path / 'table'} being written", SIMPLE) as writer:
        writer.append(simple(0, 12))
        writer.commit()
    path = killed(tmp_path / "table", [9, "sync", 5])
    set_boot(path)
    assert agree(path) == rows_of(0, 21)
    [segment] = segments(path)
    flip(path, segment, segment.buffers[1][0] + 8 * 20)
    assert agree(path) == rows_of(0, 12)


def test_a_damaged_header(tmp_path):
    path = killed(tmp_path / "table", [10])
    [segment] = segments(path)
    start = segment.header.live - 4096
    for at in [8, 16, 20, 40, 112, 130]:
        flip(path, segment, start + at)
        with pytest.raises(aw.Error):
            aw.open(path)
        with pytest.raises(Malformed):
            open_table(path)
        flip(path, segment, start + at)  # and back: the segment's map sees the first flip
    assert agree(path) == rows_of(0, 10)


def forge(path, segment, at, size, value):
    """Write a field of the header, or of the record that begins at byte `at[0]`, and the checksum that it has then."""
    start, length, field, crc = at
    raw = bytearray(segment.bytes[start : start + length])
    raw[field : field + size] = value.to_bytes(size, "little")
    raw[crc : crc + 4] = bytes(4)
    raw[crc : crc + 4] = crc32c(raw).to_bytes(4, "little")
    write(path, segment, start, raw)


WRONG_FIELDS = {
    (20, 4): [0, 1, 2**32 - 1],
    (24, 8): [1, 2**62],
    (32, 8): [0, 9, 2**48],
    (40, 8): [0, 1, 4096, 2**63],
    (48, 8): [0, 100, 8192, 2**63],
    (56, 8): [0, 65536, 2**63],
    (64, 8): [0, 32, 2**40],
    (72, 8): [0, 64, 2**63],
    (80, 8): [0, 32, 2**40],
    (88, 8): [0, 2**40],
    (96, 4): [0, 1, 2**31],
    (100, 4): [0, 1, 2**31],
    (104, 4): [2, 77],
    (108, 2): [1, 2**16 - 1],
    (110, 2): [1, 2],
    (112, 8): [0, 1, 2**48],
}


@pytest.mark.parametrize("field", [*WRONG_FIELDS, "buffers", "limits"])
def test_a_header_with_a_right_checksum_and_a_wrong_field(tmp_path, field):
    path = killed(tmp_path / "table", [10])
    [segment] = segments(path)
    h = segment.header
    fields = {field: WRONG_FIELDS.get(field)}
    if field == "buffers":
        fields = {(128 + 8 * word, 8): [1, 4096, 2**63] for word in range(2 * h.buffers)}
    if field == "limits":
        fields = {(128 + 16 * h.buffers + 8 * word, 8): [2**48, 2**63] for word in range(h.counters)}
    for (at, size), values in fields.items():
        start = h.live - 4096
        before = int.from_bytes(segment.bytes[start + at : start + at + size], "little")
        # Some slots end higher where there are fewer, as the data after them begins at a multiple of 4096.
        more = before + (64 if at == 20 else 1)
        for value in [*values, more] if field != "limits" else values:
            if (at, value) == (112, more) or value >> 8 * size:  # more rows in later segments are fine
                continue
            forge(path, segment, (start, h.length, at, 16), size, value)
            with pytest.raises(aw.InvalidData, match="header"):
                aw.open(path)
            with pytest.raises(Malformed):
                open_table(path)
            forge(path, segment, (start, h.length, at, 16), size, before)
    assert agree(path) == rows_of(0, 10)


@pytest.mark.parametrize("place", [1, 3])
def test_a_record_with_a_right_checksum_and_a_wrong_field(tmp_path, place):
    path = killed(tmp_path / "table", [10, "record", 5, "record", *([5] if place == 1 else [])])
    if place > 1:
        set_boot(path)
    [segment] = segments(path)
    h = segment.header
    place = place - 1 + segment.sequence % 2 if place == 1 else max((2, 3), key=lambda p: segment.record_at(p).sequence)
    start, length = h.live + 4096 + place * h.record, 64 + 8 * h.counters
    record = segment.record_at(place)
    wrong = {
        (64, 8): [record.counters[1] - 1, segment.limits[0] + 1, 2**63],
        (72, 8): [21, 2**63],
        (80, 8): [2**63],
        (32, 8): [record.sequence, 2**63],
    }
    for (at, size), values in wrong.items():
        before = int.from_bytes(segment.bytes[start + at : start + at + size], "little")
        for value in values:
            forge(path, segment, (start, length, at, 12), size, value)
            with pytest.raises(aw.InvalidData, match=f"the record of commit {record.sequence}"):
                aw.open(path)
            with pytest.raises(Malformed):
                open_table(path)
            forge(path, segment, (start, length, at, 12), size, before)
    assert len(agree(path)) == (20 if place < 2 else 15)


# ---- what the reader here does as the page says, and the real one doesn't yet


def lost_end(path, steps):
    path = killed(path, steps, segment_rows=100)
    set_boot(path)
    return path


LOST_ENDS = pytest.mark.parametrize(("steps", "end"), [([150, "sync", 120], 150), ([270], 0)])


@LOST_ENDS
def test_another_boot_breaks_the_chain(tmp_path, steps, end):
    assert open_table(lost_end(tmp_path / "table", steps)).rows() == rows_of(0, end)


@LOST_ENDS
def test_another_boot_breaks_the_chain_for_all(tmp_path, steps, end):
    path = lost_end(tmp_path / "table", steps)
    assert agree(path) == rows_of(0, end)
    with aw.writer(path) as writer:
        assert writer.rows == end
        writer.append(simple(end, end + 7))
        writer.commit()
    assert agree(path) == rows_of(0, end + 7)


def lost_record(path, lost):
    path = killed(path, [10, "sync", 15, "sync", 15])
    set_boot(path)
    [segment] = segments(path)
    live = segment.header.live
    if lost == "all":
        write(path, segment, live, bytes(4096 + 2 * segment.header.record))
    elif lost == "sequence":
        write(path, segment, live, (segment.sequence - 2).to_bytes(8, "little"))
    else:
        flip(path, segment, live + 4096 + segment.sequence % 2 * segment.header.record + 64)
    return path


LOST_RECORDS = pytest.mark.parametrize("lost", ["record", "sequence", "all"])


@LOST_RECORDS
def test_another_boot_and_no_whole_visible_record(tmp_path, lost):
    assert open_table(lost_record(tmp_path / "table", lost)).rows() == rows_of(0, 25)


@LOST_RECORDS
def test_another_boot_and_no_whole_visible_record_for_all(tmp_path, lost):
    path = lost_record(tmp_path / "table", lost)
    assert agree(path) == rows_of(0, 25)
    with aw.writer(path) as writer:
        assert writer.rows == 25
