//! [`push`]: a table's sealed rows as objects of a store.
//!
//! The store has a prefix of the rows, in objects called by the number of their first row. How many rows each has, its footer
//! says, so that the next push knows where to go on, whatever was merged or dropped here meanwhile. An object is there whole
//! or not at all: it gets its name when its last byte has arrived.

use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrowwood::{Dataset, Error, ErrorKind, Open, Result, sealed_rows, table_stat, write_indexed};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::failure::failed;
use crate::location::{Location, Options};
use crate::object::SLOWEST;
use crate::open::{check_order, each, first_row, list, open_object, span};
use crate::runtime::Threads;

/// Bytes of rows of one object, about, where segments are small.
const OBJECT: u64 = 256 << 20;
/// Bytes of a batch, about: with the footer of an object of 10 GB the batch of a row is fetched by less than 1 MiB.
const BATCH: u64 = 480 << 10;
/// Bytes of a part of an upload.
const PART: usize = 8 << 20;
/// Parts that are sent at the same time.
const PARTS: usize = 4;

/// What [`push`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushed {
    /// Rows that were copied now.
    pub rows: u64,
    /// Objects that were made.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of the row after the last one in the store.
    pub end: u64,
    /// Rows of the table that are not in the store: those of the segment that grows, and those that a power cut may take.
    pub left: u64,
}

/// How [`push`] copies.
#[derive(Clone, Debug, Default)]
pub struct PushOptions {
    /// Copy also the durable rows of the segment that grows.
    pub all: bool,
    /// The most rows of a batch; by default those of some 480 KiB, so that a row is fetched by a small request.
    pub batch_rows: Option<u64>,
    /// How the store is spoken to.
    pub store: Options,
}

