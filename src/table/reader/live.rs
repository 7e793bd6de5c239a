//! The live segment of a table as a source, and the part of a table that any source has.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::history::{History, Opened, OpenedEntry, Snapshot, Table};
use super::segment::Segment;
use crate::array::Unchecked;
#[cfg(feature = "compute")]
use crate::dataset::Zones;
use crate::dataset::{Batches, ConstantColumn, Facts, Files, Footprint, Piece, Plain, Source, ViewSource, Widths};
use crate::error::Result;
use crate::map::ChangeCheck;

/// The live segment as of one commit.
#[derive(Debug)]
pub(super) struct Live {
    pub table: Arc<Table>,
    pub history: Option<Arc<History>>,
    /// The first row of the history's.
    pub start: u64,
    pub snapshot: Snapshot,
}

impl Batches for Live {
    fn schema(&self) -> &SchemaRef {
        &self.table.schema
    }

    fn walk(&self, _until: u64) -> Result<u64> {
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

    fn column(&self, _batch: usize, column: usize) -> Result<&Unchecked> {
        self.snapshot.column(column)
    }

    fn checked(&self, _batch: usize, column: usize) -> Result<&ArrayData> {
        self.snapshot.checked(column)
    }

    fn prepare(&self, _columns: &[usize]) -> Result<()> {
        Ok(())
    }

    fn check(&self, batch: usize, column: usize) -> Result<()> {
        self.checked(batch, column).map(drop)
    }

    fn plain<'a>(
        &'a self,
        _batch: usize,
        _rows: usize,
        columns: Widths<'_>,
        _keep: bool,
        into: &mut Vec<Option<Plain<'a>>>,
    ) -> Result<()> {
        into.extend(columns.map(|_| None));
        Ok(())
    }

    fn stored_value(&self, _batch: usize, _row: usize, _column: usize, _width: usize) -> Option<&[u8]> {
        None
    }

    fn dictionary(&self, _column: usize) -> Result<Option<ArrayData>> {
        Ok(None)
    }

    fn footprint(&self) -> Footprint {
        Footprint { mapped: self.snapshot.segment.used(&self.snapshot.record), copied: 0 }
    }

    fn check_unchanged(&self, _batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        self.snapshot.segment.look(when)
    }

    fn resident(&self) -> Result<u64> {
        Ok(self.snapshot.segment.mapping.resident()? as u64)
    }
}

impl Source for Live {
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

impl Files for Live {
    fn list(&self) -> Vec<PathBuf> {
        vec![self.snapshot.segment.path().to_path_buf()]
    }

    fn version(&self) -> Option<String> {
        self.table.folder_id?.lasting().map(|made| format!("table {made}"))
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
    Live(&'a Live),
    /// Segments before it.
    Sealed(&'a History),
    /// None: its rows never change.
    Fixed,
}

impl<'a> Growth<'a> {
    /// Finds the table behind `source`, also if it is shown with other columns, as in a partition.
    pub fn find(source: &'a dyn Source) -> Growth<'a> {
        match source.find() {
            Some(live) => Growth::Live(live),
            None => source.find().map_or(Growth::Fixed, Growth::Sealed),
        }
    }

    /// The same for a table itself: what a partition's table has of its own belongs to that alone.
    pub fn of_table(piece: &'a Piece) -> Growth<'a> {
        if piece.source.adapted().is_some() { Growth::Fixed } else { Growth::find(piece.source.as_ref()) }
    }
}

/// The segment with the values of column `column` in batch `batch` of a source, if it is one of a table: the column's number
/// there, and the segment's rows.
pub(super) fn segment_of(source: &dyn Source, batch: usize, column: usize) -> Result<Option<(&Segment, usize, u64)>> {
    if let Some(stored) = source.adapted() {
        return source.adapted_column(column).map_or(Ok(None), |column| segment_of(stored, batch, column));
    }
    let snapshot = match Growth::find(source) {
        Growth::Live(live) => &live.snapshot,
        Growth::Sealed(history) => match history.entry(batch)?.open(&history.table)? {
            // The columns of an older schema differ.
            OpenedEntry { file: Opened::Growable(snapshot), fitted: None } => snapshot,
            _ => return Ok(None),
        },
        Growth::Fixed => return Ok(None),
    };
    Ok(Some((&snapshot.segment, column, snapshot.record.rows())))
}
