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
/// An epoch after all others.
const LATEST_EPOCH: u64 = 1_000;
/// Another server is started with one of this many images. A prime number, so that they are of all kinds.
const IMAGES_PER_RESUMED: u64 = 61;
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
fn serve_recorded_table() -> (TestServer, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let folder = folder_in_memory();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let served =
        TestServer::start_in(folder, Options { medium: FileSystem::with_observer(recorder.clone()), ..options() });
    (served, recorder)
}

fn create_table(served: &TestServer) {
    let created = served.send("PUT", "/v1/tables/t?segment_rows=24", &[], SCHEMA);
    assert_eq!(created.status, 201, "{}", created.text());
}

/// The state of a batch that a producer waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ack {
    Visible,
    Durable,
}

impl Ack {
    fn as_str(self) -> &'static str {
        match self {
            Ack::Visible => "visible",
            Ack::Durable => "durable",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http,
    Flight,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    producer: i64,
    epoch: i64,
    sequence: i64,
    /// The number of the row in its batch.
    copy: i64,
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

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for copy in 0..self.row_count() {
            rows.push(Row {
                producer: self.producer as i64,
                epoch: self.epoch as i64,
                sequence: self.sequence as i64,
                copy: copy as i64,
            });
        }
        rows
    }

    fn send_by_http(&self, client: &mut Client, ack: Ack) -> Reply {
        let mut body = String::new();
        for Row { producer, epoch, sequence, copy } in self.rows() {
            body += &format!("{{\"producer\":{producer},\"epoch\":{epoch},\"sequence\":{sequence},\"copy\":{copy}}}\n");
        }
        let producer = format!("p{}", self.producer);
        let epoch = self.epoch.to_string();
        let sequence = self.sequence.to_string();
        let headers = [
            ("content-type", "application/x-ndjson"),
            ("ack", ack.as_str()),
            ("producer", &producer),
            ("producer-epoch", &epoch),
            ("producer-sequence", &sequence),
        ];
        client.send("POST", "/v1/tables/t/rows", &headers, body.as_bytes()).unwrap()
    }

    /// Returns the acknowledgement, or the status and message of the call.
    fn send_by_flight(&self, served: &TestServer, ack: Ack) -> Result<serde_json::Value, String> {
        let Batch { producer, epoch, sequence } = self;
        let command = format!("t?producer=p{producer}&epoch={epoch}&sequence={sequence}&ack={}", ack.as_str());
        let batch = encode_rows(&self.rows());
        let call_result = call(served, "DoPut", framed(&put(Descriptor::command(&command), &[batch])));
        match &call_result.answers[..] {
            [] => Err(format!("{}: {}", call_result.status, call_result.message)),
            [answer] => {
                // A `PutResult` has one field, whose JSON begins with the first brace.
                let json_start = answer.iter().position(|&byte| byte == b'{').unwrap();
                Ok(serde_json::from_slice(&answer[json_start..]).unwrap())
            }
            answers => panic!("{} answers", answers.len()),
        }
    }
}

