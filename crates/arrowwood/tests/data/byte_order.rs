//! Tests that values, sums and comparisons are the same on little-endian and big-endian processors, and that the latter
//! refuse what they can't do. The bytes that are read are made by hand.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Int32Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{
    AggregateFunction, Dataset, DatasetBuilder, ErrorKind, ExportOptions, FileWriter, OpenOptions, Result,
    StreamEncoder, StreamWriter, Value, WriteOptions, Writer, WriterOptions, col, open, read_stream, write_to,
};
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
fn columns_of_each_number_have_the_same_sum_and_extremes_on_each_processor() {
    let types = [
        (DataType::Int8, 1),
        (DataType::UInt8, 1),
        (DataType::Int16, 2),
        (DataType::UInt16, 2),
        (DataType::Int32, 4),
        (DataType::UInt32, 4),
        (DataType::Int64, 8),
        (DataType::UInt64, 8),
        (DataType::Decimal32(9, 0), 4),
        (DataType::Decimal64(18, 0), 8),
        (DataType::Decimal128(38, 0), 16),
        (DataType::Decimal256(76, 0), 32),
    ];
    let numbers = [101_u8, 2, 117];
    let fields: Vec<Field> =
        types.iter().map(|(data_type, _)| Field::new(data_type.to_string(), data_type.clone(), false)).collect();
    let values: Vec<Vec<u8>> = types
        .iter()
        .map(|(_, width)| numbers.iter().flat_map(|number| [vec![*number], vec![0; width - 1]].concat()).collect())
        .collect();
    let buffers: Vec<&[u8]> = values.iter().flat_map(|values| [&[], &values[..]]).collect();
    let dataset = opened(file(&Schema::new(fields), &[batch(3, &[(3, 0); 12], &buffers)], |_| ()));
    for column in 0..dataset.num_columns() {
        let column = dataset.column_at(column).unwrap();
        let sum_and_extremes = [column.sum(), column.min(), column.max()].map(|value| value.unwrap().to_string());
        assert_eq!(sum_and_extremes, ["220", "2", "117"], "{}", column.name());
        assert_eq!(column.mean().unwrap(), Some(220.0 / 3.0), "{}", column.name());
    }
}

/// Regression test: on big-endian processors arrow-rs cuts the first and the last word of a bitmap at the wrong end.
#[test]
fn nulls_and_true_values_are_counted_on_each_processor() {
    const ROWS: usize = 191;
    let valid: Vec<bool> = (0..ROWS).map(|row| row % 5 != 2).collect();
    let values: Vec<bool> = (0..ROWS).map(|row| row.is_multiple_of(3)).collect();
    let nulls = valid.iter().filter(|is_valid| !**is_valid).count();
    let schema = Schema::new(vec![Field::new("flag", DataType::Boolean, true)]);
    let buffers: [&[u8]; 2] = [&bitmap(&valid), &bitmap(&values)];
    let dataset = opened(file(&schema, &[batch(ROWS as i64, &[(ROWS as i64, nulls as i64)], &buffers)], |_| ()));
    dataset.validate(|_, _| ()).unwrap();
    for rows in [0..ROWS, 1..ROWS, 8..ROWS, 3..180, 64..70, 7..9] {
        let part = dataset.slice(rows.start as u64, rows.len() as u64).unwrap();
        let flag = part.column("flag").unwrap();
        let null_count = rows.clone().filter(|&row| !valid[row]).count() as u64;
        assert_eq!(flag.null_count().unwrap(), null_count, "{rows:?}");
        let true_count = rows.clone().filter(|&row| valid[row] && values[row]).count();
        assert_eq!(flag.sum().unwrap().to_string(), true_count.to_string(), "{rows:?}");
    }
}

/// Returns bits as a bitmap, the first in the lowest bit.
fn bitmap(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit))).collect()
}

