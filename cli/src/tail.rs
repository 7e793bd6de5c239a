//! `arrowwood tail`.

use std::path::PathBuf;

use clap::Args;

use crate::rows::{Form, print};
use crate::shell::{Outcome, Stdout, open};

/// Prints the last rows.
#[derive(Args)]
#[command(after_help = "Example: arrowwood tail --csv ticks.arrow")]
pub(crate) struct Tail {
    /// How many rows.
    #[arg(short = 'n', long, default_value_t = 10)]
    rows: u64,
    #[command(flatten)]
    form: Form,
    /// Files, globs or directories of one schema; - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl Tail {
    pub(crate) fn run(&self, out: &mut Stdout) -> Outcome {
        print(&open(&self.paths)?.tail(self.rows)?, &self.form, out)
    }
}
