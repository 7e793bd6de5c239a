//! The same functions as `linux` has, without calls of one system.

mod files;
mod machine;
mod memory;
mod process;
mod rename;
mod wait;

pub use files::{
    allocate, can_name_unnamed, create_unnamed_in, free_space, is_on_overlay, mount_id, mount_info, name_unnamed,
    next_data, next_hole, path_of, release, remote_file_system,
};
pub use machine::{boot_id_text, free_memory, max_mappings, memory_limit, total_memory};
pub use memory::{
    HANDLES_FAULTS, avoid_huge_pages, install_fault_handler, is_fault_handler_installed, lend_pages, map_again,
    map_empty_file_over, map_zeros_over, move_memory, populate_pages, prefer_huge_pages, prefetch_pages,
};
pub use process::{
    anonymous_memory, current_program, data_size, is_hangup_ignored, is_main_thread, millis, offer_to_be_killed,
};
pub use rename::{exchange, rename_noreplace};
pub use wait::{MAX_AWAITED, PollingNameWatcher as NameWatcher, wait, wait_for_any, wake};

pub use crate::os::unix::files::write_and_sync as write_synced;
