//! Tests of recovery: power cuts, earlier boots, damage, forged tables, and repairs.

#[macro_use]
#[path = "../support/alone.rs"]
mod alone;
#[path = "../support/dice.rs"]
mod dice;
#[path = "../support/forger.rs"]
mod forger;
#[path = "../support/simulated_disk.rs"]
mod simulated_disk;
#[path = "../support/tables.rs"]
mod tables;
#[path = "../support/thread.rs"]
mod thread;
#[path = "../support/wait.rs"]
mod wait;

mod boots;
mod corruption;
mod footers;
mod forged;
mod power;
mod repair;
mod vectors;
