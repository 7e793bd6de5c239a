//! Answers `DoPut`: receives record batches, appends each to a table, and acknowledges each once it is committed.
//!
//! The table's writer decodes Arrow streams. So batches are submitted as a stream of their own: the schema and the
//! dictionaries received so far, which are the *preamble*, and the batches. Batches that have arrived together are
//! submitted together, to be one commit. A call has up to [`MAX_PENDING_BYTES`] of submitted batches without an answer;
//! then no further ones are received, so that the client waits.

use std::collections::VecDeque;
use std::{io, slice};

use arrowwood::MessageKind;
use arrowwood_flight::{
    FlightData, FlightDescriptor, PutResult, SERVICE, decode_message, frame_messages, message_kind, push_message,
};
use bytes::Bytes;
use hyper::{Method, StatusCode};
use tokio::sync::OwnedSemaphorePermit;

use super::request_stream::{MAX_REQUEST_LEN, ReceivedMessage, RequestStream};
use super::target::parse_descriptor;
use crate::http::{BodyPart, Problem, Query, Result};
use crate::ingest::{AppendResults, Destination, IngestSession, PendingBatches, ReceivedBody, SMALL, lost};
use crate::ops::AuditLine;
use crate::read::Framing;
use crate::session::Session;

/// The maximum size in bytes of the protobuf fields around a body.
const MAX_FIELDS_LEN: usize = 1 << 20;
/// The parameters of a command for sent rows.
const PARAMETERS: &[&str] = &["ack", "producer", "epoch", "sequence"];

/// The memory in bytes of a call's unanswered batches at which no further ones are received.
const MAX_PENDING_BYTES: usize = 1 << 20;

/// A stream of record batches to be appended to a table.
///
/// While earlier batches are being committed, messages that have arrived together are submitted to the table's writer
/// together.
pub(crate) struct PutStream {
    ingest: IngestSession,
    requests: RequestStream,
    destination: Destination,
    /// The schema and the dictionaries received so far, as messages of an IPC stream, which precede all batches.
    preamble: Vec<u8>,
    /// The share of memory of the schema and the dictionaries.
    preamble_share: OwnedSemaphorePermit,
    /// A received message to be submitted next.
    deferred: Option<ReceivedMessage>,
    /// Submitted batches, in order.
    pending: VecDeque<PendingBatches>,
    /// The result of the call, once no more batches are received.
    ended: Option<Result<()>>,
}

/// Starts a stream from the first message.
pub(crate) async fn begin(ingest: IngestSession, requests: RequestStream, first: FirstMessage) -> Result<PutStream> {
    let (name, query) = parse_descriptor(&first.descriptor, PARAMETERS)?;
    PutStream::open(ingest, requests, (&name, &query), (first.header, first.share)).await
}

/// The first message of a call that sends rows.
pub(super) struct FirstMessage {
    pub descriptor: FlightDescriptor,
    /// The schema; empty if a later message has it.
    pub header: Bytes,
    /// The message's share of memory, for as long as a part of it is kept.
    pub share: OwnedSemaphorePermit,
}

/// Parses the first message into the destination of its rows and its header, which is empty without a schema.
#[cfg(feature = "internal")]
pub(super) fn parse_first_target(message: Bytes) -> Result<((String, Query), Bytes)> {
    let (descriptor, header) = parse_first(message)?;
    Ok((parse_descriptor(&descriptor, PARAMETERS)?, header))
}

/// Parses the first message into its descriptor and its header.
fn parse_first(message: Bytes) -> Result<(FlightDescriptor, Bytes)> {
    let first: FlightData = decode_message(message)?;
    let descriptor =
        first.flight_descriptor.ok_or_else(|| Problem::bad_request("the first message has a descriptor"))?;
    Ok((descriptor, first.data_header))
}

/// Returns the maximum size of a message. A caller without the right to write gets no memory for rows.
fn max_message_len(session: &Session) -> usize {
    match session.check_writer() {
        Ok(()) => session.shared.limits.body + MAX_FIELDS_LEN,
        Err(_) => MAX_REQUEST_LEN,
    }
}

/// Receives the first message of a call that sends rows.
pub(super) async fn receive_first(session: &Session, requests: &mut RequestStream) -> Result<FirstMessage> {
    let Some(ReceivedMessage { message, share }) = requests.next(max_message_len(session)).await? else {
        return Err(Problem::bad_request("the call has no message"));
    };
    let (descriptor, header) = parse_first(message)?;
    Ok(FirstMessage { descriptor, header, share })
}

