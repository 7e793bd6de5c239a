//! The background work of a writer: publishing footers delayed by a full ring, syncing periodically, and creating the
//! next segment. One thread serves all writers of the process.

use crate::map::MutexExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use super::live_file::{LiveFile, SyncTarget};
use super::live_segment::LiveSegment;
use super::next_segment::{NextSegment, SegmentFactory};
use super::scheduler::{Task, TaskHandle};
use crate::error::{Error, ErrorKind, Result, catch_panic};
use crate::map::{DirectoryLock, guard};
use crate::table::format::{Record, SEQUENCE};
use crate::table::reader::chain;

/// Limits of sealed segments waiting for a sync, each of which holds a descriptor. Above the first the thread syncs
/// them, whatever the writer's policy; above the second the writer does.
const PENDING: (usize, usize) = (16, 64);

/// The maximum number of sealed segments whose published footers rest, since each takes a descriptor too.
const RESTING: usize = 32;

/// The interval at which the writer checks that its live segment still exists. Not more often: asking for a file's times
/// makes the next write record them exactly, which takes half as long as a sync.
const LOOK: Duration = Duration::from_millis(10);

/// The progress of the writer and of the disk.
#[derive(Debug, Default)]
struct DurableProgress {
    /// Number of commits, and one for all that an earlier writer may have left: segments and names that are not durable.
    committed: AtomicU64,
    /// Number of durable commits.
    durable: AtomicU64,
    /// The number of the row after the last durable one.
    rows: AtomicU64,
}

/// The state shared by the writer and the background thread.
#[derive(Debug)]
struct BackgroundState {
    lock: DirectoryLock,
    /// The table's directory.
    folder: PathBuf,
    /// Segments whose newest commit is not on the disk yet, the live one last.
    segments: Mutex<Vec<Arc<LiveFile>>>,
    /// Held during a sync, by the writer, the thread or who waits. Whoever takes it checks `has_failed` first: a second
    /// sync after one that failed may succeed though the data isn't on the disk.
    syncing: Mutex<()>,
    /// Whether the writer publishes its next footer itself; otherwise the thread does, when a place is free.
    may_publish: AtomicBool,
    idle: AtomicBool,
    /// Whether the writer checks at its next commit that its live segment still exists.
    look: AtomicBool,
    ahead: NextSegment,
    stop: AtomicBool,
    every: Option<Duration>,
    progress: Arc<DurableProgress>,
    /// Whether new names are not on the disk yet.
    names: AtomicBool,
    /// The first error after which nothing may be written or synced.
    failure: Mutex<Option<Error>>,
    has_failed: AtomicBool,
    /// Sealed segments with published footers possibly still in use by readers, the last ones sealed last.
    sealed: Mutex<Vec<RestingSegment>>,
    last: Mutex<LastRun>,
}

/// A sealed segment whose last footers rest.
#[derive(Debug)]
struct RestingSegment {
    segment: Arc<LiveFile>,
    since: Instant,
    rest: Duration,
    /// Whether the space of all other footers is released.
    is_trimmed: bool,
}

/// The times of the last background work.
#[derive(Debug)]
struct LastRun {
    synced: Instant,
    looked: Instant,
}

/// The writer's handle to its background work.
#[derive(Debug)]
pub(super) struct BackgroundWork {
    inner: Arc<BackgroundState>,
    turns: Option<TaskHandle>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_ignoring_poison()
}

impl BackgroundWork {
    /// Starts the background work, and keeps the lock of the folder.
    pub fn start(
        lock: DirectoryLock,
        folder: &Path,
        segments: Vec<Arc<LiveFile>>,
        every: Option<Duration>,
    ) -> Result<BackgroundWork> {
        let durable_rows = segments.first().map_or(0, |first| first.header.first_row + first.durable_rows());
        let inner = Arc::new(BackgroundState {
            lock,
            folder: folder.to_path_buf(),
            segments: Mutex::new(segments),
            syncing: Mutex::new(()),
            may_publish: AtomicBool::new(true),
            idle: AtomicBool::new(false),
            look: AtomicBool::new(false),
            ahead: NextSegment::default(),
            stop: AtomicBool::new(false),
            every,
            progress: Arc::new(DurableProgress {
                committed: AtomicU64::new(1),
                durable: AtomicU64::new(0),
                rows: AtomicU64::new(durable_rows),
            }),
            names: AtomicBool::new(true),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            sealed: Mutex::default(),
            last: Mutex::new(LastRun { synced: Instant::now(), looked: Instant::now() }),
        });
        let turns = TaskHandle::start(inner.clone())?;
        Ok(BackgroundWork { inner, turns: Some(turns) })
    }

