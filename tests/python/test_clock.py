"""A server whose clock is set, back and far ahead: tokens, timeouts, followers and exactly-once go on.

A preloaded library changes the clock of the server's and a replica's processes."""

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

# Asks the kernel for the time, and adds the seconds in a file.
CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *ahead;

__attribute__((constructor)) static void find(void) {
    const char *path = getenv("TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) ahead = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead;
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
    """A clock that processes started with `environment` have."""

    def __init__(self, folder):
        if shutil.which("cc") is None:
            pytest.skip("no C compiler")
        (folder / "clock.c").write_text(CLOCK)
        library = folder / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, folder / "clock.c"], check=True)
        self.file = open(folder / "clock", "w+b")
        self.file.write(bytes(8))
        self.file.flush()
        self.ahead = mmap.mmap(self.file.fileno(), 8)
        self.environment = os.environ | {"LD_PRELOAD": str(library), "TEST_CLOCK": str(folder / "clock")}

    def put(self, seconds):
        self.ahead[:] = struct.pack("q", seconds)

    def close(self):
        self.ahead.close()
        self.file.close()


@pytest.fixture
def clock(tmp_path):
    clock = Clock(tmp_path)
    yield clock
    clock.close()


class Server:
    def __init__(self, folder, clock, *options, listen="127.0.0.1:0"):
        self.errors = open(folder / "errors", "a")
        command = [*COMMAND, "serve", folder / "data", "--listen", listen, *options]
        self.process = subprocess.Popen(
            command, env=clock.environment, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.url = self.process.stdout.readline().strip()

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.errors.close()


def token(tmp_path, *words):
    command = [*COMMAND, "token", *words, "--token-file", tmp_path / "tokens.json"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def is_valid(server, secret):
    try:
        return aw.connect(server.url, token=secret).tables() != []
    except aw.PermissionDenied:
        return False


# Before 1970, too; and there and back at once.
JUMPS = [0, 50 * YEAR, -10 * YEAR, 3600, -3600, -80 * YEAR, 200 * YEAR, 0]


def test_a_clock_that_is_set_stops_nothing(tmp_path, clock):
    folder = tmp_path / "data"
    folder.mkdir()
    aw.writer(folder / "ticks", SCHEMA).close()
    secret = token(tmp_path, "add", "all", "--read", "*", "--write", "*")
    (tmp_path / "token").write_text(secret)
    server = Server(tmp_path, clock, "--token-file", tmp_path / "tokens.json", "--query-timeout", str(round(PATIENCE)))
    listen = server.url.rpartition("/")[2]
    db = aw.connect(server.url, token=secret)
    # A connection that is kept for all requests, and one whose answer goes on.
    kept = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)
    kept.connect()
    socket = kept.sock

    def ask(method, path, body=None, **headers):
        kept.request(method, path, body, {"authorization": f"Bearer {secret}", **headers})
        answer = kept.getresponse()
        return answer.status, answer.read()

    pull = [*COMMAND, "pull", "--follow", "--token-file", tmp_path / "token", f"{server.url}/ticks", tmp_path / "copy"]
    pulling = subprocess.Popen(pull, env=clock.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        with (
            db["ticks"].follow(0, durable=True, timeout=PATIENCE) as coming,
            db["ticks"].writer(producer="s1") as writer,
        ):
            seen, n, server_times = [], 0, []
            for jump in JUMPS:
                clock.put(jump)
                for _ in range(3):
                    writer.append_row(n=n, at=None)
                    writer.commit()
                    n += 1
                assert writer.durable_rows == n
                while len(seen) < n:
                    seen += next(coming)["n"].to_pylist()
                # A batch that is sent again is no other one.
                headers = {"content-type": "application/x-ndjson", "producer": "s1", "producer-sequence": str(n - 1)}
                status, told = ask("POST", "/v1/tables/ticks/rows", json.dumps({"n": -1}), **headers)
                assert (status, json.loads(told)["duplicate"], json.loads(told)["durable"]) == (200, True, n)
                # Lines without a time get the server's.
                assert ask("POST", "/write", "line value=1i")[0] == 204
                server_times.append(
                    pa.table(aw.open(folder / "line"))["time"].cast(pa.int64())[-1].as_py() / 1e9 - time.time()
                )
                status, found = ask("GET", "/v1/tables/ticks/rows?where=n%20%3E%3D%200&format=jsonl")
                assert status == 200 and len(found.splitlines()) == n
            assert seen == list(range(n))
            assert kept.sock is socket, "the connection was closed meanwhile"
            for jump, found in zip(JUMPS, server_times, strict=True):
                # Its times are nanoseconds since 1970 up to 2262, and none before.
                assert abs(found - max(jump, -time.time())) < 600, f"{jump}: the server's clock says {found}"

            # Tokens follow the contents of the file, whatever its modification time.
            clock.put(-20 * YEAR)
            new = token(tmp_path, "add", "new", "--read", "*")
            wait_until(lambda: is_valid(server, new), "the new token is valid")
            clock.put(20 * YEAR)
            token(tmp_path, "revoke", "new")
            wait_until(lambda: not is_valid(server, new), "the token is revoked")
            assert is_valid(server, secret)

            # The next server begins long before the one before it ended.
            clock.put(100 * YEAR)
            writer.append_row(n=n, at=None)
            writer.commit()
            server.end(signal.SIGKILL)
            clock.put(-30 * YEAR)
            server = Server(tmp_path, clock, "--token-file", tmp_path / "tokens.json", listen=listen)
            writer.append_row(n=n + 1, at=None)
            writer.commit()
            while len(seen) < n + 2:
                seen += next(coming)["n"].to_pylist()
            assert seen == list(range(n + 2)) == aw.open(folder / "ticks")["n"].to_pylist()
        wait_until(lambda: count_rows(tmp_path / "copy") == n + 2, "the replica has all rows")
        assert aw.open(tmp_path / "copy")["n"].to_pylist() == list(range(n + 2))
    finally:
        kept.close()
        server.end()
        pulling.terminate()
        pulling.communicate(timeout=PATIENCE)
    assert server.process.returncode == 0
