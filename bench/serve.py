"""`arrowwood serve` beside other servers: the figures that `bench/src/bin/serve.rs` can't take alone, in the same
table.

    python bench/serve.py target/release/arrowwood [--small]

Servers take turns over loopback, medians are printed, whoever wins. One that is not here is left out, with a line that
says what it needs: pyarrow; `roapi` (pip install roapi); DuckDB with Quack (pip install duckdb duckdb-extension-quack
duckdb-extension-httpfs); QuestDB, a jar in the variable QUESTDB_JAR and java."""

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
from pathlib import Path

IS_SMALL = "--small" in sys.argv
BYTES = (16 if IS_SMALL else 512) << 20
ROUNDS = 2 if IS_SMALL else 5
SECONDS = 0.5 if IS_SMALL else 5
LINES = 100_000 if IS_SMALL else 10_000_000
TOKEN = "secret_secret_secret_1234567890"


def line(figure, wanted, reached):
    print(f"| {figure} | {wanted} | {reached} |", flush=True)


def left_out(figure, wanted, needs):
    line(figure, wanted, f"left out: needs {needs}")


class Server:
    """A process that serves, and is ended with its block."""

    def __init__(self, command, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True} | options
        self.process = subprocess.Popen(command, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def private(self):
        """Kilobytes of memory that are its own."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return sum(int(row.split()[1]) for row in text.splitlines() if row.startswith(("Private_Dirty:", "Swap:")))


def arrowwood(program, data):
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

    rows = BYTES // 32 // 256
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64()), ("c", pa.float64()), ("d", pa.float64())])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for number in range(256):
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


def flight_figure(program, folder):
    figure, wanted = f"DoGet of {BYTES >> 20} MiB, pyarrow's client : pyarrow's C++ server", "≥ 1.3 ×"
    if importlib.util.find_spec("pyarrow") is None:
        return left_out(figure, wanted, "pyarrow")
    import pyarrow.flight as flight

    def seconds(client):
        begun, rows = time.perf_counter(), 0
        for chunk in client.do_get(flight.Ticket(b"big.arrow")):
            rows += chunk.data.num_rows
        assert rows * 32 == BYTES
        return time.perf_counter() - begun

    with (
        arrowwood(program, folder) as own,
        Server([sys.executable, "-c", FLIGHT_SERVER, str(folder / "big.arrow")]) as other,
    ):
        clients = [
            flight.connect(own.url.replace("http", "grpc", 1)),
            flight.connect(f"grpc://127.0.0.1:{int(other.process.stdout.readline())}"),
        ]
        times = [[seconds(client) for client in clients] for _ in range(ROUNDS + 1)][1:]
    ours, theirs = (statistics.median(column) for column in zip(*times))
    return line(figure, wanted, f"{theirs / ours:.2f} × ({BYTES / ours / 1e9:.2f} : {BYTES / theirs / 1e9:.2f} GB/s)")


# ---- first byte and memory ----


def first_and_all(request):
    begun, first = time.perf_counter(), None
    with urllib.request.urlopen(request, timeout=300) as answer:
        while answer.read(1 << 20):
            first = first or time.perf_counter() - begun
    return first


def roapi_figure(program, folder):
    figure, wanted = f"first byte and private memory of {BYTES >> 20} MiB : ROAPI", "≤ 1/100 and ≤ 1/30"
    roapi = shutil.which("roapi")
    if roapi is None:
        return left_out(figure, wanted, "roapi")
    with arrowwood(program, folder) as own:
        before = own.private()
        ours = statistics.median(first_and_all(f"{own.url}/v1/tables/big.arrow/rows") for _ in range(ROUNDS))
        added = own.private() - before
    addresses = [
        "--addr-http",
        "127.0.0.1:47010",
        "--addr-postgres",
        "127.0.0.1:47011",
        "--addr-flight-sql",
        "127.0.0.1:47012",
    ]
    with Server([roapi, "--table", f"d={folder / 'big.arrow'}", *addresses]) as other:
        wait_for("http://127.0.0.1:47010/health")
        headers = {"Accept": "application/vnd.apache.arrow.stream"}
        ask = urllib.request.Request("http://127.0.0.1:47010/api/sql", data=b"select * from d", headers=headers)
        theirs = statistics.median(first_and_all(ask) for _ in range(ROUNDS))
        held = other.private()
    shown = f"1/{theirs / ours:.0f} ({1e3 * ours:.1f} : {1e3 * theirs:.0f} ms) and 1/{held / max(added, 1):.0f} ({added / 1024:.1f} : {held / 1024:.0f} MiB)"
    return line(figure, wanted, shown)


# ---- durable rows of many producers ----


def producers(program, data, count):
    """Durable batches of one row a second, of so many streams (`DoPut`) of one process,
    each with at most 64 batches unanswered."""
    columns = "ts: int64, symbol: utf8, price: float64, n: int64"
    subprocess.run([program, "create", data / f"t{count}", "--schema", columns], check=True)
    import pyarrow as pa
    import pyarrow.flight as flight

    with arrowwood(program, data) as server:
        address, answered = server.url.replace("http://", "grpc://"), [0] * count
        connected = threading.Barrier(count + 1)

        def send(number):
            client = flight.FlightClient(address)
            batch = pa.record_batch({"ts": [number], "symbol": ["AAPL"], "price": [1.5], "n": [number]})
            writer, answers = client.do_put(flight.FlightDescriptor.for_path(f"t{count}"), batch.schema)
            connected.wait()
            until, sent = time.monotonic() + SECONDS, 0
            while time.monotonic() < until:
                writer.write_batch(batch)
                sent += 1
                if sent - answered[number] == 64:
                    assert b'"first_row"' in answers.read().to_pybytes()
                    answered[number] += 1
            writer.done_writing()
            while answered[number] < sent:
                answers.read()
                answered[number] += 1
            client.close()

        threads = [threading.Thread(target=send, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        connected.wait()
        begun = time.monotonic()
        for thread in threads:
            thread.join()
        return sum(answered) / (time.monotonic() - begun)


def quack(path=":memory:"):
    import duckdb

    connection = duckdb.connect(path)
    for folder in sys.path:
        for extension in glob.glob(f"{folder}/duckdb_extension_*/extensions/*/*.duckdb_extension"):
            if Path(extension).name.split(".")[0] in ("httpfs", "quack"):
                connection.execute(f"load '{extension}'")
    return connection


def serve_quack(path, ready, stop):
    connection = quack(path)
    connection.execute("create table t(ts timestamp, symbol varchar, price double, n bigint)")
    connection.execute(f"call quack_serve('quack:localhost', token='{TOKEN}')").fetchall()
    ready.set()
    stop.wait()


def insert_by_quack(seconds, sent):
    connection = quack()
    connection.execute(f"attach 'quack:localhost' as r (token '{TOKEN}')")
    begun, rows = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        connection.execute(f"insert into r.t values (now()::timestamp, 'AAPL', 1.5, {rows})")
        rows += 1
    sent.put(rows / (time.monotonic() - begun))


def quack_figure(program, folder):
    figure, wanted = "64 streams of durable batches of one row : Quack, the best of 1 and 4 clients", "≥ 50 ×"
    data = folder / "tables"
    data.mkdir()
    # By threads of Python, which are slower than the clients of bench/src/bin/serve.rs.
    ours = producers(program, data, 64)
    if importlib.util.find_spec("duckdb_extension_quack") is None:
        return left_out(figure, wanted, f"duckdb-extension-quack; Arrowwood {ours:.0f} rows/s")
    spawn = multiprocessing.get_context("spawn")
    ready, stop, theirs = spawn.Event(), spawn.Event(), []
    server = spawn.Process(target=serve_quack, args=(str(folder / "q.duckdb"), ready, stop))
    server.start()
    assert ready.wait(60), "Quack does not start"
    # With ten it has crashed.
    for count in (1, 4):
        sent = spawn.Queue()
        clients = [spawn.Process(target=insert_by_quack, args=(SECONDS, sent)) for _ in range(count)]
        for client in clients:
            client.start()
        theirs.append(sum(sent.get(timeout=60) for _ in clients))
    stop.set()
    server.join(10)
    return line(figure, wanted, f"{ours / max(theirs):.1f} × ({ours:.0f} : {max(theirs):.0f} rows/s)")


# ---- line protocol ----


def send_lines(url):
    """Rows a second of line protocol over four connections; the bodies are made before."""
    batch = 10_000
    bodies = [
        "".join(f"cpu,host=host{n % 100},region=eu usage_user={n % 97}.5,usage_system={n % 31}i {1_700_000_000_000_000_000 + 1000 * n}\n" for n in range(start, start + batch)).encode()
        for start in range(0, LINES, batch)
    ]  # fmt: skip
    lock = threading.Lock()

    def send():
        while True:
            with lock:
                if not bodies:
                    return
                body = bodies.pop()
            urllib.request.urlopen(urllib.request.Request(f"{url}/write", data=body), timeout=300).read()

    threads = [threading.Thread(target=send) for _ in range(4)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return LINES / (time.perf_counter() - begun)


def questdb_figure(program, folder):
    figure, wanted = f"{LINES / 1e6:g} M rows of line protocol : QuestDB", "≥ 1 ×"
    data = folder / "lines"
    data.mkdir()
    with arrowwood(program, data) as own:
        ours = send_lines(own.url)
    jar, java = os.environ.get("QUESTDB_JAR"), shutil.which("java")
    if jar is None or java is None:
        return left_out(figure, wanted, f"QUESTDB_JAR and java; Arrowwood {ours / 1e6:.2f} M rows/s, all durable")
    root = folder / "questdb"
    root.mkdir()
    # It writes more to its standard output than a pipe holds that nobody reads.
    with Server(
        [java, "-p", jar, "-m", "io.questdb/io.questdb.ServerMain", "-d", str(root)], stdout=subprocess.DEVNULL
    ):
        wait_for("http://127.0.0.1:9000/exec?query=select+1")
        theirs = send_lines("http://127.0.0.1:9000")
    return line(
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
