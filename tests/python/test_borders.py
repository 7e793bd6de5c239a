"""Values that come from other libraries, or go to them: what their bug reports tell of."""

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

LONG = dt.timedelta(days=200_000_000)


def arrowwood(*arguments, **others):
    command = [sys.executable, "-m", "arrowwood._cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE, **others)


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
        lengths = aw.from_arrow(pa.table({"x": pa.array([1, None, -1], pa.duration(unit))}))
        for bound, less in [(LONG, 2), (-LONG, 0), (dt.timedelta.max, 2), (dt.timedelta.min, 0)]:
            bound -= bound % dt.timedelta(seconds=1)
            assert len(lengths.filter(aw.col("x") < bound)) == less, (unit, bound)


def test_columns_of_nulls_of_other_libraries():
    frame = polars.DataFrame({"n": [1, 2], "x": [None, None], "l": [[None], []], "s": [{"a": None}, {"a": None}]})
    rows = aw.from_arrow(frame)
    assert rows.to_pylist() == frame.to_dicts()
    assert aw.from_arrow(pa.table({"x": pa.nulls(3)}))["x"].to_pylist() == [None] * 3


def test_two_streams_or_files_in_one_are_refused(tmp_path):
    one, two, longer = pa.table({"a": [1, 2]}), pa.table({"a": [3]}), pa.table({"a": [4] * 100})
    for format, says in [("stream", "the stream ends at byte"), ("file", "another file begins at byte")]:
        for first, second in [(one, two), (one, one), (one, longer), (longer, one)]:
            path = tmp_path / f"both.{format}"
            both = ipc_of(first, format) + ipc_of(second, format)
            path.write_bytes(both)
            for source in [both, path]:
                with pytest.raises(aw.InvalidData, match=says):
                    aw.open(source)["a"].to_pylist()
            report = aw.check(path)
            assert [found.message for found in report.findings if says in found.message], report
            assert not report.is_good
    # Memory is given in pages.
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
    assert report.is_good and "the metadata 'k' is not UTF-8, and is left out" in [it.message for it in report.findings]
    assert arrowwood("head", path).returncode == 0


def test_maps_keep_that_their_keys_are_sorted():
    kind = pa.map_(pa.string(), pa.list_(pa.map_(pa.int8(), pa.int8(), keys_sorted=True)), keys_sorted=True)
    rows = aw.from_arrow(pa.table({"m": pa.array([[("a", [])]], kind)}))
    found = rows.to_arrow().schema.field("m").type
    assert found.keys_sorted and found.item_type.value_type.keys_sorted
    assert (
        not aw.from_arrow(pa.table({"m": pa.array([], pa.map_(pa.string(), pa.int8()))}))
        .to_arrow()
        .schema.field("m")
        .type.keys_sorted
    )


# Some values of each type, as JSON.
AS_JSON = {
    "fixed_size_list<float32>[2]": [[0.5, 1.5], None],
    "map<utf8, int64>": [{"a": 1, "b": None}, {}, None],
    "duration[ms]": ["PT4.5S", "P-1D", None],
    "fixed_size_binary[3]": ["00ff10", None],
}


@pytest.mark.parametrize("kind", AS_JSON)
def test_json_of_a_table_is_read_back(tmp_path, kind):
    aw.writer(tmp_path / "t", f"id: int64, v: {kind}").close()
    values = AS_JSON[kind]
    lines = "".join(json.dumps({"id": number, "v": value}) + "\n" for number, value in enumerate(values))
    # A row without the column.
    lines += '{"id": 100}\n'
    done = arrowwood("append", tmp_path / "t", input=lines.encode())
    assert done.returncode == 0, done.stderr
    written = arrowwood("cat", "--json", tmp_path / "t").stdout.decode()
    found = [json.loads(line) for line in written.splitlines()]
    assert [row["v"] for row in found] == [*values, None]
    again = aw.read_json(io.StringIO(written), schema=f"id: int64, v: {kind}")
    assert pa.table(again).to_pylist() == aw.open(tmp_path / "t").to_arrow().to_pylist()


@pytest.mark.parametrize("how", [list, dict, lambda pairs: [{"key": k, "value": v} for k, v in pairs]])
def test_maps_are_given_as_pairs_or_dicts(how):
    builder = aw.Builder("m: map<text, int64>")
    builder.append([{"m": how([("a", 1), ("b", None)])}, {"m": None}, {"m": how([])}])
    assert pa.table(builder.finish())["m"].to_pylist() == [[("a", 1), ("b", None)], None, []]
    with pytest.raises((TypeError, ValueError), match="'m'"):
        aw.Builder("m: map<text, int64>").append([{"m": how([(1, 1)])}])
    with pytest.raises((TypeError, ValueError), match="'m'"):
        aw.Builder("m: map<text, int64>").append([{"m": [("a", 1, 2)]}])


def test_integers_of_numpy_are_counts_of_a_unit_as_those_of_python(tmp_path):
    kinds = {"ts": "timestamp[us]", "z": "timestamp[ms, UTC]", "d": "date32", "t": "time32[s]", "l": "duration[ns]"}
    with aw.writer(tmp_path / "t", kinds) as writer:
        for make in [
            list,
            np.array,
            lambda it: np.array(it, "uint16"),
            lambda it: np.ma.array(it, mask=[False, False]),
        ]:
            writer.append({name: make([1, 2]) for name in kinds})
    rows = aw.open(tmp_path / "t").to_pylist()
    assert rows == rows[:2] * 4 and rows[0]["d"] == dt.date(1970, 1, 2)
    with pytest.raises(ValueError, match="'d', row 1"):
        aw.Builder(kinds).append({name: np.array([1, 2**40 if name == "d" else 1]) for name in kinds})
    with pytest.raises(TypeError, match="'ts'"):
        aw.Builder("ts: timestamp[us]").append({"ts": pa.array([1])})


@pytest.mark.parametrize("name", ["x.arrow.zst", "x.gz", "x.csv.gz", "x.arrow.lz4", "x.csv"])
def test_no_file_gets_the_name_of_another_format(tmp_path, name):
    with pytest.raises(ValueError, match="this makes an Arrow file, and the name is that of"):
        aw.write(pa.table({"x": [1]}), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_an_index_of_pandas_with_a_name_is_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"k": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
    named = frame.rename_axis("id")
    for given in [frame.groupby("k").mean(), named, named[1:], named.set_index("k", append=True)]:
        aw.write(given, tmp_path / "x.arrow")
        pandas.testing.assert_frame_equal(aw.open(tmp_path / "x.arrow").to_pandas(), given, check_index_type=False)
    # Indexes of row numbers without a name are left out.
    aw.write(frame[1:], tmp_path / "x.arrow")
    assert aw.open(tmp_path / "x.arrow").columns == ["k", "x"]
    with aw.writer(tmp_path / "t", "ts: int64, x: float64") as writer:
        for index in [pandas.Index([7, 8], name="ts"), pandas.RangeIndex(2, name="ts")]:
            writer.append(pandas.DataFrame({"x": [1.0, 2.0]}, index=index))
    assert aw.open(tmp_path / "t")["ts"].to_pylist() == [7, 8, 0, 1]
    with pytest.raises(ValueError, match="the index and a column are called 'x'"):
        aw.write(pandas.DataFrame({"x": [1]}, index=pandas.Index([1], name="x")), tmp_path / "y.arrow")


def test_json_leaves_out_what_the_schema_has_not():
    rows = aw.read_json(io.StringIO('{"a": 1, "z": 2}\n{"z": [1]}\n'), schema="a: int64")
    assert rows.to_pylist() == [{"a": 1}, {"a": None}]


def test_a_dataset_is_an_array_of_two_dimensions():
    rows = aw.from_arrow(pa.table({"x": [1.0, 2.0], "n": [3, 4]}))
    assert np.asarray(rows).tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert np.array(rows, dtype="int64").dtype == np.int64
    with pytest.raises(ValueError, match="has nulls"):
        np.asarray(aw.from_arrow(pa.table({"x": [1, None]})), dtype="int64")
    with pytest.raises(aw.CopyNeeded):
        np.asarray(rows, copy=False)


def test_an_extension_in_a_dictionary_is_not_lost_without_a_word():
    keys, values = pa.array([0], pa.int8()), pa.array([b"0" * 16], pa.uuid())
    table = pa.table({"x": pa.DictionaryArray.from_arrays(keys, values)})
    for take in [aw.from_arrow, lambda it: aw.write(it, io.BytesIO())]:
        with pytest.raises(aw.Unsupported, match=r"'x'.*extension type 'arrow.uuid', which would be lost"):
            take(table)


def test_json_of_two_columns_of_one_name_is_refused(tmp_path):
    aw.write(pa.table([[1], ["x"]], names=["a", "a"]), tmp_path / "x.arrow")
    done = arrowwood("cat", "--json", tmp_path / "x.arrow")
    assert done.returncode == 1 and b"two columns are called 'a'" in done.stderr, done
    assert arrowwood("cat", "--csv", tmp_path / "x.arrow").stdout.splitlines()[1] == b"1,x"


def test_csv_with_text_behind_a_quote_is_refused():
    with pytest.raises(aw.InvalidData, match=r"line 2: .* behind a closing quote"):
        aw.read_csv(io.StringIO('id,name\n1,"John\n2,"Bob"\n3,x\n'))


def test_values_of_a_producer_that_lies_are_refused():
    offsets = np.array([0, 1, 1000], "int32")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"ab" + bytes(998))]
    bad = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(np.array([0, 5, 2], "int32")), buffers[2]])
    rows = aw.from_arrow(pa.table({"ok": [1, 2], "x": bad}))
    assert rows["ok"].to_pylist() == [1, 2]
    with pytest.raises(ValueError, match="column 'x': row"):
        rows["x"].to_arrow()
    with pytest.raises(ValueError, match="column 'x': row"):
        aw.write(rows, io.BytesIO())


