"""Reads growing tables by docs/format.md alone, without any code of Arrowwood.

pyarrow parses the schema and holds the arrays. The rest is in this file: header, records, checksums, the chain of
segments, and what counts after a crash.

    table = open_table("ticks")
    table.rows()                # a list of dicts
    table.refresh()             # whether there is more than before; one load of 8 bytes if there is not
    table.rows(start=1000)      # the rows from number 1000 on
"""

import itertools
import mmap
import os
import struct
import uuid
from collections import namedtuple

import pyarrow as pa

SEALED, PROVISIONAL, PROVEN, GOES_ON = 1, 2, 4, 8
HEADER = struct.Struct("<8sHHIII9Q3IHH2Q")
RECORD = struct.Struct("<QII16sQIIQQ")
ZONE = struct.Struct("<IBBBB32s32s")

Header = namedtuple(
    "Header",
    "magic major minor length crc slots first_row capacity live record ring slot tail footer "
    "file buffers counters sorted_by zones flags segment_rows log",
)
Record = namedtuple("Record", "sequence state crc boot previous delta count base mount counters positions")
NOTHING = Record(0, 0, 0, b"", 0, 0, 0, 0, 0, (), ())
# An entry of the log: its record, the counters before it, and pairs of file offsets and bytes.
Entry = namedtuple("Entry", "record before pieces")
# A buffer: `kind` is "bits", "offsets" or "values"; each of its `n` elements has `width` bits.
Part = namedtuple("Part", "kind n width")
# A field, or the entries of a dictionary, with `n` elements and its own buffers at `parts`.
Node = namedtuple("Node", "type n nulls parts nullable children")


class Malformed(Exception):
    """The file violates docs/format.md."""


def _crc_table():
    table = list(range(256))
    for _ in range(8):
        table = [c >> 1 ^ (0x82F63B78 if c & 1 else 0) for c in table]
    return table


_TABLE = _crc_table()


def crc32c(data, crc=0):
    """Returns the CRC-32C of `data`, continued from `crc`, the checksum of the bytes before."""
    crc ^= 0xFFFFFFFF
    for byte in bytes(data):
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def boot_id():
    with open("/proc/sys/kernel/random/boot_id") as file:
        return uuid.UUID(file.read().strip()).bytes


def mount_id(path):
    """Returns the mount ID of a file: always 0, which stands for unknown, and which no writer has."""
    return 0


BYTES = {pa.string(): 32, pa.binary(): 32, pa.large_string(): 64, pa.large_binary(): 64}  # width of their offsets
VIEWS = pa.string_view(), pa.binary_view()
LISTS = (
    pa.types.is_list,
    pa.types.is_list_view,
    pa.types.is_map,  # with offsets of 4 and of 8 bytes
    pa.types.is_large_list,
    pa.types.is_large_list_view,
)


