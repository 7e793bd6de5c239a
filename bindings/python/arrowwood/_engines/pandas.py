"""Converts datasets to pandas data frames."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

# Copies smaller batches together, as pyarrow takes longer for many batches than a copy does.
_SMALL_BATCH_BYTES = 1 << 20


def frame(dataset, arrow=False):
    """Returns the rows of `dataset` as a data frame; see ``Dataset.to_pandas``."""
    if arrow:
        return _to_arrow(dataset).to_pandas(types_mapper=pd.ArrowDtype)
    names = dataset.columns
    dtypes = _shared_dtypes(dataset)
    if "pandas" in dataset.schema.metadata:
        # An empty frame has the names and types that pyarrow restores from the metadata.
        empty = _decode_run_ends(_to_arrow(dataset.head(0))).to_pandas()
        if not _has_default_index(dataset) or empty.shape[1] != len(names):
            return _convert_by_pyarrow(dataset)
        names = empty.columns
        # The frame that was stored may have had other types than the obvious ones.
        dtypes = [dtype if dtype == restored else None for dtype, restored in zip(dtypes, empty.dtypes)]
    blocks, other_columns = _read_blocks(dataset, dtypes)
    if len(blocks) == 1 and not other_columns:
        (array,) = blocks.values()
        return pd.DataFrame(array.T, columns=names, copy=False)
    if not blocks:
        return _convert_by_pyarrow(dataset)
    columns = [None] * len(names)
    for numbers, array in blocks.items():
        for number, values in zip(numbers, array):
            columns[number] = values
    if other_columns:
        converted = _convert_by_pyarrow(dataset._pick(other_columns))
        for position, number in enumerate(other_columns):
            columns[number] = converted.iloc[:, position]
    frame = pd.DataFrame(dict(enumerate(columns)), copy=False)
    frame.columns = names
    return frame


def _shared_dtypes(dataset):
    """Returns the NumPy type of each column that pandas stores as NumPy does, and None for others."""
    fields = zip(dataset.schema, dataset._dtypes())
    return [None if _needs_conversion(field) or dtype is None else np.dtype(dtype) for field, dtype in fields]


def _needs_conversion(field):
    return field.type == "date64" or "," in field.type or "ARROW:extension:name" in field.metadata


def _has_default_index(dataset):
    """Returns whether the metadata of pandas has only the default index, and no attributes to restore."""
    metadata = json.loads(dataset.schema.metadata["pandas"])
    if metadata.get("attributes"):
        return False
    default = {"kind": "range", "name": None, "start": 0, "stop": len(dataset), "step": 1}
    return all(index == default for index in metadata.get("index_columns", [None]))


def _read_blocks(dataset, dtypes):
    """Returns arrays by the numbers of the columns that they have as rows, and the numbers of all other columns."""
    groups = {}
    for number, dtype in enumerate(dtypes):
        groups.setdefault(dtype, []).append(number)
    other_columns = groups.pop(None, [])
    arrays = {}
    for dtype, group in groups.items():
        block = dataset._pick(group)._block()
        if block is None:
            # Columns with nulls are in no block.
            with_nulls = [number for number in group if dataset.column(number).null_count]
            other_columns += with_nulls
            group = [number for number in group if number not in with_nulls]
            block = dataset._pick(group)._block() if group else None
        if block is not None:
            arrays[tuple(group)] = np.asarray(block).view(dtype).reshape(len(group), -1)
    return arrays, sorted(other_columns)


def _to_arrow(dataset):
    """Returns the rows as a table of pyarrow, whose columns have a chunk even if there are no rows."""
    table = pa.table(dataset)
    if table.num_rows:
        return table
    for number, field in enumerate(table.schema):
        # pyarrow aborts the process for list views without chunks: add a chunk without rows.
        try:
            table = table.set_column(number, field, pa.chunked_array([pa.array([], field.type)]))
        except pa.ArrowNotImplementedError:
            continue
    return table


def _decode_run_ends(table):
    """Returns `table` with run-end encoding decoded: pandas has none, and pyarrow aborts for runs of zoned times."""
    for number, field in enumerate(table.schema):
        if pa.types.is_run_end_encoded(field.type):
            chunks = [pc.run_end_decode(chunk) for chunk in table.column(number).chunks]
            decoded = field.with_type(field.type.value_type)
            table = table.set_column(number, decoded, pa.chunked_array(chunks, decoded.type))
    return table


def _convert_by_pyarrow(dataset):
    table = _decode_run_ends(_to_arrow(dataset._gathered(_SMALL_BATCH_BYTES)))
    names = dataset.columns
    if len(set(names)) == len(names):
        return table.to_pandas()
    # pyarrow mixes up columns with the same name.
    frame = table.rename_columns([str(number) for number in range(len(names))]).to_pandas()
    frame.columns = names
    return frame
