//! Tests that damaged and malicious files give values or errors: never a panic, and never more memory or time than
//! their size justifies.
//!
//! Every seed file is mutated deterministically, one byte at a time (each bit flipped, 0, 255, ±1) and several bytes at
//! once. Each mutant is read in every way, within limits of memory and time. `ARROWWOOD_MUTANTS` sets the number of
//! damaged positions of a seed; `all` is every byte of the metadata of messages and of the footer.
//! `ARROWWOOD_MUTANTS_PART` selects some of the seeds: `0/10` is every tenth, beginning with the first.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::RefUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::builder::{Int32Builder, ListBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowDictionaryKeyType, Int8Type, Int32Type, Int64Type};
use arrow_array::*;
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{
    AggregateFunction, Bytes, Compression, Dataset, DatasetBuilder, Format, OpenOptions, Predicate, Result, Value,
    WriteOptions, col, open, read_stream, write_to,
};

#[path = "../../../tests/support/dice.rs"]
mod dice;
#[path = "../../../tests/support/thread.rs"]
mod thread;
#[path = "../../../tests/support/wait.rs"]
mod wait;

use dice::Dice;
use thread::thread_time;
use wait::PATIENCE;

/// The CPU time that a mutant may take. The elapsed time is limited by [`PATIENCE`], which detects deadlocks.
const MAX_CPU_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

mod system {
    #![allow(unsafe_code)]

    /// Limits the memory of the process, so that an unjustified allocation fails and aborts the tests.
    #[cfg(target_os = "linux")]
    pub fn limit_memory() {
        static ONCE: std::sync::Once = std::sync::Once::new();
        const EXTRA_BYTES: u64 = 4 << 30;
        ONCE.call_once(|| {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
            let kilobytes: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
            let max_bytes = (kilobytes << 10) + EXTRA_BYTES;
            let limit = libc::rlimit { rlim_cur: max_bytes, rlim_max: max_bytes };
            // SAFETY: setrlimit reads the one struct, which lives until it returns.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        });
    }

    #[cfg(not(target_os = "linux"))]
    pub fn limit_memory() {}
}

fn sample() -> Dataset {
    let mut symbols = StringDictionaryBuilder::<Int8Type>::new();
    let mut lists = ListBuilder::new(Int32Builder::new());
    for i in 0..50 {
        symbols.append_value(["MSFT", "AMZN", "IBM"][i % 3]);
        lists.append_value((0..i % 4).map(|k| Some(k as i32)));
    }
    let strings: StringArray = (0..50).map(|i| (i % 5 != 0).then(|| format!("né {i}"))).collect();
    let views: StringViewArray = (0..50).map(|i| Some(format!("a string that is long enough {i}"))).collect();
    let runs: Int32RunArray = (0..50).map(|i| Some(["x", "y"][i / 25])).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("symbol", Arc::new(symbols.finish())),
        ("list", Arc::new(lists.finish())),
        ("text", Arc::new(strings)),
        ("view", Arc::new(views)),
        ("runs", Arc::new(runs)),
        ("flag", Arc::new((0..50).map(|i| (i % 7 != 0).then_some(i % 2 == 0)).collect::<BooleanArray>())),
        ("price", Arc::new((0..50).map(|i| Some(f64::from(i))).collect::<Float64Array>())),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    Dataset::try_from(vec![batch.clone(), batch]).unwrap()
}

fn encode_sample(format: Format, compression: Option<Compression>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_to(&sample(), &mut bytes, &WriteOptions { format, compression, ..WriteOptions::default() }).unwrap();
    bytes
}

/// Returns the names and contents of the seed files.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for format in [Format::File, Format::Stream] {
        for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
            seeds.push((format!("{format:?} {compression:?}"), encode_sample(format, compression)));
        }
    }
    let default_corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/arrow-testing");
    let corpus = std::env::var_os("ARROW_TESTING").map_or(default_corpus, PathBuf::from);
    let mut folders = vec![corpus.join("golden")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
            match path.extension().and_then(|e| e.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("arrow_file" | "stream") => {
                    seeds.push((path.display().to_string(), std::fs::read(&path).unwrap()))
                }
                _ => {}
            }
        }
    }
    // Directories are listed in no particular order.
    seeds.sort();
    let (first, parts) = part();
    seeds.into_iter().skip(first).step_by(parts).collect()
}

