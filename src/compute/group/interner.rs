//! Numbers for keys, in order of appearance.

use std::hash::BuildHasher;
use std::mem::take;

use hashbrown::{DefaultHashBuilder, HashTable};
use multiversion::multiversion;

use crate::array::access::short;
use crate::compute::select::pack_bits;

/// A key, comparable across dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::compute) enum KeyPart<'a> {
    Null,
    /// A number of up to 64 bits; floats as f64, with one zero and one NaN.
    Word(u64),
    Bytes(&'a [u8]),
}

/// Keys and their numbers, from 1.
#[derive(Debug, Default)]
pub(super) struct Interner<'a> {
    cells: Vec<KeyPart<'a>>,
    /// Words of a narrow range, if such are expected.
    dense: DenseWords,
    /// Words outside of it.
    words: WordMap<1>,
    /// Text of up to 15 bytes.
    short: WordMap<2>,
    /// Other keys: cells stored beside their numbers, so that a lookup touches one place in memory.
    rest: HashTable<(KeyPart<'a>, u32)>,
    hasher: DefaultHashBuilder,
}

/// Keys whose numbers are looked up at a time.
pub(super) const AT_ONCE: usize = 64;

/// Memory of an interner, for the next one.
#[derive(Debug, Default)]
pub(super) struct InternerScratch {
    words: WordMap<1>,
    short: WordMap<2>,
}

