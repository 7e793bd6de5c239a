"""The compiled part of arrowwood, typed and documented."""

import builtins
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from collections.abc import Mapping as AbstractMapping
from datetime import date, datetime, timedelta
from pathlib import Path
from socket import socket
from types import TracebackType
from typing import IO, Any, Literal, NoReturn, Protocol, Self, TypeAlias, TypeVar, final, overload, type_check_only

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa
from typing_extensions import Buffer as _HasBuffer

from arrowwood._loader import Loader
from arrowwood._types import Footprint, Message, Partition, Report, Split

__all__ = [
    "Aggregation",
    "Buffer",
    "Builder",
    "Column",
    "Dataset",
    "Expression",
    "Field",
    "Follow",
    "Mapping",
    "PartitionedWriter",
    "Predicate",
    "Schema",
    "StreamReader",
    "StreamWriter",
    "TextConditions",
    "TimeParts",
    "Writer",
    "__version__",
    "_Batches",
    "_Block",
    "_Values",
    "_local_path",
    "_open_places",
    "_run_cli",
    "_visible",
    "aggregation",
    "alter",
    "check",
    "col",
    "compact",
    "concat",
    "drop_partition",
    "follow",
    "from_arrow",
    "map",
    "open",
    "read_csv",
    "read_json",
    "read_stream",
    "repair",
    "stream_writer",
    "write",
    "writer",
]

__version__: str

_T = TypeVar("_T")

_Path: TypeAlias = str | os.PathLike[str]

@type_check_only
class _ArrowStream(Protocol):
    """Anything that exports a stream of Arrow data: tables, data frames, readers, relations."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@type_check_only
class _ArrowArray(Protocol):
    """Anything that exports one batch or array of Arrow data."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@type_check_only
class _ArrowSchema(Protocol):
    """Anything that exports an Arrow schema."""

    def __arrow_c_schema__(self) -> object: ...

_Indices: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]] | Column
_Schema: TypeAlias = str | AbstractMapping[str, str] | _ArrowSchema
_Function: TypeAlias = Literal["sum", "mean", "median", "min", "max", "count", "n_unique", "first", "last", "var", "std"]
_Rows: TypeAlias = Predicate | Sequence[bool] | npt.NDArray[np.integer[Any] | np.bool_] | Column | _HasBuffer | _ArrowArray | _ArrowStream
_ArrowData: TypeAlias = Dataset | _ArrowStream | _ArrowArray
_ColumnData: TypeAlias = Iterable[Any] | _HasBuffer | _ArrowStream | _ArrowArray
_Table: TypeAlias = _ArrowData | AbstractMapping[str, _ColumnData] | Iterable[AbstractMapping[str, Any]]

def open(
    source: _Path | _HasBuffer | Sequence[_Path | _HasBuffer],
    *,
    validate: Literal["lazy", "full"] = "lazy",
    copy: bool = False,
    strict: bool = False,
    partial: bool = False,
    partitioning: _Schema | None = None,
) -> Dataset:
    """Open Arrow IPC data in place: metadata is read, no value is touched.

    The file must not be rewritten while it is open; one that only grows, or is replaced by a rename, is fine. If it is
    rewritten or truncated, calls raise :class:`FileChanged` as soon as they notice; arrays that others got in place
    are theirs to lose.

    Args:
        source: a path (also with ``~``, or ``file://``), a glob, a directory of ``*.arrow`` files or of partitions
            (``key=value``), any object with the buffer protocol (``bytes``,
            ``memoryview``, ``mmap.mmap``, :class:`Mapping`; used in place and kept), or a list of those, whose rows
            follow one another and whose schemas must agree.
        validate: when offsets, text and dictionary keys are checked: ``"lazy"`` when a column is first used as a
            whole, ``"full"`` now.
        copy: read everything into memory first; the only sound way if other processes may write the file.
        strict: raise :class:`CopyNeeded`, naming the buffer, where something cannot be had without a copy.
        partial: accept data that was cut off while being written, up to its last whole batch.
        partitioning: types of partition columns, as a dict by name or text such as ``"host: utf8, day: date32"``, where others
            than those that fit all values are wanted: ``int64``, ``date32``, else a dictionary of text.

    Raises:
        NotFound: there is no such file, or no file that matches.
        PermissionDenied: the file may not be read.
        InvalidData: the bytes are not Arrow IPC data; the message says what they look like instead.
        SchemaMismatch: several files have different schemas; the message names two and the first difference.
        Unsupported: legal Arrow that this version cannot read.
    """

def map(
    path: _Path,
    mode: Literal["r", "r+", "c"] = "r",
    dtype: npt.DTypeLike | None = None,
    offset: int = 0,
    length: int | None = None,
) -> Mapping:
    """Map a file into memory, of any size, without reading it.

    Args:
        path: a regular file.
        mode: ``"r"`` read-only; ``"r+"`` read and write, other processes that map the file see stores at once; ``"c"``
            copy-on-write, stores stay in this process and never reach the file.
        dtype: the elements' type, such as ``"float64"``: a boolean, integer or float of fixed width in little-endian
            order. Bytes (``uint8``) by default.
        offset: the first element's byte, aligned or not.
        length: the number of elements; all there are by default.

    Raises:
        NotFound, PermissionDenied: as for opening any file.
        InvalidArgument: a mode, type, offset or length that cannot be, or bytes that are no whole number of elements.
    """

def concat(datasets: Sequence[_ArrowData]) -> Dataset:
    """Concatenate the rows of all `datasets`, without copying.

    Raises:
        SchemaMismatch: names or types of columns differ; the message has the first difference.
        InvalidArgument: `datasets` is empty.
    """

def col(name: str) -> Expression:
    """The column called `name`, to ask for rows of any dataset by: ``ds.filter((aw.col("price") > 100) & aw.col("symbol").is_in(["A", "B"]))``."""

def from_arrow(data: _ArrowData) -> Dataset:
    """A dataset of the batches of any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, without copying.

    A stream is read to its end. Arrays that are not structs, such as a chunked array, a series or a single array,
    become a dataset with the one column ``values``. A ``Dataset`` of Hugging Face keeps its order, over its mapped
    files. The producer vouches for the values.

    Raises:
        InvalidArgument: the producer fails, its data was exported before, or whole rows are null.
    """

def write(
    data: _Table,
    target: _Path | IO[bytes] | Buffer,
    *,
    schema: _Schema | None = None,
    format: Literal["file", "stream"] | None = None,
    compression: Literal["lz4", "zstd"] | None = None,
    max_rows: int | None = None,
) -> None:
    """Write a table as an Arrow IPC file or stream.

    Args:
        data: a :class:`Dataset`, a data frame (of pandas: without its index), anything else that exports Arrow data,
            a dict of columns (lists, NumPy arrays, Arrow arrays, series; anything that can be iterated), rows as dicts,
            or a list or an iterator of any of these that export Arrow data, such as record batches, which are written as
            they come.
        target: a path, which is replaced in one step when all is written, a :class:`Buffer`, or any other object with
            ``write(bytes)``. A path that ends in ``.parquet`` becomes a Parquet file, by pyarrow.
        schema: the columns, found by name, and their types; by default those that `data` has. Nothing is lost on the way
            there, but for floats of less than 64 bits, which are rounded.
        format: ``"file"``, with a footer for random access, or ``"stream"``; by default a stream for a path that ends in
            ``.arrows``, and a file else.
        compression: the codec of the data; without one it can be opened in place.
        max_rows: the most rows of a record batch; larger ones are cut.

    Raises:
        InvalidArgument, TypeError: a value does not fit its column; the message names column and row.
        ColumnNotFound, SchemaMismatch: the schema lacks a column that `data` has, or the reverse.
        InvalidData: a value is damaged.
        IoError: of the operating system. What a file object raises is passed on as it is.
    """

