//! Uploads rows as a new object of a store, atomically.
//!
//! The object gets its name after its last byte has arrived, and never replaces another object.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use arrowwood::mapping::FileSystem;
use arrowwood::{Dataset, Error, ErrorKind, PushedRows, Result, blocking, write_pushed};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use crate::error::request_error;
use crate::location::{Location, Options};
use crate::object::MIN_BYTES_PER_SECOND;
use crate::runtime::RequestRuntime;

/// The approximate bytes of a batch. With small batches, a row of an object of 10 GB is fetched by less than 1 MiB,
/// including the footer.
const BATCH_BYTES: u64 = 480 << 10;
/// The bytes of a part of an upload.
const PART_BYTES: usize = 8 << 20;
/// The maximum number of parts that are sent at the same time.
const MAX_PARTS_IN_FLIGHT: usize = 4;
/// How long to wait for the store when a signal ends an upload.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(5);

/// A multipart upload that was neither completed nor aborted.
type PendingUpload = Arc<Mutex<Option<Box<dyn MultipartUpload>>>>;

/// The outcome of an upload.
pub(crate) enum UploadOutcome {
    /// The object was created, with so many bytes.
    Created(u64),
    /// An object of this name exists, and was not changed.
    Exists,
}

/// Creates an object with `rows` at `location`, and records their `origin` in it, unless there is an object already.
pub(crate) fn upload(
    rows: &Dataset,
    origin: &PushedRows,
    location: &Location,
    batch_rows: Option<u64>,
    options: &Options,
) -> Result<UploadOutcome> {
    let count = rows.len()?.max(1);
    let bytes = rows.nbytes()?.max(1);
    let batch_rows = batch_rows.unwrap_or_else(|| (count.saturating_mul(BATCH_BYTES) / bytes).max(1));
    let runtime = RequestRuntime::for_process()?;
    let target = UploadTarget { store: location.store(options.timeout)?, location: location.clone() };
    let (sender, parts) = mpsc::channel(1);
    let pending = PendingUpload::default();
    let send = send_object(target, options.timeout, parts, pending.clone());
    std::thread::scope(|scope| {
        // Written on another thread, which blocks on the channel. This thread may belong to a runtime, and must not.
        let writer = scope.spawn(|| {
            let mut writer = PartWriter { sender, part: Vec::new(), bytes: 0 };
            write_pushed(rows, &mut writer, batch_rows, origin)?;
            // Without this call, as after an error, the upload is aborted.
            writer.finish().map_err(|e| Error::io("writing to the store", &e))
        });
        let sent = runtime.wait(send);
        if !matches!(sent, Ok(SendOutcome::Created)) {
            let is_interrupted = blocking::check_interrupt().is_err();
            let timeout = if is_interrupted { INTERRUPT_TIMEOUT } else { options.timeout };
            runtime.wait_uninterrupted(abort(pending), timeout);
        }
        let written = match writer.join() {
            Ok(written) => written,
            Err(_) => Err(Error::new(ErrorKind::Internal, "a thread that writes has ended")),
        };
        // An error of sending comes first, as it makes writing fail, too.
        match sent? {
            SendOutcome::Exists => Ok(UploadOutcome::Exists),
            SendOutcome::Created => written.map(UploadOutcome::Created),
            SendOutcome::Unfinished => {
                written?;
                Err(Error::new(ErrorKind::Internal, "an upload was given up without a cause"))
            }
        }
    })
}

/// Sends written bytes in parts of [`PART_BYTES`], and `None` after the last one.
struct PartWriter {
    sender: mpsc::Sender<Option<Vec<u8>>>,
    part: Vec<u8>,
    bytes: u64,
}

impl PartWriter {
    fn send(&mut self, part: Option<Vec<u8>>) -> io::Result<()> {
        self.sender.blocking_send(part).map_err(|_| io::Error::other("the upload was given up"))
    }

    /// Sends the rest and the end. Returns the number of written bytes.
    fn finish(mut self) -> io::Result<u64> {
        let last = std::mem::take(&mut self.part);
        self.send(Some(last))?;
        self.send(None)?;
        Ok(self.bytes)
    }
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(PART_BYTES - self.part.len());
        self.part.extend_from_slice(&bytes[..len]);
        self.bytes += len as u64;
        if self.part.len() == PART_BYTES {
            let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART_BYTES));
            self.send(Some(part))?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The outcome of sending the parts of an object.
enum SendOutcome {
    /// The object was created.
    Created,
    /// An object of this name exists.
    Exists,
    /// The writing thread has failed before it sent the end.
    Unfinished,
}

