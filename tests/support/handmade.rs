//! IPC messages assembled by hand, for tests of input that no writer produces.

use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc as ipc;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Bytes, Dataset, OpenOptions};
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

/// Returns a schema of one nullable column.
pub fn one(data_type: DataType) -> Schema {
    Schema::new(vec![Field::new("c", data_type, true)])
}

/// Returns the type of a dictionary with `Int8` keys.
pub fn coded(values: DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::Int8), Box::new(values))
}

pub fn list_view() -> DataType {
    DataType::ListView(Arc::new(Field::new("item", DataType::Int8, true)))
}

/// A record batch or a dictionary batch.
#[derive(Clone, Default)]
pub struct Msg {
    /// The id of the dictionary, and whether the batch is a delta; `None` for a record batch.
    pub dictionary: Option<(i64, bool)>,
    pub rows: i64,
    /// The rows and nulls of each node.
    pub nodes: Vec<(i64, i64)>,
    /// The offset and length of each buffer in `body`.
    pub buffers: Vec<(i64, i64)>,
    pub variadics: Vec<i64>,
    pub codec: Option<ipc::CompressionType>,
    pub body: Vec<u8>,
}

/// Returns a batch of `rows` rows, given its nodes (rows, nulls) and the bytes of each buffer.
pub fn batch(rows: i64, nodes: &[(i64, i64)], buffers: &[&[u8]]) -> Msg {
    let mut msg = Msg { rows, nodes: nodes.to_vec(), ..Msg::default() };
    for buffer in buffers {
        msg.buffers.push((msg.body.len() as i64, buffer.len() as i64));
        msg.body.extend_from_slice(buffer);
        msg.body.resize(msg.body.len().next_multiple_of(16), 0);
    }
    msg
}

pub fn dictionary(id: i64, delta: bool, values: Msg) -> Msg {
    Msg { dictionary: Some((id, delta)), ..values }
}

pub fn int_values(delta: bool, value: i32) -> Msg {
    dictionary(0, delta, batch(1, &[(1, 0)], &[&[], &value.to_le_bytes()]))
}

pub fn text_values(delta: bool, text: &[u8]) -> Msg {
    dictionary(0, delta, batch(1, &[(1, 0)], &[&[], &i32s(&[0, text.len() as i32]), text]))
}

/// Returns a batch of one dictionary key.
pub fn key(key: u8) -> Msg {
    batch(1, &[(1, 0)], &[&[], &[key]])
}

pub fn i32s(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn message(
    b: &mut FlatBufferBuilder<'_>,
    kind: ipc::MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    body: usize,
) -> Vec<u8> {
    let version = ipc::MetadataVersion::V5;
    let args = ipc::MessageArgs {
        version,
        header_type: kind,
        header: Some(header),
        bodyLength: body as i64,
        custom_metadata: None,
    };
    let message = ipc::Message::create(b, &args);
    b.finish(message, None);
    b.finished_data().to_vec()
}

fn encode_schema<'a>(b: &mut FlatBufferBuilder<'a>, schema: &Schema) -> WIPOffset<ipc::Schema<'a>> {
    let mut ids = DictionaryTracker::new(false);
    IpcSchemaEncoder::new().with_dictionary_tracker(&mut ids).schema_to_fb_offset(b, schema)
}

fn schema_metadata(schema: &Schema) -> Vec<u8> {
    let b = &mut FlatBufferBuilder::new();
    let schema = encode_schema(b, schema);
    message(b, ipc::MessageHeader::Schema, schema.as_union_value(), 0)
}

