//! Tests of mapped files and growable memory.

mod files;
mod memory;
mod names;
