"""Tests tables that are read through another page cache than the writer's.

Such page caches belong to other mounts of the file system, and to copies of a volume made before all pages were written
back, without a reboot in between. The tests mount file systems, which needs root and Linux.
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
# Appends and commits without syncing, prints the number of rows, and waits to be killed.
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
READER = """
import sys
import arrowwood as aw
dataset = aw.open(sys.argv[1])
numbers = dataset["n"].to_pylist()
assert numbers == list(range(1, len(numbers) + 1)), "rows that nobody wrote"
print(len(numbers), dataset.positions.get("producer", 0))
"""
FIRST_SEGMENT = "00000000000000000000.arrow"
# The start of a segment, with its header and records, and without rows.
RECORDS_SIZE = 64 << 10


def run(*command):
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert process.returncode == 0, f"{command}: {process.stderr}"
    return process.stdout


class Volume:
    """The image of an ext4 file system, and the directories where it is mounted."""

    def __init__(self, folder):
        self.folder = folder
        self.image = folder / "image"
        self.mounts = []
        self.image.write_bytes(b"")
        os.truncate(self.image, 64 << 20)
        run("mkfs.ext4", "-q", str(self.image))

    def mount(self, source, *options):
        """Mounts an image or directory and returns the new directory; skips the test if that is not permitted."""
        directory = self.folder / f"mount-{len(self.mounts)}"
        directory.mkdir()
        process = subprocess.run(["mount", *options, str(source), str(directory)], capture_output=True, text=True)
        if process.returncode:
            pytest.skip(f"no file system can be mounted here: {process.stderr}")
        self.mounts.append(directory)
        return directory

    def unmount_all(self):
        for directory in reversed(self.mounts):
            subprocess.run(["umount", "--lazy", str(directory)], check=False)


@pytest.fixture
def volume(tmp_path):
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("file systems are mounted by root, with mkfs.ext4")
    volume = Volume(tmp_path)
    yield volume
    volume.unmount_all()


def write_and_kill(table, rows, synced=0):
    """Commits `rows` rows in another process, syncs the first `synced` of them, and kills the process."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(table), str(rows), str(synced)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(writer.stdout.readline()) == rows
    writer.send_signal(signal.SIGKILL)
    writer.wait()


def read_in_new_process(table):
    """Returns the number of rows and the position of the producer, as another process sees them."""
    rows, position = run(sys.executable, "-c", READER, str(table)).split()
    return int(rows), int(position)


def write_back(path, start, length):
    """Writes a range of a file's pages to the disk, and no others."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapping)) + start
        assert libc.msync(ctypes.c_void_p(address), ctypes.c_size_t(length), MS_SYNC) == 0


def test_rows_of_a_killed_writer_are_visible_through_another_mount(volume):
    first = volume.mount(volume.image, "-o", "loop")
    write_and_kill(first / "table", 5000, synced=2000)
    second = volume.mount(first, "--bind")
    assert read_in_new_process(second / "table") == (5000, 5000)
    run("mount", "-o", "remount,bind,ro", str(second))
    assert read_in_new_process(second / "table") == (5000, 5000)
    with aw.writer(str(first / "table")) as writer:
        assert (writer.rows, writer.dropped_rows) == (5000, 0)
    third = volume.mount(first, "--bind")
    with aw.writer(str(third / "table")) as writer:
        assert (writer.rows, writer.dropped_rows, writer.positions) == (5000, 0, {"producer": 5000})
        writer.append({"n": [5001], "v": [1.0]})
    assert read_in_new_process(first / "table") == (5001, 5000)
    assert read_in_new_process(second / "table") == (5001, 5000)


@pytest.mark.parametrize("synced", [0, 2000])
def test_a_copy_of_the_volume_lacks_rows_that_were_not_written_back(volume, synced, tmp_path):
    original = volume.mount(volume.image, "-o", "loop")
    write_and_kill(original / "table", 5000, synced)
    # Copy the volume between two write-backs: it has the newest records, but not all of their rows.
    write_back(original / "table" / FIRST_SEGMENT, 0, RECORDS_SIZE)
    image_copy = tmp_path / "copy"
    shutil.copyfile(volume.image, image_copy)
    copy = volume.mount(image_copy, "-o", "loop")
    assert read_in_new_process(copy / "table") == (synced, synced)
    with aw.writer(str(copy / "table")) as writer:
        assert (writer.rows, writer.dropped_rows) == (synced, 5000 - synced)
        writer.append({"n": range(synced + 1, synced + 11), "v": [0.5] * 10})
    assert read_in_new_process(copy / "table") == (synced + 10, synced)
    assert aw.check(str(copy / "table")).is_good
    assert read_in_new_process(original / "table") == (5000, 5000)


class Overlay:
    """A directory of a container's image (`lower`), and an overlay mount that writes to a layer of its own."""

    def __init__(self, folder):
        self.lower, self.upper, self.work, self.merged = (
            folder / name for name in ("lower", "upper", "work", "merged")
        )
        for directory in (self.lower, self.upper, self.work, self.merged):
            directory.mkdir()

    def mount(self):
        """Mounts the overlay and returns its directory; skips the test if that is not permitted."""
        layers = f"lowerdir={self.lower},upperdir={self.upper},workdir={self.work}"
        command = ["mount", "-t", "overlay", "overlay", "-o", layers, str(self.merged)]
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            pytest.skip(f"no overlay can be mounted here: {process.stderr}")
        return self.merged

    def unmount(self):
        subprocess.run(["umount", "--lazy", str(self.merged)], stderr=subprocess.DEVNULL, check=False)


@pytest.fixture
def overlay(tmp_path):
    if os.geteuid():
        pytest.skip("file systems are mounted by root")
    overlay = Overlay(tmp_path)
    yield overlay
    overlay.unmount()


@pytest.mark.parametrize("segments", [1, 3])
def test_readers_of_an_overlay_see_later_commits(overlay, segments):
    """The first store copies a file to the upper layer, and older mappings keep the lower one."""
    with aw.writer(overlay.lower / "table", "n: int64 not null", segment_rows=1000) as writer:
        writer.append({"n": range(1000 * segments - 500)})
    table = overlay.mount() / "table"
    dataset, first_rows = aw.open(table), aw.open(table)[:100]
    rows_before = len(dataset)
    batches = aw.follow(table, timeout=PATIENCE)
    followed = []
    follower = threading.Thread(target=lambda: followed.append(next(batches)["n"].to_pylist()), daemon=True)
    follower.start()
    assert dataset.refresh() is not None and len(dataset.refresh()) == rows_before
    with aw.writer(table) as writer:
        writer.append({"n": [1, 2, 3]})
        writer.commit()
        newest = dataset.refresh()
        assert newest["n"].to_pylist()[-4:] == [rows_before - 1, 1, 2, 3] and len(newest.refresh()) == rows_before + 3
        follower.join(PATIENCE)
        assert followed == [[1, 2, 3]]
        # The files are in the upper layer now, where each commit is visible.
        for n in range(2000):
            writer.append({"n": [n]})
            writer.commit()
            newest = newest.refresh()
            assert len(newest) == rows_before + 4 + n
    assert len(dataset.refresh()) == rows_before + 2003 and len(dataset) == rows_before
    # The copied directory has another creation time, so segments that were not open yet could be another table's.
    with contextlib.nullcontext() if segments == 1 else pytest.raises(aw.FileChanged, match="open the table again"):
        assert first_rows["n"].to_pylist() == list(range(100))
    assert newest["n"].to_pylist() == [*range(rows_before), 1, 2, 3, *range(2000)]
