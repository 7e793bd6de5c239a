//! What the system tells about the machine and its memory.

use std::path::Path;
use std::sync::OnceLock;
use std::{fs, io};

/// The control groups of containers.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";
/// The number of fields in a line of `/proc/self/cgroup`.
const GROUP_FIELDS: usize = 3;

/// Returns the id of the machine's boot as text, such as a UUID; `None` if the system has none.
///
/// # Errors
/// The errors of reading it, for example if the process has no free descriptor.
pub fn boot_id_text() -> io::Result<Option<String>> {
    match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => Ok(None),
        text => Ok(Some(text?.trim_end().to_owned())),
    }
}

/// Returns the maximum number of mappings of a process; `usize::MAX` if the system has none. A failure to read it is
/// not remembered.
pub fn max_mappings() -> usize {
    const DEFAULT: usize = 65_530;
    static MAX: OnceLock<usize> = OnceLock::new();
    if let Some(max) = MAX.get() {
        return *max;
    }
    let text = match fs::read_to_string("/proc/sys/vm/max_map_count") {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return DEFAULT,
        text => text.ok(),
    };
    let limit = text.and_then(|text| text.trim().parse().ok());
    *MAX.get_or_init(|| limit.unwrap_or(usize::MAX))
}

/// Returns the memory of the machine in bytes; `None` if the system doesn't tell.
pub fn total_memory() -> Option<u64> {
    memory_field("MemTotal:")
}

/// Returns the bytes of memory that this process may have, if its control group or one around it has a limit.
pub fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    smallest_limit(&groups, Path::new(CONTROL_GROUPS))
}

/// Returns the bytes of memory that this process may still take, as far as the system tells: the minimum of what is
/// left on the machine, in the container that the process is in, and below the process's own limit (`ulimit -v`).
pub fn free_memory() -> Option<u64> {
    let free = [free_on_machine(), free_in_container(Path::new(CONTROL_GROUPS)), free_in_process()];
    free.into_iter().flatten().min()
}

/// Returns the bytes that the machine has left.
fn free_on_machine() -> Option<u64> {
    memory_field("MemAvailable:")
}

/// Returns a size in bytes from `/proc/meminfo`.
fn memory_field(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
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

/// Returns the smallest limit of the control groups in `/proc/self/cgroup`, of version 1 or 2, which are mounted at
/// `mount`.
fn smallest_limit(groups: &str, mount: &Path) -> Option<u64> {
    let mut min_limit = None;
    for line in groups.lines() {
        // Number, controllers, path; groups of version 2 have no list of controllers.
        let mut parts = line.splitn(GROUP_FIELDS, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (folder, name) = if controllers.is_empty() {
            (mount.to_path_buf(), "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (mount.join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        // A container may see the machine's path although its own group is mounted: the root is the last ancestor.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let Ok(text) = fs::read_to_string(folder.join(group).join(name)) else { continue };
            // A group without a limit has `max`.
            let Ok(limit) = text.trim().parse::<u64>() else { continue };
            min_limit = Some(min_limit.map_or(limit, |min: u64| min.min(limit)));
        }
    }
    min_limit
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
        assert!(free > 0 && free < crate::os::physical_memory() as u64);
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

    #[test]
    fn smallest_limit_of_all_control_groups_applies() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let limit = |groups: &str| super::smallest_limit(groups, folder.path());
        assert_eq!(limit("0::/\n"), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/memory.max", "134217728\n");
        write("a/b/memory.max", "268435456\n");
        assert_eq!(limit("0::/a/b\n"), Some(128 << 20));
        assert_eq!(limit("0::/other\n"), None);
        // Control groups of version 1, in a container that sees its own group as the root.
        write("memory/memory.limit_in_bytes", "67108864\n");
        assert_eq!(limit("5:devices:/x\n4:cpu,memory:/docker/1\n0::/\n"), Some(64 << 20));
        assert_eq!(limit("5:devices:/x\n"), None);
    }
}
