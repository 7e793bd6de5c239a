"""What Polars and pyarrow say to the same questions, of the twin's rows: the twin is right only where they agree.

DIFFERENT lists where they don't, by design, and why.
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

# Who, of what, and why the answer is another than that of the documentation; the twin alone decides there.
DIFFERENT = {
    (
        "Polars",
        "NaN",
    ): "it is larger than all numbers and equal to itself there; here it is neither, as to IEEE 754 and pyarrow",
    (
        "Polars",
        "sum",
    ): "of integers wraps around at 64 bits, and of those of 8 and 16 bits is one of 64; here it is exact",
    ("Polars", "decimals"): "have 38 digits, and a mean or variance of them is that of floats, rounded more often",
    ("pyarrow", "sum"): "of integers wraps around at 64 bits, and of decimals keeps their digits",
    ("pyarrow", "n_unique"): "tells 0.0 from -0.0; here they are one value, as they are equal",
    ("pyarrow", "min"): "of 0.0 and -0.0 is either, and of numbers and a signaling NaN it is NaN",
    ("Polars", "is_in"): "takes values of the column's own type",
    ("pyarrow", "comparisons"): "of integers with floats round to floats; here they are exact",
    ("Polars", "float32"): "a mean of them is one of them; here it is a float64",
}

POLARS = ("integer", "float", "bool", "text", "date", "duration", "timestamp")


def has_nan(values):
    return any(isinstance(value, float) and value != value for value in values)


def frame_of(rows, names):
    """A data frame of these columns, or None if Polars has not all of them as they are."""
    for name in names:
        kind = rows.kinds[name]
        # Seconds, halves and offsets become something else.
        if (
            kind.family not in POLARS
            or kind.unit == "s"
            or kind.spec in ("float16", "date64")
            or (kind.zone or "/")[0] in "+-"
        ):
            return None
    return pl.DataFrame(pl.from_arrow(arrow_of(rows, names)))


def arrow_of(rows, names):
    return to_table([(name, rows.kinds[name].spec, rows.columns[name]) for name in names], len(rows))


def check(rows, answer, expected):
    """Yields who, and what else they say, if that is not what is expected."""
    if isinstance(expected, Refused):
        return
    name, *args = answer
    for who, table in (("Polars", BY_POLARS), ("pyarrow", BY_PYARROW)):
        call = table.get(name)
        if call is None:
            continue
        result = call(rows, *args)
        if result is None:
            continue
        yield who, result[0], is_same(result[0], expected)


# ---- Polars ----


def polars_column(function):
    def call(rows, name, *args):
        kind = rows.kinds[name]
        frame = frame_of(rows, [name])
        if frame is None or has_nan(rows.columns[name]):
            return None
        return function(frame[name], kind, *args)

    return call


def objects(series, kind):
    if kind.family in ("date", "duration", "timestamp"):
        return [to_python(kind, value) for value in series.to_physical().to_list()]
    return series.to_list()


def polars_sum(series, kind):
    if kind.family in ("integer", "bool"):
        # DIFFERENT: it may wrap around.
        low, high = (-(2**63), 2**63) if kind.family == "bool" or kind.spec[0] == "i" else (0, 2**64)
        exact_number = sum(value for value in series.to_list() if value is not None)
        return (series.cast(pl.Int64 if low else pl.UInt64).sum(),) if low <= exact_number < high else None
    return (series.cast(pl.Float64).sum(),) if kind.family == "float" else None


def polars_mean(series, kind):
    return (
        (series.cast(pl.Float64).mean(),)
        if kind.family == "float" or kind.family == "integer" and kind.size <= 32
        else None
    )


def polars_extreme(which):
    def call(series, kind):
        result = (series.arg_min if which == "min" else series.arg_max)()
        return (None if result is None else objects(series[result : result + 1], kind)[0],)

    return call


def polars_sort(series, kind, descends):
    if kind.family == "float":
        # Zeros of both signs are equal, and stay in their order.
        return None
    return (objects(series.sort(descending=descends, nulls_last=True), kind),)


def polars_condition(rows, names, node):
    if any(has_nan(rows.columns[name]) for name in names):
        return None
    frame = frame_of(rows, names)
    if frame is None or not names:
        return None
    result = polars_expression(rows, node)
    return None if result is None else (frame.filter(result).height,)


def polars_expression(rows, node):
    """The condition as Polars has it; None for those that it has not, or has otherwise."""
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
            # Of nothing, too, it is unknown whether a null is one of them.
            one_of = functools.reduce(operator.or_, [pl.col(name) == value for value in values], pl.lit(False))
            return pl.when(pl.col(name).is_not_null()).then(one_of)
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
        case ["computed", of, sign, [_, value]]:
            result = polars_computed(rows, of)
            return None if result is None else OPERATORS[sign](result, value)
        case ["not", a]:
            result = polars_expression(rows, a)
            return None if result is None else ~result
        case ["and" | "or" as how, a, b]:
            a, b = polars_expression(rows, a), polars_expression(rows, b)
            return None if a is None or b is None else a & b if how == "and" else a | b
    return None


def polars_computed(rows, node):
    """Integers of 64 bits; narrower ones would wrap around, and make other floats."""
    match node:
        case ["col", name]:
            kind = rows.kinds[name]
            return pl.col(name).cast(pl.Int64) if kind.family == "integer" and kind.spec != "uint64" else None
        case ["value", "int64", value]:
            return pl.lit(value, pl.Int64)
        case ["neg", a]:
            result = polars_computed(rows, a)
            return None if result is None else -result
        case ["+" | "-" | "*" | "%" as sign, a, b]:
            a, b = polars_computed(rows, a), polars_computed(rows, b)
            return None if a is None or b is None else ARITHMETIC[sign](a, b)
        case ["part", name, part]:
            kind = rows.kinds[name]
            # Polars has no times after the year 262,000, and other times of ours overflow there.
            is_far = any(value is not None and abs(value) > 2**55 for value in rows.columns[name])
            return (
                None
                if is_far or kind.family not in ("date", "timestamp")
                else getattr(pl.col(name).dt, part)().cast(pl.Int64)
            )
    return None


def polars_literal(kind, literal):
    """A value of the column's own type: others are rounded to it, or the column to them."""
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
    return ([list(row) for row in zip(objects(result["v"], kind), result["len"].to_list())],)


