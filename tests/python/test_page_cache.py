"""Tables in page caches that are not their writers': other mounts of one file system, and volumes of which the machine
has lost what was not written back, without being booted again. The tests mount file systems, which root can on Linux.
"""

import contextlib
import ctypes
import mmap
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

import arrowwood as aw
from waits import PATIENCE

MS_SYNC = 4
# Appends and commits without syncing, says so, and waits to be killed.
WRITER = """
import sys
import arrowwood as aw
writer = aw.writer(sys.argv[1], "n: int64 not null, v: float64 not null", sync="never")
for start in range(0, int(sys.argv[2]), 1000):
    writer.append({"n": range(start + 1, start + 1001), "v": [0.5] * 1000})
    writer.commit(positions={"producer": start + 1000})
    if start + 1000 == int(sys.argv[3]):
        writer.sync()
print(writer.rows, flush=True)
sys.stdin.read()
"""
LOOK = """
import sys
import arrowwood as aw
dataset = aw.open(sys.argv[1])
numbers = dataset["n"].to_pylist()
assert numbers == list(range(1, len(numbers) + 1)), "rows that nobody wrote"
print(len(numbers), dataset.positions.get("producer", 0))
"""


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@pytest.fixture
def volume(tmp_path):
    """An image of a file system, and a function that mounts one; all are unmounted in the end."""
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("file systems are mounted by root, with mkfs.ext4")
    image, mounted = tmp_path / "image", []
    image.write_bytes(b"")
    os.truncate(image, 64 << 20)
    run("mkfs.ext4", "-q", str(image))

    def mount(source, *options):
        place = tmp_path / f"mount-{len(mounted)}"
        place.mkdir()
        done = subprocess.run(["mount", *options, str(source), str(place)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr}")
        mounted.append(place)
        return place

    yield image, mount
    for place in reversed(mounted):
        subprocess.run(["umount", "--lazy", str(place)], check=False)


def killed(table, rows, synced=0):
    """A writer that has committed so many rows, of which the first were synced, and was killed."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(table), str(rows), str(synced)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(writer.stdout.readline()) == rows
    writer.send_signal(signal.SIGKILL)
    writer.wait()


def seen(table):
    """The rows and the position that another process sees."""
    return tuple(map(int, run(sys.executable, "-c", LOOK, str(table)).split()))


def write_back(path, start, length):
    """Write some pages of a file to the disk, and no others."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
        at = ctypes.addressof(ctypes.c_char.from_buffer(mapping)) + start
        assert libc.msync(ctypes.c_void_p(at), ctypes.c_size_t(length), MS_SYNC) == 0


def test_rows_of_a_killed_writer_are_there_through_another_mount(volume):
    image, mount = volume
    first = mount(image, "-o", "loop")
    killed(first / "table", 5000, synced=2000)
    second = mount(first, "--bind")
    assert seen(second / "table") == (5000, 5000)
    run("mount", "-o", "remount,bind,ro", str(second))
    assert seen(second / "table") == (5000, 5000)
    with aw.writer(str(first / "table")) as writer:
        assert (writer.rows, writer.dropped_rows) == (5000, 0)
    third = mount(first, "--bind")
    with aw.writer(str(third / "table")) as writer:
        assert (writer.rows, writer.dropped_rows, writer.positions) == (5000, 0, {"producer": 5000})
        writer.append({"n": [5001], "v": [1.0]})
    assert seen(first / "table") == (5001, 5000)
    assert seen(second / "table") == (5001, 5000)


@pytest.mark.parametrize("synced", [0, 2000])
def test_a_copy_of_the_volume_has_no_row_that_was_not_written_back(volume, synced, tmp_path):
    image, mount = volume
    first = mount(image, "-o", "loop")
    killed(first / "table", 5000, synced)
    segment = first / "table" / "00000000000000000000.arrow"
    # The records are on the disk, the rows are not: a snapshot is made between two pages that are written back.
    write_back(segment, 0, 64 << 10)
    copy = tmp_path / "copy"
    shutil.copyfile(image, copy)
    other = mount(copy, "-o", "loop")
    assert seen(other / "table") == (synced, synced)
    with aw.writer(str(other / "table")) as writer:
        assert (writer.rows, writer.dropped_rows) == (synced, 5000 - synced)
        writer.append({"n": range(synced + 1, synced + 11), "v": [0.5] * 10})
    assert seen(other / "table") == (synced + 10, synced)
    assert aw.check(str(other / "table")).is_good
    # Where they were written, all are there.
    assert seen(first / "table") == (5000, 5000)


@pytest.fixture
def image_layer(tmp_path):
    """A directory as a container's image has it, and the same beneath a layer of its own that takes what is written."""
    if os.geteuid():
        pytest.skip("file systems are mounted by root")
    lower, upper, work, merged = (tmp_path / name for name in ("lower", "upper", "work", "merged"))
    for folder in (lower, upper, work, merged):
        folder.mkdir()

    def mount():
        layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
        command = ["mount", "-t", "overlay", "overlay", "-o", layers, str(merged)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no overlay can be mounted here: {done.stderr}")
        return merged

    yield lower, mount
    subprocess.run(["umount", "--lazy", str(merged)], stderr=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize("segments", [1, 3])
def test_readers_of_an_image_see_what_is_written_over_it(image_layer, segments):
    """The first store copies a file of the image, and earlier mappings keep the image's file."""
    lower, mount = image_layer
    with aw.writer(lower / "table", "n: int64 not null", segment_rows=1000) as writer:
        writer.append({"n": range(1000 * segments - 500)})
    table = mount() / "table"
    whole, part = aw.open(table), aw.open(table)[:100]
    before = len(whole)
    followed = aw.follow(table, timeout=PATIENCE)
    rows = []
    followers = [threading.Thread(target=lambda: rows.append(next(followed)["n"].to_pylist()), daemon=True)]
    followers[0].start()
    assert whole.refresh() is not None and len(whole.refresh()) == before
    with aw.writer(table) as writer:
        writer.append({"n": [1, 2, 3]})
        writer.commit()
        newest = whole.refresh()
        assert newest["n"].to_pylist()[-4:] == [before - 1, 1, 2, 3] and len(newest.refresh()) == before + 3
        followers[0].join(PATIENCE)
        assert rows == [[1, 2, 3]]
        # From here on as everywhere.
        for n in range(2000):
            writer.append({"n": [n]})
            writer.commit()
            newest = newest.refresh()
            assert len(newest) == before + 4 + n
    assert len(whole.refresh()) == before + 2003 and len(whole) == before
    # The directory was copied, too, and has another time of creation: what was not opened before could be of another.
    with contextlib.nullcontext() if segments == 1 else pytest.raises(aw.FileChanged, match="open the table again"):
        assert part["n"].to_pylist() == list(range(100))
    assert newest["n"].to_pylist() == [*range(before), 1, 2, 3, *range(2000)]
