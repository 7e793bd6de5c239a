//! Reads, damages and dumps the bytes of a growable segment, as laid out in `docs/format.md`.

use std::fmt::Write;
use std::ops::Range;

const PAGE: usize = 4096;
const MAGIC: &[u8] = b"ArrwWood";

/// The length of a record before its counters, and the offset of its checksum.
const RECORD_HEAD_LEN: usize = 64;
const RECORD_CRC: usize = 12;
const HEADER_CRC: usize = 16;
/// The length of the header before its lists of buffers and limits.
const HEADER_HEAD_LEN: usize = 128;

/// The numbers of the durable records, after the visible records 0 and 1.
const DURABLE_RECORDS: [usize; 2] = [2, 3];

/// Values that golden files have in place of a process id and of a footer's time.
const GOLDEN_PROCESS_ID: u32 = 4242;
const GOLDEN_TIME_US: u64 = 1_790_000_000_000_000;

/// The bytes of a growable segment.
pub struct Segment {
    pub bytes: Vec<u8>,
    header: usize,
}

impl Segment {
    /// Returns `None` if the file has no header, as a dense segment has none.
    pub fn parse(bytes: Vec<u8>) -> Option<Segment> {
        let header = find_header(&bytes)?;
        Some(Segment { bytes, header })
    }

    /// Returns the offset of the header.
    pub fn header(&self) -> usize {
        self.header
    }

    fn read_u64(&self, offset: usize) -> usize {
        u64::from_le_bytes(self.bytes[offset..offset + 8].try_into().unwrap()) as usize
    }

    fn read_u32(&self, offset: usize) -> usize {
        u32::from_le_bytes(self.bytes[offset..offset + 4].try_into().unwrap()) as usize
    }

    /// Reads an eight-byte field at an offset in the header.
    fn header_u64(&self, offset: usize) -> usize {
        self.read_u64(self.header + offset)
    }

    /// Reads a four-byte field at an offset in the header.
    fn header_u32(&self, offset: usize) -> usize {
        self.read_u32(self.header + offset)
    }

    fn header_len(&self) -> usize {
        self.header_u32(12)
    }

    fn slot_count(&self) -> usize {
        self.header_u32(20)
    }

    fn live_page(&self) -> usize {
        self.header_u64(40)
    }

    fn record_size(&self) -> usize {
        self.header_u64(48)
    }

    /// Returns the offset at which the footers end.
    fn tail(&self) -> usize {
        self.header_u64(72)
    }

    fn footer_size(&self) -> usize {
        self.header_u64(80)
    }

    fn buffer_count(&self) -> usize {
        self.header_u32(96)
    }

    fn counter_count(&self) -> usize {
        self.header_u32(100)
    }

    /// Returns the number of footers whose place is taken by the schema that the others share. Version 1.0 has none.
    fn shared_footer_count(&self) -> usize {
        let minor_version = self.header_u32(8) >> 16;
        if minor_version == 0 {
            return 0;
        }
        let zone_count = self.header_u32(108) & 0xffff;
        self.header_u64(HEADER_HEAD_LEN + 16 * self.buffer_count() + 8 * (self.counter_count() + zone_count))
    }

    /// Returns the offset of a record: 0 and 1 are visible, 2 and 3 are durable.
    fn record(&self, number: usize) -> usize {
        self.live_page() + PAGE + number * self.record_size()
    }

    /// Returns the offset of the newest visible record.
    pub fn visible_record(&self) -> usize {
        self.record(self.read_u64(self.live_page()) % 2)
    }

    /// Returns the offset of the log.
    pub fn log(&self) -> usize {
        self.record(4)
    }

    /// Returns the place of a buffer.
    fn buffer(&self, number: usize) -> Range<usize> {
        let entry = HEADER_HEAD_LEN + 16 * number;
        let start = self.header_u64(entry);
        start..start + self.header_u64(entry + 8)
    }

    /// Flips a bit of the byte at `offset`.
    pub fn flip_bit(&mut self, offset: usize) {
        self.bytes[offset] ^= 0x10;
    }

    /// Clears a part of the values of column `number`. All columns up to it must have a fixed width.
    pub fn clear_values(&mut self, number: usize, part: Range<usize>) {
        let start = self.buffer(2 * number + 1).start;
        self.bytes[start + part.start..start + part.end].fill(0);
    }

    pub fn clear_buffers(&mut self) {
        for number in 0..self.buffer_count() {
            let buffer = self.buffer(number);
            self.bytes[buffer].fill(0);
        }
    }

    pub fn tear_newest_durable_record(&mut self) {
        let newest = DURABLE_RECORDS.into_iter().max_by_key(|&number| self.read_u64(self.record(number))).unwrap();
        self.flip_bit(self.record(newest) + RECORD_HEAD_LEN);
    }

