//! The running state of each group: first of one block, then of all blocks, merged in order.

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::groups::{Groups, cell};
use super::intern::Cell;
use crate::array::access::fixed_values;
use crate::compute::frame::Frame;
use crate::compute::kernels::{FloatSum, add_f64, add_squares_f64, decimal_to_f64};
use crate::compute::reduce::{
    LANES, OUT, Rows, add_floats, add_squares, count, each_decimal, each_float, each_integer, number_rows,
};
use crate::compute::select::{AT_ONCE, Formula, FormulaRows, Mask, nulls};
use crate::error::Result;

/// A kind of state, and its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum StateKind {
    Rows,
    Count(usize),
    Floats(usize),
    Integers(usize),
    Decimals(usize),
    Moments(usize),
    IntegerMoments(usize),
    DecimalMoments(usize),
    /// All values, for what has no state that is smaller.
    Values(usize),
    Extreme {
        end: End,
        values: ValueKind,
        column: usize,
    },
    /// The first or the last row, whatever it holds.
    Row(End),
}

/// Which extreme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum End {
    Least,
    Most,
}

/// The values compared for an extreme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum ValueKind {
    Integers,
    Floats,
    Texts,
}

/// The state of a group, which can be merged with that of another block.
trait Kept: Clone {
    /// The state for no rows.
    const NONE: Self;

    fn add(&mut self, other: &Self);
}

impl Kept for u64 {
    const NONE: u64 = 0;

    fn add(&mut self, other: &u64) {
        *self += other;
    }
}

/// A float sum and its accumulated rounding error (Neumaier, *Rundungsfehleranalyse einiger Verfahren zur Summation
/// endlicher Summen*), and how many there are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    sum: f64,
    lost: f64,
    pub count: u64,
}

impl Sum {
    /// Of sums and counts in lanes.
    pub(super) fn of_lanes(lanes: &[[f64; 2]]) -> Sum {
        let [sum, count] = [0, 1].map(|part| (lanes[0][part] + lanes[1][part]) + (lanes[2][part] + lanes[3][part]));
        Sum { sum, lost: 0.0, count: count as u64 }
    }

    pub(super) fn total(&self) -> f64 {
        // The rounding error at infinity is NaN.
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

impl Kept for Sum {
    const NONE: Sum = Sum { sum: 0.0, lost: 0.0, count: 0 };

    /// From sums of one block, without a rounding error yet.
    fn add(&mut self, other: &Sum) {
        let number = other.sum;
        let total = self.sum + number;
        if self.sum.abs() >= number.abs() {
            self.lost += (self.sum - total) + number;
        } else {
            self.lost += (number - total) + self.sum;
        }
        self.sum = total;
        self.count += other.count;
    }
}

/// A sum of integers of at most 64 bits, and their count.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntegerSum {
    pub sum: i128,
    pub count: u64,
}

impl Kept for IntegerSum {
    const NONE: IntegerSum = IntegerSum { sum: 0, count: 0 };

    fn add(&mut self, other: &IntegerSum) {
        // The sum of 2^64 integers of 64 bits fits.
        self.sum += other.sum;
        self.count += other.count;
    }
}

/// A sum of the digits of decimals, and their count.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecimalSum {
    /// `None` if 256 bits overflowed.
    pub sum: Option<i256>,
    pub count: u64,
}

impl DecimalSum {
    fn push(&mut self, digits: i256) {
        self.sum = self.sum.and_then(|sum| sum.checked_add(digits));
        self.count += 1;
    }
}

impl Kept for DecimalSum {
    const NONE: DecimalSum = DecimalSum { sum: Some(i256::ZERO), count: 0 };

    fn add(&mut self, other: &DecimalSum) {
        self.sum = self.sum.zip(other.sum).and_then(|(a, b)| a.checked_add(b));
        self.count += other.count;
    }
}

/// Count, mean, and sum of squared distances from the mean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub count: u64,
    mean: f64,
    squares: f64,
}

