//! [`Log`]: messages and audit lines, which one thread writes to standard error.
//!
//! Whoever logs neither waits nor fails: standard error may be on a full disk, or a pipe that nobody reads. Lines for which
//! there is no room, or that can't be written, are counted, and the next line that is written says how many they were.

use arrowwood::mapping::MutexExt;
use std::collections::VecDeque;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use arrowwood::escape_hidden;

/// The maximum number of bytes of lines that wait.
const WAITING: usize = 1 << 20;
/// The bytes of lines that are written together: the system does not mix as many in a pipe with those of other processes.
const TOGETHER: usize = 4 << 10;
/// The pause before a full pipe that does not block its writers is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// The log of the process.
static LOG: LazyLock<Log> = LazyLock::new(|| Log::new(WAITING, || Box::new(StandardError(None))));

/// Adds a line, which has no line break.
pub(crate) fn line(line: &str) {
    LOG.add(format!("{line}\n"));
}

/// Adds a message for whoever runs the server.
pub(crate) fn message(message: impl Display) {
    line(&format!("arrowwood: {}", escape_hidden(&message.to_string().replace(['\n', '\r'], " "))));
}

/// The number of lines that were not written.
pub(crate) fn dropped() -> u64 {
    LOG.shared.dropped.load(Ordering::Relaxed)
}

/// Waits until all lines are written, but no longer than `most`.
pub(crate) fn flush(most: Duration) {
    LOG.flush(most);
}

/// Opens standard error while there are file descriptors.
pub(crate) fn begin() {
    LOG.shared.begin(&mut LOG.shared.lock());
}

/// Logs where threads panic from now on, instead of waiting for standard error there. What they say may be a row's value.
pub(crate) fn note_panics() {
    std::panic::set_hook(Box::new(|panic| match panic.location() {
        Some(place) => message(format_args!("a thread panicked at {place}, which is a bug of the server")),
        None => message("a thread panicked, which is a bug of the server"),
    }));
}

type OpenSink = dyn Fn() -> Box<dyn Write> + Send + Sync;

/// A log that is written by a thread of its own.
struct Log {
    shared: Arc<SharedLog>,
}

struct SharedLog {
    state: Mutex<LogQueue>,
    /// Lines came, or were written.
    changed: Condvar,
    dropped: AtomicU64,
    most: usize,
    open: Box<OpenSink>,
}

#[derive(Default)]
struct LogQueue {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that were dropped since the log said so.
    untold: u64,
    is_writing: bool,
    has_thread: bool,
}

/// Lines that are written together.
struct LogChunk {
    text: String,
    /// The dropped lines that its first line tells of, if any.
    told: u64,
}

impl Log {
    fn new(most: usize, open: impl Fn() -> Box<dyn Write> + Send + Sync + 'static) -> Log {
        let shared = SharedLog {
            state: Mutex::default(),
            changed: Condvar::new(),
            dropped: AtomicU64::new(0),
            most,
            open: Box::new(open),
        };
        Log { shared: Arc::new(shared) }
    }

    fn add(&self, line: String) {
        let mut state = self.shared.lock();
        self.shared.begin(&mut state);
        if state.has_thread && state.bytes + line.len() <= self.shared.most {
            state.bytes += line.len();
            state.lines.push_back(line);
            self.shared.changed.notify_all();
        } else {
            self.shared.count(&mut state, 1);
        }
    }

    fn flush(&self, most: Duration) {
        let is_busy = |state: &mut LogQueue| state.is_writing || !state.lines.is_empty();
        // What is not written by then stays unwritten.
        let _ = self.shared.changed.wait_timeout_while(self.shared.lock(), most, is_busy);
    }
}

impl SharedLog {
    /// It is never held while something is written.
    fn lock(&self) -> MutexGuard<'_, LogQueue> {
        self.state.lock_ignoring_poison()
    }

    /// Starts the thread, if there is none yet.
    fn begin(self: &Arc<Self>, state: &mut LogQueue) {
        if !state.has_thread {
            let shared = self.clone();
            // The process ends without waiting for it. If it can't be started now, the next line tries again.
            state.has_thread =
                thread::Builder::new().name("arrowwood-log".into()).spawn(move || shared.write_on()).is_ok();
        }
    }

    fn count(&self, state: &mut LogQueue, lines: u64) {
        state.untold += lines;
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Writes lines as they come.
    fn write_on(&self) {
        let mut target = (self.open)();
        // Whether the last line was cut off, so that the next one needs a line break before it.
        let mut is_cut = false;
        loop {
            let LogChunk { text, told } = self.next();
            if is_cut {
                is_cut = write(target.as_mut(), b"\n") == 0;
            }
            let done = if is_cut { 0 } else { write(target.as_mut(), text.as_bytes()) };
            let (written, rest) = text.as_bytes().split_at(done);
            is_cut = written.last().map_or(is_cut, |last| *last != b'\n');
            let mut state = self.lock();
            state.is_writing = false;
            let mut lost = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
            if told > 0 && !written.contains(&b'\n') {
                // That line is no line of the log itself.
                lost -= 1;
                state.untold += told;
            }
            self.count(&mut state, lost);
            self.changed.notify_all();
        }
    }

    /// Waits for lines, and takes some.
    fn next(&self) -> LogChunk {
        let waiting = self.changed.wait_while(self.lock(), |state| state.lines.is_empty());
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
        let told = std::mem::take(&mut state.untold);
        let mut text = String::new();
        if told > 0 {
            let lines = if told == 1 { "line" } else { "lines" };
            text = format!("arrowwood: {told} {lines} of the log could not be written before this one\n");
        }
        while let Some(line) = state.lines.pop_front() {
            state.bytes -= line.len();
            text += &line;
            if state.lines.front().is_none_or(|next| text.len() + next.len() > TOGETHER) {
                break;
            }
        }
        state.is_writing = true;
        LogChunk { text, told }
    }
}

