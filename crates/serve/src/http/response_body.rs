//! Produces response bodies step by step, as clients read them.
//!
//! A step that reads rows runs on a thread for blocking work. Between two steps only the state of the [`ResponseBody`]
//! is kept, so that a client that does not read costs little more than the kernel's buffers.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrowwood::Error;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderMap;

use super::send_stall::{SendStall, TrackedBytes};

/// The result of a step.
pub(crate) enum BodyStep<S> {
    /// Bytes to send, possibly none, and the next state.
    Data(S, Vec<Bytes>),
    /// The last bytes; the body is complete.
    End(Vec<Bytes>),
    /// The body breaks off.
    Failed(io::Error),
}

/// Produces a body step by step.
pub(crate) trait BodySource: Send + Sized + Unpin + 'static {
    fn step(self) -> impl Future<Output = BodyStep<Self>> + Send;
}

/// The bytes of a step.
struct BodyPart {
    bytes: Vec<Bytes>,
    is_last: bool,
}

/// A source of a body, whatever its type.
trait DynBodySource: Send {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<BodyPart>>;
}

/// The state between two steps, or the step in progress.
enum BodyState<S> {
    Waiting(S),
    Running(Pin<Box<dyn Future<Output = BodyStep<S>> + Send>>),
    Ended,
}

impl<S: BodySource> DynBodySource for BodyState<S> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<BodyPart>> {
        *self = match std::mem::replace(self, BodyState::Ended) {
            BodyState::Waiting(state) => BodyState::Running(Box::pin(state.step())),
            other => other,
        };
        let BodyState::Running(step) = self else {
            return Poll::Ready(Ok(BodyPart { bytes: Vec::new(), is_last: true }));
        };

        // A panic in a step, a failed assertion, ends this body and not the connection.
        let step = match catch_unwind(AssertUnwindSafe(|| step.as_mut().poll(context))) {
            Ok(step) => ready!(step),
            Err(panic) => BodyStep::Failed(io::Error::other(Error::from_panic(&*panic))),
        };
        *self = BodyState::Ended;
        Poll::Ready(match step {
            BodyStep::Data(state, bytes) => {
                *self = BodyState::Waiting(state);
                Ok(BodyPart { bytes, is_last: false })
            }
            BodyStep::End(bytes) => Ok(BodyPart { bytes, is_last: true }),
            BodyStep::Failed(e) => Err(e),
        })
    }
}

/// The body of a response that a worker makes, which may have trailers.
pub type WorkerBody = UnsyncBoxBody<Bytes, io::Error>;

/// Makes the trailers of a body that is complete, or broke off with an error.
pub(crate) type Trailers = fn(Result<(), &io::Error>) -> HeaderMap;

/// The body of a response.
pub(crate) struct ResponseBody {
    /// The bytes to send.
    ready: VecDeque<Bytes>,
    /// The source of further bytes.
    source: Option<Box<dyn DynBodySource>>,
    /// Makes the trailers after the body. A body with trailers reports errors in them instead of breaking off.
    trailers: Option<Trailers>,
    /// A body made by a worker, with its own trailers.
    worker_body: Option<WorkerBody>,
    /// Dropped when the body has been sent, or was abandoned.
    guard: Option<Box<dyn Send>>,
    /// Tracks the bytes handed over to be sent.
    stall: Option<Arc<SendStall>>,
}

impl ResponseBody {
    pub fn new(bytes: impl Into<Bytes>) -> ResponseBody {
        ResponseBody::several(vec![bytes.into()])
    }

    /// Creates a body of several parts, concatenated.
    pub fn several(parts: Vec<Bytes>) -> ResponseBody {
        let ready = parts.into_iter().filter(|part| !part.is_empty()).collect();
        ResponseBody { ready, source: None, trailers: None, worker_body: None, guard: None, stall: None }
    }

    pub fn empty() -> ResponseBody {
        ResponseBody::new(Bytes::new())
    }

    /// Creates a body that is produced step by step.
    pub fn steps(source: impl BodySource) -> ResponseBody {
        ResponseBody { source: Some(Box::new(BodyState::Waiting(source))), ..ResponseBody::empty() }
    }

    /// Creates a body that a worker has made.
    pub fn from_worker(body: WorkerBody) -> ResponseBody {
        ResponseBody { worker_body: Some(body), ..ResponseBody::empty() }
    }

    /// Returns true if a worker has made the body.
    pub fn is_from_worker(&self) -> bool {
        self.worker_body.is_some()
    }

    /// Adds trailers, which have the final status.
    pub fn with_trailers(mut self, trailers: Trailers) -> ResponseBody {
        assert!(self.worker_body.is_none(), "the body of a worker has trailers of its own");
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
        if let Some(worker_body) = &mut this.worker_body {
            let frame = ready!(Pin::new(worker_body).poll_frame(context));
            if !matches!(frame, Some(Ok(_))) {
                this.guard = None;
            }
            let track = |frame: Frame<Bytes>| frame.map_data(|bytes| TrackedBytes::new(bytes, this.stall.as_ref()));
            return Poll::Ready(frame.map(|frame| frame.map(track)));
        }

        loop {
            if let Some(bytes) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(TrackedBytes::new(bytes, this.stall.as_ref())))));
            }
            let Some(source) = &mut this.source else {
                this.guard = None;
                let trailers = this.trailers.take().map(|trailers| trailers(Ok(())));
                return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
            };
            match ready!(source.poll(context)) {
                Ok(BodyPart { bytes, is_last }) => {
                    this.ready.extend(bytes.into_iter().filter(|bytes| !bytes.is_empty()));
                    if is_last {
                        this.source = None;
                    }
                }
                Err(e) => {
                    this.source = None;
                    this.guard = None;
                    let last_frame = match this.trailers.take() {
                        Some(trailers) => Ok(Frame::trailers(trailers(Err(&e)))),
                        None => Err(e),
                    };
                    return Poll::Ready(Some(last_frame));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.worker_body.as_ref().is_none_or(Body::is_end_stream)
            && self.ready.is_empty()
            && self.source.is_none()
            && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.worker_body.is_some() || self.source.is_some() {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.ready.iter().map(|bytes| bytes.len() as u64).sum())
    }
}