impl<'a> Interner<'a> {
    /// Some `count` keys are expected, as many as there are where keys are alike.
    pub(super) fn expecting(count: usize, memory: &mut InternerScratch) -> Interner<'a> {
        Interner {
            cells: Vec::with_capacity(count),
            words: take(&mut memory.words).emptied(count),
            short: take(&mut memory.short).emptied(count),
            ..Interner::default()
        }
    }

    /// The keys in the order of their numbers; the memory of all else is left in `memory`.
    pub(super) fn into_cells(self, memory: &mut InternerScratch) -> Vec<KeyPart<'a>> {
        memory.words = self.words;
        memory.short = self.short;
        self.cells
    }

    /// The number of `cell`.
    #[inline]
    pub(super) fn id(&mut self, cell: KeyPart<'a>) -> u32 {
        match cell {
            KeyPart::Word(word) => self.word(word),
            KeyPart::Bytes(bytes) => self.text(packed(bytes), bytes),
            KeyPart::Null => self.other(cell),
        }
    }

    /// The number of `cell`, if it has one.
    pub(super) fn known(&self, cell: KeyPart<'a>) -> Option<u32> {
        match cell {
            KeyPart::Word(word) => match self.dense.numbers.get(self.dense.place(word)) {
                Some(&id) => Some(id).filter(|&id| id != 0),
                None => self.words.find([word]),
            },
            KeyPart::Bytes(bytes) => match packed(bytes) {
                LONG => self.other_known(cell),
                word => self.short.find(halves(word)),
            },
            KeyPart::Null => self.other_known(cell),
        }
    }

    #[inline(always)]
    pub(super) fn word(&mut self, word: u64) -> u32 {
        let Interner { dense, words, cells, .. } = self;
        let place = dense.place(word);
        match dense.numbers.get_mut(place) {
            Some(&mut 0) => {
                let id = next(cells, KeyPart::Word(word));
                dense.numbers[place] = id;
                id
            }
            Some(&mut id) => id,
            None => words.id([word], || next(cells, KeyPart::Word(word))),
        }
    }

    /// The number of a text, which is `word` if it is short.
    #[inline(always)]
    pub(super) fn text(&mut self, word: u128, bytes: &'a [u8]) -> u32 {
        if word == LONG {
            return self.other(KeyPart::Bytes(bytes));
        }
        let Interner { short, cells, .. } = self;
        short.id(halves(word), || next(cells, KeyPart::Bytes(bytes)))
    }

    /// Writes the numbers of words of which one is found at once, and returns a bit for each of these.
    #[inline]
    pub(super) fn look_up(&self, words: impl Iterator<Item = u64>, into: &mut [u32; AT_ONCE]) -> u64 {
        if self.dense.numbers.is_empty() {
            let mut all = [[0]; AT_ONCE];
            all.iter_mut().zip(words).for_each(|(into, word)| *into = [word]);
            return look_up_words(&self.words, &all, into);
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
    pub(super) fn look_up_texts(&self, words: &[u128; AT_ONCE], into: &mut [u32; AT_ONCE]) -> u64 {
        look_up_texts(&self.short, &words.map(halves), into)
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

    fn other_known(&self, cell: KeyPart<'a>) -> Option<u32> {
        let found = self.rest.find(self.hasher.hash_one(cell), |&(known, _)| known == cell);
        found.map(|&(_, id)| id)
    }

    /// The number of null, or of a long text.
    pub(super) fn other(&mut self, cell: KeyPart<'a>) -> u32 {
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

fn next<'a>(cells: &mut Vec<KeyPart<'a>>, cell: KeyPart<'a>) -> u32 {
    cells.push(cell);
    cells.len() as u32
}

/// Slots that are looked at together.
const WINDOW: usize = 8;
/// The most slots that keys lie behind their first ones, on average: half a slot where these are random.
const MOST_BEHIND: usize = 4;

/// A hash table of keys of `N` words and their numbers, with linear probing. At most half of the slots are taken, so that a
/// key is nearly always in one of the first slots looked at.
#[derive(Debug)]
struct WordMap<const N: usize> {
    /// Each word of the key in each slot. There is a power of two of slots, or none; then come the first ones again, so that
    /// `WINDOW` of them are neighbours from each one on.
    keys: [Vec<u64>; N],
    /// Their numbers; 0 marks an empty slot.
    ids: Vec<u32>,
    /// What words are multiplied with, other factors in each table: nobody can know which keys have one hash.
    factors: [u64; N],
    /// The bits of a hash that are not those of a slot.
    shift: u32,
    taken: usize,
    /// How many slots behind their first ones keys were put since the factors were drawn.
    behind: usize,
    /// How many are expected.
    expected: usize,
}

impl<const N: usize> Default for WordMap<N> {
    fn default() -> WordMap<N> {
        let keys = std::array::from_fn(|_| Vec::new());
        WordMap { keys, ids: Vec::new(), factors: factors(), shift: 0, taken: 0, behind: 0, expected: 0 }
    }
}

/// Odd numbers that nobody knows.
fn factors<const N: usize>() -> [u64; N] {
    let hasher = DefaultHashBuilder::default();
    std::array::from_fn(|word| hasher.hash_one(word) | 1)
}

impl<const N: usize> WordMap<N> {
    /// An empty table in the same memory.
    fn emptied(mut self, expected: usize) -> WordMap<N> {
        self.keys.iter_mut().for_each(Vec::clear);
        self.ids.clear();
        WordMap { taken: 0, behind: 0, expected, ..self }
    }

    /// The number of slots.
    #[inline(always)]
    fn len(&self) -> usize {
        self.ids.len().saturating_sub(WINDOW)
    }

    /// The first slot for a key: the upper bits of products, as they depend on all bits of the words.
    #[inline(always)]
    fn first(&self, key: [u64; N]) -> usize {
        let hash = (0..N).fold(0u64, |hash, word| hash.wrapping_add(key[word].wrapping_mul(self.factors[word])));
        (hash >> self.shift) as usize
    }

    /// The slot with a key, or the empty one where it belongs. There is one: at most half of the slots are taken.
    #[inline(always)]
    fn slot(&self, key: [u64; N]) -> usize {
        let mut slot = self.first(key);
        while self.ids[slot] != 0 && (0..N).any(|word| self.keys[word][slot] != key[word]) {
            slot = (slot + 1) & (self.len() - 1);
        }
        slot
    }

    fn put(&mut self, slot: usize, key: [u64; N], id: u32) {
        for slot in [slot, slot + self.len()].into_iter().take(1 + usize::from(slot < WINDOW)) {
            self.ids[slot] = id;
            (0..N).for_each(|word| self.keys[word][slot] = key[word]);
        }
    }

    #[inline(always)]
    fn find(&self, key: [u64; N]) -> Option<u32> {
        if self.taken == 0 {
            return None;
        }
        Some(self.ids[self.slot(key)]).filter(|&id| id != 0)
    }

    /// Writes the numbers of keys that are in one of the first slots looked at; returns a bit for each of these. Without a
    /// branch, so that many slots are looked at at the same time.
    #[inline(always)]
    fn look_up(&self, keys: &[[u64; N]; AT_ONCE], into: &mut [u32; AT_ONCE]) -> u64 {
        if self.taken == 0 {
            return 0;
        }
        let first = keys.map(|key| self.first(key) as u32);
        for ((key, &first), into) in keys.iter().zip(&first).zip(&mut *into) {
            let first = first as usize;
            let Some(ids) = self.ids.get(first..).and_then(|ids| ids.first_chunk::<WINDOW>()) else { continue };
            let mut equal = [u32::MAX; WINDOW];
            for (known, word) in self.keys.iter().zip(key) {
                let known = known.get(first..).and_then(|known| known.first_chunk::<WINDOW>());
                let Some(known) = known else { continue };
                for (equal, known) in equal.iter_mut().zip(known) {
                    *equal &= if known == word { u32::MAX } else { 0 };
                }
            }
            // At most one of them has a number: the key of an empty slot, which may be equal too, has number 0.
            *into = (0..WINDOW).fold(0, |id, slot| id | ids[slot] & equal[slot]);
        }
        pack_bits(&into.map(|id| u8::from(id != 0)))
    }

    #[inline(always)]
    fn id(&mut self, key: [u64; N], new: impl FnOnce() -> u32) -> u32 {
        if (self.taken + 1) * 2 > self.len() {
            self.grow();
        }
        let slot = self.slot(key);
        if self.ids[slot] != 0 {
            return self.ids[slot];
        }
        let id = new();
        self.put(slot, key, id);
        self.taken += 1;
        self.behind += slot.wrapping_sub(self.first(key)) & (self.len() - 1);
        if self.behind > MOST_BEHIND * self.taken + self.len() {
            // One factor in hundreds puts keys at equal distances side by side, as numbers in a row are.
            self.factors = factors();
            self.behind = 0;
            self.sort_into(self.len());
        }
        id
    }

    /// Makes space for twice as many, at first for as many as are expected.
    #[cold]
    fn grow(&mut self) {
        let before = self.len();
        self.sort_into(if before == 0 { (2 * self.expected + 2).next_power_of_two().max(64) } else { 2 * before });
    }

    /// Puts all keys where they belong among `len` slots.
    #[cold]
    fn sort_into(&mut self, len: usize) {
        let before = self.len();
        // An empty table keeps its memory.
        let has_slots = before > 0;
        let keys: [Vec<u64>; N] =
            std::array::from_fn(|word| if has_slots { take(&mut self.keys[word]) } else { Vec::new() });
        let ids = if has_slots { take(&mut self.ids) } else { Vec::new() };
        self.keys.iter_mut().for_each(|keys| keys.resize(len + WINDOW, 0));
        self.ids.resize(len + WINDOW, 0);
        self.shift = u64::BITS - len.ilog2();
        for slot in (0..before).filter(|&slot| ids[slot] != 0) {
            let key = std::array::from_fn(|word| keys[word][slot]);
            self.put(self.slot(key), key, ids[slot]);
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq", "x86_64+avx2", "aarch64+neon"))]
fn look_up_words(known: &WordMap<1>, words: &[[u64; 1]; AT_ONCE], into: &mut [u32; AT_ONCE]) -> u64 {
    known.look_up(words, into)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq", "x86_64+avx2", "aarch64+neon"))]
fn look_up_texts(known: &WordMap<2>, words: &[[u64; 2]; AT_ONCE], into: &mut [u32; AT_ONCE]) -> u64 {
    known.look_up(words, into)
}

/// Both halves of a word.
#[inline(always)]
fn halves(word: u128) -> [u64; 2] {
    [word as u64, (word >> 64) as u64]
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

    #[test]
    fn factors_that_put_keys_side_by_side_are_replaced() {
        // By this factor all keys belong into one slot.
        let mut words = WordMap::<1> { factors: [1], ..WordMap::default() };
        let keys = || (1..=1000).map(|id: u32| (id, [u64::from(id) << 32]));
        for (id, key) in keys() {
            assert_eq!(words.id(key, || id), id);
        }
        let behind = |key| words.slot(key).wrapping_sub(words.first(key)) & (words.len() - 1);
        let behind: usize = keys().map(|(_, key)| behind(key)).sum();
        assert!(behind < 20_000, "{behind} slots; without others, {}", 1000 * 999 / 2);
        for (id, key) in keys() {
            assert_eq!((words.find(key), words.id(key, || 0)), (Some(id), id));
        }
    }

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
            let cells = texts.iter().map(|text| KeyPart::Bytes(text)).chain([KeyPart::Null]);
            let all: Vec<KeyPart<'_>> = cells.chain(words.iter().map(|&word| KeyPart::Word(word.wrapping_mul(scale) as u64))).collect();
            let (mut memory, mut naive) = (InternerScratch::default(), HashMap::new());
            if used {
                let mut before = Interner::expecting(3, &mut memory);
                for &cell in all.iter().rev() {
                    before.id(cell);
                }
                before.into_cells(&mut memory);
            }
            let mut interner = Interner::expecting(expected, &mut memory);
            let of = |cell: &KeyPart<'_>| if let KeyPart::Word(word) = *cell { Some(word) } else { None };
            interner.prepare(all.iter().filter_map(of).skip(expected), most);
            for &cell in all.iter().chain(&all) {
                let next = naive.len() as u32 + 1;
                prop_assert_eq!(interner.known(cell), naive.get(&cell).copied());
                prop_assert_eq!(interner.id(cell), *naive.entry(cell).or_insert(next), "{:?}", cell);
            }
            for some in all.chunks(AT_ONCE) {
                let words: Vec<u64> = some.iter().map(|cell| of(cell).unwrap_or(1 << 40)).collect();
                let mut texts = [LONG; AT_ONCE];
                for (text, cell) in texts.iter_mut().zip(some) {
                    *text = if let KeyPart::Bytes(bytes) = cell { packed(bytes) } else { LONG };
                }
                let (mut into, mut texts_into) = ([0; AT_ONCE], [0; AT_ONCE]);
                let known = interner.look_up(words.iter().copied(), &mut into);
                let texts_known = interner.look_up_texts(&texts, &mut texts_into);
                for (number, cell) in some.iter().enumerate() {
                    let (bit, text_bit) = (known >> number & 1, texts_known >> number & 1);
                    prop_assert!(bit == 0 || naive[&KeyPart::Word(words[number])] == into[number]);
                    prop_assert!(text_bit == 0 || naive[cell] == texts_into[number]);
                }
            }
            for (number, cell) in interner.into_cells(&mut memory).into_iter().enumerate() {
                prop_assert_eq!(naive[&cell], number as u32 + 1);
            }
        }
    }
}
