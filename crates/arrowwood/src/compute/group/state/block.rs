//! Computes the states of a block's groups.
//!
//! Most states are arrays with an element for each group, including group 0 of excluded rows, which is dropped in the
//! end: a loop then needs no branch for excluded rows. Where a block has few groups, each has several elements, its
//! lanes, so that neighbouring rows of one group do not wait for each other; lanes are merged at the end of the block.

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::bitsets::{IntegerRange, IntegerSets};
use super::group_state::{
    Accumulator, DecimalMoments, DecimalSum, Extreme, ExtremeKind, FloatValues, GroupState, IntegerMoments, IntegerSum,
    Moments, NeumaierSum, RowText, StateKind, ValueKind, distance, float_extremes, integer_extremes, row_extremes,
    text_extremes,
};
use crate::array::access::{MAX_SHORT_TEXT, Texts, fixed_values, short};
use crate::compute::expr::{AT_ONCE, BoundExpression, EvalContext};
use crate::compute::group::keys::{Groups, KeyPart, ordered_cell};
use crate::compute::kernels::{
    GroupedRows, LANES, LEAF, OUT, add_floats, add_squares, count_by_group, for_each_decimal, for_each_float,
    for_each_integer, moments_f64, with_decoded_rows,
};
use crate::compute::scan::Frame;
use crate::compute::selection::{Mask, valid_mask};
use crate::error::{Error, Result};
use crate::types::is_text_or_binary;

impl<'a> GroupState<'a> {
    /// Computes the states of kind `kind` for the groups of block `block`.
    pub(in crate::compute::group) fn from_block(
        kind: StateKind,
        frame: &Frame<'a>,
        block: usize,
        groups: &Groups<'a>,
        computed: &ComputedColumns<'_>,
    ) -> Result<GroupState<'a>> {
        let columns = BlockColumns { frame, block, groups, computed };
        match kind {
            StateKind::RowCount => Ok(GroupState::Counts(columns.count_rows())),
            StateKind::Count(column) => columns.count(column).map(GroupState::Counts),
            StateKind::Floats(column) => columns.floats(column).map(GroupState::Floats),
            StateKind::Integers(column) => columns.integers(column).map(GroupState::Integers),
            StateKind::Decimals(column) => columns.decimals(column).map(GroupState::Decimals),
            StateKind::Moments(column) => columns.moments(column).map(GroupState::Moments),
            StateKind::IntegerMoments(column) => columns.integer_moments(column).map(GroupState::IntegerMoments),
            StateKind::DecimalMoments(column) => columns.decimal_moments(column).map(GroupState::DecimalMoments),
            StateKind::Values(column) => columns.values(column).map(GroupState::Values),
            StateKind::Distinct { range, column } => columns.distinct(range, column).map(GroupState::Distinct),
            StateKind::Extreme { end, values, column } => match values {
                ValueKind::Integers => columns.extreme_integers(end, column).map(GroupState::Integer),
                ValueKind::Floats => columns.extreme_floats(end, column).map(GroupState::Float),
                ValueKind::Texts => columns.extreme_texts(end, column).map(GroupState::Text),
            },
            StateKind::Row(end) => Ok(GroupState::Row(columns.end_rows(end))),
        }
    }
}

impl GroupState<'_> {
    /// Computes the state for all rows of block `block` as one group; `None` if that is not faster than by each row's
    /// group.
    pub(in crate::compute::group) fn from_ungrouped_block(
        kind: StateKind,
        frame: &Frame<'_>,
        block: usize,
    ) -> Result<Option<Self>> {
        match kind {
            StateKind::RowCount => {
                let rows = frame.spans(block).map(|(_, rows)| rows.len() as u64).sum();
                Ok(Some(GroupState::Counts(vec![rows])))
            }
            StateKind::Row(end) => {
                let first = frame.block_start(block);
                let last = frame.num_rows().min(first.saturating_add(frame.block_rows() as u64)) - 1;
                Ok(Some(end_row_of_one_group(end, Some((first, last)))))
            }
            StateKind::Moments(column) => {
                let moments = ungrouped_moments(frame, block, column)?;
                Ok(moments.map(|moments| GroupState::Moments(vec![moments])))
            }
            _ => Ok(None),
        }
    }
}

