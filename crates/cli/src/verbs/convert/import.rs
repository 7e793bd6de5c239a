//! Implements `arrowwood import`.

use std::io::Read;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::{
    Compression, Dataset, Error, ErrorKind, FileWriter, Format, StreamWriter, TextBatches, TextFile, TextTarget,
    WriteOptions, decompress_reader, local_path, read_csv_in_order, read_json_in_order, write, write_to,
};
use clap::{Args, ValueEnum};

use crate::engine::{Engine, engine_error, is_parquet, require_parquet};
use crate::rows::detect_format::BYTE_ORDER_MARK;
use crate::rows::text_args::{TextArgs, extension};
use crate::shell::{CliResult, Progress, Stdout, is_dash, is_pipe, printable_path, reader, stdin_or_path};

/// Convert CSV, or JSON objects, one per line or in an array, to an Arrow file. Types are inferred from all values: a
/// file is read again if a later value does not fit those of its beginning. It may be larger than memory, and
/// compressed with gzip or zstd. Parquet, which keeps its types, needs the Python package: pip install
/// 'arrowwood[parquet]'.
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
    /// Text columns to dictionary-encode.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    dictionary: Vec<String>,
    #[command(flatten)]
    form: TextArgs,
    /// Write an IPC stream instead of a file, as for names ending in .arrows.
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

/// The number of bytes by which JSON is told from CSV.
const HEAD_BYTES: u64 = 4096;
/// The first bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";

/// The text to import: a file, or memory filled from a pipe.
enum TextSource {
    File(TextFile),
    Memory(Vec<u8>),
}

impl TextSource {
    fn open(&self) -> Result<Box<dyn Read + Send + '_>, Error> {
        match self {
            TextSource::File(file) => Ok(file.open()?),
            TextSource::Memory(bytes) => decompress_reader(&bytes[..]),
        }
    }
}

/// The writer of the output.
enum OutputWriter<'a> {
    File(FileWriter),
    Stream(StreamWriter<&'a mut Stdout>),
}

/// Writes batches as they are parsed.
struct OutputTarget<'a, 't> {
    /// Standard output, until the writer takes it.
    out: Option<&'a mut Stdout>,
    /// The path to write to, or `None` for standard output.
    path: Option<&'a Path>,
    compression: Option<Compression>,
    writer: Option<OutputWriter<'a>>,
    progress: TextProgress<'t>,
}

impl TextTarget for OutputTarget<'_, '_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), Error> {
        // After a restart, dropping the writer removes the unfinished file before another one is created.
        self.writer = None;
        self.writer = Some(match (self.path, self.out.take()) {
            (Some(path), _) => OutputWriter::File(FileWriter::create(path, schema.clone(), self.compression)?),
            (None, Some(out)) => OutputWriter::Stream(StreamWriter::new(out, schema.clone(), self.compression)?),
            (None, None) => {
                return Err(Error::new(ErrorKind::Internal, "a stream to standard output can't begin again"));
            }
        });
        Ok(())
    }

    fn take(&mut self, batch: RecordBatch) -> Result<(), Error> {
        let batch = Dataset::from_batches(batch.schema(), vec![batch])?;
        match &mut self.writer {
            Some(OutputWriter::File(writer)) => writer.write(&batch),
            Some(OutputWriter::Stream(writer)) => writer.write(&batch),
            None => Err(Error::new(ErrorKind::Internal, "rows come before their schema")),
        }
    }

    fn tick(&mut self, passes: u64) -> Result<(), Error> {
        self.progress.tick(passes);
        Ok(())
    }

    fn can_restart(&self) -> bool {
        self.path.is_some()
    }
}

/// Shows how much of a text was read, over all passes.
struct TextProgress<'t> {
    text: &'t TextSource,
    bar: Progress,
}

impl TextProgress<'_> {
    fn tick(&mut self, passes: u64) {
        if let TextSource::File(file) = self.text {
            self.bar.update(file.bytes_read(), passes * file.len());
        }
    }
}

