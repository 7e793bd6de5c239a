//! Shares standard input and output, progress on the terminal, and errors between the verbs.

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

/// The reason why a verb failed.
pub(crate) struct CliError(Error);

impl CliError {
    pub(crate) fn new(message: &str) -> CliError {
        CliError(Error::new(arrowwood::ErrorKind::InvalidArgument, message))
    }

    /// Adds the path to the error, unless it names one.
    pub(crate) fn at(&self, path: &Path) -> CliError {
        CliError(self.0.clone().at(path))
    }

    /// Adds the input to the error, if it names none or another path.
    pub(crate) fn with_input(self, input: &Path) -> CliError {
        match self.0.path() {
            Some(path) if path != input => CliError(self.0.context(printable_path(input))),
            _ => self.at(input),
        }
    }

    /// Adds that the failed operation had appended `rows` rows.
    pub(crate) fn after_appending(self, rows: u64) -> CliError {
        match rows {
            0 => self,
            _ => CliError(self.0.context(format_args!("{} appended, then", plural(rows, "row", "rows")))),
        }
    }

    /// Returns the error on one line, even if names contain line breaks.
    pub(crate) fn to_line(&self) -> String {
        let message = single_line(self.0.message());
        match self.0.path() {
            Some(path) => format!("{}: {message}", printable_path(path)),
            None => message,
        }
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> CliError {
        CliError(error)
    }
}

/// Converts errors of printing, which is the only direct input or output of verbs.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError(Error::io("writing to standard output", &error))
    }
}

/// The number of bytes that are printed at once.
const OUTPUT_BUFFER: usize = 64 << 10;
/// The width of lines that go to no terminal.
const DEFAULT_WIDTH: usize = 100;
/// How long an operation takes before its progress is shown.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// Buffered standard output that remembers that its reader has exited, as `… | head -n 5` is not an error.
pub(crate) struct Stdout {
    buffer: BufWriter<StdoutLock<'static>>,
    is_broken_pipe: bool,
}

impl Stdout {
    pub(crate) fn new() -> Stdout {
        Stdout { buffer: BufWriter::with_capacity(OUTPUT_BUFFER, io::stdout().lock()), is_broken_pipe: false }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.is_broken_pipe
    }

    fn record_broken_pipe<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_broken_pipe |= result.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.buffer.write(bytes);
        self.record_broken_pipe(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.buffer.flush();
        self.record_broken_pipe(flushed)
    }
}

/// Opens all `paths` as one dataset.
pub(crate) fn open(paths: &[PathBuf]) -> CliResult<Dataset> {
    let opened = paths.iter().map(|path| open_one(path)).collect::<CliResult<Vec<_>>>()?;
    let names: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    Ok(concat_opened(&names, &opened)?)
}

/// Opens a path, or standard input for `-`.
pub(crate) fn open_one(path: &Path) -> CliResult<Dataset> {
    if cannot_be_mapped(path)? {
        return Ok(OpenOptions::new().bytes(read_bytes(path)?).map_err(|e| e.at(stdin_or_path(path)))?);
    }
    Ok(OpenOptions::new().path(path)?)
}

/// Returns true if a path has to be read to its end before it can be opened.
pub(crate) fn cannot_be_mapped(path: &Path) -> CliResult<bool> {
    Ok(is_dash(path) || is_pipe(path)?)
}

/// Reads all bytes of an Arrow stream or file that can't be mapped. Other input is refused by its first bytes, since it
/// may be endless.
pub(crate) fn read_bytes(path: &Path) -> CliResult<Bytes> {
    let mut source = reader(path)?;
    let mut bytes = Vec::new();
    for limit in HEAD_LIMITS {
        assert!(bytes.len() as u64 <= limit, "the limits of the first bytes decrease");
        let missing = limit - bytes.len() as u64;
        source.by_ref().take(missing).read_to_end(&mut bytes).map_err(|e| reading_error(&e, path))?;
        let is_all = (bytes.len() as u64) < limit;
        if is_all || bytes.starts_with(b"ARROW1") {
            break;
        }
        match OpenOptions::new().partial(true).bytes(Bytes::from(bytes.clone())) {
            Ok(_) => break,
            // The schema may be larger than these bytes, but not than all of the limits.
            Err(e) if Some(&limit) == HEAD_LIMITS.last() || is_text(&bytes) => {
                return Err(e.at(stdin_or_path(path)).into());
            }
            Err(_) => (),
        }
    }
    source.read_to_end(&mut bytes).map_err(|e| reading_error(&e, path))?;
    Ok(Bytes::from(bytes))
}

