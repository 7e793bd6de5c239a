"""Defines ``TYPE_CASES``: the types of the matrix of borders, each with its test values."""

import ctypes
import datetime as dt
import itertools
import uuid
from collections.abc import Collection, Iterator
from decimal import Context, Decimal
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# More digits than any decimal type has.
DECIMAL_CONTEXT = Context(prec=100)
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MILLISECONDS_PER_DAY = 86_400_000
TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Case(Protocol):
    """A type with named sets of values."""

    name: str
    type: pa.DataType | None
    value_sets: Collection[str]

    def table(self, set_name: str) -> Any:
        """Returns a table with the values of a set in the column ``x``, and their row numbers in ``n``."""


class TypeCase:
    """An Arrow type with the values that are passed over the borders.

    ``value_sets`` maps names to chunks of values:

    - ``some``: typical values without nulls
    - ``extreme``: the ends of the range
    - ``odd``: values that are special to the type, such as NaN
    - ``least``: the least 64-bit integer, which NumPy uses for a missing time
    - ``nulls``, ``all null``, ``empty``, ``sliced`` and ``chunks``: derived from ``some``

    Arrays without a validity bitmap, such as unions, have nulls among their values: `nulls` gives these arrays.
    """

    def __init__(self, name, some, extreme=None, odd=None, least=None, nulls=None):
        self.name, self.type = name, some.type
        if nulls is None:
            nulls = interleave_nulls(some)
        self.value_sets = {"some": [some]}
        if extreme is not None:
            self.value_sets["extreme"] = [extreme]
        if odd is not None:
            self.value_sets["odd"] = [odd]
        if least is not None:
            self.value_sets["least"] = [least]
        length = len(nulls)
        self.value_sets |= {
            "nulls": [nulls],
            "all null": [nulls_like(nulls)],
            "empty": [some[:0]],
            "sliced": [concat_arrays([nulls] * 3)[length - 1 : 2 * length + 1]],
            "chunks": [some[:2], some[:0], nulls],
        }

    def __repr__(self):
        return self.name

    def table(self, set_name: str) -> pa.Table:
        return with_row_numbers(self.value_sets[set_name], self.type)


def with_row_numbers(chunks: list[pa.Array], data_type: pa.DataType) -> pa.Table:
    """Returns a table with the chunks as the column ``x``, and row numbers as the column ``n``."""
    bounds = list(itertools.accumulate((len(chunk) for chunk in chunks), initial=0))
    numbers = [pa.array(range(start, end), pa.int64()) for start, end in itertools.pairwise(bounds)]
    return pa.table({"n": pa.chunked_array(numbers, pa.int64()), "x": pa.chunked_array(chunks, data_type)})


# ---- types that pyarrow does not support ----


class ForeignCase:
    """A type that pyarrow does not support.

    Its values are NumPy arrays of 4 or 8 bytes per value, which pyarrow exports as integers; ``format`` is the type's
    format string in the C data interface.
    """

    def __init__(self, name, format, some, extreme):
        self.name, self.type, self.format = name, None, format
        nulls = np.repeat(some, 2)
        alternating = np.arange(len(nulls)) % 2 == 0
        # Pairs of values and validity.
        self.value_sets = {
            "some": (some, None),
            "extreme": (extreme, None),
            "nulls": (nulls, alternating),
            "all null": (nulls, np.zeros(len(nulls), bool)),
            "empty": (some[:0], None),
        }

    def __repr__(self):
        return self.name

    def table(self, set_name):
        values, valid = self.value_sets[set_name]
        return ForeignTable(self.format, values, valid)


