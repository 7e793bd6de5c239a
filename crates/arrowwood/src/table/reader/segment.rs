//! Maps growable segments for their readers, with arrays over the bytes of a commit.
//!
//! A [`Segment`] is opened once, and shared by all datasets of it. Its header and schema never change. What changes is
//! the number of the newest commit and the records, which the writer stores by the protocol of
//! [`publish`](crate::table::protocol::publish), and the bytes after those of the newest commit. A record that was read
//! stays valid as long as the file is the same: committed bytes never change.

use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_buffer::Buffer;
use arrow_data::ArrayData;

use super::page_cache_state::PageCacheState;
use crate::array::{Bytes, IncrementalCheck, UncheckedArray};
use crate::dataset::Zone;
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{IpcSchema, SegmentProbe, probe_segment};
use crate::map::{AllowedChanges, ChangeCheck, Mapping, SharedWords, boot_id};
use crate::rows::arrays::{self, Bitmaps};
use crate::rows::{Plan, PlanDictionary, PlanZones, Storage, ZONE, ZoneMap};
use crate::table::format::{
    HEADER, Header, MOST_POSITIONS, MOST_SEQUENCE, OWN_FILE, PAGE, Record, SEQUENCE, SYNCED, UNSYNCED, WRITER,
    record_len,
};
use crate::table::placement;
use crate::table::protocol::log::LogEntry;
use crate::table::protocol::publish;
use crate::table::zones;

