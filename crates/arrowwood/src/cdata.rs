//! The Arrow C data interface: exchanges datasets with any Arrow library in the process, without copying.
//! Foreign pointers are followed here and in `import` only (Arrow C Data Interface, Arrow C Stream Interface).
//!
//! The stream is implemented here because arrow-rs's own takes record batches of typed arrays, which need aligned
//! copies of unaligned buffers; our consumers get unaligned 128-bit decimals in place.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_data::ArrayData;
use arrow_schema::ffi::Flags;
use arrow_schema::{ArrowError, DataType, Field, Schema};

use crate::array::{UncheckedArray, aligned, require_little_endian, struct_from_columns};
use crate::dataset::{BatchSlice, Column, Dataset};
use crate::error::{Error, ErrorKind, Result};
use crate::map::ChangeCheck;
use crate::map::os::errno;
use crate::types::layout::children;
use crate::types::{BufferRole, is_ordered, layout, type_name};

mod import;

use import::{array_of, field_of, taken};

/// The code that functions of a stream return if they succeed.
const SUCCESS: c_int = 0;

/// Options for exporting arrays: by default values are checked and buffers stay in place.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportOptions {
    is_unchecked: bool,
    is_aligned: bool,
}

impl ExportOptions {
    /// Returns the defaults: values are checked, and buffers stay in place.
    pub fn new() -> ExportOptions {
        ExportOptions::default()
    }

    /// Sets whether to copy buffers that aren't aligned for their type, as consumers in C and Rust require.
    pub fn aligned(self, is_aligned: bool) -> ExportOptions {
        ExportOptions { is_aligned, ..self }
    }

    /// Checks only the structure: each buffer is long enough for its array.
    ///
    /// Its content is arbitrary: offsets, views, keys, type ids and run ends may be out of bounds, text may not be
    /// UTF-8, and null counts are as declared. Exporting costs nothing per row.
    ///
    /// # Safety
    /// Consumers must bound each access that depends on such a value to its buffer or child. arrow-rs and most other
    /// Arrow libraries don't: they trust imported arrays.
    pub unsafe fn structure_only(self) -> ExportOptions {
        ExportOptions { is_unchecked: true, ..self }
    }

    /// Returns column number `column` of the part.
    fn column(self, part: &BatchSlice<'_>, column: usize) -> Result<ArrayData> {
        require_little_endian("exporting arrays")?;
        let column = part.piece.columns[column];
        let array = if self.is_unchecked {
            let array = part.piece.source.column(part.batch, column)?.slice(part.rows.start, part.rows.len());
            // SAFETY: the caller of `structure_only` has promised to bound accesses that depend on values.
            unsafe { array.structure_checked()? }
        } else {
            part.column(column)?
        };
        Ok(if self.is_aligned { aligned(array) } else { array })
    }
}

/// Fixed-width values of one batch of a column, without nulls.
#[derive(Clone, Copy)]
pub struct FixedWidthChunk<'a> {
    /// The number of values.
    pub rows: usize,
    /// Their bytes, from the first value on.
    pub values: &'a [u8],
}

/// Shows how many bytes there are.
impl fmt::Debug for FixedWidthChunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedWidthChunk").field("rows", &self.rows).field("len", &self.values.len()).finish()
    }
}

/// # Exchange with other Arrow libraries
impl Dataset {
    /// Returns the dataset as a C stream of record batches.
    ///
    /// Values are checked, and buffers shared with the mapping.
    ///
    /// # Errors
    /// As [`Dataset::len`]. Types that the C data interface doesn't have, and damaged values, are errors of the stream.
    pub fn export_stream(&self) -> Result<FFI_ArrowArrayStream> {
        self.export_stream_with(ExportOptions::new())
    }

