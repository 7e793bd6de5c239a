//! How a table is opened for writing.

use std::time::Duration;

use crate::map::Medium;

/// When commits are brought to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// When [`Writer::sync`](crate::Writer::sync) or [`Writer::close`](crate::Writer::close) is called.
    Never,
    /// With every commit.
    Commit,
    /// Periodically, on a background thread.
    Every(Duration),
}

/// How a table is opened for writing.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// When commits are brought to the disk; every second by default.
    pub sync: Sync,
    /// The most rows of a segment; 4,194,304 by default, or what the table was made with.
    pub segment_rows: Option<u64>,
    /// Text columns to be stored as `dictionary<int32, utf8>`.
    pub dictionary: Vec<String>,
    /// A column whose values never decrease, which [`Dataset::between`](crate::Dataset::between) can search.
    pub sorted_by: Option<String>,
    /// Whether to write on file systems on which mappings of several machines don't agree, such as NFS.
    pub force: bool,
    /// The disk, which a test may watch.
    #[doc(hidden)]
    pub medium: Medium,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        let sync = Sync::Every(Duration::from_secs(1));
        let medium = Medium::default();
        WriterOptions { sync, segment_rows: None, dictionary: Vec::new(), sorted_by: None, force: false, medium }
    }
}
