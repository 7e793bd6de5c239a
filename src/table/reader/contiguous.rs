//! A column over several segments as one array: their buffers mapped side by side.
//!
//! ```text
//! segment 0   [ ts ][ price ]…        full: `price` ends where its last page does
//! segment 1   [ ts ][ price ]…        full
//! segment 2   [ ts ][ pri… ]…         live
//! mapping     [ price 0 ][ price 1 ][ pri… ]
//! ```

use arrow_data::ArrayData;

use super::live::segment_of;
use super::segment::Segment;
use crate::array::{ArrayParts, Bytes, slice};
use crate::dataset::{BatchSlice, Column};
use crate::error::Result;
use crate::map::Mapping;
use crate::rows::Storage;

impl Column {
    /// Returns the whole column as one array, without copying: if it is in one batch, or fixed-width without nulls and
    /// in full segments of a table, the last of which may be live. Otherwise returns `None`; use
    /// [`chunks`](Column::chunks) then.
    ///
    /// # Errors
    /// `InvalidData` for a damaged value; `Io` if the system has no more addresses.
    pub fn contiguous(&self) -> Result<Option<ArrayData>> {
        self.with_change_check(|| self.join())
    }

    fn join(&self) -> Result<Option<ArrayData>> {
        let parts = self.as_dataset().parts().collect::<Result<Vec<_>>>()?;
        if let [part] = &parts[..] {
            return part.column(part.piece.columns[0]).map(Some);
        }
        let Some(places) = places(&parts)? else { return Ok(None) };
        let joined: Vec<_> = places.iter().map(|place| (&place.segment.mapping, place.offset, place.len)).collect();
        let Ok(mapping) = Mapping::join(&joined) else { return Ok(None) };
        let first = &parts[0];
        let last = &parts[parts.len() - 1];
        let rows = mapping.len() / places[0].width;
        let Some(values) = Bytes::from_mapping(mapping)?.slice(0, rows * places[0].width) else { return Ok(None) };
        let data_type = self.data_type().clone();
        let joined = ArrayParts { data_type, len: rows, validity: None, buffers: vec![values], children: Vec::new() };
        let whole = joined.assemble().checked(&[])?;
        debug_assert_eq!(last.rows.start, 0);
        let len = parts.iter().map(|part| part.rows.len()).sum();
        Ok(Some(slice(&whole, first.rows.start, len)))
    }
}

/// The values of a segment's column.
struct ColumnExtent<'a> {
    segment: &'a Segment,
    offset: usize,
    len: usize,
    width: usize,
}

/// The location of the parts' values, if they can be mapped side by side.
fn places<'a>(parts: &[BatchSlice<'a>]) -> Result<Option<Vec<ColumnExtent<'a>>>> {
    let mut places = Vec::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate() {
        let Some(place) = place(part)? else { return Ok(None) };
        let is_last = number + 1 == parts.len();
        let starts = part.rows.start == 0 || number == 0;
        let ends = place.1 == part.rows.end as u64 || is_last;
        let rows = if is_last { part.rows.end } else { place.1 as usize };
        let place = ColumnExtent { len: rows * place.0.width, ..place.0 };
        let is_whole = place.len.is_multiple_of(PAGE) || is_last;
        if !(starts && ends && is_whole && place.len > 0) {
            return Ok(None);
        }
        places.push(place);
    }
    Ok((!places.is_empty()).then_some(places))
}

/// A multiple of the page size of every system with pages of up to 64 KiB.
const PAGE: usize = 64 << 10;

/// The values of the part's segment, and its rows; `None` if they are not fixed-width, or have nulls.
fn place<'a>(part: &BatchSlice<'a>) -> Result<Option<(ColumnExtent<'a>, u64)>> {
    let column = part.piece.columns[0];
    let Some((segment, number, rows)) = segment_of(part.piece.source.as_ref(), part.batch, column)? else {
        return Ok(None);
    };
    let array = part.checked(column)?;
    let Some(node) = segment.plan.columns.get(number) else { return Ok(None) };
    let Storage::Fixed { width } = node.kind else { return Ok(None) };
    let offset = segment.header.regions[node.region + 1].offset as usize;
    let is_plain = array.null_count() == 0 && width > 0;
    Ok(is_plain.then_some((ColumnExtent { segment, offset, len: 0, width }, rows)))
}
