//! The directory of a table, for its one writer: its lock, its replacement by another directory, and files left beside
//! it by killed writers.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file_system::{FileSystem, FsOp};
use crate::locked_directory::{LockedDirectory, is_moved_directory};
use crate::metadata::metadata_at;
use crate::os::{self, DirectoryHandle};
use crate::unfinished_file::{dropped_name, hidden_and_dropped, part_name};

/// The lock of a directory that only one process writes to, until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    home: Arc<LockedDirectory>,
    forks: u64,
    medium: FileSystem,
}

/// The number of times that a directory is opened anew because another one has replaced it.
const MOST_TRIES: usize = 1000;

impl DirectoryLock {
    /// Takes the lock of the directory at `path`, which has no symbolic link in it if the lock's [medium](Lock::medium)
    /// is used; `None` if another process has it.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn try_acquire(medium: &FileSystem, path: &Path) -> io::Result<Option<DirectoryLock>> {
        medium.tell(FsOp::LockDir { path })?;
        let mut tries = 0;
        loop {
            let folder = DirectoryHandle::open(path)?;
            if !folder.try_lock()? {
                return Ok(None);
            }
            let home = LockedDirectory::new(path, folder);
            match home.check() {
                Ok(()) => {
                    let home = Arc::new(home);
                    let medium = medium.at_home(home.clone());
                    return Ok(Some(DirectoryLock { home, forks: os::fork_count(), medium }));
                }
                // Another directory may have replaced the opened one. Some file systems number files anew each time.
                Err(e) if is_moved_directory(&e) && tries < MOST_TRIES => tries += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether this process took the lock, rather than inheriting it by a fork.
    #[inline]
    pub fn is_ours(&self) -> bool {
        os::fork_count() == self.forks
    }

    /// Whether the directory at `path` is the locked one.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = self.home.folder().file().metadata()?;
        Ok(metadata_at(path)?.is_some_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())))
    }

    /// The name for the locked directory, beside where it is, while it is removed: if the process is killed meanwhile,
    /// [`remove_parts`] of a directory beside it goes on.
    ///
    /// # Errors
    /// Those of the system.
    pub fn removal_name(&self) -> io::Result<String> {
        // Of the locked one, as another may have got its path.
        Ok(dropped_name(self.home.folder().file().metadata()?.ino()))
    }

    /// The disk, for changes of files inside and beside the locked directory: they reach this directory regardless of
    /// its name, and fail once another one may have the name.
    pub fn medium(&self) -> &FileSystem {
        &self.medium
    }

    /// Syncs changes of the names in the directory to the disk.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn sync(&self) -> io::Result<()> {
        self.medium.sync_dir(self.home.path())
    }

    /// Whether files can be moved between the locked directory and others beside it, and another one can be made there and
    /// take its place, as far as is known before.
    pub fn is_replaceable(&self) -> bool {
        !self.home.is_alone()
    }

    /// Replaces the directory by `newer`, moves the lock, and returns the new directory with the files of the old one.
    /// The names in both are on the disk before; the exchange is on the disk once the parent directory was synced.
    ///
    /// # Errors
    /// Those of the system, `Unsupported` and `InvalidInput` if the file system can't exchange names, or of the
    /// witness. Then each directory stays in place.
    pub fn replace_with(&self, mut newer: StagingDirectory) -> io::Result<StagingDirectory> {
        self.medium.sync_dir(&newer.path)?;
        // Otherwise changes of names in the old directory could reach the disk after the exchange.
        self.sync()?;
        let own = self.home.path();
        self.medium.check_directory()?;
        self.medium.tell(FsOp::Exchange { one: &newer.path, other: own })?;
        let part = self.medium.at(&newer.path);
        let name = self.home.name();
        part.exchange(&name)?;
        let is_own = || {
            let own = self.home.folder().file().metadata()?;
            Ok(part.identity()? == (own.dev(), own.ino()))
        };
        match is_own() {
            Ok(true) => {
                // The old one's lock is removed with its files.
                newer.folder = self.home.replace(newer.folder.clone());
                Ok(newer)
            }
            // The directory was renamed at this moment, and the exchanged one is another table's.
            Ok(false) => match part.exchange(&name) {
                Ok(()) => self.medium.check_directory().and(Err(io::ErrorKind::ResourceBusy.into())),
                Err(e) => newer.keep_after(e),
            },
            Err(e) => newer.keep_after(e),
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if self.is_ours() {
            // The descriptor stays open as long as a file knows its disk.
            self.home.folder().unlock();
        }
    }
}

