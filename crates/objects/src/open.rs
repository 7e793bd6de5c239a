//! Opens a URL as a dataset.

use arrowwood::mapping::MutexExt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use arrowwood::blocking::CancelToken;
use arrowwood::{Dataset, Error, ErrorKind, OpenOptions, Result, UrlOpener, open_urls_with};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::error::failed;
use crate::fetcher;
use crate::location::{Location, Options};
use crate::object::Object;
use crate::runtime::{REQUESTS, RequestRuntime};

/// The maximum number of objects of a folder that are opened as one dataset.
const MOST: usize = 100_000;

/// Opens the object at `url`, as [`arrowwood::open`] does a file: `s3://BUCKET/PATH`, `https://HOST/PATH`. A folder of
/// a bucket is all its objects that end in `.arrow`, in the order of their names.
///
/// # Errors
/// The errors of [`arrowwood::open`], `PermissionDenied`, `NotFound`, `Io`; `Unsupported` for a server that ignores
/// ranges.
pub fn open(url: &str) -> Result<Dataset> {
    open_with(url, OpenOptions::new(), &Options::default())
}

/// As [`open`], with options.
///
/// # Errors
/// As [`open`].
pub fn open_with(url: &str, how: OpenOptions, options: &Options) -> Result<Dataset> {
    let location = Location::parse(url)?;
    if !location.is_folder() || !location.is_listed() {
        return match open_object(&location, how, options) {
            Err(e) if e.kind() == ErrorKind::NotFound && location.is_listed() => {
                open_folder(&location, how, options)?.ok_or(e)
            }
            opened => opened,
        };
    }
    let missing = || Error::new(ErrorKind::NotFound, "there are no objects that end in .arrow").at(&location.name);
    open_folder(&location, how, options)?.ok_or_else(missing)
}

/// Makes [`arrowwood::open`] accept URLs, for the whole process.
pub fn install() {
    let takes = |url: &str| {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        ["s3", "s3a", "http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    };
    open_urls_with(UrlOpener { takes, open: |url, how| open_with(url, how, &Options::default()) });
}

pub(crate) fn open_object(location: &Location, how: OpenOptions, options: &Options) -> Result<Dataset> {
    let bytes = fetcher::open(Object::new(location.clone(), options.clone()));
    how.named_bytes(bytes.map_err(|e| e.at(&location.name))?, &location.name)
}

/// Opens the objects of a folder as one dataset; `None` if there is none.
fn open_folder(location: &Location, how: OpenOptions, options: &Options) -> Result<Option<Dataset>> {
    let objects = list(location, options).map_err(|e| e.at(&location.name))?;
    let opened = each(&objects, |object| open_object(object, how, options))?;
    if let Some(starts) = objects.iter().map(first_row).collect::<Option<Vec<_>>>() {
        let spans = objects.iter().zip(starts).zip(&opened).map(|((object, at), rows)| span(object, at, rows));
        check_order(&objects, &spans.collect::<Result<Vec<_>>>()?)?;
    }
    match &opened[..] {
        [] => Ok(None),
        [only] => Ok(Some(only.clone())),
        several => Dataset::concat(several).map(Some),
    }
}

/// Returns the number of the first row in an object of a table, which is its name; `None` for other names.
pub(crate) fn first_row(object: &Location) -> Option<u64> {
    let digits = object.path.filename()?.strip_suffix(".arrow")?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// Returns the numbers of the rows of an object whose first row has number `start`.
///
/// # Errors
/// `InvalidData` for a name that no object of a table has.
pub(crate) fn span(object: &Location, start: u64, rows: &Dataset) -> Result<Range<u64>> {
    let beyond = || Error::new(ErrorKind::InvalidData, "it is called by a row that no table has").at(&object.name);
    Ok(start..start.checked_add(rows.len()?).ok_or_else(beyond)?)
}

/// Checks that the objects of a table have consecutive rows: two pushes at the same time may write over each other's.
///
/// # Errors
/// `InvalidData`.
pub(crate) fn check_order(objects: &[Location], spans: &[Range<u64>]) -> Result<()> {
    for (pair, object) in spans.windows(2).zip(objects.iter().skip(1)) {
        let (end, start) = (pair[0].end, pair[1].start);
        if end != start {
            let what = if end < start { "are missing" } else { "are there twice" };
            let message = format!(
                "it begins with row {start}, and the object before ends with row {end}: rows {what}; remove it and all \
                 after it, and push again"
            );
            return Err(Error::new(ErrorKind::InvalidData, message).at(&object.name));
        }
    }
    Ok(())
}

/// Calls `work` with each of `items`, several at a time, and returns the results in the same order.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let run = || {
        while let Some((number, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, items.get(n)?)))
        {
            let made = work(item);
            if made.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            done.lock_ignoring_poison().push((number, made));
        }
    };
    let call = CancelToken::current();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..REQUESTS.min(items.len())).map(|_| scope.spawn(|| call.run(run))).collect();
        call.run(run);
        call.wait(|| threads.iter().all(|thread| thread.is_finished()));
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}

