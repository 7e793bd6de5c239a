//! Writes a dataset as an IPC file or stream. Every body and buffer begins at a multiple of 64 bytes.
//!
//! Buffers go from their memory to the sink; no body is assembled first. A file is written under another name beside
//! its path and renamed when complete, so nobody opens half a file, and a dataset can replace the file it is mapped
//! from.

use std::fs::File;
use std::io::{self, BufWriter, IoSlice, Write};
use std::path::{Path, PathBuf};

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema, SchemaRef};

use super::encode::Body;
use super::unify::Dictionaries;
use crate::dataset::{BatchSlice, Dataset, PushedRows, schema_difference};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{
    BatchMetadata, Block, Compression, Format, IpcSchema, MAGIC, Node, ROWS, TABLE, compress, metadata, rows_note,
};
use crate::map::{ChangeCheck, UnfinishedFile};
use crate::types::layout::children;
use crate::types::type_name;

/// Bodies and buffers begin at multiples of this many bytes (Columnar Format, *Buffer Alignment and Padding*).
pub(super) const ALIGNMENT: usize = 64;
const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// File or stream.
    pub format: Format,
    /// The codec of the bodies. Uncompressed bodies can be read in place.
    pub compression: Option<Compression>,
    /// The limit of rows of a record batch; batches with fewer rows are written as they are.
    pub max_rows: Option<u64>,
}

/// Writes `dataset` to the file at `path`, which is replaced atomically, as by [`UnfinishedFile`](crate::UnfinishedFile).
///
/// # Errors
/// `InvalidData` for a damaged value, `InvalidArgument` if dictionaries can't be merged or the name has the extension
/// of another format, such as `.parquet` or `.zst`, `Io`.
pub fn write(dataset: &Dataset, path: impl AsRef<Path>, options: &WriteOptions) -> Result<()> {
    let path = path.as_ref();
    refuse_other_format(path).map_err(|e| e.at(path))?;
    let done = match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => write_through(dataset, path, options),
        _ => write_beside(dataset, path, options),
    };
    done.map_err(|e| e.at(path))
}

/// Readers go by the extension of a file, and would be misled.
fn refuse_other_format(path: &Path) -> Result<()> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    let format = match extension.as_str() {
        "parquet" | "pq" => "Parquet",
        "csv" | "tsv" => "CSV",
        "json" | "jsonl" | "ndjson" => "JSON",
        "bz2" | "gz" | "lz4" | "xz" | "zip" | "zst" => {
            return Err(Error::invalid_argument(
                "this makes an Arrow file, and the name is that of a compressed one; call it *.arrow: the option of compression \
                 is for what is in it",
            ));
        }
        _ => return Ok(()),
    };
    let name = path.file_name().unwrap_or_default().display();
    Err(Error::invalid_argument(format!(
        "this makes an Arrow file, and the name is that of a {format} file; call it *.arrow. {format} is written by `arrowwood \
         export`, and in Python by SQL: ds.sql(\"copy self to '{name}'\")"
    )))
}

/// Pipes and devices can't be replaced.
fn write_through(dataset: &Dataset, path: &Path, options: &WriteOptions) -> Result<()> {
    let mut sink = File::options().write(true).open(path).map_err(|e| Error::io("opening it for writing", &e))?;
    write_to(dataset, &mut sink, options)
}

fn write_beside(dataset: &Dataset, path: &Path, options: &WriteOptions) -> Result<()> {
    let mut file = unfinished(path)?;
    write_to(dataset, &mut file, options)?;
    named(file, path)
}

/// A new file, which will be named `path`.
fn unfinished(path: &Path) -> Result<UnfinishedFile> {
    path.file_name().ok_or_else(|| Error::invalid_argument("not the name of a file"))?;
    UnfinishedFile::create_beside(path).map_err(|e| Error::io("creating the file", &e))
}

