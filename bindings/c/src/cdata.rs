//! Exports by the Arrow C data interface: schemas, streams, arrays.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;

use crate::dataset::CDataset;
use crate::ffi::{ExportFlags, HandleRef, OutPtr};

export! {
    /// The schema.
    fn arrowwood_dataset_schema(dataset: HandleRef<CDataset>, schema: OutPtr<FFI_ArrowSchema>) {
        schema.put(dataset.export_schema()?);
        Ok(())
    }

    /// All batches, as structs of all columns.
    fn arrowwood_dataset_stream(
        dataset: HandleRef<CDataset>, flags: ExportFlags, stream: OutPtr<FFI_ArrowArrayStream>,
    ) {
        stream.put(dataset.export_stream_with(flags)?);
        Ok(())
    }

    /// All batches of one column, as arrays of its own type.
    fn arrowwood_dataset_column_stream(
        dataset: HandleRef<CDataset>, column: usize, flags: ExportFlags, stream: OutPtr<FFI_ArrowArrayStream>,
    ) {
        stream.put(dataset.column_at(column)?.export_stream_with(flags)?);
        Ok(())
    }

    /// One batch, as a struct of all columns.
    fn arrowwood_dataset_batch(
        dataset: HandleRef<CDataset>, batch: usize, flags: ExportFlags, array: OutPtr<FFI_ArrowArray>,
    ) {
        array.put(dataset.export_batch(batch, flags)?);
        Ok(())
    }
}
