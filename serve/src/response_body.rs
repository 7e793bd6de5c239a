//! [`ResponseBody`]: the body of an answer, made step by step as the client reads it.
//!
//! A step that reads rows runs on a thread for blocking work. Between two steps only the state of the body is kept, so
//! a client that does not read costs that and the kernel's buffers.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderMap;

use crate::send_stall::{SendStall, TrackedBytes};
use crate::worker::WorkerBody;

/// The result of a step.
pub(crate) enum BodyStep<S> {
    /// Bytes to send, possibly none, and the next state.
    Data(S, Vec<Bytes>),
    /// The last bytes; the body is complete.
    End(Vec<Bytes>),
    /// The body breaks off.
    Failed(io::Error),
}

/// Makes a body step by step.
pub(crate) trait BodySource: Send + Sized + Unpin + 'static {
    fn step(self) -> impl Future<Output = BodyStep<Self>> + Send;
}

/// A body made step by step by any source: bytes, and whether they are the last.
trait DynBodySource: Send {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<(Vec<Bytes>, bool)>>;
}

/// The state between two steps, or the step in progress.
enum BodyState<S> {
    Between(S),
    Going(Pin<Box<dyn Future<Output = BodyStep<S>> + Send>>),
    Ended,
}

impl<S: BodySource> DynBodySource for BodyState<S> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<(Vec<Bytes>, bool)>> {
        *self = match std::mem::replace(self, BodyState::Ended) {
            BodyState::Between(state) => BodyState::Going(Box::pin(state.step())),
            other => other,
        };
        let BodyState::Going(step) = self else { return Poll::Ready(Ok((Vec::new(), true))) };
        let step = ready!(step.as_mut().poll(context));
        *self = BodyState::Ended;
        Poll::Ready(match step {
            BodyStep::Data(state, bytes) => {
                *self = BodyState::Between(state);
                Ok((bytes, false))
            }
            BodyStep::End(bytes) => Ok((bytes, true)),
            BodyStep::Failed(e) => Err(e),
        })
    }
}

/// Makes the trailers of a body that ended, or broke off.
pub(crate) type Trailers = fn(Result<(), &io::Error>) -> HeaderMap;

/// The body of an answer.
pub(crate) struct ResponseBody {
    /// The bytes to send.
    ready: VecDeque<Bytes>,
    rest: Option<Box<dyn DynBodySource>>,
    /// What follows the body, which does not break off then.
    trailers: Option<Trailers>,
    /// The body of another source, with its own trailers.
    passed: Option<WorkerBody>,
    /// Dropped when the body has been sent, or was abandoned.
    held: Option<Box<dyn Send>>,
    /// Counts the data handed over.
    untaken: Option<Arc<SendStall>>,
}

impl ResponseBody {
    pub fn new(whole: impl Into<Bytes>) -> ResponseBody {
        let whole = whole.into();
        ResponseBody::several(vec![whole])
    }

    /// Several parts, concatenated.
    pub fn several(parts: Vec<Bytes>) -> ResponseBody {
        let ready = parts.into_iter().filter(|part| !part.is_empty()).collect();
        ResponseBody { ready, rest: None, trailers: None, passed: None, held: None, untaken: None }
    }

    pub fn empty() -> ResponseBody {
        ResponseBody::new(Bytes::new())
    }

    pub fn steps(state: impl BodySource) -> ResponseBody {
        let rest = Some(Box::new(BodyState::Between(state)) as Box<dyn DynBodySource>);
        ResponseBody { rest, ..ResponseBody::empty() }
    }

    /// The body of another source.
    pub fn passed(body: WorkerBody) -> ResponseBody {
        ResponseBody { passed: Some(body), ..ResponseBody::empty() }
    }

    /// Whether it is the body of another source.
    pub fn is_passed(&self) -> bool {
        self.passed.is_some()
    }

    /// The same with trailers, which have the final status.
    pub fn with_trailers(mut self, trailers: Trailers) -> ResponseBody {
        self.trailers = Some(trailers);
        self
    }

    /// The same, which also keeps `held` until it is done.
    pub fn holding(mut self, held: impl Send + 'static) -> ResponseBody {
        let before = self.held.take();
        self.held = Some(Box::new((before, held)));
        self
    }

    /// The same, with its data counted.
    pub fn counted(mut self, untaken: Arc<SendStall>) -> ResponseBody {
        self.untaken = Some(untaken);
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
        if let Some(passed) = &mut this.passed {
            let frame = ready!(Pin::new(passed).poll_frame(context));
            if !matches!(frame, Some(Ok(_))) {
                this.held = None;
            }
            let counted = |frame: Frame<Bytes>| frame.map_data(|bytes| TrackedBytes::new(bytes, this.untaken.as_ref()));
            return Poll::Ready(frame.map(|frame| frame.map(counted)));
        }
        loop {
            if let Some(bytes) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(TrackedBytes::new(bytes, this.untaken.as_ref())))));
            }
            let Some(rest) = &mut this.rest else {
                this.held = None;
                let trailers = this.trailers.take().map(|trailers| trailers(Ok(())));
                return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
            };
            match ready!(rest.poll(context)) {
                Ok((bytes, is_last)) => {
                    this.ready.extend(bytes.into_iter().filter(|bytes| !bytes.is_empty()));
                    if is_last {
                        this.rest = None;
                    }
                }
                Err(e) => {
                    (this.rest, this.held) = (None, None);
                    let ended = match this.trailers.take() {
                        Some(trailers) => Ok(Frame::trailers(trailers(Err(&e)))),
                        None => Err(e),
                    };
                    return Poll::Ready(Some(ended));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.passed.as_ref().is_none_or(Body::is_end_stream)
            && self.ready.is_empty()
            && self.rest.is_none()
            && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest {
            _ if self.passed.is_some() => SizeHint::default(),
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.ready.iter().map(|bytes| bytes.len() as u64).sum()),
        }
    }
}

/// Runs blocking work on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| io::Error::other("the work was given up"))
}
