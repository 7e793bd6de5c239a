//! The `arrowwood` command; everything is in the library, which the Python package calls too.

#![deny(clippy::print_stderr, clippy::print_stdout, clippy::disallowed_methods)]

use std::process::ExitCode;

fn main() -> ExitCode {
    arrowwood::ignore_file_size_signal();
    ExitCode::from(u8::try_from(arrowwood_cli::run(std::env::args_os())).unwrap_or(1))
}
