//! Implements `arrowwood token`.

use std::io::Write;
use std::path::PathBuf;

use arrowwood_serve::{Rights, add_token, list_tokens, revoke_token};
use clap::{Args, Subcommand};

use crate::shell::{CliResult, Stdout};

/// Add, list and revoke tokens of a server.
#[derive(Args)]
#[command(after_help = "Example: arrowwood token add s1 --token-file tokens.json --write ticks\n\
                  Example: arrowwood token revoke s1 --token-file tokens.json")]
pub(crate) struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Add a token and print it. It can't be shown again: the file stores only its hash.
    Add(Add),
    /// List the tokens by name, with their rights.
    List(TokenFile),
    /// Revoke a token, at once and without a restart of the server.
    Revoke(NamedToken),
}

#[derive(Args)]
struct TokenFile {
    /// The file passed to `arrowwood serve --token-file`.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
}

#[derive(Args)]
struct NamedToken {
    #[command(flatten)]
    file: TokenFile,
    /// The token's name, in lists and in the server's log.
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Args)]
struct Add {
    #[command(flatten)]
    named: NamedToken,
    /// A table to grant reading of; * matches any characters. May be repeated.
    #[arg(long, value_name = "TABLE")]
    read: Vec<String>,
    /// A table to grant creating and appending to; * matches any characters. May be repeated.
    #[arg(long, value_name = "TABLE")]
    write: Vec<String>,
}

impl Token {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        match &self.command {
            TokenCommand::Add(Add { named, read, write }) => {
                let rights = Rights { read: read.clone(), write: write.clone() };
                let token = add_token(&named.file.token_file, &named.name, rights)?;
                writeln!(out, "{token}")?;
            }
            TokenCommand::List(file) => {
                for token in list_tokens(&file.token_file)? {
                    let Rights { read, write } = &token.rights;
                    writeln!(out, "{}  read: {}  write: {}", token.name, join_patterns(read), join_patterns(write))?;
                }
            }
            TokenCommand::Revoke(named) => revoke_token(&named.file.token_file, &named.name)?,
        }
        Ok(())
    }
}

fn join_patterns(patterns: &[String]) -> String {
    if patterns.is_empty() { "nothing".into() } else { patterns.join(", ") }
}
