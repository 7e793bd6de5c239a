//! Keeps the newest rows of a table or file open, with what tells whether they are current.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arrow_schema::SchemaRef;
use arrowwood::{Bytes, Dataset, Error, ErrorKind, Mapping, Mode, OpenOptions, Result, open};
use sha2::{Digest, Sha256};

use super::identity::{FileIdentity, Kind, fingerprint_file, fingerprint_files, short_hex};

/// The maximum number of attempts to open a file that changes while it is opened.
const MAX_OPEN_ATTEMPTS: usize = 5;

/// The rows of a table or file as they were last opened, with its open files, and what is needed to tell whether they
/// are still current.
///
/// A growing table is current after a refresh, which keeps its files open; only if segments were removed, it is opened
/// once more. A file is current while its fingerprint is the same.
pub(super) struct CachedRows {
    pub rows: Dataset,
    /// The mapping of a single file.
    pub mapping: Option<Mapping>,
    opened: Instant,
    /// The time of the last request for the rows.
    pub used: Instant,
    /// The time of the last change of the directory's entries before the rows were opened.
    entries_changed: Option<SystemTime>,
    /// Identifies the opened files. Empty for a growing table, which is identified by its numbering.
    pub fingerprint: String,
    /// The schema of the rows, and the id for it.
    id: Option<(SchemaRef, String)>,
}

impl CachedRows {
    /// Opens a table or several files.
    pub fn open(path: &Path, kind: Kind) -> Result<CachedRows> {
        let entries_changed = modified_time(path);
        let rows = open(path)?;
        let fingerprint = if kind == Kind::Files { fingerprint_files(&rows)? } else { String::new() };
        Ok(CachedRows::new(rows, None, entries_changed, fingerprint))
    }

    /// Opens a file, whose mapping all requests share, so that its pages are entered in the process's page tables once.
    pub fn map(path: &Path) -> Result<CachedRows> {
        for _ in 0..MAX_OPEN_ATTEMPTS {
            let entries_changed = modified_time(path);
            let fingerprint = fingerprint_file(path);
            let mapping = Mapping::open(path, Mode::Read)?;
            let rows = open_mapped(&mapping, path)?;
            // If the file has changed, the mapping and the fingerprint may belong to different files.
            if fingerprint == fingerprint_file(path) {
                return Ok(CachedRows::new(rows, Some(mapping), entries_changed, fingerprint));
            }
        }
        Err(Error::new(ErrorKind::FileChanged, "the file is being replaced or written").at(path))
    }

    fn new(
        rows: Dataset,
        mapping: Option<Mapping>,
        entries_changed: Option<SystemTime>,
        fingerprint: String,
    ) -> CachedRows {
        let now = Instant::now();
        CachedRows { rows, mapping, opened: now, used: now, entries_changed, fingerprint, id: None }
    }

    /// Returns the id of what columns and row numbers mean, which depends on the files and on `schema`.
    pub fn id(&mut self, identity: &FileIdentity, schema: &SchemaRef) -> String {
        // Comparing the addresses first is faster.
        if let Some((id_schema, id)) = &self.id
            && (Arc::ptr_eq(id_schema, schema) || id_schema == schema)
        {
            return id.clone();
        }
        let files = if self.fingerprint.is_empty() { &identity.numbering() } else { &self.fingerprint };
        let mut hash = Sha256::new();
        hash.update(files);
        hash.update(format!("{:?}", schema.fields()));
        let id = short_hex(hash);
        self.id = Some((schema.clone(), id.clone()));
        id
    }

    /// Returns the time since the rows were opened.
    pub fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Returns true if the rows were opened longer than `age` ago, and files were added or removed since.
    pub fn is_outdated(&self, path: &Path, age: Duration) -> bool {
        self.age() > age && self.entries_changed != modified_time(path)
    }
}

/// Opens the rows of a mapped file, without the decompressed data of earlier requests.
pub(super) fn open_mapped(mapping: &Mapping, path: &Path) -> Result<Dataset> {
    let bytes = Bytes::from_mapping(mapping.clone()).map_err(|e| e.at(path))?;
    OpenOptions::new().named_bytes(bytes, path)
}

fn modified_time(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
