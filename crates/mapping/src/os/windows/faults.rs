//! Handles exceptions of pages of a mapped file that can't be touched.
//!
//! A view can't have other pages in its middle, so a view with a lost page is replaced whole: it is unmapped, and its
//! addresses are allocated again. If another thread takes them in between, the process ends.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use windows_sys::Win32::Foundation::{EXCEPTION_ACCESS_VIOLATION, EXCEPTION_IN_PAGE_ERROR};
use windows_sys::Win32::System::Diagnostics::Debug::{
    AddVectoredExceptionHandler, EXCEPTION_CONTINUE_EXECUTION, EXCEPTION_CONTINUE_SEARCH, EXCEPTION_POINTERS,
};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_MAPPED, MEM_RESERVE, MEMORY_MAPPED_VIEW_ADDRESS, PAGE_NOACCESS, PAGE_READWRITE,
    UnmapViewOfFile, VirtualAlloc, VirtualFree,
};

use super::memory::{granularity, query};
use crate::os::facts::FaultHandler;

/// True if this system tells a process of pages that can't be touched.
pub const HANDLES_FAULTS: bool = true;

/// The functions that decide about faults, set before the handler is installed.
static FUNCTIONS: OnceLock<FaultHandler> = OnceLock::new();
/// True once the handler is installed.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// Held while pages are replaced. A thread that holds it touches none.
static IS_REPLACING: AtomicBool = AtomicBool::new(false);

/// The message with which a process ends whose view could not be replaced.
const LOST: &[u8] = b"arrowwood: a page of a mapped file can't be read, and another thread has taken its address\n";
/// The number of the handler that is called first.
const FIRST: u32 = 1;
/// The place of the address in the description of these exceptions.
const ADDRESS: usize = 1;

/// Returns true if [`install_fault_handler`] has succeeded.
pub fn is_fault_handler_installed() -> bool {
    IS_INSTALLED.load(Ordering::Acquire)
}

/// Installs a handler of faults. If the system refuses the resources for it, none is installed. Must not be called by
/// two threads at once.
pub fn install_fault_handler(functions: FaultHandler) {
    FUNCTIONS.get_or_init(|| functions);
    // SAFETY: the handler lives as long as the process, and touches nothing of the thread that it interrupts.
    let handler = unsafe { AddVectoredExceptionHandler(FIRST, Some(on_exception)) };
    IS_INSTALLED.store(!handler.is_null(), Ordering::Release);
}

unsafe extern "system" fn on_exception(info: *mut EXCEPTION_POINTERS) -> i32 {
    // SAFETY: the system passes a pointer to what it tells of the exception, which lives as long as the handler runs.
    let record = unsafe { (*info).ExceptionRecord };
    // SAFETY: as above.
    let record = unsafe { &*record };
    // A page that was lost, and is not accessible since, raises the first; so does wine for any lost page.
    let is_fault = matches!(record.ExceptionCode, EXCEPTION_ACCESS_VIOLATION | EXCEPTION_IN_PAGE_ERROR);
    let is_handled = is_fault
        && record.NumberParameters as usize > ADDRESS
        && FUNCTIONS.get().is_some_and(|functions| (functions.replace_pages)(record.ExceptionInformation[ADDRESS]));
    if is_handled { EXCEPTION_CONTINUE_EXECUTION } else { EXCEPTION_CONTINUE_SEARCH }
}

/// Keeps other threads from replacing pages until it is dropped.
struct Turn;

impl Turn {
    fn take() -> Turn {
        while IS_REPLACING.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        IS_REPLACING.store(false, Ordering::Release);
    }
}

/// Puts zeros of no file in place of the whole view that has the page at `start` and ends `len` bytes after it. Where the
/// system has no memory for so many, only those next to `start` can be touched, and others fault in turn. Returns false if
/// the page is not one that was lost, or there is no memory. May be called by the handler.
///
/// # Safety
/// The pages must be of a mapping of the caller's own, which stays mapped meanwhile.
pub unsafe fn map_zeros_over(start: usize, len: usize) -> bool {
    let _turn = Turn::take();
    let Ok(found) = query(start) else { return false };
    if found.Type == MEM_MAPPED {
        // SAFETY: the caller's promise.
        unsafe { replace_by_nothing(found.AllocationBase, start + len) };
    }
    // If `start` is no place of a fault, the one that faults can't be found.
    let is_new = found.State != MEM_COMMIT || found.Protect != PAGE_READWRITE;
    // SAFETY: the caller's promise.
    let all = unsafe { commit(start, len) };
    // SAFETY: as above.
    all || is_new && unsafe { commit(start, len.min(granularity())) }
}

/// Makes the whole view that has the page at `start` inaccessible, so that accesses fault. Its other pages were replaced,
/// too, and must not be taken for the file's.
///
/// # Safety
/// As for [`map_zeros_over`].
pub unsafe fn map_empty_file_over(start: usize, len: usize) {
    let _turn = Turn::take();
    let Ok(found) = query(start) else { return };
    let base = found.AllocationBase;
    if found.Type == MEM_MAPPED {
        // SAFETY: the caller's promise.
        return unsafe { replace_by_nothing(base, start + len) };
    }
    // SAFETY: the caller's promise: the pages are those that have replaced the view. If this fails, they stay zeros.
    unsafe { VirtualFree(base, start + len - base as usize, MEM_DECOMMIT) };
}

/// Reserves the addresses of a view in its place, from its base up to `end`. Accesses fault.
///
/// # Safety
/// The view must be of the caller's own.
unsafe fn replace_by_nothing(base: *mut c_void, end: usize) {
    // SAFETY: the caller's promise.
    unsafe { UnmapViewOfFile(MEMORY_MAPPED_VIEW_ADDRESS { Value: base }) };
    // SAFETY: the addresses were the view's. Nothing is charged for addresses alone.
    let reserved = unsafe { VirtualAlloc(base, end - base as usize, MEM_RESERVE, PAGE_NOACCESS) };
    if reserved != base {
        // The error of writing has no remedy.
        let _ = std::io::stderr().write_all(LOST);
        std::process::abort();
    }
}

/// Makes reserved addresses zeros that can be touched. Returns false if the system has no memory for them.
///
/// # Safety
/// The addresses must be the caller's own, and reserved.
unsafe fn commit(start: usize, len: usize) -> bool {
    // SAFETY: the caller's promise. What can be touched already keeps its bytes.
    let zeros = unsafe { VirtualAlloc(start as *const c_void, len, MEM_COMMIT, PAGE_READWRITE) };
    !zeros.is_null()
}
