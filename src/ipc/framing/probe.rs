//! Probes the front of a file: a segment of a growing table has a header after its schema, another file has not.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::footer::MAGIC;
use crate::error::{Error, Result};

/// The first bytes of a segment's header, which begins at a multiple of `PAGE` (docs/format.md).
pub(crate) const SEGMENT: [u8; 8] = *b"ArrwWood";
const PAGE: usize = 4096;

/// The metadata of an empty message, which is a segment's second, as `empty_metadata` writes it.
const EMPTY: [u8; 20] = [12, 0, 0, 0, 0, 0, 6, 0, 8, 0, 6, 0, 6, 0, 0, 0, 0, 0, 4, 0];

/// The positions of a segment's schema metadata and header.
pub(crate) struct SegmentProbe {
    pub schema: std::ops::Range<usize>,
    pub header: usize,
}

/// Probes a file of `len` bytes; `None` if it is not a segment. `read` fills a slice with the bytes at an offset.
pub(crate) fn probe_segment(len: usize, read: impl Fn(usize, &mut [u8]) -> Result<()>) -> Result<Option<SegmentProbe>> {
    let mut start = [0; 16];
    let mut second = [0; 8];
    let mut magic = [0; 8];
    if len < start.len() {
        return Ok(None);
    }
    read(0, &mut start)?;
    let Some(schema) = frame(&start[8..]).filter(|_| start[..6] == *MAGIC) else { return Ok(None) };
    let behind = 16 + schema;
    if len < behind + second.len() {
        return Ok(None);
    }
    read(behind, &mut second)?;
    // Other files have their first batch or their end here.
    let Some(empty) = frame(&second).filter(|&len| len > 0 && len < 256) else { return Ok(None) };
    let header = (behind + 8 + empty).next_multiple_of(PAGE);
    if len < header + magic.len() {
        return Ok(None);
    }
    read(header, &mut magic)?;
    if magic == SEGMENT {
        return Ok(Some(SegmentProbe { schema: 16..behind, header }));
    }
    let mut between = vec![0; empty];
    read(behind + 8, &mut between)?;
    // No other writer begins a file with an empty message.
    if between.starts_with(&EMPTY) {
        let got = magic.escape_ascii();
        return Err(Error::invalid(format!("the header at byte {header}: expected 'ArrwWood', got '{got}'")));
    }
    Ok(None)
}

fn frame(prefix: &[u8]) -> Option<usize> {
    let marker = prefix.first_chunk::<4>()?;
    let len = prefix.get(4..8)?.first_chunk()?;
    usize::try_from(i32::from_le_bytes(*len)).ok().filter(|_| *marker == [0xff; 4])
}

/// Whether `file` is a segment, complete at both ends: other processes may write to it while it is open.
pub(crate) fn is_segment(file: &File, len: u64) -> bool {
    let read = |at: usize, into: &mut [u8]| {
        file.read_exact_at(into, at as u64).map_err(|e| Error::io("reading the front of the file", &e))
    };
    let mut tail = [0; MAGIC.len()];
    let ends = len.checked_sub(MAGIC.len() as u64).is_some_and(|at| read(at as usize, &mut tail).is_ok());
    ends && tail == *MAGIC && probe_segment(len as usize, read).is_ok_and(|front| front.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::metadata::empty_metadata;
    use super::EMPTY;

    #[test]
    fn the_empty_message_is_the_one_that_is_written() {
        assert_eq!(empty_metadata(), EMPTY);
    }
}
