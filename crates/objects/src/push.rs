//! Pushes a table's sealed rows to a store, as objects.
//!
//! The store has a prefix of the rows, in objects named after their first row. The number of rows is in the footer of
//! each object, so that the next push knows where to continue, whatever was merged or dropped here meanwhile. No object
//! is ever replaced: if two pushes run at the same time, one creates the object, and the other continues after its
//! rows.

use std::ops::Range;
use std::path::Path;

use arrowwood::{
    Dataset, Error, ErrorKind, OpenOptions, PushedRows, Result, sealed_rows, table_identity, table_stat, tails_equal,
};

use crate::location::{Location, Options};
use crate::open::{check_order, each, first_row, list, open_object, span};
use crate::upload::{UploadOutcome, upload};

/// The approximate number of bytes of rows in one object, if segments are small.
const OBJECT: u64 = 256 << 20;
/// How often in succession a name may be taken without new rows in the store.
const VAIN: u32 = 3;

/// The result of [`push`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushResult {
    /// The number of rows that were copied.
    pub rows: u64,
    /// The number of objects that were created.
    pub objects: u64,
    /// The bytes of these objects.
    pub bytes: u64,
    /// The number of the row after the last one in the store.
    pub end: u64,
    /// The number of rows of the table that are not in the store: rows of the growing segment, and rows that a power
    /// cut may remove.
    pub left: u64,
}

/// The options of [`push`].
#[derive(Clone, Debug, Default)]
pub struct PushOptions {
    /// Copy also the durable rows of the segment that grows.
    pub all: bool,
    /// The most rows of a batch; by default those of some 480 KiB, so that a row is fetched by a small request.
    pub batch_rows: Option<u64>,
    /// Go on though the table has none of the rows in the store any more, and nothing else tells that they were its
    /// own.
    pub unseen: bool,
    /// How the store is spoken to.
    pub store: Options,
}

