"""Waits for objects in stores: other threads run meanwhile, signals end them, and datasets go to other processes."""

import copy
import multiprocessing
import operator
import os
import pickle
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, wait_until

ROWS = 60_000


class Ranges(BaseHTTPRequestHandler):
    """Answers ranges of one file, by a thread of Python, which needs the interpreter's lock."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        server.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        if server.hangs:
            # The client goes.
            self.rfile.read(1)
            self.close_connection = True
            return
        data, tag = server.data, server.tag
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        start = int(first) if first else max(len(data) - int(last), 0)
        end = min(int(last) + 1, len(data)) if first else len(data)
        self.send_response(206)
        self.send_header("ETag", tag)
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self.wfile.write(data[start:end])

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, data):
        super().__init__(("127.0.0.1", 0), Ranges)
        self.data, self.tag, self.hangs, self.requests = data, '"one"', False, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/x.arrow"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """An object of several batches, of which the end has no values."""
    numbers = np.arange(ROWS)
    lists = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 2 * ROWS + 1, 2, dtype="int32")), pa.array(np.arange(2 * ROWS))
    )
    columns = {
        "n": numbers,
        "x": numbers / 2,
        "text": [f"text {n % 1000}" for n in range(ROWS)],
        "flag": numbers % 3 == 0,
        "list": lists,
        "member": pa.StructArray.from_arrays([pa.array(numbers)], ["inner"]),
        # The last one, so that the end of the object has only its values.
        "tail": np.random.default_rng(1).random(ROWS),
    }
    table = pa.table(columns)
    path = tmp_path_factory.mktemp("object") / "x.arrow"
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=ROWS // 3)
    return path.read_bytes()


@pytest.fixture
def server(data):
    server = Server(data)
    yield server
    server.shutdown()
    server.server_close()


def consume(iterator, count=3):
    return [next(iterator) for _ in range(count)]


# Calls of each name of a dataset, before its bytes are fetched.
OF_DATASETS = {
    "__array__": lambda ds: np.asarray(ds.select("n", "x")),
    "__arrow_c_stream__": pa.table,
    "__contains__": lambda ds: "n" in ds,
    "__getitem__": lambda ds: (ds[7], ds[-1], ds[5:9][1], ds[[3, 4]][0], ds[ds["n"] == 5][0], ds["x"][40_000]),
    "__getitems__": lambda ds: ds.__getitems__([5, 40_000]),
    "__iter__": lambda ds: consume(iter(ds)),
    "__len__": len,
    "__reduce__": pickle.dumps,
    "__repr__": repr,
    "_block": lambda ds: ds.select("n")._block(),
    "_gathered": lambda ds: ds._gathered(1 << 30),
    "_narrowed": lambda ds: ds.filter(aw.col("n") > 5),
    "_places": lambda ds: ds._places(),
    "_repr_html_": lambda ds: ds._repr_html_(),
    "_view_of": lambda ds: ds._view_of(np.array([5, 6]).tobytes())[0],
    "_fitted": lambda ds: ds._fitted([]),
    "aggregate": lambda ds: ds.aggregate("flag", sum="n").to_pylist(),
    "batches": lambda ds: ds.batches()[1][0],
    "collect": lambda ds: ds.collect()[0],
    "describe": lambda ds: ds.select("n", "x").describe().to_pylist(),
    "drop_nulls": lambda ds: ds.drop_nulls("n")[0],
    "filter": lambda ds: ds.filter(aw.col("n") > 59_990).to_pylist(),
    "head": lambda ds: ds.head(2).to_pylist(),
    "left": lambda ds: ds.left,
    "loader": lambda ds: next(iter(ds.select("n", "x").loader(100, seed=1))),
    "footprint": lambda ds: ds.footprint,
    "messages": lambda ds: ds.messages,
    "nbytes": lambda ds: ds.nbytes,
    "num_batches": lambda ds: ds.num_batches,
    "positions": lambda ds: ds.positions,
    "refresh": lambda ds: ds.refresh(),
    "row": lambda ds: (ds.row(7), ds.row(-1)),
    "rows": lambda ds: consume(ds.rows(40_000)),
    "sample": lambda ds: ds.sample(5, seed=1).to_pylist(),
    "shape": lambda ds: ds.shape,
    "shuffle": lambda ds: (ds.shuffle(1)[0], ds.shuffle(2)[:3].to_pylist()),
    "sort": lambda ds: ds.select("n", "x").sort("x")[0],
    "splits": lambda ds: ds.splits(3)[1].open()[0],
    "sql": lambda ds: ds.select("n").sql("select max(n) as most from self")[0],
    "tail": lambda ds: ds.tail(2).to_pylist(),
    "take": lambda ds: ds.take([5, 50_000]).to_pylist(),
    "to_arrow": lambda ds: ds.to_arrow(),
    "to_numpy": lambda ds: ds.select("n", "x").to_numpy(),
    "to_pandas": lambda ds: ds.to_pandas(),
    "to_polars": lambda ds: ds.to_polars(),
    "to_pylist": lambda ds: ds[20_000:20_010].to_pylist(),
    "train_test_split": lambda ds: ds.train_test_split(seed=1)[1][0],
    "unique": lambda ds: ds.select("flag").unique().to_pylist(),
    "validate": lambda ds: ds.validate(),
}

# Names of which the values play no part: what the footer says, and what refuses.
NO_DATASETS = """
    __arrow_c_schema__ __datafusion_table_provider__ __doc__ __eq__ __ge__ __getattribute__ __getattr__ __gt__ __hash__ __le__
    __lt__ __module__ __ne__ _check_versions _dtypes _in_partition _ipython_key_completions_ _pick _versions _with_names between column
    columns dtypes first_row keys num_columns partitions path rename schema select sorted_by
