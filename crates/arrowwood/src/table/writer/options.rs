//! Options for opening a table for writing.

use std::time::Duration;

use crate::map::FileSystem;
use crate::table::format::ZONE_ROWS;

/// When commits are brought to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// When [`Writer::sync`](crate::Writer::sync) or [`Writer::close`](crate::Writer::close) is called.
    Never,
    /// With every commit.
    Commit,
    /// Periodically, on a background thread; an interval below a millisecond is one of a millisecond.
    Every(Duration),
}

/// The treatment of late rows: rows less than earlier ones in the column by which the table is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatePolicy {
    /// Refused, so that the rows are in order.
    Refuse,
    /// Kept in order of arrival. The rows are unordered, and found by the column's index.
    Accept,
}

/// Options for opening a table for writing.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// When commits are brought to the disk; every second by default.
    pub sync: SyncPolicy,
    /// The maximum number of rows in a segment; by default as in the existing table, or 4,194,304.
    ///
    /// 0 is taken as 1, and more than 2^40 as 2^40.
    pub segment_rows: Option<u64>,
    /// Text columns to be stored as `dictionary<int32, utf8>`.
    pub dictionary: Vec<String>,
    /// A column whose values never decrease, which [`Dataset::between`](crate::Dataset::between) can search.
    pub sorted_by: Option<String>,
    /// The treatment of late rows; by default as in the existing table, or refused in a new one.
    pub late: Option<LatePolicy>,
    /// Indexed columns: for conditions on these, [`Dataset::filter`](crate::Dataset::filter) reads only blocks of rows
    /// that may match.
    ///
    /// By default as in the existing table; a different choice applies from the next segment on.
    pub index: Option<Vec<String>>,
    /// The maximum number of rows in a block that the index describes as a whole, for tests.
    #[cfg(feature = "internal")]
    pub zone_rows: Option<u32>,
    /// True to write on file systems where mappings on several machines are inconsistent, such as NFS.
    pub force: bool,
    /// The disk, which a test can observe.
    #[cfg(feature = "internal")]
    pub medium: FileSystem,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        let sync = SyncPolicy::Every(Duration::from_secs(1));
        WriterOptions {
            sync,
            segment_rows: None,
            dictionary: Vec::new(),
            sorted_by: None,
            late: None,
            index: None,
            #[cfg(feature = "internal")]
            zone_rows: None,
            force: false,
            #[cfg(feature = "internal")]
            medium: FileSystem::default(),
        }
    }
}

impl WriterOptions {
    /// Returns options for the same disk that ask for nothing else.
    pub(super) fn for_same_disk(&self) -> WriterOptions {
        WriterOptions {
            force: self.force,
            #[cfg(feature = "internal")]
            medium: self.medium.clone(),
            ..WriterOptions::default()
        }
    }

    /// Returns the disk.
    #[cfg(feature = "internal")]
    pub(crate) fn medium(&self) -> FileSystem {
        self.medium.clone()
    }

    /// Returns the disk.
    #[cfg(not(feature = "internal"))]
    pub(crate) fn medium(&self) -> FileSystem {
        FileSystem::default()
    }

    /// Returns the maximum number of rows in a block that the index describes as a whole.
    #[cfg(feature = "internal")]
    pub(super) fn zone_rows(&self) -> u32 {
        self.zone_rows.unwrap_or(ZONE_ROWS).max(1)
    }

    /// Returns the maximum number of rows in a block that the index describes as a whole.
    #[cfg(not(feature = "internal"))]
    pub(super) fn zone_rows(&self) -> u32 {
        ZONE_ROWS
    }
}
