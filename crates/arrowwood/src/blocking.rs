//! Calls that may wait for remote data: how they refuse to wait, and how signals end waits.
//!
//! Bindings of languages whose interpreters have a lock need it, and programs that handle signals.
//!
//! A call that must not wait runs in [`try_without_blocking`]: where it would wait, it stores the wait for its caller
//! and fails with `Busy`. The caller gives up its lock, waits, and runs the call again.
//!
//! A waiting thread calls [`check_interrupt`] every [`POLL_INTERVAL`], which asks the hook of [`set_interrupt_hook`]
//! whether a signal has come. If several threads work for one call, they share a [`CancelToken`]: the first thread that
//! finds a signal sets its flag, which ends the waits of all. The flags are independent of other memory, so relaxed
//! loads and stores suffice.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrowwood_mapping::os;

use crate::error::{Error, ErrorKind, Result};

/// The interval at which a waiting thread checks whether to go on waiting.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// True once an object in a store was opened, so that calls may have to wait for its bytes.
static MAY_WAIT: AtomicBool = AtomicBool::new(false);
/// The function of [`set_interrupt_hook`]; returns true if a signal has come that ends the work of this thread.
static INTERRUPT_HOOK: OnceLock<fn() -> bool> = OnceLock::new();

thread_local! {
    /// True if this thread must not wait.
    static MUST_NOT_WAIT: Cell<bool> = const { Cell::new(false) };
    /// The wait that the thread has refused.
    static DEFERRED: RefCell<Option<DeferredWait>> = const { RefCell::new(None) };
    /// The call that this thread works for, if several threads do.
    static CALL: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

// ---- calls that must not wait ----

/// A wait that [`try_without_blocking`] has deferred.
pub struct DeferredWait(Box<dyn FnOnce() -> Result<()> + Send>);

impl DeferredWait {
    /// Waits until the bytes are there.
    ///
    /// # Errors
    /// Errors of reading the bytes.
    pub fn wait(self) -> Result<()> {
        (self.0)()
    }
}

/// Records that calls may have to wait from now on.
pub(crate) fn enable_waits() {
    MAY_WAIT.store(true, Ordering::Relaxed);
}

/// Returns true if calls may have to wait: an object in a store was opened.
pub fn may_block() -> bool {
    MAY_WAIT.load(Ordering::Relaxed)
}

/// Runs `work`, which fails instead of waiting.
///
/// Returns its result and, if it had to wait, the deferred wait, after which `work` has to be run again.
pub fn try_without_blocking<T>(work: impl FnOnce() -> T) -> (T, Option<DeferredWait>) {
    /// Restores the flag, even after a panic.
    struct Restore(bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            MUST_NOT_WAIT.set(self.0);
        }
    }

    let restore = Restore(MUST_NOT_WAIT.replace(true));
    let result = work();
    drop(restore);
    (result, DEFERRED.take())
}

/// Refuses to wait if the thread must not.
///
/// # Errors
/// `Busy` if `wait` was deferred.
pub(crate) fn check_may_block(wait: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    if !MUST_NOT_WAIT.get() {
        return Ok(());
    }
    DEFERRED.set(Some(DeferredWait(Box::new(wait))));
    Err(Error::new(ErrorKind::Busy, "the bytes are not here yet"))
}

/// Returns true if this thread must not wait.
pub(crate) fn is_nonblocking() -> bool {
    MUST_NOT_WAIT.get()
}

// ---- signals ----

/// The interval at which [`CancelToken::wait`] checks whether the other threads are done.
const JOIN_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A call that several threads work for.
///
/// A signal that ends the wait of one thread ends the waits of all.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

/// Sets the function with which waiting threads check whether a signal has come that ends their work.
///
/// Only the first call in a process has an effect.
pub fn set_interrupt_hook(hook: fn() -> bool) {
    INTERRUPT_HOOK.get_or_init(|| hook);
}

impl CancelToken {
    /// Returns the call that this thread works for, or a new one.
    pub fn current() -> CancelToken {
        if let Some(call) = CALL.with_borrow(|call| call.clone()) {
            return call;
        }
        CancelToken::default()
    }

    /// Returns the flag that ends the call's waits once it is set, for example by a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }

    /// Runs `work` on this thread as part of the call.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Restores the previous call, even after a panic.
        struct Restore(Option<CancelToken>);

        impl Drop for Restore {
            fn drop(&mut self) {
                CALL.set(self.0.take());
            }
        }

        let _restore = Restore(CALL.replace(Some(self.clone())));
        work()
    }

    /// Waits until `is_done` returns true, and polls the interrupt hook on behalf of the call's other threads.
    ///
    /// Returns at once if there is nothing to poll.
    pub fn wait(&self, mut is_done: impl FnMut() -> bool) {
        while INTERRUPT_HOOK.get().is_some() && may_block() && !is_done() {
            if self.run(check_interrupt).is_err() {
                return;
            }
            std::thread::park_timeout(JOIN_POLL_INTERVAL);
        }
    }
}

/// Checks that no signal has come that ends the work of this thread, or of its call.
///
/// Waiting threads call it every [`POLL_INTERVAL`].
///
/// # Errors
/// `Io` (`EINTR`) if one has come.
pub fn check_interrupt() -> Result<()> {
    let call = CALL.with_borrow(|call| call.clone());
    let is_cancelled = call.as_ref().is_some_and(|call| call.0.load(Ordering::Relaxed));
    if !is_cancelled && !INTERRUPT_HOOK.get().is_some_and(|hook| hook()) {
        return Ok(());
    }
    if let Some(call) = call {
        call.0.store(true, Ordering::Relaxed);
    }
    Err(Error::io("waiting", &os::interrupted()))
}