    /// Whether this process is the one that opened the writer.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.inner.lock.is_ours()
    }

    /// The lock of the table's directory.
    pub fn lock(&self) -> &DirectoryLock {
        &self.inner.lock
    }

    pub fn durable_rows(&self) -> u64 {
        self.inner.progress.rows.load(Ordering::Acquire)
    }

    /// Ensures that the newest commit is published, now or a little later.
    #[inline]
    pub fn committed(&self, live: &LiveFile) {
        self.count();
        if self.inner.may_publish.load(Ordering::Relaxed) {
            self.inner.publish(live);
        } else if self.inner.idle.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Counts a commit, which is not durable yet.
    #[inline]
    fn count(&self) {
        let commits = &self.inner.progress.committed;
        commits.store(commits.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Returns whether a check of the live segment's existence is due, and clears the request.
    #[inline]
    pub fn is_look_due(&self) -> bool {
        self.inner.look.load(Ordering::Relaxed) && self.inner.look.swap(false, Ordering::Relaxed)
    }

    /// Requests the next segment from the thread.
    #[cold]
    pub fn order(&self, order: SegmentFactory) {
        self.inner.ahead.order(order);
        self.wake();
    }

    /// Takes the requested segment, waiting for it if its creation has begun. `None` if it has not, or failed.
    pub fn ordered(&self) -> Option<LiveSegment> {
        self.inner.ahead.take()
    }

    fn wake(&self) {
        self.inner.idle.store(false, Ordering::SeqCst);
        if let Some(turns) = &self.turns {
            turns.ask();
        }
    }

    /// Publishes the newest commit, waiting for a place if necessary.
    pub fn publish_now(&self, live: &LiveFile) {
        let wait = live.footer().wait_if_urgent();
        std::thread::sleep(wait);
        self.inner.publish(live);
    }

    /// Replaces the live segment, which was empty, by another one.
    pub fn replaced(&self, live: Arc<LiveFile>) {
        self.inner.names.store(true, Ordering::Release);
        let mut segments = locked(&self.inner.segments);
        segments.pop();
        segments.push(live);
        drop(segments);
        // The new file may have another schema, and who waits for that waits for its name.
        self.count();
    }

    /// Adds the segments, already named, in which the commit continues that seals the live segment. Must be called
    /// before sealing, so that a sync of the sealed segment includes them.
    pub fn goes_on(&self, mut fresh: Vec<Arc<LiveFile>>) {
        // First: whoever sees the segments must see that the folder needs a sync.
        self.inner.names.store(true, Ordering::Release);
        locked(&self.inner.segments).append(&mut fresh);
    }

    /// From now on the last segment passed to [`goes_on`](Background::goes_on) is the live one.
    pub fn rolled(&self) {
        let pending = locked(&self.inner.segments).len();
        self.inner.may_publish.store(true, Ordering::Relaxed);
        if pending > PENDING.1 {
            // The commit is visible. Its error, if any, is that of the writer's next call.
            let _ = self.inner.sync(SyncTarget::Columns);
        } else if pending > PENDING.0 {
            self.wake();
        }
    }

    /// Brings all commits to the disk.
    ///
    /// # Errors
    /// Those of the disk, and after any failure that of [`BackgroundWork::check`].
    pub fn sync(&self, how: SyncTarget) -> Result<()> {
        self.inner.sync(how)
    }

    /// As [`BackgroundWork::sync`], and writes another durable record of the live segment.
    pub fn settle(&self, live: &LiveFile) -> Result<()> {
        self.inner.to_disk(|| {
            self.inner.sync_all(SyncTarget::Columns)?;
            live.settle()
        })
    }

    /// A handle for waiting until rows become durable.
    pub fn durability(&self) -> Durability {
        Durability { inner: Arc::downgrade(&self.inner), progress: self.inner.progress.clone() }
    }

    /// Stops the work: nothing more is written or synced, on any thread.
    #[cold]
    pub fn stop_with(&self, error: Error) {
        self.inner.fail(error);
    }

    /// Whether a sync, or the thread, has failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.inner.has_failed.load(Ordering::Relaxed)
    }

    /// Checks that neither a sync nor the thread has failed.
    ///
    /// # Errors
    /// `FileChanged` or `Internal` if that was the failure, otherwise `Closed`.
    #[cold]
    pub fn check(&self) -> Result<()> {
        self.inner.check()
    }

    /// Releases the space of a sealed segment's published footers, of the last ones when they have rested.
    pub fn sealed(&self, segment: Arc<LiveFile>) {
        let rest = segment.footer().rest();
        let mut sealed = locked(&self.inner.sealed);
        sealed.push(RestingSegment { segment, since: Instant::now(), rest, is_trimmed: false });
        // Blocks that stay allocated only cost space; `compact` releases them.
        let left = (sealed.len() > RESTING).then(|| sealed.remove(0));
        drop(sealed);
        left.iter().for_each(|left| self.inner.stamp_done(&left.segment));
        self.wake();
    }
}

impl Drop for BackgroundWork {
    fn drop(&mut self) {
        self.inner.stop.store(true, Ordering::SeqCst);
        // The lock is released when this returns, as no turn holds it any more, and nobody who waits for durable rows for
        // longer than an instant.
        drop(self.turns.take());
        if self.is_ours() {
            let _alone = locked(&self.inner.syncing);
            // Nothing more is written to them, and no other writer has the lock yet.
            let segments = std::mem::take(&mut *locked(&self.inner.segments));
            let sealed = std::mem::take(&mut *locked(&self.inner.sealed));
            for segment in segments.iter().chain(sealed.iter().map(|resting| &resting.segment)) {
                // A panic here would end the process if another one is under way.
                let _ = catch_panic(|| {
                    segment.stamp();
                    Ok(())
                });
            }
        }
    }
}

impl Task for BackgroundState {
    fn take_turn(&self) -> Option<Duration> {
        if self.stop.load(Ordering::SeqCst) || self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        // From now on commits need not request a turn.
        self.idle.store(false, Ordering::SeqCst);
        let mut last = locked(&self.last);
        if last.looked.elapsed() >= LOOK {
            self.look.store(true, Ordering::Relaxed);
            last.looked = Instant::now();
        }
        self.ahead.make();
        let (live, pending) = {
            let segments = locked(&self.segments);
            (segments.last().cloned()?, segments.len())
        };
        if pending > PENDING.0 || self.every.is_some_and(|every| last.synced.elapsed() >= every) {
            if pending > 1 || !self.is_durable() {
                self.sync(SyncTarget::Columns).ok()?;
            }
            last.synced = Instant::now();
        }
        let rest = self.every.map_or(Duration::MAX, |every| every.saturating_sub(last.synced.elapsed()));
        let rest = rest.min(self.trim());
        // After a pause, the writer must check before its next commit.
        let is_set = self.look.load(Ordering::Relaxed);
        let rest = if is_set { rest } else { rest.min(LOOK.saturating_sub(last.looked.elapsed())) };
        Some(self.publish_newest(&live)?.min(rest))
    }

    fn on_panic(&self, error: Error) {
        self.fail(error);
    }
}

impl BackgroundState {
    /// Whether all commits of this writer, and the names of their segments, are on the disk.
    fn is_durable(&self) -> bool {
        let committed = self.progress.committed.load(Ordering::Acquire);
        self.progress.durable.load(Ordering::Acquire) >= committed && !self.names.load(Ordering::Acquire)
    }

    /// Publishes the footer of the newest commit if it isn't published and a place is free; returns the time until the
    /// next attempt. `None` if the commit can't be read, or the footer can't be published.
    fn publish_newest(&self, live: &Arc<LiveFile>) -> Option<Duration> {
        let newest = || guard(|| Ok(live.store.load64(live.header.live + SEQUENCE)));
        let newest = || newest().map_err(|e| self.fail(e)).ok();
        let mut wait = live.footer().wait();
        if live.footer().published < newest()? {
            if !wait.is_zero() {
                return Some(wait.max(Duration::from_millis(1)));
            }
            self.publish(live);
            wait = live.footer().wait();
        }
        if !wait.is_zero() {
            return Some(wait);
        }
        self.may_publish.store(true, Ordering::Relaxed);
        self.idle.store(true, Ordering::SeqCst);
        // Check again: a commit before the flag was set did not request a turn.
        let is_live = locked(&self.segments).last().is_some_and(|last| Arc::ptr_eq(last, live));
        if live.footer().published >= newest()? && is_live {
            return Some(Duration::MAX);
        }
        self.idle.store(false, Ordering::SeqCst);
        Some(Duration::ZERO)
    }

    /// Records that the writer can't continue.
    fn fail(&self, e: Error) {
        locked(&self.failure).get_or_insert(e);
        self.has_failed.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<()> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(match &*locked(&self.failure) {
            Some(e) => cannot_go_on(e.kind(), e.message()),
            None => Error::internal("a writer that failed without an error"),
        })
    }

    /// Releases the space of published footers of sealed segments; returns the time until more is due.
    fn trim(&self) -> Duration {
        let left = |resting: &RestingSegment| resting.rest.saturating_sub(resting.since.elapsed());
        let mut due = Vec::new();
        locked(&self.sealed).retain_mut(|resting| {
            let has_rested = left(resting).is_zero();
            if has_rested || !resting.is_trimmed {
                resting.is_trimmed = true;
                due.push(resting.segment.clone());
            }
            !has_rested
        });
        for segment in due {
            // Blocks that stay allocated only cost space.
            let _ = segment.trim_footers();
            self.stamp_done(&segment);
        }
        locked(&self.sealed).iter().map(left).min().unwrap_or(Duration::MAX)
    }

    fn publish(&self, live: &LiveFile) {
        if let Err(e) = guard(|| live.publish()) {
            self.fail(e);
        }
        let wait = live.footer().wait();
        self.may_publish.store(wait.is_zero(), Ordering::Relaxed);
    }

    fn sync(&self, how: SyncTarget) -> Result<()> {
        self.to_disk(|| self.sync_all(how))
    }

    /// Runs `sync`, one at a time and never after a failure: the system may consider pages written that it could not
    /// write, so the next sync would succeed, and their rows count as durable.
    fn to_disk(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let _alone = locked(&self.syncing);
        self.check()?;
        if self.stop.load(Ordering::SeqCst) {
            return Err(dropped());
        }
        // Recorded before the lock is released.
        catch_panic(|| guard(sync)).inspect_err(|e| self.fail(e.clone()))
    }

    /// Makes all commits durable. Call it in [`BackgroundState::to_disk`].
    fn sync_all(&self, how: SyncTarget) -> Result<()> {
        let commits = self.progress.committed.load(Ordering::Acquire);
        let cut = self.newest_commit()?;
        // Names first: a durable segment implies that all earlier ones exist.
        if self.names.swap(false, Ordering::AcqRel) {
            let synced = self.lock.sync().map_err(|e| Error::io("syncing the directory", &e));
            synced.inspect_err(|_| self.names.store(true, Ordering::Release))?;
        }
        let end = cut.last().map_or(0, |(segment, record)| segment.header.first_row + record.rows());
        make_durable(&cut, how)?;
        // What is on the disk without a name is lost. After the sync, as the name may have gone during it.
        for (segment, _) in &cut {
            let path = chain::path(&self.folder, segment.header.first_row);
            let is_missing = self.lock.medium().is_missing(&path);
            if is_missing.map_err(|e| Error::io("looking for a segment that was synced", &e).at(&path))? {
                return Err(removed());
            }
        }
        self.progress.rows.fetch_max(end, Ordering::AcqRel);
        self.progress.durable.fetch_max(commits, Ordering::AcqRel);
        let done: Vec<_> = locked(&self.segments).drain(..cut.len().saturating_sub(1)).collect();
        done.iter().for_each(|segment| self.stamp_done(segment));
        Ok(())
    }

    /// Gives a sealed segment a new time of modification, if nothing more will be written to it than the release of its last
    /// footers, after which it gets another.
    fn stamp_done(&self, segment: &Arc<LiveFile>) {
        let is_pending = locked(&self.segments).iter().any(|other| Arc::ptr_eq(other, segment));
        let is_untrimmed = |resting: &RestingSegment| !resting.is_trimmed && Arc::ptr_eq(&resting.segment, segment);
        if !is_pending && !locked(&self.sealed).iter().any(is_untrimmed) {
            segment.stamp();
        }
    }

    /// The segments that are not durable, each with its record, up to the end of the newest commit.
    fn newest_commit(&self) -> Result<Vec<(Arc<LiveFile>, Record)>> {
        let mut cut: Vec<(Arc<LiveFile>, Record)> = Vec::new();
        loop {
            let rest = locked(&self.segments).get(cut.len()..).unwrap_or_default().to_vec();
            if rest.is_empty() {
                return Ok(cut);
            }
            for segment in rest {
                let record = segment.visible()?;
                let is_sealed = record.sealed;
                cut.push((segment, record));
                // Segments after an open one belong to an uncommitted transaction.
                if !is_sealed {
                    return Ok(cut);
                }
            }
        }
    }
}

/// Makes consecutive segments durable up to the end of a commit, the last one first. The later ones are valid only once
/// the first is durable, so a power cut leaves all of a commit or nothing.
pub(super) fn make_durable(cut: &[(Arc<LiveFile>, Record)], how: SyncTarget) -> Result<()> {
    let Some(((first, record), behind)) = cut.split_first() else { return Ok(()) };
    for (segment, record) in behind.iter().rev() {
        segment.make_durable(record, SyncTarget::ProvisionalColumns)?;
    }
    first.make_durable(record, if behind.is_empty() { how } else { SyncTarget::Columns })?;
    behind.iter().for_each(|(segment, _)| segment.reached());
    Ok(())
}

/// Waits for commits to become durable, on any thread, while the writer continues.
///
/// A waiting thread syncs all commits so far, unless another thread is syncing them already. When many threads commit
/// and wait, one syncs for all.
#[derive(Clone, Debug)]
pub struct Durability {
    inner: Weak<BackgroundState>,
    progress: Arc<DurableProgress>,
}

impl Durability {
    /// The number of the row after the last one that would survive a power cut.
    pub fn rows(&self) -> u64 {
        self.progress.rows.load(Ordering::Acquire)
    }

    /// Returns once all commits made before the call would survive a power cut.
    ///
    /// # Errors
    /// `Io` if syncing failed; then nothing more can be written. `Closed` if it had failed before, or if the writer was
    /// dropped. `FileChanged` as [`Writer::commit`](super::Writer::commit), and if the table, or a segment with rows of these
    /// commits, was removed.
    pub fn wait(&self) -> Result<()> {
        let commit = self.progress.committed.load(Ordering::Acquire);
        let is_done = || self.progress.durable.load(Ordering::Acquire) >= commit;
        if is_done() {
            return Ok(());
        }
        let inner = self.inner.upgrade().ok_or_else(dropped)?;
        // Another thread may have synced for this one meanwhile, and failed since.
        let synced = inner.to_disk(|| if is_done() { Ok(()) } else { inner.sync_all(SyncTarget::LogOrColumns) });
        if is_done() { Ok(()) } else { synced }
    }
}

/// The error for a table whose directory or segment somebody has removed.
pub(super) fn removed() -> Error {
    let message = "a segment of rows being committed was removed, so no reader would see them; create the table again";
    Error::new(ErrorKind::FileChanged, message)
}

/// The error for a wait for commits of a writer that is gone.
fn dropped() -> Error {
    Error::new(ErrorKind::Closed, "the writer was dropped; open the table anew")
}

/// The error for a writer that can't continue because of `why`, an error of kind `kind`.
pub(super) fn cannot_go_on(kind: ErrorKind, why: &str) -> Error {
    let kind = if matches!(kind, ErrorKind::FileChanged | ErrorKind::Internal) { kind } else { ErrorKind::Closed };
    Error::new(kind, format!("the writer can't go on: {why}; open the table anew"))
}
