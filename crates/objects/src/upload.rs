//! Uploads rows as an object of a store, which exists whole or not at all.
//!
//! The object gets its name when its last byte has arrived, and never replaces another object.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use arrowwood::{Dataset, Error, ErrorKind, PushedRows, Result, blocking, write_pushed};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use crate::error::failed;
use crate::location::{Location, Options};
use crate::object::SLOWEST;
use crate::runtime::RequestRuntime;

/// The approximate number of bytes of a batch. Small, so that a row of an object of 10 GB is fetched by less than 1
/// MiB, including the footer.
const BATCH: u64 = 480 << 10;
/// The number of bytes of a part of an upload.
const PART: usize = 8 << 20;
/// The number of parts that are sent at the same time.
const PARTS: usize = 4;

/// How long to wait for the store's answer when a signal ends an upload.
const INTERRUPTED: Duration = Duration::from_secs(5);

/// An upload in parts that was neither completed nor aborted.
type PendingUpload = Arc<Mutex<Option<Box<dyn MultipartUpload>>>>;

/// The outcome of an upload.
pub(crate) enum UploadOutcome {
    /// The object was created, with this number of bytes.
    Made(u64),
    /// There is an object of this name, which was not changed.
    Taken,
}

/// Creates the object `name` with `rows`, and records their origin `from` in it, unless there is such an object.
pub(crate) fn upload(
    rows: &Dataset,
    from: &PushedRows,
    name: &Location,
    batch_rows: Option<u64>,
    options: &Options,
) -> Result<UploadOutcome> {
    let count = rows.len()?.max(1);
    let bytes = rows.nbytes()?.max(1);
    let batch = batch_rows.unwrap_or_else(|| (count.saturating_mul(BATCH) / bytes).max(1));
    let threads = RequestRuntime::for_process()?;
    let store = name.store(options.timeout)?;
    let target = UploadTarget { store, name: name.clone() };
    let (sender, receiver) = mpsc::channel(1);
    let begun = PendingUpload::default();
    let receive = receive(target, options.timeout, receiver, begun.clone());
    std::thread::scope(|scope| {
        // Writing has a thread of its own, which waits for the sending threads. The caller's thread may belong to a
        // runtime, and must not wait.
        let writing = scope.spawn(|| {
            let mut parts = PartWriter { sender: Some(sender), part: Vec::new(), bytes: 0 };
            write_pushed(rows, &mut parts, batch, from)?;
            // Without this call the upload is aborted.
            parts.end().map_err(|e| Error::io("writing to the store", &e))?;
            Ok(parts.bytes)
        });
        let sent = threads.wait(receive);
        if !matches!(sent, Ok(SendOutcome::Whole)) {
            let is_interrupted = blocking::check_interrupt().is_err();
            threads.finish(give_up(begun), if is_interrupted { INTERRUPTED } else { options.timeout });
        }
        let broken = |_| Err(Error::new(ErrorKind::Internal, "a thread that writes has ended"));
        let written = writing.join().unwrap_or_else(broken);
        // If the parts were not received, the cause is the error of sending them.
        match sent? {
            SendOutcome::Taken => Ok(UploadOutcome::Taken),
            SendOutcome::Whole => written.map(UploadOutcome::Made),
            SendOutcome::GivenUp => {
                written.and(Err(Error::new(ErrorKind::Internal, "an upload was given up without a cause")))
            }
        }
    })
}

/// Sends written bytes in parts, and `None` after the last.
struct PartWriter {
    sender: Option<mpsc::Sender<Option<Vec<u8>>>>,
    part: Vec<u8>,
    bytes: u64,
}

