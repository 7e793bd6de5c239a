//! Checks a whole table: every segment, every record, every value, the footer for other Arrow readers, and the order of
//! segments.
//!
//! The files left by a writer killed at any moment are not damage. While a writer is active, a finding counts only if
//! a check a little later finds it again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::footer_check::{self, FooterCheck, FooterError, first_difference};
use super::table_check::{SegmentCheck, TableCheck};
use crate::array::{Bytes, slice};
use crate::dataset::{Batches, SchemaConversion, order};
use crate::error::{Error, ErrorKind, Finding, Findings, Result, none_if_corrupt};
use crate::ipc::{CheckSummary, IpcSchema, IpcSource, ReadOptions};
use crate::map::{Mapping, Mode};
use crate::parallel;
use crate::rows::{PlanZones, ROWS, ZONE};
use crate::table::format::{FIRST_ROW, Record, SEQUENCE, record_len};
use crate::table::protocol::log::LogEntry;
use crate::table::reader::{
    Segment, SegmentChain, chain, checksum, count_nulls, dense_settings, dense_zones, is_locked, open_mapping,
    open_segment, recount, segment,
};
use crate::table::writer::encode_front;
use crate::table::zones::zone_of;

/// The maximum number of repeated checks for damage while a writer is active.
const MAX_RECHECKS: usize = 3;
/// The pause between repeated checks.
const PAUSE: Duration = Duration::from_millis(30);
/// The maximum number of times that segments may be merged or dropped during a check of all.
const MAX_CHANGES: usize = 1000;
/// The maximum number of attempts to read records while a writer commits.
const MAX_RECORD_READS: usize = 1000;
/// The offset of the Schema message in a file, after the magic bytes.
const SCHEMA_START: u64 = 8;
/// The messages of a dense file begin at multiples of at most this many bytes.
const BODY_ALIGNMENT: usize = 64;
/// The number of rows of a segment whose records are too damaged to tell.
const NO_ROWS: u64 = 0;

/// Returns true if a folder contains segments and no other Arrow files.
pub(crate) fn is_table(folder: &Path) -> Result<bool> {
    Ok(chain::list(folder)?.is_some())
}