    /// As [`Dataset::export_stream`], with the options `export`.
    ///
    /// # Errors
    /// As `export_stream`.
    pub fn export_stream_with(&self, export: ExportOptions) -> Result<FFI_ArrowArrayStream> {
        Ok(stream(Producer::new(self.clone(), StreamShape::Table, export)?))
    }

    /// Returns batch number `number` as a C array: a struct of all columns, with the options `export`.
    ///
    /// # Errors
    /// `RowOutOfRange` past the last batch; `InvalidData` for damaged values.
    pub fn export_batch(&self, number: usize, export: ExportOptions) -> Result<FFI_ArrowArray> {
        exported(&self.batch(number)?, StreamShape::Table, export)
    }

    /// Returns the schema as a C struct: a struct type of the columns.
    ///
    /// # Errors
    /// `Unsupported` for types that the C data interface lacks.
    pub fn export_schema(&self) -> Result<FFI_ArrowSchema> {
        export_schema(self.schema())
    }

    /// Imports a C stream as a dataset that shares its buffers.
    ///
    /// A struct's members become columns, any other type one column called `values`. Values are checked when they are
    /// first used, as in a file.
    ///
    /// # Errors
    /// `InvalidArgument` for a stream that was imported before, for a failure of the producer, with its message, and as
    /// [`import_array`](Dataset::import_array).
    ///
    /// # Safety
    /// `stream` must follow the C stream interface: its functions, which are called, are those of a live producer, or
    /// it has none because it was released; each array is as for
    /// [`import_array`](Dataset::import_array).
    pub unsafe fn import_stream(stream: FFI_ArrowArrayStream) -> Result<Dataset> {
        // SAFETY: the caller's promise.
        let (field, arrays) = unsafe { arrays_of(stream) }?;
        dataset_of(&field, arrays)
    }
}

/// Returns all arrays of a C stream, and their field.
///
/// They may have any type. Their values are checked.
///
/// # Safety
/// As for [`Dataset::import_stream`].
///
/// # Errors
/// As `import_stream`, and `InvalidData` for damaged values.
pub unsafe fn import_arrays(stream: FFI_ArrowArrayStream) -> Result<(Field, Vec<ArrayData>)> {
    // SAFETY: the caller's promise.
    let (field, arrays) = unsafe { arrays_of(stream) }?;
    let arrays = arrays.into_iter().map(|array| Ok(aligned(array.checked(&[])?)));
    Ok((field, arrays.collect::<Result<_>>()?))
}

/// Returns all arrays of a C stream, and their field.
///
/// # Safety
/// As for [`Dataset::import_stream`].
unsafe fn arrays_of(mut stream: FFI_ArrowArrayStream) -> Result<(Field, Vec<UncheckedArray>)> {
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(taken("stream"));
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: a live stream's own function, as the caller promises, called with it and a place for the schema (Arrow C
    // Stream Interface).
    let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    // SAFETY: as above, after a call.
    unsafe { check_code(&mut stream, code) }?;
    let field = field_of(&schema)?;
    let mut arrays = Vec::new();
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as above, with a place for an array.
        let code = unsafe { get_next(&raw mut stream, &raw mut array) };
        // SAFETY: as above, after a call.
        unsafe { check_code(&mut stream, code) }?;
        if array.is_released() {
            return Ok((field, arrays));
        }
        // SAFETY: the stream gave the array with this very schema.
        let array = unsafe { array_of(array, field.data_type()) }?;
        // A stream may have any number of arrays without rows, of which one is enough.
        if arrays.is_empty() || !array.is_empty() {
            arrays.push(array);
        }
    }
}

