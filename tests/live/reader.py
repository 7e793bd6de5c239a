"""Opens a growing table again and again with an Arrow library and checks every row: a reader process of live.py.

`reader.py KIND FOLDER SECONDS [killed]` prints a line of JSON with the number of opens, of checked rows, of wrong
results, and of times that rows were gone. Rows may only be gone where the writer is killed: a writer that is killed
while it begins a segment may have shown other Arrow libraries rows of a commit that it did not finish.
"""

import json
import os
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rows import ExpectedRows

# How many snapshots the mapped reader keeps, to check them again at the end.
MAX_SNAPSHOTS = 300
MAX_COMPLAINTS = 5


def list_segments(folder: Path) -> list[str]:
    """Returns the names of the table's segments in order.

    Lists the folder until two listings agree: one that runs while files are created may contain a later file and lack
    an earlier one.
    """
    previous = None
    while True:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".arrow"))
        if names == previous:
            return names
        previous = names


def first_row(segment_name: str) -> int:
    return int(segment_name[:20])


class Reader:
    """Checks what a library reads. Subclasses implement `step`, which opens the table once."""

    # Part of the message of an error that the library raises now and then, and that is no wrong result.
    ALLOWED_ERROR: str | None = None

    def __init__(self, folder: str):
        self.folder = Path(folder)
        self.expected = ExpectedRows()
        self.row_counts: dict[str, int] = {}
        self.opens = self.rows = self.wrong = self.gone = self.refused = 0
        self.complaints: list[str] = []

    def step(self):
        raise NotImplementedError

    def check(self, name: str, table: pa.Table | pa.RecordBatch, start: int):
        """Checks that `table`, read from `name`, has the rows from `start` on, and no fewer than last time."""
        self.opens += 1
        self.rows += table.num_rows
        previous_count = self.row_counts.get(name, 0)
        self.row_counts[name] = table.num_rows
        if table.num_rows < previous_count:
            self.report_gone(f"{name}: {table.num_rows} rows after {previous_count}")
        if difference := self.expected.find_difference(table, start):
            self.report_wrong(f"{name}, {table.num_rows} rows: {difference}")

    def report_wrong(self, text: str):
        self.wrong += 1
        self._add_complaint(text)

    def report_gone(self, text: str):
        self.gone += 1
        self._add_complaint(text)

    def _add_complaint(self, text: str):
        self.complaints = (self.complaints + [text])[:MAX_COMPLAINTS]

    def close(self):
        pass


class SegmentReader(Reader):
    """Reads the newest segment, and every eighth time also the one before, which must be complete."""

    def step(self):
        names = list_segments(self.folder)
        newest = names[-1]
        if len(names) > 1 and self.opens % 8 == 0:
            name = names[-2]
            batch = self.read(name)
            self.check(name, batch, first_row(name))
            if batch.num_rows != first_row(newest) - first_row(name):
                self.report_wrong(f"{name}: {batch.num_rows} rows, and the next segment is {newest}")
        self.check(newest, self.read(newest), first_row(newest))

    def read(self, name: str) -> pa.RecordBatch:
        raise NotImplementedError

    def read_single_batch(self, reader: pa.ipc.RecordBatchFileReader) -> pa.RecordBatch:
        if reader.num_record_batches != 1:
            self.report_wrong(f"{reader.num_record_batches} batches")
        return reader.get_batch(0)


class MappedReader(SegmentReader):
    """Maps segments with pyarrow. Snapshots must not change while the writer goes on."""

    def __init__(self, folder: str):
        super().__init__(folder)
        self.snapshots: list[tuple[str, pa.RecordBatch]] = []

    def read(self, name):
        batch = self.read_single_batch(pa.ipc.open_file(pa.memory_map(str(self.folder / name))))
        if self.opens % 20 == 0 and len(self.snapshots) < MAX_SNAPSHOTS:
            self.snapshots.append((name, batch))
        return batch

    def close(self):
        for name, batch in self.snapshots:
            if difference := self.expected.find_difference(batch, first_row(name)):
                self.report_wrong(f"kept, {name}, {batch.num_rows} rows: {difference}")


class CopyingReader(SegmentReader):
    """Copies segments to memory with pyarrow."""

    def read(self, name):
        with pa.OSFile(str(self.folder / name)) as file:
            return self.read_single_batch(pa.ipc.open_file(file))


class FolderReader(Reader):
    """Reads the whole table, which must be a prefix of the rows, without gaps and duplicates."""

    def step(self):
        table = self.read()
        row = table.column("row")
        # Engines may return the files in any order.
        if table.num_rows and row.null_count == 0 and not is_increasing(row):
            table = table.take(pc.sort_indices(row))
        self.check("table", table, 0)

    def read(self) -> pa.Table:
        raise NotImplementedError


def is_increasing(column: pa.ChunkedArray) -> bool:
    numbers = column.to_numpy()
    return bool((numbers[1:] > numbers[:-1]).all())


class DatasetReader(FolderReader):
    def read(self):
        import pyarrow.dataset

        return pyarrow.dataset.dataset(str(self.folder), format="ipc").to_table()


class PolarsReader(FolderReader):
    # Polars reads the length of the footer twice, and fails if a longer footer was written between the two reads.
    ALLOWED_ERROR = "invalid seek to a negative or overflowing position"

    def read(self):
        import polars

        return polars.scan_ipc(f"{self.folder}/").collect().to_arrow()


class DataFusionReader(FolderReader):
    def read(self):
        from datafusion import SessionContext

        context = SessionContext()
        context.sql(f"CREATE EXTERNAL TABLE ticks STORED AS ARROW LOCATION '{self.folder}/'")
        return pa.Table.from_batches(context.sql("SELECT * FROM ticks").collect())


class DuckDBReader(FolderReader):
    def read(self):
        import duckdb
        import pyarrow.dataset

        ticks = pyarrow.dataset.dataset(str(self.folder), format="ipc")  # noqa: F841, DuckDB finds it by its name
        result = duckdb.sql("SELECT * FROM ticks").arrow()
        return result if isinstance(result, pa.Table) else result.read_all()


READERS = {
    "pyarrow-mapped": MappedReader,
    "pyarrow-copying": CopyingReader,
    "pyarrow-dataset": DatasetReader,
    "polars": PolarsReader,
    "datafusion": DataFusionReader,
    "duckdb": DuckDBReader,
}


def run_steps(reader: Reader, seconds: float):
    """Reads the table until `seconds` have passed, and counts the errors that the library raises."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            reader.step()
        except FileNotFoundError as e:
            reader.report_gone(str(e))
        except KeyboardInterrupt:
            raise
        # Any error is a finding. Panics of Rust libraries derive from BaseException.
        except BaseException as e:
            if reader.ALLOWED_ERROR and reader.ALLOWED_ERROR in str(e):
                reader.refused += 1
            else:
                reader.report_wrong(f"{type(e).__name__}: {e}"[:300])
    if reader.refused > max(2, reader.opens // 100):
        reader.report_wrong(f"{reader.refused} times: {reader.ALLOWED_ERROR}")


def main():
    kind, folder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    is_writer_killed = sys.argv[4:] == ["killed"]
    reader = READERS[kind](folder)
    run_steps(reader, seconds)
    reader.close()
    if not is_writer_killed:
        reader.wrong += reader.gone
        reader.gone = 0
    names = ["opens", "rows", "wrong", "gone", "refused", "complaints"]
    print(json.dumps({"reader": kind} | {name: getattr(reader, name) for name in names}))


if __name__ == "__main__":
    main()
