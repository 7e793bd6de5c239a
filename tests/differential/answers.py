"""Operations that end in an answer: what Arrowwood says, and what the twin does.

Each is asked as a list such as `["sum", "c0"]`: its name, the columns that it is about, and whatever it takes.
"""

import math

import conditions
import numpy as np
from kinds import shown
from twin import (
    Any,
    Near,
    Refused,
    deviation,
    distinct,
    extreme,
    grouped,
    mean,
    quantile,
    sorted_numbers,
    total,
    variance,
)

ANSWERS = {}


def answer(name):
    def add(cls):
        ANSWERS[name] = cls
        return cls

    return add


def one(dice, rows):
    return [dice.choice(list(rows.kinds))]


def one_of_numbers(dice, rows):
    """Mostly one of numbers; the others are refused."""
    numbers = [name for name, kind in rows.kinds.items() if kind.is_number]
    return [dice.choice(numbers)] if numbers and dice.random() < 0.7 else one(dice, rows)


def unsupported(*others):
    return Refused("Unsupported", *others)


# ---- values ----


@answer("to_pylist")
class ToPylist:
    draw = one
    ours = lambda ds, name: ds[name].to_pylist()
    twin = lambda rows, name: rows.shown(name)


@answer("rows")
class Dicts:
    draw = lambda dice, rows: [sorted(rows.kinds), dice.choice(["to_pylist", "iter", "rows", "row", "getitems"])]

    def ours(ds, names, how):
        match how:
            case "to_pylist":
                return ds.to_pylist()
            case "iter":
                return list(ds)
            case "rows":
                return list(ds.rows(0, len(ds)))
            case "getitems":
                return ds.__getitems__(list(range(len(ds))))
        return [dict(zip(ds.columns, ds.row(n))) for n in range(len(ds))]

    twin = lambda rows, names, how: rows.dicts()


@answer("row")
class Row:
    def draw(dice, rows):
        return [sorted(rows.kinds), dice.randint(-len(rows), len(rows) - 1)] if len(rows) else None

    ours = lambda ds, names, n: ds[n]
    twin = lambda rows, names, n: rows.take([n]).dicts()[0]


@answer("cell")
class Cell:
    draw = lambda dice, rows: [*one(dice, rows), dice.randint(-len(rows), len(rows) - 1)] if len(rows) else None
    ours = lambda ds, name, n: ds[name][n]
    twin = lambda rows, name, n: rows.shown(name)[n]


@answer("slice of a column")
class ColumnSlice:
    draw = lambda dice, rows: [
        *one(dice, rows),
        dice.randint(-9, 9),
        dice.randint(-9, 50),
        dice.choice([None, None, -1, 2, -3]),
    ]
    ours = lambda ds, name, a, b, c: ds[name][a:b:c].to_pylist()
    twin = lambda rows, name, a, b, c: rows.shown(name)[a:b:c]


@answer("batches")
class Batches:
    draw = one
    ours = lambda ds, name: [value for batch in ds.batches() for value in batch[name]]
    twin = lambda rows, name: rows.shown(name)


@answer("to_arrow")
class ToArrow:
    """By the bytes that pyarrow finds equal."""

    draw = one

    def ours(ds, name):
        found = ds[name].to_arrow()
        found.validate()
        return found

    def twin(rows, name):
        return ArrowValues(rows.kinds[name], rows.columns[name])


class ArrowValues:
    """A chunked array of pyarrow of these values."""

    def __init__(self, kind, values):
        self.kind, self.values = kind, values

    def accepts(self, found):
        from arrays import array_of

        if isinstance(found, Refused) or found.type != self.kind.arrow or len(found) != len(self.values):
            return False
        start = 0
        for chunk in found.chunks:
            wanted = array_of(self.kind, self.values[start : start + len(chunk)])
            start += len(chunk)
            if not arrow_equal(self.kind, chunk, wanted):
                return False
        return True

    def __repr__(self):
        return f"{self.kind}: {self.values}"


def arrow_equal(kind, found, wanted):
    import pyarrow as pa

    if kind.family in ("runs", "union", "struct", "list", "fixed_size_list", "map", "interval", "dictionary"):
        # pyarrow compares NaN of these as different, and dictionaries by their keys.
        try:
            a, b = found.to_pylist(), wanted.to_pylist()
        except (ValueError, OverflowError, pa.ArrowException, KeyError):
            return True
        return repr(a) == repr(b)
    return found.equals(wanted) or kind.family == "float" and repr(found.to_pylist()) == repr(wanted.to_pylist())


