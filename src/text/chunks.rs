//! Text in chunks of whole records, which several threads parse at the same time.
//!
//! ```text
//! a text ── read and cut behind whole records ──▶ chunks ── parsed by threads, a wave at a time ──▶ results in order
//! ```

use std::io::{self, Read};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::lines::failed;
use crate::error::{Error, Result};
use crate::parallel;

/// The bytes of a chunk, about.
const CHUNK: usize = 2 << 20;
/// The most chunks in memory at the same time.
const WAVE: usize = 16;
/// Maximum bytes of one record.
const LONGEST: usize = 256 << 20;

/// What takes the batches of a text, with their schema; no batch is a chance to show progress, or to stop.
pub(super) type Each<'a> = &'a mut dyn FnMut(&SchemaRef, Option<RecordBatch>) -> Result<()>;

/// Whole records.
#[derive(Clone)]
pub(super) struct Chunk {
    pub bytes: Vec<u8>,
    /// The number of lines before them.
    pub lines: usize,
    /// Whether they begin with the header of the text, which whoever finds it sets.
    pub is_first: bool,
}

/// Finds the ends of records in a text.
pub(super) trait RecordEnds {
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
    /// The beginning of an incomplete record.
    begun: Vec<u8>,
    lines: usize,
    is_over: bool,
}

impl<R: Read, C: RecordEnds> Chunks<R, C> {
    pub(super) fn new(input: R, cut: C, doing: &'static str) -> Chunks<R, C> {
        Chunks { input, cut, doing, begun: Vec::new(), lines: 0, is_over: false }
    }

    fn read(&mut self) -> Result<Option<Chunk>> {
        loop {
            let start = self.begun.len();
            let wanted = (CHUNK as u64).saturating_sub(start as u64).max(CHUNK as u64 / 2);
            let read = self.input.by_ref().take(wanted).read_to_end(&mut self.begun);
            if (read.map_err(|e| failed(self.doing, &e))? as u64) < wanted {
                // What comes at the end of the text is whole, or an error.
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

impl<R: Read, C: RecordEnds> Iterator for Chunks<R, C> {
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

/// Runs `work` on each chunk, on as many threads as there are processors, and `each` on the results, in order. No more than
/// a wave of chunks and their results are in memory.
pub(super) fn in_waves<T: Send>(
    mut chunks: impl Iterator<Item = Result<Chunk>> + Send,
    work: impl Fn(Chunk) -> Result<T> + Sync,
    each: &mut dyn FnMut(T) -> Result<()>,
) -> Result<()> {
    let count = (2 * parallel::available()).clamp(2, WAVE);
    loop {
        let mut pulled = 0;
        let wave = chunks.by_ref().take(count).inspect(|_| pulled += 1);
        let done = parallel::try_map(wave, count * CHUNK, |chunk| chunk.bytes.len(), &work, || ())?;
        done.into_iter().try_for_each(&mut *each)?;
        if pulled < count {
            return Ok(());
        }
    }
}

/// All of a text.
pub(super) fn read_all(mut input: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    Ok(text)
}