/// Returns the part of the seeds that is tested: the first one, and the distance to the next.
fn part() -> (usize, usize) {
    let Ok(part) = std::env::var("ARROWWOOD_MUTANTS_PART") else { return (0, 1) };
    let (first, parts) =
        part.split_once('/').expect("ARROWWOOD_MUTANTS_PART is a part and how many there are, as in 0/10");
    (first.parse().unwrap(), parts.parse().unwrap())
}

/// Reads a file or stream in every way, and ignores the results; returns true if it is valid.
fn exercise(bytes: &[u8]) -> bool {
    let _ = read_stream(bytes).map(|stream| stream.map_while(Result::ok).count());
    let Ok(dataset) = OpenOptions::new().bytes(Bytes::from(bytes.to_vec())) else { return false };
    let _ = dataset.to_string();
    let _ = dataset.messages().map(|messages| messages.iter().map(|m| m.to_json().to_string().len()).sum::<usize>());
    let valid = dataset.validate(|_, _| ()).is_ok();
    for row in dataset.rows().take(200).flatten() {
        for (_, value) in row.iter() {
            let _ = value.and_then(|value| value.to_json());
        }
    }
    let _ = dataset.nbytes();
    for i in 0..dataset.num_columns() {
        let Ok(column) = dataset.column_at(i) else { continue };
        let _ = (column.sum().is_ok(), column.min().is_ok(), column.null_count().is_ok());
    }
    if valid {
        let _ = dataset.to_record_batches().map(|batch| batch.is_ok()).filter(|ok| *ok).count();
        let _ = write_to(&dataset, &mut std::io::sink(), &WriteOptions::default());
    }
    valid
}

