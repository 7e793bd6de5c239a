"""Runs servers for the duration of a block of code: ``arrowwood serve`` and ``arrowwood view``."""

import atexit
import os
import signal
import subprocess
import sys
import threading
from types import TracebackType

from arrowwood._errors import IoError
from arrowwood._remote import Connection, connect

_MAX_LOG_LINES = 1000


def serve(
    directory: str | os.PathLike[str],
    *,
    listen: str = "127.0.0.1:0",
    token_file: str | os.PathLike[str] | None = None,
    read_only: bool = False,
) -> "Server":
    """Serve the tables of a directory from a process of its own, for tests and notebooks;
    see ``arrowwood serve --help``.

    >>> with aw.serve("data") as server:
    ...     server.connect()["ticks"].follow()

    Args:
        directory: the directory of the tables.
        listen: the address, ``HOST:PORT``; port 0 selects a free one.
        token_file: tokens and their rights; without it every client has all rights, and only this machine is served.
        read_only: whether to refuse all writes.

    Raises:
        IoError: the server can't start; the message is its own.
    """
    return Server(directory, listen=listen, token_file=token_file, read_only=read_only)


class ServerProcess:
    """A process of the command, which prints its URL when it is ready and serves until it is stopped."""

    def __init__(self, subcommand: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "arrowwood._cli", subcommand, *arguments]
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
        assert self._popen.stdout is not None and self._popen.stderr is not None, "pipes"
        self.url: str = self._popen.stdout.readline().strip()
        if not self.url:
            _, errors = self._popen.communicate()
            raise IoError(f"arrowwood {subcommand} {arguments[0]}: {errors.strip() or 'the server has ended'}")
        self.log_lines: list[str] = []
        # A full pipe would block the server, so a thread reads it.
        self._reader = threading.Thread(target=self._read_log, name="arrowwood-serve", daemon=True)
        self._reader.start()
        self._owner_pid = os.getpid()
        atexit.register(self._close_at_exit)

    def _close_at_exit(self) -> None:
        """Stops the command when the process that started it exits, but not when a fork of it does."""
        if os.getpid() == self._owner_pid:
            self.close()

    def _read_log(self) -> None:
        assert self._popen.stderr is not None, "a pipe"
        for line in self._popen.stderr:
            self.log_lines.append(line)
            del self.log_lines[:-_MAX_LOG_LINES]

    def close(self) -> None:
        """Stops the command; does nothing if it was stopped before."""
        atexit.unregister(self._close_at_exit)
        if self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)
        self._popen.wait()
        self._reader.join()
        for pipe in (self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()


class Server:
    """A server of tables, made by :func:`serve`. As a context manager it stops at the end."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        listen: str = "127.0.0.1:0",
        token_file: str | os.PathLike[str] | None = None,
        read_only: bool = False,
    ) -> None:
        options = ["--token-file", os.fspath(token_file)] if token_file is not None else []
        options += ["--read-only"] if read_only else []
        self._process = ServerProcess("serve", os.fspath(directory), "--listen", listen, *options)
        self.url: str = self._process.url

    @property
    def log(self) -> list[str]:
        """The last 1,000 lines of the server's log: a line of JSON for each request that writes or is refused."""
        return [line.rstrip("\n") for line in self._process.log_lines]

    def connect(self, *, token: str | None = None) -> Connection:
        """Connect to the server; see :func:`connect`."""
        return connect(self.url, token=token)

    def close(self) -> None:
        """Stop the server; acknowledged rows are kept. Does nothing if it was stopped before."""
        self._process.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<arrowwood.Server {self.url}>"
