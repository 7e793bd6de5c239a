"""Copies of tables by the tools that people use, while the table grows and once its writer has closed."""

import os
import random
import shutil
import subprocess
import sys

import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, wait_until

TOOLS = {
    "cp -r": lambda a, b: (shutil.rmtree(b, ignore_errors=True), ["cp", "-r", a, b])[1],
    "cp -u": lambda a, b: ["cp", "-ru", f"{a}/.", b],
    "cp -au": lambda a, b: ["cp", "-au", f"{a}/.", b],
    "rsync -a": lambda a, b: ["rsync", "-a", "--delete", f"{a}/", f"{b}/"],
    "rsync -a --inplace": lambda a, b: ["rsync", "-a", "--inplace", f"{a}/", f"{b}/"],
    "tar": lambda a, b: ["sh", "-c", 'tar -C "$0" -cf - . | tar -C "$1" -xf -', a, b],
}

# Commits rows until it is told to stop, over the ends of many segments; opens the table anew now and then.
WRITER = """
import random, sys, threading
import arrowwood as aw
table, seed, segment = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rnd = random.Random(seed)
stopped = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
n = 0
while not stopped.is_set():
    with aw.writer(table, "n: int64, text: text, tag: category", segment_rows=segment) as writer:
        for _ in range(rnd.choice((3, 30, 300))):
            rows = rnd.choice((1, 1, 7, 100))
            numbers = range(n, n + rows)
            writer.append({"n": numbers, "text": [f"row {i}" for i in numbers], "tag": [f"t{i % 50}" for i in numbers]})
            writer.commit(durable=rnd.random() < 0.1)
            n += rows
            if n == rows or stopped.wait(rnd.choice((0, 0, 0.002))):
                print("begun", flush=True)
                if stopped.is_set():
                    break
"""

SEEDS = int(os.environ.get("ARROWWOOD_COPIES", "2"))
# The error that a copy may meet while writers write or are killed.
REFUSED = "copied while it was written"


def copy(tool, table, target):
    command = TOOLS[tool](str(table), str(target))
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} here")
    if tool != "cp -r":
        target.mkdir(exist_ok=True)
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    # A file that grows or goes while tar reads it.
    assert done.returncode == 0 or tool.startswith("tar") and done.returncode == 1 or "vanished" in done.stderr, (
        done.stderr
    )


def check_prefix(target, least=0):
    """The rows of a copy, all of which can be read; None if it is refused."""
    try:
        ds = aw.open(target)
    except aw.InvalidData as e:
        assert REFUSED in str(e) and "copy it again" in str(e), e
        return None
    except aw.NotFound:
        return None
    numbers = ds["n"].to_pylist()
    assert len(ds) == len(numbers) >= least
    assert numbers == list(range(len(numbers)))
    assert ds["text"].to_pylist() == [f"row {i}" for i in numbers]
    assert pa.table(ds)["tag"].cast("string").to_pylist() == [f"t{i % 50}" for i in numbers]
    return len(ds)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_copy_is_a_prefix_or_refused_and_whole_once_the_writer_has_closed(tool, tmp_path):
    for seed in range(SEEDS):
        rnd = random.Random(f"{tool} {seed}")
        table, target = tmp_path / f"table{seed}", tmp_path / f"copy{seed}"
        command = [sys.executable, "-c", WRITER, str(table), str(seed), str(rnd.choice((100, 1000)))]
        writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert writer.stdout.readline() == "begun\n"
            for _ in range(rnd.randrange(2, 12)):
                copy(tool, table, target)
                check_prefix(target)
            writer.stdin.close()
            assert writer.wait(PATIENCE) == 0
        finally:
            writer.kill()
            writer.wait()
        copy(tool, table, target)
        rows = len(aw.open(table))
        assert check_prefix(target) == rows, f"seed {seed}"
        with aw.writer(target) as writer:
            assert writer.rows == rows
            writer.append({"n": [rows], "text": [f"row {rows}"], "tag": [f"t{rows % 50}"]})
        assert check_prefix(target) == rows + 1


def test_a_table_has_another_second_each_time_it_is_closed(tmp_path):
    """rsync and cp leave out a file of the same size and second as its copy."""
    table = tmp_path / "table"
    seen = set()

    def seconds():
        return {(file.name, file.stat().st_mtime_ns // 10**9) for file in table.glob("*.arrow")}

    for n in range(5):
        with aw.writer(table, "n: int64", segment_rows=4) as writer:
            writer.append({"n": [n] * 6})
            writer.commit(durable=True)
            seen |= {(name, second) for name, second in seconds()}
            sealed = seconds() - {max(seconds())}
            writer.append({"n": [n]})
        now = seconds()
        assert max(now) not in seen, "the one that grew has a second that no copy has seen"
        assert sealed <= now or sealed, "sealed ones may get theirs at the end"
        seen |= now
    assert aw.check(table).is_good


def test_what_a_reader_does_changes_no_times(tmp_path):
    table = tmp_path / "table"
    with aw.writer(table, "n: int64") as writer:
        writer.append({"n": [1]})
    before = [file.stat().st_mtime_ns for file in table.glob("*.arrow")]
    assert list(aw.follow(table, start=0, timeout=0.01)) and before[0] % 10**9 == 0
    assert [file.stat().st_mtime_ns for file in table.glob("*.arrow")] == before


def test_a_copy_that_lacks_rows_is_refused_by_all(tmp_path):
    table, target = tmp_path / "table", tmp_path / "copy"
    with aw.writer(table, "n: int64", segment_rows=100) as writer:
        writer.append({"n": range(50)})
        writer.commit(durable=True)
        shutil.copytree(table, target)
        writer.append({"n": range(50, 450)})
    for file in sorted(table.glob("*.arrow"))[1:]:
        shutil.copy(file, target)
    for use in (aw.open, aw.writer, lambda path: list(aw.follow(path, timeout=0))):
        with pytest.raises(
            aw.InvalidData, match="rows up to 50, and the next one begins with row 100: the table was copied"
        ):
            use(target)
    assert not aw.check(target).is_good
    aw.repair(target)
    assert aw.open(target)["n"].to_pylist() == list(range(50))
    assert wait_until is not None
