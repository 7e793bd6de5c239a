//! Finds the files of a pattern or a directory, in the order of the bytes of their names.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Component, Path, PathBuf};

#[cfg(feature = "glob")]
use glob::Pattern;

use crate::directory::{exists, is_directory, metadata_at};
use crate::error::{Error, ErrorKind, Result};
use crate::escape::escape_hidden;
use crate::map::os;

/// Returns true if `path`, which does not exist, is a pattern.
pub(crate) fn is_glob(path: &Path) -> bool {
    has_wildcards(path.as_os_str())
}

fn has_wildcards(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// Returns the local path of a path beginning with `~/`, or of a `file://` URL.
///
/// `None` for any other path, or if a file of that very name exists.
///
/// # Errors
/// `InvalidArgument` for other URLs, with advice.
pub fn local_path(path: &Path) -> Result<Option<PathBuf>> {
    let Some(text) = path.to_str() else { return Ok(None) };
    let scheme = text.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme));
    let is_home = text == "~" || text.starts_with("~/");
    if !is_home && scheme.is_none() || exists(path)? {
        return Ok(None);
    }
    let Some(scheme) = scheme else {
        let inside = text.trim_start_matches('~').trim_start_matches('/');
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        return Ok(home.map(|home| PathBuf::from(home).join(inside)));
    };
    if scheme.eq_ignore_ascii_case("file") {
        let rest = &text[scheme.len() + "://".len()..];
        let local = rest.strip_prefix("localhost").unwrap_or(rest);
        if local.starts_with('/') {
            let bytes = percent_decoded(local.as_bytes());
            let local = os::path_from_bytes(&bytes).map_err(|e| Error::io("decoding the path", &e).at(path))?;
            return Ok(Some(local.to_path_buf()));
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

/// Decodes each `%XX` to its byte; other percent signs stay.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        if let (b'%', [high, low, tail @ ..]) = (first, tail)
            && let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
        {
            bytes.push((high * 16 + low) as u8);
            rest = tail;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    bytes
}

/// Returns true if the name ends in `.arrow`.
fn is_arrow_name(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(b".arrow")
}

/// Returns the files of `directory` whose names end in `.arrow`.
///
/// # Errors
/// `NotFound` if there are none; `Io` if the directory can't be read.
pub(crate) fn arrow_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = Vec::new();
    find_entries(directory, directory, is_arrow_name, &mut entries)?;
    let files = only_files(entries)?;
    if files.is_empty() {
        let mut message = String::from("the directory has no file that ends in .arrow; name its files, or a glob");
        let subdirectories = directories_with_arrow_files(directory);
        if !subdirectories.is_empty() {
            let names = subdirectories.join(", ");
            message.push_str(&format!(", or one of its subdirectories with such files: {names}"));
        }
        return Err(Error::new(ErrorKind::NotFound, message).at(directory));
    }
    Ok(files)
}

/// Returns the names of the first few subdirectories with such files, such as the splits saved by Hugging Face.
/// Unreadable directories are skipped, as the names only serve as advice.
fn directories_with_arrow_files(directory: &Path) -> Vec<String> {
    const MAX_SEARCHED: usize = 1000;
    const MAX_NAMED: usize = 5;
    let Ok(names) = names_in(directory) else { return Vec::new() };
    let mut with_files = Vec::new();
    for name in names.into_iter().take(MAX_SEARCHED) {
        let path = directory.join(&name);
        if path.is_dir() && names_in(&path).is_ok_and(|names| names.iter().any(|name| is_arrow_name(name))) {
            with_files.push(escape_hidden(&name.to_string_lossy()).into_owned());
        }
        if with_files.len() == MAX_NAMED {
            break;
        }
    }
    with_files
}

/// Returns the files that match a pattern: `*`, `?` and `[…]` within a name, `**` for any number of directories. A
/// component of the pattern that is itself an existing name is taken literally.
///
/// # Errors
/// `NotFound` if there are none; `InvalidArgument` for an invalid pattern; `Io` if a directory can't be read, since
/// files in it might have matched.
#[cfg(feature = "glob")]
pub(crate) fn expand_glob(pattern: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = vec![PathEntry { path: PathBuf::new(), is_file: false }];
    for component in pattern.components() {
        let mut next = Vec::new();
        for base in entries.into_iter().filter(|base| !base.is_file) {
            match_component(base.path, component, &mut next).map_err(|e| e.at(pattern))?;
        }
        entries = next;
    }
    let files = only_files(entries)?;
    if files.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "no file matches the pattern").at(pattern));
    }
    Ok(files)
}