def read_csv(
    source: _Path | IO[bytes] | IO[str],
    *,
    schema: _Schema | None = None,
    dictionary: str | Sequence[str] | None = None,
    delimiter: str = ",",
    quote: str | None = '"',
    header: bool = True,
    null_values: str | Sequence[str] | None = None,
    decimal: Literal[".", ","] = ".",
) -> Dataset:
    """Read CSV text, whose first line names the columns, into memory. It may be compressed with gzip or zstd.

    An unquoted empty field is null; a quoted one is an empty text, or null in columns of other types. Types that are
    not given are inferred from all values: decimal fractions become ``float64``, which keeps 15 to 17 digits; for
    money give ``schema="m: decimal(20, 2)"``. Dates are recognised as ``2000-01-31``, ``Jan 31 2000`` and ``31
    January 2000``, times as ``2000-01-31T12:00:00``. A file is parsed by several threads, and read twice if its
    types have to be inferred.

    Args:
        source: a path, or an object with ``read()``.
        schema: the columns to read, found by name, and their types; by default all, with inferred types.
        dictionary: the names of text columns to dictionary-encode, or the name of one.
        delimiter: the ASCII character between fields.
        quote: the ASCII character around fields that contain delimiters or line breaks; None for no quoting.
        header: whether the first line has the names. Otherwise columns are those of the schema in their order, or
            named ``column_1`` and so on.
        null_values: the text or texts of unquoted fields that mean null. By default ``NA``, ``N/A``, ``null`` and
            ``NULL``, in columns other than text.
        decimal: ``"."``, or ``","`` for numbers such as 1,5.

    Raises:
        InvalidData: a line has too few or too many fields, or a value is not of its type; the message says where.
    """

def read_json(
    source: _Path | IO[bytes] | IO[str], *, schema: _Schema | None = None, dictionary: str | Sequence[str] | None = None
) -> Dataset:
    """Read JSON, one object on each line or an array of objects, into memory. It may be compressed with gzip or zstd.

    Args:
        source: a path, or an object with ``read()``.
        schema: the columns to read and their types, as for :func:`writer`; by default all, with inferred types.
        dictionary: the names of text columns to dictionary-encode, or the name of one.

    Raises:
        InvalidData: a line is not an object, a value is not of its type, or no type holds all numbers of a column;
            the message says where.
    """

@final
class Mapping:
    """A file as typed memory. Slices and views share it; closing one closes all.

    It has the buffer protocol: ``np.asarray(mapping)`` copies nothing, and can be written to in the modes ``r+`` and
    ``c``. Any use after :meth:`close` raises :class:`Closed`.
    """

    @property
    def dtype(self) -> str:
        """The elements' type, as NumPy names it."""
    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements."""
    @property
    def path(self) -> str:
        """The path as it was given."""
    @property
    def mode(self) -> str:
        """``"r"``, ``"r+"`` or ``"c"``."""
    @property
    def resident(self) -> int:
        """Number of bytes of the whole file that are in physical memory, whichever process read them."""
    @property
    def closed(self) -> bool:
        """Whether the mapping was closed."""
    def __len__(self) -> int:
        """The number of elements."""
    @overload
    def __getitem__(self, key: slice, /) -> Mapping: ...
    @overload
    def __getitem__(self, key: int, /) -> bool | int | float: ...
    def __setitem__(self, key: int | slice, value: float | Sequence[float] | _HasBuffer, /) -> None:
        """Store an element, or as many as a slice has. Raises :class:`InvalidArgument` in mode ``r``."""
    def __eq__(self, _other: object, /) -> NoReturn: ...
    def __ne__(self, _other: object, /) -> NoReturn: ...
    def __hash__(self) -> int: ...
    def __iter__(self) -> Iterator[bool | int | float]: ...
    def view(self, dtype: npt.DTypeLike) -> Mapping:
        """The same bytes as elements of another type. They must be a whole number of those."""
    def tobytes(self) -> bytes:
        """A copy of the bytes."""
    def tolist(self) -> list[Any]:
        """The elements as a list."""
    def flush(self) -> None:
        """Write changed pages back to the file and wait for it. Other processes see stores without it."""
    def close(self) -> None:
        """Unmap the file now. Raises :class:`Busy`, a ``BufferError``, while a buffer of it is in use elsewhere."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class Schema:
    """Names, types and metadata of columns."""

    @property
    def names(self) -> list[str]:
        """The names, in order."""
    @property
    def metadata(self) -> dict[str, str]:
        """Key-value metadata."""
    def __len__(self) -> int:
        """The number of fields."""
    def __getitem__(self, key: int | str, /) -> Field:
        """A field by number or name. Raises :class:`ColumnNotFound` or :class:`RowOutOfRange`."""
    def __contains__(self, name: object, /) -> bool:
        """Whether a field is called so."""
    def __iter__(self) -> Iterator[Field]: ...
    def __eq__(self, other: object, /) -> bool:
        """Whether names, types and metadata are the same, of a schema of any Arrow library."""
    def __ne__(self, other: object, /) -> bool: ...
    def __arrow_c_schema__(self) -> object:
        """The schema for another Arrow library."""

@final
class Field:
    """Name, type and metadata of one column."""

    @property
    def name(self) -> str:
        """The name."""
    @property
    def type(self) -> str:
        """The type in words, such as ``"timestamp[ms, UTC]"`` or ``"dictionary<int8, utf8>"``."""
    @property
    def nullable(self) -> bool:
        """Whether there may be nulls."""
    @property
    def metadata(self) -> dict[str, str]:
        """Key-value metadata."""
    def __eq__(self, other: object, /) -> bool:
        """Whether name, type and metadata are the same, of a field of any Arrow library."""
    def __ne__(self, other: object, /) -> bool: ...
    def __arrow_c_schema__(self) -> object:
        """The field for another Arrow library."""