/// An operation on a dataset, with its name.
type Operation = (&'static str, fn(&Dataset) -> Result<Dataset>);

/// Operations that copy rows or their numbers.
const COPIES: &[Operation] = &[
    ("take", |dataset| dataset.take(&[0])),
    ("take repeated", |dataset| dataset.take(&[0, 0, -1])),
    ("take all", |dataset| dataset.take(&(0..dataset.len()?.min(3000) as i64).collect::<Vec<_>>())),
    ("sample", |dataset| dataset.sample(dataset.len()?.min(3), 7)),
    ("filter", |dataset| dataset.filter(&col("x").is_null())),
    ("filter not", |dataset| dataset.filter(&!col("x").is_null())),
    ("sort", |dataset| dataset.sort(&[("x", true)])),
    ("order", |dataset| dataset.sort_indices(&[("x", true)]).map(|_| dataset.clone())),
    ("matching", |dataset| dataset.matching_rows(&col("x").is_null()).map(|_| dataset.clone())),
    ("every second", |dataset| dataset.slice_with_step(0..dataset.len()?, 2)),
    ("backwards", |dataset| dataset.slice_with_step(0..dataset.len()?, -1)),
    ("shuffle", |dataset| dataset.shuffle(7)),
    ("collect", Dataset::collect),
    ("collect twice", |dataset| Dataset::concat(&[dataset.clone(), dataset.clone()])?.collect()),
    ("append", |dataset| {
        let mut builder = DatasetBuilder::new(dataset.schema().clone())?;
        builder.append_dataset(dataset)?;
        builder.finish()
    }),
];

/// Runs all of [`COPIES`] on a column `x`, and reads the first batch of each result.
fn copy_rows(campaign: &Campaign, name: &str, batches: Vec<RecordBatch>) {
    let mut bytes = Vec::new();
    let stream = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
    write_to(&Dataset::try_from(batches).unwrap(), &mut bytes, &stream).unwrap();
    for (operation, copy) in COPIES {
        campaign.check(name, &|| (*operation).into(), &|| {
            let dataset = OpenOptions::new().bytes(Bytes::from(bytes.clone())).unwrap();
            copy(&dataset).and_then(|copied| copied.to_record_batches().next().transpose()).is_ok()
        });
    }
    campaign.check_read_all(name, &bytes);
}

fn single_column(column: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap()
}

/// Checks mutants of one kind, and counts them.
struct Campaign {
    name: &'static str,
    tried: AtomicUsize,
    valid: AtomicUsize,
    /// The CPU time of the slowest mutant.
    max_micros: AtomicUsize,
}

impl Campaign {
    fn new(name: &'static str) -> Campaign {
        system::limit_memory();
        let [tried, valid, max_micros] = [0; 3].map(AtomicUsize::new);
        Campaign { name, tried, valid, max_micros }
    }

    /// Checks that a mutant can be read without a panic, within limits of time. `describe` names it in failures.
    fn check_mutant(&self, seed: &str, bytes: &[u8], describe: &dyn Fn() -> String) {
        self.check(seed, describe, &|| exercise(bytes));
    }

    fn check_read_all(&self, seed: &str, bytes: &[u8]) {
        self.check(seed, &|| "read_all".into(), &|| read_stream(bytes).and_then(|stream| stream.read_all()).is_ok());
    }

    /// Checks an operation that returns true if the bytes are valid.
    fn check(&self, seed: &str, describe: &dyn Fn() -> String, operation: &(dyn Fn() -> bool + RefUnwindSafe)) {
        let start = Instant::now();
        let cpu_start = thread_time();
        let Ok(valid) = std::panic::catch_unwind(operation) else { panic!("{seed}: {}: panicked", describe()) };
        let waited = start.elapsed();
        let worked = thread_time() - cpu_start;
        assert!(worked < MAX_CPU_TIME && waited < PATIENCE, "{seed}: {}: took {worked:?} of {waited:?}", describe());
        self.tried.fetch_add(1, Ordering::Relaxed);
        self.valid.fetch_add(usize::from(valid), Ordering::Relaxed);
        self.max_micros.fetch_max(worked.as_micros() as usize, Ordering::Relaxed);
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        let Campaign { name, tried, valid, max_micros } = self;
        println!("{name}: {tried:?} mutants, {valid:?} of them still valid, the slowest took {max_micros:?} µs");
    }
}

/// Returns the number of positions to damage in a seed; `None` is all of its metadata.
fn damage_count() -> Option<usize> {
    match std::env::var("ARROWWOOD_MUTANTS") {
        Ok(text) if text == "all" => None,
        Ok(number) => Some(number.parse().expect("ARROWWOOD_MUTANTS is a number or \"all\"")),
        Err(_) => Some(20),
    }
}

/// Returns the ranges of metadata: the prefix and metadata of every message, and the footer to the last byte.
fn metadata_ranges(seed: &[u8]) -> Vec<Range<usize>> {
    let messages = OpenOptions::new().bytes(Bytes::from(seed.to_vec())).and_then(|dataset| dataset.messages()).unwrap();
    let mut ranges: Vec<_> = messages.iter().map(|m| m.offset as usize..m.body_offset as usize).collect();
    if seed.ends_with(b"ARROW1") {
        let tail = seed.len() - 10;
        let length = i32::from_le_bytes(seed[tail..tail + 4].try_into().unwrap());
        ranges.push(tail - length as usize..seed.len());
    }
    ranges
}

/// Returns the values that replace a byte.
fn replacements(before: u8) -> BTreeSet<u8> {
    let flips = (0..8).map(|bit| before ^ 1 << bit);
    let others = [0, 255, before.wrapping_add(1), before.wrapping_sub(1)];
    flips.chain(others).filter(|&after| after != before).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn memory_is_limited() {
    system::limit_memory();
    assert!(Vec::<u8>::new().try_reserve_exact(8 << 30).is_err());
}

/// Damages a seed at one position after the other.
fn damage_single_bytes(campaign: &Campaign, name: &str, seed: &[u8]) {
    let mut dice = Dice::new(seed.len() as u64);
    let positions: Vec<usize> = match damage_count() {
        Some(count) => (0..count).map(|_| dice.below(seed.len() as u64) as usize).collect(),
        None => metadata_ranges(seed).into_iter().flatten().collect(),
    };
    let mut bytes = seed.to_vec();
    for i in positions {
        for after in replacements(seed[i]) {
            bytes[i] = after;
            campaign.check_mutant(name, &bytes, &|| format!("byte {i} from {} to {after}", seed[i]));
        }
        bytes[i] = seed[i];
    }
    println!("{name}: done, {:?} mutants so far", campaign.tried);
}

#[test]
fn one_damaged_byte() {
    let campaign = Campaign::new("one damaged byte");
    let seeds = seeds();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((name, seed)) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    damage_single_bytes(&campaign, name, seed);
                }
            });
        }
    });
}

