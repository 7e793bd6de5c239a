//! The messages of a file as Arrow data: one row for each message.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, ListArray, StringArray, StructArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Fields};
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

/// A list of structs for each message: the lengths of the lists, and the members of all structs.
fn lists(name: &str, lengths: impl Iterator<Item = usize>, members: Vec<NamedArray>) -> Result<NamedArray> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = members.into_iter().unzip();
    let fields = Fields::from(fields);
    let failed = |e: arrow_schema::ArrowError| Error::new(ErrorKind::InvalidData, e.to_string());
    let structs = StructArray::try_new(fields.clone(), arrays, None).map_err(failed)?;
    let item = Arc::new(Field::new("item", DataType::Struct(fields), false));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(column(name, ListArray::try_new(item, offsets, Arc::new(structs), None).map_err(failed)?, false))
}

fn pairs(name: &str, maps: &[&BTreeMap<String, String>]) -> Result<NamedArray> {
    let all = || maps.iter().flat_map(|map| map.iter());
    let members = vec![texts("key", all().map(|(key, _)| key)), texts("value", all().map(|(_, value)| value))];
    lists(name, maps.iter().map(|map| map.len()), members)
}

/// A field and its descendants, each with its depth.
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
    let info = || all.iter().map(|(_, field)| *field);
    let ids: Int64Array = info().map(|field| field.dictionary.as_ref().map(|(id, ..)| *id)).collect();
    let keys: StringArray = info().map(|field| field.dictionary.as_ref().map(|(_, keys, _)| keys)).collect();
    let metadata: Vec<&BTreeMap<String, String>> = info().map(|field| &field.metadata).collect();
    let members = vec![
        column("depth", UInt32Array::from_iter_values(all.iter().map(|(depth, _)| *depth)), false),
        texts("name", info().map(|field| &field.name)),
        texts("type", info().map(|field| &field.data_type)),
        column("nullable", BooleanArray::from_iter(info().map(|field| Some(field.nullable))), false),
        column("dictionary", ids, true),
        column("keys", keys, true),
        pairs("metadata", &metadata)?,
    ];
    lists("fields", lengths.into_iter(), members)
}

fn nodes(messages: &[Message]) -> Result<NamedArray> {
    let all = || messages.iter().flat_map(|message| &message.nodes);
    let members = vec![
        texts("field", all().map(|node| &node.field)),
        column("length", Int64Array::from_iter_values(all().map(|node| node.length)), false),
        column("null_count", Int64Array::from_iter_values(all().map(|node| node.null_count)), false),
    ];
    lists("nodes", messages.iter().map(|message| message.nodes.len()), members)
}

fn buffers(messages: &[Message]) -> Result<NamedArray> {
    let all = || messages.iter().flat_map(|message| &message.buffers);
    let members = vec![
        texts("field", all().map(|buffer| &buffer.field)),
        texts("name", all().map(|buffer| buffer.name)),
        column("offset", Int64Array::from_iter_values(all().map(|buffer| buffer.offset)), false),
        column("length", Int64Array::from_iter_values(all().map(|buffer| buffer.length)), false),
    ];
    lists("buffers", messages.iter().map(|message| message.buffers.len()), members)
}

fn messages_dataset(messages: &[Message]) -> Result<Dataset> {
    let all = || messages.iter();
    let dictionaries: Int64Array = all().map(|message| message.dictionary.map(|(id, _)| id)).collect();
    let deltas: BooleanArray = all().map(|message| message.dictionary.map(|(_, is_delta)| is_delta)).collect();
    let codecs: StringArray = all().map(|message| message.compression.map(|codec| codec.name())).collect();
    dataset_from_columns(vec![
        texts("kind", all().map(|message| message.kind.name())),
        numbers("offset", all().map(|message| message.offset)),
        numbers("metadata_offset", all().map(|message| message.metadata_offset)),
        numbers("metadata_length", all().map(|message| message.metadata_length)),
        numbers("body_offset", all().map(|message| message.body_offset)),
        numbers("body_length", all().map(|message| message.body_length)),
        column("version", UInt8Array::from_iter_values(all().map(|message| message.version)), false),
        column("rows", all().map(|message| message.rows).collect::<UInt64Array>(), true),
        column("dictionary", dictionaries, true),
        column("is_delta", deltas, true),
        column("compression", codecs, true),
        fields(messages)?,
        nodes(messages)?,
        buffers(messages)?,
        pairs("metadata", &all().map(|message| &message.metadata).collect::<Vec<_>>())?,
    ])
}

export! {
    /// The messages of the files.
    fn arrowwood_dataset_messages(dataset: HandleRef<CDataset>, messages: HandleOut<CDataset>) {
        messages.put(CDataset::new(messages_dataset(&dataset.messages()?)?));
        Ok(())
    }
}
