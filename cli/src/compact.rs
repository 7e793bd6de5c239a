//! `arrowwood compact`.

use std::io::Write;
use std::path::PathBuf;

use arrowwood::{bytes_text, compact, plural, table_stat};
use clap::Args;
use serde_json::json;

use crate::shell::{Outcome, Progress, Stdout};

/// Rewrites the files of a table that nobody writes as dense Arrow files, without room to grow.
///
/// Readers go on with what they have, and rows keep their numbers. The next row that is appended begins a new file.
#[derive(Args)]
#[command(after_help = "Example: arrowwood compact ticks")]
pub(crate) struct Compact {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The table's folder.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
}

impl Compact {
    pub(crate) fn run(&self, out: &mut Stdout) -> Outcome {
        let name = self.table.display();
        let before = table_stat(&self.table)?.unwrap_or_default().disk;
        let mut progress = Progress::new(format!("compacting {name}"));
        let rewritten = compact(&self.table, |done, total| progress.at(done, total))?;
        drop(progress);
        let after = table_stat(&self.table)?.unwrap_or_default().disk;
        if self.json {
            let facts =
                json!({"table": name.to_string(), "rewritten": rewritten, "disk_before": before, "disk": after});
            return Ok(writeln!(out, "{facts}")?);
        }
        let (files, before, after) = (plural(rewritten, "file", "files"), bytes_text(before), bytes_text(after));
        Ok(writeln!(out, "{name}: {files} rewritten, {before} on the disk before, {after} now")?)
    }
}
