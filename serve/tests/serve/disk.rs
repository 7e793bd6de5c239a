//! Tests a server whose disk fails to sync, or whose power is cut. Rows and positions of producers that were
//! acknowledged as durable must survive, and what is not durable must not be acknowledged as such.
//!
//! `ARROWWOOD_SERVE_CUTS` is the number of runs whose power is cut at each moment, `ARROWWOOD_SERVE_SEED` the first of
//! their seeds (`make torture-serve`).
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrowwood::simulate::{FileSystem, simulate_boot, simulate_mount};
use arrowwood::{Value, open};
use arrowwood_serve::Options;

use crate::dice::Dice;
use crate::simulated_disk::{Disk, Event, Image, Luck, Recorder};
use crate::support::flight::{Descriptor, call, framed, put};
use crate::support::*;
use crate::tables::{folder_in_memory, wait_for_background_syncs};

const PRODUCERS: usize = 3;
const SCHEMA: &[u8] = b"producer: int not null, epoch: int not null, sequence: int not null, copy: int not null";

/// Simulates another boot of the machine.
fn simulate_next_boot() {
    static BOOTS: AtomicU64 = AtomicU64::new(1);
    simulate_boot(Some(u128::from(BOOTS.fetch_add(1, Ordering::Relaxed)).to_be_bytes()));
}

/// Simulates another mount of the file system, in the same boot.
fn simulate_next_mount() {
    static MOUNTS: AtomicU64 = AtomicU64::new(1);
    simulate_mount(Some(MOUNTS.fetch_add(1, Ordering::Relaxed)));
}

/// Starts a server on a recorded disk, with an empty table `t`.
fn serve_recorded_table() -> (Served, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let folder = folder_in_memory();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let served = Served::over(folder, Options { medium: FileSystem::with_observer(recorder.clone()), ..options() });
    (served, recorder)
}

fn create_table(served: &Served) {
    let created = served.send("PUT", "/v1/tables/t?segment_rows=24", &[], SCHEMA);
    assert_eq!(created.status, 201, "{}", created.text());
}

/// A batch of a producer, of one to three rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Batch {
    producer: usize,
    epoch: u64,
    sequence: u64,
}

impl Batch {
    fn row_count(&self) -> u64 {
        1 + self.sequence % 3
    }

    fn rows(&self) -> Vec<[i64; 4]> {
        let Batch { producer, epoch, sequence } = *self;
        (0..self.row_count()).map(|copy| [producer as i64, epoch as i64, sequence as i64, copy as i64]).collect()
    }

    fn send_by_http(&self, client: &mut Client, ack: &str) -> Reply {
        let mut body = String::new();
        for [producer, epoch, sequence, copy] in self.rows() {
            body += &format!("{{\"producer\":{producer},\"epoch\":{epoch},\"sequence\":{sequence},\"copy\":{copy}}}\n");
        }
        let producer = format!("p{}", self.producer);
        let epoch = self.epoch.to_string();
        let sequence = self.sequence.to_string();
        let headers = [
            ("content-type", "application/x-ndjson"),
            ("ack", ack),
            ("producer", &producer),
            ("producer-epoch", &epoch),
            ("producer-sequence", &sequence),
        ];
        client.send("POST", "/v1/tables/t/rows", &headers, body.as_bytes()).unwrap()
    }

    /// Returns the answer, or the message of the status.
    fn send_by_flight(&self, served: &Served, ack: &str) -> Result<serde_json::Value, String> {
        let Batch { producer, epoch, sequence } = self;
        let command = format!("t?producer=p{producer}&epoch={epoch}&sequence={sequence}&ack={ack}");
        let column = |number: usize| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(self.rows().into_iter().map(|row| row[number])))
        };
        let columns = ["producer", "epoch", "sequence", "copy"].into_iter().zip((0..4).map(column));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let call_result = call(served, "DoPut", framed(&put(Descriptor::command(&command), &[batch])));
        match &call_result.answers[..] {
            [] => Err(format!("{}: {}", call_result.status, call_result.message)),
            // A `PutResult` has one field, whose JSON begins with the first brace.
            [answer] => {
                Ok(serde_json::from_slice(&answer[answer.iter().position(|&byte| byte == b'{').unwrap()..]).unwrap())
            }
            more => panic!("{} answers", more.len()),
        }
    }
}

