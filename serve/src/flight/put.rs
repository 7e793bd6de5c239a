//! `DoPut`: receives record batches, appends each as a whole, and answers each once it is committed.

use std::collections::VecDeque;
use std::{io, slice};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use super::messages::{FlightData, FlightDescriptor, PutResult, SERVICE, all_framed};
use super::request_stream::{QUESTION, ReceivedMessage, RequestStream, decoded};
use super::target::target_of;
use crate::audit::AuditLine;
use crate::ingest::{Destination, PendingBatches, lost};
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::queue::AppendResults;
use crate::request_body::{ReceivedBody, SMALL};
use crate::response_body::{BodySource, BodyStep};
use crate::session::Session;

/// The maximum size in bytes of the protobuf fields around a body.
const AROUND: usize = 1 << 20;
/// The end of a stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// The parameters of a command for sent rows.
const PARAMETERS: &[&str] = &["ack", "producer", "epoch", "sequence"];

/// The memory in bytes of a call's unanswered batches above which no further ones are received.
const AHEAD: usize = 1 << 20;

/// A stream of record batches to be appended to a table.
///
/// Messages that have arrived together are passed to the table's writer together, while earlier ones are being
/// committed.
pub(crate) struct PutStream {
    session: Session,
    calls: RequestStream,
    destination: Destination,
    /// The schema and the dictionaries received so far, as messages of a stream.
    front: Vec<u8>,
    /// The memory of the schema and the dictionaries.
    kept: OwnedSemaphorePermit,
    /// A received message to be passed on next.
    held: Option<ReceivedMessage>,
    /// Batches passed on, in order.
    waiting: VecDeque<PendingBatches>,
    /// How the call ends, once no more batches are received.
    ended: Option<Result<()>>,
}

/// Starts a stream from the first message.
pub(crate) async fn begin(session: Session, calls: RequestStream, first: FirstMessage) -> Result<PutStream> {
    let (name, query) = target_of(&first.descriptor, PARAMETERS)?;
    PutStream::open(session, calls, (&name, &query), (first.header, first.share)).await
}

/// The first message of a call that sends rows.
pub(super) struct FirstMessage {
    pub descriptor: FlightDescriptor,
    /// The schema; empty if a later message has it.
    pub header: Bytes,
    /// Its share of the memory, for as long as a part of it is kept.
    pub share: OwnedSemaphorePermit,
}

/// Parses the destination in the first message, and its schema if it has one.
pub(super) fn target_of_first(message: Bytes) -> Result<((String, Query), Bytes)> {
    let (descriptor, header) = descriptor_of(message)?;
    Ok((target_of(&descriptor, PARAMETERS)?, header))
}

fn descriptor_of(message: Bytes) -> Result<(FlightDescriptor, Bytes)> {
    let first: FlightData = decoded(message)?;
    let missing = || Problem::bad_request("the first message has a descriptor");
    Ok((first.descriptor.ok_or_else(missing)?, first.header))
}

/// The maximum size of a message. Whoever writes nothing takes no memory for rows: it asks a question at most.
fn most_of(session: &Session) -> usize {
    session.check_writer().map_or(QUESTION, |()| session.shared.limits.body + AROUND)
}

async fn first(session: &Session, calls: &mut RequestStream) -> Result<ReceivedMessage> {
    let nothing = || Problem::bad_request("the call has no message");
    calls.next(most_of(session)).await?.ok_or_else(nothing)
}

/// Receives the first message of a call that sends rows.
pub(super) async fn opening(session: &Session, calls: &mut RequestStream) -> Result<FirstMessage> {
    let ReceivedMessage { message, share } = first(session, calls).await?;
    let (descriptor, header) = descriptor_of(message)?;
    Ok(FirstMessage { descriptor, header, share })
}

/// The metadata of the next message, possibly empty, and its share of the memory; `None` at the end.
pub(super) async fn header_of(
    session: &Session,
    calls: &mut RequestStream,
) -> Result<Option<(Bytes, OwnedSemaphorePermit)>> {
    let Some(ReceivedMessage { message, share }) = calls.next(most_of(session)).await? else { return Ok(None) };
    decoded::<FlightData>(message).map(|data| Some((data.header, share)))
}

/// The kinds of messages in a stream of record batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IpcMessageKind {
    Schema,
    Dictionary,
    Batch,
}

