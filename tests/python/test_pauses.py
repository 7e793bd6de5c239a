"""Tests that pyarrow, Polars and Arrow Java can read a growing table while they pause between any two reads.

The file may change between the reads, as a writer commits rows. A reader that pauses for at most a minute gets correct
rows. The writer is a program in Rust, crates/arrowwood/examples/pauses. There time is simulated: the writer publishes
rows at its highest rate, with the real constants of the library. `ARROWWOOD_PAUSES=minute` makes the pauses real.
Arrow Java is tested only in the campaign, which builds tests/interop/java.
"""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

polars = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parents[2] / "target")
# The writer; `make programs` builds it.
WRITER = TARGET / "debug/examples/pauses"

# The longest pause of a reader that is allowed, and a pause that is a little shorter.
MAX_PAUSE_S = 60
PAUSE_S = MAX_PAUSE_S - 0.5
# How many of the committed rows may not be published yet.
MAX_UNPUBLISHED_ROWS = 64
IS_REAL_TIME = "ARROWWOOD_PAUSES" in os.environ


def make_number(column, row):
    return 1000 * row + column


def make_text(column, row):
    return f"{column}: {row - row % 7}"


class BusyTable:
    """A table with a writer that commits each row; `make_value` computes a value from its column and row."""

    def __init__(self, path, column_count, make_value):
        self.column_count, self.make_value = column_count, make_value
        self.path = path / f"{0:020}.arrow"
        self.row_count = 0
        kind = "text" if make_value is make_text else "number"
        command = [WRITER, path, str(column_count), kind]
        self.writer = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self):
        _, _ = self.writer.communicate()
        assert self.writer.returncode == 0

    def write_for(self, seconds):
        """Commits rows for some seconds, which are real or simulated."""
        self.writer.stdin.write(f"{seconds}\n")
        self.writer.stdin.flush()
        self.row_count = int(self.writer.stdout.readline())

    def assert_first_rows(self, table):
        """Asserts that `table` has the first rows of this table, and returns their number."""
        assert table.num_columns == self.column_count
        for column in range(self.column_count):
            expected = [self.make_value(column, row) for row in range(table.num_rows)]
            assert table.column(column).to_pylist() == expected, f"column {column}"
        return table.num_rows


@pytest.fixture
def start_table(tmp_path):
    """Returns a function that creates a table and starts its writer, which ends with the test."""
    tables = []

    def start(column_count, make_value):
        tables.append(BusyTable(tmp_path / "ticks", column_count, make_value))
        return tables[-1]

    yield start
    for table in tables:
        table.close()


class PausedFile(io.RawIOBase):
    """A file that calls `pause` before one of its reads."""

    def __init__(self, path, paused_read, pause):
        self.file = open(path, "rb", buffering=0)
        self.reads_until_pause, self.pause = paused_read, pause

    @property
    def has_paused(self):
        return self.reads_until_pause < 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        return self.file.seek(offset, whence)

    def tell(self):
        return self.file.tell()

    def read(self, size=-1):
        if self.reads_until_pause == 0:
            self.pause()
        self.reads_until_pause -= 1
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


def read_with_pyarrow(file):
    return pa.ipc.open_file(pa.PythonFile(file, "r")).read_all()


def next_paused_read(paused_read, column_count):
    """Returns the read to pause before next: each one, or few of many."""
    if column_count == 1 or paused_read < 3:
        return paused_read + 1
    return 3 * paused_read + 1


