//! Checks a whole table: every segment, every record, every value, the footer for other Arrow readers, and the order of
//! segments.
//!
//! The files left by a writer killed at any moment are not damage. While a writer is active, a finding counts only if
//! it is found again a little later.

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
use crate::rows::{PlanZones, ZONE};
use crate::table::format::{Record, SEQUENCE, record_len};
use crate::table::protocol::log::LogEntry;
use crate::table::reader::{
    Segment, SegmentChain, chain, checksum, count_nulls, dense_settings, dense_zones, is_locked, open_mapping,
    open_segment, recount, segment,
};
use crate::table::writer::encode_front;
use crate::table::zones::zone_of;

/// The number of repeated checks for damage while a writer is active, and the pause between them.
const LOOKS: usize = 3;
/// The number of times that segments may be merged or dropped during a check of all.
const CHANGES: usize = 1000;
const PAUSE: Duration = Duration::from_millis(30);

/// Whether a folder contains segments and no other Arrow files.
pub(crate) fn is_table(folder: &Path) -> Result<bool> {
    Ok(chain::list(folder)?.is_some())
}

/// Checks the table in `folder`; `None` if there is no table.
pub(crate) fn check_table(folder: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Option<TableCheck>> {
    let is_live = is_locked(folder)?;
    let Some(mut checked) = look_at_all(folder, is_live, progress)? else { return Ok(None) };
    for _ in 0..LOOKS {
        let is_doubtful = checked.has_damage() || checked.lacks_rows();
        if !is_doubtful || !(is_live || checked.has_changed || is_locked(folder)?) {
            break;
        }
        std::thread::sleep(PAUSE);
        let Some(mut again) = look_at_all(folder, true, progress)? else { return Ok(None) };
        again.keep_known(&checked);
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
    let looked = look(path, None, is_locked(folder)?)?;
    // No rows if the segment is too damaged to tell.
    Ok(Some((looked.rows.unwrap_or(0), looked.findings)))
}

fn is_growable(path: &Path) -> Result<bool> {
    let mapping = Mapping::open(path, Mode::Read)?;
    match segment::read_front(&mapping) {
        Ok(front) => Ok(front.is_some()),
        Err(e) if e.is_corruption() => Ok(true),
        Err(e) => Err(e),
    }
}

/// Checks everything once.
pub(super) fn look_at_all(
    folder: &Path,
    is_live: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<TableCheck>> {
    let Some(mut starts) = chain::list_at_one_moment(folder)? else { return Ok(None) };
    let mut checked = TableCheck::default();
    let (mut number, mut changes) = (0, 0);
    while let Some(&start) = starts.get(number) {
        progress(number as u64, starts.len() as u64);
        match look(&chain::path(folder, start), Some(start), is_live) {
            Ok(looked) => {
                checked.segments.push(looked);
                number += 1;
            }
            // Merged with the one before it, or dropped.
            Err(e) if e.kind() == ErrorKind::NotFound && changes < CHANGES => {
                let Some(now) = chain::list_at_one_moment(folder)? else { return Err(e) };
                number = checked.go_on_without(start, &now);
                starts = now;
                changes += 1;
            }
            Err(e) => return Err(e),
        }
    }
    progress(starts.len() as u64, starts.len() as u64);
    checked.has_changed = changes > 0 || chain::list(folder)?.is_none_or(|now| now != starts);
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

fn check_orphans(folder: &Path, orphans: &[u64], checked: &mut TableCheck) -> Result<()> {
    let (kept, unfinished) = std::mem::take(&mut checked.segments)
        .into_iter()
        .partition(|segment: &SegmentCheck| !orphans.contains(&segment.start));
    checked.segments = kept;
    for segment in unfinished {
        let mut found = Findings::new(&chain::path(folder, segment.start));
        found.note(None, "begun by a commit that never came about; the next writer removes it");
        checked.folder.append(&mut found.into_list()?);
    }
    Ok(())
}

/// Checks that all segments have the schema of the last one, or an older one that can be changed into it.
fn check_schemas(folder: &Path, segments: &mut [SegmentCheck]) -> Result<()> {
    let schemas: Vec<SchemaRef> = segments.iter().filter_map(|segment| segment.schema.clone()).collect();
    let Some((newest, others)) = schemas.split_last() else { return Ok(()) };
    let differ = |newest: &SchemaRef, others: &[SchemaRef]| {
        others.iter().any(|own| SchemaConversion::try_new(newest, own).is_err())
    };
    // If all others agree, the last one is wrong.
    let newest = match others.split_last() {
        Some((last, rest)) if differ(newest, others) && !differ(last, rest) => last,
        _ => newest,
    };
    for segment in segments {
        let mut found = Findings::new(&chain::path(folder, segment.start));
        if let Some(Err(e)) = segment.schema.as_ref().map(|own| SchemaConversion::try_new(newest, own)) {
            segment.is_foreign = true;
            found.damage(8, format!("the schemas of the table and of this segment differ: {}", e.message()));
        }
        segment.findings.append(&mut found.into_list()?);
    }
    Ok(())
}

/// Checks that each segment ends where the next one begins.
fn check_chain(folder: &Path, is_live: bool, checked: &mut TableCheck) -> Result<()> {
    check_schemas(folder, &mut checked.segments)?;
    for number in 1..checked.segments.len() {
        let next = checked.segments[number].start;
        let before = &mut checked.segments[number - 1];
        let mut found = Findings::new(&chain::path(folder, before.start));
        match before.rows {
            Some(rows) if before.dense && before.start + rows > next => {
                let end = before.start + rows;
                found.note(
                    None,
                    format!("it has all rows to {end}, and the next segment begins with {next}: compacting was cut off; compact the table"),
                );
                before.rows = Some(next - before.start);
            }
            Some(rows) if before.start + rows != next => {
                let end = before.start + rows;
                found.damage(None, format!("it ends with row {end}, expected {next}, where the next segment begins"));
            }
            Some(_) if !before.sealed => found.add(!is_live, None, "a segment follows, and this one is not sealed"),
            _ => (),
        }
        before.findings.append(&mut found.into_list()?);
    }
    Ok(())
}

fn check_folder(folder: &Path, checked: &mut TableCheck) -> Result<()> {
    let failed = |e: std::io::Error| Error::io("listing the directory", &e).at(folder);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path: PathBuf = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|extension| extension != "arrow") {
            let mut found = Findings::new(&path);
            found.note(None, "no segment; a table's directory should hold nothing else, as many readers take it whole");
            checked.folder.append(&mut found.into_list()?);
        }
    }
    Ok(())
}

/// Checks one segment, which should begin with row `start`.
fn look(path: &Path, start: Option<u64>, is_live: bool) -> Result<SegmentCheck> {
    let mapping = Mapping::open(path, Mode::Read)?;
    // A single file may begin with any row; the header says which, if it can be read.
    let mut looked = SegmentCheck { start: start.unwrap_or(0), ..SegmentCheck::default() };
    let mut found = Findings::new(path);
    match open_mapping(mapping.clone()) {
        Ok(Some(segment)) => {
            let first = segment.header.first_row;
            if let Some(start) = start.filter(|&start| start != first) {
                let (_, at) = segment::read_front(&mapping)?.unwrap_or_default();
                found.damage(
                    at as u64 + 24,
                    format!("the segment's first row: expected {start} by its name, got {first}"),
                );
            }
            look_at_growing(&segment, is_live, &mut found, &mut looked);
        }
        Ok(None) => look_at_dense(mapping, path, &mut found, &mut looked)?,
        Err(e) if e.is_corruption() => {
            // The parts after the schema can be damaged only if the schema is not.
            let front = segment::read_front(&mapping).ok().flatten();
            let schema = front.as_ref().map(|(schema, _)| IpcSchema::parse_message(schema).is_ok());
            let at = match (schema, front) {
                (Some(false), _) => Some(8),
                (_, front) => front.map(|(_, at)| at as u64),
            };
            found.damage(at, e.message());
        }
        Err(e) => return Err(e),
    }
    looked.findings = found.into_list()?;
    Ok(looked)
}

/// Checks a dense segment: one batch, and nothing between the schema and the batches listed in the footer.
fn look_at_dense(mapping: Mapping, path: &Path, found: &mut Findings, looked: &mut SegmentCheck) -> Result<()> {
    let options = ReadOptions { thorough: true, ..ReadOptions::default() };
    let ipc = match IpcSource::open(Bytes::from_mapping(mapping)?, Some(path), options) {
        Ok(ipc) => ipc,
        Err(e) if e.is_corruption() => {
            found.damage(None, e.message());
            return Ok(());
        }
        Err(e) => return Err(e),
    };
    let CheckSummary { rows, batches, .. } = ipc.check_all(found, &mut |_, _| ());
    if batches != 1 {
        found.damage(None, format!("a segment has one record batch, got {batches}"));
    }
    if let Ok([schema, first, ..]) = ipc.frames().as_deref()
        && first.offset > schema.body().next_multiple_of(64)
    {
        let expected = schema.body();
        let got = first.offset;
        found.damage(
            expected as u64,
            format!("expected the first message behind the schema, got it at byte {got}: no dense file, and no header"),
        );
    }
    check_settings(&ipc, found);
    looked.rows = Some(rows);
    looked.in_file = rows;
    looked.sealed = true;
    looked.dense = true;
    looked.schema = Some(ipc.schema().clone());
    Ok(())
}

/// Checks that the table's settings in the schema's metadata are valid, and match a dense segment's rows.
fn check_settings(ipc: &IpcSource, found: &mut Findings) {
    let settings = match dense_settings(ipc.schema()) {
        Ok(settings) => settings,
        Err(e) => return found.error(8, &e),
    };
    settings.index.iter().for_each(|&column| check_dense_zones(ipc, column as usize, found));
    let Some(column) = settings.order().map(|column| column as usize) else { return };
    // A damaged column was reported before.
    if let Ok(array) = ipc.checked_column(0, column)
        && let Err(e) = order::check_ascending(ipc.schema().field(column).name(), array, None)
    {
        found.damage(None, e.message());
    }
}

/// Checks that the zones in a dense segment's footer match its rows.
fn check_dense_zones(ipc: &IpcSource, column: usize, found: &mut Findings) {
    let (rows, zones) = match dense_zones(ipc, column) {
        Ok(Some(zones)) => zones,
        Ok(None) => return,
        Err(e) => return found.error(None, &e),
    };
    let Ok(array) = ipc.checked_column(0, column) else { return };
    let block = |start: usize| zone_of(&slice(array, start, (array.len() - start).min(rows as usize)));
    let wrong = (0..zones.len()).find(|&number| !block(number * rows as usize).is_ok_and(|zone| zone == zones[number]));
    if let Some(number) = wrong {
        let name = ipc.schema().field(column).name().clone();
        found.damage(None, format!("zone {number} of column '{name}', in the footer, is not that of its rows"));
    }
}

fn look_at_growing(segment: &Segment, is_live: bool, found: &mut Findings, looked: &mut SegmentCheck) {
    looked.schema = Some(segment.plan.schema.schema.clone());
    check_front(segment, found);
    // Before the records: the published rows were committed earlier.
    let footer = footer_check::read(segment);
    let is_of_today = match check_records(segment, is_live, footer.as_ref().ok(), found) {
        Ok(is_of_today) => is_of_today,
        Err(e) => return found.error(segment.header.live, &e),
    };
    let record = match segment.newest() {
        Ok(record) => record,
        // The damaged record was reported before.
        Err(e) if e.is_corruption() && found.has_damage() => return,
        Err(e) => return found.error(segment.header.live, &e),
    };
    (looked.rows, looked.sealed) = (Some(record.rows()), record.sealed);
    check_values(segment, &record, found);
    recount(segment, &record.counters).into_iter().for_each(|(at, message)| {
        found.damage(at, format!("{message}, as the commit record of {} rows says", record.rows()));
    });
    check_dictionaries(segment, &record, found);
    if let Err(e) = segment.position_names(&record) {
        found.error(segment.header.regions[segment.plan.names.region].offset, &e);
    }
    check_log(segment, &record, found);
    match footer {
        Err(FooterError::Unwritten((at, message))) if !is_of_today => {
            looked.lacks_footer = true;
            let message = format!(
                "other readers find no rows: {message}; a crash came before that was on the disk. The next writer puts it \
                 right, or `arrowwood check --repair`"
            );
            found.note(at, message);
        }
        Err(FooterError::Damage((at, message)) | FooterError::Unwritten((at, message))) => found.damage(at, message),
        Err(FooterError::Unread(e)) => found.error(segment.header.tail, &e),
        Ok(footer) => check_footer(segment, &record, &footer, is_live || !is_of_today, found),
    }
}

/// Checks that the bytes before the header are those written by this version, or have the same meaning.
fn check_front(segment: &Segment, found: &mut Findings) {
    let expected = encode_front(&segment.plan);
    let mut there = vec![0; expected.len()];
    if let Err(e) = segment.mapping.read_at(0, &mut there) {
        return found.error(0, &e.into());
    }
    if let Some((at, message)) = footer_check::first_difference(0, &expected, &there) {
        found.note(at, format!("the front of the file: {message}"));
    }
}

/// The four records of a segment; `None` for a torn one.
struct Records {
    word: u64,
    /// The record of that number, and the other one.
    visible: [Option<Record>; 2],
    durable: [Option<Record>; 2],
}

impl Records {
    fn read(segment: &Segment) -> Result<Records> {
        let mut looks = 0;
        loop {
            let word = segment.sequence();
            let visible = segment.records_at([word, word ^ 1].map(|number| segment.header.page().record(number)))?;
            let durable = segment.both_durable()?;
            looks += 1;
            if segment.sequence() == word || looks > 1000 {
                return Ok(Records { word, visible, durable });
            }
        }
    }

    /// The visible record that doesn't count yet: of a commit that a killed writer had prepared, or had not stored the
    /// number of. The footer for other readers shows rows of a prepared commit, but else of committed ones only.
    fn uncommitted(&self, segment: &Segment, footer: Option<&FooterCheck>) -> Option<&Record> {
        let [current, other] = &self.visible;
        let current = current.as_ref().filter(|now| now.sequence == self.word && segment.is_present(now))?;
        let next = other.as_ref().filter(|other| other.sequence == self.word + 1 && segment.is_present(other))?;
        let is_shown =
            footer.is_some_and(|footer| !is_up_to(&footer.with_names_of(segment, current), &current.counters));
        Some(next).filter(|next| next.sealed && !current.sealed || !is_shown)
    }

    fn all(&self) -> impl Iterator<Item = &Record> {
        self.visible.iter().chain(&self.durable).flatten()
    }

    /// The intact records, with their offsets.
    fn placed<'a>(&'a self, segment: &'a Segment) -> impl Iterator<Item = (u64, &'a Record)> {
        let page = segment.header.page();
        let visible = [self.word, self.word ^ 1].map(|number| page.record(number));
        let durable = [0, 1].map(|number| segment.header.durable(number));
        let places = visible.into_iter().chain(durable);
        let records = self.visible.iter().chain(&self.durable);
        places.zip(records).filter_map(|(at, record)| Some((at, record.as_ref()?)))
    }

    /// The durable records that can belong to the segment.
    fn sound_durable(&self, segment: &Segment) -> impl Iterator<Item = &Record> {
        self.durable.iter().flatten().filter(|record| segment.check_record(record).is_ok())
    }

    /// The counters at which a durable record's checksum begins, if still known.
    fn before(&self, segment: &Segment, record: &Record) -> Option<Vec<u64>> {
        if record.previous == 0 {
            return Some(vec![0; segment.header.limits.len()]);
        }
        let before = self.sound_durable(segment).find(|other| other.sequence == record.previous);
        before.map(|before| before.counters.clone())
    }
}

/// Returns whether the newest commits are of this boot: otherwise the effects of a system crash are not damage.
///
/// # Errors
/// Those of reading the records.
fn check_records(segment: &Segment, is_live: bool, footer: Option<&FooterCheck>, found: &mut Findings) -> Result<bool> {
    let records = Records::read(segment)?;
    // Whether the page cache is that of the writer is known when the newest commit is.
    let newest = segment.newest();
    // Where only a comparison says that its rows are there, or no record is whole that says so, what was written beside them may
    // be lost as by a crash.
    let is_of_today = segment.is_same() && records.all().any(|record| segment.is_present(record));
    let header = &segment.header;
    let word = records.word;
    let [current, other] = &records.visible;
    if current.as_ref().is_none_or(|record| record.sequence != word) {
        let got = current.as_ref().map_or("none that is whole".into(), |record| format!("that of {}", record.sequence));
        let back = match &newest {
            Ok(record) => format!("readers go back to {} rows", record.rows()),
            Err(_) => "readers refuse the segment".into(),
        };
        let message = format!("the newest commit record: expected that of commit {word}, got {got}; {back}");
        found.add(is_of_today, header.page().record(word), message);
    }
    for (at, record) in records.placed(segment) {
        if let Err(e) = segment.check_record(record) {
            found.damage(at, e.message());
        }
    }
    match other {
        Some(other) if other.sequence > word && segment.is_present(other) => {
            let number = other.sequence;
            let rows = other.rows();
            let message = format!(
                "the number of the newest commit: expected {number}, whose record of {rows} rows is whole, got {word}"
            );
            // A killed writer leaves this state after a commit that changes no row, or before one counts.
            let is_same = current.as_ref().is_some_and(|now| {
                now.counters == other.counters && now.positions == other.positions && now.sealed == other.sealed
            });
            // The first one after a crash of the machine lacks what was lost.
            let is_first = current.as_ref().is_some_and(|now| !segment.is_present(now));
            let is_damage = !is_live && !is_same && !is_first && records.uncommitted(segment, footer).is_none();
            found.add(is_damage, header.live + SEQUENCE, message);
        }
        None if !is_blank(segment, header.page().record(word ^ 1))? => {
            found.note(header.page().record(word ^ 1), "the commit record that nobody reads is not whole");
        }
        _ => (),
    }
    for number in 0..2 {
        if records.durable[number].is_none() && !is_blank(segment, header.durable(number as u64))? {
            found.add(is_of_today && !is_live, header.durable(number as u64), "a durable record is not whole");
        }
    }
    check_durable(segment, &records, is_of_today, found);
    Ok(is_of_today)
}

fn is_blank(segment: &Segment, at: u64) -> Result<bool> {
    let mut bytes = vec![0; record_len(segment.header.limits.len(), 0)];
    segment.mapping.read_at(at as usize, &mut bytes)?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// Checks that durable records are not ahead of the newest commit, and that the appended bytes match their checksums.
fn check_durable(segment: &Segment, records: &Records, is_of_today: bool, found: &mut Findings) {
    let newest = match segment.newest() {
        Ok(newest) => newest,
        // Other damage of the newest commit was reported before.
        Err(e) if e.is_corruption() => return,
        Err(e) => return found.error(segment.header.live, &e),
    };
    for (number, record) in records.durable.iter().enumerate() {
        let Some(record) = record.as_ref().filter(|record| segment.check_record(record).is_ok()) else { continue };
        let at = segment.header.durable(number as u64);
        let is_newer = !is_up_to(&record.counters, &newest.counters) || record.sealed && !newest.sealed;
        if is_newer {
            let rows = record.rows();
            let visible = newest.rows();
            // After a system crash the newest commit may have been given up; its number is smaller then.
            let is_damage = is_of_today && record.sequence >= newest.sequence;
            found.add(is_damage, at, format!("a durable record of {rows} rows, the newest commit has {visible}"));
            continue;
        }
        let Some(before) = records.before(segment, record) else { continue };
        match checksum(segment, &before, record) {
            Ok(got) if got == record.delta => (),
            Ok(got) => {
                let from = before[0];
                let to = record.rows();
                let expected = record.delta;
                let message =
                    format!("rows {from} to {to} of the segment: expected checksum {expected:08x}, got {got:08x}");
                found.add(is_of_today, at, message);
            }
            Err(e) => found.error(at, &e),
        }
    }
}

fn is_up_to(counters: &[u64], others: &[u64]) -> bool {
    counters.len() == others.len() && counters.iter().zip(others).all(|(a, b)| a <= b)
}

/// The rows up to which no damage is found except, possibly, in the values themselves.
///
/// # Errors
/// Those of the system.
pub(super) fn trusted(segment: &Segment) -> Result<Record> {
    let records = Records::read(segment)?;
    let seen = match segment.newest() {
        Err(e) if !e.is_corruption() => return Err(e),
        seen => seen.ok(),
    };
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
    let zeros = || Record { counters: vec![0; segment.header.limits.len()], ..Record::default() };
    let newest = sound.first().map(|record| (*record).clone()).or(seen);
    // If an invalid record hides the newest valid one, use the newest durable one.
    let durable = || records.sound_durable(segment).max_by_key(|record| record.rows()).cloned();
    let mut newest = newest.or_else(durable).unwrap_or_else(zeros);
    for record in records.sound_durable(segment) {
        let Some(before) = records.before(segment, record) else { continue };
        if record.rows() <= newest.rows() && checksum(segment, &before, record)? != record.delta {
            newest = Record { counters: before, ..record.clone() };
        }
    }
    match against_log(segment, &newest) {
        Ok(Some((entry, _))) => newest = Record { counters: entry.before, ..newest },
        Err(e) if !e.is_corruption() => return Err(e),
        _ => (),
    }
    // Null counts have no location; the best known counts are those of an older record that match its bitmaps.
    let agrees = |record: &Record| nulls_agree(segment, &record.counters);
    if agrees(&newest) {
        return Ok(newest);
    }
    let older = sound.into_iter().find(|record| record.rows() <= newest.rows() && agrees(record));
    Ok(older.cloned().unwrap_or_else(zeros))
}

fn nulls_agree(segment: &Segment, counters: &[u64]) -> bool {
    let mut wrong = Vec::new();
    segment.plan.columns.iter().for_each(|column| count_nulls(segment, column, counters[0], counters, &mut wrong));
    wrong.is_empty()
}

fn check_values(segment: &Segment, record: &Record, found: &mut Findings) {
    let columns = &segment.plan.columns;
    let check = |number: usize| segment.column(number, record).and_then(|array| segment.checked(number, array, record));
    let bytes = usize::try_from(segment.used(record)).unwrap_or(usize::MAX);
    let checked = parallel::map(columns.len(), bytes, check);
    for (column, checked) in columns.iter().zip(&checked) {
        if let Err(e) = checked {
            let at = segment.header.regions[column.region].offset;
            let name = column.field.name();
            // A column without a bitmap begins with its second buffer.
            let at = if at == 0 {
                segment.header.regions.get(column.region + 1).map(|region| region.offset)
            } else {
                Some(at)
            };
            found.error_in(at, &format!("column '{name}': "), e);
        }
    }
    let sorted = segment.header.order().map(|column| column as usize);
    if let Some((column, Some(Ok(array)))) = sorted.map(|number| (columns.get(number), checked.get(number)))
        && let Some(Err(e)) = column.map(|column| order::check_ascending(column.field.name(), array, None))
    {
        let at = column.map(|column| segment.header.regions[column.region + 1].offset);
        found.damage(at, e.message());
    }
    for map in &segment.plan.zones {
        if let Some(Ok(array)) = checked.get(map.column)
            && let Err((at, e)) = check_zones(segment, record, map, array)
        {
            found.error(segment.header.regions[map.region].offset + at, &e);
        }
    }
}

/// Checks that the zones of a column are those of its rows; the error comes with the offset of the first other one.
fn check_zones(segment: &Segment, record: &Record, map: &PlanZones, array: &ArrayData) -> Result<(), (u64, Error)> {
    let zones = segment.zones(map, record).map_err(|e| (0, e))?;
    let expected = |number: usize| zone_of(&slice(array, number * map.rows as usize, map.rows as usize));
    let wrong = (0..zones.len()).find(|&number| !expected(number).is_ok_and(|zone| zone == zones[number]));
    let Some(wrong) = wrong else { return Ok(()) };
    let name = segment.plan.columns[map.column].field.name();
    Err((wrong as u64 * ZONE, Error::invalid(format!("zone {wrong} of column '{name}' is not that of its rows"))))
}

/// Checks that the values of a dictionary are distinct: otherwise equal values could have different keys.
fn check_dictionaries(segment: &Segment, record: &Record, found: &mut Findings) {
    for dictionary in &segment.plan.dictionaries {
        let count = record.counters[dictionary.entries];
        let Some([_, first, data]) = dictionary.values.lengths(count, &record.counters) else { continue };
        let region = dictionary.values.region;
        let data = if dictionary.bytes().is_some() {
            segment.region_slice(region + 2, 0, data)
        } else {
            Some(Buffer::default())
        };
        let Some((first, data)) = segment.region_slice(region + 1, 0, first).zip(data) else { continue };
        // Values outside the data were reported before.
        let Some(values) = dictionary.stored(count as usize, &first, &data) else { continue };
        let mut known = dictionary.new_entries();
        let mut values = values.into_iter().enumerate();
        let twice = values.find(|(number, value)| known.key(value).is_none_or(|key| key as usize != *number));
        if let Some((number, _)) = twice {
            let at = segment.header.regions[region + 1].offset + first.len() as u64 / count * number as u64;
            found.damage(at, format!("entry {number} of a dictionary is there twice"));
        }
    }
}

/// Checks that the footer for other Arrow readers is correct, and, if no writer can be publishing, shows the newest
/// commit.
fn check_footer(segment: &Segment, record: &Record, footer: &FooterCheck, is_open: bool, found: &mut Findings) {
    let tail = segment.header.tail;
    if let Some((at, message)) = &footer.odd {
        found.note(*at, format!("what other readers see: {message}"));
    }
    let counters = footer.with_names_of(segment, record);
    let rows = counters[0];
    let newest = record.rows();
    if !is_up_to(&counters, &record.counters) {
        let message = format!("other readers see {rows} rows, committed are {newest}; the next writer puts that right");
        return found.add(!is_open && record.sealed, tail, message);
    }
    if counters != record.counters {
        for (at, message) in recount(segment, &counters) {
            found.damage(at, format!("{message}, as other readers see it with {rows} rows"));
        }
        let there = match segment.both_durable() {
            Ok(there) => there,
            Err(e) => return found.error(tail, &e),
        };
        let is_closed =
            there.iter().all(|durable| durable.as_ref().is_some_and(|durable| durable.counters == record.counters));
        if !is_open && (record.sealed || is_closed) {
            return found.damage(tail, format!("other readers see {rows} rows, expected {newest}"));
        }
    }
    if let Some(later) = footer.later.filter(|_| !is_open) {
        let message = format!("other readers see {rows} rows of {newest}, and footer {later} was written later");
        found.note(tail, message);
    }
}

/// Checks that the bytes of small durable commits in the log, of this boot, equal those in the columns.
fn check_log(segment: &Segment, record: &Record, found: &mut Findings) {
    match against_log(segment, record) {
        Ok(None) => (),
        Ok(Some((entry, at))) => {
            let rows = entry.record.rows();
            let sequence = entry.record.sequence;
            found.damage(at, format!("rows up to {rows} of the segment: the log of commit {sequence} has other bytes"));
        }
        Err(e) => found.error_in(segment.header.log_start(), "an entry of the log: ", &e),
    }
}

/// The first entry of the log whose bytes differ from the columns, and the offset of the difference.
fn against_log(segment: &Segment, record: &Record) -> Result<Option<(LogEntry, u64)>> {
    let mut entries = segment.log_entries()?;
    entries.retain(|entry| segment.is_present(&entry.record) && is_up_to(&entry.record.counters, &record.counters));
    entries.sort_by_key(|entry| entry.record.sequence);
    for entry in entries {
        let mut other = None;
        for (piece, logged) in entry.parts() {
            let at = segment.header.regions[piece.region].offset + piece.at;
            let mut there = vec![0; logged.len()];
            segment.mapping.read_at(at as usize, &mut there)?;
            piece.clear_unused(&mut there);
            other = other.or(first_difference(at, logged, &there));
        }
        if let Some((at, _)) = other {
            return Ok(Some((entry, at)));
        }
    }
    Ok(None)
}

/// The schema of a segment, growable or not; `None` if it is damaged.
///
/// # Errors
/// Those of reading the file, which may be sound.
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
