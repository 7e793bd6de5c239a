"""Types of columns, random values of them, and the Python objects that Arrowwood returns for values.

Values are in the form in which Arrow stores them: an integer for a time or a decimal, a list for a struct, `[code,
value]` for a union. In this form they can be written as JSON and compared exactly.
"""

import datetime as dt
import math
import re
import struct
import zoneinfo
from decimal import Context, Decimal
from functools import cache

import numpy as np
import pyarrow as pa

DAY = 86_400
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Precise enough for all digits of a decimal of 256 bits.
EXACT = Context(prec=200)

INTEGERS = {f"{sign}int{bits}": (bits, sign == "") for sign in ("", "u") for bits in (8, 16, 32, 64)}
FLOATS = {"float16": 16, "float32": 32, "float64": 64}
TEXTS = {"utf8": pa.string(), "large_utf8": pa.large_string(), "utf8_view": pa.string_view()}
BINARIES = {"binary": pa.binary(), "large_binary": pa.large_binary(), "binary_view": pa.binary_view()}
LISTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
}
DECIMALS = {32: (pa.decimal32, 9), 64: (pa.decimal64, 18), 128: (pa.decimal128, 38), 256: (pa.decimal256, 76)}
ZONES = ["UTC", "+05:30", "-08:00", "Europe/Paris", "America/New_York", "Asia/Kathmandu"]


class Kind:
    """A type. `spec` is its name, or a list such as `["list", "int8"]`."""

    def __init__(self, spec):
        self.spec = spec
        self.parts, self.names, self.size, self.unit, self.zone, self.scale = [], [], 0, None, None, 0
        if isinstance(spec, str):
            self._parse_leaf(spec)
        else:
            self._parse_nested(*spec)

    def _parse_leaf(self, name):
        base = re.match(r"[a-z_0-9]+", name)[0]
        args = re.findall(r"[^\[\](), ]+", name[len(base) :])
        self.label = base
        if name in INTEGERS:
            self.family, self.size, self.arrow = "integer", INTEGERS[name][0], getattr(pa, name)()
        elif name in FLOATS:
            self.family, self.size, self.arrow = "float", FLOATS[name], getattr(pa, name)()
        elif base.startswith("decimal"):
            self.family, self.size = "decimal", int(base[7:])
            self.digits, self.scale = int(args[0]), int(args[1])
            self.arrow = DECIMALS[self.size][0](self.digits, self.scale)
        elif name in ("date32", "date64"):
            self.family, self.size, self.arrow = "date", int(name[4:]), getattr(pa, name)()
        elif base in ("time32", "time64", "timestamp", "duration"):
            self._parse_time(base, *args)
        elif name in TEXTS or name in BINARIES:
            self.family = "text" if name in TEXTS else "binary"
            self.arrow = {**TEXTS, **BINARIES}[name]
        elif base == "fixed_size_binary":
            self.family, self.size = "binary", int(args[0])
            self.arrow = pa.binary(self.size)
        elif name == "interval":
            self.family, self.size, self.arrow = "interval", 128, pa.month_day_nano_interval()
        else:
            self.family, self.arrow = name, {"null": pa.null(), "bool": pa.bool_()}[name]

    def _parse_time(self, base, unit, zone=None):
        self.unit, self.zone = unit, zone
        self.family = "time" if base.startswith(("time3", "time6")) else base
        self.size = 32 if base == "time32" else 64
        if base == "timestamp":
            self.label = "timestamp, zone" if zone else base
            self.arrow = pa.timestamp(unit, zone)
        else:
            self.label = f"{base}[{unit}]"
            self.arrow = getattr(pa, base)(unit)

    def _parse_nested(self, name, *args):
        self.label = self.family = name
        if name in LISTS:
            self.parts = [Kind(args[0])]
            self.family, self.arrow = "list", LISTS[name](self.parts[0].arrow)
        elif name == "fixed_size_list":
            self.size, self.parts = args[0], [Kind(args[1])]
            self.arrow = pa.list_(self.parts[0].arrow, self.size)
        elif name in ("struct", "sparse_union", "dense_union"):
            self.names, self.parts = [member for member, _ in args[0]], [Kind(part) for _, part in args[0]]
            fields = [pa.field(member, part.arrow) for member, part in zip(self.names, self.parts)]
            if name == "struct":
                self.arrow = pa.struct(fields)
            else:
                self.family, self.arrow = "union", getattr(pa, name)(fields)
        elif name == "map":
            self.parts = [Kind(args[0]), Kind(args[1])]
            self.arrow = pa.map_(self.parts[0].arrow, self.parts[1].arrow)
        elif name == "dictionary":
            self.keys, self.parts, self.is_ordered = Kind(args[0]), [Kind(args[1])], bool(args[2:] and args[2])
            # The rank of each entry of an ordered dictionary, set once its entries are known.
            self.ranks = {}
            self.label = f"{'ordered ' * self.is_ordered}dictionary of {self.parts[0].family}"
            self.arrow = pa.dictionary(self.keys.arrow, self.parts[0].arrow, self.is_ordered)
        else:
            self.ends, self.parts = Kind(args[0]), [Kind(args[1])]
            self.arrow = pa.run_end_encoded(self.ends.arrow, self.parts[0].arrow)

    def __repr__(self):
        return str(self.arrow)

    @property
    def value_kind(self):
        """Returns the type of a dictionary's values, or the type itself."""
        return self.parts[0] if self.family == "dictionary" else self

    @property
    def is_number(self):
        return self.value_kind.family in ("integer", "float", "decimal", "bool")

    @property
    def has_order(self):
        """Returns whether values can be compared, and a column has a minimum and maximum."""
        return self.is_key and self.value_kind.family not in ("null", "interval")

    @property
    def has_ranks(self):
        """Returns whether values are ordered by their place in the dictionary."""
        return self.family == "dictionary" and self.is_ordered

    @property
    def is_key(self):
        """Returns whether rows can be grouped by a column of this type."""
        nested = ("list", "fixed_size_list", "struct", "map", "union", "runs", "dictionary")
        return self.value_kind.family not in nested

    @property
    def can_grow(self):
        """Returns whether rows can be appended to a column of this type."""
        if self.family == "dictionary" and self.parts[0].family in ("bool", "decimal") or self.family == "runs":
            return False
        return all(part.can_grow for part in self.parts)

    def bounds(self):
        """Returns the smallest and largest stored integer."""
        if self.family == "decimal":
            return 1 - 10**self.digits, 10**self.digits - 1
        if self.family == "integer" and not INTEGERS[self.spec][1]:
            return 0, 2**self.size - 1
        low, high = -(2 ** (self.size - 1)), 2 ** (self.size - 1) - 1
        # NumPy's NaT is the smallest integer.
        return (low + 1 if self.family in ("duration", "timestamp") else low), high


