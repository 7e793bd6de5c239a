"""Writes the values of the matrix for tests in other languages.

``python samples.py FOLDER`` writes an Arrow file for each type and value set, and ``expected.json``: for each file its
rows, as text in the format of examples/samples, and the messages of the borders that refuse it.
"""

import json
import math
import sys
from pathlib import Path

import pyarrow as pa

FOLDER = Path(__file__).resolve().parent
sys.path += [str(FOLDER.parent), str(FOLDER.parents[1] / "interop")]

from borders import values  # noqa: E402
from borders.kinds import TYPE_CASES, ForeignCase  # noqa: E402
from borders.refusals import find_refusal  # noqa: E402
from borders.ways import BORDERS  # noqa: E402
from interop import cell  # noqa: E402

SET_NAMES = ("some", "nulls", "extreme", "odd")
# Borders without a Python function are tested in the languages that read these files.
OTHER_LANGUAGES = [border for border in BORDERS if border.run is None]


def replace_non_finite(value):
    """Replaces NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {name: replace_non_finite(member) for name, member in value.items()}
    if isinstance(value, list):
        return [replace_non_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_rows(table):
    """Returns the rows of a table in the format of examples/samples."""
    rows = []
    for batch in table.to_batches():
        for row in range(batch.num_rows):
            rows.append([replace_non_finite(cell(column, row)) for column in batch.columns])
    return rows


def refusal_messages(case, set_name):
    """Returns the expected messages by the names of the borders that refuse the values."""
    messages = {}
    for border in OTHER_LANGUAGES:
        refusal = find_refusal(border, case, set_name)
        if refusal:
            messages[border.name] = refusal.message
    return messages


def main(folder):
    expected = {}
    for number, case in enumerate(TYPE_CASES):
        if isinstance(case, ForeignCase):
            continue
        for set_name in SET_NAMES:
            if set_name not in case.value_sets:
                continue
            table = case.table(set_name)
            path = folder / f"{number:03}-{set_name}.arrow"
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table)
            entry = {"type": case.name, "rows": read_rows(table), "refused": refusal_messages(case, set_name)}
            expected[path.name] = entry
            field = table.schema.field("x")
            table_type = values.table_type(field.type)
            if field.type != table_type:
                # Tables don't have this type: the schema of the table to append to is in a file without rows.
                entry["table"] = f"{number:03}-{set_name}-table.arrow"
                schema = table.schema.set(1, field.with_type(table_type))
                pa.ipc.new_file(str(folder / entry["table"]), schema).close()
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