/// Computes the states for the rows of block `block` with a bit in `masks` as one group; `None` if a state needs more
/// than the bits.
pub(in crate::compute::group) fn states_from_masks<'a>(
    kinds: &[StateKind],
    frame: &Frame<'_>,
    block: usize,
    masks: &[Option<Mask>],
) -> Option<Vec<GroupState<'a>>> {
    let mut count = 0;
    let mut first_and_last: Option<(u64, u64)> = None;
    let mut start = frame.block_start(block);
    for (mask, (_, rows)) in masks.iter().zip(frame.spans(block)) {
        let mask = mask.as_ref()?;
        count += mask.count() as u64;
        if let Some((first, last)) = mask.first_and_last() {
            let first = first_and_last.map_or(start + first as u64, |(first, _)| first);
            first_and_last = Some((first, start + last as u64));
        }
        start += rows.len() as u64;
    }
    let mut states = Vec::with_capacity(kinds.len());
    for kind in kinds {
        states.push(match *kind {
            StateKind::RowCount => GroupState::Counts(vec![count]),
            StateKind::Row(end) => end_row_of_one_group(end, first_and_last),
            _ => return None,
        });
    }
    Some(states)
}

/// Returns the state of one group of all rows, given the first and the last of them.
fn end_row_of_one_group<'a>(end: ExtremeKind, first_and_last: Option<(u64, u64)>) -> GroupState<'a> {
    const ONLY_GROUP: usize = 0;
    let mut extreme = row_extremes(end, 1);
    if let Some((first, last)) = first_and_last {
        extreme.offer(ONLY_GROUP, if end == ExtremeKind::Min { first } else { last });
    }
    GroupState::Row(extreme)
}

/// Computes the moments of a block of floats without nulls; `None` for other columns. Each leaf is read twice while it
/// is in the nearest cache.
fn ungrouped_moments(frame: &Frame<'_>, block: usize, column: usize) -> Result<Option<Moments>> {
    let mut moments = Moments::NONE;
    // The beginning of a leaf that continues in the next batch.
    let mut leaf: Vec<[u8; 8]> = Vec::new();
    for (part, rows) in frame.spans(block) {
        let array = frame.checked(part, column)?;
        let has_nulls = Mask::from_validity(array, &rows).is_some_and(|valid| valid.count() < rows.len());
        if *array.data_type() != DataType::Float64 || has_nulls {
            return Ok(None);
        }
        let Some(mut values) = fixed_values(array).get(rows) else {
            return Err(Error::invalid("fewer values than rows"));
        };

        if !leaf.is_empty() {
            let (head, rest) = values.split_at(values.len().min(LEAF - leaf.len()));
            leaf.extend_from_slice(head);
            values = rest;
            if leaf.len() < LEAF {
                continue;
            }
            add_leaf(&mut moments, &leaf);
            leaf.clear();
        }

        let (leaves, rest) = values.as_chunks::<LEAF>();
        for leaf in leaves {
            add_leaf(&mut moments, leaf);
        }
        leaf.extend_from_slice(rest);
    }
    if !leaf.is_empty() {
        add_leaf(&mut moments, &leaf);
    }
    Ok(Some(moments))
}

/// Adds the moments of a leaf's values.
#[inline]
fn add_leaf(moments: &mut Moments, values: &[[u8; 8]]) {
    let (mean, squares) = moments_f64(values);
    moments.add(&Moments { count: values.len() as u64, mean, squares });
}

/// The maximum number of groups for which a group has several lanes: as many as a key of one byte has values.
const MAX_GROUPS_WITH_LANES: usize = 256;

/// The columns of a block, with the rows' groups.
struct BlockColumns<'f, 'a> {
    frame: &'f Frame<'a>,
    block: usize,
    groups: &'f Groups<'a>,
    computed: &'f ComputedColumns<'f>,
}

/// Columns that are computed from others. They are numbered after the dataset's columns.
pub(in crate::compute::group) struct ComputedColumns<'f> {
    /// The number of the dataset's columns, which is the number of the first computed column.
    pub columns: usize,
    pub formulas: &'f [BoundExpression],
}

impl ComputedColumns<'_> {
    /// Returns the formula of column number `column`; `None` if it is no computed one.
    fn get(&self, column: usize) -> Option<&BoundExpression> {
        self.formulas.get(column.checked_sub(self.columns)?)
    }
}

