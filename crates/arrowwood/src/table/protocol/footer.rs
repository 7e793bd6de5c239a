//! Encodes and decodes the footer that other Arrow readers find at a live segment's end, and the messages that it
//! points to.
//!
//! Each footer of format 1.0 has the schema, and its messages are in the slot of its number. Since 1.1 all footers
//! point to one schema behind them, and their messages may be anywhere in the ring. With a schema in each, four
//! thousand footers of 100 columns would take 36 MB, and a reader reads all bytes behind its footer.

use crate::ipc::{
    BatchMetadata, Block, FOOTER_BATCH, batch_metadata, footer, footer_with_shared_schema,
    footer_with_shared_schema_len, shared_schema,
};
use crate::rows::{Plan, PlanNode, ROWS, Region, Storage};
use crate::table::format::{Header, LINE};

/// The number of times that the end of a body moves while a buffer is filled.
const STEPS: u64 = 16;
/// The maximum number of footers whose space the schema takes.
const MOST_SHARED: u64 = 4096;
/// Dictionary messages have all entries, not only those that were added.
const IS_DELTA: bool = false;
/// The size in bytes of the prefix of a message: the continuation marker and the length of its metadata.
pub(in crate::table) const PREFIX: usize = 8;
/// Numbers other than zero for offsets, lengths and counters: messages with them have the maximum length.
const LARGE_OFFSET: u64 = 1 << 40;
const LARGE_COUNTER: u64 = 1 << 30;
/// The number of bytes after each footer for its publication time.
pub(in crate::table) const STAMP: usize = 8;

/// The sizes of published messages and footers, which depend on the schema only.
#[derive(Clone, Debug)]
pub(in crate::table) struct FooterSizes {
    /// The record batch message, then the dictionary messages.
    pub messages: Vec<u64>,
    /// All messages together.
    pub group: u64,
    pub footer: u64,
    /// The schema for all footers; empty if each has its own.
    pub schema: Vec<u8>,
}

impl FooterSizes {
    /// Returns the sizes for a segment with this header; `None` if no file has room for them.
    pub fn for_header(header: &Header, plan: &Plan) -> Option<FooterSizes> {
        if header.shared > 0 { FooterSizes::shared(plan) } else { FooterSizes::unshared(plan) }
    }

    /// Returns the sizes of footers that share a schema.
    pub fn shared(plan: &Plan) -> Option<FooterSizes> {
        let messages = message_lengths(plan)?;
        let footer = footer_with_shared_schema_len(plan.dictionaries.len()) + STAMP;
        let schema = shared_schema(&plan.schema.schema);
        // Longer footers, so that a long schema takes the space of no more than `MOST_SHARED`.
        let footer = (footer as u64).max(schema.len() as u64 / MOST_SHARED);
        Some(FooterSizes { group: messages.iter().sum(), messages, footer: footer.next_multiple_of(LINE), schema })
    }

    /// Returns the sizes of footers each of which has its own schema.
    fn unshared(plan: &Plan) -> Option<FooterSizes> {
        let messages = message_lengths(plan)?;
        let block = Block::new(LARGE_OFFSET as i64, 1, LARGE_OFFSET as i64);
        let dictionaries = vec![block; plan.dictionaries.len()];
        let footer = footer(&plan.schema.schema, &dictionaries, &[block], &[]);
        let footer = ((footer.len() + STAMP) as u64).next_multiple_of(LINE);
        Some(FooterSizes { group: messages.iter().sum(), messages, footer, schema: Vec::new() })
    }

    /// Returns true if a segment with this header has room for messages, footers and schema.
    pub fn fit(&self, header: &Header) -> bool {
        let schema = self.schema.len() as u64;
        header.slot >= self.group && header.footer >= self.footer && schema <= header.shared * header.footer
    }
}

/// Returns the maximum lengths of the messages.
fn message_lengths(plan: &Plan) -> Option<Vec<u64>> {
    // Zeros are omitted from a flatbuffer, so the longest message is one without zeros.
    let region = Region { offset: LARGE_OFFSET, capacity: LARGE_OFFSET };
    let regions = vec![region; plan.regions];
    let counters = vec![LARGE_COUNTER; plan.counters];
    let mut lengths = Vec::with_capacity(1 + plan.dictionaries.len());
    for number in 0..1 + plan.dictionaries.len() {
        let base = 1;
        let (metadata, _) = message(plan, number, &regions, base, &counters)?;
        lengths.push(framed_len(&metadata));
    }
    Some(lengths)
}