""".split()

OF_COLUMNS = {
    "__array__": np.asarray,
    "__array_function__": lambda c: np.sum(c),
    "__array_ufunc__": lambda c: np.add(c, 1),
    "__arrow_c_stream__": pa.chunked_array,
    "__dlpack__": np.from_dlpack,
    "__getitem__": lambda c: (c[5], c[-1], c[3:5][0], c[[1, 2]][0]),
    "__iter__": lambda c: consume(iter(c)),
    "__len__": len,
    "__repr__": repr,
    "_lists": lambda c: c._lists(),
    "_parts": lambda c: c._parts(),
    "all": lambda c: c.all(),
    "any": lambda c: c.any(),
    "approx_quantile": lambda c: c.approx_quantile(0.5),
    "chunks": lambda c: c.chunks()[1][0],
    "count": lambda c: c.count(),
    "drop_nulls": lambda c: c.drop_nulls()[0],
    "map_reduce": lambda c: c.map_reduce(np.sum, operator.add),
    "max": lambda c: c.max(),
    "mean": lambda c: c.mean(),
    "median": lambda c: c.median(),
    "min": lambda c: c.min(),
    "n_unique": lambda c: c.n_unique(),
    "null_count": lambda c: c.null_count,
    "quantile": lambda c: c.quantile(0.25),
    "sort": lambda c: c.sort()[0],
    "std": lambda c: c.std(),
    "sum": lambda c: c.sum(),
    "to_arrow": lambda c: c.to_arrow(),
    "to_numpy": lambda c: c.to_numpy(),
    "to_pylist": lambda c: c[20_000:20_010].to_pylist(),
    "unique": lambda c: c.unique(),
    "value_counts": lambda c: c.value_counts()[0],
    "var": lambda c: c.var(),
}

NO_COLUMNS = """
    __add__ __arrow_c_schema__ __bool__ __dlpack_device__ __doc__ __eq__ __ge__ __getattribute__ __getattr__ __gt__ __hash__
    __le__ __lt__ __mod__ __module__ __mul__ __ne__ __radd__ __rmod__ __rmul__ __rsub__ __rtruediv__ __sub__ __truediv__
    dtype field is_between is_in is_not_null is_null name
