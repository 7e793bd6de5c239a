"""Flight SQL through ADBC beside plain DoGet by pyarrow: the same rows of one table, from one server, in turns. After
each round the rows of all ways are compared.

Run it by `make bench-sql`; --program is a release build of arrowwood-datafusion.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pyarrow.flight as flight

COLUMNS = 8
SCHEMA = pa.schema([(f"c{k}", pa.int64() if k % 2 else pa.float64()) for k in range(COLUMNS)])
QUERIES = ['select * from "t.arrow"', 'select * from "t.arrow" where c1 >= 0']


def make(path, mib, rows_per_batch):
    """Writes `mib` MiB of eight columns of 64-bit numbers, each of which counts the rows."""
    rows = mib * 2**20 // (8 * COLUMNS)
    with pa.ipc.new_file(path, SCHEMA) as writer:
        for start in range(0, rows, rows_per_batch):
            numbers = pa.array(range(start, min(start + rows_per_batch, rows)), pa.int64())
            writer.write_batch(pa.record_batch([numbers.cast(field.type) for field in SCHEMA], schema=SCHEMA))
    return rows


def ways_of(client, cursor):
    """Functions that return the batches of a result one after another."""

    def plain():
        return (chunk.data for chunk in client.do_get(flight.Ticket(b"t.arrow")))

    def by_sql(text):
        def batches():
            cursor.execute(text)
            return cursor.fetch_record_batch()

        return batches

    return {"DoGet, pyarrow": plain} | {f"Flight SQL, ADBC: {text}": by_sql(text) for text in QUERIES}


def check(ways, rows):
    """Compares the rows of all ways, in the order of the file."""
    expected = None
    for name, batches in ways.items():
        table = pa.Table.from_batches(batches(), SCHEMA).combine_chunks()
        # Batches of a query with a condition come from several threads.
        if expected is not None and not table.equals(expected):
            table = table.sort_by("c1")
        assert table.num_rows == rows and (expected is None or table.equals(expected)), name
        expected = table


def measure(ways, rows, runs):
    """Seconds of each way, of a round each; the first does not count."""
    times = {name: [] for name in ways}
    for run in range(runs + 1):
        for name, batches in ways.items():
            begun = time.perf_counter()
            got = sum(batch.num_rows for batch in batches())
            taken = time.perf_counter() - begun
            assert got == rows, (name, got, rows)
            if run:
                times[name].append(taken)
        check(ways, rows)
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
        rows = make(data / "t.arrow", mib, 1 << 17)
        command = [options.program, "serve", str(data), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            address = process.stdout.readline().strip().replace("http://", "")
            client = flight.connect(f"grpc+tcp://{address}")
            with dbapi.connect(f"grpc://{address}", autocommit=True) as connection, connection.cursor() as cursor:
                times = measure(ways_of(client, cursor), rows, runs)
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
