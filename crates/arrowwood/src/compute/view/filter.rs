//! Selects the rows for which a predicate is true: `filter`, `prune` and `between`.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};

use super::filtered_rows::{FilteredRows, filter_input, fits};
use crate::array::{Value, has_room, require_little_endian};
use crate::compute::expr::{
    BoundPredicate, Literal, LiteralValue, Operator, Predicate, ValuePredicate, col, prune_blocks, prune_partitions,
};
use crate::compute::gather::{BATCH, RowSelection, gather_selections};
use crate::compute::scan::{BLOCK, Frame};
use crate::compute::selection::RowSet;
use crate::dataset::{Dataset, SourceSlice};
use crate::error::{Error, Result};
use crate::map::ChangeCheck;
use crate::parallel;
use crate::types::layout::MILLIS_PER_DAY;
use crate::types::type_name;

/// The number of blocks of a batch of the result.
const BATCH_BLOCKS: usize = BATCH / BLOCK;

/// The number of rows over which a binary search stays within a few pages.
const ROWS_OF_FEW_PAGES: u64 = 4096;

/// The number of bytes of a row's number.
const ROW_NUMBER_BYTES: usize = size_of::<u64>();

/// The maximum number of bytes of a result for each byte of the rows in files, if memory may have no room for it.
const MAX_RESULT_PER_STORED_BYTE: u64 = 64;

/// # Rows that satisfy a condition
impl Dataset {
    /// Returns the rows for which `predicate` is true, in order.
    ///
    /// In a sorted table, only the rows between the bounds on its column are read; blocks of indexed columns that can't
    /// have such rows are skipped.
    ///
    /// The predicate is evaluated immediately, and columns are copied lazily, each when it is first used. Single rows,
    /// and [`Dataset::aggregate`], read them in place. The result keeps the source rows alive: call
    /// [`Dataset::collect`] to copy the selected rows and detach them.
    ///
    /// ```
    /// # use arrowwood::*;
    /// # use std::sync::Arc;
    /// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
    /// # let batch = arrow_array::RecordBatch::try_from_iter([("n", array)]).unwrap();
    /// # let dataset = Dataset::try_from(vec![batch])?;
    /// let few = dataset.filter(&(col("n").gt(1) & col("n").ne(3)))?;
    /// assert_eq!(few.len()?, 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `ColumnNotFound`; `InvalidArgument` for a value that can't be compared with the column; `Unsupported` for
    /// columns of nested types.
    pub fn filter(&self, predicate: &Predicate) -> Result<Dataset> {
        require_little_endian("filtering")?;
        let condition = BoundPredicate::bind(predicate, self)?;
        self.with_change_check(ChangeCheck::Now, || {
            let pruned = prune_inner(self, predicate)?;
            let frame = Frame::for_part(&pruned, self)?;
            check_result_memory(&pruned, frame.num_rows().div_ceil(u8::BITS.into()))?;
            let rows = RowSet::build(&frame, |part, rows| condition.mask(&frame, part, rows))?;
            // A filter of a filter's result is one filter of its input.
            let (input, rows) = match filter_input(&pruned) {
                Some((input, selected)) => (input, selected.subset(&rows)),
                None => (pruned.clone(), rows),
            };
            let frame = Frame::try_new(&input)?;
            let rows = Arc::new(rows);
            // The rows are copied at once if the input is a part of a filter's result. Otherwise a window that is
            // filtered again and again would keep all rows that it has ever contained.
            if !input.retains_other_rows() && fits(&input, &frame, &rows)? {
                return Ok(Dataset::from_source(Arc::new(FilteredRows::new(input, rows)?)));
            }
            gather_selections(&input, &frame, select_rows(&frame, &BoundPredicate::Rows(rows))?)
        })
    }

    /// Returns the numbers of the rows for which `predicate` is true, in order.
    ///
    /// They count from the dataset's first row. Reads all rows of the columns that the predicate names:
    /// [`prune`](Dataset::prune) the dataset first.
    ///
    /// # Errors
    /// As [`Dataset::filter`].
    pub fn matching_rows(&self, predicate: &Predicate) -> Result<Vec<u64>> {
        require_little_endian("filtering")?;
        let condition = BoundPredicate::bind(predicate, self)?;
        self.with_change_check(ChangeCheck::Now, || {
            let frame = Frame::try_new(self)?;
            check_result_memory(self, frame.num_rows().saturating_mul(ROW_NUMBER_BYTES as u64))?;
            let bytes = usize::try_from(frame.num_rows()).unwrap_or(usize::MAX).saturating_mul(ROW_NUMBER_BYTES);
            let blocks = parallel::map(frame.num_blocks(), bytes, |block| matching_in_block(&frame, block, &condition));
            Ok(blocks.into_iter().collect::<Result<Vec<_>>>()?.concat())
        })
    }

