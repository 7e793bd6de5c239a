//! Implements `arrowwood check`.

use std::io::Write;
use std::path::{Path, PathBuf};

use arrowwood::readable::plural;
use arrowwood::{Finding, Report};
use clap::Args;
use serde_json::{Value as Json, json};

use crate::rows::open::{cannot_be_mapped, open_one, read_bytes};
use crate::shell::{CliError, CliResult, Progress, Stdout, print_json, printable_path, single_line, stdin_or_path};

/// The exit code if everything was checked and nothing is damaged.
const OK: i32 = 0;
/// The exit code if there is damage, or was before the repair.
const DAMAGED: i32 = 1;
/// The exit code if a path could not be checked.
const UNKNOWN: i32 = 2;

/// Check all metadata and values of files and tables.
///
/// Each line names the damaged part, its byte offset, what was expected and what was found. A table may be written at
/// the same time.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 all is well, 1 something is damaged (also where --repair has repaired it), 2 a path could not be checked.
Lines that begin with 'note:' are worth knowing and no damage.

Example: arrowwood check ticks trades.arrow
Example: arrowwood check --repair ticks")]
pub(crate) struct Check {
    /// Keep the rows before the first damage; in a table also those behind text that is not UTF-8, in which each wrong
    /// byte becomes a question mark. A damaged file is never written to: it is moved to PATH.damaged, in a table
    /// together with all later files if rows of it are lost, and a new file takes its place.
    #[arg(long)]
    repair: bool,
    /// Also make logical checks: digits of decimals, whole days of date64, times within a day. Values that fail them
    /// are safe to read.
    #[arg(long)]
    strict: bool,
    /// Print JSON lines, an object per path.
    #[arg(long)]
    json: bool,
    /// Files, globs or directories; - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl Check {
    /// Checks all paths, and returns the exit code.
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult<i32> {
        let mut code = OK;
        for path in &self.paths {
            let result = self.check_path(path);
            code = code.max(match &result {
                Ok(report) if report.is_good() => OK,
                Ok(_) => DAMAGED,
                Err(_) => UNKNOWN,
            });
            self.print(stdin_or_path(path), &result, out)?;
            out.flush()?;
        }
        Ok(code)
    }

    fn check_path(&self, path: &Path) -> CliResult<Report> {
        let operation = if self.repair { "repairing" } else { "checking" };
        let mut progress = Progress::new(format!("{operation} {}", printable_path(path)));
        let mut on_progress = |done, total| progress.update(done, total);
        let is_stream = cannot_be_mapped(path)?;
        let mut report = match (self.repair, is_stream) {
            (true, true) => return Err(CliError::new("input from a pipe can't be repaired; give a file")),
            (true, false) => arrowwood::repair(path, &mut on_progress)?,
            (false, true) => arrowwood::check_bytes(read_bytes(path)?, stdin_or_path(path), &mut on_progress)?,
            (false, false) => arrowwood::check(path, &mut on_progress)?,
        };
        if self.strict
            && report.is_good()
            && !is_stream
            && let Err(e) = open_one(path)?.validate_logical(&mut on_progress)
        {
            report.findings.push(Finding::from_error(&e, path));
        }
        Ok(report)
    }

    fn print(&self, path: &Path, result: &CliResult<Report>, out: &mut Stdout) -> CliResult {
        if self.json {
            return Ok(print_json(out, to_json(path, result))?);
        }
        let name = printable_path(path);
        let report = match result {
            Ok(report) => report,
            Err(e) => return Ok(writeln!(out, "{}", e.at(path).to_line())?),
        };
        for finding in &report.findings {
            let mut finding = finding.clone();
            finding.message = single_line(&finding.message);
            writeln!(out, "{finding}")?;
        }
        let rows = plural(report.rows, "row", "rows");
        let batches = plural(report.batches, "batch", "batches");
        let damages = report.damage().count() as u64;
        match &report.repaired {
            Some(repaired) => {
                let kept = plural(repaired.kept, "row", "rows");
                let lost = repaired.given_up.map_or("an unknown number".into(), arrowwood::readable::format_count);
                let moved: Vec<_> = repaired.moved.iter().map(|path| printable_path(path)).collect();
                writeln!(out, "{name}: repaired, {kept} kept, {lost} given up; damaged files: {}", moved.join(", "))?;
            }
            None if damages == 0 => writeln!(out, "{name}: ok, {rows}, {batches}")?,
            None => {
                let findings = plural(damages, "finding", "findings");
                writeln!(out, "{name}: damaged, {findings}, {rows}, {batches}")?;
            }
        }
        Ok(())
    }
}

fn to_json(path: &Path, result: &CliResult<Report>) -> Json {
    let path = path_json(path);
    let report = match result {
        Ok(report) => report,
        Err(e) => return json!({"path": path, "ok": false, "error": e.to_line()}),
    };
    let findings: Vec<_> = report.findings.iter().map(finding_json).collect();
    let mut json = json!({
        "path": path,
        "ok": report.is_good(),
        "rows": report.rows,
        "batches": report.batches,
        "findings": findings,
    });
    if let Some(repaired) = &report.repaired {
        let moved: Vec<_> = repaired.moved.iter().map(|path| path_json(path)).collect();
        json["repaired"] = json!({"kept": repaired.kept, "given_up": repaired.given_up, "moved": moved});
    }
    json
}

fn finding_json(finding: &Finding) -> Json {
    json!({
        "path": path_json(&finding.path),
        "offset": finding.offset,
        "message": finding.message,
        "damage": finding.is_damage,
    })
}

fn path_json(path: &Path) -> Json {
    path.display().to_string().into()
}
