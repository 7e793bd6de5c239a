"""Reads and writes tables on other machines, which ``arrowwood serve`` serves."""

import asyncio
import concurrent.futures
import http.client
import io
import ipaddress
import json
import os
import random
import selectors
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import IO, Any, Literal, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from arrowwood import _arrowwood
from arrowwood._errors import (
    Busy,
    Closed,
    Error,
    FileChanged,
    InvalidArgument,
    IoError,
    NotFound,
    PermissionDenied,
    RowOutOfRange,
    SchemaMismatch,
    Unsupported,
)

_T = TypeVar("_T")
_STREAM = "application/vnd.apache.arrow.stream"
_TEXT = "text/plain; charset=utf-8"
# Limits responses that are read into memory as a whole: table facts and errors.
_MAX_JSON_BYTES = 16 << 20
# Seconds between attempts, which double from the first to the longest.
_FIRST_PAUSE_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 2.0
# Seconds without a request after which to reconnect: servers close idle connections, and a client can't know whether a
# request over a connection that is being closed was processed.
_MAX_IDLE_SECONDS = 30.0
# Detects a server that vanished without closing the connection: 3 probes 15 s apart, after 45 s of silence.
# TCP_KEEPALIVE is TCP_KEEPIDLE on macOS.
_KEEPALIVE = [
    (getattr(socket, name), value)
    for name, value in {"TCP_KEEPIDLE": 45, "TCP_KEEPALIVE": 45, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}.items()
    if hasattr(socket, name)
]
# The server refuses larger bodies.
_MAX_BODY_BYTES = 64 << 20

_ERRORS_BY_STATUS: dict[int, type[Error]] = {
    401: PermissionDenied,
    403: PermissionDenied,
    404: NotFound,
    406: Unsupported,
    408: IoError,
    410: RowOutOfRange,
    416: RowOutOfRange,
    421: PermissionDenied,
    501: Unsupported,
}
_ERRORS_BY_CODE: dict[str, type[Error]] = {
    "schema_mismatch": SchemaMismatch,
    "busy": Busy,
    "old_epoch": Closed,
    "file_changed": FileChanged,
}


def connect(
    url: str, *, token: str | None = None, cafile: str | None = None, timeout: float = 30.0, insecure: bool = False
) -> "Connection":
    """Connect to a server of tables, ``arrowwood serve``: ``aw.connect("https://data:7447", token=…)["ticks"][-10:]``.

    Nothing is sent until a table is used. A connection may be used by several threads; they take turns.

    Args:
        url: the URL printed by the server, ``http://HOST:PORT`` or ``https://HOST:PORT``.
        token: the token printed by ``arrowwood token add``.
        cafile: a PEM file with the certificates to trust; by default those of the system.
        timeout: the seconds to wait for the server to connect and to answer.
        insecure: whether to send a token without TLS to another machine, where others can read it.

    Raises:
        InvalidArgument: the URL is not that of a server; or a token would be sent without TLS.
    """
    return Connection(url, token=token, cafile=cafile, timeout=timeout, insecure=insecure)


