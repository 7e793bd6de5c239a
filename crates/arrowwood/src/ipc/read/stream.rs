//! Reads an IPC stream from a pipe: message by message, each batch as soon as it arrives.
//!
//! Each message is read into its own memory and decoded by the code that reads in place. Lengths are not trusted:
//! memory is allocated for bytes that have arrived, and at most as much again.
//!
//! [`StreamReader`] returns whole batches. Its `read_into` scatters a body instead: it reads the values of fixed-width
//! columns straight into memory of the caller, and all other bytes, in their order, into one buffer, the *rest* of the
//! body, to which the buffers' offsets are moved.

use std::io::{self, BufReader, Chain, Cursor, IoSliceMut, Read};
use std::sync::atomic::AtomicU64;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::data::{at_message, unexpected};
use super::decode::{Batch, BodyPosition, Decoder, count_zero_bits};
use super::message_reader::{MessageReader, read_error};
use super::stream_dictionaries::StreamDictionaries;
use crate::array::{Bytes, require_little_endian, to_array};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{
    BatchHeader, CONTINUATION, DictionaryHeader, IpcSchema, MAGIC, MessageFrame, MessageHeader, MessageKind, Node,
    PREFIX, buffer_roles, length, not_arrow_error,
};
use crate::types::BufferRole;