    /// Changes a counter of the record at `record`, and updates the checksum.
    pub fn set_counter(&mut self, record: usize, counter: usize, value: u64) {
        self.bytes[record + RECORD_HEAD_LEN + 8 * counter..][..8].copy_from_slice(&value.to_le_bytes());
        let position_count = self.read_u32(record + 44);
        let len = RECORD_HEAD_LEN + 8 * (self.counter_count() + position_count);
        self.update_checksum(record, len, RECORD_CRC);
    }

    /// Changes the header to version 1.7, with an unknown field of eight bytes.
    pub fn lengthen_header(&mut self) {
        let len = self.header_len();
        self.bytes[self.header + 10..self.header + 12].copy_from_slice(&7u16.to_le_bytes());
        self.bytes[self.header + 12..self.header + 16].copy_from_slice(&(len as u32 + 8).to_le_bytes());
        self.bytes[self.header + len..self.header + len + 8].copy_from_slice(b"newfield");
        self.update_checksum(self.header, len + 8, HEADER_CRC);
    }

    /// Computes the checksum of `len` bytes from `start` on, and writes it `crc_offset` bytes behind `start`.
    fn update_checksum(&mut self, start: usize, len: usize, crc_offset: usize) {
        let crc = start + crc_offset..start + crc_offset + 4;
        self.bytes[crc.clone()].fill(0);
        let checksum = crc32c::crc32c(&self.bytes[start..start + len]);
        self.bytes[crc].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn find_header(bytes: &[u8]) -> Option<usize> {
    (0..bytes.len()).step_by(PAGE).find(|&offset| bytes[offset..].starts_with(MAGIC))
}

/// Replaces what differs from run to run in a segment: the writer's process id, the identity of the file, the time at which
/// it was closed, and the times of footers.
pub fn normalize(bytes: Vec<u8>) -> Vec<u8> {
    let Some(header) = find_header(&bytes) else { return bytes };
    let mut segment = Segment { bytes, header };
    let live = segment.live_page();
    segment.bytes[live + 128..live + 132].copy_from_slice(&GOLDEN_PROCESS_ID.to_le_bytes());
    segment.bytes[live + 320..live + 336].fill(0);
    // `waiting` is set together with the time of closing.
    segment.bytes[live + 64..live + 68].fill(0);
    for number in segment.shared_footer_count()..segment.slot_count() {
        let end = segment.tail() - number * segment.footer_size();
        let time = &mut segment.bytes[end - 8..end];
        if time.iter().any(|&byte| byte != 0) {
            time.copy_from_slice(&GOLDEN_TIME_US.to_le_bytes());
        }
    }
    segment.bytes
}

/// Clears the slots and footers of a segment, which are published for other Arrow readers.
pub fn clear_footers(bytes: Vec<u8>) -> Vec<u8> {
    let Some(header) = find_header(&bytes) else { return bytes };
    let mut segment = Segment { bytes, header };
    let slot_count = segment.slot_count();
    let ring = segment.header_u64(56)..segment.header_u64(56) + slot_count * segment.header_u64(64);
    let footers = segment.tail() - slot_count * segment.footer_size()..segment.tail() + 4;
    segment.bytes[ring].fill(0);
    segment.bytes[footers].fill(0);
    segment.bytes
}

/// Formats the header, the live page and the newest visible record of a segment with the columns `n` (int64), `s` (utf8,
/// nullable) and `b` (bool, nullable), as `docs/format.md` shows them.
pub fn dump(segment: &Segment) -> String {
    let mut dump = Dump { segment, text: String::new() };
    dump.add_header();
    dump.add_live_page();
    dump.add_visible_record();
    dump.text
}

/// The buffers and the counters of the dumped columns, in the order of the header.
const BUFFERS: [&str; 8] =
    ["n, bitmap", "n, values", "s, bitmap", "s, offsets", "s, data", "b, bitmap", "b, bits", "names"];
const COUNTERS: [&str; 5] = ["rows", "nulls of s", "bytes of s", "nulls of b", "bytes of names"];

/// A dump in the making, with one line for each field.
struct Dump<'a> {
    segment: &'a Segment,
    text: String,
}

impl Dump<'_> {
    fn add_title(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        writeln!(self.text, "{title}").unwrap();
    }

