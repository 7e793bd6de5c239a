//! Encodes and decodes the parts of a segment that are not Arrow's: header and commit records, as specified in
//! `docs/format.md`.
//!
//! ```text
//! 0   "ARROW1\0\0"  Schema message  empty message        the front that Arrow readers expect
//! C   header | live page | visible A | B | durable A | B | log   read by Arrowwood only
//! M   ring of metadata slots                             the messages that footers point to
//! B   buffers, each with room to grow                    the rows
//! F   ring of footers | i32 length | "ARROW1"            the footer that other Arrow readers see
//! ```
//! Everything is little-endian. **Committed bytes never change; only one record changes, atomically.**

use std::ops::Range;

use crate::error::{Error, Result};
use crate::ipc::SEGMENT;
use crate::rows::{Region, ZoneMap};

/// The first bytes of the header.
pub(super) const MAGIC: [u8; 8] = SEGMENT;

/// The default maximum number of rows in a segment.
pub(super) const DEFAULT_ROWS: u64 = 4 << 20;
/// The default number of rows in a zone.
pub(super) const ZONE_ROWS: u32 = 1 << 16;

/// Files of another major version are refused; a newer minor version may have longer headers and records.
pub(super) const MAJOR: u16 = 1;
pub(super) const MINOR: u16 = 1;
/// Control pages begin at multiples of this.
pub(super) const PAGE: u64 = 4096;
/// Slots of metadata, bodies and footers begin at multiples of this.
pub(super) const LINE: u64 = 64;
/// The bytes after the footer's length.
pub(super) const TAIL: &[u8; 6] = b"ARROW1";
/// The length of the footer's length field and the bytes after it.
pub(super) const TAIL_LEN: u64 = 4 + TAIL.len() as u64;

/// The counter that counts rows. The others count nulls, bytes of text, items of lists, and entries of dictionaries.
pub(super) const ROWS: usize = 0;

// Offsets in the live page.

/// The sequence of the newest visible commit; waiting readers sleep on its low half.
pub(super) const SEQUENCE: u64 = 0;
/// A flag that is set by sleeping readers.
pub(super) const WAITING: u64 = 64;
/// The writer's process id.
pub(super) const WRITER: u64 = 128;

/// The durable record or log entries being synced, which may not be on the disk. After a failed sync the system may
/// treat pages as written that are not, until the boot ends.
pub(super) const UNSYNCED: u64 = 192;

/// The number of the newest durable record or log entry that is known to be on the disk; 0 if none is. It is stored after
/// the sync, and never decreases.
pub(super) const SYNCED: u64 = 336;

/// A later proof of the newest visible commit, whose durable record is being overwritten: the number of the commit, the
/// number of the durable record at which this proof begins, and the checksum.
pub(super) const RENEWED_PROOF: [u64; 3] = [256, 264, 272];

/// The modification time that the file was given when it was last closed, in seconds since 1970.
pub(super) const STAMPED: u64 = 320;
/// The fingerprint of the writer's file. A copy of the file has another one.
pub(super) const OWN_FILE: u64 = 328;

/// The boot id of a record that stays valid after a crash of the machine, or in another page cache than its writer's.
pub(super) const NO_BOOT: [u8; 16] = [0; 16];

// Keys of the schema's metadata that hold a dense segment's settings, as the header does for a growable one.

/// The number of the column that the rows are sorted by.
pub(super) const SORTED_BY: &str = "arrowwood.sorted_by";
/// The maximum number of rows in the table's segments.
pub(super) const SEGMENT_ROWS: &str = "arrowwood.segment_rows";
/// 1 if late rows are accepted.
pub(super) const ACCEPTS_LATE: &str = "arrowwood.late";
/// The numbers of the columns with zones in future segments, separated by spaces.
pub(super) const INDEX: &str = "arrowwood.index";
/// The positions, as in a record: a line for each, with value and name.
pub(super) const POSITIONS: &str = "arrowwood.positions";

/// Bit in the header's `flags`: late rows are accepted.
const LATE: u16 = 1;

/// The length of the fixed part of the header.
pub(super) const HEADER: usize = 128;
/// The length of the bytes after the header's lists, from version 1.1 on.
const MORE: usize = 8;
/// The maximum length of a header.
const MOST_HEADER: usize = 1 << 24;
/// The length of the fixed part of a record.
pub(super) const RECORD: usize = 64;

/// The offset in the header of the number of the segment's first row.
pub(super) const FIRST_ROW: u64 = header_at::FIRST_ROW as u64;

// The lengths of the entries of the header's lists: a region, a limit, and a column with zones.
const REGION: usize = 16;
const LIMIT: usize = 8;
const ZONE_MAP: usize = 8;
/// The length of a counter or a position in a record.
const NUMBER: usize = 8;

