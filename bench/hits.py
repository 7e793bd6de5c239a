"""DuckDB over the Parquet file of `crates/datafusion/examples/figures.rs`: times of the ten questions, and each answer
compared with that of DataFusion.

Run it after that, by `make bench-sql`: python bench/hits.py FOLDER [--quick].
"""

import pathlib
import statistics
import sys
import time

import duckdb

ROUNDS = 5
ROOT = pathlib.Path(__file__).resolve().parents[1]


def shown(value):
    """A value as DataFusion prints it."""
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
        taken = []
        for _ in range(ROUNDS + 1):
            begun = time.perf_counter()
            answer = connection.sql(sql).fetchall()
            taken.append(time.perf_counter() - begun)
            assert [[shown(value) for value in row] for row in answer] == expected, (sql, answer, expected)
        # The first does not count.
        median = statistics.median(taken[1:])
        total += median
        print(f"| {number} | {median * 1e3:.1f} |")
    print(f"| all | {total * 1e3:.1f} |")


if __name__ == "__main__":
    main()
