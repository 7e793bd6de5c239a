//! The background work of a writer: publishing footers delayed by a full ring, syncing periodically, and creating the
//! next segment. One thread serves all writers of the process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::live_file::{LiveFile, SyncTarget};
use super::live_segment::LiveSegment;
use super::next_segment::{NextSegment, SegmentFactory};
use super::scheduler::{Task, TaskHandle};
use crate::error::{Error, ErrorKind, Result, catch_panic};
use crate::map::{DirectoryLock, MutexExt, guard};
use crate::table::format::{Record, SEQUENCE};
use crate::table::reader::chain;

/// The number of sealed segments waiting for a sync, each of which holds a descriptor, above which the thread syncs
/// them, whatever the writer's policy.
const MAX_PENDING: usize = 16;
/// The number of them above which the writer itself syncs them.
const MAX_PENDING_FOR_WRITER: usize = 64;

/// The maximum number of sealed segments whose published footers rest, since each takes a descriptor too.
const MAX_RESTING: usize = 32;

/// The interval at which the writer checks that its live segment still exists. Not more often: asking for a file's
/// times makes the next write record them exactly, which takes half as long as a sync.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The progress of the writer and of the disk.
#[derive(Debug, Default)]
struct DurableProgress {
    /// The number of commits, and one for all that an earlier writer may have left: segments and names that are not
    /// durable.
    committed: AtomicU64,
    /// The number of durable commits.
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
    /// Held during a sync, by the writer, the background thread or a thread that waits. Its holder checks `has_failed`
    /// first: a second sync after one that failed may succeed though the data isn't on the disk.
    syncing: Mutex<()>,
    /// True if the writer publishes its next footer itself; otherwise the thread does, when a place is free.
    may_publish: AtomicBool,
    idle: AtomicBool,
    /// True if the writer checks at its next commit that its live segment still exists.
    check_requested: AtomicBool,
    next_segment: NextSegment,
    stop: AtomicBool,
    sync_interval: Option<Duration>,
    progress: Arc<DurableProgress>,
    /// True if new names are not on the disk yet.
    has_unsynced_names: AtomicBool,
    /// The first error after which nothing may be written or synced.
    failure: Mutex<Option<Error>>,
    has_failed: AtomicBool,
    /// Sealed segments with published footers possibly still in use by readers, the last ones sealed last.
    resting: Mutex<Vec<RestingSegment>>,
    last_run: Mutex<LastRun>,
}

/// A sealed segment whose last footers rest.
#[derive(Debug)]
struct RestingSegment {
    segment: Arc<LiveFile>,
    since: Instant,
    rest: Duration,
    /// True if the space of all other footers is released.
    is_trimmed: bool,
}

/// The times of the last background work.
#[derive(Debug)]
struct LastRun {
    synced: Instant,
    /// When the writer was last asked to check its live segment.
    check_requested: Instant,
}

/// The writer's handle to its background work.
#[derive(Debug)]
pub(super) struct BackgroundWork {
    inner: Arc<BackgroundState>,
    task: Option<TaskHandle>,
}

impl RestingSegment {
    /// Returns the time until no reader uses the last footers any more.
    fn rest_left(&self) -> Duration {
        self.rest.saturating_sub(self.since.elapsed())
    }
}

