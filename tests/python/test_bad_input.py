"""Tests that data which is not Arrow, is damaged, missing or forbidden causes an error that names it, and no crash."""

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
from conftest import unix_only, unprivileged, write_ipc

SMALL = pa.table({"a": [1, None, 3], "b": pa.array(["x", "y", "x"]).dictionary_encode(), "c": ["p", None, "qq"]})
COMMAND = [sys.executable, "-m", "arrowwood._cli"]


def encode_small(format="file", **options) -> bytes:
    """Returns the small table as written by pyarrow, in two batches."""
    sink = io.BytesIO()
    new_writer = pa.ipc.new_file if format == "file" else pa.ipc.new_stream
    with new_writer(sink, SMALL.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(SMALL, max_chunksize=2)
    return sink.getvalue()


def read_all(ds) -> None:
    """Reads every value of a dataset, and the properties that depend on its metadata."""
    len(ds)
    ds.to_pylist()
    ds.validate()
    ds.to_arrow()
    repr(ds)
    ds.nbytes
    ds.num_batches


# ---- Sources that aren't there, or aren't sources ----


def test_missing_file_is_not_found(tmp_path):
    for source in [tmp_path / "none.arrow", str(tmp_path / "*.arrow"), [tmp_path / "none.arrow"], str(tmp_path / "a?")]:
        with pytest.raises(aw.NotFound) as caught:
            aw.open(source)
        assert isinstance(caught.value, FileNotFoundError)
        assert str(tmp_path) in str(caught.value)
        assert str(tmp_path) in caught.value.path


def test_directory_without_arrow_files_is_not_found(tmp_path):
    (tmp_path / "x.parquet").touch()
    with pytest.raises(aw.NotFound, match=r"\.arrow"):
        aw.open(tmp_path)


@pytest.mark.parametrize("source", [[], ()])
def test_empty_list_of_sources_is_refused(source):
    with pytest.raises(aw.InvalidArgument):
        aw.open(source)


@pytest.mark.parametrize("source", [None, 3, 1.5, {}, object(), [None], {"a": 1}])
def test_source_of_a_wrong_type_is_refused(source):
    with pytest.raises(TypeError, match="expected a path"):
        aw.open(source)


def test_unusable_bytes_and_paths_are_refused():
    with pytest.raises(aw.InvalidData):
        aw.open(b"")
    with pytest.raises(aw.InvalidArgument, match="contiguous"):
        aw.open(memoryview(b"abcdef")[::2])
    with pytest.raises(aw.Error):
        aw.open("a\0b")


@unix_only
def test_devices_are_refused():
    with pytest.raises(aw.InvalidArgument):
        aw.open("/dev/null")


def test_file_without_permission_is_refused(tmp_path):
    path = pathlib.Path(write_ipc(tmp_path / "x.arrow", SMALL))
    path.chmod(0)
    with unprivileged(), pytest.raises(aw.PermissionDenied) as caught:
        aw.open(path)
    assert isinstance(caught.value, PermissionError)
    assert caught.value.errno == 13


@unix_only
def test_paths_that_are_not_utf8_can_be_opened(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.arrow"
    write_ipc(tmp_path / "x", SMALL)
    os.rename(tmp_path / "x", path)
    text_path = os.fsdecode(path)
    assert len(aw.open(text_path)) == 3
    assert len(aw.open(pathlib.Path(text_path))) == 3


# ---- Other formats ----


def write_other_formats(folder: pathlib.Path) -> None:
    (folder / "x.csv").write_text("a,b\n1,2\n3,4\n")
    pyarrow.parquet.write_table(SMALL.select(["a", "c"]), folder / "x.parquet")
    (folder / "x.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    (folder / "x.gz").write_bytes(gzip.compress(encode_small()))
    (folder / "x.json").write_text('{"a": 1}\n')
    (folder / "x.zip").write_bytes(b"PK\3\4" + bytes(100))
    (folder / "empty").touch()
    (folder / "zeros").write_bytes(bytes(1000))
    (folder / "text").write_text("hello " * 100)


# The names of formats that messages must contain. Other files only need an error.
FORMAT_NAMES = {"x.csv": "csv|text", "x.parquet": "parquet", "x.feather": "feather", "x.gz": "gzip", "empty": "empty"}


@pytest.mark.parametrize("copy", [False, True])
def test_other_formats_are_named(tmp_path, copy):
    write_other_formats(tmp_path)
    for path in tmp_path.iterdir():
        with pytest.raises(aw.Error, match=f"(?i){FORMAT_NAMES.get(path.name, '')}") as caught:
            read_all(aw.open(path, copy=copy))
        assert caught.value.path == str(path)
        assert path.name in str(caught.value)


def test_repair_does_not_change_a_file_of_another_format(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("symbol,price\nAAPL,1\n")
    with pytest.raises(aw.InvalidArgument, match="does not begin as an Arrow file"):
        aw.repair(path)
    assert [file.name for file in tmp_path.iterdir()] == ["prices.csv"]
    assert path.read_text() == "symbol,price\nAAPL,1\n"


# ---- Damaged files ----


@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}, {"use_legacy_format": True}])
@pytest.mark.parametrize("format", ["file", "stream"])
def test_data_truncated_at_every_byte(format, options):
    data = encode_small(format, **options)
    rows = aw.open(data).to_pylist()
    assert rows == SMALL.to_pylist()
    for end in range(len(data)):
        truncated = data[:end]
        try:
            ds = aw.open(truncated)
            read_all(ds)
        except aw.Error:
            pass
        else:
            # The end-of-stream marker is optional, so a stream that ends after a batch is complete.
            assert format == "stream"
            assert ds.to_pylist() == rows[: len(ds)]

        try:
            partial_rows = aw.open(truncated, partial=True).to_pylist()
        except aw.Error:
            continue
        assert partial_rows == rows[: len(partial_rows)]


@pytest.mark.parametrize("format", ["file", "stream"])
def test_damage_of_every_byte_does_not_crash(format):
    data = encode_small(format)
    for position in range(len(data)):
        for flipped_bits in [0x01, 0x80, 0xFF]:
            damaged = bytearray(data)
            damaged[position] ^= flipped_bits
            try:
                ds = aw.open(damaged)
                repr(ds)
                repr(ds.messages)
                ds._repr_html_()
                read_all(ds)
            except aw.Error:
                pass
            except (pa.ArrowInvalid, UnicodeDecodeError):
                # `to_arrow` hands metadata to pyarrow, which refuses some of it, such as names that are not UTF-8.
                pass


def test_error_names_the_batch_and_column_of_damage(tmp_path):
    table = pa.table({"n": [1, 2], "words": ["first", "second"]})
    path = pathlib.Path(write_ipc(tmp_path / "x", table))
    path.write_bytes(path.read_bytes().replace(b"second", b"sec\xffnd"))
    ds = aw.open(path)
    assert ds["n"].sum() == 3
    assert ds[0]["words"] == "first"
    for read in [lambda: ds[1], ds.validate, ds["words"].to_arrow, lambda: aw.open(path, validate="full")]:
        with pytest.raises((aw.InvalidData, pa.ArrowInvalid), match="batch 0, column 'words'.*UTF-8"):
            read()
    assert "<error" in repr(ds)


# ---- Other errors of `open` ----


def test_files_with_different_schemas_are_refused(tmp_path):
    write_ipc(tmp_path / "a.arrow", pa.table({"x": [1], "y": [1]}))
    write_ipc(tmp_path / "b.arrow", pa.table({"x": [1], "y": ["1"]}))
    for source in [tmp_path, str(tmp_path / "*.arrow"), [tmp_path / "a.arrow", tmp_path / "b.arrow"]]:
        with pytest.raises(aw.SchemaMismatch, match="a.arrow.*b.arrow.*'y' is (?i:int64 and utf8)") as caught:
            aw.open(source)
        assert isinstance(caught.value, ValueError)


def test_strict_refuses_compressed_data():
    with pytest.raises(aw.CopyNeeded):
        read_all(aw.open(encode_small(compression="lz4"), strict=True))


def test_exceptions_are_documented_subclasses_of_error():
    exported = [getattr(aw, name) for name in aw.__all__]
    for exception in exported:
        if isinstance(exception, type) and issubclass(exception, Exception):
            assert issubclass(exception, aw.Error)
            assert exception.__module__ == "arrowwood"
            assert exception.__doc__


# ---- Imports and the command ----


def test_import_loads_no_large_packages():
    source = os.path.dirname(os.path.dirname(aw.__file__))
    code = f"""
import sys
sys.path.insert(0, {source!r})
import arrowwood
print({{'numpy', 'pyarrow', 'pandas', 'polars', 'typing'}} & set(sys.modules))
"""
    # `-S` skips the .pth files of site-packages, which import packages themselves.
    result = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("package", "method"), [("pyarrow", "to_arrow"), ("pandas", "to_pandas"), ("polars", "to_polars")]
)
def test_missing_packages_are_named(monkeypatch, package, method):
    ds = aw.open(encode_small())
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        getattr(ds, method)()


