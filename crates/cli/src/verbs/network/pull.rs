//! Implements `arrowwood pull`.

use std::path::PathBuf;

use arrowwood::readable::plural;
use arrowwood_serve::{ClientOptions, pull};
use clap::Args;

use crate::shell::{CliResult, Progress, eprint_line, printable_path, read_token};

/// Copy a server's table into a local one, and with --follow continue as it grows.
///
/// The local table is a prefix of the server's, and continues where it stopped. Only durable rows, which would survive
/// a power cut of the server, are copied.
#[derive(Args)]
#[command(after_help = "Example: arrowwood pull http://127.0.0.1:7447/ticks copy\n\
                  Example: arrowwood pull --follow --token-file reader.token https://data.example.org:7447/ticks copy")]
pub(crate) struct Pull {
    /// Continue with newly committed rows of the server's table, until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// A file with the token printed by `arrowwood token add`.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trusted certificates, in PEM, instead of the system's.
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// Permit sending the token to another machine without TLS.
    #[arg(long)]
    insecure: bool,
    /// The server's URL and the name of the table: http://HOST:PORT/TABLE or https://HOST:PORT/TABLE.
    #[arg(value_name = "URL")]
    url: String,
    /// The local table; created if it does not exist.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
}

impl Pull {
    pub(crate) fn run(&self) -> CliResult {
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let options = ClientOptions { token, cafile: self.cafile.clone(), insecure: self.insecure };
        let mut progress = Progress::new(format!("pulling {}", self.url));
        let pulled = pull(&self.url, &self.table, &options, self.follow, |pulled| {
            progress.update(pulled.rows, pulled.there);
            true
        })?;
        drop(progress);
        eprint_line(format_args!(
            "{}: {}, all on the disk",
            printable_path(&self.table),
            plural(pulled.rows, "row", "rows")
        ));
        Ok(())
    }
}