/// Checks the table in `folder`; `None` if there is no table.
pub(crate) fn check_table(folder: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Option<TableCheck>> {
    let is_live = is_locked(folder)?;
    let Some(mut checked) = check_all_segments(folder, is_live, progress)? else { return Ok(None) };
    for _ in 0..MAX_RECHECKS {
        let is_doubtful = checked.has_damage() || checked.lacks_rows();
        if !is_doubtful || !(is_live || checked.has_changed || is_locked(folder)?) {
            break;
        }
        std::thread::sleep(PAUSE);
        let Some(mut again) = check_all_segments(folder, true, progress)? else { return Ok(None) };
        again.retain_damage_of(&checked);
        checked = again;
    }
    Ok(Some(checked))
}

/// Checks the file at `path` if it is a growable segment; returns its number of rows, and the findings.
pub(crate) fn check_segment(path: &Path) -> Result<Option<(u64, Vec<Finding>)>> {
    match open_segment(path) {
        Ok(None) => return Ok(None),
        Err(e) if !e.is_corruption() => return Err(e),
        _ if !is_growable(path)? => return Ok(None),
        _ => (),
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let checked = check_file(path, None, is_locked(folder)?)?;
    Ok(Some((checked.rows.unwrap_or(NO_ROWS), checked.findings)))
}

/// Returns true if the file at `path` is a growable segment, even if its header is damaged.
fn is_growable(path: &Path) -> Result<bool> {
    let mapping = Mapping::open(path, Mode::Read)?;
    match segment::read_front(&mapping) {
        Ok(front) => Ok(front.is_some()),
        Err(e) if e.is_corruption() => Ok(true),
        Err(e) => Err(e),
    }
}

/// Checks everything once. While a writer is active (`is_live`), states between two of its steps are not damage.
pub(super) fn check_all_segments(
    folder: &Path,
    is_live: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<TableCheck>> {
    let Some(mut starts) = chain::list_at_one_moment(folder)? else { return Ok(None) };
    let mut checked = TableCheck::default();
    let mut number = 0;
    let mut changes = 0;

    while let Some(&start) = starts.get(number) {
        progress(number as u64, starts.len() as u64);
        match check_file(&chain::path(folder, start), Some(start), is_live) {
            Ok(segment) => {
                checked.segments.push(segment);
                number += 1;
            }
            // Merged with the one before it, or dropped.
            Err(e) if e.kind() == ErrorKind::NotFound && changes < MAX_CHANGES => {
                let Some(current) = chain::list_at_one_moment(folder)? else { return Err(e) };
                number = checked.continue_without(start, &current);
                starts = current;
                changes += 1;
            }
            Err(e) => return Err(e),
        }
    }

    progress(starts.len() as u64, starts.len() as u64);
    assert!(checked.segments.is_sorted_by(|a, b| a.start < b.start), "segments are checked in the order of their rows");
    checked.has_changed = changes > 0 || chain::list(folder)?.is_none_or(|current| current != starts);
    let orphans = match SegmentChain::open(folder) {
        Ok(chain) => chain.map_or(Vec::new(), |chain| chain.orphans),
        // Damage was found in the segment.
        Err(e) if e.is_corruption() || e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e),
    };

    check_orphans(folder, &orphans, &mut checked)?;
    check_chain(folder, is_live, &mut checked)?;
    check_folder(folder, &mut checked)?;
    Ok(Some(checked))
}

/// Takes the segments of an unfinished commit out of the check: they belong to no table, whatever they contain.
fn check_orphans(folder: &Path, orphans: &[u64], checked: &mut TableCheck) -> Result<()> {
    let (committed, unfinished) = std::mem::take(&mut checked.segments)
        .into_iter()
        .partition(|segment: &SegmentCheck| !orphans.contains(&segment.start));
    checked.segments = committed;
    for segment in unfinished {
        let mut findings = Findings::new(&chain::path(folder, segment.start));
        findings.note(None, "begun by a commit that never came about; the next writer removes it");
        checked.folder.append(&mut findings.into_list()?);
    }
    Ok(())
}

/// Checks that all segments have the schema of the last one, or an older one that can be changed into it.
fn check_schemas(folder: &Path, segments: &mut [SegmentCheck]) -> Result<()> {
    let schemas: Vec<SchemaRef> = segments.iter().filter_map(|segment| segment.schema.clone()).collect();
    let Some((newest, others)) = schemas.split_last() else { return Ok(()) };
    // If all others agree, the last one is wrong.
    let newest = match others.split_last() {
        Some((last, rest)) if !can_convert_all(others, newest) && can_convert_all(rest, last) => last,
        _ => newest,
    };
    for segment in segments {
        let mut findings = Findings::new(&chain::path(folder, segment.start));
        if let Some(schema) = &segment.schema
            && let Err(e) = SchemaConversion::try_new(newest, schema)
        {
            segment.is_foreign = true;
            findings
                .damage(SCHEMA_START, format!("the schemas of the table and of this segment differ: {}", e.message()));
        }
        segment.findings.append(&mut findings.into_list()?);
    }
    Ok(())
}

/// Returns true if all of `schemas` can be changed into `newest`.
fn can_convert_all(schemas: &[SchemaRef], newest: &SchemaRef) -> bool {
    schemas.iter().all(|schema| SchemaConversion::try_new(newest, schema).is_ok())
}

/// Checks that each segment ends where the next one begins.
fn check_chain(folder: &Path, is_live: bool, checked: &mut TableCheck) -> Result<()> {
    check_schemas(folder, &mut checked.segments)?;
    let nexts: Vec<u64> = checked.segments.iter().skip(1).map(|segment| segment.start).collect();
    for (before, next) in checked.segments.iter_mut().zip(nexts) {
        let mut findings = Findings::new(&chain::path(folder, before.start));
        match before.rows {
            Some(rows) if before.dense && before.start + rows > next => {
                let end = before.start + rows;
                findings.note(
                    None,
                    format!(
                        "it has all rows to {end}, and the next segment begins with {next}: compacting was cut \
                         off; compact the table"
                    ),
                );
                before.rows = Some(next - before.start);
            }
            Some(rows) if before.start + rows != next => {
                let end = before.start + rows;
                findings
                    .damage(None, format!("it ends with row {end}, expected {next}, where the next segment begins"));
            }
            Some(_) if !before.sealed => findings.add(!is_live, None, "a segment follows, and this one is not sealed"),
            _ => (),
        }
        before.findings.append(&mut findings.into_list()?);
    }

    Ok(())
}

/// Notes files in the folder that are no segments.
fn check_folder(folder: &Path, checked: &mut TableCheck) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(|e| chain::listing_failed(&e, folder))? {
        let path: PathBuf = entry.map_err(|e| chain::listing_failed(&e, folder))?.path();
        if path.extension().is_none_or(|extension| extension != "arrow") {
            let mut findings = Findings::new(&path);
            findings
                .note(None, "no segment; a table's directory should hold nothing else, as many readers take it whole");
            checked.folder.append(&mut findings.into_list()?);
        }
    }
    Ok(())
}

/// Checks one segment, which should begin with row `start`.
fn check_file(path: &Path, start: Option<u64>, is_live: bool) -> Result<SegmentCheck> {
    let mapping = Mapping::open(path, Mode::Read)?;
    let mut checked = SegmentCheck::default();

    // A single file may begin with any row.
    if let Some(start) = start {
        checked.start = start;
    }
    let mut findings = Findings::new(path);

    match open_mapping(mapping.clone()) {
        Ok(Some(segment)) => {
            let first = segment.header.first_row;
            if let Some(start) = start.filter(|&start| start != first) {
                let header = segment::read_front(&mapping)?.map(|(_, header)| header as u64);
                findings.damage(
                    header.map(|header| header + FIRST_ROW),
                    format!("the segment's first row: expected {start} by its name, got {first}"),
                );
            }
            check_growable(&segment, is_live, &mut findings, &mut checked);
        }
        Ok(None) => check_dense(mapping, path, &mut findings, &mut checked)?,
        Err(e) if e.is_corruption() => {
            // The parts after the schema can be damaged only if the schema is not.
            let offset = match segment::read_front(&mapping) {
                Ok(Some((schema, _))) if IpcSchema::parse_message(&schema).is_err() => Some(SCHEMA_START),
                Ok(Some((_, header))) => Some(header as u64),
                Ok(None) | Err(_) => None,
            };
            findings.damage(offset, e.message());
        }
        Err(e) => return Err(e),
    }

    checked.findings = findings.into_list()?;
    Ok(checked)
}

/// Checks a dense segment: one batch, and nothing between the schema and the batches listed in the footer.
fn check_dense(mapping: Mapping, path: &Path, findings: &mut Findings, checked: &mut SegmentCheck) -> Result<()> {
    let options = ReadOptions { thorough: true, ..ReadOptions::default() };
    let ipc = match IpcSource::open(Bytes::from_mapping(mapping)?, Some(path), options) {
        Ok(ipc) => ipc,
        Err(e) if e.is_corruption() => {
            findings.damage(None, e.message());
            return Ok(());
        }
        Err(e) => return Err(e),
    };

    let CheckSummary { rows, batches, .. } = ipc.check_all(findings, &mut |_, _| ());
    if batches != 1 {
        findings.damage(None, format!("a segment has one record batch, got {batches}"));
    }
    if let Ok([schema, first, ..]) = ipc.frames().as_deref()
        && first.offset > schema.body().next_multiple_of(BODY_ALIGNMENT)
    {
        let expected = schema.body();
        let got = first.offset;
        findings.damage(
            expected as u64,
            format!("expected the first message behind the schema, got it at byte {got}: no dense file, and no header"),
        );
    }

    check_settings(&ipc, findings);
    checked.rows = Some(rows);
    checked.in_file = rows;
    checked.sealed = true;
    checked.dense = true;
    checked.schema = Some(ipc.schema().clone());
    Ok(())
}

/// Checks that the table's settings in the schema's metadata are valid, and match a dense segment's rows.
fn check_settings(ipc: &IpcSource, findings: &mut Findings) {
    let settings = match dense_settings(ipc.schema()) {
        Ok(settings) => settings,
        Err(e) => return findings.error(SCHEMA_START, &e),
    };
    settings.index.iter().for_each(|&column| check_dense_zones(ipc, column as usize, findings));
    let Some(column) = settings.order().map(|column| column as usize) else { return };
    // A damaged column was reported before.
    if let Ok(array) = ipc.checked_column(0, column)
        && let Err(e) = order::check_ascending(ipc.schema().field(column).name(), array, None)
    {
        findings.damage(None, e.message());
    }
}

/// Checks that the zones in a dense segment's footer match its rows.
fn check_dense_zones(ipc: &IpcSource, column: usize, findings: &mut Findings) {
    let (rows, zones) = match dense_zones(ipc, column) {
        Ok(Some(zones)) => zones,
        Ok(None) => return,
        Err(e) => return findings.error(None, &e),
    };
    let Ok(array) = ipc.checked_column(0, column) else { return };
    for (number, zone) in zones.iter().enumerate() {
        let start = number * rows as usize;
        let block = slice(array, start, (array.len() - start).min(rows as usize));
        if !zone_of(&block).is_ok_and(|expected| expected == *zone) {
            let name = ipc.schema().field(column).name();
            findings.damage(None, format!("zone {number} of column '{name}', in the footer, is not that of its rows"));
            return;
        }
    }
}

/// Checks a growable segment: schema, records, values, counters, dictionaries, positions, log, and the published
/// footer.
fn check_growable(segment: &Segment, is_live: bool, findings: &mut Findings, checked: &mut SegmentCheck) {
    checked.schema = Some(segment.plan.schema.schema.clone());
    check_front(segment, findings);

    // The footer is read before the records, as rows are committed before they are published.
    let footer = footer_check::read(segment);
    let is_of_this_boot = match check_records(segment, is_live, footer.as_ref().ok(), findings) {
        Ok(is_of_this_boot) => is_of_this_boot,
        Err(e) => return findings.error(segment.header.live, &e),
    };
    let record = match segment.newest() {
        Ok(record) => record,
        // The damaged record was reported before.
        Err(e) if e.is_corruption() && findings.has_damage() => return,
        Err(e) => return findings.error(segment.header.live, &e),
    };

    checked.rows = Some(record.rows());
    checked.sealed = record.sealed;
    check_values(segment, &record, findings);
    for (offset, message) in recount(segment, &record.counters) {
        findings.damage(offset, format!("{message}, as the commit record of {} rows says", record.rows()));
    }
    check_dictionaries(segment, &record, findings);
    if let Err(e) = segment.position_names(&record) {
        findings.error(segment.header.regions[segment.plan.names.region].offset, &e);
    }
    check_log(segment, &record, findings);

    match footer {
        Err(FooterError::Unwritten((at, message))) if !is_of_this_boot => {
            checked.lacks_footer = true;
            let message = format!(
                "other readers find no rows: {message}; a crash came before that was on the disk. The next writer \
                 puts it right, or `arrowwood check --repair`"
            );
            findings.note(at, message);
        }
        Err(FooterError::Damage((at, message)) | FooterError::Unwritten((at, message))) => findings.damage(at, message),
        Err(FooterError::Unread(e)) => findings.error(segment.header.tail, &e),
        Ok(footer) => check_footer(segment, &record, &footer, is_live || !is_of_this_boot, findings),
    }
}

/// Checks that the bytes before the header are the ones that this version writes, or have the same meaning.
fn check_front(segment: &Segment, findings: &mut Findings) {
    let expected = encode_front(&segment.plan);
    let mut front = vec![0; expected.len()];
    if let Err(e) = segment.mapping.read_at(0, &mut front) {
        return findings.error(0, &e.into());
    }
    if let Some((offset, message)) = footer_check::first_difference(0, &expected, &front) {
        findings.note(offset, format!("the front of the file: {message}"));
    }
}

/// The four records of a segment; `None` for a torn one.
struct Records {
    /// The number of the newest commit, as the live page has it.
    sequence: u64,
    /// The record of that number, and the other one.
    visible: [Option<Record>; 2],
    durable: [Option<Record>; 2],
}

impl Records {
    /// Reads the records, again if a commit was made meanwhile.
    fn read(segment: &Segment) -> Result<Records> {
        let mut attempts = 0;
        loop {
            let sequence = segment.sequence();
            let page = segment.header.page();
            let visible = segment.records_at([page.record(sequence), page.record(other_parity(sequence))])?;
            let durable = segment.both_durable()?;
            attempts += 1;
            if segment.sequence() == sequence || attempts > MAX_RECORD_READS {
                return Ok(Records { sequence, visible, durable });
            }
        }
    }

    /// Returns the visible record that doesn't count yet: a killed writer had prepared the commit, or had not stored
    /// its number. The footer for other readers shows rows of a prepared commit, but otherwise only committed ones.
    fn uncommitted(&self, segment: &Segment, footer: Option<&FooterCheck>) -> Option<&Record> {
        let [current, next] = &self.visible;
        let current =
            current.as_ref().filter(|record| record.sequence == self.sequence && segment.is_present(record))?;
        let next_sequence = self.sequence.checked_add(1)?;
        let next = next.as_ref().filter(|record| record.sequence == next_sequence && segment.is_present(record))?;
        let is_shown =
            footer.is_some_and(|footer| !is_up_to(&footer.with_names_of(segment, current), &current.counters));
        Some(next).filter(|next| next.sealed && !current.sealed || !is_shown)
    }

    fn all(&self) -> impl Iterator<Item = &Record> {
        self.visible.iter().chain(&self.durable).flatten()
    }

    /// Iterates over the intact records, with their offsets in the file.
    fn with_offsets<'a>(&'a self, segment: &'a Segment) -> impl Iterator<Item = (u64, &'a Record)> {
        let page = segment.header.page();
        let visible = [page.record(self.sequence), page.record(other_parity(self.sequence))];
        let durable = [0, 1].map(|number| segment.header.durable(number));
        let offsets = visible.into_iter().chain(durable);
        let records = self.visible.iter().chain(&self.durable);
        offsets.zip(records).filter_map(|(offset, record)| Some((offset, record.as_ref()?)))
    }

    /// Iterates over the durable records that can belong to the segment.
    fn sound_durable(&self, segment: &Segment) -> impl Iterator<Item = &Record> {
        self.durable.iter().flatten().filter(|record| segment.check_record(record).is_ok())
    }

    /// Returns the counters at which a durable record's checksum begins, if still known.
    fn counters_before(&self, segment: &Segment, record: &Record) -> Option<Vec<u64>> {
        if record.previous == 0 {
            return Some(vec![0; segment.header.limits.len()]);
        }
        let before = self.sound_durable(segment).find(|other| other.sequence == record.previous);
        before.map(|before| before.counters.clone())
    }
}

