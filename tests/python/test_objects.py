"""Tables in an object store: pushed there, and read there by us and by others."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, wait_until

ROWS = 5000
# Rows of more bytes than a part of an upload has.
IN_PARTS = 350_000


def answers(url):
    try:
        urllib.request.urlopen(url, timeout=PATIENCE).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def endpoint():
    """The URL of an S3 server of this machine."""
    pytest.importorskip("moto.server", reason="moto[server] is not installed: nothing is asked of S3")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(f"{url}/moto-api/") or server.poll() is not None, "the S3 server answers")
        yield url
    finally:
        server.terminate()
        server.wait(PATIENCE)


@pytest.fixture
def bucket(endpoint, monkeypatch):
    """The name of a new bucket, which the environment leads to."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.endswith("_proxy")]:
        monkeypatch.delenv(name)
    known = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1", "ENDPOINT_URL": endpoint}
    for name, value in known.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    name = f"bucket{time.time_ns()}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return name


def test_an_environment_without_credentials_says_where_they_come_from(monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    # The role of a machine of AWS, which object_store asks for last: nothing listens there.
    monkeypatch.setenv("no_proxy", "169.254.169.254")
    with pytest.raises(
        aw.PermissionDenied, match="there are no credentials; credentials are taken from AWS_ACCESS_KEY_ID"
    ):
        aw.open("s3://some-bucket/x.arrow")


def table_of(path, start=0, rows=ROWS):
    schema = pa.schema({"n": pa.int64(), "text": pa.string(), "symbol": pa.string(), "price": pa.float64()})
    with aw.writer(path, schema, dictionary=["symbol"], segment_rows=1000) as writer:
        numbers = range(start, start + rows)
        texts = [f"row {n}" if n % 7 else None for n in numbers]
        symbols = [["ash", "elm", "oak"][n % 3] for n in numbers]
        writer.append({"n": list(numbers), "text": texts, "symbol": symbols, "price": [n / 4 for n in numbers]})
    return path


def arrowwood(*arguments):
    command = [sys.executable, "-m", "arrowwood._cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def push(table, url, *options):
    done = arrowwood("push", "--json", *options, table, url)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_table_is_pushed_and_read_by_all(bucket, endpoint, tmp_path):
    table = table_of(tmp_path / "ticks", rows=ROWS + 10)
    url = f"s3://{bucket}/data/ticks"
    first = push(table, url)
    assert (first["rows"], first["end"], first["left"]) == (ROWS, ROWS, 10)
    assert push(table, url)["objects"] == 0
    told = arrowwood("push", table, url)
    assert "0 rows pushed" in told.stdout and "10 rows not yet" in told.stdout
    expected = aw.open(table)[:ROWS]
    for name in (url, f"{url}/", f"{url}/{0:020}.arrow"):
        ds = aw.open(name)
        assert len(ds) == ROWS and ds[-1] == expected[-1] and ds[1234] == expected[1234]
    assert ds["price"].sum() == expected["price"].sum()
    assert ds.filter(aw.col("symbol") == "elm")["n"].to_pylist() == list(range(1, ROWS, 3))
    assert pa.table(ds).to_pylist() == pa.table(expected).to_pylist()
    shown = arrowwood("head", "-n", "1", "--json", f"{url}/")
    assert shown.returncode == 0 and json.loads(shown.stdout)["n"] == 0, shown.stderr
    # Pushing and reading still work.
    assert push(table, url, "--all")["rows"] == 10
    assert len(aw.open(f"{url}/")) == ROWS + 10


def test_others_read_what_was_pushed(bucket, endpoint, tmp_path):
    fs, dataset = pytest.importorskip("pyarrow.fs"), pytest.importorskip("pyarrow.dataset")
    pl = pytest.importorskip("polars")
    table = table_of(tmp_path / "ticks")
    url = f"s3://{bucket}/ticks"
    push(table, url, "--all")
    expected = pa.table(aw.open(table)).to_pylist()
    options = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}
    store = fs.S3FileSystem(endpoint_override=endpoint, **options)
    assert dataset.dataset(f"{bucket}/ticks", filesystem=store, format="ipc").to_table().num_rows == ROWS
    names = [info.path for info in store.get_file_info(fs.FileSelector(f"{bucket}/ticks"))]
    parts = [pa.ipc.open_file(store.open_input_file(name)).read_all() for name in sorted(names)]
    assert [row for part in parts for row in part.to_pylist()] == expected
    data = [store.open_input_file(name).read() for name in sorted(names)]
    assert [row for part in data for row in pl.read_ipc(part).to_dicts()] == expected
    # Two pushes at the same time may leave such files.
    for start, what in [(ROWS - 5, "are there twice"), (ROWS + 5, "are missing")]:
        other = f"{bucket}/ticks/{start:020}.arrow"
        store.copy_file(f"{bucket}/ticks/{0:020}.arrow", other)
        with pytest.raises(aw.InvalidData, match=f"rows {what}"):
            aw.open(f"{url}/")
        store.delete_file(other)
    assert len(aw.open(f"{url}/")) == ROWS


class Gate(BaseHTTPRequestHandler):
    """Passes requests on to a store; holds those that make an object, where `held` is set, until `opened` is."""

    protocol_version = "HTTP/1.1"
    store = ""
    held = threading.Event()
    opened = threading.Event()

    def passed(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        makes = self.command == "PUT" and "uploadId" not in self.path
        if makes or (self.command == "POST" and "uploadId" in self.path):
            self.held.set()
            self.opened.wait(PATIENCE)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
        headers.setdefault("Content-Type", "application/octet-stream")
        request = urllib.request.Request(self.store + self.path, method=self.command, data=body, headers=headers)
        try:
            answer = urllib.request.urlopen(request, timeout=PATIENCE)
        except urllib.error.HTTPError as e:
            answer = e
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = answer.headers["Content-Length"] if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = passed

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("rows", [ROWS, IN_PARTS], ids=["at once", "in parts"])
def test_of_two_pushes_at_once_one_makes_an_object(bucket, endpoint, tmp_path, rows):
    """The slower one, which began with fewer rows, replaced the longer object of the faster one."""
    table = table_of(tmp_path / "ticks", rows=rows)
    url = f"s3://{bucket}/ticks"
    gate = ThreadingHTTPServer(("127.0.0.1", 0), Gate)
    gate.daemon_threads = True
    Gate.store, Gate.held, Gate.opened = endpoint, threading.Event(), threading.Event()
    threading.Thread(target=gate.serve_forever, daemon=True).start()
    command = [sys.executable, "-m", "arrowwood._cli", "push", "--json", str(table), url]
    through = {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{gate.server_port}"}
    slower = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=through)
    try:
        wait_until(lambda: Gate.held.is_set() or slower.poll() is not None, "the slower one makes its object")
        assert len(uploads(endpoint, bucket)) == (rows == IN_PARTS)
        table_of(table, start=rows, rows=rows)
        faster = push(table, url)
        with aw.writer(table) as writer:
            writer.drop_before(rows + 1000)
        table_of(table, start=2 * rows, rows=3000)
        Gate.opened.set()
        told, errors = slower.communicate(timeout=PATIENCE)
        assert slower.returncode == 0, errors
    finally:
        Gate.opened.set()
        slower.kill()
        gate.shutdown()
    done = json.loads(told)
    assert faster["rows"] == faster["end"] and done["end"] == faster["end"] + done["rows"]
    assert done["left"] == 2 * rows + 3000 - done["end"] < rows
    ds = aw.open(url)
    assert ds["n"].to_pylist() == list(range(done["end"]))


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_push_that_is_ended_leaves_no_parts(bucket, endpoint, tmp_path, stop):
    """Parts that were sent once stayed in the bucket, where no listing shows them."""
    gate = ThreadingHTTPServer(("127.0.0.1", 0), Gate)
    gate.daemon_threads = True
    Gate.store, Gate.held, Gate.opened = endpoint, threading.Event(), threading.Event()
    threading.Thread(target=gate.serve_forever, daemon=True).start()
    table = table_of(tmp_path / "ticks", rows=IN_PARTS)
    command = [sys.executable, "-m", "arrowwood._cli", "push", str(table), f"s3://{bucket}/ticks"]
    through = {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{gate.server_port}"}
    pushing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=through)
    try:
        wait_until(lambda: Gate.held.is_set() or pushing.poll() is not None, "all parts are sent")
        assert len(uploads(endpoint, bucket)) == 1
        pushing.send_signal(stop)
        told = pushing.communicate(timeout=PATIENCE)
    finally:
        Gate.opened.set()
        pushing.kill()
        gate.shutdown()
    assert pushing.returncode == -stop, told
    assert uploads(endpoint, bucket) == []


def uploads(endpoint, bucket):
    """The uploads that have begun and not ended."""
    with urllib.request.urlopen(f"{endpoint}/{bucket}?uploads=", timeout=PATIENCE) as answer:
        return re.findall("<UploadId>([^<]+)</UploadId>", answer.read().decode())


def test_another_table_of_the_same_columns_is_refused(bucket, tmp_path):
    url = f"s3://{bucket}/ticks"
    assert push(table_of(tmp_path / "ticks"), url, "--all")["end"] == ROWS
    done = arrowwood("push", table_of(tmp_path / "anew", start=7, rows=2 * ROWS), url)
    assert done.returncode == 1, done.stdout
    assert f"among the rows from {ROWS - 100} to {ROWS} are others than the table's" in done.stderr, done.stderr
    assert len(aw.open(url)) == ROWS


def test_rows_that_are_in_the_bucket_and_in_the_table_are_refused_in_one_dataset(bucket, tmp_path):
    table, url = table_of(tmp_path / "ticks"), f"s3://{bucket}/ticks"
    # The rows from the last object on stay in the table alone.
    end = push(table, url)["end"]
    assert 0 < end < ROWS
    first = f"{url}/{0:020}.arrow"
    for sources in [[url, table], [table, f"{url}/"], [first, table]]:
        with pytest.raises(ValueError, match=r"rows 0 to \d+ of one table are in"):
            aw.open(sources)
    push(table, f"file://{tmp_path}/copies")
    copy = next((tmp_path / "copies").iterdir()).read_bytes()
    with pytest.raises(ValueError, match=r"of one table are in source\[0\]"):
        aw.open([copy, table])
    done = arrowwood("cat", url, table)
    assert done.returncode == 1 and "of one table are in" in done.stderr, done.stderr
    # Others have rows of the same numbers.
    assert len(aw.open([url, table_of(tmp_path / "other", start=7)])) == end + ROWS
    with aw.writer(table) as writer:
        writer.drop_before(end)
    rows = aw.open([url, table])
    assert rows["n"].to_pylist() == aw.open(url)["n"].to_pylist() + aw.open(table)["n"].to_pylist()


def test_what_is_refused(bucket, endpoint, tmp_path, monkeypatch):
    with pytest.raises(aw.NotFound, match="no such object|no objects"):
        aw.open(f"s3://{bucket}/nothing.arrow")
    with pytest.raises(aw.NotFound):
        aw.open(f"s3://{bucket}/nothing/")
    for url in ("s3://no-such-bucket/x.arrow", "s3://no-such-bucket/x/"):
        with pytest.raises(aw.NotFound, match="no such bucket"):
            aw.open(url)
    missing = arrowwood("push", tmp_path / "nothing", f"s3://{bucket}/x")
    assert missing.returncode == 1 and "there is no table" in missing.stderr
    done = arrowwood("push", table_of(tmp_path / "ticks"), "https://example.org/x")
    assert done.returncode == 1 and "s3://BUCKET/PATH" in done.stderr
    done = arrowwood("push", tmp_path / "ticks", "s3://no-such-bucket/x")
    assert done.returncode == 1 and "no such bucket" in done.stderr
    done = arrowwood("push", tmp_path / "ticks", "copies")
    assert done.returncode == 1 and "copies: expected a URL such as s3://BUCKET/PATH or file:///PATH" in done.stderr


class Ranges(BaseHTTPRequestHandler):
    """Answers ranges of one file."""

    protocol_version = "HTTP/1.1"
    data = b""
    asked: list = []

    def do_GET(self):
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        size = len(self.data)
        start = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first else size
        self.asked.append(end - start)
        self.send_response(206)
        self.send_header("ETag", '"one"')
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self.wfile.write(self.data[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def web():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Ranges)
    Ranges.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/prices.arrow"
    server.shutdown()


def test_a_file_of_a_web_server(web, tmp_path):
    table = pa.table({"a": range(300_000), "b": [n / 2 for n in range(300_000)]})
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=200_000)
    Ranges.data = (tmp_path / "x.arrow").read_bytes()
    ds = aw.open(web)
    assert ds["a"].sum() == sum(range(300_000))
    # The other column of the large batch was not requested.
    assert sum(Ranges.asked) < len(Ranges.data) - 1_000_000
    array = ds["a"].to_numpy()
    assert array[-1] == 299_999 and pa.table(ds).equals(table)
    assert ds.to_polars()["b"].sum() == sum(table["b"].to_pylist())
    assert len(aw.open([web, web])) == 600_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_reads_on(web, tmp_path):
    aw.write({"a": range(200_000)}, tmp_path / "x.arrow")
    Ranges.data = (tmp_path / "x.arrow").read_bytes()
    ds = aw.open(web)
    code = (
        "import os, sys, arrowwood as aw\n"
        "ds = aw.open(sys.argv[1]); ds[-1]\n"
        "child = os.fork()\n"
        "good = ds['a'].sum() == sum(range(200_000))\n"
        "if child == 0: os._exit(0 if good else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and good\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, web], check=True, timeout=PATIENCE)
    assert len(ds) == 200_000


def test_a_server_that_ignores_ranges(tmp_path):
    class Whole(Ranges):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Whole)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.raises(aw.Unsupported, match="ignores ranges"):
        aw.open(f"http://127.0.0.1:{server.server_port}/x.arrow")
    server.shutdown()


def test_nobody_is_there():
    with pytest.raises(aw.IoError, match="reading the object"):
        aw.open("http://127.0.0.1:9/x.arrow")
