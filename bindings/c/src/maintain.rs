//! Checks, repairs, compacts and describes files and tables.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use arrowwood::{Dataset, Error, ErrorKind, Report, Result, check, compact, repair, table_stat};

use crate::dataset::CDataset;
use crate::ffi::*;

structs! {
    /// `arrowwood_report`.
    struct CReport {
        size: u64,
        rows: u64,
        batches: u64,
        segments: u64,
        damaged: u64,
        kept: u64,
        given_up: i64,
    }

    /// `arrowwood_stat`.
    struct CStat {
        size: u64,
        segments: u64,
        dense: u64,
        first_row: u64,
        end: u64,
        durable_end: u64,
        sequence: u64,
        disk: u64,
        apparent: u64,
        segment_rows: u64,
        writer: i32,
        is_live: i32,
    }
}

// `tests/capi/c/layout.c` has the same numbers.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<CReport>() == 56 && offset_of!(CReport, damaged) == 32 && offset_of!(CReport, given_up) == 48);
    assert!(size_of::<CStat>() == 88 && offset_of!(CStat, sequence) == 48 && offset_of!(CStat, segment_rows) == 72);
    assert!(offset_of!(CStat, writer) == 80 && offset_of!(CStat, is_live) == 84);
};

/// `segment_rows` of a table if it is unknown.
const UNKNOWN_SEGMENT_ROWS: u64 = 0;
/// `writer` of a table that nobody writes.
const NO_WRITER: i32 = 0;
/// `given_up` of a report if it is unknown.
const UNKNOWN_ROWS: i64 = -1;

/// Returns the numbers of a report.
fn report_numbers(report: &Report) -> CReport {
    let repaired = report.repaired.as_ref();
    CReport {
        // The caller's own stays.
        size: 0,
        rows: report.rows,
        batches: report.batches,
        segments: report.segments,
        damaged: report.damage().count() as u64,
        kept: repaired.map_or(0, |done| done.kept),
        given_up: repaired.map_or(0, |done| done.given_up.map_or(UNKNOWN_ROWS, |rows| rows as i64)),
    }
}

/// Returns a row for each finding.
fn findings_table(report: &Report) -> Result<Dataset> {
    let all = &report.findings;
    let columns: Vec<(Field, ArrayRef)> = vec![
        (
            text_field("path"),
            Arc::new(StringArray::from_iter_values(all.iter().map(|finding| path_text(&finding.path)))),
        ),
        (
            Field::new("offset", DataType::UInt64, true),
            Arc::new(all.iter().map(|finding| finding.offset).collect::<UInt64Array>()),
        ),
        (text_field("message"), Arc::new(StringArray::from_iter_values(all.iter().map(|found| &found.message)))),
        (
            Field::new("is_damage", DataType::Boolean, false),
            Arc::new(BooleanArray::from_iter(all.iter().map(|found| Some(found.is_damage)))),
        ),
    ];
    dataset_from_columns(columns)
}

/// Returns a row for each damaged file that a repair has moved, with its new path.
fn moved_table(report: &Report) -> Result<Dataset> {
    let paths = report.repaired.iter().flat_map(|done| &done.moved).map(|path| Some(path_text(path)));
    dataset_from_columns(vec![(text_field("path"), Arc::new(paths.collect::<StringArray>()))])
}

fn text_field(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Creates a dataset from columns.
pub fn dataset_from_columns(columns: Vec<(Field, ArrayRef)>) -> Result<Dataset> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays);
    let batch = batch.map_err(|e| Error::new(ErrorKind::InvalidData, e.to_string()))?;
    Dataset::from_batches(schema, vec![batch])
}

export! {
    /// Checks all of a file or table.
    fn arrowwood_check(
        path: CPath, progress: Progress, context: Context, report: SizedOut<CReport>,
        findings: Optional<HandleOut<CDataset>>,
    ) {
        let checked = check(path, progress.with(context))?;
        let listed = findings_table(&checked)?;
        report.put(report_numbers(&checked));
        findings.into_iter().for_each(|out| out.put(CDataset::new(listed.clone())));
        Ok(())
    }

    /// Checks, and keeps the rows before the first damage.
    fn arrowwood_repair(
        path: CPath, progress: Progress, context: Context, report: SizedOut<CReport>,
        findings: Optional<HandleOut<CDataset>>, moved: Optional<HandleOut<CDataset>>,
    ) {
        let repaired = repair(path, progress.with(context))?;
        let listed = findings_table(&repaired)?;
        let moved_paths = moved_table(&repaired)?;
        report.put(report_numbers(&repaired));
        findings.into_iter().for_each(|out| out.put(CDataset::new(listed.clone())));
        moved.into_iter().for_each(|out| out.put(CDataset::new(moved_paths.clone())));
        Ok(())
    }

    /// Rewrites all segments of a table densely.
    fn arrowwood_compact(path: CPath, progress: Progress, context: Context, rewritten: Optional<OutPtr<u64>>) {
        let count = compact(path, progress.with(context))?;
        rewritten.into_iter().for_each(|out| out.put(count));
        Ok(())
    }

    /// Facts about a table.
    fn arrowwood_table_stat(path: CPath, stat: SizedOut<CStat>) {
        let Some(table) = table_stat(path)? else {
            return Err(Error::new(ErrorKind::NotFound, "there is no table").at(path));
        };
        stat.put(CStat {
            // The caller's own stays.
            size: 0,
            segments: table.segments,
            dense: table.dense,
            first_row: table.first_row,
            end: table.end,
            durable_end: table.durable_end,
            sequence: table.sequence,
            disk: table.disk,
            apparent: table.apparent,
            segment_rows: table.segment_rows.unwrap_or(UNKNOWN_SEGMENT_ROWS),
            writer: table.writer.map_or(NO_WRITER, u32::cast_signed),
            is_live: table.live.into(),
        });
        Ok(())
    }
}
