//! Tests that stores that send wrong responses, stall or break off cause errors in time, and never wrong values.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, BooleanArray, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrowwood::{Dataset, ErrorKind, OpenOptions};
use arrowwood_objects::{Options, open, open_with};

use super::requests::{indexed_file, numbers};
use super::server::{Fault, Server, impatient, options};
use super::wait::PATIENCE;

const ROWS: i64 = 100_000;

fn sample_file() -> Vec<u8> {
    indexed_file(&numbers(ROWS, 4), 10_000)
}

/// Opens the object and reads a column, within the patience of tests.
fn sum_column(server: &Server, options: &Options) -> Result<String, arrowwood::Error> {
    let start = Instant::now();
    let rows = open_with(&server.url(), OpenOptions::new(), options);
    let sum = rows.and_then(|rows| Ok(rows.column("c1")?.sum()?.to_string()));
    assert!(start.elapsed() < PATIENCE, "it took {:?}", start.elapsed());
    sum
}

fn expected_sum() -> String {
    numbers(ROWS, 4).column("c1").unwrap().sum().unwrap().to_string()
}

/// Reads the first value of a row.
fn first_value(rows: &Dataset, row: u64) -> arrowwood::Result<String> {
    rows.row(row)?.get(0).map(|value| value.to_string())
}

#[test]
fn wrong_responses_are_errors_that_name_the_problem() {
    use ErrorKind::*;
    let bytes = sample_file();
    assert_eq!(sum_column(&Server::of_bytes(bytes.clone()), &options()).unwrap(), expected_sum());
    assert_eq!(sum_column(&Server::with_fault(bytes.clone(), Fault::NoTag), &options()).unwrap(), expected_sum());
    for (fault, kind, message) in [
        (Fault::WholeObject, Unsupported, "ignores ranges"),
        (Fault::Status(403), PermissionDenied, "denies access (403)"),
        (Fault::Status(401), PermissionDenied, "asks for a user and a password (401)"),
        (Fault::Status(404), NotFound, "has no such file (404)"),
        (Fault::Status(500), Io, "500"),
        (Fault::Size(200_000_000_000), InvalidData, "another range"),
        (Fault::Size(u64::MAX), InvalidData, "bytes"),
        (Fault::OtherRange, InvalidData, "another range"),
        (Fault::ShortLength, InvalidData, "were asked for"),
        (Fault::Long, InvalidData, "more than"),
        (Fault::Silent, Io, "did not answer within"),
        (Fault::Stall, Io, "did not answer within"),
        (Fault::Replaced, FileChanged, "replaced"),
        (Fault::ReplacedSilently, FileChanged, "replaced"),
        (Fault::EndlessHeader, Io, ""),
    ] {
        let server = Server::with_fault(bytes.clone(), fault);
        let is_slow = matches!(fault, Fault::Silent | Fault::Stall | Fault::EndlessHeader);
        let options = if is_slow { impatient() } else { options() };
        let error = sum_column(&server, &options).expect_err(&format!("{fault:?}"));
        println!("{fault:?}: {error}");
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        assert!(error.to_string().contains(message), "{fault:?}: {error}");
        assert_eq!(error.path().unwrap().to_str().unwrap(), server.url(), "{fault:?}: {error}");
        assert!(!error.to_string().contains('\n') && error.to_string().len() < 500, "{fault:?}: {error}");
    }
}

/// The rest of a response that breaks off is requested again.
#[test]
fn truncated_responses_are_not_taken_for_complete() {
    let server = Server::with_fault(sample_file(), Fault::Short);
    match sum_column(&server, &options()) {
        Ok(sum) => assert_eq!(sum, expected_sum()),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Io, "{e}"),
    }
}

#[test]
fn replaced_object_fails_until_it_is_opened_again() {
    let server = Server::of_bytes(sample_file());
    let rows = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    assert_eq!(first_value(&rows, 5).unwrap(), "20");
    server.set_fault(Fault::Replaced);
    assert_eq!(first_value(&rows, 55_000).unwrap_err().kind(), ErrorKind::FileChanged);
    // Rows of two versions must not be mixed, so that the error remains.
    server.set_fault(Fault::None);
    assert_eq!(first_value(&rows, 75_000).unwrap_err().kind(), ErrorKind::FileChanged);
    assert_eq!(open_with(&server.url(), OpenOptions::new(), &options()).unwrap().len().unwrap(), 100_000);
}

fn column_sum(rows: &Dataset, name: &str) -> String {
    rows.column(name).unwrap().sum().unwrap().to_string()
}

