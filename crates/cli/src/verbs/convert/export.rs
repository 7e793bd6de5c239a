//! Implements `arrowwood export`.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use arrowwood::mapping::UnfinishedFile;
use arrowwood::{Dataset, Error, Format, WriteOptions, local_path, write};
use clap::Args;

use crate::engine::{Engine, engine_error, require_parquet};
use crate::rows::open::open;
use crate::rows::output::{write_csv, write_json};
use crate::shell::{CliError, CliResult};

/// Write rows to a file in the format of its extension: .csv, .json, .jsonl or .ndjson (JSON lines), .parquet, .arrow
/// or .arrows (an IPC stream).
///
/// Parquet needs the Python package: pip install 'arrowwood[parquet]'.
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
    pub(crate) fn run(&self, engine: Option<&dyn Engine>) -> CliResult {
        match extension(&self.out).as_str() {
            "arrow" => Ok(write(&self.rows()?, &self.out, &WriteOptions::default())?),
            "arrows" => {
                let options = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
                Ok(write(&self.rows()?, &self.out, &options)?)
            }
            "csv" => self.write_text(write_csv),
            "json" | "jsonl" | "ndjson" => self.write_text(write_json),
            "parquet" | "pq" => {
                let engine = require_parquet(engine)?;
                let out = local_path(&self.out)?.unwrap_or_else(|| self.out.clone());
                Ok(engine.write_parquet(&self.rows()?, &out).map_err(|problem| engine_error(problem, &out))?)
            }
            _ => Err(CliError::new(
                "the name of the file says its format: .csv, .json, .jsonl, .ndjson, .parquet, .arrow or .arrows",
            )
            .at(&self.out)),
        }
    }

    fn rows(&self) -> CliResult<Dataset> {
        open(std::slice::from_ref(&self.path))
    }

    /// Writes a text file, which gets its name when it is complete.
    fn write_text(&self, write_rows: impl FnOnce(&Dataset, &mut BufWriter<UnfinishedFile>) -> CliResult) -> CliResult {
        let dataset = self.rows()?;
        let file = UnfinishedFile::create_beside(&self.out).map_err(|e| self.writing_error(&e))?;
        let mut out = BufWriter::new(file);
        write_rows(&dataset, &mut out)?;
        let file = out.into_inner().map_err(|e| self.writing_error(e.error()))?;
        Ok(file.persist(&self.out).map_err(|e| self.writing_error(&e))?)
    }

    fn writing_error(&self, error: &io::Error) -> Error {
        Error::io("writing", error).at(&self.out)
    }
}

/// Returns the extension of a path in lower case, or an empty string if there is none.
fn extension(path: &Path) -> String {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) => extension.to_ascii_lowercase(),
        None => String::new(),
    }
}