fn encode_rows(rows: &[Row]) -> RecordBatch {
    let columns = [
        ("producer", number_column(rows, |row| row.producer)),
        ("epoch", number_column(rows, |row| row.epoch)),
        ("sequence", number_column(rows, |row| row.sequence)),
        ("copy", number_column(rows, |row| row.copy)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn number_column(rows: &[Row], value: fn(&Row) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(value)))
}

/// Reads and validates the rows of a table.
fn read_rows(table: &Path) -> Result<Vec<Row>, String> {
    let dataset = open(table).map_err(|e| e.to_string())?;
    dataset.validate(|_, _| ()).map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    for row in dataset.rows() {
        let row = row.unwrap();
        let [producer, epoch, sequence, copy] = [0, 1, 2, 3].map(|column| expect_int(row.get(column).unwrap()));
        rows.push(Row { producer, epoch, sequence, copy });
    }
    Ok(rows)
}

fn expect_int(value: Value<'_>) -> i64 {
    match value {
        Value::Int(number) => number,
        other => panic!("{other} is no integer"),
    }
}

/// Returns the first batches of a producer's first epoch.
fn first_batches(producer: usize, count: u64) -> Vec<Batch> {
    (0..count).map(|sequence| Batch { producer, epoch: 0, sequence }).collect()
}

fn rows_in(batches: &[Batch]) -> Vec<Row> {
    batches.iter().flat_map(Batch::rows).collect()
}

// ---- syncs that fail ----

/// Lines have no numbers, and several tables have no common commit, so a client that resends all lines duplicates some.
/// Clients resend automatically after 500, so that must not be the answer.
#[test]
fn failed_sync_of_lines_is_answered_without_inviting_a_repeat() {
    alone!();
    simulate_next_boot();
    let (served, recorder) = serve_recorded_table();
    assert_eq!(served.send("POST", "/write", &[], b"a x=1 1\nb x=1 1").status, 204);
    recorder.fail_syncs(true);
    let reply = served.send("POST", "/write", &[], b"a x=2 2\nb x=2 2");
    assert_outcome_is_unknown(&reply, &["a", "b"]);
    let reply = served.send("POST", "/write", &[], b"a x=3 3");
    assert_outcome_is_unknown(&reply, &["a"]);
    recorder.fail_syncs(false);
}

fn assert_outcome_is_unknown(reply: &Reply, tables: &[&str]) {
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert_eq!(reply.code(), "partial_write", "{}", reply.text());
    assert_eq!(reply.json()["unknown"], serde_json::json!(tables));
}

/// Sends a batch over both protocols, and asserts that each reports that it is not durable.
fn assert_not_durable(batch: &Batch, served: &TestServer, client: &mut Client) {
    let refused = batch.send_by_http(client, Ack::Durable);
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert_eq!(refused.code(), "not_durable", "{}", refused.text());
    assert!(refused.text().contains("send them again as they were numbered"), "{}", refused.text());
    let refused = batch.send_by_flight(served, Ack::Durable).unwrap_err();
    assert!(refused.starts_with("13: not_durable: "), "{refused}");
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
    let batches = first_batches(1, 4);
    assert_eq!(batches[0].send_by_http(&mut client, Ack::Durable).status, 200);

    recorder.fail_syncs(true);
    for _ in 0..2 {
        assert_not_durable(&batches[1], &served, &mut client);
        assert_eq!(served.get("/v1/tables/t").json()["durable_end"], 1);
    }
    // The rows are visible, so requests that ask only for visibility are acknowledged.
    let visible = batches[1].send_by_http(&mut client, Ack::Visible).json();
    assert_eq!(visible["duplicate"], true, "{visible}");
    assert_eq!(visible["committed"], 3, "{visible}");
    assert!(visible["durable"].as_u64().unwrap() <= 1, "{visible}");
    let refused = batches[2].send_by_flight(&served, Ack::Durable).unwrap_err();
    assert!(refused.starts_with("13: not_durable: "), "{refused}");
    let audit = served.audit();
    assert!(audit.iter().any(|line| line.contains("not_durable") && line.contains("syncing")), "{audit:?}");
    assert_eq!(read_rows(&served.path("t")).unwrap().len(), 6);

    recorder.fail_syncs(false);
    for batch in &batches[1..3] {
        let acknowledgement = batch.send_by_http(&mut client, Ack::Durable).json();
        assert_eq!(acknowledgement["duplicate"], true, "{acknowledgement}");
        assert_eq!(acknowledgement["durable"], 6, "{acknowledgement}");
    }
    let acknowledgement = batches[3].send_by_flight(&served, Ack::Durable).unwrap();
    assert_eq!(acknowledgement["first_row"], 6, "{acknowledgement}");
    assert_eq!(acknowledgement["durable"], 7, "{acknowledgement}");
    let expected = rows_in(&batches);
    assert_eq!(read_rows(&served.path("t")).unwrap(), expected);

    // The table itself must agree after a power cut that loses everything that was not synced.
    let mut disk = Disk::default();
    for event in recorder.take() {
        disk.apply(&event);
    }
    simulate_next_boot();
    let home = folder_in_memory();
    let image = disk.image(Luck::Nothing, &mut Dice::new(1));
    image.write(&served.path("").canonicalize().unwrap(), home.path());
    assert_eq!(read_rows(&home.path().join("t")).unwrap(), expected);
    simulate_boot(None);
}

/// Appends a batch whose background sync fails, and lets the disk work again.
fn fail_background_sync(batch: &Batch, client: &mut Client, recorder: &Recorder) {
    recorder.take();
    recorder.fail_syncs(true);
    assert_eq!(batch.send_by_http(client, Ack::Visible).status, 200);
    wait_until("a sync fails", || recorder.take().iter().any(|event| matches!(event, Event::Lost(_))));
    // Waits until the writer has learned of the failure: the thread that syncs reports it before it turns to other
    // tables.
    wait_for_background_syncs();
    recorder.fail_syncs(false);
}

fn assert_durable(reply: &Reply) {
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.json()["durable"], reply.json()["committed"]);
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
    let batches = first_batches(0, 3);
    fail_background_sync(&batches[0], &mut client, &recorder);
    assert_durable(&batches[1].send_by_http(&mut client, Ack::Durable));
    // The next batch may also be one without a number.
    fail_background_sync(&batches[2], &mut client, &recorder);
    assert_durable(&served.post_json("t", "{\"producer\":0,\"epoch\":0,\"sequence\":3,\"copy\":0}"));

    let mut expected = rows_in(&batches);
    expected.push(Row { producer: 0, epoch: 0, sequence: 3, copy: 0 });
    assert_eq!(read_rows(&served.path("t")).unwrap(), expected);
    simulate_boot(None);
}

