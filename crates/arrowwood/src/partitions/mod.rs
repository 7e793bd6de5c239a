//! Datasets of several partitions: directories named `key=value`, as in Hive.
//!
//! The modules, in reading order:
//! - `directory_names`: encodes and parses names of directories;
//! - `place`: finds the directory of a partition, or chooses a name;
//! - `values`: infers and parses the values of partition columns;
//! - `listing`: lists directories;
//! - `origin`: all partitions as one dataset, and new partitions;
//! - `follow`: follows new rows;
//! - `open_writer`: opens one partition for writing;
//! - `unsynced`: syncs rows that earlier writers have not synced;
//! - `writer`: writes rows of any partition;
//! - `drop`: removes a partition;
//! - `alter`: changes the schema of a table, or of all partitions.
//!
//! Uses `table` and the modules below it; [`open`](crate::open()) uses this.

#[cfg(feature = "table")]
mod alter;
mod directory_names;
#[cfg(feature = "table")]
mod drop;
#[cfg(feature = "table")]
mod follow;
mod listing;
#[cfg(feature = "table")]
mod open_writer;
mod origin;
mod place;
#[cfg(all(feature = "table", feature = "compute"))]
mod unsynced;
mod values;
#[cfg(all(feature = "table", feature = "compute"))]
mod writer;

#[cfg(feature = "table")]
pub use self::alter::alter;
#[cfg(feature = "table")]
pub use self::drop::drop_partition;
pub use directory_names::PartitionKey;
#[cfg(feature = "table")]
pub use follow::{FollowFrom, PartitionsFollower, follow_partitions, partitions_lag};
#[cfg(feature = "check")]
pub(crate) use listing::partition_directories;
#[cfg(feature = "table")]
pub use open_writer::partition_writer;
pub use origin::Partition;
pub(crate) use origin::{PartitionOpener, open_partitions, partition_values, with_partition_columns};
pub use place::partition_path;
#[cfg(all(feature = "table", feature = "compute"))]
pub use writer::{PartitionBy, PartitionedWriter};
