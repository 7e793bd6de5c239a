//! An assertion of the library that fails during a write: an error, and the last write of that writer.

use std::ops::RangeInclusive;
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

/// A call of a writer, whose appended rows are numbered from 0 on.
struct Call {
    name: &'static str,
    /// Whether it makes appended rows visible.
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
fn assert_is_assertion(e: &Error, what: &str) {
    assert!(e.kind() == ErrorKind::Internal && e.message().contains(TEXT), "{what}: {e:?}");
}

/// The rows that a table may have after a call that failed.
fn check_rows(table: &Path, ends: &RangeInclusive<u64>, committed: u64, what: &str) {
    let read = open(table).unwrap();
    let end = read.first_row() + read.len().unwrap();
    assert!(end == committed || end == *ends.end(), "{what}: {end} rows, expected {committed} or {}", ends.end());
    let expected: Vec<i64> = (read.first_row() as i64..end as i64).collect();
    assert_eq!(read_numbers(&read), expected, "{what}");
    read.validate(|_, _| ()).unwrap();
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
            let after = Writer::open(&table, Some(number_schema()), &WriterOptions::default()).unwrap();
            assert_eq!(after.rows(), 0);
            return true;
        }
    };
    for call in CALLS {
        let rows = writer.rows();
        let committed = writer.committed_rows();
        let Err(e) = (call.run)(&mut writer) else { continue };
        let what = format!("{} at operation {number} of {sync:?}", call.name);
        assert_is_assertion(&e, &what);
        assert!(assertion.disarm());
        let ends = committed..=if call.commits { rows } else { committed };
        check_rows(&table, &ends, committed, &what);
        writer.rollback();
        for later in CALLS {
            let e = (later.run)(&mut writer).expect_err(later.name);
            assert_is_assertion(&e, &format!("{} after {what}", later.name));
        }
        assert_is_assertion(&writer.durability().wait().err().unwrap_or(e), &what);
        if number.is_multiple_of(2) {
            assert_is_assertion(&writer.close().unwrap_err(), &what);
        } else {
            drop(writer);
        }
        check_rows(&table, &ends, committed, &what);
        let mut after = Writer::open(&table, None, &WriterOptions::default()).unwrap();
        assert!(after.rows() == committed || after.rows() == *ends.end(), "{what}: {}", after.rows());
        after.append_row(&vec![Value::Int(after.rows() as i64), Value::Null][..after.schema().fields().len()]).unwrap();
        let end = after.rows();
        after.close().unwrap();
        check_rows(&table, &(end..=end), end, &what);
        return true;
    }
    let (committed, rows) = (writer.committed_rows(), writer.rows());
    if let Err(e) = writer.close() {
        assert_is_assertion(&e, "close");
    }
    check_rows(&table, &(committed..=rows), committed, "close");
    assertion.disarm()
}

#[test]
fn a_failed_assertion_is_an_error_and_the_last_write_of_its_writer() {
    let last = (1..).find(|&number| !fail_at(number, SyncPolicy::Never)).unwrap();
    assert!(last > 100, "{last} operations");
}

#[test]
fn a_failed_assertion_in_the_background_ends_its_writer_too() {
    // The turns of the thread are at different operations in each run, and their number depends on time.
    let sync = SyncPolicy::Every(Duration::from_millis(1));
    for number in (1..400).step_by(7) {
        fail_at(number, sync);
    }
}

#[test]
fn a_failed_assertion_in_a_partition_ends_the_writer_of_all() {
    let keyed = |keys: [i64; 2]| {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        Dataset::try_from(vec![RecordBatch::try_from_iter([("n", numbers), ("key", keys)]).unwrap()]).unwrap()
    };
    let by = ["key".parse().unwrap()];
    for number in 1.. {
        let folder = folder_in_memory();
        let assertion = Arc::new(FailingAssertion::default());
        let medium = FileSystem::with_observer(assertion.clone());
        let options = WriterOptions { sync: SyncPolicy::Never, medium, ..WriterOptions::default() };
        let schema = keyed([0, 0]).schema().clone();
        let mut writer = PartitionedWriter::new(folder.path(), schema, &by, &options).unwrap();
        writer.append_dataset(&keyed([1, 2])).unwrap();
        writer.commit().unwrap();
        writer.append_dataset(&keyed([2, 2])).unwrap();
        assertion.arm(number);
        // The last one opens a partition.
        let written = writer
            .append_dataset(&keyed([1, 2]))
            .and_then(|()| writer.commit())
            .and_then(|()| writer.sync())
            .and_then(|()| writer.append_dataset(&keyed([1, 3])));
        let has_panicked = assertion.disarm();
        let Err(e) = written else {
            assert!(!has_panicked, "operation {number}");
            return;
        };
        assert_is_assertion(&e, "a partition");
        writer.rollback();
        let calls = [writer.append_dataset(&keyed([4, 5])), writer.commit(), writer.sync(), writer.close()];
        calls.into_iter().for_each(|refused| assert_is_assertion(&refused.unwrap_err(), "a later call"));
        // Each partition can be written again.
        let mut writer =
            PartitionedWriter::new(folder.path(), keyed([0, 0]).schema().clone(), &by, &WriterOptions::default());
        let after = writer.as_mut().unwrap();
        after.append_dataset(&keyed([1, 2])).unwrap();
        after.commit().unwrap();
    }
}