/// Receives the next message. Returns its header, which may be empty, and its share of memory; `None` at the end.
pub(super) async fn receive_header(
    session: &Session,
    requests: &mut RequestStream,
) -> Result<Option<(Bytes, OwnedSemaphorePermit)>> {
    let Some(ReceivedMessage { message, share }) = requests.next(max_message_len(session)).await? else {
        return Ok(None);
    };
    let data: FlightData = decode_message(message)?;
    Ok(Some((data.data_header, share)))
}

impl PutStream {
    /// Receives batches with the schema in `header`, to be appended to the named table with the parameters in the
    /// query.
    pub async fn open(
        ingest: IngestSession,
        requests: RequestStream,
        (name, query): (&str, &Query),
        (header, preamble_share): (Bytes, OwnedSemaphorePermit),
    ) -> Result<PutStream> {
        if message_kind(&header) != Some(MessageKind::Schema) {
            return Err(Problem::bad_request("a schema is expected before the first record batch"));
        }
        let destination = Destination::open(&ingest, name, query).await?;
        let mut preamble = Vec::new();
        push_message(&mut preamble, &header, &[]);
        Ok(PutStream {
            ingest,
            requests,
            destination,
            preamble,
            preamble_share,
            deferred: None,
            pending: VecDeque::new(),
            ended: None,
        })
    }

