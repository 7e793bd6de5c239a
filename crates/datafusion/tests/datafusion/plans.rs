//! What plans know of a table, and which rows a query sees.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrowwood::{Dataset, Writer, WriterOptions, alter, open};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::stats::Precision;
use datafusion::physical_plan::{StatisticsArgs, StatisticsContext, collect_partitioned};
use datafusion::prelude::{col, lit};
use futures::StreamExt;

use crate::support::*;

fn ticks(start: i64, rows: i64) -> RecordBatch {
    let each = || start..start + rows;
    let symbols = each().map(|n| Some(["AAPL", "IBM", "MSFT"][(n % 3) as usize]));
    RecordBatch::try_from_iter([
        ("ts", Arc::new(Int64Array::from_iter_values(each())) as ArrayRef),
        ("symbol", Arc::new(StringArray::from_iter(symbols))),
        ("price", Arc::new(Float64Array::from_iter_values(each().map(|n| (n % 1000) as f64)))),
    ])
    .unwrap()
}

fn sorted() -> WriterOptions {
    WriterOptions { sorted_by: Some("ts".into()), segment_rows: Some(40_000), ..WriterOptions::default() }
}

/// A table of 100,000 rows.
fn table(path: &Path) -> Writer {
    let mut writer = Writer::open(path, Some(ticks(0, 1).schema()), &sorted()).unwrap();
    writer.append(&ticks(0, 100_000)).unwrap();
    writer.commit().unwrap();
    writer
}

#[tokio::test]
async fn rows_between_bounds_are_found_without_a_look_at_others() {
    let folder = tempfile::tempdir().unwrap();
    let _writer = table(folder.path());
    let context = over(folder.path());
    let found = plan(&context, "select price from t where ts >= 70000 and ts < 70100").await;
    assert!(found.contains("rows=100 of 100000") && !found.contains("where=") && !found.contains("Filter"), "{found}");
    let found = plan(&context, "select ts from t where ts between 5 and 9 and symbol = 'IBM'").await;
    assert!(found.contains("rows=5 of 100000") && found.contains(r#"where=symbol == "IBM""#), "{found}");
    assert!(found.contains("projection=[ts]"), "{found}");
    let found = plan(&context, "select ts from t where ts > 99990 and sqrt(price) > 3").await;
    assert!(found.contains("rows=9 of 100000") && found.contains("FilterExec"), "{found}");
    let found = plan(&context, "select ts from t limit 5").await;
    assert!(found.contains("rows=5 of 100000") && found.contains("splits=1"), "{found}");
}

#[tokio::test]
async fn counts_and_ends_are_known_without_a_scan() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = table(folder.path());
    let context = over(folder.path());
    for sql in ["select count(*), min(ts), max(ts) from t", "select count(symbol) from t where ts >= 90000"] {
        let found = plan(&context, sql).await;
        assert!(found.contains("PlaceholderRowExec") && !found.contains("ArrowwoodScan"), "{found}");
    }
    assert_eq!(
        lines(&context, "select count(*), min(ts), max(ts) from t").await,
        ["| 100000   | 0         | 99999     |"]
    );
    writer.append(&ticks(100_000, 5)).unwrap();
    writer.commit().unwrap();
    assert_eq!(number(&context, "select max(ts) from t").await, 100_004);
    // A condition that is left makes it an estimate.
    let found = plan(&context, "select count(*) from t where price = 5").await;
    assert!(found.contains("ArrowwoodScan"), "{found}");
    assert_eq!(number(&context, "select count(*) from t where symbol = 'IBM'").await, 33_335);
    assert_eq!(lines(&context, "select max(ts) from t where ts < 0").await, ["|           |"]);
}

#[tokio::test]
async fn the_order_of_a_table_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let _writer = table(folder.path());
    let context = over(folder.path());
    for sql in ["select ts, price from t order by ts", "select ts from t where symbol = 'IBM' order by ts nulls first"]
    {
        let found = plan(&context, sql).await;
        assert!(!found.contains("SortExec") && found.contains("SortPreservingMergeExec"), "{found}");
    }
    let ordered: Vec<i64> = (1..100_000).step_by(3).collect();
    let found = lines(&context, "select ts from t where symbol = 'IBM' order by ts").await;
    assert!(found.iter().map(|line| line.trim_matches(['|', ' ']).parse::<i64>().unwrap()).eq(ordered));
    // Not the order of other columns, nor backwards.
    for sql in ["select ts from t order by price", "select ts from t order by ts desc"] {
        assert!(plan(&context, sql).await.contains("SortExec"), "{sql}");
    }
    // Rows of a file have none that is known.
    let file = folder.path().join("file.arrow");
    write_file(&[ticks(0, 10)], &file);
    assert!(plan(&over(&file), "select ts from t order by ts").await.contains("SortExec"));
}

