//! Damaged bytes give an error or values: never a panic, and never more memory or time than the input is worth.
//!
//! Every seed is mutated byte by byte (each bit flipped, 0, 255, ±1) and by many bytes at once, deterministically; then
//! all that a reader could ask is asked, within limits of memory and time. `ARROWWOOD_MUTANTS` sets how many places of
//! a seed are damaged; with `all` it is every byte of the metadata of every message and of the footer. Of many seeds,
//! `ARROWWOOD_MUTANTS_PART` takes some: `0/10` is each tenth, from the first on.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::RefUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::builder::{Int32Builder, ListBuilder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type};
use arrow_array::*;
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{
    AggregateFunction, Bytes, Compression, Dataset, DatasetBuilder, Format, OpenOptions, Predicate, Result, Value,
    WriteOptions, col, open, read_stream, write_to,
};

#[path = "support/dice.rs"]
mod dice;
#[path = "support/thread.rs"]
mod thread;
#[path = "support/wait.rs"]
mod wait;

use dice::Dice;
use thread::thread_time;
use wait::PATIENCE;

/// Per mutant, of the processor's time. By the clock it may be `PATIENCE`: threads that wait for each other take no
/// processor's time.
const LONGEST: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// What the standard library can't ask of the system.
mod system {
    #![allow(unsafe_code)]

