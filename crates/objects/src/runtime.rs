//! Runs requests on threads of their own, and waits for them on any thread.

use arrowwood::mapping::MutexExt;
use std::future::Future;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrowwood::mapping::fork_count;
use arrowwood::{Error, ErrorKind, Result, blocking};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// The maximum number of requests of a process at one time.
pub(crate) const REQUESTS: usize = 16;

/// The threads with which a process sends requests.
#[derive(Clone)]
pub(crate) struct RequestRuntime {
    runtime: &'static Runtime,
    /// Taken by each request.
    pub permits: Arc<Semaphore>,
}

impl RequestRuntime {
    /// Returns the runtime of this process. A fork gets a new one, as it has no threads of its parent.
    pub(crate) fn for_process() -> Result<RequestRuntime> {
        static KNOWN: Mutex<Option<(u64, RequestRuntime)>> = Mutex::new(None);
        let mut known = KNOWN.lock_ignoring_poison();
        if let Some((process, threads)) = known.as_ref()
            && *process == fork_count()
        {
            return Ok(threads.clone());
        }
        let built = Builder::new_multi_thread().worker_threads(2).thread_name("arrowwood-objects").enable_all().build();
        let runtime = built.map_err(|e| Error::io("starting threads for requests", &e))?;
        // The runtime is never ended: its threads sleep while there are no requests, and don't exist in a fork.
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        let threads = RequestRuntime { runtime, permits: Arc::new(Semaphore::new(REQUESTS)) };
        *known = Some((fork_count(), threads.clone()));
        Ok(threads)
    }

    /// Waits for `work` for at most `wait`, whatever signals come.
    pub(crate) fn finish(&self, work: impl Future<Output = ()> + Send + 'static, wait: Duration) {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            work.await;
            let _ = sender.send(());
        });
        let _ = receiver.recv_timeout(wait);
    }

    /// Waits for `work`, which is dropped when a signal ends the wait. Works on the threads of another runtime, too.
    pub(crate) fn wait<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let task = self.runtime.spawn(async move {
            // The caller may have been interrupted.
            let _ = sender.send(work.await);
        });
        loop {
            match receiver.recv_timeout(blocking::TURN) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => blocking::check_interrupt().inspect_err(|_| task.abort())?,
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "a request to a store ended without an answer";
                    return Err(Error::new(ErrorKind::Internal, message));
                }
            }
        }
    }
}
