//! Open files and their metadata.
#![allow(unsafe_code)]

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::{AsHandle, AsRawHandle};
use std::path::Path;
use std::time::SystemTime;

use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_BASIC_INFO, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    FILE_ID_INFO, FILE_INFO_BY_HANDLE_CLASS, FILE_STANDARD_INFO, FileBasicInfo, FileIdInfo, FileStandardInfo,
    GetFileInformationByHandle, GetFileInformationByHandleEx,
};

use super::errors::{check, is_invalid_name, not_found};

/// The permissions of a file that only its owner can read and write. Nothing reads them: files have the rights of their
/// directory.
pub(in crate::os) const PRIVATE_FILE: u32 = 0;
/// The access by which a file's metadata is read, and nothing else.
const NO_ACCESS: u32 = 0;
/// The seconds from the year in which the system's times begin, 1601, to 1970.
const SECONDS_TO_1970: i64 = 11_644_473_600;
/// The units of the system's times in a second.
const TICKS: i64 = 10_000_000;
/// The nanoseconds of such a unit.
const TICK: i64 = 100;

/// What the system tells about a file or directory.
#[derive(Clone, Debug)]
pub struct FileInfo {
    metadata: Metadata,
    identity: (u64, u64),
    modified: (i64, i64),
    changed: (i64, i64),
    allocated: u64,
    is_removed: bool,
}

impl FileInfo {
    /// Asks about the open file or directory.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn from_file(file: &File) -> io::Result<FileInfo> {
        // SAFETY: the class is of this structure, of numbers.
        let id = unsafe { ask::<FILE_ID_INFO>(file, FileIdInfo) };
        // File systems with numbers of 64 bits need not have others.
        let identity = id.map_or_else(|_| short_identity(file), |id| Ok(identity_of(&id)))?;
        // SAFETY: as above.
        let basic: FILE_BASIC_INFO = unsafe { ask(file, FileBasicInfo) }?;
        // SAFETY: as above.
        let standard: FILE_STANDARD_INFO = unsafe { ask(file, FileStandardInfo) }?;
        Ok(FileInfo {
            metadata: file.metadata()?,
            identity,
            modified: since_1970(basic.LastWriteTime),
            changed: since_1970(basic.ChangeTime),
            allocated: u64::try_from(standard.AllocationSize).map_err(io::Error::other)?,
            is_removed: standard.DeletePending || standard.NumberOfLinks == 0,
        })
    }

    /// Asks about what is at `path`, or where the link there leads to.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn from_path(path: &Path) -> io::Result<FileInfo> {
        FileInfo::opened(path, FILE_FLAG_BACKUP_SEMANTICS)
    }

    /// Asks about what is at `path`, which may be a link.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn from_link(path: &Path) -> io::Result<FileInfo> {
        FileInfo::opened(path, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT)
    }

    /// Returns when the file or directory was made, if its file system tells.
    pub fn created(&self) -> Option<SystemTime> {
        self.metadata.created().ok()
    }

    fn opened(path: &Path, flags: u32) -> io::Result<FileInfo> {
        FileInfo::from_file(&OpenOptions::new().access_mode(NO_ACCESS).custom_flags(flags).open(path)?)
    }
}

impl Deref for FileInfo {
    type Target = Metadata;

    fn deref(&self) -> &Metadata {
        &self.metadata
    }
}

/// Asks about an open file or directory.
///
/// # Safety
/// `T` must be the structure of the class, of plain numbers.
unsafe fn ask<T>(file: &File, class: FILE_INFO_BY_HANDLE_CLASS) -> io::Result<T> {
    let mut found = MaybeUninit::<T>::uninit();
    let size = size_of::<T>() as u32;
    // SAFETY: the handle is open as long as `file` is borrowed; there is room for the `size` bytes that the call writes.
    check(unsafe { GetFileInformationByHandleEx(file.as_raw_handle(), class, found.as_mut_ptr().cast(), size) })?;
    // SAFETY: the call has succeeded, so it has filled the structure of this class, by the caller's promise.
    Ok(unsafe { found.assume_init() })
}

/// Returns the identity of a file by the numbers of its volume and of 128 bits.
fn identity_of(id: &FILE_ID_INFO) -> (u64, u64) {
    let index = u128::from_le_bytes(id.FileId.Identifier);
    // The high half is 0 on NTFS.
    (id.VolumeSerialNumber, index as u64 ^ ((index >> 64) as u64).rotate_left(32))
}

