//! Dictionaries of a written file or stream.
//!
//! A stream can replace a dictionary before any batch, or extend one by a delta. A file has only one for each id: if
//! batches have different ones (files opened together, a stream with replacements), their distinct values are merged
//! first, and the keys are rewritten.

mod canonical;
mod merged;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use self::canonical::{agree, identity};
use self::merged::MergedDictionary;
use super::encode::{Body, KeyMapper, child_of};
use crate::array::merge_dictionaries::CategoryOrder;
use crate::array::{ArrayParts, UncheckedArray, key, slice};
use crate::dataset::Dataset;
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{Format, IpcSchema, Node};
use crate::types::{is_ordered, number_width};

/// The dictionaries of a file or stream being written.
pub(super) struct Dictionaries {
    format: Format,
    nodes: HashMap<i64, Arc<Node>>,
    /// The merged dictionaries of a file.
    wholes: HashMap<i64, MergedDictionary>,
    /// The dictionaries that a reader of the stream has by now.
    sent: HashMap<i64, ArrayData>,
    /// The values to send next, inner dictionaries first.
    pending: Vec<QueuedDictionary>,
}

/// Values to send.
struct QueuedDictionary {
    id: i64,
    values: ArrayData,
    is_delta: bool,
}

/// A dictionary batch to write.
pub(super) struct EncodedDictionary {
    pub id: i64,
    pub rows: usize,
    pub is_delta: bool,
    pub body: Body,
}

/// The relation of a dictionary to the one that was sent before.
enum Relation {
    /// All of its values are in the one sent.
    Covered,
    /// It extends the one sent, of `known` values.
    Extends {
        known: usize,
    },
    Other,
}

