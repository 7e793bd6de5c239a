//! Implements `arrowwood head`.

use std::path::PathBuf;

use arrowwood::Dataset;
use clap::Args;

use crate::rows::open::open;
use crate::rows::output::{OutputArgs, print};
use crate::shell::{CliResult, Stdout};

/// Print the first rows.
#[derive(Args)]
#[command(after_help = "Example: arrowwood head -n 20 ticks.arrow")]
pub(crate) struct Head {
    /// Number of rows.
    #[arg(short = 'n', long, default_value_t = 10)]
    rows: u64,
    /// The columns to print, in this order.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    columns: Vec<String>,
    #[command(flatten)]
    form: OutputArgs,
    /// Files, globs or directories of one schema; - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl Head {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        let rows = open(&self.paths)?.head(self.rows)?;
        let rows = if self.columns.is_empty() { rows } else { self.select_columns(&rows)? };
        print(&rows, &self.form, out)
    }

    fn select_columns(&self, rows: &Dataset) -> CliResult<Dataset> {
        let selected = rows.select(&self.columns);
        Ok(selected.map_err(|e| match self.paths.first() {
            Some(path) => e.at(path),
            None => e,
        })?)
    }
}
