//! Arrow's own integration files, where a copy of them lies beside the checkout: every one opens, every value is read,
//! written and read again; the bytes of fuzzers give an error or values, never a panic.

use std::path::{Path, PathBuf};

use arrowwood::{Dataset, Format, Open, Value, WriteOptions, open, write};

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/arrow-testing");
    let found = std::env::var_os("ARROW_TESTING").map_or(beside, PathBuf::from);
    found.is_dir().then_some(found)
}

fn files(under: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(under) else { return };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn golden() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(corpus) = corpus() {
        files(&corpus.join("golden"), &mut found);
    }
    found.retain(|path| path.extension().is_some_and(|e| e == "arrow_file" || e == "stream"));
    found.sort();
    found
}

/// Every value as text, which reads it all.
fn text(dataset: &Dataset) -> Result<Vec<String>, arrowwood::Error> {
    let mut rows = Vec::new();
    for row in dataset.rows() {
        let mut line = String::new();
        for (name, value) in row?.iter() {
            let value: Value = value?;
            line += &format!("{name}={}|", value.to_json()?);
        }
        rows.push(line);
    }
    Ok(rows)
}

#[test]
fn golden_files_are_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    for path in golden() {
        let name = path.display();
        let dataset = open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        dataset.validate(|_, _| ()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let rows = text(&dataset).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(rows.len() as u64, dataset.len().unwrap(), "{name}");
        for batch in dataset.to_record_batches() {
            batch.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        dataset.messages().unwrap_or_else(|e| panic!("{name}: {e}"));
        for format in [Format::File, Format::Stream] {
            let copy = folder.path().join("copy.arrow");
            write(&dataset, &copy, &WriteOptions { format, ..WriteOptions::default() })
                .unwrap_or_else(|e| panic!("{name} as {format:?}: {e}"));
            let again = Open::new().strict(true).path(&copy).unwrap_or_else(|e| panic!("{name} as {format:?}: {e}"));
            assert_eq!(rows, text(&again).unwrap_or_else(|e| panic!("{name} as {format:?}: {e}")), "{name}");
        }
    }
}

#[test]
fn streams_and_files_hold_the_same() {
    for path in golden().into_iter().filter(|path| path.extension().is_some_and(|e| e == "stream")) {
        let twin = path.with_extension("arrow_file");
        if twin.exists() {
            let [a, b] = [&path, &twin].map(|path| text(&open(path).unwrap()).unwrap());
            assert_eq!(a, b, "{}", path.display());
        }
    }
}

#[test]
fn fuzzed_bytes_are_refused_or_read() {
    let mut found = Vec::new();
    if let Some(corpus) = corpus() {
        files(&corpus.join("fuzz-file"), &mut found);
        files(&corpus.join("fuzz-stream"), &mut found);
    }
    for path in found {
        if let Ok(dataset) = open(&path) {
            let _ = dataset.to_string();
            let _ = dataset.validate(|_, _| ());
            let _ = dataset.messages();
            let _ = dataset.head(1000).and_then(|head| text(&head));
        }
    }
}
