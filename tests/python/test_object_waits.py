"""Tests waits for object stores and web servers: other threads run, signals end waits, and secrets stay secret.

A web server in this process answers requests for ranges. It needs the interpreter's lock, so a call that held the lock
while it waits for bytes would never get an answer.
"""

import contextlib
import copy
import multiprocessing
import operator
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import arrowwood as aw
from waits import PATIENCE, is_asleep, wait_until

ROWS = 60_000

# Part of every password, token and signature in these tests. It must not appear in messages or in foreign requests.
SECRET = "hush"


class Request(NamedTuple):
    path: str
    headers: dict[str, str]


class RecordingHandler(BaseHTTPRequestHandler):
    """Records requests. Subclasses answer them."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append(Request(self.path, headers))
        self.answer()

    def log_message(self, *_):
        pass


class RangeHandler(RecordingHandler):
    """Answers ranges of the server's object."""

    def answer(self):
        if self.server.hangs:
            # Waits until the client closes the connection.
            self.rfile.read(1)
            self.close_connection = True
            return
        if self.server.before_answer:
            self.server.before_answer()
        data = self.server.data
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        if first:
            start = int(first)
            end = min(int(last) + 1, len(data))
        else:
            # "bytes=-N" requests the last N bytes.
            start = max(len(data) - int(last), 0)
            end = len(data)
        self.send_response(206)
        self.send_header("ETag", self.server.etag)
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        self.wfile.write(data[start:end])


class RedirectHandler(RecordingHandler):
    """Redirects every request to the server's target."""

    def answer(self):
        self.send_response(self.server.status)
        self.send_header("Location", self.server.target)
        self.send_header("Content-Length", "0")
        self.end_headers()


class RefusingHandler(RecordingHandler):
    """Refuses every request with the server's status."""

    def answer(self):
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Server(ThreadingHTTPServer):
    """A web server in a thread of this process. Its attributes are settings of the handler."""

    daemon_threads = True

    def __init__(self, handler, *, data=b"", status=200, target=""):
        super().__init__(("127.0.0.1", 0), handler)
        self.data = data
        self.etag = '"one"'
        self.status = status
        self.target = target
        self.hangs = False
        # Called before an answer.
        self.before_answer: Callable[[], None] | None = None
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/x.arrow"


@contextlib.contextmanager
def serve(handler, **settings) -> Iterator[Server]:
    with Server(handler, **settings) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Returns an Arrow file with several batches and kinds of columns."""
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
        # `open` fetches the end of the file with the footer. This column keeps values of the others out of the end.
        "tail": np.random.default_rng(1).random(ROWS),
    }
    table = pa.table(columns)
    path = tmp_path_factory.mktemp("object") / "x.arrow"
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=ROWS // 3)
    return path.read_bytes()


@pytest.fixture
def server(data):
    with serve(RangeHandler, data=data) as server:
        yield server


@contextlib.contextmanager
def waiting_for_signals(server) -> Iterator[None]:
    """Makes the server's next answer wait for the main thread to run a signal handler, as it does in waits."""
    ran = threading.Event()

    def run_handler():
        if not ran.is_set():
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
            assert ran.wait(PATIENCE), "the main thread runs no signal handlers while it waits"

    previous = signal.signal(signal.SIGUSR1, lambda *_: ran.set())
    server.before_answer = run_handler
    try:
        yield
    finally:
        server.before_answer = None
        signal.signal(signal.SIGUSR1, previous)


