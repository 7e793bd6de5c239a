//! A growable segment for its readers: mapped once, with arrays over the bytes of a commit.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_buffer::Buffer;
use arrow_data::ArrayData;

use crate::array::{Bytes, IncrementalCheck, UncheckedArray};
use crate::dataset::Zone;
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{IpcSchema, SegmentProbe, probe_segment};
use crate::map::{AllowedChanges, ChangeCheck, Mapping, SharedWords, boot_id};
use crate::rows::{Extent, Plan, PlanDictionary, PlanZones, Storage, ZONE, ZoneMap, arrays};
use crate::table::format::{
    HEADER, Header, MOST_POSITIONS, MOST_SEQUENCE, OWN_FILE, PAGE, Record, SEQUENCE, WRITER, record_len,
};
use crate::table::placement;
use crate::table::protocol::log::LogEntry;
use crate::table::protocol::publish;
use crate::table::zones;

/// The message for an invalid header, with advice.
fn wrong_header(what: &str) -> String {
    format!("the segment's header: {what}; restore the file, or let `arrowwood check --repair` keep what is good")
}

/// The state of a segment after a system crash.
#[derive(Clone, Debug)]
pub(in crate::table) struct RecoveredState {
    /// The newest durable record whose rows are on the disk.
    pub base: Option<Record>,
    /// The newest durable commit, with a number greater than all others.
    pub record: Record,
    /// The entries of the log that follow `base`.
    pub entries: Vec<LogEntry>,
}

/// What is known of the page cache through which a segment is read.
#[derive(Debug)]
pub(in crate::table) struct PageCacheState(pub AtomicU64);

/// Nothing was asked yet.
pub(super) const UNKNOWN: u64 = u64::MAX;
/// It is that of the writer.
pub(super) const SAME: u64 = u64::MAX - 1;
/// The rows of the newest commit are there, whatever page cache it is.
pub(super) const HAS_ROWS: u64 = u64::MAX - 2;
// Any other: the commits up to this one are not there as they were made.

impl Default for PageCacheState {
    fn default() -> PageCacheState {
        PageCacheState(AtomicU64::new(UNKNOWN))
    }
}

