//! Reads an IPC stream from a pipe: message by message, each batch as soon as it arrives.
//!
//! Each message is held in memory of its own and decoded by the code that reads in place. Lengths are not trusted:
//! memory is taken for bytes that have arrived, and at most as much again.

use std::collections::HashMap;
use std::io::{self, BufReader, Chain, Cursor, IoSliceMut, Read};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::data::{at_message, never_written, unexpected};
use super::decode::{Batch, Decoder, DictionarySource, count_zero_bits};
use super::dictionary::concat;
use crate::array::{Bytes, UncheckedArray, aligned, to_array};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{
    BatchHeader, CONTINUATION, DictionaryHeader, IpcSchema, MAGIC, MessageFrame, MessageHeader, MessageKind, Node,
    buffer_roles, length, not_arrow_error,
};
use crate::types::BufferRole;

/// Reads an Arrow IPC stream from `input`, which need not be a file: for example, a pipe or a socket. Returns once the
/// schema has arrived.
///
/// # Errors
/// `InvalidData` with a guess at what the bytes are instead, `Unsupported`, `Io`.
pub fn read_stream<R: Read>(mut input: R) -> Result<StreamReader<R>> {
    let mut head = vec![0; 512];
    let mut len = 0;
    while len < 8 {
        match input.read(head.get_mut(len..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(&e)),
        }
    }
    head.truncate(len);
    let begun = Cursor::new(head.clone());
    let refused = why_no_stream(&head);
    let head = Bytes::from(head);
    if let Some(cause) = refused {
        return Err(not_arrow_error(&head, cause));
    }
    let input = BufReader::with_capacity(64 << 10, input);
    let mut source = MessageReader { input: begun.chain(input), at: 0, legacy: false };
    let schema =
        source.schema().map_err(|e| if e.kind() == ErrorKind::Io { e } else { not_arrow_error(&head, Some(e)) })?;
    let dictionaries = StreamDictionaries::for_schema(&schema);
    Ok(StreamReader { source, schema, dictionaries, batches: 0, ended: false })
}

/// Returns the cause why `head` is not the start of a stream; `None` if it is one. The cause may be unknown.
///
/// Text read as a length would have the reader wait for megabytes of schema.
fn why_no_stream(head: &[u8]) -> Option<Option<Error>> {
    const LARGEST: u32 = 16 << 20;
    let file = "an Arrow IPC file, not a stream: its batches are listed at its end; open it by its path";
    match head.first_chunk().map(|word| u32::from_le_bytes(*word)) {
        _ if head.starts_with(MAGIC) => Some(Some(Error::unsupported(file))),
        Some(CONTINUATION | 1..=LARGEST) => None,
        _ => Some(None),
    }
}

fn failed(e: &io::Error) -> Error {
    Error::io("reading an Arrow stream", e)
}

