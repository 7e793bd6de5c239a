//! [`check`] and [`repair`]: finds damage in a file or table, with byte offsets, and keeps the good rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::array::Bytes;
use crate::dataset::{Batches, Dataset};
use crate::directory::{exists, is_directory};
use crate::error::{Error, ErrorKind, Finding, Findings, Result, none_if_corrupt};
use crate::files::{arrow_files, expand_glob, is_glob};
use crate::ipc::{CheckSummary, Format, IpcSource, ReadOptions, WriteOptions, has_arrow_signature, has_file_magic};
use crate::map::{FileSystem, Mapping, Mode, guard};
use crate::partitions::partition_directories;
use crate::table;
use crate::table::RepairReport;

/// The result of [`check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The number of rows, good or not, as far as known.
    pub rows: u64,
    /// The number of record batches.
    pub batches: u64,
    /// The number of segments of a table; 0 for a file.
    pub segments: u64,
    /// Damage and notes.
    pub findings: Vec<Finding>,
    /// What [`repair`] has done; `None` if nothing was needed.
    pub repaired: Option<RepairReport>,
}

impl Report {
    /// Returns true if nothing is damaged.
    pub fn is_good(&self) -> bool {
        !self.findings.iter().any(|finding| finding.is_damage)
    }

    /// Returns the findings that are damage.
    pub fn damage(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.is_damage)
    }

    /// Adds the report of another file of the same directory or pattern.
    fn add(&mut self, other: Report) {
        self.rows += other.rows;
        self.batches += other.batches;
        self.segments += other.segments;
        self.findings.extend(other.findings);
        if let Some(repaired) = other.repaired {
            let sum = self.repaired.get_or_insert_default();
            sum.kept += repaired.kept;
            sum.given_up = sum.given_up.zip(repaired.given_up).map(|(a, b)| a + b);
            sum.moved.extend(repaired.moved);
        }
    }
}

/// Checks all metadata and every value of what is at `path`, and reports inconsistencies.
///
/// `path` is that of a file, a table or a directory, or a pattern. A table may be written at the same time.
/// `progress(done, total)` is called periodically.
///
/// ```
/// use arrowwood::{Writer, WriterOptions, check, parse_schema};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ticks");
/// Writer::open(&path, Some(parse_schema("n: int64")?.into()), &WriterOptions::default())?.close()?;
/// let report = check(&path, |_, _| ())?;
/// assert!(report.is_good());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound`, `PermissionDenied`, `Io` if it could not be read; damage is in the report.
pub fn check(path: impl AsRef<Path>, mut progress: impl FnMut(u64, u64)) -> Result<Report> {
    let path = path.as_ref();
    guard(|| {
        let mut report =
            each(path, &mut |path, progress| check_one(path, progress).map_err(|e| e.at(path)), &mut progress)?;
        if let Some(message) = foreign_file(path)? {
            report.findings.push(Finding { path: path.to_path_buf(), offset: None, message, is_damage: true });
        }
        Ok(report)
    })
}

/// As [`check`], for the bytes of an IPC file or stream, called `name` in findings.
///
/// # Errors
/// `Io`.
pub fn check_bytes(bytes: Bytes, name: impl AsRef<Path>, mut progress: impl FnMut(u64, u64)) -> Result<Report> {
    guard(|| check_ipc(bytes, name.as_ref(), &mut progress))
}

/// As [`check`], and if there is damage, keeps the rows before it.
///
/// A table also keeps rows after text that is not UTF-8, in which wrong bytes are replaced by `?`.
///
/// Damaged files are never written to. A file is renamed to end in `.damaged`. A table's damaged segment and, if rows
/// of it are lost, all later segments move to a directory of such a name next to the table, or to the hidden directory
/// `.damaged` inside it if nothing can be moved out of the table, as from a mount point. `findings` describes the state
/// before the repair, the other fields the state after it.
///
/// # Errors
/// As [`check`]; `Busy` while the table is being written; `InvalidArgument` for a single segment of a table, and for a
/// file that is not Arrow data, which stays as it is. The other files of a directory are repaired before the error is
/// returned.
pub fn repair(path: impl AsRef<Path>, mut progress: impl FnMut(u64, u64)) -> Result<Report> {
    let path = path.as_ref();
    guard(|| {
        if let Some(message) = foreign_file(path)? {
            return Err(Error::new(ErrorKind::InvalidArgument, message).at(path));
        }
        each(path, &mut |path, progress| repair_one(path, progress).map_err(|e| e.at(path)), &mut progress)
    })
}

type OnProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// Runs `work` on the path, or on each file that it matches.
fn each(
    path: &Path,
    work: &mut dyn FnMut(&Path, OnProgress) -> Result<Report>,
    progress: OnProgress,
) -> Result<Report> {
    let files = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() && !is_table(path)? => files_of(path)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && is_glob(path) => expand_glob(path)?,
        _ => return work(path, progress),
    };
    let mut report = Report::default();
    let mut refused = None;
    for file in files {
        match work(&file, progress) {
            Ok(other) => report.add(other),
            // A file that is not Arrow data must not keep the others from being repaired.
            Err(e) if e.kind() == ErrorKind::InvalidArgument => _ = refused.get_or_insert(e),
            Err(e) => return Err(e),
        }
    }
    refused.map_or(Ok(report), Err)
}

/// Returns the files in a directory that is not a table, and the tables and files of its partitions.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>> {
    let partitions = partition_directories(directory)?;
    if partitions.is_empty() {
        return arrow_files(directory);
    }
    let mut tables_and_files = Vec::new();
    for partition in partitions {
        if is_table(&partition)? {
            tables_and_files.push(partition);
            continue;
        }
        match arrow_files(&partition) {
            Ok(files) => tables_and_files.extend(files),
            // A partition created a moment ago has no file yet.
            Err(e) if e.kind() == ErrorKind::NotFound => (),
            Err(e) => return Err(e),
        }
    }
    Ok(tables_and_files)
}

/// Returns the message about a directory that holds another Arrow file and segments of a table.
fn foreign_file(directory: &Path) -> Result<Option<String>> {
    if !is_directory(directory)? || is_table(directory)? {
        return Ok(None);
    }
    let files = match arrow_files(directory) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        files => files?,
    };
    let (segments, others): (Vec<_>, Vec<_>) = files.iter().partition(|file| table::is_segment_name(file));
    let other = others.first().filter(|_| !segments.is_empty()).and_then(|other| other.file_name());
    Ok(other.map(|other| {
        format!(
            "the directory holds segments of a table and other Arrow files, such as {other:?}, so that it is opened \
             and written as a table no more; move what does not belong to it"
        )
    }))
}

/// Returns true if a directory contains segments and no other Arrow files.
fn is_table(folder: &Path) -> Result<bool> {
    table::is_table(folder)
}

fn check_one(path: &Path, progress: OnProgress) -> Result<Report> {
    if is_directory(path)?
        && let Some(checked) = table::check_table(path, progress)?
    {
        return Ok(table_report(checked));
    }
    match table::check_segment(path)? {
        Some((rows, findings)) => Ok(Report { rows, batches: 1, segments: 1, findings, repaired: None }),
        None => check_ipc(Bytes::from_mapping(Mapping::open(path, Mode::Read)?)?, path, progress),
    }
}

fn table_report(checked: table::TableCheck) -> Report {
    let rows = checked.rows();
    let segments = checked.num_segments();
    Report { rows, batches: segments, segments, findings: checked.into_findings(), repaired: None }
}

fn check_ipc(bytes: Bytes, path: &Path, progress: OnProgress) -> Result<Report> {
    let mut findings = Findings::new(path);
    let (_, summary) = open_and_check(bytes, path, &mut findings, progress)?;
    let batches = summary.batches as u64;
    Ok(Report { rows: summary.rows, batches, findings: findings.into_list()?, ..Report::default() })
}

/// Opens and checks an IPC file or stream. Returns no source if it can't be opened.
fn open_and_check(
    bytes: Bytes,
    path: &Path,
    findings: &mut Findings,
    progress: OnProgress,
) -> Result<(Option<IpcSource>, CheckSummary)> {
    let options = ReadOptions { thorough: true, ..ReadOptions::default() };
    match IpcSource::open(bytes, Some(path), options) {
        Ok(ipc) => {
            let summary = ipc.check_all(findings, progress);
            Ok((Some(ipc), summary))
        }
        Err(e) if e.is_corruption() => {
            findings.error(None, &e);
            Ok((None, CheckSummary::default()))
        }
        Err(e) => Err(e),
    }
}

/// Returns the path with links resolved, without a trailing slash, so that other names can be derived from it.
fn resolve_links(path: &Path) -> Result<PathBuf> {
    if path.file_name().is_none() || path.is_symlink() {
        std::fs::canonicalize(path).map_err(|e| Error::io("finding the file", &e))
    } else {
        Ok(path.components().collect())
    }
}

