"""A question that is asked of several libraries, and compared."""

import sys
from pathlib import Path

import datafusion
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from run import progress

sys.path.append(str(Path(__file__).resolve().parent.parent))
from turns import in_turns

OURS = "arrowwood"


class Question:
    """Ways to one answer."""

    def __init__(self, title, ways, shows, same=None):
        self.title, self.ways, self.shows, self.same = title, ways, shows, same or close

    def ask(self, rounds):
        """The seconds of each way, in turns; the first round is not counted."""
        progress(self.title)
        taken, answers = in_turns(self.ways, rounds)
        for name, answer in answers.items():
            assert self.same(answers[OURS], answer), f"{self.title}: {name} says {answer!r}, {OURS} {answers[OURS]!r}"
        return taken


def close(a, b):
    return np.allclose(np.asarray(a, dtype="float64"), np.asarray(b, dtype="float64"), rtol=1e-9)


def groups(frame):
    """Means by key, of anything that exports Arrow data."""
    table = pa.Table.from_pandas(frame) if isinstance(frame, pd.DataFrame) else pa.table(frame)
    return dict(zip(*(table.column(number).to_pylist() for number in (0, 1))))


def same_groups(a, b):
    a, b = groups(a), groups(b)
    return a.keys() == b.keys() and all(abs(a[key] - b[key]) <= 1e-9 * abs(a[key]) for key in a)


def engines(table):
    """DuckDB and DataFusion with the table, without copying it."""
    db, fusion = duckdb.connect(), datafusion.SessionContext()
    db.register("t", table)
    fusion.from_arrow(table, name="t")
    return db, fusion
