//! Rows as they are committed, and events with the progress of a table.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::SchemaRef;
use arrowwood::{Error, ErrorKind, StreamEncoder};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::frames::{Framing, frames};
use crate::problem::{Problem, Result};
use crate::query::Query;
use crate::response_body::{BodySource, BodyStep, ResponseBody, blocking};
use crate::row_stream::{check_start, numbers, selected};
use crate::session::Session;
use crate::snapshot::{self, Snapshot};
use crate::table::{Kind, Progress, Table};

/// The maximum size of a record batch's body in bytes: a slow client keeps one of them waiting.
const PIECE: usize = 256 << 10;
/// The interval of checks that the token is still valid and the table still exists.
const LOOK: Duration = Duration::from_secs(2);
/// Milliseconds between two events: minimum, maximum, and default.
const INTERVAL: (u64, u64, u64) = (10, 60_000, 50);
/// The same between comments.
const COMMENTS: (u64, u64, u64) = (100, 60_000, 15_000);

pub(crate) const PARAMETERS: &[&str] = &["from", "columns", "column", "durable", "numbering"];
pub(crate) const EVENT_PARAMETERS: &[&str] = &["interval", "alive", snapshot::PARAMETER];

/// The state of a stream of a table's rows.
pub(crate) struct Follower {
    table: Arc<Table>,
    session: Session,
    progress: watch::Receiver<Progress>,
    encoder: Box<StreamEncoder>,
    framing: Framing,
    /// The encoder of the stream, which has only one.
    schema: SchemaRef,
    columns: Option<Vec<usize>>,
    is_durable: bool,
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
        let progress = table.watch().map_err(|e| Problem::from_table_error(&e))?;
        let rows = table.rows().map_err(|e| Problem::from_table_error(&e))?;
        let now = table.progress().map_err(|e| Problem::from_table_error(&e))?;
        table.check_numbering(query.get("numbering")?)?;
        let is_durable = query.flag("durable")?;
        let end = if is_durable { now.durable_end } else { now.end };
        let next = query.number::<u64>("from")?.unwrap_or(end);
        check_start(next, now.first_row, now.end)?;
        let columns = query.columns().map(|names| numbers(&rows, &names)).transpose()?;
        let sent = selected(&rows, columns.as_deref()).map_err(|e| Problem::from_table_error(&e))?;
        let encoder = StreamEncoder::new(sent.schema().clone()).map_err(|e| Problem::from_table_error(&e))?;
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

    /// Identifies the numbering of the rows: see [`FileIdentity::numbering`](crate::table::Identity::numbering).
    pub fn numbering(&self) -> String {
        self.table.identity.numbering()
    }

    /// The number of the next row to send.
    pub fn next_row(&self) -> u64 {
        self.next
    }

    /// The schema, which precedes all rows; `None` once it was sent.
    pub fn begin(&mut self) -> Option<io::Result<Bytes>> {
        let is_begun = std::mem::replace(&mut self.is_begun, true);
        let head = || self.framing.head(&self.encoder.schema_message()).map(Bytes::from).map_err(io::Error::other);
        (!is_begun).then(head)
    }

    /// Sends the rows that [`wait`](Follower::wait) returned.
    pub async fn send(self, waited: Result<u64, StreamEnd>) -> BodyStep<Follower> {
        let whole = Bytes::from_static(self.framing.end());
        let end = match waited {
            Ok(end) => end,
            Err(StreamEnd::Whole) => return BodyStep::End(vec![whole]),
            Err(StreamEnd::Broken(why)) => return BodyStep::Failed(io::Error::other(why)),
        };
        let session = self.session.clone();
        match blocking(move || self.make(end)).await {
            Ok(Ok((follower, Some(bytes)))) => BodyStep::Data(follower, bytes),
            // A client that reconnects gets the rest with the new schema.
            Ok(Ok((_, None))) => BodyStep::End(vec![whole]),
            Ok(Err(e)) => {
                session.on_failure(&Problem::from_table_error(&e));
                BodyStep::Failed(io::Error::other(e))
            }
            Err(e) => BodyStep::Failed(e),
        }
    }

    /// The rows up to number `end`, or the first of them; `None` if the table's schema has changed. Blocks.
    fn make(mut self, end: u64) -> arrowwood::Result<(Follower, Option<Vec<Bytes>>)> {
        let rows = self.table.rows()?;
        if !self.table.is_same()? {
            let message = "the table was removed, or its rows put in order, while it was followed: rows may have other numbers now";
            return Err(Error::new(ErrorKind::FileChanged, message));
        }
        let dropped = || Error::new(ErrorKind::RowOutOfRange, "rows were dropped while they were followed");
        let start = self.next.checked_sub(rows.first_row()).ok_or_else(dropped)?;
        let rows = selected(&rows.slice(start, end - self.next)?, self.columns.as_deref())?;
        if rows.schema().fields() != self.schema.fields() {
            return Ok((self, None));
        }
        let (messages, count) = self.encoder.encode(&rows, PIECE)?;
        self.next += count;
        let bytes = frames(messages, self.framing)?;
        Ok((self, Some(bytes)))
    }

    /// Waits until there are rows to send; returns their end, or the reason why there are none.
    pub async fn wait(&mut self) -> Result<u64, StreamEnd> {
        loop {
            let now = *self.progress.borrow_and_update();
            if now.is_lost || self.next < now.first_row {
                return Err(StreamEnd::Broken(
                    "the table was removed, or the rows were dropped, while it was followed",
                ));
            }
            let end = if self.is_durable { now.durable_end } else { now.end };
            if self.next < end {
                return Ok(end);
            }
            tokio::select! {
                changed = self.progress.changed() => changed.map_err(|_| StreamEnd::Whole)?,
                () = self.session.wait_for_stop() => return Err(StreamEnd::Whole),
                () = sleep(LOOK) => {
                    if !is_same(&self.table).await {
                        return Err(StreamEnd::Broken("the table was removed, or its rows put in order, while it was followed"));
                    }
                    if !self.session.is_valid() {
                        return Err(StreamEnd::Whole);
                    }
                }
            }
        }
    }
}

