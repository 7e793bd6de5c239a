//! The background work of one writer: publishing footers delayed by a full ring, syncing periodically, and creating the
//! next segment. One thread does it for all writers of the process: see [`scheduler`](super::scheduler).
//!
//! # Who publishes the footer of a commit
//!
//! A commit is visible to Arrowwood's readers at once. Its footer, by which other Arrow readers find it, is published
//! by the writer if the ring has a free place, and otherwise by the thread as soon as there is one. The newest commit
//! alone needs a footer. Writer and thread share three variables besides the footer itself, which has a lock:
//!
//! ```text
//! the live page's sequence   the number of the newest commit; stored by the writer
//! may_publish                the writer publishes its next commit itself; a hint
//! is_idle                    the thread has no turn scheduled that would publish another commit
//!
//! writer, in `on_commit`                            thread, at the end of a turn
//! sequence = next                                   the newest commit is published, and a place is free:
//! ── full fence ──                                  may_publish = true
//! may_publish: publish, and set may_publish         is_idle = true
//!              to whether a place is left           ── full fence ──
//! else is_idle: is_idle = false, request a turn     a newer sequence: is_idle = false, and another turn
//! ```
//! No commit stays without a footer. Because of the two fences at least one side sees what the other has stored: either
//! the writer finds `is_idle` set and requests a turn, or the thread finds the newer sequence. While `is_idle` is
//! false, a turn is in progress or scheduled, and each turn clears it before it loads the sequence.
//!
//! `may_publish` needs no order. If the writer finds it false too late, it requests a turn, which publishes. If it
//! finds it true too late, the thread has published this commit already: the footer's lock serializes both, the second
//! one finds the commit published, and does nothing.
//!
//! # Locks
//!
//! A turn holds `last_run` from beginning to end; nobody else takes it. In it the thread may take the lock of the next
//! segment, and the locks of [`SegmentSyncer`] and of one segment in the order that is stated there.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::next_segment::{NextSegment, SegmentFactory};
use super::scheduler::{Task, TaskHandle};
use crate::error::{Error, Result};
use crate::map::{DirectoryLock, MutexExt, guard};
use crate::table::format::SEQUENCE;
use crate::table::writer::live::{Durability, LiveFile, LiveSegment, SegmentSyncer, SyncTarget};

/// The number of sealed segments waiting for a sync, each of which holds a descriptor, above which the thread syncs
/// them, whatever the writer's policy.
const MAX_PENDING: usize = 16;
/// The number of them above which the writer itself syncs them.
const MAX_PENDING_FOR_WRITER: usize = 64;

/// The interval at which the writer checks that its live segment still exists. Not more often: asking for a file's
/// times makes the next write record them exactly, which takes half as long as a sync.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// The shortest time between two attempts to publish a footer for which there is no place.
const MIN_PUBLISH_WAIT: Duration = Duration::from_millis(1);

/// The state shared by the writer and the background thread.
#[derive(Debug)]
struct BackgroundState {
    /// Also shared with threads that wait for durable commits.
    syncer: Arc<SegmentSyncer>,
    /// The time between two syncs; `None` if the thread makes none.
    sync_interval: Option<Duration>,
    /// True if the writer publishes its next footer itself; otherwise the thread does, when a place is free.
    may_publish: AtomicBool,
    /// True if the writer has to request a turn for a commit that it doesn't publish itself.
    is_idle: AtomicBool,
    /// True if the writer checks at its next commit that its live segment still exists.
    is_check_requested: AtomicBool,
    next_segment: NextSegment,
    /// Only used by the thread, in one turn at a time.
    last_run: Mutex<LastRun>,
}

/// The times of the last background work.
#[derive(Debug)]
struct LastRun {
    synced: Instant,
    /// When the writer was last asked to check its live segment.
    check_requested: Instant,
}

/// The writer's handle to its background work. Dropping it ends the work, and with it the writer's lock of the table.
#[derive(Debug)]
pub(in crate::table::writer) struct BackgroundWork {
    state: Arc<BackgroundState>,
    /// `None` only while this is dropped.
    task: Option<TaskHandle>,
}