/// The number of visible records in a segment; as many durable ones follow them.
const VISIBLE_RECORDS: u64 = 2;
/// The number of records in a segment.
pub(super) const RECORDS: u64 = 2 * VISIBLE_RECORDS;

/// The offsets of the fields in the fixed part of a header, after its magic bytes.
mod header_at {
    pub const MAJOR: usize = 8;
    pub const MINOR: usize = 10;
    pub const LENGTH: usize = 12;
    pub const CRC: usize = 16;
    pub const SLOTS: usize = 20;
    pub const FIRST_ROW: usize = 24;
    pub const CAPACITY: usize = 32;
    pub const LIVE: usize = 40;
    pub const RECORD: usize = 48;
    pub const RING: usize = 56;
    pub const SLOT: usize = 64;
    pub const TAIL: usize = 72;
    pub const FOOTER: usize = 80;
    pub const FILE: usize = 88;
    pub const BUFFERS: usize = 96;
    pub const COUNTERS: usize = 100;
    pub const SORTED_BY: usize = 104;
    pub const ZONES: usize = 108;
    pub const FLAGS: usize = 110;
    pub const SEGMENT_ROWS: usize = 112;
    pub const LOG: usize = 120;
}

/// The bytes of a header's checksum, which is computed with zeros there.
const HEADER_CRC: Range<usize> = header_at::CRC..header_at::CRC + size_of::<u32>();
/// The bytes of a record's checksum, which is computed with zeros there.
const RECORD_CRC: Range<usize> = record_at::CRC..record_at::CRC + size_of::<u32>();

/// The offsets of the fields in the fixed part of a record.
mod record_at {
    pub const SEQUENCE: usize = 0;
    pub const STATE: usize = 8;
    pub const CRC: usize = 12;
    pub const BOOT: usize = 16;
    pub const PREVIOUS: usize = 32;
    /// The delta of a durable record, or the word of a visible one's proof.
    pub const DELTA: usize = 40;
    pub const POSITIONS: usize = 44;
    pub const BASE: usize = 48;
    pub const MOUNT: usize = 56;
}

/// The offsets of a segment's mutable words.
#[derive(Clone, Copy, Debug)]
pub struct LivePage {
    /// Offset of the live page, which is followed by the records.
    pub live: u64,
    /// Bytes from one record to the next.
    pub record: u64,
}

impl LivePage {
    /// Returns the offset of the record of commit `sequence`.
    #[inline]
    pub fn record(&self, sequence: u64) -> u64 {
        self.live + PAGE + (sequence % VISIBLE_RECORDS) * self.record
    }

    /// Returns the offset of the word that selects the newest record.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.live + SEQUENCE
    }

    /// Returns the offset of the word that sleeping readers set.
    #[inline]
    pub fn waiting(&self) -> u64 {
        self.live + WAITING
    }
}

/// The immutable properties of a segment, written once when its file is created.
///
/// The writer chooses the limits, the slots and their sizes; every offset follows from these and the schema (see
/// `placement`). The file is laid out in the order `live` < `ring` < `regions` < footers < `tail`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub minor: u16,
    /// The number of the segment's first row in the table.
    pub first_row: u64,
    /// The maximum number of rows in the segment.
    pub capacity: u64,
    /// The offset of the live page; the four records follow it.
    pub live: u64,
    /// The bytes from one record to the next.
    pub record: u64,
    /// The offset of the ring with the messages that footers point to.
    pub ring: u64,
    /// The bytes of the ring that each footer adds.
    pub slot: u64,
    /// The number of footers, including those whose space the shared schema takes.
    pub slots: u32,
    /// The offset of the footer's length; footers are before it.
    pub tail: u64,
    /// The bytes from one footer to the next.
    pub footer: u64,
    /// The column whose values never decrease, or, if late rows are accepted, the column by which rows can be late.
    pub sorted_by: Option<u32>,
    /// True if rows are accepted that are less than earlier rows in the `sorted_by` column.
    pub is_late: bool,
    /// The maximum number of rows in the table's segments.
    pub segment_rows: u64,
    /// The bytes of the log.
    pub log: u64,
    /// The room of each buffer in the file: the buffers in the order of a record batch, then the buffers of the
    /// dictionaries in the order of their fields.
    pub regions: Vec<Region>,
    /// The maximum of each counter of a record.
    pub limits: Vec<u64>,
    /// The columns with zones.
    pub zones: Vec<ZoneMap>,
    /// The number of footers, the first ones, whose space the schema of all others takes; 0 in format 1.0, where each
    /// footer has its own schema, and its messages in the slot of its number.
    pub shared: u64,
}

