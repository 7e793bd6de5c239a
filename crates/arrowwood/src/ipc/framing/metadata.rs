//! Builds the metadata of messages and footers as flatbuffers (Message.fbs, File.fbs).

use arrow_ipc as fb;
use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use arrow_schema::Schema;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use super::flatbuffer::FlatTable;
use super::message::Compression;

pub(crate) use arrow_ipc::Block;

/// Describes the body of a record batch or dictionary batch.
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
    /// Creates the metadata of `rows` rows, with room for `capacity` nodes and buffers, which are added later.
    #[cfg(feature = "table")]
    pub fn with_capacity(rows: u64, capacity: usize) -> BatchMetadata {
        BatchMetadata {
            rows: rows as i64,
            nodes: Vec::with_capacity(capacity),
            buffers: Vec::with_capacity(capacity),
            ..BatchMetadata::default()
        }
    }
}

/// Creates a builder with room for the metadata of most batches. Without room, a builder grows by doubling from a
/// single byte.
fn new_builder<'a>() -> FlatBufferBuilder<'a> {
    const CAPACITY: usize = 1024;
    FlatBufferBuilder::with_capacity(CAPACITY)
}

/// Returns the metadata of a Schema message.
pub(crate) fn schema_metadata(schema: &Schema) -> Vec<u8> {
    let mut builder = new_builder();
    let encoded = encode_schema(&mut builder, schema);
    finish(builder, fb::MessageHeader::Schema, Some(encoded.as_union_value()), 0)
}

/// Returns the metadata of an empty message. A reader of streams stops there with an error.
pub(crate) fn empty_metadata() -> Vec<u8> {
    finish(new_builder(), fb::MessageHeader::NONE, None, 0)
}

/// Returns the metadata of a RecordBatch message. With `dictionary`, its id and whether it is a delta, returns the
/// metadata of a DictionaryBatch message.
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

/// Returns the footer of a file; `notes` are its own metadata, pairs of key and value.
pub(crate) fn footer(schema: &Schema, dictionaries: &[Block], batches: &[Block], notes: &[(&str, String)]) -> Vec<u8> {
    let mut builder = new_builder();
    // Builders work from back to front: the parts that differ between files come before the schema, which `SchemaCache`
    // compares.
    let schema = encode_schema(&mut builder, schema);
    let mut pairs = Vec::with_capacity(notes.len());
    for (key, value) in notes {
        let key = Some(builder.create_string(key));
        let value = Some(builder.create_string(value));
        pairs.push(fb::KeyValue::create(&mut builder, &fb::KeyValueArgs { key, value }));
    }
    let custom_metadata = (!pairs.is_empty()).then(|| builder.create_vector(&pairs));
    let args = fb::FooterArgs {
        version: fb::MetadataVersion::V5,
        schema: Some(schema),
        dictionaries: Some(builder.create_vector(dictionaries)),
        recordBatches: Some(builder.create_vector(batches)),
        custom_metadata,
    };
    let footer = fb::Footer::create(&mut builder, &args);
    builder.finish(footer, None);
    debug_assert!(FlatTable::root(builder.finished_data()).is_ok(), "a footer that its reader rejects");
    builder.finished_data().to_vec()
}

/// Returns a schema for several footers, which come before it: see [`footer_with_shared_schema`]. Its table is the
/// buffer's root.
#[cfg(feature = "table")]
pub(crate) fn shared_schema(schema: &Schema) -> Vec<u8> {
    let mut builder = new_builder();
    let schema = encode_schema(&mut builder, schema);
    builder.finish(schema, None);
    builder.finished_data().to_vec()
}

/// Returns the length of a footer with a shared schema, one record batch, and `dictionaries` dictionary batches.
#[cfg(feature = "table")]
pub(crate) fn footer_with_shared_schema_len(dictionaries: usize) -> usize {
    DICTIONARIES + BLOCK * dictionaries
}