/// Returns the length of a message with its prefix and padding.
fn framed_len(metadata: &[u8]) -> u64 {
    ((PREFIX + metadata.len()) as u64).next_multiple_of(LINE)
}

/// Frames a message, and pads it to `len` bytes.
fn framed(metadata: &[u8], len: u64) -> Vec<u8> {
    assert!(framed_len(metadata) <= len, "a message of {} bytes in a slot of {len}", metadata.len());
    let mut bytes = Vec::with_capacity(len as usize);
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&(len as u32 - PREFIX as u32).to_le_bytes());
    bytes.extend_from_slice(metadata);
    bytes.resize(len as usize, 0);
    bytes
}

/// Returns the metadata of message number `number` of a published footer, with its body at byte `base` of the file.
/// Message 0 is the record batch, the others are the dictionaries. `None` if counters exceed the size of any file.
pub(in crate::table) fn message_metadata(
    plan: &Plan,
    number: usize,
    regions: &[Region],
    base: u64,
    counters: &[u64],
) -> Option<BatchMetadata> {
    let Some(number) = number.checked_sub(1) else {
        let mut metadata = BatchMetadata::with_capacity(counters[ROWS], plan.regions);
        for column in &plan.columns {
            describe(column, counters[ROWS], regions, base, counters, &mut metadata)?;
        }
        return Some(metadata);
    };
    let dictionary = &plan.dictionaries[number];
    let entries = counters[dictionary.entries];
    let mut metadata = BatchMetadata::with_capacity(entries, dictionary.values.buffers());
    describe(&dictionary.values, entries, regions, base, counters, &mut metadata)?;
    Some(metadata)
}

/// Returns the encoded metadata of message number `number`, and the length of its body.
fn message(plan: &Plan, number: usize, regions: &[Region], base: u64, counters: &[u64]) -> Option<(Vec<u8>, i64)> {
    let metadata = message_metadata(plan, number, regions, base, counters)?;
    let dictionary = number.checked_sub(1).map(|number| (plan.dictionaries[number].id, IS_DELTA));
    Some((batch_metadata(&metadata, None, dictionary), metadata.body_length))
}

/// Adds a node and its children to a message. Returns `None` if counters exceed the size of any file.
fn describe(
    node: &PlanNode,
    rows: u64,
    regions: &[Region],
    base: u64,
    counters: &[u64],
    metadata: &mut BatchMetadata,
) -> Option<()> {
    let nulls = match node.kind {
        Storage::Nothing => rows,
        _ => node.nulls.map_or(0, |counter| counters[counter]),
    };
    metadata.nodes.push((rows as i64, nulls as i64));
    let lengths = node.lengths(rows, counters)?;
    for (number, &length) in lengths.iter().enumerate().take(node.buffers()) {
        add_buffer(metadata, regions[node.region + number], base, length);
    }
    if let Storage::Views { .. } = node.kind {
        metadata.variadics.push(1);
    }
    node.each_child(rows, counters, |child, rows| describe(child, rows, regions, base, counters, metadata))
}

/// Adds a buffer of `length` bytes to a message, whose body ends after it.
fn add_buffer(metadata: &mut BatchMetadata, region: Region, base: u64, length: u64) {
    if length == 0 {
        return metadata.buffers.push((0, 0));
    }
    debug_assert!(region.offset >= base, "buffers come after all messages");
    metadata.buffers.push(((region.offset - base) as i64, length as i64));
    // The body's end moves in steps, so that it is mostly the same in two messages. Some readers take it from the
    // footer, and the buffers from the message, which is a newer one if they were slow.
    let step = (region.capacity / STEPS).next_multiple_of(LINE).max(LINE);
    let end = length.next_multiple_of(step).min(region.capacity.next_multiple_of(LINE));
    metadata.body_length = metadata.body_length.max((region.offset - base + end) as i64);
}

