"""Times ten queries in DuckDB over a Parquet file, and compares each answer with DataFusion's.

`crates/datafusion/examples/figures.rs` writes the file and DataFusion's answers. `make bench-sql` runs it first, and
then this program: `python bench/hits.py FOLDER [--quick]`.
"""

import pathlib
import statistics
import sys
import time

import duckdb

ROUNDS = 5
ROOT = pathlib.Path(__file__).resolve().parents[1]


def format_value(value):
    """Formats a value as DataFusion prints it."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


def main():
    folder = pathlib.Path(sys.argv[1]) / ("hits-20" if "--quick" in sys.argv else "hits-1")
    connection = duckdb.connect()
    connection.sql(f"create view hits as select * from '{folder / 'hits.parquet'}'")
    total = 0
    print("| question | DuckDB, Parquet, ms |\n|---|---:|")
    for number, sql in enumerate((ROOT / "crates/datafusion/examples/hits.sql").read_text().splitlines(), 1):
        lines = (folder / f"hits-{number}.txt").read_text().splitlines()
        expected = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[3:-1]]
        seconds = []
        for _ in range(ROUNDS + 1):
            start = time.perf_counter()
            answer = connection.sql(sql).fetchall()
            seconds.append(time.perf_counter() - start)
            assert [[format_value(value) for value in row] for row in answer] == expected, (sql, answer, expected)
        # The first round warms up the caches.
        median = statistics.median(seconds[1:])
        total += median
        print(f"| {number} | {median * 1e3:.1f} |")
    print(f"| all | {total * 1e3:.1f} |")


if __name__ == "__main__":
    main()
