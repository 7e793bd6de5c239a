"""Kinds of columns: their names, random values of them, and what Python objects stand for these.

A value is what is stored: an integer for a time or a decimal, a list for a struct, `[code, value]` for a union. So it
can be written down as JSON, and compared exactly.
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
# Wide enough for all digits of a decimal of 256 bits.
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
    """A type: `spec` is its name, or a list such as `["list", "int8"]`."""

    def __init__(self, spec):
        self.spec = spec
        self.parts, self.names, self.size, self.unit, self.zone, self.scale = [], [], 0, None, None, 0
        if isinstance(spec, str):
            self._leaf(spec)
        else:
            self._nested(*spec)

    def _leaf(self, name):
        base = re.match(r"[a-z_0-9]+", name)[0]
        inside = re.findall(r"[^\[\](), ]+", name[len(base) :])
        self.label = base
        if name in INTEGERS:
            self.family, self.size, self.arrow = "integer", INTEGERS[name][0], getattr(pa, name)()
        elif name in FLOATS:
            self.family, self.size, self.arrow = "float", FLOATS[name], getattr(pa, name)()
        elif base.startswith("decimal"):
            self.family, self.size = "decimal", int(base[7:])
            self.digits, self.scale = int(inside[0]), int(inside[1])
            self.arrow = DECIMALS[self.size][0](self.digits, self.scale)
        elif name in ("date32", "date64"):
            self.family, self.size, self.arrow = "date", int(name[4:]), getattr(pa, name)()
        elif base in ("time32", "time64", "timestamp", "duration"):
            self._time(base, *inside)
        elif name in TEXTS or name in BINARIES:
            self.family = "text" if name in TEXTS else "binary"
            self.arrow = {**TEXTS, **BINARIES}[name]
        elif base == "fixed_size_binary":
            self.family, self.size = "binary", int(inside[0])
            self.arrow = pa.binary(self.size)
        elif name == "interval":
            self.family, self.size, self.arrow = "interval", 128, pa.month_day_nano_interval()
        else:
            self.family, self.arrow = name, {"null": pa.null(), "bool": pa.bool_()}[name]

    def _time(self, base, unit, zone=None):
        self.unit, self.zone = unit, zone
        self.family = "time" if base.startswith(("time3", "time6")) else base
        self.size = 32 if base == "time32" else 64
        self.label = f"{base}[{unit}]" if self.family != "timestamp" else "timestamp, zone" if zone else base
        self.arrow = getattr(pa, base)(unit, zone) if base == "timestamp" else getattr(pa, base)(unit)

    def _nested(self, name, *of):
        self.label = self.family = name
        if name in LISTS:
            self.parts = [Kind(of[0])]
            self.family, self.arrow = "list", LISTS[name](self.parts[0].arrow)
        elif name == "fixed_size_list":
            self.size, self.parts = of[0], [Kind(of[1])]
            self.arrow = pa.list_(self.parts[0].arrow, self.size)
        elif name in ("struct", "sparse_union", "dense_union"):
            self.names, self.parts = [member for member, _ in of[0]], [Kind(part) for _, part in of[0]]
            fields = [pa.field(member, part.arrow) for member, part in zip(self.names, self.parts)]
            if name == "struct":
                self.arrow = pa.struct(fields)
            else:
                self.family, self.arrow = "union", getattr(pa, name)(fields)
        elif name == "map":
            self.parts = [Kind(of[0]), Kind(of[1])]
            self.arrow = pa.map_(self.parts[0].arrow, self.parts[1].arrow)
        elif name == "dictionary":
            self.keys, self.parts, self.is_ordered = Kind(of[0]), [Kind(of[1])], bool(of[2:] and of[2])
            # The places of the entries, of a column whose dictionary is ordered.
            self.ranks = {}
            self.label = f"{'ordered ' * self.is_ordered}dictionary of {self.parts[0].family}"
            self.arrow = pa.dictionary(self.keys.arrow, self.parts[0].arrow, self.is_ordered)
        else:
            self.ends, self.parts = Kind(of[0]), [Kind(of[1])]
            self.arrow = pa.run_end_encoded(self.ends.arrow, self.parts[0].arrow)

    def __repr__(self):
        return str(self.arrow)

    @property
    def plain(self):
        """The kind of a dictionary's values, or itself."""
        return self.parts[0] if self.family == "dictionary" else self

    @property
    def is_number(self):
        return self.plain.family in ("integer", "float", "decimal", "bool")

    @property
    def has_order(self):
        """Whether there are extremes, and values can be compared."""
        return self.is_key and self.plain.family not in ("null", "interval")

    @property
    def has_ranks(self):
        """Whether the order is that of a dictionary's entries."""
        return self.family == "dictionary" and self.is_ordered

    @property
    def is_key(self):
        """Whether rows can be grouped by it."""
        nested = ("list", "fixed_size_list", "struct", "map", "union", "runs", "dictionary")
        return self.plain.family not in nested

    @property
    def can_grow(self):
        if self.family == "dictionary" and self.parts[0].family in ("bool", "decimal") or self.family == "runs":
            return False
        return all(part.can_grow for part in self.parts)

    def bounds(self):
        """The smallest and the largest integer that is stored."""
        if self.family == "decimal":
            return 1 - 10**self.digits, 10**self.digits - 1
        if self.family == "integer" and not INTEGERS[self.spec][1]:
            return 0, 2**self.size - 1
        # The smallest time of all is none to NumPy.
        return (self.family in ("duration", "timestamp")) - 2 ** (self.size - 1), 2 ** (self.size - 1) - 1


