//! Runs one hot path at a time, so that `bench/instructions.py` can count its instructions.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin hot -- [NAME]
//! ```
//! Without a name, prints all names. Each path runs once before it is counted, so that costs of the first run are left
//! out.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrowwood::{
    AggregateFunction, Aggregation, Bytes, CsvOptions, Dataset, Format, JsonOptions, OpenOptions, Result, Value,
    WriteOptions, Writer, WriterOptions, col, read_csv_from, read_json_from, read_stream, write_to,
};

const ROWS: i64 = 100_000;

/// A prepared path; it returns a number that is above 0 if it worked.
type Workload = Box<dyn FnMut() -> Result<u64>>;

/// The name of a path, and the function that prepares it.
type NamedWorkload = (&'static str, fn() -> Result<Workload>);

const ALL: &[NamedWorkload] = &[
    ("open a file", || {
        let file = Bytes::from(encode_dataset(1, Format::File)?);
        Ok(Box::new(move || Ok(OpenOptions::new().bytes(file.clone())?.num_columns() as u64)))
    }),
    ("count the rows of a stream of 1,000 batches", || {
        let stream = Bytes::from(encode_dataset(1000, Format::Stream)?);
        Ok(Box::new(move || OpenOptions::new().bytes(stream.clone())?.len()))
    }),
    ("one row of three values", || {
        let dataset = open_stream(10)?;
        Ok(Box::new(move || Ok(dataset.row(77_777)?.iter().filter(|(_, value)| value.is_ok()).count() as u64)))
    }),
    ("take 1,000 rows of one batch", || take(1)),
    ("take 1,000 rows of 1,000 batches", || take(1000)),
    ("sum 100,000 floats", || reduce(1, |dataset| dataset.column("price")?.sum().map(|_| 1))),
    ("sum 100,000 floats in 1,000 batches", || reduce(1000, |dataset| dataset.column("price")?.sum().map(|_| 1))),
    ("least of 100,000 floats", || reduce(1, |dataset| dataset.column("price")?.min().map(|_| 1))),
    ("variance of 100,000 floats", || reduce(1, |dataset| dataset.column("price")?.var().map(|_| 1))),
    ("filter 100,000 rows", || reduce(1, |dataset| dataset.filter(&col("price").gt(100.0))?.len())),
    ("mean by key of 100,000 rows that are filtered", || {
        reduce(1, |dataset| {
            let groups = dataset.aggregate(&["symbol"]).filter(col("price").gt(100.0));
            groups.column("price", AggregateFunction::Mean).finish()?.len()
        })
    }),
    ("count of 100,000 rows that are filtered", || filtered_aggregate(|rows| rows.count_rows("rows"))),
    ("first of 100,000 rows that are filtered", || {
        filtered_aggregate(|rows| rows.column("id", AggregateFunction::First))
    }),
    ("rows of 100,000 of which an expression is true", || {
        reduce(1, |dataset| dataset.filter(&(((col("price") + 1) * col("id")).gt(1e6) & (col("id") % 7).ne(3)))?.len())
    }),
    ("rows of 100,000 whose text is one of twenty", || {
        let texts: Vec<String> = (0..20).map(|number| format!("name-{number}")).collect();
        let dataset = dataset_with_key(text_keys(1000))?;
        Ok(Box::new(move || dataset.filter(&col("key").is_in(texts.clone()))?.len()))
    }),
    ("mean by 1,000 keys that lie close together", || means(Arc::new(numbers(1000, 1)))),
    ("mean by 1,000 scattered keys", || means(Arc::new(numbers(1000, 1 << 40)))),
    ("mean by 50,000 keys that lie close together", || means(Arc::new(numbers(50_000, 1)))),
    ("mean by 50,000 scattered keys", || means(Arc::new(numbers(50_000, 1 << 40)))),
    ("mean by 1,000 texts", || means(text_keys(1000))),
    ("mean by 50,000 texts", || means(text_keys(50_000))),
    ("read a stream of 1,000 batches into columns", || {
        let stream = encode_dataset(1000, Format::Stream)?;
        Ok(Box::new(move || read_stream(&stream[..])?.read_all()?.len()))
    }),
    ("read 100,000 rows of CSV", || {
        let text =
            format_rows(|id, price| format!("{id},{price},note of row {id},2026-01-31T12:34:56.{:03}\n", id % 1000));
        let text = format!("id,price,note,ts\n{text}");
        Ok(Box::new(move || Ok(read_csv_from(text.as_bytes(), &CsvOptions::default())?.1.len() as u64)))
    }),
    ("read 100,000 rows of JSON lines", || {
        let text = format_rows(|id, price| {
            let ts = format!("2026-01-31T12:34:56.{:03}", id % 1000);
            format!("{{\"id\": {id}, \"price\": {price}, \"note\": \"note of row {id}\", \"ts\": \"{ts}\"}}\n")
        });
        Ok(Box::new(move || Ok(read_json_from(text.as_bytes(), &JsonOptions::default())?.1.len() as u64)))
    }),
    ("append 100,000 rows to a table, and commit", || {
        let (mut writer, batch) = (create_table("batch")?, batch());
        Ok(Box::new(move || writer.append(&batch).and_then(|()| writer.commit()).map(|()| 1)))
    }),
    ("append a row to a table, and commit", || {
        let mut writer = create_table("row")?;
        let row = [Value::Int(1), Value::Float64(0.5), Value::Str("k7")];
        Ok(Box::new(move || writer.append_row(&row).and_then(|()| writer.commit()).map(|()| 1)))
    }),
];

fn batch() -> RecordBatch {
    let keys = Int32Array::from_iter_values((0..ROWS).map(|row| (row * 7 % 5) as i32));
    let symbols = StringArray::from(vec!["k0", "k1", "k2", "k3", "k7"]);
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS))),
        ("price", Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| (row * 7919 % 200) as f64)))),
        ("symbol", Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(symbols)))),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn encode_dataset(batches: usize, format: Format) -> Result<Vec<u8>> {
    let (batch, step) = (batch(), ROWS as usize / batches);
    let dataset = Dataset::try_from((0..batches).map(|number| batch.slice(number * step, step)).collect::<Vec<_>>())?;
    let mut bytes = Vec::new();
    write_to(&dataset, &mut bytes, &WriteOptions { format, ..WriteOptions::default() })?;
    Ok(bytes)
}