@answer("to_numpy")
class ToNumpy:
    draw = one
    ours = lambda ds, name: NumpyValues.told(ds[name].to_numpy())

    def twin(rows, name):
        return NumpyValues.expected(rows.kinds[name], rows.columns[name])


class NumpyValues:
    @staticmethod
    def told(array):
        """The type of the items, and the items."""
        if array.dtype == object or array.ndim != 1:
            return [
                "object" if array.dtype == object else "rows",
                list(array) if array.dtype == object else array.tolist(),
            ]
        kind = array.dtype.kind
        values = array.view("i8").tolist() if kind in "mM" else array.tolist()
        return [array.dtype.str.lstrip("<|"), values]

    @staticmethod
    def expected(kind, values):
        holes = any(value is None for value in values)
        nat = np.iinfo("i8").min
        if kind.family == "integer":
            if holes:
                return ["f8", [math.nan if value is None else float(value) for value in values]]
            return [kind.arrow.to_pandas_dtype()().dtype.str.lstrip("<|"), values]
        if kind.family == "float":
            return [f"f{kind.size // 8}", [math.nan if value is None else value for value in values]]
        if kind.family == "timestamp":
            return [f"M8[{kind.unit}]", [nat if value is None else value for value in values]]
        if kind.family == "duration":
            return [f"m8[{kind.unit}]", [nat if value is None else value for value in values]]
        if kind.family == "date":
            unit = "ms" if kind.spec == "date64" else "D"
            return [f"M8[{unit}]", [nat if value is None else value for value in values]]
        if kind.family == "bool" and not holes:
            return ["b1", values]
        if kind.family in ("list", "fixed_size_list", "interval"):
            return Any()
        return ["object", [shown(kind, value) for value in values]]


@answer("to_pandas")
class ToPandas:
    """As pyarrow converts the same values."""

    def draw(dice, rows):
        families = ("integer", "float", "bool", "text", "binary", "timestamp", "duration")
        names = [name for name, kind in rows.kinds.items() if kind.family in families]
        return [dice.choice(names)] if names and dice.random() < 0.3 else None

    def ours(ds, name):
        return PandasValues(ds.select(name).to_pandas()[name])

    def twin(rows, name):
        from arrays import array_of

        kind = rows.kinds[name]
        if kind.family in ("timestamp", "duration") and any(
            value is not None and abs(value) > 2**62 for value in rows.columns[name]
        ):
            return Any()
        if kind.zone and not all(isinstance(value, type(shown(kind, 0)) | None) for value in rows.shown(name)):
            return Any()
        return PandasValues(array_of(kind, rows.columns[name]).to_pandas())


class PandasValues:
    def __init__(self, series):
        self.series = series

    def accepts(self, found):
        one, other = self.series, found.series
        return one.dtype == other.dtype and repr(one.tolist()) == repr(other.tolist())

    def __repr__(self):
        return f"{self.series.dtype}: {self.series.tolist()}"


@answer("to_polars")
class ToPolars:
    def draw(dice, rows):
        names = [name for name, kind in rows.kinds.items() if polars_holds(kind)]
        return [dice.choice(names)] if names else None

    def ours(ds, name):
        series = ds.select(name).to_polars()[name]
        return series.to_physical().to_list() if series.dtype.is_temporal() else series.to_list()

    def twin(rows, name):
        kind = rows.kinds[name]
        return rows.columns[name] if kind.family in ("date", "timestamp", "duration") else rows.shown(name)


def polars_holds(kind):
    if kind.family in ("list", "struct"):
        return "view" not in kind.label and all(part.family in ("integer", "text", "bool") for part in kind.parts)
    if kind.family == "decimal":
        return kind.size < 256 and kind.scale >= 0
    return (
        kind.family in ("integer", "float", "bool", "text", "date", "timestamp", "duration", "null")
        and kind.spec
        not in (
            "float16",
            "date64",
            "duration[s]",
        )
        and kind.unit != "s"
        and (kind.zone or "/")[0] not in "+-"
    )


# ---- of a column ----


@answer("count")
class Count:
    draw = one
    ours = lambda ds, name: [ds[name].count(), ds[name].null_count, len(ds[name])]

    def twin(rows, name):
        count = len(rows.present(name))
        return [count, len(rows) - count, len(rows)]


