"""The contenders: one class for each library, which does each operation in the cheapest documented way.

A constructor does as little as possible. `schema`, `first`, `last` and `total` are called on a new instance and may
consume it; `names`, `rows`, `row` and `sum` are called on an instance that stays open. Packages are imported in `load`,
so that a process loads only what it measures.
"""

import ctypes
import importlib
import os
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path


class Contender:
    package = None
    formats = ("stream", "file")
    one_batch = False  # reads only files of one batch
    copies = False  # copies the file to private memory, and is left out if that is short
    sums_only = False
    beside = None  # another contender to take turns with

    @classmethod
    def load(cls):
        cls.lib = importlib.import_module(cls.package)

    def __init__(self, file):
        self.file, self.path, self.column = file, file["path"], file["sum_column"]
        self.stream = file["format"] == "stream"

    def schema(self):  # None if there is nothing to read
        return self.names

    def first(self):
        return self.row(0)

    def last(self):
        return self.row(self.rows - 1)

    def total(self):
        return self.sum()


class Arrowwood(Contender):
    package = "arrowwood"

    def __init__(self, file):
        super().__init__(file)
        self.ds = self.lib.open(self.path)

    names = property(lambda self: self.ds.schema.names)
    rows = property(lambda self: len(self.ds))

    def last(self):
        return self.ds[-1]

    def row(self, i):
        return self.ds[i]

    def sum(self):
        return self.ds[self.column].sum()


class PyArrow(Contender):
    package = "pyarrow"
    source = "memory_map"

    @classmethod
    def load(cls):
        super().load()
        cls.add = staticmethod(importlib.import_module("pyarrow.compute").sum)

    def __init__(self, file):
        super().__init__(file)
        ipc, source = self.lib.ipc, getattr(self.lib, self.source)(self.path)
        self.reader = ipc.open_stream(source) if self.stream else ipc.open_file(source)

    @cached_property
    def columns(self):
        return dict(zip(self.names, self.reader.read_all().columns))

    @cached_property
    def names(self):
        return self.reader.schema.names

    @property
    def rows(self):  # count_rows is cheaper than read_all, but streams have none
        return len(self.columns[self.column]) if self.stream else self.reader.count_rows()

    def first(self):
        return self.pick(self.reader.read_next_batch() if self.stream else self.reader.get_batch(0), 0)

    def last(self):
        if self.stream:
            return super().last()
        batch = self.reader.get_batch(self.reader.num_record_batches - 1)
        return self.pick(batch, batch.num_rows - 1)

    def pick(self, batch, i):
        return {name: column[i].as_py() for name, column in zip(self.names, batch.columns)}

    def row(self, i):
        return {name: column[i].as_py() for name, column in self.columns.items()}

    def sum(self):
        return self.add(self.columns[self.column]).as_py()


class PyArrowCopying(PyArrow):
    source = "OSFile"
    copies = True


class Polars(Contender):
    package = "polars"
    copies = True

    def read(self, **options):
        return (self.lib.read_ipc_stream if self.stream else self.lib.read_ipc)(self.path, **options)

    @cached_property
    def frame(self):
        return self.read()

    names = property(lambda self: self.frame.columns)
    rows = property(lambda self: self.frame.height)

    def schema(self):
        return self.read(n_rows=1).columns if self.stream else list(self.lib.read_ipc_schema(self.path))

    def first(self):
        return self.read(n_rows=1).row(0, named=True)

    def row(self, i):
        return self.frame.row(i, named=True)

    def total(self):
        return self.read(columns=[self.column]).to_series().sum()

    def sum(self):
        return self.frame.get_column(self.column).sum()


class PolarsScan(Contender):
    package = "polars"
    formats = ("file",)

    def __init__(self, file):
        super().__init__(file)
        self.frame = self.lib.scan_ipc(self.path)

    names = property(lambda self: self.frame.collect_schema().names())
    rows = property(lambda self: self.frame.select(self.lib.len()).collect().item())

    def last(self):
        return self.frame.tail(1).collect().row(0, named=True)

    def row(self, i):
        return self.frame.slice(i, 1).collect().row(0, named=True)

    def sum(self):
        return self.frame.select(self.lib.col(self.column).sum()).collect().item()


