//! A segment for its writer: its size, and its committed part.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::live_file::{DurableState, LiveFile, LogState, SyncTarget};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{SegmentProbe, empty_metadata, probe_segment, schema_metadata};
use crate::map::{FileSystem, SharedFile, SharedWords, boot_id};
use crate::rows::{ALIGNMENT, FillState, Plan, Region, RowSink, ZONE, ZoneMap, read_rows};
use crate::table::format::{
    CommitState, HEADER, Header, MINOR, NO_BOOT, OWN_FILE, PAGE, Proof, RECORD, Record, SEQUENCE, TAIL, TableSettings,
    UNSYNCED, WRITER, check_sequence, record_len,
};
use crate::table::placement;
use crate::table::protocol::log::LogEntry;
use crate::table::protocol::proof::Checksums;
use crate::table::protocol::{FooterRing, FooterSizes, publish, ring_size};
use crate::table::reader::{Segment, UnsyncedMarker, check_boot_id};
use crate::table::zones;

/// Pieces of at least this many bytes are written by pwrite(2) at once; space for smaller ones is prepared for stores.
const LARGE: usize = 1 << 10;
/// The space prepared for stores at once: initially, and at most. A table of a few rows is small.
const STEPS: (u64, u64) = (PAGE, 1 << 20);
/// Bytes reserved at a time for large pieces: initial and maximum. The kernel writes twice as fast into blocks that are
/// already reserved.
const RESERVES: (u64, u64) = (64 << 10, 16 << 20);
/// The factor by which each such step is larger than the previous one: a growing table soon takes the largest.
const FASTER: u64 = 4;

/// The maximum size of the schema that a segment's footers share, in bytes.
const MOST_SCHEMA: usize = 16 << 20;

/// The size of the log in bytes: some hundred small commits.
const LOG: u64 = 512 << 10;

/// A commit after which rows may follow; and the last one of a segment.
pub(in crate::table) const OPEN: CommitState = CommitState { sealed: false, provisional: false, goes_on: false };
pub(in crate::table) const SEALED: CommitState = CommitState { sealed: true, provisional: false, goes_on: false };

/// A growing segment.
#[derive(Debug)]
pub(in crate::table) struct LiveSegment {
    pub shared: Arc<LiveFile>,
    pub now: FillState,
    pub committed: FillState,
    /// The value of each position, in the order of their names.
    pub positions: Vec<i64>,
    pub sequence: u64,
    /// The part of each region prepared for stores through the mapping.
    ready: Vec<PreparedRange>,
    /// The end of the part of each region reserved for large pieces, and the next step.
    reserved: Vec<(u64, u64)>,
    /// The checksums of what was committed since `base`, and the mount, for the proof of the next commit.
    sums: Checksums,
    base: u64,
    mount: u64,
    /// Kept to save allocations.
    scratch: Vec<u8>,
    record: Vec<u8>,
}

/// A part of a region that is prepared for stores: from a byte up to another.
#[derive(Clone, Copy, Debug)]
struct PreparedRange {
    from: u64,
    to: u64,
    /// The bytes to prepare next.
    step: u64,
    /// Where the region begins in the file.
    start: u64,
}

/// The parameters of a new segment.
#[derive(Clone, Debug)]
pub(in crate::table) struct SegmentShape {
    pub first_row: u64,
    pub limits: Vec<u64>,
    pub settings: TableSettings,
}

/// The plan with the zones of one segment.
fn plan_with(plan: &Arc<Plan>, zones: &[ZoneMap]) -> Result<Arc<Plan>> {
    if plan.supports_zones(zones) {
        return Ok(plan.clone());
    }
    Plan::for_schema(&plan.schema.schema)?.with_zones(zones).map(Arc::new).map_err(Error::invalid_argument)
}