""".split()

# Names that need another column than one of numbers.
COLUMNS = {"all": "flag", "any": "flag", "_lists": "list"}


def test_all_names_are_tried():
    for cls, tried, others in ((aw.Dataset, OF_DATASETS, NO_DATASETS), (aw.Column, OF_COLUMNS, NO_COLUMNS)):
        assert set(vars(cls)) - set(others) == set(tried), cls


@pytest.mark.parametrize("name", OF_DATASETS)
def test_other_threads_run_while_a_dataset_waits_for_bytes(server, name):
    """The server is one of them: if none ran, it could not answer."""
    assert OF_DATASETS[name](aw.open(server.url)) is not server


@pytest.mark.parametrize("name", OF_COLUMNS)
def test_other_threads_run_while_a_column_waits_for_bytes(server, name):
    assert OF_COLUMNS[name](aw.open(server.url)[COLUMNS.get(name, "n")]) is not server


@pytest.mark.parametrize("column", ["text", "list", "member"])
def test_nested_values_are_fetched_whole(server, data, column):
    expected = pa.ipc.open_file(data).read_all()[column]
    found = aw.open(server.url)[column]
    assert found[40_000] == expected[40_000].as_py()
    assert consume(iter(aw.open(server.url)[column])) == expected[:3].to_pylist()
    assert aw.open(server.url)[column][59_000:59_010].to_pylist() == expected[59_000:59_010].to_pylist()


@pytest.mark.parametrize(
    "call",
    [
        lambda ds, to: aw.write(ds, to),
        lambda ds, to: aw.write(ds, aw.Buffer()),
        lambda ds, to: aw.concat([ds, ds])[70_000],
        lambda ds, to: aw.from_arrow(ds)[5],
        lambda ds, to: [frame.collect() for frame in [aw.scan(ds.select("n")).head(3)]],
        lambda ds, to: aw.sql("select count(*) from ds", ds=ds.select("n"))[0],
        lambda ds, to: append(to, ds.select("n", "text")),
        lambda ds, to: aw.Builder(ds.select("n").schema).append(ds.select("n")),
        lambda ds, to: np.concatenate([np.asarray(ds["n"]), np.asarray(ds["n"])]),
    ],
)
def test_other_threads_run_while_functions_wait_for_bytes(server, tmp_path, call):
    call(aw.open(server.url), tmp_path / "x.arrow")


def append(path, ds):
    with aw.writer(path, ds.schema) as writer:
        writer.append(ds)


# ---- signals ----


def interrupted(code, *arguments, when):
    """Sends SIGINT to a process as soon as `when(process)` holds, and returns its output."""
    command = [sys.executable, "-u", "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: process.poll() is not None or when(process), "the process waits")
        process.send_signal(signal.SIGINT)
        out, problem = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return out, problem


OPENING = "import sys, arrowwood as aw\nurl = sys.argv[1]\n"
# None of these has an end of its own before the timeout of a request, which has another error.
WAITS = {
    "open": "aw.open(url)",
    "rows": "ds[0]",
    "last": "ds[-60_000]",
    "sum": "ds['n'].sum()",
    "sums": "ds.aggregate('flag', sum='x')",
    "numpy": "ds['x'].to_numpy()",
    "list": "ds['text'].to_pylist()",
    "copy": "aw.open(url, copy=True)",
    "filter": "ds.filter(aw.col('n') > 5)",
    "several": "aw.open([url] * 40)",
    "repr": "repr(ds['n'])",
}


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_request_that_hangs(server, name):
    needs_rows = "ds" in WAITS[name]
    code = OPENING + ("ds = aw.open(url)\nprint('there')\ninput()\n" if needs_rows else "") + CAUGHT.format(WAITS[name])
    command = [sys.executable, "-u", "-c", code, server.url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, **pipes)
    try:
        if needs_rows:
            assert process.stdout.readline() == "there\n"
        before = len(server.requests)
        server.hangs = True
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: len(server.requests) > before or process.poll() is not None, "the request hangs")
        process.send_signal(signal.SIGINT)
        out, problem = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in out and not problem, (out, problem)


# A request that hangs fails after 30 seconds with an error of its own.
CAUGHT = "try:\n    {}\nexcept KeyboardInterrupt:\n    print('KeyboardInterrupt')\n"


def test_a_signal_handler_runs_while_a_request_hangs(server):
    code = (
        "import signal, sys, arrowwood as aw\n"
        "class Over(Exception): pass\n"
        "def over(*_): raise Over('by hand')\n"
        "signal.signal(signal.SIGINT, over)\n"
        "try:\n    aw.open(sys.argv[1])\nexcept Over as problem:\n    print(repr(problem))\n"
    )
    server.hangs = True
    out, problem = interrupted(code, server.url, when=lambda _: server.requests)
    assert out == "Over('by hand')\n", problem


def waits_in_a_call(process):
    """Waits until the process says that it begins its call."""
    return process.stdout.readline() == "now\n"


def test_ctrl_c_ends_the_wait_for_another_writer(tmp_path):
    with aw.writer(tmp_path / "t", "n: int64"):
        code = "import sys, arrowwood as aw\n" + CAUGHT.format("print('now'); " + "aw.writer(sys.argv[1], wait=1e6)")
        out, problem = interrupted(code, tmp_path / "t", when=waits_in_a_call)
    assert out == "KeyboardInterrupt\n" and not problem


@pytest.mark.parametrize(
    "call",
    ["next(aw.follow(sys.argv[1]))", "next(aw.follow([sys.argv[1]] * 2))", "list(aw.follow(sys.argv[1], timeout=1e6))"],
)
def test_ctrl_c_ends_the_wait_for_rows(tmp_path, call):
    aw.writer(tmp_path / "t", "n: int64").close()
    code = "import sys, arrowwood as aw\n" + CAUGHT.format("print('now'); " + call)
    out, problem = interrupted(code, tmp_path / "t", when=waits_in_a_call)
    assert out == "KeyboardInterrupt\n" and not problem


def test_ctrl_c_ends_the_wait_for_a_stream(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read_end = os.open(tmp_path / "pipe", os.O_RDWR)
    code = "import sys, arrowwood as aw\n" + CAUGHT.format(
        "print('now'); " + "aw.read_stream(open(sys.argv[1], 'rb', 0))"
    )
    out, problem = interrupted(code, tmp_path / "pipe", when=waits_in_a_call)
    os.close(read_end)
    assert out == "KeyboardInterrupt\n" and not problem


def test_ctrl_c_ends_the_wait_for_the_writer_of_another_thread(tmp_path):
    """A thread uses the writer for as long as it appends a stream that doesn't end."""
    code = (
        "import os, sys, threading, arrowwood as aw\n"
        "writer = aw.writer(sys.argv[1], 'n: int64', segment_rows=1 << 40)\n"
        "rows = aw.from_arrow(__import__('pyarrow').table({'n': range(1 << 20)}))\n"
        "for _ in range(6): rows = aw.concat([rows, rows])\n"
        "busy = True\n"
        "def append():\n"
        "    while busy:\n        writer.append(rows); writer.rollback()\n"
        "threading.Thread(target=append, daemon=True).start()\n"
        "try:\n    print('now')\n    while True: writer.rows\n"
        "except KeyboardInterrupt:\n    busy = False; print('KeyboardInterrupt'); sys.stdout.flush(); os._exit(0)\n"
    )
    out, problem = interrupted(code, tmp_path / "t", when=waits_in_a_call)
    assert out == "KeyboardInterrupt\n", problem