class ForeignTable:
    """The columns ``n`` and ``x``, exported with a format string that pyarrow does not have."""

    def __init__(self, format, values, valid):
        self.format, self.values, self.valid = format, values, valid
        self.num_rows = len(values)

    def __arrow_c_array__(self, requested_schema=None):
        width_type = pa.int32() if self.values.dtype.itemsize == 4 else pa.int64()
        mask = None if self.valid is None else ~self.valid
        x = pa.array(self.values.view(width_type.to_pandas_dtype()), width_type, mask=mask)
        batch = pa.record_batch({"n": pa.array(range(len(x)), pa.int64()), "x": x})
        schema, array = batch.__arrow_c_array__()
        # Replaces the format of `x` in the exported schema.
        get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
        get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        c_schema = CSchema.from_address(get_pointer(schema, b"arrow_schema"))
        c_schema.children[1].contents.format = self.format
        return schema, array

    def to_pylist(self):
        rows = []
        for number, value in enumerate(self.values.tolist()):
            if self.valid is not None and not self.valid[number]:
                interval = None
            elif self.format == b"tiM":
                interval = (value, 0, 0)
            else:
                days, milliseconds = value
                interval = (0, days, milliseconds * 1_000_000)
            rows.append({"n": number, "x": interval})
        return rows


class CSchema(ctypes.Structure):
    """The first fields of ``ArrowSchema``, up to the children."""


CSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(CSchema))),
]


# ---- arrays ----


def concat_arrays(arrays: list[pa.Array]) -> pa.Array:
    """Concatenates arrays of one type; dictionary arrays share a dictionary, or have an empty one."""
    data_type = arrays[0].type
    if pa.types.is_dictionary(data_type):
        # `pa.concat_arrays` can't merge dictionaries of lists.
        values = max((array.dictionary for array in arrays), key=len)
        keys = pa.concat_arrays([array.indices for array in arrays])
        return pa.DictionaryArray.from_arrays(keys, values, ordered=data_type.ordered)
    return pa.concat_arrays(arrays)


def interleave_nulls(array: pa.Array) -> pa.Array:
    """Returns the values of `array` with a null after each."""
    null = nulls_like(array[:1])
    parts = []
    for index in range(len(array)):
        parts += [array[index : index + 1], null]
    return concat_arrays(parts)


def nulls_like(array: pa.Array) -> pa.Array:
    """Returns an array of nulls with the type and length of `array`."""
    data_type, length = array.type, len(array)
    if pa.types.is_run_end_encoded(data_type):
        run_ends = pa.array([length] if length else [], data_type.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(run_ends, pa.nulls(min(length, 1), data_type.value_type))
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, nulls_like(array.storage))
    if pa.types.is_union(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        return make_union(data_type.mode, [(0, None)] * length, fields)
    if pa.types.is_list(data_type) and pa.types.is_run_end_encoded(data_type.value_type):
        # `pa.nulls` would give the run-end encoded items a validity bitmap, which they can't have.
        offsets = pa.array([*[None] * length, 0], pa.int32())
        return pa.ListArray.from_arrays(offsets, array.values[:0])
    return pa.nulls(length, data_type)


def make_union(mode: str, tagged_values: list[tuple[int, Any]], fields: list[pa.Field]) -> pa.UnionArray:
    """Returns a union array of pairs: the index of a field, and a value of it."""
    type_codes = pa.array([code for code, _ in tagged_values], pa.int8())
    names = [field.name for field in fields]
    if mode == "sparse":
        columns = [
            pa.array([value if code == index else None for code, value in tagged_values], field.type)
            for index, field in enumerate(fields)
        ]
        return pa.UnionArray.from_sparse(type_codes, columns, names)
    columns = [
        pa.array([value for code, value in tagged_values if code == index], field.type)
        for index, field in enumerate(fields)
    ]
    counts = [0] * len(fields)
    offsets = []
    for code, _ in tagged_values:
        offsets.append(counts[code])
        counts[code] += 1
    return pa.UnionArray.from_dense(type_codes, pa.array(offsets, pa.int32()), columns, names)


def make_lists(items: pa.Array, lengths: list[int]) -> pa.ListArray:
    """Returns a list array over the first of `items`."""
    offsets = list(itertools.accumulate(lengths, initial=0))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items[: offsets[-1]])


