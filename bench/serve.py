"""Compares `arrowwood serve` with other servers, in addition to the figures of `bench/src/bin/serve.rs`.

    python bench/serve.py target/release/arrowwood [--small]

Servers take turns over loopback, and medians are printed. A server that is not installed is left out, with a row that
says what it needs: pyarrow; `roapi` (pip install roapi); DuckDB with Quack (pip install duckdb duckdb-extension-quack
duckdb-extension-httpfs); QuestDB, a jar in the variable QUESTDB_JAR and java.
"""

import glob
import importlib.util
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

IS_SMALL = "--small" in sys.argv
BYTES = (16 if IS_SMALL else 512) << 20
ROUNDS = 2 if IS_SMALL else 5
SECONDS = 0.5 if IS_SMALL else 5
# The file of four columns of float64.
BYTES_PER_ROW = 32
BATCHES = 256
LINES = 100_000 if IS_SMALL else 10_000_000
TOKEN = "secret_secret_secret_1234567890"


def print_row(figure, wanted, reached):
    print(f"| {figure} | {wanted} | {reached} |", flush=True)


def print_left_out(figure, wanted, needs):
    print_row(figure, wanted, f"left out: needs {needs}")


class Server:
    """A server process that ends with its `with` block."""

    def __init__(self, command, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True} | options
        self.process = subprocess.Popen(command, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def private_kilobytes(self):
        """Returns the kilobytes of memory that only this process uses."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return sum(int(row.split()[1]) for row in text.splitlines() if row.startswith(("Private_Dirty:", "Swap:")))


def start_arrowwood(program, data):
    server = Server([program, "serve", data, "--listen", "127.0.0.1:0"])
    server.url = server.process.stdout.readline().strip()
    return server


def wait_for(url):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            return urllib.request.urlopen(url, timeout=1).read()
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(url)


def write_file(path):
    import numpy as np
    import pyarrow as pa

    rows = BYTES // BYTES_PER_ROW // BATCHES
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64()), ("c", pa.float64()), ("d", pa.float64())])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for number in range(BATCHES):
            values = np.arange(number * rows, (number + 1) * rows) / 2
            writer.write_batch(pa.record_batch([values] * 4, schema))


# ---- DoGet by pyarrow's client ----

FLIGHT_SERVER = """
import sys, pyarrow as pa, pyarrow.flight as flight
file = pa.ipc.open_file(pa.memory_map(sys.argv[1]))
batches = [file.get_batch(number) for number in range(file.num_record_batches)]
class Server(flight.FlightServerBase):
    def do_get(self, context, ticket):
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(file.schema, batches))
server = Server("grpc://127.0.0.1:0")
print(server.port, flush=True)
server.serve()
"""


def time_do_get(client, ticket):
    """Returns the seconds that a client takes to read all rows."""
    start, rows = time.perf_counter(), 0
    for chunk in client.do_get(ticket):
        rows += chunk.data.num_rows
    assert rows * BYTES_PER_ROW == BYTES
    return time.perf_counter() - start


def flight_figure(program, folder):
    figure, wanted = f"DoGet of {BYTES >> 20} MiB, pyarrow's client : pyarrow's C++ server", "≥ 1.3 ×"
    if importlib.util.find_spec("pyarrow") is None:
        return print_left_out(figure, wanted, "pyarrow")
    import pyarrow.flight as flight

    with (
        start_arrowwood(program, folder) as arrowwood_server,
        Server([sys.executable, "-c", FLIGHT_SERVER, str(folder / "big.arrow")]) as other_server,
    ):
        clients = [
            flight.connect(arrowwood_server.url.replace("http", "grpc", 1)),
            flight.connect(f"grpc://127.0.0.1:{int(other_server.process.stdout.readline())}"),
        ]
        ticket = flight.Ticket(b"big.arrow")
        times = [[time_do_get(client, ticket) for client in clients] for _ in range(ROUNDS + 1)][1:]
    ours, theirs = (statistics.median(column) for column in zip(*times))
    return print_row(
        figure, wanted, f"{theirs / ours:.2f} × ({BYTES / ours / 1e9:.2f} : {BYTES / theirs / 1e9:.2f} GB/s)"
    )


# ---- first byte and memory ----


def seconds_to_first_byte(request):
    start, first = time.perf_counter(), None
    with urllib.request.urlopen(request, timeout=300) as answer:
        while answer.read(1 << 20):
            first = first or time.perf_counter() - start
    return first


def roapi_figure(program, folder):
    figure, wanted = f"first byte and private memory of {BYTES >> 20} MiB : ROAPI", "≤ 1/100 and ≤ 1/30"
    roapi = shutil.which("roapi")
    if roapi is None:
        return print_left_out(figure, wanted, "roapi")
    with start_arrowwood(program, folder) as arrowwood_server:
        before = arrowwood_server.private_kilobytes()
        ours = statistics.median(
            seconds_to_first_byte(f"{arrowwood_server.url}/v1/tables/big.arrow/rows") for _ in range(ROUNDS)
        )
        added_kilobytes = arrowwood_server.private_kilobytes() - before
    addresses = [
        "--addr-http",
        "127.0.0.1:47010",
        "--addr-postgres",
        "127.0.0.1:47011",
        "--addr-flight-sql",
        "127.0.0.1:47012",
    ]
    with Server([roapi, "--table", f"d={folder / 'big.arrow'}", *addresses]) as other_server:
        wait_for("http://127.0.0.1:47010/health")
        headers = {"Accept": "application/vnd.apache.arrow.stream"}
        request = urllib.request.Request("http://127.0.0.1:47010/api/sql", data=b"select * from d", headers=headers)
        theirs = statistics.median(seconds_to_first_byte(request) for _ in range(ROUNDS))
        other_kilobytes = other_server.private_kilobytes()
    times = f"1/{theirs / ours:.0f} ({1e3 * ours:.1f} : {1e3 * theirs:.0f} ms)"
    ratio = other_kilobytes / max(added_kilobytes, 1)
    memory = f"1/{ratio:.0f} ({added_kilobytes / 1024:.1f} : {other_kilobytes / 1024:.0f} MiB)"
    return print_row(figure, wanted, f"{times} and {memory}")


# ---- durable rows of many producers ----


MAX_UNANSWERED = 64


def send_batches(address, table, number, connected):
    """Sends batches of one row for SECONDS, with at most MAX_UNANSWERED unanswered. Returns the number of batches."""
    import pyarrow as pa
    import pyarrow.flight as flight

    client = flight.FlightClient(address)
    batch = pa.record_batch({"ts": [number], "symbol": ["AAPL"], "price": [1.5], "n": [number]})
    writer, answers = client.do_put(flight.FlightDescriptor.for_path(table), batch.schema)
    connected.wait()
    deadline = time.monotonic() + SECONDS
    sent = answered = 0
    while time.monotonic() < deadline:
        writer.write_batch(batch)
        sent += 1
        if sent - answered == MAX_UNANSWERED:
            assert b'"first_row"' in answers.read().to_pybytes()
            answered += 1
    writer.done_writing()
    while answered < sent:
        answers.read()
        answered += 1
    client.close()
    return answered


def measure_producers(program, data, count):
    """Returns how many durable batches of one row per second the server takes from `count` threads of this process."""
    table = f"t{count}"
    columns = "ts: int64, symbol: utf8, price: float64, n: int64"
    subprocess.run([program, "create", data / table, "--schema", columns], check=True)
    with start_arrowwood(program, data) as server, ThreadPoolExecutor(count) as pool:
        address = server.url.replace("http://", "grpc://")
        connected = threading.Barrier(count + 1)
        futures = [pool.submit(send_batches, address, table, number, connected) for number in range(count)]
        connected.wait()
        start = time.monotonic()
        answered = sum(future.result() for future in futures)
        return answered / (time.monotonic() - start)


def connect_with_quack(path=":memory:"):
    import duckdb

    connection = duckdb.connect(path)
    for folder in sys.path:
        for extension in glob.glob(f"{folder}/duckdb_extension_*/extensions/*/*.duckdb_extension"):
            if Path(extension).name.split(".")[0] in ("httpfs", "quack"):
                connection.execute(f"load '{extension}'")
    return connection


def serve_quack(path, ready, stop):
    connection = connect_with_quack(path)
    connection.execute("create table t(ts timestamp, symbol varchar, price double, n bigint)")
    connection.execute(f"call quack_serve('quack:localhost', token='{TOKEN}')").fetchall()
    ready.set()
    stop.wait()


def insert_through_quack(seconds, sent):
    connection = connect_with_quack()
    connection.execute(f"attach 'quack:localhost' as r (token '{TOKEN}')")
    start, rows = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        connection.execute(f"insert into r.t values (now()::timestamp, 'AAPL', 1.5, {rows})")
        rows += 1
    sent.put(rows / (time.monotonic() - start))


def quack_figure(program, folder):
    figure, wanted = "64 streams of durable batches of one row : Quack, the best of 1 and 4 clients", "≥ 50 ×"
    data = folder / "tables"
    data.mkdir()
    # Python threads send the rows, which are slower than the clients of bench/src/bin/serve.rs.
    ours = measure_producers(program, data, 64)
    if importlib.util.find_spec("duckdb_extension_quack") is None:
        return print_left_out(figure, wanted, f"duckdb-extension-quack; Arrowwood {ours:.0f} rows/s")
    spawn = multiprocessing.get_context("spawn")
    ready, stop, theirs = spawn.Event(), spawn.Event(), []
    server = spawn.Process(target=serve_quack, args=(str(folder / "q.duckdb"), ready, stop))
    server.start()
    assert ready.wait(60), "Quack does not start"
    # Quack crashed with ten clients.
    for count in (1, 4):
        sent = spawn.Queue()
        clients = [spawn.Process(target=insert_through_quack, args=(SECONDS, sent)) for _ in range(count)]
        for client in clients:
            client.start()
        theirs.append(sum(sent.get(timeout=60) for _ in clients))
    stop.set()
    server.join(10)
    return print_row(figure, wanted, f"{ours / max(theirs):.1f} × ({ours:.0f} : {max(theirs):.0f} rows/s)")


# ---- line protocol ----


def format_line(number):
    host, time_ns = f"host{number % 100}", 1_700_000_000_000_000_000 + 1000 * number
    return f"cpu,host={host},region=eu usage_user={number % 97}.5,usage_system={number % 31}i {time_ns}\n"


def post_lines(url, body):
    urllib.request.urlopen(urllib.request.Request(f"{url}/write", data=body), timeout=300).read()


def send_lines(url):
    """Returns the rows per second of line protocol over four connections. The bodies are built before."""
    lines_per_body = 10_000
    bodies = []
    for start in range(0, LINES, lines_per_body):
        bodies.append("".join(map(format_line, range(start, start + lines_per_body))).encode())
    with ThreadPoolExecutor(4) as pool:
        start = time.perf_counter()
        list(pool.map(partial(post_lines, url), bodies))
        return LINES / (time.perf_counter() - start)


def questdb_figure(program, folder):
    figure, wanted = f"{LINES / 1e6:g} M rows of line protocol : QuestDB", "≥ 1 ×"
    data = folder / "lines"
    data.mkdir()
    with start_arrowwood(program, data) as arrowwood_server:
        ours = send_lines(arrowwood_server.url)
    jar, java = os.environ.get("QUESTDB_JAR"), shutil.which("java")
    if jar is None or java is None:
        return print_left_out(figure, wanted, f"QUESTDB_JAR and java; Arrowwood {ours / 1e6:.2f} M rows/s, all durable")
    root = folder / "questdb"
    root.mkdir()
    # QuestDB would block on a full pipe, as nothing reads its output.
    with Server(
        [java, "-p", jar, "-m", "io.questdb/io.questdb.ServerMain", "-d", str(root)], stdout=subprocess.DEVNULL
    ):
        wait_for("http://127.0.0.1:9000/exec?query=select+1")
        theirs = send_lines("http://127.0.0.1:9000")
    return print_row(
        figure,
        wanted,
        f"{ours / theirs:.2f} × ({ours / 1e6:.2f} M rows/s, durable : {theirs / 1e6:.2f} M rows/s, as it acknowledges)",
    )


def main():
    program = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory(prefix="arrowwood-bench-") as folder:
        folder = Path(folder)
        if importlib.util.find_spec("pyarrow") is None:
            sys.exit("bench/serve.py needs pyarrow and NumPy, also to write its file")
        write_file(folder / "big.arrow")
        for figure in (flight_figure, roapi_figure, quack_figure, questdb_figure):
            figure(program, folder)


if __name__ == "__main__":
    main()
