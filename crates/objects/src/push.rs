//! Pushes a table's sealed rows to a store, as objects.
//!
//! The store has the table's rows from some row on, without gaps, in objects that are named after their first row. The
//! footer of each object has its number of rows, so that the next push knows where to continue even if segments were
//! merged or dropped meanwhile. Objects are never replaced: if two pushes run at the same time, one creates an object
//! and the other continues after its rows.

use std::ops::Range;
use std::path::Path;

use arrowwood::{
    Dataset, Error, ErrorKind, OpenOptions, PushedRows, Result, rows_equal, sealed_rows, table_identity, table_stat,
};

use crate::location::{Location, Options};
use crate::open::{ROW_DIGITS, check_order, first_row, list_objects, map_parallel, open_object, row_span};
use crate::upload::{UploadOutcome, upload};

/// The maximum bytes of an object that has the rows of several segments.
const MAX_JOINED_BYTES: u64 = 256 << 20;
/// The maximum number of consecutive attempts in which an object is in the way and the store has no new rows.
const MAX_BLOCKED_ATTEMPTS: u32 = 3;
/// The maximum number of an object's rows that are compared with the table's.
const MAX_COMPARED_ROWS: u64 = 100;

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
    /// The number of rows of the table that are not in the store: rows of the growing segment, and rows that are not
    /// durable.
    pub left: u64,
}

/// The options of [`push`].
#[derive(Clone, Debug, Default)]
pub struct PushOptions {
    /// True to copy the durable rows of the growing segment, too.
    pub all: bool,
    /// The maximum rows of a batch.
    ///
    /// By default, a batch has some 480 KiB, so that a small request fetches a row.
    pub batch_rows: Option<u64>,
    /// True to continue even if the table has dropped all rows that are in the store, and nothing else shows that they
    /// were pushed from it.
    pub unseen: bool,
    /// Options of the requests to the store.
    pub store: Options,
}

/// Copies rows of the table at `table` to the folder at `url`: `s3://BUCKET/PATH` or `file:///PATH`.
///
/// Continues after the last row that the folder has. Leaves out rows of the growing segment and rows that are not
/// durable. Calls `progress` with the number of copied rows, and the total.
///
/// Objects are never replaced. The last rows in the store must equal the table's. If the table has dropped them, it
/// must be the table that they were pushed from, or [`PushOptions::unseen`] must be set.
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
    let mut result = PushResult::default();
    let mut blocked_attempts = 0;
    loop {
        let end_before = result.end;
        let Some(object) = push_missing(table, &location, options, &mut result, &mut progress)? else {
            return Ok(result);
        };
        // Another push has created this object, and the next attempt finds its rows.
        blocked_attempts = if result.end > end_before { 0 } else { blocked_attempts + 1 };
        if blocked_attempts > MAX_BLOCKED_ATTEMPTS {
            let message = "there is an object of this name already, without the rows that begin there; remove it, or \
                           push to another folder";
            return Err(Error::new(ErrorKind::InvalidData, message).at(object.name));
        }
    }
}

/// Copies the rows after the last one in the store. Returns the location of an object that another push created
/// meanwhile, if there was one in the way.
fn push_missing(
    table: &Path,
    location: &Location,
    options: &PushOptions,
    result: &mut PushResult,
    progress: &mut impl FnMut(u64, u64),
) -> Result<Option<Location>> {
    let Some(sealed) = sealed_rows(table)? else {
        return Err(Error::new(ErrorKind::NotFound, "there is no table").at(table));
    };
    let rows = arrowwood::open(table)?;
    let local = rows.first_row()..rows.first_row() + rows.len()?;
    let identity = table_identity(table)?;
    // A table without an identity equals no other.
    let identity = identity.as_deref().unwrap_or("");
    let stored_end = stored_end(location, &rows, identity, options)?;
    let start = stored_end.unwrap_or(local.start);
    // After a power cut, other rows may get the numbers of rows that are not durable. The store would have the old
    // ones.
    let durable_end = table_stat(table)?.map_or(local.end, |stat| stat.durable_end.min(local.end));
    let mut ends: Vec<u64> =
        sealed.iter().map(|segment| segment.end).filter(|&end| end > start && end <= durable_end).collect();
    let mut end = ends.last().copied().unwrap_or(start);
    if options.all && durable_end > end {
        end = durable_end;
        if end > start {
            ends.push(end);
        }
    }

    assert!(start <= end, "rows {start} to {end} are pushed");
    let total = result.rows + (end - start);
    result.end = start;
    for range in object_ranges(&rows, start, &ends)? {
        progress(result.rows, total);
        assert!(local.start <= range.start && range.end <= local.end, "rows {range:?} of {local:?} are pushed");
        let object_rows = rows.slice(range.start - local.start, range.end - range.start)?;
        let object = location.child(&format!("{:0ROW_DIGITS$}.arrow", range.start));
        let origin = PushedRows { first_row: range.start, table: identity.to_owned() };
        let outcome = upload(&object_rows, &origin, &object, options.batch_rows, &options.store);
        match outcome.map_err(|e| e.at(&object.name))? {
            UploadOutcome::Created(bytes) => result.bytes += bytes,
            UploadOutcome::Exists => return Ok(Some(object)),
        }
        result.objects += 1;
        result.rows += range.end - range.start;
        result.end = range.end;
    }
    if stored_end.is_none() && result.objects > 0 {
        check_first_object(location, local.start, &options.store)?;
    }
    progress(result.rows, total);
    result.left = local.end - result.end;
    Ok(None)
}

