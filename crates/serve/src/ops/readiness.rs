//! Reports whether the server can write, for load balancers that choose between several servers.
//!
//! [`Readiness`] counts writes that the disk has refused lately, and probes the disk with some bytes in a file without
//! a name. A server that gets no rows because it was not ready learns by the probe that the disk works again.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrowwood::mapping::{MutexExt, os};
use arrowwood::{Error, ErrorKind};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// The time for which a refused write counts.
const REFUSAL_AGE: Duration = Duration::from_secs(10);
/// The time for which the result of a probe counts, so that requests can't make the server write all the time.
const PROBE_AGE: Duration = Duration::from_secs(5);
/// The maximum time to wait for a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of bytes that a probe writes.
const PROBE_BYTES: usize = 64 << 10;

/// The problem of a disk of which nothing else is known.
const DISK_FAILS: &str = "the disk fails";

/// The state of the disk, as writes have shown it.
pub(crate) struct Readiness {
    /// The directory of the tables; `None` if nothing is written.
    folder: Option<PathBuf>,
    /// The last write that the disk refused.
    refused: Mutex<Option<(Instant, &'static str)>>,
    /// Locked while a request waits for a probe: others wait for the lock, and get the same result.
    probe: tokio::sync::Mutex<WriteProbe>,
}

/// The last probe of the disk.
#[derive(Default)]
struct WriteProbe {
    /// The probe that has not ended yet, perhaps because the disk does not answer.
    running: Option<JoinHandle<io::Result<()>>>,
    /// The time when the last probe ended, or took too long, and the problem that it found.
    last: Option<(Instant, Option<&'static str>)>,
}

impl Readiness {
    pub fn new(folder: Option<PathBuf>) -> Arc<Readiness> {
        Arc::new(Readiness { folder, refused: Mutex::default(), probe: tokio::sync::Mutex::default() })
    }

    /// Records an error of a write, if the disk is its cause.
    pub fn on_failure(&self, e: &Error) {
        let problem = match (e.kind(), e.errno()) {
            (ErrorKind::Io, Some(errno)) => describe(&io::Error::from_raw_os_error(errno)),
            (ErrorKind::Closed, _) => DISK_FAILS,
            _ => return,
        };
        *self.refused.lock_ignoring_poison() = Some((Instant::now(), problem));
    }

    /// Returns the reason why the disk takes no rows at this time, if there is one.
    pub async fn problem(&self) -> Option<&'static str> {
        let folder = self.folder.as_ref()?;
        let refused = *self.refused.lock_ignoring_poison();
        match refused.filter(|(when, _)| when.elapsed() < REFUSAL_AGE) {
            Some((_, problem)) => Some(problem),
            None => self.probe.lock().await.problem(folder).await,
        }
    }
}

impl WriteProbe {
    /// Probes the disk, unless the last result is fresh.
    async fn problem(&mut self, folder: &Path) -> Option<&'static str> {
        if let Some((_, problem)) = self.last.filter(|(when, _)| when.elapsed() < PROBE_AGE) {
            return problem;
        }
        // A probe that has not ended is waited for again, so that there is never a second one.
        let folder = folder.to_path_buf();
        let probe = self.running.get_or_insert_with(|| spawn_blocking(move || write_probe(&folder)));
        let problem = match timeout(PROBE_TIMEOUT, probe).await {
            Err(_) => Some("the disk does not answer"),
            Ok(done) => {
                self.running = None;
                done.ok().and_then(Result::err).map(|e| describe(&e))
            }
        };
        self.last = Some((Instant::now(), problem));
        problem
    }
}

/// Describes an error of the system without details, for clients without a token.
fn describe(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full",
        io::ErrorKind::ReadOnlyFilesystem => "the disk can only be read",
        _ if os::is_process_out_of_files(error) || os::is_system_out_of_files(error) => "too many files are open",
        _ => DISK_FAILS,
    }
}

/// Writes some bytes to a file without a name, which is removed when it is closed.
fn write_probe(folder: &Path) -> io::Result<()> {
    // Some file systems have no files without names. Their problems show when rows are written.
    let Some(mut file) = os::create_unnamed(folder)? else { return Ok(()) };
    file.write_all(&vec![0; PROBE_BYTES])?;
    file.sync_data()
}
