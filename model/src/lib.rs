//! Runs the publish protocol of growing tables under the model checker loom.
//!
//! [`LoomWords`] implements shared words with loom's atomics. The functions of `arrowwood::publish`, which writers and
//! readers really run, are executed over them in all orders that the memory model allows. The tests state the properties.
//!
//! loom repeats a test until it has tried every order of its threads' accesses, and every value that a load may see. It
//! does not try loads that see later stores of their own thread. To bound the number of executions, words that never change
//! are left out of the model, and storing the value that a word has already is no store. Both can only make loads see less.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrowwood::publish::SharedWords;
use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Condvar, Mutex};

/// The words of a file in the model, with optional faults in the protocol.
#[derive(Debug)]
pub struct LoomWords {
    /// The words that only one thread stores to.
    words: BTreeMap<u64, AtomicU64>,
    /// The words that several threads store to.
    ///
    /// loom forgets the order of two stores by different threads as soon as it learns more about one of them. Loads could
    /// then see values that were overwritten long ago, which no memory model allows. Therefore, stores to these words are
    /// relaxed swaps, which are ordered as they are tried; and all orders are tried.
    flags: BTreeMap<u64, AtomicU64>,
    /// The values that the only writer has stored, by offset.
    stored: StdMutex<BTreeMap<u64, u64>>,
    /// The kernel's queue of sleeping threads (futex(2)), which compares and queues under one lock.
    futex_queue: Mutex<()>,
    futex_woken: Condvar,
    faults: Faults,
}

/// Faults in the protocol, to test that the model finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Publishes words with relaxed stores.
    pub relaxed: bool,
    /// Leaves out fences of this order.
    pub no_fence: Option<Ordering>,
}

impl LoomWords {
    /// Creates words at these offsets, all 0. One thread may store to each of `words`, several to `flags`.
    pub fn new(words: impl IntoIterator<Item = u64>, flags: &[u64], faults: Faults) -> LoomWords {
        let words = words.into_iter().map(|offset| (offset, AtomicU64::new(0))).collect();
        let flags = flags.iter().map(|&offset| (offset, AtomicU64::new(0))).collect();
        LoomWords {
            words,
            flags,
            stored: StdMutex::default(),
            futex_queue: Mutex::new(()),
            futex_woken: Condvar::new(),
            faults,
        }
    }

    /// Returns the value that the writer has stored at `offset`, or 0. Words outside of the model have only this value.
    fn last_stored(&self, offset: u64) -> u64 {
        self.stored.lock().unwrap_or_else(|e| e.into_inner()).get(&offset).map_or(0, |&value| value)
    }

    fn load(&self, offset: u64, order: Ordering) -> u64 {
        match (self.words.get(&offset), self.flags.get(&offset)) {
            (Some(word), _) => word.load(order),
            (None, Some(flag)) => flag.load(Ordering::Relaxed),
            (None, None) => self.last_stored(offset),
        }
    }

    fn store(&self, offset: u64, value: u64) {
        let order = if self.faults.relaxed { Ordering::Relaxed } else { Ordering::Release };
        match (self.words.get(&offset), self.flags.get(&offset)) {
            (Some(word), _) => word.store(value, order),
            (None, Some(flag)) => drop(flag.swap(value, Ordering::Relaxed)),
            (None, None) => (),
        }
    }
}

impl SharedWords for LoomWords {
    fn store_words(&self, offset: u64, bytes: &[u8]) {
        for (raw, offset) in bytes.as_chunks::<8>().0.iter().zip((offset..).step_by(8)) {
            let value = u64::from_le_bytes(*raw);
            if self.last_stored(offset) == value {
                continue;
            }
            if let Some(word) = self.words.get(&offset) {
                word.store(value, Ordering::Relaxed);
            }
            self.stored.lock().unwrap_or_else(|e| e.into_inner()).insert(offset, value);
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.store_words(offset, bytes);
        Ok(())
    }

    fn load_words(&self, offset: u64, into: &mut [u8]) {
        for (raw, offset) in into.as_chunks_mut::<8>().0.iter_mut().zip((offset..).step_by(8)) {
            *raw = self.load(offset, Ordering::Relaxed).to_le_bytes();
        }
    }

    fn load64(&self, offset: u64) -> u64 {
        self.load(offset, Ordering::Acquire)
    }

    fn publish64(&self, offset: u64, value: u64) {
        self.store(offset, value);
    }

    fn load32(&self, offset: u64) -> u32 {
        self.load(offset, Ordering::Acquire) as u32
    }

    fn publish32(&self, offset: u64, value: u32) {
        self.store(offset, value.into());
    }

    /// Waits without a timeout: a thread that is not woken sleeps forever, which loom reports.
    fn wait(&self, offset: u64, expected: u32, _timeout: Duration) {
        let queue = self.futex_queue.lock().unwrap_or_else(|e| e.into_inner());
        if self.load(offset, Ordering::Relaxed) as u32 == expected {
            drop(self.futex_woken.wait(queue));
        }
    }

    fn wake(&self, _offset: u64) {
        let _queue = self.futex_queue.lock().unwrap_or_else(|e| e.into_inner());
        self.futex_woken.notify_all();
    }

    fn fence(&self, order: Ordering) {
        if self.faults.no_fence != Some(order) {
            fence(order);
        }
    }

    fn pause(&self) {
        loom::thread::yield_now();
    }
}
