//! The operations of a writer on its disk: the one small interface at which crashes and errors are simulated.
//!
//! Every change of a file or a name goes through [`FileSystem`] and the types it creates ([`SharedFile`](crate::Store),
//! [`DirectoryLock`](crate::Lock), [`StagingFile`], [`StagingDirectory`](crate::PartFolder)). A medium may have a [`FsObserver`], which is
//! called before each operation and may refuse it. From the operations of a run, a test knows all possible contents of
//! the disk after a crash at any moment.

use std::fmt::Debug;
use std::fs::{File, FileTimes};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::locked_directory::LockedDirectory;
use crate::metadata::is_directory;
use crate::os::{MountInfo, RelativePath};
use crate::unfinished_file::{beside, part_suffix, take_over};

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
    /// A new file is about to be created in, or beside, a directory.
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
    /// Called before each operation. Its error becomes that of the operation, which is then not performed.
    ///
    /// # Errors
    /// The error of the operation.
    fn before_op(&self, act: FsOp<'_>) -> io::Result<()>;
}

/// The disk that a writer writes to. That of a [`DirectoryLock`](crate::Lock) has a home, the locked directory: what is done to files
/// inside or beside it reaches this directory, and no other one that has got its name meanwhile.
#[derive(Clone, Debug, Default)]
pub struct FileSystem {
    witness: Option<Arc<dyn FsObserver>>,
    home: Option<Arc<LockedDirectory>>,
}

impl FileSystem {
    /// The disk, with an observer.
    pub fn with_observer(witness: Arc<dyn FsObserver>) -> FileSystem {
        FileSystem { witness: Some(witness), home: None }
    }

    /// The same disk, with a locked directory.
    pub(crate) fn at_home(&self, home: Arc<LockedDirectory>) -> FileSystem {
        FileSystem { witness: self.witness.clone(), home: Some(home) }
    }

    /// Checks that the locked directory is where it was locked. Every change of a name begins with this check.
    ///
    /// # Errors
    /// One for which [`is_moved`](crate::is_moved) returns true; those of the system.
    pub fn check_directory(&self) -> io::Result<()> {
        self.home.as_ref().map_or(Ok(()), |home| home.check())
    }

    pub(crate) fn at(&self, path: &Path) -> RelativePath {
        self.home.as_ref().map_or_else(|| RelativePath::new(path), |home| home.at(path))
    }

    /// Whether there is no file at `path`. Asks for no times: that would make the next write record them exactly.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_missing(&self, path: &Path) -> io::Result<bool> {
        self.at(path).is_missing()
    }

    /// A path for a file that does not belong to `folder` yet, of a name that ends in `suffix`: beside the directory,
    /// or inside where it has to be. Listings for readers show it in neither place.
    pub fn hidden_path(&self, folder: &Path, suffix: &str) -> PathBuf {
        match self.home.as_ref().filter(|home| home.path() == folder) {
            Some(home) => home.hidden(suffix),
            None => beside(folder, suffix),
        }
    }

    #[inline]
    pub(crate) fn has_witness(&self) -> bool {
        self.witness.is_some()
    }

    #[inline]
    pub(crate) fn tell(&self, act: FsOp<'_>) -> io::Result<()> {
        match &self.witness {
            None => Ok(()),
            Some(witness) => witness.before_op(act),
        }
    }

    /// Creates a directory, and syncs its name to the disk.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.tell(FsOp::MakeFolder { path })?;
        std::fs::create_dir(path)?;
        self.sync_dir(path.parent().unwrap_or(path))
    }

    /// Makes the directory at `path` and those above it that are not there, each with its name on the disk.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path == Path::new("") || is_directory(path)? {
            return Ok(());
        }
        path.parent().map_or(Ok(()), |above| self.create_dir_all(above))?;
        self.make_or_sync(path)
    }

    /// As [`make_folders`](Medium::make_folders). Names of directories that are there are brought to the disk too, from
    /// `root` on: whoever made them may have been killed before.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn create_dir_levels(&self, root: &Path, path: &Path) -> io::Result<()> {
        if path == Path::new("") || !path.starts_with(root) {
            return self.create_dir_all(path);
        }
        path.parent().map_or(Ok(()), |above| self.create_dir_levels(root, above))?;
        if is_directory(path)? { self.sync_parent(path) } else { self.make_or_sync(path) }
    }

    /// Makes a directory; where another process was faster, brings its name to the disk.
    fn make_or_sync(&self, path: &Path) -> io::Result<()> {
        match self.create_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && is_directory(path)? => self.sync_parent(path),
            made => made,
        }
    }

    /// Brings the name of the directory at `path` to the disk: whoever made it may not have synced it. Does nothing where
    /// this process may not read the directory above, which a sync needs.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn sync_parent(&self, path: &Path) -> io::Result<()> {
        let Some(above) = path.parent() else { return Ok(()) };
        match self.sync_dir(above) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        }
    }

    /// Syncs changes of the names in the directory to the disk.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // The directory of a name without one.
        let path = if path == Path::new("") { Path::new(".") } else { path };
        self.tell(FsOp::SyncFolder { path })?;
        self.at(path).open_folder()?.sync_all()?;
        self.tell(FsOp::SyncedFolder { path })
    }

    /// Syncs the contents of the file, of inode number `id`, to the disk (fdatasync(2)).
    pub(crate) fn sync(&self, file: &File, id: u64) -> io::Result<()> {
        self.tell(FsOp::Sync { file: id })?;
        file.sync_data()?;
        self.tell(FsOp::Synced { file: id })
    }

    /// Removes a name.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
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

    /// Renames a file, and replaces the one of the new name.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_directory()?;
        self.tell(FsOp::Rename { from, to })?;
        self.at(from).rename(&self.at(to))
    }

    /// Renames a file.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a file of the new name; those of the system, or of the witness.
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

    /// Creates a file beside `folder`, to be written from front to back. It takes over the permissions of the file at
    /// `like`, if there is one, and its owner and group if this process may set them: what is written must not be readable
    /// by more people than what it is a copy of.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn create_staging_file(&self, folder: &Path, like: &Path) -> io::Result<StagingFile> {
        let known = match std::fs::metadata(like) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            known => Some(known?),
        };
        let mode = known.as_ref().map_or(0o666, |known| known.mode() & 0o777);
        let (file, path) = self.named_part(folder, mode)?;
        let part = StagingFile { id: inode(&file)?, file, path, end: 0, medium: self.clone() };
        known.map_or(Ok(()), |known| take_over(&part.file, &known))?;
        Ok(part)
    }

    /// Calls `make` with unused hidden names of an incomplete file in `folder` until there was none of that name; returns
    /// what it made, and the name.
    pub(crate) fn with_part_name<T>(
        &self,
        folder: &Path,
        make: impl Fn(&Path) -> io::Result<T>,
    ) -> io::Result<(T, PathBuf)> {
        loop {
            let path = self.hidden_path(folder, &part_suffix());
            match make(&path) {
                // Left by a killed process that had our process id.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => (),
                made => return Ok((made?, path)),
            }
        }
    }

    /// The file has a hidden name, so that listings of the directory don't show it.
    pub(crate) fn named_part(&self, folder: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
        self.tell(FsOp::Create { folder })?;
        let (file, path) =
            self.with_part_name(folder, |path| self.at(path).open(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, mode))?;
        self.tell(FsOp::Created { file: inode(&file)?, path: Some(&path) })?;
        Ok((file, path))
    }
}

