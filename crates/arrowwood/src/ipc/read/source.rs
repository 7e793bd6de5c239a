//! Walks an IPC file or stream, and makes it a source of batches.
//!
//! ```text
//! file:   "ARROW1\0\0" Schema … messages … EOS  Footer { schema, dictionary blocks, record batch blocks } i32 "ARROW1"
//! stream: Schema  (DictionaryBatch | RecordBatch)*  EOS?
//! ```
//! Opening reads the footer, or the first message. The walk, message by message of a stream or block by block of a
//! file, goes only as far as a call needs, and its results are cached.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::data::{IpcData, ReadOptions, at_message, body_end, never_written, unexpected};
use super::decode::Batch;
use super::dictionary::{DictionaryBatch, DictionarySet, Epoch, Link, Resolver};
use super::plain::{PlainBatch, ValueOffsets};
use super::prefetch::Prefetcher;
use crate::append_vec::AppendVec;
use crate::array::{Bytes, LazyCheckedArray, UncheckedArray};
#[cfg(feature = "compute")]
use crate::dataset::Zones;
use crate::dataset::{
    Batches, ColumnWidths, ConstantColumn, Dataset, Facts, Files, FixedWidthValues, Footprint, Source, ViewSource,
    stream_version,
};
use crate::error::{Error, Result};
use crate::ipc::framing::{
    DictionaryHeader, Footer, FooterBlock, MessageFrame, MessageHeader, MessageKind, NextMessage, Node, SchemaCache,
    Window, find_message, row_count,
};
use crate::map::{ChangeCheck, Mapping, MutexExt};

/// An IPC file or stream, whose batches are found and decoded on demand, by any number of threads.
///
/// What is known only grows. `data` never changes. The walk finds messages in order: the thread that holds the mutex
/// `walk` adds entries and versions of dictionaries, and finally sets `done`. Other threads read them without a lock:
/// an `AppendVec` publishes an item before its length. `done` is stored (release) after the last entry was added, so a
/// thread that loads it (acquire) and then finds no entry knows that there is none; it must load `done` *before* it
/// looks for the entry. Decoded batches and columns are in cells that are set once. If two threads decode the same
/// column, one result is dropped.
///
/// Locks are taken in this order: `walk`, then a mutex of `prefetcher`. Dictionaries are concatenated without `walk`,
/// so that a long concatenation doesn't stop the threads that look for batches.
#[derive(Debug)]
pub(crate) struct IpcSource {
    pub(super) data: IpcData,
    pub(super) dictionaries: DictionarySet,
    walk: Mutex<Walk>,
    /// The record batches that the walk has found.
    pub(super) entries: AppendVec<BatchEntry>,
    /// The batches of a file, which can be read in any order. The batches of a stream belong to their entries.
    blocks: Box<[OnceLock<Box<DecodedBatch>>]>,
    /// The cached offsets of columns of numbers.
    offsets: ValueOffsets,
    /// Set when the walk has reached the end, after the last entry was added.
    done: AtomicBool,
    prefetcher: Prefetcher,
    /// Describes the skipped tail of a file opened with `partial`.
    skipped_tail: OnceLock<String>,
}

/// The position of the walk.
#[derive(Debug)]
struct Walk {
    /// The offset of the next message of a stream, or the number of the next block of a file.
    next: usize,
    /// The number of rows before the next batch.
    rows: u64,
    window: Window,
    /// The number of dictionary batches found so far.
    epoch: Epoch,
}

/// A record batch found by the walk.
#[derive(Debug)]
pub(super) struct BatchEntry {
    pub(in crate::ipc) frame: MessageFrame,
    rows: Range<u64>,
    /// Selects the versions of the dictionaries that its keys refer to.
    epoch: Epoch,
    /// Boxed: a walk makes many entries, and few of them are decoded.
    pub(super) batch: OnceLock<Box<DecodedBatch>>,
}

/// A record batch with its header and cached columns.
#[derive(Debug)]
pub(super) struct DecodedBatch {
    pub(super) batch: Batch,
    /// Boxed: few columns of most batches are used as arrays.
    columns: Box<[OnceLock<Box<LazyCheckedArray>>]>,
}

impl IpcSource {
    /// Opens an IPC file or an IPC stream.
    pub(crate) fn open(bytes: Bytes, path: Option<&Path>, options: ReadOptions) -> Result<IpcSource> {
        IpcSource::open_with_cache(bytes, path, options, &SchemaCache::default())
    }

