//! Keeps the dictionaries of a file or stream: a replacement begins a new chain of batches, a delta extends one.
//!
//! ```text
//! Dictionary ── versions ─▶ (epoch 0, Version { chain, links: 1 })  (epoch 7, Version { chain, links: 2 })  …
//!                                                 │ same chain                        │
//!                                                 ▼                                   ▼
//!                                             [ first ] [ delta ] …  ── put together once ──▶ whole, cut to a prefix
//! ```
//! A record batch has an epoch, which selects a version. A single link stays in place. Several links are concatenated
//! *once*, after the walk has found the whole chain, so any number of deltas costs linear time in total; an earlier
//! version is a prefix of the same array.
//!
//! Only the walk, under its mutex, adds versions and links. Any thread reads them, without a lock: an `AppendVec`
//! publishes an item before its length. A thread that concatenates holds the mutex `concatenating` of the chain, and
//! may take the mutex of an inner dictionary's chain meanwhile. That can't lead back to the same chain: a dictionary
//! whose values use the dictionary itself would have an infinite type, and the schema refuses it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;

use super::data::IpcData;
use super::decode::{Batch, BodyPosition, DictionarySource};
use crate::append_vec::AppendVec;
use crate::array::{
    LazyCheckedArray, StableCopies, UncheckedArray, aligned, fits_one_array, keys_suffice, require_little_endian, slice,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{BatchHeader, DictionaryHeader, IpcSchema, MessageFrame, MessageHeader, Node};
use crate::map::MutexExt;

/// A point of the walk: the number of dictionary batches before it. Everything in a file has the last epoch.
pub(super) type Epoch = usize;

/// A dictionary of the schema, with its versions in order.
#[derive(Debug)]
struct Dictionary {
    node: Arc<Node>,
    versions: AppendVec<(Epoch, Version)>,
}

impl Dictionary {
    /// Returns the version in `epoch`; `None` before the first batch.
    fn version_at(&self, epoch: Epoch) -> Option<&Version> {
        let later = self.versions.partition_point(|(number, _)| *number < epoch);
        Some(&self.versions.get(later.checked_sub(1)?)?.1)
    }

    /// Adds dictionary batch number `epoch`.
    ///
    /// # Errors
    /// A description of the problem with the batch.
    fn add(&self, epoch: Epoch, batch: DictionaryBatch) -> Result<(), &'static str> {
        let DictionaryBatch { link, is_delta, is_file } = batch;
        let latest = self.versions.len().checked_sub(1).and_then(|last| self.versions.get(last));
        if let Some((number, _)) = latest {
            assert!(*number < epoch, "dictionary batch {epoch} follows dictionary batch {number}");
        }
        let version = match latest {
            Some((_, version)) if is_delta => version.extend(link)?,
            None if is_delta => return Err("is a delta to nothing"),
            Some(_) if is_file => return Err("replaces another, which a file can't say from when"),
            _ => Version::new(link),
        };
        if self.versions.push((epoch, version)) { Ok(()) } else { Err("is one too many") }
    }
}

/// A dictionary batch that the walk has found.
pub(super) struct DictionaryBatch {
    pub link: Link,
    pub is_delta: bool,
    /// True if it is in a file, where a dictionary can't be replaced.
    pub is_file: bool,
}

/// The dictionaries of a schema by id.
#[derive(Debug)]
pub(super) struct DictionarySet(HashMap<i64, Dictionary>);

impl DictionarySet {
    pub(super) fn for_schema(schema: &IpcSchema) -> DictionarySet {
        let mut dictionaries = HashMap::new();
        for column in &schema.columns {
            column.dictionaries(&mut |id, node| {
                dictionaries.insert(id, Dictionary { node: node.clone(), versions: AppendVec::new() });
            });
        }
        DictionarySet(dictionaries)
    }

    /// Returns the node of the values of dictionary `id`.
    pub(super) fn node(&self, id: i64) -> Option<&Node> {
        self.0.get(&id).map(|dictionary| dictionary.node.as_ref())
    }

    /// Adds a batch of dictionary `id`, which is number `epoch` of all dictionary batches.
    ///
    /// # Errors
    /// A description of the problem with the batch.
    pub(super) fn add(&self, id: i64, epoch: Epoch, batch: DictionaryBatch) -> Result<(), &'static str> {
        match self.0.get(&id) {
            Some(dictionary) => dictionary.add(epoch, batch),
            None => Err("is of no field of the schema"),
        }
    }
}

