//! Files and memory as bytes: re-exports of the crate `arrowwood-mapping`, in `crates/mapping`.

#[cfg(feature = "write")]
pub use arrowwood_mapping::UnfinishedFile;
pub use arrowwood_mapping::{
    Act, Medium, Witness, ignore_file_size_signal, limit_mappings, pretend_boot, pretend_mount,
};
pub(crate) use arrowwood_mapping::{
    AwaitedWord, ByteRun, ByteRunEnd, ChangeCheck, FileState, Lock, Mounted, PartFile, PartFolder, Store, UnmappedFile,
    WaitAny, Watch, adopt, boot_id, check_pages, copy_past_caches, crc32c, exists, forks, free_memory, hidden_files,
    is_directory, is_inside, is_moved, lend, load_soon, mapped_files, mappings_are_scarce, metadata_at, prefetch,
    read_boot_id, remote, remove_parts, settle, watched,
};
pub use arrowwood_mapping::{
    Element, GrowableBuffer, Mapping, Mode, ReserveAllocator, SharedWords, View, guard, has_memory, is_memory_short,
    leave_sigbus_alone,
};
