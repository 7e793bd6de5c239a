//! Helpers shared by the verbs: standard input and output, progress on the terminal, failures.

use std::fmt::Display;
use std::fs;
use std::io::{self, BufWriter, IsTerminal, Read, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrowwood::{
    Bytes, Dataset, Error, OpenOptions, concat_opened, escape_hidden, escape_hidden_json, format_bytes, metadata_at,
    plural,
};
use indicatif::{ProgressBar, ProgressStyle};

/// The result of a verb.
pub(crate) type CliResult<T = ()> = Result<T, CliError>;

/// Why a verb failed.
pub(crate) struct CliError(Error);

impl CliError {
    pub(crate) fn new(message: &str) -> CliError {
        CliError(Error::new(arrowwood::ErrorKind::InvalidArgument, message))
    }

    /// The failure with its path, unless it names one.
    pub(crate) fn at(&self, path: &Path) -> CliError {
        CliError(self.0.clone().at(path))
    }

    /// The failure with its input, if it names none or another path.
    pub(crate) fn with_input(self, input: &Path) -> CliError {
        match self.0.path() {
            Some(path) if path != input => CliError(self.0.context(printable_path(input))),
            _ => self.at(input),
        }
    }

    /// The failure of an operation that had appended `rows` rows.
    pub(crate) fn after_appending(self, rows: u64) -> CliError {
        match rows {
            0 => self,
            _ => CliError(self.0.context(format_args!("{} appended, then", plural(rows, "row", "rows")))),
        }
    }

    /// The failure on one line, even if names contain line breaks.
    pub(crate) fn to_line(&self) -> String {
        let message = single_line(self.0.message());
        self.0.path().map_or(message.clone(), |path| format!("{}: {message}", printable_path(path)))
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> CliError {
        CliError(error)
    }
}

/// The only direct input or output of verbs is printing.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError(Error::io("writing to standard output", &error))
    }
}

/// Buffered standard output that remembers that its reader has exited: `… | head -n 5` is not an error.
pub(crate) struct Stdout {
    buffer: BufWriter<StdoutLock<'static>>,
    reader_left: bool,
}

impl Stdout {
    pub(crate) fn new() -> Stdout {
        Stdout { buffer: BufWriter::with_capacity(1 << 16, io::stdout().lock()), reader_left: false }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.reader_left
    }

    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.reader_left |= result.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.buffer.write(bytes);
        self.watch(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.buffer.flush();
        self.watch(flushed)
    }
}

/// All `paths` as one dataset.
pub(crate) fn open(paths: &[PathBuf]) -> CliResult<Dataset> {
    let opened = paths.iter().map(|path| open_one(path)).collect::<CliResult<Vec<_>>>()?;
    let names: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    Ok(concat_opened(&names, &opened)?)
}

pub(crate) fn open_one(path: &Path) -> CliResult<Dataset> {
    if cannot_be_mapped(path)? {
        return Ok(OpenOptions::new().bytes(read_bytes(path)?).map_err(|e| e.at(stdin_or_path(path)))?);
    }
    Ok(OpenOptions::new().path(path)?)
}

/// Whether a path has to be read to its end before it can be opened.
pub(crate) fn cannot_be_mapped(path: &Path) -> CliResult<bool> {
    Ok(is_dash(path) || is_pipe(path)?)
}

/// All bytes of an Arrow stream or file that can't be mapped. Other input is refused by its first bytes, since it may
/// be endless.
pub(crate) fn read_bytes(path: &Path) -> CliResult<Bytes> {
    let failed = |e: io::Error| Error::io("reading", &e).at(stdin_or_path(path));
    let mut source = reader(path)?;
    let mut bytes = Vec::new();
    for room in BEGINNINGS {
        let before = bytes.len() as u64;
        source.by_ref().take(room - before).read_to_end(&mut bytes).map_err(failed)?;
        let is_all = (bytes.len() as u64) < room;
        if is_all || bytes.starts_with(b"ARROW1") {
            break;
        }
        let begins = OpenOptions::new().partial(true).bytes(Bytes::from(bytes.clone()));
        match begins {
            Ok(_) => break,
            // The schema may be larger, but not larger than the available memory.
            Err(e) if Some(&room) == BEGINNINGS.last() || is_text(&bytes) => {
                return Err(e.at(stdin_or_path(path)).into());
            }
            Err(_) => (),
        }
    }
    source.read_to_end(&mut bytes).map_err(failed)?;
    Ok(Bytes::from(bytes))
}

