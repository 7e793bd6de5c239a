//! [`ProcessPool`]: starts query processes, and keeps a few idle ones for later queries.

use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use arrowwood::mapping::{MutexExt, os};
use tempfile::TempDir;

use crate::processes::query_process::WORKER;

/// The maximum number of idle processes.
const MAX_IDLE: usize = 2;
/// The number of bytes that are retained of the end of a process's standard error.
const STDERR_BYTES: usize = 4 << 10;

/// A query process, which is killed on drop.
pub(super) struct Process {
    child: Arc<Mutex<Child>>,
    pub input: ChildStdin,
    pub output: BufReader<ChildStdout>,
    /// The end of its standard error.
    stderr: Arc<Mutex<Vec<u8>>>,
    /// The directory for temporary files, removed when the process has ended.
    _directory: TempDir,
}

impl Process {
    fn start(program: &PathBuf) -> io::Result<Process> {
        let directory = tempfile::Builder::new().prefix("arrowwood-sql-").tempdir()?;
        let mut command = Command::new(program);
        command.arg(WORKER).arg(directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Only the end of standard error is retained. Without a backtrace, it is the message of a panic.
        command.env("RUST_BACKTRACE", "0");
        // A separate process group, so that signals of a terminal reach only the server, which shuts down in order.
        let mut child = os::separate_process_group(&mut command).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(stderr_pipe)) = pipes else {
            return Err(io::Error::other("a process without pipes"));
        };
        let stderr = Arc::default();
        let process = Process {
            child: Arc::new(Mutex::new(child)),
            input,
            output: BufReader::new(output),
            stderr: Arc::clone(&stderr),
            _directory: directory,
        };
        let thread = std::thread::Builder::new().name("arrowwood-sql-errors".into());
        thread.spawn(move || read_stderr(stderr_pipe, &stderr))?;
        Ok(process)
    }

    /// Returns a handle by which other threads can kill the process.
    pub fn child(&self) -> Arc<Mutex<Child>> {
        self.child.clone()
    }

    fn is_running(&self) -> bool {
        matches!(self.child.lock_ignoring_poison().try_wait(), Ok(None))
    }

    /// Kills the process, and returns its exit status and the end of its standard error.
    pub fn kill(&self) -> (Option<ExitStatus>, String) {
        let mut child = self.child.lock_ignoring_poison();
        // Fails if the process has ended by itself. It then has its own status.
        let _ = child.kill();
        let status = child.wait().ok();
        drop(child);
        (status, self.stderr())
    }

    /// Returns the end of the standard error of the process.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock_ignoring_poison()).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns true if a process ended for lack of memory.
pub(super) fn is_out_of_memory(status: Option<ExitStatus>, stderr: &str) -> bool {
    match status {
        // An allocation has failed.
        Some(status) if os::was_aborted(status) => stderr.contains("memory allocation of") || reports_no_memory(stderr),
        // By the system, as memory has run out: a process whose query was not given up is not killed by us.
        Some(status) if os::was_killed(status) => true,
        _ => reports_no_memory(stderr),
    }
}

/// Returns true if a message reports that the system refused memory to a process.
pub(super) fn reports_no_memory(message: &str) -> bool {
    // ENOMEM, and EAGAIN, which is returned when a thread can't be started.
    message.contains("Cannot allocate memory") || message.contains("Resource temporarily unavailable")
}

/// Reads the standard error of a process until it ends, and retains the last bytes.
fn read_stderr(mut pipe: ChildStderr, stderr: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut buffer) {
        let mut stderr = stderr.lock_ignoring_poison();
        stderr.extend_from_slice(&buffer[..count]);
        if stderr.len() > STDERR_BYTES {
            let surplus = stderr.len() - STDERR_BYTES;
            stderr.drain(..surplus);
        }
    }
}

/// Starts query processes, and holds the idle ones.
pub(super) struct ProcessPool {
    program: PathBuf,
    idle: Mutex<Vec<Process>>,
}

impl ProcessPool {
    pub fn new(program: PathBuf) -> ProcessPool {
        ProcessPool { program, idle: Mutex::default() }
    }

    /// Takes an idle process, or starts one.
    ///
    /// # Errors
    /// `Io` if no process can be started.
    pub fn take(&self) -> io::Result<Process> {
        while let Some(process) = self.pop_idle() {
            if process.is_running() {
                return Ok(process);
            }
        }
        Process::start(&self.program)
    }

    /// Pops in a function, so that the lock is not held while a process is checked.
    fn pop_idle(&self) -> Option<Process> {
        self.idle.lock_ignoring_poison().pop()
    }

    /// Starts a process if none is idle, so that the next query need not wait for it.
    pub fn ensure_idle(&self) {
        if self.idle.lock_ignoring_poison().is_empty()
            && let Ok(process) = Process::start(&self.program)
        {
            self.give_back(process);
        }
    }

    /// Returns a process to the pool for other queries. Kills it if enough processes are idle.
    pub fn give_back(&self, process: Process) {
        let mut idle = self.idle.lock_ignoring_poison();
        debug_assert!(idle.len() <= MAX_IDLE, "{} idle processes of at most {MAX_IDLE}", idle.len());
        if idle.len() < MAX_IDLE {
            idle.push(process);
        }
    }
}