@pytest.fixture
def clear_environment(monkeypatch):
    """Removes settings of AWS from the environment."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)


def take(iterator, count=3):
    return [next(iterator) for _ in range(count)]


# ---- Other threads ----

# Calls of each member of a dataset that may wait for bytes.
DATASET_CALLS = {
    "__array__": lambda ds: np.asarray(ds.select("n", "x")),
    "__arrow_c_stream__": pa.table,
    "__contains__": lambda ds: "n" in ds,
    "__getitem__": lambda ds: (ds[7], ds[-1], ds[5:9][1], ds[[3, 4]][0], ds[ds["n"] == 5][0], ds["x"][40_000]),
    "__getitems__": lambda ds: ds.__getitems__([5, 40_000]),
    "__iter__": lambda ds: take(iter(ds)),
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
    "rows": lambda ds: take(ds.rows(40_000)),
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

# Members of a dataset that need no values: they use the footer only, or always raise an exception.
DATASET_MEMBERS_WITHOUT_WAITS = """
    __arrow_c_schema__ __datafusion_table_provider__ __doc__ __eq__ __ge__ __getattribute__ __getattr__ __gt__ __hash__ __le__
    __lt__ __module__ __ne__ _check_versions _dtypes _in_partition _ipython_key_completions_ _pick _versions _with_names between column
    columns dtypes first_row keys num_columns partitions path rename schema select sorted_by
""".split()

COLUMN_CALLS = {
    "__array__": np.asarray,
    "__array_function__": lambda column: np.sum(column),
    "__array_ufunc__": lambda column: np.add(column, 1),
    "__arrow_c_stream__": pa.chunked_array,
    "__dlpack__": np.from_dlpack,
    "__getitem__": lambda column: (column[5], column[-1], column[3:5][0], column[[1, 2]][0]),
    "__iter__": lambda column: take(iter(column)),
    "__len__": len,
    "__repr__": repr,
    "_lists": lambda column: column._lists(),
    "_parts": lambda column: column._parts(),
    "all": lambda column: column.all(),
    "any": lambda column: column.any(),
    "approx_quantile": lambda column: column.approx_quantile(0.5),
    "chunks": lambda column: column.chunks()[1][0],
    "count": lambda column: column.count(),
    "drop_nulls": lambda column: column.drop_nulls()[0],
    "map_reduce": lambda column: column.map_reduce(np.sum, operator.add),
    "max": lambda column: column.max(),
    "mean": lambda column: column.mean(),
    "median": lambda column: column.median(),
    "min": lambda column: column.min(),
    "n_unique": lambda column: column.n_unique(),
    "null_count": lambda column: column.null_count,
    "quantile": lambda column: column.quantile(0.25),
    "sort": lambda column: column.sort()[0],
    "std": lambda column: column.std(),
    "sum": lambda column: column.sum(),
    "to_arrow": lambda column: column.to_arrow(),
    "to_numpy": lambda column: column.to_numpy(),
    "to_pylist": lambda column: column[20_000:20_010].to_pylist(),
    "unique": lambda column: column.unique(),
    "value_counts": lambda column: column.value_counts()[0],
    "var": lambda column: column.var(),
}

COLUMN_MEMBERS_WITHOUT_WAITS = """
    __add__ __arrow_c_schema__ __bool__ __dlpack_device__ __doc__ __eq__ __ge__ __getattribute__ __getattr__ __gt__ __hash__
    __le__ __lt__ __mod__ __module__ __mul__ __ne__ __radd__ __rmod__ __rmul__ __rsub__ __rtruediv__ __sub__ __truediv__
    dtype field is_between is_in is_not_null is_null name