impl<'a> BlockColumns<'_, 'a> {
    /// Calls `work` with the rows of each span of column `column`, without their groups, and with their groups.
    fn for_each_span(&self, column: usize, mut work: impl FnMut(&GroupedRows<'a>, &[u32]) -> Result<()>) -> Result<()> {
        let mut start = 0;
        for (part, rows) in self.frame.spans(self.block) {
            let end = start + rows.len();
            let ids = &self.groups.ids[start..end];
            let array = self.frame.checked(part, column)?;
            let lane = start % LANES;
            work(&GroupedRows { array, rows, ids: &[], lane, is_sparse: self.groups.is_sparse }, ids)?;
            start = end;
        }
        assert_eq!(start, self.groups.ids.len(), "each row of a block has a group");
        Ok(())
    }

    /// Calls `work` with the rows of column `column`, which has numbers, span by span. Dictionaries are decoded.
    fn for_each_number(&self, column: usize, mut work: impl FnMut(&GroupedRows<'_>) -> Result<()>) -> Result<()> {
        if let Some(formula) = self.computed.get(column) {
            return self.for_each_computed(formula, work);
        }
        self.for_each_span(column, |rows, ids| {
            with_decoded_rows(rows.array, rows.rows.clone(), |array, decoded_rows| {
                work(&GroupedRows { array, rows: decoded_rows, ids, ..*rows })
            })
        })
    }

    /// Calls `work` with the values of a computed column, a few thousand rows at a time.
    fn for_each_computed(
        &self,
        formula: &BoundExpression,
        mut work: impl FnMut(&GroupedRows<'_>) -> Result<()>,
    ) -> Result<()> {
        // The number of rows before.
        let mut number = 0;
        for (part, rows) in self.frame.spans(self.block) {
            for start in rows.clone().step_by(AT_ONCE) {
                let rows = start..rows.end.min(start + AT_ONCE);
                let ids = &self.groups.ids[number..number + rows.len()];
                let context = EvalContext { frame: self.frame, part, rows, wanted: &|row| ids[row] != OUT };
                let array = formula.array(&context)?;
                let lane = number % LANES;
                work(&GroupedRows { array: &array, rows: 0..ids.len(), ids, lane, is_sparse: self.groups.is_sparse })?;
                number += ids.len();
            }
        }
        assert_eq!(number, self.groups.ids.len(), "each row of a block has a group");
        Ok(())
    }

    /// Returns the number of lanes of a group. With many groups, neighbouring rows are rarely of the same group, and
    /// one lane takes less of the cache.
    fn width(&self) -> usize {
        if self.groups.count() > MAX_GROUPS_WITH_LANES { 1 } else { LANES }
    }

    /// Returns the number of groups with group 0.
    fn count_with_excluded(&self) -> usize {
        self.groups.count() + 1
    }

    /// Returns a value for each lane of each group, including group 0.
    fn lanes<T: Clone>(&self, new: T) -> Vec<T> {
        vec![new; self.count_with_excluded() * self.width()]
    }

    /// Merges the lanes of each group but group 0.
    fn join_lanes<T, U>(&self, lanes: &[T], join: impl Fn(&[T]) -> U) -> Vec<U> {
        lanes.chunks(self.width()).skip(1).map(join).collect()
    }

    /// Counts the rows of each group.
    fn count_rows(&self) -> Vec<u64> {
        let mut counts = self.lanes(0);
        count_by_group(&self.groups.ids, 0, self.width(), &mut counts);
        self.join_lanes(&counts, |lanes| lanes.iter().sum())
    }

    /// Counts the values of each group that are not null.
    fn count(&self, column: usize) -> Result<Vec<u64>> {
        let mut counts = self.lanes(0);
        match self.computed.get(column) {
            Some(formula) => self.for_each_computed(formula, |rows| self.add_counts(rows, rows.ids, &mut counts))?,
            None => self.for_each_span(column, |rows, ids| self.add_counts(rows, ids, &mut counts))?,
        }
        Ok(self.join_lanes(&counts, |lanes| lanes.iter().sum()))
    }

    /// Adds the numbers of values in `rows`, whose groups are `ids`.
    fn add_counts(&self, rows: &GroupedRows<'_>, ids: &[u32], counts: &mut [u64]) -> Result<()> {
        let valid = valid_mask(rows.array, &rows.rows)?;
        let mut valid_ids = Vec::with_capacity(ids.len());
        for (row, &id) in ids.iter().enumerate() {
            valid_ids.push(if valid.is_set(row) { id } else { OUT });
        }
        count_by_group(&valid_ids, rows.lane, self.width(), counts);
        Ok(())
    }

    /// Sums floats, or other numbers as floats.
    fn floats(&self, column: usize) -> Result<Vec<NeumaierSum>> {
        if self.width() == 1 {
            return self.floats_in_order(column);
        }
        let mut sums = self.lanes([0.0; 2]);
        self.for_each_number(column, |rows| add_floats(rows, &mut sums))?;
        Ok(self.join_lanes(&sums, NeumaierSum::from_lanes))
    }

    /// Sums floats without lanes, and accumulates rounding errors, as a partition may have millions of rows.
    fn floats_in_order(&self, column: usize) -> Result<Vec<NeumaierSum>> {
        let mut sums = vec![NeumaierSum::NONE; self.count_with_excluded()];
        self.for_each_number(column, |rows| {
            for_each_float(rows, |id, _, number| {
                if let Some(sum) = sums.get_mut(id as usize) {
                    sum.add(&NeumaierSum::from_value(number));
                }
            })
        })?;
        Ok(drop_excluded(sums))
    }

    /// Sums integers of at most 64 bits.
    fn integers(&self, column: usize) -> Result<Vec<IntegerSum>> {
        let width = self.width();
        let mut sums = self.lanes(IntegerSum::NONE);
        self.for_each_number(column, |rows| {
            for_each_integer(rows, |id, lane, number| {
                if let Some(sum) = sums.get_mut(id as usize * width + lane % width) {
                    sum.sum = sum.sum.wrapping_add(number);
                    sum.count += 1;
                }
            })
        })?;
        Ok(self.join_lanes(&sums, merge_lanes))
    }

    /// Sums the digits of wide decimals.
    fn decimals(&self, column: usize) -> Result<Vec<DecimalSum>> {
        let mut sums = vec![DecimalSum::NONE; self.count_with_excluded()];
        self.for_each_number(column, |rows| {
            for_each_decimal(rows, |id, digits| {
                if let Some(sum) = sums.get_mut(id as usize).filter(|_| id != OUT) {
                    sum.push(digits);
                }
            })
        })?;
        Ok(drop_excluded(sums))
    }

    /// Computes the means of the block's groups, then the distances from them.
    fn moments(&self, column: usize) -> Result<Vec<Moments>> {
        let sums = self.floats(column)?;
        // The first mean is of group 0, whose rows are excluded.
        let mut means = vec![0.0; sums.len() + 1];
        for (mean, sum) in means[1..].iter_mut().zip(&sums) {
            if sum.count > 0 {
                *mean = sum.total() / sum.count as f64;
            }
        }

        let mut squares = self.squares(column, &means)?;
        let mut inexact = Vec::new();
        for (number, squares) in squares.iter().enumerate() {
            if !squares.is_finite() && means[number + 1].is_finite() {
                inexact.push(number);
            }
        }
        if !inexact.is_empty() {
            // The rounding error of a mean may be too large to be squared, so it is computed and subtracted first.
            let mut remainders = vec![0.0; means.len()];
            self.for_each_number(column, |rows| {
                for_each_float(rows, |id, _, number| {
                    if let (Some(remainder), Some(mean)) = (remainders.get_mut(id as usize), means.get(id as usize)) {
                        *remainder += number - mean;
                    }
                })
            })?;
            for number in inexact {
                means[number + 1] += remainders[number + 1] / sums[number].count as f64;
            }
            squares = self.squares(column, &means)?;
        }

        let moments = sums.iter().zip(&means[1..]).zip(squares);
        Ok(moments.map(|((sum, &mean), squares)| Moments { count: sum.count, mean, squares }).collect())
    }

    /// Sums the squares of the distances from the mean of each group.
    fn squares(&self, column: usize, means: &[f64]) -> Result<Vec<f64>> {
        let mut squares = self.lanes(0.0);
        self.for_each_number(column, |rows| add_squares(rows, means, self.width(), &mut squares))?;
        Ok(self.join_lanes(&squares, |lanes| match lanes {
            [a, b, c, d] => (a + b) + (c + d),
            lanes => lanes.iter().sum(),
        }))
    }

    /// Sums integers and their squares.
    fn integer_moments(&self, column: usize) -> Result<Vec<IntegerMoments>> {
        let width = self.width();
        let mut moments = self.lanes(IntegerMoments::NONE);
        self.for_each_number(column, |rows| {
            for_each_integer(rows, |id, lane, number| {
                if let Some(moments) = moments.get_mut(id as usize * width + lane % width) {
                    moments.push(number);
                }
            })
        })?;
        Ok(self.join_lanes(&moments, merge_lanes))
    }

    /// Computes the means of the distances from each group's first value, then the distances from them.
    fn decimal_moments(&self, column: usize) -> Result<Vec<DecimalMoments>> {
        let mut moments = vec![DecimalMoments::NONE; self.count_with_excluded()];
        self.for_each_number(column, |rows| {
            for_each_decimal(rows, |id, digits| {
                if let Some(DecimalMoments { first, distances }) = moments.get_mut(id as usize) {
                    *first = if distances.count == 0 { digits } else { *first };
                    distances.mean += distance(digits, *first);
                    distances.count += 1;
                }
            })
        })?;
        moments.iter_mut().for_each(|group| group.distances.mean /= group.distances.count.max(1) as f64);
        self.for_each_number(column, |rows| {
            for_each_decimal(rows, |id, digits| {
                if let Some(DecimalMoments { first, distances }) = moments.get_mut(id as usize) {
                    distances.squares += (distance(digits, *first) - distances.mean).powi(2);
                }
            })
        })?;
        Ok(drop_excluded(moments))
    }

    /// Collects the values of each group as floats.
    fn values(&self, column: usize) -> Result<Vec<FloatValues>> {
        let mut values = vec![FloatValues::NONE; self.count_with_excluded()];
        self.for_each_number(column, |rows| {
            for_each_float(rows, |id, _, number| {
                if let Some(values) = values.get_mut(id as usize).filter(|_| id != OUT && !number.is_nan()) {
                    values.0.push(number);
                }
            })
        })?;
        Ok(drop_excluded(values))
    }

    /// Collects the integers of each group in sets.
    fn distinct(&self, range: IntegerRange, column: usize) -> Result<IntegerSets> {
        let mut sets = IntegerSets::for_block(range, self.count_with_excluded(), self.frame.block_rows());
        self.for_each_number(column, |rows| {
            if let Some(valid) = Mask::from_validity(rows.array, &rows.rows) {
                for (row, &id) in rows.ids.iter().enumerate() {
                    if !valid.is_set(row) {
                        sets.insert_null(id as usize);
                    }
                }
            }
            for_each_integer(rows, |id, _, number| sets.insert(id as usize, number))
        })?;
        sets.without_first()
    }

    /// Finds the smallest or the greatest integer or decimal of each group.
    fn extreme_integers(&self, end: ExtremeKind, column: usize) -> Result<Extreme<i256>> {
        let mut extreme = integer_extremes(end, self.count_with_excluded());
        self.for_each_number(column, |rows| for_each_decimal(rows, |id, number| extreme.offer(id as usize, number)))?;
        Ok(extreme.without_first())
    }

    /// Finds the smallest or the greatest float of each group.
    fn extreme_floats(&self, end: ExtremeKind, column: usize) -> Result<Extreme<f64>> {
        let mut extreme = float_extremes(end, self.count_with_excluded());
        self.for_each_number(column, |rows| for_each_float(rows, |id, _, number| extreme.offer(id as usize, number)))?;
        Ok(extreme.without_first())
    }

    /// Finds the first or the last row of each group.
    fn end_rows(&self, end: ExtremeKind) -> Extreme<u64> {
        let mut extreme = row_extremes(end, self.count_with_excluded());
        let block_start = self.frame.block_start(self.block);
        for (&id, row) in self.groups.ids.iter().zip(block_start..) {
            extreme.offer(id as usize, row);
        }
        extreme.without_first()
    }

    /// Finds the smallest or the greatest text of each group, or the value of an ordered category.
    fn extreme_texts(&self, end: ExtremeKind, column: usize) -> Result<Extreme<RowText<'a>>> {
        let mut extreme = text_extremes(end, self.count_with_excluded());
        let mut best_keys = BestTextKeys::new(end, self.groups.count());
        let mut frame_row = self.frame.block_start(self.block);
        self.for_each_span(column, |rows, ids| {
            if is_text_or_binary(rows.array.data_type()) {
                best_keys.offer_all(&Texts::try_new(rows.array)?, rows, ids, frame_row, &mut extreme)?;
                frame_row += ids.len() as u64;
                return Ok(());
            }
            for (row, &id) in rows.rows.clone().zip(ids) {
                if id != OUT
                    && let KeyPart::Bytes(bytes) = ordered_cell(self.frame, column, rows.array, row)?
                {
                    best_keys.offer(id as usize, RowText { bytes, row: frame_row }, &mut extreme);
                }
                frame_row += 1;
            }
            Ok(())
        })?;
        Ok(extreme.without_first())
    }
}

/// The sort key of the best text of each group: a number made of the text's first bytes, and of its length if they are
/// all bytes. Nearly all texts are compared by their keys alone.
struct BestTextKeys {
    /// The key of each group, including group 0; the greatest key before the first text.
    best: Vec<u128>,
    /// All ones where the greatest text is the best, so that the best text always has the smallest key.
    flip: u128,
}

/// The last byte of the key of a text of more than [`MAX_SHORT_TEXT`] bytes. Keys of shorter texts have their length
/// plus one there, which is less.
const LONG_TEXT: u128 = MAX_SHORT_TEXT as u128 + 2;

impl BestTextKeys {
    fn new(end: ExtremeKind, groups: usize) -> BestTextKeys {
        let mut best = vec![u128::MAX; groups + 1];
        // No text of an excluded row is better than this.
        best[OUT as usize] = 0;
        BestTextKeys { best, flip: if end == ExtremeKind::Min { 0 } else { u128::MAX } }
    }

    /// Returns the key of a text of at most [`MAX_SHORT_TEXT`] bytes, which are `bytes` as a number. The length follows
    /// the bytes, as a text is greater than the texts that it begins with.
    #[inline(always)]
    fn short_key(&self, len: usize, bytes: u128) -> u128 {
        (bytes.swap_bytes() | (len as u128 + 1)) ^ self.flip
    }

    /// Returns the key of a text of any length.
    fn key(&self, bytes: &[u8]) -> u128 {
        match bytes.first_chunk::<MAX_SHORT_TEXT>() {
            Some(first) if bytes.len() > first.len() => {
                let mut raw = [0; size_of::<u128>()];
                raw[..first.len()].copy_from_slice(first);
                (u128::from_be_bytes(raw) | LONG_TEXT) ^ self.flip
            }
            _ => {
                let (len, bytes) = short(bytes);
                self.short_key(len, bytes)
            }
        }
    }

    /// Returns true if a text may be better than the best one of group `group`; `bytes` has the bytes of a short text.
    #[inline(always)]
    fn may_improve(&self, group: u32, len: usize, bytes: u128) -> bool {
        len > MAX_SHORT_TEXT || self.short_key(len, bytes) < self.best[group as usize]
    }

    /// Offers the texts of `rows`, the first of which is row `start` of the frame.
    fn offer_all<'a>(
        &mut self,
        texts: &Texts<'a>,
        rows: &GroupedRows<'a>,
        ids: &[u32],
        start: u64,
        extreme: &mut Extreme<RowText<'a>>,
    ) -> Result<()> {
        let first = rows.rows.start;
        if let Some(valid) = Mask::from_validity(rows.array, &rows.rows) {
            // Texts under nulls may be invalid, and are not read.
            for (number, &group) in ids.iter().enumerate().filter(|(number, _)| valid.is_set(*number)) {
                let (len, bytes) = texts.short(first + number)?;
                if self.may_improve(group, len, bytes) {
                    let text = RowText { bytes: texts.get(first + number)?, row: start + number as u64 };
                    self.offer(group as usize, text, extreme);
                }
            }
            return Ok(());
        }
        let mut number = 0;
        let mut result = Ok(());
        texts.each_short(rows.rows.clone(), |len, bytes| {
            let Some(&group) = ids.get(number) else { return };
            if self.may_improve(group, len, bytes) {
                match texts.get(first + number) {
                    Ok(bytes) => self.offer(group as usize, RowText { bytes, row: start + number as u64 }, extreme),
                    Err(e) => result = Err(e),
                }
            }
            number += 1;
        })?;
        result
    }

    /// Makes `text` the best text of a group if it is better. Texts with equal keys are compared by all of their bytes.
    fn offer<'a>(&mut self, group: usize, text: RowText<'a>, extreme: &mut Extreme<RowText<'a>>) {
        let key = self.key(text.bytes);
        let Some(best) = self.best.get_mut(group) else { return };
        if key < *best {
            *best = key;
            extreme.best[group] = Some(text);
        } else if key == *best {
            extreme.offer(group, text);
        }
    }
}

