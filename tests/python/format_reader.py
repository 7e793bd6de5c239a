"""A reader of growing tables, written from docs/format.md alone, without any code of Arrowwood.

pyarrow parses the schema and holds the arrays; `format_layout` calculates where the buffers of a segment are. This
module reads the rest: records, checksums, the log, the chain of segments, and which commit counts after a crash.

    table = open_table("ticks")
    table.rows()                # a list of dicts
    table.refresh()             # returns whether there are new rows; loads 8 bytes if there are none
    table.rows(start=1000)      # the rows from number 1000 on
"""

import mmap
import os
import struct
import uuid
from typing import NamedTuple

import pyarrow as pa

from format_layout import (
    HEADER,
    HEADER_SIZE,
    MAX_POSITIONS,
    PAGE,
    RECORD_SIZE,
    ZONE,
    BufferPlace,
    Header,
    HeaderLists,
    Layout,
    Malformed,
    ZoneColumn,
    check_header,
    flatten,
    is_binary,
    is_dense_union,
    round_up,
)

RECORD = struct.Struct("<QII16sQIIQQ")
MAGIC = b"ArrwWood"

# Bits of a record's `state`.
SEALED, PROVISIONAL, PROVEN, CONTINUES = 1, 2, 4, 8

# Numbers of the four records of a segment.
VISIBLE_RECORDS = (0, 1)
DURABLE_RECORDS = (2, 3)

# The page from which on entries of the log are not synced, if all are.
END_OF_LOG = 2**32 - 1


class Record(NamedTuple):
    """A visible or durable record, with the names of docs/format.md."""

    sequence: int
    state: int
    crc: int
    boot: bytes
    previous: int
    delta: int  # the proof in visible records
    position_count: int
    base: int
    mount: int
    counters: tuple[int, ...]
    positions: tuple[int, ...]

    @property
    def is_sealed(self):
        return bool(self.state & SEALED)

    @property
    def is_provisional(self):
        return bool(self.state & PROVISIONAL)


class LogEntry(NamedTuple):
    """An entry of the log: its record, the counters before it, and pairs of file offset and bytes."""

    record: Record
    counters_before: tuple[int, ...]
    pieces: list[tuple[int, bytes]]


class Span(NamedTuple):
    """A range of the file's bytes; `last_bits` bits of the last byte are used, or all if it is 0."""

    start: int
    end: int
    last_bits: int

    def read(self, data):
        """Returns the bytes, with unused bits as 0."""
        result = bytearray(data[self.start : self.end])
        if result and self.last_bits:
            result[-1] &= (1 << self.last_bits) - 1
        return result


class Zone(NamedTuple):
    """The zone of a block of rows: its nulls, and its smallest and largest value, None without any."""

    rows: range
    nulls: int
    smallest: object
    largest: object


def build_crc_table():
    table = list(range(256))
    for _ in range(8):
        table = [crc >> 1 ^ (0x82F63B78 if crc & 1 else 0) for crc in table]
    return table


CRC_TABLE = build_crc_table()


def crc32c(data, crc=0):
    """Returns the CRC-32C of `data`, continued from `crc`, the checksum of the bytes before."""
    crc ^= 0xFFFFFFFF
    for byte in bytes(data):
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def boot_id():
    with open("/proc/sys/kernel/random/boot_id") as file:
        return uuid.UUID(file.read().strip()).bytes


def mount_id(path):
    """Returns the mount ID of a file: always 0, which stands for unknown, and which no writer has."""
    return 0


def is_wider(new, old):
    """Returns whether type `new` is a wider number than `old`, and holds its values exactly."""
    signed, unsigned = pa.types.is_signed_integer, pa.types.is_unsigned_integer
    pairs = (signed, signed), (unsigned, unsigned), (signed, unsigned), (pa.types.is_floating, pa.types.is_floating)
    return any(is_new(new) and is_old(old) for is_new, is_old in pairs) and new.bit_width > old.bit_width


def cast_to_schema(table, schema):
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


