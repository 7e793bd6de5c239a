//! Writes a table at full speed for `tests/live/live.py`: `ticks FOLDER SECONDS JOURNAL SEED SEGMENT_ROWS`.
//!
//! Prints a line of JSON when the table is open, and another when the writer has finished.

use std::path::Path;
use std::time::Duration;

#[path = "../../../../tests/support/dice.rs"]
mod dice;
#[path = "../../../../tests/live/ticks.rs"]
#[allow(dead_code, reason = "the readers are for tests/tables/live.rs")]
mod ticks;
#[path = "../../../../tests/support/wait.rs"]
mod wait;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, seconds, journal, seed, segment_rows] = &arguments[..] else {
        eprintln!("ticks FOLDER SECONDS JOURNAL SEED SEGMENT_ROWS");
        std::process::exit(2);
    };
    let time = Duration::from_secs_f64(seconds.parse().unwrap());
    let shape = ticks::Shape { segment_rows: segment_rows.parse().unwrap(), lists: true, keep: None, late: false };
    let journal = ticks::Journal::open(Path::new(journal));
    let report_rows = |rows: u64| println!("{{\"opened\": {rows}}}");
    let report = ticks::write(Path::new(folder), shape, &journal, seed.parse().unwrap(), time, report_rows);
    let (commits, rows, seconds) = (report.looks, report.rows, time.as_secs_f64());
    println!("{{\"rows\": {rows}, \"commits\": {commits}, \"seconds\": {seconds}}}");
}
