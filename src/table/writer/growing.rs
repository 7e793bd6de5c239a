//! A segment as its writer holds it: how far it is filled, and what is committed of that.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::ipc::{Front, empty_metadata, front, schema_metadata};
use crate::map::{Look, Medium, Store, boot_id, watched};
use crate::rows::{ALIGNMENT, Mark, Place, Plan};
use crate::table::format::{FAILED_SYNC, HEADER, Header, PAGE, Record, SEQUENCE, SLOTS, TAIL, WRITER, record_len};
use crate::table::placement;
use crate::table::protocol::{PATIENCE, PublishedFooter, Sizes, publish};
use crate::table::reader::{check_record, damaged_record, delta, failed_sync_boot, visible};

/// Pieces from this many bytes on go by pwrite(2) at once; space for smaller ones is made ready for stores.
const LARGE: usize = 1 << 10;
/// How much is made ready for stores at once: at first, and at most.
const STEPS: (u64, u64) = (64 << 10, 1 << 20);
/// How much is reserved at once for large pieces: at first, and at most. The kernel writes twice as fast into blocks that
/// it need not look for one by one.
const RESERVES: (u64, u64) = (1 << 20, 16 << 20);

/// What the writer and the background thread share of a segment.
#[derive(Debug)]
pub(in crate::table) struct Shared {
    pub store: Store,
    pub header: Header,
    pub plan: Arc<Plan>,
    footer: Mutex<PublishedFooter>,
    durable: Mutex<Durable>,
}

/// The newest durable record; without counters, one that can't be built upon.
#[derive(Debug, Default)]
struct Durable {
    number: u64,
    sequence: u64,
    sealed: bool,
    counters: Vec<u64>,
}

impl Shared {
    pub fn footer(&self) -> MutexGuard<'_, PublishedFooter> {
        // Publishing leaves the footer as it was, or changed whole.
        self.footer.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The newest visible commit.
    pub fn visible(&self) -> Result<Record> {
        let look = |when| self.store.look(when);
        watched(Look::Seldom, look, || {
            let record = visible(&self.header, &self.store, PATIENCE);
            let record = record.ok_or_else(damaged_record)?;
            check_record(&record, &self.header, &self.plan)?;
            Ok(record)
        })
    }

    /// The rows of the newest durable record.
    pub fn durable_rows(&self) -> u64 {
        let last = self.durable.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        last.counters.first().copied().unwrap_or(0)
    }

    /// Brings the newest commit to the disk, and returns its rows. Nothing to do costs nothing.
    pub fn make_durable(&self) -> Result<u64> {
        let mut last = self.durable.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let record = self.visible()?;
        if record.counters == last.counters && record.sealed == last.sealed {
            return Ok(record.rows());
        }
        self.write_durable(&mut last, record)
    }

    /// Says that all up to the newest durable record is on the disk, so that nobody has to look after a crash.
    pub fn settle(&self) -> Result<()> {
        let mut last = self.durable.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let record = self.visible()?;
        self.write_durable(&mut last, record).map(drop)
    }

    fn write_durable(&self, last: &mut Durable, record: Record) -> Result<u64> {
        self.store.look(Look::Now)?;
        let failed = |e: io::Error| Error::io("syncing rows to the disk", &e);
        let zeros = vec![0; record.counters.len()];
        let (before, previous) = match last.counters.is_empty() {
            true => (&zeros, 0),
            false => (&last.counters, last.sequence),
        };
        let delta = delta(&self.plan, before, &record.counters, |region, at, into| {
            self.store.read(self.header.regions[region].offset + at, into).map_err(failed)
        })?;
        let (sealed, sequence) = (record.sealed, record.sequence.max(last.sequence + 1));
        let durable = Record { previous, delta, sequence, ..record };
        let mut bytes = Vec::new();
        durable.encode(&mut bytes);
        self.store.write(self.header.durable(last.number + 1), &bytes).map_err(failed)?;
        if let Err(e) = self.store.sync() {
            self.store.publish32(self.header.live + FAILED_SYNC, failed_sync_boot());
            return Err(failed(e));
        }
        if self.store.load32(self.header.live + FAILED_SYNC) != 0 {
            self.store.publish32(self.header.live + FAILED_SYNC, 0);
        }
        let rows = durable.rows();
        *last = Durable { number: last.number + 1, sequence, sealed, counters: durable.counters };
        Ok(rows)
    }

    /// Gives back what published footers take that nobody looks at any more.
    pub fn trim_footers(&self) -> io::Result<()> {
        let unused = self.footer().unused(&self.header);
        unused.into_iter().try_for_each(|(from, to)| self.release(from, to))
    }

