//! Reports on a table: its segments, their bytes, its commits, and its writer.

use std::ops::Range;
use std::path::Path;

use arrow_schema::Schema;

use super::chain;
use super::chain::{SegmentChain, repeated};
use super::recovery::open_segment;
use super::sealed_source::dense_settings;
use super::segment::Segment;
use crate::dataset::Batches;
use crate::directory::is_directory;
use crate::error::{Error, Result};
use crate::ipc::ReadOptions;
use crate::map::{DirectoryLock, FileSystem, guard, os};
use crate::table::format::TableSettings;

/// A table at one moment: see [`table_stat`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStat {
    /// The number of the table's files.
    pub segments: u64,
    /// The number of dense files: ordinary Arrow files, as left by compaction.
    pub dense: u64,
    /// True if the last file grows.
    pub live: bool,
    /// The number of the table's first row.
    pub first_row: u64,
    /// The number of the row after the last committed one.
    pub end: u64,
    /// The number of the row after the last one that would survive a power cut, as far as the files show.
    pub durable_end: u64,
    /// A number that increases with each commit to the live segment; 0 if the last file doesn't grow.
    pub sequence: u64,
    /// The id of the process that is writing the table; `None` if no process is.
    pub writer: Option<u32>,
    /// The disk space of the files in bytes.
    pub disk: u64,
    /// The sum of the files' sizes in bytes, including the holes reserved for future rows.
    pub apparent: u64,
    /// The column that the table is sorted by; `None` if it has none.
    pub sorted_by: Option<String>,
    /// True if late rows are accepted: then the rows are unordered.
    pub late: bool,
    /// The indexed columns of future segments, from [`WriterOptions::index`](crate::WriterOptions::index), and the
    /// one by which rows may be late.
    pub index: Vec<String>,
    /// The maximum number of rows in a segment; `None` only in a report that was not read from a table.
    pub segment_rows: Option<u64>,
}

/// Returns information about the table in `folder`; `None` if there is no table.
///
/// # Errors
/// `InvalidData` for damaged segments, `Io`.
pub fn table_stat(folder: impl AsRef<Path>) -> Result<Option<TableStat>> {
    let folder = folder.as_ref();
    guard(|| repeated(folder, || read_stat(folder)))
}

/// Opens the segments in `folder`; `None` if that is no table.
fn open_chain(folder: &Path) -> Result<Option<SegmentChain>> {
    if is_directory(folder)? { SegmentChain::open(folder) } else { Ok(None) }
}

fn read_stat(folder: &Path) -> Result<Option<TableStat>> {
    let Some(chain) = open_chain(folder)? else { return Ok(None) };
    let [first_row, ..] = chain.starts[..] else {
        return Err(Error::internal("a table without segments").at(folder));
    };
    let segments = chain.starts.len() as u64;
    let mut stat = TableStat { first_row, segments, ..TableStat::default() };

    for &start in &chain.starts {
        stat.add_file(&chain::path(folder, start))?;
    }
    match &chain.last {
        Some((segment, record)) => {
            stat.live = !record.sealed;
            stat.sequence = record.sequence;
            stat.end = segment.header.first_row + record.rows();
            stat.durable_end = durable_end(folder, &chain, segment)?;
            stat.describe(&segment.plan.schema.schema, &segment.header.settings());
        }
        None => {
            let dataset = super::table::open(folder, Default::default())?;
            stat.end = first_row + dataset.map_or(Ok(0), |dataset| dataset.len())?;
            stat.durable_end = stat.end;
            if let Some(&last) = chain.starts.last() {
                let path = chain::path(folder, last);
                let dense = chain::open_dense(&path, ReadOptions::default())?;
                stat.describe(dense.schema(), &dense_settings(dense.schema()).map_err(|e| e.at(&path))?);
            }
        }
    }

    if stat.live && is_locked(folder)? {
        stat.writer = chain.last.map(|(segment, _)| segment.writer());
    }
    Ok(Some(stat))
}

/// Returns the rows of each sealed segment of the table in `folder`; `None` if there is no table.
///
/// # Errors
/// `InvalidData` for damaged segments, `Io`.
pub fn sealed_rows(folder: impl AsRef<Path>) -> Result<Option<Vec<Range<u64>>>> {
    let folder = folder.as_ref();
    guard(|| repeated(folder, || read_sealed_rows(folder)))
}

fn read_sealed_rows(folder: &Path) -> Result<Option<Vec<Range<u64>>>> {
    let Some(chain) = open_chain(folder)? else { return Ok(None) };
    let mut rows: Vec<_> = chain::with_next(&chain.starts).map(|(start, next)| start..next).collect();
    match (&chain.last, chain.starts.last()) {
        (Some((_, record)), Some(&start)) if record.sealed => rows.push(start..start + record.rows()),
        (None, Some(&start)) => {
            let dense = chain::open_dense(&chain::path(folder, start), ReadOptions::default())?;
            rows.push(start..start + dense.count_until(u64::MAX)?);
        }
        _ => (),
    }
    Ok(Some(rows))
}

/// Returns the row after the last durable one of a table whose last segment is `last`.
fn durable_end(folder: &Path, chain: &SegmentChain, last: &Segment) -> Result<u64> {
    let Some(&first) = chain::non_durable_segments(folder, chain.sealed())?.last() else {
        return Ok(last.header.first_row + last.durable_rows()?);
    };
    match open_segment(&chain::path(folder, first))? {
        Some(segment) => Ok(first + segment.durable_rows()?),
        // It was replaced by a dense one meanwhile.
        None => Ok(first),
    }
}

