//! Processes that tests start: what they say is gathered by threads, and awaited with an end; they are killed with the
//! test.
#![allow(dead_code, reason = "some programs of tests use a part of it")]

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};

use crate::wait::{PATIENCE, within_patience};

/// What has come out of a pipe, and whether it has ended.
#[derive(Clone, Default)]
struct Gathered(Arc<Mutex<(Vec<u8>, bool)>>);

impl Gathered {
    fn from(mut pipe: impl Read + Send + 'static) -> Gathered {
        let gathered = Gathered::default();
        let into = gathered.clone();
        std::thread::spawn(move || {
            let mut block = [0; 1 << 16];
            while let Some(len) = pipe.read(&mut block).ok().filter(|&len| len > 0) {
                into.0.lock().unwrap().0.extend_from_slice(&block[..len]);
            }
            into.0.lock().unwrap().1 = true;
        });
        gathered
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().0.clone()
    }

    fn is_ended(&self) -> bool {
        self.0.lock().unwrap().1
    }

    /// The line that begins at `start`, without its end, and where the next one begins.
    fn line(&self, start: usize) -> Option<(String, usize)> {
        let (bytes, is_ended) = &*self.0.lock().unwrap();
        let rest = &bytes[start..];
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        match rest.iter().position(|&byte| byte == b'\n') {
            Some(len) => Some((text(&rest[..len]), start + len + 1)),
            None => (*is_ended && !rest.is_empty()).then(|| (text(rest), bytes.len())),
        }
    }
}

/// A process that is killed when this is dropped.
pub struct Running {
    child: Child,
    name: String,
    input: Option<ChildStdin>,
    out: Option<Gathered>,
    errors: Option<Gathered>,
    /// Bytes of its output that were taken as lines.
    taken: usize,
}

impl Running {
    /// Starts a process; what it writes to pipes is gathered.
    pub fn start(command: &mut Command) -> Running {
        let name = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|e| panic!("{name}: {e}"));
        Running::over(child, name)
    }

    /// Takes a process over that was started.
    pub fn over(mut child: Child, name: String) -> Running {
        let input = child.stdin.take();
        let out = child.stdout.take().map(Gathered::from);
        let errors = child.stderr.take().map(Gathered::from);
        Running { child, name, input, out, errors, taken: 0 }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its input.
    pub fn send(&mut self, text: &str) {
        let input = self.input.as_mut().expect("an input");
        input.write_all(text.as_bytes()).unwrap_or_else(|e| panic!("{}: {e}", self.name));
    }

    /// Its next line; fails if it ends before, or if none comes.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let out = self.out.clone().expect("an output");
        let found = within_patience(|| match out.line(self.taken) {
            None if out.is_ended() => Some(None),
            line => line.map(Some),
        });
        match found {
            Some(Some((line, next))) => {
                self.taken = next;
                line
            }
            Some(None) => panic!("the next line: the output has ended; {}", self.said()),
            None => panic!("the next line: not within {PATIENCE:?}; {}", self.said()),
        }
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status().unwrap();
        assert!(sent.success(), "{}", self.name);
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it ends; its input may stay open.
    #[track_caller]
    pub fn status(&mut self) -> ExitStatus {
        match within_patience(|| self.child.try_wait().unwrap()) {
            Some(status) => status,
            None => panic!("the end of a process: not within {PATIENCE:?}; {}", self.said()),
        }
    }

    /// Ends its input, and waits until it ends and all is gathered that it said.
    #[track_caller]
    pub fn end(mut self) -> Output {
        self.input = None;
        let status = self.status();
        let pipes = [&self.out, &self.errors];
        let is_all =
            within_patience(|| pipes.iter().all(|pipe| pipe.as_ref().is_none_or(Gathered::is_ended)).then_some(()));
        assert!(is_all.is_some(), "the ends of its pipes: not within {PATIENCE:?}; {}", self.said());
        let [stdout, stderr] = pipes.map(|pipe| pipe.as_ref().map_or(Vec::new(), Gathered::bytes));
        Output { status, stdout, stderr }
    }

    /// What it has said, for a failure.
    fn said(&self) -> String {
        let text = |pipe: &Option<Gathered>| {
            pipe.as_ref().map_or(String::new(), |pipe| String::from_utf8_lossy(&pipe.bytes()).into_owned())
        };
        format!("{} has said {:?} and {:?}", self.name, text(&self.out), text(&self.errors))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end, with `input` if its input is a pipe. It may end before it has read all.
#[track_caller]
pub fn output(command: &mut Command, input: &[u8]) -> Output {
    let input = input.to_vec();
    fed(command, move |pipe| pipe.write_all(&input)).0
}

/// Runs a command to its end, which `feed` gives its input if that is a pipe; what became of that is returned, too.
#[track_caller]
pub fn fed(
    command: &mut Command,
    feed: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send + 'static,
) -> (Output, io::Result<()>) {
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let feeding = running.input.take().map(|mut pipe| std::thread::spawn(move || feed(&mut pipe)));
    let output = running.end();
    (output, feeding.map_or(Ok(()), |feeding| feeding.join().unwrap()))
}
