//! Dictionary-encoded rows of several arrays: their keys, and one merged dictionary.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::access::{Keys, Texts};
use super::gather::{Pick, gather, gather_fixed, too_many_values};
use super::{UncheckedArray, room_for};
use crate::error::{Error, Result};
use crate::types::has_bits;

/// The rows' keys, of type `index`, and their dictionary of `values`: the arrays' own if they share one, else the rows'
/// distinct values, or all values in their order if they are ordered.
pub(crate) fn keys(
    (index, values): (&DataType, &DataType),
    is_ordered: bool,
    from: &[&UncheckedArray],
    picks: &[Pick],
) -> Result<(Buffer, UncheckedArray)> {
    let width = index.primitive_width().unwrap_or(8);
    let dictionaries = from.iter().map(|array| dictionary_of(array)).collect::<Result<Vec<_>>>()?;
    match dictionaries.first() {
        None => Ok((Buffer::default(), UncheckedArray::empty(values))),
        Some(first) if dictionaries.iter().all(|other| first.is_same(other)) => {
            let keys = match width {
                1 => gather_fixed::<1>(from, picks),
                2 => gather_fixed::<2>(from, picks),
                4 => gather_fixed::<4>(from, picks),
                _ => gather_fixed::<8>(from, picks),
            };
            Ok((keys?, (*first).clone()))
        }
        Some(_) => {
            let mut merger = DictionaryMerger::new(&dictionaries);
            if is_ordered {
                merger.place_in_order()?;
            }
            merged((index, values), from, merger, picks)
        }
    }
}

/// The dictionary of `array`.
pub(crate) fn dictionary_of(array: &UncheckedArray) -> Result<&UncheckedArray> {
    array.child_data().first().ok_or_else(|| Error::invalid("keys without a dictionary"))
}

fn merged(
    (index, values): (&DataType, &DataType),
    from: &[&UncheckedArray],
    mut merger: DictionaryMerger<'_>,
    picks: &[Pick],
) -> Result<(Buffer, UncheckedArray)> {
    let width = index.primitive_width().unwrap_or(8);
    let most = most_keys(index);
    let sources: Vec<_> = from.iter().map(Keys::new).collect();
    let dictionaries = merger.dictionaries;
    let mut keys = room_for((picks.len() * width) as u64, "bytes of keys")?;
    for &(array, row) in picks {
        let whole = from[array as usize];
        let place = if whole.is_null(row) { 0 } else { merger.place(array, sources[array as usize].get(row))? };
        if place >= most {
            return Err(too_many_values());
        }
        keys.extend_from_slice(&place.to_le_bytes()[..width]);
    }
    if merger.origins.is_empty() && !picks.is_empty() {
        // Null rows have a key as well, which is valid.
        return Ok((
            Buffer::from_vec(keys),
            dictionaries
                .iter()
                .find(|d| !d.is_empty())
                .map_or_else(|| UncheckedArray::empty(values), |dictionary| (*dictionary).clone()),
        ));
    }
    Ok((Buffer::from_vec(keys), gather(values, dictionaries, &merger.origins)?))
}

/// The dictionaries in an array and its children.
pub(crate) fn collect_dictionaries<'a>(array: &'a ArrayData, into: &mut Vec<&'a ArrayData>) {
    match array.data_type() {
        DataType::Dictionary(..) => into.extend(array.child_data().first()),
        _ => array.child_data().iter().for_each(|child| collect_dictionaries(child, into)),
    }
}

/// The number of keys of the narrowest dictionary in a type.
pub(crate) fn min_key_capacity(data_type: &DataType) -> usize {
    use DataType::*;
    match data_type {
        Dictionary(index, values) => most_keys(index).min(min_key_capacity(values)),
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => min_key_capacity(field.data_type()),
        FixedSizeList(field, _) | Map(field, _) | RunEndEncoded(_, field) => min_key_capacity(field.data_type()),
        Struct(fields) => fields.iter().map(|field| min_key_capacity(field.data_type())).min().unwrap_or(usize::MAX),
        Union(fields, _) => {
            fields.iter().map(|(_, field)| min_key_capacity(field.data_type())).min().unwrap_or(usize::MAX)
        }
        _ => usize::MAX,
    }
}

fn most_keys(index: &DataType) -> usize {
    let bits = 8 * index.primitive_width().unwrap_or(8) as u32 - u32::from(index.is_signed_integer());
    if bits >= 63 { usize::MAX } else { 1 << bits }
}

