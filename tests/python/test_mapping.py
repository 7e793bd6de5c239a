"""Tests ``aw.map``, which maps a file as an array of numbers."""

import gc
import mmap
import pathlib
import struct
import subprocess
import sys
import weakref

import numpy as np
import pytest

import arrowwood as aw
from conftest import unix_only, unprivileged

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


@pytest.fixture
def numbers(tmp_path):
    """The path of a file with the numbers from 0 to 99 as int64."""
    path = tmp_path / "numbers"
    np.arange(100, dtype="int64").tofile(path)
    return path


def test_map_has_bytes_by_default(numbers):
    mapping = aw.map(numbers)
    assert (len(mapping), mapping.nbytes, mapping.dtype, mapping.mode, mapping.path) == (
        800,
        800,
        "uint8",
        "r",
        str(numbers),
    )
    assert mapping.tobytes() == numbers.read_bytes()
    assert mapping[8] == 1 and mapping[-8] == 99
    assert not mapping.closed and 0 <= mapping.resident <= 4096


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_dtype_reads_and_writes_like_numpy(tmp_path, dtype):
    path = tmp_path / "x"
    values = np.array([0, 1, 1, 0, 1], dtype=dtype)
    if dtype.startswith("float"):
        values[1:3] = -1.5, np.inf
    if dtype.startswith("int"):
        values[1:3] = np.iinfo(dtype).min, np.iinfo(dtype).max
    values.tofile(path)
    for spelling in [dtype, np.dtype(dtype), getattr(np, dtype, bool), values.dtype.str]:
        mapping = aw.map(path, "c", dtype=spelling)
        assert mapping.dtype == dtype
        assert mapping.tolist() == values.tolist() == list(mapping)
        assert [type(value) for value in mapping] == [type(value) for value in values.tolist()]
    array = np.asarray(mapping)
    assert array.dtype == values.dtype and np.array_equal(array, values)
    mapping[0], mapping[1:3] = values[1].item(), values[[4, 0]]
    values[0], values[1:3] = values[1], values[[4, 0]]
    assert np.array_equal(array, values)


def test_slices_share_the_mapping(numbers):
    mapping = aw.map(numbers, "c", dtype="int64")
    part = mapping[10:20][2:-2]
    assert part.tolist() == list(range(12, 18))
    mapping[12] = -1
    assert part[0] == -1
    assert mapping[50:10].tolist() == [] and mapping[95:1000].tolist() == list(range(95, 100))
    assert mapping[-3:].tolist() == [97, 98, 99]
    with pytest.raises(aw.InvalidArgument):
        mapping[::2]
    part.close()
    assert mapping.closed


@pytest.mark.parametrize("key", [100, -101, 2**63, 2**70])
def test_index_out_of_range_raises(numbers, key):
    mapping = aw.map(numbers, dtype="int64")
    with pytest.raises(aw.RowOutOfRange):
        mapping[key]
    with pytest.raises(IndexError):
        mapping[key] = 1


def test_map_with_offset_and_length(numbers):
    # The offset is in bytes, the length in elements.
    assert aw.map(numbers, dtype="int64", offset=80, length=3).tolist() == [10, 11, 12]
    assert aw.map(numbers, dtype="int64", offset=800).tolist() == []
    assert aw.map(numbers, offset=8, length=1).tobytes() == b"\1"


