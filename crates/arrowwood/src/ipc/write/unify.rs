//! Unifies the dictionaries of a written file or stream.
//!
//! A stream can replace a dictionary before any batch, or extend it by a delta. A file has only one dictionary for each
//! id: if batches have different ones (files opened together, a stream with replacements), their distinct values are
//! merged first, and the keys are rewritten.

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

/// The dictionaries of a file or stream that is being written.
///
/// A stream needs no preparation: encoding the keys of a batch queues what its reader lacks. For a file the caller
/// gathers the dictionaries of all rows and merges them before it encodes the first batch. Either way, the queue must
/// be written, with [`pending`](Dictionaries::pending), before the batch that was encoded.
pub(super) struct Dictionaries {
    format: Format,
    /// The node of the values of each dictionary.
    nodes: HashMap<i64, Arc<Node>>,
    /// The merged dictionaries of a file.
    merged: HashMap<i64, MergedDictionary>,
    /// The dictionaries that a reader of the stream has after the last batch.
    sent: HashMap<i64, ArrayData>,
    /// The queue of values to send next, inner dictionaries first.
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
    /// It extends the one sent, of `sent` values.
    Extends { sent: usize },
    /// It replaces the one sent, or is the first.
    Other,
}

impl Dictionaries {
    pub(in crate::ipc) fn new(format: Format, schema: &IpcSchema) -> Dictionaries {
        let mut nodes = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, values| drop(nodes.insert(id, values.clone())));
        }
        Dictionaries { format, nodes, merged: HashMap::new(), sent: HashMap::new(), pending: Vec::new() }
    }

    /// Returns true if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Gathers the dictionaries of rows that will be written as a batch of a file. Must be called with all rows, cut as
    /// they will be written, as part of a view's rows may have another dictionary than all of them. Reads no columns
    /// without dictionaries.
    pub(super) fn gather(&mut self, rows: &Dataset, columns: &[Node]) -> Result<()> {
        let mut has_rows = false;
        for part in rows.parts() {
            let part = part?;
            has_rows = true;
            for (number, node) in columns.iter().enumerate() {
                if has_dictionary(node) {
                    self.gather_array(node, &part.column(part.piece.columns[number])?)?;
                }
            }
        }
        if has_rows {
            return Ok(());
        }
        // A batch without rows has a dictionary without entries.
        for node in columns.iter().filter(|node| has_dictionary(node)) {
            self.gather_array(node, &ArrayData::new_empty(node.data_type()))?;
        }
        Ok(())
    }

    /// Merges the gathered dictionaries.
    pub(super) fn merge(&mut self, columns: &[Node]) -> Result<()> {
        let mut ids = Vec::new();
        for column in columns {
            column.dictionaries(&mut |id, _| ids.push(id));
        }
        // Inner dictionaries come first. An id precedes the ids inside its values.
        for id in ids.into_iter().rev() {
            self.finish(id)?;
        }
        Ok(())
    }

    /// Gathers the longest dictionary of each column of ordered categories, so that all others follow the order of its
    /// values.
    pub(super) fn gather_longest(&mut self, dataset: &Dataset, columns: &[Node]) -> Result<()> {
        for (number, node) in columns.iter().enumerate().filter(|(_, node)| is_ordered(&node.field)) {
            let mut longest: Option<(usize, ArrayData)> = None;
            for part in dataset.parts() {
                let part = part?;
                let array = part.column(part.piece.columns[number])?;
                let len = child_of(&array, 0)?.len();
                if longest.as_ref().is_none_or(|(longest_len, _)| *longest_len < len) {
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
            let merged = self.merged.entry(*id).or_insert_with(MergedDictionary::new);
            let positions = merged.positions(dictionary)?;
            if is_ordered(&node.field)
                && let Some(positions) = positions
            {
                check_order(node, positions)?;
            }
            return check_keys_suffice(array.data_type(), merged.merged_len());
        }
        if has_dictionary(node) {
            for (node, child) in node.children.iter().zip(array.child_data()) {
                self.gather_array(node, child)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, id: i64) -> Result<()> {
        let (Some(node), Some(mut merged)) = (self.nodes.get(&id).cloned(), self.merged.remove(&id)) else {
            return Ok(());
        };
        merged.finish(&node, |values| renumbered(&node, values, &mut self.merged))?;
        self.pending.push(QueuedDictionary { id, values: merged.values()?.clone(), is_delta: false });
        self.merged.insert(id, merged);
        Ok(())
    }

    /// Encodes the dictionary batches to write now, and empties the queue. The stream can't be continued after an
    /// error.
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
            Relation::Extends { sent } if !self.nodes.get(&id).is_some_and(|values| has_dictionary(values)) => {
                assert!(sent < dictionary.len(), "a delta of dictionary {id} without values");
                (slice(dictionary, sent, dictionary.len() - sent), true)
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
            Ok(true) => Ok(Relation::Extends { sent: common }),
            Ok(false) => Ok(Relation::Other),
            // There is too much to compare, so it is sent again.
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
        let merged = self.merged.get_mut(&id).ok_or_else(|| Error::invalid("a dictionary that was not gathered"))?;
        rewrite(array, merged.positions(dictionary)?)
    }
}

/// Checks that the values of an ordered dictionary ascend in the merged one, in which they have `positions`.
fn check_order(node: &Node, positions: &[u64]) -> Result<()> {
    let mut order = CategoryOrder::default();
    if positions.iter().all(|&position| order.accepts(position)) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "the ordered categories of column '{}' are in different orders in its batches; give all of them the same",
        node.field.name()
    )))
}

