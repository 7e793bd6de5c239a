//! The running state of each group: first of one block, then of all blocks, merged in order.

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::bitsets::{IntegerRange, IntegerSets};
use super::interner::KeyPart;
use crate::array::{decimal_quotient, decimal_to_f64};
use crate::error::{Error, Result};

/// A kind of state, and its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum StateKind {
    RowCount,
    Count(usize),
    Floats(usize),
    Integers(usize),
    Decimals(usize),
    Moments(usize),
    IntegerMoments(usize),
    DecimalMoments(usize),
    /// All values, for what has no state that is smaller.
    Values(usize),
    /// The distinct integers of a range.
    Distinct {
        range: IntegerRange,
        column: usize,
    },
    Extreme {
        end: ExtremeKind,
        values: ValueKind,
        column: usize,
    },
    /// The first or the last row, whatever it holds.
    Row(ExtremeKind),
}

impl StateKind {
    /// The number of its column.
    pub(super) fn column(&self) -> Option<usize> {
        use StateKind::*;
        match *self {
            RowCount | Row(_) => None,
            Count(column) | Floats(column) | Integers(column) | Decimals(column) | Moments(column) => Some(column),
            IntegerMoments(column) | DecimalMoments(column) | Values(column) => Some(column),
            Distinct { column, .. } | Extreme { column, .. } => Some(column),
        }
    }

    /// The bytes of the state of a group.
    pub(super) fn bytes(&self) -> usize {
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

    /// Which extreme it is, if it is one.
    pub(super) fn end(&self) -> ExtremeKind {
        if let StateKind::Extreme { end, .. } = self { *end } else { ExtremeKind::Min }
    }

    /// The same of the column that `place` names instead.
    pub(super) fn with_column(mut self, place: impl Fn(usize) -> Result<usize>) -> Result<StateKind> {
        use StateKind::*;
        match &mut self {
            RowCount | Row(_) => {}
            Count(column) | Floats(column) | Integers(column) | Decimals(column) | Moments(column) => {
                *column = place(*column)?;
            }
            IntegerMoments(column) | DecimalMoments(column) | Values(column) => *column = place(*column)?,
            Distinct { column, .. } | Extreme { column, .. } => *column = place(*column)?,
        }
        Ok(self)
    }
}

/// Which extreme.
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

/// The state of a group, which can be merged with that of another block.
pub(super) trait Accumulator: Clone {
    /// The state for no rows.
    const NONE: Self;

    fn add(&mut self, other: &Self);
}

impl Accumulator for u64 {
    const NONE: u64 = 0;

    fn add(&mut self, other: &u64) {
        *self += other;
    }
}

/// A float sum and its accumulated rounding error (Neumaier, *Rundungsfehleranalyse einiger Verfahren zur Summation
/// endlicher Summen*), and how many there are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NeumaierSum {
    sum: f64,
    lost: f64,
    pub count: u64,
}

impl NeumaierSum {
    /// Of sums and counts in lanes.
    pub(super) fn from_lanes(lanes: &[[f64; 2]]) -> NeumaierSum {
        let [sum, count] = [0, 1].map(|part| (lanes[0][part] + lanes[1][part]) + (lanes[2][part] + lanes[3][part]));
        NeumaierSum { sum, lost: 0.0, count: count as u64 }
    }

    pub(super) fn from_value(number: f64) -> NeumaierSum {
        NeumaierSum { sum: number, lost: 0.0, count: 1 }
    }

