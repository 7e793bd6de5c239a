//! Opens objects and folders as datasets.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arrowwood::blocking::CancelToken;
use arrowwood::mapping::MutexExt;
use arrowwood::{Dataset, Error, ErrorKind, OpenOptions, Result, UrlOpener, open_urls_with};
use futures_util::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::error::request_error;
use crate::fetcher;
use crate::location::{Location, Options};
use crate::object::Object;
use crate::runtime::{MAX_REQUESTS, RequestRuntime};

/// The maximum number of objects of a folder.
const MAX_OBJECTS: usize = 100_000;
/// The number of digits in the names of a table's objects.
pub(crate) const ROW_DIGITS: usize = 20;
/// The URL schemes that [`install`] handles.
const SCHEMES: [&str; 4] = ["s3", "s3a", "http", "https"];

/// Opens the object at `url` as [`arrowwood::open`] opens a file: `s3://BUCKET/PATH`, `https://HOST/PATH`.
///
/// For a folder of a bucket, opens all its objects that end in `.arrow`, in the order of their names.
///
/// # Errors
/// The errors of [`arrowwood::open`], `PermissionDenied`, `NotFound`, `Io`; `Unsupported` for a server that ignores
/// ranges.
pub fn open(url: &str) -> Result<Dataset> {
    open_with(url, OpenOptions::new(), &Options::default())
}

/// Acts as [`open`], with options.
///
/// # Errors
/// The errors of [`open`].
pub fn open_with(url: &str, open_options: OpenOptions, options: &Options) -> Result<Dataset> {
    let location = Location::parse(url)?;
    if location.is_folder() && location.is_bucket() {
        let rows = open_folder(&location, open_options, options)?;
        return rows.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there are no objects that end in .arrow").at(&location.name)
        });
    }
    match open_object(&location, open_options, options) {
        // The URL of a folder may lack the slash.
        Err(e) if e.kind() == ErrorKind::NotFound && location.is_bucket() => {
            open_folder(&location, open_options, options)?.ok_or(e)
        }
        result => result,
    }
}

/// Makes [`arrowwood::open`] accept URLs, for the whole process.
pub fn install() {
    open_urls_with(UrlOpener {
        takes: has_known_scheme,
        open: |url, open_options| open_with(url, open_options, &Options::default()),
    });
}

fn has_known_scheme(url: &str) -> bool {
    match url.split_once("://") {
        Some((scheme, _)) => SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)),
        None => false,
    }
}

pub(crate) fn open_object(location: &Location, open_options: OpenOptions, options: &Options) -> Result<Dataset> {
    let bytes = fetcher::open(Object::new(location.clone(), options.clone()));
    open_options.named_bytes(bytes.map_err(|e| e.at(&location.name))?, &location.name)
}

/// Opens the objects of a folder as one dataset. Returns `None` if there are none.
fn open_folder(location: &Location, open_options: OpenOptions, options: &Options) -> Result<Option<Dataset>> {
    let objects = list_objects(location, options).map_err(|e| e.at(&location.name))?;
    let datasets = map_parallel(&objects, |object| open_object(object, open_options, options))?;
    if let Some(starts) = objects.iter().map(first_row).collect::<Option<Vec<_>>>() {
        let mut spans = Vec::with_capacity(objects.len());
        for ((object, start), rows) in objects.iter().zip(starts).zip(&datasets) {
            spans.push(row_span(object, start, rows)?);
        }
        check_order(&objects, &spans)?;
    }
    match &datasets[..] {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        several => Dataset::concat(several).map(Some),
    }
}