# ---- dictionaries from files that align them to 8 bytes ----

ENTRIES = {
    "utf8_view": pa.array(["a", None, "longer than twelve bytes"], pa.string_view()),
    "binary_view": pa.array([b"a", None, b"longer than twelve bytes"], pa.binary_view()),
    "decimal128": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.50")], pa.decimal128(10, 2)),
    "decimal256": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.50")], pa.decimal256(50, 2)),
}


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("name", ENTRIES)
def test_entries_aligned_to_eight_bytes_are_appended(tmp_path, name, shift):
    """Values of 16 bytes at addresses of 8 were refused as misaligned where the dictionary has a null entry."""
    x = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.uint16()), ENTRIES[name])
    # The names of columns move the dictionary in the file.
    table = pa.table({"c" * (1 + 8 * shift): [1, 2, 3], "x": x})
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as file:
        file.write_table(table)
    ds = aw.open(tmp_path / "x.arrow")
    with aw.writer(tmp_path / "t", ds.schema) as writer:
        writer.append(ds)
    assert aw.open(tmp_path / "t")["x"].to_pylist() == ENTRIES[name].to_pylist()
    builder = aw.Builder(ds.schema)
    builder.append(ds)
    assert builder.finish()["x"].to_pylist() == ENTRIES[name].to_pylist()