# ---- other processes ----


def length_and_row(ds):
    return len(ds), ds[40_000 % len(ds)]


@pytest.mark.parametrize("way", ["pickle", "deepcopy", "spawn", "fork"])
def test_datasets_of_urls_go_to_other_processes(server, way):
    ds = aw.open(server.url + "?X-Amz-Signature=hush")
    for rows in (ds, ds[100:50_000], ds.select("x", "n"), ds.shuffle(3), aw.open([server.url, server.url])):
        if way == "pickle":
            found = length_and_row(pickle.loads(pickle.dumps(rows)))
        elif way == "deepcopy":
            found = length_and_row(copy.deepcopy(rows))
        else:
            with multiprocessing.get_context(way).Pool(1) as pool:
                found = pool.apply(length_and_row, (rows,))
        assert found == length_and_row(rows)
    assert any("hush" in path for path, _ in server.requests)


@pytest.mark.parametrize("what", ["pickle", "split"])
def test_an_object_that_was_replaced_is_not_opened_for_the_one_that_was_pickled(server, what):
    url = server.url.replace("://", "://user:hushpw@") + "?X-Amz-Signature=hush"
    ds = aw.open(url)
    kept = pickle.dumps(ds) if what == "pickle" else ds.splits(2)[1]
    again = (lambda: pickle.loads(kept)) if what == "pickle" else kept.open
    assert len(again()) > 0
    assert "hush" not in repr(kept) or what == "pickle"
    server.tag = '"two"'
    with pytest.raises(aw.FileChanged) as caught:
        again()
    assert_no_secret(caught.value)


