"""Asks several libraries the same question, and compares their answers and times."""

import sys
from pathlib import Path

import datafusion
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from run import progress

sys.path.append(str(Path(__file__).resolve().parent.parent))
from turns import time_in_turns

OURS = "arrowwood"


class Question:
    """A question, with a function for each library that answers it.

    `shows` describes what the times show, and `same` compares two answers.
    """

    def __init__(self, title, ways, shows, same=None):
        self.title, self.ways, self.shows, self.same = title, ways, shows, same or is_close

    def ask(self, rounds):
        """Returns the seconds of each library in each round. The first round is not counted."""
        progress(self.title)
        seconds, answers = time_in_turns(self.ways, rounds)
        for name, answer in answers.items():
            assert self.same(answers[OURS], answer), f"{self.title}: {name} says {answer!r}, {OURS} {answers[OURS]!r}"
        return seconds


def is_close(a, b):
    return np.allclose(np.asarray(a, dtype="float64"), np.asarray(b, dtype="float64"), rtol=1e-9)


def groups(frame):
    """Returns means by key, from anything that exports Arrow data."""
    table = pa.Table.from_pandas(frame) if isinstance(frame, pd.DataFrame) else pa.table(frame)
    return dict(zip(*(table.column(number).to_pylist() for number in (0, 1))))


def same_groups(a, b):
    a, b = groups(a), groups(b)
    return a.keys() == b.keys() and all(abs(a[key] - b[key]) <= 1e-9 * abs(a[key]) for key in a)


def engines(table):
    """Returns a DuckDB connection and a DataFusion context with the table, which is not copied."""
    db, fusion = duckdb.connect(), datafusion.SessionContext()
    db.register("t", table)
    fusion.from_arrow(table, name="t")
    return db, fusion
