"""Builds Arrow arrays of values. Buffers are written byte by byte, so that the values behind nulls are not zeros."""

import struct

import numpy as np
import pyarrow as pa
from kinds import entry_key, parse_kind

FORMATS = {8: "b", 16: "h", 32: "i", 64: "q"}


class Layout:
    """How values lie in memory; `plan` is the layout of a plan."""

    def __init__(self, plan=None):
        plan = plan or {}
        # Each array is a slice that lacks this many values at both ends.
        self.cut = plan.get("cut", 0)
        # True if dictionaries have a null entry.
        self.null_entries = plan.get("null_entries", False)
        # True if each batch adds to the dictionary of the one before. Otherwise all batches share a dictionary.
        self.growing_dictionaries = plan.get("growing", False)


DEFAULT_LAYOUT = Layout()


def to_array(kind, values, layout=DEFAULT_LAYOUT, entries=None):
    """Returns an array of `values`. `entries` is the dictionary, if several arrays have the same."""
    cut = layout.cut
    if not cut:
        return whole_array(kind, values, layout, entries)
    filler = next((value for value in values if value is not None), None)
    padding = [filler if n % 2 else None for n in range(cut)]
    if kind.family == "union":
        padding = [filler or value_behind_null(kind)] * cut
    return whole_array(kind, [*padding, *values, *padding], layout, entries).slice(cut, len(values))


def whole_array(kind, values, layout, entries=None):
    match kind.family:
        case "null":
            return pa.nulls(len(values))
        case "bool":
            return pa.array(values, pa.bool_())
        case "integer" | "decimal" | "date" | "time" | "timestamp" | "duration" | "float" | "interval":
            return fixed_width_array(kind, values)
        case "text" | "binary":
            return binary_array(kind, values)
        case "list" | "fixed_size_list" | "map":
            return list_array(kind, values, layout)
        case "struct":
            return struct_array(kind, values, layout)
        case "union":
            return union_array(kind, values, layout)
        case "dictionary":
            return dictionary_array(kind, values, layout, entries)
        case _:
            return run_end_encoded_array(kind, values, layout)


def validity_buffer(values):
    valid = [value is not None for value in values]
    return None if all(valid) else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def fixed_width_array(kind, values):
    rows = len(values)
    if kind.family == "float":
        code = {16: "e", 32: "f", 64: "d"}[kind.size]
        data = struct.pack(f"<{rows}{code}", *(77.0 if value is None else value for value in values))
    elif kind.family == "interval":
        data = b"".join(struct.pack("<iiq", *(value or (7, 7, 7))) for value in values)
    elif kind.size > 64:
        width = kind.size // 8
        data = b"".join((7 if value is None else value).to_bytes(width, "little", signed=True) for value in values)
    else:
        code = FORMATS[kind.size]
        unsigned = kind.family == "integer" and kind.bounds()[0] == 0
        code = code.upper() if unsigned else code
        data = struct.pack(f"<{rows}{code}", *(7 if value is None else value for value in values))
    return pa.Array.from_buffers(kind.arrow, rows, [validity_buffer(values), pa.py_buffer(data)])


