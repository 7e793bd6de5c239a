"""Conditions and expressions: drawn at random, converted to Arrowwood's, and evaluated by the reference.

In a case, a condition is a list such as `["compare", "c0", "<", ["int8", 7]]` or `["and", …, …]`, and an expression is
one such as `["+", ["col", "c0"], ["value", "int64", 3]]`. A literal is the name of a type and a value of that type.
"""

import math
import operator
import re
from fractions import Fraction

import numpy as np
from kinds import DAY, UNITS, date_units_per_day, is_null, leaf_kind, random_value, to_python, zone_of
from reference import AnyOf, Refused, exact_number, group_key, seconds_of, sort_key

import arrowwood as aw

OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Patterns that mean the same to Python and to the regex crate.
PATTERNS = [
    "a",
    "A|B",
    "^I",
    "[A-I]+B?",
    "(?i)ib",
    r"\bI",
    "ó.",
    "^$",
    "a.b",
    r"a\.b",
    "x{3}",
    "(ab)+",
    r"\s",
    ".",
    "^$|a",
    "[^a-z]",
]
# Days and microseconds that Python's datetime can represent, with some distance from its limits.
PYTHON_DATES = (-700_000, 2_900_000)
PYTHON_MICROS = range(-6 * 10**16 + 1, 2 * 10**17)
PARTS = ["year", "month", "day", "weekday", "hour", "minute", "second"]

# Families whose stored values Python orders as Arrowwood does.
PYTHON_ORDERED = ("integer", "decimal", "text", "binary", "date", "time", "timestamp", "duration")


class Overflow(Exception):
    """A computed value does not fit an integer of 64 bits."""


# ---- random conditions ----


def literal(kind, values, rng):
    """Draws a literal to compare a column with: a value of the column, one near it, or one of another type."""
    if kind.has_ranks:
        # A value that is no category of an ordered dictionary is refused.
        categories = [value for value in values if value is not None]
        return [kind.value_kind.spec, rng.choice(categories)] if categories else None
    kind = kind.value_kind
    value = rng.choice(values) if values and rng.random() < 0.7 else random_value(kind, rng)
    if values and kind.family in PYTHON_ORDERED and rng.random() < 0.35:
        # Comparisons with the minimum or maximum of a block decide whether the block is skipped.
        value = rng.choice([min, max])(values)
    if value is None:
        value = random_value(kind, rng)
    if kind.family in ("integer", "float", "decimal") and rng.random() < 0.4:
        return near_number(kind, value, rng)
    return literal_of(kind, value, rng)