/// Returns an array that was passed through the C data interface, and its field.
///
/// It may have any type. Its values are checked.
///
/// # Safety
/// As for [`Dataset::import_array`].
///
/// # Errors
/// As `import_array`, and `InvalidData` for damaged values.
pub unsafe fn import_array_and_field(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> Result<(Field, ArrayData)> {
    let field = field_of(schema)?;
    // SAFETY: the caller's promise.
    let array = unsafe { array_of(array, field.data_type()) }?;
    Ok((field, aligned(array.checked(&[])?)))
}

/// Converts the `code` of the stream's last call to an error.
///
/// # Safety
/// The stream must be live, and follow the C stream interface.
unsafe fn check_code(stream: &mut FFI_ArrowArrayStream, code: c_int) -> Result<()> {
    if code == SUCCESS {
        return Ok(());
    }
    // SAFETY: a live stream's own function, as the caller promises, called with it (Arrow C Stream Interface).
    let text = stream.get_last_error.map(|get| unsafe { get(stream) }).and_then(|text| NonNull::new(text.cast_mut()));
    // SAFETY: a non-null pointer is text that ends in NUL and lives until the next call.
    let text = text.map(|text| unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned());
    let text = text.unwrap_or_else(|| format!("error {code}"));
    Err(Error::invalid_argument(format!("importing an Arrow C stream: {text}")))
}

/// Imports a schema whose columns are the members of the struct type `schema`.
///
/// # Errors
/// `InvalidArgument` for a schema that was imported before, or is of another type.
pub fn import_schema(schema: &FFI_ArrowSchema) -> Result<Schema> {
    let field = field_of(schema)?;
    match field.data_type() {
        DataType::Struct(fields) => Ok(Schema::new_with_metadata(fields.clone(), field.metadata().clone())),
        other => {
            let other = type_name(other);
            Err(Error::invalid_argument(format!(
                "importing an Arrow C schema: expected names and types of columns, got {other}"
            )))
        }
    }
}

/// Returns the arrays of `field` as a dataset, a batch each.
fn dataset_of(field: &Field, arrays: Vec<UncheckedArray>) -> Result<Dataset> {
    let DataType::Struct(fields) = field.data_type() else {
        let schema = Schema::new(vec![field.clone().with_name("values")]);
        let batches = arrays.into_iter().map(|array| (array.len(), vec![array])).collect();
        return Ok(Dataset::from_unchecked(Arc::new(schema), batches));
    };
    if arrays.iter().any(|array| array.nulls().is_some_and(|nulls| nulls.declared() > 0)) {
        return Err(Error::invalid_argument("a struct array with null rows can't become a table; flatten it first"));
    }
    let schema = Schema::new_with_metadata(fields.clone(), field.metadata().clone());
    let batches = arrays.iter().map(|array| (array.len(), array.child_data().to_vec())).collect();
    Ok(Dataset::from_unchecked(Arc::new(schema), batches))
}

/// # Exchange with other Arrow libraries
impl Column {
    /// Returns the column as a C stream of arrays of its own type.
    ///
    /// Values are checked, and buffers shared with the mapping.
    ///
    /// # Errors
    /// As [`Dataset::len`]. Types that the C data interface doesn't have, and damaged values, are errors of the stream.
    pub fn export_stream(&self) -> Result<FFI_ArrowArrayStream> {
        self.export_stream_with(ExportOptions::new())
    }

    /// As [`Column::export_stream`], with the options `export`.
    ///
    /// # Errors
    /// As `export_stream`.
    pub fn export_stream_with(&self, export: ExportOptions) -> Result<FFI_ArrowArrayStream> {
        Ok(stream(Producer::new(self.as_dataset().clone(), StreamShape::Column, export)?))
    }

    /// As [`Column::chunks`], with the options `export`.
    ///
    /// # Errors
    /// As [`Column::chunks`].
    pub fn chunks_with(&self, export: ExportOptions) -> Result<Vec<ArrayData>> {
        self.with_change_check(|| self.each_part(|part| export.column(&part, 0)))
    }

    /// Returns the values of a fixed-width column without nulls in place, without making arrays.
    ///
    /// Otherwise as [`Column::chunks_with`]. `None` for other columns, or if `export` requires alignment and a buffer
    /// isn't aligned.
    ///
    /// # Errors
    /// `InvalidData` if the structure is damaged.
    pub fn fixed_width_chunks(&self, export: ExportOptions) -> Result<Option<Vec<FixedWidthChunk<'_>>>> {
        require_little_endian("exporting values")?;
        let Some(BufferRole::Values { width, word }) = plain_role(self.data_type()) else { return Ok(None) };
        let alignment = if export.is_aligned { alignment_of(word) } else { 1 };
        self.with_change_check(|| {
            // Batches tend to be alike: the first shows whether the others are worth trying.
            if let Some(first) = self.as_dataset().parts().next().transpose()?
                && plain_chunk(first, width, alignment)?.is_none()
            {
                return Ok(None);
            }
            Ok(self.each_part(|part| plain_chunk(part, width, alignment))?.into_iter().collect())
        })
    }

    /// Returns the field as a C struct.
    ///
    /// # Errors
    /// `Unsupported` for types that the C data interface lacks.
    pub fn export_schema(&self) -> Result<FFI_ArrowSchema> {
        export_field(self.field())
    }
}

