//! Detects stalled response bodies.
//!
//! HTTP/2 has flow control per stream: a connection can be busy while one of its responses makes no progress. A
//! [`SendStall`] counts the bytes of one response that are queued, and reports when none of them was sent for a given
//! time. Each queued chunk is a [`TrackedBytes`], which reports to it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arrowwood::mapping::MutexExt;
use bytes::{Buf, Bytes};
use tokio::time::Instant;

/// Detects a response that has queued bytes but makes no progress.
///
/// The connection's task queues and sends bytes, and another part of it asks regularly. The two fields of the queue
/// belong together, so they are behind one lock, which is held for moments.
#[derive(Debug)]
pub(crate) struct SendStall {
    timeout: Duration,
    queue: Mutex<SendQueue>,
}

/// The queued bytes of a response.
#[derive(Debug)]
struct SendQueue {
    bytes: usize,
    /// The time when bytes were last sent, or when the first were queued after the queue was empty.
    last_progress: Instant,
}

impl SendStall {
    /// Creates a detector for one response, which stalls after `timeout` without progress.
    pub fn new(timeout: Duration) -> SendStall {
        SendStall { timeout, queue: Mutex::new(SendQueue { bytes: 0, last_progress: Instant::now() }) }
    }

    /// Returns true if bytes are queued and none was sent within the timeout.
    pub fn is_stalled(&self) -> bool {
        let queue = self.lock();
        queue.bytes > 0 && queue.last_progress.elapsed() > self.timeout
    }

    fn on_queued(&self, bytes: usize) {
        let mut queue = self.lock();
        if queue.bytes == 0 {
            queue.last_progress = Instant::now();
        }
        queue.bytes += bytes;
    }

    fn on_sent(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut queue = self.lock();
        assert!(bytes <= queue.bytes, "sent {bytes} of {} queued bytes", queue.bytes);
        queue.bytes -= bytes;
        queue.last_progress = Instant::now();
    }

    fn lock(&self) -> MutexGuard<'_, SendQueue> {
        self.queue.lock_ignoring_poison()
    }
}

/// A chunk of a response body that reports to a [`SendStall`] as it is sent.
pub(crate) struct TrackedBytes {
    bytes: Bytes,
    /// The detector of the response, if there is one.
    stall: Option<Arc<SendStall>>,
}

impl TrackedBytes {
    /// Queues `bytes` for sending.
    pub fn new(bytes: Bytes, stall: Option<&Arc<SendStall>>) -> TrackedBytes {
        if let Some(stall) = stall {
            stall.on_queued(bytes.len());
        }
        TrackedBytes { bytes, stall: stall.cloned() }
    }

    fn on_sent(&self, bytes: usize) {
        if let Some(stall) = &self.stall {
            stall.on_sent(bytes);
        }
    }
}

impl Buf for TrackedBytes {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.on_sent(count);
    }
}

impl Drop for TrackedBytes {
    /// Removes unsent bytes, as an abandoned response must not look stalled.
    fn drop(&mut self) {
        self.on_sent(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until the clock has advanced.
    fn tick() {
        let now = Instant::now();
        while Instant::now() <= now {}
    }

    #[test]
    fn only_sent_and_dropped_bytes_are_progress() {
        let stall = Arc::new(SendStall::new(Duration::ZERO));
        let last_progress = || stall.lock().last_progress;
        assert!(!stall.is_stalled(), "nothing is queued");
        let mut first = TrackedBytes::new(Bytes::from_static(b"first"), Some(&stall));
        let start = last_progress();
        let second = TrackedBytes::new(Bytes::from_static(b"second"), Some(&stall));
        tick();
        assert!(stall.is_stalled());
        assert_eq!(last_progress(), start, "queueing more is not progress");
        first.advance(1);
        assert!(last_progress() > start);
        drop(first);
        tick();
        assert!(stall.is_stalled(), "the other chunk is waited for");
        drop(second);
        tick();
        assert!(!stall.is_stalled());
    }
}