// ---- power cuts ----

/// An entry in the history of a run.
enum Entry {
    Operation(Event),
    /// The table was created.
    Created,
    Durable(DurableBatch),
}

/// A batch that was acknowledged as durable.
struct DurableBatch {
    batch: Batch,
    /// The row after its last one, if that is known.
    end: Option<u64>,
}

/// A run of a server and its producers, with all acknowledgements.
struct Run {
    served: TestServer,
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

    /// Sends a batch, and records its acknowledgement.
    fn send(&self, batch: Batch, client: &mut Client, ack: Ack, protocol: Protocol) {
        let acknowledgement = match protocol {
            Protocol::Flight => batch.send_by_flight(&self.served, ack).unwrap(),
            Protocol::Http => {
                let reply = batch.send_by_http(client, ack);
                assert_eq!(reply.status, 200, "{batch:?}: {}", reply.text());
                reply.json()
            }
        };
        if ack == Ack::Visible {
            return;
        }
        let first_row = acknowledgement["first_row"].as_u64();
        let end = first_row.map(|first_row| first_row + acknowledgement["rows"].as_u64().unwrap());
        if let Some(end) = end {
            assert!(acknowledgement["durable"].as_u64().unwrap() >= end, "{acknowledgement}");
        }
        self.record(Entry::Durable(DurableBatch { batch, end }));
    }

    /// Runs a producer. It sometimes waits for the disk, repeats some batches, and is replaced by another one of its
    /// name.
    fn produce(&self, producer: usize, batches: u64, mut dice: Dice) {
        let mut client = self.served.client();
        let protocol = if producer % 2 == 1 { Protocol::Flight } else { Protocol::Http };
        let mut epoch = 0;
        for sequence in 0..batches {
            let ack = choose_ack(&mut dice);
            self.send(Batch { producer, epoch, sequence }, &mut client, ack, protocol);
            if dice.below(4) == 0 {
                // The successor resends the last batch, and perhaps nothing else.
                epoch += dice.below(2);
                let ack = choose_ack(&mut dice);
                self.send(Batch { producer, epoch, sequence }, &mut client, ack, protocol);
            }
        }
    }

