//! Standard output and standard error.

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

use arrowwood::readable::escape_hidden_json;

/// The number of bytes that are printed at once.
const OUTPUT_BUFFER: usize = 64 << 10;
/// The width of lines that go to no terminal.
const DEFAULT_WIDTH: usize = 100;

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