    /// Returns a part of the dataset with all rows for which `predicate` is true, and maybe others.
    ///
    /// In a sorted table, these are the rows between the bounds; with indexed columns, the blocks that may have such
    /// rows. Callers can then filter it piece by piece.
    ///
    /// # Errors
    /// As [`Dataset::filter`].
    pub fn prune(&self, predicate: &Predicate) -> Result<Dataset> {
        self.with_change_check(ChangeCheck::Now, || prune_inner(self, predicate))
    }

    /// Prunes like [`prune`](Dataset::prune), but keeps all blocks, so that the rows of a table have no gaps.
    ///
    /// # Errors
    /// As [`Dataset::filter`].
    pub fn prune_contiguous(&self, predicate: &Predicate) -> Result<Dataset> {
        self.with_change_check(ChangeCheck::Now, || prune_to_bounds(self, predicate))
    }
}

/// Prunes without a check for changes: first partitions that can't have rows, then each table to the rows between
/// the bounds, and then blocks that can't have rows.
pub(in crate::compute) fn prune_inner(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    prune_blocks(&prune_to_bounds(dataset, predicate)?, predicate)
}

/// Returns the partitions that may have rows, each table with the rows between the bounds on its sorted column.
fn prune_to_bounds(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    let pruned = prune_partitions(dataset, predicate)?;
    let is_partitioned = pruned.pieces().iter().any(|piece| !piece.source.constants().is_empty());
    if !is_partitioned {
        return between_bounds(&pruned, predicate);
    }
    let is_bounded = pruned.split_by_path().first().is_some_and(|table| table.sorted_by().is_some());
    if !is_bounded {
        return Ok(pruned);
    }
    let mut pieces = Vec::new();
    for table in pruned.split_by_path() {
        pieces.extend_from_slice(between_bounds(&table, predicate)?.pieces());
    }
    Ok(Dataset::from_slices(dataset.schema().clone(), pieces))
}

/// Returns the rows of a sorted table between the bounds that `predicate` sets, by binary search; all rows if it
/// sets none.
fn between_bounds(dataset: &Dataset, predicate: &Predicate) -> Result<Dataset> {
    // Tables are sorted by the day of a date64, but compared by its milliseconds.
    let sorted = dataset.sorted_by().filter(|field| *field.data_type() != DataType::Date64);
    let Some(sorted) = sorted else { return Ok(dataset.clone()) };
    let bounds = predicate.comparisons_with(sorted.name());
    if bounds.is_empty() || !dataset.is_ascending() {
        return Ok(dataset.clone());
    }
    let frame = Frame::try_new(dataset)?;
    let column = dataset.sorted_column()?;
    let mut rows = 0..frame.num_rows();
    for (operator, literal) in bounds {
        if matches!(operator, Operator::Gt | Operator::Ge | Operator::Eq) {
            let operator = if operator == Operator::Eq { Operator::Ge } else { operator };
            let condition = col(sorted.name()).compare(operator, literal.clone());
            let condition = BoundPredicate::bind(&condition, dataset)?;
            let start = first_row(&column, |row| is_row_selected(&frame, row, &condition))?;
            rows.start = rows.start.max(start);
        }
        if matches!(operator, Operator::Lt | Operator::Le | Operator::Eq) {
            let operator = if operator == Operator::Eq { Operator::Le } else { operator };
            let condition = col(sorted.name()).compare(operator, literal);
            let condition = BoundPredicate::bind(&condition, dataset)?;
            let end = first_row(&column, |row| Ok(!is_row_selected(&frame, row, &condition)?))?;
            rows.end = rows.end.min(end);
        }
    }
    if rows == (0..frame.num_rows()) {
        return Ok(dataset.clone());
    }
    // Bounds may contradict each other.
    dataset.slice(rows.start, rows.end.saturating_sub(rows.start))
}

/// Returns true if the condition is true for row `row`.
fn is_row_selected(frame: &Frame<'_>, row: u64, condition: &BoundPredicate) -> Result<bool> {
    let Some((part, row)) = frame.locate(row, usize::MAX) else {
        return Err(Error::internal("a sorted column has a row that its dataset has not"));
    };
    Ok(condition.mask(frame, part, &(row..row + 1))?.is_set(0))
}