def is_empty_message(metadata):
    """Returns whether a message's flatbuffer has no header: `MessageHeader.NONE`."""
    if len(metadata) < 8:
        return False
    root = struct.unpack_from("<I", metadata)[0]
    vtable = root - struct.unpack_from("<i", metadata, root)[0]
    vtable_size = struct.unpack_from("<H", metadata, vtable)[0]
    header_type = struct.unpack_from("<H", metadata, vtable + 6)[0] if vtable_size > 6 else 0
    return not header_type or not metadata[root + header_type]


def all_at_most(low, high):
    """Returns whether no counter of `low` is above its counterpart in `high`."""
    return all(a <= b for a, b in zip(low, high, strict=True))


def has_more_counted(new, old):
    """Returns whether a record has a larger counter than another, or is sealed and the other isn't."""
    is_larger = any(a > b for a, b in zip(new.counters, old.counters, strict=True))
    return is_larger or new.is_sealed > old.is_sealed


class Segment:
    """Reads one file of a table.

    `record` is the record that counts, None if there is none; `sequence` is the number that the live page had at the
    last refresh. A dense segment has a `dense_table` instead.
    """

    def __init__(self, path):
        self.path = path
        self.first_row = int(os.path.basename(path).removesuffix(".arrow"))
        with open(path, "rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            self.inode = os.fstat(file.fileno()).st_ino
        self.data = memoryview(self.map)
        self.dense_table = None
        self.record = None
        self.sequence = 0
        # Commits up to this number don't match the rows in the file; None until they were compared.
        self.lost_sequence = None

        schema, offset = self._read_message(8)
        message, offset = self._read_message(offset)
        start = round_up(offset, PAGE)
        if self.data[start : start + 8] == MAGIC:
            self.schema = pa.ipc.read_schema(pa.py_buffer(schema))
            self._read_header(start)
        elif is_empty_message(message[8:]):
            raise Malformed("the header is missing")
        else:
            with pa.ipc.open_file(pa.py_buffer(self.map)) as file:
                self.dense_table = file.read_all()

    def _read_message(self, offset):
        """Returns the framed message at an offset, empty at the end of a stream or if it is cut off, and its end."""
        marker, length = struct.unpack_from("<Ii", self.data, offset)
        end = offset + 8 + (length if marker == 0xFFFFFFFF else 0)
        return self.data[offset:end] if end > offset + 8 else b"", end

    def _read_header(self, start):
        self.header = header = Header._make(HEADER.unpack_from(self.data, start))
        if header.major != 1:
            raise Malformed(f"format version {header.major}.{header.minor}")
        raw = bytearray(self.data[start : start + header.length])
        # Checksums are calculated with their own field as 0.
        raw[16:20] = bytes(4)
        limits_offset = HEADER_SIZE + 16 * header.buffers
        zones_offset = limits_offset + 8 * header.counters
        lists_end = zones_offset + 8 * header.zones
        if header.length < lists_end or crc32c(raw) != header.crc:
            raise Malformed("the header's checksum is wrong")
        if header.file != len(self.data) or header.first_row != self.first_row:
            raise Malformed("the header doesn't fit the file")
        if header.length != len(raw):
            raise Malformed("the header is cut off")
        shared = struct.unpack("<Q", raw[lists_end : lists_end + 8].ljust(8, b"\0"))[0] if header.minor > 0 else 0
        lists = HeaderLists(
            places=list(map(BufferPlace._make, struct.iter_unpack("<QQ", raw[HEADER_SIZE:limits_offset]))),
            limits=struct.unpack_from(f"<{header.counters}Q", raw, limits_offset),
            zones=list(map(ZoneColumn._make, struct.iter_unpack("<II", raw[zones_offset:lists_end]))),
            shared=shared,
        )
        check_header(header, start, self.schema, lists)
        self.places, self.limits, self.zones = lists.places, lists.limits, lists.zones
        # An item of a view of 8-byte words is read in one load.
        self._sequence_word = self.data[header.live : header.live + 8].cast("Q")

    @property
    def is_dense(self):
        return self.dense_table is not None

    @property
    def live_sequence(self):
        """The number of the newest visible commit in the live page."""
        return self._sequence_word[0]

    def layout(self, counters):
        return Layout(self.schema, counters, self.zones)

    def refresh(self):
        """Reads the record that counts, if `sequence` has changed."""
        if self.is_dense or self.sequence != 0 and self.sequence == self.live_sequence:
            return
        record = self.newest_visible() or self.other_visible()
        if record:
            self.check(record)
        self.record = record if record and self.is_current(record) else self.replay(self.newest_durable())

    # Records

    @property
    def empty_record(self):
        """The record before the first one, whose counters are 0."""
        return Record(0, 0, 0, b"", 0, 0, 0, 0, 0, (0,) * self.header.counters, ())

    def record_offset(self, number):
        return self.header.records_offset + number * self.header.record

    def read_record(self, number):
        """Returns record `number` of the four, None if it is not whole."""
        offset = self.record_offset(number)
        return self.parse_record(self.data[offset : offset + self.header.record])

    def read_whole_records(self, numbers):
        return [record for record in map(self.read_record, numbers) if record]

    def parse_record(self, raw):
        """Returns the record at the start of bytes, None if it is not whole."""
        fixed = RECORD.unpack_from(raw)
        sequence, position_count = fixed[0], fixed[6]
        positions_offset = RECORD_SIZE + 8 * self.header.counters
        end = positions_offset + 8 * position_count
        if not sequence or position_count > MAX_POSITIONS or end > len(raw):
            return None
        counters = struct.unpack_from(f"<{self.header.counters}Q", raw, RECORD_SIZE)
        positions = struct.unpack_from(f"<{position_count}q", raw, positions_offset)
        record = Record(*fixed, counters, positions)
        raw = bytearray(raw[:end])
        raw[12:16] = bytes(4)
        return record if crc32c(raw) == record.crc else None

    def check(self, record):
        """Refuses a record that is whole, but impossible for the segment."""
        if not 0 < record.sequence < 2**62 or record.previous >= record.sequence:
            raise Malformed("the number of a commit can't be what it is")
        self._check_limits(record)
        layout = self.layout(record.counters)
        for field in flatten(layout.columns):
            if field.nulls > field.length:
                raise Malformed("more nulls than rows")
            if is_dense_union(field.type) and sum(child.length for child in field.children) != field.length:
                raise Malformed("the members of a union are not as many as its rows")
            if field.length == 0:
                own_buffers = [layout.buffers[number] for number in field.buffers]
                has_bytes = any(buffer.kind == "values" and buffer.elements for buffer in own_buffers)
                if has_bytes or any(child.length for child in field.children):
                    raise Malformed("a field without rows has items or bytes")
        for buffer, place in zip(layout.buffers, self.places, strict=True):
            if buffer.size > place.capacity:
                raise Malformed("a buffer is longer than its capacity")
        return record

    def _check_limits(self, record):
        # Give each counter its number, to learn which ones count nulls: these may exceed their limits.
        numbered = self.layout(range(len(record.counters)))
        null_counters = {field.nulls for field in flatten(numbered.columns) if field.is_nullable}
        for number, (count, limit) in enumerate(zip(record.counters, self.limits, strict=True)):
            if count > limit and number not in null_counters:
                raise Malformed("a counter is above its limit")

    # Visible records

    def newest_visible(self):
        """Returns the newest visible record, None if it is not whole."""
        while True:
            self.sequence = self.live_sequence
            record = self.read_record(self.sequence % 2)
            if record and record.sequence == self.sequence:
                return record
            if self.live_sequence == self.sequence:
                # No writer was active meanwhile, so the record is torn.
                return None

    def other_visible(self):
        """Returns what counts if the newest visible record is torn: the other one, or a commit synced after it."""
        candidates = [record for record in self.read_whole_records(VISIBLE_RECORDS) if record.boot == boot_id()]
        record = max(candidates, key=lambda record: record.sequence, default=None)
        if not record or not self.is_current(self.check(record)):
            return None
        return self.newest_synced(record)

    def is_current(self, record):
        """Returns whether a visible record is of this boot, and its rows are in the file."""
        if not record or record.boot != boot_id():
            return False
        if self.lost_sequence is None:
            if self._has_rows_of(record):
                self.lost_sequence = 0
            else:
                records = self.read_whole_records(VISIBLE_RECORDS + DURABLE_RECORDS)
                records += [entry.record for entry in self.read_entries()]
                self.lost_sequence = max([self.live_sequence, *(other.sequence for other in records)])
        return record.sequence > self.lost_sequence

    def _has_rows_of(self, record):
        """Returns whether the page cache has the rows of a visible record of this boot."""
        if not record.state & PROVEN or record.mount == mount_id(self.path) != 0:
            return True
        if self.is_proven(record) and self.is_whole(record) and self.is_newest(record):
            return True
        # A newer record shows that a writer is active in this page cache.
        newer = self.read_record(self.live_sequence % 2)
        return newer is not None and newer.sequence > record.sequence

    def is_proven(self, record):
        """Returns whether the rows of a visible record match its proof."""
        bases = {base.sequence: base for base in [self.empty_record, *self.read_whole_records(DURABLE_RECORDS)]}
        renewed, renewed_base, renewed_proof = struct.unpack_from("<QQI", self.data, self.header.live + 256)
        if record.base in bases:
            return self.proof(bases[record.base], record) == record.delta
        if renewed == record.sequence and renewed_base in bases:
            return self.proof(bases[renewed_base], record) == renewed_proof
        durable = self.newest_durable()
        return durable is not None and (durable.counters, durable.positions) == (record.counters, record.positions)

    def is_whole(self, record):
        """Returns whether the rows of a commit that continues are in the next segment, too."""
        if not record.state & CONTINUES:
            return True
        durable = self.newest_durable()
        if durable and durable.is_sealed and not durable.is_provisional and durable.counters == record.counters:
            return True
        next_path = os.path.join(os.path.dirname(self.path), f"{self.first_row + record.counters[0]:020}.arrow")
        try:
            after = Segment(next_path)
        except FileNotFoundError:
            return False
        if after.is_dense or after.newest_durable():
            return True
        newest = after.newest_visible() or max(
            after.read_whole_records(VISIBLE_RECORDS), key=lambda record: record.sequence
        )
        is_of_commit = newest.boot == boot_id() and (not newest.is_provisional or newest.counters[0] > 0)
        return is_of_commit and after.is_proven(newest) and after.is_whole(newest)

    def is_newest(self, record):
        """Returns whether no durable commit has more than a visible one."""
        durable = self.newest_durable()
        for entry in self.entries_after(durable):
            durable = entry.record
        if not durable:
            return True
        has_new_positions = durable.sequence > record.sequence and durable.positions != record.positions
        is_later = has_new_positions and all_at_most(record.counters, durable.counters)
        return not has_more_counted(durable, record) and not is_later

    def newest_synced(self, visible):
        """Returns the newest commit of this boot that was synced, if it has more than a visible one, else that."""
        note = struct.unpack_from("<Q", self.data, self.header.live + 192)[0]
        noted_record, end_page = 0, END_OF_LOG
        if note & 3 and (note ^ crc32c(boot_id())) & 0xFFFFFFFC == 0:
            noted_record, end_page = note & 3, note >> 32
        synced = self.read_whole_records(number for number in DURABLE_RECORDS if number - 1 != noted_record)
        newest = max(map(self.check, synced), key=lambda record: record.sequence, default=None)
        if newest and not self.is_on_disk(newest):
            return visible
        for entry in self.entries_after(newest, end_page):
            if not self.contains(entry):
                break
            newest = entry.record
        if not newest or newest.boot != boot_id():
            return visible
        may_follow = newest.sequence > visible.sequence and newest.is_sealed >= visible.is_sealed
        has_more = has_more_counted(newest, visible) or may_follow and newest.positions != visible.positions
        return newest if has_more and all_at_most(visible.counters, newest.counters) else visible

    # Durable records

    def newest_durable(self):
        """Returns the newest durable record whose delta is on the disk, None if there is none."""
        records = map(self.check, self.read_whole_records(DURABLE_RECORDS))
        newest_first = sorted(records, key=lambda record: -record.sequence)
        return next(filter(self.is_on_disk, newest_first), None)

    def is_on_disk(self, record):
        """Returns whether the rows that a durable record adds are in the file."""
        records = [*self.read_whole_records(DURABLE_RECORDS), self.empty_record]
        base = next((other for other in records if other.sequence == record.previous), None)
        # If the record before was overwritten, a newer one had been begun, and this one was on the disk.
        return base is None or self.delta(base, record) == record.delta

    def new_spans(self, before, after):
        """Yields the bytes of each buffer that counters `after` add to counters `before`; spans may be empty."""
        old_buffers, new_buffers = self.layout(before).buffers, self.layout(after).buffers
        for place, old, new in zip(self.places, old_buffers, new_buffers, strict=True):
            is_bits = new.kind == "bits"
            start = old.elements // 8 if is_bits else old.size
            yield Span(place.offset + start, place.offset + new.size, new.elements % 8 if is_bits else 0)

    def delta(self, base, record):
        """Returns the checksum of the bytes that `record` adds to `base`."""
        crc = 0
        for span in self.new_spans(base.counters, record.counters):
            crc = crc32c(span.read(self.data), crc)
        return crc

    def proof(self, base, record):
        """Returns the combined checksums of the bytes that `record` adds to each buffer of `base`."""
        proof = 0
        for number, span in enumerate(self.new_spans(base.counters, record.counters)):
            crc, shift = crc32c(span.read(self.data)), number % 32
            proof ^= (crc << shift | crc >> 32 - shift) & 0xFFFFFFFF
        return proof

    # The log

    def read_entries(self, end_page=END_OF_LOG):
        """Returns the whole entries of the log before page `end_page`."""
        start = self.header.log_offset
        log = bytes(self.data[start : start + self.header.log])
        entries, offset = [], 0
        while offset < len(log):
            entry, pages = self._read_entry(log, offset)
            if entry and offset // PAGE < end_page:
                entries.append(entry)
            offset += PAGE * pages
        return entries

    def _read_entry(self, log, offset):
        """Returns the entry at a page of the log and its number of pages; None and 1 if there is no whole one."""
        if not any(log[offset : offset + 8]):
            return None, 1
        position_count = struct.unpack_from("<I", log, offset + 44)[0]
        if position_count > MAX_POSITIONS:
            return None, 1
        record_size = RECORD_SIZE + 8 * (self.header.counters + position_count)
        head = read_entry_bytes(log, offset, record_size + 8 * self.header.counters)
        record = head and self.parse_record(head)
        if not record:
            return None, 1
        self.check(record)
        counters_before = struct.unpack_from(f"<{self.header.counters}Q", head, record_size)
        if not all_at_most(counters_before, record.counters):
            return None, 1
        spans = list(self.new_spans(counters_before, record.counters))
        size = len(head) + sum(span.end - span.start for span in spans)
        content = read_entry_bytes(log, offset, size)
        if content is None or crc32c(content[record_size:]) != record.delta:
            return None, 1
        pieces, done = [], len(head)
        for span in spans:
            length = span.end - span.start
            pieces.append((span.start, content[done : done + length]))
            done += length
        # Pages after the first begin with 8 zeros.
        further_pages = -(-max(0, size - PAGE) // (PAGE - 8))
        return LogEntry(record, counters_before, pieces), 1 + further_pages

    def entries_after(self, base, end_page=END_OF_LOG):
        """Yields the entries of the log that follow durable record `base`, in their order, before page `end_page`."""
        if base and base.is_sealed:
            return
        last, boot = base or self.empty_record, base and base.boot
        for entry in sorted(self.read_entries(end_page), key=lambda entry: entry.record.sequence):
            new = entry.record
            # Without a durable record the first entry determines the boot.
            boot = boot or new.boot
            if (
                new.boot == boot
                and new.sequence > last.sequence
                and (new.counters != last.counters or new.positions != last.positions)
                and all_at_most(entry.counters_before, last.counters)
                and all_at_most(last.counters, new.counters)
            ):
                last = new
                yield entry

    def contains(self, entry):
        """Returns whether the bytes of an entry are in the columns."""
        spans = self.new_spans(entry.counters_before, entry.record.counters)
        return all(span.read(self.data) == data for span, (_, data) in zip(spans, entry.pieces, strict=True))

    def replay(self, base):
        """Applies the log to a private copy of the file; returns the newest durable record, `base` or from the log."""
        last = base
        for entry in list(self.entries_after(base)):
            if self.data.readonly:
                with open(self.path, "rb") as file:
                    access = mmap.PROT_READ | mmap.PROT_WRITE
                    self.map = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=access)
                self.data = memoryview(self.map)
            for offset, data in entry.pieces:
                self.data[offset : offset + len(data)] = data
            last = entry.record
        return last

    # Rows

    @property
    def rows(self):
        """The number of rows."""
        if self.is_dense:
            return self.dense_table.num_rows
        return self.record.counters[0] if self.record else 0

    @property
    def end(self):
        """The number of the row after the last one."""
        return self.first_row + self.rows

    @property
    def is_sealed(self):
        return self.is_dense or self.record is not None and self.record.is_sealed

    def end_at(self, row):
        """Leaves out the rows from number `row` on, which the names of merged segments still stand for."""
        self.dense_table = self.dense_table.slice(0, row - self.first_row)

    def was_replaced(self):
        """Returns whether the name belongs to another file, or to none."""
        try:
            return os.stat(self.path).st_ino != self.inode
        except FileNotFoundError:
            return True

    @property
    def positions(self):
        """The positions of producers, by name."""
        if self.is_dense:
            text = (self.dense_table.schema.metadata or {}).get(b"arrowwood.positions", b"").decode()
            pairs = [line.split(" ", 1) for line in text.split("\n") if line]
            return {name: int(value) for value, name in pairs}
        if not self.record or not self.record.positions:
            return {}
        offset = self.places[-1 - len(self.zones)].offset
        data = bytes(self.data[offset : offset + self.record.counters[-1]])
        names = []
        while data:
            end = 1 + data[0]
            names.append(data[1:end].decode())
            data = data[end:]
        return dict(zip(names, self.record.positions, strict=True))

    def read_zones(self):
        """Returns the zones of columns, by name."""
        zones = {}
        for number, (column, block_rows) in enumerate(self.zones):
            offset = self.places[number - len(self.zones)].offset
            field = self.schema[column]
            for block in range(self.rows // block_rows):
                rows = range(block * block_rows, (block + 1) * block_rows)
                zone = self._read_zone(offset + ZONE.size * block, rows, field.type)
                zones.setdefault(field.name, []).append(zone)
        return zones

    def _read_zone(self, offset, rows, type):
        nulls, flags, low_length, high_length, _, low, high = ZONE.unpack_from(self.data, offset)
        if not flags & 1:
            return Zone(rows, nulls, None, None)
        smallest = decode_zone_value(low, low_length, flags & 4, type)
        largest = decode_zone_value(high, high_length, flags & 8, type)
        return Zone(rows, nulls, smallest, largest)

    def table(self):
        """Returns the rows as a pyarrow table over the mapped file."""
        if self.is_dense:
            return self.dense_table
        if self.record is None:
            return self.schema.empty_table()
        layout = self.layout(self.record.counters)
        buffers = [
            pa.py_buffer(self.data[place.offset : place.offset + buffer.size])
            for place, buffer in zip(self.places, layout.buffers, strict=True)
        ]
        dictionaries = iter(layout.dictionaries)
        columns = [build_array(field, buffers, dictionaries) for field in layout.columns]
        return pa.Table.from_arrays(columns, schema=self.schema)


def read_entry_bytes(log, offset, length):
    """Returns the first bytes of the entry at a page of the log, without the headers of its pages; None if cut off."""
    pages = [log[offset : offset + PAGE]]
    while sum(map(len, pages)) < length:
        start = offset + PAGE * len(pages)
        page = log[start : start + PAGE]
        if len(page) < PAGE or any(page[:8]):
            return None
        pages.append(page[8:])
    return b"".join(pages)[:length]


def decode_zone_value(raw, length, is_cut, type):
    """Returns a bound of a zone: a float, an integer, or bytes, which end in "..." if they are cut."""
    if pa.types.is_floating(type):
        return struct.unpack("<d", raw[:8])[0]
    if is_binary(type) or pa.types.is_dictionary(type) or pa.types.is_fixed_size_binary(type):
        return raw[:length] + (b"..." if is_cut else b"")
    return int.from_bytes(raw, "little", signed=True)


def build_array(field, buffers, dictionaries):
    """Returns the pyarrow array of a field; takes the next one of `dictionaries` for its entries."""
    type = field.type
    if pa.types.is_null(type):
        return pa.nulls(field.length)
    own_buffers = [buffers[number] for number in field.buffers]
    if pa.types.is_union(type):
        own_buffers.insert(0, None)
    elif not field.is_nullable:
        own_buffers[0] = None
    if pa.types.is_dictionary(type):
        keys = pa.Array.from_buffers(type.index_type, field.length, own_buffers, field.nulls)
        entries = build_array(next(dictionaries), buffers, dictionaries)
        return pa.DictionaryArray.from_arrays(keys, entries, ordered=type.ordered)
    children = [build_array(child, buffers, dictionaries) for child in field.children]
    return pa.Array.from_buffers(type, field.length, own_buffers, field.nulls, children=children)


class Table:
    """Reads the segments of a directory that count."""

    def __init__(self, path):
        self.path = path
        self.segments = []
        self.refresh()

    def refresh(self):
        """Reads new rows, and returns whether there are any; lists the directory only if the live segment ended."""
        end_before = self.end
        if self.segments:
            self.segments[-1].refresh()
        if not self.segments or self.segments[-1].is_sealed:
            self._add_segments()
        if self.end == end_before and self.segments:
            last = self.segments[-1]
            if last.is_sealed and last.was_replaced():
                self._reopen_merged_segments()
        return self.end != end_before

    def _reopen_merged_segments(self):
        """Opens the files that replaced merged segments, and keeps the segments that were dropped."""
        first_name = min(self._list_names(), default=0)
        self.segments = [segment for segment in self.segments if segment.first_row < first_name]
        self._add_segments()

    def _add_segments(self):
        """Adds the segments behind the last one, as long as each begins where the sealed one before it ends."""
        last_name = self.segments[-1].first_row if self.segments else -1
        try:
            new_segments = [Segment(self._segment_path(name)) for name in self._list_names() if name > last_name]
        except FileNotFoundError:
            # A segment was dropped after the directory was listed.
            self._add_segments()
            return
        # Read the last one first: if a segment is not provisional any more, the one before it was sealed earlier. So
        # the same rule holds for all of them, whether they are provisional or recovered.
        for segment in reversed([*self.segments[-1:], *new_segments]):
            segment.refresh()
        for segment in new_segments:
            if self.segments:
                last = self.segments[-1]
                if last.is_dense and last.end > segment.first_row:
                    last.end_at(segment.first_row)
                if not last.is_sealed or last.end != segment.first_row:
                    break
            self.segments.append(segment)
        if self.segments and self.segments[-1].is_sealed and self.end in self._list_names():
            # The next segment was named after the directory was listed.
            self._add_segments()

    def _segment_path(self, name):
        return os.path.join(self.path, f"{name:020}.arrow")

    def _list_names(self):
        names = (name.removesuffix(".arrow") for name in os.listdir(self.path) if name.endswith(".arrow"))
        return sorted(int(name) for name in names if len(name) == 20 and name.isdecimal())

    @property
    def first_row(self):
        """The number of the first row that was not dropped."""
        return self.segments[0].first_row if self.segments else 0

    @property
    def end(self):
        """The number of the row after the last one."""
        return self.segments[-1].end if self.segments else 0

    @property
    def positions(self):
        """The positions of producers, by name."""
        return self.segments[-1].positions if self.segments else {}

    def rows(self, start=0):
        """Returns the rows from number `start` on, as dicts, with the columns of the last segment."""
        if not self.segments:
            return []
        schema = self.segments[-1].table().schema
        rows = []
        for segment in self.segments:
            if segment.end > start:
                table = cast_to_schema(segment.table(), schema)
                rows += table.slice(max(0, start - segment.first_row)).to_pylist()
        return rows


def open_table(path):
    return Table(path)
