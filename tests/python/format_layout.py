"""The layout of a segment, calculated from its schema as docs/format.md specifies it; `format_reader` uses it."""

import itertools
import struct
from typing import NamedTuple

import pyarrow as pa

HEADER = struct.Struct("<8sHHIII9Q3IHH2Q")
ZONE = struct.Struct("<IBBBB32s32s")

PAGE = 4096
BUFFER_ALIGNMENT = 65_536
HEADER_SIZE = 128  # without its lists
RECORD_SIZE = 64  # without counters and positions
MAX_POSITIONS = 256
MAX_NAMES_SIZE = 65_536  # bytes of the names of positions
UNSORTED = 0xFFFFFFFF  # `sorted_by` without a column


class Malformed(Exception):
    """The file violates docs/format.md."""


class Header(NamedTuple):
    """The fixed part of the header, with the names of docs/format.md."""

    magic: bytes
    major: int
    minor: int
    length: int
    crc: int
    slots: int
    first_row: int
    capacity: int
    live: int
    record: int
    ring: int
    slot: int
    tail: int
    footer: int
    file: int
    buffers: int
    counters: int
    sorted_by: int
    zones: int
    flags: int
    segment_rows: int
    log: int

    @property
    def records_offset(self):
        return self.live + PAGE

    @property
    def log_offset(self):
        return self.live + PAGE + 4 * self.record


class BufferPlace(NamedTuple):
    """The offset of a buffer in the file, and its capacity in bytes."""

    offset: int
    capacity: int


class ZoneColumn(NamedTuple):
    """A column with zones, and the rows of each zone."""

    column: int
    rows: int


class HeaderLists(NamedTuple):
    """The lists behind the fixed part of the header."""

    places: list[BufferPlace]
    limits: tuple[int, ...]
    zones: list[ZoneColumn]
    shared: int  # how many footers give their place to a schema


def round_up(number, step):
    return -(-number // step) * step


# Types

OFFSET_BITS = {pa.string(): 32, pa.binary(): 32, pa.large_string(): 64, pa.large_binary(): 64}
VIEWS = (pa.string_view(), pa.binary_view())


def is_binary(type):
    """Returns whether values of a type have bytes in a buffer of their own."""
    return type in OFFSET_BITS or type in VIEWS


def is_large_list(type):
    return pa.types.is_large_list(type) or pa.types.is_large_list_view(type)


def is_list(type):
    """Returns whether a type has offsets to items."""
    return pa.types.is_list(type) or pa.types.is_list_view(type) or pa.types.is_map(type) or is_large_list(type)


def is_dense_union(type):
    return pa.types.is_union(type) and type.mode == "dense"


def has_order(type):
    checks = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_timestamp,
        pa.types.is_time,
        pa.types.is_date,
        pa.types.is_duration,
        pa.types.is_fixed_size_binary,
    )
    return is_binary(type) or any(check(type) for check in checks)


def may_have_zones(type):
    return has_order(type) or pa.types.is_boolean(type) or pa.types.is_dictionary(type)


# Buffers and counters


class Buffer(NamedTuple):
    """A buffer; `kind` is "bits", "offsets" or "values", and each element has `width` bits."""

    kind: str
    elements: int
    width: int

    @property
    def size(self):
        """The length in bytes."""
        return (self.elements * self.width + 7) // 8


class Field(NamedTuple):
    """A field, or the entries of a dictionary, with the numbers of its own buffers."""

    type: pa.DataType
    length: int
    nulls: int
    buffers: range
    is_nullable: bool
    children: list["Field"]


