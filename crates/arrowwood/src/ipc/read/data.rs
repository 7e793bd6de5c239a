//! [`IpcData`]: the immutable part of an open IPC file or stream. The walk and the dictionaries build on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::decode::{Batch, BodyPosition, Decoder, DictionarySource};
use crate::array::Bytes;
use crate::error::{Error, Result};
use crate::ipc::framing::{
    BatchHeader, END_OF_STREAM, Footer, IpcSchema, LEGACY_PREFIX, MAGIC, MessageFrame, MessageHeader, MessageKind,
    NextMessage, SchemaCache, Window, find_message, first_message, is_segment, read_footer, row_count, sniff,
};
use crate::map::{AllowedChanges, ChangeCheck, Mapping};

/// When the values of a column are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// When the column is first used, once per batch.
    #[default]
    Lazy,
    /// When the file is opened.
    Full,
}

/// Options for opening an IPC file or stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadOptions {
    pub validate: Validation,
    /// Set to refuse copies: columns that can't be read in place are an error.
    pub strict: bool,
    /// Set to end the batches at the first damaged message, instead of with an error.
    pub partial: bool,
    /// The limit of bytes that all compressed buffers together may be decompressed to.
    pub max_unpacked: Option<u64>,
    /// Set to check also the parts that readers ignore: bitmaps of columns that declare no nulls.
    pub thorough: bool,
}

/// The bytes, schema, footer and options of an IPC file or stream. Only the count of copied bytes changes.
#[derive(Debug)]
pub(super) struct IpcData {
    pub bytes: Bytes,
    pub path: Option<PathBuf>,
    /// The absolute path, if `path` is relative.
    pub absolute: Option<PathBuf>,
    /// The address that opens the object again, if the bytes are from a store.
    pub address: Option<Arc<Path>>,
    pub schema: Arc<IpcSchema>,
    pub options: ReadOptions,
    /// The footer of a file; a stream has none.
    pub footer: Option<Footer>,
    /// True for a stream in the framing before format 0.15.
    is_legacy: bool,
    copied: AtomicU64,
}

/// The parts of a message that the walk needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageSummary {
    pub frame: MessageFrame,
    pub kind: MessageKind,
    /// The end of the body.
    pub end: usize,
    /// The rows of a record batch; 0 for other messages.
    pub rows: u64,
}

/// The result of opening a file or stream.
struct OpenedIpc {
    schema: Arc<IpcSchema>,
    footer: Option<Footer>,
    /// The offset of the message after the schema's.
    next: usize,
    is_legacy: bool,
}

impl IpcData {
    /// Opens an IPC file or IPC stream, whose schema may be cached. Also returns the offset of the message after the
    /// schema's.
    pub(super) fn open(
        bytes: Bytes,
        path: Option<&Path>,
        options: ReadOptions,
        schema_cache: &SchemaCache,
        window: &mut Window,
    ) -> Result<(IpcData, usize)> {
        let OpenedIpc { schema, footer, next, is_legacy } = open_file_or_stream(&bytes, options, schema_cache, window)?;
        if let Some(mapping) = bytes.mapping() {
            match footer {
                Some(_) => mapping.set_allowed_changes(AllowedChanges::Still(is_segment)),
                None => mapping.allow_append(),
            }
        }
        let data = IpcData {
            path: path.map(Path::to_path_buf),
            absolute: path
                .filter(|path| path.is_relative() && bytes.store_address().is_none())
                .and_then(|path| std::path::absolute(path).ok()),
            address: bytes.store_address().cloned(),
            bytes,
            schema,
            options,
            footer,
            is_legacy,
            copied: AtomicU64::new(0),
        };
        Ok((data, next))
    }

