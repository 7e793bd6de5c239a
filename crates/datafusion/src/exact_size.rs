//! Gives batches buffers that are no larger than their content.
//!
//! DataFusion accounts for the batches that sorts and joins retain by the size of their buffers. A slice would count as
//! much as the whole buffer that it is part of: a mapped file, or a batch that was decompressed.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, DictionaryArray, GenericByteArray,
    GenericByteViewArray, MutableArrayData, PrimitiveArray, RecordBatch, RecordBatchOptions, StructArray,
    downcast_integer, downcast_primitive_array, make_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{
    ArrowDictionaryKeyType, ArrowNativeType, BinaryType, ByteArrayType, ByteViewType, DataType, LargeBinaryType,
    LargeUtf8Type, Utf8Type,
};
use datafusion::arrow::error::ArrowError;

/// A buffer may be so many bytes larger than its content.
const MAX_SLACK_BYTES: usize = 4 << 10;

/// Returns the rows of `batch` in buffers that are no larger than their content, and copies slices of larger buffers.
///
/// A slice that is retained or written then takes no more memory than its rows.
///
/// # Errors
/// Errors of Arrow for a batch whose arrays are invalid.
pub fn shrink_to_fit(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    BufferOrigin::Owned.with_exact_buffers(batch, &mut DictionaryCache::default())
}

/// The kind of memory that the buffers of a batch are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferOrigin {
    /// Mapped files. Retaining a slice takes no memory, so that slices are not copied.
    Mapped,
    /// Memory of the process. Retaining a slice would retain its whole buffer, so that slices are copied and the buffer
    /// is freed with the last of them.
    Owned,
}

/// Recently used dictionaries, each with its copy in exact buffers. Most batches share their dictionaries with the
/// batch before.
#[derive(Debug, Default)]
pub(crate) struct DictionaryCache {
    /// Pairs of the original values and the values in exact buffers, oldest first.
    entries: Vec<(ArrayRef, ArrayRef)>,
}

impl DictionaryCache {
    const MAX_ENTRIES: usize = 64;

    /// Returns the values of a dictionary in exact buffers.
    fn get(&mut self, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if values.get_buffer_memory_size() <= MAX_SLACK_BYTES {
            return Ok(values.clone());
        }
        let data = values.to_data();
        if let Some((_, exact)) = self.entries.iter().find(|(original, _)| original.to_data().ptr_eq(&data)) {
            return Ok(exact.clone());
        }
        // Other batches retain the buffers anyway, so that a copy would free no memory.
        let exact = BufferOrigin::Mapped.shrink_column(values, &mut DictionaryCache::default())?;
        if self.entries.len() == DictionaryCache::MAX_ENTRIES {
            self.entries.remove(0);
        }
        self.entries.push((values.clone(), exact.clone()));
        debug_assert!(self.entries.len() <= DictionaryCache::MAX_ENTRIES, "{} dictionaries", self.entries.len());
        Ok(exact)
    }
}

/// Makes a [`Buffer`] the owner of [`Bytes`], whose size is the content's.
struct BufferOwner(Buffer);

impl AsRef<[u8]> for BufferOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl BufferOrigin {
    /// Returns the rows of `batch` in buffers that are no larger than their content.
    ///
    /// Each batch counts the values of its dictionaries in full, although batches share them.
    pub fn with_exact_buffers(
        self,
        batch: &RecordBatch,
        dictionaries: &mut DictionaryCache,
    ) -> Result<RecordBatch, ArrowError> {
        let columns = self.shrink_columns(batch.columns(), dictionaries)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(batch.schema(), columns, &options)
    }

    fn shrink_columns(
        self,
        columns: &[ArrayRef],
        dictionaries: &mut DictionaryCache,
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        columns.iter().map(|column| self.shrink_column(column, dictionaries)).collect()
    }

    fn shrink_column(self, array: &ArrayRef, dictionaries: &mut DictionaryCache) -> Result<ArrayRef, ArrowError> {
        macro_rules! shrink_dictionary {
            ($key:ty) => {
                self.shrink_dictionary::<$key>(array, dictionaries)
            };
        }
        Ok(downcast_primitive_array!(
            array => Arc::new(self.shrink_primitive(array)?) as ArrayRef,
            DataType::Boolean => {
                let array = array.as_boolean();
                Arc::new(BooleanArray::new(self.shrink_bits(array.values()), self.shrink_nulls(array))) as ArrayRef
            }
            DataType::Utf8 => self.shrink_bytes::<Utf8Type>(array.as_bytes())?,
            DataType::LargeUtf8 => self.shrink_bytes::<LargeUtf8Type>(array.as_bytes())?,
            DataType::Binary => self.shrink_bytes::<BinaryType>(array.as_bytes())?,
            DataType::LargeBinary => self.shrink_bytes::<LargeBinaryType>(array.as_bytes())?,
            DataType::Utf8View => self.shrink_views(array.as_string_view())?,
            DataType::BinaryView => self.shrink_views(array.as_binary_view())?,
            DataType::Dictionary(keys, _) => downcast_integer! {
                keys.as_ref() => (shrink_dictionary),
                _ => Ok(array.clone()),
            }?,
            DataType::Struct(fields) => {
                let array = array.as_struct();
                let columns = self.shrink_columns(array.columns(), dictionaries)?;
                let nulls = self.shrink_nulls(array);
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?) as ArrayRef
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Map(..)
            | DataType::FixedSizeBinary(_) => copy_array(array)?,
            _ => array.clone(),
        ))
    }

