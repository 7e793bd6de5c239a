//! Helpers that write the same rows to memory and to disk, and query both.

use std::path::Path;
use std::sync::Arc;

use arrowwood::{Dataset, WriteOptions, Writer, WriterOptions, write};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

pub fn new_context(splits: usize) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(splits))
}

pub fn register(context: &SessionContext, name: &str, table: Table) {
    context.register_table(name, Arc::new(table)).unwrap();
}

pub fn register_memory(context: &SessionContext, name: &str, batches: &[RecordBatch]) {
    let table = MemTable::try_new(batches[0].schema(), vec![batches.to_vec()]).unwrap();
    context.register_table(name, Arc::new(table)).unwrap();
}

/// Returns a context in which the table `t` has the rows at `path`.
pub fn file_context(path: &Path) -> SessionContext {
    let context = new_context(3);
    register(&context, "t", Table::open(path).unwrap());
    context
}

/// Returns a context in which the table `t` has the rows of `batches`, in DataFusion's memory.
pub fn memory_context(batches: &[RecordBatch]) -> SessionContext {
    let context = new_context(1);
    register_memory(&context, "t", batches);
    context
}

pub async fn run_sql(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    context.sql(sql).await?.collect().await
}

pub fn count_rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Formats each row as a line, without the header.
pub fn format_rows(batches: &[RecordBatch]) -> Vec<String> {
    let table = pretty_format_batches(batches).unwrap().to_string();
    table.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect()
}

/// Returns the rows of an answer as lines, in the order of the answer.
pub async fn sql_lines(context: &SessionContext, sql: &str) -> Vec<String> {
    format_rows(&run_sql(context, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")))
}

/// Returns the rows of an answer as sorted lines.
pub async fn sorted_sql_lines(context: &SessionContext, sql: &str) -> Vec<String> {
    let mut lines = sql_lines(context, sql).await;
    lines.sort_unstable();
    lines
}

/// Returns the only value of an answer, which is an integer.
pub async fn sql_number(context: &SessionContext, sql: &str) -> i64 {
    let lines = sql_lines(context, sql).await;
    assert_eq!(lines.len(), 1, "{sql}: {lines:?}");
    lines[0].trim_matches(['|', ' ']).parse().unwrap_or_else(|_| panic!("{sql}: {lines:?}"))
}

/// Returns the physical plan of a query as text.
pub async fn sql_plan(context: &SessionContext, sql: &str) -> String {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string()
}

pub fn write_file(batches: &[RecordBatch], path: &Path) {
    let dataset = Dataset::from_batches(batches[0].schema(), batches.to_vec()).unwrap();
    write(&dataset, path, &WriteOptions::default()).unwrap();
}

/// Writes a table with a commit for each batch.
pub fn write_table(batches: &[RecordBatch], path: &Path, options: WriterOptions) {
    let mut writer = Writer::open(path, Some(batches[0].schema()), &options).unwrap();
    for batch in batches {
        writer.append(batch).unwrap();
        writer.commit().unwrap();
    }
    writer.close().unwrap();
}

/// Returns rows with the columns of their partition, as a dataset of partitions has them.
pub fn with_keys(rows: &RecordBatch, host: Option<&str>, rack: Option<i64>) -> RecordBatch {
    let hosts: ArrayRef = Arc::new(StringArray::from(vec![host; rows.num_rows()]));
    let racks: ArrayRef = Arc::new(Int64Array::from(vec![rack; rows.num_rows()]));
    let mut columns: Vec<(String, ArrayRef, bool)> = Vec::new();
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        columns.push((field.name().clone(), column.clone(), true));
    }
    columns.push(("host".into(), hosts, true));
    columns.push(("rack".into(), racks, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}
