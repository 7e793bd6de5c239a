//! Numbers for keys, in order of appearance.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

/// A key, comparable across dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::compute) enum Cell<'a> {
    Null,
    /// A number of up to 64 bits; floats as f64, with one zero and one NaN.
    Word(u64),
    Bytes(&'a [u8]),
}

/// Keys and their numbers, from 1.
#[derive(Debug, Default)]
pub(super) struct Interner<'a> {
    cells: Vec<Cell<'a>>,
    /// Words of a narrow range, if such are expected.
    dense: DenseWords,
    /// Words outside of it.
    words: Words<u64>,
    /// Text of up to 7 bytes, and of up to 15.
    short: Words<u64>,
    middle: Words<u128>,
    /// Other keys: cells stored beside their numbers, so that a lookup touches one place in memory.
    rest: HashTable<(Cell<'a>, u32)>,
    hasher: DefaultHashBuilder,
}

impl<'a> Interner<'a> {
    /// Before the first key: some `count` keys are expected, as many as there are where keys are alike.
    pub(super) fn reserve(&mut self, count: usize) {
        self.words.expected = count;
        self.short.expected = count;
        self.middle.expected = count;
        self.cells.reserve(count);
    }

    pub(super) fn into_cells(self) -> Vec<Cell<'a>> {
        self.cells
    }

    /// The number of `cell`.
    #[inline]
    pub(super) fn id(&mut self, cell: Cell<'a>) -> u32 {
        match cell {
            Cell::Word(word) => self.word(word),
            Cell::Bytes(bytes) => self.text(bytes),
            Cell::Null => self.other(cell),
        }
    }

    /// The number of `cell`, if it has one.
    pub(super) fn known(&self, cell: Cell<'a>) -> Option<u32> {
        match cell {
            Cell::Word(word) => match self.dense.numbers.get(self.dense.place(word)) {
                Some(&id) => Some(id).filter(|&id| id != 0),
                None => self.words.find(word, &self.hasher),
            },
            Cell::Bytes(bytes) => match bytes.len() {
                0..8 => self.short.find(packed_short(bytes), &self.hasher),
                8..16 => self.middle.find(packed_middle(bytes), &self.hasher),
                _ => self.other_known(cell),
            },
            Cell::Null => self.other_known(cell),
        }
    }

    #[inline(always)]
    pub(super) fn word(&mut self, word: u64) -> u32 {
        let Interner { dense, words, cells, hasher, .. } = self;
        let place = dense.place(word);
        match dense.numbers.get_mut(place) {
            Some(&mut 0) => {
                let id = next(cells, Cell::Word(word));
                dense.numbers[place] = id;
                id
            }
            Some(&mut id) => id,
            None => words.id(word, hasher, || next(cells, Cell::Word(word))),
        }
    }

    /// The numbers of words.
    #[inline]
    pub(super) fn all(&mut self, words: impl Iterator<Item = u64>, into: &mut [u32]) {
        if !self.dense.numbers.is_empty() {
            words.zip(into).for_each(|(word, into)| *into = self.word(word));
            return;
        }
        // Hashes first, so that many slots are looked for at the same time.
        let Interner { words: table, cells, hasher, .. } = self;
        let mut hashed = [(0, 0); 64];
        hashed.iter_mut().zip(words).for_each(|(into, word)| *into = (hasher.hash_one(word) as usize, word));
        for (&(hash, word), into) in hashed.iter().zip(into) {
            *into = table.id_at(hash, word, hasher, || next(cells, Cell::Word(word)));
        }
    }

    /// The number of a text in a view, which has up to 12 bytes, `bytes`.
    #[inline(always)]
    pub(super) fn inline(&mut self, view: u128, bytes: &'a [u8]) -> u32 {
        let len = view as u32;
        let word = view >> 32;
        if len < 8 {
            return self.short(word as u64 | (u64::from(len) + 1) << 56, bytes);
        }
        let Interner { middle, cells, hasher, .. } = self;
        middle.id(word | (u128::from(len) + 1) << 120, hasher, || next(cells, Cell::Bytes(bytes)))
    }

    /// The numbers of words of the expected range; false if one has none yet.
    #[inline]
    pub(super) fn look_up(&self, words: impl Iterator<Item = u64>, into: &mut [u32]) -> bool {
        let mut is_known = !self.dense.numbers.is_empty();
        if !is_known {
            return false;
        }
        for (into, word) in into.iter_mut().zip(words) {
            *into = self.dense.numbers.get(self.dense.place(word)).copied().unwrap_or(0);
            is_known &= *into != 0;
        }
        is_known
    }

    /// Before the first word: makes a table with a place for each word between the least and the greatest of some that are to
    /// come, as signed numbers, if it has at most `most` places. Any others may come too.
    pub(super) fn prepare(&mut self, words: impl Iterator<Item = u64>, most: usize) {
        if !self.dense.numbers.is_empty() || self.words.taken > 0 {
            return;
        }
        let range = words.fold(None, |range: Option<(i64, i64)>, word| {
            let number = word as i64;
            let (low, high) = range.unwrap_or((number, number));
            Some((low.min(number), high.max(number)))
        });
        let Some((low, high)) = range else { return };
        let width = high.wrapping_sub(low) as u64;
        if width < most as u64 {
            // Others may lie close by.
            let spare = width / 8;
            let base = (low as u64).wrapping_sub(spare);
            self.dense = DenseWords { base, numbers: vec![0; (width + 2 * spare) as usize + 1] };
        }
    }

    /// The number of text of up to 7 bytes, which are `word`.
    #[inline(always)]
    pub(super) fn short(&mut self, word: u64, bytes: &'a [u8]) -> u32 {
        let Interner { short, cells, hasher, .. } = self;
        short.id(word, hasher, || next(cells, Cell::Bytes(bytes)))
    }

    pub(super) fn text(&mut self, bytes: &'a [u8]) -> u32 {
        let Interner { middle, cells, hasher, .. } = self;
        match bytes.len() {
            0..8 => self.short(packed_short(bytes), bytes),
            8..16 => middle.id(packed_middle(bytes), hasher, || next(cells, Cell::Bytes(bytes))),
            _ => self.other(Cell::Bytes(bytes)),
        }
    }

    fn other_known(&self, cell: Cell<'a>) -> Option<u32> {
        let found = self.rest.find(self.hasher.hash_one(cell), |&(known, _)| known == cell);
        found.map(|&(_, id)| id)
    }

    fn other(&mut self, cell: Cell<'a>) -> u32 {
        if let Some(id) = self.other_known(cell) {
            return id;
        }
        let Interner { cells, rest, hasher, .. } = self;
        let id = next(cells, cell);
        rest.insert_unique(hasher.hash_one(cell), (cell, id), |(cell, _)| hasher.hash_one(cell));
        id
    }
}