/// The kind of a `Message` of Message.fbs; `None` if it is damaged, or of another kind.
fn kind_of(metadata: &[u8]) -> Option<IpcMessageKind> {
    let word = |at: usize| metadata.get(at..)?.first_chunk().map(|raw| i32::from_le_bytes(*raw));
    let half = |at: usize| metadata.get(at..)?.first_chunk().map(|raw| usize::from(u16::from_le_bytes(*raw)));
    let root = usize::try_from(word(0)?).ok()?;
    let fields = root.checked_sub_signed(isize::try_from(word(root)?).ok()?)?;
    // The second field, after two lengths.
    let place = half(fields + 6).filter(|&place| place > 0 && half(fields).is_some_and(|len| len > 6))?;
    match metadata.get(root + place)? {
        1 => Some(IpcMessageKind::Schema),
        2 => Some(IpcMessageKind::Dictionary),
        3 => Some(IpcMessageKind::Batch),
        _ => None,
    }
}

/// Appends a message in the framing of a stream.
pub(super) fn push(stream: &mut Vec<u8>, metadata: &[u8], body: &[u8]) {
    let padded = metadata.len().next_multiple_of(8);
    stream.extend_from_slice(&u32::MAX.to_le_bytes());
    // The limit of bodies also limits messages.
    stream.extend_from_slice(&u32::try_from(padded).unwrap_or(u32::MAX).to_le_bytes());
    stream.extend_from_slice(metadata);
    stream.resize(stream.len() + (padded - metadata.len()), 0);
    stream.extend_from_slice(body);
}

impl PutStream {
    /// Receives batches with the schema in `header`, to be appended to the named table with the parameters in the
    /// query.
    pub async fn open(
        session: Session,
        calls: RequestStream,
        (name, query): (&str, &Query),
        (header, kept): (Bytes, OwnedSemaphorePermit),
    ) -> Result<PutStream> {
        if kind_of(&header) != Some(IpcMessageKind::Schema) {
            return Err(Problem::bad_request("a schema is expected before the first record batch"));
        }
        let destination = Destination::open(&session, name, query).await?;
        let mut front = Vec::new();
        push(&mut front, &header, &[]);
        Ok(PutStream { session, calls, destination, front, kept, held: None, waiting: VecDeque::new(), ended: None })
    }

