//! The file of a growing segment, as its one writer uses it.
//!
//! Large pieces go by pwrite(2), which costs no page faults and reports a full disk as an error. Small ones are stored
//! through a mapping of the whole file, but only where [`Store::prepare`] has reserved the blocks before: a store into
//! space that isn't there would be SIGBUS.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::medium::{Act, Medium, inode};
use super::watch::{FixedBytes, Look, Watch, WatchedFile, settle};
use super::{Mode, os, sys};
use crate::error::Result;

/// A file of fixed size, sparse at first, written by one process.
#[derive(Debug)]
pub(crate) struct Store {
    region: sys::MemoryRegion,
    file: File,
    watched: WatchedFile,
    /// Where a file lies that can't be created without a name, until it is given its own.
    part: Mutex<Option<PathBuf>>,
    forks: u64,
    medium: Medium,
    id: u64,
}

impl Store {
    /// A new file of `len` zeros in `folder`, which nobody can see until it gets a name.
    pub(crate) fn create(medium: &Medium, folder: &Path, len: u64) -> io::Result<Store> {
        check_size(len)?;
        medium.tell(Act::Make { folder })?;
        let (file, part) = match os::unnamed(folder)? {
            Some(file) => (file, None),
            None => medium.named_part(folder).map(|(file, path)| (file, Some(path)))?,
        };
        let id = inode(&file)?;
        if part.is_none() {
            medium.tell(Act::Made { file: id, path: None })?;
        }
        medium.tell(Act::Resize { file: id, len })?;
        file.set_len(len)?;
        Store::new(medium, file, part, folder)
    }

    /// The file at `path`, to go on writing.
    pub(crate) fn open(medium: &Medium, path: &Path) -> io::Result<Store> {
        medium.tell(Act::Open { path })?;
        Store::new(medium, File::options().read(true).write(true).open(path)?, None, path)
    }

    fn new(medium: &Medium, file: File, part: Option<PathBuf>, path: &Path) -> io::Result<Store> {
        let metadata = file.metadata()?;
        let (len, id) = (usize::try_from(metadata.len()).map_err(io::Error::other)?, metadata.ino());
        check_size(len as u64)?;
        medium.tell(Act::Map { file: id })?;
        let region = sys::MemoryRegion::of_file(&file, len, Mode::ReadWrite, path)?;
        let watched = WatchedFile::new(&metadata);
        let (part, medium) = (Mutex::new(part), medium.clone());
        Ok(Store { region, file, watched, part, forks: os::forks(), medium, id })
    }

    /// What nobody may change but by growing; see [`Store::look`].
    pub(crate) fn watch(&self, marks: Vec<FixedBytes>) {
        self.watched.set(Watch::InPlace(marks));
    }

    /// Whether the file still is the one that is written.
    ///
    /// # Errors
    /// `FileChanged`: somebody else has truncated or overwritten it.
    pub(crate) fn look(&self, when: Look) -> Result<()> {
        if !self.region.is_changed() && !self.watched.is_due(when) {
            return Ok(());
        }
        settle(&self.region, self.watched.look(&self.file, self.region.len() as u64))
    }

    /// Gives a new file its name.
    pub(crate) fn name(&self, path: &Path) -> io::Result<()> {
        let part = self.part.lock().map_or(None, |mut part| part.take());
        match part {
            None => {
                self.medium.tell(Act::Name { file: self.id, path })?;
                os::name(&self.file, path)
            }
            Some(part) => self.medium.rename(&part, path),
        }
    }

    /// Gives a new file the name of one that is there, in one step.
    pub(crate) fn replace(&self, path: &Path) -> io::Result<()> {
        let beside = part_name(path.parent().unwrap_or(Path::new(".")));
        self.name(&beside)?;
        self.medium.rename(&beside, path)
    }

