//! Implements `arrowwood append`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrowwood::readable::{format_count, plural};
use arrowwood::{Dataset, Error, ErrorKind, SyncPolicy, Writer, WriterOptions};
use clap::Args;
use serde_json::json;

use super::create::{TableArgs, table_schema};
use crate::rows::input::{Batches, Format, Input, InputRows, is_file};
use crate::rows::text_args::TextArgs;
use crate::shell::{
    CliError, CliResult, Progress, Stdout, eprint_line, print_json, printable_path, reading_error, stdin_or_path,
};

/// The time between two attempts to open a table that has another writer.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum number of batches that wait to be appended.
const MAX_WAITING_BATCHES: usize = 4;

/// Append rows to a table, creating it if there is none.
///
/// A file is appended as a whole or not at all. Rows from a pipe are committed as they arrive, so that readers see
/// them.
#[derive(Args)]
#[command(after_help = "Example: arrowwood append ticks more.csv\n\
                  Example: tail -f ticks.jsonl | arrowwood append ticks\n\
                  Example: arrowwood append ticks --once day-*.csv")]
pub(crate) struct Append {
    /// Format of the inputs; by default detected from their names or first bytes.
    #[arg(long)]
    format: Option<Format>,
    #[command(flatten)]
    form: TextArgs,
    #[command(flatten)]
    making: TableArgs,
    /// Commit rows from a pipe after this many rows …
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    commit_rows: u64,
    /// … or when the first of them has waited for this many milliseconds.
    #[arg(long, value_name = "T", default_value_t = 100)]
    commit_ms: u64,
    /// When to sync commits to the disk, to survive a power cut: never (only at the end), commit (each one), or an
    /// interval in seconds.
    #[arg(long, value_name = "WHEN", default_value = "1", value_parser = parse_sync)]
    sync: SyncPolicy,
    /// Skip files that were appended with this option before. A file's name (without its directory), size and checksum
    /// are recorded in the commit of its rows, as a position of the table, which has at most 256 positions. A file with
    /// a known name and other content is refused.
    #[arg(long)]
    once: bool,
    /// Wait up to this many seconds for another writer of the table.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    wait: f64,
    /// Print the result as JSON on standard output.
    #[arg(long)]
    json: bool,
    /// The table directory.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// Files to append; - is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    inputs: Vec<PathBuf>,
}

fn parse_sync(text: &str) -> Result<SyncPolicy, String> {
    match (text, text.parse().ok().map(Duration::try_from_secs_f64)) {
        ("never", _) => Ok(SyncPolicy::Never),
        ("commit", _) => Ok(SyncPolicy::Commit),
        (_, Some(Ok(every))) if !every.is_zero() => Ok(SyncPolicy::Every(every)),
        _ => Err("expected never, commit, or a number of seconds".into()),
    }
}

