//! Rows gathered in memory.

use std::sync::Arc;

use arrowwood::Builder;

use crate::columns::{CColumn, batch_of};
use crate::dataset::CDataset;
use crate::error::argument;
use crate::exclusive::Exclusive;
use crate::ffi::*;
use crate::open::schema_of;
use crate::value::with_row;

/// `arrowwood_builder`. Calls of several threads wait for each other.
pub struct CBuilder(Exclusive<Builder>);

impl Opaque for CBuilder {
    const NAME: &'static str = "arrowwood_builder";
    const TAG: u64 = u64::from_le_bytes(*b"aw_build");

    fn is_used_here(&self) -> bool {
        self.0.is_used_here()
    }
}

export! {
    /// Makes a builder of no rows.
    fn arrowwood_builder_new(schema: SchemaIn, builder: HandleOut<CBuilder>) {
        let made = Builder::new(Arc::new(schema_of(schema)?))?;
        builder.put(CBuilder(Exclusive::new(made, "builder", "make another one")));
        Ok(())
    }

    /// Appends one array of rows.
    fn arrowwood_builder_append(builder: Ref<CBuilder>, array: ArrayIn, schema: SchemaIn) {
        let rows = array.import(schema)?;
        builder.0.lock()?.append_dataset(&rows)
    }

    /// Appends all rows of a dataset.
    fn arrowwood_builder_append_dataset(builder: Ref<CBuilder>, dataset: Ref<CDataset>) {
        builder.0.lock()?.append_dataset(dataset)
    }

    /// Appends one row.
    fn arrowwood_builder_append_row(builder: Ref<CBuilder>, values[count]: Many<CValueIn>) {
        with_row(values, |row| builder.0.lock()?.append_row(row))
    }

    /// Appends columns of C values.
    fn arrowwood_builder_append_columns(builder: Ref<CBuilder>, rows: u64, columns[count]: Many<CColumn>) {
        let mut builder = builder.0.lock()?;
        let batch = batch_of(builder.schema(), rows, columns)?;
        builder.append(&batch)
    }

    /// The number of rows.
    fn arrowwood_builder_rows(builder: Ref<CBuilder>, rows: Out<u64>) {
        rows.put(builder.0.lock()?.rows());
        Ok(())
    }

    /// The rows as a dataset; frees the builder, also when that fails.
    fn arrowwood_builder_finish(builder: Owned<CBuilder>, dataset: HandleOut<CDataset>) {
        let missing = || argument("arrowwood_builder_finish: 'builder' is NULL");
        let builder = builder.take("builder")?.ok_or_else(missing)?.0.into_inner()?;
        dataset.put(CDataset::new(builder.finish()?));
        Ok(())
    }
}

export_infallible! {
    /// Frees the builder and its rows.
    fn arrowwood_builder_free(builder: Owned<CBuilder>) {
        builder.free();
    }
}
