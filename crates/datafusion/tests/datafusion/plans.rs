//! Tests of plans over tables: which rows they scan, their statistics and orders, and the commit that a query reads.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrowwood::{Dataset, Writer, WriterOptions, alter, open};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::stats::Precision;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext, collect_partitioned};
use datafusion::prelude::{col, lit};
use futures::StreamExt;

use crate::support::*;

fn tick_rows(start: i64, rows: i64) -> RecordBatch {
    let numbers = start..start + rows;
    let symbols = numbers.clone().map(|n| Some(["AAPL", "IBM", "MSFT"][(n % 3) as usize]));
    RecordBatch::try_from_iter([
        ("ts", Arc::new(Int64Array::from_iter_values(numbers.clone())) as ArrayRef),
        ("symbol", Arc::new(StringArray::from_iter(symbols))),
        ("price", Arc::new(Float64Array::from_iter_values(numbers.clone().map(|n| (n % 1000) as f64)))),
    ])
    .unwrap()
}

fn sorted_by_ts() -> WriterOptions {
    WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(40_000), ..WriterOptions::default() }
}

/// Writes a table of 100,000 rows.
fn write_ticks(path: &Path) -> Writer {
    let mut writer = Writer::open(path, Some(tick_rows(0, 1).schema()), &sorted_by_ts()).unwrap();
    writer.append(&tick_rows(0, 100_000)).unwrap();
    writer.commit().unwrap();
    writer
}

#[tokio::test]
async fn scans_are_limited_to_bounds_of_the_sorted_column() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = write_ticks(directory.path());
    let context = file_context(directory.path());
    let plan = sql_plan(&context, "select price from t where ts >= 70000 and ts < 70100").await;
    assert!(plan.contains("rows=100 of 100000") && !plan.contains("where=") && !plan.contains("Filter"), "{plan}");
    let plan = sql_plan(&context, "select ts from t where ts between 5 and 9 and symbol = 'IBM'").await;
    assert!(plan.contains("rows=5 of 100000") && plan.contains(r#"where=symbol == "IBM""#), "{plan}");
    assert!(plan.contains("projection=[ts]"), "{plan}");
    let plan = sql_plan(&context, "select ts from t where ts > 99990 and sqrt(price) > 3").await;
    assert!(plan.contains("rows=9 of 100000") && plan.contains("FilterExec"), "{plan}");
    let plan = sql_plan(&context, "select ts from t limit 5").await;
    assert!(plan.contains("rows=5 of 100000") && plan.contains("splits=1"), "{plan}");
}

#[tokio::test]
async fn counts_and_extremes_need_no_scan() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = write_ticks(directory.path());
    let context = file_context(directory.path());
    for sql in ["select count(*), min(ts), max(ts) from t", "select count(symbol) from t where ts >= 90000"] {
        let plan = sql_plan(&context, sql).await;
        assert!(plan.contains("PlaceholderRowExec") && !plan.contains("ArrowwoodScan"), "{plan}");
    }
    assert_eq!(
        sql_lines(&context, "select count(*), min(ts), max(ts) from t").await,
        ["| 100000   | 0         | 99999     |"]
    );
    writer.append(&tick_rows(100_000, 5)).unwrap();
    writer.commit().unwrap();
    assert_eq!(sql_number(&context, "select max(ts) from t").await, 100_004);
    // With a condition that is evaluated for each row, statistics are only estimates.
    let plan = sql_plan(&context, "select count(*) from t where price = 5").await;
    assert!(plan.contains("ArrowwoodScan"), "{plan}");
    assert_eq!(sql_number(&context, "select count(*) from t where symbol = 'IBM'").await, 33_335);
    assert_eq!(sql_lines(&context, "select max(ts) from t where ts < 0").await, ["|           |"]);
}

