//! Incomplete files, and their names.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::os::{self, RelativePath};

/// A file that does not belong to a table, and gets its name when it is complete. Nothing is left of it if it is
/// dropped before, or its process is killed, on file systems that support unnamed files (open(2), `O_TMPFILE`). On
/// others a killed process leaves `.NAME.PID.NUMBER.part`.
///
/// A file that replaces another one takes over its permissions, and its owner and group if this process may set them, but no
/// access control lists. A symbolic link stays: the file that it leads to is replaced.
#[derive(Debug)]
pub struct UnfinishedFile {
    file: File,
    part: PathBuf,
    /// Whether the file is named `part` by now.
    is_named: bool,
}

impl UnfinishedFile {
    /// Creates a file in the directory of `path`, or of the file that the link there leads to.
    ///
    /// # Errors
    /// Those of the system; `InvalidInput` if `path` is not the path of a file, or anything but a regular file is there.
    pub fn create_beside(path: &Path) -> io::Result<UnfinishedFile> {
        if path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
        }
        let path = &target_of(path)?;
        let part = part_name(path);
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        // Without this directory an unnamed file could not be named later.
        let can_be_named = Path::new("/proc/self/fd").exists();
        let unnamed = if can_be_named { os::unnamed(&RelativePath::new(folder), 0o666)? } else { None };
        let is_named = unnamed.is_none();
        let file = unnamed.map_or_else(|| File::create(&part), Ok)?;
        let unfinished = UnfinishedFile { file, part, is_named };
        // What is being written must not be readable by more people than the file.
        unfinished.take_over(path)?;
        Ok(unfinished)
    }

    /// Names the file `path`, in the directory where it was created. A file there is replaced in one step, even if the
    /// power is cut: the new one is synced first. One that replaces none is not synced.
    ///
    /// # Errors
    /// Those of the system.
    pub fn persist(mut self, path: &Path) -> io::Result<()> {
        let path = &target_of(path)?;
        if self.take_over(path)? {
            self.file.sync_data()?;
        }
        if !self.is_named {
            // A killed process with our process id may have left its file.
            let _ = std::fs::remove_file(&self.part);
            os::name(&self.file, &RelativePath::new(&self.part))?;
            self.is_named = true;
        }
        std::fs::rename(&self.part, path)?;
        self.is_named = false;
        Ok(())
    }

    /// Takes over permissions and owner of the file at `path`; returns whether there is one.
    fn take_over(&self, path: &Path) -> io::Result<bool> {
        let there = match std::fs::metadata(path) {
            Ok(there) => there,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        if !there.is_file() {
            let message = "a directory, pipe or device is there, which a file can't replace";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        take_over(&self.file, &there)?;
        Ok(true)
    }
}

/// Gives a new file the permissions of another one, which it is to replace, and its owner and group if this process may
/// set them.
pub(crate) fn take_over(file: &File, there: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    let mut mode = there.mode() & 0o777;
    if own.gid() != there.gid() && fchown(file, None, Some(there.gid())).is_err() {
        // What the file's group may do is not for another group.
        mode = mode & 0o707 | (mode & 0o007) << 3;
    }
    if own.uid() != there.uid() {
        // Only root can.
        let _ = fchown(file, Some(there.uid()), None);
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// The path that the symbolic link at `path` leads to, through further links, whether there is a file or not; `path`
/// itself if it is none.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // It is no link, or not there.
            Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(path);
            }
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// As many as the system follows.
const MOST_LINKS: usize = 40;

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
    let mut name = hidden_prefix(folder);
    name.push(suffix);
    folder.parent().unwrap_or(Path::new(".")).join(name)
}

/// How the names of hidden files begin that lie beside `folder` and are named after it.
pub(crate) fn hidden_prefix(folder: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(folder.file_name().unwrap_or_default());
    prefix.push(".");
    prefix
}

/// The hidden files of `folder`, each with the rest of its name: beside it, what follows `.NAME.`; inside it, what follows
/// the dot. Files with a rest that is not UTF-8 are left out. Directories that are not there, or that this process may not list,
/// have none.
///
/// # Errors
/// Those of the system.
pub fn hidden_files(folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    Ok(hidden_and_dropped(folder)?.0)
}

/// [`hidden_files`], and the directories beside `folder` that have names of ones to be removed.
///
/// Both at once, as there may be many thousands of names.
pub(crate) fn hidden_and_dropped(folder: &Path) -> io::Result<HiddenEntries> {
    let beside = folder.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let mut hidden = Vec::new();
    let mut dropped = Vec::new();
    for (directory, prefix) in [(beside, hidden_prefix(folder)), (folder, OsString::from("."))] {
        let entries = match std::fs::read_dir(directory) {
            Err(e)
                if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied) =>
            {
                continue;
            }
            listed => listed?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let rest = name.as_bytes().strip_prefix(prefix.as_bytes());
            if let Some(rest) = rest.and_then(|rest| str::from_utf8(rest).ok()) {
                hidden.push((entry.path(), rest.to_owned()));
            }
            if directory == beside && is_dropped(&entry.path(), &name) {
                dropped.push(entry.path());
            }
        }
    }
    Ok((hidden, dropped))
}