/// The length in bytes of a reference to a table, and of the number of blocks that precedes them.
#[cfg(feature = "table")]
const WORD: usize = 4;
/// The length of the vtable of a footer with a shared schema. The reference to the table comes before it.
#[cfg(feature = "table")]
const VTABLE_LEN: usize = 12;
/// The offset of the table in a footer with a shared schema. The vtable comes before it.
#[cfg(feature = "table")]
const TABLE: usize = WORD + VTABLE_LEN;
/// The length of the table: the distance to the vtable, and four fields of up to 4 bytes.
#[cfg(feature = "table")]
const TABLE_LEN: usize = 5 * WORD;
/// The offset of the record batch's block, which the number of record batches precedes.
#[cfg(feature = "table")]
const BATCH: usize = TABLE + TABLE_LEN + WORD;
/// The offset of the dictionaries' blocks, which their number precedes. Blocks are aligned to 8 bytes.
#[cfg(feature = "table")]
const DICTIONARIES: usize = (BATCH + BLOCK + WORD).next_multiple_of(8);
/// The length of a block in bytes.
#[cfg(feature = "table")]
const BLOCK: usize = 24;

/// Returns a footer whose schema is the root of `schema`, a buffer that begins `distance` bytes after the start of the
/// footer. Each part of the footer has a fixed offset, with the record batch before the dictionaries. Returns `None` if
/// a number is too large for the format.
#[cfg(feature = "table")]
pub(crate) fn footer_with_shared_schema(
    schema: &[u8],
    distance: u32,
    dictionaries: &[Block],
    batch: &Block,
) -> Option<Vec<u8>> {
    // Fields refer to their content by its distance from the field.
    const SCHEMA_FIELD: usize = TABLE + WORD;
    const DICTIONARIES_FIELD: usize = TABLE + 2 * WORD;
    const BATCHES_FIELD: usize = TABLE + 3 * WORD;
    const VERSION_FIELD: usize = TABLE + 4 * WORD;
    // The vtable: its length, the length of the table, and the offsets of version, schema, dictionaries and record
    // batches in the table.
    const VTABLE: [usize; 6] = [
        VTABLE_LEN,
        TABLE_LEN,
        VERSION_FIELD - TABLE,
        SCHEMA_FIELD - TABLE,
        DICTIONARIES_FIELD - TABLE,
        BATCHES_FIELD - TABLE,
    ];

    let root = u32::from_le_bytes(*schema.first_chunk()?);
    let schema_distance = distance.checked_add(root)?.checked_sub(SCHEMA_FIELD as u32)?;
    let dictionary_count = u32::try_from(dictionaries.len()).ok()?;
    let len = footer_with_shared_schema_len(dictionaries.len());
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&(TABLE as u32).to_le_bytes());
    for half in VTABLE {
        bytes.extend_from_slice(&(half as u16).to_le_bytes());
    }
    assert_eq!(bytes.len(), TABLE, "the table of the footer is misplaced");

    // The table begins with the distance back to the vtable.
    bytes.extend_from_slice(&(VTABLE_LEN as u32).to_le_bytes());
    bytes.extend_from_slice(&schema_distance.to_le_bytes());
    bytes.extend_from_slice(&((DICTIONARIES - WORD - DICTIONARIES_FIELD) as u32).to_le_bytes());
    bytes.extend_from_slice(&((BATCH - WORD - BATCHES_FIELD) as u32).to_le_bytes());
    bytes.extend_from_slice(&fb::MetadataVersion::V5.0.to_le_bytes());

    bytes.resize(BATCH - WORD, 0);
    bytes.extend_from_slice(&1u32.to_le_bytes());
    assert_eq!(bytes.len(), BATCH, "the record batch of the footer is misplaced");
    bytes.extend_from_slice(&batch.0);

    bytes.resize(DICTIONARIES - WORD, 0);
    bytes.extend_from_slice(&dictionary_count.to_le_bytes());
    for block in dictionaries {
        bytes.extend_from_slice(&block.0);
    }
    assert_eq!(bytes.len(), len, "the footer doesn't have the length that was reserved for it");
    Some(bytes)
}

/// The offset in a footer of [`footer_with_shared_schema`] at which the record batch's offset in the file is.
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
    let buffers: Vec<_> = batch.buffers.iter().map(|&(offset, length)| fb::Buffer::new(offset, length)).collect();
    let codec = compression.map(|codec| match codec {
        Compression::Lz4 => fb::CompressionType::LZ4_FRAME,
        Compression::Zstd => fb::CompressionType::ZSTD,
    });
    let args = fb::RecordBatchArgs {
        length: batch.rows,
        nodes: Some(builder.create_vector(&nodes)),
        buffers: Some(builder.create_vector(&buffers)),
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
