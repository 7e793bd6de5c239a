//! Parses the chunks of a text, once if the types of its beginning fit the whole text, and twice otherwise.
//!
//! ```text
//! a text ── cut after whole records ──▶ chunks ── parsed by the types of the first one ──▶ batches in order
//!                                         │                │ a value that makes a column of another type
//!                                         │                ▼
//!                                         └───────▶ types of all the rest ── the text read again ──▶ batches in order
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

/// The maximum number of chunks in memory at the same time.
const MAX_CHUNKS: usize = 16;
/// The number of chunks for each thread: one that it parses, and one that waits for earlier ones.
const CHUNKS_PER_THREAD: usize = 2;
/// The number of times that a text is read if the types of its beginning hold.
pub(super) const ONE_PASS: u64 = 1;
/// The number of times that a text is read if it is read for its types first.
pub(super) const TWO_PASSES: u64 = 2;

/// Receives the batches of a text, in order: see [`read_csv_in_order`](crate::read_csv_in_order).
pub trait TextTarget {
    /// Begins rows of `schema`.
    ///
    /// A second call discards the earlier batches: a later value changed the type of a column, and all rows are passed
    /// again.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn begin(&mut self, schema: &SchemaRef) -> Result<()>;

    /// Takes the next rows.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn take(&mut self, batch: RecordBatch) -> Result<()>;

    /// Shows progress, or stops the reading by an error.
    ///
    /// It is called after each chunk. `passes` is the expected number of times that the text is read.
    ///
    /// # Errors
    /// Any error ends the reading.
    fn tick(&mut self, passes: u64) -> Result<()> {
        let _ = passes;
        Ok(())
    }

    /// Returns true if [`begin`](TextTarget::begin) can be called again.
    ///
    /// If not, the text is first read for its types, then for its rows.
    fn can_restart(&self) -> bool {
        true
    }
}

/// A target that keeps all record batches of a text.
#[derive(Default)]
pub struct TextBatches<'a> {
    /// The rows so far.
    pub batches: Vec<RecordBatch>,
    on_tick: Option<&'a mut dyn FnMut(u64)>,
}

impl<'a> TextBatches<'a> {
    /// Creates a target without rows. `on_tick` is called with the number of passes, as [`TextTarget::tick`].
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

    /// Returns the types of no rows.
    fn no_types(&self) -> Self::Types;

    /// Infers the types of a chunk.
    fn types(&self, chunk: &Chunk) -> Result<Self::Types>;

    /// Narrows the types of some rows by the types of the following rows.
    fn merge(&self, types: &mut Self::Types, later: Self::Types);

    /// Returns the schema of rows of these types.
    fn schema(&self, types: &Self::Types) -> Result<SchemaRef>;

    /// Parses the rows of a chunk.
    fn rows(&self, chunk: &Chunk, schema: &SchemaRef) -> Result<Vec<RecordBatch>>;