/// # Rows between two values
impl Dataset {
    /// Returns the rows whose value in the sorted column lies between `low` and `high`, both included.
    ///
    /// They are found by binary search. In tables that accept late rows, they are found by the column's index, and
    /// copied like the result of [`Dataset::filter`]. Values are compared as in a filter; integers are accepted as
    /// times in the column's unit. The rows of several tables follow each other.
    ///
    /// ```
    /// use arrowwood::{Value, Writer, WriterOptions, open, parse_schema};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("ticks");
    /// let schema = parse_schema("ts: int64, price: float64")?;
    /// let options = WriterOptions { sorted_by: Some("ts".into()), ..WriterOptions::default() };
    /// let mut writer = Writer::open(&path, Some(schema.into()), &options)?;
    /// for ts in 0..100 {
    ///     writer.append_row(&[Value::Int(ts), Value::Float64(1.5)])?;
    /// }
    /// writer.commit()?;
    /// assert_eq!(open(&path)?.between(&Value::Int(10), &Value::Int(19))?.len()?, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` unless the dataset consists of tables with `sorted_by`, or for values of another type.
    pub fn between(&self, low: &Value<'_>, high: &Value<'_>) -> Result<Dataset> {
        if let Some(number) = self.late_column() {
            return between_late(self, number, (low, high));
        }

        let tables = self.split_by_path();
        if tables.len() > 1 {
            let ranges = tables.iter().map(|table| table.between(low, high));
            return Dataset::concat(&ranges.collect::<Result<Vec<_>>>()?);
        }

        let column = self.sorted_column()?;
        if !column.ascends()? {
            return Err(Error::invalid_argument("between needs rows of one table, got parts of several"));
        }
        let bounds = ValueBounds::try_new(column.schema().field(0), (low, high))?;
        let rows = self.with_change_check(ChangeCheck::Now, || {
            let start = first_row(&column, |row| Ok(bounds.low.holds(&column.row(row)?.get(0)?)))?;
            let end = first_row(&column, |row| Ok(!bounds.high.holds(&column.row(row)?.get(0)?)))?;
            Ok(start..end)
        })?;
        // There are no rows if `low` is greater than `high`.
        self.slice(rows.start, rows.end.saturating_sub(rows.start))
    }
}

/// Does [`between`](Dataset::between) for tables whose rows may be late, by column `number` of their sources.
fn between_late(dataset: &Dataset, number: usize, (low, high): (&Value<'_>, &Value<'_>)) -> Result<Dataset> {
    let [first, ..] = dataset.pieces() else { return Ok(dataset.clone()) };
    let field = first.source.schema().field(number);
    let ValueBounds { low_literal, high_literal, is_day, .. } = ValueBounds::try_new(field, (low, high))?;

    // The dataset may lack the column: it is added in front, under another name if the dataset has it, too.
    let mut name = field.name().clone();
    while dataset.schema().column_with_name(&name).is_some() {
        name.push('_');
    }
    let by = Arc::new(field.clone().with_name(&name));
    let fields: Fields = std::iter::once(&by).chain(dataset.schema().fields()).cloned().collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, dataset.schema().metadata().clone()));
    let mut pieces = Vec::with_capacity(dataset.pieces().len());
    for piece in dataset.pieces() {
        let columns = std::iter::once(number).chain(piece.columns.iter().copied()).collect();
        pieces.push(SourceSlice { columns, ..piece.clone() });
    }
    let wide = Dataset::from_slices(schema, pieces);

    let upper = if is_day { Operator::Lt } else { Operator::Le };
    let condition = col(&name).ge(low_literal) & col(&name).compare(upper, high_literal);
    wide.filter(&condition)?.select_at(&(1..wide.num_columns()).collect::<Vec<_>>())
}

/// The bounds of a range of values, both included: as tests of single values, and as literals for a filter.
struct ValueBounds {
    /// True for values from the lower bound on.
    low: ValuePredicate,
    /// True for values up to the upper bound.
    high: ValuePredicate,
    low_literal: Literal,
    /// The upper bound; if `is_day`, the day after it, which is excluded.
    high_literal: Literal,
    /// True if the column has milliseconds, of which only the day counts.
    is_day: bool,
}

impl ValueBounds {
    fn try_new(field: &Field, (low, high): (&Value<'_>, &Value<'_>)) -> Result<ValueBounds> {
        // Tables are sorted by the day of a date64.
        let is_day = field.data_type() == &DataType::Date64;
        let data_type = if is_day { &DataType::Date32 } else { field.data_type() };
        let low_literal = bound_literal(field.data_type(), low)?;
        let high_literal = bound_literal(field.data_type(), high)?;
        let low = ValuePredicate::for_comparison(field.name(), data_type, Operator::Ge, &low_literal)
            .map_err(|e| e.context("between"))?;
        let high = ValuePredicate::for_comparison(field.name(), data_type, Operator::Le, &high_literal)
            .map_err(|e| e.context("between"))?;
        let high_literal = match &high_literal.0 {
            LiteralValue::Date(day) if is_day => Value::Date(day.saturating_add(1)).into(),
            _ => high_literal,
        };
        Ok(ValueBounds { low, high, low_literal, high_literal, is_day })
    }
}

