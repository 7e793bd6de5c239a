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
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::decode::{Batch, Decoder, Dictionaries};
use super::dictionary::{Link, State, Values, Version};
use super::flat::Table;
use super::guess;
use super::message::{BatchHeader, DictionaryHeader, Found, Frame, Header, Kind, Window, find, rows_of};
use super::schema::IpcSchema;
use super::shelf::Shelf;
use crate::buffer::Bytes;
use crate::dataset::{Dataset, Footprint, Source};
use crate::error::{Error, Result};
use crate::map::Mapping;
use crate::validate;

pub(super) const MAGIC: &[u8; 6] = b"ARROW1";

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
}

/// An IPC file or stream.
#[derive(Debug)]
pub(crate) struct Ipc {
    pub(super) bytes: Bytes,
    path: Option<PathBuf>,
    pub(super) schema: IpcSchema,
    /// What each dictionary id of the schema holds.
    pub(super) dictionaries: HashMap<i64, Values>,
    options: Options,
    /// The footer of a file; a stream has none.
    pub(super) footer: Option<Footer>,
    walk: Mutex<Walk>,
    entries: Shelf<Entry>,
    done: AtomicBool,
    /// What was left behind the last whole batch of a file opened with `partial`.
    left: OnceLock<String>,
    copied: AtomicU64,
}

/// Blocks of an IPC file, as its footer lists them.
#[derive(Debug)]
pub(super) struct Footer {
    dictionaries: Blocks,
    batches: Blocks,
}

/// The blocks of one kind, 24 bytes each, as they stand in the footer.
#[derive(Debug)]
struct Blocks(Vec<[u8; 24]>);

/// Where the walk stands.
#[derive(Debug)]
struct Walk {
    /// The next message of a stream, or the next block of a file.
    next: usize,
    rows: u64,
    window: Window,
    dictionaries: Arc<State>,
}

/// A message as the walk sees it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    frame: Frame,
    kind: Kind,
    /// The end of its body.
    end: usize,
    /// Rows of a record batch.
    rows: u64,
}

/// A record batch that the walk has found.
#[derive(Debug)]
struct Entry {
    frame: Frame,
    rows: Range<u64>,
    dictionaries: Arc<State>,
    /// Boxed: a walk makes many entries, and few of them are decoded.
    batch: OnceLock<Box<Decoded>>,
}

/// A record batch whose header has been read, and its columns as far as they were asked for.
#[derive(Debug)]
struct Decoded {
    batch: Batch,
    columns: Box<[OnceLock<ArrayData>]>,
    checked: Box<[OnceLock<()>]>,
}