/// Returns the objects of a folder whose names end in `.arrow`, in the order of their names.
pub(crate) fn list(location: &Location, options: &Options) -> Result<Vec<Location>> {
    let store = location.store(options.timeout)?;
    let wait = options.timeout;
    let folder = location.clone();
    let names = RequestRuntime::for_process()?.wait(async move {
        let late =
            |_| Error::new(ErrorKind::Io, format!("listing the folder: the store did not answer within {wait:?}"));
        let mut listed = store.list(Some(&folder.path));
        let mut names = Vec::new();
        // Counts objects with any name, as a store may list others without end.
        let mut count = 0;
        while let Some(found) = timeout(wait, listed.next()).await.map_err(late)? {
            count += 1;
            let found = found.map_err(|e| failed("listing the folder", &e, folder.is_listed()))?;
            let mut inside = found.location.prefix_match(&folder.path).into_iter().flatten();
            let is_own = inside.next().is_some_and(|name| name.as_ref().ends_with(".arrow")) && inside.next().is_none();
            drop(inside);
            names.extend(is_own.then_some(found.location));
            if count > MOST {
                return Err(Error::new(ErrorKind::Unsupported, format!("the folder has more than {MOST} objects")));
            }
        }
        names.sort_unstable();
        Ok(names)
    })?;
    // Paths are used as the store lists them, because making a path of a name would escape it.
    Ok(names.into_iter().map(|path| location.listed(path)).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use arrowwood::{WriteOptions, write};

    use super::*;

    #[test]
    fn objects_with_odd_names_are_listed_and_opened() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a b.arrow", "a[1].arrow", "a~b.arrow", "day=1#2.arrow", "ü.arrow"];
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let rows = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", numbers)]).unwrap()]).unwrap();
        names.iter().for_each(|name| write(&rows, folder.path().join(name), &WriteOptions::default()).unwrap());
        let location = Location::parse(&format!("file://{}/", folder.path().display())).unwrap();
        let listed = list(&location, &Options::default()).unwrap();
        assert_eq!(listed.iter().map(|object| object.path.filename().unwrap()).collect::<Vec<_>>(), names);
        let opened = open_folder(&location, OpenOptions::new(), &Options::default()).unwrap().unwrap();
        assert_eq!(opened.len().unwrap(), 10);
    }

    #[test]
    fn names_beyond_all_rows_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let rows = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", numbers)]).unwrap()]).unwrap();
        write(&rows, folder.path().join(format!("{}.arrow", u64::MAX)), &WriteOptions::default()).unwrap();
        let location = Location::parse(&format!("file://{}/", folder.path().display())).unwrap();
        let error = open_folder(&location, OpenOptions::new(), &Options::default()).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains("a row that no table has"), "{error}");
    }
}
