//! Stores that lie, stall and break off: one error each, in time, and never a wrong value.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, BooleanArray, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrowwood::{Dataset, ErrorKind, OpenOptions};
use arrowwood_objects::{Options, open, open_with};

use super::requests::{indexed, numbers};
use super::server::{Lie, Server, impatient, options};
use super::wait::PATIENCE;

/// What comes of opening the object and reading all of it.
fn read(server: &Server) -> Result<String, arrowwood::Error> {
    read_with(server, &options())
}

fn read_with(server: &Server, options: &Options) -> Result<String, arrowwood::Error> {
    let begun = Instant::now();
    let rows = open_with(&server.url(), OpenOptions::new(), options);
    let sum = rows.and_then(|rows| Ok(rows.column("c1")?.sum()?.to_string()));
    assert!(begun.elapsed() < PATIENCE, "it took {:?}", begun.elapsed());
    sum
}

#[test]
fn each_lie_is_an_error_that_says_so() {
    use ErrorKind::*;
    let bytes = indexed(&numbers(100_000, 4), 10_000);
    let expected = numbers(100_000, 4).column("c1").unwrap().sum().unwrap().to_string();
    assert_eq!(read(&Server::of_bytes(bytes.clone())).unwrap(), expected);
    assert_eq!(read(&Server::lying(bytes.clone(), Lie::NoTag)).unwrap(), expected);
    for (lie, kind, says) in [
        (Lie::WholeObject, Unsupported, "ignores ranges"),
        (Lie::Status(403), PermissionDenied, "denies access (403)"),
        (Lie::Status(401), PermissionDenied, "asks for a user and a password (401)"),
        (Lie::Status(404), NotFound, "has no such file (404)"),
        (Lie::Status(500), Io, "500"),
        (Lie::Size(200_000_000_000), InvalidData, "another range"),
        (Lie::Size(u64::MAX), InvalidData, "bytes"),
        (Lie::OtherRange, InvalidData, "another range"),
        (Lie::ShortSaid, InvalidData, "were asked for"),
        (Lie::Long, InvalidData, "more than"),
        (Lie::Silent, Io, "did not answer within"),
        (Lie::Stall, Io, "did not answer within"),
        (Lie::Replaced, FileChanged, "replaced"),
        (Lie::ReplacedInSecret, FileChanged, "replaced"),
        (Lie::EndlessHeader, Io, ""),
    ] {
        let server = Server::lying(bytes.clone(), lie);
        let waits = matches!(lie, Lie::Silent | Lie::Stall | Lie::EndlessHeader);
        let options = if waits { impatient() } else { options() };
        let error = read_with(&server, &options).expect_err(&format!("{lie:?}"));
        println!("{lie:?}: {error}");
        assert_eq!(error.kind(), kind, "{lie:?}: {error}");
        assert!(error.to_string().contains(says), "{lie:?}: {error}");
        assert_eq!(error.path().unwrap().to_str().unwrap(), server.url(), "{lie:?}: {error}");
        assert!(!error.to_string().contains('\n') && error.to_string().len() < 500, "{lie:?}: {error}");
    }
}

/// A body that breaks off is asked for again, from there on.
#[test]
fn what_breaks_off_is_never_taken_for_whole() {
    let bytes = indexed(&numbers(100_000, 4), 10_000);
    let server = Server::lying(bytes, Lie::Short);
    let expected = numbers(100_000, 4).column("c1").unwrap().sum().unwrap().to_string();
    match read(&server) {
        Ok(sum) => assert_eq!(sum, expected),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Io, "{e}"),
    }
}

#[test]
fn a_replaced_object_stays_changed_and_what_was_fetched_is_not_mixed() {
    let server = Server::of_bytes(indexed(&numbers(100_000, 4), 10_000));
    let rows = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    assert_eq!(rows.row(5).unwrap().get(0).unwrap().to_string(), "20");
    server.lie(Lie::Replaced);
    assert_eq!(
        rows.row(55_000).err().or_else(|| rows.row(55_000).unwrap().get(0).err()).unwrap().kind(),
        ErrorKind::FileChanged
    );
    server.lie(Lie::None);
    let again = rows.row(75_000).and_then(|row| row.get(0).map(|value| value.to_string()));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::FileChanged);
    assert_eq!(open_with(&server.url(), OpenOptions::new(), &options()).unwrap().len().unwrap(), 100_000);
}

