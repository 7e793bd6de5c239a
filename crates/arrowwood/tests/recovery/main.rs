//! Tests of recovery: power cuts, earlier boots, damage, forged tables, and repairs.

#[macro_use]
#[path = "../../../../tests/support/alone.rs"]
mod alone;
#[path = "../../../../tests/support/dice.rs"]
mod dice;
#[path = "../../../../tests/support/forger.rs"]
mod forger;
#[path = "../../../../tests/support/simulated_disk.rs"]
mod simulated_disk;
#[path = "../../../../tests/support/tables.rs"]
mod tables;
#[path = "../../../../tests/support/thread.rs"]
mod thread;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

mod boots;
mod corruption;
mod footers;
mod forged;
mod power;
mod repair;
mod vectors;
mod without_mount_ids;
