//! The command `arrowwood`, with DataFusion for SQL: `arrowwood-datafusion serve` speaks Flight SQL.

use std::io::Write;
use std::process::ExitCode;

use arrowwood_query::{CommandEngine, QueryEngine, WORKER, run_query_process};

fn main() -> ExitCode {
    arrowwood::mapping::ignore_file_size_signal();
    arrowwood::mapping::os::raise_open_files_limit();
    let mut words = std::env::args_os().skip(1);
    // Not for people: the processes of queries that a server answers.
    if let (Some(word), Some(directory), None) = (words.next(), words.next(), words.next())
        && word == WORKER
    {
        return run_query_process(&directory);
    }
    let engine = match QueryEngine::new() {
        Ok(engine) => engine,
        Err(e) => {
            // A failed write to standard error can be reported nowhere.
            let _ = writeln!(std::io::stderr(), "arrowwood: {e}");
            return ExitCode::FAILURE;
        }
    };
    let command = Box::leak(Box::new(CommandEngine::new(engine)));
    ExitCode::from(u8::try_from(arrowwood_cli::run_with(std::env::args_os(), Some(command))).unwrap_or(1))
}