impl Dictionaries {
    pub(in crate::ipc) fn new(format: Format, schema: &IpcSchema) -> Dictionaries {
        let mut nodes = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, values| drop(nodes.insert(id, values.clone())));
        }
        Dictionaries { format, nodes, wholes: HashMap::new(), sent: HashMap::new(), pending: Vec::new() }
    }

    /// Whether there are any.
    pub(super) fn are_any(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Adds the dictionaries of rows to those that a file has to hold: of all rows, cut as they will be written. Part of a view's
    /// rows may have another dictionary than all of them. Reads no columns without dictionaries.
    pub(super) fn gather(&mut self, rows: &Dataset, columns: &[Node]) -> Result<()> {
        let with_any = || columns.iter().enumerate().filter(|(_, node)| has_dictionary(node));
        let mut parts = rows.parts().peekable();
        if parts.peek().is_none() {
            // A batch without rows has a dictionary without entries.
            return with_any()
                .try_for_each(|(_, node)| self.gather_array(node, &ArrayData::new_empty(node.data_type())));
        }
        parts.try_for_each(|part| {
            let part = part?;
            with_any().try_for_each(|(number, node)| self.gather_array(node, &part.column(part.piece.columns[number])?))
        })
    }

    /// Merges what was gathered.
    pub(super) fn merge(&mut self, columns: &[Node]) -> Result<()> {
        // An id comes before those inside its values.
        let mut ids = Vec::new();
        columns.iter().for_each(|column| column.dictionaries(&mut |id, _| ids.push(id)));
        ids.into_iter().rev().try_for_each(|id| self.finish(id))
    }

    /// Adds the longest dictionary of each column of ordered categories, so that all others are in the order of its values.
    pub(super) fn gather_longest(&mut self, dataset: &Dataset, columns: &[Node]) -> Result<()> {
        for (number, node) in columns.iter().enumerate().filter(|(_, node)| is_ordered(&node.field)) {
            let mut longest: Option<(usize, ArrayData)> = None;
            for part in dataset.parts() {
                let part = part?;
                let array = part.column(part.piece.columns[number])?;
                let len = child_of(&array, 0)?.len();
                if longest.as_ref().is_none_or(|(known, _)| *known < len) {
                    longest = Some((len, array));
                }
            }
            if let Some((_, array)) = longest {
                self.gather_array(node, &array)?;
            }
        }
        Ok(())
    }

    fn gather_array(&mut self, node: &Node, array: &ArrayData) -> Result<()> {
        if let Some((id, values)) = &node.dictionary {
            let dictionary = child_of(array, 0)?;
            self.gather_array(values, dictionary)?;
            let whole = self.wholes.entry(*id).or_insert_with(MergedDictionary::new);
            let places = whole.places(dictionary)?;
            let mut order = CategoryOrder::default();
            if is_ordered(&node.field) && !places.is_none_or(|places| places.iter().all(|&place| order.accepts(place)))
            {
                return Err(Error::invalid_argument(format!(
                    "the ordered categories of column '{}' are in different orders in its batches; give all of them the same",
                    node.field.name()
                )));
            }
            return check_keys_suffice(array.data_type(), whole.merged_len());
        }
        if has_dictionary(node) {
            let children = node.children.iter().zip(array.child_data());
            children.into_iter().try_for_each(|(node, child)| self.gather_array(node, child))?;
        }
        Ok(())
    }

    fn finish(&mut self, id: i64) -> Result<()> {
        let (Some(node), Some(mut whole)) = (self.nodes.get(&id).cloned(), self.wholes.remove(&id)) else {
            return Ok(());
        };
        whole.finish(&node, |values| renumbered(&node, values, &mut self.wholes))?;
        self.pending.push(QueuedDictionary { id, values: whole.values()?.clone(), is_delta: false });
        self.wholes.insert(id, whole);
        Ok(())
    }

    /// Encodes the dictionary batches to write now.
    pub(super) fn pending(&mut self) -> Result<Vec<EncodedDictionary>> {
        let mut batches = Vec::new();
        for QueuedDictionary { id, values, is_delta } in std::mem::take(&mut self.pending) {
            let node = self.nodes.get(&id).cloned();
            let node = node.ok_or_else(|| Error::internal(format_args!("dictionary {id} is not of the schema")))?;
            let mut body = Body::default();
            body.add(&node, &values, self)?;
            // Encoding the values may need further dictionaries, which come first.
            batches.extend(self.pending()?);
            batches.push(EncodedDictionary { id, rows: values.len(), is_delta, body });
        }
        Ok(batches)
    }

    /// Queues the values of `dictionary` that a reader of the stream lacks.
    fn send(&mut self, id: i64, dictionary: &ArrayData) -> Result<()> {
        let (values, is_delta) = match self.relation(id, dictionary)? {
            Relation::Covered => return Ok(()),
            // Arrow C++ takes no delta whose values have dictionaries of their own.
            Relation::Extends { known } if !self.nodes.get(&id).is_some_and(|values| has_dictionary(values)) => {
                (slice(dictionary, known, dictionary.len() - known), true)
            }
            Relation::Extends { .. } | Relation::Other => (dictionary.clone(), false),
        };
        self.sent.insert(id, dictionary.clone());
        self.pending.push(QueuedDictionary { id, values, is_delta });
        Ok(())
    }

    fn relation(&self, id: i64, dictionary: &ArrayData) -> Result<Relation> {
        let Some(sent) = self.sent.get(&id) else { return Ok(Relation::Other) };
        let common = sent.len().min(dictionary.len());
        let agrees = if identity(sent) == identity(dictionary) {
            Ok(true)
        } else if sent.is_empty() {
            // A delta to an empty dictionary is as long as a replacement, and fewer readers support it.
            Ok(dictionary.is_empty())
        } else {
            agree(sent, dictionary, common)
        };
        match agrees {
            Ok(true) if dictionary.len() == common => Ok(Relation::Covered),
            Ok(true) => Ok(Relation::Extends { known: common }),
            Ok(false) => Ok(Relation::Other),
            // Too much to compare: sent again.
            Err(e) if e.kind() == ErrorKind::Unsupported => Ok(Relation::Other),
            Err(e) => Err(e),
        }
    }
}

