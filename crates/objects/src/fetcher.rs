//! Fetches ranges of an object into a sparse file, each once, even if several threads ask for it.

use arrowwood::mapping::MutexExt;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use arrowwood::mapping::fork_count;
use arrowwood::{Bytes, Error, ErrorKind, Fetch, Mapping, Mode, Result, blocking};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::error::changed;
use crate::object::{Object, Version};
use crate::range_set::{RangeSet, requests};
use crate::runtime::{REQUESTS, RequestRuntime};

/// The number of bytes at the end of an object that are read when it is opened: the footer of most files.
const TAIL: u64 = 64 << 10;

/// An object, and the file that has the fetched ranges.
#[derive(Debug)]
pub(crate) struct Fetcher {
    object: Arc<Object>,
    version: Version,
    file: Arc<File>,
    state: Mutex<State>,
    /// Notified when ranges were fetched, or a request has failed.
    came: Condvar,
    /// The process that created the fetcher.
    process: u64,
}

#[derive(Debug, Default)]
struct State {
    /// The ranges that are in the file.
    present: RangeSet,
    /// The ranges that some thread is fetching.
    coming: RangeSet,
    /// The process of these threads.
    process: u64,
    /// The error of an object that was replaced.
    changed: Option<Error>,
}

/// Opens an object. Reads its end; other ranges are read when they are needed.
pub(crate) fn open(object: Object) -> Result<Bytes> {
    let object = Arc::new(object);
    let asked = object.clone();
    let (version, tail) = RequestRuntime::for_process()?.wait(async move { asked.tail(TAIL).await })?;
    if !object.location.is_version(&version.text()) {
        return Err(changed());
    }
    let address = object.location.address(&version.text());
    // No file can be larger than `i64::MAX`.
    let size = i64::try_from(version.size).ok().and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or_else(|| too_large(version.size))?;
    let (file, mapping) = sparse(&object, size)?;
    let start = size - tail.len();
    file.write_all_at(&tail, start as u64).map_err(|e| Error::io("writing to a file of the cache", &e))?;
    let mut present = RangeSet::default();
    present.insert(start..size);
    let process = fork_count();
    let state = Mutex::new(State { present, process, ..State::default() });
    let fetcher = Fetcher { object, version, file: Arc::new(file), state, came: Condvar::new(), process };
    Bytes::from_fetch(mapping, Arc::new(fetcher), Path::new(&address))
}

fn too_large(size: u64) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the store says that the object has {size} bytes"))
}

/// Creates a sparse file of `size` bytes, and maps it. The file has no name, so the system removes it when it is
/// closed.
fn sparse(object: &Object, size: usize) -> Result<(File, Mapping)> {
    if size == 0 {
        return Err(Error::new(ErrorKind::InvalidData, "not Arrow data: the object is empty"));
    }
    let folder = folder(object.options.cache.as_deref());
    let failed = |e| Error::io("creating a file for what is fetched; $TMPDIR says where", &e).at(&folder);
    let (file, path) = unguessable(&folder).map_err(failed)?;
    let mapped = sized(&file, &path, size, object.options.poison);
    std::fs::remove_file(&path).map_err(failed)?;
    Ok((file, mapped?))
}

/// Creates a file that only this user can open, with an unguessable name, as other users may write to the folder.
fn unguessable(folder: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        // Each state has keys of its own, which come from the system's random numbers.
        let words = [(); 2].map(|()| RandomState::new().hash_one(folder));
        let path = folder.join(format!(".arrowwood-{:016x}{:016x}", words[0], words[1]));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => (),
            opened => return Ok((opened?, path)),
        }
    }
}

fn sized(file: &File, path: &Path, size: usize, poison: Option<u8>) -> Result<Mapping> {
    let doing = format!("making room for an object of {size} bytes");
    file.set_len(size as u64).map_err(|e| Error::io(&doing, &e).at(path))?;
    /// Larger objects are only in tests that don't check this.
    const MOST: usize = 1 << 28;
    if let Some(byte) = poison.filter(|_| size <= MOST) {
        file.write_all_at(&vec![byte; size], 0).map_err(|e| Error::io(&doing, &e))?;
    }
    let mapping = Mapping::open(path, Mode::Read)?;
    // The other handle is enough, and there may be too many objects for two each.
    mapping.close_file();
    Ok(mapping)
}

