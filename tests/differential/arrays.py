"""Arrow arrays of values, byte by byte where pyarrow would leave something out: what stands behind nulls is no zero."""

import struct

import numpy as np
import pyarrow as pa
from kinds import is_null, made

FORMATS = {8: "b", 16: "h", 32: "i", 64: "q"}


class Layout:
    """How values lie in memory; `of` are the parts of a plan's layout."""

    def __init__(self, of=None):
        of = of or {}
        # Rows before and behind those of a batch, which it is cut out of.
        self.cut = of.get("cut", 0)
        self.null_entries = of.get("null_entries", False)
        self.growing_dictionaries = of.get("growing", False)


PLAIN = Layout()


def array_of(kind, values, layout=PLAIN, entries=None):
    """An array of `values`; `entries` are a dictionary's, if they are to be the same in several arrays."""
    cut = layout.cut
    if not cut:
        return uncut(kind, values, layout, entries)
    filler = next((value for value in values if value is not None), None)
    around = [filler if n % 2 else None for n in range(cut)]
    if kind.family == "union":
        around = [filler or filler_of(kind)] * cut
    return uncut(kind, [*around, *values, *around], layout, entries).slice(cut, len(values))


def uncut(kind, values, layout, entries=None):
    match kind.family:
        case "null":
            return pa.nulls(len(values))
        case "bool":
            return pa.array(values, pa.bool_())
        case "integer" | "decimal" | "date" | "time" | "timestamp" | "duration" | "float" | "interval":
            return fixed(kind, values)
        case "text" | "binary":
            return texts(kind, values)
        case "list" | "fixed_size_list" | "map":
            return lists(kind, values, layout)
        case "struct":
            return struct_of(kind, values, layout)
        case "union":
            return union(kind, values, layout)
        case "dictionary":
            return dictionary(kind, values, layout, entries)
        case _:
            return runs(kind, values, layout)


def validity(values):
    valid = [value is not None for value in values]
    return None if all(valid) else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def fixed(kind, values):
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
    return pa.Array.from_buffers(kind.arrow, rows, [validity(values), pa.py_buffer(data)])