impl Kept for Moments {
    const NONE: Moments = Moments { count: 0, mean: 0.0, squares: 0.0 };

    /// Merges both (Chan, Golub and LeVeque, *Updating Formulae and a Pairwise Algorithm for Computing Sample
    /// Variances*).
    fn add(&mut self, other: &Moments) {
        let count = self.count + other.count;
        if self.count == 0 {
            // The distance from the mean of nothing may be too large for its square.
            *self = *other;
        } else if other.count > 0 {
            let distance = other.mean - self.mean;
            let share = other.count as f64 / count as f64;
            self.squares += other.squares + distance * distance * self.count as f64 * share;
            self.mean += distance * share;
        }
        self.count = count;
    }
}

impl Moments {
    /// The sample variance; `None` for fewer than two.
    pub(super) fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }
}

/// Count, sum and sum of squares of integers of at most 64 bits, without rounding: in any order they are the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntegerMoments {
    pub count: u64,
    sum: i128,
    squares: u128,
    /// How often `squares` overflowed.
    carries: u64,
}

impl IntegerMoments {
    fn push(&mut self, number: i128) {
        // A square of 64 bits fits; the sum of 2^64 of them fits 192 bits.
        let (squares, is_over) = self.squares.overflowing_add(number.unsigned_abs().wrapping_pow(2));
        self.count += 1;
        self.sum = self.sum.wrapping_add(number);
        self.squares = squares;
        self.carries += u64::from(is_over);
    }

    /// The sample variance, rounded once at the end; `None` for fewer than two.
    pub(super) fn variance(&self) -> Option<f64> {
        let count = i256::from_i128(self.count.into());
        let squares = i256::from_parts(self.squares, self.carries.into());
        let sum = i256::from_i128(self.sum);
        // Both products are at most n² 2^128, and n is less than 2^63.
        let distances = count.wrapping_mul(squares).wrapping_sub(sum.wrapping_mul(sum));
        let pairs = self.count as f64 * self.count.saturating_sub(1) as f64;
        (self.count > 1).then(|| decimal_to_f64(distances, 0) / pairs)
    }
}

impl Kept for IntegerMoments {
    const NONE: IntegerMoments = IntegerMoments { count: 0, sum: 0, squares: 0, carries: 0 };

    fn add(&mut self, other: &IntegerMoments) {
        let (squares, is_over) = self.squares.overflowing_add(other.squares);
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares = squares;
        self.carries += other.carries + u64::from(is_over);
    }
}

/// The moments of wide decimals' digits as distances from the first, which is exact: digits beyond those of a float may be
/// all that differs.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecimalMoments {
    first: i256,
    pub distances: Moments,
}

impl Kept for DecimalMoments {
    const NONE: DecimalMoments = DecimalMoments { first: i256::ZERO, distances: Moments::NONE };

    fn add(&mut self, other: &DecimalMoments) {
        if self.distances.count == 0 {
            *self = *other;
        } else if other.distances.count > 0 {
            let mean = distance(other.first, self.first) + other.distances.mean;
            self.distances.add(&Moments { mean, ..other.distances });
        }
    }
}

/// The difference of two decimals' digits.
fn distance(digits: i256, from: i256) -> f64 {
    // Digits have at most 253 bits.
    decimal_to_f64(digits.wrapping_sub(from), 0)
}

/// The values of a group as floats, without nulls and NaN.
#[derive(Clone, Debug, Default)]
pub(super) struct Values64(Vec<f64>);

impl Kept for Values64 {
    const NONE: Values64 = Values64(Vec::new());

    fn add(&mut self, other: &Values64) {
        self.0.extend_from_slice(&other.0);
    }
}