    /// Returns the content of a buffer in one that is not much larger.
    fn shrink_buffer(self, buffer: Buffer) -> Buffer {
        if buffer.capacity() <= buffer.len() + MAX_SLACK_BYTES {
            return buffer;
        }
        match self {
            BufferOrigin::Mapped => Buffer::from(Bytes::from_owner(BufferOwner(buffer))),
            BufferOrigin::Owned => Buffer::from(buffer.as_slice()),
        }
    }

    fn shrink_bits(self, bits: &BooleanBuffer) -> BooleanBuffer {
        BooleanBuffer::new(self.shrink_buffer(bits.sliced()), 0, bits.len())
    }

    fn shrink_nulls(self, array: &dyn Array) -> Option<NullBuffer> {
        array.nulls().map(|nulls| NullBuffer::new(self.shrink_bits(nulls.inner())))
    }

    fn shrink_primitive<T: ArrowPrimitiveType>(
        self,
        array: &PrimitiveArray<T>,
    ) -> Result<PrimitiveArray<T>, ArrowError> {
        let values = ScalarBuffer::new(self.shrink_buffer(array.values().inner().clone()), 0, array.len());
        Ok(PrimitiveArray::try_new(values, self.shrink_nulls(array))?.with_data_type(array.data_type().clone()))
    }

    fn shrink_bytes<T: ByteArrayType>(self, array: &GenericByteArray<T>) -> Result<ArrayRef, ArrowError> {
        let lengths = (0..array.len()).map(|row| array.value_length(row).as_usize());
        let offsets = OffsetBuffer::<T::Offset>::from_lengths(lengths);
        let first = array.value_offsets().first().map_or(0, |first| first.as_usize());
        let len = offsets.last().map_or(0, |last| last.as_usize());
        debug_assert!(first + len <= array.values().len(), "texts end within their buffer");
        let values = self.shrink_buffer(array.values().slice_with_length(first, len));
        Ok(Arc::new(GenericByteArray::<T>::try_new(offsets, values, self.shrink_nulls(array))?))
    }

    fn shrink_views<T: ByteViewType>(self, array: &GenericByteViewArray<T>) -> Result<ArrayRef, ArrowError> {
        // Copies the texts that are not stored in the views themselves.
        let array = array.gc();
        let views = self.shrink_buffer(array.views().inner().clone());
        if views.capacity() == array.views().inner().capacity() {
            return Ok(Arc::new(array));
        }
        let views = ScalarBuffer::new(views, 0, array.len());
        let nulls = self.shrink_nulls(&array);
        Ok(Arc::new(GenericByteViewArray::<T>::try_new(views, array.data_buffers().to_vec(), nulls)?))
    }

    fn shrink_dictionary<K: ArrowDictionaryKeyType>(
        self,
        array: &dyn Array,
        dictionaries: &mut DictionaryCache,
    ) -> Result<ArrayRef, ArrowError> {
        let array = array.as_dictionary::<K>();
        Ok(Arc::new(DictionaryArray::try_new(self.shrink_primitive(array.keys())?, dictionaries.get(array.values())?)?))
    }
}

