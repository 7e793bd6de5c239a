//! Files and memory as bytes.

mod files;
mod memory;
mod names;
