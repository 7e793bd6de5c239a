//! Checks that no folder has so many sources that nobody sees what is where.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// The limit of sources in a folder.
const MAX_FILES: usize = 20;

/// Folders with more sources, and their numbers, which may only fall.
const LARGE_FOLDERS: &[(&str, usize)] = &[];

/// Endings of sources.
const ENDINGS: [&str; 8] = ["c", "clj", "h", "java", "py", "pyi", "rs", "ts"];

/// Folders of tests, of other people's code and of what tools make, wherever they are.
const SKIPPED: [&str; 6] = ["build", "dist", "node_modules", "target", "test", "tests"];

/// Collects the sources in a folder of the repository and the folders below.
fn collect_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_str().unwrap().to_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                collect_sources(&path, files);
            }
        } else if path.extension().is_some_and(|ending| ENDINGS.contains(&ending.to_str().unwrap())) {
            files.push(path.strip_prefix(root()).unwrap().to_path_buf());
        }
    }
}

/// Returns what is wrong with the numbers of files; `listed` are the folders that may have more.
fn violations(files: &[PathBuf], listed: &[(&str, usize)]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = listed.iter().map(|(folder, _)| (*folder, 0)).collect();
    for file in files {
        *counts.entry(file.parent().unwrap().to_str().unwrap()).or_default() += 1;
    }
    let mut violations = Vec::new();
    for (folder, count) in counts {
        let max_count = listed.iter().find(|(listed, _)| *listed == folder).map(|(_, count)| *count);
        if count > max_count.unwrap_or(MAX_FILES) {
            violations.push(format!("{folder} has {count} sources: make folders of them, at most {MAX_FILES} in each"));
        } else if max_count.is_some_and(|max_count| count < max_count) {
            violations.push(format!("{folder} has {count} sources: correct or remove its line in LARGE_FOLDERS"));
        }
    }
    violations
}

#[test]
fn folders_have_few_sources() {
    let mut files = Vec::new();
    for folder in ["bench", "bindings", "crates", "docs", "examples", "fuzz", "model", "packaging", "web"] {
        collect_sources(&root().join(folder), &mut files);
    }
    for ending in ENDINGS {
        assert!(files.iter().any(|file| file.extension().unwrap() == ending), "no .{ending}: the search is broken");
    }
    let violations = violations(&files, LARGE_FOLDERS);
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn large_folders_are_found_and_listed_ones_may_not_grow() {
    let files_in = |folder: &'static str, count| (0..count).map(move |n| PathBuf::from(format!("{folder}/{n}.rs")));
    let files: Vec<PathBuf> =
        files_in("full", 20).chain(files_in("full/large", 21)).chain(files_in("old", 30)).collect();
    assert_eq!(violations(&files, &[("full/large", 21), ("old", 30)]), [""; 0]);
    let found = [
        violations(&files, &[("old", 30)]),
        violations(&files, &[("full/large", 21), ("old", 29)]),
        violations(&files, &[("full/large", 21), ("old", 31)]),
        violations(&files, &[("full/large", 21), ("gone", 25), ("old", 30)]),
    ];
    for (violations, folder) in found.iter().zip(["full/large", "old", "old", "gone"]) {
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].starts_with(&format!("{folder} has ")), "{violations:?}");
    }
}
