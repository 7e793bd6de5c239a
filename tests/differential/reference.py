"""A naive reference implementation: rows as lists of values, and operations as documented, one row after the other."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from kinds import UNITS, entry_key, is_null, parse_kind, to_python


class Refused:
    """Expects that a call raises an error of one of these classes."""

    def __init__(self, *names):
        self.names = names

    def accepts(self, actual):
        return isinstance(actual, Refused) and actual.names[0] in self.names

    def __repr__(self):
        return f"refused: {' or '.join(self.names)}"


class Approximate:
    """Expects a float within an error bound."""

    def __init__(self, value, error=0.0):
        self.value, self.error = value, error

    def accepts(self, actual):
        if not isinstance(actual, float):
            return False
        if math.isnan(self.value) or math.isinf(self.value):
            return actual == self.value or math.isnan(actual) and math.isnan(self.value)
        return abs(actual - self.value) <= self.error

    def __repr__(self):
        return f"{self.value!r} ± {self.error:.3g}"


class AnyOf:
    """Expects one of some values, or anything if there are none."""

    def __init__(self, *values):
        self.values = values

    def accepts(self, actual):
        return not self.values or any(is_same(actual, value) for value in self.values)

    def __repr__(self):
        return f"any of {self.values}" if self.values else "anything"


class OrRefused:
    """Expects an answer, or that the call is refused."""

    def __init__(self, expected):
        self.expected = expected

    def accepts(self, actual):
        return isinstance(actual, Refused) or is_same(actual, self.expected)

    def __repr__(self):
        return f"perhaps {self.expected}"


def is_same(actual, expected):
    """Returns whether an answer is equal and of the same type. NaN is the same as NaN, and -0.0 is not 0.0."""
    if hasattr(expected, "accepts"):
        return expected.accepts(actual)
    if isinstance(expected, float):
        is_equal = actual == expected and math.copysign(1, actual) == math.copysign(1, expected)
        return isinstance(actual, float) and (is_equal or expected != expected and actual != actual)
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(is_same, actual, expected))
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and list(actual) == list(expected)
            and all(map(is_same, actual.values(), expected.values()))
        )
    if isinstance(expected, tuple):
        return isinstance(actual, tuple) and len(actual) == len(expected) and all(map(is_same, actual, expected))
    if isinstance(expected, np.datetime64 | np.timedelta64):
        return (
            type(actual) is type(expected)
            and actual.dtype == expected.dtype
            and actual.view("i8") == expected.view("i8")
        )
    if type(actual) is not type(expected):
        return False
    if hasattr(expected, "utcoffset") and hasattr(expected, "date"):
        return actual == expected and actual.isoformat() == expected.isoformat()
    return actual == expected


@dataclass
class Rows:
    """Rows as columns of values by name. `ids` are the numbers that the rows had in the source."""

    kinds: dict
    columns: dict
    ids: list

    @classmethod
    def from_columns(cls, columns, rows):
        """Makes rows of columns as `(name, type, values)`."""
        kinds = {name: parse_kind(spec) for name, spec, _ in columns}
        values_by_name = {name: list(values) for name, _, values in columns}
        return cls(kinds, values_by_name, list(range(rows)))

    def __len__(self):
        return len(self.ids)

    def take(self, numbers):
        columns = {name: [values[n] for n in numbers] for name, values in self.columns.items()}
        return Rows(self.kinds, columns, [self.ids[n] for n in numbers])

    def select(self, names):
        return Rows({name: self.kinds[name] for name in names}, {name: self.columns[name] for name in names}, self.ids)

    def rename(self, names):
        """Renames columns: `names` has the new names by the old ones."""
        kinds = {names.get(name, name): kind for name, kind in self.kinds.items()}
        columns = {names.get(name, name): values for name, values in self.columns.items()}
        return Rows(kinds, columns, self.ids)

    def non_nulls(self, name):
        kind = self.kinds[name]
        return [value for value in self.columns[name] if not is_null(kind, value)]

    def python_values(self, name):
        kind = self.kinds[name]
        return [to_python(kind, value) for value in self.columns[name]]

    def to_dicts(self):
        columns = [self.python_values(name) for name in self.columns]
        return [dict(zip(self.columns, row)) for row in zip(*columns)] if columns else [{} for _ in self.ids]


# ---- order and equality ----


def group_key(kind, value):
    """Returns a hashable key by which values are grouped: all NaN are one group, and both zeros are one."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0
    return tuple(value) if isinstance(value, list) else value


