//! Defines the running state of a group for each aggregate function.
//!
//! A [`StateKind`] says what is accumulated of which column; functions that need the same share it, such as a sum and a
//! mean. A [`GroupState`] has the states of one kind for all groups. States of a block are merged into the states of
//! the blocks before it, in order.

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::bitsets::{IntegerRange, IntegerSets};
use crate::array::{decimal_quotient, decimal_to_f64};
use crate::compute::group::keys::KeyPart;
use crate::error::{Error, Result};

/// A kind of state, and the number of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum StateKind {
    /// The number of rows.
    RowCount,
    /// The number of values that are not null.
    Count(usize),
    /// The sum and the count of floats.
    Floats(usize),
    /// The sum and the count of integers of at most 64 bits.
    Integers(usize),
    /// The sum and the count of decimals of more than 64 bits.
    Decimals(usize),
    /// The mean and the variance of floats.
    Moments(usize),
    /// The mean and the variance of integers of at most 64 bits.
    IntegerMoments(usize),
    /// The mean and the variance of decimals of more than 64 bits.
    DecimalMoments(usize),
    /// All values, for functions without a smaller state.
    Values(usize),
    /// The distinct integers of a range.
    Distinct { range: IntegerRange, column: usize },
    /// The smallest or the greatest value.
    Extreme { end: ExtremeKind, values: ValueKind, column: usize },
    /// The first (`Min`) or the last (`Max`) row, whatever it holds.
    Row(ExtremeKind),
}

impl StateKind {
    /// Returns the number of the column that is aggregated; `None` if no values are.
    pub(in crate::compute::group) fn column(&self) -> Option<usize> {
        use StateKind::*;
        match *self {
            RowCount | Row(_) => None,
            Count(column) | Floats(column) | Integers(column) | Decimals(column) | Moments(column) => Some(column),
            IntegerMoments(column) | DecimalMoments(column) | Values(column) => Some(column),
            Distinct { column, .. } | Extreme { column, .. } => Some(column),
        }
    }

    /// Returns true if the state depends on the numbers of rows and not on their values.
    pub(in crate::compute::group) fn needs_only_row_numbers(&self) -> bool {
        matches!(self, StateKind::RowCount | StateKind::Row(_))
    }

    /// Returns the number of bytes of a group's state.
    pub(in crate::compute::group) fn bytes(&self) -> usize {
        use StateKind::*;
        match self {
            RowCount | Count(_) => size_of::<u64>(),
            Floats(_) => size_of::<NeumaierSum>(),
            Integers(_) => size_of::<IntegerSum>(),
            Decimals(_) => size_of::<DecimalSum>(),
            Moments(_) => size_of::<self::Moments>(),
            IntegerMoments(_) => size_of::<self::IntegerMoments>(),
            DecimalMoments(_) => size_of::<self::DecimalMoments>(),
            Values(_) => size_of::<FloatValues>(),
            Distinct { range, .. } => range.bytes(),
            Extreme { values: ValueKind::Integers, .. } => size_of::<Option<i256>>(),
            Extreme { values: ValueKind::Floats, .. } => size_of::<Option<f64>>(),
            Extreme { values: ValueKind::Texts, .. } => size_of::<Option<RowText<'_>>>(),
            Row(_) => size_of::<Option<u64>>(),
        }
    }

    /// Replaces the number of the column by the result of `renumber`.
    pub(in crate::compute::group) fn with_column(
        mut self,
        renumber: impl Fn(usize) -> Result<usize>,
    ) -> Result<StateKind> {
        use StateKind::*;
        match &mut self {
            RowCount | Row(_) => {}
            Count(column) | Floats(column) | Integers(column) | Decimals(column) | Moments(column) => {
                *column = renumber(*column)?;
            }
            IntegerMoments(column) | DecimalMoments(column) | Values(column) => *column = renumber(*column)?,
            Distinct { column, .. } | Extreme { column, .. } => *column = renumber(*column)?,
        }
        Ok(self)
    }
}

