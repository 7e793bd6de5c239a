//! Tests of the engine of the command and of servers: kinds of statements, and the limits of their size.

use std::path::PathBuf;
use std::sync::Arc;

use arrowwood::{Dataset, Error, ErrorKind, open};
use arrowwood_query::QueryEngine;
use arrowwood_serve::{SqlError, SqlMemory, SqlQuery, SqlTables};
use datafusion::arrow::array::*;

use crate::support::*;

/// The tables `t`, which has the given rows, and `broken`, which can't be opened.
struct TestTables(Dataset);

impl SqlTables for TestTables {
    fn names(&self) -> Result<Vec<String>, SqlError> {
        Ok(vec!["broken".into(), "t".into()])
    }

    fn rows(&self, name: &str) -> Result<Option<Dataset>, SqlError> {
        match name {
            "broken" => Err(Error::new(ErrorKind::InvalidData, "the file has no end").into()),
            _ => Ok((name == "t").then(|| self.0.clone())),
        }
    }

    fn path(&self, _: &str) -> Option<PathBuf> {
        None
    }
}

/// Memory whose limit is not enforced here, but by the engine.
struct TestMemory {
    max_bytes: usize,
}

impl SqlMemory for TestMemory {
    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn free(&self) -> usize {
        self.max_bytes
    }

    fn take(&self, _: usize) -> bool {
        true
    }

    fn release(&self, _: usize) {}
}

/// Runs a statement with 64 MiB of memory, over a table of 1,000 rows.
fn run_limited(sql: &str, max_rows: Option<u64>) -> Result<Dataset, SqlError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.arrow");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    write_file(&[RecordBatch::try_from_iter([("n", numbers)]).unwrap()], &path);
    let query = SqlQuery {
        text: sql.into(),
        parameters: None,
        tables: Arc::new(TestTables(open(&path).unwrap())),
        memory: Arc::new(TestMemory { max_bytes: 64 << 20 }),
        most: max_rows,
    };
    QueryEngine::new().unwrap().collect(query)
}

/// Returns the number of rows of a statement's answer.
fn count_answer(sql: &str) -> Result<u64, SqlError> {
    Ok(run_limited(sql, None)?.len().unwrap())
}

#[test]
fn statements_return_at_most_the_requested_rows() {
    for (sql, min_rows) in [
        ("select n from t", 1000),
        ("explain select n from t", 2),
        ("explain analyze select n from t", 1),
        ("describe t", 1),
        ("show tables", 2),
        ("values (1), (2)", 2),
    ] {
        for max_rows in [None, Some(1), Some(2000)] {
            let answer = run_limited(sql, max_rows).unwrap_or_else(|e| panic!("{sql}, {max_rows:?}: {e}"));
            let rows = answer.len().unwrap();
            match max_rows {
                // `explain` is not limited.
                Some(max_rows) if max_rows < min_rows && !sql.starts_with("explain") => {
                    assert_eq!(rows, max_rows, "{sql}");
                }
                _ => assert!(rows >= min_rows, "{sql}, {max_rows:?}: {rows}"),
            }
        }
    }
}

#[test]
fn unsupported_statements_are_named_as_such() {
    let error = run_limited("select n from t cluster by n", None).unwrap_err();
    assert!(matches!(error, SqlError::Statement(_)), "{error:?}");
    let message = error.to_string();
    assert!(message.starts_with("DataFusion does not do this: "), "{message}");
}

/// A constant is copied into each row of a batch.
#[test]
fn large_constants_in_many_rows_are_rejected() {
    for sql in [
        "select n, repeat('x', 1000000) as a from t",
        "select n, range(0, 200000) as a from t",
        "select n, case when n > 5 then repeat('x', 1000000) else 'y' end as a from t",
        "select unnest(range(0, 200000)) as a from t where n >= 0",
        "select max(concat(repeat('x', 1000000), n)) from t",
        "select n from t where concat(repeat('x', 1000000), n) > 'y'",
    ] {
        let error = count_answer(sql).expect_err(sql);
        assert!(matches!(error, SqlError::Memory(_)), "{sql}: {error:?}");
    }
    for (sql, rows) in [
        ("select repeat('x', 1000000) as a", 1),
        ("select n, repeat('x', 100) as a from t", 1000),
        ("select n, repeat('x', 1000000) as a from t limit 3", 3),
        ("select count(*) from t where length(repeat('x', 1000000)) > n", 1),
    ] {
        assert_eq!(count_answer(sql).unwrap_or_else(|e| panic!("{sql}: {e}")), rows, "{sql}");
    }
}

#[test]
fn broken_table_fails_only_statements_that_name_it() {
    let tables = "select table_name from information_schema.tables where table_schema = 'public'";
    assert_eq!(count_answer(tables).unwrap(), 2);
    let columns = "select column_name from information_schema.columns where table_name = 't'";
    assert_eq!(count_answer(columns).unwrap(), 1);
    for sql in ["select * from broken", "select n from t join broken using (n)", "describe broken"] {
        let error = count_answer(sql).expect_err(sql);
        assert!(matches!(&error, SqlError::Table(e) if e.kind() == ErrorKind::InvalidData), "{sql}: {error:?}");
    }
}

