//! Tells faults from other signals.
#![allow(unsafe_code)]

use libc::{c_int, siginfo_t};

/// Returns the address of the thread's error number.
pub fn errno_location() -> *mut c_int {
    // SAFETY: takes no argument.
    unsafe { libc::__errno_location() }
}

/// Returns true if the signal is of a page of a mapped file that can't be touched.
pub fn is_lost_page(description: &siginfo_t) -> bool {
    description.si_code == libc::BUS_ADRERR
}

/// Returns true if a process has sent the signal.
pub fn was_raised(description: &siginfo_t) -> bool {
    description.si_code <= 0
}

/// Returns true if a thread of this process has sent the signal to itself, as a handler does to raise a fault again.
pub fn was_raised_again(description: &siginfo_t) -> bool {
    description.si_code == libc::SI_TKILL
}