impl BackgroundWork {
    /// Starts the background work, and keeps the lock of the folder.
    pub fn start(
        lock: DirectoryLock,
        folder: &Path,
        segments: Vec<Arc<LiveFile>>,
        sync_interval: Option<Duration>,
    ) -> Result<BackgroundWork> {
        assert!(!segments.is_empty(), "a writer has a live segment");
        let durable_rows = segments[0].header.first_row + segments[0].durable_rows();
        let inner = Arc::new(BackgroundState {
            lock,
            folder: folder.to_path_buf(),
            segments: Mutex::new(segments),
            syncing: Mutex::new(()),
            may_publish: AtomicBool::new(true),
            idle: AtomicBool::new(false),
            check_requested: AtomicBool::new(false),
            next_segment: NextSegment::default(),
            stop: AtomicBool::new(false),
            sync_interval,
            progress: Arc::new(DurableProgress {
                committed: AtomicU64::new(1),
                durable: AtomicU64::new(0),
                rows: AtomicU64::new(durable_rows),
            }),
            has_unsynced_names: AtomicBool::new(true),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            resting: Mutex::default(),
            last_run: Mutex::new(LastRun { synced: Instant::now(), check_requested: Instant::now() }),
        });
        let task = TaskHandle::start(inner.clone())?;
        Ok(BackgroundWork { inner, task: Some(task) })
    }

