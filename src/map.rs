//! Files and memory as bytes: re-exports of the crate `arrowwood-mapping`, in `crates/mapping`.

#[cfg(feature = "write")]
pub use arrowwood_mapping::UnfinishedFile;
pub use arrowwood_mapping::{
    FsOp, FileSystem, FsObserver, ignore_file_size_signal, limit_mappings, simulate_boot, simulate_mount,
};
pub(crate) use arrowwood_mapping::{
    AwaitedWord, ByteRun, ByteRunEnd, ChangeCheck, FileState, DirectoryLock, MountInfo, StagingFile, StagingDirectory, SharedFile, UnmappedFile,
    WaitSet, AllowedChanges, adopt_fault, boot_id, check_pages, copy_nontemporal, crc32c, exists, fork_count, free_memory, hidden_files,
    is_directory, is_guarded, is_moved_directory, guard_on_thread, prefetch_line, mapped_file_count, mappings_are_scarce, metadata_at, prefetch,
    read_boot_id, remote_file_system, remove_leftovers, store_fence, with_change_check,
};
pub use arrowwood_mapping::{
    Element, GrowableBuffer, Mapping, Mode, ReserveAllocator, SharedWords, View, guard, can_allocate, is_memory_short,
    disable_sigbus_handler,
};
