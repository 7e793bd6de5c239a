//! Reports on one segment: its records, its log, and their offsets in the file.

use std::path::Path;

use super::recovery::open_segment;
use super::segment::Segment;
use crate::error::Result;
use crate::map::{boot_id, guard};
use crate::table::format::{PAGE, Record};

/// A segment at one moment: see [`segment_stat`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentStat {
    /// The number of the segment's first row in the table.
    pub first_row: u64,
    /// The number of rows that the segment can hold.
    pub capacity: u64,
    /// The number of the newest commit.
    pub sequence: u64,
    /// The id of the process that last opened the segment for writing.
    pub writer: u32,
    /// The number of the row after the last one that would survive a power cut, as far as the file shows.
    pub durable_end: u64,
    /// Offset and length in bytes of the live page, which contains the number of the newest commit.
    pub live_page: (u64, u64),
    /// Offset and length in bytes of the log.
    pub log: (u64, u64),
    /// The intact records: of visible commits, of durable ones, and of those in the log.
    pub records: Vec<RecordStat>,
}

/// The place of a record in its segment: in one of two pairs, or in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// One of the two visible records, which are written alternately.
    Visible,
    /// One of the two durable records.
    Durable,
    /// One in the log, with the bytes of its commit.
    Log,
}

/// A record of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordStat {
    /// The kind of record, which tells where in the segment it is.
    pub place: RecordKind,
    /// Its offset in the file; `None` for entries of the log.
    pub offset: Option<u64>,
    /// The length of the record in bytes; for an entry of the log, including the bytes of its rows.
    pub bytes: u64,
    /// The number of the commit.
    pub sequence: u64,
    /// The number of the row after the last one of the commit.
    pub end: u64,
    /// True if no more rows follow it in this segment.
    pub sealed: bool,
    /// True if the commit is valid only once the previous segment is sealed.
    pub provisional: bool,
    /// The system's boot in which it was made.
    pub boot: [u8; 16],
    /// True if it was made in the current boot.
    pub this_boot: bool,
}

/// Returns information about the segment at `path`.
///
/// `None` if it is another Arrow file, such as a dense segment.
///
/// # Errors
/// `InvalidData` for a damaged segment, `Io`.
pub fn segment_stat(path: impl AsRef<Path>) -> Result<Option<SegmentStat>> {
    guard(|| open_segment(path.as_ref())?.map(|segment| read_stat(&segment)).transpose())
}

fn read_stat(segment: &Segment) -> Result<SegmentStat> {
    let header = &segment.header;
    let visible = [0, 1].map(|number| (RecordKind::Visible, header.page().record(number)));
    let durable = [0, 1].map(|number| (RecordKind::Durable, header.durable(number)));
    let mut records = Vec::new();
    for (kind, offset) in visible.into_iter().chain(durable) {
        if let Some(record) = segment.record_at(offset)? {
            records.push(RecordStat::new(&record, kind, Some(offset), header.record, header.first_row));
        }
    }
    for entry in segment.log_entries()? {
        let bytes = header.record + entry.bytes.len() as u64;
        records.push(RecordStat::new(&entry.record, RecordKind::Log, None, bytes, header.first_row));
    }
    Ok(SegmentStat {
        first_row: header.first_row,
        capacity: header.capacity,
        sequence: segment.sequence(),
        writer: segment.writer(),
        durable_end: header.first_row + segment.durable_rows()?,
        live_page: (header.live, PAGE),
        log: (header.log_start(), header.log),
        records,
    })
}

impl RecordStat {
    fn new(record: &Record, place: RecordKind, offset: Option<u64>, bytes: u64, first_row: u64) -> RecordStat {
        RecordStat {
            place,
            offset,
            bytes,
            sequence: record.sequence,
            // An intact but invalid record is not trusted here either.
            end: first_row.saturating_add(record.rows()),
            sealed: record.sealed,
            provisional: record.provisional,
            boot: record.boot,
            this_boot: record.boot == boot_id(),
        }
    }
}
