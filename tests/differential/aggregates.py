"""Questions about aggregates of groups: computed at once, or updated while a table grows."""

import os
import tempfile
from functools import partial

import conditions
from answers import answer, any_zero, names_in
from conditions import Overflow
from kinds import is_null, parse_kind, to_python
from reference import (
    AnyOf,
    OrRefused,
    Refused,
    column_extreme,
    column_sum,
    deviation,
    group_key,
    group_rows,
    is_same,
    mean,
    quantile,
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
    return kind.is_number or function == "sum" and kind.value_kind.family == "duration"


def draw_functions(rng, rows, functions=FUNCTIONS, max_count=4):
    """Draws columns and expressions, each with a function: a list of `[name of the result, node, function]`."""
    drawn = []
    for number in range(rng.randint(1, max_count)):
        if rng.random() < 0.2 and (node := conditions.random_expression(rows, rng)):
            possible = [function for function in functions if function not in ("first", "last", "n_unique")]
            drawn.append([f"x{number}", node, rng.choice(possible)])
            continue
        name = rng.choice(list(rows.kinds))
        kind = rows.kinds[name]
        possible = [function for function in functions if supports(kind, function)]
        if possible:
            drawn.append([f"x{number}", ["col", name], rng.choice(possible)])
    return drawn


def names_of_aggregates(by, functions):
    """Returns the names of the columns that are aggregated, and the first one that rows are grouped by."""
    return names_in([by and ["col", by[0]], *[node for _, node, _ in functions]])


@answer("aggregate")
class Aggregate:
    def draw(rng, rows):
        keys = [name for name, kind in rows.kinds.items() if kind.is_key]
        by = rng.sample(keys, min(len(keys), rng.choice([0, 1, 1, 1, 2, 2, 3])))
        functions = draw_functions(rng, rows)
        where = conditions.condition(rows, rng, 1) if rng.random() < 0.25 else None
        return [names_of_aggregates(by, functions), by, functions, where] if functions else None

    def run(dataset, names, by, functions, where):
        return call_aggregate(dataset.aggregate, by, functions, where).to_pylist()

    def expect(rows, names, by, functions, where):
        return expected_groups(rows, by, functions, where)


def call_aggregate(aggregate, by, functions, where):
    """Calls a method such as `Dataset.aggregate` with the arguments of a case."""
    columns = {
        name: (node[1] if node[0] == "col" else conditions.expression(node), function)
        for name, node, function in functions
    }
    where = None if where is None else conditions.predicate(where)
    return aggregate(by or None, where=where, **columns)


def expected_groups(rows, by, functions, where):
    """Expects a row for each group. Without columns to group by, all rows are one group."""
    if where is not None:
        numbers = conditions.matching_rows(rows, where)
        if isinstance(numbers, Refused | AnyOf):
            return numbers
        rows = rows.take(numbers)
    groups = group_rows(rows, by) if by else [list(range(len(rows)))]
    try:
        columns = [(name, *values_of(rows, node), function) for name, node, function in functions]
    except Overflow:
        return Refused("InvalidArgument")
    result = []
    for group in groups:
        row = {name: any_zero(to_python(rows.kinds[name], rows.columns[name][group[0]])) for name in by}
        for name, kind, values, function in columns:
            row[name] = aggregate_group(kind, [values[number] for number in group], function)
        result.append(row)
    refused = [value for row in result for value in row.values() if isinstance(value, Refused)]
    if any(isinstance(value, OrRefused) for row in result for value in row.values()):
        return OrRefused(result)
    return refused[0] if refused else result


def values_of(rows, node):
    if node[0] == "col":
        return rows.kinds[node[1]], rows.columns[node[1]]
    name, _, values = conditions.evaluate(rows, node)
    return parse_kind(name), values


def aggregate_group(kind, values, function):
    non_nulls = [value for value in values if not is_null(kind, value)]
    match function:
        case "count":
            return len(non_nulls)
        case "sum":
            return group_sum(kind, non_nulls)
        case "mean":
            return mean(kind, non_nulls)
        case "median":
            return quantile(kind, non_nulls, 0.5)
        case "min" | "max":
            return column_extreme(kind, non_nulls, function == "max")
        case "n_unique":
            return len({group_key(kind, value) for value in values})
        case "first" | "last":
            return to_python(kind, values[0 if function == "first" else -1]) if values else None
        case "var":
            return variance(kind, non_nulls)
    return deviation(kind, non_nulls)


def group_sum(kind, values):
    """Expects the sum of a group, which must fit its type, unlike the sum of a column."""
    value_kind = kind.value_kind
    result = column_sum(kind, values)
    if value_kind.family == "decimal":
        max_digits = 38 if value_kind.size < 256 else 76
        return result if abs(sum(values)) < 10**max_digits else Refused("InvalidArgument")
    if value_kind.family in ("integer", "bool"):
        is_unsigned = value_kind.family == "integer" and value_kind.spec[0] == "u"
        low, high = (0, 2**64) if is_unsigned else (-(2**63), 2**63)
        return result if low <= result < high else Refused("InvalidArgument")
    return result


@answer("incremental")
class Incremental:
    """Refreshes an aggregation of a growing table after each commit."""

    FUNCTIONS = [function for function in FUNCTIONS if function not in ("median", "n_unique")]

    def draw(rng, rows):
        if rng.random() > 0.25 or not all(kind.can_grow for kind in rows.kinds.values()):
            return None
        keys = [name for name, kind in rows.kinds.items() if kind.is_key]
        by = rng.sample(keys, min(len(keys), rng.choice([0, 1, 1, 2])))
        functions = draw_functions(rng, rows, Incremental.FUNCTIONS)
        if not functions:
            return None
        where = conditions.condition(rows, rng, 1) if rng.random() < 0.3 else None
        cuts = sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(1, 4)))
        return [names_of_aggregates(by, functions), by, functions, where, cuts]

    def run(dataset, names, by, functions, where, cuts):
        result, start = [], 0
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
            path = os.path.join(folder, "table")
            segment_rows = 7 if len(dataset) < 1000 else 20_000
            with aw.writer(path, dataset.schema, sync="never", segment_rows=segment_rows) as writer:
                aggregation = None
                for cut in cuts:
                    try:
                        writer.append(dataset[start:cut])
                    except aw.Unsupported:
                        # Tables don't support dictionaries with null entries.
                        return None
                    writer.commit()
                    start = cut
                    aggregation = aggregation or call_aggregate(partial(aw.aggregation, path), by, functions, where)
                    result.append(aggregation.refresh().to_pylist())
                    at_once = call_aggregate(aw.open(path).aggregate, by, functions, where).to_pylist()
                    if repr(at_once) != repr(result[-1]):
                        return ["refresh", result[-1], "aggregate", at_once]
        return result

    def expect(rows, names, by, functions, where, cuts):
        return ExpectedRefreshes([expected_groups(rows.take(range(cut)), by, functions, where) for cut in cuts])


class ExpectedRefreshes:
    """Expects the aggregates after each commit, or None if the table can't hold the rows."""

    def __init__(self, expected):
        self.expected = expected

    def accepts(self, actual):
        may_refuse = [answer for answer in self.expected if isinstance(answer, Refused | AnyOf | OrRefused)]
        if isinstance(actual, Refused):
            return any(answer.accepts(actual) for answer in may_refuse)
        return actual is None or bool(may_refuse) or is_same(actual, self.expected)

    def __repr__(self):
        return repr(self.expected)
