//! Writes the file of a growing segment, for its one writer.
//!
//! Large pieces are written by pwrite(2), which causes no page faults and reports a full disk as an error. Small ones
//! are stored through a mapping of the whole file, but only after [`SharedFile::prepare`] has reserved the blocks, as a
//! store without blocks could raise SIGBUS. If a store raises it nevertheless, later stores don't reach the file
//! either. So a commit whose record was lost doesn't count, because its number is stored after the record.

use std::fs::{File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::change_check::{AllowedChanges, ChangeCheck, ChangeDetector, FixedBytes, record_change};
use crate::checksum::{ByteRun, ByteRunChange, ByteRunEnd};
use crate::disk::{FileSystem, FsOp, inode, mounted};
use crate::error::Result;
use crate::fault_cause::MappedOrigin;
use crate::mapping::{Mapping, fingerprint_of};
use crate::metadata::stat;
use crate::mode::Mode;
use crate::os::FileInfo;
use crate::sync::MutexExt;
use crate::{os, sys};

/// The number of bytes that are checked for zeros, and rewritten, at once.
const BLOCK: usize = 4096;

/// The size of pages, to which holes are rounded.
const PAGE: u64 = 4096;

/// The maximum number of bytes whose pages a file system keeps together in memory.
const MAX_FOLIO: u64 = 8 << 20;

/// The number of bytes that are read at once for a checksum.
const CHUNK: u64 = 64 << 10;

/// A file of fixed size, sparse at first, with one writing process.
#[derive(Debug)]
pub struct SharedFile {
    region: sys::MemoryRegion,
    file: Arc<File>,
    changes: ChangeDetector,
    /// The temporary path of a file that has no other one yet. It is removed on drop.
    part: Mutex<Option<PathBuf>>,
    forks: u64,
    medium: FileSystem,
    /// The inode number.
    id: u64,
}

impl SharedFile {
    /// Creates a file of `len` zeros in `folder`, invisible until it is named.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn create(medium: &FileSystem, folder: &Path, len: u64) -> io::Result<SharedFile> {
        check_size(len)?;
        medium.tell(FsOp::Create { folder })?;
        let (file, part) = match os::create_unnamed_in(&medium.at(folder), 0o644)? {
            Some(file) => (file, None),
            None => medium.create_part(folder, 0o666).map(|(file, path)| (file, Some(path)))?,
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
    /// Errors of the system and of the observer.
    pub fn open(medium: &FileSystem, path: &Path) -> io::Result<SharedFile> {
        medium.tell(FsOp::Open { path })?;
        SharedFile::new(medium, medium.at(path).open_to_write()?, None, path)
    }

    fn new(medium: &FileSystem, file: File, part: Option<PathBuf>, path: &Path) -> io::Result<SharedFile> {
        let metadata = FileInfo::from_file(&file)?;
        let len = usize::try_from(metadata.len()).map_err(io::Error::other)?;
        let (_, id) = os::file_identity(&metadata);
        check_size(len as u64)?;
        medium.tell(FsOp::Map { file: id })?;
        let file = Arc::new(file);
        let region = sys::MemoryRegion::map_file(&file, len, Mode::ReadWrite, MappedOrigin::with_file(path, &file))?;
        region.lose_whole();
        let changes = ChangeDetector::new(&metadata);
        let part = Mutex::new(part);
        let medium = medium.clone();
        Ok(SharedFile { region, file, changes, part, forks: os::fork_count(), medium, id })
    }

    /// Sets the bytes that must not change; see [`SharedFile::check_unchanged`].
    pub fn set_fixed_bytes(&self, marks: Vec<FixedBytes>) {
        self.changes.set(AllowedChanges::InPlace(marks));
    }

    /// Checks that no other process has changed the file.
    ///
    /// # Errors
    /// `FileChanged` if another process has truncated or overwritten it.
    pub fn check_unchanged(&self, when: ChangeCheck) -> Result<()> {
        if !self.region.is_changed() && !self.changes.is_due(when) {
            return Ok(());
        }
        record_change(&self.region, self.changes.find_change(&self.file, &self.region)?)
    }

    /// Checks that all stores have reached the file. After a store that failed, none reaches it.
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
    /// `AlreadyExists` if there is a file of that name; errors of the system and of the observer.
    pub fn link_at(&self, path: &Path) -> io::Result<()> {
        let part = self.part().take();
        let Some(part) = part else {
            self.medium.check_directory()?;
            self.medium.tell(FsOp::Name { file: self.id, path })?;
            return os::name_unnamed(&self.file, &self.medium.at(path));
        };
        if let Err(e) = self.medium.rename_noreplace(&part, path) {
            *self.part() = Some(part);
            return Err(e);
        }
        let named = self.medium.at(path);
        if self.has_identity(named.identity()?)? {
            return Ok(());
        }
        // The temporary name belonged to the file of another writer, whose directory has got the name of this one's.
        named.rename_to_free(&self.medium.at(&part))?;
        Err(io::Error::other("another writer took the file's temporary name; open the table anew"))
    }

    /// Returns true if the file has this device and inode number.
    fn has_identity(&self, identity: (u64, u64)) -> io::Result<bool> {
        Ok(os::file_identity(&FileInfo::from_file(&self.file)?) == identity)
    }

    /// Returns true if the file is the mapped one.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_mapped_by(&self, mapping: &Mapping) -> io::Result<bool> {
        match mapping.identity() {
            Some(identity) => self.has_identity(identity),
            None => Ok(false),
        }
    }

    /// Gives a new file a name under which another process finds it, until [`SharedFile::link_at`] gives it its final
    /// name.
    ///
    /// If that does not happen, the file is removed on drop.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn link_temporarily(&self, path: &Path) -> io::Result<()> {
        if self.part().as_deref() == Some(path) {
            // An earlier call named it before another step failed.
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
    /// Errors of the system.
    pub fn mount(&self) -> io::Result<u64> {
        Ok(mounted(&self.file)?.mount)
    }

    /// Returns true if the file has lost its name.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_removed(&self) -> io::Result<bool> {
        Ok(os::is_removed(&FileInfo::from_file(&self.file)?))
    }

    /// Returns true if there is no file at `path`, or a different one.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_not_at(&self, path: &Path) -> io::Result<bool> {
        match self.medium.at(path).identity() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(e) => Err(e),
            Ok((_, inode)) => Ok(inode != self.id),
        }
    }

    /// Names a new file.
    ///
    /// Replaces an existing one atomically, and takes over its permissions, and its owner and group if this process may
    /// set them. If that fails, the file is removed on drop.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn replace(&self, path: &Path) -> io::Result<()> {
        if let Some(replaced) = stat(path)? {
            os::take_over(&self.file, &replaced)?;
        }
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
    /// Errors of the system and of the observer.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.medium.tell(FsOp::Write { file: self.id, offset, bytes })?;
        os::write_all_at(&self.file, bytes, offset)
    }

    /// Writes `bytes` at `offset` and syncs them to the disk; other bytes of the file may not be synced.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn write_synced(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.medium.tell(FsOp::WriteSynced { file: self.id, offset, bytes })?;
        os::write_synced(&self.file, offset, bytes)?;
        self.medium.tell(FsOp::WroteSynced { file: self.id, offset, len: bytes.len() as u64 })
    }

    /// Fills `into` with the bytes from `offset` on (pread(2)).
    ///
    /// # Errors
    /// Errors of the system; `UnexpectedEof` past the end.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        os::read_exact_at(&self.file, into, offset)
    }

    /// Returns the offset of the first byte from `offset` on that is not in a hole; `None` if there is none.
    ///
    /// If the file system can't report holes, no byte counts as in one.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        os::next_data(&self.file, offset)
    }

    /// Stores `bytes` at `offset`, each aligned 8-byte word atomically, in no order.
    ///
    /// The range must be prepared by [`SharedFile::prepare`].
    #[inline]
    pub fn put(&self, offset: u64, bytes: &[u8]) {
        self.observe_store(offset, bytes);
        self.region.copy_in(offset as usize, bytes);
    }

    #[inline]
    fn observe_store(&self, offset: u64, bytes: &[u8]) {
        if self.medium.has_observer() {
            self.report_store(offset, bytes);
        }
    }

    #[cold]
    fn report_store(&self, offset: u64, bytes: &[u8]) {
        // A store can't be refused.
        let _ = self.medium.tell(FsOp::StoreMapped { file: self.id, offset, bytes });
    }

    /// Fills `into` with the bytes from `offset` on, through the mapping, each aligned 8-byte word atomically, in no
    /// order.
    #[inline]
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.region.copy_out(offset as usize, into);
    }

    /// Extends the checksum of each run up to its end, if it has at most `max_len` new bytes.
    #[inline]
    pub fn checksum(
        &self,
        runs: &mut [ByteRun],
        ends: impl Iterator<Item = ByteRunEnd>,
        max_len: u64,
    ) -> ByteRunChange {
        self.region.checksum(runs, ends, max_len)
    }

    /// Continues the CRC-32C `crc` with `len` bytes from `offset` on.
    ///
    /// Reads by pread(2), which maps no pages that were written and not stored to.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn crc32c(&self, mut crc: u32, offset: u64, len: u64) -> io::Result<u32> {
        let mut chunk = vec![0; len.min(CHUNK) as usize];
        for start in (0..len).step_by(CHUNK as usize) {
            let part = &mut chunk[..(len - start).min(CHUNK) as usize];
            self.read(offset + start, part)?;
            crc = crc32c::crc32c_append(crc, part);
        }
        Ok(crc)
    }

    /// Reserves space, so that writing there can't fail because the disk is full.
    ///
    /// Returns false if the file system can't reserve any.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn reserve(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.medium.tell(FsOp::Reserve { file: self.id, offset, len })?;
        os::allocate(&self.file, offset, len)
    }

    /// Reserves space for bytes that were written before.
    ///
    /// If the file system can't, writes zeros over blocks of zeros, which may be holes.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn fill_holes(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.reserve(offset, len)? {
            return Ok(());
        }
        let mut block = [0; BLOCK];
        for start in (offset..offset + len).step_by(BLOCK) {
            let part = &mut block[..(offset + len - start).min(BLOCK as u64) as usize];
            self.read(start, part)?;
            if part.iter().all(|&byte| byte == 0) {
                self.write(start, part)?;
            }
        }
        Ok(())
    }

    /// Prepares a range for [`SharedFile::put`].
    ///
    /// Returns false if the file system can't, so that the range must be written instead. Nothing must have been
    /// written from byte `fresh` on, which is the start of a page.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn prepare(&self, offset: u64, len: u64, fresh: u64) -> io::Result<bool> {
        if !self.reserve(offset, len)? {
            return Ok(false);
        }
        // Written pages are in memory, and are mapped several times as fast as others.
        if let Some(rest) = (offset + len).checked_sub(fresh) {
            self.write(fresh, &vec![0; rest as usize])?;
        }
        // If the file system is full nevertheless, a store would raise a signal, so the range is to be written:
        // pwrite(2) returns an error. But it would make a file longer that another process has truncated, which the
        // signal reports.
        Ok(self.region.populate(offset as usize, len as usize) || self.is_truncated()?)
    }

    /// Makes the pages of a range that has blocks ready for stores, which need no space then.
    ///
    /// # Errors
    /// Errors of the system and of the observer; the error of a full disk if the file system needs blocks for pages
    /// around the range, too.
    pub fn populate(&self, offset: u64, len: u64) -> io::Result<()> {
        // If another process has truncated the file, the signal of a store reports it.
        if self.region.populate(offset as usize, len as usize) || self.is_truncated()? {
            return Ok(());
        }
        self.read(offset, &mut vec![0; len as usize])?;
        self.separate_from_holes(offset, offset + len)?;
        if self.region.populate(offset as usize, len as usize) || self.is_truncated()? {
            Ok(())
        } else {
            Err(os::no_space())
        }
    }

    /// Returns true if another process has truncated the file.
    fn is_truncated(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() < self.region.len() as u64)
    }

    /// Makes the file system keep the pages from `start` to `end` apart from pages of holes around them. A file system
    /// that keeps many pages together (ext4 since Linux 6.16) needs blocks for all of them before one is stored to.
    fn separate_from_holes(&self, start: u64, end: u64) -> io::Result<()> {
        assert!(start <= end, "pages from byte {start} to byte {end}");
        let size = self.region.len() as u64;
        let mut holes = Vec::new();
        // The first bytes of a file have fewer before them.
        let mut data = start.saturating_sub(MAX_FOLIO);
        while let Some(hole) = os::next_hole(&self.file, data).filter(|&hole| hole < size.min(end + MAX_FOLIO)) {
            data = self.next_data(hole)?.unwrap_or(size);
            // A store that failed may have got some of the blocks of a page.
            let first_page = hole - hole % PAGE;
            let from = if self.is_zero(first_page, hole)? { first_page } else { first_page + PAGE };
            let last_page_end = data.next_multiple_of(PAGE);
            let to = if last_page_end <= size && self.is_zero(data, last_page_end)? {
                last_page_end
            } else {
                data - data % PAGE
            };
            holes.push((from, to));
        }

        // Only zeros are released.
        for (from, to) in holes {
            if from < to && (to <= start || from >= end) {
                self.release(from, to - from)?;
            }
        }
        Ok(())
    }

    fn is_zero(&self, from: u64, to: u64) -> io::Result<bool> {
        let mut bytes = vec![0; (to - from) as usize];
        self.read(from, &mut bytes)?;
        Ok(bytes.iter().all(|&byte| byte == 0))
    }

    /// Releases the blocks of a range that is not in use.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn release(&self, offset: u64, len: u64) -> io::Result<()> {
        self.medium.tell(FsOp::Release { file: self.id, offset, len })?;
        os::release(&self.file, offset, len)
    }

    /// Stores a little-endian word (release). A reader that loads it (acquire) sees everything stored before.
    #[inline]
    pub fn publish64(&self, offset: u64, value: u64) {
        self.observe_store(offset, &value.to_le_bytes());
        self.region.word64(offset as usize).store(value.to_le(), Ordering::Release);
    }

    /// As [`SharedFile::publish64`].
    #[inline]
    pub fn publish32(&self, offset: u64, value: u32) {
        self.observe_store(offset, &value.to_le_bytes());
        self.region.word32(offset as usize).store(value.to_le(), Ordering::Release);
    }

    /// Loads the word at `offset` (acquire).
    #[inline]
    pub fn load64(&self, offset: u64) -> u64 {
        u64::from_le(self.region.word64(offset as usize).load(Ordering::Acquire))
    }

    /// Loads the word at `offset` (acquire).
    #[inline]
    pub fn load32(&self, offset: u64) -> u32 {
        u32::from_le(self.region.word32(offset as usize).load(Ordering::Acquire))
    }

    /// Wakes the readers that wait for the word at `offset`.
    pub fn wake(&self, offset: u64) {
        self.region.wake(offset as usize);
    }

    /// Returns a number that differs between the file and its copies; see [`Mapping::file_fingerprint`].
    ///
    /// # Errors
    /// Errors of the system.
    pub fn file_fingerprint(&self) -> io::Result<u64> {
        Ok(fingerprint_of(&FileInfo::from_file(&self.file)?))
    }

    /// Returns true if the file has the modification time `seconds`, to the nanosecond.
    pub fn has_modified_time(&self, seconds: u64) -> bool {
        let modified = FileInfo::from_file(&self.file).map(|metadata| os::modified_time(&metadata));
        modified.is_ok_and(|modified| modified == (seconds.cast_signed(), 0))
    }

    /// Returns the next whole second after the current time, after the file's modification time, and after `last`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn next_modified_time(&self, last: u64) -> io::Result<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        // A time before 1970 is before the current time.
        let modified = u64::try_from(os::modified_time(&FileInfo::from_file(&self.file)?).0).unwrap_or(now);
        Ok(now.max(modified).max(last).saturating_add(1))
    }

    /// Sets the file's modification time. Later stores set it to their time.
    ///
    /// # Errors
    /// Errors of the system: only the owner of a file may choose its times.
    pub fn set_modified_time(&self, seconds: u64) -> io::Result<()> {
        let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).ok_or(io::ErrorKind::InvalidInput)?;
        self.file.set_times(FileTimes::new().set_modified(time))
    }

    /// Returns true if this process opened the file, rather than inheriting it by a fork.
    pub fn is_ours(&self) -> bool {
        self.forks == os::fork_count()
    }

    /// Syncs everything written to the disk (fdatasync(2)).
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn sync(&self) -> io::Result<()> {
        self.medium.sync(&self.file, self.id)
    }

    /// Makes everything written reach the disk before what is written from now on. On macOS, a power cut can take it
    /// until the next sync of any file on this disk.
    ///
    /// # Errors
    /// Errors of the system and of the observer.
    pub fn order(&self) -> io::Result<()> {
        self.medium.order(&self.file, self.id)
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        if let Ok(Some(part)) = self.part.get_mut().map(Option::take) {
            // The file was never named; a failed removal has no remedy.
            let _ = self.medium.remove(&part);
        }
    }
}

/// Checks that files of `len` bytes may be written, as a signal would end the process beyond the limit.
fn check_size(len: u64) -> io::Result<()> {
    if len <= os::file_size_limit() { Ok(()) } else { Err(os::too_large()) }
}
