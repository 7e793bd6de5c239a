//! Determines how much memory is left.

use std::fs;
use std::path::Path;

/// Returns the bytes of memory that this process may still take, as far as the system tells: the minimum of what is
/// left on the machine, in the container that the process is in, and below the process's own limit (`ulimit -v`).
pub fn free_memory() -> Option<u64> {
    let free = [free_on_machine(), free_in_container(Path::new("/sys/fs/cgroup")), free_in_process()];
    free.into_iter().flatten().min()
}

/// Returns the bytes that the machine has left.
fn free_on_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Returns the bytes that the process has left below its limit.
fn free_in_process() -> Option<u64> {
    let limit = number_after(Path::new("/proc/self/limits"), "Max address space")?;
    let used = number_after(Path::new("/proc/self/status"), "VmSize:")? << 10;
    // The limit may have been set below the current size.
    Some(limit.saturating_sub(used))
}

/// Returns the bytes that a container has left, according to the files of its control group.
fn free_in_container(group: &Path) -> Option<u64> {
    let limit = number_in(&group.join("memory.max"))?;
    let used = number_in(&group.join("memory.current"))?;
    // Pages of files count as used, but make room for others: without this, a mapped table would look like a full
    // container. They may be charged to another group, so they may be more than are used in this one.
    let stat = group.join("memory.stat");
    let cached: u64 = ["active_file ", "inactive_file "].iter().filter_map(|kind| number_after(&stat, kind)).sum();
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

/// Returns the number that is the content of a file.
fn number_in(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the number after `start` in a line of a file.
fn number_after(path: &Path, start: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(start)?.split_whitespace().next()?.parse::<u64>().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_less_than_physical_memory() {
        let free = free_memory().unwrap();
        assert!(free > 0 && free < crate::sys::physical_memory() as u64);
    }

    #[test]
    fn free_in_container_counts_file_pages_as_free() {
        let folder = tempfile::tempdir().unwrap();
        let free = |files: &[(&str, &str)]| {
            for (name, text) in files {
                fs::write(folder.path().join(name), text).unwrap();
            }
            free_in_container(folder.path())
        };
        // Without a control group, and with one that has no limit.
        assert_eq!(free(&[]), None);
        assert_eq!(free(&[("memory.max", "max\n"), ("memory.current", "5000\n")]), None);
        assert_eq!(free(&[("memory.max", "8000\n")]), Some(3000));
        let stat = "anon 3000\nactive_file 1200\ninactive_file 300\nactive_anon 9\n";
        assert_eq!(free(&[("memory.stat", stat)]), Some(4500));
        // The pages of files may be accounted to another group: free memory is at most the limit.
        assert_eq!(free(&[("memory.current", "100\n")]), Some(8000));
        assert_eq!(free(&[("memory.stat", "anon 1\n"), ("memory.current", "9000\n")]), Some(0));
    }
}
