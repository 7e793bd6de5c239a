//! Reads one object of a store by ranges.
//!
//! Stores are not trusted: an answer must have the requested size, be of the object that was opened, and come in time.

use arrowwood::mapping::MutexExt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrowwood::mapping::fork_count;
use arrowwood::{Error, ErrorKind, Result};
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore};
use tokio::time::timeout;

use crate::error::{READING, changed, failed};
use crate::location::{Location, Options};

/// The minimum speed of long answers, in bytes per second.
pub(crate) const SLOWEST: u64 = 32 << 10;

/// A store, and the process that has its connections.
type ProcessStore = Option<(u64, Arc<dyn ObjectStore>)>;

/// An object.
pub(crate) struct Object {
    pub location: Location,
    pub options: Options,
    store: Mutex<ProcessStore>,
}

/// The version of an object, which differs from the versions of later objects with the same name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    pub size: u64,
    e_tag: Option<String>,
    modified: i64,
}

impl Version {
    fn from_meta(meta: &ObjectMeta) -> Version {
        Version { size: meta.size, e_tag: meta.e_tag.clone(), modified: meta.last_modified.timestamp_millis() }
    }

    /// Returns the version as text, to be compared.
    pub(crate) fn text(&self) -> String {
        format!("{}-{}-{}", self.size, self.modified, self.e_tag.as_deref().unwrap_or_default())
    }
}

impl Object {
    pub(crate) fn new(location: Location, options: Options) -> Object {
        Object { location, options, store: Mutex::new(None) }
    }

    fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        let mut known = self.store.lock_ignoring_poison();
        if let Some((process, store)) = known.as_ref()
            && *process == fork_count()
        {
            return Ok(store.clone());
        }
        let store = self.location.store(self.options.timeout)?;
        *known = Some((fork_count(), store.clone()));
        Ok(store)
    }

    fn late(&self) -> Error {
        let waited = self.options.timeout;
        Error::new(ErrorKind::Io, format!("reading the object: the store did not answer within {waited:?}"))
    }

    async fn get(&self, range: GetRange, expected: Option<&Version>) -> Result<GetResult> {
        let store = self.store()?;
        let mut options = GetOptions { range: Some(range), ..GetOptions::default() };
        // Weak tags match nothing.
        options.if_match = expected.and_then(|version| version.e_tag.clone()).filter(|tag| !tag.starts_with("W/"));
        let answer = timeout(self.options.timeout, store.get_opts(&self.location.path, options)).await;
        let answer = answer.map_err(|_| self.late())?.map_err(|e| failed(READING, &e, self.location.is_listed()))?;
        match expected {
            Some(version) if *version != Version::from_meta(&answer.meta) => Err(changed()),
            _ => Ok(answer),
        }
    }

    /// Calls `take` with each piece of an answer to a request for `range`, and its offset.
    async fn pieces(
        &self,
        answer: GetResult,
        range: Range<u64>,
        mut take: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<()> {
        let wrong = |what: String| Error::new(ErrorKind::InvalidData, format!("reading the object: {what}"));
        let mut stream = answer.into_stream();
        let mut at = range.start;
        let whole = self.options.timeout + Duration::from_secs((range.end - range.start) / SLOWEST);
        let read = async {
            while let Some(piece) = timeout(self.options.timeout, stream.next()).await.map_err(|_| self.late())? {
                let piece = piece.map_err(|e| failed(READING, &e, self.location.is_listed()))?;
                let next = at + piece.len() as u64;
                if next > range.end {
                    return Err(wrong(format!(
                        "the store sent more than the {} bytes asked for",
                        range.end - range.start
                    )));
                }
                take(at, piece)?;
                at = next;
            }
            Ok(())
        };
        timeout(whole, read).await.map_err(|_| self.late())??;
        if at < range.end {
            let asked = range.end - range.start;
            return Err(wrong(format!("the store sent {} bytes, and {asked} were asked for", at - range.start)));
        }
        Ok(())
    }

    /// Reads up to `most` bytes at the end. Returns them, and the version of the object.
    pub(crate) async fn tail(&self, most: u64) -> Result<(Version, Vec<u8>)> {
        let answer = self.get(GetRange::Suffix(most), None).await?;
        let version = Version::from_meta(&answer.meta);
        let range = version.size.saturating_sub(most)..version.size;
        let mut bytes = Vec::new();
        let take = |_, piece: Bytes| {
            bytes.extend_from_slice(&piece);
            Ok(())
        };
        self.pieces(answer, range, take).await?;
        Ok((version, bytes))
    }

    /// Reads bytes `range` of the object if it has this `version`. Writes the parts `own` of them, which are in order,
    /// to `file` at the same offsets.
    pub(crate) async fn read_into(
        &self,
        file: &File,
        range: Range<usize>,
        own: &[Range<usize>],
        version: &Version,
    ) -> Result<()> {
        let range = range.start as u64..range.end as u64;
        let answer = self.get(GetRange::Bounded(range.clone()), Some(version)).await?;
        let take = |at: u64, piece: Bytes| {
            let (start, end) = (at as usize, at as usize + piece.len());
            let first = own.partition_point(|part| part.end <= start);
            for part in own[first..].iter().take_while(|part| part.start < end) {
                let part = part.start.max(start)..part.end.min(end);
                let written = file.write_all_at(&piece[part.start - start..part.end - start], part.start as u64);
                written.map_err(|e| Error::io("writing what was fetched to a file of the cache", &e))?;
            }
            Ok(())
        };
        self.pieces(answer, range, take).await
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object").field("name", &self.location.name).finish_non_exhaustive()
    }
}
