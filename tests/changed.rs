//! Files that change under a reader: truncated, overwritten, replaced, grown again, removed.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrowwood::{Dataset, ErrorKind, Mapping, Mode, WriteOptions, open, write};

fn sample(path: &Path) -> Dataset {
    let rows = 0..300_000i64;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.clone()));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.map(|row| format!("row {row}"))));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap();
    write(&Dataset::try_from(vec![batch]).unwrap(), path, &WriteOptions::default()).unwrap();
    open(path).unwrap()
}

fn set_len(path: &Path, len: u64) {
    std::fs::File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn truncation_is_an_error_in_every_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let calls: [fn(&Dataset) -> arrowwood::Result<()>; 6] = [
        |ds| ds.column("n")?.sum().map(drop),
        |ds| ds.column("text")?.min().map(drop),
        |ds| ds.row(299_999)?.get(0).map(drop),
        |ds| ds.validate(|_, _| ()),
        |ds| ds.to_record_batches().try_for_each(|batch| batch.map(drop)),
        |ds| arrowwood::write_to(ds, &mut Vec::new(), &WriteOptions::default()),
    ];
    for (number, call) in calls.iter().enumerate() {
        let dataset = sample(&path);
        call(&dataset).unwrap();
        set_len(&path, 8192);
        for _ in 0..2 {
            let e = call(&dataset).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::FileChanged, "call {number}: {e}");
            assert_eq!(e.path(), Some(&*path));
        }
        assert!(dataset.to_string().contains("truncated"), "{dataset}");
    }
}

#[test]
fn views_of_a_truncated_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    for mode in [Mode::Read, Mode::ReadWrite, Mode::CopyOnWrite] {
        set_len(&path, 1 << 20);
        let view = Mapping::open(&path, mode).unwrap().view::<u8>(0, None).unwrap();
        assert!(view.get(1 << 19).is_ok());
        set_len(&path, 4096);
        assert_eq!(view.get(1 << 19).unwrap_err().kind(), ErrorKind::FileChanged);
        assert_eq!(view.to_vec().unwrap_err().kind(), ErrorKind::FileChanged);
        if mode != Mode::Read {
            assert_eq!(view.set(1 << 19, 1).unwrap_err().kind(), ErrorKind::FileChanged);
        }
    }
}
