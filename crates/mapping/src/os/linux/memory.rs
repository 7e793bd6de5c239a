//! Memory that moves and is shared by mappings, and advice about it.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::os::unix::memory::page_size;

/// Changes the size of mapped memory, which may move it (mremap(2)). Returns the first address.
///
/// # Safety
/// `len` bytes from `start` on must be the whole mapping of memory of no file, the caller's own, and no other code have
/// addresses in it.
pub unsafe fn move_memory(start: NonNull<u8>, len: usize, new_len: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: the caller's promise.
    let moved = unsafe { libc::mremap(start.as_ptr().cast(), len, new_len, libc::MREMAP_MAYMOVE) };
    if moved == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(moved.cast()).ok_or_else(|| io::Error::other("mremap returned the null address"))
}

/// Maps `len` bytes of a shared mapping of a file, from the start of a page on, a second time, at `target` (mremap(2)).
///
/// # Safety
/// The bytes must be mapped. What is mapped at `target`, the start of a page, up to the end of the page of the last
/// byte, must be the caller's own, and not be used any more: it is replaced.
pub unsafe fn map_again(from: NonNull<u8>, len: usize, target: NonNull<u8>) -> io::Result<()> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: an old length of 0 asks for a further mapping of the same pages of a shared mapping (mremap(2)), which
    // stays unchanged. What it replaces is the caller's promise.
    let mapped = unsafe { libc::mremap(from.as_ptr().cast(), 0, len, flags, target.as_ptr()) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The address of a page of an empty file; 0 until it is mapped.
static EMPTY_FILE_PAGE: AtomicUsize = AtomicUsize::new(0);

/// True if the system doesn't map that page a second time: qemu refuses an old length of 0 (mremap(2)).
static IS_MAPPED_ONCE: AtomicBool = AtomicBool::new(false);

/// Maps a page of an empty file in memory, for [`map_empty_file`]. Returns false if the system refuses.
pub fn prepare_empty_file() -> bool {
    if EMPTY_FILE_PAGE.load(Ordering::Acquire) != 0 {
        return true;
    }
    // SAFETY: a null hint lets the kernel choose an unused range, so no existing object is affected.
    let mapped = unsafe { map_new_empty_file(null_mut(), page_size(), 0) };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: an old length of 0 asks for a further mapping of the same file, in an unused range.
    let again = unsafe { libc::mremap(mapped, 0, page_size(), libc::MREMAP_MAYMOVE) };
    if again == libc::MAP_FAILED {
        IS_MAPPED_ONCE.store(true, Ordering::Relaxed);
    } else {
        // SAFETY: mapped above, and no other code knows of it.
        unsafe { libc::munmap(again, page_size()) };
    }
    EMPTY_FILE_PAGE.store(mapped as usize, Ordering::Release);
    true
}

/// Maps a new empty file in memory, which nothing but the mapping keeps. Returns `MAP_FAILED` if the system refuses.
///
/// # Safety
/// As for mmap(2), with `more_flags`.
unsafe fn map_new_empty_file(start: *mut libc::c_void, len: usize, more_flags: libc::c_int) -> *mut libc::c_void {
    // SAFETY: the name is a string that ends in zero.
    let file = unsafe { libc::memfd_create(c"arrowwood".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return libc::MAP_FAILED;
    }
    let both = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller's promise.
    let mapped = unsafe { libc::mmap(start, len, both, libc::MAP_SHARED | more_flags, file, 0) };
    // SAFETY: opened above. The mapping keeps the file, so that code which closes all descriptors can't remove it.
    unsafe { libc::close(file) };
    mapped
}

/// Maps an empty file over mapped pages, so that accesses fault. Returns false if the system refuses.
///
/// # Safety
/// `len` bytes from `start` on must be whole pages of a mapping of the caller's own, which stays mapped meanwhile.
pub unsafe fn map_empty_file(start: usize, len: usize) -> bool {
    let empty = EMPTY_FILE_PAGE.load(Ordering::Acquire);
    let start = start as *mut libc::c_void;
    let mapped = if IS_MAPPED_ONCE.load(Ordering::Relaxed) {
        // Needs a free descriptor, which there may not be.
        // SAFETY: what it replaces is the caller's promise.
        unsafe { map_new_empty_file(start, len, libc::MAP_FIXED) }
    } else {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: as in `prepare_empty_file`, at a range that the caller has promised may be replaced.
        unsafe { libc::mremap(empty as *mut _, 0, len, flags, start) }
    };
    mapped != libc::MAP_FAILED
}

/// Asks for huge pages from the start of a page on. A hint.
pub fn prefer_huge_pages(start: NonNull<u8>, len: usize) {
    // SAFETY: changes no byte, whatever is there; if nothing is mapped, it is refused.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
}

/// Asks for no huge pages from the start of a page on. A hint.
pub fn avoid_huge_pages(start: NonNull<u8>, len: usize) {
    // SAFETY: as in `prefer_huge_pages`.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_NOHUGEPAGE) };
}

/// Makes the pages of mapped bytes, from the start of a page on, present and writable, so that stores there do not
/// fault. Returns false if a store would raise a signal. If the system has no such call, pages are made on first touch.
pub fn populate_pages(start: NonNull<u8>, len: usize) -> bool {
    // SAFETY: this advice changes no byte, whatever is there; if nothing is mapped, it is refused.
    let result = unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) };
    // Every other error says that the hint was not taken.
    let would_fault = [libc::EFAULT, libc::EHWPOISON, libc::EIO, libc::ENOSPC];
    result == 0 || !io::Error::last_os_error().raw_os_error().is_some_and(|e| would_fault.contains(&e))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// Systems that map the empty page a second time don't need the new file.
    #[test]
    fn pages_of_a_new_empty_file_can_not_be_read() {
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a null hint lets the kernel choose an unused range.
        let page = unsafe { libc::mmap(null_mut(), page_size(), libc::PROT_READ, anonymous, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        let (_reader, writer) = io::pipe().unwrap();
        // SAFETY: a range that can't be read is an error of write(2).
        let write = || unsafe { libc::write(writer.as_raw_fd(), page, 1) };
        assert_eq!(write(), 1);
        // SAFETY: mapped above, and no other code knows of it.
        assert_eq!(unsafe { map_new_empty_file(page, page_size(), libc::MAP_FIXED) }, page);
        assert_eq!((write(), io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EFAULT)));
        // SAFETY: as above.
        unsafe { libc::munmap(page, page_size()) };
    }
}
