//! Makes a writer's commits durable, on whichever thread this is due: the writer's, the background thread, or one that
//! waits by a [`Durability`].
//!
//! A commit is durable if a power cut can't take it: its rows, its record, and the names of its segments are on the
//! disk. One sync brings everything to the disk that was visible when it began. All threads share a
//! [`SegmentSyncer`], in which
//!
//! - `committed` counts the commits. There is one writer, so only one thread stores it, and a load and a store suffice.
//!   The writer stores it (release) *after* the commit is visible, and a sync loads it (acquire) *before* it reads the
//!   visible records. So a sync makes at least the counted commits durable. Commits that are made meanwhile may become
//!   durable too; the next sync counts them.
//! - `durable` and `rows` only grow. The holder of `syncing` raises them (release) once everything is on the disk; any
//!   thread loads them (acquire).
//! - `has_unsynced_names` is set (release) before the segments with these names get into `segments`, so a sync that
//!   finds a segment there finds the flag as well. It is cleared before the directory is synced, so that a name that
//!   comes meanwhile is not forgotten, and set again if that fails.
//! - `has_failed` is set (release) after `failure`, once and for all, by any thread. After a failed sync the system may
//!   consider pages written that are not, and the next sync would succeed. So `syncing` is held until its failure is
//!   recorded, and the next holder checks `has_failed` first.
//!
//! Lock order: `syncing`, then the locks of one segment ([`LiveFile`]). The locks of `segments`, `failure` and
//! [`RestingSegments`] are held for an instant each, while no other lock is taken.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use super::file::{LiveFile, SyncTarget};
use super::resting::RestingSegments;
use crate::error::{Error, ErrorKind, Result, catch_panic};
use crate::map::{DirectoryLock, MutexExt, guard};
use crate::table::format::Record;
use crate::table::reader::chain;

/// A segment, and the record of its part of a commit.
pub(super) type SegmentCommit = (Arc<LiveFile>, Record);

/// How many commits, and rows, the writer has made and the disk has.
#[derive(Debug)]
struct DurableProgress {
    /// The number of commits, and one for all that an earlier writer may have left: segments and names that are not
    /// durable.
    committed: AtomicU64,
    /// The number of durable commits, counted in the same way.
    durable: AtomicU64,
    /// The number of the row after the last durable one.
    rows: AtomicU64,
}

/// The segments of one writer that are not durable yet, and what is needed to make them durable.
///
/// It has the lock of the table's directory: while it exists no other process writes the table.
#[derive(Debug)]
pub(in crate::table::writer) struct SegmentSyncer {
    lock: DirectoryLock,
    /// The table's directory.
    folder: PathBuf,
    /// Segments whose newest commit is not on the disk yet, the live one last. Empty once the writer is dropped.
    segments: Mutex<Vec<Arc<LiveFile>>>,
    /// Held during a sync.
    syncing: Mutex<()>,
    progress: Arc<DurableProgress>,
    /// True if new names are not on the disk yet.
    has_unsynced_names: AtomicBool,
    /// The first error after which nothing may be written or synced.
    failure: Mutex<Option<Error>>,
    /// True if there is a failure.
    has_failed: AtomicBool,
    /// True once the writer is being dropped: no sync begins any more.
    is_stopped: AtomicBool,
    /// Sealed segments with published footers possibly still in use by readers.
    pub resting: RestingSegments,
}

impl SegmentSyncer {
    /// Creates the syncer of a writer whose commits in `segments`, the live one last, may not be durable.
    pub fn new(lock: DirectoryLock, folder: &Path, segments: Vec<Arc<LiveFile>>) -> SegmentSyncer {
        assert!(!segments.is_empty(), "a writer has a live segment");
        let first = &segments[0];
        let durable_rows = first.header.first_row + first.durable_rows();
        SegmentSyncer {
            lock,
            folder: folder.to_path_buf(),
            segments: Mutex::new(segments),
            syncing: Mutex::new(()),
            progress: Arc::new(DurableProgress {
                committed: AtomicU64::new(1),
                durable: AtomicU64::new(0),
                rows: AtomicU64::new(durable_rows),
            }),
            has_unsynced_names: AtomicBool::new(true),
            failure: Mutex::new(None),
            has_failed: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            resting: RestingSegments::default(),
        }
    }

