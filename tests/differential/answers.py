"""Questions: operations whose result is compared. A question of a case is a list such as `["sum", "c0"]`.

Each class below is a namespace of three functions, and never instantiated. `draw` returns random arguments, the first
of which is a column or a list of columns, or None if the question can't be asked of these rows. `run` asks a dataset,
and `expect` returns the answer of the reference.
"""

import math

import conditions
import numpy as np
import pyarrow as pa
from arrays import to_array
from kinds import to_python
from reference import (
    AnyOf,
    Approximate,
    Refused,
    column_extreme,
    column_sum,
    deviation,
    group_key,
    group_rows,
    mean,
    quantile,
    sorted_row_numbers,
    variance,
)

ANSWERS = {}


def answer(name):
    """Registers a question under the name that cases have for it."""

    def register(cls):
        ANSWERS[name] = cls
        return cls

    return register


def draw_column(rng, rows):
    return [rng.choice(list(rows.kinds))]


def draw_number_column(rng, rows):
    """Draws a column of numbers mostly. For other columns the question is refused."""
    numbers = [name for name, kind in rows.kinds.items() if kind.is_number]
    return [rng.choice(numbers)] if numbers and rng.random() < 0.7 else draw_column(rng, rows)


def unsupported():
    return Refused("Unsupported")


# ---- values ----


@answer("to_pylist")
class ToPylist:
    draw = draw_column
    run = lambda dataset, name: dataset[name].to_pylist()
    expect = lambda rows, name: rows.python_values(name)


@answer("rows")
class Dicts:
    draw = lambda rng, rows: [sorted(rows.kinds), rng.choice(["to_pylist", "iter", "rows", "row", "getitems"])]

    def run(dataset, names, how):
        match how:
            case "to_pylist":
                return dataset.to_pylist()
            case "iter":
                return list(dataset)
            case "rows":
                return list(dataset.rows(0, len(dataset)))
            case "getitems":
                return dataset.__getitems__(list(range(len(dataset))))
        return [dict(zip(dataset.columns, dataset.row(n))) for n in range(len(dataset))]

    expect = lambda rows, names, how: rows.to_dicts()


@answer("row")
class Row:
    def draw(rng, rows):
        return [sorted(rows.kinds), rng.randint(-len(rows), len(rows) - 1)] if len(rows) else None

    run = lambda dataset, names, n: dataset[n]
    expect = lambda rows, names, n: rows.take([n]).to_dicts()[0]


@answer("cell")
class Cell:
    draw = lambda rng, rows: [*draw_column(rng, rows), rng.randint(-len(rows), len(rows) - 1)] if len(rows) else None
    run = lambda dataset, name, n: dataset[name][n]
    expect = lambda rows, name, n: rows.python_values(name)[n]


@answer("slice of a column")
class ColumnSlice:
    draw = lambda rng, rows: [
        *draw_column(rng, rows),
        rng.randint(-9, 9),
        rng.randint(-9, 50),
        rng.choice([None, None, -1, 2, -3]),
    ]
    run = lambda dataset, name, start, stop, step: dataset[name][start:stop:step].to_pylist()
    expect = lambda rows, name, start, stop, step: rows.python_values(name)[start:stop:step]


@answer("batches")
class Batches:
    draw = draw_column
    run = lambda dataset, name: [value for batch in dataset.batches() for value in batch[name]]
    expect = lambda rows, name: rows.python_values(name)


@answer("to_arrow")
class ToArrow:
    """Compares arrays by pyarrow's equality."""

    draw = draw_column

    def run(dataset, name):
        array = dataset[name].to_arrow()
        array.validate()
        return array

    def expect(rows, name):
        return ArrowValues(rows.kinds[name], rows.columns[name])


class ArrowValues:
    """Expects a chunked array of pyarrow with these values."""

    def __init__(self, kind, values):
        self.kind, self.values = kind, values

    def accepts(self, actual):
        if isinstance(actual, Refused) or actual.type != self.kind.arrow or len(actual) != len(self.values):
            return False
        start = 0
        for chunk in actual.chunks:
            expected = to_array(self.kind, self.values[start : start + len(chunk)])
            start += len(chunk)
            if not are_arrays_equal(self.kind, chunk, expected):
                return False
        return True

    def __repr__(self):
        return f"{self.kind}: {self.values}"


def are_arrays_equal(kind, actual, expected):
    if kind.family in ("runs", "union", "struct", "list", "fixed_size_list", "map", "interval", "dictionary"):
        # pyarrow finds NaN different from NaN in these types, and compares dictionaries by their keys.
        try:
            return repr(actual.to_pylist()) == repr(expected.to_pylist())
        except (ValueError, OverflowError, pa.ArrowException, KeyError):
            # pyarrow can't convert the values, so they can't be compared.
            return True
    return actual.equals(expected) or kind.family == "float" and repr(actual.to_pylist()) == repr(expected.to_pylist())


