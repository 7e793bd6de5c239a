//! `arrowwood cat`.

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;

use arrowwood::{Dataset, Format, WriteOptions, write_to};
use clap::Args;

use crate::rows::{Form, write_csv, write_json};
use crate::shell::{Failure, Outcome, Stdout, open};

/// Writes all rows to standard output, by default as an Arrow IPC stream.
#[derive(Args)]
#[command(after_help = "Example: arrowwood cat 'ticks/*.arrow' | arrowwood head -")]
pub(crate) struct Cat {
    #[command(flatten)]
    form: Form,
    /// Files, globs or directories of one schema; - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl Cat {
    pub(crate) fn run(&self, out: &mut Stdout) -> Outcome {
        let dataset = open(&self.paths)?;
        match self.form {
            Form { csv: true, .. } => write_csv(&dataset, out),
            Form { json: true, .. } => write_json(&dataset, out),
            _ => write_stream(&dataset, out),
        }
    }
}

fn write_stream(dataset: &Dataset, out: &mut Stdout) -> Outcome {
    if stdout().is_terminal() {
        return Err(Failure::hint("an Arrow stream is nothing for a terminal; redirect it, or add --csv or --json"));
    }
    Ok(write_to(dataset, out, &WriteOptions { format: Format::Stream, ..WriteOptions::default() })?)
}
