//! `arrowwood completions`.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::shell::{Outcome, Stdout};

/// Prints a script that teaches a shell to complete this command's verbs, options and files.
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
    pub(crate) fn run(&self, out: &mut Stdout) -> Outcome {
        // Printed from memory: the generator panics where its sink fails, as a pipe does whose reader has left.
        let mut script = Vec::new();
        generate(self.shell, &mut crate::Command::command(), "arrowwood", &mut script);
        Ok(out.write_all(&script)?)
    }
}
