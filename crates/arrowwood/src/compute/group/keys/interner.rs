//! Numbers keys in order of appearance.
//!
//! An [`Interner`] gives each distinct key the next number, from 1. It has a structure for each form of keys: a table
//! by value for integers that lie close together, hash tables for other integers and for short texts, whose bytes and
//! length are packed into one word, and a general hash table for the rest. A key is only ever in one of them.
//!
//! Keys are looked up many at a time, and only those that are not found are then interned one by one.

use std::hash::BuildHasher;
use std::mem::take;

use hashbrown::{DefaultHashBuilder, HashTable};
use multiversion::multiversion;

use crate::array::access::{MAX_SHORT_TEXT, short};
use crate::compute::selection::pack_bits;

/// A key, comparable across dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::compute) enum KeyPart<'a> {
    Null,
    /// A number of up to 64 bits; floats as f64, with one zero and one NaN.
    Word(u64),
    Bytes(&'a [u8]),
}

/// Keys and their numbers, which begin with 1.
#[derive(Debug, Default)]
pub(in crate::compute::group) struct Interner<'a> {
    /// All keys: the key with number `n` at index `n - 1`.
    cells: Vec<KeyPart<'a>>,
    /// Words of a narrow range, if one was prepared.
    dense: DenseWords,
    /// Words outside of the range.
    words: WordMap<1>,
    /// Texts of up to [`MAX_SHORT_TEXT`] bytes.
    short: WordMap<2>,
    /// Null and longer texts. Cells are stored next to their numbers, so that a lookup reads from one cache line.
    rest: HashTable<(KeyPart<'a>, u32)>,
    hasher: DefaultHashBuilder,
}

/// The number of keys that are looked up at a time. Whether a key is new can't be predicted, and a wrong prediction
/// takes as long as three lookups. So a first loop finds the known keys without branches, and a second one handles the
/// others.
pub(super) const AT_ONCE: usize = 64;

/// The tables of an interner, whose memory the next one reuses.
#[derive(Debug, Default)]
pub(super) struct InternerScratch {
    words: WordMap<1>,
    short: WordMap<2>,
}