@answer("sum")
class Sum:
    draw = one_of_numbers
    ours = lambda ds, name: ds[name].sum()

    def twin(rows, name):
        kind = rows.kinds[name]
        if not (kind.is_number or kind.plain.family == "duration"):
            return unsupported()
        return total(kind, rows.present(name))


@answer("mean")
class Mean:
    draw = one_of_numbers
    ours = lambda ds, name: ds[name].mean()
    twin = lambda rows, name: (
        mean(rows.kinds[name], rows.present(name)) if rows.kinds[name].is_number else unsupported()
    )


@answer("min")
class Min:
    draw = one
    ours = lambda ds, name: ds[name].min()
    twin = lambda rows, name: extreme_of(rows, name, False)


@answer("max")
class Max:
    draw = one
    ours = lambda ds, name: ds[name].max()
    twin = lambda rows, name: extreme_of(rows, name, True)


def extreme_of(rows, name, descends):
    kind = rows.kinds[name]
    if kind.family == "null":
        return None
    return extreme(kind, rows.present(name), descends) if kind.has_order else unsupported()


@answer("var")
class Var:
    draw = one_of_numbers
    ours = lambda ds, name: ds[name].var()
    twin = lambda rows, name: (
        variance(rows.kinds[name], rows.present(name)) if rows.kinds[name].is_number else unsupported()
    )


@answer("std")
class Std:
    draw = one_of_numbers
    ours = lambda ds, name: ds[name].std()
    twin = lambda rows, name: (
        deviation(rows.kinds[name], rows.present(name)) if rows.kinds[name].is_number else unsupported()
    )


@answer("quantile")
class Quantile:
    draw = lambda dice, rows: [
        *one(dice, rows),
        dice.choice([0.0, 0.25, 0.5, 0.9, 1.0, dice.random()]),
        dice.random() < 0.2,
    ]
    ours = lambda ds, name, share, approximate: (ds[name].approx_quantile if approximate else ds[name].quantile)(share)

    def twin(rows, name, share, _):
        kind = rows.kinds[name]
        return quantile(kind, rows.present(name), share) if kind.is_number else unsupported()


@answer("any, all")
class AnyAll:
    draw = lambda dice, rows: next(([name] for name, kind in rows.kinds.items() if kind.family == "bool"), None)
    ours = lambda ds, name: [ds[name].any(), ds[name].all()]
    twin = lambda rows, name: [any(rows.present(name)), all(rows.present(name))]


@answer("n_unique")
class NUnique:
    draw = one
    ours = lambda ds, name: ds[name].n_unique()

    def twin(rows, name):
        kind = rows.kinds[name]
        return len({distinct(kind, value) for value in rows.columns[name]}) if kind.is_key else unsupported()


@answer("unique")
class Unique:
    draw = one
    ours = lambda ds, name: ds[name].unique().to_pylist()

    def twin(rows, name):
        kind = rows.kinds[name]
        if not kind.is_key:
            return unsupported()
        return [loose(shown(kind, rows.columns[name][group[0]])) for group in grouped(rows, [name])]


def loose(value):
    """A zero of either sign."""
    return Near(0.0) if isinstance(value, float) and value == 0 else value


@answer("value_counts")
class ValueCounts:
    draw = one
    ours = lambda ds, name: [list(row.values()) for row in ds[name].value_counts()]

    def twin(rows, name):
        kind = rows.kinds[name]
        if not kind.is_key:
            return unsupported()
        groups = sorted(grouped(rows, [name]), key=len, reverse=True)
        return [[loose(shown(kind, rows.columns[name][group[0]])), len(group)] for group in groups]


@answer("sorted column")
class ColumnSort:
    draw = lambda dice, rows: [*one(dice, rows), dice.random() < 0.5]
    ours = lambda ds, name, descends: ds[name].sort(descending=descends).to_pylist()

    def twin(rows, name, descends):
        kind = rows.kinds[name]
        if kind.family == "null":
            return rows.shown(name)
        return rows.take(sorted_numbers(rows, [[name, descends]])).shown(name) if kind.has_order else unsupported()


@answer("drop_nulls")
class DropNulls:
    draw = one
    ours = lambda ds, name: ds[name].drop_nulls().to_pylist()
    twin = lambda rows, name: [shown(rows.kinds[name], value) for value in rows.present(name)]


