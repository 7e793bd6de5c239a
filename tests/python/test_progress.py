"""Tests progress bars of long operations: they are drawn in terminals, and nowhere else."""

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
def drawn(monkeypatch):
    """Returns the calls of bars, as if there were a terminal."""
    calls = []

    def bar(doing, unit="rows"):
        calls.append((doing, unit))
        return lambda done, total: calls.append((done, total))

    monkeypatch.setattr(_progress, "bar", bar)
    return calls


@pytest.fixture
def table(tmp_path):
    with aw.writer(tmp_path / "t", pa.schema([pa.field("n", pa.int64(), False)]), segment_rows=100) as writer:
        writer.append({"n": range(450)})
    return tmp_path / "t"


def test_check_repair_and_compact_draw(table, drawn):
    for work, name in [(aw.check, "checking"), (aw.compact, "compacting"), (aw.repair, "repairing")]:
        drawn.clear()
        work(table)
        (doing, unit), *steps = drawn
        assert (doing, unit) == (name, "pieces")
        assert steps[-1][0] == steps[-1][1] > 0


def test_reading_text_draws(tmp_path, drawn):
    text = "n\n" + "".join(f"{n}\n" for n in range(100_000))
    (tmp_path / "n.csv").write_text(text)
    assert len(aw.read_csv(tmp_path / "n.csv")) == 100_000
    # The types of its beginning hold, so the text is read once.
    assert drawn[0] == ("reading", "bytes") and drawn[-1] == (len(text), len(text))
    drawn.clear()
    assert len(aw.read_csv(tmp_path / "n.csv", schema="n: int64")) == 100_000
    assert drawn[-1] == (len(text), len(text))


def test_a_bar_that_fails_stops_nothing(table, monkeypatch):
    def broken(done, total):
        raise OSError("the terminal is gone")

    monkeypatch.setattr(_progress, "bar", lambda doing, unit: broken)
    assert aw.check(table).rows == 450


def test_nothing_is_drawn_where_nobody_looks(table, capfd):
    aw.check(table), aw.open(table).validate()
    assert capfd.readouterr().err == ""


def test_a_bar_waits_for_a_second(capfd, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    bar = _progress.Bar("checking", "pieces")
    bar(1, 4)
    assert capfd.readouterr().err == ""
    now[0] = 101.5
    bar(2, 4)
    assert capfd.readouterr().err == "\rchecking " + "█" * 20 + "░" * 20 + " 2 of 4 pieces"
    bar(4, 4)
    assert capfd.readouterr().err.endswith(" 4 of 4 pieces\n")


def printed_on_a_terminal(*arguments, is_waited_for):
    """Returns the standard error of a command if it is a terminal, and standard output is not.

    With `is_waited_for`, output is read no faster than the wait polls, so that the command runs long enough for a bar.
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "arrowwood._cli", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    read = []

    def look():
        try:
            while piece := os.read(ours, 65536):
                read.append(piece)
        except OSError:
            pass  # so ends what a terminal has to read

    thread = threading.Thread(target=look)
    thread.start()
    if is_waited_for:
        wait_until(lambda: read or not process.stdout.read1(1 << 16), "something is drawn, or all is written")
    while process.stdout.read1(1 << 20):
        pass
    assert process.wait(PATIENCE) == 0
    join(thread)
    os.close(ours)
    process.stdout.close()
    return b"".join(read).decode()


def test_cat_draws_beside_its_output(tmp_path):
    """What takes longer than a second is drawn; one row doesn't, and nothing is drawn."""
    n = np.arange(2_000_000)
    aw.write({"n": n, "x": n / 7}, tmp_path / "n.arrow")
    assert "writing rows" in printed_on_a_terminal("cat", "--csv", tmp_path / "n.arrow", is_waited_for=True)
    aw.write({"n": [1]}, tmp_path / "few.arrow")
    # Where the machine is busy with other things, one row may take a second, too, but not for ever.
    cat = lambda: printed_on_a_terminal("cat", "--csv", tmp_path / "few.arrow", is_waited_for=False)
    wait_until(lambda: cat() == "", "nothing is drawn")
