//! Writes files that get their name when they are complete, and names incomplete ones.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::os::{self, FileInfo, RelativePath};

/// A file that does not belong to a table, and gets its name when it is complete.
///
/// Nothing is left of it if it is dropped before, or its process is killed, on file systems that support unnamed files
/// (open(2), `O_TMPFILE`). On others a killed process leaves `.NAME.PID.NUMBER.part`.
///
/// A file that replaces another one takes over its permissions, and its owner and group if this process may set them,
/// but no access control lists. A symbolic link stays, and the file that it leads to is replaced.
#[derive(Debug)]
pub struct UnfinishedFile {
    file: File,
    part: PathBuf,
    /// True if the file is named `part` by now.
    is_named: bool,
}

impl UnfinishedFile {
    /// Creates a file in the directory of `path`, or of the file that the link there leads to.
    ///
    /// # Errors
    /// Errors of the system; `InvalidInput` if `path` is not the path of a file, or anything but a regular file is
    /// there.
    pub fn create_beside(path: &Path) -> io::Result<UnfinishedFile> {
        if path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
        }
        let path = &target_of(path)?;
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        // Without this directory an unnamed file could not be named later.
        let can_be_named = os::can_name_unnamed();
        let unnamed = if can_be_named { os::create_unnamed_in(&RelativePath::new(folder), 0o666)? } else { None };
        let is_named = unnamed.is_none();
        let (file, part) = unnamed.map_or_else(|| create_part(path), |file| Ok((file, part_name(path))))?;
        let unfinished = UnfinishedFile { file, part, is_named };
        // The incomplete file must not be readable by more people than the one that it replaces.
        unfinished.take_over(path)?;
        Ok(unfinished)
    }

    /// Names the file `path`, in the directory where it was created.
    ///
    /// A file there is replaced in one step, even if the power is cut: the new one reaches the disk first. One that replaces
    /// none is not synced.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn persist(mut self, path: &Path) -> io::Result<()> {
        let path = &target_of(path)?;
        if self.take_over(path)? {
            os::order_writes(&self.file)?;
        }
        if !self.is_named {
            // A killed process with our process id may have left its file.
            let _ = std::fs::remove_file(&self.part);
            os::name_unnamed(&self.file, &RelativePath::new(&self.part))?;
            self.is_named = true;
        }
        std::fs::rename(&self.part, path)?;
        self.is_named = false;
        Ok(())
    }

    /// Takes over permissions and owner of the file at `path`. Returns false if there is none.
    fn take_over(&self, path: &Path) -> io::Result<bool> {
        let replaced = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        if !replaced.is_file() {
            let message = "a directory, pipe or device is there, which a file can't replace";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        os::take_over(&self.file, &replaced)?;
        Ok(true)
    }
}

/// Creates a file next to `path` under an unused name. Nothing that has such a name is opened: it may be a link.
fn create_part(path: &Path) -> io::Result<(File, PathBuf)> {
    loop {
        let part = part_name(path);
        match File::create_new(&part) {
            // A killed process that had our process id has left a file of this name.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => (),
            created => return Ok((created?, part)),
        }
    }
}

/// Returns the path that the symbolic link at `path` leads to, through further links, even if there is no file. Returns
/// `path` itself if it is no link.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(e) if os::is_no_link(&e) || matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(path);
            }
            Err(e) => return Err(e),
        }
    }
    Err(os::too_many_links())
}

/// The maximum number of links that are followed: the system's own.
const MAX_LINKS: usize = 40;

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

/// Returns an unused name next to the directory, where listings of the directory don't show it.
pub(crate) fn part_name(folder: &Path) -> PathBuf {
    beside(folder, &part_suffix())
}

/// Returns the path of a hidden file that is next to `folder` and named after it.
pub(crate) fn beside(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = hidden_prefix(folder);
    name.push(suffix);
    folder.parent().unwrap_or(Path::new(".")).join(name)
}

/// Returns the common prefix of the names of hidden files that are next to `folder` and named after it.
pub(crate) fn hidden_prefix(folder: &Path) -> OsString {
    let mut prefix = OsString::from(".");
    // Paths such as `..` have no name.
    prefix.push(folder.file_name().unwrap_or(OsStr::new("")));
    prefix.push(".");
    prefix
}

/// Returns the hidden files of `folder`, each with the rest of its name: the part after `.NAME.` if the file is next to
/// the directory, and the part after the dot if it is inside.
///
/// Files whose rest is not UTF-8 are left out. Directories that don't exist, or that this process may not list, have
/// none.
///
/// # Errors
/// Errors of the system.
pub fn hidden_files(folder: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    Ok(hidden_and_dropped(folder)?.0)
}

