//! Datasets of several partitions: directories called `key=value`, as Hive has them.
//!
//! In reading order: `names` (of directories), `values` (their types), `tree` (which directories there are), `origin`
//! (their rows as one dataset, and those that come later), `writer` (rows into the partitions they belong to), `drop`.
//! Uses `table` and what is below it; [`open`](crate::open()) uses this.

#[cfg(feature = "table")]
mod drop;
mod names;
mod origin;
mod tree;
mod values;

#[cfg(feature = "table")]
pub use self::drop::drop_partition;
pub use names::{PartitionKey, partition_path};
pub use origin::Partition;
pub(crate) use origin::{OpenLeaf, in_partition, open_partitions, partition_of};
