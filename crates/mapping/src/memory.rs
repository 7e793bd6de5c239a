//! The memory that is left.

use std::fs;

/// Returns the bytes of memory that this process may still take, as far as the system tells: those left on the machine, in
/// the container that the process is in, or below its own limit (`ulimit -v`), whichever are fewest.
pub fn free_memory() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let of_machine = || {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
    };
    let line = |path: &str, start: &str| {
        let text = fs::read_to_string(path).ok()?;
        text.lines().find_map(|line| line.strip_prefix(start)?.split_whitespace().next()?.parse::<u64>().ok())
    };
    let of_container = || {
        let most = number("/sys/fs/cgroup/memory.max")?;
        let used = number("/sys/fs/cgroup/memory.current")?;
        // Pages of files count as used, but make room for others: those of a mapped table would look like a full container.
        let cached =
            ["active_file ", "inactive_file "].map(|kind| line("/sys/fs/cgroup/memory.stat", kind).unwrap_or(0));
        Some(most.saturating_sub(used.saturating_sub(cached.iter().sum())))
    };
    let of_process = || {
        let most = line("/proc/self/limits", "Max address space")?;
        Some(most.saturating_sub(line("/proc/self/status", "VmSize:")? << 10))
    };
    [of_machine(), of_container(), of_process()].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_free_but_not_all() {
        let free = free_memory().unwrap();
        assert!(free > 0 && free < crate::sys::physical_memory() as u64);
    }
}
