//! An IPC file or stream as a source of batches.
//!
//! ```text
//! file:   "ARROW1\0\0" Schema … messages … EOS  Footer { schema, dictionary blocks, record batch blocks } i32 "ARROW1"
//! stream: Schema  (DictionaryBatch | RecordBatch)*  EOS?
//! ```
//! Opening reads the footer, or the first message. The walk, message by message of a stream or block by block of a
//! file, goes only as far as somebody's question needs, and what it finds is kept.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::append_vec::Shelf;
use super::decode::{Batch, Decoder, Dictionaries};
use super::dictionary::{Dictionary, Epoch, Link};
use super::plain::Spots;
use crate::array::{Bytes, validate};
use crate::dataset::{Dataset, Footprint, Plain, Source, Widths};
use crate::error::{Error, Result};
use crate::ipc::framing::{
    DictionaryHeader, Footer, Found, Frame, Header, IpcSchema, Kind, MAGIC, Window, behind_magic, find, is_segment,
    read_footer, rows_of, sniff,
};
use crate::map::{Look, Mapping, Watch};

/// When the values of a column are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validate {
    /// When the column is first handed out, once per batch.
    #[default]
    Lazy,
    /// When the file is opened.
    Full,
    /// Never: the caller vouches for them.
    None,
}

/// How an IPC file or stream is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub validate: Validate,
    pub strict: bool,
    pub partial: bool,
    /// Whether to look also at what readers need not look at: bitmaps of columns that say they have no nulls.
    pub thorough: bool,
}

/// An IPC file or stream.
#[derive(Debug)]
pub(crate) struct Ipc {
    pub(super) bytes: Bytes,
    path: Option<PathBuf>,
    /// The path from the root, where it was given from elsewhere.
    absolute: Option<PathBuf>,
    pub(super) schema: IpcSchema,
    /// What each dictionary id of the schema holds.
    pub(in crate::ipc) dictionaries: HashMap<i64, Dictionary>,
    pub(super) options: Options,
    /// Whether a stream's framing is that of formats before 0.15.
    legacy: bool,
    /// The footer of a file; a stream has none.
    pub(super) footer: Option<Footer>,
    walk: Mutex<Walk>,
    pub(super) entries: Shelf<Entry>,
    /// The batches of a file, which can be read in any order; those of a stream hang on their entries.
    pub(super) blocks: Box<[OnceLock<Box<Decoded>>]>,
    /// Where columns of numbers lie.
    pub(super) spots: Spots,
    done: AtomicBool,
    /// What was left behind the last whole batch of a file opened with `partial`.
    left: OnceLock<String>,
    copied: AtomicU64,
}

/// Where the walk stands.
#[derive(Debug)]
struct Walk {
    /// The next message of a stream, or the next block of a file.
    next: usize,
    rows: u64,
    window: Window,
    epoch: Epoch,
}

/// A message as the walk sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    frame: Frame,
    pub(super) kind: Kind,
    /// The end of its body.
    pub(super) end: usize,
    /// Rows of a record batch.
    pub(super) rows: u64,
}

/// A record batch that the walk has found.
#[derive(Debug)]
pub(super) struct Entry {
    pub(in crate::ipc) frame: Frame,
    rows: Range<u64>,
    epoch: Epoch,
    /// Boxed: a walk makes many entries, and few of them are decoded.
    pub(super) batch: OnceLock<Box<Decoded>>,
}

/// A record batch whose header has been read, and its columns as far as they were asked for.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) batch: Batch,
    /// Boxed: of most batches few columns are asked for as arrays.
    columns: Box<[OnceLock<Box<ArrayData>>]>,
    checked: Box<[OnceLock<()>]>,
}

