//! Rows to append: Arrow data, CSV or JSON lines, from files or pipes.

use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::{
    Bytes, CsvOptions, Dataset, Error, JsonOptions, Open, StreamReader, read_csv_from, read_json_from, read_stream,
    stream_csv, stream_json,
};
use clap::ValueEnum;

use crate::shell::{Bounded, Failure, Outcome, is_dash, open_one, shown};

/// The format of rows.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// An Arrow IPC file or stream.
    Ipc,
    /// CSV with column names in its first line.
    Csv,
    /// JSON with one object per line.
    Json,
}

pub(crate) type Source = Box<dyn Read + Send>;

/// Batches as they arrive.
pub(crate) type Batches = Box<dyn Iterator<Item = arrowwood::Result<RecordBatch>> + Send>;

/// An input, read as far as needed to detect its format.
pub(crate) enum Input {
    Whole(Dataset),
    Stream(StreamReader<Source>),
    Csv(Source, u8),
    Json(Source),
}

/// Rows of a known schema.
pub(crate) enum Rows {
    Whole(Dataset),
    Coming(Batches),
}

impl Input {
    /// Opens a path, or standard input. Without a format, it is detected from the name, or from the first bytes.
    pub(crate) fn open(path: &Path, format: Option<Format>, delimiter: Option<u8>) -> Outcome<Input> {
        let named = format.or_else(|| by_name(path));
        let is_text = matches!(named, Some(Format::Csv | Format::Json));
        if path.is_dir() || is_file(path) && named == Some(Format::Ipc) {
            return Ok(Input::Whole(open_one(path)?));
        }
        let failed = |e: io::Error| Error::io("reading", &e).at(shown(path));
        let mut source = source(path).map_err(failed)?;
        let mut head = Vec::new();
        let found = if is_text { Found::of(named) } else { sniff(&mut source, &mut head).map_err(failed)? };
        let found = if named == Some(Format::Ipc) && found != Found::File { Found::Stream } else { found };
        let is_tsv = path.extension().is_some_and(|extension| extension == "tsv");
        let mut source: Source = Box::new(Cursor::new(head).chain(source));
        let input = match found {
            Found::Stream if is_file(path) => Input::Whole(open_one(path)?),
            Found::Stream => Input::Stream(read_stream(source).map_err(|e| e.at(shown(path)))?),
            Found::File => Input::Whole(file(&mut source).map_err(|e| e.at(shown(path)))?),
            Found::Csv => Input::Csv(source, delimiter.unwrap_or(if is_tsv { b'\t' } else { b',' })),
            Found::Json => Input::Json(source),
        };
        Ok(input)
    }

    /// The input's own schema. Text is read to its end: types are inferred from all values.
    pub(crate) fn with_schema(self) -> Outcome<(SchemaRef, Input)> {
        let whole = |(schema, batches): (SchemaRef, Vec<RecordBatch>)| -> Outcome<(SchemaRef, Input)> {
            if schema.fields().is_empty() {
                return Err(Failure::hint("the input is empty, so no schema can be inferred; give one with --schema"));
            }
            Ok((schema.clone(), Input::Whole(Dataset::from_batches(schema, batches)?)))
        };
        match self {
            Input::Csv(source, delimiter) => {
                let mut options = CsvOptions::default();
                options.delimiter = delimiter;
                whole(read_csv_from(Bounded::new(source), &options)?)
            }
            Input::Json(source) => whole(read_json_from(Bounded::new(source), &JsonOptions::default())?),
            Input::Whole(dataset) => Ok((dataset.schema().clone(), Input::Whole(dataset))),
            Input::Stream(stream) => Ok((stream.schema().clone(), Input::Stream(stream))),
        }
    }

