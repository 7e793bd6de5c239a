//! Reads back the published footer of other Arrow readers, and compares it with the one that a writer would have
//! written.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::ipc::{BatchHeader, BatchMetadata, read_batch, read_footer, read_schema, same_schema};
use crate::rows::{Plan, PlanNode, ROWS, Storage};
use crate::table::format::{Header, Record, TAIL, TAIL_LEN};
use crate::table::protocol::FooterSizes;
use crate::table::protocol::footer::{PREFIX, STAMP, encode_footer, footer_stamp, message_metadata, selected_footer};
use crate::table::reader::{Damage, Segment};

/// The number of bytes of footers that are read at once, if more than one fits.
const MAX_READ: u64 = 1 << 16;

/// A valid published footer.
#[derive(Debug)]
pub(super) struct FooterCheck {
    /// The counters from which its messages were made; the length of the positions' names is 0.
    pub counters: Vec<u64>,
    /// A byte that this version would have written differently, with the same meaning.
    pub unusual: Option<Damage>,
    /// The number of a footer with a later time than the published one.
    pub later: Option<u64>,
}

impl FooterCheck {
    /// Returns the footer's counters, with the length of the positions' names in `record`: other readers don't see
    /// positions.
    pub fn with_names_of(&self, segment: &Segment, record: &Record) -> Vec<u64> {
        let names = segment.plan.names.bytes;
        let mut counters = self.counters.clone();
        counters[names] = record.counters[names];
        counters
    }
}

/// The reason why a footer could not be read.
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
    fn from(damage: Damage) -> FooterError {
        FooterError::Damage(damage)
    }
}

/// Reads the published footer.
pub(super) fn read(segment: &Segment) -> Result<FooterCheck, FooterError> {
    let number = read_selected(segment)?;
    match read_footer_number(segment, number) {
        Err(FooterError::Damage(damage)) if has_written_schema(segment)? => Err(FooterError::Unwritten(damage)),
        read => read,
    }
}

/// Returns the number of the published footer. A crash can't damage it: it is one word, and the bytes behind it were on
/// the disk before the segment had a name.
fn read_selected(segment: &Segment) -> Result<u64, FooterError> {
    let header = &segment.header;
    let tail = read_bytes(segment, header.tail, TAIL_LEN)?;
    let Some((length, end)) = tail.split_first_chunk() else {
        return Err((header.tail, "the end of the file is missing".into()).into());
    };
    if end != TAIL {
        let got = end.escape_ascii();
        let offset = header.tail + length.len() as u64;
        return Err((offset, format!("the end of the file: expected 'ARROW1', got '{got}'")).into());
    }
    let length = u32::from_le_bytes(*length);
    if let Some(number) = selected_footer(header, length) {
        return Ok(number);
    }
    let message = format!(
        "the footer's length: expected a multiple of {}, {} to {} times that, got {length}",
        header.footer,
        header.shared + 1,
        header.slots
    );
    Err((header.tail, message).into())
}

/// Reads and checks footer `number`, and the messages it points to.
fn read_footer_number(segment: &Segment, number: u64) -> Result<FooterCheck, FooterError> {
    let header = &segment.header;
    let start = header.footer_at(number);

    // Another reader reads all bytes up to the footer's length, with the schema behind the footer.
    let footer = read_bytes(segment, start, if header.shared == 0 { header.footer } else { header.tail - start })?;
    let messages = read_messages(segment, number, start, &footer)?;
    let messages_start = messages.first().map_or(start, |message| message.start);
    let counters = match counters_of(&segment.plan, &messages) {
        Some(counters) if are_within(&counters, &header.limits) => counters,
        _ => {
            let message = "the messages for other readers: counts beyond the segment's limits";
            return Err((messages_start, message.into()).into());
        }
    };

    for (number, message) in messages.iter().enumerate() {
        let expected = message_metadata(&segment.plan, number, &header.regions, message.body, &counters);
        let difference = match expected {
            Some(expected) => difference(&expected, message, segment.mapping.len() as u64),
            None => Some("counts that no file has room for".into()),
        };
        if let Some(difference) = difference {
            return Err((message.start, format!("message {number} for other readers: {difference}")).into());
        }
    }

    let unusual = find_unusual_byte(segment, (messages_start, number), &footer, &counters)?;
    Ok(FooterCheck { unusual, later: find_later(segment, number)?, counters })
}

