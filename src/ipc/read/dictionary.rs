//! Dictionaries: replaced by a new chain, extended by a link.
//!
//! ```text
//! Dictionary ── versions ─▶ (epoch 0, Version { chain, links: 1 })  (epoch 7, Version { chain, links: 2 })  …
//!                                                 │ same chain                        │
//!                                                 ▼                                   ▼
//!                                             [ first ] [ delta ] …  ── put together once ──▶ whole, cut to a prefix
//! ```
//! A record batch knows its epoch, and so which version it means. One link stays in place. More than one are copied together *once*, when the whole chain is known, so that any
//! number of deltas costs linear time in total; an earlier version is a prefix of the same array.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;

use super::append_vec::Shelf;
use super::decode::Batch;
use super::source::{Ipc, Resolver};
use crate::array::{buffer, validate};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{BatchHeader, DictionaryHeader, Frame, Header, IpcSchema, Node};

/// A moment of the walk: the number of dictionary batches met before. Everything in a file is of the last one.
pub(super) type Epoch = usize;

/// A dictionary of the schema, and its versions in the order in which they came.
#[derive(Debug)]
pub(in crate::ipc) struct Dictionary {
    node: Arc<Node>,
    versions: Shelf<(Epoch, Version)>,
}

impl Dictionary {
    /// The dictionaries of `schema` by id.
    pub(super) fn of_schema(schema: &IpcSchema) -> HashMap<i64, Dictionary> {
        let mut found = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, node| {
                found.insert(id, Dictionary { node: node.clone(), versions: Shelf::new() });
            });
        }
        found
    }

    /// The node of the values.
    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    /// The dictionary as it was at `epoch`; `None` before its first batch.
    pub(super) fn at(&self, epoch: Epoch) -> Option<&Version> {
        let later = self.versions.partition_point(|(number, _)| *number < epoch);
        Some(&self.versions.get(later.checked_sub(1)?)?.1)
    }

    /// The dictionary that all batches from `epoch` on have, where there is one such.
    pub(super) fn only(&self, epoch: Epoch) -> Option<&Version> {
        let is_all = epoch == Epoch::MAX || self.versions.len() == 1;
        self.at(epoch).filter(|_| is_all)
    }

    /// Takes the dictionary batch that is number `epoch` of all. What is wrong with it, if anything, in words.
    pub(super) fn add(&self, epoch: Epoch, link: Link, is_delta: bool, is_file: bool) -> Result<(), &'static str> {
        let latest = self.versions.len().checked_sub(1).and_then(|last| self.versions.get(last));
        let version = match latest {
            Some((_, version)) if is_delta => version.extended(link)?,
            None if is_delta => return Err("is a delta to nothing"),
            Some(_) if is_file => return Err("replaces another, which a file can't say from when"),
            _ => Version::new(link),
        };
        if self.versions.push((epoch, version)) { Ok(()) } else { Err("is one too many") }
    }
}

impl Ipc {
    /// Checks the values of the dictionaries that `node` and its children use.
    pub(super) fn check_dictionaries(&self, node: &Node, epoch: Epoch) -> Result<()> {
        let mut outcome = Ok(());
        node.dictionaries(&mut |id, _| {
            let version = self.dictionaries.get(&id).and_then(|dictionary| dictionary.at(epoch));
            if let (Ok(()), Some(version)) = (&outcome, version) {
                outcome = version.check(self, id);
            }
        });
        outcome
    }
}

/// A dictionary up to one of its links.
#[derive(Clone, Debug)]
pub(super) struct Version {
    chain: Arc<Chain>,
    links: usize,
    rows: usize,
}

#[derive(Debug)]
struct Chain {
    links: Shelf<Link>,
    whole: OnceLock<ArrayData>,
    /// Held while putting it together, which threads that meet here would else all do.
    putting: Mutex<()>,
}

/// One dictionary batch.
#[derive(Debug)]
pub(super) struct Link {
    frame: Frame,
    rows: usize,
    /// When it came: dictionaries that its values use are those of then.
    epoch: Epoch,
    values: OnceLock<ArrayData>,
    checked: OnceLock<()>,
}

