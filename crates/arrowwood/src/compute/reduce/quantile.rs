//! Computes exact quantiles of columns of any size, without a copy.
//!
//! A quantile is asked for as a *share* from 0 to 1 of the values. Its *place* among the `n` values in order is
//! `share * (n - 1)`: the whole part is the rank of a value, and the fraction says how far the quantile lies on the way
//! from that value to the next.
//!
//! Values are found by rank in one of three ways:
//! - All values are collected and selected by rank, if the column is small, or if few values are neither null nor NaN.
//! - A sample of a larger column tells between which two bounds each quantile lies. One pass counts the values below
//!   the bounds and collects the values between them, among which the quantile is selected. For one column in thousands
//!   the sample is wrong: a quantile lies out of its bounds, or too many values lie between them. Then, and in very
//!   large columns, the third way is taken.
//! - Values are counted. They are mapped to integers of 64 bits with the same order. One pass counts them by their
//!   first 16 bits, which tells the first bits of each value that is asked for. The values with these bits are
//!   collected, or counted again by their next 16 bits while they are too many.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_schema::DataType;
use multiversion::multiversion;

use crate::array::{require_little_endian, room_for};
use crate::compute::kernels::{
    GroupedRows, ONLY_GROUP, OUT, for_each_float, for_each_integer, is_number, with_decoded_rows,
};
use crate::compute::random::SplitMix64;
use crate::compute::scan::{Frame, values_in};
use crate::dataset::Column;
use crate::error::{Error, Result};
use crate::parallel;

/// The number of bits that one pass counts by.
const DIGIT_BITS: u32 = 16;
/// The number of values of a digit.
const DIGITS: usize = 1 << DIGIT_BITS;
/// The maximum number of values to collect and sort.
const MAX_SORTED: u64 = 1 << 20;
/// The maximum number of values to collect between the bounds that a sample gives.
const MAX_COLLECTED: usize = 4 << 20;
/// The number of rows of a block, a thread's unit of work.
const BLOCK: usize = 1 << 20;
/// The number of blocks for each thread whose counts are held until they are summed.
const BLOCKS_PER_THREAD: usize = 4;
/// The number of bytes of a value as a word.
const WORD_BYTES: usize = size_of::<u64>();
/// The bit of a number's sign.
const SIGN: u64 = 1 << 63;
/// The maximum number of ranks that are searched in one pass.
const RANKS_AT_ONCE: usize = 16;
/// The maximum number of rows of a sample.
const MAX_SAMPLE: u64 = 1 << 20;
/// The number of values that are compared with bounds before the results are added to totals of 64 bits.
const VALUES_AT_ONCE: usize = 256;

/// The smallest sample that leaves few values between its bounds, if the column is not very large.
const MIN_SAMPLE: u64 = 1 << 13;
/// The number of rows for each sampled row in a small column. There, a smaller sample takes less time, though it leaves
/// more values between its bounds.
const ROWS_PER_SAMPLED_ROW: u64 = 1 << 6;
/// The number of rows for each of which the size of a sample grows with the square, so that about as many values lie
/// between its bounds in a larger column.
const SAMPLE_UNIT: u64 = MAX_SORTED / 8;
/// The number of rows up to which collecting all values takes no longer than a sample.
const MIN_SAMPLED_ROWS: u64 = 1 << 15;
/// The number of rows beyond which too many lie between the bounds of the largest sample.
const MAX_SAMPLED_ROWS: u64 = 1 << 28;
/// The number of rows of a block whose values are compared with bounds.
const BOUNDED_BLOCK: usize = 1 << 14;
/// The distance of bounds from a quantile of the sample, in standard deviations of the number of sampled values below
/// it.
const BOUND_DEVIATIONS: f64 = 5.0;
/// The distance that is added for rounding, and for shares near 0 and 1, whose deviation is small.
const MIN_BOUND_DISTANCE: f64 = 2.0;

/// A quantile between two values: the values, as words in the order of values, and how far the quantile lies on the way
/// from the first to the second, from 0 to 1.
type Interpolation = ([u64; 2], f64);

