"""Tests datasets that several threads or processes use at once, Ctrl-C during long calls, and progress bars."""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from arrowwood import _progress
from conftest import ipc_of, write_ipc
from waits import PATIENCE, join, wait_until

ROWS = 20_000
SUM_OF_N = ROWS * (ROWS - 1) // 2

# How much processor time a script may use after it printed "go".
MAX_PROCESSOR_SECONDS = 5


def make_table():
    return pa.table({"n": np.arange(ROWS), "s": [f"row {i}" for i in range(ROWS)]})


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("storage", ["memory", "mapping"])
def test_threads_share_a_dataset(tmp_path, compression, storage):
    """The threads use a new dataset at the same time, so they find and decode the same batches."""
    data = ipc_of(make_table(), "stream", 100, compression)
    if storage == "mapping":
        (tmp_path / "x").write_bytes(data)
    ds = aw.open(data if storage == "memory" else tmp_path / "x")
    indices = np.random.default_rng(0).integers(0, ROWS, 400).tolist()

    with ThreadPoolExecutor(8) as pool:
        total = pool.submit(ds["n"].sum)
        length = pool.submit(len, ds)
        validation = pool.submit(ds.validate)
        representation = pool.submit(repr, ds)
        rows = list(pool.map(ds.__getitem__, indices))
        assert total.result() == SUM_OF_N
        assert length.result() == ROWS
        validation.result()
        representation.result()

    assert rows == [{"n": i, "s": f"row {i}"} for i in indices]


def test_other_threads_run_during_a_long_write(tmp_path):
    ds = aw.from_arrow(pa.table({"s": pa.array(["x" * 50] * 500_000)}))
    ticks = []
    is_done = threading.Event()

    def tick():
        ticks.append(1)
        return is_done.is_set()

    def ticked_during_a_write():
        before = len(ticks)
        aw.write(ds, tmp_path / "x", compression="zstd")
        return len(ticks) - before >= 3

    thread = threading.Thread(target=wait_until, args=(tick, "the work is done"))
    thread.start()
    try:
        # On a busy machine, the other thread may not be scheduled during one write: try again.
        wait_until(ticked_during_a_write, "another thread has run three times during one write")
    finally:
        is_done.set()
        join(thread)


def read_number(path, row):
    return aw.open(path)[row]["n"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_open_a_file(tmp_path, method):
    path = write_ipc(tmp_path / "x", make_table(), max_rows=1000)
    aw.open(path)["n"].sum()
    rows = list(range(0, ROWS, 2000))
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.starmap(read_number, [(path, row) for row in rows]) == rows


def test_forked_worker_reads_the_dataset_of_its_parent(tmp_path):
    ds = aw.open(write_ipc(tmp_path / "x", make_table(), max_rows=1000))
    ds["n"].sum()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=lambda: queue.put((ds[777], ds["n"].sum())))
    worker.start()
    assert queue.get(timeout=PATIENCE) == ({"n": 777, "s": "row 777"}, SUM_OF_N)
    worker.join()


def processor_seconds(process: subprocess.Popen) -> float:
    """Returns the processor time that a running process has used."""
    with open(f"/proc/{process.pid}/stat") as file:
        # The fields after the name of the command, which is in parentheses; see proc_pid_stat(5).
        fields = file.read().rpartition(")")[2].split()
    user_ticks, system_ticks = fields[11:13]
    return (int(user_ticks) + int(system_ticks)) / os.sysconf("SC_CLK_TCK")


def children_processor_seconds() -> float:
    """Returns the processor time of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_interrupted(code: str, interrupts_itself: bool = False) -> str:
    """Runs a script, interrupts it with Ctrl-C after it printed "go", and returns its standard error.

    Asserts that the script ends soon after the signal. Processor time is measured, which does not depend on what else
    runs on the machine.
    """
    seconds_of_others = children_processor_seconds()
    script = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert script.stdout.readline() == "go\n"
    seconds_before = processor_seconds(script)
    if not interrupts_itself:
        wait_until(lambda: processor_seconds(script) >= seconds_before + 0.2, "the script is at work")
        script.send_signal(signal.SIGINT)
    _, stderr = script.communicate(timeout=PATIENCE)
    total_seconds = children_processor_seconds() - seconds_of_others
    assert total_seconds - seconds_before < MAX_PROCESSOR_SECONDS
    return stderr


# The script interrupts itself, after 0.2 seconds of processor time: `to_pylist` takes about a second, and on a busy
# machine a signal from the test could come too late.
LONG_LOOP = """
import os, signal, arrowwood as aw, pyarrow as pa
ds = aw.from_arrow(pa.table({'a': pa.nulls(30_000_000)}))
signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGINT))
print('go', flush=True)
signal.setitimer(signal.ITIMER_PROF, 0.2)
ds.to_pylist()
"""

# The dataset has about 10¹⁰ rows, which take far longer than the test waits.
LONG_AGGREGATION = """
import numpy as np, pyarrow as pa
n = np.arange(1 << 20)
ds = aw.concat([aw.from_arrow(pa.table({'n': n, 'key': n % 7}))] * 10_000)
print('go', flush=True)
ds.aggregate(by='key', mean='n')
"""


def test_ctrl_c_stops_long_loops():
    assert "KeyboardInterrupt" in run_interrupted(LONG_LOOP, interrupts_itself=True)


@pytest.mark.parametrize("bar", ["", "aw._progress.bar = lambda *what: lambda done, total: None"])
def test_ctrl_c_stops_an_aggregation(bar):
    """Python may handle the signal inside the callback of a progress bar, where the exception used to be dropped."""
    code = f"import arrowwood as aw; import arrowwood._progress; {bar}\n{LONG_AGGREGATION}"
    assert "KeyboardInterrupt" in run_interrupted(code)


def test_progress_bar_is_drawn_in_terminals_only(monkeypatch, capsys):
    assert _progress.bar("checking") is None

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = _progress.bar("checking")
    bar(1, 4)
    assert capsys.readouterr().err == ""  # nothing is drawn within the first second

    bar._next_draw = 0
    bar(2, 4)
    bar(4, 4)
    output = capsys.readouterr().err
    assert "checking" in output
    assert "2 of 4 rows" in output
    assert output.endswith("4 of 4 rows\n")
