//! The values of a growing dictionary, in memory, and the key of each.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Texts without duplicates, numbered as they came.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    text: Vec<u8>,
    /// Where each text ends.
    ends: Vec<u32>,
    keys: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Entries {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of the first `entries` texts.
    pub fn bytes(&self, entries: usize) -> u64 {
        entries.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |&end| end.into())
    }

    /// The texts of `entries` one behind the other, and where each ends.
    pub fn part(&self, entries: Range<usize>) -> (&[u8], &[u32]) {
        let text = self.bytes(entries.start) as usize..self.bytes(entries.end) as usize;
        (&self.text[text], &self.ends[entries])
    }

    /// The key of `text`, which is added if it is new; `None` when there is no room for more.
    pub fn key(&mut self, text: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(text);
        if let Some(&key) = self.keys.find(hash, |&key| at(&self.text, &self.ends, key) == text) {
            return Some(key);
        }
        let end = i32::try_from(self.text.len().checked_add(text.len())?).ok()?;
        let key = i32::try_from(self.ends.len()).ok()? as u32;
        self.text.extend_from_slice(text);
        self.ends.push(end as u32);
        let (texts, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.keys.insert_unique(hash, key, |&key| hasher.hash_one(at(texts, ends, key)));
        Some(key)
    }

    /// Forgets all but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        while self.ends.len() > len {
            let key = (self.ends.len() - 1) as u32;
            let hash = self.hasher.hash_one(at(&self.text, &self.ends, key));
            if let Ok(found) = self.keys.find_entry(hash, |&other| other == key) {
                found.remove();
            }
            self.ends.pop();
            self.text.truncate(self.ends.last().map_or(0, |&end| end as usize));
        }
    }
}

fn at<'a>(text: &'a [u8], ends: &[u32], key: u32) -> &'a [u8] {
    let end = |key: u32| ends.get(key as usize).map_or(0, |&end| end as usize);
    text.get(key.checked_sub(1).map_or(0, end)..end(key)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::entries::Entries;

    #[test]
    fn keys_are_numbers_in_the_order_of_arrival() {
        let mut entries = Entries::default();
        let text = |i: usize| format!("{}", i % 1000).into_bytes();
        let keys: Vec<_> = (0..5000).map(|i| entries.key(&text(i)).unwrap() as usize).collect();
        assert!(keys.iter().enumerate().all(|(i, &key)| key == i % 1000));
        entries.truncate(10);
        assert_eq!(
            (entries.len(), entries.bytes(10), entries.key(b"9"), entries.key(b"77")),
            (10, 10, Some(9), Some(10))
        );
        assert_eq!(entries.part(9..11), (&b"977"[..], &[10, 12][..]));
    }
}
