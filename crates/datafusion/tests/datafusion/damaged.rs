//! Files that are damaged, truncated or gone: errors in our words, and no panic.

use std::fs::{self, OpenOptions};
use std::sync::Arc;

use arrowwood::{ErrorKind, WriterOptions};
use arrowwood_datafusion::Table;
use datafusion::arrow::array::*;
use datafusion::error::DataFusionError;
use futures::StreamExt;

use crate::support::*;

fn rows(count: i64) -> RecordBatch {
    let texts = (0..count).map(|n| Some(format!("row number {n}")));
    RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(0..count)) as ArrayRef),
        ("text", Arc::new(StringArray::from_iter(texts))),
        ("key", Arc::new((0..count).map(|n| Some(["a", "b"][n as usize % 2])).collect::<Int8Keys>())),
    ])
    .unwrap()
}

type Int8Keys = DictionaryArray<datafusion::arrow::datatypes::Int8Type>;

/// Our error in one of DataFusion's.
fn ours(error: &DataFusionError) -> &arrowwood::Error {
    match error.find_root() {
        DataFusionError::External(inner) => inner.downcast_ref().unwrap_or_else(|| panic!("{error}")),
        _ => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_file_that_is_truncated_under_a_query_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.arrow");
    for (is_copied, condition) in
        [(true, ""), (true, "where n % 7 = 1"), (false, "where n <> 5"), (true, "where key = 'a'")]
    {
        write_file(&[rows(900_000)], &path);
        let context = context(1);
        let table = Table::open(&path).unwrap();
        register(&context, "t", if is_copied { table.copied() } else { table });
        let query = context.sql(&format!("select n, text from t {condition}")).await.unwrap();
        let mut stream = query.execute_stream().await.unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(100_000).unwrap();
        let mut failed = None;
        while let (None, Some(batch)) = (&failed, stream.next().await) {
            failed = batch.err();
        }
        let failed = failed.unwrap_or_else(|| panic!("no error: {is_copied} {condition}"));
        assert_eq!(ours(&failed).kind(), ErrorKind::FileChanged, "{failed}");
        assert!(failed.to_string().contains("rows.arrow"), "{failed}");
    }
}

#[tokio::test]
async fn damaged_bytes_are_errors_or_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.arrow");
    write_file(&[rows(300), rows(200)], &path);
    let whole = fs::read(&path).unwrap();
    let mut errors = 0;
    for place in (8..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0xff;
        fs::write(&path, bytes).unwrap();
        let Ok(table) = Table::open(&path) else {
            errors += 1;
            continue;
        };
        let context = context(2);
        if context.register_table("t", Arc::new(table)).is_err() {
            continue;
        }
        for sql in [
            "select * from t",
            "select key, count(*), sum(n) from t where n > 5 group by key",
            "select max(text) from t where key = 'a'",
        ] {
            errors += i32::from(ask(&context, sql).await.is_err());
        }
        fs::remove_file(&path).unwrap();
    }
    assert!(errors > 10, "{errors}");
}

#[tokio::test]
async fn values_that_are_damaged_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.arrow");
    write_file(&[rows(100)], &path);
    let mut bytes = fs::read(&path).unwrap();
    let text = b"row number 42";
    let place = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[place] = 0xff;
    fs::write(&path, bytes).unwrap();
    let context = over(&path);
    let error = ask(&context, "select max(text) from t").await.unwrap_err();
    assert_eq!(ours(&error).kind(), ErrorKind::InvalidData);
    assert!(ours(&error).message().contains("UTF-8"), "{error}");
    assert_eq!(number(&context, "select sum(n) from t where n <> 3").await, 4947);
}

#[tokio::test]
async fn a_table_that_is_gone_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    assert_eq!(Table::open(&path).unwrap_err().kind(), ErrorKind::NotFound);
    write_table(&[rows(10)], &path, WriterOptions::default());
    let context = over(&path);
    assert_eq!(number(&context, "select sum(n) from t").await, 45);
    fs::remove_dir_all(&path).unwrap();
    match ask(&context, "select sum(n) from t").await {
        Ok(found) => assert_eq!(found[0].num_rows(), 1),
        Err(error) => assert_eq!(ours(&error).kind(), ErrorKind::NotFound),
    }
}