impl Ipc {
    /// Opens bytes that are an IPC file or an IPC stream.
    pub(crate) fn open(bytes: Bytes, path: Option<&Path>, options: Options) -> Result<Ipc> {
        let mut window = Window::new();
        let head = bytes.len().min(MAGIC.len());
        let is_file = window.get(&bytes, 0, head)? == MAGIC;
        let opened = match is_file {
            true => match read_footer(&bytes) {
                // Cut off before its footer was written, a file is still a stream behind its magic.
                Err(_) if options.partial => {
                    let start = behind_magic(&bytes, &mut window)?.map_or(bytes.len(), |frame| frame.offset);
                    open_stream(&bytes, &mut window, start)
                }
                opened => {
                    opened.map(|(schema, footer)| Opened { schema, footer: Some(footer), next: 0, legacy: false })
                }
            },
            false => open_stream(&bytes, &mut window, 0),
        };
        let Opened { schema, footer, next, legacy } = opened?;
        match (bytes.mapping(), &footer) {
            (Some(mapping), Some(_)) => mapping.watch(Watch::Still(is_segment)),
            (Some(mapping), None) => mapping.watch_stream(),
            (None, _) => (),
        }
        let blocks = footer.as_ref().map_or(0, |footer| footer.batches.len());
        let ipc = Ipc {
            dictionaries: Dictionary::of_schema(&schema),
            blocks: (0..blocks).map(|_| OnceLock::new()).collect(),
            bytes,
            path: path.map(Path::to_path_buf),
            absolute: path.filter(|path| path.is_relative()).and_then(|path| std::path::absolute(path).ok()),
            schema,
            options,
            legacy,
            footer,
            walk: Mutex::new(Walk { next, rows: 0, window, epoch: 0 }),
            entries: Shelf::new(),
            spots: Spots::default(),
            done: AtomicBool::new(false),
            left: OnceLock::new(),
            copied: AtomicU64::new(0),
        };
        if let Some(footer) = &ipc.footer {
            ipc.find_dictionaries(footer)?;
        }
        Ok(ipc)
    }

    fn lock(&self) -> MutexGuard<'_, Walk> {
        // A panic while walking leaves entries and rows in step: both are written last.
        self.walk.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The footer lists the dictionaries of a file in any order; all are known before any batch is read.
    fn find_dictionaries(&self, footer: &Footer) -> Result<()> {
        let mut walk = self.lock();
        for number in 0..footer.dictionaries.len() {
            let frame = footer.dictionaries.frame(number, &self.bytes, &mut walk.window)?;
            self.add_dictionary(&mut walk, frame)?;
        }
        Ok(())
    }

    /// Takes in the dictionary batch at `frame`.
    fn add_dictionary(&self, walk: &mut Walk, frame: Frame) -> Result<()> {
        let epoch = self.epoch_of(walk);
        let metadata = walk.window.get(&self.bytes, frame.metadata, frame.metadata_len)?;
        let header = Header::parse(metadata)?;
        if header.kind != Kind::DictionaryBatch {
            return Err(unexpected(frame, Kind::DictionaryBatch, header.kind));
        }
        body_end(&self.bytes, frame, header.body_len)?;
        let dictionary = DictionaryHeader::parse(header.table)?;
        let (id, rows) = (dictionary.id, rows_of(dictionary.data)?);
        let link = Link::new(frame, rows, epoch);
        let added = match self.dictionaries.get(&id) {
            Some(known) => known.add(walk.epoch, link, dictionary.is_delta, self.footer.is_some()),
            None => Err("is of no field of the schema"),
        };
        let at = frame.offset;
        added.map_err(|why| Error::invalid(format!("the batch of dictionary {id} at byte {at} {why}")))?;
        walk.epoch += 1;
        Ok(())
    }

    /// The epoch of what the walk meets now.
    fn epoch_of(&self, walk: &Walk) -> Epoch {
        if self.footer.is_some() { Epoch::MAX } else { walk.epoch }
    }

    /// Goes on to the next record batch; false when there is none.
    fn step(&self, walk: &mut Walk) -> Result<bool> {
        let stepped = match &self.footer {
            Some(footer) => self.step_file(footer, walk),
            None => self.step_stream(walk),
        };
        match stepped {
            Err(e) if self.options.partial => {
                let batches = self.entries.len();
                let _ = self.left.set(format!("valid up to batch {batches}, row {}: {}", walk.rows, e.message()));
                Ok(false)
            }
            other => other,
        }
    }

    fn step_file(&self, footer: &Footer, walk: &mut Walk) -> Result<bool> {
        if walk.next >= footer.batches.len() {
            return Ok(false);
        }
        let frame = footer.batches.frame(walk.next, &self.bytes, &mut walk.window)?;
        let message = self.look(frame, &mut walk.window)?;
        if message.kind != Kind::RecordBatch {
            return Err(unexpected(frame, Kind::RecordBatch, message.kind));
        }
        self.add_batch(walk, message)?;
        walk.next += 1;
        Ok(true)
    }

    fn step_stream(&self, walk: &mut Walk) -> Result<bool> {
        loop {
            let frame = match find(&self.bytes, &mut walk.window, walk.next)? {
                Found::Message(frame) => frame,
                Found::Zeros if !self.ends_with_zeros(walk) => return Err(never_written(walk.next)),
                Found::Zeros | Found::End => return Ok(false),
            };
            let message = self.look(frame, &mut walk.window)?;
            match message.kind {
                Kind::RecordBatch => self.add_batch(walk, message)?,
                Kind::DictionaryBatch => self.add_dictionary(walk, frame)?,
                other => return Err(unexpected(frame, Kind::RecordBatch, other)),
            }
            walk.next = message.end;
            if message.kind == Kind::RecordBatch {
                return Ok(true);
            }
        }
    }

