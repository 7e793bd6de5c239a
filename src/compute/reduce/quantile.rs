//! Exact quantiles of columns of any size, without a copy.
//!
//! Of a large column, a sample tells between which two values each quantile lies, but for one column in thousands. One pass
//! counts the values below them, and collects those between them, among which the quantile is found by its rank.
//!
//! Of a small column, or of few values, all are collected. If a quantile lies elsewhere, or too many values between those of
//! the sample, values are counted: they are mapped to 64-bit integers in the same order; one pass counts them by their first
//! 16 bits, which locates the requested ranks; values with the right prefix are collected, or counted again by their next 16
//! bits while they are too many.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_schema::DataType;
use multiversion::multiversion;

use super::accumulate::{GroupedRows, for_each_float, for_each_integer, with_decoded_rows};
use crate::array::access::fixed_values;
use crate::array::room_for;
use crate::compute::frame::Frame;
use crate::compute::select::SplitMix64;
use crate::dataset::Column;
use crate::error::{Error, Result};
use crate::parallel;

/// Bits that one pass counts by.
const DIGIT: u32 = 16;
/// The maximum number of values to collect and sort.
const FEW: u64 = 1 << 20;
/// The maximum number of values to collect between those of a sample.
const MOST_COLLECTED: usize = 4 << 20;
/// Rows per unit of work.
const BLOCK: usize = 1 << 20;
/// Blocks per thread whose counts are held until they are summed.
const WAVE: usize = 4;
/// The bit of a number's sign.
const SIGN: u64 = 1 << 63;
/// Ranks searched in one pass.
const AT_ONCE: usize = 16;
/// Rows in the sample of a larger column.
const SAMPLE: u64 = 1 << 20;

/// Rows in a sample of which one pass leaves few values, if the column is not very large.
const ENOUGH_SAMPLED: u64 = 1 << 13;
/// Rows of which one is sampled, where a smaller sample takes less time, though it leaves more values.
const ROWS_A_SAMPLE: u64 = 1 << 6;
/// Rows up to which collecting all values takes no longer than a sample.
const FEWEST_ROWS: u64 = 1 << 15;
/// Rows beyond which there are too many between two of the largest sample.
const MOST_ROWS: u64 = 1 << 28;
/// Rows whose values are collected at a time.
const STEP: usize = 1 << 14;

/// Two ordered values, and where between them a quantile lies: from 0 to 1.
type Interpolation = ([u64; 2], f64);

impl Column {
    /// The exact `q`-quantile, with linear interpolation between two values. Nulls and NaN are ignored; other numbers
    /// are converted to the nearest float. `None` if there are no values. Takes one or two passes over the column, rarely more,
    /// and no copy.
    ///
    /// # Errors
    /// `InvalidArgument` unless `q` is between 0 and 1; `Unsupported` for types other than numbers.
    pub fn quantile(&self, q: f64) -> Result<Option<f64>> {
        Ok(self.quantiles(&[q])?.and_then(|found| found.first().copied()))
    }

    /// The quantile of a sample of 1,048,576 rows, the same each time; the exact quantile if the column has no more
    /// rows, or if more than half of the sample is null or NaN. The cost does not depend on the column's size. The
    /// share of values below the result differs from `q` by more than 0.005 less than once in a hundred million columns
    /// (Dvoretzky, Kiefer and Wolfowitz).
    ///
    /// # Errors
    /// As [`quantile`](Column::quantile).
    pub fn approx_quantile(&self, q: f64) -> Result<Option<f64>> {
        self.check_quantiles(&[q])?;
        let rows = self.len()?;
        if rows <= SAMPLE {
            return self.quantile(q);
        }
        let sample = self.as_dataset().take(&self.drawn(SAMPLE, rows))?.column_at(0)?;
        let (numbers, found) = sample.with_change_check(|| sample.counted_quantiles(&[q]))?;
        if numbers < SAMPLE / 2 { self.quantile(q) } else { Ok(found.first().copied()) }
    }

