//! Tests of assertions that fail in the library during a write: the call returns an error, and so do all later ones of
//! the writer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::simulate::FileSystem;
use arrowwood::{
    Dataset, Error, ErrorKind, PartitionedWriter, Result, SyncPolicy, Value, Writer, WriterOptions, open, parse_schema,
};

use crate::failing_assertion::{FailingAssertion, TEXT};
use crate::tables::{folder_in_memory, number_batch, number_schema, read_numbers};

/// A call of a writer. Appended rows contain their own numbers.
struct Call {
    name: &'static str,
    /// True if it makes appended rows visible.
    commits: bool,
    run: fn(&mut Writer) -> Result<()>,
}

fn next_numbers(writer: &Writer, count: i64) -> RecordBatch {
    let next = writer.rows() as i64;
    number_batch(next..next + count)
}

const CALLS: &[Call] = &[
    Call { name: "append_row", commits: false, run: |writer| writer.append_row(&[Value::Int(writer.rows() as i64)]) },
    Call { name: "append", commits: false, run: |writer| writer.append(&next_numbers(writer, 2)) },
    Call { name: "commit", commits: true, run: Writer::commit },
    Call {
        name: "append_dataset",
        commits: false,
        run: |writer| writer.append_dataset(&Dataset::try_from(vec![next_numbers(writer, 14)])?),
    },
    Call { name: "commit_with", commits: true, run: |writer| writer.commit_with(&[("producer", 5)]) },
    Call { name: "sync", commits: false, run: Writer::sync },
    Call { name: "compact", commits: false, run: |writer| writer.compact(|_, _| ()).map(drop) },
    Call { name: "drop_before", commits: false, run: |writer| writer.drop_before(5).map(drop) },
    Call { name: "append again", commits: false, run: |writer| writer.append(&next_numbers(writer, 3)) },
    Call {
        name: "alter",
        commits: true,
        run: |writer| writer.alter(&Arc::new(parse_schema("n: int64 not null, more: int64")?)).map(drop),
    },
    Call {
        name: "append_row for close",
        commits: false,
        run: |writer| writer.append_row(&[Value::Int(writer.rows() as i64), Value::Null]),
    },
];

#[track_caller]
fn assert_is_assertion(e: &Error, case: &str) {
    assert!(e.kind() == ErrorKind::Internal && e.message().contains(TEXT), "{case}: {e:?}");
}

/// Checks that a table ends with the committed rows, or with all rows of the commit that failed.
fn check_rows(table: &Path, committed: u64, intended: u64, case: &str) {
    let dataset = open(table).unwrap();
    let end = dataset.first_row() + dataset.len().unwrap();
    assert!(end == committed || end == intended, "{case}: {end} rows, expected {committed} or {intended}");
    let expected: Vec<i64> = (dataset.first_row() as i64..end as i64).collect();
    assert_eq!(read_numbers(&dataset), expected, "{case}");
    dataset.validate(|_, _| ()).unwrap();
}