/// The smallest or the greatest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum ExtremeKind {
    Min,
    Max,
}

/// The values compared for an extreme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum ValueKind {
    Integers,
    Floats,
    Texts,
}

/// The state of a group, which can be merged with its state of another block.
pub(super) trait Accumulator: Clone {
    /// The state for no rows.
    const NONE: Self;

    /// Merges the state of later rows into this one.
    fn add(&mut self, other: &Self);
}

impl Accumulator for u64 {
    const NONE: u64 = 0;

    fn add(&mut self, other: &u64) {
        *self += other;
    }
}

/// A sum of floats and its accumulated rounding error (Neumaier, *Rundungsfehleranalyse einiger Verfahren zur Summation
/// endlicher Summen*), and their count.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::compute::group) struct NeumaierSum {
    sum: f64,
    rounding_error: f64,
    pub count: u64,
}

impl NeumaierSum {
    /// Adds up the sum and the count of each of four lanes, in pairs.
    pub(in crate::compute::group) fn from_lanes(lanes: &[[f64; 2]]) -> NeumaierSum {
        let [sum, count] = [0, 1].map(|part| (lanes[0][part] + lanes[1][part]) + (lanes[2][part] + lanes[3][part]));
        NeumaierSum { sum, rounding_error: 0.0, count: count as u64 }
    }

    pub(super) fn from_value(number: f64) -> NeumaierSum {
        NeumaierSum { sum: number, rounding_error: 0.0, count: 1 }
    }

    /// Returns the sum, corrected by the rounding error.
    pub(super) fn total(&self) -> f64 {
        // The rounding error is NaN if the sum is infinite, and may be NaN if the sum is close to the greatest float.
        let is_known = self.sum.is_finite() && self.rounding_error.is_finite();
        if is_known { self.sum + self.rounding_error } else { self.sum }
    }
}

impl Accumulator for NeumaierSum {
    const NONE: NeumaierSum = NeumaierSum { sum: 0.0, rounding_error: 0.0, count: 0 };

    #[inline(always)]
    fn add(&mut self, other: &NeumaierSum) {
        let total = self.sum + other.sum;
        // Computes the rounding error without comparing both sums (Knuth, *The Art of Computer Programming* 2, 4.2.2).
        let other_part = total - self.sum;
        let self_part = total - other_part;
        self.rounding_error += (self.sum - self_part) + (other.sum - other_part) + other.rounding_error;
        self.sum = total;
        self.count += other.count;
    }
}

/// A sum of integers of at most 64 bits, and their count.
#[derive(Clone, Copy, Debug)]
pub(in crate::compute::group) struct IntegerSum {
    pub sum: i128,
    pub count: u64,
}

impl Accumulator for IntegerSum {
    const NONE: IntegerSum = IntegerSum { sum: 0, count: 0 };

    fn add(&mut self, other: &IntegerSum) {
        // The sum of 2^64 integers of 64 bits fits.
        self.sum += other.sum;
        self.count += other.count;
    }
}

/// A sum of the digits of decimals, and their count. The result is the same in any order of the decimals.
#[derive(Clone, Copy, Debug)]
pub(in crate::compute::group) struct DecimalSum {
    /// The lower 256 bits of the sum.
    low: i256,
    /// The number of overflows above `i256::MAX`, less the number of overflows below `i256::MIN`.
    carries: i64,
    pub count: u64,
}

impl DecimalSum {
    /// Adds the digits of a decimal.
    pub(super) fn push(&mut self, digits: i256) {
        self.add_digits(digits);
        self.count += 1;
    }

    fn add_digits(&mut self, digits: i256) {
        self.low = self.low.checked_add(digits).unwrap_or_else(|| {
            self.carries += if digits.is_negative() { -1 } else { 1 };
            self.low.wrapping_add(digits)
        });
    }

    /// Returns the sum; `None` if 256 bits do not hold it.
    pub(super) fn total(&self) -> Option<i256> {
        (self.carries == 0).then_some(self.low)
    }