/// Copies an array of a nested type, whose children are not sliced with it.
fn copy_array(array: &dyn Array) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, array.len());
    copy.try_extend(0, 0, array.len())?;
    Ok(make_array(copy.freeze()))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        FixedSizeBinaryArray, FixedSizeListArray, Int64Array, LargeStringArray, ListArray, StringArray,
        StringViewArray, TimestampMicrosecondArray,
    };
    use datafusion::arrow::datatypes::{Field, Int32Type, Int64Type, Schema};

    use super::*;

    const ROWS: i64 = 100_000;

    /// Returns `n`, or null for every fifth row.
    fn nullable(n: i64) -> Option<i64> {
        (n % 5 > 0).then_some(n)
    }

    fn texts() -> impl Iterator<Item = Option<String>> {
        (0..ROWS).map(|n| nullable(n).map(|n| format!("the word number {n}")))
    }

    /// Returns a column of [`ROWS`] rows for each kind of array.
    fn columns() -> Vec<ArrayRef> {
        let keys: Vec<_> = (0..ROWS).map(|n| nullable(n).map(|n| format!("{}", n % 3))).collect();
        let numbers = (0..ROWS).map(nullable).collect::<Int64Array>();
        let words = texts().collect::<StringArray>();
        let fields = vec![Field::new("n", DataType::Int64, true), Field::new("word", DataType::Utf8, true)];
        let element = Arc::new(Field::new_list_field(DataType::Int64, true));
        let elements = Arc::new((0..2 * ROWS).collect::<Int64Array>());
        let lists = (0..ROWS).map(|n| nullable(n).map(|n| (0..n % 4).map(Some)));
        vec![
            Arc::new((0..ROWS).map(|n| (n % 7 > 0).then_some(n % 3 == 0)).collect::<BooleanArray>()),
            Arc::new(words.clone()),
            Arc::new(texts().collect::<LargeStringArray>()),
            Arc::new(texts().collect::<StringViewArray>()),
            Arc::new(numbers.clone()),
            Arc::new(TimestampMicrosecondArray::from_iter_values(0..ROWS).with_timezone("UTC")),
            Arc::new(keys.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>()),
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
            Arc::new(FixedSizeListArray::new(element, 2, elements, None)),
            Arc::new(FixedSizeBinaryArray::try_from_iter((0..ROWS).map(i64::to_le_bytes)).unwrap()),
            Arc::new(StructArray::new(fields.into(), vec![Arc::new(numbers), Arc::new(words)], None)),
        ]
    }

    fn shrink(origin: BufferOrigin, batch: &RecordBatch) -> RecordBatch {
        origin.with_exact_buffers(batch, &mut DictionaryCache::default()).unwrap()
    }

    fn shares_memory(batch: &RecordBatch, column: &ArrayRef) -> bool {
        let memory = column.to_data().buffers()[0].as_ptr_range();
        batch.column(0).to_data().buffers().iter().any(|buffer| memory.contains(&buffer.as_ptr()))
    }

    #[test]
    fn slices_get_buffers_of_their_size() {
        for column in columns() {
            let schema = Arc::new(Schema::new(vec![Field::new("c", column.data_type().clone(), true)]));
            for (start, len) in [(0, 100_000), (8, 1_000), (5, 1_000), (99_999, 1), (77, 0)] {
                let slice = RecordBatch::try_new(schema.clone(), vec![column.slice(start, len)]).unwrap();
                for origin in [BufferOrigin::Mapped, BufferOrigin::Owned] {
                    let shrunk = shrink(origin, &slice);
                    shrunk.column(0).to_data().validate_full().unwrap();
                    assert_eq!(shrunk, slice);
                    let bytes = shrunk.column(0).get_buffer_memory_size();
                    let max_bytes = 2 * (len * 40 + 4 * MAX_SLACK_BYTES);
                    assert!(bytes <= max_bytes, "{} {len}: {bytes} bytes of {max_bytes}", column.data_type());
                }
            }
        }
    }

    #[test]
    fn dictionaries_get_buffers_of_their_size_and_are_cached() {
        // A slice, as in a file that has more after the dictionary.
        let words = (0..ROWS).map(|n| Some(format!("the word number {n}"))).collect::<StringArray>();
        let values: ArrayRef = Arc::new(words.slice(0, 500));
        let keys = (0..1000).map(|n| n % 500).collect::<datafusion::arrow::array::Int32Array>();
        let column = DictionaryArray::<Int32Type>::try_new(keys, values).unwrap();
        let batch = RecordBatch::try_from_iter([("c", Arc::new(column) as ArrayRef)]).unwrap();
        let mut dictionaries = DictionaryCache::default();
        for origin in [BufferOrigin::Mapped, BufferOrigin::Owned, BufferOrigin::Owned] {
            let shrunk = origin.with_exact_buffers(&batch, &mut dictionaries).unwrap();
            assert_eq!(shrunk, batch);
            assert!(shrunk.column(0).get_buffer_memory_size() < 40_000);
        }
        assert_eq!(dictionaries.entries.len(), 1);
    }

    #[test]
    fn slices_are_copied_from_owned_memory_only() {
        let column: ArrayRef = Arc::new((0..ROWS).collect::<Int64Array>());
        let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, false)]));
        let slice = RecordBatch::try_new(schema, vec![column.slice(8_000, 1_000)]).unwrap();
        assert!(shares_memory(&shrink(BufferOrigin::Mapped, &slice), &column));
        assert!(!shares_memory(&shrink(BufferOrigin::Owned, &slice), &column));
    }
}