    /// Opens one of many files, most of which have the cached schema.
    pub(super) fn open_with_cache(
        bytes: Bytes,
        path: Option<&Path>,
        options: ReadOptions,
        schema_cache: &SchemaCache,
    ) -> Result<IpcSource> {
        let mut window = Window::new();
        let (data, next) = IpcData::open(bytes, path, options, schema_cache, &mut window)?;
        let blocks = data.footer.as_ref().map_or(0, |footer| footer.batches.len());
        let ipc = IpcSource {
            dictionaries: DictionarySet::for_schema(&data.schema),
            walk: Mutex::new(Walk { next, rows: 0, window, epoch: 0 }),
            entries: AppendVec::new(),
            blocks: (0..blocks).map(|_| OnceLock::new()).collect(),
            offsets: ValueOffsets::default(),
            done: AtomicBool::new(false),
            prefetcher: Prefetcher::default(),
            skipped_tail: OnceLock::new(),
            data,
        };
        if let Some(footer) = &ipc.data.footer {
            ipc.add_dictionaries(footer)?;
        }
        Ok(ipc)
    }

    fn lock_walk(&self) -> MutexGuard<'_, Walk> {
        // A panic during the walk leaves entries and rows consistent: both are written last.
        self.walk.lock_ignoring_poison()
    }

    /// Adds the dictionaries of a file, which the footer lists in any order, before any batch is read.
    fn add_dictionaries(&self, footer: &Footer) -> Result<()> {
        let mut walk = self.lock_walk();
        self.prefetcher.fetch_dictionaries(&self.data, footer)?;
        for number in 0..footer.dictionaries.len() {
            let frame = footer.dictionaries.frame(number, &self.data.bytes, &mut walk.window)?;
            self.add_dictionary(&mut walk, frame)?;
        }
        Ok(())
    }

    /// Adds the dictionary batch at `frame`.
    fn add_dictionary(&self, walk: &mut Walk, frame: MessageFrame) -> Result<()> {
        let epoch = self.next_epoch(walk);
        let metadata = walk.window.get(&self.data.bytes, frame.metadata, frame.metadata_len)?;
        let header = MessageHeader::parse(metadata)?;
        if header.kind != MessageKind::DictionaryBatch {
            return Err(unexpected(frame, MessageKind::DictionaryBatch, header.kind));
        }
        body_end(&self.data.bytes, frame, header.body_len)?;
        let dictionary = DictionaryHeader::parse(header.table)?;
        let link = Link::new(frame, row_count(dictionary.data)?, epoch);
        let batch = DictionaryBatch { link, is_delta: dictionary.is_delta, is_file: self.data.footer.is_some() };
        self.dictionaries.add(dictionary.id, walk.epoch, batch).map_err(|why| {
            Error::invalid(format!("the batch of dictionary {} at byte {} {why}", dictionary.id, frame.offset))
        })?;
        walk.epoch += 1;
        Ok(())
    }

    /// Returns the epoch of the next message of the walk.
    fn next_epoch(&self, walk: &Walk) -> Epoch {
        if self.data.footer.is_some() { Epoch::MAX } else { walk.epoch }
    }

    /// Walks to the next record batch. Returns false if there is none.
    fn step(&self, walk: &mut Walk) -> Result<bool> {
        let stepped = match &self.data.footer {
            Some(footer) => self.step_file(footer, walk),
            None => self.step_stream(walk),
        };
        match stepped {
            // The corruption ends the batches. Other errors say nothing about the data, which may be good.
            Err(e) if self.data.options.partial && e.is_corruption() => {
                let batches = self.entries.len();
                let _ =
                    self.skipped_tail.set(format!("valid up to batch {batches}, row {}: {}", walk.rows, e.message()));
                Ok(false)
            }
            other => other,
        }
    }

    fn step_file(&self, footer: &Footer, walk: &mut Walk) -> Result<bool> {
        if walk.next >= footer.batches.len() {
            return Ok(false);
        }
        if let (Some(rows), Some(frame)) = (footer.batch_rows(walk.next), footer.batches.unread_frame(walk.next))
            && !self.data.options.partial
        {
            self.add_batch(walk, frame, rows)?;
            walk.next += 1;
            return Ok(true);
        }
        self.prefetcher.fetch_headers(&self.data, footer, walk.next)?;
        let frame = footer.batches.frame(walk.next, &self.data.bytes, &mut walk.window)?;
        let message = self.data.read_summary(frame, &mut walk.window)?;
        if message.kind != MessageKind::RecordBatch {
            return Err(unexpected(frame, MessageKind::RecordBatch, message.kind));
        }
        self.add_batch(walk, message.frame, message.rows)?;
        walk.next += 1;
        Ok(true)
    }

    fn step_stream(&self, walk: &mut Walk) -> Result<bool> {
        loop {
            let frame = match find_message(&self.data.bytes, &mut walk.window, walk.next)? {
                NextMessage::Message(frame) => frame,
                NextMessage::Zeros if !self.data.ends_with_zeros(walk.next) => return Err(never_written(walk.next)),
                NextMessage::Zeros | NextMessage::End => {
                    self.data.check_end(walk.next)?;
                    return Ok(false);
                }
            };
            let message = self.data.read_summary(frame, &mut walk.window)?;
            match message.kind {
                MessageKind::RecordBatch => self.add_batch(walk, message.frame, message.rows)?,
                MessageKind::DictionaryBatch => self.add_dictionary(walk, frame)?,
                other => return Err(unexpected(frame, MessageKind::RecordBatch, other)),
            }
            walk.next = message.end;
            if message.kind == MessageKind::RecordBatch {
                return Ok(true);
            }
        }
    }

    fn add_batch(&self, walk: &mut Walk, frame: MessageFrame, rows: u64) -> Result<()> {
        let end = match walk.rows.checked_add(rows) {
            Some(end) if i64::try_from(end).is_ok() => end,
            _ => return Err(at_message(Error::invalid("more than 2^63 rows"), frame)),
        };
        let epoch = self.next_epoch(walk);
        let entry = BatchEntry { frame, rows: walk.rows..end, epoch, batch: OnceLock::new() };
        if !self.entries.push(entry) {
            return Err(at_message(Error::unsupported("more than 2^32 batches"), frame));
        }
        walk.rows = end;
        Ok(())
    }

    /// Walks while `more` returns true and messages remain. Returns the number of rows found so far.
    fn walk_while(&self, more: impl Fn(&Walk) -> bool) -> Result<u64> {
        let mut walk = self.lock_walk();
        let batches_before = self.entries.len();
        while !self.done.load(Ordering::Acquire) && more(&walk) {
            if !self.step(&mut walk).map_err(|e| self.data.locate_error(e))? {
                self.data.check_unchanged(ChangeCheck::Now)?;
                self.done.store(true, Ordering::Release);
            }
        }
        if self.entries.len() > batches_before {
            // A file that was truncated and grew again has zeros in place of messages, which would end a stream.
            self.data.check_unchanged(ChangeCheck::Now)?;
        }
        if let Some(last) = self.entries.len().checked_sub(1).and_then(|last| self.entries.get(last)) {
            assert_eq!(last.rows.end, walk.rows, "the walk doesn't stand after its last batch");
        }
        Ok(walk.rows)
    }

    pub(super) fn entry(&self, batch: usize) -> Result<Option<&BatchEntry>> {
        // Loaded before the check: the last batches found by another thread are visible once it reports the end.
        let is_done = self.done.load(Ordering::Acquire);
        let entry = self.entries.get(batch);
        if entry.is_some() || is_done {
            return Ok(entry);
        }
        self.walk_while(|_| batch >= self.entries.len())?;
        Ok(self.entries.get(batch))
    }

    /// Returns the cache for a decoded batch; `None` if there is no such batch. A batch of a file is found by its
    /// block, even if the walk has not reached it.
    #[inline]
    fn batch_cell(&self, batch: usize) -> Result<Option<&OnceLock<Box<DecodedBatch>>>> {
        match &self.data.footer {
            Some(_) => Ok(self.blocks.get(batch)),
            None => Ok(self.entry(batch)?.map(|entry| &entry.batch)),
        }
    }

    /// Returns the batch's header and columns.
    pub(super) fn decoded(&self, batch: usize) -> Result<&DecodedBatch> {
        let Some(cell) = self.batch_cell(batch)? else { return Err(no_batch(batch)) };
        if let Some(decoded) = cell.get() {
            return Ok(decoded);
        }
        let decoded = self.batch_frame(batch).and_then(|frame| self.decode(batch, frame));
        let decoded = decoded.map_err(|e| self.batch_error(e, batch))?;
        Ok(cell.get_or_init(|| Box::new(decoded)))
    }

    /// Adds the path and the batch to an error.
    fn batch_error(&self, e: Error, batch: usize) -> Error {
        self.data.locate_error(e.context(format_args!("batch {batch}")))
    }

    /// Returns the epoch that selects the dictionaries of a batch.
    pub(super) fn epoch_of_batch(&self, batch: usize) -> Result<Epoch> {
        match self.data.footer {
            Some(_) => Ok(Epoch::MAX),
            None => Ok(self.entry(batch)?.map_or(0, |entry| entry.epoch)),
        }
    }

    /// Returns the frame of the message of a batch. Fetches the message if the file is in a store.
    pub(super) fn batch_frame(&self, batch: usize) -> Result<MessageFrame> {
        match &self.data.footer {
            Some(footer) => {
                self.prefetcher.fetch_message(&self.data, footer, batch)?;
                footer.batches.frame(batch, &self.data.bytes, &mut Window::new())
            }
            None => match self.entry(batch)? {
                Some(entry) => Ok(entry.frame),
                None => Err(no_batch(batch)),
            },
        }
    }

    /// Reads the header of a batch, and checks that the footer agrees with it.
    fn read_header(&self, batch: usize, frame: MessageFrame) -> Result<Batch> {
        let header = self.data.read_batch_header(frame)?;
        let Some(footer) = &self.data.footer else { return Ok(header) };
        let FooterBlock { body_len: listed, .. } = footer.batches.block_at(batch);
        let body = header.body.len;
        if usize::try_from(listed) != Ok(body) {
            return Err(Error::invalid(format!(
                "the file's footer says that its body has {listed} bytes, and its message {body}: damaged, or several \
                 files one behind the other"
            )));
        }
        let got = header.header.rows;
        match footer.batch_rows(batch) {
            Some(rows) if rows != got as u64 => {
                Err(Error::invalid(format!("the file's footer says that it has {rows} rows, and its header {got}")))
            }
            _ => Ok(header),
        }
    }

    fn decode(&self, batch: usize, frame: MessageFrame) -> Result<DecodedBatch> {
        let batch = self.read_header(batch, frame)?;
        let columns = self.data.schema.columns.iter().map(|_| OnceLock::new()).collect();
        Ok(DecodedBatch { batch, columns })
    }

    /// Returns the cached header of a batch, or reads it.
    fn header(&self, batch: usize) -> Result<Cow<'_, Batch>> {
        if let Some(decoded) = self.batch_cell(batch)?.and_then(OnceLock::get) {
            return Ok(Cow::Borrowed(&decoded.batch));
        }
        let header = self.batch_frame(batch).and_then(|frame| self.read_header(batch, frame));
        header.map(Cow::Owned).map_err(|e| self.batch_error(e, batch))
    }

    /// Returns the dictionaries for a batch's column `node`. Walks to the end if the column uses a dictionary with
    /// deltas, which are concatenated once, when all are known.
    pub(super) fn resolver(&self, batch: usize, node: &Node) -> Result<Resolver<'_>> {
        let epoch = self.epoch_of_batch(batch)?;
        let resolver = Resolver { data: &self.data, dictionaries: &self.dictionaries, epoch };
        if !self.is_complete() && !self.data.options.strict && resolver.has_deltas(node) {
            // The next call that walks reports an error found here.
            let _ = self.walk_to_end();
        }
        Ok(resolver)
    }

    /// Returns a column of a batch, and its node in the schema.
    #[inline]
    fn array_and_node(&self, batch: usize, column: usize) -> Result<(&LazyCheckedArray, &Node)> {
        let decoded = self.decoded(batch)?;
        let Some((cell, node)) = decoded.columns.get(column).zip(self.data.schema.columns.get(column)) else {
            return Err(Error::invalid_argument(format!("there is no column {column}")));
        };
        if let Some(array) = cell.get() {
            return Ok((array, node));
        }
        self.fetch_column(batch, column)?;
        let resolver = self.resolver(batch, node)?;
        let array = self.data.decoder(&resolver).column(&decoded.batch, node, column);
        let array = array.map_err(|e| self.data.column_error(e, batch, column))?;
        Ok((cell.get_or_init(|| Box::new(LazyCheckedArray::new(array))), node))
    }

    /// Fetches a column of a batch if the file is in a store.
    #[inline]
    fn fetch_column(&self, batch: usize, column: usize) -> Result<()> {
        let Some(fetch) = self.data.bytes.fetch() else { return Ok(()) };
        self.prefetcher.fetch_column(fetch, batch, column, self.known_batches(), |batch| self.header(batch))
    }

    /// Returns true if the data has a footer.
    pub(super) fn is_file(&self) -> bool {
        self.data.footer.is_some()
    }

    /// Closes the file, which stays mapped.
    pub(crate) fn close_file(&self) {
        self.data.bytes.mapping().into_iter().for_each(Mapping::close_file);
    }

    /// Returns true if `path` is a name of the mapped file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn is_at(&self, path: &Path) -> Result<bool> {
        match self.data.bytes.mapping() {
            Some(mapping) => mapping.is_at(path).map_err(|e| Error::io("looking for the file", &e).at(path)),
            None => Ok(false),
        }
    }

    /// Returns true if all batches and dictionaries are known.
    fn is_complete(&self) -> bool {
        self.data.footer.is_some() || self.done.load(Ordering::Acquire)
    }

    fn walk_to_end(&self) -> Result<u64> {
        if !self.done.load(Ordering::Acquire) {
            self.lock_walk().window.is_scanning = true;
        }
        self.walk_while(|_| true)
    }

    /// Returns the number of batches after a complete walk.
    fn known_batches(&self) -> usize {
        self.data.footer.as_ref().map_or_else(|| self.entries.len(), |footer| footer.batches.len())
    }

    /// Returns the frames of all messages that belong to the data, in file order, for `messages`.
    pub(crate) fn frames(&self) -> Result<Vec<MessageFrame>> {
        self.data.frames()
    }

    /// Returns the zones in the file's footer: see [`crate::ipc::ZONES`].
    pub(crate) fn zones(&self) -> Option<&str> {
        self.data.footer.as_ref()?.zones.as_deref()
    }

    /// Returns true if the file's footer says how many rows each batch has, as in files that were pushed to a store.
    pub(crate) fn is_indexed(&self) -> bool {
        self.data.footer.as_ref().is_some_and(|footer| footer.batch_rows(0).is_some())
    }
}