""".split()

# The columns for members that need another one than `n`.
CALL_COLUMNS = {"all": "flag", "any": "flag", "_lists": "list"}


def append_to_table(path, ds):
    with aw.writer(path, ds.schema) as writer:
        writer.append(ds)


# Calls with a dataset and a path.
FUNCTION_CALLS = [
    lambda ds, path: aw.write(ds, path),
    lambda ds, path: aw.write(ds, aw.Buffer()),
    lambda ds, path: aw.concat([ds, ds])[70_000],
    lambda ds, path: aw.from_arrow(ds)[5],
    lambda ds, path: aw.sql("select count(*) from ds", ds=ds.select("n"))[0],
    lambda ds, path: append_to_table(path, ds.select("n", "text")),
    lambda ds, path: aw.Builder(ds.select("n").schema).append(ds.select("n")),
    lambda ds, path: np.concatenate([np.asarray(ds["n"]), np.asarray(ds["n"])]),
]


def test_each_member_has_a_call_or_needs_none():
    assert set(vars(aw.Dataset)) - set(DATASET_MEMBERS_WITHOUT_WAITS) == set(DATASET_CALLS)
    assert set(vars(aw.Column)) - set(COLUMN_MEMBERS_WITHOUT_WAITS) == set(COLUMN_CALLS)


# The following tests hang if a call keeps the interpreter's lock while it waits, or does not look for signals. Other
# libraries call ours back without the lock, although one of our methods has called them.


@pytest.mark.parametrize("name", DATASET_CALLS)
def test_other_threads_run_while_a_dataset_waits_for_bytes(server, name):
    ds = aw.open(server.url)
    with waiting_for_signals(server):
        DATASET_CALLS[name](ds)


@pytest.mark.parametrize("name", COLUMN_CALLS)
def test_other_threads_run_while_a_column_waits_for_bytes(server, name):
    column = aw.open(server.url)[CALL_COLUMNS.get(name, "n")]
    with waiting_for_signals(server):
        COLUMN_CALLS[name](column)


@pytest.mark.parametrize("call", FUNCTION_CALLS)
def test_other_threads_run_while_functions_wait_for_bytes(server, tmp_path, call):
    ds = aw.open(server.url)
    with waiting_for_signals(server):
        call(ds, tmp_path / "x.arrow")


def test_other_threads_run_while_a_scan_waits_for_bytes(server):
    # Polars calls from threads of its own, and its main thread runs no signal handlers meanwhile.
    assert aw.scan(aw.open(server.url).select("n")).head(3).collect()["n"].to_list() == [0, 1, 2]


@pytest.mark.parametrize("name", ["text", "list", "member"])
def test_values_with_several_buffers_are_fetched(server, data, name):
    expected = pa.ipc.open_file(data).read_all()[name]
    assert aw.open(server.url)[name][40_000] == expected[40_000].as_py()
    assert take(iter(aw.open(server.url)[name])) == expected[:3].to_pylist()
    assert aw.open(server.url)[name][59_000:59_010].to_pylist() == expected[59_000:59_010].to_pylist()


# ---- Signals ----


class Output(NamedTuple):
    stdout: str
    stderr: str


def interrupt(code: str, *arguments, when: Callable[[subprocess.Popen], object]) -> Output:
    """Runs a script, sends it SIGINT when `when(process)` is true and the script is blocked, and returns its output."""
    command = [sys.executable, "-u", "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: process.poll() is not None or when(process), "the process begins its call")
        # A signal just before a system call would not interrupt it: Python only notes that it has arrived.
        wait_until(lambda: process.poll() is not None or is_asleep(process), "the process waits")
        process.send_signal(signal.SIGINT)
        return Output(*process.communicate(timeout=PATIENCE))
    finally:
        process.kill()


def is_about_to_call(process: subprocess.Popen) -> bool:
    """Waits until the script prints "now", immediately before its call."""
    return process.stdout.readline() == "now\n"


def catch_interrupt(statement: str) -> str:
    """Returns code that runs a statement and prints "KeyboardInterrupt" if it is interrupted."""
    return f"try:\n    {statement}\nexcept KeyboardInterrupt:\n    print('KeyboardInterrupt')\n"


# None of these ends by itself before the timeout of a request, after 30 seconds, which causes another error.
HANGING_CALLS = {
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


@pytest.mark.parametrize("name", HANGING_CALLS)
def test_ctrl_c_ends_a_request_that_hangs(server, name):
    call = HANGING_CALLS[name]
    needs_dataset = "ds" in call
    code = "import sys, arrowwood as aw\nurl = sys.argv[1]\n"
    if needs_dataset:
        # Opens the dataset before the server hangs.
        code += "ds = aw.open(url)\nprint('opened')\ninput()\n"
    code += catch_interrupt(call)
    command = [sys.executable, "-u", "-c", code, server.url]
    process = subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        if needs_dataset:
            assert process.stdout.readline() == "opened\n"
        before = len(server.requests)
        server.hangs = True
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: len(server.requests) > before or process.poll() is not None, "the request hangs")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in stdout, stderr
    assert not stderr


CUSTOM_HANDLER = """
import signal, sys, arrowwood as aw

class Interrupted(Exception):
    pass

