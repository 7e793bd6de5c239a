//! Handles the signal of a page of a mapped file that can't be touched (SIGBUS).
#![allow(unsafe_code)]

use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

use crate::os::facts::FaultHandler;
use crate::os::{calls, system};

/// True if this system tells a process of pages that can't be touched.
pub const HANDLES_FAULTS: bool = true;

/// The functions that decide about faults, set before the handler is installed.
static FUNCTIONS: OnceLock<FaultHandler> = OnceLock::new();

/// True once the handler is installed.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

/// The previous handler of SIGBUS, set before ours is installed, and never freed.
static PREVIOUS_ACTION: AtomicPtr<sigaction> = AtomicPtr::new(null_mut());

/// Returns true if [`install_fault_handler`] has succeeded.
pub fn is_fault_handler_installed() -> bool {
    IS_INSTALLED.load(Ordering::Acquire)
}

/// Installs a handler of faults. If the system refuses the resources for it, none is installed. Must not be called by
/// two threads at once.
pub fn install_fault_handler(functions: FaultHandler) {
    if calls::prepare_empty_file() {
        FUNCTIONS.get_or_init(|| functions);
        IS_INSTALLED.store(set_handler(), Ordering::Release);
    }
}

/// Sets the handler. Returns false if the system refuses.
fn set_handler() -> bool {
    let before = Box::into_raw(Box::new(default_action()));
    // SAFETY: asks for the current action, and stores it in memory that no other code knows of yet.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), before) } != 0 {
        return false;
    }
    PREVIOUS_ACTION.store(before, Ordering::Release);
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_fault;
    let mut ours = default_action();
    ours.sa_sigaction = handler as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `ours` lives through the call, and `on_fault` does only what a handler may.
    unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, null_mut()) == 0 }
}

fn default_action() -> sigaction {
    // SAFETY: a structure of integers; zeros ask for the default action, no flags and no mask.
    unsafe { std::mem::zeroed() }
}

/// Maps zeros of no file over mapped pages. Returns false if the system refuses. May be called by the handler.
///
/// # Safety
/// `len` bytes from `start` on must be whole pages of a mapping of the caller's own, which stays mapped meanwhile.
pub unsafe fn map_zeros_over(start: usize, len: usize) -> bool {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let flags = flags | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the caller's promise.
    let zeros = unsafe { libc::mmap(start as *mut c_void, len, both, flags, -1, 0) };
    zeros != libc::MAP_FAILED
}

/// Maps an empty file over mapped pages, so that accesses fault.
///
/// # Safety
/// As for [`map_zeros_over`].
pub unsafe fn map_empty_file_over(start: usize, len: usize) {
    // SAFETY: the caller's promise.
    if !unsafe { calls::map_empty_file(start, len) } {
        // SAFETY: as above; no access is the next best.
        unsafe { libc::mprotect(start as *mut c_void, len, libc::PROT_NONE) };
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a pointer to the signal's description, which lives as long as the handler runs.
    let description = unsafe { &*info };
    let errno_location = system::errno_location();
    // SAFETY: errno is the thread's own. It must have the same value again when the handler returns.
    let errno = unsafe { errno_location.read() };
    // SAFETY: the description of a fault has an address, and of another signal other numbers at the same offset.
    let address = unsafe { description.si_addr() } as usize;
    if !handle(description, address) {
        pass_on(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { errno_location.write(errno) };
}

/// Handles the signal if it is a fault of ours. Returns false if it is not.
fn handle(description: &siginfo_t, address: usize) -> bool {
    let Some(functions) = FUNCTIONS.get() else { return false };
    if system::was_raised_again(description) {
        // A handler that ran first may raise the fault again for ours: the access is repeated then, and faults again.
        return (functions.is_guarded)();
    }
    system::is_lost_page(description) && (functions.replace_pages)(address)
}

/// Calls the previous handler, or takes the default action.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: `set_handler` has set it before the handler could run, and it is not written to any more.
    let before = unsafe { &*PREVIOUS_ACTION.load(Ordering::Acquire) };
    // SAFETY: see `on_fault`.
    let was_raised = system::was_raised(unsafe { &*info });
    match before.sa_sigaction {
        libc::SIG_IGN if was_raised => (),
        libc::SIG_DFL | libc::SIG_IGN => {
            let default = default_action();
            // SAFETY: `default` lives through the call. The access is repeated, and ends the process at its true
            // address.
            unsafe { libc::sigaction(signal, &raw const default, null_mut()) };
            if was_raised {
                // SAFETY: takes a number; it is delivered when the handler has returned.
                unsafe { libc::raise(signal) };
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with this flag the action is a function of three arguments (sigaction(2)).
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag it is a function of one.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
