//! The bytes of a segment, as `docs/format.md` has them: changed as a crash or a stranger may change them, and shown.

use std::fmt::Write;
use std::ops::Range;

const PAGE: usize = 4096;

/// A segment that grows.
pub struct Segment {
    pub bytes: Vec<u8>,
    header: usize,
}

fn header_of(bytes: &[u8]) -> Option<usize> {
    (0..bytes.len()).step_by(PAGE).find(|&at| bytes[at..].starts_with(b"ArrwWood"))
}

impl Segment {
    /// `None` where the file has no header.
    pub fn of(bytes: Vec<u8>) -> Option<Segment> {
        let header = header_of(&bytes)?;
        Some(Segment { bytes, header })
    }

    /// Where the header begins.
    pub fn header(&self) -> usize {
        self.header
    }

    fn word(&self, at: usize) -> usize {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap()) as usize
    }

    fn half(&self, at: usize) -> usize {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap()) as usize
    }

    /// An eight-byte field of the header.
    fn field(&self, at: usize) -> usize {
        self.word(self.header + at)
    }

    /// The number of footers in whose place the schema of the others stands.
    fn shared(&self) -> usize {
        let zones = self.half(self.header + 108) & 0xffff;
        let lists = 128 + 16 * self.half(self.header + 96) + 8 * (self.half(self.header + 100) + zones);
        if self.half(self.header + 8) >> 16 == 0 { 0 } else { self.field(lists) }
    }

    fn live(&self) -> usize {
        self.field(40)
    }

    /// Where record `place` stands: visible 0 and 1, durable 2 and 3.
    fn record(&self, place: usize) -> usize {
        self.live() + PAGE + place * self.field(48)
    }

    /// Where the newest visible record stands.
    pub fn visible(&self) -> usize {
        self.record(self.word(self.live()) % 2)
    }

    /// Where the log begins.
    pub fn log(&self) -> usize {
        self.record(4)
    }

    /// The bytes of a buffer.
    fn buffer(&self, number: usize) -> Range<usize> {
        let at = 128 + 16 * number;
        self.field(at)..self.field(at) + self.field(at + 8)
    }

    pub fn flip(&mut self, at: usize) {
        self.bytes[at] ^= 0x10;
    }

    /// Clears some bytes of the values of fixed-width column `number` without nulls, the first one of the schema.
    pub fn clear_values(&mut self, number: usize, part: Range<usize>) {
        let start = self.buffer(2 * number + 1).start;
        self.bytes[start + part.start..start + part.end].fill(0);
    }

    /// Clears all buffers.
    pub fn clear_columns(&mut self) {
        for number in 0..self.half(self.header + 96) {
            let place = self.buffer(number);
            self.bytes[place].fill(0);
        }
    }

    pub fn tear_newest_durable(&mut self) {
        let newest = [2, 3].into_iter().max_by_key(|&place| self.word(self.record(place))).unwrap();
        self.flip(self.record(newest) + 64);
    }

    /// Writes a counter of the record at `at`, and the checksum that it has then.
    pub fn set_counter(&mut self, at: usize, counter: usize, value: u64) {
        self.bytes[at + 64 + 8 * counter..][..8].copy_from_slice(&value.to_le_bytes());
        let len = 64 + 8 * (self.half(self.header + 100) + self.half(at + 44));
        self.seal(at, len, 12);
    }

    /// Makes the header one of version 1.7, which has eight bytes more.
    pub fn lengthen_header(&mut self) {
        let len = self.half(self.header + 12);
        self.bytes[self.header + 10..self.header + 12].copy_from_slice(&7u16.to_le_bytes());
        self.bytes[self.header + 12..self.header + 16].copy_from_slice(&(len as u32 + 8).to_le_bytes());
        self.bytes[self.header + len..self.header + len + 8].copy_from_slice(b"newfield");
        self.seal(self.header, len + 8, 16);
    }

    fn seal(&mut self, start: usize, len: usize, crc: usize) {
        self.bytes[start + crc..start + crc + 4].fill(0);
        let sum = crc32c::crc32c(&self.bytes[start..start + len]);
        self.bytes[start + crc..start + crc + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// The bytes of a file without what differs from run to run: the writer's process id, which file it is, when it was closed, and the
/// times of footers.
pub fn without_chance(bytes: Vec<u8>) -> Vec<u8> {
    let Some(header) = header_of(&bytes) else { return bytes };
    let mut segment = Segment { bytes, header };
    let live = segment.live();
    segment.bytes[live + 128..live + 132].copy_from_slice(&4242u32.to_le_bytes());
    segment.bytes[live + 320..live + 336].fill(0);
    // Set together with the time at which it was closed.
    segment.bytes[live + 64..live + 68].fill(0);
    let (slots, tail, footer) = (segment.half(segment.header + 20), segment.field(72), segment.field(80));
    for end in (segment.shared()..slots).map(|number| tail - number * footer) {
        let time = &mut segment.bytes[end - 8..end];
        if time.iter().any(|&byte| byte != 0) {
            time.copy_from_slice(&1_790_000_000_000_000u64.to_le_bytes());
        }
    }
    segment.bytes
}

/// The bytes of a file without the slots and footers that other Arrow readers look at.
pub fn without_footers(bytes: Vec<u8>) -> Vec<u8> {
    let Some(header) = header_of(&bytes) else { return bytes };
    let mut segment = Segment { bytes, header };
    let slots = segment.half(header + 20);
    let ring = segment.field(56)..segment.field(56) + slots * segment.field(64);
    let footers = segment.field(72) - slots * segment.field(80)..segment.field(72) + 4;
    segment.bytes[ring].fill(0);
    segment.bytes[footers].fill(0);
    segment.bytes
}

/// One line of a dump for each field.
struct Dump<'a>(&'a Segment, String);

impl Dump<'_> {
    fn title(&mut self, title: &str) {
        if !self.1.is_empty() {
            self.1.push('\n');
        }
        writeln!(self.1, "{title}").unwrap();
    }

    fn line(&mut self, at: usize, len: usize, what: &str) {
        let bytes: Vec<String> = self.0.bytes[at..at + len].iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.1, "{at:06x}  {:<47}  {what}", bytes.join(" ")).unwrap();
    }
}

