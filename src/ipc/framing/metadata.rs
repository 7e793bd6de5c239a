//! The metadata of messages and footers as flatbuffers (Message.fbs, File.fbs), for writing.

use arrow_ipc as fb;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use arrow_schema::Schema;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use super::flatbuffer::FlatTable;
use super::message::Compression;

pub(crate) use arrow_ipc::Block;

/// The description of a body in a record batch or dictionary batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchMetadata {
    /// The number of rows.
    pub rows: i64,
    /// Length and null count of each field node.
    pub nodes: Vec<(i64, i64)>,
    /// Offset from the start of the body, and length, of each buffer.
    pub buffers: Vec<(i64, i64)>,
    /// The number of data buffers of each node of views.
    pub variadics: Vec<i64>,
    /// The length of the body.
    pub body_length: i64,
}

impl BatchMetadata {
    /// For `rows` rows, with room for `most` nodes and buffers, which are added later.
    #[cfg(feature = "table")]
    pub fn with_capacity(rows: u64, most: usize) -> BatchMetadata {
        let (nodes, buffers) = (Vec::with_capacity(most), Vec::with_capacity(most));
        BatchMetadata { rows: rows as i64, nodes, buffers, ..BatchMetadata::default() }
    }
}

/// A builder with room for the metadata of most batches: one without room grows by doubling from a single byte.
fn new_builder<'a>() -> FlatBufferBuilder<'a> {
    FlatBufferBuilder::with_capacity(1024)
}

/// The metadata of a Schema message.
pub(crate) fn schema_metadata(schema: &Schema) -> Vec<u8> {
    let mut builder = new_builder();
    let encoded = encode_schema(&mut builder, schema);
    finish(builder, fb::MessageHeader::Schema, Some(encoded.as_union_value()), 0)
}

/// The metadata of an empty message. A reader of streams stops there with an error.
pub(crate) fn empty_metadata() -> Vec<u8> {
    finish(new_builder(), fb::MessageHeader::NONE, None, 0)
}

/// The metadata of a RecordBatch message or, with an id and whether it is a delta, of a DictionaryBatch message.
pub(crate) fn batch_metadata(
    batch: &BatchMetadata,
    compression: Option<Compression>,
    dictionary: Option<(i64, bool)>,
) -> Vec<u8> {
    let mut builder = new_builder();
    let data = encode_batch(&mut builder, batch, compression);
    let Some((id, is_delta)) = dictionary else {
        return finish(builder, fb::MessageHeader::RecordBatch, Some(data.as_union_value()), batch.body_length);
    };
    let args = fb::DictionaryBatchArgs { id, data: Some(data), isDelta: is_delta };
    let dictionary = fb::DictionaryBatch::create(&mut builder, &args);
    finish(builder, fb::MessageHeader::DictionaryBatch, Some(dictionary.as_union_value()), batch.body_length)
}

/// The footer of a file, with its own metadata: pairs of key and value.
pub(crate) fn footer(schema: &Schema, dictionaries: &[Block], batches: &[Block], notes: &[(&str, String)]) -> Vec<u8> {
    let mut builder = new_builder();
    // What differs between files comes before the schema, which is built first: see `SchemaCache`.
    let schema = encode_schema(&mut builder, schema);
    let note = |(key, value): &(&str, String)| {
        let key = Some(builder.create_string(key));
        let value = Some(builder.create_string(value));
        fb::KeyValue::create(&mut builder, &fb::KeyValueArgs { key, value })
    };
    let notes: Vec<_> = notes.iter().map(note).collect();
    let custom_metadata = (!notes.is_empty()).then(|| builder.create_vector(&notes));
    let args = fb::FooterArgs {
        version: fb::MetadataVersion::V5,
        schema: Some(schema),
        dictionaries: Some(builder.create_vector(dictionaries)),
        recordBatches: Some(builder.create_vector(batches)),
        custom_metadata,
    };
    let footer = fb::Footer::create(&mut builder, &args);
    builder.finish(footer, None);
    debug_assert!(FlatTable::root(builder.finished_data()).is_ok());
    builder.finished_data().to_vec()
}

/// A schema alone, for footers that stand in front of it: see [`footer_of_shared`]. Its table is the buffer's root.
#[cfg(feature = "table")]
pub(crate) fn shared_schema(schema: &Schema) -> Vec<u8> {
    let mut builder = new_builder();
    let schema = encode_schema(&mut builder, schema);
    builder.finish(schema, None);
    builder.finished_data().to_vec()
}

/// The length of a footer whose schema stands elsewhere, with so many blocks of dictionaries and one of a record batch.
#[cfg(feature = "table")]
pub(crate) fn footer_with_shared_schema_len(dictionaries: usize) -> usize {
    DICTIONARIES + BLOCK * dictionaries
}

