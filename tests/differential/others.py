"""Asks Polars and pyarrow the same questions about the rows of the reference, which checks the reference itself.

DIFFERENT lists where the libraries differ by design, and why. Functions return None for questions that a library is
not asked, and otherwise the answer in a tuple, as an answer may be None.
"""

import functools
import math
import operator

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from arrays import to_table
from conditions import ARITHMETIC, OPERATORS
from kinds import to_python
from reference import Refused, is_same

# Library, operation, and how its answer differs from what Arrowwood documents. The library is not asked there.
DIFFERENT = {
    ("Polars", "NaN"): "NaN is the largest number and equals itself. Arrowwood follows IEEE 754 and pyarrow.",
    ("Polars", "sum"): "Sums of integers wrap around at 64 bits. Arrowwood's are exact.",
    ("Polars", "decimals"): "Decimals have 38 digits, and their mean and variance are computed in floats.",
    ("Polars", "float32"): "The mean of float32 is a float32. Arrowwood's is a float64.",
    ("Polars", "is_in"): "The values must have the type of the column.",
    ("pyarrow", "sum"): "Sums of integers wrap around at 64 bits, and sums of decimals keep their digits.",
    ("pyarrow", "n_unique"): "0.0 and -0.0 count as two values. Arrowwood counts equal values once.",
    ("pyarrow", "min"): "The minimum of 0.0 and -0.0 is either of them, and a signaling NaN is the minimum of numbers.",
    ("pyarrow", "comparisons"): "Integers are rounded to floats when compared with them. Arrowwood compares exactly.",
}

POLARS = ("integer", "float", "bool", "text", "date", "duration", "timestamp")


def has_nan(values):
    return any(isinstance(value, float) and value != value for value in values)


def frame_of(rows, names):
    """Returns a data frame of these columns, or None if Polars would convert one of them to another type."""
    for name in names:
        kind = rows.kinds[name]
        # Polars has no seconds, half floats, dates in milliseconds, and zones that are offsets.
        has_offset = kind.zone is not None and kind.zone[0] in "+-"
        if kind.family not in POLARS or kind.unit == "s" or kind.spec in ("float16", "date64") or has_offset:
            return None
    return pl.DataFrame(pl.from_arrow(arrow_of(rows, names)))


def arrow_of(rows, names):
    return to_table([(name, rows.kinds[name].spec, rows.columns[name]) for name in names], len(rows))


def check(rows, answer, expected):
    """Yields the name of each library that can be asked, its answer, and whether that is the expected one."""
    if isinstance(expected, Refused):
        return
    name, *args = answer
    for library, functions in (("Polars", POLARS_FUNCTIONS), ("pyarrow", PYARROW_FUNCTIONS)):
        function = functions.get(name)
        result = None if function is None else function(rows, *args)
        if result is not None:
            yield library, result[0], is_same(result[0], expected)


# ---- Polars ----


def polars_column(function):
    """Wraps a function of a Polars series as one that takes the arguments of a question."""

    def call(rows, name, *args):
        kind = rows.kinds[name]
        frame = frame_of(rows, [name])
        if frame is None or has_nan(rows.columns[name]):
            return None
        return function(frame[name], kind, *args)

    return call


def series_to_python(series, kind):
    if kind.family in ("date", "duration", "timestamp"):
        return [to_python(kind, value) for value in series.to_physical().to_list()]
    return series.to_list()


def polars_sum(series, kind):
    if kind.family in ("integer", "bool"):
        # DIFFERENT: sums that don't fit 64 bits wrap around.
        is_signed = kind.family == "bool" or kind.spec[0] == "i"
        low, high = (-(2**63), 2**63) if is_signed else (0, 2**64)
        exact_sum = sum(value for value in series.to_list() if value is not None)
        return (series.cast(pl.Int64 if is_signed else pl.UInt64).sum(),) if low <= exact_sum < high else None
    return (series.cast(pl.Float64).sum(),) if kind.family == "float" else None


def polars_mean(series, kind):
    if kind.family == "float" or kind.family == "integer" and kind.size <= 32:
        return (series.cast(pl.Float64).mean(),)
    return None


def polars_extreme(which):
    def call(series, kind):
        row = series.arg_min() if which == "min" else series.arg_max()
        return (None if row is None else series_to_python(series[row : row + 1], kind)[0],)

    return call


def polars_sort(series, kind, descends):
    if kind.family == "float":
        # Equal zeros of both signs stay in their order in Arrowwood.
        return None
    return (series_to_python(series.sort(descending=descends, nulls_last=True), kind),)


