"""The table of refusals: the values that borders refuse, each with the expected message and the reason.

Tests compare the table with the results of all cells, and it is printed on the page docs/borders.md.
"""

import re
from dataclasses import dataclass
from functools import cache

from .kinds import Case
from .ways import Border


@dataclass(frozen=True, eq=False)
class Refusal:
    """Values that borders refuse.

    ``borders`` and ``types`` are patterns for whole names, and ``message`` is a part of the error message. If
    ``value_sets`` is given, only these sets of values are refused.
    """

    borders: str
    types: str
    message: str
    why: str
    value_sets: tuple[str, ...] | None = None

    def applies_to(self, border: Border, case: Case, set_name: str) -> bool:
        if not re.fullmatch(self.borders, border.name) or not re.fullmatch(self.types, case.name):
            return False
        return self.value_sets is None or set_name in self.value_sets


@cache
def find_refusal(border: Border, case: Case, set_name: str) -> Refusal | None:
    """Returns the first refusal that applies to a cell, or None if its values are accepted."""
    return next((refusal for refusal in REFUSALS if refusal.applies_to(border, case, set_name)), None)


# Patterns of borders: with Python values one by one, with an append to a table, and with pyarrow on the other side.
PYTHON_VALUES = "dicts|row|lists|NumPy in"
APPENDS = f"{PYTHON_VALUES}|build|compact|JSON append|POST JSON|POST CSV|connect|pandas in|.* rows"
PYARROW = (
    "JSON (out|in|append|pyarrow)|CSV (out|in|to pyarrow|of pyarrow)|POST (JSON|CSV)|DoPut|DoGet|open.*"
    "|C (import|write|append|columns)|pandas .*|Polars .*|Java .*|Clojure .*"
)

# Patterns of types.
RUN_END_ENCODED = r".*run_end_encoded.*"
NESTED_DICTIONARIES = r"dictionary<int32, (list.*|struct.*)>"
UNGROWABLE_DICTIONARIES = r"dictionary<int32, (bool|list.*|struct.*)>"
NESTED = (
    rf"(.*list|struct|map<|dense_|sparse_).*|{NESTED_DICTIONARIES}"
    r"|run_end_encoded<int32, list.*|arrow.fixed_shape_tensor"
)
TIMES = r"(timestamp|duration)\[.*"

# The sets with values other than null, also inside nested values.
SETS_WITH_VALUES = ("some", "nulls", "sliced", "chunks")
# The only set of the types in large.py.
LARGE_SET = ("large",)

