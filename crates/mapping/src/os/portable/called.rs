//! Notes which functions of `portable` the tests have called.

use std::fs::File;
use std::io::Write;

/// The environment variable with the path of a file, to which the names of called functions are appended.
const CALLS: &str = "ARROWWOOD_PORTABLE_CALLS";

/// Appends the name of a function to the file of called ones, if there is one.
pub fn note(name: &str) {
    let Some(path) = std::env::var_os(CALLS) else { return };
    let file = File::options().append(true).create(true).open(path);
    // The target of the Makefile finds names that are missing.
    let _ = file.and_then(|mut file| file.write_all(format!("{name}\n").as_bytes()));
}