/// As [`identity_of`], of a file system without such numbers.
fn short_identity(file: &File) -> io::Result<(u64, u64)> {
    let mut found = MaybeUninit::<BY_HANDLE_FILE_INFORMATION>::uninit();
    // SAFETY: the handle is open as long as `file` is borrowed; there is room for the one structure that the call
    // writes.
    check(unsafe { GetFileInformationByHandle(file.as_raw_handle(), found.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so it has filled the structure.
    let found = unsafe { found.assume_init() };
    let index = u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow);
    Ok((u64::from(found.dwVolumeSerialNumber), index))
}

/// Converts a time of the system to seconds and nanoseconds since 1970.
fn since_1970(ticks: i64) -> (i64, i64) {
    (ticks.div_euclid(TICKS) - SECONDS_TO_1970, ticks.rem_euclid(TICKS) * TICK)
}

/// Returns two numbers that identify a file or directory while it exists: serial number of the volume, and index.
pub fn file_identity(info: &FileInfo) -> (u64, u64) {
    info.identity
}

/// Returns the time of the last write to a file, in seconds and nanoseconds since 1970. Programs can set it.
pub fn modified_time(info: &FileInfo) -> (i64, i64) {
    info.modified
}

/// Returns the time of the last change of a file, its name or its metadata, in seconds and nanoseconds since 1970.
pub fn changed_time(info: &FileInfo) -> (i64, i64) {
    info.changed
}

/// Returns the number of bytes that a file takes on its disk, which holes do not.
pub fn allocated_bytes(info: &FileInfo) -> u64 {
    info.allocated
}

/// Returns true if an open file or directory has no name any more.
pub fn is_removed(info: &FileInfo) -> bool {
    info.is_removed
}

/// Returns true, as lists of rights are not read.
pub fn is_writable_by_others(_info: &FileInfo) -> bool {
    true
}

/// Returns false, as the type of a file doesn't tell.
pub fn is_pipe(_kind: FileType) -> bool {
    false
}

/// Returns false, as the type of a file doesn't tell.
pub fn is_character_device(_kind: FileType) -> bool {
    false
}

/// Fills `bytes` with the bytes of a file from `offset` on. The file's position may change.
///
/// # Errors
/// Errors of the system; `UnexpectedEof` past the end.
pub fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_read(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                bytes = &mut bytes[read..];
                offset += read as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes `bytes` to a file at `offset`. The file's position may change.
///
/// # Errors
/// Errors of the system.
pub fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Syncs the bytes of a file to the disk.
pub fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Makes the bytes of a file reach the disk before all that is written from now on. Returns once they are there.
pub fn order_writes(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Writes `bytes` and syncs the whole file.
pub(in crate::os) fn write_and_sync(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    write_all_at(file, bytes, offset)?;
    file.sync_data()
}

/// Returns `options` as they are: the file has the rights of its directory.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Creates a directory, with the rights of the one above.
///
/// # Errors
/// Errors of the system; `AlreadyExists` if something is at `path`.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)
}

/// Opens a file as `options` say, or a directory. `NotFound` also for a name that no file can have, such as a pattern.
pub(crate) fn open_without_waiting(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let opened = options.clone().custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path);
    opened.map_err(|e| if is_invalid_name(&e) { not_found() } else { e })
}

/// Returns the permissions with which a copy of a file is created; see [`PRIVATE_FILE`].
pub(crate) fn permissions_of(_metadata: &Metadata) -> u32 {
    PRIVATE_FILE
}

/// Does nothing, as a new file has the rights of its directory.
pub(crate) fn take_over(_file: &File, _replaced: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Does nothing, as a new directory has the rights of the one above.
pub(crate) fn take_over_directory(_path: &Path, _replaced: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Returns the path that has these bytes, as [`OsStr::as_encoded_bytes`](std::ffi::OsStr::as_encoded_bytes) returns
/// them.
///
/// # Errors
/// `InvalidInput` if they are not UTF-8.
pub fn path_from_bytes(bytes: &[u8]) -> io::Result<&Path> {
    str::from_utf8(bytes).map(Path::new).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}

/// Opens the standard error of this process once more, so that writing to it takes no lock.
///
/// # Errors
/// Errors of the system, such as too many open files.
pub fn open_stderr() -> io::Result<File> {
    Ok(File::from(io::stderr().as_handle().try_clone_to_owned()?))
}
