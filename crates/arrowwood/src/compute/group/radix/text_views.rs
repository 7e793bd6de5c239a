//! Makes views of the texts of partitions. Long texts stay in the dataset, so that no text is copied.
//!
//! A view has 16 bytes: the length of the text in the first four, and behind it either the text, if it is short, or its
//! first four bytes, the number of the buffer that has it, and its offset there (the Arrow format's `BinaryView`).

use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::array::ArrayParts;
use crate::array::access::{Texts, fixed_values};
use crate::error::{Error, Result};
use crate::types::{MAX_INLINE, VIEW_WIDTH};

/// The maximum number of buffers with the texts of a chunk, as each of its partitions refers to all of them.
const MAX_BUFFERS: usize = 64;
/// The bits of a view where its first four bytes of text begin.
const PREFIX_SHIFT: u32 = 32;
/// The bits of the view of a long text where the number of its buffer begins.
const BUFFER_SHIFT: u32 = 64;
/// The bits of the view of a long text where its offset in the buffer begins.
const OFFSET_SHIFT: u32 = 96;

/// Rows of one batch.
pub(super) type ArraySpan<'a> = (&'a ArrayData, Range<usize>);

/// Where the texts of a span lie.
struct SpanBuffer {
    /// The number of the buffer, or of the first one for a span of views.
    buffer: u32,
    /// The address of the buffer's first byte; not used for a span of views.
    address: usize,
}

/// Makes an array of views of the texts or bytes of a chunk, in two steps: [`write`](TextViewBuilder::write) writes the
/// views to memory of the caller, which may be a part of a larger buffer, and [`finish`](TextViewBuilder::finish) makes
/// the array when that memory has become a buffer.
pub(super) struct TextViewBuilder<'a> {
    spans: Vec<ArraySpan<'a>>,
    /// The buffer of each span.
    span_buffers: Vec<SpanBuffer>,
    /// The buffers of the array; the first one is replaced by the views.
    buffers: Vec<Buffer>,
}

impl<'a> TextViewBuilder<'a> {
    /// Creates a builder; `None` if the texts are in too many or too large buffers.
    pub(super) fn try_new(spans: Vec<ArraySpan<'a>>) -> Result<Option<TextViewBuilder<'a>>> {
        let mut buffers = vec![Buffer::default()];
        let mut span_buffers = Vec::with_capacity(spans.len());
        for span in &spans {
            match SpanBuffer::try_new(span, &mut buffers)? {
                Some(span) if buffers.len() <= MAX_BUFFERS => span_buffers.push(span),
                _ => return Ok(None),
            }
        }
        Ok(Some(TextViewBuilder { spans, span_buffers, buffers }))
    }

    /// Writes the view of each row to its position in `out`. Rows with a position outside of `out` are skipped.
    pub(super) fn write(&self, positions: &[u16], out: &mut [u8]) -> Result<()> {
        let rows: usize = self.spans.iter().map(|(_, rows)| rows.len()).sum();
        assert_eq!(positions.len(), rows, "each row of a chunk has a position");
        let out = &mut out.as_chunks_mut::<VIEW_WIDTH>().0[..];
        let mut positions = positions.iter();
        for ((array, rows), span) in self.spans.iter().zip(&self.span_buffers) {
            span.write(array, rows, &mut positions, out)?;
        }
        Ok(())
    }

    /// Returns the `len` texts whose views were written to `views`.
    pub(super) fn finish(mut self, views: Buffer, positions: &[u16], len: usize) -> Result<ArrayData> {
        assert_eq!(views.len(), len * VIEW_WIDTH, "each text has a view");
        self.buffers[0] = views;
        let validity = validity(&self.spans, positions, len);
        let parts =
            ArrayParts { data_type: DataType::BinaryView, len, validity, buffers: self.buffers, children: Vec::new() };
        parts.assemble().checked(&[])
    }
}

impl SpanBuffer {
    /// Adds the buffers of a span to `buffers`. The first of these is reserved for views, and views do not count it.
    fn try_new((array, rows): &ArraySpan<'_>, buffers: &mut Vec<Buffer>) -> Result<Option<SpanBuffer>> {
        let buffer = (buffers.len() - 1) as u32;
        if let DataType::Utf8View | DataType::BinaryView = array.data_type() {
            buffers.extend(array.buffers().iter().skip(1).cloned());
            return Ok(Some(SpanBuffer { buffer, address: 0 }));
        }
        if rows.is_empty() {
            return Ok(Some(SpanBuffer { buffer, address: 0 }));
        }
        let texts = Texts::try_new(*array)?;
        let address = address(texts.get(rows.start)?);
        let end = texts.get(rows.end - 1)?.as_ptr_range().end as usize;
        let data = array.buffers().get(1).ok_or_else(|| Error::internal("a column of text has no bytes"))?;
        let start = address.checked_sub(data.as_ptr() as usize);
        let len = end.checked_sub(address).filter(|&len| i32::try_from(len).is_ok());
        let (Some(start), Some(len)) = (start, len) else { return Ok(None) };
        buffers.push(data.slice_with_length(start, len));
        Ok(Some(SpanBuffer { buffer, address }))
    }