impl LiveSegment {
    /// Creates a segment without rows, and syncs it. Only its name is missing: a name on an incomplete file would be
    /// worse than none.
    pub fn create(
        medium: &FileSystem,
        folder: &Path,
        plan: &Arc<Plan>,
        shape: SegmentShape,
        provisional: bool,
    ) -> Result<LiveSegment> {
        check_boot_id()?;
        let plan = &plan_with(plan, &shape.settings.zones(shape.limits[0]))?;
        let sizes =
            FooterSizes::shared(plan).ok_or_else(|| Error::internal("a footer of a schema that has no size"))?;
        let (front, header) = lay_out(plan, shape, &sizes)?;
        let made = SharedFile::create(medium, folder, header.file_len()).and_then(|store| {
            // Written, not only reserved: the pages of the first stores through the mapping are then already in memory.
            let mut front = front;
            front.resize(header.log_start() as usize, 0);
            store.write(0, &front)?;
            let mut schema = sizes.schema.clone();
            schema.resize((header.tail + 4 - header.shared_at()) as usize, 0);
            store.write(header.shared_at(), &schema)?;
            store.write(header.tail + 4, TAIL)?;
            let footer = FooterRing::create(sizes, &header, &store)?;
            Ok((store, footer))
        });
        let (store, footer) = made.map_err(|e| Error::io("creating a segment", &e))?;
        watch(&store, &header)?;
        let footer = Mutex::new(footer);
        let log = LogState { is_open: true, ..LogState::default() };
        let durable = Mutex::new(DurableState { log, ..DurableState::default() });
        let growing = LiveSegment::new(LiveFile::new(store, header, plan, footer, durable));
        let mut growing = growing.map_err(|e| Error::io("creating a segment", &e).at(folder))?;
        growing.now.counters = vec![0; plan.counters];
        growing.committed = growing.now.clone();
        growing.make_visible(CommitState { sealed: false, provisional, goes_on: false })?;
        growing.shared.publish()?;
        growing.note_writer().map_err(|e| Error::io("creating a segment", &e).at(folder))?;
        growing.shared.store.check_stored()?;
        growing.shared.store.sync().map_err(|e| Error::io("creating a segment", &e).at(folder))?;
        Ok(growing)
    }

    /// Opens the segment to continue from its newest commit. Restores bytes that a system crash has left only in its
    /// log, and the footer for other Arrow readers that one has lost.
    pub fn open(medium: &FileSystem, plan: &Arc<Plan>, segment: &Segment, record: &Record) -> Result<LiveSegment> {
        LiveSegment::open_at(medium, plan, (segment, record), false)
    }

    /// As [`LiveSegment::open`], to append. Visible records that don't count never will: neither that of a commit which a killed
    /// writer did not finish, nor those of commits whose rows are lost.
    pub fn resume(medium: &FileSystem, plan: &Arc<Plan>, segment: &Segment, record: &Record) -> Result<LiveSegment> {
        LiveSegment::open_at(medium, plan, (segment, record), true)
    }

    fn open_at(
        medium: &FileSystem,
        plan: &Arc<Plan>,
        (segment, record): (&Segment, &Record),
        is_resumed: bool,
    ) -> Result<LiveSegment> {
        let failed = opening_failed;
        let path = segment.path();
        let header = segment.header.clone();
        let plan = &plan_with(plan, &header.zones)?;
        let store = SharedFile::open(medium, path).map_err(failed)?;
        if !store.is_mapped_by(&segment.mapping).map_err(|e| failed(e).at(path))? {
            let message = "another file has taken the segment's name since it was read; open the table anew";
            return Err(Error::new(ErrorKind::FileChanged, message).at(path));
        }
        watch(&store, &header).map_err(|e| e.at(path))?;
        let sizes = FooterSizes::for_header(&header, plan);
        let sizes = sizes.ok_or_else(|| Error::internal("a footer of a schema that has no size"))?;
        if !sizes.fit(&header) {
            return Err(Error::invalid("the segment's slots are too small for its schema").at(path));
        }
        // A copied file may have new holes, and a store into a hole raises a signal if the disk is full.
        store.fill_holes(0, header.log_start()).map_err(failed)?;
        store.fill_holes(header.shared_at(), header.file_len() - header.shared_at()).map_err(failed)?;
        let footer = Mutex::new(FooterRing::reopen(sizes, &header, &store).map_err(failed)?);
        // What is stored to, and not written, and has its space: last, to leave none that is needed to what has not.
        store.populate(header.live, header.durable(0) - header.live).map_err(failed)?;
        store.populate(header.tail, 4).map_err(failed)?;
        go_back_to(&store, (segment, record), is_resumed)?;
        let durable = last_durable(segment, record)?;
        let mut sequence = store.load64(header.live + SEQUENCE).max(record.sequence);
        if durable.sequence > sequence + 1 {
            // No durable commit has a larger number than a later visible one, whose record is not written over the newest.
            sequence = durable.sequence + (durable.sequence ^ sequence) % 2;
        }
        check_sequence(sequence.max(durable.sequence)).map_err(|e| e.at(path))?;
        let durable = after_note(&store, plan, (segment, record), durable)?;
        let base = Some(durable.record.clone()).filter(|base| !base.counters.is_empty() && is_within(base, record));
        let growing = LiveSegment::new(LiveFile::new(store, header, plan, footer, Mutex::new(durable)));
        let mut growing = growing.map_err(|e| failed(e).at(path))?;
        if let Some(base) = base {
            growing.shared.base.set(&base);
        }
        growing.now.counters = record.counters.clone();
        growing.positions = record.positions.clone();
        growing.sequence = sequence;
        growing.read_tails()?;
        growing.committed = growing.now.clone();
        growing.follow_base();
        growing.note_writer().map_err(|e| failed(e).at(path))?;
        if segment.may_lack_bytes(record) && !growing.shared.is_published(&record.counters)? {
            growing.shared.publish_ahead(&record.counters, growing.sequence)?;
        }
        Ok(growing)
    }