def make_dictionary(keys: list, index_type: pa.DataType, values: pa.Array, ordered: bool = False) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(keys, index_type), values, ordered=ordered)


def reinterpret_integers(integers: list[int], data_type: pa.DataType, width_type: pa.DataType) -> pa.Array:
    """Returns integers as the memory of `data_type`, for values that pyarrow can't convert."""
    return pa.array(integers, width_type).view(data_type)


def scaled_decimals(integers: list[int], scale: int) -> list[Decimal]:
    return [Decimal(integer).scaleb(-scale, DECIMAL_CONTEXT) for integer in integers]


# ---- types ----


def case_of_values(
    name: str, data_type: pa.DataType, some: list, extreme: list | None = None, odd: list | None = None
) -> TypeCase:
    """Returns a case whose values pyarrow converts from Python."""
    return TypeCase(
        name,
        pa.array(some, data_type),
        None if extreme is None else pa.array(extreme, data_type),
        None if odd is None else pa.array(odd, data_type),
    )


def run_end_encoded_case(name: str, values: pa.Array, run_end_type: pa.DataType) -> TypeCase:
    with_nulls = concat_arrays([values, pa.nulls(2, values.type), values])
    return TypeCase(
        name,
        pc.run_end_encode(values, run_end_type=run_end_type),
        nulls=pc.run_end_encode(with_nulls, run_end_type=run_end_type),
    )


