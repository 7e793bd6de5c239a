//! Waits for words that other processes store to.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The maximum number of words that [`wait_for_any`] takes.
pub const MAX_AWAITED: usize = 128;

/// Waits while `word` is `expected`, until woken or for `timeout` (futex(2)); may return early. Works on a read-only
/// mapping.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    /// About 34 years, which any `time_t` has room for.
    const MAX_SECONDS: u64 = 1 << 30;
    let time =
        libc::timespec { tv_sec: timeout.as_secs().min(MAX_SECONDS) as i64, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: the word is borrowed and the time lives through the call; any answer is fine.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const time) };
}

/// Wakes all threads that wait for `word`, in any process.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word is borrowed; it is fine if no thread is woken.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Waits until one of the words differs from its expected value, or is woken (futex_waitv(2)); may return early.
///
/// # Errors
/// Errors of the system, such as `EFAULT` for a word of a truncated file; `Unsupported` if it can't wait for several.
pub fn wait_for_any(words: &[(&AtomicU32, u32)]) -> io::Result<()> {
    /// The layout of the system's structure.
    #[repr(C)]
    struct Waiter {
        value: u64,
        address: u64,
        flags: u32,
        reserved: u32,
    }
    const SIZE_OF_WORD: u32 = 2;
    assert!(words.len() <= MAX_AWAITED, "waiting for {} words", words.len());
    let mut waiters = Vec::with_capacity(words.len());
    for &(word, value) in words {
        let address = word.as_ptr() as u64;
        waiters.push(Waiter { value: value.into(), address, flags: SIZE_OF_WORD, reserved: 0 });
    }
    let no_timeout = std::ptr::null::<libc::timespec>();
    // SAFETY: the list has as many structures as its length says, and lives through the call, as do the words, which
    // are borrowed; without a timeout the clock is not used.
    let result = unsafe {
        libc::syscall(libc::SYS_futex_waitv, waiters.as_ptr(), waiters.len(), 0, no_timeout, libc::CLOCK_MONOTONIC)
    };
    if result >= 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => Ok(()),
        e => Err(e),
    }
}
