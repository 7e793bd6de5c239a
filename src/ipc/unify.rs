//! Dictionaries on their way out.
//!
//! A stream can send a new dictionary before any batch. A file can hold one per id only, so when batches bring
//! different ones (files opened together, a stream with replacements) their values are gathered first, each once, and
//! the keys are rewritten.

use std::collections::HashMap;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::DataType;

use super::encode::{Body, Keys};
use super::schema::{IpcSchema, Node};
use super::write::Format;
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::value::{Value, key, value};

/// The dictionaries of a file or stream being written.
pub(super) struct Dictionaries {
    format: Format,
    by_id: HashMap<i64, Written>,
    /// Ids whose dictionary batch has yet to be written, inner ones first.
    pending: Vec<i64>,
}

/// What is known of one dictionary id.
struct Written {
    /// The values as they are, or will be, in the file.
    values: ArrayData,
    /// Dictionaries met in the data, and where each of their values is in `values`; `None`: at its own place.
    sources: Vec<(ArrayData, Option<Vec<u64>>)>,
}

/// A dictionary batch to write.
pub(super) struct Pending {
    pub id: i64,
    pub rows: usize,
    pub is_delta: bool,
    pub body: Body,
}

impl Dictionaries {
    pub(super) fn new(format: Format) -> Dictionaries {
        Dictionaries { format, by_id: HashMap::new(), pending: Vec::new() }
    }

    /// Looks through the whole dataset for the dictionaries that a file has to hold.
    pub(super) fn gather(&mut self, dataset: &Dataset, columns: &[Node]) -> Result<()> {
        if columns.iter().all(|column| !has_dictionary(column)) {
            return Ok(());
        }
        for part in dataset.parts() {
            for (node, array) in columns.iter().zip(part?.columns()?) {
                self.gather_array(node, &array)?;
            }
        }
        Ok(())
    }

    fn gather_array(&mut self, node: &Node, array: &ArrayData) -> Result<()> {
        if let Some((id, values)) = &node.dictionary {
            let dictionary = dictionary_of(array)?;
            self.gather_array(values, dictionary)?;
            return self.add_source(*id, dictionary, array.data_type());
        }
        if has_dictionary(node) {
            node.children
                .iter()
                .zip(array.child_data())
                .try_for_each(|(node, child)| self.gather_array(node, child))?;
        }
        Ok(())
    }

    /// Makes room for the values of `dictionary` under `id`.
    fn add_source(&mut self, id: i64, dictionary: &ArrayData, data_type: &DataType) -> Result<()> {
        let Some(written) = self.by_id.get_mut(&id) else {
            let first = Written { values: dictionary.clone(), sources: vec![(dictionary.clone(), None)] };
            self.by_id.insert(id, first);
            self.pending.push(id);
            return Ok(());
        };
        if written.sources.iter().any(|(known, _)| is_same(known, dictionary)) {
            return Ok(());
        }
        if written.values == *dictionary {
            written.sources.push((dictionary.clone(), None));
            return Ok(());
        }
        let (values, places) = merge(&written.values, dictionary)?;
        let most = largest_key(data_type);
        if values.len() as u64 > most.saturating_add(1) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "the batches' dictionaries have {} different values together, more than keys of {data_type} can \
                     tell apart; write a stream, which can replace its dictionary",
                    values.len()
                ),
            ));
        }
        written.values = values;
        written.sources.push((dictionary.clone(), Some(places)));
        Ok(())
    }

    /// The dictionary batches to write now, encoded.
    pub(super) fn pending(&mut self, schema: &IpcSchema) -> Result<Vec<Pending>> {
        let ids = std::mem::take(&mut self.pending);
        let mut batches = Vec::with_capacity(ids.len());
        for id in ids {
            let (Some(node), Some(written)) = (find(&schema.columns, id), self.by_id.get(&id)) else { continue };
            let values = written.values.clone();
            let mut body = Body::default();
            body.add(node, &values, self)?;
            // Encoding the values may have asked for dictionaries of their own, which have to come first.
            batches.extend(self.pending(schema)?);
            batches.push(Pending { id, rows: values.len(), is_delta: false, body });
        }
        Ok(batches)
    }
}