#[test]
fn several_damaged_bytes() {
    let campaign = Campaign::new("several damaged bytes");
    for (name, seed) in seeds() {
        for number in 0..damage_count().unwrap_or(500) * 4 {
            let mut dice = Dice::new(number as u64);
            let mut bytes = seed.clone();
            for _ in 0..1 + dice.below(4) {
                let i = dice.below(bytes.len() as u64) as usize;
                bytes[i] = dice.below(256) as u8;
            }
            campaign.check_mutant(&name, &bytes, &|| format!("mutant {number}"));
        }
    }
}

#[test]
fn truncated_anywhere() {
    let campaign = Campaign::new("cut off anywhere");
    for format in [Format::File, Format::Stream] {
        let original = encode_sample(format, None);
        for len in 0..original.len() {
            campaign.check_mutant(&format!("{format:?}"), &original[..len], &|| format!("cut to {len} bytes"));
        }
    }
}

#[test]
fn rows_without_bytes_take_no_time_or_memory() {
    let campaign = Campaign::new("rows without bytes");
    let rows = 1 << 40;
    let item = Arc::new(Field::new("item", DataType::Int8, true));
    let empty = new_empty_array(&DataType::Int8);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("null", Arc::new(NullArray::new(rows))),
        ("struct", Arc::new(StructArray::new_empty_fields(rows, None))),
        ("lists", Arc::new(FixedSizeListArray::try_new_with_length(item, 0, empty, None, rows).unwrap())),
    ];
    for (name, column) in columns {
        let batch = RecordBatch::try_from_iter_with_nullable([(name, column, true)]).unwrap();
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        stream.write(&batch).unwrap();
        campaign.check_mutant(name, &stream.into_inner().unwrap(), &|| "2^40 rows".into());
    }
}

/// Regression test: a file of 400 bytes can have 2^62 rows, and work for each row, or each million rows, never ended.
#[test]
fn huge_numbers_of_rows_without_bytes_are_processed_or_refused() {
    let campaign = Campaign::new("as many rows without bytes as a file can have");
    let rows = i64::MAX as usize / 2;
    let kinds: [(&str, ArrayRef); 3] = [
        ("nulls", Arc::new(NullArray::new(rows))),
        ("structs", Arc::new(StructArray::new_empty_fields(rows, None))),
        ("empty texts", empty_texts(rows, None)),
    ];
    let operations: [Operation; 12] = [
        ("collect", Dataset::collect),
        ("collect no columns", |dataset| dataset.select::<&str>(&[])?.collect()),
        ("block", |dataset| dataset.to_column_major(0).map(|_| dataset.clone())),
        ("block of no columns", |dataset| dataset.select::<&str>(&[])?.to_column_major(8).map(|_| dataset.clone())),
        ("rows", |dataset| dataset.aggregate::<&str>(&[]).count_rows("rows").finish()),
        ("last", |dataset| dataset.aggregate::<&str>(&[]).column("x", AggregateFunction::Last).finish()),
        ("count", |dataset| dataset.aggregate::<&str>(&[]).column("x", AggregateFunction::Count).finish()),
        ("group", |dataset| dataset.aggregate(&["x"]).count_rows("rows").finish()),
        ("filter", |dataset| dataset.filter(&col("x").is_null())),
        ("count of found", |dataset| {
            dataset.aggregate::<&str>(&[]).filter(col("x").is_null()).count_rows("rows").finish()
        }),
        ("unique", |dataset| dataset.unique(&["x"])),
        ("append", |dataset| {
            let mut builder = DatasetBuilder::new(dataset.schema().clone())?;
            builder.append_dataset(dataset)?;
            builder.finish()
        }),
    ];
    for (name, column) in kinds {
        let batch = single_column(column);
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        stream.write(&batch).unwrap();
        stream.write(&batch).unwrap();
        let bytes = stream.into_inner().unwrap();
        for (operation, run) in operations {
            campaign.check(name, &|| operation.into(), &|| run(&open_bytes(bytes.clone())).is_ok());
        }
        campaign.check_read_all(name, &bytes);
        let count = open_bytes(bytes).aggregate::<&str>(&[]).count_rows("rows").finish().unwrap();
        assert_eq!(count.row(0).unwrap().get(0).unwrap().to_string(), (2 * rows).to_string());
    }
}

