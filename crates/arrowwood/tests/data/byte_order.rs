//! Tests that values, sums and comparisons are the same on little-endian and big-endian processors, and that the latter
//! refuse what they can't do. The bytes that are read are made by hand.

use std::fs::{self, File};
use std::path::Path;

use arrow_schema::{DataType, Field, Schema};
use arrowwood::{ErrorKind, Value, Writer, WriterOptions, open};
use flate2::read::GzDecoder;

use crate::handmade::{batch, file, i32s, opened, stream};

const ROWS: u32 = 1000;

/// Returns the value of a row: sums of these are rounded, and so depend on their order.
fn float(row: u32) -> f64 {
    f64::from(row).sqrt() - 10.0
}

/// Returns a file of floats, integers and texts, in little-endian bytes.
fn sample() -> Vec<u8> {
    let fields = [
        Field::new("float", DataType::Float64, false),
        Field::new("int", DataType::Int32, false),
        Field::new("text", DataType::Utf8, false),
    ];
    let floats: Vec<u8> = (0..ROWS).flat_map(|row| float(row).to_le_bytes()).collect();
    let ints: Vec<i32> = (0..ROWS as i32).map(|row| row * -300_007).collect();
    let texts: Vec<String> = (0..ROWS).map(|row| format!("row {row}")).collect();
    let ends = texts.iter().scan(0, |end, text| {
        *end += text.len() as i32;
        Some(*end)
    });
    let offsets: Vec<i32> = [0].into_iter().chain(ends).collect();
    let rows = i64::from(ROWS);
    let nodes = [(rows, 0), (rows, 0), (rows, 0)];
    let text_bytes = texts.concat();
    let buffers: [&[u8]; 7] = [&[], &floats, &[], &i32s(&ints), &[], &i32s(&offsets), text_bytes.as_bytes()];
    file(&Schema::new(fields.to_vec()), &[batch(rows, &nodes, &buffers)], |_| ())
}

#[test]
fn cells_have_the_same_values_on_each_processor() {
    let dataset = opened(sample());
    dataset.validate(|_, _| ()).unwrap();
    for (number, row) in (0..ROWS).zip(dataset.rows()) {
        let row = row.unwrap();
        assert!(matches!(row.get(0).unwrap(), Value::Float64(value) if value == float(number)), "{number}");
        assert!(matches!(row.get(1).unwrap(), Value::Int(value) if value == i64::from(number) * -300_007), "{number}");
        assert!(matches!(row.get(2).unwrap(), Value::Str(value) if value == format!("row {number}")), "{number}");
    }
}

/// The expected bits are those of x86-64.
#[test]
fn sums_have_the_same_bits_on_each_processor() {
    let dataset = opened(sample());
    let column = |name| dataset.column(name).unwrap();
    let sum = column("float").sum().unwrap();
    assert!(matches!(sum, Value::Float64(sum) if sum.to_bits() == 0x40c5_9cea_a360_95bc), "{sum:?}");
    assert_eq!(column("int").sum().unwrap().to_string(), (-300_007 * 499_500_i64).to_string());
    assert_eq!(column("float").min().unwrap().to_string(), "-10.0");
    assert_eq!(column("int").min().unwrap().to_string(), (-300_007 * 999).to_string());
    assert_eq!(column("text").max().unwrap().to_string(), "row 999");
}

#[test]
fn streams_are_read_on_each_processor() {
    let schema = Schema::new(vec![Field::new("n", DataType::Int32, false)]);
    let dataset = opened(stream(&schema, &[batch(3, &[(3, 0)], &[&[], &i32s(&[1, 256, -1])])]));
    let values: Vec<String> = dataset.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect();
    assert_eq!(values, ["1", "256", "-1"]);
}

/// Regression test: on big-endian processors the counters of commits were read in the other order.
#[test]
fn tables_are_read_on_each_processor() {
    let version = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/versions/1.0");
    let table = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(version).unwrap() {
        let path = entry.unwrap().path();
        let mut file = File::create(table.path().join(path.file_stem().unwrap())).unwrap();
        std::io::copy(&mut GzDecoder::new(File::open(path).unwrap()), &mut file).unwrap();
    }
    let dataset = open(table.path()).unwrap();
    dataset.validate(|_, _| ()).unwrap();
    let expected = |n: i32| {
        let text = if n % 3 == 1 { "null".into() } else { format!("row {n}") };
        [n.to_string(), text, format!("k{}", n % 4)]
    };
    let rows: Vec<[String; 3]> = dataset
        .rows()
        .map(|row| row.map(|row| [0, 1, 2].map(|number| row.get(number).unwrap().to_string())))
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(rows, (0..20).map(expected).collect::<Vec<_>>());
}

/// Regression test: on big-endian processors a table was made, and then said to be damaged. Windows can't lock its
/// directory.
#[test]
fn tables_are_written_on_little_endian_processors_and_unix_only() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t");
    let schema = Schema::new(vec![Field::new("n", DataType::Int32, false)]);
    let opened = Writer::open(&table, Some(schema.into()), &WriterOptions::default());
    if cfg!(all(target_endian = "little", unix)) {
        opened.unwrap();
        return;
    }
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let reasons = match cfg!(windows) {
        true => [std::env::consts::OS, "lock"],
        false => [std::env::consts::ARCH, "big-endian"],
    };
    assert!(reasons.iter().all(|reason| error.message().contains(reason)), "{error}");
    assert!(!table.exists(), "nothing is made");
}