    /// Makes `record`, the commit that counts, the newest visible one, where `seen` is another: the newest visible record is
    /// torn, or of another boot.
    pub fn show_instead(&mut self, seen: Option<Record>, record: &Record) -> Result<()> {
        let is_same = |seen: &Record| {
            seen.boot == boot_id() && seen.counters == record.counters && seen.positions == record.positions
        };
        if seen.as_ref().is_some_and(is_same) { Ok(()) } else { self.make_visible(record.state()) }
    }

    fn new(shared: LiveFile) -> io::Result<LiveSegment> {
        let unready = |region: &Region| PreparedRange { from: 0, to: 0, step: STEPS.0, start: region.offset };
        let ready = shared.header.regions.iter().map(unready).collect();
        let reserved = vec![(0, RESERVES.0); shared.plan.regions];
        let mark = FillState { counters: Vec::new(), tails: vec![0; shared.plan.regions] };
        let now = mark.clone();
        let committed = mark;
        let scratch = Vec::new();
        let mut record = Vec::new();
        let counters = vec![0; shared.plan.counters];
        Record { boot: boot_id(), counters, ..Record::default() }.encode(&mut record);
        let positions = Vec::new();
        let sums = Checksums::since(&shared.plan, &shared.header, &vec![0; shared.plan.counters]);
        let mount = shared.store.mount()?;
        let (sequence, base) = (0, 0);
        let shared = Arc::new(shared);
        Ok(LiveSegment {
            shared,
            now,
            committed,
            positions,
            sequence,
            ready,
            reserved,
            sums,
            base,
            mount,
            scratch,
            record,
        })
    }

    /// Lets the checksums of what is committed begin where the newest durable record ends; the next commit takes in what is
    /// there by then.
    #[cold]
    pub fn follow_base(&mut self) {
        let base = self.shared.base.get();
        let zeros = vec![0; self.shared.plan.counters];
        let from = if base.counters.is_empty() { &zeros } else { &base.counters };
        (self.sums, self.base) = (Checksums::since(&self.shared.plan, &self.shared.header, from), base.sequence);
    }

    #[inline]
    fn is_base_newest(&self) -> bool {
        self.shared.base.sequence() == self.base
    }

    fn note_writer(&self) -> io::Result<()> {
        let LiveFile { store, header, .. } = &*self.shared;
        store.publish32(header.live + WRITER, std::process::id());
        let word = store.file_fingerprint()?;
        if store.load64(header.live + OWN_FILE) != word {
            store.publish64(header.live + OWN_FILE, word);
        }
        Ok(())
    }

    /// The last bytes of the bitmaps in the file.
    fn read_tails(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        for used in shared.plan.extents(&self.now.counters)? {
            // Other regions have no last bits.
            let bits = used.bits.unwrap_or(0);
            let mut last = [0];
            if !bits.is_multiple_of(8) {
                let at = shared.header.regions[used.region].offset + bits / 8;
                shared.store.read(at, &mut last).map_err(opening_failed)?;
            }
            self.now.tails[used.region] = last[0] & !(0xff << (bits % 8));
        }
        Ok(())
    }

    pub fn rows(&self) -> u64 {
        self.now.counters[0]
    }

    pub fn first_row(&self) -> u64 {
        self.shared.header.first_row
    }

    /// The row number after the last one here, in the whole table.
    pub fn end(&self) -> u64 {
        self.first_row() + self.rows()
    }

    pub fn limits(&self) -> &[u64] {
        &self.shared.header.limits
    }

    fn put_slow(&mut self, region: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
        let shared = &self.shared;
        let place = shared.header.regions[region];
        if bytes.len() as u64 > place.capacity.saturating_sub(at) {
            return Err(io::Error::other("a buffer has no room for its rows"));
        }
        if bytes.len() >= LARGE {
            let end = at + bytes.len() as u64;
            let (reserved, step) = &mut self.reserved[region];
            if end > *reserved {
                let ahead = (*step).max(bytes.len() as u64);
                let to = (end + ahead).min(place.capacity.next_multiple_of(PAGE)).max(end);
                let from = at.max(*reserved);
                // If that much can't be reserved, the write itself shows whether there is room.
                let _ = shared.store.reserve(place.offset + from, to - from);
                (*reserved, *step) = (to, (FASTER * *step).min(RESERVES.1));
            }
            shared.store.write(place.offset + at, bytes)?;
            self.sums.note_written(region, place.offset + at, bytes);
            // Nothing is stored there, unless `put_slow` notes it.
            let ready = &mut self.ready[region];
            ready.from = ready.from.max(end);
            return Ok(());
        }
        let PreparedRange { step, .. } = self.ready[region];
        let kept = self.sums.forget_written(region, place.offset + at).saturating_sub(place.offset);
        let from = (at - at % PAGE).max(kept);
        let to = (from + step).min(place.capacity.next_multiple_of(PAGE)).max(at + bytes.len() as u64);
        // The byte at the start of a page may be the last of a bitmap, with committed bits in it.
        let partial = u64::from(self.committed.tails[region] != 0);
        let fresh = place.offset + (at + partial).next_multiple_of(PAGE);
        if !shared.store.prepare(place.offset + from, to - from, fresh)? {
            return shared.store.write(place.offset + at, bytes);
        }
        self.ready[region] = PreparedRange { from, to, step: (FASTER * step).min(STEPS.1), start: place.offset };
        shared.store.put(place.offset + at, bytes);
        Ok(())
    }

