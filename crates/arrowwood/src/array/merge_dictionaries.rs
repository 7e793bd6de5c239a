//! Gathers dictionary-encoded rows of several arrays: their keys, and one merged dictionary.

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

/// Returns the keys of the rows, of type `index`, and their dictionary of `values`: the shared dictionary of the arrays
/// if they have one, otherwise the distinct values of the rows, or all values in their order if they are ordered.
pub(crate) fn keys(
    (index, values): (&DataType, &DataType),
    is_ordered: bool,
    from: &[&UncheckedArray],
    picks: &[Pick],
) -> Result<(Buffer, UncheckedArray)> {
    let width = key_width(index);
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
                merger.add_in_order()?;
            }
            merged((index, values), from, merger, picks)
        }
    }
}

/// Returns the dictionary of `array`.
pub(crate) fn dictionary_of(array: &UncheckedArray) -> Result<&UncheckedArray> {
    array.child_data().first().ok_or_else(|| Error::invalid("keys without a dictionary"))
}

fn merged(
    (index, values): (&DataType, &DataType),
    from: &[&UncheckedArray],
    mut merger: DictionaryMerger<'_>,
    picks: &[Pick],
) -> Result<(Buffer, UncheckedArray)> {
    let width = key_width(index);
    let capacity = key_capacity(index);
    let sources: Vec<_> = from.iter().map(Keys::new).collect();
    let dictionaries = merger.dictionaries;

    let mut keys = room_for((picks.len() * width) as u64, "bytes of keys")?;
    for &(array, row) in picks {
        let is_null = from[array as usize].is_null(row);
        let position = if is_null { 0 } else { merger.position(array, sources[array as usize].get(row))? };
        if position >= capacity {
            return Err(too_many_values());
        }
        keys.extend_from_slice(&position.to_le_bytes()[..width]);
    }
    assert_eq!(keys.len(), picks.len() * width, "each row has a key");

    if merger.origins.is_empty() && !picks.is_empty() {
        // Null rows have a key as well, which is valid if the dictionary has any value.
        let dictionary = match dictionaries.iter().find(|dictionary| !dictionary.is_empty()) {
            Some(dictionary) => (*dictionary).clone(),
            None => UncheckedArray::empty(values),
        };
        return Ok((Buffer::from_vec(keys), dictionary));
    }
    Ok((Buffer::from_vec(keys), gather(values, dictionaries, &merger.origins)?))
}

/// Appends the dictionaries in an array and its children.
pub(crate) fn collect_dictionaries<'a>(array: &'a ArrayData, into: &mut Vec<&'a ArrayData>) {
    match array.data_type() {
        DataType::Dictionary(..) => into.extend(array.child_data().first()),
        _ => array.child_data().iter().for_each(|child| collect_dictionaries(child, into)),
    }
}

/// Returns the number of different keys of the narrowest dictionary in a type.
pub(crate) fn min_key_capacity(data_type: &DataType) -> usize {
    use DataType::*;
    match data_type {
        Dictionary(index, values) => key_capacity(index).min(min_key_capacity(values)),
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => min_key_capacity(field.data_type()),
        FixedSizeList(field, _) | Map(field, _) | RunEndEncoded(_, field) => min_key_capacity(field.data_type()),
        Struct(fields) => fields.iter().map(|field| min_key_capacity(field.data_type())).min().unwrap_or(usize::MAX),
        Union(fields, _) => {
            fields.iter().map(|(_, field)| min_key_capacity(field.data_type())).min().unwrap_or(usize::MAX)
        }
        _ => usize::MAX,
    }
}

/// Returns the bytes of a key of type `index`; as many as the widest has for a type that has no keys.
fn key_width(index: &DataType) -> usize {
    index.primitive_width().unwrap_or(size_of::<u64>())
}

/// Returns the number of different keys of type `index`.
fn key_capacity(index: &DataType) -> usize {
    let bits = 8 * key_width(index) as u32 - u32::from(index.is_signed_integer());
    if bits >= 63 { usize::MAX } else { 1 << bits }
}

