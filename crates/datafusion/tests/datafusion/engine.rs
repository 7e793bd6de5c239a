//! The engine of the command and of servers: statements of every kind, and what they are refused.

use std::path::PathBuf;
use std::sync::Arc;

use arrowwood::{Dataset, open};
use arrowwood_datafusion::QueryEngine;
use arrowwood_serve::{SqlError, SqlMemory, SqlQuery, SqlTables};
use datafusion::arrow::array::*;

use crate::support::*;

/// The only table, `t`.
struct One(Dataset);

impl SqlTables for One {
    fn names(&self) -> Result<Vec<String>, SqlError> {
        Ok(vec!["t".into()])
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError> {
        Ok((name == "t").then(|| self.0.clone()))
    }

    fn path(&self, _: &str) -> Option<PathBuf> {
        None
    }
}

struct Most(usize);

impl SqlMemory for Most {
    fn most(&self) -> usize {
        self.0
    }

    fn take(&self, _: usize) -> bool {
        true
    }

    fn give_back(&self, _: usize) {}
}

/// An answer over 1,000 rows, with 64 MiB.
fn answer(text: &str, most: Option<u64>) -> Result<Dataset, SqlError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.arrow");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    write_file(&[RecordBatch::try_from_iter([("n", numbers)]).unwrap()], &path);
    let tables = Arc::new(One(open(&path).unwrap()));
    let query = SqlQuery { text: text.into(), parameters: None, tables, memory: Arc::new(Most(64 << 20)), most };
    QueryEngine::new().unwrap().collect(query)
}

#[test]
fn every_statement_that_reads_has_its_first_rows() {
    for (text, all) in [
        ("select n from t", 1000),
        ("explain select n from t", 2),
        ("explain analyze select n from t", 1),
        ("describe t", 1),
        ("show tables", 1),
        ("values (1), (2)", 2),
    ] {
        for most in [None, Some(1), Some(2000)] {
            let rows = answer(text, most).unwrap_or_else(|e| panic!("{text}, {most:?}: {e}"));
            let len = rows.len().unwrap();
            // An explanation is as long as it is.
            let is_cut = most.is_some_and(|most| most < all) && !text.starts_with("explain");
            assert!(if is_cut { Some(len) == most } else { len >= all }, "{text}, {most:?}: {len}");
        }
    }
}

#[test]
fn what_datafusion_does_not_do_is_told_in_a_sentence() {
    let error = answer("select n from t cluster by n", None).unwrap_err();
    let told = error.to_string();
    assert!(matches!(error, SqlError::Statement(_)), "{error:?}");
    assert!(told.starts_with("DataFusion does not do this: "), "{told}");
}

/// A constant stands for a value in each row.
#[test]
fn large_constants_take_no_more_memory_than_there_is() {
    for text in [
        "select n, repeat('x', 1000000) as a from t",
        "select n, range(0, 200000) as a from t",
        "select n, case when n > 5 then repeat('x', 1000000) else 'y' end as a from t",
        "select unnest(range(0, 200000)) as a from t where n >= 0",
        "select max(concat(repeat('x', 1000000), n)) from t",
        "select n from t where concat(repeat('x', 1000000), n) > 'y'",
    ] {
        let error = answer(text, None).map(|rows| rows.len().unwrap()).expect_err(text);
        assert!(matches!(error, SqlError::Memory(_)), "{text}: {error:?}");
    }
    for (text, rows) in [
        ("select repeat('x', 1000000) as a", 1),
        ("select n, repeat('x', 100) as a from t", 1000),
        ("select n, repeat('x', 1000000) as a from t limit 3", 3),
        ("select count(*) from t where length(repeat('x', 1000000)) > n", 1),
    ] {
        assert_eq!(answer(text, None).unwrap_or_else(|e| panic!("{text}: {e}")).len().unwrap(), rows, "{text}");
    }
}