    /// Publishes the written rows. Readers in other processes see them as soon as this returns.
    ///
    /// # Errors
    /// Those of reading rows back; nothing was published then.
    #[inline]
    pub fn make_visible(&mut self, state: CommitState) -> Result<()> {
        if !self.is_base_newest() {
            self.follow_base();
        }
        self.show_proven(state)?;
        if self.is_base_newest() {
            return Ok(());
        }
        // The durable record that this commit is proven since may be written over before the next commit.
        self.follow_base();
        self.show_proven(state)
    }

    #[inline]
    fn show_proven(&mut self, state: CommitState) -> Result<()> {
        let (counters, limits) = (&self.now.counters, self.limits());
        debug_assert_eq!(self.shared.plan.check_counters(counters, limits), Ok(()), "readers refuse other counters");
        let word = self.sums.advance(&self.now.counters, &self.shared.store)?;
        self.sequence += 1;
        self.renew_record(self.sequence, state, word);
        publish::commit(&self.shared.store, self.shared.header.page(), self.sequence, &self.record);
        self.shared.store.check_stored()?;
        self.committed.counters.copy_from_slice(&self.now.counters);
        self.committed.tails.copy_from_slice(&self.now.tails);
        Ok(())
    }

    /// Writes the record of the commit that will seal the segment, for the next writer to publish if this one is killed
    /// before it does.
    ///
    /// # Errors
    /// Those of reading rows back; nothing was written then.
    pub fn prepare(&mut self, state: CommitState) -> Result<()> {
        // The rows may still be rolled back.
        let word = self.sums.clone().advance(&self.now.counters, &self.shared.store)?;
        self.renew_record(self.sequence + 1, state, word);
        publish::prepare(&self.shared.store, self.shared.header.page(), self.sequence + 1, &self.record);
        Ok(())
    }

    /// Undoes [`LiveSegment::prepare`].
    pub fn forget_prepared(&self) {
        SharedWords::store_words(&self.shared.store, self.shared.header.page().record(self.sequence + 1), &[0; 8]);
    }

    #[inline]
    fn renew_record(&mut self, sequence: u64, state: CommitState, word: u32) {
        let len = record_len(self.now.counters.len(), self.positions.len());
        if self.record.len() != len {
            self.record.resize(len, 0);
            self.record[44..48].copy_from_slice(&(self.positions.len() as u32).to_le_bytes());
        }
        let proof = Proof { word, base: self.base, mount: self.mount };
        Record::renew(&mut self.record, (sequence, state, proof), &self.now.counters, &self.positions);
    }

    /// Appends the names of positions.
    pub fn put_names(&mut self, names: &[String]) -> Result<()> {
        let place = self.shared.plan.names;
        for name in names {
            let len = u8::try_from(name.len()).map_err(|_| Error::internal("the name of a position is too long"))?;
            let bytes = [&[len], name.as_bytes()].concat();
            self.put(place.region, self.now.counters[place.bytes], &bytes)?;
            self.now.counters[place.bytes] += bytes.len() as u64;
        }
        Ok(())
    }

    /// The number of entries of each dictionary in the segment.
    pub fn entry_counts(&self) -> Vec<usize> {
        let dictionaries = self.shared.plan.dictionaries.iter();
        dictionaries.map(|dictionary| self.now.counters[dictionary.entries] as usize).collect()
    }

    /// As [`LiveSegment::commit_initial`], with positions.
    pub fn commit_initial_with(&mut self, names: &[String], positions: Vec<i64>) -> Result<()> {
        self.put_names(names)?;
        self.positions = positions;
        self.commit_initial(false)
    }

    /// Commits the positions and entries of a segment without rows. Unless `provisional`, makes them durable too: the
    /// segment is about to be named, and those of the previous segment would no longer be valid.
    pub fn commit_initial(&mut self, provisional: bool) -> Result<()> {
        debug_assert_eq!(self.rows(), 0, "a segment begins without rows");
        if self.now.counters.iter().all(|&count| count == 0) && self.positions.is_empty() {
            return Ok(());
        }
        self.make_visible(CommitState { sealed: false, provisional, goes_on: false })?;
        if provisional {
            return Ok(());
        }
        let record = self.shared.visible()?;
        self.shared.make_durable(&record, SyncTarget::Columns)
    }