    /// Parses the rows of a chunk, and narrows `types` by them; `None` if the narrowed types have another schema than
    /// `schema`, or if the text is invalid.
    fn exact_rows(&self, chunk: &Chunk, schema: &SchemaRef, types: &Self::Types) -> Option<TypedBatches<Self::Types>>;
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

/// Returns the maximum number of chunks that are parsed ahead of the target.
fn max_ahead() -> usize {
    (CHUNKS_PER_THREAD * parallel::available_threads()).clamp(CHUNKS_PER_THREAD, MAX_CHUNKS)
}

/// Parses all chunks by `schema`. The text is read `passes` times in all.
pub(super) fn parse_all<P: ChunkParser>(
    parser: &P,
    chunks: impl Iterator<Item = Result<Chunk>> + Send,
    schema: &SchemaRef,
    passes: u64,
    target: &mut dyn TextTarget,
) -> Result<()> {
    let mut has_begun = false;
    in_order(
        chunks,
        max_ahead(),
        |chunk: Chunk| {
            chunk.check_memory()?;
            parser.rows(&chunk, schema)
        },
        |batches: Vec<RecordBatch>| {
            if !has_begun {
                target.begin(schema)?;
                has_begun = true;
            }
            batches.into_iter().try_for_each(|batch| target.take(batch))?;
            target.tick(passes)
        },
    )?;
    if has_begun { Ok(()) } else { target.begin(schema) }
}

/// Infers the types of all chunks, without making rows.
pub(super) fn infer_types<P: ChunkParser>(
    parser: &P,
    chunks: impl Iterator<Item = Result<Chunk>> + Send,
    target: &mut dyn TextTarget,
) -> Result<P::Types> {
    let mut types = parser.no_types();
    in_order(
        chunks,
        max_ahead(),
        |chunk: Chunk| {
            chunk.check_memory()?;
            parser.types(&chunk)
        },
        |chunk_types| {
            parser.merge(&mut types, chunk_types);
            target.tick(TWO_PASSES)
        },
    )?;
    Ok(types)
}

/// Parses all chunks, with types inferred from all values. `reopen` returns the chunks once more.
pub(super) fn parse_and_infer<P: ChunkParser, C: Iterator<Item = Result<Chunk>> + Send>(
    parser: &P,
    mut chunks: C,
    reopen: impl FnOnce() -> Result<C>,
    target: &mut dyn TextTarget,
) -> Result<SchemaRef> {
    let first = chunks.next().transpose()?;
    let sample = match &first {
        Some(chunk) => parser.types(chunk)?,
        None => parser.no_types(),
    };
    let guess = parser.schema(&sample);
    let Some(second) = chunks.next().transpose()? else {
        let schema = guess?;
        parse_all(parser, first.into_iter().map(Ok), &schema, ONE_PASS, target)?;
        return Ok(schema);
    };

    let guess = guess.ok().filter(|_| target.can_restart());
    if let Some(guess) = &guess {
        target.begin(guess)?;
    }
    let chunks = first.into_iter().chain([second]).map(Ok).chain(chunks);
    let (types, is_complete) = parse_by_guess(parser, chunks, &sample, guess.as_ref(), target)?;
    let schema = parser.schema(&types)?;
    match guess {
        Some(guess) if is_complete => {
            assert_eq!(schema, guess, "rows were parsed by another schema than that of all values");
            Ok(guess)
        }
        _ => {
            parse_all(parser, reopen()?, &schema, TWO_PASSES, target)?;
            Ok(schema)
        }
    }
}

/// Passes rows to `target` as long as the types of the `sample` hold. Returns the types of all chunks, and true if
/// `target` has received all rows.
fn parse_by_guess<P: ChunkParser>(
    parser: &P,
    chunks: impl Iterator<Item = Result<Chunk>> + Send,
    sample: &P::Types,
    guess: Option<&SchemaRef>,
    target: &mut dyn TextTarget,
) -> Result<(P::Types, bool)> {
    // A hint for threads that parse later chunks (relaxed): a stale value only makes them parse in vain.
    let holds = AtomicBool::new(guess.is_some());
    let mut types = parser.no_types();
    let mut is_complete = guess.is_some();
    in_order(
        chunks,
        max_ahead(),
        |chunk: Chunk| {
            chunk.check_memory()?;
            if let Some(guess) = guess
                && holds.load(Ordering::Relaxed)
                && let Some(typed) = parser.exact_rows(&chunk, guess, sample)
            {
                return Ok(ChunkResult::Rows(typed));
            }
            holds.store(false, Ordering::Relaxed);
            parser.types(&chunk).map(ChunkResult::Types)
        },
        |result| {
            let chunk_types = match result {
                ChunkResult::Rows(typed) => {
                    // Once rows are missing, the text is parsed again.
                    if is_complete {
                        typed.batches.into_iter().try_for_each(|batch| target.take(batch))?;
                    }
                    typed.types
                }
                ChunkResult::Types(types) => {
                    is_complete = false;
                    types
                }
            };
            parser.merge(&mut types, chunk_types);
            target.tick(if is_complete { ONE_PASS } else { TWO_PASSES })
        },
    )?;
    Ok((types, is_complete))
}
