"""Tests tables in object stores: ``arrowwood push``, and reading objects with Arrowwood and with other libraries."""

import contextlib
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
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, wait_until

ROWS = 5000
# As many rows need a multipart upload, because they have more bytes than one part.
MULTIPART_ROWS = 350_000
COMMAND = [sys.executable, "-m", "arrowwood._cli"]


# ---- An S3 server on this machine ----


def is_answering(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=PATIENCE).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Starts an S3 server and returns its URL."""
    pytest.importorskip("moto.server", reason="moto[server] is not installed: nothing is asked of S3")
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port = free_socket.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: is_answering(f"{url}/moto-api/") or server.poll() is not None, "the S3 server answers")
        yield url
    finally:
        server.terminate()
        server.wait(PATIENCE)


def clear_environment(monkeypatch) -> None:
    """Removes settings of AWS from the environment."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)


@pytest.fixture
def bucket(endpoint, monkeypatch) -> str:
    """Creates a bucket, sets the environment to find it, and returns its name."""
    clear_environment(monkeypatch)
    for name in list(os.environ):
        if name.endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    name = f"bucket{time.time_ns()}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return name


def list_uploads(endpoint: str, bucket: str) -> list[str]:
    """Returns the ids of multipart uploads that are neither completed nor aborted."""
    with urllib.request.urlopen(f"{endpoint}/{bucket}?uploads=", timeout=PATIENCE) as response:
        return re.findall("<UploadId>([^<]+)</UploadId>", response.read().decode())


# ---- Tables and the command ----


def append_rows(path, start=0, rows=ROWS):
    """Creates or extends a table with rows numbered from ``start``, and returns its path."""
    schema = pa.schema({"n": pa.int64(), "text": pa.string(), "symbol": pa.string(), "price": pa.float64()})
    numbers = range(start, start + rows)
    columns = {
        "n": list(numbers),
        "text": [f"row {n}" if n % 7 else None for n in numbers],
        "symbol": [["ash", "elm", "oak"][n % 3] for n in numbers],
        "price": [n / 4 for n in numbers],
    }
    with aw.writer(path, schema, dictionary=["symbol"], segment_rows=1000) as writer:
        writer.append(columns)
    return path


def run_command(*arguments) -> subprocess.CompletedProcess:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def push(table, url, *options) -> dict:
    """Pushes a table and returns the report of the command."""
    result = run_command("push", "--json", *options, table, url)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


# ---- Pushing ----


def test_pushed_rows_can_be_opened(bucket, tmp_path):
    table = append_rows(tmp_path / "ticks", rows=ROWS + 10)
    url = f"s3://{bucket}/data/ticks"
    report = push(table, url)
    assert (report["rows"], report["end"], report["left"]) == (ROWS, ROWS, 10)
    assert push(table, url)["objects"] == 0
    repeated = run_command("push", table, url)
    assert "0 rows pushed" in repeated.stdout
    assert "10 rows not yet" in repeated.stdout

    expected = aw.open(table)[:ROWS]
    for object_url in (url, f"{url}/", f"{url}/{0:020}.arrow"):
        ds = aw.open(object_url)
        assert len(ds) == ROWS
        assert ds[-1] == expected[-1]
        assert ds[1234] == expected[1234]
    assert ds["price"].sum() == expected["price"].sum()
    assert ds.filter(aw.col("symbol") == "elm")["n"].to_pylist() == list(range(1, ROWS, 3))
    assert pa.table(ds).to_pylist() == pa.table(expected).to_pylist()
    head = run_command("head", "-n", "1", "--json", f"{url}/")
    assert head.returncode == 0, head.stderr
    assert json.loads(head.stdout)["n"] == 0

    assert push(table, url, "--all")["rows"] == 10
    assert len(aw.open(f"{url}/")) == ROWS + 10