    /// Returns the mean of decimals of scale `scale`; `None` if there are none.
    pub(super) fn mean(&self, scale: i8) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        if self.carries == 0 {
            return Some(decimal_quotient(self.low, scale, self.count));
        }
        // A sum of more than 255 bits has a mean of more than 192 bits, whose last few bits do not matter. As digits
        // have at most 253 bits, there are far fewer carries than decimals, and nothing overflows.
        let count = i256::from_i128(self.count.into());
        let each = i256::MAX.wrapping_div(count).wrapping_mul(i256::from_i128(2));
        let carried = each.wrapping_mul(i256::from_i128(self.carries.into()));
        Some(decimal_to_f64(carried.wrapping_add(self.low.wrapping_div(count)), scale))
    }
}

impl Accumulator for DecimalSum {
    const NONE: DecimalSum = DecimalSum { low: i256::ZERO, carries: 0, count: 0 };

    fn add(&mut self, other: &DecimalSum) {
        self.add_digits(other.low);
        self.carries += other.carries;
        self.count += other.count;
    }
}

/// Count, mean, and sum of squared distances from the mean.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::compute::group) struct Moments {
    pub count: u64,
    pub mean: f64,
    pub squares: f64,
}

impl Accumulator for Moments {
    const NONE: Moments = Moments { count: 0, mean: 0.0, squares: 0.0 };

    /// Merges both (Chan, Golub and LeVeque, *Updating Formulae and a Pairwise Algorithm for Computing Sample
    /// Variances*).
    fn add(&mut self, other: &Moments) {
        let count = self.count + other.count;
        if self.count == 0 {
            // An empty state has a mean of 0, and the square of the distance from it may overflow.
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
    /// Returns the sample variance; `None` for fewer than two values.
    pub(super) fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }
}

/// Count, sum and sum of squares of integers of at most 64 bits. Nothing is rounded, so the result is the same in any
/// order of the integers. Floats would lose the variance of times within a microsecond: nanoseconds since 1970 have 61
/// bits, their squares twice as many, and a float has 53.
#[derive(Clone, Copy, Debug)]
pub(in crate::compute::group) struct IntegerMoments {
    pub count: u64,
    sum: i128,
    squares: u128,
    /// The number of times that `squares` overflowed.
    carries: u64,
}

impl IntegerMoments {
    /// Adds an integer of at most 64 bits.
    pub(super) fn push(&mut self, number: i128) {
        // A square of 64 bits fits; the sum of 2^64 of them fits 192 bits.
        let (squares, is_over) = self.squares.overflowing_add(number.unsigned_abs().wrapping_pow(2));
        self.count += 1;
        self.sum = self.sum.wrapping_add(number);
        self.squares = squares;
        self.carries += u64::from(is_over);
    }

    /// Returns the sample variance, rounded once at the end; `None` for fewer than two values.
    pub(super) fn variance(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let count = i256::from_i128(self.count.into());
        let squares = i256::from_parts(self.squares, self.carries.into());
        let sum = i256::from_i128(self.sum);
        // Both products are at most n² 2^128, and n is less than 2^63.
        let distances = count.wrapping_mul(squares).wrapping_sub(sum.wrapping_mul(sum));
        debug_assert!(!distances.is_negative(), "the sum of squared distances of {} values is negative", self.count);
        let pairs = self.count as f64 * (self.count - 1) as f64;
        Some(decimal_to_f64(distances, 0) / pairs)
    }
}

impl Accumulator for IntegerMoments {
    const NONE: IntegerMoments = IntegerMoments { count: 0, sum: 0, squares: 0, carries: 0 };

