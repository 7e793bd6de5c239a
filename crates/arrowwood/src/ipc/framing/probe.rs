//! Recognizes segments of a growing table by the front of the file: a segment has a header after its schema.

use std::fs::File;

use super::footer::{FIRST_MESSAGE, MAGIC};
use super::message::{CONTINUATION, PREFIX};
use crate::error::{Error, Result};
use crate::map::os::read_exact_at;

/// The first bytes of a segment's header, which begins at a multiple of `PAGE` (docs/format.md).
pub(crate) const SEGMENT: [u8; 8] = *b"ArrwWood";
const PAGE: usize = 4096;

/// The first byte of the metadata of a segment's first message, the schema.
const SCHEMA: usize = FIRST_MESSAGE + PREFIX;

/// The limit of bytes of an empty message's metadata, with padding. Batches have more.
const MAX_EMPTY: usize = 255;

/// The metadata of an empty message as `empty_metadata` writes it. A segment's second message is empty.
const EMPTY: [u8; 20] = [12, 0, 0, 0, 0, 0, 6, 0, 8, 0, 6, 0, 6, 0, 0, 0, 0, 0, 4, 0];

/// The positions of a segment's schema metadata and header.
pub(crate) struct SegmentProbe {
    pub schema: std::ops::Range<usize>,
    pub header: usize,
}

/// Probes a file of `len` bytes; `None` if it is not a segment. `read` fills a slice with the bytes at an offset.
///
/// # Errors
/// `InvalidData` for a segment without its header, and the errors of `read`.
pub(crate) fn probe_segment(len: usize, read: impl Fn(usize, &mut [u8]) -> Result<()>) -> Result<Option<SegmentProbe>> {
    let mut start = [0; SCHEMA];
    let mut second = [0; PREFIX];
    let mut magic = [0; SEGMENT.len()];
    if len < start.len() {
        return Ok(None);
    }
    read(0, &mut start)?;
    if !start.starts_with(MAGIC) {
        return Ok(None);
    }

    let Some(schema_len) = metadata_len(&start[FIRST_MESSAGE..]) else { return Ok(None) };
    let schema_end = SCHEMA + schema_len;
    if len < schema_end + second.len() {
        return Ok(None);
    }

    read(schema_end, &mut second)?;
    // Other files have their first batch or their end here.
    let Some(empty_len) = metadata_len(&second).filter(|len| (1..=MAX_EMPTY).contains(len)) else { return Ok(None) };

    let header = (schema_end + PREFIX + empty_len).next_multiple_of(PAGE);
    if len < header + magic.len() {
        return Ok(None);
    }
    read(header, &mut magic)?;
    if magic == SEGMENT {
        return Ok(Some(SegmentProbe { schema: SCHEMA..schema_end, header }));
    }

    let mut metadata = vec![0; empty_len];
    read(schema_end + PREFIX, &mut metadata)?;
    // No other writer begins a file with an empty message.
    if metadata.starts_with(&EMPTY) {
        let got = magic.escape_ascii();
        return Err(Error::invalid(format!("the header at byte {header}: expected 'ArrwWood', got '{got}'")));
    }
    Ok(None)
}

/// Returns the length of a message's metadata by its prefix; `None` if it is not the prefix of a message.
fn metadata_len(prefix: &[u8]) -> Option<usize> {
    let (marker, len) = prefix.split_first_chunk::<4>()?;
    if *marker != CONTINUATION.to_le_bytes() {
        return None;
    }
    usize::try_from(i32::from_le_bytes(*len.first_chunk()?)).ok()
}

/// Returns true if `file` is a segment, complete at both ends. Other processes may write to a segment while it is open.
pub(crate) fn is_segment(file: &File, len: u64) -> bool {
    let mut tail = [0; MAGIC.len()];
    let Some(tail_start) = len.checked_sub(MAGIC.len() as u64) else { return false };
    if read_exact_at(file, &mut tail, tail_start).is_err() || tail != *MAGIC {
        return false;
    }
    let probe = probe_segment(len as usize, |offset, out| {
        read_exact_at(file, out, offset as u64).map_err(|e| Error::io("reading the front of the file", &e))
    });
    matches!(probe, Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use super::super::metadata::empty_metadata;
    use super::EMPTY;

    #[test]
    fn empty_message_equals_the_written_one() {
        assert_eq!(empty_metadata(), EMPTY);
    }
}