#[tokio::test]
async fn there_are_as_many_splits_as_datafusion_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let _writer = table(folder.path());
    for splits in [1, 2, 5, 64] {
        let context = context(splits);
        register(&context, "t", Table::open(folder.path()).unwrap());
        let found = plan(&context, "select price from t").await;
        assert!(found.contains(&format!("splits={}", splits.min(7))), "{found}");
        assert_eq!(number(&context, "select sum(ts) from t").await, 100_000 * 99_999 / 2);
        assert_eq!(number(&context, "select count(*) from t where price = 7").await, 100);
    }
    let context = over(folder.path());
    assert!(plan(&context, "select price from t where ts < 100").await.contains("splits=1"));
}

#[tokio::test]
async fn with_a_limit_each_split_says_how_many_rows_it_gives() {
    let folder = tempfile::tempdir().unwrap();
    let _writer = table(folder.path());
    let context = context(3);
    register(&context, "t", Table::open(folder.path()).unwrap());
    let found = context.table_provider("t").await.unwrap();
    let all = found.scan(&context.state(), None, &[], None).await.unwrap();
    for limit in [0, 10, 1_000_000] {
        let scan = all.with_fetch(Some(limit)).unwrap();
        let said = |partition: Option<usize>| {
            let arguments = StatisticsArgs::new().with_partition(partition);
            StatisticsContext::new().compute(scan.as_ref(), &arguments).unwrap().num_rows
        };
        let splits = collect_partitioned(scan.clone(), context.task_ctx()).await.unwrap();
        let counts: Vec<usize> = splits.iter().map(|batches| batches.iter().map(RecordBatch::num_rows).sum()).collect();
        assert_eq!(counts.len(), 3);
        for (partition, &count) in counts.iter().enumerate() {
            assert_eq!(said(Some(partition)), Precision::Exact(count), "split {partition} of limit {limit}");
        }
        assert_eq!(said(None), Precision::Exact(counts.iter().sum()), "limit {limit}");
    }
}

/// A query that finds nothing can be given up, and leaves its thread to others, before all rows were looked at.
#[tokio::test]
async fn others_have_their_turn_while_no_row_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.arrow");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..500_000).map(|i| i * 7_919 % 1_000)));
    write_file(&[RecordBatch::try_from_iter([("n", numbers)]).unwrap()], &file);
    let context = context(1);
    register(&context, "t", Table::open(&file).unwrap());
    let found = context.table_provider("t").await.unwrap();
    let scan = found.scan(&context.state(), None, &[col("n").eq(lit(5_000_i64))], None).await.unwrap();
    let mut rows = scan.execute(0, context.task_ctx()).unwrap();
    let mut turns = 0;
    while futures::poll!(rows.next()).is_pending() {
        turns += 1;
    }
    assert!(turns >= 3, "{turns}");
}

/// The path that an address of this process is mapped from.
fn mapped_from(address: usize) -> Option<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        (start..end).contains(&address).then(|| rest.split_whitespace().nth(4).unwrap_or_default().to_owned())
    })
}

