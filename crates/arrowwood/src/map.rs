//! Files and memory as bytes: re-exports of the crate `arrowwood-mapping`, in `crates/mapping`.

#[cfg(feature = "write")]
pub use arrowwood_mapping::UnfinishedFile;
pub(crate) use arrowwood_mapping::{
    AllowedChanges, AwaitedWord, ByteRun, ByteRunEnd, ChangeCheck, DirectoryLock, FileState, MountInfo, MutexExt,
    SharedFile, StagingDirectory, StagingFile, UnmappedFile, WaitSet, adopt_fault, boot_id, check_pages,
    copy_nontemporal, crc32c, exists, fork_count, free_memory, guard_on_thread, hidden_files, is_directory, is_guarded,
    is_moved_directory, mapped_file_count, mappings_are_scarce, metadata_at, os, prefetch, prefetch_line, read_boot_id,
    remote_file_system, remove_leftovers, store_fence, with_change_check,
};
pub use arrowwood_mapping::{
    Element, FileSystem, GrowableBuffer, Mapping, Mode, SharedWords, View, can_allocate, disable_sigbus_handler, guard,
    is_memory_short,
};
