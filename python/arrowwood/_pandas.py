"""Datasets as pandas data frames."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

# Batches smaller than this cost pyarrow more than a copy of them does.
_SMALL = 1 << 20


def frame(dataset, arrow=False):
    """The rows of `dataset` as a data frame; see ``Dataset.to_pandas``."""
    if arrow:
        return _table(dataset).to_pandas(types_mapper=pd.ArrowDtype)
    names, dtypes = dataset.columns, _plain(dataset)
    if "pandas" in dataset.schema.metadata:
        model = _decoded(_table(dataset.head(0))).to_pandas()
        if not _has_plain_index(dataset) or model.shape[1] != len(names):
            return _by_pyarrow(dataset)
        names = model.columns
        # Other types than the obvious ones may have been asked for.
        dtypes = [dtype if dtype == wanted else None for dtype, wanted in zip(dtypes, model.dtypes)]
    numbers, rest = _columns(dataset, dtypes)
    if len(numbers) == 1 and not rest:
        array = next(iter(numbers.values()))
        return pd.DataFrame(array.T, columns=names, copy=False)
    if not numbers:
        return _by_pyarrow(dataset)
    columns = [None] * len(names)
    for group, array in numbers.items():
        for number, values in zip(group, array):
            columns[number] = values
    if rest:
        others = _by_pyarrow(dataset._pick(rest))
        for place, number in enumerate(rest):
            columns[number] = others.iloc[:, place]
    whole = pd.DataFrame(dict(enumerate(columns)), copy=False)
    whole.columns = names
    return whole


def _plain(dataset):
    """NumPy's types of the columns that pandas has as NumPy has them, None of all others."""
    fields = zip(dataset.schema, dataset._dtypes())
    return [None if _has_meaning(field) or dtype is None else np.dtype(dtype) for field, dtype in fields]


def _has_meaning(field):
    return field.type == "date64" or "," in field.type or "ARROW:extension:name" in field.metadata


def _has_plain_index(dataset):
    """Whether the index that pandas has noted is that of any new frame, and there is nothing else to be kept."""
    noted = json.loads(dataset.schema.metadata["pandas"])
    if noted.get("attributes"):
        return False
    plain = {"kind": "range", "name": None, "start": 0, "stop": len(dataset), "step": 1}
    return all(index == plain for index in noted.get("index_columns", [None]))


def _columns(dataset, dtypes):
    """Arrays of the columns of each type (one a row), by their numbers, and the numbers of all other columns."""
    groups, rest, found = {}, [], {}
    for number, dtype in enumerate(dtypes):
        groups.setdefault(dtype, []).append(number)
    rest += groups.pop(None, [])
    for dtype, group in groups.items():
        block = dataset._pick(group)._block()
        if block is None:
            nulls = [number for number in group if dataset.column(number).null_count]
            rest += nulls
            group = [number for number in group if number not in nulls]
            block = dataset._pick(group)._block() if group else None
        if block is not None:
            found[tuple(group)] = np.asarray(block).view(dtype).reshape(len(group), -1)
    return found, sorted(rest)


def _table(dataset):
    table = pa.table(dataset)
    if table.num_rows:
        return table
    for number, field in enumerate(table.schema):
        # pyarrow ends the process over list views of no chunk; this has one of no rows.
        try:
            table = table.set_column(number, field, pa.chunked_array([pa.array([], field.type)]))
        except pa.ArrowNotImplementedError:
            continue
    return table


def _decoded(table):
    """`table` without runs, which pandas has not: over those of times with a zone, pyarrow ends the process."""
    for number, field in enumerate(table.schema):
        if pa.types.is_run_end_encoded(field.type):
            chunks = [pc.run_end_decode(chunk) for chunk in table.column(number).chunks]
            plain = field.with_type(field.type.value_type)
            table = table.set_column(number, plain, pa.chunked_array(chunks, plain.type))
    return table


def _by_pyarrow(dataset):
    table, names = _decoded(_table(dataset._gathered(_SMALL))), dataset.columns
    if len(set(names)) == len(names):
        return table.to_pandas()
    # pyarrow takes columns of one name for one another.
    found = table.rename_columns([str(number) for number in range(len(names))]).to_pandas()
    found.columns = names
    return found
