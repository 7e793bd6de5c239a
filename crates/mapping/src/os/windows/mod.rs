//! What Windows has of its own, as `unix` and `linux` have it. Other functions are taken from `portable`.
//!
//! Directories can't be locked, so tables are only read; see `docs/porting.md`.

pub mod descriptor;
pub mod errors;
pub mod faults;
pub mod files;
pub mod fork;
mod machine;
pub mod memory;
pub mod names;
pub mod process;

pub use files::{order_writes, sync_data};
pub use machine::{boot_id_text, free_memory, total_memory};

pub use super::portable::{
    CAN_EXCHANGE, MAX_AWAITED, NameWatcher, allocate, anonymous_memory, avoid_huge_pages, can_name_unnamed,
    create_unnamed_in, current_program, data_size, free_space, is_hangup_ignored, is_main_thread, is_on_overlay,
    lend_pages, map_again, max_mappings, memory_limit, millis, mount_id, mount_info, name_unnamed, next_data,
    next_hole, offer_to_be_killed, path_of, populate_pages, prefer_huge_pages, prefetch_pages, release,
    remote_file_system, wait, wait_for_any, wake, write_synced,
};
pub use memory::move_memory;
pub use process::raise_open_files_limit;