/// In a footer whose schema stands elsewhere: where its table, the block of the record batch and those of the dictionaries
/// begin. The vtable is in front of the table, the number of its elements in front of each vector.
#[cfg(feature = "table")]
const TABLE: usize = 16;
#[cfg(feature = "table")]
const BATCH: usize = 40;
#[cfg(feature = "table")]
const DICTIONARIES: usize = 72;
/// The bytes of a block.
#[cfg(feature = "table")]
const BLOCK: usize = 24;

/// A footer whose schema is the root of `schema`, a buffer that begins `distance` bytes behind the footer's start. All
/// parts of the footer have the same places whatever its blocks are, the record batch before the dictionaries.
#[cfg(feature = "table")]
pub(crate) fn footer_with_shared_schema(
    schema: &[u8],
    distance: u32,
    dictionaries: &[Block],
    batch: &Block,
) -> Option<Vec<u8>> {
    let root = u32::from_le_bytes(*schema.first_chunk()?);
    let mut bytes = vec![0; footer_with_shared_schema_len(dictionaries.len())];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &(TABLE as u32).to_le_bytes());
    // Of the vtable: its length, that of the table, and where in it version, schema, dictionaries and record batches are.
    for (number, half) in [12u16, 20, 16, 4, 8, 12].into_iter().enumerate() {
        put(4 + 2 * number, &half.to_le_bytes());
    }
    // Of the table: the way back to the vtable, and offsets that count from where they stand.
    let schema = distance.checked_add(root)?.checked_sub(TABLE as u32 + 4)?;
    let vector = |elements: usize, field: usize| (elements - 4 - (TABLE + field)) as u32;
    for (number, word) in [12, schema, vector(DICTIONARIES, 8), vector(BATCH, 12)].into_iter().enumerate() {
        put(TABLE + 4 * number, &word.to_le_bytes());
    }
    put(TABLE + 16, &fb::MetadataVersion::V5.0.to_le_bytes());
    put(BATCH - 4, &1u32.to_le_bytes());
    put(BATCH, &batch.0);
    put(DICTIONARIES - 4, &u32::try_from(dictionaries.len()).ok()?.to_le_bytes());
    for (number, block) in dictionaries.iter().enumerate() {
        put(DICTIONARIES + BLOCK * number, &block.0);
    }
    Some(bytes)
}

/// Where in a footer of [`footer_of_shared`] the record batch begins in the file.
#[cfg(feature = "table")]
pub(crate) const FOOTER_BATCH: usize = BATCH;

fn encode_schema<'a>(builder: &mut FlatBufferBuilder<'a>, schema: &Schema) -> WIPOffset<fb::Schema<'a>> {
    let mut ids = DictionaryTracker::new(false);
    IpcSchemaEncoder::new().with_dictionary_tracker(&mut ids).schema_to_fb_offset(builder, schema)
}

fn encode_batch<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    batch: &BatchMetadata,
    compression: Option<Compression>,
) -> WIPOffset<fb::RecordBatch<'a>> {
    let nodes: Vec<_> = batch.nodes.iter().map(|&(length, nulls)| fb::FieldNode::new(length, nulls)).collect();
    let places: Vec<_> = batch.buffers.iter().map(|&(at, length)| fb::Buffer::new(at, length)).collect();
    let codec = compression.map(|codec| match codec {
        Compression::Lz4 => fb::CompressionType::LZ4_FRAME,
        Compression::Zstd => fb::CompressionType::ZSTD,
    });
    let args = fb::RecordBatchArgs {
        length: batch.rows,
        nodes: Some(builder.create_vector(&nodes)),
        buffers: Some(builder.create_vector(&places)),
        compression: codec.map(|codec| {
            let method = fb::BodyCompressionMethod::BUFFER;
            fb::BodyCompression::create(builder, &fb::BodyCompressionArgs { codec, method })
        }),
        variadicBufferCounts: (!batch.variadics.is_empty()).then(|| builder.create_vector(&batch.variadics)),
    };
    fb::RecordBatch::create(builder, &args)
}

fn finish(
    mut builder: FlatBufferBuilder<'_>,
    header_type: fb::MessageHeader,
    header: Option<WIPOffset<UnionWIPOffset>>,
    body_length: i64,
) -> Vec<u8> {
    let version = fb::MetadataVersion::V5;
    let args = fb::MessageArgs { version, header_type, header, bodyLength: body_length, custom_metadata: None };
    let message = fb::Message::create(&mut builder, &args);
    builder.finish(message, None);
    builder.finished_data().to_vec()
}