/// Reads `len` bytes of the file. A caller that takes the length from the file must have compared it with a limit.
fn read_bytes(segment: &Segment, offset: u64, len: u64) -> Result<Vec<u8>, FooterError> {
    let mut bytes = vec![0; len as usize];
    segment.mapping.read_at(offset as usize, &mut bytes).map_err(|e| FooterError::from_error(offset, e.into()))?;
    Ok(bytes)
}

fn are_within(counters: &[u64], limits: &[u64]) -> bool {
    counters.len() == limits.len() && counters.iter().zip(limits).all(|(count, limit)| count <= limit)
}

/// A message as stored.
struct FooterMessage {
    /// The offset of the message in the file.
    start: u64,
    /// The offset of the message's body.
    body: u64,
    body_len: u64,
    batch: BatchHeader,
}

/// Reads the messages that a footer at byte `footer_start` lists: the record batch, then the dictionaries.
fn read_messages(
    segment: &Segment,
    number: u64,
    footer_start: u64,
    footer: &[u8],
) -> Result<Vec<FooterMessage>, FooterError> {
    let footer = read_footer(footer).map_err(|e| (footer_start, format!("the footer: {}", e.message())))?;
    if !same_schema(&footer.schema, &segment.plan.schema) {
        return Err((footer_start, "the footer's schema is not the one in front of the file".into()).into());
    }
    let expected = (1, segment.plan.dictionaries.len());
    let got = (footer.batches.len(), footer.dictionaries.len());
    if expected != got {
        let message = format!("the footer lists {got:?} record batches and dictionaries, expected {expected:?}");
        return Err((footer_start, message).into());
    }
    let ids = std::iter::once(None).chain(segment.plan.dictionaries.iter().map(|dictionary| Some(dictionary.id)));
    let blocks = footer.batches.iter().chain(&footer.dictionaries);
    let room = message_room(&segment.header, number);
    blocks.zip(ids).map(|(block, id)| read_message(segment, &room, footer_start, *block, id)).collect()
}

/// Returns the bytes of the file in which the messages of a footer may be: the slot of its number, or the ring.
fn message_room(header: &Header, number: u64) -> Range<u64> {
    let slots = if header.shared == 0 { number..number + 1 } else { 0..header.slots.into() };
    header.ring + slots.start * header.slot..header.ring + slots.end * header.slot
}

/// Reads a message, which must be inside of `room`. `block` is its start, length and body length in the footer at byte
/// `footer_start`, and `id` identifies its dictionary; `None` for the record batch.
fn read_message(
    segment: &Segment,
    room: &Range<u64>,
    footer_start: u64,
    block: [i64; 3],
    id: Option<i64>,
) -> Result<FooterMessage, FooterError> {
    // A negative number is outside of any place.
    let [start, len, body_len] = block.map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    let is_inside =
        start >= room.start && len >= PREFIX as u64 && start.checked_add(len).is_some_and(|end| end <= room.end);
    if !is_inside {
        let message =
            format!("the footer: a block {block:?} outside of its place, bytes {} to {}", room.start, room.end);
        return Err((footer_start, message).into());
    }

    let framed = read_bytes(segment, start, len)?;
    let (got, message) = framed.split_at(PREFIX);
    let prefix = [u32::MAX.to_le_bytes(), (len as u32 - PREFIX as u32).to_le_bytes()].concat();
    if got != prefix {
        let message = format!("a message for other readers: expected the prefix {prefix:02x?}, got {got:02x?}");
        return Err((start, message).into());
    }
    let (batch, got_len, got_id) =
        read_batch(message).map_err(|e| (start, format!("a message for other readers: {}", e.message())))?;
    if got_id != id || got_len as u64 != body_len {
        let message = format!(
            "a message for other readers: dictionary {got_id:?} with {got_len} bytes, expected {id:?} with {body_len}"
        );
        return Err((start, message).into());
    }

    Ok(FooterMessage { start, body: start + len, body_len, batch })
}