    /// Receives batches until some are answered. Returns their answers, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<String>>> {
        loop {
            let pending_bytes: usize = self.pending.iter().map(|batches| batches.bytes).sum();
            let may_receive = self.ended.is_none() && self.deferred.is_none() && pending_bytes < MAX_PENDING_BYTES;
            let max_len = max_message_len(&self.ingest.session);
            let Some(first) = self.pending.front_mut() else {
                if let Some(ended) = self.ended.take() {
                    return ended.map(|()| None);
                }
                let received = match self.deferred.take() {
                    Some(deferred) => Ok(Some(deferred)),
                    None => self.requests.next(max_len).await,
                };
                self.on_received(received).await;
                continue;
            };
            tokio::select! {
                biased;
                answers = &mut first.answers => {
                    let results = answers.unwrap_or_else(|_| lost().into());
                    if let Some(answers) = self.take_results(results) {
                        return Ok(Some(answers));
                    }
                }
                received = self.requests.next(max_len), if may_receive => match received {
                    // There was no memory for the message. Once the batches before it are committed, there may be some.
                    Err(refusal) if refusal.code() == "unavailable" && !self.ingest.session.is_stopping() => {
                        let results = (&mut first.answers).await.unwrap_or_else(|_| lost().into());
                        if let Some(answers) = self.take_results(results) {
                            return Ok(Some(answers));
                        }
                    }
                    received => self.on_received(received).await,
                },
            }
        }
    }

    /// Takes the results of the first pending batches. Returns the answers to them, if any was appended.
    fn take_results(&mut self, AppendResults { receipts, refusal }: AppendResults) -> Option<Vec<String>> {
        let first = self.pending.pop_front();
        assert!(first.is_some(), "the writer has answered batches that are not pending");
        let first_sequence = first.and_then(|batches| batches.sequence);
        if let Some(refusal) = refusal {
            // Later batches are refused for the same reason.
            self.pending.clear();
            self.ended = Some(Err(refusal));
        }
        if receipts.is_empty() {
            return None;
        }
        let mut answers = Vec::with_capacity(receipts.len());
        for (offset, receipt) in (0_u64..).zip(&receipts) {
            answers.push(receipt.answer(first_sequence.map(|sequence| sequence + offset)));
        }
        Some(answers)
    }

    /// Submits a received message, together with others that have arrived, or records the end of the call.
    async fn on_received(&mut self, received: Result<Option<ReceivedMessage>>) {
        match received {
            Ok(None) => self.ended = Some(Ok(())),
            Err(refusal) => self.ended = Some(Err(refusal)),
            Ok(Some(message)) => {
                let mut next = Some(message);
                while let Some(message) = next.take() {
                    match self.submit_with_arrived(message).await {
                        Ok(true) => next = self.deferred.take(),
                        Ok(false) => (),
                        Err(refusal) => self.ended = Some(Err(refusal)),
                    }
                }
            }
        }
    }

    /// Submits a message, and further ones of its kind that have arrived. Returns false if the message is deferred
    /// until earlier batches have released their memory.
    async fn submit_with_arrived(&mut self, received: ReceivedMessage) -> Result<bool> {
        self.ingest.session.check_valid()?;
        if self.ingest.session.is_stopping() {
            return Err(Problem::unavailable("the server is stopping"));
        }
        let data: FlightData = decode_message(received.message.clone())?;
        match message_kind(&data.data_header) {
            Some(MessageKind::DictionaryBatch) => self.keep_dictionary(&data, received.share)?,
            Some(MessageKind::RecordBatch) => {
                // The schema and the dictionaries are repeated with each submission.
                let mut share = match self.ingest.state.memory.share(self.preamble.len()) {
                    Ok(share) => share,
                    Err(_) if !self.pending.is_empty() => {
                        self.deferred = Some(received);
                        return Ok(false);
                    }
                    Err(refusal) => return Err(refusal),
                };
                share.merge(received.share);
                let batches = self.take_arrived(data, &mut share);
                self.submit(&batches, share).await?;
            }
            // Metadata without a batch is ignored.
            None if data.data_header.is_empty() => (),
            _ => return Err(Problem::bad_request("a record batch or a dictionary is expected")),
        }
        Ok(true)
    }

    /// Returns `first` and further batches that have arrived, as long as they are small together. Merges their shares
    /// of memory into `share`. Defers the first message that is not one of them.
    fn take_arrived(&mut self, first: FlightData, share: &mut OwnedSemaphorePermit) -> Vec<FlightData> {
        let mut len = data_len(&first);
        let mut batches = vec![first];
        while len < SMALL
            && let Some(next) = self.poll_next()
        {
            let data = decode_message::<FlightData>(next.message.clone()).ok();
            let fits = |data: &FlightData| {
                message_kind(&data.data_header) == Some(MessageKind::RecordBatch) && len + data_len(data) <= SMALL
            };
            let Some(data) = data.filter(fits) else {
                self.deferred = Some(next);
                break;
            };
            len += data_len(&data);
            share.merge(next.share);
            batches.push(data);
        }
        batches
    }

    /// Returns the next message, if it has arrived and is valid. An error occurs again in the next call.
    fn poll_next(&mut self) -> Option<ReceivedMessage> {
        self.requests.poll_next(max_message_len(&self.ingest.session)).ok().flatten()
    }

    /// Keeps a dictionary, and its share of memory, for the batches after it.
    fn keep_dictionary(&mut self, data: &FlightData, share: OwnedSemaphorePermit) -> Result<()> {
        self.preamble_share.merge(share);
        let max_len = self.ingest.session.shared.limits.body;
        push_message(&mut self.preamble, &data.data_header, &data.data_body);
        if self.preamble.len() > max_len {
            let detail = format!("the dictionaries of a call have at most {max_len} bytes; make several");
            return Err(Problem::too_large(detail));
        }
        Ok(())
    }

    /// Submits batches to the table's writer. If one of them is invalid, the batches before it are submitted alone.
    async fn submit(&mut self, batches: &[FlightData], share: OwnedSemaphorePermit) -> Result<()> {
        let submitted = self.submit_together(batches, share).await;
        if submitted.is_ok() || batches.len() == 1 {
            return submitted;
        }
        for batch in batches {
            let share = self.ingest.state.memory.share(self.preamble.len() + data_len(batch))?;
            self.submit_together(slice::from_ref(batch), share).await?;
        }
        Ok(())
    }

    async fn submit_together(&mut self, batches: &[FlightData], share: OwnedSemaphorePermit) -> Result<()> {
        assert!(!batches.is_empty(), "no batches are submitted, and none would be answered");
        let mut bytes = self.preamble.clone();
        for data in batches {
            push_message(&mut bytes, &data.data_header, &data.data_body);
        }
        bytes.extend_from_slice(Framing::STREAM.end());
        let pending = self.destination.submit(&self.ingest, ReceivedBody { bytes, share }, batches.len()).await?;
        self.pending.push_back(pending);
        Ok(())
    }
}

fn data_len(data: &FlightData) -> usize {
    data.data_header.len() + data.data_body.len()
}

/// Logs that a call appends rows, or why batches are refused after its response has begun.
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

impl PutStream {
    pub async fn step(mut self) -> io::Result<BodyPart<PutStream>> {
        match self.next().await {
            Ok(Some(answers)) => {
                let mut results = Vec::with_capacity(answers.len());
                for answer in answers {
                    results.push(PutResult { app_metadata: answer.into() });
                }
                Ok((vec![frame_messages(&results)], Some(self)))
            }
            Ok(None) => Ok((Vec::new(), None)),
            Err(refusal) => {
                audit(&self.ingest.session, "DoPut", Some(&refusal));
                Err(io::Error::other(refusal))
            }
        }
    }
}
