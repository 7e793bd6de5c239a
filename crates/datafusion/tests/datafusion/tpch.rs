//! Tests TPC-H's 22 queries over files and tables, against the same rows in DataFusion's memory and recorded answers of
//! DuckDB.

use std::fs;
use std::path::Path;

use arrowwood::WriterOptions;
use arrowwood_datafusion::Table;
use datafusion::prelude::SessionContext;

use crate::support::*;
use crate::tpch_rows::{Tables, statements, tables};

/// Runs a query and returns its answer as lines.
async fn answer_lines(context: &SessionContext, number: usize) -> Vec<String> {
    let mut answer = Vec::new();
    for statement in statements(number) {
        // Statements that create or drop a view return nothing.
        let lines = sql_lines(context, &statement).await;
        if !lines.is_empty() {
            answer = lines;
        }
    }
    answer
}

/// Writes each table as a file.
fn files_context(tables: &Tables, directory: &Path) -> SessionContext {
    let context = new_context(2);
    for (name, batches) in tables {
        let path = directory.join(format!("{name}.arrow"));
        write_file(batches, &path);
        register(&context, name, Table::open(path).unwrap());
    }
    context
}

/// Writes each table as a growing table that is sorted by its key, with zones.
fn tables_context(tables: &Tables, directory: &Path) -> SessionContext {
    let context = new_context(3);
    for (name, batches) in tables {
        let path = directory.join(name);
        let key = match *name {
            "lineitem" => "l_orderkey",
            "orders" => "o_orderkey",
            "customer" => "c_custkey",
            "part" => "p_partkey",
            "supplier" => "s_suppkey",
            "partsupp" => "ps_partkey",
            "nation" => "n_nationkey",
            _ => "r_regionkey",
        };
        let mut indexed_columns = Vec::new();
        for field in batches[0].schema().fields() {
            let column = field.name();
            if column.ends_with("date") || column.ends_with("quantity") || column.ends_with("size") {
                indexed_columns.push(column.clone());
            }
        }
        let options = WriterOptions {
            sorted_by: Some(key.into()),
            index: Some(indexed_columns),
            zone_rows: Some(512),
            segment_rows: Some(25_000),
            ..WriterOptions::default()
        };
        write_table(batches, &path, options);
        register(&context, name, Table::open(path).unwrap());
    }
    context
}

fn tables_in_memory(tables: &Tables) -> SessionContext {
    let context = new_context(2);
    for (name, batches) in tables {
        register_memory(&context, name, batches);
    }
    context
}

/// Returns true if two cells have the same text, or numbers that differ only by rounding.
fn is_same_cell(ours: &str, theirs: &str) -> bool {
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-6 * a.abs().max(1.0),
        _ => ours == theirs,
    }
}

fn is_same_row(ours: &[String], theirs: &[String]) -> bool {
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| is_same_cell(ours, theirs))
}

fn split_cells(line: &str) -> Vec<String> {
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// An answer of DuckDB to one query.
struct RecordedAnswer {
    row_count: usize,
    /// The first rows, in the form of [`format_rows`].
    first_rows: Vec<String>,
}

/// Reads the answers of DuckDB, in the order of the queries.
fn read_recorded_answers() -> Vec<RecordedAnswer> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/datafusion/tpch.txt");
    let mut answers: Vec<RecordedAnswer> = Vec::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        match line.strip_prefix("query ") {
            Some(header) => {
                let row_count = header.rsplit(' ').next().unwrap().parse().unwrap();
                answers.push(RecordedAnswer { row_count, first_rows: Vec::new() });
            }
            None => answers.last_mut().unwrap().first_rows.push(line.to_owned()),
        }
    }
    answers
}

/// Exports the files and queries for `tests/tpch_duckdb.py`, which records the answers of DuckDB.
fn export(tables: &Tables, files: &Path, target: &Path) {
    for name in tables.keys() {
        let file = format!("{name}.arrow");
        fs::copy(files.join(&file), target.join(&file)).unwrap();
    }
    let queries: Vec<_> = (1..=22).map(|number| statements(number).join(";\n")).collect();
    fs::write(target.join("queries.sql"), queries.join("\n====\n")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_matches_memory_and_duckdb() {
    let directory = tempfile::tempdir().unwrap();
    let tables = tables();
    let memory = tables_in_memory(&tables);
    let on_files = files_context(&tables, directory.path());
    let on_tables = tables_context(&tables, directory.path());
    if let Ok(target) = std::env::var("ARROWWOOD_TPCH_FOLDER") {
        export(&tables, directory.path(), Path::new(&target));
        return;
    }
    let recorded = read_recorded_answers();
    let mut line_count = 0;
    for number in 1..=22 {
        let expected = answer_lines(&memory, number).await;
        line_count += expected.len();
        assert_eq!(answer_lines(&on_files, number).await, expected, "query {number} over files");
        assert_eq!(answer_lines(&on_tables, number).await, expected, "query {number} over tables");
        let duckdb = &recorded[number - 1];
        assert_eq!(expected.len(), duckdb.row_count, "query {number}: rows of DuckDB");
        for (ours, theirs) in expected.iter().zip(&duckdb.first_rows) {
            let ours = split_cells(ours);
            let theirs = split_cells(theirs);
            assert!(is_same_row(&ours, &theirs), "query {number}: {ours:?}, and DuckDB {theirs:?}");
        }
    }
    assert!(line_count > 100, "{line_count}");
}
