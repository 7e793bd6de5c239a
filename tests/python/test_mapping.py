"""Files as typed memory."""

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
from conftest import unprivileged

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


@pytest.fixture
def numbers(tmp_path):
    path = tmp_path / "numbers"
    np.arange(100, dtype="int64").tofile(path)
    return path


def test_bytes_by_default(numbers):
    m = aw.map(numbers)
    assert (len(m), m.nbytes, m.dtype, m.mode, m.path) == (800, 800, "uint8", "r", str(numbers))
    assert m.tobytes() == numbers.read_bytes()
    assert m[8] == 1 and m[-8] == 99
    assert not m.closed and 0 <= m.resident <= 4096


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_reads_and_writes_as_numpy_does(tmp_path, dtype):
    path = tmp_path / "x"
    values = np.array([0, 1, 1, 0, 1], dtype=dtype)
    if dtype.startswith("float"):
        values[1:3] = -1.5, np.inf
    if dtype.startswith("int"):
        values[1:3] = np.iinfo(dtype).min, np.iinfo(dtype).max
    values.tofile(path)
    for given in [dtype, np.dtype(dtype), getattr(np, dtype, bool), values.dtype.str]:
        m = aw.map(path, "c", dtype=given)
        assert m.dtype == dtype and m.tolist() == values.tolist() == list(m)
        assert [type(v) for v in m] == [type(v) for v in values.tolist()]
    a = np.asarray(m)
    assert a.dtype == values.dtype and np.array_equal(a, values)
    m[0], m[1:3] = values[1].item(), values[[4, 0]]
    values[0], values[1:3] = values[1], values[[4, 0]]
    assert np.array_equal(a, values)


def test_slices_share_the_mapping(numbers):
    m = aw.map(numbers, "c", dtype="int64")
    part = m[10:20][2:-2]
    assert part.tolist() == list(range(12, 18))
    m[12] = -1
    assert part[0] == -1
    assert m[50:10].tolist() == [] and m[95:1000].tolist() == list(range(95, 100))
    assert m[-3:].tolist() == [97, 98, 99]
    with pytest.raises(aw.InvalidArgument):
        m[::2]
    part.close()
    assert m.closed


@pytest.mark.parametrize("key", [100, -101, 2**63, 2**70])
def test_elements_out_of_range(numbers, key):
    m = aw.map(numbers, dtype="int64")
    with pytest.raises(aw.RowOutOfRange):
        m[key]
    with pytest.raises(IndexError):
        m[key] = 1


def test_offset_and_length_in_elements(numbers):
    assert aw.map(numbers, dtype="int64", offset=80, length=3).tolist() == [10, 11, 12]
    assert aw.map(numbers, dtype="int64", offset=800).tolist() == []
    assert aw.map(numbers, offset=8, length=1).tobytes() == b"\1"


def test_unaligned_views_read_and_write_right(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"\xff" * 3 + struct.pack("<4d", 1.5, -2.5, 3.5, 4.5) + b"\xff")
    m = aw.map(path, "r+", dtype="float64", offset=3, length=4)
    assert m.tolist() == [1.5, -2.5, 3.5, 4.5]
    a = np.asarray(m)
    assert not a.flags.aligned and a.sum() == 7.0
    m[1:3] = np.array([7.0, 8.0])
    m[0] = 6
    assert struct.unpack("<4d", path.read_bytes()[3:-1]) == (6, 7, 8, 4.5)
    assert path.read_bytes()[:3] == b"\xff" * 3 and path.read_bytes()[-1:] == b"\xff"
    assert memoryview(m)[1] == 7.0


def test_views_see_the_same_bytes(numbers):
    m = aw.map(numbers)
    assert m.view("int64").tolist() == list(range(100))
    assert m[8:16].view(np.int32).tolist() == [1, 0]
    with pytest.raises(aw.InvalidArgument, match="whole number"):
        m[1:].view("int64")