/// The record batches of an IPC stream, each as soon as it has arrived and is checked.
///
/// A batch has the dictionaries of its position in the stream. Deltas are concatenated by a copy, which is made again
/// for the next batch after a delta. An error is the last item.
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
        while let Some(message) = self.source.message()? {
            let header = message.header()?;
            match header.kind {
                MessageKind::RecordBatch => {
                    let batch = BatchHeader::parse(header.table).and_then(|parsed| {
                        Batch::new(parsed, header.version, (0, header.body_len), &self.schema.columns)
                    });
                    return batch.map(|batch| Some((message.frame, batch))).map_err(|e| self.at_batch(e));
                }
                MessageKind::DictionaryBatch => {
                    let body = self.source.body(message.frame, header.body_len)?;
                    self.dictionary(&header, body).map_err(|e| at_message(e, message.frame))?;
                }
                other => return Err(unexpected(message.frame, MessageKind::RecordBatch, other)),
            }
        }
        Ok(None)
    }

    fn at_batch(&self, e: Error) -> Error {
        e.context(format_args!("batch {}", self.batches))
    }

    /// Reads up to the end of the next record batch.
    fn step(&mut self) -> Result<Option<RecordBatch>> {
        let Some((frame, batch)) = self.advance()? else { return Ok(None) };
        let body = self.source.body(frame, batch.body.1)?;
        let made = self.batch(&batch, &body).map_err(|e| self.at_batch(e))?;
        self.batches += 1;
        Ok(Some(made))
    }

    fn batch(&self, batch: &Batch, body: &Bytes) -> Result<RecordBatch> {
        let columns = (0..self.schema.columns.len()).map(|number| self.numbered(body, batch, number).map(to_array));
        let columns = columns.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.header.rows));
        let made = RecordBatch::try_new_with_options(self.schema().clone(), columns, &options);
        made.map_err(|e| Error::invalid(e.to_string()))
    }

    fn numbered(&self, body: &Bytes, batch: &Batch, number: usize) -> Result<ArrayData> {
        let node = &self.schema.columns[number];
        let array = self.column(body, batch, node, number);
        array.map_err(|e| e.context(format_args!("column '{}'", node.field.name())))
    }

    /// Decodes and checks a column.
    fn column(&self, body: &Bytes, batch: &Batch, node: &Node, number: usize) -> Result<ArrayData> {
        let decoder = Decoder {
            bytes: body,
            schema: &self.schema,
            dictionaries: &self.dictionaries,
            copied: &AtomicU64::new(0),
            strict: false,
            most_unpacked: None,
            thorough: false,
        };
        let array = decoder.column(batch, node, number)?;
        match &node.dictionary {
            Some((id, _)) => array.checked(self.dictionaries.whole(*id)?.as_slice()),
            None => array.checked(&self.dictionaries.known_to(node)?),
        }
    }

    fn dictionary(&mut self, header: &MessageHeader<'_>, body: Bytes) -> Result<()> {
        let DictionaryHeader { id, is_delta, data } = DictionaryHeader::parse(header.table)?;
        let wrong = |what: &str| Error::invalid(format!("the batch of dictionary {id} {what}"));
        let node = self.dictionaries.0.get(&id).ok_or_else(|| wrong("is of no field of the schema"))?.node.clone();
        let nodes = std::slice::from_ref(node.as_ref());
        let values = Batch::new(BatchHeader::parse(data)?, header.version, (0, body.len()), nodes)
            .and_then(|batch| self.column(&body, &batch, &node, 0))
            .map_err(|e| e.context(format_args!("dictionary {id}")))?;
        let known = self.dictionaries.0.get_mut(&id).ok_or_else(|| wrong("is of no field of the schema"))?;
        match (is_delta, known.parts.is_empty()) {
            (true, true) => return Err(wrong("is a delta to nothing")),
            (true, false) => known.extend(values),
            (false, _) => *known = StreamDictionary { node, parts: vec![values], whole: OnceLock::new() },
        }
        Ok(())
    }
}

/// The destination of fixed-width values.
pub(crate) trait ValueDestination {
    /// Returns for each column memory for the values of `rows` more rows, or `None` if they are not placed.
    fn reserve(&mut self, rows: usize) -> Result<Vec<Option<&mut [u8]>>>;
}

/// A record batch, some of whose values are in their destination already; with the rest of each column.
pub(crate) struct ReceivedBatch {
    pub rows: usize,
    /// An array with its values, or the validity bitmap with its null count for values that are in their destination.
    pub columns: Vec<std::result::Result<ArrayData, Option<(Buffer, usize)>>>,
}

impl<R: Read> StreamReader<R> {
    /// Reads the next record batch. Values that the body stores as they are go straight to their destination.
    pub(crate) fn read_into(&mut self, into: &mut impl ValueDestination) -> Result<Option<ReceivedBatch>> {
        if self.ended {
            return Ok(None);
        }
        let Some((frame, mut batch)) = self.advance()? else { return Ok(None) };
        let as_they_are = batch.header.compression.is_none() && !self.schema.big_endian && is_in_order(&batch);
        let places = if as_they_are { into.reserve(batch.header.rows)? } else { Vec::new() };
        let placed: Vec<bool> = places.iter().map(Option::is_some).collect();
        let body = self.scatter(frame, &mut batch, places).map_err(|e| self.at_batch(e))?;
        let column = |number: usize| match placed.get(number) {
            Some(true) => self.validity(&body, &batch, number).map(Err),
            _ => self.numbered(&body, &batch, number).map(Ok),
        };
        let columns = (0..self.schema.columns.len()).map(column).collect::<Result<_>>();
        let columns = columns.map_err(|e| self.at_batch(e))?;
        self.batches += 1;
        Ok(Some(ReceivedBatch { rows: batch.header.rows, columns }))
    }

