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
# The zone of timestamps. Columns in one that Polars does not know become columns in UTC, of the same times.
_ZONE = re.compile(r"(?:^|[<: ])timestamp\[(?:s|ms|us|ns), ([^\]]+)\]")


def frame(dataset: Any) -> "pl.DataFrame":
    """The rows of `dataset` as a data frame; see ``Dataset.to_polars``."""
    refuse_unknown(dataset, "to_polars()")
    zones = [zone for zone in _zones(dataset) if not _is_known(zone)]
    if zones or any(_NARROW.match(field.type) for field in dataset.schema):
        dataset = dataset._fitted(zones)
    found: pl.DataFrame = engine("polars", "to_polars()", "polars").DataFrame(dataset._gathered(_SMALL))
    return found


def _zones(dataset: Any) -> set[str]:
    """The time zones of all timestamps, also inside others."""
    return {zone for field in dataset.schema for zone in _ZONE.findall(str(field.type))}


def _is_known(zone: str) -> bool:
    polars = engine("polars", "to_polars()", "polars")
    try:
        polars.Series([], dtype=polars.Datetime("us", zone))
    except polars.exceptions.ComputeError:
        return False
    return True


def refuse_unknown(dataset: Any, what: str) -> None:
    """Polars panics over these, which is no ``Exception``, knows nothing of them, or gets them wrong."""
    for field in dataset.schema:
        kind = str(field.type)
        is_inner_zone = not kind.startswith("timestamp[") and not all(map(_is_known, _ZONE.findall(kind)))
        is_inner_decimal = not kind.startswith("decimal") and _NARROW.search(kind)
        if _UNKNOWN.search(kind) or is_inner_decimal or is_inner_zone:
            raise Unsupported(
                f"{what}: Polars has no type for column {field.name!r}, {kind}; leave it out: ds.select([…])"
            )
