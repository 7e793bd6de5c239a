//! [`StreamEncoder`]: encodes the messages of an Arrow stream, a limited number of bytes at a time, for the caller to
//! send.
//!
//! A body is a list of the buffers of the rows, so it can go from a mapped file to a socket without a copy, and a slow
//! receiver costs no memory.

use std::fmt;
use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::encode::Body;
use super::message_sink::{ALIGNMENT, describe, encode_schema};
use super::unify::Dictionaries;
use crate::array::{UncheckedArray, byte_size, slice};
use crate::dataset::{BatchSlice, Dataset, schema_difference};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{CONTINUATION, END_OF_STREAM, Format, IpcSchema, MessageKind, PREFIX, metadata};
use crate::map::ChangeCheck;

/// Messages end at multiples of this many rows of their batch, so that bitmaps need no copy.
const ROW_ALIGNMENT: usize = 64;

/// A message of an Arrow IPC stream, in parts.
#[derive(Clone)]
pub struct EncodedMessage {
    /// The kind of message.
    pub kind: MessageKind,
    /// The metadata, a `Message` of Message.fbs.
    pub metadata: Vec<u8>,
    /// The buffers of the body, in place. Each is followed by zeros up to a multiple of 64 bytes.
    pub body: Vec<Buffer>,
}

/// Shows how many bytes the parts have: the body may have gigabytes.
impl fmt::Debug for EncodedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body_len: usize = self.body.iter().map(Buffer::len).sum();
        let mut shown = f.debug_struct("EncodedMessage");
        shown.field("kind", &self.kind).field("metadata_len", &self.metadata.len()).field("body_len", &body_len);
        shown.finish()
    }
}

impl EncodedMessage {
    /// Returns the bytes before the body in a stream.
    ///
    /// These are the marker, the length, the metadata, and zeros up to a multiple of 64 bytes.
    ///
    /// # Errors
    /// `Unsupported` for metadata of 2 GiB.
    pub fn head(&self) -> Result<Vec<u8>> {
        let end = (PREFIX + self.metadata.len()).next_multiple_of(ALIGNMENT);
        let Ok(length) = i32::try_from(end - PREFIX) else {
            return Err(Error::unsupported(format!("metadata of {} bytes", self.metadata.len())));
        };
        let mut head = Vec::with_capacity(end);
        head.extend(CONTINUATION.to_le_bytes());
        head.extend(length.to_le_bytes());
        head.extend(&self.metadata);
        head.resize(end, 0);
        Ok(head)
    }

    /// Returns the length of the body in bytes, with the zeros after its buffers.
    pub fn body_len(&self) -> usize {
        self.body.iter().map(|buffer| buffer.len().next_multiple_of(ALIGNMENT)).sum()
    }
}

/// An encoder of datasets as the messages of an Arrow IPC stream, for the caller to send.
///
/// The caller sends the schema's message first, then the messages of each call of [`encode`](StreamEncoder::encode) in
/// their order, and finally [`StreamEncoder::END`].
///
/// ```
/// # use arrowwood::{Dataset, StreamEncoder};
/// # let dataset = Dataset::from_batches(arrow_schema::Schema::empty().into(), vec![])?;
/// let mut encoder = StreamEncoder::new(dataset.schema().clone())?;
/// let mut stream = encoder.schema_message().head()?;
/// let (mut from, end) = (0, dataset.len()?);
/// while from < end {
///     let (messages, rows) = encoder.encode(&dataset.slice(from, end - from)?, 2 << 20)?;
///     for message in messages {
///         stream.extend(message.head()?);
///         for buffer in &message.body {
///             stream.extend_from_slice(buffer);
///             stream.resize(stream.len().next_multiple_of(64), 0);
///         }
///     }
///     from += rows;
/// }
/// stream.extend(StreamEncoder::END);
/// # assert_eq!(arrowwood::read_stream(&stream[..])?.count(), 0);
/// # Ok::<(), arrowwood::Error>(())
/// ```
pub struct StreamEncoder {
    schema: SchemaRef,
    /// The schema as its message has it, which assigns ids to the dictionaries.
    nodes: IpcSchema,
    dictionaries: Dictionaries,
    /// The number of rows of the next record batch, estimated from the last ones. `None` before the first estimate.
    rows: Option<usize>,
}

impl StreamEncoder {
    /// The end-of-stream marker.
    pub const END: [u8; 8] = END_OF_STREAM;

    /// Creates an encoder for datasets of `schema`.
    ///
    /// # Errors
    /// `Unsupported` for a schema that can't be written.
    pub fn new(schema: SchemaRef) -> Result<StreamEncoder> {
        let (_, nodes) = encode_schema(&schema)?;
        let dictionaries = Dictionaries::new(Format::Stream, &nodes);
        Ok(StreamEncoder { schema, nodes, dictionaries, rows: None })
    }

    /// Returns the schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the first message of the stream.
    pub fn schema_message(&self) -> EncodedMessage {
        EncodedMessage {
            kind: MessageKind::Schema,
            metadata: metadata::schema_metadata(&self.schema),
            body: Vec::new(),
        }
    }

