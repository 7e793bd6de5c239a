//! Texts read once if the types of their beginning fit the whole text, and twice otherwise.
//!
//! ```text
//! a text ── cut behind whole records ──▶ chunks ── parsed by threads by the types of the first one ──▶ batches in order
//!                                          │                  │ a value that makes a column of another type
//!                                          │                  ▼
//!                                          └─────────▶ types of all the rest ── the text read again ──▶ batches in order
//! ```
//!
//! Each parsed chunk also narrows the inferred types, so types depend on all values either way.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::chunks::Chunk;
use super::pipeline::in_order;
use crate::error::Result;
use crate::parallel;

/// The most chunks in memory at the same time.
const AHEAD: usize = 16;

/// Takes the batches of a text, in order: see [`read_csv_in_order`](crate::read_csv_in_order).
pub trait TextTarget {
    /// Begins rows of `schema`. If called again, discard the earlier batches: a later value changed the type of a column,
    /// and all rows are passed again.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn begin(&mut self, schema: &SchemaRef) -> Result<()>;

    /// Takes the next rows.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn take(&mut self, batch: RecordBatch) -> Result<()>;

    /// Called now and then, to show progress or to stop by an error. `passes` is the expected number of times that the text is
    /// read.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn tick(&mut self, passes: u64) -> Result<()> {
        let _ = passes;
        Ok(())
    }

    /// Whether [`begin`](TextTarget::begin) can be called again. If not, the text is first read for its types, then for its rows.
    fn can_restart(&self) -> bool {
        true
    }
}

/// Keeps all record batches of a text.
#[derive(Default)]
pub struct TextBatches<'a> {
    /// The rows so far.
    pub batches: Vec<RecordBatch>,
    on_tick: Option<&'a mut dyn FnMut(u64)>,
}

impl<'a> TextBatches<'a> {
    /// No rows yet. `on_tick` is called with the number of passes, as [`TextTarget::tick`].
    pub fn with_progress(on_tick: &'a mut dyn FnMut(u64)) -> TextBatches<'a> {
        TextBatches { batches: Vec::new(), on_tick: Some(on_tick) }
    }
}

impl fmt::Debug for TextBatches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextBatches").field("batches", &self.batches.len()).finish_non_exhaustive()
    }
}

impl TextTarget for TextBatches<'_> {
    fn begin(&mut self, _: &SchemaRef) -> Result<()> {
        self.batches.clear();
        Ok(())
    }

    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.batches.push(batch);
        Ok(())
    }

    fn tick(&mut self, passes: u64) -> Result<()> {
        if let Some(on_tick) = &mut self.on_tick {
            on_tick(passes);
        }
        Ok(())
    }
}

/// Parses the chunks of a text.
pub(super) trait ChunkParser: Sync {
    /// The inferred types of some rows, one per column.
    type Types: Clone + Send + Sync;

    /// The types of no rows.
    fn nothing(&self) -> Self::Types;

    /// The types of a chunk.
    fn types(&self, chunk: &Chunk) -> Result<Self::Types>;

    /// Narrows the types of some rows by those of the following rows.
    fn merge(&self, types: &mut Self::Types, later: Self::Types);

    fn schema(&self, types: &Self::Types) -> Result<SchemaRef>;

    /// The rows of a chunk.
    fn rows(&self, chunk: &Chunk, schema: &SchemaRef) -> Result<Vec<RecordBatch>>;

    /// The rows of a chunk, and `types` narrowed by them; `None` if `schema` is no longer that of the types, or for faulty text.
    fn rows_of(&self, chunk: &Chunk, schema: &SchemaRef, types: &Self::Types) -> Option<TypedBatches<Self::Types>>;
}

/// Rows, and their inferred types.
pub(super) struct TypedBatches<T> {
    pub batches: Vec<RecordBatch>,
    pub types: T,
}

/// The result for a chunk.
enum ChunkResult<T> {
    Rows(TypedBatches<T>),
    Types(T),
}

fn ahead() -> usize {
    (2 * parallel::available_threads()).clamp(2, AHEAD)
}

