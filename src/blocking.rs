//! Waits for what is far away: calls that must not wait, such as those that hold the lock of an interpreter, and signals that
//! end waits.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// How often who waits asks whether to go on.
pub const TURN: Duration = Duration::from_millis(50);

/// Whether anything was opened for whose bytes a call may have to wait.
static MAY_WAIT: AtomicBool = AtomicBool::new(false);
/// Whether a signal has come that ends what this thread does.
static HOOK: OnceLock<fn() -> bool> = OnceLock::new();

thread_local! {
    /// Whether this thread must not wait.
    static MUST_NOT_WAIT: Cell<bool> = const { Cell::new(false) };
    /// What it would have waited for.
    static MISSED: RefCell<Option<DeferredWait>> = const { RefCell::new(None) };
    /// The call that this thread works for, if several do.
    static CALL: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

// ---- calls that must not wait ----

/// A wait that [`without_waiting`] has put off.
pub struct DeferredWait(Box<dyn FnOnce() -> Result<()> + Send>);

impl DeferredWait {
    /// Waits.
    ///
    /// # Errors
    /// Those of what was waited for.
    pub fn wait(self) -> Result<()> {
        (self.0)()
    }
}

/// From now on, calls may have to wait.
pub(crate) fn enable_waits() {
    MAY_WAIT.store(true, Ordering::Relaxed);
}

/// Whether any call may have to wait: whether an object in a store was opened.
pub fn may_block() -> bool {
    MAY_WAIT.load(Ordering::Relaxed)
}

/// Runs `work`, which fails where it would have to wait. Then what it would have waited for is returned as well: `work` has to be
/// run again after that.
pub fn try_without_blocking<T>(work: impl FnOnce() -> T) -> (T, Option<DeferredWait>) {
    /// Sets the flag back, also after a panic.
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            MUST_NOT_WAIT.set(self.0);
        }
    }

    let before = Before(MUST_NOT_WAIT.replace(true));
    let done = work();
    drop(before);
    (done, MISSED.take())
}

/// Refuses to wait where the thread must not.
///
/// # Errors
/// `Busy`: `wait` was put off.
pub(crate) fn check_may_block(wait: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    if !MUST_NOT_WAIT.get() {
        return Ok(());
    }
    MISSED.set(Some(DeferredWait(Box::new(wait))));
    Err(Error::new(ErrorKind::Busy, "the bytes are not here yet"))
}

/// Whether this thread must not wait.
pub(crate) fn is_nonblocking() -> bool {
    MUST_NOT_WAIT.get()
}

// ---- signals ----

/// A call that several threads work for: what ends the wait of one ends those of all.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

/// Has waits ask `hook` whether a signal has come that ends what this thread does. Set once in a process.
pub fn set_interrupt_hook(hook: fn() -> bool) {
    HOOK.get_or_init(|| hook);
}

impl CancelToken {
    /// The call that this thread works for.
    pub fn current() -> CancelToken {
        CALL.with_borrow(|call| call.clone()).unwrap_or_default()
    }

    /// A flag that ends its waits once it is set, for example by a handler of signals.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Works for it.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Sets the call back, also after a panic.
        struct Before(Option<CancelToken>);

        impl Drop for Before {
            fn drop(&mut self) {
                CALL.set(self.0.take());
            }
        }

        let _before = Before(CALL.replace(Some(self.clone())));
        work()
    }

    /// Waits until `is_done`; asks now and then whether to end the waits of the threads that have to do it.
    pub fn wait(&self, mut is_done: impl FnMut() -> bool) {
        while HOOK.get().is_some() && may_block() && !is_done() {
            if self.run(check_interrupt).is_err() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// Checks that no signal has come that ends what this thread does, or what its call does. Called by who waits, every [`TURN`].
///
/// # Errors
/// `Io` (`EINTR`).
pub fn check_interrupt() -> Result<()> {
    let call = CALL.with_borrow(|call| call.clone());
    let is_over = call.as_ref().is_some_and(|call| call.0.load(Ordering::Relaxed));
    if !is_over && !HOOK.get().is_some_and(|hook| hook()) {
        return Ok(());
    }
    call.inspect(|call| call.0.store(true, Ordering::Relaxed));
    Err(Error::io("waiting", &std::io::Error::from_raw_os_error(libc::EINTR)))
}