/// Reads and validates the rows of a table.
fn read_rows(table: &Path) -> Result<Vec<[i64; 4]>, String> {
    let rows = open(table).map_err(|e| e.to_string())?;
    rows.validate(|_, _| ()).map_err(|e| e.to_string())?;
    let number = |value: Value<'_>| match value {
        Value::Int(number) => number,
        other => panic!("{other}"),
    };
    Ok(rows
        .rows()
        .map(|row| row.map(|row| [0, 1, 2, 3].map(|column| number(row.get(column).unwrap()))).unwrap())
        .collect())
}

// ---- syncs that fail ----

/// Lines have no numbers, and several tables have no common commit, so a client that resends all lines duplicates some.
/// Clients resend automatically after 500, so that must not be the answer.
#[test]
fn failed_sync_of_lines_is_answered_without_inviting_a_repeat() {
    alone!();
    simulate_next_boot();
    let (served, recorder) = serve_recorded_table();
    let write = |text: &str| served.send("POST", "/write", &[], text.as_bytes());
    assert_eq!(write("a x=1 1\nb x=1 1").status, 204);
    recorder.fail_syncs(true);
    let reply = write("a x=2 2\nb x=2 2");
    assert_eq!((reply.status, reply.code().as_str()), (400, "partial_write"), "{}", reply.text());
    assert_eq!(reply.json()["unknown"], serde_json::json!(["a", "b"]));
    let reply = write("a x=3 3");
    assert_eq!((reply.status, reply.code().as_str()), (400, "partial_write"), "{}", reply.text());
    assert_eq!(reply.json()["unknown"], serde_json::json!(["a"]));
    recorder.fail_syncs(false);
}

/// A batch whose sync fails is never acknowledged as durable, however often it is sent, over HTTP and Flight. Once the
/// disk works again it is acknowledged, without duplicate rows.
#[test]
fn failed_sync_acknowledges_nothing() {
    alone!();
    simulate_next_boot();
    let (served, recorder) = serve_recorded_table();
    create_table(&served);
    let mut client = served.client();
    let batch = |sequence: u64| Batch { producer: 1, epoch: 0, sequence };
    assert_eq!(batch(0).send_by_http(&mut client, "durable").status, 200);
    recorder.fail_syncs(true);
    let durable_end = || served.get("/v1/tables/t").json()["durable_end"].as_u64().unwrap();
    for _ in 0..2 {
        let refused = batch(1).send_by_http(&mut client, "durable");
        assert_eq!((refused.status, refused.code().as_str()), (500, "not_durable"), "{}", refused.text());
        assert!(refused.text().contains("send them again as they were numbered"), "{}", refused.text());
        let refused = batch(1).send_by_flight(&served, "durable").unwrap_err();
        assert!(refused.starts_with("13: not_durable: "), "{refused}");
        assert_eq!(durable_end(), 1);
    }
    // The rows are visible, so requests that ask only for visibility are acknowledged.
    let seen = batch(1).send_by_http(&mut client, "visible").json();
    assert_eq!((seen["duplicate"].as_bool(), seen["committed"].as_u64()), (Some(true), Some(3)));
    assert!(seen["durable"].as_u64().unwrap() <= 1, "{seen}");
    let refused = batch(2).send_by_flight(&served, "durable").unwrap_err();
    assert!(refused.starts_with("13: not_durable: "), "{refused}");
    assert!(
        served.audit().iter().any(|line| line.contains("not_durable") && line.contains("syncing")),
        "{:?}",
        served.audit()
    );
    assert_eq!(read_rows(&served.path("t")).unwrap().len(), 6);
    recorder.fail_syncs(false);
    for sequence in [1, 2] {
        let acknowledgement = batch(sequence).send_by_http(&mut client, "durable").json();
        assert_eq!(
            (acknowledgement["duplicate"].as_bool(), acknowledgement["durable"].as_u64()),
            (Some(true), Some(6)),
            "{acknowledgement}"
        );
    }
    let acknowledgement = batch(3).send_by_flight(&served, "durable").unwrap();
    assert_eq!((acknowledgement["first_row"].as_u64(), acknowledgement["durable"].as_u64()), (Some(6), Some(7)));
    let expected: Vec<_> = (0..4).flat_map(|sequence| batch(sequence).rows()).collect();
    assert_eq!(read_rows(&served.path("t")).unwrap(), expected);
    // The table itself must agree.
    let mut disk = Disk::default();
    recorder.take().iter().for_each(|event| disk.apply(event));
    simulate_next_boot();
    let home = folder_in_memory();
    disk.image(Luck::Nothing, &mut Dice::new(1)).write(&served.path("").canonicalize().unwrap(), home.path());
    assert_eq!(read_rows(&home.path().join("t")).unwrap(), expected);
    simulate_boot(None);
}

