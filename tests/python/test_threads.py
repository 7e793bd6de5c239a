"""Datasets in many threads and processes at once."""

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
from conftest import ipc_of, write_ipc
from waits import PATIENCE, join, wait_until

ROWS = 20_000


def table():
    return pa.table({"n": np.arange(ROWS), "s": [f"row {i}" for i in range(ROWS)]})


def test_threads_share_a_dataset(tmp_path):
    """First touches meet: all threads find and decode the same batches, of a mapping and of Python's bytes."""
    for compression in [None, "zstd"]:
        data = ipc_of(table(), "stream", 100, compression)
        for source in [data, write_ipc(tmp_path / "x", table(), "stream", 100)]:
            ds = aw.open(source)
            picks = np.random.default_rng(0).integers(0, ROWS, 400).tolist()
            with ThreadPoolExecutor(8) as pool:
                jobs = [pool.submit(ds["n"].sum), pool.submit(len, ds), pool.submit(ds.validate), pool.submit(repr, ds)]
                rows = list(pool.map(lambda i: ds[i], picks))
                assert jobs[0].result() == ROWS * (ROWS - 1) // 2 and jobs[1].result() == ROWS
                jobs[2].result(), jobs[3].result()
            assert rows == [{"n": i, "s": f"row {i}"} for i in picks]


def test_others_run_during_long_work(tmp_path):
    ds = aw.from_arrow(pa.table({"s": pa.array(["x" * 50] * 500_000)}))
    ticks, done = [], threading.Event()

    def tick():
        wait_until(lambda: ticks.append(1) or done.is_set(), "the work is done")

    def others_run():
        before = len(ticks)
        aw.write(ds, tmp_path / "x", compression="zstd")
        return len(ticks) - before >= 3

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        # On a busy machine nobody has to come to its turn during one of them.
        wait_until(others_run, "another thread has run three times during one write")
    finally:
        done.set()
        join(thread)


def row_of(path, i):
    return aw.open(path)[i]["n"]


def test_workers_open_for_themselves(tmp_path):
    path = write_ipc(tmp_path / "x", table(), max_rows=1000)
    aw.open(path)["n"].sum()
    for method in ["fork", "spawn"]:
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.starmap(row_of, [(path, i) for i in range(0, ROWS, 2000)]) == list(range(0, ROWS, 2000))


def test_a_forked_worker_reads_its_parents_dataset(tmp_path):
    ds = aw.open(write_ipc(tmp_path / "x", table(), max_rows=1000))
    ds["n"].sum()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    worker = context.Process(target=lambda: queue.put((ds[777], ds["n"].sum())))
    worker.start()
    assert queue.get(timeout=PATIENCE) == ({"n": 777, "s": "row 777"}, ROWS * (ROWS - 1) // 2)
    worker.join()


def worked(process):
    """The seconds that a process has had a processor."""
    with open(f"/proc/{process.pid}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def interrupted(code, by_itself=False):
    """Sends Ctrl-C to a script a while after it printed 'go'; returns its standard error.

    The script may not work for much longer. Its processor time counts, so other programs don't matter.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert worker.stdout.readline() == "go\n"
    start = worked(worker)
    if not by_itself:
        wait_until(lambda: worked(worker) >= start + 0.2, "the script is at work")
        worker.send_signal(signal.SIGINT)
    answer = worker.communicate(timeout=PATIENCE)[1]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < start + 5
    return answer


def test_ctrl_c_stops_long_loops():
    code = (
        "import os, signal, arrowwood as aw, pyarrow as pa; ds = aw.from_arrow(pa.table({'a': pa.nulls(30_000_000)}))\n"
    )
    # Of a second of work, others might come to their turn when it is over.
    code += "signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGINT))\n"
    code += "print('go', flush=True); signal.setitimer(signal.ITIMER_PROF, 0.2); ds.to_pylist()"
    assert "KeyboardInterrupt" in interrupted(code, by_itself=True)


@pytest.mark.parametrize("bar", ["", "aw._progress.bar = lambda *what: lambda done, total: None"])
def test_ctrl_c_stops_an_aggregation(bar):
    """Of some 10¹⁰ rows, which take far longer than the test waits. Python handled the signal in the bar's code,
    and it was lost."""
    code = f"import arrowwood as aw; import arrowwood._progress; {bar}\n"
    code += "import numpy as np, pyarrow as pa; n = np.arange(1 << 20)\n"
    code += "ds = aw.concat([aw.from_arrow(pa.table({'n': n, 'key': n % 7}))] * 10_000)\n"
    code += "print('go', flush=True); ds.aggregate(by='key', mean='n')"
    assert "KeyboardInterrupt" in interrupted(code)


def test_progress_is_drawn_in_terminals_only(monkeypatch, capsys):
    import sys

    from arrowwood import _progress

    assert _progress.bar("checking") is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = _progress.bar("checking")
    bar(1, 4)
    assert capsys.readouterr().err == ""  # within the first second
    bar._next = 0
    bar(2, 4)
    bar(4, 4)
    drawn = capsys.readouterr().err
    assert "checking" in drawn and "2 of 4 rows" in drawn and drawn.endswith("4 of 4 rows\n")