impl<'a> Interner<'a> {
    /// Creates an interner for about `count` keys in the memory of another one.
    pub(super) fn expecting(count: usize, scratch: &mut InternerScratch) -> Interner<'a> {
        Interner {
            cells: Vec::with_capacity(count),
            words: take(&mut scratch.words).into_empty(count),
            short: take(&mut scratch.short).into_empty(count),
            ..Interner::default()
        }
    }

    /// Returns the keys in the order of their numbers, and leaves other memory in `scratch`.
    pub(super) fn into_cells(self, scratch: &mut InternerScratch) -> Vec<KeyPart<'a>> {
        scratch.words = self.words;
        scratch.short = self.short;
        self.cells
    }

    /// Returns the number of `cell`, which gets the next one if it has none.
    #[inline]
    pub(in crate::compute::group) fn intern(&mut self, cell: KeyPart<'a>) -> u32 {
        match cell {
            KeyPart::Word(word) => self.intern_word(word),
            KeyPart::Bytes(bytes) => self.intern_text(pack_text(bytes), bytes),
            KeyPart::Null => self.intern_other(cell),
        }
    }

    /// Returns the number of `cell`, if it has one.
    pub(in crate::compute::group) fn find(&self, cell: KeyPart<'a>) -> Option<u32> {
        match cell {
            KeyPart::Word(word) => match self.dense.numbers.get(self.dense.index(word)) {
                Some(0) => None,
                Some(&id) => Some(id),
                None => self.words.find([word]),
            },
            KeyPart::Bytes(bytes) => match pack_text(bytes) {
                LONG => self.find_other(cell),
                word => self.short.find(halves(word)),
            },
            KeyPart::Null => self.find_other(cell),
        }
    }

    /// Returns the number of `word`, as [`intern`](Interner::intern).
    #[inline(always)]
    pub(super) fn intern_word(&mut self, word: u64) -> u32 {
        let Interner { dense, words, cells, .. } = self;
        let index = dense.index(word);
        match dense.numbers.get_mut(index) {
            Some(&mut 0) => {
                let id = push_cell(cells, KeyPart::Word(word));
                dense.numbers[index] = id;
                id
            }
            Some(&mut id) => id,
            None => words.find_or_insert([word], || push_cell(cells, KeyPart::Word(word))),
        }
    }

    /// Returns the number of a text, as [`intern`](Interner::intern); `word` is its result of [`pack_text`].
    #[inline(always)]
    pub(super) fn intern_text(&mut self, word: u128, bytes: &'a [u8]) -> u32 {
        if word == LONG {
            return self.intern_other(KeyPart::Bytes(bytes));
        }
        let Interner { short, cells, .. } = self;
        short.find_or_insert(halves(word), || push_cell(cells, KeyPart::Bytes(bytes)))
    }

    /// Writes the numbers of the words that are quickly found, and returns a bit for each of these. Others may have a
    /// number, too.
    #[inline]
    pub(super) fn find_words(&self, words: impl Iterator<Item = u64>, ids: &mut [u32; AT_ONCE]) -> u64 {
        if self.dense.numbers.is_empty() {
            let mut keys = [[0]; AT_ONCE];
            keys.iter_mut().zip(words).for_each(|(key, word)| *key = [word]);
            return find_word_keys(&self.words, &keys, ids);
        }
        let mut hits = 0;
        for (number, (id, word)) in ids.iter_mut().zip(words).enumerate() {
            // Words outside of the range have no number here.
            *id = self.dense.numbers.get(self.dense.index(word)).map_or(0, |id| *id);
            hits |= u64::from(*id != 0) << number;
        }
        hits
    }

    /// Writes the numbers of the texts that are quickly found, and returns a bit for each of these. Others may have a
    /// number, too.
    #[inline]
    pub(super) fn find_texts(&self, words: &[u128; AT_ONCE], ids: &mut [u32; AT_ONCE]) -> u64 {
        find_text_keys(&self.short, &words.map(halves), ids)
    }

    /// Makes a table with an entry for each signed number in the range of `words`, if the range has at most `max_width`
    /// numbers. Words outside of the range may still be interned. Does nothing if words were interned before.
    pub(in crate::compute::group) fn prepare(&mut self, words: impl Iterator<Item = u64>, max_width: usize) {
        if !self.dense.numbers.is_empty() || self.words.used > 0 {
            return;
        }
        let mut range: Option<(i64, i64)> = None;
        for word in words {
            let number = word as i64;
            let (low, high) = range.unwrap_or((number, number));
            range = Some((low.min(number), high.max(number)));
        }
        let Some((low, high)) = range else { return };
        let width = high.wrapping_sub(low) as u64;
        if width < max_width as u64 {
            let margin = width / WIDTH_PER_MARGIN;
            let base = (low as u64).wrapping_sub(margin);
            self.dense = DenseWords { base, numbers: vec![0; (width + 2 * margin) as usize + 1] };
        }
    }

    /// Returns the number of null, or of a long text, if it has one.
    fn find_other(&self, cell: KeyPart<'a>) -> Option<u32> {
        let (_, id) = self.rest.find(self.hasher.hash_one(cell), |&(other, _)| other == cell)?;
        Some(*id)
    }

    /// Returns the number of null, or of a long text, as [`intern`](Interner::intern).
    pub(super) fn intern_other(&mut self, cell: KeyPart<'a>) -> u32 {
        if let Some(id) = self.find_other(cell) {
            return id;
        }
        let Interner { cells, rest, hasher, .. } = self;
        let id = push_cell(cells, cell);
        rest.insert_unique(hasher.hash_one(cell), (cell, id), |(cell, _)| hasher.hash_one(cell));
        id
    }
}

/// The numbers of words of a narrow range, by their distance from the first word; 0 for words without a number.
#[derive(Debug, Default)]
struct DenseWords {
    base: u64,
    numbers: Vec<u32>,
}

impl DenseWords {
    #[inline(always)]
    fn index(&self, word: u64) -> usize {
        word.wrapping_sub(self.base) as usize
    }
}

/// Appends a key and returns its number.
fn push_cell<'a>(cells: &mut Vec<KeyPart<'a>>, cell: KeyPart<'a>) -> u32 {
    cells.push(cell);
    cells.len() as u32
}

/// The part of a range that a table of words has on either side of it, as one of so many parts: the words of a sample
/// may not be the smallest and the greatest ones.
const WIDTH_PER_MARGIN: u64 = 8;