def test_unaligned_mapping_reads_and_writes(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\xff" * 3 + struct.pack("<4d", 1.5, -2.5, 3.5, 4.5) + b"\xff")
    mapping = aw.map(path, "r+", dtype="float64", offset=3, length=4)
    assert mapping.tolist() == [1.5, -2.5, 3.5, 4.5]
    array = np.asarray(mapping)
    assert not array.flags.aligned and array.sum() == 7.0
    mapping[1:3] = np.array([7.0, 8.0])
    mapping[0] = 6
    assert struct.unpack("<4d", path.read_bytes()[3:-1]) == (6, 7, 8, 4.5)
    assert path.read_bytes()[:3] == b"\xff" * 3 and path.read_bytes()[-1:] == b"\xff"
    assert memoryview(mapping)[1] == 7.0


def test_view_reinterprets_the_same_bytes(numbers):
    mapping = aw.map(numbers)
    assert mapping.view("int64").tolist() == list(range(100))
    assert mapping[8:16].view(np.int32).tolist() == [1, 0]
    with pytest.raises(aw.InvalidArgument, match="whole number"):
        mapping[1:].view("int64")


def test_arrays_and_memoryviews_share_the_mapping(numbers):
    mapping = aw.map(numbers, dtype="int64")
    array, from_buffer = np.asarray(mapping), np.frombuffer(mapping, "int64")
    assert array.ctypes.data == from_buffer.ctypes.data == np.asarray(mapping[3:]).ctypes.data - 3 * 8
    assert not array.flags.writeable and array.dtype == "int64" and array.shape == (100,)
    with pytest.raises(ValueError):
        array[0] = 1
    view = memoryview(mapping)
    assert (view.format, view.itemsize, view.ndim, view.readonly, view.nbytes) == ("q", 8, 1, True, 800)
    assert bytes(memoryview(mapping)) == numbers.read_bytes()
    with open(numbers, "rb") as file:
        buffer = bytearray(800)
        file.readinto(buffer)
    assert buffer == bytes(mapping)


# Prints the first byte of a mapped file, again after a line of input, and writes another byte.
OTHER_PROCESS = """
import mmap, sys
file = open(sys.argv[1], "r+b")
mapping = mmap.mmap(file.fileno(), 0)
print(mapping[0], flush=True)
sys.stdin.readline()
print(mapping[0], flush=True)
mapping[8] = 77
"""


def test_writes_of_shared_mappings_are_seen_by_other_processes(numbers):
    command = [sys.executable, "-c", OTHER_PROCESS, numbers]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "0\n"
    mapping = aw.map(numbers, "r+", dtype="int64")
    mapping[0] = 42
    print(file=other.stdin, flush=True)
    assert other.stdout.readline() == "42\n"
    other.communicate()
    assert mapping[1] == 77
    mapping.flush()
    assert numbers.read_bytes()[:16] == struct.pack("<2q", 42, 77)


def test_array_of_a_writable_mapping_writes_the_file(numbers):
    with aw.map(numbers, "r+", dtype="int64") as mapping:
        array = np.asarray(mapping)
        array[:3] = [7, 8, 9]
        assert mapping[0:3].tolist() == [7, 8, 9]
        # A mapping can't be closed while an array refers to it.
        del array
    assert np.fromfile(numbers, "int64")[:4].tolist() == [7, 8, 9, 3]


def test_copy_on_write_does_not_change_the_file(numbers):
    before = numbers.read_bytes()
    mapping = aw.map(numbers, "c", dtype="int64")
    mapping[0:100] = range(100, 200)
    np.asarray(mapping)[50] = -1
    mapping.flush()
    assert mapping[0] == 100 and mapping[50] == -1
    assert mapping.tobytes()[:8] == struct.pack("<q", 100)
    mapping.close()
    assert numbers.read_bytes() == before


def test_read_only_mapping_refuses_writes(numbers):
    mapping = aw.map(numbers, dtype="int64")
    with pytest.raises(aw.InvalidArgument, match="read-only"):
        mapping[0] = 1
    with pytest.raises(aw.InvalidArgument, match="read-only"):
        mapping[0:1] = [1]


@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        ("int8", 128, aw.InvalidArgument),
        ("uint8", -1, aw.InvalidArgument),
        ("uint64", 2**64, aw.InvalidArgument),
        ("int64", 1.5, TypeError),
        ("int64", "1", TypeError),
        ("float64", None, TypeError),
    ],
)
def test_values_that_do_not_fit_are_refused(numbers, dtype, value, error):
    mapping = aw.map(numbers, "c", dtype=dtype)
    before = mapping.tobytes()
    with pytest.raises(error):
        mapping[0] = value
    with pytest.raises(error):
        mapping[0:2] = [0, value]
    assert mapping.tobytes() == before


def test_slices_accept_sequences_arrays_and_mappings(numbers):
    mapping = aw.map(numbers, "c", dtype="float64")
    mapping[0:3] = (1, 2.5, np.float32(3))
    mapping[3:6] = np.array([4, 5, 6])
    mapping[6:9] = mapping[0:3]
    mapping[1:4] = mapping[0:3]
    assert mapping[:9].tolist() == [1, 1, 2.5, 3, 5, 6, 1, 2.5, 3]
    with pytest.raises(aw.InvalidArgument, match="2 values for a slice of 3"):
        mapping[0:3] = [1, 2]
    with pytest.raises(TypeError):
        mapping[0:3] = 5
    byte_view = mapping.view("uint8")
    byte_view[0:4] = b"abcd"
    byte_view[4:6] = bytearray(b"ef")
    assert byte_view[0:6].tobytes() == b"abcdef"
    mapping[0:2] = np.array([1.5, 2.5], dtype=">f8")
    assert mapping[:2].tolist() == [1.5, 2.5]


def test_use_after_close_raises(numbers):
    mapping = aw.map(numbers, "r+", dtype="int64")
    part, iterator = mapping[1:3], iter(mapping)
    mapping.close()
    mapping.close()
    assert mapping.closed and part.closed and "closed" in repr(mapping)
    uses = [
        lambda: mapping[0],
        lambda: mapping[0:1],
        lambda: part[0],
        lambda: len(mapping),
        lambda: mapping.tobytes(),
        lambda: mapping.tolist(),
        lambda: mapping.flush(),
        lambda: mapping.resident,
        lambda: mapping.view("int8"),
        lambda: list(mapping),
        lambda: next(iterator),
        lambda: np.frombuffer(mapping),
        lambda: memoryview(mapping),
        lambda: mapping.__setitem__(0, 1),
        lambda: mapping.__setitem__(slice(0, 1), [1]),
        lambda: mapping.__enter__(),
        lambda: aw.open(mapping),
    ]
    for use in uses:
        with pytest.raises(aw.Closed) as caught:
            use()
        assert isinstance(caught.value, ValueError)
        assert caught.value.path == str(numbers)


