"""Datasets as data frames of Polars."""

import re
from typing import TYPE_CHECKING, Any

from arrowwood._errors import Unsupported
from arrowwood._extras import engine

if TYPE_CHECKING:
    import polars as pl

# Batches smaller than this cost Polars more than a copy of them does.
_SMALL = 128 << 10

# As types are written, also inside others: after the name of a field.
_UNKNOWN = re.compile(
    r"(^|[<: ])(interval\[|(sparse|dense)_union<|(large_)?list_view<|run_end_encoded<|decimal256\(|decimal\d+\(\d+, -)"
)
# Polars takes them for decimals of 128 bits. Columns of them are widened, what is inside of others is not.
_NARROW = re.compile(r"(^|[<: ])decimal(32|64)\(")


def frame(dataset: Any) -> "pl.DataFrame":
    """The rows of `dataset` as a data frame; see ``Dataset.to_polars``."""
    refuse_unknown(dataset, "to_polars()")
    if any(_NARROW.match(field.type) for field in dataset.schema):
        dataset = dataset._widened()
    found: pl.DataFrame = engine("polars", "to_polars()", "polars").DataFrame(dataset._gathered(_SMALL))
    return found


def refuse_unknown(dataset: Any, what: str) -> None:
    """Polars panics over these, which is no ``Exception``, knows nothing of them, or gets them wrong."""
    for field in dataset.schema:
        kind = str(field.type)
        if _UNKNOWN.search(kind) or not kind.startswith("decimal") and _NARROW.search(kind):
            raise Unsupported(
                f"{what}: Polars has no type for column {field.name!r}, {kind}; leave it out: ds.select([…])"
            )