    fn add_line(&mut self, offset: usize, len: usize, description: &str) {
        let bytes: Vec<String> =
            self.segment.bytes[offset..offset + len].iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.text, "{offset:06x}  {:<47}  {description}", bytes.join(" ")).unwrap();
    }

    fn add_header(&mut self) {
        let segment = self.segment;
        let start = segment.header;
        let len = segment.header_len();
        let (buffer_count, counter_count) = (segment.buffer_count(), segment.counter_count());
        self.add_title("header");
        self.add_line(start, 8, "magic         \"ArrwWood\"");
        self.add_line(start + 8, 2, "major         1");
        self.add_line(start + 10, 2, &format!("minor         {}", segment.header_u32(8) >> 16));
        let formula = format!("{len} = 128 + 16 × {buffer_count} + 8 × {counter_count} + 8");
        self.add_line(start + 12, 4, &format!("length        {formula}"));
        let crc = format!("crc           of the {len} bytes from {start:06x} on, these four as 0");
        self.add_line(start + 16, 4, &crc);
        self.add_line(start + 20, 4, &format!("slots         {}", segment.slot_count()));
        let words = [
            (24, "first_row"),
            (32, "capacity"),
            (40, "live"),
            (48, "record"),
            (56, "ring"),
            (64, "slot"),
            (72, "tail"),
            (80, "footer"),
            (88, "file"),
        ];
        for (offset, name) in words {
            let value = segment.header_u64(offset);
            let value = match name {
                "live" | "ring" | "tail" => format!("{value} = 0x{value:x}"),
                _ => value.to_string(),
            };
            self.add_line(start + offset, 8, &format!("{name:<13} {value}"));
        }
        self.add_line(start + 96, 4, &format!("buffers       {buffer_count}"));
        self.add_line(start + 100, 4, &format!("counters      {counter_count}"));
        self.add_line(start + 104, 4, "sorted_by     no column");
        self.add_line(start + 108, 4, "0");
        self.add_line(start + 112, 8, &format!("segment_rows  {}", segment.header_u64(112)));
        self.add_line(start + 120, 8, &format!("log           {}", segment.header_u64(120)));
        for (number, name) in BUFFERS.iter().enumerate() {
            let buffer = segment.buffer(number);
            let place = match buffer.len() {
                0 => "none".to_string(),
                1 => format!("1 byte at 0x{:x}", buffer.start),
                len => format!("{len} bytes at 0x{:x}", buffer.start),
            };
            self.add_line(start + HEADER_HEAD_LEN + 16 * number, 16, &format!("{name}: {place}"));
        }
        for (number, name) in COUNTERS.iter().enumerate() {
            let offset = HEADER_HEAD_LEN + 16 * BUFFERS.len() + 8 * number;
            self.add_line(start + offset, 8, &format!("limit of {name}: {}", segment.header_u64(offset)));
        }
        let shared = HEADER_HEAD_LEN + 16 * BUFFERS.len() + 8 * COUNTERS.len();
        self.add_line(start + shared, 8, &format!("shared        {}", segment.header_u64(shared)));
    }

    fn add_live_page(&mut self) {
        let live = self.segment.live_page();
        let sequence = self.segment.read_u64(live);
        let visible = ["A", "B"][sequence % 2];
        self.add_title("live page");
        self.add_line(live, 8, &format!("sequence      {sequence}, so the visible record is {visible}"));
        self.add_line(live + 64, 4, "waiting       nobody sleeps");
        self.add_line(live + 128, 4, &format!("writer        process {}", self.segment.read_u32(live + 128)));
        self.add_line(live + 192, 8, "unsynced      nothing");
    }

    fn add_visible_record(&mut self) {
        let record = self.segment.visible_record();
        let number = self.segment.read_u64(self.segment.live_page()) % 2;
        let len = RECORD_HEAD_LEN + 8 * COUNTERS.len();
        self.add_title(&format!("visible record {}, at live + 4096 + {number} × record", ["A", "B"][number]));
        self.add_line(record, 8, &format!("sequence      {}", self.segment.read_u64(record)));
        self.add_line(record + 8, 4, "state         not sealed, not provisional; there is a proof");
        let crc = format!("crc           of the {len} bytes from {record:06x} on, these four as 0");
        self.add_line(record + 12, 4, &crc);
        self.add_line(record + 16, 16, "boot");
        self.add_line(record + 32, 8, "previous      of durable records");
        self.add_line(record + 40, 4, "delta         the proof");
        self.add_line(record + 44, 4, "positions     none");
        self.add_line(record + 48, 8, "base          none");
        self.add_line(record + 56, 8, &format!("mount         {}", self.segment.read_u64(record + 56)));
        for (number, name) in COUNTERS.iter().enumerate() {
            let counter = record + RECORD_HEAD_LEN + 8 * number;
            self.add_line(counter, 8, &format!("{name}: {}", self.segment.read_u64(counter)));
        }
    }
}
