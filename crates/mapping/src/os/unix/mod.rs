//! What Linux and Apple's systems share.

pub mod descriptor;
pub mod errors;
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub mod faults;
pub mod files;
pub mod fork;
pub mod memory;
pub mod names;
pub mod process;
pub mod rename;
