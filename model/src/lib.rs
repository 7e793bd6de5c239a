//! The publish protocol of growing tables under a model checker: [`LoomWords`] is shared words made of loom's atomics, over
//! which `arrowwood::publish`, the very functions that writers and readers run, are tried in all orders that the memory
//! model allows. The tests say what is proved.
//!
//! loom runs a test again and again until every order of its threads' accesses, and every value that a load may see, has
//! been tried. What it leaves out: loads that see stores which come later in their own thread's future. Words that never
//! change are left out of the model, and a store of the value that a word has already counts as none: then a load learns
//! less, never more.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrowwood::publish::SharedWords;
use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Condvar, Mutex};

/// A file's words, and what is wrong with them.
#[derive(Debug)]
pub struct LoomWords {
    /// The words that only one thread stores to.
    words: BTreeMap<u64, AtomicU64>,
    /// The words that several threads store to.
    ///
    /// loom only knows the order of two stores by different threads until it learns more about one of them. Then loads see
    /// values that were overwritten long ago, which no memory model allows. So stores are relaxed swaps here, which are
    /// ordered as they are tried; and all orders are tried.
    flags: BTreeMap<u64, AtomicU64>,
    /// The values that the only writer has stored, by offset.
    put: StdMutex<BTreeMap<u64, u64>>,
    /// The kernel's queue of sleeping threads (futex(2)): it compares and queues under one lock.
    queue: Mutex<()>,
    woken: Condvar,
    faults: Faults,
}

/// Ways to break the protocol, to see that the model notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Words are published by relaxed stores.
    pub relaxed: bool,
    /// There are no fences of this order.
    pub no_fence: Option<Ordering>,
}

impl LoomWords {
    /// Creates zeros at the offsets `words`, stored to by one thread, and `flags`, stored to by several.
    pub fn new(words: impl IntoIterator<Item = u64>, flags: &[u64], faults: Faults) -> LoomWords {
        let words = words.into_iter().map(|offset| (offset, AtomicU64::new(0))).collect();
        let flags = flags.iter().map(|&offset| (offset, AtomicU64::new(0))).collect();
        let (queue, woken) = (Mutex::new(()), Condvar::new());
        LoomWords { words, flags, put: StdMutex::default(), queue, woken, faults }
    }

    /// Returns the value that the writer has stored at `offset`, or 0. Words that never change are only kept here.
    fn last_stored(&self, offset: u64) -> u64 {
        self.put.lock().unwrap_or_else(|e| e.into_inner()).get(&offset).map_or(0, |&value| value)
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
            self.put.lock().unwrap_or_else(|e| e.into_inner()).insert(offset, value);
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
        let queue = self.queue.lock().unwrap_or_else(|e| e.into_inner());
        if self.load(offset, Ordering::Relaxed) as u32 == expected {
            drop(self.woken.wait(queue));
        }
    }

    fn wake(&self, _offset: u64) {
        let _queue = self.queue.lock().unwrap_or_else(|e| e.into_inner());
        self.woken.notify_all();
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