/// Reads an Arrow IPC stream from `input`, which need not be a file: for example, a pipe or a socket.
///
/// Returns once the schema has arrived.
///
/// # Errors
/// `InvalidData` with a guess at what the bytes are instead, `Unsupported`, `Io`.
pub fn read_stream<R: Read>(mut input: R) -> Result<StreamReader<R>> {
    /// The number of bytes at the start of the input that a guess at its format may use.
    const HEAD: usize = 512;
    /// The capacity of the buffer for metadata. Bodies bypass it.
    const BUFFER: usize = 64 << 10;

    require_little_endian("reading a stream")?;
    let mut head = vec![0; HEAD];
    let mut len = 0;
    while len < PREFIX {
        match input.read(&mut head[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(read_error(&e)),
        }
    }
    head.truncate(len);
    check_is_stream(&head)?;

    let mut source = MessageReader::new(Cursor::new(head.clone()).chain(BufReader::with_capacity(BUFFER, input)));
    let schema = match source.read_schema() {
        Ok(schema) => schema,
        Err(e) if e.kind() == ErrorKind::Io => return Err(e),
        Err(e) => return Err(not_arrow_error(&Bytes::from(head), Some(e))),
    };
    let dictionaries = StreamDictionaries::for_schema(&schema);
    Ok(StreamReader { source, schema, dictionaries, batches: 0, ended: false })
}

/// Checks that `head` is the start of a stream. If other text were read as a length, the reader would wait for
/// megabytes of schema.
fn check_is_stream(head: &[u8]) -> Result<()> {
    /// The limit of bytes of the schema in a stream without continuation markers.
    const MAX_LEGACY_SCHEMA: u32 = 16 << 20;
    if head.starts_with(MAGIC) {
        let message = "an Arrow IPC file, not a stream: its batches are listed at its end; open it by its path";
        return Err(not_arrow_error(&Bytes::from(head.to_vec()), Some(Error::unsupported(message))));
    }
    match head.first_chunk().map(|word| u32::from_le_bytes(*word)) {
        Some(CONTINUATION | 1..=MAX_LEGACY_SCHEMA) => Ok(()),
        _ => Err(not_arrow_error(&Bytes::from(head.to_vec()), None)),
    }
}

/// An iterator over the record batches of an IPC stream.
///
/// It returns each as soon as it has arrived and is checked. A batch has the dictionaries of its position in the
/// stream. Deltas are concatenated by a copy, which is repeated for the next batch after a delta. An error is the last
/// item.
///
/// ```
/// # use arrowwood::{Dataset, Format, WriteOptions, read_stream, write_to};
/// # let dataset = Dataset::from_batches(arrow_schema::Schema::empty().into(), vec![])?;
/// # let mut bytes = Vec::new();
/// # write_to(&dataset, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() })?;
/// let stream = read_stream(&bytes[..])?;
/// println!("{}", stream.schema());
/// for batch in stream {
///     println!("{} rows", batch?.num_rows());
/// }
/// # Ok::<(), arrowwood::Error>(())
/// ```
pub struct StreamReader<R> {
    source: MessageReader<Chain<Cursor<Vec<u8>>, BufReader<R>>>,
    schema: IpcSchema,
    dictionaries: StreamDictionaries,
    /// The number of record batches read.
    batches: usize,
    ended: bool,
}

impl<R: Read> StreamReader<R> {
    /// Returns the schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema.schema
    }

    /// Reads up to the body of the next record batch, including the dictionaries before it.
    fn advance(&mut self) -> Result<Option<(MessageFrame, Batch)>> {
        while let Some(message) = self.source.read_message()? {
            let header = message.header()?;
            match header.kind {
                MessageKind::RecordBatch => {
                    let body = BodyPosition { offset: 0, len: header.body_len };
                    let batch = BatchHeader::parse(header.table)
                        .and_then(|parsed| Batch::new(parsed, header.version, body, &self.schema.columns));
                    let batch = batch.map_err(|e| self.batch_error(e))?;
                    return Ok(Some((message.frame, batch)));
                }
                MessageKind::DictionaryBatch => {
                    let body = self.source.read_body(message.frame, header.body_len)?;
                    self.add_dictionary(&header, body).map_err(|e| at_message(e, message.frame))?;
                }
                other => return Err(unexpected(message.frame, MessageKind::RecordBatch, other)),
            }
        }
        Ok(None)
    }

    /// Adds the number of the batch being read to an error.
    fn batch_error(&self, e: Error) -> Error {
        e.context(format_args!("batch {}", self.batches))
    }

    /// Reads the next record batch.
    fn read_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some((frame, batch)) = self.advance()? else { return Ok(None) };
        let body = self.source.read_body(frame, batch.body.len)?;
        let record_batch = self.record_batch(&batch, &body).map_err(|e| self.batch_error(e))?;
        self.batches += 1;
        Ok(Some(record_batch))
    }

    fn record_batch(&self, batch: &Batch, body: &Bytes) -> Result<RecordBatch> {
        let columns = (0..self.schema.columns.len())
            .map(|number| self.column(body, batch, number).map(to_array))
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.header.rows));
        RecordBatch::try_new_with_options(self.schema().clone(), columns, &options)
            .map_err(|e| Error::invalid(e.to_string()))
    }

    fn column(&self, body: &Bytes, batch: &Batch, number: usize) -> Result<ArrayData> {
        let node = &self.schema.columns[number];
        self.decode(body, batch, node, number).map_err(|e| e.context(format_args!("column '{}'", node.field.name())))
    }

    /// Decodes and checks a column.
    fn decode(&self, body: &Bytes, batch: &Batch, node: &Node, number: usize) -> Result<ArrayData> {
        let decoder = Decoder {
            bytes: body,
            schema: &self.schema,
            dictionaries: &self.dictionaries,
            copied: &AtomicU64::new(0),
            strict: false,
            max_unpacked: None,
            thorough: false,
        };
        let array = decoder.column(batch, node, number)?;
        match &node.dictionary {
            Some((id, _)) => array.checked(self.dictionaries.whole(*id)?.as_slice()),
            None => array.checked(&self.dictionaries.used_by(node)?),
        }
    }

    /// Decodes and checks a dictionary batch, and adds its values to its dictionary.
    fn add_dictionary(&mut self, header: &MessageHeader<'_>, body: Bytes) -> Result<()> {
        let DictionaryHeader { id, is_delta, data } = DictionaryHeader::parse(header.table)?;
        let node = self.dictionaries.node(id)?;
        let position = BodyPosition { offset: 0, len: body.len() };
        let nodes = std::slice::from_ref(node.as_ref());
        let values = Batch::new(BatchHeader::parse(data)?, header.version, position, nodes)
            .and_then(|batch| self.decode(&body, &batch, node, 0))
            .map_err(|e| e.context(format_args!("dictionary {id}")))?;
        self.dictionaries.add(id, is_delta, values)
    }
}