/// The settings that all segments of a table store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableSettings {
    /// See [`Header::sorted_by`].
    pub sorted_by: Option<u32>,
    /// See [`Header::is_late`].
    pub is_late: bool,
    /// The maximum number of rows in a segment.
    pub segment_rows: u64,
    /// The columns with zones in future segments.
    pub index: Vec<u32>,
    /// The maximum number of rows in a zone.
    pub zone_rows: u32,
}

impl TableSettings {
    /// Returns the column whose values never decrease.
    pub fn order(&self) -> Option<u32> {
        self.sorted_by.filter(|_| !self.is_late)
    }

    /// Returns the zone maps of a segment for `capacity` rows. In a segment smaller than a zone, one zone has all rows.
    pub fn zones(&self, capacity: u64) -> Vec<ZoneMap> {
        let rows = capacity.clamp(1, self.zone_rows.into()) as u32;
        self.index.iter().map(|&column| ZoneMap { column, rows }).collect()
    }
}

impl Header {
    /// Returns the table's settings in the header.
    pub fn settings(&self) -> TableSettings {
        TableSettings {
            sorted_by: self.sorted_by,
            is_late: self.is_late,
            segment_rows: self.segment_rows,
            index: self.zones.iter().map(|map| map.column).collect(),
            zone_rows: ZONE_ROWS,
        }
    }

    /// Returns the column whose values never decrease.
    pub fn order(&self) -> Option<u32> {
        self.sorted_by.filter(|_| !self.is_late)
    }

    /// Returns the size of the file.
    pub fn file_len(&self) -> u64 {
        self.tail + TAIL_LEN
    }

    /// Returns the offsets of the mutable words.
    #[inline]
    pub fn page(&self) -> LivePage {
        LivePage { live: self.live, record: self.record }
    }

    /// Returns the immutable bytes at both ends of a segment whose header begins at `start` with the bytes `fixed`:
    /// they are zeros after the file was truncated and grew again.
    pub fn marks(&self, start: u64, fixed: &[u8]) -> Vec<(u64, Vec<u8>)> {
        vec![(start, fixed.to_vec()), (self.tail + 4, TAIL.to_vec())]
    }

    /// Returns the offset of durable record `number`. The two take turns, so that only the parity counts.
    pub fn durable(&self, number: u64) -> u64 {
        self.live + PAGE + (VISIBLE_RECORDS + number % 2) * self.record
    }

    /// Returns the offset of the log, after the records.
    pub fn log_start(&self) -> u64 {
        self.live + PAGE + RECORDS * self.record
    }

    /// Returns the offset of footer `number`. The footer's length selects it: the distance from there to the tail.
    pub fn footer_at(&self, number: u64) -> u64 {
        debug_assert!(number < u64::from(self.slots), "footer {number} of {}", self.slots);
        self.tail - (number + 1) * self.footer
    }

    /// Returns the offset of the schema that all footers share, or the tail if each footer has its own schema.
    pub fn shared_at(&self) -> u64 {
        self.tail - self.shared * self.footer
    }

    /// Returns the length of a header of version `minor`.
    pub fn encoded_len(minor: u16, regions: usize, counters: usize, zones: usize) -> usize {
        let more = if minor == 0 { 0 } else { MORE };
        HEADER + REGION * regions + LIMIT * counters + ZONE_MAP * zones + more
    }

    /// Checks that the length of a header, and the number of its zones, fit into their fields.
    ///
    /// # Errors
    /// `InvalidData` with the expected and the found value.
    pub fn check_len(len: usize, zones: usize) -> Result<(), String> {
        if len > MOST_HEADER {
            return Err(format!("`length`: expected {MOST_HEADER} bytes at most, got {len}"));
        }
        if zones > usize::from(u16::MAX) {
            return Err(format!("`zones`: expected {} columns at most, got {zones}", u16::MAX));
        }
        Ok(())
    }