/// Returns true if all commits to the table in `folder` would survive a power cut, as far as the files show, or if
/// there is no table.
///
/// # Errors
/// `InvalidData` for damaged segments, `Io`.
#[cfg(feature = "compute")]
pub(crate) fn is_durable(folder: &Path) -> Result<bool> {
    guard(|| {
        repeated(folder, || {
            let Some(chain) = open_chain(folder)? else { return Ok(true) };
            if !chain::non_durable_segments(folder, chain.sealed())?.is_empty() {
                return Ok(false);
            }
            match &chain.last {
                Some((segment, record)) if !record.sealed => segment.is_synced(record),
                // Files that don't grow are on the disk before they have their names.
                _ => Ok(true),
            }
        })
    })
}

impl TableStat {
    fn add_file(&mut self, path: &Path) -> Result<()> {
        let metadata =
            os::FileInfo::from_path(path).map_err(|e| Error::io("asking for a segment's size", &e).at(path))?;
        self.dense += u64::from(open_segment(path)?.is_none());
        self.disk += os::allocated_bytes(&metadata);
        self.apparent += metadata.len();
        Ok(())
    }

    fn describe(&mut self, schema: &Schema, settings: &TableSettings) {
        self.segment_rows = Some(settings.segment_rows);
        self.late = settings.is_late;
        self.sorted_by = settings.sorted_by.and_then(|column| column_name(schema, column));
        self.index = settings.index.iter().filter_map(|&column| column_name(schema, column)).collect();
    }
}

fn column_name(schema: &Schema, column: u32) -> Option<String> {
    Some(schema.fields().get(column as usize)?.name().clone())
}

/// Returns true if a process holds the lock. To find out, the lock is taken for an instant. Returns false on a system
/// that can't lock directories.
pub(in crate::table) fn is_locked(folder: &Path) -> Result<bool> {
    if !os::CAN_LOCK_DIRECTORIES {
        return Ok(false);
    }
    let lock = DirectoryLock::try_acquire(&FileSystem::default(), folder)
        .map_err(|e| Error::io("asking for the directory's lock", &e).at(folder))?;
    Ok(lock.is_none())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::table::reader::chain::MEANWHILE;
    use crate::table::{CompactOptions, Writer, WriterOptions, compact, compact_with};
    use crate::{Value, parse_schema};

    /// Opens a writer and commits and syncs `rows` rows, one after the other.
    fn write_rows(table: &Path, schema: &str, segment_rows: Option<u64>, rows: i64) -> Writer {
        let schema = Arc::new(parse_schema(schema).unwrap());
        let options = WriterOptions { segment_rows, ..WriterOptions::default() };
        let mut writer = Writer::open(table, Some(schema), &options).unwrap();
        for number in 0..rows {
            writer.append_row(&[Value::Int(number)]).unwrap();
            writer.commit().unwrap();
            writer.sync().unwrap();
        }
        writer
    }

    /// The first segments were dropped after they had been listed, and the table was reported as not found.
    #[test]
    fn stat_finds_a_table_whose_first_segments_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let mut writer = write_rows(&table, "n: int32", Some(4), 18);
        let drop_segments = move || assert_eq!(writer.drop_before(10).unwrap(), 8);
        MEANWHILE.set(Some(Box::new(drop_segments)));
        let stat = table_stat(&table).unwrap().unwrap();
        assert_eq!(stat.first_row, 8);
        assert_eq!(stat.segments, 3);
        assert_eq!(stat.end, 18);
        assert_eq!(stat.durable_end, 18);
    }

    /// After 16 attempts, `table_stat` returned the error of the last one.
    #[test]
    fn stat_finds_a_table_whose_first_segment_is_always_dropped() {
        fn drop_next(mut writer: Writer, row: u64) {
            if row <= 200 {
                assert_eq!(writer.drop_before(row).unwrap(), 4);
                MEANWHILE.set(Some(Box::new(move || drop_next(writer, row + 4))));
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let writer = write_rows(&table, "n: int32", Some(4), 210);
        MEANWHILE.set(Some(Box::new(move || drop_next(writer, 4))));
        let stat = table_stat(&table).unwrap().unwrap();
        assert_eq!(stat.first_row, 200);
        assert_eq!(stat.segments, 3);
        assert_eq!(stat.end, 210);
        assert_eq!(stat.durable_end, 210);
    }

    /// The last segment was merged with the previous one after they had been listed, and the table was reported as not
    /// found.
    #[test]
    fn stat_finds_a_table_whose_segments_are_merged() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let rewrite = CompactOptions { rewrite: true, sort: false };
        let merge_meanwhile = || {
            let table = table.clone();
            MEANWHILE.set(Some(Box::new(move || _ = compact_with(&table, rewrite, |_, _| ()).unwrap())));
        };
        let write = |schema: &str, rows: i64| {
            write_rows(&table, schema, None, rows).close().unwrap();
            compact(&table, |_, _| ()).unwrap();
        };
        write("n: int16", 4);
        write("n: int32", 3);
        merge_meanwhile();
        let stat = table_stat(&table).unwrap().unwrap();
        assert_eq!(stat.segments, 1);
        assert_eq!(stat.dense, 1);
        assert_eq!(stat.end, 7);
        assert_eq!(stat.durable_end, 7);
        write("n: int64", 2);
        merge_meanwhile();
        let rows = sealed_rows(&table).unwrap().unwrap();
        assert_eq!(rows, std::iter::once(0..9).collect::<Vec<_>>());
    }
}