def sort_key(kind, value):
    """Returns a key by which values are sorted. NaN has none."""
    if kind.has_ranks:
        return kind.ranks[entry_key(value)]
    return value.encode() if isinstance(value, str) else value


def sorted_row_numbers(rows, by):
    """Returns the numbers of rows in sorted order, with NaN and nulls last. `by` has names and whether they descend."""
    numbers = list(range(len(rows)))
    for name, descends in reversed(by):
        kind, values = rows.kinds[name], rows.columns[name]
        ordered, nans, nulls = [], [], []
        for number in numbers:
            if values[number] is None:
                nulls.append(number)
            elif is_unordered(kind, values[number]):
                nans.append(number)
            else:
                ordered.append(number)
        # The sort is stable in both directions.
        ordered.sort(key=lambda number: sort_key(kind, values[number]), reverse=descends)
        numbers = [*ordered, *nans, *nulls]
    return numbers


def is_unordered(kind, value):
    """Returns whether a value is NaN, which only the categories of an ordered dictionary give a place."""
    return not kind.has_ranks and isinstance(value, float) and math.isnan(value)


def group_rows(rows, by):
    """Returns the numbers of the rows of each group, in order of first appearance."""
    groups = {}
    columns = [[group_key(rows.kinds[name], value) for value in rows.columns[name]] for name in by]
    for number, key in enumerate(zip(*columns) if columns else [()] * len(rows)):
        groups.setdefault(key, []).append(number)
    return list(groups.values())


# ---- numbers ----


def exact_number(kind, value):
    """Returns a number as a fraction, and NaN or an infinity as it is."""
    if kind.family == "decimal":
        return Fraction(value) / 10**kind.scale if kind.scale >= 0 else Fraction(value * 10**-kind.scale)
    if kind.family in ("dictionary", "runs"):
        return exact_number(kind.parts[0], value)
    if kind.family == "float":
        return Fraction(value) if math.isfinite(value) else value
    return Fraction(int(value))