fn open_bytes(bytes: Vec<u8>) -> Dataset {
    OpenOptions::new().bytes(Bytes::from(bytes)).unwrap()
}

/// Returns values of a type whose size is 0.
fn empty_texts(rows: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let data = ArrayData::builder(DataType::FixedSizeBinary(0)).len(rows).add_buffer(Buffer::default()).nulls(nulls);
    make_array(data.build().unwrap())
}

fn empty_text_batch(rows: usize, nulls: Option<NullBuffer>) -> RecordBatch {
    single_column(empty_texts(rows, nulls))
}

fn null_batch(rows: usize) -> RecordBatch {
    single_column(Arc::new(NullArray::new(rows)))
}

#[test]
fn rows_without_bytes_are_copied_or_refused() {
    let campaign = Campaign::new("copies of rows without bytes");
    let rows = 1 << 40;
    copy_rows(&campaign, "null", vec![null_batch(rows)]);
    copy_rows(&campaign, "two batches of null", vec![null_batch(rows), null_batch(rows)]);
    copy_rows(&campaign, "struct", vec![single_column(Arc::new(StructArray::new_empty_fields(rows, None)))]);
    let texts = empty_text_batch(rows, None);
    copy_rows(&campaign, "empty texts", vec![texts.clone()]);
    let texts_with_null = empty_text_batch(2, Some(NullBuffer::from(vec![true, false])));
    copy_rows(&campaign, "empty texts before a null", vec![texts.clone(), texts_with_null.clone()]);
    copy_rows(&campaign, "empty texts behind a null", vec![texts_with_null, texts]);
    let list_view = DataType::ListView(Arc::new(Field::new("item", DataType::Int8, true)));
    let no_items = new_empty_array(&list_view);
    let field = Arc::new(Field::new("item", list_view, true));
    let lists = FixedSizeListArray::try_new_with_length(field, 0, no_items, None, rows).unwrap();
    copy_rows(&campaign, "no list views", vec![single_column(Arc::new(lists))]);
}

fn values_without_bytes(name: &str, count: usize) -> ArrayRef {
    if name == "nulls" { Arc::new(NullArray::new(count)) } else { empty_texts(count, None) }
}

/// Returns three rows of a dictionary; the second is null, and the last has the given key.
fn dictionary_batch<K: ArrowDictionaryKeyType>(last_key: K::Native, values: ArrayRef) -> RecordBatch {
    let keys: PrimitiveArray<K> = [Some(K::Native::default()), None, Some(last_key)].into_iter().collect();
    single_column(Arc::new(DictionaryArray::try_new(keys, values).unwrap()))
}

