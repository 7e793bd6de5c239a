//! [`StreamDictionaries`]: the dictionaries of a stream that is read from a pipe. Unlike those of a stream that is read
//! in place, only the last version of each is kept.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;

use super::decode::DictionarySource;
use super::dictionary::concat;
use crate::array::{UncheckedArray, aligned};
use crate::error::{Error, Result};
use crate::ipc::framing::{IpcSchema, Node};

/// The dictionaries of a stream by id, as the next record batch sees them.
pub(super) struct StreamDictionaries(HashMap<i64, StreamDictionary>);

/// A dictionary: its last replacement, and the deltas since.
struct StreamDictionary {
    /// The node of the values.
    node: Arc<Node>,
    /// Empty before the first batch.
    parts: Vec<ArrayData>,
    /// All parts concatenated, once a batch has needed several.
    whole: OnceLock<ArrayData>,
}

impl StreamDictionaries {
    pub(super) fn for_schema(schema: &IpcSchema) -> StreamDictionaries {
        let mut dictionaries = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, node| {
                dictionaries.insert(id, StreamDictionary::new(node.clone(), Vec::new()));
            });
        }
        StreamDictionaries(dictionaries)
    }

    /// Returns the node of the values of dictionary `id`.
    ///
    /// # Errors
    /// `InvalidData` if no field of the schema has it.
    pub(super) fn node(&self, id: i64) -> Result<&Arc<Node>> {
        self.0.get(&id).map(|dictionary| &dictionary.node).ok_or_else(|| unknown_dictionary(id))
    }

    /// Adds the values of a batch of dictionary `id`: a delta extends the dictionary, any other batch replaces it.
    ///
    /// # Errors
    /// `InvalidData` if no field has the dictionary, or there is nothing to extend.
    pub(super) fn add(&mut self, id: i64, is_delta: bool, values: ArrayData) -> Result<()> {
        let dictionary = self.0.get_mut(&id).ok_or_else(|| unknown_dictionary(id))?;
        if !is_delta {
            *dictionary = StreamDictionary::new(dictionary.node.clone(), vec![values]);
        } else if dictionary.parts.is_empty() {
            return Err(dictionary_error(id, "is a delta to nothing"));
        } else {
            dictionary.extend(values);
        }
        Ok(())
    }

    /// Returns the values of dictionary `id`; `None` before its first batch.
    pub(super) fn whole(&self, id: i64) -> Result<Option<&ArrayData>> {
        let Some(dictionary) = self.0.get(&id) else { return Ok(None) };
        dictionary.whole().map_err(|e| e.context(format_args!("dictionary {id}")))
    }

    /// Returns the dictionaries that `node` and its children use. They were checked when they arrived.
    pub(super) fn used_by(&self, node: &Node) -> Result<Vec<&ArrayData>> {
        let mut ids = Vec::new();
        node.dictionaries(&mut |id, _| ids.push(id));
        let mut used = Vec::with_capacity(ids.len());
        for id in ids {
            used.extend(self.whole(id)?);
        }
        Ok(used)
    }
}

impl StreamDictionary {
    fn new(node: Arc<Node>, parts: Vec<ArrayData>) -> StreamDictionary {
        StreamDictionary { node, parts, whole: OnceLock::new() }
    }

    /// Adds the values of a delta. If the parts before it were concatenated, the result replaces them.
    fn extend(&mut self, values: ArrayData) {
        if let Some(whole) = self.whole.take() {
            self.parts = vec![whole];
        }
        self.parts.push(values);
    }

    /// Returns all values; `None` before the first batch. Concatenates the parts when first called after a delta.
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

impl DictionarySource for StreamDictionaries {
    fn values(&self, id: i64) -> Result<Option<UncheckedArray>> {
        self.whole(id).map(|whole| whole.cloned().map(UncheckedArray::from))
    }
}

fn unknown_dictionary(id: i64) -> Error {
    dictionary_error(id, "is of no field of the schema")
}

fn dictionary_error(id: i64, what: &str) -> Error {
    Error::invalid(format!("the batch of dictionary {id} {what}"))
}
