//! Implements `arrowwood cat`.

use std::io::{self, IsTerminal, Write, stdout};
use std::path::PathBuf;

use arrowwood::{Dataset, Format, WriteOptions, write_to};
use clap::Args;

use crate::rows::open::open;
use crate::rows::output::{OutputArgs, write_csv, write_json};
use crate::shell::{CliError, CliResult, Progress, Stdout};

/// Write all rows to standard output, by default as an Arrow IPC stream.
#[derive(Args)]
#[command(after_help = "Example: arrowwood cat 'ticks/*.arrow' | arrowwood head -")]
pub(crate) struct Cat {
    #[command(flatten)]
    form: OutputArgs,
    /// Files, globs or directories of one schema; - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl Cat {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        let dataset = open(&self.paths)?;
        match self.form {
            OutputArgs { csv: true, .. } => write_csv(&dataset, out),
            OutputArgs { json: true, .. } => write_json(&dataset, out),
            _ => write_stream(&dataset, out),
        }
    }
}

fn write_stream(dataset: &Dataset, out: &mut Stdout) -> CliResult {
    if stdout().is_terminal() {
        return Err(CliError::new("an Arrow stream can't be shown on a terminal; redirect it, or add --csv or --json"));
    }
    let progress = Progress::for_output("writing");
    let mut out = ProgressWriter { out, done: 0, total: dataset.nbytes()?, progress };
    Ok(write_to(dataset, &mut out, &WriteOptions { format: Format::Stream, ..WriteOptions::default() })?)
}

/// Standard output with a progress bar, as a stream takes about as many bytes as the buffers in it.
struct ProgressWriter<'a> {
    out: &'a mut Stdout,
    done: u64,
    total: u64,
    progress: Progress,
}

impl Write for ProgressWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.done += written as u64;
        self.progress.update(self.done.min(self.total), self.total);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