def test_command_reports_success_missing_files_and_wrong_usage(tmp_path):
    path = write_ipc(tmp_path / "x.arrow", SMALL)
    success = subprocess.run([*COMMAND, "stat", path], capture_output=True, text=True)
    assert success.returncode == 0 and "3" in success.stdout, success
    missing = subprocess.run([*COMMAND, "stat", path + "x"], capture_output=True, text=True)
    assert missing.returncode == 1
    assert "x.arrowx" in missing.stderr
    assert subprocess.run([*COMMAND, "nonsense"], capture_output=True).returncode == 2


def test_command_ignores_a_closed_pipe():
    result = subprocess.run(f"{' '.join(COMMAND)} --help | head -0", shell=True, capture_output=True, text=True)
    assert "panic" not in result.stderr
    assert "Traceback" not in result.stderr


# ---- Text that is not UTF-8 ----


def make_text_array(layout: str, values: list[bytes]) -> pa.Array:
    """Returns the values as text, which pyarrow doesn't check, in an array of the given layout."""
    is_large = layout == "large_utf8"
    binary = pa.array(values, pa.large_binary() if is_large else pa.binary())
    text = binary.view(pa.large_string() if is_large else pa.string())
    if layout == "list":
        return pa.ListArray.from_arrays([0, 1, 2], text)
    if layout == "struct":
        return pa.StructArray.from_arrays([text], names=["inner"])
    if layout == "map":
        return pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), text)
    if layout == "dictionary":
        return pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), text)
    return text