@cache
def kind_of(name):
    """The kind of a leaf, each made once."""
    return Kind(name)


def made(spec):
    return kind_of(spec) if isinstance(spec, str) else Kind(spec)


# ---- random kinds ----


def leaf(dice):
    """The name of a type that has no parts."""
    group = dice.randrange(14)
    if group < 3:
        return dice.choice(list(INTEGERS))
    if group < 5:
        return dice.choice([*FLOATS, "float32", "float64"])
    if group == 5:
        return decimal_name(dice)
    if group == 6:
        return dice.choice(["date32", "date32", "date64", "date64", "null", "interval"])
    if group == 7:
        return dice.choice(["time32[s]", "time32[ms]", "time64[us]", "time64[ns]"])
    if group == 8:
        return f"duration[{dice.choice(list(UNITS))}]"
    if group == 9:
        zone = f", {dice.choice(ZONES)}" if dice.random() < 0.5 else ""
        return f"timestamp[{dice.choice(list(UNITS))}{zone}]"
    if group == 13:
        return "bool"
    if group in (10, 12):
        return dice.choice([*TEXTS, "utf8"])
    return dice.choice([*BINARIES, f"fixed_size_binary[{dice.choice([0, 1, 3, 16])}]"])


def decimal_name(dice):
    size = dice.choice(list(DECIMALS))
    digits = dice.choice([1, DECIMALS[size][1], dice.randint(1, DECIMALS[size][1])])
    scale = dice.choice([0, 2, digits, digits // 2])
    return f"decimal{size}({digits}, {min(scale, digits) if dice.random() < 0.9 else -3})"


def some_kind(dice, depth=2):
    """A random type, as a spec."""
    if depth == 0 or dice.random() < 0.72:
        return leaf(dice)
    part = lambda: some_kind(dice, depth - 1)
    match dice.randrange(10):
        case 0 | 1:
            return [dice.choice(list(LISTS)), part()]
        case 2:
            return ["fixed_size_list", dice.choice([0, 1, 2, 3]), part()]
        case 3 | 4:
            return ["struct", [[f"m{n}", part()] for n in range(dice.randint(1, 3))]]
        case 5:
            key = dice.choice(["utf8", "int32", "large_utf8"])
            return ["map", key, part()]
        case 6:
            return [
                dice.choice(["sparse_union", "dense_union"]),
                [[f"u{n}", part()] for n in range(dice.randint(1, 3))],
            ]
        case 7:
            # pyarrow refuses runs of times outside of a day.
            can = lambda it: it != "null" and it[:6] not in ("time32", "time64")
            return ["runs", dice.choice(["int16", "int32", "int64"]), leaf_that(dice, can)]
        case _:
            return dictionary(dice, depth == 2)


def dictionary(dice, may_be_ordered):
    values = leaf_that(dice, lambda it: it not in ("null", "interval") and not it.endswith("[0]"))
    if dice.random() < 0.6:
        values = dice.choice(list(TEXTS))
    # Those inside of others have other entries in each batch, whose orders would contradict each other. Both zeros are
    # one category, and no Python object stands for some times.
    is_sure = may_be_ordered and not values.startswith(("float", "time"))
    is_ordered = is_sure and dice.random() < 0.15
    return ["dictionary", dice.choice(list(INTEGERS)), values, is_ordered]


def leaf_that(dice, wanted):
    while True:
        found = leaf(dice)
        if wanted(found):
            return found


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
# Texts of views are inline up to 12 bytes; comparisons look at 4, and at 16 of them, first.
STEMS = ["stem", "eleven char", "twelve chars", "sixteen characte", "x" * 31, "long " * 40]


def random_value(kind, dice):
    """A value that is not null."""
    match kind.family:
        case "integer" | "decimal" | "duration":
            return random_integer(kind, dice)
        case "float":
            return random_float(kind, dice)
        case "bool":
            return dice.random() < 0.5
        case "date" | "timestamp" | "time":
            return random_time(kind, dice)
        case "text":
            return random_text(dice)
        case "binary":
            return random_bytes(kind, dice)
        case "interval":
            return [dice.randint(-30, 30), dice.randint(-40, 40), dice.choice([0, 1, -(10**9), 10**15])]
        case "null":
            return None
        case "list":
            return [any_value(kind.parts[0], dice) for _ in range(dice.choice([0, 1, 1, 2, 3]))]
        case "fixed_size_list":
            return [any_value(kind.parts[0], dice) for _ in range(kind.size)]
        case "struct":
            return [any_value(part, dice) for part in kind.parts]
        case "map":
            keys = [random_value(kind.parts[0], dice) for _ in range(dice.choice([0, 1, 2]))]
            return [[key, any_value(kind.parts[1], dice)] for key in dict.fromkeys(keys)]
        case "union":
            code = dice.randrange(len(kind.parts))
            return [code, any_value(kind.parts[code], dice)]
        case _:
            return random_value(kind.parts[0], dice)


def any_value(kind, dice):
    # A union has no null but in its parts.
    return None if dice.random() < 0.15 and kind.family != "union" else random_value(kind, dice)


def random_integer(kind, dice):
    low, high = kind.bounds()
    match dice.randrange(8):
        case 0:
            found = dice.choice([low, high, low + 1, high - 1])
        case 1:
            found = dice.choice([0, 1, -1, 2**53, 2**53 + 1, -(2**31)])
        case 2:
            found = dice.randint(low, high)
        case 3 | 4:
            found = dice.randint(low, high) >> dice.randrange(1, 8 * ((high.bit_length() + 7) // 8))
        case _:
            found = dice.randint(-9, 99)
    return min(max(found, low), high)


def rounded(kind, number):
    """The float of a kind that is nearest."""
    if kind.size == 64:
        return number
    with np.errstate(over="ignore"):
        return float({16: np.float16, 32: np.float32}[kind.size](number))


def random_float(kind, dice):
    match dice.randrange(6):
        case 0 | 1:
            return rounded(kind, dice.choice(SPECIAL_FLOATS))
        case 2:
            return rounded(kind, struct.unpack("<d", dice.randbytes(8))[0])
        case 3:
            return rounded(kind, dice.gauss(0, 1000))
        case 4:
            return float(dice.randint(-5, 20))
        case _:
            return rounded(kind, dice.randint(-400, 400) / 8)


def plain_float(kind, dice):
    """One that has an integer, or nearly: a single other one would decide about a whole column."""
    if kind.size > 16 and dice.random() < 0.1:
        return dice.choice([2.0**63, 2.0**63, -(2.0**63), 2.0**53])
    return rounded(kind, dice.gauss(0, 1000) if dice.random() < 0.5 else dice.randint(-400, 400) / 8)


def random_time(kind, dice):
    """One that Python's classes hold, mostly; or any."""
    low, high = kind.bounds()
    each = UNITS.get(kind.unit, 1)
    if kind.family == "time":
        seconds = dice.choice([0, 1, DAY - 1, dice.randrange(DAY), dice.randrange(DAY)])
        found = seconds * each + dice.choice([0, each - 1, dice.randrange(each)])
        return found if dice.random() < 0.97 else dice.choice([DAY * each, -1])
    if dice.random() < 0.04:
        day = day_of(kind)
        return max((low, high, dice.randint(low, high))[dice.randrange(3)] // day, -(-low // day)) * day
    days = dice.choice(
        [0, -1, 1, 20_000 + dice.randrange(30), 20_000 + dice.randrange(30), dice.randint(-80_000, 90_000)]
    )
    if kind.family == "date":
        return days * day_of(kind)
    part = dice.choice([0, 0, 1, each - 1, dice.randrange(each)])
    if each == 10**9 and dice.random() < 0.7:
        part = part // 1000 * 1000
    return (days * DAY + dice.choice([0, 3600, dice.randrange(DAY)])) * each + part


def day_of(kind):
    return 86_400_000 if kind.spec == "date64" else 1


def random_text(dice):
    match dice.randrange(5):
        case 0:
            return dice.choice(STEMS) + dice.choice(["", "a", "b", "0", "\0", "ż"])
        case 1:
            return "".join(dice.choices("abAB.ż ", k=dice.randrange(18)))
        case 2 if dice.random() < 0.05:
            return "long text " * dice.randrange(2000)
        case _:
            return dice.choice(WORDS)


def random_bytes(kind, dice):
    if kind.size or kind.spec == "fixed_size_binary[0]":
        return bytes(dice.choices(b"\0\x01a\xff", k=kind.size))
    return random_text(dice).encode() if dice.random() < 0.6 else dice.randbytes(dice.randrange(20))


def random_values(kind, dice, rows):
    """Those of a column: any, or few different ones; without nulls, with some, or nothing else."""
    if rows == 0:
        return []
    draw = plain_float if kind.family == "float" and dice.random() < 0.3 else random_value
    pool = [draw(kind, dice) for _ in range(min(rows, dice.choice([1, 2, 4, 8, 16, 64])))]
    nulls = dice.choice([0, 0, 0.1, 0.3, 0.5, 1 if dice.random() < 0.2 else 0.9])
    if nulls and kind.family != "union":
        return [None if dice.random() < nulls else value for value in dice.choices(pool, k=rows)]
    if kind.family == "union" or kind.family == "null" or len(pool) > 8:
        return dice.choices(pool, k=rows)
    return sorted_run(kind, dice.choices(pool, k=rows), dice)


def sorted_run(kind, values, dice):
    """In order, now and then, as far as there is one."""
    if kind.has_order and dice.random() < 0.1 and kind.family != "float":
        return sorted(values)
    return values


def key_of(value):
    """What tells entries of a dictionary apart: NaN from NaN not, and zeros by their sign."""
    return repr(value) if isinstance(value, float) else value


# ---- Python's objects ----


def is_null(kind, value):
    """Whether the value that people see is null."""
    return value is None or kind.family == "union" and is_null(kind.parts[value[0]], value[1])


def shown(kind, value):
    """The Python object that Arrowwood documents for a value."""
    if value is None:
        return None
    match kind.family:
        case "decimal":
            return Decimal(value).scaleb(-kind.scale, EXACT)
        case "date":
            return shown_date(value // day_of(kind))
        case "time" | "timestamp" | "duration":
            return shown_time(kind, value)
        case "interval":
            return tuple(value)
        case "list" | "fixed_size_list":
            return [shown(kind.parts[0], item) for item in value]
        case "struct":
            return {name: shown(part, item) for name, part, item in zip(kind.names, kind.parts, value)}
        case "map":
            return [(shown(kind.parts[0], key), shown(kind.parts[1], item)) for key, item in value]
        case "union":
            return shown(kind.parts[value[0]], value[1])
        case "dictionary" | "runs":
            return shown(kind.parts[0], value)
        case _:
            return value


EPOCH = dt.date(1970, 1, 1)
FIRST, LAST = dt.date.min.toordinal() - EPOCH.toordinal(), dt.date.max.toordinal() - EPOCH.toordinal()


def shown_date(days):
    return dt.date.fromordinal(EPOCH.toordinal() + days) if FIRST <= days <= LAST else np.datetime64(days, "D")


def shown_time(kind, value):
    each = UNITS[kind.unit]
    seconds, rest = divmod(value, each)
    micros = rest * 10**6 // each
    is_exact = micros * each == rest * 10**6
    if kind.family == "time":
        if is_exact and 0 <= seconds < DAY:
            return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)
        return np.timedelta64(value, kind.unit)
    if kind.family == "duration":
        days = seconds // DAY
        if is_exact and abs(days) < 10**9:
            return dt.timedelta(days, seconds % DAY, micros)
        return np.timedelta64(value, kind.unit)
    if not is_exact or not FIRST <= seconds // DAY <= LAST:
        return np.datetime64(value, kind.unit)
    found = dt.datetime(1970, 1, 1) + dt.timedelta(seconds // DAY, seconds % DAY, micros)
    if kind.zone is None:
        return found
    try:
        return found.replace(tzinfo=dt.UTC).astimezone(zone_of(kind.zone))
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
