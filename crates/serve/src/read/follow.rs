//! Streams rows as they are committed, and events with the progress of a table.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::SchemaRef;
use arrowwood::{Error, ErrorKind, StreamEncoder};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::frames::{Framing, frames};
use super::rows::{check_start, numbers, selected};
use crate::catalog::{Kind, Progress, Snapshot, Table, snapshot};
use crate::http::{BodyPart, Problem, Query, ResponseBody, Result, ResultExt};
use crate::ops::{Metrics, blocking};
use crate::session::Session;

/// The maximum size of a record batch's body in bytes: a slow client keeps one of them waiting.
const MAX_BATCH_BYTES: usize = 256 << 10;
/// The interval of checks that the token is still valid and the table still exists.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The interval between two events.
const EVENT_INTERVAL: IntervalRange = IntervalRange { min: 10, max: 60_000, default: 50 };
/// The interval between two comments, which show a client that the connection is alive.
const COMMENT_INTERVAL: IntervalRange = IntervalRange { min: 100, max: 60_000, default: 15_000 };

/// The reason why a stream ends if another table has the followed one's name.
const REPLACED: &str = "the table was removed, or its rows put in order, while it was followed";

pub(crate) const PARAMETERS: &[&str] = &["from", "columns", "column", "durable", "numbering"];
pub(crate) const EVENT_PARAMETERS: &[&str] = &["interval", "alive", snapshot::PARAMETER];

/// The state of a stream of a table's rows, from a given row on.
///
/// A step waits until the table's progress, published by its watching thread, is beyond `next`, and sends the rows in
/// between. While it waits, it checks at each [`CHECK_INTERVAL`] that the table is still the same, and the token valid.
pub(crate) struct Follower {
    table: Arc<Table>,
    session: Session,
    progress: watch::Receiver<Progress>,
    encoder: Box<StreamEncoder>,
    framing: Framing,
    /// The schema of the stream, which cannot change.
    schema: SchemaRef,
    columns: Option<Vec<usize>>,
    /// Set if only durable rows are sent.
    is_durable: bool,
    /// Set once the schema was sent.
    is_begun: bool,
    /// The number of the next row.
    next: u64,
}

impl Follower {
    /// Parses the request `query`. Blocks.
    pub fn open(table: Arc<Table>, query: &Query, session: Session, framing: Framing) -> Result<Follower> {
        if table.kind != Kind::Table {
            return Err(Problem::bad_request("a file does not grow; follow a table"));
        }
        let progress = table.watch().or_table_problem()?;
        let rows = table.rows().or_table_problem()?;
        let current = table.progress().or_table_problem()?;
        table.check_numbering(query.get("numbering")?)?;
        let is_durable = query.flag("durable")?;
        let end = if is_durable { current.durable_end } else { current.end };
        let next = query.number::<u64>("from")?.unwrap_or(end);
        check_start(next, current.first_row, current.end)?;
        let columns = query.columns().map(|names| numbers(&rows, &names)).transpose()?;
        let sent = selected(&rows, columns.as_deref()).or_table_problem()?;
        let encoder = StreamEncoder::new(sent.schema().clone()).or_table_problem()?;
        Ok(Follower {
            table,
            session,
            progress,
            encoder: Box::new(encoder),
            framing,
            schema: sent.schema().clone(),
            columns,
            is_durable,
            is_begun: false,
            next,
        })
    }

    /// Returns the identifier of the numbering of rows: see `FileIdentity::numbering`.
    pub fn numbering(&self) -> String {
        self.table.identity.numbering()
    }

    /// Returns the number of the next row to send.
    pub fn next_row(&self) -> u64 {
        self.next
    }

    /// Returns the message of the schema, which precedes all rows; `None` once it was sent.
    pub fn begin(&mut self) -> Option<io::Result<Bytes>> {
        if std::mem::replace(&mut self.is_begun, true) {
            return None;
        }
        let message = self.framing.head(&self.encoder.schema_message());
        Some(message.map(Bytes::from).map_err(io::Error::other))
    }

