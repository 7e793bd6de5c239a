//! The states of a block's groups.

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::bitsets::{IntegerRange, IntegerSets};
use super::groups::{Groups, ordered_cell};
use super::interner::KeyPart;
use super::state::{
    Accumulator, DecimalMoments, DecimalSum, Extreme, ExtremeKind, FloatValues, GroupState, IntegerMoments, IntegerSum,
    Moments, NeumaierSum, RowText, StateKind, ValueKind, distance, floats, integers, rows, texts,
};
use crate::array::access::{Texts, fixed_values, short};
use crate::compute::frame::Frame;
use crate::compute::kernels::{LEAF, moments_f64};
use crate::compute::reduce::{
    GroupedRows, LANES, OUT, add_floats, add_squares, count_by_group, for_each_decimal, for_each_float,
    for_each_integer, with_decoded_rows,
};
use crate::compute::select::{AT_ONCE, BoundExpression, EvalContext, Mask, null_mask};
use crate::error::Result;
use crate::types::is_text_or_binary;

impl<'a> GroupState<'a> {
    /// The states for the rows of block `block`, by group.
    pub(super) fn from_block(
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
    /// The state for all rows of block `block` as one group; `None` where it needs a look at each row's group.
    pub(super) fn from_ungrouped_block(kind: StateKind, frame: &Frame<'_>, block: usize) -> Result<Option<Self>> {
        match kind {
            StateKind::RowCount => {
                let rows = frame.spans(block).map(|(_, rows)| rows.len() as u64).sum();
                Ok(Some(GroupState::Counts(vec![rows])))
            }
            StateKind::Row(end) => {
                let mut found = rows(end, 1);
                let start = frame.block_start(block);
                let last = frame.num_rows().min(start.saturating_add(frame.block_rows() as u64)) - 1;
                found.offer(0, if end == ExtremeKind::Min { start } else { last });
                Ok(Some(GroupState::Row(found)))
            }
            StateKind::Moments(column) => {
                let moments = moments_of_all(frame, block, column)?;
                Ok(moments.map(|moments| GroupState::Moments(vec![moments])))
            }
            _ => Ok(None),
        }
    }
}

/// The states for the rows of block `block` with a bit in `masks` as one group; `None` where they need more than the bits.
pub(super) fn states_of_bits<'a>(
    kinds: &[StateKind],
    frame: &Frame<'_>,
    block: usize,
    masks: &[Option<Mask>],
) -> Option<Vec<GroupState<'a>>> {
    let mut count = 0;
    let mut ends: Option<(u64, u64)> = None;
    let mut start = frame.block_start(block);
    for (mask, (_, rows)) in masks.iter().zip(frame.spans(block)) {
        let mask = mask.as_ref()?;
        count += mask.count() as u64;
        if let Some((first, last)) = mask.first_and_last() {
            let least = ends.map_or(start + first as u64, |(least, _)| least);
            ends = Some((least, start + last as u64));
        }
        start += rows.len() as u64;
    }
    let state = |kind: &StateKind| match *kind {
        StateKind::RowCount => Some(GroupState::Counts(vec![count])),
        StateKind::Row(end) => {
            let mut found = rows(end, 1);
            if let Some((least, most)) = ends {
                found.offer(0, if end == ExtremeKind::Min { least } else { most });
            }
            Some(GroupState::Row(found))
        }
        _ => None,
    };
    kinds.iter().map(state).collect()
}

/// The moments of a block of floats without nulls, leaf by leaf: what is in the nearest cache is read twice.
fn moments_of_all(frame: &Frame<'_>, block: usize, column: usize) -> Result<Option<Moments>> {
    let mut moments = Moments::NONE;
    let mut add = |values: &[[u8; 8]]| {
        let (mean, squares) = moments_f64(values);
        moments.add(&Moments { count: values.len() as u64, mean, squares });
    };
    // Of a leaf in several batches.
    let mut leaf: Vec<[u8; 8]> = Vec::new();
    for (part, rows) in frame.spans(block) {
        let array = frame.checked(part, column)?;
        let has_nulls = Mask::from_validity(array, &rows).is_some_and(|valid| valid.count() < rows.len());
        if *array.data_type() != DataType::Float64 || has_nulls {
            return Ok(None);
        }
        let mut values = fixed_values(array).get(rows).unwrap_or_default();
        if !leaf.is_empty() {
            let (head, rest) = values.split_at(values.len().min(LEAF - leaf.len()));
            leaf.extend_from_slice(head);
            values = rest;
            if leaf.len() < LEAF {
                continue;
            }
            add(&leaf);
            leaf.clear();
        }
        let (leaves, rest) = values.as_chunks::<LEAF>();
        leaves.iter().for_each(|leaf| add(leaf));
        leaf.extend_from_slice(rest);
    }
    if !leaf.is_empty() {
        add(&leaf);
    }
    Ok(Some(moments))
}

