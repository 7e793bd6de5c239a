//! Dictionaries: replaced by a new chain, extended by a link.
//!
//! ```text
//! Dictionary ── versions ─▶ (epoch 0, Version { chain, links: 1 })  (epoch 7, Version { chain, links: 2 })  …
//!                                                 │ same chain                        │
//!                                                 ▼                                   ▼
//!                                             [ first ] [ delta ] …  ── put together once ──▶ whole, cut to a prefix
//! ```
//! A record batch has an epoch, which selects a version. A single link stays in place. Several links are concatenated
//! *once*, when the whole chain is known (the walk sees to that), so any number of deltas costs linear time in total;
//! an earlier version is a prefix of the same array.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;

use super::data::IpcData;
use super::decode::{Batch, DictionarySource};
use crate::append_vec::AppendVec;
use crate::array::{LazyCheckedArray, StableCopies, UncheckedArray, aligned, fits_one_array, keys_suffice, slice};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{BatchHeader, DictionaryHeader, IpcSchema, MessageFrame, MessageHeader, Node};
use crate::parallel::lock;

/// A point of the walk: the number of dictionary batches met before. Everything in a file belongs to the last one.
pub(super) type Epoch = usize;

/// A dictionary of the schema, with its versions in order.
#[derive(Debug)]
struct Dictionary {
    node: Arc<Node>,
    versions: AppendVec<(Epoch, Version)>,
}

impl Dictionary {
    /// Returns the dictionary as of `epoch`; `None` before its first batch.
    fn at(&self, epoch: Epoch) -> Option<&Version> {
        let later = self.versions.partition_point(|(number, _)| *number < epoch);
        Some(&self.versions.get(later.checked_sub(1)?)?.1)
    }

    /// Adds dictionary batch number `epoch`.
    ///
    /// Fails with a description of what is wrong with it.
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

/// A dictionary batch met by the walk.
pub(super) struct DictionaryBatch {
    pub link: Link,
    pub is_delta: bool,
    pub is_file: bool,
}

/// The dictionaries of a schema by id.
#[derive(Debug)]
pub(super) struct DictionarySet(HashMap<i64, Dictionary>);

impl DictionarySet {
    pub(super) fn for_schema(schema: &IpcSchema) -> DictionarySet {
        let mut found = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, node| {
                found.insert(id, Dictionary { node: node.clone(), versions: AppendVec::new() });
            });
        }
        DictionarySet(found)
    }

    /// Returns the node of the values of dictionary `id`.
    pub(super) fn node(&self, id: i64) -> Option<&Node> {
        self.0.get(&id).map(|dictionary| dictionary.node.as_ref())
    }

    /// Adds a batch of dictionary `id`, which is number `epoch` of all dictionary batches. Fails with a description of
    /// what is wrong with it.
    pub(super) fn add(&self, id: i64, epoch: Epoch, batch: DictionaryBatch) -> Result<(), &'static str> {
        self.0.get(&id).map_or(Err("is of no field of the schema"), |dictionary| dictionary.add(epoch, batch))
    }
}

/// The dictionaries as of one batch.
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

    /// Returns the dictionary if all batches from this one on share it.
    pub(super) fn only(&self, id: i64) -> Option<&'a Version> {
        let is_all = self.epoch == Epoch::MAX || self.dictionaries.0.get(&id)?.versions.len() == 1;
        self.version(id).filter(|_| is_all)
    }

    /// Whether `node` or its children use a dictionary with deltas.
    pub(super) fn has_deltas(&self, node: &Node) -> bool {
        let mut found = false;
        node.dictionaries(&mut |id, _| found |= self.version(id).is_some_and(|version| version.links > 1));
        found
    }

    /// Returns the dictionaries that `node` and its children use, with checked values.
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
    fn values(&self, id: i64) -> Result<Option<UncheckedArray>> {
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
    /// Held while the links are concatenated, so that only one thread does it.
    putting: Mutex<()>,
}

/// One dictionary batch.
#[derive(Debug)]
pub(super) struct Link {
    frame: MessageFrame,
    rows: usize,
    /// The epoch of the batch, and of the dictionaries that its values use.
    epoch: Epoch,
    values: OnceLock<LazyCheckedArray>,
}

impl Link {
    pub(super) fn new(frame: MessageFrame, rows: usize, epoch: Epoch) -> Link {
        Link { frame, rows, epoch, values: OnceLock::new() }
    }

    fn values(&self, known: Resolver<'_>, id: i64) -> Result<&LazyCheckedArray> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let values = self.decode(known, id).map_err(|e| e.context(format_args!("dictionary {id}")))?;
        Ok(self.values.get_or_init(|| LazyCheckedArray::new(values)))
    }

    fn decode(&self, known: Resolver<'_>, id: i64) -> Result<UncheckedArray> {
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

    /// Returns the values, checked, as are the dictionaries they use.
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

    /// Returns this version with one more link in the same chain.
    fn extended(&self, link: Link) -> Result<Version, &'static str> {
        let rows = self.rows.checked_add(link.rows).ok_or("has more values than can be counted")?;
        if !self.chain.links.push(link) {
            return Err("is one delta too many");
        }
        Ok(Version { chain: self.chain.clone(), links: self.links + 1, rows })
    }

    /// Returns the values; those of a single link are unchecked.
    pub(super) fn values(&self, known: Resolver<'_>, id: i64) -> Result<UncheckedArray> {
        match self.links {
            1 => self.link(0)?.values(known, id).map(|values| values.unchecked().clone()),
            _ => self.whole(known, id).map(UncheckedArray::from),
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
            // A later delta may be the damaged one; earlier ones are still good.
            Err(e) if e.kind() == ErrorKind::InvalidData => self.chain.first(self.links, known, id),
            Err(e) => Err(e),
        }
    }

    fn link(&self, i: usize) -> Result<&Link> {
        self.chain.links.get(i).ok_or_else(|| Error::invalid(format!("dictionary batch {i} is missing")))
    }
}

impl DeltaChain {
    /// Concatenates all links, which the walk has found before.
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

    /// Concatenates the first `count` links. Their values are checked first, which copying them relies on.
    fn first(&self, count: usize, known: Resolver<'_>, id: i64) -> Result<ArrayData> {
        let here = |e: Error| e.context(format_args!("dictionary {id}"));
        let mut steady = StableCopies::default();
        let mut parts = Vec::new();
        for link in (0..count).filter_map(|i| self.links.get(i)) {
            let values = link.values(known, id)?.unchecked();
            parts.push(aligned(steady.stable_copy(values).map_err(here)?));
        }
        concat(&parts).map_err(here)
    }
}

/// Concatenates arrays, which must be aligned, and of memory that nobody else can change: what was checked is taken for
/// granted.
pub(super) fn concat(parts: &[ArrayData]) -> Result<ArrayData> {
    let all: Vec<&ArrayData> = parts.iter().collect();
    // Values without bytes may be any number, and arrow-rs takes a bit for each if one of them is null.
    if !fits_one_array(&all, false)? {
        return Err(Error::unsupported("putting deltas together: they have more items than their offsets can count"));
    }
    if !keys_suffice(&all) {
        return Err(Error::unsupported(
            "putting deltas together: they have more inner values than keys can tell apart",
        ));
    }
    let mut whole = MutableArrayData::new(all, false, parts.first().map_or(0, ArrayData::len));
    for (number, part) in parts.iter().enumerate() {
        let extended = whole.try_extend(number, 0, part.len());
        extended.map_err(|e| Error::unsupported(format!("putting deltas together: {e}")))?;
    }
    Ok(whole.freeze())
}