/// Resolves the dictionaries of one batch.
#[derive(Clone, Copy)]
pub(super) struct Resolver<'a> {
    pub data: &'a IpcData,
    pub dictionaries: &'a DictionarySet,
    pub epoch: Epoch,
}

impl<'a> Resolver<'a> {
    fn version(&self, id: i64) -> Option<&'a Version> {
        self.dictionaries.0.get(&id)?.version_at(self.epoch)
    }

    /// Returns the version of a dictionary if this batch and all later ones share it.
    pub(super) fn shared_version(&self, id: i64) -> Option<&'a Version> {
        let is_shared = self.epoch == Epoch::MAX || self.dictionaries.0.get(&id)?.versions.len() == 1;
        if is_shared { self.version(id) } else { None }
    }

    /// Returns true if `node` or its children use a dictionary with deltas.
    pub(super) fn has_deltas(&self, node: &Node) -> bool {
        let mut has_deltas = false;
        node.dictionaries(&mut |id, _| has_deltas |= self.version(id).is_some_and(|version| version.links > 1));
        has_deltas
    }

    /// Returns the dictionaries that `node` and its children use, with checked values.
    pub(super) fn checked_dictionaries(self, node: &Node) -> Result<Vec<ArrayData>> {
        let mut ids = Vec::new();
        node.dictionaries(&mut |id, _| ids.push(id));
        let mut checked = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(version) = self.version(id) {
                checked.push(version.checked(self, id)?);
            }
        }
        Ok(checked)
    }
}

impl DictionarySource for Resolver<'_> {
    fn values(&self, id: i64) -> Result<Option<UncheckedArray>> {
        self.version(id).map(|version| version.values(*self, id)).transpose()
    }
}

/// A dictionary as the batches of some epochs see it: the first `links` links of a chain, which have `rows` values.
#[derive(Clone, Debug)]
pub(super) struct Version {
    chain: Arc<DeltaChain>,
    links: usize,
    rows: usize,
}

/// A dictionary batch that is not a delta, and the deltas that follow it.
#[derive(Debug)]
struct DeltaChain {
    links: AppendVec<Link>,
    /// The values of all links, once they are concatenated.
    whole: OnceLock<ArrayData>,
    /// Held while the links are concatenated, so that only one thread does it.
    concatenating: Mutex<()>,
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

    fn values(&self, resolver: Resolver<'_>, id: i64) -> Result<&LazyCheckedArray> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let values = self.decode(resolver, id).map_err(|e| e.context(format_args!("dictionary {id}")))?;
        Ok(self.values.get_or_init(|| LazyCheckedArray::new(values)))
    }

    fn decode(&self, resolver: Resolver<'_>, id: i64) -> Result<UncheckedArray> {
        let node = resolver.dictionaries.node(id).ok_or_else(|| Error::invalid("no field has it"))?;
        let metadata = resolver.data.bytes.read_to_vec(self.frame.metadata, self.frame.metadata_len)?;
        let header = MessageHeader::parse(&metadata)?;
        let data = DictionaryHeader::parse(header.table)?.data;
        let body = BodyPosition { offset: self.frame.body(), len: header.body_len };
        let batch = Batch::new(BatchHeader::parse(data)?, header.version, body, std::slice::from_ref(node))?;
        if batch.header.rows != self.rows {
            return Err(Error::new(ErrorKind::FileChanged, "its number of values has changed since it was opened"));
        }
        resolver.data.decoder(&self.inner_resolver(resolver)).column(&batch, node, 0)
    }

    /// Returns the resolver of the dictionaries that the values use.
    fn inner_resolver<'a>(&self, resolver: Resolver<'a>) -> Resolver<'a> {
        Resolver { epoch: self.epoch, ..resolver }
    }

    /// Returns the values. Both they and the dictionaries they use are checked.
    fn checked(&self, resolver: Resolver<'_>, id: i64) -> Result<&ArrayData> {
        self.values(resolver, id)?
            .checked(|| match resolver.dictionaries.node(id) {
                Some(node) => self.inner_resolver(resolver).checked_dictionaries(node),
                None => Ok(Vec::new()),
            })
            .map_err(|e| e.context(format_args!("dictionary {id}")))
    }
}