    /// A limit on memory for the whole process: an allocation that no input here is worth fails, and aborts the tests.
    #[cfg(target_os = "linux")]
    pub fn limit_memory() {
        static ONCE: std::sync::Once = std::sync::Once::new();
        const ABOVE_TODAY: u64 = 4 << 30;
        ONCE.call_once(|| {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
            let kilobytes: u64 = size.trim().trim_end_matches(" kB").parse().unwrap();
            let most = (kilobytes << 10) + ABOVE_TODAY;
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
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

fn written(format: Format, compression: Option<Compression>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_to(&sample(), &mut bytes, &WriteOptions { format, compression, ..WriteOptions::default() }).unwrap();
    bytes
}

fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for format in [Format::File, Format::Stream] {
        for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
            seeds.push((format!("{format:?} {compression:?}"), written(format, compression)));
        }
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/arrow-testing");
    let corpus = std::env::var_os("ARROW_TESTING").map_or(beside, PathBuf::from);
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
    // Folders are listed in any order.
    seeds.sort();
    let (first, parts) = part();
    seeds.into_iter().skip(first).step_by(parts).collect()
}

/// Which of the seeds are damaged: the first of them, and of how many one.
fn part() -> (usize, usize) {
    let Ok(part) = std::env::var("ARROWWOOD_MUTANTS_PART") else { return (0, 1) };
    let (first, parts) =
        part.split_once('/').expect("ARROWWOOD_MUTANTS_PART is a part and how many there are, as in 0/10");
    (first.parse().unwrap(), parts.parse().unwrap())
}

/// Asks everything there is to ask; what the answers are does not matter here.
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

/// A question, and what gives the rows that it finds.
type Copying = (&'static str, fn(&Dataset) -> Result<Dataset>);

/// The questions that copy rows or their numbers.
const COPIES: &[Copying] = &[
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

/// Asks all of [`COPIES`] of a column `x`, and for the first batch of each answer.
fn copy_rows(campaign: &Campaign, name: &str, batches: Vec<RecordBatch>) {
    let mut bytes = Vec::new();
    let stream = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
    write_to(&Dataset::try_from(batches).unwrap(), &mut bytes, &stream).unwrap();
    for (question, copy) in COPIES {
        campaign.ask(name, &|| (*question).into(), &|| {
            let dataset = OpenOptions::new().bytes(Bytes::from(bytes.clone())).unwrap();
            copy(&dataset).and_then(|found| found.to_record_batches().next().transpose()).is_ok()
        });
    }
    campaign.ask(name, &|| "read_all".into(), &|| read_stream(&bytes[..]).and_then(|stream| stream.read_all()).is_ok());
}

fn of_column(column: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap()
}

/// Mutants of one kind: tries them and counts them.
struct Campaign {
    name: &'static str,
    tried: AtomicUsize,
    valid: AtomicUsize,
    /// Microseconds of the slowest.
    worked: AtomicUsize,
}

impl Campaign {
    fn new(name: &'static str) -> Campaign {
        system::limit_memory();
        let [tried, valid, worked] = [0; 3].map(AtomicUsize::new);
        Campaign { name, tried, valid, worked }
    }

    fn one(&self, seed: &str, bytes: &[u8], how: &dyn Fn() -> String) {
        self.ask(seed, how, &|| exercise(bytes));
    }

    /// Asks something that tells whether the bytes are valid.
    fn ask(&self, seed: &str, how: &dyn Fn() -> String, question: &(dyn Fn() -> bool + RefUnwindSafe)) {
        let (clock, begin) = (Instant::now(), thread_time());
        let Ok(valid) = std::panic::catch_unwind(question) else { panic!("{seed}: {}: panicked", how()) };
        let (waited, worked) = (clock.elapsed(), thread_time() - begin);
        assert!(worked < LONGEST && waited < PATIENCE, "{seed}: {}: took {worked:?} of {waited:?}", how());
        self.tried.fetch_add(1, Ordering::Relaxed);
        self.valid.fetch_add(usize::from(valid), Ordering::Relaxed);
        self.worked.fetch_max(worked.as_micros() as usize, Ordering::Relaxed);
    }
}

impl Drop for Campaign {
    fn drop(&mut self) {
        let Campaign { name, tried, valid, worked } = self;
        println!("{name}: {tried:?} mutants, {valid:?} of them still valid, the slowest took {worked:?} µs");
    }
}

/// How many places of a seed are damaged; `None` for all of its metadata.
fn places() -> Option<usize> {
    match std::env::var("ARROWWOOD_MUTANTS") {
        Ok(all) if all == "all" => None,
        Ok(number) => Some(number.parse().expect("ARROWWOOD_MUTANTS is a number or \"all\"")),
        Err(_) => Some(20),
    }
}

/// The bytes that say what the others are: prefix and metadata of every message, and the footer to the last byte.
fn metadata(seed: &[u8]) -> Vec<Range<usize>> {
    let messages = OpenOptions::new().bytes(Bytes::from(seed.to_vec())).and_then(|dataset| dataset.messages()).unwrap();
    let mut ranges: Vec<_> = messages.iter().map(|m| m.offset as usize..m.body_offset as usize).collect();
    if seed.ends_with(b"ARROW1") {
        let tail = seed.len() - 10;
        let length = i32::from_le_bytes(seed[tail..tail + 4].try_into().unwrap());
        ranges.push(tail - length as usize..seed.len());
    }
    ranges
}

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

#[test]
fn one_damaged_byte() {
    let campaign = Campaign::new("one damaged byte");
    let damage = |(name, seed): &(String, Vec<u8>)| {
        let mut dice = Dice::new(seed.len() as u64);
        let places: Vec<_> = match places() {
            Some(number) => (0..number).map(|_| dice.below(seed.len() as u64) as usize).collect(),
            None => metadata(seed).into_iter().flatten().collect(),
        };
        let mut bytes = seed.clone();
        for at in places {
            for after in replacements(seed[at]) {
                bytes[at] = after;
                campaign.one(name, &bytes, &|| format!("byte {at} from {} to {after}", seed[at]));
            }
            bytes[at] = seed[at];
        }
        println!("{name}: done, {:?} mutants so far", campaign.tried);
    };
    let (seeds, next) = (seeds(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    damage(seed)
                }
            });
        }
    });
}

#[test]
fn several_damaged_bytes() {
    let campaign = Campaign::new("several damaged bytes");
    for (name, seed) in seeds() {
        for number in 0..places().unwrap_or(500) * 4 {
            let mut dice = Dice::new(number as u64);
            let mut bytes = seed.clone();
            for _ in 0..1 + dice.below(4) {
                let at = dice.below(bytes.len() as u64) as usize;
                bytes[at] = dice.below(256) as u8;
            }
            campaign.one(&name, &bytes, &|| format!("mutant {number}"));
        }
    }
}

#[test]
fn cut_off_anywhere() {
    let campaign = Campaign::new("cut off anywhere");
    for format in [Format::File, Format::Stream] {
        let whole = written(format, None);
        for len in 0..whole.len() {
            campaign.one(&format!("{format:?}"), &whole[..len], &|| format!("cut to {len} bytes"));
        }
    }
}

#[test]
fn rows_without_bytes_cost_nothing() {
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
        campaign.one(name, &stream.into_inner().unwrap(), &|| "2^40 rows".into());
    }
}

