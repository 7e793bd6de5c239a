"""Runs SQL over datasets with DuckDB."""

import ctypes
import glob
import os
import re
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from arrowwood import _arrowwood
from arrowwood._errors import InvalidArgument, Unsupported
from arrowwood._extras import engine

# Matches DuckDB's errors for an unknown table, and for a file in an unknown format.
_MISSING_TABLE_ERRORS = [
    re.compile(r"Catalog Error: Table with name (.+?) does not exist!", re.DOTALL),
    re.compile(r'Binder Error: No extension found that is capable of reading the file "(.+?)"(?:\n|$)', re.DOTALL),
]

# Keeps the database of this process, as creating one takes 15 to 20 ms, longer than most queries.
_database: list[Any] = []

# Seconds between checks whether a query was cancelled.
_CANCEL_POLL_SECONDS = 0.1

# Denies access to files and limits memory, for queries from the page of `arrowwood view`.
_SANDBOX_CONFIG = {
    "python_enable_replacements": False,
    "enable_external_access": False,
    "memory_limit": "1GB",
    "lock_configuration": True,
}

# Maps names without case, as DuckDB compares them, to names and tables.
_Sources = dict[str, tuple[str, "_arrowwood.Dataset"]]


def _leak_database() -> None:
    """Leaks the database in a forked child: closing it would wait forever for threads that don't exist there."""
    if _database:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_database.pop()))


if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=_leak_database)


def sql(query: str, /, **tables: Any) -> "_arrowwood.Dataset":
    """Query tables with SQL, by DuckDB: ``aw.sql('select symbol, avg(price) from "ticks/" group by 1')``.

    A table is referred to by its name in `tables`, or by its path in quotes: any source of ``open``, and Parquet, CSV
    and JSON files, which DuckDB reads. A path is opened if DuckDB has no table of that name; names are not
    case-sensitive. DuckDB reads our columns in place, and only those that it needs; a growing table is used as of now.
    Tables created by the query are dropped afterwards, also in databases that it attaches; files written by
    ``copy … to`` stay. If several threads run queries, create tables as ``temp``.

    Args:
        query: one statement or several; the rows of the last one are the result.
        tables: datasets, paths, or anything that exports Arrow data, such as data frames.

    Raises:
        ImportError: DuckDB is not installed: ``pip install 'arrowwood[sql]'``.
        duckdb.Error: the query is invalid, with DuckDB's message; or values are damaged, with ours.
        NotFound, PermissionDenied, InvalidData: a table cannot be opened.
        InvalidArgument: two tables have names that differ only in case; or there is no statement.
        Unsupported: DuckDB lacks the type of a column.
    """
    duckdb = engine("duckdb", "sql()", "sql")
    sources: _Sources = {}
    for name, table in tables.items():
        _add_source(sources, name, _open_table(name, table))
    # A failed query is rolled back, so it can be run again.
    while True:
        try:
            return _run_query(duckdb, query, sources)
        except (duckdb.CatalogException, duckdb.BinderException) as error:
            path = _missing_path(str(error), query, sources)
            if path is None:
                _note_missing_file(error, query)
                raise
        _refuse_other_case(path, query)
        _add_source(sources, path, _arrowwood.open(path))


def _run_query(duckdb: Any, query: str, sources: _Sources) -> "_arrowwood.Dataset":
    cursor = _new_cursor(duckdb)
    try:
        for name, table in sources.values():
            _register(duckdb, cursor, name, table)
        cursor.begin()
        relation = cursor.sql(query)
        if relation is None:
            raise InvalidArgument("sql(): there is no statement in the query; expected one, such as select * from self")
        return _arrowwood.from_arrow(relation)
    finally:
        # Closing also rolls back.
        cursor.close()


def query_file(
    query: str, path: os.PathLike[str], max_rows: int, is_cancelled: Callable[[], bool]
) -> "_arrowwood.Dataset":
    """Returns at most `max_rows` rows of a query over the data at `path`, whose table is called ``self``.

    The statement can't read anything else, and can't write.
    """
    duckdb = engine("duckdb", "SQL", "sql")
    statements = duckdb.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InvalidArgument("expected one statement that only asks, such as select * from self limit 10")
    is_finished = threading.Event()
    with duckdb.connect(config=_SANDBOX_CONFIG) as connection:
        _register(duckdb, connection, "self", _arrowwood.open(path))
        interrupter = threading.Thread(
            target=_interrupt_when_cancelled,
            args=(connection, is_finished, is_cancelled),
            name="arrowwood-sql",
            daemon=True,
        )
        interrupter.start()
        try:
            return _arrowwood.from_arrow(connection.sql(statements[0].query).limit(max_rows))
        finally:
            is_finished.set()
            interrupter.join()


def _interrupt_when_cancelled(connection: Any, is_finished: threading.Event, is_cancelled: Callable[[], bool]) -> None:
    """Interrupts the query of `connection` if it is cancelled before it is finished."""
    while not is_finished.wait(_CANCEL_POLL_SECONDS):
        if is_cancelled():
            connection.interrupt()


def _new_cursor(duckdb: Any) -> Any:
    """Returns a cursor of the shared, empty database, which doesn't read Python's variables as tables."""
    if not _database:
        _database.append(duckdb.connect(config={"python_enable_replacements": False}))
    return _database[0].cursor()