/// The number of slots that are compared at once.
const WINDOW: usize = 8;
/// The maximum average distance of keys from their first slots. With random factors it is half a slot, but one factor
/// in two hundred places consecutive numbers 20 to 40 slots behind their first one. Then others are drawn; a second
/// multiplication would prevent it, and takes 6 % of the time of each lookup.
const MAX_AVERAGE_DISTANCE: usize = 4;
/// The minimum number of slots for each key.
const SLOTS_PER_KEY: usize = 2;
/// The number of slots of a table that expects few keys.
const MIN_SLOTS: usize = 64;

/// A hash table of keys of `N` words and their numbers, with linear probing. At most half of the slots are used, so
/// that a key is nearly always in the first window.
#[derive(Debug)]
struct WordMap<const N: usize> {
    /// Each word of the key in each slot. The number of slots is 0 or a power of two. Copies of the first `WINDOW`
    /// slots follow them, so that a window at any slot is contiguous.
    keys: [Vec<u64>; N],
    /// The number of the key in each slot; 0 for an empty slot.
    ids: Vec<u32>,
    /// Random factors of the words of a key, whose sum is the hash. They differ in each table, so that keys with equal
    /// hashes cannot be chosen by an attacker.
    factors: [u64; N],
    /// The number of bits by which a hash is shifted to the right for its first slot.
    shift: u32,
    /// The number of keys.
    used: usize,
    /// The sum of the distances of keys from their first slots, for keys inserted since the factors were drawn.
    total_distance: usize,
    /// The expected number of keys.
    expected: usize,
}

impl<const N: usize> Default for WordMap<N> {
    fn default() -> WordMap<N> {
        let keys = std::array::from_fn(|_| Vec::new());
        WordMap { keys, ids: Vec::new(), factors: random_factors(), shift: 0, used: 0, total_distance: 0, expected: 0 }
    }
}

/// Returns random odd numbers.
fn random_factors<const N: usize>() -> [u64; N] {
    let hasher = DefaultHashBuilder::default();
    std::array::from_fn(|word| hasher.hash_one(word) | 1)
}

impl<const N: usize> WordMap<N> {
    /// Returns an empty table in the same memory.
    fn into_empty(mut self, expected: usize) -> WordMap<N> {
        self.keys.iter_mut().for_each(Vec::clear);
        self.ids.clear();
        WordMap { used: 0, total_distance: 0, expected, ..self }
    }

    /// Returns the number of slots.
    #[inline(always)]
    fn num_slots(&self) -> usize {
        // An empty table has no copies of its first slots.
        self.ids.len().saturating_sub(WINDOW)
    }

    /// Returns the first slot for a key: the upper bits of the hash, as they depend on all bits of the words.
    #[inline(always)]
    fn first_slot(&self, key: [u64; N]) -> usize {
        let hash = (0..N).fold(0u64, |hash, word| hash.wrapping_add(key[word].wrapping_mul(self.factors[word])));
        (hash >> self.shift) as usize
    }

    /// Returns the slot with a key, or the empty one where it belongs. There is one, as at most half of the slots are
    /// used.
    #[inline(always)]
    fn slot(&self, key: [u64; N]) -> usize {
        let mut slot = self.first_slot(key);
        while self.ids[slot] != 0 && (0..N).any(|word| self.keys[word][slot] != key[word]) {
            slot = (slot + 1) & (self.num_slots() - 1);
        }
        slot
    }

    /// Writes a key and its number to an empty slot, and to the copy of the slot, if it has one.
    fn put(&mut self, slot: usize, key: [u64; N], id: u32) {
        debug_assert_eq!(self.ids[slot], 0, "keys are put into empty slots");
        for slot in [slot, slot + self.num_slots()].into_iter().take(1 + usize::from(slot < WINDOW)) {
            self.ids[slot] = id;
            (0..N).for_each(|word| self.keys[word][slot] = key[word]);
        }
    }