    fn add(&mut self, other: &IntegerMoments) {
        let (squares, is_over) = self.squares.overflowing_add(other.squares);
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares = squares;
        self.carries += other.carries + u64::from(is_over);
    }
}

/// The moments of wide decimals, as distances of their digits from the digits of the first one. Decimals may differ
/// only in digits that a float does not hold; their distances are floats with all digits that matter.
#[derive(Clone, Copy, Debug)]
pub(in crate::compute::group) struct DecimalMoments {
    /// The digits of the first decimal; meaningless if there is none.
    pub first: i256,
    /// The moments of the distances from `first`.
    pub distances: Moments,
}

impl Accumulator for DecimalMoments {
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

/// Returns the difference of two decimals' digits.
pub(super) fn distance(digits: i256, from: i256) -> f64 {
    // Digits have at most 253 bits.
    decimal_to_f64(digits.wrapping_sub(from), 0)
}

/// The values of a group as floats, without nulls and NaN.
#[derive(Clone, Debug, Default)]
pub(in crate::compute::group) struct FloatValues(pub Vec<f64>);

impl Accumulator for FloatValues {
    const NONE: FloatValues = FloatValues(Vec::new());

    fn add(&mut self, other: &FloatValues) {
        self.0.extend_from_slice(&other.0);
    }
}

impl FloatValues {
    /// Returns the value in the middle, or the mean of the two values in the middle; `None` if there are no values.
    pub(super) fn median(&self) -> Option<f64> {
        if self.0.is_empty() {
            return None;
        }
        let mut values = self.0.clone();
        let middle = values.len() / 2;
        let is_even = values.len().is_multiple_of(2);
        let (below, &mut high, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
        let low = if is_even { below.iter().copied().max_by(f64::total_cmp).unwrap_or(high) } else { high };
        Some(if low == high { low } else { low.midpoint(high) })
    }
}

/// The state of each group, beginning with group 1, by the kind of state.
#[derive(Debug)]
pub(in crate::compute::group) enum GroupState<'a> {
    Counts(Vec<u64>),
    Floats(Vec<NeumaierSum>),
    Integers(Vec<IntegerSum>),
    Decimals(Vec<DecimalSum>),
    Moments(Vec<Moments>),
    IntegerMoments(Vec<IntegerMoments>),
    DecimalMoments(Vec<DecimalMoments>),
    Values(Vec<FloatValues>),
    Distinct(IntegerSets),
    Integer(Extreme<i256>),
    Float(Extreme<f64>),
    Text(Extreme<RowText<'a>>),
    Row(Extreme<u64>),
}

/// A text, and its row in the dataset.
#[derive(Clone, Copy, Debug)]
pub(in crate::compute::group) struct RowText<'a> {
    pub bytes: &'a [u8],
    pub row: u64,
}

/// The smallest or the greatest value of each group.
#[derive(Clone, Debug)]
pub(in crate::compute::group) struct Extreme<T> {
    /// The best value of each group so far; `None` without values.
    pub best: Vec<Option<T>>,
    /// Returns true if the first value is better than the second.
    is_better: fn(&T, &T) -> bool,
}

impl<T: Copy> Extreme<T> {
    fn new(is_better: fn(&T, &T) -> bool, groups: usize) -> Extreme<T> {
        Extreme { best: vec![None; groups], is_better }
    }

    /// Makes `value` the best value of a group if it is better, or the first. Does nothing if there is no such group.
    #[inline]
    pub(super) fn offer(&mut self, group: usize, value: T) {
        if let Some(best) = self.best.get_mut(group)
            && best.is_none_or(|best| (self.is_better)(&value, &best))
        {
            *best = Some(value);
        }
    }

    fn merge(&mut self, to: &[usize], count: usize, others: &[Option<T>]) {
        self.best.resize(count.max(self.best.len()), None);
        for (&group, value) in to.iter().zip(others) {
            if let Some(value) = value {
                self.offer(group, *value);
            }
        }
    }

