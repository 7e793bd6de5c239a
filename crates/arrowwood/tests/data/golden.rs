//! Tests that Arrow's integration files are read and rewritten, and that its fuzzers' files never cause a panic.
//!
//! Without a copy of these files, the tests pass without doing anything.

use std::path::PathBuf;

use arrowwood::{Dataset, Format, OpenOptions, WriteOptions, open, read_stream, write};

use crate::corpus::{files_below, golden_files};

fn stream_files() -> Vec<PathBuf> {
    golden_files(&[".stream"])
}

/// Returns all rows as text, which reads every value.
fn read_rows(dataset: &Dataset) -> Result<Vec<String>, arrowwood::Error> {
    let mut rows = Vec::new();
    for row in dataset.rows() {
        let mut line = String::new();
        for (name, value) in row?.iter() {
            line += &format!("{name}={}|", value?.to_json()?);
        }
        rows.push(line);
    }
    Ok(rows)
}

#[test]
fn golden_files_are_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    for path in golden_files(&[".arrow_file", ".stream"]) {
        let name = path.display();
        let dataset = open(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        dataset.validate(|_, _| ()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let rows = read_rows(&dataset).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(rows.len() as u64, dataset.len().unwrap(), "{name}");
        for batch in dataset.to_record_batches() {
            batch.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        dataset.messages().unwrap_or_else(|e| panic!("{name}: {e}"));
        for format in [Format::File, Format::Stream] {
            let copy_path = folder.path().join("copy.arrow");
            write(&dataset, &copy_path, &WriteOptions { format, ..WriteOptions::default() })
                .unwrap_or_else(|e| panic!("{name} as {format:?}: {e}"));
            let copy = OpenOptions::new()
                .strict(true)
                .path(&copy_path)
                .unwrap_or_else(|e| panic!("{name} as {format:?}: {e}"));
            assert_eq!(rows, read_rows(&copy).unwrap_or_else(|e| panic!("{name} as {format:?}: {e}")), "{name}");
        }
    }
}

#[test]
fn streams_and_files_of_one_name_have_the_same_rows() {
    for stream_path in stream_files() {
        let file_path = stream_path.with_extension("arrow_file");
        if file_path.exists() {
            let [stream_rows, file_rows] =
                [&stream_path, &file_path].map(|path| read_rows(&open(path).unwrap()).unwrap());
            assert_eq!(stream_rows, file_rows, "{}", stream_path.display());
        }
    }
}

/// A reader that returns less than a buffer asks for, as a pipe does.
struct ShortReader<'a>(&'a [u8]);

impl std::io::Read for ShortReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(self.0.len()).min(1 + self.0.len() % 97);
        let (bytes, rest) = self.0.split_at(len);
        buffer[..len].copy_from_slice(bytes);
        self.0 = rest;
        Ok(len)
    }
}

#[test]
fn streams_read_from_a_pipe_have_the_same_rows() {
    for path in stream_files() {
        let name = path.display();
        let bytes = std::fs::read(&path).unwrap();
        let stream = read_stream(ShortReader(&bytes)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let schema = stream.schema().clone();
        let batches = stream.collect::<Result<Vec<_>, _>>().unwrap_or_else(|e| panic!("{name}: {e}"));
        let in_place = open(&path).unwrap();
        assert_eq!(&schema, in_place.schema(), "{name}");
        let expected = in_place.to_record_batches().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(batches, expected, "{name}");
        let from_pipe = Dataset::from_batches(schema, batches).unwrap();
        assert_eq!(read_rows(&from_pipe).unwrap(), read_rows(&in_place).unwrap(), "{name}");
    }
}

#[test]
fn fuzzed_files_cause_no_panic() {
    for path in [files_below("fuzz-file"), files_below("fuzz-stream")].concat() {
        if let Ok(stream) = read_stream(&std::fs::read(&path).unwrap()[..]) {
            let _ = stream.map_while(Result::ok).count();
        }
        // Each call may fail.
        if let Ok(dataset) = open(&path) {
            let _ = dataset.to_string();
            let _ = dataset.validate(|_, _| ());
            let _ = dataset.messages();
            let _ = dataset.head(1000).and_then(|head| read_rows(&head));
        }
    }
}