/// Whether dictionaries have at most `most` distinct values together.
pub(crate) fn has_at_most_distinct(dictionaries: &[&UncheckedArray], most: usize) -> Result<bool> {
    let mut merger = DictionaryMerger::new(dictionaries);
    for (number, dictionary) in dictionaries.iter().enumerate() {
        if merger.same_as[number] as usize != number {
            continue;
        }
        if is_hollow(dictionary) && dictionary.len() > most {
            // They may be too many to visit.
            return Ok(false);
        }
        for key in 0..dictionary.len() {
            merger.place(number as u32, Some(key))?;
            if merger.origins.len() > most {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether the values take no bytes: a file of any size may have any number of them.
fn is_hollow(dictionary: &UncheckedArray) -> bool {
    !has_bits(dictionary.data_type())
}

/// The rank of each value of several ordered dictionaries of one column.
#[cfg(feature = "compute")]
#[derive(Debug)]
pub(crate) struct CategoryRanks {
    /// By dictionary and key.
    pub ranks: Vec<Vec<usize>>,
    /// The dictionary and the key of the value of each rank.
    pub origins: Vec<Pick>,
}

#[cfg(feature = "compute")]
impl CategoryRanks {
    /// # Errors
    /// `InvalidArgument` if the dictionaries contradict each other.
    pub(crate) fn build(dictionaries: &[&UncheckedArray]) -> Result<CategoryRanks> {
        let mut merger = DictionaryMerger::new(dictionaries);
        merger.place_in_order()?;
        let same_as = std::mem::take(&mut merger.same_as);
        let ranks = same_as.iter().map(|&number| merger.places[number as usize].clone()).collect();
        Ok(CategoryRanks { ranks, origins: merger.origins })
    }
}

/// Checks that the values of an ordered dictionary have ascending places, but for those that come again.
#[derive(Debug, Default)]
pub(crate) struct CategoryOrder {
    met: HashSet<u64>,
    last: Option<u64>,
}

impl CategoryOrder {
    /// Whether the next value may have this place.
    pub(crate) fn accepts(&mut self, place: u64) -> bool {
        !self.met.insert(place) || self.last.replace(place).is_none_or(|last| last < place)
    }
}

/// The distinct values of several dictionaries.
struct DictionaryMerger<'a> {
    dictionaries: &'a [&'a UncheckedArray],
    texts: Vec<Option<Texts<'a>>>,
    /// For each dictionary, the first identical one.
    same_as: Vec<u32>,
    /// The index of each value met so far; `usize::MAX` for others. By dictionary, built on demand.
    places: Vec<Vec<usize>>,
    /// The same of values without bytes, of which there may be any number.
    hollow: HashMap<Pick, usize>,
    /// The origin of each value, in order.
    origins: Vec<Pick>,
    by_bytes: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl<'a> DictionaryMerger<'a> {
    fn new(dictionaries: &'a [&'a UncheckedArray]) -> DictionaryMerger<'a> {
        let mut first = HashMap::new();
        let address = |array: &UncheckedArray| {
            let start = array.buffers().last().map_or(0, |buffer| buffer.as_ptr() as usize);
            (start, array.offset(), array.len())
        };
        let same = |(number, array): (usize, &&UncheckedArray)| {
            let known = *first.entry(address(array)).or_insert(number as u32);
            if dictionaries[known as usize].is_same(array) { known } else { number as u32 }
        };
        DictionaryMerger {
            same_as: dictionaries.iter().enumerate().map(same).collect(),
            texts: dictionaries.iter().map(|array| Texts::try_new(array).ok()).collect(),
            dictionaries,
            places: vec![Vec::new(); dictionaries.len()],
            hollow: HashMap::new(),
            origins: Vec::new(),
            by_bytes: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Places all values of ordered dictionaries in their one order: those of the longest first; another one may add values
    /// behind those that it shares.
    fn place_in_order(&mut self) -> Result<()> {
        let mut numbers: Vec<usize> = (0..self.dictionaries.len()).collect();
        // Values without bytes are all equal.
        numbers.retain(|&number| self.same_as[number] as usize == number && !is_hollow(self.dictionaries[number]));
        numbers.sort_by_key(|&number| Reverse(self.dictionaries[number].len()));
        for number in numbers {
            let mut order = CategoryOrder::default();
            for key in 0..self.dictionaries[number].len() {
                let place = self.place(number as u32, Some(key))?;
                let is_null = self.texts[number].is_some_and(|texts| texts.is_null(key));
                if !is_null && !order.accepts(place as u64) {
                    return Err(Error::invalid_argument(
                        "the ordered categories of its batches are in different orders; give all of them the same",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The merged index of key `key` of dictionary `number`.
    fn place(&mut self, number: u32, key: Option<usize>) -> Result<usize> {
        let number = self.same_as[number as usize];
        let len = self.dictionaries[number as usize].len();
        let key = key.filter(|&key| key < len);
        let key = key.ok_or_else(|| Error::invalid(format!("a key outside of its dictionary of {len} values")))?;
        if is_hollow(self.dictionaries[number as usize]) {
            if let Some(&place) = self.hollow.get(&(number, key)) {
                return Ok(place);
            }
            let place = self.find(number, key)?;
            self.hollow.insert((number, key), place);
            return Ok(place);
        }
        let places = &mut self.places[number as usize];
        if places.is_empty() {
            places.resize(len, usize::MAX);
        }
        if places[key] == usize::MAX {
            let place = self.find(number, key)?;
            self.places[number as usize][key] = place;
        }
        Ok(self.places[number as usize][key])
    }

    fn find(&mut self, number: u32, key: usize) -> Result<usize> {
        let origins = &mut self.origins;
        let new = origins.len();
        let Some(texts) = self.texts[number as usize].filter(|texts| !texts.is_null(key)) else {
            // Nulls and nested values are not compared.
            origins.push((number, key));
            return Ok(new);
        };
        let bytes = texts.get(key)?;
        let of = |&place: &usize| {
            let (number, key) = origins[place];
            self.texts[number as usize].filter(|texts| !texts.is_null(key)).and_then(|texts| texts.get(key).ok())
        };
        let hash = self.hasher.hash_one(bytes);
        if let Some(&place) = self.by_bytes.find(hash, |place| of(place) == Some(bytes)) {
            return Ok(place);
        }
        let hasher = &self.hasher;
        self.by_bytes.insert_unique(hash, new, |place| hasher.hash_one(of(place).unwrap_or_default()));
        origins.push((number, key));
        Ok(new)
    }
}
