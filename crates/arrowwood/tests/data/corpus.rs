//! Finds Arrow's integration files in a copy of the repository `arrow-testing`, if there is one next to the checkout or
//! at `ARROW_TESTING`.

use std::path::{Path, PathBuf};

/// Returns the golden files whose names end with one of `suffixes`, sorted; none if there is no copy of the repository.
pub fn golden_files(suffixes: &[&str]) -> Vec<PathBuf> {
    let mut paths = files_below("golden");
    paths.retain(|path| suffixes.iter().any(|suffix| path.to_string_lossy().ends_with(suffix)));
    paths.sort();
    paths
}

/// Returns all files below a directory of the repository, in no order; none if there is no copy of the repository.
pub fn files_below(directory: &str) -> Vec<PathBuf> {
    let sibling = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/arrow-testing");
    let root = std::env::var_os("ARROW_TESTING").map_or(sibling, PathBuf::from);
    let mut files = Vec::new();
    let mut directories = vec![root.join(directory)];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}
