//! Follows the new rows of a table.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use arrowwood::{Error, ErrorKind, Follow, Result, follow};

use crate::dataset::CDataset;
use crate::ffi::*;

/// `arrowwood_follower`. Calls of several threads wait for each other.
pub struct CFollower(Mutex<Follow>);

impl Opaque for CFollower {
    const NAME: &'static str = "arrowwood_follower";
    const TAG: u64 = u64::from_le_bytes(*b"aw_follo");
}

impl CFollower {
    /// Refuses a follower that a panic has left with an unknown position.
    fn lock(&self) -> Result<MutexGuard<'_, Follow>> {
        let message = "the follower is unusable after an internal error; follow the table again";
        self.0.lock().map_err(|_| Error::new(ErrorKind::Closed, message))
    }
}

export! {
    /// Follows a table.
    fn arrowwood_follow(dataset: Ref<CDataset>, start: i64, follower: HandleOut<CFollower>) {
        follower.put(CFollower(Mutex::new(follow(dataset, u64::try_from(start).ok(), None)?)));
        Ok(())
    }

    /// The next rows, or NULL.
    fn arrowwood_follower_next(follower: Ref<CFollower>, timeout_ms: i64, dataset: HandleOut<CDataset>) {
        let timeout = u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis);
        match follower.lock()?.poll(timeout)? {
            Some(rows) => dataset.put(CDataset::new(rows)),
            None => dataset.put_null(),
        }
        Ok(())
    }

    /// The number of the row after the last returned one.
    fn arrowwood_follower_next_row(follower: Ref<CFollower>, row: Out<u64>) {
        row.put(follower.lock()?.next_row());
        Ok(())
    }
}

export_infallible! {
    /// Frees a follower.
    fn arrowwood_follower_free(follower: Owned<CFollower>) {
        follower.free();
    }
}