fn metadata(msg: &Msg) -> Vec<u8> {
    let b = &mut FlatBufferBuilder::new();
    let nodes: Vec<_> = msg.nodes.iter().map(|&(rows, nulls)| ipc::FieldNode::new(rows, nulls)).collect();
    let buffers: Vec<_> = msg.buffers.iter().map(|&(offset, len)| ipc::Buffer::new(offset, len)).collect();
    let codec = msg.codec.map(|codec| (codec, ipc::BodyCompressionMethod::BUFFER));
    let args = ipc::RecordBatchArgs {
        length: msg.rows,
        nodes: Some(b.create_vector(&nodes)),
        buffers: Some(b.create_vector(&buffers)),
        compression: codec
            .map(|(codec, method)| ipc::BodyCompression::create(b, &ipc::BodyCompressionArgs { codec, method })),
        variadicBufferCounts: (!msg.variadics.is_empty()).then(|| b.create_vector(&msg.variadics)),
    };
    let batch = ipc::RecordBatch::create(b, &args);
    let Some((id, is_delta)) = msg.dictionary else {
        return message(b, ipc::MessageHeader::RecordBatch, batch.as_union_value(), msg.body.len());
    };
    let args = ipc::DictionaryBatchArgs { id, data: Some(batch), isDelta: is_delta };
    let dictionary = ipc::DictionaryBatch::create(b, &args).as_union_value();
    message(b, ipc::MessageHeader::DictionaryBatch, dictionary, msg.body.len())
}

/// Appends an encapsulated message; returns its position.
fn append_message(out: &mut Vec<u8>, metadata: &[u8], body: &[u8]) -> ipc::Block {
    let offset = out.len();
    let padded_len = metadata.len().next_multiple_of(8);
    out.extend(u32::MAX.to_le_bytes());
    out.extend((padded_len as i32).to_le_bytes());
    out.extend(metadata);
    out.resize(offset + 8 + padded_len, 0);
    out.extend(body);
    ipc::Block::new(offset as i64, 8 + padded_len as i32, body.len() as i64)
}

/// Returns an IPC stream.
pub fn stream(schema: &Schema, messages: &[Msg]) -> Vec<u8> {
    let mut out = Vec::new();
    append_message(&mut out, &schema_metadata(schema), &[]);
    for msg in messages {
        append_message(&mut out, &metadata(msg), &msg.body);
    }
    out
}

/// Returns an IPC file; `edit_blocks` may change the record batches that its footer lists.
pub fn file(schema: &Schema, messages: &[Msg], edit_blocks: impl Fn(&mut Vec<ipc::Block>)) -> Vec<u8> {
    let mut out = b"ARROW1\0\0".to_vec();
    append_message(&mut out, &schema_metadata(schema), &[]);
    let mut dictionaries = Vec::new();
    let mut batches = Vec::new();
    for msg in messages {
        let block = append_message(&mut out, &metadata(msg), &msg.body);
        match msg.dictionary {
            Some(_) => dictionaries.push(block),
            None => batches.push(block),
        }
    }
    edit_blocks(&mut batches);
    let b = &mut FlatBufferBuilder::new();
    let schema = encode_schema(b, schema);
    let dictionaries = b.create_vector(&dictionaries);
    let batches = b.create_vector(&batches);
    let args = ipc::FooterArgs {
        version: ipc::MetadataVersion::V5,
        schema: Some(schema),
        dictionaries: Some(dictionaries),
        recordBatches: Some(batches),
        custom_metadata: None,
    };
    let footer = ipc::Footer::create(b, &args);
    b.finish(footer, None);
    out.extend(b.finished_data());
    out.extend((b.finished_data().len() as i32).to_le_bytes());
    out.extend(b"ARROW1");
    out
}

/// Returns a stream of `n` batches of one row, each after a delta dictionary with its value.
pub fn deltas(n: i32) -> Vec<u8> {
    let dictionary_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let mut messages = Vec::new();
    for i in 0..n {
        messages.push(text_values(i > 0, format!("value number {i}").as_bytes()));
        messages.push(batch(1, &[(1, 0)], &[&[], &i32s(&[i])]));
    }
    stream(&one(dictionary_type), &messages)
}

/// Opens a file or stream in memory.
pub fn opened(bytes: Vec<u8>) -> Dataset {
    OpenOptions::new().bytes(Bytes::from(bytes)).unwrap()
}

/// Opens a file or stream in memory that begins at an odd address, so that no value is aligned.
pub fn misaligned(bytes: Vec<u8>) -> Dataset {
    let shifted = [vec![0], bytes].concat();
    OpenOptions::new().bytes(Bytes::from(Buffer::from_vec(shifted).slice(1))).unwrap()
}