def test_arrays_are_the_mapping_itself(numbers):
    m = aw.map(numbers, dtype="int64")
    a, b = np.asarray(m), np.frombuffer(m, "int64")
    assert a.ctypes.data == b.ctypes.data == np.asarray(m[3:]).ctypes.data - 24
    assert not a.flags.writeable and a.dtype == "int64" and a.shape == (100,)
    with pytest.raises(ValueError):
        a[0] = 1
    view = memoryview(m)
    assert (view.format, view.itemsize, view.ndim, view.readonly, view.nbytes) == ("q", 8, 1, True, 800)
    assert bytes(memoryview(m)) == numbers.read_bytes()
    with open(numbers, "rb") as file:
        buffer = bytearray(800)
        file.readinto(buffer)
    assert buffer == bytes(m)


def test_read_write_reaches_other_processes_at_once(numbers):
    code = "import mmap,sys; f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),0); print(m[0], flush=True);"
    code += "sys.stdin.readline(); print(m[0], flush=True); m[8]=77"
    other = subprocess.Popen(
        [sys.executable, "-c", code, numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "0\n"
    m = aw.map(numbers, "r+", dtype="int64")
    m[0] = 42
    print(file=other.stdin, flush=True)
    assert other.stdout.readline() == "42\n"
    other.communicate()
    assert m[1] == 77
    m.flush()
    assert numbers.read_bytes()[:16] == struct.pack("<2q", 42, 77)


def test_arrays_of_a_writable_mapping_write(numbers):
    with aw.map(numbers, "r+", dtype="int64") as m:
        a = np.asarray(m)
        a[:3] = [7, 8, 9]
        assert m[0:3].tolist() == [7, 8, 9]
        del a
    assert np.fromfile(numbers, "int64")[:4].tolist() == [7, 8, 9, 3]


def test_copy_on_write_never_reaches_the_file(numbers):
    before = numbers.read_bytes()
    m = aw.map(numbers, "c", dtype="int64")
    m[0:100] = range(100, 200)
    np.asarray(m)[50] = -1
    m.flush()
    assert m[0] == 100 and m[50] == -1
    assert m.tobytes()[:8] == struct.pack("<q", 100)
    m.close()
    assert numbers.read_bytes() == before


def test_read_only_refuses_to_write(numbers):
    m = aw.map(numbers, dtype="int64")
    for key in [0, slice(0, 1)]:
        with pytest.raises(aw.InvalidArgument, match="read-only"):
            m[key] = [1] if key != 0 else 1


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
def test_values_that_do_not_fit(numbers, dtype, value, error):
    m = aw.map(numbers, "c", dtype=dtype)
    before = m.tobytes()
    with pytest.raises(error):
        m[0] = value
    with pytest.raises(error):
        m[0:2] = [0, value]
    assert m.tobytes() == before


def test_slices_are_assigned_from_anything_alike(numbers):
    m = aw.map(numbers, "c", dtype="float64")
    m[0:3] = (1, 2.5, np.float32(3))
    m[3:6] = np.array([4, 5, 6])
    m[6:9] = m[0:3]
    m[1:4] = m[0:3]
    assert m[:9].tolist() == [1, 1, 2.5, 3, 5, 6, 1, 2.5, 3]
    with pytest.raises(aw.InvalidArgument, match="2 values for a slice of 3"):
        m[0:3] = [1, 2]
    with pytest.raises(TypeError):
        m[0:3] = 5
    raw = m.view("uint8")
    raw[0:4] = b"abcd"
    raw[4:6] = bytearray(b"ef")
    assert raw[0:6].tobytes() == b"abcdef"
    big = np.array([1.5, 2.5], dtype=">f8")
    m[0:2] = big
    assert m[:2].tolist() == [1.5, 2.5]


def test_use_after_close_raises(numbers):
    m = aw.map(numbers, "r+", dtype="int64")
    part, it = m[1:3], iter(m)
    m.close()
    m.close()
    assert m.closed and part.closed and "closed" in repr(m)
    uses = [
        lambda: m[0],
        lambda: m[0:1],
        lambda: part[0],
        lambda: len(m),
        lambda: m.tobytes(),
        lambda: m.tolist(),
        lambda: m.flush(),
        lambda: m.resident,
        lambda: m.view("int8"),
        lambda: list(m),
        lambda: next(it),
        lambda: np.frombuffer(m),
        lambda: memoryview(m),
        lambda: m.__setitem__(0, 1),
        lambda: m.__setitem__(slice(0, 1), [1]),
        lambda: m.__enter__(),
        lambda: aw.open(m),
    ]
    for use in uses:
        with pytest.raises(aw.Closed) as caught:
            use()
        assert isinstance(caught.value, ValueError)
        assert caught.value.path == str(numbers)


def test_close_gives_the_memory_back(numbers):
    m = aw.map(numbers)
    assert str(numbers) in pathlib.Path("/proc/self/maps").read_text()
    m.close()
    assert str(numbers) not in pathlib.Path("/proc/self/maps").read_text()


def test_dropping_gives_the_memory_back(numbers):
    m = aw.map(numbers)
    part, ref = m[5:9], weakref.ref(m)
    del m
    gc.collect()
    assert ref() is None and part[3] == 1
    del part
    assert str(numbers) not in pathlib.Path("/proc/self/maps").read_text()


def test_no_closing_while_a_buffer_is_out(numbers):
    m = aw.map(numbers, dtype="int64")
    a = np.asarray(m[2:4])
    with pytest.raises(aw.Busy, match="1 exported buffer") as caught:
        m.close()
    assert isinstance(caught.value, BufferError)
    with pytest.raises(BufferError), m:
        pass
    assert m[0] == 0 and a.tolist() == [2, 3]
    del a
    m.close()


def test_a_dataset_holds_the_mapping_it_was_opened_from(stocks_file, stocks):
    m = aw.map(stocks_file)
    ds = aw.open(m)
    with pytest.raises(aw.Busy):
        m.close()
    assert ds.to_pylist() == stocks.to_pylist()
    row = ds[3]
    del ds
    m.close()
    assert row["symbol"] == "MSFT"


def test_context_manager(numbers):
    with aw.map(numbers) as m:
        assert m[0] == 0
    assert m.closed


def test_beyond_4_gib(tmp_path):
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.truncate(5 << 30)
        file.seek((5 << 30) - 8)
        file.write(struct.pack("<d", 6.25))
    m = aw.map(path, dtype="float64")
    assert len(m) == (5 << 30) // 8 and m.nbytes == 5 << 30
    assert m[-1] == 6.25 and m[len(m) - 1] == 6.25 and m[2**29 + 7] == 0.0
    assert np.asarray(m)[-1] == 6.25
    assert m[2**29 :][-1] == 6.25
    assert aw.map(path, dtype="float64", offset=(5 << 30) - 8).tolist() == [6.25]


def test_empty_file(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    for mode in ["r", "r+", "c"]:
        with aw.map(path, mode, dtype="float64") as m:
            assert len(m) == 0 and list(m) == [] and m.tobytes() == b"" and m.resident == 0
            assert np.asarray(m).shape == (0,)
            m.flush()


@pytest.mark.parametrize(
    ("arguments", "words"),
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
def test_arguments_that_make_no_sense(numbers, arguments, words):
    with pytest.raises(aw.InvalidArgument, match=words):
        aw.map(numbers, **arguments)


def test_files_that_cannot_be_mapped(tmp_path):
    with pytest.raises(aw.NotFound) as caught:
        aw.map(tmp_path / "none")
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.errno == 2 and caught.value.filename == caught.value.path == str(tmp_path / "none")
    with pytest.raises(aw.InvalidArgument, match="regular"):
        aw.map(tmp_path)
    with pytest.raises(aw.InvalidArgument, match="regular"):
        aw.map("/dev/null")
    with pytest.raises(TypeError):
        aw.map(3)


def test_no_permission(numbers):
    numbers.chmod(0o400)
    with unprivileged(), pytest.raises(aw.PermissionDenied):
        aw.map(numbers, "r+")


def test_the_standard_mmap_agrees(numbers):
    with open(numbers, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as other:
        assert aw.map(numbers).tobytes() == other[:]