/// Converts a bound on a sorted column to a literal: for a date64 its day.
fn bound_literal(data_type: &DataType, value: &Value<'_>) -> Result<Literal> {
    let literal: Option<Literal> = match (data_type, value) {
        (DataType::Date64, Value::Int(millis)) => Some(Value::Date(millis.div_euclid(MILLIS_PER_DAY)).into()),
        (DataType::Date64, Value::Date(_)) => Some(value.clone().into()),
        (DataType::Date64, _) => None,
        _ => Some(value.clone().into()),
    };
    match literal {
        Some(literal) if !literal.is_unordered() => Ok(literal),
        _ => Err(Error::invalid_argument(format!("between: {value} is no {}", type_name(data_type)))),
    }
}

/// Returns the first row of a sorted column for which `holds` is true, or the number of rows. `holds` must be true for
/// all rows behind such a row.
///
/// Prefetches the pages that the search touches: they lie far apart, and the first touch of each would load as much as
/// the device reads ahead.
fn first_row(column: &Dataset, holds: impl Fn(u64) -> Result<bool>) -> Result<u64> {
    let mut low = 0;
    let mut high = column.len()?;
    let mut is_near = false;
    while low < high {
        let middle = low + (high - low) / 2;
        if !is_near {
            is_near = high - low <= ROWS_OF_FEW_PAGES;
            let touched = if is_near { low..high } else { middle..middle + 1 };
            column.slice(touched.start, touched.end - touched.start)?.prefetch();
        }
        if holds(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

/// Checks that memory has room for a result of `max_bytes`, which all rows of `dataset` would take, unless the bytes of
/// the rows in files justify it: a file can claim any number of rows without bytes.
pub(in crate::compute) fn check_result_memory(dataset: &Dataset, max_bytes: u64) -> Result<()> {
    if has_room(max_bytes) || dataset.stored_bytes()? >= max_bytes / MAX_RESULT_PER_STORED_BYTE {
        return Ok(());
    }
    Err(Error::out_of_memory(format!("rows found among {} have no room in memory", dataset.len()?)))
}

/// Returns the dataset's rows in `block` for which the condition is true.
fn matching_in_block(frame: &Frame<'_>, block: usize, condition: &BoundPredicate) -> Result<Vec<u64>> {
    let mut matching = Vec::new();
    let mut start = frame.block_start(block);
    for (part, rows) in frame.spans(block) {
        let mask = condition.mask(frame, part, &rows)?;
        assert!(mask.len() == rows.len(), "{} bits for {} rows", mask.len(), rows.len());
        matching.extend(mask.rows().map(|row| start + row as u64));
        start += rows.len() as u64;
    }
    Ok(matching)
}

/// Selects the rows for which the condition is true, in batches.
fn select_rows(frame: &Frame<'_>, condition: &BoundPredicate) -> Result<Vec<RowSelection>> {
    let bytes = usize::try_from(frame.num_rows()).unwrap_or(usize::MAX).saturating_mul(ROW_NUMBER_BYTES);
    let batches = parallel::map(frame.num_blocks().div_ceil(BATCH_BLOCKS), bytes, |batch| {
        let mut selection = RowSelection::default();
        for block in batch * BATCH_BLOCKS..frame.num_blocks().min((batch + 1) * BATCH_BLOCKS) {
            for (part, rows) in frame.spans(block) {
                let mask = condition.mask(frame, part, &rows)?;
                selection.add(part, rows, mask);
            }
        }
        Ok(selection)
    });
    batches.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::sync::Arc;

    use arrow_array::types::*;
    use arrow_array::*;
    use arrow_buffer::i256;
    use arrow_schema::TimeUnit;
    use proptest::prelude::*;

    use super::ValuePredicate;
    use crate::compute::tests::cut;
    use crate::{Operator, Predicate, Value, col};

    const OPERATORS: [Operator; 6] =
        [Operator::Eq, Operator::Ne, Operator::Lt, Operator::Le, Operator::Gt, Operator::Ge];

    /// Returns the result of a comparison; `None` is the order of a NaN.
    fn is_true(operator: Operator, order: Option<Ordering>) -> bool {
        match operator {
            Operator::Eq => order == Some(Ordering::Equal),
            Operator::Ne => order != Some(Ordering::Equal),
            Operator::Lt => order == Some(Ordering::Less),
            Operator::Gt => order == Some(Ordering::Greater),
            Operator::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }

    /// Returns the rows of `array` that a predicate matches, and the rows that its negation matches.
    fn filter_rows(array: &ArrayRef, predicate: &Predicate) -> [Vec<String>; 2] {
        let column = cut(array, &[3, 70, 70, 131]);
        [predicate.clone(), !predicate.clone()].map(|predicate| {
            let rows = column.as_dataset().filter(&predicate).unwrap();
            rows.validate(|_, _| ()).unwrap();
            rows.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect()
        })
    }

    /// Checks every operator. `order` returns the order of a row and the literal: `None` for null, and `Some(None)` for
    /// NaN.
    fn check(array: &ArrayRef, literal: &Value<'_>, order: impl Fn(usize) -> Option<Option<Ordering>>) {
        let cells: Vec<_> = cut(array, &[]).values().map(|value| value.unwrap().to_string()).collect();
        for operator in OPERATORS {
            let expected = |outcome: bool| {
                let is_match = |row: usize| order(row).is_some_and(|order| is_true(operator, order) == outcome);
                let rows = (0..array.len()).filter(|&row| is_match(row));
                rows.map(|row| cells[row].clone()).collect::<Vec<_>>()
            };
            let [matches, negated] = filter_rows(array, &col("c").compare(operator, literal.clone()));
            // Also tests single cells.
            let test =
                ValuePredicate::for_comparison("c", array.data_type(), operator, &literal.clone().into()).unwrap();
            let passing = (0..array.len()).filter(|&row| test.holds(&cut(array, &[]).get(row as u64).unwrap()));
            assert_eq!(
                passing.map(|row| cells[row].clone()).collect::<Vec<_>>(),
                matches,
                "{} {operator}",
                array.data_type()
            );
            assert_eq!(matches, expected(true), "{} {operator} {literal}", array.data_type());
            assert_eq!(negated, expected(false), "not {} {operator} {literal}", array.data_type());
        }
    }

    fn integers<T: ArrowPrimitiveType>(values: &[Option<i8>], literal: &Value<'_>, order: impl Fn(i64) -> Ordering)
    where
        T::Native: TryFrom<i64>,
    {
        // Unsigned types can't hold negative numbers.
        let to_native = |n: i8| T::Native::try_from(n.into()).ok().or_else(|| T::Native::try_from(-i64::from(n)).ok());
        let array = Arc::new(PrimitiveArray::<T>::from_iter(values.iter().map(|v| v.and_then(to_native)))) as ArrayRef;
        let stored: Vec<Option<i64>> = cut(&array, &[]).values().map(|v| v.unwrap().to_string().parse().ok()).collect();
        check(&array, literal, |row| stored[row].map(|n| Some(order(n))));
    }

    proptest! {
        #[test]
        fn integers_are_compared_by_value(
            values in prop::collection::vec(prop::option::weighted(0.8, any::<i8>()), 1..200),
            literal in prop_oneof![-130i64..260, Just(i64::MAX), Just(i64::MIN)],
            half in any::<bool>(),
        ) {
            // Some literals are halves, which lie between two integers. Larger floats have no halves.
            let half = half && (-1000..1000).contains(&literal);
            let order = |n: i64| if half && n == literal { Ordering::Less } else { n.cmp(&literal) };
            let value = if half { Value::Float64(literal as f64 + 0.5) } else { Value::Int(literal) };
            integers::<Int8Type>(&values, &value, order);
            integers::<UInt8Type>(&values, &value, order);
            integers::<Int16Type>(&values, &value, order);
            integers::<UInt32Type>(&values, &value, order);
            integers::<Int64Type>(&values, &value, order);
            integers::<UInt64Type>(&values, &value, order);
        }

        #[test]
        fn floats_are_compared_as_numpy_does(
            values in prop::collection::vec(prop::option::weighted(0.8, prop_oneof![
                Just(f64::NAN), Just(0.0), Just(-0.0), Just(f64::INFINITY), Just(f64::NEG_INFINITY), -3.0..3.0f64,
                Just(1.5),
            ]), 1..200),
            literal in prop_oneof![Just(f64::NAN), Just(0.0), Just(-0.0), Just(1.5), Just(f64::INFINITY), -3.0..3.0f64],
        ) {
            let wide = Arc::new(Float64Array::from(values.clone())) as ArrayRef;
            check(&wide, &Value::Float64(literal), |row| values[row].map(|v| v.partial_cmp(&literal)));
            let narrow: Vec<Option<f32>> = values.iter().map(|v| v.map(|v| v as f32)).collect();
            let array = Arc::new(Float32Array::from(narrow.clone())) as ArrayRef;
            check(&array, &Value::Float64(literal), |row| narrow[row].map(|v| f64::from(v).partial_cmp(&literal)));
            let halves: Vec<_> = values.iter().map(|v| v.map(half::f16::from_f64)).collect();
            let array = Arc::new(Float16Array::from(halves.clone())) as ArrayRef;
            check(&array, &Value::Float64(literal), |row| halves[row].map(|v| v.to_f64().partial_cmp(&literal)));
        }

        #[test]
        fn text_is_compared_by_its_bytes_and_keys_by_their_values(
            keys in prop::collection::vec(prop::option::weighted(0.8, 0usize..6), 1..200), word in 0usize..7,
        ) {
            let words = ["", "a", "ab", "b", "a longer piece of text", "ü", "between"];
            let texts: Vec<Option<&str>> = keys.iter().map(|key| key.map(|key| words[key])).collect();
            let literal = Value::Str(words[word]);
            let order = |row: usize| texts[row].map(|text| Some(text.cmp(words[word])));
            let narrow: Int8Array = keys.iter().map(|key| key.map(|key| key as i8)).collect();
            let wide: UInt32Array = keys.iter().map(|key| key.map(|key| key as u32)).collect();
            let dictionary = Arc::new(StringArray::from(words.to_vec())) as ArrayRef;
            let arrays: [ArrayRef; 6] = [
                Arc::new(StringArray::from(texts.clone())),
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(StringViewArray::from(texts.clone())),
                Arc::new(DictionaryArray::new(narrow, dictionary.clone())),
                Arc::new(DictionaryArray::new(wide, dictionary.clone())),
                // Fewer rows than words: row by row.
                Arc::new(DictionaryArray::new(
                    UInt32Array::from_iter(keys.iter().map(|key| key.map(|key| key as u32))),
                    many_texts(&words),
                )),
            ];
            for array in arrays {
                check(&array, &literal, order);
                let few = col("c").is_in(["a", "ü", "nowhere"]);
                let is_in = |row: usize| matches!(texts[row], Some("a" | "ü"));
                let expected = (0..texts.len()).filter(|&row| is_in(row)).count();
                assert_eq!(filter_rows(&array, &few)[0].len(), expected);
                assert_eq!(filter_rows(&array, &few)[1].len(), texts.iter().flatten().count() - expected);
            }
        }
    }

    proptest! {
        /// Groups of 64 rows have few or many texts of the pattern's length, which is below or above 16 bytes.
        #[test]
        fn text_filters_match_a_loop(
            keys in prop::collection::vec((0usize..10, prop::bool::weighted(0.9)), 1..300),
            word in 0usize..10,
            few in 0usize..10,
        ) {
            let words = [
                "", "a", "name-7", "name-8", "name-77",
                "fifteen bytes, ", "fifteen bytes: ", "sixteen bytes, 1", "sixteen bytes, 12",
                "a longer piece of text than all of them",
            ];
            // In half of the cases, nearly all texts are equal.
            let word_of = |key: usize| if few < 5 && key > 1 { words[few] } else { words[key] };
            let texts: Vec<&str> = keys.iter().map(|&(key, _)| word_of(key)).collect();
            let is_valid: Vec<bool> = keys.iter().map(|&(_, is_valid)| is_valid).collect();
            let pattern_text = words[word];
            // Null slots have texts, too.
            let with_nulls = |array: ArrayRef| {
                let data = array.to_data().into_builder().nulls(Some(is_valid.clone().into())).build().unwrap();
                make_array(data)
            };
            let arrays: [ArrayRef; 4] = [
                Arc::new(StringArray::from(texts.clone())),
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(StringViewArray::from(texts.clone())),
                Arc::new(StringArray::from_iter_values(["before"].iter().chain(&texts)).slice(1, texts.len())),
            ];
            type NaiveTest<'a> = &'a dyn Fn(&str) -> bool;
            let pattern = regex::Regex::new("^n.*-[0-4]|ó").unwrap();
            let tests: [(Predicate, NaiveTest<'_>); 7] = [
                (col("c").matches(pattern.as_str()).unwrap(), &|text| pattern.is_match(text)),
                (col("c").eq(pattern_text), &|text| text == pattern_text),
                (col("c").ne(pattern_text), &|text| text != pattern_text),
                (col("c").starts_with(pattern_text), &|text| text.starts_with(pattern_text)),
                (col("c").ends_with(pattern_text), &|text| text.ends_with(pattern_text)),
                (col("c").contains(pattern_text), &|text| text.contains(pattern_text)),
                (col("c").is_in([pattern_text, "name-8"]), &|text| text == pattern_text || text == "name-8"),
            ];
            for array in arrays.map(with_nulls) {
                for (predicate, passes) in &tests {
                    let rows = |outcome: bool| -> Vec<String> {
                        let is_match = |&row: &usize| is_valid[row] && passes(texts[row]) == outcome;
                        (0..texts.len()).filter(is_match).map(|row| texts[row].to_owned()).collect()
                    };
                    assert_eq!(filter_rows(&array, predicate), [rows(true), rows(false)], "{predicate}");
                }
            }
        }
    }

    /// With 27,000 literals, the hashes of 3% of all other texts collide with a literal's.
    #[test]
    fn is_in_finds_one_of_very_many_texts() {
        let text = |row: usize| format!("{row}{}", "żó ".repeat(row % 7));
        let array: ArrayRef =
            Arc::new((0..80_000).map(|row| (row % 11 > 0).then(|| text(row))).collect::<StringArray>());
        for step in [3, 40_000] {
            let literals: Vec<String> = (0..80_000).step_by(step).map(text).collect();
            let rows = |is_literal: bool| -> Vec<String> {
                (0..80_000).filter(|row| row % 11 > 0 && (row % step == 0) == is_literal).map(text).collect()
            };
            assert_eq!(filter_rows(&array, &col("c").is_in(literals)), [rows(true), rows(false)]);
        }
    }

    /// Returns an array of the words and a thousand other texts.
    fn many_texts(words: &[&str]) -> ArrayRef {
        let more = (0..1000).map(|i| format!("more {i}"));
        Arc::new(StringArray::from_iter_values(words.iter().map(|word| (*word).to_string()).chain(more)))
    }

    #[test]
    fn times_and_decimals_are_compared_across_units() {
        let times = [Some(-1_500i64), Some(0), None, Some(999), Some(1_000), Some(2_000)];
        let array = Arc::new(TimestampMillisecondArray::from(times.to_vec()).with_timezone("UTC")) as ArrayRef;
        for (time, unit, per_milli) in [(1, TimeUnit::Second, 0.001), (999_500, TimeUnit::Microsecond, 1e3)] {
            let exact = time as f64 / per_milli;
            let literal = Value::Timestamp(time, unit, Some("Europe/Vienna"));
            check(&array, &literal, |row| times[row].map(|t| (t as f64).partial_cmp(&exact)));
        }
        let naive = col("c").eq(Value::Timestamp(0, TimeUnit::Second, None));
        assert!(cut(&array, &[]).as_dataset().filter(&naive).unwrap_err().to_string().contains("can't be compared"));
        let digits = [Some(-150i128), Some(149), None, Some(150), Some(151)];
        let array = Decimal128Array::from(digits.to_vec()).with_precision_and_scale(20, 2).unwrap();
        let array = Arc::new(array) as ArrayRef;
        let literals = [
            (Value::Float64(1.5), 150.0),
            (Value::Decimal { digits: i256::from_i128(1_505), scale: 3 }, 150.5),
            (Value::Int(2), 200.0),
            (Value::Float64(1e300), f64::INFINITY),
            (Value::Decimal { digits: i256::from_i128(-1), scale: 100 }, -0.5),
        ];
        for (literal, exact) in literals {
            check(&array, &literal, |row| digits[row].map(|d| (d as f64).partial_cmp(&exact)));
        }
        let days = Arc::new(Date32Array::from(vec![Some(0), Some(1), None])) as ArrayRef;
        let noon = Value::Timestamp(43_200, TimeUnit::Second, None);
        check(&days, &noon, |row| {
            [Some(0), Some(1), None][row]
                .map(|day: i32| day.partial_cmp(&0).map(|o| if o.is_eq() { Ordering::Less } else { o }))
        });
    }

    /// Returns a decimal literal.
    fn decimal(digits: &str, scale: i8) -> Value<'static> {
        Value::Decimal { digits: i256::from_string(digits).unwrap(), scale }
    }

    #[test]
    fn literals_between_two_values_equal_neither() {
        let singles = [f32::INFINITY, f32::MAX, 16_777_216.0, 16_777_218.0, 0.1, -0.0, -f32::MAX, f32::NAN];
        let halves = [f32::INFINITY, 65_504.0, 2_048.0, 2_050.0, 0.099_975_586, 6e-8, -65_504.0, f32::NAN];
        let wide = [1e300, 9_007_199_254_740_992.0, 0.1, 0.5, -1e23, f64::MAX, -0.0, f64::NAN];
        let arrays: [(ArrayRef, Vec<f64>); 3] = [
            (Arc::new(Float32Array::from(singles.to_vec())), singles.map(f64::from).to_vec()),
            {
                let halves = halves.map(half::f16::from_f32);
                (Arc::new(Float16Array::from(halves.to_vec())), halves.map(f64::from).to_vec())
            },
            (Arc::new(Float64Array::from(wide.to_vec())), wide.to_vec()),
        ];
        for (array, values) in arrays {
            for literal in
                [1e300, -1e300, 70_000.0, 65_519.0, 65_520.0, 16_777_217.0, 2_049.0, 0.1, 1e-320, -1e-320, -0.0]
            {
                check(&array, &Value::Float64(literal), |row| Some(values[row].partial_cmp(&literal)));
            }
            let order_of = |row: usize, compare: &dyn Fn(f64) -> Ordering| {
                let value = values[row];
                if value.is_finite() { Some(Some(compare(value))) } else { Some(value.partial_cmp(&0.0)) }
            };
            // Integers halfway between two floats, or close to it.
            for number in [16_777_217, 9_007_199_254_740_993, -99_999_999_999_999_991_611_392, i128::MAX, i128::MIN] {
                let compare = |value: f64| {
                    if value.abs() >= 1e38 {
                        value.partial_cmp(&0.0).unwrap()
                    } else if value.fract() == 0.0 {
                        (value as i128).cmp(&number)
                    } else {
                        (value.floor() as i128).cmp(&number).then(Ordering::Greater)
                    }
                };
                check(&array, &Value::Int128(number), |row| order_of(row, &compare));
            }
            // The float64 0.1 has these digits; it is larger than the decimal 0.1.
            let tenth = "1000000000000000055511151231257827021181583404541015625";
            for (digits, scale, is_below_float) in [(tenth, 55, false), ("1", 1, true)] {
                let compare = |value: f64| match value.partial_cmp(&0.1).unwrap() {
                    Ordering::Equal if is_below_float => Ordering::Greater,
                    other => other,
                };
                check(&array, &decimal(digits, scale), |row| order_of(row, &compare));
            }
        }
    }

    #[test]
    fn integral_float_literals_equal_integers() {
        let values = [1i64 << 62, (1 << 62) + 1, i64::MAX, i64::MIN, 0, (1 << 53) + 1];
        let array = Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        for (literal, exact) in [
            (2f64.powi(62), 1i128 << 62),
            (2f64.powi(63), 1 << 63),
            (-2f64.powi(63), -(1 << 63)),
            (2f64.powi(53), 1 << 53),
            (1e300, i128::MAX),
        ] {
            check(&array, &Value::Float64(literal), |row| Some(Some(i128::from(values[row]).cmp(&exact))));
        }
        let unsigned = Arc::new(UInt64Array::from(vec![1 << 63, u64::MAX])) as ArrayRef;
        assert_eq!(filter_rows(&unsigned, &col("c").eq(2f64.powi(63)))[0], ["9223372036854775808"]);
        assert_eq!(filter_rows(&unsigned, &col("c").lt(2f64.powi(64)))[0].len(), 2);
        let max = i256::from_string(&"9".repeat(76)).unwrap();
        let digits = [i256::from_i128(1 << 62), i256::from_i128(11), max];
        let decimals = Decimal256Array::from(digits.to_vec()).with_precision_and_scale(76, 0).unwrap();
        let decimals = Arc::new(decimals) as ArrayRef;
        assert_eq!(filter_rows(&decimals, &col("c").eq(2f64.powi(62)))[0].len(), 1);
        assert_eq!(filter_rows(&decimals, &col("c").gt(2f64.powi(252)))[0].len(), 1);
        assert_eq!(filter_rows(&decimals, &col("c").lt(2f64.powi(255)))[0].len(), 3);
        // A float with a fraction equals the decimal with its shortest digits.
        let prices = Decimal128Array::from(vec![110, 111]).with_precision_and_scale(9, 2).unwrap();
        let prices = Arc::new(prices) as ArrayRef;
        assert_eq!(filter_rows(&prices, &col("c").eq(1.1))[0], ["1.10"]);
        assert_eq!(filter_rows(&prices, &col("c").ge(1.1))[0].len(), 2);
    }

    #[test]
    fn and_or_and_not_treat_nulls_like_sql() {
        let array = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])) as ArrayRef;
        let (yes, no, unknown) = (|| col("c").eq(true), || col("c").eq(false), || col("c").eq(Value::Null));
        let count = |predicate: Predicate| filter_rows(&array, &predicate).map(|rows| rows.len());
        assert_eq!(count(yes()), [1, 1]);
        assert_eq!(count(yes() | no()), [2, 0]);
        assert_eq!(count(yes() & no()), [0, 2]);
        assert_eq!(count(unknown()), [0, 0]);
        // The known operand alone decides these.
        assert_eq!(count(unknown() | yes()), [1, 0]);
        assert_eq!(count(unknown() & yes()), [0, 1]);
        assert_eq!(count(yes() | col("c").is_null()), [2, 1]);
        assert_eq!(count(col("c").is_not_null()), [2, 1]);
        assert_eq!((yes() & !no()).to_string(), "(c == true) & (~(c == false))");
    }
}
