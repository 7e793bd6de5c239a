//! [`SendStall`]: the data of an answer that its client has not taken yet. [`TrackedBytes`]: some of that data.
//!
//! A client of HTTP/2 says for each answer how much of it may be sent. So a connection that sends and receives may have
//! answers of which nothing is sent.

use arrowwood::mapping::MutexExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::time::Instant;

/// The data of an answer that was handed over to be sent, and was not sent.
#[derive(Debug)]
pub(crate) struct SendStall {
    /// How long the client may take nothing of it.
    most: Duration,
    state: Mutex<SendQueue>,
}

#[derive(Debug)]
struct SendQueue {
    bytes: usize,
    /// The time of the last change, but for data added to other data.
    since: Instant,
}

impl SendStall {
    pub fn new(most: Duration) -> SendStall {
        SendStall { most, state: Mutex::new(SendQueue { bytes: 0, since: Instant::now() }) }
    }

    fn state(&self) -> MutexGuard<'_, SendQueue> {
        self.state.lock_ignoring_poison()
    }

    fn add(&self, bytes: usize) {
        let mut state = self.state();
        if state.bytes == 0 {
            state.since = Instant::now();
        }
        state.bytes += bytes;
    }

    fn remove(&self, bytes: usize) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.since = Instant::now();
    }

    /// Whether there is data of which nothing was taken for too long.
    pub fn is_over(&self) -> bool {
        let state = self.state();
        state.bytes > 0 && state.since.elapsed() > self.most
    }
}

/// A piece of an answer's data, to be sent.
pub(crate) struct TrackedBytes {
    bytes: Bytes,
    /// The answer's data, of which this is a part, if that is counted.
    untaken: Option<Arc<SendStall>>,
}

impl TrackedBytes {
    pub fn new(bytes: Bytes, untaken: Option<&Arc<SendStall>>) -> TrackedBytes {
        if let Some(untaken) = untaken {
            untaken.add(bytes.len());
        }
        TrackedBytes { bytes, untaken: untaken.cloned() }
    }

    fn took(&self, bytes: usize) {
        if let Some(untaken) = self.untaken.as_ref().filter(|_| bytes > 0) {
            untaken.remove(bytes);
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
        self.took(count);
    }
}

impl Drop for TrackedBytes {
    /// The rest of an answer that was given up is not waited for.
    fn drop(&mut self) {
        self.took(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until the clock has gone on.
    fn tick() {
        let now = Instant::now();
        while Instant::now() <= now {}
    }

    #[test]
    fn only_what_is_taken_or_given_up_is_progress() {
        let untaken = Arc::new(SendStall::new(Duration::ZERO));
        let since = || untaken.state().since;
        assert!(!untaken.is_over(), "there is nothing to be taken");
        let mut first = TrackedBytes::new(Bytes::from_static(b"first"), Some(&untaken));
        let begun = since();
        let second = TrackedBytes::new(Bytes::from_static(b"second"), Some(&untaken));
        tick();
        assert!(untaken.is_over());
        assert_eq!(since(), begun, "more of it is no progress");
        first.advance(1);
        assert!(since() > begun);
        drop(first);
        tick();
        assert!(untaken.is_over(), "the other piece is waited for");
        drop(second);
        tick();
        assert!(!untaken.is_over());
    }
}
