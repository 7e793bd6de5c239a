//! The Arrow C data interface: datasets out to, and in from, any other Arrow library in the process, without copying.
//! **Fence three**: the foreign pointers (Arrow C Data Interface, Arrow C Stream Interface).
//!
//! The stream is written here because arrow-rs's own wants record batches of typed arrays, whose buffers it would
//! first copy to where it likes them aligned; a consumer that maps unaligned 128-bit decimals gets them as they are.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, RecordBatch};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, SchemaRef};

use crate::array::Parts;
use crate::dataset::{Column, Dataset};
use crate::error::{Error, Result};
use crate::map::Look;

const EINVAL: c_int = libc::EINVAL;

impl Dataset {
    /// The dataset as a C stream of record batches, values checked, buffers shared with the mapping.
    pub fn export_stream(&self) -> Result<FFI_ArrowArrayStream> {
        Ok(stream(Producer::new(self.clone(), Shape::Table)?))
    }

    /// The schema as a C struct: a struct type of the columns.
    pub fn export_schema(&self) -> Result<FFI_ArrowSchema> {
        export_schema(self.schema())
    }

    /// All that a C stream holds, as a dataset that shares its buffers. Its producer vouches for the values.
    pub fn import_stream(stream: FFI_ArrowArrayStream) -> Result<Dataset> {
        let failed = |e: arrow_schema::ArrowError| Error::argument(format!("importing an Arrow C stream: {e}"));
        let reader = ArrowArrayStreamReader::try_new(stream).map_err(failed)?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<RecordBatch>, _>>().map_err(failed)?;
        Dataset::from_batches(schema, batches)
    }
}

impl Column {
    /// The column as a C stream of arrays of its own type, values checked, buffers shared with the mapping.
    pub fn export_stream(&self) -> Result<FFI_ArrowArrayStream> {
        Ok(stream(Producer::new(self.as_dataset().clone(), Shape::Column)?))
    }

    /// The field as a C struct.
    pub fn export_schema(&self) -> Result<FFI_ArrowSchema> {
        export_field(self.field())
    }
}

fn export_schema(schema: &SchemaRef) -> Result<FFI_ArrowSchema> {
    FFI_ArrowSchema::try_from(schema.as_ref()).map_err(|e| Error::unsupported(format!("exporting the schema: {e}")))
}

fn export_field(field: &Field) -> Result<FFI_ArrowSchema> {
    FFI_ArrowSchema::try_from(field).map_err(|e| Error::unsupported(format!("exporting the field: {e}")))
}

/// Whether a stream's arrays are structs of all columns, or one column itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Table,
    Column,
}

/// What a stream hands out, one batch after the other.
struct Producer {
    batches: std::vec::IntoIter<Dataset>,
    dataset: Dataset,
    shape: Shape,
    /// Kept until the next call, as the interface asks.
    error: Option<CString>,
}

impl Producer {
    fn new(dataset: Dataset, shape: Shape) -> Result<Producer> {
        let batches = dataset.batches().collect::<Result<Vec<_>>>()?.into_iter();
        Ok(Producer { batches, dataset, shape, error: None })
    }

    fn schema(&self) -> Result<FFI_ArrowSchema> {
        match self.shape {
            Shape::Table => export_schema(self.dataset.schema()),
            Shape::Column => export_field(self.dataset.schema().field(0)),
        }
    }

    /// The next array, or a released one at the end.
    fn next(&mut self) -> Result<FFI_ArrowArray> {
        let Some(batch) = self.batches.next() else { return Ok(FFI_ArrowArray::empty()) };
        let array = batch.watched(Look::Now, || match self.shape {
            Shape::Table => struct_of(&batch),
            Shape::Column => column_of(&batch),
        })?;
        Ok(FFI_ArrowArray::new(&array))
    }

    /// Notes an error for `get_last_error`, and the code to return.
    fn outcome<T>(&mut self, result: Result<T>, deliver: impl FnOnce(T)) -> c_int {
        match result {
            Ok(value) => {
                self.error = None;
                deliver(value);
                0
            }
            Err(e) => {
                // A sentence with a NUL in it can't cross; the code still does.
                self.error = CString::new(e.to_string()).ok();
                EINVAL
            }
        }
    }
}