/// Checks the records. Returns true if the newest commits are of this boot, and in its page cache. Otherwise the
/// effects of a system crash are not damage.
///
/// # Errors
/// Returns the errors of reading the records.
fn check_records(
    segment: &Segment,
    is_live: bool,
    footer: Option<&FooterCheck>,
    findings: &mut Findings,
) -> Result<bool> {
    let records = Records::read(segment)?;
    // The newest commit is found first: only then it is known whether the page cache is the writer's.
    let newest = segment.newest();

    // If only a comparison shows that the rows are there, or no record is whole, bytes that were written with them may
    // be lost as in a crash.
    let is_of_this_boot = segment.is_same() && records.all().any(|record| segment.is_present(record));
    let causes = causes_of_loss(segment, &records)?;
    let header = &segment.header;
    let sequence = records.sequence;
    let [current, _] = &records.visible;
    if current.as_ref().is_none_or(|record| record.sequence != sequence) {
        let got = current.as_ref().map_or("none that is whole".into(), |record| format!("that of {}", record.sequence));
        let fallback = match &newest {
            Ok(record) => format!("readers go back to {} rows", record.rows()),
            Err(_) => "readers refuse the segment".into(),
        };
        let message =
            format!("the newest commit record: expected that of commit {sequence}, got {got}; {fallback}{causes}");
        findings.add(is_of_this_boot, header.page().record(sequence), message);
    }

    for (offset, record) in records.with_offsets(segment) {
        if let Err(e) = segment.check_record(record) {
            findings.damage(offset, e.message());
        }
    }

    check_other_visible(segment, &records, is_live, footer, findings)?;

    for (number, durable) in (0..).zip(&records.durable) {
        let offset = header.durable(number);
        if durable.is_none() && !is_blank(segment, offset)? {
            findings.add(is_of_this_boot && !is_live, offset, format!("a durable record is not whole{causes}"));
        }
    }

    if let (Some(current), Ok(newest)) = (current, &newest)
        && segment.is_cause_unknown(current)?
        && current.sequence == sequence
        && current.rows() > newest.rows()
    {
        let (from, to) = (newest.rows(), current.rows());
        let message = format!("rows {from} to {to} of the segment don't match the checksum of their commit{causes}");
        findings.note(header.page().record(sequence), message);
    }
    check_durable(segment, &records, is_of_this_boot, findings);
    Ok(is_of_this_boot)
}

