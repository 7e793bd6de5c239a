//! Dictionaries: replaced by a new chain, extended by a link.
//!
//! ```text
//! Dictionary ── versions ─▶ (epoch 0, Version { chain, links: 1 })  (epoch 7, Version { chain, links: 2 })  …
//!                                                 │ same chain                        │
//!                                                 ▼                                   ▼
//!                                             [ first ] [ delta ] …  ── put together once ──▶ whole, cut to a prefix
//! ```
//! A record batch knows its epoch, and so which version it means. One link stays in place. More than one are copied
//! together *once*, when the whole chain is known (whoever walks sees to that), so that any number of deltas costs linear
//! time in total; an earlier version is a prefix of the same array.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;

use super::append_vec::AppendVec;
use super::data::IpcData;
use super::decode::{Batch, DictionarySource};
use crate::array::{CheckedOnce, Unchecked, aligned, keys_suffice, slice};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{BatchHeader, DictionaryHeader, IpcSchema, MessageFrame, MessageHeader, Node};
use crate::parallel::lock;

/// A moment of the walk: the number of dictionary batches met before. Everything in a file is of the last one.
pub(super) type Epoch = usize;

/// A dictionary of the schema, and its versions in the order in which they came.
#[derive(Debug)]
struct Dictionary {
    node: Arc<Node>,
    versions: AppendVec<(Epoch, Version)>,
}

impl Dictionary {
    /// The dictionary as it was at `epoch`; `None` before its first batch.
    fn at(&self, epoch: Epoch) -> Option<&Version> {
        let later = self.versions.partition_point(|(number, _)| *number < epoch);
        Some(&self.versions.get(later.checked_sub(1)?)?.1)
    }

    /// Takes the dictionary batch that is number `epoch` of all. What is wrong with it, if anything, in words.
    fn add(&self, epoch: Epoch, batch: DictionaryBatch) -> Result<(), &'static str> {
        let DictionaryBatch { link, is_delta, is_file } = batch;
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

/// A dictionary batch that the walk has met.
pub(super) struct DictionaryBatch {
    pub link: Link,
    pub is_delta: bool,
    pub is_file: bool,
}

/// The dictionaries of a schema by id.
#[derive(Debug)]
pub(super) struct DictionarySet(HashMap<i64, Dictionary>);

impl DictionarySet {
    pub(super) fn of_schema(schema: &IpcSchema) -> DictionarySet {
        let mut found = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, node| {
                found.insert(id, Dictionary { node: node.clone(), versions: AppendVec::new() });
            });
        }
        DictionarySet(found)
    }

    /// The node of the values of dictionary `id`.
    pub(super) fn node(&self, id: i64) -> Option<&Node> {
        self.0.get(&id).map(|dictionary| dictionary.node.as_ref())
    }

    /// Takes a batch of dictionary `id` that is number `epoch` of all dictionary batches. What is wrong with it, if
    /// anything, in words.
    pub(super) fn add(&self, id: i64, epoch: Epoch, batch: DictionaryBatch) -> Result<(), &'static str> {
        self.0.get(&id).map_or(Err("is of no field of the schema"), |dictionary| dictionary.add(epoch, batch))
    }
}

/// The dictionaries as they are for one batch.
#[derive(Clone, Copy)]
pub(super) struct Resolver<'a> {
    pub data: &'a IpcData,
    pub dictionaries: &'a DictionarySet,
    pub epoch: Epoch,
}

impl<'a> Resolver<'a> {
    fn version(&self, id: i64) -> Option<&'a Version> {
        self.dictionaries.0.get(&id)?.at(self.epoch)
    }

    /// The dictionary that all batches from this one on have, where there is one such.
    pub(super) fn only(&self, id: i64) -> Option<&'a Version> {
        let is_all = self.epoch == Epoch::MAX || self.dictionaries.0.get(&id)?.versions.len() == 1;
        self.version(id).filter(|_| is_all)
    }

    /// Whether `node` or its children use a dictionary that came in parts.
    pub(super) fn has_deltas(&self, node: &Node) -> bool {
        let mut found = false;
        node.dictionaries(&mut |id, _| found |= self.version(id).is_some_and(|version| version.links > 1));
        found
    }

    /// The dictionaries that `node` and its children use, values checked.
    pub(super) fn checked(self, node: &Node) -> Result<Vec<ArrayData>> {
        let mut checked = Ok(Vec::new());
        node.dictionaries(&mut |id, _| {
            if let (Ok(found), Some(version)) = (&mut checked, self.version(id)) {
                match version.checked(self, id) {
                    Ok(values) => found.push(values),
                    Err(e) => checked = Err(e),
                }
            }
        });
        checked
    }
}

impl DictionarySource for Resolver<'_> {
    fn values(&self, id: i64) -> Result<Option<Unchecked>> {
        self.version(id).map(|version| version.values(*self, id)).transpose()
    }
}

/// A dictionary up to one of its links.
#[derive(Clone, Debug)]
pub(super) struct Version {
    chain: Arc<DeltaChain>,
    links: usize,
    rows: usize,
}

#[derive(Debug)]
struct DeltaChain {
    links: AppendVec<Link>,
    whole: OnceLock<ArrayData>,
    /// Held while putting it together, which threads that meet here would else all do.
    putting: Mutex<()>,
}

/// One dictionary batch.
#[derive(Debug)]
pub(super) struct Link {
    frame: MessageFrame,
    rows: usize,
    /// When it came: dictionaries that its values use are those of then.
    epoch: Epoch,
    values: OnceLock<CheckedOnce>,
}