    /// Whether a zero word is the end of the stream: one of old framing, or with no more than padding behind it.
    fn ends_with_zeros(&self, walk: &Walk) -> bool {
        self.legacy || self.bytes.len() - walk.next <= 8
    }

    /// What the walk needs to know of the message at `frame`.
    pub(super) fn look(&self, frame: Frame, window: &mut Window) -> Result<Seen> {
        let metadata = window.get(&self.bytes, frame.metadata, frame.metadata_len)?;
        let header = Header::parse(metadata).map_err(|e| at_message(e, frame))?;
        let end = body_end(&self.bytes, frame, header.body_len)?;
        let rows = match header.kind {
            Kind::RecordBatch => rows_of(header.table).map_err(|e| at_message(e, frame))? as u64,
            _ => 0,
        };
        Ok(Seen { frame, kind: header.kind, end, rows })
    }

    fn add_batch(&self, walk: &mut Walk, Seen { frame, rows, .. }: Seen) -> Result<()> {
        let last = walk.rows.checked_add(rows).filter(|&last| i64::try_from(last).is_ok());
        let last = last.ok_or_else(|| at_message(Error::invalid("more than 2^63 rows"), frame))?;
        let epoch = self.epoch_of(walk);
        let entry = Entry { frame, rows: walk.rows..last, epoch, batch: OnceLock::new() };
        if !self.entries.push(entry) {
            return Err(at_message(Error::unsupported("more than 2^32 batches"), frame));
        }
        walk.rows = last;
        Ok(())
    }

    /// Walks while `more` says so and there is more.
    fn walk_while(&self, more: impl Fn(&Walk) -> bool) -> Result<u64> {
        let mut walk = self.lock();
        let known = self.entries.len();
        while !self.done.load(Ordering::Acquire) && more(&walk) {
            if !self.step(&mut walk).map_err(|e| self.locate_error(e))? {
                self.look_at(Look::Now)?;
                self.done.store(true, Ordering::Release);
            }
        }
        if self.entries.len() > known {
            // A file that was made shorter and grew again has zeros where messages were, which end a stream.
            self.look_at(Look::Now)?;
        }
        Ok(walk.rows)
    }

    fn look_at(&self, when: Look) -> Result<()> {
        self.bytes.mapping().map_or(Ok(()), |mapping| mapping.look(when))
    }

    pub(super) fn entry(&self, batch: usize) -> Result<Option<&Entry>> {
        if batch >= self.entries.len() && !self.done.load(Ordering::Acquire) {
            self.walk_while(|_| batch >= self.entries.len())?;
        }
        Ok(self.entries.get(batch))
    }

    /// The batch's header and columns. A batch of a file is found by its block, whether or not the walk has come there.
    pub(super) fn decoded(&self, batch: usize) -> Result<&Decoded> {
        let (place, frame) = match (&self.footer, self.blocks.get(batch)) {
            (Some(footer), Some(place)) => match place.get() {
                Some(decoded) => return Ok(decoded),
                None => (place, footer.batches.frame(batch, &self.bytes, &mut Window::new())),
            },
            _ => {
                let entry = self.entry(batch)?.ok_or_else(|| Error::argument(format!("there is no batch {batch}")))?;
                (&entry.batch, Ok(entry.frame))
            }
        };
        if let Some(decoded) = place.get() {
            return Ok(decoded);
        }
        let decoded = frame.and_then(|frame| self.decode(frame));
        let decoded = decoded.map_err(|e| self.locate_error(e.context(format_args!("batch {batch}"))))?;
        Ok(place.get_or_init(|| Box::new(decoded)))
    }

    /// The dictionaries that a batch means.
    pub(super) fn epoch_of_batch(&self, batch: usize) -> Result<Epoch> {
        match self.footer {
            Some(_) => Ok(Epoch::MAX),
            None => Ok(self.entry(batch)?.map_or(0, |entry| entry.epoch)),
        }
    }

    fn decode(&self, frame: Frame) -> Result<Decoded> {
        let batch = self.header(frame)?;
        let columns = &self.schema.columns;
        let empty = |_| OnceLock::new();
        let (columns, checked) =
            (columns.iter().map(empty).collect(), columns.iter().map(|_| OnceLock::new()).collect());
        Ok(Decoded { batch, columns, checked })
    }

