//! Logs messages and audit lines, which one thread writes to standard error.
//!
//! Logging neither waits nor fails: standard error may be on a full disk, or a pipe without a reader. Lines that have
//! no room, or can't be written, are counted, and the next line that is written reports their number.
//!
//! Any thread adds lines to a queue under its lock, and starts the writing thread if there is none. The writing thread
//! takes some lines under the lock, and writes them without it: so no other thread ever waits for standard error. While
//! it writes, `is_writing` is set, by which [`flush`] tells an empty queue from lines that are written. Every change of
//! the queue notifies `changed`, for which the writing thread and [`flush`] wait. Only the count of dropped lines is
//! read without the lock; it is a number by itself, and needs no ordering.

use std::collections::VecDeque;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use arrowwood::mapping::{MutexExt, os};
use arrowwood::readable::escape_hidden;

/// The maximum number of bytes of lines that wait.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// The maximum number of bytes of lines that are written together: in a pipe, the system does not mix so few with bytes
/// of other processes.
const MAX_CHUNK_BYTES: usize = 4 << 10;
/// The pause before a full pipe that does not block its writers is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// The log of the process.
static LOG: LazyLock<Log> = LazyLock::new(|| Log::new(MAX_WAITING_BYTES, || Box::new(StandardError(None))));

/// Adds a line, which has no line break.
pub(crate) fn line(line: &str) {
    LOG.add(format!("{line}\n"));
}

/// Adds a message for the operator of the server.
pub(crate) fn message(message: impl Display) {
    line(&format!("arrowwood: {}", escape_hidden(&message.to_string().replace(['\n', '\r'], " "))));
}

/// Returns the number of lines that were not written.
pub(crate) fn dropped() -> u64 {
    LOG.shared.dropped.load(Ordering::Relaxed)
}

/// Waits until all lines are written, but no longer than `timeout`.
pub(crate) fn flush(timeout: Duration) {
    LOG.flush(timeout);
}

/// Opens standard error while there are file descriptors.
pub(crate) fn begin() {
    LOG.shared.begin(&mut LOG.shared.lock());
}

/// Logs where threads panic from now on, instead of waiting for standard error there. Their messages are left out, as
/// they may quote a row's value.
pub(crate) fn note_panics() {
    std::panic::set_hook(Box::new(|panic| match panic.location() {
        Some(place) => message(format_args!("a thread panicked at {place}, which is a bug of the server")),
        None => message("a thread panicked, which is a bug of the server"),
    }));
}

type OpenSink = dyn Fn() -> Box<dyn Write> + Send + Sync;

/// A log with a thread that writes it.
struct Log {
    shared: Arc<SharedLog>,
}

/// What the writing thread shares with the threads that add lines.
struct SharedLog {
    state: Mutex<LogQueue>,
    /// Notified when lines are added or written.
    changed: Condvar,
    dropped: AtomicU64,
    /// The maximum number of bytes of lines that wait.
    max_bytes: usize,
    open: Box<OpenSink>,
}

/// The lines that wait, and the state of the writing thread.
#[derive(Default)]
struct LogQueue {
    lines: VecDeque<String>,
    bytes: usize,
    /// The number of dropped lines that the log has not reported yet.
    unreported: u64,
    /// Set while the thread writes lines that it has taken.
    is_writing: bool,
    /// Set while there is a thread that writes.
    has_thread: bool,
}

/// Lines that are written together.
struct LogChunk {
    text: String,
    /// The number of dropped lines that the first line reports; if it is 0, there is no such line.
    reported: u64,
}

impl Log {
    fn new(max_bytes: usize, open: impl Fn() -> Box<dyn Write> + Send + Sync + 'static) -> Log {
        let shared = SharedLog {
            state: Mutex::default(),
            changed: Condvar::new(),
            dropped: AtomicU64::new(0),
            max_bytes,
            open: Box::new(open),
        };
        Log { shared: Arc::new(shared) }
    }

    fn add(&self, line: String) {
        let mut state = self.shared.lock();
        self.shared.begin(&mut state);
        if state.has_thread && state.bytes + line.len() <= self.shared.max_bytes {
            state.bytes += line.len();
            state.lines.push_back(line);
            self.shared.changed.notify_all();
        } else {
            self.shared.count(&mut state, 1);
        }
    }

    fn flush(&self, timeout: Duration) {
        // Lines that are not written by then stay unwritten.
        let _ = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), timeout, |state| state.is_writing || !state.lines.is_empty());
    }
}