def test_pushed_rows_can_be_read_by_pyarrow_and_polars(bucket, endpoint, tmp_path):
    fs = pytest.importorskip("pyarrow.fs")
    dataset = pytest.importorskip("pyarrow.dataset")
    pl = pytest.importorskip("polars")
    table = append_rows(tmp_path / "ticks")
    push(table, f"s3://{bucket}/ticks", "--all")
    expected = pa.table(aw.open(table)).to_pylist()

    store = fs.S3FileSystem(endpoint_override=endpoint, access_key="key", secret_key="secret", region="us-east-1")
    assert dataset.dataset(f"{bucket}/ticks", filesystem=store, format="ipc").to_table().num_rows == ROWS
    pyarrow_rows = []
    polars_rows = []
    for name in sorted(info.path for info in store.get_file_info(fs.FileSelector(f"{bucket}/ticks"))):
        pyarrow_rows += pa.ipc.open_file(store.open_input_file(name)).read_all().to_pylist()
        polars_rows += pl.read_ipc(store.open_input_file(name).read()).to_dicts()
    assert pyarrow_rows == expected
    assert polars_rows == expected


def test_objects_that_overlap_or_leave_a_gap_are_refused(bucket, endpoint, tmp_path):
    """Two pushes at the same time may leave such objects."""
    fs = pytest.importorskip("pyarrow.fs")
    url = f"s3://{bucket}/ticks"
    push(append_rows(tmp_path / "ticks"), url, "--all")
    store = fs.S3FileSystem(endpoint_override=endpoint, access_key="key", secret_key="secret", region="us-east-1")
    for start, problem in [(ROWS - 5, "are there twice"), (ROWS + 5, "are missing")]:
        copy = f"{bucket}/ticks/{start:020}.arrow"
        store.copy_file(f"{bucket}/ticks/{0:020}.arrow", copy)
        with pytest.raises(aw.InvalidData, match=f"rows {problem}"):
            aw.open(f"{url}/")
        store.delete_file(copy)
    assert len(aw.open(f"{url}/")) == ROWS


class BlockingProxy(ThreadingHTTPServer):
    """Forwards requests to a store, and blocks requests that create an object until :meth:`release` is called."""

    daemon_threads = True

    def __init__(self, store: str):
        super().__init__(("127.0.0.1", 0), ForwardingHandler)
        self.store = store
        self.is_blocking = threading.Event()
        self.released = threading.Event()

    def block(self):
        self.is_blocking.set()
        self.released.wait(PATIENCE)

    def release(self):
        self.released.set()