/// Checks that no other first push has started with an earlier row, as the table may have dropped its first rows
/// between two first pushes.
fn check_first_object(location: &Location, start: u64, options: &Options) -> Result<()> {
    let objects = list_objects(location, options).map_err(|e| e.at(&location.name))?;
    for object in &objects {
        if first_row(object).is_some_and(|first| first < start) {
            let message = format!(
                "another push has begun the folder with this object at the same time, and this one with row {start}: \
                 rows between them may be missing; remove all objects from {start:0ROW_DIGITS$}.arrow on, and push again"
            );
            return Err(Error::new(ErrorKind::InvalidData, message).at(&object.name));
        }
    }
    Ok(())
}

/// An object of the store.
struct StoredObject {
    location: Location,
    rows: Dataset,
    /// The numbers of its rows.
    span: Range<u64>,
}

/// Opens an object, and checks that it has rows of a table with the columns of `table_rows`.
fn open_stored(location: &Location, table_rows: &Dataset, options: &Options) -> Result<StoredObject> {
    let Some(start) = first_row(location) else {
        return Err(Error::new(ErrorKind::InvalidData, "no object of a table is called so").at(&location.name));
    };
    let rows = open_object(location, OpenOptions::new(), options)?;
    if rows.schema().fields() != table_rows.schema().fields() {
        let message = "its schema is not the one of the table, which was altered or is another; push to another folder";
        return Err(Error::new(ErrorKind::SchemaMismatch, message).at(&location.name));
    }
    let span = row_span(location, start, &rows)?;
    Ok(StoredObject { location: location.clone(), rows, span })
}

/// Returns the number of the row after the last one in the store; `None` if the store has no rows.
///
/// # Errors
/// `InvalidData` if the rows in the store are not the table's.
fn stored_end(location: &Location, rows: &Dataset, identity: &str, options: &PushOptions) -> Result<Option<u64>> {
    let locations = list_objects(location, &options.store).map_err(|e| e.at(&location.name))?;
    let objects = map_parallel(&locations, |object| open_stored(object, rows, &options.store))?;
    let spans: Vec<Range<u64>> = objects.iter().map(|object| object.span.clone()).collect();
    check_order(&locations, &spans)?;
    let Some(last) = objects.last() else { return Ok(None) };
    let end = last.span.end;
    let local = rows.first_row()..rows.first_row() + rows.len()?;
    if end < local.start || end > local.end {
        let message = format!(
            "the store has rows up to {end}, and the table those from {} to {}: it is another table, or has lost rows \
             that nobody can push; push to another folder",
            local.start, local.end
        );
        return Err(Error::new(ErrorKind::InvalidData, message).at(&location.name));
    }
    let is_same_table = last.rows.pushed_rows().is_some_and(|origin| !identity.is_empty() && origin.table == identity);
    // The last object is compared even if it was pushed from this table: a copy of the table's volume may have got
    // other rows since.
    let first_compared = if is_same_table { objects.len() - 1 } else { 0 };
    let compared_rows = map_parallel(&objects[first_compared..], |object| {
        compare_tail(rows, &object.rows, &object.span).map_err(|e| e.at(&object.location.name))
    })?;
    let has_compared = compared_rows.iter().any(|count| *count > 0);
    if !is_same_table && !has_compared && !options.unseen {
        let message = "the table has dropped all rows that are there, and was moved or is another one since: nothing \
                       tells that it is the same; push to another folder, or with --unseen if you know that it is";
        return Err(Error::new(ErrorKind::InvalidData, message).at(&last.location.name));
    }
    Ok(Some(end))
}

/// Compares the last rows of an object, which has the rows `span`, with the table's rows of the same numbers. Returns
/// the number of compared rows.
///
/// # Errors
/// `InvalidData` if they differ.
fn compare_tail(rows: &Dataset, object_rows: &Dataset, span: &Range<u64>) -> Result<u64> {
    let end = span.end;
    let start = span.start.max(rows.first_row()).max(end.saturating_sub(MAX_COMPARED_ROWS)).min(end);
    let count = end - start;
    if count == 0 {
        return Ok(0);
    }
    let rows = rows.slice(start - rows.first_row(), count)?;
    if rows_equal(&object_rows.slice(start - span.start, count)?, &rows)? {
        return Ok(count);
    }
    let message = format!(
        "among the rows from {start} to {end} are others than the table's: it is another table, or its rows were \
         sorted; push to another folder"
    );
    Err(Error::new(ErrorKind::InvalidData, message))
}

/// Returns the rows of each object to create, from row `start` on. An object has the rows of one or several segments,
/// which end at `ends`.
fn object_ranges(rows: &Dataset, start: u64, ends: &[u64]) -> Result<Vec<Range<u64>>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut object_bytes = 0;
    let mut segment_start = start;
    for &end in ends {
        assert!(segment_start <= end, "segments are in order: one ends at {segment_start}, and the next at {end}");
        let segment_bytes = rows.slice(segment_start - rows.first_row(), end - segment_start)?.nbytes()?;
        match ranges.last_mut() {
            Some(last) if object_bytes + segment_bytes <= MAX_JOINED_BYTES => last.end = end,
            _ => {
                ranges.push(segment_start..end);
                object_bytes = 0;
            }
        }
        object_bytes += segment_bytes;
        segment_start = end;
    }
    Ok(ranges)
}
