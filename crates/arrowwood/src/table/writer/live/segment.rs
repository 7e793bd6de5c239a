//! A segment that its writer fills: its rows, and how many of them are committed.
//!
//! Rows are written to the buffers first, which no reader looks at, and become visible to all readers by one commit.
//! What is committed never changes; what is not can be discarded by [`LiveSegment::rollback`].
//!
//! [`RegionSpace`] allocates the file's blocks, [`LiveFile`] makes commits durable, and [`CommitWriter`] makes them
//! visible.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::commit_writer::CommitWriter;
use super::file::{DurableState, LiveFile, LogState, SyncTarget};
use super::layout::{SegmentLayout, SegmentShape, plan_with_zones};
use super::region_space::{LARGE, RegionSpace, SmallPiece};
use super::resume::{ResumePoint, opening_failed};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{SegmentProbe, probe_segment};
use crate::map::{FileSystem, SharedFile, boot_id};
use crate::rows::{ALIGNMENT, FillState, Plan, RowSink, ZONE, read_rows};
use crate::table::format::{
    CommitState, HEADER, Header, OWN_FILE, Record, SEQUENCE, SYNCED, TAIL, WRITER, check_sequence,
};
use crate::table::protocol::{FooterRing, FooterSizes};
use crate::table::reader::{Segment, check_boot_id};
use crate::table::zones;

/// The state of a commit after which rows may follow.
pub(in crate::table) const OPEN: CommitState = CommitState { sealed: false, provisional: false, goes_on: false };
/// The state of a commit that is valid only once the previous segment is sealed.
pub(in crate::table) const PROVISIONAL: CommitState = CommitState { sealed: false, provisional: true, goes_on: false };
/// The state of the last commit of a segment.
pub(in crate::table) const SEALED: CommitState = CommitState { sealed: true, provisional: false, goes_on: false };

/// A segment that its writer fills.
///
/// `now` is never behind `committed`, and is equal to it after a commit or a rollback. Rows are appended through
/// [`RowSink`]; the caller checks that they are within [`LiveSegment::limits`], and calls [`LiveSegment::put_zones`]
/// for the blocks that they complete before it commits.
#[derive(Debug)]
pub(in crate::table) struct LiveSegment {
    /// What other threads of the process need: to publish footers, and to make commits durable.
    pub shared: Arc<LiveFile>,
    /// How far the buffers are filled, with rows that are not committed yet.
    pub now: FillState,
    /// How far they are filled by the newest commit.
    pub committed: FillState,
    /// The value of each position, in the order of their names.
    pub positions: Vec<i64>,
    space: RegionSpace,
    commits: CommitWriter,
    /// Kept to save allocations.
    scratch: Vec<u8>,
}

impl LiveSegment {
    /// Creates a segment without rows, and syncs it. Its first commit, of no rows, has the given state: [`OPEN`] if the
    /// segment is valid once it gets a name, [`PROVISIONAL`] if it continues a commit of the previous one. Only its
    /// name is missing: a name on an incomplete file would be worse than none.
    pub fn create(
        medium: &FileSystem,
        folder: &Path,
        plan: &Arc<Plan>,
        shape: SegmentShape,
        state: CommitState,
    ) -> Result<LiveSegment> {
        check_boot_id()?;
        let plan = &plan_with_zones(plan, &shape.settings.zones(shape.capacity()))?;
        let sizes =
            FooterSizes::shared(plan).ok_or_else(|| Error::internal("a footer of a schema that has no size"))?;
        let SegmentLayout { front, header } = SegmentLayout::new(plan, shape, &sizes)?;
        let store = create_file(medium, folder, front, &header, &sizes).map_err(creating_failed)?;
        let footer = FooterRing::create(sizes, &header, &store).map_err(creating_failed)?;
        watch(&store, &header)?;
        let log = LogState { is_open: true, ..LogState::default() };
        let durable = DurableState { log, ..DurableState::default() };
        let shared = LiveFile::new(store, header, plan, Mutex::new(footer), Mutex::new(durable));
        let empty = FillState { counters: vec![0; plan.counters], tails: vec![0; plan.regions] };
        let mut live = LiveSegment::new(shared, empty, Vec::new(), 0).map_err(|e| creating_failed(e).at(folder))?;
        live.make_visible(state)?;
        live.shared.publish()?;
        live.note_writer().map_err(|e| creating_failed(e).at(folder))?;
        live.shared.store.check_stored()?;
        // Before its name, which is synced before a commit there is durable.
        live.shared.store.order().map_err(|e| creating_failed(e).at(folder))?;
        Ok(live)
    }

