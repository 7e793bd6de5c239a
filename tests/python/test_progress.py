"""Tests progress bars: they are drawn for long operations in a terminal, and nowhere else."""

import os
import pty
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from arrowwood import _progress
from waits import PATIENCE, join, wait_until


@pytest.fixture
def recorded_calls(monkeypatch):
    """Replaces bars; returns the list of their calls: arguments of the constructor, then (done, total)."""
    calls = []

    def make_bar(doing, unit="rows"):
        calls.append((doing, unit))
        return lambda done, total: calls.append((done, total))

    monkeypatch.setattr(_progress, "bar", make_bar)
    return calls


@pytest.fixture
def table(tmp_path):
    with aw.writer(tmp_path / "t", pa.schema([pa.field("n", pa.int64(), False)]), segment_rows=100) as writer:
        writer.append({"n": range(450)})
    return tmp_path / "t"


def test_check_compact_and_repair_draw(table, recorded_calls):
    for operation, name in [(aw.check, "checking"), (aw.compact, "compacting"), (aw.repair, "repairing")]:
        recorded_calls.clear()
        operation(table)
        labels, *steps = recorded_calls
        assert labels == (name, "pieces")
        done, total = steps[-1]
        assert done == total > 0


def test_read_csv_draws(tmp_path, recorded_calls):
    text = "n\n" + "".join(f"{n}\n" for n in range(100_000))
    path = tmp_path / "n.csv"
    path.write_text(text)
    # The types inferred from the first rows hold for all rows, so that the text is read once.
    assert len(aw.read_csv(path)) == 100_000
    assert recorded_calls[0] == ("reading", "bytes") and recorded_calls[-1] == (len(text), len(text))
    recorded_calls.clear()
    assert len(aw.read_csv(path, schema="n: int64")) == 100_000
    assert recorded_calls[-1] == (len(text), len(text))


def test_failing_bar_does_not_stop_the_operation(table, monkeypatch):
    def fail(done, total):
        raise OSError("the terminal is gone")

    monkeypatch.setattr(_progress, "bar", lambda doing, unit: fail)
    assert aw.check(table).rows == 450


def test_nothing_is_drawn_without_a_terminal(table, capfd):
    aw.check(table)
    aw.open(table).validate()
    assert capfd.readouterr().err == ""


def test_bar_appears_after_a_second(capfd, monkeypatch):
    seconds = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: seconds[0])
    bar = _progress.Bar("checking", "pieces")
    bar(1, 4)
    assert capfd.readouterr().err == ""
    seconds[0] = 101.5
    bar(2, 4)
    assert capfd.readouterr().err == "\rchecking " + "█" * 20 + "░" * 20 + " 2 of 4 pieces"
    bar(4, 4)
    assert capfd.readouterr().err.endswith(" 4 of 4 pieces\n")


def read_terminal(descriptor, chunks):
    """Appends what a terminal prints to `chunks`, until its other end is closed."""
    try:
        while chunk := os.read(descriptor, 65536):
            chunks.append(chunk)
    except OSError:
        # Linux reports the end of a terminal as EIO.
        pass


def run_with_terminal(*arguments, is_slow):
    """Runs a command with standard error in a terminal, and returns what it draws there.

    If `is_slow`, standard output is read slowly until something is drawn, so that the command takes long enough.
    """
    terminal, command_end = pty.openpty()
    command = [sys.executable, "-m", "arrowwood._cli", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=command_end)
    os.close(command_end)
    chunks = []
    thread = threading.Thread(target=read_terminal, args=(terminal, chunks))
    thread.start()
    if is_slow:
        wait_until(lambda: chunks or not process.stdout.read1(1 << 16), "something is drawn, or all is written")
    while process.stdout.read1(1 << 20):
        pass
    assert process.wait(PATIENCE) == 0
    join(thread)
    os.close(terminal)
    process.stdout.close()
    return b"".join(chunks).decode()


def test_cat_draws_on_standard_error_if_it_takes_long(tmp_path):
    n = np.arange(2_000_000)
    aw.write({"n": n, "x": n / 7}, tmp_path / "n.arrow")
    assert "writing rows" in run_with_terminal("cat", "--csv", tmp_path / "n.arrow", is_slow=True)


def test_cat_of_one_row_draws_nothing(tmp_path):
    aw.write({"n": [1]}, tmp_path / "row.arrow")
    # Repeats the command, because on a busy machine even one row may take a second.
    wait_until(
        lambda: run_with_terminal("cat", "--csv", tmp_path / "row.arrow", is_slow=False) == "", "nothing is drawn"
    )
