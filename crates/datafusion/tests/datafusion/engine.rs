//! The engine of the command and of servers: statements of every kind, and what they are refused.

use std::path::PathBuf;
use std::sync::Arc;

use arrowwood::{Dataset, Error, ErrorKind, open};
use arrowwood_datafusion::QueryEngine;
use arrowwood_serve::{SqlError, SqlMemory, SqlQuery, SqlTables};
use datafusion::arrow::array::*;

use crate::support::*;

/// A table `t`, and one that can't be opened.
struct SingleTable(Dataset);

impl SqlTables for SingleTable {
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

struct FixedMemory(usize);

impl SqlMemory for FixedMemory {
    fn max_bytes(&self) -> usize {
        self.0
    }

    fn free(&self) -> usize {
        self.0
    }

    fn take(&self, _: usize) -> bool {
        true
    }

    fn release(&self, _: usize) {}
}

/// An answer over 1,000 rows, with 64 MiB.
fn answer(text: &str, most: Option<u64>) -> Result<Dataset, SqlError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.arrow");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    write_file(&[RecordBatch::try_from_iter([("n", numbers)]).unwrap()], &path);
    let tables = Arc::new(SingleTable(open(&path).unwrap()));
    let query = SqlQuery { text: text.into(), parameters: None, tables, memory: Arc::new(FixedMemory(64 << 20)), most };
    QueryEngine::new().unwrap().collect(query)
}

