//! What is known of rows before they are read.

use arrowwood::{Dataset, Result};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::scalar::ScalarValue;

/// The statistics of `rows`, of which column `sorted` never decreases and has no nulls.
pub(crate) fn compute(rows: &Dataset, sorted: Option<usize>) -> Result<Statistics> {
    let count = Precision::Exact(usize::try_from(rows.len()?).unwrap_or(usize::MAX));
    let column = |(number, field): (usize, &std::sync::Arc<Field>)| {
        if sorted == Some(number) { for_sorted(rows, number) } else { Ok(for_field(field)) }
    };
    let fields = rows.schema().fields().iter().enumerate();
    let column_statistics = fields.map(column).collect::<Result<_>>()?;
    let mut found = Statistics { num_rows: count, total_byte_size: Precision::Absent, column_statistics };
    found.calculate_total_byte_size(rows.schema());
    Ok(found)
}

fn for_field(field: &Field) -> ColumnStatistics {
    let mut found = ColumnStatistics::new_unknown();
    if !field.is_nullable() {
        found.null_count = Precision::Exact(0);
    }
    found
}

fn for_sorted(rows: &Dataset, number: usize) -> Result<ColumnStatistics> {
    let mut found = ColumnStatistics { null_count: Precision::Exact(0), ..ColumnStatistics::new_unknown() };
    let is_cheap = is_read_alone(rows.schema().field(number).data_type());
    let Some(last) = rows.len()?.checked_sub(1).filter(|_| is_cheap) else { return Ok(found) };
    let column = rows.select_at(&[number])?;
    if let (Some(least), Some(most)) = (value(&column, 0)?, value(&column, last)?) {
        found.min_value = Precision::Exact(least);
        found.max_value = Precision::Exact(most);
    }
    Ok(found)
}

/// Whether one value of a column is read without a check of all others.
fn is_read_alone(data_type: &DataType) -> bool {
    data_type.is_primitive()
}

/// The value of a column's row.
fn value(column: &Dataset, row: u64) -> Result<Option<ScalarValue>> {
    for batch in column.slice(row, 1)?.to_record_batches() {
        let batch = batch?;
        if batch.num_rows() > 0 {
            return Ok(ScalarValue::try_from_array(batch.column(0), 0).ok());
        }
    }
    Ok(None)
}