impl Keys for Dictionaries {
    fn keys(&mut self, id: i64, array: &ArrayData) -> Result<Buffer> {
        let dictionary = dictionary_of(array)?;
        if self.format == Format::Stream && !self.by_id.get(&id).is_some_and(|w| is_same(&w.values, dictionary)) {
            let same = self.by_id.get(&id).is_some_and(|written| written.values == *dictionary);
            if !same {
                self.by_id.remove(&id);
                self.pending.retain(|&other| other != id);
            }
        }
        self.add_source(id, dictionary, array.data_type())?;
        let places = self.by_id.get(&id).and_then(|written| {
            let found = written.sources.iter().find(|(known, _)| is_same(known, dictionary));
            found.and_then(|(_, places)| places.as_deref())
        });
        rewrite(array, places)
    }
}

/// The keys of `array` from its first row on, sent through `places` where there are any.
fn rewrite(array: &ArrayData, places: Option<&[u64]>) -> Result<Buffer> {
    let DataType::Dictionary(index, _) = array.data_type() else { return Err(Error::invalid("not a dictionary")) };
    let width = index.primitive_width().unwrap_or(8);
    let keys = array.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
    let range = array.offset() * width..(array.offset() + array.len()) * width;
    let keys = keys.get(range.clone()).ok_or_else(|| Error::invalid("fewer keys than rows"))?;
    let Some(places) = places else { return Ok(array.buffers()[0].slice_with_length(range.start, keys.len())) };
    let mut rewritten = vec![0; keys.len()];
    for (row, into) in rewritten.chunks_exact_mut(width).enumerate() {
        if array.nulls().is_none_or(|nulls| nulls.is_valid(row)) {
            let place = places.get(key(array, array.offset() + row)?).copied().unwrap_or(0);
            into.copy_from_slice(&place.to_le_bytes()[..width]);
        }
    }
    Ok(Buffer::from_vec(rewritten))
}

/// `known` and the values of `more` that it lacks, and where each value of `more` is.
fn merge(known: &ArrayData, more: &ArrayData) -> Result<(ArrayData, Vec<u64>)> {
    let mut places: HashMap<String, u64> = HashMap::with_capacity(known.len());
    for row in 0..known.len() {
        places.entry(spelling(&value(known, row)?)).or_insert(row as u64);
    }
    let mut merged = MutableArrayData::new(vec![known, more], true, known.len());
    let overflow = |e: arrow_schema::ArrowError| Error::unsupported(format!("merging dictionaries: {e}"));
    merged.try_extend(0, 0, known.len()).map_err(overflow)?;
    let (mut found, mut next) = (Vec::with_capacity(more.len()), known.len() as u64);
    for row in 0..more.len() {
        let place = *places.entry(spelling(&value(more, row)?)).or_insert(next);
        if place == next {
            merged.try_extend(1, row, row + 1).map_err(overflow)?;
            next += 1;
        }
        found.push(place);
    }
    Ok((merged.freeze(), found))
}

/// Equal for equal values of one type, and only for those.
fn spelling(value: &Value<'_>) -> String {
    match value {
        Value::Str(text) => format!("s{text}"),
        Value::Float64(float) => format!("f{:x}", float.to_bits()),
        Value::Float32(float) => format!("f{:x}", float.to_bits()),
        Value::List(items) | Value::Map(items) => {
            let items: Vec<_> =
                items.iter().map(|item| item.map_or_else(|e| e.to_string(), |v| spelling(&v))).collect();
            format!("{items:?}")
        }
        Value::Struct(members) => {
            let members = members.iter().map(|(_, member)| member.map_or_else(|e| e.to_string(), |v| spelling(&v)));
            format!("{:?}", members.collect::<Vec<_>>())
        }
        Value::Union(field, member) => format!("{}:{}", field.name(), spelling(member)),
        other => format!("{other:?}"),
    }
}

/// Whether two dictionaries are the same memory.
fn is_same(a: &ArrayData, b: &ArrayData) -> bool {
    a.ptr_eq(b)
}

fn dictionary_of(array: &ArrayData) -> Result<&ArrayData> {
    array.child_data().first().ok_or_else(|| Error::invalid("a dictionary-encoded array without its dictionary"))
}

fn has_dictionary(node: &Node) -> bool {
    node.dictionary.is_some() || node.children.iter().any(has_dictionary)
}

fn find(columns: &[Node], id: i64) -> Option<&Node> {
    let mut found = None;
    for column in columns {
        column.dictionaries(&mut |other, values| {
            if other == id {
                found = Some(values.as_ref());
            }
        });
    }
    found
}

fn largest_key(data_type: &DataType) -> u64 {
    let DataType::Dictionary(index, _) = data_type else { return 0 };
    let bits = 8 * index.primitive_width().unwrap_or(8) as u32;
    u64::MAX >> (64 - bits) >> u32::from(index.is_signed_integer())
}