/// The destination of fixed-width values.
pub(crate) trait ValueDestination {
    /// Returns for each column memory for the values of `rows` more rows, or `None` if they are not placed.
    fn reserve(&mut self, rows: usize) -> Result<Vec<Option<&mut [u8]>>>;
}

/// A record batch that was read into a [`ValueDestination`].
pub(crate) struct ReceivedBatch {
    pub rows: usize,
    /// The array of each column. `Err` has the validity bitmap and null count of a column whose values are in their
    /// destination, `None` if it has no nulls.
    pub columns: Vec<std::result::Result<ArrayData, Option<(Buffer, usize)>>>,
}

impl<R: Read> StreamReader<R> {
    /// Reads the next record batch. Values that the body stores as they are go straight to their destination. After an
    /// error the stream can't be continued.
    pub(crate) fn read_into(&mut self, into: &mut impl ValueDestination) -> Result<Option<ReceivedBatch>> {
        if self.ended {
            return Ok(None);
        }
        let Some((frame, mut batch)) = self.advance()? else { return Ok(None) };
        let is_stored_plain = batch.header.compression.is_none() && !self.schema.big_endian && is_in_order(&batch);
        let destinations = if is_stored_plain { into.reserve(batch.header.rows)? } else { Vec::new() };
        let is_placed: Vec<bool> = destinations.iter().map(Option::is_some).collect();

        let body = self.read_scattered(frame, &mut batch, destinations).map_err(|e| self.batch_error(e))?;

        let mut columns = Vec::with_capacity(self.schema.columns.len());
        for number in 0..self.schema.columns.len() {
            let column = match is_placed.get(number) {
                Some(true) => self.validity(&body, &batch, number).map(Err),
                _ => self.column(&body, &batch, number).map(Ok),
            };
            columns.push(column.map_err(|e| self.batch_error(e))?);
        }
        self.batches += 1;
        Ok(Some(ReceivedBatch { rows: batch.header.rows, columns }))
    }

    /// Reads a body: values into their destinations, one for each column or none at all, and everything else into the
    /// returned bytes. Updates the buffers' offsets in the batch's header to match.
    fn read_scattered(
        &mut self,
        frame: MessageFrame,
        batch: &mut Batch,
        destinations: Vec<Option<&mut [u8]>>,
    ) -> Result<Bytes> {
        let mut by_buffer: Vec<Option<&mut [u8]>> = batch.header.buffers.iter().map(|_| None).collect();
        for ((number, destination), node) in destinations.into_iter().enumerate().zip(&self.schema.columns) {
            let (Some(destination), Some((_, first))) = (destination, batch.column_start(number)) else { continue };
            let values = first + usize::from(begins_with_validity(node, batch.version));
            assert!(values < by_buffer.len(), "column {number} has a destination, but no buffer of values");
            by_buffer[values] = Some(destination);
        }
        if by_buffer.iter().all(Option::is_none) {
            return self.source.read_body(frame, batch.body.len);
        }

        let body_len = batch.body.len;
        let pieces = cut_body(batch, &by_buffer)?;
        assert_eq!(pieces.iter().map(|piece| piece.len).sum::<usize>(), body_len, "the pieces are not the whole body");
        let rest = pieces.iter().filter(|piece| piece.buffer.is_none()).map(|piece| piece.len).sum();
        batch.body = BodyPosition { offset: 0, len: rest };
        self.source.read_filled(frame, rest, |source, mut free| {
            let mut slices = Vec::with_capacity(pieces.len());
            for piece in pieces {
                if let Some(destination) = piece.buffer.and_then(|buffer| by_buffer[buffer].take()) {
                    slices.push(IoSliceMut::new(destination));
                    continue;
                }
                let (front, back) = std::mem::take(&mut free).split_at_mut(piece.len);
                slices.push(IoSliceMut::new(front));
                free = back;
            }
            source.read_slices(frame, body_len, &mut slices)
        })
    }