impl Link {
    pub(in crate::ipc) fn new(frame: Frame, rows: usize, epoch: Epoch) -> Link {
        Link { frame, rows, epoch, values: OnceLock::new(), checked: OnceLock::new() }
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
        ipc.decoder(&Resolver { ipc, epoch: self.epoch }).column(&batch, node, 0)
    }

    /// Checks the values, and those of the dictionaries they use, once.
    fn check(&self, ipc: &Ipc, id: i64) -> Result<()> {
        if self.checked.get().is_none() {
            if let Some(dictionary) = ipc.dictionaries.get(&id) {
                ipc.check_dictionaries(&dictionary.node, self.epoch)?;
            }
            validate::check(self.values(ipc, id)?).map_err(|e| e.context(format_args!("dictionary {id}")))?;
            self.checked.get_or_init(|| ());
        }
        Ok(())
    }
}

impl Version {
    fn new(first: Link) -> Version {
        let (links, rows) = (Shelf::new(), first.rows);
        links.push(first);
        Version { chain: Arc::new(Chain { links, whole: OnceLock::new(), putting: Mutex::new(()) }), links: 1, rows }
    }

    /// This version with one more link, in the same chain.
    fn extended(&self, link: Link) -> Result<Version, &'static str> {
        let rows = self.rows.checked_add(link.rows).ok_or("has more values than can be counted")?;
        if !self.chain.links.push(link) {
            return Err("is one delta too many");
        }
        Ok(Version { chain: self.chain.clone(), links: self.links + 1, rows })
    }

    pub(super) fn values(&self, ipc: &Ipc, id: i64) -> Result<ArrayData> {
        if self.links == 1 {
            return self.link(0)?.values(ipc, id).cloned();
        }
        match self.chain.whole(ipc, id) {
            Ok(whole) if self.rows <= whole.len() => Ok(buffer::slice(whole, 0, self.rows)),
            Ok(whole) => Err(Error::invalid(format!("dictionary {id} has {} of {} values", whole.len(), self.rows))),
            // A delta that comes later may be the damaged one; what came before is still good.
            Err(e) if e.kind() == ErrorKind::InvalidData => self.chain.first(self.links, ipc, id),
            Err(e) => Err(e),
        }
    }

    pub(super) fn check(&self, ipc: &Ipc, id: i64) -> Result<()> {
        (0..self.links).try_for_each(|i| self.link(i)?.check(ipc, id))
    }

    fn link(&self, i: usize) -> Result<&Link> {
        self.chain.links.get(i).ok_or_else(|| Error::invalid(format!("dictionary batch {i} is missing")))
    }
}

impl Chain {
    /// All links put together.
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
        let _alone = self.putting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let whole = self.first(self.links.len(), ipc, id)?;
        ipc.note_copy(whole.buffers().iter().map(|buffer| buffer.len()).sum());
        Ok(self.whole.get_or_init(|| whole))
    }

    /// The first `count` links put together. Their values are checked before: what copies them relies on it.
    fn first(&self, count: usize, ipc: &Ipc, id: i64) -> Result<ArrayData> {
        let mut parts = Vec::new();
        for link in (0..count).filter_map(|i| self.links.get(i)) {
            link.check(ipc, id)?;
            parts.push(buffer::aligned(link.values(ipc, id)?.clone()));
        }
        concat(&parts).map_err(|e| e.context(format_args!("dictionary {id}")))
    }
}

/// The arrays one behind the other. They must be aligned, and their values checked.
pub(super) fn concat(parts: &[ArrayData]) -> Result<ArrayData> {
    let mut whole = MutableArrayData::new(parts.iter().collect(), false, parts.first().map_or(0, ArrayData::len));
    for (number, part) in parts.iter().enumerate() {
        let extended = whole.try_extend(number, 0, part.len());
        extended.map_err(|e| Error::unsupported(format!("putting deltas together: {e}")))?;
    }
    Ok(whole.freeze())
}