/// Regression test: tables of the values were allocated for dictionaries of 2^60 values without bytes, which panicked
/// or ended the process.
#[test]
fn dictionaries_of_values_without_bytes_are_copied_or_refused() {
    let campaign = Campaign::new("dictionaries of values without bytes");
    for (name, groups) in [("empty texts", 2), ("nulls", 1)] {
        let many = values_without_bytes(name, 1 << 60);
        let fewer = values_without_bytes(name, 1 << 59);
        for batches in [
            vec![dictionary_batch::<Int32Type>(5, many.clone()), dictionary_batch::<Int32Type>(7, fewer.clone())],
            vec![dictionary_batch::<Int8Type>(5, many), dictionary_batch::<Int8Type>(7, fewer)],
        ] {
            copy_rows(&campaign, name, batches.clone());
            let rows = Dataset::try_from(batches).unwrap();
            assert_eq!(rows.aggregate(&["x"]).count_rows("rows").finish().unwrap().len().unwrap(), groups);
            assert_eq!(rows.unique(&["x"]).unwrap().len().unwrap(), groups);
            assert_eq!(rows.column("x").unwrap().n_unique().unwrap(), groups);
            let _ = rows.filter(&col("x").eq(Value::Bytes(b""))).map(|filtered| filtered.len());
        }
    }
}

fn item_field(items: &ArrayRef) -> Arc<Field> {
    Arc::new(Field::new("item", items.data_type().clone(), true))
}

fn empty_lists(rows: usize) -> ArrayRef {
    let field = Arc::new(Field::new("item", DataType::Utf8, true));
    let no_items = new_empty_array(&DataType::Utf8);
    Arc::new(FixedSizeListArray::try_new_with_length(field, 0, no_items, None, rows).unwrap())
}

fn single_run(rows: usize) -> ArrayRef {
    Arc::new(RunArray::<Int64Type>::try_new(&vec![rows as i64].into(), &StringArray::from(vec!["x"])).unwrap())
}

#[test]
fn items_without_bytes_are_copied_or_refused() {
    let campaign = Campaign::new("copies of items without bytes");
    let kinds: [fn(usize) -> ArrayRef; 5] = [
        |rows| Arc::new(NullArray::new(rows)),
        |rows| Arc::new(StructArray::new_empty_fields(rows, None)),
        |rows| empty_texts(rows, None),
        empty_lists,
        single_run,
    ];
    for items in kinds {
        // Large lists have offsets of 64 bits, the other types of 32 bits.
        let many = items(1 << 40);
        let few = items(i32::MAX as usize);
        let item_type = few.data_type().clone();
        let large = LargeListArray::new(item_field(&many), OffsetBuffer::new(vec![0, 1 << 40].into()), many, None);
        copy_rows(&campaign, &format!("large lists of {item_type}"), vec![single_column(Arc::new(large))]);
        let starts = vec![0; 3000].into();
        let sizes = vec![i32::MAX; 3000].into();
        let views = ListViewArray::new(item_field(&few), starts, sizes, few.clone(), None);
        copy_rows(&campaign, &format!("views of {item_type}"), vec![single_column(Arc::new(views))]);
        let small = ListArray::new(item_field(&few), OffsetBuffer::new(vec![0, i32::MAX].into()), few.clone(), None);
        copy_rows(&campaign, &format!("lists of {item_type}"), vec![single_column(Arc::new(small))]);
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(item_field(&few), i32::MAX, few, None));
        copy_rows(&campaign, &format!("fixed lists of {item_type}"), vec![single_column(fixed.clone())]);
        let nested = ListArray::new(item_field(&fixed), OffsetBuffer::new(vec![0, 1].into()), fixed, None);
        copy_rows(&campaign, &format!("lists of fixed lists of {item_type}"), vec![single_column(Arc::new(nested))]);
    }
}

/// Returns a value as JSON.
fn cell_json(dataset: &Dataset, row: u64, column: usize) -> String {
    dataset.row(row).unwrap().get(column).unwrap().to_json().unwrap().to_string()
}

