//! Incomplete files, and their names.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::os::{self, RelativePath};

/// A file that does not belong to a table, and gets its name when it is complete. Nothing is left of it if it is
/// dropped before, or its process is killed, on file systems that support unnamed files (open(2), `O_TMPFILE`). On
/// others a killed process leaves `.NAME.PID.NUMBER.part`.
#[derive(Debug)]
pub struct UnfinishedFile {
    file: File,
    part: PathBuf,
    /// Whether the file is named `part` by now.
    is_named: bool,
}

impl UnfinishedFile {
    /// Creates a file in the directory of `path`.
    ///
    /// # Errors
    /// Those of the system; `InvalidInput` if `path` is not the path of a file.
    pub fn beside(path: &Path) -> io::Result<UnfinishedFile> {
        if path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
        }
        let part = part_name(path);
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        // Without this directory an unnamed file could not be named later.
        let can_be_named = Path::new("/proc/self/fd").exists();
        let unnamed = if can_be_named { os::unnamed(&RelativePath::of(folder), 0o666)? } else { None };
        let is_named = unnamed.is_none();
        let file = unnamed.map_or_else(|| File::create(&part), Ok)?;
        Ok(UnfinishedFile { file, part, is_named })
    }

    /// Names the file `path`, in the directory where it was created, and replaces the file there.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish(mut self, path: &Path) -> io::Result<()> {
        if !self.is_named {
            // A killed process with our process id may have left its file.
            let _ = std::fs::remove_file(&self.part);
            os::name(&self.file, &RelativePath::of(&self.part))?;
            self.is_named = true;
        }
        std::fs::rename(&self.part, path)?;
        self.is_named = false;
        Ok(())
    }
}

impl Write for UnfinishedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.file.write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if self.is_named {
            // A failed removal has no remedy.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// Returns an unused name beside the directory, where listings of the directory don't show it.
pub(crate) fn part_name(folder: &Path) -> PathBuf {
    beside(folder, &part_suffix())
}

/// The path beside `folder` of a hidden file named after it.
pub(crate) fn beside(folder: &Path, suffix: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.parent().unwrap_or(Path::new(".")).join(format!(".{name}.{suffix}"))
}

/// Returns an unused end of the name of an incomplete file.
pub(crate) fn part_suffix() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{}.{}.part", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_unfinished_file_leaves_nothing_and_a_finished_one_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        std::fs::write(&path, "old").unwrap();
        let mut unfinished = UnfinishedFile::beside(&path).unwrap();
        unfinished.write_all(b"half").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        drop(unfinished);
        assert_eq!(names(folder.path()), ["x.csv"]);
        // Left by a process with this id that was killed at the worst moment.
        let mut finished = UnfinishedFile::beside(&path).unwrap();
        std::fs::write(&finished.part, "older").unwrap();
        finished.write_all(b"new").unwrap();
        finished.finish(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["x.csv"]);
        assert!(UnfinishedFile::beside(Path::new("/")).is_err());
    }
}
