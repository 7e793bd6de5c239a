//! The destination of rows: the buffers of a segment's file, or of a batch in memory.

use std::sync::Arc;

use super::entries::Entries;
use super::plan::Plan;
use crate::error::{Error, Result};

/// How far buffers are filled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    pub counters: Vec<u64>,
    /// The last byte of each bitmap, which the next row may share.
    pub tails: Vec<u8>,
}

/// A destination of rows: one buffer for each region of a plan, filled from its start on.
pub(crate) trait RowSink {
    fn plan(&self) -> &Arc<Plan>;

    /// Returns how far the buffers are filled.
    fn now(&mut self) -> &mut Mark;

    /// Returns reusable memory, which saves allocations.
    fn scratch(&mut self) -> &mut Vec<u8>;

    /// Writes `bytes` at byte `at` of region `region`, which must have room for them.
    fn put(&mut self, region: usize, at: u64, bytes: &[u8]) -> Result<()>;

    /// Writes the entries of dictionary `number` up to `upto` that are not written yet.
    #[inline]
    fn put_entries(&mut self, number: usize, entries: &Entries, upto: usize) -> Result<()> {
        let counter = self.plan().dictionaries[number].entries;
        if self.now().counters[counter] as usize >= upto {
            return Ok(());
        }
        put_new_entries(self, number, entries, upto)
    }
}

fn put_new_entries(into: &mut (impl RowSink + ?Sized), number: usize, entries: &Entries, upto: usize) -> Result<()> {
    let dictionary = &into.plan().clone().dictionaries[number];
    let from = into.now().counters[dictionary.entries] as usize;
    debug_assert!(from < upto, "entries that are not written yet");
    let new = entries.part(from..upto);
    let (text, ends) = new.ok_or_else(|| {
        Error::internal(format_args!("a dictionary of {} texts was to be written up to number {upto}", entries.len()))
    })?;
    into.put(dictionary.region + 2, entries.bytes(from), text)?;
    let offsets: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
    into.put(dictionary.region + 1, 4 * (from as u64 + 1), &offsets)?;
    into.now().counters[dictionary.entries] = upto as u64;
    into.now().counters[dictionary.bytes] = entries.bytes(upto);
    Ok(())
}