def on_signal(*_):
    raise Interrupted('by hand')

signal.signal(signal.SIGINT, on_signal)
try:
    aw.open(sys.argv[1])
except Interrupted as error:
    print(repr(error))
"""


def test_signal_handler_runs_while_a_request_hangs(server):
    server.hangs = True
    output = interrupt(CUSTOM_HANDLER, server.url, when=lambda _: server.requests)
    assert output.stdout == "Interrupted('by hand')\n", output.stderr


def test_ctrl_c_ends_the_wait_for_another_writer(tmp_path):
    with aw.writer(tmp_path / "t", "n: int64"):
        code = "import sys, arrowwood as aw\n" + catch_interrupt("print('now'); aw.writer(sys.argv[1], wait=1e6)")
        output = interrupt(code, tmp_path / "t", when=is_about_to_call)
    assert output == Output(stdout="KeyboardInterrupt\n", stderr="")


@pytest.mark.parametrize(
    "call",
    ["next(aw.follow(sys.argv[1]))", "next(aw.follow([sys.argv[1]] * 2))", "list(aw.follow(sys.argv[1], timeout=1e6))"],
)
def test_ctrl_c_ends_the_wait_for_rows(tmp_path, call):
    aw.writer(tmp_path / "t", "n: int64").close()
    code = "import sys, arrowwood as aw\n" + catch_interrupt(f"print('now'); {call}")
    output = interrupt(code, tmp_path / "t", when=is_about_to_call)
    assert output == Output(stdout="KeyboardInterrupt\n", stderr="")


def test_ctrl_c_ends_the_wait_for_a_stream(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    # Keeps the pipe open, so that the script waits for its first byte.
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)
    call = "print('now'); aw.read_stream(open(sys.argv[1], 'rb', 0))"
    output = interrupt(
        "import sys, arrowwood as aw\n" + catch_interrupt(call), tmp_path / "pipe", when=is_about_to_call
    )
    os.close(pipe)
    assert output == Output(stdout="KeyboardInterrupt\n", stderr="")


# A thread appends for a long time, again and again, while the main thread waits for the writer.
WAIT_FOR_BUSY_WRITER = """
import os, sys, threading, arrowwood as aw, pyarrow as pa

writer = aw.writer(sys.argv[1], 'n: int64', segment_rows=1 << 40)
rows = aw.from_arrow(pa.table({'n': range(1 << 20)}))
for _ in range(6):
    rows = aw.concat([rows, rows])
is_busy = True

def append():
    while is_busy:
        writer.append(rows)
        writer.rollback()

threading.Thread(target=append, daemon=True).start()
try:
    print('now')
    while True:
        writer.rows
except KeyboardInterrupt:
    is_busy = False
    print('KeyboardInterrupt')
    sys.stdout.flush()
    os._exit(0)
