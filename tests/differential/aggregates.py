"""Aggregates of groups, at once and kept up to date while a table grows."""

import os
import tempfile

import conditions
from answers import answer, loose, names_in
from conditions import Overflow
from kinds import is_null, shown
from twin import (
    Any,
    Perhaps,
    Refused,
    deviation,
    distinct,
    extreme,
    grouped,
    mean,
    number_kind,
    quantile,
    same,
    total,
    variance,
)

import arrowwood as aw

FUNCTIONS = ["sum", "mean", "median", "min", "max", "count", "n_unique", "first", "last", "var", "std"]


def supports(kind, function):
    if function in ("count", "first", "last"):
        return True
    if function in ("min", "max"):
        return kind.has_order
    if function == "n_unique":
        return kind.is_key
    return kind.is_number or function == "sum" and kind.plain.family == "duration"


def draw_functions(dice, rows, functions=FUNCTIONS, most=4):
    """Columns or expressions, each with a function for it."""
    found = []
    for number in range(dice.randint(1, most)):
        if dice.random() < 0.2 and (node := conditions.computed(rows, dice)):
            found.append(
                [f"x{number}", node, dice.choice([f for f in functions if f not in ("first", "last", "n_unique")])]
            )
            continue
        name = dice.choice(list(rows.kinds))
        kind = rows.kinds[name]
        can = [function for function in functions if supports(kind, function)]
        if can:
            found.append([f"x{number}", ["col", name], dice.choice(can)])
    return found


@answer("aggregate")
class Aggregate:
    def draw(dice, rows):
        keys = [name for name, kind in rows.kinds.items() if kind.is_key]
        by = dice.sample(keys, min(len(keys), dice.choice([0, 1, 1, 1, 2, 2, 3])))
        functions = draw_functions(dice, rows)
        where = conditions.condition(rows, dice, 1) if dice.random() < 0.25 else None
        return (
            [names_in([by and ["col", by[0]], *[node for _, node, _ in functions]]), by, functions, where]
            if functions
            else None
        )

    def ours(ds, names, by, functions, where):
        return asked(ds.aggregate, by, functions, where).to_pylist()

    def twin(rows, names, by, functions, where):
        return aggregated(rows, by, functions, where)


def asked(aggregate, by, functions, where, **others):
    columns = {
        name: (node[1] if node[0] == "col" else conditions.expression(node), function)
        for name, node, function in functions
    }
    where = None if where is None else conditions.predicate(where)
    return aggregate(by or None, where=where, **others, **columns)


def aggregated(rows, by, functions, where):
    """A row for each group; without columns to group by, one of all rows."""
    if where is not None:
        chosen = conditions.chosen(rows, where)
        if isinstance(chosen, Refused | Any):
            return chosen
        rows = rows.take(chosen)
    groups = grouped(rows, by) if by else [list(range(len(rows)))]
    try:
        columns = [(name, *values_of(rows, node), function) for name, node, function in functions]
    except Overflow:
        return Refused("InvalidArgument")
    found = []
    for group in groups:
        row = {name: loose(shown(rows.kinds[name], rows.columns[name][group[0]])) for name in by}
        for name, kind, values, function in columns:
            row[name] = of_group(kind, [values[n] for n in group], function)
        found.append(row)
    refused = [value for row in found for value in row.values() if isinstance(value, Refused)]
    if any(isinstance(value, Perhaps) for row in found for value in row.values()):
        return Perhaps(found)
    return refused[0] if refused else found


def values_of(rows, node):
    if node[0] == "col":
        return rows.kinds[node[1]], rows.columns[node[1]]
    made, _, values = conditions.evaluate(rows, node)
    return number_kind(made), values


def of_group(kind, values, function):
    some = [value for value in values if not is_null(kind, value)]
    match function:
        case "count":
            return len(some)
        case "sum":
            return group_sum(kind, some)
        case "mean":
            return mean(kind, some)
        case "median":
            return quantile(kind, some, 0.5)
        case "min" | "max":
            return extreme(kind, some, function == "max")
        case "n_unique":
            return len({distinct(kind, value) for value in values})
        case "first" | "last":
            return shown(kind, values[0 if function == "first" else -1]) if values else None
        case "var":
            return variance(kind, some)
    return deviation(kind, some)


def group_sum(kind, values):
    """As a column's, but that it has to fit a type of its own."""
    plain = kind.plain
    found = total(kind, values)
    if plain.family == "decimal":
        digits = 38 if plain.size < 256 else 76
        total_digits = sum(values)
        if abs(total_digits) >= 10**digits:
            return Refused("InvalidArgument")
        return found
    if plain.family in ("integer", "bool"):
        low, high = (0, 2**64) if plain.family == "integer" and plain.spec[0] == "u" else (-(2**63), 2**63)
        return found if low <= found < high else Refused("InvalidArgument")
    return found


@answer("incremental")
class Incremental:
    """Aggregations of a table that grows, after each commit."""

    FUNCTIONS = [function for function in FUNCTIONS if function not in ("median", "n_unique")]

    def draw(dice, rows):
        if dice.random() > 0.25 or not all(kind.can_grow for kind in rows.kinds.values()):
            return None
        keys = [name for name, kind in rows.kinds.items() if kind.is_key]
        by = dice.sample(keys, min(len(keys), dice.choice([0, 1, 1, 2])))
        functions = draw_functions(dice, rows, Incremental.FUNCTIONS)
        if not functions:
            return None
        where = conditions.condition(rows, dice, 1) if dice.random() < 0.3 else None
        cuts = sorted(dice.randint(0, len(rows)) for _ in range(dice.randint(1, 4)))
        return [names_in([by and ["col", by[0]], *[node for _, node, _ in functions]]), by, functions, where, cuts]

    def ours(ds, names, by, functions, where, cuts):
        found, start = [], 0
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            path = os.path.join(folder, "table")
            segment_rows = 7 if len(ds) < 1000 else 20_000
            with aw.writer(path, ds.schema, sync="never", segment_rows=segment_rows) as writer:
                kept = None
                for cut in cuts:
                    try:
                        writer.append(ds[start:cut])
                    except aw.Unsupported:
                        # Dictionaries with null entries.
                        return None
                    writer.commit()
                    start = cut
                    kept = kept or asked(lambda by, **own: aw.aggregation(path, by, **own), by, functions, where)
                    found.append(kept.refresh().to_pylist())
                    whole = asked(aw.open(path).aggregate, by, functions, where).to_pylist()
                    if repr(whole) != repr(found[-1]):
                        return ["refresh", found[-1], "aggregate", whole]
        return found

    def twin(rows, names, by, functions, where, cuts):
        return Grown([aggregated(rows.take(range(cut)), by, functions, where) for cut in cuts])


class Grown:
    """The aggregates after each commit; nothing if the table can't hold the rows."""

    def __init__(self, expected):
        self.expected = expected

    def accepts(self, found):
        refused = [it for it in self.expected if isinstance(it, Refused | Any | Perhaps)]
        if isinstance(found, Refused):
            return any(it.accepts(found) for it in refused)
        return found is None or bool(refused) or same(found, self.expected)

    def __repr__(self):
        return repr(self.expected)