#[tokio::test]
async fn sorted_tables_need_no_sort() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = write_ticks(directory.path());
    let context = file_context(directory.path());
    for sql in ["select ts, price from t order by ts", "select ts from t where symbol = 'IBM' order by ts nulls first"]
    {
        let plan = sql_plan(&context, sql).await;
        assert!(!plan.contains("SortExec") && plan.contains("SortPreservingMergeExec"), "{plan}");
    }
    let lines = sql_lines(&context, "select ts from t where symbol = 'IBM' order by ts").await;
    let times = lines.iter().map(|line| line.trim_matches(['|', ' ']).parse::<i64>().unwrap());
    assert!(times.eq((1..100_000).step_by(3)));
    // Other columns are not sorted, and no order is descending.
    for sql in ["select ts from t order by price", "select ts from t order by ts desc"] {
        assert!(sql_plan(&context, sql).await.contains("SortExec"), "{sql}");
    }
    // The order of a file's rows is unknown.
    let file = directory.path().join("file.arrow");
    write_file(&[tick_rows(0, 10)], &file);
    assert!(sql_plan(&file_context(&file), "select ts from t order by ts").await.contains("SortExec"));
}

#[tokio::test]
async fn scans_have_the_requested_number_of_splits() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = write_ticks(directory.path());
    for splits in [1, 2, 5, 64] {
        let context = new_context(splits);
        register(&context, "t", Table::open(directory.path()).unwrap());
        let plan = sql_plan(&context, "select price from t").await;
        assert!(plan.contains(&format!("splits={}", splits.min(7))), "{plan}");
        assert_eq!(sql_number(&context, "select sum(ts) from t").await, 100_000 * 99_999 / 2);
        assert_eq!(sql_number(&context, "select count(*) from t where price = 7").await, 100);
    }
    let context = file_context(directory.path());
    assert!(sql_plan(&context, "select price from t where ts < 100").await.contains("splits=1"));
}

fn row_statistics(scan: &Arc<dyn ExecutionPlan>, partition: Option<usize>) -> Precision<usize> {
    let arguments = StatisticsArgs::new().with_partition(partition);
    StatisticsContext::new().compute(scan.as_ref(), &arguments).unwrap().num_rows
}

#[tokio::test]
async fn statistics_of_a_limited_scan_are_exact() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = write_ticks(directory.path());
    let context = new_context(3);
    register(&context, "t", Table::open(directory.path()).unwrap());
    let table = context.table_provider("t").await.unwrap();
    let unlimited = table.scan(&context.state(), None, &[], None).await.unwrap();
    for limit in [0, 10, 1_000_000] {
        let scan = unlimited.with_fetch(Some(limit)).unwrap();
        let splits = collect_partitioned(scan.clone(), context.task_ctx()).await.unwrap();
        assert_eq!(splits.len(), 3);
        let mut total = 0;
        for (partition, batches) in splits.iter().enumerate() {
            let rows = count_rows(batches);
            let statistics = row_statistics(&scan, Some(partition));
            assert_eq!(statistics, Precision::Exact(rows), "split {partition} of limit {limit}");
            total += rows;
        }
        assert_eq!(row_statistics(&scan, None), Precision::Exact(total), "limit {limit}");
    }
}

/// A scan without matching rows reyields control between chunks, so that it can be cancelled and other tasks run.
#[tokio::test]
async fn scans_without_matches_yield() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.arrow");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..500_000).map(|i| i * 7_919 % 1_000)));
    write_file(&[RecordBatch::try_from_iter([("n", numbers)]).unwrap()], &file);
    let context = new_context(1);
    register(&context, "t", Table::open(&file).unwrap());
    let table = context.table_provider("t").await.unwrap();
    let scan = table.scan(&context.state(), None, &[col("n").eq(lit(5_000_i64))], None).await.unwrap();
    let mut rows = scan.execute(0, context.task_ctx()).unwrap();
    let mut yields = 0;
    while futures::poll!(rows.next()).is_pending() {
        yields += 1;
    }
    assert!(yields >= 3, "{yields}");
}

/// Returns the file that an address of this process is mapped from.
fn mapped_file(address: usize) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        (start..end).contains(&address).then(|| rest.split_whitespace().nth(4).unwrap_or_default().to_owned())
    })
}

/// Returns true if all buffers of a batch are mapped from files in a directory.
fn is_mapped_from(batch: &RecordBatch, directory: &Path) -> bool {
    let buffers: Vec<_> = batch.columns().iter().flat_map(|column| column.to_data().buffers().to_vec()).collect();
    assert!(buffers.len() >= 3);
    buffers.iter().all(|buffer| {
        mapped_file(buffer.as_ptr() as usize).is_some_and(|path| path.starts_with(directory.to_str().unwrap()))
    })
}

