//! The destination of rows: the buffers of a segment's file, or of a batch in memory.

use std::sync::Arc;

use super::dictionary_entries::DictionaryEntries;
use super::plan::{Plan, ROWS, Storage};
use crate::array::value_bytes::encode_view;
use crate::error::{Error, Result};
use crate::types::VIEW_WIDTH;

/// How far the buffers of a plan are filled. Bytes after that belong to no row, and are overwritten by the next ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct FillState {
    /// The counters of the plan: rows, nulls, bytes of text, items and entries so far.
    pub counters: Vec<u64>,
    /// The last byte of each bitmap, which the next row may share.
    pub tails: Vec<u8>,
}

impl FillState {
    /// Returns the number of rows, which is the first counter.
    #[inline]
    pub fn rows(&self) -> u64 {
        self.counters[ROWS]
    }
}

/// A destination of rows: one buffer for each region of a plan, filled from its start on.
///
/// The caller writes bytes with [`put`](RowSink::put), which counts nothing, and then adds to the counters of
/// [`fill_state`](RowSink::fill_state) what it has written. It must not write past the limits of the counters.
pub(crate) trait RowSink {
    fn plan(&self) -> &Arc<Plan>;

    /// Returns how far the buffers are filled.
    fn fill_state(&mut self) -> &mut FillState;

    /// Returns reusable memory, which saves allocations.
    fn scratch(&mut self) -> &mut Vec<u8>;

    /// Writes `bytes` at byte `at` of region `region`, which must have room for them.
    fn put(&mut self, region: usize, at: u64, bytes: &[u8]) -> Result<()>;

    /// Writes the entries of dictionary `number` up to `upto` that are not written yet.
    #[inline]
    fn put_entries(&mut self, number: usize, entries: &DictionaryEntries, upto: usize) -> Result<()> {
        let counter = self.plan().dictionaries[number].entries;
        if self.fill_state().counters[counter] as usize >= upto {
            return Ok(());
        }
        put_new_entries(self, number, entries, upto)
    }
}

/// Writes the entries of dictionary `number` up to `upto`, at least one of which is not written yet, and counts them.
fn put_new_entries(
    into: &mut (impl RowSink + ?Sized),
    number: usize,
    entries: &DictionaryEntries,
    upto: usize,
) -> Result<()> {
    let dictionary = &into.plan().clone().dictionaries[number];
    let from = into.fill_state().counters[dictionary.entries] as usize;
    debug_assert!(from < upto, "entries that are not written yet");
    let new = entries.part(from..upto);
    let (bytes, ends) = new.ok_or_else(|| {
        Error::internal(format_args!("a dictionary of {} values was to be written up to number {upto}", entries.len()))
    })?;
    let stored = &dictionary.values;
    let base = entries.bytes(from);

    match stored.kind {
        Storage::Fixed { .. } => into.put(stored.values_region(), base, bytes)?,
        Storage::Bytes { width, .. } => {
            into.put(stored.text_region(), base, bytes)?;
            let offsets: Vec<u8> = ends.iter().flat_map(|&end| offset(end, width)).collect();
            into.put(stored.values_region(), (from as u64 + 1) * width as u64, &offsets)?;
        }
        Storage::Views { .. } => {
            into.put(stored.text_region(), base, bytes)?;
            into.put(stored.values_region(), (VIEW_WIDTH * from) as u64, &views(bytes, ends, base))?;
        }
        other => return Err(Error::internal(format_args!("a dictionary whose values are {other:?}"))),
    }

    into.fill_state().counters[dictionary.entries] = upto as u64;
    if let Some(counter) = dictionary.bytes() {
        into.fill_state().counters[counter] = entries.bytes(upto);
    }
    Ok(())
}

/// Iterates over the `width` bytes of an offset.
fn offset(end: u32, width: usize) -> impl Iterator<Item = u8> {
    u64::from(end).to_le_bytes().into_iter().take(width)
}

/// Returns views of texts that follow each other from byte `base` of their buffer on, where they end at `ends`.
fn views(texts: &[u8], ends: &[u32], base: u64) -> Vec<u8> {
    let mut views = Vec::with_capacity(VIEW_WIDTH * ends.len());
    let mut start = 0;
    for &end in ends {
        let end = (u64::from(end) - base) as usize;
        views.extend(encode_view(&texts[start..end], base + start as u64));
        start = end;
    }
    views
}