class ForwardingHandler(BaseHTTPRequestHandler):
    """Handles the requests to a :class:`BlockingProxy`."""

    protocol_version = "HTTP/1.1"

    def creates_object(self) -> bool:
        """Returns whether this request puts an object at once, or completes a multipart upload."""
        is_multipart = "uploadId" in self.path
        return (self.command == "PUT" and not is_multipart) or (self.command == "POST" and is_multipart)

    def forward(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        if self.creates_object():
            self.server.block()
        headers = {name: value for name, value in self.headers.items() if name.lower() != "transfer-encoding"}
        headers.setdefault("Content-Type", "application/octet-stream")
        url = self.server.store + self.path
        request = urllib.request.Request(url, method=self.command, data=body, headers=headers)
        try:
            response = urllib.request.urlopen(request, timeout=PATIENCE)
        except urllib.error.HTTPError as error:
            response = error
        self.send_copy(response)

    def send_copy(self, response):
        content = response.read()
        self.send_response(response.status)
        for name, value in response.headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = response.headers["Content-Length"] if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serve_in_thread(server: ThreadingHTTPServer) -> Iterator[str]:
    """Runs a server in a thread, and returns its URL."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def start_blocked_push(endpoint: str, table, url: str) -> Iterator[tuple[subprocess.Popen, BlockingProxy]]:
    """Starts a push and waits until it is about to create its object. The proxy lets it continue."""
    proxy = BlockingProxy(endpoint)
    with serve_in_thread(proxy) as proxy_url:
        process = subprocess.Popen(
            [*COMMAND, "push", "--json", str(table), url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "AWS_ENDPOINT_URL": proxy_url},
        )
        try:
            wait_until(lambda: proxy.is_blocking.is_set() or process.poll() is not None, "the push creates its object")
            yield process, proxy
        finally:
            proxy.release()
            process.kill()


@pytest.mark.parametrize("rows", [ROWS, MULTIPART_ROWS], ids=["at once", "in parts"])
def test_concurrent_pushes_create_one_object(bucket, endpoint, tmp_path, rows):
    """A slow push, which began when the table had fewer rows, must not replace the object of a faster push."""
    table = append_rows(tmp_path / "ticks", rows=rows)
    url = f"s3://{bucket}/ticks"
    with start_blocked_push(endpoint, table, url) as (process, proxy):
        assert len(list_uploads(endpoint, bucket)) == (1 if rows == MULTIPART_ROWS else 0)
        append_rows(table, start=rows, rows=rows)
        fast = push(table, url)
        with aw.writer(table) as writer:
            writer.drop_before(rows + 1000)
        append_rows(table, start=2 * rows, rows=3000)
        proxy.release()
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
    slow = json.loads(output)
    assert fast["rows"] == fast["end"]
    assert slow["end"] == fast["end"] + slow["rows"]
    assert slow["left"] == 2 * rows + 3000 - slow["end"] < rows
    assert aw.open(url)["n"].to_pylist() == list(range(slow["end"]))


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_interrupted_push_aborts_its_upload(bucket, endpoint, tmp_path, stop):
    """The parts of an upload that is not aborted stay in the bucket, where no listing shows them."""
    table = append_rows(tmp_path / "ticks", rows=MULTIPART_ROWS)
    with start_blocked_push(endpoint, table, f"s3://{bucket}/ticks") as (process, _):
        assert len(list_uploads(endpoint, bucket)) == 1
        process.send_signal(stop)
        output = process.communicate(timeout=PATIENCE)
    assert process.returncode == -stop, output
    assert list_uploads(endpoint, bucket) == []


def test_push_of_another_table_is_refused(bucket, tmp_path):
    url = f"s3://{bucket}/ticks"
    assert push(append_rows(tmp_path / "ticks"), url, "--all")["end"] == ROWS
    result = run_command("push", append_rows(tmp_path / "anew", start=7, rows=2 * ROWS), url)
    assert result.returncode == 1, result.stdout
    message = f"among the rows from {ROWS - 100} to {ROWS} are others than the table's"
    assert message in result.stderr, result.stderr
    assert len(aw.open(url)) == ROWS


@pytest.fixture
def pushed_table(bucket, tmp_path):
    """Pushes a table without its last segment, and returns its path, its URL, and the end of the pushed rows."""
    table = append_rows(tmp_path / "ticks")
    url = f"s3://{bucket}/ticks"
    end = push(table, url)["end"]
    assert 0 < end < ROWS
    return table, url, end


def test_open_refuses_a_table_beside_its_pushed_rows(pushed_table, tmp_path):
    table, url, _ = pushed_table
    first_object = f"{url}/{0:020}.arrow"
    for sources in [[url, table], [table, f"{url}/"], [first_object, table]]:
        with pytest.raises(ValueError, match=r"rows 0 to \d+ of one table are in"):
            aw.open(sources)
    result = run_command("cat", url, table)
    assert result.returncode == 1, result.stderr
    assert "of one table are in" in result.stderr, result.stderr

    # A copy of the object in memory has no URL.
    push(table, f"file://{tmp_path}/copies")
    copy = next((tmp_path / "copies").iterdir()).read_bytes()
    with pytest.raises(ValueError, match=r"of one table are in source\[0\]"):
        aw.open([copy, table])


def test_open_accepts_pushed_rows_beside_other_rows(pushed_table, tmp_path):
    table, url, end = pushed_table
    # Rows of another table may have the same numbers.
    assert len(aw.open([url, append_rows(tmp_path / "other", start=7)])) == end + ROWS
    with aw.writer(table) as writer:
        writer.drop_before(end)
    rows = aw.open([url, table])
    assert rows["n"].to_pylist() == aw.open(url)["n"].to_pylist() + aw.open(table)["n"].to_pylist()


# ---- Errors ----


def test_missing_credentials_are_explained(monkeypatch):
    clear_environment(monkeypatch)
    # As a last resort, object_store asks the metadata service of an EC2 machine, where nothing listens here.
    monkeypatch.setenv("no_proxy", "169.254.169.254")
    message = "there are no credentials; credentials are taken from AWS_ACCESS_KEY_ID"
    with pytest.raises(aw.PermissionDenied, match=message):
        aw.open("s3://some-bucket/x.arrow")


def test_open_reports_missing_objects_and_buckets(bucket):
    with pytest.raises(aw.NotFound, match="no such object|no objects"):
        aw.open(f"s3://{bucket}/nothing.arrow")
    with pytest.raises(aw.NotFound):
        aw.open(f"s3://{bucket}/nothing/")
    for url in ("s3://no-such-bucket/x.arrow", "s3://no-such-bucket/x/"):
        with pytest.raises(aw.NotFound, match="no such bucket"):
            aw.open(url)


def test_push_reports_missing_tables_and_wrong_urls(bucket, tmp_path):
    table = append_rows(tmp_path / "ticks")
    failures = [
        (tmp_path / "nothing", f"s3://{bucket}/x", "there is no table"),
        (table, "https://example.org/x", "s3://BUCKET/PATH"),
        (table, "s3://no-such-bucket/x", "no such bucket"),
        (table, "copies", "copies: expected a URL such as s3://BUCKET/PATH or file:///PATH"),
    ]
    for source, url, message in failures:
        result = run_command("push", source, url)
        assert result.returncode == 1, result.stdout
        assert message in result.stderr, result.stderr


# ---- Web servers ----


class RangeHandler(BaseHTTPRequestHandler):
    """Answers requests for ranges of ``data``, and records the sizes of the ranges."""

    protocol_version = "HTTP/1.1"
    data = b""
    range_sizes: list[int] = []

    def do_GET(self):
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        size = len(self.data)
        if first:
            start = int(first)
            end = min(int(last) + 1, size)
        else:
            # "bytes=-N" requests the last N bytes.
            start = max(size - int(last), 0)
            end = size
        self.range_sizes.append(end - start)
        self.send_response(206)
        self.send_header("ETag", '"one"')
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self.wfile.write(self.data[start:end])

    def log_message(self, *_):
        pass


class WholeFileHandler(BaseHTTPRequestHandler):
    """Ignores the range of a request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


@pytest.fixture
def web_url() -> Iterator[str]:
    """Starts a web server that answers ranges of ``RangeHandler.data``, and returns the URL of a file."""
    RangeHandler.range_sizes = []
    with serve_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), RangeHandler)) as url:
        yield f"{url}/prices.arrow"


