//! Tests that damaged, truncated and removed files are errors of Arrowwood, and cause no panic.

use std::fs::{self, OpenOptions};
use std::sync::Arc;

use arrowwood::{ErrorKind, WriterOptions};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::*;
use datafusion::error::DataFusionError;
use futures::StreamExt;

use crate::support::*;

fn sample_rows(count: i64) -> RecordBatch {
    let texts = (0..count).map(|n| Some(format!("row number {n}")));
    let keys: Int8Keys = (0..count).map(|n| Some(["a", "b"][n as usize % 2])).collect();
    RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(0..count)) as ArrayRef),
        ("text", Arc::new(StringArray::from_iter(texts))),
        ("key", Arc::new(keys)),
    ])
    .unwrap()
}

type Int8Keys = DictionaryArray<datafusion::arrow::datatypes::Int8Type>;

/// Returns the error of Arrowwood in an error of DataFusion.
fn inner_error(error: &DataFusionError) -> &arrowwood::Error {
    match error.find_root() {
        DataFusionError::External(inner) => inner.downcast_ref().unwrap_or_else(|| panic!("{error}")),
        _ => panic!("{error}"),
    }
}

#[tokio::test]
async fn file_truncated_during_a_query_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.arrow");
    for (is_copied, condition) in
        [(true, ""), (true, "where n % 7 = 1"), (false, "where n <> 5"), (true, "where key = 'a'")]
    {
        write_file(&[sample_rows(900_000)], &path);
        let context = new_context(1);
        let table = Table::open(&path).unwrap();
        register(&context, "t", if is_copied { table.copied() } else { table });
        let query = context.sql(&format!("select n, text from t {condition}")).await.unwrap();
        let mut stream = query.execute_stream().await.unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(100_000).unwrap();
        let error = loop {
            let batch = stream.next().await.unwrap_or_else(|| panic!("no error: {is_copied} {condition}"));
            if let Err(e) = batch {
                break e;
            }
        };
        assert_eq!(inner_error(&error).kind(), ErrorKind::FileChanged, "{error}");
        assert!(error.to_string().contains("rows.arrow"), "{error}");
    }
}

#[tokio::test]
async fn damaged_bytes_cause_no_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.arrow");
    write_file(&[sample_rows(300), sample_rows(200)], &path);
    let intact = fs::read(&path).unwrap();
    let mut errors = 0;
    for offset in (8..intact.len()).step_by(97) {
        let mut bytes = intact.clone();
        bytes[offset] ^= 0xff;
        fs::write(&path, bytes).unwrap();
        let Ok(table) = Table::open(&path) else {
            errors += 1;
            continue;
        };
        let context = new_context(2);
        if context.register_table("t", Arc::new(table)).is_err() {
            continue;
        }
        for sql in [
            "select * from t",
            "select key, count(*), sum(n) from t where n > 5 group by key",
            "select max(text) from t where key = 'a'",
        ] {
            errors += i32::from(run_sql(&context, sql).await.is_err());
        }
        fs::remove_file(&path).unwrap();
    }
    assert!(errors > 10, "{errors}");
}

#[tokio::test]
async fn damaged_text_is_reported_when_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.arrow");
    write_file(&[sample_rows(100)], &path);
    let mut bytes = fs::read(&path).unwrap();
    let text = b"row number 42";
    let offset = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[offset] = 0xff;
    fs::write(&path, bytes).unwrap();
    let context = file_context(&path);
    let error = run_sql(&context, "select max(text) from t").await.unwrap_err();
    assert_eq!(inner_error(&error).kind(), ErrorKind::InvalidData);
    assert!(inner_error(&error).message().contains("UTF-8"), "{error}");
    assert_eq!(sql_number(&context, "select sum(n) from t where n <> 3").await, 4947);
}

#[tokio::test]
async fn removed_table_is_not_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table");
    assert_eq!(Table::open(&path).unwrap_err().kind(), ErrorKind::NotFound);
    write_table(&[sample_rows(10)], &path, WriterOptions::default());
    let context = file_context(&path);
    assert_eq!(sql_number(&context, "select sum(n) from t").await, 45);
    fs::remove_dir_all(&path).unwrap();
    // The files of the last commit are still mapped, and may be all that the query needs.
    match run_sql(&context, "select sum(n) from t").await {
        Ok(batches) => assert_eq!(batches[0].num_rows(), 1),
        Err(error) => assert_eq!(inner_error(&error).kind(), ErrorKind::NotFound),
    }
}