impl Append {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        let mut writer = self.reopen()?;
        let start = writer.as_ref().map_or(0, Writer::rows);
        let mut appended = Ok(());
        for path in &self.inputs {
            if let Err(e) = self.append(path, &mut writer) {
                let end = writer.as_ref().map_or(start, Writer::committed_rows);
                assert!(start <= end, "the table had {start} rows when it was opened, and has {end} committed ones");
                appended = Err(e.with_input(stdin_or_path(path)).after_appending(end - start));
                break;
            }
        }
        let Some(writer) = writer else { return appended };
        let end = writer.rows();
        let dropped = writer.dropped_rows();
        // Rows appended before a failure are kept and synced, and the failure is reported.
        let closed = writer.close();
        appended?;
        closed?;
        self.report(start, end, dropped, out)
    }

    fn options(&self) -> WriterOptions {
        WriterOptions { sync: self.sync, ..self.making.options() }
    }

    /// Opens the table, waiting for another writer if requested.
    fn open(&self, schema: Option<SchemaRef>) -> arrowwood::Result<Writer> {
        let start = Instant::now();
        loop {
            match Writer::open(&self.table, schema.clone(), &self.options()) {
                Err(e) if e.kind() == ErrorKind::Busy && start.elapsed().as_secs_f64() < self.wait => {
                    thread::sleep(RETRY_INTERVAL);
                }
                Err(e) if e.kind() == ErrorKind::Busy => return Err(still_busy(&e, self.wait)),
                opened => return opened,
            }
        }
    }

    /// Opens the table, if it exists or its schema is known.
    fn reopen(&self) -> CliResult<Option<Writer>> {
        match self.open(self.form.schema.clone()) {
            Err(e) if e.kind() == ErrorKind::NotFound && self.form.schema.is_none() => Ok(None),
            writer => Ok(Some(writer?)),
        }
    }

    fn append(&self, path: &Path, writer: &mut Option<Writer>) -> CliResult {
        let mut input = Input::open(path, self.format, &self.form)?;
        if writer.is_none() {
            let (schema, same) = input.with_schema()?;
            input = same;
            *writer = Some(self.open(Some(table_schema(&schema)))?);
        }
        let Some(writer) = writer else { return Ok(()) };
        let position = if self.once { Some(FilePosition::read(path)?) } else { None };
        if let Some(position) = &position
            && let Some(recorded) = writer.positions().get(&position.name)
        {
            if *recorded == position.fingerprint {
                let table = printable_path(&self.table);
                eprint_line(format_args!("{table}: {} is left out, it was appended before", printable_path(path)));
                return Ok(());
            }
            let hint = "a file of this name and other content was appended before; --once is for files that don't \
                        change, and knows them by their names without directories: give another file another name";
            return Err(CliError::new(hint));
        }
        // Parsing and committing each take up to half of the time.
        let max_delay = Duration::from_millis(self.commit_ms) / 2;
        let is_file = is_file(path)?;
        match input.rows(writer.schema(), usize::try_from(self.commit_rows).unwrap_or(usize::MAX), max_delay)? {
            InputRows::Dataset(dataset) => append_dataset(writer, &dataset, path, position),
            InputRows::Batches(batches) if is_file => append_atomically(writer, position, |writer| {
                for batch in batches {
                    writer.append(&batch?)?;
                }
                Ok(())
            }),
            InputRows::Batches(batches) => self.append_stream(writer, batches, max_delay),
        }
    }

    /// Appends rows as they arrive, and commits them in time. Rows before an error are kept.
    fn append_stream(&self, writer: &mut Writer, batches: Batches, max_delay: Duration) -> CliResult {
        let receiver = read_in_background(batches)?;
        let appended = self.append_received(writer, &receiver, max_delay);
        let committed = writer.commit();
        appended?;
        Ok(committed?)
    }

    /// Appends batches until the end, and commits when enough rows have come, or the first has waited long enough.
    fn append_received(&self, writer: &mut Writer, receiver: &BatchReceiver, max_delay: Duration) -> CliResult {
        // When the first uncommitted rows arrived.
        let mut first_arrival: Option<Instant> = None;
        loop {
            let timeout = match first_arrival {
                Some(arrival) => max_delay.saturating_sub(arrival.elapsed()),
                None => Duration::MAX,
            };
            match receiver.recv_timeout(timeout) {
                Ok(Some(batch)) => writer.append(&batch?)?,
                Ok(None) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => return Err(CliError::new("the reading thread has stopped")),
            }
            assert!(writer.committed_rows() <= writer.rows(), "more rows are committed than were appended");
            let arrival = *first_arrival.get_or_insert_with(Instant::now);
            let uncommitted = writer.rows() - writer.committed_rows();
            if uncommitted >= self.commit_rows || arrival.elapsed() >= max_delay {
                writer.commit()?;
                first_arrival = None;
            }
        }
    }

    fn report(&self, start: u64, end: u64, dropped: u64, out: &mut Stdout) -> CliResult {
        assert!(start <= end, "the table had {start} rows when it was opened, and has {end} now");
        let name = printable_path(&self.table);
        if self.json {
            let table = self.table.to_string_lossy();
            let summary = json!({"table": table, "appended": end - start, "end": end, "dropped": dropped});
            return Ok(print_json(out, summary)?);
        }
        if dropped > 0 {
            let lost = plural(dropped, "row", "rows");
            eprint_line(format_args!("{name}: the machine's last crash lost {lost} not yet synced"));
        }
        let appended = plural(end - start, "row", "rows");
        eprint_line(format_args!("{name}: {appended} appended, the next one is number {}", format_count(end)));
        Ok(())
    }
}

