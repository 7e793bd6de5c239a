//! Reads back the published footer of other Arrow readers, and compares it with the one that a writer would have
//! written.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::ipc::{BatchHeader, BatchMetadata, read_batch, read_footer, read_schema, same_schema};
use crate::rows::{Plan, PlanNode, Storage};
use crate::table::format::{Header, Record, TAIL};
use crate::table::protocol::FooterSizes;
use crate::table::protocol::footer::{STAMP, encode_footer, footer_stamp, message_metadata, selected_footer};
use crate::table::reader::{Damage, Segment};

/// A valid published footer.
#[derive(Debug)]
pub(super) struct FooterCheck {
    pub counters: Vec<u64>,
    /// Bytes that this version would have written differently, with the same meaning.
    pub odd: Option<Damage>,
    /// The number of a footer with a later time than the published one.
    pub later: Option<u64>,
}

impl FooterCheck {
    /// Its counters, with the names of positions that `record` has: other readers don't see positions.
    pub fn with_names_of(&self, segment: &Segment, record: &Record) -> Vec<u64> {
        let names = segment.plan.names.bytes;
        let mut counters = self.counters.clone();
        counters[names] = record.counters[names];
        counters
    }
}

/// Why a footer could not be read.
#[derive(Debug)]
pub(super) enum FooterError {
    /// It is damaged.
    Damage(Damage),
    /// It is damaged, or a crash came before its bytes were on the disk, and after those that select it were.
    Unwritten(Damage),
    /// The system did not read it; it may be sound.
    Unread(Error),
}

impl FooterError {
    fn from_error(at: u64, error: Error) -> FooterError {
        if error.is_corruption() {
            FooterError::Damage((at, error.message().into()))
        } else {
            FooterError::Unread(error)
        }
    }
}

impl From<Damage> for FooterError {
    fn from(wrong: Damage) -> FooterError {
        FooterError::Damage(wrong)
    }
}

/// Reads the published footer.
pub(super) fn read(segment: &Segment) -> Result<FooterCheck, FooterError> {
    let number = selected(segment)?;
    match read_number(segment, number) {
        Err(FooterError::Damage(wrong)) if has_written_schema(segment)? => Err(FooterError::Unwritten(wrong)),
        read => read,
    }
}

/// The number of the published footer. What says it was on the disk before the segment had a name, or is one word.
fn selected(segment: &Segment) -> Result<u64, FooterError> {
    let header = &segment.header;
    let tail = bytes(segment, header.tail, 10)?;
    if tail[4..] != TAIL[..] {
        let got = tail[4..].escape_ascii();
        return Err((header.tail + 4, format!("the end of the file: expected 'ARROW1', got '{got}'")).into());
    }
    let word = tail.first_chunk().map_or(0, |raw| u32::from_le_bytes(*raw));
    let number = selected_footer(header, word).ok_or_else(|| {
        let each = header.footer;
        let slots = header.slots;
        let least = header.shared + 1;
        (
            header.tail,
            format!("the footer's length: expected a multiple of {each}, {least} to {slots} times that, got {word}"),
        )
    })?;
    Ok(number)
}

fn read_number(segment: &Segment, number: u64) -> Result<FooterCheck, FooterError> {
    let header = &segment.header;
    let at = header.footer_at(number);
    // All that another reader reads.
    let footer = bytes(segment, at, if header.shared == 0 { header.footer } else { header.tail - at })?;
    let messages = messages_of(segment, number, at, &footer)?;
    let counters = counters_of(&segment.plan, &messages).filter(|counters| are_within(counters, &header.limits));
    let start = messages.first().map_or(at, |message| message.at);
    let counters =
        counters.ok_or((start, "the messages for other readers: counts beyond the segment's limits".into()))?;
    for (number, message) in messages.iter().enumerate() {
        let expected =
            message_metadata(&segment.plan, number, &header.regions, message.body, &counters).ok_or_else(|| {
                (message.at, format!("message {number} for other readers: counts that no file has room for"))
            })?;
        if let Some(difference) = difference(&expected, message, segment.mapping.len() as u64) {
            return Err((message.at, format!("message {number} for other readers: {difference}")).into());
        }
    }
    let odd = odd_byte(segment, (start, number), &footer, &counters)?;
    Ok(FooterCheck { odd, later: later(segment, number)?, counters })
}

fn bytes(segment: &Segment, at: u64, len: u64) -> Result<Vec<u8>, FooterError> {
    let mut bytes = vec![0; len as usize];
    segment.mapping.read_at(at as usize, &mut bytes).map_err(|e| FooterError::from_error(at, e.into()))?;
    Ok(bytes)
}

fn are_within(counters: &[u64], limits: &[u64]) -> bool {
    counters.len() == limits.len() && counters.iter().zip(limits).all(|(count, limit)| count <= limit)
}