@answer("to_numpy")
class ToNumpy:
    draw = draw_column
    run = lambda dataset, name: describe_numpy(dataset[name].to_numpy())

    def expect(rows, name):
        return expected_numpy(rows.kinds[name], rows.columns[name])


def describe_numpy(array):
    """Returns the type of an array's items, and the items; times as integers."""
    if array.dtype == object:
        return ["object", list(array)]
    if array.ndim != 1:
        return ["rows", array.tolist()]
    values = array.view("i8").tolist() if array.dtype.kind in "mM" else array.tolist()
    return [array.dtype.str.lstrip("<|"), values]


def expected_numpy(kind, values):
    """Returns what `describe_numpy` should return for the array of a column."""
    has_nulls = any(value is None for value in values)
    with_nan = [math.nan if value is None else value for value in values]
    with_nat = [np.iinfo("i8").min if value is None else value for value in values]
    match kind.family:
        case "integer" if has_nulls:
            return ["f8", [float(value) for value in with_nan]]
        case "integer":
            return [kind.arrow.to_pandas_dtype()().dtype.str.lstrip("<|"), values]
        case "float":
            return [f"f{kind.size // 8}", with_nan]
        case "timestamp":
            return [f"M8[{kind.unit}]", with_nat]
        case "duration":
            return [f"m8[{kind.unit}]", with_nat]
        case "date":
            return ["M8[ms]" if kind.spec == "date64" else "M8[D]", with_nat]
        case "bool" if not has_nulls:
            return ["b1", values]
        case "list" | "fixed_size_list" | "interval":
            return AnyOf()
        case _:
            return ["object", [to_python(kind, value) for value in values]]


@answer("to_pandas")
class ToPandas:
    """Compares a series with the one that pyarrow makes of the same values."""

    def draw(rng, rows):
        families = ("integer", "float", "bool", "text", "binary", "timestamp", "duration")
        names = [name for name, kind in rows.kinds.items() if kind.family in families]
        return [rng.choice(names)] if names and rng.random() < 0.3 else None

    def run(dataset, name):
        return PandasValues(dataset.select(name).to_pandas()[name])

    def expect(rows, name):
        kind = rows.kinds[name]
        is_far = any(isinstance(value, int) and abs(value) > 2**62 for value in rows.columns[name])
        if kind.family in ("timestamp", "duration") and is_far:
            return AnyOf()
        if kind.zone:
            python_type = type(to_python(kind, 0))
            if not all(isinstance(value, python_type | None) for value in rows.python_values(name)):
                return AnyOf()
        return PandasValues(to_array(kind, rows.columns[name]).to_pandas())


class PandasValues:
    """A series of pandas, which is compared by its type and the text of its values."""

    def __init__(self, series):
        self.series = series

    def accepts(self, actual):
        expected, series = self.series, actual.series
        return expected.dtype == series.dtype and repr(expected.tolist()) == repr(series.tolist())

    def __repr__(self):
        return f"{self.series.dtype}: {self.series.tolist()}"


@answer("to_polars")
class ToPolars:
    def draw(rng, rows):
        names = [name for name, kind in rows.kinds.items() if can_polars_hold(kind)]
        return [rng.choice(names)] if names else None

    def run(dataset, name):
        series = dataset.select(name).to_polars()[name]
        return series.to_physical().to_list() if series.dtype.is_temporal() else series.to_list()

    def expect(rows, name):
        kind = rows.kinds[name]
        return rows.columns[name] if kind.family in ("date", "timestamp", "duration") else rows.python_values(name)


def can_polars_hold(kind):
    if kind.family in ("list", "struct"):
        return "view" not in kind.label and all(part.family in ("integer", "text", "bool") for part in kind.parts)
    if kind.family == "decimal":
        return kind.size < 256 and kind.scale >= 0
    if kind.family not in ("integer", "float", "bool", "text", "date", "timestamp", "duration", "null"):
        return False
    # Polars has no half floats, seconds, and zones that are offsets.
    has_offset = kind.zone is not None and kind.zone[0] in "+-"
    return kind.spec not in ("float16", "date64") and kind.unit != "s" and not has_offset


# ---- a column ----


@answer("count")
class Count:
    draw = draw_column
    run = lambda dataset, name: [dataset[name].count(), dataset[name].null_count, len(dataset[name])]

    def expect(rows, name):
        count = len(rows.non_nulls(name))
        return [count, len(rows) - count, len(rows)]