/// The most groups of which neighbours are likely to be in one: as many as keys of a byte.
const FEW: usize = 256;

/// The columns of a block, with the rows' groups.
struct BlockColumns<'f, 'a> {
    frame: &'f Frame<'a>,
    block: usize,
    groups: &'f Groups<'a>,
    computed: &'f ComputedColumns<'f>,
}

/// What is computed of columns, numbered from `columns` on.
pub(super) struct ComputedColumns<'f> {
    pub columns: usize,
    pub formulas: &'f [BoundExpression],
}

impl ComputedColumns<'_> {
    fn get(&self, column: usize) -> Option<&BoundExpression> {
        self.formulas.get(column.checked_sub(self.columns)?)
    }
}

impl<'a> BlockColumns<'_, 'a> {
    fn each(&self, column: usize, mut work: impl FnMut(&GroupedRows<'a>, &[u32]) -> Result<()>) -> Result<()> {
        let mut at = 0;
        for (part, rows) in self.frame.spans(self.block) {
            let ids = &self.groups.ids[at..at + rows.len()];
            let array = self.frame.checked(part, column)?;
            at += rows.len();
            let lane = (at - ids.len()) % LANES;
            work(&GroupedRows { array, rows, ids: &[], lane, is_sparse: self.groups.is_sparse }, ids)?;
        }
        Ok(())
    }

    /// The same for numbers, with dictionary keys looked up.
    fn each_number(&self, column: usize, mut work: impl FnMut(&GroupedRows<'_>) -> Result<()>) -> Result<()> {
        if let Some(formula) = self.computed.get(column) {
            return self.each_computed(formula, work);
        }
        self.each(column, |rows, ids| {
            with_decoded_rows(rows.array, rows.rows.clone(), |array, inside| {
                work(&GroupedRows { array, rows: inside, ids, ..*rows })
            })
        })
    }

    /// The same for what is computed, a few thousand rows at a time.
    fn each_computed(
        &self,
        formula: &BoundExpression,
        mut work: impl FnMut(&GroupedRows<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        for (part, rows) in self.frame.spans(self.block) {
            for start in rows.clone().step_by(AT_ONCE) {
                let rows = start..rows.end.min(start + AT_ONCE);
                let ids = &self.groups.ids[at..at + rows.len()];
                let some = EvalContext { frame: self.frame, part, rows, wanted: &|row| ids[row] != OUT };
                let array = formula.array(&some)?;
                let lane = at % LANES;
                work(&GroupedRows { array: &array, rows: 0..ids.len(), ids, lane, is_sparse: self.groups.is_sparse })?;
                at += ids.len();
            }
        }
        Ok(())
    }

    /// The number of lanes of a group: neighbours are rarely in one of many groups, and less memory is nearer.
    fn width(&self) -> usize {
        if self.groups.count() > FEW { 1 } else { LANES }
    }

    /// Space for each lane of each group, including group 0.
    fn lanes<T: Clone>(&self, new: T) -> Vec<T> {
        vec![new; (self.groups.count() + 1) * self.width()]
    }

    /// The merged lanes of each group but group 0.
    fn joined<T, U>(&self, lanes: &[T], join: impl Fn(&[T]) -> U) -> Vec<U> {
        lanes.chunks(self.width()).skip(1).map(join).collect()
    }

    fn count_rows(&self) -> Vec<u64> {
        let mut counts = self.lanes(0);
        count_by_group(&self.groups.ids, 0, self.width(), &mut counts);
        self.joined(&counts, |lanes| lanes.iter().sum())
    }

    fn count(&self, column: usize) -> Result<Vec<u64>> {
        let mut counts = self.lanes(0);
        let mut add = |rows: &GroupedRows<'_>, ids: &[u32]| {
            let valid = null_mask(rows.array, &rows.rows, false)?;
            let masked = |(row, &id): (usize, &u32)| if valid.is_set(row) { id } else { OUT };
            count_by_group(
                &ids.iter().enumerate().map(masked).collect::<Vec<_>>(),
                rows.lane,
                self.width(),
                &mut counts,
            );
            Ok(())
        };
        match self.computed.get(column) {
            Some(formula) => self.each_computed(formula, |rows| add(rows, rows.ids))?,
            None => self.each(column, add)?,
        }
        Ok(self.joined(&counts, |lanes| lanes.iter().sum()))
    }

    fn floats(&self, column: usize) -> Result<Vec<NeumaierSum>> {
        if self.width() == 1 {
            return self.floats_in_order(column);
        }
        let mut sums = self.lanes([0.0; 2]);
        self.each_number(column, |rows| add_floats(rows, &mut sums))?;
        Ok(self.joined(&sums, NeumaierSum::from_lanes))
    }

    /// The same without lanes, with rounding errors: a partition's rows may be millions.
    fn floats_in_order(&self, column: usize) -> Result<Vec<NeumaierSum>> {
        let mut sums = vec![NeumaierSum::NONE; self.groups.count() + 1];
        self.each_number(column, |rows| {
            for_each_float(rows, |id, _, number| {
                if let Some(sum) = sums.get_mut(id as usize) {
                    sum.add(&NeumaierSum::from_value(number));
                }
            })
        })?;
        Ok(drop_excluded(sums))
    }

    fn integers(&self, column: usize) -> Result<Vec<IntegerSum>> {
        let width = self.width();
        let mut sums = self.lanes(IntegerSum::NONE);
        self.each_number(column, |rows| {
            for_each_integer(rows, |id, lane, number| {
                if let Some(sum) = sums.get_mut(id as usize * width + lane % width) {
                    sum.sum = sum.sum.wrapping_add(number);
                    sum.count += 1;
                }
            })
        })?;
        Ok(self.joined(&sums, merged))
    }

    fn decimals(&self, column: usize) -> Result<Vec<DecimalSum>> {
        let mut sums = vec![DecimalSum::NONE; self.groups.count() + 1];
        self.each_number(column, |rows| {
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
        let mean = |sum: &NeumaierSum| if sum.count == 0 { 0.0 } else { sum.total() / sum.count as f64 };
        let mut means: Vec<f64> = std::iter::once(0.0).chain(sums.iter().map(mean)).collect();
        let mut squares = self.squares(column, &means)?;
        let is_off = |number: usize, squares: &[f64]| !squares[number].is_finite() && means[number + 1].is_finite();
        let off: Vec<usize> = (0..squares.len()).filter(|&number| is_off(number, &squares)).collect();
        if !off.is_empty() {
            // As for all rows: the rounding error of a mean may be too large to be squared.
            let mut rests = vec![0.0; means.len()];
            self.each_number(column, |rows| {
                for_each_float(rows, |id, _, number| {
                    if let (Some(rest), Some(mean)) = (rests.get_mut(id as usize), means.get(id as usize)) {
                        *rest += number - mean;
                    }
                })
            })?;
            off.iter().for_each(|&number| means[number + 1] += rests[number + 1] / sums[number].count as f64);
            squares = self.squares(column, &means)?;
        }
        let moments = sums.iter().zip(&means[1..]).zip(squares);
        Ok(moments.map(|((sum, &mean), squares)| Moments { count: sum.count, mean, squares }).collect())
    }

    /// The sum of the squares of the distances from the means, of each group.
    fn squares(&self, column: usize, means: &[f64]) -> Result<Vec<f64>> {
        let mut squares = self.lanes(0.0);
        self.each_number(column, |rows| add_squares(rows, means, self.width(), &mut squares))?;
        let all = |lanes: &[f64]| match lanes {
            [a, b, c, d] => (a + b) + (c + d),
            lanes => lanes.iter().sum(),
        };
        Ok(self.joined(&squares, all))
    }

    fn integer_moments(&self, column: usize) -> Result<Vec<IntegerMoments>> {
        let width = self.width();
        let mut moments = self.lanes(IntegerMoments::NONE);
        self.each_number(column, |rows| {
            for_each_integer(rows, |id, lane, number| {
                if let Some(moments) = moments.get_mut(id as usize * width + lane % width) {
                    moments.push(number);
                }
            })
        })?;
        Ok(self.joined(&moments, merged))
    }

    /// Computes the means of the distances from each group's first value, then the distances from them.
    fn decimal_moments(&self, column: usize) -> Result<Vec<DecimalMoments>> {
        let mut moments = vec![DecimalMoments::NONE; self.groups.count() + 1];
        self.each_number(column, |rows| {
            for_each_decimal(rows, |id, digits| {
                if let Some(DecimalMoments { first, distances }) = moments.get_mut(id as usize) {
                    *first = if distances.count == 0 { digits } else { *first };
                    distances.mean += distance(digits, *first);
                    distances.count += 1;
                }
            })
        })?;
        moments.iter_mut().for_each(|group| group.distances.mean /= group.distances.count.max(1) as f64);
        self.each_number(column, |rows| {
            for_each_decimal(rows, |id, digits| {
                if let Some(DecimalMoments { first, distances }) = moments.get_mut(id as usize) {
                    distances.squares += (distance(digits, *first) - distances.mean).powi(2);
                }
            })
        })?;
        Ok(drop_excluded(moments))
    }

    fn values(&self, column: usize) -> Result<Vec<FloatValues>> {
        let mut values = vec![FloatValues::NONE; self.groups.count() + 1];
        self.each_number(column, |rows| {
            for_each_float(rows, |id, _, number| {
                if let Some(values) = values.get_mut(id as usize).filter(|_| id != OUT && !number.is_nan()) {
                    values.0.push(number);
                }
            })
        })?;
        Ok(drop_excluded(values))
    }

    fn distinct(&self, range: IntegerRange, column: usize) -> Result<IntegerSets> {
        let mut sets = IntegerSets::for_block(range, self.groups.count() + 1, self.frame.block_rows());
        self.each_number(column, |rows| {
            let valid = Mask::from_validity(rows.array, &rows.rows);
            let is_null = |row: &usize| valid.as_ref().is_some_and(|valid| !valid.is_set(*row));
            (0..rows.ids.len()).filter(is_null).for_each(|row| sets.insert_null(rows.ids[row] as usize));
            for_each_integer(rows, |id, _, number| sets.insert(id as usize, number))
        })?;
        sets.without_first()
    }

    fn extreme_integers(&self, end: ExtremeKind, column: usize) -> Result<Extreme<i256>> {
        let mut extreme = integers(end, self.groups.count() + 1);
        self.each_number(column, |rows| for_each_decimal(rows, |id, number| extreme.offer(id as usize, number)))?;
        Ok(extreme.without_first())
    }

    fn extreme_floats(&self, end: ExtremeKind, column: usize) -> Result<Extreme<f64>> {
        let mut extreme = floats(end, self.groups.count() + 1);
        self.each_number(column, |rows| for_each_float(rows, |id, _, number| extreme.offer(id as usize, number)))?;
        Ok(extreme.without_first())
    }

    fn end_rows(&self, end: ExtremeKind) -> Extreme<u64> {
        let mut found = rows(end, self.groups.count() + 1);
        let numbers = self.frame.block_start(self.block)..;
        self.groups.ids.iter().zip(numbers).for_each(|(&id, row)| found.offer(id as usize, row));
        found.without_first()
    }

    fn extreme_texts(&self, end: ExtremeKind, column: usize) -> Result<Extreme<RowText<'a>>> {
        let mut extreme = texts(end, self.groups.count() + 1);
        let mut orders = BestTextKeys::new(end, self.groups.count());
        let mut row_of_all = self.frame.block_start(self.block);
        self.each(column, |rows, ids| {
            if is_text_or_binary(rows.array.data_type()) {
                orders.add(&Texts::try_new(rows.array)?, rows, ids, row_of_all, &mut extreme)?;
                row_of_all += ids.len() as u64;
                return Ok(());
            }
            for (row, &id) in rows.rows.clone().zip(ids) {
                if id != OUT
                    && let KeyPart::Bytes(bytes) = ordered_cell(self.frame, column, rows.array, row)?
                {
                    orders.offer(id as usize, RowText { bytes, row: row_of_all }, &mut extreme);
                }
                row_of_all += 1;
            }
            Ok(())
        })?;
        Ok(extreme.without_first())
    }
}

/// The order of the best text of each group: that of its first bytes as a number. Nearly all texts are compared by it alone.
struct BestTextKeys {
    best: Vec<u128>,
    /// All ones where the greatest text is the best, so that the best one has the least number.
    flip: u128,
}

/// The number of texts of more than 15 bytes in the last byte, above those of shorter ones.
const LONG_TEXT: u128 = 17;

impl BestTextKeys {
    fn new(end: ExtremeKind, groups: usize) -> BestTextKeys {
        let mut best = vec![u128::MAX; groups + 1];
        // Nothing is better than what excluded rows have.
        best[OUT as usize] = 0;
        BestTextKeys { best, flip: if end == ExtremeKind::Min { 0 } else { u128::MAX } }
    }

    /// Of a text of at most 15 bytes, which are `bytes` as a number: they as digits, and behind them the length, as a text comes
    /// behind those that it begins with.
    #[inline(always)]
    fn short_key(&self, len: usize, bytes: u128) -> u128 {
        (bytes.swap_bytes() | (len as u128 + 1)) ^ self.flip
    }

    fn key(&self, bytes: &[u8]) -> u128 {
        match bytes.first_chunk::<15>() {
            Some(first) if bytes.len() > first.len() => {
                let mut raw = [0; 16];
                raw[..first.len()].copy_from_slice(first);
                (u128::from_be_bytes(raw) | LONG_TEXT) ^ self.flip
            }
            _ => {
                let (len, bytes) = short(bytes);
                self.short_key(len, bytes)
            }
        }
    }

    /// Adds the texts of `rows`, of which the first is row `start` of all.
    fn add<'a>(
        &mut self,
        texts: &Texts<'a>,
        rows: &GroupedRows<'a>,
        ids: &[u32],
        start: u64,
        extreme: &mut Extreme<RowText<'a>>,
    ) -> Result<()> {
        let first = rows.rows.start;
        let mut done = Ok(());
        let mut one = |here: usize, len: usize, bytes: u128| {
            let group = ids[here] as usize;
            if len > 15 || self.short_key(len, bytes) < self.best[group] {
                match texts.get(first + here) {
                    Ok(bytes) => self.offer(group, RowText { bytes, row: start + here as u64 }, extreme),
                    Err(e) => done = Err(e),
                }
            }
        };
        match Mask::from_validity(rows.array, &rows.rows) {
            // Anything may lie under nulls.
            Some(valid) => {
                for here in (0..ids.len()).filter(|&here| valid.is_set(here)) {
                    let (len, bytes) = texts.short(first + here)?;
                    one(here, len, bytes);
                }
            }
            None => {
                let mut rows_here = 0..ids.len();
                texts.each_short(rows.rows.clone(), |len, bytes| {
                    rows_here.next().into_iter().for_each(|here| one(here, len, bytes));
                })?;
            }
        }
        done
    }

    fn offer<'a>(&mut self, group: usize, text: RowText<'a>, extreme: &mut Extreme<RowText<'a>>) {
        let order = self.key(text.bytes);
        let Some(best) = self.best.get_mut(group) else { return };
        if order < *best {
            *best = order;
            extreme.best[group] = Some(text);
        } else if order == *best {
            extreme.offer(group, text);
        }
    }
}