    /// Removes group 0, whose rows are excluded.
    pub(super) fn without_first(mut self) -> Extreme<T> {
        assert!(!self.best.is_empty(), "excluded rows have a state");
        self.best.remove(0);
        self
    }
}

impl<'a> GroupState<'a> {
    /// Creates empty states for `groups` groups.
    pub(super) fn empty(kind: StateKind, groups: usize) -> GroupState<'a> {
        match kind {
            StateKind::RowCount | StateKind::Count(_) => GroupState::Counts(vec![Accumulator::NONE; groups]),
            StateKind::Floats(_) => GroupState::Floats(vec![Accumulator::NONE; groups]),
            StateKind::Integers(_) => GroupState::Integers(vec![Accumulator::NONE; groups]),
            StateKind::Decimals(_) => GroupState::Decimals(vec![Accumulator::NONE; groups]),
            StateKind::Moments(_) => GroupState::Moments(vec![Accumulator::NONE; groups]),
            StateKind::IntegerMoments(_) => GroupState::IntegerMoments(vec![Accumulator::NONE; groups]),
            StateKind::DecimalMoments(_) => GroupState::DecimalMoments(vec![Accumulator::NONE; groups]),
            StateKind::Values(_) => GroupState::Values(vec![Accumulator::NONE; groups]),
            StateKind::Distinct { range, .. } => GroupState::Distinct(IntegerSets::empty(range, groups)),
            StateKind::Extreme { end, values: ValueKind::Integers, .. } => {
                GroupState::Integer(integer_extremes(end, groups))
            }
            StateKind::Extreme { end, values: ValueKind::Floats, .. } => GroupState::Float(float_extremes(end, groups)),
            StateKind::Extreme { end, values: ValueKind::Texts, .. } => GroupState::Text(text_extremes(end, groups)),
            StateKind::Row(end) => GroupState::Row(row_extremes(end, groups)),
        }
    }

    /// Converts states, of kind `kind`, to refer to the rows and texts of another dataset, where row `n` is row
    /// `row(n)` and has the text `text(n)`.
    pub(in crate::compute::group) fn relocate<'b>(
        self,
        kind: StateKind,
        row: impl Fn(u64) -> Result<u64>,
        text: impl Fn(u64) -> Result<KeyPart<'b>>,
    ) -> Result<GroupState<'b>> {
        Ok(match self {
            GroupState::Counts(all) => GroupState::Counts(all),
            GroupState::Floats(all) => GroupState::Floats(all),
            GroupState::Integers(all) => GroupState::Integers(all),
            GroupState::Decimals(all) => GroupState::Decimals(all),
            GroupState::Moments(all) => GroupState::Moments(all),
            GroupState::IntegerMoments(all) => GroupState::IntegerMoments(all),
            GroupState::DecimalMoments(all) => GroupState::DecimalMoments(all),
            GroupState::Values(all) => GroupState::Values(all),
            GroupState::Distinct(all) => GroupState::Distinct(all),
            GroupState::Integer(all) => GroupState::Integer(all),
            GroupState::Float(all) => GroupState::Float(all),
            GroupState::Row(all) => {
                let best = all.best.iter().map(|best| best.map(&row).transpose()).collect::<Result<_>>()?;
                GroupState::Row(Extreme { best, ..all })
            }
            GroupState::Text(all) => {
                let StateKind::Extreme { end, .. } = kind else {
                    return Err(Error::internal(format!("the state {kind:?} has texts")));
                };
                let mut best = Vec::with_capacity(all.best.len());
                for source in all.best {
                    let Some(source) = source else {
                        best.push(None);
                        continue;
                    };
                    let KeyPart::Bytes(bytes) = text(source.row)? else {
                        return Err(Error::internal("the text of a group is none"));
                    };
                    best.push(Some(RowText { bytes, row: row(source.row)? }));
                }
                GroupState::Text(Extreme { best, ..text_extremes(end, 0) })
            }
        })
    }

    /// Returns true if there were too many groups for the state.
    pub(in crate::compute::group) fn is_too_large(&self) -> bool {
        matches!(self, GroupState::Distinct(sets) if sets.is_too_large())
    }

    /// Returns the row of each group's text, or its first or last row; nothing for other kinds.
    pub(in crate::compute::group) fn rows(&self) -> Vec<Option<u64>> {
        match self {
            GroupState::Text(texts) => texts.best.iter().map(|best| best.map(|text| text.row)).collect(),
            GroupState::Row(rows) => rows.best.clone(),
            _ => Vec::new(),
        }
    }

    /// Merges each group of `other`, which has the same kind, into the group of `self` whose number is in `to`.
    /// Afterwards there are `count` groups.
    pub(in crate::compute::group) fn merge(&mut self, to: &[usize], count: usize, other: &GroupState<'a>) {
        match (self, other) {
            (GroupState::Counts(all), GroupState::Counts(more)) => merge(all, to, count, more),
            (GroupState::Floats(all), GroupState::Floats(more)) => merge(all, to, count, more),
            (GroupState::Integers(all), GroupState::Integers(more)) => merge(all, to, count, more),
            (GroupState::Decimals(all), GroupState::Decimals(more)) => merge(all, to, count, more),
            (GroupState::Moments(all), GroupState::Moments(more)) => merge(all, to, count, more),
            (GroupState::IntegerMoments(all), GroupState::IntegerMoments(more)) => merge(all, to, count, more),
            (GroupState::DecimalMoments(all), GroupState::DecimalMoments(more)) => merge(all, to, count, more),
            (GroupState::Values(all), GroupState::Values(more)) => merge(all, to, count, more),
            (GroupState::Distinct(all), GroupState::Distinct(more)) => all.merge(to, count, more),
            (GroupState::Integer(all), GroupState::Integer(more)) => all.merge(to, count, &more.best),
            (GroupState::Float(all), GroupState::Float(more)) => all.merge(to, count, &more.best),
            (GroupState::Text(all), GroupState::Text(more)) => all.merge(to, count, &more.best),
            (GroupState::Row(all), GroupState::Row(more)) => all.merge(to, count, &more.best),
            _ => unreachable!("merged states have the same kind"),
        }
    }
}

