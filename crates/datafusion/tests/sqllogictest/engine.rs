//! [`Engine`]: runs statements for sqllogictest in a session of DataFusion, and formats values as DataFusion's test
//! files do.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bigdecimal::BigDecimal;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, Float16Type, Float32Type, Float64Type};
use datafusion::arrow::util::display::ArrayFormatter;
use datafusion::config::FormatOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use sqllogictest::{AsyncDB, ColumnType, DBOutput};

use crate::tables::{MirrorSchema, StorageCounts};

pub struct Engine(SessionContext);

impl Engine {
    /// Creates a session whose tables are read from files and tables of Arrowwood.
    pub fn new(counts: &Arc<StorageCounts>) -> Engine {
        // The number of partitions with which the expected rows were recorded.
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(4));
        let catalog = context.catalog("datafusion").unwrap();
        catalog.register_schema("public", Arc::new(MirrorSchema::new(counts.clone()))).unwrap();
        Engine(context)
    }
}

#[async_trait]
impl AsyncDB for Engine {
    type Error = EngineError;
    type ColumnType = ColumnKind;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnKind>, EngineError> {
        Ok(self.run_sql(sql).await?)
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "DataFusion"
    }

    async fn sleep(time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// An error with the prefix that the files expect.
#[derive(Debug)]
pub struct EngineError(DataFusionError);

impl From<DataFusionError> for EngineError {
    fn from(error: DataFusionError) -> EngineError {
        EngineError(error)
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataFusion error: {}", self.0)
    }
}

impl std::error::Error for EngineError {}

impl Engine {
    async fn run_sql(&self, sql: &str) -> Result<DBOutput<ColumnKind>> {
        let frame = self.0.sql(sql).await?;
        let context = Arc::new(frame.task_ctx());
        let stream = execute_stream(frame.create_physical_plan().await?, context)?;
        let types: Vec<_> = stream.schema().fields().iter().map(|field| ColumnKind::for_field(field)).collect();
        let mut rows = Vec::new();
        for batch in stream.try_collect::<Vec<_>>().await? {
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().map(|column| format_cell(column, row));
                rows.push(cells.collect::<Result<Vec<_>>>()?);
            }
        }
        let is_statement = types.is_empty() && rows.is_empty();
        Ok(if is_statement { DBOutput::StatementComplete(0) } else { DBOutput::Rows { types, rows } })
    }
}

/// The kind of a column, as the letter that the files have for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnKind(char);

impl ColumnKind {
    fn for_field(field: &Field) -> ColumnKind {
        let data_type = field.data_type();
        ColumnKind(match data_type {
            DataType::Boolean => 'B',
            DataType::Timestamp(..) => 'P',
            DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => 'D',
            DataType::Dictionary(_, values) if is_text(values) => 'T',
            other if is_text(other) => 'T',
            other if other.is_integer() => 'I',
            other if other.is_floating() || other.is_decimal() => 'R',
            _ => '?',
        })
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

impl ColumnType for ColumnKind {
    fn from_char(letter: char) -> Option<ColumnKind> {
        Some(ColumnKind(if "BDIPRT".contains(letter) { letter } else { '?' }))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

/// Formats a value as the files do: floats with at most 12 decimals, numbers without trailing zeros, and empty texts as
/// `(empty)`.
fn format_cell(column: &ArrayRef, row: usize) -> Result<String> {
    if column.is_null(row) {
        return Ok("NULL".into());
    }
    if let Some(values) = column.as_any_dictionary_opt() {
        return format_cell(values.values(), values.normalized_keys()[row]);
    }
    let options = FormatOptions { null: "NULL".into(), ..FormatOptions::default() };
    let text = ArrayFormatter::try_new(column, &(&options).try_into()?)?.value(row).to_string();
    Ok(match column.data_type() {
        DataType::Float16 => format_float(column.as_primitive::<Float16Type>().value(row)),
        DataType::Float32 => format_float(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => format_float(column.as_primitive::<Float64Type>().value(row)),
        data_type if data_type.is_decimal() => format_number(&text, i64::MAX),
        data_type if is_text(data_type) && text.is_empty() => "(empty)".into(),
        data_type if is_text(data_type) => text.trim_end_matches('\n').replace('\0', "\\0"),
        _ => text,
    })
}

fn format_float(value: impl ToString) -> String {
    match value.to_string().as_str() {
        "NaN" | "-NaN" => "NaN".into(),
        "inf" => "Infinity".into(),
        "-inf" => "-Infinity".into(),
        finite => format_number(finite, 12),
    }
}

fn format_number(text: &str, max_decimals: i64) -> String {
    let mut value = BigDecimal::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    if value.fractional_digit_count() > max_decimals {
        value = value.round(max_decimals);
    }
    value.normalized().to_plain_string()
}
