//! Receives the messages of a call as they arrive.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arrowwood_flight::{FRAME_PREFIX, decode_message, frame_len};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Frame, Incoming};
use prost::Message;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::http::{Problem, Result};
use crate::ops::Memory;
use crate::session::Session;

/// The maximum size in bytes of a message without rows.
pub(crate) const MAX_REQUEST_LEN: usize = 64 << 10;

/// A time longer than any connection lasts, and short enough to be added to an instant.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The messages of a call's request.
///
/// Received bytes are collected in `buffer`, which begins with the message that is received next. Its share of memory
/// is taken as soon as its length is known.
pub(crate) struct RequestStream {
    body: Incoming,
    session: Session,
    /// Memory for rows that are not committed yet.
    memory: Memory,
    buffer: BytesMut,
    /// The share of memory of the message that begins the buffer.
    share: Option<OwnedSemaphorePermit>,
    /// When the first part of the message that begins the buffer was waited for.
    wait_start: Option<Instant>,
    /// Set at the end of the body: `Err` if it broke off.
    ended: Option<Result<(), ()>>,
    /// The maximum time between two messages of a client.
    idle_timeout: Duration,
}

/// A message, and its share of the memory for uncommitted rows.
pub(crate) struct ReceivedMessage {
    pub message: Bytes,
    pub share: OwnedSemaphorePermit,
}

impl RequestStream {
    pub fn new(body: Incoming, session: Session, memory: Memory) -> RequestStream {
        let idle_timeout = session.shared.limits.stall;
        RequestStream {
            body,
            session,
            memory,
            buffer: BytesMut::new(),
            share: None,
            wait_start: None,
            ended: None,
            idle_timeout,
        }
    }

    /// Removes the time limit between messages, for a client that only listens.
    pub fn without_idle_timeout(self) -> RequestStream {
        RequestStream { idle_timeout: FOREVER, ..self }
    }

    /// Returns the next message, of at most `max_len` bytes, or `None` at the end. Dropping the future loses nothing.
    pub async fn next(&mut self, max_len: usize) -> Result<Option<ReceivedMessage>> {
        loop {
            if let Some(message) = self.poll_next(max_len)? {
                return Ok(Some(message));
            }
            match self.ended {
                None => self.receive().await?,
                Some(Ok(())) if self.buffer.is_empty() => return Ok(None),
                Some(_) => return Err(broken()),
            }
        }
    }

    /// Returns the next message, if all of it has arrived.
    pub fn poll_next(&mut self, max_len: usize) -> Result<Option<ReceivedMessage>> {
        loop {
            if let Some(end) = frame_len(&self.buffer, max_len)? {
                // The share is taken before the message is received, so that half-received messages don't wait for each
                // other.
                let share = match self.share.take() {
                    Some(share) => share,
                    None => self.memory.share(end)?,
                };
                if self.buffer.len() >= end {
                    self.wait_start = None;
                    self.buffer.advance(FRAME_PREFIX);
                    let message = self.buffer.split_to(end - FRAME_PREFIX).freeze();
                    return Ok(Some(ReceivedMessage { message, share }));
                }
                self.share = Some(share);
            }
            if self.ended.is_some() {
                return Ok(None);
            }
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(&mut self.body).poll_frame(&mut context) {
                Poll::Ready(frame) => self.take(frame),
                Poll::Pending => return Ok(None),
            }
        }
    }

    /// Waits for the next part of the body.
    async fn receive(&mut self) -> Result<()> {
        let limits = &self.session.shared.limits;
        let (timeout, deadline) = if self.buffer.is_empty() {
            (self.idle_timeout, Instant::now() + self.idle_timeout)
        } else {
            let wait_start = *self.wait_start.get_or_insert_with(Instant::now);
            (limits.part, limits.next_part_deadline(wait_start))
        };
        let frame = tokio::select! {
            frame = timeout_at(deadline, self.body.frame()) => frame,
            () = self.session.wait_for_stop() => return Err(Problem::unavailable("the server is stopping")),
        };
        let Ok(frame) = frame else {
            let detail = format!("no part of a message came for {} seconds", timeout.as_secs());
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail));
        };
        self.take(frame);
        Ok(())
    }

    fn take(&mut self, frame: Option<Result<Frame<Bytes>, hyper::Error>>) {
        assert!(self.ended.is_none(), "a frame follows the end of the body");
        match frame.transpose() {
            Ok(Some(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
            }
            Ok(None) => self.ended = Some(Ok(())),
            Err(_) => self.ended = Some(Err(())),
        }
    }

    /// Returns the only message of a call with a single request.
    pub async fn only_message<M: Message + Default>(&mut self) -> Result<M> {
        let received = self.next(MAX_REQUEST_LEN).await?;
        let received = received.ok_or_else(|| Problem::bad_request("the call has no message"))?;
        Ok(decode_message(received.message)?)
    }
}

fn broken() -> Problem {
    Problem::bad_request("the call broke off in the middle of a message")
}
