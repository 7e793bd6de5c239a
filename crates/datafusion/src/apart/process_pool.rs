//! [`ProcessPool`]: starts query processes, and keeps some that wait for queries.

use arrowwood::mapping::MutexExt;
use std::io::{self, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

use crate::apart::query_process::WORKER;

/// The most processes that wait for a query.
const WAITING: usize = 2;
/// The last bytes of standard error that are kept for a process.
const SAID: usize = 4 << 10;
/// The signals by which a process ends itself that gets no memory, and by which the system ends it.
const ABORT: i32 = 6;
const KILL: i32 = 9;

/// A process for queries. It ends when this is dropped.
pub(crate) struct Process {
    child: Arc<Mutex<Child>>,
    pub input: ChildStdin,
    pub output: BufReader<ChildStdout>,
    said: Arc<Mutex<Vec<u8>>>,
    /// The directory for temporary files, removed when the process has ended.
    _directory: TempDir,
}

impl Process {
    fn start(program: &PathBuf) -> io::Result<Process> {
        let directory = tempfile::Builder::new().prefix("arrowwood-sql-").tempdir()?;
        let mut command = Command::new(program);
        command.arg(WORKER).arg(directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Only the end of standard error is kept: without a backtrace, it is the reason.
        command.env("RUST_BACKTRACE", "0");
        // A group of its own: signals of a terminal are for the server alone, which ends answers in its own time.
        let mut child = command.process_group(0).spawn()?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("a process without pipes"));
        };
        let said = Arc::default();
        let process = Process {
            child: Arc::new(Mutex::new(child)),
            input,
            output: BufReader::new(output),
            said: Arc::clone(&said),
            _directory: directory,
        };
        std::thread::Builder::new().name("arrowwood-sql-errors".into()).spawn(move || listen(errors, &said))?;
        Ok(process)
    }

    /// Returns the handle that other threads kill the process by.
    pub fn child(&self) -> Arc<Mutex<Child>> {
        self.child.clone()
    }

    fn is_running(&self) -> bool {
        matches!(self.child.lock_ignoring_poison().try_wait(), Ok(None))
    }

    /// Ends the process, and returns its status and the end of its standard error.
    pub fn end(&self) -> (Option<ExitStatus>, String) {
        let mut child = self.child.lock_ignoring_poison();
        // A process that is ending by itself keeps its own status.
        let _ = child.kill();
        let status = child.wait().ok();
        drop(child);
        (status, self.said())
    }

    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock_ignoring_poison()).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns true if a process has ended because it got no more memory.
pub(crate) fn is_out_of_memory(status: Option<ExitStatus>, said: &str) -> bool {
    match status.and_then(|status| status.signal()) {
        Some(ABORT) => said.contains("memory allocation of") || says_no_memory(said),
        // The system has killed it: we kill no process whose answer is still wanted.
        Some(KILL) => true,
        _ => says_no_memory(said),
    }
}

/// Returns true if the system has refused memory to a process, which has gone on.
pub(crate) fn says_no_memory(said: &str) -> bool {
    // The system's words for ENOMEM and EAGAIN, the latter of threads.
    ["Cannot allocate memory", "Resource temporarily unavailable"].iter().any(|words| said.contains(words))
}

/// Keeps the end of what a process writes to standard error.
fn listen(mut errors: ChildStderr, said: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 1 << 10];
    while let Ok(count @ 1..) = errors.read(&mut bytes) {
        let mut said = said.lock_ignoring_poison();
        said.extend_from_slice(&bytes[..count]);
        if said.len() > SAID {
            let surplus = said.len() - SAID;
            said.drain(..surplus);
        }
    }
}

/// Starts processes, and keeps some.
pub(crate) struct ProcessPool {
    program: PathBuf,
    waiting: Mutex<Vec<Process>>,
}

impl ProcessPool {
    pub fn new(program: PathBuf) -> ProcessPool {
        ProcessPool { program, waiting: Mutex::default() }
    }

    /// Returns a waiting process, or starts one.
    ///
    /// # Errors
    /// `Io` where none can be started.
    pub fn take(&self) -> io::Result<Process> {
        while let Some(process) = self.pop() {
            if process.is_running() {
                return Ok(process);
            }
        }
        Process::start(&self.program)
    }

    fn pop(&self) -> Option<Process> {
        self.waiting.lock_ignoring_poison().pop()
    }

    /// Starts a process if none is waiting, so that the next query need not wait for its start.
    pub fn prepare(&self) {
        if self.waiting.lock_ignoring_poison().is_empty()
            && let Ok(process) = Process::start(&self.program)
        {
            self.give_back(process);
        }
    }

    /// Keeps a process for other queries.
    pub fn give_back(&self, process: Process) {
        let mut waiting = self.waiting.lock_ignoring_poison();
        debug_assert!(waiting.len() <= WAITING, "{} processes wait, at most {WAITING} may", waiting.len());
        if waiting.len() < WAITING {
            waiting.push(process);
        }
    }
}