    /// Writes the views of a span's rows to their positions in `out`.
    fn write<'p>(
        &self,
        array: &ArrayData,
        rows: &Range<usize>,
        positions: &mut impl Iterator<Item = &'p u16>,
        out: &mut [[u8; VIEW_WIDTH]],
    ) -> Result<()> {
        if let DataType::Utf8View | DataType::BinaryView = array.data_type() {
            let views = fixed_values::<VIEW_WIDTH>(array).get(rows.clone());
            let views = views.ok_or_else(|| Error::invalid("fewer values than rows"))?;
            for (view, &position) in views.iter().zip(positions.by_ref()) {
                let mut view = u128::from_le_bytes(*view);
                // Buffers have other numbers in the new array.
                if view as u32 > MAX_INLINE as u32 {
                    view += u128::from(self.buffer) << BUFFER_SHIFT;
                }
                put(out, position, view.to_le_bytes());
            }
            return Ok(());
        }
        let texts = Texts::try_new(array)?;
        let mut long_texts = Vec::new();
        let mut row = rows.start;
        texts.each_short(rows.clone(), |len, bytes| {
            let Some(&position) = positions.next() else { return };
            match len {
                0..=MAX_INLINE => put(out, position, (bytes << PREFIX_SHIFT | len as u128).to_le_bytes()),
                _ => long_texts.push((row, position)),
            }
            row += 1;
        })?;
        for (row, position) in long_texts {
            let bytes = texts.get(row)?;
            let prefix = bytes.first_chunk().map_or(0, |raw| u32::from_le_bytes(*raw));
            let offset = address(bytes).wrapping_sub(self.address) as u32;
            let view = u128::from(offset) << OFFSET_SHIFT
                | u128::from(self.buffer) << BUFFER_SHIFT
                | u128::from(prefix) << PREFIX_SHIFT
                | bytes.len() as u128;
            put(out, position, view.to_le_bytes());
        }
        Ok(())
    }
}

fn address(bytes: &[u8]) -> usize {
    bytes.as_ptr() as usize
}

/// Writes a row's value to its position, unless the position is outside of `out`.
#[inline(always)]
pub(super) fn put<const N: usize>(out: &mut [[u8; N]], position: u16, value: [u8; N]) {
    if let Some(out) = out.get_mut(usize::from(position)) {
        *out = value;
    }
}

/// Returns the validity bitmap and the number of nulls of the rows at their positions, if there are nulls.
fn validity(spans: &[ArraySpan<'_>], positions: &[u16], len: usize) -> Option<(Buffer, usize)> {
    if spans.iter().all(|(array, _)| array.null_count() == 0) {
        return None;
    }
    let mut bits = vec![u8::MAX; len.div_ceil(8)];
    let mut positions = positions.iter().map(|&position| usize::from(position));
    let mut nulls = 0;
    for (array, rows) in spans {
        for (row, position) in rows.clone().zip(positions.by_ref()) {
            if array.is_null(row) && position < len {
                bits[position / 8] &= !(1 << (position % 8));
                nulls += 1;
            }
        }
    }
    (nulls > 0).then(|| (Buffer::from_vec(bits), nulls))
}
