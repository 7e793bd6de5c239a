"""Opens a table that is being written over and over with a stock reader, and checks every row: see live.py.

`reader.py KIND FOLDER SECONDS [killed]` prints a line of JSON: opens, rows checked, what was wrong, and how often rows
were gone: a writer that is killed while it begins a segment may have shown stock readers rows of the commit that it was
about to make. No other writer may.
"""

import json
import os
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rows import Expected

# Snapshots that a mapped reader keeps to the end.
KEPT = 300


def segments(folder):
    # Twice, until nothing changes: a listing that goes on while names are given may show a later one
    # and not an earlier.
    found = None
    while found != (found := sorted(name for name in os.listdir(folder) if name.endswith(".arrow"))):
        pass
    return found


class Reader:
    # What it says if it did not get to read anything, which is rare and no wrong answer.
    REFUSES = None

    def __init__(self, folder):
        self.folder = Path(folder)
        self.expected = Expected()
        self.most = {}
        self.opens = self.rows = self.wrong = self.gone = self.refused = 0
        self.complaints = []

    def complain(self, text):
        self.wrong += 1
        self.complaints = (self.complaints + [text])[:5]

    def judge(self, name, table, start):
        """Whether `table`, which was read from `name`, is rows `start ..`, and no fewer than before."""
        self.opens += 1
        self.rows += table.num_rows
        before = self.most.get(name, 0)
        self.most[name] = table.num_rows
        if table.num_rows < before:
            self.lose(f"{name}: {table.num_rows} rows after {before}")
        if complaint := self.expected.complaint(table, start):
            self.complain(f"{name}, {table.num_rows} rows: {complaint}")

    def lose(self, text):
        self.gone += 1
        self.complaints = (self.complaints + [text])[:5]

    def close(self):
        pass


class Segments(Reader):
    """The live segment, and now and then the one before, whose last face must be whole when its successor is there."""

    def step(self):
        names = segments(self.folder)
        if len(names) > 1 and self.opens % 8 == 0:
            name, after = names[-2], names[-1]
            batch = self.read(name)
            self.judge(name, batch, int(name[:20]))
            if batch.num_rows != int(after[:20]) - int(name[:20]):
                self.complain(f"{name}: {batch.num_rows} rows, and the next segment is {after}")
        self.judge(names[-1], self.read(names[-1]), int(names[-1][:20]))

    def one_batch(self, reader):
        if reader.num_record_batches != 1:
            self.complain(f"{reader.num_record_batches} batches")
        return reader.get_batch(0)


class Mapped(Segments):
    def __init__(self, folder):
        super().__init__(folder)
        self.kept = []

    def read(self, name):
        batch = self.one_batch(pa.ipc.open_file(pa.memory_map(str(self.folder / name))))
        if self.opens % 20 == 0 and len(self.kept) < KEPT:
            self.kept.append((name, batch))
        return batch

    def close(self):
        for name, batch in self.kept:
            if complaint := self.expected.complaint(batch, int(name[:20])):
                self.complain(f"kept, {name}, {batch.num_rows} rows: {complaint}")


class Copying(Segments):
    def read(self, name):
        with pa.OSFile(str(self.folder / name)) as file:
            return self.one_batch(pa.ipc.open_file(file))


class Folders(Reader):
    """The table as a whole: a prefix of its rows, without a hole, none twice."""

    def step(self):
        table = self.read()
        row = table.column("row")
        # Engines may hand out the files in any order.
        if table.num_rows and row.null_count == 0 and not in_order(row):
            table = table.take(pc.sort_indices(row))
        self.judge("table", table, 0)


def in_order(row):
    numbers = row.to_numpy()
    return bool((numbers[1:] > numbers[:-1]).all())


class Dataset(Folders):
    def read(self):
        import pyarrow.dataset

        return pyarrow.dataset.dataset(str(self.folder), format="ipc").to_table()


class Polars(Folders):
    # It reads the footer's length twice, and says so if another footer came meanwhile that ends further in front.
    REFUSES = "invalid seek to a negative or overflowing position"

    def read(self):
        import polars

        return polars.scan_ipc(f"{self.folder}/").collect().to_arrow()


class DataFusion(Folders):
    def read(self):
        from datafusion import SessionContext

        context = SessionContext()
        context.sql(f"CREATE EXTERNAL TABLE ticks STORED AS ARROW LOCATION '{self.folder}/'")
        return pa.Table.from_batches(context.sql("SELECT * FROM ticks").collect())


class DuckDB(Folders):
    def read(self):
        import duckdb
        import pyarrow.dataset

        ticks = pyarrow.dataset.dataset(str(self.folder), format="ipc")  # noqa: F841, the query finds it by its name
        found = duckdb.sql("SELECT * FROM ticks").arrow()
        return found if isinstance(found, pa.Table) else found.read_all()


KINDS = {
    "pyarrow-mapped": Mapped,
    "pyarrow-copying": Copying,
    "pyarrow-dataset": Dataset,
    "polars": Polars,
    "datafusion": DataFusion,
    "duckdb": DuckDB,
}


def main():
    kind, folder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    reader = KINDS[kind](folder)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            reader.step()
        except FileNotFoundError as e:
            reader.lose(str(e))
        except KeyboardInterrupt:
            raise
        except BaseException as e:  # Whatever a reader makes of it is what the test is about, a panic of Rust's too.
            if reader.REFUSES and reader.REFUSES in str(e):
                reader.refused += 1
            else:
                reader.complain(f"{type(e).__name__}: {e}"[:300])
    if reader.refused > max(2, reader.opens // 100):
        reader.complain(f"{reader.refused} times: {reader.REFUSES}")
    reader.close()
    if sys.argv[4:] != ["killed"]:
        reader.wrong, reader.gone = reader.wrong + reader.gone, 0
    names = ["opens", "rows", "wrong", "gone", "refused", "complaints"]
    print(json.dumps({"reader": kind} | {name: getattr(reader, name) for name in names}))


if __name__ == "__main__":
    main()