    /// Receives batches until some are answered; returns their answers, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<String>>> {
        loop {
            let ahead: usize = self.waiting.iter().map(|passed| passed.bytes).sum();
            let may_receive = self.ended.is_none() && self.held.is_none() && ahead < AHEAD;
            let most = most_of(&self.session);
            let Some(first) = self.waiting.front_mut() else {
                if let Some(ended) = self.ended.take() {
                    return ended.map(|()| None);
                }
                let called = match self.held.take() {
                    Some(held) => Ok(Some(held)),
                    None => self.calls.next(most).await,
                };
                self.receive(called).await;
                continue;
            };
            tokio::select! {
                biased;
                answers = &mut first.answers => {
                    let answers = answers.unwrap_or_else(|_| lost().into());
                    if let Some(answers) = self.answered(answers) {
                        return Ok(Some(answers));
                    }
                }
                called = self.calls.next(most), if may_receive => match called {
                    // Once the batches before it are committed, there may be memory for it.
                    Err(refusal) if refusal.code() == "unavailable" && !self.session.is_stopping() => {
                        let answers = (&mut first.answers).await.unwrap_or_else(|_| lost().into());
                        if let Some(answers) = self.answered(answers) {
                            return Ok(Some(answers));
                        }
                    }
                    called => self.receive(called).await,
                },
            }
        }
    }

    /// Takes the answers to the first batches passed on; returns them as text, if there are any.
    fn answered(&mut self, AppendResults { receipts, refusal }: AppendResults) -> Option<Vec<String>> {
        let passed = self.waiting.pop_front()?;
        if let Some(refusal) = refusal {
            // Later batches are refused for that reason.
            self.waiting.clear();
            self.ended = Some(Err(refusal));
        }
        let number = |number: usize| passed.sequence.map(|first| first.saturating_add(number as u64));
        let answers = receipts.iter().enumerate().map(|(at, receipt)| receipt.answer(number(at)));
        (!receipts.is_empty()).then(|| answers.collect())
    }

    /// Passes on a received message, together with others that have arrived. Notes the end of the call.
    async fn receive(&mut self, called: Result<Option<ReceivedMessage>>) {
        match called {
            Ok(None) => self.ended = Some(Ok(())),
            Err(refusal) => self.ended = Some(Err(refusal)),
            Ok(Some(called)) => {
                let mut next = Some(called);
                while let Some(called) = next.take() {
                    match self.pass_with_others(called).await {
                        Ok(true) => next = self.held.take(),
                        Ok(false) => (),
                        Err(refusal) => self.ended = Some(Err(refusal)),
                    }
                }
            }
        }
    }

    /// Passes on a message, and further ones that have arrived, of the same kind. Returns `false` if the message is
    /// held until batches passed on before have released their memory.
    async fn pass_with_others(&mut self, called: ReceivedMessage) -> Result<bool> {
        self.session.check_valid()?;
        if self.session.is_stopping() {
            return Err(Problem::unavailable("the server is stopping"));
        }
        let data: FlightData = decoded(called.message.clone())?;
        match kind_of(&data.header) {
            Some(IpcMessageKind::Dictionary) => self.keep(&data, called.share)?,
            Some(IpcMessageKind::Batch) => {
                // Schema and dictionaries are repeated.
                let mut share = match self.session.shared.memory.share(self.front.len()) {
                    Ok(share) => share,
                    Err(_) if !self.waiting.is_empty() => {
                        self.held = Some(called);
                        return Ok(false);
                    }
                    Err(refusal) => return Err(refusal),
                };
                share.merge(called.share);
                let mut size = size_of(&data);
                let mut batches = vec![data];
                while size < SMALL
                    && let Some(called) = self.arrived()
                {
                    let data = decoded::<FlightData>(called.message.clone()).ok();
                    let data = data.filter(|data| kind_of(&data.header) == Some(IpcMessageKind::Batch));
                    let Some(data) = data.filter(|data| size + size_of(data) <= SMALL) else {
                        self.held = Some(called);
                        break;
                    };
                    size += size_of(&data);
                    share.merge(called.share);
                    batches.push(data);
                }
                self.submit(&batches, share).await?;
            }
            // Metadata without a batch is ignored.
            None if data.header.is_empty() => (),
            _ => return Err(Problem::bad_request("a record batch or a dictionary is expected")),
        }
        Ok(true)
    }

    /// The next message, if it has arrived, and is valid; an error is found again by the next call.
    fn arrived(&mut self) -> Option<ReceivedMessage> {
        self.calls.arrived(most_of(&self.session)).ok().flatten()
    }

    /// Keeps a dictionary, and its share of the memory, for the batches after it.
    fn keep(&mut self, data: &FlightData, share: OwnedSemaphorePermit) -> Result<()> {
        self.kept.merge(share);
        let most = self.session.shared.limits.body;
        push(&mut self.front, &data.header, &data.body);
        if self.front.len() > most {
            let detail = format!("the dictionaries of a call have at most {most} bytes; make several");
            return Err(Problem::too_large(detail));
        }
        Ok(())
    }

    /// Passes batches to the table's writer. Those before an invalid one are passed on alone.
    async fn submit(&mut self, batches: &[FlightData], share: OwnedSemaphorePermit) -> Result<()> {
        let passed = self.pass_together(batches, share).await;
        if passed.is_ok() || batches.len() == 1 {
            return passed;
        }
        for batch in batches {
            let share = self.session.shared.memory.share(self.front.len() + size_of(batch))?;
            self.pass_together(slice::from_ref(batch), share).await?;
        }
        Ok(())
    }

    async fn pass_together(&mut self, batches: &[FlightData], share: OwnedSemaphorePermit) -> Result<()> {
        let mut bytes = self.front.clone();
        batches.iter().for_each(|data| push(&mut bytes, &data.header, &data.body));
        bytes.extend_from_slice(&END);
        let passed = self.destination.submit(&self.session, ReceivedBody { bytes, share }, batches.len()).await?;
        self.waiting.push_back(passed);
        Ok(())
    }
}

fn size_of(data: &FlightData) -> usize {
    data.header.len() + data.body.len()
}

/// Logs that a call appends rows, or why batches are refused after its answer has begun.
pub(super) fn audit(session: &Session, call: &str, refusal: Option<&Problem>) {
    session.shared.audit.write(&AuditLine {
        peer: session.peer.address,
        token: session.caller.name(),
        method: &Method::POST,
        path: &format!("/{SERVICE}/{call}"),
        status: refusal.map_or(StatusCode::OK, Problem::status).as_u16(),
        rows: None,
        code: refusal.map(Problem::code),
        log: refusal.and_then(Problem::log).as_deref(),
    });
}

impl BodySource for PutStream {
    async fn step(mut self) -> BodyStep<PutStream> {
        match self.next().await {
            Ok(Some(answers)) => {
                let results = answers.into_iter().map(|answer| PutResult { app_metadata: answer.into() });
                BodyStep::Data(self, vec![all_framed(&results.collect::<Vec<_>>())])
            }
            Ok(None) => BodyStep::End(Vec::new()),
            Err(refusal) => {
                audit(&self.session, "DoPut", Some(&refusal));
                BodyStep::Failed(io::Error::other(refusal))
            }
        }
    }
}
