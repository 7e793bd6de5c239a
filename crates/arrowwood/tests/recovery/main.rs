//! Tests of recovery: power cuts, earlier boots, damage, forged tables, and repairs.

#[macro_use]
#[path = "../../../../tests/support/alone.rs"]
mod alone;
#[path = "../../../../tests/support/dice.rs"]
mod dice;
#[cfg(unix)]
#[path = "../../../../tests/support/forger.rs"]
mod forger;
#[cfg(unix)]
#[path = "../../../../tests/support/simulated_disk.rs"]
mod simulated_disk;
#[path = "../../../../tests/support/tables.rs"]
mod tables;
#[path = "../../../../tests/support/thread.rs"]
mod thread;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

mod mutants;
mod vectors;

// They write tables.
#[cfg(unix)]
mod boots;
#[cfg(unix)]
mod corruption;
#[cfg(unix)]
mod footers;
#[cfg(unix)]
mod forged;
#[cfg(unix)]
mod power;
#[cfg(unix)]
mod repair;
#[cfg(unix)]
mod without_mount_ids;
