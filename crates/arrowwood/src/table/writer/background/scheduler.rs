//! The background thread of the process: one for all writers. Each writer has a task, which gets a turn when one is
//! due, or when the writer requests one.
//!
//! A thread for each writer would nearly always sleep, and there may be hundreds of partitions. With one, a long sync
//! delays the periodic syncs and the footers of other tables. Work that a caller waits for runs on the caller's thread.
//!
//! ```text
//! writer ── ask ──▶ queue of tasks by the time of their turns ──▶ thread: turn, and when the next one is due
//! writer ── drop ─▶ waits for the turn of its own task alone
//! ```
//! All state is behind one lock, which is not held during a turn. A task is in `queue` exactly when it has a time for
//! its next turn; during a turn it has none, so that it never has two turns at once. A turn that is requested meanwhile
//! follows it.
//!
//! The thread starts with the first task and ends with the last. In a forked child it is missing, and the queue's lock
//! may be held forever: a child has its own queue.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::map::{MutexExt, fork_count};

/// The time after which a thread without due work checks the queue again.
const IDLE_WAIT: Duration = Duration::from_secs(3600);

/// The background work of a writer.
pub(super) trait Task: Send + Sync {
    /// Performs the due work; returns the time until the next turn. `None` for no further turn unless the writer
    /// requests one.
    fn take_turn(&self) -> Option<Duration>;

    /// Records that a turn has panicked, and was the last one.
    fn on_panic(&self, error: Error);
}

/// A task, and the time of its turn.
struct ScheduledTask {
    task: Arc<dyn Task>,
    /// The time of its next turn; `None` during a turn, and if it has no further one.
    due: Option<Instant>,
    /// True while its turn is in progress.
    is_running: bool,
    /// True if the writer requested another turn meanwhile.
    is_requested: bool,
    /// True if the writer waits for the end of this turn, which is the last one.
    is_last: bool,
}

#[derive(Default)]
struct SchedulerState {
    /// The tasks by their numbers.
    entries: HashMap<u64, ScheduledTask>,
    /// The numbers of the tasks with a turn ahead, by its time.
    queue: BTreeSet<(Instant, u64)>,
    /// The number of the next entry.
    next: u64,
    thread: Option<JoinHandle<()>>,
    /// The number of times a thread was started or told to end; a thread ends when its number is not the newest.
    threads: u64,
}

/// The queue of a process.
struct Scheduler {
    /// The number of forks before the process was made: a child has another number than its parent.
    forks: u64,
    state: Mutex<SchedulerState>,
    /// Signals that work is due earlier, or the thread should end. Wakes all threads: one that should end may wait
    /// while its successor does.
    changed: Condvar,
    /// Signals that a turn has ended.
    ended: Condvar,
    /// The queue of a forked child.
    child: OnceLock<Box<Scheduler>>,
}

/// The queue of the process that first has a task; forked children find theirs through it.
static FIRST: OnceLock<Scheduler> = OnceLock::new();

/// A task in the queue. Dropping it removes the task, after waiting for a turn in progress.
pub(super) struct TaskHandle {
    queue: &'static Scheduler,
    number: u64,
}

impl TaskHandle {
    /// Gives `task` its first turn, as soon as the thread is free.
    ///
    /// # Errors
    /// `Io` if the thread can't be started.
    pub fn start(task: Arc<dyn Task>) -> Result<TaskHandle> {
        let queue = Scheduler::for_process();
        let mut state = queue.state.lock_ignoring_poison();
        if state.thread.is_none() {
            state.threads += 1;
            let number = state.threads;
            let thread = std::thread::Builder::new().name("arrowwood-background".into());
            let started = thread.spawn(move || queue.run(number));
            state.thread = Some(started.map_err(|e| Error::io("starting the background thread", &e))?);
        }
        let number = state.next;
        state.next += 1;
        state
            .entries
            .insert(number, ScheduledTask { task, due: None, is_running: false, is_requested: false, is_last: false });
        state.set_due(number, Some(Instant::now()));
        drop(state);
        queue.changed.notify_all();
        Ok(TaskHandle { queue, number })
    }

    /// Requests a turn as soon as the thread is free, and another one if one is in progress.
    pub fn request_turn(&self) {
        let mut state = self.queue.state.lock_ignoring_poison();
        let now = Instant::now();
        let Some(entry) = state.entries.get_mut(&self.number) else { return };
        if entry.is_running {
            entry.is_requested = true;
        } else if entry.due.is_none_or(|due| due > now) {
            state.set_due(self.number, Some(now));
            self.queue.changed.notify_all();
        }
    }
}