def _with_row_count(table: "_arrowwood.Dataset") -> Any:
    """Wraps `table` so that DuckDB knows its number of rows, by which it plans joins.

    DuckDB assumes one row for anything but a pyarrow table.
    """
    table_class = _table_class()
    return table if table_class is None else table_class(table)


@cache
def _table_class() -> Any:
    """Returns a subclass of pyarrow's table that reads a dataset.

    Returns ``None`` for versions of DuckDB that may call other methods, as the class contains no pyarrow table.
    """
    from duckdb import __version__ as version

    try:
        import pyarrow as pa
    except ImportError:
        return None
    if not version.startswith("2.0."):
        return None

    class Table(pa.Table):  # type: ignore[misc]
        """Shows a dataset to DuckDB as a table: its schema, its number of rows, and streams of its columns."""

        def __new__(cls, dataset: "_arrowwood.Dataset") -> "Table":
            self: Table = super().__new__(cls)
            return self

        def __init__(self, dataset: "_arrowwood.Dataset") -> None:
            names = dataset.columns
            columns = dataset._with_names([str(number) for number in range(len(names))])

            def select(numbers: list[int]) -> "_arrowwood.Dataset":
                # Selects by number, as two columns may have the same name.
                return columns.select([str(number) for number in numbers])._with_names([names[n] for n in numbers])

            self._attributes = {
                "num_rows": len(dataset),
                "select": select,
                "__arrow_c_schema__": dataset.__arrow_c_schema__,
                "__arrow_c_stream__": dataset.__arrow_c_stream__,
                "__class__": type(self),
            }

        def __getattribute__(self, name: str) -> Any:
            attributes = object.__getattribute__(self, "__dict__").get("_attributes", {})
            if name in attributes:
                return attributes[name]
            raise AttributeError(name)

        def __len__(self) -> int:
            return int(self.num_rows)

        def __repr__(self) -> str:
            return f"<{len(self)} rows for DuckDB>"

        __hash__ = object.__hash__
        __eq__ = object.__eq__
        __getitem__ = __reduce__ = __sizeof__ = None  # type: ignore[assignment]

    return Table


def _register(duckdb: Any, cursor: Any, name: str, table: "_arrowwood.Dataset") -> None:
    try:
        cursor.register(name, _with_row_count(table))
    except duckdb.NotImplementedException as error:
        for field in table.schema:
            try:
                cursor.register(name, table.head(0).select([field.name]))
            except duckdb.NotImplementedException:
                raise Unsupported(
                    f"sql(): DuckDB doesn't know the type of column {field.name!r} of {name}, {field.type} ({error}); "
                    f"leave it out: ds.select([…]).sql(…)"
                ) from None
        raise


def _open_table(name: str, table: Any) -> "_arrowwood.Dataset":
    if isinstance(table, str | os.PathLike):
        return _arrowwood.open(table)
    if isinstance(table, list | tuple):
        advice = 'queries have no parameters: ds.filter(aw.col("x") == value).sql(…), or a table of values to join: pa.table({"x": […]})'
        raise TypeError(f"sql(): {name} is a table by its name, got {type(table).__name__}; {advice}")
    return _arrowwood.from_arrow(table)


def _add_source(sources: _Sources, name: str, table: "_arrowwood.Dataset") -> None:
    other, _ = sources.setdefault(name.casefold(), (name, table))
    if other != name:
        raise _same_name_error(other, name)


def _same_name_error(name: str, other: str) -> InvalidArgument:
    return InvalidArgument(
        f"sql(): {name!r} and {other!r} are one name to DuckDB, which ignores case; "
        "give them names of their own: aw.sql(…, a=…, b=…)"
    )


def _missing_path(error: str, query: str, sources: _Sources) -> str | None:
    """Returns a path that `query` has in quotes, if the only problem is that it is not a table yet."""
    name = _missing_table(error)
    if name is None:
        return None
    known_name, _ = sources.get(name.casefold(), ("", None))
    is_missing_path = name != known_name and name in _quoted_spellings(name, query) and _is_path(name)
    return name if is_missing_path else None


def _missing_table(error: str) -> str | None:
    """Returns the name of the table that DuckDB doesn't know, if this is the error."""
    for pattern in _MISSING_TABLE_ERRORS:
        match = pattern.match(error)
        if match is not None:
            return match[1]
    return None


def _note_missing_file(error: Exception, query: str) -> None:
    """Adds a note to DuckDB's error for an unknown table, if the name can only mean a file: it is missing, too."""
    name = _missing_table(str(error))
    if name is not None and name in _quoted_spellings(name, query) and re.search(r"[/.]", name):
        error.add_note(f"There is no file {name!r} either; relative paths begin in {os.getcwd()}.")


def _is_path(name: str) -> bool:
    return os.path.exists(name) or glob.has_magic(name) and bool(glob.glob(name))


def _quoted_spellings(name: str, query: str) -> list[str]:
    """Returns the quoted texts in `query` that equal `name` except for case."""
    spellings = []
    for quote in "\"'":
        pattern = re.escape(quote + name.replace(quote, quote * 2) + quote)
        texts = re.findall(pattern, query, re.IGNORECASE)
        spellings += [text[1:-1].replace(quote * 2, quote) for text in texts]
    return spellings


def _refuse_other_case(path: str, query: str) -> None:
    """Refuses paths that differ only in case: DuckDB would read the first in place of the second."""
    for other in _quoted_spellings(path, query):
        is_same = os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)
        if other != path and _is_path(other) and not is_same:
            raise _same_name_error(path, other)
