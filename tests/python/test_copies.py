"""Tests copies of tables made by common tools, while the table grows and after its writer has closed."""

import os
import random
import shutil
import subprocess
import sys

import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE

# Shell commands with the table as $0 and the copy as $1.
TOOLS = {
    "cp -r": 'rm -rf "$1"; cp -r "$0" "$1"',
    "cp -u": 'cp -ru "$0/." "$1"',
    "cp -au": 'cp -au "$0/." "$1"',
    "rsync -a": 'rsync -a --delete "$0/" "$1/"',
    "rsync -a --inplace": 'rsync -a --inplace "$0/" "$1/"',
    "tar": 'tar -C "$0" -cf - . | tar -C "$1" -xf -',
}

# Commits rows until its stdin is closed, or until it has many segments, and reopens the table now and then.
WRITER = """
import random, sys, threading
import arrowwood as aw
table, seed, segment_rows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
stopped = threading.Event()

def wait_for_end_of_input():
    sys.stdin.read()
    stopped.set()

threading.Thread(target=wait_for_end_of_input, daemon=True).start()
n = 0
while not stopped.is_set():
    # A tool that copies the holes of segments is slower than the writer.
    if n > 100 * segment_rows:
        stopped.wait()
        break
    with aw.writer(table, "n: int64, text: text, tag: category", segment_rows=segment_rows) as writer:
        for _ in range(rng.choice((3, 30, 300))):
            rows = rng.choice((1, 1, 7, 100))
            numbers = range(n, n + rows)
            writer.append({"n": numbers, "text": [f"row {i}" for i in numbers], "tag": [f"t{i % 50}" for i in numbers]})
            writer.commit(durable=rng.random() < 0.1)
            n += rows
            if n == rows or stopped.wait(rng.choice((0, 0, 0.002))):
                print("begun", flush=True)
                if stopped.is_set():
                    break
"""

SEEDS = int(os.environ.get("ARROWWOOD_COPIES", "2"))
# The error that a copy made during a write may cause.
INCOMPLETE_COPY = "copied while it was written"


def copy_table(tool, table, target):
    command = TOOLS[tool]
    program = tool.split()[0]
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program} here")
    if tool != "cp -r":
        target.mkdir(exist_ok=True)
    process = subprocess.run(
        ["sh", "-c", command, str(table), str(target)], stderr=subprocess.PIPE, text=True, timeout=PATIENCE
    )
    # tar exits with 1 if a file grew while it was read; files may also vanish during the copy.
    is_tar_warning = tool == "tar" and process.returncode == 1
    assert process.returncode == 0 or is_tar_warning or "vanished" in process.stderr, process.stderr


def count_rows_of_copy(target):
    """Checks that a copy has the first rows of its table; returns their number, None if it can't be opened."""
    try:
        ds = aw.open(target)
    except aw.InvalidData as e:
        assert INCOMPLETE_COPY in str(e) and "copy it again" in str(e), e
        return None
    except aw.NotFound:
        return None
    numbers = ds["n"].to_pylist()
    assert len(ds) == len(numbers)
    assert numbers == list(range(len(numbers)))
    assert ds["text"].to_pylist() == [f"row {i}" for i in numbers]
    assert pa.table(ds)["tag"].cast("string").to_pylist() == [f"t{i % 50}" for i in numbers]
    return len(ds)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_copy_is_a_prefix_or_refused_and_complete_once_the_writer_has_closed(tool, tmp_path):
    for seed in range(SEEDS):
        rng = random.Random(f"{tool} {seed}")
        table, target = tmp_path / f"table{seed}", tmp_path / f"copy{seed}"
        command = [sys.executable, "-c", WRITER, str(table), str(seed), str(rng.choice((100, 1000)))]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "begun\n"
            for _ in range(rng.randrange(2, 12)):
                copy_table(tool, table, target)
                count_rows_of_copy(target)
            process.stdin.close()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()
        copy_table(tool, table, target)
        rows = len(aw.open(table))
        assert count_rows_of_copy(target) == rows, f"seed {seed}"
        with aw.writer(target) as writer:
            assert writer.rows == rows
            writer.append({"n": [rows], "text": [f"row {rows}"], "tag": [f"t{rows % 50}"]})
        assert count_rows_of_copy(target) == rows + 1


def read_modification_seconds(table):
    """Returns pairs of each segment's name and the second of its modification."""
    return {(file.name, file.stat().st_mtime_ns // 10**9) for file in table.glob("*.arrow")}


def test_closing_gives_the_last_segment_a_new_modification_second(tmp_path):
    """rsync and cp skip files with the same size and second as the copy."""
    table = tmp_path / "table"
    seen = set()
    for n in range(5):
        with aw.writer(table, "n: int64", segment_rows=4) as writer:
            writer.append({"n": [n] * 6})
            writer.commit(durable=True)
            seen |= read_modification_seconds(table)
            writer.append({"n": [n]})
        after = read_modification_seconds(table)
        assert max(after) not in seen, "the segment that grew has a second that no copy has seen"
        seen |= after
    assert aw.check(table).is_good


def test_readers_do_not_change_modification_times(tmp_path):
    table = tmp_path / "table"
    with aw.writer(table, "n: int64") as writer:
        writer.append({"n": [1]})
    before = [file.stat().st_mtime_ns for file in table.glob("*.arrow")]
    assert list(aw.follow(table, start=0, timeout=0.01)) and before[0] % 10**9 == 0
    assert [file.stat().st_mtime_ns for file in table.glob("*.arrow")] == before


def test_a_copy_without_a_segment_is_refused_by_readers_and_writers(tmp_path):
    table, target = tmp_path / "table", tmp_path / "copy"
    with aw.writer(table, "n: int64", segment_rows=100) as writer:
        writer.append({"n": range(50)})
        writer.commit(durable=True)
        shutil.copytree(table, target)
        writer.append({"n": range(50, 450)})
    for file in sorted(table.glob("*.arrow"))[1:]:
        shutil.copy(file, target)
    message = "rows up to 50, and the next one begins with row 100: the table was copied"
    for open_copy in (aw.open, aw.writer, lambda path: list(aw.follow(path, timeout=0))):
        with pytest.raises(aw.InvalidData, match=message):
            open_copy(target)
    assert not aw.check(target).is_good
    aw.repair(target)
    assert aw.open(target)["n"].to_pylist() == list(range(50))