/// Requests are longer than what is missing, and each answer may differ.
#[test]
fn what_was_fetched_is_never_written_again() {
    const ROWS: i64 = 100_000;
    let wide: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter((0..ROWS).map(|_| [7; 64])).unwrap());
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let flag: ArrayRef = Arc::new(BooleanArray::from_iter((0..ROWS).map(|row| Some(row % 2 == 0))));
    let batch = RecordBatch::try_from_iter([("wide", wide), ("flag", flag), ("n", n)]).unwrap();
    // Batches too large to be fetched whole, whose flags have 2,500 bytes. A request for them goes on into the numbers behind them.
    let server = Server::of_bytes(indexed(&Dataset::try_from(vec![batch]).unwrap(), 20_000));
    let rows = open_with(&server.url(), OpenOptions::new(), &options()).unwrap();
    let sum = |name: &str| rows.column(name).unwrap().sum().unwrap().to_string();
    let honest = (ROWS * (ROWS - 1) / 2).to_string();
    assert_eq!(sum("n"), honest);
    server.lie(Lie::OtherBytes);
    assert_ne!(sum("flag"), (ROWS / 2).to_string(), "the server did not lie");
    assert_eq!(sum("n"), honest);
}

#[test]
fn an_error_is_not_kept() {
    let server = Server::of_bytes(indexed(&numbers(100_000, 4), 10_000));
    // The honest answer, after the one that stalls, has the same time.
    let options = Options { timeout: Duration::from_secs(2), ..options() };
    let rows = open_with(&server.url(), OpenOptions::new(), &options).unwrap();
    server.lie(Lie::Stall);
    let value = |row| rows.row(row).and_then(|row| row.get(0).map(|value| value.to_string()));
    assert_eq!(value(55_000).unwrap_err().kind(), ErrorKind::Io);
    server.lie(Lie::None);
    assert_eq!(value(55_000).unwrap(), "220000");
}

#[test]
fn what_is_no_object_is_refused() {
    let kind = |url: &str| open(url).map(drop).unwrap_err().kind();
    assert_eq!(kind("s3:///nothing"), ErrorKind::InvalidArgument);
    assert_eq!(kind("http://127.0.0.1:1/a.arrow"), ErrorKind::Io);
    assert_eq!(kind("http://[broken/a.arrow"), ErrorKind::InvalidArgument);
    let empty = Server::of_bytes(vec![]);
    assert_eq!(open(&empty.url()).map(drop).unwrap_err().kind(), ErrorKind::InvalidData);
    let parquet = Server::of_bytes(b"PAR1 and so on".to_vec());
    assert!(open(&parquet.url()).map(drop).unwrap_err().to_string().contains("Parquet"));
}

#[test]
fn secrets_of_a_url_are_not_shown() {
    let server = Server::lying(vec![1; 100], Lie::Status(403));
    let url = format!("{}?X-Amz-Signature=sesame", server.url()).replace("http://", "http://user:hush@");
    let error = open(&url).map(drop).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("sesame") && !format!("{error:?}").contains("hush"), "{error:?}");
}

/// Damage that a store may send instead of the file: any byte changed, in a file that is not checked by anything else.
#[test]
fn changed_bytes_give_values_or_errors() {
    let bytes = indexed(&numbers(300, 3), 50);
    // That it is a file its end says, too.
    for at in (8..bytes.len()).step_by(37) {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        let server = Server::of_bytes(changed.clone());
        let sum = |rows: arrowwood::Result<arrowwood::Dataset>| {
            rows.and_then(|rows| Ok(format!("{} {}", rows.len()?, rows.column("c1")?.sum()?))).map_err(|e| e.kind())
        };
        let local = sum(OpenOptions::new().bytes(changed.into()));
        assert_eq!(sum(open_with(&server.url(), OpenOptions::new(), &options())), local, "byte {at}");
    }
}
