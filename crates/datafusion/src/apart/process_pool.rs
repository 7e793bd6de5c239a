//! [`ProcessPool`]: those that wait for queries, and those that are started.

use arrowwood::mapping::MutexExt;
use std::io::{self, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};

use tempfile::TempDir;

use crate::apart::worker::WORKER;

/// The most processes that wait for a query.
const WAITING: usize = 2;
/// What is kept of what a process says on standard error: its end.
const SAID: usize = 4 << 10;
/// The signals by which a process ends itself that gets no memory, and by which the system ends it.
const ABORT: i32 = 6;
const KILL: i32 = 9;

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic would leave what is whole.
    of.lock_ignoring_poison()
}

/// A process for queries. It ends when this is dropped.
pub(crate) struct Process {
    child: Arc<Mutex<Child>>,
    pub input: ChildStdin,
    pub output: BufReader<ChildStdout>,
    said: Arc<Mutex<Vec<u8>>>,
    /// For temporary files. Removed when the process has ended.
    _directory: TempDir,
}

impl Process {
    fn start(program: &PathBuf) -> io::Result<Process> {
        let directory = tempfile::Builder::new().prefix("arrowwood-sql-").tempdir()?;
        let mut command = Command::new(program);
        command.arg(WORKER).arg(directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Of what is said the end is kept, which is the reason then.
        command.env("RUST_BACKTRACE", "0");
        // What a terminal sends to the server is for the server alone, which ends answers in its own time.
        let mut child = command.process_group(0).spawn()?;
        let pipe = || io::Error::other("a process without pipes");
        let input = child.stdin.take().ok_or_else(pipe)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(pipe)?);
        let errors = child.stderr.take().ok_or_else(pipe)?;
        let said = Arc::default();
        let process = Process {
            child: Arc::new(Mutex::new(child)),
            input,
            output,
            said: Arc::clone(&said),
            _directory: directory,
        };
        std::thread::Builder::new().name("arrowwood-sql-errors".into()).spawn(move || listen(errors, &said))?;
        Ok(process)
    }

    /// What ends the process while others wait for it.
    pub fn child(&self) -> Arc<Mutex<Child>> {
        self.child.clone()
    }

    fn is_running(&self) -> bool {
        matches!(lock(&self.child).try_wait(), Ok(None))
    }

    /// Why it has ended, and what it has said.
    pub fn end(&self) -> (Option<ExitStatus>, String) {
        let mut child = lock(&self.child);
        // One that is ending by itself keeps its own reason.
        let _ = child.kill();
        let status = child.wait().ok();
        drop(child);
        (status, self.said())
    }

    pub fn said(&self) -> String {
        String::from_utf8_lossy(&lock(&self.said)).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a process has ended as it got no more memory.
pub(crate) fn is_out_of_memory(status: Option<ExitStatus>, said: &str) -> bool {
    match status.and_then(|status| status.signal()) {
        Some(ABORT) => said.contains("memory allocation of") || says_no_memory(said),
        // Not by us: its answer is read as long as it is wanted.
        Some(KILL) => true,
        _ => says_no_memory(said),
    }
}

/// Whether the system has refused memory to a process, which has gone on.
pub(crate) fn says_no_memory(said: &str) -> bool {
    // The system's words for ENOMEM and EAGAIN, the latter of threads.
    ["Cannot allocate memory", "Resource temporarily unavailable"].iter().any(|words| said.contains(words))
}

/// Keeps the end of what a process says.
fn listen(mut errors: ChildStderr, said: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 1 << 10];
    while let Ok(count @ 1..) = errors.read(&mut bytes) {
        let mut said = lock(said);
        said.extend_from_slice(&bytes[..count]);
        let more = said.len().saturating_sub(SAID);
        said.drain(..more);
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

    /// A process that waits, or a new one.
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
        lock(&self.waiting).pop()
    }

    /// Starts one that waits, if there is none: the next query need not wait for it then.
    pub fn prepare(&self) {
        if lock(&self.waiting).is_empty()
            && let Ok(process) = Process::start(&self.program)
        {
            self.give_back(process);
        }
    }

    /// Keeps a process for other queries.
    pub fn give_back(&self, process: Process) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() < WAITING {
            waiting.push(process);
        }
    }
}