    pub(super) fn decoder<'a>(&'a self, dictionaries: &'a dyn Dictionaries) -> Decoder<'a> {
        Decoder {
            bytes: &self.bytes,
            schema: &self.schema,
            dictionaries,
            copied: &self.copied,
            strict: self.options.strict,
            thorough: self.options.thorough,
        }
    }

    /// Closes the file, which stays mapped.
    pub(crate) fn let_go(&self) {
        self.bytes.mapping().into_iter().for_each(Mapping::let_go);
    }

    pub(super) fn note_copy(&self, bytes: usize) {
        self.copied.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn is_strict(&self) -> bool {
        self.options.strict
    }

    pub(super) fn is_thorough(&self) -> bool {
        self.options.thorough
    }

    /// Whether all batches and dictionaries have been found.
    pub(super) fn knows_all(&self) -> bool {
        self.footer.is_some() || self.done.load(Ordering::Acquire)
    }

    /// Walks to the end, so that every delta is known; an error on the way is left for whoever meets it.
    pub(super) fn walk_all(&self) {
        let _ = self.walk_to_end();
    }

    fn walk_to_end(&self) -> Result<u64> {
        if !self.done.load(Ordering::Acquire) {
            self.lock().window.reads_on = true;
        }
        self.walk_while(|_| true)
    }

    pub(super) fn locate_error(&self, e: Error) -> Error {
        match &self.path {
            Some(path) => e.at(path),
            None => e,
        }
    }

    pub(super) fn column_error(&self, e: Error, batch: usize, column: usize) -> Error {
        let name = self.schema.schema.field(column).name();
        self.locate_error(e.context(format_args!("batch {batch}, column '{name}'")))
    }

    /// The frames of all messages that belong to the data, in file order, for `messages`.
    pub(crate) fn frames(&self) -> Result<Vec<Frame>> {
        let mut window = Window::new();
        match &self.footer {
            Some(footer) => footer.frames(&self.bytes, &mut window),
            None => self.chain(&mut window),
        }
    }

    fn chain(&self, window: &mut Window) -> Result<Vec<Frame>> {
        let mut frames = Vec::new();
        let mut next = 0;
        while let Found::Message(frame) = find(&self.bytes, window, next)? {
            let metadata = window.get(&self.bytes, frame.metadata, frame.metadata_len)?;
            let header = Header::parse(metadata).map_err(|e| at_message(e, frame))?;
            next = body_end(&self.bytes, frame, header.body_len)?;
            frames.push(frame);
        }
        Ok(frames)
    }
}

/// What opening has found.
struct Opened {
    schema: IpcSchema,
    footer: Option<Footer>,
    /// The first message behind the schema's.
    next: usize,
    legacy: bool,
}

fn open_stream(bytes: &Bytes, window: &mut Window, start: usize) -> Result<Opened> {
    let frame = match find(bytes, window, start) {
        Ok(Found::Message(frame)) => frame,
        Ok(Found::End | Found::Zeros) => return Err(sniff::not_arrow(bytes, None)),
        Err(e) => return Err(sniff::not_arrow(bytes, Some(e))),
    };
    let metadata = window.get(bytes, frame.metadata, frame.metadata_len)?;
    let schema = Header::parse(metadata).and_then(|header| match header.kind {
        Kind::Schema => IpcSchema::parse(header.table, metadata.len()),
        other => Err(unexpected(frame, Kind::Schema, other)),
    });
    match schema {
        Ok(schema) => Ok(Opened { schema, footer: None, next: frame.body(), legacy: frame.is_legacy() }),
        Err(e) => Err(sniff::not_arrow(bytes, Some(e))),
    }
}

/// The end of a message's body, which must be inside the file.
pub(super) fn body_end(bytes: &Bytes, frame: Frame, body_len: usize) -> Result<usize> {
    let end = frame.body().checked_add(body_len).filter(|&end| end <= bytes.len());
    end.ok_or_else(|| {
        let (offset, left) = (frame.offset, bytes.len().saturating_sub(frame.body()));
        Error::invalid(format!(
            "truncated: the message at byte {offset} has a body of {body_len} bytes, but only {left} follow"
        ))
    })
}

pub(super) fn never_written(at: usize) -> Error {
    Error::invalid(format!(
        "truncated: zeros at byte {at}, where a message or the end of the stream was expected; the writer did not finish"
    ))
}

pub(super) fn unexpected(frame: Frame, expected: Kind, got: Kind) -> Error {
    let (expected, got) = (expected.name(), got.name());
    Error::invalid(format!("the message at byte {} is a {got}, expected a {expected}", frame.offset))
}

pub(super) fn at_message(e: Error, frame: Frame) -> Error {
    e.context(format_args!("the message at byte {}", frame.offset))
}

/// Dictionaries as they are for one batch of `ipc`.
pub(super) struct Resolver<'a> {
    pub ipc: &'a Ipc,
    pub epoch: Epoch,
}