/// The header, the live page and the newest visible record of a segment with columns `n` (int64), `s` (utf8, nullable) and
/// `b` (bool, nullable).
pub fn dump(segment: &Segment) -> String {
    let mut out = Dump(segment, String::new());
    let start = segment.header;
    let (half, field) = (|at: usize| segment.half(start + at), |at: usize| segment.field(at));
    out.title("header");
    out.line(start, 8, "magic         \"ArrwWood\"");
    out.line(start + 8, 2, "major         1");
    out.line(start + 10, 2, "minor         0");
    out.line(start + 12, 4, &format!("length        {0} = 128 + 16 × {1} + 8 × {2}", half(12), half(96), half(100)));
    let crc = format!("crc           of the {} bytes from {start:06x} on, these four as 0", half(12));
    out.line(start + 16, 4, &crc);
    out.line(start + 20, 4, &format!("slots         {}", half(20)));
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
    for (at, name) in words {
        let value = match name {
            "live" | "ring" | "tail" => format!("{} = 0x{:x}", field(at), field(at)),
            _ => field(at).to_string(),
        };
        out.line(start + at, 8, &format!("{name:<13} {value}"));
    }
    out.line(start + 96, 4, &format!("buffers       {}", half(96)));
    out.line(start + 100, 4, &format!("counters      {}", half(100)));
    out.line(start + 104, 4, "sorted_by     no column");
    out.line(start + 108, 4, "0");
    out.line(start + 112, 8, &format!("segment_rows  {}", field(112)));
    out.line(start + 120, 8, &format!("log           {}", field(120)));
    let buffers = ["n, bitmap", "n, values", "s, bitmap", "s, offsets", "s, data", "b, bitmap", "b, bits", "names"];
    for (number, name) in buffers.iter().enumerate() {
        let at = 128 + 16 * number;
        let place = match field(at + 8) {
            0 => "none".to_string(),
            1 => format!("1 byte at 0x{:x}", field(at)),
            len => format!("{len} bytes at 0x{:x}", field(at)),
        };
        out.line(start + at, 16, &format!("{name}: {place}"));
    }
    let counters = ["rows", "nulls of s", "bytes of s", "nulls of b", "bytes of names"];
    for (number, name) in counters.iter().enumerate() {
        let at = 128 + 16 * buffers.len() + 8 * number;
        out.line(start + at, 8, &format!("limit of {name}: {}", field(at)));
    }

    let live = segment.live();
    out.title("live page");
    let sequence = segment.word(live);
    out.line(live, 8, &format!("sequence      {sequence}, so the visible record is {}", ["A", "B"][sequence % 2]));
    out.line(live + 64, 4, "waiting       nobody sleeps");
    out.line(live + 128, 4, &format!("writer        process {}", segment.half(live + 128)));
    out.line(live + 192, 8, "unsynced      nothing");

    let at = segment.visible();
    out.title(&format!("visible record {}, at live + 4096 + {} × record", ["A", "B"][sequence % 2], sequence % 2));
    out.line(at, 8, &format!("sequence      {}", segment.word(at)));
    out.line(at + 8, 4, "state         not sealed, not provisional; there is a proof");
    out.line(
        at + 12,
        4,
        &format!("crc           of the {} bytes from {at:06x} on, these four as 0", 64 + 8 * counters.len()),
    );
    out.line(at + 16, 16, "boot");
    out.line(at + 32, 8, "previous      of durable records");
    out.line(at + 40, 4, "delta         the proof");
    out.line(at + 44, 4, "positions     none");
    out.line(at + 48, 8, "base          none");
    out.line(at + 56, 8, &format!("mount         {}", segment.word(at + 56)));
    for (number, name) in counters.iter().enumerate() {
        let at = at + 64 + 8 * number;
        out.line(at, 8, &format!("{name}: {}", segment.word(at)));
    }
    out.1
}