@final
class Dataset:
    """An immutable, zero-copy table of rows over one or many record batches.

    ``ds["price"]`` is a column, ``ds[7]`` a row as a dict, ``ds[10:20]`` a dataset of those rows. Iterating gives rows.

    Values are Python's own: a struct is a dict, a map a list of ``(key, value)``, a union the value it has, a calendar
    interval a :class:`MonthDayNano`. What Python's classes cannot hold becomes ``numpy.datetime64`` or
    ``numpy.timedelta64``: nanoseconds that are no whole microseconds, years outside of 1 to 9999, times outside of a
    day; an instant with a time zone is in UTC then.
    """

    @property
    def schema(self) -> Schema:
        """Names, types and metadata of the columns."""
    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
    @property
    def column_names(self) -> list[str]:
        """The columns' names, in order."""
    @property
    def columns(self) -> list[str]:
        """The columns' names, in order, as pandas and Polars call them."""
    @property
    def dtypes(self) -> list[str]:
        """The columns' types in words, in order."""
    @property
    def num_columns(self) -> int:
        """The number of columns."""
    @property
    def num_batches(self) -> int:
        """The number of record batches that have rows in the dataset."""
    @property
    def nbytes(self) -> int:
        """Bytes that the rows take in their buffers, dictionaries apart."""
    @property
    def left(self) -> list[str]:
        """What ``open(..., partial=True)`` left after the last whole batch, in words: one entry for each cut-off file."""
    @property
    def path(self) -> Path | None:
        """The absolute path of the file or table folder that the rows are from; ``None`` for rows in memory, and for rows of
        several files.
        """
    @property
    def first_row(self) -> int:
        """The number of the first row in its table: rows keep their numbers when earlier ones are dropped."""
    @property
    def positions(self) -> dict[str, int]:
        """Positions of the newest commit that the dataset has, by name: see :meth:`Writer.commit`. Empty if it is no table."""
    @property
    def sorted_by(self) -> str | None:
        """The name of the column that the table is sorted by, or ``None``, also where it accepts late rows."""
    @property
    def partitions(self) -> list[Partition]:
        """The partitions of a dataset opened from a directory of them, in order: its directory, its values as text by column, and
        its rows as a dataset. Empty for other datasets, and for parts of them.
        """
    def refresh(self) -> Self:
        """The dataset with the rows that were committed since: a newer one, or this one where there are none.

        Slices, and data that does not grow, stay as they are. Older datasets stay valid.
        """
    def between(self, low: Any, high: Any) -> Dataset:
        """The rows whose value in the column that the table is sorted by lies between `low` and `high`, both included.

        Found by binary search; in tables that accept late rows, by the column's index, and copied. Integers stand for times in the column's unit as well, and text such as ``"2026-01-31"`` for
        what it says. Of several tables, opened as one, the rows of each come one table after the other.

        Raises:
            InvalidArgument: the dataset is not of tables with ``sorted_by``, or a value is of another type.
        """
    @property
    def mapped(self) -> Footprint:
        """Where the bytes are: mapped, resident, copied. The system is asked about every page."""
    @property
    def messages(self) -> list[Message]:
        """The messages of the file or stream, in the order in which they stand there, as dicts that print as text.

        Raises:
            Unsupported: the data is in memory and has no messages.
        """
    def __len__(self) -> int:
        """The number of rows. A stream is walked for it, once."""
    def __contains__(self, name: str, /) -> bool:
        """Whether a column is called so, as in pandas and Polars."""
    def __eq__(self, other: object, /) -> NoReturn: ...
    def __ne__(self, other: object, /) -> NoReturn: ...
    def __hash__(self) -> int: ...
    @overload
    def __getitem__(self, key: str, /) -> Column: ...
    @overload
    def __getitem__(self, key: slice, /) -> Dataset: ...
    @overload
    def __getitem__(self, key: int, /) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: Sequence[int] | list[str] | _Rows, /) -> Dataset: ...
    def __getitems__(self, indices: _Indices) -> list[dict[str, Any]]:
        """The rows `indices` as dicts, as PyTorch's loaders fetch them."""
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickling carries paths, options, rows and columns, not the data; what is in memory travels as an Arrow stream."""
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def take(self, indices: _Indices) -> Dataset:
        """Gather the rows `indices`, in that order, as a copy; ``ds[[3, 1, -1]]`` is the same.

        Args:
            indices: a list, a NumPy array or a column of integers. Negative ones count from the end; rows may be
                repeated.

        Raises:
            RowOutOfRange: naming the first index out of range.
        """
    def filter(self, predicate: Predicate) -> Dataset:
        """Return the rows for which `predicate` is true, in their order, as a copy; ``ds[ds["price"] > 100]`` is the
        same.

        In a table sorted by a column, only the rows between the predicate's bounds are read.

        Raises:
            ColumnNotFound: there is no such column.
            InvalidArgument: a column can't be compared with a value of that type, or the predicate was made from a
                column of other rows.
            Unsupported: values of the column's type can't be compared.
            TypeError: it is not a predicate; a mask goes into brackets: ``ds[mask]``.
        """
    def sample(self, n: int, seed: int | None = None) -> Dataset:
        """Return `n` distinct rows, chosen with equal probability, in the order in which they were drawn.

        The same `seed` gives the same sample on every machine; without a seed, each sample is different.

        Raises:
            InvalidArgument: there are fewer than `n` rows.
        """
    def shuffle(self, seed: int | None = None) -> Dataset:
        """Return all rows in random order, as a view. Single rows are read in place; for columns that are used, the
        rows are gathered in batches of 65,536, and for a slice, ``ds.shuffle(3)[:256]``, only those of the slice.

        The same `seed` gives the same order on every machine; without a seed, each order is different.
        """
    def loader(
        self,
        batch_size: int,
        *,
        seed: int | None = None,
        block: int | None = None,
        start: int = 0,
        drop_last: bool = False,
        columns: Sequence[str] | None = None,
        device: Any = None,
        rank: int = 0,
        world: int = 1,
    ) -> Loader:
        """Batches of `batch_size` rows for training, each a dict of NumPy arrays by column: numbers ``(n,)``, lists of one
        length ``(n, length)``, tensors ``(n, *shape)``, in memory that can be written to. Lists of several lengths are
        arrays of arrays, text is an array of objects.

        Only the rows of a batch are read when it is asked for, and no order is stored: 10 rows or 10 billion make no
        difference. A table's loader has the rows of the dataset, not those that are committed later.

        Args:
            batch_size: rows of a batch; the last one may have fewer.
            seed: shuffles all rows, in another order each epoch; the same on every machine. None: rows as they stand.
            block: shuffles blocks of so many rows, and mixes the rows of 16 of them at a time. Faster for a file that does
                not fit into memory, if rows beside each other are not alike.
            start: the number of the batch to begin with, in the first epoch.
            drop_last: leave out a last batch with fewer rows, and batches that not every rank has one of.
            columns: the columns to read; None reads all.
            device: None gives NumPy arrays. ``"torch"`` gives tensors of PyTorch, ``"cuda"`` and so on tensors there.
            rank: number of this process among `world`: it gets batches ``rank``, ``rank + world``, and so on, of those that one
                process alone would get.
            world: how many processes share the rows.

        Raises:
            ColumnNotFound: there is no such column.
            InvalidArgument: an argument is out of its range, or PyTorch knows no such device.
            ImportError: a device is given, and PyTorch is not installed.
        """
    def train_test_split(self, test_size: float | int | None = None, seed: int | None = None) -> tuple[Dataset, Dataset]:
        """Two datasets of the rows, chosen at random: one to train on, and one to test with. Both are views: nothing is copied.

        Args:
            test_size: the part of the rows to test with, such as ``0.1``, or how many they are; a quarter, if it is left out.
            seed: one seed gives one choice, on every machine; without one it is another each time.

        Raises:
            InvalidArgument: `test_size` is out of its range.
        """
    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Rows `start` to `stop` as dicts, one after the other. The first ones of a stream come without walking it.

        Raises:
            InvalidArgument: several columns have one name, which a dict cannot hold; see :meth:`row`.
        """
    def sort(self, *by: str | Sequence[str], descending: bool | Sequence[bool] | None = None) -> Dataset:
        """Sort all rows by one column or several: ``ds.sort("price")``, ``ds.sort("symbol", "price")``. Returns a view
        of row numbers: single rows are read in place; for columns that are used, the rows are gathered in batches of
        65,536.

        Equal rows keep their order. Nulls come last, after NaN, in either direction. Text is ordered by its bytes.

        Args:
            by: names of columns.
            descending: from the largest to the smallest; a list has one boolean for each column.

        Raises:
            ColumnNotFound: there is no such column.
            Unsupported: the type of a column has no order.
        """
    def unique(self, *names: str | Sequence[str]) -> Dataset:
        """Return the first row of each group of rows with equal values in the columns `names`, or in all; in their
        order, copied.

        Raises:
            ColumnNotFound: there is no such column.
            Unsupported: a column is nested.
        """
    def drop_nulls(self, *names: str | Sequence[str]) -> Dataset:
        """Return the rows without a null in the columns `names`, or in all; copied, or the dataset's own rows if there
        is no null. NaN is not null.

        Raises:
            ColumnNotFound: there is no such column.
        """
    def rename(self, names: AbstractMapping[str, str]) -> Dataset:
        """Rename columns: ``ds.rename({"price": "close"})``. Nothing is copied.

        Raises:
            ColumnNotFound: there is no such column.
            InvalidArgument: two columns would have the same name.
        """
    def aggregate(
        self,
        by: str | Sequence[str] | None = None,
        *,
        where: Predicate | None = None,
        **columns: str | Expression | tuple[str | Expression, _Function],
    ) -> Dataset:
        """Aggregate groups of rows, in one pass: ``ds.aggregate(by="symbol", price="mean", n="count")``.

        Groups come in order of first appearance. Nulls are skipped, and ``"min"`` and ``"max"`` skip NaN unless all
        values are NaN. Integers and decimals are summed exactly; the variance is that of a sample (divided by n −
        1). The result is the same for any number of threads and any division into batches.

        Args:
            by: the columns whose values make a group: numbers, text, times, booleans or dictionary-encoded. One
                name, or several; without any, all rows are one group.
            where: use only the rows for which this is true.
            columns: a function for the column of that name, or ``name=(column, function)``, as in ``total=("price",
                "sum")``. Functions are ``"sum"``, ``"mean"``, ``"min"``, ``"max"``, ``"count"`` (of non-null
                values), ``"n_unique"`` (null counts as one value), ``"median"`` (uses 8 bytes per row), ``"var"``,
                ``"std"``, ``"first"`` and ``"last"`` (the value of that row, null or not). ``n="count"`` is the
                number of rows if no column is named ``n``. A function's name as keyword aggregates the given column:
                ``mean="price"`` is ``mean=("price", "mean")``. An :class:`Expression` can replace a column:
                ``sum=aw.col("price") * aw.col("qty")``, ``total=(aw.col("price") * 2, "sum")``.

        Raises:
            ColumnNotFound: there is no such column.
            Unsupported: a type can't be grouped, or lacks the function.
            InvalidArgument: there is no such function, a sum does not fit its type, or two columns would have the
                same name.
        """
    def describe(self) -> Dataset:
        """Summarize each column: a row for each of ``count``, ``null_count``, ``mean``, ``std``, ``min``, ``25%``,
        ``50%``, ``75%`` and ``max``, named in the first column, ``statistic``.

        Numbers and booleans are described by floats, other types by text.
        """
    def row(self, index: int) -> tuple[Any, ...]:
        """A row as a tuple, in the order of the columns. Raises :class:`RowOutOfRange`."""
    def column(self, column: int | str) -> Column:
        """A column by number or name. Raises :class:`ColumnNotFound`."""
    def select(self, *names: str | Sequence[str]) -> Dataset:
        """The columns called `names`, in that order: ``ds.select("a", "b")``, ``ds.select(["a", "b"])`` and ``ds[["a", "b"]]`` say
        the same. Raises :class:`ColumnNotFound`.
        """
    def head(self, n: int = 5) -> Dataset:
        """The first `n` rows."""
    def tail(self, n: int = 5) -> Dataset:
        """The last `n` rows."""
    def batches(self) -> list[Dataset]:
        """The record batches, each as a dataset."""
    def validate(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Check all values now.

        Args:
            progress: called with the numbers of rows done and of all rows after each batch; None draws a bar where
                standard error is a terminal and it takes more than a second.

        Raises:
            InvalidData: naming path, batch, column and row, and what was expected.
        """
    def sql(self, query: str, /, **tables: _Path | _ArrowData) -> Dataset:
        """Ask the dataset, called ``self``, and others in SQL, by DuckDB: ``ds.sql("select max(price) from self")``.

        DuckDB reads the columns in place, only those that it needs. :func:`sql` says what else a query may name.

        Args:
            query: one statement or several; the rows of the last one are the result.
            tables: datasets, paths, or anything that exports Arrow data, by the names that the query has for them.

        Raises:
            ImportError: DuckDB is not installed: ``pip install 'arrowwood[sql]'``.
            duckdb.Error: something is wrong with the query, in DuckDB's words; or values are damaged, in ours.
            NotFound, PermissionDenied, InvalidData: a table cannot be opened.
        """
    def splits(self, n: int) -> list[Split]:
        """The rows as about `n` ranges of equal size, each a :class:`Split`, for other processes to open: only paths and numbers
        travel. Nothing is read for it.

        There are more where rows lie in several files, as no split goes over the end of one, and fewer where there are
        fewer rows. Splits are of all columns. Of a table that grows, or is compacted, they stay the same rows.

        Raises:
            InvalidArgument: `n` is less than one, or rows are in memory and in no file.
        """
    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
    def to_arrow(self) -> pa.Table:
        """The dataset as a pyarrow table, without copying."""
    def collect(self) -> Dataset:
        """All rows as one record batch in memory, gathered by several threads; itself where it is one batch already.

        Text of more than 2 GiB in one column takes several batches, unless its offsets have 64 bits.

        Raises:
            InvalidData: a value is damaged.
            Unsupported: the dictionaries of several batches cannot be made one.
        """
    def to_pandas(self, arrow: bool = False) -> pd.DataFrame:
        """The dataset as a pandas data frame: what pyarrow makes of it, faster where there are numbers.

        Its memory is its own, and can be written to. An index that pandas has noted in the schema comes back.

        Args:
            arrow: make columns of pandas' ``ArrowDtype``, without copying.
        """
    def to_numpy(self) -> npt.NDArray[Any]:
        """The dataset as an array of shape ``(len(ds), ds.num_columns)``, in memory of its own.

        Columns of one type without nulls are stored one after the other (Fortran order). Others get the type that holds
        them all, as :meth:`Column.to_numpy` gives each: integers with nulls are floats. Numbers beside anything else
        become Python objects.
        """
    def to_polars(self) -> pl.DataFrame:
        """The dataset as a Polars data frame; columns of numbers are not copied, text is. Many small batches are gathered
        first, as Polars takes its time for each.

        Decimals of 32 and 64 bits become those of 128, as Polars has no others.

        Raises:
            Unsupported: Polars has no such columns: intervals, unions, decimals of 256 bits or with a negative scale.
        """
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The batches for another Arrow library, values checked, nothing copied. The request is not followed."""
    def __arrow_c_schema__(self) -> object:
        """The schema for another Arrow library."""
    def _repr_html_(self) -> str: ...
    def _ipython_key_completions_(self) -> list[str]: ...
    def _widened(self) -> Dataset: ...
    def _view_of(self, rows: bytes) -> Dataset: ...
    def _with_names(self, names: Sequence[str]) -> Dataset: ...
    def _in_partition(self, partition: list[tuple[str, str, str | None]]) -> Dataset: ...
    def _places(self) -> list[tuple[Path, int, int, list[int], list[tuple[str, str, str | None]]]] | None: ...
    def _dtypes(self) -> list[str | None]: ...
    def _gathered(self, small: int) -> Dataset: ...
    def _narrowed(self, predicate: Predicate) -> Dataset: ...
    def _pick(self, columns: Sequence[int]) -> Dataset: ...
    def _block(self) -> _Block | None: ...

@final
class Column:
    """One column of a dataset, over one or many batches. Iterating gives values."""

    @property
    def name(self) -> str:
        """The name."""
    @property
    def dtype(self) -> str:
        """The name of the type, such as ``"timestamp[ms, UTC]"``, or ``"fixed_shape_tensor<uint8>[32, 32, 3]"``."""
    @property
    def field(self) -> Field:
        """Name, type and metadata."""
    @property
    def null_count(self) -> int:
        """The number of values that are ``None``, including nulls in dictionaries, runs and unions."""
    def __len__(self) -> int:
        """The number of rows."""
    def __bool__(self) -> NoReturn:
        """Neither whether there are rows, nor whether all are true: libraries don't agree about it."""
    @overload
    def __getitem__(self, key: slice | Sequence[int] | _Rows, /) -> Column: ...
    @overload
    def __getitem__(self, key: int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __eq__(self, value: object, /) -> Predicate: ...  # type: ignore[override]
    def __ne__(self, value: object, /) -> Predicate: ...  # type: ignore[override]
    def __lt__(self, value: Any, /) -> Predicate: ...
    def __le__(self, value: Any, /) -> Predicate: ...
    def __gt__(self, value: Any, /) -> Predicate: ...
    def __ge__(self, value: Any, /) -> Predicate: ...
    def is_in(self, values: Iterable[Any]) -> Predicate:
        """A predicate: whether the value is one of `values`: ``ds[ds["symbol"].is_in(["A", "B"])]``."""
    def is_between(self, low: Any, high: Any) -> Predicate:
        """A predicate: whether the value lies between `low` and `high`, both included."""
    def is_null(self) -> Predicate:
        """A predicate: whether the value is null: ``ds[ds["price"].is_null()]``."""
    def is_not_null(self) -> Predicate:
        """A predicate: whether the value is not null: ``ds[ds["price"].is_not_null()]``."""
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        """NumPy's functions take the values as :meth:`to_numpy` gives them; a comparison with a scalar of NumPy's is a
        :class:`Predicate`, on either side.
        """
    def __array_function__(
        self, function: Callable[..., Any], types: Iterable[type], inputs: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        """NumPy's other functions, such as ``np.mean(column, axis=0)``, take the values as :meth:`to_numpy` gives them."""
    def sum(self) -> Any:
        """The sum of all non-null values, 0 if there are none; exact for integers and decimals.

        Floats are added pairwise, so that the result is the same for any number of threads and its error small.

        Raises:
            Unsupported: the type has no sum.
        """
    def mean(self) -> float | None:
        """The mean, ``None`` if there are no values. Raises :class:`Unsupported` for types other than numbers."""
    def min(self) -> Any:
        """The smallest value, ``None`` if there are no values; skips NaN unless all values are NaN."""
    def max(self) -> Any:
        """The largest value, ``None`` if there are no values; skips NaN unless all values are NaN."""
    def count(self) -> int:
        """The number of non-null values."""
    def any(self) -> bool:
        """Whether any value is true; false if there are none. Raises :class:`Unsupported` for types other than
        booleans.
        """
    def all(self) -> bool:
        """Whether no value is false; true if there are none. Raises :class:`Unsupported` for types other than booleans.
        """
    def var(self) -> float | None:
        """The sample variance (divided by n − 1), ``None`` for fewer than two values; NaN if any value is NaN.

        Raises:
            Unsupported: the type is not a number.
        """
    def std(self) -> float | None:
        """The square root of the variance."""
    def quantile(self, q: float) -> float | None:
        """The exact `q` quantile: the value below which a share `q` of the values lies, with linear interpolation.

        Numbers are converted to 64-bit floats: integers beyond 2⁵³ and decimals are rounded first. Nulls and NaN are
        skipped; ``None`` if there is nothing else. Takes two passes over the column, rarely more, and no copy.

        Raises:
            InvalidArgument: `q` is not between 0 and 1.
            Unsupported: the type is not a number.
        """
    def approx_quantile(self, q: float) -> float | None:
        """The quantile of a sample of 1,048,576 rows, the same sample each time; the exact quantile if the column has
        no more rows, or if more than half of the sample is null or NaN.

        The cost does not depend on the column's size. The share of values below the result differs from `q` by more
        than 0.005 less than once in a hundred million columns.

        Raises:
            InvalidArgument: `q` is not between 0 and 1.
            Unsupported: the type is not a number.
        """
    def median(self) -> float | None:
        """The median: ``quantile(0.5)``."""
    def unique(self) -> Column:
        """The distinct values, in order of first appearance; ``None`` is one, and all NaN are one."""
    def sort(self, *, descending: bool = False) -> Column:
        """The values in sorted order, as in :meth:`Dataset.sort`."""
    def drop_nulls(self) -> Column:
        """The non-null values."""
    def n_unique(self) -> int:
        """The number of distinct values; ``None`` is one, and all NaN are one."""
    def value_counts(self) -> Dataset:
        """Each distinct value and its number of occurrences, in the columns of this name and ``count``, the most
        frequent first.
        """
    def map_reduce(self, function: Callable[[npt.NDArray[Any]], _T], combine: Callable[[_T, _T], _T]) -> _T | None:
        """Apply `function` to each chunk of at most 65,536 rows, then `combine` to the results, from first to last.

        Chunks are read-only NumPy arrays in place. `function` runs in several threads at once, so it gains if NumPy
        releases the interpreter's lock. Returns ``None`` if there are no rows.

        Raises:
            InvalidArgument: the column has nulls.
            Unsupported: its type is not a fixed-width type of NumPy.
        """
    def to_numpy(self, copy: bool | None = None) -> npt.NDArray[Any]:
        """The values as an array of shape ``(len(column),)``; for fixed-size lists ``(len(column), length)``, for
        fixed-size lists of lists ``(len(column), outer, inner)``.

        Numbers keep their type; integers with nulls become float64 with NaN. Timestamps become ``datetime64`` of
        their unit, in UTC, dates ``datetime64[D]``, durations ``timedelta64``, all with NaT for null. Booleans
        become ``bool``. Lists of numbers with one length become rows, lists of such lists planes, and so on. Other
        types, and booleans and lists with nulls, become Python objects.

        Args:
            copy: ``None``: no copy if one chunk contains numbers, timestamps or durations without nulls; such an
                array is read-only. ``True``: always a copy. ``False``: never.

        Raises:
            CopyNeeded: `copy` is ``False`` and a copy is necessary; the message says why.
        """
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def to_pylist(self) -> list[Any]:
        """All values as a list."""
    def chunks(self) -> list[Column]:
        """The column batch by batch."""
    def to_arrow(self) -> pa.ChunkedArray[Any]:
        """The column as a pyarrow chunked array, without copying."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The chunks for another Arrow library, values checked, nothing copied. The request is not followed."""
    def __arrow_c_schema__(self) -> object:
        """The field for another Arrow library."""
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """The values for another library, such as PyTorch, by the DLPack protocol, as in :meth:`to_numpy`.

        In place, they are read-only, which only consumers that ask for version 1.0 or later can see; others are
        refused.

        Raises:
            BufferError: the values are not numbers, the consumer can't be told that they are read-only, or `copy` is
                ``False`` and a copy is necessary.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """The device of the values as DLPack numbers it: the processor's memory."""
    def _parts(self) -> tuple[str | None, list[tuple[_Values, bytes | None]], list[int] | None, list[int] | None]: ...
    def _lists(self) -> tuple[str, _Values, list[int], list[int] | None] | None: ...

@final
class Expression:
    """A column by its name (:func:`col`), or what is computed of columns for each row: ``aw.col("price") * aw.col("qty")``.

    Compared with a value or with another it is a :class:`Predicate`; :meth:`Dataset.aggregate` takes it where it takes a column.
    It is computed block by block, and stored nowhere.

    ``+``, ``-``, ``*``, ``/`` and ``%`` are those of Polars: a result is null where a part of it is, ``/`` is that of floats,
    ``%`` has the sign of its divisor and is null for an integer by 0; floats of 32 bits stay so with each other, with values and
    with integers of 8 or 16 bits. But integers of any width are computed in 64 bits, and a result that does not fit is
    :class:`InvalidArgument`.
    """

    def __eq__(self, value: object, /) -> Predicate: ...  # type: ignore[override]
    def __ne__(self, value: object, /) -> Predicate: ...  # type: ignore[override]
    def __lt__(self, value: Any, /) -> Predicate: ...
    def __le__(self, value: Any, /) -> Predicate: ...
    def __gt__(self, value: Any, /) -> Predicate: ...
    def __ge__(self, value: Any, /) -> Predicate: ...
    def __add__(self, other: Any, /) -> Expression: ...
    def __radd__(self, other: Any, /) -> Expression: ...
    def __sub__(self, other: Any, /) -> Expression: ...
    def __rsub__(self, other: Any, /) -> Expression: ...
    def __mul__(self, other: Any, /) -> Expression: ...
    def __rmul__(self, other: Any, /) -> Expression: ...
    def __truediv__(self, other: Any, /) -> Expression: ...
    def __rtruediv__(self, other: Any, /) -> Expression: ...
    def __mod__(self, other: Any, /) -> Expression: ...
    def __rmod__(self, other: Any, /) -> Expression: ...
    def __neg__(self) -> Expression: ...
    def __bool__(self) -> NoReturn: ...
    def __invert__(self) -> NoReturn: ...
    def __and__(self, _other: Any, /) -> NoReturn: ...
    def __rand__(self, _other: Any, /) -> NoReturn: ...
    def __or__(self, _other: Any, /) -> NoReturn: ...
    def __ror__(self, _other: Any, /) -> NoReturn: ...
    def cast(self, type: Literal["int64", "float32", "float64"]) -> Expression:
        """As ``"int64"``, ``"float32"`` or ``"float64"``: numbers, booleans (0 and 1), decimals, and dates and times as the
        numbers that they are stored as. Fractions are cut off; what does not fit is :class:`InvalidArgument` where rows are
        looked at.
        """
    @property
    def dt(self) -> TimeParts:
        """Parts of dates and times: ``aw.col("ts").dt.hour()``."""
    @property
    def str(self) -> TextConditions:
        """Conditions on text: ``aw.col("symbol").str.starts_with("A")``."""
    def is_in(self, values: Iterable[Any]) -> Predicate:
        """Equal to one of `values`. For nulls there is :meth:`is_null`."""
    def is_between(self, low: Any, high: Any) -> Predicate:
        """Between `low` and `high`, both included."""
    def is_null(self) -> Predicate:
        """Null."""
    def is_not_null(self) -> Predicate:
        """Not null."""
    def __array_ufunc__(self, ufunc: np.ufunc, method: builtins.str, *inputs: Any, **keywords: Any) -> Any:
        """A scalar of NumPy's on either side is a value as any other."""

@final
class TimeParts:
    """Parts of dates and times as integers, made by :attr:`Expression.dt`. Times in UTC, with an offset, or without a zone have
    hours; those in zones such as ``Europe/Paris`` are :class:`Unsupported`.
    """

    def year(self) -> Expression:
        """The year."""
    def month(self) -> Expression:
        """The month, from 1 to 12."""
    def day(self) -> Expression:
        """The day of the month, from 1."""
    def weekday(self) -> Expression:
        """The day of the week: Monday is 1, Sunday 7."""
    def hour(self) -> Expression:
        """The hour, from 0 to 23."""
    def minute(self) -> Expression:
        """The minute, from 0 to 59."""
    def second(self) -> Expression:
        """The second, from 0 to 59, without its fraction."""

@final
class TextConditions:
    """Conditions on text, made by :attr:`Expression.str`. The text to find stands for itself: it is no pattern."""

    def contains(self, text: str) -> Predicate:
        """`text` stands anywhere in it."""
    def starts_with(self, text: str) -> Predicate:
        """It starts with `text`."""
    def ends_with(self, text: str) -> Predicate:
        """It ends with `text`."""

@final
class Predicate:
    """Which rows are asked for: comparisons of columns (``ds["price"] > 100``) or of columns by their names (:func:`col`), put
    together by ``&``, ``|`` and ``~``. What is right of ``&`` or ``|`` is computed only of rows about which the left has not decided.

    A comparison with a null is neither true nor false, and so is its negation: such a row is not found. NaN is not equal
    to anything, and neither less nor greater. Numbers are compared by their values, and nothing is rounded for it: 2.5 with
    integers, times with times of another unit. No float of 32 bits equals 0.1; ``numpy.float32(0.1)`` is one. A float with
    a fraction stands for the decimal that it prints as where it is compared with decimals. Integers stand for times in the
    column's unit as well.

    A time needs a time zone where the column has one, and must not have one where it has none; NumPy's times are in UTC
    where the column is.
    """

    def __and__(self, other: Predicate, /) -> Predicate: ...
    def __rand__(self, other: Predicate, /) -> Predicate: ...
    def __or__(self, other: Predicate, /) -> Predicate: ...
    def __ror__(self, other: Predicate, /) -> Predicate: ...
    def __invert__(self) -> Predicate: ...
    def __bool__(self) -> bool: ...

@final
class _Values:
    """Fixed-width values of one chunk, for NumPy to look at in place."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class _Batches:
    """Columns that are copied as they lie, with how NumPy sees their items, and the others."""

    def __new__(cls, dataset: Dataset) -> Self: ...
    def describe(self) -> list[tuple[str, list[int], list[int] | None] | None]:
        """What arrays the columns become; `None` for those that are no numbers in place."""
    def rows_id(self) -> int:
        """A number that other rows hardly ever have: of their numbers in the data, as far as they are in files or a view, and of
        the values of some of them. Where the files are does not matter.
        """
    def read(self, seed: int | None, epoch: int, block: int | None, start: int, stop: int) -> list[_Block | Column]:
        """The columns' parts of the rows at places `start .. stop` of an epoch: memory, or a column where that is not enough.

        Args:
            seed: None leaves the rows in order.
            block: rows of the blocks to shuffle; None shuffles all rows.
        """

@final
class _Block:
    """Columns of one type, one after the other, in memory of their own, which NumPy may write to."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

def _local_path(text: _Path) -> Path:
    """The local path that a text names."""

def _open_places(
    places: list[tuple[_Path, int, int, list[int]]], how: tuple[Literal["lazy", "full"], bool, bool, bool]
) -> Dataset:
    """The rows that a recipe names."""

def _visible(text: str) -> str:
    """`text` with escapes for what commands a terminal, turns text round or can't be seen."""

def _run_cli(arguments: list[str]) -> int:
    """Run the command line; the exit code."""

@final
class Writer:
    """The single writer of a growing table, made by :func:`writer`.

    Rows are appended, and seen by others when they are committed: all of them or none. Used with ``with``, it commits
    at the end, and rolls back when there was an exception.
    """

    def append(self, data: Any) -> None:
        """Append rows: Arrow data, a dict of columns, row dicts, or a data frame, matched by the names of the columns.

        Raises:
            SchemaMismatch: a column is missing or of another type.
            ColumnNotFound: the table has no column of that name.
            InvalidArgument: a null where there are none, a value out of range, or a row out of order; the message names
                column and row. In all these cases nothing was appended.
        """
    def append_row(self, **values: Any) -> None:
        """Append one row; a column that is not named is null.

        Raises:
            InvalidArgument: a value is not of its column's type, or null where there are none; nothing was appended.
            ColumnNotFound: the table has no column of that name.
        """
    def commit(self, *, durable: bool = False, positions: dict[str, int] | None = None) -> None:
        """Make all appended rows visible to others, in one step; with `durable`, return when they would survive a power cut.

        `positions` are named 64-bit numbers that are part of the commit: seen with its rows, durable with them, and there again
        after any crash as :attr:`positions`. Those that are not named keep their values, and there may be no new rows. So a
        producer that notes how far it has read, and goes on from there, neither misses nor repeats anything.

        Of many threads that commit durably at the same time, one syncs for all of them.

        Raises:
            IoError: none of them is visible, or they could not be brought to the disk.
            ValueError: a name is empty, longer than 255 bytes or has control characters, or there are more than 256.
        """
    def sync(self) -> None:
        """Bring all committed rows to the disk: they survive a power cut when this returns.

        Raises:
            IoError: after that nothing more can be written; open the table anew.
        """
    def wait_durable(self, row: int | None = None) -> None:
        """Wait until all rows before number ``row``, or all that are committed, would survive a power cut.

        Of many threads that wait at the same time, one syncs for all of them.

        Raises:
            InvalidArgument: rows before number `row` are not committed.
            IoError: after that nothing more can be written; open the table anew.
        """
    @property
    def positions(self) -> dict[str, int]:
        """Positions of the newest commit, by name: how far producers have read. See :meth:`commit`."""
    def rollback(self) -> None:
        """Forget what was appended since the last commit."""
    def close(self) -> None:
        """Commit, sync, and let others write; does nothing when it was closed before."""
    def compact(self, *, rewrite: bool = False, sort: bool = False) -> int:
        """Rewrite all sealed segments as dense Arrow files, while readers go on; how many were rewritten.

        Small segments are merged, `rewrite` gives all the table's schema, and `sort` puts their rows in order, as by
        :func:`compact`.
        """
    def drop_before(self, row: int | str | date | datetime | np.datetime64) -> int:
        """Remove the segments that hold no row from number `row` on; how many rows were removed.

        Whole segments are removed, so up to :func:`writer`'s `segment_rows` rows more may stay. Readers that have looked at
        one of their rows keep them. Rows keep their numbers: see :attr:`Dataset.first_row`.

        Args:
            row: a row's number, or a time, a date or a text that stands for one: then the first committed row that is not
                before it, in the column that the table is sorted by.

        Raises:
            InvalidArgument: the table is sorted by no column of such values.
        """
    @property
    def schema(self) -> Schema:
        """Names and types of the columns."""
    @property
    def path(self) -> Path:
        """The table's folder."""
    @property
    def is_closed(self) -> bool:
        """Whether the writer was closed."""
    @property
    def rows(self) -> int:
        """The number of the row after the last one appended."""
    @property
    def committed_rows(self) -> int:
        """The number of the row after the last one that others can see."""
    @property
    def durable_rows(self) -> int:
        """The number of the row after the last one that would survive a power cut."""
    @property
    def dropped_rows(self) -> int:
        """How many rows, committed but never synced, a crash of the machine has cost before this writer was opened."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

@final
class Builder:
    """Collects rows in memory, which :meth:`finish` returns as a dataset of one batch, without copying.

    Columns have the types of tables. Memory grows in place: appended rows are never moved.

    Args:
        schema: names and types of the columns, anything with ``__arrow_c_schema__``.

    Raises:
        Unsupported: a column's type cannot grow; the message names the column.
    """

    def __new__(cls, schema: _Schema) -> Self: ...
    def append(self, data: Any) -> None:
        """Append rows: any data accepted by :meth:`Writer.append`.

        Raises:
            SchemaMismatch: a column is missing or of another type.
            ColumnNotFound: the builder has no column of that name.
            InvalidArgument: a null in a non-nullable column, or a value out of range; the message names column and
                row. In all these cases nothing was appended.
        """
    def append_row(self, **values: Any) -> None:
        """Append one row; columns not given are null.

        Raises:
            InvalidArgument: a value is not of its column's type, or null in a non-nullable column; nothing was
                appended.
            ColumnNotFound: the builder has no column of that name.
        """
    def finish(self) -> Dataset:
        """Return the rows as a dataset, in place. This closes the builder."""
    @property
    def schema(self) -> Schema:
        """Names and types of the columns."""
    def __len__(self) -> int:
        """The number of rows."""

@final
class Buffer:
    """Memory that grows at its end without being moved, and can be opened in place.

    It has ``write(bytes)``, so Arrow data can be written to it, and the read-only buffer protocol: a ``memoryview``
    of it, or a dataset opened from it by :func:`open`, covers the bytes present at that time, and does not change
    when more are written.
    """

    def __new__(cls) -> Self: ...
    def write(self, data: _HasBuffer) -> int:
        """Append the bytes of any object with the buffer protocol; return their number.

        Raises:
            Busy: the memory would have to move, which it cannot while a view of it is in use.
            FileChanged: the bytes are those of a mapped file that was truncated; nothing was appended.
        """
    def flush(self) -> None:
        """Does nothing: written bytes are visible at once."""
    def truncate(self, length: int = 0) -> None:
        """Discard all bytes from `length` on; the memory is kept for reuse.

        Raises:
            Busy: a view of the buffer is in use.
            InvalidArgument: there are fewer bytes.
        """
    def clear(self) -> None:
        """Discard all bytes, as ``truncate(0)``."""
    def __len__(self) -> int:
        """The number of bytes."""
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class Follow:
    """New rows of a table or of several, dataset after dataset, made by :func:`follow`.

    It can be used with ``with``, which closes it, and with ``async for``, which waits in a thread of its own. Rows that have
    come when a task is cancelled are there for the next one.
    """

    def __iter__(self) -> Self: ...
    def __next__(self) -> Dataset: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Coroutine[Any, Any, Dataset]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...
    def close(self) -> None:
        """End the iteration, also one that waits in another thread or task, and let go of files and threads; does nothing when it
        was closed before. Datasets that were handed out stay as they are.
        """
    @property
    def next_row(self) -> int | dict[str, int]:
        """The number of the row after the last that was handed out; of a partitioned table a dict of those by directory.

        Raises:
            InvalidArgument: several tables are followed; see :attr:`next_rows`.
        """
    @property
    def next_rows(self) -> list[int | dict[str, int]]:
        """The same for each table, to go on with later: ``follow(tables, start=next_rows)``."""
    @property
    def lag(self) -> int:
        """How many rows are committed and not handed out yet, of all tables. Raises :class:`Closed` after :meth:`close`."""
    @property
    def _is_closed(self) -> bool: ...
    def _wait(self, seconds: float) -> None: ...
    def _take(self) -> Dataset | None: ...

@final
class Aggregation:
    """Aggregates of groups of a growing table, made by :func:`aggregation`."""

    def refresh(self) -> Dataset:
        """Return the current groups and their aggregates: the result of :meth:`Dataset.aggregate`, bit for bit.

        After the first call only new rows are read, and those of the last block if it was not full: some 8,000, or
        260,000 if there are thousands of groups. All rows are read again if rows were dropped or sorted, or the
        schema has changed; for partitions, and for several tables, at each change. Floats may differ in their last
        bits if `where` uses an indexed column, or if there are thousands of groups.

        Raises:
            FileChanged: the table was replaced by another one, or unread rows were sorted; make the aggregation
                again.
            NotFound: the table was removed.
            ColumnNotFound: a column was removed.
            InvalidArgument: a sum does not fit its type.
        """
    @property
    def dataset(self) -> Dataset:
        """The number of rows included in the last result; before the first, those in the table at the beginning."""
    @property
    def rows_read(self) -> int:
        """The number of rows read for the last result."""

@overload
def writer(
    path: _Path,
    schema: _Schema | None = None,
    *,
    sync: Literal["never", "commit"] | float | None = None,
    segment_rows: int | None = None,
    dictionary: Sequence[str] | None = None,
    sorted_by: str | None = None,
    late: Literal["refuse", "accept"] | None = None,
    index: Sequence[str] | None = None,
    wait: float | None = None,
    keep: str | timedelta | None = None,
    force: bool = False,
    partition: dict[str, str | int | bool | date | None] | None = None,
    partition_by: None = None,
) -> Writer:
    """Open a growing table for writing, or make one.

    Args:
        path: the table's folder.
        schema: names and types of the columns: text such as ``"ts: timestamp[us] not null, price: float64"``, a dict of such
            types by name, or anything with ``__arrow_c_schema__``; needed where there is no table yet. Where there is one, it
            may have more columns that may be null, wider numbers, and nulls where there were none: then the table has them
            from now on, as by :func:`alter`. Text keeps the type that it has in the table.
        sync: when commits are brought to the disk: ``"never"`` but when asked, with every ``"commit"``, or every so many
            seconds.
        segment_rows: the most rows of a segment; 4,194,304 by default, or what the table was made with.
        dictionary: names of text columns to store as ``dictionary<int32, utf8>``.
        sorted_by: a column whose values never decrease, which :meth:`Dataset.between` can search.
        index: names of columns by whose values rows are found: conditions on them, as of :meth:`Dataset.filter`, read only blocks
            of 65,536 rows that may have some. What the table has by default; another choice holds from the next segment on.
        late: what becomes of rows that are less than those before in the column of `sorted_by`: ``"refuse"`` where nothing else
            is said, or ``"accept"``. Late rows stay where they arrive, and are found by the column's index.
        wait: how many seconds to wait for another writer to close the table; by default none.
        keep: what of the table is kept, after each commit: rows of so much time before the newest in the column that the
            table is sorted by, as a ``timedelta`` or text such as ``"1h"`` or ``"30 days"``, or so many bytes of the newest
            segments, as ``"10 GB"``. Segments that hold nothing else are removed, looked for once a second.
        force: write on file systems on which mappings of several machines do not agree, such as NFS.
        partition: write one partition of the table, such as ``{"host": "a1"}``: the table ``path/host=a1``, with a writer of
            its own.
        partition_by: split rows by a column, such as ``"host"``, by ``"day(ts)"``, ``"month(ts)"`` or ``"year(ts)"`` of a time,
            in UTC, or by a list of those: then this is a :class:`PartitionedWriter`.

    Raises:
        Busy: another process writes the table, still after `wait` seconds; the message names it.
        SchemaMismatch: the table has a schema that the given one is no such change of; the message names each column.
        NotFound: there is neither a table nor a schema.
        Unsupported: a column's type cannot grow, or the file system is a network's.
    """
@overload
def writer(
    path: _Path,
    schema: _Schema,
    *,
    sync: Literal["never", "commit"] | float | None = None,
    segment_rows: int | None = None,
    dictionary: Sequence[str] | None = None,
    sorted_by: str | None = None,
    late: Literal["refuse", "accept"] | None = None,
    index: Sequence[str] | None = None,
    wait: None = None,
    keep: None = None,
    force: bool = False,
    partition: None = None,
    partition_by: str | Sequence[str],
) -> PartitionedWriter:
    """Open a growing table for writing, or make one.

    Args:
        path: the table's folder.
        schema: names and types of the columns: text such as ``"ts: timestamp[us] not null, price: float64"``, a dict of such
            types by name, or anything with ``__arrow_c_schema__``; needed where there is no table yet. Where there is one, it
            may have more columns that may be null, wider numbers, and nulls where there were none: then the table has them
            from now on, as by :func:`alter`. Text keeps the type that it has in the table.
        sync: when commits are brought to the disk: ``"never"`` but when asked, with every ``"commit"``, or every so many
            seconds.
        segment_rows: the most rows of a segment; 4,194,304 by default, or what the table was made with.
        dictionary: names of text columns to store as ``dictionary<int32, utf8>``.
        sorted_by: a column whose values never decrease, which :meth:`Dataset.between` can search.
        index: names of columns by whose values rows are found: conditions on them, as of :meth:`Dataset.filter`, read only blocks
            of 65,536 rows that may have some. What the table has by default; another choice holds from the next segment on.
        late: what becomes of rows that are less than those before in the column of `sorted_by`: ``"refuse"`` where nothing else
            is said, or ``"accept"``. Late rows stay where they arrive, and are found by the column's index.
        wait: how many seconds to wait for another writer to close the table; by default none.
        keep: what of the table is kept, after each commit: rows of so much time before the newest in the column that the
            table is sorted by, as a ``timedelta`` or text such as ``"1h"`` or ``"30 days"``, or so many bytes of the newest
            segments, as ``"10 GB"``. Segments that hold nothing else are removed, looked for once a second.
        force: write on file systems on which mappings of several machines do not agree, such as NFS.
        partition: write one partition of the table, such as ``{"host": "a1"}``: the table ``path/host=a1``, with a writer of
            its own.
        partition_by: split rows by a column, such as ``"host"``, by ``"day(ts)"``, ``"month(ts)"`` or ``"year(ts)"`` of a time,
            in UTC, or by a list of those: then this is a :class:`PartitionedWriter`.

    Raises:
        Busy: another process writes the table, still after `wait` seconds; the message names it.
        SchemaMismatch: the table has a schema that the given one is no such change of; the message names each column.
        NotFound: there is neither a table nor a schema.
        Unsupported: a column's type cannot grow, or the file system is a network's.
    """
@final
class StreamWriter:
    """Writes an Arrow stream, made by :func:`stream_writer`. Used with ``with``, it ends the stream, unless there was an
    exception, so that its reader sees that it is incomplete.
    """

    def write(self, data: _Table) -> None:
        """Send rows: Arrow data, a dict of columns, row dicts, or a data frame. Each record batch is one message, sent at once.

        Raises:
            SchemaMismatch, ColumnNotFound, InvalidArgument: the rows do not fit the schema; nothing was sent.
            IoError: the sink failed; nothing more can be sent.
        """
    def close(self) -> None:
        """Say that no more batches come; does nothing when it was closed before.

        Raises:
            IoError: the sink failed.
        """
    @property
    def schema(self) -> Schema | None:
        """Names and types of the columns; ``None`` before the first rows, where none was given."""
    @property
    def nbytes(self) -> int:
        """How many bytes were sent."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

@final
class StreamReader:
    """The record batches of an Arrow stream, each as a dataset as soon as it has come; made by :func:`read_stream`."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Dataset: ...
    def read_all(self) -> Dataset:
        """All batches that are still to come as one, in memory: values go from the source to their column at once.

        Raises:
            InvalidData, IoError: the stream is damaged or incomplete. To keep what came before, iterate over the batches.
        """
    @property
    def schema(self) -> Schema:
        """Names and types of the columns."""
    def close(self) -> None:
        """Closes the source, so that its sender finds that nobody reads any more."""

def stream_writer(
    sink: _Path | IO[bytes] | int | socket | Buffer,
    schema: _Schema | None = None,
    *,
    compression: Literal["lz4", "zstd"] | None = None,
) -> StreamWriter:
    """Write record batches to a file, a pipe, a socket or memory, one by one.

    Args:
        sink: a path (what is there is replaced), an object with ``write(bytes)``, a file descriptor, a socket, or memory
            that can be written to (``bytearray``, a NumPy array, a :class:`Mapping`).
        schema: names and types of the columns, anything with ``__arrow_c_schema__``; by default those of the first rows.
        compression: the codec of the data; without one it can be opened in place.

    Raises:
        NotFound, PermissionDenied, IoError: the sink cannot be written to.
    """

def read_stream(source: _Path | IO[bytes] | int | socket | Buffer) -> StreamReader:
    """Read an Arrow stream, batch by batch as it comes.

    Args:
        source: a path or an object with the buffer protocol, whose batches are in place; or what sends the stream: an
            object with ``read(size)``, a file descriptor, a socket.

    Raises:
        NotFound, PermissionDenied, IoError: the source cannot be read.
        InvalidData: it is no Arrow stream; the message says what it looks like instead.
    """

def check(path: _Path) -> Report:
    """Check all metadata and values of a file or table; a table may be written at the same time.

    Args:
        path: a file, a table's folder, a glob, or a directory of ``*.arrow`` files.

    Raises:
        NotFound, PermissionDenied, IoError: it could not be read. Damage is in the report.
    """
def repair(path: _Path) -> Report:
    """Check, and if there is damage, keep the rows before it.

    A damaged file is never written to: it is renamed to end in ``.damaged``; a table's damaged segment and all later
    ones move to a folder of such a name beside the table. The findings describe the state before, the other numbers
    the state after.

    Args:
        path: as for :func:`check`.

    Raises:
        Busy: the table is being written.
        InvalidArgument: it is a single segment of a table.
        NotFound, PermissionDenied, IoError: it could not be read.
    """
@final
class PartitionedWriter:
    """Appends rows to the partitions that they belong to, made by :func:`writer` with ``partition_by``.

    A partition is opened when there are rows for it, and is a table with one writer. A commit is atomic within one partition:
    readers, and a crash, may see it in one and not yet in another. Used with ``with``, it commits at the end, and rolls back
    when there was an exception.
    """

    def append(self, data: Any) -> None:
        """Append rows: Arrow data, a dict of columns, row dicts, or a data frame, matched by the names of the columns.

        Raises:
            SchemaMismatch, ColumnNotFound, InvalidArgument: as for :meth:`Writer.append`. If rows of the same call went to other
                partitions before, nothing can be committed before :meth:`rollback`.
            Busy: another process writes one of the partitions; the message names it.
        """
    def append_row(self, **values: Any) -> None:
        """Append one row; a column that is not named is null. Many rows at once are appended much faster.

        Raises:
            InvalidArgument: a value is not of its column's type, or null where there are none; nothing was appended.
            ColumnNotFound: the table has no column of that name.
        """
    def commit(self, *, durable: bool = False) -> None:
        """Make all appended rows visible to others, partition by partition; with `durable`, return when they would survive a
        power cut.

        Raises:
            IoError: in partitions before the one that is named, rows are committed.
        """
    def sync(self) -> None:
        """Bring all committed rows to the disk: they survive a power cut when this returns."""
    def rollback(self) -> None:
        """Forget what was appended since the last commit."""
    def close(self) -> None:
        """Commit, sync, and let others write; does nothing when it was closed before."""
    @property
    def schema(self) -> Schema:
        """Names and types of all columns, those of the partitions too."""
    @property
    def path(self) -> Path:
        """The directory of the partitions."""
    @property
    def num_open(self) -> int:
        """How many partitions are open; at most 64 at the same time."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...

def drop_partition(table: _Path, partition: dict[str, str | int | bool | date | None]) -> bool:
    """Remove a partition of a table, and its files: ``aw.drop_partition("ticks", {"host": "a1"})``; whether there was one.

    Readers that have opened it keep its rows until they refresh.

    Args:
        table: the directory of the partitions.
        partition: all columns of the partition with their values.

    Raises:
        Busy: the partition is being written; the message names the process.
        NotFound: there is no such directory.
        InvalidArgument: not all columns are named.
    """
def alter(
    path: _Path,
    *,
    add: _Schema | None = None,
    widen: _Schema | None = None,
    nullable: Sequence[str] | None = None,
) -> bool:
    """Change the schema of a table that is not being written; whether anything was changed.

    The change is a commit like any other. Rows that are there are null in new columns, and are widened where they are read; open
    datasets stay as they are, and their :meth:`Dataset.refresh` has the new schema. What is so already stays.

    Args:
        path: the table's folder, or a directory of partitions, each of which is changed by a commit of its own.
        add: columns to add behind the others, as a schema of :func:`writer`: ``{"vol": "int64"}`` or ``"vol: int64"``.
        widen: columns and their wider types, such as ``{"qty": "int64"}`` for one of ``int32``.
        nullable: names of columns that may hold nulls from now on.

    Raises:
        Busy: the table is being written; give the new schema to :func:`writer`.
        SchemaMismatch: a type is not wider, or a new column is ``not null``; the message names each.
        ColumnNotFound: there is no such column to widen, or to hold nulls.
        NotFound: there is no table. Of partitions, the error of the first that was not changed; the message names all of them.
    """
def compact(path: _Path, *, rewrite: bool = False, sort: bool = False) -> int:
    """Rewrite all segments of a table as dense Arrow files, while readers go on; how many were rewritten.

    Small segments become one of up to `segment_rows` rows and 128 MiB, which are in memory meanwhile. Rows keep their
    numbers. Other Arrow readers that list the directory meanwhile may find rows twice.

    Args:
        path: the table's folder.
        rewrite: give all segments the table's schema, dense ones too, after it was changed: see :func:`alter`. Otherwise each
            keeps its own.
        sort: first put the rows of all segments in the order of the column that the table is sorted by, so that late ones are
            where they belong; equal values stay as they came, nulls are last. Rows get other numbers: a reader that has the
            table open is told by `FileChanged`, where it could meet other rows. Segments that are in order stay as they are,
            the others are written beside the table first, and take its place in one step. Takes four bytes of memory for each
            row that is moved at most, and one new segment of up to 128 MiB with sixteen bytes a row.

    Raises:
        Busy: the table is being written; use :meth:`Writer.compact`.
        InvalidArgument: `sort`, and the table was created without `sorted_by`.
        NotFound: there is no table.
    """
def aggregation(
    table: _Path | Dataset,
    by: str | Sequence[str] | None = None,
    *,
    where: Predicate | None = None,
    **columns: str | Expression | tuple[str | Expression, _Function],
) -> Aggregation:
    """Keep aggregates of groups of a growing table up to date: ``aw.aggregation("ticks", by="symbol", mean="price",
    last="price")``.

    Each :meth:`Aggregation.refresh` returns the result of :meth:`Dataset.aggregate` for all current rows, and reads
    only the new ones.

    Args:
        table: a table's folder, or a dataset of one.
        by: as in :meth:`Dataset.aggregate`.
        where: likewise; a condition on columns by their names.
        columns: likewise, except ``"median"`` and ``"n_unique"``, which would have to read all rows each time.

    Raises:
        NotFound: there is no table.
        ColumnNotFound: there is no such column.
        Unsupported: a type can't be grouped, or lacks the function; or the function needs all rows each time.
        InvalidArgument: there is no such function, or two columns would have the same name.
    """
def follow(
    table: _Path | Dataset | Sequence[_Path | Dataset],
    start: int | dict[str, int] | Sequence[int | dict[str, int] | None] | None = None,
    timeout: float | None = None,
) -> Follow:
    """Iterate over the new rows of a table as they come: each dataset holds what was committed since the one before.

    Of several tables, each dataset holds rows of one of them, which its :attr:`Dataset.path` names; of partitions likewise,
    each row once and in order, and partitions that are made later are found. Rows that were dropped before they were read
    are an error: to go on without them, follow the table anew from its :attr:`Dataset.first_row`.

    Args:
        table: a table's folder, or a dataset of one; or a list of those.
        start: the number of the first row wanted, at most that of the next row to come; or a list of those for several
            tables. By default rows that come from now on. Of a partitioned table 0, which is all rows, or
            :attr:`Follow.next_row` of an earlier follower.
        timeout: the seconds without new rows after which the iteration ends; by default it never does.

    Raises:
        InvalidArgument: the dataset is not a whole table.
        NotFound: there is no table.
        RowOutOfRange: rows from `start` on were dropped, or the table ends before `start`; also while iterating, when the
            writer drops rows that were not read yet. The message says how many rows there are, or were dropped.
    """