    /// Encodes the header, whose length [`Header::check_len`] has accepted.
    pub fn encode(&self) -> Vec<u8> {
        let len = Header::encoded_len(self.minor, self.regions.len(), self.limits.len(), self.zones.len());
        assert!(len <= MOST_HEADER, "a header of {len} bytes, which no reader would accept");
        assert!(self.zones.len() <= usize::from(u16::MAX), "{} columns with zones", self.zones.len());
        let mut bytes = Vec::with_capacity(len);
        bytes.extend(MAGIC);
        bytes.extend(MAJOR.to_le_bytes());
        bytes.extend(self.minor.to_le_bytes());
        bytes.extend((len as u32).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.slots.to_le_bytes());
        for word in [self.first_row, self.capacity, self.live, self.record, self.ring, self.slot] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.tail.to_le_bytes());
        bytes.extend(self.footer.to_le_bytes());
        bytes.extend(self.file_len().to_le_bytes());
        for count in [self.regions.len() as u32, self.limits.len() as u32, self.sorted_by.unwrap_or(u32::MAX)] {
            bytes.extend(count.to_le_bytes());
        }
        bytes.extend((self.zones.len() as u16).to_le_bytes());
        bytes.extend(if self.is_late { LATE } else { 0 }.to_le_bytes());
        bytes.extend(self.segment_rows.to_le_bytes());
        bytes.extend(self.log.to_le_bytes());
        assert_eq!(bytes.len(), HEADER, "the length of the header's fixed part");
        for region in &self.regions {
            bytes.extend(region.offset.to_le_bytes());
            bytes.extend(region.capacity.to_le_bytes());
        }
        self.limits.iter().for_each(|limit| bytes.extend(limit.to_le_bytes()));
        for map in &self.zones {
            bytes.extend(map.column.to_le_bytes());
            bytes.extend(map.rows.to_le_bytes());
        }
        if self.minor > 0 {
            bytes.extend(self.shared.to_le_bytes());
        }
        assert_eq!(bytes.len(), len, "the header's length, which is stored in it");
        let crc = crc32c::crc32c(&bytes);
        bytes[HEADER_CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Returns the length of the header that begins with `fixed`.
    ///
    /// # Errors
    /// `InvalidData` if it is not a header, `Unsupported` for another major version.
    pub fn len_of(fixed: &[u8]) -> Result<usize> {
        let word = LittleEndian(fixed);
        if fixed.len() < HEADER || fixed[..MAGIC.len()] != MAGIC {
            return Err(Error::invalid("no growable segment: its header is missing"));
        }
        let major = word.u16(header_at::MAJOR);
        if major != MAJOR {
            return Err(Error::unsupported(format!(
                "the segment has format version {major}, this version of arrowwood reads {MAJOR}; use a newer one"
            )));
        }
        match word.u32(header_at::LENGTH) as usize {
            len @ HEADER..=MOST_HEADER => Ok(len),
            len => Err(Error::invalid(format!("a header of {len} bytes"))),
        }
    }

    /// Decodes a header with the length returned by [`Header::len_of`].
    ///
    /// # Errors
    /// `InvalidData` if it is damaged, or its lists or flags are impossible. The offsets in it are not checked.
    pub fn decode(bytes: &[u8]) -> Result<Header> {
        let word = LittleEndian(bytes);
        let len = Header::len_of(bytes)?;
        let mut zeroed = bytes.to_vec();
        zeroed[HEADER_CRC].fill(0);
        let expected = word.u32(header_at::CRC);
        let got = crc32c::crc32c(&zeroed);
        if expected != got {
            return Err(Error::invalid(format!("the header's checksum is {got:08x}, expected {expected:08x}")));
        }
        let regions = word.u32(header_at::BUFFERS) as usize;
        let counters = word.u32(header_at::COUNTERS) as usize;
        let zones = usize::from(word.u16(header_at::ZONES));
        let minor = word.u16(header_at::MINOR);
        if !is_long_enough(len, minor, [regions, counters, zones]) {
            let message = format!(
                "a header of {len} bytes can't list {regions} buffers, {counters} counters and {zones} columns with \
                 zones"
            );
            return Err(Error::invalid(message));
        }
        let flags = word.u16(header_at::FLAGS);
        if flags & !LATE != 0 {
            return Err(Error::invalid(format!("`flags`: expected {LATE} or 0, got {flags}")));
        }
        let lists = Header::encoded_len(0, regions, counters, zones);
        let shared = if minor == 0 { 0 } else { word.u64(lists) };
        let limits_start = HEADER + REGION * regions;
        let zones_start = limits_start + LIMIT * counters;
        let header = Header {
            minor,
            slots: word.u32(header_at::SLOTS),
            first_row: word.u64(header_at::FIRST_ROW),
            capacity: word.u64(header_at::CAPACITY),
            live: word.u64(header_at::LIVE),
            record: word.u64(header_at::RECORD),
            ring: word.u64(header_at::RING),
            slot: word.u64(header_at::SLOT),
            tail: word.u64(header_at::TAIL),
            footer: word.u64(header_at::FOOTER),
            sorted_by: Some(word.u32(header_at::SORTED_BY)).filter(|&column| column != u32::MAX),
            is_late: flags & LATE != 0,
            segment_rows: word.u64(header_at::SEGMENT_ROWS),
            log: word.u64(header_at::LOG),
            regions: (HEADER..limits_start)
                .step_by(REGION)
                .map(|at| Region { offset: word.u64(at), capacity: word.u64(at + 8) })
                .collect(),
            limits: (limits_start..zones_start).step_by(LIMIT).map(|at| word.u64(at)).collect(),
            zones: (zones_start..zones_start + ZONE_MAP * zones)
                .step_by(ZONE_MAP)
                .map(|at| ZoneMap { column: word.u32(at), rows: word.u32(at + 4) })
                .collect(),
            shared,
        };
        let expected = header.tail.checked_add(TAIL_LEN);
        let got = word.u64(header_at::FILE);
        if expected != Some(got) {
            let expected = expected.map_or("less than 2^64".into(), |expected| expected.to_string());
            return Err(Error::invalid(format!("`file`: expected {expected}, {TAIL_LEN} more than `tail`, got {got}")));
        }
        Ok(header)
    }
}

/// Returns true if a header of `len` bytes has room for its lists, and nothing after them unless its version is newer.
fn is_long_enough(len: usize, minor: u16, [regions, counters, zones]: [usize; 3]) -> bool {
    // No list is longer than the header, so nothing overflows here.
    let needed = (regions.max(counters) <= len).then(|| Header::encoded_len(minor, regions, counters, zones));
    needed.is_some_and(|needed| needed == len || minor > MINOR && needed < len)
}

/// The maximum number of positions in a commit.
pub const MOST_POSITIONS: usize = 256;

/// The maximum length of a position's name in bytes.
pub(super) const MOST_NAME: usize = 255;

/// Returns the length in bytes of a record with the given numbers of counters and positions.
pub fn record_len(counters: usize, positions: usize) -> usize {
    RECORD + NUMBER * (counters + positions)
}

/// Returns the number of positions in the record whose fixed part begins `bytes`; in a torn record, any number within
/// bounds.
pub fn positions_of(bytes: &[u8]) -> usize {
    (LittleEndian(bytes).u32(record_at::POSITIONS) as usize).min(MOST_POSITIONS)
}

/// The record of one commit. The file has two visible and two durable ones, and entries of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The commit's number.
    pub sequence: u64,
    /// True if no more rows follow in the segment.
    pub sealed: bool,
    /// True if the commit is valid only once the previous segment is sealed.
    pub provisional: bool,
    /// Visible records: true if the commit that sealed the segment has rows in the next one, too.
    pub goes_on: bool,
    /// The id of the system's boot in which the commit was made.
    pub boot: [u8; 16],
    /// Durable records: the sequence of the previous durable record, 0 if none.
    pub previous: u64,
    /// Durable records: the checksum of the bytes appended since the previous durable record.
    pub delta: u32,
    /// Visible records: a checksum that tells whether their rows are there. Early writers made none.
    pub proof: Option<Proof>,
    /// Rows, then the other counters: null counts, bytes of text, items of lists, entries of dictionaries.
    pub counters: Vec<u64>,
    /// The value of each position, in the order of their names.
    pub positions: Vec<i64>,
}

