//! The threads that send requests, and waiting for them from any thread.

use arrowwood::mapping::MutexExt;
use std::future::Future;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrowwood::mapping::fork_count;
use arrowwood::{Error, ErrorKind, Result, blocking};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

/// The requests of a process at one time.
pub(crate) const REQUESTS: usize = 16;

/// What a process sends requests with.
#[derive(Clone)]
pub(crate) struct RequestRuntime {
    runtime: &'static Runtime,
    /// Taken by each request.
    pub permits: Arc<Semaphore>,
}

impl RequestRuntime {
    /// Those of this process: a fork has none of the threads of the process before.
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
        // Never ended: its threads sleep while there are no requests, and those of a process before are not there.
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
            // Whoever asked may be gone.
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
