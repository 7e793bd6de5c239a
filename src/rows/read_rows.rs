//! Rows of a column, read back from the place they were written to.

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;

use super::plan::{Plan, PlanNode, Storage};
use crate::array::{ArrayParts, UncheckedArray};
use crate::error::{Error, Result};

/// Fills its last argument with the bytes of a region from an offset on.
pub(crate) type ReadRegion<'a> = &'a mut dyn FnMut(usize, u64, &mut [u8]) -> Result<()>;

/// Rows `start .. end` of column `column`, which has no children, copied into memory; for a dictionary, only the
/// entries that occur.
///
/// # Errors
/// The errors of `read`; `InvalidData` for damaged values.
pub(crate) fn read_rows(
    plan: &Plan,
    column: usize,
    (start, end): (u64, u64),
    read: ReadRegion<'_>,
) -> Result<ArrayData> {
    let node = plan.columns.get(column).ok_or_else(|| Error::internal(format_args!("rows of column {column}")))?;
    // Bitmaps are cut at bytes.
    let from = start - start % 8;
    let rows = (end - from) as usize;
    let mut block = BlockReader { node, from, rows, read };
    let validity = match node.nulls {
        Some(_) => Some(block.bytes(0, from / 8, rows.div_ceil(8))?),
        None => None,
    };
    let (buffers, children) = match node.kind {
        Storage::Fixed { width } => (vec![block.bytes(1, from * width as u64, rows * width)?], Vec::new()),
        Storage::Bits => (vec![block.bytes(1, from / 8, rows.div_ceil(8))?], Vec::new()),
        Storage::Bytes { width: 4, .. } => (block.texts(|raw: [u8; 4]| u32::from_le_bytes(raw).into())?, Vec::new()),
        Storage::Bytes { .. } => (block.texts(u64::from_le_bytes)?, Vec::new()),
        Storage::Views { .. } => (block.views()?, Vec::new()),
        Storage::Keys { number, width } => block.keys(plan, number, width)?,
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

struct BlockReader<'a, 'b> {
    node: &'a PlanNode,
    from: u64,
    rows: usize,
    read: ReadRegion<'b>,
}

impl BlockReader<'_, '_> {
    /// Reads bytes of the node's buffer number `buffer`.
    fn bytes(&mut self, buffer: usize, at: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        (self.read)(self.node.region + buffer, at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads the offsets, which begin with 0 then, and the text they refer to.
    fn texts<const N: usize>(&mut self, number: impl Fn([u8; N]) -> u64) -> Result<Vec<Vec<u8>>> {
        let mut offsets = self.bytes(1, self.from * N as u64, (self.rows + 1) * N)?;
        let (words, _) = offsets.as_chunks_mut::<N>();
        let first = if self.from == 0 { 0 } else { words.first().map_or(0, |&raw| number(raw)) };
        let mut last = 0;
        for word in words {
            let offset = number(*word).checked_sub(first).filter(|&offset| offset >= last).ok_or_else(out_of_order)?;
            last = offset;
            word.copy_from_slice(&offset.to_le_bytes()[..N]);
        }
        let text = self.bytes(2, first, usize::try_from(last).map_err(|_| out_of_order())?)?;
        Ok(vec![offsets, text])
    }

    /// Reads the views, and the text they refer to.
    fn views(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut views = self.bytes(1, self.from * 16, self.rows * 16)?;
        let (each, _) = views.as_chunks_mut::<16>();
        let Some(first) = each.iter().filter_map(text_of_view).map(|text| text.start).min() else {
            let text = self.bytes(2, 0, 0)?;
            return Ok(vec![views, text]);
        };
        let end = each.iter().filter_map(text_of_view).map(|text| text.end).max().unwrap_or(first);
        for view in each.iter_mut() {
            if let Some(text) = text_of_view(view) {
                view[12..16].copy_from_slice(&((text.start - first) as u32).to_le_bytes());
            }
        }
        let text = self.bytes(2, first, (end - first) as usize)?;
        Ok(vec![views, text])
    }

    /// Reads the keys of `width` bytes, and the entries that occur, which are texts.
    fn keys(&mut self, plan: &Plan, number: usize, width: usize) -> Result<(Vec<Vec<u8>>, Vec<UncheckedArray>)> {
        let mut keys = self.bytes(1, self.from * width as u64, self.rows * width)?;
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
        let mut offsets = vec![0_u8; 4];
        let mut text = Vec::new();
        for key in used {
            let mut ends = [0; 8];
            (self.read)(stored.region + 1, 4 * key, &mut ends)?;
            let [start, end] =
                [0, 4].map(|at| u32::from_le_bytes([ends[at], ends[at + 1], ends[at + 2], ends[at + 3]]));
            let len = end.checked_sub(if key == 0 { 0 } else { start }).ok_or_else(out_of_order)? as usize;
            let before = text.len();
            text.resize(before + len, 0);
            (self.read)(stored.region + 2, (end as usize - len) as u64, &mut text[before..])?;
            offsets.extend((text.len() as u32).to_le_bytes());
        }
        let data_type = stored.field.data_type().clone();
        let len = offsets.len() / 4 - 1;
        let buffers = vec![Buffer::from_vec(offsets), Buffer::from_vec(text)];
        let values = ArrayParts { data_type, len, validity: None, buffers, children: Vec::new() }.assemble();
        Ok((vec![keys], vec![values]))
    }
}

/// Returns the bytes of text that a view refers to; `None` if it holds its text.
fn text_of_view(view: &[u8; 16]) -> Option<Range<u64>> {
    let [.., a, b, c, d] = *view;
    let len = u64::from(u32::from_le_bytes([view[0], view[1], view[2], view[3]]));
    let start = u64::from(u32::from_le_bytes([a, b, c, d]));
    if len > 12 { Some(start..start + len) } else { None }
}

/// Decodes a key of any width.
fn key_number(key: &[u8]) -> u64 {
    key.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn out_of_order() -> Error {
    Error::invalid("offsets that were written decrease; `arrowwood check` says more")
}