/// Sends an object, whose `parts` arrive while they are written. If it was not created, the caller must abort the
/// upload that is `pending`.
async fn send_object(
    target: UploadTarget,
    response_timeout: Duration,
    mut parts: mpsc::Receiver<Option<Vec<u8>>>,
    pending: PendingUpload,
) -> Result<SendOutcome> {
    let transfer_seconds = (MAX_PARTS_IN_FLIGHT * PART_BYTES) as u64 / MIN_BYTES_PER_SECOND;
    let requests = TimedRequests {
        timeout: response_timeout + Duration::from_secs(transfer_seconds),
        is_bucket: target.location.is_bucket(),
    };
    let Some(Some(first)) = parts.recv().await else { return Ok(SendOutcome::Unfinished) };
    if first.len() < PART_BYTES {
        // The only part: wait for the end, so as not to create an object after an error.
        if parts.recv().await != Some(None) {
            return Ok(SendOutcome::Unfinished);
        }
        return requests.wait(target.put(first)).await;
    }
    let path = target.path();
    let upload = requests.wait(target.store.put_multipart(&path)).await?;
    // Pending until its object is created, even if a signal drops this future.
    let mut pending = pending.lock().await;
    let upload = pending.insert(upload);
    if !send_parts(&mut **upload, first, &mut parts, &requests).await? {
        return Ok(SendOutcome::Unfinished);
    }
    let outcome = requests.wait(target.complete(&mut **upload)).await?;
    if matches!(outcome, SendOutcome::Created) {
        *pending = None;
    }
    Ok(outcome)
}

/// Sends the parts of a multipart upload, several at a time. Returns false if the writing thread has failed.
async fn send_parts(
    upload: &mut dyn MultipartUpload,
    first: Vec<u8>,
    parts: &mut mpsc::Receiver<Option<Vec<u8>>>,
    requests: &TimedRequests,
) -> Result<bool> {
    let mut in_flight = FuturesUnordered::new();
    let mut next = Some(Some(first));
    while let Some(Some(part)) = next {
        if !part.is_empty() {
            in_flight.push(upload.put_part(part.into()));
        }
        if in_flight.len() >= MAX_PARTS_IN_FLIGHT {
            requests.wait(in_flight.select_next_some()).await?;
        }
        next = parts.recv().await;
    }
    while !in_flight.is_empty() {
        requests.wait(in_flight.select_next_some()).await?;
    }
    // A closed channel has no end.
    Ok(next.is_some())
}

/// Limits the time of requests, and converts their errors.
struct TimedRequests {
    timeout: Duration,
    is_bucket: bool,
}

impl TimedRequests {
    async fn wait<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        let Ok(response) = timeout(self.timeout, request).await else {
            let message = format!("writing the object: the store did not answer within {:?}", self.timeout);
            return Err(Error::new(ErrorKind::Io, message));
        };
        response.map_err(|e| request_error("writing the object", &e, self.is_bucket))
    }
}

/// Makes the store remove the parts of an upload that was not completed.
async fn abort(pending: PendingUpload) {
    if let Some(mut upload) = pending.lock().await.take() {
        // If this fails, stores remove the parts by their own rules.
        let _ = upload.abort().await;
    }
}

/// The object that is being created.
struct UploadTarget {
    store: Arc<dyn ObjectStore>,
    location: Location,
}

impl UploadTarget {
    /// Returns the path that the bytes are sent to. In a directory, it is a hidden file, which readers ignore.
    fn path(&self) -> Path {
        if self.location.is_file() {
            self.location.hidden_sibling(&format!(".{}.part", std::process::id()))
        } else {
            self.location.path.clone()
        }
    }

    /// Creates the object by a single request.
    async fn put(&self, bytes: Vec<u8>) -> object_store::Result<SendOutcome> {
        let payload = PutPayload::from(bytes);
        if self.location.is_file() {
            self.store.put(&self.path(), payload).await?;
            return self.link();
        }
        create_outcome(self.store.put_opts(&self.location.path, payload, PutMode::Create.into()).await)
    }

    /// Creates the object from the parts that were sent.
    async fn complete(&self, upload: &mut dyn MultipartUpload) -> object_store::Result<SendOutcome> {
        if self.location.is_file() {
            upload.complete().await?;
            return self.link();
        }
        // Checked before, as a store that ignores the condition of the request would replace the object.
        match self.store.head(&self.location.path).await {
            Ok(_) => return Ok(SendOutcome::Exists),
            Err(object_store::Error::NotFound { .. }) => (),
            Err(e) => return Err(e),
        }
        create_outcome(upload.complete().await)
    }

    /// Gives the hidden file its name, unless another file has it, and syncs the name to the disk.
    fn link(&self) -> object_store::Result<SendOutcome> {
        let files = LocalFileSystem::default();
        let hidden = files.path_to_filesystem(&self.path())?;
        let named = files.path_to_filesystem(&self.location.path)?;
        let file_system = FileSystem::default();
        let linked = file_system
            .rename_noreplace(&hidden, &named)
            .and_then(|()| file_system.sync_dir(named.parent().unwrap_or(std::path::Path::new(""))));
        // Fails if the file was renamed.
        let _ = std::fs::remove_file(&hidden);
        match linked {
            Ok(()) => Ok(SendOutcome::Created),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(SendOutcome::Exists),
            Err(e) => Err(object_store::Error::Generic { store: "file", source: Box::new(e) }),
        }
    }
}

/// Returns the outcome of a request that creates an object unless there is one.
fn create_outcome<T>(response: object_store::Result<T>) -> object_store::Result<SendOutcome> {
    use object_store::Error as Store;
    match response {
        Ok(_) => Ok(SendOutcome::Created),
        Err(Store::AlreadyExists { .. } | Store::Precondition { .. } | Store::NotModified { .. }) => {
            Ok(SendOutcome::Exists)
        }
        Err(e) => Err(e),
    }
}
