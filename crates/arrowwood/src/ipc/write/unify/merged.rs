//! Merges the dictionaries of a file's batches into one.
//!
//! Every value is read once, however many batches have it: a dictionary at a known address costs nothing, a dictionary
//! that has grown costs its new values, and a copy of a known one costs a comparison of bytes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arrow_data::ArrayData;

use super::canonical::{Budget, are_copies, encode_value, identity};
use crate::array::UncheckedArray;
use crate::array::gather::{Pick, gather};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::Node;

/// Merges the dictionaries of one id.
///
/// The caller adds the dictionaries of all rows with `positions`, calls `finish` once, and then asks for the `values`,
/// and for the `positions` of each dictionary again, to rewrite keys. As long as there is only one dictionary, growing
/// or not, nothing is merged: its values are the merged ones. The second one makes the values of the first into the
/// first merged values, in their order.
#[derive(Debug)]
pub(super) struct MergedDictionary {
    sources: Vec<SourceDictionary>,
    /// The number of each source by its [`identity`].
    by_identity: HashMap<Box<[usize]>, usize>,
    /// The source of each merged value. Empty while the first source is used unchanged.
    origins: Vec<Pick>,
    /// The position of each merged value by the hash of its canonical encoding; on a collision the next free hash is
    /// used.
    by_hash: HashMap<u64, usize>,
    hasher: RandomState,
    budget: Budget,
    /// The source of the merged values, once merging is finished; no value can be added then.
    finished: Option<usize>,
}

/// A dictionary with its known values.
#[derive(Debug)]
struct SourceDictionary {
    values: ArrayData,
    /// The position of each value among the merged ones; `None` if value `i` is merged value `i`.
    positions: Option<Arc<Vec<u64>>>,
}

impl MergedDictionary {
    pub(super) fn new() -> MergedDictionary {
        MergedDictionary {
            sources: Vec::new(),
            by_identity: HashMap::new(),
            origins: Vec::new(),
            by_hash: HashMap::new(),
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

    /// Returns the positions of the values of `dictionary` among the merged ones, and adds new values. Returns `None`
    /// if value `i` is merged value `i`, so that keys stay as they are.
    pub(super) fn positions(&mut self, dictionary: &ArrayData) -> Result<Option<&[u64]>> {
        let number = self.add(dictionary)?;
        Ok(self.sources[number].positions.as_deref().map(Vec::as_slice))
    }

    /// Adds a dictionary and its new values. Returns its number.
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
        let mut positions = None;
        let mut is_new = false;
        if let (Some(first), Some(last)) = (self.sources.first(), self.sources.last()) {
            if dictionary.is_empty() {
                return Ok(0);
            }
            match [first, last].into_iter().find(|source| are_copies(&source.values, dictionary)) {
                Some(copy) => positions = copy.positions.clone(),
                None => {
                    positions = Some(Arc::default());
                    is_new = true;
                }
            }
        }
        self.sources.push(SourceDictionary { values, positions });
        self.by_identity.insert(identity, number);
        self.budget.grant(dictionary);
        if is_new {
            self.add_values(number, 0)?;
        }
        Ok(number)
    }

    /// Adds the values that source `number` has gained since the last time.
    fn grow(&mut self, number: usize, dictionary: &ArrayData) -> Result<()> {
        let len_before = self.sources[number].values.len();
        if dictionary.len() <= len_before {
            return Ok(());
        }
        if self.sources.len() == 1 {
            self.sources[number].values = dictionary.clone();
            return Ok(());
        }
        self.list_first()?;
        let source = &mut self.sources[number];
        source.values = dictionary.clone();
        source.positions.get_or_insert_with(|| Arc::new((0..len_before as u64).collect()));
        self.add_values(number, len_before)
    }

    /// Lists the values of the first source, which keep their positions even if one occurs twice.
    fn list_first(&mut self) -> Result<()> {
        if !self.origins.is_empty() {
            return Ok(());
        }
        let values = self.sources[0].values.clone();
        self.budget.spend(values.len())?;
        for row in 0..values.len() {
            let (hash, position) = self.find(&values, row)?;
            if position.is_none() {
                self.by_hash.insert(hash, row);
            }
            self.origins.push((0, row));
        }
        Ok(())
    }

    /// Finds the positions of the values of source `number` from row `from` on, and adds new values.
    fn add_values(&mut self, number: usize, from: usize) -> Result<()> {
        self.list_first()?;
        let values = self.sources[number].values.clone();
        let Some(mut positions) = self.sources[number].positions.take() else {
            return Err(Error::internal("a dictionary grows whose values have no positions"));
        };
        let list = Arc::make_mut(&mut positions);
        assert_eq!(list.len(), from, "the values before row {from} have no positions");
        let source = u32::try_from(number).map_err(|_| Error::unsupported("more than 2^32 dictionaries"))?;
        for row in from..values.len() {
            let (hash, position) = self.find(&values, row)?;
            list.push(match position {
                Some(position) => position as u64,
                None => self.append(hash, (source, row))?,
            });
        }
        self.sources[number].positions = Some(positions);
        Ok(())
    }

    fn append(&mut self, hash: u64, origin: Pick) -> Result<u64> {
        if self.finished.is_some() {
            return Err(Error::new(ErrorKind::FileChanged, "a dictionary has changed while it was written"));
        }
        let position = self.origins.len();
        self.origins.push(origin);
        let replaced = self.by_hash.insert(hash, position);
        assert!(replaced.is_none(), "two merged values have one hash");
        Ok(position as u64)
    }

    /// Returns the position of a value, or the hash to store it under. Compares values, not only hashes, and encodes
    /// them again for it: the encodings of all values would take more memory than the values.
    fn find(&mut self, values: &ArrayData, row: usize) -> Result<(u64, Option<usize>)> {
        let mut encoding = Vec::new();
        let mut other = Vec::new();
        encode_value(values, row, &mut encoding, &mut self.budget)?;
        let mut hash = self.hasher.hash_one(&encoding);
        while let Some(&position) = self.by_hash.get(&hash) {
            let (number, row) = self.origins[position];
            other.clear();
            encode_value(&self.sources[number as usize].values, row, &mut other, &mut self.budget)?;
            if encoding == other {
                return Ok((hash, Some(position)));
            }
            hash = hash.wrapping_add(1);
        }
        Ok((hash, None))
    }

    /// Merges the values; `renumber` maps the keys inside of a source's values to the merged inner dictionaries. Copies
    /// no more bytes than were encoded, which the budget limits.
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
        assert_eq!(values.len(), self.origins.len(), "merging has lost or added values");
        self.finished = Some(self.sources.len());
        self.by_identity.insert(identity(&values), self.sources.len());
        self.sources.push(SourceDictionary { values, positions: None });
        Ok(())
    }
}
