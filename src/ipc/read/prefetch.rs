//! What is fetched of an object in a store, and when: a message whole while it is small, else the buffers of a column at
//! once, and more and more of those that follow where batches are read in their order. Does nothing for other bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::data::IpcData;
use super::decode::Batch;
use crate::array::{Fetch, ensure};
use crate::error::Result;
use crate::ipc::framing::{Footer, FooterBlocks};
use crate::parallel::lock;

/// Bodies of up to this many bytes are fetched with their header: a request costs as much as this many bytes.
const SMALL: usize = 1 << 20;
/// The limit of bytes that are fetched ahead.
const MOST: usize = 32 << 20;
/// The limit of batches that are fetched ahead, and that of headers that are only counted.
const BATCHES: usize = 64;
const HEADERS: usize = 1024;

/// What was read last, to guess what is next.
#[derive(Debug, Default)]
pub(super) struct Prefetcher {
    messages: Mutex<BatchRun>,
    headers: Mutex<BatchRun>,
    columns: Mutex<HashMap<usize, BatchRun>>,
}

/// Batches that are read one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct BatchRun {
    /// The batch behind those fetched last.
    next: usize,
    count: usize,
}

impl BatchRun {
    /// Returns the batches to fetch where `batch` is read: that one, and twice as many as last time where it is the next.
    fn extended(&mut self, batch: usize, most: usize) -> Range<usize> {
        if batch < self.next && batch + self.count >= self.next {
            return batch..batch + 1;
        }
        self.count = if batch == self.next { (2 * self.count).clamp(1, most) } else { 1 };
        self.next = batch + self.count;
        batch..self.next
    }
}

impl Prefetcher {
    /// Brings the messages of all dictionaries, those with large bodies without them.
    pub(super) fn dictionaries(&self, data: &IpcData, footer: &Footer) -> Result<()> {
        let all = footer.dictionaries.len();
        bring(data, &footer.dictionaries, 0..all, SMALL)
    }

    /// Brings the headers of batch `batch` and of those behind it: the walk looks at each.
    pub(super) fn headers(&self, data: &IpcData, footer: &Footer, batch: usize) -> Result<()> {
        if data.bytes.fetch().is_none() {
            return Ok(());
        }
        let batches = {
            let mut run = lock(&self.headers);
            run.count = run.count.max(8);
            run.extended(batch, HEADERS)
        };
        bring(data, &footer.batches, batches, 0)
    }

    /// Brings the message of batch `batch`, without its body if that is large.
    pub(super) fn message(&self, data: &IpcData, footer: &Footer, batch: usize) -> Result<()> {
        if data.bytes.fetch().is_none() {
            return Ok(());
        }
        let batches = lock(&self.messages).extended(batch, BATCHES);
        bring(data, &footer.batches, batches, SMALL)
    }

    /// Brings the buffers of a column, `at` of a batch and its number, where the message was not fetched whole. `header`
    /// reads that of a batch.
    pub(super) fn column<'a>(
        &self,
        fetch: &Arc<dyn Fetch>,
        at: (usize, usize),
        all: usize,
        header: impl Fn(usize) -> Result<Cow<'a, Batch>>,
    ) -> Result<()> {
        let (batch, column) = at;
        let own = header(batch)?;
        let mut ranges: Vec<_> = own.buffers_of(column).collect();
        if own.body.1 > SMALL {
            let more = lock(&self.columns).entry(column).or_default().extended(batch, BATCHES);
            let mut bytes: usize = ranges.iter().map(Range::len).sum();
            for next in more.start + 1..more.end.min(all) {
                // What is wrong with it is found when it is read.
                let Ok(header) = header(next) else { break };
                let before = ranges.len();
                ranges.extend(header.buffers_of(column));
                bytes = bytes.saturating_add(ranges[before..].iter().map(Range::len).sum());
                if bytes > MOST {
                    ranges.truncate(before);
                    break;
                }
            }
        }
        ranges.retain(|range| !range.is_empty());
        ensure(fetch, &ranges)
    }
}

/// Brings messages that a footer lists, with bodies of up to `most` bytes. Those that can't be are left to their reader.
fn bring(data: &IpcData, blocks: &FooterBlocks, numbers: Range<usize>, most: usize) -> Result<()> {
    let Some(fetch) = data.bytes.fetch() else { return Ok(()) };
    let size = data.bytes.len();
    let mut bytes = 0usize;
    let mut ranges = Vec::new();
    for number in numbers.start..numbers.end.min(blocks.len()) {
        let Some(range) = blocks.message_range(number, most, size).filter(|range| !range.is_empty()) else { continue };
        bytes = bytes.saturating_add(range.len());
        if bytes > MOST && !ranges.is_empty() {
            break;
        }
        ranges.push(range);
    }
    ensure(fetch, &ranges)
}

#[cfg(test)]
mod tests {
    use super::BatchRun;

    #[test]
    fn batches_in_order_are_fetched_ahead_and_others_alone() {
        let mut run = BatchRun::default();
        let fetched: Vec<_> = [0, 1, 2, 3, 4, 6, 7, 100, 5, 6].map(|batch| run.extended(batch, 4)).into();
        assert_eq!(fetched, [0..1, 1..3, 2..3, 3..7, 4..5, 6..7, 7..11, 100..101, 5..6, 6..8]);
    }
}