impl Import {
    pub(crate) fn run(&self, out: &mut Stdout, engine: Option<&dyn Engine>) -> CliResult {
        if is_parquet(&self.text) {
            let path = local_path(&self.text)?.unwrap_or_else(|| self.text.clone());
            let rows = require_parquet(engine)?.read_parquet(&path).map_err(|problem| engine_error(problem, &path))?;
            return self.write(&rows, out);
        }
        let text = self.open_text().map_err(|e| e.at(stdin_or_path(&self.text)))?;
        // All rows are collected for a file with dictionaries, which has one for all batches, and for outputs that
        // can't be written batch by batch.
        let is_stream = self.options().format == Format::Stream;
        if !self.dictionary.is_empty() || !is_dash(&self.out) && (is_stream || is_pipe(&self.out)?) {
            return self.write(&self.collect(&text)?, out);
        }
        let compression = self.options().compression;
        let path = if is_dash(&self.out) { None } else { Some(self.out.as_path()) };
        let mut target =
            OutputTarget { out: Some(out), path, compression, writer: None, progress: self.progress(&text) };
        self.read(&text, &mut target).map_err(|e| e.at(stdin_or_path(&self.text)))?;
        match target.writer {
            Some(OutputWriter::File(writer)) => writer.finish()?,
            Some(OutputWriter::Stream(writer)) => {
                writer.finish()?;
            }
            None => {}
        }
        Ok(())
    }

    fn write(&self, dataset: &Dataset, out: &mut Stdout) -> CliResult {
        if is_dash(&self.out) {
            write_to(dataset, out, &WriteOptions { format: Format::Stream, ..self.options() })?;
        } else {
            write(dataset, &self.out, &self.options())?;
        }
        Ok(())
    }

    /// Reads all rows into memory.
    fn collect(&self, text: &TextSource) -> CliResult<Dataset> {
        let mut progress = self.progress(text);
        let mut on_tick = |passes| progress.tick(passes);
        let mut target = TextBatches::with_progress(&mut on_tick);
        let schema = self.read(text, &mut target).map_err(|e| e.at(stdin_or_path(&self.text)))?;
        Ok(Dataset::from_batches(schema, target.batches)?)
    }

    fn open_text(&self) -> CliResult<TextSource> {
        let local = local_path(&self.text)?;
        let path = local.as_deref().unwrap_or(&self.text);
        if !is_dash(path) && !is_pipe(path)? {
            return Ok(TextSource::File(TextFile::new(path)?));
        }
        let mut bytes = Vec::new();
        reader(&self.text)?.read_to_end(&mut bytes).map_err(|e| Error::io("reading", &e))?;
        Ok(TextSource::Memory(bytes))
    }

    /// Creates a progress bar for reading `text`.
    fn progress<'a>(&self, text: &'a TextSource) -> TextProgress<'a> {
        TextProgress { text, bar: Progress::new(format!("reading {}", printable_path(&self.text))) }
    }

    fn read(&self, text: &TextSource, target: &mut dyn TextTarget) -> Result<SchemaRef, Error> {
        if self.is_json(text)? {
            let mut options = self.form.json();
            options.dictionary = self.dictionary.clone();
            return read_json_in_order(&|| text.open(), &options, target);
        }
        let mut options = self.form.csv(&self.text);
        options.dictionary = self.dictionary.clone();
        read_csv_in_order(&|| text.open(), &options, target)
    }

    fn is_json(&self, text: &TextSource) -> Result<bool, Error> {
        match extension(&self.text).as_str() {
            "json" | "jsonl" | "ndjson" => return Ok(true),
            "csv" | "tsv" => return Ok(false),
            _ => {}
        }
        let mut head = Vec::new();
        text.open()?.take(HEAD_BYTES).read_to_end(&mut head).map_err(|e| Error::io("reading", &e))?;
        if head.starts_with(PARQUET) {
            return Err(Error::new(ErrorKind::Unsupported, "Parquet, which is imported from a file called *.parquet"));
        }
        let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head).trim_ascii_start();
        let inside = head.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
        Ok(head.starts_with(b"{") || inside.is_some_and(|inside| inside.starts_with(b"{") || inside.starts_with(b"]")))
    }

    fn options(&self) -> WriteOptions {
        let compression = self.compression.map(|codec| match codec {
            Codec::Lz4 => Compression::Lz4,
            Codec::Zstd => Compression::Zstd,
        });
        let format = if self.stream || extension(&self.out) == "arrows" { Format::Stream } else { Format::File };
        WriteOptions { format, compression, ..WriteOptions::default() }
    }
}
