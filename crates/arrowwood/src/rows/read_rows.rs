//! Reads rows of a column back from the buffers to which they were written.

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;

use super::plan::{Plan, PlanNode, Storage, VIEW_OFFSET};
use crate::array::{ArrayParts, UncheckedArray};
use crate::error::{Error, Result};
use crate::types::{MAX_INLINE, VIEW_WIDTH};

/// The size in bytes of the offsets of a dictionary's texts.
const ENTRY_OFFSET: usize = 4;

/// Fills its last argument with the bytes of a region from an offset on.
pub(crate) type ReadRegion<'a> = &'a mut dyn FnMut(usize, u64, &mut [u8]) -> Result<()>;

/// Returns rows `start .. end` of column `column`, which has no children, copied into memory; for a dictionary, only
/// the entries that occur.
///
/// # Errors
/// Returns the errors of `read`; `InvalidData` for damaged values.
pub(crate) fn read_rows(
    plan: &Plan,
    column: usize,
    (start, end): (u64, u64),
    read: ReadRegion<'_>,
) -> Result<ArrayData> {
    let node = plan.columns.get(column).ok_or_else(|| Error::internal(format_args!("rows of column {column}")))?;
    let from = start - start % 8;
    let rows = (end - from) as usize;
    let mut block = BlockReader { node, from, rows, read };
    let validity = match node.nulls {
        Some(_) => Some(block.bytes(node.region, from / 8, rows.div_ceil(8))?),
        None => None,
    };
    let (buffers, children) = match node.kind {
        Storage::Fixed { width } => {
            (vec![block.bytes(node.values_region(), from * width as u64, rows * width)?], Vec::new())
        }
        Storage::Bits => (vec![block.bytes(node.values_region(), from / 8, rows.div_ceil(8))?], Vec::new()),
        Storage::Bytes { width: 4, .. } => {
            (block.offsets_and_text(|raw: [u8; 4]| u32::from_le_bytes(raw).into())?, Vec::new())
        }
        Storage::Bytes { .. } => (block.offsets_and_text(u64::from_le_bytes)?, Vec::new()),
        Storage::Views { .. } => (block.views_and_text()?, Vec::new()),
        Storage::Keys { number, width } => block.keys_and_entries(plan, number, width)?,
        _ => return Err(Error::internal("rows of a nested column are read back")),
    };

    let validity = validity.map(|bits| {
        let nulls = (0..rows).filter(|row| bits[row / 8] >> (row % 8) & 1 == 0).count();
        (Buffer::from_vec(bits), nulls)
    });
    let buffers = buffers.into_iter().map(Buffer::from_vec).collect();
    let parts = ArrayParts { data_type: node.field.data_type().clone(), len: rows, validity, buffers, children };
    let array = parts.assemble().checked(&[])?;
    Ok(array.slice((start - from) as usize, (end - start) as usize))
}

/// Reads the buffers of a node for the rows `from .. from + rows`.
struct BlockReader<'a, 'b> {
    node: &'a PlanNode,
    /// The first row, a multiple of 8: bitmaps are cut at bytes.
    from: u64,
    rows: usize,
    read: ReadRegion<'b>,
}