/// Returns the alignment that consumers expect of values whose numbers have `word` bytes, 0 for bytes of any meaning.
fn alignment_of(word: usize) -> usize {
    const DEFAULT: usize = 8;
    const MAX: usize = 16;
    if word == 0 { DEFAULT } else { word.min(MAX) }
}

/// Returns the values of the part's only column, if they are `width` bytes each, aligned to `alignment`, without nulls.
fn plain_chunk(part: BatchSlice<'_>, width: usize, alignment: usize) -> Result<Option<FixedWidthChunk<'_>>> {
    let mut columns = Vec::with_capacity(1);
    let rows = part.rows;
    let mut column = std::iter::once((part.piece.columns[0], width));
    part.piece.source.fixed_width_values(part.batch, rows.end, &mut column, true, &mut columns)?;
    assert_eq!(columns.len(), 1, "one entry for one column");
    let Some(plain) = columns[0].filter(|plain| !plain.has_nulls) else { return Ok(None) };
    let Some(values) = plain.values.get(rows.start * width..rows.end * width) else { return Ok(None) };
    if !values.as_ptr().addr().is_multiple_of(alignment) {
        return Ok(None);
    }
    Ok(Some(FixedWidthChunk { rows: rows.len(), values }))
}

/// Returns the role of a fixed-width type's values, if it has nothing else but a validity bitmap.
fn plain_role(data_type: &DataType) -> Option<BufferRole> {
    let layout = layout(data_type);
    let is_plain = layout.plain_width().is_some() && !matches!(data_type, DataType::Dictionary(..));
    layout.value_roles().next().filter(|_| is_plain)
}

/// Exports a schema as a C struct: a struct type of the columns.
///
/// # Errors
/// `Unsupported` for types that the C data interface lacks.
pub fn export_schema(schema: &Schema) -> Result<FFI_ArrowSchema> {
    export_type(&DataType::Struct(schema.fields().clone()))?
        .with_metadata(schema.metadata())
        .map_err(|e| Error::unsupported(format!("exporting the schema: {e}")))
}

/// Exports a field as a C struct, as arrow-rs does, but with the flags of maps.
///
/// # Errors
/// As [`export_schema`].
pub fn export_field(field: &Field) -> Result<FFI_ArrowSchema> {
    let mut flags = if field.is_nullable() { Flags::NULLABLE } else { Flags::empty() };
    flags.set(Flags::DICTIONARY_ORDERED, is_ordered(field));
    flags.set(Flags::MAP_KEYS_SORTED, matches!(field.data_type(), DataType::Map(_, true)));
    export_type(field.data_type())?
        .with_name(field.name())
        .and_then(|schema| schema.with_flags(flags)?.with_metadata(field.metadata()))
        .map_err(|e| Error::unsupported(format!("exporting the field '{}': {e}", field.name().escape_debug())))
}

fn export_type(data_type: &DataType) -> Result<FFI_ArrowSchema> {
    if !data_type.is_nested() {
        return FFI_ArrowSchema::try_from(data_type).map_err(|e| unsupported_type(data_type, &e));
    }
    let format = match data_type {
        DataType::Struct(_) => "+s".to_owned(),
        nested => {
            let schema = FFI_ArrowSchema::try_from(nested).map_err(|e| unsupported_type(data_type, &e))?;
            schema.format().to_owned()
        }
    };
    let below = children(data_type).into_iter().map(|child| export_field(child)).collect::<Result<_>>()?;
    let dictionary = match data_type {
        DataType::Dictionary(_, values) => Some(export_type(values)?),
        _ => None,
    };
    FFI_ArrowSchema::try_new(&format, below, dictionary).map_err(|e| unsupported_type(data_type, &e))
}

fn unsupported_type(data_type: &DataType, e: &ArrowError) -> Error {
    Error::unsupported(format!("exporting the type {}: {e}", type_name(data_type)))
}

/// The form of a stream's arrays: structs of all columns, or one column itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamShape {
    Table,
    Column,
}

