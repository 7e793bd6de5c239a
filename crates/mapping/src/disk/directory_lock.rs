//! Locks the directory of a table for its one writer, replaces it by another directory, and removes files that killed
//! writers have left next to it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_system::{FileSystem, FsOp};
use super::locked_directory::{LockedDirectory, is_moved_directory};
use super::unfinished_file::{dropped_name, hidden_and_dropped, is_part_suffix, part_name};
use crate::metadata::stat;
use crate::os::{self, DirectoryHandle, RelativePath};

/// The lock of a directory that only one process writes to, until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    directory: Arc<LockedDirectory>,
    forks: u64,
    medium: FileSystem,
}

/// The maximum number of times that a directory is opened again because another one has replaced it.
const MAX_RETRIES: usize = 1000;

impl DirectoryLock {
    /// Locks the directory at `path`, or returns `None` if another process has the lock.
    ///
    /// If the lock's [disk](DirectoryLock::medium) is used, `path` must have no symbolic link in it.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn try_acquire(medium: &FileSystem, path: &Path) -> io::Result<Option<DirectoryLock>> {
        medium.tell(FsOp::LockDir { path })?;
        let mut retries = 0;
        loop {
            let folder = DirectoryHandle::open(path)?;
            if !folder.try_lock()? {
                return Ok(None);
            }
            let directory = LockedDirectory::new(path, folder);
            match directory.check() {
                Ok(()) => {
                    let directory = Arc::new(directory);
                    let medium = medium.in_directory(directory.clone());
                    return Ok(Some(DirectoryLock { directory, forks: os::fork_count(), medium }));
                }
                // Another directory may have replaced the opened one. The number of tries is limited, because some file
                // systems assign new inode numbers each time.
                Err(e) if is_moved_directory(&e) && retries < MAX_RETRIES => retries += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// Returns true if this process took the lock, rather than inheriting it by a fork.
    #[inline]
    pub fn is_ours(&self) -> bool {
        os::fork_count() == self.forks
    }

    /// Returns true if the directory at `path` is the locked one.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let locked = self.directory.identity()?;
        Ok(stat(path)?.is_some_and(|metadata| os::file_identity(&metadata) == locked))
    }

    /// Returns the name that the locked directory gets, in the same parent directory, while it is removed.
    ///
    /// If the process is killed meanwhile, [`remove_leftovers`] of another directory there continues.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn removal_name(&self) -> io::Result<String> {
        // The number is asked of the descriptor, as another directory may have the path by now.
        let (_, inode) = self.directory.identity()?;
        Ok(dropped_name(inode))
    }

    /// Returns the disk for changes of files inside the locked directory and next to it.
    ///
    /// Changes reach this directory regardless of its name, and fail once another directory may have the name.
    pub fn medium(&self) -> &FileSystem {
        &self.medium
    }

    /// Syncs changes of the names in the directory to the disk.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn sync(&self) -> io::Result<()> {
        self.medium.sync_dir(self.directory.path())
    }

    /// Returns true if, as far as is known before, files can be moved between the locked directory and others next to
    /// it, and another directory can be created there and replace it.
    pub fn is_replaceable(&self) -> bool {
        !self.directory.is_alone()
    }

    /// Replaces the directory by `newer`, moves the lock, and returns the new directory with the files of the old one.
    ///
    /// The names in both are on the disk before; the exchange is on the disk once the parent directory was synced.
    ///
    /// # Errors
    /// Errors of the system and of the observer; `Unsupported` and `InvalidInput` if the file system can't exchange
    /// names. After an error each directory is in its place.
    pub fn replace_with(&self, mut newer: StagingDirectory) -> io::Result<StagingDirectory> {
        self.medium.sync_dir(&newer.path)?;
        // Otherwise changes of names in the old directory could reach the disk after the exchange.
        self.sync()?;
        self.medium.check_directory()?;
        self.medium.tell(FsOp::Exchange { one: &newer.path, other: self.directory.path() })?;
        let part = self.medium.at(&newer.path);
        let name = self.directory.name();
        part.exchange(&name)?;
        match self.is_locked_directory(&part) {
            Ok(true) => {
                // The lock of the old directory is removed with its files.
                newer.folder = self.directory.replace(newer.folder.clone());
                Ok(newer)
            }
            // The directory was renamed at this moment, and the exchanged one belongs to another table.
            Ok(false) => match part.exchange(&name) {
                Ok(()) => self.medium.check_directory().and(Err(io::ErrorKind::ResourceBusy.into())),
                Err(e) => newer.keep_after(e),
            },
            Err(e) => newer.keep_after(e),
        }
    }

    fn is_locked_directory(&self, path: &RelativePath) -> io::Result<bool> {
        Ok(path.identity()? == self.directory.identity()?)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if self.is_ours() {
            // Files hold the descriptor open through their disk, so closing it might not release the lock.
            self.directory.folder().unlock();
        }
    }
}

/// A directory that will replace the directory of a table, next to which it is.
///
/// It has files of its own, and files of the table under a second name. Removed on drop, with its contents.
#[derive(Debug)]
pub struct StagingDirectory {
    path: PathBuf,
    folder: Arc<DirectoryHandle>,
    medium: FileSystem,
}