/// The rows of all chunks, parsed by `schema`. The text is read `passes` times in all.
pub(super) fn parse_all<G: ChunkParser>(
    grammar: &G,
    chunks: impl Iterator<Item = Result<Chunk>> + Send,
    schema: &SchemaRef,
    passes: u64,
    target: &mut dyn TextTarget,
) -> Result<()> {
    let work = |chunk: Chunk| chunk.check_memory().and_then(|()| grammar.rows(&chunk, schema));
    let mut has_begun = false;
    in_order(chunks, ahead(), work, |batches: Vec<RecordBatch>| {
        if !has_begun {
            target.begin(schema)?;
            has_begun = true;
        }
        batches.into_iter().try_for_each(|batch| target.take(batch))?;
        target.tick(passes)
    })?;
    if has_begun { Ok(()) } else { target.begin(schema) }
}

/// The types of all chunks; makes no rows.
pub(super) fn types_of_all<G: ChunkParser>(
    grammar: &G,
    chunks: impl Iterator<Item = Result<Chunk>> + Send,
    target: &mut dyn TextTarget,
) -> Result<G::Types> {
    let mut types = grammar.nothing();
    let work = |chunk: Chunk| chunk.check_memory().and_then(|()| grammar.types(&chunk));
    in_order(chunks, ahead(), work, |found| {
        grammar.merge(&mut types, found);
        target.tick(2)
    })?;
    Ok(types)
}

/// The rows of all chunks, with types of all values; `again` returns the chunks once more.
pub(super) fn parse_and_infer<G: ChunkParser, C: Iterator<Item = Result<Chunk>> + Send>(
    grammar: &G,
    mut chunks: C,
    again: impl FnOnce() -> Result<C>,
    target: &mut dyn TextTarget,
) -> Result<SchemaRef> {
    let first = chunks.next().transpose()?;
    let sample = first.as_ref().map_or_else(|| Ok(grammar.nothing()), |chunk| grammar.types(chunk))?;
    let guess = grammar.schema(&sample);
    let Some(second) = chunks.next().transpose()? else {
        let schema = guess?;
        parse_all(grammar, first.into_iter().map(Ok), &schema, 1, target)?;
        return Ok(schema);
    };
    let guess = guess.ok().filter(|_| target.can_restart());
    if let Some(guess) = &guess {
        target.begin(guess)?;
    }
    let chunks = first.into_iter().chain([second]).map(Ok).chain(chunks);
    let (types, is_whole) = see_all(grammar, chunks, &sample, guess.as_ref(), target)?;
    match guess {
        Some(guess) if is_whole => {
            debug_assert!(grammar.schema(&types).is_ok_and(|schema| schema == guess));
            Ok(guess)
        }
        _ => {
            let schema = grammar.schema(&types)?;
            parse_all(grammar, again()?, &schema, 2, target)?;
            Ok(schema)
        }
    }
}

/// The types of all chunks, and whether `target` got all rows: it gets them while their types are those of the
/// `sample`.
fn see_all<G: ChunkParser>(
    grammar: &G,
    chunks: impl Iterator<Item = Result<Chunk>> + Send,
    sample: &G::Types,
    guess: Option<&SchemaRef>,
    target: &mut dyn TextTarget,
) -> Result<(G::Types, bool)> {
    let holds = AtomicBool::new(guess.is_some());
    let work = |chunk: Chunk| {
        chunk.check_memory()?;
        let guess = guess.filter(|_| holds.load(Ordering::Relaxed));
        if let Some(typed) = guess.and_then(|guess| grammar.rows_of(&chunk, guess, sample)) {
            return Ok(ChunkResult::Rows(typed));
        }
        holds.store(false, Ordering::Relaxed);
        grammar.types(&chunk).map(ChunkResult::Types)
    };
    let mut types = grammar.nothing();
    let mut is_whole = guess.is_some();
    in_order(chunks, ahead(), work, |seen| {
        let found = match seen {
            ChunkResult::Rows(typed) => {
                let batches = if is_whole { typed.batches } else { Vec::new() };
                batches.into_iter().try_for_each(|batch| target.take(batch))?;
                typed.types
            }
            ChunkResult::Types(types) => {
                is_whole = false;
                types
            }
        };
        grammar.merge(&mut types, found);
        target.tick(if is_whole { 1 } else { 2 })
    })?;
    Ok((types, is_whole))
}