/// The reason why a stream ends.
pub(crate) enum StreamEnd {
    Whole,
    Broken(&'static str),
}

impl BodySource for Follower {
    async fn step(mut self) -> BodyStep<Follower> {
        if let Some(head) = self.begin() {
            return head.map_or_else(BodyStep::Failed, |head| BodyStep::Data(self, vec![head]));
        }
        let goes_on = self.session.is_valid() && !self.session.is_stopping();
        let waited = if goes_on { self.wait().await } else { Err(StreamEnd::Whole) };
        self.send(waited).await
    }
}

// ---- events ----

/// The state of a stream of events.
pub(crate) struct EventStream {
    snapshot: Snapshot,
    session: Session,
    progress: watch::Receiver<Progress>,
    interval: Duration,
    /// The interval between comments, which show a client that the connection is alive.
    alive: Duration,
    /// The last event, and the time when it was sent.
    sent: Option<(Progress, Instant)>,
    /// The time of the last check that the table is still the same.
    looked: Instant,
}

impl EventStream {
    /// Parses the request `query`. Blocks.
    pub fn open(table: Arc<Table>, query: &Query, session: Session) -> Result<EventStream> {
        let snapshot = Snapshot::load_for_query(table, query)?;
        let interval = milliseconds(query, "interval", INTERVAL)?;
        let alive = milliseconds(query, "alive", COMMENTS)?;
        let table = &snapshot.table;
        let progress = if table.kind == Kind::Table { table.watch() } else { table.progress().map(still) };
        let progress = progress.map_err(|e| Problem::from_table_error(&e))?;
        Ok(EventStream { snapshot, session, progress, interval, alive, sent: None, looked: Instant::now() })
    }

    /// Whether the table or file is still the one of the first event. Where that can't be told now, the next look tells it.
    async fn is_same(&self) -> bool {
        if self.snapshot.table.kind == Kind::Table {
            return is_same(&self.snapshot.table).await;
        }
        let snapshot = self.snapshot.clone();
        blocking(move || snapshot.check_current().is_ok()).await.unwrap_or(false)
    }
}

/// The progress of what does not grow.
fn still(progress: Progress) -> watch::Receiver<Progress> {
    watch::Sender::new(progress).subscribe()
}

/// A parameter in milliseconds.
fn milliseconds(query: &Query, name: &str, (least, most, usual): (u64, u64, u64)) -> Result<Duration> {
    let given = query.number::<u64>(name)?.unwrap_or(usual);
    if !(least..=most).contains(&given) {
        return Err(Problem::bad_request(format!("{name}: {least} to {most} milliseconds are expected, got {given}")));
    }
    Ok(Duration::from_millis(given))
}

fn event(progress: &Progress) -> Bytes {
    let Progress { first_row, end, durable_end, .. } = progress;
    let data = json!({"first_row": first_row, "end": end, "durable_end": durable_end});
    format!("event: rows\nid: {end}\ndata: {data}\n\n").into()
}

impl BodySource for EventStream {
    async fn step(mut self) -> BodyStep<EventStream> {
        let gone = || BodyStep::End(vec![Bytes::from_static(b"event: end\ndata: {}\n\n")]);
        if let Some((_, when)) = self.sent {
            sleep_until(when + self.interval).await;
        }
        let begun = Instant::now();
        // What does not grow has no one who sends.
        let grows = self.snapshot.table.kind == Kind::Table;
        loop {
            if self.session.is_stopping() || !self.session.is_valid() {
                return BodyStep::End(Vec::new());
            }
            let now = *self.progress.borrow_and_update();
            if now.is_lost {
                return gone();
            }
            if self.sent.is_none_or(|(before, _)| before != now) {
                self.sent = Some((now, Instant::now()));
                return BodyStep::Data(self, vec![event(&now)]);
            }
            if begun.elapsed() >= self.alive {
                return BodyStep::Data(self, vec![Bytes::from_static(b": alive\n\n")]);
            }
            tokio::select! {
                changed = self.progress.changed(), if grows => if changed.is_err() { return gone() },
                () = self.session.wait_for_stop() => (),
                () = sleep_until((self.looked + LOOK).min(begun + self.alive)) => {
                    if self.looked.elapsed() >= LOOK {
                        self.looked = Instant::now();
                        if !self.is_same().await {
                            return gone();
                        }
                    }
                }
            }
        }
    }
}

/// Whether a table is still the one that is followed. Where that can't be told now, the next look tells it.
async fn is_same(table: &Arc<Table>) -> bool {
    let table = table.clone();
    blocking(move || table.is_same().unwrap_or(true)).await.unwrap_or(false)
}

/// The body of an answer that follows a table.
pub(crate) fn body(steps: impl BodySource, session: &Session) -> ResponseBody {
    let metrics = session.metrics().clone();
    metrics.followers.add(1);
    ResponseBody::steps(steps).holding(FollowerGuard(metrics))
}

/// Counts a follower until it is dropped.
struct FollowerGuard(Arc<crate::metrics::Metrics>);

impl Drop for FollowerGuard {
    fn drop(&mut self) {
        self.0.followers.add(-1);
    }
}
