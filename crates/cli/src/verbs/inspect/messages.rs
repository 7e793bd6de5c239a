//! Implements `arrowwood messages`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::rows::open::open_one;
use crate::shell::{CliResult, Stdout, print_json};

/// Print the messages of a file or stream: their offsets and content.
#[derive(Args)]
#[command(after_help = "Example: arrowwood messages ticks.arrow")]
pub(crate) struct Messages {
    /// Print JSON lines, an object per message.
    #[arg(long)]
    json: bool,
    /// A file, glob or directory; - is standard input.
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

impl Messages {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        for message in open_one(&self.path)?.messages()? {
            if self.json { print_json(out, message.to_json())? } else { writeln!(out, "{message}")? }
        }
        Ok(())
    }
}
