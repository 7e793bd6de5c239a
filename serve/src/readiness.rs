//! [`Readiness`]: what keeps the server from doing its work, for whoever sends requests to one of several servers.
//!
//! Writes that the disk has refused lately count, and a few bytes written to a file without a name: a server to which nobody
//! sends rows because it was not ready learns by these that the disk works again.

use arrowwood::mapping::MutexExt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arrowwood::{Error, ErrorKind};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// How long a refused write counts.
const LATELY: Duration = Duration::from_secs(10);
/// How long the result of a trial counts: nobody can make the server write all the time by asking.
const FRESH: Duration = Duration::from_secs(5);
/// How long a trial may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The bytes that are written.
const TRIAL: usize = 64 << 10;

/// What is known of the disk.
pub(crate) struct Readiness {
    /// The directory of the tables; `None` if nothing is written.
    folder: Option<PathBuf>,
    /// The last write that the disk refused.
    refused: Mutex<Option<(Instant, &'static str)>>,
    trial: tokio::sync::Mutex<WriteProbe>,
}

#[derive(Default)]
struct WriteProbe {
    under_way: Option<JoinHandle<io::Result<()>>>,
    /// When one has ended, or taken too long, and the problem it found.
    last: Option<(Instant, Option<&'static str>)>,
}

impl Readiness {
    pub fn new(folder: Option<PathBuf>) -> Arc<Readiness> {
        Arc::new(Readiness { folder, refused: Mutex::default(), trial: tokio::sync::Mutex::default() })
    }

    /// Notes an error of a write, if it is one of the disk.
    pub fn on_failure(&self, e: &Error) {
        let problem = match (e.kind(), e.errno()) {
            (ErrorKind::Io, Some(errno)) => problem_of(Some(errno)),
            (ErrorKind::Closed, _) => problem_of(None),
            _ => return,
        };
        *self.refused.lock_ignoring_poison() = Some((Instant::now(), problem));
    }

    /// Why the disk takes no rows now.
    pub async fn problem(&self) -> Option<&'static str> {
        let folder = self.folder.as_ref()?;
        let refused = *self.refused.lock_ignoring_poison();
        match refused.filter(|(when, _)| when.elapsed() < LATELY) {
            Some((_, problem)) => Some(problem),
            None => self.trial.lock().await.problem(folder).await,
        }
    }
}

impl WriteProbe {
    async fn problem(&mut self, folder: &Path) -> Option<&'static str> {
        if let Some((_, problem)) = self.last.filter(|(when, _)| when.elapsed() < FRESH) {
            return problem;
        }
        // One that takes forever is waited for again, so that there is never a second one.
        let folder = folder.to_path_buf();
        let trial = self.under_way.get_or_insert_with(|| spawn_blocking(move || write_trial(&folder)));
        let problem = match timeout(PATIENCE, trial).await {
            Err(_) => Some("the disk does not answer"),
            Ok(done) => {
                self.under_way = None;
                done.ok().and_then(Result::err).map(|e| problem_of(e.raw_os_error()))
            }
        };
        self.last = Some((Instant::now(), problem));
        problem
    }
}

/// What clients without a token may know of an error of the system.
fn problem_of(errno: Option<i32>) -> &'static str {
    match errno {
        Some(libc::ENOSPC | libc::EDQUOT) => "the disk is full",
        Some(libc::EROFS) => "the disk can only be read",
        Some(libc::EMFILE | libc::ENFILE) => "too many files are open",
        _ => "the disk fails",
    }
}

/// Writes some bytes to the disk, which are gone at the end.
fn write_trial(folder: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
    let mut file = match options.open(folder) {
        // Some file systems have no files without names: what is known of them are writes of rows.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => return Ok(()),
        opened => opened?,
    };
    file.write_all(&vec![0; TRIAL])?;
    file.sync_data()
}