/// Refuses patterns, which need the feature `glob`.
#[cfg(not(feature = "glob"))]
pub(crate) fn expand_glob(pattern: &Path) -> Result<Vec<PathBuf>> {
    Err(Error::missing_feature("a path that is a pattern", "glob").at(pattern))
}

/// Adds the entries of `base` that match `component` of a pattern.
#[cfg(feature = "glob")]
fn match_component(base: PathBuf, component: Component<'_>, entries: &mut Vec<PathEntry>) -> Result<()> {
    let name = component.as_os_str();
    let literal = base.join(name);
    if !has_wildcards(name) {
        entries.push(PathEntry { path: literal, is_file: false });
        return Ok(());
    }
    let is_literal = exists(&literal).map(|exists| exists || literal.is_symlink());
    if let Ok(true) = is_literal {
        entries.push(PathEntry { path: literal, is_file: false });
        return Ok(());
    }
    if !is_directory(or_current(&base))? {
        return Ok(());
    }
    if name == "**" {
        walk(base, &mut HashSet::new(), entries)?;
    } else {
        let pattern =
            Pattern::new(&name.to_string_lossy()).map_err(|e| Error::invalid_argument(format!("not a glob: {e}")))?;
        // Bytes of a name that are not UTF-8 are matched as one character each.
        find_entries(&base, or_current(&base), |name| pattern.matches(&name.to_string_lossy()), entries)?;
    }
    // Reported last: the error of a directory that can't be read says more.
    Ok(is_literal.map(drop)?)
}

/// Adds `base` and all directories below it. A directory that is among its own parents, through a link, is not entered
/// again.
fn walk(base: PathBuf, parents: &mut HashSet<(u64, u64)>, entries: &mut Vec<PathEntry>) -> Result<()> {
    let metadata = os::FileInfo::from_path(or_current(&base)).map_err(|e| unreadable(&base, &e))?;
    let identity = os::file_identity(&metadata);
    if !parents.insert(identity) {
        return Ok(());
    }
    for name in names_in(or_current(&base))? {
        let inside = base.join(name);
        if is_directory(&inside)? {
            walk(inside, parents, entries)?;
        }
    }
    parents.remove(&identity);
    entries.push(PathEntry { path: base, is_file: false });
    Ok(())
}

/// Returns the directory of a relative path, which is the current one if `base` is empty.
fn or_current(base: &Path) -> &Path {
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
    Error::io("reading the directory", error).at(or_current(directory))
}

/// A path that matches the components of a pattern so far, or an entry of a directory.
struct PathEntry {
    path: PathBuf,
    /// True if the path is known to be a regular file.
    is_file: bool,
}

/// Adds the entries of `directory` whose names are wanted, in order, as paths that begin with `base`.
fn find_entries(
    base: &Path,
    directory: &Path,
    is_wanted: impl Fn(&OsStr) -> bool,
    entries: &mut Vec<PathEntry>,
) -> Result<()> {
    let mut found: Vec<(OsString, bool)> = Vec::new();
    for entry in entries_in(directory)? {
        let name = entry.file_name();
        if is_wanted(&name) {
            // Most file systems return the type of an entry with its name.
            found.push((name, entry.file_type().is_ok_and(|kind| kind.is_file())));
        }
    }
    found.sort_unstable();

    for (name, is_file) in found {
        let mut path = PathBuf::with_capacity(base.as_os_str().len() + 1 + name.len());
        path.push(base);
        path.push(name);
        entries.push(PathEntry { path, is_file });
    }
    Ok(())
}

