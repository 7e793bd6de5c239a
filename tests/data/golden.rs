//! Arrow's own integration files, where a copy of them lies beside the checkout: every one opens, every value is read,
//! written and read again; the bytes of fuzzers give an error or values, never a panic.

use std::path::{Path, PathBuf};

use arrowwood::{Dataset, Format, OpenOptions, Value, WriteOptions, open, read_stream, write};

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
            let again =
                OpenOptions::new().strict(true).path(&copy).unwrap_or_else(|e| panic!("{name} as {format:?}: {e}"));
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

/// Gives what it has bit by bit, as a pipe does.
struct Dripping<'a>(&'a [u8]);

impl std::io::Read for Dripping<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = into.len().min(self.0.len()).min(1 + self.0.len() % 97);
        let (now, later) = self.0.split_at(len);
        into[..len].copy_from_slice(now);
        self.0 = later;
        Ok(len)
    }
}

#[test]
fn streams_read_from_a_pipe_hold_the_same() {
    for path in golden().into_iter().filter(|path| path.extension().is_some_and(|e| e == "stream")) {
        let name = path.display();
        let bytes = std::fs::read(&path).unwrap();
        let stream = read_stream(Dripping(&bytes)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let schema = stream.schema().clone();
        let batches = stream.collect::<Result<Vec<_>, _>>().unwrap_or_else(|e| panic!("{name}: {e}"));
        let in_place = open(&path).unwrap();
        assert_eq!(&schema, in_place.schema(), "{name}");
        let expected = in_place.to_record_batches().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(batches, expected, "{name}");
        let read = Dataset::from_batches(schema, batches).unwrap();
        assert_eq!(text(&read).unwrap(), text(&in_place).unwrap(), "{name}");
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
        if let Ok(stream) = read_stream(&std::fs::read(&path).unwrap()[..]) {
            let _ = stream.map_while(Result::ok).count();
        }
        if let Ok(dataset) = open(&path) {
            let _ = dataset.to_string();
            let _ = dataset.validate(|_, _| ());
            let _ = dataset.messages();
            let _ = dataset.head(1000).and_then(|head| text(&head));
        }
    }
}
