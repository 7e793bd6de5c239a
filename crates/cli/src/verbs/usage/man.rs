//! Implements `arrowwood man`.

use std::fs;
use std::path::PathBuf;

use arrowwood::Error;
use clap::Args;

use crate::shell::CliResult;

/// Write the manual pages of this command and its verbs into a directory.
#[derive(Args)]
#[command(after_help = "Example: arrowwood man ~/.local/share/man/man1, then man arrowwood")]
pub(crate) struct Man {
    /// The directory; created if it does not exist.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

impl Man {
    /// Writes the pages of `command`.
    pub(crate) fn run(&self, command: clap::Command) -> CliResult {
        let written =
            fs::create_dir_all(&self.directory).and_then(|()| clap_mangen::generate_to(command, &self.directory));
        Ok(written.map_err(|e| Error::io("writing the manual pages", &e).at(&self.directory))?)
    }
}
