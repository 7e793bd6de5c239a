//! [`Engine`]: a session of DataFusion as sqllogictest asks it, with values in the form of DataFusion's own files.

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

use crate::tables::{Counts, Schema};

pub struct Engine(SessionContext);

impl Engine {
    /// A session in which the tables of a test are ours.
    pub fn new(counts: &Arc<Counts>) -> Engine {
        // As many partitions as the answers were made with.
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(4));
        let catalog = context.catalog("datafusion").unwrap();
        catalog.register_schema("public", Arc::new(Schema::new(counts.clone()))).unwrap();
        Engine(context)
    }
}

#[async_trait]
impl AsyncDB for Engine {
    type Error = Failure;
    type ColumnType = ColumnKind;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnKind>, Failure> {
        Ok(self.answer(sql).await?)
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "DataFusion"
    }

    async fn sleep(time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// An error as the files have it.
#[derive(Debug)]
pub struct Failure(DataFusionError);

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Failure {
        Failure(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataFusion error: {}", self.0)
    }
}

impl std::error::Error for Failure {}

impl Engine {
    async fn answer(&self, sql: &str) -> Result<DBOutput<ColumnKind>> {
        let frame = self.0.sql(sql).await?;
        let context = Arc::new(frame.task_ctx());
        let stream = execute_stream(frame.create_physical_plan().await?, context)?;
        let types: Vec<_> = stream.schema().fields().iter().map(|field| ColumnKind::for_field(field)).collect();
        let mut rows = Vec::new();
        for batch in stream.try_collect::<Vec<_>>().await? {
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().map(|column| cell(column, row));
                rows.push(cells.collect::<Result<Vec<_>>>()?);
            }
        }
        let is_statement = types.is_empty() && rows.is_empty();
        Ok(if is_statement { DBOutput::StatementComplete(0) } else { DBOutput::Rows { types, rows } })
    }
}

/// The kind of a column, by the letter that the files have for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnKind(char);

impl ColumnKind {
    fn for_field(field: &Field) -> ColumnKind {
        let data_type = field.data_type();
        let is_text =
            |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
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

impl ColumnType for ColumnKind {
    fn from_char(letter: char) -> Option<ColumnKind> {
        Some(ColumnKind(if "BDIPRT".contains(letter) { letter } else { '?' }))
    }

    fn to_char(&self) -> char {
        self.0
    }
}

/// A value as the files have it: numbers without trailing zeros and with at most 12 decimals, empty text as `(empty)`.
fn cell(column: &ArrayRef, row: usize) -> Result<String> {
    if column.is_null(row) {
        return Ok("NULL".into());
    }
    if let Some(values) = column.as_any_dictionary_opt() {
        return cell(values.values(), values.normalized_keys()[row]);
    }
    let options = FormatOptions { null: "NULL".into(), ..FormatOptions::default() };
    let shown = ArrayFormatter::try_new(column, &(&options).try_into()?)?.value(row).to_string();
    Ok(match column.data_type() {
        DataType::Float16 => float(column.as_primitive::<Float16Type>().value(row)),
        DataType::Float32 => float(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row)),
        data_type if data_type.is_decimal() => number(&shown, i64::MAX),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if shown.is_empty() => "(empty)".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => shown.trim_end_matches('\n').replace('\0', "\\0"),
        _ => shown,
    })
}

fn float(value: impl ToString) -> String {
    match value.to_string().as_str() {
        "NaN" | "-NaN" => "NaN".into(),
        "inf" => "Infinity".into(),
        "-inf" => "-Infinity".into(),
        finite => number(finite, 12),
    }
}

fn number(shown: &str, decimals: i64) -> String {
    let value = BigDecimal::from_str(shown).unwrap_or_else(|e| panic!("{shown}: {e}"));
    let value = if value.fractional_digit_count() > decimals { value.round(decimals) } else { value };
    value.normalized().to_plain_string()
}
