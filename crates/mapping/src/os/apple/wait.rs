//! Waits for words that other processes store to.
//!
//! The functions for it are looked up, as the system has them since macOS 14.4 only. Without them, and for several words
//! at a time, the caller looks again and again, as in `portable`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::os::portable;

/// `os_sync_wait_on_address_with_timeout`: address, value, size, flags, clock and nanoseconds.
type WaitOnAddress = unsafe extern "C" fn(*mut c_void, u64, usize, u32, u32, u64) -> i32;
/// `os_sync_wake_by_address_all`: address, size and flags.
type WakeByAddress = unsafe extern "C" fn(*mut c_void, usize, u32) -> i32;

/// The two functions, of which a system has both or none.
#[derive(Clone, Copy, Debug)]
struct AddressCalls {
    wait: WaitOnAddress,
    wake: WakeByAddress,
}

/// The longest time of one wait. Apple documents waking by the same address, which differs between processes: should a
/// system compare it, this is the time until the caller looks.
const MAX_WAIT: Duration = Duration::from_millis(100);

impl AddressCalls {
    /// Returns the functions if this system has them.
    fn find() -> Option<AddressCalls> {
        static FOUND: OnceLock<Option<AddressCalls>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let wait = symbol(c"os_sync_wait_on_address_with_timeout")?;
            let wake = symbol(c"os_sync_wake_by_address_all")?;
            // SAFETY: the function of this name has these parameters (os/os_sync_wait_on_address.h).
            let wait = unsafe { std::mem::transmute::<*mut c_void, WaitOnAddress>(wait) };
            // SAFETY: as above.
            let wake = unsafe { std::mem::transmute::<*mut c_void, WakeByAddress>(wake) };
            Some(AddressCalls { wait, wake })
        })
    }
}

/// Returns the address of a function of the system; `None` if it has none of that name.
fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in zero and lives through the call.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if address.is_null() { None } else { Some(address) }
}

/// Waits while `word` is `expected`, until woken or for `timeout`; may return early.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let nanos = timeout.min(MAX_WAIT).as_nanos() as u64;
    let Some(calls) = AddressCalls::find().filter(|_| nanos > 0) else {
        return portable::wait(word, expected, timeout);
    };
    let flags = libc::OS_SYNC_WAIT_ON_ADDRESS_SHARED;
    let clock = libc::OS_CLOCK_MACH_ABSOLUTE_TIME;
    let address = word.as_ptr().cast();
    // SAFETY: the word is borrowed, aligned, and as long as the call is told; any answer is fine.
    let result = unsafe { (calls.wait)(address, expected.into(), size_of::<u32>(), flags, clock, nanos) };
    if result < 0 {
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::ETIMEDOUT | libc::EINTR) => (),
            // Nothing was waited for, and the caller calls again at once.
            _ => portable::wait(word, expected, timeout),
        }
    }
}

/// Wakes all threads that wait for `word`, in any process.
pub fn wake(word: &AtomicU32) {
    if let Some(calls) = AddressCalls::find() {
        let flags = libc::OS_SYNC_WAKE_BY_ADDRESS_SHARED;
        // SAFETY: the word is borrowed, and as long as the call is told; it is fine if no thread is woken.
        unsafe { (calls.wake)(word.as_ptr().cast(), size_of::<u32>(), flags) };
    }
}
