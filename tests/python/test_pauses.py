"""pyarrow, Polars and Arrow Java at a table that is being written, with pauses between any two of their reads.

Time is simulated: the writer publishes as often as it may, with the constants that are real. `ARROWWOOD_PAUSES=minute`
makes the pauses real. Arrow Java is there in the campaign only, which builds tests/interop/java.
"""

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import arrowwood as aw
from arrowwood import _arrowwood

polars = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

# How often a writer publishes that never rests, and how long a reader may pause.
INTERVAL = 0.01564
PAUSE = 60
IS_REAL = "ARROWWOOD_PAUSES" in os.environ


def number(column, row):
    return 1000 * row + column


def text(column, row):
    return f"{column}: {row - row % 7}"


class Busy:
    """A table of so many columns, and its writer."""

    def __init__(self, folder, columns, of):
        names = [f"column {n}" for n in range(columns)]
        kind = pa.string() if of is text else pa.int64()
        dictionary = names if of is text else None
        rows = 1 << 16 if columns > 10 else None  # a reader takes all bytes from the first column to the last
        self.writer = aw.writer(
            folder / "ticks", pa.schema(dict.fromkeys(names, kind)), dictionary=dictionary, segment_rows=rows
        )
        self.path, self.columns, self.of, self.rows = folder / "ticks" / f"{0:020}.arrow", columns, of, 0

    def commit(self):
        values = {f"column {n}": [self.of(n, self.rows)] for n in range(self.columns)}
        self.writer.append(values)
        self.writer.commit()
        self.rows += 1

    def write_for(self, seconds):
        # The commits take some time, too.
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not IS_REAL:
                _arrowwood._pretend_later(round(INTERVAL * 1e6))
                end -= INTERVAL
            self.commit()

    def is_right(self, table):
        """Returns whether each value fits its row, and the rows are the first ones."""
        assert table.num_columns == self.columns
        rows = range(table.num_rows)
        for n in range(self.columns):
            assert table.column(n).to_pylist() == [self.of(n, row) for row in rows], f"column {n}"
        return table.num_rows


class Paused(io.RawIOBase):
    """A file that calls `pause` before read `number`."""

    def __init__(self, path, number, pause):
        self.file, self.left, self.pause = open(path, "rb", buffering=0), number, pause

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        return self.file.seek(offset, whence)

    def tell(self):
        return self.file.tell()

    def read(self, size=-1):
        if self.left == 0:
            self.pause()
        self.left -= 1
        return self.file.read(size)

    def readall(self):
        return self.read()

    def readinto(self, buffer):
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self):
        self.file.close()
        super().close()


def read_by_pyarrow(file):
    return pa.ipc.open_file(pa.PythonFile(file, "r")).read_all()


def read_by_polars(file):
    return polars.read_ipc(file, use_pyarrow=False).to_arrow()


# More dictionaries would take gigabytes: a reader takes all bytes from a message to its values for each of them.
SHAPES = [(1, number), (10, number), (1, text), (10, text), (100, number), (20, text)]


@pytest.mark.parametrize(("columns", "of"), SHAPES)
def test_pyarrow_may_pause_for_a_minute_at_any_of_its_reads(tmp_path, columns, of):
    busy = Busy(tmp_path, columns, of)
    busy.write_for(10 if IS_REAL else PAUSE)
    at, paused = 0, 0
    while True:
        before = busy.rows
        file = Paused(busy.path, at, lambda: busy.write_for(PAUSE - 0.5))
        rows = busy.is_right(read_by_pyarrow(file))
        assert before - 64 <= rows <= busy.rows or IS_REAL
        if file.left >= 0:
            break
        paused += 1
        # Each read where there are few.
        at = at + 1 if columns == 1 or at < 3 else 3 * at + 1
    assert paused >= 3, f"{paused} reads"


@pytest.mark.parametrize(("columns", "of"), [(1, number), (2, text)])
def test_a_reader_that_pauses_for_longer_gets_an_error_or_the_right_rows(tmp_path, columns, of):
    busy = Busy(tmp_path, columns, of)
    busy.write_for(1)
    errors = 0
    for times in [1.1, 2.2]:
        for at in range(1, 7):
            file = Paused(busy.path, at, lambda times=times: busy.write_for(PAUSE * times))
            try:
                table = read_by_pyarrow(file)
            except (pa.ArrowInvalid, OSError):
                errors += 1
            else:
                busy.is_right(table)
    assert errors >= 1, "the reader was not late"


@pytest.mark.skipif("ARROWWOOD_ARROW_JAVA" not in os.environ, reason="in the campaign: it builds Arrow Java's reader")
@pytest.mark.parametrize(("columns", "of"), [(1, number), (10, number), (3, text)])
def test_arrow_java_may_pause_for_a_minute_at_any_of_its_reads(tmp_path, columns, of):
    sys.path.append(str(Path(__file__).parents[1] / "interop"))
    from run import make_java

    command, _ = make_java(tmp_path)
    busy = Busy(tmp_path, columns, of)
    busy.write_for(10 if IS_REAL else PAUSE)
    at, reads = 0, 1
    while at < reads:
        before = busy.rows
        reads, table = read_by_java([*command, "paused", busy.path], at, lambda: busy.write_for(PAUSE - 0.5))
        rows = busy.is_right(table)
        assert before - 64 <= rows <= busy.rows or IS_REAL
        # Each read where there are few.
        at = at + 1 if columns == 1 or at < 3 else 3 * at + 1
    assert reads >= 3, f"{reads} reads"


def read_by_java(command, at, pause):
    """How many reads there were, and what they have read; `pause` is called before read `at`."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as reader:
        reads = 0
        while (line := reader.stdout.readline()) == "read\n":
            if reads == at:
                pause()
            reads += 1
            reader.stdin.write("\n")
            reader.stdin.flush()
    said = json.loads(line)
    assert "rows" in said, said
    # Numbers are spelled as text.
    columns = [[cell if ":" in cell else int(cell) for cell in column] for column in zip(*said["rows"])]
    return reads, pa.table(columns, names=[f"column {n}" for n in range(len(columns))])


def test_a_mapped_file_that_was_opened_a_minute_ago_is_read(tmp_path):
    busy = Busy(tmp_path, 3, text)
    busy.write_for(5)
    reader = pa.ipc.open_file(pa.memory_map(str(busy.path)))
    busy.write_for(PAUSE - 0.5)
    assert busy.is_right(reader.read_all()) > 0


def test_polars_reads_what_was_published(tmp_path):
    busy = Busy(tmp_path, 3, text)
    for _ in range(100):
        busy.write_for(0.1)
        assert busy.is_right(polars.read_ipc(busy.path).cast(polars.String).to_arrow()) > 0
        assert busy.is_right(polars.scan_ipc(busy.path).collect().cast(polars.String).to_arrow()) > 0
