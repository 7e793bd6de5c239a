//! What only Apple's systems have. Other functions are taken from `portable`: nobody has written a better one, or the
//! system has none.
//!
//! Written from Apple's documentation and headers, compiled and linked, but not run yet; see `docs/porting.md`.

mod files;
mod machine;
mod mounts;
mod names;
mod process;
mod signals;
mod wait;
mod watch;

pub use machine::{boot_id_text, total_memory};
pub use mounts::{free_space, remote_file_system};
pub use process::{anonymous_memory, is_hangup_ignored, is_main_thread, millis, raise_open_files_limit};
pub use signals::{errno_location, is_lost_page, was_raised, was_raised_again};

pub use super::portable::{
    current_program, data_size, free_memory, is_on_overlay, max_mappings, memory_limit, mount_id, mount_info,
    offer_to_be_killed,
};

pub use super::unix::files::creation;
pub use super::unix::memory::{lend_pages, prefetch_pages};
pub use files::{order_writes, release, sync_all, sync_data};
pub use names::{CAN_EXCHANGE, exchange, path_of, rename_noreplace};
pub use wait::{wait, wake};
pub use watch::KernelNameWatcher as NameWatcher;

pub use super::portable::{
    MAX_AWAITED, allocate, avoid_huge_pages, can_name_unnamed, create_unnamed_in, map_again, map_empty_file,
    move_memory, name_unnamed, next_data, next_hole, populate_pages, prefer_huge_pages, prepare_empty_file,
    wait_for_any, write_synced,
};
