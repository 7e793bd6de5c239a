"""Conditions on rows and computed values as JSON: drawn, made of Arrowwood's expressions, and known by the twin.

A condition is a list such as `["compare", "c0", "<", ["int8", 7]]` or `["and", …, …]`, an expression one such as
`["+", ["col", "c0"], ["value", "int64", 3]]`. A literal is the name of a type and a value of it.
"""

import math
import operator
import re
from fractions import Fraction

import numpy as np
from kinds import UNITS, is_null, kind_of, random_value, shown, zone_of
from twin import Any, Refused, distinct, exact, instant, order

import arrowwood as aw

OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# What they find is the same in Python's syntax and in that of Rust's crate.
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
PARTS = ["year", "month", "day", "weekday", "hour", "minute", "second"]


# Whose values Python orders likewise.
PLAINLY_ORDERED = ("integer", "decimal", "text", "binary", "date", "time", "timestamp", "duration")


class Overflow(Exception):
    """A value that does not fit an integer of 64 bits."""


# ---- draw ----


def literal(kind, values, dice):
    """A value to compare a column with: one of its own, one near them, or one of another type."""
    if kind.has_ranks:
        # What is none of the categories is refused.
        known = [value for value in values if value is not None]
        return [kind.plain.spec, dice.choice(known)] if known else None
    kind = kind.plain
    own = dice.choice(values) if values and dice.random() < 0.7 else random_value(kind, dice)
    if values and kind.family in PLAINLY_ORDERED and dice.random() < 0.35:
        # Those at which blocks of rows are left out.
        own = dice.choice([min, max])(values)
    if own is None:
        own = random_value(kind, dice)
    if kind.family in ("integer", "float", "decimal") and dice.random() < 0.4:
        return other_number(kind, own, dice)
    return literal_of(kind, own, dice)