/// The proof of a visible commit: tells whether its rows are there without knowing whether the page cache is the one
/// that they were written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// The checksum of what was appended since `base`; see `protocol::proof`.
    pub word: u32,
    /// The sequence of a durable record that was on the disk when the commit was made; 0 for an empty segment.
    pub base: u64,
    /// The mount through which the writer has opened the segment, 0 if unknown.
    pub mount: u64,
}

/// The exclusive upper bound of commit numbers.
pub(super) const MOST_SEQUENCE: u64 = 1 << 62;

/// Checks that commits can be numbered from `sequence` on. They don't reach half of the bound in a thousand years: a
/// file with such a number was damaged or forged, and there may be no numbers left for more commits.
///
/// # Errors
/// `InvalidData`.
pub(super) fn check_sequence(sequence: u64) -> Result<()> {
    if sequence < MOST_SEQUENCE / 2 {
        return Ok(());
    }
    let message = format!(
        "going on after commit {sequence}: commits are numbered below 2^62, and no writer has made that many; append \
         the rows to a new table"
    );
    Err(Error::invalid(message))
}

// The bits of a record's state.
const SEALED: u32 = 1;
const PROVISIONAL: u32 = 2;
const PROVEN: u32 = 4;
const GOES_ON: u32 = 8;

impl Record {
    /// Returns the number of rows, which is the first counter. A record that was never written has no counters.
    pub fn rows(&self) -> u64 {
        self.counters.first().map_or(0, |&rows| rows)
    }