/// Rows without a waiting client are synced once a second. If that fails, the next batch must not be refused: another
/// writer appends it.
#[test]
fn failed_background_sync_costs_no_batch() {
    alone!();
    simulate_next_boot();
    let (served, recorder) = serve_recorded_table();
    create_table(&served);
    let mut client = served.client();
    let batch = |sequence: u64| Batch { producer: 0, epoch: 0, sequence };
    let mut sequence = 0;
    for is_numbered in [true, false] {
        recorder.take();
        recorder.fail_syncs(true);
        assert_eq!(batch(sequence).send_by_http(&mut client, "visible").status, 200);
        wait_until("a sync fails", || recorder.take().iter().any(|event| matches!(event, Event::Lost(_))));
        // Waits until the writer has learned of the failure: the thread that syncs reports it before it turns to other
        // tables.
        wait_for_background_syncs();
        recorder.fail_syncs(false);
        let reply = if is_numbered {
            batch(sequence + 1).send_by_http(&mut client, "durable")
        } else {
            let line = "{\"producer\":0,\"epoch\":0,\"sequence\":3,\"copy\":0}";
            served.post_json("t", line)
        };
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.json()["durable"], reply.json()["committed"]);
        sequence += 2;
    }
    let expected: Vec<_> = (0..3).flat_map(|sequence| batch(sequence).rows()).chain([[0, 0, 3, 0]]).collect();
    assert_eq!(read_rows(&served.path("t")).unwrap(), expected);
    simulate_boot(None);
}

// ---- power cuts ----

/// An entry in the history of a run.
enum Entry {
    Operation(Event),
    /// The table was created.
    Created,
    /// A batch was acknowledged as durable, with the row after its last one if that is known.
    Durable(Batch, Option<u64>),
}

/// A run of a server and its producers, with all acknowledgements.
struct Run {
    served: Served,
    recorder: Arc<Recorder>,
    log: Mutex<Vec<Entry>>,
}

impl Run {
    fn start() -> Run {
        let (served, recorder) = serve_recorded_table();
        create_table(&served);
        let run = Run { served, recorder, log: Mutex::default() };
        run.record(Entry::Created);
        run
    }

    /// Records an acknowledgement after the operations so far.
    fn record(&self, entry: Entry) {
        let mut log = self.log.lock().unwrap();
        log.extend(self.recorder.take().into_iter().map(Entry::Operation));
        log.push(entry);
    }

