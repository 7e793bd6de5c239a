//! Datasets of several partitions: directories named `key=value`, as in Hive.
//!
//! In reading order: `names` (of directories), `values` (their types), `tree` (listing directories), `origin` (their
//! rows as one dataset, and new partitions), `follow` (new rows), `siblings` (writing one partition), `left` (rows that
//! earlier writers have not synced), `writer` (writing rows of any partition), `drop`, `alter`. Uses `table` and the modules
//! below it; [`open`](crate::open()) uses this.

#[cfg(feature = "table")]
mod alter;
#[cfg(feature = "table")]
mod drop;
#[cfg(feature = "table")]
mod follow;
#[cfg(all(feature = "table", feature = "compute"))]
mod left;
mod names;
mod origin;
#[cfg(feature = "table")]
mod siblings;
mod tree;
mod values;
#[cfg(all(feature = "table", feature = "compute"))]
mod writer;

#[cfg(feature = "table")]
pub use self::alter::alter;
#[cfg(feature = "table")]
pub use self::drop::drop_partition;
#[cfg(feature = "table")]
pub use follow::{FollowFrom, PartitionsFollower, follow_partitions, partitions_lag};
pub use names::{PartitionKey, partition_path};
pub use origin::Partition;
pub(crate) use origin::{PartitionOpener, with_partition_columns, open_partitions, partition_values};
#[cfg(feature = "table")]
pub use siblings::partition_writer;
#[cfg(feature = "check")]
pub(crate) use tree::partition_directories;
#[cfg(all(feature = "table", feature = "compute"))]
pub use writer::{PartitionBy, PartitionedWriter};
