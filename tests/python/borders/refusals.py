"""What is refused at the borders, and why that may be: the table that the tests hold against what happens."""

import re
from functools import cache


class Refusal:
    """That some ways don't take values of some types, or only some `sets` of them.

    `ways` and `kinds` are patterns of whole names, `message` is a part of what is said. The first one in the table that
    fits a cell applies.
    """

    def __init__(self, ways, kinds, message, why, sets=None):
        self.ways, self.kinds = re.compile(ways), re.compile(kinds)
        self.message, self.why, self.sets = message, why, sets

    def fits(self, border, kind, name):
        is_of_it = self.ways.fullmatch(border.name) and self.kinds.fullmatch(kind.name)
        return bool(is_of_it) and (self.sets is None or name in self.sets)


def refusal_of(border, kind, name):
    """The refusal of the set `name` of a type's values, or None where they come through."""
    return first(border, kind, name)


@cache
def first(border, kind, name):
    return next((it for it in REFUSALS if it.fits(border, kind, name)), None)


# Of the ways that take values of Python, that append to tables, and that are over text.
VALUES = "dicts|row|lists|NumPy in"
APPENDS = f"{VALUES}|build|compact|JSON append|POST JSON|POST CSV|connect|pandas in|.* rows"
PYARROW = "JSON (out|in|append|pyarrow)|CSV (out|in|to pyarrow|of pyarrow)|POST (JSON|CSV)|DoPut|DoGet|open.*|C (import|write|append|columns)|pandas .*|Polars .*|Java .*|Clojure .*"

# The sets that have other values than nulls, also inside.
VALUED = ("some", "nulls", "sliced", "chunks")
# That of large.py.
LARGE = ("large",)

RUNS = r".*run_end_encoded.*"
DICTIONARIES = r"dictionary<int32, (bool|list.*|struct.*)>"
NOT_SCALAR = rf"(.*list|struct|map<|dense_|sparse_).*|{DICTIONARIES.replace('bool|', '')}|run_end_encoded<int32, list.*|arrow.fixed_shape_tensor"
TIMES = r"(timestamp|duration)\[.*"