#[tokio::test]
async fn batches_are_mapped_memory_unless_copied() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = write_ticks(directory.path());
    let canonical = directory.path().canonicalize().unwrap();
    let sql = "select * from t where ts >= 30000 and ts < 95000";
    let mapped = run_sql(&file_context(directory.path()), sql).await.unwrap();
    assert_eq!(count_rows(&mapped), 65_000);
    assert!(mapped.iter().all(|batch| is_mapped_from(batch, &canonical)));
    assert!(mapped.iter().all(|batch| batch.num_rows() <= 8192));
    let context = new_context(2);
    register(&context, "t", Table::open(directory.path()).unwrap().copied());
    let copied = run_sql(&context, sql).await.unwrap();
    assert_eq!(count_rows(&copied), 65_000);
    assert!(!copied.iter().any(|batch| is_mapped_from(batch, &canonical)));
}

#[tokio::test]
async fn a_query_reads_the_commit_of_its_planning() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = write_ticks(directory.path());
    let context = file_context(directory.path());
    let sql = "select a.n, b.n from (select count(*) n from t where price = 7) a, \
               (select count(*) n from t where price = 7) b";
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    writer.append(&tick_rows(100_000, 1000)).unwrap();
    writer.commit().unwrap();
    let batches = datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap();
    let counts: Vec<i64> = batches[0]
        .columns()
        .iter()
        .map(|column| column.as_any().downcast_ref::<Int64Array>().unwrap().value(0))
        .collect();
    assert_eq!(counts, [100, 100]);
    assert_eq!(sql_number(&context, "select count(*) from t where price = 7").await, 101);
    // A part of a table does not see later commits.
    let part = open(directory.path()).unwrap().slice(10, 20).unwrap();
    register(&context, "part", Table::new(part).unwrap());
    writer.append(&tick_rows(101_000, 1000)).unwrap();
    writer.commit().unwrap();
    assert_eq!(sql_number(&context, "select count(*) from part where price >= 0").await, 20);
}

#[tokio::test]
async fn altered_columns_are_seen_after_registering_again() {
    let directory = tempfile::tempdir().unwrap();
    write_ticks(directory.path()).close().unwrap();
    let context = file_context(directory.path());
    let added = Schema::new(vec![Field::new("volume", DataType::Int64, true)]);
    assert!(alter(directory.path(), &added, &Schema::empty(), &[]).unwrap());
    assert_eq!(sql_lines(&context, "select * from t where ts = 7").await, ["| 7  | IBM    | 7.0   |"]);
    let registered_again = file_context(directory.path());
    assert_eq!(
        sql_lines(&registered_again, "select volume, ts from t where ts = 7 and volume is null").await,
        ["|        | 7  |"]
    );
    // A type that was changed is an error.
    let narrow = directory.path().join("narrow");
    let small: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    write_table(&[RecordBatch::try_from_iter([("n", small)]).unwrap()], &narrow, WriterOptions::default());
    let context = file_context(&narrow);
    assert_eq!(sql_number(&context, "select sum(n) from t").await, 3);
    let wide = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
    assert!(alter(&narrow, &Schema::empty(), &wide, &[]).unwrap());
    let error = run_sql(&context, "select sum(n) from t").await.unwrap_err().to_string();
    assert!(error.contains("column 'n' is int64 now, and was int32 when the table was registered"), "{error}");
}

#[tokio::test]
async fn rows_without_columns_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let _writer = write_ticks(directory.path());
    let copied = new_context(2);
    register(&copied, "t", Table::open(directory.path()).unwrap().copied());
    for context in [file_context(directory.path()), copied] {
        for (condition, rows) in [("", 100_000), ("where ts >= 70000", 30_000), ("where price = 7", 100)] {
            let sql = format!("select 1 from t {condition}");
            assert_eq!(count_rows(&run_sql(&context, &sql).await.unwrap()), rows, "{sql}");
        }
        let sql = "select 1 from t where price = 7 limit 30";
        assert_eq!(count_rows(&run_sql(&context, sql).await.unwrap()), 30);
    }
}

#[test]
fn tables_reject_duplicate_column_names() {
    let n: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let fields = vec![Field::new("n", DataType::Int32, false), Field::new("n", DataType::Int32, false)];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![n.clone(), n]).unwrap();
    let error = Table::new(Dataset::try_from(vec![batch]).unwrap()).unwrap_err();
    assert!(error.message().contains("two columns are called 'n'"), "{error}");
}