/// Returns the end of a message about what was not synced and is not as it was written, if nothing tells why; else an
/// empty text.
///
/// # Errors
/// Errors of the system.
fn causes_of_loss(segment: &Segment, records: &Records) -> Result<&'static str> {
    for record in records.visible.iter().flatten() {
        if segment.is_cause_unknown(record)? {
            return Ok(": lost with the page cache, or damaged, which only the ids of mounts would tell");
        }
    }
    Ok("")
}

/// Checks the visible record that is not the newest: it must not have a greater number, unless a writer has prepared
/// it.
///
/// # Errors
/// Returns the errors of reading it.
fn check_other_visible(
    segment: &Segment,
    records: &Records,
    is_live: bool,
    footer: Option<&FooterCheck>,
    findings: &mut Findings,
) -> Result<()> {
    let sequence = records.sequence;
    let offset = segment.header.page().record(other_parity(sequence));
    let [current, other] = &records.visible;
    match other {
        Some(other) if other.sequence > sequence && segment.is_present(other) => {
            let message = format!(
                "the number of the newest commit: expected {}, whose record of {} rows is whole, got {sequence}",
                other.sequence,
                other.rows()
            );
            // A killed writer leaves this state after a commit that changes no row, or before one counts.
            let is_same = current.as_ref().is_some_and(|current| current.has_same_state(other));
            // The first commit after a crash of the machine lacks the lost bytes.
            let is_first = current.as_ref().is_some_and(|current| !segment.is_present(current));
            let is_damage = !is_live && !is_same && !is_first && records.uncommitted(segment, footer).is_none();
            findings.add(is_damage, segment.header.live + SEQUENCE, message);
        }
        None if !is_blank(segment, offset)? => {
            findings.note(offset, "the commit record that nobody reads is not whole");
        }
        _ => (),
    }
    Ok(())
}