impl PartWriter {
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

impl Write for PartWriter {
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

/// The outcome of sending parts.
enum SendOutcome {
    Whole,
    /// There is an object of the name.
    Taken,
    /// The writing thread has failed.
    GivenUp,
}

/// Sends parts as they come, and names the object when the last was received. Otherwise the caller must abort the
/// upload that has `begun`.
async fn receive(
    target: UploadTarget,
    wait: Duration,
    mut parts: mpsc::Receiver<Option<Vec<u8>>>,
    begun: PendingUpload,
) -> Result<SendOutcome> {
    let wait = wait + Duration::from_secs(PARTS as u64 * PART as u64 / SLOWEST);
    let late = |_| Error::new(ErrorKind::Io, format!("writing the object: the store did not answer within {wait:?}"));
    let is_bucket = target.name.is_listed();
    let failed = |e| failed("writing the object", &e, is_bucket);
    let Some(Some(first)) = parts.recv().await else { return Ok(SendOutcome::GivenUp) };
    if first.len() < PART {
        if parts.recv().await != Some(None) {
            return Ok(SendOutcome::GivenUp);
        }
        return timeout(wait, target.put(first)).await.map_err(late)?.map_err(failed);
    }
    let path = target.path();
    let upload = timeout(wait, target.store.put_multipart(&path)).await.map_err(late)?.map_err(failed)?;
    // The upload stays pending unless its object is created, even if a signal ends this future.
    let mut begun = begun.lock().await;
    let upload = begun.insert(upload);
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
        if next.is_none() {
            return Ok(SendOutcome::GivenUp);
        }
        timeout(wait, target.complete(&mut **upload)).await.map_err(late)?.map_err(failed)
    };
    let done = done.await?;
    if matches!(done, SendOutcome::Whole) {
        *begun = None;
    }
    Ok(done)
}

/// Makes the store remove the parts of an upload that has failed, was aborted, or was ended by a signal.
async fn give_up(begun: PendingUpload) {
    if let Some(mut upload) = begun.lock().await.take() {
        // If this fails, stores remove the parts by their own rules.
        let _ = upload.abort().await;
    }
}

/// The location of an object that is being created.
struct UploadTarget {
    store: Arc<dyn ObjectStore>,
    name: Location,
}

impl UploadTarget {
    /// Returns the path that the bytes are sent to. In a directory, it is a file that readers don't take for the
    /// table's.
    fn path(&self) -> Path {
        if self.name.is_file() {
            self.name.beside(&format!(".{}.part", std::process::id()))
        } else {
            self.name.path.clone()
        }
    }

    async fn put(&self, bytes: Vec<u8>) -> object_store::Result<SendOutcome> {
        let payload = PutPayload::from(bytes);
        if self.name.is_file() {
            self.store.put(&self.path(), payload).await?;
            return self.link();
        }
        sent(self.store.put_opts(&self.name.path, payload, PutMode::Create.into()).await)
    }

    async fn complete(&self, upload: &mut dyn MultipartUpload) -> object_store::Result<SendOutcome> {
        if self.name.is_file() {
            upload.complete().await?;
            return self.link();
        }
        // A store that ignores the condition of `CreateOnly` would replace it.
        match self.store.head(&self.name.path).await {
            Ok(_) => return Ok(SendOutcome::Taken),
            Err(object_store::Error::NotFound { .. }) => (),
            Err(e) => return Err(e),
        }
        sent(upload.complete().await)
    }

    /// Gives the file its name, if no other file has it.
    fn link(&self) -> object_store::Result<SendOutcome> {
        let files = LocalFileSystem::new();
        let from = files.path_to_filesystem(&self.path())?;
        let to = files.path_to_filesystem(&self.name.path)?;
        let linked = std::fs::hard_link(&from, &to).or_else(|e| match e.kind() {
            // Some file systems have no links.
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported if !to.try_exists()? => {
                std::fs::rename(&from, &to)
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => Err(io::ErrorKind::AlreadyExists.into()),
            _ => Err(e),
        });
        // The file does not exist any more if it was renamed.
        let _ = std::fs::remove_file(&from);
        match linked {
            Ok(()) => Ok(SendOutcome::Whole),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(SendOutcome::Taken),
            Err(e) => Err(object_store::Error::Generic { store: "file", source: Box::new(e) }),
        }
    }
}

/// Returns the outcome of a request that creates an object unless there is one.
fn sent<T>(answer: object_store::Result<T>) -> object_store::Result<SendOutcome> {
    use object_store::Error as Store;
    match answer {
        Ok(_) => Ok(SendOutcome::Whole),
        Err(Store::AlreadyExists { .. } | Store::Precondition { .. } | Store::NotModified { .. }) => {
            Ok(SendOutcome::Taken)
        }
        Err(e) => Err(e),
    }
}
