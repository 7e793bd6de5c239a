"""The naive twin: rows as lists of values, and each operation as the documentation has it, one row after the other."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from kinds import UNITS, is_null, made, shown


class Refused:
    """That a call is refused, by an error of one of these classes."""

    def __init__(self, *names):
        self.names = names

    def accepts(self, found):
        return isinstance(found, Refused) and found.names[0] in self.names

    def __repr__(self):
        return f"refused: {' or '.join(self.names)}"


class Near:
    """A float, but for an error; a value that is a float32 or float16 keeps its own."""

    def __init__(self, value, error=0.0, of=float):
        self.value, self.error, self.of = value, error, of

    def accepts(self, found):
        if not isinstance(found, self.of):
            return False
        if math.isnan(self.value) or math.isinf(self.value):
            return found == self.value or math.isnan(found) and math.isnan(self.value)
        return abs(found - self.value) <= self.error

    def __repr__(self):
        return f"{self.value!r} ± {self.error:.3g}"


class Any:
    """Any of some values; or, without some, anything."""

    def __init__(self, *values):
        self.values = values

    def accepts(self, found):
        return not self.values or any(same(found, value) for value in self.values)

    def __repr__(self):
        return f"any of {self.values}" if self.values else "anything"


class Perhaps:
    """An answer, or its refusal."""

    def __init__(self, expected):
        self.expected = expected

    def accepts(self, found):
        return isinstance(found, Refused) or same(found, self.expected)

    def __repr__(self):
        return f"perhaps {self.expected}"


def same(found, expected):
    """Whether an answer is the expected one: of the same type, and NaN is NaN."""
    if hasattr(expected, "accepts"):
        return expected.accepts(found)
    if isinstance(expected, float):
        is_equal = found == expected and math.copysign(1, found) == math.copysign(1, expected)
        return isinstance(found, float) and (is_equal or expected != expected and found != found)
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and list(found) == list(expected)
            and all(map(same, found.values(), expected.values()))
        )
    if isinstance(expected, tuple):
        return isinstance(found, tuple) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, np.datetime64 | np.timedelta64):
        return (
            type(found) is type(expected) and found.dtype == expected.dtype and found.view("i8") == expected.view("i8")
        )
    if type(found) is not type(expected):
        return False
    if hasattr(expected, "utcoffset") and hasattr(expected, "date"):
        return found == expected and found.isoformat() == expected.isoformat()
    return found == expected


@dataclass
class Rows:
    """Rows as columns of values, by name; `ids` are the numbers that they had at first."""

    kinds: dict
    columns: dict
    ids: list

    @classmethod
    def of(cls, columns, rows):
        return cls(
            {name: made(spec) for name, spec, _ in columns},
            {name: list(v) for name, _, v in columns},
            list(range(rows)),
        )

    def __len__(self):
        return len(self.ids)

    def take(self, numbers):
        columns = {name: [values[n] for n in numbers] for name, values in self.columns.items()}
        return Rows(self.kinds, columns, [self.ids[n] for n in numbers])

    def select(self, names):
        return Rows({name: self.kinds[name] for name in names}, {name: self.columns[name] for name in names}, self.ids)

    def named(self, names):
        """With other names for some columns."""
        new = lambda of: {names.get(name, name): it for name, it in of.items()}
        return Rows(new(self.kinds), new(self.columns), self.ids)

    def present(self, name):
        kind = self.kinds[name]
        return [value for value in self.columns[name] if not is_null(kind, value)]

    def shown(self, name):
        kind = self.kinds[name]
        return [shown(kind, value) for value in self.columns[name]]

    def dicts(self):
        columns = [self.shown(name) for name in self.columns]
        return [dict(zip(self.columns, row)) for row in zip(*columns)] if columns else [{} for _ in self.ids]


# ---- order and equality ----


def distinct(kind, value):
    """What tells values of groups apart: all NaN are one, and both zeros."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return tuple(value) if isinstance(value, list) else value


def order(kind, value):
    """A key that sorts values; NaN apart."""
    return value.encode() if isinstance(value, str) else value


def sorted_numbers(rows, by):
    """The numbers of rows in the order of columns, each with whether it descends: nulls last, after NaN, either way."""
    numbers = list(range(len(rows)))
    for name, descends in reversed(by):
        kind, values = rows.kinds[name], rows.columns[name]
        is_nan = lambda n: isinstance(values[n], float) and values[n] != values[n]
        some = [n for n in numbers if values[n] is not None and not is_nan(n)]
        # Stable either way.
        some.sort(key=lambda n: order(kind, values[n]), reverse=descends)
        nans = [n for n in numbers if values[n] is not None and is_nan(n)]
        numbers = [*some, *nans, *(n for n in numbers if values[n] is None)]
    return numbers


def grouped(rows, by):
    """The numbers of the rows of each group, in order of first appearance."""
    groups = {}
    columns = [[distinct(rows.kinds[name], value) for value in rows.columns[name]] for name in by]
    for number, key in enumerate(zip(*columns) if columns else [()] * len(rows)):
        groups.setdefault(key, []).append(number)
    return list(groups.values())


# ---- numbers ----


