//! What only Linux has.

#[cfg(not(arrowwood_portable))]
mod blocks;
#[cfg(not(target_env = "gnu"))]
mod creation;
mod machine;
#[cfg(not(arrowwood_portable))]
mod memory;
mod mounts;
#[cfg(not(arrowwood_portable))]
mod names;
mod process;
mod signals;
mod statx;
#[cfg(not(arrowwood_portable))]
mod wait;
#[cfg(not(arrowwood_portable))]
mod watch;

#[cfg(target_env = "gnu")]
pub use crate::os::unix::files::creation;
pub(crate) use crate::os::unix::files::{order_writes, sync_all, sync_data};
#[cfg(not(arrowwood_portable))]
pub use crate::os::unix::memory::{lend_pages, prefetch_pages};
pub use crate::os::unix::process::raise_open_files_limit;
#[cfg(not(arrowwood_portable))]
pub use blocks::{allocate, next_data, next_hole, release, write_synced};
#[cfg(not(target_env = "gnu"))]
pub use creation::creation;
pub use machine::{boot_id_text, free_memory, max_mappings, memory_limit, total_memory};
#[cfg(not(arrowwood_portable))]
pub use memory::{
    avoid_huge_pages, map_again, map_empty_file, move_memory, populate_pages, prefer_huge_pages, prepare_empty_file,
};
pub use mounts::{free_space, is_on_overlay, mount_id, mount_info, remote_file_system};
#[cfg(not(arrowwood_portable))]
pub use names::{CAN_EXCHANGE, can_name_unnamed, create_unnamed_in, exchange, name_unnamed, path_of, rename_noreplace};
pub use process::{
    anonymous_memory, current_program, data_size, is_hangup_ignored, is_main_thread, millis, offer_to_be_killed,
};
pub use signals::{errno_location, is_lost_page, was_raised, was_raised_again};
#[cfg(not(arrowwood_portable))]
pub use wait::{MAX_AWAITED, wait, wait_for_any, wake};
#[cfg(not(arrowwood_portable))]
pub use watch::NameWatcher;