/// Returns the number of a commit whose record is not in the place of commit `sequence`.
fn other_parity(sequence: u64) -> u64 {
    sequence ^ 1
}

/// Returns true if no record was ever written at byte `at`.
fn is_blank(segment: &Segment, at: u64) -> Result<bool> {
    let mut bytes = vec![0; record_len(segment.header.limits.len(), 0)];
    segment.mapping.read_at(at as usize, &mut bytes)?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// Checks that durable records are not ahead of the newest commit, and that the appended bytes match their checksums.
fn check_durable(segment: &Segment, records: &Records, is_of_this_boot: bool, findings: &mut Findings) {
    let newest = match segment.newest() {
        Ok(newest) => newest,
        // Other damage of the newest commit was reported before.
        Err(e) if e.is_corruption() => return,
        Err(e) => return findings.error(segment.header.live, &e),
    };

    let known: Vec<Record> = records.sound_durable(segment).cloned().collect();
    for (number, record) in records.durable.iter().enumerate() {
        let Some(record) = record.as_ref().filter(|record| segment.check_record(record).is_ok()) else { continue };
        let at = segment.header.durable(number as u64);
        let is_newer = !is_up_to(&record.counters, &newest.counters) || record.sealed && !newest.sealed;
        if is_newer {
            let rows = record.rows();
            let visible = newest.rows();
            // After a system crash the newest commit may have been given up; its number is smaller then.
            let is_damage = is_of_this_boot && record.sequence >= newest.sequence;
            findings.add(is_damage, at, format!("a durable record of {rows} rows, the newest commit has {visible}"));
            continue;
        }
        let Some(before) = records.counters_before(segment, record) else { continue };
        match checksum(segment, &before, record) {
            Ok(got) if got == record.delta => (),
            Ok(got) => {
                let from = before[ROWS];
                let to = record.rows();
                let expected = record.delta;
                let message =
                    format!("rows {from} to {to} of the segment: expected checksum {expected:08x}, got {got:08x}");
                match segment.has_reached_disk(record, &known) {
                    Ok(has_reached_disk) => findings.add(is_of_this_boot || has_reached_disk, at, message),
                    Err(e) => findings.error(at, &e),
                }
            }
            Err(e) => findings.error(at, &e),
        }
    }
}

/// Returns true if none of `counters` is greater than the same one of `others`.
fn is_up_to(counters: &[u64], others: &[u64]) -> bool {
    counters.len() == others.len() && counters.iter().zip(others).all(|(a, b)| a <= b)
}

/// Finds the newest commit without damage except, possibly, in the values themselves.
///
/// # Errors
/// Returns the errors of the system.
pub(super) fn newest_undamaged(segment: &Segment) -> Result<Record> {
    let records = Records::read(segment)?;
    let seen = none_if_corrupt(segment.newest())?;

    // A part of a commit must not stay: its other segments have no names, or don't count.
    let footer = match footer_check::read(segment) {
        Err(FooterError::Unread(e)) => return Err(e),
        read => read.ok(),
    };
    let uncommitted = records.uncommitted(segment, footer.as_ref());
    let committed = records.all().filter(|&record| uncommitted.is_none_or(|other| !std::ptr::eq(record, other)));
    let mut sound: Vec<&Record> = committed.filter(|record| segment.check_record(record).is_ok()).collect();
    sound.retain(|record| segment.is_present(record));
    sound.sort_by_key(|record| std::cmp::Reverse(record.rows()));
    let mut newest = match (sound.first(), seen) {
        (Some(&record), _) => record.clone(),
        (None, Some(seen)) => seen,
        // If an invalid record hides the newest valid one, use the newest durable one.
        (None, None) => match records.sound_durable(segment).max_by_key(|record| record.rows()) {
            Some(durable) => durable.clone(),
            None => segment.empty_record(),
        },
    };

    for record in records.sound_durable(segment) {
        let Some(before) = records.counters_before(segment, record) else { continue };
        if record.rows() <= newest.rows() && checksum(segment, &before, record)? != record.delta {
            newest = Record { counters: before, ..record.clone() };
        }
    }

    if let Some(Some((entry, _))) = none_if_corrupt(find_log_difference(segment, &newest))? {
        newest.counters = entry.before;
    }
    if nulls_agree(segment, &newest) {
        return Ok(newest);
    }

    // Null counts have no location; the best known counts are the ones of an older record that match its bitmaps.
    let older = sound.into_iter().find(|record| record.rows() <= newest.rows() && nulls_agree(segment, record));
    Ok(older.cloned().unwrap_or_else(|| segment.empty_record()))
}

/// Returns true if the counters of nulls match the validity bitmaps.
fn nulls_agree(segment: &Segment, record: &Record) -> bool {
    let mut damages = Vec::new();
    for column in &segment.plan.columns {
        count_nulls(segment, column, record.rows(), &record.counters, &mut damages);
    }
    damages.is_empty()
}

/// Checks the values of all columns, and that they match the table's order and zones.
fn check_values(segment: &Segment, record: &Record, findings: &mut Findings) {
    let columns = &segment.plan.columns;
    let bytes = usize::try_from(segment.used(record)).unwrap_or(usize::MAX);
    let checked = parallel::map(columns.len(), bytes, |number| {
        segment.column(number, record).and_then(|array| segment.checked(number, array, record))
    });
    assert_eq!(checked.len(), columns.len(), "each column is checked");

    for (column, checked) in columns.iter().zip(&checked) {
        if let Err(e) = checked {
            let offset = match segment.header.regions[column.region].offset {
                // A column without a bitmap begins with its second buffer.
                0 => segment.header.regions.get(column.values_region()).map(|region| region.offset),
                offset => Some(offset),
            };
            findings.error_in(offset, &format!("column '{}': ", column.field.name()), e);
        }
    }

    if let Some(number) = segment.header.order().map(|column| column as usize)
        && let Ok(array) = &checked[number]
        && let Err(e) = order::check_ascending(columns[number].field.name(), array, None)
    {
        findings.damage(segment.header.regions[columns[number].values_region()].offset, e.message());
    }

    for map in &segment.plan.zones {
        if let Ok(array) = &checked[map.column]
            && let Err((offset, e)) = check_zones(segment, record, map, array)
        {
            findings.error(segment.header.regions[map.region].offset + offset, &e);
        }
    }
}

/// Checks that the zones of a column agree with its rows; the error comes with the offset in the buffer of the first
/// zone that doesn't.
fn check_zones(segment: &Segment, record: &Record, map: &PlanZones, array: &ArrayData) -> Result<(), (u64, Error)> {
    let zones = segment.zones(map, record).map_err(|e| (0, e))?;
    for (number, zone) in zones.iter().enumerate() {
        let block = slice(array, number * map.rows as usize, map.rows as usize);
        if !zone_of(&block).is_ok_and(|expected| expected == *zone) {
            let name = segment.plan.columns[map.column].field.name();
            let message = format!("zone {number} of column '{name}' is not that of its rows");
            return Err((number as u64 * ZONE, Error::invalid(message)));
        }
    }
    Ok(())
}

/// Checks that the values of each dictionary are distinct: otherwise equal values could have different keys.
fn check_dictionaries(segment: &Segment, record: &Record, findings: &mut Findings) {
    for dictionary in &segment.plan.dictionaries {
        let count = record.counters[dictionary.entries];
        let Some([_, values_len, text_len]) = dictionary.values.lengths(count, &record.counters) else { continue };
        let region = dictionary.values.values_region();
        let text = if dictionary.bytes().is_some() {
            segment.region_slice(dictionary.values.text_region(), 0, text_len)
        } else {
            Some(Buffer::default())
        };
        let Some((stored, text)) = segment.region_slice(region, 0, values_len).zip(text) else { continue };
        // Values outside the text were reported before.
        let Some(values) = dictionary.stored(count as usize, &stored, &text) else { continue };
        let mut entries = dictionary.new_entries();
        let mut values = values.into_iter().enumerate();
        let repeated = values.find(|(number, value)| entries.key(value).is_none_or(|key| key as usize != *number));
        if let Some((number, _)) = repeated {
            let offset = segment.header.regions[region].offset + stored.len() as u64 / count * number as u64;
            findings.damage(offset, format!("entry {number} of a dictionary is there twice"));
        }
    }
}

/// Checks that the footer for other Arrow readers is correct, and, if no writer can be publishing, shows the newest
/// commit.
fn check_footer(segment: &Segment, record: &Record, footer: &FooterCheck, is_open: bool, findings: &mut Findings) {
    let tail = segment.header.tail;
    if let Some((offset, message)) = &footer.unusual {
        findings.note(*offset, format!("what other readers see: {message}"));
    }
    let counters = footer.with_names_of(segment, record);
    let rows = counters[ROWS];
    let newest = record.rows();
    if !is_up_to(&counters, &record.counters) {
        let message = format!("other readers see {rows} rows, committed are {newest}; the next writer puts that right");
        return findings.add(!is_open && record.sealed, tail, message);
    }
    if counters != record.counters {
        for (offset, message) in recount(segment, &counters) {
            findings.damage(offset, format!("{message}, as other readers see it with {rows} rows"));
        }
        let durable = match segment.both_durable() {
            Ok(durable) => durable,
            Err(e) => return findings.error(tail, &e),
        };
        let is_closed =
            durable.iter().all(|durable| durable.as_ref().is_some_and(|durable| durable.counters == record.counters));
        if !is_open && (record.sealed || is_closed) {
            return findings.damage(tail, format!("other readers see {rows} rows, expected {newest}"));
        }
    }

    if let Some(later) = footer.later.filter(|_| !is_open) {
        let message = format!("other readers see {rows} rows of {newest}, and footer {later} was written later");
        findings.note(tail, message);
    }
}

/// Checks that the bytes of this boot's small durable commits in the log equal the bytes in the columns.
fn check_log(segment: &Segment, record: &Record, findings: &mut Findings) {
    match find_log_difference(segment, record) {
        Ok(None) => (),
        Ok(Some((entry, at))) => {
            let rows = entry.record.rows();
            let sequence = entry.record.sequence;
            findings
                .damage(at, format!("rows up to {rows} of the segment: the log of commit {sequence} has other bytes"));
        }
        Err(e) => findings.error_in(segment.header.log_start(), "an entry of the log: ", &e),
    }
}

/// Finds the first entry of the log whose bytes differ from the columns, and the offset of the difference.
fn find_log_difference(segment: &Segment, record: &Record) -> Result<Option<(LogEntry, u64)>> {
    let mut entries = segment.log_entries()?;
    entries.retain(|entry| segment.is_present(&entry.record) && is_up_to(&entry.record.counters, &record.counters));
    entries.sort_by_key(|entry| entry.record.sequence);
    for entry in entries {
        let mut difference = None;
        for (piece, logged) in entry.parts() {
            let offset = segment.header.regions[piece.region].offset + piece.at;
            let mut stored = vec![0; logged.len()];
            segment.mapping.read_at(offset as usize, &mut stored)?;
            piece.clear_unused(&mut stored);
            difference = difference.or(first_difference(offset, logged, &stored));
        }
        if let Some((offset, _)) = difference {
            return Ok(Some((entry, offset)));
        }
    }
    Ok(None)
}

/// Returns the schema of a segment, growable or not; `None` if it is damaged.
///
/// # Errors
/// Returns the errors of reading the file, which may be sound.
pub(super) fn schema_of(path: &Path) -> Result<Option<SchemaRef>> {
    match none_if_corrupt(open_segment(path))? {
        Some(Some(segment)) => Ok(Some(segment.plan.schema.schema.clone())),
        Some(None) => {
            let bytes = Bytes::from_mapping(Mapping::open(path, Mode::Read)?)?;
            let options = ReadOptions { partial: true, ..ReadOptions::default() };
            Ok(none_if_corrupt(IpcSource::open(bytes, Some(path), options))?.map(|ipc| ipc.schema().clone()))
        }
        None => Ok(None),
    }
}