/// Encodes the messages that begin at byte `at` of the file, and footer `number`, which points to them. Returns both,
/// the footer without the bytes after it; `None` if counters exceed the size of any file.
pub(in crate::table) fn encode_footer(
    sizes: &FooterSizes,
    plan: &Plan,
    header: &Header,
    counters: &[u64],
    (at, number): (u64, u64),
) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::with_capacity(sizes.group as usize);
    let mut blocks = Vec::with_capacity(sizes.messages.len());
    for (number, &len) in sizes.messages.iter().enumerate() {
        let offset = at + bytes.len() as u64;
        let (metadata, body_length) = message(plan, number, &header.regions, offset + len, counters)?;
        blocks.push(Block::new(offset as i64, len as i32, body_length));
        bytes.extend(framed(&metadata, len));
    }
    let (batch, dictionaries) = blocks.split_first()?;
    let footer = if header.shared == 0 {
        footer(&plan.schema.schema, dictionaries, std::slice::from_ref(batch), &[])
    } else {
        let distance = u32::try_from(header.shared_at() - header.footer_at(number)).ok()?;
        footer_with_shared_schema(&sizes.schema, distance, dictionaries, batch)?
    };
    Some((bytes, footer))
}

/// Returns the number of the footer that the footer's length selects; `None` if no footer has this length. The word has
/// no checksum.
pub(in crate::table) fn selected_footer(header: &Header, length: u32) -> Option<u64> {
    let count = u64::from(length).checked_div(header.footer)?;
    let fits = u64::from(length).is_multiple_of(header.footer);
    let number = count.checked_sub(1).filter(|_| fits)?;
    (header.shared..u64::from(header.slots)).contains(&number).then_some(number)
}

/// What a footer tells about itself.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct FooterStamp {
    /// The time when the footer was published, in µs since 1970; 0 if nothing was written in its place.
    pub time: u64,
    /// The offset of its messages in the file.
    pub messages: u64,
}

/// Returns the stamp of footer `number`, all of whose bytes are `bytes`.
pub(in crate::table) fn footer_stamp(header: &Header, bytes: &[u8], number: u64) -> FooterStamp {
    assert_eq!(bytes.len() as u64, header.footer, "the length of a footer");
    let messages = if header.shared == 0 { header.ring + number * header.slot } else { word_at(bytes, FOOTER_BATCH) };
    FooterStamp { time: word_at(bytes, bytes.len() - STAMP), messages }
}

/// Reads a little-endian word; 0 if the bytes end before it, as in a footer that is too short for a pointer to
/// messages.
fn word_at(bytes: &[u8], offset: usize) -> u64 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |raw| u64::from_le_bytes(*raw))
}

/// Returns true if the selected footer and its messages are the ones for `counters`. `read` fills its last argument
/// with the bytes of the file from an offset on.
pub(in crate::table) fn is_published<E>(
    sizes: &FooterSizes,
    plan: &Plan,
    header: &Header,
    counters: &[u64],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
) -> Result<bool, E> {
    let mut word = [0; 4];
    read(header.tail, &mut word)?;
    let Some(number) = selected_footer(header, u32::from_le_bytes(word)) else { return Ok(false) };
    let mut footer = vec![0; header.footer as usize];
    read(header.footer_at(number), &mut footer)?;
    let at = footer_stamp(header, &footer, number).messages;
    let end = header.ring + u64::from(header.slots) * header.slot;
    if at < header.ring || at.checked_add(sizes.group).is_none_or(|group| group > end) {
        return Ok(false);
    }
    let Some((messages, expected)) = encode_footer(sizes, plan, header, counters, (at, number)) else {
        return Ok(false);
    };
    let mut published = vec![0; messages.len()];
    read(at, &mut published)?;
    Ok(published == messages && footer.starts_with(&expected))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    /// Writers of format 1.0 refuse segments whose footers have no room for their own.
    #[test]
    fn early_writers_refuse_footers_that_share_a_schema() {
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        for (columns, data_type) in [(1, DataType::Null), (1, DataType::Int8), (1, text.clone()), (40, text)] {
            let fields = (0..columns).map(|number| Field::new("c".repeat(number), data_type.clone(), false));
            let plan = Plan::for_schema(&Arc::new(Schema::new(fields.collect::<Vec<_>>()))).unwrap();
            let (shared, early) = (FooterSizes::shared(&plan).unwrap(), FooterSizes::unshared(&plan).unwrap());
            assert!(shared.footer < early.footer, "{columns} × {data_type}: {} and {}", shared.footer, early.footer);
        }
    }
}
