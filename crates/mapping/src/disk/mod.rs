//! The disk of a writer: changes of files and names, the lock of a directory, and files that get their names when they
//! are complete.
//!
//! In reading order: [`file_system`] performs each change, and tells an observer of it; [`directory_lock`] has the
//! directory of a table for its one writer, which [`locked_directory`] finds again after it was renamed;
//! [`unfinished_file`] names what is incomplete.

mod directory_lock;
mod file_system;
mod locked_directory;
mod unfinished_file;

pub use directory_lock::{DirectoryLock, StagingDirectory, remove_leftovers};
pub use file_system::{FileSystem, FsObserver, FsOp, StagingFile, boot_id, read_boot_id};
pub(crate) use file_system::{inode, mounted};
#[cfg(feature = "internal")]
pub use file_system::{simulate_boot, simulate_mount};
pub use locked_directory::is_moved_directory;
pub use unfinished_file::{UnfinishedFile, hidden_files};
