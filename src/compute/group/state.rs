//! What is kept of each group while rows go by: of one block first, then of all blocks, put together in their order.

use arrow_buffer::i256;
use arrow_schema::DataType;

use super::groups::{Groups, cell};
use super::intern::Cell;
use crate::array::access::fixed_values;
use crate::compute::frame::Frame;
use crate::compute::kernels::{FloatSum, add_f64, add_squares_f64};
use crate::compute::reduce::{
    LANES, OUT, Rows, add_floats, add_squares, count, each_decimal, each_float, each_integer, number_rows,
};
use crate::compute::select::{Mask, nulls};
use crate::error::Result;

/// What is to be kept, of which column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compute) enum Kind {
    Rows,
    Count(usize),
    Floats(usize),
    Integers(usize),
    Decimals(usize),
    Moments(usize),
    LeastInteger(usize),
    MostInteger(usize),
    LeastFloat(usize),
    MostFloat(usize),
    LeastText(usize),
    MostText(usize),
}

/// A float sum and what its roundings have cost (Neumaier, *Rundungsfehleranalyse einiger Verfahren zur Summation
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

    fn add(&mut self, number: f64, count: u64) {
        let total = self.sum + number;
        self.lost += match self.sum.abs() >= number.abs() {
            true => (self.sum - total) + number,
            false => (number - total) + self.sum,
        };
        self.sum = total;
        self.count += count;
    }

    pub(super) fn total(&self) -> f64 {
        // What is lost beside infinity is no number.
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

/// How many there are, their mean, and the squares of their distances from it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Of both (Chan, Golub and LeVeque, *Updating Formulae and a Pairwise Algorithm for Computing Sample Variances*).
    fn add(&mut self, other: &Moments) {
        let count = self.count + other.count;
        if other.count > 0 {
            let (distance, share) = (other.mean - self.mean, other.count as f64 / count as f64);
            self.squares += other.squares + distance * distance * self.count as f64 * share;
            self.mean += distance * share;
        }
        self.count = count;
    }

    /// The variance of a sample, `None` of fewer than two.
    pub(super) fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }
}

