//! Integration tests of growing tables: writers, readers, followers, maintenance of files, and the limits of the
//! system.

#[macro_use]
#[path = "../../../../tests/support/alone.rs"]
mod alone;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

mod shared;
mod versions;

// They write tables.
#[cfg(unix)]
#[expect(dead_code, reason = "these tests have other batches")]
#[path = "../../../../tests/support/columns.rs"]
mod columns;
#[cfg(unix)]
#[path = "../../../../tests/support/crash_snapshots.rs"]
mod crash_snapshots;
#[cfg(unix)]
#[path = "../../../../tests/support/dice.rs"]
mod dice;
#[cfg(unix)]
#[path = "../../../../tests/support/failing_assertion.rs"]
mod failing_assertion;
#[cfg(unix)]
#[path = "../../../../tests/support/running.rs"]
mod running;
#[cfg(unix)]
#[path = "../../../../tests/support/tables.rs"]
mod tables;
#[cfg(unix)]
#[path = "../../../../tests/support/thread.rs"]
mod thread;

#[cfg(unix)]
mod alter;
#[cfg(unix)]
mod changed;
#[cfg(unix)]
mod dropped;
#[cfg(unix)]
mod durable;
#[cfg(unix)]
mod failed_assertions;
#[cfg(unix)]
mod follower_memory;
#[cfg(unix)]
mod incremental;
#[cfg(unix)]
mod limits;
#[cfg(unix)]
mod live;
#[cfg(unix)]
mod merge;
#[cfg(unix)]
mod nulls;
#[cfg(unix)]
mod partition_follow;
#[cfg(unix)]
mod partition_names;
#[cfg(unix)]
mod partitions;
#[cfg(unix)]
mod pauses;
#[cfg(unix)]
mod places;
#[cfg(unix)]
mod replaced;
#[cfg(unix)]
mod script;
#[cfg(unix)]
mod small;
#[cfg(unix)]
mod sort;
#[cfg(unix)]
mod table;
#[cfg(unix)]
mod types;
#[cfg(unix)]
mod zones;