# ---- secrets ----


def assert_no_secret(problem):
    """None is in an exception, nor in those that led to it."""
    while problem is not None:
        told = [str(problem), repr(problem), problem.args, vars(problem), getattr(problem, "filename", "")]
        assert "hush" not in repr(told), told
        problem = problem.__cause__ or problem.__context__


def attempts(tmp_path, ds):
    """Each function that takes a path, by its name."""
    aw.writer(tmp_path / "table", "n: int64").close()
    return {
        "open": aw.open,
        "open list": lambda url: aw.open([url, tmp_path / "table"]),
        "open glob": lambda url: aw.open(url.replace("x.arrow", "*.arrow")),
        "open copy": lambda url: aw.open(url, copy=True),
        "open partitioning": lambda url: aw.open(url, partitioning={"day": "date"}),
        "write": lambda url: aw.write(ds, url),
        "writer": lambda url: aw.writer(url, "n: int64"),
        "writer partition": lambda url: aw.writer(url, "n: int64", partition={"day": "a"}),
        "writer partition_by": lambda url: aw.writer(url, "n: int64", partition_by="n"),
        "check": aw.check,
        "repair": aw.repair,
        "compact": aw.compact,
        "alter": lambda url: aw.alter(url, "n: int64"),
        "drop_partition": lambda url: aw.drop_partition(url, day="a"),
        "follow": lambda url: next(aw.follow(url)),
        "aggregation": lambda url: aw.aggregation(url, sum="n"),
        "map": lambda url: aw.map(url),
        "read_csv": aw.read_csv,
        "read_json": aw.read_json,
        "read_parquet": aw.read_parquet,
        "read_stream": aw.read_stream,
        "stream_writer": lambda url: aw.stream_writer(url, "n: int64"),
        "connect": lambda url: aw.connect(url).tables(),
        "scan": lambda url: aw.scan(url).collect(),
        "sql": lambda url: aw.sql("select * from t", t=url),
    }


@pytest.mark.parametrize("scheme", ["http", "s3", "ftp"])
def test_no_error_has_the_password_or_the_signature_of_a_url(tmp_path, monkeypatch, scheme):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    url = f"{scheme}://user:hushpw@127.0.0.1:1/x.arrow?X-Amz-Signature=hush&b=hush#hush"
    for name, attempt in attempts(tmp_path, aw.from_arrow(pa.table({"n": [1]}))).items():
        with pytest.raises(Exception) as caught:
            attempt(url)
        try:
            assert_no_secret(caught.value)
        except AssertionError as problem:
            raise AssertionError(name) from problem


