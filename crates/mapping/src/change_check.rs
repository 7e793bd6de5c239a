//! Checks that a mapped file is unchanged. A file that was truncated and has grown again reads as zeros, without a
//! signal; one that was overwritten reads as something else. The size, the modification time and a few constant bytes
//! tell.

use crate::sync::MutexExt;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{ChangeCheckError, Error, ErrorKind, Result};
use crate::guard::{guard, is_turn};
use crate::os;
use crate::sys::MemoryRegion;

/// Milliseconds between the checks of cheap calls.
const EVERY: u64 = 10;
/// How long a growing file may have been written to without getting longer.
const SLOW: Duration = Duration::from_secs(1);
/// Number of bytes compared at each end of a stream.
const ENDS: usize = 64;

/// The message for a file whose mapped bytes have changed.
pub(crate) const OVERWRITTEN: &str = "the file was overwritten while it was open; open it again";

/// When a call checks the files that it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeCheck {
    /// Always: the call takes much longer than the check.
    Now,
    /// Every 10 ms, or every 16 calls, whichever takes longer.
    Seldom,
}

/// The allowed changes of a mapped file.
#[derive(Debug)]
pub enum AllowedChanges {
    /// None, unless the caller declares the file to be written in place.
    Still(fn(&File, u64) -> bool),
    /// It may grow; the given bytes at both ends are constant.
    Stream(Vec<FixedBytes>),
    /// All but the given bytes may be overwritten; the size is constant.
    InPlace(Vec<FixedBytes>),
}

/// An offset and the constant bytes there.
pub type FixedBytes = (u64, Vec<u8>);

/// Size and modification time.
pub(crate) type Stamp = (u64, (i64, i64));

/// The last known state of a file.
#[derive(Debug)]
pub(crate) struct ChangeDetector {
    /// Stores through mappings change the modification time as well: without a rule only the size is checked.
    rule: OnceLock<AllowedChanges>,
    stamp: Mutex<Stamp>,
    last: AtomicU64,
}

impl ChangeDetector {
    pub(crate) fn new(metadata: &std::fs::Metadata) -> ChangeDetector {
        ChangeDetector { rule: OnceLock::new(), stamp: Mutex::new(stamp(metadata)), last: AtomicU64::new(os::millis()) }
    }

    /// For a copy, which never changes.
    pub(crate) fn none() -> ChangeDetector {
        let stamp = Mutex::new(Stamp::default());
        let last = AtomicU64::new(os::millis());
        ChangeDetector { rule: OnceLock::new(), stamp, last }
    }

    /// Returns size and modification time as last seen.
    pub(crate) fn seen(&self) -> Stamp {
        *self.stamp()
    }

    /// Sets the rule, once.
    pub(crate) fn set(&self, rule: AllowedChanges) {
        self.rule.get_or_init(|| rule);
    }

    /// Returns the constant bytes of a file that is written in place.
    pub(crate) fn marks(&self) -> Option<&[FixedBytes]> {
        match self.rule.get() {
            Some(AllowedChanges::InPlace(marks)) => Some(marks),
            _ => None,
        }
    }

    /// Whether a check is due.
    #[inline]
    pub(crate) fn is_due(&self, when: ChangeCheck) -> bool {
        when == ChangeCheck::Now || is_turn() && self.is_time()
    }

    #[cold]
    fn is_time(&self) -> bool {
        let now = os::millis();
        let last = self.last.load(Ordering::Relaxed);
        let is_time = now.wrapping_sub(last) >= EVERY;
        if is_time {
            self.last.store(now, Ordering::Relaxed);
        }
        is_time
    }

    /// Checks a file that was mapped with `len` bytes. Returns what has changed, if anything.
    pub(crate) fn look(&self, file: &File, len: u64) -> Option<String> {
        // Unknown without metadata.
        let now = stamp(&file.metadata().ok()?);
        if now.0 < len {
            return Some(format!("the file was truncated to {} bytes, and {len} are mapped; open it again", now.0));
        }
        let is_same = match self.rule.get()? {
            AllowedChanges::Still(is_growable) => now == *self.stamp() || now.0 == len && is_growable(file, len),
            AllowedChanges::Stream(ends) => now == *self.stamp() || self.has_grown(now) && are_there(file, ends),
            AllowedChanges::InPlace(marks) => now.0 == len && are_there(file, marks),
        };
        (!is_same).then(|| OVERWRITTEN.into())
    }

    fn stamp(&self) -> std::sync::MutexGuard<'_, Stamp> {
        self.stamp.lock_ignoring_poison()
    }

    /// Whether the file has grown, or is about to: its modification time changes before its size.
    fn has_grown(&self, now: Stamp) -> bool {
        let mut known = self.stamp();
        if now.0 > known.0 {
            *known = now;
            return true;
        }
        let changed = Duration::new(now.1.0.max(0) as u64, now.1.1.max(0) as u32);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(changed);
        now.0 == known.0 && since < SLOW
    }
}

pub(crate) fn stamp(metadata: &std::fs::Metadata) -> Stamp {
    (metadata.size(), (metadata.mtime(), metadata.mtime_nsec()))
}

fn are_there(file: &File, marks: &[FixedBytes]) -> bool {
    marks.iter().all(|(at, expected)| {
        let mut found = vec![0; expected.len()];
        // Unreadable bytes are no evidence of a change.
        file.read_exact_at(&mut found, *at).is_err() || found == *expected
    })
}

/// Returns the first and the last bytes of a stream of `len` bytes.
pub(crate) fn ends(file: &File, len: u64) -> Vec<FixedBytes> {
    let size = ENDS.min(len as usize);
    let read = |at: u64| {
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, at).ok().map(|()| (at, bytes))
    };
    [0, len - size as u64].into_iter().filter_map(read).collect()
}

pub(crate) fn changed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::FileChanged, message)
}

/// Handles the result of a check of a region's file: a detected change is remembered for good. Pages that the system could not
/// read are zeros, and no change.
pub(crate) fn settle(region: &MemoryRegion, found: Result<Option<String>>) -> Result<()> {
    let found = found?;
    if found.is_none() && !region.is_changed() {
        return Ok(());
    }
    let error = region.failure().unwrap_or_else(|| changed(found.unwrap_or_else(|| OVERWRITTEN.into())));
    region.mark();
    Err(error)
}

/// Runs `work`, then calls `look` to check that the files were unchanged, and returns its error if not. After an error
/// of `work` the check is never skipped, because a changed file may be the cause: zeros read as an unsupported version
/// or a row out of range.
///
/// # Errors
/// `FileChanged`, and those of `work` and `look`.
#[inline]
pub fn with_change_check<T, E: ChangeCheckError>(
    when: ChangeCheck,
    look: impl Fn(ChangeCheck) -> Result<(), E>,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    match guard(work) {
        Ok(done) => look(when).map(|()| done),
        Err(e) if e.is_file_changed() => Err(e),
        Err(e) => Err(look(ChangeCheck::Now).err().unwrap_or(e)),
    }
}