/// The numbers of bytes to read of a possibly endless input until its schema is complete, which it nearly always is
/// after the first.
const HEAD_LIMITS: [u64; 4] = [4 << 10, 64 << 10, 4 << 20, 64 << 20];

/// Returns an error of reading `path`, or standard input.
pub(crate) fn reading_error(error: &io::Error, path: &Path) -> Error {
    Error::io("reading", error).at(stdin_or_path(path))
}

/// Returns true if the bytes may be text. A message has zeros in its lengths.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && !bytes.starts_with(&[0xff])
}

/// Returns true for `-`, which stands for standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns true for pipes, as in `arrowwood head <(zcat ticks.arrow.gz)`, which can be read but not mapped.
pub(crate) fn is_pipe(path: &Path) -> CliResult<bool> {
    Ok(metadata_at(path)?.is_some_and(|metadata| !metadata.is_file() && !metadata.is_dir()))
}

/// Opens a file, or a pipe that fails before its input takes all memory.
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
    bytes_read: u64,
    /// Reading more is an error.
    max_bytes: u64,
}

impl<R: Read> BoundedReader<R> {
    pub(crate) fn new(source: R) -> BoundedReader<R> {
        // A quarter of the memory is left for the results computed from the input.
        let max_bytes = arrowwood::mapping::free_memory().map_or(u64::MAX, |bytes| bytes / 4 * 3);
        BoundedReader { source, bytes_read: 0, max_bytes }
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(into)?;
        self.bytes_read += len as u64;
        if self.bytes_read > self.max_bytes {
            let limit = format_bytes(self.max_bytes);
            let message = format!("more came than there is memory for, {limit}; write it to a file, which is mapped");
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
        }
        Ok(len)
    }
}

/// Returns the path for messages, with a name for standard input.
pub(crate) fn stdin_or_path(path: &Path) -> &Path {
    if is_dash(path) { Path::new("standard input") } else { path }
}

/// Returns the path for printing, without characters that could control a terminal.
pub(crate) fn printable_path(path: &Path) -> String {
    escape_hidden(&stdin_or_path(path).to_string_lossy()).into_owned()
}

/// Puts a message of several lines on one.
pub(crate) fn single_line(text: &str) -> String {
    escape_hidden(&text.replace(['\n', '\r'], " ")).into_owned()
}

/// Prints a line on standard error. A failure is ignored, as there is no other place to report it.
#[expect(clippy::disallowed_methods, reason = "this is where the command does it")]
pub(crate) fn eprint_line(line: impl Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Prints a line of JSON, with escapes for control characters.
pub(crate) fn print_json(out: &mut impl Write, json: impl Display) -> io::Result<()> {
    writeln!(out, "{}", escape_hidden_json(&json.to_string()))
}

/// Returns the terminal's width in characters, or 100 without a terminal.
pub(crate) fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(DEFAULT_WIDTH, |(width, _)| width.0.into())
}

/// Prints `rows` with their columns aligned.
pub(crate) fn write_aligned(out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// A progress bar on the terminal for operations longer than [`PROGRESS_DELAY`]. It does nothing if standard error is
/// not a terminal.
pub(crate) struct Progress {
    /// What is being done, as the bar says it.
    operation: String,
    start: Instant,
    is_visible: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(operation: impl Into<String>) -> Progress {
        #[expect(clippy::disallowed_methods, reason = "nothing is printed")]
        let is_visible = io::stderr().is_terminal();
        Progress { operation: operation.into(), start: Instant::now(), is_visible, bar: None }
    }

    /// Creates a bar for an operation that prints rows. It does nothing if they go to a terminal, to keep the bar out
    /// of their lines.
    pub(crate) fn for_output(operation: impl Into<String>) -> Progress {
        let mut progress = Progress::new(operation);
        progress.is_visible &= !io::stdout().is_terminal();
        progress
    }

    /// Reports that `done` units of `total` are done.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        if self.is_visible && self.bar.is_none() && self.start.elapsed() > PROGRESS_DELAY {
            self.bar = Some(progress_bar(&self.operation, total));
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

fn progress_bar(operation: &str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {percent} %, {eta} left");
    ProgressBar::new(total)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(operation.to_string())
}