class DuckDB(PyArrow):
    """One connection for the process: making it (about 10 ms) is not counted."""

    @classmethod
    def load(cls):
        super().load()
        cls.connection = importlib.import_module("duckdb").connect()

    def lazy(self):  # operations on a new instance need not read a stream completely
        return self.connection.from_arrow(self.reader) if self.stream else self.view

    @cached_property
    def view(self):
        return self.connection.from_arrow(self.reader.read_all())

    names = property(lambda self: self.view.columns)
    rows = property(lambda self: len(self.view))

    def schema(self):
        return self.lazy().columns

    def first(self):
        return self.lazy().limit(1).to_arrow_table().to_pylist()[0]

    def last(self):
        return self.row(self.rows - 1)

    def row(self, i):  # through Arrow, as DuckDB's own rows need another package for time zones
        return self.view.limit(1, offset=i).to_arrow_table().to_pylist()[0]

    def total(self):
        return self.lazy().sum(self.column).fetchall()[0][0]

    def sum(self):
        return self.view.sum(self.column).fetchall()[0][0]


class HuggingFace(Contender):
    package = "datasets"
    formats = ("stream",)  # from_file reads no other
    copies = True  # it casts the dictionary to strings

    @classmethod
    def load(cls):
        os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
        super().load()
        cls.add = staticmethod(importlib.import_module("pyarrow.compute").sum)

    def __init__(self, file):
        super().__init__(file)
        self.ds = self.lib.Dataset.from_file(self.path)
        self.names, self.rows = self.ds.column_names, self.ds.num_rows

    def row(self, i):
        return self.ds[i]

    def sum(self):
        return self.add(self.ds.data.column(self.column)).as_py()


class NumPy(Contender):
    """A lower bound for Python: it knows the offset of each column and reads no metadata."""

    package = "numpy"
    one_batch = True
    schema = None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)

    def __init__(self, file):
        super().__init__(file)
        self.names, self.dictionary = list(file["layout"]), file["dictionary"]

    rows = property(lambda self: len(self.columns[0]))

    @cached_property
    def columns(self):
        return [self.one(name) for name in self.names]

    def one(self, name):
        offset, dtype = self.file["layout"][name]
        return self.lib.memmap(self.path, dtype, "r", offset, (self.file["rows"],))

    def row(self, i):
        symbol, date, price = self.columns
        when = self.epoch + timedelta(milliseconds=int(date[i]))
        return {"symbol": self.dictionary[symbol[i]], "date": when, "price": float(price[i])}

    def total(self):
        return float(self.one(self.column).sum())

    def sum(self):
        return float(self.columns[self.names.index(self.column)].sum())


class SumLimit(Contender):
    """The limit of the machine: maps the file, adds the values up in a compiled kernel, and unmaps it."""

    package = "arrowwood"
    one_batch = sums_only = True
    threads = 1

    @classmethod
    def load(cls):
        super().load()
        target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[2] / "target"))
        library = target / "release" / "libarrowwood_bench.so"
        if not library.exists():
            raise ImportError("the kernel is not built: cargo build --release -p arrowwood-bench")
        cls.kernel = ctypes.CDLL(library).sum_limit
        cls.kernel.restype = ctypes.c_double
        cls.kernel.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t]

    def total(self):
        offset, _ = self.file["layout"][self.column]
        return self.kernel(os.fsencode(self.path), offset, self.file["rows"], self.threads)


class SumLimit2(SumLimit):
    threads = 2
    beside = Arrowwood


CONTENDERS = {
    "arrowwood": Arrowwood,
    "pyarrow mapped": PyArrow,
    "pyarrow copying": PyArrowCopying,
    "polars read": Polars,
    "polars scan": PolarsScan,
    "duckdb over pyarrow": DuckDB,
    "Hugging Face datasets": HuggingFace,
    "numpy.memmap (floor)": NumPy,
    "limit of the sum, 1 thread": SumLimit,
    "limit of the sum, 2 threads": SumLimit2,
}