impl Dictionaries for Resolver<'_> {
    fn values(&self, id: i64) -> Result<Option<ArrayData>> {
        let version = self.ipc.dictionaries.get(&id).and_then(|dictionary| dictionary.at(self.epoch));
        version.map(|version| version.values(self.ipc, id)).transpose()
    }
}

impl Source for Ipc {
    fn schema(&self) -> &SchemaRef {
        &self.schema.schema
    }

    fn walk(&self, until: u64) -> Result<u64> {
        if until == u64::MAX {
            return self.walk_to_end();
        }
        self.walk_while(|walk| walk.rows < until)
    }

    fn num_batches(&self) -> Result<usize> {
        if let (Some(footer), false) = (&self.footer, self.options.partial) {
            return Ok(footer.batches.len());
        }
        self.walk(u64::MAX)?;
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
        Ok((batch < self.entries.len()).then_some(batch))
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        if self.footer.is_none() || self.options.partial {
            return self.locate_by_len(back);
        }
        let mut after = 0;
        for batch in (0..self.blocks.len()).rev() {
            let rows = self.decoded(batch)?.batch.header.rows as u64;
            if back - after <= rows {
                return Ok(Some((batch, (rows - (back - after)) as usize)));
            }
            after += rows;
        }
        Ok(None)
    }

    fn column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        let decoded = self.decoded(batch)?;
        let Some((place, node)) = decoded.columns.get(column).zip(self.schema.columns.get(column)) else {
            return Err(Error::argument(format!("there is no column {column}")));
        };
        if let Some(array) = place.get() {
            return Ok(array);
        }
        let resolver = Resolver { ipc: self, epoch: self.epoch_of_batch(batch)? };
        let array = self.decoder(&resolver).column(&decoded.batch, node, column);
        let array = array.map_err(|e| self.column_error(e, batch, column))?;
        Ok(place.get_or_init(|| Box::new(array)))
    }

    fn checked(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        if self.options.validate != Validate::None {
            self.check(batch, column)?;
        }
        self.column(batch, column)
    }

    fn check(&self, batch: usize, column: usize) -> Result<()> {
        let array = self.column(batch, column)?;
        if validate::is_trivial(array.data_type()) && array.nulls().is_none() {
            return Ok(());
        }
        let decoded = self.decoded(batch)?;
        let Some((checked, node)) = decoded.checked.get(column).zip(self.schema.columns.get(column)) else {
            return Ok(());
        };
        if checked.get().is_none() {
            let dictionaries = self.check_dictionaries(node, self.epoch_of_batch(batch)?);
            dictionaries.and_then(|()| validate::check(array)).map_err(|e| self.column_error(e, batch, column))?;
            checked.get_or_init(|| ());
        }
        Ok(())
    }

    fn plain<'a>(
        &'a self,
        batch: usize,
        rows: usize,
        columns: Widths<'_>,
        keep: bool,
        into: &mut Vec<Option<Plain<'a>>>,
    ) -> Result<()> {
        self.plain_columns((batch, rows), columns, keep, into)
    }

    fn dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        self.only_dictionary(column)
    }

    fn footprint(&self) -> Footprint {
        let size = self.bytes.len() as u64;
        let (mapped, read) = if self.mapped_file().is_some() { (size, 0) } else { (0, size) };
        Footprint { mapped, copied: read + self.copied.load(Ordering::Relaxed) }
    }

    fn look(&self, _batches: Range<usize>, when: Look) -> Result<()> {
        self.look_at(when)
    }

    fn resident(&self) -> Result<u64> {
        self.mapped_file().map_or(Ok(0), |mapping| Ok(mapping.resident()? as u64))
    }

    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn absolute_path(&self) -> Option<&Path> {
        self.absolute.as_deref().or(self.path())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Ipc {
    fn mapped_file(&self) -> Option<&Mapping> {
        self.bytes.mapping().filter(|mapping| mapping.path().is_some())
    }
}

impl Dataset {
    /// What [`Open::partial`](crate::Open::partial) left behind the last whole batch, in words: one entry for each file
    /// that is damaged or cut off, none where all was read. Walks to the end.
    pub fn left(&self) -> Result<Vec<String>> {
        self.len()?;
        let sources = self.sources().filter_map(|source| source.as_any().downcast_ref::<Ipc>());
        Ok(sources.filter_map(|ipc| ipc.left.get().cloned()).collect())
    }
}
