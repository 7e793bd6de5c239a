"""Tests features for pipelines: text in bounded memory, compressed or not; Parquet; iterators of batches; forms
of paths."""

import datetime as dt
import gzip
import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arrowwood as aw
from waits import PATIENCE, wait_until


def command(*arguments, **options):
    line = [sys.executable, "-m", "arrowwood._cli", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, **options)


def ran(*arguments, **options):
    done = command(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- text ----


def test_csv_tells_nothing_from_an_empty_text(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('a,b\n"",1\n,"NA"\n')
    assert aw.read_csv(path).to_pylist() == [{"a": "", "b": "1"}, {"a": None, "b": "NA"}]
    path.write_text("a\n1\n\n3\n")
    assert aw.read_csv(path)["a"].to_pylist() == [1, None, 3]


def test_csv_tells_nothing_from_no_bytes(tmp_path):
    aw.write(pa.table({"b": [b"", None, b"\x01"], "n": [1, 2, 3]}), tmp_path / "x.arrow")
    ran("export", tmp_path / "x.arrow", tmp_path / "x.csv")
    back = aw.read_csv(tmp_path / "x.csv", schema="b: binary, n: int64")
    assert back["b"].to_pylist() == [b"", None, b"\x01"]
    ran("append", tmp_path / "t", "--schema", "b: binary, n: int64", tmp_path / "x.csv")
    assert aw.open(tmp_path / "t")["b"].to_pylist() == [b"", None, b"\x01"]
    # A number that is quoted and empty is none.
    assert aw.read_csv(io.StringIO('a\n""\n1\n'))["a"].to_pylist() == [None, 1]


def test_dates_are_found_and_times_without_seconds_are_not():
    for text in ["Jan 1 2000", "1 Jan 2000", "2000-01-01"]:
        assert aw.read_csv(io.StringIO(f"a\n{text}\n2000-01-01\n"))["a"].to_pylist() == [dt.date(2000, 1, 1)] * 2
        assert aw.read_csv(io.StringIO(f"a\n{text}\nx\n"))["a"].to_pylist() == [text, "x"]
    for text in ["10:00:00", "2024-01-01T10:00"]:
        assert aw.read_csv(io.StringIO(f"a\n{text}\n"))["a"].to_pylist() == [text]
        assert aw.read_csv(io.StringIO(f"a\n2000-01-02\n{text}\n"))["a"].dtype == "utf8"


def test_one_text_where_a_list_may_be():
    ds = aw.read_csv(io.StringIO("a,x\n-,u\n1,-\n"), null_values="-", dictionary="x")
    assert ds.to_pylist() == [{"a": None, "x": "u"}, {"a": 1, "x": None}] and "dictionary" in ds["x"].dtype
    assert "dictionary" in aw.read_json(io.StringIO('{"x": "u"}'), dictionary="x")["x"].dtype


def test_columns_of_a_schema_name_those_of_a_text_without_header(tmp_path):
    text = "1,x\n2,y\n"
    assert aw.read_csv(io.StringIO(text), header=False, schema="n: int8, s: utf8").to_pylist() == [
        {"n": 1, "s": "x"},
        {"n": 2, "s": "y"},
    ]
    assert aw.read_csv(io.StringIO(text), header=False, schema="column_2: utf8").to_pylist() == [
        {"column_2": "x"},
        {"column_2": "y"},
    ]
    with pytest.raises(aw.ColumnNotFound):
        aw.read_csv(io.StringIO(text), header=False, schema="n: int8")
    with pytest.raises(aw.ColumnNotFound):
        aw.read_csv(io.StringIO(text), header=False, schema="n: int8, column_2: utf8, t: utf8")


def test_csv_in_other_manners(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,5;-;'a;b'\n2;7;c\n")
    ds = aw.read_csv(path, delimiter=";", quote="'", header=False, null_values=["-"], decimal=",")
    assert ds.to_pylist() == [
        {"column_1": 1.5, "column_2": None, "column_3": "a;b"},
        {"column_1": 2.0, "column_2": 7, "column_3": "c"},
    ]
    options = ["--delimiter", ";", "--quote", "'", "--no-header", "--null", "-", "--decimal-comma"]
    ran("import", path, tmp_path / "x.arrow", *options)
    assert aw.open(tmp_path / "x.arrow").to_pylist() == ds.to_pylist()
    # `append` has the same options, for a file and for what comes through a pipe, and both have a schema.
    schema = "x: float64, n: int64, s: utf8"
    ran("append", tmp_path / "t", *options, "--schema", schema, path)
    ran("append", tmp_path / "t", *options, input=path.read_text())
    ran("import", path, tmp_path / "y.arrow", *options, "--schema", schema)
    rows = aw.open(tmp_path / "y.arrow").to_pylist()
    assert rows == [{"x": 1.5, "n": None, "s": "a;b"}, {"x": 2.0, "n": 7, "s": "c"}]
    assert aw.open(tmp_path / "t").to_pylist() == 2 * rows
    for wrong in [{"decimal": "x"}, {"quote": "ab"}, {"quote": ","}, {"decimal": ","}]:
        with pytest.raises(aw.InvalidArgument):
            aw.read_csv(path, **wrong)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_compressed_text(tmp_path, suffix):
    rows = 200_000
    text = "id,name\n" + "".join(f"{i},name {i}\n" for i in range(rows))
    lines = "".join(json.dumps({"id": i, "name": f"name {i}"}) + "\n" for i in range(rows))
    for name, content, read in [("x.csv", text, aw.read_csv), ("x.jsonl", lines, aw.read_json)]:
        packed = {"": bytes, ".gz": gzip.compress, ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}[
            suffix
        ](content.encode())
        path = tmp_path / (name + suffix)
        path.write_bytes(packed)
        ds = read(path)
        assert (
            ds.shape == (rows, 2)
            and ds["id"].sum() == rows * (rows - 1) // 2
            and ds[-1] == {"id": rows - 1, "name": f"name {rows - 1}"}
        )
        with path.open("rb") as file:
            assert read(file).shape == (rows, 2)
        ran("import", path, tmp_path / "out.arrow")
        assert aw.open(tmp_path / "out.arrow")["name"].to_pylist() == [f"name {i}" for i in range(rows)]
        table = tmp_path / ("table " + name)
        ran("append", table, path)
        with path.open("rb") as file:
            ran("append", table, stdin=file)
        assert len(aw.open(table)) == 2 * rows and aw.open(table)["id"].sum() == rows * (rows - 1)


def test_imports_need_no_memory_for_the_whole_text(tmp_path):
    path = tmp_path / "x.csv"
    with path.open("w") as file:
        file.write("id,x,name\n")
        for start in range(0, 4_000_000, 100_000):
            file.write("".join(f"{i},{i / 4},some text of number {i}\n" for i in range(start, start + 100_000)))
    assert path.stat().st_size > 150_000_000
    program = (
        "import re; from arrowwood import _arrowwood; "
        f"code = _arrowwood._run_cli(['arrowwood', 'import', {str(path)!r}, {str(tmp_path / 'x.arrow')!r}]); "
        # getrusage(2) isn't used, as its maximum includes memory of the parent at the time of the fork.
        "print(code, re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    code, peak = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split()
    assert code == "0" and int(peak) < 256 << 10
    ds = aw.open(tmp_path / "x.arrow")
    assert len(ds) == 4_000_000 and ds["id"].sum() == 4_000_000 * 3_999_999 // 2
    assert ds[3_999_999] == {"id": 3_999_999, "x": 999_999.75, "name": "some text of number 3999999"}


values = st.one_of(st.none(), st.integers(-(2**40), 2**40), st.booleans(), st.text(max_size=5))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), values, max_size=3), max_size=8))
def test_json_is_what_pythons_own_reads(rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    ds = aw.read_json(_file(text))
    array = aw.read_json(_file(json.dumps(rows)))
    assert ds.to_pylist() == array.to_pylist() and len(ds) == len(rows)
    for name in ds.columns:
        given = [row.get(name) for row in rows]
        if all(isinstance(value, str | None) for value in given) and "date" not in ds[name].dtype:
            assert ds[name].to_pylist() == given


def _file(text):
    return io.StringIO(text)


def test_json_that_was_read_silently(tmp_path):
    assert aw.read_json(_file('{"a": "NaN"}\n'))["a"].to_pylist() == ["NaN"]
    beside = aw.read_json(_file('{"a": "NaN"}\n{"a": 1.5}\n'))["a"]
    assert beside.dtype == "float64" and np.isnan(beside[0])
    with pytest.raises(aw.InvalidData, match="column `a`: no type holds all its numbers"):
        aw.read_json(_file('{"a": 1}\n{"a": 18446744073709551616}\n'))
    assert aw.read_json(_file('{"a": 18446744073709551616}\n'), schema="a: float64")["a"][0] == 2.0**64
    for text in ['[{"a":1},]', '[,{"a":1}]', '[{"a":1},,{"a":2}]']:
        with pytest.raises(aw.InvalidData, match="expected an element"):
            aw.read_json(_file(text))


# ---- other formats and sources ----


def test_parquet_both_ways(tmp_path):
    table = pa.table({"n": range(1000), "s": [f"s{i}" for i in range(1000)], "d": pa.array([1.5, None] * 500)})
    pq.write_table(table, tmp_path / "x.parquet")
    ds = aw.read_parquet(tmp_path / "x.parquet")
    assert ds.to_arrow().equals(table)
    assert aw.read_parquet(str(tmp_path / "x.parquet"), columns=["d"]).columns == ["d"]
    aw.write(ds, tmp_path / "y.parquet", compression="zstd", max_rows=300)
    assert pq.read_table(tmp_path / "y.parquet").equals(table)
    assert pq.ParquetFile(tmp_path / "y.parquet").num_row_groups == 4
    ran("import", tmp_path / "x.parquet", tmp_path / "z.arrow")
    assert aw.open(tmp_path / "z.arrow").to_pylist() == table.to_pylist()
    ran("export", tmp_path / "z.arrow", tmp_path / "z.parquet")
    assert pq.read_table(tmp_path / "z.parquet").to_pylist() == table.to_pylist()
    with pytest.raises(TypeError):
        aw.write(5, tmp_path / "none.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.parquet", "y.parquet", "z.arrow", "z.parquet"]


def test_parquet_keeps_types_by_command(tmp_path):
    array = pa.array
    day = dt.datetime(2024, 1, 1)
    table = pa.table(
        {
            "money": array([Decimal("1.50"), None], pa.decimal256(50, 2)),
            "took": array([-5, None], pa.duration("us")),
            "at": array([day, None], pa.timestamp("ms")),
            "there": array([day, None], pa.timestamp("us", "America/New_York")),
            "symbol": array(["a", None]).dictionary_encode(),
            "pair": array([[1, 2], None], pa.list_(pa.int32(), 2)),
            "half": array([np.float16(1.5), None], pa.float16()),
            "clock": array([dt.time(10), None], pa.time32("ms")),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    ran("import", tmp_path / "x.parquet", tmp_path / "x.arrow")
    assert aw.open(tmp_path / "x.arrow").to_arrow().equals(aw.read_parquet(tmp_path / "x.parquet").to_arrow())
    assert aw.open(tmp_path / "x.arrow").to_arrow().schema.equals(table.schema)
    ran("export", tmp_path / "x.arrow", tmp_path / "y.parquet")
    back = pq.read_table(tmp_path / "y.parquet")
    assert back.schema.equals(table.schema) and back.to_pylist() == table.to_pylist()
    # What no Parquet file holds is refused, and nothing is written.
    union = pa.UnionArray.from_sparse(array([0], pa.int8()), [array([1])])
    aw.write(pa.table({"u": union}), tmp_path / "u.arrow")
    assert command("export", tmp_path / "u.arrow", tmp_path / "u.parquet").returncode == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["u.arrow", "x.arrow", "x.parquet", "y.parquet"]


def test_parquet_where_it_does_not_belong(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    for verb in [["head", path], ["append", tmp_path / "t", path]]:
        assert "arrowwood import" in command(*verb).stderr
    with pytest.raises(aw.InvalidData, match="aw.read_parquet"):
        aw.open(path)
    for verb in [["import", "-", tmp_path / "x.arrow"], ["append", tmp_path / "t"]]:
        with path.open("rb") as file:
            done = command(*verb, stdin=file)
        assert done.returncode == 1 and "Parquet" in done.stderr


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.arrow", "x.parquet"])
def test_an_export_that_is_killed_leaves_nothing(tmp_path, name):
    aw.write({"s": ["some text"] * 3_000_000}, tmp_path / "in.arrow")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("old")
    line = [sys.executable, "-m", "arrowwood._cli", "export", str(tmp_path / "in.arrow"), str(tmp_path / "out" / name)]
    child = subprocess.Popen(line)
    # It is killed when it writes: then it has a file open in the folder.
    fds = Path(f"/proc/{child.pid}/fd")
    writes = lambda: any(str(tmp_path / "out") in target(fd) for fd in fds.iterdir())
    wait_until(lambda: child.poll() is not None or writes(), "the export writes")
    child.kill()
    if child.wait() != 0:
        assert [path.name for path in (tmp_path / "out").iterdir()] == [name]
        assert (tmp_path / "out" / name).read_text() == "old"


def target(fd):
    try:
        return os.readlink(fd)
    except OSError:
        return ""


def test_streams_by_name(tmp_path):
    for name, kind in [("x.arrows", "stream"), ("x.arrow", "file"), ("x.xyz", "file")]:
        aw.write({"n": [1, 2]}, tmp_path / name)
        with (tmp_path / name).open("rb") as file:
            assert (file.read(6) == b"ARROW1") == (kind == "file")
        assert aw.open(tmp_path / name)["n"].to_pylist() == [1, 2]
    with pa.OSFile(str(tmp_path / "x.arrows")) as file, pa.ipc.open_stream(file) as reader:
        assert reader.read_all().to_pydict() == {"n": [1, 2]}
    aw.write({"n": [1]}, tmp_path / "y.arrows", format="file")
    assert (tmp_path / "y.arrows").read_bytes().startswith(b"ARROW1")
    ran("export", tmp_path / "x.arrow", tmp_path / "z.arrows")
    assert (tmp_path / "z.arrows").read_bytes() == (tmp_path / "x.arrows").read_bytes()


def test_export_by_name(tmp_path):
    aw.write({"a": [1, None], "b": ["x", ""]}, tmp_path / "x.arrow")
    ran("export", tmp_path / "x.arrow", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == 'a,b\n1,x\n,""\n'
    assert aw.read_csv(tmp_path / "x.csv").to_pylist() == aw.open(tmp_path / "x.arrow").to_pylist()
    ran("export", tmp_path / "x.arrow", tmp_path / "x.jsonl")
    assert aw.read_json(tmp_path / "x.jsonl").to_pylist() == aw.open(tmp_path / "x.arrow").to_pylist()
    refused = command("export", tmp_path / "x.arrow", tmp_path / "x.xlsx")
    assert refused.returncode == 1 and ".parquet" in refused.stderr and "x.xlsx: " in refused.stderr
    refused = command("import", tmp_path / "x.csv", tmp_path / "y.csv")
    assert refused.returncode == 1 and "`arrowwood export`" in refused.stderr
    refused = command("head", "--columns", "a,z", tmp_path / "x.arrow")
    assert refused.returncode == 1 and "x.arrow: no column 'z'" in refused.stderr
    missing = command("export", tmp_path / "none.arrow", tmp_path / "y.csv")
    assert missing.returncode == 1 and not (tmp_path / "y.csv").exists()


def test_batches_are_written_as_they_come(tmp_path):
    def batches(count):
        for i in range(count):
            yield pa.record_batch({"n": [i, i + 1]})

    aw.write(batches(3), tmp_path / "x.arrow")
    ds = aw.open(tmp_path / "x.arrow")
    assert ds["n"].to_pylist() == [0, 1, 1, 2, 2, 3] and ds.num_batches == 3
    aw.write(list(batches(3)), tmp_path / "y.arrow", compression="zstd")
    assert aw.open(tmp_path / "y.arrow").to_pylist() == ds.to_pylist()
    for options in [{"format": "stream"}, {"max_rows": 1}, {"schema": "n: int16"}]:
        aw.write(batches(3), tmp_path / "z.arrow", **options)
        assert aw.open(tmp_path / "z.arrow").to_pylist() == ds.to_pylist()
    dictionaries = [pa.table({"s": pa.array(part).dictionary_encode()}) for part in (["a", "b"], ["c", "a"])]
    aw.write(iter(dictionaries), tmp_path / "d.arrow")
    assert aw.open(tmp_path / "d.arrow")["s"].to_pylist() == ["a", "b", "c", "a"]

    def failing():
        yield from batches(2)
        raise RuntimeError("no more")

    for error, parts in [
        (RuntimeError, failing()),
        (aw.SchemaMismatch, iter([*batches(1), pa.record_batch({"m": [1]})])),
    ]:
        with pytest.raises(error):
            aw.write(parts, tmp_path / "x.arrow")
    # Nothing was replaced, and nothing is left.
    assert aw.open(tmp_path / "x.arrow").to_pylist() == ds.to_pylist()
    assert not list(tmp_path.glob(".*"))
    aw.write(({"n": i} for i in range(3)), tmp_path / "rows.arrow")
    assert aw.open(tmp_path / "rows.arrow")["n"].to_pylist() == [0, 1, 2]


def test_paths_in_other_words(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    aw.write({"n": [1]}, "~/a b.arrow")
    assert (tmp_path / "a b.arrow").exists() and aw.open("~/a b.arrow")["n"][0] == 1
    assert aw.open(f"file://{tmp_path}/a%20b.arrow")["n"][0] == 1
    assert "1" in ran("head", f"file://localhost{tmp_path}/a%20b.arrow")
    for url, way_out in [
        ("s3://bucket/x.arrow", "aws s3 cp"),
        ("https://host/x.arrow", "curl -O"),
        ("gs://b/x.csv", "gcloud storage cp"),
    ]:
        # `open` reads Arrow files there: see test_objects.py.
        opens = [] if url.endswith(".arrow") else [aw.open]
        for read in [*opens, aw.read_csv, aw.read_json, aw.read_parquet]:
            with pytest.raises(aw.InvalidArgument, match=way_out):
                read(url)
        if opens:
            assert way_out in command("head", url).stderr
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~").mkdir()
    aw.write({"n": [2]}, tmp_path / "~" / "x.arrow")
    assert aw.open("~/x.arrow")["n"][0] == 2


# ---- the command ----


def test_files_are_appended_once(tmp_path):
    (tmp_path / "a.csv").write_text("n\n1\n2\n")
    (tmp_path / "b.csv").write_text("n\n3\n")
    table = tmp_path / "t"
    ran("append", table, "--once", tmp_path / "a.csv")
    again = command("append", table, "--once", tmp_path / "a.csv", tmp_path / "b.csv")
    assert again.returncode == 0 and "left out" in again.stderr
    assert aw.open(table)["n"].to_pylist() == [1, 2, 3] and set(aw.open(table).positions) == {"a.csv", "b.csv"}
    # Other content of the same size, and another day's file of the same name: never left out as if it were there.
    (tmp_path / "a.csv").write_text("n\n1\n9\n")
    changed = command("append", table, "--once", tmp_path / "a.csv")
    assert changed.returncode == 1 and "other content" in changed.stderr and len(aw.open(table)) == 3
    assert command("append", table, "--once", "-", input="n\n5\n").returncode == 1


def test_a_file_beyond_those_that_a_table_notes_is_refused_with_its_rows(tmp_path):
    files = [tmp_path / f"{number:03}.csv" for number in range(258)]
    for number, file in enumerate(files):
        file.write_text(f"n\n{number}\n")
    table = tmp_path / "t"
    ran("append", table, "--once", *files[:256])
    for _ in range(2):
        refused = command("append", table, "--once", *files)
        assert refused.returncode == 1 and "256 at most" in refused.stderr
        assert aw.open(table)["n"].to_pylist() == list(range(256))


def test_jobs_that_overlap_wait_for_each_other(tmp_path):
    (tmp_path / "a.csv").write_text("n\n1\n")
    with aw.writer(tmp_path / "t", "n: int64"):
        busy = command("append", tmp_path / "t", tmp_path / "a.csv")
        assert busy.returncode == 1 and "written by process" in busy.stderr
        line = [
            sys.executable,
            "-m",
            "arrowwood._cli",
            "append",
            "--wait",
            "60",
            str(tmp_path / "t"),
            str(tmp_path / "a.csv"),
        ]
        job = subprocess.Popen(line, stderr=subprocess.PIPE)
    assert job.communicate(timeout=PATIENCE)[1] is not None and job.returncode == 0
    assert aw.open(tmp_path / "t")["n"].to_pylist() == [1]


def test_head_of_some_columns(tmp_path):
    aw.write({"a": [1], "b": [2], "c": [3]}, tmp_path / "x.arrow")
    assert ran("head", "--csv", "--columns", "c,a", tmp_path / "x.arrow") == "c,a\n3,1\n"


def test_manual_pages(tmp_path):
    ran("man", tmp_path / "man1")
    pages = {path.name for path in (tmp_path / "man1").iterdir()}
    assert {"arrowwood.1", "arrowwood-append.1", "arrowwood-export.1"} <= pages
    assert "\\-\\-once" in (tmp_path / "man1" / "arrowwood-append.1").read_text()
