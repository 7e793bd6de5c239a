//! Numbers for keys, in order of appearance.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::array::access::short;

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
    /// Text of up to 15 bytes.
    short: Words<u128>,
    /// Other keys: cells stored beside their numbers, so that a lookup touches one place in memory.
    rest: HashTable<(Cell<'a>, u32)>,
    hasher: DefaultHashBuilder,
}

/// Keys whose numbers are looked up at a time.
pub(super) const AT_ONCE: usize = 64;

/// Memory of an interner, for the next one.
#[derive(Debug, Default)]
pub(super) struct InternerMemory {
    words: Words<u64>,
    short: Words<u128>,
}

impl<'a> Interner<'a> {
    /// Some `count` keys are expected, as many as there are where keys are alike.
    pub(super) fn expecting(count: usize, memory: &mut InternerMemory) -> Interner<'a> {
        Interner {
            cells: Vec::with_capacity(count),
            words: std::mem::take(&mut memory.words).emptied(count),
            short: std::mem::take(&mut memory.short).emptied(count),
            ..Interner::default()
        }
    }

    /// The keys in the order of their numbers; the memory of all else is left in `memory`.
    pub(super) fn into_cells(self, memory: &mut InternerMemory) -> Vec<Cell<'a>> {
        memory.words = self.words;
        memory.short = self.short;
        self.cells
    }

    /// The number of `cell`.
    #[inline]
    pub(super) fn id(&mut self, cell: Cell<'a>) -> u32 {
        match cell {
            Cell::Word(word) => self.word(word),
            Cell::Bytes(bytes) => self.text(packed(bytes), bytes),
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
            Cell::Bytes(bytes) => match packed(bytes) {
                LONG => self.other_known(cell),
                word => self.short.find(word, &self.hasher),
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

    /// The number of a text, which is `word` if it is short.
    #[inline(always)]
    pub(super) fn text(&mut self, word: u128, bytes: &'a [u8]) -> u32 {
        if word == LONG {
            return self.other(Cell::Bytes(bytes));
        }
        let Interner { short, cells, hasher, .. } = self;
        short.id(word, hasher, || next(cells, Cell::Bytes(bytes)))
    }

    /// Writes the numbers of words of which one is found at once, and returns a bit for each of these.
    #[inline]
    pub(super) fn look_up(&self, words: impl Iterator<Item = u64>, into: &mut [u32]) -> u64 {
        if self.dense.numbers.is_empty() {
            return self.words.look_up(words, into, &self.hasher);
        }
        let mut known = 0;
        for (number, (into, word)) in into.iter_mut().zip(words).enumerate() {
            *into = self.dense.numbers.get(self.dense.place(word)).copied().unwrap_or(0);
            known |= u64::from(*into != 0) << number;
        }
        known
    }

    /// The same of texts, as words.
    #[inline]
    pub(super) fn look_up_texts(&self, words: &[u128], into: &mut [u32]) -> u64 {
        self.short.look_up(words.iter().copied(), into, &self.hasher)
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

    fn other_known(&self, cell: Cell<'a>) -> Option<u32> {
        let found = self.rest.find(self.hasher.hash_one(cell), |&(known, _)| known == cell);
        found.map(|&(_, id)| id)
    }

    /// The number of null, or of a long text.
    pub(super) fn other(&mut self, cell: Cell<'a>) -> u32 {
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
    /// Half of the hash of a key, and its number; number 0 marks an empty slot. The length is a power of two, or 0.
    slots: Vec<(u32, u32)>,
    /// The key of each number; of numbers of other keys, any.
    keys: Vec<W>,
    taken: usize,
    /// How many are expected.
    expected: usize,
}

impl<W: Copy + Default + PartialEq + Hash> Words<W> {
    /// An empty table in the same memory.
    fn emptied(mut self, expected: usize) -> Words<W> {
        self.slots.clear();
        self.keys.clear();
        Words { taken: 0, expected, ..self }
    }

    #[inline(always)]
    fn find(&self, word: W, hasher: &DefaultHashBuilder) -> Option<u32> {
        let hash = hasher.hash_one(word) as u32;
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash as usize;
        loop {
            match self.slots.get(at & mask) {
                None | Some((_, 0)) => return None,
                Some(&(known, id)) if known == hash && self.is_key(id, word) => return Some(id),
                Some(_) => at = at.wrapping_add(1),
            }
        }
    }

    #[inline(always)]
    fn is_key(&self, id: u32, word: W) -> bool {
        self.keys.get(id as usize).is_some_and(|key| *key == word)
    }

    /// Writes the numbers of words that are in one of the first slots looked at; returns a bit for each of these. Without a
    /// branch, so that many slots are looked at at the same time.
    #[inline(always)]
    fn look_up(&self, words: impl Iterator<Item = W>, into: &mut [u32], hasher: &DefaultHashBuilder) -> u64 {
        /// How many. Few words are in another.
        const SLOTS: usize = 3;
        if self.slots.is_empty() {
            return 0;
        }
        let mut hashed = [(0, W::default()); AT_ONCE];
        hashed.iter_mut().zip(words).for_each(|(into, word)| *into = (hasher.hash_one(word) as u32, word));
        let mask = self.slots.len() - 1;
        let mut known = 0;
        for (number, (&(hash, word), into)) in hashed.iter().zip(into).enumerate() {
            let mut found = 0;
            for slot in 0..SLOTS {
                let (own, id) = self.slots[(hash as usize).wrapping_add(slot) & mask];
                found = if own == hash { id } else { found };
            }
            *into = found;
            // There is a key for number 0 too, which is that of no word.
            known |= u64::from((found != 0) & (self.keys[found as usize] == word)) << number;
        }
        known
    }

    #[inline(always)]
    fn id(&mut self, word: W, hasher: &DefaultHashBuilder, new: impl FnOnce() -> u32) -> u32 {
        if (self.taken + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let hash = hasher.hash_one(word) as u32;
        let mask = self.slots.len() - 1;
        let mut at = hash as usize;
        loop {
            let (known, id) = self.slots[at & mask];
            if id == 0 {
                let id = new();
                self.slots[at & mask] = (hash, id);
                self.keys.resize(id as usize, W::default());
                self.keys.push(word);
                self.taken += 1;
                return id;
            }
            if known == hash && self.is_key(id, word) {
                return id;
            }
            at = at.wrapping_add(1);
        }
    }

    /// Makes space for twice as many, at first for as many as are expected.
    #[cold]
    fn grow(&mut self) {
        if self.slots.is_empty() {
            let len = (2 * self.expected + 2).next_power_of_two().max(64);
            self.slots.resize(len, (0, 0));
            self.keys.reserve(self.expected + 1);
            self.keys.push(W::default());
            return;
        }
        let len = self.slots.len() * 2;
        let before = std::mem::replace(&mut self.slots, vec![(0, 0); len]);
        for (hash, id) in before.into_iter().filter(|(_, id)| *id != 0) {
            let mut at = hash as usize;
            while self.slots[at & (len - 1)].1 != 0 {
                at = at.wrapping_add(1);
            }
            self.slots[at & (len - 1)] = (hash, id);
        }
    }
}

/// What stands for texts that don't fit a word.
pub(super) const LONG: u128 = 0;

/// A text of up to 15 bytes and its length as one word; `LONG` for others.
#[inline]
pub(super) fn packed(bytes: &[u8]) -> u128 {
    let (len, word) = short(bytes);
    with_len(len, word)
}

/// The word of a text of `len` bytes, which are `bytes` if they are few.
#[inline(always)]
pub(super) fn with_len(len: usize, bytes: u128) -> u128 {
    if len < 16 { bytes | (len as u128 + 1) << 120 } else { LONG }
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
            used in any::<bool>(),
            most in prop_oneof![Just(0), Just(1), Just(1usize << 20)],
            scale in prop_oneof![Just(1i64), Just(1 << 32), Just(1 << 60)],
        ) {
            let cells = texts.iter().map(|text| Cell::Bytes(text)).chain([Cell::Null]);
            let all: Vec<Cell<'_>> = cells.chain(words.iter().map(|&word| Cell::Word(word.wrapping_mul(scale) as u64))).collect();
            let (mut memory, mut naive) = (InternerMemory::default(), HashMap::new());
            if used {
                let mut before = Interner::expecting(3, &mut memory);
                for &cell in all.iter().rev() {
                    before.id(cell);
                }
                before.into_cells(&mut memory);
            }
            let mut interner = Interner::expecting(expected, &mut memory);
            let of = |cell: &Cell<'_>| if let Cell::Word(word) = *cell { Some(word) } else { None };
            interner.prepare(all.iter().filter_map(of).skip(expected), most);
            for &cell in all.iter().chain(&all) {
                let next = naive.len() as u32 + 1;
                prop_assert_eq!(interner.known(cell), naive.get(&cell).copied());
                prop_assert_eq!(interner.id(cell), *naive.entry(cell).or_insert(next), "{:?}", cell);
            }
            for some in all.chunks(AT_ONCE) {
                let words: Vec<u64> = some.iter().map(|cell| of(cell).unwrap_or(1 << 40)).collect();
                let texts: Vec<u128> = some.iter().map(|cell| if let Cell::Bytes(bytes) = cell { packed(bytes) } else { LONG }).collect();
                let (mut into, mut texts_into) = (vec![0; some.len()], vec![0; some.len()]);
                let known = interner.look_up(words.iter().copied(), &mut into);
                let texts_known = interner.look_up_texts(&texts, &mut texts_into);
                for (number, cell) in some.iter().enumerate() {
                    let (bit, text_bit) = (known >> number & 1, texts_known >> number & 1);
                    prop_assert!(bit == 0 || naive[&Cell::Word(words[number])] == into[number]);
                    prop_assert!(text_bit == 0 || naive[cell] == texts_into[number]);
                }
            }
            for (number, cell) in interner.into_cells(&mut memory).into_iter().enumerate() {
                prop_assert_eq!(naive[&cell], number as u32 + 1);
            }
        }
    }
}