class Connection:
    """A server of tables, made by :func:`connect`. ``connection["ticks"]`` is a table of it."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        cafile: str | None = None,
        timeout: float = 30.0,
        insecure: bool = False,
    ) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise InvalidArgument(f"{url!r}: {error}; expected http://HOST:PORT or https://HOST:PORT") from None
        if parts.scheme not in ("http", "https") or not host or parts.path not in ("", "/") or parts.query:
            raise InvalidArgument(f"{url!r} is not the URL of a server; expected http://HOST:PORT or https://HOST:PORT")
        if parts.username is not None or parts.password is not None:
            raise InvalidArgument("a URL with a user or a password; pass the token as token=")
        if token is not None and parts.scheme == "http" and not insecure and not _is_loopback(host):
            message = (
                f"the token would be sent to {host} without TLS, where others can read it; use https, or insecure=True"
            )
            raise InvalidArgument(message)
        self._host = host
        self._port = port
        self._timeout = timeout
        self._token = token
        self._tls = ssl.create_default_context(cafile=cafile) if parts.scheme == "https" else None
        self.url: str = f"{parts.scheme}://{parts.netloc}"
        self._lock = threading.Lock()
        self._idle_connection: http.client.HTTPConnection | None = None
        self._last_used = 0.0

    def tables(self) -> list[str]:
        """The names of the tables and files that the token may read or write, in order.

        Raises:
            IoError: the server can't be reached.
            PermissionDenied: the token is not valid, or there is none.
        """
        response = _JsonObject(self, self._json("GET", "/v1/tables"))
        return [_JsonObject(self, table).text("name") for table in response.list("tables")]

    def __getitem__(self, name: str) -> "RemoteTable":
        if not isinstance(name, str):
            raise TypeError(f"a table's name is expected, got {type(name).__name__}")
        return RemoteTable(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    def __contains__(self, name: object) -> bool:
        return name in self.tables()

    def create(
        self,
        name: str,
        schema: Any,
        *,
        dictionary: Sequence[str] = (),
        sorted_by: str | None = None,
        late: str | None = None,
        index: Sequence[str] = (),
    ) -> "RemoteTable":
        """Make a table, or find that it is there with that schema.

        Args:
            name: the table's name.
            schema: names and types of its columns as text, such as ``"ts: timestamp[us] not null, price: float64"``, or
                anything else that :func:`writer` takes.
            dictionary: names of text columns to store as ``dictionary<int32, utf8>``.
            sorted_by: a column whose values never decrease.
            late: what becomes of rows that are less than those before in that column: ``"refuse"`` or ``"accept"``.
            index: names of columns to find rows by.

        Raises:
            SchemaMismatch: the table is there with another schema, order or treatment of late rows.
            InvalidArgument: the name or the schema is not valid.
            PermissionDenied: the token may not write it.
        """
        options = {"dictionary": ",".join(dictionary)} if dictionary else {}
        if sorted_by is not None:
            options["sorted_by"] = sorted_by
        if late is not None:
            options["late"] = late
        if index:
            options["index"] = ",".join(index)
        body, media_type = _schema_body(schema)
        self._json("PUT", _path(name) + _query(options), body, {"Content-Type": media_type})
        return self[name]

    def close(self) -> None:
        """Close the connection; it is opened again when it is used again."""
        with self._lock:
            self._disconnect()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<arrowwood.Connection {self.url}>"

    # ---- requests ----

    def _disconnect(self) -> None:
        if self._idle_connection is not None:
            self._idle_connection.close()
            self._idle_connection = None

    def _is_stale(self, connection: http.client.HTTPConnection) -> bool:
        return time.monotonic() - self._last_used > _MAX_IDLE_SECONDS or _is_closed_by_peer(connection)

    def _open(self) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _send(
        self,
        http_connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        """Sends a request, and raises the error of its status."""
        if self._token is not None:
            headers = {"Authorization": f"Bearer {self._token}", **headers}
        http_connection.request(method, path, body, headers)
        response = http_connection.getresponse()
        if response.status >= 400:
            raise _error_from_response(response, path)
        return response

    def _json(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Any:
        """Returns the response to a small request over the idle connection. Resends only reads."""
        with self._lock:
            if self._idle_connection is not None and self._is_stale(self._idle_connection):
                self._disconnect()
            for attempt in range(2):
                is_fresh = self._idle_connection is None
                self._idle_connection = self._idle_connection or self._open()
                try:
                    response = self._send(self._idle_connection, method, path, body, headers or {})
                    content = json.loads(response.read(_MAX_JSON_BYTES))
                    self._last_used = time.monotonic()
                    return content
                except (OSError, http.client.HTTPException, ValueError) as error:
                    # An error response leaves the connection open, except after a body: the server closes it if it
                    # refused the body unread.
                    if isinstance(error, Error):
                        if body is not None:
                            self._disconnect()
                        raise
                    self._disconnect()
                    # The server may have closed an idle connection at this moment: retry reads.
                    if is_fresh or method != "GET" or attempt == 1:
                        raise self._unreachable(error) from None
            raise AssertionError("two attempts")

    def _unreachable(self, error: Exception) -> IoError:
        reason = str(error) or type(error).__name__
        return IoError(
            f"asking {self.url}: {reason}; is `arrowwood serve` running there?", errno=getattr(error, "errno", None)
        )


def _schema_body(schema: Any) -> tuple[bytes, str]:
    """Returns `schema` as a body with its media type: text if that loses nothing, else an Arrow stream without rows."""
    if isinstance(schema, str):
        return schema.encode(), _TEXT
    fields = list(_arrowwood.Builder(schema).schema)
    text = "\n".join(_field_text(field) for field in fields)
    try:
        is_lossless = list(_arrowwood.Builder(text).schema) == fields
    except InvalidArgument:
        is_lossless = False
    if is_lossless:
        return text.encode(), _TEXT
    sink = io.BytesIO()
    _arrowwood.write(_arrowwood.Builder(schema).finish(), sink, format="stream")
    return sink.getvalue(), _STREAM


def _field_text(field: "_arrowwood.Field") -> str:
    name = field.name.replace('"', '""')
    return f'"{name}": {field.type}' + ("" if field.nullable else " not null")


class RemoteTable:
    """A table or file of a server, ``aw.connect(url)["ticks"]``. Creating it sends no request.

    Rows have the numbers of the table: if its first rows were dropped, they don't begin with 0.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.name: str = name

    @property
    def _facts(self) -> "_JsonObject":
        return _JsonObject(self._connection, self._connection._json("GET", _path(self.name)))

    @property
    def schema(self) -> "_arrowwood.Schema":
        """Names and types of the columns."""
        with _StreamResponse(self._connection, _path(self.name) + "/rows?limit=0") as response:
            return response.stream().schema

    @property
    def first_row(self) -> int:
        """The number of the first row that was not dropped."""
        return self._facts.number("first_row")

    @property
    def durable_rows(self) -> int:
        """The number of the row after the last one that would survive a power cut."""
        facts = self._facts
        return facts.number("durable_end" if facts.has("durable_end") else "end")

    @property
    def path(self) -> str | None:
        """Where its files are, if they are this machine's and can be opened; ``None`` if not."""
        facts = self._facts
        path = facts.text("path") if facts.has("path") else None
        if path is None or not os.access(path, os.R_OK):
            return None
        # Through a tunnel, the server may be on another machine, where the path names another file.
        return path if facts.has("place") and facts.text("place") == _arrowwood._place_of(path) else None

    def __len__(self) -> int:
        facts = self._facts
        return facts.number("end") - facts.number("first_row")

    def open(self) -> "_arrowwood.Dataset":
        """The table as a dataset: its files, mapped, if they are on this machine; else all rows, fetched into memory.

        Raises:
            NotFound: the server has no such table.
            IoError: the server can't be reached.
            PermissionDenied: the token may not read it.
        """
        path = self.path
        return self.rows() if path is None else _arrowwood.open(path)

    def rows(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> "_arrowwood.Dataset":
        """Fetch rows from number `start` up to but not including `stop` into memory.

        Args:
            start: the number of the first row; negative numbers count from the end.
            stop: the number of the row after the last one; negative numbers count from the end.
            columns: the names of the columns to fetch; by default all.
            where: a condition, such as ``"price > 100 and symbol in ('IBM', 'AAPL')"``, evaluated by the server.
            limit: the maximum number of rows; with `where`, of matching rows.

        Raises:
            RowOutOfRange: rows were dropped, or do not exist yet.
            ColumnNotFound, InvalidArgument: the columns or the condition don't fit the table.
            NotFound, IoError, PermissionDenied: as :meth:`open`.
        """
        options: list[tuple[str, object]] = [("column", name) for name in columns or []]
        parameters = {"from": start, "to": stop, "where": where, "limit": limit}
        options += [(name, value) for name, value in parameters.items() if value is not None]
        with _StreamResponse(self._connection, f"{_path(self.name)}/rows{_query(options)}") as response:
            return response.read_all()

    def __getitem__(self, rows: slice) -> "_arrowwood.Dataset":
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(
                "a slice of rows is expected, such as table[-10:]; table.rows() takes columns and conditions"
            )
        return self.rows(rows.start, rows.stop)

    def follow(
        self,
        start: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        durable: bool = False,
        timeout: float | None = None,
    ) -> "RemoteFollow":
        """Iterate over new rows, in order and each once, even across broken connections.

        Args:
            start: the number of the first row; by default only rows committed from now on.
            columns: the names of the columns to fetch; by default all.
            durable: whether to wait until rows would survive a power cut, so that a copy is never ahead of the table.
            timeout: the seconds without new rows after which the iteration ends; by default it never ends.

        Raises:
            RowOutOfRange: rows from `start` on were dropped, also during iteration.
            FileChanged: during iteration, the table was replaced, or its rows were sorted, so that row numbers changed.
            NotFound, PermissionDenied: also during iteration, if the table is removed or the token is revoked.
        """
        return RemoteFollow(self, start, columns=columns, durable=durable, timeout=timeout)

    def writer(
        self,
        producer: str | None = None,
        *,
        epoch: int = 0,
        ack: Literal["durable", "visible"] = "durable",
        retry: float = 60.0,
    ) -> "RemoteWriter":
        """Append rows through the server, which puts those of any number of producers in order.

        Args:
            producer: a name unique among the table's producers, of 1 to 200 visible ASCII characters. Commits are then
                numbered: if an answer is lost, the commit is sent again, and is in the table once.
            epoch: the incarnation of the producer; one with a larger number shuts out earlier ones.
            ack: when a commit returns: once its rows would survive a power cut, or once readers see them.
            retry: the seconds for which a numbered commit is resent while the server can't be reached.

        Raises:
            NotFound, IoError: as :meth:`open`.
            PermissionDenied: the token may not write the table; the right to read is not needed.
        """
        return RemoteWriter(self, producer, epoch=epoch, ack=ack, retry=retry)

    def async_writer(
        self,
        producer: str | None = None,
        *,
        epoch: int = 0,
        ack: Literal["durable", "visible"] = "durable",
        retry: float = 60.0,
    ) -> "AsyncRemoteWriter":
        """Append rows from coroutines, as :meth:`writer` does: ``async with ticks.async_writer("s1") as writer: …``.

        Args:
            producer: as for :meth:`writer`, like the other arguments.

        Raises:
            NotFound, IoError, PermissionDenied: as :meth:`writer`, by ``async with``.
        """
        return AsyncRemoteWriter(self, producer, epoch=epoch, ack=ack, retry=retry)

    def __repr__(self) -> str:
        return f"<arrowwood.RemoteTable {self._connection.url}{_path(self.name)}>"


class RemoteFollow:
    """Iterates over new rows of a server's table, dataset by dataset; made by :meth:`RemoteTable.follow`.

    It can be used with ``with``, which closes it, and with ``async for``, which waits in a thread of its own. Rows that
    arrive while the waiting task is cancelled are kept for the next one. Threads that share it take turns.
    """

    def __init__(
        self,
        table: RemoteTable,
        start: int | None,
        *,
        columns: Sequence[str] | None = None,
        durable: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._table = table
        self._timeout = timeout
        self._options: list[tuple[str, object]] = [("column", name) for name in columns or []]
        if durable:
            self._options.append(("durable", "true"))
        self._response: _StreamResponse | None = None
        self._stream: _arrowwood.StreamReader | None = None
        self._is_closed = False
        # Held by the thread that reads the stream or requests another one.
        self._read_lock = threading.Lock()
        # The read that a task awaits; if the task is cancelled, the next one takes it over.
        self._pending: concurrent.futures.Future[_arrowwood.Dataset | None] | None = None
        self._next = start
        # Identifies the numbering of the rows; set by the first response.
        self._numbering: str | None = None
        self._begin()

    @property
    def next_row(self) -> int:
        """The number of the row after the last returned one, for resuming later."""
        assert self._next is not None, "the first response has the number"
        return self._next

    def _begin(self) -> None:
        """Requests the rows from the next one on."""
        options = list(self._options)
        if self._next is not None:
            options.append(("from", self._next))
        if self._numbering is not None:
            options.append(("numbering", self._numbering))
        connection = self._table._connection
        self._response = _StreamResponse(
            connection, f"{_path(self._table.name)}/follow{_query(options)}", self._timeout
        )
        self._next = self._response.number("Arrowwood-First-Row")
        self._numbering = self._response.text("Arrowwood-Numbering")
        self._stream = self._response.stream()

    def _end(self) -> None:
        """Closes the response; the next read requests another one."""
        if self._response is not None:
            self._response.close()
        self._response = self._stream = None

    def __iter__(self) -> "RemoteFollow":
        return self

    def __next__(self) -> "_arrowwood.Dataset":
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        if not self._read_lock.acquire(timeout=-1 if self._timeout is None else self._timeout):
            raise StopIteration
        try:
            return self._read_rows(deadline)
        finally:
            self._read_lock.release()

    def _read_rows(self, deadline: float | None) -> "_arrowwood.Dataset":
        """Returns the next rows; reconnects if the connection breaks."""
        pauses = _backoff_pauses()
        while not self._is_closed:
            try:
                if self._stream is None:
                    self._begin()
                assert self._stream is not None, "begun"
                rows = next(self._stream, None)
                if rows is not None and len(rows) > 0:
                    assert self._next is not None, "the response has begun"
                    self._next += len(rows)
                    return rows
                if rows is not None:
                    continue
                # The server has stopped or the table was removed: another attempt finds out which.
                self._end()
            except (Error, OSError, http.client.HTTPException) as error:
                is_timed_out = self._response is not None and self._response.is_timed_out
                self._end()
                if self._is_closed or (is_timed_out and deadline is not None):
                    break
                if isinstance(error, Error) and not isinstance(error, IoError | Busy):
                    raise
            pause = next(pauses)
            if deadline is not None and time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)
        raise StopIteration

    def __aiter__(self) -> "RemoteFollow":
        return self

    async def __anext__(self) -> "_arrowwood.Dataset":
        while True:
            if self._pending is None:
                self._pending = _run_in_thread(lambda: next(self, None))
            pending = self._pending
            await _wait_for(pending)
            # Only one of several waiting tasks gets the rows.
            if self._pending is pending:
                self._pending = None
                break
        rows = pending.result()
        if rows is None:
            raise StopAsyncIteration
        return rows

    def close(self) -> None:
        """End the iteration, even if it waits in another thread or task; does nothing if already closed."""
        self._is_closed = True
        response = self._response
        if response is not None:
            response.shut()

    def __enter__(self) -> "RemoteFollow":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()


class RemoteWriter:
    """Appends rows to a server's table, made by :meth:`RemoteTable.writer`.

    Rows are gathered, and sent by :meth:`commit`: all of them or none. Used with ``with``, it commits at the end, and
    forgets what was appended when there was an exception.
    """

    def __init__(
        self,
        table: RemoteTable,
        producer: str | None,
        *,
        epoch: int = 0,
        ack: Literal["durable", "visible"] = "durable",
        retry: float = 60.0,
    ) -> None:
        if ack not in ("durable", "visible"):
            raise InvalidArgument(f"ack: 'durable' or 'visible' is expected, got {ack!r}")
        self._table = table
        self._producer = producer
        self._epoch = epoch
        self._ack = ack
        self._retry = retry
        if not table._facts.flag("writable"):
            raise PermissionDenied(
                f"{_path(table.name)}: the token may not write it, or the server is read-only, or it is no table"
            )
        self._schema = table.schema
        self._rows: _arrowwood.Builder | None = None
        # The unacknowledged commit, and whether its rows may be in the table.
        self._body: bytes | None = None
        self._is_sent = False
        # The number of the next commit. After rollback() of a sent commit, only the server knows it.
        self._sequence = self._next_sequence()
        self._is_sequence_known = True
        self.durable_rows: int = 0
        self._owner_pid = os.getpid()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        # A forked copy doesn't own the rows, which its parent may still commit. If __init__ has failed, there is no
        # `_owner_pid`.
        if getattr(self, "_owner_pid", None) != os.getpid():
            return
        if self._body is not None or self._rows is not None and len(self._rows) > 0:
            warning = (
                "rows that were appended and not committed are discarded; call commit() or close(), or use the writer"
            )
            message = f"{_path(self._table.name)}: {warning} in a with block; rollback() discards them without a word"
            _warn(message, ResourceWarning, source=self)

    def _next_sequence(self) -> int:
        """Asks the server for the number of the next commit."""
        if self._producer is None:
            return 0
        path = f"{_path(self._table.name)}/producers/{quote(self._producer, safe='')}"
        connection = self._table._connection
        try:
            return _JsonObject(connection, connection._json("GET", path)).number("sequence") + 1
        except NotFound:
            return 0

    @property
    def sequence(self) -> int:
        """The number of the next commit of this producer; what has a smaller one is in the table."""
        return self._sequence

    def _builder(self) -> "_arrowwood.Builder":
        """Returns the builder of the next commit."""
        if self._body is not None:
            message = "the last commit was not acknowledged; before more rows are appended commit() sends it again, rollback() gives it up"
            raise Busy(message)
        if self._rows is None:
            self._rows = _arrowwood.Builder(self._schema)
        return self._rows

    def append(self, data: Any) -> None:
        """Append rows: any data accepted by :meth:`Writer.append`.

        Raises:
            SchemaMismatch, ColumnNotFound, InvalidArgument: as :meth:`Writer.append`; nothing was appended.
            Busy: the last commit was not acknowledged; call :meth:`commit` again, which sends its rows, or
                :meth:`rollback`, which discards them.
        """
        self._builder().append(data)

    def append_row(self, **values: Any) -> None:
        """Append one row; a column that is not named is null.

        Raises:
            ColumnNotFound, InvalidArgument, Busy: as :meth:`append`.
        """
        self._builder().append_row(**values)

    def commit(self, *, again: bool = False) -> int | None:
        """Send appended rows; return the number of the first row, or ``None`` if it is unknown or there are no rows.

        Unacknowledged rows are kept, and sent by the next call, unless :meth:`rollback` discards them. Those of a named
        producer keep their number, and are in the table once.

        Args:
            again: without a name: whether to resend rows that may already be in the table.

        Raises:
            IoError: the server can't be reached, or its answer was lost. Without a name it is then unknown whether the
                rows are in the table, and each further call raises this, except ``commit(again=True)``.
            Busy: another writer has the table; the rows are not in it, and are kept.
            Closed: a producer with a larger epoch has taken over, or another writer with the same name has sent a
                commit of that number: give each a unique name, or an epoch. The rows are not in the table.
            PermissionDenied, NotFound: the token was revoked or the table removed; the rows are kept.
            SchemaMismatch, InvalidArgument: the server has refused the rows; they are discarded.
        """
        if self._body is None:
            if self._rows is None or len(self._rows) == 0:
                return None
            rows = self._rows.finish()
            self._rows = None
            body = _encode_stream(rows)
            if len(body) > _MAX_BODY_BYTES:
                raise InvalidArgument(
                    f"{len(body)} bytes in one commit, a server takes {_MAX_BODY_BYTES} at most; commit more often"
                )
            self._body = body
            self._is_sent = False
        elif self._is_sent and self._producer is None and not again:
            message = "the last commit was not answered, so its rows may be in the table or not"
            raise IoError(
                f"{message}: commit(again=True) sends them again, rollback() gives them up; a producer's name avoids this"
            )
        response = self._send(self._body)
        self._body = None
        self._sequence += 1
        self.durable_rows = response.number("durable")
        return response.number("first_row") if response.has("first_row") else None

    def _send(self, body: bytes) -> "_JsonObject":
        """Sends `body` until it is answered; if this raises, its rows may be in the table."""
        connection = self._table._connection
        deadline = time.monotonic() + self._retry
        pauses = _backoff_pauses()
        while True:
            was_sent = self._is_sent
            try:
                headers = self._headers()
                self._is_sent = True
                response = _JsonObject(
                    connection, connection._json("POST", f"{_path(self._table.name)}/rows", body, headers)
                )
                break
            except Error as error:
                # Errors other than IoError are responses: the server did not take the rows this time.
                if not isinstance(error, IoError):
                    self._is_sent = was_sent
                if isinstance(error, SchemaMismatch | InvalidArgument):
                    self._discard_sent_rows()
                pause = next(pauses)
                can_retry = isinstance(error, IoError | Busy) and self._producer is not None
                if not can_retry or time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause)
        if response.flag("duplicate") and not was_sent:
            self._is_sent = False
            message = (
                f"commit {self._sequence} of producer {self._producer!r} was sent by another writer that uses the name"
            )
            raise Closed(f"{message}; these rows are not in the table: give each writer a name of its own, or an epoch")
        return response

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": _STREAM, "Ack": self._ack}
        if self._producer is None:
            return headers
        if not self._is_sequence_known:
            self._sequence = self._next_sequence()
            self._is_sequence_known = True
        return headers | {
            "Producer": self._producer,
            "Producer-Epoch": str(self._epoch),
            "Producer-Sequence": str(self._sequence),
        }

    def _discard_sent_rows(self) -> None:
        """Discards the sent rows. If they are in the table, they have the number of the next commit."""
        if self._body is not None and self._is_sent:
            self._is_sequence_known = False
        self._body = None
        self._is_sent = False

    def rollback(self) -> None:
        """Discard unacknowledged rows; after a lost answer, the rows of that commit may be in the table."""
        self._rows = None
        self._discard_sent_rows()

    def close(self) -> None:
        """Commit; does nothing if there is nothing to commit."""
        self.commit()

    def __enter__(self) -> "RemoteWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.rollback()


