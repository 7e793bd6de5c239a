//! One hot path at a time, for `bench/instructions.py` to count the instructions of.
//!
//! ```console
//! $ cargo run --release -p arrowwood-bench --bin hot -- [NAME]
//! ```
//! Without a name, the names. Each path is gone through once before it is measured: what is counted is what every
//! further one costs.

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrowwood::{
    AggregateFunction, Aggregation, Bytes, CsvOptions, Dataset, Format, JsonOptions, OpenOptions, Result, Value,
    WriteOptions, Writer, WriterOptions, col, read_csv_from, read_json_from, read_stream, write_to,
};

const ROWS: i64 = 100_000;

/// What is done before, and what is measured of it.
type Workload = Box<dyn FnMut() -> Result<u64>>;

/// Its name, and what makes it.
type NamedWorkload = (&'static str, fn() -> Result<Workload>);

const ALL: &[NamedWorkload] = &[
    ("open a file", || {
        let file = Bytes::from(written(1, Format::File)?);
        Ok(Box::new(move || Ok(OpenOptions::new().bytes(file.clone())?.num_columns() as u64)))
    }),
    ("count the rows of a stream of 1,000 batches", || {
        let stream = Bytes::from(written(1000, Format::Stream)?);
        Ok(Box::new(move || OpenOptions::new().bytes(stream.clone())?.len()))
    }),
    ("one row of three values", || {
        let dataset = opened(10)?;
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
        let dataset = keyed(text_keys(1000))?;
        Ok(Box::new(move || dataset.filter(&col("key").is_in(texts.clone()))?.len()))
    }),
    ("mean by 1,000 keys that lie close together", || means(Arc::new(numbers(1000, 1)))),
    ("mean by 1,000 scattered keys", || means(Arc::new(numbers(1000, 1 << 40)))),
    ("mean by 50,000 keys that lie close together", || means(Arc::new(numbers(50_000, 1)))),
    ("mean by 50,000 scattered keys", || means(Arc::new(numbers(50_000, 1 << 40)))),
    ("mean by 1,000 texts", || means(text_keys(1000))),
    ("mean by 50,000 texts", || means(text_keys(50_000))),
    ("read a stream of 1,000 batches into columns", || {
        let stream = written(1000, Format::Stream)?;
        Ok(Box::new(move || read_stream(&stream[..])?.read_all()?.len()))
    }),
    ("read 100,000 rows of CSV", || {
        let text = text_of(|id, price| format!("{id},{price},note of row {id},2026-01-31T12:34:56.{:03}\n", id % 1000));
        let text = format!("id,price,note,ts\n{text}");
        Ok(Box::new(move || Ok(read_csv_from(text.as_bytes(), &CsvOptions::default())?.1.len() as u64)))
    }),
    ("read 100,000 rows of JSON lines", || {
        let text = text_of(|id, price| {
            let ts = format!("2026-01-31T12:34:56.{:03}", id % 1000);
            format!("{{\"id\": {id}, \"price\": {price}, \"note\": \"note of row {id}\", \"ts\": \"{ts}\"}}\n")
        });
        Ok(Box::new(move || Ok(read_json_from(text.as_bytes(), &JsonOptions::default())?.1.len() as u64)))
    }),
    ("append 100,000 rows to a table, and commit", || {
        let (mut writer, batch) = (writer("batch")?, batch());
        Ok(Box::new(move || writer.append(&batch).and_then(|()| writer.commit()).map(|()| 1)))
    }),
    ("append a row to a table, and commit", || {
        let mut writer = writer("row")?;
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

fn written(batches: usize, format: Format) -> Result<Vec<u8>> {
    let (batch, step) = (batch(), ROWS as usize / batches);
    let dataset = Dataset::try_from((0..batches).map(|number| batch.slice(number * step, step)).collect::<Vec<_>>())?;
    let mut bytes = Vec::new();
    write_to(&dataset, &mut bytes, &WriteOptions { format, ..WriteOptions::default() })?;
    Ok(bytes)
}

fn opened(batches: usize) -> Result<Dataset> {
    OpenOptions::new().bytes(written(batches, Format::Stream)?.into())
}

fn take(batches: usize) -> Result<Workload> {
    let rows: Vec<i64> = (0..1000).map(|row| row * 7919 % ROWS).collect();
    reduce(batches, move |dataset| dataset.take(&rows)?.len())
}

fn reduce(batches: usize, question: impl Fn(&Dataset) -> Result<u64> + 'static) -> Result<Workload> {
    let dataset = opened(batches)?;
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

fn text_of(line: impl Fn(i64, f64) -> String) -> String {
    (0..ROWS).map(|row| line(row, (row * 7919 % 200) as f64 / 8.0)).collect()
}

fn keyed(key: ArrayRef) -> Result<Dataset> {
    let price: ArrayRef = Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| (row * 7919 % 200) as f64)));
    let batch = RecordBatch::try_from_iter([("key", key), ("price", price)]).expect("columns of one length");
    Dataset::try_from(vec![batch])
}

fn means(key: ArrayRef) -> Result<Workload> {
    let dataset = keyed(key)?;
    Ok(Box::new(move || dataset.aggregate(&["key"]).column("price", AggregateFunction::Mean).finish()?.len()))
}

/// A table in a folder of its own, which goes when the process ends well.
fn writer(name: &str) -> Result<Writer> {
    let folder = std::env::temp_dir().join(format!("arrowwood-hot-{name}-{}", std::process::id()));
    Writer::open(folder, Some(batch().schema()), &WriterOptions::default())
}

/// Counting begins and ends here, by this name.
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
    let answer = measured(&mut path)?;
    assert!(answer > 0, "nothing was done");
    drop(path);
    let leftovers = ["batch", "row"].map(|name| format!("arrowwood-hot-{name}-{}", std::process::id()));
    leftovers.iter().for_each(|folder| drop(std::fs::remove_dir_all(std::env::temp_dir().join(folder))));
    Ok(())
}