    /// Writes `bytes` at `offset` (pwrite(2)).
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.medium.tell(Act::Write { file: self.id, offset, bytes })?;
        self.file.write_all_at(bytes, offset)
    }

    /// Writes `bytes` at `offset`, which are on the disk when this returns; nothing is said of other bytes of the file.
    pub(crate) fn write_synced(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.medium.tell(Act::WriteSynced { file: self.id, offset, bytes })?;
        os::write_synced(&self.file, offset, bytes)?;
        self.medium.tell(Act::WroteSynced { file: self.id, offset, len: bytes.len() as u64 })
    }

    /// Fills `into` with the bytes from `offset` on (pread(2)).
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Stores `bytes` at `offset`, which `prepare` has made ready: each aligned word of 8 in one go, in no order.
    #[inline]
    pub(crate) fn put(&self, offset: u64, bytes: &[u8]) {
        self.stored(offset, bytes);
        self.region.copy_in(offset as usize, bytes);
    }

    #[inline]
    fn stored(&self, offset: u64, bytes: &[u8]) {
        // Nobody can refuse a store.
        let _ = self.medium.tell(Act::Store { file: self.id, offset, bytes });
    }

    /// Fills `into` with the bytes from `offset` on, through the mapping: each aligned word of 8 in one go, in no order.
    pub(crate) fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.region.copy_out(offset as usize, into);
    }

    /// Makes sure that writing there can't fail for want of space; false where the file system can't.
    pub(crate) fn reserve(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.medium.tell(Act::Reserve { file: self.id, offset, len })?;
        os::allocate(&self.file, offset, len)
    }

    /// Makes ready for `put`; false where the file system can't reserve space. From byte `fresh` on, the start of a page,
    /// nothing has been written yet.
    pub(crate) fn prepare(&self, offset: u64, len: u64, fresh: u64) -> io::Result<bool> {
        let ready = self.reserve(offset, len)?;
        if ready {
            // Pages that were written are in memory, and are mapped several times as fast as ones that are not.
            if let Some(rest) = (offset + len).checked_sub(fresh) {
                self.write(fresh, &vec![0; rest as usize])?;
            }
            self.region.populate(offset as usize, len as usize);
        }
        Ok(ready)
    }

    /// Gives the blocks of a range back, which nobody looks at.
    pub(crate) fn release(&self, offset: u64, len: u64) -> io::Result<()> {
        self.medium.tell(Act::Release { file: self.id, offset, len })?;
        os::release(&self.file, offset, len)
    }

    /// Stores a word that readers load with acquire: whoever sees it sees everything stored before.
    #[inline]
    pub(crate) fn publish64(&self, offset: u64, value: u64) {
        self.stored(offset, &value.to_le_bytes());
        self.region.word64(offset as usize).store(value, Ordering::Release);
    }

    /// As [`Store::publish64`].
    pub(crate) fn publish32(&self, offset: u64, value: u32) {
        self.stored(offset, &value.to_le_bytes());
        self.region.word32(offset as usize).store(value, Ordering::Release);
    }

    /// The word at `offset`.
    #[inline]
    pub(crate) fn load64(&self, offset: u64) -> u64 {
        self.region.word64(offset as usize).load(Ordering::Acquire)
    }

    /// The word at `offset`.
    pub(crate) fn load32(&self, offset: u64) -> u32 {
        self.region.word32(offset as usize).load(Ordering::Acquire)
    }

    /// Wakes those who sleep on the word at `asleep_on`.
    pub(crate) fn wake(&self, asleep_on: u64) {
        self.region.wake(asleep_on as usize);
    }

    /// Returns when everything written is on the disk (fdatasync(2)).
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.medium.sync(&self.file, self.id)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let is_ours = self.forks == os::forks();
        if let Ok(Some(part)) = self.part.get_mut().map(|part| part.take().filter(|_| is_ours)) {
            // It never got its name; a failure to remove it can't be mended here.
            let _ = self.medium.remove(&part);
        }
    }
}

/// Whether files of `len` bytes may be written: where they may not, the system would end the process by a signal.
fn check_size(len: u64) -> io::Result<()> {
    if len <= os::file_size_limit() { Ok(()) } else { Err(os::too_large()) }
}

/// A name beside the folder that nothing has yet, so that whoever lists the folder never sees it.
pub(crate) fn part_name(folder: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (name, number) =
        (folder.file_name().unwrap_or_default().to_string_lossy(), NUMBER.fetch_add(1, Ordering::Relaxed));
    folder.parent().unwrap_or(Path::new(".")).join(format!(".{name}.{}.{number}.part", std::process::id()))
}

/// Removes what a writer of `folder` that was killed has left beside it. Only for who holds the folder's lock: then nobody
/// else has a use for such a file.
pub(crate) fn remove_parts(folder: &Path) {
    let name = format!(".{}.", folder.file_name().unwrap_or_default().to_string_lossy());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_part = |file: &str| {
        let numbers = file.strip_prefix(&name).and_then(|rest| rest.strip_suffix(".part"));
        numbers.and_then(|numbers| numbers.split_once('.')).is_some_and(|(pid, n)| is_number(pid) && is_number(n))
    };
    let beside = folder.parent().unwrap_or(Path::new("."));
    for entry in std::fs::read_dir(beside).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_part) {
            // One that stays costs space and nothing else.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A folder that one process alone writes to, as long as this lives.
#[derive(Debug)]
pub(crate) struct Lock {
    folder: File,
    path: PathBuf,
    forks: u64,
    medium: Medium,
}

impl Lock {
    /// Takes the lock; `None` when another process has it.
    pub(crate) fn take(medium: &Medium, path: &Path) -> io::Result<Option<Lock>> {
        medium.tell(Act::Lock { path })?;
        let folder = File::open(path)?;
        let (path, medium) = (path.to_path_buf(), medium.clone());
        Ok(os::try_lock(&folder)?.then(|| Lock { folder, path, forks: os::forks(), medium }))
    }

    /// Whether this process is the one that took the lock, and no fork of it.
    #[inline]
    pub(crate) fn is_ours(&self) -> bool {
        os::forks() == self.forks
    }

    /// Returns when names given and taken in the folder are on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.medium.sync_folder(&self.path)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_ours() {
            // A fork has the same lock, and would keep it.
            os::unlock(&self.folder);
        }
    }
}

/// What kind of file system `folder` is on, where it is one that mappings can't be relied on.
pub(crate) fn remote(folder: &Path) -> io::Result<Option<&'static str>> {
    os::remote(folder)
}
