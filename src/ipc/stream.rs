//! An IPC stream out of a pipe: message by message, each batch as soon as it has come.
//!
//! What comes is held in memory of its own, one message at a time, and decoded by the code that reads in place. No
//! length is trusted: memory is taken for bytes that have come, and at most as much again.

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::decode::{Batch, Decoder, Dictionaries};
use super::dictionary::concat;
use super::guess::not_arrow;
use super::message::{BatchHeader, CONTINUATION, DictionaryHeader, Frame, Header, Kind};
use super::read::{MAGIC, at_message, never_written, unexpected};
use super::schema::{IpcSchema, Node};
use crate::buffer::{Bytes, aligned, to_array};
use crate::error::{Error, ErrorKind, Result};
use crate::validate;

/// Reads an Arrow IPC stream from `input`, which need not be a file: a pipe, say, or a socket. Returns when the schema
/// has come.
///
/// # Errors
/// `InvalidData` saying what the bytes look like instead, `Unsupported`, `Io`.
pub fn read_stream<R: Read>(mut input: R) -> Result<StreamReader<R>> {
    let mut head = vec![0; 512];
    let mut len = 0;
    while len < 8 {
        match input.read(head.get_mut(len..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(&e)),
        }
    }
    head.truncate(len);
    let begun = Cursor::new(head.clone());
    let (doubt, head) = (doubt(&head), Bytes::from(head));
    if let Some(cause) = doubt {
        return Err(not_arrow(&head, cause));
    }
    let mut source = Source { input: begun.chain(input), at: 0, legacy: false };
    let schema = source.schema().map_err(|e| if e.kind() == ErrorKind::Io { e } else { not_arrow(&head, Some(e)) })?;
    let dictionaries = Known::of_schema(&schema);
    Ok(StreamReader { source, schema, dictionaries, batches: 0, ended: false })
}

/// Why `head` is not how a stream begins, if it is not, and the cause that there is for it.
///
/// Text would be the length of a schema that one could wait for a long time.
fn doubt(head: &[u8]) -> Option<Option<Error>> {
    const LARGEST: u32 = 16 << 20;
    let file = "an Arrow IPC file, not a stream: what is in it stands at its end; open it by its path";
    match head.first_chunk().map(|word| u32::from_le_bytes(*word)) {
        _ if head.starts_with(MAGIC) => Some(Some(Error::unsupported(file))),
        Some(CONTINUATION | 1..=LARGEST) => None,
        _ => Some(None),
    }
}

fn failed(e: &std::io::Error) -> Error {
    Error::io("reading an Arrow stream", e)
}

/// The record batches of an IPC stream, each as soon as it has come and its values are checked.
///
/// The dictionaries of a batch are those of its place in the stream; where one has come in parts (deltas) that is a copy
/// of all of them, made anew for the next batch behind a delta. An error is the last item.
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
    source: Source<std::io::Chain<Cursor<Vec<u8>>, R>>,
    schema: IpcSchema,
    dictionaries: Known,
    /// Record batches that have come.
    batches: usize,
    ended: bool,
}

