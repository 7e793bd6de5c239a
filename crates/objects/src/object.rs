//! [`Object`]: reads one object of a store by ranges.
//!
//! Stores are not trusted: a response must have the requested size, belong to the version that was opened, and arrive
//! in time.

use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrowwood::mapping::{MutexExt, fork_count, os};
use arrowwood::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};
use tokio::time::timeout;

use crate::error::{READING, changed_error, request_error};
use crate::location::{Location, Options};

/// The minimum speed of long transfers, in bytes per second.
pub(crate) const MIN_BYTES_PER_SECOND: u64 = 32 << 10;

/// A connected store, and the process that its connections belong to.
type ProcessStore = (u64, Arc<dyn ObjectStore>);

/// An object of a store.
pub(crate) struct Object {
    pub location: Location,
    pub options: Options,
    store: Mutex<Option<ProcessStore>>,
}

/// The version of an object, by which it is told from another one that replaces it: its size, its time, and the tag of
/// its content, if the store has tags.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    /// Bytes.
    pub size: u64,
    e_tag: Option<String>,
    modified_millis: i64,
}

impl Version {
    fn from_meta(meta: &ObjectMeta) -> Version {
        Version { size: meta.size, e_tag: meta.e_tag.clone(), modified_millis: meta.last_modified.timestamp_millis() }
    }

    /// Returns the version as text, for comparisons.
    pub(crate) fn to_text(&self) -> String {
        let tag = self.e_tag.as_deref().unwrap_or("");
        format!("{}-{}-{tag}", self.size, self.modified_millis)
    }
}

impl Object {
    pub(crate) fn new(location: Location, options: Options) -> Object {
        Object { location, options, store: Mutex::new(None) }
    }

    /// Returns the connected store of this process. Connections can't be used in a fork.
    fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        let mut connected = self.store.lock_ignoring_poison();
        if let Some((process, store)) = connected.as_ref()
            && *process == fork_count()
        {
            return Ok(store.clone());
        }
        let store = self.location.store(self.options.timeout)?;
        *connected = Some((fork_count(), store.clone()));
        Ok(store)
    }

    fn timeout_error(&self) -> Error {
        let timeout = self.options.timeout;
        Error::new(ErrorKind::Io, format!("reading the object: the store did not answer within {timeout:?}"))
    }

    fn read_error(&self, e: &object_store::Error) -> Error {
        request_error(READING, e, self.location.is_bucket())
    }

    /// Requests a range, of the `expected` version if one is given.
    async fn get(&self, range: GetRange, expected: Option<&Version>) -> Result<GetResult> {
        let store = self.store()?;
        let mut options = GetOptions { range: Some(range), ..GetOptions::default() };
        // A condition on a weak tag is never true.
        options.if_match = expected.and_then(|version| version.e_tag.clone()).filter(|tag| !tag.starts_with("W/"));
        let response = timeout(self.options.timeout, store.get_opts(&self.location.path, options)).await;
        let response = response.map_err(|_| self.timeout_error())?.map_err(|e| self.read_error(&e))?;
        match expected {
            Some(version) if *version != Version::from_meta(&response.meta) => Err(changed_error()),
            _ => Ok(response),
        }
    }

    /// Calls `take` with each chunk of the response to a request for `range`, and the offset of the chunk.
    async fn read_chunks(
        &self,
        response: GetResult,
        range: Range<u64>,
        take: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<()> {
        let max_duration = self.options.timeout + Duration::from_secs((range.end - range.start) / MIN_BYTES_PER_SECOND);
        let read = self.read_chunks_untimed(response, range, take);
        timeout(max_duration, read).await.map_err(|_| self.timeout_error())?
    }

    /// Acts as [`read_chunks`](Object::read_chunks), but limits only the time of each chunk.
    async fn read_chunks_untimed(
        &self,
        response: GetResult,
        range: Range<u64>,
        mut take: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<()> {
        let len = range.end - range.start;
        let mut stream = response.into_stream();
        let mut offset = range.start;
        loop {
            let next = timeout(self.options.timeout, stream.next()).await;
            let Some(chunk) = next.map_err(|_| self.timeout_error())? else { break };
            let chunk = chunk.map_err(|e| self.read_error(&e))?;
            let end = offset + chunk.len() as u64;
            if end > range.end {
                return Err(invalid_response(&format!("the store sent more than the {len} bytes asked for")));
            }
            take(offset, chunk)?;
            offset = end;
        }
        if offset < range.end {
            let received = offset - range.start;
            return Err(invalid_response(&format!("the store sent {received} bytes, and {len} were asked for")));
        }
        Ok(())
    }

    /// Reads up to `max_bytes` at the end. Returns them, and the version of the object.
    pub(crate) async fn read_tail(&self, max_bytes: u64) -> Result<(Version, Vec<u8>)> {
        let response = self.get(GetRange::Suffix(max_bytes), None).await?;
        let version = Version::from_meta(&response.meta);
        let range = version.size.saturating_sub(max_bytes)..version.size;
        let mut bytes = Vec::new();
        self.read_chunks(response, range, |_, chunk| {
            bytes.extend_from_slice(&chunk);
            Ok(())
        })
        .await?;
        Ok((version, bytes))
    }

    /// Reads bytes `range` of the object if it has this `version`. Writes those that are in one of `parts`, which are
    /// in order, to `file` at the same offsets.
    pub(crate) async fn read_into(
        &self,
        file: &File,
        range: Range<usize>,
        parts: &[Range<usize>],
        version: &Version,
    ) -> Result<()> {
        let range = range.start as u64..range.end as u64;
        let response = self.get(GetRange::Bounded(range.clone()), Some(version)).await?;
        self.read_chunks(response, range, |offset, chunk| write_parts(file, offset as usize, &chunk, parts)).await
    }
}

fn invalid_response(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("reading the object: {problem}"))
}

/// Writes the bytes of a chunk that are in one of `parts`.
fn write_parts(file: &File, start: usize, chunk: &[u8], parts: &[Range<usize>]) -> Result<()> {
    debug_assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].start), "parts are in order: {parts:?}");
    let end = start + chunk.len();
    let first = parts.partition_point(|part| part.end <= start);
    for part in parts[first..].iter().take_while(|part| part.start < end) {
        let part = part.start.max(start)..part.end.min(end);
        let written = os::write_all_at(file, &chunk[part.start - start..part.end - start], part.start as u64);
        written.map_err(|e| Error::io("writing what was fetched to a file of the cache", &e))?;
    }
    Ok(())
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object").field("name", &self.location.name).finish_non_exhaustive()
    }
}