"""


def test_ctrl_c_ends_the_wait_for_a_writer_in_another_thread(tmp_path):
    output = interrupt(WAIT_FOR_BUSY_WRITER, tmp_path / "t", when=is_about_to_call)
    assert output.stdout == "KeyboardInterrupt\n", output.stderr


# ---- Other processes ----


def length_and_row(ds):
    return len(ds), ds[40_000 % len(ds)]


@pytest.mark.parametrize("transport", ["pickle", "deepcopy", "spawn", "fork"])
def test_datasets_of_urls_can_be_sent_to_other_processes(server, transport):
    ds = aw.open(f"{server.url}?X-Amz-Signature={SECRET}")
    for rows in (ds, ds[100:50_000], ds.select("x", "n"), ds.shuffle(3), aw.open([server.url, server.url])):
        if transport == "pickle":
            received = length_and_row(pickle.loads(pickle.dumps(rows)))
        elif transport == "deepcopy":
            received = length_and_row(copy.deepcopy(rows))
        else:
            with multiprocessing.get_context(transport).Pool(1) as pool:
                received = pool.apply(length_and_row, (rows,))
        assert received == length_and_row(rows)
    assert any(SECRET in request.path for request in server.requests)


def open_with_credentials(server) -> aw.Dataset:
    url = server.url.replace("://", f"://user:{SECRET}pw@") + f"?X-Amz-Signature={SECRET}"
    return aw.open(url)


def assert_replaced_object_is_refused(server, reopen):
    """Asserts that `reopen` works until the object is replaced, and that the exception has no secret."""
    assert len(reopen()) > 0
    server.etag = '"two"'
    with pytest.raises(aw.FileChanged) as caught:
        reopen()
    assert_no_secret(caught.value)


def test_pickled_dataset_refuses_a_replaced_object(server):
    pickled = pickle.dumps(open_with_credentials(server))
    assert_replaced_object_is_refused(server, lambda: pickle.loads(pickled))


def test_split_refuses_a_replaced_object(server):
    split = open_with_credentials(server).splits(2)[1]
    assert SECRET not in repr(split)
    assert_replaced_object_is_refused(server, split.open)


# ---- Secrets ----


def assert_no_secret(error: BaseException | None) -> None:
    """Asserts that neither an exception nor its causes contain a secret."""
    while error is not None:
        texts = repr([str(error), repr(error), error.args, vars(error), getattr(error, "filename", "")])
        assert SECRET not in texts, texts
        error = error.__cause__ or error.__context__


# The functions that take a path, as calls with a URL, a folder and a dataset.
PATH_CALLS = {
    "open": lambda url, folder, ds: aw.open(url),
    "open list": lambda url, folder, ds: aw.open([url, folder / "table"]),
    "open glob": lambda url, folder, ds: aw.open(url.replace("x.arrow", "*.arrow")),
    "open copy": lambda url, folder, ds: aw.open(url, copy=True),
    "open partitioning": lambda url, folder, ds: aw.open(url, partitioning={"day": "date"}),
    "write": lambda url, folder, ds: aw.write(ds, url),
    "writer": lambda url, folder, ds: aw.writer(url, "n: int64"),
    "writer partition": lambda url, folder, ds: aw.writer(url, "n: int64", partition={"day": "a"}),
    "writer partition_by": lambda url, folder, ds: aw.writer(url, "n: int64", partition_by="n"),
    "check": lambda url, folder, ds: aw.check(url),
    "repair": lambda url, folder, ds: aw.repair(url),
    "compact": lambda url, folder, ds: aw.compact(url),
    "alter": lambda url, folder, ds: aw.alter(url, "n: int64"),
    "drop_partition": lambda url, folder, ds: aw.drop_partition(url, day="a"),
    "follow": lambda url, folder, ds: next(aw.follow(url)),
    "aggregation": lambda url, folder, ds: aw.aggregation(url, sum="n"),
    "map": lambda url, folder, ds: aw.map(url),
    "read_csv": lambda url, folder, ds: aw.read_csv(url),
    "read_json": lambda url, folder, ds: aw.read_json(url),
    "read_parquet": lambda url, folder, ds: aw.read_parquet(url),
    "read_stream": lambda url, folder, ds: aw.read_stream(url),
    "stream_writer": lambda url, folder, ds: aw.stream_writer(url, "n: int64"),
    "connect": lambda url, folder, ds: aw.connect(url).tables(),
    "scan": lambda url, folder, ds: aw.scan(url).collect(),
    "sql": lambda url, folder, ds: aw.sql("select * from t", t=url),
}


@pytest.mark.usefixtures("clear_environment")
@pytest.mark.parametrize("call", PATH_CALLS.values(), ids=PATH_CALLS)
@pytest.mark.parametrize("scheme", ["http", "s3", "ftp"])
def test_exceptions_contain_no_secret_of_a_url(tmp_path, scheme, call):
    aw.writer(tmp_path / "table", "n: int64").close()
    ds = aw.from_arrow(pa.table({"n": [1]}))
    url = f"{scheme}://user:{SECRET}pw@127.0.0.1:1/x.arrow?X-Amz-Signature={SECRET}&b={SECRET}#{SECRET}"
    # Each call raises an exception of its own: a refused scheme, connection, or argument.
    with pytest.raises(Exception) as caught:
        call(url, tmp_path, ds)
    assert_no_secret(caught.value)


def test_user_and_password_of_a_url_are_sent_as_authorization(server):
    ds = aw.open(server.url.replace("://", f"://user:{SECRET}%40pw@"))
    assert ds[0]["n"] == 0
    # The Base64 encoding of "user:hush@pw".
    assert {request.headers.get("authorization") for request in server.requests} == {"Basic dXNlcjpodXNoQHB3"}


def test_user_and_password_of_a_bucket_are_refused():
    with pytest.raises(aw.InvalidArgument, match="no user and password"):
        aw.open(f"s3://user:{SECRET}@bucket/x.arrow")


@pytest.mark.parametrize(
    "status, message", [(401, "asks for a user and a password"), (403, "denies access"), (404, "no such file")]
)
def test_refusal_of_a_web_server_does_not_mention_aws(status, message):
    with serve(RefusingHandler, status=status) as server:
        with pytest.raises((aw.PermissionDenied, aw.NotFound), match=message) as caught:
            aw.open(server.url)
    assert "AWS" not in str(caught.value)


# The headers that another host may see after a redirect.
PUBLIC_HEADERS = {"accept", "host", "if-match", "if-none-match", "range", "user-agent"}


def as_another_host(url: str) -> str:
    """Returns the URL of the same server by another host name."""
    return url.replace("127.0.0.1", "localhost")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_sends_no_secret_to_another_host(server, status):
    with serve(RedirectHandler, status=status, target=as_another_host(server.url)) as first:
        credentials = f"://user:{SECRET}@"
        url = first.url.replace("://", credentials) + f"?X-Amz-Signature={SECRET}"
        assert aw.open(url)[0]["n"] == 0
    for request in first.requests:
        assert SECRET in request.path
        assert "authorization" in request.headers
    for request in server.requests:
        assert request.path == "/x.arrow"
        assert set(request.headers) <= PUBLIC_HEADERS, request.headers


@pytest.mark.usefixtures("clear_environment")
def test_redirect_of_a_bucket_sends_no_token_to_another_host(server, monkeypatch):
    with serve(RedirectHandler, status=307, target=as_another_host(server.url)) as first:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, SECRET)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{first.server_port}")
        assert aw.open("s3://bucket/x.arrow")[0]["n"] == 0
    assert any(SECRET in request.headers.get("x-amz-security-token", "") for request in first.requests)
    for request in server.requests:
        assert SECRET not in repr(request)
        assert set(request.headers) <= PUBLIC_HEADERS, request.headers


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "//", "loop"])
def test_invalid_redirect_is_refused(target):
    with serve(RedirectHandler, status=302, target=target) as server:
        if target == "loop":
            server.target = server.url
        with pytest.raises(aw.Unsupported, match="redirects"):
            aw.open(server.url)
    assert len(server.requests) <= 12


# ---- Cached files ----

# Creates files with names that the process might use, and prints the path of the file that it maps.
OPEN_WITH_TAKEN_NAMES = """
import os, sys, arrowwood as aw
folder = os.environ['TMPDIR'] or '.'
for n in range(4):
    open(f'{folder}/.arrowwood-{os.getpid()}-{n}', 'w').close()
before = set(os.listdir())
ds = aw.open(sys.argv[1])
maps = [line for line in open('/proc/self/maps') if '.arrowwood-' in line]
assert ds[0]['n'] == 0 and maps and set(os.listdir()) == before
print(maps[0].split()[5])
"""


def test_names_of_cached_files_cannot_be_taken(server, tmp_path):
    temporary = tmp_path / "temporary"
    working = tmp_path / "working"
    temporary.mkdir()
    working.mkdir()

    def find_cache_folder(tmpdir):
        result = subprocess.run(
            [sys.executable, "-c", OPEN_WITH_TAKEN_NAMES, server.url],
            env={**os.environ, "TMPDIR": tmpdir},
            cwd=working,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert result.returncode == 0, result.stderr
        return Path(result.stdout.strip()).parent

    assert find_cache_folder(str(temporary)) == temporary
    # An empty TMPDIR does not stand for the current directory.
    assert find_cache_folder("") not in (temporary, working)
