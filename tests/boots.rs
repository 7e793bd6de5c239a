//! Tables of an earlier boot of the machine. The boot is that of the whole process, so that all of this is one test.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrowwood::simulate::pretend_boot;
use arrowwood::{Value, Writer, WriterOptions, follow, open, parse_schema};

fn writer(table: &Path) -> Writer {
    let schema = Arc::new(parse_schema("n: int64").unwrap());
    Writer::open(table, Some(schema), &WriterOptions::default()).unwrap()
}

fn write(writer: &mut Writer, numbers: std::ops::Range<i64>) {
    for number in numbers {
        writer.append_row(&[Value::Int(number)]).unwrap();
        writer.commit().unwrap();
    }
}

/// What was recovered has a larger number than the live page says, where the durable record has: a follower took each look for
/// a newer commit, and never slept.
#[test]
fn a_table_of_an_earlier_boot_is_the_newest_until_somebody_writes() {
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    let mut one = writer(&closed);
    write(&mut one, 0..5);
    one.close().unwrap();
    // Durable rows, and one more that is lost; the writer stays, as if it had been killed.
    let lost = folder.path().join("lost");
    let mut killed = writer(&lost);
    write(&mut killed, 0..5);
    killed.sync().unwrap();
    write(&mut killed, 5..6);
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&lost).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    pretend_boot(Some([9; 16]));
    for table in [closed, copy] {
        let dataset = open(&table).unwrap();
        assert!(dataset.len().unwrap() == 5 && dataset.is_newest(), "{table:?}");
        let mut follower = follow(&dataset, None, None).unwrap();
        assert!(follower.poll(Duration::from_millis(5)).unwrap().is_none());
        let mut writer = writer(&table);
        write(&mut writer, 5..7);
        assert!(!dataset.is_newest());
        assert_eq!(dataset.refresh().unwrap().len().unwrap(), 7);
        assert!(dataset.refresh().unwrap().is_newest());
        let found = follower.poll(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(found.column("n").unwrap().get(0).unwrap().to_string(), "5");
    }
    pretend_boot(None);
}