fn named(file: UnfinishedFile, path: &Path) -> Result<()> {
    file.persist(path).map_err(|e| Error::io("giving the written file its name", &e))
}

/// Writes `dataset` to `sink`.
///
/// # Errors
/// Those of [`write()`]. The sink keeps what was written before an error.
pub fn write_to(dataset: &Dataset, sink: &mut impl Write, options: &WriteOptions) -> Result<()> {
    write_with_metadata(dataset, sink, options, &[])
}

/// As [`write_to`], with metadata of the file's footer: pairs of key and value.
///
/// # Errors
/// Those of [`write()`].
pub(crate) fn write_with_metadata(
    dataset: &Dataset,
    sink: &mut impl Write,
    options: &WriteOptions,
    notes: &[(&str, String)],
) -> Result<()> {
    dataset.with_change_check(ChangeCheck::Now, || write_all(dataset, sink, options, |_| notes.to_vec()))
}

/// Writes `dataset` to `sink` as a file in batches of up to `rows` rows. Its footer also says how many rows each has, so that
/// readers of an object store find a row without fetching the headers before it.
///
/// # Errors
/// Those of [`write()`]. The sink keeps what was written before an error.
pub fn write_indexed(dataset: &Dataset, sink: &mut impl Write, rows: u64) -> Result<()> {
    write_with_index(dataset, sink, rows, None)
}

/// As [`write_indexed`], of rows of a table. The footer also says which they are: see [`Dataset::pushed_rows`].
///
/// # Errors
/// Those of [`write()`]. The sink keeps what was written before an error.
pub fn write_pushed(dataset: &Dataset, sink: &mut impl Write, rows: u64, from: &PushedRows) -> Result<()> {
    write_with_index(dataset, sink, rows, Some(from))
}

fn write_with_index(dataset: &Dataset, sink: &mut impl Write, rows: u64, from: Option<&PushedRows>) -> Result<()> {
    let options = WriteOptions { max_rows: Some(rows), ..WriteOptions::default() };
    let notes = |blocks: &WrittenBlocks| {
        let index = (ROWS, rows_note(&blocks.rows));
        std::iter::once(index).chain(from.map(|from| (TABLE, from.to_string()))).collect()
    };
    dataset.with_change_check(ChangeCheck::Now, || write_all(dataset, sink, &options, notes))
}

fn write_all<'a>(
    dataset: &Dataset,
    sink: &mut impl Write,
    options: &WriteOptions,
    notes: impl Fn(&WrittenBlocks) -> Vec<(&'a str, String)>,
) -> Result<()> {
    // Large bodies bypass this buffer.
    let sink = BufWriter::with_capacity(1 << 16, sink);
    let mut out = MessageSink::new(sink, options.compression);
    if options.format == Format::File {
        out.put(MAGIC)?;
        out.put(&[0; 2])?;
    }
    let schema = out.schema(dataset.schema())?;
    let mut dictionaries = Dictionaries::new(options.format, &schema);
    if options.format == Format::File && dictionaries.are_any() {
        dictionaries.gather_longest(dataset, &schema.columns)?;
        for batch in dataset.batches() {
            pieces(&batch?, options.max_rows)?.try_for_each(|rows| dictionaries.gather(&rows?, &schema.columns))?;
        }
        dictionaries.merge(&schema.columns)?;
    }
    let mut blocks = WrittenBlocks::default();
    for batch in dataset.batches() {
        let batch = batch?;
        for rows in pieces(&batch, options.max_rows)? {
            out.batch(&rows?, &schema, &mut dictionaries, &mut blocks)?;
        }
    }
    out.dictionaries(&mut dictionaries, &mut blocks)?;
    out.end()?;
    if options.format == Format::File {
        out.footer(dataset.schema(), &blocks, &notes(&blocks))?;
    }
    out.flush()
}

