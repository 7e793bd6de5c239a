//! `arrowwood export`.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrowwood::{Dataset, Error, ErrorKind, WriteOptions, write};
use clap::Args;

use crate::rows::{write_csv, write_json};
use crate::shell::{Failure, Outcome, open};
use crate::sql::Engine;

/// Write rows as a file of another format, which its name says: .csv, .json, .jsonl or .ndjson (JSON lines), .parquet or .arrow.
///
/// Parquet needs the Python package: pip install 'arrowwood[sql]'.
#[derive(Args)]
#[command(after_help = "Example: arrowwood export ticks ticks.parquet")]
pub(crate) struct Export {
    /// A file, glob or directory.
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The file to write.
    #[arg(value_name = "OUT")]
    out: PathBuf,
}

impl Export {
    pub(crate) fn run(&self, engine: Option<Engine<'_>>) -> Outcome {
        let extension = self.out.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "arrow" => Ok(write(&open(std::slice::from_ref(&self.path))?, &self.out, &WriteOptions::default())?),
            "csv" => self.text(write_csv),
            "json" | "jsonl" | "ndjson" => self.text(write_json),
            "parquet" | "pq" => {
                let path = self.path.to_str().ok_or_else(not_text)?.replace('"', "\"\"");
                let out = literal(&self.out)?;
                ask(engine, &format!("copy (from \"{path}\") to {out} (format parquet)")).map(drop)
            }
            _ => Err(Failure::hint(
                "the name of the file says its format: .csv, .json, .jsonl, .ndjson, .parquet or .arrow",
            )),
        }
    }

    /// Writes a text beside its path, and gives it its name when it is complete.
    fn text(&self, put: impl FnOnce(&Dataset, &mut std::io::BufWriter<File>) -> Outcome) -> Outcome {
        let dataset = open(std::slice::from_ref(&self.path))?;
        let name = self.out.file_name().ok_or_else(not_text)?.to_string_lossy();
        let part = self.out.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let failed = |e: std::io::Error| Error::io("writing", &e).at(&self.out);
        let mut out = std::io::BufWriter::new(File::create(&part).map_err(failed)?);
        let put = put(&dataset, &mut out).and_then(|()| Ok(std::io::Write::flush(&mut out).map_err(failed)?));
        let done = put.and_then(|()| Ok(std::fs::rename(&part, &self.out).map_err(failed)?));
        if done.is_err() {
            // Nothing is left of what was not completed, and a failed removal has no remedy.
            let _ = std::fs::remove_file(&part);
        }
        done
    }
}

fn not_text() -> Failure {
    Failure::hint("the path is no text")
}

/// Whether a path's name is that of a Parquet file.
pub(crate) fn is_parquet(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    ["parquet", "pq"].contains(&extension.to_ascii_lowercase().as_str())
}

/// A path as text in SQL.
pub(crate) fn literal(path: &Path) -> Outcome<String> {
    let text = path.to_str().ok_or_else(not_text)?;
    Ok(format!("'{}'", text.replace('\'', "''")))
}

/// What the engine says to `query`.
pub(crate) fn ask(engine: Option<Engine<'_>>, query: &str) -> Outcome<Dataset> {
    let missing = "Parquet needs the command of the Python package: pip install 'arrowwood[sql]'";
    let answer = engine.ok_or_else(|| Failure::hint(missing))?(query);
    Ok(answer.map_err(|problem| Error::new(ErrorKind::InvalidArgument, problem))?)
}
