//! Queries at full speed while a writer commits, merges segments and drops rows; rows that come later.

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

const COMMIT: i64 = 1000;

fn numbers(start: i64) -> RecordBatch {
    let each = || start..start + COMMIT;
    RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(each())) as ArrayRef),
        ("half", Arc::new(Float64Array::from_iter_values(each().map(|n| n as f64 / 2.0)))),
        ("text", Arc::new(StringArray::from_iter_values(each().map(|n| n.to_string())))),
    ])
    .unwrap()
}

fn writer(path: &Path) -> Writer {
    let options = WriterOptions {
        sorted_by: Some("n".into()),
        segment_rows: Some(20_000),
        sync: SyncPolicy::Never,
        ..WriterOptions::default()
    };
    Writer::open(path, Some(numbers(0).schema()), &options).unwrap()
}

/// Commits until `is_done`; merges and drops in between.
fn write(mut writer: Writer, is_done: &AtomicBool, committed: &AtomicI64) {
    let mut rows = committed.load(Ordering::SeqCst);
    while !is_done.load(Ordering::SeqCst) {
        writer.append(&numbers(rows)).unwrap();
        writer.commit().unwrap();
        rows += COMMIT;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_is_of_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let committed = Arc::new(AtomicI64::new(COMMIT));
    let mut first = writer(folder.path());
    first.append(&numbers(0)).unwrap();
    first.commit().unwrap();
    let writing = thread::spawn({
        let (is_done, committed) = (is_done.clone(), committed.clone());
        move || write(first, &is_done, &committed)
    });
    let seconds = std::env::var("ARROWWOOD_LIVE_SECONDS").map_or(3.0, |text| text.parse().unwrap());
    let context = over(folder.path());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut last = 0;
    let mut answers = 0;
    // On a machine that is busy, until rows were merged and dropped.
    while Instant::now() < end || last < 150_000 {
        let before = committed.load(Ordering::SeqCst);
        let sql =
            "select count(*), min(n), max(n), sum(n), sum(half), max(cast(text as bigint)) from t where half >= 0";
        let Some(found) = unless_dropped(ask(&context, sql).await) else { continue };
        let after = committed.load(Ordering::SeqCst) + COMMIT;
        let number = |column: usize| found[0].column(column).as_any().downcast_ref::<Int64Array>().unwrap().value(0);
        let (count, least, most) = (number(0), number(1), number(2));
        assert_eq!(count, most - least + 1);
        assert_eq!(number(3), (least + most) * count / 2);
        let halves = found[0].column(4).as_any().downcast_ref::<Float64Array>().unwrap().value(0);
        assert_eq!(halves, number(3) as f64 / 2.0);
        assert_eq!(number(5), most);
        assert!((most + 1) % COMMIT == 0 && before <= most + 1 && most < after, "{before} {most} {after}");
        assert!(most >= last);
        last = most;
        // Two mentions in one query are of one commit, by statistics and by rows.
        let twice = "select (select count(*) from t) - (select count(n) from t where half >= 0), \
             (select max(n) from t) - (select sum(1) + min(n) - 1 from t where half >= 0)";
        let Some(found) = unless_dropped(ask(&context, twice).await) else { continue };
        let zero = |column: &ArrayRef| column.as_any().downcast_ref::<Int64Array>().unwrap().value(0) == 0;
        assert!(found[0].columns().iter().all(zero), "{found:?}");
        answers += 1;
    }
    is_done.store(true, Ordering::SeqCst);
    writing.join().unwrap();
    assert!(answers > 0);
}

/// An answer; `None` where rows were dropped before the query had read them, which is an error that says so.
fn unless_dropped(answer: datafusion::error::Result<Vec<RecordBatch>>) -> Option<Vec<RecordBatch>> {
    match answer {
        Ok(found) => Some(found),
        Err(e) if e.to_string().contains("was removed (drop_before)") => None,
        Err(e) => panic!("{e}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_come_later_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path());
    writer.append(&numbers(0)).unwrap();
    writer.commit().unwrap();
    // Filters gather a batch before they pass rows on.
    let config = SessionConfig::new().with_target_partitions(2).with_batch_size(10);
    let context = SessionContext::new_with_config(config);
    let ticks = open(folder.path()).unwrap();
    context.register_table("new", Arc::new(follow(&ticks, None).unwrap())).unwrap();
    context.register_table("whole", Arc::new(follow(&ticks, Some(0)).unwrap())).unwrap();
    register(&context, "names", Table::new(ticks).unwrap());
    let later = context.sql("select n, half from new where n % 100 = 7").await.unwrap();
    let mut later = later.execute_stream().await.unwrap();
    let few = context.sql("select text from whole where n > 990 limit 1012").await.unwrap();
    // The stream is asked first, and has rows only after they are committed.
    let next = tokio::spawn(async move {
        let mut found = Vec::new();
        while found.len() < 20 {
            let batch = later.next().await.unwrap().unwrap();
            found.extend_from_slice(batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values());
        }
        found
    });
    let wait = Duration::from_millis(300);
    tokio::time::sleep(wait).await;
    assert!(!next.is_finished());
    for start in [COMMIT, 2 * COMMIT] {
        writer.append(&numbers(start)).unwrap();
        writer.commit().unwrap();
        tokio::time::sleep(wait).await;
    }
    let wanted: Vec<i64> = (COMMIT..3 * COMMIT).filter(|n| n % 100 == 7).collect();
    assert_eq!(next.await.unwrap(), wanted);
    // A limit ends it.
    let found = few.collect().await.unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 1012);
    // What would have to wait for the end of all rows is refused, not waited for.
    let endless = context.sql("select half, count(*) from new group by half order by half").await.unwrap();
    assert!(endless.create_physical_plan().await.is_err());
    assert!(follow(&open(folder.path()).unwrap().head(5).unwrap(), None).is_err());
}