    /// Returns the bitmap of a column whose values are in their destination.
    fn validity(&self, body: &Bytes, batch: &Batch, number: usize) -> Result<Option<(Buffer, usize)>> {
        let node = &self.schema.columns[number];
        let Some((first_node, first_buffer)) = batch.column_start(number) else {
            return Err(Error::internal(format_args!("column {number} is not in the batch")));
        };
        let (rows, nulls) = batch.header.nodes[first_node];
        let rows = length("field node's length", rows)?;
        let nulls = length("null count", nulls)?;
        if rows != batch.header.rows {
            let batch_rows = batch.header.rows;
            return Err(column_error(
                node,
                format_args!("the batch has {batch_rows} rows, the column's field node {rows}"),
            ));
        }
        if nulls == 0 {
            return Ok(None);
        }

        let (offset, len) = batch.header.buffers[first_buffer];
        let bits = body.slice(length("buffer offset", offset)?, length("buffer length", len)?);
        let Some(bits) = bits.filter(|bits| bits.len() >= rows.div_ceil(8)) else {
            return Err(column_error(node, format_args!("a validity bitmap of {len} bytes for {rows} rows")));
        };

        let zeros = count_zero_bits(&bits, rows);
        if zeros != nulls {
            let message = format_args!("{nulls} nulls are declared, the validity bitmap has {zeros}");
            return Err(column_error(node, message));
        }
        Ok(Some((bits, nulls)))
    }
}

fn column_error(node: &Node, what: std::fmt::Arguments<'_>) -> Error {
    Error::invalid(format!("column '{}': {what}", node.field.name()))
}

/// Returns true if each buffer of the body begins at or after the end of the buffers before it.
fn is_in_order(batch: &Batch) -> bool {
    let mut end = 0;
    batch.header.buffers.iter().all(|&(offset, len)| {
        let is_behind = len >= 0 && (offset >= end || len == 0);
        end = if len == 0 { end } else { offset.saturating_add(len) };
        is_behind && usize::try_from(end).is_ok_and(|end| end <= batch.body.len)
    })
}

/// A run of bytes of a body that are read to one place.
struct BodyPiece {
    len: usize,
    /// The number of the buffer whose destination the piece is read into; `None` for the rest of the body.
    buffer: Option<usize>,
}

/// Cuts the body of a batch, whose buffers are in order, into pieces. Moves the offsets of the remaining buffers in the
/// header to their offsets in the rest of the body.
fn cut_body(batch: &mut Batch, destinations: &[Option<&mut [u8]>]) -> Result<Vec<BodyPiece>> {
    let mut pieces = Vec::new();
    // The end of the last buffer in the body, and in the rest of the body.
    let mut end = 0;
    let mut rest_end = 0;
    for (number, buffer) in batch.header.buffers.iter_mut().enumerate() {
        let offset = length("buffer offset", buffer.0)?;
        let len = length("buffer length", buffer.1)?;
        let start = if len == 0 { end } else { offset };
        assert!(end <= start, "buffer {number} begins at byte {start} of the body, before byte {end}");
        let gap = start - end;
        match &destinations[number] {
            None => {
                // Includes the bytes between the buffer and the one before, to keep its alignment.
                pieces.push(BodyPiece { len: gap + len, buffer: None });
                buffer.0 = (rest_end + gap) as i64;
                rest_end += gap + len;
            }
            Some(destination) => {
                let needed = destination.len();
                if len < needed {
                    return Err(Error::invalid(format!("buffer {number}: the values need {needed} bytes, got {len}")));
                }
                let padding = len - needed;
                pieces.push(BodyPiece { len: gap, buffer: None });
                pieces.push(BodyPiece { len: needed, buffer: Some(number) });
                pieces.push(BodyPiece { len: padding, buffer: None });
                rest_end += gap + padding;
                *buffer = (0, 0);
            }
        }
        end = start + len;
    }
    assert!(end <= batch.body.len, "the last buffer ends at byte {end} of a body of {} bytes", batch.body.len);
    pieces.push(BodyPiece { len: batch.body.len - end, buffer: None });
    Ok(pieces)
}