/// A directory beside a table's that will replace it, with files of its own or the table's under a second name. Removed
/// on drop, with its contents.
#[derive(Debug)]
pub struct StagingDirectory {
    path: PathBuf,
    folder: Arc<DirectoryHandle>,
    medium: FileSystem,
}

impl StagingDirectory {
    /// Creates a directory beside `folder`, and locks it.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn create_beside(medium: &FileSystem, folder: &Path) -> io::Result<StagingDirectory> {
        let path = part_name(folder);
        // On the disk before the exchange: then each of the names is that of a directory, whatever is lost.
        medium.create_dir(&path)?;
        let locked = |path: &Path| {
            // The replacement needs the same permissions. Only root can change a directory's owner.
            let known = std::fs::metadata(folder)?;
            let _ = std::os::unix::fs::chown(path, Some(known.uid()), Some(known.gid()));
            std::fs::set_permissions(path, known.permissions())?;
            let own = DirectoryHandle::open(path)?;
            if own.try_lock()? { Ok(Arc::new(own)) } else { Err(io::ErrorKind::WouldBlock.into()) }
        };
        match locked(&path) {
            Ok(folder) => Ok(StagingDirectory { path, folder, medium: medium.clone() }),
            Err(e) => {
                // A failed removal only costs space, until the table is opened for writing again.
                let _ = remove_part_folder(medium, &path);
                Err(e)
            }
        }
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives a file of the table a second name in the directory, equal to its first.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn link(&self, file: &Path) -> io::Result<()> {
        let to = self.path.join(file.file_name().unwrap_or_default());
        self.medium.link(file, &to)
    }

    /// Keeps the directory and its contents: the next writer of the table removes it.
    pub fn keep(mut self) {
        self.path = PathBuf::new();
    }

    /// Keeps the directory after an error that leaves unknown whose files are in it.
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

/// Removes incomplete files of `folder` left by a killed writer, beside and inside it, and directories beside it that a
/// killed process was [removing](Lock::dropped_name). Only for the holder of the directory's lock: no other process uses
/// such files then.
///
/// # Errors
/// Those of syncing the parent directory of `folder`, if a directory is left: until then it is not on the disk which of
/// the two has the table's name.
pub fn remove_leftovers(medium: &FileSystem, folder: &Path) -> io::Result<()> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_part = |rest: &str| {
        let numbers = rest.strip_suffix(".part").and_then(|numbers| numbers.split_once('.'));
        numbers.is_some_and(|(pid, n)| is_number(pid) && is_number(n))
    };
    let (hidden, dropped) = hidden_and_dropped(folder)?;
    for (path, _) in hidden.into_iter().filter(|(_, rest)| is_part(rest)) {
        // Files that can't be removed only cost space.
        if std::fs::symlink_metadata(&path).is_ok_and(|there| there.is_dir()) {
            medium.sync_dir(path.parent().unwrap_or(Path::new(".")))?;
            let _ = remove_part_folder(medium, &path);
        } else if medium.check_directory().is_ok() {
            let _ = medium.at(&path).unlink();
        }
    }
    for path in dropped {
        // Who is about to remove it has its lock. What can't be removed only costs space.
        let Ok(held) = DirectoryHandle::open(&path) else { continue };
        if held.try_lock().is_ok_and(|is_ours| is_ours) {
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

    #[test]
    fn a_directory_takes_the_place_of_another_with_its_lock() {
        let home = tempfile::tempdir().unwrap();
        let table = home.path().join("ticks");
        std::fs::create_dir(&table).unwrap();
        std::fs::write(table.join("kept"), "kept").unwrap();
        std::fs::write(table.join("old"), "old").unwrap();
        let medium = FileSystem::default();
        let lock = DirectoryLock::try_acquire(&medium, &table).unwrap().unwrap();
        let newer = StagingDirectory::create_beside(&medium, &table).unwrap();
        newer.link(&table.join("kept")).unwrap();
        std::fs::write(newer.path().join("new"), "new").unwrap();
        let older = lock.replace_with(newer).unwrap();
        let names = |folder: &Path| {
            let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&table), ["kept", "new"]);
        assert_eq!(names(older.path()), ["kept", "old"]);
        assert!(
            DirectoryLock::try_acquire(&medium, &table).unwrap().is_none(),
            "the new one is locked as the old one was"
        );
        drop(older);
        assert_eq!(names(home.path()), ["ticks"]);
        assert!(DirectoryLock::try_acquire(&medium, &table).unwrap().is_none());
        drop(lock);
        assert!(DirectoryLock::try_acquire(&medium, &table).unwrap().is_some());
    }
}
