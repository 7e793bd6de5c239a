//! `DoExchange`: sends the rows of a table as they are committed, and appends and answers record batches, in one call.
//!
//! The two directions are independent: a client waiting for rows may send some, and one that sends need not wait for
//! rows.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use hyper::{Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;

use super::messages::{FlightData, all_framed};
use super::put::{PutStream, audit, header_of, opening};
use super::request_stream::RequestStream;
use super::status::answered;
use super::target::target_of;
use crate::follow::{self, Follower};
use crate::frames::Framing;
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::response_body::{BodySource, BodyStep, ResponseBody};
use crate::session::Session;
use crate::table::Table;

/// The parameters of a command: for rows sent to the client, and for rows that it sends.
const FOLLOWING: &[&str] = &["from", "columns", "column", "durable"];
const PARAMETERS: &[&str] = &["follow", "from", "columns", "column", "durable", "ack", "producer", "epoch", "sequence"];

/// A bidirectional call.
struct Exchange {
    session: Session,
    table: Arc<Table>,
    follower: Option<Follower>,
    /// The answers to batches, or the error that ends them.
    answers: mpsc::Receiver<Result<Bytes>>,
    _receiving: AbortOnDrop,
    /// The row after the last one to send, once the client has finished sending.
    end: Option<u64>,
}

/// Appends batches until the call ends.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the first message, which names the table.
pub(super) async fn begin(session: Session, mut calls: RequestStream) -> Result<Response<ResponseBody>> {
    let first = opening(&session, &mut calls).await?;
    let (name, query) = target_of(&first.descriptor, PARAMETERS)?;
    let is_followed = query.get("follow")?.is_none() || query.flag("follow")?;
    if is_followed {
        session.check_read(&name)?;
    } else {
        session.check_write(&name)?;
    }
    if let Some(other) = FOLLOWING.iter().find(|name| !is_followed && query.all(name).next().is_some()) {
        return Err(Problem::bad_request(format!("{other} goes with follow")));
    }
    let table = session.table(&name).await?;
    let mut follower = None;
    if is_followed {
        let (table, query) = (table.clone(), query.clone());
        let follow = move |session: &Session| Follower::open(table, &query, session.clone(), Framing::Flight);
        follower = Some(session.run_blocking(follow).await?);
        session.peer.is_follower.store(true, std::sync::atomic::Ordering::Release);
        calls = calls.unhurried();
    }
    let (sender, answers) = mpsc::channel(1);
    let appending = BatchAppender { session: session.clone(), name, query, sender };
    let receiving = AbortOnDrop(tokio::spawn(appending.run(calls, (first.header, first.share))).abort_handle());
    let exchange = Exchange { session: session.clone(), table, follower, answers, _receiving: receiving, end: None };
    Ok(answered(if is_followed { follow::body(exchange, &session) } else { ResponseBody::steps(exchange) }))
}

/// The destination of the client's batches.
struct BatchAppender {
    session: Session,
    name: String,
    query: Query,
    sender: mpsc::Sender<Result<Bytes>>,
}

impl BatchAppender {
    async fn run(self, calls: RequestStream, first: (Bytes, OwnedSemaphorePermit)) {
        if let Err(refusal) = self.append_all(calls, first).await {
            audit(&self.session, "DoExchange", Some(&refusal));
            // After the end of the call there is no one to answer.
            let _ = self.sender.send(Err(refusal)).await;
        }
    }

    /// Appends batches. The schema comes first, in the first message or in a later one.
    async fn append_all(
        &self,
        mut calls: RequestStream,
        (mut header, mut share): (Bytes, OwnedSemaphorePermit),
    ) -> Result<()> {
        while header.is_empty() {
            let Some((next, more)) = header_of(&self.session, &mut calls).await? else { return Ok(()) };
            if !next.is_empty() {
                share.merge(more);
            }
            header = next;
        }
        let mut put = PutStream::open(self.session.clone(), calls, (&self.name, &self.query), (header, share)).await?;
        audit(&self.session, "DoExchange", None);
        while let Some(answers) = put.next().await? {
            let data =
                answers.into_iter().map(|text| FlightData { app_metadata: text.into(), ..FlightData::default() });
            if self.sender.send(Ok(all_framed(&data.collect::<Vec<_>>()))).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

fn failed<S>(refusal: Problem) -> BodyStep<S> {
    BodyStep::Failed(io::Error::other(refusal))
}

impl Exchange {
    /// Sends the answer to a batch. Without one the client has finished sending, and the call ends after the rows
    /// committed now.
    async fn answer(mut self, answer: Option<Result<Bytes>>) -> BodyStep<Exchange> {
        match answer {
            Some(Ok(answer)) => return BodyStep::Data(self, vec![answer]),
            Some(Err(refusal)) => return failed(refusal),
            None if self.follower.is_none() => return BodyStep::End(Vec::new()),
            None => (),
        }
        let table = self.table.clone();
        match self.session.run_blocking(move |_| table.progress().map_err(|e| Problem::from_table_error(&e))).await {
            Ok(progress) => {
                self.end = Some(progress.end);
                BodyStep::Data(self, Vec::new())
            }
            Err(refusal) => failed(refusal),
        }
    }

    /// Continues after the follower has sent rows.
    fn sent(mut self, step: BodyStep<Follower>) -> BodyStep<Exchange> {
        match step {
            BodyStep::Data(follower, bytes) => {
                self.follower = Some(follower);
                BodyStep::Data(self, bytes)
            }
            BodyStep::Failed(e) => BodyStep::Failed(e),
            // Batches that the client has sent meanwhile may be unanswered: that is not a complete call.
            BodyStep::End(_) => failed(self.why_ended()),
        }
    }

    fn why_ended(&self) -> Problem {
        if self.session.is_stopping() {
            Problem::unavailable("the server is stopping")
        } else if self.session.is_valid() {
            Problem::conflict("schema_mismatch", "the table has another schema now; call again")
        } else {
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "the token was revoked")
        }
    }
}

impl BodySource for Exchange {
    async fn step(mut self) -> BodyStep<Exchange> {
        if self.session.is_stopping() || !self.session.is_valid() {
            return failed(self.why_ended());
        }
        let Some(mut follower) = self.follower.take() else {
            let answer = self.answers.recv().await;
            return self.answer(answer).await;
        };
        if let Some(head) = follower.begin() {
            self.follower = Some(follower);
            return head.map_or_else(BodyStep::Failed, |head| BodyStep::Data(self, vec![head]));
        }
        if self.end.is_some_and(|end| follower.next_row() >= end) {
            return BodyStep::End(Vec::new());
        }
        tokio::select! {
            answer = self.answers.recv(), if self.end.is_none() => {
                self.follower = Some(follower);
                self.answer(answer).await
            }
            waited = follower.wait() => {
                let step = follower.send(waited).await;
                self.sent(step)
            }
        }
    }
}
