//! Holds the state of this room, in an [`IngestState`], and adds it to sessions.

use std::sync::Arc;

use arrowwood::WriterOptions;
use tokio::sync::Semaphore;

use super::group_commit::WriterPool;
use super::writers::Writers;
use crate::http::Result;
use crate::ops::{Limits, Memory, Metrics, Readiness};
use crate::session::Session;

/// What requests that send rows share.
pub(crate) struct IngestState {
    /// Memory for rows that are not committed yet.
    pub memory: Memory,
    /// Permits for decoding large bodies.
    pub decoding: Arc<Semaphore>,
    pub writers: Writers,
}

impl IngestState {
    /// Creates the state of a server that decodes up to `decoders` large bodies at once.
    pub fn new(
        limits: &Limits,
        metrics: Arc<Metrics>,
        readiness: Arc<Readiness>,
        options: WriterOptions,
        decoders: usize,
    ) -> IngestState {
        IngestState {
            memory: Memory::new(limits.ingest_memory),
            decoding: Arc::new(Semaphore::new(decoders)),
            writers: Writers::new(WriterPool {
                metrics,
                idle_timeout: limits.writer,
                max_open: limits.writers,
                open: Arc::default(),
                inline_commit: Arc::default(),
                options,
                readiness,
            }),
        }
    }
}

/// The session of a request that sends rows.
#[derive(Clone)]
pub(crate) struct IngestSession {
    pub session: Session,
    pub state: Arc<IngestState>,
}

impl IngestSession {
    /// Runs blocking work on a thread of its own.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&IngestSession) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let ingest = self.clone();
        self.session.run_blocking(move |_| work(&ingest)).await
    }
}
