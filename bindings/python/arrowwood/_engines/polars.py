"""Converts datasets to Polars data frames."""

import re
from typing import TYPE_CHECKING, Any

from arrowwood._errors import Unsupported
from arrowwood._extras import engine

if TYPE_CHECKING:
    import polars as pl

# Copies smaller batches together, as Polars takes longer for many batches than a copy does.
_SMALL_BATCH_BYTES = 128 << 10

# Matches types that Polars lacks, in text, also inside others: after the name of a field.
_UNSUPPORTED_TYPES = re.compile(
    r"(^|[<: ])(interval\[|(sparse|dense)_union<|(large_)?list_view<|run_end_encoded<|decimal256\(|decimal\d+\(\d+, -)"
)
# Matches decimals that Polars would read as 128 bits wide. Columns are widened first; nested ones are refused.
_NARROW_DECIMALS = re.compile(r"(^|[<: ])decimal(32|64)\(")
# Captures time zones. Columns in a zone that Polars doesn't know become columns of the same times in UTC.
_TIME_ZONES = re.compile(r"(?:^|[<: ])timestamp\[(?:s|ms|us|ns), ([^\]]+)\]")


def frame(dataset: Any) -> "pl.DataFrame":
    """Returns the rows of `dataset` as a data frame; see ``Dataset.to_polars``."""
    refuse_unknown(dataset, "to_polars()")
    unknown_zones = [zone for zone in _zones(dataset) if not _is_known_zone(zone)]
    if unknown_zones or any(_NARROW_DECIMALS.match(field.type) for field in dataset.schema):
        dataset = dataset._fitted(unknown_zones)
    polars_frame: pl.DataFrame = engine("polars", "to_polars()", "polars").DataFrame(
        dataset._gathered(_SMALL_BATCH_BYTES)
    )
    return polars_frame


def _zones(dataset: Any) -> set[str]:
    """Returns the time zones of all timestamps, also in nested types."""
    return {zone for field in dataset.schema for zone in _TIME_ZONES.findall(str(field.type))}


def _is_known_zone(zone: str) -> bool:
    polars = engine("polars", "to_polars()", "polars")
    try:
        polars.Series([], dtype=polars.Datetime("us", zone))
    except polars.exceptions.ComputeError:
        return False
    return True


def refuse_unknown(dataset: Any, function: str) -> None:
    """Refuses columns that Polars lacks or reads wrongly, or for which it panics, which is no ``Exception``."""
    for field in dataset.schema:
        kind = str(field.type)
        is_inner_zone = not kind.startswith("timestamp[") and not all(map(_is_known_zone, _TIME_ZONES.findall(kind)))
        is_inner_decimal = not kind.startswith("decimal") and _NARROW_DECIMALS.search(kind)
        if _UNSUPPORTED_TYPES.search(kind) or is_inner_decimal or is_inner_zone:
            raise Unsupported(
                f"{function}: Polars has no type for column {field.name!r}, {kind}; leave it out: ds.select([…])"
            )