fn struct_of(batch: &Dataset) -> Result<ArrayData> {
    let part = batch.parts().next().transpose()?;
    let (len, children) = match part {
        Some(part) => (part.rows.len(), part.columns()?),
        None => (0, batch.schema().fields().iter().map(|field| ArrayData::new_empty(field.data_type())).collect()),
    };
    let data_type = DataType::Struct(batch.schema().fields().clone());
    Ok(Parts { data_type, len, validity: None, buffers: Vec::new(), children }.assemble())
}

fn column_of(batch: &Dataset) -> Result<ArrayData> {
    let table = struct_of(batch)?;
    table.child_data().first().cloned().ok_or_else(|| Error::argument("a dataset without columns"))
}

fn stream(producer: Producer) -> FFI_ArrowArrayStream {
    let private_data: *mut Producer = Box::into_raw(Box::new(producer));
    FFI_ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: private_data.cast::<c_void>(),
    }
}

/// Runs `call` on the producer behind `stream`; a panic becomes an error code, as none may cross into C.
fn with_producer(stream: *mut FFI_ArrowArrayStream, call: impl FnOnce(&mut Producer) -> c_int) -> c_int {
    // SAFETY: the interface has the consumer pass the stream it got from `stream()`, not released, from one thread
    // at a time; reading a field of it is then a read of initialised memory.
    let private = unsafe { (*stream).private_data };
    // SAFETY: `private_data` is the Box of `stream()`, still owned by the stream (release sets `release` to None and
    // consumers must not call after), and nobody else holds a reference while the one consumer calls.
    let producer = unsafe { &mut *private.cast::<Producer>() };
    let guarded = std::panic::AssertUnwindSafe(|| call(producer));
    std::panic::catch_unwind(guarded).unwrap_or(EINVAL)
}

unsafe extern "C" fn get_schema(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowSchema) -> c_int {
    with_producer(stream, |producer| {
        let schema = producer.schema();
        // SAFETY: the consumer passes room for one ArrowSchema; `write` does not read what was there.
        producer.outcome(schema, |schema| unsafe { out.write(schema) })
    })
}

unsafe extern "C" fn get_next(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowArray) -> c_int {
    with_producer(stream, |producer| {
        let array = producer.next();
        // SAFETY: the consumer passes room for one ArrowArray; `write` does not read what was there.
        producer.outcome(array, |array| unsafe { out.write(array) })
    })
}

unsafe extern "C" fn get_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    let mut message = std::ptr::null();
    with_producer(stream, |producer| {
        message = producer.error.as_ref().map_or(std::ptr::null(), |error| error.as_ptr());
        0
    });
    message
}

unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: the consumer passes a stream of ours that it has not released; it is the only user now.
    let stream = unsafe { &mut *stream };
    stream.release = None;
    let private = std::mem::replace(&mut stream.private_data, std::ptr::null_mut());
    if !private.is_null() {
        // SAFETY: the Box of `stream()`, taken out of the stream above, so it is dropped once.
        drop(unsafe { Box::from_raw(private.cast::<Producer>()) });
    }
}

impl Dataset {
    /// One array of struct type, or of any type, that came through the C data interface, as a dataset: a struct gives
    /// its members as columns, another array one column called `values`.
    ///
    /// # Safety
    /// `array` and `schema` must belong together and follow the C data interface: pointers valid, buffers as long as
    /// the type and the length ask for, values valid.
    pub unsafe fn import_array(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> Result<Dataset> {
        let failed = |e: arrow_schema::ArrowError| Error::argument(format!("importing an Arrow C array: {e}"));
        let field = Field::try_from(schema).map_err(failed)?;
        // SAFETY: the caller's promise.
        let data = unsafe { arrow_array::ffi::from_ffi_and_data_type(array, field.data_type().clone()) };
        let array = arrow_array::make_array(data.map_err(failed)?);
        if matches!(array.data_type(), DataType::Struct(_)) && array.null_count() > 0 {
            return Err(Error::argument("a struct array with null rows is no table; flatten it first"));
        }
        let batch = match array.data_type() {
            DataType::Struct(_) => RecordBatch::from(arrow_array::cast::AsArray::as_struct(&array)),
            _ => {
                let schema = arrow_schema::Schema::new(vec![field.with_name("values")]);
                RecordBatch::try_new(Arc::new(schema), vec![array]).map_err(failed)?
            }
        };
        Dataset::from_batches(batch.schema(), vec![batch])
    }
}