    /// Gives back the whole pages of a part of the file.
    fn release(&self, from: u64, to: u64) -> io::Result<()> {
        let (from, to) = (from.next_multiple_of(PAGE), to - to % PAGE);
        if from < to { self.store.release(from, to - from) } else { Ok(()) }
    }

    /// Publishes `counters` before their commit, whose number will be `sequence`.
    pub fn publish_ahead(&self, counters: &[u64], sequence: u64) -> Result<()> {
        let mut footer = self.footer();
        std::thread::sleep(footer.wait_for_slot());
        self.put_footer(&mut footer, counters, sequence)
    }

    fn put_footer(&self, footer: &mut PublishedFooter, counters: &[u64], sequence: u64) -> Result<()> {
        self.store.look(Look::Now)?;
        let published = footer.publish(&self.store, &self.plan, &self.header, counters, sequence);
        published.map_err(|e| Error::io("writing the footer for other readers", &e))
    }

    /// Publishes the footer of the newest commit.
    pub fn publish(&self) -> Result<()> {
        let mut footer = self.footer();
        let record = self.visible()?;
        // A published footer may be ahead of its commit: see `publish_ahead`.
        if record.sequence <= footer.published {
            return Ok(());
        }
        self.put_footer(&mut footer, &record.counters, record.sequence)
    }
}

/// A segment that grows.
#[derive(Debug)]
pub(in crate::table) struct Growing {
    pub shared: Arc<Shared>,
    pub now: Mark,
    pub committed: Mark,
    pub sequence: u64,
    /// The part of each region that is ready for stores through the mapping: from, to, and the next step.
    ready: Vec<(u64, u64, u64)>,
    /// How far each region is reserved for large pieces, and the next step.
    reserved: Vec<(u64, u64)>,
    /// Kept to save allocations.
    scratch: Vec<u8>,
    record: Vec<u8>,
}

/// What a new segment is made of.
#[derive(Clone, Debug)]
pub(in crate::table) struct Shape {
    pub first_row: u64,
    pub limits: Vec<u64>,
    pub sorted_by: Option<u32>,
    pub segment_rows: u64,
}

impl Growing {
    /// A new segment of no rows, complete but for its name, and on the disk: a name without what makes the file a segment
    /// would be worse than neither.
    pub fn create(
        medium: &Medium,
        folder: &Path,
        plan: &Arc<Plan>,
        shape: Shape,
        provisional: bool,
    ) -> Result<Growing> {
        let sizes = Sizes::of(plan);
        let (front, header) = lay_out(plan, shape, &sizes)?;
        let made = Store::create(medium, folder, header.file_len()).and_then(|store| {
            let control = header.ring + header.slot * SLOTS;
            // Written, not only reserved: what the first stores through the mapping meet is then in memory already.
            let mut front = front;
            front.resize(header.ring as usize, 0);
            store.write(0, &front)?;
            if !store.reserve(header.ring, control - header.ring)? {
                store.write(header.ring, &vec![0; (control - header.ring) as usize])?;
            }
            let footers = header.tail - header.footer * SLOTS;
            if !store.reserve(footers, header.file_len() - footers)? {
                store.write(footers, &vec![0; (header.tail + 4 - footers) as usize])?;
            }
            store.write(header.tail + 4, TAIL)?;
            Ok(store)
        });
        let store = made.map_err(|e| Error::io("creating a segment", &e))?;
        watch(&store, &header)?;
        let footer = Mutex::new(PublishedFooter::new(sizes, &header));
        let mut growing = Growing::of(Shared { store, header, plan: plan.clone(), footer, durable: Mutex::default() });
        growing.now.counters = vec![0; plan.counters];
        growing.committed = growing.now.clone();
        growing.show(false, provisional);
        growing.shared.publish()?;
        growing.note_writer();
        growing.shared.store.sync().map_err(|e| Error::io("creating a segment", &e).at(folder))?;
        Ok(growing)
    }