class Layout:
    """The fields and buffers of a segment with given counters.

    Fields take counters, and add buffers, in the order of the schema, depth first.
    """

    def __init__(self, schema, counters, zones=()):
        self.buffers = []
        self._counters = iter(counters)
        self._dictionary_types = []
        rows = next(self._counters)
        self.columns = [self._add_field(field.type, rows, field.nullable) for field in schema]
        self.dictionaries = [
            self._add_field(type.value_type, next(self._counters), is_nullable=False) for type in self._dictionary_types
        ]
        # The names of positions.
        self._add_buffer("values", next(self._counters), 8)
        for zone in zones:
            self._add_buffer("values", rows // zone.rows, 8 * ZONE.size)

    def _add_buffer(self, kind, elements, width):
        self.buffers.append(Buffer(kind, elements, width))

    def _add_field(self, type, length, is_nullable):
        first_buffer = len(self.buffers)
        if pa.types.is_null(type):
            return Field(type, length, 0, range(first_buffer, first_buffer), False, [])
        if pa.types.is_union(type):
            nulls, is_nullable = 0, False
            children = self._add_union_buffers(type, length)
        else:
            nulls = next(self._counters) if is_nullable else 0
            self._add_buffer("bits", length if is_nullable else 0, 1)
            children = self._add_value_buffers(type, length)
        buffers = range(first_buffer, len(self.buffers))
        children = [self._add_field(child.type, child_length, child.nullable) for child, child_length in children]
        return Field(type, length, nulls, buffers, is_nullable, children)

    def _add_union_buffers(self, type, length):
        """Adds the buffers of a union, and returns its children with their lengths."""
        self._add_buffer("values", length, 8)
        if not is_dense_union(type):
            return [(child, length) for child in type]
        self._add_buffer("values", length, 32)
        lengths = [next(self._counters) for _ in type]
        return list(zip(type, lengths, strict=True))

    def _add_value_buffers(self, type, length):
        """Adds the buffers of a field behind its validity bitmap, and returns its children with their lengths."""
        if pa.types.is_struct(type):
            return [(child, length) for child in type]
        if pa.types.is_fixed_size_list(type):
            return [(type.value_field, length * type.list_size)]
        if pa.types.is_map(type):
            self._add_buffer("offsets", length + 1, 32)
            entries = pa.field("entries", pa.struct([type.key_field, type.item_field]), nullable=False)
            return [(entries, next(self._counters))]
        if is_list(type):
            width = 64 if is_large_list(type) else 32
            if pa.types.is_list_view(type) or pa.types.is_large_list_view(type):
                self._add_buffer("values", length, width)
                self._add_buffer("values", length, width)
            else:
                self._add_buffer("offsets", length + 1, width)
            return [(type.value_field, next(self._counters))]
        if type in OFFSET_BITS:
            self._add_buffer("offsets", length + 1, OFFSET_BITS[type])
            self._add_buffer("values", next(self._counters), 8)
        elif type in VIEWS:
            self._add_buffer("values", length, 128)
            self._add_buffer("values", next(self._counters), 8)
        elif pa.types.is_dictionary(type):
            self._add_buffer("values", length, type.index_type.bit_width)
            self._dictionary_types.append(type)
        else:
            self._add_buffer("bits" if type.bit_width == 1 else "values", length, type.bit_width)
        return []


def flatten(fields):
    """Yields fields and their descendants, depth first."""
    for field in fields:
        yield field
        yield from flatten(field.children)


def find_narrow_counters(layout):
    """Returns the numbers of the counters that 4-byte offsets and views limit."""
    narrow, number = set(), 1
    for field in flatten(layout.columns):
        number += field.is_nullable
        if is_binary(field.type) or is_list(field.type):
            is_wide = OFFSET_BITS.get(field.type) == 64 or is_large_list(field.type)
            if not is_wide:
                narrow.add(number)
            number += 1
        elif is_dense_union(field.type):
            narrow.update(range(number, number + len(field.children)))
            number += len(field.children)
    # All counters of dictionaries are limited: their entries, and the bytes of these.
    count = sum(2 if is_binary(field.type) else 1 for field in layout.dictionaries)
    return narrow | set(range(number, number + count))


# The header


def check_header(header, start, schema, lists):
    """Checks the header at byte `start` of its file against the schema, field by field."""
    # Give each counter its number, and so count how many the schema needs.
    numbers = itertools.count()
    buffer_count = len(Layout(schema, numbers, [ZoneColumn(0, 1)] * header.zones).buffers)
    if (header.buffers, header.counters) != (buffer_count, next(numbers)) or lists.limits[0] != header.capacity:
        raise Malformed("the lists don't fit the schema")
    check_header_fields(header, start, schema, lists.shared)
    check_zones(schema, lists.zones)
    layout = Layout(schema, lists.limits, lists.zones)
    check_limits(layout, lists.limits)
    check_places(header, layout, lists.places)


def check_header_fields(header, start, schema, shared):
    def expect(name, is_right):
        if not is_right:
            raise Malformed(f"{name} can't be {getattr(header, name)}")

    length = HEADER_SIZE + 16 * header.buffers + 8 * header.counters + 8 * header.zones
    if header.minor > 0:
        length += 8
        if not 1 <= shared <= header.slots - 2:
            raise Malformed(f"{shared} footers give their place to a schema")
    is_sorted = header.sorted_by != UNSORTED
    expect("length", header.length == length or header.minor > 1 and header.length > length)
    expect("slots", 2 <= header.slots <= 65_536)
    expect("first_row", header.first_row < 2**62)
    expect("capacity", 1 <= header.capacity < 2**48)
    expect("segment_rows", header.capacity <= header.segment_rows < 2**48)
    expect("slot", header.slot % 64 == 0 and 0 < header.slot <= 2**28)
    expect("footer", header.footer % 64 == 0 and 0 < header.footer <= 2**28 and header.slots * header.footer < 2**31)
    expect(
        "sorted_by",
        not is_sorted or header.sorted_by < len(schema) and has_order(schema[header.sorted_by].type),
    )
    expect("flags", header.flags == 0 or header.flags == 1 and is_sorted)
    expect("live", header.live == round_up(start + header.length, PAGE))
    expect("record", header.record == round_up(RECORD_SIZE + 8 * (header.counters + MAX_POSITIONS), PAGE))
    expect("log", header.log % PAGE == 0 and header.log <= 2**28)
    expect("ring", header.ring == header.log_offset + header.log)


def check_zones(schema, zones):
    if len({zone.column for zone in zones}) < len(zones):
        raise Malformed("a column has zones twice")
    for zone in zones:
        if zone.column >= len(schema) or zone.rows < 1 or not may_have_zones(schema[zone.column].type):
            raise Malformed("zones of no column, or of one without an order")


def check_limits(layout, limits):
    narrow = find_narrow_counters(layout)
    for number, limit in enumerate(limits):
        if limit >= (2**31 if number in narrow else 2**48):
            raise Malformed("a limit is too large")
    if limits[-1] > MAX_NAMES_SIZE:
        raise Malformed("the limit of the names of positions is too large")


def check_places(header, layout, places):
    """Calculates where buffers, tail and end of the file must be, and compares them with the header."""
    own_count = sum(len(field.buffers) for field in flatten(layout.columns))
    data_buffers = {field.buffers[2] for field in flatten(layout.columns) if is_binary(field.type)}
    # Dictionaries, names and zones come first; the data of text and bytes comes last.
    order = [
        *range(own_count, len(layout.buffers)),
        *(number for number in range(own_count) if number not in data_buffers),
        *sorted(data_buffers),
    ]
    expected = [BufferPlace(0, 0)] * len(layout.buffers)
    offset = round_up(header.ring + header.slots * header.slot, BUFFER_ALIGNMENT)
    for number in order:
        size = layout.buffers[number].size
        if size:
            expected[number] = BufferPlace(offset, size)
            offset = round_up(offset + size, BUFFER_ALIGNMENT)
    if places != expected:
        raise Malformed("a buffer is in another place")
    if header.tail != round_up(offset + header.slots * header.footer, PAGE):
        raise Malformed(f"tail can't be {header.tail}")
    if header.file != header.tail + 10:
        raise Malformed(f"file can't be {header.file}")