    /// Sends the rows that [`wait`](Follower::wait) returned.
    pub async fn send(self, waited: Result<u64, StreamEnd>) -> io::Result<BodyPart<Follower>> {
        let end_of_stream = Bytes::from_static(self.framing.end());
        let end = match waited {
            Ok(end) => end,
            Err(StreamEnd::Whole) => return Ok((vec![end_of_stream], None)),
            Err(StreamEnd::Broken(why)) => return Err(io::Error::other(why)),
        };
        let session = self.session.clone();
        match blocking(move || self.encode(end)).await? {
            Ok((follower, Some(bytes))) => Ok((bytes, Some(follower))),
            // A client that reconnects gets the rest with the new schema.
            Ok((_, None)) => Ok((vec![end_of_stream], None)),
            Err(e) => {
                session.on_failure(&Problem::from_table_error(&e));
                Err(io::Error::other(e))
            }
        }
    }

    /// Encodes the rows up to number `end`, or the first of them; returns `None` if the table's schema has changed.
    /// Blocks.
    fn encode(mut self, end: u64) -> arrowwood::Result<(Follower, Option<Vec<Bytes>>)> {
        assert!(self.next < end, "rows {} to {end} are to be sent", self.next);
        let rows = self.table.rows()?;
        if !self.table.is_same()? {
            let message = format!("{REPLACED}: rows may have other numbers now");
            return Err(Error::new(ErrorKind::FileChanged, message));
        }
        let Some(start) = self.next.checked_sub(rows.first_row()) else {
            return Err(Error::new(ErrorKind::RowOutOfRange, "rows were dropped while they were followed"));
        };
        let rows = selected(&rows.slice(start, end - self.next)?, self.columns.as_deref())?;
        if rows.schema().fields() != self.schema.fields() {
            return Ok((self, None));
        }
        let (messages, count) = self.encoder.encode(&rows, MAX_BATCH_BYTES)?;
        assert!(count <= end - self.next, "{count} of {} rows were encoded", end - self.next);
        self.next += count;
        let bytes = frames(messages, self.framing)?;
        Ok((self, Some(bytes)))
    }

    /// Waits until there are rows to send; returns their end, or the reason why there are none.
    pub async fn wait(&mut self) -> Result<u64, StreamEnd> {
        loop {
            let current = *self.progress.borrow_and_update();
            if current.is_lost || self.next < current.first_row {
                return Err(StreamEnd::Broken(
                    "the table was removed, or the rows were dropped, while it was followed",
                ));
            }
            let end = if self.is_durable { current.durable_end } else { current.end };
            if self.next < end {
                return Ok(end);
            }
            tokio::select! {
                changed = self.progress.changed() => changed.map_err(|_| StreamEnd::Whole)?,
                () = self.session.wait_for_stop() => return Err(StreamEnd::Whole),
                () = sleep(CHECK_INTERVAL) => {
                    if !is_same(&self.table).await {
                        return Err(StreamEnd::Broken(REPLACED));
                    }
                    if !self.session.is_valid() {
                        return Err(StreamEnd::Whole);
                    }
                }
            }
        }
    }

    pub async fn step(mut self) -> io::Result<BodyPart<Follower>> {
        if let Some(head) = self.begin() {
            return Ok((vec![head?], Some(self)));
        }
        let may_continue = self.session.is_valid() && !self.session.is_stopping();
        let waited = if may_continue { self.wait().await } else { Err(StreamEnd::Whole) };
        self.send(waited).await
    }
}

/// The reason why a stream ends.
pub(crate) enum StreamEnd {
    /// All rows so far were sent.
    Whole,
    /// The next rows can't be sent.
    Broken(&'static str),
}

// ---- events ----

/// The state of a stream of events.
pub(crate) struct EventStream {
    snapshot: Snapshot,
    session: Session,
    progress: watch::Receiver<Progress>,
    interval: Duration,
    comment_interval: Duration,
    /// The last event, and the time when it was sent.
    sent: Option<(Progress, Instant)>,
    /// The time of the last check that the table is still the same.
    last_check: Instant,
}

impl EventStream {
    /// Parses the request `query`. Blocks.
    pub fn open(table: Arc<Table>, query: &Query, session: Session) -> Result<EventStream> {
        let snapshot = Snapshot::load_for_query(table, query)?;
        let interval = EVENT_INTERVAL.parse(query, "interval")?;
        let comment_interval = COMMENT_INTERVAL.parse(query, "alive")?;
        let table = &snapshot.table;
        let progress = match table.kind {
            Kind::Table => table.watch(),
            // The progress of a file never changes.
            Kind::File | Kind::Files => table.progress().map(|progress| watch::Sender::new(progress).subscribe()),
        };
        let progress = progress.or_table_problem()?;
        let last_check = Instant::now();
        Ok(EventStream { snapshot, session, progress, interval, comment_interval, sent: None, last_check })
    }