impl BlockReader<'_, '_> {
    /// Reads bytes of a region.
    fn bytes(&mut self, region: usize, at: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        (self.read)(region, at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the offsets, rebased to begin with 0, and the text they refer to. `number` decodes an offset.
    fn offsets_and_text<const N: usize>(&mut self, number: impl Fn([u8; N]) -> u64) -> Result<Vec<Vec<u8>>> {
        let mut offsets = self.bytes(self.node.values_region(), self.from * N as u64, (self.rows + 1) * N)?;
        let (words, _) = offsets.as_chunks_mut::<N>();
        let first = if self.from == 0 { 0 } else { words.first().map_or(0, |&raw| number(raw)) };
        let mut last = 0;
        for word in words {
            let offset = number(*word).checked_sub(first).filter(|&offset| offset >= last).ok_or_else(out_of_order)?;
            last = offset;
            word.copy_from_slice(&offset.to_le_bytes()[..N]);
        }
        let text = self.bytes(self.node.text_region(), first, usize::try_from(last).map_err(|_| out_of_order())?)?;
        Ok(vec![offsets, text])
    }

    /// Reads the views, rebased likewise, and the text they refer to.
    fn views_and_text(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut views = self.bytes(self.node.values_region(), self.from * VIEW_WIDTH as u64, self.rows * VIEW_WIDTH)?;
        let (each, _) = views.as_chunks_mut::<VIEW_WIDTH>();
        let Some(first) = each.iter().filter_map(text_of_view).map(|text| text.start).min() else {
            let text = self.bytes(self.node.text_region(), 0, 0)?;
            return Ok(vec![views, text]);
        };
        let end = each.iter().filter_map(text_of_view).map(|text| text.end).max().unwrap_or(first);
        for view in each.iter_mut() {
            if let Some(text) = text_of_view(view) {
                view[VIEW_OFFSET].copy_from_slice(&((text.start - first) as u32).to_le_bytes());
            }
        }
        let text = self.bytes(self.node.text_region(), first, (end - first) as usize)?;
        Ok(vec![views, text])
    }

    /// Reads the keys of `width` bytes, renumbered to refer to the entries that occur, and these entries, which are
    /// texts with offsets of [`ENTRY_OFFSET`] bytes.
    fn keys_and_entries(
        &mut self,
        plan: &Plan,
        number: usize,
        width: usize,
    ) -> Result<(Vec<Vec<u8>>, Vec<UncheckedArray>)> {
        let mut keys = self.bytes(self.node.values_region(), self.from * width as u64, self.rows * width)?;
        let mut used: Vec<u64> = keys.chunks_exact(width).map(key_number).collect();
        used.sort_unstable();
        used.dedup();

        for key in keys.chunks_exact_mut(width) {
            let Ok(entry) = used.binary_search(&key_number(key)) else {
                return Err(Error::internal("a key that is not among the keys"));
            };
            key.copy_from_slice(&(entry as u64).to_le_bytes()[..width]);
        }

        let stored = &plan.dictionaries[number].values;
        let mut offsets = vec![0_u8; ENTRY_OFFSET];
        let mut text = Vec::new();
        for key in used {
            let mut bounds = [0; 2 * ENTRY_OFFSET];
            (self.read)(stored.values_region(), ENTRY_OFFSET as u64 * key, &mut bounds)?;
            let [a, b, c, d, e, f, g, h] = bounds;
            let start = u32::from_le_bytes([a, b, c, d]);
            let end = u32::from_le_bytes([e, f, g, h]);
            // The offset before the first entry is never written, and may be anything.
            let len = end.checked_sub(if key == 0 { 0 } else { start }).ok_or_else(out_of_order)? as usize;
            let before = text.len();
            text.resize(before + len, 0);
            (self.read)(stored.text_region(), (end as usize - len) as u64, &mut text[before..])?;
            offsets.extend((text.len() as u32).to_le_bytes());
        }

        let data_type = stored.field.data_type().clone();
        let len = offsets.len() / ENTRY_OFFSET - 1;
        let buffers = vec![Buffer::from_vec(offsets), Buffer::from_vec(text)];
        let values = ArrayParts { data_type, len, validity: None, buffers, children: Vec::new() }.assemble();
        Ok((vec![keys], vec![values]))
    }
}

/// Returns the bytes of text that a view refers to; `None` if it contains its text.
fn text_of_view(view: &[u8; VIEW_WIDTH]) -> Option<Range<u64>> {
    let (words, _) = view.as_chunks();
    let &[len, _first_bytes, _buffer, start] = words else { return None };
    let len = u64::from(u32::from_le_bytes(len));
    let start = u64::from(u32::from_le_bytes(start));
    if len > MAX_INLINE as u64 { Some(start..start + len) } else { None }
}

/// Decodes a key of any width.
fn key_number(key: &[u8]) -> u64 {
    key.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn out_of_order() -> Error {
    Error::invalid("offsets that were written decrease; `arrowwood check` says more")
}
