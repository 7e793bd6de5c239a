//! Limits of the server's resources that clients may take.

use std::sync::LazyLock;
use std::time::Duration;

use arrowwood::mapping::os;
use tokio::time::Instant;

/// The usual limit on the number of open files.
const USUAL_OPEN_FILES: usize = 1_024;
/// The minimum of a limit that is a part of the memory.
const MIN_MEMORY_PART: usize = 1 << 20;
/// The time that a body may take in total, in times of one part.
const PARTS_OF_BODY: u32 = 20;

/// The number of files that the process may have open; the usual limit if the system doesn't tell.
static OPEN_FILES: LazyLock<usize> = LazyLock::new(|| os::open_files_limit().unwrap_or(USUAL_OPEN_FILES));

/// The memory that the process may have, in bytes, if its control group or one around it has a limit.
static MEMORY: LazyLock<Option<u64>> = LazyLock::new(os::memory_limit);

/// Returns `bytes`, but at most one `part`-th of the memory that the process may have.
fn at_most_part(bytes: usize, part: u64) -> usize {
    let max_bytes = MEMORY.map_or(usize::MAX, |all| usize::try_from(all / part).unwrap_or(usize::MAX));
    bytes.min(max_bytes.max(MIN_MEMORY_PART))
}

/// Limits of what a client controls.
///
/// The server refuses a request that exceeds one, or closes its connection.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's header.
    pub header: usize,
    /// Bytes of a body, both as it was sent and after its `Content-Encoding` was undone.
    pub body: usize,
    /// Bytes that the compressed buffers of an Arrow stream may have, all together.
    pub unpacked: usize,
    /// The maximum number of bytes that the rows of a body take in the table, and the maximum number of these rows.
    pub rows: (u64, u64),
    /// Bytes of all bodies that are not committed yet.
    pub ingest_memory: usize,
    /// Bytes that all requests together may take to look at rows: for conditions, groups, statistics.
    pub query_memory: usize,
    /// How long a request may look at rows.
    pub query_timeout: Duration,
    /// Statements of SQL that run at once; one token may run half of them.
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
    /// How long a client may leave a response untouched.
    ///
    /// Another server of a shared query may also let `query_timeout` pass.
    pub stall: Duration,
    /// How long responses that have begun may go on when the server stops.
    pub grace: Duration,
    /// Tables whose files are open at once, in addition to followed ones: the least recently used table is closed, and
    /// opened again by the next request.
    pub tables: usize,
    /// Tables open for writing at once: rows of another table are refused until one of them is closed.
    pub writers: usize,
    /// How long a table stays open for writing after the last rows; a tenth of a second if more than half of `writers`
    /// are open.
    pub writer: Duration,
    /// How long a file that is no longer part of a table may stay open, and so take space on the disk, without a
    /// request for the table.
    ///
    /// The server looks for such files twice in that time. Files of unfinished responses stay open longer.
    pub removed: Duration,
    /// The interval of checks for a renewed certificate.
    pub renewal: Duration,
}

impl Limits {
    /// Limits bodies to the memory for them: a larger body would be refused each time it is sent.
    pub(crate) fn clamped(self) -> Limits {
        let body = self.body.min(self.ingest_memory);
        let unpacked = self.unpacked.min(self.ingest_memory);
        Limits { body, unpacked, ..self }
    }

    /// Returns the time by which the next part of a body must arrive. The body began at `begun`, and may take the time
    /// of [`PARTS_OF_BODY`] parts in total: a slower client is treated as an attacker.
    pub(crate) fn next_part_deadline(&self, begun: Instant) -> Instant {
        (Instant::now() + self.part).min(begun + PARTS_OF_BODY * self.part)
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
            // The rest is for tables, and for requests for the server's health.
            connections: (*OPEN_FILES / 2).min(2_048),
            streams: 64,
            greeting: seconds(10),
            part: seconds(30),
            idle: seconds(75),
            stall: seconds(300),
            grace: seconds(10),
            // A written table takes two files, so that a quarter is left for connections and responses.
            tables: *OPEN_FILES / 4,
            writers: *OPEN_FILES / 4,
            writer: seconds(10),
            removed: seconds(10),
            renewal: seconds(30),
        }
    }
}
