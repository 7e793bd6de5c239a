//! Helpers that run the command in a directory.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::running;

pub fn command(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arrowwood"));
    command.args(args).current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn run(directory: &TempDir, args: &[&str]) -> Output {
    running::output(&mut command(directory.path(), args), b"")
}

/// Asserts that a run failed with one line on standard error; returns that line.
#[track_caller]
pub fn expect_failure(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("arrowwood: "), "{stderr}");
    stderr
}
