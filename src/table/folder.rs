//! The folder of a table: its segments by name, and which of them count.

use std::path::{Path, PathBuf};

use super::format::Record;
use super::segment::{self, Segment};
use crate::error::{Error, ErrorKind, Result};

/// The name of the segment whose first row is `first_row`.
pub(super) fn name(first_row: u64) -> String {
    format!("{first_row:020}.arrow")
}

/// The first row of a segment called `name`; `None` where that is not the name of one.
fn first_row(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".arrow")?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// First rows of the segments in `folder`, in order. `None` where it is no folder of a table: it holds other Arrow
/// files, or no segment.
pub(super) fn list(folder: &Path) -> Result<Option<Vec<u64>>> {
    let failed = |e: std::io::Error| Error::io("listing the folder", &e).at(folder);
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(name) = name.to_str().filter(|name| name.ends_with(".arrow")) else { continue };
        match first_row(name) {
            Some(row) => rows.push(row),
            None => return Ok(None),
        }
    }
    rows.sort_unstable();
    Ok(Some(rows).filter(|rows| !rows.is_empty()))
}

/// The end of a table: its segments, and the last of them opened.
#[derive(Debug)]
pub(super) struct Chain {
    /// The first rows of the segments that count.
    pub starts: Vec<u64>,
    /// Segments that were begun by a commit that never came about.
    pub orphans: Vec<u64>,
    /// The last segment and its newest commit; `None` where it is an Arrow file that doesn't grow.
    pub last: Option<(Segment, Record)>,
}

impl Chain {
    /// Finds the last segment that counts. One that is marked provisional counts only if the one before it was sealed.
    pub fn open(folder: &Path) -> Result<Option<Chain>> {
        let Some(starts) = list(folder)? else { return Ok(None) };
        let path = |row: u64| folder.join(name(row));
        let mut kept = starts.len();
        let (mut last, mut provisional) = (None, 0);
        while kept > 0 {
            let Some(segment) = segment::open(&path(starts[kept - 1]))? else { break };
            let record = segment.newest()?;
            let is_provisional = record.provisional && kept > 1;
            let ends_there = record.sealed && starts.get(kept) == Some(&(starts[kept - 1] + record.rows()));
            if provisional > 0 && !is_provisional && ends_there {
                kept += provisional;
                break;
            }
            last = Some((segment, record));
            if !is_provisional {
                break;
            }
            kept -= 1;
            provisional += 1;
        }
        if let Some(&start) = starts.get(kept.wrapping_sub(1))
            && last.as_ref().is_none_or(|(segment, _)| segment.header.first_row != start)
        {
            last = open_last(&path(start))?;
        }
        let orphans = starts[kept..].to_vec();
        Ok(Some(Chain { starts: starts[..kept].to_vec(), orphans, last }))
    }
}

fn open_last(path: &Path) -> Result<Option<(Segment, Record)>> {
    let Some(segment) = segment::open(path)? else { return Ok(None) };
    let record = segment.newest()?;
    Ok(Some((segment, record)))
}

/// The path of a segment.
pub(super) fn path(folder: &Path, first_row: u64) -> PathBuf {
    folder.join(name(first_row))
}

/// The error of a folder that holds something else than segments.
pub(super) fn foreign(folder: &Path) -> Error {
    let message = "the folder holds other files than a table's segments, and many readers take a folder as a whole; \
                   choose an empty one, or a new name";
    Error::new(ErrorKind::InvalidArgument, message).at(folder)
}