impl Ipc {
    /// Opens bytes that are an IPC file or an IPC stream.
    pub(crate) fn open(bytes: Bytes, path: Option<&Path>, options: Options) -> Result<Ipc> {
        let mut window = Window::new();
        let head = bytes.len().min(MAGIC.len());
        let is_file = window.get(&bytes, 0, head)? == MAGIC;
        let (schema, footer, next) = match is_file {
            true => {
                let (schema, footer) = open_file(&bytes)?;
                (schema, Some(footer), 0)
            }
            false => {
                let (schema, next) = open_stream(&bytes, &mut window)?;
                (schema, None, next)
            }
        };
        let ipc = Ipc {
            dictionaries: Values::of_schema(&schema),
            bytes,
            path: path.map(Path::to_path_buf),
            schema,
            options,
            footer,
            walk: Mutex::new(Walk { next, rows: 0, window, dictionaries: Arc::default() }),
            entries: Shelf::new(),
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

    /// The footer lists the dictionaries of a file; no batch is read before all of them are known.
    fn find_dictionaries(&self, footer: &Footer) -> Result<()> {
        let mut walk = self.lock();
        let mut state = State::new();
        for number in 0..footer.dictionaries.len() {
            let frame = footer.dictionaries.frame(number, &self.bytes, &mut walk.window)?;
            self.add_dictionary(&mut state, frame, &mut walk.window)?;
        }
        walk.dictionaries = Arc::new(state);
        Ok(())
    }

    /// Takes the dictionary batch at `frame` into `state`.
    fn add_dictionary(&self, state: &mut State, frame: Frame, window: &mut Window) -> Result<()> {
        let metadata = window.get(&self.bytes, frame.metadata, frame.metadata_len)?;
        let header = Header::parse(metadata)?;
        if header.kind != Kind::DictionaryBatch {
            return Err(unexpected(frame, Kind::DictionaryBatch, header.kind));
        }
        body_end(&self.bytes, frame, header.body_len)?;
        let dictionary = DictionaryHeader::parse(header.table)?;
        let (id, rows) = (dictionary.id, rows_of(dictionary.data)?);
        let refuse =
            |what: &str| Err(Error::invalid(format!("the batch of dictionary {id} at byte {} {what}", frame.offset)));
        let Some(values) = self.dictionaries.get(&id) else { return refuse("is of no field of the schema") };
        let link = Link::new(frame, rows, values.nested(state));
        match state.get_mut(&id) {
            Some(version) if dictionary.is_delta => version.extend(link)?,
            None if dictionary.is_delta => return refuse("is a delta to nothing"),
            Some(_) if self.footer.is_some() => return refuse("replaces another, which a file can't say from when"),
            _ => drop(state.insert(id, Version::new(link))),
        }
        Ok(())
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
            let Found::Message(frame) = find(&self.bytes, &mut walk.window, walk.next)? else { return Ok(false) };
            let message = self.look(frame, &mut walk.window)?;
            match message.kind {
                Kind::RecordBatch => self.add_batch(walk, message)?,
                // Copied only when a batch found since the last dictionary keeps the state before this one.
                Kind::DictionaryBatch => {
                    self.add_dictionary(Arc::make_mut(&mut walk.dictionaries), frame, &mut walk.window)?;
                }
                other => return Err(unexpected(frame, Kind::RecordBatch, other)),
            }
            walk.next = message.end;
            if message.kind == Kind::RecordBatch {
                return Ok(true);
            }
        }
    }

    /// What the walk needs to know of the message at `frame`.
    fn look(&self, frame: Frame, window: &mut Window) -> Result<Seen> {
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
        let dictionaries = walk.dictionaries.clone();
        let entry = Entry { frame, rows: walk.rows..last, dictionaries, batch: OnceLock::new() };
        if !self.entries.push(entry) {
            return Err(at_message(Error::unsupported("more than 2^32 batches"), frame));
        }
        walk.rows = last;
        Ok(())
    }

    /// Walks while `more` says so and there is more.
    fn walk_while(&self, more: impl Fn(&Walk) -> bool) -> Result<u64> {
        let mut walk = self.lock();
        while !self.done.load(Ordering::Acquire) && more(&walk) {
            if !self.step(&mut walk).map_err(|e| self.locate_error(e))? {
                self.done.store(true, Ordering::Release);
            }
        }
        Ok(walk.rows)
    }

    fn entry(&self, batch: usize) -> Result<Option<&Entry>> {
        if batch >= self.entries.len() && !self.done.load(Ordering::Acquire) {
            self.walk_while(|_| batch >= self.entries.len())?;
        }
        Ok(self.entries.get(batch))
    }

    fn decoded(&self, batch: usize) -> Result<(&Entry, &Decoded)> {
        let entry = self.entry(batch)?.ok_or_else(|| Error::argument(format!("there is no batch {batch}")))?;
        if let Some(decoded) = entry.batch.get() {
            return Ok((entry, decoded));
        }
        let decoded =
            self.decode(entry.frame).map_err(|e| self.locate_error(e.context(format_args!("batch {batch}"))))?;
        Ok((entry, entry.batch.get_or_init(|| Box::new(decoded))))
    }

    fn decode(&self, frame: Frame) -> Result<Decoded> {
        let mut metadata = vec![0; frame.metadata_len];
        self.bytes.read_at(frame.metadata, &mut metadata)?;
        let header = Header::parse(&metadata)?;
        let body = (frame.body(), header.body_len);
        body_end(&self.bytes, frame, header.body_len)?;
        let columns = &self.schema.columns;
        let batch = Batch::new(BatchHeader::parse(header.table)?, header.version, body, columns)?;
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
        }
    }