    /// Sends a batch over HTTP or Flight, and records its acknowledgement.
    fn send(&self, batch: Batch, client: &mut Client, is_durable: bool, is_flight: bool) {
        let ack = if is_durable { "durable" } else { "visible" };
        let acknowledgement = if is_flight {
            batch.send_by_flight(&self.served, ack).unwrap()
        } else {
            let reply = batch.send_by_http(client, ack);
            assert_eq!(reply.status, 200, "{batch:?}: {}", reply.text());
            reply.json()
        };
        let end = acknowledgement["first_row"].as_u64().map(|first| first + acknowledgement["rows"].as_u64().unwrap());
        if is_durable {
            assert!(end.is_none_or(|end| acknowledgement["durable"].as_u64().unwrap() >= end), "{acknowledgement}");
            self.record(Entry::Durable(batch, end));
        }
    }

    /// Runs a producer. It sometimes waits for the disk, repeats some batches, and is replaced by another one of its
    /// name.
    fn produce(&self, producer: usize, batches: u64, mut dice: Dice) {
        let mut client = self.served.client();
        let mut epoch = 0;
        for sequence in 0..batches {
            let is_durable = dice.below(3) > 0;
            let is_flight = producer % 2 == 1;
            self.send(Batch { producer, epoch, sequence }, &mut client, is_durable, is_flight);
            if dice.below(4) == 0 {
                // The successor resends the last batch, and perhaps nothing else.
                epoch += dice.below(2);
                self.send(Batch { producer, epoch, sequence }, &mut client, dice.below(3) > 0, is_flight);
            }
        }
    }

    /// Loses what is in memory at each moment of the run, and checks what is left. Returns the numbers of images and of
    /// resumed runs.
    fn lose_and_check(mut self, lose: fn(), dice: &mut Dice) -> (u64, u64) {
        self.served.stop();
        let all_rows = read_rows(&self.served.path("t")).unwrap();
        let from = self.served.path("").canonicalize().unwrap();
        let mut log = std::mem::take(&mut *self.log.lock().unwrap());
        log.extend(self.recorder.take().into_iter().map(Entry::Operation));
        let mut checker =
            Checker { all_rows, from, lose, acknowledged: Vec::new(), is_created: false, images: 0, resumed: 0 };
        let mut disk = Disk::default();
        for (number, entry) in log.into_iter().enumerate() {
            match entry {
                Entry::Created => checker.is_created = true,
                Entry::Durable(batch, end) => checker.acknowledged.push((batch, end)),
                Entry::Operation(event) => {
                    if !disk.is_synced() {
                        checker.check_cut(&disk, number, matches!(event, Event::Put(..)), dice);
                    }
                    disk.apply(&event);
                    continue;
                }
            }
            checker.check_cut(&disk, number, false, dice);
        }
        (checker.images, checker.resumed)
    }
}

/// Checks what is left after a cut.
struct Checker {
    /// All rows of the run.
    all_rows: Vec<[i64; 4]>,
    from: PathBuf,
    lose: fn(),
    acknowledged: Vec<(Batch, Option<u64>)>,
    is_created: bool,
    images: u64,
    resumed: u64,
}

impl Checker {
    /// Checks images of what the disk may hold: all kinds, or one kind in turn at each store.
    fn check_cut(&mut self, disk: &Disk, number: usize, is_store: bool, dice: &mut Dice) {
        (self.lose)();
        let turn = number % Luck::ALL.len();
        for &luck in if is_store { &Luck::ALL[turn..=turn] } else { &Luck::ALL[..] } {
            let image = disk.image(luck, dice);
            self.images += 1;
            let resumes = self.images.is_multiple_of(61);
            self.resumed += u64::from(resumes);
            self.check_image(&image, resumes).unwrap_or_else(|e| panic!("cut {number}, {luck:?}: {e}"));
        }
    }