@answer("sum")
class Sum:
    draw = draw_number_column
    run = lambda dataset, name: dataset[name].sum()

    def expect(rows, name):
        kind = rows.kinds[name]
        if not (kind.is_number or kind.value_kind.family == "duration"):
            return unsupported()
        return column_sum(kind, rows.non_nulls(name))


@answer("mean")
class Mean:
    draw = draw_number_column
    run = lambda dataset, name: dataset[name].mean()
    expect = lambda rows, name: (
        mean(rows.kinds[name], rows.non_nulls(name)) if rows.kinds[name].is_number else unsupported()
    )


@answer("min")
class Min:
    draw = draw_column
    run = lambda dataset, name: dataset[name].min()
    expect = lambda rows, name: extreme_of(rows, name, False)


@answer("max")
class Max:
    draw = draw_column
    run = lambda dataset, name: dataset[name].max()
    expect = lambda rows, name: extreme_of(rows, name, True)


def extreme_of(rows, name, descends):
    kind = rows.kinds[name]
    if kind.family == "null":
        return None
    return column_extreme(kind, rows.non_nulls(name), descends) if kind.has_order else unsupported()


@answer("var")
class Var:
    draw = draw_number_column
    run = lambda dataset, name: dataset[name].var()
    expect = lambda rows, name: (
        variance(rows.kinds[name], rows.non_nulls(name)) if rows.kinds[name].is_number else unsupported()
    )


@answer("std")
class Std:
    draw = draw_number_column
    run = lambda dataset, name: dataset[name].std()
    expect = lambda rows, name: (
        deviation(rows.kinds[name], rows.non_nulls(name)) if rows.kinds[name].is_number else unsupported()
    )


@answer("quantile")
class Quantile:
    draw = lambda rng, rows: [
        *draw_column(rng, rows),
        rng.choice([0.0, 0.25, 0.5, 0.9, 1.0, rng.random()]),
        rng.random() < 0.2,
    ]

    def run(dataset, name, share, is_approximate):
        column = dataset[name]
        return column.approx_quantile(share) if is_approximate else column.quantile(share)

    def expect(rows, name, share, _):
        kind = rows.kinds[name]
        return quantile(kind, rows.non_nulls(name), share) if kind.is_number else unsupported()


@answer("any, all")
class AnyAll:
    draw = lambda rng, rows: next(([name] for name, kind in rows.kinds.items() if kind.family == "bool"), None)
    run = lambda dataset, name: [dataset[name].any(), dataset[name].all()]
    expect = lambda rows, name: [any(rows.non_nulls(name)), all(rows.non_nulls(name))]


@answer("n_unique")
class NUnique:
    draw = draw_column
    run = lambda dataset, name: dataset[name].n_unique()

    def expect(rows, name):
        kind = rows.kinds[name]
        return len({group_key(kind, value) for value in rows.columns[name]}) if kind.is_key else unsupported()


@answer("unique")
class Unique:
    draw = draw_column
    run = lambda dataset, name: dataset[name].unique().to_pylist()

    def expect(rows, name):
        kind = rows.kinds[name]
        if not kind.is_key:
            return unsupported()
        return [any_zero(to_python(kind, rows.columns[name][group[0]])) for group in group_rows(rows, [name])]


def any_zero(value):
    """Expects a zero of either sign if the value is a zero."""
    return Approximate(0.0) if isinstance(value, float) and value == 0 else value


@answer("value_counts")
class ValueCounts:
    draw = draw_column
    run = lambda dataset, name: [list(row.values()) for row in dataset[name].value_counts()]

    def expect(rows, name):
        kind = rows.kinds[name]
        if not kind.is_key:
            return unsupported()
        groups = sorted(group_rows(rows, [name]), key=len, reverse=True)
        return [[any_zero(to_python(kind, rows.columns[name][group[0]])), len(group)] for group in groups]


@answer("sorted column")
class ColumnSort:
    draw = lambda rng, rows: [*draw_column(rng, rows), rng.random() < 0.5]
    run = lambda dataset, name, descends: dataset[name].sort(descending=descends).to_pylist()

    def expect(rows, name, descends):
        kind = rows.kinds[name]
        if kind.family == "null":
            return rows.python_values(name)
        return (
            rows.take(sorted_row_numbers(rows, [[name, descends]])).python_values(name)
            if kind.has_order
            else unsupported()
        )


@answer("drop_nulls")
class DropNulls:
    draw = draw_column
    run = lambda dataset, name: dataset[name].drop_nulls().to_pylist()
    expect = lambda rows, name: [to_python(rows.kinds[name], value) for value in rows.non_nulls(name)]


