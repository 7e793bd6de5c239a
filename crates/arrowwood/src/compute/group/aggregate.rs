//! Implements `aggregate`: sums, means and other functions of groups of rows, in one pass that includes the filter.
//!
//! An [`Aggregation`] describes what a caller asks for, by the names of columns. A [`GroupPlan`] computes it.

use std::fmt;
use std::sync::Arc;

use super::keys::with_plain_booleans;
use super::state::AggregateFunction;
use crate::compute::expr::{Expression, Predicate, col};
use crate::compute::selection::RowSet;
use crate::compute::view::filter_input;
use crate::dataset::Dataset;
use crate::error::{Error, Result};

/// An aggregation of groups of a dataset's rows, made by [`Dataset::aggregate`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Aggregation<'a> {
    pub(super) dataset: &'a Dataset,
    /// The names of the columns that rows are grouped by.
    pub(super) by: Vec<String>,
    pub(super) predicate: Option<Predicate>,
    /// The rows to aggregate, before the predicate; `None` for all.
    pub(super) rows: Option<Arc<RowSet>>,
    pub(super) outputs: Vec<AggregateExpr>,
    pub(super) watch: Option<ProgressCallback<'a>>,
    /// The maximum number of bytes that groups may take; `None` for the memory that the system has left.
    pub(super) memory: Option<u64>,
}

/// How far an aggregation is, as [`Aggregation::on_progress`] reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationProgress {
    /// The number of rows that were read.
    pub rows: u64,
    /// The number of rows that are read in all.
    pub of: u64,
    /// The number of groups in the rows that were read.
    pub groups: usize,
}

/// A callback that receives the progress of an aggregation, and stops it by returning an error.
#[derive(Clone, Copy)]
pub(super) struct ProgressCallback<'a> {
    pub watch: &'a (dyn Fn(AggregationProgress) -> Result<()> + Sync),
    /// The maximum number of rows between two calls.
    pub rows: usize,
}

impl fmt::Debug for ProgressCallback<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressCallback").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// An output of an aggregation.
#[derive(Clone, Debug)]
pub(super) struct AggregateExpr {
    /// The name of the column of the result.
    pub name: String,
    /// The aggregated expression and the function; `None` for the number of rows.
    pub input: Option<(Expression, AggregateFunction)>,
}

/// # Groups of rows
impl Dataset {
    /// Aggregates groups of rows with the same values in the columns `by`, or all rows if `by` is empty.
    ///
    /// Groups are in order of appearance.
    ///
    /// ```
    /// # use arrowwood::*;
    /// # use std::sync::Arc;
    /// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
    /// # let batch = arrow_array::RecordBatch::try_from_iter([("symbol", array.clone()), ("price", array)]).unwrap();
    /// # let dataset = Dataset::try_from(vec![batch])?;
    /// let means = dataset
    ///     .aggregate(&["symbol"])
    ///     .filter(col("price").gt(1))
    ///     .column("price", AggregateFunction::Mean)
    ///     .column_as("n", "price", AggregateFunction::Count)
    ///     .finish()?;
    /// assert_eq!(means.len()?, 2);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn aggregate<N: AsRef<str>>(&self, by: &[N]) -> Aggregation<'_> {
        let by = by.iter().map(|name| name.as_ref().to_string()).collect();
        let outputs = Vec::new();
        Aggregation { dataset: self, by, predicate: None, rows: None, outputs, watch: None, memory: None }
    }
}