/// # Quantiles
impl Column {
    /// Returns the exact `q`-quantile; `None` if there are no values.
    ///
    /// Between two values, it is interpolated linearly. Nulls and NaN are ignored; other numbers are converted to the
    /// nearest float. Takes one or two passes over the column, rarely more, and no copy.
    ///
    /// # Errors
    /// `InvalidArgument` unless `q` is between 0 and 1; `Unsupported` for types other than numbers.
    pub fn quantile(&self, q: f64) -> Result<Option<f64>> {
        Ok(self.quantiles(&[q])?.map(|quantiles| quantiles[0]))
    }

    /// Returns the quantile of a sample of 1,048,576 rows, the same each time.
    ///
    /// It is exact if the column has no more rows, or if more than half of the sample is null or NaN. The cost does not
    /// depend on the column's size. The share of values below the result differs from `q` by more than 0.005 less than
    /// once in a hundred million columns (Dvoretzky, Kiefer and Wolfowitz).
    ///
    /// # Errors
    /// As [`quantile`](Column::quantile).
    pub fn approx_quantile(&self, q: f64) -> Result<Option<f64>> {
        check_quantiles(self, &[q])?;
        let rows = self.len()?;
        if rows <= MAX_SAMPLE {
            return self.quantile(q);
        }
        let sample = self.as_dataset().take(&draw_rows(MAX_SAMPLE, rows))?.column_at(0)?;
        let (numbers, quantiles) = sample.with_change_check(|| counted_quantiles(&sample, &[q]))?;
        if numbers < MAX_SAMPLE / 2 { self.quantile(q) } else { Ok(Some(quantiles[0])) }
    }

    /// Returns several quantiles, in the order of `shares`; `None` if there are no values.
    ///
    /// # Errors
    /// As [`quantile`](Column::quantile).
    pub fn quantiles(&self, shares: &[f64]) -> Result<Option<Vec<f64>>> {
        check_quantiles(self, shares)?;
        let (numbers, quantiles) = self.with_change_check(|| counted_quantiles(self, shares))?;
        if numbers == 0 {
            return Ok(None);
        }
        debug_assert!(quantiles.len() == shares.len(), "{} quantiles of {}", quantiles.len(), shares.len());
        Ok(Some(quantiles))
    }
}

/// Returns quantiles of dates, times and durations, in units of the type; between two values they are rounded down.
/// `None` if there are no values.
///
/// # Errors
/// `Unsupported` for other types.
pub(in crate::compute) fn time_quantiles(column: &Column, shares: &[f64]) -> Result<Option<Vec<i64>>> {
    if !column.data_type().is_temporal() || matches!(column.data_type(), DataType::Interval(_)) {
        return Err(column.unsupported_operation("a quantile"));
    }
    let (count, places) = column.with_change_check(|| locate_quantiles(column, shares, QuantileType::Times))?;
    if count == 0 {
        return Ok(None);
    }
    let mut times = Vec::with_capacity(places.len());
    for (ends, part) in places {
        let [low, high] = ends.map(|word| i128::from((word ^ SIGN).cast_signed()));
        debug_assert!(low <= high);
        // The distance from the lower value has no more digits than a float.
        times.push((low + ((high - low) as f64 * part).floor() as i128).min(high) as i64);
    }
    Ok(Some(times))
}

/// Returns the number of numeric values, and their quantiles, if there are any values.
fn counted_quantiles(column: &Column, shares: &[f64]) -> Result<(u64, Vec<f64>)> {
    if let Some(counted) = quantiles_by_sample(column, shares)? {
        return Ok(counted);
    }
    let (count, places) = locate_quantiles(column, shares, QuantileType::Floats)?;
    Ok((count, places.into_iter().map(|(ends, part)| interpolate(&ends.map(word_to_float), part)).collect()))
}