impl Values64 {
    /// The value in the middle, or the mean of the two there; `None` of no values.
    pub(super) fn median(&self) -> Option<f64> {
        let mut values = self.0.clone();
        let middle = values.len() / 2;
        let is_even = values.len().is_multiple_of(2);
        if values.is_empty() {
            return None;
        }
        let (below, &mut high, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
        let low = if is_even { below.iter().copied().max_by(f64::total_cmp).unwrap_or(high) } else { high };
        // Halves first: the sum of two large ones may be too large.
        Some(if low == high { low } else { low / 2.0 + high / 2.0 })
    }
}

/// The state of each group, beginning with group 1.
#[derive(Debug)]
pub(super) enum GroupState<'a> {
    Counts(Vec<u64>),
    Floats(Vec<Sum>),
    Integers(Vec<IntegerSum>),
    Decimals(Vec<DecimalSum>),
    Moments(Vec<Moments>),
    IntegerMoments(Vec<IntegerMoments>),
    DecimalMoments(Vec<DecimalMoments>),
    Values(Vec<Values64>),
    Integer(Extreme<i256>),
    Float(Extreme<f64>),
    Text(Extreme<FoundText<'a>>),
    Row(Extreme<u64>),
}

/// A text, and its row in the dataset.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundText<'a> {
    pub bytes: &'a [u8],
    pub row: u64,
}

/// The best value of each group; `None` without values.
#[derive(Clone, Debug)]
pub(super) struct Extreme<T> {
    pub best: Vec<Option<T>>,
    is_better: fn(&T, &T) -> bool,
}

impl<T: Copy> Extreme<T> {
    fn new(is_better: fn(&T, &T) -> bool, groups: usize) -> Extreme<T> {
        Extreme { best: vec![None; groups], is_better }
    }

    #[inline]
    pub(super) fn offer(&mut self, group: usize, value: T) {
        if let Some(best) = self.best.get_mut(group)
            && best.is_none_or(|best| (self.is_better)(&value, &best))
        {
            *best = Some(value);
        }
    }

    fn merge(&mut self, to: &[usize], count: usize, more: &[Option<T>]) {
        self.best.resize(count.max(self.best.len()), None);
        for (&group, value) in to.iter().zip(more) {
            value.iter().for_each(|&value| self.offer(group, value));
        }
    }

    /// Drops group 0, of excluded rows.
    fn without_first(mut self) -> Extreme<T> {
        self.best.remove(0);
        self
    }
}

