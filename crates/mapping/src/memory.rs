//! The memory that is left.

use std::fs;
use std::path::Path;

/// Returns the bytes of memory that this process may still take, as far as the system tells: those left on the machine, in
/// the container that the process is in, or below its own limit (`ulimit -v`), whichever are fewest.
pub fn free_memory() -> Option<u64> {
    let of_machine = || {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
    };
    let of_process = || {
        let most = line(Path::new("/proc/self/limits"), "Max address space")?;
        Some(most.saturating_sub(line(Path::new("/proc/self/status"), "VmSize:")? << 10))
    };
    [of_machine(), free_in_container(Path::new("/sys/fs/cgroup")), of_process()].into_iter().flatten().min()
}

/// The bytes that a container has left, by the files of its control group.
fn free_in_container(group: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let most = number("memory.max")?;
    let used = number("memory.current")?;
    // Pages of files count as used, but make room for others: those of a mapped table would look like a full container.
    let cached = ["active_file ", "inactive_file "].map(|kind| line(&group.join("memory.stat"), kind).unwrap_or(0));
    Some(most.saturating_sub(used.saturating_sub(cached.iter().sum())))
}

/// The number behind `start` in a line of a file.
fn line(path: &Path, start: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(start)?.split_whitespace().next()?.parse::<u64>().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_free_but_not_all() {
        let free = free_memory().unwrap();
        assert!(free > 0 && free < crate::sys::physical_memory() as u64);
    }

    #[test]
    fn a_container_has_left_what_it_does_not_use_and_the_pages_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let free = |files: &[(&str, &str)]| {
            files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
            free_in_container(folder.path())
        };
        // Without a control group, and in one without a limit.
        assert_eq!(free(&[]), None);
        assert_eq!(free(&[("memory.max", "max\n"), ("memory.current", "5000\n")]), None);
        assert_eq!(free(&[("memory.max", "8000\n")]), Some(3000));
        let stat = "anon 3000\nactive_file 1200\ninactive_file 300\nactive_anon 9\n";
        assert_eq!(free(&[("memory.stat", stat)]), Some(4500));
        // Pages of files that another group has paid for are not used twice.
        assert_eq!(free(&[("memory.current", "100\n")]), Some(8000));
        assert_eq!(free(&[("memory.stat", "anon 1\n"), ("memory.current", "9000\n")]), Some(0));
    }
}
