//! Sleeps until any of many words changes, or a name in any of several directories does; see [`WaitSet`].

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::error::Error;
use crate::guard::guard;
use crate::mapping::Mapping;
use crate::sync::MutexExt;
use crate::{os, sys};

/// A word of a mapped file, and its expected value.
#[derive(Clone, Debug)]
pub struct AwaitedWord {
    /// The mapping, of a file.
    pub mapping: Mapping,
    /// The offset of the 4-byte word.
    pub offset: usize,
    /// The expected value.
    pub value: u32,
}

/// Waits for many words at a time, and for names in directories.
///
/// It has a thread per 127 words, and one for all directories. The threads sleep until a change, and end when the set
/// is dropped.
///
/// A thread that finds a change sets `has_happened` under its lock, notifies the condition variable, and ends; the flag
/// is never reset, so a set reports one change, and callers create a new one. On drop, `end` is stored (release) before
/// the threads are woken. Each waits for `end` together with its words, so that a thread that is about to sleep finds
/// the word changed, and does not.
#[derive(Debug)]
pub struct WaitSet {
    shared: Arc<WaitState>,
    threads: Vec<JoinHandle<()>>,
    forks: u64,
}

#[derive(Debug)]
struct WaitState {
    /// [`RUNNING`], or [`ENDING`] once the threads should end. They wait for it as for the words of files.
    end: AtomicU32,
    has_happened: Mutex<bool>,
    happened: Condvar,
    names: Option<os::NameWatcher>,
}

const RUNNING: u32 = 0;
const ENDING: u32 = 1;

/// The maximum number of words that one thread waits for, besides the one that ends it.
const MAX_WORDS: usize = os::MAX_AWAITED - 1;
/// The stack size of a waiting thread in bytes.
const STACK_SIZE: usize = 128 << 10;

impl WaitSet {
    /// Starts to wait.
    ///
    /// Words that already differ from their expected values count as changes. In directories only later changes of
    /// names are noticed; the caller must check for earlier ones.
    ///
    /// # Errors
    /// `Unsupported` if the system can't wait for several words (Linux before 5.16); the errors of starting a thread,
    /// and of watching a directory, of which the system allows a limited number.
    pub fn new(words: Vec<AwaitedWord>, directories: &[PathBuf]) -> io::Result<WaitSet> {
        if !sys::can_wait_for_any() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let names = if directories.is_empty() { None } else { Some(os::NameWatcher::new()?) };
        if let Some(names) = &names {
            for directory in directories {
                names.add(directory)?;
            }
        }
        let watches_names = names.is_some();
        let end = AtomicU32::new(RUNNING);
        let shared = Arc::new(WaitState { end, has_happened: Mutex::new(false), happened: Condvar::new(), names });
        let mut set = WaitSet { shared, threads: Vec::new(), forks: os::fork_count() };
        for words in words.chunks(MAX_WORDS) {
            let words = words.to_vec();
            set.start(move |shared| shared.await_words(&words))?;
        }
        if watches_names {
            set.start(WaitState::await_names)?;
        }
        Ok(set)
    }

    fn start(&mut self, work: impl FnOnce(&WaitState) + Send + 'static) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = Builder::new().name("arrowwood-wait".into()).stack_size(STACK_SIZE);
        self.threads.push(thread.spawn(move || work(&shared))?);
        Ok(())
    }

    /// Returns true if there was a change.
    pub fn has_changed(&self) -> bool {
        // A forked child lacks the threads, and has to check for itself.
        self.forks != os::fork_count() || *self.shared.lock()
    }

    /// Waits for a change, at most `timeout`. Returns true if there was one.
    pub fn wait(&self, timeout: Duration) -> bool {
        if self.forks != os::fork_count() {
            return true;
        }
        let waited = self.shared.happened.wait_timeout_while(self.shared.lock(), timeout, |happened| !*happened);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl WaitState {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.has_happened.lock_ignoring_poison()
    }

    fn notify(&self) {
        *self.lock() = true;
        self.happened.notify_all();
    }

    fn should_end(&self) -> bool {
        self.end.load(Ordering::Acquire) != RUNNING
    }

    fn await_words(&self, words: &[AwaitedWord]) {
        let mut awaited: Vec<(&AtomicU32, u32)> = vec![(&self.end, RUNNING)];
        awaited.extend(words.iter().map(|word| (word.mapping.region().word32(word.offset), word.value.to_le())));
        while !self.should_end() {
            let waited = os::wait_for_any(&awaited);
            // A truncated file has no words, which counts as a change: the caller must find that out.
            let has_changed = waited.is_err()
                || guard(|| {
                    Ok::<_, Error>(awaited[1..].iter().any(|(word, value)| word.load(Ordering::Acquire) != *value))
                })
                .unwrap_or(true);
            if has_changed && !self.should_end() {
                return self.notify();
            }
        }
    }

    fn await_names(&self) {
        let Some(names) = &self.names else { return };
        if names.wait() {
            self.notify();
        }
    }
}

impl Drop for WaitSet {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        if self.forks != os::fork_count() {
            // After a fork the threads don't exist. On macOS, neither does the watcher of names, whose number may be
            // that of another file by now.
            std::mem::forget(self.shared.clone());
            return std::mem::forget(threads);
        }
        self.shared.end.store(ENDING, Ordering::Release);
        os::wake(&self.shared.end);
        self.shared.names.iter().for_each(os::NameWatcher::end);
        for thread in threads {
            // The thread doesn't panic, and if it did, nothing could be done here.
            let _ = thread.join();
        }
    }
}
