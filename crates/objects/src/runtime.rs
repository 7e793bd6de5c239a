//! [`RequestRuntime`]: runs requests on separate threads, and waits for them on any thread.

use std::future::Future;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrowwood::mapping::{MutexExt, fork_count};
use arrowwood::{Error, ErrorKind, Result, blocking};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// The maximum number of concurrent requests of a process.
pub(crate) const MAX_REQUESTS: usize = 16;

/// The number of threads that send requests, which are mostly waiting.
const THREADS: usize = 2;

/// The threads that send the requests of a process.
#[derive(Clone)]
pub(crate) struct RequestRuntime {
    runtime: &'static Runtime,
    /// Each request holds a permit.
    pub permits: Arc<Semaphore>,
}

impl RequestRuntime {
    /// Returns the runtime of this process. A fork gets a new one, as it has no threads of its parent.
    pub(crate) fn for_process() -> Result<RequestRuntime> {
        static CURRENT: Mutex<Option<(u64, RequestRuntime)>> = Mutex::new(None);
        let mut current = CURRENT.lock_ignoring_poison();
        if let Some((process, runtime)) = current.as_ref()
            && *process == fork_count()
        {
            return Ok(runtime.clone());
        }
        let mut builder = Builder::new_multi_thread();
        let tokio = builder.worker_threads(THREADS).thread_name("arrowwood-objects").enable_all().build();
        let tokio = tokio.map_err(|e| Error::io("starting threads for requests", &e))?;
        // Never shut down: the threads sleep while there are no requests, and do not exist in a fork.
        let tokio: &'static Runtime = Box::leak(Box::new(tokio));
        let runtime = RequestRuntime { runtime: tokio, permits: Arc::new(Semaphore::new(MAX_REQUESTS)) };
        *current = Some((fork_count(), runtime.clone()));
        Ok(runtime)
    }

    /// Waits for `work` for at most `timeout`, even if signals arrive.
    pub(crate) fn wait_uninterrupted(&self, work: impl Future<Output = ()> + Send + 'static, timeout: Duration) {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            work.await;
            // Fails if the caller waits no longer.
            let _ = sender.send(());
        });
        let _ = receiver.recv_timeout(timeout);
    }

    /// Waits for `work`, which is dropped when a signal ends the wait. May be called on threads of another runtime.
    pub(crate) fn wait<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let task = self.runtime.spawn(async move {
            // Fails if the caller was interrupted.
            let _ = sender.send(work.await);
        });
        loop {
            match receiver.recv_timeout(blocking::POLL_INTERVAL) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => blocking::check_interrupt().inspect_err(|_| task.abort())?,
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "a request to a store ended without an answer";
                    return Err(Error::new(ErrorKind::Internal, message));
                }
            }
        }
    }
}
