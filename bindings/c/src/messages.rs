//! The messages of a file as Arrow data: one row for each message.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, ListArray, StringArray, StructArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use arrowwood::{Dataset, Error, ErrorKind, FieldInfo, Message, Result};

use crate::dataset::CDataset;
use crate::ffi::{HandleOut, HandleRef};
use crate::maintain::dataset_from_columns;

/// A column of the result.
type NamedArray = (Field, ArrayRef);

fn column(name: &str, array: impl Array + 'static, is_nullable: bool) -> NamedArray {
    (Field::new(name, array.data_type().clone(), is_nullable), Arc::new(array))
}

fn numbers(name: &str, values: impl Iterator<Item = u64>) -> NamedArray {
    column(name, UInt64Array::from_iter_values(values), false)
}

fn texts(name: &str, values: impl Iterator<Item = impl AsRef<str>>) -> NamedArray {
    column(name, values.map(Some).collect::<StringArray>(), false)
}

/// Builds a list of structs for each message, from the lengths of the lists and the members of all structs.
fn lists(name: &str, lengths: impl Iterator<Item = usize>, members: Vec<NamedArray>) -> Result<NamedArray> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = members.into_iter().unzip();
    let fields = Fields::from(fields);
    let structs = StructArray::try_new(fields.clone(), arrays, None).map_err(invalid_lists)?;
    let item = Arc::new(Field::new("item", DataType::Struct(fields), false));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(item, offsets, Arc::new(structs), None).map_err(invalid_lists)?;
    Ok(column(name, lists, false))
}

fn invalid_lists(error: ArrowError) -> Error {
    Error::new(ErrorKind::InvalidData, error.to_string())
}

fn pairs(name: &str, maps: &[&BTreeMap<String, String>]) -> Result<NamedArray> {
    let keys = maps.iter().flat_map(|map| map.keys());
    let values = maps.iter().flat_map(|map| map.values());
    let members = vec![texts("key", keys), texts("value", values)];
    lists(name, maps.iter().map(|map| map.len()), members)
}

/// Appends a field and its descendants, each with its depth, to `into`.
fn flattened<'a>(field: &'a FieldInfo, depth: u32, into: &mut Vec<(u32, &'a FieldInfo)>) {
    into.push((depth, field));
    field.children.iter().for_each(|child| flattened(child, depth + 1, into));
}

fn fields(messages: &[Message]) -> Result<NamedArray> {
    let mut all = Vec::new();
    let mut lengths = Vec::with_capacity(messages.len());
    for message in messages {
        let before = all.len();
        message.fields.iter().for_each(|field| flattened(field, 0, &mut all));
        lengths.push(all.len() - before);
    }
    let infos: Vec<&FieldInfo> = all.iter().map(|(_, field)| *field).collect();
    let ids: Int64Array = infos.iter().map(|field| field.dictionary.as_ref().map(|(id, ..)| *id)).collect();
    let keys: StringArray = infos.iter().map(|field| field.dictionary.as_ref().map(|(_, keys, _)| keys)).collect();
    let metadata: Vec<&BTreeMap<String, String>> = infos.iter().map(|field| &field.metadata).collect();
    let members = vec![
        column("depth", UInt32Array::from_iter_values(all.iter().map(|(depth, _)| *depth)), false),
        texts("name", infos.iter().map(|field| &field.name)),
        texts("type", infos.iter().map(|field| &field.data_type)),
        column("nullable", BooleanArray::from_iter(infos.iter().map(|field| Some(field.nullable))), false),
        column("dictionary", ids, true),
        column("keys", keys, true),
        pairs("metadata", &metadata)?,
    ];
    lists("fields", lengths.into_iter(), members)
}

fn nodes(messages: &[Message]) -> Result<NamedArray> {
    let nodes: Vec<_> = messages.iter().flat_map(|message| &message.nodes).collect();
    let members = vec![
        texts("field", nodes.iter().map(|node| &node.field)),
        column("length", Int64Array::from_iter_values(nodes.iter().map(|node| node.length)), false),
        column("null_count", Int64Array::from_iter_values(nodes.iter().map(|node| node.null_count)), false),
    ];
    lists("nodes", messages.iter().map(|message| message.nodes.len()), members)
}

fn buffers(messages: &[Message]) -> Result<NamedArray> {
    let buffers: Vec<_> = messages.iter().flat_map(|message| &message.buffers).collect();
    let members = vec![
        texts("field", buffers.iter().map(|buffer| &buffer.field)),
        texts("name", buffers.iter().map(|buffer| buffer.name)),
        column("offset", Int64Array::from_iter_values(buffers.iter().map(|buffer| buffer.offset)), false),
        column("length", Int64Array::from_iter_values(buffers.iter().map(|buffer| buffer.length)), false),
    ];
    lists("buffers", messages.iter().map(|message| message.buffers.len()), members)
}

fn messages_dataset(messages: &[Message]) -> Result<Dataset> {
    let dictionaries: Int64Array = messages.iter().map(|message| message.dictionary.map(|(id, _)| id)).collect();
    let deltas: BooleanArray =
        messages.iter().map(|message| message.dictionary.map(|(_, is_delta)| is_delta)).collect();
    let codecs: StringArray = messages.iter().map(|message| message.compression.map(|codec| codec.name())).collect();
    dataset_from_columns(vec![
        texts("kind", messages.iter().map(|message| message.kind.name())),
        numbers("offset", messages.iter().map(|message| message.offset)),
        numbers("metadata_offset", messages.iter().map(|message| message.metadata_offset)),
        numbers("metadata_length", messages.iter().map(|message| message.metadata_length)),
        numbers("body_offset", messages.iter().map(|message| message.body_offset)),
        numbers("body_length", messages.iter().map(|message| message.body_length)),
        column("version", UInt8Array::from_iter_values(messages.iter().map(|message| message.version)), false),
        column("rows", messages.iter().map(|message| message.rows).collect::<UInt64Array>(), true),
        column("dictionary", dictionaries, true),
        column("is_delta", deltas, true),
        column("compression", codecs, true),
        fields(messages)?,
        nodes(messages)?,
        buffers(messages)?,
        pairs("metadata", &messages.iter().map(|message| &message.metadata).collect::<Vec<_>>())?,
    ])
}

export! {
    /// The messages of the files.
    fn arrowwood_dataset_messages(dataset: HandleRef<CDataset>, messages: HandleOut<CDataset>) {
        messages.put(CDataset::new(messages_dataset(&dataset.messages()?)?));
        Ok(())
    }
}
