//! Writes a dataset as an IPC file or stream: see `message_sink` for its messages. A file is written under another name
//! in the same directory and renamed when complete, so incomplete files are never opened, and a dataset can replace the
//! file it is mapped from.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_schema::{DataType, SchemaRef};

use super::message_sink::{MessageSink, WrittenBlocks};
use super::unify::Dictionaries;
use crate::dataset::{Dataset, PushedRows, schema_difference};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{Compression, Format, IpcSchema, ROWS, TABLE, rows_note};
use crate::map::{ChangeCheck, UnfinishedFile};
use crate::types::layout::children;

/// The capacity of the buffer in front of a file. Large bodies bypass it.
const BUFFER_SIZE: usize = 64 << 10;

/// Options for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// File or stream.
    pub format: Format,
    /// The codec of the bodies. Uncompressed bodies can be read in place.
    pub compression: Option<Compression>,
    /// The limit of rows of a record batch: longer batches are divided, and shorter ones written as they are.
    ///
    /// `None` keeps all batches of the dataset; 0 is the same as 1.
    pub max_rows: Option<u64>,
}

/// Writes `dataset` to the file at `path`.
///
/// A file that is already there is replaced atomically: whoever opens it finds the old rows or the new ones.
///
/// ```
/// use arrowwood::{Compression, Dataset, WriteOptions, open, write};
/// # use arrowwood::{CsvOptions, read_csv_from};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ticks.arrow");
/// # let (schema, batches) = read_csv_from("price\n1.5\n2.5\n".as_bytes(), &CsvOptions::default())?;
/// # let dataset = Dataset::from_batches(schema, batches)?;
///
/// write(&dataset, &path, &WriteOptions::default())?;
/// write(&dataset, &path, &WriteOptions { compression: Some(Compression::Zstd), ..WriteOptions::default() })?;
/// assert_eq!(open(&path)?.len()?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `InvalidData` for a damaged value, `InvalidArgument` if dictionaries can't be merged or the name has the extension
/// of another format, such as `.parquet` or `.zst`, `Io`.
pub fn write(dataset: &Dataset, path: impl AsRef<Path>, options: &WriteOptions) -> Result<()> {
    let path = path.as_ref();
    check_extension(path).map_err(|e| e.at(path))?;
    let written = match std::fs::metadata(path) {
        Ok(existing) if !existing.is_file() => write_in_place(dataset, path, options),
        _ => write_and_rename(dataset, path, options),
    };
    written.map_err(|e| e.at(path))
}

/// Refuses names with the extension of another format, which would mislead readers.
fn check_extension(path: &Path) -> Result<()> {
    let Some(extension) = path.extension().and_then(|extension| extension.to_str()) else { return Ok(()) };
    let format = match extension.to_ascii_lowercase().as_str() {
        "parquet" | "pq" => "Parquet",
        "csv" | "tsv" => "CSV",
        "json" | "jsonl" | "ndjson" => "JSON",
        "bz2" | "gz" | "lz4" | "xz" | "zip" | "zst" => {
            return Err(Error::invalid_argument(
                "this makes an Arrow file, and the name is that of a compressed one; call it *.arrow: the option of \
                 compression is for what is in it",
            ));
        }
        _ => return Ok(()),
    };
    let name = path.file_name().unwrap_or(path.as_os_str()).display();
    Err(Error::invalid_argument(format!(
        "this makes an Arrow file, and the name is that of a {format} file; call it *.arrow. {format} is written by \
         `arrowwood export`, and in Python by SQL: ds.sql(\"copy self to '{name}'\")"
    )))
}

/// Writes to a pipe or device, which can't be replaced.
fn write_in_place(dataset: &Dataset, path: &Path, options: &WriteOptions) -> Result<()> {
    let mut sink = File::options().write(true).open(path).map_err(|e| Error::io("opening it for writing", &e))?;
    write_to(dataset, &mut sink, options)
}

fn write_and_rename(dataset: &Dataset, path: &Path, options: &WriteOptions) -> Result<()> {
    let mut file = create_unfinished(path)?;
    write_to(dataset, &mut file, options)?;
    persist(file, path)
}

/// Creates a file that will be named `path`.
fn create_unfinished(path: &Path) -> Result<UnfinishedFile> {
    if path.file_name().is_none() {
        return Err(Error::invalid_argument("not the name of a file"));
    }
    UnfinishedFile::create_beside(path).map_err(|e| Error::io("creating the file", &e))
}

fn persist(file: UnfinishedFile, path: &Path) -> Result<()> {
    file.persist(path).map_err(|e| Error::io("giving the written file its name", &e))
}

/// Writes `dataset` to `sink`.
///
/// # Errors
/// The errors of [`write()`]. The sink keeps the bytes written before an error.
pub fn write_to(dataset: &Dataset, sink: &mut impl Write, options: &WriteOptions) -> Result<()> {
    write_with_metadata(dataset, sink, options, &[])
}

/// Writes `dataset` to `sink` like [`write_to`], with metadata in the file's footer: pairs of key and value.
///
/// # Errors
/// The errors of [`write()`].
pub(crate) fn write_with_metadata(
    dataset: &Dataset,
    sink: &mut impl Write,
    options: &WriteOptions,
    notes: &[(&str, String)],
) -> Result<()> {
    dataset.with_change_check(ChangeCheck::Now, || write_all(dataset, sink, options, FooterNotes::Pairs(notes)))
}

