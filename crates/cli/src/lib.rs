//! Parses and runs the command line; [`run`] dispatches to the verbs.
//!
//! The rooms, in reading order: each uses only earlier ones.
//! - `shell`: errors, standard input and output, progress;
//! - `rows`: datasets to open, rows to append, rows printed;
//! - `engine`: SQL and Parquet;
//! - `verbs`: a file for each verb.

// Printing macros panic if the reader is gone; `shell::eprint_line` and `shell::Stdout` don't.
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::disallowed_methods)]

mod engine;
mod rows;
mod shell;
mod verbs;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;

use arrowwood::readable::escape_hidden_lines;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(feature = "serve")]
pub use engine::ClusterOptions;
pub use engine::Engine;
use shell::{CliResult, Stdout, eprint_line};
use verbs::convert::{export, import};
use verbs::inspect::{cat, check, head, messages, schema, sql, stat, tail};
#[cfg(feature = "objects")]
use verbs::network::push;
#[cfg(feature = "serve")]
use verbs::network::{pull, serve, token, view};
use verbs::table::{alter, append, compact, create, promote};
use verbs::usage::{completions, man};

/// Inspect, check and convert Apache Arrow data in place.
///
/// PATH is an Arrow IPC file or stream, a glob, a directory of .arrow files, a URL, or - for standard input. TABLE is a
/// directory of Arrow files, the last of which grows: one process appends while any number read.
#[derive(Parser)]
#[command(name = "arrowwood", bin_name = "arrowwood", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: CliCommand,
}

/// The exit code of a verb that has done its work.
const SUCCESS: i32 = 0;
/// The exit code for errors in the data or the system.
const FAILURE: i32 = 1;

#[derive(Subcommand)]
enum CliCommand {
    Head(head::Head),
    Tail(tail::Tail),
    Schema(schema::Schema),
    Messages(messages::Messages),
    Stat(stat::Stat),
    Check(check::Check),
    Cat(cat::Cat),
    Sql(sql::Sql),
    Import(import::Import),
    Export(export::Export),
    Create(create::Create),
    Append(append::Append),
    Alter(alter::Alter),
    Compact(compact::Compact),
    Promote(promote::Promote),
    #[cfg(feature = "serve")]
    View(view::View),
    #[cfg(feature = "serve")]
    Serve(serve::Serve),
    #[cfg(feature = "serve")]
    Token(token::Token),
    #[cfg(feature = "serve")]
    Pull(pull::Pull),
    #[cfg(feature = "objects")]
    Push(push::Push),
    Completions(completions::Completions),
    Man(man::Man),
}

impl CliCommand {
    /// Runs the verb. Returns its exit code if it succeeds: 0, or the result of `check`.
    fn run(&self, out: &mut Stdout, engine: Option<&'static dyn Engine>) -> CliResult<i32> {
        match self {
            CliCommand::Check(check) => return check.run(out),
            CliCommand::Head(head) => head.run(out),
            CliCommand::Tail(tail) => tail.run(out),
            CliCommand::Schema(schema) => schema.run(out),
            CliCommand::Messages(messages) => messages.run(out),
            CliCommand::Stat(stat) => stat.run(out),
            CliCommand::Cat(cat) => cat.run(out),
            CliCommand::Sql(sql) => sql.run(out, engine),
            CliCommand::Import(import) => import.run(out, engine),
            CliCommand::Export(export) => export.run(engine),
            CliCommand::Create(create) => create.run(),
            CliCommand::Append(append) => append.run(out),
            CliCommand::Alter(alter) => alter.run(out),
            CliCommand::Compact(compact) => compact.run(out),
            CliCommand::Promote(promote) => promote.run(out),
            #[cfg(feature = "serve")]
            CliCommand::View(view) => view.run(out, engine),
            #[cfg(feature = "serve")]
            CliCommand::Serve(serve) => serve.run(out, engine.map(|engine| engine as _)),
            #[cfg(feature = "serve")]
            CliCommand::Token(token) => token.run(out),
            #[cfg(feature = "serve")]
            CliCommand::Pull(pull) => pull.run(),
            #[cfg(feature = "objects")]
            CliCommand::Push(push) => push.run(out),
            CliCommand::Completions(completions) => completions.run(out, &mut Cli::command()),
            CliCommand::Man(man) => man.run(Cli::command()),
        }?;
        Ok(SUCCESS)
    }
}

/// Runs the command with `args`, starting with the program's name, and returns its exit code: 0, 1 for errors in the
/// data or the system, 2 for errors in `args`, or if `check` could not read a path.
pub fn run(args: impl IntoIterator<Item = OsString>) -> i32 {
    run_with(args, None)
}

/// Prints a usage error, or the requested help, without hidden characters: arguments may be names of files that a shell
/// has expanded.
fn print_usage(usage: &clap::Error) {
    let plain = usage.render().to_string();
    match escape_hidden_lines(&plain) {
        // A failure to print an error has no place to be reported.
        Cow::Borrowed(_) => drop(usage.print()),
        Cow::Owned(escaped) => eprint_line(escaped.trim_end()),
    }
}

/// Returns what `--version` prints behind the name of the program.
fn long_version(engine: Option<&'static dyn Engine>) -> String {
    let engine = engine.map_or_else(|| "none".to_owned(), |engine| engine.name());
    format!("{}\nSQL: {engine}", env!("CARGO_PKG_VERSION"))
}

/// Runs the command as [`run`] does, with an engine for SQL queries and Parquet.
pub fn run_with(args: impl IntoIterator<Item = OsString>, engine: Option<&'static dyn Engine>) -> i32 {
    let parser = Cli::command().long_version(long_version(engine));
    let command = match parser.try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(command) => command,
        Err(usage) => {
            print_usage(&usage);
            return usage.exit_code();
        }
    };
    #[cfg(feature = "objects")]
    arrowwood_objects::install();
    let mut out = Stdout::new();
    let code = command.verb.run(&mut out, engine);
    let flushed = out.flush().map_err(Into::into);
    match code.and_then(|code| flushed.map(|()| code)) {
        _ if out.is_broken_pipe() => SUCCESS,
        Ok(code) => code,
        Err(failure) => {
            eprint_line(format_args!("arrowwood: {}", failure.to_line()));
            FAILURE
        }
    }
}