@pytest.mark.parametrize("layout", ["utf8", "large_utf8", "list", "struct", "map", "dictionary"])
def test_append_refuses_text_that_is_not_utf8(tmp_path, layout):
    """Such text was once committed, and then its column could not be read at all."""
    invalid = pa.table({"text": make_text_array(layout, [b"good", b"\xff\xfe"])})
    if layout in ("list", "map", "dictionary"):
        # A slice of these keeps all values of the whole array, so the first row of `invalid` is invalid, too.
        valid = pa.table({"text": make_text_array(layout, [b"good", b"fine"])})[:1]
    else:
        valid = invalid[:1]
    sources = {
        "a table": invalid,
        "a batch": invalid.to_batches()[0],
        "a stream": invalid.to_reader(),
    }

    path = tmp_path / "table"
    with aw.writer(path, invalid.schema) as writer:
        writer.append(valid)
        for name, source in sources.items():
            with pytest.raises(aw.Error, match="UTF-8|utf-8|utf8"):
                writer.append(source)
            writer.commit()
            assert len(aw.open(path)) == 1, name
        writer.append(valid)
    ds = aw.open(path)
    assert len(ds) == 2
    assert aw.check(path).is_good
    assert ds["text"].to_pylist() == 2 * valid["text"].to_pylist()