/// Does [`counted_quantiles`] with the help of a sample; `None` if the sample does not
/// bound the quantiles well.
fn quantiles_by_sample(column: &Column, shares: &[f64]) -> Result<Option<(u64, Vec<f64>)>> {
    let rows = column.len()?;
    if !(MIN_SAMPLED_ROWS..=MAX_SAMPLED_ROWS).contains(&rows) || shares.len() > RANKS_AT_ONCE {
        return Ok(None);
    }

    // The number of values between two bounds falls with the square root of the sample's size.
    let min_size = MIN_SAMPLE.min(rows / ROWS_PER_SAMPLED_ROW);
    let size = (rows / SAMPLE_UNIT).saturating_pow(2).clamp(min_size, MAX_SAMPLE);
    let mut sampled = Vec::with_capacity(size as usize);
    let sample = column.as_dataset().take(&draw_rows(size, rows))?.column_at(0)?;
    let values = ColumnValues::try_new(&sample, QuantileType::Floats)?;
    for block in 0..values.frame.num_blocks() {
        values.for_each_in_block(block, |word| sampled.push(word_to_float(word)))?;
    }
    if (sampled.len() as u64) < size / 2 {
        return Ok(None);
    }

    sampled.sort_unstable_by(f64::total_cmp);
    let bounds: Vec<QuantileBounds> =
        shares.iter().map(|share| QuantileBounds::from_sample(*share, &sampled)).collect();
    ColumnValues::try_new(column, QuantileType::Floats)?.quantiles_within(&bounds, shares)
}

/// Returns the number of values, and for each share the two values that its quantile lies between, and its place
/// between them; none if there are no values.
fn locate_quantiles(column: &Column, shares: &[f64], numbers: QuantileType) -> Result<(u64, Vec<Interpolation>)> {
    let values = ColumnValues::try_new(column, numbers)?;
    if column.len()? <= MAX_SORTED {
        return Ok(select_quantiles(values.collect_all()?, shares));
    }

    let [counts] = &values.count_digits(&[BitPrefix::ALL])?[..] else {
        return Err(Error::internal("one prefix has one histogram"));
    };
    let count: u64 = counts.iter().sum();
    if count <= MAX_SORTED {
        return Ok(select_quantiles(values.collect_all()?, shares));
    }
    let places: Vec<f64> = shares.iter().map(|share| share * (count - 1) as f64).collect();
    let ranks: Vec<u64> = places.iter().flat_map(|place| [place.floor() as u64, place.ceil() as u64]).collect();
    let mut words = Vec::with_capacity(ranks.len());
    for ranks in ranks.chunks(RANKS_AT_ONCE) {
        words.extend(values.values_at_ranks(counts, ranks)?);
    }
    let ends = words.as_chunks::<2>().0;
    assert!(ends.len() == places.len(), "{} pairs of values for {} quantiles", ends.len(), places.len());
    Ok((count, places.iter().zip(ends).map(|(place, ends)| (*ends, place.fract())).collect()))
}

fn check_quantiles(column: &Column, shares: &[f64]) -> Result<()> {
    if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        return Err(Error::invalid_argument(format!("a quantile lies between 0 and 1, got {share}")));
    }
    if !is_number(column.data_type()) {
        return Err(column.unsupported_operation("a quantile"));
    }
    require_little_endian("a quantile")
}

/// Returns `size` random rows of a column of `rows` rows, in order; the same on each call.
fn draw_rows(size: u64, rows: u64) -> Vec<i64> {
    let mut random = SplitMix64::new(0);
    let mut drawn: Vec<i64> = (0..size).map(|_| random.below(rows).cast_signed()).collect();
    drawn.sort_unstable();
    drawn
}

/// Returns the number of values, and for each share the two values that its quantile lies between, and its place
/// between them.
fn select_quantiles(mut values: Vec<u64>, shares: &[f64]) -> (u64, Vec<Interpolation>) {
    let Some(last) = values.len().checked_sub(1) else { return (0, Vec::new()) };
    let is_sorted = shares.len() > RANKS_AT_ONCE;
    if is_sorted {
        values.sort_unstable();
    }
    let mut quantiles = Vec::with_capacity(shares.len());
    for share in shares {
        let place = share * last as f64;
        let rank = place.floor() as usize;
        let (low, next) = if is_sorted {
            (values[rank], values.get(rank + 1).copied())
        } else {
            let (_, &mut low, above) = values.select_nth_unstable(rank);
            (low, above.iter().min().copied())
        };
        let high = if place.fract() > 0.0 { next.unwrap_or(low) } else { low };
        quantiles.push(([low, high], place.fract()));
    }
    (last as u64 + 1, quantiles)
}

/// Interpolates between two numbers by the share `part`.
fn interpolate(&[low, high]: &[f64; 2], part: f64) -> f64 {
    if part == 0.0 || low == high {
        return low;
    }
    if part == 0.5 {
        // The median of a group is computed like this.
        return low.midpoint(high);
    }
    // Differences of infinities and of the largest numbers overflow.
    let distance = high - low;
    if distance.is_finite() { low + distance * part } else { low * (1.0 - part) + high * part }
}