/// The states but that of group 0.
fn drop_excluded<T>(mut states: Vec<T>) -> Vec<T> {
    states.remove(0);
    states
}

fn merged<T: Accumulator>(states: &[T]) -> T {
    states.iter().fold(T::NONE, |mut all, state| {
        all.add(state);
        all
    })
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

    /// Texts that begin alike, end with zeros, and are about as long as those that are compared as numbers.
    fn given() -> impl Strategy<Value = TestRow> {
        let text = (0usize..3, prop::collection::vec(prop_oneof![Just(0u8), Just(255), 1u8..3], 0..4));
        let text = text.prop_map(|(number, end)| [vec![b'a'; [0, 13, 15][number]], end].concat());
        (-1i8..2, prop::option::weighted(0.8, text))
    }

    fn ends(rows: &[TestRow]) -> Vec<Option<(Vec<u8>, Vec<u8>)>> {
        let mut groups = BTreeMap::new();
        for (key, text) in rows {
            let best: &mut Option<(Vec<u8>, Vec<u8>)> = groups.entry(key).or_default();
            let Some(text) = text else { continue };
            let (least, most) = best.get_or_insert_with(|| (text.clone(), text.clone()));
            *least = least.clone().min(text.clone());
            *most = most.clone().max(text.clone());
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
        fn the_least_and_the_greatest_text_of_a_group_are_those_of_a_naive_loop_whatever_the_layout(
            rows in prop::collection::vec(given(), 1..60), cut in any::<usize>(),
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
                    RecordBatch::try_from_iter_with_nullable([("k", Arc::new(keys) as ArrayRef, false), ("t", texts, true)]).unwrap()
                };
                let (first, rest) = rows.split_at(cut % (rows.len() + 1));
                let dataset = Dataset::try_from(vec![batch(first), batch(rest)]).unwrap();
                let found = dataset.aggregate(&["k"]).column_as("least", "t", AggregateFunction::Min).column_as("most", "t", AggregateFunction::Max);
                let found = found.finish().unwrap().sort(&[("k", false)]).unwrap();
                let least = |row: crate::Row<'_>| bytes(row.get(1).unwrap()).zip(bytes(row.get(2).unwrap()));
                let found: Vec<_> = found.rows().map(|row| least(row.unwrap())).collect();
                prop_assert_eq!(found, ends(&rows), "{:?}", layout);
            }
        }
    }
}