    /// Reads the parts of the message at `frame` that the walk needs.
    pub(super) fn read_summary(&self, frame: MessageFrame, window: &mut Window) -> Result<MessageSummary> {
        let metadata = window.get(&self.bytes, frame.metadata, frame.metadata_len)?;
        let header = MessageHeader::parse(metadata).map_err(|e| at_message(e, frame))?;
        let end = body_end(&self.bytes, frame, header.body_len)?;
        let rows = match header.kind {
            MessageKind::RecordBatch => row_count(header.table).map_err(|e| at_message(e, frame))? as u64,
            _ => 0,
        };
        Ok(MessageSummary { frame, kind: header.kind, end, rows })
    }

    /// Returns true if a zero word at byte `offset` ends the stream: in the framing before format 0.15, or with at most
    /// padding after it.
    pub(super) fn ends_with_zeros(&self, offset: usize) -> bool {
        assert!(offset <= self.bytes.len(), "a zero word at byte {offset} of {}", self.bytes.len());
        self.is_legacy || self.bytes.len() - offset <= END_OF_STREAM.len()
    }

    /// Checks that only zeros follow the end-of-stream marker at byte `offset`: memory is allocated in pages.
    pub(super) fn check_end(&self, offset: usize) -> Result<()> {
        let marker_len = if self.is_legacy { LEGACY_PREFIX } else { END_OF_STREAM.len() };
        let end = (offset + marker_len).min(self.bytes.len());
        let rest = self.bytes.len() - end;
        let trailing = self.bytes.read_to_vec(end, rest.min(MAX_CHECKED_TRAILING))?;
        if trailing.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the stream ends at byte {end}, and {rest} bytes follow, perhaps of another stream: open each by itself"
        )))
    }

    /// Returns the frames of all messages that belong to the data, in file order.
    pub(super) fn frames(&self) -> Result<Vec<MessageFrame>> {
        let mut window = Window::new();
        match &self.footer {
            Some(footer) => footer.frames(&self.bytes, &mut window),
            None => self.stream_frames(&mut window),
        }
    }

    fn stream_frames(&self, window: &mut Window) -> Result<Vec<MessageFrame>> {
        let mut frames = Vec::new();
        let mut next = 0;
        while let NextMessage::Message(frame) = find_message(&self.bytes, window, next)? {
            let metadata = window.get(&self.bytes, frame.metadata, frame.metadata_len)?;
            let header = MessageHeader::parse(metadata).map_err(|e| at_message(e, frame))?;
            next = body_end(&self.bytes, frame, header.body_len)?;
            frames.push(frame);
        }
        Ok(frames)
    }

    /// Reads the header of the batch whose message is at `frame`, and checks it against the schema.
    pub(super) fn read_batch_header(&self, frame: MessageFrame) -> Result<Batch> {
        let metadata = self.bytes.read_to_vec(frame.metadata, frame.metadata_len)?;
        let header = MessageHeader::parse(&metadata)?;
        let body = BodyPosition { offset: frame.body(), len: header.body_len };
        body_end(&self.bytes, frame, header.body_len)?;
        Batch::new(BatchHeader::parse(header.table)?, header.version, body, &self.schema.columns)
    }

    pub(super) fn decoder<'a>(&'a self, dictionaries: &'a dyn DictionarySource) -> Decoder<'a> {
        Decoder {
            bytes: &self.bytes,
            schema: &self.schema,
            dictionaries,
            copied: &self.copied,
            strict: self.options.strict,
            max_unpacked: self.options.max_unpacked,
            thorough: self.options.thorough,
        }
    }

    /// Adds to the number of copied bytes.
    pub(super) fn count_copied(&self, bytes: usize) {
        self.copied.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Checks that the file is unchanged.
    pub(super) fn check_unchanged(&self, when: ChangeCheck) -> Result<()> {
        if let Some(fetch) = self.bytes.fetch() {
            return fetch.check_unchanged();
        }
        self.bytes.mapping().map_or(Ok(()), |mapping| mapping.check_unchanged(when).map_err(Error::from))
    }

    /// Returns the file whose pages are the bytes.
    pub(super) fn mapped_file(&self) -> Option<&Mapping> {
        self.bytes.mapping().filter(|mapping| mapping.path().is_some())
    }

    /// Adds the path to an error.
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
}