    pub(super) fn total(&self) -> f64 {
        // The rounding error at infinity is NaN, and so may be that of the largest numbers.
        if self.sum.is_finite() && self.lost.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

impl Accumulator for NeumaierSum {
    const NONE: NeumaierSum = NeumaierSum { sum: 0.0, lost: 0.0, count: 0 };

    #[inline(always)]
    fn add(&mut self, other: &NeumaierSum) {
        let total = self.sum + other.sum;
        // What is lost is found without a look at which of both is larger (Knuth, *The Art of Computer Programming* 2, 4.2.2).
        let of_other = total - self.sum;
        let of_this = total - of_other;
        self.lost += (self.sum - of_this) + (other.sum - of_other) + other.lost;
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

impl Accumulator for IntegerSum {
    const NONE: IntegerSum = IntegerSum { sum: 0, count: 0 };

    fn add(&mut self, other: &IntegerSum) {
        // The sum of 2^64 integers of 64 bits fits.
        self.sum += other.sum;
        self.count += other.count;
    }
}

/// A sum of the digits of decimals, and their count. In any order they are the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecimalSum {
    /// The lower 256 bits of the sum.
    low: i256,
    /// How often they overflowed, less how often they did so downwards.
    carries: i64,
    pub count: u64,
}

impl DecimalSum {
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

    /// The sum; `None` if 256 bits don't hold it.
    pub(super) fn total(&self) -> Option<i256> {
        (self.carries == 0).then_some(self.low)
    }

    /// The mean of decimals of this scale; `None` for none.
    pub(super) fn mean(&self, scale: i8) -> Option<f64> {
        if self.count == 0 || self.carries == 0 {
            return (self.count > 0).then(|| decimal_quotient(self.low, scale, self.count));
        }
        // A sum of more than 255 bits has a mean of more than 192, of which the last few don't count. As digits have at
        // most 253 bits, there are far fewer carries than decimals, and nothing overflows.
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
pub(super) struct Moments {
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
    pub(super) fn push(&mut self, number: i128) {
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

/// The moments of wide decimals' digits as distances from the first, which is exact: digits beyond those of a float may be
/// all that differs.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecimalMoments {
    pub first: i256,
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

/// The difference of two decimals' digits.
pub(super) fn distance(digits: i256, from: i256) -> f64 {
    // Digits have at most 253 bits.
    decimal_to_f64(digits.wrapping_sub(from), 0)
}

/// The values of a group as floats, without nulls and NaN.
#[derive(Clone, Debug, Default)]
pub(super) struct FloatValues(pub Vec<f64>);

impl Accumulator for FloatValues {
    const NONE: FloatValues = FloatValues(Vec::new());

    fn add(&mut self, other: &FloatValues) {
        self.0.extend_from_slice(&other.0);
    }
}

impl FloatValues {
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
        Some(if low == high { low } else { low.midpoint(high) })
    }
}

/// The state of each group, beginning with group 1.
#[derive(Debug)]
pub(super) enum GroupState<'a> {
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
pub(super) struct RowText<'a> {
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
    pub(super) fn without_first(mut self) -> Extreme<T> {
        self.best.remove(0);
        self
    }
}

impl<'a> GroupState<'a> {
    /// Empty states for `groups` groups.
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
            StateKind::Extreme { end, values: ValueKind::Integers, .. } => GroupState::Integer(integers(end, groups)),
            StateKind::Extreme { end, values: ValueKind::Floats, .. } => GroupState::Float(floats(end, groups)),
            StateKind::Extreme { end, values: ValueKind::Texts, .. } => GroupState::Text(texts(end, groups)),
            StateKind::Row(end) => GroupState::Row(rows(end, groups)),
        }
    }

    /// The same states where rows and texts are those of another dataset: what is row `n` here is row `row(n)` there. `end` is that
    /// of the extreme, if it is one.
    pub(super) fn moved<'b>(
        self,
        end: ExtremeKind,
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
                let best = all.best.iter().map(|own| own.map(&row).transpose()).collect::<Result<_>>()?;
                GroupState::Row(Extreme { best, ..all })
            }
            GroupState::Text(all) => {
                let mut best = Vec::with_capacity(all.best.len());
                for found in all.best {
                    best.push(match found.map(|found| (found.row, text(found.row))) {
                        Some((here, text)) => match text? {
                            KeyPart::Bytes(bytes) => Some(RowText { bytes, row: row(here)? }),
                            _ => return Err(Error::internal("the text of a group is none")),
                        },
                        None => None,
                    });
                }
                GroupState::Text(Extreme { best, ..texts(end, 0) })
            }
        })
    }

    /// Whether there were too many groups for it.
    pub(super) fn is_too_large(&self) -> bool {
        matches!(self, GroupState::Distinct(sets) if sets.is_too_large())
    }

    /// The row of each group's text, or its first or last row; none of other kinds.
    pub(super) fn rows(&self) -> Vec<Option<u64>> {
        match self {
            GroupState::Text(found) => found.best.iter().map(|best| best.map(|found| found.row)).collect(),
            GroupState::Row(found) => found.best.clone(),
            _ => Vec::new(),
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
            (GroupState::Distinct(all), GroupState::Distinct(more)) => all.merge(to, count, more),
            (GroupState::Integer(all), GroupState::Integer(more)) => all.merge(to, count, &more.best),
            (GroupState::Float(all), GroupState::Float(more)) => all.merge(to, count, &more.best),
            (GroupState::Text(all), GroupState::Text(more)) => all.merge(to, count, &more.best),
            (GroupState::Row(all), GroupState::Row(more)) => all.merge(to, count, &more.best),
            (this, other) => debug_assert!(false, "{this:?} and {other:?} are of different kinds"),
        }
    }
}

fn merge<T: Accumulator>(all: &mut Vec<T>, to: &[usize], count: usize, more: &[T]) {
    all.resize(count.max(all.len()), T::NONE);
    to.iter().zip(more).for_each(|(&group, more)| all[group].add(more));
}

pub(super) fn integers(end: ExtremeKind, groups: usize) -> Extreme<i256> {
    match end {
        ExtremeKind::Min => Extreme::new(|a, b| a < b, groups),
        ExtremeKind::Max => Extreme::new(|a, b| a > b, groups),
    }
}

pub(super) fn floats(end: ExtremeKind, groups: usize) -> Extreme<f64> {
    match end {
        ExtremeKind::Min => Extreme::new(|a, b| a < b || b.is_nan(), groups),
        ExtremeKind::Max => Extreme::new(|a, b| a > b || b.is_nan(), groups),
    }
}

pub(super) fn texts<'a>(end: ExtremeKind, groups: usize) -> Extreme<RowText<'a>> {
    match end {
        ExtremeKind::Min => Extreme::new(|a, b| a.bytes < b.bytes, groups),
        ExtremeKind::Max => Extreme::new(|a, b| a.bytes > b.bytes, groups),
    }
}

pub(super) fn rows(end: ExtremeKind, groups: usize) -> Extreme<u64> {
    match end {
        ExtremeKind::Min => Extreme::new(|a, b| a < b, groups),
        ExtremeKind::Max => Extreme::new(|a, b| a > b, groups),
    }
}

/// Whether the type's values are integers of at most 64 bits, or stored as such.
pub(in crate::compute) fn is_stored_as_integer(data_type: &DataType) -> bool {
    use DataType::*;
    let is_time = matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_));
    data_type.is_integer() || is_time || matches!(data_type, Boolean | Decimal32(..) | Decimal64(..))
}
