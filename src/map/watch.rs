//! Whether a mapped file is still what it was when it was mapped. A file that was truncated and has grown again reads as
//! zeros, without a signal; one that was overwritten reads as something else. Size, time of the last change, and a few
//! bytes that don't change tell.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::sys::MemoryRegion;
use super::{guard, os};
use crate::error::{Error, ErrorKind, Result};

/// How often cheap calls look.
const EVERY: u64 = 10;
/// How long a file that grows may have been written to without being longer.
const SLOW: Duration = Duration::from_secs(1);
/// Bytes that are compared at each end of a stream.
const ENDS: usize = 64;

/// What is said of a file whose bytes are not those that were mapped.
pub(crate) const OVERWRITTEN: &str = "the file was overwritten while it was open; open it again";

/// When a call looks at the files behind what it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Always: the call takes much longer than the look.
    Now,
    /// Every 10 ms, or every 16 calls, whichever takes longer.
    Seldom,
}

/// What may happen to a file that is mapped.
#[derive(Debug)]
pub(crate) enum Watch {
    /// Nothing, unless the function finds that it is a file that is written in place after all.
    Still(fn(&File, u64) -> bool),
    /// It may grow; bytes at both ends stay as they were.
    Stream(Vec<FixedBytes>),
    /// All may be written but these bytes, in place: its size stays the same.
    InPlace(Vec<FixedBytes>),
}

/// Bytes that don't change, and where they stand.
pub(crate) type FixedBytes = (u64, Vec<u8>);

/// Size, and time of the last change.
type Stamp = (u64, (i64, i64));

/// What is known of a file.
#[derive(Debug)]
pub(super) struct WatchedFile {
    /// Whoever stores into the file through mappings changes its time as well: without a rule only its size counts.
    rule: OnceLock<Watch>,
    stamp: Mutex<Stamp>,
    last: AtomicU64,
}

impl WatchedFile {
    pub(super) fn new(metadata: &std::fs::Metadata) -> WatchedFile {
        WatchedFile { rule: OnceLock::new(), stamp: Mutex::new(stamp(metadata)), last: AtomicU64::new(os::millis()) }
    }

    /// Sets the rule, once.
    pub(super) fn set(&self, rule: Watch) {
        self.rule.get_or_init(|| rule);
    }

    /// The bytes that stay as they were in a file that is written in place.
    pub(super) fn marks(&self) -> Option<&[FixedBytes]> {
        match self.rule.get() {
            Some(Watch::InPlace(marks)) => Some(marks),
            _ => None,
        }
    }

    /// Whether it is time to look.
    #[inline]
    pub(super) fn is_due(&self, when: Look) -> bool {
        when == Look::Now || guard::is_turn() && self.is_time()
    }

    #[cold]
    fn is_time(&self) -> bool {
        let (now, last) = (os::millis(), self.last.load(Ordering::Relaxed));
        let is_time = now.wrapping_sub(last) >= EVERY;
        if is_time {
            self.last.store(now, Ordering::Relaxed);
        }
        is_time
    }

    /// Why the file is not what was mapped with `len` bytes, if it is not.
    pub(super) fn look(&self, file: &File, len: u64) -> Option<String> {
        // Of a file that can't be asked for nothing is known.
        let now = stamp(&file.metadata().ok()?);
        if now.0 < len {
            return Some(format!("the file was truncated to {} bytes, and {len} are mapped; open it again", now.0));
        }
        let is_same = match self.rule.get()? {
            Watch::Still(is_growable) => now == *self.stamp() || now.0 == len && is_growable(file, len),
            Watch::Stream(ends) => now == *self.stamp() || self.has_grown(now) && are_there(file, ends),
            Watch::InPlace(marks) => now.0 == len && are_there(file, marks),
        };
        (!is_same).then(|| OVERWRITTEN.into())
    }

    fn stamp(&self) -> std::sync::MutexGuard<'_, Stamp> {
        self.stamp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the file is longer than it was, or is about to be: its time changes before its size.
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

fn stamp(metadata: &std::fs::Metadata) -> Stamp {
    (metadata.size(), (metadata.mtime(), metadata.mtime_nsec()))
}

fn are_there(file: &File, marks: &[FixedBytes]) -> bool {
    marks.iter().all(|(at, expected)| {
        let mut found = vec![0; expected.len()];
        // What can't be read is no reason to say that it is another.
        file.read_exact_at(&mut found, *at).is_err() || found == *expected
    })
}

/// What a stream of `len` bytes begins and ends with.
pub(super) fn ends(file: &File, len: u64) -> Vec<FixedBytes> {
    let size = ENDS.min(len as usize);
    let read = |at: u64| {
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, at).ok().map(|()| (at, bytes))
    };
    [0, len - size as u64].into_iter().filter_map(read).collect()
}

pub(super) fn changed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::FileChanged, message)
}

/// What comes of a look at the file of a region: what was `found`, if anything was, holds for good.
pub(super) fn settle(region: &MemoryRegion, found: Option<String>) -> Result<()> {
    if found.is_some() {
        region.mark();
    }
    match found.or_else(|| region.is_changed().then(|| OVERWRITTEN.into())) {
        Some(why) => Err(changed(why)),
        None => Ok(()),
    }
}

/// Does `work`, and then `look`s whether the files were the same all the time: it says what is wrong with them. After an
/// error it has to be sure, as what was read may be why: zeros are a version that isn't supported, or a row out of range.
#[inline]
pub(crate) fn watched<T>(when: Look, look: impl Fn(Look) -> Result<()>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match guard::guard(work) {
        Ok(done) => look(when).map(|()| done),
        Err(e) if e.kind() == ErrorKind::FileChanged => Err(e),
        Err(e) => Err(look(Look::Now).err().unwrap_or(e)),
    }
}