    fn check_image(&self, image: &Image, resumes: bool) -> Result<(), String> {
        let home = folder_in_memory();
        let data = home.path().join("data");
        std::fs::create_dir(&data).unwrap();
        image.write(&self.from, &data);
        let table = data.join("t");
        let rows = match read_rows(&table) {
            Ok(rows) => rows,
            Err(_) if !self.is_created => return Ok(()),
            Err(e) => return Err(e),
        };
        if !self.all_rows.starts_with(&rows) || self.all_rows.get(rows.len()).is_some_and(|next| next[3] > 0) {
            return Err(format!("{} rows are not the first of the run's batches", rows.len()));
        }
        let positions = open(&table).and_then(|rows| rows.positions()).map_err(|e| e.to_string())?;
        self.check_positions(&rows, &positions)?;
        if resumes {
            self.resend_all(home)?;
        }
        Ok(())
    }

    /// Checks that positions match the rows, and are not behind the acknowledged batches.
    fn check_positions(&self, rows: &[[i64; 4]], positions: &BTreeMap<String, i64>) -> Result<(), String> {
        for producer in 0..PRODUCERS {
            let position_of = |prefix: &str| positions.get(&format!("{prefix}:p{producer}")).copied();
            let last = rows.iter().rfind(|row| row[0] == producer as i64);
            if position_of("producer") != last.map(|row| row[2]) {
                return Err(format!("the last row of producer {producer} is {last:?}, and positions {positions:?}"));
            }
            let epoch = position_of("producer-epoch").unwrap_or(0);
            if last.is_some_and(|row| epoch < row[1]) {
                return Err(format!("the last row of producer {producer} is {last:?}, and positions {positions:?}"));
            }
            for (batch, end) in self.acknowledged.iter().filter(|(batch, _)| batch.producer == producer) {
                let is_there = position_of("producer").is_some_and(|sequence| sequence as u64 >= batch.sequence)
                    && epoch as u64 >= batch.epoch
                    && end.is_none_or(|end| end <= rows.len() as u64);
                if !is_there {
                    return Err(format!(
                        "{batch:?} was acknowledged, there are {} rows and positions {positions:?}",
                        rows.len()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Starts another server, to which all producers resend everything.
    fn resend_all(&self, home: tempfile::TempDir) -> Result<(), String> {
        let served = Served::over(home, options());
        let mut client = served.client();
        for producer in 0..PRODUCERS {
            let mut batches: Vec<Batch> = Vec::new();
            for row in self.all_rows.iter().filter(|row| row[0] == producer as i64 && row[3] == 0) {
                batches.push(Batch { producer, epoch: row[1] as u64, sequence: row[2] as u64 });
            }
            for batch in batches {
                // The epoch may have been taken by a successor.
                let reply = Batch { epoch: 1_000, ..batch }.send_by_http(&mut client, "durable");
                if reply.status != 200 {
                    return Err(format!("{batch:?} again: {}", reply.text()));
                }
            }
        }
        drop(client);
        let rows = read_rows(&served.path("t"))?;
        for producer in 0..PRODUCERS {
            let rows_of_producer = |rows: &[[i64; 4]]| -> Vec<_> {
                rows.iter().filter(|row| row[0] == producer as i64).map(|row| (row[2], row[3])).collect()
            };
            if rows_of_producer(&rows) != rows_of_producer(&self.all_rows) {
                return Err(format!(
                    "producer {producer} has {:?}, expected {:?}",
                    rows_of_producer(&rows),
                    rows_of_producer(&self.all_rows)
                ));
            }
        }
        Ok(())
    }
}

/// Runs a server with producers over HTTP and Flight, and loses what is in memory at each moment. Batches that were
/// acknowledged as durable must survive, each commit as a whole, with the positions of its producers, which resume
/// without duplicates.
fn lose_at_each_moment(lose: fn()) {
    simulate_next_boot();
    let runs: u64 = std::env::var("ARROWWOOD_SERVE_CUTS").map_or(1, |runs| runs.parse().unwrap());
    let first: u64 = std::env::var("ARROWWOOD_SERVE_SEED").map_or(0, |first| first.parse().unwrap());
    for seed in first..first + runs {
        lose();
        let run = Run::start();
        std::thread::scope(|scope| {
            for producer in 0..PRODUCERS {
                let run = &run;
                scope.spawn(move || run.produce(producer, 10, Dice::new(PRODUCERS as u64 * seed + producer as u64)));
            }
        });
        let (images, resumed) = run.lose_and_check(lose, &mut Dice::new(seed));
        eprintln!("  seed {seed}: {images} images, {resumed} of which a server went on with");
        assert!(images > 200 && resumed > 0);
    }
    simulate_boot(None);
    simulate_mount(None);
}

#[test]
fn a_power_cut_costs_no_acknowledged_batch_and_no_position() {
    alone!();
    lose_at_each_moment(simulate_next_boot);
}

#[test]
fn a_lost_page_cache_costs_no_acknowledged_batch_and_no_position() {
    alone!();
    lose_at_each_moment(simulate_next_mount);
}

/// A batch may be answered as a duplicate only if its rows exist.
#[test]
fn resent_batch_is_appended_if_its_rows_were_lost() {
    alone!();
    simulate_next_boot();
    simulate_next_mount();
    let (mut served, recorder) = serve_recorded_table();
    create_table(&served);
    let mut client = served.client();
    let batch = |sequence: u64| Batch { producer: 0, epoch: 0, sequence };
    assert_eq!(batch(0).send_by_http(&mut client, "durable").status, 200);
    // From here on, nothing is certain to reach the disk.
    recorder.fail_syncs(true);
    assert_eq!(batch(1).send_by_http(&mut client, "visible").status, 200);
    let mut disk = Disk::default();
    recorder.take().iter().for_each(|event| disk.apply(event));
    served.stop();
    let mut images_with_rows = 0;
    for (number, &luck) in Luck::ALL.iter().cycle().take(10 * Luck::ALL.len()).enumerate() {
        simulate_next_mount();
        let home = folder_in_memory();
        std::fs::create_dir(home.path().join("data")).unwrap();
        let from = served.path("").canonicalize().unwrap();
        disk.image(luck, &mut Dice::new(number as u64)).write(&from, &home.path().join("data"));
        let before = read_rows(&home.path().join("data/t")).unwrap().len();
        let after = Served::over(home, options());
        let mut client = after.client();
        for is_flight in [true, false] {
            let acknowledgement = if is_flight {
                batch(1).send_by_flight(&after, "durable").unwrap()
            } else {
                batch(1).send_by_http(&mut client, "durable").json()
            };
            let is_there = before == 3 || !is_flight;
            assert_eq!(acknowledgement["duplicate"], is_there, "{luck:?}, {before} rows, and then {acknowledgement}");
            assert_eq!(acknowledgement["durable"], 3, "{acknowledgement}");
        }
        let expected: Vec<_> = (0..2).flat_map(|sequence| batch(sequence).rows()).collect();
        assert_eq!(read_rows(&after.path("t")).unwrap(), expected, "{luck:?}");
        images_with_rows += usize::from(before == 3);
    }
    assert!(images_with_rows > 0 && images_with_rows < 10 * Luck::ALL.len(), "{images_with_rows}");
    simulate_boot(None);
    simulate_mount(None);
}

/// A producer that takes over and only repeats the last batch adds no row. Its epoch must be durable before it is
/// acknowledged, or the replaced producer could write again after a power cut.
#[test]
fn replaced_producer_stays_replaced_after_a_power_cut() {
    alone!();
    simulate_next_boot();
    let run = Run::start();
    let mut client = run.served.client();
    let first = Batch { producer: 0, epoch: 1, sequence: 0 };
    run.send(first, &mut client, true, false);
    run.send(Batch { epoch: 2, ..first }, &mut client, true, false);
    run.send(Batch { epoch: 3, ..first }, &mut client, false, false);
    // Another request learns of the epoch first, but this is the first that waits for the disk.
    run.send(Batch { epoch: 3, ..first }, &mut client, true, true);
    drop(client);
    assert!(run.lose_and_check(simulate_next_boot, &mut Dice::new(1)).0 > 20);
    simulate_boot(None);
}
