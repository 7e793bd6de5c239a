//! Writing a dataset as an IPC file or stream: dense, every body and buffer at a multiple of 64 bytes of the file.
//!
//! Buffers go from where they are to the sink; no body is put together first. A path is written under another name
//! beside it and renamed when whole, so nobody ever opens half a file, and a dataset may be written over the very file
//! it is mapped from.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use arrow_buffer::Buffer;
use arrow_data::ArrayData;

use super::encode::Body;
use super::message::Compression;
use super::metadata::{self, BatchMetadata, Block};
use super::read::MAGIC;
use super::schema::IpcSchema;
use super::unify::Dictionaries;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::map::Look;

/// Bodies and buffers begin at multiples of this many bytes (Columnar Format, *Buffer Alignment and Padding*).
const ALIGNMENT: usize = 64;
const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// The two framings of Arrow IPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// With a footer that says where the batches are: random access.
    #[default]
    File,
    /// Message after message, written and read from front to back.
    Stream,
}

/// How to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// File or stream.
    pub format: Format,
    /// The codec of the bodies; none keeps them readable in place.
    pub compression: Option<Compression>,
    /// The most rows of a record batch; batches stay as they are where they have fewer.
    pub max_rows: Option<u64>,
}

/// Writes `dataset` to the file at `path`, replacing what is there in one step.
///
/// # Errors
/// `InvalidData` where a value is damaged, `InvalidArgument` where dictionaries can't be made one, `Io`.
pub fn write(dataset: &Dataset, path: impl AsRef<Path>, options: &WriteOptions) -> Result<()> {
    let path = path.as_ref();
    let done = match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => write_through(dataset, path, options),
        _ => write_beside(dataset, path, options),
    };
    done.map_err(|e| e.at(path))
}

/// A pipe or a device can't be replaced.
fn write_through(dataset: &Dataset, path: &Path, options: &WriteOptions) -> Result<()> {
    let mut sink = File::options().write(true).open(path).map_err(|e| Error::io("opening it for writing", &e))?;
    write_to(dataset, &mut sink, options)
}