    /// Returns true if both commits have the same rows and positions.
    pub fn has_same_contents(&self, other: &Record) -> bool {
        self.counters == other.counters && self.positions == other.positions
    }

    /// Returns true if both commits have the same rows and positions, and both or neither seals the segment.
    pub fn has_same_state(&self, other: &Record) -> bool {
        self.has_same_contents(other) && self.sealed == other.sealed
    }

    /// Returns true if none of the counters is less than in `other`.
    pub fn has_all_counted_in(&self, other: &Record) -> bool {
        self.counters.iter().zip(&other.counters).all(|(count, other)| count >= other)
    }

    /// Returns the state of the segment after the commit.
    pub fn state(&self) -> CommitState {
        CommitState { sealed: self.sealed, provisional: self.provisional, goes_on: self.goes_on }
    }

    /// Encodes the record into `bytes`.
    ///
    /// # Panics
    /// Panics if the record has a proof and a delta, or more than [`MOST_POSITIONS`] positions.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend(self.sequence.to_le_bytes());
        assert!(self.proof.is_none() || self.delta == 0, "proof and delta have the same place in a record");
        assert!(self.positions.len() <= MOST_POSITIONS, "{} positions in a record", self.positions.len());
        // Without a proof, its fields are zeros.
        let proof = self.proof.unwrap_or(Proof { word: 0, base: 0, mount: 0 });
        bytes.extend((self.state().bits() | if self.proof.is_some() { PROVEN } else { 0 }).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.boot);
        bytes.extend(self.previous.to_le_bytes());
        bytes.extend((self.delta | proof.word).to_le_bytes());
        bytes.extend((self.positions.len() as u32).to_le_bytes());
        bytes.extend(proof.base.to_le_bytes());
        bytes.extend(proof.mount.to_le_bytes());
        assert_eq!(bytes.len(), RECORD, "the length of the record's fixed part");
        self.counters.iter().for_each(|counter| bytes.extend(counter.to_le_bytes()));
        self.positions.iter().for_each(|position| bytes.extend(position.to_le_bytes()));
        let crc = crc32c::crc32c(bytes);
        bytes[RECORD_CRC].copy_from_slice(&crc.to_le_bytes());
    }

    /// Decodes the record of commit `sequence` at the start of `bytes`; see [`Record::decode`].
    pub fn decode_as(bytes: &[u8], counters: usize, sequence: u64) -> Option<Record> {
        Record::decode(bytes, counters).filter(|record| record.sequence == sequence)
    }

    /// Decodes the record with the given number of counters at the start of `bytes`. `None` if there is no intact
    /// record: torn, or never written.
    pub fn decode(bytes: &[u8], counters: usize) -> Option<Record> {
        let word = LittleEndian(bytes);
        let len = record_len(counters, positions_of(bytes));
        // A record that was never written has no number.
        let is_written = word.u64(record_at::SEQUENCE) != 0;
        let has_positions = word.u32(record_at::POSITIONS) as usize <= MOST_POSITIONS;
        let bytes = bytes.get(..len).filter(|_| is_written && has_positions)?;

        let before = crc32c::crc32c(&bytes[..RECORD_CRC.start]);
        let zeroed = crc32c::crc32c_append(before, &[0; RECORD_CRC.end - RECORD_CRC.start]);
        if crc32c::crc32c_append(zeroed, &bytes[RECORD_CRC.end..]) != word.u32(record_at::CRC) {
            return None;
        }

        let state = word.u32(record_at::STATE);
        let is_proven = state & PROVEN != 0;
        let proof = Proof {
            word: word.u32(record_at::DELTA),
            base: word.u64(record_at::BASE),
            mount: word.u64(record_at::MOUNT),
        };
        let (counters, positions) = bytes[RECORD..].split_at(NUMBER * counters);
        Some(Record {
            sequence: word.u64(record_at::SEQUENCE),
            sealed: state & SEALED != 0,
            provisional: state & PROVISIONAL != 0,
            goes_on: state & GOES_ON != 0,
            boot: bytes.get(record_at::BOOT..record_at::PREVIOUS)?.try_into().ok()?,
            previous: word.u64(record_at::PREVIOUS),
            delta: if is_proven { 0 } else { word.u32(record_at::DELTA) },
            proof: is_proven.then_some(proof),
            counters: counters.as_chunks().0.iter().map(|&raw| u64::from_le_bytes(raw)).collect(),
            positions: positions.as_chunks().0.iter().map(|&raw| i64::from_le_bytes(raw)).collect(),
        })
    }
}

/// An encoded visible record, which is written over for each commit of a segment: that takes less time than encoding a
/// new one, and no memory.
#[derive(Debug)]
pub(super) struct EncodedRecord(Vec<u8>);