/// Returns the message for an invalid header, with advice.
fn invalid_header(what: &str) -> String {
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

/// A growable segment, mapped in place: see the module.
#[derive(Debug)]
pub(in crate::table) struct Segment {
    /// The same bytes as `mapping`, for arrays that keep them mapped.
    bytes: Bytes,
    pub mapping: Mapping,
    pub header: Header,
    pub plan: Arc<Plan>,
    /// The number of rows up to which the values of each column, and then of each dictionary, have been checked.
    checked: Box<[IncrementalCheck]>,
    /// After a system crash: the commits that are in the log and not in the columns. The mapping is private then, and
    /// has their bytes in place.
    pub replayed: Option<RecoveredState>,
    /// Whether commits of this boot are there: see [`page_cache`](super::page_cache).
    pub(super) page_cache: PageCacheState,
    /// See [`Mapping::is_on_overlay`].
    pub is_on_overlay: bool,
    /// The words that each sync of a writer changes, from before anything else of the segment was read.
    words_when_opened: [u64; 3],
}

/// Returns the words that each sync of a writer changes; writers of early versions know two of them.
fn sync_words(mapping: &Mapping, header: &Header) -> [u64; 3] {
    [SEQUENCE, UNSYNCED, SYNCED].map(|word| mapping.load64((header.live + word) as usize))
}

/// Returns the newest commit of a segment; `None` if its record is torn.
pub(in crate::table) fn visible(header: &Header, words: &impl SharedWords, patience: usize) -> Option<Record> {
    let counters = header.limits.len();
    let mut bytes = vec![0; record_len(counters, MOST_POSITIONS)];
    let fixed = record_len(counters, 0);
    publish::newest(
        words,
        header.page(),
        (&mut bytes, fixed),
        |bytes, sequence| Record::decode_as(bytes, counters, sequence),
        patience,
    )
}

/// Returns the error for a torn commit record.
pub(in crate::table) fn damaged_record() -> Error {
    Error::invalid("the segment's commit record is damaged; `arrowwood check` says more")
}

/// Checks that an intact record can belong to the segment: its numbers are within bounds, and its counters within the
/// segment's limits, so that they can be used as lengths.
pub(in crate::table) fn check_record(record: &Record, header: &Header, plan: &Plan) -> Result<()> {
    let Record { sequence, previous, counters, .. } = record;
    let checked = if *sequence >= MOST_SEQUENCE {
        Err("expected a number less than 2^62".into())
    } else if previous >= sequence {
        Err(format!("`previous`: expected the number of a commit before it, got {previous}"))
    } else {
        plan.check_counters(counters, &header.limits)
    };
    checked.map_err(|problem| {
        Error::invalid(format!(
            "the record of commit {sequence}: {problem}; restore the file, or let `arrowwood check --repair` keep what \
             is good"
        ))
    })
}

impl Segment {
    /// Opens the segment in `mapping`; `None` if it is an Arrow file that doesn't grow.
    pub fn open(mapping: Mapping) -> Result<Option<Segment>> {
        let front = ReadAhead::new(&mapping)?;
        let probe = probe_segment(mapping.len(), |offset, into| front.read_at(offset, into))?;
        let Some(SegmentProbe { schema: schema_range, header: start }) = probe else { return Ok(None) };
        let mut schema = vec![0; schema_range.len()];
        front.read_at(schema_range.start, &mut schema)?;
        let mut fixed = [0; HEADER];
        front.read_at(start, &mut fixed)?;
        let mut bytes = vec![0; Header::len_of(&fixed)?];
        front.read_at(start, &mut bytes)?;
        let header = Header::decode(&bytes).map_err(|e| Error::invalid(invalid_header(e.message())))?;
        let plan = plan_for_schema(&schema, &header.zones)?;
        placement::check(&header, start, bytes.len(), &plan)
            .map_err(|problem| Error::invalid(invalid_header(&problem)))?;
        if header.file_len() != mapping.len() as u64 {
            let expected = header.file_len();
            let got = mapping.len();
            return Err(Error::invalid(format!("the segment has {got} bytes, expected {expected}; it was cut off")));
        }

        let words_when_opened = sync_words(&mapping, &header);
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
            words_when_opened,
        }))
    }

    /// Copies the segment up to `record` into memory.
    ///
    /// # Errors
    /// `FileChanged` if it is no longer a segment, or the errors of reading the file.
    pub fn copied(&self, record: &Record) -> Result<Segment> {
        // The bytes before the log and at the end never change, and are compared.
        let mut ranges = vec![0..self.header.log_start() as usize, self.header.tail as usize..self.mapping.len()];
        for extent in self.plan.extents(&record.counters).map_err(|e| e.at(self.path()))? {
            let start = self.header.regions[extent.region].offset as usize;
            ranges.push(start..start + extent.bytes as usize);
        }
        let mapping = self.mapping.copy_ranges(ranges.into_iter())?;
        let Some(mut copy) = Segment::open(mapping)? else {
            let message = "the segment was overwritten while it was read";
            return Err(Error::new(ErrorKind::FileChanged, message).at(self.path()));
        };
        copy.replayed.clone_from(&self.replayed);
        copy.page_cache = self.page_cache.clone();
        copy.is_on_overlay = self.is_on_overlay;
        copy.words_when_opened = self.words_when_opened;
        Ok(copy)
    }

    /// Returns true if a writer has committed `record` since the segment was opened with bytes of its log: then its
    /// private pages lack the bytes appended to them.
    pub fn is_outdated(&self, record: &Record) -> bool {
        self.replayed.as_ref().is_some_and(|left| left.record.sequence != record.sequence)
    }

    /// Returns true if the name of the segment's file was removed.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_removed(&self) -> Result<bool> {
        self.mapping.is_removed().map_err(|e| Error::io("looking at the segment", &e).at(self.path()))
    }

    /// Returns true if the file at `path` is the segment's.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_at(&self, path: &Path) -> Result<bool> {
        self.mapping.is_at(path).map_err(|e| Error::io("looking at the segment", &e).at(path))
    }

    /// Returns the path of the file; empty if it is unknown.
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

    /// Returns the number of the newest commit.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.mapping.load64((self.header.live + SEQUENCE) as usize)
    }

    /// Returns true if the file has commits that the mapping will never show: see [`Mapping::is_on_overlay`].
    ///
    /// # Errors
    /// Returns the errors of reading the file.
    #[inline]
    pub fn is_left_behind(&self) -> Result<bool> {
        Ok(self.is_on_overlay && self.mapping.read_word(self.header.live + SEQUENCE)? > self.sequence())
    }

    /// Returns the value that [`Segment::sequence`] has as long as `record` is the newest commit. That is its number,
    /// or a smaller one if it was recovered after a crash of the machine. The next commit has a greater number than
    /// both.
    #[inline]
    pub fn expected_sequence(&self, record: &Record) -> u64 {
        let sequence = self.sequence();
        if sequence < record.sequence && record.boot != boot_id() { sequence } else { record.sequence }
    }

    /// Returns true if a writer may have committed or synced since the segment was opened.
    pub fn has_changed_since_opening(&self) -> bool {
        sync_words(&self.mapping, &self.header) != self.words_when_opened
    }

    /// Returns true if the file is known to be the one that its writer had open, and no copy of it.
    pub fn is_known_original_file(&self) -> bool {
        let word = self.own_file();
        word != 0 && word == self.mapping.file_fingerprint()
    }

    /// Returns true if the file is the one that its writer had open, and no copy of it, or if that is unknown.
    pub fn is_original_file(&self) -> bool {
        self.own_file() == 0 || self.is_known_original_file()
    }

    /// Returns the identity of the file that its writer had open; 0 if it did not store one.
    fn own_file(&self) -> u64 {
        self.mapping.load64((self.header.live + OWN_FILE) as usize)
    }

    /// Returns the id of the process that last opened the segment for writing.
    pub fn writer(&self) -> u32 {
        self.mapping.load32(self.header.live + WRITER)
    }

    /// Returns the newest commit, of any boot; `None` if its record is torn.
    ///
    /// # Errors
    /// `InvalidData` if the record can't belong to the segment.
    pub fn visible(&self) -> Result<Option<Record>> {
        self.visible_within(publish::PATIENCE)
    }

    /// Returns the rows of the newest commit, of any boot; 0 if its record is torn.
    pub fn visible_rows(&self) -> Result<u64> {
        Ok(self.visible()?.map_or(0, |visible| visible.rows()))
    }

    /// Returns the newest commit like [`Segment::visible`], with the given number of attempts.
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

    /// Reads a durable record, unchecked.
    ///
    /// # Errors
    /// Returns the errors of [`Segment::record_at`].
    pub fn durable(&self, number: u64) -> Result<Option<Record>> {
        self.record_at(self.header.durable(number))
    }

    /// Reads the record at `offset`; `None` if it is not intact.
    ///
    /// # Errors
    /// Returns the errors of reading the file: a record that can't be read may be intact.
    pub fn record_at(&self, offset: u64) -> Result<Option<Record>> {
        let counters = self.header.limits.len();
        let mut bytes = vec![0; record_len(counters, MOST_POSITIONS)];
        self.mapping.read_at(offset as usize, &mut bytes)?;
        Ok(Record::decode(&bytes, counters))
    }

    /// Reads the records at two offsets; `None` for a record that is not intact.
    pub fn records_at(&self, [first, second]: [u64; 2]) -> Result<[Option<Record>; 2]> {
        Ok([self.record_at(first)?, self.record_at(second)?])
    }

    /// Returns bytes `from .. to` of region `region`, in place; `None` if the region has no such bytes.
    pub fn region_slice(&self, region: usize, from: u64, to: u64) -> Option<Buffer> {
        let region = self.header.regions.get(region)?;
        if to > region.capacity {
            return None;
        }
        self.bytes.slice((region.offset + from) as usize, to.checked_sub(from)? as usize)
    }

    /// Returns true if another file than the segment's is at `path`.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_replaced_at(&self, path: &Path) -> Result<bool> {
        self.mapping.is_replaced_at(path).map_err(|e| Error::io("looking at the segment", &e).at(path))
    }

    /// Fills `into` with the bytes of region `region` from byte `at` on.
    ///
    /// # Errors
    /// Returns the errors of reading the file.
    pub fn read_region(&self, region: usize, at: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.mapping.read_at((self.header.regions[region].offset + at) as usize, into)?)
    }

    /// Returns column `number` with the record's rows, whose values are unchecked.
    pub fn column(&self, number: usize, record: &Record) -> Result<UncheckedArray> {
        let column =
            self.plan.columns.get(number).ok_or_else(|| Error::invalid_argument(format!("column {number}")))?;
        debug_assert_eq!(record.counters.len(), self.plan.counters, "records are checked before they are kept");
        // Bitmaps are used even if the null counters are 0: the bitmap decides.
        arrays::column(
            &self.plan,
            column,
            record.rows(),
            &record.counters,
            &|region, len| self.region_slice(region, 0, len),
            Bitmaps::All,
        )
        .map_err(|e| e.at(self.path()))
    }

    /// Returns a dictionary with the entries that `counters` have, whose values are unchecked.
    pub fn dictionary(&self, dictionary: &PlanDictionary, counters: &[u64]) -> Result<UncheckedArray> {
        arrays::dictionary(&self.plan, dictionary, counters, &|region, len| self.region_slice(region, 0, len))
            .map_err(|e| e.at(self.path()))
    }

    /// Checks the values of `array`, which is column `number`, up to the record's last row. Begins where the last check
    /// ended, as committed rows don't change.
    ///
    /// # Errors
    /// `InvalidData` for a damaged value.
    pub fn checked(&self, number: usize, array: UncheckedArray, record: &Record) -> Result<ArrayData> {
        let mut numbers = Vec::new();
        self.plan.columns[number].each(&mut |node| {
            if let Storage::Keys { number, .. } = node.kind {
                numbers.push(number);
            }
        });
        let mut dictionaries = Vec::with_capacity(numbers.len());
        for number in numbers {
            let values = self.dictionary(&self.plan.dictionaries[number], &record.counters)?;
            let checked = self.checked[self.plan.columns.len() + number].checked(values, &[]);
            dictionaries.push(checked.map_err(|e| e.context("its dictionary"))?);
        }
        self.checked[number].checked(array, &dictionaries.iter().collect::<Vec<_>>())
    }

    /// Returns the zones of a column in the order of their rows; the record's last rows may have none.
    ///
    /// # Errors
    /// `InvalidData` if they can't be zones of the column.
    pub fn zones(&self, map: &PlanZones, record: &Record) -> Result<Vec<Zone>> {
        let field = &self.plan.columns[map.column].field;
        let Some(bytes) = self.region_slice(map.region, 0, map.bytes(record.rows())) else {
            return Err(Error::internal("zones end past their buffer").at(self.path()));
        };
        let (entries, _) = bytes.as_chunks::<{ ZONE as usize }>();
        let mut zones = Vec::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            let zone = zones::decode(entry, field.data_type(), map.rows).map_err(|problem| {
                let message = format!(
                    "zone {number} of column '{}': {problem}; restore the file, or let `arrowwood check --repair` keep \
                     what is good",
                    field.name()
                );
                Error::invalid(message).at(self.path())
            });
            zones.push(zone?);
        }
        Ok(zones)
    }

    /// Returns the names of the record's positions.
    ///
    /// # Errors
    /// `InvalidData` if their number differs from the number of values, or they are not valid names.
    pub fn position_names(&self, record: &Record) -> Result<Vec<String>> {
        let buffer = self.plan.names;
        let mut bytes = vec![0; record.counters[buffer.bytes] as usize];
        self.mapping.read_at(self.header.regions[buffer.region].offset as usize, &mut bytes)?;
        let mut names = Vec::new();
        let mut rest = &bytes[..];

        // Reads no more names than there are positions, because each is compared with all before it.
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
            "the names of positions: expected {expected} different ones in {} bytes, got {got} and {} bytes that are \
             none; restore the file, or let `arrowwood check --repair` keep what is good",
            bytes.len(),
            rest.len()
        );

        Err(Error::invalid(message).at(self.path()))
    }

    /// Returns the number of used bytes of the file, for display. An invalid record uses none.
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

