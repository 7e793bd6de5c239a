//! [`upload`]: rows as an object of a store, which is there whole or not at all: it gets its name when its last byte has arrived,
//! and takes it from no other.

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

/// Bytes of a batch, about: with the footer of an object of 10 GB the batch of a row is fetched by less than 1 MiB.
const BATCH: u64 = 480 << 10;
/// Bytes of a part of an upload.
const PART: usize = 8 << 20;
/// Parts that are sent at the same time.
const PARTS: usize = 4;

/// How long to wait for the store's answer when a signal ends an upload.
const INTERRUPTED: Duration = Duration::from_secs(5);

/// An upload in parts that has neither made its object nor been given up.
type PendingUpload = Arc<Mutex<Option<Box<dyn MultipartUpload>>>>;

/// What became of an upload.
pub(crate) enum UploadOutcome {
    /// The object was made; it has so many bytes.
    Made(u64),
    /// There is an object of this name. It is as it was.
    Taken,
}

/// Makes the object `name` of `rows`, those that it says they are, unless there is one.
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
        // On a thread of its own, which waits for those that send: the caller's may be one of a runtime, and must not.
        let writing = scope.spawn(|| {
            let mut parts = PartWriter { sender: Some(sender), part: Vec::new(), bytes: 0 };
            write_pushed(rows, &mut parts, batch, from)?;
            // Without it the upload is given up.
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
        // That nobody receives has a cause.
        match sent? {
            SendOutcome::Taken => Ok(UploadOutcome::Taken),
            SendOutcome::Whole => written.map(UploadOutcome::Made),
            SendOutcome::GivenUp => {
                written.and(Err(Error::new(ErrorKind::Internal, "an upload was given up without a cause")))
            }
        }
    })
}

/// What is written, in parts; `None` after the last.
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

/// What became of the parts.
enum SendOutcome {
    Whole,
    /// There is an object of the name.
    Taken,
    /// Whoever writes has failed.
    GivenUp,
}

/// Sends parts as they come, and names the object when the last was received. What has `begun` is to be given up otherwise.
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
    // It stays there unless its object is made, also if a signal ends this.
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

/// Has the store remove the parts of an upload that has failed, was given up, or was ended by a signal.
async fn give_up(begun: PendingUpload) {
    if let Some(mut upload) = begun.lock().await.take() {
        // Stores remove what is left by their own rules, if this fails.
        let _ = upload.abort().await;
    }
}

/// The place of an object that is made.
struct UploadTarget {
    store: Arc<dyn ObjectStore>,
    name: Location,
}

impl UploadTarget {
    /// Where its bytes go first: in a directory, to a file that no reader takes for one of the table's.
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

    /// Gives the file its name, if no other has it.
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
        // Gone if it was renamed.
        let _ = std::fs::remove_file(&from);
        match linked {
            Ok(()) => Ok(SendOutcome::Whole),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(SendOutcome::Taken),
            Err(e) => Err(object_store::Error::Generic { store: "file", source: Box::new(e) }),
        }
    }
}

/// Returns true if an object was made by a request that makes none where there is one.
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
