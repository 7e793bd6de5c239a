"""The types of the matrix of borders, each with values: one table, ``KINDS``."""

import ctypes
import datetime as dt
import itertools
import uuid
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Of more digits than any decimal has.
LONG = Context(prec=100)
INT64 = (-(2**63), 2**63 - 1)
DAY = 86_400_000


class Kind:
    """A type, and what is taken over borders of it.

    ``sets`` has arrays by name: ``some`` values without nulls, ``extreme`` ones, those of a kind's own (``odd``), the
    least number of 64 bits, which in NumPy means that there is no time (``least``), and what follows from these: with
    ``nulls``, ``all null``, ``empty``, ``sliced``, in ``chunks``.
    """

    def __init__(self, name, some, extreme=None, odd=None, least=None, nulls=None):
        self.name, self.type = name, some.type
        # Types without nulls of their own have them in their values.
        nulls = with_nulls(some) if nulls is None else nulls
        self.sets = {"some": [some]}
        if extreme is not None:
            self.sets["extreme"] = [extreme]
        if odd is not None:
            self.sets["odd"] = [odd]
        if least is not None:
            self.sets["least"] = [least]
        length = len(nulls)
        self.sets |= {
            "nulls": [nulls],
            "all null": [only_nulls(nulls)],
            "empty": [some[:0]],
            "sliced": [joined([nulls] * 3)[length - 1 : 2 * length + 1]],
            "chunks": [some[:2], some[:0], nulls],
        }

    def __repr__(self):
        return self.name

    def table(self, name):
        """The values called `name` in the column ``x``, beside the number of each in ``n``."""
        return beside_numbers(self.sets[name], self.type)


def beside_numbers(chunks, kind):
    x = pa.chunked_array(chunks, kind)
    ends = list(itertools.accumulate((len(chunk) for chunk in chunks), initial=0))
    n = [pa.array(range(start, end), pa.int64()) for start, end in itertools.pairwise(ends)]
    return pa.table({"n": pa.chunked_array(n, pa.int64()), "x": x})


# ---- arrays ----


def joined(arrays):
    kind = arrays[0].type
    if pa.types.is_dictionary(kind):
        # All of one dictionary, or of nulls: pyarrow does not merge those of lists.
        values = max((array.dictionary for array in arrays), key=len)
        keys = pa.concat_arrays([array.indices for array in arrays])
        return pa.DictionaryArray.from_arrays(keys, values, ordered=kind.ordered)
    return pa.concat_arrays(arrays)


def with_nulls(array):
    """Every other value, nulls between them."""
    return joined([part for at in range(len(array)) for part in (array[at : at + 1], only_nulls(array[:1]))])


def only_nulls(array):
    """As many nulls as `array` has values."""
    kind = array.type
    if pa.types.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays(
            pa.array([len(array)] if len(array) else [], kind.run_end_type),
            pa.nulls(min(len(array), 1), kind.value_type),
        )
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, only_nulls(array.storage))
    if pa.types.is_union(kind):
        return union(kind.mode, [(0, None)] * len(array), [kind.field(at) for at in range(kind.num_fields)])
    if pa.types.is_list(kind) and pa.types.is_run_end_encoded(kind.value_type):
        # pyarrow would give the items, which are none, a bitmap.
        offsets = pa.array([*[None] * len(array), 0], pa.int32())
        return pa.ListArray.from_arrays(offsets, array.values[:0])
    return pa.nulls(len(array), kind)


def union(mode, tagged, fields):
    """A union of `fields` with the values of pairs of a field's number and its value."""
    codes = pa.array([code for code, _ in tagged], pa.int8())
    names = [field.name for field in fields]
    if mode == "sparse":
        columns = [
            pa.array([value if code == at else None for code, value in tagged], field.type)
            for at, field in enumerate(fields)
        ]
        return pa.UnionArray.from_sparse(codes, columns, names)
    columns = [pa.array([value for code, value in tagged if code == at], field.type) for at, field in enumerate(fields)]
    counts = [0] * len(fields)
    offsets = []
    for code, _ in tagged:
        offsets.append(counts[code])
        counts[code] += 1
    return pa.UnionArray.from_dense(codes, pa.array(offsets, pa.int32()), columns, names)


