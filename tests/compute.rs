//! Rows taken, filtered and shuffled are those that single cells show: every type of column there is, every golden file.

mod samples;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray};
use arrowwood::{Dataset, ErrorKind, Format, Open, WriteOptions, col, open, write_to};

use self::samples::{dataset, samples};

fn cells(dataset: &Dataset) -> Vec<String> {
    let line = |row: arrowwood::Row<'_>| {
        let values = row.iter().map(|(name, value)| format!("{name}={}", value.unwrap().to_json().unwrap()));
        values.collect::<Vec<_>>().join("|")
    };
    dataset.rows().map(|row| line(row.unwrap())).collect()
}

/// Rows in an order that has repetitions, gaps, and jumps between batches.
fn some_rows(len: u64) -> Vec<i64> {
    let len = len as i64;
    (0..2 * len).map(|i| (i * 7919 + i / 3) % len - if i % 3 == 0 { len } else { 0 }).collect()
}

fn check(name: &str, dataset: &Dataset) {
    let expected = cells(dataset);
    let len = expected.len();
    if len == 0 {
        assert_eq!(dataset.take(&[]).unwrap().len().unwrap(), 0, "{name}");
        return;
    }
    let rows = some_rows(len as u64);
    let taken = dataset.take(&rows).unwrap_or_else(|e| panic!("{name}: {e}"));
    taken.validate(|_, _| ()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let wanted: Vec<_> = rows.iter().map(|&row| &expected[(row.rem_euclid(len as i64)) as usize]).collect();
    assert!(cells(&taken).iter().eq(wanted), "{name}");
    for batch in taken.to_record_batches() {
        batch.unwrap_or_else(|e| panic!("{name}: {e}")).columns().iter().for_each(|column| {
            column.to_data().validate_full().unwrap_or_else(|e| panic!("{name}: {e}"));
        });
    }
    let shuffled = dataset.shuffle(3).unwrap();
    assert_eq!(shuffled.schema(), dataset.schema());
    // Once where the rows lie, once as columns.
    let seen = cells(&Dataset::concat(&[shuffled.slice(0, u64::MAX).unwrap()]).unwrap());
    let by_row: Vec<_> = (0..len as u64).map(|row| cells_of(&shuffled, row)).collect();
    assert_eq!(seen, by_row, "{name}");
    let mut sorted = [seen, expected.clone()];
    sorted.iter_mut().for_each(|rows| rows.sort());
    assert_eq!(sorted[0], sorted[1], "{name}");
    assert_eq!(dataset.sample(len as u64, 1).unwrap().len().unwrap(), len as u64);
}

fn cells_of(dataset: &Dataset, row: u64) -> String {
    let row = dataset.row(row).unwrap();
    let values = row.iter().map(|(name, value)| format!("{name}={}", value.unwrap().to_json().unwrap()));
    values.collect::<Vec<_>>().join("|")
}

/// Whether rows are null, asked of the predicate, is what the cells say.
fn check_nulls(name: &str, dataset: &Dataset) {
    for field in dataset.schema().fields() {
        if dataset.schema().fields().iter().filter(|other| other.name() == field.name()).count() > 1 {
            continue;
        }
        let column = dataset.column(field.name()).unwrap();
        let found = dataset.filter(&col(field.name()).is_null()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(found.len().unwrap(), column.null_count().unwrap(), "{name}: {}", field.name());
        let rest = dataset.filter(&!col(field.name()).is_null()).unwrap();
        assert_eq!(rest.len().unwrap(), column.count().unwrap(), "{name}: {}", field.name());
    }
}

#[test]
fn rows_of_every_type_are_gathered() {
    for array in samples() {
        let name = array.data_type().to_string();
        let whole = dataset(&array);
        check(&name, &whole);
        check_nulls(&name, &whole);
        // Several batches, some empty, and slices of arrays.
        let len = array.len();
        let cuts = [0, len / 3, len / 3, len / 2, len];
        let batch = |array: ArrayRef| RecordBatch::try_from_iter_with_nullable([("x", array, true)]).unwrap();
        let pieces = cuts.windows(2).map(|ends| batch(array.slice(ends[0], ends[1] - ends[0]))).collect::<Vec<_>>();
        let pieces = Dataset::try_from(pieces).unwrap();
        check(&name, &pieces);
        check(&name, &pieces.slice(1, len as u64 - 1).unwrap());
        // In place, in a file.
        let mut bytes = Vec::new();
        write_to(&pieces, &mut bytes, &WriteOptions { format: Format::Stream, ..WriteOptions::default() }).unwrap();
        check(&name, &Open::new().bytes(bytes.into()).unwrap().slice(1, len as u64).unwrap());
    }
}

fn golden() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/arrow-testing");
    let corpus = std::env::var_os("ARROW_TESTING").map_or(beside, PathBuf::from);
    let (mut found, mut folders) = (Vec::new(), vec![corpus.join("golden")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let wanted = path.extension().is_some_and(|e| e == "stream");
            if path.is_dir() {
                folders.push(path)
            } else if wanted {
                found.push(path)
            }
        }
    }
    found
}

#[test]
fn rows_of_golden_files_are_gathered() {
    for path in golden() {
        let name = path.display().to_string();
        let dataset = open(&path).unwrap();
        check(&name, &dataset);
        check_nulls(&name, &dataset);
    }
}

/// Twelve batches with a dictionary of twelve words each have more words than one of int8 can: what is gathered comes in
/// several batches then, and in one where the words are the same.
#[test]
fn dictionaries_are_merged_as_far_as_their_keys_reach() {
    for (apart, batches) in [(12, 2), (1, 1), (0, 1)] {
        let batch = |number: usize| {
            let words = (0..12).map(|word| format!("word {}", number * apart + word));
            let keys = Int8Array::from_iter((0..13).map(|row| (row < 12).then_some(row)));
            let array = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from_iter_values(words)));
            RecordBatch::try_from_iter_with_nullable([("c", Arc::new(array) as ArrayRef, true)]).unwrap()
        };
        let dataset = Dataset::try_from((0..12).map(batch).collect::<Vec<_>>()).unwrap();
        let taken = dataset.take(&(0..156).rev().collect::<Vec<_>>()).unwrap();
        assert_eq!(taken.num_batches().unwrap(), batches);
        assert!(cells(&taken).into_iter().rev().eq(cells(&dataset)));
        check("dictionaries", &dataset);
        let found = dataset.filter(&col("c").eq("word 11")).unwrap();
        let naive = cells(&dataset).iter().filter(|cell| cell.as_str() == "c=\"word 11\"").count();
        assert_eq!(found.len().unwrap(), naive as u64);
    }
}

#[test]
fn rows_that_are_not_there_are_named() {
    let dataset = dataset(&samples()[0]);
    let len = dataset.len().unwrap() as i64;
    for row in [len, -len - 1, i64::MIN, i64::MAX] {
        let e = dataset.take(&[0, row, 1]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::RowOutOfRange);
        assert!(e.to_string().contains(&format!("row {row} of a dataset of {len} rows")), "{e}");
    }
    assert_eq!(dataset.sample(len as u64 + 1, 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(dataset.filter(&col("y").eq(1)).unwrap_err().kind(), ErrorKind::ColumnNotFound);
}