/// The properties of a visible commit in the fixed part of its record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHead {
    pub sequence: u64,
    pub state: CommitState,
    pub proof: Proof,
}

impl EncodedRecord {
    /// Creates the record of an empty segment, for commits of this boot.
    pub fn new(boot: [u8; 16], counters: usize) -> EncodedRecord {
        let mut bytes = Vec::new();
        Record { boot, counters: vec![0; counters], ..Record::default() }.encode(&mut bytes);
        EncodedRecord(bytes)
    }

    /// Returns the bytes to be written.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes another commit over it, of the same boot.
    #[inline]
    pub fn set(&mut self, head: RecordHead, counters: &[u64], positions: &[i64]) {
        if self.0.len() != record_len(counters.len(), positions.len()) {
            self.set_position_count(counters.len(), positions.len());
        }
        debug_assert!(head.sequence < MOST_SEQUENCE, "commit {}", head.sequence);
        let bytes = &mut self.0[..];
        put(bytes, record_at::SEQUENCE, head.sequence.to_le_bytes());
        put(bytes, record_at::STATE, (head.state.bits() | PROVEN).to_le_bytes());
        put(bytes, record_at::CRC, [0; 4]);
        put(bytes, record_at::DELTA, head.proof.word.to_le_bytes());
        put(bytes, record_at::BASE, head.proof.base.to_le_bytes());
        put(bytes, record_at::MOUNT, head.proof.mount.to_le_bytes());
        let (words, _) = bytes[RECORD..].as_chunks_mut::<NUMBER>();
        let positions = positions.iter().map(|position| position.to_le_bytes());
        let numbers = counters.iter().map(|counter| counter.to_le_bytes()).chain(positions);
        words.iter_mut().zip(numbers).for_each(|(word, number)| *word = number);
        let crc = crate::map::crc32c(bytes);
        put(bytes, record_at::CRC, crc.to_le_bytes());
    }

    /// Makes room for another number of positions.
    #[cold]
    fn set_position_count(&mut self, counters: usize, positions: usize) {
        assert!(positions <= MOST_POSITIONS, "{positions} positions, which no reader takes");
        self.0.resize(record_len(counters, positions), 0);
        put(&mut self.0, record_at::POSITIONS, (positions as u32).to_le_bytes());
    }
}

/// The state of a segment after a commit: whether more rows may follow, and whether its rows are valid by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitState {
    /// See [`Record::sealed`].
    pub sealed: bool,
    /// See [`Record::provisional`].
    pub provisional: bool,
    /// See [`Record::goes_on`].
    pub goes_on: bool,
}

impl CommitState {
    fn bits(self) -> u32 {
        let sealed = if self.sealed { SEALED } else { 0 };
        let provisional = if self.provisional { PROVISIONAL } else { 0 };
        let goes_on = if self.goes_on { GOES_ON } else { 0 };
        sealed | provisional | goes_on
    }
}

/// Writes `value` at byte `at`.
#[inline]
fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// Reads little-endian words at offsets of a byte slice. Words past its end are 0.
struct LittleEndian<'a>(&'a [u8]);