/// Writes record batches as an Arrow IPC stream, each at once and without copying it.
///
/// The reader of `sink` may read them as they arrive: see [`read_stream`](crate::read_stream). Wrap a sink in a
/// `BufWriter` if small writes to it are slow.
///
/// ```
/// # use arrowwood::{Dataset, GrowableBuffer, StreamWriter};
/// # let dataset = Dataset::from_batches(arrow_schema::Schema::empty().into(), vec![])?;
/// let mut writer = StreamWriter::new(GrowableBuffer::new(), dataset.schema().clone(), None)?;
/// writer.write(&dataset)?;
/// writer.write(&dataset)?;
/// let memory = writer.finish()?;
/// # assert!(memory.len() > 0);
/// # Ok::<(), arrowwood::Error>(())
/// ```
pub struct StreamWriter<W: Write> {
    out: MessageSink<W>,
    schema: SchemaRef,
    nodes: IpcSchema,
    dictionaries: Dictionaries,
    batches: usize,
}

impl<W: Write> StreamWriter<W> {
    /// Creates a writer and writes the schema.
    ///
    /// # Errors
    /// `Io` of the sink.
    pub fn new(sink: W, schema: SchemaRef, compression: Option<Compression>) -> Result<StreamWriter<W>> {
        let mut out = MessageSink::new(sink, compression);
        let nodes = out.schema(&schema)?;
        out.flush()?;
        let dictionaries = Dictionaries::new(Format::Stream, &nodes);
        Ok(StreamWriter { out, schema, nodes, dictionaries, batches: 0 })
    }

    /// Returns the schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the sink.
    pub fn get_ref(&self) -> &W {
        &self.out.sink
    }

    /// Returns the number of bytes written.
    pub fn nbytes(&self) -> usize {
        self.out.at
    }

    /// Returns the number of record batches written.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// Writes the rows of a dataset, one record batch for each of its batches.
    ///
    /// # Errors
    /// `SchemaMismatch`; `InvalidData` for a damaged value, whose batch is not written; `Io` of the sink, after which
    /// nothing can be written.
    pub fn write(&mut self, data: &Dataset) -> Result<()> {
        if let Some(difference) = schema_difference(&self.schema, data.schema()) {
            let message = format!("the rows have another schema than the stream: {difference}");
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
        let mut blocks = WrittenBlocks::default();
        data.with_change_check(ChangeCheck::Now, || {
            for part in data.parts() {
                self.out.part(&part?, &self.nodes, &mut self.dictionaries, &mut blocks)?;
                self.batches += 1;
            }
            self.out.flush()
        })
    }

    /// Writes the end of the stream and returns the sink.
    ///
    /// # Errors
    /// `Io` of the sink.
    pub fn finish(mut self) -> Result<W> {
        self.out.end()?;
        self.out.flush()?;
        Ok(self.out.sink)
    }
}

impl<W: Write> std::fmt::Debug for StreamWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamWriter").field("schema", &self.schema).field("batches", &self.batches).finish()
    }
}

/// Writes record batches to an Arrow file, each at once: the file gets its name when it is complete.
///
/// Columns with dictionaries can't be written this way: a file has one dictionary for all batches. Collect them, and
/// use [`write()`].
pub struct FileWriter {
    out: MessageSink<BufWriter<UnfinishedFile>>,
    schema: SchemaRef,
    nodes: IpcSchema,
    dictionaries: Dictionaries,
    blocks: WrittenBlocks,
    path: PathBuf,
}

impl FileWriter {
    /// Begins the file that will be at `path`.
    ///
    /// # Errors
    /// `Unsupported` for columns with dictionaries; `InvalidArgument` for a name of another format; `Io`.
    pub fn create(path: impl AsRef<Path>, schema: SchemaRef, compression: Option<Compression>) -> Result<FileWriter> {
        let path = path.as_ref();
        refuse_other_format(path).map_err(|e| e.at(path))?;
        if let Some(field) = schema.fields().iter().find(|field| has_dictionary(field.data_type())) {
            let name = field.name();
            return Err(Error::unsupported(format!(
                "column '{name}' has a dictionary, and a file has one for all batches; collect them before"
            )));
        }
        let file = unfinished(path).map_err(|e| e.at(path))?;
        let mut out = MessageSink::new(BufWriter::with_capacity(1 << 16, file), compression);
        out.put(MAGIC)?;
        out.put(&[0; 2])?;
        let nodes = out.schema(&schema)?;
        let dictionaries = Dictionaries::new(Format::File, &nodes);
        let path = path.to_path_buf();
        Ok(FileWriter { out, schema, nodes, dictionaries, blocks: WrittenBlocks::default(), path })
    }