impl SharedLog {
    /// Locks the queue. The lock is never held while the thread writes, nor where it may panic: a panic is logged before
    /// the lock is released.
    fn lock(&self) -> MutexGuard<'_, LogQueue> {
        self.state.lock_ignoring_poison()
    }

    /// Starts the thread, if there is none yet.
    fn begin(self: &Arc<Self>, state: &mut LogQueue) {
        if !state.has_thread {
            let shared = self.clone();
            // The process ends without waiting for it. If it can't be started now, the next line tries again.
            state.has_thread =
                thread::Builder::new().name("arrowwood-log".into()).spawn(move || shared.write_lines()).is_ok();
        }
    }

    fn count(&self, state: &mut LogQueue, lines: u64) {
        state.unreported += lines;
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Writes lines as they come, forever.
    fn write_lines(&self) {
        let _guard = WriterGuard { log: self };
        let mut target = (self.open)();
        // True if the last line was cut off: then the next one needs a line break before it.
        let mut is_cut = false;
        loop {
            let LogChunk { text, reported } = self.next();

            if is_cut {
                is_cut = write(target.as_mut(), b"\n") == 0;
            }
            let len = if is_cut { 0 } else { write(target.as_mut(), text.as_bytes()) };
            let (written, rest) = text.as_bytes().split_at(len);
            if let Some(last) = written.last() {
                is_cut = *last != b'\n';
            }

            let mut lost = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
            let is_report_lost = reported > 0 && !written.contains(&b'\n');
            if is_report_lost {
                // The lost line of the report is no line of the log itself.
                assert!(lost > 0, "a report has a line");
                lost -= 1;
            }

            let mut state = self.lock();
            state.is_writing = false;
            if is_report_lost {
                state.unreported += reported;
            }
            self.count(&mut state, lost);
            self.changed.notify_all();
        }
    }

    /// Waits for lines, and takes up to [`MAX_CHUNK_BYTES`] bytes of them, at least one line.
    fn next(&self) -> LogChunk {
        let waiting = self.changed.wait_while(self.lock(), |state| state.lines.is_empty());
        let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
        let reported = std::mem::take(&mut state.unreported);
        let mut text = String::new();
        if reported > 0 {
            let lines = if reported == 1 { "line" } else { "lines" };
            text = format!("arrowwood: {reported} {lines} of the log could not be written before this one\n");
        }
        let mut taken = 0;
        while let Some(line) = state.lines.pop_front() {
            taken += line.len();
            text += &line;
            if state.lines.front().is_none_or(|next| text.len() + next.len() > MAX_CHUNK_BYTES) {
                break;
            }
        }
        let counted = state.bytes;
        state.bytes = counted.saturating_sub(taken);
        state.is_writing = true;
        drop(state);
        assert!(taken <= counted, "lines of {taken} bytes, of {counted} that were counted");
        LogChunk { text, reported }
    }
}

/// Lets the next line start another thread if the writing thread panics. Otherwise all later lines would be dropped.
struct WriterGuard<'a> {
    log: &'a SharedLog,
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.log.lock();
        state.is_writing = false;
        state.has_thread = false;
        self.log.changed.notify_all();
    }
}

/// Writes bytes, and returns how many were written before the first failure.
fn write(target: &mut dyn Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match target.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(len) => written += len,
            Err(e) if e.kind() == ErrorKind::Interrupted => (),
            // Only the thread of the log waits.
            Err(e) if e.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY_DELAY),
            Err(_) => break,
        }
    }
    written
}

/// Standard error with a separate descriptor: a write that takes forever does not hold the lock of the standard
/// library, for which other threads that print would wait.
struct StandardError(Option<File>);

impl StandardError {
    fn open() -> io::Result<File> {
        os::open_stderr()
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

    /// A writer that writes only as many bytes as it is told to, or fails.
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
        // No condition variable is notified when lines are taken.
        while waits(&mut log.shared.lock()) {
            thread::yield_now();
        }
    }

    #[test]
    fn logging_does_not_wait_and_reports_dropped_lines_later() {
        let (log, order, written) = log(30);
        log.add("first\n".into());
        wait_until_taken(&log);
        // The first line is being written, and there is room for three more.
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
    fn unwritable_lines_are_counted_and_later_lines_are_complete() {
        let (log, order, written) = log(1_000);
        let failed = || Err(io::Error::from(ErrorKind::StorageFull));
        let add = |line: &str, orders: Vec<io::Result<usize>>| {
            log.add(format!("{line}\n"));
            orders.into_iter().for_each(|it| order.send(it).unwrap());
            log.flush(PATIENCE);
            dropped(&log)
        };
        assert_eq!(add("one", vec![failed()]), 1);
        // The line that reports the loss can't be written, either.
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
    fn panic_of_the_writing_thread_does_not_end_the_log() {
        struct PanickingSink;
        impl Write for PanickingSink {
            fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
                panic!("on purpose")
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let written = Written::default();
        let (order, orders) = channel();
        let sinks = Mutex::new(vec![
            Box::new(TestSink { orders, written: written.clone() }) as Box<dyn Write + Send>,
            Box::new(PanickingSink),
        ]);
        let log = Log::new(1_000, move || sinks.lock().unwrap().pop().unwrap());
        log.add("first\n".into());
        let has_thread = |state: &mut LogQueue| state.has_thread;
        drop(log.shared.changed.wait_timeout_while(log.shared.lock(), PATIENCE, has_thread));
        order.send(Ok(1_000)).unwrap();
        log.add("second\n".into());
        log.flush(PATIENCE);
        assert_eq!(text(&written), "second\n");
    }

    #[test]
    fn few_lines_are_written_at_once() {
        let (log, order, written) = log(1 << 20);
        log.add("first\n".into());
        wait_until_taken(&log);
        let long = "x".repeat(MAX_CHUNK_BYTES / 2 - 1) + "\n";
        (0..3).for_each(|_| log.add(long.clone()));
        (0..3).for_each(|_| order.send(Ok(1 << 20)).unwrap());
        log.flush(PATIENCE);
        assert_eq!(text(&written), format!("first\n{long}{long}{long}"));
        assert!(order.send(Ok(0)).is_ok());
    }
}