/// Returns the [`hidden_files`], and the directories next to `folder` whose names say that they are to be removed.
///
/// Lists both at once, as there may be many thousands of names.
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
            let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
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

/// Returns the name of the directory with this inode number while it is removed. No partition has it, as it begins with
/// a dot.
pub(crate) fn dropped_name(inode: u64) -> String {
    format!(".{inode}{DROPPED}")
}

const DROPPED: &str = ".dropped";

/// Returns true if `path`, which ends in `name`, is a directory that is to be removed. The inode number in the name
/// shows that this directory got the name, and no other one was moved there.
fn is_dropped(path: &Path, name: &OsStr) -> bool {
    let has_suffix = name.as_encoded_bytes().starts_with(b".") && name.as_encoded_bytes().ends_with(DROPPED.as_bytes());
    has_suffix && FileInfo::from_link(path).is_ok_and(|metadata| is_dropped_inode(name, &metadata))
}

fn is_dropped_inode(name: &OsStr, metadata: &FileInfo) -> bool {
    metadata.is_dir() && name == dropped_name(os::file_identity(metadata).1).as_str()
}

/// Returns an unused suffix for the name of an incomplete file: `PID.NUMBER.part`.
pub(crate) fn part_suffix() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{}.{}.part", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Returns true if `suffix` has the form of a [`part_suffix`] of any process.
pub(crate) fn is_part_suffix(suffix: &str) -> bool {
    let numbers = suffix.strip_suffix(".part").and_then(|numbers| numbers.split_once('.'));
    numbers.is_some_and(|(pid, number)| is_decimal(pid) && is_decimal(number))
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn dropped_file_leaves_nothing_and_persisted_file_replaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        std::fs::write(&path, "old").unwrap();
        let mut unfinished = UnfinishedFile::create_beside(&path).unwrap();
        unfinished.write_all(b"half").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        drop(unfinished);
        assert_eq!(list_names(folder.path()), ["x.csv"]);
        let mut finished = UnfinishedFile::create_beside(&path).unwrap();
        if !finished.is_named {
            // An earlier process with our id may have been killed and left a file with the same temporary name.
            std::fs::write(&finished.part, "older").unwrap();
        }
        finished.write_all(b"new").unwrap();
        finished.persist(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(list_names(folder.path()), ["x.csv"]);
        assert!(UnfinishedFile::create_beside(Path::new("/")).is_err());
        // Devices and directories must not be replaced, even if the user may do so.
        for other in [Path::new("/dev/null"), folder.path()] {
            if cfg!(windows) && other != folder.path() {
                continue;
            }
            let error = UnfinishedFile::create_beside(other).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
    }

    #[cfg(unix)]
    fn replace_file(path: &Path, text: &str) {
        let mut unfinished = UnfinishedFile::create_beside(path).unwrap();
        unfinished.write_all(text.as_bytes()).unwrap();
        unfinished.persist(path).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn replaced_file_keeps_its_permissions_and_symlinks() {
        use std::fs::Permissions;
        use std::os::unix::fs::{MetadataExt, PermissionsExt};

        let folder = tempfile::tempdir().unwrap();
        let path_of = |name: &str| folder.path().join(name);
        std::fs::write(path_of("private"), "old").unwrap();
        std::fs::set_permissions(path_of("private"), Permissions::from_mode(0o600)).unwrap();
        let unfinished = UnfinishedFile::create_beside(&path_of("private")).unwrap();
        assert_eq!(unfinished.file.metadata().unwrap().mode() & 0o777, 0o600, "while it is written, too");
        drop(unfinished);
        replace_file(&path_of("private"), "new");
        assert_eq!(std::fs::metadata(path_of("private")).unwrap().mode() & 0o777, 0o600);

        std::fs::create_dir(path_of("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere/real", path_of("link")).unwrap();
        std::os::unix::fs::symlink("link", path_of("link to it")).unwrap();
        // The target of the links does not exist at first.
        for text in ["one", "two"] {
            replace_file(&path_of("link to it"), text);
            assert_eq!(std::fs::read_to_string(path_of("elsewhere/real")).unwrap(), text);
        }
        assert!(path_of("link").is_symlink() && path_of("link to it").is_symlink());
        assert_eq!(list_names(folder.path()), ["elsewhere", "link", "link to it", "private"]);
        assert_eq!(list_names(&path_of("elsewhere")), ["real"]);

        std::os::unix::fs::symlink("b", path_of("a")).unwrap();
        std::os::unix::fs::symlink("a", path_of("b")).unwrap();
        assert_eq!(UnfinishedFile::create_beside(&path_of("a")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
    }
}