    pub async fn step(mut self) -> io::Result<BodyPart<EventStream>> {
        if let Some((_, when)) = self.sent {
            sleep_until(when + self.interval).await;
        }
        let start = Instant::now();
        // The channel of a file has no sender: it is closed from the start.
        let grows = self.snapshot.table.kind == Kind::Table;
        loop {
            if self.session.is_stopping() || !self.session.is_valid() {
                return Ok((Vec::new(), None));
            }
            let current = *self.progress.borrow_and_update();
            if current.is_lost {
                return Ok(end_event());
            }
            if self.sent.is_none_or(|(last, _)| last != current) {
                self.sent = Some((current, Instant::now()));
                return Ok((vec![event(&current)], Some(self)));
            }
            if start.elapsed() >= self.comment_interval {
                return Ok((vec![Bytes::from_static(b": alive\n\n")], Some(self)));
            }
            tokio::select! {
                changed = self.progress.changed(), if grows => if changed.is_err() { return Ok(end_event()) },
                () = self.session.wait_for_stop() => (),
                () = sleep_until((self.last_check + CHECK_INTERVAL).min(start + self.comment_interval)) => {
                    if self.last_check.elapsed() >= CHECK_INTERVAL {
                        self.last_check = Instant::now();
                        if !self.is_same().await {
                            return Ok(end_event());
                        }
                    }
                }
            }
        }
    }

    /// Returns true if the table or file is still the one of the first event, or if it can't be inspected now: the next
    /// check follows soon.
    async fn is_same(&self) -> bool {
        if self.snapshot.table.kind == Kind::Table {
            return is_same(&self.snapshot.table).await;
        }
        let snapshot = self.snapshot.clone();
        blocking(move || snapshot.check_current().is_ok()).await.unwrap_or(false)
    }
}

/// The values of a parameter that is an interval, in milliseconds.
struct IntervalRange {
    min: u64,
    max: u64,
    default: u64,
}

impl IntervalRange {
    /// Parses the parameter `name`.
    fn parse(&self, query: &Query, name: &str) -> Result<Duration> {
        let IntervalRange { min, max, default } = *self;
        let millis = query.number::<u64>(name)?.unwrap_or(default);
        if !(min..=max).contains(&millis) {
            let detail = format!("{name}: {min} to {max} milliseconds are expected, got {millis}");
            return Err(Problem::bad_request(detail));
        }
        Ok(Duration::from_millis(millis))
    }
}

fn event(progress: &Progress) -> Bytes {
    let Progress { first_row, end, durable_end, .. } = progress;
    let data = json!({"first_row": first_row, "end": end, "durable_end": durable_end});
    format!("event: rows\nid: {end}\ndata: {data}\n\n").into()
}

/// Ends a stream of events: the table or file is gone.
fn end_event() -> BodyPart<EventStream> {
    (vec![Bytes::from_static(b"event: end\ndata: {}\n\n")], None)
}

/// Returns true if a table is still the one that is followed, or if it can't be inspected now: the next check follows
/// soon.
async fn is_same(table: &Arc<Table>) -> bool {
    let table = table.clone();
    blocking(move || table.is_same().unwrap_or(true)).await.unwrap_or(false)
}

/// Counts a response that follows a table, until its `body` has been sent or was abandoned.
pub(crate) fn counted(body: ResponseBody, session: &Session) -> ResponseBody {
    let metrics = session.metrics().clone();
    metrics.followers.add(1);
    body.holding(FollowerGuard(metrics))
}

/// Counts a follower until it is dropped.
struct FollowerGuard(Arc<Metrics>);

impl Drop for FollowerGuard {
    fn drop(&mut self) {
        self.0.followers.add(-1);
    }
}