def nearest_float(number):
    """Returns the float nearest to a fraction."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# The smallest positive float.
TINY = 5e-324
EPSILON = 2.0**-52
# Sums of larger magnitudes may overflow in some orders of addition.
MAX_MAGNITUDE = Fraction(1.7e308)


def split_finite(numbers):
    """Returns the finite numbers, and the sum of the others: NaN, an infinity, or None if there are no others."""
    not_finite = [number for number in numbers if not isinstance(number, Fraction)]
    if any(math.isnan(number) for number in not_finite) or len(set(not_finite)) > 1:
        return [], math.nan
    return [number for number in numbers if isinstance(number, Fraction)], next(iter(not_finite), None)


def float_sum(numbers):
    """Expects a sum of floats, added in any order."""
    finite, not_finite = split_finite(numbers)
    magnitude = sum(map(abs, finite))
    if not_finite is not None:
        return Approximate(not_finite) if math.isnan(not_finite) or magnitude < MAX_MAGNITUDE else AnyOf()
    if magnitude >= MAX_MAGNITUDE:
        return AnyOf()
    return Approximate(nearest_float(sum(finite)), (len(finite) + 4) * (EPSILON * float(magnitude) + TINY))


def float_mean(numbers):
    if not numbers:
        return None
    sum_of_numbers = float_sum(numbers)
    if isinstance(sum_of_numbers, AnyOf):
        return sum_of_numbers
    value = sum_of_numbers.value / len(numbers)
    return Approximate(value, sum_of_numbers.error / len(numbers) + abs(value) * EPSILON * 4 + TINY)


def exact_mean(numbers):
    """Expects a mean of exact numbers, where both the sum and the quotient may be rounded."""
    if not numbers:
        return None
    mean = sum(numbers) / len(numbers)
    return Approximate(nearest_float(mean), nearest_float(abs(mean)) * EPSILON * 4 + TINY)


def mean(kind, values):
    numbers = [exact_number(kind, value) for value in values]
    return float_mean(numbers) if kind.value_kind.family == "float" else exact_mean(numbers)


# Squares of larger floats overflow.
MAX_SQUARED = 1e150


def variance(kind, values):
    """Expects the variance of a sample."""
    numbers = [exact_number(kind, value) for value in values]
    if len(numbers) < 2:
        return None
    finite, not_finite = split_finite(numbers)
    if not_finite is not None or len(finite) < len(numbers):
        return Approximate(math.nan)
    is_float = kind.value_kind.family == "float"
    largest = max(map(abs, finite))
    if is_float and largest > MAX_SQUARED:
        return AnyOf()
    mean_of_numbers = sum(finite) / len(finite)
    value = nearest_float(sum((number - mean_of_numbers) ** 2 for number in finite) / (len(finite) - 1))
    if not math.isfinite(value):
        return AnyOf()
    error = value * 1e-11
    if is_float:
        error += (float(largest) * EPSILON * len(finite) * 4) ** 2 * 4 + 1e-320
    return Approximate(value, error + value * 1e-12 + TINY)


def deviation(kind, values):
    squared = variance(kind, values)
    if not isinstance(squared, Approximate) or math.isnan(squared.value):
        return squared
    root = math.sqrt(squared.value)
    low = math.sqrt(max(squared.value - squared.error, 0.0))
    high = math.sqrt(squared.value + squared.error)
    return Approximate(root, max(root - low, high - root) + root * EPSILON * 4)


def column_sum(kind, values):
    """Expects the sum of a column: an integer, a decimal, a duration or a float."""
    value_kind = kind.value_kind
    if value_kind.family == "float":
        return float_sum([exact_number(kind, value) for value in values])
    integer_sum = sum(map(int, values))
    if value_kind.family == "duration":
        fits = -(2**63) <= integer_sum < 2**63
        return to_python(value_kind, integer_sum) if fits else Refused("InvalidArgument")
    if value_kind.family == "decimal":
        # An intermediate sum may overflow where the final one does not.
        fits = sum(map(abs, map(int, values))) < 2**255
        return to_python(value_kind, integer_sum) if fits else AnyOf()
    return integer_sum


def column_extreme(kind, values, descends):
    """Expects the smallest or largest value: NaN only if there is nothing else, and a zero of either sign."""
    ordered = [value for value in values if not is_unordered(kind, value)]
    if not ordered:
        return to_python(kind, values[0]) if values else None
    choose = max if descends else min
    result = choose(ordered, key=lambda value: sort_key(kind, value))
    if isinstance(result, float) and result == 0:
        return Approximate(0.0)
    return to_python(kind, result)


def quantile(kind, values, share):
    """Expects a quantile, interpolated linearly between two floats."""
    value_kind = kind.value_kind
    numbers = [value for value in values if value == value]
    if value_kind.family != "float":
        numbers = [nearest_float(exact_number(kind, value)) for value in numbers]
    numbers.sort()
    if not numbers:
        return None
    position = share * (len(numbers) - 1)
    index = math.floor(position)
    fraction = position - index
    low, high = numbers[index], numbers[min(index + 1, len(numbers) - 1)]
    if low == high or fraction == 0:
        value = low
    elif math.isinf(low) or math.isinf(high):
        return AnyOf()
    elif math.isinf(high - low):
        value = low * (1 - fraction) + high * fraction
    else:
        value = low + (high - low) * fraction
    if math.isinf(value):
        return Approximate(value)
    error = max(abs(low), abs(high)) * EPSILON * 4 + TINY
    if value_kind.family == "decimal":
        error += abs(value) * 1e-15
    return Approximate(value, error)


# ---- times ----


def seconds_of(kind, value):
    """Returns a time in seconds, and a date as its midnight."""
    kind = kind.value_kind
    if kind.spec == "date32":
        return Fraction(value * 86_400)
    if kind.spec == "date64":
        return Fraction(value, 1000)
    return Fraction(value, UNITS[kind.unit])