#[tokio::test]
async fn batches_are_the_memory_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let _writer = table(folder.path());
    let directory = folder.path().canonicalize().unwrap();
    let is_mapped = |batch: &RecordBatch| {
        let buffers: Vec<_> = batch.columns().iter().flat_map(|column| column.to_data().buffers().to_vec()).collect();
        assert!(buffers.len() >= 3);
        let paths = buffers.iter().map(|buffer| mapped_from(buffer.as_ptr() as usize));
        paths.into_iter().all(|path| path.is_some_and(|path| path.starts_with(directory.to_str().unwrap())))
    };
    let sql = "select * from t where ts >= 30000 and ts < 95000";
    let inside = ask(&over(folder.path()), sql).await.unwrap();
    assert_eq!(inside.iter().map(RecordBatch::num_rows).sum::<usize>(), 65_000);
    assert!(inside.iter().all(is_mapped));
    assert!(inside.iter().all(|batch| batch.num_rows() <= 8192));
    let copied = context(2);
    register(&copied, "t", Table::open(folder.path()).unwrap().copied());
    let outside = ask(&copied, sql).await.unwrap();
    assert_eq!(outside.iter().map(RecordBatch::num_rows).sum::<usize>(), 65_000);
    assert!(!outside.iter().any(is_mapped));
}

#[tokio::test]
async fn one_query_is_of_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = table(folder.path());
    let context = over(folder.path());
    // It is planned before the commit, and run after it.
    let before = context.sql("select a.n, b.n from (select count(*) n from t where price = 7) a, (select count(*) n from t where price = 7) b");
    let planned = before.await.unwrap().create_physical_plan().await.unwrap();
    writer.append(&ticks(100_000, 1000)).unwrap();
    writer.commit().unwrap();
    let found = datafusion::physical_plan::collect(planned, context.task_ctx()).await.unwrap();
    let counts: Vec<i64> = found[0]
        .columns()
        .iter()
        .map(|column| column.as_any().downcast_ref::<Int64Array>().unwrap().value(0))
        .collect();
    assert_eq!(counts, [100, 100]);
    assert_eq!(number(&context, "select count(*) from t where price = 7").await, 101);
    // A dataset of some rows stays as it is.
    let part = open(folder.path()).unwrap().slice(10, 20).unwrap();
    register(&context, "part", Table::new(part).unwrap());
    writer.append(&ticks(101_000, 1000)).unwrap();
    writer.commit().unwrap();
    assert_eq!(number(&context, "select count(*) from part where price >= 0").await, 20);
}

#[tokio::test]
async fn a_table_keeps_its_columns_while_others_are_added() {
    let folder = tempfile::tempdir().unwrap();
    table(folder.path()).close().unwrap();
    let context = over(folder.path());
    let more = Schema::new(vec![Field::new("volume", DataType::Int64, true)]);
    assert!(alter(folder.path(), &more, &Schema::empty(), &[]).unwrap());
    assert_eq!(lines(&context, "select * from t where ts = 7").await, ["| 7  | IBM    | 7.0   |"]);
    let again = over(folder.path());
    assert_eq!(lines(&again, "select volume, ts from t where ts = 7 and volume is null").await, ["|        | 7  |"]);
    let narrow = folder.path().join("narrow");
    let small: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    write_table(&[RecordBatch::try_from_iter([("n", small)]).unwrap()], &narrow, WriterOptions::default());
    let context = over(&narrow);
    assert_eq!(number(&context, "select sum(n) from t").await, 3);
    let wide = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
    assert!(alter(&narrow, &Schema::empty(), &wide, &[]).unwrap());
    let error = ask(&context, "select sum(n) from t").await.unwrap_err().to_string();
    assert!(error.contains("column 'n' is int64 now, and was int32 when the table was registered"), "{error}");
}

#[tokio::test]
async fn rows_without_columns_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let _writer = table(folder.path());
    let copied = context(2);
    register(&copied, "t", Table::open(folder.path()).unwrap().copied());
    for context in [over(folder.path()), copied] {
        for (condition, rows) in [("", 100_000), ("where ts >= 70000", 30_000), ("where price = 7", 100)] {
            let sql = format!("select 1 from t {condition}");
            let found = ask(&context, &sql).await.unwrap();
            assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{sql}");
        }
        let found = ask(&context, "select 1 from t where price = 7 limit 30").await.unwrap();
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 30);
    }
}

#[test]
fn columns_need_different_names() {
    let n: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let fields = vec![Field::new("n", DataType::Int32, false), Field::new("n", DataType::Int32, false)];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![n.clone(), n]).unwrap();
    let error = Table::new(Dataset::try_from(vec![batch]).unwrap()).unwrap_err();
    assert!(error.message().contains("two columns are called 'n'"), "{error}");
}