/// The content of an exported stream, batch by batch.
struct Producer {
    batches: std::vec::IntoIter<Dataset>,
    dataset: Dataset,
    shape: StreamShape,
    export: ExportOptions,
    /// The error of a batch, which all later calls return.
    failed: Option<Error>,
    /// The message of the last call that failed, kept until the next call, as the interface requires.
    error: Option<CString>,
}

impl Producer {
    fn new(dataset: Dataset, shape: StreamShape, export: ExportOptions) -> Result<Producer> {
        let batches = dataset.batches().collect::<Result<Vec<_>>>()?.into_iter();
        Ok(Producer { batches, dataset, shape, export, failed: None, error: None })
    }

    fn schema(&self) -> Result<FFI_ArrowSchema> {
        match self.shape {
            StreamShape::Table => export_schema(self.dataset.schema()),
            StreamShape::Column => export_field(self.dataset.schema().field(0)),
        }
    }

    /// Returns the next array, or a released one at the end. After an error it returns the same error again: a consumer
    /// that went on after a missing batch would take later rows for the missing ones.
    fn next(&mut self) -> Result<FFI_ArrowArray> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let Some(batch) = self.batches.next() else { return Ok(FFI_ArrowArray::empty()) };
        let array = exported(&batch, self.shape, self.export);
        self.failed = array.as_ref().err().cloned();
        array
    }

    /// Passes a result to the consumer by `write`, or stores the error for `get_last_error`. Returns the code of the
    /// call.
    fn deliver<T>(&mut self, result: Result<T>, write: impl FnOnce(T)) -> c_int {
        match result {
            Ok(value) => {
                self.error = None;
                write(value);
                SUCCESS
            }
            Err(e) => {
                // A message with a NUL can't be passed; the code still is.
                self.error = CString::new(e.to_string()).ok();
                code_of(&e)
            }
        }
    }
}

/// Returns the code by which consumers distinguish a failure of the system, or a lack of memory, from wrong data.
fn code_of(error: &Error) -> c_int {
    error.errno().unwrap_or(match error.kind() {
        _ if error.is_out_of_memory() => errno::ENOMEM,
        ErrorKind::Io => errno::EIO,
        _ => errno::EINVAL,
    })
}

/// Returns one batch as a C array.
fn exported(batch: &Dataset, shape: StreamShape, export: ExportOptions) -> Result<FFI_ArrowArray> {
    let array = batch.with_change_check(ChangeCheck::Now, || {
        let table = table_of(batch, export)?;
        match shape {
            StreamShape::Table => Ok(table),
            StreamShape::Column => {
                let column = table.child_data().first().cloned();
                column.ok_or_else(|| Error::invalid_argument("a dataset without columns"))
            }
        }
    })?;
    Ok(FFI_ArrowArray::new(&array))
}

