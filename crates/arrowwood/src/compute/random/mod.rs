//! Draws random numbers and random orders of rows, the same for one seed on every machine.
//!
//! In reading order: `generator` draws numbers and samples, `permutation` computes an order of rows without storing it,
//! and `epoch_order` orders rows for training. Uses no other room.

mod epoch_order;
mod generator;
mod permutation;

pub use epoch_order::EpochOrder;
pub(super) use generator::SplitMix64;