/// Returns the files among `entries`, in order. A broken link is kept, so that opening it fails with an error.
///
/// # Errors
/// `Io` if the type of an entry can't be read, since it may be a file.
fn only_files(entries: Vec<PathEntry>) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for PathEntry { path, is_file } in entries {
        let is_wanted = is_file
            || match metadata_at(&path)? {
                Some(metadata) => metadata.is_file(),
                None => path.is_symlink(),
            };
        if is_wanted {
            paths.push(path);
        }
    }
    paths.sort_unstable_by(|a, b| compare_paths(a, b));
    paths.dedup_by(|a, b| a.as_os_str() == b.as_os_str());
    Ok(paths)
}

/// Compares the components of two paths, which must have single slashes between them.
///
/// The standard library parses the components of both paths first, which took a tenth of the time to open ten thousand
/// files.
fn compare_paths(a: &Path, b: &Path) -> Ordering {
    let a = a.as_os_str().as_encoded_bytes();
    let b = b.as_os_str().as_encoded_bytes();
    match a.iter().zip(b).find(|(a, b)| a != b) {
        // A slash ends a component, which comes before longer ones that begin with it.
        Some((b'/', _)) => Ordering::Less,
        Some((_, b'/')) => Ordering::Greater,
        Some((a, b)) => a.cmp(b),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a directory with the given files, all empty.
    fn create_tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    /// Returns the files that match a pattern, relative to `root`.
    fn matching_files(root: &Path, pattern: &str) -> Vec<String> {
        let files = expand_glob(&root.join(pattern)).unwrap_or_default();
        files.iter().map(|file| file.strip_prefix(root).unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn patterns_match_as_the_glob_crate_does() {
        let root = create_tree(&[
            "m.arrow",
            "b/c/k.arrow",
            "b/a.arrow",
            "a/q.arrow",
            "z/y/x.arrow",
            ".h.arrow",
            "b.txt",
            "zz.arrow",
        ]);
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
            let paths = glob::glob(root.path().join(pattern).to_str().unwrap()).unwrap().map(Result::unwrap);
            let files = paths.filter(|path| path.is_file());
            let expected: Vec<_> =
                files.map(|file| file.strip_prefix(&root).unwrap().to_str().unwrap().to_string()).collect();
            assert_eq!(matching_files(root.path(), pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn paths_are_sorted_by_name() {
        let paths = ["/a", "/a/b", "/a/b/c", "/a/b-c", "/a!/b", "/a-b", "/a0", "/b"].map(Path::new);
        for (a, b) in paths.iter().flat_map(|a| paths.iter().map(move |b| (a, b))) {
            assert_eq!(compare_paths(a, b), a.cmp(b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn an_existing_name_is_not_a_pattern() {
        let root = create_tree(&["run[1]/a.arrow", "run1/b.arrow", "x*y/c.arrow", "xzy/d.arrow"]);
        assert_eq!(matching_files(root.path(), "run[1]/*.arrow"), ["run[1]/a.arrow"]);
        assert_eq!(matching_files(root.path(), "x*y/*"), ["x*y/c.arrow"]);
        assert_eq!(matching_files(root.path(), "run[12]/*"), ["run1/b.arrow"]);
        assert_eq!(arrow_files(&root.path().join("run[1]")).unwrap(), [root.path().join("run[1]/a.arrow")]);
    }

    #[test]
    fn names_may_have_any_bytes() {
        let root = create_tree(&["a.arrow"]);
        let not_utf8 = root.path().join(OsString::from_vec(b"\xff.arrow".into()));
        fs::write(&not_utf8, "").unwrap();
        let expected = [root.path().join("a.arrow"), not_utf8];
        assert_eq!(expand_glob(&root.path().join("*.arrow")).unwrap(), expected);
        assert_eq!(expand_glob(&root.path().join("?.arrow")).unwrap(), expected);
        assert_eq!(arrow_files(root.path()).unwrap(), expected);
    }

    #[test]
    fn links_are_followed_and_broken_links_are_kept() {
        let root = create_tree(&["a/b.arrow"]);
        symlink(root.path(), root.path().join("a/loop")).unwrap();
        symlink("a", root.path().join("again")).unwrap();
        assert_eq!(matching_files(root.path(), "**/*.arrow"), ["a/b.arrow", "again/b.arrow"]);
        symlink("nowhere", root.path().join("lost.arrow")).unwrap();
        assert_eq!(arrow_files(root.path()).unwrap(), [root.path().join("lost.arrow")]);
    }
}