impl BackgroundWork {
    /// Starts the background work, and keeps the lock of the folder. The commits in `segments`, the live one last, may
    /// not be durable.
    ///
    /// # Errors
    /// `Io` if the thread can't be started.
    pub fn start(
        lock: DirectoryLock,
        folder: &Path,
        segments: Vec<Arc<LiveFile>>,
        sync_interval: Option<Duration>,
    ) -> Result<BackgroundWork> {
        let state = Arc::new(BackgroundState {
            syncer: Arc::new(SegmentSyncer::new(lock, folder, segments)),
            sync_interval,
            may_publish: AtomicBool::new(true),
            is_idle: AtomicBool::new(false),
            is_check_requested: AtomicBool::new(false),
            next_segment: NextSegment::default(),
            last_run: Mutex::new(LastRun { synced: Instant::now(), check_requested: Instant::now() }),
        });
        let task = TaskHandle::start(state.clone())?;
        Ok(BackgroundWork { state, task: Some(task) })
    }

    /// Returns true if this process is the one that opened the writer.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.lock().is_ours()
    }

    /// Returns the lock of the table's directory.
    #[inline]
    pub fn lock(&self) -> &DirectoryLock {
        self.state.syncer.lock()
    }

    /// Returns the number of the row after the last durable one.
    pub fn durable_rows(&self) -> u64 {
        self.state.syncer.durable_rows()
    }

    /// Returns a handle for waiting until rows become durable.
    pub fn durability(&self) -> Durability {
        self.state.syncer.durability()
    }

    /// Ensures that the footer of a commit, which has just become visible, is published, now or a little later.
    #[inline]
    pub fn on_commit(&self, live: &LiveFile) {
        // The commit has made a full fence after the store of its sequence.
        self.state.syncer.count_commit();
        if self.state.may_publish.load(Ordering::Relaxed) {
            self.state.publish(live);
        } else if self.state.is_idle.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Publishes the newest commit, waiting for a place if necessary.
    pub fn publish_now(&self, live: &LiveFile) {
        let wait = live.footer().wait_if_urgent();
        std::thread::sleep(wait);
        self.state.publish(live);
    }

    /// Returns whether a check of the live segment's existence is due, and clears the request.
    #[inline]
    pub fn take_check_request(&self) -> bool {
        let is_requested = &self.state.is_check_requested;
        is_requested.load(Ordering::Relaxed) && is_requested.swap(false, Ordering::Relaxed)
    }

    /// Requests the next segment from the thread.
    #[cold]
    pub fn request_next(&self, factory: SegmentFactory) {
        self.state.next_segment.request(factory);
        self.wake();
    }

    /// Takes the requested segment, waiting for it if its creation has begun. `None` if it has not, or failed.
    pub fn take_next(&self) -> Option<LiveSegment> {
        self.state.next_segment.take()
    }

    /// Requests a turn of the thread.
    fn wake(&self) {
        self.state.is_idle.store(false, Ordering::SeqCst);
        if let Some(task) = &self.task {
            task.request_turn();
        }
    }

    /// Replaces the live segment, which was empty, by another one.
    pub fn on_replaced(&self, live: Arc<LiveFile>) {
        self.state.syncer.replace_live(live);
        // The new file may have another schema, and who waits for that waits for its name.
        self.state.syncer.count_commit();
    }

    /// Adds the segments, already named, in which the commit continues that seals the live segment: see
    /// [`SegmentSyncer::add_segments`].
    pub fn add_segments(&self, named: Vec<Arc<LiveFile>>) {
        self.state.syncer.add_segments(named);
    }

    /// Makes the last segment passed to [`add_segments`](BackgroundWork::add_segments) the live one, after the previous
    /// one was sealed.
    pub fn on_rolled(&self) {
        self.state.may_publish.store(true, Ordering::Relaxed);
        let pending = self.state.syncer.pending();
        if pending > MAX_PENDING_FOR_WRITER {
            // The commit is visible. Its error, if any, is reported by the writer's next call.
            let _ = self.state.syncer.sync(SyncTarget::Columns);
        } else if pending > MAX_PENDING {
            self.wake();
        }
    }

    /// Releases the space of a sealed segment's published footers; the last ones follow when they have rested.
    pub fn on_sealed(&self, segment: Arc<LiveFile>) {
        let syncer = &self.state.syncer;
        // Blocks that stay allocated only cost space; `compact` releases them.
        if let Some(oldest) = syncer.resting.push(segment) {
            syncer.stamp_if_done(&oldest);
        }
        self.wake();
    }

    /// Brings all commits to the disk.
    ///
    /// # Errors
    /// The error of the disk, and after any failure the error of [`BackgroundWork::check`].
    pub fn sync(&self, target: SyncTarget) -> Result<()> {
        self.state.syncer.sync(target)
    }

    /// Brings all commits to the disk as [`BackgroundWork::sync`] does, and writes another durable record of the live
    /// segment: see [`LiveFile::settle`].
    pub fn settle(&self, live: &LiveFile) -> Result<()> {
        self.state.syncer.settle(live)
    }

    /// Stops the work: nothing more is written or synced, on any thread.
    #[cold]
    pub fn stop_with(&self, error: Error) {
        self.state.syncer.fail(error);
    }

    /// Returns true if a sync, or the thread, has failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.state.syncer.has_failed()
    }

    /// Checks that neither a sync nor the thread has failed.
    ///
    /// # Errors
    /// `FileChanged` or `Internal` if that was the failure, otherwise `Closed`.
    #[cold]
    pub fn check(&self) -> Result<()> {
        self.state.syncer.check()
    }
}

