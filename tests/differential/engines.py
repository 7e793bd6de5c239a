"""Datasets as lazy frames, whose conditions reach the data, and as arrays of several columns."""

import conditions
import polars as pl
from answers import answer, names_in
from kinds import made
from others import frame_of, has_nan, polars_expression
from twin import Any, Refused, Rows

import arrowwood as aw


@answer("scan")
class Scan:
    """A lazy frame of Polars: its conditions are done by Arrowwood, as far as it can."""

    def draw(dice, rows):
        node = conditions.condition(rows, dice, 1)
        names = names_in(node)
        # To Polars NaN is larger than all numbers.
        if not names or any(has_nan(rows.columns[name]) for name in names) or frame_of(rows.take([]), names) is None:
            return None
        specs = [rows.kinds[name].spec for name in names]
        return [names, specs, node] if Scan.expression(names, specs, node) is not None else None

    def expression(names, specs, node):
        """The condition as Polars has it, of columns that may have any values."""
        kinds = {name: made(spec) for name, spec in zip(names, specs)}
        return polars_expression(Rows(kinds, {name: [2**60] for name in names}, []), node)

    def ours(ds, names, specs, node):
        frame = aw.scan(ds.select(names)).filter(Scan.expression(names, specs, node))
        return frame.select(pl.len()).collect().item()

    def twin(rows, names, specs, node):
        found = conditions.chosen(rows, node)
        # What Polars computes itself wraps around.
        return Any() if isinstance(found, Refused | Any) else len(found)


@answer("matrix")
class Matrix:
    """Columns of one type of numbers, without nulls."""

    def draw(dice, rows):
        names = [name for name, kind in rows.kinds.items() if kind.family in ("integer", "float")]
        names = [name for name in names if None not in rows.columns[name]]
        alike = [name for name in names if rows.kinds[name].spec == rows.kinds[names[0]].spec]
        return [alike] if alike else None

    ours = lambda ds, names: ds.select(names).to_numpy().T.tolist()
    twin = lambda rows, names: [rows.columns[name] for name in names]


@answer("chunks")
class Chunks:
    draw = lambda dice, rows: [dice.choice(list(rows.kinds))]
    ours = lambda ds, name: [value for chunk in ds[name].chunks() for value in chunk.to_pylist()]
    twin = lambda rows, name: rows.shown(name)