    /// Opens the segment to continue from its newest commit. Restores bytes that a system crash has left only in its
    /// log, and the footer for other Arrow readers that one has lost.
    pub fn open(medium: &FileSystem, plan: &Arc<Plan>, segment: &Segment, record: &Record) -> Result<LiveSegment> {
        LiveSegment::open_at(medium, plan, ResumePoint { segment, record }, false)
    }

    /// Opens the segment as [`LiveSegment::open`] does, to append. Visible records that don't count never will: neither
    /// the commit that a killed writer did not finish, nor commits whose rows are lost.
    pub fn resume(medium: &FileSystem, plan: &Arc<Plan>, segment: &Segment, record: &Record) -> Result<LiveSegment> {
        LiveSegment::open_at(medium, plan, ResumePoint { segment, record }, true)
    }

    /// Opens the segment; for appending if visible records that don't count are to be erased.
    fn open_at(
        medium: &FileSystem,
        plan: &Arc<Plan>,
        point: ResumePoint<'_>,
        to_be_appended: bool,
    ) -> Result<LiveSegment> {
        let ResumePoint { segment, record } = point;
        let path = segment.path();
        let header = segment.header.clone();
        let plan = &plan_with_zones(plan, &header.zones)?;
        if header.limits.len() != plan.counters || header.regions.len() != plan.regions {
            return Err(Error::internal("a segment opened with the schema of another one").at(path));
        }

        let store = SharedFile::open(medium, path).map_err(opening_failed)?;
        if !store.is_mapped_by(&segment.mapping).map_err(|e| opening_failed(e).at(path))? {
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
        store.fill_holes(0, header.log_start()).map_err(opening_failed)?;
        store.fill_holes(header.shared_at(), header.file_len() - header.shared_at()).map_err(opening_failed)?;
        let footer = Mutex::new(FooterRing::reopen(sizes, &header, &store).map_err(opening_failed)?);
        // These bytes are stored to, not written, and have their space. Last, to leave the rest of the space to the
        // others.
        store.populate(header.live, header.durable(0) - header.live).map_err(opening_failed)?;
        store.populate(header.tail, size_of::<u32>() as u64).map_err(opening_failed)?;

        point.discard_other_commits(&store, to_be_appended)?;
        let durable = point.durable_state()?;
        let mut sequence = store.load64(header.live + SEQUENCE).max(record.sequence);
        if durable.sequence > sequence + 1 {
            // No durable commit has a larger number than a later visible one, whose record is not written over the
            // newest.
            let other_parity = (durable.sequence ^ sequence) % 2;
            sequence = durable.sequence + other_parity;
        }
        check_sequence(sequence.max(durable.sequence)).map_err(|e| e.at(path))?;
        let durable = point.resolve_unsynced(&store, plan, durable)?;

        let base = Some(durable.record.clone()).filter(|base| !base.counters.is_empty() && point.covers(base));
        let shared = LiveFile::new(store, header, plan, footer, Mutex::new(durable));
        if let Some(base) = base {
            shared.base.set(&base);
        }
        let filled = FillState { counters: record.counters.clone(), tails: read_tails(&shared, &record.counters)? };
        let live = LiveSegment::new(shared, filled, record.positions.clone(), sequence);
        let mut live = live.map_err(|e| opening_failed(e).at(path))?;
        live.follow_base();
        live.note_writer().map_err(|e| opening_failed(e).at(path))?;
        if segment.may_lack_bytes(record) && !live.shared.is_published(&record.counters)? {
            live.shared.publish_ahead(&record.counters, live.sequence())?;
        }
        Ok(live)
    }

    /// Makes `record`, the commit that counts, the newest visible one, if `seen` is another: the newest visible record
    /// is torn, or of another boot.
    pub fn show_instead(&mut self, seen: Option<Record>, record: &Record) -> Result<()> {
        match seen {
            Some(seen)
                if seen.boot == boot_id() && seen.counters == record.counters && seen.positions == record.positions =>
            {
                Ok(())
            }
            _ => self.make_visible(record.state()),
        }
    }

    /// Creates the writer of a segment whose commit `sequence` has the rows up to `filled`.
    fn new(shared: LiveFile, filled: FillState, positions: Vec<i64>, sequence: u64) -> io::Result<LiveSegment> {
        assert_eq!(filled.counters.len(), shared.plan.counters, "a number for each counter");
        assert_eq!(filled.tails.len(), shared.header.regions.len(), "a byte for each region");
        Ok(LiveSegment {
            space: RegionSpace::new(&shared.header.regions),
            commits: CommitWriter::new(&shared, sequence)?,
            shared: Arc::new(shared),
            now: filled.clone(),
            committed: filled,
            positions,
            scratch: Vec::new(),
        })
    }

    /// Restarts the checksums of commits at the newest durable record.
    pub fn follow_base(&mut self) {
        self.commits.follow_base(&self.shared);
    }

    /// Writes down in the file which process writes it, and which file it is.
    fn note_writer(&self) -> io::Result<()> {
        let LiveFile { store, header, .. } = &*self.shared;
        store.publish32(header.live + WRITER, std::process::id());
        let word = store.file_fingerprint()?;
        if store.load64(header.live + OWN_FILE) != word {
            // What the original had synced may not have reached this file.
            store.publish64(header.live + SYNCED, 0);
            store.publish64(header.live + OWN_FILE, word);
        }
        Ok(())
    }

    /// Returns the number of the newest commit.
    pub fn sequence(&self) -> u64 {
        self.commits.sequence()
    }

    /// Returns the number of rows, with those that are not committed.
    pub fn rows(&self) -> u64 {
        self.now.rows()
    }

    /// Returns the number of the segment's first row in the whole table.
    pub fn first_row(&self) -> u64 {
        self.shared.header.first_row
    }

    /// Returns the number of the row after the last one here, in the whole table.
    pub fn end(&self) -> u64 {
        self.first_row() + self.rows()
    }

    /// Returns the number of the row after the last committed one, in the whole table.
    pub fn committed_end(&self) -> u64 {
        self.first_row() + self.committed.rows()
    }

    /// Returns the maximum number of rows.
    pub fn capacity(&self) -> u64 {
        self.shared.header.capacity
    }

    /// Returns the maximum of each counter.
    pub fn limits(&self) -> &[u64] {
        &self.shared.header.limits
    }

    /// Writes a piece that is large, or that no space is prepared for.
    fn put_slow(&mut self, number: usize, start: u64, bytes: &[u8]) -> io::Result<()> {
        let LiveFile { store, header, .. } = &*self.shared;
        let region = header.regions[number];
        let len = bytes.len() as u64;
        let end = start + len;
        if end > region.capacity {
            return Err(io::Error::other("a buffer has no room for its rows"));
        }
        let offset = region.offset + start;
        if bytes.len() >= LARGE {
            self.space.reserve(store, number, region, start, len);
            store.write(offset, bytes)?;
            self.commits.checksums().note_written(number, offset, bytes);
            self.space.on_written(number, end);
            return Ok(());
        }
        let written_end = self.commits.checksums().forget_written(number, offset).max(region.offset) - region.offset;
        let shares_byte = self.committed.tails[number] != 0;
        let piece = SmallPiece { start, len, written_end, shares_byte };
        if !self.space.prepare(store, number, region, piece)? {
            return store.write(offset, bytes);
        }
        store.put(offset, bytes);
        Ok(())
    }

    /// Commits the written rows. Readers in other processes see them as soon as this returns.
    ///
    /// # Errors
    /// `Io` if rows can't be read back; nothing is committed then.
    #[inline]
    pub fn make_visible(&mut self, state: CommitState) -> Result<()> {
        if !self.commits.is_base_newest(&self.shared) {
            self.follow_base();
        }
        self.commit(state)?;
        if self.commits.is_base_newest(&self.shared) {
            return Ok(());
        }
        // The durable record that this commit is proven since may be written over before the next commit.
        self.follow_base();
        self.commit(state)
    }

    #[inline]
    fn commit(&mut self, state: CommitState) -> Result<()> {
        assert!(self.now.rows() >= self.committed.rows(), "committed rows stay");
        self.commits.publish(&self.shared, &self.now, &self.positions, state)?;
        self.committed.counters.copy_from_slice(&self.now.counters);
        self.committed.tails.copy_from_slice(&self.now.tails);
        Ok(())
    }

    /// Makes another commit of the committed rows. The others stay uncommitted.
    ///
    /// # Errors
    /// As [`LiveSegment::make_visible`].
    pub fn repeat_commit(&mut self) -> Result<()> {
        let now = std::mem::replace(&mut self.now, self.committed.clone());
        let result = self.make_visible(OPEN);
        self.now = now;
        result
    }

    /// Writes the record of the commit that will seal the segment, for the next writer to publish if this one is killed
    /// before it does.
    ///
    /// # Errors
    /// `Io` if rows can't be read back; nothing was written then.
    pub fn prepare(&mut self, state: CommitState) -> Result<()> {
        self.commits.prepare(&self.shared, &self.now, &self.positions, state)
    }

    /// Undoes [`LiveSegment::prepare`].
    pub fn forget_prepared(&self) {
        self.commits.forget_prepared(&self.shared);
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

    /// Returns the number of entries of each dictionary in the segment.
    pub fn entry_counts(&self) -> Vec<usize> {
        let dictionaries = self.shared.plan.dictionaries.iter();
        dictionaries.map(|dictionary| self.now.counters[dictionary.entries] as usize).collect()
    }

    /// Sets the positions, and commits them as [`LiveSegment::commit_initial`] does.
    pub fn commit_initial_with(&mut self, names: &[String], positions: Vec<i64>) -> Result<()> {
        self.put_names(names)?;
        self.positions = positions;
        self.commit_initial(OPEN)
    }

    /// Commits the positions and entries of a segment without rows, in the state [`OPEN`] or [`PROVISIONAL`]. An open
    /// one is about to be named, and the previous segment's would no longer be valid, so they become durable too.
    pub fn commit_initial(&mut self, state: CommitState) -> Result<()> {
        assert_eq!(self.rows(), 0, "a segment begins without rows");
        if self.now.counters.iter().all(|&count| count == 0) && self.positions.is_empty() {
            return Ok(());
        }
        self.make_visible(state)?;
        if state.provisional {
            return Ok(());
        }
        let record = self.shared.visible()?;
        self.shared.make_durable(&record, SyncTarget::Columns)
    }

    /// Returns true if the next row completes a block of some column's zones.
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
    ///
    /// # Errors
    /// `Io`; the blocks only cost space.
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
        if let Some(offset) = self.space.store_offset(region, at, bytes.len()) {
            self.shared.store.put(offset, bytes);
            return Ok(());
        }
        self.put_slow(region, at, bytes).map_err(|e| Error::io("writing rows", &e))
    }
}

/// Returns the error of a segment that can't be created.
fn creating_failed(e: io::Error) -> Error {
    Error::io("creating a segment", &e)
}

/// Creates the file of a segment without rows, without a name.
fn create_file(
    medium: &FileSystem,
    folder: &Path,
    mut front: Vec<u8>,
    header: &Header,
    sizes: &FooterSizes,
) -> io::Result<SharedFile> {
    let store = SharedFile::create(medium, folder, header.file_len())?;
    // Written, not only reserved: the pages of the first stores through the mapping are then already in memory.
    front.resize(header.log_start() as usize, 0);
    store.write(0, &front)?;
    let mut schema = sizes.schema.clone();
    let length_end = header.tail + size_of::<u32>() as u64;
    schema.resize((length_end - header.shared_at()) as usize, 0);
    store.write(header.shared_at(), &schema)?;
    store.write(length_end, TAIL)?;
    Ok(store)
}

/// Reads the last byte of each bitmap, which the next row may share, from the file; 0 for other regions.
fn read_tails(shared: &LiveFile, counters: &[u64]) -> Result<Vec<u8>> {
    let mut tails = vec![0; shared.header.regions.len()];
    for used in shared.plan.extents(counters)? {
        let Some(bits) = used.bits.filter(|bits| !bits.is_multiple_of(8)) else { continue };
        let mut last = [0];
        let offset = shared.header.regions[used.region].offset + bits / 8;
        shared.store.read(offset, &mut last).map_err(opening_failed)?;
        tails[used.region] = last[0] & !(0xff << (bits % 8));
    }
    Ok(tails)
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

#[cfg(test)]
mod tests {
    use arrow_array::{BooleanArray, Int64Array, RecordBatch, StringArray};
    use arrow_schema::{DataType, Field, Schema};
    use proptest::prelude::*;

    use super::*;
    use crate::table::format::{ROWS, TableSettings};
    use crate::table::protocol::proof::proof_of;
    use crate::table::reader::{chain, open_segment};

    /// A writer may be killed after it has published the last footer of a full segment for other Arrow readers, and
    /// before it commits. The next writer dropped those rows, but other Arrow readers saw them until its first commit.
    #[test]
    fn footers_of_commits_that_never_came_are_withdrawn() {
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
        let count_rows_of_arrow_rs = || {
            let file = std::fs::File::open(&path).unwrap();
            let batches = arrow_ipc::reader::FileReader::try_new(file, None).unwrap();
            batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>()
        };
        let segment = open_segment(&path).unwrap().unwrap();
        let record = segment.newest().unwrap();
        let plan = Arc::new(Plan::for_schema(&schema).unwrap());
        let killed = LiveSegment::open(&FileSystem::default(), &plan, &segment, &record).unwrap();
        killed.shared.publish_ahead(&[4], killed.sequence() + 1).unwrap();
        assert_eq!(count_rows_of_arrow_rs(), 4);
        let writer = open();
        assert_eq!((count_rows_of_arrow_rs(), writer.rows()), (2, 2));
    }

    /// The length of a footer, which determines its slot, has no checksum. A damaged length led to a slot outside of
    /// the ring, and a footer overwrote rows.
    #[test]
    fn damaged_footer_lengths_are_not_slots() {
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
        let length_of = |slot: u64| ((slot + 1) * footer) as u32;
        let lengths = [
            0,
            1,
            length_of(0) + 1,
            length_of(0) - 8,
            length_of(slots.into()),
            length_of(400),
            length_of(1 << 20),
            u32::MAX,
        ];
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
            let is_valid = |length: &u32| (0..slots.into()).any(|slot| length_of(slot) == *length);
            assert!(published.iter().all(is_valid), "{length}: {published:?}");
            let mut bytes = vec![0; 8 * values.len()];
            shared.store.read(shared.header.regions[1].offset, &mut bytes).unwrap();
            assert!(bytes.into_iter().eq(values.iter().flat_map(|value| value.to_le_bytes())));
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

        /// Rows are appended in pieces of all sizes, rolled back and appended again. The proof, which is computed
        /// incrementally, must equal the proof of the bytes in the file.
        #[test]
        fn proofs_equal_the_checksum_of_the_file(steps in proptest::collection::vec(any_step(), 1..60)) {
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
                    let start = if base.counters.is_empty() { &zeros } else { &base.counters };
                    let expected = proof_of(plan, start, &record.counters, |region, position, buffer| {
                        store.read(header.regions[region].offset + position, buffer).unwrap();
                        Ok(())
                    });
                    prop_assert_eq!(expected.unwrap(), proof.word, "{:?}", step);
                }
            }
        }
    }

    /// The background thread may run between the two steps of a rollover. If it published the previous commit, other
    /// Arrow readers would permanently find rows missing before the next segment.
    #[test]
    fn footers_ahead_of_their_commit_stay_published() {
        let folder = tempfile::tempdir().unwrap();
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
        let plan = Arc::new(Plan::for_schema(&schema).unwrap());
        let settings = TableSettings { segment_rows: 4, ..Header::default().settings() };
        let shape = SegmentShape { first_row: 0, limits: plan.limits(|_| 4), settings };
        let mut segment = LiveSegment::create(&FileSystem::default(), folder.path(), &plan, shape, OPEN).unwrap();
        let shared = segment.shared.clone();
        let published_length = || shared.store.load32(shared.header.tail);
        segment.now.counters[ROWS] = 1;
        shared.publish_ahead(&segment.now.counters, segment.sequence() + 1).unwrap();
        let ahead = published_length();
        shared.publish().unwrap();
        assert_eq!(published_length(), ahead);
        segment.make_visible(SEALED).unwrap();
        shared.publish().unwrap();
        assert_eq!(published_length(), ahead);
    }
}
