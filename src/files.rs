//! The files of a pattern or a directory, in the order of the bytes of their names.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

#[cfg(feature = "glob")]
use glob::Pattern;

use crate::directory::{exists, is_directory, metadata_at};
use crate::error::{Error, ErrorKind, Result};
use crate::escape::escape_hidden;

/// Whether `path`, which does not exist, is a pattern.
pub(crate) fn is_glob(path: &Path) -> bool {
    has_wildcards(path.as_os_str())
}

fn has_wildcards(name: &OsStr) -> bool {
    name.as_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// The local path of a path beginning with `~/`, or of a `file://` URL. `None` for any other path, or if a file of that
/// very name exists.
///
/// # Errors
/// `InvalidArgument` for other URLs, with advice.
pub fn local_path(path: &Path) -> Result<Option<PathBuf>> {
    let Some(text) = path.to_str() else { return Ok(None) };
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty());
    let scheme = text.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme));
    let is_home = text == "~" || text.starts_with("~/");
    if !is_home && scheme.is_none() || exists(path)? {
        return Ok(None);
    }
    let Some(scheme) = scheme else {
        let inside = text.trim_start_matches('~').trim_start_matches('/');
        return Ok(home().map(|home| PathBuf::from(home).join(inside)));
    };
    if scheme.eq_ignore_ascii_case("file") {
        let rest = text.get(scheme.len() + 3..).unwrap_or_default();
        let local = rest.strip_prefix("localhost").unwrap_or(rest);
        if local.starts_with('/') {
            return Ok(Some(PathBuf::from(OsStr::from_bytes(&percent_decoded(local.as_bytes())))));
        }
        let message = "expected file:///path, with the path from the root of the file system";
        return Err(Error::invalid_argument(message).at(path));
    }
    const OBJECTS: &str =
        "; Arrow data is read where it is by the Python package, and by the command with its feature `objects`";
    let (copy, other) = match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" => (format!("aws s3 cp '{text}' ."), OBJECTS),
        "gs" => (format!("gcloud storage cp '{text}' ."), ""),
        "http" | "https" => (format!("curl -O '{text}'"), OBJECTS),
        _ => ("a program for it".into(), ""),
    };
    let message = format!("only local files can be opened in place; copy it here first, by {copy}{other}");
    Err(Error::invalid_argument(message).at(path))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// `text` with each `%XX` decoded to its byte.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match (byte, digit(text.get(at + 1)), digit(text.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}

/// The files of `directory` whose names end in `.arrow`.
///
/// # Errors
/// `NotFound` if there are none; those of reading the directory.
pub(crate) fn arrow_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    find_named(directory, directory, |name| name.as_bytes().ends_with(b".arrow"), &mut found)?;
    let files = only_files(found)?;
    if files.is_empty() {
        let mut message = String::from("the directory has no file that ends in .arrow; name its files, or a glob");
        let inside = directories_with_arrow_files(directory);
        if !inside.is_empty() {
            message.push_str(&format!(", or one of its subdirectories with such files: {}", inside.join(", ")));
        }
        return Err(Error::new(ErrorKind::NotFound, message).at(directory));
    }
    Ok(files)
}

/// The names of the first few directories in `directory` with such files, such as the splits saved by Hugging Face.
/// Unreadable ones are skipped.
fn directories_with_arrow_files(directory: &Path) -> Vec<String> {
    const SHOWN: usize = 5;
    let names = names_in(directory).unwrap_or_default();
    let has_files = |name: &OsString| {
        let path = directory.join(name);
        path.is_dir()
            && names_in(&path).is_ok_and(|names| names.iter().any(|name| name.as_bytes().ends_with(b".arrow")))
    };
    let found = names.into_iter().take(1000).filter(has_files).take(SHOWN);
    found.map(|name| escape_hidden(&name.to_string_lossy()).into_owned()).collect()
}

/// The files that match a pattern: `*`, `?` and `[…]` within a name, `**` for any number of directories. A component of
/// the pattern that is itself an existing name is taken literally.
///
/// # Errors
/// `NotFound` if there are none; `InvalidArgument` for an invalid pattern; those of reading a directory, since files in
/// it might have matched.
#[cfg(feature = "glob")]
pub(crate) fn expand_glob(pattern: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![PathEntry { path: PathBuf::new(), is_file: false }];
    for component in pattern.components() {
        let mut next = Vec::new();
        for base in found.into_iter().filter(|base| !base.is_file) {
            step(base.path, component, &mut next).map_err(|e| e.at(pattern))?;
        }
        found = next;
    }
    let files = only_files(found)?;
    if files.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no file matches the pattern").at(pattern));
    }
    Ok(files)
}