    /// Encodes the first rows of `data` as a record batch, after the batches of the dictionaries that it needs.
    ///
    /// Its body has at most `max_bytes`, unless a single row is larger. Returns the messages and the number of rows; no messages for no rows.
    ///
    /// # Errors
    /// `SchemaMismatch`, `InvalidData` for a damaged value, `FileChanged`. After an error the stream can't be
    /// continued.
    pub fn encode(&mut self, data: &Dataset, max_bytes: usize) -> Result<(Vec<EncodedMessage>, u64)> {
        if let Some(difference) = schema_difference(&self.schema, data.schema()) {
            let message = format!("the rows have another schema than the stream: {difference}");
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
        data.with_change_check(ChangeCheck::Now, || {
            for part in data.parts() {
                let part = part?;
                if !part.rows.is_empty() {
                    return self.encode_part(&part, max_bytes);
                }
            }
            Ok((Vec::new(), 0))
        })
    }

    /// Encodes the first rows of a part, a chunk of it: as many as fit, or one.
    fn encode_part(&mut self, part: &BatchSlice<'_>, max_bytes: usize) -> Result<(Vec<EncodedMessage>, u64)> {
        let columns = part.piece.columns.iter().map(|&column| part.checked(column)).collect::<Result<Vec<_>>>()?;
        let mut rows = self.rows.unwrap_or_else(|| estimate_rows(&columns, part.rows.clone(), max_bytes));

        let (chunk, body, len) = loop {
            let chunk = first_rows(&part.rows, rows);
            assert!(!chunk.is_empty() && chunk.end <= part.rows.end, "rows {chunk:?} of {:?}", part.rows);
            let body = self.body(&columns, &chunk)?;
            let len = body.buffers.iter().map(|buffer| buffer.len().next_multiple_of(ALIGNMENT)).sum::<usize>();
            if len <= max_bytes || chunk.len() == 1 {
                break (chunk, body, len);
            }
            rows = scaled(chunk.len(), max_bytes, len).min(chunk.len() - 1);
        };

        if chunk.end < part.rows.end {
            // At most twice as many: a few small rows say little about the following ones.
            self.rows = Some(scaled(chunk.len(), max_bytes, len).min(2 * chunk.len()));
        }

        let mut messages = Vec::with_capacity(1);
        for pending in self.dictionaries.pending()? {
            let batch = describe(pending.rows, &pending.body, &pending.body.buffers);
            let metadata = metadata::batch_metadata(&batch, None, Some((pending.id, pending.is_delta)));
            messages.push(EncodedMessage { kind: MessageKind::DictionaryBatch, metadata, body: pending.body.buffers });
        }
        let metadata = metadata::batch_metadata(&describe(chunk.len(), &body, &body.buffers), None, None);
        messages.push(EncodedMessage { kind: MessageKind::RecordBatch, metadata, body: body.buffers });
        Ok((messages, chunk.len() as u64))
    }

    fn body(&mut self, columns: &[&ArrayData], rows: &Range<usize>) -> Result<Body> {
        assert_eq!(self.nodes.columns.len(), columns.len(), "a column would be encoded without its node");
        let mut body = Body::default();
        for (node, array) in self.nodes.columns.iter().zip(columns) {
            if !body.add_plain(node, array, rows) {
                body.add(node, &slice(array, rows.start, rows.len()), &mut self.dictionaries)?;
            }
        }
        Ok(body)
    }
}

impl fmt::Debug for StreamEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamEncoder").field("schema", &self.schema).field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Returns the first `count` of `rows`, or fewer, to end at a multiple of [`ROW_ALIGNMENT`].
fn first_rows(rows: &Range<usize>, count: usize) -> Range<usize> {
    let end = rows.start.saturating_add(count.max(1));
    if end >= rows.end {
        return rows.clone();
    }
    let aligned = end - end % ROW_ALIGNMENT;
    rows.start..if aligned > rows.start { aligned } else { end }
}

/// Returns how many of `rows` take about `max_bytes`: exact for numbers, an estimate for nested types.
fn estimate_rows(columns: &[&ArrayData], rows: Range<usize>, max_bytes: usize) -> usize {
    let mut bytes = 0u64;
    for array in columns {
        bytes = bytes.saturating_add(byte_size(UncheckedArray::from_ref(array), rows.clone()));
    }
    scaled(rows.len(), max_bytes, usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Returns the number of rows in `max_bytes` if `rows` take `bytes`.
fn scaled(rows: usize, max_bytes: usize, bytes: usize) -> usize {
    let scaled = rows as u128 * max_bytes as u128 / bytes.max(1) as u128;
    usize::try_from(scaled).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    /// The message of such a schema describes a dictionary of the inner values, without the inner keys.
    #[test]
    fn dictionaries_of_dictionaries_are_refused() {
        let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int8), Box::new(values));
        let field = Field::new("nested", dictionary(dictionary(DataType::Utf8)), true);
        let error = StreamEncoder::new(Arc::new(Schema::new(vec![field]))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