impl<R: Read> StreamReader<R> {
    /// The schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema.schema
    }

    /// Reads up to the end of the next record batch.
    fn step(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(message) = self.source.message()? {
            let header = message.header()?;
            let body = self.source.body(message.frame, header.body_len)?;
            match header.kind {
                Kind::RecordBatch => {
                    let batch =
                        self.batch(&header, body).map_err(|e| e.context(format_args!("batch {}", self.batches)));
                    self.batches += 1;
                    return batch.map(Some);
                }
                Kind::DictionaryBatch => self.dictionary(&header, body).map_err(|e| at_message(e, message.frame))?,
                other => return Err(unexpected(message.frame, Kind::RecordBatch, other)),
            }
        }
        Ok(None)
    }

    fn batch(&self, header: &Header<'_>, body: Bytes) -> Result<RecordBatch> {
        let nodes = &self.schema.columns;
        let batch = Batch::new(BatchHeader::parse(header.table)?, header.version, (0, body.len()), nodes)?;
        let column = |(number, node): (usize, &Node)| {
            let array = self.column(&body, &batch, node, number);
            let array = array.map_err(|e| e.context(format_args!("column '{}'", node.field.name())));
            array.map(to_array)
        };
        let columns = nodes.iter().enumerate().map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.header.rows));
        let made = RecordBatch::try_new_with_options(self.schema().clone(), columns, &options);
        made.map_err(|e| Error::invalid(e.to_string()))
    }

    /// A column whose values are good.
    fn column(&self, body: &Bytes, batch: &Batch, node: &Node, number: usize) -> Result<ArrayData> {
        let decoder = Decoder {
            bytes: body,
            schema: &self.schema,
            dictionaries: &self.dictionaries,
            copied: &AtomicU64::new(0),
            strict: false,
            thorough: false,
        };
        let array = decoder.column(batch, node, number)?;
        validate::check(&array)?;
        Ok(array)
    }

    fn dictionary(&mut self, header: &Header<'_>, body: Bytes) -> Result<()> {
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
            (false, _) => *known = Dictionary { node, parts: vec![values], whole: OnceLock::new() },
        }
        Ok(())
    }
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<RecordBatch>;

    /// The next batch: waits until it has come.
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

/// The dictionaries as they are now, by id.
struct Known(HashMap<i64, Dictionary>);

struct Dictionary {
    /// The node of the values.
    node: Arc<Node>,
    /// Empty before the first batch.
    parts: Vec<ArrayData>,
    /// All parts put together, where somebody needs them and there is more than one.
    whole: OnceLock<ArrayData>,
}

impl Known {
    fn of_schema(schema: &IpcSchema) -> Known {
        let mut known = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, node| {
                known.insert(id, Dictionary { node: node.clone(), parts: Vec::new(), whole: OnceLock::new() });
            });
        }
        Known(known)
    }
}

impl Dictionary {
    fn extend(&mut self, values: ArrayData) {
        if let Some(whole) = self.whole.take() {
            self.parts = vec![whole];
        }
        self.parts.push(values);
    }

    fn whole(&self) -> Result<Option<ArrayData>> {
        if let [] | [_] = &self.parts[..] {
            return Ok(self.parts.first().cloned());
        }
        if let Some(whole) = self.whole.get() {
            return Ok(Some(whole.clone()));
        }
        let parts: Vec<_> = self.parts.iter().cloned().map(aligned).collect();
        let whole = concat(&parts)?;
        Ok(Some(self.whole.get_or_init(|| whole).clone()))
    }
}

impl Dictionaries for Known {
    fn values(&self, id: i64) -> Result<Option<ArrayData>> {
        let whole = self.0.get(&id).map_or(Ok(None), Dictionary::whole);
        whole.map_err(|e| e.context(format_args!("dictionary {id}")))
    }
}

// ---- bytes ----

/// Where messages come from.
struct Source<R> {
    input: R,
    /// Bytes that have come.
    at: usize,
    /// Whether the framing is that of formats before 0.15.
    legacy: bool,
}

/// A message but for its body.
struct Message {
    frame: Frame,
    metadata: Vec<u8>,
}

impl Message {
    fn header(&self) -> Result<Header<'_>> {
        Header::parse(&self.metadata).map_err(|e| at_message(e, self.frame))
    }
}

impl<R: Read> Source<R> {
    fn schema(&mut self) -> Result<IpcSchema> {
        let message = self.message()?.ok_or_else(|| Error::invalid("an Arrow stream without a schema"))?;
        self.legacy = message.frame.is_legacy();
        let header = message.header()?;
        match header.kind {
            Kind::Schema => IpcSchema::parse(header.table, message.metadata.len()),
            other => Err(unexpected(message.frame, Kind::Schema, other)),
        }
    }