#[test]
fn partition_columns_have_the_same_values_on_each_processor() {
    let folder = tempfile::tempdir().unwrap();
    let schema = Schema::new(vec![Field::new("n", DataType::Int32, false)]);
    for (name, number) in [("symbol=ash", 1), ("symbol=elm", 2)] {
        fs::create_dir(folder.path().join(name)).unwrap();
        let bytes = file(&schema, &[batch(1, &[(1, 0)], &[&[], &i32s(&[number])])], |_| ());
        fs::write(folder.path().join(name).join("part.arrow"), bytes).unwrap();
    }
    let types = Schema::new(vec![Field::new("symbol", DataType::Utf8, false)]);
    let dataset = OpenOptions::new().partitions(folder.path(), &types).unwrap();
    let rows: Vec<[String; 2]> =
        dataset.rows().map(|row| row.map(|row| [0, 1].map(|i| row.get(i).unwrap().to_string())).unwrap()).collect();
    assert_eq!(rows, [["1", "ash"], ["2", "elm"]]);
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

/// Regression test: on big-endian processors arrays had the numbers of files, whose bytes other code reads in the other
/// order.
#[test]
fn arrays_are_exchanged_on_little_endian_processors_only() {
    let dataset = opened(sample());
    let int = dataset.column("int").unwrap();
    let schema = dataset.schema();
    let one = Schema::new(vec![Field::new("n", DataType::Int32, false)]);
    let bytes = stream(&one, &[batch(1, &[(1, 0)], &[&[], &i32s(&[1])])]);
    let record_batch = RecordBatch::try_new(one.clone().into(), vec![Arc::new(Int32Array::from(vec![1]))]);
    let record_batch = record_batch.unwrap();
    let mut sink = Vec::new();
    let folder = tempfile::tempdir().unwrap();

    type Call<'a> = Box<dyn FnMut() -> Result<()> + 'a>;
    let calls: Vec<(&str, Call<'_>)> = vec![
        ("Column::chunks", Box::new(|| int.chunks().map(drop))),
        ("Column::chunks_with", Box::new(|| int.chunks_with(ExportOptions::new()).map(drop))),
        ("Column::fixed_width_chunks", Box::new(|| int.fixed_width_chunks(ExportOptions::new()).map(drop))),
        ("Column::contiguous", Box::new(|| int.contiguous().map(drop))),
        ("Column::map_reduce", Box::new(|| int.map_reduce(|_| 1, |a, b| a + b).map(drop))),
        ("Column::quantile", Box::new(|| int.quantile(0.5).map(drop))),
        ("Column::approx_quantile", Box::new(|| int.approx_quantile(0.5).map(drop))),
        ("Column::var", Box::new(|| int.var().map(drop))),
        ("Column::n_unique", Box::new(|| int.n_unique().map(drop))),
        ("Column::value_counts", Box::new(|| int.value_counts().map(drop))),
        ("Dataset::describe", Box::new(|| dataset.describe().map(drop))),
        ("Dataset::filter", Box::new(|| dataset.filter(&col("int").lt(0)).map(drop))),
        ("Dataset::matching_rows", Box::new(|| dataset.matching_rows(&col("int").lt(0)).map(drop))),
        ("Dataset::sort", Box::new(|| dataset.sort(&[("int", false)]).map(drop))),
        ("Dataset::sort_indices", Box::new(|| dataset.sort_indices(&[("int", false)]).map(drop))),
        ("Dataset::shuffle", Box::new(|| dataset.shuffle(1).map(drop))),
        ("Dataset::rows_at", Box::new(|| dataset.rows_at(&[1]).map(drop))),
        ("Dataset::slice_with_step", Box::new(|| dataset.slice_with_step(0..ROWS.into(), 2).map(drop))),
        ("Dataset::take", Box::new(|| dataset.take(&[1]).map(drop))),
        ("Dataset::sample", Box::new(|| dataset.sample(1, 1).map(drop))),
        ("Dataset::gather", Box::new(|| dataset.gather(&[1]).map(drop))),
        ("Dataset::unique", Box::new(|| dataset.unique(&["text"]).map(drop))),
        (
            "Dataset::aggregate",
            Box::new(|| dataset.aggregate(&["text"]).column("int", AggregateFunction::Sum).finish().map(drop)),
        ),
        ("Dataset::to_record_batches", Box::new(|| dataset.to_record_batches().try_for_each(|batch| batch.map(drop)))),
        ("Dataset::export_batch", Box::new(|| dataset.export_batch(0, ExportOptions::new()).map(drop))),
        ("Dataset::to_column_major", Box::new(|| dataset.select(&["int"])?.to_column_major(4).map(drop))),
        (
            "Dataset::concat, collect",
            Box::new(|| Dataset::concat(&[dataset.clone(), dataset.clone()])?.collect().map(drop)),
        ),
        ("Dataset::from_batches", Box::new(|| Dataset::try_from(vec![record_batch.clone()]).map(drop))),
        ("DatasetBuilder::new", Box::new(|| DatasetBuilder::new(schema.clone()).map(drop))),
        ("StreamEncoder::new", Box::new(|| StreamEncoder::new(schema.clone()).map(drop))),
        ("StreamWriter::new", Box::new(|| StreamWriter::new(Vec::new(), schema.clone(), None).map(drop))),
        (
            "FileWriter::create",
            Box::new(|| FileWriter::create(folder.path().join("a"), schema.clone(), None).map(drop)),
        ),
        ("write_to", Box::new(|| write_to(&dataset, &mut sink, &WriteOptions::default()))),
        ("read_stream", Box::new(|| read_stream(&bytes[..]).map(drop))),
    ];
    for (name, mut call) in calls {
        let outcome = call();
        if cfg!(target_endian = "little") {
            outcome.unwrap_or_else(|e| panic!("{name}: {e}"));
            continue;
        }
        let Err(error) = outcome else { panic!("{name} did not fail") };
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
        assert!(error.message().contains("big-endian"), "{name}: {error}");
    }
}