fn repair_one(path: &Path, progress: OnProgress) -> Result<Report> {
    let path = &resolve_links(path)?;
    let had_positions = has_positions(path)?;
    let before = if is_directory(path)? {
        table::repair_table(path, progress)?.map(|(checked, repaired)| (table_report(checked), repaired))
    } else {
        None
    };
    let (before, repaired) = match before {
        Some(done) => done,
        None if table::check_segment(path)?.is_some() => {
            let message = "a segment can only be repaired with its whole table; give the table directory";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        None => repair_file(path, progress)?,
    };
    let Some(repaired) = repaired else { return Ok(before) };
    // Nothing is kept of a file or table with an unreadable schema.
    let is_there = if is_directory(path)? { is_table(path)? } else { exists(path)? };
    let now = if is_there { check_one(path, progress)? } else { Report::default() };
    if let Some(finding) = now.damage().next() {
        return Err(Error::invalid(format!("still damaged after the repair: {}", finding.message)));
    }
    let mut findings = before.findings;
    if had_positions || has_positions(path)? {
        let message = "rows and positions of the last commits may have been given up apart: compare both before a \
                       producer sends again";
        findings.push(Finding { path: path.to_path_buf(), offset: None, message: message.into(), is_damage: false });
    }
    Ok(Report { findings, repaired: Some(repaired), ..now })
}

/// Returns true if `path` is a table with positions, as far as it can be opened.
fn has_positions(path: &Path) -> Result<bool> {
    if !is_directory(path)? {
        return Ok(false);
    }
    let positions = match table::open_table(path, ReadOptions::default()) {
        Ok(Some(table)) => table.positions(),
        Ok(None) => return Ok(false),
        Err(e) => Err(e),
    };
    match positions {
        Ok(positions) => Ok(!positions.is_empty()),
        // The table may be sound if the system has failed.
        Err(e) if e.kind() == ErrorKind::Io => Err(e),
        Err(_) => Ok(false),
    }
}

/// Repairs an IPC file or stream.
fn repair_file(path: &Path, progress: OnProgress) -> Result<(Report, Option<RepairReport>)> {
    let mut findings = Findings::new(path);
    let bytes = Bytes::from_mapping(Mapping::open(path, Mode::Read)?)?;
    let (ipc, summary) = open_and_check(bytes.clone(), path, &mut findings, progress)?;
    let has_damage = findings.has_damage();
    let batches = summary.batches as u64;
    let report = Report { rows: summary.rows, batches, findings: findings.into_list()?, ..Report::default() };
    if !has_damage {
        return Ok((report, None));
    }
    let rows_before = ipc.as_ref().map(|_| summary.rows);

    let kept = good_rows(ipc, summary, bytes.clone(), path)?;
    let format = if has_file_magic(&bytes)? { Format::File } else { Format::Stream };
    let aside = table::damaged_path(path, |name| Ok(!exists(name)?))?;
    let mut rows = 0;
    match kept {
        Some(dataset) => {
            rows = dataset.len()?;
            let options = WriteOptions { format, ..WriteOptions::default() };
            let part = table::write_part(&FileSystem::default(), &dataset, (path, path), &options)?;
            table::link_aside(path, &aside)?;
            // The new link must be on the disk before the damaged file loses its name.
            path.parent().map_or(Ok(()), table::sync_folder)?;
            // Windows replaces no file that is mapped.
            drop((dataset, bytes));
            std::fs::rename(part, path).map_err(|e| Error::io("replacing the damaged file", &e))?;
        }
        None if !has_arrow_signature(&bytes)? => {
            let why = report.damage().next().map_or_else(String::new, |finding| format!(" ({})", finding.message));
            let message = format!(
                "the file does not begin as an Arrow file or stream, so it was left as it is{why}; give files of Arrow \
                 data, or move it by hand"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        None => std::fs::rename(path, &aside).map_err(|e| Error::io("moving the damaged file", &e))?,
    }
    path.parent().map_or(Ok(()), table::sync_folder)?;
    let given_up = rows_before.map(|before| before.saturating_sub(rows));
    Ok((report, Some(RepairReport { kept: rows, given_up, moved: vec![aside] })))
}

/// Returns the rows of all batches before the first bad one. A file without its footer is read from the beginning.
/// Returns `None` if the schema can't be determined.
///
/// # Errors
/// Errors of reading the file, which may be sound.
fn good_rows(ipc: Option<IpcSource>, summary: CheckSummary, bytes: Bytes, path: &Path) -> Result<Option<Dataset>> {
    let (ipc, summary) = match ipc {
        Some(ipc) => (ipc, summary),
        None => {
            let options = ReadOptions { thorough: true, partial: true, ..ReadOptions::default() };
            let Some(ipc) = none_if_corrupt(IpcSource::open(bytes, Some(path), options))? else { return Ok(None) };
            let mut findings = Findings::new(path);
            let summary = ipc.check_all(&mut findings, &mut |_, _| ());
            findings.into_list()?;
            (ipc, summary)
        }
    };
    if summary.is_disputed {
        return Ok(None);
    }
    let rows = match summary.good.checked_sub(1) {
        Some(last) => match none_if_corrupt(ipc.span(last))?.flatten() {
            Some(span) => span.end,
            None => return Ok(None),
        },
        None => 0,
    };
    none_if_corrupt(Dataset::from_source(Arc::new(ipc)).slice(0, rows))
}
