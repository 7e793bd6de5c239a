//! Implements `arrowwood tail`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrowwood::{Dataset, FollowFrom, Partition, follow, follow_partitions};
use clap::Args;

use crate::rows::open::{open, open_one};
use crate::rows::output::{OutputArgs, Printer, print};
use crate::shell::{CliError, CliResult, Stdout};

/// Print the last rows, and with -f those appended to a table from then on.
#[derive(Args)]
#[command(after_help = "Example: arrowwood tail --csv ticks.arrow\nExample: arrowwood tail -f ticks")]
pub(crate) struct Tail {
    /// Number of rows.
    #[arg(short = 'n', long, default_value_t = 10)]
    rows: u64,
    /// Continue with rows appended to the table, until interrupted.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    form: OutputArgs,
    /// Files, globs or directories of one schema; - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl Tail {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        match &self.paths[..] {
            [table] if self.follow => self.follow(table, out),
            _ if self.follow => Err(CliError::new("only one table can be followed at a time")),
            paths => print(&open(paths)?.tail(self.rows)?, &self.form, out),
        }
    }

    fn follow(&self, path: &Path, out: &mut Stdout) -> CliResult {
        let table = open_one(path)?;
        if !table.partitions().is_empty() {
            return self.follow_partitions(&table, path, out);
        }
        let rows = table.len()?;
        let start = table.first_row() + rows - rows.min(self.rows);
        let batches = follow(&table, Some(start), None).map_err(|e| e.at(path))?;
        let mut printer = Printer::new(table.schema(), &self.form);
        // The first rows may arrive late. The heading shows that rows committed from now on will be printed.
        printer.begin(table.schema(), out)?;
        out.flush()?;
        for rows in batches {
            printer.print(&rows?, out)?;
            out.flush()?;
        }
        Ok(())
    }

    /// Prints the last rows of all partitions, then new rows of any.
    fn follow_partitions(&self, table: &Dataset, path: &Path, out: &mut Stdout) -> CliResult {
        let mut next_rows = BTreeMap::new();
        for Partition { name, rows, .. } in table.partitions() {
            next_rows.insert(name, rows.first_row() + rows.len()?);
        }
        let mut batches = follow_partitions(table, &FollowFrom::Rows(next_rows)).map_err(|e| e.at(path))?;
        let mut printer = Printer::new(table.schema(), &self.form);
        printer.print(&table.tail(self.rows)?, out)?;
        out.flush()?;
        while let Some((_, rows)) = batches.poll(Duration::MAX)? {
            printer.print(&rows, out)?;
            out.flush()?;
        }
        Ok(())
    }
}