impl Clone for PageCacheState {
    fn clone(&self) -> PageCacheState {
        PageCacheState(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

/// A segment mapped in place.
#[derive(Debug)]
pub(in crate::table) struct Segment {
    bytes: Bytes,
    pub mapping: Mapping,
    pub header: Header,
    pub plan: Arc<Plan>,
    /// The number of rows up to which each column and each dictionary has been checked.
    checked: Box<[IncrementalCheck]>,
    /// After a system crash: the commits that are in the log and not in the columns. The mapping is private and
    /// contains their bytes.
    pub replayed: Option<RecoveredState>,
    pub(super) page_cache: PageCacheState,
    /// See [`Mapping::is_on_overlay`].
    pub is_on_overlay: bool,
}

/// The newest commit of a segment; `None` if its record is torn.
pub(in crate::table) fn visible(header: &Header, words: &impl SharedWords, patience: usize) -> Option<Record> {
    let counters = header.limits.len();
    let mut bytes = vec![0; record_len(counters, MOST_POSITIONS)];
    let decode = |bytes: &[u8], sequence: u64| Record::decode_as(bytes, counters, sequence);
    publish::newest(words, header.page(), (&mut bytes, record_len(counters, 0)), decode, patience)
}

/// The error for a torn commit record.
pub(in crate::table) fn damaged_record() -> Error {
    Error::invalid("the segment's commit record is damaged; `arrowwood check` says more")
}

/// Checks that an intact record can belong to the segment: its numbers are within bounds, and its counters within the
/// segment's limits, so that they can be used as lengths.
pub(in crate::table) fn check_record(record: &Record, header: &Header, plan: &Plan) -> Result<()> {
    let Record { sequence, previous, counters, .. } = record;
    let wrong = match *sequence {
        MOST_SEQUENCE.. => Err("expected a number less than 2^62".into()),
        number if *previous >= number => {
            Err(format!("`previous`: expected the number of a commit before it, got {previous}"))
        }
        _ => plan.check_counters(counters, &header.limits),
    };
    wrong.map_err(|wrong| {
        Error::invalid(format!(
            "the record of commit {sequence}: {wrong}; restore the file, or let `arrowwood check --repair` keep what \
             is good"
        ))
    })
}

impl Segment {
    /// Opens the segment in `mapping`; `None` if it is an Arrow file that doesn't grow.
    pub fn open(mapping: Mapping) -> Result<Option<Segment>> {
        let read = ReadAhead::new(&mapping)?;
        let found = probe_segment(mapping.len(), |at, into| read.read_at(at, into))?;
        let Some(SegmentProbe { schema: place, header: start }) = found else { return Ok(None) };
        let mut schema = vec![0; place.len()];
        read.read_at(place.start, &mut schema)?;
        let mut fixed = [0; HEADER];
        read.read_at(start, &mut fixed)?;
        let mut bytes = vec![0; Header::len_of(&fixed)?];
        read.read_at(start, &mut bytes)?;
        let header = Header::decode(&bytes).map_err(|e| Error::invalid(wrong_header(e.message())))?;
        let plan = plan_of(&schema, &header.zones)?;
        placement::check(&header, start, bytes.len(), &plan).map_err(|wrong| Error::invalid(wrong_header(&wrong)))?;
        if header.file_len() != mapping.len() as u64 {
            let expected = header.file_len();
            let got = mapping.len();
            return Err(Error::invalid(format!("the segment has {got} bytes, expected {expected}; it was cut off")));
        }
        mapping.set_allowed_changes(AllowedChanges::InPlace(header.marks(start as u64, &fixed)));
        let checked = (0..plan.columns.len() + plan.dictionaries.len()).map(|_| IncrementalCheck::default()).collect();
        Ok(Some(Segment {
            bytes: Bytes::from_mapping(mapping.clone())?,
            is_on_overlay: mapping.is_on_overlay()?,
            mapping,
            header,
            plan,
            checked,
            replayed: None,
            page_cache: PageCacheState::default(),
        }))
    }

    /// Copies the segment up to `record` into memory.
    ///
    /// # Errors
    /// Those of reading the file; `FileChanged` if it is no longer a segment.
    pub fn copied(&self, record: &Record) -> Result<Segment> {
        let used = self.plan.extents(&record.counters).map_err(|e| e.at(self.path()))?;
        let place = |used: &Extent| {
            let start = self.header.regions[used.region].offset as usize;
            start..start + used.bytes as usize
        };
        // The bytes before the log and at the end never change, and are compared.
        let ends = [0..self.header.log_start() as usize, self.header.tail as usize..self.mapping.len()];
        let parts = ends.into_iter().chain(used.iter().map(place));
        let mapping = self.mapping.copy_ranges(parts)?;
        let changed = || Error::new(ErrorKind::FileChanged, "the segment was overwritten while it was read");
        let mut copy = Segment::open(mapping)?.ok_or_else(|| changed().at(self.path()))?;
        copy.replayed.clone_from(&self.replayed);
        copy.page_cache = self.page_cache.clone();
        copy.is_on_overlay = self.is_on_overlay;
        Ok(copy)
    }

    /// Whether a writer has committed `record` since the segment was opened with bytes of its log: then its private
    /// pages lack the bytes appended to them.
    pub fn is_outdated(&self, record: &Record) -> bool {
        self.replayed.as_ref().is_some_and(|left| left.record.sequence != record.sequence)
    }

    /// Whether the name of the segment's file was removed.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_removed(&self) -> Result<bool> {
        self.mapping.is_removed().map_err(|e| Error::io("looking at the segment", &e).at(self.path()))
    }

    /// Whether the file at `path` is that of the segment.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_at(&self, path: &Path) -> Result<bool> {
        self.mapping.is_at(path).map_err(|e| Error::io("looking at the segment", &e).at(path))
    }

    pub fn path(&self) -> &Path {
        self.mapping.path().unwrap_or(Path::new(""))
    }

    /// Checks that the file still is the segment that was opened.
    ///
    /// # Errors
    /// `FileChanged`.
    #[inline]
    pub fn check_unchanged(&self, when: ChangeCheck) -> Result<()> {
        Ok(self.mapping.check_unchanged(when)?)
    }

    /// The sequence of the newest commit.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.mapping.load64((self.header.live + SEQUENCE) as usize)
    }