impl Link {
    pub(super) fn new(frame: MessageFrame, rows: usize, epoch: Epoch) -> Link {
        Link { frame, rows, epoch, values: OnceLock::new() }
    }

    fn values(&self, known: Resolver<'_>, id: i64) -> Result<&CheckedOnce> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let values = self.decode(known, id).map_err(|e| e.context(format_args!("dictionary {id}")))?;
        Ok(self.values.get_or_init(|| CheckedOnce::new(values)))
    }

    fn decode(&self, known: Resolver<'_>, id: i64) -> Result<Unchecked> {
        let node = &known.dictionaries.0.get(&id).ok_or_else(|| Error::invalid("no field has it"))?.node;
        let mut metadata = vec![0; self.frame.metadata_len];
        known.data.bytes.read_at(self.frame.metadata, &mut metadata)?;
        let header = MessageHeader::parse(&metadata)?;
        let data = DictionaryHeader::parse(header.table)?.data;
        let body = (self.frame.body(), header.body_len);
        let batch = Batch::new(BatchHeader::parse(data)?, header.version, body, std::slice::from_ref(node.as_ref()))?;
        if batch.header.rows != self.rows {
            return Err(Error::new(ErrorKind::FileChanged, "its number of values has changed since it was opened"));
        }
        known.data.decoder(&Resolver { epoch: self.epoch, ..known }).column(&batch, node, 0)
    }

    /// The values, checked, as are those of the dictionaries they use.
    fn checked(&self, known: Resolver<'_>, id: i64) -> Result<&ArrayData> {
        let inner = || match known.dictionaries.0.get(&id) {
            Some(dictionary) => Resolver { epoch: self.epoch, ..known }.checked(&dictionary.node),
            None => Ok(Vec::new()),
        };
        self.values(known, id)?.checked(inner).map_err(|e| e.context(format_args!("dictionary {id}")))
    }
}

impl Version {
    fn new(first: Link) -> Version {
        let rows = first.rows;
        let links = AppendVec::new();
        links.push(first);
        Version {
            chain: Arc::new(DeltaChain { links, whole: OnceLock::new(), putting: Mutex::new(()) }),
            links: 1,
            rows,
        }
    }

    /// This version with one more link, in the same chain.
    fn extended(&self, link: Link) -> Result<Version, &'static str> {
        let rows = self.rows.checked_add(link.rows).ok_or("has more values than can be counted")?;
        if !self.chain.links.push(link) {
            return Err("is one delta too many");
        }
        Ok(Version { chain: self.chain.clone(), links: self.links + 1, rows })
    }

    /// The values, not checked where they are of one link.
    pub(super) fn values(&self, known: Resolver<'_>, id: i64) -> Result<Unchecked> {
        match self.links {
            1 => self.link(0)?.values(known, id).map(|values| values.unchecked().clone()),
            _ => self.whole(known, id).map(Unchecked::from),
        }
    }

    /// The values, checked.
    pub(super) fn checked(&self, known: Resolver<'_>, id: i64) -> Result<ArrayData> {
        match self.links {
            1 => self.link(0)?.checked(known, id).cloned(),
            _ => self.whole(known, id),
        }
    }

    fn whole(&self, known: Resolver<'_>, id: i64) -> Result<ArrayData> {
        match self.chain.whole(known, id) {
            Ok(whole) if self.rows <= whole.len() => Ok(slice(whole, 0, self.rows)),
            Ok(whole) => Err(Error::invalid(format!("dictionary {id} has {} of {} values", whole.len(), self.rows))),
            // A delta that comes later may be the damaged one; what came before is still good.
            Err(e) if e.kind() == ErrorKind::InvalidData => self.chain.first(self.links, known, id),
            Err(e) => Err(e),
        }
    }

    fn link(&self, i: usize) -> Result<&Link> {
        self.chain.links.get(i).ok_or_else(|| Error::invalid(format!("dictionary batch {i} is missing")))
    }
}

impl DeltaChain {
    /// All links put together, which whoever walks has found before.
    fn whole(&self, known: Resolver<'_>, id: i64) -> Result<&ArrayData> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        if known.data.options.strict {
            let message =
                format!("strict: dictionary {id} comes in deltas and can't be had in one piece without a copy");
            return Err(Error::new(ErrorKind::CopyNeeded, message));
        }
        let _alone = lock(&self.putting);
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let whole = self.first(self.links.len(), known, id)?;
        known.data.note_copy(whole.buffers().iter().map(|buffer| buffer.len()).sum());
        Ok(self.whole.get_or_init(|| whole))
    }

    /// The first `count` links put together. Their values are checked before: what copies them relies on it.
    fn first(&self, count: usize, known: Resolver<'_>, id: i64) -> Result<ArrayData> {
        let mut parts = Vec::new();
        for link in (0..count).filter_map(|i| self.links.get(i)) {
            parts.push(aligned(link.checked(known, id)?.clone()));
        }
        concat(&parts).map_err(|e| e.context(format_args!("dictionary {id}")))
    }
}

/// The arrays one behind the other. They must be aligned.
pub(super) fn concat(parts: &[ArrayData]) -> Result<ArrayData> {
    if !keys_suffice(&parts.iter().collect::<Vec<_>>()) {
        return Err(Error::unsupported(
            "putting deltas together: they have more inner values than keys can tell apart",
        ));
    }
    let mut whole = MutableArrayData::new(parts.iter().collect(), false, parts.first().map_or(0, ArrayData::len));
    for (number, part) in parts.iter().enumerate() {
        let extended = whole.try_extend(number, 0, part.len());
        extended.map_err(|e| Error::unsupported(format!("putting deltas together: {e}")))?;
    }
    Ok(whole.freeze())
}