def texts(kind, values):
    if kind.spec in ("utf8_view", "binary_view"):
        return pa.array(values, kind.arrow)
    if kind.size or kind.spec == "fixed_size_binary[0]":
        data = b"".join(b"\x07" * kind.size if value is None else value for value in values)
        return pa.Array.from_buffers(kind.arrow, len(values), [validity(values), pa.py_buffer(data)])
    is_text = kind.family == "text"
    parts = [b"null" if value is None else value.encode() if is_text else value for value in values]
    width = np.int64 if kind.spec.startswith("large") else np.int32
    ends = np.cumsum([0, *map(len, parts)], dtype=width)
    buffers = [validity(values), pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(kind.arrow, len(values), buffers)


def mask(values):
    return pa.array([value is None for value in values], pa.bool_())


def filler_of(kind):
    """A value that stands behind a null: none that a struct has."""
    if kind.family == "union":
        return [0, filler_of(kind.parts[0])]
    if kind.family == "struct":
        return [filler_of(part) for part in kind.parts]
    if kind.family in ("integer", "decimal"):
        return 7
    return None


def lists(kind, values, layout):
    if kind.family == "fixed_size_list":
        behind = [filler_of(kind.parts[0])] * kind.size
        items = [item for value in values for item in (behind if value is None else value)]
        array = uncut(kind.parts[0], items, layout)
        if not kind.size:
            return pa.Array.from_buffers(kind.arrow, len(values), [validity(values)], children=[array])
        return pa.FixedSizeListArray.from_arrays(array, type=kind.arrow, mask=mask(values))
    behind = [] if kind.family == "map" else [filler_of(kind.parts[0])]
    lists = [behind if value is None else value for value in values]
    ends = np.cumsum([0, *map(len, lists)])
    items = [item for each in lists for item in each]
    if kind.family == "map":
        keys = uncut(kind.parts[0], [key for key, _ in items], layout)
        offsets = pa.array(ends, pa.int32())
        array = pa.MapArray.from_arrays(
            offsets, keys, uncut(kind.parts[1], [item for _, item in items], layout), mask=mask(values)
        )
        return array.cast(kind.arrow) if array.type != kind.arrow else array
    name = kind.spec[0]
    width = pa.int64() if name.startswith("large") else pa.int32()
    items = uncut(kind.parts[0], items, layout)
    if name.endswith("view"):
        views = pa.LargeListViewArray if name.startswith("large") else pa.ListViewArray
        sizes = pa.array(np.diff(ends), width)
        return views.from_arrays(pa.array(ends[:-1], width), sizes, items, mask=mask(values))
    arrays = pa.LargeListArray if name.startswith("large") else pa.ListArray
    return arrays.from_arrays(pa.array(ends, width), items, mask=mask(values))


def struct_of(kind, values, layout):
    behind = filler_of(kind)
    columns = zip(*(behind if value is None else value for value in values)) if values else [[] for _ in kind.parts]
    children = [uncut(part, list(column), layout) for part, column in zip(kind.parts, columns)]
    return pa.StructArray.from_arrays(children, fields=list(kind.arrow), mask=mask(values))


def union(kind, values, layout):
    codes = pa.array([code for code, _ in values], pa.int8())
    if kind.label == "sparse_union":
        children = [
            uncut(part, [value if code == n else filler_of(part) for code, value in values], layout)
            for n, part in enumerate(kind.parts)
        ]
        return pa.UnionArray.from_sparse(codes, children, kind.names)
    of = [[value for code, value in values if code == n] for n in range(len(kind.parts))]
    seen, offsets = [0] * len(kind.parts), []
    for code, _ in values:
        offsets.append(seen[code])
        seen[code] += 1
    children = [uncut(part, own, layout) for part, own in zip(kind.parts, of)]
    return pa.UnionArray.from_dense(codes, pa.array(offsets, pa.int32()), children, kind.names)


def key_of(value):
    """What tells entries of a dictionary apart: NaN from NaN not, and zeros by their sign."""
    return repr(value) if isinstance(value, float) else value


def entries_of(kind, values, layout):
    """The entries of a dictionary, each once, within what its keys can count."""
    found = {key_of(value): value for value in values if value is not None}
    entries = list(found.values())
    if layout.null_entries:
        entries.insert(len(entries) // 2, None)
    most = kind.keys.bounds()[1]
    assert len(entries) <= most, "more entries than keys"
    return entries


def dictionary(kind, values, layout, entries=None):
    if entries is None:
        entries = entries_of(kind, values, layout)
    numbers = {key_of(value): number for number, value in enumerate(entries)}
    # A null is one by its key, or by its entry.
    empty = numbers.get(None)
    keys = [
        numbers[key_of(value)] if value is not None else empty if row % 2 else None for row, value in enumerate(values)
    ]
    return pa.DictionaryArray.from_arrays(
        fixed(kind.keys, keys), uncut(kind.parts[0], entries, PLAIN), ordered=kind.is_ordered
    )


def runs(kind, values, layout):
    ends, kept = [], []
    for row, value in enumerate(values):
        # Equal neighbours are one run, but for some.
        if row and key_of(kept[-1]) == key_of(value) and row % 5:
            ends[-1] = row + 1
        else:
            ends.append(row + 1)
            kept.append(value)
    return pa.RunEndEncodedArray.from_arrays(fixed(kind.ends, ends), uncut(kind.parts[0], kept, layout))


def column_entries(kind, columns, layout):
    """The dictionaries of a column's batches: one for all, or each the one before and more."""
    if kind.family != "dictionary":
        return [None] * len(columns)
    whole = entries_of(kind, [value for values in columns for value in values], layout)
    if not layout.growing_dictionaries or layout.null_entries:
        return [whole] * len(columns)
    found, seen = [], []
    for values in columns:
        known = set(map(key_of, seen))
        seen = [*seen, *(value for value in entries_of(kind, values, layout) if key_of(value) not in known)]
        found.append(seen)
    return found


def batches_of(columns, lengths, layout=PLAIN):
    """Record batches of columns, which are `(name, spec, values)`."""
    schema = pa.schema([pa.field(name, made(spec).arrow) for name, spec, _ in columns])
    starts = np.cumsum([0, *lengths]).tolist()
    arrays = []
    for _, spec, values in columns:
        kind = made(spec)
        parts = [values[start:end] for start, end in zip(starts, starts[1:])]
        entries = column_entries(kind, parts, layout)
        arrays.append([array_of(kind, part, layout, own) for part, own in zip(parts, entries)])
    return schema, [pa.record_batch([column[n] for column in arrays], schema=schema) for n in range(len(lengths))]


def table_of(columns, rows):
    """A table of one batch, as others take it."""
    schema, batches = batches_of(columns, [rows])
    return pa.Table.from_batches(batches, schema)


__all__ = ["Layout", "array_of", "batches_of", "is_null", "table_of"]
