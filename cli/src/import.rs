//! `arrowwood import`.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use arrowwood::{
    Compression, CsvOptions, Dataset, Error, Format, JsonOptions, WriteOptions, read_csv_from, read_json_from, write,
    write_to,
};
use clap::{Args, ValueEnum};

use crate::shell::{Outcome, Progress, Stdout, is_stdin, named, reader, shown};

/// Convert CSV, or JSON objects, one per line or in an array, to an Arrow file. Types are inferred from all values.
#[derive(Args)]
#[command(after_help = "Example: arrowwood import ticks.csv ticks.arrow --dictionary symbol")]
pub(crate) struct Import {
    /// The text: CSV with column names in its first line, or JSON, recognised by .json, .jsonl, .ndjson or its first
    /// bytes; - is standard input.
    #[arg(value_name = "TEXT")]
    text: PathBuf,
    /// The file to write; - is standard output, as a stream.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// A text column to dictionary-encode; may be repeated.
    #[arg(long, value_name = "COLUMN")]
    dictionary: Vec<String>,
    /// Delimiter of CSV fields: a character, or tab.
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// Write an IPC stream instead of a file.
    #[arg(long)]
    stream: bool,
    /// Compress; compressed files are decompressed on reading.
    #[arg(long)]
    compression: Option<Codec>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Codec {
    Lz4,
    Zstd,
}

/// A delimiter on the command line.
pub(crate) fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("expected one ASCII character, or tab".into()),
    }
}

impl Import {
    pub(crate) fn run(&self, out: &mut Stdout) -> Outcome {
        let options = self.options();
        let dataset = self.read().map_err(|e| e.at(shown(&self.text)))?;
        if is_stdin(&self.out) {
            write_to(&dataset, out, &WriteOptions { format: Format::Stream, ..options })?;
        } else {
            write(&dataset, &self.out, &options)?;
        }
        Ok(())
    }

    fn read(&self) -> Outcome<Dataset> {
        let mut text = BufReader::new(Watched::new(&self.text)?);
        let dictionary = self.dictionary.clone();
        let (schema, batches) = if self.is_json(&mut text)? {
            let mut options = JsonOptions::default();
            options.dictionary = dictionary;
            read_json_from(text, &options)?
        } else {
            let mut options = CsvOptions::default();
            (options.delimiter, options.dictionary) = (self.delimiter, dictionary);
            read_csv_from(text, &options)?
        };
        Ok(Dataset::from_batches(schema, batches)?)
    }

    fn is_json(&self, text: &mut impl BufRead) -> Outcome<bool> {
        match self.text.extension().and_then(|extension| extension.to_str()) {
            Some("json" | "jsonl" | "ndjson") => return Ok(true),
            Some("csv" | "tsv") => return Ok(false),
            _ => {}
        }
        let head = text.fill_buf().map_err(|e| Error::io("reading", &e))?;
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        let inside = head.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
        Ok(head.starts_with(b"{") || inside.is_some_and(|inside| inside.starts_with(b"{") || inside.starts_with(b"]")))
    }

    fn options(&self) -> WriteOptions {
        let compression = self.compression.map(|codec| match codec {
            Codec::Lz4 => Compression::Lz4,
            Codec::Zstd => Compression::Zstd,
        });
        let format = if self.stream { Format::Stream } else { Format::File };
        WriteOptions { format, compression, ..WriteOptions::default() }
    }
}

/// A reader with progress.
struct Watched {
    reader: Box<dyn Read>,
    done: u64,
    total: u64,
    progress: Progress,
}

impl Watched {
    fn new(path: &Path) -> Outcome<Watched> {
        let total = std::fs::metadata(path).map_or(0, |data| data.len());
        let progress = Progress::new(format!("reading {}", named(path)));
        Ok(Watched { reader: reader(path)?, done: 0, total, progress })
    }
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.done += read as u64;
        self.progress.at(self.done, self.total);
        Ok(read)
    }
}