/// The numbers of words of a narrow range, by their distance from its first; 0 for words without one.
#[derive(Debug, Default)]
struct DenseWords {
    base: u64,
    numbers: Vec<u32>,
}

impl DenseWords {
    #[inline(always)]
    fn place(&self, word: u64) -> usize {
        word.wrapping_sub(self.base) as usize
    }
}

fn next<'a>(cells: &mut Vec<Cell<'a>>, cell: Cell<'a>) -> u32 {
    cells.push(cell);
    cells.len() as u32
}

/// A hash table of keys and numbers with linear probing. At most half of the slots are taken, so that one probe is
/// nearly always enough, and probes of several rows overlap.
#[derive(Debug, Default)]
struct Words<W> {
    /// Number 0 marks an empty slot. The length is a power of two, or 0.
    places: Vec<(W, u32)>,
    taken: usize,
    /// How many are expected.
    expected: usize,
}

impl<W: Copy + Default + PartialEq + Hash> Words<W> {
    #[inline(always)]
    fn find(&self, word: W, hasher: &DefaultHashBuilder) -> Option<u32> {
        let mut at = hasher.hash_one(word) as usize;
        let mask = self.places.len().wrapping_sub(1);
        loop {
            match self.places.get(at & mask) {
                None | Some((_, 0)) => return None,
                Some(&(known, id)) if known == word => return Some(id),
                Some(_) => at = at.wrapping_add(1),
            }
        }
    }

    #[inline(always)]
    fn id(&mut self, word: W, hasher: &DefaultHashBuilder, new: impl FnOnce() -> u32) -> u32 {
        self.id_at(hasher.hash_one(word) as usize, word, hasher, new)
    }

