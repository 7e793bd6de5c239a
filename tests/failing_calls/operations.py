"""Tests operations on tables and files while their system calls fail, one after the other: `make failing-calls`.

A failed call must be reported as an error, and never be taken for a missing file, damage, the end of a file, or zeros.

    python tests/failing_calls/operations.py [OPERATION ...] [--every N] [--seed SEED] [--rebooted] [--json]

Each operation runs on fresh copies of a table or file. Its first call fails, then its second, and so on: once with only
this call failing, and once with all later calls too. Instead of calls, pages of mapped files can fail from a call on.
Afterwards all earlier rows and all rows acknowledged since must be there, in order and with their values; `check` must
find nothing; and a writer must be able to continue. `--every 20` fails a twentieth of the calls, chosen by the seed.
Only calls of the package fail, in all of its threads, and no calls of Python itself.
"""

import argparse
import atexit
import collections
import ctypes
import errno
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import arrowwood as aw

SOURCE = Path(__file__).parent.parent / "support/failing_calls.c"
# Kinds of calls in failing_calls.c.
READ, WRITE, SYNC, OPEN, NAME, MAP, SPACE, STAT, CREATE, PAGES = (1 << bit for bit in range(10))
# Each fault: the kinds of calls that fail, and their errno.
FAULTS = {
    "EIO": (READ | WRITE | SYNC | OPEN | NAME | SPACE | STAT, errno.EIO),
    "ENOSPC": (WRITE | SYNC | NAME | SPACE | CREATE, errno.ENOSPC),
    "ENOMEM": (READ | WRITE | SYNC | OPEN | NAME | MAP | SPACE | STAT, errno.ENOMEM),
    "EMFILE": (OPEN, errno.EMFILE),
    # Not calls fail, but pages of mapped files from a call on.
    "pages": (PAGES, errno.EIO),
}
# How many rows the tables have that operations begin with.
ROWS = 50
SEGMENT_ROWS = 20
# How many rows a commit has that spans several segments, and in which its writer is killed.
PREPARED = 30
# Operations with thousands of calls, of which one in this many fails.
SAMPLED = {"repair_prepared": 20, "check": 10, "repair": 10, "check_each_partition": 100}
SCHEMA = "n: int64, s: utf8, c: category"
PARTITIONED = f"{SCHEMA}, p: int64"
# How many consecutive rows go to the same partition.
ROWS_PER_RUN = 7


def rows_from(start, count):
    numbers = range(start, start + count)
    return {"n": list(numbers), "s": [f"s{n}" for n in numbers], "c": [f"c{n % 5}" for n in numbers]}


class ExpectedRows:
    """The rows that a table may have and must have after the calls of an operation so far."""

    # How many rows the initial table has once a writer has opened it and finished its last commit.
    finished = ROWS

    def __init__(self):
        self.acknowledged = self.appended = ROWS
        # The first row may be any of these.
        self.possible_first_rows = {0}

    @classmethod
    def empty(cls):
        rows = cls()
        rows.acknowledged = rows.appended = 0
        return rows

    def finish(self):
        self.acknowledged = self.appended = ExpectedRows.finished

    def acknowledge(self):
        self.acknowledged = self.appended


def check_rows(data, rows, what):
    first = data.first_row if hasattr(data, "first_row") else 0
    assert first in rows.possible_first_rows, (
        f"{what}: the first row is {first}, expected one of {sorted(rows.possible_first_rows)}"
    )
    end = first + len(data)
    assert rows.acknowledged <= end <= rows.appended, (
        f"{what}: rows up to {end}, expected {rows.acknowledged} to {rows.appended}"
    )
    actual = {name: data[name].to_pylist() for name in ("n", "s", "c")}
    assert actual == rows_from(first, len(data)), f"{what}: other values"


def append(writer, rows, count, **commit):
    writer.append(rows_from(rows.appended, count))
    rows.appended += count
    writer.commit(**commit)
    rows.acknowledge()