class AsyncRemoteWriter:
    """Appends rows to a server's table from coroutines, made by :meth:`RemoteTable.async_writer`.

    ``async with`` asks the server for the table, and commits at the end, or forgets what was appended when there was an
    exception. What waits for the server waits in a thread; other tasks go on.
    """

    def __init__(
        self,
        table: RemoteTable,
        producer: str | None,
        *,
        epoch: int = 0,
        ack: Literal["durable", "visible"] = "durable",
        retry: float = 60.0,
    ) -> None:
        self._make_writer = partial(RemoteWriter, table, producer, epoch=epoch, ack=ack, retry=retry)
        self._writer: RemoteWriter | None = None
        self._commit: concurrent.futures.Future[int | None] | None = None

    def _require_open(self) -> RemoteWriter:
        if self._writer is None:
            raise Closed("the writer is not open; use it with `async with`")
        return self._writer

    def _require_idle(self) -> RemoteWriter:
        if self._commit is not None:
            raise Busy("a commit is under way; await commit() before more rows are appended")
        return self._require_open()

    @property
    def sequence(self) -> int:
        """The number of the next commit of this producer; what has a smaller one is in the table."""
        return self._require_open().sequence

    @property
    def durable_rows(self) -> int:
        """The number of the row after the last one that would survive a power cut, as of the last commit."""
        return self._require_open().durable_rows

    def append(self, data: Any) -> None:
        """Append rows, as :meth:`RemoteWriter.append` does; sends nothing.

        Raises:
            Busy: a commit is under way, or the last one was not acknowledged.
            SchemaMismatch, ColumnNotFound, InvalidArgument: as :meth:`RemoteWriter.append`; nothing was appended.
        """
        self._require_idle().append(data)

    def append_row(self, **values: Any) -> None:
        """Append one row; a column that is not named is null.

        Raises:
            ColumnNotFound, InvalidArgument, Busy: as :meth:`append`.
        """
        self._require_idle().append_row(**values)

    async def commit(self, *, again: bool = False) -> int | None:
        """Send appended rows; return the number of the first row, or ``None`` if it is unknown or there are no rows.

        Cancelling the task does not stop the commit: the next call waits for it, and returns its outcome.
        Unacknowledged rows are kept, as by :meth:`RemoteWriter.commit`.

        Args:
            again: as for :meth:`RemoteWriter.commit`.

        Raises:
            IoError, Busy, Closed, PermissionDenied, NotFound, SchemaMismatch, InvalidArgument: as
                :meth:`RemoteWriter.commit`.
        """
        writer = self._require_open()
        if self._commit is None:
            self._commit = _run_in_thread(lambda: writer.commit(again=again))
        commit = self._commit
        await _wait_for(commit)
        if self._commit is commit:
            self._commit = None
        return commit.result()

    def rollback(self) -> None:
        """Discard unacknowledged rows, as :meth:`RemoteWriter.rollback` does.

        Raises:
            Busy: a commit is under way.
        """
        self._require_idle().rollback()

    async def __aenter__(self) -> "AsyncRemoteWriter":
        opened = _run_in_thread(self._make_writer)
        await _wait_for(opened)
        self._writer = opened.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.commit()
        elif self._commit is None:
            self.rollback()