/// Two values between which a quantile lies in all likelihood.
#[derive(Clone, Copy, Debug)]
struct QuantileBounds {
    low: f64,
    high: f64,
}

/// The values of some rows, compared with the bounds of a quantile.
#[derive(Clone, Debug, Default)]
struct BoundedValues {
    /// The number of all values that are neither null nor NaN.
    count: u64,
    /// The number of values below the lower bound.
    below: u64,
    /// The values within the bounds.
    within: Vec<f64>,
}

impl QuantileBounds {
    /// Returns the values of a sorted sample at a safe distance to both sides of its quantile `share`.
    fn from_sample(share: f64, sampled: &[f64]) -> QuantileBounds {
        debug_assert!(sampled.is_sorted_by(|a, b| a.total_cmp(b).is_le()));
        let len = sampled.len() as f64;
        let place = share * len;
        let deviation = (share * (1.0 - share) * len).sqrt();
        let distance = BOUND_DEVIATIONS * deviation + MIN_BOUND_DISTANCE;
        // Any value may lie beyond the ends of the sample.
        let low = if place < distance { None } else { sampled.get((place - distance) as usize) };
        QuantileBounds {
            low: low.map_or(f64::NEG_INFINITY, |low| *low),
            high: sampled.get((place + distance) as usize).map_or(f64::INFINITY, |high| *high),
        }
    }
}

impl BoundedValues {
    /// Appends the values of other rows.
    fn append(&mut self, other: BoundedValues) {
        self.within.extend(other.within);
        self.below += other.below;
        self.count += other.count;
    }

    /// Interpolates the quantile `share`; `None` if it does not lie within the bounds.
    fn quantile(&mut self, share: f64) -> Option<f64> {
        debug_assert!(self.below + self.within.len() as u64 <= self.count);
        let place = share * self.count.checked_sub(1)? as f64;
        let rank = usize::try_from((place.floor() as u64).checked_sub(self.below)?).ok()?;
        if rank >= self.within.len() {
            return None;
        }
        let (_, &mut value, above) = self.within.select_nth_unstable_by(rank, f64::total_cmp);
        // Adding 0 turns −0 into 0.
        if place.fract() == 0.0 {
            return Some(value + 0.0);
        }
        let next = above.iter().copied().min_by(f64::total_cmp)?;
        Some(interpolate(&[value + 0.0, next + 0.0], place.fract()))
    }
}

/// Counts values and the values below the bounds, and appends the values within the bounds.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn add_values(values: &[[u8; 8]], bounds: QuantileBounds, into: &mut BoundedValues) {
    let QuantileBounds { low, high } = bounds;
    for values in values.chunks(VALUES_AT_ONCE) {
        let mut within = [0.0; VALUES_AT_ONCE];
        let (mut len, mut below, mut count) = (0usize, 0u32, 0u32);
        for raw in values {
            let number = f64::from_le_bytes(*raw);
            // There is no branch: a number out of bounds is overwritten by the next one.
            within[len % VALUES_AT_ONCE] = number;
            len += usize::from((number >= low) & (number <= high));
            below += u32::from(number < low);
            count += u32::from(!number.is_nan());
        }
        into.within.extend_from_slice(&within[..len]);
        into.below += u64::from(below);
        into.count += u64::from(count);
    }
}

/// The first bits of some values, a whole number of digits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BitPrefix {
    /// The bits, in the low bits of the number.
    bits: u64,
    /// The number of bits.
    len: u32,
}

impl BitPrefix {
    /// The prefix of all values.
    const ALL: BitPrefix = BitPrefix { bits: 0, len: 0 };

    fn is_prefix_of(self, word: u64) -> bool {
        // The empty prefix shifts all bits out.
        word.checked_shr(u64::BITS - self.len).is_none_or(|bits| bits == self.bits)
    }

    /// Returns the digit that follows the prefix in a value.
    fn digit(self, word: u64) -> usize {
        debug_assert!(self.len < u64::BITS);
        (word >> (u64::BITS - DIGIT_BITS - self.len)) as usize % DIGITS
    }