REFUSALS = [
    # ---- Python ----
    Refusal(
        f"{VALUES}|inferred|pylist|NumPy out",
        TIMES,
        "NumPy takes the number for null",
        "the least number of 64 bits is `NaT` in NumPy, which has the times that Python's classes don't hold",
        ("least",),
    ),
    Refusal(
        "inferred",
        r"(.*map|.*union|struct of five).*",
        "column 'x', row",
        "a list has items of one type: pairs of two, and members of a union, need a schema (pyarrow, too)",
        VALUED,
    ),
    Refusal(
        "inferred",
        r"date64|time64\[ns\]|duration\[m?s\]|timestamp\[m?s\]|timestamp\[u?m?s, .*",
        "column 'x', row",
        "times outside of Python's years beside others have no type that is known without a schema",
        ("extreme",),
    ),
    Refusal(
        "dicts|row|lists",
        r"timestamp\[ns, (Europe|\+).*",
        "it has no time zone",
        "NumPy's times have no zone, and a local time may be two instants or none; those outside of Python's years are taken in UTC, as columns give them",
        ("extreme",),
    ),
    Refusal(
        "NumPy in",
        r"timestamp\[.*, (Europe|\+).*",
        "it has no time zone",
        "NumPy's times have no zone, and a local time may be two instants or none",
    ),
    # ---- what pyarrow has not, or not for pandas ----
    Refusal(PYARROW, r"interval\[(year_month|day_time)\]", "pyarrow: KeyError", "pyarrow has no such type"),
    Refusal(
        "pandas (in|out)",
        r".*union.*|list<run_end.*|list<arrow.uuid>|struct of five nested",
        "Arrow",
        "pyarrow has no conversion to pandas",
    ),
    Refusal(
        "pandas (in|out)",
        r"dictionary<int32, (list|struct).*",
        "unhashable type",
        "categories of pandas are hashed",
    ),
    Refusal(
        "pandas (in|out)",
        r"dictionary<int32, bool>",
        "Categorical categories cannot be null",
        "categories of pandas are not null",
    ),
    Refusal(
        "pandas (in|out)",
        r"dictionary<.*, utf8>",
        "Categorical categories cannot be null",
        "categories of pandas are not null",
        ("odd",),
    ),
    Refusal(
        "pandas (in|out)",
        r"date32|date64|time64\[ns\]",
        "pandas: ",
        "pyarrow makes Python's classes of them, which have no such years and no nanoseconds",
        ("extreme",),
    ),
    Refusal(
        "pandas in", r"struct<a: arrow.uuid>", "pandas: Arrow", "pyarrow does not take back what it gave to pandas"
    ),
    Refusal(
        "pandas in",
        r".*map<.*|list<struct<x.*",
        "pandas: Arrow",
        "pyarrow does not take back what it gave to pandas",
        VALUED,
    ),
    Refusal(
        "pandas in",
        r"list<timestamp.*|dictionary<int32, timestamp.*",
        "column 'x', row",
        "pandas has lost the zone inside of a list or of categories",
    ),
    # ---- tables ----
    Refusal(
        APPENDS,
        rf"{RUNS}|{DICTIONARIES}",
        "can't grow in a table",
        "a run that goes on would change committed rows, and a dictionary's values are bytes in a row, by which their keys are found: bits, lists and structs are none, and each reader of the format refuses them. Both are appended to columns of their values' type",
    ),
    Refusal(
        VALUES,
        r".*union.*",
        "of values one by one",
        "a value of Python does not say of which member it is (pyarrow, too)",
    ),
    Refusal(
        "POST Arrow|DoPut",
        r"struct<u: dense_union>",
        "in the order of their rows",
        "what a few bytes can make large is not taken from a network",
        ("all null",),
    ),
    Refusal(
        "(Java|Clojure) rows",
        NOT_SCALAR,
        "are appended as datasets",
        "a single row has no parts; lists, structs, maps and unions are appended as a dataset",
    ),
    Refusal(
        "C columns",
        NOT_SCALAR,
        "has no plain values",
        "an array of C has values of one size, or text; lists, structs, maps and unions are appended as Arrow data",
    ),
    # ---- text ----
    Refusal(
        "JSON (in|back|append)|POST JSON",
        r".*union.*|dictionary<int32, (list|struct).*",
        "expected a type that text can be read as",
        "a value of JSON does not say of which member it is; dictionaries of lists are read as lists (pyarrow reads neither)",
    ),
    Refusal(
        "CSV (in|back)|POST CSV",
        NOT_SCALAR,
        "expected a type that text can be read as",
        "a field of CSV has no parts (pyarrow, too); JSON has",
    ),
    Refusal(
        "JSON pyarrow|CSV (to|of) pyarrow",
        r".*binary.*",
        "hexadecimal digits",
        "text has no bytes: pyarrow writes them as they are, which may be no text",
    ),
    Refusal(
        "JSON pyarrow",
        r"float16|date.*|time(32|64).*|duration.*|interval.*|dictionary.*|large_list.*|.*list_view.*|fixed_size_list.*"
        r"|list<(float64|date32|duration|interval|null|dictionary|fixed|map|run|sparse|arrow|struct<x).*|struct<a: int32 not.*"
        r"|struct of.*|map.*|.*union.*|run_.*|arrow.*|an unknown.*|struct<a: arrow.*",
        "pyarrow: ",
        "pyarrow does not read them from JSON, or not from text in it",
    ),
    Refusal("JSON pyarrow", r"float(32|64)", "pyarrow: ", "pyarrow reads no NaN from JSON", ("odd",)),
    Refusal(
        "CSV to pyarrow",
        rf"float16|decimal(32|64|256).*|duration.*|interval.*|utf8_view|arrow.*|an unknown.*|{NOT_SCALAR}|{RUNS}"
        r"|dictionary<(u?int8|u?int16|uint32|u?int64), .*|dictionary<int32, (utf8_view|uint8|bool|date32|timestamp|duration).*",
        "pyarrow: Arrow",
        "pyarrow does not read them from CSV, or reads durations as numbers",
    ),
    Refusal(
        "(JSON|CSV to) pyarrow",
        r"timestamp.*|date.*|decimal128\(9, -3\)",
        "pyarrow: Arrow",
        "pyarrow reads years of four digits",
        ("extreme", "least"),
    ),
    Refusal(
        "CSV of pyarrow",
        rf"interval.*|.*utf8_view.*|arrow.*|an unknown.*|{NOT_SCALAR}|{RUNS}",
        "pyarrow: Arrow",
        "pyarrow does not write them as CSV",
    ),
    Refusal(
        "CSV of pyarrow",
        r"timestamp.*|date.*",
        "pyarrow writes",
        "pyarrow writes other years than it was given, or `<value out of range>`",
        ("extreme", "least"),
    ),
    # ---- Polars ----
    Refusal(
        "Polars .*",
        rf"decimal256.*|decimal128\(9, -3\)|timestamp.*\+05:30\]|.*interval.*|fixed_size_binary\[0\]|.*list_view.*|{RUNS}|.*union.*|struct of.*",
        "polars: ",
        "Polars has no such type",
    ),
    Refusal(
        "Polars .*",
        r"fixed_size_list.*|arrow.fixed_shape_tensor",
        "polars: ComputeError",
        "Polars takes no slice of them with nulls",
        ("sliced",),
    ),
    # ---- line protocol ----
    Refusal(
        "line protocol",
        r"(?!(float64|u?int64|bool|utf8|dictionary<int32, utf8>)$).*",
        "line protocol has",
        "the format has five types, and tags",
    ),
    Refusal("line protocol", r"float64", "is no value", "the format has no NaN", ("odd",)),
    # ---- more than 2 GiB ----
    Refusal(
        "inferred",
        r"(large_)?utf8",
        "too many for int32; give less",
        "text without a schema is utf8, in one batch for what is given at once, whose offsets have 32 bits",
        LARGE,
    ),
    Refusal(
        "dicts|lists|(NumPy|pandas) in",
        r"utf8",
        "too many for int32; give less",
        "what is given at once is one batch, whose offsets have 32 bits; large_utf8 has more",
        LARGE,
    ),
    Refusal(
        "append|build|compact|open stream|C append",
        r"dictionary<int32, large_utf8>",
        "the dictionary is full",
        "a dictionary that grows has at most 2^31 bytes",
        LARGE,
    ),
    Refusal(
        "connect",
        r".*",
        "in one commit, a server takes 67108864 at most; commit more often",
        "a commit is one request, of at most 64 MiB",
        LARGE,
    ),
    Refusal(
        "POST Arrow",
        r".*",
        "a body has at most 67108864 bytes, also when it is unpacked; send several",
        "a body has at most 64 MiB",
        LARGE,
    ),
    Refusal("DoPut", r"utf8", "a message has at most 68157440 bytes", "a batch has at most 64 MiB", LARGE),
    Refusal(
        "DoPut",
        r"int8|bool|large_list.*|fixed_size_list.*",
        "Cannot write arrays larger than 2^31 - 1 in length",
        "pyarrow sends no batch of so many rows or items",
        LARGE,
    ),
    Refusal(
        "DoPut",
        r".*",
        "Cannot send record batches exceeding 2GiB yet",
        "pyarrow sends no batch of so many bytes",
        LARGE,
    ),
    Refusal(
        "DoGet",
        r"dictionary<int32, large_utf8>",
        "are more than the 2 GiB of a message of gRPC",
        "a message of protobuf has at most 2 GiB; pyarrow takes a longer one for the end",
        LARGE,
    ),
]