    /// Reads a body: values into their destination, everything else into the returned bytes. Updates the buffers'
    /// offsets in the batch's header to match.
    fn scatter(&mut self, frame: MessageFrame, batch: &mut Batch, places: Vec<Option<&mut [u8]>>) -> Result<Bytes> {
        let mut direct: Vec<Option<&mut [u8]>> = batch.header.buffers.iter().map(|_| None).collect();
        for ((number, place), node) in places.into_iter().enumerate().zip(&self.schema.columns) {
            let first = batch.start_of(number).map_or(usize::MAX, |(_, buffer)| buffer);
            let values = first.saturating_add(usize::from(had_own_validity(node, batch.version)));
            if let (Some(place), Some(direct)) = (place, direct.get_mut(values)) {
                *direct = Some(place);
            }
        }
        if direct.iter().all(Option::is_none) {
            return self.source.body(frame, batch.body.1);
        }
        let pieces = cut_body(batch, &direct)?;
        let rest = pieces.iter().filter(|(_, to)| to.is_none()).map(|(len, _)| len).sum();
        let source = &mut self.source;
        let body_len = batch.body.1;
        batch.body = (0, rest);
        source.filled(frame, rest, |source, mut free| {
            let mut slices = Vec::with_capacity(pieces.len());
            for (len, to) in pieces {
                if let Some(place) = to.and_then(|buffer| direct[buffer].take()) {
                    slices.push(IoSliceMut::new(place));
                    continue;
                }
                let (front, back) = std::mem::take(&mut free).split_at_mut(len);
                slices.push(IoSliceMut::new(front));
                free = back;
            }
            source.scatter(frame, body_len, &mut slices)
        })
    }

    /// Returns the bitmap of a column whose values are in their destination.
    fn validity(&self, body: &Bytes, batch: &Batch, number: usize) -> Result<Option<(Buffer, usize)>> {
        let node = &self.schema.columns[number];
        let (first_node, first_buffer) = batch.start_of(number).unwrap_or((usize::MAX, usize::MAX));
        let (rows, nulls) = batch.header.nodes.get(first_node).copied().unwrap_or_default();
        let failed = |what: String| Err(Error::invalid(format!("column '{}': {what}", node.field.name())));
        let rows = length("field node's length", rows)?;
        let nulls = length("null count", nulls)?;
        if rows != batch.header.rows {
            return failed(format!("the batch has {} rows, the column's field node {rows}", batch.header.rows));
        }
        if nulls == 0 {
            return Ok(None);
        }
        let (offset, len) = batch.header.buffers.get(first_buffer).copied().unwrap_or_default();
        let bits = body.slice(length("buffer offset", offset)?, length("buffer length", len)?);
        match bits.filter(|bits| bits.len() >= rows.div_ceil(8)) {
            Some(bits) if count_zero_bits(&bits, rows) == nulls => Ok(Some((bits, nulls))),
            Some(bits) => {
                failed(format!("{nulls} nulls are declared, the validity bitmap has {}", count_zero_bits(&bits, rows)))
            }
            None => failed(format!("a validity bitmap of {len} bytes for {rows} rows")),
        }
    }
}

/// Whether each buffer of the body begins at or after the end of those before it.
fn is_in_order(batch: &Batch) -> bool {
    let mut end = 0;
    batch.header.buffers.iter().all(|&(offset, len)| {
        let is_behind = len >= 0 && (offset >= end || len == 0);
        end = if len == 0 { end } else { offset.saturating_add(len) };
        is_behind && usize::try_from(end).is_ok_and(|end| end <= batch.body.1)
    })
}