@cache
def leaf_kind(name):
    """Returns the kind of a type without parts."""
    return Kind(name)


def parse_kind(spec):
    return leaf_kind(spec) if isinstance(spec, str) else Kind(spec)


# ---- random types ----


def random_leaf(rng):
    """Returns the name of a random type without parts."""
    group = rng.randrange(14)
    if group < 3:
        return rng.choice(list(INTEGERS))
    if group < 5:
        return rng.choice([*FLOATS, "float32", "float64"])
    if group == 5:
        return random_decimal(rng)
    if group == 6:
        return rng.choice(["date32", "date32", "date64", "date64", "null", "interval"])
    if group == 7:
        return rng.choice(["time32[s]", "time32[ms]", "time64[us]", "time64[ns]"])
    if group == 8:
        return f"duration[{rng.choice(list(UNITS))}]"
    if group == 9:
        zone = f", {rng.choice(ZONES)}" if rng.random() < 0.5 else ""
        return f"timestamp[{rng.choice(list(UNITS))}{zone}]"
    if group == 13:
        return "bool"
    if group in (10, 12):
        return rng.choice([*TEXTS, "utf8"])
    return rng.choice([*BINARIES, f"fixed_size_binary[{rng.choice([0, 1, 3, 16])}]"])


def random_decimal(rng):
    size = rng.choice(list(DECIMALS))
    digits = rng.choice([1, DECIMALS[size][1], rng.randint(1, DECIMALS[size][1])])
    scale = rng.choice([0, 2, digits, digits // 2])
    return f"decimal{size}({digits}, {min(scale, digits) if rng.random() < 0.9 else -3})"


def random_kind(rng, depth=2):
    """Returns the spec of a random type."""
    if depth == 0 or rng.random() < 0.72:
        return random_leaf(rng)
    match rng.randrange(10):
        case 0 | 1:
            return [rng.choice(list(LISTS)), random_kind(rng, depth - 1)]
        case 2:
            return ["fixed_size_list", rng.choice([0, 1, 2, 3]), random_kind(rng, depth - 1)]
        case 3 | 4:
            return ["struct", [[f"m{n}", random_kind(rng, depth - 1)] for n in range(rng.randint(1, 3))]]
        case 5:
            key = rng.choice(["utf8", "int32", "large_utf8"])
            return ["map", key, random_kind(rng, depth - 1)]
        case 6:
            return [
                rng.choice(["sparse_union", "dense_union"]),
                [[f"u{n}", random_kind(rng, depth - 1)] for n in range(rng.randint(1, 3))],
            ]
        case 7:
            return ["runs", rng.choice(["int16", "int32", "int64"]), random_leaf_where(rng, can_be_run)]
        case _:
            return random_dictionary(rng, depth == 2)


def can_be_run(name):
    # pyarrow refuses runs of times outside of a day.
    return name != "null" and name[:6] not in ("time32", "time64")


def can_be_entry(name):
    return name not in ("null", "interval") and not name.endswith("[0]")


def random_dictionary(rng, is_outermost):
    values = random_leaf_where(rng, can_be_entry)
    if rng.random() < 0.6:
        values = rng.choice(list(TEXTS))
    # Inner dictionaries have other entries in each batch, and their orders would contradict each other. The two zeros
    # of floats are one category, and some times have no Python object.
    may_be_ordered = is_outermost and not values.startswith(("float", "time"))
    is_ordered = may_be_ordered and rng.random() < 0.15
    return ["dictionary", rng.choice(list(INTEGERS)), values, is_ordered]


def random_leaf_where(rng, is_allowed):
    while True:
        name = random_leaf(rng)
        if is_allowed(name):
            return name


# ---- random values ----

SPECIAL_FLOATS = [
    math.nan,
    math.nan,
    math.copysign(math.nan, -1.0),
    -0.0,
    0.0,
    math.inf,
    -math.inf,
    1.0,
    -1.0,
    0.1,
    2.5,
]
SPECIAL_FLOATS += [5e-324, -2.2e-308, 1.7e308, 2.0**53, 2.0**63, -(2.0**63)]
WORDS = ["", "a", "A", "b", "ab", "Aa", "IBM", "żółć", "日本", "🙂", "a.b", "nan", "\0", "a\0", " a", "%", "a\nb"]
# Beginnings of texts. Views store up to 12 bytes inline, and comparisons look at 4 bytes and at 16 bytes first.
STEMS = ["stem", "eleven char", "twelve chars", "sixteen characte", "x" * 31, "long " * 40]


def random_value(kind, rng):
    """Returns a random value that is not null."""
    match kind.family:
        case "integer" | "decimal" | "duration":
            return random_integer(kind, rng)
        case "float":
            return random_float(kind, rng)
        case "bool":
            return rng.random() < 0.5
        case "date" | "timestamp" | "time":
            return random_time(kind, rng)
        case "text":
            return random_text(rng)
        case "binary":
            return random_bytes(kind, rng)
        case "interval":
            return [rng.randint(-30, 30), rng.randint(-40, 40), rng.choice([0, 1, -(10**9), 10**15])]
        case "null":
            return None
        case "list":
            return [random_value_or_null(kind.parts[0], rng) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        case "fixed_size_list":
            return [random_value_or_null(kind.parts[0], rng) for _ in range(kind.size)]
        case "struct":
            return [random_value_or_null(part, rng) for part in kind.parts]
        case "map":
            keys = [random_value(kind.parts[0], rng) for _ in range(rng.choice([0, 1, 2]))]
            return [[key, random_value_or_null(kind.parts[1], rng)] for key in dict.fromkeys(keys)]
        case "union":
            code = rng.randrange(len(kind.parts))
            return [code, random_value_or_null(kind.parts[code], rng)]
        case _:
            return random_value(kind.parts[0], rng)


def random_value_or_null(kind, rng):
    # Unions have no nulls of their own.
    return None if rng.random() < 0.15 and kind.family != "union" else random_value(kind, rng)


def random_integer(kind, rng):
    low, high = kind.bounds()
    match rng.randrange(8):
        case 0:
            value = rng.choice([low, high, low + 1, high - 1])
        case 1:
            value = rng.choice([0, 1, -1, 2**53, 2**53 + 1, -(2**31)])
        case 2:
            value = rng.randint(low, high)
        case 3 | 4:
            value = rng.randint(low, high) >> rng.randrange(1, 8 * ((high.bit_length() + 7) // 8))
        case _:
            value = rng.randint(-9, 99)
    return min(max(value, low), high)


def round_to(kind, number):
    """Rounds a number to the size of a float."""
    if kind.size == 64:
        return number
    with np.errstate(over="ignore"):
        return float({16: np.float16, 32: np.float32}[kind.size](number))


def random_float(kind, rng):
    match rng.randrange(6):
        case 0 | 1:
            return round_to(kind, rng.choice(SPECIAL_FLOATS))
        case 2:
            return round_to(kind, struct.unpack("<d", rng.randbytes(8))[0])
        case 3:
            return round_to(kind, rng.gauss(0, 1000))
        case 4:
            return float(rng.randint(-5, 20))
        case _:
            return round_to(kind, rng.randint(-400, 400) / 8)


def tame_float(kind, rng):
    """Returns a float of moderate size: one extreme value would dominate the sum of a whole column."""
    if kind.size > 16 and rng.random() < 0.1:
        return rng.choice([2.0**63, 2.0**63, -(2.0**63), 2.0**53])
    return round_to(kind, rng.gauss(0, 1000) if rng.random() < 0.5 else rng.randint(-400, 400) / 8)


def random_time(kind, rng):
    """Returns a time, mostly one that Python's classes can represent."""
    low, high = kind.bounds()
    units = UNITS.get(kind.unit, 1)
    if kind.family == "time":
        seconds = rng.choice([0, 1, DAY - 1, rng.randrange(DAY), rng.randrange(DAY)])
        value = seconds * units + rng.choice([0, units - 1, rng.randrange(units)])
        return value if rng.random() < 0.97 else rng.choice([DAY * units, -1])
    if rng.random() < 0.04:
        day = date_units_per_day(kind)
        value = (low, high, rng.randint(low, high))[rng.randrange(3)]
        first_day = -(-low // day)
        return max(value // day, first_day) * day
    days = rng.choice([0, -1, 1, 20_000 + rng.randrange(30), 20_000 + rng.randrange(30), rng.randint(-80_000, 90_000)])
    if kind.family == "date":
        return days * date_units_per_day(kind)
    part = rng.choice([0, 0, 1, units - 1, rng.randrange(units)])
    if kind.unit == "ns" and rng.random() < 0.7:
        # Most nanoseconds are whole microseconds, which Python's classes can represent.
        part = part // 1000 * 1000
    return (days * DAY + rng.choice([0, 3600, rng.randrange(DAY)])) * units + part


def date_units_per_day(kind):
    return 86_400_000 if kind.spec == "date64" else 1


def random_text(rng):
    match rng.randrange(5):
        case 0:
            return rng.choice(STEMS) + rng.choice(["", "a", "b", "0", "\0", "ż"])
        case 1:
            return "".join(rng.choices("abAB.ż ", k=rng.randrange(18)))
        case 2 if rng.random() < 0.05:
            return "long text " * rng.randrange(2000)
        case _:
            return rng.choice(WORDS)


def random_bytes(kind, rng):
    if kind.size or kind.spec == "fixed_size_binary[0]":
        return bytes(rng.choices(b"\0\x01a\xff", k=kind.size))
    return random_text(rng).encode() if rng.random() < 0.6 else rng.randbytes(rng.randrange(20))


def random_values(kind, rng, rows):
    """Returns the values of a column: many or few different ones, with a random share of nulls."""
    if rows == 0:
        return []
    random_one = tame_float if kind.family == "float" and rng.random() < 0.3 else random_value
    pool = [random_one(kind, rng) for _ in range(min(rows, rng.choice([1, 2, 4, 8, 16, 64])))]
    nulls = rng.choice([0, 0, 0.1, 0.3, 0.5, 1 if rng.random() < 0.2 else 0.9])
    if nulls and kind.family != "union":
        return [None if rng.random() < nulls else value for value in rng.choices(pool, k=rows)]
    if kind.family == "union" or kind.family == "null" or len(pool) > 8:
        return rng.choices(pool, k=rows)
    return sometimes_sorted(kind, rng.choices(pool, k=rows), rng)


def sometimes_sorted(kind, values, rng):
    """Sorts the values in one of ten cases, if they have an order."""
    if kind.has_order and rng.random() < 0.1 and kind.family != "float":
        return sorted(values)
    return values


def entry_key(value):
    """Returns a hashable key of a dictionary's entry: equal for any two NaN, and different for the two zeros."""
    return repr(value) if isinstance(value, float) else value


# ---- Python objects ----


def is_null(kind, value):
    """Returns whether a value is null, or a union's value whose member is null."""
    return value is None or kind.family == "union" and is_null(kind.parts[value[0]], value[1])


def to_python(kind, value):
    """Returns the Python object that Arrowwood documents for a value."""
    if value is None:
        return None
    match kind.family:
        case "decimal":
            return Decimal(value).scaleb(-kind.scale, EXACT)
        case "date":
            return date_to_python(value // date_units_per_day(kind))
        case "time" | "timestamp" | "duration":
            return time_to_python(kind, value)
        case "interval":
            return tuple(value)
        case "list" | "fixed_size_list":
            return [to_python(kind.parts[0], item) for item in value]
        case "struct":
            return {name: to_python(part, item) for name, part, item in zip(kind.names, kind.parts, value)}
        case "map":
            return [(to_python(kind.parts[0], key), to_python(kind.parts[1], item)) for key, item in value]
        case "union":
            return to_python(kind.parts[value[0]], value[1])
        case "dictionary" | "runs":
            return to_python(kind.parts[0], value)
        case _:
            return value


EPOCH = dt.date(1970, 1, 1)
FIRST_DAY, LAST_DAY = dt.date.min.toordinal() - EPOCH.toordinal(), dt.date.max.toordinal() - EPOCH.toordinal()


def date_to_python(days):
    return dt.date.fromordinal(EPOCH.toordinal() + days) if FIRST_DAY <= days <= LAST_DAY else np.datetime64(days, "D")


def time_to_python(kind, value):
    units = UNITS[kind.unit]
    seconds, rest = divmod(value, units)
    micros = rest * 10**6 // units
    is_exact = micros * units == rest * 10**6
    if kind.family == "time":
        if is_exact and 0 <= seconds < DAY:
            return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)
        return np.timedelta64(value, kind.unit)
    if kind.family == "duration":
        days = seconds // DAY
        if is_exact and abs(days) < 10**9:
            return dt.timedelta(days, seconds % DAY, micros)
        return np.timedelta64(value, kind.unit)
    if not is_exact or not FIRST_DAY <= seconds // DAY <= LAST_DAY:
        return np.datetime64(value, kind.unit)
    time = dt.datetime(1970, 1, 1) + dt.timedelta(seconds // DAY, seconds % DAY, micros)
    if kind.zone is None:
        return time
    try:
        return time.replace(tzinfo=dt.UTC).astimezone(zone_of(kind.zone))
    except OverflowError:
        return np.datetime64(value, kind.unit)


@cache
def zone_of(name):
    if name == "UTC":
        return dt.UTC
    if name[0] in "+-":
        hours, minutes = name[1:].split(":")
        offset = dt.timedelta(hours=int(hours), minutes=int(minutes))
        return dt.timezone(-offset if name[0] == "-" else offset)
    return zoneinfo.ZoneInfo(name)
