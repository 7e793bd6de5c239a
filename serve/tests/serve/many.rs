//! Tests more tables than may be open at once: idle ones are closed for others, and every request is answered
//! eventually.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use arrowwood::open;
use arrowwood_serve::{Limits, Options};

use crate::support::*;

const TABLES: usize = 40;
const OPEN: usize = 4;

fn serve_with_limits(tables: usize, writers: usize) -> Served {
    let limits = Limits { tables, writers, ..Limits::default() };
    Served::with(|_| Options { limits, ..options() })
}

/// Returns the tables whose files this process, and so the server, has open or mapped.
fn opened(served: &Served) -> BTreeSet<String> {
    let folder = format!("{}/", served.folder.path().join("data").display());
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let files = descriptors.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string()));
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let all = files.chain(maps.lines().map(str::to_owned));
    all.filter_map(|line| Some(line.split_once(&folder)?.1.split('/').next()?.to_owned())).collect()
}

#[test]
fn idle_tables_are_closed_for_others_and_reopened() {
    let served = serve_with_limits(OPEN, 1_000);
    for table in 0..TABLES {
        served.numbers(&format!("t{table}"), 3 + table as i64);
    }
    let mut client = served.client();
    for round in 0..3 {
        for table in 0..TABLES {
            let path = format!("/v1/tables/t{table}/rows");
            let rows = client.send("GET", &path, &[], b"").unwrap().dataset();
            assert_eq!(rows.len().unwrap(), 3 + table as u64, "{path} in round {round}");
            let open = opened(&served);
            assert!(open.len() <= OPEN && open.contains(&format!("t{table}")), "{open:?}");
        }
    }
    // A followed table is not closed for others, and its rows arrive.
    let mut follower = served.client();
    follower.begin("GET", "/v1/tables/t0/follow?from=3", &[], b"").unwrap();
    follower.head().unwrap();
    let mut rows = arrowwood::read_stream(follower.body()).unwrap();
    for table in 1..TABLES {
        assert_eq!(client.send("GET", &format!("/v1/tables/t{table}"), &[], b"").unwrap().status, 200);
        let open = opened(&served);
        assert!(open.len() <= OPEN + 1 && open.contains("t0"), "{open:?}");
    }
    assert_eq!(served.post_json("t0", "{\"n\":3}").status, 200);
    assert_eq!(rows.next().unwrap().unwrap().num_rows(), 1);
}

/// A written table is closed soon after its last rows if others wait, although idle tables may stay open for long.
#[test]
fn tables_take_turns_at_the_limit_of_writers() {
    let limits = Limits { tables: OPEN, writers: OPEN, writer: Duration::from_secs(3_600), ..Limits::default() };
    let served = Served::with(|_| Options { limits, ..options() });
    let mut refused = 0;
    for round in 0..2 {
        for table in 0..TABLES {
            let lines = format!("t{table} n=1i {round}");
            wait_until("there is a place", || {
                let reply = served.send("POST", "/write", &[], lines.as_bytes());
                if reply.status == 503 {
                    refused += 1;
                    assert!(reply.text().contains("LimitNOFILE") && reply.header("retry-after").is_some());
                } else {
                    assert_eq!(reply.status, 204, "{}", reply.text());
                }
                reply.status == 204
            });
            // Tables that are open for reading, and for writing.
            let open = opened(&served);
            assert!(open.len() <= 2 * OPEN, "{open:?}");
        }
    }
    assert!(refused > 0, "more than {OPEN} at once");
    for table in 0..TABLES {
        assert_eq!(served.rows(&format!("/v1/tables/t{table}/rows")).len().unwrap(), 2);
    }
}

#[test]
fn refusal_names_the_option_to_raise() {
    let served = serve_with_limits(OPEN, 0);
    served.numbers("t", 3);
    let reply = served.post_json("t", "{\"n\":3}");
    assert_eq!((reply.status, reply.code().as_str()), (503, "unavailable"));
    assert!(reply.text().contains("LimitNOFILE"), "{}", reply.text());
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 3);
}

/// Clients don't repeat a request of which some lines were appended, so they would lose the others.
#[test]
fn lines_for_too_many_tables_are_refused_as_a_whole() {
    let served = serve_with_limits(TABLES, OPEN);
    let lines = |tables: std::ops::Range<usize>| tables.map(|table| format!("t{table} n=1i\n")).collect::<String>();
    let reply = served.send("POST", "/write", &[], lines(0..OPEN + 1).as_bytes());
    assert_eq!((reply.status, reply.code().as_str()), (503, "unavailable"), "{}", reply.text());
    assert!(reply.text().contains("nothing was appended"), "{}", reply.text());
    for round in 1..3 {
        wait_until("there are places", || served.send("POST", "/write", &[], lines(0..OPEN).as_bytes()).status == 204);
        // Lines for tables that are open already are accepted.
        assert_eq!(served.send("POST", "/write", &[], lines(0..OPEN).as_bytes()).status, 204);
        for table in 0..OPEN {
            assert_eq!(open(served.path(&format!("t{table}"))).unwrap().len().unwrap(), 2 * round);
        }
    }
}
