//! What differs between operating systems: the fence around their calls. No other module of Arrowwood's crates names a
//! call, a flag or an error number of one system.
//!
//! | task | here |
//! |---|---|
//! | tell files apart, and find changes | [`FileInfo`], [`file_identity`], [`modified_time`], [`changed_time`], [`is_removed`] |
//! | read and write at an offset | [`read_exact_at`], [`write_all_at`] |
//! | keep others out of a file | [`private`], [`create_private_dir`], [`is_writable_by_others`] |
//! | disks | [`CAN_EXCHANGE`], [`CAN_LOCK_DIRECTORIES`], [`allocated_bytes`], [`remote_file_system`], [`create_unnamed`], [`MountInfo`] |
//! | names as bytes | [`path_from_bytes`] |
//! | errors | [`is_bad_address`], [`is_process_out_of_files`], [`is_system_out_of_files`], [`interrupted`], [`errno`] |
//! | memory | [`free_memory`], [`memory_limit`], [`total_memory`], [`anonymous_memory`], [`data_size`] |
//! | this process | [`fork_count`], [`is_main_thread`], [`open_files_limit`], [`raise_open_files_limit`], [`current_program`], [`is_hangup_ignored`] |
//! | other processes | [`separate_process_group`], [`was_aborted`], [`was_killed`], [`offer_to_be_killed`] |
//! | the machine | [`host_name`], [`boot_id_text`], [`place_of`] |
//!
//! # Inside
//! The crate itself also maps, grows and advises memory (`map_file`, `map_again`, `move_memory`, `lend_pages`, …),
//! handles faults (`install_fault_handler`), waits for words (`wait`, `wait_for_any`) and names (`NameWatcher`), writes
//! and syncs blocks (`write_synced`, `order_writes`, `allocate`, `release`), finds holes, and resolves names from an open directory
//! (`RelativePath`, `DirectoryHandle`).
//!
//! | folder | what it holds |
//! |---|---|
//! | `unix` | what Linux and Apple's systems share |
//! | `linux` | what only Linux has |
//! | `apple` | the same functions as `linux` on macOS: its own, and some of `portable` |
//! | `windows` | the same functions as `unix` and `linux` on Windows: its own, and some of `portable` |
//! | `portable` | the same functions as `linux`, without calls of one system |
//!
//! With `--cfg arrowwood_portable`, Linux uses the functions of `portable` instead of its own where the system would be
//! asked to do something, so that the ways of other systems are tested (`make test-portable`).

#[cfg(target_os = "macos")]
mod apple;
mod facts;
#[cfg(target_os = "linux")]
mod linux;
// Only some of them are used on macOS and Windows.
#[cfg_attr(any(target_os = "macos", windows), allow(dead_code, unused_imports))]
#[cfg(any(not(target_os = "linux"), arrowwood_portable))]
mod portable;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

#[cfg(target_os = "macos")]
use self::apple as calls;
#[cfg(target_os = "macos")]
use self::apple as system;
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
use self::family::faults;
#[cfg(all(target_os = "linux", not(arrowwood_portable)))]
use self::linux as calls;
#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(all(not(any(target_os = "macos", windows)), any(not(target_os = "linux"), arrowwood_portable)))]
use self::portable as calls;
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
use self::portable as faults;
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
use self::portable as system;
#[cfg(unix)]
use self::unix as family;
#[cfg(windows)]
use self::windows as calls;
#[cfg(windows)]
use self::windows as family;
#[cfg(windows)]
use self::windows as system;
pub(crate) use facts::FaultHandler;
pub use facts::MountInfo;

pub use family::descriptor::file_from_descriptor;
pub use family::errors::{errno, interrupted, is_bad_address, is_process_out_of_files, is_system_out_of_files};
pub(crate) use family::errors::{is_no_link, no_space, out_of_memory, too_large, too_many_links};
pub use family::files::{
    FileInfo, allocated_bytes, changed_time, create_private_dir, file_identity, is_character_device, is_pipe,
    is_removed, is_writable_by_others, modified_time, open_stderr, path_from_bytes, private, read_exact_at,
    write_all_at,
};
pub(crate) use family::files::{open_without_waiting, permissions_of, take_over, take_over_directory};
pub(crate) use family::fork::DirectoryHandle;
pub use family::fork::{CAN_LOCK_DIRECTORIES, fork_count};
pub(crate) use family::memory::{
    DEFAULT_PAGE_SIZE, commit_memory, flush_pages, granularity, map_file, map_memory, map_nothing, page_size,
    physical_memory, reserve_memory, resident_pages, trim, unmap,
};
pub(crate) use family::names::RelativePath;
pub(crate) use family::process::file_size_limit;
pub use family::process::{
    host_name, ignore_file_size_signal, open_files_limit, separate_process_group, was_aborted, was_killed,
};

pub use calls::CAN_EXCHANGE;
pub use system::{
    anonymous_memory, boot_id_text, current_program, data_size, free_memory, is_hangup_ignored, is_main_thread,
    memory_limit, offer_to_be_killed, raise_open_files_limit, remote_file_system, total_memory,
};
pub(crate) use system::{
    free_space, is_on_overlay, max_mappings, millis, mount_id, mount_info, order_writes, sync_data,
};

pub(crate) use calls::{
    MAX_AWAITED, NameWatcher, allocate, avoid_huge_pages, can_name_unnamed, create_unnamed_in, lend_pages, map_again,
    move_memory, name_unnamed, next_data, next_hole, path_of, populate_pages, prefer_huge_pages, prefetch_pages,
    release, wait, wait_for_any, wake, write_synced,
};
pub(crate) use faults::{
    HANDLES_FAULTS, install_fault_handler, is_fault_handler_installed, map_empty_file_over, map_zeros_over,
};

/// Creates a file in `folder` that has no name, and is removed when it is closed. Only its owner could read it. Returns
/// `None` if the file system has no such files.
///
/// # Errors
/// Errors of the system.
pub fn create_unnamed(folder: &Path) -> io::Result<Option<File>> {
    create_unnamed_in(&RelativePath::new(folder), family::files::PRIVATE_FILE)
}

/// Returns text that identifies a file or directory across machines, until this one is started again.
///
/// # Errors
/// Errors of the system, such as `NotFound`.
pub fn place_of(path: &Path) -> io::Result<String> {
    static BOOT_ID: OnceLock<Option<String>> = OnceLock::new();
    let boot_id = match BOOT_ID.get() {
        Some(known) => known,
        None => {
            let boot_id = boot_id_text()?;
            BOOT_ID.get_or_init(|| boot_id)
        }
    };
    let (device, inode) = file_identity(&FileInfo::from_path(path)?);
    Ok(match boot_id {
        Some(boot_id) => format!("{boot_id}:{device}:{inode}"),
        None => format!(":{device}:{inode}"),
    })
}
