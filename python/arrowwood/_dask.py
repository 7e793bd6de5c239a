"""Data frames of Dask over datasets: only ranges of rows travel, and each worker maps its own."""

import re
from typing import TYPE_CHECKING, Any

from arrowwood import _arrowwood
from arrowwood._errors import InvalidArgument
from arrowwood._extras import engine
from arrowwood._splits import cut
from arrowwood._types import Split

if TYPE_CHECKING:
    import dask.dataframe as dd

# About as many bytes as Dask advises for a partition.
_PARTITION = 128 << 20

# Numbers, text and times of which an index has the type, as divisions must.
_DIVIDERS = re.compile(r"u?int\d+$|float(32|64)$|(large_)?utf8(_view)?$|date\d+$|(timestamp|duration)\[")


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
    rows, names = len(dataset), dataset.columns
    by = _divider(dataset)
    if rows == 0:
        raise InvalidArgument("dask(): there are no rows to make partitions of")
    n = npartitions if npartitions is not None else -(-dataset.nbytes // _PARTITION) or 1
    if n < 1:
        raise InvalidArgument(f"dask(): npartitions must be at least 1, got {n}")
    at = [number * rows // n for number in range(1, n)]
    if by is not None:
        at = _between_values(dataset.select([by]), by, at)
    parts = cut(dataset, at)
    divisions = None if by is None else _divisions(dataset, by, parts)
    # A split is of all columns, the dataset perhaps of some.
    chosen = [name for name in names if name != by]
    # Categories are those of a partition; others may have others.
    meta = engine("dask.dataframe.utils", "dask()", "dask").clear_known_categories(_frame(dataset.head(0), by, chosen))
    return frames.from_map(_part, parts, by=by, chosen=chosen, meta=meta, divisions=divisions, label="arrowwood")


def _part(split: Split, by: str | None, chosen: list[str], columns: list[str] | None = None) -> Any:
    """One partition, made where it is needed."""
    return _frame(split.open(), by, chosen if columns is None else columns)


def _frame(rows: Any, by: str | None, columns: list[str]) -> Any:
    import pandas as pd
    import pyarrow as pa

    def mapped(kind: Any) -> Any:
        # Dask passes categories on between workers, but not dictionaries of ArrowDtype.
        return None if pa.types.is_dictionary(kind) else pd.ArrowDtype(kind)

    table = pa.table(rows.select(columns))
    known = pa.schema([field.with_type(_known(field.type)) for field in table.schema])
    frame = table.cast(known).to_pandas(types_mapper=mapped, ignore_metadata=True)
    return frame if by is None else frame.set_axis(_index(rows, by), axis="index")


def _known(kind: Any) -> Any:
    """The type without views, also inside, which pyarrow cannot gather yet, as Dask has it do."""
    import pyarrow as pa

    def inside(field: Any) -> Any:
        return field.with_type(_known(field.type))

    if pa.types.is_struct(kind):
        return pa.struct([inside(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(inside(kind.key_field), inside(kind.item_field), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(inside(kind.value_field), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return (pa.list_ if pa.types.is_list(kind) else pa.large_list)(inside(kind.value_field))
    return {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(kind, kind)


def _index(rows: Any, by: str) -> Any:
    """The values of column `by` as an index, in place where they lie in one batch; not of ``ArrowDtype``, with which
    pandas doesn't take text for times.
    """
    import pandas as pd

    index = pd.Index(rows[by].to_numpy(), name=by)
    zone = rows.select([by]).head(0).to_pandas().dtypes.iloc[0]
    return index.tz_localize("UTC").tz_convert(zone.tz) if isinstance(zone, pd.DatetimeTZDtype) else index


def _divider(dataset: Any) -> str | None:
    """The column that the rows are sorted by, if an index of pandas can have its values as they are."""
    for field in dataset.schema:
        if field.name == dataset.sorted_by and _DIVIDERS.match(str(field.type)):
            return str(field.name)
    return None


def _between_values(column: Any, by: str, at: list[int]) -> list[int]:
    """The rows `at`, moved back to the first row of equal values."""

    def cell(row: int) -> Any:
        # Not as Python's values, which are of two types where there are nanoseconds.
        return column[row : row + 1][by].to_numpy()[0]

    moved: list[int] = []
    for row in at:
        low, high, value = (moved[-1] if moved else 0), row, cell(row)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if cell(middle) < value else (low, middle)
        if low > (moved[-1] if moved else 0):
            moved.append(low)
    return moved


def _divisions(dataset: Any, by: str, parts: list[Split]) -> tuple[Any, ...]:
    """The least value of each partition, and the greatest of the last."""
    firsts = [part.first_row - dataset.first_row for part in parts]
    return tuple(_index(dataset.select([by])[[*firsts, -1]], by))
