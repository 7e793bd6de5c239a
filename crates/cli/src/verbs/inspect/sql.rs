//! Implements `arrowwood sql`.

use std::io::Read;
use std::path::Path;
#[cfg(feature = "serve")]
use std::path::PathBuf;

use arrowwood::{Error, ErrorKind};
#[cfg(feature = "serve")]
use arrowwood_serve::ClientOptions;
use clap::Args;

use crate::engine::Engine;
#[cfg(feature = "serve")]
use crate::engine::{ClusterOptions, NO_CLUSTER};
use crate::rows::output::{OutputArgs, print};
#[cfg(feature = "serve")]
use crate::shell::read_token;
use crate::shell::{CliError, CliResult, Stdout, reader};

/// Run an SQL query by the engine of this program, which --version names.
///
/// Name tables by their path in quotes: any PATH of the other verbs, and with DuckDB Parquet, CSV and JSON files.
/// The command of the Python package has DuckDB: pip install 'arrowwood[sql]'. The program arrowwood-datafusion is the
/// same command with DataFusion.
///
/// With --cluster, which needs DataFusion, tables are those of the servers, by name; one that several servers have is the rows of all.
#[derive(Args)]
#[command(after_help = "Example: arrowwood sql 'select symbol, avg(price) from \"ticks/\" group by symbol' --csv\n\
                  Example: arrowwood sql --cluster hosts.txt 'select symbol, avg(price) from ticks group by symbol'")]
pub(crate) struct Sql {
    #[command(flatten)]
    form: OutputArgs,
    /// A file with the URLs of servers, http://HOST:PORT or https://HOST:PORT, one a line.
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// A file with the token for all of them, as `arrowwood token add` has printed it.
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    token_file: Option<PathBuf>,
    /// Certificates to trust, in PEM, instead of the system's.
    #[cfg(feature = "serve")]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    cafile: Option<PathBuf>,
    /// Ask other machines without TLS.
    #[cfg(feature = "serve")]
    #[arg(long, requires = "cluster")]
    insecure: bool,
    /// One or several statements; prints the rows of the last; - is standard input.
    #[arg(value_name = "QUERY")]
    query: String,
}

impl Sql {
    pub(crate) fn run(&self, out: &mut Stdout, engine: Option<&dyn Engine>) -> CliResult {
        #[cfg(feature = "serve")]
        if let Some(hosts) = &self.cluster {
            let engine = engine.ok_or_else(|| CliError::new(NO_CLUSTER))?;
            let token = self.token_file.as_deref().map(read_token).transpose()?;
            let client = ClientOptions { token, cafile: self.cafile.clone(), insecure: self.insecure };
            let cluster = ClusterOptions { hosts: hosts.clone(), client };
            let rows = engine.sql_on_cluster(&self.read_query()?, &cluster).map_err(query_error)?;
            return print(&rows, &self.form, out);
        }
        let Some(engine) = engine else {
            return Err(CliError::new(
                "this program has no SQL engine: run the command of the Python package (pip install 'arrowwood[sql]'), \
                 or arrowwood-datafusion (cargo install --path crates/query)",
            ));
        };
        let rows = engine.sql(&self.read_query()?).map_err(query_error)?;
        print(&rows, &self.form, out)
    }

    fn read_query(&self) -> CliResult<String> {
        if self.query != "-" {
            return Ok(self.query.clone());
        }
        let mut text = String::new();
        reader(Path::new("-"))?
            .read_to_string(&mut text)
            .map_err(|e| Error::io("reading the query from standard input", &e))?;
        Ok(text)
    }
}

/// Converts the message of an engine.
fn query_error(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
