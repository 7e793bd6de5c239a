//! Damaged bytes give an error or values: never a panic, and never more memory or time than the input is worth.
//!
//! Every seed is mutated byte by byte (each bit flipped, 0, 255, ±1) and by many bytes at once, deterministically; then
//! all that a reader could ask is asked. `ARROWWOOD_MUTANTS` sets how many mutants of each kind a seed gets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::builder::{Int32Builder, ListBuilder, StringDictionaryBuilder};
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrowwood::{Bytes, Compression, Dataset, Format, Open, WriteOptions, write_to};

/// A generator of numbers that needs no crate and gives the same ones everywhere (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 1).unwrap()
    }
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
    seeds
}

/// Asks everything there is to ask; what the answers are does not matter here.
fn exercise(bytes: &[u8]) -> bool {
    let Ok(dataset) = Open::new().bytes(Bytes::from(bytes.to_vec())) else { return false };
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
        // Rows without bytes (nulls, empty structs) may be declared by the billion.
        if column.len().is_ok_and(|len| len < 1_000_000) {
            let _ = (column.sum().is_ok(), column.min().is_ok(), column.null_count().is_ok());
        }
    }
    if valid && dataset.len().is_ok_and(|len| len < 1_000_000) {
        let _ = dataset.to_record_batches().map(|batch| batch.is_ok()).filter(|ok| *ok).count();
        let _ = write_to(&dataset, &mut std::io::sink(), &WriteOptions::default());
    }
    valid
}

fn try_mutant(name: &str, bytes: &[u8], how: &str) {
    let start = Instant::now();
    let outcome = std::panic::catch_unwind(|| exercise(bytes));
    assert!(outcome.is_ok(), "{name}: {how}: panicked");
    assert!(start.elapsed() < Duration::from_secs(10), "{name}: {how}: took {:?}", start.elapsed());
}

fn mutants() -> usize {
    std::env::var("ARROWWOOD_MUTANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(20)
}

#[test]
fn one_damaged_byte() {
    for (name, seed) in seeds() {
        let mut numbers = Numbers(seed.len() as u64 + 1);
        for _ in 0..mutants() {
            let at = numbers.next() % seed.len();
            let before = seed[at];
            let flips = (0..8).map(|bit| before ^ 1 << bit);
            for after in flips.chain([0, 255, before.wrapping_add(1), before.wrapping_sub(1)]) {
                let mut bytes = seed.clone();
                bytes[at] = after;
                try_mutant(&name, &bytes, &format!("byte {at} from {before} to {after}"));
            }
        }
    }
}

#[test]
fn several_damaged_bytes() {
    for (name, seed) in seeds() {
        for number in 0..mutants() * 4 {
            let mut numbers = Numbers((number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut bytes = seed.clone();
            for _ in 0..1 + numbers.next() % 4 {
                let at = numbers.next() % bytes.len();
                bytes[at] = numbers.next() as u8;
            }
            try_mutant(&name, &bytes, &format!("mutant {number}"));
        }
    }
}

#[test]
fn cut_off_anywhere() {
    for format in [Format::File, Format::Stream] {
        let whole = written(format, None);
        for len in 0..whole.len() {
            try_mutant(&format!("{format:?}"), &whole[..len], &format!("cut to {len} bytes"));
        }
    }
}

#[test]
fn a_cut_file_opens_in_part() {
    let whole = written(Format::File, None);
    let cut = Bytes::from(whole[..whole.len() - 100].to_vec());
    assert!(Open::new().bytes(cut.clone()).is_err());
    assert_eq!(Open::new().partial(true).bytes(cut).unwrap().len().unwrap(), 100);
}

#[test]
fn zeros_are_no_end_of_a_stream() {
    let mut bytes = written(Format::Stream, None);
    let end = bytes.len() - 8;
    bytes.truncate(end);
    bytes.resize(end + 4096, 0);
    let bytes = Bytes::from(bytes);
    let error = Open::new().bytes(bytes.clone()).unwrap().len().unwrap_err();
    assert!(error.to_string().contains("zeros at byte"), "{error}");
    assert_eq!(Open::new().partial(true).bytes(bytes).unwrap().len().unwrap(), 100);
}

#[test]
fn a_cut_stream_opens_in_part() {
    let whole = written(Format::Stream, None);
    let cut = Bytes::from(whole[..whole.len() - 100].to_vec());
    assert!(Open::new().bytes(cut.clone()).unwrap().len().is_err());
    let part = Open::new().partial(true).bytes(cut).unwrap();
    assert_eq!(part.len().unwrap(), 50);
    assert!(part.left().unwrap()[0].starts_with("valid up to batch 1, row 50: truncated"));
}
