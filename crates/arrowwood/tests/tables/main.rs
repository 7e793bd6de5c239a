//! Integration tests of growing tables: writers, readers, followers, maintenance of files, and the limits of the
//! system.

#[macro_use]
#[path = "../../../../tests/support/alone.rs"]
mod alone;
#[expect(dead_code, reason = "these tests have other batches")]
#[path = "../../../../tests/support/columns.rs"]
mod columns;
#[path = "../../../../tests/support/crash_snapshots.rs"]
mod crash_snapshots;
#[path = "../../../../tests/support/dice.rs"]
mod dice;
#[path = "../../../../tests/support/failing_assertion.rs"]
mod failing_assertion;
#[path = "../../../../tests/support/running.rs"]
mod running;
#[path = "../../../../tests/support/tables.rs"]
mod tables;
#[path = "../../../../tests/support/thread.rs"]
mod thread;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

mod alter;
mod changed;
mod dropped;
mod durable;
mod failed_assertions;
mod follower_memory;
mod incremental;
mod limits;
mod live;
mod merge;
mod nulls;
mod partition_follow;
mod partition_names;
mod partitions;
mod pauses;
mod places;
mod replaced;
mod script;
mod shared;
mod small;
mod sort;
mod table;
mod types;
mod versions;
mod zones;