fn write_beside(dataset: &Dataset, path: &Path, options: &WriteOptions) -> Result<()> {
    let name = path.file_name().ok_or_else(|| Error::argument("not the name of a file"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.part", std::process::id()));
    let part = Unfinished(path.with_file_name(hidden));
    let mut sink = File::create(&part.0).map_err(|e| Error::io("creating the file", &e))?;
    write_to(dataset, &mut sink, options)?;
    std::fs::rename(&part.0, path).map_err(|e| Error::io("giving the written file its name", &e))
}

/// A file that is removed unless it was renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing to remove, and a failure to remove can't be mended here.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes `dataset` to `sink`.
///
/// # Errors
/// As [`write()`]; what was written before an error stays in the sink.
pub fn write_to(dataset: &Dataset, sink: &mut impl Write, options: &WriteOptions) -> Result<()> {
    dataset.watched(Look::Now, || write_all(dataset, sink, options))
}

fn write_all(dataset: &Dataset, sink: &mut impl Write, options: &WriteOptions) -> Result<()> {
    // A buffer of a body that is not small goes around this one.
    let mut out = Output { sink: std::io::BufWriter::with_capacity(1 << 16, sink), at: 0, options: *options };
    if options.format == Format::File {
        out.put(MAGIC)?;
        out.put(&[0; 2])?;
    }
    let schema = out.schema(dataset)?;
    let mut dictionaries = Dictionaries::new(options.format, &schema);
    if options.format == Format::File {
        dictionaries.gather(dataset, &schema.columns)?;
    }
    let mut blocks = Blocks::default();
    for batch in dataset.batches() {
        let batch = batch?;
        for rows in pieces(&batch, options.max_rows)? {
            out.batch(&rows?, &schema, &mut dictionaries, &mut blocks)?;
        }
    }
    out.dictionaries(&mut dictionaries, &mut blocks)?;
    out.end(dataset, &blocks)
}

/// The batch in pieces of at most `max_rows`; in one where it has no rows.
fn pieces(batch: &Dataset, max_rows: Option<u64>) -> Result<impl Iterator<Item = Result<Dataset>>> {
    let rows = batch.len()?;
    let step = max_rows.unwrap_or(rows).max(1);
    Ok((0..rows.div_ceil(step).max(1)).map(move |piece| match rows <= step {
        true => Ok(batch.clone()),
        false => batch.slice(piece * step, step),
    }))
}

/// What the footer lists.
#[derive(Default)]
struct Blocks {
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

struct Output<'a, W: Write> {
    sink: std::io::BufWriter<&'a mut W>,
    at: usize,
    options: WriteOptions,
}

impl<W: Write> Output<'_, W> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes).map_err(|e| Error::io("writing", &e))?;
        self.at += bytes.len();
        Ok(())
    }

    /// Writes the Schema message and reads it back, which gives every node its dictionary id.
    fn schema(&mut self, dataset: &Dataset) -> Result<IpcSchema> {
        let metadata = metadata::schema_metadata(dataset.schema());
        self.message(&metadata, &[])?;
        IpcSchema::of_metadata(&metadata)
    }

    fn batch(
        &mut self,
        batch: &Dataset,
        schema: &IpcSchema,
        dictionaries: &mut Dictionaries,
        blocks: &mut Blocks,
    ) -> Result<()> {
        let (mut body, mut rows) = (Body::default(), 0);
        for part in batch.parts() {
            let part = part?;
            rows = part.rows.len();
            for (node, array) in schema.columns.iter().zip(part.columns()?) {
                body.add(node, &array, dictionaries)?;
            }
        }
        if body.nodes.is_empty() {
            let empty = |node: &super::schema::Node| ArrayData::new_empty(node.data_type());
            schema.columns.iter().try_for_each(|node| body.add(node, &empty(node), dictionaries))?;
        }
        self.dictionaries(dictionaries, blocks)?;
        let block = self.record_batch(rows, &body, None)?;
        blocks.batches.push(block);
        Ok(())
    }

    /// Writes the dictionary batches that what was encoded last needs.
    fn dictionaries(&mut self, dictionaries: &mut Dictionaries, blocks: &mut Blocks) -> Result<()> {
        for pending in dictionaries.pending()? {
            let block = self.record_batch(pending.rows, &pending.body, Some((pending.id, pending.is_delta)))?;
            blocks.dictionaries.push(block);
        }
        Ok(())
    }

    fn record_batch(&mut self, rows: usize, body: &Body, dictionary: Option<(i64, bool)>) -> Result<Block> {
        let buffers = self.compressed(&body.buffers)?;
        let starts = buffers.iter().scan(0, |next, buffer| {
            let start = *next;
            *next += buffer.len().next_multiple_of(ALIGNMENT) as i64;
            Some(start)
        });
        let batch = BatchMetadata {
            rows: rows as i64,
            nodes: body.nodes.clone(),
            buffers: starts.zip(&buffers).map(|(at, buffer)| (at, buffer.len() as i64)).collect(),
            variadics: body.variadics.clone(),
            body_length: buffers.iter().map(|buffer| buffer.len().next_multiple_of(ALIGNMENT) as i64).sum(),
        };
        let metadata = metadata::batch_metadata(&batch, self.options.compression, dictionary);
        self.message(&metadata, &buffers)
    }

    fn compressed(&self, buffers: &[Buffer]) -> Result<Vec<Buffer>> {
        match self.options.compression {
            None => Ok(buffers.to_vec()),
            Some(codec) => buffers.iter().map(|buffer| super::body::compress(buffer, codec)).collect(),
        }
    }

    /// One encapsulated message, padded so that its body begins at a multiple of `ALIGNMENT`.
    fn message(&mut self, metadata: &[u8], buffers: &[Buffer]) -> Result<Block> {
        let (offset, prefix) = (self.at, 8);
        let body = (self.at + prefix + metadata.len()).next_multiple_of(ALIGNMENT);
        let padded = body - offset - prefix;
        let too_large = |_| Error::unsupported(format!("metadata of {padded} bytes"));
        let length = i32::try_from(padded).map_err(too_large)?;
        self.put(&u32::MAX.to_le_bytes())?;
        self.put(&length.to_le_bytes())?;
        self.put(metadata)?;
        self.put(&ZEROS[..padded - metadata.len()])?;
        for buffer in buffers {
            self.put(buffer)?;
            self.put(&ZEROS[..buffer.len().next_multiple_of(ALIGNMENT) - buffer.len()])?;
        }
        Ok(Block::new(offset as i64, length + prefix as i32, (self.at - body) as i64))
    }

    /// The end-of-stream marker and, of a file, the footer.
    fn end(&mut self, dataset: &Dataset, blocks: &Blocks) -> Result<()> {
        self.put(&u32::MAX.to_le_bytes())?;
        self.put(&[0; 4])?;
        if self.options.format == Format::File {
            let footer = metadata::footer(dataset.schema(), &blocks.dictionaries, &blocks.batches);
            let length = i32::try_from(footer.len()).map_err(|_| Error::unsupported("a footer of 2 GiB"))?;
            self.put(&footer)?;
            self.put(&length.to_le_bytes())?;
            self.put(MAGIC)?;
        }
        self.sink.flush().map_err(|e| Error::io("writing", &e))
    }
}
