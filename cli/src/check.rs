//! `arrowwood check`.

use std::io::Write;
use std::path::{Path, PathBuf};

use arrowwood::plural;
use clap::Args;
use serde_json::json;

use crate::shell::{Outcome, Progress, Stdout, open_one, shown};

/// Checks structure and all values; exits with 1 where something is damaged.
#[derive(Args)]
#[command(after_help = "Example: arrowwood check ticks.arrow trades.arrow")]
pub(crate) struct Check {
    /// Also check what values mean: digits of decimals, whole days of date64, times within a day. Values that fail this
    /// are safe to read, and odd.
    #[arg(long)]
    strict: bool,
    /// Print JSON lines: an object for each path.
    #[arg(long)]
    json: bool,
    /// Files, globs or directories; - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl Check {
    pub(crate) fn run(&self, out: &mut Stdout) -> Outcome<bool> {
        let mut fine = true;
        for path in &self.paths {
            let found = check(path, self.strict);
            fine &= found.is_ok();
            self.report(shown(path), &found, out)?;
            out.flush()?;
        }
        Ok(fine)
    }

    fn report(&self, path: &Path, found: &Outcome<(u64, u64)>, out: &mut Stdout) -> Outcome {
        let name = path.display();
        match found {
            Ok((rows, batches)) if self.json => {
                writeln!(out, "{}", json!({"path": name.to_string(), "ok": true, "rows": rows, "batches": batches}))?;
            }
            Err(e) if self.json => {
                writeln!(out, "{}", json!({"path": name.to_string(), "ok": false, "error": e.line()}))?;
            }
            Ok((rows, batches)) => {
                writeln!(
                    out,
                    "{name}: ok, {}, {}",
                    plural(*rows, "row", "rows"),
                    plural(*batches, "batch", "batches")
                )?;
            }
            Err(e) => writeln!(out, "{}", e.at(path).line())?,
        }
        Ok(())
    }
}

/// The number of rows and of batches.
fn check(path: &Path, strict: bool) -> Outcome<(u64, u64)> {
    let dataset = open_one(path)?;
    let mut progress = Progress::new(format!("checking {}", shown(path).display()));
    match strict {
        true => dataset.validate_meaning(|done, total| progress.at(done, total))?,
        false => dataset.validate(|done, total| progress.at(done, total))?,
    }
    Ok((dataset.len()?, dataset.num_batches()? as u64))
}