/// Returns `array`, whose node is `node`, with merged dictionaries inside and keys into them.
fn renumbered(
    node: &Node,
    array: &ArrayData,
    dictionaries: &mut HashMap<i64, MergedDictionary>,
) -> Result<UncheckedArray> {
    if !has_dictionary(node) {
        return Ok(UncheckedArray::from(array.clone()));
    }
    let data_type = node.data_type().clone();
    if let Some((id, _)) = &node.dictionary {
        let Some(merged) = dictionaries.get_mut(id) else {
            return Err(Error::invalid("an inner dictionary that was not gathered"));
        };
        let values = UncheckedArray::from(merged.values()?.clone());
        let keys = rewrite(array, merged.positions(child_of(array, 0)?)?)?;
        let validity = validity_after(array, 0);
        let parts = ArrayParts { data_type, len: array.len(), validity, buffers: vec![keys], children: vec![values] };
        return Ok(parts.assemble());
    }

    let mut children = Vec::with_capacity(node.children.len());
    for (node, child) in node.children.iter().zip(array.child_data()) {
        children.push(renumbered(node, child, dictionaries)?);
    }
    let len = array.offset() + array.len();
    let validity = validity_after(array, array.offset());
    let whole = ArrayParts { data_type, len, validity, buffers: array.buffers().to_vec(), children }.assemble();
    Ok(whole.slice(array.offset(), array.len()))
}

/// Returns the validity bitmap of `array` after `before` valid rows, and its number of nulls.
fn validity_after(array: &ArrayData, before: usize) -> Option<(Buffer, usize)> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0)?;
    let bits = BooleanBuffer::collect_bool(before + nulls.len(), |row| row < before || nulls.is_valid(row - before));
    Some((bits.into_inner(), nulls.null_count()))
}

/// Returns the keys of `array`, replaced by their `positions` if given.
fn rewrite(array: &ArrayData, positions: Option<&[u64]>) -> Result<Buffer> {
    let DataType::Dictionary(index, _) = array.data_type() else { return Err(Error::invalid("not a dictionary")) };
    let width = number_width(index)?;
    let start = array.offset() * width;
    let len = array.len() * width;
    let keys = array.buffers().first().filter(|keys| start + len <= keys.len());
    let keys = keys.ok_or_else(|| Error::invalid("fewer keys than rows"))?.slice_with_length(start, len);
    let Some(positions) = positions else { return Ok(keys) };

    let max_position = max_key(index, width);
    let mut rewritten = vec![0; keys.len()];
    for (row, out) in rewritten.chunks_exact_mut(width).enumerate() {
        if array.nulls().is_none_or(|nulls| nulls.is_valid(row)) {
            let key = key(array, array.offset() + row)?;
            let Some(&position) = positions.get(key) else {
                let count = positions.len();
                return Err(Error::internal(format_args!(
                    "key {key} of a dictionary of which {count} values are known"
                )));
            };
            assert!(position <= max_position, "position {position} of a value doesn't fit into keys of {index}");
            out.copy_from_slice(&position.to_le_bytes()[..width]);
        }
    }
    Ok(Buffer::from_vec(rewritten))
}

fn has_dictionary(node: &Node) -> bool {
    node.dictionary.is_some() || node.children.iter().any(has_dictionary)
}

/// Returns the largest key of type `index`, which has `width` bytes.
fn max_key(index: &DataType, width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width) >> u32::from(index.is_signed_integer())
}

/// Checks that the keys' type can address all values of a merged dictionary, which may have too many.
fn check_keys_suffice(data_type: &DataType, merged: Option<usize>) -> Result<()> {
    let DataType::Dictionary(index, _) = data_type else { return Ok(()) };
    let max_key = max_key(index, number_width(index)?);
    match merged {
        Some(values) if values as u64 > max_key.saturating_add(1) => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the batches' dictionaries have {values} different values together, more than keys of {index} can \
                 tell apart; write a stream, which can replace its dictionary"
            ),
        )),
        _ => Ok(()),
    }
}
