//! The same functions as `linux` has, without calls of one system.

/// Notes that a function was called; see [`note`](called::note). Functions that nothing can call note nothing.
#[cfg(arrowwood_portable)]
macro_rules! note {
    ($name:literal) => {{
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| crate::os::portable::called::note($name));
    }};
}
#[cfg(not(arrowwood_portable))]
macro_rules! note {
    ($name:literal) => {};
}

#[cfg(arrowwood_portable)]
mod called;
#[cfg(not(target_os = "linux"))]
mod facts;
mod files;
mod memory;
mod rename;
mod wait;
mod watch;

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub(crate) use crate::os::unix::files::{creation, order_writes, sync_all, sync_data};
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub use crate::os::unix::process::raise_open_files_limit;
#[cfg(not(target_os = "linux"))]
pub use facts::{
    HANDLES_FAULTS, anonymous_memory, boot_id_text, current_program, data_size, free_memory, free_space,
    install_fault_handler, is_fault_handler_installed, is_hangup_ignored, is_main_thread, is_on_overlay,
    map_empty_file_over, map_zeros_over, max_mappings, memory_limit, millis, mount_id, mount_info, offer_to_be_killed,
    remote_file_system, total_memory,
};
pub use files::{
    allocate, can_name_unnamed, create_unnamed_in, name_unnamed, next_data, next_hole, path_of, release, write_synced,
};
pub use memory::{
    avoid_huge_pages, lend_pages, map_again, move_memory, populate_pages, prefer_huge_pages, prefetch_pages,
};
#[cfg(any(target_os = "macos", arrowwood_portable))]
pub use memory::{map_empty_file, prepare_empty_file};
pub use rename::{CAN_EXCHANGE, exchange, rename_noreplace};
pub use wait::{MAX_AWAITED, wait, wait_for_any, wake};
pub use watch::PollingNameWatcher as NameWatcher;
