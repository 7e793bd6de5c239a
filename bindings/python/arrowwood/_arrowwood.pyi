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
    "_place_of",
    "_run_cli",
    "_visible",
    "_without_secrets",
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
_Function: TypeAlias = Literal[
    "sum", "mean", "median", "min", "max", "count", "n_unique", "first", "last", "var", "std"
]
_Rows: TypeAlias = (
    Predicate
    | Sequence[bool]
    | npt.NDArray[np.integer[Any] | np.bool_]
    | Column
    | _HasBuffer
    | _ArrowArray
    | _ArrowStream
)
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

    The file must not be rewritten while it is open; one that only grows, or is replaced by a rename, is fine. If it
    is rewritten or truncated, calls raise :class:`FileChanged` as soon as they notice; arrays passed to other
    libraries in place are not protected.

    Args:
        source: a path (also with ``~``, or ``file://``), a glob, a directory of ``*.arrow`` files or of partitions
            (``key=value``), a URL (``s3://bucket/path``, ``https://host/path``; the URL of a folder ends in ``/``),
            which is read by ranges, any object with the buffer protocol (``bytes``, ``memoryview``, ``mmap.mmap``,
            :class:`Mapping`; used in place and kept alive), or a list of those, whose rows are concatenated and whose
            schemas must agree.
        validate: when offsets, text and dictionary keys are checked: ``"lazy"`` when a column is first used as a
            whole, ``"full"`` now.
        copy: read everything into memory first; the only sound way if other processes may write the file.
        strict: raise :class:`CopyNeeded`, naming the buffer, if data can't be used without a copy.
        partial: accept truncated data, up to its last whole batch.
        partitioning: types of partition columns, as a dict by name or text such as ``"host: utf8, day: date32"``. By
            default types are inferred from all values: ``int64``, ``date32``, else a dictionary of text.

    Raises:
        NotFound: there is no such file, or no matching file.
        PermissionDenied: reading the file is not permitted.
        InvalidData: the bytes are not Arrow IPC data; the message says what they look like instead.
        SchemaMismatch: several files have different schemas; the message names two and the first difference.
        InvalidArgument: rows of a table are in two sources, as in the table and in objects that were pushed from it.
        Unsupported: valid Arrow data that this version cannot read.
    """

def map(
    path: _Path,
    mode: Literal["r", "r+", "c"] = "r",
    dtype: npt.DTypeLike | None = None,
    offset: int = 0,
    length: int | None = None,
) -> Mapping:
    """Map a file of any size into memory, without reading it.

    Args:
        path: a regular file.
        mode: ``"r"`` read-only; ``"r+"`` read and write, stores are visible at once to other processes that map the
            file; ``"c"`` copy-on-write, stores stay in this process and never reach the file.
        dtype: the elements' type, such as ``"float64"``: a boolean, integer or float of fixed width in little-endian
            order. Bytes (``uint8``) by default.
        offset: the offset of the first element in bytes, aligned or not.
        length: the number of elements; by default all.

    Raises:
        NotFound, PermissionDenied: as for opening any file.
        InvalidArgument: an invalid mode, type, offset or length, or bytes that are not a whole number of elements.
    """

def concat(datasets: Sequence[_ArrowData]) -> Dataset:
    """Concatenate the rows of all `datasets`, without copying.

    Raises:
        SchemaMismatch: names or types of columns differ; the message has the first difference.
        InvalidArgument: `datasets` is empty.
    """

def col(name: str) -> Expression:
    """A column by name, for conditions on any dataset: ``ds.filter((aw.col("price") > 100) &
    aw.col("symbol").is_in(["A", "B"]))``.
    """

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
            a dict of columns (lists, NumPy arrays, Arrow arrays, series; any iterable), rows as dicts, or a list or
            an iterator of any of these that export Arrow data, such as record batches, which are written as they
            arrive.
        target: a path, which is replaced in one step when everything is written (the new file has the permissions of
            the old one; of a link, the file it leads to is replaced), a :class:`Buffer`, or any other object with
            ``write(bytes)``. A path that ends in ``.parquet`` becomes a Parquet file, by pyarrow.
        schema: the columns, found by name, and their types; by default those of `data`. Conversions lose nothing,
            except that floats of less than 64 bits are rounded.
        format: ``"file"``, with a footer for random access, or ``"stream"``; by default a stream for a path that
            ends in ``.arrows``, otherwise a file.
        compression: the codec of the data; without one it can be opened in place.
        max_rows: the maximum number of rows in a record batch; larger ones are split.

    Raises:
        InvalidArgument, TypeError: a value does not fit its column; the message names column and row.
        ColumnNotFound, SchemaMismatch: the schema lacks a column that `data` has, or the reverse.
        InvalidData: a value is damaged.
        IoError: an error of the operating system. Exceptions of a file object are passed on.
    """

def read_csv(
    source: _Path | IO[bytes] | IO[str],
    *,
    schema: _Schema | None = None,
    schema_overrides: _Schema | None = None,
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
    money give ``schema_overrides={"m": "decimal(20, 2)"}``. Dates are recognised as ``2000-01-31``, ``Jan 31 2000`` and
    ``31 January 2000``, times as ``2000-01-31T12:00:00``. A file is parsed by several threads, and read again if a
    later value does not fit the types of its beginning.

    Args:
        source: a path, or an object with ``read()``.
        schema: the columns to read, found by name, and their types; by default all, with inferred types.
        schema_overrides: the types of single columns, as ``{"zip": "utf8"}``; the others stay as they are.
        dictionary: the names of text columns to dictionary-encode, or the name of one.
        delimiter: the ASCII character between fields.
        quote: the ASCII character around fields that contain delimiters or line breaks; None for no quoting.
        header: whether the first line has the names. Otherwise columns are those of the schema in their order, or
            named ``column_1`` and so on.
        null_values: the text or texts of unquoted fields that mean null. By default ``NA``, ``N/A``, ``null`` and
            ``NULL``, in columns other than text.
        decimal: ``"."``, or ``","`` for numbers such as 1,5.

    Raises:
        ColumnNotFound: the text has no column that the schema or ``schema_overrides`` names.
        InvalidData: a line has too few or too many fields, or a value is not of its type; the message says where.
    """

def read_json(
    source: _Path | IO[bytes] | IO[str],
    *,
    schema: _Schema | None = None,
    schema_overrides: _Schema | None = None,
    dictionary: str | Sequence[str] | None = None,
) -> Dataset:
    """Read JSON, one object on each line or an array of objects, into memory. It may be compressed with gzip or zstd.

    Args:
        source: a path, or an object with ``read()``.
        schema: the columns to read and their types, as for :func:`writer`; by default all, with inferred types.
        schema_overrides: the types of single columns, as ``{"zip": "utf8"}``; the others stay as they are.
        dictionary: the names of text columns to dictionary-encode, or the name of one.

    Raises:
        ColumnNotFound: the text has no column that ``schema_overrides`` names.
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
        """The path as given."""
    @property
    def mode(self) -> str:
        """``"r"``, ``"r+"`` or ``"c"``."""
    @property
    def resident(self) -> int:
        """The number of bytes of the whole file that are in physical memory, whichever process loaded them."""
    @property
    def closed(self) -> bool:
        """Whether the mapping is closed."""
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
        """The same bytes as elements of another type. Their number must be a multiple of its size."""
    def tobytes(self) -> bytes:
        """A copy of the bytes."""
    def tolist(self) -> list[Any]:
        """The elements as a list."""
    def flush(self) -> None:
        """Write changed pages back to the file and wait until they are on the disk. Other processes see stores without
        it.
        """
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
        """Whether there is a field of that name."""
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
        """The name of the type, such as ``"timestamp[ms, UTC]"`` or ``"dictionary<int8, utf8>"``."""
    @property
    def nullable(self) -> bool:
        """Whether the field is nullable."""
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

    Values are Python objects: a struct is a dict, a map a list of ``(key, value)``, a union its value, a calendar
    interval a :class:`MonthDayNano`. Values outside the range of Python's classes become ``numpy.datetime64`` or
    ``numpy.timedelta64``: nanoseconds that are not whole microseconds, years outside of 1 to 9999, times outside of
    a day; an instant with a time zone is then in UTC.
    """

    @property
    def schema(self) -> Schema:
        """Names, types and metadata of the columns."""
    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
    @property
    def columns(self) -> list[str]:
        """The columns' names, in order."""
    def keys(self) -> list[str]:
        """The columns' names, in order, as pandas calls them: ``dict(ds)`` has the columns by name."""
    @property
    def dtypes(self) -> list[str]:
        """The names of the columns' types, in order."""
    @property
    def num_columns(self) -> int:
        """The number of columns."""
    @property
    def num_batches(self) -> int:
        """The number of record batches with rows in the dataset."""
    @property
    def nbytes(self) -> int:
        """The size in bytes of the rows in their buffers, without dictionaries."""
    @property
    def left(self) -> list[str]:
        """The truncated data skipped by ``open(..., partial=True)``, as text: one entry for each cut-off file."""
    @property
    def path(self) -> Path | None:
        """The absolute path of the file or table directory with the rows; ``None`` for rows in memory, and for rows of
        several files.
        """
    @property
    def first_row(self) -> int:
        """The number of the first row in its table: rows keep their numbers when earlier ones are dropped."""
    @property
    def positions(self) -> dict[str, int]:
        """Positions of the newest commit included in the dataset, by name: see :meth:`Writer.commit`. Empty if it is
        not a table.
        """
    @property
    def sorted_by(self) -> str | None:
        """The name of the column by which the table is sorted; ``None`` if there is none, or if rows may be late."""
    @property
    def partitions(self) -> list[Partition]:
        """The partitions of a dataset opened from a directory of them, in order: each with its directory, its values as
        text by column, and its rows as a dataset. Empty for other datasets, and for parts of them.
        """
    def refresh(self) -> Self:
        """Return the dataset including rows committed since: a newer one, or this one if there are none.

        Slices, and data that does not grow, don't change. Older datasets stay valid.
        """
    def between(self, low: Any, high: Any) -> Dataset:
        """Return the rows whose value in the table's sorted column is between `low` and `high`, both included.

        Found by binary search; in tables that accept late rows, by the column's index, as a copy. Integers are
        accepted for times, in the column's unit, and so is text such as ``"2026-01-31"``. For several tables opened
        as one, the rows of each follow those of the previous one.

        Raises:
            InvalidArgument: the dataset is not of tables with ``sorted_by``, or a value is of another type.
        """
    @property
    def footprint(self) -> Footprint:
        """The bytes by location: mapped, resident, copied. Queries the system about every page."""
    @property
    def messages(self) -> list[Message]:
        """The messages of the file or stream, in file order, as dicts that print as text.

        Raises:
            Unsupported: the data is in memory and has no messages.
        """
    def __len__(self) -> int:
        """The number of rows. A stream is walked for it, once."""
    def __contains__(self, name: str, /) -> bool:
        """Whether there is a column of that name, as in pandas and Polars."""
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
        """Pickling carries paths, options, rows and columns, not the data;
        what is in memory travels as an Arrow stream."""
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
        """Return the rows for which `predicate` is true, in their order; ``ds[ds["price"] > 100]`` is the same.

        The predicate is computed now. A column of the rows is copied when it is first used; single rows and
        :meth:`aggregate` read them in place. Until the result is gone, it holds the rows that it was made from;
        :meth:`collect` copies what was found, and holds nothing else. In a table sorted by a column, only the rows
        between the predicate's bounds are read.

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
        """Iterate over batches of `batch_size` rows for training, each a dict of NumPy arrays by column: numbers
        ``(n,)``, fixed-size lists ``(n, length)``, tensors ``(n, *shape)``, in writable memory. Lists of several
        lengths are arrays of arrays, text is an array of objects.

        Only the rows of the requested batch are read, and no order is stored: the number of rows, 10 or 10 billion,
        makes no difference. A table's loader has the rows of the dataset, not those committed later.

        Args:
            batch_size: rows per batch; the last one may have fewer.
            seed: shuffles all rows, in a new order each epoch; the same on every machine. None: file order.
            block: shuffles blocks of this many rows, and mixes the rows of 16 of them at a time. Faster for a file
                that does not fit into memory, if adjacent rows are not alike.
            start: the number of the batch to begin with, in the first epoch.
            drop_last: omit a last batch with fewer rows, and batches that not every rank would get.
            columns: the columns to read; None reads all.
            device: None gives NumPy arrays. ``"torch"`` gives tensors of PyTorch, ``"cuda"`` and so on tensors there.
            rank: the number of this process among `world`: it gets batches ``rank``, ``rank + world``, and so on, of
                those that a single process would get.
            world: the number of processes that share the rows.

        Raises:
            ColumnNotFound: there is no such column.
            InvalidArgument: an argument is out of range, or PyTorch has no such device.
            ImportError: a device is given, and PyTorch is not installed.
        """
    def train_test_split(
        self, test_size: float | int | None = None, seed: int | None = None
    ) -> tuple[Dataset, Dataset]:
        """Split the rows at random into two datasets: one for training, and one for testing. Both are views: nothing is
        copied.

        Args:
            test_size: the share of rows for testing, rounded up, as ``0.1``, or their number; a quarter by default.
            seed: the same seed gives the same split on every machine; without a seed, each split is different.

        Raises:
            InvalidArgument: `test_size` is out of range.
        """
    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Return rows `start` to `stop` as dicts, one after the other. The first rows of a stream are available without
        walking it.

        Raises:
            InvalidArgument: several columns have the same name, which a dict cannot hold; see :meth:`row`.
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
                number of rows, under a name that no column has. A function's name as keyword aggregates the given
                column: ``mean="price"`` is ``mean=("price", "mean")``; what could be two things is refused. An
                :class:`Expression` can replace a column: ``sum=aw.col("price") * aw.col("qty")``,
                ``total=(aw.col("price") * 2, "sum")``.

        Raises:
            ColumnNotFound: there is no such column.
            Unsupported: a type can't be grouped, or lacks the function.
            InvalidArgument: there is no such function, a sum does not fit its type, two columns would have the same
                name, or a name means two things.
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
        """Select the columns `names`, in that order: ``ds.select("a", "b")``, ``ds.select(["a", "b"])`` and ``ds[["a",
        "b"]]`` are the same. Raises :class:`ColumnNotFound`.
        """
    def head(self, n: int = 5) -> Dataset:
        """The first `n` rows; all but the last `-n` if it is negative."""
    def tail(self, n: int = 5) -> Dataset:
        """The last `n` rows; all but the first `-n` if it is negative."""
    def batches(self) -> list[Dataset]:
        """The record batches, each as a dataset."""
    def validate(self, progress: Callable[[int, int], object] | None = None) -> None:
        """Check all values now.

        Args:
            progress: called with the numbers of finished rows and of all rows after each batch; None draws a bar if
                standard error is a terminal and it takes more than a second.

        Raises:
            InvalidData: naming path, batch, column, row and the expected value.
        """
    def sql(self, query: str, /, **tables: _Path | _ArrowData) -> Dataset:
        """Query the dataset, called ``self``, and others with SQL, by DuckDB: ``ds.sql("select max(price) from
        self")``.

        DuckDB reads in place, and only the columns that it needs. :func:`sql` lists what else a query may name.

        Args:
            query: one statement or several; the rows of the last one are the result.
            tables: datasets, paths, or anything that exports Arrow data, by their names in the query.

        Raises:
            ImportError: DuckDB is not installed: ``pip install 'arrowwood[sql]'``.
            duckdb.Error: the query is invalid, with DuckDB's message; or values are damaged, with ours.
            NotFound, PermissionDenied, InvalidData: a table cannot be opened.
        """
    def splits(self, n: int) -> list[Split]:
        """Divide the rows into about `n` ranges of equal size, each a :class:`Split`, for other processes to open: only
        paths and numbers are sent. Nothing is read.

        There are more splits if rows are in several files, since no split crosses the end of a file, and fewer if
        there are fewer rows. Splits have all columns. If the table grows, or is compacted, they stay the same rows.

        Raises:
            InvalidArgument: `n` is less than one, or rows are in memory and not in a file.
        """
    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dicts."""
    def to_arrow(self) -> pa.Table:
        """The dataset as a pyarrow table, without copying."""
    def collect(self) -> Dataset:
        """Combine all rows into one record batch in memory, using several threads; returns the dataset itself if it is
        one batch, unless it holds the rows that it was filtered from.

        Text of more than 2 GiB in one column takes several batches, unless its offsets have 64 bits.

        Raises:
            InvalidData: a value is damaged.
            Unsupported: the dictionaries of several batches cannot be merged.
        """
    def to_pandas(self, arrow: bool = False) -> pd.DataFrame:
        """Convert to a pandas data frame: like pyarrow's conversion, but faster for numbers.

        Its memory is its own and writable. An index recorded in the schema by pandas is restored.

        Args:
            arrow: make columns of pandas' ``ArrowDtype``, without copying.
        """
    def to_numpy(self) -> npt.NDArray[Any]:
        """Convert to an array of shape ``(len(ds), ds.num_columns)``, in its own memory.

        Columns of one type without nulls are stored one after the other (Fortran order). Otherwise the array has a
        type that holds all of them, as in :meth:`Column.to_numpy`: integers with nulls become floats. Numbers mixed
        with other types become Python objects.
        """
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def to_polars(self) -> pl.DataFrame:
        """Convert to a Polars data frame; columns of numbers are not copied, text is. Many small batches are combined
        first, since Polars takes time for each.

        Decimals of 32 and 64 bits become those of 128, which is the only width of Polars, and times in a zone that
        Polars does not know, such as ``+05:30``, the same times in UTC.

        Raises:
            Unsupported: Polars has no such columns: intervals, unions, views of lists, run-end-encoded ones, decimals
                of 256 bits or with a negative scale.
        """
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The batches for another Arrow library, values checked, nothing copied. The request is not followed."""
    def __arrow_c_schema__(self) -> object:
        """The schema for another Arrow library."""
    def __datafusion_table_provider__(self, session: object) -> object:
        """The rows as a table of DataFusion, in place: ``ctx.register_table("ticks", ds)``. Columns, limits and
        conditions reach the data. The table has the rows of the dataset; register a newer one for rows committed since.

        Raises:
            ImportError: the package ``arrowwood-datafusion`` is not installed, or is for another version of DataFusion.
            Unsupported: the rows are in memory, or in another order than in the files:
                use ``ctx.from_arrow(ds, name)``.
        """
    def _repr_html_(self) -> str: ...
    def _ipython_key_completions_(self) -> list[str]: ...
    def _fitted(self, zones: list[str]) -> Dataset: ...
    def _view_of(self, rows: bytes) -> Dataset: ...
    def _with_names(self, names: Sequence[str]) -> Dataset: ...
    def _in_partition(self, partition: list[tuple[str, str, str | None]]) -> Dataset: ...
    def _places(self) -> list[tuple[str, int, int, list[int], list[tuple[str, str, str | None]]]] | None: ...
    def _versions(self) -> list[tuple[str, str]]: ...
    def _check_versions(self, versions: Sequence[tuple[Path | str, str]]) -> None: ...
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
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __mod__(self, other: Any, /) -> Any: ...
    def __rmod__(self, other: Any, /) -> Any: ...
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
        """NumPy's other functions, such as ``np.mean(column, axis=0)``,
        take the values as :meth:`to_numpy` gives them."""
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
        """Whether any value is true; false for no values. Raises :class:`Unsupported` for other types than booleans."""
    def all(self) -> bool:
        """Whether no value is false; true for no values. Raises :class:`Unsupported` for other types than booleans."""
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
        skipped; ``None`` if there is nothing else. Takes one or two passes over the column, rarely more, and no copy.

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

        Values of a mapped file are in a mapping of their own: what is written to them stays in pages of this process.
        Values in memory are read-only, which only consumers that ask for version 1.0 or later can see; others get a
        copy.

        Raises:
            BufferError: the values are not numbers, or `copy` is ``False`` and a copy is necessary.
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """The device of the values as DLPack numbers it: the processor's memory."""
    def _parts(self) -> tuple[str | None, list[tuple[_Values, bytes | None]], list[int] | None, list[int] | None]: ...
    def _lists(self) -> tuple[str, _Values, list[int], list[int] | None] | None: ...

@final
class Expression:
    """A column by its name (:func:`col`), or a computed value for each row: ``aw.col("price") * aw.col("qty")``.

    Comparing it with a value or another expression makes a :class:`Predicate`; :meth:`Dataset.aggregate` accepts it
    in place of a column. It is computed block by block, and not stored.

    ``+``, ``-``, ``*``, ``/`` and ``%`` work as in Polars: a result is null if an operand is, ``/`` is
    floating-point division, ``%`` has the sign of its divisor and is null for an integer by 0; 32-bit floats stay
    32-bit with each other, with values and with integers of 8 or 16 bits. But integers of any width are computed in
    64 bits, and a result that does not fit raises :class:`InvalidArgument`.
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
        """Convert to ``"int64"``, ``"float32"`` or ``"float64"``: numbers, booleans (0 and 1), decimals, and dates and
        times as their stored numbers. Fractions are truncated; values that do not fit raise :class:`InvalidArgument`
        when rows are read.
        """
    @property
    def dt(self) -> TimeParts:
        """Parts of dates and times: ``aw.col("ts").dt.hour()``."""
    @property
    def str(self) -> TextConditions:
        """Conditions on text: ``aw.col("symbol").str.starts_with("A")``."""
    def is_in(self, values: Iterable[Any]) -> Predicate:
        """Whether the value equals one of `values`. For nulls use :meth:`is_null`."""
    def is_between(self, low: Any, high: Any) -> Predicate:
        """Whether the value is between `low` and `high`, both included."""
    def is_null(self) -> Predicate:
        """Whether the value is null."""
    def is_not_null(self) -> Predicate:
        """Whether the value is not null."""
    def __array_ufunc__(self, ufunc: np.ufunc, method: builtins.str, *inputs: Any, **keywords: Any) -> Any:
        """A scalar of NumPy's on either side is a value as any other."""

@final
class TimeParts:
    """Parts of dates and times as integers; returned by :attr:`Expression.dt`. Times in UTC, with an offset, or without
    a zone have hours; for those in zones such as ``Europe/Paris`` hours are :class:`Unsupported`.
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
    """Conditions on text; returned by :attr:`Expression.str`."""

    def contains(self, pattern: str, *, literal: bool = False) -> Predicate:
        """Whether the regular expression `pattern` matches anywhere in the value, or with `literal` whether it contains
        `pattern` as it is.

        The syntax is that of Polars, without look-around and references back.

        Raises:
            InvalidArgument: it is no regular expression; ``literal=True`` takes it as it is.
        """
    def starts_with(self, text: str) -> Predicate:
        """Whether the value starts with `text`."""
    def ends_with(self, text: str) -> Predicate:
        """Whether the value ends with `text`."""

@final
class Predicate:
    """A condition on rows: comparisons of columns (``ds["price"] > 100``) or of columns by their names (:func:`col`),
    combined with ``&``, ``|`` and ``~``. The right side of ``&`` or ``|`` is computed only for rows that the left
    side does not decide.

    A comparison with a null is neither true nor false, and so is its negation: such a row does not match. NaN is not
    equal to anything, and neither less nor greater. Numbers are compared by exact value, without rounding: integers
    with 2.5, times with times of another unit. No 32-bit float equals 0.1, but one equals ``numpy.float32(0.1)``.
    Compared with decimals, a float with a fraction means the decimal that it prints as. Integers are accepted for
    times, in the column's unit.

    A time must have a time zone if the column has one, and must not have one otherwise; NumPy's times are in UTC if
    the column is.
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
    """Columns copied as they are stored, with NumPy's view of their items, and the others."""

    def __new__(cls, dataset: Dataset) -> Self: ...
    def describe(self) -> list[tuple[str, list[int], list[int] | None] | None]:
        """The kinds of arrays that the columns become; `None` for columns that are not numbers in place."""
    def rows_id(self) -> int:
        """A number that other rows hardly ever have: of their numbers in the data, as far as they are in files or a
        view, and of the values of some of them. Where the files are does not matter.
        """
    def read(self, seed: int | None, epoch: int, block: int | None, start: int, stop: int) -> list[_Block | Column]:
        """The columns' parts of the rows at places `start .. stop` of an epoch: memory, or a column where that is not
        enough.

        Args:
            seed: None leaves the rows in order.
            block: rows of the blocks to shuffle; None shuffles all rows.
        """

@final
class _Block:
    """Columns of one type, concatenated in their own memory, which NumPy may write to."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

def _local_path(text: _Path) -> Path:
    """The local path that a text names."""

def _open_places(
    places: list[tuple[_Path, int, int, list[int]]], how: tuple[Literal["lazy", "full"], bool, bool, bool]
) -> Dataset:
    """The rows that a recipe names."""

def _place_of(path: _Path) -> str | None:
    """Text that identifies a file across machines, as the server tells it."""

def _without_secrets(text: str) -> str:
    """`text` with the URLs in it without passwords and signatures."""

def _visible(text: str) -> str:
    """`text` with escapes for control characters, changes of direction and invisible characters."""

def _run_cli(arguments: list[str]) -> int:
    """Run the command line; the exit code."""

@final
class Writer:
    """The single writer of a growing table; made by :func:`writer`.

    Appended rows become visible to readers when they are committed: all of them or none. As a context manager it
    commits at the end, or rolls back after an exception. Rows that are neither committed nor rolled back are a
    ``ResourceWarning`` when the writer is gone.
    """

    def append(self, data: Any) -> None:
        """Append rows: Arrow data, a dict of columns, row dicts, or a data frame, matched by column names.

        Raises:
            SchemaMismatch: a column is missing, of another type, or has ordered categories in another order.
            ColumnNotFound: the table has no column of that name.
            InvalidArgument: a null in a non-nullable column, a value out of range, or a row out of order; the
                message names column and row. In all these cases nothing was appended.
        """
    def append_row(self, **values: Any) -> None:
        """Append one row; columns not given are null.

        Raises:
            InvalidArgument: a value is not of its column's type, or null in a non-nullable column; nothing was
                appended.
            ColumnNotFound: the table has no column of that name.
        """
    def commit(self, *, durable: bool = False, positions: dict[str, int] | None = None) -> None:
        """Make all appended rows visible to readers, in one step; with `durable`, return once they would survive a
        power cut.

        `positions` are named 64-bit numbers that are part of the commit: visible with its rows, as durable as they
        are, and restored as :attr:`positions` after any crash. Other positions keep their values, and there may be
        no new rows. A producer that stores its progress here, and continues from it, neither misses nor repeats
        anything.

        When many threads commit durably at the same time, one syncs for all of them.

        Raises:
            IoError: none of the rows is visible, or they could not be brought to the disk.
            ValueError: a name is empty, longer than 255 bytes or has control characters, or there are more than 256.
        """
    def sync(self) -> None:
        """Bring all committed rows to the disk: they survive a power cut once this returns.

        Raises:
            IoError: after that nothing more can be written; open the table again.
        """
    def wait_durable(self, row: int | None = None) -> None:
        """Wait until all rows before number ``row``, or all committed rows, would survive a power cut.

        When many threads wait at the same time, one syncs for all of them.

        Raises:
            InvalidArgument: rows before number `row` are not committed.
            IoError: after that nothing more can be written; open the table again.
        """
    @property
    def positions(self) -> dict[str, int]:
        """Positions of the newest commit, by name: the progress of producers. See :meth:`commit`."""
    def promote(self, positions: AbstractMapping[str, int] | None = None) -> None:
        """Make a replica, which `arrowwood pull` has made, a table of its own.

        A replica has the rows of another table, and not how far its producers were. Until it is promoted, commits with
        `positions` are refused: a producer that begins anew would append again what is there. `positions` are those
        that are known; the others begin anew. The change is durable when this returns.

        Raises:
            InvalidArgument: the table is no replica, or was promoted before.
        """
    def rollback(self) -> None:
        """Discard the rows appended since the last commit."""
    def close(self) -> None:
        """Commit, sync, and release the table to other writers; does nothing if already closed."""
    def compact(self, *, rewrite: bool = False, sort: bool = False) -> int:
        """Rewrite all sealed segments as dense Arrow files, without affecting readers; return the number of rewritten
        segments.

        Small segments are merged, `rewrite` gives all segments the table's schema, and `sort` sorts their rows, as
        in :func:`compact`.
        """
    def drop_before(self, row: int | str | date | datetime | np.datetime64) -> int:
        """Remove the segments without rows from number `row` on; return the number of removed rows.

        Whole segments are removed, so up to :func:`writer`'s `segment_rows` more rows may stay. Readers keep the
        segments they have read from. Rows keep their numbers: see :attr:`Dataset.first_row`.

        Args:
            row: a row's number, or a time, a date or a text for one: then the first committed row that is not before
                it, in the column by which the table is sorted.

        Raises:
            InvalidArgument: the table is not sorted by a column of such values.
        """
    @property
    def schema(self) -> Schema:
        """Names and types of the columns."""
    @property
    def path(self) -> Path:
        """The table's directory."""
    @property
    def is_closed(self) -> bool:
        """Whether the writer is closed."""
    @property
    def rows(self) -> int:
        """The number of the row after the last one appended."""
    @property
    def committed_rows(self) -> int:
        """The number of the row after the last committed one."""
    @property
    def durable_rows(self) -> int:
        """The number of the row after the last one that would survive a power cut."""
    @property
    def dropped_rows(self) -> int:
        """The number of rows, committed but never synced, lost in a system crash before this writer was opened."""
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
            SchemaMismatch: a column is missing, of another type, or has ordered categories in another order.
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
    def truncate(self, length: int) -> None:
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
    """Iterates over new rows of one table or several, dataset by dataset; made by :func:`follow`.

    It can be used with ``with``, which closes it, and with ``async for``, which waits in a thread of its own. Rows
    that arrive while a task is cancelled are kept for the next one.
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
        """End the iteration, even if it waits in another thread or task, and release files and threads; does nothing if
        already closed. Datasets already returned are not affected.
        """
    @property
    def next_row(self) -> int | dict[str, int]:
        """The number of the row after the last returned one; for a partitioned table a dict of those by directory: by
        the name, see `start` of :func:`follow`.

        Raises:
            InvalidArgument: several tables are followed; see :attr:`next_rows`.
        """
    @property
    def next_rows(self) -> list[int | dict[str, int]]:
        """The same for each table, for resuming later: ``follow(tables, start=next_rows)``."""
    @property
    def lag(self) -> int:
        """The number of committed rows not returned yet, of all tables. Raises :class:`Closed` when closed."""
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
        """The rows included in the last result; before the first, those in the table at the beginning."""
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
    """Open a growing table for writing, or create one.

    Args:
        path: the table's directory.
        schema: names and types of the columns: text such as ``"ts: timestamp[us] not null, price: float64"``, a dict
            of such types by name, or anything with ``__arrow_c_schema__``; required to create a table. For an
            existing table, it may have more nullable columns, wider numbers, and columns made nullable: then the
            table's schema is changed, as by :func:`alter`. Text keeps its type in the table.
        sync: when commits are brought to the disk: ``"never"`` except on request, with every ``"commit"``, or at an
            interval in seconds.
        segment_rows: the maximum number of rows in a segment; by default that of the existing table, or 4,194,304.
        dictionary: names of text columns to store as ``dictionary<int32, utf8>``. A table that has text keeps it, and
            so does a new partition beside others.
        sorted_by: a column whose values never decrease, which :meth:`Dataset.between` can search.
        index: names of columns to index: conditions on them, as in :meth:`Dataset.filter`, read only blocks of
            65,536 rows that may match. By default those of the existing table; a different choice applies from the
            next segment on.
        late: the treatment of rows less than earlier ones in the column `sorted_by`: ``"refuse"``, which is the
            default, or ``"accept"``. Late rows are kept in order of arrival, and found by the column's index.
        wait: how many seconds to wait for another writer to close the table; by default none.
        keep: the rows to keep after each commit: rows within a time of the newest in the sorted column, as a
            ``timedelta`` or text such as ``"1h"`` or ``"30 days"``, or the newest segments up to a size, as ``"10
            GB"``. Segments with no such rows are removed; checked at most once a second.
        force: write on file systems where mappings on several machines are inconsistent, such as NFS.
        partition: write one partition of the table, such as ``{"host": "a1"}``: the table ``path/host=a1``, with its
            own writer.
        partition_by: split rows by a column, such as ``"host"``, by ``"day(ts)"``, ``"month(ts)"`` or ``"year(ts)"``
            of a time, in UTC, or by a list of those: then this is a :class:`PartitionedWriter`.

    Raises:
        Busy: another process still writes the table after `wait` seconds; the message names it.
        SchemaMismatch: the table's schema can't be changed to the given one; the message names each column.
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
    """Open a growing table for writing, or create one.

    Args:
        path: the table's directory.
        schema: names and types of the columns: text such as ``"ts: timestamp[us] not null, price: float64"``, a dict
            of such types by name, or anything with ``__arrow_c_schema__``; required to create a table. For an
            existing table, it may have more nullable columns, wider numbers, and columns made nullable: then the
            table's schema is changed, as by :func:`alter`. Text keeps its type in the table.
        sync: when commits are brought to the disk: ``"never"`` except on request, with every ``"commit"``, or at an
            interval in seconds.
        segment_rows: the maximum number of rows in a segment; by default that of the existing table, or 4,194,304.
        dictionary: names of text columns to store as ``dictionary<int32, utf8>``. A table that has text keeps it, and
            so does a new partition beside others.
        sorted_by: a column whose values never decrease, which :meth:`Dataset.between` can search.
        index: names of columns to index: conditions on them, as in :meth:`Dataset.filter`, read only blocks of
            65,536 rows that may match. By default those of the existing table; a different choice applies from the
            next segment on.
        late: the treatment of rows less than earlier ones in the column `sorted_by`: ``"refuse"``, which is the
            default, or ``"accept"``. Late rows are kept in order of arrival, and found by the column's index.
        wait: how many seconds to wait for another writer to close the table; by default none.
        keep: the rows to keep after each commit: rows within a time of the newest in the sorted column, as a
            ``timedelta`` or text such as ``"1h"`` or ``"30 days"``, or the newest segments up to a size, as ``"10
            GB"``. Segments with no such rows are removed; checked at most once a second.
        force: write on file systems where mappings on several machines are inconsistent, such as NFS.
        partition: write one partition of the table, such as ``{"host": "a1"}``: the table ``path/host=a1``, with its
            own writer.
        partition_by: split rows by a column, such as ``"host"``, by ``"day(ts)"``, ``"month(ts)"`` or ``"year(ts)"``
            of a time, in UTC, or by a list of those: then this is a :class:`PartitionedWriter`.

    Raises:
        Busy: another process still writes the table after `wait` seconds; the message names it.
        SchemaMismatch: the table's schema can't be changed to the given one; the message names each column.
        NotFound: there is neither a table nor a schema.
        Unsupported: a column's type cannot grow, or the file system is a network's.
    """

@final
class StreamWriter:
    """Writes an Arrow stream; made by :func:`stream_writer`. As a context manager it ends the stream, except after an
    exception, so that the reader sees that it is incomplete. Calls during a call in another thread raise :class:`Busy`.
    """

    def write(self, data: _Table) -> None:
        """Send rows: Arrow data, a dict of columns, row dicts, or a data frame. Each record batch is one message, sent
        at once.

        Raises:
            SchemaMismatch, ColumnNotFound, InvalidArgument: the rows do not fit the schema; nothing was sent.
            IoError: the sink failed; nothing more can be sent.
        """
    def close(self) -> None:
        """End the stream; does nothing if already closed.

        Raises:
            IoError: the sink failed.
        """
    @property
    def schema(self) -> Schema | None:
        """Names and types of the columns; ``None`` before the first rows if none was given."""
    @property
    def nbytes(self) -> int:
        """The number of bytes sent, without the mark of the end."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

@final
class StreamReader:
    """Iterates over the record batches of an Arrow stream, each as a dataset, as they arrive; made by
    :func:`read_stream`. Calls during a call in another thread raise :class:`Busy`.
    """

    def __iter__(self) -> Self: ...
    def __next__(self) -> Dataset: ...
    def read_all(self) -> Dataset:
        """Read all remaining batches as one, in memory: values go from the source directly to their column.

        Raises:
            InvalidData, IoError: the stream is damaged or incomplete. To keep the earlier batches, iterate instead.
        """
    @property
    def schema(self) -> Schema:
        """Names and types of the columns."""
    def close(self) -> None:
        """Close the source, so that its sender notices that nobody is reading any more. While another thread waits for
        a batch, the source is closed as soon as that has arrived.
        """

def stream_writer(
    sink: _Path | IO[bytes] | int | socket | Buffer,
    schema: _Schema | None = None,
    *,
    compression: Literal["lz4", "zstd"] | None = None,
) -> StreamWriter:
    """Write record batches to a file, a pipe, a socket or memory, one by one.

    Args:
        sink: a path (an existing file is replaced), an object with ``write(bytes)``, a file descriptor, a socket, or
            writable memory (``bytearray``, a NumPy array, a :class:`Mapping`).
        schema: names and types of the columns, anything with ``__arrow_c_schema__``; by default those of the
            first rows.
        compression: the codec of the data; without one it can be opened in place.

    Raises:
        NotFound, PermissionDenied, IoError: the sink cannot be written to.
    """

def read_stream(source: _Path | IO[bytes] | int | socket | Buffer) -> StreamReader:
    """Read an Arrow stream, batch by batch as it arrives.

    Args:
        source: a path or an object with the buffer protocol, whose batches are read in place; or the sender of a
            stream: an object with ``read(size)``, a file descriptor, a socket.

    Raises:
        NotFound, PermissionDenied, IoError: the source cannot be read.
        InvalidData: it is not an Arrow stream; the message says what it looks like instead.
    """

def check(path: _Path) -> Report:
    """Check all metadata and values of a file or table; a table may be written at the same time.

    Args:
        path: a file, a table's directory, a glob, or a directory of ``*.arrow`` files.

    Raises:
        NotFound, PermissionDenied, IoError: it could not be read. Damage is in the report.
    """

def repair(path: _Path) -> Report:
    """Check, and if there is damage, keep the rows before it.

    A damaged file is never written to: it is renamed to end in ``.damaged``; a table's damaged segment and, if rows of
    it are lost, all later ones move to a directory of such a name beside the table. The findings describe the state
    before, the other numbers the state after.

    Args:
        path: as for :func:`check`.

    Raises:
        Busy: the table is being written.
        InvalidArgument: it is a single segment of a table.
        NotFound, PermissionDenied, IoError: it could not be read.
    """

@final
class PartitionedWriter:
    """Appends rows of a partitioned table, each to its partition; made by :func:`writer` with ``partition_by``.

    A partition is opened when it gets rows, and is a table with one writer. A commit is atomic within one partition:
    readers, and a crash, may see it in one and not yet in another. As a context manager it commits at the end, or
    rolls back after an exception. Rows that are neither committed nor rolled back are a ``ResourceWarning`` when the
    writer is gone.
    """

    def append(self, data: Any) -> None:
        """Append rows: Arrow data, a dict of columns, row dicts, or a data frame, matched by column names.

        Raises:
            SchemaMismatch, ColumnNotFound, InvalidArgument: as for :meth:`Writer.append`. If rows of the same call
                already went to other partitions, nothing can be committed before :meth:`rollback`.
            Busy: another process writes one of the partitions; the message names it.
        """
    def append_row(self, **values: Any) -> None:
        """Append one row; columns not given are null. Appending many rows at once is much faster.

        Raises:
            InvalidArgument: a value is not of its column's type, or null in a non-nullable column; nothing was
                appended.
            ColumnNotFound: the table has no column of that name.
        """
    def commit(self, *, durable: bool = False) -> None:
        """Make all appended rows visible to readers, partition by partition; with `durable`, return once they would
        survive a power cut, and with them all that was committed to the partitions before this writer was made, but
        for partitions that another process is writing now.

        Raises:
            IoError: rows in partitions before the named one are committed.
        """
    def sync(self) -> None:
        """Bring all committed rows to the disk, as ``commit(durable=True)`` does: they survive a power cut once this
        returns."""
    def rollback(self) -> None:
        """Discard the rows appended since the last commit."""
    def close(self) -> None:
        """Commit, sync, and release the partitions to other writers; does nothing if already closed."""
    @property
    def schema(self) -> Schema:
        """Names and types of all columns, including those of the partitions."""
    @property
    def path(self) -> Path:
        """The directory of the partitions."""
    @property
    def num_open(self) -> int:
        """The number of open partitions, at most 64."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None: ...

def drop_partition(table: _Path, partition: dict[str, str | int | bool | date | None]) -> bool:
    """Remove a partition of a table, and its files: ``aw.drop_partition("ticks", {"host": "a1"})``; return whether it
    existed.

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
    """Change the schema of a table without a writer; return whether anything was changed.

    The change is a commit like any other. Existing rows are null in new columns, and are widened when they are read;
    open datasets don't change, and their :meth:`Dataset.refresh` has the new schema. Changes already made are
    skipped.

    Args:
        path: the table's directory, or a directory of partitions, each of which is changed by its own commit.
        add: columns to add after the others, as a schema of :func:`writer`: ``{"vol": "int64"}`` or ``"vol:
            int64"``.
        widen: columns and their wider types, such as ``{"qty": "int64"}`` for one of ``int32``.
        nullable: names of columns to make nullable.

    Raises:
        Busy: the table is being written; give the new schema to :func:`writer`.
        SchemaMismatch: a type is not wider, or a new column is ``not null``; the message names each.
        ColumnNotFound: a column to widen or to make nullable does not exist.
        NotFound: there is no table. For partitions, the error of the first that was not changed; the message names
            all of them.
    """

def compact(path: _Path, *, rewrite: bool = False, sort: bool = False) -> int:
    """Rewrite all segments of a table as dense Arrow files, without affecting readers; return the number of rewritten
    segments.

    Small segments are merged into one of up to `segment_rows` rows and 128 MiB, which is held in memory meanwhile.
    Rows keep their numbers. Other Arrow readers that list the directory meanwhile may find rows twice.

    Args:
        path: the table's directory.
        rewrite: give all segments the table's schema, including dense ones, after it was changed: see :func:`alter`.
            Otherwise each keeps its own.
        sort: first sort the rows of all segments by the column by which the table is sorted, so that late rows are
            in place; equal values keep their order, nulls are last. Row numbers change: a reader that has the table
            open gets `FileChanged` if it could meet other rows. Segments already in order stay as they are; the
            others are first written beside the table, and replaced in one step. Takes at most four bytes of memory
            per moved row, and one new segment of up to 128 MiB with sixteen bytes per row.

    Raises:
        Busy: the table is being written; use :meth:`Writer.compact`.
        InvalidArgument: `sort` for a table created without `sorted_by`.
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
        table: a table's directory, or a dataset of one.
        by: as in :meth:`Dataset.aggregate`.
        where: likewise; a condition on columns by their names.
        columns: likewise, except ``"median"`` and ``"n_unique"``, which would have to read all rows each time.

    Raises:
        NotFound: there is no table.
        ColumnNotFound: there is no such column.
        Unsupported: a type can't be grouped, or lacks the function; or the function needs all rows each time.
        InvalidArgument: there is no such function, two columns would have the same name, or a name means two things.
    """

def follow(
    table: _Path | Dataset | Sequence[_Path | Dataset],
    start: int | dict[str, int] | Sequence[int | dict[str, int] | None] | None = None,
    timeout: float | None = None,
) -> Follow:
    """Iterate over the new rows of a table: each dataset contains the rows committed since the previous one.

    For several tables, each dataset has rows of one of them, named by its :attr:`Dataset.path`; likewise for
    partitions, each row once and in order, including partitions created later. Rows dropped before they were read
    are an error: to continue without them, follow the table again from its :attr:`Dataset.first_row`.

    Args:
        table: a table's directory, or a dataset of one; or a list of those.
        start: the number of the first row to return, at most that of the next row to be committed; for several
            tables a list of those. By default only rows committed from now on. For a partitioned table 0, which is
            all rows, or :attr:`Follow.next_row` of an earlier follower: a partition that is not in it, as one that
            was renamed, begins with its first row. Leave out those that were sorted, or dropped and made again, since
            then: other rows have these numbers now.
        timeout: the seconds without new rows after which the iteration ends; by default it never ends.

    Raises:
        InvalidArgument: the dataset is not a whole table.
        NotFound: there is no table.
        RowOutOfRange: rows from `start` on were dropped, or the table ends before `start`; also during iteration, if
            the writer drops unread rows. The message has the number of existing or dropped rows.
    """
