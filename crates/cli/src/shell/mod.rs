//! What all verbs share: errors, standard input and output, progress.
//!
//! The modules, in reading order:
//! - `printable`: paths and messages for printing;
//! - `error`: the errors of verbs;
//! - `reader`: files, pipes and standard input;
//! - `print`: standard output and standard error;
//! - `progress`: bars on the terminal.
//!
//! Uses no other room.

mod error;
mod print;
mod printable;
mod progress;
mod reader;

pub(crate) use error::{CliError, CliResult};
pub(crate) use print::{Stdout, eprint_line, print_json, terminal_width, write_aligned};
pub(crate) use printable::{is_dash, printable_path, single_line, stdin_or_path};
pub(crate) use progress::Progress;
#[cfg(feature = "serve")]
pub(crate) use reader::read_token;
pub(crate) use reader::{BoundedReader, is_pipe, reader, reading_error};