/// Copies the rows of the table at `table` that the folder at `url` does not have, to `s3://BUCKET/PATH` or
/// `file:///PATH`. Leaves out rows of the growing segment and rows that are not durable. Calls `progress` with the
/// number of rows that are done, and the total.
///
/// No object is replaced. The last rows in the store must equal the table's. If the table has dropped them, it must be
/// the table that they were pushed from, or [`PushOptions::unseen`] must be set.
///
/// # Errors
/// `NotFound` without a table; `SchemaMismatch` if the table's schema differs from the schema in the store;
/// `InvalidData` if the rows in the store are not the table's; and errors of the store.
pub fn push(
    table: impl AsRef<Path>,
    url: &str,
    options: &PushOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<PushResult> {
    let table = table.as_ref();
    let location = Location::parse(url)?;
    if !location.is_writable() {
        let message = "a table is pushed to s3://BUCKET/PATH or file:///PATH";
        return Err(Error::new(ErrorKind::InvalidArgument, message).at(&location.name));
    }
    let mut pushed = PushResult::default();
    let mut vain = 0;
    loop {
        let before = pushed.end;
        let Some(taken) = push_on(table, &location, options, &mut pushed, &mut progress)? else { return Ok(pushed) };
        // Another push made this object, and the next round finds its rows.
        vain = if pushed.end > before { 0 } else { vain + 1 };
        if vain > VAIN {
            let message = "there is an object of this name already, without the rows that begin there; remove it, or push to \
                           another folder";
            return Err(Error::new(ErrorKind::InvalidData, message).at(taken.name));
        }
    }
}

/// Continues after the last row in the store, until there are no more rows. Returns the location of the object whose
/// name was taken meanwhile, if one was.
fn push_on(
    table: &Path,
    location: &Location,
    options: &PushOptions,
    pushed: &mut PushResult,
    progress: &mut impl FnMut(u64, u64),
) -> Result<Option<Location>> {
    let missing = || Error::new(ErrorKind::NotFound, "there is no table").at(table);
    let sealed = sealed_rows(table)?.ok_or_else(missing)?;
    let rows = arrowwood::open(table)?;
    let local = rows.first_row()..rows.first_row() + rows.len()?;
    let identity = table_identity(table)?.unwrap_or_default();
    let found = there(location, &rows, &identity, options)?;
    let there = found.unwrap_or(local.start);
    // A power cut may take rows that are not durable, and others get their numbers: the store would keep the old ones.
    let durable = table_stat(table)?.map_or(local.end, |stat| stat.durable_end.min(local.end));
    let mut ends: Vec<u64> = sealed.iter().map(|rows| rows.end).filter(|&at| at > there && at <= durable).collect();
    let mut end = ends.last().copied().unwrap_or(there);
    if options.all && durable > end {
        end = durable;
        ends.extend((end > there).then_some(end));
    }
    let total = pushed.rows + (end - there);
    pushed.end = there;
    for range in objects(&rows, there, &ends)? {
        progress(pushed.rows, total);
        let cut = rows.slice(range.start - local.start, range.end - range.start)?;
        let name = location.child(&format!("{:020}.arrow", range.start));
        let from = PushedRows { first_row: range.start, table: identity.clone() };
        match upload(&cut, &from, &name, options.batch_rows, &options.store).map_err(|e| e.at(&name.name))? {
            UploadOutcome::Made(bytes) => pushed.bytes += bytes,
            UploadOutcome::Taken => return Ok(Some(name)),
        }
        pushed.objects += 1;
        pushed.rows += range.end - range.start;
        pushed.end = range.end;
    }
    if found.is_none() && pushed.objects > 0 {
        check_first(location, local.start, &options.store)?;
    }
    progress(pushed.rows, total);
    pushed.left = local.end - pushed.end;
    Ok(None)
}

/// Checks that no other push has begun the folder with another row, as the table may have dropped its first rows
/// between two first pushes.
fn check_first(location: &Location, start: u64, options: &Options) -> Result<()> {
    let objects = list(location, options).map_err(|e| e.at(&location.name))?;
    match objects.iter().find(|object| first_row(object).is_some_and(|first| first < start)) {
        Some(other) => {
            let message = format!(
                "another push has begun the folder with this object at the same time, and this one with row {start}: rows \
                 between them may be missing; remove all objects from {start:020}.arrow on, and push again"
            );
            Err(Error::new(ErrorKind::InvalidData, message).at(&other.name))
        }
        None => Ok(()),
    }
}

/// Returns the number of the row after the last one in the store; `None` if there are none. All rows there must be the
/// table's.
fn there(location: &Location, rows: &Dataset, identity: &str, options: &PushOptions) -> Result<Option<u64>> {
    let objects = list(location, &options.store).map_err(|e| e.at(&location.name))?;
    let opened = each(&objects, |object| {
        let wrong = |kind, what: String| Error::new(kind, what).at(&object.name);
        let start = first_row(object)
            .ok_or_else(|| wrong(ErrorKind::InvalidData, "no object of a table is called so".into()))?;
        let found = open_object(object, OpenOptions::new(), &options.store)?;
        if found.schema().fields() != rows.schema().fields() {
            let message =
                "its schema is not the one of the table, which was altered or is another; push to another folder";
            return Err(wrong(ErrorKind::SchemaMismatch, message.into()));
        }
        Ok((span(object, start, &found)?, found))
    })?;
    let spans: Vec<Range<u64>> = opened.iter().map(|(span, _)| span.clone()).collect();
    check_order(&objects, &spans)?;
    let Some((last, object)) = spans.last().zip(objects.last()) else { return Ok(None) };
    let local = rows.first_row()..rows.first_row() + rows.len()?;
    if last.end < local.start || last.end > local.end {
        let (end, Range { start, end: to }) = (last.end, local);
        let message = format!(
            "the store has rows up to {end}, and the table those from {start} to {to}: it is another table, or has lost rows \
             that nobody can push; push to another folder"
        );
        return Err(Error::new(ErrorKind::InvalidData, message).at(&location.name));
    }
    // Even if the rows were pushed from this table, the end of the last object is compared, because a copy of its
    // volume may have other rows.
    let is_own = opened.last().and_then(|(_, found)| found.pushed_rows());
    let is_own = is_own.is_some_and(|pushed| !identity.is_empty() && pushed.table == identity);
    let first = if is_own { objects.len() - 1 } else { 0 };
    let compared =
        each(&objects[first..].iter().zip(&opened[first..]).collect::<Vec<_>>(), |(object, (span, found))| {
            compare(rows, found, span).map_err(|e| e.at(&object.name))
        })?;
    if !is_own && !options.unseen && compared.iter().all(|compared| *compared == 0) {
        let message = "the table has dropped all rows that are there, and was moved or is another one since: nothing tells that it \
                       is the same; push to another folder, or with --unseen if you know that it is";
        return Err(Error::new(ErrorKind::InvalidData, message).at(&object.name));
    }
    Ok(Some(last.end))
}

/// Compares the last rows of an object, which has the rows of `span`, with the table's rows of the same numbers.
/// Returns how many were compared.
///
/// # Errors
/// `InvalidData` if they differ.
fn compare(rows: &Dataset, found: &Dataset, span: &Range<u64>) -> Result<u64> {
    let (Range { start, end }, are_same) = tails_equal((found, span.start), (rows, rows.first_row()), span.end)?;
    if are_same {
        return Ok(end - start);
    }
    let message = format!(
        "among the rows from {start} to {end} are others than the table's: it is another table, or its rows were sorted; push to \
         another folder"
    );
    Err(Error::new(ErrorKind::InvalidData, message))
}

/// Returns the rows of each object from row `start` on. An object has the rows of one or several segments, which end at
/// `ends`.
fn objects(rows: &Dataset, start: u64, ends: &[u64]) -> Result<Vec<Range<u64>>> {
    let mut objects: Vec<Range<u64>> = Vec::new();
    let mut bytes = 0;
    let mut at = start;
    for &end in ends {
        let segment = rows.slice(at - rows.first_row(), end - at)?.nbytes()?;
        match objects.last_mut() {
            Some(last) if bytes + segment <= OBJECT => last.end = end,
            _ => {
                objects.push(at..end);
                bytes = 0;
            }
        }
        bytes += segment;
        at = end;
    }
    Ok(objects)
}
