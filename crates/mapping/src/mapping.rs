//! Maps a file, or anonymous memory, as bytes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::UNIX_EPOCH;

use crate::change_check::{self, AllowedChanges, ChangeCheck, ChangeDetector, with_change_check};
use crate::disk::mounted;
use crate::error::{Error, Result};
use crate::fault_cause::MappedOrigin;
use crate::guard::guard;
use crate::metadata::stat;
use crate::mode::Mode;
use crate::os::{self, FileInfo, MountInfo, file_identity, is_on_overlay};
use crate::sync::RwLockExt;
use crate::sys;
use crate::unmapped_file::{FileState, check_bounds, open_regular, read_file};

/// The number of bytes that are copied at once.
const COPY_CHUNK: usize = 64 << 10;

/// See [`Mapping::file_fingerprint`].
pub(crate) fn fingerprint_of(metadata: &FileInfo) -> u64 {
    /// 2⁶⁴ divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let created = metadata.created().and_then(|created| created.duration_since(UNIX_EPOCH).ok());
    let created = created.map_or(0, |created| created.as_nanos() as u64);
    // Multiplied by an odd factor, inode numbers that differ in their low bits differ in the high ones, too.
    (file_identity(metadata).1.wrapping_mul(FACTOR) ^ created).max(1)
}

/// A file mapped whole, of any size. Clones share the mapping; the last one to go unmaps it.
#[derive(Clone, Debug)]
pub struct Mapping(Arc<MappingInner>);

#[derive(Debug)]
struct MappingInner {
    region: sys::MemoryRegion,
    mode: Mode,
    /// True if some bytes differ from the bytes of the file.
    is_patched: bool,
    origin: Option<MappedFile>,
}

/// The file of a mapping.
#[derive(Debug)]
struct MappedFile {
    path: PathBuf,
    /// Absent after [`Mapping::close_file`].
    file: RwLock<Option<File>>,
    /// Device and inode of the file, which identify it.
    identity: (u64, u64),
    /// See [`Mapping::file_fingerprint`].
    fingerprint: u64,
    changes: ChangeDetector,
    /// True if the system was asked to load the pages of the bytes that must not change.
    are_marks_prefetched: AtomicBool,
}

