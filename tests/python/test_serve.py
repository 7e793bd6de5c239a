"""``arrowwood serve``, as stock clients see it: pyarrow over urllib, curl, a socket."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, join


@pytest.fixture
def server(tmp_path):
    """A directory that is served, and its URL."""
    (tmp_path / "data").mkdir()
    command = [sys.executable, "-m", "arrowwood._cli", "serve", tmp_path / "data", "--listen", "127.0.0.1:0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **pipes)
    url = process.stdout.readline().strip()
    yield tmp_path / "data", url
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors


def read(url):
    with urlopen(url, timeout=PATIENCE) as answer:
        return pa.ipc.open_stream(answer).read_all()


def post(url, body, media_type, **headers):
    headers = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    request = Request(url, data=body, headers={"content-type": media_type, **headers})
    with urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def ticks(path, rows=10_000):
    schema = pa.schema([pa.field("n", pa.int64(), False), pa.field("symbol", pa.string()), pa.field("x", pa.float64())])
    with aw.writer(path, schema, dictionary=["symbol"], segment_rows=3_000) as writer:
        symbols = [None if n % 11 == 0 else f"S{n // 100}" for n in range(rows)]
        writer.append({"n": np.arange(rows), "symbol": symbols, "x": np.arange(rows) / 4})


def test_pyarrow_reads_what_is_mapped(server):
    folder, url = server
    ticks(folder / "ticks")
    mapped = pa.table(aw.open(folder / "ticks"))
    assert read(f"{url}/v1/tables/ticks/rows").to_pylist() == mapped.to_pylist()
    some = read(f"{url}/v1/tables/ticks/rows?from=2990&to=3010&columns=symbol,n")
    assert some.to_pylist() == mapped.select(["symbol", "n"]).slice(2990, 20).to_pylist()
    assert read(f"{url}/v1/tables/ticks/rows?limit=0").schema.names == ["n", "symbol", "x"]


def test_rows_of_pyarrow_are_appended(server):
    folder, url = server
    ticks(folder / "ticks", 0)
    table = pa.table({"n": [1, 2], "symbol": pa.array(["a", None]).dictionary_encode(), "x": [0.5, None]})
    for options in [None, pa.ipc.IpcWriteOptions(compression="zstd")]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table)
        answer = post(
            f"{url}/v1/tables/ticks/rows", sink.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream"
        )
        assert answer["durable"] == answer["first_row"] + 2
    assert aw.open(folder / "ticks").to_arrow().to_pylist() == 2 * table.to_pylist()


def test_a_follower_sees_rows_of_a_local_writer(server):
    folder, url = server
    ticks(folder / "ticks", 10)
    seen = []

    def follow():
        with urlopen(f"{url}/v1/tables/ticks/follow?from=5", timeout=PATIENCE) as answer:
            for batch in pa.ipc.open_stream(answer):
                seen.extend(batch["n"].to_pylist())
                if len(seen) == 25:
                    return

    follower = threading.Thread(target=follow)
    follower.start()
    with aw.writer(folder / "ticks") as writer:
        for n in range(10, 30):
            writer.append_row(n=n, symbol="IBM", x=None)
            writer.commit()
        follower.join(PATIENCE)
    assert seen == list(range(5, 30))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there")
def test_curl(server):
    folder, url = server
    ticks(folder / "ticks", 30)

    def curl(*args):
        return subprocess.run(["curl", "-sS", *args], capture_output=True, timeout=PATIENCE, check=True).stdout

    csv = curl("-H", "Accept: text/csv", f"{url}/v1/tables/ticks/rows?from=-2")
    assert csv.decode() == "n,symbol,x\n28,S0,7.0\n29,S0,7.25\n"
    line = b'{"n": 30, "symbol": "IBM", "x": 1}'
    answer = curl("-H", "Content-Type: application/json", "--data-binary", line, f"{url}/v1/tables/ticks/rows")
    assert json.loads(answer)["first_row"] == 30
    # HTTP/2 without TLS.
    lines = curl("--http2-prior-knowledge", f"{url}/v1/tables/ticks/rows?from=29&format=jsonl")
    assert [json.loads(line)["n"] for line in lines.splitlines()] == [29, 30]
    event = subprocess.Popen(["curl", "-sSN", f"{url}/v1/tables/ticks/events"], stdout=subprocess.PIPE)
    assert event.stdout.readline() == b"event: rows\n"
    event.terminate()
    event.communicate(timeout=PATIENCE)


def test_an_error_says_what_is_wrong(server):
    _, url = server
    with pytest.raises(HTTPError) as error:
        urlopen(f"{url}/v1/tables/nothing/rows", timeout=PATIENCE)
    answer = error.value
    assert (answer.code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert json.load(answer)["code"] == "not_found"


def test_a_stream_in_many_pieces(server):
    """A client that reads byte by byte gets every byte."""
    folder, url = server
    ticks(folder / "ticks", 5_000)
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        request = "GET /v1/tables/ticks/rows?format=csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        for byte in request.encode():
            connection.send(bytes([byte]))
        answer = b""
        while piece := connection.recv(997):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"200 OK" in head and body.endswith(b"0\r\n\r\n")
    assert b"\n4999,S49,1249.75\n" in body


def test_systemd_takes_the_unit(tmp_path):
    """With a command that is there in place of the one that is installed."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    unit = Path(__file__).parents[2] / "examples/deploy/arrowwood.service"
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/usr/local/bin/arrowwood", sys.executable))
    verified = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert (verified.returncode, unit.name in verified.stderr) == (0, False), verified.stderr