/// Writes bytes, and returns how many were written before the first failure.
fn write(target: &mut dyn Write, bytes: &[u8]) -> usize {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match target.write(rest) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(e) if e.kind() == ErrorKind::Interrupted => (),
            // Only this thread waits.
            Err(e) if e.kind() == ErrorKind::WouldBlock => thread::sleep(AGAIN),
            Err(_) => break,
        }
    }
    done
}

/// Standard error by a descriptor of its own: a write that takes forever does not hold the lock for which others wait who print.
struct StandardError(Option<File>);

impl StandardError {
    #[expect(clippy::disallowed_methods, reason = "this is where the log is written")]
    fn open() -> io::Result<File> {
        Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?))
    }
}

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = match self.0.take() {
            Some(file) => file,
            None => StandardError::open()?,
        };
        let written = file.write(bytes);
        self.0 = Some(file);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);

    /// Writes as it is told to: so many bytes, or not at all.
    struct TestSink {
        orders: Receiver<io::Result<usize>>,
        written: Written,
    }

    impl Write for TestSink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = self.orders.recv_timeout(PATIENCE).unwrap_or(Err(ErrorKind::BrokenPipe.into()))?.min(bytes.len());
            self.written.lock().unwrap().extend(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    type Orders = Sender<io::Result<usize>>;
    type Written = Arc<Mutex<Vec<u8>>>;

    fn log(most: usize) -> (Log, Orders, Written) {
        let (order, orders) = channel();
        let written = Written::default();
        let orders = Mutex::new(Some(orders));
        let into = written.clone();
        let open = move || {
            let orders = orders.lock().unwrap().take().unwrap();
            Box::new(TestSink { orders, written: into.clone() }) as Box<dyn Write>
        };
        (Log::new(most, open), order, written)
    }

    fn text(written: &Mutex<Vec<u8>>) -> String {
        String::from_utf8(written.lock().unwrap().clone()).unwrap()
    }

    fn dropped(log: &Log) -> u64 {
        log.shared.dropped.load(Ordering::Relaxed)
    }

    /// Waits until the thread has taken all lines.
    fn wait_until_taken(log: &Log) {
        let waits = |state: &mut LogQueue| !state.lines.is_empty();
        // Nobody is told when lines are taken.
        while waits(&mut log.shared.lock()) {
            thread::yield_now();
        }
    }

    #[test]
    fn whoever_logs_does_not_wait_and_is_told_later_what_was_dropped() {
        let (log, order, written) = log(30);
        log.add("first\n".into());
        wait_until_taken(&log);
        // The first one is being written, and there is room for three others.
        for number in 0..10 {
            log.add(format!("line {number:03}\n"));
        }
        assert_eq!((dropped(&log), text(&written).as_str()), (7, ""));
        log.flush(Duration::ZERO);
        (0..5).for_each(|_| order.send(Ok(1_000)).unwrap());
        log.flush(PATIENCE);
        let told = "arrowwood: 7 lines of the log could not be written before this one\n";
        assert_eq!(text(&written), format!("first\n{told}line 000\nline 001\nline 002\n"));
    }

    #[test]
    fn lines_that_can_not_be_written_are_counted_and_those_after_them_are_whole() {
        let (log, order, written) = log(1_000);
        let failed = || Err(io::Error::from(ErrorKind::StorageFull));
        let add = |line: &str, orders: Vec<io::Result<usize>>| {
            log.add(format!("{line}\n"));
            orders.into_iter().for_each(|it| order.send(it).unwrap());
            log.flush(PATIENCE);
            dropped(&log)
        };
        assert_eq!(add("one", vec![failed()]), 1);
        // Neither is what says so.
        assert_eq!(add("two", vec![failed()]), 2);
        let again = || Err(io::Error::from(ErrorKind::WouldBlock));
        assert_eq!(add("three", vec![Err(ErrorKind::Interrupted.into()), again(), Ok(1_000)]), 2);
        let told = "arrowwood: 2 lines of the log could not be written before this one\nthree\n";
        assert_eq!(text(&written), told);
        assert_eq!(add("four", vec![Ok(2), failed()]), 3);
        assert_eq!(add("five", vec![failed()]), 4);
        assert_eq!(add("six", vec![Ok(1), Ok(1_000)]), 4);
        assert_eq!(text(&written), format!("{told}fo\n{}six\n", told.strip_suffix("three\n").unwrap()));
    }

    #[test]
    fn few_lines_are_written_at_once() {
        let (log, order, written) = log(1 << 20);
        log.add("first\n".into());
        wait_until_taken(&log);
        let long = "x".repeat(TOGETHER / 2 - 1) + "\n";
        (0..3).for_each(|_| log.add(long.clone()));
        (0..3).for_each(|_| order.send(Ok(1 << 20)).unwrap());
        log.flush(PATIENCE);
        assert_eq!(text(&written), format!("first\n{long}{long}{long}"));
        assert!(order.send(Ok(0)).is_ok());
    }
}