/// A null of a type with a fixed width takes as much memory as a value.
#[test]
fn very_wide_types_are_rejected() {
    let wide = "'FixedSizeList(2000000000, FixedSizeList(2000000000, Int8))'";
    for sql in [
        format!("select arrow_cast(null, {wide}) as a"),
        format!("select arrow_try_cast(null, {wide}) as a"),
        format!("select * from generate_series(1, arrow_cast(arrow_cast(null, {wide}), 'Int64'))"),
        "select arrow_cast(null, 'FixedSizeBinary(2000000000)') as a from t".into(),
        "select arrow_cast(null, 'List(Struct(\"x\": FixedSizeBinary(2000000000)))') as a from t".into(),
        "select null::int[100000][100000] as a".into(),
    ] {
        let error = count_answer(&sql).expect_err(&sql);
        assert!(matches!(error, SqlError::Statement(_)) && error.to_string().contains("expected"), "{sql}: {error:?}");
    }
    let columns: Vec<_> =
        (0..100).map(|i| format!("arrow_cast(null, 'FixedSizeBinary({})') as a{i}", 60_000 + i)).collect();
    let answer = count_answer(&format!("select {} from t", columns.join(", ")));
    assert!(matches!(answer, Err(SqlError::Memory(_))), "{answer:?}");
    for (sql, rows) in [
        ("select arrow_cast([1.0, 2.0], 'FixedSizeList(2, Float32)') as a", 1),
        ("select arrow_cast(n, 'Int32') as a, arrow_cast(null, 'FixedSizeBinary(16)') as b from t", 1000),
        ("select [1, 2]::int[2] as a", 1),
    ] {
        assert_eq!(count_answer(sql).unwrap_or_else(|e| panic!("{sql}: {e}")), rows, "{sql}");
    }
}

#[test]
fn results_of_functions_operators_and_literals_are_bounded() {
    let texts = "select arrow_cast(repeat(arrow_cast(n, 'Utf8'), 400), 'LargeUtf8') as s from t";
    let many = "s, ".repeat(7_000) + "s";
    let mut doubled = "select [arrow_cast(repeat('x', 1000000), 'LargeUtf8')] as a".to_owned();
    for _ in 0..20 {
        doubled = format!("select a || a as a from ({doubled}) t");
    }
    for sql in [
        format!("select max(length(concat('a', 'b', {many}))) from ({texts})"),
        format!("select max(length(concat_ws('-', {many}))) from ({texts})"),
        format!("select max(cardinality([{many}])) from ({texts})"),
        format!("select cardinality(a) from ({doubled})"),
        // One row has much larger lists and texts than all others.
        "select max(cardinality(array_repeat(range(0, k), k))) from (select case when n = 1 then 100000 else 0 end as k \
         from t)"
            .into(),
        "select max(length(array_to_string(range(0, k), repeat('x', k)))) from (select case when n = 1 then 100000 \
         else 0 end as k from t)"
            .into(),
    ] {
        let error = count_answer(&sql).expect_err(&sql);
        assert!(matches!(error, SqlError::Memory(_)), "{}: {error:?}", &sql[..60]);
    }
    for sql in [
        "select range(0, 1000000) @> range(0, 1000000) as a",
        "select max(array_has_any(range(0, k), range(k, 2 * k))) from (select case when n = 1 then 1000000 else 0 end as \
         k from t)",
    ] {
        let error = count_answer(sql).expect_err(sql).to_string();
        assert!(error.contains("would compare"), "{sql}: {error}");
    }
    for sql in [
        "select [1, 2] || [3] = [1, 2, 3]",
        "select [1, 2] || 3 = [1, 2, 3]",
        "select 1 || [2, 3] = [1, 2, 3]",
        "select [1, 2] @> [2] and [2] <@ [1, 2]",
        "select map_keys(map {'a': 1}) = ['a']",
        "select concat('a', null, 'b', 1) = 'ab1' and concat_ws('-', 'a', null, 'b') = 'a-b'",
        "select overlay('abc' placing 'xy' from 2 for 1) = 'axyc' and encode('a', 'hex') = '61'",
    ] {
        let answer = run_limited(&format!("{sql} as is_equal"), None).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let is_equal = answer.column("is_equal").unwrap().values().next().unwrap().unwrap().to_string();
        assert_eq!(is_equal, "true", "{sql}");
    }
}

#[test]
fn many_small_constants_count_together() {
    let literals: Vec<_> = (0..1_500).map(|i| format!("'{}' as a{i}", "x".repeat(20) + &i.to_string())).collect();
    assert_eq!(count_answer(&format!("select {} from t", literals.join(", "))).unwrap(), 1000);
    let texts: Vec<_> = (0..1_500).map(|i| format!("repeat('x', {}) as a{i}", 900 + i % 100)).collect();
    let answer = count_answer(&format!("select {} from t", texts.join(", ")));
    assert!(matches!(answer, Err(SqlError::Memory(_))), "{answer:?}");
}

/// The file has one batch, which is larger than the memory.
#[test]
fn wide_rows_are_sorted_within_the_memory() {
    const ROWS: i64 = 1009;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wide.arrow");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let padding = "0".repeat(40_000);
    let texts = (0..ROWS).map(|n| format!("{padding}{:04}", (n * 7919) % ROWS));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    write_file(&[RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap()], &path);
    let engine = QueryEngine::new().unwrap();
    for sql in [
        "select (n * 7919) % 1009 as k, text from t order by text",
        "select (n * 7919) % 1009 as k, text || 'x' as text from t order by text desc",
        "select (n * 7919) % 1009 as k, repeat('x', 40000 + cast((n * 7919) % 1009 as int)) as text from t order by text",
    ] {
        let tables = Arc::new(TestTables(open(&path).unwrap()));
        let memory = Arc::new(TestMemory { max_bytes: 32 << 20 });
        let query = SqlQuery { text: sql.into(), parameters: None, tables, memory, most: None };
        let rows = engine.collect(query).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let actual: Vec<i64> =
            rows.column("k").unwrap().values().map(|k| k.unwrap().to_string().parse().unwrap()).collect();
        let mut expected: Vec<i64> = (0..ROWS).collect();
        if sql.ends_with("desc") {
            expected.reverse();
        }
        assert_eq!(actual, expected, "{sql}");
    }
}