fn open_stream(batches: usize) -> Result<Dataset> {
    OpenOptions::new().bytes(encode_dataset(batches, Format::Stream)?.into())
}

fn take(batches: usize) -> Result<Workload> {
    let rows: Vec<i64> = (0..1000).map(|row| row * 7919 % ROWS).collect();
    reduce(batches, move |dataset| dataset.take(&rows)?.len())
}

fn reduce(batches: usize, question: impl Fn(&Dataset) -> Result<u64> + 'static) -> Result<Workload> {
    let dataset = open_stream(batches)?;
    Ok(Box::new(move || question(&dataset)))
}

/// An aggregate of the rows of which a condition is true, without keys.
fn filtered_aggregate(aggregate: impl for<'a> Fn(Aggregation<'a>) -> Aggregation<'a> + 'static) -> Result<Workload> {
    reduce(1, move |dataset| {
        let rows = dataset.aggregate::<&str>(&[]).filter(col("price").gt(100.0));
        aggregate(rows).finish()?.len()
    })
}

/// `count` integers in some order, with `step` between them.
fn numbers(count: i64, step: i64) -> Int64Array {
    Int64Array::from_iter_values((0..ROWS).map(|row| row * 7919 % count * step))
}

fn text_keys(count: i64) -> ArrayRef {
    let names = numbers(count, 1);
    Arc::new(StringArray::from_iter_values(names.values().iter().map(|number| format!("name-{number}"))))
}

fn format_rows(line: impl Fn(i64, f64) -> String) -> String {
    (0..ROWS).map(|row| line(row, (row * 7919 % 200) as f64 / 8.0)).collect()
}

fn dataset_with_key(key: ArrayRef) -> Result<Dataset> {
    let price: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| (row * 7919 % 200) as f64)));
    let batch = RecordBatch::try_from_iter([("key", key), ("price", price)]).expect("columns of one length");
    Dataset::try_from(vec![batch])
}

fn means(key: ArrayRef) -> Result<Workload> {
    let dataset = dataset_with_key(key)?;
    Ok(Box::new(move || dataset.aggregate(&["key"]).column("price", AggregateFunction::Mean).finish()?.len()))
}

/// Creates a table in a temporary folder, which `main` removes at the end.
fn create_table(name: &str) -> Result<Writer> {
    Writer::open(table_folder(name), Some(batch().schema()), &WriterOptions::default())
}

fn table_folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("arrowwood-hot-{name}-{}", std::process::id()))
}

/// The function whose instructions are counted: `bench/instructions.py` finds it by this name.
#[inline(never)]
fn measured(path: &mut Workload) -> Result<u64> {
    black_box(path())
}

fn main() -> Result<()> {
    let Some(name) = std::env::args().nth(1) else {
        ALL.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let Some((_, prepare)) = ALL.iter().find(|(path, _)| *path == name) else { panic!("no path '{name}'") };
    let mut path = prepare()?;
    black_box(path())?;
    let result = measured(&mut path)?;
    assert!(result > 0, "nothing was done");
    drop(path);
    for table in ["batch", "row"] {
        // Most paths have created no table.
        let _ = std::fs::remove_dir_all(table_folder(table));
    }
    Ok(())
}