def _run_in_thread(work: Callable[[], _T]) -> "concurrent.futures.Future[_T]":
    """Runs `work` in a daemon thread, which doesn't keep the program from ending while it waits."""
    future: concurrent.futures.Future[_T] = concurrent.futures.Future()
    # Makes cancel() fail from now on.
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="arrowwood-remote", daemon=True).start()
    return future


async def _wait_for(future: "concurrent.futures.Future[Any]") -> None:
    """Waits for `future`, which continues if the waiting task is cancelled."""
    waited = asyncio.wrap_future(future)
    # Retrieves the exception, or asyncio would log it; callers get it from `future`.
    waited.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait([waited])
    finally:
        waited.cancel()


class _JsonObject:
    """Reads the members of a JSON response, and checks their types, as any program may have sent the response."""

    def __init__(self, connection: Connection, value: Any) -> None:
        self._connection, self._value = connection, value
        if not isinstance(value, dict):
            raise self._unexpected("an object")

    def _unexpected(self, expected: str) -> IoError:
        text = repr(self._value)
        text = text if len(text) <= 200 else text[:200] + "…"
        return IoError(f"{self._connection.url} has answered {text}, expected {expected}; is it `arrowwood serve`?")

    def has(self, name: str) -> bool:
        return self._value.get(name) is not None

    def flag(self, name: str) -> bool:
        value = self._value.get(name)
        if not isinstance(value, bool):
            raise self._unexpected(f"true or false as {name!r}")
        return value

    def number(self, name: str) -> int:
        value = self._value.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._unexpected(f"a number as {name!r}")
        return value

    def text(self, name: str) -> str:
        value = self._value.get(name)
        if not isinstance(value, str):
            raise self._unexpected(f"a text as {name!r}")
        return value

    def list(self, name: str) -> list[Any]:
        value = self._value.get(name)
        if not isinstance(value, list):
            raise self._unexpected(f"a list as {name!r}")
        return value