fn open_file_or_stream(
    bytes: &Bytes,
    options: ReadOptions,
    schema_cache: &SchemaCache,
    window: &mut Window,
) -> Result<OpenedIpc> {
    let has_magic = is_file(bytes, window)?;
    // A file whose magic is damaged still has its footer.
    if !has_magic && !options.partial {
        return open_stream(bytes, schema_cache, window, 0);
    }
    match read_footer(bytes, schema_cache) {
        Err(e) if options.partial && e.is_corruption() => {
            // A file that was cut off before its footer is a stream after its magic.
            let start = match has_magic {
                true => first_message(bytes, window)?.map_or(bytes.len(), |frame| frame.offset),
                false => 0,
            };
            open_stream(bytes, schema_cache, window, start)
        }
        Err(e) => Err(e),
        Ok((schema, footer)) => Ok(OpenedIpc { schema, footer: Some(footer), next: 0, is_legacy: false }),
    }
}

/// Returns true if the bytes begin, or in a store end, like a file. A store's last bytes were fetched when it was
/// opened.
fn is_file(bytes: &Bytes, window: &mut Window) -> Result<bool> {
    let size = bytes.len();
    if bytes.fetch().is_some() && size >= MAGIC.len() {
        let mut end = [0; MAGIC.len()];
        bytes.read_at(size - MAGIC.len(), &mut end)?;
        if end == *MAGIC {
            return Ok(true);
        }
    }
    Ok(window.get(bytes, 0, size.min(MAGIC.len()))? == MAGIC)
}

fn open_stream(bytes: &Bytes, schema_cache: &SchemaCache, window: &mut Window, start: usize) -> Result<OpenedIpc> {
    let frame = match find_message(bytes, window, start) {
        Ok(NextMessage::Message(frame)) => frame,
        Ok(NextMessage::End | NextMessage::Zeros) => return Err(sniff::not_arrow_error(bytes, None)),
        Err(e) => return Err(sniff::not_arrow_error(bytes, Some(e))),
    };
    let metadata = window.get(bytes, frame.metadata, frame.metadata_len)?;
    let schema = MessageHeader::parse(metadata).and_then(|header| match header.kind {
        MessageKind::Schema => schema_cache.parse(header.table, metadata.len()),
        other => Err(unexpected(frame, MessageKind::Schema, other)),
    });
    match schema {
        Ok(schema) => Ok(OpenedIpc { schema, footer: None, next: frame.body(), is_legacy: frame.is_legacy() }),
        Err(e) => Err(sniff::not_arrow_error(bytes, Some(e))),
    }
}

/// Returns the end of a message's body, which must be inside the file.
pub(super) fn body_end(bytes: &Bytes, frame: MessageFrame, body_len: usize) -> Result<usize> {
    match frame.body().checked_add(body_len) {
        Some(end) if end <= bytes.len() => Ok(end),
        _ => {
            let offset = frame.offset;
            let left = bytes.len().saturating_sub(frame.body());
            Err(Error::invalid(format!(
                "truncated: the message at byte {offset} has a body of {body_len} bytes, but only {left} follow"
            )))
        }
    }
}

/// The limit of bytes after the end of a stream that are checked to be zeros.
const MAX_CHECKED_TRAILING: usize = 64 << 10;

pub(super) fn never_written(offset: usize) -> Error {
    Error::invalid(format!(
        "truncated: zeros at byte {offset}, where a message or the end of the stream was expected; the writer did not \
         finish"
    ))
}

pub(super) fn unexpected(frame: MessageFrame, expected: MessageKind, got: MessageKind) -> Error {
    Error::invalid(format!("the message at byte {} is a {}, expected a {}", frame.offset, got.name(), expected.name()))
}

pub(super) fn at_message(e: Error, frame: MessageFrame) -> Error {
    e.context(format_args!("the message at byte {}", frame.offset))
}