    /// Returns the prefix followed by a digit.
    fn with(self, digit: usize) -> BitPrefix {
        assert!(self.len < u64::BITS, "a prefix of {} bits grows", self.len);
        BitPrefix { bits: self.bits << DIGIT_BITS | digit as u64, len: self.len + DIGIT_BITS }
    }
}

/// A requested value.
#[derive(Clone, Copy, Debug)]
struct RankTarget {
    prefix: BitPrefix,
    /// The rank among the values with the prefix.
    rank: u64,
    /// The number of values with the prefix.
    count: u64,
}

/// The number of values with each next digit.
type Histogram = Vec<u64>;

/// What a column's values are compared as.
#[derive(Clone, Copy, Debug)]
enum QuantileType {
    /// Numbers of any type, converted to floats.
    Floats,
    /// Dates, times and durations, as the integers that are stored for them.
    Times,
}

/// The values of a column, which are read as words with the order of the values.
struct ColumnValues<'a> {
    frame: Frame<'a>,
    numbers: QuantileType,
}

impl<'a> ColumnValues<'a> {
    fn try_new(column: &'a Column, numbers: QuantileType) -> Result<ColumnValues<'a>> {
        Ok(ColumnValues { frame: Frame::try_new(column.as_dataset())?.with_block_rows(BLOCK), numbers })
    }

    /// Returns the number of values, and for each share its quantile, which lies in its bounds; `None` if a quantile
    /// does not, or too many other values do.
    ///
    /// Threads add the numbers of values that they collect to `collected`. Once these are too many, `is_full` is set,
    /// and no block is read any more. Both are relaxed, as they only limit memory and time: the results are read after
    /// all threads have ended, and are dropped if `is_full` is set.
    fn quantiles_within(self, bounds: &[QuantileBounds], shares: &[f64]) -> Result<Option<(u64, Vec<f64>)>> {
        assert!(bounds.len() == shares.len(), "{} bounds for {} quantiles", bounds.len(), shares.len());
        let values = ColumnValues { frame: self.frame.with_block_rows(BOUNDED_BLOCK), ..self };
        let is_full = AtomicBool::new(false);
        let collected = AtomicUsize::new(0);
        let blocks = values.frame.num_blocks();
        let blocks_values: Vec<Result<_>> =
            parallel::map(blocks, blocks.saturating_mul(BOUNDED_BLOCK * WORD_BYTES), |block| {
                let mut block_values = vec![BoundedValues::default(); bounds.len()];
                if !is_full.load(Ordering::Relaxed) {
                    values.add_block(block, bounds, &mut block_values)?;
                }
                let added: usize = block_values.iter().map(|values| values.within.len()).sum();
                if collected.fetch_add(added, Ordering::Relaxed) + added > MAX_COLLECTED {
                    is_full.store(true, Ordering::Relaxed);
                }
                Ok(block_values)
            });

        let mut totals = vec![BoundedValues::default(); bounds.len()];
        for block_values in blocks_values {
            for (total, values) in totals.iter_mut().zip(block_values?) {
                total.append(values);
            }
        }
        // All bounds were compared with all values.
        let count = totals.first().map_or(0, |total| total.count);
        if is_full.into_inner() || count == 0 {
            return Ok(None);
        }
        assert!(totals.iter().all(|total| total.count == count), "bounds were compared with different values");
        let quantiles: Option<Vec<f64>> =
            shares.iter().zip(&mut totals).map(|(share, total)| total.quantile(*share)).collect();
        Ok(quantiles.map(|quantiles| (count, quantiles)))
    }

    /// Compares the values of a block with all bounds, and adds the results to `totals`.
    fn add_block(&self, block: usize, bounds: &[QuantileBounds], totals: &mut [BoundedValues]) -> Result<()> {
        let mut numbers = Vec::new();
        for (part, rows) in self.frame.spans(block) {
            let array = self.frame.checked(part, 0)?;
            let values = if *array.data_type() == DataType::Float64 && array.null_count() == 0 {
                values_in(array, rows)
            } else {
                numbers.clear();
                self.for_each_in_rows(part, rows, &mut |word| numbers.push(word_to_float(word).to_le_bytes()))?;
                &numbers[..]
            };
            for (&bound, total) in bounds.iter().zip(&mut *totals) {
                add_values(values, bound, total);
            }
        }
        Ok(())
    }

    /// Returns the values of ranks `ranks`, from 0; `counts` has the number of values with each first digit.
    fn values_at_ranks(&self, counts: &[u64], ranks: &[u64]) -> Result<Vec<u64>> {
        let mut targets: Vec<RankTarget> =
            ranks.iter().map(|&rank| locate_rank(BitPrefix::ALL, counts, rank)).collect();
        loop {
            let mut prefixes = Vec::new();
            let mut num_values = 0;
            for target in &targets {
                if !prefixes.contains(&target.prefix) {
                    prefixes.push(target.prefix);
                    num_values += target.count;
                }
            }
            if prefixes.iter().all(|prefix| prefix.len == u64::BITS) {
                return Ok(targets.iter().map(|target| target.prefix.bits).collect());
            }
            if num_values <= MAX_SORTED {
                let sorted = self.collect_sorted(&prefixes)?;
                return Ok(targets.iter().map(|target| target.value_in(&prefixes, &sorted)).collect());
            }
            let counts = self.count_digits(&prefixes)?;
            for target in &mut targets {
                let position = prefixes.iter().position(|prefix| *prefix == target.prefix);
                let Some(position) = position else { return Err(Error::internal("a rank without its prefix")) };
                *target = locate_rank(target.prefix, &counts[position], target.rank);
            }
        }
    }

    /// Counts the values with each prefix by their next digit.
    fn count_digits(&self, prefixes: &[BitPrefix]) -> Result<Vec<Histogram>> {
        let mut total = vec![vec![0u64; DIGITS]; prefixes.len()];
        self.for_each_block(
            |block| {
                // A block has fewer rows than 32 bits can count.
                let mut counts = vec![vec![0u32; DIGITS]; prefixes.len()];
                self.for_each_in_block(block, |word| {
                    if let Some(number) = prefixes.iter().position(|prefix| prefix.is_prefix_of(word)) {
                        counts[number][prefixes[number].digit(word)] += 1;
                    }
                })?;
                Ok(counts)
            },
            |counts| {
                for (total, counts) in total.iter_mut().zip(counts) {
                    total.iter_mut().zip(counts).for_each(|(total, count)| *total += u64::from(count));
                }
            },
        )?;
        Ok(total)
    }

    /// Returns the values with each prefix, in order.
    fn collect_sorted(&self, prefixes: &[BitPrefix]) -> Result<Vec<Vec<u64>>> {
        let mut all = vec![Vec::new(); prefixes.len()];
        self.for_each_block(
            |block| {
                let mut block_values = vec![Vec::new(); prefixes.len()];
                self.for_each_in_block(block, |word| {
                    if let Some(number) = prefixes.iter().position(|prefix| prefix.is_prefix_of(word)) {
                        block_values[number].push(word);
                    }
                })?;
                Ok(block_values)
            },
            |block_values| all.iter_mut().zip(block_values).for_each(|(all, values)| all.extend(values)),
        )?;
        all.iter_mut().for_each(|values| values.sort_unstable());
        Ok(all)
    }

    /// Returns all values.
    fn collect_all(&self) -> Result<Vec<u64>> {
        let mut all = Vec::new();
        self.for_each_block(
            |block| {
                let mut block_values = Vec::new();
                self.for_each_in_block(block, |word| block_values.push(word))?;
                Ok(block_values)
            },
            |block_values| all.extend(block_values),
        )?;
        Ok(all)
    }

    /// Runs `work` on each block in parallel, and passes its results to `take`.
    fn for_each_block<T: Send>(&self, work: impl Fn(usize) -> Result<T> + Sync, mut take: impl FnMut(T)) -> Result<()> {
        let wave = BLOCKS_PER_THREAD * parallel::available_threads();
        for start in (0..self.frame.num_blocks()).step_by(wave) {
            let blocks: Range<usize> = start..self.frame.num_blocks().min(start + wave);
            let results = parallel::map(blocks.len(), blocks.len() * BLOCK * WORD_BYTES, |job| work(start + job));
            for result in results {
                take(result?);
            }
        }
        Ok(())
    }

    /// Calls `work` with each numeric value of a block.
    fn for_each_in_block(&self, block: usize, mut work: impl FnMut(u64)) -> Result<()> {
        self.frame.spans(block).try_for_each(|(part, rows)| self.for_each_in_rows(part, rows, &mut work))
    }

    /// Calls `work` with each numeric value in some rows of a batch.
    fn for_each_in_rows(&self, part: usize, rows: Range<usize>, work: &mut impl FnMut(u64)) -> Result<()> {
        // All rows are in one group; the loops below move nulls to the group of excluded rows.
        let mut ids = room_for(rows.len() as u64, "rows to rank")?;
        ids.resize(rows.len(), ONLY_GROUP);
        with_decoded_rows(self.frame.checked(part, 0)?, rows, |array, rows| {
            let rows = GroupedRows { array, rows, ids: &ids, lane: 0, is_sparse: false };
            match self.numbers {
                QuantileType::Floats => for_each_float(&rows, |id, _, number| {
                    if id != OUT && !number.is_nan() {
                        work(float_to_word(number));
                    }
                }),
                QuantileType::Times => for_each_integer(&rows, |id, _, number| {
                    if id != OUT {
                        work((number as i64).cast_unsigned() ^ SIGN);
                    }
                }),
            }
        })
    }
}

impl RankTarget {
    /// Returns the value, given the values with each prefix in order.
    fn value_in(&self, prefixes: &[BitPrefix], sorted: &[Vec<u64>]) -> u64 {
        debug_assert_eq!(prefixes.len(), sorted.len());
        for (prefix, values) in prefixes.iter().zip(sorted) {
            if *prefix == self.prefix
                && let Some(value) = usize::try_from(self.rank).ok().and_then(|rank| values.get(rank))
            {
                return *value;
            }
        }
        // If the file changed meanwhile, there may be fewer values than before. The caller checks for such a change.
        self.prefix.bits.checked_shl(u64::BITS - self.prefix.len).unwrap_or(self.prefix.bits)
    }
}

/// Locates rank `rank` of the values with `prefix` by their next digit.
fn locate_rank(prefix: BitPrefix, counts: &[u64], mut rank: u64) -> RankTarget {
    for (digit, &count) in counts.iter().enumerate() {
        if rank < count {
            return RankTarget { prefix: prefix.with(digit), rank, count };
        }
        rank -= count;
    }
    RankTarget { prefix: prefix.with(0), rank: 0, count: 0 }
}

/// Converts a number to a word with the same order: flips the sign of a positive number, and all bits of a negative
/// one. −0 becomes 0.
fn float_to_word(number: f64) -> u64 {
    let bits = (number + 0.0).to_bits();
    bits ^ if bits & SIGN != 0 { u64::MAX } else { SIGN }
}

/// Reverses [`float_to_word`].
fn word_to_float(word: u64) -> f64 {
    f64::from_bits(word ^ if word & SIGN != 0 { SIGN } else { u64::MAX })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sort_keys_have_the_order_of_floats(a in any::<f64>(), b in any::<f64>()) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(float_to_word(a).cmp(&float_to_word(b)), a.partial_cmp(&b).unwrap());
            prop_assert_eq!(word_to_float(float_to_word(a)), a);
        }

        /// The value of a rank is the same whether values are collected or counted by all of their bits.
        #[test]
        fn radix_selection_finds_the_value_of_a_rank(
            mut values in prop::collection::vec(any::<i16>(), 1..200),
            rank in any::<prop::sample::Index>(),
        ) {
            let numbers: Vec<u64> = values.iter().map(|&value| float_to_word(f64::from(value) * 1e-3)).collect();
            values.sort_unstable();
            let rank = rank.index(values.len());
            let mut target = RankTarget { prefix: BitPrefix::ALL, rank: rank as u64, count: values.len() as u64 };
            while target.prefix.len < u64::BITS {
                let mut counts = vec![0u64; DIGITS];
                for &number in numbers.iter().filter(|&&number| target.prefix.is_prefix_of(number)) {
                    counts[target.prefix.digit(number)] += 1;
                }
                prop_assert_eq!(counts.iter().sum::<u64>(), target.count);
                target = locate_rank(target.prefix, &counts, target.rank);
            }
            prop_assert_eq!(word_to_float(target.prefix.bits), f64::from(values[rank]) * 1e-3);
        }
    }
}
