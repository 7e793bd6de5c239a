//! A file, or anonymous memory, as bytes.

use crate::sync::RwLockExt;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::UNIX_EPOCH;

use crate::change_check::{self, AllowedChanges, ChangeCheck, ChangeDetector, with_change_check};
use crate::error::{Error, Result};
use crate::fault_cause::MappedOrigin;
use crate::file_system::mounted;
use crate::guard::guard;
use crate::metadata::metadata_at;
use crate::mode::Mode;
use crate::os::{MountInfo, is_on_overlay};
use crate::sys;
use crate::unmapped_file::{FileState, bounded, open_regular, read_file};

/// See [`Mapping::file_fingerprint`].
pub(crate) fn file_word(metadata: &Metadata) -> u64 {
    let made = metadata.created().ok().and_then(|made| made.duration_since(UNIX_EPOCH).ok());
    let made = made.map_or(0, |made| made.as_nanos() as u64);
    // An odd factor: inode numbers that differ in their low bits differ in the high ones, too.
    (metadata.ino().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ made).max(1)
}

/// A file mapped whole, of any size. Clones share the mapping; the last one to go unmaps it.
#[derive(Clone, Debug)]
pub struct Mapping(Arc<MappingInner>);

#[derive(Debug)]
struct MappingInner {
    region: sys::MemoryRegion,
    mode: Mode,
    /// Whether some bytes differ from those of the file.
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
    word: u64,
    watched: ChangeDetector,
    /// Whether the pages of the watch's marks were asked for.
    is_asked: AtomicBool,
}

