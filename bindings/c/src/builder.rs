//! Collects rows in memory: `arrowwood_builder` of the header.

use std::sync::Arc;

use arrowwood::DatasetBuilder;

use crate::checked_mutex::CheckedMutex;
use crate::columns::{CColumn, build_batch};
use crate::dataset::CDataset;
use crate::error::invalid_argument;
use crate::ffi::*;
use crate::open::import_schema;
use crate::value::with_row;

/// `arrowwood_builder`. Calls of several threads wait for each other.
pub struct CBuilder(CheckedMutex<DatasetBuilder>);

impl Opaque for CBuilder {
    const NAME: &'static str = "arrowwood_builder";
    const TAG: u64 = u64::from_le_bytes(*b"aw_build");

    fn is_locked_by_this_thread(&self) -> bool {
        self.0.is_locked_by_this_thread()
    }
}

export! {
    /// Creates a builder without rows.
    fn arrowwood_builder_new(schema: SchemaIn, builder: HandleOut<CBuilder>) {
        let inner = DatasetBuilder::new(Arc::new(import_schema(schema)?))?;
        builder.put(CBuilder(CheckedMutex::new(inner, "builder", "make another one")));
        Ok(())
    }

    /// Appends one array of rows.
    fn arrowwood_builder_append(builder: HandleRef<CBuilder>, array: ArrayIn, schema: SchemaIn) {
        let rows = array.import(schema)?;
        builder.0.lock()?.append_dataset(&rows)
    }

    /// Appends all rows of a dataset.
    fn arrowwood_builder_append_dataset(builder: HandleRef<CBuilder>, dataset: HandleRef<CDataset>) {
        builder.0.lock()?.append_dataset(dataset)
    }

    /// Appends one row.
    fn arrowwood_builder_append_row(builder: HandleRef<CBuilder>, values[count]: InArray<CValueIn>) {
        with_row(values, |row| builder.0.lock()?.append_row(row))
    }

    /// Appends columns of C values.
    fn arrowwood_builder_append_columns(builder: HandleRef<CBuilder>, rows: u64, columns[count]: InArray<CColumn>) {
        let mut builder = builder.0.lock()?;
        let batch = build_batch(builder.schema(), rows, columns)?;
        builder.append(&batch)
    }

    /// The number of rows.
    fn arrowwood_builder_rows(builder: HandleRef<CBuilder>, rows: OutPtr<u64>) {
        rows.put(builder.0.lock()?.rows());
        Ok(())
    }

    /// Returns the rows as a dataset; frees the builder, even if that fails.
    fn arrowwood_builder_finish(builder: OwnedHandle<CBuilder>, dataset: HandleOut<CDataset>) {
        let Some(builder) = builder.take("builder")? else {
            return Err(invalid_argument("arrowwood_builder_finish: 'builder' is NULL"));
        };
        dataset.put(CDataset::new(builder.0.into_inner()?.finish()?));
        Ok(())
    }
}

export_infallible! {
    /// Frees the builder and its rows.
    fn arrowwood_builder_free(builder: OwnedHandle<CBuilder>) {
        builder.free();
    }
}