/// Does [`GroupState::merge`] for the states of one kind.
fn merge<T: Accumulator>(all: &mut Vec<T>, to: &[usize], count: usize, others: &[T]) {
    debug_assert_eq!(others.len(), to.len(), "each merged state has a group");
    all.resize(count.max(all.len()), T::NONE);
    for (&group, other) in to.iter().zip(others) {
        all[group].add(other);
    }
}

pub(super) fn integer_extremes(end: ExtremeKind, groups: usize) -> Extreme<i256> {
    match end {
        ExtremeKind::Min => Extreme::new(|a, b| a < b, groups),
        ExtremeKind::Max => Extreme::new(|a, b| a > b, groups),
    }
}

pub(super) fn float_extremes(end: ExtremeKind, groups: usize) -> Extreme<f64> {
    match end {
        ExtremeKind::Min => Extreme::new(|a, b| a < b || b.is_nan(), groups),
        ExtremeKind::Max => Extreme::new(|a, b| a > b || b.is_nan(), groups),
    }
}

pub(super) fn text_extremes<'a>(end: ExtremeKind, groups: usize) -> Extreme<RowText<'a>> {
    match end {
        ExtremeKind::Min => Extreme::new(|a, b| a.bytes < b.bytes, groups),
        ExtremeKind::Max => Extreme::new(|a, b| a.bytes > b.bytes, groups),
    }
}

pub(super) fn row_extremes(end: ExtremeKind, groups: usize) -> Extreme<u64> {
    match end {
        ExtremeKind::Min => Extreme::new(|a, b| a < b, groups),
        ExtremeKind::Max => Extreme::new(|a, b| a > b, groups),
    }
}

/// Returns true if values of the type are integers of at most 64 bits, or are stored as such.
pub(in crate::compute) fn is_stored_as_integer(data_type: &DataType) -> bool {
    use DataType::*;
    let is_time = matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_));
    data_type.is_integer() || is_time || matches!(data_type, Boolean | Decimal32(..) | Decimal64(..))
}