    /// Whether the file has commits that the mapping will never show: see [`Mapping::is_on_overlay`].
    ///
    /// # Errors
    /// Those of reading the file.
    #[inline]
    pub fn is_left_behind(&self) -> Result<bool> {
        Ok(self.is_on_overlay && self.mapping.read_word(self.header.live + SEQUENCE)? > self.sequence())
    }

    /// What [`Segment::sequence`] is as long as `record` is the newest commit: its number, or, where that was found after a
    /// crash of the machine, a number before it. A writer goes on behind both.
    #[inline]
    pub fn expected_sequence(&self, record: &Record) -> u64 {
        let sequence = self.sequence();
        if sequence < record.sequence && record.boot != boot_id() { sequence } else { record.sequence }
    }

    /// Whether the file is the one that its writer had open, and no copy of it; true where nothing tells.
    pub fn is_original_file(&self) -> bool {
        let word = self.mapping.load64((self.header.live + OWN_FILE) as usize);
        word == 0 || word == self.mapping.file_fingerprint()
    }

    /// The process that last opened the segment for writing.
    pub fn writer(&self) -> u32 {
        self.mapping.load32(self.header.live + WRITER)
    }

    /// The newest commit, of any boot; `None` if its record is torn.
    ///
    /// # Errors
    /// As [`Segment::check_record`].
    pub fn visible(&self) -> Result<Option<Record>> {
        self.visible_within(publish::PATIENCE)
    }

    /// As [`Segment::visible`], with the given number of attempts.
    pub fn visible_within(&self, patience: usize) -> Result<Option<Record>> {
        visible(&self.header, &self.mapping, patience).map(|record| self.checked_record(record)).transpose()
    }

    /// Checks that an intact record can belong to the segment.
    ///
    /// # Errors
    /// `InvalidData` with the name of the wrong number.
    pub fn check_record(&self, record: &Record) -> Result<()> {
        check_record(record, &self.header, &self.plan).map_err(|e| e.at(self.path()))
    }

    /// Returns the record of a segment to which nothing was committed.
    pub fn empty_record(&self) -> Record {
        Record { counters: vec![0; self.header.limits.len()], ..Record::default() }
    }

    /// Returns the record, if [`Segment::check_record`] accepts it.
    pub fn checked_record(&self, record: Record) -> Result<Record> {
        self.check_record(&record).map(|()| record)
    }

    /// A durable record, unchecked.
    ///
    /// # Errors
    /// As [`Segment::record_at`].
    pub fn durable(&self, number: u64) -> Result<Option<Record>> {
        self.record_at(self.header.durable(number))
    }

    /// The record at `offset`; `None` if it is not intact.
    ///
    /// # Errors
    /// Those of reading the file: what can't be read may be intact.
    pub fn record_at(&self, offset: u64) -> Result<Option<Record>> {
        let counters = self.header.limits.len();
        let mut bytes = vec![0; record_len(counters, MOST_POSITIONS)];
        self.mapping.read_at(offset as usize, &mut bytes)?;
        Ok(Record::decode(&bytes, counters))
    }

    /// Both records at `places` that are intact.
    pub fn records_at(&self, places: [u64; 2]) -> Result<[Option<Record>; 2]> {
        let [first, second] = places.map(|at| self.record_at(at));
        Ok([first?, second?])
    }