    /// Whether the next row completes a block of some column's zones.
    #[inline]
    pub fn completes_block(&self) -> bool {
        self.shared.plan.zones.iter().any(|map| (self.rows() + 1).is_multiple_of(map.rows))
    }

    /// Writes the zones of the blocks completed by rows from `before` on.
    pub fn put_zones(&mut self, before: u64) -> Result<()> {
        let shared = self.shared.clone();
        let read = &mut |region: usize, at: u64, into: &mut [u8]| {
            let read = shared.store.read(shared.header.regions[region].offset + at, into);
            read.map_err(|e| Error::io("reading rows back", &e))
        };
        for map in &shared.plan.zones {
            for block in before / map.rows..self.rows() / map.rows {
                let rows = read_rows(&shared.plan, map.column, (block * map.rows, (block + 1) * map.rows), read)?;
                let zone = zones::encode(&zones::zone_of(&rows)?)?;
                self.put(map.region, block * ZONE, &zone)?;
            }
        }
        Ok(())
    }

    /// Discards uncommitted rows.
    pub fn rollback(&mut self) {
        self.now.clone_from(&self.committed);
    }

    /// Releases blocks that were prepared and not used.
    pub fn trim(&self) -> Result<()> {
        let header = &self.shared.header;
        for used in self.shared.plan.extents(&self.now.counters)? {
            let region = header.regions[used.region];
            let end = (region.offset + region.capacity).next_multiple_of(ALIGNMENT);
            let released = self.shared.release(region.offset + used.bytes, end);
            released.map_err(|e| Error::io("giving back blocks that were reserved", &e))?;
        }
        Ok(())
    }
}

impl RowSink for LiveSegment {
    fn plan(&self) -> &Arc<Plan> {
        &self.shared.plan
    }

    #[inline]
    fn fill_state(&mut self) -> &mut FillState {
        &mut self.now
    }

    fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    #[inline]
    fn put(&mut self, region: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let PreparedRange { from, to, start, .. } = self.ready[region];
        if at >= from && at + bytes.len() as u64 <= to && bytes.len() < 16 * LARGE {
            self.shared.store.put(start + at, bytes);
            return Ok(());
        }
        self.put_slow(region, at, bytes).map_err(|e| Error::io("writing rows", &e))
    }
}

fn opening_failed(e: io::Error) -> Error {
    Error::io("opening the segment to go on writing", &e)
}

/// Makes the store detect other processes that write to its file.
fn watch(store: &SharedFile, header: &Header) -> Result<()> {
    let read = |at: usize, into: &mut [u8]| {
        store.read(at as u64, into).map_err(|e| Error::io("reading the front of a segment", &e))
    };
    if let Some(SegmentProbe { header: start, .. }) = probe_segment(header.file_len() as usize, read)? {
        let mut fixed = [0; HEADER];
        read(start, &mut fixed)?;
        store.set_fixed_bytes(header.marks(start as u64, &fixed));
    }
    Ok(())
}

/// The durable state of a segment whose dead writer may have left a note of what it was syncing.
fn after_note(
    store: &SharedFile,
    plan: &Plan,
    (segment, record): (&Segment, &Record),
    mut durable: DurableState,
) -> Result<DurableState> {
    let (header, failed) = (&segment.header, opening_failed);
    if record.boot == NO_BOOT {
        // A note of this boot in a page cache that is gone: what is there now was read from the disk.
        store.publish64(header.live + UNSYNCED, 0);
    }
    if let Some(unsynced) = UnsyncedMarker::from_word(store.load64(header.live + UNSYNCED)) {
        write_again(store, header, plan, &record.counters)?;
        if let Some(number) = unsynced.record {
            let noted = segment.durable(number)?.filter(|found| !segment.is_same() && is_within(found, record));
            if let Some(noted) = noted
                && segment.has_delta_of(&noted)?
            {
                // It may be on the disk, and earlier segments may rely on it: a page cache that was lost leaves notes of
                // syncs that ended. It becomes durable as it is.
                let mut bytes = Vec::new();
                noted.encode(&mut bytes);
                store.write(header.durable(number), &bytes).map_err(failed)?;
                store.sync().map_err(failed)?;
                store.publish64(header.live + UNSYNCED, 0);
            } else {
                // Overwrite the record that may not be on the disk; the other one is.
                let other = segment.durable(number + 1)?.filter(|found| is_within(found, record));
                let newest = other.unwrap_or_default();
                durable =
                    DurableState { number: number + 1, sequence: durable.sequence, newest, ..DurableState::default() };
            }
        }
    }
    Ok(durable)
}

