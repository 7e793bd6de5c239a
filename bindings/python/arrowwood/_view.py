"""Shows the page of ``arrowwood view`` in a cell of a notebook."""

import contextlib
import os
import shutil
import socket
import tempfile
import threading
import weakref
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from arrowwood import _arrowwood
from arrowwood._errors import InvalidArgument
from arrowwood._extras import engine
from arrowwood._serve import ServerProcess

# Limits the size of rows that are copied to a temporary file.
_MAX_COPIED_BYTES = 1 << 30
# Limits the size of a message to the browser.
_CHUNK_BYTES = 1 << 18


def view(data: Any, /, *, height: int = 560) -> "View":
    """Look at data in a cell of a notebook, as ``arrowwood view`` does in the browser: rows, columns, plots, bytes.

    >>> aw.view("ticks")                     # a path, a glob, a table that grows
    >>> aw.view(ds.filter(aw.col("price") > 100))

    A whole file or table is shown in place, and a table is shown as it grows. Other rows, at most 1 GiB, are written to
    a temporary file, which lasts as long as the view.

    A separate process serves the page to this one, on loopback and with a token. In the notebook its requests are sent
    as messages of a widget (`anywidget <https://anywidget.dev>`_: ``pip install 'arrowwood[notebook]'``), so that the
    browser may be on another machine; they wait while a cell runs. Without anywidget, or outside of a notebook, open
    `View.url`.

    Args:
        data: a path, a dataset, or anything that exports Arrow data.
        height: pixels of the cell's output.

    Raises:
        NotFound, PermissionDenied, InvalidData: the path cannot be opened.
        InvalidArgument: the rows are too many for a temporary file.
        IoError: the server can't start; the message is its own.
    """
    return View(data, height=height)


class View:
    """A server of one page, made by :func:`view`.

    It runs until :meth:`close`, the end of a ``with`` block, or the end of the process. If it was never shown, it also
    ends when it is no longer referenced.
    """

    def __init__(self, data: Any, /, *, height: int = 560) -> None:
        folder: str | None = None
        path = _find_path(data)
        if path is None:
            folder = tempfile.mkdtemp(prefix="arrowwood-")
            path = os.path.join(folder, "rows.arrow")
        try:
            if folder is not None:
                _arrowwood.write(data, path)
            server = ServerProcess("view", path, "--no-browser")
        except BaseException:
            _close(None, folder)
            raise
        self.url: str = server.url
        """The URL of the page for a browser on this machine, with its token."""
        self._height = height
        self._widget: Any = None
        self._finalizer = weakref.finalize(self, _close, server, folder)

    def close(self) -> None:
        """Stop the server. Does nothing if it was stopped before."""
        self._finalizer()

    def __enter__(self) -> "View":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<arrowwood.View {self.url if self._finalizer.alive else 'closed'}>"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        try:
            widget = self._get_widget()
        except ImportError as error:
            return {"text/plain": f"{self!r}\n{error}"}
        return widget._repr_mimebundle_(**options)

    def _get_widget(self) -> Any:
        """Returns the widget; the first call creates it."""
        if self._widget is None:
            self._widget = _create_widget(self.url, self._height)
            # Keeps the server running as long as the notebook has the widget.
            self._widget._view = self
        return self._widget


def _close(server: ServerProcess | None, folder: str | None) -> None:
    """Stops the server, and removes the folder of copied rows."""
    if server is not None:
        server.close()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _find_path(data: Any) -> str | None:
    """Returns the path of a file or table with exactly these rows; None if they must be copied to a file."""
    if isinstance(data, str | os.PathLike):
        return os.fspath(data)
    if not isinstance(data, _arrowwood.Dataset):
        return None
    try:
        if data.path is not None and data._places() == _arrowwood.open(data.path)._places():
            return str(data.path)
    except InvalidArgument:
        # Renamed columns have other names in the file.
        pass
    if data.nbytes > _MAX_COPIED_BYTES:
        raise InvalidArgument(
            f"view(): these rows have {data.nbytes:,} bytes and would be copied to a temporary file, at most {_MAX_COPIED_BYTES:,}; "
            "give the path, or a glob of several, and filter on the page; or write them to a file"
        )
    return None


def _create_widget(url: str, height: int) -> Any:
    """Returns a widget that shows the page; its script is ``_view.js``."""
    anywidget: Any = engine("anywidget", "a view in a notebook", "notebook")
    traitlets: Any = engine("traitlets", "a view in a notebook", "notebook")
    # The class is created here, as its base class exists only if anywidget is installed.
    script = Path(__file__).with_name("_view.js").read_text(encoding="utf-8")
    window_class: Any = type(
        "Window", (anywidget.AnyWidget,), {"_esm": script, "height": traitlets.Int(560).tag(sync=True)}
    )
    widget = window_class(height=height)
    relay = _RequestRelay(url, lambda message, buffers=None: widget.send(message, buffers))
    widget.on_msg(lambda _widget, message, _buffers: relay.on_message(message))
    return widget


class _RequestRelay:
    """Relays requests of the page, which arrive as messages, to its server, and sends the responses back."""

    def __init__(self, url: str, send: Any) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port
        self._token = parse_qs(parts.query)["token"][0]
        self._send = send
        self._connections: dict[tuple[str, int], HTTPConnection] = {}

    def on_message(self, message: Any) -> None:
        """Starts a request, or cancels one if the message has no address."""
        key = (message["view"], message["id"])
        address = message.get("address")
        if address is None:
            connection = self._connections.pop(key, None)
            # Ends the read in the thread of the request.
            if connection is not None and connection.sock is not None:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)
            return
        self._connections[key] = HTTPConnection(self._host, self._port)
        threading.Thread(target=self._relay, args=(key, address), name="arrowwood-view", daemon=True).start()

    def _relay(self, key: tuple[str, int], address: str) -> None:
        """Sends the response to a request: a status, then parts of the body, then the end."""
        view, request_id = key
        recipient = {"view": view, "id": request_id}
        connection = self._connections.get(key)
        if connection is None:
            return
        try:
            if not address.startswith("/"):
                raise ValueError(f"{address} is no path")
            connection.request("GET", address, headers={"Authorization": f"Bearer {self._token}"})
            response = connection.getresponse()
            self._send({**recipient, "status": response.status})
            while key in self._connections and (part := response.read1(_CHUNK_BYTES)):
                self._send(recipient, [part])
        except (HTTPException, OSError, ValueError):
            # The server has ended, the address is no path, or the page has cancelled the request.
            if key in self._connections:
                self._send({**recipient, "status": 0})
        finally:
            connection.close()
            if self._connections.pop(key, None) is not None:
                self._send({**recipient, "end": True})
