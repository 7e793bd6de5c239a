//! Tests that files removed while the server has them open free their space soon, even without further requests.

use std::fs;
use std::time::Duration;

use arrowwood::{Value, Writer, WriterOptions, compact};
use arrowwood_serve::{Limits, Options};

use crate::support::*;

fn serve_with_quick_checks() -> Served {
    let limits =
        Limits { removed: Duration::from_millis(100), writer: Duration::from_millis(200), ..Limits::default() };
    Served::with(|_| Options { limits, ..options() })
}

/// Returns how many files of a table this process, and so the server, has mapped, and how many of these were removed.
fn mapped(served: &Served, table: &str) -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    // A writer's files have no name at first, and are listed under their inode number from then on.
    let folder = format!("{}/0", served.path(table).display());
    let lines: Vec<_> = maps.lines().filter(|line| line.contains(&folder)).collect();
    (lines.len(), lines.iter().filter(|line| line.ends_with(" (deleted)")).count())
}

fn assert_freed(served: &Served, table: &str) {
    wait_until("removed files are closed", || mapped(served, table).1 == 0);
}

/// Creates a table of `segments` segments.
fn segments(served: &Served, name: &str, segments: i64) -> Writer {
    let schema = std::sync::Arc::new(arrowwood::parse_schema("n: int not null").unwrap());
    let options = WriterOptions { segment_rows: Some(1_000), ..WriterOptions::default() };
    let mut writer = Writer::open(served.path(name), Some(schema), &options).unwrap();
    (0..1_000 * segments - 500).for_each(|n| writer.append_row(&[Value::Int(n)]).unwrap());
    writer.commit().unwrap();
    writer
}

#[test]
fn removed_table_frees_its_space() {
    let served = serve_with_quick_checks();
    served.numbers("kept", 3);
    for name in ["t", "u"] {
        segments(&served, name, 3).close().unwrap();
        assert_eq!(served.rows(&format!("/v1/tables/{name}/rows")).len().unwrap(), 2_500);
        assert!(mapped(&served, name).0 >= 3, "its files are open");
    }
    served.rows("/v1/tables/kept/rows");
    fs::remove_dir_all(served.path("t")).unwrap();
    assert!(mapped(&served, "t").1 > 0 || mapped(&served, "t").0 == 0);
    assert_freed(&served, "t");
    // A table that the server itself has just written.
    assert_eq!(served.post_json("u", "{\"n\":1}").status, 200);
    fs::remove_dir_all(served.path("u")).unwrap();
    assert_freed(&served, "u");
    assert!(mapped(&served, "kept").0 > 0, "what is there stays open");
    // A new table with the same name is served immediately.
    served.numbers("t", 7);
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 7);
}

#[test]
fn compacted_and_dropped_rows_free_their_space() {
    let served = serve_with_quick_checks();
    segments(&served, "t", 3).close().unwrap();
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 2_500);
    assert!(mapped(&served, "t").0 >= 3, "its files are open");
    compact(served.path("t"), |_, _| ()).unwrap();
    assert_freed(&served, "t");
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 2_500);
    let mut writer = Writer::open(served.path("t"), None, &WriterOptions::default()).unwrap();
    assert!(writer.drop_before(1_000).unwrap() > 0);
    writer.close().unwrap();
    assert_freed(&served, "t");
    assert_eq!(served.rows("/v1/tables/t/rows?from=1000").len().unwrap(), 1_500);
}

/// The thread that watches a table for its followers has it open, too.
#[test]
fn compacted_rows_of_a_followed_table_free_their_space() {
    let served = serve_with_quick_checks();
    let mut writer = segments(&served, "t", 3);
    let mut client = served.client();
    client.begin("GET", "/v1/tables/t/follow?from=2499", &[], b"").unwrap();
    client.head().unwrap();
    let mut body = arrowwood::read_stream(client.body()).unwrap();
    assert_eq!(body.next().unwrap().unwrap().num_rows(), 1);
    assert_eq!(served.rows("/v1/tables/t/rows").len().unwrap(), 2_500);
    assert!(writer.compact(|_, _| ()).unwrap() >= 2);
    assert_freed(&served, "t");
    // The follower has missed no row.
    for n in 2_500..2_510 {
        writer.append_row(&[Value::Int(n)]).unwrap();
        writer.commit().unwrap();
        assert_eq!(body.next().unwrap().unwrap().num_rows(), 1);
    }
}