/// Erases the records that don't count beside `record`, those of visible commits only where rows are to be appended, and puts
/// the bytes of the log in place that belong to it.
fn go_back_to(store: &SharedFile, (segment, record): (&Segment, &Record), is_resumed: bool) -> Result<()> {
    let header = &segment.header;
    if let Some(number) = segment.abandoned_record(record)? {
        // Otherwise it would become valid again if equal rows were appended.
        store.write(header.durable(number), &vec![0; header.record as usize]).map_err(opening_failed)?;
        store.sync().map_err(opening_failed)?;
    }
    // First: with the bytes of the log, the proof of rows that are lost may hold again.
    for place in others_of(store, (segment, record), is_resumed)? {
        // With its checksum: the next record may begin with the same number.
        SharedWords::store_words(store, place, &[0; RECORD]);
        // If a page cache is lost later, the disk may have the record that is written next as it was before.
        store.sync().map_err(opening_failed)?;
    }
    for (piece, bytes) in segment.replayed.iter().flat_map(|left| &left.entries).flat_map(LogEntry::parts) {
        store.write(header.regions[piece.region].offset + piece.at, bytes).map_err(opening_failed)?;
    }
    Ok(())
}

/// The places of the visible records to erase beside that of `record`, the commit that counts, in the order in which they are:
/// those that are torn, and, where rows are to be appended, those of commits that never count.
fn others_of(store: &SharedFile, (segment, record): (&Segment, &Record), is_resumed: bool) -> Result<Vec<u64>> {
    let places = [0, 1].map(|number| segment.header.page().record(number));
    let mut others = Vec::new();
    for (place, other) in places.into_iter().zip(segment.records_at(places)?) {
        match other {
            // Of another boot, none counts whatever its rows are.
            Some(other) if other.boot == boot_id() => {
                let is_over = record.boot == NO_BOOT || other.sequence > record.sequence;
                others.extend((is_resumed && is_over).then_some((other.sequence, place)));
            }
            Some(_) => (),
            None => {
                // The number of one record and the rest of another, which the number of the next record may make whole.
                let mut start = [0; RECORD];
                store.read(place, &mut start).map_err(opening_failed)?;
                others.extend((start != [0; RECORD]).then_some((0, place)));
            }
        }
    }
    // The newer one tells that the older one does not count.
    others.sort_unstable();
    Ok(others.into_iter().map(|(_, place)| place).collect())
}

/// Whether a durable record has no more than `record`.
fn is_within(found: &Record, record: &Record) -> bool {
    found.counters.iter().zip(&record.counters).all(|(a, b)| a <= b)
}

/// Returns the durable state of a segment whose newest commit is `record`. Its log stays closed until a durable record
/// covers all entries.
fn last_durable(segment: &Segment, record: &Record) -> Result<DurableState> {
    let base = match &segment.replayed {
        // The other one was torn, though the log may continue after it.
        Some(left) => left.base.clone(),
        None => segment.durable_records()?.into_iter().find(|found| is_within(found, record)),
    };
    let logged = segment.log_entries()?.into_iter().map(|entry| entry.record.sequence).max();
    // Without a durable record and a log, numbers begin at 0.
    let Some(base) = base else { return Ok(DurableState { sequence: logged.unwrap_or(0), ..DurableState::default() }) };
    let there = segment.both_durable()?;
    let is_base = |found: &Option<Record>| found.as_ref().is_some_and(|found| found.sequence == base.sequence);
    let number = there.iter().position(is_base).map(|number| number as u64);
    let sequence = logged.map_or(base.sequence, |logged| logged.max(base.sequence));
    let number = number.ok_or_else(|| Error::internal("a durable record has gone").at(segment.path()))?;
    Ok(DurableState { number, newest: base.clone(), record: base, sequence, ..DurableState::default() })
}

/// Rewrites the existing rows in place: after a failed sync the system would not write them again, and if a process was
/// killed during a sync, it is unknown whether it failed.
fn write_again(store: &SharedFile, header: &Header, plan: &Plan, counters: &[u64]) -> Result<()> {
    let mut chunk = vec![0; 1 << 16];
    for used in plan.extents(counters)? {
        for at in (0..used.bytes).step_by(chunk.len()) {
            let part = &mut chunk[..(used.bytes - at).min(1 << 16) as usize];
            let at = header.regions[used.region].offset + at;
            store.read(at, part).and_then(|()| store.write(at, part)).map_err(opening_failed)?;
        }
    }
    Ok(())
}

