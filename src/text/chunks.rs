//! Text in chunks of whole records, parsed by several threads.

use std::io::{self, Read};

use super::stream::failed;
use crate::array::check_memory;
use crate::error::{Error, Result};
use crate::map::can_allocate;

/// The approximate bytes of a chunk.
pub(super) const CHUNK: usize = 2 << 20;
/// Maximum bytes of one record.
const LONGEST: usize = 256 << 20;

/// Whole records.
#[derive(Clone)]
pub(super) struct Chunk {
    pub bytes: Vec<u8>,
    /// The number of lines before them.
    pub lines: usize,
    /// Whether they begin with the header of the text; set by the reader of the header.
    pub is_first: bool,
}

impl Chunk {
    /// Checks that there is memory for the rows of the chunk: parsers and builders make many small parts, which can't fail.
    ///
    /// # Errors
    /// `Io` if there is not.
    pub fn check_memory(&self) -> Result<()> {
        /// What a byte of text may take, with the values of JSON that it is part of.
        const EACH: usize = 16;
        check_memory()?;
        let len = self.bytes.len();
        if can_allocate(len.saturating_mul(EACH)) {
            return Ok(());
        }
        Err(Error::out_of_memory(format!("no memory is left for the rows of {len} bytes of text")))
    }
}

/// Finds the ends of records in a text.
pub(super) trait RecordSplitter {
    /// The end of the last complete record in `fresh`, the next bytes.
    fn whole(&mut self, fresh: &[u8]) -> Option<usize>;

    /// The number of lines in whole records.
    fn lines(&self, records: &[u8]) -> usize;
}

/// The chunks of a text.
pub(super) struct Chunks<R, C> {
    input: R,
    cut: C,
    doing: &'static str,
    /// The approximate bytes of a chunk.
    size: usize,
    /// The beginning of an incomplete record.
    begun: Vec<u8>,
    lines: usize,
    is_over: bool,
}

impl<R: Read, C: RecordSplitter> Chunks<R, C> {
    pub(super) fn new(input: R, cut: C, doing: &'static str, size: usize) -> Chunks<R, C> {
        Chunks { input, cut, doing, size, begun: Vec::new(), lines: 0, is_over: false }
    }

    fn read(&mut self) -> Result<Option<Chunk>> {
        loop {
            let start = self.begun.len();
            let wanted = self.size.saturating_sub(start).max(self.size / 2).max(1);
            // Most texts are shorter than a chunk.
            if self.lines > 0 {
                self.begun.reserve(wanted + 1);
            }
            let wanted = wanted as u64;
            let read = self.input.by_ref().take(wanted).read_to_end(&mut self.begun);
            if (read.map_err(|e| failed(self.doing, &e))? as u64) < wanted {
                // The last record is complete, or an error.
                self.is_over = true;
                let rest = std::mem::take(&mut self.begun);
                return Ok(Some(self.chunk(rest)).filter(|chunk| !chunk.bytes.is_empty()));
            }
            if let Some(end) = self.cut.whole(&self.begun[start..]) {
                let rest = self.begun.split_off(start + end);
                let whole = std::mem::replace(&mut self.begun, rest);
                return Ok(Some(self.chunk(whole)));
            }
            if self.begun.len() > LONGEST {
                let most = LONGEST >> 20;
                let message = format!("{}: a record of more than {most} MiB; is its end missing?", self.doing);
                return Err(Error::invalid(message));
            }
        }
    }

    fn chunk(&mut self, bytes: Vec<u8>) -> Chunk {
        let lines = self.lines;
        self.lines += self.cut.lines(&bytes);
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

/// All of a text.
pub(super) fn read_all(mut input: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    Ok(text)
}