fn table_of(batch: &Dataset, export: ExportOptions) -> Result<ArrayData> {
    let part = batch.parts().next().transpose()?;
    let (len, children) = match part {
        Some(part) => {
            let columns = (0..part.piece.columns.len()).map(|column| export.column(&part, column));
            (part.rows.len(), columns.collect::<Result<_>>()?)
        }
        None => (0, batch.schema().fields().iter().map(|field| ArrayData::new_empty(field.data_type())).collect()),
    };
    struct_from_columns(batch.schema().fields(), len, children)
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
    let guarded = std::panic::AssertUnwindSafe(|| call(&mut *producer));
    std::panic::catch_unwind(guarded).unwrap_or_else(|_| {
        let e = Error::internal("exporting an array panicked");
        producer.failed = Some(e.clone());
        producer.deliver(Err(e), |()| ())
    })
}

unsafe extern "C" fn get_schema(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowSchema) -> c_int {
    with_producer(stream, |producer| {
        let schema = producer.schema();
        // SAFETY: the consumer passes room for one ArrowSchema; `write` does not read what was there.
        producer.deliver(schema, |schema| unsafe { out.write(schema) })
    })
}

unsafe extern "C" fn get_next(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowArray) -> c_int {
    with_producer(stream, |producer| {
        let array = producer.next();
        // SAFETY: the consumer passes room for one ArrowArray; `write` does not read what was there.
        producer.deliver(array, |array| unsafe { out.write(array) })
    })
}

