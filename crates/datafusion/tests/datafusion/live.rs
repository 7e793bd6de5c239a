//! Tests queries while a writer commits, merges segments and drops rows, and streams of rows that are committed later.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrowwood::{SyncPolicy, Writer, WriterOptions, open};
use arrowwood_datafusion::{Table, follow};
use datafusion::arrow::array::*;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;

use crate::support::*;

const COMMIT_ROWS: i64 = 1000;

/// Returns the rows of one commit: consecutive numbers from `start` on.
fn commit_rows(start: i64) -> RecordBatch {
    let numbers = start..start + COMMIT_ROWS;
    RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(numbers.clone())) as ArrayRef),
        ("half", Arc::new(Float64Array::from_iter_values(numbers.clone().map(|n| n as f64 / 2.0)))),
        ("text", Arc::new(StringArray::from_iter_values(numbers.clone().map(|n| n.to_string())))),
    ])
    .unwrap()
}

fn open_writer(path: &Path) -> Writer {
    let options = WriterOptions {
        sorted_by: Some("n".into()),
        segment_rows: Some(20_000),
        sync: SyncPolicy::Never,
        ..WriterOptions::default()
    };
    Writer::open(path, Some(commit_rows(0).schema()), &options).unwrap()
}

/// Commits rows until `is_done`. Merges segments and drops old rows from time to time.
fn keep_committing(mut writer: Writer, is_done: &AtomicBool, committed: &AtomicI64) {
    let mut rows = committed.load(Ordering::SeqCst);
    while !is_done.load(Ordering::SeqCst) {
        writer.append(&commit_rows(rows)).unwrap();
        writer.commit().unwrap();
        rows += COMMIT_ROWS;
        committed.store(rows, Ordering::SeqCst);
        if rows % 30_000 == 0 {
            writer.compact(|_, _| ()).unwrap();
        }
        if rows % 70_000 == 0 {
            writer.drop_before((rows - 60_000).max(0) as u64).unwrap();
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn int_value(batch: &RecordBatch, column: usize) -> i64 {
    batch.column(column).as_any().downcast_ref::<Int64Array>().unwrap().value(0)
}

fn float_value(batch: &RecordBatch, column: usize) -> f64 {
    batch.column(column).as_any().downcast_ref::<Float64Array>().unwrap().value(0)
}

/// Returns the only batch of an answer; `None` if rows were dropped before the query had read them, which is a proper
/// error.
fn unless_dropped(answer: datafusion::error::Result<Vec<RecordBatch>>) -> Option<RecordBatch> {
    match answer {
        Ok(batches) => Some(batches[0].clone()),
        Err(e) if e.to_string().contains("was removed (drop_before)") => None,
        Err(e) => panic!("{e}"),
    }
}

/// Aggregates of consecutive numbers, which have to agree with each other.
const AGGREGATES: &str =
    "select count(*), min(n), max(n), sum(n), sum(half), max(cast(text as bigint)) from t where half >= 0";
/// Differences that are zero if all mentions of the table read the same commit, in statistics and in rows.
const DIFFERENCES: &str = "select (select count(*) from t) - (select count(n) from t where half >= 0), \
     (select max(n) from t) - (select sum(1) + min(n) - 1 from t where half >= 0)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_query_reads_one_commit() {
    let directory = tempfile::tempdir().unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let committed = Arc::new(AtomicI64::new(COMMIT_ROWS));
    let mut writer = open_writer(directory.path());
    writer.append(&commit_rows(0)).unwrap();
    writer.commit().unwrap();
    let writer_thread = thread::spawn({
        let is_done = is_done.clone();
        let committed = committed.clone();
        move || keep_committing(writer, &is_done, &committed)
    });
    let seconds = std::env::var("ARROWWOOD_LIVE_SECONDS").map_or(3.0, |text| text.parse().unwrap());
    let context = file_context(directory.path());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut last_max = 0;
    let mut answers = 0;
    // A busy machine takes longer until rows are merged and dropped.
    while Instant::now() < end || last_max < 150_000 {
        let committed_before = committed.load(Ordering::SeqCst);
        let Some(row) = unless_dropped(run_sql(&context, AGGREGATES).await) else { continue };
        // The writer may have committed once more without having stored the count.
        let committed_after = committed.load(Ordering::SeqCst) + COMMIT_ROWS;
        let count = int_value(&row, 0);
        let min = int_value(&row, 1);
        let max = int_value(&row, 2);
        let sum = int_value(&row, 3);
        assert_eq!(count, max - min + 1);
        assert_eq!(sum, (min + max) * count / 2);
        assert_eq!(float_value(&row, 4), sum as f64 / 2.0);
        assert_eq!(int_value(&row, 5), max);
        assert_eq!((max + 1) % COMMIT_ROWS, 0);
        assert!(committed_before <= max + 1 && max < committed_after, "{committed_before} {max} {committed_after}");
        assert!(max >= last_max);
        last_max = max;
        let Some(row) = unless_dropped(run_sql(&context, DIFFERENCES).await) else { continue };
        assert!((0..row.num_columns()).all(|column| int_value(&row, column) == 0), "{row:?}");
        answers += 1;
    }
    is_done.store(true, Ordering::SeqCst);
    writer_thread.join().unwrap();
    assert!(answers > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followed_table_returns_rows_as_they_are_committed() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = open_writer(directory.path());
    writer.append(&commit_rows(0)).unwrap();
    writer.commit().unwrap();
    // Small batches, as filters gather a batch before they pass rows on.
    let config = SessionConfig::new().with_target_partitions(2).with_batch_size(10);
    let context = SessionContext::new_with_config(config);
    let ticks = open(directory.path()).unwrap();
    context.register_table("new", Arc::new(follow(&ticks, None).unwrap())).unwrap();
    context.register_table("whole", Arc::new(follow(&ticks, Some(0)).unwrap())).unwrap();
    register(&context, "names", Table::new(ticks).unwrap());
    let new_rows = context.sql("select n, half from new where n % 100 = 7").await.unwrap();
    let mut new_rows = new_rows.execute_stream().await.unwrap();
    let limited = context.sql("select text from whole where n > 990 limit 1012").await.unwrap();
    // Waits for the stream before the rows are committed.
    let reader = tokio::spawn(async move {
        let mut numbers = Vec::new();
        while numbers.len() < 20 {
            let batch = new_rows.next().await.unwrap().unwrap();
            numbers.extend_from_slice(batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values());
        }
        numbers
    });
    let pause = Duration::from_millis(300);
    tokio::time::sleep(pause).await;
    assert!(!reader.is_finished());
    for start in [COMMIT_ROWS, 2 * COMMIT_ROWS] {
        writer.append(&commit_rows(start)).unwrap();
        writer.commit().unwrap();
        tokio::time::sleep(pause).await;
    }
    let expected: Vec<i64> = (COMMIT_ROWS..3 * COMMIT_ROWS).filter(|n| n % 100 == 7).collect();
    assert_eq!(reader.await.unwrap(), expected);
    // A limit ends the stream.
    assert_eq!(count_rows(&limited.collect().await.unwrap()), 1012);
    // A query that would have to wait for the end of the stream is rejected.
    let endless = context.sql("select half, count(*) from new group by half order by half").await.unwrap();
    assert!(endless.create_physical_plan().await.is_err());
    // A part of a table can't be followed.
    assert!(follow(&open(directory.path()).unwrap().head(5).unwrap(), None).is_err());
}