def literal_of(kind, value, rng):
    """Returns a literal for a value of a column, or for one near it. Returns None if Python has no object for it."""
    if kind.family == "decimal" and abs(exact_number(kind, value)) >= 10**76:
        # Python's decimals have more digits than Arrow's.
        return ["int64", 0]
    if kind.family == "timestamp":
        return time_literal(kind, value, rng)
    if kind.family == "date" and rng.random() < 0.9:
        return ["date32", clamp(value // date_units_per_day(kind), -(2**31), 2**31 - 1)]
    is_far = kind.spec == "date64" and abs(value) > date_units_per_day(kind) << 31
    if kind.family in ("date", "time", "duration") and (is_far or rng.random() < 0.15):
        return ["int64", value]
    if kind.family == "float" and not math.isfinite(value):
        return ["float64", value]
    if kind.family == "time" and not isinstance(to_python(kind, value), np.timedelta64 | type(to_python(kind, 0))):
        return None
    if kind.family == "time" and not 0 <= value < DAY * UNITS[kind.unit]:
        return ["int64", value]
    return [kind.spec, value]


def clamp(number, low, high):
    return max(min(number, high), low)


def near_number(kind, value, rng):
    """Returns a literal of another type of numbers that is near a value."""
    number = exact_number(kind, value)
    if not isinstance(number, Fraction) or abs(number) > 10**30:
        number = Fraction(rng.randint(-9, 99))
    match rng.randrange(4):
        case 0:
            return ["int64", clamp(math.floor(number) + rng.choice([0, 0, 1, -1]), -(2**63), 2**63 - 1)]
        case 1:
            return ["float64", float(number) + rng.choice([0.0, 0.0, 0.5, 0.1, -0.25])]
        case 2:
            return ["decimal128(38, 4)", math.floor(number * 10**4) + rng.choice([0, 0, 1, 5000])]
        case _:
            return ["float64", rng.choice([math.nan, math.inf, -math.inf, -0.0, 2.0**63, 1e300, 5e-324])]


def time_literal(kind, value, rng):
    if rng.random() < 0.1:
        return ["int64", value]
    zone = f", {rng.choice(['UTC', kind.zone])}" if kind.zone else ""
    if not zone and rng.random() < 0.2:
        return ["date32", clamp(math.floor(seconds_of(kind, value) / DAY), *PYTHON_DATES)]
    micros = math.floor(seconds_of(kind, value) * 10**6)
    if micros not in PYTHON_MICROS:
        micros = rng.randrange(10**15)
    if rng.random() < 0.3:
        return [f"timestamp[s{zone}]", micros // 10**6]
    return [f"timestamp[us{zone}]", micros + rng.choice([0, 0, 0, 1, -1])]


def simple_condition(rows, rng):
    """Draws a condition on one column, or a comparison of two."""
    name = rng.choice(list(rows.kinds))
    kind = rows.kinds[name]
    if not kind.has_order or rng.random() < 0.08:
        return [rng.choice(["null", "not_null"]), name]
    values = [value for value in rows.columns[name] if value is not None]
    if kind.has_ranks and not values:
        return ["not_null", name]
    drawn = rng.random()
    if kind.value_kind.family == "text" and drawn < 0.35:
        return text_condition(name, values, rng)
    if drawn < 0.45:
        value = literal(kind, values, rng)
        return ["compare", name, rng.choice(list(OPERATORS)), value]
    if drawn < 0.6:
        count = rng.choice([0, 1, 2, 3, 5, 20])
        return ["is_in", name, [literal(kind, values, rng) for _ in range(count)]]
    if drawn < 0.75:
        return ["between", name, literal(kind, values, rng), literal(kind, values, rng)]
    return computed_condition(rows, name, rng)


def text_condition(name, values, rng):
    how = rng.choice(["contains", "matches", "starts_with", "ends_with"])
    if how == "matches":
        return ["text", name, how, rng.choice(PATTERNS)]
    text = rng.choice(values) if values else "a"
    start = rng.randrange(len(text) + 1)
    return ["text", name, how, rng.choice([text, text[start:], text[:start], text[start : start + 3], "a", "."])]


def computed_condition(rows, name, rng):
    """Draws a comparison of two columns or expressions, or of an expression and a literal."""
    numbers = [other for other, kind in rows.kinds.items() if can_compute(kind)]
    comparable_names = [other for other, kind in rows.kinds.items() if can_compare(kind, rows.kinds[name])]
    if comparable_names and (not numbers or rng.random() < 0.3):
        return ["pair", ["col", name], rng.choice(list(OPERATORS)), ["col", rng.choice(comparable_names)]]
    expression = random_expression(rows, rng)
    if expression is None:
        return ["not_null", name]
    if rng.random() < 0.3:
        other = random_expression(rows, rng) or expression
        return ["pair", expression, rng.choice(list(OPERATORS)), other]
    value = value_of_expression(rows, expression, rng) if rng.random() < 0.6 else None
    if value is None and rng.random() < 0.6:
        value = ["int64", rng.randint(-9, 99)]
    elif value is None:
        value = ["float64", rng.choice([0.5, 2.0, -1.25, math.inf, 1e18])]
    return ["computed", expression, rng.choice(list(OPERATORS)), value]


def value_of_expression(rows, expression, rng):
    """Returns a literal with a value that an expression has in some row, or None if it has none."""
    try:
        kind, _, values = evaluate(rows, expression)
    except Overflow:
        return None
    values = [value for value in values if value is not None]
    return ["int64" if kind == "int64" else "float64", rng.choice(values)] if values else None


def can_compute(kind):
    return kind.value_kind.family in ("integer", "float") and kind.family != "runs" and not kind.has_ranks


def can_compare(left, right):
    """Returns whether columns of these types can be compared with each other."""
    one, other = left.value_kind, right.value_kind
    if not (left.has_order and right.has_order) or left.has_ranks or right.has_ranks:
        return False
    if one.family in ("text", "binary"):
        return one.family == other.family
    if one.family in ("integer", "float"):
        return other.family in ("integer", "float") and (one.spec == "uint64") == (other.spec == "uint64")
    if one.family == "decimal":
        return one.spec == other.spec and one.size <= 64
    return one.spec == other.spec


def random_expression(rows, rng, depth=2):
    """Draws an expression of columns of numbers and times. Returns None if there are no such columns."""
    numbers = [name for name, kind in rows.kinds.items() if can_compute(kind)]
    floats = [name for name in numbers if rows.kinds[name].value_kind.family == "float"]
    if floats and rng.random() < 0.5:
        numbers = floats
    times = [name for name, kind in rows.kinds.items() if kind.value_kind.family in ("date", "timestamp", "time")]
    times = [name for name in times if "/" not in (rows.kinds[name].value_kind.zone or "")]
    others = [name for name, kind in rows.kinds.items() if kind.value_kind.family in ("decimal", "bool")]
    drawn = rng.random()
    if times and drawn < 0.2:
        return time_part(rows, rng.choice(times), rng)
    if (others or times) and drawn < 0.35:
        name = rng.choice([*others, *times])
        can_be_float = rows.kinds[name].value_kind.family != "decimal" or is_exact_quotient(rows, name)
        return ["cast", ["col", name], rng.choice(["int64", "float64", "float32"]) if can_be_float else "int64"]
    if not numbers:
        return None
    if depth == 0 or drawn < 0.45:
        return ["col", rng.choice(numbers)]
    inner = lambda: random_expression(rows, rng, depth - 1) or ["col", rng.choice(numbers)]
    if drawn < 0.52:
        return ["neg", inner()]
    if drawn < 0.62:
        return ["cast", inner(), rng.choice(["int64", "float64", "float32"])]
    sign = rng.choice("++--**///%")
    if rng.random() < 0.45:
        value = ["value", "int64", rng.choice([0, 1, -1, 2, 3, 7, -7, 100])]
        if rng.random() < 0.4:
            value = ["value", "float64", rng.choice([0.5, 0.1, 2.5, -3.0, 0.0, 1e10])]
        return [sign, inner(), value] if rng.random() < 0.7 else [sign, value, inner()]
    return [sign, inner(), inner()]


def is_exact_quotient(rows, name):
    """Returns whether decimals are quotients of two exact floats. Other decimals may be rounded twice."""
    values = (value for value in rows.columns[name] if value is not None)
    return 0 <= rows.kinds[name].value_kind.scale <= 22 and all(abs(value) <= 2**53 for value in values)


def time_part(rows, name, rng):
    kind = rows.kinds[name].value_kind
    if kind.family == "date":
        return ["part", name, rng.choice(PARTS[:4])]
    if kind.family == "time":
        return ["part", name, rng.choice(PARTS[4:])]
    return ["part", name, rng.choice(PARTS)]


def condition(rows, rng, depth=2):
    """Draws a condition."""
    drawn = rng.random()
    if depth == 0 or drawn < 0.45:
        return simple_condition(rows, rng)
    if drawn < 0.7:
        return ["not", condition(rows, rng, depth - 1)]
    return [rng.choice(["and", "or"]), condition(rows, rng, depth - 1), condition(rows, rng, depth - 1)]


# ---- as Arrowwood's expressions ----


def value_of(literal):
    spec, value = literal
    return to_python(leaf_kind(spec), value)


def predicate(node, col=aw.col):
    """Returns a condition as a predicate of Arrowwood. `col` returns a column by its name."""
    match node:
        case ["compare", name, sign, literal]:
            return OPERATORS[sign](col(name), value_of(literal))
        case ["is_in", name, literals]:
            return col(name).is_in([value_of(literal) for literal in literals])
        case ["between", name, low, high]:
            return col(name).is_between(value_of(low), value_of(high))
        case ["null", name]:
            return col(name).is_null()
        case ["not_null", name]:
            return col(name).is_not_null()
        case ["text", name, "matches", pattern]:
            return aw.col(name).str.contains(pattern)
        case ["text", name, "contains", text]:
            return aw.col(name).str.contains(text, literal=True)
        case ["text", name, how, text]:
            return getattr(aw.col(name).str, how)(text)
        case ["computed", node, sign, literal]:
            return OPERATORS[sign](expression(node), value_of(literal))
        case ["pair", a, sign, b]:
            return OPERATORS[sign](expression(a), expression(b))
        case ["not", a]:
            return ~predicate(a, col)
        case ["and", a, b]:
            return predicate(a, col) & predicate(b, col)
        case ["or", a, b]:
            return predicate(a, col) | predicate(b, col)
    raise ValueError(node)


ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod}


def expression(node, col=aw.col):
    match node:
        case ["col", name]:
            return col(name)
        case ["value", spec, value]:
            return value_of([spec, value])
        case ["neg", a]:
            return -expression(a, col)
        case ["cast", a, name]:
            return expression(a, col).cast(name)
        case ["part", name, part]:
            return getattr(col(name).dt, part)()
        case [sign, a, b]:
            return ARITHMETIC[sign](expression(a, col), expression(b, col))
    raise ValueError(node)


# ---- evaluated by the reference ----


def comparable(kind, value, literal):
    """Returns a value and a literal in a form that Python compares: exact numbers, seconds, bytes."""
    spec, other = literal
    if kind.has_ranks:
        return sort_key(kind, value), sort_key(kind, other)
    kind, literal_kind = kind.value_kind, leaf_kind(spec)
    if kind.family in ("integer", "float", "decimal"):
        if kind.family == "decimal" and literal_kind.family == "float" and math.isfinite(other) and other != int(other):
            # A decimal is compared with the decimal digits that a float prints.
            return exact_number(kind, value), Fraction(repr(other))
        return exact_number(kind, value), exact_number(literal_kind, other)
    if kind.family in ("date", "time", "timestamp", "duration"):
        if literal_kind.family == "integer":
            return value, other
        return seconds_of(kind, value), seconds_of(literal_kind, other)
    return sort_key(kind, value), sort_key(kind, other)


def text_matcher(how, pattern):
    """Returns a function that tells whether a text matches."""
    if how == "matches":
        # `$` matches before a final newline in Python, and only at the end in the regex crate.
        regex = re.compile(pattern.replace("$", r"\Z"))
        return lambda text: regex.search(text) is not None
    return {
        "contains": lambda text: pattern in text,
        "starts_with": lambda text: text.startswith(pattern),
        "ends_with": lambda text: text.endswith(pattern),
    }[how]


def evaluate_condition(rows, node):
    """Returns True, False or None for each row. Raises Overflow if a computed value does not fit."""
    match node:
        case ["null" | "not_null" as how, name]:
            kind = rows.kinds[name]
            return [is_null(kind, value) == (how == "null") for value in rows.columns[name]]
        case ["compare", name, sign, literal]:
            return map_column(rows, name, lambda kind, value: OPERATORS[sign](*comparable(kind, value, literal)))
        case ["is_in", name, literals]:
            is_equal = lambda kind, value, literal: operator.eq(*comparable(kind, value, literal))
            return map_column(rows, name, lambda kind, value: any(is_equal(kind, value, it) for it in literals))
        case ["between", name, low, high]:
            return both(
                evaluate_condition(rows, ["compare", name, ">=", low]),
                evaluate_condition(rows, ["compare", name, "<=", high]),
            )
        case ["text", name, how, pattern]:
            holds = text_matcher(how, pattern)
            return map_column(rows, name, lambda kind, value: holds(value))
        case ["computed", ["col", name], sign, literal]:
            return evaluate_condition(rows, ["compare", name, sign, literal])
        case ["computed", expression, sign, [spec, other]]:
            _, _, values = evaluate(rows, expression)
            return compare_columns(values, sign, [exact_number(leaf_kind(spec), other)] * len(values))
        case ["pair", ["col", a], sign, ["col", b]]:
            return compare_named_columns(rows, a, sign, b)
        case ["pair", a, sign, b]:
            return compare_columns(evaluate(rows, a)[2], sign, evaluate(rows, b)[2])
        case ["not", a]:
            return negate(evaluate_condition(rows, a))
        case ["and", a, b]:
            return both(evaluate_condition(rows, a), evaluate_condition(rows, b))
        case ["or", a, b]:
            return negate(both(negate(evaluate_condition(rows, a)), negate(evaluate_condition(rows, b))))
    raise ValueError(node)


def negate(column):
    return [None if is_true is None else not is_true for is_true in column]


def both(left, right):
    """Combines two columns by the `and` of three-valued logic."""
    column = []
    for pair in zip(left, right):
        if False in pair:
            column.append(False)
        else:
            column.append(None if None in pair else True)
    return column


def as_exact(value):
    return Fraction(value) if isinstance(value, int) or math.isfinite(value) else value


def compare_columns(left, sign, right):
    """Compares numbers exactly. Nulls make null."""
    column = []
    for a, b in zip(left, right):
        column.append(None if a is None or b is None else OPERATORS[sign](as_exact(a), as_exact(b)))
    return column


def map_column(rows, name, holds):
    """Applies `holds` to each value of a column, once for equal values. Nulls remain null."""
    kind = rows.kinds[name]
    results = {}
    column = []
    for value in rows.columns[name]:
        if value is None:
            column.append(None)
            continue
        key = (type(value), group_key(kind, value))
        if key not in results:
            results[key] = holds(kind, value)
        column.append(results[key])
    return column


def compare_named_columns(rows, a, sign, b):
    left_kind, right_kind = rows.kinds[a].value_kind, rows.kinds[b].value_kind
    if left_kind.spec != right_kind.spec and left_kind.is_number:
        # Numbers of different types are computed as int64, which raises Overflow for larger ones.
        for name in (a, b):
            evaluate(rows, ["col", name])
    column = []
    for left, right in zip(rows.columns[a], rows.columns[b]):
        if left is None or right is None:
            column.append(None)
        else:
            column.append(OPERATORS[sign](comparison_key(left_kind, left), comparison_key(right_kind, right)))
    return column


def comparison_key(kind, value):
    if kind.family in ("text", "binary"):
        return sort_key(kind, value)
    if kind.is_number and kind.family != "bool":
        return exact_number(kind, value)
    return value


def matching_rows(rows, node):
    """Returns the numbers of the rows for which a condition is true, or how it is refused."""
    try:
        return [number for number, is_true in enumerate(evaluate_condition(rows, node)) if is_true]
    except Overflow:
        # The overflowing part is not computed for rows that another part of the condition decides.
        return AnyOf() if "and" in str(node) or "or" in str(node) else Refused("InvalidArgument")


# ---- expressions ----

INT64 = range(-(2**63), 2**63)


def check_int64(value):
    if value not in INT64:
        raise Overflow
    return value


def round_to_float32(value):
    with np.errstate(all="ignore"):
        return float(np.float32(value))


def evaluate(rows, node):
    """Returns the type of an expression's numbers, their width, and its values.

    Beside a float32, an int64 makes a float32 if its width is "narrow" or "value" (a literal), and a float64 if "wide".
    """
    match node:
        case ["col", name]:
            kind, values = rows.kinds[name].value_kind, rows.columns[name]
            if kind.family == "integer":
                return (
                    "int64",
                    "narrow" if kind.size <= 16 else "wide",
                    [it if it is None else check_int64(it) for it in values],
                )
            return ("float64" if kind.size == 64 else "float32"), "wide", values
        case ["value", spec, value]:
            return spec, "value", [value] * len(rows)
        case ["neg", a]:
            return evaluate(rows, ["*", a, ["value", "int64", -1]])
        case ["cast", a, to]:
            return to, "wide", cast(rows, a, to)
        case ["part", name, part]:
            kind = rows.kinds[name].value_kind
            width = "wide" if part == "year" else "narrow"
            return "int64", width, [it if it is None else time_part_of(kind, it, part) for it in rows.columns[name]]
        case [sign, a, b]:
            return arithmetic(sign, evaluate(rows, a), evaluate(rows, b))
    raise ValueError(node)


def cast(rows, node, to):
    if node[0] == "col" and rows.kinds[node[1]].value_kind.family not in ("integer", "float"):
        kind, values = rows.kinds[node[1]].value_kind, rows.columns[node[1]]
        if kind.family == "decimal":
            values = [it if it is None else exact_number(kind, it) for it in values]
        elif kind.family == "bool":
            values = [it if it is None else int(it) for it in values]
    elif node[0] == "col" and to != "int64":
        # Values of uint64 may exceed int64 here.
        values = rows.columns[node[1]]
    else:
        values = evaluate(rows, node)[2]
    return [it if it is None else cast_one(it, to) for it in values]


def cast_one(value, to):
    if to == "int64":
        if isinstance(value, float) and not math.isfinite(value):
            raise Overflow
        return check_int64(math.trunc(value))
    if to == "float64":
        return float(value)
    # Decimals are rounded to float64 first, and integers directly to float32.
    return round_to_float32(float(value) if isinstance(value, Fraction) else value)


def arithmetic(sign, left, right):
    """Applies an operator to two results of `evaluate`, and returns a result in the same form."""
    left_kind, left_width, left_values = left
    right_kind, right_width, right_values = right
    kinds = {left_kind, right_kind}
    if kinds == {"int64"}:
        kind = "float64" if sign == "/" else "int64"
    elif (
        kinds == {"float32"}
        or left_kind == "float32"
        and right_width != "wide"
        or right_kind == "float32"
        and left_width != "wide"
    ):
        kind = "float32"
    else:
        kind = "float64"
    compute = compute_integer if kind == "int64" else compute_float
    values = []
    for a, b in zip(left_values, right_values):
        values.append(None if a is None or b is None else compute(sign, a, b, kind))
    return kind, width_of_result(kind, left_width, right_width), values


def width_of_result(kind, left, right):
    """Returns the width of a computed number, as documented at `evaluate`."""
    if left == "value":
        width = right
    elif right == "value":
        width = left
    else:
        width = "narrow" if left == right == "narrow" else "wide"
    return "wide" if kind != "int64" and width == "narrow" else width


def compute_integer(sign, a, b, _kind):
    if sign == "%":
        return None if b == 0 else a % b
    return check_int64(ARITHMETIC[sign](a, b))


def compute_float(sign, a, b, kind):
    float_type = np.float32 if kind == "float32" else np.float64
    with np.errstate(all="ignore"):
        a, b = float_type(a), float_type(b)
        # The remainder is computed as Polars does, in floats of this width.
        result = a - b * np.floor(a / b) if sign == "%" else ARITHMETIC[sign](a, b)
    return float(result)


def time_part_of(kind, value, part):
    """Returns a part of a time whose zone has a constant offset. Returns None if the local time overflows."""
    seconds = math.floor(seconds_of(kind, value))
    if kind.zone:
        seconds += int(zone_of(kind.zone).utcoffset(None).total_seconds())
        if seconds not in INT64:
            return None
    clock = seconds % DAY
    match part:
        case "hour":
            return clock // 3600
        case "minute":
            return clock // 60 % 60
        case "second":
            return clock % 60
        case "weekday":
            return (seconds // DAY + 3) % 7 + 1
        case _:
            return date_part(seconds // DAY, part)


def date_part(days, part):
    days = np.datetime64(days, "D")
    year = int(days.astype("M8[Y]").astype("i8")) + 1970
    if not -262_143 <= year <= 262_142:
        # Arrowwood's calendar ends there.
        return None
    if part == "year":
        return year
    if part == "month":
        return int(days.astype("M8[M]").astype("i8")) % 12 + 1
    return int((days - days.astype("M8[M]").astype("M8[D]")).astype("i8")) + 1