def numeric_cases() -> Iterator[TypeCase]:
    for bits in (8, 16, 32, 64):
        maximum = 2 ** (bits - 1) - 1
        yield case_of_values(f"int{bits}", pa.type_for_alias(f"int{bits}"), [1, -2, 100], [-maximum - 1, maximum, 0])
    for bits in (8, 16, 32, 64):
        maximum = 2**bits - 1
        yield case_of_values(
            f"uint{bits}", pa.type_for_alias(f"uint{bits}"), [1, 2, 100], [0, maximum, maximum // 2 + 1]
        )
    for bits in (16, 32, 64):
        info = np.finfo(f"float{bits}")
        extreme = [info.max, info.min, info.smallest_subnormal, info.tiny, 0.1, 1 / 3]
        value_lists = ([1.5, -2.25, 100], extreme, [np.nan, np.inf, -np.inf, -0.0])
        yield TypeCase(f"float{bits}", *(pa.array(np.array(values, info.dtype)) for values in value_lists))
    yield case_of_values("bool", pa.bool_(), [True, False, False])
    for bits, digits in (32, 9), (64, 18), (128, 38), (256, 76):
        make_type = getattr(pa, f"decimal{bits}")
        maximum = 10**digits - 1
        yield case_of_values(
            f"decimal{bits}({digits}, 2)",
            make_type(digits, 2),
            scaled_decimals([150, -225, 10000], 2),
            scaled_decimals([maximum, -maximum, 0, 1], 2),
        )
    yield case_of_values(
        "decimal128(9, -3)", pa.decimal128(9, -3), [Decimal("1E3"), Decimal("-12E3")], [Decimal(10**12 - 1000)]
    )


def date_cases() -> Iterator[TypeCase]:
    some = [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
    # Days in the years 0, -1 and 10000 and beyond, which Python's `date` does not have.
    outside_python = [-719_528, -719_529, 2_932_897, 3_000_000]
    days = [*outside_python, INT32_MIN, INT32_MAX]
    yield TypeCase("date32", pa.array(some, pa.date32()), reinterpret_integers(days, pa.date32(), pa.int32()))
    milliseconds = [day * MILLISECONDS_PER_DAY for day in outside_python]
    for limit in (INT64_MIN + MILLISECONDS_PER_DAY, INT64_MAX):
        milliseconds.append(limit // MILLISECONDS_PER_DAY * MILLISECONDS_PER_DAY)
    yield TypeCase("date64", pa.array(some, pa.date64()), reinterpret_integers(milliseconds, pa.date64(), pa.int64()))


def time_of_day_cases() -> Iterator[TypeCase]:
    for unit, second in TICKS_PER_SECOND.items():
        is_32_bit = unit in ("s", "ms")
        data_type = pa.time32(unit) if is_32_bit else pa.time64(unit)
        width_type = pa.int32() if is_32_bit else pa.int64()
        some = [3723 * second, 43200 * second + second // 2]
        extreme = [0, 86400 * second - 1]
        yield TypeCase(
            str(data_type),
            reinterpret_integers(some, data_type, width_type),
            reinterpret_integers(extreme, data_type, width_type),
        )


def timestamp_cases() -> Iterator[TypeCase]:
    for zone in (None, "UTC", "Europe/Berlin", "+05:30"):
        for unit, second in TICKS_PER_SECOND.items():
            if zone not in (None, "UTC") and unit not in ("s", "ns"):
                continue
            data_type = pa.timestamp(unit, zone)
            name = f"timestamp[{unit}{', ' + zone if zone else ''}]"
            some = [1_709_210_096 * second + second // 2, -second - second // 2, 0]
            extreme = [INT64_MIN + 1, INT64_MAX, 123_456_789]
            if unit != "ns":
                # Years that Python's `datetime` does not have.
                extreme += [-62_198_755_200 * second, 260_000_000_000 * second]
            yield TypeCase(
                name,
                reinterpret_integers(some, data_type, pa.int64()),
                reinterpret_integers(extreme, data_type, pa.int64()),
                least=reinterpret_integers([INT64_MIN], data_type, pa.int64()),
            )


def duration_cases() -> Iterator[TypeCase]:
    for unit, second in TICKS_PER_SECOND.items():
        data_type = pa.duration(unit)
        some = [93_784 * second + second // 2, -second, 0]
        extreme = [INT64_MIN + 1, INT64_MAX, 1]
        yield TypeCase(
            str(data_type),
            reinterpret_integers(some, data_type, pa.int64()),
            reinterpret_integers(extreme, data_type, pa.int64()),
            least=reinterpret_integers([INT64_MIN], data_type, pa.int64()),
        )


def interval_cases() -> Iterator[TypeCase | ForeignCase]:
    yield ForeignCase(
        "interval[year_month]", b"tiM", np.array([14, -14, 0], "i4"), np.array([INT32_MIN, INT32_MAX], "i4")
    )
    day_time = np.dtype([("days", "i4"), ("milliseconds", "i4")])
    yield ForeignCase(
        "interval[day_time]",
        b"tiD",
        np.array([(1, 500), (-1, -500), (0, 0)], day_time),
        np.array([(INT32_MIN, INT32_MIN), (INT32_MAX, INT32_MAX)], day_time),
    )
    yield case_of_values(
        "interval[month_day_nano]",
        pa.month_day_nano_interval(),
        [(14, -3, 1_000_000_001), (0, 1, 0), (0, 0, 0)],
        [(INT32_MAX, INT32_MAX, INT64_MAX), (INT32_MIN, INT32_MIN, INT64_MIN)],
    )


WORDS = ["one", "", "longer than twelve bytes", "żółć 漢字 🦉"]
ODD_WORDS = [
    'a "quoted", word',
    "two\nlines",
    "NA",
    "null",
    " spaces ",
    "tab\there",
    "back\\slash",
    "1",
    "\r\n",
    "x\0y",
]
BYTES = [b"one", b"", b"\x00\xff\x80", b"longer than twelve bytes"]


def text_cases() -> Iterator[TypeCase]:
    for name, data_type in (("utf8", pa.string()), ("large_utf8", pa.large_string()), ("utf8_view", pa.string_view())):
        yield case_of_values(name, data_type, WORDS, odd=ODD_WORDS)
    for name, data_type in (
        ("binary", pa.binary()),
        ("large_binary", pa.large_binary()),
        ("binary_view", pa.binary_view()),
    ):
        yield case_of_values(name, data_type, BYTES)
    yield case_of_values("fixed_size_binary[3]", pa.binary(3), [b"abc", b"\x00\xff\x80"])
    yield case_of_values("fixed_size_binary[0]", pa.binary(0), [b"", b""])


def dictionary_cases() -> Iterator[TypeCase]:
    words = pa.array(["x", "y", "z"])
    for index_type in (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()):
        null_in_dictionary = make_dictionary([0, 1, 0, None], index_type, pa.array(["x", None]))
        yield TypeCase(
            f"dictionary<{index_type}, utf8>", make_dictionary([0, 2, 0], index_type, words), odd=null_in_dictionary
        )
    ordered = make_dictionary([2, 0, 1], pa.int8(), pa.array(["z", "y", "x"]), ordered=True)
    yield TypeCase("dictionary<int8, utf8> ordered", ordered)
    for name, values in [
        ("large_utf8", words.cast(pa.large_string())),
        ("utf8_view", words.cast(pa.string_view())),
        ("binary", pa.array(BYTES[:3])),
        ("fixed_size_binary[3]", pa.array([b"abc", b"def", b"ghi"], pa.binary(3))),
        ("int64", pa.array([7, INT64_MIN, INT64_MAX])),
        ("uint8", pa.array([1, 2, 255], pa.uint8())),
        ("float64", pa.array([1.5, -0.25, 1e300])),
        ("bool", pa.array([True, False, None])),
        ("decimal128(10, 2)", pa.array([Decimal("1.50"), Decimal("-2.25"), Decimal("0.00")], pa.decimal128(10, 2))),
        ("date32", pa.array([0, 1, 20000], pa.int32()).cast(pa.date32())),
        ("timestamp[us, UTC]", pa.array([0, 1, 10**15], pa.timestamp("us", "UTC"))),
        ("duration[ms]", pa.array([0, 1, 10**15], pa.duration("ms"))),
        ("list<int32>", pa.array([[1, 2], [], [3]], pa.list_(pa.int32()))),
        ("struct<a: int32>", pa.array([{"a": 1}, {"a": 2}, {"a": None}], pa.struct([("a", pa.int32())]))),
    ]:
        yield TypeCase(f"dictionary<int32, {name}>", make_dictionary([0, 2, 1], pa.int32(), values))


def list_cases() -> Iterator[TypeCase]:
    some = [[1, 2], [], [3]]
    for name, make_type in [
        ("list", pa.list_),
        ("large_list", pa.large_list),
        ("list_view", pa.list_view),
        ("large_list_view", pa.large_list_view),
    ]:
        yield case_of_values(f"{name}<int32>", make_type(pa.int32()), some, [[None], [INT32_MIN, None, INT32_MAX]])
    yield case_of_values("fixed_size_list<float32>[2]", pa.list_(pa.float32(), 2), [[0.5, 1.5], [-1, 2]], [[None, 1]])
    yield case_of_values("fixed_size_list<utf8>[1]", pa.list_(pa.string(), 1), [["x"], [""]], [[None]])
    for name, item_type, values in [
        ("bool", pa.bool_(), [[True, False], [], [None]]),
        ("utf8", pa.string(), [["x", ""], [], [None, "ünï"]]),
        ("binary", pa.binary(), [[b"x", b""], [], [None]]),
        ("float64", pa.float64(), [[1.5, float("nan"), float("-inf")], [], [None]]),
        ("decimal128(10, 2)", pa.decimal128(10, 2), [[Decimal("1.50")], [], [None]]),
        ("date32", pa.date32(), [[dt.date(2024, 2, 29)], [], [None]]),
        ("timestamp[us, UTC]", pa.timestamp("us", "UTC"), [[1, 2], [], [None]]),
        ("duration[ms]", pa.duration("ms"), [[1, 2], [], [None]]),
        ("interval[month_day_nano]", pa.month_day_nano_interval(), [[(1, 2, 3)], [], [None]]),
        ("null", pa.null(), [[None], [], [None, None]]),
        ("dictionary<int8, utf8>", pa.dictionary(pa.int8(), pa.string()), [["x", "y"], [], [None, "x"]]),
        ("list<int32>", pa.list_(pa.int32()), [[[1], []], [], [None, [None]]]),
        ("fixed_size_list<int32>[2]", pa.list_(pa.int32(), 2), [[[1, 2], [3, 4]], [], [[None, 5]]]),
        ("map<utf8, int32>", pa.map_(pa.string(), pa.int32()), [[[("a", 1)], []], [], [None]]),
        ("struct<a: int32>", pa.struct([("a", pa.int32())]), [[{"a": 1}, {"a": None}], [], [None]]),
    ]:
        yield case_of_values(f"list<{name}>", pa.list_(item_type), values)
    words = pc.run_end_encode(pa.array(["x", "x", "y"]), run_end_type=pa.int32())
    yield TypeCase("list<run_end_encoded<int32, utf8>>", make_lists(words, [2, 0, 1]))
    yield TypeCase("list<sparse_union<a: int32, b: utf8>>", make_lists(make_int_text_union("sparse"), [2, 0, 1]))


def struct_cases() -> Iterator[TypeCase]:
    pair = pa.struct([("a", pa.int32()), ("b", pa.string())])
    yield case_of_values(
        "struct<a: int32, b: utf8>", pair, [{"a": 1, "b": "x"}, {"a": 2, "b": ""}], [{"a": None, "b": None}]
    )
    yield case_of_values("struct<>", pa.struct([]), [{}, {}])
    required = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    yield case_of_values("struct<a: int32 not null>", required, [{"a": 1}, {"a": 2}])
    wide = pa.struct([
        ("t", pa.timestamp("us", "UTC")),
        ("d", pa.dictionary(pa.int8(), pa.string())),
        ("l", pa.large_list(pa.decimal128(10, 2))),
        ("v", pa.list_view(pa.string_view())),
        ("m", pa.map_(pa.string(), pa.struct([("p", pa.float64()), ("q", pa.list_(pa.int16()))]))),
    ])  # fmt: skip
    full = {
        "t": 1,
        "d": "x",
        "l": [Decimal("1.50"), None],
        "v": ["x", None],
        "m": [("k", {"p": 0.5, "q": [1]}), ("l", None)],
    }
    yield case_of_values("struct of five nested", wide, [full, {**full, "l": [], "m": []}], [dict.fromkeys(full)])
    deep = pa.list_(pa.struct([("x", pa.list_(pa.string())), ("y", pa.map_(pa.string(), pa.timestamp("us")))]))
    yield case_of_values(
        "list<struct<x: list, y: map>>", deep, [[{"x": ["a"], "y": [("k", 1)]}], []], [[None, {"x": None, "y": None}]]
    )


def map_cases() -> Iterator[TypeCase]:
    yield case_of_values("map<utf8, int32>", pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], [], [("", 2)]])
    sorted_keys = pa.map_(pa.string(), pa.int32(), keys_sorted=True)
    yield case_of_values("map<utf8, int32> sorted", sorted_keys, [[("a", 1), ("b", None)], [], [("c", 2)]])
    yield case_of_values(
        "map<int64, utf8>", pa.map_(pa.int64(), pa.string()), [[(1, "a"), (2**62, None)], [], [(-1, "b")]]
    )
    yield case_of_values("map<date32, bool>", pa.map_(pa.date32(), pa.bool_()), [[(dt.date(2024, 2, 29), True)], []])
    yield case_of_values("map<binary, float64>", pa.map_(pa.binary(), pa.float64()), [[(b"\xff", 0.5)], []])
    map_of_lists = pa.map_(pa.string(), pa.list_(pa.struct([("a", pa.int32())])))
    yield case_of_values("map<utf8, list<struct>>", map_of_lists, [[("k", [{"a": 1}, None])], [("l", None)], []])


def make_int_text_union(mode: str, with_nulls: bool = False) -> pa.UnionArray:
    fields = [pa.field("a", pa.int32()), pa.field("b", pa.string())]
    tagged_values = [(0, 1), (1, "x"), (0, 2), (1, "")]
    if with_nulls:
        tagged_values += [(0, None), (1, None)]
    return make_union(mode, tagged_values, fields)


def union_cases() -> Iterator[TypeCase]:
    for mode in ("dense", "sparse"):
        yield TypeCase(
            f"{mode}_union<a: int32, b: utf8>",
            make_int_text_union(mode),
            nulls=make_int_text_union(mode, with_nulls=True),
        )
    struct = pa.StructArray.from_arrays([make_int_text_union("dense")], ["u"])
    yield TypeCase("struct<u: dense_union>", struct)


def run_end_encoded_cases() -> Iterator[TypeCase]:
    letters = pa.array(["x", "x", "y", "y", "y"])
    for run_end_type in (pa.int16(), pa.int32(), pa.int64()):
        yield run_end_encoded_case(f"run_end_encoded<{run_end_type}, utf8>", letters, run_end_type)
    for name, values in [
        ("int64", pa.array([1, 1, INT64_MIN, INT64_MAX])),
        ("float64", pa.array([1.5, 1.5, float("inf")])),
        ("bool", pa.array([True, True, False])),
        ("timestamp[us, UTC]", pa.array([1, 1, 2], pa.timestamp("us", "UTC"))),
        ("decimal128(10, 2)", pa.array([Decimal("1.50")] * 2, pa.decimal128(10, 2))),
    ]:
        yield run_end_encoded_case(f"run_end_encoded<int32, {name}>", values, pa.int32())
    lists = pa.array([[1], [], None], pa.list_(pa.int32()))
    encoded_lists = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), lists)
    yield TypeCase("run_end_encoded<int32, list<int32>>", encoded_lists[:3], nulls=encoded_lists)


def null_cases() -> Iterator[TypeCase]:
    yield TypeCase("null", pa.nulls(3), nulls=pa.nulls(3))


def extension_cases() -> Iterator[TypeCase]:
    ids = [uuid.UUID(int=number).bytes for number in (0, 2**128 - 1, 0x1234567812345678 << 64)]
    for name, data_type, storage in [
        ("arrow.uuid", pa.uuid(), pa.array(ids, pa.binary(16))),
        ("arrow.json", pa.json_(), pa.array(['{"a": 1}', "[1, null]", '"x"'])),
        ("arrow.bool8", pa.bool8(), pa.array([1, 0, 1], pa.int8())),
        (
            "arrow.fixed_shape_tensor",
            pa.fixed_shape_tensor(pa.float32(), [2, 2]),
            pa.array([[1, 2, 3, 4], [0, 0, 0, 0.5]], pa.list_(pa.float32(), 4)),
        ),
        ("arrow.opaque", pa.opaque(pa.binary(), "geometry", "somebody"), pa.array(BYTES)),
        ("an unknown extension", MoneyType(), pa.array([150, -225], pa.int64())),
    ]:
        yield TypeCase(name, pa.ExtensionArray.from_storage(data_type, storage))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(ids, pa.binary(16)))
    yield TypeCase("list<arrow.uuid>", make_lists(uuids, [2, 0, 1]))
    yield TypeCase("struct<a: arrow.uuid>", pa.StructArray.from_arrays([uuids], ["a"]))


class MoneyType(pa.ExtensionType):
    """An extension type that Arrowwood does not know."""

    def __init__(self):
        super().__init__(pa.int64(), "example.money")

    def __arrow_ext_serialize__(self):
        return b"EUR"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


pa.register_extension_type(MoneyType())


TYPE_CASES = [
    *numeric_cases(),
    *date_cases(),
    *time_of_day_cases(),
    *timestamp_cases(),
    *duration_cases(),
    *interval_cases(),
    *text_cases(),
    *dictionary_cases(),
    *list_cases(),
    *struct_cases(),
    *map_cases(),
    *union_cases(),
    *run_end_encoded_cases(),
    *null_cases(),
    *extension_cases(),
]
