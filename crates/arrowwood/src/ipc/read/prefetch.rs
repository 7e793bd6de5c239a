//! Fetches parts of an object in a store before they are read: small messages whole, otherwise all buffers of a column,
//! and a growing number of the following ones while batches are read in order. Does nothing for other bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::data::IpcData;
use super::decode::Batch;
use crate::array::{Fetch, ensure};
use crate::error::Result;
use crate::ipc::framing::{Footer, FooterBlocks};
use crate::map::MutexExt;

/// The limit of bytes of a body that is fetched with its header: a request costs as much as this many bytes.
const MAX_SMALL_BODY: usize = 1 << 20;
/// The limit of bytes that are fetched ahead.
const MAX_BYTES_AHEAD: usize = 32 << 20;
/// The limit of batches that are fetched ahead.
const MAX_BATCHES: usize = 64;
/// Half of the headers that are fetched first without their bodies, as each run begins by doubling.
const MIN_HEADERS: usize = 8;
/// The limit of headers that are fetched ahead without their bodies.
const MAX_HEADERS: usize = 1024;

/// Records the last reads to predict the next ones.
///
/// Each run has its own mutex, which is held only while the run is extended, not while bytes are fetched: of several
/// threads that read in order, each fetches a part of its own.
#[derive(Debug, Default)]
pub(super) struct Prefetcher {
    /// The messages that were fetched with their bodies, if these are small.
    messages: Mutex<BatchRun>,
    /// The messages that the walk has fetched without their bodies.
    headers: Mutex<BatchRun>,
    /// The batches of which each column was fetched.
    columns: Mutex<HashMap<usize, BatchRun>>,
}

/// A run of batches that are read in order.
#[derive(Clone, Copy, Debug, Default)]
struct BatchRun {
    /// The batch after the last fetched one.
    next: usize,
    /// The number of batches fetched last.
    count: usize,
}

impl BatchRun {
    /// Returns the batches to fetch for a read of `batch`: twice as many as last time if it continues the run, only
    /// this one otherwise.
    fn extend(&mut self, batch: usize, max_count: usize) -> Range<usize> {
        if batch < self.next && batch + self.count >= self.next {
            return batch..batch + 1;
        }
        self.count = if batch == self.next { (2 * self.count).clamp(1, max_count) } else { 1 };
        self.next = batch + self.count;
        debug_assert!(self.count > 0, "the batch that is read is among those fetched");
        batch..self.next
    }
}

impl Prefetcher {
    /// Fetches the messages of all dictionaries, without their bodies if they are large.
    pub(super) fn fetch_dictionaries(&self, data: &IpcData, footer: &Footer) -> Result<()> {
        fetch_messages(data, &footer.dictionaries, 0..footer.dictionaries.len(), MAX_SMALL_BODY)
    }

    /// Fetches the headers of batch `batch` and the following ones, as the walk reads each.
    pub(super) fn fetch_headers(&self, data: &IpcData, footer: &Footer, batch: usize) -> Result<()> {
        if data.bytes.fetch().is_none() {
            return Ok(());
        }
        let batches = {
            let mut run = self.headers.lock_ignoring_poison();
            run.count = run.count.max(MIN_HEADERS);
            run.extend(batch, MAX_HEADERS)
        };
        fetch_messages(data, &footer.batches, batches, 0)
    }

    /// Fetches the message of batch `batch`, without its body if it is large.
    pub(super) fn fetch_message(&self, data: &IpcData, footer: &Footer, batch: usize) -> Result<()> {
        if data.bytes.fetch().is_none() {
            return Ok(());
        }
        let batches = self.messages.lock_ignoring_poison().extend(batch, MAX_BATCHES);
        fetch_messages(data, &footer.batches, batches, MAX_SMALL_BODY)
    }

    /// Fetches the buffers of a column of batch `batch`, one of `batches`, unless the message was fetched whole.
    /// `read_header` returns the header of a batch.
    pub(super) fn fetch_column<'a>(
        &self,
        fetch: &Arc<dyn Fetch>,
        batch: usize,
        column: usize,
        batches: usize,
        read_header: impl Fn(usize) -> Result<Cow<'a, Batch>>,
    ) -> Result<()> {
        let header = read_header(batch)?;
        let mut ranges: Vec<_> = header.column_buffers(column).collect();
        if header.body.len > MAX_SMALL_BODY {
            let run = self.columns.lock_ignoring_poison().entry(column).or_default().extend(batch, MAX_BATCHES);
            let mut bytes: usize = ranges.iter().map(Range::len).sum();
            for next in run.start + 1..run.end.min(batches) {
                // The reader of that batch reports the error.
                let Ok(header) = read_header(next) else { break };
                let before = ranges.len();
                ranges.extend(header.column_buffers(column));
                bytes = bytes.saturating_add(ranges[before..].iter().map(Range::len).sum());
                if bytes > MAX_BYTES_AHEAD {
                    ranges.truncate(before);
                    break;
                }
            }
        }
        ranges.retain(|range| !range.is_empty());
        ensure(fetch, &ranges)
    }
}

/// Fetches messages that a footer lists, with bodies of up to `max_body` bytes. Skips blocks outside of the file, which
/// their reader reports.
fn fetch_messages(data: &IpcData, blocks: &FooterBlocks, numbers: Range<usize>, max_body: usize) -> Result<()> {
    let Some(fetch) = data.bytes.fetch() else { return Ok(()) };
    let size = data.bytes.len();
    let mut bytes = 0usize;
    let mut ranges = Vec::new();
    for number in numbers.start..numbers.end.min(blocks.len()) {
        let Some(range) = blocks.message_range(number, max_body, size).filter(|range| !range.is_empty()) else {
            continue;
        };
        bytes = bytes.saturating_add(range.len());
        if bytes > MAX_BYTES_AHEAD && !ranges.is_empty() {
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
    fn only_batches_in_order_are_prefetched() {
        let mut run = BatchRun::default();
        let fetched: Vec<_> = [0, 1, 2, 3, 4, 6, 7, 100, 5, 6].map(|batch| run.extend(batch, 4)).into();
        assert_eq!(fetched, [0..1, 1..3, 2..3, 3..7, 4..5, 6..7, 7..11, 100..101, 5..6, 6..8]);
    }
}