/// Copies the rows of the table at `table` that the folder at `url` does not have, but those of the segment that grows and
/// those that are not durable: to `s3://BUCKET/PATH` or `file:///PATH`. Calls `progress` with how many rows are done, and of
/// how many.
///
/// # Errors
/// `NotFound` without a table; `SchemaMismatch` if the table has another schema than what is in the store; `InvalidData` if
/// there are other rows in the store than those of a table; and those of the store.
pub fn push(
    table: impl AsRef<Path>,
    url: &str,
    options: &PushOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<Pushed> {
    let table = table.as_ref();
    let location = Location::parse(url)?;
    if !location.is_writable() {
        let message = "a table is pushed to s3://BUCKET/PATH or file:///PATH";
        return Err(Error::new(ErrorKind::InvalidArgument, message).at(&location.name));
    }
    let missing = || Error::new(ErrorKind::NotFound, "there is no table").at(table);
    let sealed = sealed_rows(table)?.ok_or_else(missing)?;
    let rows = arrowwood::open(table)?;
    let local = rows.first_row()..rows.first_row() + rows.len()?;
    let there = there(&location, &rows, &options.store)?.unwrap_or(local.start);
    if there < local.start || there > local.end {
        let Range { start, end } = local;
        let message = format!("the store has rows up to {there}, and the table those from {start} to {end}");
        return Err(Error::new(ErrorKind::InvalidData, message).at(&location.name));
    }
    // A power cut may take rows that are not durable, and others get their numbers: the store would keep the old ones.
    let durable = table_stat(table)?.map_or(local.end, |stat| stat.durable_end.min(local.end));
    let mut ends: Vec<u64> = sealed.iter().map(|rows| rows.end).filter(|&at| at > there && at <= durable).collect();
    let mut end = ends.last().copied().unwrap_or(there);
    if options.all && durable > end {
        end = durable;
        ends.extend((end > there).then_some(end));
    }
    let mut pushed = Pushed { end: there, ..Pushed::default() };
    for range in objects(&rows, there, &ends)? {
        progress(pushed.rows, end - there);
        let cut = rows.slice(range.start - local.start, range.end - range.start)?;
        let name = location.child(&format!("{:020}.arrow", range.start));
        pushed.bytes += upload(&cut, &name, options).map_err(|e| e.at(&name.name))?;
        pushed.objects += 1;
        pushed.rows += range.end - range.start;
        pushed.end = range.end;
    }
    progress(pushed.rows, end - there);
    pushed.left = local.end - pushed.end;
    Ok(pushed)
}

/// The row after the last one in the store; `None` if there are none. All that is there must be rows of such a table.
fn there(location: &Location, rows: &Dataset, options: &Options) -> Result<Option<u64>> {
    let objects = list(location, options).map_err(|e| e.at(&location.name))?;
    let spans = each(&objects, |object| {
        let wrong = |kind, what: String| Error::new(kind, what).at(&object.name);
        let start = first_row(object)
            .ok_or_else(|| wrong(ErrorKind::InvalidData, "no object of a table is called so".into()))?;
        let found = open_object(object, Open::new(), options)?;
        if found.schema().fields() != rows.schema().fields() {
            let message =
                "its schema is not the one of the table, which was altered or is another; push to another folder";
            return Err(wrong(ErrorKind::SchemaMismatch, message.into()));
        }
        span(object, start, &found)
    })?;
    check_order(&objects, &spans)?;
    Ok(spans.last().map(|last| last.end))
}

/// The rows of each object from row `start` on: of one or several segments, which end at `ends`.
fn objects(rows: &Dataset, start: u64, ends: &[u64]) -> Result<Vec<Range<u64>>> {
    let mut objects: Vec<Range<u64>> = Vec::new();
    let mut bytes = 0;
    let mut at = start;
    for &end in ends {
        let segment = rows.slice(at - rows.first_row(), end - at)?.nbytes()?;
        match objects.last_mut() {
            Some(last) if bytes + segment <= OBJECT => last.end = end,
            _ => {
                objects.push(at..end);
                bytes = 0;
            }
        }
        bytes += segment;
        at = end;
    }
    Ok(objects)
}

/// Makes the object `name` of `rows`; its size.
fn upload(rows: &Dataset, name: &Location, options: &PushOptions) -> Result<u64> {
    let count = rows.len()?.max(1);
    let bytes = rows.nbytes()?.max(1);
    let batch = options.batch_rows.unwrap_or_else(|| (count.saturating_mul(BATCH) / bytes).max(1));
    let threads = Threads::of_process()?;
    let store = name.store(options.store.timeout)?;
    let (sender, receiver) = mpsc::channel(1);
    let receive = receive(store, name.clone(), options.store.timeout, receiver);
    std::thread::scope(|scope| {
        // On a thread of its own, which waits for those that send: the caller's may be one of a runtime, and must not.
        let writing = scope.spawn(|| {
            let mut parts = Parts { sender: Some(sender), part: Vec::new(), bytes: 0 };
            write_indexed(rows, &mut parts, batch)?;
            // Without it the upload is given up.
            parts.end().map_err(|e| Error::io("writing to the store", &e))?;
            Ok(parts.bytes)
        });
        let sent = threads.wait(receive);
        let broken = |_| Err(Error::new(ErrorKind::Internal, "a thread that writes has ended"));
        let written = writing.join().unwrap_or_else(broken);
        // That nobody receives has a cause.
        sent.and(written)
    })
}

/// What is written, in parts; `None` after the last.
struct Parts {
    sender: Option<mpsc::Sender<Option<Vec<u8>>>>,
    part: Vec<u8>,
    bytes: u64,
}

impl Parts {
    fn send(&mut self, part: Option<Vec<u8>>) -> io::Result<()> {
        let gone = || io::Error::other("the upload was given up");
        self.sender.as_ref().ok_or_else(gone)?.blocking_send(part).map_err(|_| gone())
    }

    fn end(&mut self) -> io::Result<()> {
        let last = std::mem::take(&mut self.part);
        self.send(Some(last))?;
        self.send(None)
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(PART - self.part.len());
        self.part.extend_from_slice(&bytes[..len]);
        self.bytes += len as u64;
        if self.part.len() == PART {
            let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART));
            self.send(Some(part))?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends parts as they come, and names the object when the last was received. Gives it up if there is none.
async fn receive(
    store: Arc<dyn ObjectStore>,
    name: Location,
    wait: Duration,
    mut parts: mpsc::Receiver<Option<Vec<u8>>>,
) -> Result<()> {
    let wait = wait + Duration::from_secs(PARTS as u64 * PART as u64 / SLOWEST);
    let late = |_| Error::new(ErrorKind::Io, format!("writing the object: the store did not answer within {wait:?}"));
    let failed = |e| failed("writing the object", &e);
    let Some(Some(first)) = parts.recv().await else { return Ok(()) };
    if first.len() < PART {
        if parts.recv().await != Some(None) {
            return Ok(());
        }
        return timeout(wait, store.put(&name.path, PutPayload::from(first)))
            .await
            .map_err(late)?
            .map(drop)
            .map_err(failed);
    }
    let mut upload = timeout(wait, store.put_multipart(&name.path)).await.map_err(late)?.map_err(failed)?;
    let done = async {
        let mut sending = FuturesUnordered::new();
        let mut next = Some(Some(first));
        while let Some(Some(part)) = next {
            if !part.is_empty() {
                sending.push(upload.put_part(part.into()));
            }
            if sending.len() >= PARTS {
                timeout(wait, sending.next()).await.map_err(late)?.transpose().map_err(failed)?;
            }
            next = parts.recv().await;
        }
        while let Some(sent) = timeout(wait, sending.next()).await.map_err(late)? {
            sent.map_err(failed)?;
        }
        // Whoever writes has failed.
        if next.is_none() {
            return Ok(false);
        }
        timeout(wait, upload.complete()).await.map_err(late)?.map_err(failed)?;
        Ok(true)
    };
    let done = done.await;
    if !matches!(done, Ok(true)) {
        // Stores remove what is left by their own rules, if this fails.
        let _ = timeout(wait, upload.abort()).await;
    }
    done.map(drop)
}