impl<'a> Aggregation<'a> {
    /// Includes only rows for which `predicate` is true.
    pub fn filter(mut self, predicate: Predicate) -> Aggregation<'a> {
        self.predicate = Some(match self.predicate {
            Some(before) => before & predicate,
            None => predicate,
        });
        self
    }

    /// Adds `function` of column `name`, as a column of the same name.
    pub fn column(self, name: &str, function: AggregateFunction) -> Aggregation<'a> {
        self.column_as(name, name, function)
    }

    /// Adds `function` of column `column`, as a column called `name`.
    pub fn column_as(self, name: &str, column: &str, function: AggregateFunction) -> Aggregation<'a> {
        self.expression_as(name, col(column), function)
    }

    /// Adds `function` of `expression`, as a column called `name`.
    ///
    /// The expression is computed block by block for the rows that the filter includes; its values are not stored.
    ///
    /// ```
    /// # use arrowwood::*;
    /// # use std::sync::Arc;
    /// # let array: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
    /// # let batch = arrow_array::RecordBatch::try_from_iter([("price", array.clone()), ("qty", array)]).unwrap();
    /// # let dataset = Dataset::try_from(vec![batch])?;
    /// let volume = col("price") * col("qty");
    /// let total = dataset.aggregate::<&str>(&[]).expression_as("volume", volume, AggregateFunction::Sum).finish()?;
    /// assert_eq!(total.row(0)?.get(0)?.to_string(), "14");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn expression_as(mut self, name: &str, expression: Expression, function: AggregateFunction) -> Aggregation<'a> {
        self.outputs.push(AggregateExpr { name: name.into(), input: Some((expression, function)) });
        self
    }

    /// Adds the number of rows, as a column called `name`.
    pub fn count_rows(mut self, name: &str) -> Aggregation<'a> {
        self.outputs.push(AggregateExpr { name: name.into(), input: None });
        self
    }

    /// Calls `watch` on the caller's thread before about every `rows` rows, and at least before every few million.
    ///
    /// If it returns an error, the aggregation stops with that error. Few rows between two calls slow down aggregations
    /// with many groups.
    pub fn on_progress(
        mut self,
        rows: usize,
        watch: &'a (dyn Fn(AggregationProgress) -> Result<()> + Sync),
    ) -> Aggregation<'a> {
        self.watch = Some(ProgressCallback { watch, rows });
        self
    }

    /// Limits the memory of groups to `bytes`.
    ///
    /// By default, the limit is the memory that the system has left once there are many groups.
    pub fn memory_limit(mut self, bytes: u64) -> Aggregation<'a> {
        self.memory = Some(bytes);
        self
    }

    /// Returns the groups' keys and the results, as a dataset with a row per group.
    ///
    /// # Errors
    /// `ColumnNotFound`; `Unsupported` for keys or functions that a type does not support; `InvalidArgument` for two
    /// columns of one name, or a sum that overflows its type; `Io` before groups take more memory than there is.
    pub fn finish(&self) -> Result<Dataset> {
        match filter_input(self.dataset) {
            Some((base, rows)) => Aggregation { dataset: &base, rows: Some(rows), ..self.clone() }.finish_all(),
            None => self.finish_all(),
        }
    }

    /// Does [`finish`](Aggregation::finish) for a dataset that is no result of a filter.
    fn finish_all(&self) -> Result<Dataset> {
        match with_plain_booleans(self.dataset, &self.by)? {
            Some(plain) => Aggregation { dataset: &plain, ..self.clone() }.finish_plain(),
            None => self.finish_plain(),
        }
    }

    /// Checks that the columns of the result have different names.
    pub(super) fn check_names(&self) -> Result<()> {
        let names: Vec<&String> = self.by.iter().chain(self.outputs.iter().map(|output| &output.name)).collect();
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                let message = format!("aggregate would return two columns called '{name}'; rename one");
                return Err(Error::invalid_argument(message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_array::types::{Int8Type, UInt16Type};
    use arrow_array::*;
    use proptest::prelude::*;

    use super::*;
    use crate::col;

    type TestRow = (Option<u8>, Option<i64>, Option<f64>);

    const WORDS: [&str; 6] = ["", "fig", "pear", "apple", "a word of many letters", "another word of many"];

    /// Returns a batch with keys of all types, an integer and a float.
    fn batch(rows: &[TestRow], start: usize) -> RecordBatch {
        let words = || rows.iter().map(|row| row.0.map(|key| WORDS[usize::from(key) % 6]));
        // Each batch has another dictionary, with some words repeated.
        let turned: Vec<&str> = (0..12).map(|i| WORDS[(i + start) % 6]).collect();
        let keys = |key: u8| (12 + usize::from(key) % 6 - start % 6) % 6 + if key > 100 { 6 } else { 0 };
        let narrow: Int8Array = rows.iter().map(|row| row.0.map(|key| keys(key) as i8)).collect();
        let wide: UInt16Array = rows.iter().map(|row| row.0.map(|key| keys(key) as u16)).collect();
        let dictionary = Arc::new(StringArray::from(turned)) as ArrayRef;
        let number = |scale: i64| rows.iter().map(move |row| row.0.map(|key| i64::from(key % 6) * scale - 3));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("text", Arc::new(words().collect::<StringArray>())),
            ("view", Arc::new(words().collect::<StringViewArray>())),
            ("narrow", Arc::new(DictionaryArray::<Int8Type>::new(narrow, dictionary.clone()))),
            ("wide", Arc::new(DictionaryArray::<UInt16Type>::new(wide, dictionary))),
            ("small", Arc::new(number(1).map(|n| n.map(|n| n as i8)).collect::<Int8Array>())),
            ("large", Arc::new(number(1 << 40).collect::<Int64Array>())),
            ("real", Arc::new(number(1).map(|n| n.map(|n| n as f64)).collect::<Float64Array>())),
            ("exact", Arc::new(number(7).map(|n| n.map(i128::from)).collect::<Decimal128Array>())),
            ("n", Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>())),
            ("x", Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>())),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
    }

    fn dataset(rows: &[TestRow], cuts: &[usize]) -> Dataset {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (rows.len() + 1)).chain([0, rows.len()]).collect();
        ends.sort_unstable();
        let batches = ends.windows(2).map(|ends| batch(&rows[ends[0]..ends[1]], ends[0]));
        Dataset::try_from(batches.collect::<Vec<_>>()).unwrap()
    }

    fn query<'a>(dataset: &'a Dataset, by: &[&str]) -> Aggregation<'a> {
        dataset
            .aggregate(by)
            .filter(col("n").ne(3) | col("n").is_null())
            .count_rows("rows")
            .column_as("sum", "n", AggregateFunction::Sum)
            .column_as("min", "n", AggregateFunction::Min)
            .column_as("mean", "x", AggregateFunction::Mean)
            .column_as("max", "x", AggregateFunction::Max)
            .column_as("var", "x", AggregateFunction::Var)
            .column_as("first", "text", AggregateFunction::Min)
    }

    fn cells(dataset: &Dataset) -> Vec<Vec<String>> {
        let row = |row: crate::Row<'_>| row.iter().map(|(_, value)| value.unwrap().to_string()).collect();
        dataset.rows().map(|result| row(result.unwrap())).collect()
    }

    /// Returns the rows of each word, in order of appearance.
    fn naive(rows: &[TestRow]) -> Vec<Vec<TestRow>> {
        let (mut numbers, mut groups) = (HashMap::new(), Vec::<Vec<TestRow>>::new());
        for row in rows.iter().filter(|row| row.1 != Some(3)) {
            let group = *numbers.entry(row.0.map(|key| key % 6)).or_insert(groups.len());
            groups.resize(groups.len().max(group + 1), Vec::new());
            groups[group].push(*row);
        }
        groups
    }

    fn check(result: &[String], group: &[TestRow]) {
        let sum: i64 = group.iter().filter_map(|row| row.1).sum();
        let min = group.iter().filter_map(|row| row.1).min().map_or("null".into(), |min| min.to_string());
        assert_eq!(result[..3], [group.len().to_string(), sum.to_string(), min]);
        let x: Vec<f64> = group.iter().filter_map(|row| row.2).collect();
        let close = |result: &str, expected: Option<f64>| match expected {
            Some(expected) => assert!((result.parse::<f64>().unwrap() - expected).abs() < 1e-6, "{result} {expected}"),
            None => assert_eq!(result, "null"),
        };
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        close(&result[3], (!x.is_empty()).then_some(mean));
        close(&result[4], x.iter().copied().reduce(f64::max));
        let squares: f64 = x.iter().map(|x| (x - mean) * (x - mean)).sum();
        close(&result[5], (x.len() > 1).then(|| squares / (x.len() - 1) as f64));
        assert_eq!(result[6], group[0].0.map_or("null", |key| WORDS[usize::from(key) % 6]));
    }

    fn test_row() -> impl Strategy<Value = TestRow> {
        let option = |weight| prop::option::weighted(weight, any::<u8>());
        (option(0.9), prop::option::weighted(0.8, -9i64..9), prop::option::weighted(0.8, -1e3..1e3f64))
    }

    proptest! {
        #[test]
        fn groups_equal_a_naive_loop_for_all_types_of_keys(
            rows in prop::collection::vec(test_row(), 1..300), cuts in prop::collection::vec(any::<usize>(), 0..5),
        ) {
            let dataset = dataset(&rows, &cuts);
            let groups = naive(&rows);
            for key in ["text", "view", "narrow", "wide", "small", "large", "real", "exact"] {
                for by in [&[key][..], &["text", key], &[key, "small", "wide"]] {
                    if by[1..].contains(&key) || by[0] == "text" && by.len() > 1 && key == "text" {
                        continue;
                    }
                    let result = query(&dataset, by).finish().unwrap();
                    result.validate(|_, _| ()).unwrap();
                    let result = cells(&result);
                    prop_assert_eq!(result.len(), groups.len(), "{:?}", by);
                    result.iter().zip(&groups).for_each(|(result, group)| check(&result[by.len()..], group));
                }
            }
        }
    }

    /// Results are equal bit for bit, whether blocks end inside of batches or batches inside of blocks, and for one
    /// thread and several.
    #[test]
    fn results_do_not_depend_on_threads_or_batches() {
        let row = |i: u32| (Some((i.wrapping_mul(2_654_435_761) >> 13) as u8), Some(1), Some(f64::from(i).sin() * 1e9));
        let rows: Vec<TestRow> = (0..300_000).map(row).collect();
        let expected = cells(&query(&dataset(&rows, &[]), &["wide"]).finish().unwrap());
        let cuts: Vec<usize> = (0..50).map(|i| i * i * 7919).collect();
        assert_eq!(cells(&query(&dataset(&rows, &cuts), &["wide"]).finish().unwrap()), expected);
        let groups = naive(&rows);
        expected.iter().zip(&groups).for_each(|(result, group)| {
            let mean = group.iter().filter_map(|row| row.2).sum::<f64>() / group.len() as f64;
            assert!((result[4].parse::<f64>().unwrap() - mean).abs() < 1e-3);
        });
    }

    #[test]
    fn aggregations_report_progress_and_can_be_stopped() {
        let rows: Vec<TestRow> = vec![(Some(1), Some(1), None); 9_000_000];
        let dataset = dataset(&rows, &[]).select(&["small", "n"]).unwrap();
        let reported = std::sync::Mutex::new(Vec::new());
        let watch = |progress: AggregationProgress| {
            reported.lock().unwrap().push((progress.rows, progress.of, progress.groups));
            Ok(())
        };
        let counted = dataset.aggregate(&["small"]).count_rows("rows").on_progress(1 << 20, &watch).finish().unwrap();
        assert_eq!(cells(&counted), [["-2", "9000000"]]);
        let waves: Vec<_> = (0..9).map(|wave| (wave << 20, 9_000_000, usize::from(wave > 0))).collect();
        assert_eq!(*reported.lock().unwrap(), waves);
        let stop = |progress: AggregationProgress| match progress.rows {
            0 => Ok(()),
            rows => Err(Error::invalid_argument(format!("stopped at {rows}"))),
        };
        for function in [AggregateFunction::Sum, AggregateFunction::NUnique] {
            let stopped =
                dataset.aggregate(&["small"]).column("n", function).on_progress(1 << 20, &stop).finish().unwrap_err();
            assert_eq!(stopped.message(), "stopped at 1048576");
        }
    }
}
