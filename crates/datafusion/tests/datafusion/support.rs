//! Rows in memory and on disk, and the answers of both.

use std::path::Path;
use std::sync::Arc;

use arrowwood::{Dataset, WriteOptions, Writer, WriterOptions, write};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

pub fn context(splits: usize) -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(splits))
}

pub fn register(context: &SessionContext, name: &str, table: Table) {
    context.register_table(name, Arc::new(table)).unwrap();
}

/// A context in which `t` are the rows at `path`.
pub fn over(path: &Path) -> SessionContext {
    let context = context(3);
    register(&context, "t", Table::open(path).unwrap());
    context
}

/// A context in which `t` are `batches` in DataFusion's memory.
pub fn in_memory(batches: &[RecordBatch]) -> SessionContext {
    let context = context(1);
    let table = MemTable::try_new(batches[0].schema(), vec![batches.to_vec()]).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

pub async fn ask(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    context.sql(sql).await?.collect().await
}

/// The rows of an answer as lines, in the order of the answer.
pub async fn lines(context: &SessionContext, sql: &str) -> Vec<String> {
    let answer = ask(context, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let shown = pretty_format_batches(&answer).unwrap().to_string();
    shown.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect()
}

/// The same, in order of the lines.
pub async fn sorted_lines(context: &SessionContext, sql: &str) -> Vec<String> {
    let mut found = lines(context, sql).await;
    found.sort_unstable();
    found
}

/// The only number of an answer.
pub async fn number(context: &SessionContext, sql: &str) -> i64 {
    let found = lines(context, sql).await;
    assert_eq!(found.len(), 1, "{sql}: {found:?}");
    found[0].trim_matches(['|', ' ']).parse().unwrap_or_else(|_| panic!("{sql}: {found:?}"))
}

/// The physical plan of a query.
pub async fn plan(context: &SessionContext, sql: &str) -> String {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string()
}

pub fn write_file(batches: &[RecordBatch], path: &Path) {
    let memory = Dataset::from_batches(batches[0].schema(), batches.to_vec()).unwrap();
    write(&memory, path, &WriteOptions::default()).unwrap();
}

pub fn write_table(batches: &[RecordBatch], path: &Path, options: WriterOptions) {
    let mut writer = Writer::open(path, Some(batches[0].schema()), &options).unwrap();
    for batch in batches {
        writer.append(batch).unwrap();
        writer.commit().unwrap();
    }
    writer.close().unwrap();
}
