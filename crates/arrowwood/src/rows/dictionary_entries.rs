//! The values of a growing dictionary, in memory, with a hash table to find their keys.

use std::hash::BuildHasher;
use std::ops::Range;

use arrow_schema::DataType;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::{Error, Result};
use crate::types::layout;

/// Distinct texts, or values as bytes, numbered in the order of their arrival: their numbers are their keys.
#[derive(Debug)]
pub(crate) struct DictionaryEntries {
    /// The texts, one after the other.
    text: Vec<u8>,
    /// The end of each text in `text`.
    ends: Vec<u32>,
    /// The keys of all texts, each where the hash of its text is.
    keys: HashTable<u32>,
    hasher: DefaultHashBuilder,
    max_entries: u64,
}

impl DictionaryEntries {
    /// Creates an empty dictionary with at most `max_entries` entries.
    pub fn new(max_entries: u64) -> DictionaryEntries {
        DictionaryEntries {
            text: Vec::new(),
            ends: Vec::new(),
            keys: HashTable::default(),
            hasher: DefaultHashBuilder::default(),
            max_entries,
        }
    }

    /// Returns the error for a value for which no key is left.
    pub fn full_error(&self) -> Error {
        Error::unsupported(format!(
            "the dictionary is full: it has {} values of {} at most, in 2^31 bytes at most; make the table with a \
             wider type of keys, or without a dictionary",
            self.ends.len(),
            self.max_entries
        ))
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the total length of the first `entries` texts, or of all texts if there are fewer.
    pub fn bytes(&self, entries: usize) -> u64 {
        let ends = &self.ends[..entries.min(self.ends.len())];
        ends.last().map_or(0, |&end| end.into())
    }

    /// Returns the concatenated texts of `entries`, and the end of each; `None` if there are fewer.
    pub fn part(&self, entries: Range<usize>) -> Option<(&[u8], &[u32])> {
        let ends = self.ends.get(entries.clone())?;
        let text = self.text.get(self.bytes(entries.start) as usize..self.bytes(entries.end) as usize)?;
        Some((text, ends))
    }

    /// Returns the key of `text`, which is added if it is new; `None` if the dictionary is full.
    pub fn key(&mut self, text: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(text);
        if let Some(&key) = self.keys.find(hash, |&key| entry_text(&self.text, &self.ends, key) == Some(text)) {
            return Some(key);
        }
        let end = i32::try_from(self.text.len().checked_add(text.len())?).ok()?;
        let key = i32::try_from(self.ends.len()).ok().filter(|&key| (key as u64) < self.max_entries)? as u32;
        self.text.extend_from_slice(text);
        self.ends.push(end as u32);
        let DictionaryEntries { text: all_text, ends, keys, hasher, .. } = self;
        keys.insert_unique(hash, key, |&key| {
            let text = entry_text(all_text, ends, key);
            debug_assert!(text.is_some(), "key {key} has a text");
            // No lookup finds a key without a text, whatever its hash.
            text.map_or(0, |text| hasher.hash_one(text))
        });
        Some(key)
    }

    /// Adds any value that a field of type `data_type` may have: empty text, or zeros.
    pub fn add_any(&mut self, data_type: &DataType) -> Result<()> {
        let values = match data_type {
            DataType::Dictionary(_, values) => values,
            other => other,
        };
        // The empty text has no bytes.
        let value = layout(values).plain_width().map_or_else(Vec::new, |width| vec![0; width]);
        self.key(&value).map(drop).ok_or_else(|| self.full_error())
    }

    /// Removes all texts but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        while self.ends.len() > len {
            let key = (self.ends.len() - 1) as u32;
            let hash = entry_text(&self.text, &self.ends, key).map(|text| self.hasher.hash_one(text));
            let is_removed = hash.is_some_and(|hash| {
                let found = self.keys.find_entry(hash, |&other| other == key);
                found.map(|found| found.remove()).is_ok()
            });
            debug_assert!(is_removed, "key {key} is where the hash of its text is");
            if !is_removed {
                // No key may outlive its text.
                self.keys.retain(|&mut other| other != key);
            }
            self.ends.pop();
            self.text.truncate(self.ends.last().map_or(0, |&end| end as usize));
        }
    }
}

/// Returns the text of `key`.
fn entry_text<'a>(text: &'a [u8], ends: &[u32], key: u32) -> Option<&'a [u8]> {
    let end = *ends.get(key as usize)? as usize;
    let start = match key.checked_sub(1) {
        Some(before) => *ends.get(before as usize)? as usize,
        None => 0,
    };
    text.get(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_assigned_in_order_of_arrival() {
        let mut entries = DictionaryEntries::new(1 << 31);
        let text = |i: usize| format!("{}", i % 1000).into_bytes();
        let keys: Vec<_> = (0..5000).map(|i| entries.key(&text(i)).unwrap() as usize).collect();
        assert!(keys.iter().enumerate().all(|(i, &key)| key == i % 1000));
        entries.truncate(10);
        assert_eq!(entries.len(), 10);
        assert_eq!(entries.bytes(10), 10);
        assert_eq!(entries.key(b"9"), Some(9));
        assert_eq!(entries.key(b"77"), Some(10), "its former key was removed");
        assert_eq!(entries.part(9..11), Some((&b"977"[..], &[10, 12][..])));
        assert_eq!(entries.part(9..12), None);
    }

    #[test]
    fn full_dictionaries_still_find_their_entries() {
        let mut few = DictionaryEntries::new(2);
        for (text, key) in [("a", Some(0)), ("b", Some(1)), ("c", None), ("a", Some(0))] {
            assert_eq!(few.key(text.as_bytes()), key, "{text}");
        }
    }
}
