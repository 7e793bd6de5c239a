//! What a client may take of the server.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;

/// The number of files that the process may have open; what is usual if the system doesn't say.
static OPEN_FILES: LazyLock<usize> = LazyLock::new(|| {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    files.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(1_024)
});

/// The memory that the process may have, in bytes, if its control group or one around it has a limit.
static MEMORY: LazyLock<Option<u64>> = LazyLock::new(|| {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    memory_limit(&groups, Path::new("/sys/fs/cgroup"))
});

/// The least limit of the groups in `/proc/self/cgroup`, which lie below `mount`: those of version 2, or of version 1.
fn memory_limit(groups: &str, mount: &Path) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let kinds = parts.next().unwrap_or_default();
        let group = parts.next().unwrap_or_default().trim_start_matches('/').to_owned();
        let place = match kinds {
            "" => Some((mount.to_path_buf(), "memory.max")),
            _ if kinds.split(',').any(|kind| kind == "memory") => Some((mount.join("memory"), "memory.limit_in_bytes")),
            _ => None,
        };
        place.into_iter().flat_map(move |(folder, name)| {
            // In a container the path may be that of the machine, and what is mounted the group itself.
            let groups = Path::new(&group).ancestors().map(Path::to_path_buf).collect::<Vec<_>>();
            groups.into_iter().filter_map(move |group| {
                fs::read_to_string(folder.join(group).join(name)).ok()?.trim().parse::<u64>().ok()
            })
        })
    });
    limits.min()
}

/// So much memory, but at most that part of what the process may have.
fn at_most_part(bytes: usize, part: u64) -> usize {
    let most = MEMORY.map_or(usize::MAX, |all| usize::try_from(all / part).unwrap_or(usize::MAX));
    bytes.min(most.max(1 << 20))
}

/// Limits of what a client controls.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's header.
    pub header: usize,
    /// Bytes of a body, both as it was sent and after its `Content-Encoding` was undone.
    pub body: usize,
    /// Bytes that the compressed buffers of an Arrow stream may have, all together.
    pub unpacked: usize,
    /// Bytes that the rows of a body may take in the table, and rows.
    pub rows: (u64, u64),
    /// Bytes of all bodies that are not committed yet.
    pub ingest_memory: usize,
    /// Bytes that all requests together may take to look at rows: for conditions, groups, statistics.
    pub query_memory: usize,
    /// How long one of them may look at rows.
    pub query_timeout: Duration,
    /// Statements of SQL that run at once. Those of one token are at most half of them.
    pub statements: usize,
    /// Open connections.
    pub connections: usize,
    /// Streams of an HTTP/2 connection.
    pub streams: u32,
    /// How long a TLS handshake may take, and a header of HTTP/1.1.
    pub greeting: Duration,
    /// How long each part of a body may take to come.
    pub part: Duration,
    /// How long a connection may stay without a request.
    pub idle: Duration,
    /// How long a client may take nothing of an answer. Another server of a shared query may also let `query_timeout` pass.
    pub stall: Duration,
    /// How long answers that have begun may go on when the server stops.
    pub grace: Duration,
    /// Tables whose files are open at once, besides those that are followed: the one that was not asked for the longest time is
    /// closed, and opened again when it is asked for.
    pub tables: usize,
    /// Tables open for writing at once: rows of another one are refused until one of them is closed.
    pub writers: usize,
    /// How long a table that nobody appends to stays open for writing; a tenth of a second if there are more than half of
    /// `writers`.
    pub writer: Duration,
    /// How long a file that is no longer part of a table may stay open, and so take space on the disk, if nobody asks for the
    /// table. The server looks for such files twice in that time. What an answer has not sent yet stays open longer.
    pub removed: Duration,
    /// The interval of looks whether the certificate was renewed.
    pub renewal: Duration,
}

impl Limits {
    /// The same limits, with bodies that can come into the memory for them: others are refused, and not to be sent again.
    pub(crate) fn clamped(self) -> Limits {
        let body = self.body.min(self.ingest_memory);
        let unpacked = self.unpacked.min(self.ingest_memory);
        Limits { body, unpacked, ..self }
    }

    /// When the next part of a body must have come that began at `begun`: it may take the time of twenty parts in total. What is
    /// slower is treated as an attack.
    pub(crate) fn next_part_deadline(&self, begun: Instant) -> Instant {
        (Instant::now() + self.part).min(begun + 20 * self.part)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        let seconds = Duration::from_secs;
        Limits {
            header: 16 << 10,
            body: 64 << 20,
            unpacked: 64 << 20,
            rows: (256 << 20, 1 << 26),
            ingest_memory: at_most_part(256 << 20, 8),
            query_memory: at_most_part(1 << 30, 4),
            query_timeout: seconds(300),
            statements: 48,
            // The rest is for tables, and for whoever asks how the server is.
            connections: (*OPEN_FILES / 2).min(2_048),
            streams: 64,
            greeting: seconds(10),
            part: seconds(30),
            idle: seconds(75),
            stall: seconds(300),
            grace: seconds(10),
            // A written table takes two, so that a quarter is left for connections and answers.
            tables: *OPEN_FILES / 4,
            writers: *OPEN_FILES / 4,
            writer: seconds(10),
            removed: seconds(10),
            renewal: seconds(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let limit = |groups: &str| memory_limit(groups, folder.path());
        assert_eq!(limit("0::/\n"), None);
        write("a/b/memory.max", "max\n");
        assert_eq!(limit("0::/a/b\n"), None);
        write("a/memory.max", "134217728\n");
        write("a/b/memory.max", "268435456\n");
        assert_eq!(limit("0::/a/b\n"), Some(128 << 20));
        assert_eq!(limit("0::/other\n"), None);
        // Version 1, and a container that sees its own group in the place of the machine's.
        write("memory/memory.limit_in_bytes", "67108864\n");
        assert_eq!(limit("5:devices:/x\n4:cpu,memory:/docker/1\n0::/\n"), Some(64 << 20));
        assert_eq!(limit("5:devices:/x\n"), None);
    }
}