#[test]
fn every_statement_that_reads_has_its_first_rows() {
    for (text, all) in [
        ("select n from t", 1000),
        ("explain select n from t", 2),
        ("explain analyze select n from t", 1),
        ("describe t", 1),
        ("show tables", 2),
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

#[test]
fn a_table_that_can_not_be_opened_is_one_only_to_those_who_name_it() {
    let listed =
        answer("select table_name from information_schema.tables where table_schema = 'public'", None).unwrap();
    assert_eq!(listed.len().unwrap(), 2);
    let columns = answer("select column_name from information_schema.columns where table_name = 't'", None).unwrap();
    assert_eq!(columns.len().unwrap(), 1);
    for text in ["select * from broken", "select n from t join broken using (n)", "describe broken"] {
        let error = answer(text, None).map(|rows| rows.len().unwrap()).expect_err(text);
        assert!(matches!(&error, SqlError::Table(e) if e.kind() == ErrorKind::InvalidData), "{text}: {error:?}");
    }
}

/// A null of such a type takes as much as a value.
#[test]
fn types_have_no_width_beyond_reason() {
    let wide = "'FixedSizeList(2000000000, FixedSizeList(2000000000, Int8))'";
    for text in [
        format!("select arrow_cast(null, {wide}) as a"),
        format!("select arrow_try_cast(null, {wide}) as a"),
        format!("select * from generate_series(1, arrow_cast(arrow_cast(null, {wide}), 'Int64'))"),
        "select arrow_cast(null, 'FixedSizeBinary(2000000000)') as a from t".into(),
        "select arrow_cast(null, 'List(Struct(\"x\": FixedSizeBinary(2000000000)))') as a from t".into(),
        "select null::int[100000][100000] as a".into(),
    ] {
        let error = answer(&text, None).map(|rows| rows.len().unwrap()).expect_err(&text);
        let told = error.to_string();
        assert!(matches!(error, SqlError::Statement(_)) && told.contains("expected"), "{text}: {error:?}");
    }
    let many: Vec<_> =
        (0..100).map(|i| format!("arrow_cast(null, 'FixedSizeBinary({})') as a{i}", 60_000 + i)).collect();
    let error = answer(&format!("select {} from t", many.join(", ")), None).map(|rows| rows.len().unwrap());
    assert!(matches!(error, Err(SqlError::Memory(_))), "{error:?}");
    for (text, rows) in [
        ("select arrow_cast([1.0, 2.0], 'FixedSizeList(2, Float32)') as a", 1),
        ("select arrow_cast(n, 'Int32') as a, arrow_cast(null, 'FixedSizeBinary(16)') as b from t", 1000),
        ("select [1, 2]::int[2] as a", 1),
    ] {
        assert_eq!(answer(text, None).unwrap_or_else(|e| panic!("{text}: {e}")).len().unwrap(), rows, "{text}");
    }
}

/// Operators and literals, and calls that were simplified, are as bounded as functions.
#[test]
fn results_are_bounded_however_they_are_written() {
    let s = "select arrow_cast(repeat(arrow_cast(n, 'Utf8'), 400), 'LargeUtf8') as s from t";
    let all = "s, ".repeat(7_000) + "s";
    let mut doubled = "select [arrow_cast(repeat('x', 1000000), 'LargeUtf8')] as a".to_owned();
    (0..20).for_each(|_| doubled = format!("select a || a as a from ({doubled}) t"));
    for text in [
        format!("select max(length(concat('a', 'b', {all}))) from ({s})"),
        format!("select max(length(concat_ws('-', {all}))) from ({s})"),
        format!("select max(cardinality([{all}])) from ({s})"),
        format!("select cardinality(a) from ({doubled})"),
        // Lists and texts of one row are larger than those of all others.
        "select max(cardinality(array_repeat(range(0, k), k))) from (select case when n = 1 then 100000 else 0 end as k \
         from t)"
            .into(),
        "select max(length(array_to_string(range(0, k), repeat('x', k)))) from (select case when n = 1 then 100000 \
         else 0 end as k from t)"
            .into(),
    ] {
        let error = answer(&text, None).map(|rows| rows.len().unwrap()).expect_err(&text);
        assert!(matches!(error, SqlError::Memory(_)), "{}: {error:?}", &text[..60]);
    }
    for text in [
        "select range(0, 1000000) @> range(0, 1000000) as a",
        "select max(array_has_any(range(0, k), range(k, 2 * k))) from (select case when n = 1 then 1000000 else 0 end as \
         k from t)",
    ] {
        let error = answer(text, None).map(|rows| rows.len().unwrap()).expect_err(text).to_string();
        assert!(error.contains("would compare"), "{text}: {error}");
    }
    for text in [
        "select [1, 2] || [3] = [1, 2, 3]",
        "select [1, 2] || 3 = [1, 2, 3]",
        "select 1 || [2, 3] = [1, 2, 3]",
        "select [1, 2] @> [2] and [2] <@ [1, 2]",
        "select map_keys(map {'a': 1}) = ['a']",
        "select concat('a', null, 'b', 1) = 'ab1' and concat_ws('-', 'a', null, 'b') = 'a-b'",
        "select overlay('abc' placing 'xy' from 2 for 1) = 'axyc' and encode('a', 'hex') = '61'",
    ] {
        let found = answer(&format!("{text} as found"), None).unwrap_or_else(|e| panic!("{text}: {e}"));
        let found = found.column("found").unwrap().values().next().unwrap().unwrap().to_string();
        assert_eq!(found, "true", "{text}");
    }
}

/// Many small ones are as much as a large one.
#[test]
fn constants_are_counted_together() {
    let many: Vec<_> = (0..1_500).map(|i| format!("'{}' as a{i}", "x".repeat(20) + &i.to_string())).collect();
    assert_eq!(answer(&format!("select {} from t", many.join(", ")), None).unwrap().len().unwrap(), 1000);
    let many: Vec<_> = (0..1_500).map(|i| format!("repeat('x', {}) as a{i}", 900 + i % 100)).collect();
    let error = answer(&format!("select {} from t", many.join(", ")), None).map(|rows| rows.len().unwrap());
    assert!(matches!(error, Err(SqlError::Memory(_))), "{error:?}");
}

/// Of one batch that is more than the memory, and of batches that are made.
#[test]
fn rows_of_any_width_are_sorted() {
    const ROWS: i64 = 1009;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.arrow");
    let text = |n: i64| format!("{}{:04}", "0".repeat(40_000), (n * 7919) % ROWS);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(text)));
    write_file(&[RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap()], &path);
    let engine = QueryEngine::new().unwrap();
    for text in [
        "select (n * 7919) % 1009 as k, text from t order by text",
        "select (n * 7919) % 1009 as k, text || 'x' as text from t order by text desc",
        "select (n * 7919) % 1009 as k, repeat('x', 40000 + cast((n * 7919) % 1009 as int)) as text from t order by text",
    ] {
        let tables = Arc::new(SingleTable(open(&path).unwrap()));
        let memory = Arc::new(FixedMemory(32 << 20));
        let query = SqlQuery { text: text.into(), parameters: None, tables, memory, most: None };
        let rows = engine.collect(query).unwrap_or_else(|e| panic!("{text}: {e}"));
        let found: Vec<i64> =
            rows.column("k").unwrap().values().map(|k| k.unwrap().to_string().parse().unwrap()).collect();
        let mut expected: Vec<i64> = (0..ROWS).collect();
        if text.ends_with("desc") {
            expected.reverse();
        }
        assert_eq!(found, expected, "{text}");
    }
}
