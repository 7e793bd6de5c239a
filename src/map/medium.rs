//! What a writer does to its disk, act by act: the one small interface on which crashes and errors are simulated.
//!
//! Whatever changes a file or a name goes through [`Medium`] and what it makes ([`super::Store`], [`super::Lock`],
//! [`Part`]). A medium may have a [`Witness`], which hears of each act before it is done and may refuse it. With the acts
//! of a run a test knows all that the disk may hold after a crash at any moment of it.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// One thing that is done to a disk. Files are known by their inode's number.
#[derive(Clone, Copy, Debug)]
pub enum Act<'a> {
    /// A folder is made (mkdir(2)).
    MakeFolder {
        /// Its path.
        path: &'a Path,
    },
    /// A folder is locked, or opened to be.
    Lock {
        /// Its path.
        path: &'a Path,
    },
    /// A new file is about to be made in, or beside, a folder.
    Make {
        /// The folder.
        folder: &'a Path,
    },
    /// It is there, without a name or under one that nobody looks for.
    Made {
        /// The file.
        file: u64,
        /// What it is called until it gets its name.
        path: Option<&'a Path>,
    },
    /// A file that is there is opened to be written.
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
    /// Bytes are written and brought to the disk, these alone (pwritev2(2) with `RWF_DSYNC`).
    WriteSynced {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// They are on the disk: what was said by `WriteSynced` has been done.
    WroteSynced {
        /// The file.
        file: u64,
        /// Where they begin.
        offset: u64,
        /// How many they are.
        len: u64,
    },
    /// Bytes are stored through a mapping; nobody can refuse that.
    Store {
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
    /// Blocks are given back; their bytes read as zeros (fallocate(2)).
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
    /// A name is changed; what had the new one is gone (rename(2)).
    Rename {
        /// The old name.
        from: &'a Path,
        /// The new name.
        to: &'a Path,
    },
    /// A name is taken away (unlink(2)).
    Remove {
        /// The name.
        path: &'a Path,
    },
    /// What is in a file is brought to the disk (fdatasync(2)).
    Sync {
        /// The file.
        file: u64,
    },
    /// A file is on the disk: what was said by `Sync` has been done.
    Synced {
        /// The file.
        file: u64,
    },
    /// The names in a folder are brought to the disk (fsync(2)).
    SyncFolder {
        /// The folder.
        path: &'a Path,
    },
    /// They are: what was said by `SyncFolder` has been done.
    SyncedFolder {
        /// The folder.
        path: &'a Path,
    },
}

/// Somebody who watches a disk. Called from the writer's thread and from its companion's.
pub trait Witness: Debug + Send + Sync {
    /// Hears of an act before it is done; an error is what the act fails with, in its place.
    ///
    /// # Errors
    /// What the act is to fail with.
    fn hear(&self, act: Act<'_>) -> io::Result<()>;
}

/// The disk that a writer writes to.
#[derive(Clone, Debug, Default)]
pub struct Medium(Option<Arc<dyn Witness>>);

impl Medium {
    /// The disk, with somebody who watches.
    pub fn watched(witness: Arc<dyn Witness>) -> Medium {
        Medium(Some(witness))
    }

    #[inline]
    pub(super) fn tell(&self, act: Act<'_>) -> io::Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(witness) => witness.hear(act),
        }
    }

    /// Makes a folder whose name is on the disk when this returns.
    pub(crate) fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.tell(Act::MakeFolder { path })?;
        std::fs::create_dir(path)?;
        self.sync_folder(path.parent().unwrap_or(path))
    }

    /// Returns when names given and taken in the folder are on the disk.
    pub(crate) fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // What a bare name is in.
        let path = if path == Path::new("") { Path::new(".") } else { path };
        self.tell(Act::SyncFolder { path })?;
        File::open(path)?.sync_all()?;
        self.tell(Act::SyncedFolder { path })
    }

    /// Returns when what is in the file, of number `id`, is on the disk (fdatasync(2)).
    pub(super) fn sync(&self, file: &File, id: u64) -> io::Result<()> {
        self.tell(Act::Sync { file: id })?;
        file.sync_data()?;
        self.tell(Act::Synced { file: id })
    }

    /// Takes a name away.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.tell(Act::Remove { path })?;
        std::fs::remove_file(path)
    }

    /// Changes a name.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.tell(Act::Rename { from, to })?;
        std::fs::rename(from, to)
    }

    /// A new file beside `folder`, to be written from front to back.
    pub(crate) fn part(&self, folder: &Path) -> io::Result<Part> {
        let (file, path) = self.named_part(folder)?;
        let id = inode(&file)?;
        Ok(Part { file, path, id, end: 0, medium: self.clone() })
    }

    /// A file beside the folder, so that whoever lists the folder never sees it.
    pub(super) fn named_part(&self, folder: &Path) -> io::Result<(File, PathBuf)> {
        let path = super::part_name(folder);
        self.tell(Act::Make { folder })?;
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        self.tell(Act::Made { file: inode(&file)?, path: Some(&path) })?;
        Ok((file, path))
    }
}

pub(super) fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}

/// A file that is written from front to back and gets its name when it is complete; without one it is removed.
#[derive(Debug)]
pub(crate) struct Part {
    file: File,
    path: PathBuf,
    id: u64,
    end: u64,
    medium: Medium,
}

impl Part {
    /// Brings the file to the disk, and gives it the name `path` in the place of what has it.
    pub fn replace(mut self, path: &Path) -> io::Result<()> {
        self.medium.sync(&self.file, self.id)?;
        self.medium.rename(&self.path, path)?;
        self.path = PathBuf::new();
        Ok(())
    }

    /// Brings the file to the disk, to stay under the name it has.
    pub fn keep(mut self) -> io::Result<PathBuf> {
        self.medium.sync(&self.file, self.id)?;
        Ok(std::mem::take(&mut self.path))
    }
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.medium.tell(Act::Write { file: self.id, offset: self.end, bytes })?;
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.path != Path::new("") {
            // A failure to remove it can't be mended here.
            let _ = self.medium.remove(&self.path);
        }
    }
}

/// Zeros where nothing is pretended. No lock: who refreshes a table asks for the boot.
static PRETENDED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Makes this process believe that the machine was started with this id, or what is true again.
pub fn pretend_boot(boot: Option<[u8; 16]>) {
    let words = boot.unwrap_or_default().as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect::<Vec<_>>();
    PRETENDED.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
}

/// This boot of the machine, or zeros where the system doesn't say.
pub(crate) fn boot_id() -> [u8; 16] {
    static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
    let pretended = [0, 1].map(|half| PRETENDED[half].load(Ordering::Relaxed).to_ne_bytes());
    if pretended != [[0; 8]; 2] {
        let mut boot = [0; 16];
        boot.copy_from_slice(pretended.as_flattened());
        return boot;
    }
    *BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
    })
}
