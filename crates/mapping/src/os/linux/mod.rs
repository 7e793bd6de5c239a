//! What only Linux has.

mod blocks;
mod faults;
mod machine;
mod memory;
mod mounts;
mod names;
mod process;
mod wait;
mod watch;

pub use blocks::{allocate, next_data, next_hole, release, write_synced};
pub use faults::{
    HANDLES_FAULTS, install_fault_handler, is_fault_handler_installed, map_empty_file_over, map_zeros_over,
};
pub use machine::{boot_id_text, free_memory, max_mappings, memory_limit, total_memory};
pub use memory::{
    avoid_huge_pages, lend_pages, map_again, move_memory, populate_pages, prefer_huge_pages, prefetch_pages,
};
pub use mounts::{free_space, is_on_overlay, mount_id, mount_info, remote_file_system};
pub use names::{can_name_unnamed, create_unnamed_in, exchange, name_unnamed, path_of, rename_noreplace};
pub use process::{
    anonymous_memory, current_program, data_size, is_hangup_ignored, is_main_thread, millis, offer_to_be_killed,
};
pub use wait::{MAX_AWAITED, wait, wait_for_any, wake};
pub use watch::NameWatcher;
