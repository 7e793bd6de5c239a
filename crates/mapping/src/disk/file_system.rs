//! Performs the operations of a writer on its disk, and lets tests simulate crashes and errors at this one interface.
//!
//! Every change of a file or a name goes through [`FileSystem`] and the types it creates
//! ([`SharedFile`](crate::SharedFile), [`DirectoryLock`](crate::DirectoryLock), [`StagingFile`],
//! [`StagingDirectory`](crate::StagingDirectory)). A file system may have an [`FsObserver`], which is called before
//! each operation and may refuse it. A test can derive all possible contents of the disk after a crash from these
//! calls.

use std::fmt::Debug;
use std::fs::{File, FileTimes};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::locked_directory::LockedDirectory;
use super::unfinished_file::{beside, part_suffix};
use crate::metadata::stat;
use crate::os::{self, FileInfo, MountInfo, RelativePath};

/// One operation on a disk. Files are identified by their inode numbers.
#[derive(Clone, Copy, Debug)]
pub enum FsOp<'a> {
    /// A directory is created (mkdir(2)).
    MakeFolder {
        /// Its path.
        path: &'a Path,
    },
    /// A directory is locked, or opened to be locked.
    LockDir {
        /// Its path.
        path: &'a Path,
    },
    /// A new file is about to be created in a directory, or next to it.
    Create {
        /// The folder.
        folder: &'a Path,
    },
    /// The file was created, without a name or under a temporary one.
    Created {
        /// The file.
        file: u64,
        /// Its temporary name.
        path: Option<&'a Path>,
    },
    /// An existing file is opened for writing.
    Open {
        /// Its path.
        path: &'a Path,
    },
    /// A file is mapped (mmap(2)).
    Map {
        /// The file.
        file: u64,
    },
    /// A new file gets its size (ftruncate(2)).
    Resize {
        /// The file.
        file: u64,
        /// Its size in bytes.
        len: u64,
    },
    /// Bytes are written (pwrite(2)).
    Write {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Bytes are written and synced to the disk, without other bytes of the file (pwritev2(2) with `RWF_DSYNC`).
    WriteSynced {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The bytes are on the disk: the preceding `WriteSynced` has succeeded.
    WroteSynced {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// How many they are.
        len: u64,
    },
    /// Bytes are stored through a mapping, which can't be refused.
    StoreMapped {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Blocks are reserved (fallocate(2)).
    Reserve {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// Blocks are released; their bytes read as zeros (fallocate(2)).
    Release {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
    /// A file without a name gets one (linkat(2)).
    Name {
        /// The file.
        file: u64,
        /// The name.
        path: &'a Path,
    },
    /// A file is renamed, and replaces the one with the new name (rename(2)), or gets a new name.
    Rename {
        /// The old name.
        from: &'a Path,
        /// The new name.
        to: &'a Path,
    },
    /// A file gets a second name (link(2)).
    Link {
        /// The existing name.
        from: &'a Path,
        /// The second name.
        to: &'a Path,
    },
    /// Two directories exchange their names (renameat2(2), `RENAME_EXCHANGE`).
    Exchange {
        /// One name.
        one: &'a Path,
        /// The other, in the same directory.
        other: &'a Path,
    },
    /// A name is removed (unlink(2)).
    Remove {
        /// The name.
        path: &'a Path,
    },
    /// An empty directory is removed (rmdir(2)).
    RemoveFolder {
        /// Its path.
        path: &'a Path,
    },
    /// The contents of a file are synced to the disk (fdatasync(2)).
    Sync {
        /// The file.
        file: u64,
    },
    /// The file is on the disk: the preceding `Sync` has succeeded.
    Synced {
        /// The file.
        file: u64,
    },
    /// The file reaches the disk before all that is written from now on, by a `Sync` that promises no more.
    Ordered {
        /// The file.
        file: u64,
    },
    /// The names in a directory are synced to the disk (fsync(2)).
    SyncFolder {
        /// The folder.
        path: &'a Path,
    },
    /// The names are on the disk: the preceding `SyncFolder` has succeeded.
    SyncedFolder {
        /// The folder.
        path: &'a Path,
    },
}

/// An observer of a disk. Called from the writer's thread and its background thread.
pub trait FsObserver: Debug + Send + Sync {
    /// Called before each operation.
    ///
    /// If it returns an error, the operation is not performed, and returns that error.
    ///
    /// # Errors
    /// The error of the operation.
    fn before_op(&self, op: FsOp<'_>) -> io::Result<()>;
}

/// The disk that a writer writes to.
///
/// The file system of a [`DirectoryLock`](crate::DirectoryLock) knows the locked directory: changes of files inside it
/// or next to it reach this directory, and no other one that has got its name meanwhile.
#[derive(Clone, Debug, Default)]
pub struct FileSystem {
    observer: Option<Arc<dyn FsObserver>>,
    directory: Option<Arc<LockedDirectory>>,
}

impl FileSystem {
    /// Creates a file system with an observer.
    pub fn with_observer(observer: Arc<dyn FsObserver>) -> FileSystem {
        FileSystem { observer: Some(observer), directory: None }
    }

    /// Returns the same file system with a locked directory.
    pub(crate) fn in_directory(&self, directory: Arc<LockedDirectory>) -> FileSystem {
        FileSystem { observer: self.observer.clone(), directory: Some(directory) }
    }

    /// Checks that the locked directory is where it was locked.
    ///
    /// Every change of a name begins with this check.
    ///
    /// # Errors
    /// An error for which [`is_moved_directory`](crate::is_moved_directory) returns true; errors of the system.
    pub fn check_directory(&self) -> io::Result<()> {
        match &self.directory {
            Some(directory) => directory.check(),
            None => Ok(()),
        }
    }

    /// Resolves `path` in the locked directory, if there is one and the path is inside or next to it.
    pub(crate) fn at(&self, path: &Path) -> RelativePath {
        match &self.directory {
            Some(directory) => directory.at(path),
            None => RelativePath::new(path),
        }
    }

    /// Returns true if there is no file at `path`.
    ///
    /// Does not ask for the file's times, because then the next write would have to record them exactly.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_missing(&self, path: &Path) -> io::Result<bool> {
        self.at(path).is_missing()
    }

    /// Returns a path for a file that does not belong to `folder` yet, whose name ends in `suffix`.
    ///
    /// The file is next to the directory, or inside if it can't be moved there. Listings for readers show it in neither
    /// place.
    pub fn hidden_path(&self, folder: &Path, suffix: &str) -> PathBuf {
        match &self.directory {
            Some(directory) if directory.path() == folder => directory.hidden(suffix),
            _ => beside(folder, suffix),
        }
    }

    #[inline]
    pub(crate) fn has_observer(&self) -> bool {
        self.observer.is_some()
    }

    /// Tells the observer about an operation, which must not be performed if this returns an error.
    #[inline]
    pub(crate) fn tell(&self, op: FsOp<'_>) -> io::Result<()> {
        match &self.observer {
            None => Ok(()),
            Some(observer) => observer.before_op(op),
        }
    }

    /// Creates a directory, and syncs its name to the disk.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.tell(FsOp::MakeFolder { path })?;
        std::fs::create_dir(path)?;
        self.sync_dir(path.parent().unwrap_or(path))
    }

    /// Creates the directory at `path` and missing ones above it, and syncs the name of each to the disk.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path == Path::new("") || is_dir(path)? {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.create_dir_all(parent)?;
        }
        self.create_or_sync_dir(path)
    }

    /// As [`create_dir_all`](FileSystem::create_dir_all), but also syncs the names of existing directories, from `root`
    /// on: the process that created them may have been killed before it did so.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn create_dir_levels(&self, root: &Path, path: &Path) -> io::Result<()> {
        if path == Path::new("") || !path.starts_with(root) {
            return self.create_dir_all(path);
        }
        if let Some(parent) = path.parent() {
            self.create_dir_levels(root, parent)?;
        }
        if is_dir(path)? { self.sync_parent(path) } else { self.create_or_sync_dir(path) }
    }

    /// Creates a directory, or syncs its name to the disk if another process was faster.
    fn create_or_sync_dir(&self, path: &Path) -> io::Result<()> {
        match self.create_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && is_dir(path)? => self.sync_parent(path),
            created => created,
        }
    }

    /// Syncs the name of the directory at `path` to the disk, as the process that created it may not have done so.
    ///
    /// Does nothing if this process may not read the parent directory, which a sync needs.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn sync_parent(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        match self.sync_dir(parent) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        }
    }

    /// Syncs changes of the names in the directory to the disk.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // The parent of a bare name is the empty path.
        let path = if path == Path::new("") { Path::new(".") } else { path };
        self.tell(FsOp::SyncFolder { path })?;
        self.at(path).sync_folder()?;
        self.tell(FsOp::SyncedFolder { path })
    }

    /// Syncs the contents of the file, of inode number `id`, to the disk (fdatasync(2)).
    pub(crate) fn sync(&self, file: &File, id: u64) -> io::Result<()> {
        self.tell(FsOp::Sync { file: id })?;
        os::sync_data(file)?;
        self.tell(FsOp::Synced { file: id })
    }

    /// Makes the contents of the file, of inode number `id`, reach the disk before all that is written from now on.
    pub(crate) fn order(&self, file: &File, id: u64) -> io::Result<()> {
        self.tell(FsOp::Sync { file: id })?;
        os::order_writes(file)?;
        self.tell(FsOp::Ordered { file: id })
    }

    /// Removes a name.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.check_directory()?;
        self.tell(FsOp::Remove { path })?;
        self.at(path).unlink()
    }

    /// Removes an empty directory.
    pub(crate) fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.tell(FsOp::RemoveFolder { path })?;
        std::fs::remove_dir(path)
    }

    /// Renames a file. Replaces a file that has the new name.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_directory()?;
        self.tell(FsOp::Rename { from, to })?;
        self.at(from).rename(&self.at(to))
    }

    /// Renames a file.
    ///
    /// # Errors
    /// `AlreadyExists` if a file has the new name; errors of the system and of the observer.
    pub fn rename_noreplace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_directory()?;
        self.tell(FsOp::Rename { from, to })?;
        self.at(from).rename_to_free(&self.at(to))
    }

    /// Gives a file a second name.
    pub(crate) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_directory()?;
        self.tell(FsOp::Link { from, to })?;
        self.at(from).link(&self.at(to))
    }

    /// Creates a file next to `folder`, to be written from front to back.
    ///
    /// It takes over the permissions of the file at `like`, if there is one, and its owner and group if this process
    /// may set them: a copy must not be readable by more people than the original.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn create_staging_file(&self, folder: &Path, like: &Path) -> io::Result<StagingFile> {
        let original = match std::fs::metadata(like) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            metadata => Some(metadata?),
        };
        let mode = original.as_ref().map_or(0o666, os::permissions_of);
        let (file, path) = self.create_part(folder, mode)?;
        let staging = StagingFile { id: inode(&file)?, file, path, end: 0, medium: self.clone() };
        if let Some(original) = original {
            os::take_over(&staging.file, &original)?;
        }
        Ok(staging)
    }

    /// Calls `create` with unused hidden names of an incomplete file in `folder` until it doesn't fail with
    /// `AlreadyExists`. Returns its result, and the name.
    pub(crate) fn with_part_name<T>(
        &self,
        folder: &Path,
        create: impl Fn(&Path) -> io::Result<T>,
    ) -> io::Result<(T, PathBuf)> {
        loop {
            let path = self.hidden_path(folder, &part_suffix());
            match create(&path) {
                // A killed process that had our process id has left a file of this name.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => (),
                created => return Ok((created?, path)),
            }
        }
    }

    /// Creates a file with a hidden name, which listings of the directory don't show.
    pub(crate) fn create_part(&self, folder: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
        self.tell(FsOp::Create { folder })?;
        let (file, path) = self.with_part_name(folder, |path| self.at(path).create_new(mode))?;
        self.tell(FsOp::Created { file: inode(&file)?, path: Some(&path) })?;
        Ok((file, path))
    }
}