/// A message as stored.
struct FooterMessage {
    at: u64,
    body: u64,
    body_len: u64,
    batch: BatchHeader,
}

/// The messages that a footer lists: the record batch, then the dictionaries.
fn messages_of(segment: &Segment, number: u64, at: u64, footer: &[u8]) -> Result<Vec<FooterMessage>, FooterError> {
    let said = read_footer(footer).map_err(|e| (at, format!("the footer: {}", e.message())))?;
    if !same_schema(&said.schema, &segment.plan.schema) {
        return Err((at, "the footer's schema is not the one in front of the file".into()).into());
    }
    let expected = (1, segment.plan.dictionaries.len());
    let got = (said.batches.len(), said.dictionaries.len());
    if expected != got {
        return Err(
            (at, format!("the footer lists {got:?} record batches and dictionaries, expected {expected:?}")).into()
        );
    }
    let ids = std::iter::once(None).chain(segment.plan.dictionaries.iter().map(|dictionary| Some(dictionary.id)));
    let places = said.batches.iter().chain(&said.dictionaries);
    let room = room(&segment.header, number);
    places.zip(ids).map(|(place, id)| message_at(segment, &room, at, *place, id)).collect()
}

/// Where the messages of a footer may be: in the slot of its number, or anywhere in the ring.
fn room(header: &Header, number: u64) -> Range<u64> {
    let slots = if header.shared == 0 { number..number + 1 } else { 0..header.slots.into() };
    header.ring + slots.start * header.slot..header.ring + slots.end * header.slot
}

fn message_at(
    segment: &Segment,
    room: &Range<u64>,
    footer: u64,
    place: [i64; 3],
    id: Option<i64>,
) -> Result<FooterMessage, FooterError> {
    let [at, metadata, body_len] = place.map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    let is_inside = at >= room.start && metadata >= 8 && at.checked_add(metadata).is_some_and(|end| end <= room.end);
    if !is_inside {
        return Err((
            footer,
            format!("the footer: a block {place:?} outside of its place, bytes {} to {}", room.start, room.end),
        )
            .into());
    }
    let framed = bytes(segment, at, metadata)?;
    let prefix = [u32::MAX.to_le_bytes(), (metadata as u32 - 8).to_le_bytes()].concat();
    if framed[..8] != prefix {
        let got = &framed[..8];
        return Err(
            (at, format!("a message for other readers: expected the prefix {prefix:02x?}, got {got:02x?}")).into()
        );
    }
    let (batch, own, found) =
        read_batch(&framed[8..]).map_err(|e| (at, format!("a message for other readers: {}", e.message())))?;
    if found != id || own as u64 != body_len {
        let message = format!(
            "a message for other readers: dictionary {found:?} with {own} bytes, expected {id:?} with {body_len}"
        );
        return Err((at, message).into());
    }
    Ok(FooterMessage { at, body: at + metadata, body_len, batch })
}

/// The counters that the messages were made from.
fn counters_of(plan: &Plan, messages: &[FooterMessage]) -> Option<Vec<u64>> {
    let mut counters = vec![0; plan.counters];
    let (rows, dictionaries) = messages.split_first()?;
    counters[0] = rows.batch.rows as u64;
    let mut at = (0, 0);
    for column in &plan.columns {
        gather(column, &rows.batch, &mut at, &mut counters)?;
    }
    for (dictionary, message) in plan.dictionaries.iter().zip(dictionaries) {
        counters[dictionary.entries] = message.batch.rows as u64;
        gather(&dictionary.values, &message.batch, &mut (0, 0), &mut counters)?;
    }
    Some(counters)
}

fn gather(node: &PlanNode, batch: &BatchHeader, at: &mut (usize, usize), counters: &mut [u64]) -> Option<()> {
    let (_, nulls) = batch.nodes.get(at.0)?;
    if let Some(counter) = node.nulls {
        counters[counter] = u64::try_from(*nulls).ok()?;
    }
    at.0 += 1;
    match node.kind {
        Storage::Bytes { counter, .. } | Storage::Views { counter } => {
            counters[counter] = u64::try_from(batch.buffers.get(at.1 + 2)?.1).ok()?;
        }
        Storage::List { counter, .. } | Storage::ListViews { counter, .. } => {
            counters[counter] = u64::try_from(batch.nodes.get(at.0)?.0).ok()?;
        }
        _ => (),
    }
    at.1 += node.buffers();
    for (number, child) in node.children.iter().enumerate() {
        if let Storage::DenseUnion { first } = node.kind {
            counters[first + number] = u64::try_from(batch.nodes.get(at.0)?.0).ok()?;
        }
        gather(child, batch, at, counters)?;
    }
    Some(())
}