class _StreamResponse:
    """Reads a streamed response over a connection of its own."""

    def __init__(self, connection: Connection, path: str, timeout: float | None = None) -> None:
        self._http = connection._open()
        self._socket: socket.socket | None = None
        self.is_timed_out = False
        self._has_begun = False
        try:
            self._response = connection._send(self._http, "GET", path, None, {"Accept": _STREAM})
            # `sock` is None if the response ends with the connection and owns the socket.
            self._socket = self._http.sock
            if self._socket is not None:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in _KEEPALIVE:
                    self._socket.setsockopt(socket.IPPROTO_TCP, option, value)
                is_endless = "/follow" in path
                self._socket.settimeout(timeout if is_endless else connection._timeout)
        except Error:
            self._http.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise connection._unreachable(error) from None

    def text(self, header: str) -> str | None:
        return cast("str | None", self._response.headers.get(header))

    def number(self, header: str) -> int:
        value = self._response.headers.get(header, "")
        if not value.isdecimal():
            raise IoError(f"the answer has {value!r} as {header}; expected a number; is this `arrowwood serve`?")
        return int(value)

    def stream(self) -> "_arrowwood.StreamReader":
        return _arrowwood.read_stream(cast("IO[bytes]", self))

    def read_all(self) -> "_arrowwood.Dataset":
        return self.stream().read_all()

    def read(self, size: int = -1) -> bytes:
        try:
            # read1() returns the bytes that have arrived, and doesn't wait for `size` bytes.
            data = self._response.read1(size) if size >= 0 else self._response.read()
        except TimeoutError:
            self.is_timed_out = True
            raise
        except (http.client.HTTPException, ConnectionError) as error:
            raise IoError(
                f"reading the answer: {error!r}; the server has broken it off", errno=getattr(error, "errno", None)
            ) from None
        if not data and size != 0 and not self._has_begun:
            # Every stream begins with a schema, so an empty one was cut off: http.client accepts a truncated header.
            raise IoError("the answer broke off before its first byte")
        self._has_begun = True
        return data

    def shut(self) -> None:
        """Ends a read that is waiting in another thread."""
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def close(self) -> None:
        self._response.close()
        self._http.close()

    def __enter__(self) -> "_StreamResponse":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _encode_stream(rows: "_arrowwood.Dataset") -> bytes:
    """Returns rows as an Arrow stream."""
    sink = io.BytesIO()
    stream = _arrowwood.stream_writer(sink)
    stream.write(rows)
    stream.close()
    return sink.getvalue()


