//! Tests servers with more tables than may be open at once: idle tables are closed for others, and every request is
//! answered eventually.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

use arrowwood::open;
use arrowwood_serve::{Limits, Options};

use crate::support::*;

/// The number of tables, which is much larger than the limits.
const TABLES: usize = 40;
/// The limit of tables that are open at once.
const MAX_OPEN: usize = 4;

fn start_with_limits(limits: Limits) -> TestServer {
    TestServer::start_with(|_| Options { limits, ..options() })
}

/// Returns the tables whose files this process, and so the server, has open or mapped.
fn open_tables(server: &TestServer) -> BTreeSet<String> {
    let folder = format!("{}/", server.folder.path().join("data").display());
    let mut paths = Vec::new();
    for descriptor in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        // Other threads may have closed the file meanwhile.
        if let Ok(path) = fs::read_link(descriptor.path()) {
            paths.push(path.display().to_string());
        }
    }
    let mappings = fs::read_to_string("/proc/self/maps").unwrap();
    paths.extend(mappings.lines().map(str::to_owned));

    let mut tables = BTreeSet::new();
    for path in &paths {
        if let Some((_, path_in_folder)) = path.split_once(&folder) {
            let table = path_in_folder.split('/').next().unwrap();
            tables.insert(table.to_owned());
        }
    }
    tables
}

/// Returns true if this process, and so the server, has a file of a table open for writing.
fn is_open_for_writing(server: &TestServer, table: &str) -> bool {
    const OWNER_WRITE: u32 = 0o200;
    let folder = server.path(table);
    for descriptor in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let link = descriptor.path();
        // Other threads may have closed the file meanwhile.
        let (Ok(path), Ok(metadata)) = (fs::read_link(&link), fs::symlink_metadata(&link)) else { continue };
        // The permissions of the link tell how the file was opened.
        if path.starts_with(&folder) && metadata.permissions().mode() & OWNER_WRITE != 0 {
            return true;
        }
    }
    false
}

/// Asserts that `table` is open, and that at most `max_open` tables are.
#[track_caller]
fn assert_open(server: &TestServer, table: &str, max_open: usize) {
    let open = open_tables(server);
    assert!(open.len() <= max_open && open.contains(table), "{open:?}");
}

/// Sends lines of InfluxDB's line protocol.
fn post_lines(server: &TestServer, lines: &str) -> Reply {
    server.send("POST", "/write", &[], lines.as_bytes())
}

/// Returns one line for each of some tables.
fn format_lines(tables: Range<usize>) -> String {
    tables.map(|table| format!("t{table} n=1i\n")).collect()
}

#[test]
fn idle_tables_are_closed_for_others_and_reopened() {
    let server = start_with_limits(Limits { tables: MAX_OPEN, writers: 1_000, ..Limits::default() });
    for table in 0..TABLES {
        server.write_numbers(&format!("t{table}"), 3 + table as i64);
    }
    let mut client = server.client();
    for round in 0..3 {
        for table in 0..TABLES {
            let path = format!("/v1/tables/t{table}/rows");
            let rows = client.send("GET", &path, &[], b"").unwrap().dataset();
            assert_eq!(rows.len().unwrap(), 3 + table as u64, "{path} in round {round}");
            assert_open(&server, &format!("t{table}"), MAX_OPEN);
        }
    }

    // A followed table is not closed for others, and its rows arrive.
    let mut follower = server.client();
    follower.send_request("GET", "/v1/tables/t0/follow?from=3", &[], b"").unwrap();
    follower.read_head().unwrap();
    let mut followed = arrowwood::read_stream(follower.body()).unwrap();
    for table in 1..TABLES {
        let reply = client.send("GET", &format!("/v1/tables/t{table}"), &[], b"").unwrap();
        assert_eq!(reply.status, 200);
        assert_open(&server, "t0", MAX_OPEN + 1);
    }
    assert_eq!(server.post_json("t0", "{\"n\":3}").status, 200);
    assert_eq!(followed.next().unwrap().unwrap().num_rows(), 1);
}