    /// Writes the rows of a dataset, one record batch for each of its batches.
    ///
    /// # Errors
    /// `SchemaMismatch`; `InvalidData` for a damaged value, whose batch is not written; `Io`.
    pub fn write(&mut self, data: &Dataset) -> Result<()> {
        if let Some(difference) = schema_difference(&self.schema, data.schema()) {
            let message = format!("the rows have another schema than the file: {difference}");
            return Err(Error::new(ErrorKind::SchemaMismatch, message).at(&self.path));
        }
        let FileWriter { out, nodes, dictionaries, blocks, .. } = self;
        data.with_change_check(ChangeCheck::Now, || {
            data.parts().try_for_each(|part| out.part(&part?, nodes, dictionaries, blocks))
        })
        .map_err(|e| e.at(&self.path))
    }

    /// Writes the footer, and gives the file its name.
    ///
    /// # Errors
    /// `Io`.
    pub fn finish(mut self) -> Result<()> {
        let done = self.out.end().and_then(|()| self.out.footer(&self.schema, &self.blocks, &[]));
        let done = done.and_then(|()| self.out.flush());
        let failed = |e| Error::io("writing the rest", &e);
        let file = done.and_then(|()| self.out.sink.into_inner().map_err(|e| failed(e.into_error())));
        file.and_then(|file| named(file, &self.path)).map_err(|e| e.at(&self.path))
    }
}

impl std::fmt::Debug for FileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWriter").field("path", &self.path).field("schema", &self.schema).finish_non_exhaustive()
    }
}

fn has_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
        || children(data_type).into_iter().any(|child| has_dictionary(child.data_type()))
}

/// Cuts the batch into pieces of at most `max_rows` rows; an empty batch is one piece.
fn pieces(batch: &Dataset, max_rows: Option<u64>) -> Result<impl Iterator<Item = Result<Dataset>>> {
    let rows = batch.len()?;
    let step = max_rows.unwrap_or(rows).max(1);
    Ok((0..rows.div_ceil(step).max(1))
        .map(move |piece| if rows <= step { Ok(batch.clone()) } else { batch.slice(piece * step, step) }))
}

/// A field has one dictionary in the format (Schema.fbs, *DictionaryEncoding*): keys can't stand for other keys.
fn check_keys(data_type: &DataType) -> Result<()> {
    let DataType::Dictionary(_, values) = data_type else {
        return children(data_type).into_iter().try_for_each(|child| check_keys(child.data_type()));
    };
    if matches!(**values, DataType::Dictionary(..)) {
        let name = type_name(data_type);
        return Err(Error::unsupported(format!(
            "{name} can't be written: Arrow IPC has no dictionaries of dictionaries"
        )));
    }
    check_keys(values)
}

/// The blocks listed in the footer.
#[derive(Default)]
struct WrittenBlocks {
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
    /// The rows of each record batch.
    rows: Vec<u64>,
}

struct MessageSink<W: Write> {
    sink: W,
    at: usize,
    compression: Option<Compression>,
    /// The last batch's metadata: most batches of a stream are of one shape.
    last: Option<(BatchMetadata, Vec<u8>)>,
    /// Reused to save allocations.
    body: Body,
    /// Whether only a part of a message was written.
    is_broken: bool,
}