def test_the_unit_and_the_image_call_the_command_as_it_is():
    """Options that are written down for those who deploy it are options that there are."""
    folder = Path(__file__).parents[2] / "examples/deploy"
    shown = subprocess.run(
        [sys.executable, "-m", "arrowwood._cli", "serve", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for name in ["arrowwood.service", "Dockerfile"]:
        text = (folder / name).read_text()
        words = (word.strip('",[]') for word in text.split())
        options = {word for word in words if word.startswith("--")}
        served = {option for option in options if option in shown}
        assert {"--listen", "--tls-cert", "--tls-key", "--token-file"} <= served, (name, options)


def test_a_client_that_goes_while_it_is_answered_does_not_end_the_server(tmp_path):
    """A write to a connection that is gone raises SIGPIPE, which ends a process that doesn't ignore it."""
    with aw.serve(tmp_path) as server:
        status = Path(f"/proc/{server._running._process.pid}/status").read_text()
        ignored = int(re.search(r"^SigIgn:\s*(\w+)$", status, re.M)[1], 16)
        assert ignored >> (signal.SIGPIPE - 1) & 1


@pytest.fixture
def control_group():
    """A control group of 128 MiB: the file that takes its processes."""
    mount = Path("/sys/fs/cgroup")
    is_second = not (mount / "memory").is_dir()
    group = (mount if is_second else mount / "memory") / f"arrowwood-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as e:
        pytest.skip(f"no control group can be made: {e}")
    try:
        (group / ("memory.max" if is_second else "memory.limit_in_bytes")).write_text(str(128 << 20))
        yield group / "cgroup.procs"
    except OSError as e:
        pytest.skip(f"control groups have no limit of memory: {e}")
    finally:
        group.rmdir()


def test_what_looks_at_rows_leaves_a_server_within_its_control_group(tmp_path, control_group):
    (tmp_path / "data").mkdir()
    rows = np.arange(2_000_000)
    aw.write(pa.table({"n": rows * 7919, "few": rows % 7}), tmp_path / "data/t.arrow")
    shell = ["sh", "-c", f'echo $$ > {control_group} && exec "$@"', "sh"]
    command = [sys.executable, "-m", "arrowwood._cli", "serve", tmp_path / "data", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(shell + command, text=True, stdout=subprocess.PIPE) as process:
        url = process.stdout.readline().strip()
        answers = []

        def ask(asked):
            try:
                with urlopen(f"{url}/v1/tables/t.arrow/groups?{asked}", timeout=PATIENCE) as answer:
                    answers.append((asked, answer.read().decode()))
            except HTTPError as e:
                answers.append((asked, e.read().decode()))

        much, little = ["at=0&of=sum:1", "of=n_unique:0", "at=1&of=n_unique:0"], "at=1&of=sum:0"
        threads = [threading.Thread(target=ask, args=[asked]) for asked in [*much, little] * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            join(thread)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    assert len(answers) == 16
    # A quarter of the group's memory, and none that waits for others is refused for that.
    for asked, answer in answers:
        expected = '"groups":7' if asked == little else f"more than {32 << 20} bytes"
        assert expected in answer, f"{asked}: {answer[:300]}"