impl Version {
    fn new(first: Link) -> Version {
        let rows = first.rows;
        let links = AppendVec::new();
        let is_added = links.push(first);
        assert!(is_added, "an empty chain has room for a link");
        Version {
            chain: Arc::new(DeltaChain { links, whole: OnceLock::new(), concatenating: Mutex::new(()) }),
            links: 1,
            rows,
        }
    }

    /// Returns this version with one more link in the same chain.
    fn extend(&self, link: Link) -> Result<Version, &'static str> {
        debug_assert_eq!(self.links, self.chain.links.len(), "only the latest version of a dictionary can be extended");
        let rows = self.rows.checked_add(link.rows).ok_or("has more values than can be counted")?;
        if !self.chain.links.push(link) {
            return Err("is one delta too many");
        }
        Ok(Version { chain: self.chain.clone(), links: self.links + 1, rows })
    }

    /// Returns the values. The values of a single link are unchecked.
    pub(super) fn values(&self, resolver: Resolver<'_>, id: i64) -> Result<UncheckedArray> {
        match self.links {
            1 => self.link(0)?.values(resolver, id).map(|values| values.unchecked().clone()),
            _ => self.whole(resolver, id).map(UncheckedArray::from),
        }
    }

    /// Returns the values, checked.
    pub(super) fn checked(&self, resolver: Resolver<'_>, id: i64) -> Result<ArrayData> {
        match self.links {
            1 => self.link(0)?.checked(resolver, id).cloned(),
            _ => self.whole(resolver, id),
        }
    }

    fn whole(&self, resolver: Resolver<'_>, id: i64) -> Result<ArrayData> {
        match self.chain.whole(resolver, id) {
            Ok(whole) if self.rows <= whole.len() => Ok(slice(whole, 0, self.rows)),
            Ok(whole) => Err(Error::invalid(format!("dictionary {id} has {} of {} values", whole.len(), self.rows))),
            // A later delta may be the damaged one; earlier ones are still good.
            Err(e) if e.kind() == ErrorKind::InvalidData => self.chain.concat_first(self.links, resolver, id),
            Err(e) => Err(e),
        }
    }

    fn link(&self, i: usize) -> Result<&Link> {
        self.chain.links.get(i).ok_or_else(|| Error::invalid(format!("dictionary batch {i} is missing")))
    }
}

impl DeltaChain {
    /// Concatenates all links, which the walk has found before.
    fn whole(&self, resolver: Resolver<'_>, id: i64) -> Result<&ArrayData> {
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        if resolver.data.options.strict {
            let message =
                format!("strict: dictionary {id} comes in deltas and can't be had in one piece without a copy");
            return Err(Error::new(ErrorKind::CopyNeeded, message));
        }
        let _guard = self.concatenating.lock_ignoring_poison();
        if let Some(whole) = self.whole.get() {
            return Ok(whole);
        }
        let whole = self.concat_first(self.links.len(), resolver, id)?;
        resolver.data.count_copied(whole.buffers().iter().map(|buffer| buffer.len()).sum());
        Ok(self.whole.get_or_init(|| whole))
    }

    /// Concatenates the first `count` links. Checks their values first, as copying them relies on it.
    fn concat_first(&self, count: usize, resolver: Resolver<'_>, id: i64) -> Result<ArrayData> {
        assert!(count <= self.links.len(), "{count} of {} links of dictionary {id}", self.links.len());
        let mut copies = StableCopies::default();
        let mut parts = Vec::new();
        for link in (0..count).filter_map(|i| self.links.get(i)) {
            let values = link.values(resolver, id)?.unchecked();
            let copy = copies.stable_copy(values).map_err(|e| e.context(format_args!("dictionary {id}")))?;
            parts.push(aligned(copy));
        }
        concat(&parts).map_err(|e| e.context(format_args!("dictionary {id}")))
    }
}

/// Concatenates checked arrays. They must be aligned, and in memory that no other process can change.
pub(super) fn concat(parts: &[ArrayData]) -> Result<ArrayData> {
    require_little_endian("putting deltas together")?;
    let all: Vec<&ArrayData> = parts.iter().collect();
    // There may be any number of values without bytes, and arrow-rs allocates a bit for each if one of them is null.
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
        whole
            .try_extend(number, 0, part.len())
            .map_err(|e| Error::unsupported(format!("putting deltas together: {e}")))?;
    }
    let whole = whole.freeze();
    assert_eq!(whole.len(), parts.iter().map(ArrayData::len).sum::<usize>(), "concatenation has lost or added values");
    Ok(whole)
}