impl Drop for BackgroundWork {
    fn drop(&mut self) {
        self.state.syncer.stop();
        // The lock is released when this returns: no turn holds it any more, and threads that wait for durable rows
        // hold it for an instant only.
        drop(self.task.take());
        if self.is_ours() {
            self.state.syncer.stamp_all();
        }
    }
}

impl Task for BackgroundState {
    fn take_turn(&self) -> Option<Duration> {
        if self.syncer.is_stopped() || self.syncer.has_failed() {
            return None;
        }
        // From now on commits need not request a turn.
        self.is_idle.store(false, Ordering::SeqCst);

        let mut last_run = self.last_run.lock_ignoring_poison();
        if last_run.check_requested.elapsed() >= CHECK_INTERVAL {
            self.is_check_requested.store(true, Ordering::Relaxed);
            last_run.check_requested = Instant::now();
        }

        self.next_segment.create();

        let (live, pending) = self.syncer.live()?;
        let is_due = self.sync_interval.is_some_and(|interval| last_run.synced.elapsed() >= interval);
        if is_due || pending > MAX_PENDING {
            if pending > 1 || !self.syncer.is_durable() {
                self.syncer.sync(SyncTarget::Columns).ok()?;
            }
            last_run.synced = Instant::now();
        }

        let mut wait = self.release_footers();
        if let Some(interval) = self.sync_interval {
            wait = wait.min(interval.saturating_sub(last_run.synced.elapsed()));
        }
        // After a pause, the writer must check before its next commit.
        if !self.is_check_requested.load(Ordering::Relaxed) {
            wait = wait.min(CHECK_INTERVAL.saturating_sub(last_run.check_requested.elapsed()));
        }

        Some(self.publish_newest(&live)?.min(wait))
    }

    fn on_panic(&self, error: Error) {
        self.syncer.fail(error);
    }
}

impl BackgroundState {
    /// Publishes the footer of the newest commit if it isn't published and a place is free; returns the time until the
    /// next attempt. `None` if the commit can't be read, or the footer can't be published.
    fn publish_newest(&self, live: &Arc<LiveFile>) -> Option<Duration> {
        let mut wait = live.footer().wait();
        if !self.is_newest_published(live)? {
            if !wait.is_zero() {
                return Some(wait.max(MIN_PUBLISH_WAIT));
            }
            self.publish(live);
            wait = live.footer().wait();
        }
        if !wait.is_zero() {
            return Some(wait);
        }

        self.may_publish.store(true, Ordering::Relaxed);
        self.is_idle.store(true, Ordering::SeqCst);
        // Check again: a commit before the flag was set did not request a turn.
        fence(Ordering::SeqCst);
        let is_live = self.syncer.is_live(live);
        if self.is_newest_published(live)? && is_live {
            return Some(Duration::MAX);
        }
        self.is_idle.store(false, Ordering::SeqCst);
        Some(Duration::ZERO)
    }

    /// Returns true if the footer of the newest visible commit is published; `None`, and fails, if its number can't be
    /// read.
    fn is_newest_published(&self, live: &LiveFile) -> Option<bool> {
        match guard(|| Ok(live.store.load64(live.header.live + SEQUENCE))) {
            Ok(sequence) => Some(live.footer().published >= sequence),
            Err(e) => {
                self.syncer.fail(e);
                None
            }
        }
    }

    /// Publishes the footer of the newest commit, unless it is published.
    fn publish(&self, live: &LiveFile) {
        if let Err(e) = guard(|| live.publish()) {
            self.syncer.fail(e);
        }
        let wait = live.footer().wait();
        self.may_publish.store(wait.is_zero(), Ordering::Relaxed);
    }

    /// Releases the space of published footers of sealed segments; returns the time until more is due.
    fn release_footers(&self) -> Duration {
        let resting = &self.syncer.resting;
        for segment in resting.take_due() {
            // Blocks that stay allocated only cost space.
            let _ = segment.trim_footers();
            self.syncer.stamp_if_done(&segment);
        }
        resting.time_left()
    }
}
