//! Produces response bodies step by step, as clients read them.
//!
//! A step that reads rows runs on a thread for blocking work. Between two steps only the state of the [`ResponseBody`]
//! is kept, so that a client that does not read costs little more than the kernel's buffers.

use std::future::{self, Future};
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrowwood::Error;
use bytes::Bytes;
use futures_util::{FutureExt, TryStreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderMap;

use super::send_stall::{SendStall, TrackedBytes};

/// The bytes that a step produces, possibly none, and the next state; `None` after the last step.
pub(crate) type BodyPart<S> = (Vec<Bytes>, Option<S>);

/// The body of a response that a worker makes, which may have trailers.
pub type WorkerBody = UnsyncBoxBody<Bytes, io::Error>;

/// Makes the trailers of a body that is complete, or broke off with an error.
pub(crate) type Trailers = fn(Result<(), &io::Error>) -> HeaderMap;

/// The body of a response.
pub(crate) struct ResponseBody {
    frames: UnsyncBoxBody<Bytes, io::Error>,
    /// Set if a worker makes the body, with its own trailers.
    is_from_worker: bool,
    /// Makes the trailers after the body. A body with trailers reports errors in them instead of breaking off.
    trailers: Option<Trailers>,
    /// Dropped when the body has been sent, or was abandoned.
    guard: Option<Box<dyn Send>>,
    /// Tracks the bytes handed over to be sent.
    stall: Option<Arc<SendStall>>,
}

impl ResponseBody {
    pub fn new(bytes: impl Into<Bytes>) -> ResponseBody {
        ResponseBody::from_frames(Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync())
    }

    pub fn empty() -> ResponseBody {
        ResponseBody::new(Bytes::new())
    }

    /// Creates a body that is produced step by step: `step` consumes a state and returns the next one.
    pub fn steps<S, F>(state: S, step: fn(S) -> F) -> ResponseBody
    where
        S: Send + 'static,
        F: Future<Output = io::Result<BodyPart<S>>> + Send + 'static,
    {
        let parts = stream::try_unfold(Some(state), move |state| async move {
            let Some(state) = state else { return Ok(None) };
            // A panic in a step, a failed assertion, ends this body and not the connection.
            let part = AssertUnwindSafe(step(state)).catch_unwind().await;
            part.unwrap_or_else(|panic| Err(io::Error::other(Error::from_panic(&*panic)))).map(Some)
        });
        let chunks = parts.map_ok(|bytes| stream::iter(bytes.into_iter().map(Ok))).try_flatten();
        let chunks = chunks.try_filter(|bytes| future::ready(!bytes.is_empty()));
        ResponseBody::from_frames(StreamBody::new(chunks.map_ok(Frame::data)).boxed_unsync())
    }

    /// Creates a body that a worker has made.
    pub fn from_worker(body: WorkerBody) -> ResponseBody {
        ResponseBody { is_from_worker: true, ..ResponseBody::from_frames(body) }
    }

    fn from_frames(frames: UnsyncBoxBody<Bytes, io::Error>) -> ResponseBody {
        ResponseBody { frames, is_from_worker: false, trailers: None, guard: None, stall: None }
    }

    /// Returns true if a worker has made the body.
    pub fn is_from_worker(&self) -> bool {
        self.is_from_worker
    }

    /// Adds trailers, which have the final status.
    pub fn with_trailers(mut self, trailers: Trailers) -> ResponseBody {
        assert!(!self.is_from_worker, "the body of a worker has trailers of its own");
        self.trailers = Some(trailers);
        self
    }

    /// Keeps `guard` until the body has been sent, or was abandoned.
    pub fn holding(mut self, guard: impl Send + 'static) -> ResponseBody {
        let before = self.guard.take();
        self.guard = Some(Box::new((before, guard)));
        self
    }

    /// Tracks the bytes of the body by `stall`.
    pub fn tracked(mut self, stall: Arc<SendStall>) -> ResponseBody {
        self.stall = Some(stall);
        self
    }
}

impl Body for ResponseBody {
    type Data = TrackedBytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<TrackedBytes>, io::Error>>> {
        let this = self.get_mut();
        let ended = match ready!(Pin::new(&mut this.frames).poll_frame(context)) {
            Some(Ok(frame)) => {
                let frame = frame.map_data(|bytes| TrackedBytes::new(bytes, this.stall.as_ref()));
                return Poll::Ready(Some(Ok(frame)));
            }
            Some(Err(e)) => Err(e),
            None => Ok(()),
        };
        this.guard = None;
        Poll::Ready(match this.trailers.take() {
            Some(trailers) => Some(Ok(Frame::trailers(trailers(ended.as_ref().copied())))),
            None => ended.err().map(Err),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_end_stream() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.frames.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Buf;

    use super::*;

    /// Counts down, fails at a negative number, and panics at a hundred.
    async fn count_down(state: (i32, Arc<()>)) -> io::Result<BodyPart<(i32, Arc<()>)>> {
        let (number, shared) = state;
        assert!(number < 100, "a hundred is too much");
        if number < 0 {
            return Err(io::Error::other("below zero"));
        }
        let bytes = vec![Bytes::new(), Bytes::from(number.to_string())];
        let step = if number == 50 { 51 } else { 1 };
        Ok((bytes, (number > 0).then_some((number - step, shared))))
    }

    fn end_status(ended: Result<(), &io::Error>) -> HeaderMap {
        let status = ended.map_or_else(ToString::to_string, |()| "whole".to_owned());
        HeaderMap::from_iter([(hyper::header::ETAG, status.parse().unwrap())])
    }

    /// Returns the frames of a body, as texts, after checking that it has then dropped its state and its guard.
    async fn frames(number: i32, trailers: Option<Trailers>) -> Vec<String> {
        let shared = Arc::new(());
        let mut body = ResponseBody::steps((number, shared.clone()), count_down).holding(shared.clone());
        body.trailers = trailers;
        let mut frames = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(e) => {
                    frames.push(format!("error: {e}"));
                    continue;
                }
            };
            frames.push(match frame.trailers_ref() {
                Some(trailers) => format!("trailers: {}", trailers["etag"].to_str().unwrap()),
                None => String::from_utf8_lossy(frame.data_ref().unwrap().chunk()).into_owned(),
            });
        }
        assert_eq!(Arc::strong_count(&shared), 1, "the state or the guard outlives the last frame");
        frames
    }

    #[tokio::test]
    async fn steps_follow_each_other_until_the_end_or_an_error() {
        assert_eq!(frames(2, None).await, ["2", "1", "0"]);
        assert_eq!(frames(50, None).await, ["50", "error: below zero"]);
        assert_eq!(frames(2, Some(end_status)).await, ["2", "1", "0", "trailers: whole"]);
        assert_eq!(frames(50, Some(end_status)).await, ["50", "trailers: below zero"]);
    }

    #[tokio::test]
    async fn a_panic_in_a_step_ends_the_body() {
        let [error] = &frames(100, None).await[..] else { panic!("one error is expected") };
        assert!(error.starts_with("error: ") && error.contains("a hundred is too much"), "{error}");
    }

    #[test]
    fn an_abandoned_body_drops_its_state() {
        let shared = Arc::new(());
        drop(ResponseBody::steps((1, shared.clone()), count_down).holding(shared.clone()));
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn only_known_bodies_have_a_size() {
        let body = ResponseBody::new("abc");
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
        assert_eq!(body.with_trailers(end_status).size_hint().exact(), Some(3));
        assert_eq!((ResponseBody::empty().size_hint().exact(), ResponseBody::empty().is_end_stream()), (Some(0), true));
        assert!(!ResponseBody::empty().with_trailers(end_status).is_end_stream());
        assert_eq!(ResponseBody::steps((1, Arc::new(())), count_down).size_hint().exact(), None);
    }
}
