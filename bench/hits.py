"""DuckDB over the Parquet file of `crates/datafusion/examples/figures.rs`: times of the ten questions, and answers compared.

Run it after that, by `make bench-sql`: python bench/hits.py FOLDER.
"""

import pathlib
import statistics
import sys
import time

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[1]


def shown(value):
    """A value as DataFusion prints it."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


def main():
    folder = pathlib.Path(sys.argv[1])
    connection = duckdb.connect()
    connection.sql(f"create view hits as select * from '{folder / 'hits.parquet'}'")
    total = 0
    for number, sql in enumerate((ROOT / "crates/datafusion/examples/hits.sql").read_text().splitlines(), 1):
        lines = (folder / f"hits-{number}.txt").read_text().splitlines()
        expected = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[3:-1]]
        answer = [[shown(value) for value in row] for row in connection.sql(sql).fetchall()]
        assert answer == expected, (sql, answer, expected)
        taken = []
        for _ in range(3):
            begun = time.perf_counter()
            connection.sql(sql).fetchall()
            taken.append(time.perf_counter() - begun)
        total += statistics.median(taken)
        print(f"{number}\t{statistics.median(taken) * 1e3:.1f}")
    print(f"all\t{total * 1e3:.1f}")


if __name__ == "__main__":
    main()