    /// Bytes `from .. to` of region `region`, in place.
    pub fn region_slice(&self, region: usize, from: u64, to: u64) -> Option<Buffer> {
        let place = self.header.regions.get(region)?;
        if to > place.capacity {
            return None;
        }
        self.bytes.slice((place.offset + from) as usize, to.checked_sub(from)? as usize)
    }

    /// Whether another file than that of the segment is at `path`.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_replaced_at(&self, path: &Path) -> Result<bool> {
        self.mapping.is_replaced_at(path).map_err(|e| Error::io("looking at the segment", &e).at(path))
    }

    /// Fills `into` with the bytes of region `region` from byte `at` on.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn read_region(&self, region: usize, at: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.mapping.read_at((self.header.regions[region].offset + at) as usize, into)?)
    }

    /// Column `number` as of the record, with unchecked values.
    pub fn column(&self, number: usize, record: &Record) -> Result<UncheckedArray> {
        let column =
            self.plan.columns.get(number).ok_or_else(|| Error::invalid_argument(format!("column {number}")))?;
        let part = |region, len| self.region_slice(region, 0, len);
        // Always with bitmaps, whatever the null counters are: the bitmap decides.
        let array = arrays::column(&self.plan, column, record.rows(), &record.counters, &part, true);
        array.map_err(|e| e.at(self.path()))
    }

    pub fn dictionary(&self, dictionary: &PlanDictionary, counters: &[u64]) -> Result<UncheckedArray> {
        let part = |region, len| self.region_slice(region, 0, len);
        arrays::dictionary(&self.plan, dictionary, counters, &part).map_err(|e| e.at(self.path()))
    }

    /// The column, with values checked up to the record's last row, from the end of the last check: committed rows
    /// don't change.
    pub fn checked(&self, number: usize, array: UncheckedArray, record: &Record) -> Result<ArrayData> {
        let mut numbers = Vec::new();
        self.plan.columns[number].each(&mut |node| {
            if let Storage::Keys { number, .. } = node.kind {
                numbers.push(number);
            }
        });
        let dictionary = |number: usize| {
            let values = self.dictionary(&self.plan.dictionaries[number], &record.counters)?;
            let checked = self.checked[self.plan.columns.len() + number].checked(values, &[]);
            checked.map_err(|e| e.context("its dictionary"))
        };
        let known = numbers.into_iter().map(dictionary).collect::<Result<Vec<_>>>()?;
        self.checked[number].checked(array, &known.iter().collect::<Vec<_>>())
    }

    /// The zones of a column in the order of their rows; the record's last rows may have none.
    ///
    /// # Errors
    /// `InvalidData` if they can't be those of the column.
    pub fn zones(&self, map: &PlanZones, record: &Record) -> Result<Vec<Zone>> {
        let node = &self.plan.columns[map.column];
        let past = || Error::internal("zones end past their buffer").at(self.path());
        let bytes = self.region_slice(map.region, 0, map.bytes(record.rows())).ok_or_else(past)?;
        let wrong = |(number, wrong)| {
            Error::invalid(format!(
                "zone {number} of column '{}': {wrong}; restore the file, or let `arrowwood check --repair` keep what is \
                 good",
                node.field.name()
            ))
            .at(self.path())
        };
        let entries = bytes.as_chunks::<{ ZONE as usize }>().0.iter().enumerate();
        let zone =
            |(number, entry)| zones::decode(entry, node.field.data_type(), map.rows).map_err(|e| wrong((number, e)));
        entries.map(zone).collect()
    }

    /// The names of the record's positions.
    ///
    /// # Errors
    /// `InvalidData` if their number differs from that of the values, or they are not valid names.
    pub fn position_names(&self, record: &Record) -> Result<Vec<String>> {
        let place = self.plan.names;
        let mut bytes = vec![0; record.counters[place.bytes] as usize];
        self.mapping.read_at(self.header.regions[place.region].offset as usize, &mut bytes)?;
        let mut names = Vec::new();
        let mut rest = &bytes[..];
        // No more than there are positions: each name is compared with all before it.
        while let Some((&len, more)) = rest.split_first().filter(|_| names.len() < record.positions.len()) {
            let Some((name, more)) = more.split_at_checked(len.into()) else { break };
            let Ok(name) = std::str::from_utf8(name) else { break };
            let is_name = !name.is_empty() && !name.chars().any(char::is_control);
            if !is_name || names.iter().any(|known| known == name) {
                break;
            }
            names.push(name.to_string());
            rest = more;
        }
        if names.len() == record.positions.len() && rest.is_empty() {
            return Ok(names);
        }
        let got = names.len();
        let expected = record.positions.len();
        let message = format!(
            "the names of positions: expected {expected} different ones in {} bytes, got {got} and {} bytes that are none; \
             restore the file, or let `arrowwood check --repair` keep what is good",
            bytes.len(),
            rest.len()
        );
        Err(Error::invalid(message).at(self.path()))
    }

    /// Used bytes of the file: for display, so an invalid record counts as none.
    pub fn used(&self, record: &Record) -> u64 {
        let extents = self.plan.extents(&record.counters);
        debug_assert!(extents.is_ok(), "records are checked before they are kept");
        extents.map_or(0, |extents| extents.iter().map(|used| used.bytes).sum())
    }
}