    /// The number of `word`, whose hash is `at`.
    #[inline(always)]
    fn id_at(&mut self, mut at: usize, word: W, hasher: &DefaultHashBuilder, new: impl FnOnce() -> u32) -> u32 {
        if (self.taken + 1) * 2 > self.places.len() {
            self.grow(hasher);
        }
        let mask = self.places.len() - 1;
        loop {
            let slot = &mut self.places[at & mask];
            if slot.1 == 0 {
                *slot = (word, new());
                self.taken += 1;
                return slot.1;
            }
            if slot.0 == word {
                return slot.1;
            }
            at = at.wrapping_add(1);
        }
    }

    /// Makes space for twice as many, at first for as many as are expected.
    #[cold]
    fn grow(&mut self, hasher: &DefaultHashBuilder) {
        let first = (2 * self.expected + 2).next_power_of_two().max(64);
        let len = if self.places.is_empty() { first } else { self.places.len() * 2 };
        let before = std::mem::replace(&mut self.places, vec![Default::default(); len]);
        before.into_iter().filter(|(_, id)| *id != 0).for_each(|(word, id)| self.set(word, id, hasher));
    }

    fn set(&mut self, word: W, id: u32, hasher: &DefaultHashBuilder) {
        let mut at = hasher.hash_one(word) as usize;
        let mask = self.places.len() - 1;
        while self.places[at & mask].1 != 0 {
            at = at.wrapping_add(1);
        }
        self.places[at & mask] = (word, id);
    }
}

/// Up to 7 bytes and their number as one word. The loads of 2 and 4 bytes overlap if there are fewer than twice as
/// many.
#[inline(always)]
pub(super) fn packed_short(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let word = match len {
        0 => 0,
        1 => u64::from(bytes[0]),
        2 | 3 => ends::<2>(bytes, |raw| u16::from_le_bytes(raw).into()),
        _ => ends::<4>(bytes, |raw| u32::from_le_bytes(raw).into()),
    };
    word | (len as u64 + 1) << 56
}

/// The same for 8 to 15 bytes.
#[inline(always)]
pub(super) fn packed_middle(bytes: &[u8]) -> u128 {
    let (Some(low), Some(high)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) else { return 0 };
    let words = [low, high].map(|raw| u128::from(u64::from_le_bytes(*raw)));
    words[0] | words[1] << (8 * (bytes.len() - 8)) | (bytes.len() as u128 + 1) << 120
}

#[inline(always)]
fn ends<const N: usize>(bytes: &[u8], word: impl Fn([u8; N]) -> u64) -> u64 {
    let (Some(low), Some(high)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) else { return 0 };
    word(*low) | word(*high) << (8 * (bytes.len() - N))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_the_first_that_was_the_same(
            texts in prop::collection::vec(prop::collection::vec(0u8..3, 0..20), 0..300),
            words in prop::collection::vec(-20i64..50, 0..300),
            expected in 0usize..300,
            most in prop_oneof![Just(0), Just(1), Just(1usize << 20)],
            scale in prop_oneof![Just(1i64), Just(1 << 32), Just(1 << 60)],
        ) {
            let cells = texts.iter().map(|text| Cell::Bytes(text)).chain([Cell::Null]);
            let all: Vec<Cell<'_>> = cells.chain(words.iter().map(|&word| Cell::Word(word.wrapping_mul(scale) as u64))).collect();
            let (mut interner, mut naive) = (Interner::default(), HashMap::new());
            let of = |cell: &Cell<'_>| if let Cell::Word(word) = *cell { Some(word) } else { None };
            interner.prepare(all.iter().filter_map(of).skip(expected), most);
            for &cell in all.iter().chain(&all) {
                let next = naive.len() as u32 + 1;
                prop_assert_eq!(interner.known(cell), naive.get(&cell).copied());
                prop_assert_eq!(interner.id(cell), *naive.entry(cell).or_insert(next), "{:?}", cell);
            }
            for (number, cell) in interner.into_cells().into_iter().enumerate() {
                prop_assert_eq!(naive[&cell], number as u32 + 1);
            }
        }
    }
}
