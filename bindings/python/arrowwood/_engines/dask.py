"""Makes Dask data frames of datasets: only ranges of rows are sent, and each worker maps its own."""

import math
import re
from typing import TYPE_CHECKING, Any

from arrowwood import _arrowwood
from arrowwood._errors import InvalidArgument
from arrowwood._extras import engine
from arrowwood._splits import split_at
from arrowwood._types import Split

if TYPE_CHECKING:
    import dask.dataframe as dd

# Approximates the partition size that Dask advises.
_PARTITION_BYTES = 128 << 20

# Matches types whose values a pandas index keeps unchanged, as divisions require.
_INDEX_TYPES = re.compile(r"u?int\d+$|float(32|64)$|(large_)?utf8(_view)?$|date\d+$|(timestamp|duration)\[")


def dask(source: Any, *, npartitions: int | None = None) -> "dd.DataFrame":
    """A Dask data frame over the data at a path: ``aw.dask("ticks/", npartitions=100)["price"].sum().compute()``.

    Each worker gets ranges of rows, and maps the files itself, under the same paths; only needed columns are read.
    Partitions are pandas data frames of ``ArrowDtype``, in place; dictionaries become categories, and views text with
    offsets, by a copy. A table sorted by a column of numbers, times with dates, durations or text has it as index, and
    known divisions. A growing table is used as of now.

    Args:
        source: a dataset, or a path, a glob, a directory, or a list of those.
        npartitions: the approximate number of partitions; by default of about 128 MiB each. Rows with equal values in
            the column by which a table is sorted stay together.

    Raises:
        ImportError: Dask is not installed: ``pip install 'arrowwood[dask]'``.
        InvalidArgument: there are no rows to split, or they are in memory and not in a file.
        NotFound, PermissionDenied, InvalidData: the data cannot be opened.
    """
    frames = engine("dask.dataframe", "dask()", "dask")
    engine("pyarrow", "dask()", "dask")
    dataset = source if isinstance(source, _arrowwood.Dataset) else _arrowwood.open(source)
    row_count = len(dataset)
    index_column = _find_index_column(dataset)
    if row_count == 0:
        raise InvalidArgument("dask(): there are no rows to make partitions of")
    if npartitions is not None:
        partition_count = npartitions
    else:
        partition_count = max(1, math.ceil(dataset.nbytes / _PARTITION_BYTES))
    if partition_count < 1:
        raise InvalidArgument(f"dask(): npartitions must be at least 1, got {partition_count}")
    boundaries = [number * row_count // partition_count for number in range(1, partition_count)]
    if index_column is not None:
        boundaries = _move_to_first_equal(dataset.select([index_column]), index_column, boundaries)
    parts = split_at(dataset, boundaries)
    divisions = None if index_column is None else _divisions(dataset, index_column, parts)
    # A split has all columns, and the dataset perhaps fewer.
    data_columns = [name for name in dataset.columns if name != index_column]
    # Categories are unknown to Dask, as they differ between partitions.
    utils = engine("dask.dataframe.utils", "dask()", "dask")
    meta = utils.clear_known_categories(_to_pandas(dataset.head(0), index_column, data_columns))
    return frames.from_map(
        _part,
        parts,
        index_column=index_column,
        data_columns=data_columns,
        meta=meta,
        divisions=divisions,
        label="arrowwood",
    )


def _part(split: Split, index_column: str | None, data_columns: list[str], columns: list[str] | None = None) -> Any:
    """Returns one partition; runs on the worker that needs it."""
    return _to_pandas(split.open(), index_column, data_columns if columns is None else columns)


def _to_pandas(rows: Any, index_column: str | None, columns: list[str]) -> Any:
    """Returns columns of `rows` as a pandas data frame, with the values of `index_column` as its index."""
    import pyarrow as pa

    table = pa.table(rows.select(columns))
    schema = pa.schema([_without_views(field) for field in table.schema])
    frame = table.cast(schema).to_pandas(types_mapper=_pandas_type, ignore_metadata=True)
    return frame if index_column is None else frame.set_axis(_index(rows, index_column), axis="index")


def _pandas_type(arrow_type: Any) -> Any:
    """Returns the pandas type of a column, or ``None`` for pyarrow's default."""
    import pandas as pd
    import pyarrow as pa

    # Dask sends categories between workers, but not dictionaries of ArrowDtype.
    return None if pa.types.is_dictionary(arrow_type) else pd.ArrowDtype(arrow_type)


def _without_views(field: Any) -> Any:
    """Returns `field` with views replaced by offsets, also in nested types.

    Dask gathers rows, and pyarrow can't gather views yet.
    """
    import pyarrow as pa

    arrow_type = field.type
    if pa.types.is_struct(arrow_type):
        arrow_type = pa.struct([_without_views(child) for child in arrow_type])
    elif pa.types.is_map(arrow_type):
        key, item = _without_views(arrow_type.key_field), _without_views(arrow_type.item_field)
        arrow_type = pa.map_(key, item, arrow_type.keys_sorted)
    elif pa.types.is_fixed_size_list(arrow_type):
        arrow_type = pa.list_(_without_views(arrow_type.value_field), arrow_type.list_size)
    elif pa.types.is_list(arrow_type):
        arrow_type = pa.list_(_without_views(arrow_type.value_field))
    elif pa.types.is_large_list(arrow_type):
        arrow_type = pa.large_list(_without_views(arrow_type.value_field))
    elif arrow_type == pa.string_view():
        arrow_type = pa.large_string()
    elif arrow_type == pa.binary_view():
        arrow_type = pa.large_binary()
    return field.with_type(arrow_type)


def _index(rows: Any, index_column: str) -> Any:
    """Returns the values of a column as an index, in place if they lie in one batch.

    The index is not of ``ArrowDtype``, for which pandas doesn't accept text for times.
    """
    import pandas as pd

    index = pd.Index(rows[index_column].to_numpy(), name=index_column)
    dtype = rows.select([index_column]).head(0).to_pandas().dtypes.iloc[0]
    if isinstance(dtype, pd.DatetimeTZDtype):
        return index.tz_localize("UTC").tz_convert(dtype.tz)
    return index


def _find_index_column(dataset: Any) -> str | None:
    """Returns the column that the rows are sorted by, if a pandas index can hold its values unchanged."""
    for field in dataset.schema:
        if field.name == dataset.sorted_by and _INDEX_TYPES.match(str(field.type)):
            return str(field.name)
    return None


def _move_to_first_equal(column: Any, index_column: str, boundaries: list[int]) -> list[int]:
    """Returns `boundaries`, each moved back to the first row with an equal value."""
    moved: list[int] = []
    for row in boundaries:
        previous = moved[-1] if moved else 0
        value = _numpy_value(column, index_column, row)
        low, high = previous, row
        while low < high:
            middle = (low + high) // 2
            if _numpy_value(column, index_column, middle) < value:
                low = middle + 1
            else:
                high = middle
        if low > previous:
            moved.append(low)
    return moved


def _numpy_value(column: Any, index_column: str, row: int) -> Any:
    """Returns a value as a NumPy scalar: Python's times have another type if they have nanoseconds."""
    return column[row : row + 1][index_column].to_numpy()[0]


def _divisions(dataset: Any, index_column: str, parts: list[Split]) -> tuple[Any, ...]:
    """Returns the first value of each partition, and the last value of the last one."""
    first_rows = [part.first_row - dataset.first_row for part in parts]
    return tuple(_index(dataset.select([index_column])[[*first_rows, -1]], index_column))