    #[inline(always)]
    fn find(&self, key: [u64; N]) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        Some(self.ids[self.slot(key)]).filter(|&id| id != 0)
    }

    /// Writes the numbers of the keys that are in their first window, and returns a bit for each of these. Has no
    /// branches, so that the processor loads many windows at the same time.
    #[inline(always)]
    fn find_in_first_windows(&self, keys: &[[u64; N]; AT_ONCE], ids: &mut [u32; AT_ONCE]) -> u64 {
        if self.used == 0 {
            return 0;
        }
        let first_slots = keys.map(|key| self.first_slot(key) as u32);
        for ((key, &first), id) in keys.iter().zip(&first_slots).zip(&mut *ids) {
            let first = first as usize;
            let Some(slot_ids) = self.ids.get(first..).and_then(|ids| ids.first_chunk::<WINDOW>()) else { continue };
            let mut equal = [u32::MAX; WINDOW];
            for (slot_words, word) in self.keys.iter().zip(key) {
                let slot_words = slot_words.get(first..).and_then(|words| words.first_chunk::<WINDOW>());
                let Some(slot_words) = slot_words else { continue };
                for (equal, slot_word) in equal.iter_mut().zip(slot_words) {
                    *equal &= if slot_word == word { u32::MAX } else { 0 };
                }
            }
            // At most one equal slot has a number: the key of an empty slot may be equal, too, but its number is 0.
            *id = (0..WINDOW).fold(0, |id, slot| id | slot_ids[slot] & equal[slot]);
        }
        pack_bits(&ids.map(|id| u8::from(id != 0)))
    }

    /// Returns the number of a key. A new key is inserted with the number that `new_id` returns.
    #[inline(always)]
    fn find_or_insert(&mut self, key: [u64; N], new_id: impl FnOnce() -> u32) -> u32 {
        if (self.used + 1) * SLOTS_PER_KEY > self.num_slots() {
            self.grow();
        }
        let slot = self.slot(key);
        if self.ids[slot] != 0 {
            return self.ids[slot];
        }
        let id = new_id();
        debug_assert_ne!(id, 0, "numbers of keys begin with 1");
        self.put(slot, key, id);
        self.used += 1;
        self.total_distance += slot.wrapping_sub(self.first_slot(key)) & (self.num_slots() - 1);
        if self.total_distance > MAX_AVERAGE_DISTANCE * self.used + self.num_slots() {
            // One factor in hundreds puts keys with equal differences, such as consecutive numbers, into neighbouring
            // slots.
            self.factors = random_factors();
            self.total_distance = 0;
            self.rehash(self.num_slots());
        }
        id
    }

    /// Doubles the number of slots. The first slots are enough for the expected number of keys.
    #[cold]
    fn grow(&mut self) {
        let before = self.num_slots();
        self.rehash(if before == 0 {
            ((self.expected + 1) * SLOTS_PER_KEY).next_power_of_two().max(MIN_SLOTS)
        } else {
            2 * before
        });
        debug_assert!((self.used + 1) * SLOTS_PER_KEY <= self.num_slots(), "at most half of the slots are used");
    }

    /// Moves all keys to their slots among `len`, a power of two.
    #[cold]
    fn rehash(&mut self, len: usize) {
        assert!(len.is_power_of_two(), "{len} slots");
        let before = self.num_slots();
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

/// Does [`WordMap::find_in_first_windows`] with the instructions of the processor.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq", "x86_64+avx2", "aarch64+neon"))]
fn find_word_keys(map: &WordMap<1>, keys: &[[u64; 1]; AT_ONCE], ids: &mut [u32; AT_ONCE]) -> u64 {
    map.find_in_first_windows(keys, ids)
}

/// As [`find_word_keys`], for short texts.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq", "x86_64+avx2", "aarch64+neon"))]
fn find_text_keys(map: &WordMap<2>, keys: &[[u64; 2]; AT_ONCE], ids: &mut [u32; AT_ONCE]) -> u64 {
    map.find_in_first_windows(keys, ids)
}

/// Returns both halves of a word, the lower one first.
#[inline(always)]
fn halves(word: u128) -> [u64; 2] {
    [word as u64, (word >> u64::BITS) as u64]
}

/// The word of texts that are longer than [`MAX_SHORT_TEXT`]. The word of a short text is not 0, as the byte of its
/// length is not.
pub(in crate::compute::group) const LONG: u128 = 0;

/// Returns a text of up to [`MAX_SHORT_TEXT`] bytes and its length as one word; `LONG` for longer ones.
#[inline]
pub(in crate::compute::group) fn pack_text(bytes: &[u8]) -> u128 {
    let (len, word) = short(bytes);
    pack_short_text(len, word)
}

/// Returns the word of a text of `len` bytes, as [`pack_text`]; `bytes` has the bytes of a short text.
#[inline(always)]
pub(in crate::compute::group) fn pack_short_text(len: usize, bytes: u128) -> u128 {
    /// The position of the last byte of a word.
    const LENGTH_SHIFT: u32 = u128::BITS - u8::BITS;
    if len <= MAX_SHORT_TEXT { bytes | (len as u128 + 1) << LENGTH_SHIFT } else { LONG }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hash_factors_that_cluster_keys_are_replaced() {
        // With this factor all keys have the same first slot.
        let mut words = WordMap::<1> { factors: [1], ..WordMap::default() };
        let keys = || (1..=1000).map(|id: u32| (id, [u64::from(id) << 32]));
        for (id, key) in keys() {
            assert_eq!(words.find_or_insert(key, || id), id);
        }
        let distance = |key| words.slot(key).wrapping_sub(words.first_slot(key)) & (words.num_slots() - 1);
        let total: usize = keys().map(|(_, key)| distance(key)).sum();
        assert!(total < 20_000, "{total} slots; with the first factor, {}", 1000 * 999 / 2);
        for (id, key) in keys() {
            assert_eq!((words.find(key), words.find_or_insert(key, || 0)), (Some(id), id));
        }
    }

    proptest! {
        #[test]
        fn equal_keys_get_the_number_of_the_first_one(
            texts in prop::collection::vec(prop::collection::vec(0u8..3, 0..20), 0..300),
            words in prop::collection::vec(-20i64..50, 0..300),
            expected in 0usize..300,
            used in any::<bool>(),
            max_width in prop_oneof![Just(0), Just(1), Just(1usize << 20)],
            scale in prop_oneof![Just(1i64), Just(1 << 32), Just(1 << 60)],
        ) {
            let cells = texts.iter().map(|text| KeyPart::Bytes(text)).chain([KeyPart::Null]);
            let words = words.iter().map(|&word| KeyPart::Word(word.wrapping_mul(scale) as u64));
            let all: Vec<KeyPart<'_>> = cells.chain(words).collect();
            let (mut scratch, mut naive) = (InternerScratch::default(), HashMap::new());
            if used {
                let mut before = Interner::expecting(3, &mut scratch);
                for &cell in all.iter().rev() {
                    before.intern(cell);
                }
                before.into_cells(&mut scratch);
            }
            let mut interner = Interner::expecting(expected, &mut scratch);
            let word_of = |cell: &KeyPart<'_>| if let KeyPart::Word(word) = *cell { Some(word) } else { None };
            interner.prepare(all.iter().filter_map(word_of).skip(expected), max_width);
            for &cell in all.iter().chain(&all) {
                let next = naive.len() as u32 + 1;
                prop_assert_eq!(interner.find(cell), naive.get(&cell).copied());
                prop_assert_eq!(interner.intern(cell), *naive.entry(cell).or_insert(next), "{:?}", cell);
            }
            for some in all.chunks(AT_ONCE) {
                let words: Vec<u64> = some.iter().map(|cell| word_of(cell).unwrap_or(1 << 40)).collect();
                let mut texts = [LONG; AT_ONCE];
                for (text, cell) in texts.iter_mut().zip(some) {
                    *text = if let KeyPart::Bytes(bytes) = cell { pack_text(bytes) } else { LONG };
                }
                let (mut ids, mut text_ids) = ([0; AT_ONCE], [0; AT_ONCE]);
                let hits = interner.find_words(words.iter().copied(), &mut ids);
                let text_hits = interner.find_texts(&texts, &mut text_ids);
                for (number, cell) in some.iter().enumerate() {
                    let (bit, text_bit) = (hits >> number & 1, text_hits >> number & 1);
                    prop_assert!(bit == 0 || naive[&KeyPart::Word(words[number])] == ids[number]);
                    prop_assert!(text_bit == 0 || naive[cell] == text_ids[number]);
                }
            }
            for (number, cell) in interner.into_cells(&mut scratch).into_iter().enumerate() {
                prop_assert_eq!(naive[&cell], number as u32 + 1);
            }
        }
    }
}
