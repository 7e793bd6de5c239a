//! [`Shard`]: one of many files of a dataset, mapped when its values are first used.
//!
//! A process may have some thousands of open files and 65,530 mappings. Opening a shard reads its schema and the
//! headers of its batches, and closes the file again; the first use of its values opens and maps it, and closes only
//! the file.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arrow_data::ArrayData;
use arrow_schema::SchemaRef;

use super::data::ReadOptions;
use super::source::IpcSource;
use crate::array::{Bytes, UncheckedArray};
#[cfg(feature = "compute")]
use crate::dataset::Zones;
use crate::dataset::{
    Batches, ColumnWidths, ConstantColumn, Facts, Files, FixedWidthValues, Footprint, Source, ViewSource,
    stream_version,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::framing::{SchemaCache, probe_segment};
use crate::map::{ChangeCheck, FileState, Mapping, Mode, UnmappedFile};

/// The limit of batches whose headers are read when a shard is opened.
const MAX_BATCHES_READ: usize = 64;

/// A file of a dataset of many.
#[derive(Debug)]
pub(crate) struct Shard {
    path: PathBuf,
    /// The absolute path, if `path` is relative.
    absolute: Option<PathBuf>,
    state: FileState,
    options: ReadOptions,
    schema: SchemaRef,
    /// True if the file has a footer, so that it can't grow.
    is_file: bool,
    /// The row after each batch's last; `None` if there are more than a few batches.
    ends: Option<Box<[u64]>>,
    ipc: OnceLock<Box<IpcSource>>,
}

impl Shard {
    /// Opens the file at `path`, whose schema may be cached; `absolute` is its absolute path if `path` is relative.
    /// Returns `None` for a segment of a table, which its writer may change while it is open.
    ///
    /// # Errors
    /// The errors of opening an Arrow file or stream. They don't contain the path.
    pub(crate) fn open(
        path: &Path,
        absolute: Option<PathBuf>,
        options: ReadOptions,
        schema_cache: &SchemaCache,
    ) -> Result<Option<Shard>> {
        let file = UnmappedFile::open(absolute.as_deref().unwrap_or(path))?;
        let state = file.state();
        let bytes = Bytes::from_unmapped_file(file);
        if probe_segment(bytes.len(), |at, into| bytes.read_at(at, into))?.is_some() {
            return Ok(None);
        }
        let ipc = IpcSource::open_with_cache(bytes, None, options, schema_cache)?;
        let ends = batch_ends(&ipc)?.map(Into::into);
        let schema = ipc.schema().clone();
        let is_file = ipc.is_file();
        Ok(Some(Shard { path: path.into(), absolute, state, options, schema, is_file, ends, ipc: OnceLock::new() }))
    }

    /// Returns the mapped file.
    fn ipc(&self) -> Result<&IpcSource> {
        if let Some(ipc) = self.ipc.get() {
            return Ok(ipc);
        }
        let ipc = self.map().map_err(|e| e.at(&self.path))?;
        Ok(self.ipc.get_or_init(|| Box::new(ipc)))
    }

    /// Maps the file, which must be the one that was opened.
    fn map(&self) -> Result<IpcSource> {
        let mapping = Mapping::open(self.absolute.as_deref().unwrap_or(&self.path), Mode::Read);
        let mapping = match mapping.map_err(Error::from) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(changed("removed")),
            opened => opened?,
        };
        let state = mapping.state().ok_or_else(|| Error::internal("a mapped file has no state"))?;
        let is_unchanged = state == self.state;
        if !is_unchanged && !state.has_grown_from(&self.state) {
            return Err(changed("replaced or overwritten"));
        }
        let len = usize::try_from(self.state.size()).map_err(|_| changed("replaced or overwritten"))?;
        let bytes = Bytes::from_mapping_or_copy(mapping)?.prefix(len);
        let ipc = IpcSource::open(bytes, Some(&self.path), self.options)?;
        // A stream may grow; a file may not.
        if ipc.is_file() && !is_unchanged {
            return Err(changed("overwritten"));
        }
        // The system sets the times of files with the precision of its tick: a file that was overwritten just after it
        // was opened may have the same times.
        if self.ends != batch_ends(&ipc)?.map(Into::into) || ipc.schema().fields() != self.schema.fields() {
            return Err(changed("overwritten"));
        }
        ipc.close_file();
        Ok(ipc)
    }
}

