//! Groups of all blocks so far, and their states.

use std::hash::BuildHasher;
use std::ops::Range;

use arrow_data::ArrayData;
use arrow_schema::DataType;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::groups::Groups;
use super::interner::{Interner, KeyPart};
use super::state::{GroupState, StateKind};
use crate::array::access::fixed_width;
use crate::array::gather::{Pick, gather, gather_fixed_into};
use crate::array::{ArrayParts, UncheckedArray, build_buffer};
use crate::error::{Error, Result};
use crate::parallel;

/// All groups so far.
pub(super) struct GroupTable<'a> {
    cells: Vec<KeyPart<'a>>,
    width: usize,
    /// The first row of each.
    pub firsts: Vec<u64>,
    pub states: Vec<GroupState<'a>>,
    /// The key columns, if they were gathered with the groups.
    pub keys: Vec<ArrayData>,
    /// Keys of one column.
    single: Interner<'a>,
    /// Keys of several columns.
    by_cells: HashTable<usize>,
    hasher: DefaultHashBuilder,
}

impl<'a> GroupTable<'a> {
    /// For keys of `width` columns.
    pub(super) fn new(width: usize, kinds: &[StateKind]) -> GroupTable<'a> {
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

    /// Adds a block that begins at row `start`.
    pub(super) fn add(&mut self, start: u64, groups: &Groups<'a>, states: &[GroupState<'a>]) -> Result<()> {
        if self.firsts.len() + groups.count() >= u32::MAX as usize {
            return Err(Error::unsupported("more than 2^32 groups"));
        }
        let word = |cell: &KeyPart<'a>| if let KeyPart::Word(word) = *cell { Some(word) } else { None };
        if self.width == 1 {
            self.single.prepare(groups.cells.iter().filter_map(word), MOST_DENSE);
        }
        let first = |number: usize| start + u64::from(groups.firsts[number]);
        let found = (0..groups.count()).map(|number| self.find(groups.cells_of(number), first(number)));
        let found: Vec<usize> = found.collect();
        let count = self.firsts.len();
        self.states.iter_mut().zip(states).for_each(|(all, block)| all.merge(&found, count, block));
        Ok(())
    }

    /// Groups with these key columns and first rows, which are all there are.
    pub(super) fn from_parts(keys: Vec<ArrayData>, firsts: Vec<u64>, states: Vec<GroupState<'a>>) -> GroupTable<'a> {
        GroupTable { keys, firsts, states, ..GroupTable::new(1, &[]) }
    }

    /// Whether there were too many groups for one of the states.
    pub(super) fn is_too_large(&self) -> bool {
        self.states.iter().any(GroupState::is_too_large)
    }

    /// Whether all of these groups are known already.
    pub(super) fn knows(&self, groups: &Groups<'a>) -> bool {
        (0..groups.count()).all(|number| match groups.cells_of(number) {
            [cell] => self.single.known(*cell).is_some(),
            wanted => {
                let is_it = |&group: &usize| &self.cells[group * self.width..][..self.width] == wanted;
                self.by_cells.find(self.hasher.hash_one(wanted), is_it).is_some()
            }
        })
    }

    /// The number of the group with these keys, whose first row is `first` if there was none.
    pub(super) fn find(&mut self, wanted: &[KeyPart<'a>], first: u64) -> usize {
        if let [cell] = wanted {
            let group = self.single.id(*cell) as usize - 1;
            if group == self.firsts.len() {
                self.firsts.push(first);
            }
            return group;
        }
        let GroupTable { cells, width, firsts, by_cells, hasher, .. } = self;
        let of = |group: usize, cells: &[KeyPart<'a>]| -> u64 { hasher.hash_one(&cells[group * *width..][..*width]) };
        let hash = hasher.hash_one(wanted);
        if let Some(&group) = by_cells.find(hash, |&group| &cells[group * *width..][..*width] == wanted) {
            return group;
        }
        let group = firsts.len();
        cells.extend_from_slice(wanted);
        firsts.push(first);
        by_cells.insert_unique(hash, group, |&group| of(group, cells));
        group
    }
}

/// The most numbers that keys of a narrow range may have for a table of all.
const MOST_DENSE: usize = 1 << 20;
/// All groups, in order of appearance.
pub(super) struct OrderedGroups<'a> {
    pub tables: Vec<GroupTable<'a>>,
    /// If there are several tables: the table of each group, and its number there, in pieces.
    order: Vec<Vec<Pick>>,
    /// The first row of each.
    pub firsts: Vec<u64>,
}

impl<'a> OrderedGroups<'a> {
    pub(super) fn from_table(mut table: GroupTable<'a>) -> OrderedGroups<'a> {
        let firsts = std::mem::take(&mut table.firsts);
        OrderedGroups { tables: vec![table], order: Vec::new(), firsts }
    }

    /// The groups of several tables, of a dataset of `rows` rows; no two have the same first row.
    pub(super) fn from_tables(tables: Vec<GroupTable<'a>>, rows: u64) -> OrderedGroups<'a> {
        let count: usize = tables.iter().map(|table| table.firsts.len()).sum();
        let piece = rows.div_ceil(PIECES).max(1);
        let pieces = parallel::map(PIECES as usize, count.saturating_mul(32), |number| {
            ordered(&tables, number as u64 * piece..(number as u64 + 1) * piece)
        });
        let mut firsts = Vec::with_capacity(count);
        let mut order = Vec::with_capacity(pieces.len());
        for (own, picks) in pieces {
            firsts.extend(own);
            order.push(picks);
        }
        OrderedGroups { tables, order, firsts }
    }

    /// Whether the tables have the columns of their keys.
    pub(super) fn has_keys(&self) -> bool {
        self.tables.iter().all(|table| !table.keys.is_empty())
    }

    /// Something of each group, of which `own` has those of a table in the table's order.
    pub(super) fn in_order<T: Copy>(&self, own: impl Fn(&GroupTable<'a>) -> Vec<T>) -> Vec<T> {
        if let [only] = &self.tables[..] {
            return own(only);
        }
        let tables: Vec<Vec<T>> = self.tables.iter().map(own).collect();
        self.order.iter().flatten().map(|&(table, group)| tables[table as usize][group]).collect()
    }

    /// The column of type `data_type` of which `own` makes a table's part in the table's order; with the number of its groups.
    pub(super) fn column(
        &self,
        data_type: &DataType,
        own: impl Fn(&GroupTable<'a>, usize) -> Result<ArrayData> + Sync,
    ) -> Result<ArrayData> {
        if let [only] = &self.tables[..] {
            return own(only, self.firsts.len().max(usize::from(only.width == 0)));
        }
        let parts = parallel::map(self.tables.len(), self.firsts.len().saturating_mul(64), |number| {
            let table = &self.tables[number];
            own(table, table.firsts.len())
        });
        let parts = parts.into_iter().collect::<Result<Vec<_>>>()?;
        if let Some(width) = fixed_width(data_type)
            && parts.iter().all(|part| part.null_count() == 0)
        {
            return self.plain(data_type, width, &parts);
        }
        let from: Vec<&UncheckedArray> = parts.iter().map(UncheckedArray::from_ref).collect();
        gather(data_type, &from, &self.order.concat())?
            .checked(&parts.iter().flat_map(dictionaries).collect::<Vec<_>>())
    }

    /// A column of fixed-width values without nulls, copied by several threads.
    fn plain(&self, data_type: &DataType, width: usize, parts: &[ArrayData]) -> Result<ArrayData> {
        let len = self.firsts.len();
        let from: Vec<&[u8]> = parts.iter().map(|part| bytes_of(part, width)).collect();
        let values = build_buffer(len.saturating_mul(width), |mut out| {
            let mut jobs = Vec::with_capacity(self.order.len());
            for picks in &self.order {
                let (own, rest) = out.split_at_mut(picks.len() * width);
                jobs.push(Ok((own, picks)));
                out = rest;
            }
            let copy = |(out, picks): (&mut [u8], &Vec<Pick>)| gather_fixed_into(width, &from, picks, out);
            parallel::try_map(jobs.into_iter(), len * 32, |(_, picks)| picks.len() * 32, copy, || ()).map(|_| ())
        })?;
        let data_type = data_type.clone();
        let parts = ArrayParts { data_type, len, validity: None, buffers: vec![values], children: Vec::new() };
        parts.assemble().checked(&[])
    }
}

/// The number of pieces in which groups are put in order.
const PIECES: u64 = 32;

fn bytes_of(array: &ArrayData, width: usize) -> &[u8] {
    let bytes = array.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
    bytes.get(array.offset() * width..).unwrap_or_default()
}

fn dictionaries(array: &ArrayData) -> impl Iterator<Item = &ArrayData> {
    array.child_data().iter()
}

/// The groups whose first row is one of `rows`, by it.
fn ordered(tables: &[GroupTable<'_>], rows: Range<u64>) -> (Vec<u64>, Vec<Pick>) {
    // The first rows of a table ascend.
    let own = |table: &GroupTable<'_>| {
        let from = table.firsts.partition_point(|&first| first < rows.start);
        from..table.firsts.partition_point(|&first| first < rows.end)
    };
    let all = || {
        tables
            .iter()
            .enumerate()
            .flat_map(|(number, table)| own(table).map(move |group| (table.firsts[group], (number as u32, group))))
    };
    let count = tables.iter().map(|table| own(table).len()).sum();
    if (rows.end - rows.start) / 64 > count as u64 {
        let mut found: Vec<(u64, Pick)> = all().collect();
        found.sort_unstable();
        return found.into_iter().unzip();
    }
    let mut order = vec![(0, 0); count];
    let mut firsts = vec![0; count];
    let ranks = RankBitmap::from_numbers(rows.end - rows.start, all().map(|(first, _)| first - rows.start));
    for (first, pick) in all() {
        let place = ranks.rank(first - rows.start);
        (firsts[place], order[place]) = (first, pick);
    }
    (firsts, order)
}

/// A set of numbers, and the place of each among them.
struct RankBitmap {
    words: Vec<u64>,
    /// How many there are before each word.
    before: Vec<usize>,
}

impl RankBitmap {
    fn from_numbers(end: u64, numbers: impl Iterator<Item = u64>) -> RankBitmap {
        let mut words = vec![0u64; end.div_ceil(64) as usize];
        numbers.for_each(|number| words[(number / 64) as usize] |= 1 << (number % 64));
        let count = |sum: &mut usize, word: &u64| Some(std::mem::replace(sum, *sum + word.count_ones() as usize));
        let before = words.iter().scan(0, count).collect();
        RankBitmap { words, before }
    }

    fn rank(&self, number: u64) -> usize {
        let word = (number / 64) as usize;
        let below = self.words[word] & ((1 << (number % 64)) - 1);
        self.before[word] + below.count_ones() as usize
    }
}