impl<W: Write> MessageSink<W> {
    fn new(sink: W, compression: Option<Compression>) -> MessageSink<W> {
        MessageSink { sink, at: 0, compression, last: None, body: Body::default(), is_broken: false }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.put_all(&mut [IoSlice::new(bytes)])
    }

    /// Writes the slices, with one call if the system supports it.
    fn put_all(&mut self, mut slices: &mut [IoSlice<'_>]) -> Result<()> {
        /// Linux and macOS take no more at once (writev(2), `IOV_MAX`).
        const MOST: usize = 1024;
        if self.is_broken {
            return Err(Error::new(ErrorKind::Io, "writing an Arrow stream: it was broken off before"));
        }
        self.at += slices.iter().map(|slice| slice.len()).sum::<usize>();
        self.is_broken = true;
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let most = slices.len().min(MOST);
            match self.sink.write_vectored(&slices[..most]) {
                Ok(0) => return Err(Error::io("writing", &io::ErrorKind::WriteZero.into())),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return Err(Error::io("writing", &e)),
            }
        }
        self.is_broken = false;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.sink.flush().map_err(|e| Error::io("writing", &e))
    }

    /// Writes the Schema message and parses it, which assigns dictionary ids to the nodes.
    fn schema(&mut self, schema: &Schema) -> Result<IpcSchema> {
        schema.fields().iter().try_for_each(|field| {
            check_keys(field.data_type()).map_err(|e| e.context(format_args!("column '{}'", field.name())))
        })?;
        let metadata = metadata::schema_metadata(schema);
        self.message(&metadata, &[])?;
        IpcSchema::parse_message(&metadata)
    }

    /// Writes a dataset of one batch, which may have no rows.
    fn batch(
        &mut self,
        batch: &Dataset,
        schema: &IpcSchema,
        dictionaries: &mut Dictionaries,
        blocks: &mut WrittenBlocks,
    ) -> Result<()> {
        if let Some(part) = batch.parts().next() {
            return self.part(&part?, schema, dictionaries, blocks);
        }
        let mut body = Body::default();
        let empty = |node: &Node| ArrayData::new_empty(node.data_type());
        schema.columns.iter().try_for_each(|node| body.add(node, &empty(node), dictionaries))?;
        self.send(0, &body, dictionaries, blocks)
    }

    fn part(
        &mut self,
        part: &BatchSlice<'_>,
        schema: &IpcSchema,
        dictionaries: &mut Dictionaries,
        blocks: &mut WrittenBlocks,
    ) -> Result<()> {
        let mut body = std::mem::take(&mut self.body);
        debug_assert_eq!(schema.columns.len(), part.piece.columns.len(), "a node for each column");
        for (node, &column) in schema.columns.iter().zip(part.piece.columns.iter()) {
            let array = part.checked(column)?;
            if !body.add_plain(node, array, &part.rows) {
                body.add(node, &part.column(column)?, dictionaries)?;
            }
        }
        let sent = self.send(part.rows.len(), &body, dictionaries, blocks);
        // Releases the buffers.
        body.clear();
        self.body = body;
        sent
    }

    fn send(
        &mut self,
        rows: usize,
        body: &Body,
        dictionaries: &mut Dictionaries,
        blocks: &mut WrittenBlocks,
    ) -> Result<()> {
        self.dictionaries(dictionaries, blocks)?;
        let block = self.record_batch(rows, body, None)?;
        blocks.batches.push(block);
        blocks.rows.push(rows as u64);
        Ok(())
    }

    /// Writes the dictionary batches that the last encoded batch needs.
    fn dictionaries(&mut self, dictionaries: &mut Dictionaries, blocks: &mut WrittenBlocks) -> Result<()> {
        for pending in dictionaries.pending()? {
            let block = self.record_batch(pending.rows, &pending.body, Some((pending.id, pending.is_delta)))?;
            blocks.dictionaries.push(block);
        }
        Ok(())
    }