/// Returns the number of the first row of a table's object, which is its name. Returns `None` for other names.
pub(crate) fn first_row(object: &Location) -> Option<u64> {
    let digits = object.path.filename()?.strip_suffix(".arrow")?;
    let is_number = digits.len() == ROW_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// Returns the numbers of the rows of an object, whose first row has number `start`.
///
/// # Errors
/// `InvalidData` if the numbers overflow.
pub(crate) fn row_span(object: &Location, start: u64, rows: &Dataset) -> Result<Range<u64>> {
    let Some(end) = start.checked_add(rows.len()?) else {
        return Err(Error::new(ErrorKind::InvalidData, "it is called by a row that no table has").at(&object.name));
    };
    Ok(start..end)
}

/// Checks that the objects of a table have consecutive rows, which concurrent pushes may violate.
///
/// # Errors
/// `InvalidData` if rows are missing, or in two objects.
pub(crate) fn check_order(objects: &[Location], spans: &[Range<u64>]) -> Result<()> {
    assert_eq!(objects.len(), spans.len(), "each object has a range of rows");
    let later = objects.iter().zip(spans).skip(1);
    for (before, (object, span)) in spans.iter().zip(later) {
        let end = before.end;
        let start = span.start;
        if end != start {
            let problem = if end < start { "are missing" } else { "are there twice" };
            let message = format!(
                "it begins with row {start}, and the object before ends with row {end}: rows {problem}; remove it and \
                 all after it, and push again"
            );
            return Err(Error::new(ErrorKind::InvalidData, message).at(&object.name));
        }
    }
    Ok(())
}

/// Calls `work` with each item, on several threads, and returns the results in the order of the items.
///
/// # Errors
/// The error of the first item that failed.
pub(crate) fn map_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let call = CancelToken::current();
    let threads = MAX_REQUESTS.min(items.len());
    std::thread::scope(|scope| {
        // This thread works, too.
        let others: Vec<_> =
            (1..threads).map(|_| scope.spawn(|| call.run(|| take_items(items, &next, &work, &results)))).collect();
        call.run(|| take_items(items, &next, &work, &results));
        call.wait(|| others.iter().all(|thread| thread.is_finished()));
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Calls `work` with the `next` item until there are no more, or one fails, and adds the results with their indices.
fn take_items<T, R>(
    items: &[T],
    next: &AtomicUsize,
    work: impl Fn(&T) -> Result<R>,
    results: &Mutex<Vec<(usize, Result<R>)>>,
) {
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(index) else { return };
        let result = work(item);
        if result.is_err() {
            // Leave no items to other threads.
            next.store(items.len(), Ordering::Relaxed);
        }
        results.lock_ignoring_poison().push((index, result));
    }
}

/// Returns the objects of a folder whose names end in `.arrow`, in the order of their names.
pub(crate) fn list_objects(location: &Location, options: &Options) -> Result<Vec<Location>> {
    let store = location.store(options.timeout)?;
    let folder = location.clone();
    let timeout = options.timeout;
    let paths = RequestRuntime::for_process()?.wait(async move { list_paths(&*store, &folder, timeout).await })?;
    // Paths are used as the store lists them. A path that is made of a name would be escaped again.
    Ok(paths.into_iter().map(|path| location.listed_object(path)).collect())
}

async fn list_paths(store: &dyn ObjectStore, folder: &Location, timeout: Duration) -> Result<Vec<Path>> {
    let mut entries = store.list(Some(&folder.path));
    let mut paths = Vec::new();
    // Counts objects with any name, as a store may list others without end.
    let mut count = 0;
    loop {
        let next = tokio::time::timeout(timeout, entries.next()).await.map_err(|_| {
            let message = format!("listing the folder: the store did not answer within {timeout:?}");
            Error::new(ErrorKind::Io, message)
        })?;
        let Some(entry) = next else { break };
        let path = entry.map_err(|e| request_error("listing the folder", &e, folder.is_bucket()))?.location;
        count += 1;
        if is_data_file(&path, &folder.path) {
            paths.push(path);
        }
        if count > MAX_OBJECTS {
            let message = format!("the folder has more than {MAX_OBJECTS} objects");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Returns true if `path` is in `folder` itself and ends in `.arrow`.
fn is_data_file(path: &Path, folder: &Path) -> bool {
    let Some(mut parts) = path.prefix_match(folder) else { return false };
    let is_arrow = parts.next().is_some_and(|name| name.as_ref().ends_with(".arrow"));
    is_arrow && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use arrowwood::{WriteOptions, write};

    use super::*;

    /// Writes a file of two rows.
    fn write_rows(path: &std::path::Path) {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let rows = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", numbers)]).unwrap()]).unwrap();
        write(&rows, path, &WriteOptions::default()).unwrap();
    }

    fn folder_location(folder: &std::path::Path) -> Location {
        Location::parse(&format!("file://{}/", folder.display())).unwrap()
    }

    #[test]
    fn objects_with_special_characters_are_listed_and_opened() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a b.arrow", "a[1].arrow", "a~b.arrow", "day=1#2.arrow", "ü.arrow"];
        for name in names {
            write_rows(&folder.path().join(name));
        }
        let location = folder_location(folder.path());
        let objects = list_objects(&location, &Options::default()).unwrap();
        assert_eq!(objects.iter().map(|object| object.path.filename().unwrap()).collect::<Vec<_>>(), names);
        let rows = open_folder(&location, OpenOptions::new(), &Options::default()).unwrap().unwrap();
        assert_eq!(rows.len().unwrap(), 10);
    }

    #[test]
    fn overflowing_row_numbers_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        write_rows(&folder.path().join(format!("{}.arrow", u64::MAX)));
        let location = folder_location(folder.path());
        let error = open_folder(&location, OpenOptions::new(), &Options::default()).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("a row that no table has"), "{error}");
    }
}
