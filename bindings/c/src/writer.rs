//! The writer of a growing table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
use arrow_schema::Field;
use arrowwood::{Dataset, LatePolicy, Result, SyncPolicy, Writer, WriterOptions, export_schema};

use crate::checked_mutex::CheckedMutex;
use crate::columns::{CColumn, build_batch};
use crate::dataset::CDataset;
use crate::error::invalid_argument;
use crate::ffi::*;
use crate::maintain::dataset_from_columns;
use crate::open::import_schema;
use crate::value::with_row;

/// `arrowwood_writer`. Calls of several threads wait for each other.
pub struct CWriter(CheckedMutex<Writer>);

impl Opaque for CWriter {
    const NAME: &'static str = "arrowwood_writer";
    const TAG: u64 = u64::from_le_bytes(*b"aw_write");

    fn is_locked_by_this_thread(&self) -> bool {
        self.0.is_locked_by_this_thread()
    }
}

/// `arrowwood_sync`.
mod sync {
    pub const INTERVAL: i32 = 0;
    pub const NEVER: i32 = 1;
    pub const COMMIT: i32 = 2;
}

/// `arrowwood_late`.
mod late {
    pub const AS_CREATED: i32 = 0;
    pub const REFUSE: i32 = 1;
    pub const ACCEPT: i32 = 2;
}

/// The interval of options that name none.
const DEFAULT_INTERVAL: u64 = 0;

structs! {
    /// `arrowwood_writer_options`.
    struct CWriterOptions {
        size: u64,
        sync: i32,
        force: i32,
        sync_interval_ms: u64,
        segment_rows: u64,
        dictionary: InSlice<CText>,
        sorted_by: Optional<CText>,
        index: InSlice<CText>,
        late: i32,
        reserved: Reserved,
    }

    /// `arrowwood_position`.
    struct CPosition {
        name: CText,
        value: i64,
    }

    /// `arrowwood_commit_options`.
    struct CCommitOptions {
        size: u64,
        positions: InSlice<CPosition>,
        durable: i32,
        reserved: Reserved,
    }

    /// `arrowwood_writer_state`.
    struct CWriterState {
        size: u64,
        rows: u64,
        committed_rows: u64,
        durable_rows: u64,
        dropped_rows: u64,
    }
}

// `tests/capi/c/layout.c` has the same numbers.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<CWriterOptions>() == 80 && offset_of!(CWriterOptions, sync) == 8);
    assert!(offset_of!(CWriterOptions, sync_interval_ms) == 16 && offset_of!(CWriterOptions, dictionary) == 32);
    assert!(offset_of!(CWriterOptions, sorted_by) == 48 && offset_of!(CWriterOptions, index) == 56);
    assert!(offset_of!(CWriterOptions, late) == 72);
    assert!(size_of::<CPosition>() == 16 && offset_of!(CPosition, value) == 8);
    assert!(size_of::<CCommitOptions>() == 32 && offset_of!(CCommitOptions, durable) == 24);
    assert!(size_of::<CWriterState>() == 40 && offset_of!(CWriterState, durable_rows) == 24);
};

impl CWriterOptions {
    fn options(&self) -> Result<WriterOptions> {
        self.reserved.check("options.reserved")?;
        let mut options = WriterOptions::default();
        match (self.sync, self.sync_interval_ms) {
            (sync::INTERVAL, DEFAULT_INTERVAL) => {}
            (sync::INTERVAL, every) => options.sync = SyncPolicy::Every(Duration::from_millis(every)),
            (sync::NEVER, DEFAULT_INTERVAL) => options.sync = SyncPolicy::Never,
            (sync::COMMIT, DEFAULT_INTERVAL) => options.sync = SyncPolicy::Commit,
            (sync::NEVER | sync::COMMIT, _) => {
                return Err(invalid_argument("options.sync_interval_ms: only with ARROWWOOD_SYNC_INTERVAL"));
            }
            (other, _) => return Err(invalid_argument(format!("options.sync: there is no {other}"))),
        }
        options.segment_rows = Some(self.segment_rows).filter(|&rows| rows > 0);
        options.dictionary = names(&self.dictionary, "options.dictionary")?;
        options.sorted_by = self.sorted_by.to_rust("options.sorted_by")?.map(String::from);
        options.index = Some(names(&self.index, "options.index")?).filter(|index| !index.is_empty());
        options.late = match self.late {
            late::AS_CREATED => None,
            late::REFUSE => Some(LatePolicy::Refuse),
            late::ACCEPT => Some(LatePolicy::Accept),
            other => return Err(invalid_argument(format!("options.late: there is no {other}"))),
        };
        options.force = self.force != 0;
        Ok(options)
    }
}

/// Returns the names of columns that `option` lists.
fn names(list: &InSlice<CText>, option: &str) -> Result<Vec<String>> {
    Ok(texts(list.to_rust(option)?, option)?.into_iter().map(String::from).collect())
}

/// Returns a row for each named position.
fn positions_table(positions: BTreeMap<String, i64>) -> Result<Dataset> {
    let (names, values): (Vec<String>, Vec<i64>) = positions.into_iter().unzip();
    let columns: [(&str, ArrayRef); 2] =
        [("name", Arc::new(StringArray::from(names))), ("position", Arc::new(Int64Array::from(values)))];
    dataset_from_columns(
        columns.map(|(name, array)| (Field::new(name, array.data_type().clone(), false), array)).into(),
    )
}

impl CWriter {
    /// Waits until all committed rows are durable. Without the lock: others commit meanwhile, and one sync covers all.
    fn wait_durable(&self) -> Result<()> {
        let durability = self.0.lock()?.durability();
        durability.wait()
    }
}