/// Work that is done for each row, or for each million of them, never ended: 400 bytes were enough.
#[test]
fn more_rows_without_bytes_than_anybody_can_count_are_an_answer_or_refused() {
    let campaign = Campaign::new("as many rows without bytes as a file can have");
    let rows = i64::MAX as usize / 2;
    let kinds: [(&str, ArrayRef); 3] = [
        ("nulls", Arc::new(NullArray::new(rows))),
        ("structs", Arc::new(StructArray::new_empty_fields(rows, None))),
        ("empty texts", empty_texts(rows, None)),
    ];
    let questions: [Copying; 12] = [
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
        let batch = of_column(column);
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        (0..2).for_each(|_| stream.write(&batch).unwrap());
        let bytes = stream.into_inner().unwrap();
        let opened = || OpenOptions::new().bytes(Bytes::from(bytes.clone())).unwrap();
        for (question, ask) in questions {
            campaign.ask(name, &|| question.into(), &|| ask(&opened()).is_ok());
        }
        let read = || read_stream(&bytes[..]).and_then(|stream| stream.read_all()).is_ok();
        campaign.ask(name, &|| "read_all".into(), &read);
        let counted = opened().aggregate::<&str>(&[]).count_rows("rows").finish().unwrap();
        assert_eq!(counted.row(0).unwrap().get(0).unwrap().to_string(), (2 * rows).to_string());
    }
}

fn empty_texts(rows: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let built = ArrayData::builder(DataType::FixedSizeBinary(0)).len(rows).add_buffer(Buffer::default()).nulls(nulls);
    make_array(built.build().unwrap())
}

#[test]
fn rows_without_bytes_are_copied_or_refused() {
    let campaign = Campaign::new("copies of rows without bytes");
    let rows = 1 << 40;
    let nulls = || -> ArrayRef { Arc::new(NullArray::new(rows)) };
    copy_rows(&campaign, "null", vec![of_column(nulls())]);
    copy_rows(&campaign, "two batches of null", vec![of_column(nulls()), of_column(nulls())]);
    copy_rows(&campaign, "struct", vec![of_column(Arc::new(StructArray::new_empty_fields(rows, None)))]);
    let batch = |rows, nulls| of_column(empty_texts(rows, nulls));
    copy_rows(&campaign, "empty texts", vec![batch(rows, None)]);
    let null = || Some(NullBuffer::from(vec![true, false]));
    copy_rows(&campaign, "empty texts before a null", vec![batch(rows, None), batch(2, null())]);
    copy_rows(&campaign, "empty texts behind a null", vec![batch(2, null()), batch(rows, None)]);
    let field =
        Arc::new(Field::new("item", DataType::ListView(Arc::new(Field::new("item", DataType::Int8, true))), true));
    let none = new_empty_array(field.data_type());
    let lists = FixedSizeListArray::try_new_with_length(field, 0, none, None, rows).unwrap();
    copy_rows(&campaign, "no list views", vec![of_column(Arc::new(lists))]);
}

