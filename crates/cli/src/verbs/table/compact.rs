//! Implements `arrowwood compact`.

use std::io::Write;
use std::path::PathBuf;

use arrowwood::mapping::is_directory;
use arrowwood::readable::{format_bytes, plural};
use arrowwood::{CompactOptions, compact_with, table_stat};
use clap::Args;
use serde_json::json;

use crate::rows::open::open_one;
use crate::shell::{CliResult, Progress, Stdout, print_json, printable_path};

/// Rewrite the files of a table without a writer as dense Arrow files, without space to grow.
///
/// Small files are merged into files of up to 128 MiB and the table's maximum number of rows per file. Open readers are
/// not affected. Rows keep their numbers, except with --sort. The next appended row begins a new file.
#[derive(Args)]
#[command(after_help = "Example: arrowwood compact ticks")]
pub(crate) struct Compact {
    /// Give all files the table's schema, including dense ones, after `arrowwood alter`; otherwise each keeps its own.
    #[arg(long)]
    rewrite: bool,
    /// Sort late rows into place: in the order of the column by which the table is sorted, across files.
    #[arg(long)]
    sort: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The table directory, or a directory of partitions (key=value), all of which are compacted.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
}

impl Compact {
    /// Returns the path of the table, or the paths of its partitions.
    fn tables(&self) -> CliResult<Vec<PathBuf>> {
        if table_stat(&self.table)?.is_some() || !is_directory(&self.table)? {
            return Ok(vec![self.table.clone()]);
        }
        let partitions: Vec<PathBuf> =
            open_one(&self.table)?.partitions().into_iter().map(|partition| partition.path).collect();
        Ok(if partitions.is_empty() { vec![self.table.clone()] } else { partitions })
    }

    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        let name = printable_path(&self.table);
        let tables = self.tables()?;
        let before = disk_bytes(&tables)?;
        let mut progress = Progress::new(format!("compacting {name}"));
        let mut rewritten = 0;
        for table in &tables {
            let options = CompactOptions { rewrite: self.rewrite, sort: self.sort };
            rewritten += compact_with(table, options, |done, total| progress.update(done, total))?;
        }
        drop(progress);
        let after = disk_bytes(&tables)?;
        if self.json {
            let table = self.table.to_string_lossy();
            let summary = json!({"table": table, "rewritten": rewritten, "disk_before": before, "disk": after});
            return Ok(print_json(out, summary)?);
        }
        let files = plural(rewritten, "file", "files");
        let before = format_bytes(before);
        let after = format_bytes(after);
        Ok(writeln!(out, "{name}: {files} rewritten, {before} on disk before, {after} now")?)
    }
}

/// Returns the space that the tables take on disk, in bytes. A path that is no table counts nothing.
fn disk_bytes(tables: &[PathBuf]) -> CliResult<u64> {
    let mut bytes = 0;
    for table in tables {
        bytes += table_stat(table)?.map_or(0, |stat| stat.disk);
    }
    Ok(bytes)
}