/// Returns the counters that the messages were made from.
fn counters_of(plan: &Plan, messages: &[FooterMessage]) -> Option<Vec<u64>> {
    let mut counters = vec![0; plan.counters];
    let (rows, dictionaries) = messages.split_first()?;
    assert_eq!(dictionaries.len(), plan.dictionaries.len(), "the messages were counted before");
    counters[ROWS] = rows.batch.rows as u64;
    let mut cursor = BatchCursor::default();
    for column in &plan.columns {
        collect_counters(column, &rows.batch, &mut cursor, &mut counters)?;
    }
    for (dictionary, message) in plan.dictionaries.iter().zip(dictionaries) {
        counters[dictionary.entries] = message.batch.rows as u64;
        collect_counters(&dictionary.values, &message.batch, &mut BatchCursor::default(), &mut counters)?;
    }
    Some(counters)
}

/// The next field node and the next buffer of a message.
#[derive(Default)]
struct BatchCursor {
    node: usize,
    buffer: usize,
}

impl BatchCursor {
    /// Returns the number of rows of the next field node.
    fn rows(&self, batch: &BatchHeader) -> Option<u64> {
        let (rows, _) = batch.nodes.get(self.node)?;
        u64::try_from(*rows).ok()
    }
}

/// The number of the buffer with the text of a field, after validity bitmap and offsets or views.
const TEXT_BUFFER: usize = 2;

/// Sets the counters of a node and its children as the message has them, and moves the cursor behind them. Returns
/// `None` if the message is too short, or has negative numbers.
fn collect_counters(
    node: &PlanNode,
    batch: &BatchHeader,
    cursor: &mut BatchCursor,
    counters: &mut [u64],
) -> Option<()> {
    let (_, nulls) = batch.nodes.get(cursor.node)?;
    if let Some(counter) = node.nulls {
        counters[counter] = u64::try_from(*nulls).ok()?;
    }
    cursor.node += 1;
    match node.kind {
        Storage::Bytes { counter, .. } | Storage::Views { counter } => {
            let (_, length) = batch.buffers.get(cursor.buffer + TEXT_BUFFER)?;
            counters[counter] = u64::try_from(*length).ok()?;
        }
        Storage::List { counter, .. } | Storage::ListViews { counter, .. } => {
            counters[counter] = cursor.rows(batch)?;
        }
        _ => (),
    }
    cursor.buffer += node.buffers();
    for (number, child) in node.children.iter().enumerate() {
        if let Storage::DenseUnion { first } = node.kind {
            counters[first + number] = cursor.rows(batch)?;
        }
        collect_counters(child, batch, cursor, counters)?;
    }
    Some(())
}

/// Describes the first number in which a message differs from the expected one.
fn difference(expected: &BatchMetadata, got: &FooterMessage, file: u64) -> Option<String> {
    let batch = &got.batch;
    if batch.compression.is_some() {
        return Some("expected no compression".into());
    }
    let different = list_difference("field node", &expected.nodes, &batch.nodes)
        .or_else(|| list_difference("buffer", &expected.buffers, &batch.buffers));
    if different.is_some() {
        return different;
    }
    if expected.variadics != batch.variadics {
        return Some("the numbers of data buffers of views".into());
    }
    let min_len = batch.buffers.iter().map(|(start, len)| start.saturating_add(*len) as u64).fold(0, u64::max);
    let max_len = file - got.body;
    let len = got.body_len;
    if !(min_len..=max_len).contains(&len) {
        return Some(format!("a body of {len} bytes, expected {min_len} to {max_len}"));
    }
    None
}

fn list_difference(what: &str, expected: &[(i64, i64)], got: &[(i64, i64)]) -> Option<String> {
    if expected.len() != got.len() {
        return Some(format!("expected {} {what}s, got {}", expected.len(), got.len()));
    }
    let number = expected.iter().zip(got).position(|(a, b)| a != b)?;
    Some(format!("{what} {number}: expected {:?}, got {:?}", expected[number], got[number]))
}

