//! The command as its users run it.

mod cli;
#[cfg(feature = "serve")]
mod kills;
#[cfg(feature = "serve")]
mod serve;
mod table;
