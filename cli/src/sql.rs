//! `arrowwood sql`.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrowwood::{Dataset, Error, ErrorKind};
#[cfg(feature = "serve")]
use arrowwood_serve::SqlEngine;
use clap::Args;

use crate::rows::{Form, print};
use crate::shell::{Failure, Outcome, Stdout, reader};

/// What the program that runs the command can do besides this library: SQL and Parquet. Errors are messages.
pub trait Engine: Sync {
    /// The rows that a query asks for.
    ///
    /// # Errors
    /// What is wrong with the query.
    fn sql(&self, query: &str) -> Result<Dataset, String>;

    /// The first rows, at most `most`, that one statement asks for which reads only the data at `path`, there called self.
    /// Ends when `given_up` is set.
    ///
    /// # Errors
    /// What is wrong with the query.
    fn look(&self, query: &str, path: &Path, most: u64, given_up: &Arc<AtomicBool>) -> Result<Dataset, String>;

    /// The engine that `arrowwood serve` has, and the page of `arrowwood view` if there is one; `None` where SQL is not for
    /// clients of a server.
    #[cfg(feature = "serve")]
    fn server(&self) -> Option<Arc<dyn SqlEngine>> {
        None
    }

    /// The rows of a Parquet file, of the types that Arrow has noted there.
    ///
    /// # Errors
    /// What is wrong with the file.
    fn read_parquet(&self, path: &Path) -> Result<Dataset, String>;

    /// Writes a Parquet file, which gets its name when it is complete.
    ///
    /// # Errors
    /// Why that was not possible.
    fn write_parquet(&self, dataset: &Dataset, path: &Path) -> Result<(), String>;
}

/// Run an SQL query by DuckDB, or by DataFusion.
///
/// Name tables by their path in quotes: any PATH of the other verbs, and with DuckDB Parquet, CSV and JSON files. DuckDB comes
/// with the Python package: pip install 'arrowwood[sql]'; DataFusion is in the program arrowwood-datafusion, which this command
/// becomes where it is installed.
#[derive(Args)]
#[command(after_help = "Example: arrowwood sql 'select symbol, avg(price) from \"ticks/\" group by symbol' --csv")]
pub(crate) struct Sql {
    #[command(flatten)]
    form: Form,
    /// One or several statements; prints the rows of the last; - is standard input.
    #[arg(value_name = "QUERY")]
    query: String,
}

impl Sql {
    pub(crate) fn run(&self, out: &mut Stdout, engine: Option<&dyn Engine>) -> Outcome {
        let missing = || {
            Failure::hint(
                "sql needs the Python package: pip install 'arrowwood[sql]'; or the program arrowwood-datafusion",
            )
        };
        let answer = engine.ok_or_else(missing)?.sql(&self.text()?);
        print(&answer.map_err(|problem| Error::new(ErrorKind::InvalidArgument, problem))?, &self.form, out)
    }

    fn text(&self) -> Outcome<String> {
        if self.query != "-" {
            return Ok(self.query.clone());
        }
        let mut text = String::new();
        let read = reader(Path::new("-"))?.read_to_string(&mut text);
        read.map_err(|e| Error::io("reading the query from standard input", &e))?;
        Ok(text)
    }
}
