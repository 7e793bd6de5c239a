//! Runs the `arrowwood` command. All code is in the library, which the Python package calls too.

#![deny(clippy::print_stderr, clippy::print_stdout, clippy::disallowed_methods)]

use std::process::ExitCode;

/// Keeps a reserve of memory, as small allocations that fail would end the process.
#[global_allocator]
static ALLOCATOR: arrowwood::mapping::ReserveAllocator = arrowwood::mapping::ReserveAllocator;

fn main() -> ExitCode {
    arrowwood::mapping::ReserveAllocator::fill();
    arrowwood::mapping::ignore_file_size_signal();
    arrowwood::mapping::os::raise_open_files_limit();
    ExitCode::from(u8::try_from(arrowwood_cli::run(std::env::args_os())).unwrap_or(1))
}
