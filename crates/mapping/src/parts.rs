//! The names of files that are not complete yet.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns an unused name beside the directory, where no listing of the directory finds it.
pub(crate) fn part_name(folder: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    folder.parent().unwrap_or(Path::new(".")).join(format!(".{name}.{}.{number}.part", std::process::id()))
}

/// Removes what a killed writer of `folder` has left beside it. Only for the holder of the directory's lock: nobody
/// else uses such files then.
pub fn remove_parts(folder: &Path) {
    let name = format!(".{}.", folder.file_name().unwrap_or_default().to_string_lossy());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_part = |file: &str| {
        let numbers = file.strip_prefix(&name).and_then(|rest| rest.strip_suffix(".part"));
        numbers.and_then(|numbers| numbers.split_once('.')).is_some_and(|(pid, n)| is_number(pid) && is_number(n))
    };
    let beside = folder.parent().unwrap_or(Path::new("."));
    for entry in std::fs::read_dir(beside).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_part) {
            // A file that can't be removed only costs space.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