def polars_condition(rows, names, node):
    if any(has_nan(rows.columns[name]) for name in names):
        return None
    frame = frame_of(rows, names)
    if frame is None or not names:
        return None
    expression = polars_expression(rows, node)
    return None if expression is None else (frame.filter(expression).height,)


def polars_expression(rows, node):
    """Returns a condition as an expression of Polars, or None if Polars lacks it or evaluates it differently."""
    match node:
        case ["not_null", name]:
            return pl.col(name).is_not_null()
        case ["null", name]:
            return pl.col(name).is_null()
        case ["compare", name, sign, literal]:
            value = polars_literal(rows.kinds[name], literal)
            return None if value is None else OPERATORS[sign](pl.col(name), value)
        case ["between", name, low, high]:
            low, high = polars_literal(rows.kinds[name], low), polars_literal(rows.kinds[name], high)
            return None if low is None or high is None else pl.col(name).is_between(low, high)
        case ["is_in", name, literals]:
            values = [polars_literal(rows.kinds[name], it) for it in literals]
            if any(value is None for value in values):
                return None
            # A null makes null in Arrowwood, even if there are no values.
            is_any = functools.reduce(operator.or_, [pl.col(name) == value for value in values], pl.lit(False))
            return pl.when(pl.col(name).is_not_null()).then(is_any)
        case ["text", name, "matches", pattern]:
            return pl.col(name).str.contains(pattern)
        case ["text", name, "contains", text]:
            return pl.col(name).str.contains(text, literal=True)
        case ["text", name, how, text]:
            return getattr(pl.col(name).str, how)(text)
        case ["pair", ["col", a], sign, ["col", b]]:
            if rows.kinds[a].spec != rows.kinds[b].spec:
                return None
            return OPERATORS[sign](pl.col(a), pl.col(b))
        case ["computed", expression, sign, [_, value]]:
            computed = polars_computed(rows, expression)
            return None if computed is None else OPERATORS[sign](computed, value)
        case ["not", a]:
            negated = polars_expression(rows, a)
            return None if negated is None else ~negated
        case ["and" | "or" as how, a, b]:
            a, b = polars_expression(rows, a), polars_expression(rows, b)
            if a is None or b is None:
                return None
            return a & b if how == "and" else a | b
    return None


def polars_computed(rows, node):
    """Returns an expression of int64. Narrower integers would wrap around, and make other floats."""
    match node:
        case ["col", name]:
            kind = rows.kinds[name]
            return pl.col(name).cast(pl.Int64) if kind.family == "integer" and kind.spec != "uint64" else None
        case ["value", "int64", value]:
            return pl.lit(value, pl.Int64)
        case ["neg", a]:
            operand = polars_computed(rows, a)
            return None if operand is None else -operand
        case ["+" | "-" | "*" | "%" as sign, a, b]:
            a, b = polars_computed(rows, a), polars_computed(rows, b)
            return None if a is None or b is None else ARITHMETIC[sign](a, b)
        case ["part", name, part]:
            kind = rows.kinds[name]
            # Polars has no times after the year 262,000, and some of Arrowwood's times overflow there.
            is_far = any(value is not None and abs(value) > 2**55 for value in rows.columns[name])
            if is_far or kind.family not in ("date", "timestamp"):
                return None
            return getattr(pl.col(name).dt, part)().cast(pl.Int64)
    return None


def polars_literal(kind, literal):
    """Returns a literal of the column's own type, or None for another: Polars would round it, or the column."""
    spec, value = literal
    if spec != kind.spec or isinstance(value, float) and not math.isfinite(value):
        return None
    if kind.family in ("timestamp", "duration", "date"):
        series = pl.from_arrow(to_table([("v", spec, [value])], 1))["v"]
        return pl.lit(series).first() if len(series) else None
    if kind.family == "float":
        return pl.lit(value, pl.Float32 if kind.size == 32 else pl.Float64)
    if kind.family == "integer":
        return pl.lit(value, getattr(pl, {"i": "Int", "u": "UInt"}[spec[0]] + str(kind.size)))
    return pl.lit(value) if not isinstance(value, bytes) else None


def polars_counts(series, kind):
    if kind.family == "float":
        return None
    result = (
        series.to_frame("v").group_by("v", maintain_order=True).len().sort("len", descending=True, maintain_order=True)
    )
    return ([list(row) for row in zip(series_to_python(result["v"], kind), result["len"].to_list())],)