def binary_array(kind, values):
    if kind.spec in ("utf8_view", "binary_view"):
        return pa.array(values, kind.arrow)
    if kind.size or kind.spec == "fixed_size_binary[0]":
        data = b"".join(b"\x07" * kind.size if value is None else value for value in values)
        return pa.Array.from_buffers(kind.arrow, len(values), [validity_buffer(values), pa.py_buffer(data)])
    is_text = kind.family == "text"
    parts = []
    for value in values:
        if value is None:
            # Some bytes for the null, which its offsets span.
            parts.append(b"null")
        else:
            parts.append(value.encode() if is_text else value)
    width = np.int64 if kind.spec.startswith("large") else np.int32
    ends = np.cumsum([0, *map(len, parts)], dtype=width)
    buffers = [validity_buffer(values), pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(kind.arrow, len(values), buffers)


def null_mask(values):
    return pa.array([value is None for value in values], pa.bool_())


def value_behind_null(kind):
    """Returns a value that is stored where a nested value is null."""
    if kind.family == "union":
        return [0, value_behind_null(kind.parts[0])]
    if kind.family == "struct":
        return [value_behind_null(part) for part in kind.parts]
    if kind.family in ("integer", "decimal"):
        return 7
    return None


def list_array(kind, values, layout):
    if kind.family == "fixed_size_list":
        hidden = [value_behind_null(kind.parts[0])] * kind.size
        items = [item for value in values for item in (hidden if value is None else value)]
        array = whole_array(kind.parts[0], items, layout)
        if not kind.size:
            return pa.Array.from_buffers(kind.arrow, len(values), [validity_buffer(values)], children=[array])
        return pa.FixedSizeListArray.from_arrays(array, type=kind.arrow, mask=null_mask(values))
    hidden = [] if kind.family == "map" else [value_behind_null(kind.parts[0])]
    lists = [hidden if value is None else value for value in values]
    ends = np.cumsum([0, *map(len, lists)])
    items = [item for items_of_list in lists for item in items_of_list]
    if kind.family == "map":
        keys = whole_array(kind.parts[0], [key for key, _ in items], layout)
        offsets = pa.array(ends, pa.int32())
        array = pa.MapArray.from_arrays(
            offsets, keys, whole_array(kind.parts[1], [item for _, item in items], layout), mask=null_mask(values)
        )
        return array.cast(kind.arrow) if array.type != kind.arrow else array
    name = kind.spec[0]
    width = pa.int64() if name.startswith("large") else pa.int32()
    items = whole_array(kind.parts[0], items, layout)
    if name.endswith("view"):
        views = pa.LargeListViewArray if name.startswith("large") else pa.ListViewArray
        sizes = pa.array(np.diff(ends), width)
        return views.from_arrays(pa.array(ends[:-1], width), sizes, items, mask=null_mask(values))
    arrays = pa.LargeListArray if name.startswith("large") else pa.ListArray
    return arrays.from_arrays(pa.array(ends, width), items, mask=null_mask(values))


def struct_array(kind, values, layout):
    hidden = value_behind_null(kind)
    columns = zip(*(hidden if value is None else value for value in values)) if values else [[] for _ in kind.parts]
    children = [whole_array(part, list(column), layout) for part, column in zip(kind.parts, columns)]
    return pa.StructArray.from_arrays(children, fields=list(kind.arrow), mask=null_mask(values))


def union_array(kind, values, layout):
    codes = pa.array([code for code, _ in values], pa.int8())
    if kind.label == "sparse_union":
        children = [
            whole_array(part, [value if code == n else value_behind_null(part) for code, value in values], layout)
            for n, part in enumerate(kind.parts)
        ]
        return pa.UnionArray.from_sparse(codes, children, kind.names)
    member_values = [[] for _ in kind.parts]
    offsets = []
    for code, value in values:
        offsets.append(len(member_values[code]))
        member_values[code].append(value)
    children = [whole_array(part, own_values, layout) for part, own_values in zip(kind.parts, member_values)]
    return pa.UnionArray.from_dense(codes, pa.array(offsets, pa.int32()), children, kind.names)


def unique_entries(kind, values, layout):
    """Returns the entries of a dictionary, each once. Its keys must be wide enough for them."""
    result = {entry_key(value): value for value in values if value is not None}
    entries = list(result.values())
    if layout.null_entries:
        entries.insert(len(entries) // 2, None)
    max_key = kind.keys.bounds()[1]
    assert len(entries) <= max_key, "more entries than keys"
    return entries


def dictionary_array(kind, values, layout, entries=None):
    if entries is None:
        entries = unique_entries(kind, values, layout)
    numbers = {entry_key(value): number for number, value in enumerate(entries)}
    # Nulls are null keys, or, in every other row, keys of the null entry if there is one.
    null_entry = numbers.get(None)
    keys = []
    for row, value in enumerate(values):
        if value is not None:
            keys.append(numbers[entry_key(value)])
        else:
            keys.append(null_entry if row % 2 else None)
    return pa.DictionaryArray.from_arrays(
        fixed_width_array(kind.keys, keys), whole_array(kind.parts[0], entries, DEFAULT_LAYOUT), ordered=kind.is_ordered
    )


def run_end_encoded_array(kind, values, layout):
    ends, run_values = [], []
    for row, value in enumerate(values):
        # Some runs of equal values are split in two, which is valid.
        if row and entry_key(run_values[-1]) == entry_key(value) and row % 5:
            ends[-1] = row + 1
        else:
            ends.append(row + 1)
            run_values.append(value)
    return pa.RunEndEncodedArray.from_arrays(
        fixed_width_array(kind.ends, ends), whole_array(kind.parts[0], run_values, layout)
    )


def dictionary_entries(kind, columns, layout):
    """Returns the dictionary of each batch of a column: the same for all, or each an extension of the one before."""
    if kind.family != "dictionary":
        return [None] * len(columns)
    all_entries = unique_entries(kind, [value for values in columns for value in values], layout)
    if not layout.growing_dictionaries or layout.null_entries:
        return [all_entries] * len(columns)
    dictionaries, entries = [], []
    for values in columns:
        keys = set(map(entry_key, entries))
        new_entries = [value for value in unique_entries(kind, values, layout) if entry_key(value) not in keys]
        entries = [*entries, *new_entries]
        dictionaries.append(entries)
    return dictionaries


def record_batches(columns, lengths, layout=DEFAULT_LAYOUT):
    """Returns the schema and record batches of columns, which are `(name, type, values)`."""
    schema = pa.schema([pa.field(name, parse_kind(spec).arrow) for name, spec, _ in columns])
    starts = np.cumsum([0, *lengths]).tolist()
    arrays = []
    for _, spec, values in columns:
        kind = parse_kind(spec)
        parts = [values[start:end] for start, end in zip(starts, starts[1:])]
        entries = dictionary_entries(kind, parts, layout)
        arrays.append([to_array(kind, part, layout, dictionary) for part, dictionary in zip(parts, entries)])
    return schema, [pa.record_batch([column[n] for column in arrays], schema=schema) for n in range(len(lengths))]


def to_table(columns, rows):
    """Returns a table of one batch in the default layout."""
    schema, batches = record_batches(columns, [rows])
    return pa.Table.from_batches(batches, schema)