@answer("map_reduce")
class MapReduce:
    draw = draw_column
    run = lambda dataset, name: dataset[name].map_reduce(lambda array: array.tolist(), lambda left, right: left + right)

    def expect(rows, name):
        kind = rows.kinds[name]
        if kind.family not in ("integer", "float") or len(rows.non_nulls(name)) < len(rows) or not len(rows):
            return AnyOf()
        return rows.columns[name]


# ---- rows ----


@answer("filter")
class Filter:
    def draw(rng, rows):
        node = conditions.condition(rows, rng)
        return [names_in(node), node]

    def run(dataset, names, node):
        return len(dataset.filter(conditions.predicate(node)))

    def expect(rows, names, node):
        numbers = conditions.matching_rows(rows, node)
        return numbers if isinstance(numbers, Refused | AnyOf) else len(numbers)


@answer("filter and look")
class FilterRows:
    draw = Filter.draw

    def run(dataset, names, node):
        filtered = dataset.filter(conditions.predicate(node))
        return [filtered[number] for number in range(min(len(filtered), 9))] + filtered.to_pylist()

    def expect(rows, names, node):
        numbers = conditions.matching_rows(rows, node)
        if isinstance(numbers, Refused | AnyOf):
            return numbers
        dicts = rows.take(numbers).to_dicts()
        return dicts[:9] + dicts


@answer("filter at a bound")
class FilterAtBound:
    """Compares with the minimum or maximum of some rows, in all ways: such bounds decide which blocks are skipped."""

    def draw(rng, rows):
        names = []
        for name, kind in rows.kinds.items():
            is_ordered = kind.value_kind.family in conditions.PYTHON_ORDERED and not kind.has_ranks
            if is_ordered and rows.non_nulls(name):
                names.append(name)
        if not names:
            return None
        name, start = rng.choice(names), rng.randrange(len(rows))
        values = [value for value in rows.columns[name][start : start + 4] if value is not None]
        if not values:
            return None
        bound = rng.choice([min, max])(values)
        literal = conditions.literal_of(rows.kinds[name].value_kind, bound, rng)
        return [[name], name, literal] if literal else None

    def run(dataset, names, name, value):
        predicates = [conditions.predicate(node) for node in comparisons(name, value)]
        return [[len(dataset.filter(predicate)), len(dataset.filter(~predicate))] for predicate in predicates]

    def expect(rows, names, name, value):
        answers = []
        for node in comparisons(name, value):
            counts = []
            for condition in (node, ["not", node]):
                numbers = conditions.matching_rows(rows, condition)
                if isinstance(numbers, Refused | AnyOf):
                    return numbers
                counts.append(len(numbers))
            answers.append(counts)
        return answers


def comparisons(name, value):
    return [["compare", name, sign, value] for sign in conditions.OPERATORS]


def names_in(node):
    """Returns the names of the columns of a condition or an expression, each once."""
    if not isinstance(node, list) or not node or node[0] == "value":
        return []
    if node[0] in ("compare", "is_in", "between", "null", "not_null", "text", "col", "part"):
        return [node[1]]
    names = [name for part in node for name in names_in(part)]
    return list(dict.fromkeys(names))


def short_form(node):
    """Returns the name under which a simple condition is counted."""
    match node:
        case ["text", _, how, _]:
            return how
        case ["null" | "not_null", _]:
            return "is_null"
        case [how, *_]:
            return how


@answer("between, sorted")
class Between:
    """Asks a sorted table. It is never drawn: the case asks it of sorted tables only."""

    draw = lambda rng, rows: None

    def run(dataset, name, low, high):
        return dataset.between(conditions.value_of(low), conditions.value_of(high)).to_pylist()

    def expect(rows, name, low, high):
        return rows.take(conditions.matching_rows(rows, ["between", name, low, high])).to_dicts()


@answer("describe")
class Describe:
    draw = lambda rng, rows: [sorted(rows.kinds)] if rng.random() < 0.3 else None

    def run(dataset, names):
        return {name: dataset.describe()[name].to_pylist()[:2] for name in names}

    def expect(rows, names):
        counts = {name: [len(rows.non_nulls(name)), len(rows) - len(rows.non_nulls(name))] for name in names}
        return {name: [float(n) if rows.kinds[name].is_number else str(n) for n in counts[name]] for name in names}


@answer("loader")
class Batching:
    """Reads rows in batches of arrays."""

    def draw(rng, rows):
        names = [name for name, kind in rows.kinds.items() if kind.family in ("integer", "float")]
        names = [name for name in names if None not in rows.columns[name]]
        return [names, rng.randint(1, 7)] if names else None

    def run(dataset, names, size):
        loader = dataset.loader(size, columns=names)
        columns = {name: [] for name in names}
        for batch in loader:
            for name in names:
                columns[name].extend(batch[name].tolist())
        return columns

    expect = lambda rows, names, size: {name: rows.columns[name] for name in names}