fn no_batch(batch: usize) -> Error {
    Error::invalid_argument(format!("there is no batch {batch}"))
}

impl Batches for IpcSource {
    fn schema(&self) -> &SchemaRef {
        &self.data.schema.schema
    }

    fn count_until(&self, until: u64) -> Result<u64> {
        if until == u64::MAX {
            return self.walk_to_end();
        }
        self.walk_while(|walk| walk.rows < until)
    }

    fn num_batches(&self) -> Result<usize> {
        if let (Some(footer), false) = (&self.data.footer, self.data.options.partial) {
            return Ok(footer.batches.len());
        }
        self.count_until(u64::MAX)?;
        Ok(self.entries.len())
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        Ok(self.entry(batch)?.map(|entry| entry.rows.clone()))
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        if !self.done.load(Ordering::Acquire) {
            self.walk_while(|walk| walk.rows <= row)?;
        }
        let batch = self.entries.partition_point(|entry| entry.rows.end <= row);
        debug_assert!(
            self.entries.get(batch).is_none_or(|entry| entry.rows.contains(&row)),
            "batch {batch} does not hold row {row}"
        );
        Ok((batch < self.entries.len()).then_some(batch))
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        if self.data.footer.is_none() || self.data.options.partial {
            return self.locate_by_len(back);
        }
        let mut remaining = back;
        for batch in (0..self.blocks.len()).rev() {
            let rows = self.decoded(batch)?.batch.header.rows as u64;
            if remaining <= rows {
                return Ok(Some((batch, (rows - remaining) as usize)));
            }
            remaining -= rows;
        }
        Ok(None)
    }