/// Of each group, beginning with group 1.
#[derive(Debug)]
pub(super) enum State<'a> {
    Counts(Vec<u64>),
    Floats(Vec<Sum>),
    Integers(Vec<(i128, u64)>),
    /// `None` where 256 bits were too few.
    Decimals(Vec<(Option<i256>, u64)>),
    Moments(Vec<Moments>),
    Integer(Extreme<i256>),
    Float(Extreme<f64>),
    Text(Extreme<(&'a [u8], u64)>),
}

/// The best of each group, `None` of nothing.
#[derive(Debug)]
pub(super) struct Extreme<T> {
    pub best: Vec<Option<T>>,
    is_better: fn(&T, &T) -> bool,
}

impl<T: Copy> Extreme<T> {
    fn new(is_better: fn(&T, &T) -> bool, groups: usize) -> Extreme<T> {
        Extreme { best: vec![None; groups], is_better }
    }

    #[inline]
    fn offer(&mut self, group: usize, value: T) {
        if let Some(best) = self.best.get_mut(group)
            && best.is_none_or(|best| (self.is_better)(&value, &best))
        {
            *best = Some(value);
        }
    }
}

fn is_less(a: &f64, b: &f64) -> bool {
    a < b || b.is_nan()
}

fn is_more(a: &f64, b: &f64) -> bool {
    a > b || b.is_nan()
}

impl<'a> State<'a> {
    /// Nothing of `groups` groups.
    pub(super) fn empty(kind: Kind, groups: usize) -> State<'a> {
        match kind {
            Kind::Rows | Kind::Count(_) => State::Counts(vec![0; groups]),
            Kind::Floats(_) => State::Floats(vec![Sum::default(); groups]),
            Kind::Integers(_) => State::Integers(vec![(0, 0); groups]),
            Kind::Decimals(_) => State::Decimals(vec![(Some(i256::ZERO), 0); groups]),
            Kind::Moments(_) => State::Moments(vec![Moments::default(); groups]),
            Kind::LeastInteger(_) => State::Integer(Extreme::new(|a, b| a < b, groups)),
            Kind::MostInteger(_) => State::Integer(Extreme::new(|a, b| a > b, groups)),
            Kind::LeastFloat(_) => State::Float(Extreme::new(is_less, groups)),
            Kind::MostFloat(_) => State::Float(Extreme::new(is_more, groups)),
            Kind::LeastText(_) => State::Text(Extreme::new(|a, b| a.0 < b.0, groups)),
            Kind::MostText(_) => State::Text(Extreme::new(|a, b| a.0 > b.0, groups)),
        }
    }

    /// Of the rows of block `block`, in their groups.
    pub(super) fn of_block(kind: Kind, frame: &Frame<'a>, block: usize, groups: &Groups<'a>) -> Result<State<'a>> {
        let columns = Columns { frame, block, groups };
        match kind {
            Kind::Rows => Ok(State::Counts(columns.count_rows())),
            Kind::Count(column) => columns.count(column).map(State::Counts),
            Kind::Floats(column) => columns.floats(column).map(State::Floats),
            Kind::Integers(column) => columns.integers(column).map(State::Integers),
            Kind::Decimals(column) => columns.decimals(column).map(State::Decimals),
            Kind::Moments(column) => columns.moments(column).map(State::Moments),
            Kind::LeastInteger(column) | Kind::MostInteger(column) => columns.integer(kind, column),
            Kind::LeastFloat(column) | Kind::MostFloat(column) => columns.float(kind, column),
            Kind::LeastText(column) | Kind::MostText(column) => columns.text(kind, column),
        }
    }

    /// Adds what `other` has of each of its groups to group `to` here, of `count` groups.
    pub(super) fn merge(&mut self, to: &[usize], count: usize, other: &State<'a>) {
        fn each<T: Clone>(all: &mut Vec<T>, to: &[usize], count: usize, new: T, more: &[T], add: impl Fn(&mut T, &T)) {
            all.resize(count.max(all.len()), new);
            to.iter().zip(more).for_each(|(&group, more)| add(&mut all[group], more));
        }
        match (self, other) {
            (State::Counts(all), State::Counts(more)) => each(all, to, count, 0, more, |sum, more| *sum += more),
            (State::Floats(all), State::Floats(more)) => {
                each(all, to, count, Sum::default(), more, |sum, more| sum.add(more.sum, more.count));
            }
            (State::Integers(all), State::Integers(more)) => {
                each(all, to, count, (0, 0), more, |sum, more| *sum = (sum.0 + more.0, sum.1 + more.1));
            }
            (State::Decimals(all), State::Decimals(more)) => {
                each(all, to, count, (Some(i256::ZERO), 0), more, |sum, more| {
                    let total = sum.0.zip(more.0).and_then(|(a, b)| a.checked_add(b));
                    *sum = (total, sum.1 + more.1);
                });
            }
            (State::Moments(all), State::Moments(more)) => each(all, to, count, Moments::default(), more, Moments::add),
            (State::Integer(all), State::Integer(more)) => all.merge(to, count, &more.best),
            (State::Float(all), State::Float(more)) => all.merge(to, count, &more.best),
            (State::Text(all), State::Text(more)) => all.merge(to, count, &more.best),
            _ => {}
        }
    }
}

impl<T: Copy> Extreme<T> {
    fn merge(&mut self, to: &[usize], count: usize, more: &[Option<T>]) {
        self.best.resize(count.max(self.best.len()), None);
        for (&group, value) in to.iter().zip(more) {
            value.iter().for_each(|&value| self.offer(group, value));
        }
    }
}

/// The columns of a block, in groups.
struct Columns<'f, 'a> {
    frame: &'f Frame<'a>,
    block: usize,
    groups: &'f Groups<'a>,
}

