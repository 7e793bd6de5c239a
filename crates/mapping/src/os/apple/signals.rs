//! Tells faults from other signals.
#![allow(unsafe_code)]

use libc::{c_int, siginfo_t};

/// Returns the address of the thread's error number.
pub fn errno_location() -> *mut c_int {
    // SAFETY: takes no argument.
    unsafe { libc::__error() }
}

/// Returns true if the signal may be of a page of a mapped file that can't be touched. Its address decides: processors
/// from Apple tell the same code for all.
pub fn is_lost_page(_description: &siginfo_t) -> bool {
    true
}

/// Returns false, as signals from processes have the code of a fault, too.
pub fn was_raised(_description: &siginfo_t) -> bool {
    false
}

/// As [`was_raised`].
pub fn was_raised_again(_description: &siginfo_t) -> bool {
    false
}