pub(crate) fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}

/// A file that is written from front to back and gets its name when it is complete. If it is dropped without a name, it
/// is removed.
#[derive(Debug)]
pub struct StagingFile {
    file: File,
    path: PathBuf,
    id: u64,
    end: u64,
    medium: FileSystem,
}

impl StagingFile {
    /// Gives the file the whole second behind now, and behind the time of modification of the file at `before`, if there is one.
    /// What is written later sets it to the time then.
    pub fn set_modified_after(&self, before: &Path) {
        let changed = std::fs::metadata(before).ok().and_then(|found| u64::try_from(found.mtime()).ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let seconds = now.max(changed.unwrap_or(0)).saturating_add(1);
        if let Some(time) = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)) {
            // The file is there as well without.
            let _ = self.file.set_times(FileTimes::new().set_modified(time));
        }
    }

    /// Syncs the file to the disk and names it `path`, replacing the file there.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn replace(mut self, path: &Path) -> io::Result<()> {
        self.medium.sync(&self.file, self.id)?;
        self.medium.rename(&self.path, path)?;
        self.path = PathBuf::new();
        Ok(())
    }

    /// Syncs the file to the disk and keeps its name.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn keep(mut self) -> io::Result<PathBuf> {
        self.medium.sync(&self.file, self.id)?;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Write for StagingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.medium.tell(FsOp::Write { file: self.id, offset: self.end, bytes })?;
        self.file.write_all_at(bytes, self.end)?;
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

/// Zeros if no boot is simulated. Not a lock, because refreshing a table reads it.
static PRETENDED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Simulates that the machine was booted with this id, or ends the simulation.
pub fn simulate_boot(boot: Option<[u8; 16]>) {
    let words = boot.unwrap_or_default().as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect::<Vec<_>>();
    PRETENDED.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
}

/// Returns the id of the machine's boot, or zeros if the system has none, or [`read_boot_id`] fails.
pub fn boot_id() -> [u8; 16] {
    read_boot_id().unwrap_or_default()
}

/// Returns the id of the machine's boot, or zeros if the system has none.
///
/// # Errors
/// Those of reading it, as for a process that has no free descriptor now. A failure is not remembered.
pub fn read_boot_id() -> io::Result<[u8; 16]> {
    static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
    let pretended = [0, 1].map(|half| PRETENDED[half].load(Ordering::Relaxed).to_ne_bytes());
    if pretended != [[0; 8]; 2] {
        let mut boot = [0; 16];
        boot.copy_from_slice(pretended.as_flattened());
        return Ok(boot);
    }
    if let Some(boot) = BOOT.get() {
        return Ok(*boot);
    }
    let text = match std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => return Ok([0; 16]),
        read => read?,
    };
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let id = u128::from_str_radix(&digits, 16);
    Ok(id.map_or([0; 16], |id| *BOOT.get_or_init(|| id.to_be_bytes())))
}

/// 0 if no mount is simulated.
static PRETENDED_MOUNT: AtomicU64 = AtomicU64::new(0);

/// Simulates that all files are opened through the mount with this id, or ends the simulation.
pub fn simulate_mount(mount: Option<u64>) {
    PRETENDED_MOUNT.store(mount.unwrap_or_default(), Ordering::Relaxed);
}

/// Returns through which mount `file` was opened.
///
/// # Errors
/// Those of the system.
pub(crate) fn mounted(file: &File) -> io::Result<MountInfo> {
    let there = crate::os::mounted(file)?;
    Ok(match PRETENDED_MOUNT.load(Ordering::Relaxed) {
        0 => there,
        mount => MountInfo { mount, ..there },
    })
}
