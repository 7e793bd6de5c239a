//! Texts of partitions as views: short ones as they are, others by where they are in the dataset, so that none is copied.

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::array::ArrayParts;
use crate::array::access::{Texts, fixed_values};
use crate::error::{Error, Result};

/// The most buffers that the texts of a chunk are in: each of its partitions refers to all of them.
const MOST_BUFFERS: usize = 64;
/// The most bytes of a text in a view itself.
const INLINE: usize = 12;

/// Rows of one batch.
pub(super) type ArraySpan<'a> = (&'a ArrayData, Range<usize>);

/// Where the texts of a span are.
struct SpanBuffer {
    /// The number of the buffer, or the first one's of several.
    buffer: u32,
    /// The address of the buffer's first byte.
    address: usize,
}

/// Texts or bytes of a chunk, of which views are to be made.
pub(super) struct TextViewBuilder<'a> {
    spans: Vec<ArraySpan<'a>>,
    viewed: Vec<SpanBuffer>,
    buffers: Vec<Buffer>,
}

/// The bytes of a view.
pub(super) const VIEW: usize = size_of::<u128>();

impl<'a> TextViewBuilder<'a> {
    /// `None` if the texts are in too many buffers, or in too large ones.
    pub(super) fn try_new(spans: Vec<ArraySpan<'a>>) -> Result<Option<TextViewBuilder<'a>>> {
        let mut buffers = vec![Buffer::default()];
        let mut viewed = Vec::with_capacity(spans.len());
        for span in &spans {
            match SpanBuffer::try_new(span, &mut buffers)? {
                Some(span) if buffers.len() <= MOST_BUFFERS => viewed.push(span),
                _ => return Ok(None),
            }
        }
        Ok(Some(TextViewBuilder { spans, viewed, buffers }))
    }

    /// Writes the view of each row to its place in `out`, which all rows but those of other places fill.
    pub(super) fn put(&self, places: &[u16], out: &mut [u8]) -> Result<()> {
        let out = &mut out.as_chunks_mut::<VIEW>().0[..];
        let mut places = places.iter();
        for ((array, rows), span) in self.spans.iter().zip(&self.viewed) {
            span.put(array, rows, &mut places, out)?;
        }
        Ok(())
    }

    /// The `len` texts whose views were put into `views`.
    pub(super) fn array(mut self, views: Buffer, places: &[u16], len: usize) -> Result<ArrayData> {
        self.buffers[0] = views;
        let validity = validity(&self.spans, places, len);
        let parts =
            ArrayParts { data_type: DataType::BinaryView, len, validity, buffers: self.buffers, children: Vec::new() };
        parts.assemble().checked(&[])
    }
}

impl SpanBuffer {
    /// Adds the buffers of a span to `buffers`, of which the first is that of views.
    fn try_new((array, rows): &ArraySpan<'_>, buffers: &mut Vec<Buffer>) -> Result<Option<SpanBuffer>> {
        let buffer = (buffers.len() - 1) as u32;
        if let DataType::Utf8View | DataType::BinaryView = array.data_type() {
            buffers.extend(array.buffers().iter().skip(1).cloned());
            return Ok(Some(SpanBuffer { buffer, address: 0 }));
        }
        let Some(last) = rows.end.checked_sub(1).filter(|_| !rows.is_empty()) else {
            return Ok(Some(SpanBuffer { buffer, address: 0 }));
        };
        let texts = Texts::try_new(*array)?;
        let address = address(texts.get(rows.start)?);
        let end = texts.get(last)?.as_ptr_range().end as usize;
        let data = array.buffers().get(1).ok_or_else(|| Error::internal("a column of text has no bytes"))?;
        let start = address.checked_sub(data.as_ptr() as usize);
        let len = end.checked_sub(address).filter(|&len| i32::try_from(len).is_ok());
        let (Some(start), Some(len)) = (start, len) else { return Ok(None) };
        buffers.push(data.slice_with_length(start, len));
        Ok(Some(SpanBuffer { buffer, address }))
    }

    /// Writes the views of a span's rows to their places in `out`.
    fn put<'p>(
        &self,
        array: &ArrayData,
        rows: &Range<usize>,
        places: &mut impl Iterator<Item = &'p u16>,
        out: &mut [[u8; 16]],
    ) -> Result<()> {
        if let DataType::Utf8View | DataType::BinaryView = array.data_type() {
            let views = fixed_values::<16>(array).get(rows.clone()).unwrap_or_default();
            for (view, &place) in views.iter().zip(places.by_ref()) {
                let view = u128::from_le_bytes(*view);
                // Those of other buffers get the numbers that these have here.
                let moved = if view as u32 <= INLINE as u32 { view } else { view + (u128::from(self.buffer) << 64) };
                put(out, place, moved.to_le_bytes());
            }
            return Ok(());
        }
        let texts = Texts::try_new(array)?;
        let mut long = Vec::new();
        let mut row = rows.start;
        texts.each_short(rows.clone(), |len, bytes| {
            let Some(&place) = places.next() else { return };
            match len {
                0..=INLINE => put(out, place, (bytes << 32 | len as u128).to_le_bytes()),
                _ => long.push((row, place)),
            }
            row += 1;
        })?;
        for (row, place) in long {
            let bytes = texts.get(row)?;
            let prefix = bytes.first_chunk().map_or(0, |raw| u32::from_le_bytes(*raw));
            let offset = address(bytes).wrapping_sub(self.address) as u32;
            let place_of = u128::from(offset) << 96 | u128::from(self.buffer) << 64;
            put(out, place, (place_of | u128::from(prefix) << 32 | bytes.len() as u128).to_le_bytes());
        }
        Ok(())
    }
}

fn address(bytes: &[u8]) -> usize {
    bytes.as_ptr() as usize
}

/// Writes a row's value to the row's place, if it has one in `out`.
#[inline(always)]
pub(super) fn put<const N: usize>(out: &mut [[u8; N]], place: u16, value: [u8; N]) {
    if let Some(out) = out.get_mut(usize::from(place)) {
        *out = value;
    }
}

/// Validity bitmap and number of nulls of the rows at their places, if there are nulls.
fn validity(spans: &[ArraySpan<'_>], places: &[u16], len: usize) -> Option<(Buffer, usize)> {
    if spans.iter().all(|(array, _)| array.null_count() == 0) {
        return None;
    }
    let mut bits = vec![u8::MAX; len.div_ceil(8)];
    let mut places = places.iter().map(|&place| usize::from(place));
    let mut nulls = 0;
    for (array, rows) in spans {
        for (row, place) in rows.clone().zip(places.by_ref()) {
            if array.is_null(row) && place < len {
                bits[place / 8] &= !(1 << (place % 8));
                nulls += 1;
            }
        }
    }
    (nulls > 0).then(|| (Buffer::from_vec(bits), nulls))
}
