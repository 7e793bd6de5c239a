"""Flight SQL through ADBC beside plain DoGet by pyarrow: the same rows of one table, from one server, in turn.

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


def make(path, mib, rows_per_batch):
    """Writes `mib` MiB of eight columns of 64-bit numbers."""
    rows = mib * 2**20 // (8 * COLUMNS)
    with pa.ipc.new_file(path, SCHEMA) as writer:
        for start in range(0, rows, rows_per_batch):
            numbers = pa.array(range(start, min(start + rows_per_batch, rows)), pa.int64())
            writer.write_batch(pa.record_batch([numbers.cast(field.type) for field in SCHEMA], schema=SCHEMA))
    return rows


def timed(work):
    begun = time.perf_counter()
    rows = work()
    return time.perf_counter() - begun, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "data")
        data.mkdir()
        rows = make(data / "t.arrow", options.mib, 1 << 17)
        process = subprocess.Popen([options.program, "serve", str(data), "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        url = process.stdout.readline().strip().replace("http://", "")
        try:
            client = flight.connect(f"grpc+tcp://{url}")
            with dbapi.connect(f"grpc://{url}", autocommit=True) as connection, connection.cursor() as cursor:
                def plain():
                    return sum(chunk.data.num_rows for chunk in client.do_get(flight.Ticket(b"t.arrow")))

                def by_sql(text):
                    def work():
                        cursor.execute(text)
                        return sum(batch.num_rows for batch in cursor.fetch_record_batch())
                    return work

                ways = {
                    "DoGet, pyarrow": plain,
                    "Flight SQL, ADBC: select *": by_sql('select * from "t.arrow"'),
                    "Flight SQL, ADBC: select * where c1 >= 0": by_sql('select * from "t.arrow" where c1 >= 0'),
                }
                times = {name: [] for name in ways}
                for run in range(options.runs + 1):
                    for name, work in ways.items():
                        seconds, got = timed(work)
                        assert got == rows, (name, got, rows)
                        if run:
                            times[name].append(seconds)
        finally:
            process.terminate()
            process.wait()
    reference = statistics.median(times["DoGet, pyarrow"])
    for name, seconds in times.items():
        median = statistics.median(seconds)
        print(f"{name}: {median * 1000:.0f} ms ({min(seconds) * 1000:.0f}–{max(seconds) * 1000:.0f}), {options.mib / median:.0f} MiB/s, {reference / median:.2f} × DoGet")


if __name__ == "__main__":
    main()