/// Returns the error for a file whose values can't be read any more.
fn changed(how: &str) -> Error {
    let message = format!(
        "the file was {how} after it was opened as one of many, which are mapped when their values are read; open them \
         again"
    );
    Error::new(ErrorKind::FileChanged, message)
}

/// Returns the row after each batch's last; `None` if there are more than a few batches.
fn batch_ends(ipc: &IpcSource) -> Result<Option<Vec<u64>>> {
    if ipc.is_file() && ipc.num_batches()? > MAX_BATCHES_READ {
        return Ok(None);
    }
    let mut ends = Vec::new();
    while let Some(rows) = ipc.span(ends.len())? {
        if ends.len() == MAX_BATCHES_READ {
            return Ok(None);
        }
        assert_eq!(rows.start, ends.last().map_or(0, |&end| end), "batch {} doesn't follow the last one", ends.len());
        ends.push(rows.end);
    }
    Ok(Some(ends))
}

impl Batches for Shard {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn count_until(&self, until: u64) -> Result<u64> {
        match &self.ends {
            Some(ends) => Ok(ends.last().map_or(0, |&end| end)),
            None => self.ipc()?.count_until(until),
        }
    }

    fn num_batches(&self) -> Result<usize> {
        match &self.ends {
            Some(ends) => Ok(ends.len()),
            None => self.ipc()?.num_batches(),
        }
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        match &self.ends {
            Some(ends) => Ok(ends.get(batch).map(|&end| batch.checked_sub(1).map_or(0, |before| ends[before])..end)),
            None => self.ipc()?.span(batch),
        }
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        match &self.ends {
            Some(ends) => Ok(Some(ends.partition_point(|&end| end <= row)).filter(|&batch| batch < ends.len())),
            None => self.ipc()?.locate(row),
        }
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        match &self.ends {
            Some(_) => self.locate_by_len(back),
            None => self.ipc()?.locate_from_end(back),
        }
    }

    fn column(&self, batch: usize, column: usize) -> Result<&UncheckedArray> {
        self.ipc()?.column(batch, column)
    }

    fn checked_column(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        self.ipc()?.checked_column(batch, column)
    }

    fn prepare(&self, columns: &[usize]) -> Result<()> {
        self.ipc()?.prepare(columns)
    }

    fn validate_column(&self, batch: usize, column: usize) -> Result<()> {
        self.ipc()?.validate_column(batch, column)
    }

    fn value_bytes(&self, batch: usize, row: usize, column: usize, width: usize) -> Option<&[u8]> {
        self.ipc().ok()?.value_bytes(batch, row, column, width)
    }

    fn fixed_width_values<'a>(
        &'a self,
        batch: usize,
        rows: usize,
        columns: ColumnWidths<'_>,
        keep: bool,
        into: &mut Vec<Option<FixedWidthValues<'a>>>,
    ) -> Result<()> {
        self.ipc()?.fixed_width_values(batch, rows, columns, keep, into)
    }

    fn dictionary(&self, column: usize) -> Result<Option<ArrayData>> {
        self.ipc()?.dictionary(column)
    }

    fn footprint(&self) -> Footprint {
        self.ipc.get().map_or(Footprint { mapped: self.state.size(), copied: 0 }, |ipc| ipc.footprint())
    }

    fn check_unchanged(&self, batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        self.ipc.get().map_or(Ok(()), |ipc| ipc.check_unchanged(batches, when))
    }

    fn resident(&self) -> Result<u64> {
        self.ipc()?.resident()
    }
}

impl Source for Shard {
    fn facts(&self) -> Facts<'_> {
        Facts { files: Some(self), ..Facts::new(Some(&self.path), self.absolute.as_deref()) }
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
    fn has_zones(&self, _column: usize) -> bool {
        false
    }

    #[cfg(feature = "compute")]
    fn zones(&self, _batch: usize, _column: usize) -> Result<Option<Zones>> {
        Ok(None)
    }
}

impl Files for Shard {
    fn list(&self) -> Vec<PathBuf> {
        self.facts().absolute_path.map(Path::to_path_buf).into_iter().collect()
    }

    fn version(&self) -> Option<String> {
        Some(if self.is_file { self.state.version() } else { stream_version(self.state.size()) })
    }

    fn are_merged(&self) -> bool {
        false
    }

    fn successor(&self, _file: &Path) -> Result<Option<PathBuf>> {
        Ok(None)
    }
}
