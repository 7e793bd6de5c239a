//! Publishes the [`Progress`] of a table to the clients that wait for it, by one thread for each table.
//!
//! The thread is there while clients subscribe to the progress, and for [`LINGER`] afterwards, as they often come back.
//! [`Table::watch`] starts it if `is_watched` is not set, and the thread resets `is_watched` when it ends. Both do so
//! under the lock of `is_watched`, and the thread looks for subscribers under it a last time. So a client either
//! subscribes before the thread looks, and keeps it, or finds `is_watched` reset, and starts another thread. A
//! [`WatchGuard`] resets it after an error or a panic, too, and tells the subscribers that the table is lost.
//!
//! The thread is not the only one that changes the progress: [`Table::on_durable`] is called by the thread that has
//! synced rows. As both take the maximum, the durable end never decreases, whichever comes first.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrowwood::mapping::MutexExt;
use arrowwood::{Dataset, Error, ErrorKind, Result, TableFollower, follow};
use tokio::sync::watch as progress_channel;

use super::{Progress, Table};
use crate::ops::log;

/// The time after which a table that no client waits for is no longer watched.
const LINGER: Duration = Duration::from_secs(2);
/// The maximum time for which the thread waits for rows before it looks for subscribers and renewals.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// The minimum interval between two checks of a table with continuous commits.
const CHECK_PAUSE: Duration = Duration::from_micros(200);
/// The first interval between checks for durable rows in a table written by other processes. It doubles while nothing
/// changes.
const MIN_DURABLE_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum interval between checks for durable rows.
const MAX_DURABLE_INTERVAL: Duration = Duration::from_secs(1);

impl Table {
    /// Subscribes to the progress of the table. Blocks for the first check.
    ///
    /// # Errors
    /// As [`Table::rows`]; `Io` if no thread can be started.
    pub fn watch(self: &Arc<Self>) -> Result<progress_channel::Receiver<Progress>> {
        let mut is_watched = self.is_watched.lock_ignoring_poison();
        let receiver = self.progress.subscribe();
        if !*is_watched {
            let first = self.progress()?;
            // A thread that has synced rows meanwhile has stored their end before it publishes it.
            self.progress.send_modify(|progress| {
                let durable_end = first.durable_end.max(self.known_durable_end().min(first.end));
                *progress = Progress { durable_end, ..first };
            });
            let table = self.clone();
            let spawned = thread::Builder::new().name("arrowwood-watch".into()).spawn(move || keep_watch(&table));
            spawned.map_err(|e| Error::io("starting a thread", &e))?;
            *is_watched = true;
        }
        Ok(receiver)
    }
}

/// Publishes the progress of `table` until no client waits, or the table is lost.
fn keep_watch(table: &Table) {
    let guard = WatchGuard { table };
    match TableWatch::new(table).and_then(TableWatch::run) {
        // `is_watched` is reset, and may be set by another thread since.
        Ok(()) => std::mem::forget(guard),
        Err(e) if e.kind() == ErrorKind::NotFound => (),
        Err(e) => log::message(format_args!("following a table: {e}")),
    }
}

/// Reports the table as lost when it is dropped. Without it, the clients of a thread that has panicked would wait
/// forever, and no other thread would be started.
struct WatchGuard<'a> {
    table: &'a Table,
}

impl Drop for WatchGuard<'_> {
    fn drop(&mut self) {
        let mut is_watched = self.table.is_watched.lock_ignoring_poison();
        self.table.progress.send_modify(|progress| progress.is_lost = true);
        *is_watched = false;
    }
}

/// The state of the thread that watches a table.
struct TableWatch<'a> {
    table: &'a Table,
    follower: TableFollower,
    /// The number of the table's renewals before the follower was created. If there are more, files may have been
    /// removed, and a new follower closes them.
    renewals: u64,
    /// Set until the follower has been polled. Rows may have been committed and dropped before it was created, so the
    /// progress is published even if it reports none.
    is_new_follower: bool,
    /// The current interval between checks for durable rows.
    durable_interval: Duration,
    last_durable_check: Instant,
    /// The time when there was a subscriber.
    last_watched: Instant,
}