/// Cuts the body into pieces, each with its length and, if it has a destination, the number of its buffer. Buffers of
/// the header are moved to their offsets among the remaining ones.
fn cut_body(batch: &mut Batch, direct: &[Option<&mut [u8]>]) -> Result<Vec<(usize, Option<usize>)>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut rest = 0;
    for (number, buffer) in batch.header.buffers.iter_mut().enumerate() {
        let offset = length("buffer offset", buffer.0)?;
        let len = length("buffer length", buffer.1)?;
        let Some(place) = &direct[number] else {
            // Includes the bytes between it and the one before, to keep its alignment.
            let start = if len == 0 { at } else { offset };
            pieces.push((start - at + len, None));
            buffer.0 = (rest + start - at) as i64;
            rest += start - at + len;
            at = start + len;
            continue;
        };
        if len < place.len() {
            let needed = place.len();
            let got = len;
            return Err(Error::invalid(format!("buffer {number}: the values need {needed} bytes, got {got}")));
        }
        let start = if len == 0 { at } else { offset };
        let behind = len - place.len();
        pieces.extend([(start - at, None), (place.len(), Some(number)), (behind, None)]);
        rest += start - at + behind;
        *buffer = (0, 0);
        at = start + len;
    }
    pieces.push((batch.body.1 - at, None));
    Ok(pieces)
}

/// Whether the first of the node's buffers is a validity bitmap.
fn had_own_validity(node: &Node, version: i16) -> bool {
    buffer_roles(node, version).first() == Some(&BufferRole::Validity)
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<RecordBatch>;

    /// Returns the next batch, after waiting for it.
    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.ended {
            return None;
        }
        let next = self.step().transpose();
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

/// The current dictionaries by id.
struct StreamDictionaries(HashMap<i64, StreamDictionary>);

struct StreamDictionary {
    /// The node of the values.
    node: Arc<Node>,
    /// Empty before the first batch.
    parts: Vec<ArrayData>,
    /// All parts concatenated, if there are several and they are needed.
    whole: OnceLock<ArrayData>,
}

impl StreamDictionaries {
    fn for_schema(schema: &IpcSchema) -> StreamDictionaries {
        let mut known = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, node| {
                known.insert(id, StreamDictionary { node: node.clone(), parts: Vec::new(), whole: OnceLock::new() });
            });
        }
        StreamDictionaries(known)
    }
}

impl StreamDictionary {
    fn extend(&mut self, values: ArrayData) {
        if let Some(whole) = self.whole.take() {
            self.parts = vec![whole];
        }
        self.parts.push(values);
    }

    fn whole(&self) -> Result<Option<&ArrayData>> {
        if let [] | [_] = &self.parts[..] {
            return Ok(self.parts.first());
        }
        if let Some(whole) = self.whole.get() {
            return Ok(Some(whole));
        }
        let parts: Vec<_> = self.parts.iter().cloned().map(aligned).collect();
        let whole = concat(&parts)?;
        Ok(Some(self.whole.get_or_init(|| whole)))
    }
}

impl StreamDictionaries {
    fn whole(&self, id: i64) -> Result<Option<&ArrayData>> {
        let whole = self.0.get(&id).map_or(Ok(None), StreamDictionary::whole);
        whole.map_err(|e| e.context(format_args!("dictionary {id}")))
    }

    /// Returns the dictionaries that `node` and its children use, which were checked on arrival.
    fn known_to(&self, node: &Node) -> Result<Vec<&ArrayData>> {
        let mut known = Ok(Vec::new());
        node.dictionaries(&mut |id, _| match (&mut known, self.whole(id)) {
            (Ok(found), Ok(whole)) => found.extend(whole),
            (Ok(_), Err(e)) => known = Err(e),
            (Err(_), _) => (),
        });
        known
    }
}

impl DictionarySource for StreamDictionaries {
    fn values(&self, id: i64) -> Result<Option<UncheckedArray>> {
        self.whole(id).map(|whole| whole.cloned().map(UncheckedArray::from))
    }
}

// ---- bytes ----

/// The source of messages.
struct MessageReader<R> {
    input: R,
    /// Number of bytes read.
    at: usize,
    /// Whether the framing is that of formats before 0.15.
    legacy: bool,
}

/// A message without its body.
struct StreamMessage {
    frame: MessageFrame,
    metadata: Vec<u8>,
}