    /// Loses the memory at each moment of the run, and checks what the disk holds then.
    fn lose_and_check(mut self, lose: fn(), dice: &mut Dice) -> CheckedImages {
        self.served.stop();
        let all_rows = read_rows(&self.served.path("t")).unwrap();
        let data = self.served.path("").canonicalize().unwrap();
        let mut log = std::mem::take(&mut *self.log.lock().unwrap());
        log.extend(self.recorder.take().into_iter().map(Entry::Operation));
        let mut checker = Checker {
            all_rows,
            data,
            lose,
            acknowledged: Vec::new(),
            is_created: false,
            checked: CheckedImages::default(),
        };
        let mut disk = Disk::default();
        for (number, entry) in log.into_iter().enumerate() {
            match entry {
                Entry::Created => checker.is_created = true,
                Entry::Durable(batch) => checker.acknowledged.push(batch),
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
        checker.checked
    }
}

/// Two of three batches wait for the disk.
fn choose_ack(dice: &mut Dice) -> Ack {
    if dice.below(3) > 0 { Ack::Durable } else { Ack::Visible }
}

/// The number of images that were checked.
#[derive(Clone, Copy, Default)]
struct CheckedImages {
    count: u64,
    /// The number of images with which another server was started.
    resumed: u64,
}

/// Checks what the disk holds after a power cut.
struct Checker {
    /// All rows of the run.
    all_rows: Vec<Row>,
    /// The directory of the run's server.
    data: PathBuf,
    /// Simulates the loss of the memory.
    lose: fn(),
    /// The batches that were acknowledged before the cut.
    acknowledged: Vec<DurableBatch>,
    /// True if the creation of the table was acknowledged before the cut.
    is_created: bool,
    checked: CheckedImages,
}

impl Checker {
    /// Checks images of what the disk may hold: all kinds, or one kind in turn at each store.
    fn check_cut(&mut self, disk: &Disk, number: usize, is_store: bool, dice: &mut Dice) {
        (self.lose)();
        let turn = number % Luck::ALL.len();
        let kinds = if is_store { &Luck::ALL[turn..=turn] } else { &Luck::ALL[..] };
        for &luck in kinds {
            let image = disk.image(luck, dice);
            self.checked.count += 1;
            let resumes = self.checked.count.is_multiple_of(IMAGES_PER_RESUMED);
            self.checked.resumed += u64::from(resumes);
            self.check_image(&image, resumes).unwrap_or_else(|e| panic!("cut {number}, {luck:?}: {e}"));
        }
    }

    /// Checks the table of an image; if `resumes`, another server goes on with it.
    fn check_image(&self, image: &Image, resumes: bool) -> Result<(), String> {
        let home = folder_in_memory();
        let data = home.path().join("data");
        std::fs::create_dir(&data).unwrap();
        image.write(&self.data, &data);
        let table = data.join("t");
        let rows = match read_rows(&table) {
            Ok(rows) => rows,
            Err(_) if !self.is_created => return Ok(()),
            Err(e) => return Err(e),
        };
        let ends_inside_of_a_batch = self.all_rows.get(rows.len()).is_some_and(|next| next.copy > 0);
        if !self.all_rows.starts_with(&rows) || ends_inside_of_a_batch {
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
    fn check_positions(&self, rows: &[Row], positions: &BTreeMap<String, i64>) -> Result<(), String> {
        for producer in 0..PRODUCERS {
            let sequence = positions.get(&format!("producer:p{producer}")).copied();
            let epoch = positions.get(&format!("producer-epoch:p{producer}")).copied().unwrap_or(0);
            let last_row = rows.iter().rfind(|row| row.producer == producer as i64);
            let is_at_last_row = sequence == last_row.map(|row| row.sequence);
            let is_epoch_behind = last_row.is_some_and(|row| epoch < row.epoch);
            if !is_at_last_row || is_epoch_behind {
                return Err(format!(
                    "the last row of producer {producer} is {last_row:?}, and positions {positions:?}"
                ));
            }
            for DurableBatch { batch, end } in &self.acknowledged {
                if batch.producer != producer {
                    continue;
                }
                let is_kept = sequence.is_some_and(|sequence| sequence as u64 >= batch.sequence)
                    && epoch as u64 >= batch.epoch
                    && end.is_none_or(|end| end <= rows.len() as u64);
                if !is_kept {
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
        let served = TestServer::start_in(home, options());
        let mut client = served.client();
        for producer in 0..PRODUCERS {
            for row in &self.all_rows {
                if row.producer != producer as i64 || row.copy > 0 {
                    continue;
                }
                // The row's epoch may have been replaced by a later one.
                let batch = Batch { producer, epoch: LATEST_EPOCH, sequence: row.sequence as u64 };
                let reply = batch.send_by_http(&mut client, Ack::Durable);
                if reply.status != 200 {
                    return Err(format!("{batch:?} again: {}", reply.text()));
                }
            }
        }
        drop(client);
        let rows = read_rows(&served.path("t"))?;
        for producer in 0..PRODUCERS {
            let expected = rows_of_producer(&self.all_rows, producer);
            let actual = rows_of_producer(&rows, producer);
            if actual != expected {
                return Err(format!("producer {producer} has {actual:?}, expected {expected:?}"));
            }
        }
        Ok(())
    }
}

/// Returns the rows of a producer, without their epochs.
fn rows_of_producer(rows: &[Row], producer: usize) -> Vec<Row> {
    let rows = rows.iter().filter(|row| row.producer == producer as i64);
    rows.map(|&row| Row { epoch: 0, ..row }).collect()
}

/// Runs a server with producers over HTTP and Flight, and loses the memory at each moment. Batches that were
/// acknowledged as durable must survive, each commit as a whole, with the positions of its producers, which resume
/// without duplicates.
fn lose_at_each_moment(lose: fn()) {
    simulate_next_boot();
    let runs: u64 = std::env::var("ARROWWOOD_SERVE_CUTS").map_or(1, |runs| runs.parse().unwrap());
    let first_seed: u64 = std::env::var("ARROWWOOD_SERVE_SEED").map_or(0, |seed| seed.parse().unwrap());
    for seed in first_seed..first_seed + runs {
        lose();
        let run = Run::start();
        std::thread::scope(|scope| {
            for producer in 0..PRODUCERS {
                let run = &run;
                scope.spawn(move || run.produce(producer, 10, Dice::new(PRODUCERS as u64 * seed + producer as u64)));
            }
        });
        let checked = run.lose_and_check(lose, &mut Dice::new(seed));
        eprintln!("  seed {seed}: {} images, {} of which a server went on with", checked.count, checked.resumed);
        assert!(checked.count > 200, "{} images", checked.count);
        assert!(checked.resumed > 0);
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
    let batches = first_batches(0, 2);
    assert_eq!(batches[0].send_by_http(&mut client, Ack::Durable).status, 200);
    // From here on, nothing is certain to reach the disk.
    recorder.fail_syncs(true);
    assert_eq!(batches[1].send_by_http(&mut client, Ack::Visible).status, 200);
    let mut disk = Disk::default();
    for event in recorder.take() {
        disk.apply(&event);
    }
    served.stop();

    let expected = rows_in(&batches);
    let image_count = 10 * Luck::ALL.len();
    let mut complete_images = 0;
    for number in 0..image_count {
        let luck = Luck::ALL[number % Luck::ALL.len()];
        simulate_next_mount();
        let home = folder_in_memory();
        let data = home.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let image = disk.image(luck, &mut Dice::new(number as u64));
        image.write(&served.path("").canonicalize().unwrap(), &data);
        let rows_before = read_rows(&data.join("t")).unwrap().len();
        let is_complete = rows_before == expected.len();
        complete_images += usize::from(is_complete);

        let successor = TestServer::start_in(home, options());
        let first = batches[1].send_by_flight(&successor, Ack::Durable).unwrap();
        assert_eq!(first["duplicate"], is_complete, "{luck:?}, {rows_before} rows, and then {first}");
        assert_eq!(first["durable"], 3, "{first}");
        let second = batches[1].send_by_http(&mut successor.client(), Ack::Durable).json();
        assert_eq!(second["duplicate"], true, "{luck:?}, {rows_before} rows, and then {second}");
        assert_eq!(second["durable"], 3, "{second}");
        assert_eq!(read_rows(&successor.path("t")).unwrap(), expected, "{luck:?}");
    }
    assert!(complete_images > 0 && complete_images < image_count, "{complete_images}");
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
    run.send(first, &mut client, Ack::Durable, Protocol::Http);
    run.send(Batch { epoch: 2, ..first }, &mut client, Ack::Durable, Protocol::Http);
    run.send(Batch { epoch: 3, ..first }, &mut client, Ack::Visible, Protocol::Http);
    // Another request learns of the epoch first, but this is the first that waits for the disk.
    run.send(Batch { epoch: 3, ..first }, &mut client, Ack::Durable, Protocol::Flight);
    drop(client);
    let checked = run.lose_and_check(simulate_next_boot, &mut Dice::new(1));
    assert!(checked.count > 20, "{} images", checked.count);
    simulate_boot(None);
}