    fn column(&self, batch: usize, column: usize) -> Result<&UncheckedArray> {
        self.array_and_node(batch, column).map(|(array, _)| array.unchecked())
    }

    fn checked_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        let (array, node) = self.array_and_node(batch, column)?;
        array
            .checked(|| self.resolver(batch, node)?.checked_dictionaries(node))
            .map_err(|e| self.data.column_error(e, batch, column))
    }

    fn fixed_width_values<'a>(
        &'a self,
        batch: usize,
        rows: usize,
        columns: ColumnWidths<'_>,
        keep: bool,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        let cached = if keep && self.is_complete() {
            self.offsets.for_batch(batch, self.data.schema.columns.len(), || self.known_batches())
        } else {
            None
        };
        let plain = PlainBatch { data: &self.data, cached };
        if self.data.bytes.fetch().is_none() {
            return plain.columns(rows, columns, || self.header(batch), into);
        }
        let columns: Vec<_> = columns.collect();
        columns.iter().try_for_each(|&(column, _)| self.fetch_column(batch, column))?;
        plain.columns(rows, &mut columns.into_iter(), || self.header(batch), into)
    }

    #[inline]
    fn value_bytes(&self, batch: usize, row: usize, column: usize, width: usize) -> Option<&[u8]> {
        if !self.is_complete() || self.data.bytes.fetch().is_some() {
            return None;
        }
        let cached = self.offsets.for_batch(batch, self.data.schema.columns.len(), || self.known_batches());
        let plain = PlainBatch { data: &self.data, cached };
        plain.value(row, column, width, || self.header(batch))
    }

    fn dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        let Some(node) = self.data.schema.columns.get(column) else { return Ok(None) };
        let Some((id, values)) = &node.dictionary else { return Ok(None) };
        let mut is_flat = true;
        values.dictionaries(&mut |_, _| is_flat = false);
        if !self.is_complete() || !is_flat || self.data.options.thorough {
            return Ok(None);
        }
        let resolver = self.resolver(0, node)?;
        let Some(shared) = resolver.shared_version(*id) else { return Ok(None) };
        shared.checked(resolver, *id).map(Some).map_err(|e| self.data.column_error(e, 0, column))
    }

    fn footprint(&self) -> Footprint {
        let size = self.data.bytes.len() as u64;
        if self.data.mapped_file().is_some() || self.data.bytes.fetch().is_some() {
            Footprint { mapped: size, copied: self.data.copied() }
        } else {
            Footprint { mapped: 0, copied: size + self.data.copied() }
        }
    }

    fn check_unchanged(&self, _batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        self.data.check_unchanged(when)
    }

    fn resident(&self) -> Result<u64> {
        self.data.mapped_file().map_or(Ok(0), |mapping| Ok(mapping.resident()? as u64))
    }
}