impl StreamMessage {
    fn header(&self) -> Result<MessageHeader<'_>> {
        MessageHeader::parse(&self.metadata).map_err(|e| at_message(e, self.frame))
    }
}

impl<R: Read> MessageReader<R> {
    fn schema(&mut self) -> Result<IpcSchema> {
        let message = self.message()?.ok_or_else(|| Error::invalid("an Arrow stream without a schema"))?;
        self.legacy = message.frame.is_legacy();
        let header = message.header()?;
        match header.kind {
            MessageKind::Schema => IpcSchema::parse(header.table, message.metadata.len()),
            other => Err(unexpected(message.frame, MessageKind::Schema, other)),
        }
    }

    /// Returns the next message; `None` at the end of the stream.
    fn message(&mut self) -> Result<Option<StreamMessage>> {
        let offset = self.at;
        let Some(first) = self.word(offset)? else { return Ok(None) };
        let len = match first {
            CONTINUATION => self.word(offset)?.ok_or_else(|| cut(offset, "4 bytes of length", 0))?,
            legacy => legacy,
        };
        if len == 0 {
            // As in a file, a single zero word is the end in the framing before format 0.15, or with at most padding
            // after it.
            let zeros = first == 0 && !self.legacy && self.fill(5)?.len() > 4;
            return if zeros { Err(never_written(offset)) } else { Ok(None) };
        }
        let metadata_len = i32::try_from(len)
            .ok()
            .and_then(|len| usize::try_from(len).ok())
            .ok_or_else(|| Error::invalid(format!("the message at byte {offset} has a negative length of metadata")))?;
        let frame = MessageFrame { offset, metadata: self.at, metadata_len };
        let metadata = self.fill(metadata_len)?;
        if metadata.len() < metadata_len {
            return Err(cut(offset, &format!("{metadata_len} bytes of metadata"), metadata.len()));
        }
        Ok(Some(StreamMessage { frame, metadata }))
    }

    fn body(&mut self, frame: MessageFrame, len: usize) -> Result<Bytes> {
        self.filled(frame, len, |source, into| source.scatter(frame, len, &mut [IoSliceMut::new(into)]))
    }

    /// Returns memory of `len` bytes, the length of a body, that `fill` reads into. It is not touched before bytes
    /// arrive.
    fn filled(
        &mut self,
        frame: MessageFrame,
        len: usize,
        fill: impl FnOnce(&mut Self, &mut [u8]) -> Result<()>,
    ) -> Result<Bytes> {
        let no_memory = |e| at_message(Error::io(&format!("taking memory for a body of {len} bytes"), &e), frame);
        Bytes::build_buffer(len, |into| fill(self, into), no_memory).map(Bytes::from)
    }

    /// Fills the slices, which have the `len` bytes of a body.
    fn scatter(&mut self, frame: MessageFrame, len: usize, mut slices: &mut [IoSliceMut<'_>]) -> Result<()> {
        /// Linux and macOS take no more at once (readv(2), `IOV_MAX`).
        const MOST: usize = 1024;
        let start = self.at;
        IoSliceMut::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let most = slices.len().min(MOST);
            match self.input.read_vectored(&mut slices[..most]) {
                Ok(0) => return Err(cut(frame.offset, &format!("a body of {len} bytes"), self.at - start)),
                Ok(came) => {
                    self.at += came;
                    IoSliceMut::advance_slices(&mut slices, came);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return Err(failed(&e)),
            }
        }
        Ok(())
    }

    /// Reads four bytes as a number; `None` at the end of the input.
    fn word(&mut self, offset: usize) -> Result<Option<u32>> {
        match self.fill(4)?[..] {
            [] => Ok(None),
            [a, b, c, d] => Ok(Some(u32::from_le_bytes([a, b, c, d]))),
            ref some => Err(cut(offset, "4 bytes of length", some.len())),
        }
    }

    /// Reads `len` bytes, or as many as there are. Takes memory as they arrive.
    fn fill(&mut self, len: usize) -> Result<Vec<u8>> {
        const FIRST: usize = 64 << 10;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let step = (len - bytes.len()).min(bytes.len().max(FIRST));
            let none = |_| Error::out_of_memory(format!("no memory for a message of {len} bytes"));
            bytes.try_reserve_exact(step).map_err(none)?;
            let came = (&mut self.input).take(step as u64).read_to_end(&mut bytes).map_err(|e| failed(&e))?;
            self.at += came;
            if came < step {
                break;
            }
        }
        Ok(bytes)
    }
}