def layout(schema, counters, zones=()):
    """Returns the layout that `counters` describe: nodes of columns and dictionaries, and the parts of all buffers."""
    parts, dictionaries, counts = [], [], iter(counters)

    def node(t, n, nullable):
        first = len(parts)
        if pa.types.is_null(t):
            return Node(t, n, 0, range(first, first), False, [])
        if pa.types.is_union(t):
            parts.append(Part("values", n, 8))
            if t.mode == "dense":
                parts.append(Part("values", n, 32))
            last, rows = len(parts), [next(counts) if t.mode == "dense" else n for _ in t]
            return Node(
                t, n, 0, range(first, last), False, [node(f.type, m, f.nullable) for f, m in zip(t, rows, strict=True)]
            )
        nulls = next(counts) if nullable else 0
        parts.append(Part("bits", n if nullable else 0, 1))
        if pa.types.is_struct(t):
            below = [(child, n) for child in t]
        elif pa.types.is_map(t):
            parts.append(Part("offsets", n + 1, 32))
            below = [(pa.field("entries", pa.struct([t.key_field, t.item_field]), nullable=False), next(counts))]
        elif pa.types.is_list_view(t) or pa.types.is_large_list_view(t):
            width = 64 if pa.types.is_large_list_view(t) else 32
            parts.extend([Part("values", n, width), Part("values", n, width)])
            below = [(t.value_field, next(counts))]
        elif pa.types.is_fixed_size_list(t):
            below = [(t.value_field, n * t.list_size)]
        elif pa.types.is_list(t) or pa.types.is_large_list(t):
            parts.append(Part("offsets", n + 1, 64 if pa.types.is_large_list(t) else 32))
            below = [(t.value_field, next(counts))]
        else:
            below = []
            if t in BYTES:
                parts.append(Part("offsets", n + 1, BYTES[t]))
                parts.append(Part("values", next(counts), 8))
            elif t in VIEWS:
                parts.append(Part("values", n, 128))
                parts.append(Part("values", next(counts), 8))
            elif pa.types.is_dictionary(t):
                parts.append(Part("values", n, t.index_type.bit_width))
                dictionaries.append(t)
            else:
                parts.append(Part("bits" if t.bit_width == 1 else "values", n, t.bit_width))
        last = len(parts)
        children = [node(field.type, m, field.nullable) for field, m in below]
        return Node(t, n, nulls, range(first, last), nullable, children)

    rows = next(counts)
    columns = [node(field.type, rows, field.nullable) for field in schema]
    entries = [node(t.value_type, next(counts), False) for t in dictionaries]
    parts.append(Part("values", next(counts), 8))
    parts.extend(Part("values", rows // size, 8 * ZONE.size) for _, size in zones)
    return columns, entries, parts


def size(part):
    return (part.n * part.width + 7) // 8


def up(number, step):
    return -(-number // step) * step


def is_empty(metadata):
    """Returns whether a message's flatbuffer has no header: `MessageHeader.NONE`."""
    if len(metadata) < 8:
        return False
    root = struct.unpack_from("<I", metadata)[0]
    fields = root - struct.unpack_from("<i", metadata, root)[0]
    kind = struct.unpack_from("<H", metadata, fields + 6)[0] if struct.unpack_from("<H", metadata, fields)[0] > 6 else 0
    return not kind or not metadata[root + kind]


def flat(nodes):
    for node in nodes:
        yield node
        yield from flat(node.children)


def has_order(t):
    kinds = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_timestamp,
        pa.types.is_time,
        pa.types.is_date,
        pa.types.is_duration,
        pa.types.is_fixed_size_binary,
    )
    return t in BYTES or t in VIEWS or any(is_kind(t) for is_kind in kinds)


def has_zones(t):
    return has_order(t) or pa.types.is_boolean(t) or pa.types.is_dictionary(t)


def check_header(h, start, schema, buffers, limits, zones, shared):
    """Checks the header at byte `start` of its file, field by field."""
    counted = itertools.count()
    parts = layout(schema, counted, [(0, 1)] * h.zones)[2]
    if (h.buffers, h.counters) != (len(parts), next(counted)) or limits[0] != h.capacity:
        raise Malformed("the lists are not those of the schema")
    columns, entries, parts = layout(schema, limits, zones)

    def expect(name, is_right):
        if not is_right:
            raise Malformed(f"{name} can't be {getattr(h, name)}")

    lists = 128 + 16 * h.buffers + 8 * h.counters + 8 * h.zones
    lists += 8 * (h.minor > 0)
    expect("length", h.length == lists or h.minor > 1 and h.length > lists)
    if h.minor > 0 and not 1 <= shared <= h.slots - 2:
        raise Malformed(f"{shared} footers give their place to a schema")
    expect("slots", 2 <= h.slots <= 65_536)
    expect("first_row", h.first_row < 2**62)
    expect("capacity", 1 <= h.capacity < 2**48)
    expect("segment_rows", h.capacity <= h.segment_rows < 2**48)
    expect("slot", h.slot % 64 == 0 and 0 < h.slot <= 2**28)
    expect("footer", h.footer % 64 == 0 and 0 < h.footer <= 2**28 and h.slots * h.footer < 2**31)
    expect("sorted_by", h.sorted_by == 0xFFFFFFFF or h.sorted_by < len(schema) and has_order(schema[h.sorted_by].type))
    expect("flags", h.flags in (0, 1) and (h.flags == 0 or h.sorted_by != 0xFFFFFFFF))
    if len({column for column, _ in zones}) < len(zones) or any(
        column >= len(schema) or size < 1 or not has_zones(schema[column].type) for column, size in zones
    ):
        raise Malformed("zones of no column, or of none that has an order")
    small = narrow(columns, entries)
    if (
        any(limit >= (2**31 if number in small else 2**48) for number, limit in enumerate(limits))
        or limits[-1] > 65_536
    ):
        raise Malformed("a limit is too large")
    expect("live", h.live == up(start + h.length, 4096))
    expect("record", h.record == up(64 + 8 * (h.counters + 256), 4096))
    expect("log", h.log % 4096 == 0 and h.log <= 2**28)
    expect("ring", h.ring == h.live + 4096 + 4 * h.record + h.log)
    places, at = [(0, 0)] * len(parts), up(h.ring + h.slots * h.slot, 65_536)
    own = sum(len(node.parts) for node in flat(columns))  # followed by the parts of dictionaries, and the names
    data = {node.parts[2] for node in flat(columns) if node.type in BYTES or node.type in VIEWS}
    for n in [*range(own, len(parts)), *(n for n in range(own) if n not in data), *sorted(data)]:
        if size(parts[n]):
            places[n] = at, size(parts[n])
            at = up(at + size(parts[n]), 65_536)
    if places != buffers:
        raise Malformed("a buffer stands elsewhere")
    expect("tail", h.tail == up(at + h.slots * h.footer, 4096))
    expect("file", h.file == h.tail + 10)


def narrow(columns, entries):
    """Returns the numbers of the counters that 4-byte offsets and views limit."""
    found, number = set(), 1
    for node in flat(columns):
        number += node.nullable
        if node.type in BYTES or node.type in VIEWS or any(is_a(node.type) for is_a in LISTS):
            if BYTES.get(node.type) != 64 and not any(is_a(node.type) for is_a in LISTS[3:]):
                found.add(number)
            number += 1
        if pa.types.is_union(node.type) and node.type.mode == "dense":
            found |= set(range(number, number + len(node.children)))
            number += len(node.children)
    counters = [1 + (node.type in BYTES or node.type in VIEWS) for node in entries]
    return found | set(range(number, number + sum(counters)))


def is_wider(new, old):
    """Returns whether type `new` is a wider number than `old`, and holds its values exactly."""
    signed, unsigned = pa.types.is_signed_integer, pa.types.is_unsigned_integer
    pairs = (signed, signed), (unsigned, unsigned), (signed, unsigned), (pa.types.is_floating, pa.types.is_floating)
    return any(is_new(new) and is_old(old) for is_new, is_old in pairs) and new.bit_width > old.bit_width


def fitted(table, schema):
    """Converts rows of an older schema to the table's schema."""
    if set(table.schema.names) - set(schema.names):
        raise Malformed("a segment has a column that the table has not")
    columns = []
    for field in schema:
        if field.name not in table.schema.names:
            if not field.nullable:
                raise Malformed(f"{field.name} is missing and can't be null")
            columns.append(pa.nulls(len(table), field.type))
            continue
        column = table[field.name]
        if column.type != field.type:
            if not is_wider(field.type, column.type):
                raise Malformed(f"{field.name} is {column.type}, which is not read as {field.type}")
            column = column.cast(field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, names=schema.names)


class Segment:
    """Reads one file. `record` is the current one, None without any; `sequence` is the number it was read at."""

    def __init__(self, path):
        self.name = int(os.path.basename(path).removesuffix(".arrow"))
        self.path = path
        with open(path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            self.inode = os.fstat(file.fileno()).st_ino
        self.bytes, self.sequence, self.record, self.dense = memoryview(self.map), 0, None, None
        self.lost = None  # commits up to this one don't match the file any more; None if nothing is known
        schema, at = self._frame(8)
        empty, at = self._frame(at)
        start = up(at, 4096)
        if self.bytes[start : start + 8] != b"ArrwWood":
            if is_empty(empty[8:]):
                raise Malformed("the header is missing")
            with pa.ipc.open_file(pa.py_buffer(self.map)) as file:
                self.dense = file.read_all()
            return
        self.schema = pa.ipc.read_schema(pa.py_buffer(schema))
        self.header = h = Header._make(HEADER.unpack_from(self.bytes, start))
        if h.major != 1:
            raise Malformed(f"format version {h.major}.{h.minor}")
        raw = bytearray(self.bytes[start : start + h.length])
        raw[16:20] = bytes(4)
        if h.length < 128 + 16 * h.buffers + 8 * h.counters + 8 * h.zones or crc32c(raw) != h.crc:
            raise Malformed("the header's checksum is wrong")
        if h.file != len(self.bytes) or h.first_row != self.name:
            raise Malformed("the header doesn't fit the file")
        if h.length != len(raw) or h.length < 128:
            raise Malformed("the header is cut off")
        self.buffers = list(struct.iter_unpack("<QQ", raw[128 : 128 + 16 * h.buffers]))
        self.limits = struct.unpack_from(f"<{h.counters}Q", raw, 128 + 16 * h.buffers)
        lists = 128 + 16 * h.buffers + 8 * h.counters
        self.zones = list(struct.iter_unpack("<II", raw[lists : lists + 8 * h.zones]))
        more = raw[lists + 8 * h.zones :].ljust(8, b"\0") if h.minor > 0 else bytes(8)
        shared = struct.unpack_from("<Q", more)[0]
        check_header(h, start, self.schema, self.buffers, self.limits, self.zones, shared)
        # A view of 8-byte words reads one of them in one load.
        self.word = self.bytes[h.live : h.live + 8].cast("Q")

    def _frame(self, at):
        """Returns the framed message at an offset (empty at the end of a stream, or if not whole), and its end."""
        marker, length = struct.unpack_from("<Ii", self.bytes, at)
        end = at + 8 + (length if marker == 0xFFFFFFFF else 0)
        return self.bytes[at:end] if end > at + 8 else b"", end

    # ---- records

    def record_at(self, place):
        """Returns record `place` of the four (visible 0 and 1, durable 2 and 3), None if it is not whole."""
        at = self.header.live + 4096 + place * self.header.record
        return self.parse(self.bytes[at : at + self.header.record])

    def parse(self, raw):
        """Returns the record at the start of bytes, None if it is not whole."""
        fixed, counters = RECORD.unpack_from(raw), self.header.counters
        end = 64 + 8 * (counters + fixed[6])
        if not fixed[0] or fixed[6] > 256 or end > len(raw):
            return None
        record = Record(
            *fixed,
            struct.unpack_from(f"<{counters}Q", raw, 64),
            struct.unpack_from(f"<{fixed[6]}q", raw, 64 + 8 * counters),
        )
        raw = bytearray(raw[:end])
        raw[12:16] = bytes(4)
        return record if crc32c(raw) == record.crc else None

    def visible(self):
        """Returns the newest visible record, None if it is not whole."""
        while True:
            self.sequence = self.word[0]
            record = self.record_at(self.sequence % 2)
            if record and record.sequence == self.sequence:
                return record
            if self.word[0] == self.sequence:  # no writer was active in between, so it is missing
                return None

    def is_current(self, record):
        """Returns whether a visible record is of this boot, and its rows are in the file."""
        if not record or record.boot != boot_id():
            return False
        if self.lost is None:
            is_there = not record.state & PROVEN or record.mount == mount_id(self.path) != 0
            is_there = is_there or self.is_proven(record) and self.is_whole(record) and self.is_newest(record)
            newer = self.record_at(self.word[0] % 2)
            is_there = is_there or newer and newer.sequence > record.sequence  # a writer continues in this page cache
            entries = [entry.record for entry in self.entries()]
            others = [self.word[0], *(r.sequence for r in [*map(self.record_at, range(4)), *entries] if r)]
            self.lost = 0 if is_there else max(others)
        return record.sequence > self.lost

    def is_proven(self, record):
        """Returns whether the rows of a visible record match its checksum."""
        nothing = NOTHING._replace(counters=(0,) * self.header.counters)
        bases = {r.sequence: r for r in [nothing, *filter(None, map(self.record_at, (2, 3)))]}
        number, renewed, word = struct.unpack_from("<QQI", self.bytes, self.header.live + 256)
        if record.base in bases:
            return self.proof(bases[record.base], record) == record.delta
        if number == record.sequence and renewed in bases:
            return self.proof(bases[renewed], record) == word
        last = self.durable()
        return last is not None and (last.counters, last.positions) == (record.counters, record.positions)

    def proof(self, base, record):
        """Returns one checksum of the bytes that were appended to all buffers."""
        proof, olds = 0, layout(self.schema, base.counters, self.zones)[2]
        buffers = zip(self.buffers, olds, self.parts(record), strict=True)
        for number, ((at, _), old, new) in enumerate(buffers):
            start = old.n // 8 if new.kind == "bits" else size(old)
            data = bytearray(self.bytes[at + start : at + size(new)])
            if data and new.kind == "bits" and new.n % 8:
                data[-1] &= (1 << new.n % 8) - 1
            crc, turn = crc32c(data), number % 32
            proof ^= (crc << turn | crc >> 32 - turn) & 0xFFFFFFFF
        return proof

    def is_whole(self, record):
        """Returns whether the rows of a commit are there in later segments, too."""
        if not record.state & GOES_ON:
            return True
        last = self.durable()
        if last and last.state & 3 == SEALED and last.counters == record.counters:
            return True
        try:
            after = Segment(os.path.join(os.path.dirname(self.path), f"{self.name + record.counters[0]:020}.arrow"))
        except FileNotFoundError:
            return False
        if after.dense is not None or after.durable():
            return True
        newest = after.visible() or max(filter(None, map(after.record_at, (0, 1))), key=lambda r: r.sequence)
        is_of_commit = newest.boot == boot_id() and (not newest.state & PROVISIONAL or newest.counters[0] > 0)
        return is_of_commit and after.is_proven(newest) and after.is_whole(newest)

    def is_newest(self, record):
        """Returns whether no durable commit has more rows than a visible one."""
        last = self.durable()
        for entry in self.following(last):
            last = entry.record
        if not last:
            return True
        pairs = list(zip(last.counters, record.counters, strict=True))
        has_more = any(new > old for new, old in pairs) or last.state & SEALED > record.state & SEALED
        moved = last.sequence > record.sequence and last.positions != record.positions
        return not has_more and not (moved and all(new >= old for new, old in pairs))

    def other_visible(self):
        """Returns the other record where the newest visible one is torn, if it is whole and of this boot."""
        found = [record for record in map(self.record_at, (0, 1)) if record and record.boot == boot_id()]
        record = max(found, key=lambda record: record.sequence, default=None)
        return record and self.is_current(self.check(record)) and self.behind(record)

    def behind(self, seen):
        """Returns the newest synced durable commit of this boot, if it has more than `seen`, a visible one."""
        note = struct.unpack_from("<Q", self.bytes, self.header.live + 192)[0]
        is_note = note & 3 and (note ^ crc32c(boot_id())) & 0xFFFFFFFC == 0
        noted, page = (note & 3, note >> 32) if is_note else (0, 2**32 - 1)
        synced = filter(None, (self.record_at(place) for place in (2, 3) if place - 1 != noted))
        last = max(map(self.check, synced), key=lambda record: record.sequence, default=None)
        if last and not self.is_on_disk(last):
            return seen
        for entry in self.following(last, page):
            if not self.has(entry):
                break
            last = entry.record
        if not last or last.boot != boot_id():
            return seen
        pairs = list(zip(last.counters, seen.counters, strict=True))
        has_more = any(new > old for new, old in pairs) or last.state & SEALED > seen.state & SEALED
        may_follow = last.sequence > seen.sequence and last.state & SEALED >= seen.state & SEALED
        has_more |= may_follow and last.positions != seen.positions
        return last if has_more and all(new >= old for new, old in pairs) else seen

    def entry_at(self, log, at):
        """Returns the entry at byte `at` of the log, and its number of pages; None if there is no whole one."""

        def stream(length):
            """Returns bytes of the entry, without the headers of its pages."""
            pages = [log[at : at + 4096]]
            while sum(map(len, pages)) < length:
                page = log[at + 4096 * len(pages) :][:4096]
                if len(page) < 4096 or any(page[:8]):
                    return None
                pages.append(page[8:])
            return b"".join(pages)[:length]

        count = struct.unpack_from("<I", log, at + 44)[0]
        head = 64 + 8 * (self.header.counters + count)
        lists = stream(head + 8 * self.header.counters) if count <= 256 else None
        record = lists and self.parse(lists)
        if not record:
            return None
        self.check(record)
        before = struct.unpack_from(f"<{self.header.counters}Q", lists, head)
        if any(old > new for old, new in zip(before, record.counters, strict=True)):
            return None
        spans = list(self.spans(before, record.counters))
        whole = stream(len(lists) + sum(end - start for start, end, _ in spans))
        if whole is None or crc32c(whole[head:]) != record.delta:
            return None
        pieces, done = [], len(lists)
        for start, end, _ in spans:
            pieces.append((start, whole[done : done + end - start]))
            done += end - start
        return Entry(record, before, pieces), 1 + -(-max(0, len(whole) - 4096) // 4088)

    def entries(self, upto=2**32 - 1):
        """Returns the whole entries of the log before page `upto`."""
        start, at, entries = self.header.live + 4096 + 4 * self.header.record, 0, []
        log = bytes(self.bytes[start : start + self.header.log])
        while at < len(log):
            entry = self.entry_at(log, at) if any(log[at : at + 8]) else None
            if entry and at // 4096 < upto:
                entries.append(entry[0])
            at += 4096 * (entry[1] if entry else 1)
        return entries

    def following(self, base, upto=2**32 - 1):
        """The entries of the log that follow durable record `base`, in their order;
        those from page `upto` on don't count."""
        if base and base.state & SEALED:
            return
        entries = self.entries(upto)
        last, boot = base or NOTHING._replace(counters=(0,) * self.header.counters), base and base.boot
        for entry in sorted(entries, key=lambda entry: entry.record.sequence):
            new = entry.record
            boot = boot or new.boot

            def reaches(low, high):
                return all(a <= b for a, b in zip(low, high, strict=True))

            moved = new.counters != last.counters or new.positions != last.positions
            if (
                new.boot == boot
                and new.sequence > last.sequence
                and moved
                and reaches(entry.before, last.counters)
                and reaches(last.counters, new.counters)
            ):
                last = new
                yield entry

    def has(self, entry):
        """Returns whether the bytes of an entry are in the columns."""
        spans = self.spans(entry.before, entry.record.counters)
        for (start, end, bits), (_, data) in zip(spans, entry.pieces, strict=True):
            there = bytearray(self.bytes[start:end])
            if bits:
                there[-1] &= (1 << bits) - 1
            if there != data:
                return False
        return True

    def replay(self, base):
        """Applies the log to a private copy of the file; returns the newest durable record, `base` or from the log."""
        last = base
        for entry in list(self.following(base)):
            if isinstance(self.map, mmap.mmap) and self.bytes.readonly:
                with open(self.path, "rb") as file:
                    self.map = mmap.mmap(
                        file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
                    )
                self.bytes = memoryview(self.map)
            for place, data in entry.pieces:
                self.bytes[place : place + len(data)] = data
            last = entry.record
        return last

    def is_on_disk(self, record):
        """Returns whether the bytes of a durable record are in the file."""
        nothing = NOTHING._replace(counters=(0,) * self.header.counters)
        records = [*filter(None, map(self.record_at, (2, 3))), nothing]
        base = next((r for r in records if r.sequence == record.previous), None)
        # The record before it was overwritten, so a newer one had been begun, and this one was on the disk.
        return base is None or self.delta(base, record) == record.delta

    def durable(self):
        """Returns the newest durable record whose delta is on the disk, None if there is none."""
        records = sorted(map(self.check, filter(None, map(self.record_at, (2, 3)))), key=lambda r: -r.sequence)
        return next(filter(self.is_on_disk, records), None)

    def parts(self, record):
        """Returns the contents of the buffers."""
        return layout(self.schema, record.counters, self.zones)[2]

    def check(self, record):
        """Refuses a record that is whole, but impossible for the segment."""
        columns, _, parts = layout(self.schema, record.counters, self.zones)
        if not 0 < record.sequence < 2**62 or record.previous >= record.sequence:
            raise Malformed("the number of a commit can't be what it is")
        numbered, _, _ = layout(self.schema, range(len(record.counters)), self.zones)
        nulls = {node.nulls for node in flat(numbered) if node.nullable}
        for number, (count, limit) in enumerate(zip(record.counters, self.limits, strict=True)):
            if count > limit and number not in nulls:
                raise Malformed("a counter is above its limit")
        for node in flat(columns):
            if node.nulls > node.n:
                raise Malformed("more nulls than rows")
            if pa.types.is_union(node.type) and node.type.mode == "dense" and sum(c.n for c in node.children) != node.n:
                raise Malformed("the members of a union are not as many as its rows")
            if not node.n and (
                any(parts[i].kind == "values" and parts[i].n for i in node.parts)
                or any(child.n for child in node.children)
            ):
                raise Malformed("a field without rows has items or bytes")
        for part, (_, capacity) in zip(parts, self.buffers, strict=True):
            if size(part) > capacity:
                raise Malformed("a buffer is longer than its capacity")
        return record

    def spans(self, before, after):
        """Returns ranges of the bytes that `after` adds to `before`, and the number of used bits in the last byte."""
        olds, news = (layout(self.schema, counters, self.zones)[2] for counters in (before, after))
        for (at, _), old, new in zip(self.buffers, olds, news, strict=True):
            start = old.n // 8 if new.kind == "bits" else size(old)
            if start < size(new):
                yield at + start, at + size(new), new.n % 8 if new.kind == "bits" else 0

    def delta(self, base, record):
        """Returns the checksum of the bytes that `record` adds to `base`."""
        crc = 0
        for start, end, bits in self.spans(base.counters, record.counters):
            data = bytearray(self.bytes[start:end])
            if bits:
                data[-1] &= (1 << bits) - 1
            crc = crc32c(data, crc)
        return crc

    def refresh(self):
        """Reads the newest record, if `sequence` has changed."""
        if self.dense is None and (self.sequence == 0 or self.sequence != self.word[0]):
            record = self.visible() or self.other_visible()
            if record:
                self.check(record)
            self.record = record if record and self.is_current(record) else self.replay(self.durable())

    @property
    def positions(self):
        """Returns the sequence numbers of producers, by name."""
        if self.dense is not None:
            lines = (self.dense.schema.metadata or {}).get(b"arrowwood.positions", b"").decode().split("\n")
            return {name: int(value) for value, name in (line.split(" ", 1) for line in lines if line)}
        if not self.record or not self.record.positions:
            return {}
        (at, _), names = self.buffers[-1 - len(self.zones)], []
        data = bytes(self.bytes[at : at + self.record.counters[-1]])
        while data:
            names.append(data[1 : 1 + data[0]].decode())
            data = data[1 + data[0] :]
        return dict(zip(names, self.record.positions, strict=True))

    def bounds(self):
        """Returns the zones of columns, by name: pairs of rows, and nulls, smallest and largest value."""
        found = {}
        for number, (column, size) in enumerate(self.zones):
            (at, _), field = self.buffers[number - len(self.zones)], self.schema[column]

            def value(raw, length, cut, t=field.type):
                if pa.types.is_floating(t):
                    return struct.unpack("<d", raw[:8])[0]
                if t in BYTES or t in VIEWS or pa.types.is_dictionary(t) or pa.types.is_fixed_size_binary(t):
                    return raw[:length] + (b"..." if cut else b"")
                return int.from_bytes(raw, "little", signed=True)

            for block in range(self.rows // size):
                nulls, flags, low_len, high_len, _, low, high = ZONE.unpack_from(self.bytes, at + ZONE.size * block)
                ends = (value(low, low_len, flags & 4), value(high, high_len, flags & 8)) if flags & 1 else (None, None)
                found.setdefault(field.name, []).append((range(block * size, (block + 1) * size), nulls, *ends))
        return found

    # ---- what the record says

    def end_at(self, row):
        """Returns whether the segments from number `row` on were merged into this one, and are still there."""
        self.dense = self.dense.slice(0, row - self.name)

    def was_replaced(self):
        """Returns whether the file was renamed."""
        try:
            return os.stat(self.path).st_ino != self.inode
        except FileNotFoundError:
            return True

    @property
    def rows(self):
        if self.dense is not None:
            return self.dense.num_rows
        return self.record.counters[0] if self.record else 0

    @property
    def end(self):
        return self.name + self.rows

    @property
    def sealed(self):
        return self.dense is not None or bool(self.record and self.record.state & SEALED)

    def table(self):
        """Returns the rows as a pyarrow table, in place."""
        if self.dense is not None:
            return self.dense
        if self.record is None:
            return self.schema.empty_table()
        columns, entries, _ = layout(self.schema, self.record.counters, self.zones)
        buffers = [
            pa.py_buffer(self.bytes[at : at + size(part)])
            for (at, _), part in zip(self.buffers, self.parts(self.record), strict=True)
        ]
        entries = iter(entries)

        def array(node):
            own = [buffers[i] for i in node.parts]
            if pa.types.is_null(node.type):
                return pa.nulls(node.n)
            if pa.types.is_union(node.type):
                own.insert(0, None)
            elif not node.nullable:
                own[0] = None
            if pa.types.is_dictionary(node.type):
                keys = pa.Array.from_buffers(node.type.index_type, node.n, own, node.nulls)
                return pa.DictionaryArray.from_arrays(keys, array(next(entries)), ordered=node.type.ordered)
            return pa.Array.from_buffers(node.type, node.n, own, node.nulls, children=[array(c) for c in node.children])

        return pa.Table.from_arrays([array(node) for node in columns], schema=self.schema)


class Table:
    """Returns the current segments of a folder."""

    def __init__(self, path):
        self.path, self.segments = path, []
        self.refresh()

    def refresh(self):
        """Reads new rows; returns whether there are any. Reads only the live segment while it goes on."""
        before = self.end
        if self.segments:
            self.segments[-1].refresh()
        if not self.segments or self.segments[-1].sealed:
            self._go_on(self.segments[-1].name if self.segments else -1)
        if self.end == before and self.segments and self.segments[-1].sealed and self.segments[-1].was_replaced():
            # Merged, maybe with those behind it. What was dropped is kept.
            first = min(self._names(), default=0)
            self.segments = [segment for segment in self.segments if segment.name < first]
            self._go_on(self.segments[-1].name if self.segments else -1)
        return self.end != before

    def _go_on(self, live):
        """Adds the segments after `live`, as far as each begins where the one before is sealed."""
        try:
            ahead = [Segment(os.path.join(self.path, f"{name:020}.arrow")) for name in self._names() if name > live]
        except FileNotFoundError:  # dropped after the folder was listed
            return self._go_on(live)
        # The last one first: when one says it is no longer provisional, the one before it is sealed already. So all of
        # them can be held to what the page asks of provisional and of recovered ones.
        for segment in [*self.segments[-1:], *ahead][::-1]:
            segment.refresh()
        for segment in ahead:
            if self.segments and self.segments[-1].dense is not None and self.end > segment.name:
                self.segments[-1].end_at(segment.name)
            if self.segments and not (self.segments[-1].sealed and self.end == segment.name):
                break
            self.segments.append(segment)
        if self.segments and self.segments[-1].sealed and self.end in self._names():
            return self._go_on(self.segments[-1].name)  # named after the folder was listed
        return None

    def _names(self):
        names = (name.removesuffix(".arrow") for name in os.listdir(self.path) if name.endswith(".arrow"))
        return sorted(int(name) for name in names if len(name) == 20 and name.isdecimal())

    @property
    def first_row(self):
        """The number of the first row that was not dropped."""
        return self.segments[0].name if self.segments else 0

    @property
    def end(self):
        """The number of the row after the last one."""
        return self.segments[-1].end if self.segments else 0

    @property
    def positions(self):
        """Returns the sequence numbers of producers, by name."""
        return self.segments[-1].positions if self.segments else {}

    def rows(self, start=0):
        """Returns the rows from number `start` on, as dicts, with the columns of the last segment."""
        newest = self.segments[-1].table().schema if self.segments else None
        return [
            row
            for segment in self.segments
            if segment.end > start
            for row in fitted(segment.table(), newest).slice(max(0, start - segment.name)).to_pylist()
        ]


def open_table(path):
    return Table(path)