impl<'a> GroupState<'a> {
    /// Empty states for `groups` groups.
    pub(super) fn empty(kind: StateKind, groups: usize) -> GroupState<'a> {
        match kind {
            StateKind::Rows | StateKind::Count(_) => GroupState::Counts(vec![Kept::NONE; groups]),
            StateKind::Floats(_) => GroupState::Floats(vec![Kept::NONE; groups]),
            StateKind::Integers(_) => GroupState::Integers(vec![Kept::NONE; groups]),
            StateKind::Decimals(_) => GroupState::Decimals(vec![Kept::NONE; groups]),
            StateKind::Moments(_) => GroupState::Moments(vec![Kept::NONE; groups]),
            StateKind::IntegerMoments(_) => GroupState::IntegerMoments(vec![Kept::NONE; groups]),
            StateKind::DecimalMoments(_) => GroupState::DecimalMoments(vec![Kept::NONE; groups]),
            StateKind::Values(_) => GroupState::Values(vec![Kept::NONE; groups]),
            StateKind::Extreme { end, values: ValueKind::Integers, .. } => GroupState::Integer(integers(end, groups)),
            StateKind::Extreme { end, values: ValueKind::Floats, .. } => GroupState::Float(floats(end, groups)),
            StateKind::Extreme { end, values: ValueKind::Texts, .. } => GroupState::Text(texts(end, groups)),
            StateKind::Row(end) => GroupState::Row(rows(end, groups)),
        }
    }

    /// The states for the rows of block `block`, by group.
    pub(super) fn of_block(
        kind: StateKind,
        frame: &Frame<'a>,
        block: usize,
        groups: &Groups<'a>,
        computed: &Computed<'_>,
    ) -> Result<GroupState<'a>> {
        let columns = BlockColumns { frame, block, groups, computed };
        match kind {
            StateKind::Rows => Ok(GroupState::Counts(columns.count_rows())),
            StateKind::Count(column) => columns.count(column).map(GroupState::Counts),
            StateKind::Floats(column) => columns.floats(column).map(GroupState::Floats),
            StateKind::Integers(column) => columns.integers(column).map(GroupState::Integers),
            StateKind::Decimals(column) => columns.decimals(column).map(GroupState::Decimals),
            StateKind::Moments(column) => columns.moments(column).map(GroupState::Moments),
            StateKind::IntegerMoments(column) => columns.integer_moments(column).map(GroupState::IntegerMoments),
            StateKind::DecimalMoments(column) => columns.decimal_moments(column).map(GroupState::DecimalMoments),
            StateKind::Values(column) => columns.values(column).map(GroupState::Values),
            StateKind::Extreme { end, values, column } => match values {
                ValueKind::Integers => columns.extreme_integers(end, column).map(GroupState::Integer),
                ValueKind::Floats => columns.extreme_floats(end, column).map(GroupState::Float),
                ValueKind::Texts => columns.extreme_texts(end, column).map(GroupState::Text),
            },
            StateKind::Row(end) => Ok(GroupState::Row(columns.end_rows(end))),
        }
    }

    /// Merges each group of `other`, of the same kind, into group `to` here, of `count` groups.
    pub(super) fn merge(&mut self, to: &[usize], count: usize, other: &GroupState<'a>) {
        match (self, other) {
            (GroupState::Counts(all), GroupState::Counts(more)) => merge(all, to, count, more),
            (GroupState::Floats(all), GroupState::Floats(more)) => merge(all, to, count, more),
            (GroupState::Integers(all), GroupState::Integers(more)) => merge(all, to, count, more),
            (GroupState::Decimals(all), GroupState::Decimals(more)) => merge(all, to, count, more),
            (GroupState::Moments(all), GroupState::Moments(more)) => merge(all, to, count, more),
            (GroupState::IntegerMoments(all), GroupState::IntegerMoments(more)) => merge(all, to, count, more),
            (GroupState::DecimalMoments(all), GroupState::DecimalMoments(more)) => merge(all, to, count, more),
            (GroupState::Values(all), GroupState::Values(more)) => merge(all, to, count, more),
            (GroupState::Integer(all), GroupState::Integer(more)) => all.merge(to, count, &more.best),
            (GroupState::Float(all), GroupState::Float(more)) => all.merge(to, count, &more.best),
            (GroupState::Text(all), GroupState::Text(more)) => all.merge(to, count, &more.best),
            (GroupState::Row(all), GroupState::Row(more)) => all.merge(to, count, &more.best),
            (this, other) => debug_assert!(false, "{this:?} and {other:?} are of different kinds"),
        }
    }
}

fn merge<T: Kept>(all: &mut Vec<T>, to: &[usize], count: usize, more: &[T]) {
    all.resize(count.max(all.len()), T::NONE);
    to.iter().zip(more).for_each(|(&group, more)| all[group].add(more));
}

fn integers(end: End, groups: usize) -> Extreme<i256> {
    match end {
        End::Least => Extreme::new(|a, b| a < b, groups),
        End::Most => Extreme::new(|a, b| a > b, groups),
    }
}

fn floats(end: End, groups: usize) -> Extreme<f64> {
    match end {
        End::Least => Extreme::new(|a, b| a < b || b.is_nan(), groups),
        End::Most => Extreme::new(|a, b| a > b || b.is_nan(), groups),
    }
}

pub(super) fn texts<'a>(end: End, groups: usize) -> Extreme<FoundText<'a>> {
    match end {
        End::Least => Extreme::new(|a, b| a.bytes < b.bytes, groups),
        End::Most => Extreme::new(|a, b| a.bytes > b.bytes, groups),
    }
}

fn rows(end: End, groups: usize) -> Extreme<u64> {
    match end {
        End::Least => Extreme::new(|a, b| a < b, groups),
        End::Most => Extreme::new(|a, b| a > b, groups),
    }
}

