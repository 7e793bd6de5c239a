//! [`Fetcher`]: fetches ranges of an object into a sparse file, each once, even if several threads need it.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use arrowwood::mapping::{MutexExt, fork_count, os};
use arrowwood::{Bytes, Error, ErrorKind, Fetch, Mapping, Mode, Result, blocking};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::error::changed_error;
use crate::object::{Object, Version};
use crate::range_set::{RangeSet, plan_requests};
use crate::runtime::{MAX_REQUESTS, RequestRuntime};

/// The bytes at the end of an object that are read when it is opened, which include the footer of most files.
const TAIL_BYTES: u64 = 64 << 10;
/// The maximum size of objects whose files are filled for tests.
const MAX_POISONED_BYTES: usize = 1 << 28;
/// How often a fork tries to lock the state, [`FORK_LOCK_INTERVAL`] apart.
const FORK_LOCK_ATTEMPTS: u32 = 100;
const FORK_LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// An object, and the file that has the fetched ranges.
///
/// A thread that needs ranges looks under the lock of `state` which of them are neither in the file nor in flight,
/// adds these to `in_flight`, and sends requests for them without the lock. When the bytes are in the file, it moves
/// the ranges to `present`, under the lock again, and notifies `fetched`. Threads that need ranges in flight wait for
/// that. A range in `in_flight` belongs to one thread, and only that thread writes it to the file, once: readers of a
/// present range never see it change.
///
/// In a forked child, the threads of the parent do not exist, so what they were fetching is no longer in flight; see
/// [`lock`](Fetcher::lock).
#[derive(Debug)]
pub(crate) struct Fetcher {
    object: Arc<Object>,
    version: Version,
    file: Arc<File>,
    state: Mutex<State>,
    /// Notified when ranges were fetched, or a request has failed.
    fetched: Condvar,
    /// The process that created the fetcher, as its [`fork_count`].
    process: u64,
}

/// Which ranges of the object were fetched.
#[derive(Debug, Default)]
struct State {
    /// The ranges that are in the file.
    present: RangeSet,
    /// The ranges that a thread is fetching.
    in_flight: RangeSet,
    /// The process of these threads.
    process: u64,
    /// The error after the object was replaced.
    changed: Option<Error>,
}

/// Opens an object, and reads its end. Other ranges are fetched when they are needed.
pub(crate) fn open(object: Object) -> Result<Bytes> {
    let object = Arc::new(object);
    let reader = object.clone();
    let (version, tail) = RequestRuntime::for_process()?.wait(async move { reader.read_tail(TAIL_BYTES).await })?;
    if !object.location.allows_version(&version.to_text()) {
        return Err(changed_error());
    }
    let address = object.location.address(&version.to_text());
    // No file can be larger than `i64::MAX`.
    let size = i64::try_from(version.size).ok().and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or_else(|| too_large(version.size))?;
    let (file, mapping) = map_sparse_file(&object, size)?;
    assert!(tail.len() <= size, "the end of {} bytes is part of an object of {size} bytes", tail.len());
    let start = size - tail.len();
    os::write_all_at(&file, &tail, start as u64).map_err(|e| Error::io("writing to a file of the cache", &e))?;
    let mut present = RangeSet::default();
    present.insert(start..size);
    let process = fork_count();
    let state = Mutex::new(State { present, process, ..State::default() });
    let fetcher = Fetcher { object, version, file: Arc::new(file), state, fetched: Condvar::new(), process };
    Bytes::from_fetch(mapping, Arc::new(fetcher), Path::new(&address))
}

fn too_large(size: u64) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the store says that the object has {size} bytes"))
}

/// Creates a sparse file of `size` bytes, and maps it. The file has no name, so that the system removes it when it is
/// closed.
fn map_sparse_file(object: &Object, size: usize) -> Result<(File, Mapping)> {
    if size == 0 {
        return Err(Error::new(ErrorKind::InvalidData, "not Arrow data: the object is empty"));
    }
    let folder = cache_folder(object.options.cache.as_deref());
    let (file, path) = create_private_file(&folder).map_err(|e| cache_error(&e, &folder))?;
    let mapping = resize_and_map(&file, &path, size, object.options.poison());
    std::fs::remove_file(&path).map_err(|e| cache_error(&e, &folder))?;
    Ok((file, mapping?))
}

fn cache_error(e: &io::Error, folder: &Path) -> Error {
    Error::io("creating a file for what is fetched; $TMPDIR says where", e).at(folder)
}

/// Creates a file that only this user can open, with an unguessable name, as other users may write to the folder.
fn create_private_file(folder: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        // Each state has random keys of its own, which come from the system.
        let high = RandomState::new().hash_one(folder);
        let low = RandomState::new().hash_one(folder);
        let path = folder.join(format!(".arrowwood-{high:016x}{low:016x}"));
        match os::private(OpenOptions::new().read(true).write(true).create_new(true)).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => (),
            Err(e) => return Err(e),
        }
    }
}