impl LittleEndian<'_> {
    fn take<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.take(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.take(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.take(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::ALIGNMENT;

    #[test]
    fn records_and_headers_round_trip() {
        let counters = vec![5, 1, 9];
        let positions = vec![-2, i64::MAX];
        let record = Record { sequence: 7, sealed: true, boot: [3; 16], counters, positions, ..Record::default() };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(Record::decode(&bytes, 3), Some(record));
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 1;
            assert_eq!(Record::decode(&damaged, 3), None, "byte {i}");
        }
        let regions = [65536, 131072, 196608].map(|offset| Region { offset, capacity: 1000 }).to_vec();
        let header = Header {
            capacity: 9,
            live: 8192,
            record: 4096,
            ring: 32768,
            slot: 64,
            slots: 4,
            tail: 262144,
            footer: 128,
            sorted_by: Some(2),
            regions,
            limits: vec![9; 2],
            zones: vec![ZoneMap { column: 1, rows: 4 }],
            minor: MINOR,
            shared: 2,
            ..Header::default()
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 1;
            assert!(Header::decode(&damaged).is_err(), "byte {i}");
        }
    }

    #[test]
    fn header_sizes_are_limited() {
        assert_eq!(Header::check_len(MOST_HEADER, 65_535), Ok(()));
        assert!(Header::check_len(MOST_HEADER + 8, 0).unwrap_err().contains("got 16777224"));
        assert!(Header::check_len(MOST_HEADER, 65_536).unwrap_err().contains("`zones`: expected 65535 columns"));
    }

    /// Returns offset, size and name of each field in the page's table under the heading `title`.
    fn fields_of_page(title: &str) -> Vec<(usize, usize, String)> {
        let page = include_str!("../../../../docs/format.md");
        let section = page.split(&format!("### {title}\n")).nth(1).unwrap();
        let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        let fields =
            cells.filter_map(|cells| Some((cells[1].parse().ok()?, cells[2].parse().ok()?, cells[3].replace('`', ""))));
        fields.filter(|(_, _, name)| !name.is_empty()).collect()
    }

    #[test]
    fn format_page_agrees_with_the_code() {
        let header = Header {
            minor: MINOR,
            first_row: 24,
            capacity: 32,
            live: 40,
            record: 48,
            ring: 56,
            slot: 64,
            slots: 20,
            tail: 72,
            footer: 80,
            sorted_by: Some(104),
            is_late: true,
            segment_rows: 112,
            log: 120,
            regions: vec![Region { offset: 128, capacity: 136 }],
            limits: vec![144; 3],
            zones: vec![ZoneMap { column: 7, rows: 9 }; 2],
            shared: 5,
        };
        let bytes = header.encode();
        let fields = fields_of_page("Header");
        assert_eq!(fields.len(), 22, "{fields:?}");
        for (at, size, name) in fields {
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(&bytes[at..at + size]);
            let expected = match &name[..] {
                "magic" => u64::from_le_bytes(MAGIC),
                "major" => MAJOR.into(),
                "minor" => MINOR.into(),
                "length" => bytes.len() as u64,
                "crc" => {
                    let zeroed = [&bytes[..16], &[0; 4], &bytes[20..]].concat();
                    crc32c::crc32c(&zeroed).into()
                }
                "file" => header.tail + 10,
                "buffers" => 1,
                "counters" => 3,
                "zones" => 2,
                "flags" => 1,
                _ => at as u64,
            };
            assert_eq!(u64::from_le_bytes(wide), expected, "{name}");
        }
        assert_eq!(bytes[HEADER + 16 + 3 * 8 + 2 * 8..], 5u64.to_le_bytes());
        let early = Header { minor: 0, shared: 0, ..header };
        assert_eq!(early.encode().len(), HEADER + 16 + 3 * 8 + 2 * 8);
        assert_eq!(Header::decode(&early.encode()).unwrap(), early);
        let live: Vec<_> = fields_of_page("Live page").into_iter().map(|(at, _, name)| (at as u64, name)).collect();
        let [renewed, base, proof] = RENEWED_PROOF;
        let expected = [
            (SEQUENCE, "sequence"),
            (WAITING, "waiting"),
            (WRITER, "writer"),
            (UNSYNCED, "unsynced"),
            (renewed, "renewed"),
            (base, "renewed base"),
            (proof, "renewed proof"),
            (STAMPED, "stamped"),
            (OWN_FILE, "file"),
            (SYNCED, "synced"),
        ];
        assert_eq!(live, expected.map(|(at, name)| (at, name.to_string())));
        let boot = *b"the boot's bytes";
        let record = Record {
            sequence: 5,
            sealed: true,
            provisional: true,
            goes_on: true,
            boot,
            previous: 32,
            delta: 0,
            proof: Some(Proof { word: 40, base: 48, mount: 56 }),
            counters: vec![64],
            positions: vec![72],
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        for (at, size, name) in fields_of_page("Record") {
            let actual = &bytes[at..at + size];
            match &name[..] {
                "sequence" => assert_eq!(actual, 5u64.to_le_bytes()),
                "state" => assert_eq!(actual, 15u32.to_le_bytes()),
                "crc" => {
                    assert_eq!(actual, crc32c::crc32c(&[&bytes[..12], &[0; 4], &bytes[16..]].concat()).to_le_bytes())
                }
                "boot" => assert_eq!(actual, boot),
                "previous" => assert_eq!(actual, 32u64.to_le_bytes()),
                "delta" => assert_eq!(actual, 40u32.to_le_bytes()),
                "base" => assert_eq!(actual, 48u64.to_le_bytes()),
                "mount" => assert_eq!(actual, 56u64.to_le_bytes()),
                "positions" => assert_eq!(actual, 1u32.to_le_bytes()),
                other => panic!("{other} is not tested"),
            }
        }
        assert_eq!(bytes[RECORD..], [64u64.to_le_bytes(), 72u64.to_le_bytes()].concat());
        let page = include_str!("../../../../docs/format.md");
        let version = format!("Format version: **{MAJOR}.{MINOR}**");
        assert!(page.contains(&version) && page.contains("multiple of 65,536") && ALIGNMENT == 65_536 && PAGE == 4096);
    }
}