/// A dictionary of 2^60 values without bytes: tables of them were made for two rows, which panicked, or ended the process.
#[test]
fn dictionaries_of_values_without_bytes_are_copied_or_refused() {
    let campaign = Campaign::new("dictionaries of values without bytes");
    for name in ["empty texts", "nulls"] {
        let values = |count| -> ArrayRef {
            if name == "nulls" { Arc::new(NullArray::new(count)) } else { empty_texts(count, None) }
        };
        let wide = |last: i32, count: usize| {
            let keys = Int32Array::from(vec![Some(0), None, Some(last)]);
            of_column(Arc::new(DictionaryArray::try_new(keys, values(count)).unwrap()))
        };
        let narrow = |last: i8, count: usize| {
            let keys = Int8Array::from(vec![Some(0), None, Some(last)]);
            of_column(Arc::new(DictionaryArray::try_new(keys, values(count)).unwrap()))
        };
        for batches in [vec![wide(5, 1 << 60), wide(7, 1 << 59)], vec![narrow(5, 1 << 60), narrow(7, 1 << 59)]] {
            copy_rows(&campaign, name, batches.clone());
            let rows = Dataset::try_from(batches).unwrap();
            let groups = if name == "nulls" { 1 } else { 2 };
            assert_eq!(rows.aggregate(&["x"]).count_rows("rows").finish().unwrap().len().unwrap(), groups);
            assert_eq!(rows.unique(&["x"]).unwrap().len().unwrap(), groups);
            assert_eq!(rows.column("x").unwrap().n_unique().unwrap(), groups);
            let _ = rows.filter(&col("x").eq(Value::Bytes(b""))).map(|found| found.len());
        }
    }
}

#[test]
fn items_without_bytes_are_copied_or_refused() {
    let campaign = Campaign::new("copies of items without bytes");
    let item = |items: &ArrayRef| Arc::new(Field::new("item", items.data_type().clone(), true));
    let most = i32::MAX as usize;
    let runs = |rows: usize| -> ArrayRef {
        Arc::new(RunArray::<Int64Type>::try_new(&vec![rows as i64].into(), &StringArray::from(vec!["x"])).unwrap())
    };
    let kinds: [fn(usize) -> ArrayRef; 4] = [
        |rows| Arc::new(NullArray::new(rows)),
        |rows| Arc::new(StructArray::new_empty_fields(rows, None)),
        |rows| empty_texts(rows, None),
        |rows| {
            let item = Arc::new(Field::new("item", DataType::Utf8, true));
            let none = new_empty_array(&DataType::Utf8);
            Arc::new(FixedSizeListArray::try_new_with_length(item, 0, none, None, rows).unwrap())
        },
    ];
    let items = kinds.iter().map(|kind| (kind(1 << 40), kind(most))).chain([(runs(1 << 40), runs(most))]);
    for (many, few) in items {
        let large = LargeListArray::new(item(&many), OffsetBuffer::new(vec![0, 1 << 40].into()), many.clone(), None);
        copy_rows(&campaign, &format!("large lists of {}", many.data_type()), vec![of_column(Arc::new(large))]);
        let views =
            ListViewArray::new(item(&few), vec![0; 3000].into(), vec![i32::MAX; 3000].into(), few.clone(), None);
        copy_rows(&campaign, &format!("views of {}", few.data_type()), vec![of_column(Arc::new(views))]);
        let small = ListArray::new(item(&few), OffsetBuffer::new(vec![0, i32::MAX].into()), few.clone(), None);
        copy_rows(&campaign, &format!("lists of {}", few.data_type()), vec![of_column(Arc::new(small))]);
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(item(&few), i32::MAX, few.clone(), None));
        copy_rows(&campaign, &format!("fixed lists of {}", few.data_type()), vec![of_column(fixed.clone())]);
        let nested = ListArray::new(item(&fixed), OffsetBuffer::new(vec![0, 1].into()), fixed, None);
        copy_rows(
            &campaign,
            &format!("lists of fixed lists of {}", few.data_type()),
            vec![of_column(Arc::new(nested))],
        );
    }
}