export! {
    /// Opens a table for writing, or creates one.
    fn arrowwood_writer_open(
        path: CPath, schema: Optional<SchemaIn>, options: OptionsPtr<CWriterOptions>, writer: HandleOut<CWriter>,
    ) {
        let schema = schema.map(import_schema).transpose()?.map(Arc::new);
        let opened = Writer::open(path, schema, &options.options()?)?;
        writer.put(CWriter(CheckedMutex::new(opened, "writer", "close it and open the table anew")));
        Ok(())
    }

    /// The table's schema.
    fn arrowwood_writer_schema(writer: HandleRef<CWriter>, schema: OutPtr<FFI_ArrowSchema>) {
        schema.put(export_schema(writer.0.lock()?.schema())?);
        Ok(())
    }

    /// Appends one array of rows.
    fn arrowwood_writer_append(writer: HandleRef<CWriter>, array: ArrayIn, schema: SchemaIn) {
        let rows = array.import(schema)?;
        writer.0.lock()?.append_dataset(&rows)
    }

    /// Appends all rows of a stream.
    fn arrowwood_writer_append_stream(writer: HandleRef<CWriter>, stream: StreamIn) {
        let rows = stream.import()?;
        writer.0.lock()?.append_dataset(&rows)
    }

    /// Appends all rows of a dataset.
    fn arrowwood_writer_append_dataset(writer: HandleRef<CWriter>, dataset: HandleRef<CDataset>) {
        writer.0.lock()?.append_dataset(dataset)
    }

    /// Appends one row.
    fn arrowwood_writer_append_row(writer: HandleRef<CWriter>, values[count]: InArray<CValueIn>) {
        with_row(values, |row| writer.0.lock()?.append_row(row))
    }

    /// Appends columns of C values.
    fn arrowwood_writer_append_columns(writer: HandleRef<CWriter>, rows: u64, columns[count]: InArray<CColumn>) {
        let mut writer = writer.0.lock()?;
        let batch = build_batch(writer.schema(), rows, columns)?;
        writer.append(&batch)
    }

    /// Makes all appended rows visible.
    fn arrowwood_writer_commit(writer: HandleRef<CWriter>, durable: i32) {
        writer.0.lock()?.commit()?;
        if durable != 0 { writer.wait_durable() } else { Ok(()) }
    }

    /// Makes all appended rows visible, with named positions.
    fn arrowwood_writer_commit_with(writer: HandleRef<CWriter>, options: OptionsPtr<CCommitOptions>) {
        options.reserved.check("options.reserved")?;
        let positions = options.positions.to_rust("options.positions")?;
        let mut named = Vec::with_capacity(positions.len());
        for position in positions {
            named.push((position.name.to_rust("options.positions.name")?, position.value));
        }
        writer.0.lock()?.commit_with(&named)?;
        if options.durable != 0 { writer.wait_durable() } else { Ok(()) }
    }

    /// The positions of the newest commit.
    fn arrowwood_writer_positions(writer: HandleRef<CWriter>, positions: HandleOut<CDataset>) {
        positions.put(CDataset::new(positions_table(writer.0.lock()?.positions())?));
        Ok(())
    }

    /// The positions committed with the rows.
    fn arrowwood_dataset_positions(dataset: HandleRef<CDataset>, positions: HandleOut<CDataset>) {
        positions.put(CDataset::new(positions_table(dataset.positions()?)?));
        Ok(())
    }

    /// Waits until all committed rows are durable.
    fn arrowwood_writer_wait_durable(writer: HandleRef<CWriter>) {
        writer.wait_durable()
    }

    /// Brings all committed rows to the disk.
    fn arrowwood_writer_sync(writer: HandleRef<CWriter>) {
        writer.0.lock()?.sync()
    }

    /// Discards the rows appended since the last commit.
    fn arrowwood_writer_rollback(writer: HandleRef<CWriter>) {
        writer.0.lock()?.rollback();
        Ok(())
    }

    /// The progress of the writer.
    fn arrowwood_writer_progress(writer: HandleRef<CWriter>, state: SizedOut<CWriterState>) {
        let writer = writer.0.lock()?;
        state.put(CWriterState {
            // The caller's own stays.
            size: 0,
            rows: writer.rows(),
            committed_rows: writer.committed_rows(),
            durable_rows: writer.durable_rows(),
            dropped_rows: writer.dropped_rows(),
        });
        Ok(())
    }

    /// Rewrites sealed segments densely.
    fn arrowwood_writer_compact(
        writer: HandleRef<CWriter>, progress: Progress, context: Context, rewritten: Optional<OutPtr<u64>>,
    ) {
        let count = writer.0.lock()?.compact(progress.with(context))?;
        rewritten.into_iter().for_each(|out| out.put(count));
        Ok(())
    }

    /// Removes segments of old rows.
    fn arrowwood_writer_drop_before(writer: HandleRef<CWriter>, row: u64, removed: Optional<OutPtr<u64>>) {
        let count = writer.0.lock()?.drop_before(row)?;
        removed.into_iter().for_each(|out| out.put(count));
        Ok(())
    }

    /// Commits, syncs, and frees the writer, even if that fails.
    fn arrowwood_writer_close(writer: OwnedHandle<CWriter>) {
        let Some(writer) = writer.take("writer")? else { return Ok(()) };
        writer.0.into_inner()?.close()
    }
}

export_infallible! {
    /// Frees the writer; uncommitted rows are lost.
    fn arrowwood_writer_free(writer: OwnedHandle<CWriter>) {
        writer.free();
    }
}
