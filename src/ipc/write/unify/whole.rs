//! One dictionary for a whole file, put together from those of its batches.
//!
//! Every value is looked at once, however many batches bring it: a dictionary known by its place in memory costs
//! nothing, one that has grown since costs its new values, and a copy of a known one a comparison of bytes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use arrow_data::ArrayData;

use super::canonical::{Budget, are_copies, place, spell};
use crate::array::Unchecked;
use crate::array::gather::{Pick, gather};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::Node;

/// The dictionaries met so far under one id, and what they are together.
#[derive(Debug)]
pub(super) struct Whole {
    sources: Vec<SourceDictionary>,
    by_place: HashMap<Box<[usize]>, usize>,
    /// Where each value of the whole is from. Empty while that is the first source, as it is.
    origins: Vec<Pick>,
    /// Hashes of spellings, and the value that each is of; the next free hash where two collide.
    known: HashMap<u64, usize>,
    hasher: RandomState,
    budget: Budget,
    /// The source that the whole has become; no value can be added any more.
    finished: Option<usize>,
}

/// A dictionary, as long as it was met.
#[derive(Debug)]
struct SourceDictionary {
    values: ArrayData,
    /// Where each value is in the whole; `None`: at its own place.
    places: Option<Arc<Vec<u64>>>,
}

impl Whole {
    pub(super) fn new() -> Whole {
        Whole {
            sources: Vec::new(),
            by_place: HashMap::new(),
            origins: Vec::new(),
            known: HashMap::new(),
            hasher: RandomState::new(),
            budget: Budget::new(),
            finished: None,
        }
    }

    /// The number of values, once several dictionaries had to become one.
    pub(super) fn merged_len(&self) -> Option<usize> {
        (!self.origins.is_empty()).then_some(self.origins.len())
    }

    /// The values all together, after `finish`.
    pub(super) fn values(&self) -> Result<&ArrayData> {
        let source = self.finished.and_then(|number| self.sources.get(number));
        source.map(|source| &source.values).ok_or_else(|| Error::invalid("a dictionary that no batch has brought"))
    }

    /// Where the values of `dictionary` are, which is added where it is new.
    pub(super) fn places(&mut self, dictionary: &ArrayData) -> Result<Option<&[u64]>> {
        let number = self.add(dictionary)?;
        Ok(self.sources[number].places.as_deref().map(Vec::as_slice))
    }

    fn add(&mut self, dictionary: &ArrayData) -> Result<usize> {
        let place = place(dictionary);
        if let Some(&number) = self.by_place.get(&place) {
            self.grow(number, dictionary)?;
            return Ok(number);
        }
        if self.finished.is_none() && self.sources.iter().all(|source| source.values.is_empty()) {
            self.sources.clear();
            self.by_place.clear();
        }
        let (number, values) = (self.sources.len(), dictionary.clone());
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
        self.by_place.insert(place, number);
        self.budget.grant(dictionary);
        if is_new {
            self.learn(number, 0)?;
        }
        Ok(number)
    }

    /// Takes in what source `number` has more of now than when it was met last.
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

    /// Lists the values of the first source, which are at their own places even where one is there twice.
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

    /// Finds the places of the values of source `number` from row `from` on, and adds those that are new.
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

    /// The place of a value, or the hash to keep it under. Values are compared, not only hashes, and spelled again for
    /// that: spellings of all values would take more memory than the values.
    fn find(&mut self, values: &ArrayData, row: usize) -> Result<(u64, Option<usize>)> {
        let (mut spelling, mut other) = (Vec::new(), Vec::new());
        spell(values, row, &mut spelling, &mut self.budget)?;
        let mut hash = self.hasher.hash_one(&spelling);
        while let Some(&place) = self.known.get(&hash) {
            let (number, row) = self.origins[place];
            other.clear();
            spell(&self.sources[number as usize].values, row, &mut other, &mut self.budget)?;
            if spelling == other {
                return Ok((hash, Some(place)));
            }
            hash = hash.wrapping_add(1);
        }
        Ok((hash, None))
    }

    /// Puts the values together, each source's as `renumber` has them: with the whole dictionaries inside, where there are
    /// some. No more is copied than was spelled, and so within the budget.
    pub(super) fn finish(&mut self, node: &Node, renumber: impl FnMut(&ArrayData) -> Result<Unchecked>) -> Result<()> {
        if self.sources.is_empty() || self.finished.is_some() {
            return Ok(());
        }
        if self.origins.is_empty() {
            self.finished = Some(0);
            return Ok(());
        }
        let sources = self.sources.iter().map(|source| &source.values).map(renumber).collect::<Result<Vec<_>>>()?;
        let from: Vec<&Unchecked> = sources.iter().collect();
        let values = gather(node.data_type(), &from, &self.origins)?.checked(&[])?;
        self.finished = Some(self.sources.len());
        self.by_place.insert(place(&values), self.sources.len());
        self.sources.push(SourceDictionary { values, places: None });
        Ok(())
    }
}