#[test]
fn views_of_the_same_items_are_copied_or_refused() {
    let campaign = Campaign::new("views of the same items");
    let rows = 30_000;
    let item = Arc::new(Field::new("item", DataType::Int8, true));
    let bytes: ArrayRef = Arc::new(Int8Array::from(vec![1; rows]));
    let views = ListViewArray::new(item, vec![0; rows].into(), vec![rows as i32; rows].into(), bytes, None);
    copy_rows(&campaign, "list views", vec![of_column(Arc::new(views))]);
}

#[test]
fn views_that_share_items_go_on_sharing_them() {
    let item = Arc::new(Field::new("item", DataType::Int16, true));
    let numbers: ArrayRef = Arc::new((0..12).map(|n| (n != 5).then_some(n)).collect::<Int16Array>());
    let (starts, sizes) = (vec![3, 0, 8, 4, 0, 11, 12], vec![6, 5, 4, 2, 0, 1, 0]);
    let views = ListViewArray::new(item, starts.into(), sizes.into(), numbers, None);
    let batch = of_column(Arc::new(views));
    let dataset = Dataset::try_from(vec![batch.clone(), batch]).unwrap();
    let rows: Vec<i64> = vec![13, 2, 0, 7, 8, 1, 0, 3, 12, 9, 10, 4, 5, 6, 11];
    let taken = dataset.take(&rows).unwrap();
    let text =
        |dataset: &Dataset, row: i64| format!("{:?}", dataset.row(row as u64).unwrap().get(0).unwrap().to_json());
    for (at, &row) in rows.iter().enumerate() {
        assert_eq!(text(&taken, at as i64), text(&dataset, row), "row {row}");
    }
    let column = taken.to_record_batches().next().unwrap().unwrap().column(0).clone();
    assert_eq!(column.as_list_view::<i32>().values().len(), 24);
}

#[test]
fn a_cut_file_opens_in_part() {
    let whole = written(Format::File, None);
    let cut = Bytes::from(whole[..whole.len() - 100].to_vec());
    assert!(OpenOptions::new().bytes(cut.clone()).is_err());
    assert_eq!(OpenOptions::new().partial(true).bytes(cut).unwrap().len().unwrap(), 100);
}

#[test]
fn zeros_are_no_end_of_a_stream() {
    let mut bytes = written(Format::Stream, None);
    let end = bytes.len() - 8;
    bytes.truncate(end);
    bytes.resize(end + 4096, 0);
    let bytes = Bytes::from(bytes);
    let error = OpenOptions::new().bytes(bytes.clone()).unwrap().len().unwrap_err();
    assert!(error.to_string().contains("zeros at byte"), "{error}");
    assert_eq!(OpenOptions::new().partial(true).bytes(bytes).unwrap().len().unwrap(), 100);
}

#[test]
fn a_cut_stream_opens_in_part() {
    let whole = written(Format::Stream, None);
    let cut = Bytes::from(whole[..whole.len() - 100].to_vec());
    assert!(OpenOptions::new().bytes(cut.clone()).unwrap().len().is_err());
    let part = OpenOptions::new().partial(true).bytes(cut).unwrap();
    assert_eq!(part.len().unwrap(), 50);
    assert!(part.skipped_tails().unwrap()[0].starts_with("valid up to batch 1, row 50: truncated"));
}