/// Removes the state of group 0, whose rows are excluded.
fn drop_excluded<T>(mut states: Vec<T>) -> Vec<T> {
    assert!(!states.is_empty(), "excluded rows have a state");
    states.remove(0);
    states
}

/// Merges the states of the lanes of a group.
fn merge_lanes<T: Accumulator>(lanes: &[T]) -> T {
    let mut merged = T::NONE;
    for lane in lanes {
        merged.add(lane);
    }
    merged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use arrow_array::types::Int8Type;
    use arrow_array::{
        ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, Int8Array, LargeBinaryArray, RecordBatch,
    };
    use proptest::prelude::*;

    use crate::{AggregateFunction, Dataset, Value};

    type TestRow = (i8, Option<Vec<u8>>);

    /// Generates texts with common prefixes and trailing zeros, whose lengths are near the limit for comparing them as
    /// numbers.
    fn test_row() -> impl Strategy<Value = TestRow> {
        let text = (0usize..3, prop::collection::vec(prop_oneof![Just(0u8), Just(255), 1u8..3], 0..4));
        let text = text.prop_map(|(number, end)| [vec![b'a'; [0, 13, 15][number]], end].concat());
        (-1i8..2, prop::option::weighted(0.8, text))
    }

    fn naive(rows: &[TestRow]) -> Vec<Option<(Vec<u8>, Vec<u8>)>> {
        let mut groups = BTreeMap::new();
        for (key, text) in rows {
            let best: &mut Option<(Vec<u8>, Vec<u8>)> = groups.entry(key).or_default();
            let Some(text) = text else { continue };
            let (min, max) = best.get_or_insert_with(|| (text.clone(), text.clone()));
            *min = min.clone().min(text.clone());
            *max = max.clone().max(text.clone());
        }
        groups.into_values().collect()
    }

    fn bytes(value: Value<'_>) -> Option<Vec<u8>> {
        match value {
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn smallest_and_greatest_texts_equal_a_naive_loop_in_all_layouts(
            rows in prop::collection::vec(test_row(), 1..60), cut in any::<usize>(),
        ) {
            for layout in 0..4 {
                let batch = |rows: &[TestRow]| {
                    let keys: Int8Array = rows.iter().map(|row| row.0).collect();
                    let texts = || rows.iter().map(|row| row.1.clone());
                    let texts: ArrayRef = match layout {
                        0 => Arc::new(texts().collect::<BinaryArray>()),
                        1 => Arc::new(texts().collect::<LargeBinaryArray>()),
                        2 => Arc::new(texts().collect::<BinaryViewArray>()),
                        _ => {
                            let keys: Int8Array = (0i8..).zip(texts()).map(|(key, text)| text.map(|_| key)).collect();
                            Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(texts().collect::<BinaryArray>())))
                        }
                    };
                    let columns = [("k", Arc::new(keys) as ArrayRef, false), ("t", texts, true)];
                    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
                };
                let (first, rest) = rows.split_at(cut % (rows.len() + 1));
                let dataset = Dataset::try_from(vec![batch(first), batch(rest)]).unwrap();
                let query = dataset
                    .aggregate(&["k"])
                    .column_as("min", "t", AggregateFunction::Min)
                    .column_as("max", "t", AggregateFunction::Max);
                let result = query.finish().unwrap().sort(&[("k", false)]).unwrap();
                let min_and_max = |row: crate::Row<'_>| bytes(row.get(1).unwrap()).zip(bytes(row.get(2).unwrap()));
                let actual: Vec<_> = result.rows().map(|row| min_and_max(row.unwrap())).collect();
                prop_assert_eq!(actual, naive(&rows), "{:?}", layout);
            }
        }
    }
}
