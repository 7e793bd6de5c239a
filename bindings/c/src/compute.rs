//! Computations on columns and rows.

use arrowwood::{AggregateFunction, Result};

use crate::dataset::CDataset;
use crate::error::invalid_argument;
use crate::ffi::*;
use crate::predicate::CPredicate;
use crate::value::{count, flag, float, to_c};

/// `arrowwood_function`.
mod function {
    pub const SUM: i32 = 1;
    pub const MEAN: i32 = 2;
    pub const MIN: i32 = 3;
    pub const MAX: i32 = 4;
    pub const COUNT: i32 = 5;
    pub const VAR: i32 = 6;
    pub const STD: i32 = 7;
    pub const NULL_COUNT: i32 = 8;
    pub const N_UNIQUE: i32 = 9;
    pub const ANY: i32 = 10;
    pub const ALL: i32 = 11;
    pub const MEDIAN: i32 = 12;
}

structs! {
    /// `arrowwood_aggregate`.
    struct CAggregate {
        name: CText,
        column: Optional<CText>,
        function: i32,
        reserved: Reserved,
    }
}

// `tests/capi/c/layout.c` has the same numbers.
const _: () = assert!(size_of::<CAggregate>() == 24 && std::mem::offset_of!(CAggregate, function) == 16);

fn reduce(dataset: &CDataset, column: usize, code: i32) -> Result<CValue> {
    let column = dataset.column(column)?;
    Ok(match code {
        function::SUM => to_c(&column.sum()?)?,
        function::MEAN => float(column.mean()?),
        function::MIN => to_c(&column.min()?)?,
        function::MAX => to_c(&column.max()?)?,
        function::COUNT => count(column.count()?),
        function::VAR => float(column.var()?),
        function::STD => float(column.std()?),
        function::NULL_COUNT => count(column.null_count()?),
        function::N_UNIQUE => count(column.n_unique()?),
        function::ANY => flag(column.any()?),
        function::ALL => flag(column.all()?),
        function::MEDIAN => float(column.quantile(0.5)?),
        other => return Err(invalid_argument(format!("there is no function {other}"))),
    })
}

fn function_of_groups(code: i32) -> Result<AggregateFunction> {
    Ok(match code {
        function::SUM => AggregateFunction::Sum,
        function::MEAN => AggregateFunction::Mean,
        function::MIN => AggregateFunction::Min,
        function::MAX => AggregateFunction::Max,
        function::COUNT => AggregateFunction::Count,
        function::VAR => AggregateFunction::Var,
        function::STD => AggregateFunction::Std,
        function::N_UNIQUE => AggregateFunction::NUnique,
        function::MEDIAN => AggregateFunction::Median,
        other => return Err(invalid_argument(format!("there is no function {other} of groups"))),
    })
}

export! {
    /// A column as one value.
    fn arrowwood_dataset_reduce(dataset: HandleRef<CDataset>, column: usize, function: i32, value: OutPtr<CValue>) {
        value.put(reduce(dataset, column, function)?);
        Ok(())
    }

    /// A quantile of a column.
    fn arrowwood_dataset_quantile(dataset: HandleRef<CDataset>, column: usize, share: f64, value: OutPtr<CValue>) {
        value.put(float(dataset.column(column)?.quantile(share)?));
        Ok(())
    }

    /// The quantile of a sample.
    fn arrowwood_dataset_approx_quantile(
        dataset: HandleRef<CDataset>, column: usize, share: f64, value: OutPtr<CValue>,
    ) {
        value.put(float(dataset.column(column)?.approx_quantile(share)?));
        Ok(())
    }

    /// Rows by number.
    fn arrowwood_dataset_take(dataset: HandleRef<CDataset>, rows[count]: InArray<i64>, taken: HandleOut<CDataset>) {
        taken.put(CDataset::new(dataset.take(rows)?));
        Ok(())
    }

    /// Rows chosen at random.
    fn arrowwood_dataset_sample(dataset: HandleRef<CDataset>, rows: u64, seed: u64, sample: HandleOut<CDataset>) {
        sample.put(CDataset::new(dataset.sample(rows, seed)?));
        Ok(())
    }

    /// All rows in a random order.
    fn arrowwood_dataset_shuffle(dataset: HandleRef<CDataset>, seed: u64, shuffled: HandleOut<CDataset>) {
        shuffled.put(CDataset::new(dataset.shuffle(seed)?));
        Ok(())
    }

    /// The rows that match a predicate.
    fn arrowwood_dataset_filter(
        dataset: HandleRef<CDataset>, predicate: HandleRef<CPredicate>, found: HandleOut<CDataset>,
    ) {
        found.put(CDataset::new(dataset.filter(predicate.predicate())?));
        Ok(())
    }

    /// Aggregates of groups of rows.
    fn arrowwood_dataset_aggregate(
        dataset: HandleRef<CDataset>, by[by_count]: InArray<CText>, predicate: Optional<HandleRef<CPredicate>>,
        columns[column_count]: InArray<CAggregate>, groups: HandleOut<CDataset>,
    ) {
        let mut aggregation = dataset.aggregate(&texts(by, "by")?);
        if let Some(predicate) = predicate {
            aggregation = aggregation.filter(predicate.predicate().clone());
        }
        for column in columns {
            column.reserved.check("columns.reserved")?;
            let name = column.name.to_rust("columns.name")?;
            let of = column.column.to_rust("columns.column")?;
            aggregation = match (of, column.function) {
                (None, function::COUNT) => aggregation.count_rows(name),
                (None, _) => return Err(invalid_argument(format!("column '{name}' of the result is of no column"))),
                (Some(of), function) => aggregation.column_as(name, of, function_of_groups(function)?),
            };
        }
        groups.put(CDataset::new(aggregation.finish()?));
        Ok(())
    }

    /// The distinct values of a column, and their numbers of occurrences.
    fn arrowwood_dataset_value_counts(dataset: HandleRef<CDataset>, column: usize, counts: HandleOut<CDataset>) {
        counts.put(CDataset::new(dataset.column(column)?.value_counts()?));
        Ok(())
    }

    /// A description of each column.
    fn arrowwood_dataset_describe(dataset: HandleRef<CDataset>, description: HandleOut<CDataset>) {
        description.put(CDataset::new(dataset.describe()?));
        Ok(())
    }

    /// All rows as one batch in memory.
    fn arrowwood_dataset_collect(dataset: HandleRef<CDataset>, collected: HandleOut<CDataset>) {
        collected.put(CDataset::new(dataset.collect()?));
        Ok(())
    }
}