def exact(kind, value):
    """A number, exactly; floats that are none as they are."""
    if kind.family == "decimal":
        return Fraction(value) / 10**kind.scale if kind.scale >= 0 else Fraction(value * 10**-kind.scale)
    if kind.family in ("dictionary", "runs"):
        return exact(kind.parts[0], value)
    if kind.family == "float":
        return Fraction(value) if math.isfinite(value) else value
    return Fraction(int(value))


def nearest(number):
    """The float nearest to a fraction."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


TINY = 5e-324
EPSILON = 2.0**-52
LARGEST = Fraction(1.7e308)


def split(numbers):
    """The finite ones, and what those that are not make of a sum: NaN, an infinity, or None."""
    odd = {number if number == number else "nan" for number in numbers if not isinstance(number, Fraction)}
    if "nan" in odd or len(odd) > 1:
        return [], math.nan
    return [number for number in numbers if isinstance(number, Fraction)], next(iter(odd), None)


def float_sum(numbers):
    """The sum of floats in any order."""
    finite, odd = split(numbers)
    if odd is not None:
        return Near(odd) if odd != odd or sum(map(abs, finite)) < LARGEST else Any()
    size = sum(map(abs, finite))
    if size >= LARGEST:
        return Any()
    return Near(nearest(sum(finite)), (len(finite) + 4) * (EPSILON * float(size) + TINY))


def float_mean(numbers, slack=0.0):
    if not numbers:
        return None
    total = float_sum(numbers)
    if isinstance(total, Any):
        return total
    value = total.value / len(numbers)
    return Near(value, total.error / len(numbers) + abs(value) * EPSILON * 4 + TINY)


def exact_mean(numbers):
    """That of exact numbers: rounded as the sum, and as the quotient."""
    if not numbers:
        return None
    mean = sum(numbers) / len(numbers)
    return Near(nearest(mean), nearest(abs(mean)) * EPSILON * 4 + TINY)


def mean(kind, values):
    numbers = [exact(kind, value) for value in values]
    return float_mean(numbers) if kind.plain.family == "float" else exact_mean(numbers)


def variance(kind, values):
    """The sample's variance."""
    numbers = [exact(kind, value) for value in values]
    if len(numbers) < 2:
        return None
    finite, odd = split(numbers)
    if odd is not None or len(finite) < len(numbers):
        return Near(math.nan)
    largest = max(map(abs, finite))
    if kind.plain.family == "float" and largest > 1e150:
        return Any()
    middle = sum(finite) / len(finite)
    found = sum((number - middle) ** 2 for number in finite) / (len(finite) - 1)
    value = nearest(found)
    slack = value * 1e-11 if math.isfinite(value) else math.inf
    if kind.plain.family == "float":
        slack += (float(largest) * EPSILON * len(finite) * 4) ** 2 * 4 + 1e-320
    return Near(value, slack + value * 1e-12 + TINY) if math.isfinite(value) else Any()


def deviation(kind, values):
    found = variance(kind, values)
    if not isinstance(found, Near) or math.isnan(found.value):
        return found
    root = math.sqrt(found.value)
    low = math.sqrt(max(found.value - found.error, 0.0))
    return Near(root, max(root - low, math.sqrt(found.value + found.error) - root) + root * EPSILON * 4)


def total(kind, values):
    """The sum of a column: an integer, a decimal, a duration or a float."""
    plain = kind.plain
    if plain.family == "float":
        return float_sum([exact(kind, value) for value in values])
    found = sum(map(int, values))
    if plain.family == "duration":
        return shown(plain, found) if -(2**63) <= found < 2**63 else Refused("InvalidArgument")
    if plain.family == "decimal":
        # An intermediate sum may overflow where this one does not.
        return shown(plain, found) if sum(map(abs, map(int, values))) < 2**255 else Any()
    return found


def extreme(kind, values, descends):
    """The smallest or largest value; NaN only if there is nothing else. Either zero is both."""
    some = [value for value in values if not (isinstance(value, float) and value != value)]
    if not some:
        return shown(kind, values[0]) if values else None
    found = (max if descends else min)(some, key=lambda value: order(kind, value))
    if isinstance(found, float) and found == 0:
        return Near(0.0)
    return shown(kind, found)


def quantile(kind, values, share):
    """Interpolated between two floats."""
    plain = kind.plain
    numbers = sorted(
        nearest(exact(kind, value)) if plain.family != "float" else value for value in values if value == value
    )
    if not numbers:
        return None
    place = share * (len(numbers) - 1)
    low = math.floor(place)
    a, b = numbers[low], numbers[min(low + 1, len(numbers) - 1)]
    part = place - low
    if a == b or part == 0:
        value = a
    elif math.isinf(a) or math.isinf(b):
        return Any()
    else:
        value = a + (b - a) * part if abs(b - a) < math.inf else a * (1 - part) + b * part
    if math.isinf(value):
        return Near(value)
    return Near(
        value, max(abs(a), abs(b)) * EPSILON * 4 + TINY + (abs(value) * 1e-15 if plain.family == "decimal" else 0)
    )


# ---- times ----


def instant(kind, value):
    """A time, in seconds; a date, as its midnight."""
    kind = kind.plain
    if kind.spec == "date32":
        return Fraction(value * 86_400)
    if kind.spec == "date64":
        return Fraction(value, 1000)
    return Fraction(value, UNITS[kind.unit])


def number_kind(name):
    """The kind of computed numbers."""
    return made(name)
