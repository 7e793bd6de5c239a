//! Paths and messages as the command prints them.

use std::path::Path;

use arrowwood::readable::escape_hidden;

/// Returns true for `-`, which stands for standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns the path for messages, with a name for standard input.
pub(crate) fn stdin_or_path(path: &Path) -> &Path {
    if is_dash(path) { Path::new("standard input") } else { path }
}

/// Returns the path for printing, without characters that could control a terminal.
pub(crate) fn printable_path(path: &Path) -> String {
    escape_hidden(&stdin_or_path(path).to_string_lossy()).into_owned()
}

/// Puts a message of several lines on one.
pub(crate) fn single_line(text: &str) -> String {
    escape_hidden(&text.replace(['\n', '\r'], " ")).into_owned()
}
