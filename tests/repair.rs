//! Repairs of tables that killed writers, cut-off merges and interrupted repairs have left: no row goes that has a good
//! copy, none comes that was not committed, and what is kept is on the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Repaired, Writer, WriterOptions, check, open, repair};

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("s", DataType::Utf8, false)]))
}

fn rows(what: &str, from: i64, to: i64) -> RecordBatch {
    let n = Int64Array::from_iter_values(from..to);
    let s = StringArray::from_iter_values((from..to).map(|n| format!("{what}-{n:06}")));
    RecordBatch::try_new(schema(), vec![Arc::new(n), Arc::new(s)]).unwrap()
}

fn writer(table: &Path, segment_rows: u64) -> Writer {
    let segment_rows = Some(segment_rows);
    let options = WriterOptions { segment_rows, sync: arrowwood::Sync::Never, ..WriterOptions::default() };
    Writer::open(table, Some(schema()), &options).unwrap()
}

/// A directory with a closed table `t` of so many rows, in segments of 50, and the table's path.
fn table(count: i64) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let table = home.path().join("t");
    let mut writer = writer(&table, 50);
    writer.append(&rows("row", 0, count)).unwrap();
    writer.close().unwrap();
    (home, table)
}

fn segment(table: &Path, row: u64) -> PathBuf {
    table.join(format!("{row:020}.arrow"))
}

/// Puts a byte that is no text into the last copy of a row's text: that of the log comes first.
fn damage(file: &Path, text: &str) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes.windows(text.len()).rposition(|there| there == text.as_bytes()).unwrap();
    bytes[at] = 0xff;
    fs::write(file, bytes).unwrap();
}

fn repaired(table: &Path) -> Repaired {
    let report = repair(table, |_, _| ()).unwrap();
    assert!(check(table, |_, _| ()).unwrap().is_good());
    assert_eq!(open(table).unwrap().len().unwrap(), report.rows);
    report.repaired.unwrap()
}

fn text(table: &Path, row: u64) -> String {
    open(table).unwrap().row(row).unwrap().get(1).unwrap().to_string()
}

/// Checks that the table has these rows, and no others.
fn has_rows(table: &Path, what: &str, count: u64) {
    assert_eq!(open(table).unwrap().len().unwrap(), count);
    (0..count).for_each(|row| assert_eq!(text(table, row), format!("{what}-{row:06}")));
}

/// Damage that costs no row, such as that of a file's last byte.
#[test]
fn segments_behind_one_that_lost_no_row_stay() {
    let (_home, table) = table(120);
    for (row, kept) in [(0, 120), (50, 120)] {
        let mut bytes = fs::read(segment(&table, row)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(segment(&table, row), bytes).unwrap();
        let repaired = repaired(&table);
        assert_eq!((repaired.kept, repaired.given_up, repaired.moved.len()), (kept, Some(0), 1));
    }
    has_rows(&table, "row", 120);
    writer(&table, 50).append(&rows("row", 120, 130)).unwrap();
}