impl Drop for TaskHandle {
    fn drop(&mut self) {
        if self.queue.forks != fork_count() {
            // After a fork the thread is missing, and perhaps the holder of the lock as well.
            return;
        }
        let mut state = self.queue.state.lock_ignoring_poison();
        state.set_due(self.number, None);
        while let Some(entry) = state.entries.get_mut(&self.number).filter(|entry| entry.is_running) {
            entry.is_last = true;
            state = self.queue.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let entry = state.entries.remove(&self.number);
        let mut last = None;
        if state.entries.is_empty() {
            state.threads += 1;
            last = state.thread.take();
        }
        drop(state);
        drop(entry);
        if let Some(thread) = last {
            self.queue.changed.notify_all();
            // Panics of tasks are caught, and one of the thread itself has no remedy here.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("number", &self.number).finish_non_exhaustive()
    }
}

impl SchedulerState {
    /// Sets the time of a task's next turn.
    fn set_due(&mut self, number: u64, due: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if let Some(before) = std::mem::replace(&mut entry.due, due) {
            let was_queued = self.queue.remove(&(before, number));
            debug_assert!(was_queued, "a task with a turn is in the queue");
        }
        if let Some(due) = due {
            self.queue.insert((due, number));
        }
    }
}

impl Scheduler {
    fn new() -> Scheduler {
        Scheduler {
            forks: fork_count(),
            state: Mutex::default(),
            changed: Condvar::new(),
            ended: Condvar::new(),
            child: OnceLock::new(),
        }
    }

    /// Returns the queue of this process.
    fn for_process() -> &'static Scheduler {
        let mut queue = FIRST.get_or_init(Scheduler::new);
        while queue.forks != fork_count() {
            queue = queue.child.get_or_init(|| Box::new(Scheduler::new()));
        }
        queue
    }

    /// Gives tasks their turns until it is replaced or told to end.
    fn run(&self, number: u64) {
        let mut state = self.state.lock_ignoring_poison();
        while state.threads == number {
            let now = Instant::now();
            match state.queue.first().copied() {
                Some((due, entry)) if due <= now => state = self.give_turn(state, entry),
                first => {
                    let wait = match first {
                        Some((due, _)) => due - now,
                        None => IDLE_WAIT,
                    };
                    let waited = self.changed.wait_timeout(state, wait);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Gives a task its turn, without the lock, and schedules its next one.
    fn give_turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, SchedulerState>,
        number: u64,
    ) -> MutexGuard<'a, SchedulerState> {
        state.set_due(number, None);
        let Some(entry) = state.entries.get_mut(&number) else { return state };
        debug_assert!(!entry.is_running, "two threads give turns to one task");
        entry.is_running = true;
        entry.is_requested = false;
        let task = entry.task.clone();
        drop(state);

        // A bug in the work for one table must not stop the work for others.
        let wait = catch_unwind(AssertUnwindSafe(|| task.take_turn())).unwrap_or_else(|panic| {
            task.on_panic(Error::from_panic(&*panic));
            None
        });
        drop(task);

        let mut state = self.state.lock_ignoring_poison();
        let now = Instant::now();
        if let Some(entry) = state.entries.get_mut(&number) {
            entry.is_running = false;
            let due = match wait {
                _ if entry.is_last => None,
                _ if entry.is_requested => Some(now),
                // A time that no clock reaches is never.
                Some(wait) => now.checked_add(wait),
                None => None,
            };
            state.set_due(number, due);
        }
        self.ended.notify_all();
        state
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A timeout that is longer than any turn takes on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// A task that counts its turns, and requests the next one immediately.
    #[derive(Default)]
    struct Counter {
        turns: AtomicUsize,
        has_panicked: AtomicBool,
        panics: bool,
    }

    impl Task for Counter {
        fn take_turn(&self) -> Option<Duration> {
            self.turns.fetch_add(1, Ordering::SeqCst);
            assert!(!self.panics, "on purpose");
            Some(Duration::ZERO)
        }

        fn on_panic(&self, error: Error) {
            assert!(error.message().ends_with("on purpose"), "{error}");
            self.has_panicked.store(true, Ordering::SeqCst);
        }
    }

    #[track_caller]
    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_panic_ends_only_its_own_task() {
        let bad = Arc::new(Counter { panics: true, ..Counter::default() });
        let good = Arc::new(Counter::default());
        let bad_handle = TaskHandle::start(bad.clone()).unwrap();
        let good_handle = TaskHandle::start(good.clone()).unwrap();
        wait_until("a panic, and turns of the other task", || {
            bad.has_panicked.load(Ordering::SeqCst) && good.turns.load(Ordering::SeqCst) > 3
        });
        assert_eq!(bad.turns.load(Ordering::SeqCst), 1);
        // A request lets it try again.
        bad_handle.request_turn();
        wait_until("another turn", || bad.turns.load(Ordering::SeqCst) == 2);
        drop((bad_handle, good_handle));
        assert_eq!(Arc::strong_count(&good), 1);
    }

    /// A task that reports the start of its turn, and ends it on request.
    struct Slow {
        begun: Mutex<Sender<()>>,
        end: Mutex<Receiver<()>>,
        turns: AtomicUsize,
    }

    impl Task for Slow {
        fn take_turn(&self) -> Option<Duration> {
            self.turns.fetch_add(1, Ordering::SeqCst);
            self.begun.lock_ignoring_poison().send(()).unwrap();
            // An error ends the test.
            let _ = self.end.lock_ignoring_poison().recv_timeout(PATIENCE);
            None
        }

        fn on_panic(&self, _error: Error) {}
    }

    #[test]
    fn dropping_a_task_waits_only_for_its_own_turn() {
        let (begun, has_begun) = channel();
        let (end, is_to_end) = channel();
        let slow = Slow { begun: Mutex::new(begun), end: Mutex::new(is_to_end), turns: AtomicUsize::new(0) };
        let slow = Arc::new(slow);
        let slow_handle = TaskHandle::start(slow.clone()).unwrap();
        has_begun.recv_timeout(PATIENCE).expect("the beginning of a turn");
        let other = Arc::new(Counter::default());
        // Its turn hasn't begun, so dropping it doesn't wait.
        drop(TaskHandle::start(other.clone()).unwrap());
        assert_eq!((other.turns.load(Ordering::SeqCst), Arc::strong_count(&other)), (0, 1));
        // A request during a turn leads to another one.
        slow_handle.request_turn();
        end.send(()).unwrap();
        has_begun.recv_timeout(PATIENCE).expect("the beginning of a turn");
        let ended = std::thread::spawn(move || drop(slow_handle));
        end.send(()).unwrap();
        ended.join().unwrap();
        assert_eq!((slow.turns.load(Ordering::SeqCst), Arc::strong_count(&slow)), (2, 1));
    }
}
