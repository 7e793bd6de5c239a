"""Questions that other libraries ask of a dataset: a lazy frame of Polars, and arrays of several columns."""

import conditions
import polars as pl
from answers import answer, names_in
from kinds import parse_kind
from others import frame_of, has_nan, polars_expression
from reference import AnyOf, Refused, Rows

import arrowwood as aw


@answer("scan")
class Scan:
    """Filters a lazy frame of Polars, which leaves conditions to Arrowwood where it can."""

    def draw(rng, rows):
        node = conditions.condition(rows, rng, 1)
        names = names_in(node)
        # Polars takes NaN for larger than all numbers.
        if not names or any(has_nan(rows.columns[name]) for name in names) or frame_of(rows.take([]), names) is None:
            return None
        specs = [rows.kinds[name].spec for name in names]
        return [names, specs, node] if Scan.expression(names, specs, node) is not None else None

    def expression(names, specs, node):
        """Returns a condition as an expression of Polars, for columns with any values."""
        kinds = {name: parse_kind(spec) for name, spec in zip(names, specs)}
        return polars_expression(Rows(kinds, {name: [2**60] for name in names}, []), node)

    def run(dataset, names, specs, node):
        frame = aw.scan(dataset.select(names)).filter(Scan.expression(names, specs, node))
        return frame.select(pl.len()).collect().item()

    def expect(rows, names, specs, node):
        numbers = conditions.matching_rows(rows, node)
        # Where Arrowwood refuses an overflow, Polars may evaluate the condition itself, and wraps around.
        return AnyOf() if isinstance(numbers, Refused | AnyOf) else len(numbers)


@answer("matrix")
class Matrix:
    """Converts columns of one type of numbers, without nulls, to a two-dimensional array."""

    def draw(rng, rows):
        names = [name for name, kind in rows.kinds.items() if kind.family in ("integer", "float")]
        names = [name for name in names if None not in rows.columns[name]]
        if not names:
            return None
        spec = rows.kinds[names[0]].spec
        return [[name for name in names if rows.kinds[name].spec == spec]]

    run = lambda dataset, names: dataset.select(names).to_numpy().T.tolist()
    expect = lambda rows, names: [rows.columns[name] for name in names]


@answer("chunks")
class Chunks:
    draw = lambda rng, rows: [rng.choice(list(rows.kinds))]
    run = lambda dataset, name: [value for chunk in dataset[name].chunks() for value in chunk.to_pylist()]
    expect = lambda rows, name: rows.python_values(name)
