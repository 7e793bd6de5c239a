"""Tests data that is not Arrow, incomplete, missing or forbidden: an error says so, and nothing crashes."""

import gzip
import io
import os
import pathlib
import subprocess
import sys

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import arrowwood as aw
from conftest import unprivileged, write_ipc

SMALL = pa.table({"a": [1, None, 3], "b": pa.array(["x", "y", "x"]).dictionary_encode(), "c": ["p", None, "qq"]})


def small(tmp_path, format="file", **options):
    sink = io.BytesIO()
    new = pa.ipc.new_file if format == "file" else pa.ipc.new_stream
    with new(sink, SMALL.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(SMALL, max_chunksize=2)
    return sink.getvalue()


def use(ds):
    """Touch all of a dataset."""
    len(ds), ds.to_pylist(), ds.validate(), ds.to_arrow(), repr(ds), ds.nbytes, ds.num_batches


def test_missing(tmp_path):
    for source in [tmp_path / "none.arrow", str(tmp_path / "*.arrow"), [tmp_path / "none.arrow"], str(tmp_path / "a?")]:
        with pytest.raises(aw.NotFound) as caught:
            aw.open(source)
        assert isinstance(caught.value, FileNotFoundError) and str(tmp_path) in str(caught.value)
        assert str(tmp_path) in caught.value.path


def test_directory_without_arrow_files(tmp_path):
    (tmp_path / "x.parquet").touch()
    with pytest.raises(aw.NotFound, match=r"\.arrow"):
        aw.open(tmp_path)


def test_nothing_and_nonsense(tmp_path):
    for source in [[], ()]:
        with pytest.raises(aw.InvalidArgument):
            aw.open(source)
    for source in [None, 3, 1.5, {}, object(), [None], {"a": 1}]:
        with pytest.raises(TypeError, match="expected a path"):
            aw.open(source)
    with pytest.raises(aw.InvalidData):
        aw.open(b"")
    with pytest.raises(aw.InvalidArgument, match="contiguous"):
        aw.open(memoryview(b"abcdef")[::2])
    with pytest.raises(aw.InvalidArgument):
        aw.open("/dev/null")
    with pytest.raises(aw.Error):
        aw.open("a\0b")


def other_formats(tmp_path):
    table = SMALL.select(["a", "c"])
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    (tmp_path / "x.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    (tmp_path / "x.gz").write_bytes(gzip.compress(small(tmp_path)))
    (tmp_path / "x.json").write_text('{"a": 1}\n')
    (tmp_path / "x.zip").write_bytes(b"PK\3\4" + bytes(100))
    (tmp_path / "empty").touch()
    (tmp_path / "zeros").write_bytes(bytes(1000))
    (tmp_path / "text").write_text("hello " * 100)


def test_other_formats_are_named(tmp_path):
    other_formats(tmp_path)
    words = {"x.csv": "csv|text", "x.parquet": "parquet", "x.feather": "feather", "x.gz": "gzip", "empty": "empty"}
    for path in tmp_path.iterdir():
        for copy in [False, True]:
            with pytest.raises(aw.Error, match=f"(?i){words.get(path.name, '')}") as caught:
                use(aw.open(path, copy=copy))
            assert caught.value.path == str(path) and path.name in str(caught.value)


@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}, {"use_legacy_format": True}])
@pytest.mark.parametrize("format", ["file", "stream"])
def test_cut_at_every_byte(tmp_path, format, options):
    data = small(tmp_path, format, **options)
    whole = aw.open(data).to_pylist()
    assert whole == SMALL.to_pylist()
    for end in range(len(data)):
        try:
            use(aw.open(data[:end]))
        except aw.Error:
            pass
        else:
            # A stream may end without its mark of eight zero bytes.
            assert format == "stream" and aw.open(data[:end]).to_pylist() == whole[: len(aw.open(data[:end]))]
        try:
            rows = aw.open(data[:end], partial=True).to_pylist()
            assert rows == whole[: len(rows)]
        except aw.Error:
            pass


@pytest.mark.parametrize("format", ["file", "stream"])
def test_every_byte_changed(tmp_path, format):
    data = small(tmp_path, format)
    for at in range(len(data)):
        for change in [0x01, 0x80, 0xFF]:
            damaged = bytearray(data)
            damaged[at] ^= change
            try:
                ds = aw.open(damaged)
                repr(ds), repr(ds.messages), ds._repr_html_()
                use(ds)
            except aw.Error:
                pass
            except (pa.ArrowInvalid, UnicodeDecodeError):
                # Metadata, such as a column's name, that pyarrow does not take.
                pass


def test_damage_says_where(tmp_path):
    table = pa.table({"n": [1, 2], "words": ["first", "second"]})
    path = pathlib.Path(write_ipc(tmp_path / "x", table))
    path.write_bytes(path.read_bytes().replace(b"second", b"sec\xffnd"))
    ds = aw.open(path)
    assert ds["n"].sum() == 3 and ds[0]["words"] == "first"
    for fails in [lambda: ds[1], ds.validate, ds["words"].to_arrow, lambda: aw.open(path, validate="full")]:
        with pytest.raises((aw.InvalidData, pa.ArrowInvalid), match="batch 0, column 'words'.*UTF-8"):
            fails()
    assert "<error" in repr(ds)