pub(crate) fn inode(file: &File) -> io::Result<u64> {
    Ok(os::file_identity(&FileInfo::from_file(file)?).1)
}

/// A file that is written from front to back and gets its name when it is complete.
///
/// If it is dropped without a name, it is removed.
#[derive(Debug)]
pub struct StagingFile {
    file: File,
    path: PathBuf,
    /// The inode number.
    id: u64,
    /// The number of bytes written.
    end: u64,
    medium: FileSystem,
}

impl StagingFile {
    /// Sets the modification time to the next whole second after the current time and after the modification time of
    /// the file at `before`, if there is one.
    ///
    /// Later writes set it to their time.
    pub fn set_modified_after(&self, before: &Path) {
        let mut seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        if let Ok(metadata) = FileInfo::from_path(before) {
            // A time before 1970 is before the current time.
            seconds = seconds.max(u64::try_from(os::modified_time(&metadata).0).unwrap_or(seconds));
        }
        if let Some(time) = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.saturating_add(1))) {
            // The file is complete without the time, too.
            let _ = self.file.set_times(FileTimes::new().set_modified(time));
        }
    }

    /// Syncs the file to the disk and names it `path`, replacing the file there.
    ///
    /// The new name is on the disk once the caller has [synced the directory](FileSystem::sync_dir).
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn replace(mut self, path: &Path) -> io::Result<()> {
        self.medium.sync(&self.file, self.id)?;
        self.medium.rename(&self.path, path)?;
        self.path = PathBuf::new();
        Ok(())
    }

    /// Syncs the file to the disk and keeps its name.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn keep(mut self) -> io::Result<PathBuf> {
        self.medium.sync(&self.file, self.id)?;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Write for StagingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.medium.tell(FsOp::Write { file: self.id, offset: self.end, bytes })?;
        os::write_all_at(&self.file, bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for StagingFile {
    fn drop(&mut self) {
        if self.path != Path::new("") {
            // A failed removal has no remedy.
            let _ = self.medium.remove(&self.path);
        }
    }
}

/// As [`is_directory`](crate::is_directory), with the error of the system.
fn is_dir(path: &Path) -> io::Result<bool> {
    Ok(stat(path)?.is_some_and(|metadata| metadata.is_dir()))
}

/// The boot id of a system that has none, or doesn't tell.
const NO_BOOT_ID: [u8; 16] = [0; 16];

/// The halves of the simulated boot id; zeros if no boot is simulated. No lock, because refreshing a table reads it.
static SIMULATED_BOOT: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Simulates that the machine was booted with this id, or ends the simulation.
#[cfg(feature = "internal")]
pub fn simulate_boot(boot: Option<[u8; 16]>) {
    let boot = boot.unwrap_or(NO_BOOT_ID);
    for (half, &bytes) in SIMULATED_BOOT.iter().zip(boot.as_chunks().0) {
        half.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}

/// Returns the id of the machine's boot, or zeros if the system has none, or [`read_boot_id`] fails.
pub fn boot_id() -> [u8; 16] {
    read_boot_id().unwrap_or(NO_BOOT_ID)
}

/// Returns the id of the machine's boot, or zeros if the system has none.
///
/// # Errors
/// The errors of reading it, for example if the process has no free descriptor. A failure is not remembered.
pub fn read_boot_id() -> io::Result<[u8; 16]> {
    static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
    let mut simulated = NO_BOOT_ID;
    for (bytes, half) in simulated.as_chunks_mut().0.iter_mut().zip(&SIMULATED_BOOT) {
        *bytes = half.load(Ordering::Relaxed).to_ne_bytes();
    }
    if simulated != NO_BOOT_ID {
        return Ok(simulated);
    }
    if let Some(boot) = BOOT.get() {
        return Ok(*boot);
    }
    let Some(text) = os::boot_id_text()? else { return Ok(NO_BOOT_ID) };
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let id = u128::from_str_radix(&digits, 16);
    Ok(id.map_or(NO_BOOT_ID, |id| *BOOT.get_or_init(|| id.to_be_bytes())))
}

/// The mount id that stands for no simulation, or for a system that doesn't tell ids.
const NO_MOUNT: u64 = 0;
/// The simulated mount id.
static SIMULATED_MOUNT: AtomicU64 = AtomicU64::new(NO_MOUNT);

/// Simulates that all files are opened through the mount with this id, or ends the simulation.
#[cfg(feature = "internal")]
pub fn simulate_mount(mount: Option<u64>) {
    SIMULATED_MOUNT.store(mount.unwrap_or(NO_MOUNT), Ordering::Relaxed);
}

/// Returns the id that tests ask all mounts to have, by `ARROWWOOD_MOUNT_IDS`: none with `off`, and with `one` the same,
/// which no test simulates, for systems that don't tell ids. A simulated mount keeps its id.
#[cfg(feature = "internal")]
fn mount_of_tests() -> Option<u64> {
    static MOUNT: OnceLock<Option<u64>> = OnceLock::new();
    *MOUNT.get_or_init(|| {
        let value = std::env::var_os("ARROWWOOD_MOUNT_IDS")?;
        [("off", NO_MOUNT), ("one", u64::MAX)].into_iter().find(|(name, _)| value == *name).map(|(_, mount)| mount)
    })
}

#[cfg(not(feature = "internal"))]
fn mount_of_tests() -> Option<u64> {
    None
}

/// Returns the mount through which `file` was opened.
///
/// # Errors
/// Errors of the system.
pub(crate) fn mounted(file: &File) -> io::Result<MountInfo> {
    let actual = match mount_of_tests() {
        Some(mount) => MountInfo { mount, ..MountInfo::default() },
        None => os::mount_info(file)?,
    };
    Ok(match SIMULATED_MOUNT.load(Ordering::Relaxed) {
        NO_MOUNT => actual,
        mount => MountInfo { mount, ..actual },
    })
}
