//! TPC-H's 22 queries over files and tables: the answers of DataFusion over the same rows in its own memory, and those of DuckDB on
//! record.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrowwood::WriterOptions;
use arrowwood_datafusion::Table;
use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use tpchgen::generators::*;
use tpchgen::q_and_a::queries::query;
use tpchgen_arrow::*;

use crate::support::*;

/// The part of the benchmark's first scale that is asked.
const SCALE: f64 = 0.01;

/// The values for which the queries have places, in the order of their numbers: those by which the benchmark is validated.
const VALUES: [&[&str]; 22] = [
    &["90"],
    &["15", "BRASS", "EUROPE"],
    &["BUILDING", "1995-03-15"],
    &["1993-07-01"],
    &["ASIA", "1994-01-01"],
    &["1994-01-01", "0.06", "24"],
    &["FRANCE", "GERMANY"],
    &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
    &["green"],
    &["1993-10-01"],
    &["GERMANY", "0.0001"],
    &["MAIL", "SHIP", "1994-01-01"],
    &["special", "requests"],
    &["1995-09-01"],
    &["1996-01-01"],
    &["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"],
    &["Brand#23", "MED BOX"],
    &["300"],
    &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
    &["forest", "1994-01-01", "CANADA"],
    &["SAUDI ARABIA"],
    &["13", "31", "23", "29", "30", "18", "17"],
];

pub type Rows = BTreeMap<&'static str, Vec<RecordBatch>>;

/// All tables.
pub fn rows() -> Rows {
    BTreeMap::from([
        ("nation", NationArrow::new(NationGenerator::default()).collect()),
        ("region", RegionArrow::new(RegionGenerator::default()).collect()),
        ("part", PartArrow::new(PartGenerator::new(SCALE, 1, 1)).collect()),
        ("supplier", SupplierArrow::new(SupplierGenerator::new(SCALE, 1, 1)).collect()),
        ("partsupp", PartSuppArrow::new(PartSuppGenerator::new(SCALE, 1, 1)).collect()),
        ("customer", CustomerArrow::new(CustomerGenerator::new(SCALE, 1, 1)).collect()),
        ("orders", OrderArrow::new(OrderGenerator::new(SCALE, 1, 1)).collect()),
        ("lineitem", LineItemArrow::new(LineItemGenerator::new(SCALE, 1, 1)).collect()),
    ])
}

/// The statements of a query with its values.
pub fn statements(number: usize) -> Vec<String> {
    // The number of digits of an interval is a word that neither engine knows, and `s` a number of the stream of queries.
    let mut text = query(number as i32).unwrap().replace(" (3)", "").replace(":s", "0");
    // The last first: `:10` begins as `:1` does.
    for (place, value) in VALUES[number - 1].iter().enumerate().rev() {
        text = text.replace(&format!(":{}", place + 1), value);
    }
    let statements = text.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    statements.map(str::to_owned).collect()
}

/// The lines of a query's answer.
async fn answer(context: &SessionContext, number: usize) -> Vec<String> {
    let mut found = Vec::new();
    for statement in statements(number) {
        let shown = lines(context, &statement).await;
        if !shown.is_empty() {
            found = shown;
        }
    }
    found
}

fn files(rows: &Rows, folder: &Path) -> SessionContext {
    let context = context(2);
    for (name, batches) in rows {
        let path = folder.join(format!("{name}.arrow"));
        write_file(batches, &path);
        register(&context, name, Table::open(path).unwrap());
    }
    context
}

/// The same as tables that grow, sorted where rows are in order, with zones.
fn tables(rows: &Rows, folder: &Path) -> SessionContext {
    let context = context(3);
    for (name, batches) in rows {
        let path = folder.join(name);
        let sorted = match *name {
            "lineitem" => "l_orderkey",
            "orders" => "o_orderkey",
            "customer" => "c_custkey",
            "part" => "p_partkey",
            "supplier" => "s_suppkey",
            "partsupp" => "ps_partkey",
            "nation" => "n_nationkey",
            _ => "r_regionkey",
        };
        let is_indexed =
            |name: &&String| name.ends_with("date") || name.ends_with("quantity") || name.ends_with("size");
        let schema = batches[0].schema();
        let indexed = schema.fields().iter().map(|field| field.name()).filter(is_indexed).cloned().collect();
        let options = WriterOptions {
            sorted_by: Some(sorted.into()),
            index: Some(indexed),
            zone_rows: Some(512),
            segment_rows: Some(25_000),
            ..WriterOptions::default()
        };
        write_table(batches, &path, options);
        register(&context, name, Table::open(path).unwrap());
    }
    context
}

fn memory(rows: &Rows) -> SessionContext {
    let context = context(2);
    for (name, batches) in rows {
        let table = MemTable::try_new(batches[0].schema(), vec![batches.clone()]).unwrap();
        context.register_table(*name, Arc::new(table)).unwrap();
    }
    context
}

/// Cells that are the same text, or numbers that agree but for a last rounding.
fn agree(ours: &str, theirs: &str) -> bool {
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-6 * a.abs().max(1.0),
        _ => ours == theirs,
    }
}

fn cells(line: &str) -> Vec<String> {
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// How many rows DuckDB's answer to each query has, and the first of them, each as a line of ours.
fn on_record() -> Vec<(usize, Vec<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/datafusion/tpch.txt");
    let mut answers: Vec<(usize, Vec<String>)> = Vec::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        match line.strip_prefix("query ") {
            Some(head) => answers.push((head.rsplit(' ').next().unwrap().parse().unwrap(), Vec::new())),
            None => answers.last_mut().unwrap().1.push(line.to_owned()),
        }
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_22_queries_have_the_answers_of_memory_and_of_duckdb() {
    let folder = tempfile::tempdir().unwrap();
    let rows = rows();
    let [memory, files, tables] = [memory(&rows), files(&rows, folder.path()), tables(&rows, folder.path())];
    if let Ok(kept) = std::env::var("ARROWWOOD_TPCH_FOLDER") {
        // For `tests/tpch_duckdb.py`, which writes the record.
        for name in rows.keys() {
            fs::copy(folder.path().join(format!("{name}.arrow")), Path::new(&kept).join(format!("{name}.arrow")))
                .unwrap();
        }
        let all: Vec<_> = (1..=22).map(|number| statements(number).join(";\n")).collect();
        fs::write(Path::new(&kept).join("queries.sql"), all.join("\n====\n")).unwrap();
        return;
    }
    let recorded = on_record();
    let mut lines = 0;
    for number in 1..=22 {
        let wanted = answer(&memory, number).await;
        lines += wanted.len();
        assert_eq!(answer(&files, number).await, wanted, "query {number} over files");
        assert_eq!(answer(&tables, number).await, wanted, "query {number} over tables");
        let (count, theirs) = &recorded[number - 1];
        assert_eq!(wanted.len(), *count, "query {number}: rows of DuckDB");
        for (ours, theirs) in wanted.iter().zip(theirs) {
            let (ours, theirs) = (cells(ours), cells(theirs));
            let is_same = ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| agree(a, b));
            assert!(is_same, "query {number}: {ours:?}, and DuckDB {theirs:?}");
        }
    }
    assert!(lines > 100, "{lines}");
}