unsafe extern "C" fn get_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    let mut message = std::ptr::null();
    with_producer(stream, |producer| {
        message = producer.error.as_ref().map_or(std::ptr::null(), |error| error.as_ptr());
        SUCCESS
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

/// # Import of one array
impl Dataset {
    /// Imports one array through the C data interface as a dataset.
    ///
    /// A struct's members become columns, any other array one column called `values`.
    ///
    /// # Errors
    /// `InvalidArgument` for an array or a schema that was imported before, whose counts, lengths or offsets can't be
    /// those of its type, and for a struct array with null rows; `Unsupported` for a dictionary of values of an
    /// extension type. Wrong values are errors of whoever reads them, as in a file.
    ///
    /// # Safety
    /// Pointers of `array` and `schema` must be those of the C data interface: valid, and to buffers that are as long
    /// as type, length and offsets say.
    pub unsafe fn import_array(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> Result<Dataset> {
        let field = field_of(schema)?;
        // SAFETY: the caller's promise.
        let array = unsafe { array_of(array, field.data_type()) }?;
        dataset_of(&field, vec![array])
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::ffi_stream::ArrowArrayStreamReader;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow_buffer::Buffer;

    use super::*;
    use crate::{Bytes, Format, OpenOptions, WriteOptions, write_to};

    /// Opens a stream of texts and numbers, changed by `change`, that begins `shift` bytes after an aligned address.
    fn open_stream(shift: usize, change: impl FnOnce(&mut [u8])) -> Dataset {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["ash", "pear", "elm"]));
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("text", text), ("number", number)]).unwrap();
        let mut bytes = vec![0; shift];
        let options = WriteOptions { format: Format::Stream, ..WriteOptions::default() };
        write_to(&Dataset::try_from(vec![batch]).unwrap(), &mut bytes, &options).unwrap();
        change(&mut bytes);
        OpenOptions::new().bytes(Bytes::from(Buffer::from_vec(bytes).slice(shift))).unwrap()
    }

    /// Makes a text invalid UTF-8.
    fn damage(bytes: &mut [u8]) {
        let position = bytes.windows(4).position(|window| window == b"pear").unwrap();
        bytes[position] = 0xff;
    }

    /// A consumer that continues after an error must not get the batch after the missing one.
    #[test]
    fn a_stream_repeats_its_first_error() {
        let dataset =
            Dataset::concat(&[open_stream(0, |_| ()), open_stream(0, damage), open_stream(0, |_| ())]).unwrap();
        let mut reader = ArrowArrayStreamReader::try_new(dataset.export_stream().unwrap()).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().num_rows(), 3);
        let errors: Vec<String> = (0..3).map(|_| reader.next().unwrap().unwrap_err().to_string()).collect();
        assert!(!errors[0].is_empty() && errors.iter().all(|e| *e == errors[0]), "{errors:?}");
    }

    /// Imports rows whose producer wrongly asserts that they are valid.
    #[cfg(feature = "table")]
    fn import_trusted(dataset: &Dataset) -> Dataset {
        // SAFETY: violated on purpose, as the test is about such producers: code that appends must only read bytes.
        let export = unsafe { ExportOptions::new().structure_only() };
        let stream = dataset.export_stream_with(export).unwrap();
        // SAFETY: `export_stream_with` has just created the stream.
        unsafe { Dataset::import_stream(stream) }.unwrap()
    }

    /// Such rows were appended and committed, and then the column couldn't be read.
    #[cfg(feature = "table")]
    #[test]
    fn append_rejects_invalid_utf8_of_trusted_arrays() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let valid = open_stream(0, |_| ());
        let mut writer = crate::Writer::open(&table, Some(valid.schema().clone()), &Default::default()).unwrap();
        writer.append_dataset(&valid).unwrap();
        let assert_rejected = |result: Result<()>| {
            let e = result.unwrap_err();
            assert!(e.message().contains("column 'text': row 1: a string is not UTF-8"), "{e}");
            assert_eq!(e.kind(), ErrorKind::InvalidArgument);
        };
        let invalid = import_trusted(&open_stream(0, damage));
        assert_rejected(writer.append_dataset(&invalid));
        assert_rejected(writer.append_dataset(&Dataset::concat(&[valid.clone(), invalid.clone()]).unwrap()));
        // Texts of a file are checked when they are read.
        assert_eq!(writer.append_dataset(&open_stream(0, damage)).unwrap_err().kind(), ErrorKind::InvalidData);
        // Two texts share a character, so that only their concatenation is valid.
        let split_character = |bytes: &mut [u8]| {
            let position = bytes.windows(7).position(|window| window == b"ashpear").unwrap();
            bytes[position + 2..position + 4].copy_from_slice("é".as_bytes());
        };
        assert!(writer.append_dataset(&import_trusted(&open_stream(0, split_character))).is_err());
        assert_eq!(writer.rows(), 3);
        writer.append_dataset(&valid).unwrap();
        writer.close().unwrap();
        let stored = crate::open(&table).unwrap();
        assert_eq!(stored.column("text").unwrap().chunks().unwrap()[0].len(), 6);

        let mut builder = crate::DatasetBuilder::new(valid.schema().clone()).unwrap();
        assert_rejected(builder.append_dataset(&invalid));
        builder.append_dataset(&valid).unwrap();
        assert_eq!(builder.finish().unwrap().len().unwrap(), 3);
    }

    /// Texts below a null are not part of the data, and are not stored.
    #[cfg(feature = "table")]
    #[test]
    fn append_accepts_invalid_utf8_below_nulls() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ash"), Some("pear"), Some("elm")]));
        let nulls = arrow_buffer::NullBuffer::from(vec![true, false, true]);
        let mut buffers = texts.to_data().buffers().to_vec();
        let mut bytes = buffers[1].to_vec();
        bytes[4] = 0xff;
        buffers[1] = Buffer::from_vec(bytes);
        let builder = ArrayData::builder(DataType::Utf8).len(3).nulls(Some(nulls)).buffers(buffers);
        // SAFETY: offsets and lengths are from a valid array, and the byte that isn't UTF-8 is below a null.
        let array = arrow_array::make_array(unsafe { builder.build_unchecked() });
        let batch = RecordBatch::try_from_iter_with_nullable([("text", array, true)]).unwrap();
        let mut writer = crate::Writer::open(&table, Some(batch.schema()), &Default::default()).unwrap();
        writer.append(&batch).unwrap();
        writer.close().unwrap();
        let stored = crate::open(&table).unwrap();
        let cells: Vec<_> = stored.rows().map(|row| row.unwrap().get(0).unwrap().to_string()).collect();
        assert_eq!((cells[0].as_str(), cells[2].as_str()), ("ash", "elm"));
        stored.validate(|_, _| ()).unwrap();
    }

    #[test]
    fn structure_checks_accept_damaged_values() {
        let dataset = open_stream(0, damage);
        let column = dataset.column("text").unwrap();
        assert_eq!(column.chunks_with(ExportOptions::new()).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(dataset.export_batch(0, ExportOptions::new()).unwrap_err().kind(), ErrorKind::InvalidData);
        // SAFETY: the code below only reads the texts as bytes.
        let export = unsafe { ExportOptions::new().structure_only() };
        let chunks = column.chunks_with(export).unwrap();
        assert_eq!(chunks[0].buffers()[1].as_slice()[3..7], *b"\xffear");
        let array = dataset.export_batch(0, export).unwrap();
        assert_eq!((array.len(), array.num_children()), (3, 2));
        assert!(dataset.export_stream_with(export).unwrap().release.is_some());
    }

    #[test]
    fn buffers_are_aligned_on_request() {
        let dataset = open_stream(1, |_| ());
        let numbers = dataset.column("number").unwrap();
        let is_aligned =
            |export| numbers.chunks_with(export).unwrap()[0].buffers()[0].as_ptr().cast::<i64>().is_aligned();
        assert!(!is_aligned(ExportOptions::new()));
        assert!(is_aligned(ExportOptions::new().aligned(true)));
        assert!(numbers.fixed_width_chunks(ExportOptions::new().aligned(true)).unwrap().is_none());
    }

    #[test]
    fn plain_chunks_equal_arrays() {
        let batch = |rows: std::ops::Range<i64>| {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
            RecordBatch::try_from_iter_with_nullable([("n", column, true)]).unwrap()
        };
        let memory = Dataset::try_from(vec![batch(0..5), batch(5..5), batch(5..12), batch(12..20)]).unwrap();
        for format in [Format::File, Format::Stream] {
            let mut bytes = Vec::new();
            write_to(&memory, &mut bytes, &WriteOptions { format, ..WriteOptions::default() }).unwrap();
            let original = OpenOptions::new().bytes(Bytes::from(bytes)).unwrap();
            let slice = original.slice(3, 11).unwrap();
            let concatenated = Dataset::concat(&[original.clone(), original.clone()]).unwrap();
            for dataset in [original, slice, concatenated] {
                let column = dataset.column("n").unwrap();
                let plain = column.fixed_width_chunks(ExportOptions::new()).unwrap().unwrap();
                let arrays = column.chunks_with(ExportOptions::new()).unwrap();
                assert_eq!(plain.len(), arrays.len());
                for (plain, array) in plain.iter().zip(&arrays) {
                    let start = 8 * array.offset();
                    assert_eq!(plain.values, &array.buffers()[0].as_slice()[start..start + 8 * array.len()]);
                    assert_eq!(plain.rows, array.len());
                }
            }
        }
        let with_nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let memory = Dataset::try_from(vec![RecordBatch::try_from_iter([("n", with_nulls)]).unwrap()]).unwrap();
        let mut bytes = Vec::new();
        write_to(&memory, &mut bytes, &WriteOptions::default()).unwrap();
        let column = OpenOptions::new().bytes(Bytes::from(bytes)).unwrap().column("n").unwrap();
        assert!(column.fixed_width_chunks(ExportOptions::new()).unwrap().is_none());
    }
}
