//! Implements `arrowwood completions`.

use std::io::Write;

use clap::Args;
use clap_complete::{Shell, generate};

use crate::shell::{CliResult, Stdout};

/// Print a shell script that completes this command's verbs, options and files.
#[derive(Args)]
#[command(after_help = "\
Example: arrowwood completions bash > ~/.local/share/bash-completion/completions/arrowwood
Example: arrowwood completions zsh > ~/.zfunc/_arrowwood     # a folder of $fpath
Example: arrowwood completions fish > ~/.config/fish/completions/arrowwood.fish")]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    /// Prints the script for `command`.
    pub(crate) fn run(&self, out: &mut Stdout, command: &mut clap::Command) -> CliResult {
        // The script is printed from memory, as the generator panics if its output fails, such as a closed pipe.
        let mut script = Vec::new();
        generate(self.shell, command, "arrowwood", &mut script);
        Ok(out.write_all(&script)?)
    }
}
