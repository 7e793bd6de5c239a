//! What Linux and Apple's systems share.

pub mod descriptor;
pub mod errors;
#[cfg(target_os = "linux")]
pub mod faults;
pub mod files;
pub mod fork;
pub mod memory;
pub mod names;
pub mod process;
pub mod rename;