/// Returns true if the first of the node's buffers is a validity bitmap.
fn begins_with_validity(node: &Node, version: i16) -> bool {
    buffer_roles(node, version).first() == Some(&BufferRole::Validity)
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<RecordBatch>;

    /// Returns the next batch, after waiting for it.
    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.ended {
            return None;
        }
        let next = self.read_batch().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl<R> std::fmt::Debug for StreamReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let schema = &self.schema.schema;
        f.debug_struct("StreamReader").field("schema", schema).field("batches", &self.batches).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use arrow_array::builder::StringDictionaryBuilder;
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, Int64Array};
    use arrow_ipc::MetadataVersion;
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};

    use super::*;
    use crate::{Format, OpenOptions, WriteOptions, write_to};

    /// Returns rows with a dictionary of `words`, numbered from `number` on.
    fn batch(number: i64, words: &[&str]) -> RecordBatch {
        let mut symbols = StringDictionaryBuilder::<Int32Type>::new();
        words.iter().for_each(|word| symbols.append_value(word));
        let numbers = Int64Array::from_iter_values((0..words.len() as i64).map(|i| number + i));
        let columns: [(&str, ArrayRef); 2] = [("symbol", Arc::new(symbols.finish())), ("number", Arc::new(numbers))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn batches() -> Vec<RecordBatch> {
        let words: [&[&str]; 5] = [&["a", "b"], &["a", "b", "c"], &["a", "b", "c", "b", "d"], &[], &["z", "a"]];
        words.iter().enumerate().map(|(i, words)| batch(10 * i as i64, words)).collect()
    }

    /// Returns a stream of arrow-rs whose dictionaries replace each other, optionally in the framing before format
    /// 0.15.
    fn replacing(legacy: bool) -> Vec<u8> {
        let version = if legacy { MetadataVersion::V4 } else { MetadataVersion::V5 };
        let options = IpcWriteOptions::try_new(8, legacy, version).unwrap();
        let batches = batches();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    /// Returns a stream of this crate whose dictionaries grow before they are replaced.
    fn growing() -> Vec<u8> {
        let dataset = crate::Dataset::try_from(batches()).unwrap();
        let mut bytes = Vec::new();
        write_to(&dataset, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() }).unwrap();
        bytes
    }

    fn symbols(batch: &RecordBatch) -> Vec<String> {
        let dataset = crate::Dataset::try_from(vec![batch.clone()]).unwrap();
        dataset.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect()
    }

    fn in_place(bytes: &[u8]) -> Result<Vec<RecordBatch>> {
        OpenOptions::new().bytes(Bytes::from(bytes.to_vec()))?.to_record_batches().collect()
    }

    #[test]
    fn dictionaries_grow_and_are_replaced() {
        for (bytes, deltas) in [(replacing(false), 0), (replacing(true), 0), (growing(), 2)] {
            let messages = OpenOptions::new().bytes(Bytes::from(bytes.clone())).unwrap().messages().unwrap();
            let is_delta = |message: &&crate::Message| message.dictionary.is_some_and(|(_, is_delta)| is_delta);
            assert_eq!(messages.iter().filter(is_delta).count(), deltas);
            let batches_read = read_stream(&bytes[..]).unwrap().collect::<Result<Vec<_>>>().unwrap();
            assert_eq!(
                batches_read.iter().map(symbols).collect::<Vec<_>>(),
                batches().iter().map(symbols).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn each_batch_is_returned_as_soon_as_its_last_byte_arrives() {
        let bytes = growing();
        let (input, mut output) = std::io::pipe().unwrap();
        let messages = OpenOptions::new().bytes(Bytes::from(bytes.clone())).unwrap().messages().unwrap();
        let mut written = 0;
        let mut write_to = |end: usize| {
            output.write_all(&bytes[written..end]).unwrap();
            written = end;
        };
        write_to(messages[0].body_offset as usize);
        let mut stream = read_stream(input).unwrap();
        assert_eq!(stream.schema().field(1).name(), "number");
        for batch in messages.iter().filter(|message| message.kind == MessageKind::RecordBatch) {
            write_to((batch.body_offset + batch.body_length) as usize);
            assert!(stream.next().unwrap().is_ok());
        }
        drop(output);
        assert!(stream.next().is_none() && stream.next().is_none());
    }

    #[test]
    fn truncated_streams_have_the_same_batches_as_in_place() {
        for bytes in [growing(), replacing(true)] {
            for len in 0..bytes.len() {
                let cut = &bytes[..len];
                let stream = read_stream(cut);
                let read = stream.and_then(|stream| stream.collect::<Result<Vec<_>>>());
                assert_eq!(read.is_ok(), in_place(cut).is_ok(), "cut to {len} bytes: {read:?}");
                match read {
                    Ok(read) => assert_eq!(read, in_place(cut).unwrap()),
                    Err(e) if len < 4 => assert!(e.message().starts_with("not Arrow"), "{e}"),
                    // Only the schema's own bytes identify it in the old framing.
                    Err(e) => assert!(e.message().contains("truncated"), "cut to {len} bytes: {e}"),
                }
            }
        }
    }

    #[test]
    fn errors_end_the_stream() {
        let bytes = growing();
        let mut stream = read_stream(&bytes[..bytes.len() - 20]).unwrap();
        let items: Vec<_> = stream.by_ref().collect();
        assert!(items.len() > 1 && items.iter().filter(|item| item.is_err()).count() == 1);
        assert!(items.last().unwrap().is_err() && stream.next().is_none());
    }

    #[test]
    fn zeros_are_not_the_end_of_a_stream() {
        let bytes = growing();
        let unfinished = &bytes[..bytes.len() - 8];
        for (zeros, good) in [(0, true), (4, true), (8, true), (9, false), (4096, false)] {
            let read = read_stream(unfinished.chain(&vec![0; zeros][..])).unwrap().collect::<Result<Vec<_>>>();
            assert_eq!(read.is_ok(), good, "{zeros}: {read:?}");
        }
    }

    #[test]
    fn a_truncated_schema_is_reported_with_the_length_of_what_came() {
        let claims = [&[0xff; 4][..], &i32::MAX.to_le_bytes(), &[0; 22]].concat();
        assert!(read_stream(&claims[..]).unwrap_err().message().contains("22"));
    }

    #[test]
    fn other_formats_are_named() {
        let mut file = Vec::new();
        write_to(&crate::Dataset::try_from(batches()).unwrap(), &mut file, &WriteOptions::default()).unwrap();
        let cases: [(&[u8], &str); 6] = [
            (&file, "IPC file"),
            (b"a,b\n1,2\n", "CSV"),
            (b"{\"a\": 1}\n", "JSON"),
            (b"", "empty"),
            (&[0; 64], "zeros"),
            (b"PAR1....", "Parquet"),
        ];
        for (bytes, what) in cases {
            let error = read_stream(bytes).unwrap_err();
            assert!(error.message().contains(what), "{what}: {error}");
        }
        // Text on a terminal is reported before its end.
        let (input, mut output) = std::io::pipe().unwrap();
        output.write_all(b"a,b\n1,2\n").unwrap();
        assert!(read_stream(input).unwrap_err().message().contains("CSV"));
    }
}
