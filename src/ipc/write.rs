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
use arrow_ipc as fb;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use super::encode::Body;
use super::flat::Table;
use super::message::{Compression, Header};
use super::read::MAGIC;
use super::schema::IpcSchema;
use super::unify::Dictionaries;
use crate::dataset::Dataset;
use crate::error::{Error, Result};

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
    dictionaries: Vec<fb::Block>,
    batches: Vec<fb::Block>,
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
        let mut builder = FlatBufferBuilder::new();
        let schema = encode_schema(&mut builder, dataset);
        let metadata = finish(builder, fb::MessageHeader::Schema, schema.as_union_value(), 0);
        self.message(&metadata, &[])?;
        IpcSchema::parse(Header::parse(&metadata)?.table, metadata.len())
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

    fn record_batch(&mut self, rows: usize, body: &Body, dictionary: Option<(i64, bool)>) -> Result<fb::Block> {
        let buffers = self.compressed(&body.buffers)?;
        let mut builder = FlatBufferBuilder::new();
        let batch = encode_batch(&mut builder, rows, body, &buffers, self.options.compression);
        let length = body_length(&buffers);
        let metadata = match dictionary {
            None => finish(builder, fb::MessageHeader::RecordBatch, batch.as_union_value(), length),
            Some((id, is_delta)) => {
                let args = fb::DictionaryBatchArgs { id, data: Some(batch), isDelta: is_delta };
                let dictionary = fb::DictionaryBatch::create(&mut builder, &args);
                finish(builder, fb::MessageHeader::DictionaryBatch, dictionary.as_union_value(), length)
            }
        };
        self.message(&metadata, &buffers)
    }

    fn compressed(&self, buffers: &[Buffer]) -> Result<Vec<Buffer>> {
        match self.options.compression {
            None => Ok(buffers.to_vec()),
            Some(codec) => buffers.iter().map(|buffer| super::body::compress(buffer, codec)).collect(),
        }
    }

    /// One encapsulated message, padded so that its body begins at a multiple of `ALIGNMENT`.
    fn message(&mut self, metadata: &[u8], buffers: &[Buffer]) -> Result<fb::Block> {
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
        Ok(fb::Block::new(offset as i64, length + prefix as i32, (self.at - body) as i64))
    }

    /// The end-of-stream marker and, of a file, the footer.
    fn end(&mut self, dataset: &Dataset, blocks: &Blocks) -> Result<()> {
        self.put(&u32::MAX.to_le_bytes())?;
        self.put(&[0; 4])?;
        if self.options.format == Format::File {
            let footer = encode_footer(dataset, blocks);
            let length = i32::try_from(footer.len()).map_err(|_| Error::unsupported("a footer of 2 GiB"))?;
            self.put(&footer)?;
            self.put(&length.to_le_bytes())?;
            self.put(MAGIC)?;
        }
        self.sink.flush().map_err(|e| Error::io("writing", &e))
    }
}

fn encode_schema<'a>(builder: &mut FlatBufferBuilder<'a>, dataset: &Dataset) -> WIPOffset<fb::Schema<'a>> {
    let mut ids = DictionaryTracker::new(false);
    IpcSchemaEncoder::new().with_dictionary_tracker(&mut ids).schema_to_fb_offset(builder, dataset.schema())
}

fn encode_batch<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    rows: usize,
    body: &Body,
    buffers: &[Buffer],
    compression: Option<Compression>,
) -> WIPOffset<fb::RecordBatch<'a>> {
    let nodes: Vec<_> = body.nodes.iter().map(|&(length, nulls)| fb::FieldNode::new(length, nulls)).collect();
    let starts = buffers.iter().scan(0, |next, buffer| {
        let start = *next;
        *next += buffer.len().next_multiple_of(ALIGNMENT);
        Some(start)
    });
    let places: Vec<_> =
        starts.zip(buffers).map(|(at, buffer)| fb::Buffer::new(at as i64, buffer.len() as i64)).collect();
    let codec = compression.map(|codec| match codec {
        Compression::Lz4 => fb::CompressionType::LZ4_FRAME,
        Compression::Zstd => fb::CompressionType::ZSTD,
    });
    let args = fb::RecordBatchArgs {
        length: rows as i64,
        nodes: Some(builder.create_vector(&nodes)),
        buffers: Some(builder.create_vector(&places)),
        compression: codec.map(|codec| {
            let method = fb::BodyCompressionMethod::BUFFER;
            fb::BodyCompression::create(builder, &fb::BodyCompressionArgs { codec, method })
        }),
        variadicBufferCounts: (!body.variadics.is_empty()).then(|| builder.create_vector(&body.variadics)),
    };
    fb::RecordBatch::create(builder, &args)
}

fn body_length(buffers: &[Buffer]) -> i64 {
    buffers.iter().map(|buffer| buffer.len().next_multiple_of(ALIGNMENT) as i64).sum()
}

fn finish(
    mut builder: FlatBufferBuilder<'_>,
    header_type: fb::MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    body_length: i64,
) -> Vec<u8> {
    let args = fb::MessageArgs {
        version: fb::MetadataVersion::V5,
        header_type,
        header: Some(header),
        bodyLength: body_length,
        custom_metadata: None,
    };
    let message = fb::Message::create(&mut builder, &args);
    builder.finish(message, None);
    builder.finished_data().to_vec()
}

fn encode_footer(dataset: &Dataset, blocks: &Blocks) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let schema = encode_schema(&mut builder, dataset);
    let args = fb::FooterArgs {
        version: fb::MetadataVersion::V5,
        schema: Some(schema),
        dictionaries: Some(builder.create_vector(&blocks.dictionaries)),
        recordBatches: Some(builder.create_vector(&blocks.batches)),
        custom_metadata: None,
    };
    let footer = fb::Footer::create(&mut builder, &args);
    builder.finish(footer, None);
    debug_assert!(Table::root(builder.finished_data()).is_ok());
    builder.finished_data().to_vec()
}