    /// Returns the lock of the table's directory.
    #[inline]
    pub fn lock(&self) -> &DirectoryLock {
        &self.lock
    }

    /// Returns a handle for waiting until rows become durable.
    pub fn durability(self: &Arc<SegmentSyncer>) -> Durability {
        Durability { syncer: Arc::downgrade(self), progress: self.progress.clone() }
    }

    /// Counts a commit that has become visible. Only for the thread that has the writer.
    #[inline]
    pub fn count_commit(&self) {
        let commits = &self.progress.committed;
        commits.store(commits.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Returns the number of the row after the last durable one.
    pub fn durable_rows(&self) -> u64 {
        self.progress.rows.load(Ordering::Acquire)
    }

    /// Returns true if all commits of this writer, and the names of their segments, are on the disk.
    pub fn is_durable(&self) -> bool {
        let committed = self.progress.committed.load(Ordering::Acquire);
        self.progress.has(committed) && !self.has_unsynced_names.load(Ordering::Acquire)
    }

    /// Returns the live segment, and the number of segments that are not durable; `None` once the writer is dropped.
    pub fn live(&self) -> Option<(Arc<LiveFile>, usize)> {
        let segments = self.segments.lock_ignoring_poison();
        Some((segments.last()?.clone(), segments.len()))
    }

    /// Returns true if `segment` is the live one.
    pub fn is_live(&self, segment: &Arc<LiveFile>) -> bool {
        self.segments.lock_ignoring_poison().last().is_some_and(|last| Arc::ptr_eq(last, segment))
    }

    /// Returns the number of segments that are not durable, with the live one.
    pub fn pending(&self) -> usize {
        self.segments.lock_ignoring_poison().len()
    }

    /// Replaces the live segment, which is empty, by `live`, which has taken over its name.
    pub fn replace_live(&self, live: Arc<LiveFile>) {
        self.has_unsynced_names.store(true, Ordering::Release);
        let mut segments = self.segments.lock_ignoring_poison();
        let empty = segments.pop();
        assert!(
            empty.is_some_and(|empty| empty.header.first_row == live.header.first_row),
            "both begin with the same row"
        );
        segments.push(live);
    }

    /// Adds segments that have got their names, the last of which is about to be the live one. Must be called before
    /// the previous live one is sealed, so that a sync of the sealed segment includes them.
    pub fn add_segments(&self, mut named: Vec<Arc<LiveFile>>) {
        self.has_unsynced_names.store(true, Ordering::Release);
        let mut segments = self.segments.lock_ignoring_poison();
        let live_and_named = segments.last().into_iter().chain(&named).map(|segment| segment.header.first_row);
        assert!(live_and_named.is_sorted_by(|a, b| a < b), "segments are synced in the order of their rows");
        segments.append(&mut named);
    }

    /// Brings all commits to the disk.
    ///
    /// # Errors
    /// The error of the disk, and after any failure the error of [`SegmentSyncer::check`].
    pub fn sync(&self, target: SyncTarget) -> Result<()> {
        self.exclusively(|| self.sync_all(target))
    }

    /// Brings all commits to the disk, and writes another durable record of the live segment: see [`LiveFile::settle`].
    ///
    /// # Errors
    /// As [`SegmentSyncer::sync`].
    pub fn settle(&self, live: &LiveFile) -> Result<()> {
        self.exclusively(|| {
            self.sync_all(SyncTarget::Columns)?;
            live.settle()
        })
    }

    /// Runs `sync` while no other thread syncs; not after a failure, nor once the writer is being dropped. Records its
    /// failure.
    fn exclusively(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let _alone = self.syncing.lock_ignoring_poison();
        self.check()?;
        if self.is_stopped() {
            return Err(dropped());
        }
        // Recorded before the lock is released.
        catch_panic(|| guard(sync)).inspect_err(|e| self.fail(e.clone()))
    }

    /// Makes all commits durable. Call it in [`SegmentSyncer::exclusively`].
    fn sync_all(&self, target: SyncTarget) -> Result<()> {
        // Before the records are read: commits that come meanwhile may be synced too, and are not counted.
        let commits = self.progress.committed.load(Ordering::Acquire);
        let newest = self.newest_commit()?;
        let Some((last, record)) = newest.last() else {
            return Err(Error::internal("a writer without a segment"));
        };
        let end = last.header.first_row + record.rows();

        // Names first: a durable segment implies that all earlier ones exist.
        self.sync_names()?;
        make_durable(&newest, target)?;
        // A file on the disk without a name is lost. Checked after the sync, as the name may have gone during it.
        self.check_names(&newest)?;

        self.progress.rows.fetch_max(end, Ordering::AcqRel);
        self.progress.durable.fetch_max(commits, Ordering::AcqRel);

        // The last one stays: more commits follow there.
        let done: Vec<_> = self.segments.lock_ignoring_poison().drain(..newest.len() - 1).collect();
        for (done, (synced, _)) in done.iter().zip(&newest) {
            assert!(Arc::ptr_eq(done, synced), "only segments that were synced are done");
            self.stamp_if_done(done);
        }
        Ok(())
    }

    /// Returns the segments that are not durable, each with its record, up to the end of the newest commit.
    fn newest_commit(&self) -> Result<Vec<SegmentCommit>> {
        let mut parts: Vec<SegmentCommit> = Vec::new();
        loop {
            // Sealing a segment, which readers see first, comes after adding the next ones.
            let added: Vec<_> = self.segments.lock_ignoring_poison().iter().skip(parts.len()).cloned().collect();
            if added.is_empty() {
                return Ok(parts);
            }
            for segment in added {
                let record = segment.visible()?;
                let is_sealed = record.sealed;
                parts.push((segment, record));
                // Segments after an open one belong to an uncommitted transaction.
                if !is_sealed {
                    return Ok(parts);
                }
            }
        }
    }

    /// Brings new names to the disk, if there are any.
    fn sync_names(&self) -> Result<()> {
        if !self.has_unsynced_names.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.lock.sync().map_err(|e| {
            self.has_unsynced_names.store(true, Ordering::Release);
            Error::io("syncing the directory", &e)
        })
    }

    /// Checks that each of the segments has a file at its name.
    fn check_names(&self, segments: &[SegmentCommit]) -> Result<()> {
        for (segment, _) in segments {
            let path = chain::path(&self.folder, segment.header.first_row);
            let is_missing = self.lock.medium().is_missing(&path);
            if is_missing.map_err(|e| Error::io("looking for a segment that was synced", &e).at(&path))? {
                return Err(removed());
            }
        }
        Ok(())
    }

    /// Gives a sealed segment a new time of modification, unless more will be written to it. The release of its last
    /// footers, after which it gets another time, does not count.
    pub fn stamp_if_done(&self, segment: &Arc<LiveFile>) {
        let is_pending = self.segments.lock_ignoring_poison().iter().any(|pending| Arc::ptr_eq(pending, segment));
        if !is_pending && !self.resting.has_untrimmed(segment) {
            segment.stamp();
        }
    }

    /// Records that the writer can't continue: nothing more is written or synced, on any thread.
    pub fn fail(&self, e: Error) {
        self.failure.lock_ignoring_poison().get_or_insert(e);
        self.has_failed.store(true, Ordering::Release);
    }

    /// Returns true if a sync, or the background thread, has failed.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Checks that nothing has failed.
    ///
    /// # Errors
    /// `FileChanged` or `Internal` if that was the failure, otherwise `Closed`.
    pub fn check(&self) -> Result<()> {
        if !self.has_failed() {
            return Ok(());
        }
        match &*self.failure.lock_ignoring_poison() {
            Some(e) => Err(cannot_go_on(e.kind(), e.message())),
            None => Err(Error::internal("a writer that failed without an error")),
        }
    }

    /// Lets no sync begin from now on.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Returns true once the writer is being dropped.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Gives all segments their last times of modification, after waiting for a sync in progress. The syncer must be
    /// stopped: nothing more is written to them, and no other writer has the lock yet.
    pub fn stamp_all(&self) {
        let _alone = self.syncing.lock_ignoring_poison();
        let pending = std::mem::take(&mut *self.segments.lock_ignoring_poison());
        for segment in pending.iter().chain(&self.resting.take_all()) {
            // A panic here would end the process if another one is under way.
            let _ = catch_panic(|| {
                segment.stamp();
                Ok(())
            });
        }
    }
}

impl DurableProgress {
    /// Returns true if the first `commits` commits are durable.
    fn has(&self, commits: u64) -> bool {
        self.durable.load(Ordering::Acquire) >= commits
    }
}

/// Makes a commit durable that has parts in consecutive segments, the last part first. The later ones are valid only
/// once the first is durable, so a power cut leaves all of the commit or nothing.
pub(in crate::table::writer) fn make_durable(parts: &[SegmentCommit], target: SyncTarget) -> Result<()> {
    let Some(((first, record), later)) = parts.split_first() else { return Ok(()) };
    for (segment, record) in later.iter().rev() {
        segment.make_durable(record, SyncTarget::ProvisionalColumns)?;
    }
    first.make_durable(record, if later.is_empty() { target } else { SyncTarget::Columns })?;
    for (segment, _) in later {
        segment.mark_standalone();
    }
    Ok(())
}

/// A handle that waits for commits to become durable, on any thread, while the writer continues.
///
/// A waiting thread syncs all commits so far, unless another thread is syncing them already. When many threads commit
/// and wait, one syncs for all.
#[derive(Clone, Debug)]
pub struct Durability {
    /// Gone once the writer is dropped; the progress stays.
    syncer: Weak<SegmentSyncer>,
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
    /// dropped. `FileChanged` as [`Writer::commit`](crate::Writer::commit), and if the table, or a segment with rows of
    /// these commits, was removed.
    pub fn wait(&self) -> Result<()> {
        let commits = self.progress.committed.load(Ordering::Acquire);
        if self.progress.has(commits) {
            return Ok(());
        }
        let syncer = self.syncer.upgrade().ok_or_else(dropped)?;
        let synced = syncer.exclusively(|| {
            // Another thread may have synced for this one meanwhile.
            if self.progress.has(commits) { Ok(()) } else { syncer.sync_all(SyncTarget::LogOrColumns) }
        });
        // It may have failed since, with later commits.
        if self.progress.has(commits) { Ok(()) } else { synced }
    }
}

/// Returns the error for a table whose directory or segment was removed.
pub(in crate::table::writer) fn removed() -> Error {
    let message = "a segment of rows being committed was removed, so no reader would see them; create the table again";
    Error::new(ErrorKind::FileChanged, message)
}

/// Returns the error for a wait for commits of a writer that is gone.
fn dropped() -> Error {
    Error::new(ErrorKind::Closed, "the writer was dropped; open the table anew")
}

/// Returns the error for a writer that can't continue because of `why`, an error of kind `kind`.
pub(in crate::table::writer) fn cannot_go_on(kind: ErrorKind, why: &str) -> Error {
    let kind = if matches!(kind, ErrorKind::FileChanged | ErrorKind::Internal) { kind } else { ErrorKind::Closed };
    Error::new(kind, format!("the writer can't go on: {why}; open the table anew"))
}
