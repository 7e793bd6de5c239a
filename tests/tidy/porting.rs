//! Checks that `docs/porting.md` lists every system call, for those who port Arrowwood.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{read, root};

/// Functions that the standard library provides on all systems.
const PORTABLE: [&str; 2] = ["close", "__errno_location"];

/// Collects the Rust files in a folder. Tests and examples are left out, as they are not ported.
fn collect_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("examples") && !path.ends_with("tests") {
                collect_sources(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the names of libc functions that `code` calls.
fn libc_calls(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in code.split("libc::").skip(1) {
        let name_len = rest.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        let (name, rest) = rest.split_at(name_len.unwrap_or(rest.len()));
        if rest.starts_with('(') {
            names.insert(name.to_owned());
        }
    }
    names
}

#[test]
fn porting_page_lists_each_system_call() {
    let page = read("docs/porting.md");
    let mut files = Vec::new();
    collect_sources(&root().join("crates"), &mut files);
    let mut calls = BTreeSet::new();
    for file in files {
        calls.extend(libc_calls(&fs::read_to_string(file).unwrap()));
    }
    assert!(calls.contains("mmap") && calls.len() > 15, "the search is broken: {calls:?}");
    calls.retain(|name| !PORTABLE.contains(&name.as_str()) && !page.contains(&format!("`{name}`")));
    assert!(calls.is_empty(), "not on docs/porting.md: {calls:?}");
}