/// The bytes before the header.
pub(in crate::table) fn encode_front(plan: &Plan) -> Vec<u8> {
    let mut front = b"ARROW1\0\0".to_vec();
    for metadata in [schema_metadata(&plan.schema.schema), empty_metadata()] {
        let len = (8 + metadata.len()).next_multiple_of(8);
        front.extend(u32::MAX.to_le_bytes());
        front.extend((len as u32 - 8).to_le_bytes());
        front.extend(&metadata);
        front.resize(front.len().next_multiple_of(8), 0);
    }
    front.resize(front.len().next_multiple_of(PAGE as usize), 0);
    front
}

/// The front of the file up to the end of its header, and the header.
fn lay_out(plan: &Plan, shape: SegmentShape, sizes: &FooterSizes) -> Result<(Vec<u8>, Header)> {
    if sizes.schema.len() > MOST_SCHEMA {
        let len = sizes.schema.len();
        return Err(Error::unsupported(format!(
            "creating a segment: its schema: expected {MOST_SCHEMA} bytes at most, got {len}; give it fewer columns, or less \
             metadata"
        )));
    }
    let mut front = encode_front(plan);
    let (footers, slot) = ring_size(sizes);
    let shared = (sizes.schema.len() as u64).div_ceil(sizes.footer);
    let slots = u32::try_from(footers + shared).map_err(|_| Error::internal("footers that can't be counted"))?;
    let chosen = Header {
        first_row: shape.first_row,
        capacity: shape.limits[0],
        minor: MINOR,
        slot,
        slots,
        footer: sizes.footer,
        shared,
        zones: shape.settings.zones(shape.limits[0]),
        sorted_by: shape.settings.sorted_by,
        is_late: shape.settings.is_late,
        segment_rows: shape.settings.segment_rows,
        log: LOG,
        limits: shape.limits,
        ..Header::default()
    };
    let len = Header::encoded_len(MINOR, plan.regions, plan.counters, plan.zones.len());
    let placed = placement::place(&chosen, front.len(), len, plan);
    let header = placed.ok_or_else(|| Error::invalid_argument("a segment of that many rows has no room in a file"))?;
    // Readers refuse a header that doesn't pass their checks, and with it the rows.
    let checked = Header::check_len(len, plan.zones.len());
    checked.and_then(|()| placement::check(&header, front.len(), len, plan)).map_err(|wrong| {
        Error::unsupported(format!(
            "creating a segment: its header: {wrong}; the schema is too large: give it fewer columns, or less metadata"
        ))
    })?;
    front.extend(header.encode());
    Ok((front, header))
}

#[cfg(test)]
mod tests {
    use arrow_array::{BooleanArray, Int64Array, RecordBatch, StringArray};
    use arrow_schema::{DataType, Field, Schema};
    use proptest::prelude::*;

    use super::*;
    use crate::table::protocol::proof::proof_of;
    use crate::table::reader::{chain, open_segment};