/// The number of bytes to read at once. Two pages: a schema of a few columns, and the header after it.
const READ_AHEAD: usize = 2 * PAGE as usize;

impl ReadAhead<'_> {
    fn new(mapping: &Mapping) -> Result<ReadAhead<'_>> {
        let mut bytes = vec![0; READ_AHEAD.min(mapping.len())];
        mapping.read_at(0, &mut bytes)?;
        Ok(ReadAhead { mapping, bytes })
    }

    fn read_at(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        match self.bytes.get(offset..).and_then(|rest| rest.get(..into.len())) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => self.mapping.read_at(offset, into)?,
        }
        Ok(())
    }
}

/// The most recently read schema, and its plan: the segments of a table, and the tables of many partitions, have the
/// same.
static LAST_PLAN: Mutex<Option<(Vec<u8>, Arc<Plan>)>> = Mutex::new(None);

/// The maximum size in bytes of a cached schema.
const MAX_CACHED: usize = 64 << 10;

/// Returns the plan for the segments of a schema, from the cache if possible.
fn plan_for_schema(schema: &[u8], zones: &[ZoneMap]) -> Result<Arc<Plan>> {
    // A forked child may inherit a locked mutex. It is not waited for, and the schema is read again.
    if let Ok(last) = LAST_PLAN.try_lock()
        && let Some((last_schema, plan)) = last.as_ref()
        && last_schema == schema
        && plan.supports_zones(zones)
    {
        return Ok(plan.clone());
    }
    let plan = Plan::new(IpcSchema::parse_message(schema)?)?.with_zones(zones);
    let plan = Arc::new(plan.map_err(|problem| Error::invalid(invalid_header(&problem)))?);
    if schema.len() <= MAX_CACHED
        && let Ok(mut last) = LAST_PLAN.try_lock()
    {
        *last = Some((schema.to_vec(), plan.clone()));
    }
    Ok(plan)
}

/// Reads the Schema message's metadata, and returns it with the offset of the header; `None` if no header of a segment
/// follows the schema.
pub(in crate::table) fn read_front(mapping: &Mapping) -> Result<Option<(Vec<u8>, usize)>> {
    let probe = probe_segment(mapping.len(), |offset, into| Ok(mapping.read_at(offset, into)?))?;
    let Some(SegmentProbe { schema: range, header }) = probe else { return Ok(None) };
    let mut schema = vec![0; range.len()];
    mapping.read_at(range.start, &mut schema)?;
    Ok(Some((schema, header)))
}