impl Mapping {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`, `IsPipe`, `InvalidArgument` if the path is not a regular file; otherwise `Io`
    /// with the system's error (such as ENOMEM under `ulimit -v`).
    pub fn open(path: impl AsRef<Path>, mode: Mode) -> Result<Mapping> {
        let path = path.as_ref();
        Mapping::open_at(path, mode).map_err(|e| e.at(path))
    }

    fn open_at(path: &Path, mode: Mode) -> Result<Mapping> {
        let (file, metadata, len) = open_regular(path, mode == Mode::ReadWrite)?;
        let identity = file_identity(&metadata);
        let region = sys::MemoryRegion::map_file(&file, len, mode, MappedOrigin::new(path, identity, mode));
        let region = region.map_err(|e| Error::io("mapping the file", &e))?;
        let fingerprint = fingerprint_of(&metadata);
        let changes = ChangeDetector::new(&metadata);
        let origin = MappedFile {
            path: path.to_path_buf(),
            file: RwLock::new(Some(file)),
            identity,
            fingerprint,
            changes,
            are_marks_prefetched: AtomicBool::new(false),
        };
        Ok(Mapping(Arc::new(MappingInner { region, mode, is_patched: false, origin: Some(origin) })))
    }

    /// Maps the file at `path` for reading, with some bytes replaced: `patches` has offsets and bytes, inside the file.
    ///
    /// Does not change the file.
    ///
    /// # Errors
    /// The errors of [`Mapping::open`], and `FileChanged` if the file has become shorter than its mapping.
    pub fn open_patched<'a>(path: &Path, patches: impl Iterator<Item = (usize, &'a [u8])>) -> Result<Mapping> {
        let mut mapping = Mapping::open(path, Mode::CopyOnWrite)?;
        let mapped = Arc::get_mut(&mut mapping.0).ok_or_else(|| Error::internal("a new mapping is shared"))?;
        guard(|| {
            for (offset, bytes) in patches {
                mapped.region.copy_in(offset, bytes);
            }
            Ok::<(), Error>(())
        })?;
        mapped.mode = Mode::Read;
        mapped.is_patched = true;
        Ok(mapping)
    }

    /// Copies `parts`, ranges of bytes of the file, to the same offsets in anonymous memory.
    ///
    /// Other bytes of the copy are zeros. It doesn't count towards the system's limit of mappings of files.
    ///
    /// # Errors
    /// The errors of [`Mapping::read_at`], and `Io` if the system has no more memory or addresses.
    pub fn copy_ranges(&self, parts: impl Iterator<Item = Range<usize>>) -> Result<Mapping> {
        let region = sys::MemoryRegion::sparse(self.len());
        let region = region.map_err(|e| self.failed("reserving memory for a copy", &e))?;
        let mut chunk = vec![0; COPY_CHUNK];
        for part in parts {
            for offset in part.clone().step_by(chunk.len()) {
                let bytes = &mut chunk[..(part.end - offset).min(COPY_CHUNK)];
                self.read_at(offset, bytes)?;
                region.copy_in(offset, bytes);
            }
        }
        let origin = self.0.origin.as_ref().map(|origin| {
            let MappedFile { path, identity, fingerprint, .. } = origin;
            MappedFile {
                path: path.clone(),
                file: RwLock::new(None),
                identity: *identity,
                fingerprint: *fingerprint,
                changes: ChangeDetector::none(),
                are_marks_prefetched: AtomicBool::new(false),
            }
        });
        Ok(Mapping(Arc::new(MappingInner { region, mode: Mode::Read, is_patched: true, origin })))
    }

    /// Maps anonymous memory of `len` zeroed bytes, aligned to a page.
    ///
    /// # Errors
    /// `Io` if the system has no more memory or addresses.
    pub fn anonymous(len: usize) -> Result<Mapping> {
        let region = sys::MemoryRegion::anonymous(len)
            .map_err(|e| Error::io(&format!("reserving {len} bytes of memory"), &e))?;
        Ok(Mapping(Arc::new(MappingInner { region, mode: Mode::CopyOnWrite, is_patched: false, origin: None })))
    }

    /// Joins parts of mapped files, each an offset and a length, into one mapping.
    ///
    /// Parts are whole pages, or more on systems that map more at once, but for the end of the last.
    ///
    /// # Errors
    /// `InvalidArgument` for mappings that are writable, patched or anonymous; `Io` if the system refuses.
    pub fn join(parts: &[(&Mapping, usize, usize)]) -> Result<Mapping> {
        for (mapping, ..) in parts {
            if mapping.mode() != Mode::Read || mapping.path().is_none() || mapping.is_patched() {
                return Err(Error::invalid_argument("what is not a file that is only read can't be joined"));
            }
        }
        let first = parts.first().and_then(|(mapping, ..)| mapping.path()).unwrap_or(Path::new(""));
        let regions: Vec<_> = parts.iter().map(|(mapping, offset, len)| (mapping.region(), *offset, *len)).collect();
        let joined = sys::MemoryRegion::joined(&regions, first);
        let region = joined.map_err(|e| Error::io("mapping segments side by side", &e))?;
        Ok(Mapping(Arc::new(MappingInner { region, mode: Mode::Read, is_patched: false, origin: None })))
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.region.len()
    }

    /// Returns true if the mapping is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the mode of the mapping.
    #[inline]
    pub fn mode(&self) -> Mode {
        self.0.mode
    }

    /// Returns the path that the file was opened with, or `None` for anonymous memory.
    pub fn path(&self) -> Option<&Path> {
        self.0.origin.as_ref().map(|origin| origin.path.as_path())
    }

    /// Returns a pointer to the first byte, which dangles if there is none.
    ///
    /// To read through it, keep a handle of the mapping, and make sure that other processes do not change the bytes.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.0.region.base()
    }

    /// Returns the address of the first byte.
    pub fn address(&self) -> usize {
        self.0.region.address()
    }

    /// Returns the number of mapped bytes whose pages are in physical memory (mincore(2)).
    ///
    /// # Errors
    /// `Io` if the system has no such call.
    pub fn resident(&self) -> Result<usize> {
        self.0.region.resident().map_err(|e| self.failed("asking which pages are resident", &e))
    }

    /// Returns the share of resident pages in each of `parts` parts of the mapping, all of the same length; fewer parts
    /// if there are fewer pages.
    ///
    /// # Errors
    /// `Io` if the system has no such call.
    pub fn residency(&self, parts: usize) -> Result<Vec<f32>> {
        self.0.region.residency(parts).map_err(|e| self.failed("asking which pages are resident", &e))
    }

    /// Writes changed pages back to the file (msync(2), `MS_SYNC`).
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn flush(&self) -> Result<()> {
        self.0.region.flush().map_err(|e| self.failed("flushing the mapping", &e))
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// Reads the file, if there is one, instead of touching the mapped pages.
    ///
    /// # Errors
    /// `OutOfBounds` if the mapping ends before, `FileChanged` if the file has become shorter than its mapping.
    pub fn read_at(&self, offset: usize, buffer: &mut [u8]) -> Result<()> {
        check_bounds(offset, buffer.len(), self.len())?;
        let origin = self.0.origin.as_ref().filter(|_| self.0.mode != Mode::CopyOnWrite && !self.0.is_patched);
        let file = origin.map(|origin| origin.file.read_ignoring_poison());
        match file.as_ref().and_then(|file| file.as_ref()) {
            Some(file) => read_file(file, offset, buffer),
            None => with_change_check(
                ChangeCheck::Seldom,
                |when| self.check_unchanged(when),
                || {
                    self.0.region.copy_out(offset, buffer);
                    Ok(())
                },
            ),
        }
    }

    /// Returns the mount through which the file was opened; a default without information if the file is closed.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn mount_info(&self) -> Result<MountInfo> {
        let file = self.0.origin.as_ref().map(|origin| origin.file.read_ignoring_poison());
        match file.as_ref().and_then(|file| file.as_ref()) {
            Some(file) => mounted(file).map_err(|e| self.failed("asking for the mount", &e)),
            None => Ok(MountInfo::default()),
        }
    }

    /// Sets the allowed changes of the file. Only the first call has an effect.
    pub fn set_allowed_changes(&self, rule: AllowedChanges) {
        if let Some(origin) = &self.0.origin {
            origin.changes.set(rule);
        }
    }

    /// As [`Mapping::set_allowed_changes`], for a stream, which may grow.
    pub fn allow_append(&self) {
        let Some(origin) = &self.0.origin else { return };
        // Unreadable bytes are not compared.
        let _ = origin.with_file(&mut |file| {
            origin.changes.set(AllowedChanges::Stream(change_check::ends(file, self.len() as u64)));
            Ok(())
        });
    }

    /// Returns the state that identifies the file and its content; `None` for anonymous memory.
    pub fn state(&self) -> Option<FileState> {
        let origin = self.0.origin.as_ref()?;
        Some(FileState::new(origin.identity, origin.changes.seen()))
    }

    /// Returns true if the file's name was removed; false if the file is closed.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_removed(&self) -> io::Result<bool> {
        let Some(origin) = &self.0.origin else { return Ok(false) };
        let file = origin.file.read_ignoring_poison();
        match file.as_ref() {
            Some(file) => Ok(os::is_removed(&FileInfo::from_file(file)?)),
            None => Ok(false),
        }
    }

    /// Returns device and inode number of the file; `None` for memory without a file.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.0.origin.as_ref().map(|origin| origin.identity)
    }

    /// Returns a number that differs between the file and its copies.
    ///
    /// It is computed from the inode number and, on file systems that have it, the time of creation. 0 for memory
    /// without a file.
    pub fn file_fingerprint(&self) -> u64 {
        self.0.origin.as_ref().map_or(0, |origin| origin.fingerprint)
    }

    /// Returns true if the file at `path` is the mapped one.
    ///
    /// No other file gets its inode number while it is mapped.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(stat(path)?.is_some_and(|metadata| self.is_file(&metadata)))
    }

    /// Returns true if there is a file at `path` that is not the mapped one.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_replaced_at(&self, path: &Path) -> io::Result<bool> {
        Ok(stat(path)?.is_some_and(|metadata| !self.is_file(&metadata)))
    }

    fn is_file(&self, metadata: &FileInfo) -> bool {
        self.identity() == Some(file_identity(metadata))
    }

    /// Returns true if the file is on an overlay file system; false if the file is closed.
    ///
    /// The first store to a file of a lower layer makes a copy of it in the upper one. An earlier mapping still maps
    /// the lower file, and does not change any more.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn is_on_overlay(&self) -> Result<bool> {
        let Some(origin) = &self.0.origin else { return Ok(false) };
        let file = origin.file.read_ignoring_poison();
        let Some(file) = file.as_ref() else { return Ok(false) };
        is_on_overlay(file, origin.identity.0).map_err(|e| self.failed("asking for the file system", &e))
    }

    /// Reads the word at `offset` from the file, even if the mapping is private, or maps the file of a lower layer.
    ///
    /// # Errors
    /// The errors of opening and reading the file; `InvalidArgument` for anonymous memory.
    pub fn read_word(&self, offset: u64) -> Result<u64> {
        let origin = self.0.origin.as_ref().ok_or_else(|| Error::invalid_argument("memory without a file"))?;
        let mut word = [0; 8];
        let read = origin.with_file(&mut |file| os::read_exact_at(file, &mut word, offset));
        read.map_err(|e| self.failed("reading the file", &e))?;
        Ok(u64::from_le_bytes(word))
    }

    /// Returns true if some bytes differ from the bytes of the file.
    ///
    /// They are visible to this process alone.
    pub fn is_patched(&self) -> bool {
        self.0.is_patched
    }

    /// Returns true if both are mappings of one file.
    pub fn is_same_file(&self, other: &Mapping) -> bool {
        self.identity().is_some() && self.identity() == other.identity()
    }

    /// Records that the file has changed, and returns the error.
    ///
    /// If bytes differ because pages could not be read, it is the error of the system.
    pub fn mark_changed(&self) -> Error {
        let error = self.0.region.failure().unwrap_or_else(|| change_check::changed(change_check::OVERWRITTEN));
        self.0.region.mark();
        self.with_path(error)
    }

    /// Checks that the file is unchanged, as far as the detector of changes can tell.
    ///
    /// # Errors
    /// `FileChanged`, or the system's error for pages that can't be read. Later calls return the error as well.
    #[inline]
    pub fn check_unchanged(&self, when: ChangeCheck) -> Result<()> {
        let Some(origin) = &self.0.origin else { return Ok(()) };
        if self.0.region.is_changed() || origin.changes.is_due(when) { self.check_file(origin) } else { Ok(()) }
    }

    #[cold]
    fn check_file(&self, origin: &MappedFile) -> Result<()> {
        let change = self.find_change(origin).map_err(|e| e.at(&origin.path))?;
        change_check::record_change(&self.0.region, change).map_err(|e| e.at(&origin.path))
    }

    fn find_change(&self, origin: &MappedFile) -> Result<Option<String>> {
        let region = &self.0.region;
        let marks = origin.changes.marks();
        // Once, because the first touch of a page loads as much around it as the device reads ahead.
        if let Some(marks) = marks
            && !origin.are_marks_prefetched.swap(true, Ordering::Relaxed)
        {
            for (offset, expected) in marks {
                region.prefetch(*offset as usize, expected.len());
            }
        }
        if let Some(file) = origin.file.read_ignoring_poison().as_ref() {
            return origin.changes.find_change(file, region);
        }
        if let Some(marks) = marks {
            // Does not open the file: lost pages are faults, and pages of a file that grew again are zeros.
            let is_same = change_check::has_marks(region, marks)?;
            return Ok((!is_same).then(|| change_check::OVERWRITTEN.into()));
        }
        let mut change = Ok(None);
        // A file without a name can't be checked.
        let _ = origin.with_file(&mut |file| {
            change = origin.changes.find_change(file, region);
            Ok(())
        });
        change
    }

    /// Closes the file, so that thousands of mappings don't exhaust the file descriptors.
    ///
    /// Later reads copy from the mapped pages.
    pub fn close_file(&self) {
        if let Some(origin) = &self.0.origin {
            drop(origin.file.write_ignoring_poison().take());
        }
    }

    /// Copies bytes out of the mapped pages, each aligned 8-byte word atomically, in no order.
    ///
    /// # Panics
    /// If the mapping ends before.
    #[inline]
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) {
        self.0.region.copy_out(offset, into);
    }

    /// Loads the little-endian word at `offset` (acquire).
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8, or the mapping ends before.
    #[inline]
    pub fn load64(&self, offset: usize) -> u64 {
        u64::from_le(self.0.region.word64(offset).load(Ordering::Acquire))
    }

    fn failed(&self, doing: &str, error: &io::Error) -> Error {
        self.with_path(Error::io(doing, error))
    }

    /// Adds the path to an error, if there is one.
    fn with_path(&self, error: Error) -> Error {
        match self.path() {
            Some(path) => error.at(path),
            None => error,
        }
    }

    #[inline]
    pub(crate) fn region(&self) -> &sys::MemoryRegion {
        &self.0.region
    }
}

impl MappedFile {
    /// Calls `work` with the file, which is opened again if it was closed.
    fn with_file(&self, work: &mut dyn FnMut(&File) -> io::Result<()>) -> io::Result<()> {
        if let Some(file) = self.file.read_ignoring_poison().as_ref() {
            return work(file);
        }
        let file = File::open(&self.path)?;
        let metadata = FileInfo::from_file(&file)?;
        if file_identity(&metadata) == self.identity {
            work(&file)
        } else {
            Err(io::Error::other("another file has its name now"))
        }
    }
}
