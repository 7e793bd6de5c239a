//! Maps the buffers of a column in several segments side by side, as one array.
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
use crate::array::{ArrayParts, Bytes, require_little_endian, slice};
use crate::dataset::{BatchSlice, Column};
use crate::error::Result;
use crate::map::Mapping;
use crate::rows::Storage;

/// # One array
impl Column {
    /// Returns the whole column as one array without copying, if its bytes lie that way.
    ///
    /// They do in one batch, and in a table if values are fixed-width without nulls and all segments but the last are
    /// full. Otherwise returns `None`; use [`chunks`](Column::chunks) then.
    ///
    /// # Errors
    /// `InvalidData` for a damaged value; `Io` if the system has no more addresses.
    pub fn contiguous(&self) -> Result<Option<ArrayData>> {
        require_little_endian("making arrays of a column")?;
        self.with_change_check(|| self.join())
    }

    fn join(&self) -> Result<Option<ArrayData>> {
        let parts = self.as_dataset().parts().collect::<Result<Vec<_>>>()?;
        if let [part] = &parts[..] {
            return part.column(only_column(part)).map(Some);
        }
        let Some(extents) = adjacent_extents(&parts)? else { return Ok(None) };
        let (Some(first), Some(first_extent)) = (parts.first(), extents.first()) else { return Ok(None) };
        let width = first_extent.width;
        let buffers: Vec<_> =
            extents.iter().map(|extent| (&extent.segment.mapping, extent.offset, extent.rows * extent.width)).collect();
        let Ok(mapping) = Mapping::join(&buffers) else { return Ok(None) };
        let rows = mapping.len() / width;
        let Some(values) = Bytes::from_mapping(mapping)?.slice(0, rows * width) else { return Ok(None) };
        let data_type = self.data_type().clone();
        let joined = ArrayParts { data_type, len: rows, validity: None, buffers: vec![values], children: Vec::new() };
        let whole = joined.assemble().checked(&[])?;
        let start = first.rows.start;
        let len = parts.iter().map(|part| part.rows.len()).sum::<usize>();
        assert!(start + len <= rows, "rows {start} to {} of {rows} mapped ones", start + len);
        Ok(Some(slice(&whole, start, len)))
    }
}

/// The first values of a segment's column.
struct ColumnExtent<'a> {
    segment: &'a Segment,
    /// The offset of the values in the file.
    offset: usize,
    rows: usize,
    /// The bytes of a value.
    width: usize,
}

/// Returns the number, in the source of a part, of the only column of a [`Column`].
fn only_column(part: &BatchSlice<'_>) -> usize {
    part.piece.columns[0]
}

/// Returns the values of the parts, if they can be mapped side by side: each but the last fills its pages, and each
/// begins and ends with its segment.
fn adjacent_extents<'a>(parts: &[BatchSlice<'a>]) -> Result<Option<Vec<ColumnExtent<'a>>>> {
    let mut extents = Vec::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate() {
        let Some(mut extent) = column_extent(part)? else { return Ok(None) };
        let is_first = number == 0;
        let is_last = number + 1 == parts.len();
        // The first part may begin in the middle of its segment, and the last one may end there.
        if !is_first && part.rows.start != 0 || !is_last && part.rows.end != extent.rows {
            return Ok(None);
        }
        if is_last {
            extent.rows = part.rows.end;
        }
        let len = extent.rows * extent.width;
        if len == 0 || !is_last && !len.is_multiple_of(PAGE) {
            return Ok(None);
        }
        extents.push(extent);
    }
    Ok(if extents.is_empty() { None } else { Some(extents) })
}

/// Mappings begin and end at multiples of this: a multiple of the page size of every system with pages of up to 64 KiB.
const PAGE: usize = 64 << 10;

/// Returns all values of the part's segment; `None` if they are not fixed-width, or have nulls.
fn column_extent<'a>(part: &BatchSlice<'a>) -> Result<Option<ColumnExtent<'a>>> {
    let column = only_column(part);
    let Some((segment, number, rows)) = segment_of(part.piece.source.as_ref(), part.batch, column)? else {
        return Ok(None);
    };
    let array = part.checked(column)?;
    let Some(node) = segment.plan.columns.get(number) else { return Ok(None) };
    let Storage::Fixed { width } = node.kind else { return Ok(None) };
    if array.null_count() > 0 || width == 0 {
        return Ok(None);
    }
    let offset = segment.header.regions[node.values_region()].offset as usize;
    Ok(Some(ColumnExtent { segment, offset, rows: rows as usize, width }))
}
