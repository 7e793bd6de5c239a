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

/// What becomes of rows that are less than those before in the column that the table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// They are refused, so that the rows are in order.
    Refuse,
    /// They are kept where they arrive. The rows are in no order, and found by the column's index.
    Accept,
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
    /// What becomes of late rows: as the table was made by default, and refused where it is new.
    pub late: Option<Late>,
    /// Columns by whose values rows are found: [`Dataset::filter`](crate::Dataset::filter) reads only the blocks of rows
    /// that may have some. What the table was made with by default; another choice holds from the next segment on.
    pub index: Option<Vec<String>>,
    /// The rows of a block, for tests.
    #[doc(hidden)]
    pub zone_rows: Option<u32>,
    /// Whether to write on file systems on which mappings of several machines don't agree, such as NFS.
    pub force: bool,
    /// The disk, which a test may watch.
    #[doc(hidden)]
    pub medium: Medium,
}

impl Default for WriterOptions {
    fn default() -> WriterOptions {
        let sync = Sync::Every(Duration::from_secs(1));
        WriterOptions {
            sync,
            segment_rows: None,
            dictionary: Vec::new(),
            sorted_by: None,
            late: None,
            index: None,
            zone_rows: None,
            force: false,
            medium: Medium::default(),
        }
    }
}
