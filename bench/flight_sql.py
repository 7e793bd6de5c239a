"""Compares Flight SQL through ADBC with DoGet through pyarrow: both read the same table of one server, in turns.

After each round the rows of all queries are compared. `make bench-sql` runs it; --program is a release build of
arrowwood-datafusion.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time
from functools import partial

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pyarrow.flight as flight

COLUMNS = 8
SCHEMA = pa.schema([(f"c{k}", pa.int64() if k % 2 else pa.float64()) for k in range(COLUMNS)])
QUERIES = ['select * from "t.arrow"', 'select * from "t.arrow" where c1 >= 0']


def write_file(path, mib, rows_per_batch):
    """Writes `mib` MiB of eight columns of 64-bit row numbers. Returns the number of rows."""
    rows = mib * 2**20 // (8 * COLUMNS)
    with pa.ipc.new_file(path, SCHEMA) as writer:
        for start in range(0, rows, rows_per_batch):
            numbers = pa.array(range(start, min(start + rows_per_batch, rows)), pa.int64())
            writer.write_batch(pa.record_batch([numbers.cast(field.type) for field in SCHEMA], schema=SCHEMA))
    return rows


def do_get(client):
    return (chunk.data for chunk in client.do_get(flight.Ticket(b"t.arrow")))


def run_query(cursor, text):
    cursor.execute(text)
    return cursor.fetch_record_batch()


def query_functions(client, cursor):
    """Returns functions that each return an iterator over the batches of a result."""
    functions = {"DoGet, pyarrow": partial(do_get, client)}
    for text in QUERIES:
        functions[f"Flight SQL, ADBC: {text}"] = partial(run_query, cursor, text)
    return functions


def check(functions, rows):
    """Checks that all functions return the same rows."""
    expected = None
    for name, batches in functions.items():
        table = pa.Table.from_batches(batches(), SCHEMA).combine_chunks()
        # Several threads evaluate a condition, so its batches may arrive in another order.
        if expected is not None and not table.equals(expected):
            table = table.sort_by("c1")
        assert table.num_rows == rows and (expected is None or table.equals(expected)), name
        expected = table


def measure(functions, rows, runs):
    """Returns the seconds of each function in each round. The first round is not counted."""
    times = {name: [] for name in functions}
    for run in range(runs + 1):
        for name, batches in functions.items():
            start = time.perf_counter()
            row_count = sum(batch.num_rows for batch in batches())
            elapsed = time.perf_counter() - start
            assert row_count == rows, (name, row_count, rows)
            if run:
                times[name].append(elapsed)
        check(functions, rows)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--quick", action="store_true", help="an eighth of the rows, in fewer rounds")
    options = parser.parse_args()
    mib, runs = (64, 3) if options.quick else (512, 7)
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "data")
        data.mkdir()
        rows = write_file(data / "t.arrow", mib, 1 << 17)
        command = [options.program, "serve", str(data), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = process.stdout.readline().strip().replace("http://", "")
            client = flight.connect(f"grpc+tcp://{address}")
            with dbapi.connect(f"grpc://{address}", autocommit=True) as connection, connection.cursor() as cursor:
                times = measure(query_functions(client, cursor), rows, runs)
        finally:
            process.terminate()
            process.wait()
    reference = statistics.median(times["DoGet, pyarrow"])
    print(f"| {mib} MiB | ms | least–most | MiB/s | × DoGet |\n|---|---:|---:|---:|---:|")
    for name, seconds in times.items():
        median = statistics.median(seconds)
        span = f"{min(seconds) * 1e3:.0f}–{max(seconds) * 1e3:.0f}"
        print(f"| {name} | {median * 1e3:.0f} | {span} | {mib / median:.0f} | {reference / median:.2f} |")


if __name__ == "__main__":
    main()
