//! Maps files into memory, and writes files that other processes have mapped.
//!
//! | task | use |
//! |---|---|
//! | read or write a file in place | [`Mapping`], and [`View`]: its bytes as numbers |
//! | survive a file that is truncated while it is mapped | [`guard`]; calls of this crate have it already |
//! | collect bytes that never move | [`GrowableBuffer`] |
//! | write a file that others map meanwhile | [`SharedFile`], [`SharedWords`], [`DirectoryLock`] |
//! | ask what is at a path, and learn of errors | [`exists`], [`is_file`], [`is_directory`], [`metadata_at`] |
//! | test the contents of the disk after a crash | [`FileSystem`], [`FsObserver`] |
//!
//! ```
//! use arrowwood_mapping::{ErrorKind, Mapping, Mode};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("numbers");
//! std::fs::write(&path, [1.5f64, 2.5].map(f64::to_le_bytes).as_flattened())?;
//!
//! let mapping = Mapping::open(&path, Mode::ReadWrite)?;
//! let numbers = mapping.view::<f64>(0, None)?;
//! assert_eq!(numbers.to_vec()?, [1.5, 2.5]);
//! numbers.set(1, 4.0)?; // in the file, and in every other mapping of it
//! assert_eq!(Mapping::open(&path, Mode::Read)?.view::<f64>(8, None)?.get(0)?, 4.0);
//!
//! std::fs::File::create(&path)?; // truncates it: reading on would end other programs by SIGBUS
//! assert_eq!(numbers.get(0).unwrap_err().kind(), ErrorKind::FileChanged);
//! # Ok(())
//! # }
//! ```
//! The crate was made for [`arrowwood`](https://docs.rs/arrowwood), which opens Apache Arrow data in place, and knows
//! nothing of Arrow. It needs a 64-bit address space; its promises about truncated files hold on Linux.
//!
//! # What a mapping promises
//! ```text
//! Mapping ── owns ──▶ address range + open file
//!    ▲ Arc
//! View<T> ── start, len ──▶ elements, read and written in place, aligned or not
//! ```
//! The address range stays mapped until the last [`Mapping`] handle is dropped, so a read may return a stale or torn
//! value while another process writes the file, but never unrelated memory. Touching a page past the end of a truncated
//! file raises SIGBUS (mmap(2)), which [`guard`] turns into an error.
//!
//! Read metadata of a file by [`Mapping::read_at`], which copies by pread(2) in about 0.5 µs: a first touch costs a
//! page fault of at least 5 µs and makes the kernel map a whole folio around it.
//!
//! # The signal
//! The first mapping of a file installs a handler for SIGBUS. Faults that are not ours go to the handler that was
//! installed before. After [`disable_sigbus_handler`], or with `ARROWWOOD_SIGBUS=off` in the environment, none is
//! installed.
//!
//! # Errors
//! An [`Error`] has an [`ErrorKind`] to match on, a message, the path, and the system's error number. Documentation
//! lists kinds by name: `NotFound` is [`ErrorKind::NotFound`]. Functions for writers return [`std::io::Error`].
//!
//! # Inside
//! [`os`] has the calls of operating systems. `unsafe` is there, and in four files: `sys` (memory), `guard` (the signal),
//! `checksum` (instructions) and `reserve` (allocations). Each file uses only files of the lines above it, and those
//! before it in its own line:
//! ```text
//! sync  error  element  mode  os  metadata  disk  fault_cause
//! guard
//! sys
//! checksum  change_check  unmapped_file
//! growable  mapping  reserve
//! shared_file  view  wait_set
//! shared_words
//! ```
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod change_check;
mod checksum;
mod disk;
mod element;
mod error;
mod fault_cause;
mod growable;
mod guard;
mod mapping;
mod metadata;
mod mode;
pub mod os;
mod reserve;
mod shared_file;
mod shared_words;
mod sync;
mod sys;
mod unmapped_file;
mod view;
mod wait_set;

pub use change_check::{AllowedChanges, ChangeCheck, FixedBytes, with_change_check};
pub use checksum::{ByteRun, ByteRunChange, ByteRunEnd, crc32c};
pub use disk::{
    DirectoryLock, FileSystem, FsObserver, FsOp, StagingDirectory, StagingFile, UnfinishedFile, boot_id, hidden_files,
    is_moved_directory, read_boot_id, remove_leftovers,
};
#[cfg(feature = "internal")]
pub use disk::{simulate_boot, simulate_mount};
pub use element::Element;
pub use error::{ChangeCheckError, Error, ErrorKind, Result};
pub use growable::{GrowableBuffer, PooledMemory};
pub use guard::{Fault, adopt_fault, check_pages, disable_sigbus_handler, guard, guard_on_thread, is_guarded};
pub use mapping::Mapping;
pub use metadata::{exists, is_directory, is_file, metadata_at};
pub use mode::Mode;
pub use os::{MountInfo, fork_count, free_memory, ignore_file_size_signal, is_main_thread, remote_file_system};
pub use reserve::{ReserveAllocator, can_allocate, is_memory_short};
pub use shared_file::SharedFile;
pub use shared_words::SharedWords;
pub use sync::{MutexExt, RwLockExt};
#[cfg(feature = "internal")]
pub use sys::limit_mappings;
pub use sys::{copy_nontemporal, mapped_file_count, mappings_are_scarce, prefetch, prefetch_line, store_fence};
pub use unmapped_file::{FileState, UnmappedFile};
pub use view::View;
pub use wait_set::{AwaitedWord, WaitSet};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("arrowwood-mapping maps files of any size and therefore needs a 64-bit address space");
