//! Checks that a mapped file is unchanged.
//!
//! A file that was truncated and has grown again reads as zeros, without a signal, and an overwritten file reads as
//! something else. Changes are detected by the size, the modification time and a few constant bytes.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{ChangeCheckError, Error, ErrorKind, Result};
use crate::guard::{guard, should_read_clock};
use crate::os::{self, FileInfo};
use crate::sync::MutexExt;
use crate::sys::MemoryRegion;

/// Milliseconds between the checks of cheap calls.
const CHECK_INTERVAL_MS: u64 = 10;
/// How long ago a growing file may have been modified without having become longer.
const MAX_GROWTH_DELAY: Duration = Duration::from_secs(1);
/// Number of bytes compared at each end of a stream.
const END_BYTES: usize = 64;

/// The message of the error if mapped bytes have changed.
pub(crate) const OVERWRITTEN: &str = "the file was overwritten while it was open; open it again";

/// When a call checks the files that it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeCheck {
    /// Always, because the call takes much longer than the check.
    Now,
    /// Every 10 ms, or every 16 calls, whichever takes longer.
    Seldom,
}

/// The changes that are allowed in a mapped file.
#[derive(Debug)]
pub enum AllowedChanges {
    /// None, unless the function returns true for the file and its mapped length: it says that the file is written in
    /// place.
    Still(fn(&File, u64) -> bool),
    /// The file may grow. The given bytes at both ends are constant.
    Stream(Vec<FixedBytes>),
    /// All bytes but the given ones may be overwritten. The size is constant.
    InPlace(Vec<FixedBytes>),
}

/// An offset and the constant bytes there.
pub type FixedBytes = (u64, Vec<u8>);

/// Size and modification time of a file at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Bytes.
    pub size: u64,
    /// Seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
}

/// The last known state of a file.
#[derive(Debug)]
pub(crate) struct ChangeDetector {
    /// Stores through mappings change the modification time as well: without a rule only the size is checked.
    rule: OnceLock<AllowedChanges>,
    stamp: Mutex<Stamp>,
    /// Milliseconds at the last check of a cheap call.
    last_check: AtomicU64,
}

impl ChangeDetector {
    pub(crate) fn new(metadata: &FileInfo) -> ChangeDetector {
        ChangeDetector::with_stamp(stamp(metadata))
    }

    /// Creates the detector of a copy, which never changes.
    pub(crate) fn none() -> ChangeDetector {
        ChangeDetector::with_stamp(Stamp::default())
    }

    fn with_stamp(stamp: Stamp) -> ChangeDetector {
        let last_check = AtomicU64::new(os::millis());
        ChangeDetector { rule: OnceLock::new(), stamp: Mutex::new(stamp), last_check }
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

    /// Returns true if a check is due.
    #[inline]
    pub(crate) fn is_due(&self, when: ChangeCheck) -> bool {
        when == ChangeCheck::Now || should_read_clock() && self.is_time()
    }

    #[cold]
    fn is_time(&self) -> bool {
        let now = os::millis();
        let is_time = now.wrapping_sub(self.last_check.load(Ordering::Relaxed)) >= CHECK_INTERVAL_MS;
        if is_time {
            self.last_check.store(now, Ordering::Relaxed);
        }
        is_time
    }

    /// Checks the file that is mapped at `region`. Returns a description of the change, if the file has changed.
    ///
    /// # Errors
    /// Returns the errors of [`has_marks`].
    pub(crate) fn find_change(&self, file: &File, region: &MemoryRegion) -> Result<Option<String>> {
        let len = region.len() as u64;
        // Without metadata nothing is known, so no change either.
        let (Ok(metadata), Some(rule)) = (FileInfo::from_file(file), self.rule.get()) else { return Ok(None) };
        let current = stamp(&metadata);
        let size = current.size;
        if size < len {
            return Ok(Some(format!("the file was truncated to {size} bytes, and {len} are mapped; open it again")));
        }
        let is_same = match rule {
            AllowedChanges::Still(is_growable) => current == *self.stamp() || size == len && is_growable(file, len),
            AllowedChanges::Stream(ends) => current == *self.stamp() || self.has_grown(current) && has_ends(file, ends),
            AllowedChanges::InPlace(marks) => size == len && has_marks(region, marks)?,
        };
        Ok((!is_same).then(|| OVERWRITTEN.into()))
    }

    fn stamp(&self) -> std::sync::MutexGuard<'_, Stamp> {
        self.stamp.lock_ignoring_poison()
    }

