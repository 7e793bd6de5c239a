"""Tests that a server works on when its clock is set back or far ahead.

Tokens, timeouts, followers and the detection of duplicate batches must not depend on the clock. A preloaded library
changes the clock of the server and a replica.
"""

import http.client
import json
import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import arrowwood as aw
from conftest import count_rows
from waits import PATIENCE, wait_until

COMMAND = [sys.executable, "-m", "arrowwood._cli"]
YEAR = 365 * 24 * 3600
SCHEMA = "n: int64 not null, at: timestamp[us, UTC]"

# Asks the kernel for the time and adds an offset in seconds, which is read from a mapped file.
CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *offset;

__attribute__((constructor)) static void find(void) {
    const char *path = getenv("TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (into) *into = exact.tv_sec;
    return exact.tv_sec;
}
"""


class Clock:
    """A clock that tests can set; processes started with `environment` use it."""

    def __init__(self, folder):
        if shutil.which("cc") is None:
            pytest.skip("no C compiler")
        (folder / "clock.c").write_text(CLOCK)
        library = folder / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, folder / "clock.c"], check=True)
        self.file = open(folder / "clock", "w+b")
        self.file.write(bytes(8))
        self.file.flush()
        self.offset = mmap.mmap(self.file.fileno(), 8)
        self.environment = os.environ | {"LD_PRELOAD": str(library), "TEST_CLOCK": str(folder / "clock")}

    def set_offset(self, seconds):
        """Sets the clock so far ahead of the real time."""
        self.offset[:] = struct.pack("q", seconds)

    def close(self):
        self.offset.close()
        self.file.close()


@pytest.fixture
def clock(tmp_path):
    clock = Clock(tmp_path)
    yield clock
    clock.close()


class Server:
    """A server of `folder`/data in a process that uses `clock`."""

    def __init__(self, folder, clock, *options, listen="127.0.0.1:0"):
        self.errors = open(folder / "errors", "a")
        command = [*COMMAND, "serve", folder / "data", "--listen", listen, *options]
        self.process = subprocess.Popen(
            command, env=clock.environment, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.url = self.process.stdout.readline().strip()

    def stop(self, signum=signal.SIGTERM):
        self.process.send_signal(signum)
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.errors.close()


class Client:
    """Sends all requests over one connection."""

    def __init__(self, url, secret):
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
        self.connection.connect()
        self.socket = self.connection.sock
        self.secret = secret

    def request(self, method, path, body=None, **headers):
        """Returns the status and the body of the response."""
        self.connection.request(method, path, body, {"authorization": f"Bearer {self.secret}", **headers})
        response = self.connection.getresponse()
        return response.status, response.read()

    def is_first_connection(self):
        """Returns whether the connection was never closed and opened again."""
        return self.connection.sock is self.socket

    def close(self):
        self.connection.close()


def run_token_command(tmp_path, *arguments):
    command = [*COMMAND, "token", *arguments, "--token-file", tmp_path / "tokens.json"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def is_valid(server, secret):
    try:
        return aw.connect(server.url, token=secret).tables() != []
    except aw.PermissionDenied:
        return False


def read_last_line_time(folder):
    """Returns the time that the server gave the last line of line protocol, in seconds since 1970."""
    nanoseconds = pa.table(aw.open(folder / "line"))["time"].cast(pa.int64())
    return nanoseconds[-1].as_py() / 1e9


# Offsets of the clock in seconds: also before 1970, and far in both directions at once.
OFFSETS = [0, 50 * YEAR, -10 * YEAR, 3600, -3600, -80 * YEAR, 200 * YEAR, 0]
# The largest accepted difference between a line's time and the server's clock.
MAX_ERROR_SECONDS = 600


def test_server_works_on_when_its_clock_is_set(tmp_path, clock):
    folder = tmp_path / "data"
    folder.mkdir()
    aw.writer(folder / "ticks", SCHEMA).close()
    secret = run_token_command(tmp_path, "add", "all", "--read", "*", "--write", "*")
    (tmp_path / "token").write_text(secret)
    token_options = ["--token-file", tmp_path / "tokens.json"]
    server = Server(tmp_path, clock, *token_options, "--query-timeout", str(round(PATIENCE)))
    listen = server.url.rpartition("/")[2]
    db = aw.connect(server.url, token=secret)
    client = Client(server.url, secret)
    pull = [*COMMAND, "pull", "--follow", "--token-file", tmp_path / "token", f"{server.url}/ticks", tmp_path / "copy"]
    replica = subprocess.Popen(pull, env=clock.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        with (
            db["ticks"].follow(0, durable=True, timeout=PATIENCE) as batches,
            db["ticks"].writer(producer="s1") as writer,
        ):
            followed, n, clock_offsets = [], 0, []
            for offset in OFFSETS:
                clock.set_offset(offset)
                for _ in range(3):
                    writer.append_row(n=n, at=None)
                    writer.commit()
                    n += 1
                assert writer.durable_rows == n
                while len(followed) < n:
                    followed += next(batches)["n"].to_pylist()

                # The last batch is recognized when it is sent again.
                headers = {"content-type": "application/x-ndjson", "producer": "s1", "producer-sequence": str(n - 1)}
                status, body = client.request("POST", "/v1/tables/ticks/rows", json.dumps({"n": -1}), **headers)
                result = json.loads(body)
                assert (status, result["duplicate"], result["durable"]) == (200, True, n)

                # Lines without a time get the server's time.
                assert client.request("POST", "/write", "line value=1i")[0] == 204
                clock_offsets.append(read_last_line_time(folder) - time.time())
                status, body = client.request("GET", "/v1/tables/ticks/rows?where=n%20%3E%3D%200&format=jsonl")
                assert status == 200 and len(body.splitlines()) == n
            assert followed == list(range(n))
            assert client.is_first_connection(), "the connection was closed meanwhile"
            for offset, actual in zip(OFFSETS, clock_offsets, strict=True):
                # Times are nanoseconds since 1970 up to 2262; earlier clocks give 1970.
                expected = max(offset, -time.time())
                assert abs(actual - expected) < MAX_ERROR_SECONDS, f"{offset}: the server's clock says {actual}"

            # Changes of the token file are noticed whatever its modification time.
            clock.set_offset(-20 * YEAR)
            new_secret = run_token_command(tmp_path, "add", "new", "--read", "*")
            wait_until(lambda: is_valid(server, new_secret), "the new token is valid")
            clock.set_offset(20 * YEAR)
            run_token_command(tmp_path, "revoke", "new")
            wait_until(lambda: not is_valid(server, new_secret), "the token is revoked")
            assert is_valid(server, secret)

            # A second server starts, by its clock, long before the first one was killed.
            clock.set_offset(100 * YEAR)
            writer.append_row(n=n, at=None)
            writer.commit()
            server.stop(signal.SIGKILL)
            clock.set_offset(-30 * YEAR)
            server = Server(tmp_path, clock, *token_options, listen=listen)
            writer.append_row(n=n + 1, at=None)
            writer.commit()
            while len(followed) < n + 2:
                followed += next(batches)["n"].to_pylist()
            assert followed == list(range(n + 2)) == aw.open(folder / "ticks")["n"].to_pylist()
        wait_until(lambda: count_rows(tmp_path / "copy") == n + 2, "the replica has all rows")
        assert aw.open(tmp_path / "copy")["n"].to_pylist() == list(range(n + 2))
    finally:
        client.close()
        server.stop()
        replica.terminate()
        replica.communicate(timeout=PATIENCE)
    assert server.process.returncode == 0