def test_open_fetches_used_columns_from_a_web_server(web_url, tmp_path):
    rows = 300_000
    table = pa.table({"a": range(rows), "b": [n / 2 for n in range(rows)]})
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=200_000)
    RangeHandler.data = (tmp_path / "x.arrow").read_bytes()

    ds = aw.open(web_url)
    assert ds["a"].sum() == sum(range(rows))
    # The other column of the large batch, with 1.6 MB, was not requested.
    assert sum(RangeHandler.range_sizes) < len(RangeHandler.data) - 1_000_000
    assert ds["a"].to_numpy()[-1] == rows - 1
    assert pa.table(ds).equals(table)
    assert ds.to_polars()["b"].sum() == sum(table["b"].to_pylist())
    assert len(aw.open([web_url, web_url])) == 2 * rows


READ_AFTER_FORK = """
import os, sys, arrowwood as aw
ds = aw.open(sys.argv[1]); ds[-1]
child = os.fork()
is_equal = ds['a'].sum() == sum(range(200_000))
if child == 0: os._exit(0 if is_equal else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and is_equal
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forked_process_can_read_from_a_web_server(web_url, tmp_path):
    aw.write({"a": range(200_000)}, tmp_path / "x.arrow")
    RangeHandler.data = (tmp_path / "x.arrow").read_bytes()
    ds = aw.open(web_url)
    # Warnings are ignored because Python warns of a fork with threads.
    command = [sys.executable, "-W", "ignore", "-c", READ_AFTER_FORK, web_url]
    subprocess.run(command, check=True, timeout=PATIENCE)
    assert len(ds) == 200_000


def test_server_without_ranges_is_refused():
    with (
        serve_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), WholeFileHandler)) as url,
        pytest.raises(aw.Unsupported, match="ignores ranges"),
    ):
        aw.open(f"{url}/x.arrow")


def test_refused_connection_is_an_error():
    with pytest.raises(aw.IoError, match="reading the object"):
        aw.open("http://127.0.0.1:9/x.arrow")
