//! The file of a growing segment, for its one writer.
//!
//! Large pieces are written by pwrite(2), which causes no page faults and reports a full disk as an error. Small ones
//! are stored through a mapping of the whole file, but only after [`SharedFile::prepare`] has reserved the blocks: a store
//! without blocks could raise SIGBUS. If one does all the same, no store behind it reaches the file either: the record of a
//! commit is stored before the number that makes it count.

use crate::sync::MutexExt;
use std::fs::{File, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::change_check::{AllowedChanges, ChangeCheck, ChangeDetector, FixedBytes, settle};
use crate::checksum::{ByteRun, ByteRunChange, ByteRunEnd};
use crate::error::Result;
use crate::fault_cause::MappedOrigin;
use crate::file_system::{FileSystem, FsOp, inode, mounted};
use crate::mapping::{Mapping, file_word};
use crate::metadata::metadata_at;
use crate::mode::Mode;
use crate::unfinished_file::take_over;
use crate::{os, sys};

/// The bytes in which holes are looked for.
const BLOCK: usize = 4096;

/// What holes are rounded to.
const PAGE: u64 = 4096;

/// The most bytes whose pages a file system keeps together in memory.
const TOGETHER: u64 = 8 << 20;

/// The bytes that are read at once for a checksum.
const CHUNK: u64 = 64 << 10;

/// A file of fixed size, sparse at first, with one writing process.
#[derive(Debug)]
pub struct SharedFile {
    region: sys::MemoryRegion,
    file: Arc<File>,
    watched: ChangeDetector,
    /// The temporary path of a file that has no other one yet, and goes with the store.
    part: Mutex<Option<PathBuf>>,
    forks: u64,
    medium: FileSystem,
    id: u64,
}

impl SharedFile {
    /// Creates a file of `len` zeros in `folder`, invisible until it is named.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn create(medium: &FileSystem, folder: &Path, len: u64) -> io::Result<SharedFile> {
        check_size(len)?;
        medium.tell(FsOp::Create { folder })?;
        let (file, part) = match os::unnamed(&medium.at(folder), 0o644)? {
            Some(file) => (file, None),
            None => medium.named_part(folder, 0o666).map(|(file, path)| (file, Some(path)))?,
        };
        let id = inode(&file)?;
        if part.is_none() {
            medium.tell(FsOp::Created { file: id, path: None })?;
        }
        medium.tell(FsOp::Resize { file: id, len })?;
        file.set_len(len)?;
        SharedFile::new(medium, file, part, folder)
    }

    /// Opens the file at `path` to continue writing.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn open(medium: &FileSystem, path: &Path) -> io::Result<SharedFile> {
        medium.tell(FsOp::Open { path })?;
        SharedFile::new(medium, medium.at(path).open(libc::O_RDWR, 0)?, None, path)
    }

    fn new(medium: &FileSystem, file: File, part: Option<PathBuf>, path: &Path) -> io::Result<SharedFile> {
        let metadata = file.metadata()?;
        let len = usize::try_from(metadata.len()).map_err(io::Error::other)?;
        let id = metadata.ino();
        check_size(len as u64)?;
        medium.tell(FsOp::Map { file: id })?;
        let file = Arc::new(file);
        let region = sys::MemoryRegion::map_file(&file, len, Mode::ReadWrite, MappedOrigin::with_file(path, &file))?;
        region.lose_whole();
        let watched = ChangeDetector::new(&metadata);
        let part = Mutex::new(part);
        let medium = medium.clone();
        Ok(SharedFile { region, file, watched, part, forks: os::fork_count(), medium, id })
    }

    /// Sets the bytes that must not change; see [`SharedFile::check_unchanged`].
    pub fn set_fixed_bytes(&self, marks: Vec<FixedBytes>) {
        self.watched.set(AllowedChanges::InPlace(marks));
    }

    /// Checks that the file is still the one being written.
    ///
    /// # Errors
    /// `FileChanged` if another process has truncated or overwritten it.
    pub fn check_unchanged(&self, when: ChangeCheck) -> Result<()> {
        if !self.region.is_changed() && !self.watched.is_due(when) {
            return Ok(());
        }
        settle(&self.region, Ok(self.watched.look(&self.file, self.region.len() as u64)))
    }

    /// Checks that what was stored is in the file. After a store that could not be made, none is.
    ///
    /// # Errors
    /// `Io` if the disk fails or is full, `FileChanged` as [`SharedFile::check_unchanged`].
    #[inline]
    pub fn check_stored(&self) -> Result<()> {
        if self.region.is_changed() { self.check_unchanged(ChangeCheck::Now) } else { Ok(()) }
    }

    /// Names a new file.
    ///
    /// # Errors
    /// `AlreadyExists` if there is a file of that name; those of the system, or of the witness.
    pub fn link_at(&self, path: &Path) -> io::Result<()> {
        let part = self.part().take();
        let Some(part) = part else {
            self.medium.check_directory()?;
            self.medium.tell(FsOp::Name { file: self.id, path })?;
            return os::name(&self.file, &self.medium.at(path));
        };
        if let Err(e) = self.medium.rename_noreplace(&part, path) {
            *self.part() = Some(part);
            return Err(e);
        }
        let named = self.medium.at(path);
        if self.is(named.identity()?)? {
            return Ok(());
        }
        // The temporary name was that of another writer's file: of one whose directory has got this one's name.
        named.rename_to_free(&self.medium.at(&part))?;
        Err(io::Error::other("another writer took the file's temporary name; open the table anew"))
    }

    /// Whether a file of this device and inode number is this one.
    fn is(&self, identity: (u64, u64)) -> io::Result<bool> {
        let own = self.file.metadata()?;
        Ok((own.dev(), own.ino()) == identity)
    }

    /// Whether the file is the mapped one.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_mapped_by(&self, mapping: &Mapping) -> io::Result<bool> {
        mapping.identity().map_or(Ok(false), |identity| self.is(identity))
    }

    /// Gives a new file a name under which another process finds it, until [`SharedFile::link_at`] gives it its final name.
    /// Removed with the store if that does not happen.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn link_temporarily(&self, path: &Path) -> io::Result<()> {
        if self.part().as_deref() == Some(path) {
            // It was named before something else failed.
            return Ok(());
        }
        self.link_at(path)?;
        *self.part() = Some(path.to_path_buf());
        Ok(())
    }

    fn part(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.part.lock_ignoring_poison()
    }

    /// Returns the id of the mount through which the file was opened; see [`Mapping::mount_info`].
    ///
    /// # Errors
    /// Those of the system.
    pub fn mount(&self) -> io::Result<u64> {
        Ok(mounted(&self.file)?.mount)
    }

    /// Whether the file has lost its name.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_removed(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() == 0)
    }

    /// Whether there is no file at `path`, or another one than this.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_not_at(&self, path: &Path) -> io::Result<bool> {
        match self.medium.at(path).identity() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
            there => Ok(there?.1 != self.id),
        }
    }

    /// Names a new file, replacing an existing one atomically, with its permissions, and its owner and group if this
    /// process may set them. If that fails, nothing is left of it once the store is dropped.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn replace(&self, path: &Path) -> io::Result<()> {
        metadata_at(path)?.map_or(Ok(()), |there| take_over(&self.file, &there))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let ((), part) = self.medium.with_part_name(folder, |part| self.link_at(part))?;
        let renamed = self.medium.rename(&part, path);
        if renamed.is_err() {
            *self.part() = Some(part);
        }
        renamed
    }

    /// Writes `bytes` at `offset` (pwrite(2)).
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.medium.tell(FsOp::Write { file: self.id, offset, bytes })?;
        self.file.write_all_at(bytes, offset)
    }

    /// Writes `bytes` at `offset` and syncs them to the disk; other bytes of the file may not be synced.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn write_synced(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.medium.tell(FsOp::WriteSynced { file: self.id, offset, bytes })?;
        os::write_synced(&self.file, offset, bytes)?;
        self.medium.tell(FsOp::WroteSynced { file: self.id, offset, len: bytes.len() as u64 })
    }

    /// Fills `into` with the bytes from `offset` on (pread(2)).
    ///
    /// # Errors
    /// Those of the system; `UnexpectedEof` past the end.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Returns the offset of the first byte from `offset` on that is not in a hole, if the file system tells; `None` if there
    /// is none.
    ///
    /// # Errors
    /// Those of the system.
    pub fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        os::next_data(&self.file, offset)
    }

    /// Stores `bytes` at `offset`, which must be prepared by `prepare`: each aligned 8-byte word atomically, in no
    /// order.
    #[inline]
    pub fn put(&self, offset: u64, bytes: &[u8]) {
        self.stored(offset, bytes);
        self.region.copy_in(offset as usize, bytes);
    }

    #[inline]
    fn stored(&self, offset: u64, bytes: &[u8]) {
        if self.medium.has_witness() {
            self.tell_stored(offset, bytes);
        }
    }

    #[cold]
    fn tell_stored(&self, offset: u64, bytes: &[u8]) {
        // A store can't be refused.
        let _ = self.medium.tell(FsOp::StoreMapped { file: self.id, offset, bytes });
    }

    /// Fills `into` with the bytes from `offset` on, through the mapping: each aligned 8-byte word atomically, in no
    /// order.
    #[inline]
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.region.copy_out(offset as usize, into);
    }

    /// Takes the bytes up to the end of each run into its checksum, if those are no more than `most`.
    #[inline]
    pub fn checksum(&self, runs: &mut [ByteRun], ends: impl Iterator<Item = ByteRunEnd>, most: u64) -> ByteRunChange {
        self.region.checksum(runs, ends, most)
    }

    /// Continues the CRC-32C `crc` with `len` bytes from `offset` on, by pread(2): pages that were written, and not stored
    /// to, are not mapped.
    ///
    /// # Errors
    /// Those of the system.
    pub fn crc32c(&self, mut crc: u32, offset: u64, len: u64) -> io::Result<u32> {
        let mut chunk = vec![0; len.min(CHUNK) as usize];
        for at in (0..len).step_by(CHUNK as usize) {
            let part = &mut chunk[..(len - at).min(CHUNK) as usize];
            self.read(offset + at, part)?;
            crc = crc32c::crc32c_append(crc, part);
        }
        Ok(crc)
    }

    /// Reserves space, so that writing there can't fail for lack of it. Returns false if the file system can't.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn reserve(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.medium.tell(FsOp::Reserve { file: self.id, offset, len })?;
        os::allocate(&self.file, offset, len)
    }

    /// Reserves space for bytes that were written before. Where the file system can't, writes zeros over blocks of zeros,
    /// which may be holes.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn fill_holes(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.reserve(offset, len)? {
            return Ok(());
        }
        let mut block = [0; BLOCK];
        for at in (offset..offset + len).step_by(BLOCK) {
            let part = &mut block[..(offset + len - at).min(BLOCK as u64) as usize];
            self.read(at, part)?;
            if part.iter().all(|&byte| byte == 0) {
                self.write(at, part)?;
            }
        }
        Ok(())
    }

    /// Prepares a range for `put`. Returns false if the file system can't: write there. Nothing has been written from
    /// byte `fresh` on, the start of a page.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn prepare(&self, offset: u64, len: u64, fresh: u64) -> io::Result<bool> {
        let ready = self.reserve(offset, len)?;
        if ready {
            // Written pages are in memory, and are mapped several times as fast as others.
            if let Some(rest) = (offset + len).checked_sub(fresh) {
                self.write(fresh, &vec![0; rest as usize])?;
            }
            // A store would raise a signal where the file system is full after all: pwrite(2) says so. It would make a file
            // longer that another process has cut off, and the signal tells of that.
            let is_cut = || self.file.metadata().map(|metadata| metadata.len() < self.region.len() as u64);
            return Ok(self.region.populate(offset as usize, len as usize) || is_cut()?);
        }
        Ok(false)
    }

    /// Makes the pages of a range that has blocks ready for stores, which need no space then.
    ///
    /// # Errors
    /// Those of the system, or of the witness; that of a full disk where the file system wants blocks for pages around, too.
    pub fn populate(&self, offset: u64, len: u64) -> io::Result<()> {
        let is_ready = || self.region.populate(offset as usize, len as usize);
        // The signal of a store tells that another process has cut the file off.
        let is_cut = || self.file.metadata().map(|metadata| metadata.len() < self.region.len() as u64);
        if is_ready() || is_cut()? {
            return Ok(());
        }
        self.read(offset, &mut vec![0; len as usize])?;
        self.part_from_holes(offset, offset + len)?;
        if is_ready() || is_cut()? { Ok(()) } else { Err(os::no_space()) }
    }

    /// Lets the file system keep the pages from `start` to `end` apart from those of holes beside them: where it keeps many pages
    /// together (ext4 since Linux 6.16), it wants blocks for all of them before one is stored to.
    fn part_from_holes(&self, start: u64, end: u64) -> io::Result<()> {
        let size = self.region.len() as u64;
        let mut holes = Vec::new();
        let mut at = start.saturating_sub(TOGETHER);
        while let Some(hole) = os::next_hole(&self.file, at).filter(|&hole| hole < size.min(end + TOGETHER)) {
            at = self.next_data(hole)?.unwrap_or(size);
            // A store that failed may have got some of the blocks of a page.
            let (before, behind) = (hole - hole % PAGE, at.next_multiple_of(PAGE));
            let from = if self.is_zero(before, hole)? { before } else { before + PAGE };
            let to = if behind <= size && self.is_zero(at, behind)? { behind } else { at - at % PAGE };
            holes.push((from, to));
        }
        // Nothing is released but zeros.
        let beside = holes.into_iter().filter(|&(from, to)| from < to && (to <= start || from >= end));
        beside.into_iter().try_for_each(|(from, to)| self.release(from, to - from))
    }

    fn is_zero(&self, from: u64, to: u64) -> io::Result<bool> {
        let mut bytes = vec![0; (to - from) as usize];
        self.read(from, &mut bytes)?;
        Ok(bytes.iter().all(|&byte| byte == 0))
    }

    /// Releases the blocks of a range that is not in use.
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn release(&self, offset: u64, len: u64) -> io::Result<()> {
        self.medium.tell(FsOp::Release { file: self.id, offset, len })?;
        os::release(&self.file, offset, len)
    }

    /// Stores a word (release): a reader that loads it (acquire) sees everything stored before.
    #[inline]
    pub fn publish64(&self, offset: u64, value: u64) {
        self.stored(offset, &value.to_le_bytes());
        self.region.word64(offset as usize).store(value, Ordering::Release);
    }

    /// As [`SharedFile::publish64`].
    #[inline]
    pub fn publish32(&self, offset: u64, value: u32) {
        self.stored(offset, &value.to_le_bytes());
        self.region.word32(offset as usize).store(value, Ordering::Release);
    }

    /// The word at `offset`.
    #[inline]
    pub fn load64(&self, offset: u64) -> u64 {
        self.region.word64(offset as usize).load(Ordering::Acquire)
    }

    /// The word at `offset`.
    #[inline]
    pub fn load32(&self, offset: u64) -> u32 {
        self.region.word32(offset as usize).load(Ordering::Acquire)
    }

    /// Wakes the readers that wait at `asleep_on`.
    pub fn wake(&self, asleep_on: u64) {
        self.region.wake(asleep_on as usize);
    }

    /// Which file it is: see [`Mapping::file_fingerprint`].
    ///
    /// # Errors
    /// Those of the system.
    pub fn file_fingerprint(&self) -> io::Result<u64> {
        Ok(file_word(&self.file.metadata()?))
    }

    /// Whether the file has the modification time `seconds`, to the nanosecond.
    pub fn has_modified_time(&self, seconds: u64) -> bool {
        let has = |found: Metadata| found.mtime() == seconds.cast_signed() && found.mtime_nsec() == 0;
        self.file.metadata().is_ok_and(has)
    }

    /// The next whole second behind now, behind the file's modification time, and behind `last`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn next_modified_time(&self, last: u64) -> io::Result<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let changed = u64::try_from(self.file.metadata()?.mtime()).unwrap_or(0);
        Ok(now.max(changed).max(last).saturating_add(1))
    }

    /// Gives the file a modification time. What is stored later sets it to the time then.
    ///
    /// # Errors
    /// Those of the system: only who owns a file may choose its times.
    pub fn set_modified_time(&self, seconds: u64) -> io::Result<()> {
        let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).ok_or(io::ErrorKind::InvalidInput)?;
        self.file.set_times(FileTimes::new().set_modified(time))
    }

    /// Whether this process is the one that opened the file, and no fork of it.
    pub fn is_ours(&self) -> bool {
        self.forks == os::fork_count()
    }

    /// Syncs everything written to the disk (fdatasync(2)).
    ///
    /// # Errors
    /// Those of the system, or of the witness.
    pub fn sync(&self) -> io::Result<()> {
        self.medium.sync(&self.file, self.id)
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        let is_ours = self.forks == os::fork_count();
        if let Ok(Some(part)) = self.part.get_mut().map(|part| part.take().filter(|_| is_ours)) {
            // The file was never named; a failed removal has no remedy.
            let _ = self.medium.remove(&part);
        }
    }
}

/// Checks that files of `len` bytes may be written: beyond the limit, a signal would end the process.
fn check_size(len: u64) -> io::Result<()> {
    if len <= os::file_size_limit() { Ok(()) } else { Err(os::too_large()) }
}
