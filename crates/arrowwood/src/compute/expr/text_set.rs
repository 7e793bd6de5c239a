//! Stores sets of texts that values are compared with.

use hashbrown::HashSet;

use crate::array::access;

/// The number of bits of a word.
const WORD: usize = u64::BITS as usize;
/// The number of bits of the bitmap of hashes for each text of a [`TextSet`], so that it rules out nearly all others.
const BITS_PER_TEXT: usize = 64;
/// The minimum number of bits of a bitmap of hashes.
const MIN_BITS: usize = 1 << 12;
/// The maximum number of bits of a bitmap of hashes, which stays in a cache.
const MAX_BITS: usize = 1 << 20;

/// A set of texts, with their lengths and hashes, which rule out nearly all other texts.
#[derive(Debug)]
pub(in crate::compute) struct TextSet {
    texts: HashSet<Vec<u8>>,
    /// The bits of the texts' lengths, by [`length_bit`](access::length_bit).
    pub(super) lengths: u32,
    /// A bitmap in which the texts' hashes are set.
    hashes: Vec<u64>,
    /// The number of bits of a product that are no part of a hash.
    shift: u32,
}

impl TextSet {
    /// Creates the set of `texts`.
    pub(super) fn build(texts: HashSet<Vec<u8>>) -> TextSet {
        let lengths = texts.iter().fold(0, |lengths, text| lengths | access::length_bit(text.len()));
        let bits = (BITS_PER_TEXT * texts.len()).next_power_of_two().clamp(MIN_BITS, MAX_BITS);
        let mut set = TextSet { texts, lengths, hashes: vec![0; bits / WORD], shift: u64::BITS - bits.ilog2() };
        for text in &set.texts {
            let hash = set.hash(text.len(), access::head(text));
            set.hashes[hash / WORD] |= 1 << (hash % WORD);
        }
        set
    }

    /// Returns the texts in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.texts.iter()
    }

    /// Returns true if `text` is in the set.
    pub(super) fn contains(&self, text: &[u8]) -> bool {
        self.may_contain(text.len(), access::head(text)) && self.texts.contains(text)
    }

    /// Returns true if a text of `len` bytes may be in the set. `head` is its first 16 bytes as a number; if it has
    /// fewer, the bytes behind them are ignored.
    #[inline(always)]
    pub(super) fn may_contain(&self, len: usize, head: u128) -> bool {
        let hash = self.hash(len, head);
        debug_assert!(hash / WORD < self.hashes.len(), "hash {hash} of {} words", self.hashes.len());
        self.hashes.get(hash / WORD).is_some_and(|bits| bits >> (hash % WORD) & 1 != 0)
    }

    /// Returns the upper bits of products, as they depend on all bits of the text's first bytes.
    #[inline(always)]
    fn hash(&self, len: usize, head: u128) -> usize {
        let head = if len < 16 { head & access::byte_mask(len) } else { head };
        let low = (head as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let high = ((head >> 64) as u64 ^ len as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (low.wrapping_add(high) >> self.shift) as usize
    }
}