/// Finds the first byte that this version of arrowwood would have written differently.
fn find_unusual_byte(
    segment: &Segment,
    (messages_start, number): (u64, u64),
    footer: &[u8],
    counters: &[u64],
) -> Result<Option<Damage>, FooterError> {
    let header = &segment.header;
    let Some(sizes) = FooterSizes::for_header(header, &segment.plan).filter(|sizes| sizes.fit(header)) else {
        return Ok(None);
    };
    let encoded = encode_footer(&sizes, &segment.plan, header, counters, (messages_start, number));
    let Some((expected_messages, mut expected_footer)) = encoded else { return Ok(None) };
    expected_footer.resize(header.footer as usize - STAMP, 0);
    let messages = read_bytes(segment, messages_start, expected_messages.len() as u64)?;
    let schema = read_bytes(segment, header.shared_at(), sizes.schema.len() as u64)?;
    Ok(first_difference(messages_start, &expected_messages, &messages)
        .or_else(|| first_difference(header.footer_at(number), &expected_footer, footer))
        .or_else(|| first_difference(header.shared_at(), &sizes.schema, &schema)))
}

/// Finds the first byte at which `got`, which begins at byte `start` of the file, differs from `expected`.
pub(super) fn first_difference(start: u64, expected: &[u8], got: &[u8]) -> Option<Damage> {
    let number = expected.iter().zip(got).position(|(a, b)| a != b)?;
    let expected = expected[number];
    let got = got[number];
    Some((start + number as u64, format!("expected {expected:#04x}, got {got:#04x}; it means the same")))
}

/// Finds a footer with a later time than footer `number`: either it was never published, or the wrong one is.
fn find_later(segment: &Segment, number: u64) -> Result<Option<u64>, FooterError> {
    let header = &segment.header;
    let footer = read_bytes(segment, header.footer_at(number), header.footer)?;
    let published = footer_stamp(header, &footer, number).time;
    let slots = u64::from(header.slots);
    let footers_per_read = (MAX_READ / header.footer).max(1);

    for first in (header.shared..slots).step_by(footers_per_read as usize) {
        // Footers with larger numbers are in front of it.
        let last = slots.min(first + footers_per_read) - 1;
        let footers = read_bytes(segment, header.footer_at(last), (last - first + 1) * header.footer)?;
        let numbered = (first..=last).rev().zip(footers.chunks_exact(header.footer as usize));
        let later = numbered.filter(|&(other, footer)| footer_stamp(header, footer, other).time > published);
        if let Some((later, _)) = later.last() {
            return Ok(Some(later));
        }
    }
    Ok(None)
}

/// Returns true if a copy of the schema confirms the one at the front of the file: a footer, published or not, has the
/// same one, or none can be read.
///
/// # Errors
/// Returns the errors of reading the file.
pub(super) fn has_witness(segment: &Segment) -> Result<bool> {
    let copies = copies_of_schema(segment)?;
    Ok(copies.is_empty() || copies.contains(&true))
}

/// Returns true if no copy of the schema has damage that a crash can't cause: the one that footers share never changes,
/// and was on the disk before the segment had a name.
fn has_written_schema(segment: &Segment) -> Result<bool, FooterError> {
    let copies = copies_of_schema(segment).map_err(FooterError::Unread)?;
    Ok(if segment.header.shared == 0 { copies.is_empty() || copies.contains(&true) } else { copies == [true] })
}

/// Compares each copy of the schema that can be read, in all footers or for all of them, with the one at the front of
/// the file. Returns true for each that is the same.
fn copies_of_schema(segment: &Segment) -> Result<Vec<bool>> {
    let header = &segment.header;
    let mut copies = Vec::new();
    if header.shared == 0 {
        for number in 0..header.slots.into() {
            let footer = none_if_damaged(read_bytes(segment, header.footer_at(number), header.footer))?;
            if let Some(footer) = footer {
                copies.extend(read_footer(&footer).map(|footer| footer.schema));
            }
        }
    } else {
        let schema = none_if_damaged(read_bytes(segment, header.shared_at(), header.shared * header.footer))?;
        if let Some(schema) = schema {
            copies.extend(read_schema(&schema));
        }
    }
    Ok(copies.iter().map(|schema| same_schema(schema, &segment.plan.schema)).collect())
}

fn none_if_damaged<T>(read: Result<T, FooterError>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(FooterError::Damage(_) | FooterError::Unwritten(_)) => Ok(None),
        Err(FooterError::Unread(e)) => Err(e),
    }
}