def test_globs_with_different_schemas(tmp_path):
    write_ipc(tmp_path / "a.arrow", pa.table({"x": [1], "y": [1]}))
    write_ipc(tmp_path / "b.arrow", pa.table({"x": [1], "y": ["1"]}))
    for source in [tmp_path, str(tmp_path / "*.arrow"), [tmp_path / "a.arrow", tmp_path / "b.arrow"]]:
        with pytest.raises(aw.SchemaMismatch, match="a.arrow.*b.arrow.*'y' is (?i:int64 and utf8)") as caught:
            aw.open(source)
        assert isinstance(caught.value, ValueError)


def test_strict_names_what_had_to_be_copied(tmp_path):
    with pytest.raises(aw.CopyNeeded):
        use(aw.open(small(tmp_path, compression="lz4"), strict=True))


def test_no_permission(tmp_path):
    path = pathlib.Path(write_ipc(tmp_path / "x.arrow", SMALL))
    path.chmod(0)
    with unprivileged(), pytest.raises(aw.PermissionDenied) as caught:
        aw.open(path)
    assert isinstance(caught.value, PermissionError) and caught.value.errno == 13


def test_errors_are_of_the_right_family():
    for name in aw.__all__:
        error = getattr(aw, name)
        if isinstance(error, type) and issubclass(error, Exception):
            assert issubclass(error, aw.Error) and error.__module__ == "arrowwood" and error.__doc__


def test_paths_that_are_not_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.arrow"
    write_ipc(tmp_path / "x", SMALL)
    os.rename(tmp_path / "x", path)
    assert len(aw.open(os.fsdecode(path))) == len(aw.open(pathlib.Path(os.fsdecode(path)))) == 3


def test_import_is_light():
    code = "import sys, arrowwood; heavy = {'numpy', 'pyarrow', 'pandas', 'polars', 'typing'} & set(sys.modules); print(heavy)"
    # Without site-packages' .pth files, which import much themselves.
    source = os.path.dirname(os.path.dirname(aw.__file__))
    command = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {source!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("package", "method"), [("pyarrow", "to_arrow"), ("pandas", "to_pandas"), ("polars", "to_polars")]
)
def test_missing_packages_are_named(tmp_path, monkeypatch, package, method):
    ds = aw.open(small(tmp_path))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        getattr(ds, method)()


def test_the_command(tmp_path):
    path = write_ipc(tmp_path / "x.arrow", SMALL)
    command = [sys.executable, "-m", "arrowwood._cli"]
    done = subprocess.run([*command, "stat", path], capture_output=True, text=True)
    assert done.returncode == 0 and "3" in done.stdout, done
    missing = subprocess.run([*command, "stat", path + "x"], capture_output=True, text=True)
    assert missing.returncode == 1 and "x.arrowx" in missing.stderr
    assert subprocess.run([*command, "nonsense"], capture_output=True).returncode == 2
    cut = subprocess.run(f"{' '.join(command)} --help | head -0", shell=True, capture_output=True, text=True)
    assert "panic" not in cut.stderr and "Traceback" not in cut.stderr


NOT_UTF8 = [b"good", b"\xff\xfe"]


def not_utf8(kind, values=NOT_UTF8):
    binary = pa.array(values, pa.large_binary() if kind.startswith("large") else pa.binary())
    text = binary.view(pa.large_string() if kind.startswith("large") else pa.string())
    if kind == "list":
        return pa.ListArray.from_arrays([0, 1, 2], text)
    if kind == "struct":
        return pa.StructArray.from_arrays([text], names=["inner"])
    if kind == "map":
        return pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), text)
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), text)
    return text


@pytest.mark.parametrize("kind", ["utf8", "large_utf8", "list", "struct", "map", "dictionary"])
def test_text_that_is_not_utf8_is_refused_by_each_way_in(tmp_path, kind):
    """pyarrow does not check what it views as text. Once it was committed, its column could not be read as a whole."""
    table = pa.table({"text": not_utf8(kind)})
    path = tmp_path / "table"
    ways = {
        "a table": lambda writer: writer.append(table),
        "a batch": lambda writer: writer.append(table.to_batches()[0]),
        "a stream": lambda writer: writer.append(table.to_reader()),
    }
    # A slice of these has all values of the whole.
    good = pa.table({"text": not_utf8(kind, ["good", "fine"])}) if kind in ("list", "map", "dictionary") else table
    good = good[:1]
    with aw.writer(path, table.schema) as writer:
        writer.append(good)
        for way, append in ways.items():
            with pytest.raises(aw.Error, match="UTF-8|utf-8|utf8"):
                append(writer)
            writer.commit()
            assert len(aw.open(path)) == 1, way
        writer.append(good)
    assert len(aw.open(path)) == 2 and aw.check(path).is_good
    assert aw.open(path)["text"].to_pylist() == 2 * good["text"].to_pylist()


def test_repair_leaves_what_is_no_arrow_file(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("symbol,price\nAAPL,1\n")
    with pytest.raises(aw.InvalidArgument, match="does not begin as an Arrow file"):
        aw.repair(path)
    assert [file.name for file in tmp_path.iterdir()] == ["prices.csv"]
    assert path.read_text() == "symbol,price\nAAPL,1\n"
