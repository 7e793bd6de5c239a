"""SQL over datasets, by DuckDB."""

import ctypes
import glob
import os
import re
from typing import Any

from arrowwood import _arrowwood
from arrowwood._errors import Error, InvalidArgument
from arrowwood._extras import engine

# Names in quotes, as SQL has them; a quote in a name is doubled.
_QUOTED = re.compile(r'"((?:[^"]|"")+)"|\'((?:[^\']|\'\')+)\'')

# The database of this process, as making one takes longer than most queries.
_database: list[Any] = []


def _after_fork() -> None:
    """DuckDB's threads do not exist in a forked child, and closing their database would wait for them for ever."""
    if _database:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_database.pop()))


os.register_at_fork(after_in_child=_after_fork)


def sql(query: str, /, **tables: Any) -> "_arrowwood.Dataset":
    """Ask tables in SQL, by DuckDB: ``aw.sql('select symbol, avg(price) from "ticks/" group by 1')``.

    A table is called by the name that it is given as, or by its path in quotes: what ``open`` takes, and Parquet, CSV and
    JSON files, which DuckDB reads. DuckDB reads our columns in place, only those that it needs; a table that grows is
    taken as it is now. What the query makes is gone afterwards;
    where threads ask at once it should be ``temp``.

    Args:
        query: one statement or several; the rows of the last one are the result.
        tables: datasets, paths, or anything that exports Arrow data, such as data frames.

    Raises:
        ImportError: DuckDB is not installed: ``pip install 'arrowwood[sql]'``.
        duckdb.Error: something is wrong with the query, in DuckDB's words; or values are damaged, in ours.
        NotFound, PermissionDenied, InvalidData: a table cannot be opened.
    """
    duckdb = engine("duckdb", "sql()", "sql")
    sources = {name: _opened(table) for name, table in tables.items()}
    failures = _open_paths(query, sources)
    try:
        return _answer(_connected(duckdb), query, sources)
    except (duckdb.CatalogException, duckdb.BinderException) as problem:
        # Why a file could not be opened says more than that there is no such table.
        named = [failure for name, failure in failures.items() if name in str(problem)]
        raise (named or [problem])[0] from None


def _answer(cursor: Any, query: str, sources: dict[str, Any]) -> "_arrowwood.Dataset":
    try:
        for name, source in sources.items():
            cursor.register(name, source)
        cursor.begin()
        relation = cursor.sql(query)
        if relation is None:
            raise InvalidArgument("sql(): there is no statement in the query; expected one, such as select * from self")
        return _arrowwood.from_arrow(relation)
    finally:
        # Rolls back as well.
        cursor.close()


def _connected(duckdb: Any) -> Any:
    """A connection that shares nothing but the database with others, which is empty."""
    if not _database:
        _database.append(duckdb.connect())
    return _database[0].cursor()


def _opened(table: Any) -> "_arrowwood.Dataset":
    if isinstance(table, str | os.PathLike):
        return _arrowwood.open(table)
    return _arrowwood.from_arrow(table)


def _open_paths(query: str, sources: dict[str, Any]) -> dict[str, Error]:
    """Add what `query` names by its path, and say what could not be opened."""
    failures = {}
    for quoted in _QUOTED.finditer(query):
        name = (quoted[1] or quoted[2]).replace('""' if quoted[1] else "''", quoted[0][0])
        is_there = os.path.isfile(name) or os.path.isdir(name) or glob.has_magic(name) and glob.glob(name)
        if name in sources or not is_there:
            continue
        try:
            sources[name] = _arrowwood.open(name)
        except Error as failure:
            failures[name] = failure
    return failures