/// The first bytes of a file, read at once: nearly everything needed to open a segment.
struct ReadAhead<'a> {
    mapping: &'a Mapping,
    bytes: Vec<u8>,
}

/// Two pages: a schema of a few columns, and the header after it.
const READ_AHEAD: usize = 2 * PAGE as usize;

impl ReadAhead<'_> {
    fn new(mapping: &Mapping) -> Result<ReadAhead<'_>> {
        let mut bytes = vec![0; READ_AHEAD.min(mapping.len())];
        mapping.read_at(0, &mut bytes)?;
        Ok(ReadAhead { mapping, bytes })
    }

    fn read_at(&self, at: usize, into: &mut [u8]) -> Result<()> {
        match self.bytes.get(at..).and_then(|rest| rest.get(..into.len())) {
            Some(known) => into.copy_from_slice(known),
            None => self.mapping.read_at(at, into)?,
        }
        Ok(())
    }
}

/// The most recently read schema, and its plan: the segments of a table, and the tables of many partitions, have the
/// same.
static LAST: Mutex<Option<(Vec<u8>, Arc<Plan>)>> = Mutex::new(None);

/// The maximum size in bytes of a cached schema.
const MOST_KEPT: usize = 64 << 10;

fn plan_of(schema: &[u8], zones: &[ZoneMap]) -> Result<Arc<Plan>> {
    // In a forked child the lock may be held forever: without it, the schema is read.
    if let Ok(last) = LAST.try_lock()
        && let Some((_, plan)) = last.as_ref().filter(|(known, plan)| known == schema && plan.supports_zones(zones))
    {
        return Ok(plan.clone());
    }
    let plan = Plan::new(IpcSchema::parse_message(schema)?)?.with_zones(zones);
    let plan = Arc::new(plan.map_err(|wrong| Error::invalid(wrong_header(&wrong)))?);
    if schema.len() <= MOST_KEPT
        && let Ok(mut last) = LAST.try_lock()
    {
        *last = Some((schema.to_vec(), plan.clone()));
    }
    Ok(plan)
}

/// The Schema message's metadata, and the offset of the header; `None` if none of our headers follows the schema.
pub(in crate::table) fn read_front(mapping: &Mapping) -> Result<Option<(Vec<u8>, usize)>> {
    let found = probe_segment(mapping.len(), |at, into| Ok(mapping.read_at(at, into)?))?;
    let Some(SegmentProbe { schema: place, header }) = found else { return Ok(None) };
    let mut schema = vec![0; place.len()];
    mapping.read_at(place.start, &mut schema)?;
    Ok(Some((schema, header)))
}