/// Writes `dataset` to `sink` as a file in batches of up to `rows` rows.
///
/// The footer also has the number of rows of each batch, so that readers of an object store find a row without fetching
/// the headers before it.
///
/// # Errors
/// The errors of [`write()`]. The sink keeps the bytes written before an error.
pub fn write_indexed(dataset: &Dataset, sink: &mut impl Write, rows: u64) -> Result<()> {
    write_with_index(dataset, sink, rows, None)
}

/// Writes rows of a table like [`write_indexed`].
///
/// The footer also says which rows they are: see [`Dataset::pushed_rows`].
///
/// # Errors
/// The errors of [`write()`]. The sink keeps the bytes written before an error.
pub fn write_pushed(dataset: &Dataset, sink: &mut impl Write, rows: u64, from: &PushedRows) -> Result<()> {
    write_with_index(dataset, sink, rows, Some(from))
}

fn write_with_index(dataset: &Dataset, sink: &mut impl Write, rows: u64, from: Option<&PushedRows>) -> Result<()> {
    let options = WriteOptions { max_rows: Some(rows), ..WriteOptions::default() };
    dataset.with_change_check(ChangeCheck::Now, || write_all(dataset, sink, &options, FooterNotes::Index(from)))
}

/// The metadata of a file's footer.
#[derive(Clone, Copy)]
enum FooterNotes<'a> {
    /// Pairs of key and value.
    Pairs(&'a [(&'a str, String)]),
    /// The rows of each batch, and the rows of a table that the file has.
    Index(Option<&'a PushedRows>),
}

impl<'a> FooterNotes<'a> {
    /// Returns the metadata for a file with `blocks`.
    fn to_pairs(self, blocks: &WrittenBlocks) -> Vec<(&'a str, String)> {
        match self {
            FooterNotes::Pairs(pairs) => pairs.to_vec(),
            FooterNotes::Index(table_rows) => {
                let mut pairs = vec![(ROWS, rows_note(&blocks.rows))];
                pairs.extend(table_rows.map(|rows| (TABLE, rows.to_string())));
                pairs
            }
        }
    }
}

fn write_all(dataset: &Dataset, sink: &mut impl Write, options: &WriteOptions, notes: FooterNotes<'_>) -> Result<()> {
    let sink = BufWriter::with_capacity(BUFFER_SIZE, sink);
    let mut out = MessageSink::new(sink, options.compression);
    if options.format == Format::File {
        out.begin_file()?;
    }
    let schema = out.schema(dataset.schema())?;
    let mut dictionaries = Dictionaries::new(options.format, &schema);

    if options.format == Format::File && !dictionaries.is_empty() {
        dictionaries.gather_longest(dataset, &schema.columns)?;
        for batch in dataset.batches() {
            for rows in divided(&batch?, options.max_rows)? {
                dictionaries.gather(&rows?, &schema.columns)?;
            }
        }
        dictionaries.merge(&schema.columns)?;
    }

    let mut blocks = WrittenBlocks::default();
    for batch in dataset.batches() {
        let batch = batch?;
        for rows in divided(&batch, options.max_rows)? {
            out.batch(&rows?, &schema, &mut dictionaries, &mut blocks)?;
        }
    }

    // A file without batches still has its dictionaries.
    out.dictionaries(&mut dictionaries, &mut blocks)?;
    out.end()?;
    if options.format == Format::File {
        out.footer(dataset.schema(), &blocks, &notes.to_pairs(&blocks))?;
    }
    out.flush()
}

/// A writer of an Arrow IPC stream, which writes each batch at once and without copying it.
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
    /// The schema as its message has it, which assigns ids to the dictionaries.
    nodes: IpcSchema,
    dictionaries: Dictionaries,
    /// The number of record batches written.
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
        self.out.sink()
    }

    /// Returns the number of bytes written.
    pub fn nbytes(&self) -> usize {
        self.out.position()
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
        // A stream has no footer that would list them.
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
        Ok(self.out.into_sink())
    }
}

impl<W: Write> std::fmt::Debug for StreamWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamWriter").field("schema", &self.schema).field("batches", &self.batches).finish()
    }
}

/// A writer of an Arrow file, batch by batch.
///
/// Each batch is written at once, and the file gets its name when it is complete.
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
        check_extension(path).map_err(|e| e.at(path))?;
        if let Some(field) = schema.fields().iter().find(|field| has_dictionary(field.data_type())) {
            let name = field.name();
            return Err(Error::unsupported(format!(
                "column '{name}' has a dictionary, and a file has one for all batches; collect them before"
            )));
        }
        let file = create_unfinished(path).map_err(|e| e.at(path))?;
        let mut out = MessageSink::new(BufWriter::with_capacity(BUFFER_SIZE, file), compression);
        out.begin_file()?;
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
        self.write_end().map_err(|e| e.at(&self.path))?;
        match self.out.into_sink().into_inner() {
            Ok(file) => persist(file, &self.path).map_err(|e| e.at(&self.path)),
            Err(e) => Err(Error::io("writing the rest", &e.into_error()).at(&self.path)),
        }
    }

    fn write_end(&mut self) -> Result<()> {
        self.out.end()?;
        self.out.footer(&self.schema, &self.blocks, &[])?;
        self.out.flush()
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

/// Divides a batch into batches of at most `max_rows` rows. An empty batch stays one.
fn divided(batch: &Dataset, max_rows: Option<u64>) -> Result<impl Iterator<Item = Result<Dataset>>> {
    let rows = batch.len()?;
    let max_rows = max_rows.unwrap_or(rows).max(1);
    let count = rows.div_ceil(max_rows).max(1);
    Ok((0..count).map(move |number| match count {
        1 => Ok(batch.clone()),
        _ => batch.slice(number * max_rows, max_rows),
    }))
}
