//! Follows the new rows of a table.

use std::time::Duration;

use arrowwood::{FollowWaker, TableFollower, follow};

use crate::checked_mutex::CheckedMutex;
use crate::dataset::CDataset;
use crate::ffi::*;

/// `arrowwood_follower`. Calls of several threads wait for each other.
pub struct CFollower {
    follow: CheckedMutex<TableFollower>,
    waker: FollowWaker,
}

impl Opaque for CFollower {
    const NAME: &'static str = "arrowwood_follower";
    const TAG: u64 = u64::from_le_bytes(*b"aw_follo");

    fn is_locked_by_this_thread(&self) -> bool {
        self.follow.is_locked_by_this_thread()
    }
}

export! {
    /// Follows a table.
    fn arrowwood_follow(dataset: HandleRef<CDataset>, start: i64, follower: HandleOut<CFollower>) {
        let mut inner = follow(dataset, u64::try_from(start).ok(), None)?;
        let waker = inner.waker();
        follower.put(CFollower { follow: CheckedMutex::new(inner, "follower", "follow the table again"), waker });
        Ok(())
    }

    /// The next rows, or NULL.
    fn arrowwood_follower_next(follower: HandleRef<CFollower>, timeout_ms: i64, dataset: HandleOut<CDataset>) {
        let timeout = u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis);
        match follower.follow.lock()?.poll(timeout)? {
            Some(rows) => dataset.put(CDataset::new(rows)),
            None => dataset.put_null(),
        }
        Ok(())
    }

    /// Ends the wait of another thread.
    fn arrowwood_follower_wake(follower: HandleRef<CFollower>) {
        follower.waker.wake();
        Ok(())
    }

    /// The number of the row after the last returned one.
    fn arrowwood_follower_next_row(follower: HandleRef<CFollower>, row: OutPtr<u64>) {
        row.put(follower.follow.lock()?.next_row());
        Ok(())
    }
}

export_infallible! {
    /// Frees a follower.
    fn arrowwood_follower_free(follower: OwnedHandle<CFollower>) {
        follower.free();
    }
}