impl KeyMapper for Dictionaries {
    fn keys(&mut self, id: i64, array: &ArrayData) -> Result<Buffer> {
        let dictionary = child_of(array, 0)?;
        if self.format == Format::Stream {
            self.send(id, dictionary)?;
            return rewrite(array, None);
        }
        let whole = self.wholes.get_mut(&id).ok_or_else(|| Error::invalid("a dictionary that was not gathered"))?;
        rewrite(array, whole.places(dictionary)?)
    }
}

/// Returns `array`, whose node is `node`, with merged dictionaries inside and keys into them.
fn renumbered(node: &Node, array: &ArrayData, wholes: &mut HashMap<i64, MergedDictionary>) -> Result<UncheckedArray> {
    if !has_dictionary(node) {
        return Ok(UncheckedArray::from(array.clone()));
    }
    let data_type = node.data_type().clone();
    if let Some((id, _)) = &node.dictionary {
        let whole = wholes.get_mut(id).ok_or_else(|| Error::invalid("an inner dictionary that was not gathered"))?;
        let values = UncheckedArray::from(whole.values()?.clone());
        let keys = rewrite(array, whole.places(child_of(array, 0)?)?)?;
        let validity = validity_from(array, 0);
        let parts = ArrayParts { data_type, len: array.len(), validity, buffers: vec![keys], children: vec![values] };
        return Ok(parts.assemble());
    }
    let children = node.children.iter().zip(array.child_data());
    let children = children.map(|(node, child)| renumbered(node, child, wholes)).collect::<Result<_>>()?;
    let len = array.offset() + array.len();
    let validity = validity_from(array, array.offset());
    let whole = ArrayParts { data_type, len, validity, buffers: array.buffers().to_vec(), children }.assemble();
    Ok(whole.slice(array.offset(), array.len()))
}

/// Returns the validity bitmap of `array` after `before` valid rows, and its number of nulls.
fn validity_from(array: &ArrayData, before: usize) -> Option<(Buffer, usize)> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0)?;
    let is_valid = |row: usize| row < before || nulls.is_valid(row - before);
    let bits = BooleanBuffer::collect_bool(before + nulls.len(), is_valid);
    Some((bits.into_inner(), nulls.null_count()))
}

/// Returns the keys of `array`, mapped through `places` if given.
fn rewrite(array: &ArrayData, places: Option<&[u64]>) -> Result<Buffer> {
    let DataType::Dictionary(index, _) = array.data_type() else { return Err(Error::invalid("not a dictionary")) };
    let width = number_width(index)?;
    let start = array.offset() * width;
    let len = array.len() * width;
    let keys = array.buffers().first().filter(|keys| start + len <= keys.len());
    let keys = keys.ok_or_else(|| Error::invalid("fewer keys than rows"))?.slice_with_length(start, len);
    let Some(places) = places else { return Ok(keys) };
    let mut rewritten = vec![0; keys.len()];
    for (row, into) in rewritten.chunks_exact_mut(width).enumerate() {
        if array.nulls().is_none_or(|nulls| nulls.is_valid(row)) {
            let key = key(array, array.offset() + row)?;
            let place = places.get(key).ok_or_else(|| {
                Error::internal(format_args!("key {key} of a dictionary of which {} values are known", places.len()))
            })?;
            into.copy_from_slice(&place.to_le_bytes()[..width]);
        }
    }
    Ok(Buffer::from_vec(rewritten))
}

fn has_dictionary(node: &Node) -> bool {
    node.dictionary.is_some() || node.children.iter().any(has_dictionary)
}

/// Checks that the keys' type can address all values: merged dictionaries may have more.
fn check_keys_suffice(data_type: &DataType, merged: Option<usize>) -> Result<()> {
    let DataType::Dictionary(index, _) = data_type else { return Ok(()) };
    let bits = 8 * number_width(index)? as u32;
    let most = u64::MAX >> (64 - bits) >> u32::from(index.is_signed_integer());
    match merged {
        Some(values) if values as u64 > most.saturating_add(1) => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the batches' dictionaries have {values} different values together, more than keys of {index} can \
                 tell apart; write a stream, which can replace its dictionary"
            ),
        )),
        _ => Ok(()),
    }
}
