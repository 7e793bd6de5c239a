//! What is known of files, memory, this process and the machine without asking the system.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use crate::os::facts::{FaultHandler, FileSystemSpace, MountInfo};

/// Returns a default without information.
pub fn mount_info(_file: &File) -> io::Result<MountInfo> {
    Ok(MountInfo::default())
}

/// Returns `None`, as mounts are not known.
pub fn mount_id(_file: &File) -> Option<u64> {
    None
}

/// Returns false, as there are no overlay file systems.
pub fn is_on_overlay(_file: &File, _device: u64) -> io::Result<bool> {
    Ok(false)
}

/// Returns unlimited space, as the space is not known.
pub fn free_space(_file: &File) -> io::Result<FileSystemSpace> {
    Ok(FileSystemSpace { available: u64::MAX, is_in_memory: false })
}

/// Returns `None`, as the kinds of file systems are not known.
pub fn remote_file_system(_folder: &Path) -> io::Result<Option<&'static str>> {
    Ok(None)
}

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

/// Returns `None`, as boots have no ids.
pub fn boot_id_text() -> io::Result<Option<String>> {
    Ok(None)
}

/// Returns the maximum, as mappings are not limited.
pub fn max_mappings() -> usize {
    usize::MAX
}

/// Returns `None`, as it is not known.
pub fn total_memory() -> Option<u64> {
    None
}

/// Returns `None`, as there are no control groups.
pub fn memory_limit() -> Option<u64> {
    None
}

/// Returns `None`, as it is not known.
pub fn free_memory() -> Option<u64> {
    None
}

/// Returns true, as threads are not told apart.
pub fn is_main_thread() -> bool {
    true
}

/// Returns milliseconds of a monotonic clock.
pub fn millis() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// Returns `None`, as it is not known.
pub fn anonymous_memory() -> Option<u64> {
    None
}

/// Returns `None`, as it is not known.
pub fn data_size() -> Option<u64> {
    None
}

/// Returns false, as it is not known.
pub fn is_hangup_ignored() -> bool {
    false
}

/// Returns the path of this program.
pub fn current_program() -> PathBuf {
    // Without a path, the name by which it was started.
    std::env::current_exe().unwrap_or_else(|_| std::env::args_os().next().map_or_else(PathBuf::new, PathBuf::from))
}

/// Does nothing.
pub fn offer_to_be_killed() {}
