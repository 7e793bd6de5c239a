//! Merges the dictionaries of a file's batches into one.
//!
//! Every value is read once, however many batches have it: a dictionary at a known address costs nothing, one that has
//! grown costs its new values, and a copy of a known one costs a comparison of bytes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arrow_data::ArrayData;

use super::canonical::{Budget, are_copies, encode_value, identity};
use crate::array::UncheckedArray;
use crate::array::gather::{Pick, gather};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::Node;

/// The dictionaries found so far under one id, and their merged values.
#[derive(Debug)]
pub(super) struct MergedDictionary {
    sources: Vec<SourceDictionary>,
    by_identity: HashMap<Box<[usize]>, usize>,
    /// The source of each merged value. Empty as long as the first source is used as it is.
    origins: Vec<Pick>,
    /// Hashes of canonical encodings with the number of the value; on a collision the next free hash is used.
    known: HashMap<u64, usize>,
    hasher: RandomState,
    budget: Budget,
    /// The source of the merged values, once merging is finished; no value can be added then.
    finished: Option<usize>,
}

/// A dictionary, with the values found so far.
#[derive(Debug)]
struct SourceDictionary {
    values: ArrayData,
    /// The number of each value among the merged ones; `None` if it is its own.
    places: Option<Arc<Vec<u64>>>,
}

impl MergedDictionary {
    pub(super) fn new() -> MergedDictionary {
        MergedDictionary {
            sources: Vec::new(),
            by_identity: HashMap::new(),
            origins: Vec::new(),
            known: HashMap::new(),
            hasher: RandomState::new(),
            budget: Budget::new(),
            finished: None,
        }
    }

    /// Returns the number of merged values; `None` if there was nothing to merge.
    pub(super) fn merged_len(&self) -> Option<usize> {
        (!self.origins.is_empty()).then_some(self.origins.len())
    }

    /// Returns the merged values, after `finish`.
    pub(super) fn values(&self) -> Result<&ArrayData> {
        let source = self.finished.and_then(|number| self.sources.get(number));
        source.map(|source| &source.values).ok_or_else(|| Error::invalid("a dictionary that no batch has brought"))
    }

    /// Returns the numbers of the values of `dictionary` among the merged ones, and adds new values.
    pub(super) fn places(&mut self, dictionary: &ArrayData) -> Result<Option<&[u64]>> {
        let number = self.add(dictionary)?;
        Ok(self.sources[number].places.as_deref().map(Vec::as_slice))
    }

    fn add(&mut self, dictionary: &ArrayData) -> Result<usize> {
        let identity = identity(dictionary);
        if let Some(&number) = self.by_identity.get(&identity) {
            self.grow(number, dictionary)?;
            return Ok(number);
        }
        if self.finished.is_none() && self.sources.iter().all(|source| source.values.is_empty()) {
            self.sources.clear();
            self.by_identity.clear();
        }
        let number = self.sources.len();
        let values = dictionary.clone();
        let mut places = None;
        let mut is_new = false;
        if let (Some(first), Some(last)) = (self.sources.first(), self.sources.last()) {
            if dictionary.is_empty() {
                return Ok(0);
            }
            match [first, last].into_iter().find(|source| are_copies(&source.values, dictionary)) {
                Some(twin) => places = twin.places.clone(),
                None => (places, is_new) = (Some(Arc::default()), true),
            }
        }
        self.sources.push(SourceDictionary { values, places });
        self.by_identity.insert(identity, number);
        self.budget.grant(dictionary);
        if is_new {
            self.learn(number, 0)?;
        }
        Ok(number)
    }

    /// Adds the values that source `number` has gained since it was last seen.
    fn grow(&mut self, number: usize, dictionary: &ArrayData) -> Result<()> {
        let is_alone = self.sources.len() == 1;
        let source = &mut self.sources[number];
        let known = source.values.len();
        if dictionary.len() <= known {
            return Ok(());
        }
        if !is_alone {
            self.list_first()?;
        }
        let source = &mut self.sources[number];
        source.values = dictionary.clone();
        if is_alone {
            return Ok(());
        }
        source.places.get_or_insert_with(|| Arc::new((0..known as u64).collect()));
        self.learn(number, known)
    }

    /// Lists the values of the first source, which keep their numbers even if one occurs twice.
    fn list_first(&mut self) -> Result<()> {
        if !self.origins.is_empty() {
            return Ok(());
        }
        let values = self.sources[0].values.clone();
        self.budget.spend(values.len())?;
        for row in 0..values.len() {
            let (hash, found) = self.find(&values, row)?;
            if found.is_none() {
                self.known.insert(hash, row);
            }
            self.origins.push((0, row));
        }
        Ok(())
    }

    /// Finds the numbers of the values of source `number` from row `from` on, and adds new values.
    fn learn(&mut self, number: usize, from: usize) -> Result<()> {
        self.list_first()?;
        let values = self.sources[number].values.clone();
        let places = self.sources[number].places.take();
        let mut places = places.ok_or_else(|| Error::internal("a dictionary grows whose values have no places"))?;
        let list = Arc::make_mut(&mut places);
        debug_assert_eq!(list.len(), from, "the values before have places");
        let source = u32::try_from(number).map_err(|_| Error::unsupported("more than 2^32 dictionaries"))?;
        for row in from..values.len() {
            let (hash, found) = self.find(&values, row)?;
            list.push(match found {
                Some(place) => place as u64,
                None => self.append(hash, (source, row))?,
            });
        }
        self.sources[number].places = Some(places);
        Ok(())
    }

    fn append(&mut self, hash: u64, origin: Pick) -> Result<u64> {
        if self.finished.is_some() {
            return Err(Error::new(ErrorKind::FileChanged, "a dictionary has changed while it was written"));
        }
        let place = self.origins.len();
        self.origins.push(origin);
        self.known.insert(hash, place);
        Ok(place as u64)
    }

    /// Returns the number of a value, or the hash to store it under. Compares values, not only hashes, and encodes them
    /// again for that: the encodings of all values would take more memory than the values.
    fn find(&mut self, values: &ArrayData, row: usize) -> Result<(u64, Option<usize>)> {
        let mut encoding = Vec::new();
        let mut other = Vec::new();
        encode_value(values, row, &mut encoding, &mut self.budget)?;
        let mut hash = self.hasher.hash_one(&encoding);
        while let Some(&place) = self.known.get(&hash) {
            let (number, row) = self.origins[place];
            other.clear();
            encode_value(&self.sources[number as usize].values, row, &mut other, &mut self.budget)?;
            if encoding == other {
                return Ok((hash, Some(place)));
            }
            hash = hash.wrapping_add(1);
        }
        Ok((hash, None))
    }

    /// Merges the values; `renumber` maps each source's to the merged dictionaries inside. Copies no more than was
    /// encoded, which the budget limits.
    pub(super) fn finish(
        &mut self,
        node: &Node,
        renumber: impl FnMut(&ArrayData) -> Result<UncheckedArray>,
    ) -> Result<()> {
        if self.sources.is_empty() || self.finished.is_some() {
            return Ok(());
        }
        if self.origins.is_empty() {
            self.finished = Some(0);
            return Ok(());
        }
        let sources = self.sources.iter().map(|source| &source.values).map(renumber).collect::<Result<Vec<_>>>()?;
        let from: Vec<&UncheckedArray> = sources.iter().collect();
        let values = gather(node.data_type(), &from, &self.origins)?.checked(&[])?;
        self.finished = Some(self.sources.len());
        self.by_identity.insert(identity(&values), self.sources.len());
        self.sources.push(SourceDictionary { values, places: None });
        Ok(())
    }
}