    /// The segment at `path`, to go on from `record`.
    pub fn open(medium: &Medium, path: &Path, plan: &Arc<Plan>, header: Header, record: &Record) -> Result<Growing> {
        let failed = opening_failed;
        let store = Store::open(medium, path).map_err(failed)?;
        watch(&store, &header).map_err(|e| e.at(path))?;
        let sizes = Sizes::of(plan);
        if header.slots < 2 || header.slot < sizes.slot || header.footer < sizes.footer {
            return Err(Error::invalid("the segment's slots are too small for its schema").at(path));
        }
        // A copy may have holes where this one had none, and a store into a hole fails by a signal when the disk is full.
        let (control, footers) =
            (header.ring + header.slot * u64::from(header.slots), u64::from(header.slots) * header.footer);
        store.reserve(0, control).map_err(failed)?;
        store.reserve(header.tail - footers, header.file_len() - (header.tail - footers)).map_err(failed)?;
        let footer = Mutex::new(PublishedFooter::reopen(sizes, &header, &store).map_err(failed)?);
        let mut durable = last_durable(&store, &header, plan, &record.counters).map_err(|e| e.at(path))?;
        if store.load32(header.live + FAILED_SYNC) == failed_sync_boot() {
            write_again(&store, &header, plan, &record.counters)?;
            // Over the record that may not be on the disk; the other one is.
            durable = Durable { number: durable.number + 1, sequence: durable.sequence, ..Durable::default() };
        }
        let durable = Mutex::new(durable);
        let mut growing = Growing::of(Shared { store, header, plan: plan.clone(), footer, durable });
        growing.now.counters = record.counters.clone();
        growing.sequence = growing.shared.store.load64(growing.shared.header.live + SEQUENCE).max(record.sequence);
        growing.read_tails()?;
        growing.committed = growing.now.clone();
        growing.note_writer();
        Ok(growing)
    }

    fn of(shared: Shared) -> Growing {
        let ready = vec![(0, 0, STEPS.0); shared.plan.regions];
        let reserved = vec![(0, RESERVES.0); shared.plan.regions];
        let mark = Mark { counters: Vec::new(), tails: vec![0; shared.plan.regions] };
        let (now, committed) = (mark.clone(), mark);
        let scratch = Vec::new();
        let mut record = Vec::new();
        let counters = vec![0; shared.plan.counters];
        Record { boot: boot_id(), counters, ..Record::default() }.encode(&mut record);
        Growing { shared: Arc::new(shared), now, committed, sequence: 0, ready, reserved, scratch, record }
    }

    fn note_writer(&self) {
        self.shared.store.publish32(self.shared.header.live + WRITER, std::process::id());
    }

    /// The last bytes of the bitmaps, as the file has them.
    fn read_tails(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        for used in shared.plan.extents(&self.now.counters)? {
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

    /// The row behind the last that is here, of the whole table.
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
            let (reserved, step) = &mut self.reserved[region];
            let end = at + bytes.len() as u64;
            if end > *reserved {
                let to = (end + *step).min(place.capacity.next_multiple_of(PAGE)).max(end);
                let from = at.max(*reserved);
                // Where that much can't be had the write itself says whether there is room for what is written.
                let _ = shared.store.reserve(place.offset + from, to - from);
                (*reserved, *step) = (to, (2 * *step).min(RESERVES.1));
            }
            return shared.store.write(place.offset + at, bytes);
        }
        let (_, _, step) = self.ready[region];
        let from = at - at % PAGE;
        let to = (from + step).min(place.capacity.next_multiple_of(PAGE)).max(at + bytes.len() as u64);
        // The byte at the start of a page may be the last of a bitmap, with committed bits in it.
        let partial = u64::from(self.committed.tails[region] != 0);
        let fresh = place.offset + (at + partial).next_multiple_of(PAGE);
        if !shared.store.prepare(place.offset + from, to - from, fresh)? {
            return shared.store.write(place.offset + at, bytes);
        }
        self.ready[region] = (from, to, (2 * step).min(STEPS.1));
        shared.store.put(place.offset + at, bytes);
        Ok(())
    }

    /// Makes what is written visible. Readers in other processes see it as soon as this returns.
    #[inline]
    pub fn show(&mut self, sealed: bool, provisional: bool) {
        self.sequence += 1;
        Record::renew(&mut self.record, self.sequence, sealed, provisional, &self.now.counters);
        publish::commit(&self.shared.store, self.shared.header.page(), self.sequence, &self.record);
        self.committed.counters.copy_from_slice(&self.now.counters);
        self.committed.tails.copy_from_slice(&self.now.tails);
    }

    /// Forgets what is not committed.
    pub fn rollback(&mut self) {
        self.now.clone_from(&self.committed);
    }

    /// Gives back the blocks that were made ready and not used.
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

impl Place for Growing {
    fn plan(&self) -> &Arc<Plan> {
        &self.shared.plan
    }

    #[inline]
    fn now(&mut self) -> &mut Mark {
        &mut self.now
    }

    fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    #[inline]
    fn put(&mut self, region: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let (from, to, _) = self.ready[region];
        let start = self.shared.header.regions[region].offset;
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

/// Has the store look out for others who write to its file.
fn watch(store: &Store, header: &Header) -> Result<()> {
    let read = |at: usize, into: &mut [u8]| {
        store.read(at as u64, into).map_err(|e| Error::io("reading the front of a segment", &e))
    };
    if let Some(Front { header: start, .. }) = front(header.file_len() as usize, read)? {
        let mut fixed = [0; HEADER];
        read(start, &mut fixed)?;
        store.watch(header.marks(start as u64, &fixed));
    }
    Ok(())
}

/// The newest durable record of rows that are there: one beyond them was torn.
fn last_durable(store: &Store, header: &Header, plan: &Plan, counters: &[u64]) -> Result<Durable> {
    let mut last = Durable::default();
    let is_within = |found: &[u64]| found.len() == counters.len() && found.iter().zip(counters).all(|(a, b)| a <= b);
    for number in 0..2 {
        let mut bytes = vec![0; record_len(header.limits.len())];
        store.read(header.durable(number), &mut bytes).map_err(opening_failed)?;
        let Some(record) = Record::decode(&bytes) else { continue };
        check_record(&record, header, plan)?;
        if record.sequence > last.sequence && is_within(&record.counters) {
            let Record { sequence, sealed, counters, .. } = record;
            last = Durable { number, sequence, sealed, counters };
        }
    }
    Ok(last)
}

/// Writes the rows that are there over themselves: after a sync that failed, the system would not write them any more.
fn write_again(store: &Store, header: &Header, plan: &Plan, counters: &[u64]) -> Result<()> {
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

/// What stands before the header.
pub(in crate::table) fn front_of(plan: &Plan) -> Vec<u8> {
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
fn lay_out(plan: &Plan, shape: Shape, sizes: &Sizes) -> Result<(Vec<u8>, Header)> {
    let mut front = front_of(plan);
    let chosen = Header {
        first_row: shape.first_row,
        capacity: shape.limits[0],
        slot: sizes.slot,
        slots: SLOTS as u32,
        footer: sizes.footer,
        sorted_by: shape.sorted_by,
        segment_rows: shape.segment_rows,
        limits: shape.limits,
        ..Header::default()
    };
    let len = Header::encoded_len(plan.regions, plan.counters);
    let placed = placement::place(&chosen, front.len(), len, plan);
    let header = placed.ok_or_else(|| Error::argument("a segment of that many rows has no room in a file"))?;
    // What readers check of a header is true of those that are written.
    debug_assert_eq!(placement::check(&header, front.len(), len, plan), Ok(()));
    front.extend(header.encode());
    Ok((front, header))
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::table::reader::{chain, segment};

    /// A writer may be killed when other Arrow readers already see the last footer of a full segment and nobody else does. The
    /// next writer drops those rows; other Arrow readers went on seeing them until its first commit.
    #[test]
    fn a_face_ahead_of_a_commit_that_never_came_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("ticks");
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let column = Arc::new(arrow_array::Int64Array::from(vec![7, 8]));
        let batch = arrow_array::RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
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
        let segment = segment::open(&path).unwrap().unwrap();
        let record = segment.newest().unwrap();
        let plan = Arc::new(Plan::of(&schema).unwrap());
        let killed = Growing::open(&Medium::default(), &path, &plan, segment.header.clone(), &record).unwrap();
        killed.shared.publish_ahead(&[4], killed.sequence + 1).unwrap();
        assert_eq!(stock(), 4);
        let writer = open();
        assert_eq!((stock(), writer.rows()), (2, 2));
    }

    /// The background thread may look between the two steps of a rollover. If it published the commit before, other Arrow readers would
    /// find rows missing in front of the next segment, for good.
    #[test]
    fn a_face_ahead_of_its_commit_is_not_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
        let plan = Arc::new(Plan::of(&schema).unwrap());
        let shape = Shape { first_row: 0, limits: plan.limits(|_| 4), sorted_by: None, segment_rows: 4 };
        let mut growing = Growing::create(&Medium::default(), folder.path(), &plan, shape, false).unwrap();
        let shared = growing.shared.clone();
        let chosen = || shared.store.load32(shared.header.tail);
        growing.now.counters[0] = 1;
        shared.publish_ahead(&growing.now.counters, growing.sequence + 1).unwrap();
        let ahead = chosen();
        shared.publish().unwrap();
        assert_eq!(chosen(), ahead);
        growing.show(true, false);
        shared.publish().unwrap();
        assert_eq!(chosen(), ahead);
    }
}