/// Makes the partition `place` of `rows` rows in a file of 500 bytes.
fn put_rows_without_bytes(place: &Path, rows: usize) {
    std::fs::create_dir(place).unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("z", DataType::Null, true)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(NullArray::new(rows))]).unwrap();
    let file = std::fs::File::create(place.join("x.arrow")).unwrap();
    let mut writer = FileWriter::try_new(file, &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

/// A value of a partition column, and whatever asks for no more, took an array of all rows.
#[test]
fn a_partition_column_of_rows_without_bytes_takes_no_memory() {
    system::limit_memory();
    let cases: [(&str, &str, &str, u64, Predicate, Predicate); 2] = [
        ("day", "day=7", "7", 8, col("day").eq(7), col("day").eq(8)),
        ("host", "host=a", "\"a\"", 4, col("host").eq("a"), col("host").eq("b")),
    ];
    for (column, partition, value, width, holds, fails) in cases {
        for rows in [1 << 40, i64::MAX as u64] {
            let folder = tempfile::tempdir().unwrap();
            put_rows_without_bytes(&folder.path().join(partition), rows as usize);
            let dataset = open(folder.path()).unwrap();
            assert_eq!(dataset.len().unwrap(), rows);
            let cell =
                |dataset: &Dataset, row: u64| dataset.row(row).unwrap().get(1).unwrap().to_json().unwrap().to_string();
            assert_eq!([cell(&dataset, 5), cell(&dataset, rows - 1), cell(&dataset.tail(1).unwrap(), 0)], [value; 3]);
            assert_eq!(dataset.column(column).unwrap().get(rows / 2).unwrap().to_json().unwrap().to_string(), value);
            assert_eq!(dataset.nbytes().unwrap(), rows.saturating_mul(width));
            dataset.prefetch();
            assert_eq!(dataset.filter(&fails).unwrap().len().unwrap(), 0);
            // All rows, which take more memory than there is as an array.
            let _ = dataset.filter(&holds).map(|found| found.len());
            assert!(dataset.to_record_batches().next().unwrap().is_err());
            let column = dataset.column(column).unwrap();
            let _ = (column.sum().is_ok(), column.min().is_ok(), column.null_count().is_ok());
            assert!(column.chunks().is_err());
            // The array of their batch.
            assert!(dataset.tail(3).unwrap().to_record_batches().next().unwrap().is_err());
        }
    }
}

#[test]
fn partitions_of_more_rows_than_can_be_counted_are_refused() {
    system::limit_memory();
    let folder = tempfile::tempdir().unwrap();
    for partition in ["host=a", "host=b", "host=c"] {
        put_rows_without_bytes(&folder.path().join(partition), i64::MAX as usize);
    }
    let dataset = open(folder.path()).unwrap();
    assert!(dataset.len().unwrap_err().message().contains("2^64"));
    assert_eq!(dataset.row(5).unwrap().get(1).unwrap().to_json().unwrap(), "a");
    assert_eq!(dataset.column("host").unwrap().get(1 << 63).unwrap().to_json().unwrap(), "b");
    let _ = dataset.filter(&col("host").eq("a")).map(|found| found.len());
    assert!(dataset.to_record_batches().next().unwrap().is_err());
    let _ = (dataset.nbytes().is_ok(), dataset.tail(1).is_ok(), dataset.slice(u64::MAX - 5, 3).is_ok());
    assert!(dataset.refresh().unwrap().len().is_err());
}

/// A column that only other partitions have is null, in an array of all rows.
#[test]
fn nulls_of_rows_without_bytes_are_refused() {
    system::limit_memory();
    let folder = tempfile::tempdir().unwrap();
    put_rows_without_bytes(&folder.path().join("host=a"), 1 << 30);
    let other = folder.path().join("host=b");
    std::fs::create_dir(&other).unwrap();
    let columns: [(&str, ArrayRef); 2] =
        [("z", Arc::new(NullArray::new(1))), ("more", Arc::new(Int64Array::from(vec![7])))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let rows = Dataset::try_from(vec![batch]).unwrap();
    arrowwood::write(&rows, other.join("x.arrow"), &arrowwood::WriteOptions::default()).unwrap();
    let dataset = open(folder.path()).unwrap();
    assert_eq!(dataset.column("more").unwrap().get(1 << 30).unwrap().to_string(), "7");
    let e = dataset.column("more").unwrap().get(5).unwrap_err();
    assert!(e.message().contains("no room in memory"), "{e}");
}