    /// A writer may be killed when other Arrow readers already see the last footer of a full segment and no Arrowwood
    /// reader does. The next writer dropped those rows; other Arrow readers went on seeing them until its first commit.
    #[test]
    fn a_footer_ahead_of_a_commit_that_never_came_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("ticks");
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let column = Arc::new(Int64Array::from(vec![7, 8]));
        let batch = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
        let open = || crate::table::Writer::open(&table, Some(schema.clone()), &Default::default()).unwrap();
        let mut writer = open();
        writer.append(&batch).unwrap();
        writer.close().unwrap();
        let path = chain::path(&table, 0);
        let stock = || {
            let file = std::fs::File::open(&path).unwrap();
            let batches = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
            batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>()
        };
        let segment = open_segment(&path).unwrap().unwrap();
        let record = segment.newest().unwrap();
        let plan = Arc::new(Plan::for_schema(&schema).unwrap());
        let killed = LiveSegment::open(&FileSystem::default(), &plan, &segment, &record).unwrap();
        killed.shared.publish_ahead(&[4], killed.sequence + 1).unwrap();
        assert_eq!(stock(), 4);
        let writer = open();
        assert_eq!((stock(), writer.rows()), (2, 2));
    }

    /// The footer's length has no checksum. A damaged one was taken for the number of a slot, and when that slot's turn
    /// came, a footer was written over rows.
    #[test]
    fn a_damaged_length_of_a_footer_is_no_slot() {
        let folder = tempfile::tempdir().unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let values: Vec<i64> = (0..60_000).collect();
        let column = Arc::new(Int64Array::from(values.clone()));
        let batch = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
        let mut writer = crate::table::Writer::open(folder.path(), Some(schema.clone()), &Default::default()).unwrap();
        writer.append(&batch).unwrap();
        writer.close().unwrap();
        let path = chain::path(folder.path(), 0);
        let plan = Arc::new(Plan::for_schema(&schema).unwrap());
        let open = || {
            let segment = open_segment(&path).unwrap().unwrap();
            let record = segment.newest().unwrap();
            LiveSegment::open(&FileSystem::default(), &plan, &segment, &record).unwrap().shared
        };
        let Header { tail, footer, slots, .. } = open().header.clone();
        let there = |slot: u64| ((slot + 1) * footer) as u32;
        let lengths = [0, 1, there(0) + 1, there(0) - 8, there(slots.into()), there(400), there(1 << 20), u32::MAX];
        for length in lengths {
            open().store.publish32(tail, length);
            let shared = open();
            let published: Vec<u32> = (0..2 * slots)
                .map(|_| {
                    let mut footer = shared.footer();
                    shared.put_footer(&mut footer, &[60_000, 0], 9).unwrap();
                    shared.store.load32(tail)
                })
                .collect();
            let slot = |length: &u32| (0..slots.into()).any(|slot| there(slot) == *length);
            assert!(published.iter().all(slot), "{length}: {published:?}");
            let mut bytes = vec![0; 8 * values.len()];
            let values_at = shared.header.regions[1].offset;
            shared.store.read(values_at, &mut bytes).unwrap();
            assert!(bytes.iter().eq(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>().iter()));
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Append(usize),
        Rollback,
        Commit,
        Sync,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let append =
            prop_oneof![1usize..3, 1usize..40, 1usize..4000, 1usize..40_000, (1usize..4000).prop_map(|n| 8 * n)];
        prop_oneof![
            6 => append.prop_map(Step::Append),
            1 => Just(Step::Rollback),
            4 => Just(Step::Commit),
            1 => Just(Step::Sync),
        ]
    }

    fn rows_of_step(schema: &Arc<Schema>, rows: usize, step: usize) -> RecordBatch {
        let numbers: Int64Array = (0..rows).map(|row| (row % 11 > 0).then_some((row * step) as i64)).collect();
        let flags: BooleanArray =
            (0..rows).map(|row| (row % 7 > 0).then_some((row + step).is_multiple_of(3))).collect();
        let texts = StringArray::from_iter_values((0..rows).map(|row| &"a text"[..(row + step) % 7]));
        RecordBatch::try_new(schema.clone(), vec![Arc::new(numbers), Arc::new(flags), Arc::new(texts)]).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Rows are appended in pieces of all sizes, taken back, and appended anew: the proof is that of the bytes in the file.
        #[test]
        fn a_proof_is_that_of_the_bytes_in_the_file(steps in proptest::collection::vec(any_step(), 1..60)) {
            let schema = Arc::new(Schema::new(vec![
                Field::new("n", DataType::Int64, true),
                Field::new("is", DataType::Boolean, true),
                Field::new("text", DataType::Utf8, false),
            ]));
            let folder = tempfile::tempdir().unwrap();
            let options = crate::table::WriterOptions { sync: crate::table::SyncPolicy::Never, ..Default::default() };
            let mut writer = crate::table::Writer::open(folder.path(), Some(schema.clone()), &options).unwrap();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Append(rows) => writer.append(&rows_of_step(&schema, rows, number)).unwrap(),
                    Step::Rollback => writer.rollback(),
                    Step::Commit => writer.commit().unwrap(),
                    Step::Sync => writer.sync().unwrap(),
                }
                let LiveFile { store, header, plan, base, .. } = &*writer.live().shared;
                let record = writer.live().shared.visible().unwrap();
                let (base, proof) = (base.get(), record.proof.unwrap());
                if proof.base == base.sequence {
                    let zeros = vec![0; record.counters.len()];
                    let from = if base.counters.is_empty() { &zeros } else { &base.counters };
                    let naive = proof_of(plan, from, &record.counters, |region, at, into| {
                        store.read(header.regions[region].offset + at, into).unwrap();
                        Ok(())
                    });
                    prop_assert_eq!(naive.unwrap(), proof.word, "{:?}", step);
                }
            }
        }
    }

    /// The background thread may run between the two steps of a rollover. If it published the previous commit, other
    /// Arrow readers would permanently find rows missing before the next segment.
    #[test]
    fn a_footer_ahead_of_its_commit_is_not_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
        let plan = Arc::new(Plan::for_schema(&schema).unwrap());
        let settings = TableSettings { segment_rows: 4, ..Header::default().settings() };
        let shape = SegmentShape { first_row: 0, limits: plan.limits(|_| 4), settings };
        let mut growing = LiveSegment::create(&FileSystem::default(), folder.path(), &plan, shape, false).unwrap();
        let shared = growing.shared.clone();
        let chosen = || shared.store.load32(shared.header.tail);
        growing.now.counters[0] = 1;
        shared.publish_ahead(&growing.now.counters, growing.sequence + 1).unwrap();
        let ahead = chosen();
        shared.publish().unwrap();
        assert_eq!(chosen(), ahead);
        growing.make_visible(SEALED).unwrap();
        shared.publish().unwrap();
        assert_eq!(chosen(), ahead);
    }
}