# More dictionaries would take gigabytes: for each, a reader takes all bytes from its message to its values.
@pytest.mark.parametrize(
    ("column_count", "make_value"),
    [(1, make_number), (10, make_number), (1, make_text), (10, make_text), (100, make_number), (20, make_text)],
)
def test_pyarrow_may_pause_for_a_minute_before_any_read(start_table, column_count, make_value):
    table = start_table(column_count, make_value)
    table.write_for(10 if IS_REAL_TIME else MAX_PAUSE_S)
    paused_read, pause_count = 0, 0
    while True:
        rows_before = table.row_count
        file = PausedFile(table.path, paused_read, lambda: table.write_for(PAUSE_S))
        rows_read = table.assert_first_rows(read_with_pyarrow(file))
        assert rows_before - MAX_UNPUBLISHED_ROWS <= rows_read <= table.row_count or IS_REAL_TIME
        if not file.has_paused:
            break
        pause_count += 1
        paused_read = next_paused_read(paused_read, column_count)
    assert pause_count >= 3, f"{pause_count} reads"


@pytest.mark.parametrize(("column_count", "make_value"), [(1, make_number), (2, make_text)])
def test_reader_that_pauses_for_longer_gets_an_error_or_the_right_rows(start_table, column_count, make_value):
    table = start_table(column_count, make_value)
    table.write_for(1)
    error_count = 0
    for pause_s in (1.1 * MAX_PAUSE_S, 2.2 * MAX_PAUSE_S):
        for paused_read in range(1, 7):
            file = PausedFile(table.path, paused_read, lambda: table.write_for(pause_s))
            try:
                rows = read_with_pyarrow(file)
            except (pa.ArrowInvalid, OSError):
                error_count += 1
            else:
                table.assert_first_rows(rows)
    assert error_count >= 1, "the reader was not late"


@pytest.mark.skipif("ARROWWOOD_ARROW_JAVA" not in os.environ, reason="in the campaign: it builds Arrow Java's reader")
@pytest.mark.parametrize(("column_count", "make_value"), [(1, make_number), (10, make_number), (3, make_text)])
def test_arrow_java_may_pause_for_a_minute_before_any_read(tmp_path, start_table, column_count, make_value):
    sys.path.append(str(Path(__file__).parents[1] / "interop"))
    from run import make_java

    java, _ = make_java(tmp_path)
    table = start_table(column_count, make_value)
    table.write_for(10 if IS_REAL_TIME else MAX_PAUSE_S)
    paused_read, read_count = 0, 1
    while paused_read < read_count:
        rows_before = table.row_count
        command = [*java, "paused", table.path]
        read_count, rows = read_with_java(command, paused_read, lambda: table.write_for(PAUSE_S))
        rows_read = table.assert_first_rows(rows)
        assert rows_before - MAX_UNPUBLISHED_ROWS <= rows_read <= table.row_count or IS_REAL_TIME
        paused_read = next_paused_read(paused_read, column_count)
    assert read_count >= 3, f"{read_count} reads"


def read_with_java(command, paused_read, pause):
    """Reads a file with Arrow Java, calls `pause` before one of its reads; returns the number of reads and the rows.

    The reader prints `read` before each read, and waits for a line. At the end it prints the rows as JSON.
    """
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        read_count = 0
        while (line := reader.stdout.readline()) == "read\n":
            if read_count == paused_read:
                pause()
            read_count += 1
            reader.stdin.write("\n")
            reader.stdin.flush()
    result = json.loads(line)
    assert "rows" in result, result
    # Numbers come as text; a text of the table has a colon.
    columns = [[cell if ":" in cell else int(cell) for cell in column] for column in zip(*result["rows"])]
    return read_count, pa.table(columns, names=[f"column {column}" for column in range(len(columns))])


def test_file_mapped_a_minute_ago_is_readable(start_table):
    table = start_table(3, make_text)
    table.write_for(5)
    reader = pa.ipc.open_file(pa.memory_map(str(table.path)))
    table.write_for(PAUSE_S)
    assert table.assert_first_rows(reader.read_all()) > 0


def test_polars_reads_published_rows(start_table):
    table = start_table(3, make_text)
    for _ in range(100):
        table.write_for(0.1)
        assert table.assert_first_rows(polars.read_ipc(table.path).cast(polars.String).to_arrow()) > 0
        assert table.assert_first_rows(polars.scan_ipc(table.path).collect().cast(polars.String).to_arrow()) > 0