/// The first bytes to read of a possibly endless input: they nearly always contain the schema.
const BEGINNINGS: [u64; 4] = [4 << 10, 64 << 10, 4 << 20, 64 << 20];

/// Whether the bytes may be text. A message has zeros in its lengths.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && !bytes.starts_with(&[0xff])
}

/// Whether a path is `-`: standard input, or for what is written standard output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}

/// Pipes, as in `arrowwood head <(zcat ticks.arrow.gz)`, can be read but not mapped.
pub(crate) fn is_pipe(path: &Path) -> CliResult<bool> {
    Ok(metadata_at(path)?.is_some_and(|data| !data.is_file() && !data.is_dir()))
}

/// Opens a file, or input from a pipe, of which no more is read than fits into memory.
pub(crate) fn reader(path: &Path) -> CliResult<Box<dyn Read>> {
    if is_dash(path) {
        return Ok(Box::new(BoundedReader::new(io::stdin().lock())));
    }
    let file = fs::File::open(path).map_err(|e| Error::io("opening", &e).at(path))?;
    if is_pipe(path)? {
        return Ok(Box::new(BoundedReader::new(file)));
    }
    Ok(Box::new(file))
}

/// A reader that fails before its input takes all memory.
pub(crate) struct BoundedReader<R> {
    source: R,
    read: u64,
    most: u64,
}

impl<R: Read> BoundedReader<R> {
    pub(crate) fn new(source: R) -> BoundedReader<R> {
        // The rest is for the results computed from it.
        BoundedReader {
            source,
            read: 0,
            most: arrowwood::mapping::free_memory().map_or(u64::MAX, |bytes| bytes / 4 * 3),
        }
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let came = self.source.read(into)?;
        self.read += came as u64;
        if self.read > self.most {
            let most = format_bytes(self.most);
            let message = format!("more came than there is memory for, {most}; write it to a file, which is mapped");
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
        }
        Ok(came)
    }
}

/// The path as used in messages.
pub(crate) fn stdin_or_path(path: &Path) -> &Path {
    if is_dash(path) { Path::new("standard input") } else { path }
}

/// The path as it is printed.
pub(crate) fn printable_path(path: &Path) -> String {
    escape_hidden(&stdin_or_path(path).to_string_lossy()).into_owned()
}

/// A message of several lines on one.
pub(crate) fn single_line(text: &str) -> String {
    escape_hidden(&text.replace(['\n', '\r'], " ")).into_owned()
}

/// Prints a line on standard error. If that fails there is no one to tell, and what was done is done.
#[expect(clippy::disallowed_methods, reason = "this is where the command does it")]
pub(crate) fn eprint_line(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Prints a line of JSON, with escapes for control characters.
pub(crate) fn print_json(out: &mut impl Write, json: impl Display) -> io::Result<()> {
    writeln!(out, "{}", escape_hidden_json(&json.to_string()))
}

/// The terminal's width, or that of a page of text.
pub(crate) fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| width.0.into())
}

/// Prints `rows` with their columns aligned.
pub(crate) fn write_aligned(out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.chars().count().max(*width));
    }
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// A progress bar on the terminal for operations longer than a second; nothing elsewhere.
pub(crate) struct Progress {
    what: String,
    start: Instant,
    is_seen: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(what: impl Into<String>) -> Progress {
        #[expect(clippy::disallowed_methods, reason = "nothing is printed")]
        let is_seen = io::stderr().is_terminal();
        Progress { what: what.into(), start: Instant::now(), is_seen, bar: None }
    }

    /// For progress while rows are printed: no bar among the lines of a terminal.
    pub(crate) fn for_output(what: impl Into<String>) -> Progress {
        let mut progress = Progress::new(what);
        progress.is_seen &= !io::stdout().is_terminal();
        progress
    }

    /// Reports that `done` of `total` are done.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        if self.is_seen && self.bar.is_none() && self.start.elapsed() > Duration::from_secs(1) {
            self.bar = Some(bar(&self.what, total));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(what: &str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
    ProgressBar::new(total)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what.to_string())
}
