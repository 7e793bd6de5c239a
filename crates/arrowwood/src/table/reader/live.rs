//! Reads the live segment of a table as a source, and finds the part of a table behind any source.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::sealed_source::{OpenedFile, OpenedSegment, SealedSource, Snapshot, TableInfo};
use super::segment::Segment;
use crate::array::UncheckedArray;
#[cfg(feature = "compute")]
use crate::dataset::Zones;
use crate::dataset::{Batches, ConstantColumn, Facts, Files, Footprint, Source, SourceSlice, ViewSource};
use crate::error::Result;
use crate::map::ChangeCheck;

/// The rows of the live segment at one commit, as a source of one batch. A refresh that finds a newer commit makes
/// another one.
#[derive(Debug)]
pub(super) struct LiveSource {
    pub table: Arc<TableInfo>,
    /// The segments before this one; `None` if it is the table's first.
    pub history: Option<Arc<SealedSource>>,
    /// The table's first row: the first one of the history, or of this segment.
    pub start: u64,
    pub snapshot: Snapshot,
}

impl Batches for LiveSource {
    fn schema(&self) -> &SchemaRef {
        &self.table.schema
    }

    fn count_until(&self, _until: u64) -> Result<u64> {
        Ok(self.snapshot.record.rows())
    }

    fn num_batches(&self) -> Result<usize> {
        Ok(1)
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        Ok((batch == 0).then(|| 0..self.snapshot.record.rows()))
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        Ok((row < self.snapshot.record.rows()).then_some(0))
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        let row = self.snapshot.record.rows().checked_sub(back);
        Ok(row.map(|row| (0, row as usize)))
    }

    fn column(&self, _batch: usize, column: usize) -> Result<&UncheckedArray> {
        self.snapshot.column(column)
    }

    fn checked_column(&self, _batch: usize, column: usize) -> Result<&ArrayData> {
        self.snapshot.checked(column)
    }

    fn footprint(&self) -> Footprint {
        Footprint { mapped: self.snapshot.segment.used(&self.snapshot.record), copied: 0 }
    }

    fn check_unchanged(&self, _batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        self.snapshot.segment.check_unchanged(when)
    }

    fn resident(&self) -> Result<u64> {
        Ok(self.snapshot.segment.mapping.resident()? as u64)
    }
}

impl Source for LiveSource {
    fn facts(&self) -> Facts<'_> {
        Facts { files: Some(self), first_row: self.snapshot.segment.header.first_row, ..self.table.facts() }
    }

    fn constants(&self) -> &[ConstantColumn] {
        &[]
    }

    fn view(&self) -> Option<&dyn ViewSource> {
        None
    }

    fn adapted(&self) -> Option<&dyn Source> {
        None
    }

    fn adapted_column(&self, _column: usize) -> Option<usize> {
        None
    }

    #[cfg(feature = "compute")]
    fn has_zones(&self, column: usize) -> bool {
        self.table.has_index(column)
    }

    #[cfg(feature = "compute")]
    fn zones(&self, _batch: usize, column: usize) -> Result<Option<Zones>> {
        self.snapshot.zones(column)
    }
}

impl Files for LiveSource {
    fn list(&self) -> Vec<PathBuf> {
        vec![self.snapshot.segment.path().to_path_buf()]
    }

    fn version(&self) -> Option<String> {
        self.table.folder_id?.persistent_id().map(|made| format!("table {made}"))
    }

    fn are_merged(&self) -> bool {
        true
    }

    fn successor(&self, file: &Path) -> Result<Option<PathBuf>> {
        self.table.successor(file)
    }
}

/// The part that a source has of a table that grows.
pub(super) enum Growth<'a> {
    /// The last segment, to which rows are appended.
    Live(&'a LiveSource),
    /// Segments before it.
    Sealed(&'a SealedSource),
    /// No part: its rows never change.
    Fixed,
}

impl<'a> Growth<'a> {
    /// Finds the table behind `source`, even if an adapter gives it other columns, as in a partition.
    pub fn find(source: &'a dyn Source) -> Growth<'a> {
        match source.find() {
            Some(live) => Growth::Live(live),
            None => source.find().map_or(Growth::Fixed, Growth::Sealed),
        }
    }

    /// Finds the table of a piece, unless an adapter gives it other columns: a partition's table is refreshed by its
    /// dataset.
    pub fn for_table(piece: &'a SourceSlice) -> Growth<'a> {
        if piece.source.adapted().is_some() { Growth::Fixed } else { Growth::find(piece.source.as_ref()) }
    }
}

/// Returns the segment with the values of column `column` in batch `batch` of a source, the column's number there, and
/// the segment's rows; `None` if the source is no table.
pub(super) fn segment_of(source: &dyn Source, batch: usize, column: usize) -> Result<Option<(&Segment, usize, u64)>> {
    if let Some(stored) = source.adapted() {
        return source.adapted_column(column).map_or(Ok(None), |column| segment_of(stored, batch, column));
    }
    let snapshot = match Growth::find(source) {
        Growth::Live(live) => &live.snapshot,
        Growth::Sealed(history) => match history.entry(batch)?.open(&history.table)? {
            // The columns of an older schema differ.
            OpenedFile { file: OpenedSegment::Growable(snapshot), conversion: None } => snapshot,
            _ => return Ok(None),
        },
        Growth::Fixed => return Ok(None),
    };
    Ok(Some((&snapshot.segment, column, snapshot.record.rows())))
}