    /// The next message; `None` at the end of the stream.
    fn message(&mut self) -> Result<Option<Message>> {
        let offset = self.at;
        let Some(first) = self.word(offset)? else { return Ok(None) };
        let len = match first {
            CONTINUATION => self.word(offset)?.ok_or_else(|| cut(offset, "4 bytes of length", 0))?,
            legacy => legacy,
        };
        if len == 0 {
            // As in a file: a zero word alone is the end in old framing, or with no more than padding behind it.
            let zeros = first == 0 && !self.legacy && self.fill(5)?.len() > 4;
            return if zeros { Err(never_written(offset)) } else { Ok(None) };
        }
        let metadata_len = i32::try_from(len)
            .ok()
            .and_then(|len| usize::try_from(len).ok())
            .ok_or_else(|| Error::invalid(format!("the message at byte {offset} has a negative length of metadata")))?;
        let frame = Frame { offset, metadata: self.at, metadata_len };
        let metadata = self.fill(metadata_len)?;
        if metadata.len() < metadata_len {
            return Err(cut(offset, &format!("{metadata_len} bytes of metadata"), metadata.len()));
        }
        Ok(Some(Message { frame, metadata }))
    }

    fn body(&mut self, frame: Frame, len: usize) -> Result<Bytes> {
        let body = self.fill(len)?;
        if body.len() < len {
            return Err(cut(frame.offset, &format!("a body of {len} bytes"), body.len()));
        }
        Ok(Bytes::from(body))
    }

    /// Four bytes as a number; `None` at the end of the input.
    fn word(&mut self, offset: usize) -> Result<Option<u32>> {
        match self.fill(4)?[..] {
            [] => Ok(None),
            [a, b, c, d] => Ok(Some(u32::from_le_bytes([a, b, c, d]))),
            ref some => Err(cut(offset, "4 bytes of length", some.len())),
        }
    }

    /// `len` bytes, or what comes before the end of the input. Memory is taken as they come.
    fn fill(&mut self, len: usize) -> Result<Vec<u8>> {
        const FIRST: usize = 64 << 10;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let step = (len - bytes.len()).min(bytes.len().max(FIRST));
            let none = |_| Error::new(ErrorKind::Io, format!("no memory for a message of {len} bytes"));
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
    use crate::{Format, Open, WriteOptions, write_to};
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
        Open::new().bytes(Bytes::from(bytes.to_vec()))?.to_record_batches().collect()
    }

    #[test]
    fn dictionaries_grow_and_are_replaced() {
        for (bytes, deltas) in [(replacing(false), 0), (replacing(true), 0), (growing(), 2)] {
            let messages = Open::new().bytes(Bytes::from(bytes.clone())).unwrap().messages().unwrap();
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
        let messages = Open::new().bytes(Bytes::from(bytes.clone())).unwrap().messages().unwrap();
        let mut written = 0;
        let mut write_to = |end: usize| {
            output.write_all(&bytes[written..end]).unwrap();
            written = end;
        };
        write_to(messages[0].body_offset as usize);
        let mut stream = read_stream(input).unwrap();
        assert_eq!(stream.schema().field(1).name(), "number");
        for batch in messages.iter().filter(|message| message.kind == Kind::RecordBatch) {
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
        let mut source = Source { input: std::io::repeat(7).take(10), at: 0, legacy: false };
        let bytes = source.fill(i32::MAX as usize).unwrap();
        assert!(bytes.len() == 10 && bytes.capacity() <= 64 << 10);
        let mut source = Source { input: std::io::repeat(7).take(1_000_000), at: 0, legacy: false };
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
        // Text on a terminal does not have to end before that is said.
        let (input, mut output) = std::io::pipe().unwrap();
        output.write_all(b"a,b\n1,2\n").unwrap();
        assert!(read_stream(input).unwrap_err().message().contains("CSV"));
    }
}
