//! Divides a text into chunks of whole records, which several threads parse.

use std::io::{self, Read};

use super::stream::{MAX_RECORD, read_error};
use crate::array::check_memory;
use crate::error::{Error, Result};
use crate::map::can_allocate;

/// The bytes with which some programs begin a text in UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The approximate number of bytes of a chunk.
pub(super) const CHUNK: usize = 2 << 20;

/// Some whole records of a text.
#[derive(Clone)]
pub(super) struct Chunk {
    pub bytes: Vec<u8>,
    /// The number of lines before the chunk.
    pub lines: usize,
    /// True if the chunk begins with the header of the text; set by the reader of the header.
    pub is_first: bool,
}

impl Chunk {
    /// Checks that there is memory for the rows of the chunk. Parsers and builders make many small allocations, which
    /// can't fail.
    ///
    /// # Errors
    /// `Io` if there is not.
    pub fn check_memory(&self) -> Result<()> {
        /// The memory that a byte of text may take, with the values of JSON that it is part of.
        const BYTES_PER_BYTE: usize = 16;
        check_memory()?;
        let len = self.bytes.len();
        if can_allocate(len.saturating_mul(BYTES_PER_BYTE)) {
            return Ok(());
        }
        Err(Error::out_of_memory(format!("no memory is left for the rows of {len} bytes of text")))
    }
}

/// Finds the ends of records in a text.
pub(super) trait RecordSplitter {
    /// Returns the end of the last complete record in `block`, which follows the blocks of earlier calls; `None` if no
    /// record ends there.
    fn find_end(&mut self, block: &[u8]) -> Option<usize>;

    /// Counts the lines of whole records.
    fn count_lines(&self, records: &[u8]) -> usize;
}

/// An iterator over the chunks of a text.
pub(super) struct Chunks<R, C> {
    input: R,
    splitter: C,
    /// The action that errors name.
    action: &'static str,
    /// The approximate number of bytes of a chunk.
    size: usize,
    /// The beginning of an incomplete record.
    incomplete: Vec<u8>,
    /// The number of lines in chunks so far.
    lines: usize,
    is_over: bool,
}

impl<R: Read, C: RecordSplitter> Chunks<R, C> {
    pub(super) fn new(input: R, splitter: C, action: &'static str, size: usize) -> Chunks<R, C> {
        Chunks { input, splitter, action, size, incomplete: Vec::new(), lines: 0, is_over: false }
    }

    fn read(&mut self) -> Result<Option<Chunk>> {
        loop {
            let start = self.incomplete.len();
            // A long record fills several blocks, and may leave less than nothing of the size of a chunk.
            let block = self.size.saturating_sub(start).max(self.size / 2).max(1);
            // Most texts are shorter than a chunk, so the first one is not reserved.
            if self.lines > 0 {
                self.incomplete.reserve(block + 1);
            }
            let len = self.input.by_ref().take(block as u64).read_to_end(&mut self.incomplete);
            let len = len.map_err(|e| read_error(self.action, &e))?;
            assert_eq!(self.incomplete.len(), start + len, "bytes are added behind those before them");
            if len < block {
                // The last record is complete, or an error.
                self.is_over = true;
                let rest = std::mem::take(&mut self.incomplete);
                return Ok(if rest.is_empty() { None } else { Some(self.chunk(rest)) });
            }
            if let Some(end) = self.splitter.find_end(&self.incomplete[start..]) {
                let rest = self.incomplete.split_off(start + end);
                let records = std::mem::replace(&mut self.incomplete, rest);
                return Ok(Some(self.chunk(records)));
            }
            if self.incomplete.len() > MAX_RECORD {
                let max = MAX_RECORD >> 20;
                let message = format!("{}: a record of more than {max} MiB; is its end missing?", self.action);
                return Err(Error::invalid(message));
            }
        }
    }

    fn chunk(&mut self, bytes: Vec<u8>) -> Chunk {
        assert!(!bytes.is_empty(), "a chunk without records");
        let lines = self.lines;
        self.lines += self.splitter.count_lines(&bytes);
        Chunk { bytes, lines, is_first: false }
    }
}

impl<R: Read, C: RecordSplitter> Iterator for Chunks<R, C> {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Result<Chunk>> {
        if self.is_over {
            return None;
        }
        let chunk = self.read();
        self.is_over |= chunk.is_err();
        chunk.transpose()
    }
}

/// Reads all of a text.
pub(super) fn read_all(mut input: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    Ok(text)
}