def test_the_user_and_the_password_of_a_url_are_sent_to_its_host_alone(server, data):
    ds = aw.open(server.url.replace("://", "://user:hush%40pw@"))
    assert ds[0]["n"] == 0
    sent = {headers.get("authorization") for _, headers in server.requests}
    assert sent == {"Basic dXNlcjpodXNoQHB3"}
    with pytest.raises(aw.InvalidArgument, match="no user and password"):
        aw.open("s3://user:hush@bucket/x.arrow")


@pytest.mark.parametrize(
    "status, says", [(401, "asks for a user and a password"), (403, "denies access"), (404, "no such file")]
)
def test_a_web_server_that_refuses_is_not_taken_for_aws(status, says):
    class Refuses(Ranges):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises((aw.PermissionDenied, aw.NotFound), match=says) as caught:
            aw.open(f"http://127.0.0.1:{server.server_port}/x.arrow")
        server.shutdown()
    assert "AWS" not in str(caught.value)


class Redirects(Ranges):
    def do_GET(self):
        self.server.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(self.server.status)
        self.send_header("Location", self.server.target)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_tells_another_host_nothing_but_what_is_asked_for(server, status):
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as first:
        first.requests, first.status, first.target = [], status, server.url.replace("127.0.0.1", "localhost")
        threading.Thread(target=first.serve_forever, daemon=True).start()
        url = f"http://user:hush@127.0.0.1:{first.server_port}/x.arrow?X-Amz-Signature=hush"
        assert aw.open(url)[0]["n"] == 0
        first.shutdown()
    assert all("hush" in path and "authorization" in headers for path, headers in first.requests)
    for path, headers in server.requests:
        assert path == "/x.arrow" and set(headers) <= TOLD, headers


TOLD = {"accept", "host", "if-match", "if-none-match", "range", "user-agent"}


def test_a_bucket_that_redirects_tells_another_host_no_token(server, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as first:
        first.requests, first.status, first.target = [], 307, server.url.replace("127.0.0.1", "localhost")
        threading.Thread(target=first.serve_forever, daemon=True).start()
        for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
            monkeypatch.setenv(f"AWS_{name}", "hush")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{first.server_port}")
        assert aw.open("s3://bucket/x.arrow")[0]["n"] == 0
        first.shutdown()
    assert any("hush" in headers.get("x-amz-security-token", "") for _, headers in first.requests)
    for path, headers in server.requests:
        assert "hush" not in repr((path, headers)) and set(headers) <= TOLD, headers


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "//", "loop"])
def test_a_redirect_to_nowhere_is_an_error(target):
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as first:
        url = f"http://127.0.0.1:{first.server_port}/x.arrow"
        first.requests, first.status, first.target = [], 302, url if target == "loop" else target
        threading.Thread(target=first.serve_forever, daemon=True).start()
        with pytest.raises(aw.Unsupported, match="redirects"):
            aw.open(url)
        first.shutdown()
    assert len(first.requests) <= 12


# ---- the files of the cache ----


def test_what_is_fetched_is_in_files_that_nobody_can_have_taken(server, tmp_path):
    code = (
        "import os, sys, arrowwood as aw\n"
        "folder = os.environ['TMPDIR'] or '.'\n"
        "for n in range(4): open(f'{folder}/.arrowwood-{os.getpid()}-{n}', 'w').close()\n"
        "before = set(os.listdir())\n"
        "ds = aw.open(sys.argv[1])\n"
        "maps = [line for line in open('/proc/self/maps') if '.arrowwood-' in line]\n"
        "assert ds[0]['n'] == 0 and maps and set(os.listdir()) == before\n"
        "print(maps[0].split()[5])\n"
    )
    named = tmp_path / "named"
    working = tmp_path / "working"
    named.mkdir()
    working.mkdir()
    for folder in (str(named), ""):
        done = subprocess.run(
            [sys.executable, "-c", code, server.url],
            env={**os.environ, "TMPDIR": folder},
            cwd=working,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        at = Path(done.stdout.strip()).parent
        assert at == named if folder else at not in (working, named)
