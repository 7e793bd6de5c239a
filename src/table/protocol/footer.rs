//! The footer for other Arrow readers: messages and a footer, in a ring of slots.
//!
//! To publish, the messages are written to a slot that no reader can be using, the footer to its own slot, and then the
//! footer's *length*, one aligned word, is stored: footers end at increasing distances before it, so another length
//! selects another footer (a flatbuffer ignores the bytes after it). A slot rests for a second before it is reused: the
//! time that another Arrow reader has between reading the footer and decoding the messages it points to.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::publish;
use crate::error::Error;
use crate::ipc::{BatchMetadata, Block, batch_metadata, footer};
use crate::map::Store;
use crate::rows::{Plan, PlanNode, Region, Storage};
use crate::table::format::{Header, LINE, SLOTS};

/// How long a slot rests, in milliseconds.
static REST: AtomicU64 = AtomicU64::new(1000);
/// When half of the slots are in use, footers are published at most at this interval, so that one is always free.
const PACE: Duration = Duration::from_millis(2 * 1000 / SLOTS);
/// How long a slot rests.
pub(in crate::table) fn rest() -> Duration {
    Duration::from_millis(REST.load(Ordering::Relaxed))
}

/// Simulates that the places of published footers rest for so long before they are used again, which is a second.
pub fn pretend_rest(rest: Duration) {
    REST.store(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The number of times that the end of a body moves while a buffer is filled.
const STEPS: u64 = 16;
/// Bytes after each footer for its publication time.
pub(in crate::table) const STAMP: usize = 8;

/// The sizes of a slot's parts, which depend on the schema only.
#[derive(Clone, Debug)]
pub(in crate::table) struct Sizes {
    /// The record batch message, then the dictionary messages.
    pub messages: Vec<u64>,
    pub slot: u64,
    pub footer: u64,
}

impl Sizes {
    pub fn of(plan: &Plan) -> Option<Sizes> {
        // Zeros are omitted from a flatbuffer, so the largest message is one without zeros.
        let region = Region { offset: 1 << 40, capacity: 1 << 40 };
        let regions = vec![region; plan.regions];
        let counters = vec![1 << 30; plan.counters];
        let len = |number| Some(framed_len(&message(plan, number, &regions, 1, &counters)?.0));
        let messages = (0..1 + plan.dictionaries.len()).map(len).collect::<Option<Vec<u64>>>()?;
        let blocks = vec![Block::new(1 << 40, 1, 1 << 40); messages.len()];
        let footer = footer(&plan.schema.schema, &blocks[1..], &blocks[..1], &[]);
        let footer = (footer.len() + STAMP) as u64;
        Some(Sizes { slot: messages.iter().sum(), messages, footer: footer.next_multiple_of(LINE) })
    }
}

fn framed_len(metadata: &[u8]) -> u64 {
    (8 + metadata.len() as u64).next_multiple_of(LINE)
}

/// A message padded to `len` bytes.
fn framed(metadata: &[u8], len: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len as usize);
    bytes.extend(u32::MAX.to_le_bytes());
    bytes.extend((len as u32 - 8).to_le_bytes());
    bytes.extend(metadata);
    bytes.resize(len as usize, 0);
    bytes
}

/// Message number `number` of a published footer, with its body at byte `base` of the file: the record batch, then the
/// dictionaries.
pub(in crate::table) fn said(
    plan: &Plan,
    number: usize,
    regions: &[Region],
    base: u64,
    counters: &[u64],
) -> Option<BatchMetadata> {
    let Some(number) = number.checked_sub(1) else {
        let mut said = BatchMetadata::with_room(counters[0], plan.regions);
        for column in &plan.columns {
            describe(column, counters[0], regions, base, counters, &mut said)?;
        }
        return Some(said);
    };
    let dictionary = &plan.dictionaries[number];
    let entries = counters[dictionary.entries];
    let mut said = BatchMetadata::with_room(entries, 4);
    describe(&dictionary.values, entries, regions, base, counters, &mut said)?;
    Some(said)
}

/// The metadata of message number `number`, and the length of its body.
fn message(plan: &Plan, number: usize, regions: &[Region], base: u64, counters: &[u64]) -> Option<(Vec<u8>, i64)> {
    let said = said(plan, number, regions, base, counters)?;
    let dictionary = number.checked_sub(1).map(|number| (plan.dictionaries[number].id, false));
    Some((batch_metadata(&said, None, dictionary), said.body_length))
}

/// Describes a node and its children. `None` if counters exceed the size of any file.
fn describe(
    node: &PlanNode,
    rows: u64,
    regions: &[Region],
    base: u64,
    counters: &[u64],
    said: &mut BatchMetadata,
) -> Option<()> {
    let nulls = match node.kind {
        Storage::Nothing => rows,
        _ => node.nulls.map_or(0, |counter| counters[counter]),
    };
    said.nodes.push((rows as i64, nulls as i64));
    let lengths = node.lengths(rows, counters)?;
    for (number, &length) in lengths.iter().enumerate().take(node.buffers()) {
        add_buffer(said, regions[node.region + number], base, length);
    }
    if let Storage::Views { .. } = node.kind {
        said.variadics.push(1);
    }
    node.each_child(rows, counters, |child, rows| describe(child, rows, regions, base, counters, said))
}

fn add_buffer(said: &mut BatchMetadata, region: Region, base: u64, length: u64) {
    if length == 0 {
        return said.buffers.push((0, 0));
    }
    said.buffers.push(((region.offset - base) as i64, length as i64));
    // The body's end moves in steps: some readers take it from the footer and the buffers from the message, which may
    // be a newer one if they were slow.
    let step = (region.capacity / STEPS).next_multiple_of(LINE).max(LINE);
    let end = length.next_multiple_of(step).min(region.capacity.next_multiple_of(LINE));
    said.body_length = said.body_length.max((region.offset - base + end) as i64);
}

/// The bytes of a published footer in slot `slot`: its messages, and its footer without the bytes after it.
pub(in crate::table) fn encoded(
    sizes: &Sizes,
    plan: &Plan,
    header: &Header,
    counters: &[u64],
    slot: u64,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let start = header.ring + slot * header.slot;
    let mut bytes = Vec::with_capacity(header.slot as usize);
    let mut blocks = Vec::new();
    for (number, &len) in sizes.messages.iter().enumerate() {
        let at = start + bytes.len() as u64;
        let (metadata, body_length) = message(plan, number, &header.regions, at + len, counters)?;
        blocks.push(Block::new(at as i64, len as i32, body_length));
        bytes.extend(framed(&metadata, len));
    }
    Some((bytes, footer(&plan.schema.schema, &blocks[1..], &blocks[..1], &[])))
}

/// The slot that the footer's length selects; `None` if it is the length of no footer. It has no checksum.
pub(in crate::table) fn chosen(header: &Header, length: u32) -> Option<u64> {
    let number = u64::from(length).checked_div(header.footer)?;
    let fits = u64::from(length).is_multiple_of(header.footer) && (1..=u64::from(header.slots)).contains(&number);
    fits.then(|| number - 1)
}

/// The free slots, and the published one.
#[derive(Debug)]
pub(in crate::table) struct PublishedFooter {
    sizes: Sizes,
    free: Vec<u64>,
    /// Slots and when they were retired, oldest first.
    resting: VecDeque<(u64, Instant)>,
    current: Option<u64>,
    last: Option<Instant>,
    /// The sequence of the published commit.
    pub published: u64,
}

impl PublishedFooter {
    /// The state of a new segment; nothing is published yet.
    pub fn new(sizes: Sizes, header: &Header) -> PublishedFooter {
        let free = (0..header.slots.into()).rev().collect();
        PublishedFooter { sizes, free, resting: VecDeque::new(), current: None, last: None, published: 0 }
    }

    /// The state of a segment whose footer another process may have published a moment ago.
    pub fn reopen(sizes: Sizes, header: &Header, store: &Store) -> io::Result<PublishedFooter> {
        let mut footer = PublishedFooter::new(sizes, header);
        footer.current = chosen(header, store.load32(header.tail));
        let mut stamps = Vec::new();
        for slot in 0..u64::from(header.slots) {
            let mut stamp = [0; STAMP];
            store.read(header.tail - slot * header.footer - STAMP as u64, &mut stamp)?;
            stamps.push((u64::from_le_bytes(stamp), slot));
        }
        stamps.sort_unstable();
        let now = (Instant::now(), unix_micros());
        // A published footer was retired when the next one was published; clocks that went back count as now.
        let retired = |next: u64| now.0.checked_sub(Duration::from_micros(now.1.saturating_sub(next)));
        footer.free.clear();
        for (number, &(stamp, slot)) in stamps.iter().enumerate() {
            let next = stamps.get(number + 1).map_or(now.1, |next| next.0);
            match retired(next).filter(|_| stamp > 0 && Some(slot) != footer.current) {
                Some(at) if at.elapsed() < rest() => footer.resting.push_back((slot, at)),
                _ if Some(slot) == footer.current => (),
                _ => footer.free.push(slot),
            }
        }
        Ok(footer)
    }

    /// The time until the next footer may be published, which leaves slots for urgent ones.
    pub fn wait(&mut self) -> Duration {
        let slot = self.wait_for_slot();
        if self.free.len() as u64 > SLOTS / 2 {
            return Duration::ZERO;
        }
        slot.max(self.last.map_or(Duration::ZERO, |last| PACE.saturating_sub(last.elapsed())))
    }

    /// The time until any slot has rested.
    pub fn wait_for_slot(&mut self) -> Duration {
        self.rested();
        let first = self.resting.front().filter(|_| self.free.is_empty());
        first.map_or(Duration::ZERO, |(_, since)| rest().saturating_sub(since.elapsed()))
    }

    fn rested(&mut self) {
        while self.resting.front().is_some_and(|(_, since)| since.elapsed() >= rest()) {
            self.free.extend(self.resting.pop_front().map(|(slot, _)| slot));
        }
    }

    /// Publishes `counters`, which commit `sequence` made visible. Call it only after `wait` returned zero, or if a
    /// slow reader may lose the slot it is using.
    pub fn publish(
        &mut self,
        store: &Store,
        plan: &Plan,
        header: &Header,
        counters: &[u64],
        sequence: u64,
    ) -> io::Result<()> {
        self.rested();
        let taken = self.take().or_else(|| self.resting.pop_front().map(|(slot, _)| slot));
        let slot = taken.ok_or_else(|| io::Error::other("the ring of published footers has no slots"))?;
        let Some((messages, footer)) = self.encode(plan, header, counters, slot) else {
            self.free.push(slot);
            return Err(io::Error::other(Error::internal("the counters of a commit are beyond their limits")));
        };
        if slot >= u64::from(header.slots) {
            let slots = header.slots;
            return Err(io::Error::other(Error::internal(format_args!("a footer in slot {slot} of {slots}"))));
        }
        let length = (slot + 1) * header.footer;
        let slot_at = header.ring + slot * header.slot;
        let footer_at = header.tail - length;
        let flip = (header.tail, length as u32);
        if let Err(e) = publish::flip(store, (slot_at, &messages), (footer_at, &footer), flip) {
            self.free.push(slot);
            return Err(e);
        }
        let now = Instant::now();
        self.resting.extend(self.current.replace(slot).map(|before| (before, now)));
        (self.last, self.published) = (Some(now), sequence);
        Ok(())
    }

    /// The free slot below the current one, or the last of all if there is none: Polars reads the footer's length
    /// twice, and refuses the file if the second is greater, so lengths should rarely grow.
    fn take(&mut self) -> Option<u64> {
        let below = |slot: u64| self.current.is_none_or(|current| slot < current);
        let (number, _) = self.free.iter().enumerate().max_by_key(|&(_, &slot)| (below(slot), slot))?;
        Some(self.free.swap_remove(number))
    }

    /// The bytes of a slot, and of the footer with the same number.
    fn encode(&self, plan: &Plan, header: &Header, counters: &[u64], slot: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let (bytes, mut footer) = encoded(&self.sizes, plan, header, counters, slot)?;
        footer.resize(header.footer as usize - STAMP, 0);
        footer.extend(unix_micros().to_le_bytes());
        Some((bytes, footer))
    }

    /// The parts of the file used only by slots that have rested or were never used.
    pub fn unused(&mut self, header: &Header) -> Vec<(u64, u64)> {
        self.rested();
        let mut used: Vec<u64> = self.resting.iter().map(|&(slot, _)| slot).chain(self.current).collect();
        used.sort_unstable();
        let ends = used.iter().map(|slot| slot + 1);
        let starts = std::iter::once(0).chain(ends);
        let gaps = starts.zip(used.iter().copied().chain([u64::from(header.slots)])).filter(|(from, to)| from < to);
        // Slots are in increasing order of their numbers, footers in decreasing order.
        let slot = |number: u64| header.ring + number * header.slot;
        let footer = |number: u64| header.tail - number * header.footer;
        gaps.flat_map(|(from, to)| [(slot(from), slot(to)), (footer(to), footer(from))]).collect()
    }
}

fn unix_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
