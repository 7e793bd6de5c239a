//! Mapped memory.
#![allow(unsafe_code)]

#[cfg(any(target_os = "macos", arrowwood_portable))]
use std::fs::File;
use std::io;
use std::ptr::NonNull;
#[cfg(any(target_os = "macos", arrowwood_portable))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(any(target_os = "macos", arrowwood_portable))]
use crate::os::unix::files::private;
#[cfg(arrowwood_portable)]
use crate::os::unix::memory::check_granularity;
#[cfg(any(target_os = "macos", arrowwood_portable))]
use crate::os::unix::memory::map_file_over;

/// Fails, so that the caller maps other memory and copies.
///
/// # Safety
/// None is needed.
pub unsafe fn move_memory(_start: NonNull<u8>, _len: usize, _new_len: usize) -> io::Result<NonNull<u8>> {
    note!("move_memory");
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails, so that the caller leaves the parts where they are.
///
/// # Safety
/// None is needed.
pub unsafe fn map_again(_from: NonNull<u8>, _len: usize, _target: NonNull<u8>) -> io::Result<()> {
    note!("map_again");
    // Mappings begin at multiples of the granularity, so this is one of the offset.
    #[cfg(arrowwood_portable)]
    check_granularity(_target.addr().get(), _from.addr().get());
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing.
pub fn prefer_huge_pages(_start: NonNull<u8>, _len: usize) {
    note!("prefer_huge_pages");
}

/// Does nothing.
pub fn avoid_huge_pages(_start: NonNull<u8>, _len: usize) {
    note!("avoid_huge_pages");
}

/// Does nothing.
///
/// # Safety
/// None is needed.
pub unsafe fn lend_pages(_start: NonNull<u8>, _len: usize) {
    note!("lend_pages");
}

/// Does nothing.
pub fn prefetch_pages(_start: *const u8, _len: usize) {
    note!("prefetch_pages");
}

/// Returns true, as pages are made when they are touched first.
pub fn populate_pages(_start: NonNull<u8>, _len: usize) -> bool {
    note!("populate_pages");
    true
}

/// Returns true, as [`map_empty_file`] makes an empty file when it needs one.
#[cfg(any(target_os = "macos", arrowwood_portable))]
pub fn prepare_empty_file() -> bool {
    note!("prepare_empty_file");
    true
}

/// Maps an empty file over mapped pages, so that accesses fault. Returns false if the system refuses.
///
/// # Safety
/// `len` bytes from `start` on must be whole pages of a mapping of the caller's own, which stays mapped meanwhile.
#[cfg(any(target_os = "macos", arrowwood_portable))]
pub unsafe fn map_empty_file(start: usize, len: usize) -> bool {
    note!("map_empty_file");
    let Ok(file) = create_empty_file() else { return false };
    // SAFETY: the caller's promise.
    unsafe { map_file_over(&file, start, len) }
}

/// Creates an empty file that has no name any more. The mapping keeps it.
#[cfg(any(target_os = "macos", arrowwood_portable))]
fn create_empty_file() -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!(".arrowwood-{}-{number}.empty", std::process::id()));
    let file = private(File::options().read(true).write(true).create_new(true)).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(all(test, arrowwood_portable))]
mod tests {
    use super::*;
    use crate::os::{granularity, map_memory};

    #[test]
    #[should_panic(expected = "expected multiples of 0x10000")]
    fn files_are_mapped_at_multiples_of_the_granularity_only() {
        let start = map_memory(2 * granularity()).unwrap().addr().get() + 4096;
        // SAFETY: a page of what was just mapped, which stays so.
        unsafe { map_empty_file(start, 4096) };
    }
}