def polars_groups(rows, names, by, functions, where):
    """Aggregates groups without conditions and expressions, which other questions cover."""
    if where is not None or not by or any(node[0] != "col" for _, node, _ in functions):
        return None
    columns = list(dict.fromkeys([*by, *(node[1] for _, node, _ in functions)]))
    if any(rows.kinds[name].family not in ("integer", "text", "bool") for name in columns):
        return None
    expressions = {
        "min": lambda column: column.min(),
        "max": lambda column: column.max(),
        "count": lambda column: column.count(),
        "n_unique": lambda column: column.n_unique(),
        "first": lambda column: column.first(),
        "last": lambda column: column.last(),
        "median": lambda column: column.cast(pl.Float64).median(),
    }
    if any(
        function not in expressions or is_median_unlike_ours(rows, node[1], function) for _, node, function in functions
    ):
        return None
    frame = frame_of(rows, columns)
    # Keys are renamed, as a result may have the name of a column.
    keys = {name: f"key_{name}" for name in by}
    values = frame.with_columns(**{new: pl.col(old) for old, new in keys.items()})
    aggregates = {name: expressions[function](pl.col(node[1])) for name, node, function in functions}
    result = values.group_by(list(keys.values()), maintain_order=True).agg(**aggregates)
    groups = []
    for row in result.to_dicts():
        group = {old: row[new] for old, new in keys.items()}
        groups.append(group | {name: row[name] for name in aggregates})
    return (groups,)


def is_median_unlike_ours(rows, name, function):
    """Returns whether a function is the median of values that Polars rounds to floats before it interpolates."""
    return function == "median" and (rows.kinds[name].family != "integer" or rows.kinds[name].size > 32)


POLARS_FUNCTIONS = {
    "sum": polars_column(polars_sum),
    "mean": polars_column(polars_mean),
    "min": polars_column(polars_extreme("min")),
    "max": polars_column(polars_extreme("max")),
    "n_unique": polars_column(lambda series, kind: (series.n_unique(),) if kind.family != "float" else None),
    "value_counts": polars_column(polars_counts),
    "sorted column": polars_column(polars_sort),
    "drop_nulls": polars_column(lambda series, kind: (series_to_python(series.drop_nulls(), kind),)),
    "filter": polars_condition,
    "aggregate": polars_groups,
}


# ---- pyarrow ----


def pyarrow_column(function, families):
    """Wraps a function of a pyarrow array as one that takes the arguments of a question."""

    def call(rows, name, *args):
        kind = rows.kinds[name]
        if kind.family not in families or kind.spec in ("float16", "utf8_view", "binary_view"):
            return None
        return function(arrow_of(rows, [name])[name], kind, rows.columns[name], *args)

    return call


def pyarrow_sum(column, kind, values):
    if kind.family == "float":
        return (pc.sum(column.cast(pa.float64()), min_count=0).as_py(),)
    exact_sum = sum(value for value in values if value is not None)
    # DIFFERENT: sums that don't fit 64 bits wrap around.
    return (pc.sum(column, min_count=0).as_py(),) if -(2**63) <= exact_sum < 2**63 else None


def pyarrow_extreme(which):
    def call(column, kind, values):
        if has_nan(values):
            # DIFFERENT: a signaling NaN is the minimum and the maximum.
            return None
        return (pc.min_max(column)[which].as_py(),)

    return call


def pyarrow_n_unique(column, kind, values):
    if kind.family == "float" and (0.0 in values or has_nan(values)):
        # DIFFERENT: zeros of both signs count as two values.
        return None
    return (pc.count_distinct(column, mode="all").as_py(),)


def pyarrow_sort(column, kind, values, descends):
    if kind.family == "float" and (has_nan(values) or 0.0 in values):
        return None
    indices = pc.array_sort_indices(column.combine_chunks(), order="descending" if descends else "ascending")
    return (pc.take(column, indices).to_pylist(),)


def pyarrow_var(column, kind, values):
    numbers = [value for value in values if value is not None]
    # pyarrow rounds squares of larger numbers.
    if len(numbers) < 2 or any(abs(number) > 1e6 for number in numbers):
        return None
    return (pc.variance(column.cast(pa.float64()), ddof=1).as_py(),)


PYARROW_FUNCTIONS = {
    "sum": pyarrow_column(pyarrow_sum, ("integer", "float", "bool")),
    "min": pyarrow_column(pyarrow_extreme("min"), ("integer", "float", "text", "binary", "bool")),
    "max": pyarrow_column(pyarrow_extreme("max"), ("integer", "float", "text", "binary", "bool")),
    "n_unique": pyarrow_column(pyarrow_n_unique, ("integer", "float", "text", "binary", "bool")),
    "sorted column": pyarrow_column(pyarrow_sort, ("integer", "float", "text")),
    "drop_nulls": pyarrow_column(
        lambda column, kind, values: (column.drop_null().to_pylist(),), ("integer", "text", "bool")
    ),
    "var": pyarrow_column(pyarrow_var, ("integer",)),
}