#[test]
fn views_of_the_same_items_are_copied_or_refused() {
    let campaign = Campaign::new("views of the same items");
    let rows = 30_000;
    let item = Arc::new(Field::new("item", DataType::Int8, true));
    let bytes: ArrayRef = Arc::new(Int8Array::from(vec![1; rows]));
    let views = ListViewArray::new(item, vec![0; rows].into(), vec![rows as i32; rows].into(), bytes, None);
    copy_rows(&campaign, "list views", vec![single_column(Arc::new(views))]);
}

#[test]
fn taken_list_views_share_their_items() {
    let item = Arc::new(Field::new("item", DataType::Int16, true));
    let numbers: ArrayRef = Arc::new((0..12).map(|n| (n != 5).then_some(n)).collect::<Int16Array>());
    let starts = vec![3, 0, 8, 4, 0, 11, 12];
    let sizes = vec![6, 5, 4, 2, 0, 1, 0];
    let views = ListViewArray::new(item, starts.into(), sizes.into(), numbers, None);
    let batch = single_column(Arc::new(views));
    let dataset = Dataset::try_from(vec![batch.clone(), batch]).unwrap();
    let rows: Vec<i64> = vec![13, 2, 0, 7, 8, 1, 0, 3, 12, 9, 10, 4, 5, 6, 11];
    let taken = dataset.take(&rows).unwrap();
    for (i, &row) in rows.iter().enumerate() {
        assert_eq!(cell_json(&taken, i as u64, 0), cell_json(&dataset, row as u64, 0), "row {row}");
    }
    let column = taken.to_record_batches().next().unwrap().unwrap().column(0).clone();
    assert_eq!(column.as_list_view::<i32>().values().len(), 24);
}

#[test]
fn a_truncated_file_can_be_opened_partially() {
    let original = encode_sample(Format::File, None);
    let truncated = Bytes::from(original[..original.len() - 100].to_vec());
    assert!(OpenOptions::new().bytes(truncated.clone()).is_err());
    assert_eq!(OpenOptions::new().partial(true).bytes(truncated).unwrap().len().unwrap(), 100);
}

#[test]
fn zeros_do_not_end_a_stream() {
    let mut bytes = encode_sample(Format::Stream, None);
    let end = bytes.len() - 8;
    bytes.truncate(end);
    bytes.resize(end + 4096, 0);
    let bytes = Bytes::from(bytes);
    let error = OpenOptions::new().bytes(bytes.clone()).unwrap().len().unwrap_err();
    assert!(error.to_string().contains("zeros at byte"), "{error}");
    assert_eq!(OpenOptions::new().partial(true).bytes(bytes).unwrap().len().unwrap(), 100);
}

#[test]
fn a_truncated_stream_can_be_opened_partially() {
    let original = encode_sample(Format::Stream, None);
    let truncated = Bytes::from(original[..original.len() - 100].to_vec());
    assert!(OpenOptions::new().bytes(truncated.clone()).unwrap().len().is_err());
    let dataset = OpenOptions::new().partial(true).bytes(truncated).unwrap();
    assert_eq!(dataset.len().unwrap(), 50);
    assert!(dataset.skipped_tails().unwrap()[0].starts_with("valid up to batch 1, row 50: truncated"));
}