@answer("map_reduce")
class MapReduce:
    draw = one
    ours = lambda ds, name: ds[name].map_reduce(lambda it: it.tolist(), lambda a, b: a + b)

    def twin(rows, name):
        kind = rows.kinds[name]
        if kind.family not in ("integer", "float") or len(rows.present(name)) < len(rows) or not len(rows):
            return Any()
        return rows.columns[name]


# ---- of rows ----


@answer("filter")
class Filter:
    def draw(dice, rows):
        node = conditions.condition(rows, dice)
        return [names_in(node), node]

    def ours(ds, names, node):
        return len(ds.filter(conditions.predicate(node)))

    def twin(rows, names, node):
        found = conditions.chosen(rows, node)
        return found if isinstance(found, Refused | Any) else len(found)


@answer("filter and look")
class FilterRows:
    draw = Filter.draw

    def ours(ds, names, node):
        found = ds.filter(conditions.predicate(node))
        return [found[n] for n in range(min(len(found), 9))] + found.to_pylist()

    def twin(rows, names, node):
        found = conditions.chosen(rows, node)
        if isinstance(found, Refused | Any):
            return found
        dicts = rows.take(found).dicts()
        return dicts[:9] + dicts


@answer("filter at a bound")
class FilterAtBound:
    """With each comparison, and where it does not hold, at a bound of some rows: there whole blocks are left out."""

    def draw(dice, rows):
        names = [it for it, kind in rows.kinds.items() if kind.plain.family in conditions.PLAINLY_ORDERED]
        names = [it for it in names if rows.present(it) and not rows.kinds[it].has_ranks]
        if not names:
            return None
        name, start = dice.choice(names), dice.randrange(len(rows))
        some = [value for value in rows.columns[name][start : start + 4] if value is not None]
        value = conditions.literal_of(rows.kinds[name].plain, dice.choice([min, max])(some), dice) if some else None
        return [[name], name, value] if value else None

    def ours(ds, names, name, value):
        compared = [conditions.predicate(node) for node in comparisons(name, value)]
        return [[len(ds.filter(it)), len(ds.filter(~it))] for it in compared]

    def twin(rows, names, name, value):
        answers = []
        for node in comparisons(name, value):
            found = [conditions.chosen(rows, it) for it in (node, ["not", node])]
            if odd := next((it for it in found if isinstance(it, Refused | Any)), None):
                return odd
            answers.append([len(it) for it in found])
        return answers


def comparisons(name, value):
    return [["compare", name, sign, value] for sign in conditions.OPERATORS]


def names_in(node):
    """The names of the columns of a condition or an expression, each once."""
    found = []

    def look(node):
        if not isinstance(node, list) or not node:
            return
        if node[0] in ("compare", "is_in", "between", "null", "not_null", "text", "col", "part"):
            found.append(node[1])
        elif node[0] != "value":
            [look(part) for part in node]

    look(node)
    return list(dict.fromkeys(found))


def short_form(node):
    """What a simple condition is, for counting."""
    match node:
        case ["text", _, how, _]:
            return how
        case ["null" | "not_null", _]:
            return "is_null"
        case [how, *_]:
            return how


@answer("between, sorted")
class Between:
    """In a table that is sorted: asked of those only."""

    draw = lambda dice, rows: None

    ours = lambda ds, name, low, high: ds.between(conditions.value_of(low), conditions.value_of(high)).to_pylist()

    def twin(rows, name, low, high):
        found = conditions.chosen(rows, ["between", name, low, high])
        return rows.take(found).dicts()


@answer("describe")
class Describe:
    draw = lambda dice, rows: [sorted(rows.kinds)] if dice.random() < 0.3 else None

    def ours(ds, names):
        return {name: ds.describe()[name].to_pylist()[:2] for name in names}

    def twin(rows, names):
        counts = {name: [len(rows.present(name)), len(rows) - len(rows.present(name))] for name in names}
        return {name: [float(n) if rows.kinds[name].is_number else str(n) for n in counts[name]] for name in names}


@answer("loader")
class Batching:
    """Rows in batches of arrays."""

    def draw(dice, rows):
        names = [name for name, kind in rows.kinds.items() if kind.family in ("integer", "float")]
        names = [name for name in names if None not in rows.columns[name]]
        return [names, dice.randint(1, 7)] if names else None

    def ours(ds, names, size):
        loader = ds.loader(size, columns=names)
        found = {name: [] for name in names}
        for batch in loader:
            for name in names:
                found[name].extend(batch[name].tolist())
        return found

    twin = lambda rows, names, size: {name: rows.columns[name] for name in names}
