//! Tests of mapped files and growable memory.

mod files;
mod memory;
// Names in a directory that is locked, which Windows can't do.
#[cfg(unix)]
mod names;