def literal_of(kind, own, dice):
    """A value of a column, or one near it; None if there is none of it."""
    if kind.family == "decimal" and abs(exact(kind, own)) >= 10**76:
        # Python's decimals have more digits than Arrow's.
        return ["int64", 0]
    if kind.family == "timestamp":
        return time_literal(kind, own, dice)
    if kind.family == "date" and dice.random() < 0.9:
        return ["date32", max(min(own // (86_400_000 if kind.spec == "date64" else 1), 2**31 - 1), -(2**31))]
    is_far = kind.spec == "date64" and abs(own) > 86_400_000 << 31
    if kind.family in ("date", "time", "duration") and (is_far or dice.random() < 0.15):
        return ["int64", own]
    if kind.family == "float" and not math.isfinite(own):
        return ["float64", own]
    if kind.family == "time" and not isinstance(shown(kind, own), np.timedelta64 | type(shown(kind, 0))):
        return None
    if kind.family == "time" and not 0 <= own < 86_400 * UNITS[kind.unit]:
        return ["int64", own]
    return [kind.spec, own]


def other_number(kind, own, dice):
    number = exact(kind, own)
    if not isinstance(number, Fraction) or abs(number) > 10**30:
        number = Fraction(dice.randint(-9, 99))
    match dice.randrange(4):
        case 0:
            return ["int64", max(min(math.floor(number) + dice.choice([0, 0, 1, -1]), 2**63 - 1), -(2**63))]
        case 1:
            return ["float64", float(number) + dice.choice([0.0, 0.0, 0.5, 0.1, -0.25])]
        case 2:
            return ["decimal128(38, 4)", math.floor(number * 10**4) + dice.choice([0, 0, 1, 5000])]
        case _:
            return ["float64", dice.choice([math.nan, math.inf, -math.inf, -0.0, 2.0**63, 1e300, 5e-324])]


def time_literal(kind, own, dice):
    if dice.random() < 0.1:
        return ["int64", own]
    zone = f", {dice.choice(['UTC', kind.zone])}" if kind.zone else ""
    if not zone and dice.random() < 0.2:
        return ["date32", max(min(math.floor(instant(kind, own) / 86_400), 2_900_000), -700_000)]
    micros = math.floor(instant(kind, own) * 10**6)
    if not -6 * 10**16 < micros < 2 * 10**17:
        micros = dice.randrange(10**15)
    if dice.random() < 0.3:
        return [f"timestamp[s{zone}]", micros // 10**6]
    return [f"timestamp[us{zone}]", micros + dice.choice([0, 0, 0, 1, -1])]


def simple(rows, dice):
    """A condition on one column, or on two."""
    name = dice.choice(list(rows.kinds))
    kind = rows.kinds[name]
    if not kind.has_order or dice.random() < 0.08:
        return [dice.choice(["null", "not_null"]), name]
    values = [value for value in rows.columns[name] if value is not None]
    if kind.has_ranks and not values:
        return ["not_null", name]
    drawn = dice.random()
    if kind.plain.family == "text" and drawn < 0.35:
        return text_condition(name, values, dice)
    if drawn < 0.45:
        value = literal(kind, values, dice)
        return ["compare", name, dice.choice(list(OPERATORS)), value]
    if drawn < 0.6:
        count = dice.choice([0, 1, 2, 3, 5, 20])
        return ["is_in", name, [literal(kind, values, dice) for _ in range(count)]]
    if drawn < 0.75:
        return ["between", name, literal(kind, values, dice), literal(kind, values, dice)]
    return computed_condition(rows, name, dice)


def text_condition(name, values, dice):
    how = dice.choice(["contains", "matches", "starts_with", "ends_with"])
    if how == "matches":
        return ["text", name, how, dice.choice(PATTERNS)]
    whole = dice.choice(values) if values else "a"
    start = dice.randrange(len(whole) + 1)
    return ["text", name, how, dice.choice([whole, whole[start:], whole[:start], whole[start : start + 3], "a", "."])]


def computed_condition(rows, name, dice):
    numbers = [it for it, kind in rows.kinds.items() if can_compute(kind)]
    alike = [it for it, kind in rows.kinds.items() if are_alike(kind, rows.kinds[name])]
    if alike and (not numbers or dice.random() < 0.3):
        return ["pair", ["col", name], dice.choice(list(OPERATORS)), ["col", dice.choice(alike)]]
    expression = computed(rows, dice)
    if expression is None:
        return ["not_null", name]
    if dice.random() < 0.3:
        other = computed(rows, dice) or expression
        return ["pair", expression, dice.choice(list(OPERATORS)), other]
    value = one_of_its_own(rows, expression, dice) if dice.random() < 0.6 else None
    if value is None:
        value = (
            ["int64", dice.randint(-9, 99)]
            if dice.random() < 0.6
            else ["float64", dice.choice([0.5, 2.0, -1.25, math.inf, 1e18])]
        )
    return ["computed", expression, dice.choice(list(OPERATORS)), value]


def one_of_its_own(rows, expression, dice):
    """A value that an expression has in some row; None if it has none."""
    try:
        kind, _, values = evaluate(rows, expression)
    except Overflow:
        return None
    values = [value for value in values if value is not None]
    return ["int64" if kind == "int64" else "float64", dice.choice(values)] if values else None


def can_compute(kind):
    return kind.plain.family in ("integer", "float") and kind.family != "runs" and not kind.has_ranks


def are_alike(a, b):
    """Whether two columns can be compared with each other."""
    one, other = a.plain, b.plain
    if not (a.has_order and b.has_order) or a.has_ranks or b.has_ranks:
        return False
    if one.family in ("text", "binary"):
        return one.family == other.family
    if one.family in ("integer", "float"):
        return other.family in ("integer", "float") and (one.spec == "uint64") == (other.spec == "uint64")
    if one.family == "decimal":
        return one.spec == other.spec and one.size <= 64
    return one.spec == other.spec


def computed(rows, dice, depth=2):
    """An expression of the columns of numbers and times; None if there are none."""
    numbers = [name for name, kind in rows.kinds.items() if can_compute(kind)]
    floats = [name for name in numbers if rows.kinds[name].plain.family == "float"]
    if floats and dice.random() < 0.5:
        numbers = floats
    times = [name for name, kind in rows.kinds.items() if kind.plain.family in ("date", "timestamp", "time")]
    times = [name for name in times if "/" not in (rows.kinds[name].plain.zone or "")]
    others = [name for name, kind in rows.kinds.items() if kind.plain.family in ("decimal", "bool")]
    drawn = dice.random()
    if times and drawn < 0.2:
        return time_part(rows, dice.choice(times), dice)
    if (others or times) and drawn < 0.35:
        name = dice.choice([*others, *times])
        exactly = rows.kinds[name].plain.family != "decimal" or is_exact(rows, name)
        return ["cast", ["col", name], dice.choice(["int64", "float64", "float32"]) if exactly else "int64"]
    if not numbers:
        return None
    if depth == 0 or drawn < 0.45:
        return ["col", dice.choice(numbers)]
    inner = lambda: computed(rows, dice, depth - 1) or ["col", dice.choice(numbers)]
    if drawn < 0.52:
        return ["neg", inner()]
    if drawn < 0.62:
        return ["cast", inner(), dice.choice(["int64", "float64", "float32"])]
    sign = dice.choice("++--**///%")
    if dice.random() < 0.45:
        value = ["value", "int64", dice.choice([0, 1, -1, 2, 3, 7, -7, 100])]
        if dice.random() < 0.4:
            value = ["value", "float64", dice.choice([0.5, 0.1, 2.5, -3.0, 0.0, 1e10])]
        return [sign, inner(), value] if dice.random() < 0.7 else [sign, value, inner()]
    return [sign, inner(), inner()]


def is_exact(rows, name):
    """Whether decimals are the quotients of two floats: others may be rounded twice."""
    values = (value for value in rows.columns[name] if value is not None)
    return 0 <= rows.kinds[name].plain.scale <= 22 and all(abs(value) <= 2**53 for value in values)


def time_part(rows, name, dice):
    kind = rows.kinds[name].plain
    if kind.family == "date":
        return ["part", name, dice.choice(PARTS[:4])]
    if kind.family == "time":
        return ["part", name, dice.choice(PARTS[4:])]
    return ["part", name, dice.choice(PARTS)]


def condition(rows, dice, depth=2):
    drawn = dice.random()
    if depth == 0 or drawn < 0.45:
        return simple(rows, dice)
    if drawn < 0.7:
        return ["not", condition(rows, dice, depth - 1)]
    return [dice.choice(["and", "or"]), condition(rows, dice, depth - 1), condition(rows, dice, depth - 1)]


# ---- Arrowwood's ----


def value_of(literal):
    spec, value = literal
    found = shown(kind_of(spec), value)
    return found


def predicate(node, col=aw.col):
    """The condition, of `col(name)`."""
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
        case ["computed", of, sign, literal]:
            return OPERATORS[sign](expression(of), value_of(literal))
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


# ---- the twin's ----


def comparable(kind, value, literal):
    """Both sides as what Python compares: exact numbers, seconds, bytes."""
    spec, other = literal
    if kind.has_ranks:
        return order(kind, value), order(kind, other)
    kind, own = kind.plain, kind_of(spec)
    if kind.family in ("integer", "float", "decimal"):
        if kind.family == "decimal" and own.family == "float" and math.isfinite(other) and other != int(other):
            # It means what it prints as.
            return exact(kind, value), Fraction(repr(other))
        return exact(kind, value), exact(own, other)
    if kind.family in ("date", "time", "timestamp", "duration"):
        if own.family == "integer":
            return value, other
        return instant(kind, value), instant(own, other)
    return order(kind, value), order(kind, other)


def matches_text(how, pattern):
    if how == "matches":
        found = re.compile(pattern.replace("$", r"\Z"))
        return lambda text: found.search(text) is not None
    return {
        "contains": lambda text: pattern in text,
        "starts_with": lambda text: text.startswith(pattern),
        "ends_with": lambda text: text.endswith(pattern),
    }[how]


def truth(rows, node):
    """True, False or None for each row; raises Overflow where a value does not fit."""
    match node:
        case ["null" | "not_null" as how, name]:
            kind = rows.kinds[name]
            return [is_null(kind, value) == (how == "null") for value in rows.columns[name]]
        case ["compare", name, sign, literal]:
            return each(rows, name, lambda kind, value: OPERATORS[sign](*comparable(kind, value, literal)))
        case ["is_in", name, literals]:
            return each(
                rows, name, lambda kind, value: any(operator.eq(*comparable(kind, value, it)) for it in literals)
            )
        case ["between", name, low, high]:
            return each(
                rows,
                name,
                lambda kind, value: (
                    operator.ge(*comparable(kind, value, low)) and operator.le(*comparable(kind, value, high))
                ),
            )
        case ["text", name, how, pattern]:
            holds = matches_text(how, pattern)
            return each(rows, name, lambda kind, value: holds(value))
        case ["computed", ["col", name], sign, literal]:
            return truth(rows, ["compare", name, sign, literal])
        case ["computed", of, sign, [spec, other]]:
            _, _, values = evaluate(rows, of)
            other = exact(kind_of(spec), other)
            return [None if it is None else OPERATORS[sign](number(it), other) for it in values]
        case ["pair", ["col", a], sign, ["col", b]]:
            return pair(rows, a, sign, b)
        case ["pair", a, sign, b]:
            left, right = evaluate(rows, a)[2], evaluate(rows, b)[2]
            return [
                None if a is None or b is None else OPERATORS[sign](number(a), number(b)) for a, b in zip(left, right)
            ]
        case ["not", a]:
            return [None if it is None else not it for it in truth(rows, a)]
        case ["and", a, b]:
            return [False if False in (a, b) else None if None in (a, b) else True for a, b in both(rows, a, b)]
        case ["or", a, b]:
            return [True if True in (a, b) else None if None in (a, b) else False for a, b in both(rows, a, b)]
    raise ValueError(node)


def both(rows, a, b):
    return zip(truth(rows, a), truth(rows, b))


def number(value):
    return Fraction(value) if isinstance(value, int) or math.isfinite(value) else value


def each(rows, name, holds):
    kind = rows.kinds[name]
    known = {}

    def once(value):
        key = (type(value), distinct(kind, value))
        if key not in known:
            known[key] = holds(kind, value)
        return known[key]

    return [None if value is None else once(value) for value in rows.columns[name]]


def pair(rows, a, sign, b):
    one, other = rows.kinds[a].plain, rows.kinds[b].plain
    if one.spec != other.spec and one.is_number:
        # Those of other columns are computed in 64 bits with a sign.
        for name in (a, b):
            evaluate(rows, ["col", name])
    if one.family in ("text", "binary"):
        side = lambda kind, value: order(kind, value)
    elif one.is_number and one.family != "bool":
        side = exact
    else:
        side = lambda kind, value: value
    return [
        None if x is None or y is None else OPERATORS[sign](side(one, x), side(other, y))
        for x, y in zip(rows.columns[a], rows.columns[b])
    ]


def chosen(rows, node):
    """The numbers of the rows for which a condition is true, or how it is refused."""
    try:
        return [n for n, it in enumerate(truth(rows, node)) if it]
    except Overflow:
        # What another part of the condition decides about may not be computed.
        return Any() if "and" in str(node) or "or" in str(node) else Refused("InvalidArgument")


# ---- computed values ----

FITS = range(-(2**63), 2**63)


def fitting(value):
    if value not in FITS:
        raise Overflow
    return value


def short(value):
    with np.errstate(all="ignore"):
        return float(np.float32(value))


def evaluate(rows, node):
    """The kind of numbers that an expression makes, what decides about that of others, and its values."""
    match node:
        case ["col", name]:
            kind, values = rows.kinds[name].plain, rows.columns[name]
            if kind.family == "integer":
                return (
                    "int64",
                    "narrow" if kind.size <= 16 else "wide",
                    [it if it is None else fitting(it) for it in values],
                )
            return ("float64" if kind.size == 64 else "float32"), "wide", values
        case ["value", spec, value]:
            return spec, "value", [value] * len(rows)
        case ["neg", a]:
            return evaluate(rows, ["*", a, ["value", "int64", -1]])
        case ["cast", a, to]:
            return to, "wide", cast(rows, a, to)
        case ["part", name, part]:
            kind = rows.kinds[name].plain
            width = "wide" if part == "year" else "narrow"
            return "int64", width, [it if it is None else time_part_of(kind, it, part) for it in rows.columns[name]]
        case [sign, a, b]:
            return arithmetic(sign, evaluate(rows, a), evaluate(rows, b))
    raise ValueError(node)


def cast(rows, node, to):
    if node[0] == "col" and rows.kinds[node[1]].plain.family not in ("integer", "float"):
        kind, values = rows.kinds[node[1]].plain, rows.columns[node[1]]
        if kind.family == "decimal":
            values = [it if it is None else exact(kind, it) for it in values]
        elif kind.family == "bool":
            values = [it if it is None else int(it) for it in values]
    elif node[0] == "col" and to != "int64":
        # Those of 64 bits without a sign need not fit integers.
        values = rows.columns[node[1]]
    else:
        values = evaluate(rows, node)[2]
    return [it if it is None else cast_one(it, to) for it in values]


def cast_one(value, to):
    if to == "int64":
        if isinstance(value, float) and not math.isfinite(value):
            raise Overflow
        return fitting(math.trunc(value))
    # Decimals are rounded to 64 bits first; integers at once.
    return float(value) if to == "float64" else short(float(value) if isinstance(value, Fraction) else value)


def arithmetic(sign, a, b):
    (one, width, left), (other, own, right) = a, b
    kinds = {one, other}
    if kinds == {"int64"}:
        kind = "float64" if sign == "/" else "int64"
    elif kinds == {"float32"} or one == "float32" and own != "wide" or other == "float32" and width != "wide":
        kind = "float32"
    else:
        kind = "float64"
    if "value" in (width, own):
        result = own if width == "value" else width
    else:
        result = "narrow" if (width, own) == ("narrow", "narrow") and kind == "int64" else "wide"
    result = "wide" if kind != "int64" and result == "narrow" else result
    make = integers if kind == "int64" else floats
    return kind, result, [None if x is None or y is None else make(sign, x, y, kind) for x, y in zip(left, right)]


def integers(sign, a, b, _):
    if sign == "%":
        return None if b == 0 else a % b
    return fitting(ARITHMETIC[sign](a, b))


def floats(sign, a, b, kind):
    of = np.float32 if kind == "float32" else np.float64
    with np.errstate(all="ignore"):
        a, b = of(a), of(b)
        # As Polars computes it, in floats of this width.
        found = a - b * np.floor(a / b) if sign == "%" else ARITHMETIC[sign](a, b)
    return float(found)


def time_part_of(kind, value, part):
    """A part of a time where its zone has a constant offset."""
    seconds = math.floor(instant(kind, value))
    if kind.zone:
        seconds += int(zone_of(kind.zone).utcoffset(None).total_seconds())
        if seconds not in FITS:
            return None
    clock = seconds % 86_400
    match part:
        case "hour":
            return clock // 3600
        case "minute":
            return clock // 60 % 60
        case "second":
            return clock % 60
        case "weekday":
            return (seconds // 86_400 + 3) % 7 + 1
        case _:
            return date_part(seconds // 86_400, part)


def date_part(days, part):
    days = np.datetime64(days, "D")
    year = int(days.astype("M8[Y]").astype("i8")) + 1970
    if not -262_143 <= year <= 262_142:
        # Beyond the calendar.
        return None
    if part == "year":
        return year
    if part == "month":
        return int(days.astype("M8[M]").astype("i8")) % 12 + 1
    return int((days - days.astype("M8[M]").astype("M8[D]")).astype("i8")) + 1
