//! Tests of mapped files and growable memory, and of what they ask of a system.

mod files;
mod memory;
// Names in a directory that is locked, which Windows can't do.
#[cfg(unix)]
mod names;
// It creates files as writers do, which Windows lacks.
#[cfg(unix)]
mod system;