type HiddenEntries = (Vec<(PathBuf, String)>, Vec<PathBuf>);

/// The name of the directory with this number in its file system while it is removed. It begins with a dot, so it is no
/// partition's.
pub(crate) fn dropped_name(inode: u64) -> String {
    format!(".{inode}{DROPPED}")
}

const DROPPED: &str = ".dropped";

/// Whether `path`, which ends in `name`, is a directory with the name of one to be removed. The number says that it is the
/// one that got the name, and none that was put there.
fn is_dropped(path: &Path, name: &OsStr) -> bool {
    let is_named_so = name.as_bytes().starts_with(b".") && name.as_bytes().ends_with(DROPPED.as_bytes());
    let is_own = |there: Metadata| there.is_dir() && name == dropped_name(there.ino()).as_str();
    is_named_so && std::fs::symlink_metadata(path).is_ok_and(is_own)
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
        let mut unfinished = UnfinishedFile::create_beside(&path).unwrap();
        unfinished.write_all(b"half").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        drop(unfinished);
        assert_eq!(names(folder.path()), ["x.csv"]);
        // Left by a process with this id that was killed at the worst moment.
        let mut finished = UnfinishedFile::create_beside(&path).unwrap();
        std::fs::write(&finished.part, "older").unwrap();
        finished.write_all(b"new").unwrap();
        finished.persist(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["x.csv"]);
        assert!(UnfinishedFile::create_beside(Path::new("/")).is_err());
        // Only root could replace a device, and would miss it.
        for other in [Path::new("/dev/null"), folder.path()] {
            let e = UnfinishedFile::create_beside(other).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidInput, "{e}");
        }
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions_and_links_to_it_stay() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let write = |path: &Path, text: &str| {
            let mut unfinished = UnfinishedFile::create_beside(path).unwrap();
            unfinished.write_all(text.as_bytes()).unwrap();
            unfinished.persist(path).unwrap();
        };
        std::fs::write(place("private"), "old").unwrap();
        std::fs::set_permissions(place("private"), Permissions::from_mode(0o600)).unwrap();
        let unfinished = UnfinishedFile::create_beside(&place("private")).unwrap();
        assert_eq!(unfinished.file.metadata().unwrap().mode() & 0o777, 0o600, "while it is written, too");
        drop(unfinished);
        write(&place("private"), "new");
        assert_eq!(std::fs::metadata(place("private")).unwrap().mode() & 0o777, 0o600);

        std::fs::create_dir(place("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere/real", place("link")).unwrap();
        std::os::unix::fs::symlink("link", place("link to it")).unwrap();
        // Of what is not there yet, and of a file.
        for text in ["one", "two"] {
            write(&place("link to it"), text);
            assert_eq!(std::fs::read_to_string(place("elsewhere/real")).unwrap(), text);
        }
        assert!(place("link").is_symlink() && place("link to it").is_symlink());
        assert_eq!(names(folder.path()), ["elsewhere", "link", "link to it", "private"]);
        assert_eq!(names(&place("elsewhere")), ["real"]);

        std::os::unix::fs::symlink("b", place("a")).unwrap();
        std::os::unix::fs::symlink("a", place("b")).unwrap();
        assert_eq!(UnfinishedFile::create_beside(&place("a")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
    }
}
