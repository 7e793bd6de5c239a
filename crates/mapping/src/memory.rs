//! The memory that is left.

use std::fs;

/// Returns the bytes of memory that this process may still take, as far as the system tells: those left on the machine, or
/// in the container that the process is in, if these are fewer.
pub fn free_memory() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let of_machine = || {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
    };
    let of_container = || {
        let most = number("/sys/fs/cgroup/memory.max")?;
        let used = number("/sys/fs/cgroup/memory.current")?;
        Some(most.saturating_sub(used))
    };
    [of_machine(), of_container()].into_iter().flatten().min()
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