/// Without the feature `glob` nothing is matched.
#[cfg(not(feature = "glob"))]
pub(crate) fn expand_glob(pattern: &Path) -> Result<Vec<PathBuf>> {
    Err(Error::missing_feature("a path that is a pattern", "glob").at(pattern))
}

/// The matches of `component` of a pattern in `base`.
#[cfg(feature = "glob")]
fn step(base: PathBuf, component: Component<'_>, found: &mut Vec<PathEntry>) -> Result<()> {
    let name = component.as_os_str();
    let literal = base.join(name);
    if !has_wildcards(name) {
        found.push(PathEntry { path: literal, is_file: false });
        return Ok(());
    }
    let is_literal = exists(&literal).map(|there| there || literal.is_symlink());
    if let Ok(true) = is_literal {
        found.push(PathEntry { path: literal, is_file: false });
        return Ok(());
    }
    if !is_directory(here(&base))? {
        return Ok(());
    }
    if name == "**" {
        walk(base, &mut HashSet::new(), found)?;
    } else {
        let pattern =
            Pattern::new(&name.to_string_lossy()).map_err(|e| Error::invalid_argument(format!("not a glob: {e}")))?;
        // Bytes of a name that are not UTF-8 are matched as one character each.
        find_named(&base, here(&base), |name| pattern.matches(&name.to_string_lossy()), found)?;
    }
    // Of a directory that can't be read, its own error says more.
    is_literal.map(drop)
}

/// `base` and all directories below it; one that is among its own parents, through a link, is not entered again.
fn walk(base: PathBuf, parents: &mut HashSet<(u64, u64)>, found: &mut Vec<PathEntry>) -> Result<()> {
    let data = fs::metadata(here(&base)).map_err(|e| unreadable(&base, &e))?;
    let identity = (data.dev(), data.ino());
    if !parents.insert(identity) {
        return Ok(());
    }
    for name in names_in(here(&base))? {
        let inside = base.join(name);
        if is_directory(&inside)? {
            walk(inside, parents, found)?;
        }
    }
    parents.remove(&identity);
    found.push(PathEntry { path: base, is_file: false });
    Ok(())
}

/// The directory at which a relative path begins.
fn here(base: &Path) -> &Path {
    if base.as_os_str().is_empty() { Path::new(".") } else { base }
}

fn names_in(directory: &Path) -> Result<Vec<OsString>> {
    Ok(entries_in(directory)?.iter().map(DirEntry::file_name).collect())
}

fn entries_in(directory: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect);
    entries.map_err(|e| unreadable(directory, &e))
}

fn unreadable(directory: &Path, error: &io::Error) -> Error {
    Error::io("reading the directory", error).at(here(directory))
}

/// A path, and whether it is known to be one of a regular file.
struct PathEntry {
    path: PathBuf,
    is_file: bool,
}

/// Finds the entries of `directory` whose names are wanted, in order: paths that begin with `base`.
fn find_named(
    base: &Path,
    directory: &Path,
    is_wanted: impl Fn(&OsStr) -> bool,
    found: &mut Vec<PathEntry>,
) -> Result<()> {
    // Most file systems tell the type of an entry with its name.
    let is_file = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let entries = entries_in(directory)?.into_iter().map(|entry| (entry.file_name(), entry));
    let wanted = entries.filter(|(name, _)| is_wanted(name));
    let mut names: Vec<(OsString, bool)> = wanted.map(|(name, entry)| (name, is_file(&entry))).collect();
    names.sort_unstable();
    found.extend(names.into_iter().map(|(name, is_file)| {
        let mut path = PathBuf::with_capacity(base.as_os_str().len() + 1 + name.len());
        path.push(base);
        path.push(name);
        PathEntry { path, is_file }
    }));
    Ok(())
}