/// A written table is closed soon after its last rows if others wait, although idle tables may stay open for long.
#[test]
fn tables_take_turns_at_the_limit_of_writers() {
    let idle_timeout = Duration::from_secs(3_600);
    let limits = Limits { tables: MAX_OPEN, writers: MAX_OPEN, writer: idle_timeout, ..Limits::default() };
    let server = start_with_limits(limits);
    let mut refusals = 0;
    for round in 0..2 {
        for table in 0..TABLES {
            let line = format!("t{table} n=1i {round}");
            wait_until("a writer is free", || {
                let reply = post_lines(&server, &line);
                if reply.status == 503 {
                    refusals += 1;
                    assert!(reply.text().contains("LimitNOFILE") && reply.header("retry-after").is_some());
                } else {
                    assert_eq!(reply.status, 204, "{}", reply.text());
                }
                reply.status == 204
            });
            // Some tables may be open for reading, and as many others for writing.
            let open = open_tables(&server);
            assert!(open.len() <= 2 * MAX_OPEN, "{open:?}");
        }
    }
    assert!(refusals > 0, "more than {MAX_OPEN} tables were open for writing");
    for table in 0..TABLES {
        let rows = server.get_rows(&format!("/v1/tables/t{table}/rows"));
        assert_eq!(rows.len().unwrap(), 2);
    }
}

/// The next rows of a table can arrive while its writer's thread ends, which must not count as a second table.
#[test]
fn a_table_being_closed_keeps_its_slot() {
    let server = start_with_limits(Limits { tables: TABLES, writers: 1, ..Limits::default() });
    let writer = server.writer("t", "n: int not null");
    assert!(is_open_for_writing(&server, "t"));
    writer.close().unwrap();
    assert!(!is_open_for_writing(&server, "t"));

    for round in 0..10 {
        let reply = server.post_json("t", &format!("{{\"n\":{round}}}"));
        assert_eq!(reply.status, 200, "round {round}: {}", reply.text());
        // Readers of the server may keep the table open.
        wait_until("the writer is closed", || !is_open_for_writing(&server, "t"));
    }
    assert_eq!(server.get_rows("/v1/tables/t/rows").len().unwrap(), 10);
}

/// Sends lines for as many tables as may be open, around the time at which these are closed.
#[test]
fn tables_being_closed_keep_their_slots() {
    let server = start_with_limits(Limits { tables: TABLES, writers: MAX_OPEN, ..Limits::default() });
    let lines = format_lines(0..MAX_OPEN);
    // A table is closed after a tenth of a second if others may wait.
    for pause_ms in 90..120 {
        let reply = post_lines(&server, &lines);
        assert_eq!(reply.status, 204, "after {pause_ms} ms: {}", reply.text());
        thread::sleep(Duration::from_millis(pause_ms));
    }
}

#[test]
fn refusal_names_the_option_to_raise() {
    let server = start_with_limits(Limits { tables: MAX_OPEN, writers: 0, ..Limits::default() });
    server.write_numbers("t", 3);
    let reply = server.post_json("t", "{\"n\":3}");
    assert_eq!((reply.status, reply.code().as_str()), (503, "unavailable"));
    assert!(reply.text().contains("LimitNOFILE"), "{}", reply.text());
    assert_eq!(server.get_rows("/v1/tables/t/rows").len().unwrap(), 3);
}

/// Clients don't repeat a request of which some lines were appended, so they would lose the others.
#[test]
fn lines_for_too_many_tables_are_refused_as_a_whole() {
    let server = start_with_limits(Limits { tables: TABLES, writers: MAX_OPEN, ..Limits::default() });
    let reply = post_lines(&server, &format_lines(0..MAX_OPEN + 1));
    assert_eq!((reply.status, reply.code().as_str()), (503, "unavailable"), "{}", reply.text());
    assert!(reply.text().contains("nothing was appended"), "{}", reply.text());

    let lines = format_lines(0..MAX_OPEN);
    for round in 1..3 {
        wait_until("writers are free", || post_lines(&server, &lines).status == 204);
        // Lines for tables that are open already are accepted.
        assert_eq!(post_lines(&server, &lines).status, 204);
        for table in 0..MAX_OPEN {
            let rows = open(server.path(&format!("t{table}"))).unwrap();
            assert_eq!(rows.len().unwrap(), 2 * round);
        }
    }
}
