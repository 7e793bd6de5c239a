//! Messages of a call as they arrive.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Frame, Incoming};
use prost::Message;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::messages::PREFIX;
use crate::problem::{Problem, Result};
use crate::session::Session;

/// The maximum size in bytes of a request message.
pub(crate) const QUESTION: usize = 64 << 10;

/// Longer than any connection lasts, and short enough to be added to a time.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The messages of a call's request.
pub(crate) struct RequestStream {
    body: Incoming,
    session: Session,
    buffer: BytesMut,
    /// The share of the message that begins the buffer.
    share: Option<OwnedSemaphorePermit>,
    /// When the first part of the message that begins the buffer was waited for.
    begun: Option<Instant>,
    /// Whether the body is over, or has broken off.
    ended: Option<Result<(), ()>>,
    /// The maximum time between two messages of a client.
    rest: Duration,
}

/// A message, and its share of the memory for uncommitted rows.
pub(crate) struct ReceivedMessage {
    pub message: Bytes,
    pub share: OwnedSemaphorePermit,
}

impl RequestStream {
    pub fn new(body: Incoming, session: Session) -> RequestStream {
        let rest = session.shared.limits.stall;
        RequestStream { body, session, buffer: BytesMut::new(), share: None, begun: None, ended: None, rest }
    }

    /// The same, without a time limit between messages: the client is listening.
    pub fn unhurried(self) -> RequestStream {
        RequestStream { rest: FOREVER, ..self }
    }

    /// The next message, of at most `most` bytes; `None` at the end. Dropping the future loses nothing.
    pub async fn next(&mut self, most: usize) -> Result<Option<ReceivedMessage>> {
        loop {
            if let Some(called) = self.arrived(most)? {
                return Ok(Some(called));
            }
            match self.ended {
                None => self.receive().await?,
                Some(Ok(())) if self.buffer.is_empty() => return Ok(None),
                Some(_) => return Err(broken()),
            }
        }
    }

    /// The next message, if all of it has arrived.
    pub fn arrived(&mut self, most: usize) -> Result<Option<ReceivedMessage>> {
        loop {
            if self.buffer.len() >= PREFIX {
                let end = PREFIX + length(&self.buffer, most)?;
                // Taken before the message is received, so that half-received messages don't wait for each other.
                let share = match self.share.take() {
                    Some(share) => share,
                    None => self.session.shared.memory.share(end)?,
                };
                if self.buffer.len() >= end {
                    self.begun = None;
                    self.buffer.advance(PREFIX);
                    let message = self.buffer.split_to(end - PREFIX).freeze();
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
        let (patience, latest) = if self.buffer.is_empty() {
            (self.rest, Instant::now() + self.rest)
        } else {
            (limits.part, limits.next_part_deadline(*self.begun.get_or_insert_with(Instant::now)))
        };
        let slow = |_| {
            let detail = format!("no part of a message came for {} seconds", patience.as_secs());
            Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
        };
        let frame = tokio::select! {
            frame = timeout_at(latest, self.body.frame()) => frame.map_err(slow)?,
            () = self.session.wait_for_stop() => return Err(Problem::unavailable("the server is stopping")),
        };
        self.take(frame);
        Ok(())
    }

    fn take(&mut self, frame: Option<Result<Frame<Bytes>, hyper::Error>>) {
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

    /// The only message of a call with a single request.
    pub async fn question<M: Message + Default>(&mut self) -> Result<M> {
        let called = self.next(QUESTION).await?.ok_or_else(|| Problem::bad_request("the call has no message"))?;
        decoded(called.message)
    }
}

fn broken() -> Problem {
    Problem::bad_request("the call broke off in the middle of a message")
}

/// The length of the message that begins with these bytes.
fn length(buffer: &BytesMut, most: usize) -> Result<usize> {
    let [flag, len @ ..] = buffer.first_chunk::<PREFIX>().ok_or_else(broken)?;
    if *flag != 0 {
        let detail = "compressed messages are not taken; compress the buffers of record batches";
        return Err(Problem::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", detail));
    }
    let len = u32::from_be_bytes(*len) as usize;
    if len > most {
        return Err(Problem::too_large(format!("a message has at most {most} bytes, got {len}; send several")));
    }
    Ok(len)
}

/// A message of protobuf.
pub(crate) fn decoded<M: Message + Default>(message: Bytes) -> Result<M> {
    M::decode(message).map_err(|e| Problem::bad_request(format!("the message is damaged: {e}")))
}