/// The files among `named`, in order. A broken link is kept, so that opening it fails with an error.
///
/// # Errors
/// `Io`: what can't be looked at may be a file.
fn only_files(named: Vec<PathEntry>) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for PathEntry { path, is_file } in named {
        let is_wanted = is_file
            || match metadata_at(&path)? {
                Some(data) => data.is_file(),
                None => path.is_symlink(),
            };
        if is_wanted {
            paths.push(path);
        }
    }
    paths.sort_unstable_by(|a, b| in_order(a, b));
    paths.dedup_by(|a, b| a.as_os_str() == b.as_os_str());
    Ok(paths)
}

/// The order of the names that two paths consist of, if a single slash stands between these. Comparing paths of the standard
/// library takes names apart first, which for ten thousand files took a tenth of the time to open them.
fn in_order(a: &Path, b: &Path) -> Ordering {
    let (a, b) = (a.as_os_str().as_bytes(), b.as_os_str().as_bytes());
    // A slash ends a name, and a name comes before those that begin with it.
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((&a, &b)) => rank(a).cmp(&rank(b)),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory with the given files, all empty.
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn found(root: &Path, pattern: &str) -> Vec<String> {
        let files = expand_glob(&root.join(pattern)).unwrap_or_default();
        files.iter().map(|file| file.strip_prefix(root).unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn patterns_match_as_the_glob_crate_does() {
        let root =
            tree(&["m.arrow", "b/c/k.arrow", "b/a.arrow", "a/q.arrow", "z/y/x.arrow", ".h.arrow", "b.txt", "zz.arrow"]);
        let patterns = [
            "*.arrow",
            "**/*.arrow",
            "*/*.arrow",
            "**/b/*.arrow",
            "*/**/*.arrow",
            "**",
            "?/[a-k]*",
            "[!b]*/**/*",
            "no*",
        ];
        for pattern in patterns {
            let theirs = glob::glob(root.path().join(pattern).to_str().unwrap()).unwrap().map(Result::unwrap);
            let theirs = theirs.filter(|path| path.is_file());
            let theirs: Vec<_> = theirs.map(|f| f.strip_prefix(&root).unwrap().to_str().unwrap().to_string()).collect();
            assert_eq!(found(root.path(), pattern), theirs, "{pattern}");
        }
    }

    #[test]
    fn paths_are_in_the_order_of_their_names() {
        let paths = ["/a", "/a/b", "/a/b/c", "/a/b-c", "/a!/b", "/a-b", "/a0", "/b"].map(Path::new);
        for (a, b) in paths.iter().flat_map(|a| paths.iter().map(move |b| (a, b))) {
            assert_eq!(in_order(a, b), a.cmp(b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_name_that_is_there_is_no_pattern() {
        let root = tree(&["run[1]/a.arrow", "run1/b.arrow", "x*y/c.arrow", "xzy/d.arrow"]);
        assert_eq!(found(root.path(), "run[1]/*.arrow"), ["run[1]/a.arrow"]);
        assert_eq!(found(root.path(), "x*y/*"), ["x*y/c.arrow"]);
        assert_eq!(found(root.path(), "run[12]/*"), ["run1/b.arrow"]);
        assert_eq!(arrow_files(&root.path().join("run[1]")).unwrap(), [root.path().join("run[1]/a.arrow")]);
    }

    #[test]
    fn names_may_have_any_bytes() {
        let root = tree(&["a.arrow"]);
        let strange = root.path().join(OsString::from_vec(b"\xff.arrow".into()));
        fs::write(&strange, "").unwrap();
        let both = [root.path().join("a.arrow"), strange];
        assert_eq!(expand_glob(&root.path().join("*.arrow")).unwrap(), both);
        assert_eq!(expand_glob(&root.path().join("?.arrow")).unwrap(), both);
        assert_eq!(arrow_files(root.path()).unwrap(), both);
    }

    #[test]
    fn links_are_followed_and_those_that_lead_nowhere_are_not_forgotten() {
        let root = tree(&["a/b.arrow"]);
        symlink(root.path(), root.path().join("a/loop")).unwrap();
        symlink("a", root.path().join("again")).unwrap();
        assert_eq!(found(root.path(), "**/*.arrow"), ["a/b.arrow", "again/b.arrow"]);
        symlink("nowhere", root.path().join("lost.arrow")).unwrap();
        assert_eq!(arrow_files(root.path()).unwrap(), [root.path().join("lost.arrow")]);
    }
}