def lists_of(items, lengths, make=pa.ListArray):
    offsets = list(itertools.accumulate(lengths, initial=0))
    return make.from_arrays(pa.array(offsets, pa.int32()), items[: offsets[-1]])


def stored(numbers, kind, width):
    """Numbers in the memory of `kind`, whose values pyarrow does not take as numbers."""
    return pa.array(numbers, width).view(kind)


# ---- the table ----


def plain(name, kind, some, extreme=None, odd=None):
    def make(values):
        return None if values is None else pa.array(values, kind)

    return Kind(name, make(some), make(extreme), make(odd))


def numbers():
    for bits in (8, 16, 32, 64):
        kind, most = pa.type_for_alias(f"int{bits}"), 2 ** (bits - 1) - 1
        yield plain(f"int{bits}", kind, [1, -2, 100], [-most - 1, most, 0])
    for bits in (8, 16, 32, 64):
        kind, most = pa.type_for_alias(f"uint{bits}"), 2**bits - 1
        yield plain(f"uint{bits}", kind, [1, 2, 100], [0, most, most // 2 + 1])
    for bits in (16, 32, 64):
        info = np.finfo(f"float{bits}")
        of = lambda values: pa.array(np.array(values, info.dtype))
        ends = [info.max, info.min, info.smallest_subnormal, info.tiny]
        odd = [np.nan, np.inf, -np.inf, -0.0]
        yield Kind(f"float{bits}", of([1.5, -2.25, 100]), of([*ends, 0.1, 1 / 3]), of(odd))
    yield plain("bool", pa.bool_(), [True, False, False])
    for bits, digits in (32, 9), (64, 18), (128, 38), (256, 76):
        make = getattr(pa, f"decimal{bits}")
        of = lambda values, scale: [Decimal(value).scaleb(-scale, LONG) for value in values]
        most = 10**digits - 1
        yield plain(
            f"decimal{bits}({digits}, 2)", make(digits, 2), of([150, -225, 10000], 2), of([most, -most, 0, 1], 2)
        )
    yield plain("decimal128(9, -3)", pa.decimal128(9, -3), [Decimal("1E3"), Decimal("-12E3")], [Decimal(10**12 - 1000)])


def times():
    some = [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
    # Of the years 0, -1 and 10000, which the calendar of Python has not.
    far = [-719_528, -719_529, 2_932_897, 3_000_000]
    days = stored([*far, -(2**31), 2**31 - 1], pa.date32(), pa.int32())
    yield Kind("date32", pa.array(some, pa.date32()), days)
    ends = [end // DAY * DAY for end in (INT64[0] + DAY, INT64[1])]
    milliseconds = stored([*(day * DAY for day in far), *ends], pa.date64(), pa.int64())
    yield Kind("date64", pa.array(some, pa.date64()), milliseconds)
    for unit, each in UNITS.items():
        kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        width = pa.int32() if unit in ("s", "ms") else pa.int64()
        of = lambda numbers: stored(numbers, kind, width)
        yield Kind(f"{kind}", of([3723 * each, 43200 * each + each // 2]), of([0, 86400 * each - 1]))
    for zone in (None, "UTC", "Europe/Berlin", "+05:30"):
        for unit, each in UNITS.items():
            if zone not in (None, "UTC") and unit not in ("s", "ns"):
                continue
            kind = pa.timestamp(unit, zone)
            name = f"timestamp[{unit}{', ' + zone if zone else ''}]"
            some = stored([1_709_210_096 * each + each // 2, -each - each // 2, 0], kind, pa.int64())
            far = [] if unit == "ns" else [-62_198_755_200 * each, 260_000_000_000 * each]
            extreme = stored([INT64[0] + 1, INT64[1], 123_456_789, *far], kind, pa.int64())
            yield Kind(name, some, extreme, least=stored(INT64[:1], kind, pa.int64()))
    for unit, each in UNITS.items():
        kind = pa.duration(unit)
        some = stored([93_784 * each + each // 2, -each, 0], kind, pa.int64())
        extreme = stored([INT64[0] + 1, INT64[1], 1], kind, pa.int64())
        yield Kind(f"{kind}", some, extreme, least=stored(INT64[:1], kind, pa.int64()))
    yield Foreign("interval[year_month]", b"tiM", np.array([14, -14, 0], "i4"), np.array([-(2**31), 2**31 - 1], "i4"))
    pair = np.dtype([("days", "i4"), ("milliseconds", "i4")])
    yield Foreign(
        "interval[day_time]",
        b"tiD",
        np.array([(1, 500), (-1, -500), (0, 0)], pair),
        np.array([(-(2**31), -(2**31)), (2**31 - 1, 2**31 - 1)], pair),
    )
    yield plain(
        "interval[month_day_nano]",
        pa.month_day_nano_interval(),
        [(14, -3, 1_000_000_001), (0, 1, 0), (0, 0, 0)],
        [(2**31 - 1, 2**31 - 1, 2**63 - 1), (-(2**31), -(2**31), -(2**63))],
    )


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

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


def texts():
    for name, kind in (("utf8", pa.string()), ("large_utf8", pa.large_string()), ("utf8_view", pa.string_view())):
        yield plain(name, kind, WORDS, odd=ODD_WORDS)
    for name, kind in (("binary", pa.binary()), ("large_binary", pa.large_binary()), ("binary_view", pa.binary_view())):
        yield plain(name, kind, BYTES)
    yield plain("fixed_size_binary[3]", pa.binary(3), [b"abc", b"\x00\xff\x80"])
    yield plain("fixed_size_binary[0]", pa.binary(0), [b"", b""])


def dictionaries():
    words = pa.array(["x", "y", "z"])
    of = lambda keys, index, values, ordered=False: pa.DictionaryArray.from_arrays(
        pa.array(keys, index), values, ordered=ordered
    )
    for index in (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()):
        null_inside = of([0, 1, 0, None], index, pa.array(["x", None]))
        yield Kind(f"dictionary<{index}, utf8>", of([0, 2, 0], index, words), odd=null_inside)
    yield Kind("dictionary<int8, utf8> ordered", of([2, 0, 1], pa.int8(), pa.array(["z", "y", "x"]), True))
    for name, values in [
        ("large_utf8", words.cast(pa.large_string())),
        ("utf8_view", words.cast(pa.string_view())),
        ("binary", pa.array(BYTES[:3])),
        ("fixed_size_binary[3]", pa.array([b"abc", b"def", b"ghi"], pa.binary(3))),
        ("int64", pa.array([7, *INT64])),
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
        yield Kind(f"dictionary<int32, {name}>", of([0, 2, 1], pa.int32(), values))


def lists():
    inner = [[1, 2], [], [3]]
    for name, kind in [
        ("list", pa.list_),
        ("large_list", pa.large_list),
        ("list_view", pa.list_view),
        ("large_list_view", pa.large_list_view),
    ]:
        yield plain(f"{name}<int32>", kind(pa.int32()), inner, [[None], [-(2**31), None, 2**31 - 1]])
    yield plain("fixed_size_list<float32>[2]", pa.list_(pa.float32(), 2), [[0.5, 1.5], [-1, 2]], [[None, 1]])
    yield plain("fixed_size_list<utf8>[1]", pa.list_(pa.string(), 1), [["x"], [""]], [[None]])
    for name, item, values in [
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
        yield plain(f"list<{name}>", pa.list_(item), values)
    words = pc.run_end_encode(pa.array(["x", "x", "y"]), run_end_type=pa.int32())
    yield Kind("list<run_end_encoded<int32, utf8>>", lists_of(words, [2, 0, 1]))
    yield Kind("list<sparse_union<a: int32, b: utf8>>", lists_of(unions("sparse"), [2, 0, 1]))


def structs():
    pair = pa.struct([("a", pa.int32()), ("b", pa.string())])
    yield plain("struct<a: int32, b: utf8>", pair, [{"a": 1, "b": "x"}, {"a": 2, "b": ""}], [{"a": None, "b": None}])
    yield plain("struct<>", pa.struct([]), [{}, {}])
    required = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    yield plain("struct<a: int32 not null>", required, [{"a": 1}, {"a": 2}])
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
    yield plain("struct of five nested", wide, [full, {**full, "l": [], "m": []}], [dict.fromkeys(full)])
    deep = pa.list_(pa.struct([("x", pa.list_(pa.string())), ("y", pa.map_(pa.string(), pa.timestamp("us")))]))
    yield plain(
        "list<struct<x: list, y: map>>", deep, [[{"x": ["a"], "y": [("k", 1)]}], []], [[None, {"x": None, "y": None}]]
    )


def maps():
    yield plain("map<utf8, int32>", pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], [], [("", 2)]])
    sorted_keys = pa.map_(pa.string(), pa.int32(), keys_sorted=True)
    yield plain("map<utf8, int32> sorted", sorted_keys, [[("a", 1), ("b", None)], [], [("c", 2)]])
    yield plain("map<int64, utf8>", pa.map_(pa.int64(), pa.string()), [[(1, "a"), (2**62, None)], [], [(-1, "b")]])
    yield plain("map<date32, bool>", pa.map_(pa.date32(), pa.bool_()), [[(dt.date(2024, 2, 29), True)], []])
    yield plain("map<binary, float64>", pa.map_(pa.binary(), pa.float64()), [[(b"\xff", 0.5)], []])
    of_lists = pa.map_(pa.string(), pa.list_(pa.struct([("a", pa.int32())])))
    yield plain("map<utf8, list<struct>>", of_lists, [[("k", [{"a": 1}, None])], [("l", None)], []])


def unions(mode, nulls=False):
    fields = [pa.field("a", pa.int32()), pa.field("b", pa.string())]
    tagged = [(0, 1), (1, "x"), (0, 2), (1, "")]
    return union(mode, [*tagged, (0, None), (1, None)] if nulls else tagged, fields)


def encoded():
    for mode in ("dense", "sparse"):
        yield Kind(f"{mode}_union<a: int32, b: utf8>", unions(mode), nulls=unions(mode, nulls=True))
    members = unions("dense")
    yield Kind("struct<u: dense_union>", pa.StructArray.from_arrays([members], ["u"]))
    values = pa.array(["x", "x", "y", "y", "y"])
    for run in (pa.int16(), pa.int32(), pa.int64()):
        yield runs(f"run_end_encoded<{run}, utf8>", values, run)
    for name, values in [
        ("int64", pa.array([1, 1, *INT64])),
        ("float64", pa.array([1.5, 1.5, float("inf")])),
        ("bool", pa.array([True, True, False])),
        ("timestamp[us, UTC]", pa.array([1, 1, 2], pa.timestamp("us", "UTC"))),
        ("decimal128(10, 2)", pa.array([Decimal("1.50")] * 2, pa.decimal128(10, 2))),
    ]:
        yield runs(f"run_end_encoded<int32, {name}>", values, pa.int32())
    lists = pa.array([[1], [], None], pa.list_(pa.int32()))
    encoded = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), lists)
    yield Kind("run_end_encoded<int32, list<int32>>", encoded[:3], nulls=encoded)
    yield Kind("null", pa.nulls(3), nulls=pa.nulls(3))


def runs(name, values, run):
    nulls = pc.run_end_encode(joined([values, pa.nulls(2, values.type), values]), run_end_type=run)
    return Kind(name, pc.run_end_encode(values, run_end_type=run), nulls=nulls)


def extensions():
    ids = [uuid.UUID(int=number).bytes for number in (0, 2**128 - 1, 0x1234567812345678 << 64)]
    stored = [
        ("arrow.uuid", pa.uuid(), pa.array(ids, pa.binary(16))),
        ("arrow.json", pa.json_(), pa.array(['{"a": 1}', "[1, null]", '"x"'])),
        ("arrow.bool8", pa.bool8(), pa.array([1, 0, 1], pa.int8())),
        (
            "arrow.fixed_shape_tensor",
            pa.fixed_shape_tensor(pa.float32(), [2, 2]),
            pa.array([[1, 2, 3, 4], [0, 0, 0, 0.5]], pa.list_(pa.float32(), 4)),
        ),
        ("arrow.opaque", pa.opaque(pa.binary(), "geometry", "somebody"), pa.array(BYTES)),
        ("an unknown extension", Money(), pa.array([150, -225], pa.int64())),
    ]
    for name, kind, storage in stored:
        yield Kind(name, pa.ExtensionArray.from_storage(kind, storage))
    of_ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(ids, pa.binary(16)))
    yield Kind("list<arrow.uuid>", lists_of(of_ids, [2, 0, 1]))
    yield Kind("struct<a: arrow.uuid>", pa.StructArray.from_arrays([of_ids], ["a"]))


class Money(pa.ExtensionType):
    """An extension that nobody has heard of."""

    def __init__(self):
        super().__init__(pa.int64(), "example.money")

    def __arrow_ext_serialize__(self):
        return b"EUR"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


pa.register_extension_type(Money())


# ---- types that pyarrow has not ----


class Foreign:
    """A type that pyarrow does not know; its values are numbers of NumPy that another type's arrays hold."""

    def __init__(self, name, format, some, extreme):
        self.name, self.type, self.format = name, None, format
        nulls = np.repeat(some, 2)
        valid = np.arange(len(nulls)) % 2 == 0
        self.numbers = {
            "some": (some, None),
            "extreme": (extreme, None),
            "nulls": (nulls, valid),
            "all null": (nulls, np.zeros(len(nulls), bool)),
            "empty": (some[:0], None),
        }
        self.sets = self.numbers

    def __repr__(self):
        return self.name

    def table(self, name):
        return ForeignTable(self.format, *self.numbers[name])


class ForeignTable:
    """The columns ``n`` and ``x``, as an array that is exported with another format than pyarrow's."""

    def __init__(self, format, numbers, valid):
        self.format, self.numbers, self.valid = format, numbers, valid
        self.num_rows = len(numbers)

    def __arrow_c_array__(self, requested_schema=None):
        width = pa.int32() if self.numbers.dtype.itemsize == 4 else pa.int64()
        mask = None if self.valid is None else ~self.valid
        x = pa.array(self.numbers.view(width.to_pandas_dtype()), width, mask=mask)
        batch = pa.record_batch({"n": pa.array(range(len(x)), pa.int64()), "x": x})
        schema, array = batch.__arrow_c_array__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        struct = CSchema.from_address(get(schema, b"arrow_schema"))
        struct.children[1].contents.format = self.format
        return schema, array

    def to_pylist(self):
        found = []
        for at, number in enumerate(self.numbers.tolist()):
            months, days, nanos = (number, 0, 0) if self.format == b"tiM" else (0, number[0], number[1] * 1_000_000)
            is_null = self.valid is not None and not self.valid[at]
            found.append({"n": at, "x": None if is_null else (months, days, nanos)})
        return found


class CSchema(ctypes.Structure):
    """``ArrowSchema``, down to the children."""


CSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(CSchema))),
]


def kinds():
    makers = (numbers, times, texts, dictionaries, lists, structs, maps, encoded, extensions)
    return [kind for maker in makers for kind in maker()]


KINDS = kinds()