impl<'a> Columns<'_, 'a> {
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

    /// The same of numbers, those of a dictionary looked up.
    fn each_number(&self, column: usize, mut work: impl FnMut(&Rows<'_>) -> Result<()>) -> Result<()> {
        self.each(column, |rows, ids| {
            number_rows(rows.array, rows.rows.clone(), |array, inside| {
                work(&Rows { array, rows: inside, ids, lane: rows.lane })
            })
        })
    }

    /// Room for each lane of each group, group 0 included.
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
        self.each(column, |rows, ids| {
            let valid = nulls(rows.array, &rows.rows, false)?;
            let masked = |(row, &id): (usize, &u32)| if valid.is_set(row) { id } else { OUT };
            count(&ids.iter().enumerate().map(masked).collect::<Vec<_>>(), rows.lane, &mut counts);
            Ok(())
        })?;
        Ok(joined(&counts, |lanes| lanes.iter().sum()))
    }

    fn floats(&self, column: usize) -> Result<Vec<Sum>> {
        let mut sums = self.lanes([0.0; 2]);
        self.each_number(column, |rows| add_floats(rows, &mut sums))?;
        Ok(joined(&sums, Sum::of_lanes))
    }

    fn integers(&self, column: usize) -> Result<Vec<(i128, u64)>> {
        let mut sums = self.lanes((0i128, 0u64));
        self.each_number(column, |rows| {
            each_integer(rows, |id, lane, number| {
                if let Some(sum) = sums.get_mut(id as usize * LANES + lane) {
                    *sum = (sum.0.wrapping_add(number), sum.1 + 1);
                }
            })
        })?;
        Ok(joined(&sums, |lanes| lanes.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))))
    }

    fn decimals(&self, column: usize) -> Result<Vec<(Option<i256>, u64)>> {
        let mut sums = vec![(Some(i256::ZERO), 0); self.groups.count() + 1];
        self.each_number(column, |rows| {
            each_decimal(rows, |id, number| {
                if let Some(sum) = sums.get_mut(id as usize).filter(|_| id != OUT) {
                    *sum = (sum.0.and_then(|sum| sum.checked_add(number)), sum.1 + 1);
                }
            })
        })?;
        Ok(sums.split_off(1))
    }

    /// The same of floats without nulls in one group, which are added up at the speed of memory.
    fn moments_of_all(&self, column: usize) -> Result<Option<Moments>> {
        if self.groups.width > 0 || self.groups.count() != 1 || self.groups.ids.contains(&OUT) {
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
        let (mut sum, mut squares) = (FloatSum::default(), FloatSum::default());
        pieces.iter().for_each(|piece| add_f64(&mut sum, piece));
        let count = self.groups.ids.len() as u64;
        let mean = sum.total() / count as f64;
        pieces.iter().for_each(|piece| add_squares_f64(&mut squares, mean, piece));
        Ok(Some(Moments { count, mean, squares: squares.total() }))
    }

    /// The means of the block's groups first, then the distances from them.
    fn moments(&self, column: usize) -> Result<Vec<Moments>> {
        if let Some(moments) = self.moments_of_all(column)? {
            return Ok(vec![moments]);
        }
        let sums = self.floats(column)?;
        let mean = |sum: &Sum| if sum.count == 0 { 0.0 } else { sum.total() / sum.count as f64 };
        let means: Vec<f64> = std::iter::once(0.0).chain(sums.iter().map(mean)).collect();
        let mut squares = self.lanes(0.0);
        self.each_number(column, |rows| add_squares(rows, &means, &mut squares))?;
        let squares = joined(&squares, |lanes| (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
        let moments = sums.iter().zip(&means[1..]).zip(squares);
        Ok(moments.map(|((sum, &mean), squares)| Moments { count: sum.count, mean, squares }).collect())
    }

    fn integer(&self, kind: Kind, column: usize) -> Result<State<'a>> {
        let mut state = State::empty(kind, self.groups.count() + 1);
        let State::Integer(extreme) = &mut state else { return Ok(state) };
        self.each_number(column, |rows| each_decimal(rows, |id, number| extreme.offer(id as usize, number)))?;
        extreme.best.remove(0);
        Ok(state)
    }

    fn float(&self, kind: Kind, column: usize) -> Result<State<'a>> {
        let mut state = State::empty(kind, self.groups.count() + 1);
        let State::Float(extreme) = &mut state else { return Ok(state) };
        self.each_number(column, |rows| each_float(rows, |id, _, number| extreme.offer(id as usize, number)))?;
        extreme.best.remove(0);
        Ok(state)
    }

    fn text(&self, kind: Kind, column: usize) -> Result<State<'a>> {
        let mut state = State::empty(kind, self.groups.count() + 1);
        let State::Text(extreme) = &mut state else { return Ok(state) };
        let mut at = self.frame.block_start(self.block);
        self.each(column, |rows, ids| {
            for (row, &id) in rows.rows.clone().zip(ids) {
                if id != OUT
                    && let Cell::Bytes(bytes) = cell(rows.array, row)?
                {
                    extreme.offer(id as usize, (bytes, at));
                }
                at += 1;
            }
            Ok(())
        })?;
        extreme.best.remove(0);
        Ok(state)
    }
}

/// The lanes of each group but group 0, put together.
fn joined<T, U>(lanes: &[T], join: impl Fn(&[T]) -> U) -> Vec<U> {
    lanes.chunks(LANES).skip(1).map(join).collect()
}

/// Whether the type's values are integers that fit 64 bits, or stand for such.
pub(super) fn is_integer(data_type: &DataType) -> bool {
    use DataType::*;
    let is_time = matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_));
    data_type.is_integer() || is_time || matches!(data_type, Boolean | Decimal32(..) | Decimal64(..))
}