impl Source for IpcSource {
    fn facts(&self) -> Facts<'_> {
        let facts = Facts::new(self.data.path.as_deref(), self.data.absolute.as_deref());
        Facts {
            address: self.data.address.as_deref().or(facts.address),
            files: Some(self),
            pushed_rows: self.data.footer.as_ref().and_then(|footer| footer.table.as_ref()),
            ..facts
        }
    }

    fn constants(&self) -> &[ConstantColumn] {
        &[]
    }

    fn view(&self) -> Option<&dyn ViewSource> {
        None
    }

    fn adapted(&self) -> Option<&dyn Source> {
        None
    }

    fn adapted_column(&self, _column: usize) -> Option<usize> {
        None
    }

    #[cfg(feature = "compute")]
    fn has_zones(&self, _column: usize) -> bool {
        false
    }

    #[cfg(feature = "compute")]
    fn zones(&self, _batch: usize, _column: usize) -> Result<Option<Zones>> {
        Ok(None)
    }
}

impl Files for IpcSource {
    /// Returns an empty list, as the path is the file's.
    fn list(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn version(&self) -> Option<String> {
        let state = self.data.mapped_file()?.state()?;
        Some(if self.is_file() { state.version() } else { stream_version(state.size()) })
    }

    fn are_merged(&self) -> bool {
        false
    }

    fn successor(&self, _file: &Path) -> Result<Option<PathBuf>> {
        Ok(None)
    }
}

/// # Damaged files
impl Dataset {
    /// Describes the tails that [`OpenOptions::partial`](crate::OpenOptions::partial) has skipped.
    ///
    /// There is one entry for each damaged or truncated file. Walks to the end.
    ///
    /// # Errors
    /// The errors of [`Dataset::len`].
    pub fn skipped_tails(&self) -> Result<Vec<String>> {
        self.len()?;
        let sources = self.sources().filter_map(|source| source.find::<IpcSource>());
        Ok(sources.filter_map(|ipc| ipc.skipped_tail.get().cloned()).collect())
    }
}
