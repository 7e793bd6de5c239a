//! Child processes of tests. Threads collect their output, every wait has a timeout, and they are killed on drop.
#![allow(dead_code, reason = "some test programs use only some of these")]

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};

use crate::wait::{PATIENCE, within_patience};

/// The output of a pipe, which a thread reads.
#[derive(Clone, Default)]
struct PipeReader(Arc<Mutex<PipeOutput>>);

#[derive(Default)]
struct PipeOutput {
    bytes: Vec<u8>,
    is_closed: bool,
}

impl PipeReader {
    fn spawn(mut pipe: impl Read + Send + 'static) -> PipeReader {
        let reader = PipeReader::default();
        let output = reader.0.clone();
        std::thread::spawn(move || {
            let mut block = [0; 1 << 16];
            while let Some(len) = pipe.read(&mut block).ok().filter(|&len| len > 0) {
                output.lock().unwrap().bytes.extend_from_slice(&block[..len]);
            }
            output.lock().unwrap().is_closed = true;
        });
        reader
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    fn is_closed(&self) -> bool {
        self.0.lock().unwrap().is_closed
    }

    /// Returns the line that begins at `start`, without its line feed, and the start of the next one.
    fn line(&self, start: usize) -> Option<(String, usize)> {
        let output = self.0.lock().unwrap();
        let rest = &output.bytes[start..];
        if let Some(len) = rest.iter().position(|&byte| byte == b'\n') {
            return Some((lossy_text(&rest[..len]), start + len + 1));
        }
        let is_last_line = output.is_closed && !rest.is_empty();
        is_last_line.then(|| (lossy_text(rest), output.bytes.len()))
    }
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A child process, which is killed when this is dropped.
pub struct Running {
    child: Child,
    name: String,
    input: Option<ChildStdin>,
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
    /// The number of bytes of `stdout` that were returned as lines.
    consumed: usize,
}

impl Running {
    /// Starts a process, and collects what it writes to pipes.
    pub fn start(command: &mut Command) -> Running {
        let name = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|e| panic!("{name}: {e}"));
        Running::from_child(child, name)
    }

    /// Takes over a process that was started.
    pub fn from_child(mut child: Child, name: String) -> Running {
        let input = child.stdin.take();
        let stdout = child.stdout.take().map(PipeReader::spawn);
        let stderr = child.stderr.take().map(PipeReader::spawn);
        Running { child, name, input, stdout, stderr, consumed: 0 }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its standard input.
    pub fn send(&mut self, text: &str) {
        let input = self.input.as_mut().expect("an input");
        input.write_all(text.as_bytes()).unwrap_or_else(|e| panic!("{}: {e}", self.name));
    }

    /// Returns the next line of its output; panics if the output ends before, or at a timeout.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let stdout = self.stdout.clone().expect("a piped output");
        let line = within_patience(|| match stdout.line(self.consumed) {
            None if stdout.is_closed() => Some(None),
            line => line.map(Some),
        });
        match line {
            Some(Some((line, next))) => {
                self.consumed = next;
                line
            }
            Some(None) => panic!("the next line: the output has ended; {}", self.describe_output()),
            None => panic!("the next line: not within {PATIENCE:?}; {}", self.describe_output()),
        }
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status().unwrap();
        assert!(status.success(), "{}", self.name);
    }

    /// Kills the process and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns true if the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end of the process, without closing its input.
    #[track_caller]
    pub fn status(&mut self) -> ExitStatus {
        match within_patience(|| self.child.try_wait().unwrap()) {
            Some(status) => status,
            None => panic!("the end of a process: not within {PATIENCE:?}; {}", self.describe_output()),
        }
    }

    /// Closes its input, and waits until it has ended and all of its output was read.
    #[track_caller]
    pub fn end(mut self) -> Output {
        self.input = None;
        let status = self.status();
        let pipes = [&self.stdout, &self.stderr];
        let closed = within_patience(|| {
            let is_closed = pipes.iter().all(|pipe| pipe.as_ref().is_none_or(PipeReader::is_closed));
            is_closed.then_some(())
        });
        assert!(closed.is_some(), "the ends of its pipes: not within {PATIENCE:?}; {}", self.describe_output());
        let [stdout, stderr] = pipes.map(|pipe| pipe.as_ref().map_or(Vec::new(), PipeReader::bytes));
        Output { status, stdout, stderr }
    }

    /// Describes the output so far, for messages of failures.
    fn describe_output(&self) -> String {
        let [stdout, stderr] = [&self.stdout, &self.stderr]
            .map(|pipe| pipe.as_ref().map_or(String::new(), |pipe| lossy_text(&pipe.bytes())));
        format!("{} has said {stdout:?} and {stderr:?}", self.name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end, and writes `input` to its standard input if that is a pipe.
///
/// The command may end before it has read all of the input.
#[track_caller]
pub fn output(command: &mut Command, input: &[u8]) -> Output {
    let input = input.to_vec();
    run_with_input(command, move |pipe| pipe.write_all(&input)).0
}

/// Runs a command to its end, and calls `write_input` with its standard input if that is a pipe.
///
/// Also returns the result of `write_input`.
#[track_caller]
pub fn run_with_input(
    command: &mut Command,
    write_input: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send + 'static,
) -> (Output, io::Result<()>) {
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let writing = running.input.take().map(|mut pipe| std::thread::spawn(move || write_input(&mut pipe)));
    let output = running.end();
    (output, writing.map_or(Ok(()), |thread| thread.join().unwrap()))
}