    pub(super) fn note_copy(&self, bytes: usize) {
        self.copied.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn is_strict(&self) -> bool {
        self.options.strict
    }

    /// Walks to the end, so that every delta is known; an error on the way is left for whoever meets it.
    pub(super) fn walk_all(&self) {
        let _ = self.walk_while(|_| true);
    }

    fn locate_error(&self, e: Error) -> Error {
        match &self.path {
            Some(path) => e.at(path),
            None => e,
        }
    }

    fn column_error(&self, e: Error, batch: usize, column: usize) -> Error {
        let name = self.schema.schema.field(column).name();
        self.locate_error(e.context(format_args!("batch {batch}, column '{name}'")))
    }

    /// The frames of all messages that belong to the data, in file order, for `messages`.
    pub(super) fn frames(&self) -> Result<Vec<Frame>> {
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

fn open_stream(bytes: &Bytes, window: &mut Window) -> Result<(IpcSchema, usize)> {
    let found = find(bytes, window, 0);
    let frame = match found {
        Ok(Found::Message(frame)) => frame,
        Ok(Found::End) => return Err(guess::not_arrow(bytes, None)),
        Err(e) => return Err(guess::not_arrow(bytes, Some(e))),
    };
    let metadata = window.get(bytes, frame.metadata, frame.metadata_len)?;
    let schema = Header::parse(metadata).and_then(|header| match header.kind {
        Kind::Schema => IpcSchema::parse(header.table, metadata.len()),
        other => Err(unexpected(frame, Kind::Schema, other)),
    });
    match schema {
        Ok(schema) => Ok((schema, frame.body())),
        Err(e) => Err(guess::not_arrow(bytes, Some(e))),
    }
}

/// The footer stands at the end: its flatbuffer, its length as i32, the magic.
fn open_file(bytes: &Bytes) -> Result<(IpcSchema, Footer)> {
    let size = bytes.len();
    let cut = || {
        Error::invalid(
            "truncated: an Arrow IPC file ends with its footer and 'ARROW1', this one does not; it may still be being written, or cut off",
        )
    };
    let tail_len = size.min(4096);
    let mut tail = vec![0; tail_len];
    bytes.read_at(size - tail_len, &mut tail)?;
    let Some((rest, magic)) = tail.split_last_chunk::<6>() else { return Err(cut()) };
    let Some((rest, len)) = rest.split_last_chunk::<4>() else { return Err(cut()) };
    if magic != MAGIC || size < 8 + 10 {
        return Err(cut());
    }
    let len = i32::from_le_bytes(*len);
    let start = usize::try_from(len).ok().and_then(|len| (size - 10).checked_sub(len)).filter(|&start| start >= 8);
    let Some(start) = start else {
        return Err(Error::invalid(format!("the footer has a length of {len} bytes in a file of {size}")));
    };
    let len = size - 10 - start;
    let metadata = match rest.len().checked_sub(len) {
        Some(at) => rest[at..].to_vec(),
        None => {
            let mut metadata = vec![0; len];
            bytes.read_at(start, &mut metadata)?;
            metadata
        }
    };
    let table = Table::root(&metadata)?;
    let schema = table.table(1)?.ok_or_else(|| Error::invalid("the footer has no schema"))?;
    let schema = IpcSchema::parse(schema, metadata.len())?;
    let (dictionaries, batches) = (Blocks::parse(table, 2)?, Blocks::parse(table, 3)?);
    Ok((schema, Footer { dictionaries, batches }))
}

impl Footer {
    /// The schema's message and the blocks; there may be anything between them.
    fn frames(&self, bytes: &Bytes, window: &mut Window) -> Result<Vec<Frame>> {
        let mut frames = Vec::with_capacity(1 + self.dictionaries.len() + self.batches.len());
        // The magic is padded to 8 bytes by most writers, to 64 by arrow-rs.
        for offset in (8..=64).step_by(8) {
            if let Found::Message(frame) = find(bytes, window, offset)? {
                frames.push(frame);
                break;
            }
        }
        for blocks in [&self.dictionaries, &self.batches] {
            for number in 0..blocks.len() {
                frames.push(blocks.frame(number, bytes, window)?);
            }
        }
        frames.sort_by_key(|frame| frame.offset);
        frames.dedup();
        Ok(frames)
    }
}

impl Blocks {
    fn parse(footer: Table<'_>, field: usize) -> Result<Blocks> {
        let bytes = footer.vector(field, 24)?.map_or(&[][..], |blocks| blocks.bytes());
        Ok(Blocks(bytes.as_chunks().0.to_vec()))
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// A block is the message's offset, the length of prefix and metadata, and the length of the body (File.fbs).
    fn frame(&self, number: usize, bytes: &Bytes, window: &mut Window) -> Result<Frame> {
        let [offset, metadata_len] = self.0.get(number).map_or([0; 2], |block| {
            let (words, _) = block.as_chunks::<8>();
            // The length is an i32, followed by padding.
            [i64::from_le_bytes(words[0]), i64::from(i64::from_le_bytes(words[1]) as i32)]
        });
        let outside = || {
            let size = bytes.len();
            Error::invalid(format!(
                "block {number} of the footer: offset {offset} and metadata length {metadata_len} fit no message in a \
                 file of {size} bytes"
            ))
        };
        let (Ok(offset), Ok(metadata_len)) = (usize::try_from(offset), usize::try_from(metadata_len)) else {
            return Err(outside());
        };
        let body = offset.checked_add(metadata_len).filter(|&body| body <= bytes.len()).ok_or_else(outside)?;
        match find(bytes, window, offset)? {
            // The block says where the body begins; the message's own prefix may leave out some padding before it.
            Found::Message(frame) if frame.body() <= body => Ok(Frame { metadata_len: body - frame.metadata, ..frame }),
            _ => Err(outside()),
        }
    }
}

/// The end of a message's body, which must be inside the file.
fn body_end(bytes: &Bytes, frame: Frame, body_len: usize) -> Result<usize> {
    let end = frame.body().checked_add(body_len).filter(|&end| end <= bytes.len());
    end.ok_or_else(|| {
        let (offset, left) = (frame.offset, bytes.len().saturating_sub(frame.body()));
        Error::invalid(format!(
            "truncated: the message at byte {offset} has a body of {body_len} bytes, but only {left} follow"
        ))
    })
}

fn unexpected(frame: Frame, expected: Kind, got: Kind) -> Error {
    let (expected, got) = (expected.name(), got.name());
    Error::invalid(format!("the message at byte {} is a {got}, expected a {expected}", frame.offset))
}

fn at_message(e: Error, frame: Frame) -> Error {
    e.context(format_args!("the message at byte {}", frame.offset))
}

/// Dictionaries as they are for one batch of `ipc`.
pub(super) struct Resolver<'a> {
    pub ipc: &'a Ipc,
    pub state: &'a State,
}

impl Dictionaries for Resolver<'_> {
    fn values(&self, id: i64) -> Result<Option<ArrayData>> {
        self.state.get(&id).map(|version| version.values(self.ipc, id)).transpose()
    }
}

impl Source for Ipc {
    fn schema(&self) -> &SchemaRef {
        &self.schema.schema
    }

    fn walk(&self, until: u64) -> Result<u64> {
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

    fn column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        let (entry, decoded) = self.decoded(batch)?;
        let Some((place, node)) = decoded.columns.get(column).zip(self.schema.columns.get(column)) else {
            return Err(Error::argument(format!("there is no column {column}")));
        };
        if let Some(array) = place.get() {
            return Ok(array);
        }
        let resolver = Resolver { ipc: self, state: &entry.dictionaries };
        let array = self.decoder(&resolver).column(&decoded.batch, node, column);
        let array = array.map_err(|e| self.column_error(e, batch, column))?;
        Ok(place.get_or_init(|| array))
    }

    fn checked(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        let array = self.column(batch, column)?;
        if self.options.validate == Validate::None || validate::is_trivial(array.data_type()) && array.nulls().is_none()
        {
            return Ok(array);
        }
        let (entry, decoded) = self.decoded(batch)?;
        let Some(checked) = decoded.checked.get(column) else { return Ok(array) };
        if checked.get().is_none() {
            let state = &entry.dictionaries;
            let node = self.schema.columns.get(column);
            let dictionaries = node.map_or(Ok(()), |node| self.check_dictionaries(node, state));
            dictionaries.and_then(|()| validate::check(array)).map_err(|e| self.column_error(e, batch, column))?;
            checked.get_or_init(|| ());
        }
        Ok(array)
    }

    fn footprint(&self) -> Footprint {
        let size = self.bytes.len() as u64;
        let (mapped, read) = if self.mapped_file().is_some() { (size, 0) } else { (0, size) };
        Footprint { mapped, copied: read + self.copied.load(Ordering::Relaxed) }
    }

    fn resident(&self) -> Result<u64> {
        self.mapped_file().map_or(Ok(0), |mapping| Ok(mapping.resident()? as u64))
    }

    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Ipc {
    fn mapped_file(&self) -> Option<&Mapping> {
        self.bytes.mapping().filter(|mapping| mapping.path().is_some())
    }

    fn check_dictionaries(&self, node: &super::schema::Node, state: &State) -> Result<()> {
        let mut outcome = Ok(());
        node.dictionaries(&mut |id, _| {
            if let (Ok(()), Some(version)) = (&outcome, state.get(&id)) {
                outcome = version.check(self, id);
            }
        });
        outcome
    }
}

impl Dataset {
    /// What [`Open::partial`](crate::Open::partial) left behind the last whole batch, in words: one entry for each file
    /// that is damaged or cut off, none where all was read. Walks to the end.
    pub fn left(&self) -> Result<Vec<String>> {
        self.len()?;
        let sources = self.pieces().iter().filter_map(|piece| piece.source.as_any().downcast_ref::<Ipc>());
        Ok(sources.filter_map(|ipc| ipc.left.get().cloned()).collect())
    }
}