    fn record_batch(&mut self, rows: usize, body: &Body, dictionary: Option<(i64, bool)>) -> Result<Block> {
        let compressed = match self.compression {
            None => None,
            Some(codec) => Some(body.buffers.iter().map(|buffer| compress(buffer, codec)).collect::<Result<Vec<_>>>()?),
        };
        let buffers = compressed.as_ref().unwrap_or(&body.buffers);
        let describe = || describe(rows, body, buffers);
        if dictionary.is_some() {
            return self.message(&metadata::batch_metadata(&describe(), self.compression, dictionary), buffers);
        }
        let (batch, encoded) = match self.last.take() {
            Some(last) if is_shape_of(&last.0, rows, body, buffers) => last,
            _ => {
                let batch = describe();
                let encoded = metadata::batch_metadata(&batch, self.compression, None);
                (batch, encoded)
            }
        };
        let block = self.message(&encoded, buffers);
        self.last = Some((batch, encoded));
        block
    }

    /// Writes one encapsulated message, padded so that its body begins at a multiple of `ALIGNMENT`.
    fn message(&mut self, metadata: &[u8], buffers: &[Buffer]) -> Result<Block> {
        let offset = self.at;
        let prefix = 8;
        let body = (self.at + prefix + metadata.len()).next_multiple_of(ALIGNMENT);
        let padded = body - offset - prefix;
        let too_large = |_| Error::unsupported(format!("metadata of {padded} bytes"));
        let length = i32::try_from(padded).map_err(too_large)?;
        let continuation = u32::MAX.to_le_bytes();
        let len = length.to_le_bytes();
        let mut slices = Vec::with_capacity(4 + 2 * buffers.len());
        slices.extend([&continuation, &len, metadata, &ZEROS[..padded - metadata.len()]].map(IoSlice::new));
        for buffer in buffers.iter().filter(|buffer| !buffer.is_empty()) {
            slices.push(IoSlice::new(buffer));
            let padding = buffer.len().next_multiple_of(ALIGNMENT) - buffer.len();
            if padding > 0 {
                slices.push(IoSlice::new(&ZEROS[..padding]));
            }
        }
        self.put_all(&mut slices)?;
        Ok(Block::new(offset as i64, length + prefix as i32, (self.at - body) as i64))
    }

    /// Writes the end-of-stream marker.
    fn end(&mut self) -> Result<()> {
        self.put(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])
    }

    /// Writes the footer, which follows the marker in a file.
    fn footer(&mut self, schema: &Schema, blocks: &WrittenBlocks, notes: &[(&str, String)]) -> Result<()> {
        let footer = metadata::footer(schema, &blocks.dictionaries, &blocks.batches, notes);
        let length = i32::try_from(footer.len()).map_err(|_| Error::unsupported("a footer of 2 GiB"))?;
        self.put(&footer)?;
        self.put(&length.to_le_bytes())?;
        self.put(MAGIC)
    }
}

/// Describes a body, whose buffers are contiguous, for a batch's metadata.
pub(super) fn describe(rows: usize, body: &Body, buffers: &[Buffer]) -> BatchMetadata {
    let mut end = 0;
    let place = |buffer: &Buffer| {
        let start = end;
        end += buffer.len().next_multiple_of(ALIGNMENT) as i64;
        (start, buffer.len() as i64)
    };
    let buffers = buffers.iter().map(place).collect();
    let nodes = body.nodes.clone();
    let variadics = body.variadics.clone();
    BatchMetadata { rows: rows as i64, nodes, buffers, variadics, body_length: end }
}

/// Whether the metadata describes this body.
fn is_shape_of(metadata: &BatchMetadata, rows: usize, body: &Body, buffers: &[Buffer]) -> bool {
    metadata.rows == rows as i64
        && metadata.nodes == body.nodes
        && metadata.variadics == body.variadics
        && metadata.buffers.len() == buffers.len()
        && metadata.buffers.iter().zip(buffers).all(|((_, len), buffer)| *len == buffer.len() as i64)
}