impl StagingDirectory {
    /// Creates a directory next to `folder`, and locks it.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn create_beside(medium: &FileSystem, folder: &Path) -> io::Result<StagingDirectory> {
        let path = part_name(folder);
        // Synced before the exchange: then a directory has each of the names, whatever is lost in a power cut.
        medium.create_dir(&path)?;
        match lock_replacement(&path, folder) {
            Ok(folder) => Ok(StagingDirectory { path, folder: Arc::new(folder), medium: medium.clone() }),
            Err(e) => {
                // A failed removal only costs space, until the table is opened for writing again.
                let _ = remove_part_folder(medium, &path);
                Err(e)
            }
        }
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Links a file of the table into the directory, under the same name.
    ///
    /// # Errors
    /// `InvalidInput` if the path `file` does not end in a name; errors of the system and of the observer.
    pub fn link(&self, file: &Path) -> io::Result<()> {
        let to = self.path.join(file.file_name().ok_or(io::ErrorKind::InvalidInput)?);
        self.medium.link(file, &to)
    }

    /// Keeps the directory and its contents, until the next writer of the table removes it.
    pub fn keep(mut self) {
        self.path = PathBuf::new();
    }

    /// Keeps the directory after an error that leaves it unknown which table its files belong to.
    fn keep_after(self, error: io::Error) -> io::Result<StagingDirectory> {
        self.keep();
        Err(error)
    }
}

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        if self.path != Path::new("") {
            // A failed removal only costs space, until the table is opened for writing again.
            let _ = remove_part_folder(&self.medium, &self.path);
        }
    }
}

/// Opens and locks the directory at `path`, which is to replace the one at `replaced`, and gives it the same
/// permissions.
fn lock_replacement(path: &Path, replaced: &Path) -> io::Result<DirectoryHandle> {
    let metadata = std::fs::metadata(replaced)?;
    os::take_over_directory(path, &metadata)?;
    let folder = DirectoryHandle::open(path)?;
    if folder.try_lock()? { Ok(folder) } else { Err(io::ErrorKind::WouldBlock.into()) }
}

/// Removes incomplete files of `folder` that a killed writer has left inside it and next to it, and directories next to
/// it that a killed process was [removing](DirectoryLock::removal_name).
///
/// Only for the holder of the directory's lock, because then no other process uses such files.
///
/// # Errors
/// The errors of syncing the parent directory of `folder`, if a directory is left: before that, the disk may not yet
/// have the exchange of their names.
pub fn remove_leftovers(medium: &FileSystem, folder: &Path) -> io::Result<()> {
    let (hidden, dropped) = hidden_and_dropped(folder)?;
    for (path, rest) in hidden {
        if !is_part_suffix(&rest) {
            continue;
        }
        // Files that can't be removed only cost space.
        if std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            medium.sync_dir(path.parent().unwrap_or(Path::new(".")))?;
            let _ = remove_part_folder(medium, &path);
        } else if medium.check_directory().is_ok() {
            let _ = medium.at(&path).unlink();
        }
    }
    for path in dropped {
        // A process that is still removing the directory has its lock. Directories that can't be removed only cost
        // space.
        let Ok(handle) = DirectoryHandle::open(&path) else { continue };
        if handle.try_lock().is_ok_and(|is_locked| is_locked) {
            let _ = remove_part_folder(medium, &path);
        }
    }
    Ok(())
}

/// Removes a directory of files.
fn remove_part_folder(medium: &FileSystem, path: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        medium.remove(&entry?.path())?;
    }
    medium.remove_folder(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_names(folder: &Path) -> Vec<std::ffi::OsString> {
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn replace_with_keeps_the_lock() {
        let home = tempfile::tempdir().unwrap();
        let table = home.path().join("ticks");
        std::fs::create_dir(&table).unwrap();
        std::fs::write(table.join("kept"), "kept").unwrap();
        std::fs::write(table.join("old"), "old").unwrap();
        let medium = FileSystem::default();
        if !os::CAN_LOCK_DIRECTORIES {
            let refused = DirectoryLock::try_acquire(&medium, &table).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
            return;
        }
        let lock = DirectoryLock::try_acquire(&medium, &table).unwrap().unwrap();
        let replacement = StagingDirectory::create_beside(&medium, &table).unwrap();
        replacement.link(&table.join("kept")).unwrap();
        std::fs::write(replacement.path().join("new"), "new").unwrap();
        let replaced = lock.replace_with(replacement);
        if cfg!(arrowwood_portable) {
            assert_eq!(replaced.unwrap_err().kind(), io::ErrorKind::Unsupported);
            assert_eq!(list_names(home.path()), ["ticks"]);
            assert_eq!(list_names(&table), ["kept", "old"]);
            return;
        }
        let replaced = replaced.unwrap();
        assert_eq!(list_names(&table), ["kept", "new"]);
        assert_eq!(list_names(replaced.path()), ["kept", "old"]);
        assert!(DirectoryLock::try_acquire(&medium, &table).unwrap().is_none(), "the replacement is locked, too");
        drop(replaced);
        assert_eq!(list_names(home.path()), ["ticks"]);
        assert!(DirectoryLock::try_acquire(&medium, &table).unwrap().is_none());
        drop(lock);
        assert!(DirectoryLock::try_acquire(&medium, &table).unwrap().is_some());
    }
}
