//! Answers `DoExchange`: sends the rows of a table as they are committed, and appends record batches, in one call.
//!
//! The two directions are independent: a client can send rows while it waits for others, and need not wait for any. It
//! sees its own rows in the order of all rows. When it ends its side, the call ends after the rows committed by then.

use std::io;
use std::sync::Arc;

use arrowwood_flight::{FlightData, frame_messages};
use bytes::Bytes;
use hyper::{Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;

use super::framing::FLIGHT_FRAMING;
use super::put::{PutStream, audit, receive_first, receive_header};
use super::request_stream::RequestStream;
use super::status::body_response;
use super::target::parse_descriptor;
use crate::catalog::Table;
use crate::http::{BodyPart, Problem, Query, ResponseBody, Result, ResultExt};
use crate::ingest::IngestSession;
use crate::read::{Follower, follow};
use crate::session::Session;

/// The parameters for rows sent to the client.
const FOLLOW_PARAMETERS: &[&str] = &["from", "columns", "column", "durable"];
/// All parameters of a command.
const PARAMETERS: &[&str] = &["follow", "from", "columns", "column", "durable", "ack", "producer", "epoch", "sequence"];

/// A bidirectional call.
struct Exchange {
    session: Session,
    table: Arc<Table>,
    follower: Option<Follower>,
    /// Receives the answers to batches, or the error that ends them.
    answers: mpsc::Receiver<Result<Bytes>>,
    _append_task: AbortOnDrop,
    /// The row after the last one to send, once the client has finished sending.
    end: Option<u64>,
}

/// Aborts a task when it is dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Begins the call with its first message, which names the table.
pub(super) async fn begin(ingest: IngestSession, mut requests: RequestStream) -> Result<Response<ResponseBody>> {
    let session = &ingest.session;
    let first = receive_first(session, &mut requests).await?;
    let (name, query) = parse_descriptor(&first.descriptor, PARAMETERS)?;
    let is_followed = query.get("follow")?.is_none() || query.flag("follow")?;
    if is_followed {
        session.check_read(&name)?;
    } else {
        session.check_write(&name)?;
    }
    for parameter in FOLLOW_PARAMETERS {
        if !is_followed && query.has(parameter) {
            return Err(Problem::bad_request(format!("{parameter} goes with follow")));
        }
    }
    let table = session.table(&name).await?;
    let mut follower = None;
    if is_followed {
        let table = table.clone();
        let query = query.clone();
        let opened =
            session.run_blocking(move |session| Follower::open(table, &query, session.clone(), FLIGHT_FRAMING)).await?;
        follower = Some(opened);
        session.peer.mark_as_follower();
        requests = requests.without_idle_timeout();
    }
    let (sender, answers) = mpsc::channel(1);
    let appender = BatchAppender { ingest: ingest.clone(), name, query, sender };
    let append_task = AbortOnDrop(tokio::spawn(appender.run(requests, (first.header, first.share))).abort_handle());
    let exchange =
        Exchange { session: session.clone(), table, follower, answers, _append_task: append_task, end: None };
    let body = ResponseBody::steps(exchange, Exchange::step);
    Ok(body_response(if is_followed { follow::counted(body, session) } else { body }))
}

/// Appends the client's batches until the call ends.
struct BatchAppender {
    ingest: IngestSession,
    name: String,
    query: Query,
    sender: mpsc::Sender<Result<Bytes>>,
}

impl BatchAppender {
    async fn run(self, requests: RequestStream, first: (Bytes, OwnedSemaphorePermit)) {
        if let Err(refusal) = self.append_all(requests, first).await {
            audit(&self.ingest.session, "DoExchange", Some(&refusal));
            // The receiver is gone after the end of the call, which needs no error then.
            let _ = self.sender.send(Err(refusal)).await;
        }
    }

    /// Appends batches. The schema comes first, in the first message or in a later one.
    async fn append_all(
        &self,
        mut requests: RequestStream,
        (mut header, mut share): (Bytes, OwnedSemaphorePermit),
    ) -> Result<()> {
        while header.is_empty() {
            let Some((next_header, next_share)) = receive_header(&self.ingest.session, &mut requests).await? else {
                return Ok(());
            };
            if !next_header.is_empty() {
                share.merge(next_share);
            }
            header = next_header;
        }
        let mut put =
            PutStream::open(self.ingest.clone(), requests, (&self.name, &self.query), (header, share)).await?;
        audit(&self.ingest.session, "DoExchange", None);
        while let Some(answers) = put.next().await? {
            let mut messages = Vec::with_capacity(answers.len());
            for answer in answers {
                messages.push(FlightData { app_metadata: answer.into(), ..FlightData::default() });
            }
            if self.sender.send(Ok(frame_messages(&messages))).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl Exchange {
    /// Sends the answer to a batch. `None` means that the client has finished sending: the call ends after the rows
    /// that are committed at this time.
    async fn answer(mut self, answer: Option<Result<Bytes>>) -> io::Result<BodyPart<Exchange>> {
        match answer {
            Some(Ok(answer)) => return Ok((vec![answer], Some(self))),
            Some(Err(refusal)) => return Err(io::Error::other(refusal)),
            None if self.follower.is_none() => return Ok((Vec::new(), None)),
            None => (),
        }
        let table = self.table.clone();
        let progress = self.session.run_blocking(move |_| table.progress().or_table_problem()).await;
        self.end = Some(progress.map_err(io::Error::other)?.end);
        Ok((Vec::new(), Some(self)))
    }

    /// Returns the reason why the follower ended.
    fn end_reason(&self) -> io::Error {
        io::Error::other(if self.session.is_stopping() {
            Problem::unavailable("the server is stopping")
        } else if self.session.is_valid() {
            Problem::conflict("schema_mismatch", "the table has another schema now; call again")
        } else {
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "the token was revoked")
        })
    }

    async fn step(mut self) -> io::Result<BodyPart<Exchange>> {
        if self.session.is_stopping() || !self.session.is_valid() {
            return Err(self.end_reason());
        }
        let Some(mut follower) = self.follower.take() else {
            let answer = self.answers.recv().await;
            return self.answer(answer).await;
        };
        if let Some(head) = follower.begin() {
            self.follower = Some(follower);
            return Ok((vec![head?], Some(self)));
        }
        if self.end.is_some_and(|end| follower.next_row() >= end) {
            return Ok((Vec::new(), None));
        }
        tokio::select! {
            answer = self.answers.recv(), if self.end.is_none() => {
                self.follower = Some(follower);
                self.answer(answer).await
            }
            waited = follower.wait() => {
                let (bytes, follower) = follower.send(waited).await?;
                if follower.is_none() {
                    // The call is not complete: batches that the client has sent in the meantime may be unanswered.
                    return Err(self.end_reason());
                }
                self.follower = follower;
                Ok((bytes, Some(self)))
            }
        }
    }
}