def _is_closed_by_peer(connection: http.client.HTTPConnection) -> bool:
    """Returns whether an idle connection has data to read, which can only be its end or an error."""
    if connection.sock is None:
        return False
    # Windows has no poll. Select fails elsewhere for descriptors from 1,024 on.
    with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _path(name: str) -> str:
    return "/v1/tables/" + quote(name, safe="")


def _query(options: dict[str, str] | list[tuple[str, object]]) -> str:
    return "?" + urlencode(options) if options else ""


def _backoff_pauses() -> Iterator[float]:
    """Yields the seconds between attempts: longer each time, and random, so that clients don't return all at once."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, _MAX_PAUSE_SECONDS)


def _error_from_response(response: http.client.HTTPResponse, path: str) -> Error:
    """Returns the error of a response with a status of 400 or more."""
    text = response.read(_MAX_JSON_BYTES)
    try:
        content = json.loads(text)
        code = str(content.get("code", ""))
        detail = str(content.get("detail") or content.get("title") or "")
    except (ValueError, AttributeError):
        # The response is of a proxy or another program.
        code = ""
        detail = text[:200].decode(errors="replace")
    if code == "bad_request" or response.status in (400, 409, 413, 415, 422):
        error_class: type[Error] = _ERRORS_BY_CODE.get(code, InvalidArgument)
    else:
        error_class = _ERRORS_BY_STATUS.get(response.status, IoError)
    return error_class(f"{path.partition('?')[0]}: {detail or response.reason} (HTTP {response.status})")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
