//! Mapped memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};

use super::errors::check;
use crate::mode::Mode;

/// The size of a page, if the system doesn't tell.
pub(crate) const DEFAULT_PAGE_SIZE: usize = 4096;

/// What [`granularity`] returns in tests: that of Windows.
#[cfg(arrowwood_portable)]
const GRANULARITY: usize = 64 << 10;

/// Memory that is read and written.
const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
/// Memory of no file, for which no swap is reserved.
const ANONYMOUS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
/// The descriptor of no file.
const NO_FILE: i32 = -1;

/// Maps the first `len` bytes of `file`, which must be more than none (mmap(2)). Returns the first address.
pub(crate) fn map_file(file: &File, len: usize, mode: Mode) -> io::Result<NonNull<u8>> {
    let (protection, flags) = match mode {
        Mode::Read => (libc::PROT_READ, libc::MAP_SHARED),
        Mode::ReadWrite => (BOTH, libc::MAP_SHARED),
        // Without reserving swap, as a private mapping larger than memory is fine if few pages are written.
        Mode::CopyOnWrite => (BOTH, libc::MAP_PRIVATE | libc::MAP_NORESERVE),
    };
    map(len, protection, flags, file.as_raw_fd())
}

/// Maps `len` zeroed bytes, more than none, which take memory when they are touched. Returns the first address.
pub(crate) fn map_memory(len: usize) -> io::Result<NonNull<u8>> {
    map(len, BOTH, ANONYMOUS, NO_FILE)
}

/// Takes addresses for `len` bytes, more than none, of zeroed memory. Returns the first.
#[inline]
pub(crate) fn reserve_memory(len: usize) -> io::Result<NonNull<u8>> {
    map_memory(len)
}

/// Returns the number of reserved bytes that can be touched: all of them, which take memory when they are.
///
/// # Safety
/// None is needed.
#[inline]
pub(crate) unsafe fn commit_memory(_start: NonNull<u8>, reserved: usize, _len: usize) -> io::Result<usize> {
    Ok(reserved)
}

/// Gives back the first `len` bytes of reserved memory, whole pages.
///
/// # Safety
/// As for [`unmap`].
#[inline]
pub(crate) unsafe fn trim(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { unmap(start, len) };
}

/// Takes `len` addresses, more than none, which can't be touched until something is mapped there. Returns the first.
pub(crate) fn map_nothing(len: usize) -> io::Result<NonNull<u8>> {
    map(len, libc::PROT_NONE, ANONYMOUS, NO_FILE)
}

#[cfg(not(arrowwood_portable))]
fn map(len: usize, protection: i32, flags: i32, fd: i32) -> io::Result<NonNull<u8>> {
    // SAFETY: a null hint lets the kernel choose an unused range, so no existing object is affected.
    unsafe { map_at(null_mut(), len, protection, flags, fd) }
}

/// Chooses addresses as a system with a larger granularity does.
#[cfg(arrowwood_portable)]
fn map(len: usize, protection: i32, flags: i32, fd: i32) -> io::Result<NonNull<u8>> {
    let wide = len.checked_add(GRANULARITY).ok_or_else(super::errors::out_of_memory)?;
    // SAFETY: a null hint lets the kernel choose an unused range, so no existing object is affected.
    let taken = unsafe { map_at(null_mut(), wide, libc::PROT_NONE, ANONYMOUS, NO_FILE) }?;
    let lead = taken.addr().get().next_multiple_of(GRANULARITY) - taken.addr().get();
    // SAFETY: `lead < GRANULARITY`, so `len` bytes from there on are inside of what was just taken.
    let start = unsafe { taken.add(lead) };
    let used = len.next_multiple_of(page_size());
    if lead > 0 {
        // SAFETY: whole pages of what was just taken, and no other code knows of.
        unsafe { unmap(taken, lead) };
    }
    if lead + used < wide {
        // SAFETY: inside of what was taken, as it is less than `wide`.
        let rest = unsafe { taken.add(lead + used) };
        // SAFETY: as above.
        unsafe { unmap(rest, wide - lead - used) };
    }
    // If this fails, it may have unmapped the addresses, and another thread may have got them: they are not unmapped
    // again.
    // SAFETY: replaces addresses that were just taken, and no other code knows of.
    unsafe { map_at(start.as_ptr().cast(), len, protection, flags | libc::MAP_FIXED, fd) }
}

