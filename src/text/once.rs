//! Texts read once where the types of their beginning hold to their end, and twice where they do not.
//!
//! ```text
//! a text ── cut behind whole records ──▶ chunks ── parsed by threads by the types of the first one ──▶ batches in order
//!                                          │                  │ a value that makes a column of another type
//!                                          │                  ▼
//!                                          └─────────▶ types of all the rest ── the text read again ──▶ batches in order
//! ```
//!
//! Each chunk that was parsed says which types its values leave, so that all types are those of all values either way.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::belt::in_order;
use super::chunks::Chunk;
use crate::error::Result;
use crate::parallel;

/// The most chunks in memory at the same time.
const AHEAD: usize = 16;

/// Takes the batches of a text, in order: see [`read_csv_in_order`](crate::read_csv_in_order).
pub trait TextTarget {
    /// Begins the rows, which are of `schema`. Called again, the batches that came before are void: a value further on made a
    /// column of another type, and all rows come anew.
    ///
    /// # Errors
    /// Any ends the reading.
    fn begin(&mut self, schema: &SchemaRef) -> Result<()>;

    /// Takes the next rows.
    ///
    /// # Errors
    /// Any ends the reading.
    fn take(&mut self, batch: RecordBatch) -> Result<()>;

    /// Called now and then, to show progress or to stop by an error. The text will have been read `passes` times in all, as far
    /// as is known.
    ///
    /// # Errors
    /// Any ends the reading.
    fn tick(&mut self, passes: u64) -> Result<()> {
        let _ = passes;
        Ok(())
    }

    /// Whether rows can begin again. Where they can't, the text is read for its types before it is read for its rows.
    fn can_begin_again(&self) -> bool {
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
    pub fn watched(on_tick: &'a mut dyn FnMut(u64)) -> TextBatches<'a> {
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

/// How the chunks of a text become rows.
pub(super) trait Grammar: Sync {
    /// The types that hold all values of some rows, column by column.
    type Types: Clone + Send + Sync;

    /// The types of no rows.
    fn nothing(&self) -> Self::Types;

    /// The types of a chunk.
    fn types(&self, chunk: &Chunk) -> Result<Self::Types>;

    /// Narrows the types of some rows to those that also hold the rows after them.
    fn merge(&self, types: &mut Self::Types, later: Self::Types);

    fn schema(&self, types: &Self::Types) -> Result<SchemaRef>;

    /// The rows of a chunk.
    fn rows(&self, chunk: &Chunk, schema: &SchemaRef) -> Result<Vec<RecordBatch>>;

    /// The rows of a chunk, and `types` narrowed by them, if `schema` remains that of the types. Also `None` for faulty text.
    fn rows_of(&self, chunk: &Chunk, schema: &SchemaRef, types: &Self::Types) -> Option<Typed<Self::Types>>;
}

/// Rows, and the types that hold them.
pub(super) struct Typed<T> {
    pub batches: Vec<RecordBatch>,
    pub types: T,
}

/// What is known of a chunk.
enum ChunkSeen<T> {
    Rows(Typed<T>),
    Types(T),
}

fn ahead() -> usize {
    (2 * parallel::available()).clamp(2, AHEAD)
}

/// The rows of all chunks, parsed by `schema`. The text is read `passes` times in all.
pub(super) fn parse_all<G: Grammar>(
    grammar: &G,
    chunks: impl Iterator<Item = Result<Chunk>> + Send,
    schema: &SchemaRef,
    passes: u64,
    target: &mut dyn TextTarget,
) -> Result<()> {
    let work = |chunk: Chunk| grammar.rows(&chunk, schema);
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

/// The types of all chunks, which are read for nothing else.
pub(super) fn types_of_all<G: Grammar>(
    grammar: &G,
    chunks: impl Iterator<Item = Result<Chunk>> + Send,
    target: &mut dyn TextTarget,
) -> Result<G::Types> {
    let mut types = grammar.nothing();
    let work = |chunk: Chunk| grammar.types(&chunk);
    in_order(chunks, ahead(), work, |found| {
        grammar.merge(&mut types, found);
        target.tick(2)
    })?;
    Ok(types)
}

/// The rows of all chunks, of types that hold all values; `again` gives the chunks once more.
pub(super) fn parse_and_infer<G: Grammar, C: Iterator<Item = Result<Chunk>> + Send>(
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
    let guess = guess.ok().filter(|_| target.can_begin_again());
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

/// The types of all chunks, and whether `target` has got the rows of all, which it gets as long as their types are those of
/// the `sample`.
fn see_all<G: Grammar>(
    grammar: &G,
    chunks: impl Iterator<Item = Result<Chunk>> + Send,
    sample: &G::Types,
    guess: Option<&SchemaRef>,
    target: &mut dyn TextTarget,
) -> Result<(G::Types, bool)> {
    let holds = AtomicBool::new(guess.is_some());
    let work = |chunk: Chunk| {
        let guess = guess.filter(|_| holds.load(Ordering::Relaxed));
        if let Some(typed) = guess.and_then(|guess| grammar.rows_of(&chunk, guess, sample)) {
            return Ok(ChunkSeen::Rows(typed));
        }
        holds.store(false, Ordering::Relaxed);
        grammar.types(&chunk).map(ChunkSeen::Types)
    };
    let mut types = grammar.nothing();
    let mut is_whole = guess.is_some();
    in_order(chunks, ahead(), work, |seen| {
        let found = match seen {
            ChunkSeen::Rows(typed) => {
                let batches = if is_whole { typed.batches } else { Vec::new() };
                batches.into_iter().try_for_each(|batch| target.take(batch))?;
                typed.types
            }
            ChunkSeen::Types(types) => {
                is_whole = false;
                types
            }
        };
        grammar.merge(&mut types, found);
        target.tick(if is_whole { 1 } else { 2 })
    })?;
    Ok((types, is_whole))
}
