"""Records the beginnings of DuckDB's answers to TPC-H's queries for `tests/datafusion/tpch.rs`:

    ARROWWOOD_TPCH_FOLDER=folder cargo test tpch
    python tests/tpch_duckdb.py folder > tests/datafusion/tpch.txt

Needs pyarrow and DuckDB.
"""

import sys
from pathlib import Path

import duckdb
import pyarrow as pa

RECORDED_ROWS = 20


def without_views(table: pa.Table) -> pa.Table:
    """Return the table with strings instead of string views, which pyarrow can't filter."""
    fields = [field.with_type(pa.string()) if field.type == pa.string_view() else field for field in table.schema]
    return table.cast(pa.schema(fields))


def print_row(row: tuple[object, ...]) -> None:
    cells = ["" if cell is None else str(cell) for cell in row]
    print("|", " | ".join(cells), "|")


folder = Path(sys.argv[1])
connection = duckdb.connect()
for file in folder.glob("*.arrow"):
    connection.register(file.stem, without_views(pa.ipc.open_file(file).read_all()))
queries = (folder / "queries.sql").read_text().split("\n====\n")
for number, query in enumerate(queries, 1):
    for statement in query.split(";\n"):
        rows = connection.execute(statement).fetchall()
        # Skip statements that create or drop a view.
        if statement.lstrip().startswith(("select", "with")):
            print("query", number, "rows", len(rows))
            for row in rows[:RECORDED_ROWS]:
                print_row(row)
