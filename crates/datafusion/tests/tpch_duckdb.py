"""Writes how DuckDB's answers to TPC-H's queries begin, which `tests/datafusion/tpch.rs` has on record:

    ARROWWOOD_TPCH_FOLDER=folder cargo test tpch
    python tests/tpch_duckdb.py folder > tests/datafusion/tpch.txt

Needs pyarrow and DuckDB.
"""

import sys
from pathlib import Path

import duckdb
import pyarrow as pa

folder = Path(sys.argv[1])
connection = duckdb.connect()
for file in folder.glob("*.arrow"):
    table = pa.ipc.open_file(file).read_all()
    # pyarrow filters no views.
    fields = [field.with_type(pa.string()) if field.type == pa.string_view() else field for field in table.schema]
    connection.register(file.stem, table.cast(pa.schema(fields)))
queries = (folder / "queries.sql").read_text().split("\n====\n")
for number, query in enumerate(queries, 1):
    for statement in query.split(";\n"):
        rows = connection.execute(statement).fetchall()
        # What makes or drops a view answers with its success, or with nothing.
        if statement.lstrip().startswith(("select", "with")):
            print("query", number, "rows", len(rows))
            for row in rows[:20]:
                print("|", " | ".join("" if cell is None else str(cell) for cell in row), "|")
