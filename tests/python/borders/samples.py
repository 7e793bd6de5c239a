"""Writes the values of the matrix for other languages: `python samples.py FOLDER` makes a file for each type and set
of values, and `expected.json` with the rows, in the spelling of examples/samples, and which ways refuse them."""

import json
import math
import sys
from pathlib import Path

import pyarrow as pa

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parents[1] / "interop")]

from borders import values  # noqa: E402
from borders.kinds import KINDS, Foreign  # noqa: E402
from borders.refusals import refusal_of  # noqa: E402
from borders.ways import BORDERS  # noqa: E402
from interop import cell  # noqa: E402


def spelled(value):
    """Numbers that are none have no spelling in JSON."""
    if isinstance(value, dict):
        return {name: spelled(member) for name, member in value.items()}
    if isinstance(value, list):
        return [spelled(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rows_of(table):
    rows = []
    for batch in table.to_batches():
        rows += [[spelled(cell(column, row)) for column in batch.columns] for row in range(batch.num_rows)]
    return rows


def main(folder):
    expected = {}
    ways = [border for border in BORDERS if border.run is None]
    for number, kind in enumerate(KINDS):
        if isinstance(kind, Foreign):
            continue
        for name in ("some", "nulls", "extreme", "odd"):
            if name not in kind.sets:
                continue
            table = kind.table(name)
            path = folder / f"{number:03}-{name}.arrow"
            with pa.ipc.new_file(str(path), table.schema) as sink:
                sink.write_table(table)
            refused = {border: refusal_of(border, kind, name) for border in ways}
            refused = {border.name: it.message for border, it in refused.items() if it}
            expected[path.name] = {"type": kind.name, "rows": rows_of(table), "refused": refused}
            field = table.schema.field("x")
            if field.type != values.grown(field.type):
                # What can't grow is appended to a table of its values' type, that of this file of no rows.
                grown = table.schema.set(1, field.with_type(values.grown(field.type)))
                expected[path.name]["table"] = f"{number:03}-{name}-table.arrow"
                pa.ipc.new_file(str(folder / expected[path.name]["table"]), grown).close()
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