/// Maps `len` bytes of a file from its first one on, or of memory (mmap(2)). `place` is the first address, or null for
/// unused ones. Returns the first address.
///
/// # Safety
/// With `MAP_FIXED`, `len` bytes from `place` on must be whole pages that are mapped and the caller's own: they are
/// replaced.
unsafe fn map_at(
    place: *mut libc::c_void,
    len: usize,
    protection: i32,
    flags: i32,
    fd: i32,
) -> io::Result<NonNull<u8>> {
    const OFFSET: libc::off_t = 0;
    #[cfg(arrowwood_portable)]
    check_granularity(place.addr(), OFFSET as usize);
    // SAFETY: the caller's promise.
    let base = unsafe { libc::mmap(place, len, protection, flags, fd, OFFSET) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned the null address"))
}

/// Maps `len` bytes of a file that is open for both over mapped pages; they need not be in the file. Returns false if the system refuses.
///
/// # Safety
/// `len` bytes from `start` on must be whole pages of a mapping of the caller's own, which stays mapped meanwhile.
#[cfg(any(target_os = "macos", arrowwood_portable))]
pub(in crate::os) unsafe fn map_file_over(file: &File, start: usize, len: usize) -> bool {
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: the caller's promise.
    unsafe { map_at(start as *mut libc::c_void, len, BOTH, flags, file.as_raw_fd()) }.is_ok()
}

/// Asserts that a mapping may begin at an address, which is 0 for any, and at an offset in its file.
#[cfg(arrowwood_portable)]
pub(in crate::os) fn check_granularity(address: usize, offset: usize) {
    let is_multiple = address.is_multiple_of(GRANULARITY) && offset.is_multiple_of(GRANULARITY);
    assert!(is_multiple, "mapping byte {offset:#x} of a file at {address:#x}: expected multiples of {GRANULARITY:#x}");
}

/// Unmaps `len` bytes from the start of a page on (munmap(2)).
///
/// # Safety
/// They must be mapped, the caller's own, and not be used any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(start.as_ptr().cast(), len) };
}

/// Stores for each page of `len` bytes, from the start of a page on, whether it is in memory: in the lowest bit of a
/// byte of `flags` (mincore(2)). Fails if something is not mapped.
pub(crate) fn resident_pages(start: NonNull<u8>, len: usize, flags: &mut [u8]) -> io::Result<()> {
    assert!(flags.len() >= len.div_ceil(page_size()), "{} flags for {len} bytes", flags.len());
    // SAFETY: reads no mapped byte, and writes one of `flags` for each page, asserted above.
    check(unsafe { libc::mincore(start.as_ptr().cast(), len, flags.as_mut_ptr().cast()) })
}

/// Writes changed pages of a mapped file back to it, and waits for the disk (msync(2)). The bytes are `len`, from the
/// start of a page on.
pub(crate) fn flush_pages(start: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: changes no byte in memory; fails if something is not mapped.
    check(unsafe { libc::msync(start.as_ptr().cast(), len, libc::MS_SYNC) })
}

/// Allows the system to reclaim memory of no file, from the start of a page on; its contents may be lost until they are
/// written again. A hint.
///
/// # Safety
/// The bytes must be the caller's own, and no other code access them.
#[cfg(any(target_os = "macos", not(arrowwood_portable)))]
pub unsafe fn lend_pages(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_FREE) };
}

/// Asks the system to load the pages of mapped bytes and none around them, without waiting for them. A hint.
#[cfg(any(target_os = "macos", not(arrowwood_portable)))]
pub fn prefetch_pages(start: *const u8, len: usize) {
    let before = start.addr() % page_size();
    let page = start.wrapping_sub(before).cast_mut();
    // SAFETY: this advice changes no byte, whatever is there; if nothing is mapped, it is refused.
    unsafe { libc::madvise(page.cast(), before + len, libc::MADV_WILLNEED) };
}

/// Returns the size of the machine's memory in bytes; 0 if the system doesn't tell.
pub(crate) fn physical_memory() -> usize {
    // SAFETY: sysconf reads a constant of the system.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    usize::try_from(pages).map_or(0, |pages| pages.saturating_mul(page_size()))
}

/// Returns the size of a page in bytes.
pub(crate) fn page_size() -> usize {
    // SAFETY: sysconf reads a constant of the system.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(DEFAULT_PAGE_SIZE)
}

/// Returns the number of bytes at multiples of which mappings begin, in memory and in a file: a page or more.
pub(crate) fn granularity() -> usize {
    #[cfg(arrowwood_portable)]
    return GRANULARITY;
    #[cfg(not(arrowwood_portable))]
    page_size()
}