/// Calls a writer until operation `number` panics; returns whether one did.
fn fail_at(number: u64, sync: SyncPolicy) -> bool {
    let folder = folder_in_memory();
    let table = folder.path().join("t");
    let assertion = Arc::new(FailingAssertion::default());
    let medium = FileSystem::with_observer(assertion.clone());
    let options = WriterOptions { sync, segment_rows: Some(4), medium, ..WriterOptions::default() };
    assertion.arm(number);
    let mut writer = match Writer::open(&table, Some(number_schema()), &options) {
        Ok(writer) => writer,
        Err(e) => {
            assert_is_assertion(&e, "open");
            let next_writer = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
            assert_eq!(next_writer.rows(), 0);
            return true;
        }
    };
    for call in CALLS {
        let rows = writer.rows();
        let committed = writer.committed_rows();
        let Err(e) = (call.run)(&mut writer) else { continue };
        let case = format!("{} at operation {number} of {sync:?}", call.name);
        assert_is_assertion(&e, &case);
        assert!(assertion.disarm());
        let intended = if call.commits { rows } else { committed };
        check_rows(&table, committed, intended, &case);

        // The writer is unusable.
        writer.rollback();
        for later in CALLS {
            let e = (later.run)(&mut writer).expect_err(later.name);
            assert_is_assertion(&e, &format!("{} after {case}", later.name));
        }
        assert_is_assertion(&writer.durability().wait().err().unwrap_or(e), &case);
        if number.is_multiple_of(2) {
            assert_is_assertion(&writer.close().unwrap_err(), &case);
        } else {
            drop(writer);
        }
        check_rows(&table, committed, intended, &case);

        // The next writer continues the table.
        let mut next_writer = Writer::open(&table, None, &WriterOptions::default()).unwrap();
        let end = next_writer.rows();
        assert!(end == committed || end == intended, "{case}: {end}");
        let row = [Value::Int(end as i64), Value::Null];
        let columns = next_writer.schema().fields().len();
        next_writer.append_row(&row[..columns]).unwrap();
        next_writer.close().unwrap();
        check_rows(&table, end + 1, end + 1, &case);
        return true;
    }
    let committed = writer.committed_rows();
    let rows = writer.rows();
    if let Err(e) = writer.close() {
        assert_is_assertion(&e, "close");
    }
    check_rows(&table, committed, rows, "close");
    assertion.disarm()
}

#[test]
fn a_failed_assertion_is_an_error_and_ends_the_writer() {
    let operations = (1..).find(|&number| !fail_at(number, SyncPolicy::Never)).unwrap();
    assert!(operations > 100, "{operations} operations");
}

#[test]
fn a_failed_assertion_in_the_background_ends_the_writer() {
    // The operations of the background thread have other numbers in each run, so the test tries a sample.
    let sync = SyncPolicy::Every(Duration::from_millis(1));
    for number in (1..400).step_by(7) {
        fail_at(number, sync);
    }
}

fn keyed_rows(keys: [i64; 2]) -> Dataset {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    Dataset::try_from(vec![RecordBatch::try_from_iter([("n", numbers), ("key", keys)]).unwrap()]).unwrap()
}

fn open_partitioned(table: &Path, options: &WriterOptions) -> PartitionedWriter {
    PartitionedWriter::new(table, keyed_rows([0, 0]).schema().clone(), &["key".parse().unwrap()], options).unwrap()
}

#[test]
fn a_failed_assertion_in_a_partition_ends_the_partitioned_writer() {
    for number in 1.. {
        let folder = folder_in_memory();
        let assertion = Arc::new(FailingAssertion::default());
        let medium = FileSystem::with_observer(assertion.clone());
        let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
        let mut writer = open_partitioned(folder.path(), &options);
        writer.append_dataset(&keyed_rows([1, 2])).unwrap();
        writer.commit().unwrap();
        writer.append_dataset(&keyed_rows([2, 2])).unwrap();
        assertion.arm(number);
        // The last call opens a new partition.
        let result = writer
            .append_dataset(&keyed_rows([1, 2]))
            .and_then(|()| writer.commit())
            .and_then(|()| writer.sync())
            .and_then(|()| writer.append_dataset(&keyed_rows([1, 3])));
        let has_panicked = assertion.disarm();
        let Err(e) = result else {
            assert!(!has_panicked, "operation {number}");
            return;
        };
        assert_is_assertion(&e, "a partition");
        writer.rollback();
        for result in [writer.append_dataset(&keyed_rows([4, 5])), writer.commit(), writer.sync(), writer.close()] {
            assert_is_assertion(&result.unwrap_err(), "a later call");
        }

        // The next writer can write all partitions.
        let mut next_writer = open_partitioned(folder.path(), &WriterOptions::default());
        next_writer.append_dataset(&keyed_rows([1, 2])).unwrap();
        next_writer.commit().unwrap();
    }
}
