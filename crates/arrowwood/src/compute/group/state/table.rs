//! Merges the groups of blocks and their states into tables, and puts the groups of all tables in order.

use std::hash::BuildHasher;
use std::ops::Range;

use arrow_data::ArrayData;
use arrow_schema::DataType;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::group_state::{GroupState, StateKind};
use crate::array::access::fixed_width;
use crate::array::gather::{Pick, gather, gather_fixed_into};
use crate::array::{ArrayParts, UncheckedArray, build_buffer};
use crate::compute::group::keys::{Groups, Interner, KeyPart};
use crate::error::{Error, Result};
use crate::parallel;

/// The groups of the blocks that were added, and their states. Groups are numbered from 0 here, in the order in which
/// they were added.
pub(in crate::compute::group) struct GroupTable<'a> {
    /// The keys of each group, with `width` keys each. Not used where `width` is 1.
    cells: Vec<KeyPart<'a>>,
    width: usize,
    /// The first row of each group.
    pub firsts: Vec<u64>,
    /// The states of all groups, one element for each kind of state.
    pub states: Vec<GroupState<'a>>,
    /// The key columns, if they were gathered with the groups.
    pub keys: Vec<ArrayData>,
    /// The keys of groups by one column.
    single: Interner<'a>,
    /// The groups by several columns, by their keys.
    by_cells: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl<'a> GroupTable<'a> {
    /// Creates a table of groups by `width` columns.
    pub(in crate::compute::group) fn new(width: usize, kinds: &[StateKind]) -> GroupTable<'a> {
        // Without keys there is one group, even for no rows.
        let groups = usize::from(width == 0);
        GroupTable {
            cells: Vec::new(),
            width,
            firsts: Vec::new(),
            keys: Vec::new(),
            states: kinds.iter().map(|&kind| GroupState::empty(kind, groups)).collect(),
            single: Interner::default(),
            by_cells: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Adds the groups of a block that begins at row `start`.
    pub(in crate::compute::group) fn add(
        &mut self,
        start: u64,
        groups: &Groups<'a>,
        states: &[GroupState<'a>],
    ) -> Result<()> {
        assert_eq!(groups.width, self.width, "groups have as many keys as their table");
        assert_eq!(states.len(), self.states.len(), "groups have as many states as their table");
        if self.firsts.len() + groups.count() >= u32::MAX as usize {
            return Err(Error::unsupported("more than 2^32 groups"));
        }
        if self.width == 1 {
            let words = groups.cells.iter().filter_map(|cell| match *cell {
                KeyPart::Word(word) => Some(word),
                _ => None,
            });
            self.single.prepare(words, MAX_DENSE);
        }

        let mut to = Vec::with_capacity(groups.count());
        for (number, &first) in groups.firsts.iter().enumerate() {
            to.push(self.find_or_insert(groups.key(number), start + u64::from(first)));
        }
        let count = self.firsts.len();
        for (state, block_state) in self.states.iter_mut().zip(states) {
            state.merge(&to, count, block_state);
        }
        Ok(())
    }

    /// Creates a table of all groups, with their key columns and first rows. No groups may be added to it.
    pub(in crate::compute::group) fn from_parts(
        keys: Vec<ArrayData>,
        firsts: Vec<u64>,
        states: Vec<GroupState<'a>>,
    ) -> GroupTable<'a> {
        debug_assert!(firsts.is_sorted(), "groups are in order of their first rows");
        GroupTable { keys, firsts, states, ..GroupTable::new(1, &[]) }
    }

    /// Returns true if there were too many groups for one of the states.
    pub(in crate::compute::group) fn is_too_large(&self) -> bool {
        self.states.iter().any(GroupState::is_too_large)
    }

    /// Returns true if the table has all of these groups.
    pub(in crate::compute::group) fn has_all(&self, groups: &Groups<'a>) -> bool {
        (0..groups.count()).all(|number| match groups.key(number) {
            [cell] => self.single.find(*cell).is_some(),
            key => self.find_cells(self.hasher.hash_one(key), key).is_some(),
        })
    }

    /// Returns the number of the group with the given key. A new group gets the first row `first`.
    pub(in crate::compute::group) fn find_or_insert(&mut self, key: &[KeyPart<'a>], first: u64) -> usize {
        if let [cell] = key {
            let group = self.single.intern(*cell) as usize - 1;
            if group == self.firsts.len() {
                self.firsts.push(first);
            }
            return group;
        }
        let hash = self.hasher.hash_one(key);
        if let Some(group) = self.find_cells(hash, key) {
            return group;
        }
        let group = self.firsts.len();
        assert_eq!(self.cells.len(), group * self.width, "each group has a key");
        self.cells.extend_from_slice(key);
        self.firsts.push(first);
        let GroupTable { cells, width, by_cells, hasher, .. } = self;
        by_cells.insert_unique(hash, group, |group| hasher.hash_one(&cells[group * *width..][..*width]));
        group
    }

    /// Returns the number of the group whose several keys are `key`, and have the hash `hash`.
    #[inline]
    fn find_cells(&self, hash: u64, key: &[KeyPart<'a>]) -> Option<usize> {
        self.by_cells.find(hash, |group| &self.cells[group * self.width..][..self.width] == key).copied()
    }
}

/// The maximum width of a range of keys for which a table has an entry for each number of the range.
const MAX_DENSE: usize = 1 << 20;
/// The approximate number of bytes that are read and written to order a group, or to copy a value in that order.
const BYTES_PER_GROUP: usize = 32;
/// The approximate number of bytes of a group's state that are read, and of its value in a column that are written.
const BYTES_PER_STATE: usize = 64;
/// The number of pieces in which groups are put in order.
const PIECES: u64 = 32;
/// The minimum number of rows for each group for which the first rows are sorted instead of counted.
const MIN_ROWS_TO_SORT: u64 = 64;

/// All groups, in order of appearance.
pub(in crate::compute::group) struct OrderedGroups<'a> {
    pub tables: Vec<GroupTable<'a>>,
    /// For several tables, the table of each group, and the number of the group in it. There are several lists, as
    /// threads put pieces of the groups in order; they follow each other.
    order: Vec<Vec<Pick>>,
    /// The first row of each group.
    pub firsts: Vec<u64>,
}

impl<'a> OrderedGroups<'a> {
    /// Takes the groups of one table, which are in order.
    pub(in crate::compute::group) fn from_table(mut table: GroupTable<'a>) -> OrderedGroups<'a> {
        let firsts = std::mem::take(&mut table.firsts);
        OrderedGroups { tables: vec![table], order: Vec::new(), firsts }
    }

    /// Orders the groups of several tables by their first rows, which differ. The dataset has `num_rows` rows.
    pub(in crate::compute::group) fn from_tables(tables: Vec<GroupTable<'a>>, num_rows: u64) -> OrderedGroups<'a> {
        let count: usize = tables.iter().map(|table| table.firsts.len()).sum();
        let piece_rows = num_rows.div_ceil(PIECES).max(1);
        let pieces = parallel::map(PIECES as usize, count.saturating_mul(BYTES_PER_GROUP), |piece| {
            order_groups(&tables, piece as u64 * piece_rows..(piece as u64 + 1) * piece_rows)
        });
        let mut firsts = Vec::with_capacity(count);
        let mut order = Vec::with_capacity(pieces.len());
        for (piece_firsts, picks) in pieces {
            firsts.extend(piece_firsts);
            order.push(picks);
        }
        assert_eq!(firsts.len(), count, "each group of a table is in one piece");
        debug_assert!(firsts.is_sorted(), "groups are in order of their first rows");
        OrderedGroups { tables, order, firsts }
    }

    /// Returns true if the tables have the columns of their keys.
    pub(in crate::compute::group) fn has_keys(&self) -> bool {
        self.tables.iter().all(|table| !table.keys.is_empty())
    }

    /// Returns the value of each group, where `table_values` returns the values of a table in the table's order.
    pub(in crate::compute::group) fn in_order<T: Copy>(
        &self,
        table_values: impl Fn(&GroupTable<'a>) -> Vec<T>,
    ) -> Vec<T> {
        if let [only] = &self.tables[..] {
            return table_values(only);
        }
        let tables: Vec<Vec<T>> = self.tables.iter().map(table_values).collect();
        self.order.iter().flatten().map(|&(table, group)| tables[table as usize][group]).collect()
    }

    /// Returns a column of type `data_type`, where `table_column` returns the column of a table in the table's order.
    /// Its second parameter is the number of rows of that column.
    pub(in crate::compute::group) fn column(
        &self,
        data_type: &DataType,
        table_column: impl Fn(&GroupTable<'a>, usize) -> Result<ArrayData> + Sync,
    ) -> Result<ArrayData> {
        if let [only] = &self.tables[..] {
            // Without keys there is one group, even for no rows.
            let rows = if only.width == 0 { 1 } else { self.firsts.len() };
            return table_column(only, rows);
        }
        let parts = parallel::map(self.tables.len(), self.firsts.len().saturating_mul(BYTES_PER_STATE), |number| {
            let table = &self.tables[number];
            table_column(table, table.firsts.len())
        });
        let parts = parts.into_iter().collect::<Result<Vec<_>>>()?;
        if let Some(width) = fixed_width(data_type)
            && parts.iter().all(|part| part.null_count() == 0)
        {
            return self.fixed_width_column(data_type, width, &parts);
        }
        let sources: Vec<&UncheckedArray> = parts.iter().map(UncheckedArray::from_ref).collect();
        let dictionaries: Vec<&ArrayData> = parts.iter().flat_map(|part| part.child_data()).collect();
        gather(data_type, &sources, &self.order.concat())?.checked(&dictionaries)
    }

    /// Returns a column of fixed-width values without nulls, copied by several threads.
    fn fixed_width_column(&self, data_type: &DataType, width: usize, parts: &[ArrayData]) -> Result<ArrayData> {
        let len = self.firsts.len();
        let sources: Vec<&[u8]> = parts.iter().map(|part| value_bytes(part, width)).collect();
        let values = build_buffer(len.saturating_mul(width), |mut out| {
            let mut jobs = Vec::with_capacity(self.order.len());
            for picks in &self.order {
                let (piece, rest) = out.split_at_mut(picks.len() * width);
                jobs.push(Ok((piece, picks)));
                out = rest;
            }
            assert!(out.is_empty(), "pieces have {} bytes less than the column", out.len());
            parallel::try_map(
                jobs.into_iter(),
                len * BYTES_PER_GROUP,
                |(_, picks): &(&mut [u8], &Vec<Pick>)| picks.len() * BYTES_PER_GROUP,
                |(piece, picks)| gather_fixed_into(width, &sources, picks, piece),
                || (),
            )
            .map(|_| ())
        })?;
        let data_type = data_type.clone();
        let parts = ArrayParts { data_type, len, validity: None, buffers: vec![values], children: Vec::new() };
        parts.assemble().checked(&[])
    }
}

/// Returns the values of an array of fixed width.
fn value_bytes(array: &ArrayData, width: usize) -> &[u8] {
    match array.buffers() {
        [values, ..] => &values[array.offset() * width..],
        [] => &[],
    }
}

/// Returns the groups whose first row is in `rows`, in the order of these rows.
fn order_groups(tables: &[GroupTable<'_>], rows: Range<u64>) -> (Vec<u64>, Vec<Pick>) {
    // The first rows of a table ascend.
    let mut ranges = Vec::with_capacity(tables.len());
    let mut count = 0;
    for table in tables {
        let start = table.firsts.partition_point(|&first| first < rows.start);
        let end = table.firsts.partition_point(|&first| first < rows.end);
        ranges.push(start..end);
        count += end - start;
    }

    if (rows.end - rows.start) / MIN_ROWS_TO_SORT > count as u64 {
        let mut groups: Vec<(u64, Pick)> = Vec::with_capacity(count);
        for (number, (table, range)) in tables.iter().zip(ranges).enumerate() {
            groups.extend(range.map(|group| (table.firsts[group], (number as u32, group))));
        }
        groups.sort_unstable();
        return groups.into_iter().unzip();
    }

    // With many groups, sorting takes longer than counting the first rows before each one.
    let mut ranks = RankBitmap::new(rows.end - rows.start);
    for (table, range) in tables.iter().zip(&ranges) {
        table.firsts[range.clone()].iter().for_each(|first| ranks.insert(first - rows.start));
    }
    ranks.count();

    let mut firsts = vec![0; count];
    let mut order = vec![(0, 0); count];
    for (number, (table, range)) in tables.iter().zip(ranges).enumerate() {
        for group in range {
            let first = table.firsts[group];
            let rank = ranks.rank(first - rows.start);
            firsts[rank] = first;
            order[rank] = (number as u32, group);
        }
    }
    (firsts, order)
}

/// The number of bits of a word.
const WORD: u64 = u64::BITS as u64;

/// A set of numbers that tells the rank of each: how many smaller ones it has. All numbers are inserted first, then
/// [`count`](RankBitmap::count) is called once, and then [`rank`](RankBitmap::rank) for any number.
struct RankBitmap {
    /// A bit for each number.
    words: Vec<u64>,
    /// The number of bits before each word.
    ranks: Vec<usize>,
}

impl RankBitmap {
    /// Creates an empty set of numbers less than `end`.
    fn new(end: u64) -> RankBitmap {
        RankBitmap { words: vec![0; end.div_ceil(WORD) as usize], ranks: Vec::new() }
    }

    /// Adds a number.
    #[inline]
    fn insert(&mut self, number: u64) {
        self.words[(number / WORD) as usize] |= 1 << (number % WORD);
    }

    /// Counts the bits before each word, once all numbers are inserted.
    fn count(&mut self) {
        let mut rank = 0;
        self.ranks.reserve_exact(self.words.len());
        for word in &self.words {
            self.ranks.push(rank);
            rank += word.count_ones() as usize;
        }
    }

    /// Returns the number of smaller numbers.
    #[inline]
    fn rank(&self, number: u64) -> usize {
        let word = (number / WORD) as usize;
        let below = self.words[word] & ((1 << (number % WORD)) - 1);
        self.ranks[word] + below.count_ones() as usize
    }
}