    /// Returns true if the file has grown, or is about to: its modification time changes before its size.
    fn has_grown(&self, current: Stamp) -> bool {
        let Stamp { size, modified: (seconds, nanoseconds) } = current;
        let mut last = self.stamp();
        if size > last.size {
            *last = current;
            return true;
        }
        let modified = Duration::new(seconds.max(0) as u64, nanoseconds.max(0) as u32);
        // A time in the future, by a clock that was set back, counts as the present.
        let age =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(Duration::ZERO, |now| now.saturating_sub(modified));
        size == last.size && age < MAX_GROWTH_DELAY
    }
}

pub(crate) fn stamp(metadata: &FileInfo) -> Stamp {
    Stamp { size: metadata.len(), modified: os::modified_time(metadata) }
}

/// Returns true if the bytes mapped at `region` are `marks`.
///
/// # Errors
/// Returns the errors of [`guard`].
pub(crate) fn has_marks(region: &MemoryRegion, marks: &[FixedBytes]) -> Result<bool> {
    guard(|| Ok(marks.iter().all(|(offset, expected)| region.has_bytes(*offset as usize, expected))))
}

/// Returns true if the file has all of `ends`.
fn has_ends(file: &File, ends: &[FixedBytes]) -> bool {
    ends.iter().all(|(offset, expected)| {
        let mut actual = vec![0; expected.len()];
        // Unreadable bytes are no evidence of a change.
        os::read_exact_at(file, &mut actual, *offset).is_err() || actual == *expected
    })
}

/// Returns the first and the last bytes of a stream of `len` bytes, as far as they can be read.
pub(crate) fn ends(file: &File, len: u64) -> Vec<FixedBytes> {
    let size = END_BYTES.min(len as usize);
    let mut ends = Vec::with_capacity(2);
    for offset in [0, len - size as u64] {
        let mut bytes = vec![0; size];
        if os::read_exact_at(file, &mut bytes, offset).is_ok() {
            ends.push((offset, bytes));
        }
    }
    ends
}

pub(crate) fn changed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::FileChanged, message)
}

/// Records the change that was found in a region's file, for good, and returns its error.
///
/// Pages that the system could not read are zeros, and no change: then the error is the one of the system.
pub(crate) fn record_change(region: &MemoryRegion, change: Option<String>) -> Result<()> {
    if change.is_none() && !region.is_changed() {
        return Ok(());
    }
    let error = region.failure().unwrap_or_else(|| changed(change.unwrap_or_else(|| OVERWRITTEN.into())));
    region.mark();
    Err(error)
}

/// Runs `work`, then calls `check` to verify that the files were unchanged, and returns its error if they were not.
///
/// The check is never skipped after an error of `work`, because a changed file may be the cause: zeros read as an
/// unsupported version or a row out of range.
///
/// # Errors
/// `FileChanged`, and the errors of `work` and `check`.
#[inline]
pub fn with_change_check<T, E: ChangeCheckError>(
    when: ChangeCheck,
    check: impl Fn(ChangeCheck) -> Result<(), E>,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    match guard(work) {
        Ok(result) => check(when).map(|()| result),
        Err(e) if e.is_file_changed() => Err(e),
        Err(e) => Err(check(ChangeCheck::Now).err().unwrap_or(e)),
    }
}