/// Requests may be longer than the missing ranges, and responses may differ.
#[test]
fn fetched_ranges_are_not_overwritten() {
    let wide: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter((0..ROWS).map(|_| [7; 64])).unwrap());
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let flag: ArrayRef = Arc::new(BooleanArray::from_iter((0..ROWS).map(|row| Some(row % 2 == 0))));
    let batch = RecordBatch::try_from_iter([("wide", wide), ("flag", flag), ("n", n)]).unwrap();
    // The batches are too large to be fetched as a whole, and their flags have 2,500 bytes. A request for the flags
    // includes the numbers after them.
    let server = Server::of_bytes(indexed_file(&Dataset::try_from(vec![batch]).unwrap(), 20_000));
    let rows = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    let expected = (ROWS * (ROWS - 1) / 2).to_string();
    assert_eq!(column_sum(&rows, "n"), expected);
    server.set_fault(Fault::OtherBytes);
    assert_ne!(column_sum(&rows, "flag"), (ROWS / 2).to_string(), "the server sent the correct bytes");
    assert_eq!(column_sum(&rows, "n"), expected);
}

#[test]
fn timed_out_ranges_are_requested_again() {
    let server = Server::of_bytes(sample_file());
    // The correct response, after the one that stalls, has the same time.
    let options = Options { timeout: Duration::from_secs(2), ..options() };
    let rows = open_with(&server.url(), OpenOptions::new(), &options).unwrap();
    server.set_fault(Fault::Stall);
    assert_eq!(first_value(&rows, 55_000).unwrap_err().kind(), ErrorKind::Io);
    server.set_fault(Fault::None);
    assert_eq!(first_value(&rows, 55_000).unwrap(), "220000");
}

#[test]
fn invalid_urls_and_contents_are_rejected() {
    for (url, expected) in [
        ("s3:///nothing", ErrorKind::InvalidArgument),
        ("http://127.0.0.1:1/a.arrow", ErrorKind::Io),
        ("http://[broken/a.arrow", ErrorKind::InvalidArgument),
    ] {
        assert_eq!(open(url).map(drop).unwrap_err().kind(), expected, "{url}");
    }
    let empty = Server::of_bytes(vec![]);
    assert_eq!(open(&empty.url()).map(drop).unwrap_err().kind(), ErrorKind::InvalidData);
    let parquet = Server::of_bytes(b"PAR1 and so on".to_vec());
    assert!(open(&parquet.url()).map(drop).unwrap_err().to_string().contains("Parquet"));
}

#[test]
fn errors_have_no_secrets_of_the_url() {
    let server = Server::with_fault(vec![1; 100], Fault::Status(403));
    let url = format!("{}?X-Amz-Signature=sesame", server.url()).replace("http://", "http://user:hush@");
    let error = open(&url).map(drop).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("sesame") && !format!("{error:?}").contains("hush"), "{error:?}");
}

#[test]
fn debug_output_has_no_secrets_of_the_url() {
    let server = Server::of_bytes(indexed_file(&numbers(300, 3), 50));
    let url = format!("{}?X-Amz-Signature=sesame", server.url()).replace("http://", "http://user:hush@");
    let dataset = open_with(&url, OpenOptions::new(), &options()).unwrap();
    let row = dataset.row(7).unwrap();
    let shown = format!("{dataset:?} {row:?} {:?} {:?}", row.get(0).unwrap(), dataset.file_slices().unwrap());
    assert!(!shown.contains("sesame") && !shown.contains("hush"), "{shown}");
}

fn count_and_sum(rows: arrowwood::Result<Dataset>) -> Result<String, ErrorKind> {
    rows.and_then(|rows| Ok(format!("{} {}", rows.len()?, rows.column("c1")?.sum()?))).map_err(|e| e.kind())
}

/// Compares with the same bytes in memory, as the file has no checksums.
#[test]
fn damaged_bytes_cause_the_same_values_or_errors_as_in_memory() {
    let intact = indexed_file(&numbers(300, 3), 50);
    // Leaves the magic bytes at the start. The end has them, too.
    for offset in (8..intact.len()).step_by(37) {
        let mut damaged = intact.clone();
        damaged[offset] ^= 0xff;
        let server = Server::of_bytes(damaged.clone());
        let expected = count_and_sum(OpenOptions::new().bytes(damaged.into()));
        let actual = count_and_sum(open_with(&server.url(), OpenOptions::new(), &options()));
        assert_eq!(actual, expected, "byte {offset}");
    }
}
