//! [`MessageSink`]: writes the messages of a file or stream. Every body and buffer begins at a multiple of 64 bytes.
//!
//! Buffers go from their memory to the sink; no body is assembled first.

use std::io::{self, IoSlice, Write};

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema};

use super::encode::Body;
use super::unify::Dictionaries;
use crate::array::require_little_endian;
use crate::dataset::{BatchSlice, Dataset};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{
    BatchMetadata, Block, CONTINUATION, Compression, END_OF_STREAM, FIRST_MESSAGE, IpcSchema, MAGIC, PREFIX, compress,
    metadata,
};
use crate::types::layout::children;
use crate::types::type_name;

/// Bodies and buffers begin at multiples of this many bytes (Columnar Format, *Buffer Alignment and Padding*).
pub(super) const ALIGNMENT: usize = 64;
const ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// The messages written so far, for the footer of a file.
#[derive(Default)]
pub(super) struct WrittenBlocks {
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
    /// The rows of each record batch.
    pub rows: Vec<u64>,
}

/// Writes the messages of one file or stream to a sink.
///
/// The caller writes them in the order of the format: `begin_file` (a file only), `schema`, batches, `end`, `footer` (a
/// file only), `flush`. Each batch is preceded by the batches of the dictionaries that it needs.
///
/// A message is complete or the sink is broken: after an error within a message, or within a series of dictionary
/// batches, every call fails, as a reader could not find the next message or would lack a dictionary.
pub(super) struct MessageSink<W: Write> {
    sink: W,
    /// The number of bytes written.
    position: usize,
    compression: Option<Compression>,
    /// The metadata of the last batch, as numbers and encoded: most batches of a stream have the same shape.
    last: Option<(BatchMetadata, Vec<u8>)>,
    /// Reused to save allocations.
    body: Body,
    /// True if only a part of a message, or of the dictionaries that a batch needs, was written.
    is_broken: bool,
}

impl<W: Write> MessageSink<W> {
    pub(super) fn new(sink: W, compression: Option<Compression>) -> MessageSink<W> {
        MessageSink { sink, position: 0, compression, last: None, body: Body::default(), is_broken: false }
    }

    pub(super) fn sink(&self) -> &W {
        &self.sink
    }

    pub(super) fn into_sink(self) -> W {
        self.sink
    }

    /// Returns the number of bytes written.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Writes the magic, padded to the start of the first message.
    pub(super) fn begin_file(&mut self) -> Result<()> {
        let mut start = [0; FIRST_MESSAGE];
        start[..MAGIC.len()].copy_from_slice(MAGIC);
        self.put(&start)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.put_all(&mut [IoSlice::new(bytes)])
    }

    /// Writes the slices, with one call if the system supports it.
    fn put_all(&mut self, mut slices: &mut [IoSlice<'_>]) -> Result<()> {
        /// The limit of slices of one call on Linux and macOS (writev(2), `IOV_MAX`).
        const MAX_SLICES: usize = 1024;
        if self.is_broken {
            return Err(Error::new(ErrorKind::Io, "writing an Arrow stream: it was broken off before"));
        }
        self.position += slices.iter().map(|slice| slice.len()).sum::<usize>();
        self.is_broken = true;
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let count = slices.len().min(MAX_SLICES);
            match self.sink.write_vectored(&slices[..count]) {
                Ok(0) => return Err(Error::io("writing", &io::ErrorKind::WriteZero.into())),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return Err(Error::io("writing", &e)),
            }
        }
        self.is_broken = false;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        self.sink.flush().map_err(|e| Error::io("writing", &e))
    }

    /// Writes the Schema message, and returns the schema as [`encode_schema`] does.
    pub(super) fn schema(&mut self, schema: &Schema) -> Result<IpcSchema> {
        let (metadata, parsed) = encode_schema(schema)?;
        self.message(&metadata, &[])?;
        Ok(parsed)
    }