    /// The rows, parsed from text by `schema`: at most `batch_rows` at once, none later than `patience` after its
    /// arrival.
    pub(crate) fn rows(self, schema: &SchemaRef, batch_rows: usize, patience: Duration) -> Outcome<Rows> {
        Ok(match self {
            Input::Whole(dataset) => Rows::Whole(dataset),
            Input::Stream(stream) => Rows::Coming(Box::new(stream)),
            Input::Csv(source, delimiter) => {
                let mut options = CsvOptions::default();
                (options.schema, options.delimiter, options.batch_rows) = (Some(schema.clone()), delimiter, batch_rows);
                Rows::Coming(Box::new(stream_csv(source, &options, patience)?))
            }
            Input::Json(source) => {
                let mut options = JsonOptions::default();
                (options.schema, options.batch_rows) = (Some(schema.clone()), batch_rows);
                Rows::Coming(Box::new(stream_json(source, &options, patience)?))
            }
        })
    }
}

/// Whether `path` is a regular file, which has an end.
pub(crate) fn is_file(path: &Path) -> bool {
    !is_dash(path) && fs::metadata(path).is_ok_and(|data| data.is_file())
}

fn by_name(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "arrow" | "arrows" | "feather" | "ipc" => Some(Format::Ipc),
        "csv" | "tsv" => Some(Format::Csv),
        "json" | "jsonl" | "ndjson" => Some(Format::Json),
        _ => None,
    }
}

fn source(path: &Path) -> io::Result<Source> {
    if is_dash(path) { Ok(Box::new(io::stdin())) } else { Ok(Box::new(File::open(path)?)) }
}

fn file(source: &mut Source) -> arrowwood::Result<Dataset> {
    let mut bytes = Vec::new();
    Bounded::new(source).read_to_end(&mut bytes).map_err(|e| Error::io("reading", &e))?;
    Open::new().bytes(Bytes::from(bytes))
}

/// The format suggested by the first bytes of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    File,
    Stream,
    Csv,
    Json,
}

impl Found {
    fn of(format: Option<Format>) -> Found {
        if format == Some(Format::Json) { Found::Json } else { Found::Csv }
    }
}

/// Reads into `head` until the format is clear.
fn sniff(source: &mut Source, head: &mut Vec<u8>) -> io::Result<Found> {
    let mut block = [0; 4096];
    loop {
        let len = match source.read(&mut block) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            len => len?,
        };
        head.extend_from_slice(&block[..len]);
        if let Some(found) = look(head, len == 0) {
            return Ok(found);
        }
    }
}

/// The format that `head` begins, if clear; it must be decided if `head` is the whole input.
fn look(head: &[u8], is_all: bool) -> Option<Found> {
    const MAGIC: &[u8] = b"ARROW1";
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    match text.first() {
        _ if head.starts_with(MAGIC) => Some(Found::File),
        _ if !is_all && MAGIC.starts_with(head) => None,
        // Message lengths contain zeros, or are marked by bytes that text never has.
        _ if head.first() == Some(&0xff) || head.contains(&0) => Some(Found::Stream),
        // Nobody begins a table with a page of spaces.
        None if is_all || head.len() > 1 << 16 => Some(Found::Json),
        None => None,
        Some(b'{' | b'[') => Some(Found::Json),
        Some(_) if is_all || head.len() >= 4 || head.contains(&b'\n') => Some(Found::Csv),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_what_comes() {
        for (head, found) in [
            (&b"ARROW1\0\0"[..], Found::File),
            (&b"\xff\xff\xff\xff\x10\x01"[..], Found::Stream),
            (&b"\x50\x01\0\0"[..], Found::Stream),
            (&b"  \n{\"a\": 1}"[..], Found::Json),
            (&b"\xef\xbb\xbf{"[..], Found::Json),
            (&b"a\n"[..], Found::Csv),
            (&b"ARROW,b\n"[..], Found::Csv),
            (&b"ts,price\n"[..], Found::Csv),
        ] {
            assert_eq!(look(head, false), Some(found), "{head:?}");
        }
        for (head, found) in [(&b"ARRO"[..], Found::Csv), (&b"a"[..], Found::Csv), (&b"\n"[..], Found::Json)] {
            assert_eq!((look(head, false), look(head, true)), (None, Some(found)), "{head:?}");
        }
    }
}
