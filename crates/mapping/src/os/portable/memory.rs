//! Mapped memory.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use crate::os::facts::FaultHandler;

/// True if this system tells a process of pages that can't be touched.
pub const HANDLES_FAULTS: bool = false;

/// Does nothing, as faults can't be handled.
pub fn install_fault_handler(_functions: FaultHandler) {}

/// Returns false, as faults can't be handled.
pub fn is_fault_handler_installed() -> bool {
    false
}

/// Returns false, as faults can't be handled.
///
/// # Safety
/// None is needed.
pub unsafe fn map_zeros_over(_start: usize, _len: usize) -> bool {
    false
}

/// Does nothing, as faults can't be handled.
///
/// # Safety
/// None is needed.
pub unsafe fn map_empty_file_over(_start: usize, _len: usize) {}

/// Fails, so that the caller maps other memory and copies.
///
/// # Safety
/// None is needed.
pub unsafe fn move_memory(_start: NonNull<u8>, _len: usize, _new_len: usize) -> io::Result<NonNull<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails, so that the caller leaves the parts where they are.
///
/// # Safety
/// None is needed.
pub unsafe fn map_again(_from: NonNull<u8>, _len: usize, _target: NonNull<u8>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing.
pub fn prefer_huge_pages(_start: NonNull<u8>, _len: usize) {}

/// Does nothing.
pub fn avoid_huge_pages(_start: NonNull<u8>, _len: usize) {}

/// Does nothing.
///
/// # Safety
/// None is needed.
pub unsafe fn lend_pages(_start: NonNull<u8>, _len: usize) {}

/// Does nothing.
pub fn prefetch_pages(_start: *const u8, _len: usize) {}

/// Returns true, as pages are made when they are touched first.
pub fn populate_pages(_start: NonNull<u8>, _len: usize) -> bool {
    true
}