    /// Computes several quantiles at once.
    ///
    /// # Errors
    /// As [`quantile`](Column::quantile).
    pub fn quantiles(&self, shares: &[f64]) -> Result<Option<Vec<f64>>> {
        self.check_quantiles(shares)?;
        let (numbers, found) = self.with_change_check(|| self.counted_quantiles(shares))?;
        Ok((numbers > 0).then_some(found))
    }

    /// Quantiles of dates, times and lengths of time, in units of the type; between two values they are rounded down. `None`
    /// if there are no values.
    ///
    /// # Errors
    /// `Unsupported` for other types.
    pub(in crate::compute) fn time_quantiles(&self, shares: &[f64]) -> Result<Option<Vec<i64>>> {
        if !self.data_type().is_temporal() || matches!(self.data_type(), DataType::Interval(_)) {
            return Err(self.unsupported_operation("a quantile"));
        }
        let (count, found) = self.with_change_check(|| self.ranked(shares, QuantileType::Times))?;
        let time = |&(ends, part): &Interpolation| {
            let [low, high] = ends.map(|ordered| i128::from((ordered ^ SIGN).cast_signed()));
            // The place between two values has no more digits than a float.
            (low + ((high - low) as f64 * part).floor() as i128).min(high) as i64
        };
        Ok((count > 0).then(|| found.iter().map(time).collect()))
    }

    /// The number of numeric values, and their quantiles, if there are any.
    fn counted_quantiles(&self, shares: &[f64]) -> Result<(u64, Vec<f64>)> {
        if let Some(found) = self.between_samples(shares)? {
            return Ok(found);
        }
        let (count, found) = self.ranked(shares, QuantileType::Floats)?;
        Ok((count, found.into_iter().map(|(ends, part)| between(&ends.map(float), part)).collect()))
    }

    /// The same by a sample; `None` if it does not tell enough.
    fn between_samples(&self, shares: &[f64]) -> Result<Option<(u64, Vec<f64>)>> {
        let rows = self.len()?;
        // As many as leave a share of the rows between two of them that is few.
        let least = ENOUGH_SAMPLED.min(rows / ROWS_A_SAMPLE);
        let size = (rows / (FEW / 8)).saturating_pow(2).clamp(least, SAMPLE);
        if !(FEWEST_ROWS..=MOST_ROWS).contains(&rows) || shares.len() > AT_ONCE {
            return Ok(None);
        }
        let mut sampled = Vec::with_capacity(size as usize);
        let sample = self.as_dataset().take(&self.drawn(size, rows))?.column_at(0)?;
        let values = ColumnValues::try_new(&sample, QuantileType::Floats)?;
        (0..values.frame.num_blocks())
            .try_for_each(|block| values.each(block, |ordered| sampled.push(float(ordered))))?;
        if (sampled.len() as u64) < size / 2 {
            return Ok(None);
        }
        sampled.sort_unstable_by(f64::total_cmp);
        let windows: Vec<QuantileBounds> =
            shares.iter().map(|share| QuantileBounds::from_sample(*share, &sampled)).collect();
        ColumnValues::try_new(self, QuantileType::Floats)?.inside(&windows, shares)
    }

    /// Random rows in order, the same each time.
    fn drawn(&self, size: u64, rows: u64) -> Vec<i64> {
        let mut random = SplitMix64::new(0);
        let mut drawn: Vec<i64> = (0..size).map(|_| random.below(rows).cast_signed()).collect();
        drawn.sort_unstable();
        drawn
    }

    /// The number of values, and for each share the two ordered values that its quantile lies between, and where; none if
    /// there are no values.
    fn ranked(&self, shares: &[f64], numbers: QuantileType) -> Result<(u64, Vec<Interpolation>)> {
        let values = ColumnValues::try_new(self, numbers)?;
        let all = || Ok(select(values.collected(&[BitPrefix::ALL])?.pop().unwrap_or_default(), shares));
        if self.len()? <= FEW {
            return all();
        }
        let first = values.count(&[BitPrefix::ALL])?;
        let count: u64 = first[0].iter().sum();
        if count <= FEW {
            return all();
        }
        let places: Vec<f64> = shares.iter().map(|share| share * (count - 1) as f64).collect();
        let ranks: Vec<u64> = places.iter().flat_map(|place| [place.floor() as u64, place.ceil() as u64]).collect();
        let mut at = Vec::with_capacity(ranks.len());
        for ranks in ranks.chunks(AT_ONCE) {
            at.extend(values.at(&first[0], ranks)?);
        }
        let ends = at.as_chunks::<2>().0;
        Ok((count, places.iter().zip(ends).map(|(place, ends)| (*ends, place.fract())).collect()))
    }

