"""Tests pipelines: CSV, JSON and Parquet in and out, by functions and commands, batches from iterators, and paths."""

import datetime as dt
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arrowwood as aw
from waits import PATIENCE, wait_until

COMMAND = [sys.executable, "-m", "arrowwood._cli"]


def run_command(*arguments, **options) -> subprocess.CompletedProcess:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **options)


def run_successfully(*arguments, **options) -> str:
    """Runs the command, asserts that it succeeds, and returns its output."""
    result = run_command(*arguments, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def file_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def read_csv_text(text: str, **options) -> aw.Dataset:
    return aw.read_csv(io.StringIO(text), **options)


def read_json_text(text: str, **options) -> aw.Dataset:
    return aw.read_json(io.StringIO(text), **options)


# ---- CSV ----


def test_csv_distinguishes_null_from_empty_text(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('a,b\n"",1\n,"NA"\n')
    assert aw.read_csv(path).to_pylist() == [{"a": "", "b": "1"}, {"a": None, "b": "NA"}]


def test_empty_line_of_csv_is_a_null_in_a_single_column(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n\n3\n")
    assert aw.read_csv(path)["a"].to_pylist() == [1, None, 3]


def test_csv_distinguishes_null_from_empty_binary(tmp_path):
    values = [b"", None, b"\x01"]
    aw.write(pa.table({"b": values, "n": [1, 2, 3]}), tmp_path / "x.arrow")
    run_successfully("export", tmp_path / "x.arrow", tmp_path / "x.csv")
    assert aw.read_csv(tmp_path / "x.csv", schema="b: binary, n: int64")["b"].to_pylist() == values
    run_successfully("append", tmp_path / "t", "--schema", "b: binary, n: int64", tmp_path / "x.csv")
    assert aw.open(tmp_path / "t")["b"].to_pylist() == values


def test_quoted_empty_number_of_csv_is_null():
    assert read_csv_text('a\n""\n1\n')["a"].to_pylist() == [None, 1]


@pytest.mark.parametrize("text", ["Jan 1 2000", "1 Jan 2000", "2000-01-01"])
def test_csv_infers_dates(text):
    assert read_csv_text(f"a\n{text}\n2000-01-01\n")["a"].to_pylist() == [dt.date(2000, 1, 1)] * 2
    assert read_csv_text(f"a\n{text}\nx\n")["a"].to_pylist() == [text, "x"]


@pytest.mark.parametrize("text", ["10:00:00", "2024-01-01T10:00"])
def test_csv_infers_no_times_without_date_or_seconds(text):
    assert read_csv_text(f"a\n{text}\n")["a"].to_pylist() == [text]
    assert read_csv_text(f"a\n2000-01-02\n{text}\n")["a"].dtype == "utf8"


def test_options_accept_a_string_instead_of_a_list():
    ds = read_csv_text("a,x\n-,u\n1,-\n", null_values="-", dictionary="x")
    assert ds.to_pylist() == [{"a": None, "x": "u"}, {"a": 1, "x": None}]
    assert "dictionary" in ds["x"].dtype
    assert "dictionary" in read_json_text('{"x": "u"}', dictionary="x")["x"].dtype


def test_schema_names_the_columns_of_csv_without_header():
    text = "1,x\n2,y\n"
    named = read_csv_text(text, header=False, schema="n: int8, s: utf8")
    assert named.to_pylist() == [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}]
    # Columns without a name are numbered.
    numbered = read_csv_text(text, header=False, schema="column_2: utf8")
    assert numbered.to_pylist() == [{"column_2": "x"}, {"column_2": "y"}]
    for schema in ["n: int8", "n: int8, column_2: utf8, t: utf8"]:
        with pytest.raises(aw.ColumnNotFound):
            read_csv_text(text, header=False, schema=schema)


DIALECT_TEXT = "1,5;-;'a;b'\n2;7;c\n"
DIALECT_OPTIONS = ["--delimiter", ";", "--quote", "'", "--no-header", "--null", "-", "--decimal-comma"]


def test_csv_dialect_options(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(DIALECT_TEXT)
    ds = aw.read_csv(path, delimiter=";", quote="'", header=False, null_values=["-"], decimal=",")
    assert ds.to_pylist() == [
        {"column_1": 1.5, "column_2": None, "column_3": "a;b"},
        {"column_1": 2.0, "column_2": 7, "column_3": "c"},
    ]
    run_successfully("import", path, tmp_path / "x.arrow", *DIALECT_OPTIONS)
    assert aw.open(tmp_path / "x.arrow").to_pylist() == ds.to_pylist()


def test_csv_dialect_options_with_a_schema(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(DIALECT_TEXT)
    schema = "x: float64, n: int64, s: utf8"
    rows = [{"x": 1.5, "n": None, "s": "a;b"}, {"x": 2.0, "n": 7, "s": "c"}]
    run_successfully("import", path, tmp_path / "y.arrow", *DIALECT_OPTIONS, "--schema", schema)
    assert aw.open(tmp_path / "y.arrow").to_pylist() == rows
    # `append` has the same options, for a file and for standard input.
    run_successfully("append", tmp_path / "t", *DIALECT_OPTIONS, "--schema", schema, path)
    run_successfully("append", tmp_path / "t", *DIALECT_OPTIONS, input=DIALECT_TEXT)
    assert aw.open(tmp_path / "t").to_pylist() == 2 * rows


@pytest.mark.parametrize("options", [{"decimal": "x"}, {"quote": "ab"}, {"quote": ","}, {"decimal": ","}])
def test_invalid_csv_dialect_is_refused(tmp_path, options):
    path = tmp_path / "x.csv"
    path.write_text(DIALECT_TEXT)
    with pytest.raises(aw.InvalidArgument):
        aw.read_csv(path, **options)


def test_import_uses_bounded_memory(tmp_path):
    rows = 4_000_000
    path = tmp_path / "x.csv"
    with path.open("w") as file:
        file.write("id,x,name\n")
        for start in range(0, rows, 100_000):
            file.write("".join(f"{i},{i / 4},some text of number {i}\n" for i in range(start, start + 100_000)))
    assert path.stat().st_size > 150_000_000

    # The peak is read from /proc, because getrusage(2) includes the memory of the parent at the time of the fork.
    program = f"""
import re
from arrowwood import _arrowwood
code = _arrowwood._run_cli(['arrowwood', 'import', {str(path)!r}, {str(tmp_path / "x.arrow")!r}])
print(code, re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    code, peak_kib = result.stdout.split()
    assert code == "0"
    assert int(peak_kib) < 256 << 10

    ds = aw.open(tmp_path / "x.arrow")
    assert len(ds) == rows
    assert ds["id"].sum() == rows * (rows - 1) // 2
    assert ds[rows - 1] == {"id": 3_999_999, "x": 999_999.75, "name": "some text of number 3999999"}


# ---- Compressed text ----


class TextFormat(NamedTuple):
    file_name: str
    encode: Callable[[int], str]
    read: Callable[..., aw.Dataset]


def encode_csv(rows: int) -> str:
    return "id,name\n" + "".join(f"{i},name {i}\n" for i in range(rows))


def encode_json_lines(rows: int) -> str:
    return "".join(json.dumps({"id": i, "name": f"name {i}"}) + "\n" for i in range(rows))


def compress_zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


@pytest.mark.parametrize(
    "text_format",
    [TextFormat("x.csv", encode_csv, aw.read_csv), TextFormat("x.jsonl", encode_json_lines, aw.read_json)],
    ids=["csv", "jsonl"],
)
@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".zst", compress_zstd)])
def test_compressed_text_is_read(tmp_path, text_format, suffix, compress):
    rows = 200_000
    path = tmp_path / (text_format.file_name + suffix)
    path.write_bytes(compress(text_format.encode(rows).encode()))

    ds = text_format.read(path)
    assert ds.shape == (rows, 2)
    assert ds["id"].sum() == rows * (rows - 1) // 2
    assert ds[-1] == {"id": rows - 1, "name": f"name {rows - 1}"}
    with path.open("rb") as file:
        assert text_format.read(file).shape == (rows, 2)

    run_successfully("import", path, tmp_path / "out.arrow")
    assert aw.open(tmp_path / "out.arrow")["name"].to_pylist() == [f"name {i}" for i in range(rows)]

    table = tmp_path / "table"
    run_successfully("append", table, path)
    with path.open("rb") as file:
        run_successfully("append", table, stdin=file)
    assert len(aw.open(table)) == 2 * rows
    assert aw.open(table)["id"].sum() == rows * (rows - 1)


# ---- JSON ----

json_values = st.one_of(st.none(), st.integers(-(2**40), 2**40), st.booleans(), st.text(max_size=5))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), json_values, max_size=3), max_size=8))
def test_json_lines_and_arrays_are_read_like_pythons_json(rows):
    ds = read_json_text("".join(json.dumps(row) + "\n" for row in rows))
    assert ds.to_pylist() == read_json_text(json.dumps(rows)).to_pylist()
    assert len(ds) == len(rows)
    for name in ds.columns:
        values = [row.get(name) for row in rows]
        # Columns of mixed types are converted, and so are texts that look like dates.
        if all(isinstance(value, str | None) for value in values) and "date" not in ds[name].dtype:
            assert ds[name].to_pylist() == values


def test_json_reads_nan_as_text_or_number():
    assert read_json_text('{"a": "NaN"}\n')["a"].to_pylist() == ["NaN"]
    column = read_json_text('{"a": "NaN"}\n{"a": 1.5}\n')["a"]
    assert column.dtype == "float64"
    assert np.isnan(column[0])


def test_json_refuses_integers_without_a_common_type():
    with pytest.raises(aw.InvalidData, match="column `a`: no type holds all its numbers"):
        read_json_text('{"a": 1}\n{"a": 18446744073709551616}\n')
    assert read_json_text('{"a": 18446744073709551616}\n', schema="a: float64")["a"][0] == 2.0**64


@pytest.mark.parametrize("text", ['[{"a":1},]', '[,{"a":1}]', '[{"a":1},,{"a":2}]'])
def test_json_array_with_a_missing_element_is_refused(text):
    with pytest.raises(aw.InvalidData, match="expected an element"):
        read_json_text(text)


# ---- Parquet ----


def test_parquet_is_read_and_written(tmp_path):
    table = pa.table({"n": range(1000), "s": [f"s{i}" for i in range(1000)], "d": pa.array([1.5, None] * 500)})
    pq.write_table(table, tmp_path / "x.parquet")
    ds = aw.read_parquet(tmp_path / "x.parquet")
    assert ds.to_arrow().equals(table)
    assert aw.read_parquet(str(tmp_path / "x.parquet"), columns=["d"]).columns == ["d"]

    aw.write(ds, tmp_path / "y.parquet", compression="zstd", max_rows=300)
    assert pq.read_table(tmp_path / "y.parquet").equals(table)
    assert pq.ParquetFile(tmp_path / "y.parquet").num_row_groups == 4

    run_successfully("import", tmp_path / "x.parquet", tmp_path / "z.arrow")
    assert aw.open(tmp_path / "z.arrow").to_pylist() == table.to_pylist()
    run_successfully("export", tmp_path / "z.arrow", tmp_path / "z.parquet")
    assert pq.read_table(tmp_path / "z.parquet").to_pylist() == table.to_pylist()


def test_failed_write_of_parquet_leaves_no_file(tmp_path):
    with pytest.raises(TypeError):
        aw.write(5, tmp_path / "none.parquet")
    assert file_names(tmp_path) == []


def test_commands_keep_types_of_parquet(tmp_path):
    day = dt.datetime(2024, 1, 1)
    table = pa.table(
        {
            "money": pa.array([Decimal("1.50"), None], pa.decimal256(50, 2)),
            "took": pa.array([-5, None], pa.duration("us")),
            "at": pa.array([day, None], pa.timestamp("ms")),
            "there": pa.array([day, None], pa.timestamp("us", "America/New_York")),
            "symbol": pa.array(["a", None]).dictionary_encode(),
            "pair": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
            "half": pa.array([np.float16(1.5), None], pa.float16()),
            "clock": pa.array([dt.time(10), None], pa.time32("ms")),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    run_successfully("import", tmp_path / "x.parquet", tmp_path / "x.arrow")
    imported = aw.open(tmp_path / "x.arrow").to_arrow()
    assert imported.equals(aw.read_parquet(tmp_path / "x.parquet").to_arrow())
    assert imported.schema.equals(table.schema)
    run_successfully("export", tmp_path / "x.arrow", tmp_path / "y.parquet")
    exported = pq.read_table(tmp_path / "y.parquet")
    assert exported.schema.equals(table.schema)
    assert exported.to_pylist() == table.to_pylist()


def test_export_of_a_type_that_parquet_lacks_leaves_no_file(tmp_path):
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    aw.write(pa.table({"u": union}), tmp_path / "u.arrow")
    assert run_command("export", tmp_path / "u.arrow", tmp_path / "u.parquet").returncode == 1
    assert file_names(tmp_path) == ["u.arrow"]


def test_parquet_is_refused_where_arrow_is_expected(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    for arguments in [["head", path], ["append", tmp_path / "t", path]]:
        assert "arrowwood import" in run_command(*arguments).stderr
    with pytest.raises(aw.InvalidData, match="aw.read_parquet"):
        aw.open(path)
    for arguments in [["import", "-", tmp_path / "x.arrow"], ["append", tmp_path / "t"]]:
        with path.open("rb") as file:
            result = run_command(*arguments, stdin=file)
        assert result.returncode == 1
        assert "Parquet" in result.stderr


# ---- Exports ----


def has_open_file_in(process: subprocess.Popen, folder: Path) -> bool:
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            if str(folder) in os.readlink(descriptor):
                return True
        except OSError:
            # The file was closed since the descriptors were listed.
            continue
    return False


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.arrow", "x.parquet"])
def test_killed_export_leaves_no_file(tmp_path, name):
    aw.write({"s": ["some text"] * 3_000_000}, tmp_path / "in.arrow")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / name).write_text("old")
    process = subprocess.Popen([*COMMAND, "export", str(tmp_path / "in.arrow"), str(folder / name)])
    wait_until(lambda: process.poll() is not None or has_open_file_in(process, folder), "the export writes")
    process.kill()
    # On a slow machine, the export may have ended before the signal.
    if process.wait() != 0:
        assert file_names(folder) == [name]
        assert (folder / name).read_text() == "old"


def test_suffix_chooses_file_or_stream(tmp_path):
    for name, format in [("x.arrows", "stream"), ("x.arrow", "file"), ("x.xyz", "file")]:
        aw.write({"n": [1, 2]}, tmp_path / name)
        is_file = (tmp_path / name).read_bytes().startswith(b"ARROW1")
        assert is_file == (format == "file")
        assert aw.open(tmp_path / name)["n"].to_pylist() == [1, 2]
    with pa.OSFile(str(tmp_path / "x.arrows")) as file, pa.ipc.open_stream(file) as reader:
        assert reader.read_all().to_pydict() == {"n": [1, 2]}
    aw.write({"n": [1]}, tmp_path / "y.arrows", format="file")
    assert (tmp_path / "y.arrows").read_bytes().startswith(b"ARROW1")
    run_successfully("export", tmp_path / "x.arrow", tmp_path / "z.arrows")
    assert (tmp_path / "z.arrows").read_bytes() == (tmp_path / "x.arrows").read_bytes()


def test_suffix_chooses_csv_or_json(tmp_path):
    aw.write({"a": [1, None], "b": ["x", ""]}, tmp_path / "x.arrow")
    rows = aw.open(tmp_path / "x.arrow").to_pylist()
    run_successfully("export", tmp_path / "x.arrow", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == 'a,b\n1,x\n,""\n'
    assert aw.read_csv(tmp_path / "x.csv").to_pylist() == rows
    run_successfully("export", tmp_path / "x.arrow", tmp_path / "x.jsonl")
    assert aw.read_json(tmp_path / "x.jsonl").to_pylist() == rows


def test_commands_explain_wrong_formats_and_columns(tmp_path):
    aw.write({"a": [1], "b": ["x"]}, tmp_path / "x.arrow")
    (tmp_path / "x.csv").write_text("a,b\n1,x\n")
    failures = [
        (["export", tmp_path / "x.arrow", tmp_path / "x.xlsx"], ".parquet", "x.xlsx: "),
        (["import", tmp_path / "x.csv", tmp_path / "y.csv"], "`arrowwood export`"),
        (["head", "--columns", "a,z", tmp_path / "x.arrow"], "x.arrow: no column 'z'"),
    ]
    for arguments, *messages in failures:
        result = run_command(*arguments)
        assert result.returncode == 1
        assert all(message in result.stderr for message in messages), result.stderr


def test_export_of_a_missing_file_leaves_no_file(tmp_path):
    assert run_command("export", tmp_path / "none.arrow", tmp_path / "y.csv").returncode == 1
    assert not (tmp_path / "y.csv").exists()


# ---- Batches from iterators ----


def generate_batches(count: int):
    for i in range(count):
        yield pa.record_batch({"n": [i, i + 1]})


NUMBERS_OF_THREE_BATCHES = [0, 1, 1, 2, 2, 3]


def test_write_takes_batches_from_an_iterator(tmp_path):
    aw.write(generate_batches(3), tmp_path / "x.arrow")
    ds = aw.open(tmp_path / "x.arrow")
    assert ds["n"].to_pylist() == NUMBERS_OF_THREE_BATCHES
    assert ds.num_batches == 3
    aw.write(list(generate_batches(3)), tmp_path / "y.arrow", compression="zstd")
    assert aw.open(tmp_path / "y.arrow").to_pylist() == ds.to_pylist()
    for options in [{"format": "stream"}, {"max_rows": 1}, {"schema": "n: int16"}]:
        aw.write(generate_batches(3), tmp_path / "z.arrow", **options)
        assert aw.open(tmp_path / "z.arrow").to_pylist() == ds.to_pylist()


def test_write_merges_dictionaries_of_batches(tmp_path):
    tables = [pa.table({"s": pa.array(values).dictionary_encode()}) for values in (["a", "b"], ["c", "a"])]
    aw.write(iter(tables), tmp_path / "d.arrow")
    assert aw.open(tmp_path / "d.arrow")["s"].to_pylist() == ["a", "b", "c", "a"]


def test_write_takes_rows_from_an_iterator(tmp_path):
    aw.write(({"n": i} for i in range(3)), tmp_path / "rows.arrow")
    assert aw.open(tmp_path / "rows.arrow")["n"].to_pylist() == [0, 1, 2]


def test_failed_write_of_batches_keeps_the_old_file(tmp_path):
    def failing_batches():
        yield from generate_batches(2)
        raise RuntimeError("no more")

    aw.write(generate_batches(3), tmp_path / "x.arrow")
    with pytest.raises(RuntimeError):
        aw.write(failing_batches(), tmp_path / "x.arrow")
    with pytest.raises(aw.SchemaMismatch):
        aw.write(iter([*generate_batches(1), pa.record_batch({"m": [1]})]), tmp_path / "x.arrow")
    assert aw.open(tmp_path / "x.arrow")["n"].to_pylist() == NUMBERS_OF_THREE_BATCHES
    assert file_names(tmp_path) == ["x.arrow"]


# ---- Paths ----


def test_paths_may_begin_with_the_home_directory_or_file_scheme(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    aw.write({"n": [1]}, "~/a b.arrow")
    assert (tmp_path / "a b.arrow").exists()
    assert aw.open("~/a b.arrow")["n"][0] == 1
    assert aw.open(f"file://{tmp_path}/a%20b.arrow")["n"][0] == 1
    assert "1" in run_successfully("head", f"file://localhost{tmp_path}/a%20b.arrow")


def test_existing_directory_named_tilde_is_not_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~").mkdir()
    aw.write({"n": [2]}, tmp_path / "~" / "x.arrow")
    assert aw.open("~/x.arrow")["n"][0] == 2


@pytest.mark.parametrize(
    ("url", "remedy"),
    [("s3://bucket/x.arrow", "aws s3 cp"), ("https://host/x.arrow", "curl -O"), ("gs://b/x.csv", "gcloud storage cp")],
)
def test_readers_explain_how_to_download_a_url(url, remedy):
    readers = [aw.read_csv, aw.read_json, aw.read_parquet]
    if not url.endswith(".arrow"):
        # `open` reads Arrow files from these URLs: see test_objects.py.
        readers.append(aw.open)
        assert remedy in run_command("head", url).stderr
    for read in readers:
        with pytest.raises(aw.InvalidArgument, match=remedy):
            read(url)


# ---- The command ----


def test_append_once_skips_files_that_were_appended(tmp_path):
    (tmp_path / "a.csv").write_text("n\n1\n2\n")
    (tmp_path / "b.csv").write_text("n\n3\n")
    table = tmp_path / "t"
    run_successfully("append", table, "--once", tmp_path / "a.csv")
    result = run_command("append", table, "--once", tmp_path / "a.csv", tmp_path / "b.csv")
    assert result.returncode == 0
    assert "left out" in result.stderr
    assert aw.open(table)["n"].to_pylist() == [1, 2, 3]
    assert set(aw.open(table).positions) == {"a.csv", "b.csv"}

    # A new file of the same name, such as the next day's, must not be skipped, even if it has the same size.
    (tmp_path / "a.csv").write_text("n\n1\n9\n")
    result = run_command("append", table, "--once", tmp_path / "a.csv")
    assert result.returncode == 1
    assert "other content" in result.stderr
    assert len(aw.open(table)) == 3
    assert run_command("append", table, "--once", "-", input="n\n5\n").returncode == 1


def test_append_once_refuses_more_files_than_a_table_records(tmp_path):
    max_files = 256
    files = [tmp_path / f"{number:03}.csv" for number in range(max_files + 2)]
    for number, file in enumerate(files):
        file.write_text(f"n\n{number}\n")
    table = tmp_path / "t"
    run_successfully("append", table, "--once", *files[:max_files])
    for _ in range(2):
        result = run_command("append", table, "--once", *files)
        assert result.returncode == 1
        assert "256 at most" in result.stderr
        assert aw.open(table)["n"].to_pylist() == list(range(max_files))


def test_append_waits_for_another_writer(tmp_path):
    (tmp_path / "a.csv").write_text("n\n1\n")
    table = tmp_path / "t"
    with aw.writer(table, "n: int64"):
        result = run_command("append", table, tmp_path / "a.csv")
        assert result.returncode == 1
        assert "written by process" in result.stderr
        command = [*COMMAND, "append", "--wait", "60", str(table), str(tmp_path / "a.csv")]
        waiting = subprocess.Popen(command, stderr=subprocess.PIPE)
    waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0
    assert aw.open(table)["n"].to_pylist() == [1]


def test_head_prints_chosen_columns(tmp_path):
    aw.write({"a": [1], "b": [2], "c": [3]}, tmp_path / "x.arrow")
    assert run_successfully("head", "--csv", "--columns", "c,a", tmp_path / "x.arrow") == "c,a\n3,1\n"


def test_man_writes_manual_pages(tmp_path):
    run_successfully("man", tmp_path / "man1")
    assert {"arrowwood.1", "arrowwood-append.1", "arrowwood-export.1"} <= set(file_names(tmp_path / "man1"))
    assert "\\-\\-once" in (tmp_path / "man1" / "arrowwood-append.1").read_text()
