"""Tests ``arrowwood serve`` with independent clients: pyarrow over urllib, curl, and a plain socket."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, join

DEPLOY = Path(__file__).parents[2] / "examples/deploy"
ARROW_STREAM = "application/vnd.apache.arrow.stream"


class Server(NamedTuple):
    folder: Path
    url: str


def serve_command(folder: Path) -> list:
    return [sys.executable, "-m", "arrowwood._cli", "serve", folder, "--listen", "127.0.0.1:0"]


@pytest.fixture
def server(tmp_path) -> Iterator[Server]:
    """Starts a server of an empty folder, and asserts at the end that it stops without an error."""
    folder = tmp_path / "data"
    folder.mkdir()
    process = subprocess.Popen(serve_command(folder), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    url = process.stdout.readline().strip()
    yield Server(folder, url)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors


def get_table(url: str) -> pa.Table:
    with urlopen(url, timeout=PATIENCE) as response:
        return pa.ipc.open_stream(response).read_all()


def post_stream(url: str, stream: bytes) -> dict:
    request = Request(url, data=stream, headers={"content-type": ARROW_STREAM})
    with urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def write_ticks(path, rows=10_000):
    schema = pa.schema([pa.field("n", pa.int64(), False), pa.field("symbol", pa.string()), pa.field("x", pa.float64())])
    with aw.writer(path, schema, dictionary=["symbol"], segment_rows=3_000) as writer:
        symbols = [None if n % 11 == 0 else f"S{n // 100}" for n in range(rows)]
        writer.append({"n": np.arange(rows), "symbol": symbols, "x": np.arange(rows) / 4})


def test_pyarrow_reads_served_rows(server):
    write_ticks(server.folder / "ticks")
    mapped = pa.table(aw.open(server.folder / "ticks"))
    rows_url = f"{server.url}/v1/tables/ticks/rows"
    assert get_table(rows_url).to_pylist() == mapped.to_pylist()
    part = get_table(f"{rows_url}?from=2990&to=3010&columns=symbol,n")
    assert part.to_pylist() == mapped.select(["symbol", "n"]).slice(2990, 20).to_pylist()
    assert get_table(f"{rows_url}?limit=0").schema.names == ["n", "symbol", "x"]


def test_streams_of_pyarrow_are_appended(server):
    write_ticks(server.folder / "ticks", rows=0)
    table = pa.table({"n": [1, 2], "symbol": pa.array(["a", None]).dictionary_encode(), "x": [0.5, None]})
    for options in [None, pa.ipc.IpcWriteOptions(compression="zstd")]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table)
        receipt = post_stream(f"{server.url}/v1/tables/ticks/rows", sink.getvalue().to_pybytes())
        assert receipt["durable"] == receipt["first_row"] + table.num_rows
    assert aw.open(server.folder / "ticks").to_arrow().to_pylist() == 2 * table.to_pylist()


def test_follower_sees_rows_of_a_local_writer(server):
    write_ticks(server.folder / "ticks", rows=10)
    expected = list(range(5, 30))
    received = []

    def follow():
        with urlopen(f"{server.url}/v1/tables/ticks/follow?from=5", timeout=PATIENCE) as response:
            for batch in pa.ipc.open_stream(response):
                received.extend(batch["n"].to_pylist())
                if len(received) == len(expected):
                    return

    follower = threading.Thread(target=follow)
    follower.start()
    with aw.writer(server.folder / "ticks") as writer:
        for n in range(10, 30):
            writer.append_row(n=n, symbol="IBM", x=None)
            writer.commit()
        follower.join(PATIENCE)
    assert received == expected


def curl(*arguments) -> bytes:
    return subprocess.run(["curl", "-sS", *arguments], capture_output=True, timeout=PATIENCE, check=True).stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there")
def test_curl_reads_and_appends_rows(server):
    write_ticks(server.folder / "ticks", rows=30)
    table_url = f"{server.url}/v1/tables/ticks"

    csv = curl("-H", "Accept: text/csv", f"{table_url}/rows?from=-2")
    assert csv.decode() == "n,symbol,x\n28,S0,7.0\n29,S0,7.25\n"

    row = b'{"n": 30, "symbol": "IBM", "x": 1}'
    receipt = curl("-H", "Content-Type: application/json", "--data-binary", row, f"{table_url}/rows")
    assert json.loads(receipt)["first_row"] == 30

    # HTTP/2 without TLS.
    lines = curl("--http2-prior-knowledge", f"{table_url}/rows?from=29&format=jsonl")
    assert [json.loads(line)["n"] for line in lines.splitlines()] == [29, 30]

    events = subprocess.Popen(["curl", "-sSN", f"{table_url}/events"], stdout=subprocess.PIPE)
    assert events.stdout.readline() == b"event: rows\n"
    events.terminate()
    events.communicate(timeout=PATIENCE)


def test_missing_table_is_a_problem_document(server):
    with pytest.raises(HTTPError) as caught:
        urlopen(f"{server.url}/v1/tables/nothing/rows", timeout=PATIENCE)
    response = caught.value
    assert response.code == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert json.load(response)["code"] == "not_found"


def test_request_and_response_in_small_pieces(server):
    write_ticks(server.folder / "ticks", rows=5_000)
    host, port = server.url.removeprefix("http://").split(":")
    request = "GET /v1/tables/ticks/rows?format=csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        for byte in request.encode():
            connection.send(bytes([byte]))
        response = b""
        while piece := connection.recv(997):
            response += piece
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"200 OK" in head
    assert b"\n4999,S49,1249.75\n" in body
    # The last chunk of a chunked response is empty.
    assert body.endswith(b"0\r\n\r\n")


# ---- Deployment ----


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_accepts_the_unit(tmp_path):
    unit = DEPLOY / "arrowwood.service"
    copy = tmp_path / unit.name
    # systemd-analyze checks that the command exists, and it is not installed where the unit expects it.
    copy.write_text(unit.read_text().replace("/usr/local/bin/arrowwood", sys.executable))
    result = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    # Other units of the machine may have warnings.
    assert unit.name not in result.stderr, result.stderr


@pytest.mark.parametrize("name", ["arrowwood.service", "Dockerfile"])
def test_deployment_examples_use_options_that_exist(name):
    command = [sys.executable, "-m", "arrowwood._cli", "serve", "--help"]
    help_text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = [word.strip('",[]') for word in (DEPLOY / name).read_text().split()]
    options = {word for word in words if word.startswith("--")}
    # Other commands in these files have options, too.
    serve_options = {option for option in options if option in help_text}
    assert {"--listen", "--tls-cert", "--tls-key", "--token-file"} <= serve_options, (name, options)


# ---- The process of the server ----


def test_server_ignores_sigpipe(tmp_path):
    """Writing to a connection that the client has closed raises SIGPIPE, which by default ends the process."""
    with aw.serve(tmp_path) as server:
        status = Path(f"/proc/{server._process._popen.pid}/status").read_text()
    ignored_signals = int(re.search(r"^SigIgn:\s*(\w+)$", status, re.M)[1], 16)
    assert ignored_signals >> (signal.SIGPIPE - 1) & 1


CONTROL_GROUP_BYTES = 128 << 20


@pytest.fixture
def control_group() -> Iterator[Path]:
    """Creates a control group with a limit of memory, and returns its file `cgroup.procs`."""
    mount = Path("/sys/fs/cgroup")
    is_version_1 = (mount / "memory").is_dir()
    parent = mount / "memory" if is_version_1 else mount
    limit_file = "memory.limit_in_bytes" if is_version_1 else "memory.max"
    group = parent / f"arrowwood-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        (group / limit_file).write_text(str(CONTROL_GROUP_BYTES))
        yield group / "cgroup.procs"
    except OSError as error:
        pytest.skip(f"control groups have no limit of memory: {error}")
    finally:
        group.rmdir()


def get_groups(url: str, query: str) -> str:
    """Requests groups of the rows, and returns the body, also if the server refuses the request."""
    try:
        with urlopen(f"{url}/v1/tables/t.arrow/groups?{query}", timeout=PATIENCE) as response:
            return response.read().decode()
    except HTTPError as error:
        return error.read().decode()


def test_server_stays_within_the_memory_of_its_control_group(tmp_path, control_group):
    (tmp_path / "data").mkdir()
    numbers = np.arange(2_000_000)
    aw.write(pa.table({"n": numbers * 7919, "few": numbers % 7}), tmp_path / "data/t.arrow")

    # The first three group by, or count, the different values of a column with millions of them.
    small_query = "at=1&of=sum:0"
    queries = ["at=0&of=sum:1", "of=n_unique:0", "at=1&of=n_unique:0", small_query] * 4
    responses = []
    enter_group = ["sh", "-c", f'echo $$ > {control_group} && exec "$@"', "sh"]
    with subprocess.Popen(enter_group + serve_command(tmp_path / "data"), text=True, stdout=subprocess.PIPE) as process:
        url = process.stdout.readline().strip()

        def request(query):
            responses.append((query, get_groups(url, query)))

        threads = [threading.Thread(target=request, args=[query]) for query in queries]
        for thread in threads:
            thread.start()
        for thread in threads:
            join(thread)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0

    # A request may use a quarter of the group's memory. Small requests wait for large ones instead of being refused.
    refusal = f"more than {CONTROL_GROUP_BYTES // 4} bytes"
    assert len(responses) == len(queries)
    for query, body in responses:
        expected = '"groups":7' if query == small_query else refusal
        assert expected in body, f"{query}: {body[:300]}"