/// Gives a file its size, and maps it. With `poison`, fills it with this byte.
fn resize_and_map(file: &File, path: &Path, size: usize, poison: Option<u8>) -> Result<Mapping> {
    let operation = format!("making room for an object of {size} bytes");
    file.set_len(size as u64).map_err(|e| Error::io(&operation, &e).at(path))?;
    if let Some(byte) = poison.filter(|_| size <= MAX_POISONED_BYTES) {
        os::write_all_at(file, &vec![byte; size], 0).map_err(|e| Error::io(&operation, &e))?;
    }
    let mapping = Mapping::open(path, Mode::Read)?;
    // The fetcher has a handle already. With two for each object, a process could open only half as many.
    mapping.close_file();
    Ok(mapping)
}

/// Returns the folder for cached files: `configured`, or `$TMPDIR`, or one that is on a disk rather than in memory.
fn cache_folder(configured: Option<&Path>) -> PathBuf {
    if let Some(folder) = configured {
        return folder.to_path_buf();
    }
    // An empty variable counts as unset.
    if let Some(folder) = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()) {
        return folder.into();
    }
    let on_disk = Path::new("/var/tmp");
    if on_disk.is_dir() { on_disk.into() } else { PathBuf::from("/tmp") }
}

impl Fetcher {
    /// Locks the state. In a fork, a thread that exists only in the parent may hold the lock.
    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        let process = fork_count();
        if process == self.process {
            return Ok(self.state.lock_ignoring_poison());
        }
        for _ in 0..FORK_LOCK_ATTEMPTS {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::thread::sleep(FORK_LOCK_INTERVAL);
                    continue;
                }
            };
            if state.process != process {
                state.in_flight.clear();
                state.process = process;
            }
            return Ok(state);
        }
        let message = "the process was forked while another thread was fetching; open the object again";
        Err(Error::new(ErrorKind::Busy, message))
    }

    /// Sends `requests`, writes the `reserved` parts of the responses, which no other thread fetches, and records the
    /// result.
    fn fetch(&self, requests: Vec<Range<usize>>, reserved: Vec<Range<usize>>) -> Result<()> {
        let reserved: Arc<[_]> = reserved.into();
        let result = self.send_requests(requests, reserved.clone());
        let mut state = self.lock()?;
        for range in reserved.iter() {
            state.in_flight.remove(range.clone());
            if result.is_ok() {
                state.present.insert(range.clone());
            }
        }
        if let Err(e) = &result
            && e.kind() == ErrorKind::FileChanged
        {
            state.changed = Some(e.clone());
        }
        drop(state);
        self.fetched.notify_all();
        result
    }

    /// Sends several requests at a time, and waits until all responses have arrived and their `reserved` parts are
    /// written.
    fn send_requests(&self, requests: Vec<Range<usize>>, reserved: Arc<[Range<usize>]>) -> Result<()> {
        let runtime = RequestRuntime::for_process()?;
        let permits = runtime.permits.clone();
        let object = self.object.clone();
        let file = self.file.clone();
        let version = self.version.clone();
        runtime.wait(async move {
            stream::iter(requests)
                .map(|range| async {
                    let _permit = permits.acquire().await;
                    object.read_into(&file, range, &reserved, &version).await
                })
                .buffer_unordered(MAX_REQUESTS)
                .try_for_each(|()| async { Ok(()) })
                .await
        })
    }

    /// Returns an error if the object was replaced.
    fn check_state(&self, state: &State) -> Result<()> {
        match &state.changed {
            Some(changed) => Err(changed.clone().at(&self.object.location.name)),
            None => Ok(()),
        }
    }
}

impl Fetch for Fetcher {
    fn ensure(&self, ranges: &[Range<usize>]) -> Result<()> {
        let mut state = self.lock()?;
        loop {
            self.check_state(&state)?;
            let missing = state.present.missing_of(ranges);
            if missing.is_empty() {
                return Ok(());
            }
            let unrequested = state.in_flight.missing_of(&missing);
            if unrequested.is_empty() {
                // Check again regularly, as the thread that fetches may be in the parent of a fork.
                let waited = self.fetched.wait_timeout(state, blocking::POLL_INTERVAL);
                drop(waited.unwrap_or_else(PoisonError::into_inner).0);
                blocking::check_interrupt()?;
                state = self.lock()?;
                continue;
            }
            // Requests may be longer than the missing ranges. Parts that were fetched before, or that other threads are
            // fetching, are not written again: they may have been checked, and a store may answer differently the
            // second time.
            let requests = plan_requests(&unrequested, self.version.size as usize);
            let reserved = state.in_flight.missing_of(&state.present.missing_of(&requests));
            for range in &reserved {
                state.in_flight.insert(range.clone());
            }
            drop(state);
            self.fetch(requests, reserved).map_err(|e| e.at(&self.object.location.name))?;
            state = self.lock()?;
        }
    }

    fn has(&self, ranges: &[Range<usize>]) -> bool {
        self.lock().is_ok_and(|state| state.changed.is_none() && state.present.missing_of(ranges).is_empty())
    }

    fn check_unchanged(&self) -> Result<()> {
        let state = self.lock()?;
        self.check_state(&state)
    }
}
