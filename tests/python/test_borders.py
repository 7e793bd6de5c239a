"""Tests values exchanged with other libraries, mostly cases from the bug reports of similar projects."""

import datetime as dt
import decimal
import io
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import ipc_of
from waits import PATIENCE

polars = pytest.importorskip("polars")

# Exceeds 64 bits in microseconds and nanoseconds, but not in milliseconds.
LONG = dt.timedelta(days=200_000_000)


def run_cli(*arguments, **options):
    command = [sys.executable, "-m", "arrowwood._cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE, **options)


def test_long_durations_are_exact_or_refused():
    for unit, count in [("s", LONG // dt.timedelta(seconds=1)), ("ms", LONG // dt.timedelta(milliseconds=1))]:
        builder = aw.Builder(f"x: duration[{unit}]")
        builder.append_row(x=LONG)
        assert pa.table(builder.finish())["x"].cast("int64").to_pylist() == [count]
    for unit in ["us", "ns"]:
        with pytest.raises(ValueError, match="which does not fit"):
            aw.Builder(f"x: duration[{unit}]").append_row(x=LONG)
    with pytest.raises(ValueError, match="more microseconds"):
        aw.Builder("x: duration[us]").append_row(x=LONG + dt.timedelta(microseconds=1))
    for unit in ["s", "ms", "us", "ns"]:
        durations = aw.from_arrow(pa.table({"x": pa.array([1, None, -1], pa.duration(unit))}))
        for bound, rows_below in [(LONG, 2), (-LONG, 0), (dt.timedelta.max, 2), (dt.timedelta.min, 0)]:
            bound -= bound % dt.timedelta(seconds=1)
            assert len(durations.filter(aw.col("x") < bound)) == rows_below, (unit, bound)


def test_null_columns_of_polars_and_pyarrow_are_imported():
    frame = polars.DataFrame({"n": [1, 2], "x": [None, None], "l": [[None], []], "s": [{"a": None}, {"a": None}]})
    rows = aw.from_arrow(frame)
    assert rows.to_pylist() == frame.to_dicts()
    assert aw.from_arrow(pa.table({"x": pa.nulls(3)}))["x"].to_pylist() == [None] * 3


def test_concatenated_streams_and_files_are_refused(tmp_path):
    one, two, longer = pa.table({"a": [1, 2]}), pa.table({"a": [3]}), pa.table({"a": [4] * 100})
    for format, message in [("stream", "the stream ends at byte"), ("file", "another file begins at byte")]:
        for first, second in [(one, two), (one, one), (one, longer), (longer, one)]:
            path = tmp_path / f"both.{format}"
            both = ipc_of(first, format) + ipc_of(second, format)
            path.write_bytes(both)
            for source in [both, path]:
                with pytest.raises(aw.InvalidData, match=message):
                    aw.open(source)["a"].to_pylist()
            report = aw.check(path)
            assert [finding.message for finding in report.findings if message in finding.message], report
            assert not report.is_good
    # Zeros after a stream are accepted, as memory is allocated in pages.
    assert aw.open(ipc_of(one, "stream") + bytes(4096))["a"].to_pylist() == [1, 2]
    assert len(aw.open(ipc_of(one, "stream") + b"junk", partial=True)) == 2


def test_metadata_that_is_not_utf8_is_left_out(tmp_path):
    fields = [pa.field("a", pa.int64(), metadata={b"f": b"\xfe", b"g": b"kept"})]
    table = pa.table([[1]], pa.schema(fields, {b"k": b"\xff", b"good": b"kept", b"\xff": b"key"}))
    path = tmp_path / "x.arrow"
    path.write_bytes(ipc_of(table))
    for rows in [aw.open(path), aw.from_arrow(table), aw.open(ipc_of(table, "stream"))]:
        assert rows["a"].to_pylist() == [1]
        assert pa.table(rows).schema.metadata == {b"good": b"kept"}
        assert pa.table(rows).schema.field("a").metadata == {b"g": b"kept"}
    report = aw.check(path)
    messages = [finding.message for finding in report.findings]
    assert report.is_good and "the metadata 'k' is not UTF-8, and is left out" in messages
    assert run_cli("head", path).returncode == 0


def test_maps_keep_the_flag_of_sorted_keys():
    inner = pa.map_(pa.int8(), pa.int8(), keys_sorted=True)
    sorted_map = pa.map_(pa.string(), pa.list_(inner), keys_sorted=True)
    rows = aw.from_arrow(pa.table({"m": pa.array([[("a", [])]], sorted_map)}))
    imported = rows.to_arrow().schema.field("m").type
    assert imported.keys_sorted and imported.item_type.value_type.keys_sorted

    unsorted_map = pa.map_(pa.string(), pa.int8())
    rows = aw.from_arrow(pa.table({"m": pa.array([], unsorted_map)}))
    assert not rows.to_arrow().schema.field("m").type.keys_sorted


# Values of each type, as JSON.
VALUES_AS_JSON = {
    "fixed_size_list<float32>[2]": [[0.5, 1.5], None],
    "map<utf8, int64>": [{"a": 1, "b": None}, {}, None],
    "duration[ms]": ["PT4.5S", "P-1D", None],
    "fixed_size_binary[3]": ["00ff10", None],
}


@pytest.mark.parametrize("type_name", VALUES_AS_JSON)
def test_json_round_trips(tmp_path, type_name):
    aw.writer(tmp_path / "t", f"id: int64, v: {type_name}").close()
    values = VALUES_AS_JSON[type_name]
    lines = [json.dumps({"id": number, "v": value}) for number, value in enumerate(values)]
    line_without_column = '{"id": 100}'
    text = "\n".join([*lines, line_without_column]) + "\n"
    process = run_cli("append", tmp_path / "t", input=text.encode())
    assert process.returncode == 0, process.stderr
    output = run_cli("cat", "--json", tmp_path / "t").stdout.decode()
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["v"] for row in rows] == [*values, None]
    reread = aw.read_json(io.StringIO(output), schema=f"id: int64, v: {type_name}")
    assert pa.table(reread).to_pylist() == aw.open(tmp_path / "t").to_arrow().to_pylist()


def as_entries(pairs):
    return [{"key": key, "value": value} for key, value in pairs]


@pytest.mark.parametrize("make_map", [list, dict, as_entries])
def test_maps_are_appended_as_pairs_dicts_or_entries(make_map):
    builder = aw.Builder("m: map<text, int64>")
    builder.append([{"m": make_map([("a", 1), ("b", None)])}, {"m": None}, {"m": make_map([])}])
    assert pa.table(builder.finish())["m"].to_pylist() == [[("a", 1), ("b", None)], None, []]
    with pytest.raises((TypeError, ValueError), match="'m'"):
        aw.Builder("m: map<text, int64>").append([{"m": make_map([(1, 1)])}])
    with pytest.raises((TypeError, ValueError), match="'m'"):
        aw.Builder("m: map<text, int64>").append([{"m": [("a", 1, 2)]}])


def test_numpy_integers_are_appended_to_times_like_python_integers(tmp_path):
    types = {"ts": "timestamp[us]", "z": "timestamp[ms, UTC]", "d": "date32", "t": "time32[s]", "l": "duration[ns]"}
    columns = [
        [1, 2],
        np.array([1, 2]),
        np.array([1, 2], "uint16"),
        np.ma.array([1, 2], mask=[False, False]),
    ]
    with aw.writer(tmp_path / "t", types) as writer:
        for column in columns:
            writer.append(dict.fromkeys(types, column))
    rows = aw.open(tmp_path / "t").to_pylist()
    assert rows == rows[:2] * 4 and rows[0]["d"] == dt.date(1970, 1, 2)
    with pytest.raises(ValueError, match="'d', row 1"):
        aw.Builder(types).append({name: np.array([1, 2**40 if name == "d" else 1]) for name in types})
    with pytest.raises(TypeError, match="'ts'"):
        aw.Builder("ts: timestamp[us]").append({"ts": pa.array([1])})


@pytest.mark.parametrize("name", ["x.arrow.zst", "x.gz", "x.csv.gz", "x.arrow.lz4", "x.csv"])
def test_write_refuses_names_of_other_formats(tmp_path, name):
    with pytest.raises(ValueError, match="this makes an Arrow file, and the name is that of"):
        aw.write(pa.table({"x": [1]}), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_named_pandas_indexes_become_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"k": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
    named = frame.rename_axis("id")
    for indexed in [frame.groupby("k").mean(), named, named[1:], named.set_index("k", append=True)]:
        aw.write(indexed, tmp_path / "x.arrow")
        reread = aw.open(tmp_path / "x.arrow").to_pandas()
        pandas.testing.assert_frame_equal(reread, indexed, check_index_type=False)
    # Row numbers without a name are left out.
    aw.write(frame[1:], tmp_path / "x.arrow")
    assert aw.open(tmp_path / "x.arrow").columns == ["k", "x"]
    with aw.writer(tmp_path / "t", "ts: int64, x: float64") as writer:
        for index in [pandas.Index([7, 8], name="ts"), pandas.RangeIndex(2, name="ts")]:
            writer.append(pandas.DataFrame({"x": [1.0, 2.0]}, index=index))
    assert aw.open(tmp_path / "t")["ts"].to_pylist() == [7, 8, 0, 1]
    with pytest.raises(ValueError, match="the index and a column are called 'x'"):
        aw.write(pandas.DataFrame({"x": [1]}, index=pandas.Index([1], name="x")), tmp_path / "y.arrow")


def test_json_fields_outside_the_schema_are_ignored():
    rows = aw.read_json(io.StringIO('{"a": 1, "z": 2}\n{"z": [1]}\n'), schema="a: int64")
    assert rows.to_pylist() == [{"a": 1}, {"a": None}]


def test_numpy_converts_a_dataset_to_a_matrix():
    rows = aw.from_arrow(pa.table({"x": [1.0, 2.0], "n": [3, 4]}))
    assert np.asarray(rows).tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert np.array(rows, dtype="int64").dtype == np.int64
    with pytest.raises(ValueError, match="has nulls"):
        np.asarray(aw.from_arrow(pa.table({"x": [1, None]})), dtype="int64")
    with pytest.raises(aw.CopyNeeded):
        np.asarray(rows, copy=False)


def test_extension_types_inside_dictionaries_are_refused():
    keys, values = pa.array([0], pa.int8()), pa.array([b"0" * 16], pa.uuid())
    table = pa.table({"x": pa.DictionaryArray.from_arrays(keys, values)})
    for call in [lambda: aw.from_arrow(table), lambda: aw.write(table, io.BytesIO())]:
        with pytest.raises(aw.Unsupported, match=r"'x'.*extension type 'arrow.uuid', which would be lost"):
            call()


def test_json_output_refuses_duplicate_column_names(tmp_path):
    aw.write(pa.table([[1], ["x"]], names=["a", "a"]), tmp_path / "x.arrow")
    process = run_cli("cat", "--json", tmp_path / "x.arrow")
    assert process.returncode == 1 and b"two columns are called 'a'" in process.stderr, process
    assert run_cli("cat", "--csv", tmp_path / "x.arrow").stdout.splitlines()[1] == b"1,x"


def test_csv_with_text_after_a_closing_quote_is_refused():
    with pytest.raises(aw.InvalidData, match=r"line 2: .* behind a closing quote"):
        aw.read_csv(io.StringIO('id,name\n1,"John\n2,"Bob"\n3,x\n'))


def test_invalid_offsets_are_refused_when_their_column_is_read():
    decreasing_offsets = pa.py_buffer(np.array([0, 5, 2], "int32"))
    values = pa.py_buffer(b"ab" + bytes(998))
    invalid = pa.Array.from_buffers(pa.string(), 2, [None, decreasing_offsets, values])
    rows = aw.from_arrow(pa.table({"ok": [1, 2], "x": invalid}))
    assert rows["ok"].to_pylist() == [1, 2]
    with pytest.raises(ValueError, match="column 'x': row"):
        rows["x"].to_arrow()
    with pytest.raises(ValueError, match="column 'x': row"):
        aw.write(rows, io.BytesIO())


# Dictionary values of 16 or 32 bytes, or with views of 16 bytes.
WIDE_VALUES = {
    "utf8_view": pa.array(["a", None, "longer than twelve bytes"], pa.string_view()),
    "binary_view": pa.array([b"a", None, b"longer than twelve bytes"], pa.binary_view()),
    "decimal128": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.50")], pa.decimal128(10, 2)),
    "decimal256": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.50")], pa.decimal256(50, 2)),
}


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("name", WIDE_VALUES)
def test_dictionaries_aligned_to_eight_bytes_are_appended(tmp_path, name, shift):
    """Values of 16 bytes at multiples of 8 were once refused as misaligned if the dictionary had a null entry."""
    values = WIDE_VALUES[name]
    x = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.uint16()), values)
    # A longer column name moves the dictionary in the file.
    table = pa.table({"c" * (1 + 8 * shift): [1, 2, 3], "x": x})
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as file:
        file.write_table(table)
    ds = aw.open(tmp_path / "x.arrow")
    with aw.writer(tmp_path / "t", ds.schema) as writer:
        writer.append(ds)
    assert aw.open(tmp_path / "t")["x"].to_pylist() == values.to_pylist()
    builder = aw.Builder(ds.schema)
    builder.append(ds)
    assert builder.finish()["x"].to_pylist() == values.to_pylist()