    fn check_quantiles(&self, shares: &[f64]) -> Result<()> {
        if let Some(share) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(Error::invalid_argument(format!("a quantile lies between 0 and 1, got {share}")));
        }
        if !super::sum::is_number(self.data_type()) {
            return Err(self.unsupported_operation("a quantile"));
        }
        Ok(())
    }
}

/// The number of values, and for each share the two of them that its quantile lies between, and where.
fn select(mut values: Vec<u64>, shares: &[f64]) -> (u64, Vec<Interpolation>) {
    let Some(last) = values.len().checked_sub(1) else { return (0, Vec::new()) };
    let is_sorted = shares.len() > AT_ONCE;
    if is_sorted {
        values.sort_unstable();
    }
    let found = shares.iter().map(|share| {
        let place = share * last as f64;
        let at = place.floor() as usize;
        let (low, next) = if is_sorted {
            (values[at], values.get(at + 1).copied())
        } else {
            let (_, &mut low, above) = values.select_nth_unstable(at);
            (low, above.iter().min().copied())
        };
        ([low, next.filter(|_| place.fract() > 0.0).unwrap_or(low)], place.fract())
    });
    (last as u64 + 1, found.collect())
}

/// Interpolates between two numbers by the share `part`.
fn between(&[low, high]: &[f64; 2], part: f64) -> f64 {
    if part == 0.0 || low == high {
        return low;
    }
    if part == 0.5 {
        // As the median of a group is.
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

/// What is found of the values of some rows.
#[derive(Clone, Debug, Default)]
struct BoundedValues {
    /// How many are numbers, and how many of these are less than the window's.
    count: u64,
    below: u64,
    found: Vec<f64>,
}

impl QuantileBounds {
    /// Five times the deviation to be expected, to both sides of the share of a sorted sample.
    fn from_sample(share: f64, sampled: &[f64]) -> QuantileBounds {
        let len = sampled.len() as f64;
        let (place, by) = (share * len, 5.0 * (share * (1.0 - share) * len).sqrt() + 2.0);
        // Beyond the sample is any value.
        let low = if place < by { None } else { sampled.get((place - by) as usize) };
        QuantileBounds {
            low: low.map_or(f64::NEG_INFINITY, |low| *low),
            high: sampled.get((place + by) as usize).map_or(f64::INFINITY, |high| *high),
        }
    }
}

impl BoundedValues {
    /// The value of rank `rank` of all, or `None` if it is not in the window; and the one after it.
    fn at(&mut self, rank: u64) -> Option<[f64; 2]> {
        let at = usize::try_from(rank.checked_sub(self.below)?).ok().filter(|&at| at < self.found.len())?;
        let (_, &mut value, above) = self.found.select_nth_unstable_by(at, f64::total_cmp);
        let next = above.iter().copied().min_by(f64::total_cmp);
        // −0 is 0.
        Some([value + 0.0, next.unwrap_or(f64::NAN) + 0.0])
    }
}

/// Counts values and those below the window, and appends those in it.
#[multiversion(targets("x86_64+avx512f+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn add_inside(values: &[[u8; 8]], window: QuantileBounds, inside: &mut BoundedValues) {
    let QuantileBounds { low, high } = window;
    for values in values.chunks(256) {
        let mut found = [0.0; 256];
        let (mut len, mut below, mut count) = (0usize, 0u32, 0u32);
        for raw in values {
            let number = f64::from_le_bytes(*raw);
            // Without a branch: whether it is kept decides only whether the next one is written over it.
            found[len % 256] = number;
            len += usize::from((number >= low) & (number <= high));
            below += u32::from(number < low);
            count += u32::from(!number.is_nan());
        }
        inside.found.extend_from_slice(&found[..len]);
        inside.below += u64::from(below);
        inside.count += u64::from(count);
    }
}

/// A prefix of values' bits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BitPrefix {
    bits: u64,
    len: u32,
}

