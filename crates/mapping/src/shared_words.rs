//! Defines the [`SharedWords`] of a file that the two sides of a table communicate by.
//!
//! `src/table/protocol/publish.rs` is generic over the trait, so that a model checker can run the same code over its
//! own words.

use std::io;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use crate::mapping::Mapping;
use crate::mode::Mode;
use crate::shared_file::SharedFile;

/// Little-endian words that one process stores and others load.
///
/// Their offsets are multiples of their size, and all loads and stores are atomic.
pub trait SharedWords {
    /// Stores words of 8 bytes, in no order (relaxed).
    fn store_words(&self, offset: u64, bytes: &[u8]);
    /// Writes bytes that no reader uses yet; fails on a full disk.
    ///
    /// # Errors
    /// The error of the disk.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Loads words of 8 bytes, in no order (relaxed).
    fn load_words(&self, offset: u64, into: &mut [u8]);
    /// Loads a word (acquire).
    fn load64(&self, offset: u64) -> u64;
    /// Stores a word (release). A process that loads it sees everything stored before.
    fn publish64(&self, offset: u64, value: u64);
    /// As [`load64`](SharedWords::load64).
    fn load32(&self, offset: u64) -> u32;
    /// As [`publish64`](SharedWords::publish64).
    fn publish32(&self, offset: u64, value: u32);
    /// Waits while the word at `offset` is `expected`, until woken; may return early.
    fn wait(&self, offset: u64, expected: u32, timeout: Duration);
    /// Wakes all that wait at `offset`.
    fn wake(&self, offset: u64);

    /// Orders the stores and loads before and after (an atomic fence).
    #[inline]
    fn fence(&self, order: Ordering) {
        fence(order);
    }

    /// Yields for a moment.
    #[inline]
    fn pause(&self) {
        std::hint::spin_loop();
    }
}

/// Returns true if the bytes are whole 8-byte words, each of which is loaded or stored atomically.
fn are_words(offset: u64, len: usize) -> bool {
    offset.is_multiple_of(8) && len.is_multiple_of(8)
}

/// The writer's side.
impl SharedWords for SharedFile {
    #[inline]
    fn store_words(&self, offset: u64, bytes: &[u8]) {
        debug_assert!(are_words(offset, bytes.len()), "whole words");
        SharedFile::put(self, offset, bytes);
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        SharedFile::write(self, offset, bytes)
    }

    fn load_words(&self, offset: u64, into: &mut [u8]) {
        debug_assert!(are_words(offset, into.len()), "whole words");
        SharedFile::copy_out(self, offset, into);
    }

    #[inline]
    fn load64(&self, offset: u64) -> u64 {
        SharedFile::load64(self, offset)
    }

    #[inline]
    fn publish64(&self, offset: u64, value: u64) {
        SharedFile::publish64(self, offset, value);
    }

    #[inline]
    fn load32(&self, offset: u64) -> u32 {
        SharedFile::load32(self, offset)
    }

    #[inline]
    fn publish32(&self, offset: u64, value: u32) {
        SharedFile::publish32(self, offset, value);
    }

    /// A writer never waits for readers.
    fn wait(&self, _offset: u64, _expected: u32, _timeout: Duration) {}

    fn wake(&self, offset: u64) {
        SharedFile::wake(self, offset);
    }
}

/// A reader's side. Stores through a read-only mapping do nothing.
impl SharedWords for Mapping {
    fn store_words(&self, _offset: u64, _bytes: &[u8]) {}

    fn write(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(io::Error::other("readers write nothing"))
    }

    fn load_words(&self, offset: u64, into: &mut [u8]) {
        debug_assert!(are_words(offset, into.len()), "whole words");
        Mapping::copy_out(self, offset as usize, into);
    }

    #[inline]
    fn load64(&self, offset: u64) -> u64 {
        Mapping::load64(self, offset as usize)
    }

    fn publish64(&self, _offset: u64, _value: u64) {}

    fn load32(&self, offset: u64) -> u32 {
        u32::from_le(self.region().word32(offset as usize).load(Ordering::Acquire))
    }

    fn publish32(&self, offset: u64, value: u32) {
        if self.mode() == Mode::ReadWrite {
            self.region().word32(offset as usize).store(value.to_le(), Ordering::Release);
        }
    }

    fn wait(&self, offset: u64, expected: u32, timeout: Duration) {
        self.region().wait(offset as usize, expected, timeout);
    }

    fn wake(&self, offset: u64) {
        self.region().wake(offset as usize);
    }
}