def is_mapped(path):
    return str(path) in pathlib.Path("/proc/self/maps").read_text()


@unix_only
def test_close_unmaps_the_file(numbers):
    mapping = aw.map(numbers)
    assert is_mapped(numbers)
    mapping.close()
    assert not is_mapped(numbers)


@unix_only
def test_dropping_the_last_reference_unmaps_the_file(numbers):
    mapping = aw.map(numbers)
    part, reference = mapping[5:9], weakref.ref(mapping)
    del mapping
    gc.collect()
    # The slice keeps the file mapped, but not the object that it was made from.
    assert reference() is None and part[3] == 1
    del part
    assert not is_mapped(numbers)


def test_close_fails_while_a_buffer_is_exported(numbers):
    mapping = aw.map(numbers, dtype="int64")
    array = np.asarray(mapping[2:4])
    with pytest.raises(aw.Busy, match="1 exported buffer") as caught:
        mapping.close()
    assert isinstance(caught.value, BufferError)
    with pytest.raises(BufferError), mapping:
        pass
    assert mapping[0] == 0 and array.tolist() == [2, 3]
    del array
    mapping.close()


def test_close_fails_while_a_dataset_uses_the_mapping(stocks_file, stocks):
    mapping = aw.map(stocks_file)
    ds = aw.open(mapping)
    with pytest.raises(aw.Busy):
        mapping.close()
    assert ds.to_pylist() == stocks.to_pylist()
    row = ds[3]
    del ds
    mapping.close()
    assert row["symbol"] == "MSFT"


def test_context_manager_closes_the_mapping(numbers):
    with aw.map(numbers) as mapping:
        assert mapping[0] == 0
    assert mapping.closed


def test_map_of_more_than_4_gib(tmp_path):
    path, size = tmp_path / "sparse", 5 << 30
    with open(path, "wb") as file:
        file.truncate(size)
        file.seek(size - 8)
        file.write(struct.pack("<d", 6.25))
    mapping = aw.map(path, dtype="float64")
    assert len(mapping) == size // 8 and mapping.nbytes == size
    assert mapping[-1] == 6.25 and mapping[len(mapping) - 1] == 6.25 and mapping[2**29 + 7] == 0.0
    assert np.asarray(mapping)[-1] == 6.25
    assert mapping[2**29 :][-1] == 6.25
    assert aw.map(path, dtype="float64", offset=size - 8).tolist() == [6.25]


def test_map_of_an_empty_file_has_no_elements(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    for mode in ["r", "r+", "c"]:
        with aw.map(path, mode, dtype="float64") as mapping:
            assert len(mapping) == 0 and list(mapping) == [] and mapping.tobytes() == b"" and mapping.resident == 0
            assert np.asarray(mapping).shape == (0,)
            mapping.flush()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "w"}, "mode must be"),
        ({"dtype": ">i4"}, "little-endian"),
        ({"dtype": "complex128"}, "dtype must be one of"),
        ({"dtype": np.dtype([("a", "i4")])}, "dtype must be one of"),
        ({"dtype": "datetime64[ns]"}, "dtype must be one of"),
        ({"offset": -1}, "negative"),
        ({"length": -1}, "negative"),
        ({"offset": 801}, "past the mapping's 800 bytes"),
        ({"length": 801}, "do not fit"),
        ({"length": 2**62, "dtype": "int64"}, "do not fit"),
        ({"offset": 4, "dtype": "int64"}, "whole number"),
    ],
)
def test_invalid_arguments_are_refused(numbers, arguments, message):
    with pytest.raises(aw.InvalidArgument, match=message):
        aw.map(numbers, **arguments)


def test_missing_files_and_directories_are_refused(tmp_path):
    with pytest.raises(aw.NotFound) as caught:
        aw.map(tmp_path / "none")
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.errno == 2 and caught.value.filename == caught.value.path == str(tmp_path / "none")
    with pytest.raises(aw.InvalidArgument, match="regular"):
        aw.map(tmp_path)
    with pytest.raises(TypeError):
        aw.map(3)


@unix_only
def test_devices_are_refused():
    with pytest.raises(aw.InvalidArgument, match="regular"):
        aw.map("/dev/null")


def test_map_without_permission_raises(numbers):
    numbers.chmod(0o400)
    with unprivileged(), pytest.raises(aw.PermissionDenied):
        aw.map(numbers, "r+")


def test_map_has_the_bytes_of_the_standard_mmap(numbers):
    with open(numbers, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as other:
        assert aw.map(numbers).tobytes() == other[:]
