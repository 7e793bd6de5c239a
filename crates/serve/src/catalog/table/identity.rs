//! Identifies tables and files, and detects that they were replaced or written.

use std::path::Path;
use std::time::SystemTime;

use arrowwood::mapping::os::{self, FileInfo};
use arrowwood::{Dataset, Result};
use sha2::{Digest, Sha256};

use crate::hex::hex;

/// The kind of a served entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory of segments, which may grow.
    Table,
    /// An Arrow file.
    File,
    /// Several Arrow files, concatenated: a pattern, or a directory.
    Files,
}

/// The number of bytes of a hash that an identifier shows, as hexadecimal digits.
const SHOWN_HASH_BYTES: usize = 8;

/// The identity of a directory or file. Another one of the same name may replace it, for example when rows are sorted,
/// and may have the same inode number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    /// The time of creation, on file systems that record it.
    created: Option<SystemTime>,
}

impl FileIdentity {
    pub fn from_metadata(data: &FileInfo) -> FileIdentity {
        let (device, inode) = os::file_identity(data);
        FileIdentity { device, inode, created: data.created() }
    }

    /// Identifies the row numbering for clients: `compact` with `sort` changes it.
    pub fn numbering(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.inode.to_le_bytes());
        match self.created.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()) {
            Some(time) => hash.update(time.as_nanos().to_le_bytes()),
            // The device number may change when the machine restarts; replicas compare their rows again then.
            None => hash.update(self.device.to_le_bytes()),
        }
        short_hex(hash)
    }
}

/// Returns the fingerprint of a file, which changes when it is replaced or written.
pub(super) fn fingerprint_file(path: &Path) -> String {
    let mut hash = Sha256::new();
    hash_metadata(path, &mut hash);
    short_hex(hash)
}

/// Returns the fingerprint of a dataset's files.
pub(super) fn fingerprint_files(rows: &Dataset) -> Result<String> {
    let mut hash = Sha256::new();
    let slices = if rows.is_empty()? { Vec::new() } else { rows.file_slices()? };
    for slice in &slices {
        hash_metadata(&slice.path, &mut hash);
    }
    Ok(short_hex(hash))
}

/// Adds what changes when a file is replaced or written: its path, identity, length and time. A missing file has only a
/// path.
fn hash_metadata(path: &Path, hash: &mut Sha256) {
    hash.update(path.as_os_str().as_encoded_bytes());
    if let Ok(data) = FileInfo::from_path(path) {
        let (device, inode) = os::file_identity(&data);
        for number in [device, inode, data.len()] {
            hash.update(number.to_le_bytes());
        }
        for number in <[i64; 2]>::from(os::modified_time(&data)) {
            hash.update(number.to_le_bytes());
        }
    }
}

/// Returns the beginning of a hash as hexadecimal digits.
pub(super) fn short_hex(hash: Sha256) -> String {
    hex(&hash.finalize()[..SHOWN_HASH_BYTES])
}