    /// Writes a dataset of one batch, which may have no rows.
    pub(super) fn batch(
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
        for node in &schema.columns {
            body.add(node, &ArrayData::new_empty(node.data_type()), dictionaries)?;
        }
        self.send(0, &body, dictionaries, blocks)
    }

    /// Writes a part of a batch.
    pub(super) fn part(
        &mut self,
        part: &BatchSlice<'_>,
        schema: &IpcSchema,
        dictionaries: &mut Dictionaries,
        blocks: &mut WrittenBlocks,
    ) -> Result<()> {
        let mut body = std::mem::take(&mut self.body);
        assert_eq!(schema.columns.len(), part.piece.columns.len(), "a column would be written without its node");
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

    /// Writes a record batch, after the dictionaries that it needs.
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
    pub(super) fn dictionaries(&mut self, dictionaries: &mut Dictionaries, blocks: &mut WrittenBlocks) -> Result<()> {
        let written = self.write_pending(dictionaries, blocks);
        // Those that an error has left out are no longer queued, and later batches would refer to them.
        self.is_broken |= written.is_err();
        written
    }

    fn write_pending(&mut self, dictionaries: &mut Dictionaries, blocks: &mut WrittenBlocks) -> Result<()> {
        for pending in dictionaries.pending()? {
            let block = self.record_batch(pending.rows, &pending.body, Some((pending.id, pending.is_delta)))?;
            blocks.dictionaries.push(block);
        }
        Ok(())
    }

    /// Writes a record batch, or, with its id and whether it is a delta, a dictionary batch.
    fn record_batch(&mut self, rows: usize, body: &Body, dictionary: Option<(i64, bool)>) -> Result<Block> {
        let compressed = match self.compression {
            None => None,
            Some(codec) => Some(body.buffers.iter().map(|buffer| compress(buffer, codec)).collect::<Result<Vec<_>>>()?),
        };
        let buffers = compressed.as_ref().unwrap_or(&body.buffers);

        if dictionary.is_some() {
            let batch = describe(rows, body, buffers);
            return self.message(&metadata::batch_metadata(&batch, self.compression, dictionary), buffers);
        }

        let (batch, encoded) = match self.last.take() {
            Some(last) if is_shape_of(&last.0, rows, body, buffers) => last,
            _ => {
                let batch = describe(rows, body, buffers);
                let encoded = metadata::batch_metadata(&batch, self.compression, None);
                (batch, encoded)
            }
        };
        let block = self.message(&encoded, buffers)?;
        assert_eq!(block.bodyLength(), batch.body_length, "the body doesn't have the length that its metadata says");
        self.last = Some((batch, encoded));
        Ok(block)
    }

    /// Writes one encapsulated message, padded so that its body begins at a multiple of `ALIGNMENT`.
    fn message(&mut self, metadata: &[u8], buffers: &[Buffer]) -> Result<Block> {
        let offset = self.position;
        let body = (offset + PREFIX + metadata.len()).next_multiple_of(ALIGNMENT);
        let padded = body - offset - PREFIX;
        let length = i32::try_from(padded).map_err(|_| Error::unsupported(format!("metadata of {padded} bytes")))?;

        let continuation = CONTINUATION.to_le_bytes();
        let len = length.to_le_bytes();
        let head = [&continuation, &len, metadata, &ZEROS[..padded - metadata.len()]];
        let mut slices = Vec::with_capacity(head.len() + 2 * buffers.len());
        slices.extend(head.map(IoSlice::new));
        for buffer in buffers.iter().filter(|buffer| !buffer.is_empty()) {
            slices.push(IoSlice::new(buffer));
            let padding = buffer.len().next_multiple_of(ALIGNMENT) - buffer.len();
            if padding > 0 {
                slices.push(IoSlice::new(&ZEROS[..padding]));
            }
        }

        self.put_all(&mut slices)?;
        assert_eq!(self.position % ALIGNMENT, 0, "a message ends at byte {}", self.position);
        Ok(Block::new(offset as i64, length + PREFIX as i32, (self.position - body) as i64))
    }

    /// Writes the end-of-stream marker.
    pub(super) fn end(&mut self) -> Result<()> {
        self.put(&END_OF_STREAM)
    }

    /// Writes the footer, which follows the marker in a file.
    pub(super) fn footer(&mut self, schema: &Schema, blocks: &WrittenBlocks, notes: &[(&str, String)]) -> Result<()> {
        assert_eq!(blocks.batches.len(), blocks.rows.len(), "each batch has a number of rows");
        let footer = metadata::footer(schema, &blocks.dictionaries, &blocks.batches, notes);
        let length = i32::try_from(footer.len()).map_err(|_| Error::unsupported("a footer of 2 GiB"))?;
        self.put(&footer)?;
        self.put(&length.to_le_bytes())?;
        self.put(MAGIC)
    }
}

/// Describes a body for a batch's metadata. Its `buffers`, compressed or not, follow one another, each padded to a
/// multiple of `ALIGNMENT`.
pub(super) fn describe(rows: usize, body: &Body, buffers: &[Buffer]) -> BatchMetadata {
    assert_eq!(buffers.len(), body.buffers.len(), "the buffers are those of the body, compressed or not");
    let mut batch = BatchMetadata {
        rows: rows as i64,
        nodes: body.nodes.clone(),
        buffers: Vec::with_capacity(buffers.len()),
        variadics: body.variadics.clone(),
        body_length: 0,
    };
    for buffer in buffers {
        batch.buffers.push((batch.body_length, buffer.len() as i64));
        batch.body_length += buffer.len().next_multiple_of(ALIGNMENT) as i64;
    }
    batch
}

/// Returns true if the metadata describes this body.
fn is_shape_of(metadata: &BatchMetadata, rows: usize, body: &Body, buffers: &[Buffer]) -> bool {
    metadata.rows == rows as i64
        && metadata.nodes == body.nodes
        && metadata.variadics == body.variadics
        && metadata.buffers.len() == buffers.len()
        && metadata.buffers.iter().zip(buffers).all(|((_, len), buffer)| *len == buffer.len() as i64)
}

/// Returns the metadata of a Schema message, and the schema as its reader parses it, which has ids for the
/// dictionaries.
///
/// # Errors
/// `Unsupported` for a schema that the format can't describe, and on big-endian processors.
pub(super) fn encode_schema(schema: &Schema) -> Result<(Vec<u8>, IpcSchema)> {
    require_little_endian("writing Arrow data")?;
    for field in schema.fields() {
        check_keys(field.data_type()).map_err(|e| e.context(format_args!("column '{}'", field.name())))?;
    }
    let metadata = metadata::schema_metadata(schema);
    let parsed = IpcSchema::parse_message(&metadata)?;
    Ok((metadata, parsed))
}

/// Checks that a type has no dictionaries of dictionaries. A field has one dictionary in the format (Schema.fbs,
/// *DictionaryEncoding*): keys can't stand for other keys.
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

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, DictionaryArray};

    use super::super::encode::KeyMapper;
    use super::*;
    use crate::ipc::framing::Format;

    /// A stream would go on without the dictionaries of a batch that failed, which later batches refer to.
    #[test]
    fn nothing_is_written_after_a_missing_dictionary() {
        const UNKNOWN_ID: i64 = 99;
        let mut out = MessageSink::new(Vec::new(), None);
        let schema = out.schema(&Schema::empty()).unwrap();
        let mut dictionaries = Dictionaries::new(Format::Stream, &schema);
        let categories: DictionaryArray<Int32Type> = ["a", "b"].into_iter().collect();
        dictionaries.keys(UNKNOWN_ID, &categories.to_data()).unwrap();

        let mut blocks = WrittenBlocks::default();
        assert!(out.dictionaries(&mut dictionaries, &mut blocks).is_err());
        let written = out.position();
        assert_eq!(out.end().unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(out.sink().len(), written);
    }
}
