//! Dictionaries: replaced by a new chain, extended by a link.
//!
//! ```text
//! batch ─▶ State { id ─▶ Version { chain, links: 2 } }     a later batch ─▶ … Version { chain, links: 3 }
//!                                    │                                                │ same chain
//!                                    ▼                                                ▼
//!                              [ first ] [ delta ] [ delta ]  ── put together once ──▶ whole, cut to its prefix
//! ```
//! One link stays in place. More than one are copied together *once*, when the whole chain is known, so that any
//! number of deltas costs linear time in total; an earlier version is a prefix of the same array.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;

use super::decode::Batch;
use super::message::{BatchHeader, DictionaryHeader, Frame, Header};
use super::read::{Ipc, Resolver};
use super::schema::{IpcSchema, Node};
use super::shelf::Shelf;
use crate::error::{Error, ErrorKind, Result};
use crate::{buffer, validate};

/// The dictionaries as they are for a batch.
pub(super) type State = HashMap<i64, Version>;

/// What the schema says of a dictionary.
#[derive(Debug)]
pub(super) struct Values {
    node: Arc<Node>,
    /// Dictionaries that its values use. Never its own id, nor in a circle: a type can't contain itself.
    uses: Vec<i64>,
}

impl Values {
    /// The dictionaries of `schema` by id.
    pub(super) fn of_schema(schema: &IpcSchema) -> HashMap<i64, Values> {
        let mut found = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, node| {
                let mut uses = Vec::new();
                node.dictionaries(&mut |inner, _| uses.push(inner));
                found.insert(id, Values { node: node.clone(), uses });
            });
        }
        found
    }

    /// The node of the values.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// The part of `state` that values of this dictionary may refer to.
    pub(super) fn nested(&self, state: &State) -> State {
        self.uses.iter().filter_map(|id| Some((*id, state.get(id)?.clone()))).collect()
    }
}

/// A dictionary up to one of its links.
#[derive(Clone, Debug)]
pub(super) struct Version {
    chain: Arc<Chain>,
    links: usize,
}

#[derive(Debug)]
struct Chain {
    links: Shelf<Link>,
    whole: OnceLock<ArrayData>,
}

/// One dictionary batch.
#[derive(Debug)]
pub(super) struct Link {
    frame: Frame,
    rows: usize,
    nested: State,
    values: OnceLock<ArrayData>,
    checked: OnceLock<()>,
}

impl Link {
    pub(super) fn new(frame: Frame, rows: usize, nested: State) -> Link {
        Link { frame, rows, nested, values: OnceLock::new(), checked: OnceLock::new() }
    }

    fn values(&self, ipc: &Ipc, id: i64) -> Result<&ArrayData> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let values = self.decode(ipc, id).map_err(|e| e.context(format_args!("dictionary {id}")))?;
        Ok(self.values.get_or_init(|| values))
    }

    fn decode(&self, ipc: &Ipc, id: i64) -> Result<ArrayData> {
        let node = &ipc.dictionaries.get(&id).ok_or_else(|| Error::invalid("no field has it"))?.node;
        let mut metadata = vec![0; self.frame.metadata_len];
        ipc.bytes.read_at(self.frame.metadata, &mut metadata)?;
        let header = Header::parse(&metadata)?;
        let data = DictionaryHeader::parse(header.table)?.data;
        let body = (self.frame.body(), header.body_len);
        let batch = Batch::new(BatchHeader::parse(data)?, header.version, body, std::slice::from_ref(node.as_ref()))?;
        if batch.header.rows != self.rows {
            return Err(Error::new(ErrorKind::FileChanged, "its number of values has changed since it was opened"));
        }
        ipc.decoder(&Resolver { ipc, state: &self.nested }).column(&batch, node, 0)
    }

    /// Checks the values, and those of the dictionaries they use, once.
    fn check(&self, ipc: &Ipc, id: i64) -> Result<()> {
        if self.checked.get().is_none() {
            self.nested.iter().try_for_each(|(id, version)| version.check(ipc, *id))?;
            validate::check(self.values(ipc, id)?).map_err(|e| e.context(format_args!("dictionary {id}")))?;
            self.checked.get_or_init(|| ());
        }
        Ok(())
    }
}

impl Version {
    pub(super) fn new(first: Link) -> Version {
        let links = Shelf::new();
        links.push(first);
        Version { chain: Arc::new(Chain { links, whole: OnceLock::new() }), links: 1 }
    }

    /// This version with one more link; versions held elsewhere stay as they are.
    pub(super) fn extend(&mut self, link: Link) -> Result<()> {
        if !self.chain.links.push(link) {
            return Err(Error::unsupported("a dictionary of more than 2^32 deltas"));
        }
        self.links += 1;
        Ok(())
    }

    pub(super) fn values(&self, ipc: &Ipc, id: i64) -> Result<ArrayData> {
        if self.links == 1 {
            return self.link(0)?.values(ipc, id).cloned();
        }
        let rows = (0..self.links).map(|i| Ok(self.link(i)?.rows)).sum::<Result<usize>>()?;
        let whole = self.chain.whole(ipc, id)?;
        if rows > whole.len() {
            return Err(Error::invalid(format!("dictionary {id} has {} values, {rows} were announced", whole.len())));
        }
        Ok(buffer::slice(whole, 0, rows))
    }

    pub(super) fn check(&self, ipc: &Ipc, id: i64) -> Result<()> {
        (0..self.links).try_for_each(|i| self.link(i)?.check(ipc, id))
    }

    fn link(&self, i: usize) -> Result<&Link> {
        self.chain.links.get(i).ok_or_else(|| Error::invalid(format!("dictionary batch {i} is missing")))
    }
}

impl Chain {
    /// All links put together. Their values are checked first: what copies them relies on their offsets.
    fn whole(&self, ipc: &Ipc, id: i64) -> Result<&ArrayData> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        if ipc.is_strict() {
            let message =
                format!("strict: dictionary {id} comes in deltas and can't be had in one piece without a copy");
            return Err(Error::new(ErrorKind::CopyNeeded, message));
        }
        ipc.walk_all();
        let links: Vec<&Link> = (0..self.links.len()).filter_map(|i| self.links.get(i)).collect();
        let mut parts = Vec::with_capacity(links.len());
        for link in links {
            link.check(ipc, id)?;
            parts.push(link.values(ipc, id)?);
        }
        let whole = concat(&parts).map_err(|e| e.context(format_args!("dictionary {id}")))?;
        ipc.note_copy(whole.get_buffer_memory_size());
        Ok(self.whole.get_or_init(|| whole))
    }
}

fn concat(parts: &[&ArrayData]) -> Result<ArrayData> {
    let bytes: usize = parts.iter().map(|part| part.get_buffer_memory_size()).sum();
    if i32::try_from(bytes).is_err() {
        return Err(Error::unsupported("deltas of more than 2 GiB together"));
    }
    let rows = parts.iter().map(|part| part.len()).sum();
    let mut whole = MutableArrayData::new(parts.to_vec(), false, rows);
    for (number, part) in parts.iter().enumerate() {
        whole
            .try_extend(number, 0, part.len())
            .map_err(|e| Error::unsupported(format!("putting deltas together: {e}")))?;
    }
    Ok(whole.freeze())
}