REFUSALS = [
    # ---- Python ----
    Refusal(
        f"{PYTHON_VALUES}|inferred|pylist|NumPy out",
        TIMES,
        "NumPy takes the number for null",
        "NumPy holds the times that Python's classes can't, and uses the least 64-bit integer for `NaT`",
        ("least",),
    ),
    Refusal(
        "inferred",
        r"(.*map|.*union|struct of five).*",
        "column 'x', row",
        "the items of a list have one type; pairs of two types, and members of a union, need a schema (also in pyarrow)",
        SETS_WITH_VALUES,
    ),
    Refusal(
        "inferred",
        r"date64|time64\[ns\]|duration\[m?s\]|timestamp\[m?s\]|timestamp\[u?m?s, .*",
        "column 'x', row",
        "a mix of Python's times and NumPy's, for years that Python does not have, needs a schema",
        ("extreme",),
    ),
    Refusal(
        "dicts|row|lists",
        r"timestamp\[ns, (Europe|\+).*",
        "it has no time zone",
        "NumPy's times have no zone, and a local time may be two instants or none; years that Python does not have are accepted in UTC, as columns return them",
        ("extreme",),
    ),
    Refusal(
        "NumPy in",
        r"timestamp\[.*, (Europe|\+).*",
        "it has no time zone",
        "NumPy's times have no zone, and a local time may be two instants or none",
    ),
    # ---- pyarrow and pandas ----
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
        "pandas hashes categories",
    ),
    Refusal(
        "pandas (in|out)",
        r"dictionary<int32, bool>",
        "Categorical categories cannot be null",
        "categories of pandas can't be null",
    ),
    Refusal(
        "pandas (in|out)",
        r"dictionary<.*, utf8>",
        "Categorical categories cannot be null",
        "categories of pandas can't be null",
        ("odd",),
    ),
    Refusal(
        "pandas (in|out)",
        r"date32|date64|time64\[ns\]",
        "pandas: ",
        "pyarrow converts them to Python's classes, which have no such years and no nanoseconds",
        ("extreme",),
    ),
    Refusal(
        "pandas in", r"struct<a: arrow.uuid>", "pandas: Arrow", "pyarrow can't convert its own result back from pandas"
    ),
    Refusal(
        "pandas in",
        r".*map<.*|list<struct<x.*",
        "pandas: Arrow",
        "pyarrow can't convert its own result back from pandas",
        SETS_WITH_VALUES,
    ),
    Refusal(
        "pandas in",
        r"list<timestamp.*|dictionary<int32, timestamp.*",
        "column 'x', row",
        "pandas loses the zone inside a list or categories",
    ),
    # ---- tables ----
    Refusal(
        APPENDS,
        rf"{RUN_END_ENCODED}|{UNGROWABLE_DICTIONARIES}",
        "can't grow in a table",
        "extending a run would change committed rows, and a table finds the keys of a dictionary by the bytes of its values, which booleans, lists and structs don't have; readers of the format refuse them, too. Append both to a column of the values' type",
    ),
    Refusal(
        PYTHON_VALUES,
        r".*union.*",
        "of values one by one",
        "a Python value does not tell which member it belongs to (also in pyarrow)",
    ),
    Refusal(
        "POST Arrow|DoPut",
        r"struct<u: dense_union>",
        "in the order of their rows",
        "a few bytes could expand to a large array, which is not accepted from a network",
        ("all null",),
    ),
    Refusal(
        "(Java|Clojure) rows",
        NESTED,
        "are appended as datasets",
        "single rows have no nested values; append lists, structs, maps and unions as a dataset",
    ),
    Refusal(
        "C columns",
        NESTED,
        "has no plain values",
        "an array of C has values of one size, or text; append lists, structs, maps and unions as Arrow data",
    ),
    # ---- text ----
    Refusal(
        "JSON (in|back|append)|POST JSON",
        r".*union.*|dictionary<int32, (list|struct).*",
        "expected a type that text can be read as",
        "a JSON value does not tell which member it belongs to; read dictionaries of lists as lists (pyarrow reads neither)",
    ),
    Refusal(
        "CSV (in|back)|POST CSV",
        NESTED,
        "expected a type that text can be read as",
        "CSV has no nested values (also in pyarrow); JSON has",
    ),
    Refusal(
        "JSON pyarrow|CSV (to|of) pyarrow",
        r".*binary.*",
        "hexadecimal digits",
        "text can't hold bytes; pyarrow writes them unchanged, which may not be valid text",
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
        rf"float16|decimal(32|64|256).*|duration.*|interval.*|utf8_view|arrow.*|an unknown.*|{NESTED}|{RUN_END_ENCODED}"
        r"|dictionary<(u?int8|u?int16|uint32|u?int64), .*|dictionary<int32, (utf8_view|uint8|bool|date32|timestamp|duration).*",
        "pyarrow: Arrow",
        "pyarrow does not read them from CSV, or reads durations as numbers",
    ),
    Refusal(
        "(JSON|CSV to) pyarrow",
        r"timestamp.*|date.*|decimal128\(9, -3\)",
        "pyarrow: Arrow",
        "pyarrow reads only years of four digits",
        ("extreme", "least"),
    ),
    Refusal(
        "CSV of pyarrow",
        rf"interval.*|.*utf8_view.*|arrow.*|an unknown.*|{NESTED}|{RUN_END_ENCODED}",
        "pyarrow: Arrow",
        "pyarrow does not write them as CSV",
    ),
    Refusal(
        "CSV of pyarrow",
        r"timestamp.*|date.*",
        "pyarrow writes",
        "pyarrow writes wrong years, or `<value out of range>`",
        ("extreme", "least"),
    ),
    # ---- Polars ----
    Refusal(
        "Polars .*",
        rf"decimal256.*|decimal128\(9, -3\)|timestamp.*\+05:30\]|.*interval.*|fixed_size_binary\[0\]|.*list_view.*|{RUN_END_ENCODED}|.*union.*|struct of.*",
        "polars: ",
        "Polars has no such type",
    ),
    Refusal(
        "Polars .*",
        r"fixed_size_list.*|arrow.fixed_shape_tensor",
        "polars: ComputeError",
        "Polars does not accept slices of them with nulls",
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
        "without a schema, text becomes utf8 in a single batch, whose offsets have 32 bits",
        LARGE_SET,
    ),
    Refusal(
        "dicts|lists|(NumPy|pandas) in",
        r"utf8",
        "too many for int32; give less",
        "one append makes one batch, whose offsets have 32 bits; large_utf8 has 64",
        LARGE_SET,
    ),
    Refusal(
        "append|build|compact|open stream|C append",
        r"dictionary<int32, large_utf8>",
        "the dictionary is full",
        "a dictionary that grows has at most 2^31 bytes",
        LARGE_SET,
    ),
    Refusal(
        "connect",
        r".*",
        "in one commit, a server takes 67108864 at most; commit more often",
        "a commit is one request, of at most 64 MiB",
        LARGE_SET,
    ),
    Refusal(
        "POST Arrow",
        r".*",
        "a body has at most 67108864 bytes, also when it is unpacked; send several",
        "a body has at most 64 MiB",
        LARGE_SET,
    ),
    Refusal("DoPut", r"utf8", "a message has at most 68157440 bytes", "a batch has at most 64 MiB", LARGE_SET),
    Refusal(
        "DoPut",
        r"int8|bool|large_list.*|fixed_size_list.*",
        "Cannot write arrays larger than 2^31 - 1 in length",
        "pyarrow does not send batches of so many rows or items",
        LARGE_SET,
    ),
    Refusal(
        "DoPut",
        r".*",
        "Cannot send record batches exceeding 2GiB yet",
        "pyarrow does not send batches of so many bytes",
        LARGE_SET,
    ),
    Refusal(
        "DoGet",
        r"dictionary<int32, large_utf8>",
        "are more than the 2 GiB of a message of gRPC",
        "a protobuf message has at most 2 GiB; pyarrow takes a longer one for the end of the stream",
        LARGE_SET,
    ),
]