def polars_groups(rows, names, by, functions, where):
    """Without conditions and expressions, which are asked elsewhere."""
    if where is not None or not by or any(node[0] != "col" for _, node, _ in functions):
        return None
    columns = list(dict.fromkeys([*by, *(node[1] for _, node, _ in functions)]))
    if any(rows.kinds[name].family not in ("integer", "text", "bool") for name in columns):
        return None
    makers = {
        "min": lambda it: it.min(),
        "max": lambda it: it.max(),
        "count": lambda it: it.count(),
        "n_unique": lambda it: it.n_unique(),
        "first": lambda it: it.first(),
        "last": lambda it: it.last(),
        "median": lambda it: it.cast(pl.Float64).median(),
    }
    if any(function not in makers or is_median_unlike_ours(rows, node[1], function) for _, node, function in functions):
        return None
    frame = frame_of(rows, columns)
    # The names of the results may be those of columns.
    keys = {name: f"key_{name}" for name in by}
    values = frame.with_columns(**{new: pl.col(old) for old, new in keys.items()})
    aggregates = {name: makers[function](pl.col(node[1])) for name, node, function in functions}
    result = values.group_by(list(keys.values()), maintain_order=True).agg(**aggregates)
    return (
        [
            {**{old: row[new] for old, new in keys.items()}, **{name: row[name] for name in aggregates}}
            for row in result.to_dicts()
        ],
    )


def is_median_unlike_ours(rows, name, function):
    return function == "median" and (rows.kinds[name].family != "integer" or rows.kinds[name].size > 32)


BY_POLARS = {
    "sum": polars_column(polars_sum),
    "mean": polars_column(polars_mean),
    "min": polars_column(polars_extreme("min")),
    "max": polars_column(polars_extreme("max")),
    "n_unique": polars_column(lambda series, kind: (series.n_unique(),) if kind.family != "float" else None),
    "value_counts": polars_column(polars_counts),
    "sorted column": polars_column(polars_sort),
    "drop_nulls": polars_column(lambda series, kind: (objects(series.drop_nulls(), kind),)),
    "filter": polars_condition,
    "aggregate": polars_groups,
}


# ---- pyarrow ----


def pyarrow_column(function, families):
    def call(rows, name, *args):
        kind = rows.kinds[name]
        if kind.family not in families or kind.spec in ("float16", "utf8_view", "binary_view"):
            return None
        return function(arrow_of(rows, [name])[name], kind, rows.columns[name], *args)

    return call


def pyarrow_sum(column, kind, values):
    if kind.family == "float":
        return (pc.sum(column.cast(pa.float64()), min_count=0).as_py(),)
    exact_number = sum(value for value in values if value is not None)
    # DIFFERENT: it may wrap around.
    return (pc.sum(column, min_count=0).as_py(),) if -(2**63) <= exact_number < 2**63 else None


def pyarrow_extreme(which):
    def call(column, kind, values):
        if has_nan(values):
            # DIFFERENT: signaling ones are the extremes.
            return None
        return (pc.min_max(column)[which].as_py(),)

    return call


def pyarrow_n_unique(column, kind, values):
    if kind.family == "float" and (0.0 in values or has_nan(values)):
        # DIFFERENT: it tells zeros apart.
        return None
    return (pc.count_distinct(column, mode="all").as_py(),)


def pyarrow_sort(column, kind, values, descends):
    if kind.family == "float" and (has_nan(values) or 0.0 in values):
        return None
    indices = pc.array_sort_indices(column.combine_chunks(), order="descending" if descends else "ascending")
    return (pc.take(column, indices).to_pylist(),)


def pyarrow_var(column, kind, values):
    finite = [value for value in values if value is not None]
    if len(finite) < 2 or any(abs(value) > 1e6 for value in finite) or has_nan(finite):
        return None
    result = pc.variance(column.cast(pa.float64()), ddof=1).as_py()
    return (result,)


BY_PYARROW = {
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