/// Creates a partition of `rows` rows in a file of 500 bytes.
fn write_rows_without_bytes(partition: &Path, rows: usize) {
    std::fs::create_dir(partition).unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("z", DataType::Null, true)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(NullArray::new(rows))]).unwrap();
    let file = std::fs::File::create(partition.join("x.arrow")).unwrap();
    let mut writer = FileWriter::try_new(file, &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

/// A partition column, a value of it, and predicates that are true and false for it.
struct PartitionCase {
    column: &'static str,
    partition: &'static str,
    json: &'static str,
    /// The bytes of a value in an array.
    width: u64,
    matching: Predicate,
    other: Predicate,
}

/// Regression test: reading a single value of a partition column allocated an array of all rows.
#[test]
fn a_partition_column_of_rows_without_bytes_takes_no_memory() {
    system::limit_memory();
    let cases = [
        PartitionCase {
            column: "day",
            partition: "day=7",
            json: "7",
            width: 8,
            matching: col("day").eq(7),
            other: col("day").eq(8),
        },
        PartitionCase {
            column: "host",
            partition: "host=a",
            json: "\"a\"",
            width: 4,
            matching: col("host").eq("a"),
            other: col("host").eq("b"),
        },
    ];
    for PartitionCase { column, partition, json, width, matching, other } in cases {
        for rows in [1 << 40, i64::MAX as u64] {
            let folder = tempfile::tempdir().unwrap();
            write_rows_without_bytes(&folder.path().join(partition), rows as usize);
            let dataset = open(folder.path()).unwrap();
            assert_eq!(dataset.len().unwrap(), rows);
            assert_eq!(cell_json(&dataset, 5, 1), json);
            assert_eq!(cell_json(&dataset, rows - 1, 1), json);
            assert_eq!(cell_json(&dataset.tail(1).unwrap(), 0, 1), json);
            assert_eq!(dataset.column(column).unwrap().get(rows / 2).unwrap().to_json().unwrap().to_string(), json);
            assert_eq!(dataset.nbytes().unwrap(), rows.saturating_mul(width));
            dataset.prefetch();
            assert_eq!(dataset.filter(&other).unwrap().len().unwrap(), 0);
            // All rows match, and an array of them needs more memory than there is.
            let _ = dataset.filter(&matching).map(|filtered| filtered.len());
            assert!(dataset.to_record_batches().next().unwrap().is_err());
            let column = dataset.column(column).unwrap();
            let _ = (column.sum().is_ok(), column.min().is_ok(), column.null_count().is_ok());
            assert!(column.chunks().is_err());
            // The array is built for the whole batch, even if few of its rows are read.
            assert!(dataset.tail(3).unwrap().to_record_batches().next().unwrap().is_err());
        }
    }
}

#[test]
fn partitions_of_more_rows_than_can_be_counted_are_refused() {
    system::limit_memory();
    let folder = tempfile::tempdir().unwrap();
    for partition in ["host=a", "host=b", "host=c"] {
        write_rows_without_bytes(&folder.path().join(partition), i64::MAX as usize);
    }
    let dataset = open(folder.path()).unwrap();
    assert!(dataset.len().unwrap_err().message().contains("2^64"));
    assert_eq!(dataset.row(5).unwrap().get(1).unwrap().to_json().unwrap(), "a");
    assert_eq!(dataset.column("host").unwrap().get(1 << 63).unwrap().to_json().unwrap(), "b");
    let _ = dataset.filter(&col("host").eq("a")).map(|filtered| filtered.len());
    assert!(dataset.to_record_batches().next().unwrap().is_err());
    let _ = (dataset.nbytes().is_ok(), dataset.tail(1).is_ok(), dataset.slice(u64::MAX - 5, 3).is_ok());
    assert!(dataset.refresh().unwrap().len().is_err());
}

/// A column that only other partitions have would be an array of nulls for all rows.
#[test]
fn nulls_of_rows_without_bytes_are_refused() {
    system::limit_memory();
    let folder = tempfile::tempdir().unwrap();
    write_rows_without_bytes(&folder.path().join("host=a"), 1 << 30);
    let other = folder.path().join("host=b");
    std::fs::create_dir(&other).unwrap();
    let columns: [(&str, ArrayRef); 2] =
        [("z", Arc::new(NullArray::new(1))), ("more", Arc::new(Int64Array::from(vec![7])))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let dataset = Dataset::try_from(vec![batch]).unwrap();
    arrowwood::write(&dataset, other.join("x.arrow"), &arrowwood::WriteOptions::default()).unwrap();
    let dataset = open(folder.path()).unwrap();
    assert_eq!(dataset.column("more").unwrap().get(1 << 30).unwrap().to_string(), "7");
    let e = dataset.column("more").unwrap().get(5).unwrap_err();
    assert!(e.message().contains("no room in memory"), "{e}");
}