fn cut(offset: usize, what: &str, got: usize) -> Error {
    Error::invalid(format!("truncated: the message at byte {offset} has {what}, but the input ends after {got}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, OpenOptions, WriteOptions, write_to};
    use arrow_array::builder::StringDictionaryBuilder;
    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, Int64Array};
    use arrow_ipc::MetadataVersion;
    use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
    use std::io::Write;

    /// Rows with a dictionary of `words`, the first being `number`.
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

    /// As arrow-rs writes it, with dictionaries that replace each other; also in the framing before format 0.15.
    fn replacing(legacy: bool) -> Vec<u8> {
        let version = if legacy { MetadataVersion::V4 } else { MetadataVersion::V5 };
        let options = IpcWriteOptions::try_new(8, legacy, version).unwrap();
        let batches = batches();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batches[0].schema(), options).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    /// As the crate writes it, with dictionaries that grow before they are replaced.
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
            let got = read_stream(&bytes[..]).unwrap().collect::<Result<Vec<_>>>().unwrap();
            assert_eq!(got.iter().map(symbols).collect::<Vec<_>>(), batches().iter().map(symbols).collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_batch_comes_as_soon_as_its_last_byte() {
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
    fn cut_off_anywhere_it_ends_where_it_does_in_place() {
        for bytes in [growing(), replacing(true)] {
            for len in 0..bytes.len() {
                let cut = &bytes[..len];
                let stream = read_stream(cut);
                let read = stream.and_then(|stream| stream.collect::<Result<Vec<_>>>());
                assert_eq!(read.is_ok(), in_place(cut).is_ok(), "cut to {len} bytes: {read:?}");
                match read {
                    Ok(read) => assert_eq!(read, in_place(cut).unwrap()),
                    Err(e) if len < 4 => assert!(e.message().starts_with("not Arrow"), "{e}"),
                    // In old framing nothing but the schema's own bytes tell that it is one.
                    Err(e) => assert!(e.message().contains("truncated"), "cut to {len} bytes: {e}"),
                }
            }
        }
    }

    #[test]
    fn an_error_is_the_last_item() {
        let bytes = growing();
        let mut stream = read_stream(&bytes[..bytes.len() - 20]).unwrap();
        let items: Vec<_> = stream.by_ref().collect();
        assert!(items.len() > 1 && items.iter().filter(|item| item.is_err()).count() == 1);
        assert!(items.last().unwrap().is_err() && stream.next().is_none());
    }

    #[test]
    fn zeros_are_no_end() {
        let bytes = growing();
        let whole = &bytes[..bytes.len() - 8];
        for (zeros, good) in [(0, true), (4, true), (8, true), (9, false), (4096, false)] {
            let read = read_stream(whole.chain(&vec![0; zeros][..])).unwrap().collect::<Result<Vec<_>>>();
            assert_eq!(read.is_ok(), good, "{zeros}: {read:?}");
        }
    }

    #[test]
    fn memory_is_taken_as_bytes_come() {
        let mut source = MessageReader { input: std::io::repeat(7).take(10), at: 0, legacy: false };
        let bytes = source.fill(i32::MAX as usize).unwrap();
        assert!(bytes.len() == 10 && bytes.capacity() <= 64 << 10);
        let mut source = MessageReader { input: std::io::repeat(7).take(1_000_000), at: 0, legacy: false };
        let bytes = source.fill(usize::MAX / 2).unwrap();
        assert!(bytes.len() == 1_000_000 && bytes.capacity() <= 2_000_000 && source.at == 1_000_000);
        let claims = [&[0xff; 4][..], &i32::MAX.to_le_bytes(), &[0; 22]].concat();
        assert!(read_stream(&claims[..]).unwrap_err().message().contains("22"));
    }

    #[test]
    fn what_is_no_stream_is_named() {
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
