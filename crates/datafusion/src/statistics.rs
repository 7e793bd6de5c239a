//! Statistics of rows, computed without reading more than two of them.

use arrowwood::{Dataset, Result};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::scalar::ScalarValue;

/// Computes the statistics of `rows`, which are sorted by the column `sorted` and have no nulls in it.
pub(crate) fn compute(rows: &Dataset, sorted: Option<usize>) -> Result<Statistics> {
    let count = Precision::Exact(usize::try_from(rows.len()?).unwrap_or(usize::MAX));
    let mut column_statistics = Vec::with_capacity(rows.schema().fields().len());
    for (number, field) in rows.schema().fields().iter().enumerate() {
        column_statistics.push(if sorted == Some(number) {
            sorted_column_statistics(rows, number)?
        } else {
            field_statistics(field)
        });
    }
    let mut statistics = Statistics { num_rows: count, total_byte_size: Precision::Absent, column_statistics };
    statistics.calculate_total_byte_size(rows.schema());
    Ok(statistics)
}

fn field_statistics(field: &Field) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    if !field.is_nullable() {
        statistics.null_count = Precision::Exact(0);
    }
    statistics
}

fn sorted_column_statistics(rows: &Dataset, number: usize) -> Result<ColumnStatistics> {
    let mut statistics = ColumnStatistics { null_count: Precision::Exact(0), ..ColumnStatistics::new_unknown() };
    let is_cheap = can_read_one_value(rows.schema().field(number).data_type());
    let Some(last) = rows.len()?.checked_sub(1).filter(|_| is_cheap) else { return Ok(statistics) };
    let column = rows.select_at(&[number])?;
    if let (Some(min), Some(max)) = (read_value(&column, 0)?, read_value(&column, last)?) {
        statistics.min_value = Precision::Exact(min);
        statistics.max_value = Precision::Exact(max);
    }
    Ok(statistics)
}

/// Returns true if a value of this type can be read without checking all other values of its column.
fn can_read_one_value(data_type: &DataType) -> bool {
    data_type.is_primitive()
}

/// Returns the value of a one-column dataset at `row`.
fn read_value(column: &Dataset, row: u64) -> Result<Option<ScalarValue>> {
    for batch in column.slice(row, 1)?.to_record_batches() {
        let batch = batch?;
        if batch.num_rows() > 0 {
            return Ok(ScalarValue::try_from_array(batch.column(0), 0).ok());
        }
    }
    Ok(None)
}