    /// Returns true if this process is the one that opened the writer.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.inner.lock.is_ours()
    }

    /// Returns the lock of the table's directory.
    pub fn lock(&self) -> &DirectoryLock {
        &self.inner.lock
    }

    /// Returns the number of the row after the last durable one.
    pub fn durable_rows(&self) -> u64 {
        self.inner.progress.rows.load(Ordering::Acquire)
    }

    /// Ensures that the newest commit is published, now or a little later.
    #[inline]
    pub fn committed(&self, live: &LiveFile) {
        self.count_commit();
        if self.inner.may_publish.load(Ordering::Relaxed) {
            self.inner.publish(live);
        } else if self.inner.idle.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Counts a commit, which is not durable yet.
    #[inline]
    fn count_commit(&self) {
        let commits = &self.inner.progress.committed;
        commits.store(commits.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Returns whether a check of the live segment's existence is due, and clears the request.
    #[inline]
    pub fn take_check_request(&self) -> bool {
        let requested = &self.inner.check_requested;
        requested.load(Ordering::Relaxed) && requested.swap(false, Ordering::Relaxed)
    }

    /// Requests the next segment from the thread.
    #[cold]
    pub fn request_next(&self, factory: SegmentFactory) {
        self.inner.next_segment.request(factory);
        self.wake();
    }

    /// Takes the requested segment, waiting for it if its creation has begun. `None` if it has not, or failed.
    pub fn take_next(&self) -> Option<LiveSegment> {
        self.inner.next_segment.take()
    }

    fn wake(&self) {
        self.inner.idle.store(false, Ordering::SeqCst);
        if let Some(task) = &self.task {
            task.request_turn();
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
        self.inner.has_unsynced_names.store(true, Ordering::Release);
        let mut segments = self.inner.segments.lock_ignoring_poison();
        let empty = segments.pop();
        assert!(
            empty.is_some_and(|empty| empty.header.first_row == live.header.first_row),
            "both begin with the same row"
        );
        segments.push(live);
        drop(segments);
        // The new file may have another schema, and who waits for that waits for its name.
        self.count_commit();
    }

    /// Adds the segments, already named, in which the commit continues that seals the live segment. Must be called
    /// before sealing, so that a sync of the sealed segment includes them.
    pub fn add_segments(&self, mut named: Vec<Arc<LiveFile>>) {
        // First: a thread that sees the segments must see that the folder needs a sync.
        self.inner.has_unsynced_names.store(true, Ordering::Release);
        let mut segments = self.inner.segments.lock_ignoring_poison();
        let live_and_named = segments.last().into_iter().chain(&named).map(|segment| segment.header.first_row);
        assert!(live_and_named.is_sorted_by(|a, b| a < b), "segments are synced in the order of their rows");
        segments.append(&mut named);
    }

    /// Makes the last segment passed to [`add_segments`](BackgroundWork::add_segments) the live one.
    pub fn rolled(&self) {
        let pending = self.inner.segments.lock_ignoring_poison().len();
        self.inner.may_publish.store(true, Ordering::Relaxed);
        if pending > MAX_PENDING_FOR_WRITER {
            // The commit is visible. Its error, if any, is reported by the writer's next call.
            let _ = self.inner.sync(SyncTarget::Columns);
        } else if pending > MAX_PENDING {
            self.wake();
        }
    }

    /// Brings all commits to the disk.
    ///
    /// # Errors
    /// The error of the disk, and after any failure the error of [`BackgroundWork::check`].
    pub fn sync(&self, how: SyncTarget) -> Result<()> {
        self.inner.sync(how)
    }

    /// Brings all commits to the disk as [`BackgroundWork::sync`] does, and writes another durable record of the live
    /// segment.
    pub fn settle(&self, live: &LiveFile) -> Result<()> {
        self.inner.to_disk(|| {
            self.inner.sync_all(SyncTarget::Columns)?;
            live.settle()
        })
    }

    /// Returns a handle for waiting until rows become durable.
    pub fn durability(&self) -> Durability {
        Durability { inner: Arc::downgrade(&self.inner), progress: self.inner.progress.clone() }
    }

    /// Stops the work: nothing more is written or synced, on any thread.
    #[cold]
    pub fn stop_with(&self, error: Error) {
        self.inner.fail(error);
    }

    /// Returns true if a sync, or the thread, has failed.
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

    /// Releases the space of a sealed segment's published footers, the last of them when they have rested.
    pub fn sealed(&self, segment: Arc<LiveFile>) {
        let rest = segment.footer().rest();
        let mut resting = self.inner.resting.lock_ignoring_poison();
        resting.push(RestingSegment { segment, since: Instant::now(), rest, is_trimmed: false });
        // Blocks that stay allocated only cost space; `compact` releases them.
        let oldest = if resting.len() > MAX_RESTING { Some(resting.remove(0)) } else { None };
        drop(resting);
        if let Some(oldest) = oldest {
            self.inner.stamp_done(&oldest.segment);
        }
        self.wake();
    }
}

impl Drop for BackgroundWork {
    fn drop(&mut self) {
        self.inner.stop.store(true, Ordering::SeqCst);
        // The lock is released when this returns: no turn holds it any more, and threads that wait for durable rows
        // hold it for an instant only.
        drop(self.task.take());
        if self.is_ours() {
            let _alone = self.inner.syncing.lock_ignoring_poison();
            // Nothing more is written to them, and no other writer has the lock yet.
            let segments = std::mem::take(&mut *self.inner.segments.lock_ignoring_poison());
            let resting = std::mem::take(&mut *self.inner.resting.lock_ignoring_poison());
            for segment in segments.iter().chain(resting.iter().map(|resting| &resting.segment)) {
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
        let mut last_run = self.last_run.lock_ignoring_poison();
        if last_run.check_requested.elapsed() >= CHECK_INTERVAL {
            self.check_requested.store(true, Ordering::Relaxed);
            last_run.check_requested = Instant::now();
        }
        self.next_segment.create();
        let (live, pending) = {
            let segments = self.segments.lock_ignoring_poison();
            (segments.last().cloned()?, segments.len())
        };
        let is_due = self.sync_interval.is_some_and(|interval| last_run.synced.elapsed() >= interval);
        if is_due || pending > MAX_PENDING {
            if pending > 1 || !self.is_durable() {
                self.sync(SyncTarget::Columns).ok()?;
            }
            last_run.synced = Instant::now();
        }
        let mut wait = self.trim();
        if let Some(interval) = self.sync_interval {
            wait = wait.min(interval.saturating_sub(last_run.synced.elapsed()));
        }
        // After a pause, the writer must check before its next commit.
        if !self.check_requested.load(Ordering::Relaxed) {
            wait = wait.min(CHECK_INTERVAL.saturating_sub(last_run.check_requested.elapsed()));
        }
        Some(self.publish_newest(&live)?.min(wait))
    }

    fn on_panic(&self, error: Error) {
        self.fail(error);
    }
}

impl BackgroundState {
    /// Returns true if all commits of this writer, and the names of their segments, are on the disk.
    fn is_durable(&self) -> bool {
        let committed = self.progress.committed.load(Ordering::Acquire);
        self.progress.durable.load(Ordering::Acquire) >= committed && !self.has_unsynced_names.load(Ordering::Acquire)
    }

    /// Publishes the footer of the newest commit if it isn't published and a place is free; returns the time until the
    /// next attempt. `None` if the commit can't be read, or the footer can't be published.
    fn publish_newest(&self, live: &Arc<LiveFile>) -> Option<Duration> {
        let mut wait = live.footer().wait();
        if live.footer().published < self.newest_sequence(live)? {
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
        let is_live = self.segments.lock_ignoring_poison().last().is_some_and(|last| Arc::ptr_eq(last, live));
        if live.footer().published >= self.newest_sequence(live)? && is_live {
            return Some(Duration::MAX);
        }
        self.idle.store(false, Ordering::SeqCst);
        Some(Duration::ZERO)
    }

    /// Returns the number of the newest visible commit; `None`, and fails, if it can't be read.
    fn newest_sequence(&self, live: &LiveFile) -> Option<u64> {
        match guard(|| Ok(live.store.load64(live.header.live + SEQUENCE))) {
            Ok(sequence) => Some(sequence),
            Err(e) => {
                self.fail(e);
                None
            }
        }
    }

    /// Records that the writer can't continue.
    fn fail(&self, e: Error) {
        self.failure.lock_ignoring_poison().get_or_insert(e);
        self.has_failed.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<()> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.failure.lock_ignoring_poison() {
            Some(e) => Err(cannot_go_on(e.kind(), e.message())),
            None => Err(Error::internal("a writer that failed without an error")),
        }
    }

    /// Releases the space of published footers of sealed segments; returns the time until more is due.
    fn trim(&self) -> Duration {
        let mut due = Vec::new();
        self.resting.lock_ignoring_poison().retain_mut(|resting| {
            let has_rested = resting.rest_left().is_zero();
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
        let resting = self.resting.lock_ignoring_poison();
        resting.iter().map(RestingSegment::rest_left).min().unwrap_or(Duration::MAX)
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
        let _alone = self.syncing.lock_ignoring_poison();
        self.check()?;
        if self.stop.load(Ordering::SeqCst) {
            return Err(dropped());
        }
        // Recorded before the lock is released.
        catch_panic(|| guard(sync)).inspect_err(|e| self.fail(e.clone()))
    }

    /// Makes all commits durable. Call it in [`BackgroundState::to_disk`].
    fn sync_all(&self, how: SyncTarget) -> Result<()> {
        // Before the segments: commits that come meanwhile may be synced too, and are not counted.
        let commits = self.progress.committed.load(Ordering::Acquire);
        let cut = self.newest_commit()?;
        let Some((last, record)) = cut.last() else {
            return Err(Error::internal("a writer without a segment"));
        };
        // Names first: a durable segment implies that all earlier ones exist.
        if self.has_unsynced_names.swap(false, Ordering::AcqRel)
            && let Err(e) = self.lock.sync()
        {
            self.has_unsynced_names.store(true, Ordering::Release);
            return Err(Error::io("syncing the directory", &e));
        }
        let end = last.header.first_row + record.rows();
        make_durable(&cut, how)?;
        // A file on the disk without a name is lost. Checked after the sync, as the name may have gone during it.
        for (segment, _) in &cut {
            let path = chain::path(&self.folder, segment.header.first_row);
            let is_missing = self.lock.medium().is_missing(&path);
            if is_missing.map_err(|e| Error::io("looking for a segment that was synced", &e).at(&path))? {
                return Err(removed());
            }
        }
        self.progress.rows.fetch_max(end, Ordering::AcqRel);
        self.progress.durable.fetch_max(commits, Ordering::AcqRel);
        let done: Vec<_> = self.segments.lock_ignoring_poison().drain(..cut.len() - 1).collect();
        for (done, (synced, _)) in done.iter().zip(&cut) {
            assert!(Arc::ptr_eq(done, synced), "only segments that were synced are done");
            self.stamp_done(done);
        }
        Ok(())
    }

    /// Gives a sealed segment a new time of modification, if nothing more will be written to it than the release of its
    /// last footers, after which it gets another.
    fn stamp_done(&self, segment: &Arc<LiveFile>) {
        if self.segments.lock_ignoring_poison().iter().any(|pending| Arc::ptr_eq(pending, segment)) {
            return;
        }
        let resting = self.resting.lock_ignoring_poison();
        if resting.iter().any(|resting| !resting.is_trimmed && Arc::ptr_eq(&resting.segment, segment)) {
            return;
        }
        drop(resting);
        segment.stamp();
    }

    /// Returns the segments that are not durable, each with its record, up to the end of the newest commit.
    fn newest_commit(&self) -> Result<Vec<(Arc<LiveFile>, Record)>> {
        let mut cut: Vec<(Arc<LiveFile>, Record)> = Vec::new();
        loop {
            // Sealing a segment, which readers see first, comes after adding the next ones.
            let added: Vec<_> = self.segments.lock_ignoring_poison().iter().skip(cut.len()).cloned().collect();
            if added.is_empty() {
                return Ok(cut);
            }
            for segment in added {
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
    let Some(((first, record), later)) = cut.split_first() else { return Ok(()) };
    for (segment, record) in later.iter().rev() {
        segment.make_durable(record, SyncTarget::ProvisionalColumns)?;
    }
    first.make_durable(record, if later.is_empty() { how } else { SyncTarget::Columns })?;
    for (segment, _) in later {
        segment.mark_standalone();
    }
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
    /// Returns the number of the row after the last one that would survive a power cut.
    pub fn rows(&self) -> u64 {
        self.progress.rows.load(Ordering::Acquire)
    }

    /// Returns once all commits made before the call would survive a power cut.
    ///
    /// # Errors
    /// `Io` if syncing failed; then nothing more can be written. `Closed` if it had failed before, or if the writer was
    /// dropped. `FileChanged` as [`Writer::commit`](super::Writer::commit), and if the table, or a segment with rows of
    /// these commits, was removed.
    pub fn wait(&self) -> Result<()> {
        let commit = self.progress.committed.load(Ordering::Acquire);
        if self.is_durable(commit) {
            return Ok(());
        }
        let inner = self.inner.upgrade().ok_or_else(dropped)?;
        let synced = inner.to_disk(|| {
            // Another thread may have synced for this one meanwhile.
            if self.is_durable(commit) { Ok(()) } else { inner.sync_all(SyncTarget::LogOrColumns) }
        });
        // It may have failed since, with later commits.
        if self.is_durable(commit) { Ok(()) } else { synced }
    }

    fn is_durable(&self, commit: u64) -> bool {
        self.progress.durable.load(Ordering::Acquire) >= commit
    }
}

/// Returns the error for a table whose directory or segment was removed.
pub(super) fn removed() -> Error {
    let message = "a segment of rows being committed was removed, so no reader would see them; create the table again";
    Error::new(ErrorKind::FileChanged, message)
}

/// Returns the error for a wait for commits of a writer that is gone.
fn dropped() -> Error {
    Error::new(ErrorKind::Closed, "the writer was dropped; open the table anew")
}

/// Returns the error for a writer that can't continue because of `why`, an error of kind `kind`.
pub(super) fn cannot_go_on(kind: ErrorKind, why: &str) -> Error {
    let kind = if matches!(kind, ErrorKind::FileChanged | ErrorKind::Internal) { kind } else { ErrorKind::Closed };
    Error::new(kind, format!("the writer can't go on: {why}; open the table anew"))
}