impl BitPrefix {
    const ALL: BitPrefix = BitPrefix { bits: 0, len: 0 };

    fn holds(self, ordered: u64) -> bool {
        ordered.checked_shr(64 - self.len).unwrap_or(0) == self.bits
    }

    /// The next bits of a value with the prefix.
    fn digit(self, ordered: u64) -> usize {
        (ordered >> (64 - DIGIT - self.len) & ((1 << DIGIT) - 1)) as usize
    }

    fn with(self, digit: usize) -> BitPrefix {
        BitPrefix { bits: self.bits << DIGIT | digit as u64, len: self.len + DIGIT }
    }
}

/// A requested value.
#[derive(Clone, Copy, Debug)]
struct RankTarget {
    /// Its prefix.
    prefix: BitPrefix,
    /// Its rank among the values with that prefix.
    rank: u64,
    /// The number of those values.
    count: u64,
}

/// The number of values with each next digit.
type Histogram = Vec<u64>;

/// As what the values of a column are put in order.
#[derive(Clone, Copy, Debug)]
enum QuantileType {
    Floats,
    Times,
}

/// The numbers of a column.
struct ColumnValues<'a> {
    frame: Frame<'a>,
    numbers: QuantileType,
}

impl<'a> ColumnValues<'a> {
    fn try_new(column: &'a Column, numbers: QuantileType) -> Result<ColumnValues<'a>> {
        Ok(ColumnValues { frame: Frame::try_new(column.as_dataset())?.with_block_rows(BLOCK), numbers })
    }

    /// The number of values, and for each share its quantile, which lies in its window; `None` if one does not, or too many
    /// others do.
    fn inside(self, windows: &[QuantileBounds], shares: &[f64]) -> Result<Option<(u64, Vec<f64>)>> {
        let values = ColumnValues { frame: self.frame.with_block_rows(STEP), ..self };
        let is_full = AtomicBool::new(false);
        let collected = AtomicUsize::new(0);
        let blocks = values.frame.num_blocks();
        let done: Vec<Result<_>> = parallel::map(blocks, blocks.saturating_mul(STEP * 8), |block| {
            let mut inside = vec![BoundedValues::default(); windows.len()];
            if !is_full.load(Ordering::Relaxed) {
                values.add_block(block, windows, &mut inside)?;
            }
            let found: usize = inside.iter().map(|inside| inside.found.len()).sum();
            if collected.fetch_add(found, Ordering::Relaxed) + found > MOST_COLLECTED {
                is_full.store(true, Ordering::Relaxed);
            }
            Ok(inside)
        });
        let mut all = vec![BoundedValues::default(); windows.len()];
        for done in done {
            for (all, own) in all.iter_mut().zip(done?) {
                all.found.extend(own.found);
                all.below += own.below;
                all.count += own.count;
            }
        }
        let count = all.first().map_or(0, |all| all.count);
        if is_full.into_inner() || count == 0 {
            return Ok(None);
        }
        let quantile = |(share, all): (&f64, &mut BoundedValues)| {
            let place = share * (count - 1) as f64;
            let [value, next] = all.at(place.floor() as u64)?;
            let is_last = place.fract() == 0.0;
            (is_last || !next.is_nan()).then(|| between(&[value, next], place.fract()))
        };
        Ok(shares.iter().zip(&mut all).map(quantile).collect::<Option<Vec<_>>>().map(|found| (count, found)))
    }

    fn add_block(&self, block: usize, windows: &[QuantileBounds], inside: &mut [BoundedValues]) -> Result<()> {
        let mut numbers = Vec::new();
        for (part, rows) in self.frame.spans(block) {
            let array = self.frame.checked(part, 0)?;
            let is_plain = matches!(array.data_type(), DataType::Float64) && array.null_count() == 0;
            let values = if is_plain {
                fixed_values(array).get(rows).unwrap_or_default()
            } else {
                numbers.clear();
                self.each_of(part, rows, &mut |ordered| numbers.push(float(ordered).to_le_bytes()))?;
                &numbers[..]
            };
            windows.iter().zip(&mut *inside).for_each(|(window, inside)| add_inside(values, *window, inside));
        }
        Ok(())
    }

    /// The values of ranks `ranks`, from 0; `counts` has the number with each first digit.
    fn at(&self, counts: &[u64], ranks: &[u64]) -> Result<Vec<u64>> {
        let mut wanted: Vec<RankTarget> = ranks.iter().map(|&rank| within(BitPrefix::ALL, counts, rank)).collect();
        loop {
            let mut prefixes: Vec<(BitPrefix, u64)> = Vec::new();
            for wanted in &wanted {
                if !prefixes.contains(&(wanted.prefix, wanted.count)) {
                    prefixes.push((wanted.prefix, wanted.count));
                }
            }
            let is_whole = prefixes.iter().all(|(prefix, _)| prefix.len == u64::BITS);
            if is_whole || prefixes.iter().map(|(_, count)| count).sum::<u64>() <= FEW {
                let prefixes: Vec<BitPrefix> = prefixes.into_iter().map(|(prefix, _)| prefix).collect();
                let sorted = if is_whole { Vec::new() } else { self.sorted(&prefixes)? };
                return Ok(wanted.iter().map(|wanted| wanted.value(&prefixes, &sorted)).collect());
            }
            let prefixes: Vec<BitPrefix> = prefixes.into_iter().map(|(prefix, _)| prefix).collect();
            let counts = self.count(&prefixes)?;
            for wanted in &mut wanted {
                let at = prefixes.iter().position(|prefix| *prefix == wanted.prefix);
                if let Some(counts) = at.and_then(|at| counts.get(at)) {
                    *wanted = within(wanted.prefix, counts, wanted.rank);
                }
            }
        }
    }

    /// Counts the values with each prefix by their next digit.
    fn count(&self, prefixes: &[BitPrefix]) -> Result<Vec<Histogram>> {
        let mut total = vec![vec![0u64; 1 << DIGIT]; prefixes.len()];
        self.each_wave(
            |block| {
                // A block has fewer rows than 32 bits can count.
                let mut counts = vec![vec![0u32; 1 << DIGIT]; prefixes.len()];
                self.each(block, |ordered| {
                    if let Some(at) = prefixes.iter().position(|prefix| prefix.holds(ordered)) {
                        counts[at][prefixes[at].digit(ordered)] += 1;
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

    /// The values with each prefix, in order.
    fn sorted(&self, prefixes: &[BitPrefix]) -> Result<Vec<Vec<u64>>> {
        let mut all = self.collected(prefixes)?;
        all.iter_mut().for_each(|values| values.sort_unstable());
        Ok(all)
    }

    /// The values with each prefix.
    fn collected(&self, prefixes: &[BitPrefix]) -> Result<Vec<Vec<u64>>> {
        let mut all = vec![Vec::new(); prefixes.len()];
        self.each_wave(
            |block| {
                let mut found = vec![Vec::new(); prefixes.len()];
                self.each(block, |ordered| {
                    if let Some(at) = prefixes.iter().position(|prefix| prefix.holds(ordered)) {
                        found[at].push(ordered);
                    }
                })?;
                Ok(found)
            },
            |found: Vec<Vec<u64>>| all.iter_mut().zip(found).for_each(|(all, found)| all.extend(found)),
        )?;
        Ok(all)
    }

    /// Runs `work` on each block in parallel, and passes its results to `take`.
    fn each_wave<T: Send>(&self, work: impl Fn(usize) -> Result<T> + Sync, mut take: impl FnMut(T)) -> Result<()> {
        let wave = WAVE * parallel::available_threads();
        for start in (0..self.frame.num_blocks()).step_by(wave) {
            let blocks: Range<usize> = start..self.frame.num_blocks().min(start + wave);
            let done = parallel::map(blocks.len(), blocks.len() * BLOCK * 8, |job| work(start + job));
            for done in done {
                take(done?);
            }
        }
        Ok(())
    }

    /// Calls `work` with each numeric value of a block.
    fn each(&self, block: usize, mut work: impl FnMut(u64)) -> Result<()> {
        self.frame.spans(block).try_for_each(|(part, rows)| self.each_of(part, rows, &mut work))
    }

    /// The same of rows of a batch.
    fn each_of(&self, part: usize, rows: Range<usize>, work: &mut impl FnMut(u64)) -> Result<()> {
        let mut ids = room_for(rows.len() as u64, "rows to rank")?;
        ids.resize(rows.len(), 1);
        with_decoded_rows(self.frame.checked(part, 0)?, rows, |array, rows| {
            let rows = GroupedRows { array, rows, ids: &ids, lane: 0, is_sparse: false };
            match self.numbers {
                QuantileType::Floats => for_each_float(&rows, |id, _, number| {
                    if id != 0 && !number.is_nan() {
                        work(ordered(number));
                    }
                }),
                QuantileType::Times => for_each_integer(&rows, |id, _, number| {
                    if id != 0 {
                        work((number as i64).cast_unsigned() ^ SIGN);
                    }
                }),
            }
        })
    }
}

impl RankTarget {
    /// The value among the sorted ones; a complete prefix is the value itself.
    fn value(&self, prefixes: &[BitPrefix], sorted: &[Vec<u64>]) -> u64 {
        let at = prefixes.iter().position(|prefix| *prefix == self.prefix);
        let value = at.and_then(|at| sorted.get(at)?.get(usize::try_from(self.rank).ok()?));
        // If the file changes meanwhile, there may be fewer values.
        value.copied().unwrap_or_else(|| self.prefix.bits << (64 - self.prefix.len))
    }
}

/// Locates rank `rank` of the values with `prefix` by their next digit.
fn within(prefix: BitPrefix, counts: &[u64], mut rank: u64) -> RankTarget {
    for (digit, &count) in counts.iter().enumerate() {
        if rank < count {
            return RankTarget { prefix: prefix.with(digit), rank, count };
        }
        rank -= count;
    }
    RankTarget { prefix: prefix.with(0), rank: 0, count: 0 }
}

/// Bits in the order of the numbers: the sign is flipped, for negative numbers all bits. −0 becomes 0.
fn ordered(number: f64) -> u64 {
    let bits = (number + 0.0).to_bits();
    bits ^ if bits >> 63 == 1 { u64::MAX } else { 1 << 63 }
}

fn float(ordered: u64) -> f64 {
    f64::from_bits(ordered ^ if ordered >> 63 == 1 { 1 << 63 } else { u64::MAX })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_in_the_order_of_numbers(a in any::<f64>(), b in any::<f64>()) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(ordered(a).cmp(&ordered(b)), a.partial_cmp(&b).unwrap());
            prop_assert_eq!(float(ordered(a)), a);
        }

        /// Ranks are found in the same place whether values are collected or counted to their last bit.
        #[test]
        fn digits_lead_to_the_value(mut values in prop::collection::vec(any::<i16>(), 1..200), rank in any::<prop::sample::Index>()) {
            let numbers: Vec<u64> = values.iter().map(|&value| ordered(f64::from(value) * 1e-3)).collect();
            values.sort_unstable();
            let rank = rank.index(values.len());
            let mut wanted = RankTarget { prefix: BitPrefix::ALL, rank: rank as u64, count: values.len() as u64 };
            while wanted.prefix.len < 64 {
                let mut counts = vec![0u64; 1 << DIGIT];
                let inside = numbers.iter().filter(|&&number| wanted.prefix.holds(number));
                inside.for_each(|&number| counts[wanted.prefix.digit(number)] += 1);
                prop_assert_eq!(counts.iter().sum::<u64>(), wanted.count);
                wanted = within(wanted.prefix, &counts, wanted.rank);
            }
            prop_assert_eq!(float(wanted.value(&[wanted.prefix], &[])), f64::from(values[rank]) * 1e-3);
        }
    }
}