/// The first number in which a message differs from the expected one.
fn difference(expected: &BatchMetadata, got: &FooterMessage, file: u64) -> Option<String> {
    let batch = &got.batch;
    if batch.compression.is_some() {
        return Some("expected no compression".into());
    }
    let pair = |what: &str, expected: &[(i64, i64)], got: &[(i64, i64)]| {
        if expected.len() != got.len() {
            return Some(format!("expected {} {what}s, got {}", expected.len(), got.len()));
        }
        let number = expected.iter().zip(got).position(|(a, b)| a != b)?;
        Some(format!("{what} {number}: expected {:?}, got {:?}", expected[number], got[number]))
    };
    pair("field node", &expected.nodes, &batch.nodes)
        .or_else(|| pair("buffer", &expected.buffers, &batch.buffers))
        .or_else(|| (expected.variadics != batch.variadics).then(|| "the numbers of data buffers of views".into()))
        .or_else(|| {
            let needed = batch.buffers.iter().map(|(at, len)| at.saturating_add(*len) as u64).max().unwrap_or(0);
            let len = got.body_len;
            let room = file - got.body;
            (len < needed || len > room).then(|| format!("a body of {len} bytes, expected {needed} to {room}"))
        })
}

/// The first byte that this version of arrowwood would have written differently.
fn odd_byte(
    segment: &Segment,
    (start, number): (u64, u64),
    footer: &[u8],
    counters: &[u64],
) -> Result<Option<Damage>, FooterError> {
    let header = &segment.header;
    let Some(sizes) = FooterSizes::for_header(header, &segment.plan).filter(|sizes| sizes.fit(header)) else {
        return Ok(None);
    };
    let Some((messages, mut expected)) = encode_footer(&sizes, &segment.plan, header, counters, (start, number)) else {
        return Ok(None);
    };
    expected.resize(header.footer as usize - STAMP, 0);
    let there = bytes(segment, start, messages.len() as u64)?;
    let schema = bytes(segment, header.shared_at(), sizes.schema.len() as u64)?;
    let odd = first_difference(start, &messages, &there);
    let odd = odd.or_else(|| first_difference(header.footer_at(number), &expected, footer));
    Ok(odd.or_else(|| first_difference(header.shared_at(), &sizes.schema, &schema)))
}

/// The first byte at which `got`, which begins at byte `at`, differs from `expected`.
pub(super) fn first_difference(at: u64, expected: &[u8], got: &[u8]) -> Option<Damage> {
    let number = expected.iter().zip(got).position(|(a, b)| a != b)?;
    let expected = expected[number];
    let got = got[number];
    Some((at + number as u64, format!("expected {expected:#04x}, got {got:#04x}; it means the same")))
}

/// A footer with a later time than that of footer `number`: either it was never published, or the wrong one is.
fn later(segment: &Segment, number: u64) -> Result<Option<u64>, FooterError> {
    let header = &segment.header;
    let stamp = |number: u64| -> Result<u64, FooterError> {
        Ok(footer_stamp(header, &bytes(segment, header.footer_at(number), header.footer)?, number).0)
    };
    let shown = stamp(number)?;
    for other in header.shared..header.slots.into() {
        if stamp(other)? > shown {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

/// Whether a footer, published or not, has the schema at the front of the file, or can't be read.
///
/// # Errors
/// Those of reading the file.
pub(super) fn has_witness(segment: &Segment) -> Result<bool> {
    let copies = copies_of_schema(segment)?;
    Ok(copies.is_empty() || copies.contains(&true))
}

/// Whether no copy of the schema is damaged by what a crash can't do: the one that footers share never changes, and was on the
/// disk before the segment had a name.
fn has_written_schema(segment: &Segment) -> Result<bool, FooterError> {
    let copies = copies_of_schema(segment).map_err(FooterError::Unread)?;
    Ok(if segment.header.shared == 0 { copies.is_empty() || copies.contains(&true) } else { copies == [true] })
}

/// Whether the schema at the front of the file is that of each footer, or of all, that can be read.
fn copies_of_schema(segment: &Segment) -> Result<Vec<bool>> {
    let header = &segment.header;
    let mut found = Vec::new();
    let shared = (header.shared_at(), header.shared * header.footer);
    let own = (0..header.slots.into()).map(|number| (header.footer_at(number), header.footer));
    let places: Vec<_> = if header.shared == 0 { own.collect() } else { vec![shared] };
    for (at, len) in places {
        match bytes(segment, at, len) {
            Ok(there) if header.shared == 0 => found.extend(read_footer(&there).map(|footer| footer.schema)),
            Ok(there) => found.extend(read_schema(&there)),
            Err(FooterError::Damage(_) | FooterError::Unwritten(_)) => (),
            Err(FooterError::Unread(e)) => return Err(e),
        }
    }
    Ok(found.iter().map(|schema| same_schema(schema, &segment.plan.schema)).collect())
}