impl<'a> TableWatch<'a> {
    fn new(table: &'a Table) -> Result<TableWatch<'a>> {
        let renewals = table.renewals();
        let end = table.current_progress().end;
        Ok(TableWatch {
            table,
            follower: follow_from(&table.rows()?, Some(end))?,
            renewals,
            is_new_follower: true,
            durable_interval: MIN_DURABLE_INTERVAL,
            last_durable_check: Instant::now(),
            last_watched: Instant::now(),
        })
    }

    fn run(mut self) -> Result<()> {
        loop {
            let progress = self.table.current_progress();
            self.renew_follower(progress.end)?;

            let is_behind = progress.durable_end < progress.end;
            let timeout = match (self.is_new_follower, is_behind) {
                (true, _) => Duration::ZERO,
                (false, true) => self.durable_interval,
                (false, false) => MAX_WAIT,
            };
            if self.wait_for_rows(timeout)? || self.is_new_follower {
                self.is_new_follower = false;
                self.durable_interval = MIN_DURABLE_INTERVAL;
                self.publish_rows()?;
                thread::sleep(CHECK_PAUSE);
            }

            // A table with continuous commits is checked for durable rows, too.
            if is_behind && self.last_durable_check.elapsed() >= self.durable_interval {
                self.check_durable(progress)?;
            }

            if self.is_over() {
                return Ok(());
            }
        }
    }

    /// Creates another follower from row `end` on, if the table was renewed since the current one was created.
    fn renew_follower(&mut self, end: u64) -> Result<()> {
        let renewals = self.table.renewals();
        if renewals != self.renewals {
            self.renewals = renewals;
            self.follower = follow_from(&self.table.rows()?, Some(end))?;
            self.is_new_follower = true;
        }
        Ok(())
    }

    /// Waits at most `timeout`. Returns true if rows were committed or dropped.
    fn wait_for_rows(&mut self, timeout: Duration) -> Result<bool> {
        match self.follower.poll(timeout) {
            // The next rows were dropped before the follower has read them.
            Err(e) if e.kind() == ErrorKind::RowOutOfRange => {
                self.follower = follow_from(&self.table.rows()?, None)?;
                Ok(true)
            }
            rows => Ok(rows?.is_some()),
        }
    }

    /// Publishes the table's rows at once: a check for durable rows would delay them.
    fn publish_rows(&self) -> Result<()> {
        let rows = self.table.rows()?;
        let first_row = rows.first_row();
        let end = first_row + rows.len()?;
        let durable_end = self.table.known_durable_end().min(end);
        self.table.progress.send_modify(|progress| {
            progress.first_row = first_row;
            progress.end = end;
            progress.durable_end = progress.durable_end.max(durable_end);
        });
        Ok(())
    }

    /// Publishes which rows are durable, if there are more than in `progress`.
    fn check_durable(&mut self, progress: Progress) -> Result<()> {
        self.last_durable_check = Instant::now();
        let durable_end = self.table.durable_end(progress.end)?;
        if durable_end > progress.durable_end {
            self.durable_interval = MIN_DURABLE_INTERVAL;
            self.table.progress.send_modify(|progress| progress.durable_end = progress.durable_end.max(durable_end));
        } else {
            self.durable_interval = (2 * self.durable_interval).min(MAX_DURABLE_INTERVAL);
        }
        Ok(())
    }

    /// Returns true if there has been no subscriber for [`LINGER`]. Then `is_watched` is reset.
    fn is_over(&mut self) -> bool {
        if self.table.progress.receiver_count() > 0 {
            self.last_watched = Instant::now();
        } else if self.last_watched.elapsed() > LINGER {
            let mut is_watched = self.table.is_watched.lock_ignoring_poison();
            // `watch` takes the same lock, so no client can subscribe between this check and the end.
            if self.table.progress.receiver_count() == 0 {
                *is_watched = false;
                return true;
            }
        }
        false
    }
}

/// Follows rows from `start` on, or from the current end if that row was dropped, as only the progress matters here.
fn follow_from(rows: &Dataset, start: Option<u64>) -> Result<TableFollower> {
    match follow(rows, start, None) {
        Err(e) if e.kind() == ErrorKind::RowOutOfRange => follow(rows, None, None),
        follower => follower,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use arrowwood::mapping::os::FileInfo;
    use arrowwood::{Writer, WriterOptions, parse_schema};

    use super::*;
    use crate::catalog::table::{FileIdentity, Kind};

    #[test]
    fn panic_of_the_watching_thread_ends_the_streams_of_its_clients() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let schema = Arc::new(parse_schema("n: int64").unwrap());
        Writer::open(&path, Some(schema), &WriterOptions::default()).unwrap().close().unwrap();
        let identity = FileIdentity::from_metadata(&FileInfo::from_path(&path).unwrap());
        let table = Table::open("t", path, Kind::Table, identity).unwrap();
        *table.is_watched.lock().unwrap() = true;
        let subscriber = table.progress.subscribe();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = WatchGuard { table: &table };
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert!(subscriber.borrow().is_lost);
        assert!(!*table.is_watched.lock().unwrap(), "the next client starts a thread");
    }
}