/// The position of a table that records that a file was appended.
struct FilePosition {
    name: String,
    /// The CRC-32C of the file, followed by the low [`SIZE_BITS`](FilePosition::SIZE_BITS) bits of its size. So it is
    /// never negative.
    fingerprint: i64,
}

impl FilePosition {
    const SIZE_BITS: u32 = 31;
    /// The number of bytes that are read at once.
    const CHUNK: usize = 1 << 20;

    /// Reads the file at `path` and computes its fingerprint.
    fn read(path: &Path) -> CliResult<FilePosition> {
        if !is_file(path)? {
            return Err(CliError::new("--once needs files, which have a name and a size"));
        }
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| CliError::new("--once needs a name that is UTF-8"))?;
        let mut file = File::open(path).map_err(|e| reading_error(&e, path))?;
        let mut checksum = 0;
        let mut size = 0_u64;
        let mut chunk = vec![0; FilePosition::CHUNK];
        loop {
            let len = file.read(&mut chunk).map_err(|e| reading_error(&e, path))?;
            if len == 0 {
                break;
            }
            checksum = crc32c::crc32c_append(checksum, &chunk[..len]);
            size += len as u64;
        }
        let low_size = size & ((1 << FilePosition::SIZE_BITS) - 1);
        let fingerprint = i64::from(checksum) << FilePosition::SIZE_BITS | low_size as i64;
        Ok(FilePosition { name: name.to_owned(), fingerprint })
    }
}

/// Appends a dataset in one commit.
fn append_dataset(writer: &mut Writer, dataset: &Dataset, path: &Path, position: Option<FilePosition>) -> CliResult {
    let mut progress = Progress::new(format!("appending {}", printable_path(path)));
    let total = dataset.len()?;
    let mut done = 0;
    append_atomically(writer, position, |writer| {
        for batch in dataset.batches() {
            progress.update(done, total);
            let batch = batch?;
            writer.append_dataset(&batch)?;
            done += batch.len()?;
        }
        Ok(())
    })
}

/// Commits the rows appended by `append` with the position, or rolls back if it fails.
fn append_atomically(
    writer: &mut Writer,
    position: Option<FilePosition>,
    append: impl FnOnce(&mut Writer) -> CliResult,
) -> CliResult {
    // A commit takes all rows appended so far, and a rollback all of them away.
    assert_eq!(writer.rows(), writer.committed_rows(), "rows of an earlier input are not committed");
    let committed = append(writer).and_then(|()| match &position {
        Some(FilePosition { name, fingerprint }) => Ok(writer.commit_with(&[(name, *fingerprint)])?),
        None => Ok(writer.commit()?),
    });
    if committed.is_err() {
        writer.rollback();
    }
    committed
}

/// Receives batches from a thread, and `None` at the end.
type BatchReceiver = Receiver<Option<arrowwood::Result<RecordBatch>>>;

/// Adds advice to the error of a table that has another writer.
fn still_busy(error: &Error, waited: f64) -> Error {
    let advice = if waited > 0.0 {
        format!("waited {waited} seconds for it")
    } else {
        "--wait 10 waits up to ten seconds for it".to_string()
    };
    let advised = Error::new(ErrorKind::Busy, format!("{}; {advice}", error.message()));
    match error.path() {
        Some(path) => advised.at(path),
        None => advised,
    }
}

/// Reads batches in a separate thread, so that commits need not wait for them.
fn read_in_background(batches: Batches) -> CliResult<BatchReceiver> {
    let (sender, receiver) = sync_channel(MAX_WAITING_BATCHES);
    let spawned = thread::Builder::new().name("arrowwood-input".into()).spawn(move || {
        for batch in batches.map(Some).chain([None]) {
            if sender.send(batch).is_err() {
                // The receiver was dropped.
                return;
            }
        }
    });
    spawned.map_err(|e| Error::io("starting a thread", &e))?;
    Ok(receiver)
}