/// Returns true if dictionaries have at most `max_values` distinct values together.
pub(crate) fn has_at_most_distinct(dictionaries: &[&UncheckedArray], max_values: usize) -> Result<bool> {
    let mut merger = DictionaryMerger::new(dictionaries);
    for (number, dictionary) in dictionaries.iter().enumerate() {
        if merger.same_as[number] as usize != number {
            continue;
        }
        if has_no_bytes(dictionary) && dictionary.len() > max_values {
            // There may be too many to visit.
            return Ok(false);
        }
        for key in 0..dictionary.len() {
            merger.position(number as u32, Some(key))?;
            if merger.origins.len() > max_values {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns true if the values take no bytes: a file of any size may have any number of them.
fn has_no_bytes(dictionary: &UncheckedArray) -> bool {
    !has_bits(dictionary.data_type())
}

/// The ranks of the values of several ordered dictionaries of one column.
#[cfg(feature = "compute")]
#[derive(Debug)]
pub(crate) struct CategoryRanks {
    /// The rank of each value, by dictionary and key.
    pub ranks: Vec<Vec<usize>>,
    /// The dictionary and the key of the value of each rank.
    pub origins: Vec<Pick>,
}

#[cfg(feature = "compute")]
impl CategoryRanks {
    /// Ranks the values of all dictionaries.
    ///
    /// # Errors
    /// `InvalidArgument` if the dictionaries contradict each other.
    pub(crate) fn build(dictionaries: &[&UncheckedArray]) -> Result<CategoryRanks> {
        let mut merger = DictionaryMerger::new(dictionaries);
        merger.add_in_order()?;
        let ranks = merger.same_as.iter().map(|&number| merger.positions[number as usize].clone()).collect();
        Ok(CategoryRanks { ranks, origins: merger.origins })
    }
}

/// Checks that the values of an ordered dictionary have ascending positions in the merged one, except for repeated
/// ones.
#[derive(Debug, Default)]
pub(crate) struct CategoryOrder {
    positions: HashSet<u64>,
    last: Option<u64>,
}

impl CategoryOrder {
    /// Returns true if the next value may have this position.
    pub(crate) fn accepts(&mut self, position: u64) -> bool {
        !self.positions.insert(position) || self.last.replace(position).is_none_or(|last| last < position)
    }
}

/// The distinct values of several dictionaries.
///
/// A value is known by its dictionary and key, and has a position among the merged values. `positions` leads from one
/// to the other, `origins` back, and `by_bytes` finds equal values. Nulls and nested values are not compared: each of
/// them is a merged value of its own.
struct DictionaryMerger<'a> {
    dictionaries: &'a [&'a UncheckedArray],
    texts: Vec<Option<Texts<'a>>>,
    /// The first identical dictionary of each dictionary.
    same_as: Vec<u32>,
    /// The position of each value by dictionary and key, or `UNKNOWN`. Built on demand.
    positions: Vec<Vec<usize>>,
    /// The positions of values without bytes. There may be any number of such values.
    positions_without_bytes: HashMap<Pick, usize>,
    /// The dictionary and the key of each merged value, by position.
    origins: Vec<Pick>,
    /// The positions of merged values by their bytes.
    by_bytes: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

/// The position of a value that was not merged yet.
const UNKNOWN: usize = usize::MAX;

impl<'a> DictionaryMerger<'a> {
    fn new(dictionaries: &'a [&'a UncheckedArray]) -> DictionaryMerger<'a> {
        let mut first_at_address = HashMap::new();
        let mut same_as = Vec::with_capacity(dictionaries.len());
        for (number, array) in dictionaries.iter().enumerate() {
            let start = array.buffers().last().map_or(0, |buffer| buffer.as_ptr() as usize);
            let first = *first_at_address.entry((start, array.offset(), array.len())).or_insert(number as u32);
            same_as.push(if dictionaries[first as usize].is_same(array) { first } else { number as u32 });
        }
        DictionaryMerger {
            same_as,
            texts: dictionaries.iter().map(|array| Texts::try_new(array).ok()).collect(),
            dictionaries,
            positions: vec![Vec::new(); dictionaries.len()],
            positions_without_bytes: HashMap::new(),
            origins: Vec::new(),
            by_bytes: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Adds all values of ordered dictionaries in their common order: the values of the longest first. Shorter ones may
    /// add values after the values that they share.
    fn add_in_order(&mut self) -> Result<()> {
        let mut numbers: Vec<usize> = (0..self.dictionaries.len()).collect();
        // Values without bytes are all equal.
        numbers.retain(|&number| self.same_as[number] as usize == number && !has_no_bytes(self.dictionaries[number]));
        numbers.sort_by_key(|&number| Reverse(self.dictionaries[number].len()));
        for number in numbers {
            let mut order = CategoryOrder::default();
            for key in 0..self.dictionaries[number].len() {
                let position = self.position(number as u32, Some(key))?;
                let is_null = self.texts[number].is_some_and(|texts| texts.is_null(key));
                if !is_null && !order.accepts(position as u64) {
                    return Err(Error::invalid_argument(
                        "the ordered categories of its batches are in different orders; give all of them the same",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the position of key `key` of dictionary `number` in the merged one. Adds the value if it is new.
    fn position(&mut self, number: u32, key: Option<usize>) -> Result<usize> {
        let number = self.same_as[number as usize];
        let len = self.dictionaries[number as usize].len();
        let Some(key) = key.filter(|&key| key < len) else {
            return Err(Error::invalid(format!("a key outside of its dictionary of {len} values")));
        };
        if has_no_bytes(self.dictionaries[number as usize]) {
            if let Some(&position) = self.positions_without_bytes.get(&(number, key)) {
                return Ok(position);
            }
            let position = self.find_or_add(number, key)?;
            self.positions_without_bytes.insert((number, key), position);
            return Ok(position);
        }

        let positions = &mut self.positions[number as usize];
        if positions.is_empty() {
            positions.resize(len, UNKNOWN);
        }
        if positions[key] == UNKNOWN {
            let position = self.find_or_add(number, key)?;
            self.positions[number as usize][key] = position;
        }
        Ok(self.positions[number as usize][key])
    }

    /// Returns the position of an equal merged value, or adds the value.
    fn find_or_add(&mut self, number: u32, key: usize) -> Result<usize> {
        let new = self.origins.len();
        let Some(texts) = self.texts[number as usize].filter(|texts| !texts.is_null(key)) else {
            // Nulls and nested values are not compared.
            self.origins.push((number, key));
            return Ok(new);
        };

        let bytes = texts.get(key)?;
        let hash = self.hasher.hash_one(bytes);
        let equal =
            self.by_bytes.find(hash, |&position| merged_bytes(&self.texts, self.origins[position]) == Some(bytes));
        if let Some(&position) = equal {
            return Ok(position);
        }
        self.by_bytes.insert_unique(hash, new, |&position| {
            // A value whose bytes another process has damaged since is only found by chance.
            self.hasher.hash_one(merged_bytes(&self.texts, self.origins[position]).unwrap_or(&[]))
        });
        self.origins.push((number, key));
        Ok(new)
    }
}

/// Returns the bytes of a merged value by its origin; `None` if they can't be read any more.
fn merged_bytes<'a>(texts: &[Option<Texts<'a>>], (number, key): Pick) -> Option<&'a [u8]> {
    let texts = texts[number as usize].filter(|texts| !texts.is_null(key))?;
    texts.get(key).ok()
}