def append_to_partitions(writer, rows, count, **commit):
    parts = [n // ROWS_PER_RUN % 3 for n in range(rows.appended, rows.appended + count)]
    writer.append({**rows_from(rows.appended, count), "p": parts})
    rows.appended += count
    writer.commit(**commit)
    rows.acknowledge()


def check_partitions(path, rows, what):
    """Checks the rows of all partitions. Each commits for itself, so any rows may exist that are not acknowledged."""
    data = aw.open(path)
    rows_by_number = {row["n"]: row for row in data.to_arrow().to_pylist()}
    assert len(rows_by_number) == len(data), f"{what}: a row is there twice"
    missing = set(range(rows.acknowledged)) - set(rows_by_number)
    assert not missing, f"{what}: rows {sorted(missing)} are missing"
    for n, row in rows_by_number.items():
        assert n < rows.appended, f"{what}: row {n} was never appended"
        expected = {"n": n, "s": f"s{n}", "c": f"c{n % 5}", "p": n // ROWS_PER_RUN % 3}
        assert {name: row[name] for name in expected} == expected, f"{what}: row {n} has other values"


class Operation(NamedTuple):
    # The kind of table or file that it works on.
    begins_with: str
    # Called with the path and the expected rows before calls fail. Its result is passed to `act`.
    prepare: Callable
    # Called with the path, the result of `prepare` and the expected rows while calls fail.
    act: Callable


OPERATIONS: dict[str, Operation] = {}


def prepare_nothing(_path, _rows):
    return None


def operation(begins_with, prepare=prepare_nothing):
    """Registers a function as the operation of its name."""

    def register(function):
        OPERATIONS[function.__name__] = Operation(begins_with, prepare, function)
        return function

    return register


@operation("table")
def open_table(path, _, rows):
    check_rows(aw.open(path), rows, "opened")


@operation("table", lambda path, rows: (aw.open(path), append_by_another_writer(path, rows)))
def refresh(path, prepared, rows):
    data, _ = prepared
    check_rows(data.refresh(), rows, "refreshed")


@operation("table", lambda path, rows: (aw.follow(path, start=0, timeout=0), append_by_another_writer(path, rows)))
def follow(path, prepared, rows):
    follower, _ = prepared
    end = 0
    for new in follower:
        assert new["n"].to_pylist() == list(range(end, end + len(new))), "a follower has other rows"
        end += len(new)
    assert end == rows.acknowledged, f"a follower ends at row {end} of {rows.acknowledged}"


@operation("table", lambda path, rows: aw.writer(path))
def append_and_commit(path, writer, rows):
    for _ in range(3):
        append(writer, rows, 15)


@operation("table", lambda path, rows: aw.writer(path))
def commit_durably(path, writer, rows):
    append(writer, rows, 3, durable=True)
    append(writer, rows, 30, durable=True, positions={"source": 7})


@operation("table")
def write(path, _, rows):
    writer = aw.writer(path)
    assert writer.dropped_rows == 0, f"{writer.dropped_rows} rows dropped"
    append(writer, rows, 25)
    writer.close()


@operation("prepared table")
def finish_commit(path, _, rows):
    writer = aw.writer(path)
    rows.finish()
    check_rows(aw.open(path), rows, "finished")
    writer.close()


@operation("prepared table")
def repair_prepared(path, _, rows):
    # Repair leaves an intact table to the next writer.
    rows.appended = ExpectedRows.finished
    aw.repair(path)
    check_rows(aw.open(path), rows, "repaired")


@operation("nothing")
def create(path, _, rows):
    rows.appended = rows.acknowledged = 0
    writer = aw.writer(path, SCHEMA, segment_rows=SEGMENT_ROWS)
    append(writer, rows, 25)
    writer.close()


@operation("table", lambda path, rows: aw.writer(path))
def drop_before(path, writer, rows):
    rows.possible_first_rows.add(SEGMENT_ROWS)
    assert writer.drop_before(SEGMENT_ROWS) == SEGMENT_ROWS, "rows were dropped"
    rows.possible_first_rows = {SEGMENT_ROWS}


@operation("table")
def alter(path, _, rows):
    aw.alter(path, add="m: int64")


@operation("table")
def compact(path, _, rows):
    aw.compact(path)


@operation("table", lambda path, rows: aw.writer(path))
def compact_by_writer(path, writer, rows):
    writer.compact(rewrite=True)
    append(writer, rows, 5)


@operation("table", lambda path, rows: aw.writer(path, keep="100 kB"))
def keep(path, writer, rows):
    rows.possible_first_rows = {0, SEGMENT_ROWS, 2 * SEGMENT_ROWS, 3 * SEGMENT_ROWS}
    for _ in range(3):
        append(writer, rows, 10)


@operation("partitions")
def open_partitions(path, _, rows):
    check_partitions(path, rows, "opened")


@operation("partitions")
def write_partitions(path, _, rows):
    writer = aw.writer(path, PARTITIONED, partition_by="p", segment_rows=SEGMENT_ROWS)
    append_to_partitions(writer, rows, 10)
    append_to_partitions(writer, rows, 15, durable=True)
    writer.close()


@operation("partitions")
def alter_partitions(path, _, rows):
    aw.alter(path, add="m: int64")


@operation("partitions")
def check_each_partition(path, _, rows):
    report = aw.check(path)
    assert report.is_good, f"{report}"


@operation("late table")
def sort(path, _, rows):
    aw.compact(path, sort=True)


@operation("table")
def check(path, _, rows):
    report = aw.check(path)
    assert report.is_good, f"{report}"


@operation("table")
def repair(path, _, rows):
    report = aw.repair(path)
    assert report.is_good and report.repaired is None, f"{report}"


@operation("file")
def open_file(path, _, rows):
    check_rows(aw.open(path), rows, "opened")


def link_to(path):
    """Makes a symbolic link to a file, whose type a listing of the folder does not tell. Returns a pattern for it."""
    link = f"{path}.linked.arrow"
    if not os.path.lexists(link):
        os.symlink(path, link)
    return f"{path}.l*"


@operation("file", lambda path, rows: link_to(path))
def open_pattern(path, pattern, rows):
    check_rows(aw.open(pattern), rows, "opened")


@operation("file")
def open_part_of_a_file(path, _, rows):
    check_rows(aw.open(path, partial=True), rows, "opened")


@operation("cut file")
def open_a_cut_file(path, _, rows):
    check_rows(aw.open(path, partial=True), rows, "opened")


@operation("cut file")
def repair_a_cut_file(path, _, rows):
    report = aw.repair(path)
    assert report.rows == ROWS and report.repaired is not None, f"{report}"


@operation("file")
def check_file(path, _, rows):
    report = aw.check(path)
    assert report.is_good, f"{report}"


@operation("file")
def repair_file(path, _, rows):
    report = aw.repair(path)
    assert report.is_good and report.repaired is None, f"{report}"


@operation("file", lambda path, rows: aw.open(path))
def rewrite_file(path, data, rows):
    aw.write(data, path)


@functools.cache
def start_server():
    """Serves a table with the initial rows until this process ends. Returns the URL of the table."""
    home = tempfile.mkdtemp()
    with aw.writer(f"{home}/table", SCHEMA) as writer:
        append(writer, ExpectedRows.empty(), ROWS, durable=True)
    command = [sys.executable, "-m", "arrowwood", "serve", "--listen", "127.0.0.1:0", home]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    atexit.register(lambda: (server.kill(), server.wait(), shutil.rmtree(home)))
    return f"{server.stdout.readline().strip()}/table"


def pull_rows(path, url):
    """Runs `arrowwood pull` in this process, and raises its error."""
    with tempfile.TemporaryFile() as errors:
        stderr = os.dup(2)
        os.dup2(errors.fileno(), 2)
        try:
            status = aw._arrowwood._run_cli(["arrowwood", "pull", url, path])
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        errors.seek(0)
        text = errors.read().decode()
    # The message itself may be lost if writing fails.
    assert status == 0 or not text or "os error" in text or "memory" in text, f"status {status}: {text}"
    if status:
        raise OSError(text)


def begin_replica(path, rows):
    rows.acknowledged = 0
    return start_server()


@operation("replica", begin_replica)
def pull(path, url, rows):
    pull_rows(path, url)
    rows.acknowledge()


def append_by_another_writer(path, rows):
    with aw.writer(path) as writer:
        append(writer, rows, 30)


def make_original(kind, path):
    if "file" in kind:
        aw.write(rows_from(0, ROWS), path, max_rows=10)
        if kind == "cut file":
            # Only the footer is lost, and no batches.
            os.truncate(path, os.path.getsize(path) - 10)
        return
    # A killed writer leaves the most work to its successor.
    child = os.fork()
    if child == 0:
        if kind == "partitions":
            writer = aw.writer(path, PARTITIONED, partition_by="p", segment_rows=SEGMENT_ROWS, sync="never")
            append_to_partitions(writer, ExpectedRows.empty(), ROWS, durable=True)
            os.kill(os.getpid(), signal.SIGKILL)
        options = {"sorted_by": "n", "late": "accept"} if kind == "late table" else {}
        writer = aw.writer(path, SCHEMA, sync="never", segment_rows=SEGMENT_ROWS, **options)
        for start in range(0, ROWS, 10):
            writer.append(rows_from(start, 10))
            writer.commit(durable=True)
        if kind == "prepared table":
            writer.append(rows_from(ROWS, PREPARED))
            # The second renaming would give the first segment its final name.
            ctypes.CDLL(None).fail_calls(NAME, 2, -signal.SIGKILL, False)
            writer.commit(durable=True)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    if kind == "prepared table":
        assert any(name.endswith(".next") for name in os.listdir(os.path.dirname(path))), (
            "no segment waits for its name"
        )


def is_system_error(e):
    """Returns whether an exception reports a failed call, and not the contents of a file."""
    other_causes = (aw.InvalidData, aw.NotFound, aw.FileChanged, aw.InternalError)
    return isinstance(e, (OSError, MemoryError, aw.Error)) and not isinstance(e, other_causes)


def check_after(path, begins_with, rows, what, is_unfinished):
    """Checks a table once calls no longer fail. If `is_unfinished`, the next writer may finish a commit first."""
    if begins_with == "replica":
        check_replica(path, rows, what)
    elif begins_with == "partitions":
        check_partitions(path, rows, what)
        check_is_good(path, what)
    elif begins_with != "nothing" or rows.acknowledged > 0 or os.path.exists(path):
        check_table(path, begins_with, rows, what, is_unfinished)


def check_is_good(path, what):
    report = aw.check(path)
    assert report.is_good, f"{what}: {report}"


def check_replica(path, rows, what):
    """Checks the rows that were pulled, and pulls the others."""
    try:
        check_rows(aw.open(path), rows, what)
    except aw.NotFound:
        assert rows.acknowledged == 0, f"{what}: there is no table"
    pull_rows(path, start_server())
    rows.acknowledge()
    check_rows(aw.open(path), rows, f"{what}, and pulled again")
    check_is_good(path, what)


def check_table(path, begins_with, rows, what, is_unfinished):
    """Checks a file or a table, and that a writer of the table can continue."""
    if begins_with == "prepared table":
        aw.writer(path).close()
        rows.finish()
    try:
        data = aw.open(path, partial=begins_with == "cut file")
    except aw.NotFound:
        assert begins_with == "nothing" and rows.acknowledged == 0, f"{what}: there is no table"
        return
    check_rows(data, rows, what)
    if begins_with == "cut file":
        return
    damaged = [name for name in os.listdir(os.path.dirname(path)) if "damaged" in name]
    assert not damaged, f"{what}: {damaged}"
    check_is_good(path, what)
    if begins_with == "file":
        return
    if is_unfinished:
        aw.writer(path).close()
        data = aw.open(path)
        check_rows(data, rows, f"{what}, and finished")
    rows.appended = rows.acknowledged = data.first_row + len(data)
    with aw.writer(path) as writer:
        assert writer.dropped_rows == 0, f"{what}: {writer.dropped_rows} rows dropped"
        append(writer, rows, 7)
    check_rows(aw.open(path), rows, f"{what}, and written on")


def try_operation(libc, name, original, path, call_number, fault, lasts):
    """Runs an operation in which a call fails. Returns the name of the call, or None if it makes fewer calls."""
    begins_with, prepare, act = OPERATIONS[name]
    if begins_with not in ("nothing", "replica"):
        copy(original, path)
    rows = ExpectedRows()
    prepared = prepare(path, rows)
    what = f"{name}, {fault} of call {call_number}{' and later ones' if lasts else ''}"
    kinds, number = FAULTS[fault]
    libc.fail_calls(kinds, call_number, number, lasts)
    try:
        act(path, prepared, rows)
    except AssertionError as e:
        raise AssertionError(f"{what} ({libc.failed_call().decode()}): {e}") from e
    except Exception as e:
        what += f" ({libc.failed_call().decode()})"
        assert libc.failed_calls() > 0, f"{what}: {e!r} without a failed call"
        assert is_system_error(e), f"{what}: {e!r}"
    failed, call = libc.failed_calls(), libc.failed_call().decode()
    # Pages must fail until all files are closed: the library tells a failed page by reading the file, which fails too.
    if kinds != PAGES:
        libc.fail_calls(0, 0, 0, False)
    if isinstance(prepared, aw.Writer):
        try:
            prepared.close()
        except Exception as e:
            assert is_system_error(e), f"{what}, closed: {e!r}"
    libc.fail_calls(0, 0, 0, False)
    del prepared
    check_after(path, begins_with, rows, f"{what} ({call})", kinds == PAGES)
    remove(path)
    return call if failed else None


def hidden_files(path):
    """Returns the files beside a table that are to be renamed into it."""
    home, name = os.path.split(path)
    return [os.path.join(home, file) for file in os.listdir(home) if file.startswith(f".{name}.")]


def copy(original, path):
    if os.path.isdir(original):
        for folder, _, files in os.walk(original):
            target = os.path.join(path, os.path.relpath(folder, original))
            os.makedirs(target, exist_ok=True)
            for file in files:
                copy_file(os.path.join(folder, file), os.path.join(target, file))
    else:
        copy_file(original, path)
    for file in hidden_files(original):
        name = os.path.basename(file).replace(os.path.basename(original), os.path.basename(path), 1)
        copy_file(file, os.path.join(os.path.dirname(path), name))


def copy_file(original, path):
    """Copies a file and preserves its holes, which segments have many of."""
    with open(original, "rb") as source, open(path, "xb") as target:
        length = os.fstat(source.fileno()).st_size
        target.truncate(length)
        end = 0
        while end < length:
            try:
                start = os.lseek(source.fileno(), end, os.SEEK_DATA)
            except OSError as e:
                assert e.errno == errno.ENXIO, f"{e}: only a hole is left"
                break
            end = os.lseek(source.fileno(), start, os.SEEK_HOLE)
            target.seek(start)
            source.seek(start)
            target.write(source.read(end - start))


def remove(path):
    shutil.rmtree(path, ignore_errors=True)
    damaged_files = Path(path).parent.glob(f"{Path(path).name}.damaged*")
    for file in [path, *hidden_files(path), *damaged_files]:
        Path(file).unlink(missing_ok=True)


def run(name, every, seed, is_rebooted):
    """Fails the calls of an operation in turn. Returns how often calls failed, by fault and name, and all problems."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.failed_call.restype = ctypes.c_char_p
    libc.fail_calls.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_bool]
    libc.fail_calls_of.restype = ctypes.c_bool
    assert libc.fail_calls_of(b"_arrowwood"), "the package's library is not loaded"
    rng = random.Random(f"{seed} {name}")
    counts, wrong = collections.Counter(), []
    every *= SAMPLED.get(name, 1)
    with tempfile.TemporaryDirectory() as home:
        original, path = os.path.join(home, "original"), os.path.join(home, "copy")
        make_original(OPERATIONS[name].begins_with, original)
        if is_rebooted:
            pretend_other_boot(libc, home)
        if OPERATIONS[name].begins_with == "prepared table":
            copy(original, path)
            aw.writer(path).close()
            ExpectedRows.finished = len(aw.open(path))
            remove(path)
            assert is_rebooted or ExpectedRows.finished == ROWS + PREPARED, f"{ExpectedRows.finished} rows"
        for fault in FAULTS:
            for lasts in (False, True):
                call_number, call = rng.randint(1, every), ""
                while call is not None:
                    try:
                        call = try_operation(libc, name, original, path, call_number, fault, lasts)
                    except AssertionError as e:
                        call = libc.failed_call().decode() if libc.failed_calls() else None
                        libc.fail_calls(0, 0, 0, False)
                        wrong.append(str(e))
                        remove(path)
                    if call:
                        counts[f"{fault} {call}"] += 1
                    call_number += rng.randint(1, 2 * every - 1)
    return {"counts": counts, "wrong": wrong}


def pretend_other_boot(libc, home):
    """Changes the boot id that this process sees, which needs root."""
    boot = os.path.join(home, "boot")
    Path(boot).write_text("00000007-0000-4000-8000-000000000001\n")
    new_mounts, private, bind = 0x20000, 0x44000, 0x1000
    is_done = (
        libc.unshare(new_mounts) == 0
        and libc.mount(b"none", b"/", None, private, None) == 0
        and libc.mount(boot.encode(), b"/proc/sys/kernel/random/boot_id", None, bind, None) == 0
    )
    if not is_done:
        sys.exit("no other boot can be pretended: that needs root")


def build(folder):
    """Compiles the library that makes calls fail. Returns its path."""
    library = os.path.join(folder, "failing_calls.so")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, str(SOURCE), "-ldl"], check=True)
    return library


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "operations", nargs="*", metavar="OPERATION", help=f"of {', '.join(OPERATIONS)}; by default all"
    )
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rebooted", action="store_true", help="as after a restart of the machine; for root")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(run(args.operations[0], args.every, args.seed, args.rebooted)))
        return
    failed_operations, counts = [], {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LD_PRELOAD": build(folder)}
        for name in args.operations or OPERATIONS:
            command = [sys.executable, __file__, name, "--child", "--every", str(args.every), "--seed", str(args.seed)]
            command += ["--rebooted"] if args.rebooted else []
            process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600)
            if process.returncode != 0:
                failed_operations.append(name)
                print(f"{name}: exit status {process.returncode}\n{process.stderr[-3000:]}", file=sys.stderr)
                continue
            result = json.loads(process.stdout)
            counts[name] = result["counts"]
            if result["wrong"]:
                failed_operations.append(name)
                print(*result["wrong"], sep="\n", file=sys.stderr)
            if not args.json:
                failed = sum(counts[name].values())
                print(f"{name:24} {failed:6} calls failed, {len(counts[name])} kinds", flush=True)
    if args.json:
        print(json.dumps(counts))
    else:
        print(f"{sum(sum(failures.values()) for failures in counts.values())} failed calls, seed {args.seed}")
    sys.exit(bool(failed_operations))


if __name__ == "__main__":
    main()