impl Mapping {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`, `IsPipe`, `InvalidArgument` if the path is not a regular file; otherwise `Io` with the
    /// system's error (such as ENOMEM under `ulimit -v`).
    pub fn open(path: impl AsRef<Path>, mode: Mode) -> Result<Mapping> {
        let path = path.as_ref();
        Mapping::open_at(path, mode).map_err(|e| e.at(path))
    }

    fn open_at(path: &Path, mode: Mode) -> Result<Mapping> {
        let (file, metadata, len) = open_regular(path, mode == Mode::ReadWrite)?;
        let identity = (metadata.dev(), metadata.ino());
        let region = sys::MemoryRegion::map_file(&file, len, mode, MappedOrigin::new(path, identity, mode));
        let region = region.map_err(|e| Error::io("mapping the file", &e))?;
        let word = file_word(&metadata);
        let watched = ChangeDetector::new(&metadata);
        let origin = MappedFile {
            path: path.to_path_buf(),
            file: RwLock::new(Some(file)),
            identity,
            word,
            watched,
            is_asked: AtomicBool::new(false),
        };
        Ok(Mapping(Arc::new(MappingInner { region, mode, is_patched: false, origin: Some(origin) })))
    }

    /// Maps the file at `path` for reading, with some bytes replaced: `over` has offsets and bytes, inside the file.
    /// Does not change the file.
    ///
    /// # Errors
    /// Those of [`Mapping::open`], and `FileChanged` if the file has become shorter than its mapping.
    pub fn open_patched<'a>(path: &Path, over: impl Iterator<Item = (usize, &'a [u8])>) -> Result<Mapping> {
        let mut mapping = Mapping::open(path, Mode::CopyOnWrite)?;
        let mapped = Arc::get_mut(&mut mapping.0).ok_or_else(|| Error::internal("a new mapping is shared"))?;
        guard(|| {
            over.for_each(|(offset, bytes)| mapped.region.copy_in(offset, bytes));
            Ok::<(), Error>(())
        })?;
        (mapped.mode, mapped.is_patched) = (Mode::Read, true);
        Ok(mapping)
    }

    /// A copy of `parts`, ranges of bytes of the file, at the same offsets in anonymous memory; other bytes are zeros.
    /// It doesn't count towards the system's limit of mappings of files.
    ///
    /// # Errors
    /// Those of [`Mapping::read_at`], and `Io` if the system has no more memory or addresses.
    pub fn copy_ranges(&self, parts: impl Iterator<Item = Range<usize>>) -> Result<Mapping> {
        let region = sys::MemoryRegion::sparse(self.len());
        let region = region.map_err(|e| self.failed("reserving memory for a copy", &e))?;
        let mut chunk = vec![0; 64 << 10];
        for part in parts {
            for at in part.clone().step_by(chunk.len()) {
                let bytes = &mut chunk[..(part.end - at).min(64 << 10)];
                self.read_at(at, bytes)?;
                region.copy_in(at, bytes);
            }
        }
        let origin = self.0.origin.as_ref().map(|origin| {
            let MappedFile { path, identity, word, .. } = origin;
            MappedFile {
                path: path.clone(),
                file: RwLock::new(None),
                identity: *identity,
                word: *word,
                watched: ChangeDetector::none(),
                is_asked: AtomicBool::new(false),
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

    /// Joins parts of mapped files into one mapping. Parts are byte ranges of whole pages, but for the end of the last.
    ///
    /// # Errors
    /// `InvalidArgument` for mappings that are writable, patched or anonymous; `Io` if the system refuses.
    pub fn join(parts: &[(&Mapping, usize, usize)]) -> Result<Mapping> {
        let is_file =
            |mapping: &Mapping| mapping.mode() == Mode::Read && mapping.path().is_some() && !mapping.0.is_patched;
        if parts.iter().any(|(mapping, ..)| !is_file(mapping)) {
            return Err(Error::invalid_argument("what is not a file that is only read can't be joined"));
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

    /// Whether the mapping is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the mode of the mapping.
    #[inline]
    pub fn mode(&self) -> Mode {
        self.0.mode
    }

    /// Returns the file's path as it was given, or `None` for anonymous memory.
    pub fn path(&self) -> Option<&Path> {
        self.0.origin.as_ref().map(|origin| origin.path.as_path())
    }

    /// Returns a pointer to the first byte, which dangles if there is none. To read through it, keep a
    /// handle of the mapping, and make sure that other processes do not change those bytes.
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

    /// Returns the share of resident pages in each of `parts` parts of the mapping of the same length; fewer parts if there
    /// are fewer pages.
    ///
    /// # Errors
    /// `Io` if the system has no such call.
    #[doc(hidden)]
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

    /// Fills `buffer` with the bytes from `offset` on; reads the file, if there is one, instead of touching the mapped
    /// pages.
    ///
    /// # Errors
    /// `OutOfBounds` if the mapping ends before, `FileChanged` if the file has become shorter than its mapping.
    pub fn read_at(&self, offset: usize, buffer: &mut [u8]) -> Result<()> {
        bounded(offset, buffer.len(), self.len())?;
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

    /// Returns through which mount the file was opened; nothing of a file that is closed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn mount_info(&self) -> Result<MountInfo> {
        let file = self.0.origin.as_ref().map(|origin| origin.file.read_ignoring_poison());
        let asked = file.as_ref().and_then(|file| file.as_ref()).map(mounted).transpose();
        Ok(asked.map_err(|e| self.failed("asking for the mount", &e))?.unwrap_or_default())
    }

    /// Sets the allowed changes of the file. Only the first call has an effect.
    pub fn set_allowed_changes(&self, rule: AllowedChanges) {
        if let Some(origin) = &self.0.origin {
            origin.watched.set(rule);
        }
    }

    /// As [`Mapping::set_allowed_changes`], for a stream, which may grow.
    pub fn allow_append(&self) {
        let Some(origin) = &self.0.origin else { return };
        // Unreadable bytes are not compared.
        let _ = origin.with_file(&mut |file| {
            origin.watched.set(AllowedChanges::Stream(change_check::ends(file, self.len() as u64)));
            Ok(())
        });
    }

    /// Returns what identifies the file and its content; `None` for anonymous memory.
    pub fn state(&self) -> Option<FileState> {
        let origin = self.0.origin.as_ref()?;
        Some(FileState::new(origin.identity, origin.watched.seen()))
    }

    /// Whether the file's name was removed; false of a file that is closed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_removed(&self) -> io::Result<bool> {
        let Some(origin) = &self.0.origin else { return Ok(false) };
        let file = origin.file.read_ignoring_poison();
        file.as_ref().map_or(Ok(false), |file| Ok(file.metadata()?.nlink() == 0))
    }

    /// Device and inode number of the file; `None` for memory without one.
    pub fn identity(&self) -> Option<(u64, u64)> {
        self.0.origin.as_ref().map(|origin| origin.identity)
    }

    /// A number that tells the file from its copies: of its inode number and, on file systems that have them, its time of
    /// creation. 0 for memory without a file.
    pub fn file_fingerprint(&self) -> u64 {
        self.0.origin.as_ref().map_or(0, |origin| origin.word)
    }

    /// Whether the file at `path` is the mapped one. No other file gets its inode number while it is mapped.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(metadata_at(path)?.is_some_and(|there| self.is_file(&there)))
    }

    /// Whether another file than the mapped one is at `path`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_replaced_at(&self, path: &Path) -> io::Result<bool> {
        Ok(metadata_at(path)?.is_some_and(|there| !self.is_file(&there)))
    }

    fn is_file(&self, there: &Metadata) -> bool {
        self.identity() == Some((there.dev(), there.ino()))
    }

    /// Whether the file is on an overlay file system. The first store to a file of a lower layer makes a copy of it in the
    /// upper one: a mapping from before stays one of the lower file, and does not change any more. False of a file that is
    /// closed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_on_overlay(&self) -> Result<bool> {
        let Some(origin) = &self.0.origin else { return Ok(false) };
        let file = origin.file.read_ignoring_poison();
        let asked = file.as_ref().map(|file| is_on_overlay(file, origin.identity.0)).transpose();
        Ok(asked.map_err(|e| self.failed("asking for the file system", &e))?.unwrap_or(false))
    }

    /// Reads the word at `offset` from the file, also where the mapping is private, or one of a lower layer.
    ///
    /// # Errors
    /// Those of opening and reading the file; `InvalidArgument` for anonymous memory.
    pub fn read_word(&self, offset: u64) -> Result<u64> {
        let origin = self.0.origin.as_ref().ok_or_else(|| Error::invalid_argument("memory without a file"))?;
        let mut word = [0; 8];
        let read = origin.with_file(&mut |file| file.read_exact_at(&mut word, offset));
        read.map_err(|e| self.failed("reading the file", &e))?;
        Ok(u64::from_le_bytes(word))
    }

    /// Whether some of its bytes differ from those of the file, which are those of this process alone.
    pub fn is_patched(&self) -> bool {
        self.0.is_patched
    }

    /// Whether both are mappings of one file.
    pub fn is_same_file(&self, other: &Mapping) -> bool {
        self.identity().is_some() && self.identity() == other.identity()
    }

    /// Records that the file has changed, and returns the error; that of the system if bytes are others because pages could not
    /// be read.
    pub fn mark_changed(&self) -> Error {
        let error = self.0.region.failure().unwrap_or_else(|| change_check::changed(change_check::OVERWRITTEN));
        self.0.region.mark();
        self.path().map_or(error.clone(), |path| error.at(path))
    }

    /// Checks that the file is unchanged, as far as its watch can tell.
    ///
    /// # Errors
    /// `FileChanged`, or what the system says of pages that can't be read; from then on with every call.
    #[inline]
    pub fn check_unchanged(&self, when: ChangeCheck) -> Result<()> {
        let Some(origin) = &self.0.origin else { return Ok(()) };
        if self.0.region.is_changed() || origin.watched.is_due(when) { self.look_at(origin) } else { Ok(()) }
    }

    #[cold]
    fn look_at(&self, origin: &MappedFile) -> Result<()> {
        change_check::settle(&self.0.region, self.difference(origin)).map_err(|e| e.at(&origin.path))
    }

    fn difference(&self, origin: &MappedFile) -> Result<Option<String>> {
        if let Some(file) = origin.file.read_ignoring_poison().as_ref() {
            return Ok(origin.watched.look(file, self.len() as u64));
        }
        if let Some(marks) = origin.watched.marks() {
            // Once: the first touch of a page loads as much around it as the device reads ahead.
            if !origin.is_asked.swap(true, Ordering::Relaxed) {
                marks.iter().for_each(|(at, expected)| self.0.region.prefetch(*at as usize, expected.len()));
            }
            // Does not open the file: lost pages are faults, and those of a file that grew again are zeros.
            let is_there = |(at, expected): &change_check::FixedBytes| {
                let mut found = vec![0; expected.len()];
                self.0.region.copy_out(*at as usize, &mut found);
                found == *expected
            };
            let is_same: Result<bool> = guard(|| Ok(marks.iter().all(is_there)));
            return Ok((!is_same?).then(|| change_check::OVERWRITTEN.into()));
        }
        let mut found = None;
        // A file without a name can't be checked.
        let _ = origin.with_file(&mut |file| {
            found = origin.watched.look(file, self.len() as u64);
            Ok(())
        });
        Ok(found)
    }

    /// Closes the file, so that thousands of mappings don't exhaust the file descriptors. Later reads copy from the
    /// mapped pages.
    pub fn close_file(&self) {
        if let Some(origin) = &self.0.origin {
            drop(origin.file.write_ignoring_poison().take());
        }
    }

    /// Copies bytes inside the mapping out of its pages: each aligned 8-byte word atomically, in no order.
    ///
    /// # Panics
    /// If the mapping ends before.
    #[inline]
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) {
        self.0.region.copy_out(offset, into);
    }

    /// Loads the word at `offset` (acquire).
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8, or the mapping ends before.
    #[inline]
    pub fn load64(&self, offset: usize) -> u64 {
        self.0.region.word64(offset).load(Ordering::Acquire)
    }

    fn failed(&self, doing: &str, error: &std::io::Error) -> Error {
        let error = Error::io(doing, error);
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
    fn with_file(&self, then: &mut dyn FnMut(&File) -> std::io::Result<()>) -> std::io::Result<()> {
        if let Some(file) = self.file.read_ignoring_poison().as_ref() {
            return then(file);
        }
        let file = File::open(&self.path)?;
        let metadata = file.metadata()?;
        if (metadata.dev(), metadata.ino()) == self.identity {
            then(&file)
        } else {
            Err(std::io::Error::other("another file has its name now"))
        }
    }
}
