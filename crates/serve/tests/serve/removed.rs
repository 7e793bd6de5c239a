//! Tests that files removed while the server has them open free their space soon, even without further requests.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use arrowwood::{Writer, WriterOptions, compact, parse_schema};
use arrowwood_serve::{Limits, Options};

use crate::support::*;

/// The number of rows of a table with three segments.
const ROWS: i64 = 2_500;

/// Starts a server that looks for removed files often.
fn start_with_quick_checks() -> TestServer {
    let limits =
        Limits { removed: Duration::from_millis(100), writer: Duration::from_millis(200), ..Limits::default() };
    TestServer::start_with(|_| Options { limits, ..options() })
}

/// The numbers of a table's files that this process, and so the server, has mapped.
struct MappedFiles {
    /// Includes the removed files.
    total: usize,
    removed: usize,
}

fn count_mapped_files(server: &TestServer, table: &str) -> MappedFiles {
    let mappings = fs::read_to_string("/proc/self/maps").unwrap();
    // A writer's files have no name at first, and are listed under their inode number from then on.
    let prefix = format!("{}/0", server.path(table).display());
    let mut files = MappedFiles { total: 0, removed: 0 };
    for line in mappings.lines().filter(|line| line.contains(&prefix)) {
        files.total += 1;
        if line.ends_with(" (deleted)") {
            files.removed += 1;
        }
    }
    files
}

/// Waits until the server has closed all removed files of a table.
#[track_caller]
fn assert_freed(server: &TestServer, table: &str) {
    wait_until("removed files are closed", || count_mapped_files(server, table).removed == 0);
}

/// Reads a table and asserts that it has `rows` rows; leaves its files open in the server.
#[track_caller]
fn assert_row_count(server: &TestServer, table: &str, rows: i64) {
    assert_eq!(server.get_rows(&format!("/v1/tables/{table}/rows")).len().unwrap(), rows as u64);
}

/// Creates a table of three segments, the last of them half full.
fn write_segments(server: &TestServer, table: &str) -> Writer {
    let schema = Arc::new(parse_schema("n: int not null").unwrap());
    let options = WriterOptions { segment_rows: Some(1_000), ..WriterOptions::default() };
    let mut writer = Writer::open(server.path(table), Some(schema), &options).unwrap();
    append_numbers(&mut writer, 0..ROWS);
    writer
}

#[test]
fn removed_table_frees_its_space() {
    let server = start_with_quick_checks();
    server.write_numbers("kept", 3);
    for table in ["t", "u"] {
        write_segments(&server, table).close().unwrap();
        assert_row_count(&server, table, ROWS);
        assert!(count_mapped_files(&server, table).total >= 3, "its files are open");
    }
    assert_row_count(&server, "kept", 3);

    fs::remove_dir_all(server.path("t")).unwrap();
    // The server may have closed the files already.
    let files = count_mapped_files(&server, "t");
    assert!(files.removed > 0 || count_mapped_files(&server, "t").total == 0);
    assert_freed(&server, "t");

    // The server itself has just written to the other table.
    assert_eq!(server.post_json("u", "{\"n\":1}").status, 200);
    fs::remove_dir_all(server.path("u")).unwrap();
    assert_freed(&server, "u");
    assert!(count_mapped_files(&server, "kept").total > 0, "files that exist stay open");

    // A new table with the same name can be read immediately.
    server.write_numbers("t", 7);
    assert_row_count(&server, "t", 7);
}

#[test]
fn compacted_and_dropped_rows_free_their_space() {
    let server = start_with_quick_checks();
    write_segments(&server, "t").close().unwrap();
    assert_row_count(&server, "t", ROWS);
    assert!(count_mapped_files(&server, "t").total >= 3, "its files are open");

    compact(server.path("t"), |_, _| ()).unwrap();
    assert_freed(&server, "t");
    assert_row_count(&server, "t", ROWS);

    let mut writer = Writer::open(server.path("t"), None, &WriterOptions::default()).unwrap();
    assert!(writer.drop_before(1_000).unwrap() > 0);
    writer.close().unwrap();
    assert_freed(&server, "t");
    assert_eq!(server.get_rows("/v1/tables/t/rows?from=1000").len().unwrap(), 1_500);
}

/// The thread that watches a table for its followers has it open, too.
#[test]
fn compacted_rows_of_a_followed_table_free_their_space() {
    let server = start_with_quick_checks();
    let mut writer = write_segments(&server, "t");
    let mut client = server.client();
    client.send_request("GET", "/v1/tables/t/follow?from=2499", &[], b"").unwrap();
    client.read_head().unwrap();
    let mut followed = arrowwood::read_stream(client.body()).unwrap();
    assert_eq!(followed.next().unwrap().unwrap().num_rows(), 1);
    assert_row_count(&server, "t", ROWS);

    assert!(writer.compact(|_, _| ()).unwrap() >= 2);
    assert_freed(&server, "t");
    // The follower has missed no row.
    for n in ROWS..ROWS + 10 {
        append_numbers(&mut writer, n..n + 1);
        assert_eq!(followed.next().unwrap().unwrap().num_rows(), 1);
    }
}