/// The columns of a block, with the rows' groups.
struct BlockColumns<'f, 'a> {
    frame: &'f Frame<'a>,
    block: usize,
    groups: &'f Groups<'a>,
    computed: &'f Computed<'f>,
}

/// What is computed of columns, numbered from `columns` on.
pub(super) struct Computed<'f> {
    pub columns: usize,
    pub formulas: &'f [Formula],
}

impl Computed<'_> {
    fn get(&self, column: usize) -> Option<&Formula> {
        self.formulas.get(column.checked_sub(self.columns)?)
    }
}

impl<'a> BlockColumns<'_, 'a> {
    fn each(&self, column: usize, mut work: impl FnMut(&Rows<'a>, &[u32]) -> Result<()>) -> Result<()> {
        let mut at = 0;
        for (part, rows) in self.frame.spans(self.block) {
            let ids = &self.groups.ids[at..at + rows.len()];
            let array = self.frame.checked(part, column)?;
            at += rows.len();
            work(&Rows { array, rows, ids: &[], lane: (at - ids.len()) % LANES }, ids)?;
        }
        Ok(())
    }

    /// The same for numbers, with dictionary keys looked up.
    fn each_number(&self, column: usize, mut work: impl FnMut(&Rows<'_>) -> Result<()>) -> Result<()> {
        if let Some(formula) = self.computed.get(column) {
            return self.each_computed(formula, work);
        }
        self.each(column, |rows, ids| {
            number_rows(rows.array, rows.rows.clone(), |array, inside| {
                work(&Rows { array, rows: inside, ids, lane: rows.lane })
            })
        })
    }

    /// The same for what is computed, a few thousand rows at a time.
    fn each_computed(&self, formula: &Formula, mut work: impl FnMut(&Rows<'_>) -> Result<()>) -> Result<()> {
        let mut at = 0;
        for (part, rows) in self.frame.spans(self.block) {
            for start in rows.clone().step_by(AT_ONCE) {
                let rows = start..rows.end.min(start + AT_ONCE);
                let ids = &self.groups.ids[at..at + rows.len()];
                let some = FormulaRows { frame: self.frame, part, rows, wanted: &|row| ids[row] != OUT };
                let array = formula.array(&some)?;
                work(&Rows { array: &array, rows: 0..ids.len(), ids, lane: at % LANES })?;
                at += ids.len();
            }
        }
        Ok(())
    }

    /// Space for each lane of each group, including group 0.
    fn lanes<T: Clone>(&self, new: T) -> Vec<T> {
        vec![new; (self.groups.count() + 1) * LANES]
    }

    fn count_rows(&self) -> Vec<u64> {
        let mut counts = self.lanes(0);
        count(&self.groups.ids, 0, &mut counts);
        joined(&counts, |lanes| lanes.iter().sum())
    }

    fn count(&self, column: usize) -> Result<Vec<u64>> {
        let mut counts = self.lanes(0);
        let mut add = |rows: &Rows<'_>, ids: &[u32]| {
            let valid = nulls(rows.array, &rows.rows, false)?;
            let masked = |(row, &id): (usize, &u32)| if valid.is_set(row) { id } else { OUT };
            count(&ids.iter().enumerate().map(masked).collect::<Vec<_>>(), rows.lane, &mut counts);
            Ok(())
        };
        match self.computed.get(column) {
            Some(formula) => self.each_computed(formula, |rows| add(rows, rows.ids))?,
            None => self.each(column, add)?,
        }
        Ok(joined(&counts, |lanes| lanes.iter().sum()))
    }

    fn floats(&self, column: usize) -> Result<Vec<Sum>> {
        let mut sums = self.lanes([0.0; 2]);
        self.each_number(column, |rows| add_floats(rows, &mut sums))?;
        Ok(joined(&sums, Sum::of_lanes))
    }

    fn integers(&self, column: usize) -> Result<Vec<IntegerSum>> {
        let mut sums = self.lanes(IntegerSum::NONE);
        self.each_number(column, |rows| {
            each_integer(rows, |id, lane, number| {
                if let Some(sum) = sums.get_mut(id as usize * LANES + lane) {
                    sum.sum = sum.sum.wrapping_add(number);
                    sum.count += 1;
                }
            })
        })?;
        Ok(joined(&sums, merged))
    }

    fn decimals(&self, column: usize) -> Result<Vec<DecimalSum>> {
        let mut sums = vec![DecimalSum::NONE; self.groups.count() + 1];
        self.each_number(column, |rows| {
            each_decimal(rows, |id, digits| {
                if let Some(sum) = sums.get_mut(id as usize).filter(|_| id != OUT) {
                    sum.push(digits);
                }
            })
        })?;
        Ok(sums.split_off(1))
    }

    /// The same for floats without nulls in one group, summed at memory speed.
    fn moments_of_all(&self, column: usize) -> Result<Option<Moments>> {
        let is_computed = self.computed.get(column).is_some();
        if is_computed || self.groups.width > 0 || self.groups.count() != 1 || self.groups.ids.contains(&OUT) {
            return Ok(None);
        }
        let mut pieces: Vec<&[[u8; 8]]> = Vec::new();
        for (part, rows) in self.frame.spans(self.block) {
            let array = self.frame.checked(part, column)?;
            let has_nulls = Mask::valid(array, &rows).is_some_and(|valid| valid.count() < rows.len());
            if *array.data_type() != DataType::Float64 || has_nulls {
                return Ok(None);
            }
            pieces.push(fixed_values(array).get(rows).unwrap_or_default());
        }
        let mut sum = FloatSum::default();
        pieces.iter().for_each(|piece| add_f64(&mut sum, piece));
        let count = self.groups.ids.len() as u64;
        let mean = sum.total() / count as f64;
        let squares_from = |mean: f64| {
            let mut squares = FloatSum::default();
            pieces.iter().for_each(|piece| add_squares_f64(&mut squares, mean, piece));
            squares.total()
        };
        let squares = squares_from(mean);
        if squares.is_finite() || !mean.is_finite() {
            return Ok(Some(Moments { count, mean, squares }));
        }
        // The rounding error of a mean of large values may be too large to be squared, where all distances are small.
        let rest = pieces.iter().flat_map(|piece| piece.iter()).map(|raw| f64::from_le_bytes(*raw) - mean).sum::<f64>();
        let mean = mean + rest / count as f64;
        Ok(Some(Moments { count, mean, squares: squares_from(mean) }))
    }

    /// Computes the means of the block's groups, then the distances from them.
    fn moments(&self, column: usize) -> Result<Vec<Moments>> {
        if let Some(moments) = self.moments_of_all(column)? {
            return Ok(vec![moments]);
        }
        let sums = self.floats(column)?;
        let mean = |sum: &Sum| if sum.count == 0 { 0.0 } else { sum.total() / sum.count as f64 };
        let mut means: Vec<f64> = std::iter::once(0.0).chain(sums.iter().map(mean)).collect();
        let mut squares = self.squares(column, &means)?;
        let is_off = |number: usize, squares: &[f64]| !squares[number].is_finite() && means[number + 1].is_finite();
        let off: Vec<usize> = (0..squares.len()).filter(|&number| is_off(number, &squares)).collect();
        if !off.is_empty() {
            // As for all rows: the rounding error of a mean may be too large to be squared.
            let mut rests = vec![0.0; means.len()];
            self.each_number(column, |rows| {
                each_float(rows, |id, _, number| {
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
        self.each_number(column, |rows| add_squares(rows, means, &mut squares))?;
        Ok(joined(&squares, |lanes| (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])))
    }

    fn integer_moments(&self, column: usize) -> Result<Vec<IntegerMoments>> {
        let mut moments = self.lanes(IntegerMoments::NONE);
        self.each_number(column, |rows| {
            each_integer(rows, |id, lane, number| {
                if let Some(moments) = moments.get_mut(id as usize * LANES + lane) {
                    moments.push(number);
                }
            })
        })?;
        Ok(joined(&moments, merged))
    }

    /// Computes the means of the distances from each group's first value, then the distances from them.
    fn decimal_moments(&self, column: usize) -> Result<Vec<DecimalMoments>> {
        let mut moments = vec![DecimalMoments::NONE; self.groups.count() + 1];
        self.each_number(column, |rows| {
            each_decimal(rows, |id, digits| {
                if let Some(DecimalMoments { first, distances }) = moments.get_mut(id as usize) {
                    *first = if distances.count == 0 { digits } else { *first };
                    distances.mean += distance(digits, *first);
                    distances.count += 1;
                }
            })
        })?;
        moments.iter_mut().for_each(|group| group.distances.mean /= group.distances.count.max(1) as f64);
        self.each_number(column, |rows| {
            each_decimal(rows, |id, digits| {
                if let Some(DecimalMoments { first, distances }) = moments.get_mut(id as usize) {
                    distances.squares += (distance(digits, *first) - distances.mean).powi(2);
                }
            })
        })?;
        Ok(moments.split_off(1))
    }

    fn values(&self, column: usize) -> Result<Vec<Values64>> {
        let mut values = vec![Values64::NONE; self.groups.count() + 1];
        self.each_number(column, |rows| {
            each_float(rows, |id, _, number| {
                if let Some(values) = values.get_mut(id as usize).filter(|_| id != OUT && !number.is_nan()) {
                    values.0.push(number);
                }
            })
        })?;
        Ok(values.split_off(1))
    }

    fn extreme_integers(&self, end: End, column: usize) -> Result<Extreme<i256>> {
        let mut extreme = integers(end, self.groups.count() + 1);
        self.each_number(column, |rows| each_decimal(rows, |id, number| extreme.offer(id as usize, number)))?;
        Ok(extreme.without_first())
    }

    fn extreme_floats(&self, end: End, column: usize) -> Result<Extreme<f64>> {
        let mut extreme = floats(end, self.groups.count() + 1);
        self.each_number(column, |rows| each_float(rows, |id, _, number| extreme.offer(id as usize, number)))?;
        Ok(extreme.without_first())
    }

    fn end_rows(&self, end: End) -> Extreme<u64> {
        let mut found = rows(end, self.groups.count() + 1);
        let numbers = self.frame.block_start(self.block)..;
        self.groups.ids.iter().zip(numbers).for_each(|(&id, row)| found.offer(id as usize, row));
        found.without_first()
    }

    fn extreme_texts(&self, end: End, column: usize) -> Result<Extreme<FoundText<'a>>> {
        let mut extreme = texts(end, self.groups.count() + 1);
        let mut row_of_all = self.frame.block_start(self.block);
        self.each(column, |rows, ids| {
            for (row, &id) in rows.rows.clone().zip(ids) {
                if id != OUT
                    && let Cell::Bytes(bytes) = cell(rows.array, row)?
                {
                    extreme.offer(id as usize, FoundText { bytes, row: row_of_all });
                }
                row_of_all += 1;
            }
            Ok(())
        })?;
        Ok(extreme.without_first())
    }
}

/// The merged lanes of each group but group 0.
fn joined<T, U>(lanes: &[T], join: impl Fn(&[T]) -> U) -> Vec<U> {
    lanes.chunks(LANES).skip(1).map(join).collect()
}

fn merged<T: Kept>(states: &[T]) -> T {
    states.iter().fold(T::NONE, |mut all, state| {
        all.add(state);
        all
    })
}

/// Whether the type's values are integers of at most 64 bits, or stored as such.
pub(in crate::compute) fn is_integer(data_type: &DataType) -> bool {
    use DataType::*;
    let is_time = matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_));
    data_type.is_integer() || is_time || matches!(data_type, Boolean | Decimal32(..) | Decimal64(..))
}
