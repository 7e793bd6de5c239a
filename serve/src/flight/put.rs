//! `DoPut`: receives record batches, appends each as a whole, and answers it once it is committed.

use std::io;

use bytes::Bytes;

use super::calls::{Called, Calls, decoded};
use super::messages::{FlightData, FlightDescriptor, PutResult, framed};
use super::target::target_of;
use crate::ingest::Destination;
use crate::outgoing::{Step, Steps};
use crate::query::Query;
use crate::receive::Received;
use crate::refusal::{Refusal, Result};
use crate::session::Session;

/// The maximum size in bytes of the protobuf fields around a body.
const AROUND: usize = 1 << 20;
/// The end of a stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// The parameters of a command for sent rows.
const PARAMETERS: &[&str] = &["ack", "producer", "epoch", "sequence"];

/// A stream of record batches to be appended to a table.
pub(crate) struct Put {
    session: Session,
    calls: Calls,
    destination: Destination,
    /// The schema and the dictionaries received so far, as messages of a stream.
    front: Vec<u8>,
}

/// Starts a stream from the first message, with this descriptor and header.
pub(crate) async fn begin(session: Session, calls: Calls, descriptor: &FlightDescriptor, header: &[u8]) -> Result<Put> {
    let (name, query) = target_of(descriptor, PARAMETERS)?;
    Put::of(session, calls, (&name, &query), header).await
}

/// Parses the destination in the first message, and its schema if it has one.
pub(super) fn target_of_first(message: Bytes) -> Result<((String, Query), Bytes)> {
    let (descriptor, header) = descriptor_of(message)?;
    Ok((target_of(&descriptor, PARAMETERS)?, header))
}

fn descriptor_of(message: Bytes) -> Result<(FlightDescriptor, Bytes)> {
    let first: FlightData = decoded(message)?;
    let missing = || Refusal::bad_request("the first message has a descriptor");
    Ok((first.descriptor.ok_or_else(missing)?, first.header))
}

async fn first(session: &Session, calls: &mut Calls) -> Result<Called> {
    let nothing = || Refusal::bad_request("the call has no message");
    calls.next(session.shared.limits.body + AROUND).await?.ok_or_else(nothing)
}

/// The first message of a call that sends rows: its descriptor, and its schema if it has one.
pub(super) async fn opening(session: &Session, calls: &mut Calls) -> Result<(FlightDescriptor, Bytes)> {
    descriptor_of(first(session, calls).await?.message)
}

/// The metadata of the next message, possibly empty; `None` at the end.
pub(super) async fn header_of(session: &Session, calls: &mut Calls) -> Result<Option<Bytes>> {
    let Some(Called { message, .. }) = calls.next(session.shared.limits.body + AROUND).await? else { return Ok(None) };
    decoded::<FlightData>(message).map(|data| Some(data.header))
}

/// The kinds of messages in a stream of record batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Schema,
    Dictionary,
    Batch,
}

/// The kind of a `Message` of Message.fbs; `None` if it is damaged, or of another kind.
fn kind_of(metadata: &[u8]) -> Option<Kind> {
    let word = |at: usize| metadata.get(at..)?.first_chunk().map(|raw| i32::from_le_bytes(*raw));
    let half = |at: usize| metadata.get(at..)?.first_chunk().map(|raw| usize::from(u16::from_le_bytes(*raw)));
    let root = usize::try_from(word(0)?).ok()?;
    let fields = root.checked_sub_signed(isize::try_from(word(root)?).ok()?)?;
    // The second field, after two lengths.
    let place = half(fields + 6).filter(|&place| place > 0 && half(fields).is_some_and(|len| len > 6))?;
    match metadata.get(root + place)? {
        1 => Some(Kind::Schema),
        2 => Some(Kind::Dictionary),
        3 => Some(Kind::Batch),
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

impl Put {
    /// Receives batches with the schema in `header`, to be appended to the named table with the parameters in the
    /// query.
    pub async fn of(session: Session, calls: Calls, (name, query): (&str, &Query), header: &[u8]) -> Result<Put> {
        if kind_of(header) != Some(Kind::Schema) {
            return Err(Refusal::bad_request("a schema is expected before the first record batch"));
        }
        let destination = Destination::of(&session, name, query).await?;
        let mut front = Vec::new();
        push(&mut front, header, &[]);
        Ok(Put { session, calls, destination, front })
    }

    /// Appends the next batch; returns its answer, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let limits = &self.session.shared.limits;
        loop {
            if !self.session.is_valid() {
                return Err(Refusal::new(hyper::StatusCode::UNAUTHORIZED, "unauthorized", "the token was revoked"));
            }
            let Some(Called { message, mut share }) = self.calls.next(limits.body + AROUND).await? else {
                return Ok(None);
            };
            let data: FlightData = decoded(message)?;
            match kind_of(&data.header) {
                Some(Kind::Dictionary) => {
                    push(&mut self.front, &data.header, &data.body);
                    if self.front.len() > limits.body {
                        let detail =
                            format!("the dictionaries of a call have at most {} bytes; make several", limits.body);
                        return Err(Refusal::too_large(detail));
                    }
                }
                Some(Kind::Batch) => {
                    // The dictionaries are repeated for each batch.
                    share.merge(self.session.shared.memory.share(self.front.len())?);
                    let mut bytes = self.front.clone();
                    push(&mut bytes, &data.header, &data.body);
                    bytes.extend_from_slice(&END);
                    drop(data);
                    let answer = self.destination.append(&self.session, Received { bytes, share }).await?;
                    return Ok(Some(answer.to_string().into()));
                }
                // Metadata without a batch is ignored.
                None if data.header.is_empty() => (),
                _ => return Err(Refusal::bad_request("a record batch or a dictionary is expected")),
            }
        }
    }
}

impl Steps for Put {
    async fn step(mut self) -> Step<Put> {
        match self.next().await {
            Ok(Some(app_metadata)) => Step::Data(self, vec![framed(&PutResult { app_metadata })]),
            Ok(None) => Step::End(Vec::new()),
            Err(refusal) => Step::Failed(io::Error::other(refusal)),
        }
    }
}