/// Returns the folder for files of the cache, on a disk rather than in memory. An empty `$TMPDIR` counts as unset.
fn folder(named: Option<&Path>) -> PathBuf {
    let of_user = || std::env::var_os("TMPDIR").filter(|name| !name.is_empty()).map(PathBuf::from);
    let on_disk = || Some(PathBuf::from("/var/tmp")).filter(|folder| folder.is_dir());
    named.map(Path::to_path_buf).or_else(of_user).or_else(on_disk).unwrap_or_else(|| PathBuf::from("/tmp"))
}

impl Fetcher {
    /// Locks the state. In a fork, a thread that does not exist there may hold the lock.
    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        let process = fork_count();
        if process == self.process {
            return Ok(self.state.lock_ignoring_poison());
        }
        for _ in 0..100 {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(broken)) => broken.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
            };
            if state.process != process {
                state.coming.clear();
                state.process = process;
            }
            return Ok(state);
        }
        let message = "the process was forked while another thread was fetching; open the object again";
        Err(Error::new(ErrorKind::Busy, message))
    }

    /// Sends the requests `asked`, writes the parts `own` of the answers, which no other thread fetches, and records
    /// them.
    fn fetch(&self, asked: Vec<Range<usize>>, own: Vec<Range<usize>>) -> Result<()> {
        let own: Arc<[_]> = own.into();
        let done = self.request(asked, own.clone());
        let mut state = self.lock()?;
        own.iter().for_each(|range| state.coming.remove(range.clone()));
        match &done {
            Ok(()) => own.iter().for_each(|range| state.present.insert(range.clone())),
            Err(e) if e.kind() == ErrorKind::FileChanged => state.changed = Some(e.clone()),
            Err(_) => (),
        }
        drop(state);
        self.came.notify_all();
        done
    }

    /// Sends requests for `ranges`, several at a time, and waits until all were answered and the parts `own` written.
    fn request(&self, ranges: Vec<Range<usize>>, own: Arc<[Range<usize>]>) -> Result<()> {
        let threads = RequestRuntime::for_process()?;
        let permits = threads.permits.clone();
        let object = self.object.clone();
        let file = self.file.clone();
        let version = self.version.clone();
        threads.wait(async move {
            let one = |range: Range<usize>| async {
                let _permit = permits.acquire().await;
                object.read_into(&file, range, &own, &version).await
            };
            let answers = stream::iter(ranges.into_iter().map(one)).buffer_unordered(REQUESTS);
            answers.try_for_each(|()| async { Ok(()) }).await
        })
    }
}

impl Fetch for Fetcher {
    fn ensure(&self, ranges: &[Range<usize>]) -> Result<()> {
        let mut state = self.lock()?;
        loop {
            if let Some(changed) = &state.changed {
                return Err(changed.clone().at(&self.object.location.name));
            }
            let missing = state.present.missing_of(ranges);
            if missing.is_empty() {
                return Ok(());
            }
            let own = state.coming.missing_of(&missing);
            if own.is_empty() {
                // Checks again regularly, as the thread that fetches may be in the parent of a fork.
                let waited = self.came.wait_timeout(state, blocking::TURN);
                drop(waited.unwrap_or_else(PoisonError::into_inner).0);
                blocking::check_interrupt()?;
                state = self.lock()?;
                continue;
            }
            // Requests are longer than the missing ranges. Parts that other threads have fetched, or are fetching, are
            // not written: they may have been checked, and a store may answer differently the second time.
            let asked = requests(&own, self.version.size as usize);
            let own = state.coming.missing_of(&state.present.missing_of(&asked));
            own.iter().for_each(|range| state.coming.insert(range.clone()));
            drop(state);
            self.fetch(asked, own).map_err(|e| e.at(&self.object.location.name))?;
            state = self.lock()?;
        }
    }

    fn has(&self, ranges: &[Range<usize>]) -> bool {
        self.lock().is_ok_and(|state| state.changed.is_none() && state.present.missing_of(ranges).is_empty())
    }

    fn check_unchanged(&self) -> Result<()> {
        let state = self.lock()?;
        state.changed.clone().map_or(Ok(()), |changed| Err(changed.at(&self.object.location.name)))
    }
}
