//! Batches whose buffers count for what they have. Where DataFusion adds up what sorts and joins keep, a slice counts
//! as all of the buffer that it is of: a mapped file, or a batch that was decompressed.

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

/// The bytes that a buffer may count for beyond its content.
const SLACK: usize = 4 << 10;

/// The memory that the buffers of arrays are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferOrigin {
    /// Files: to keep a slice takes no memory.
    Mapped,
    /// Memory of the process: a slice that is kept keeps all of its buffer. Slices are copied, and the buffer is free
    /// when the last one was.
    Owned,
}

/// The values of dictionaries that were counted last, and the same in buffers that count for what they have: most
/// batches share them with the batch before.
#[derive(Debug, Default)]
pub(crate) struct DictionaryCache(Vec<(ArrayRef, ArrayRef)>);

impl DictionaryCache {
    /// More dictionaries than these are not kept.
    const MOST: usize = 64;

    fn counted(&mut self, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if values.get_buffer_memory_size() <= SLACK {
            return Ok(values.clone());
        }
        let data = values.to_data();
        if let Some((_, counted)) = self.0.iter().find(|(known, _)| known.to_data().ptr_eq(&data)) {
            return Ok(counted.clone());
        }
        // All batches have the same: nothing of it is copied.
        let counted = BufferOrigin::Mapped.column(values, &mut DictionaryCache::default())?;
        if self.0.len() == DictionaryCache::MOST {
            self.0.remove(0);
        }
        self.0.push((values.clone(), counted.clone()));
        debug_assert!(self.0.len() <= DictionaryCache::MOST, "{} dictionaries are kept", self.0.len());
        Ok(counted)
    }
}

/// A buffer as an owner of bytes.
struct BufferOwner(Buffer);

impl AsRef<[u8]> for BufferOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl BufferOrigin {
    /// The same rows in buffers that count for what they have.
    ///
    /// The values of dictionaries, which all batches share, count whole in each.
    pub fn counted(self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        self.counted_with(batch, &mut DictionaryCache::default())
    }

    /// The same for one batch of many, whose dictionaries are known.
    pub fn counted_with(self, batch: &RecordBatch, known: &mut DictionaryCache) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().map(|column| self.column(column, known)).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(batch.schema(), columns, &options)
    }

    fn column(self, array: &ArrayRef, known: &mut DictionaryCache) -> Result<ArrayRef, ArrowError> {
        macro_rules! of_keys {
            ($key:ty) => {
                self.dictionary::<$key>(array, known)
            };
        }
        Ok(downcast_primitive_array!(
            array => Arc::new(self.primitive(array)?) as ArrayRef,
            DataType::Boolean => {
                let array = array.as_boolean();
                Arc::new(BooleanArray::new(self.bits(array.values()), self.nulls(array))) as ArrayRef
            }
            DataType::Utf8 => self.text::<Utf8Type>(array.as_bytes())?,
            DataType::LargeUtf8 => self.text::<LargeUtf8Type>(array.as_bytes())?,
            DataType::Binary => self.text::<BinaryType>(array.as_bytes())?,
            DataType::LargeBinary => self.text::<LargeBinaryType>(array.as_bytes())?,
            DataType::Utf8View => self.view(array.as_string_view())?,
            DataType::BinaryView => self.view(array.as_binary_view())?,
            DataType::Dictionary(keys, _) => downcast_integer! {
                keys.as_ref() => (of_keys),
                _ => Ok(array.clone()),
            }?,
            DataType::Struct(fields) => {
                let array = array.as_struct();
                let columns = array.columns().iter().map(|column| self.column(column, known)).collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, self.nulls(array), array.len())?) as ArrayRef
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Map(..)
            | DataType::FixedSizeBinary(_) => copied(array)?,
            _ => array.clone(),
        ))
    }

    fn exact(self, buffer: Buffer) -> Buffer {
        if buffer.capacity() <= buffer.len() + SLACK {
            return buffer;
        }
        match self {
            BufferOrigin::Mapped => Buffer::from(Bytes::from_owner(BufferOwner(buffer))),
            BufferOrigin::Owned => Buffer::from(buffer.as_slice()),
        }
    }

    fn bits(self, bits: &BooleanBuffer) -> BooleanBuffer {
        BooleanBuffer::new(self.exact(bits.sliced()), 0, bits.len())
    }

    fn nulls(self, array: &dyn Array) -> Option<NullBuffer> {
        array.nulls().map(|nulls| NullBuffer::new(self.bits(nulls.inner())))
    }

    fn primitive<T: ArrowPrimitiveType>(self, array: &PrimitiveArray<T>) -> Result<PrimitiveArray<T>, ArrowError> {
        let values = ScalarBuffer::new(self.exact(array.values().inner().clone()), 0, array.len());
        Ok(PrimitiveArray::try_new(values, self.nulls(array))?.with_data_type(array.data_type().clone()))
    }

    fn text<T: ByteArrayType>(self, array: &GenericByteArray<T>) -> Result<ArrayRef, ArrowError> {
        let lengths = (0..array.len()).map(|row| array.value_length(row).as_usize());
        let offsets = OffsetBuffer::<T::Offset>::from_lengths(lengths);
        let first = array.value_offsets().first().map_or(0, |first| first.as_usize());
        let len = offsets.last().map_or(0, |last| last.as_usize());
        debug_assert!(first + len <= array.values().len(), "texts end within their buffer");
        let values = self.exact(array.values().slice_with_length(first, len));
        Ok(Arc::new(GenericByteArray::<T>::try_new(offsets, values, self.nulls(array))?))
    }

    fn view<T: ByteViewType>(self, array: &GenericByteViewArray<T>) -> Result<ArrayRef, ArrowError> {
        // Texts that are not in the views themselves are copied.
        let array = array.gc();
        let views = self.exact(array.views().inner().clone());
        if views.capacity() == array.views().inner().capacity() {
            return Ok(Arc::new(array));
        }
        let views = ScalarBuffer::new(views, 0, array.len());
        let nulls = self.nulls(&array);
        Ok(Arc::new(GenericByteViewArray::<T>::try_new(views, array.data_buffers().to_vec(), nulls)?))
    }

    fn dictionary<K: ArrowDictionaryKeyType>(
        self,
        array: &dyn Array,
        known: &mut DictionaryCache,
    ) -> Result<ArrayRef, ArrowError> {
        let array = array.as_dictionary::<K>();
        Ok(Arc::new(DictionaryArray::try_new(self.primitive(array.keys())?, known.counted(array.values())?)?))
    }
}

/// The values of nested types, whose children are not sliced with them.
fn copied(array: &dyn Array) -> Result<ArrayRef, ArrowError> {
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

    fn columns() -> Vec<ArrayRef> {
        let some = |n: i64| (n % 5 > 0).then_some(n);
        let texts = || (0..ROWS).map(move |n| some(n).map(|n| format!("the word number {n}")));
        let keys: Vec<_> = (0..ROWS).map(|n| some(n).map(|n| format!("{}", n % 3))).collect();
        let numbers = (0..ROWS).map(some).collect::<Int64Array>();
        let words = texts().collect::<StringArray>();
        let fields = vec![Field::new("n", DataType::Int64, true), Field::new("word", DataType::Utf8, true)];
        let fixed = Arc::new(Field::new_list_field(DataType::Int64, true));
        let twice = Arc::new((0..2 * ROWS).collect::<Int64Array>());
        let lists = (0..ROWS).map(|n| some(n).map(|n| (0..n % 4).map(Some)));
        vec![
            Arc::new((0..ROWS).map(|n| (n % 7 > 0).then_some(n % 3 == 0)).collect::<BooleanArray>()),
            Arc::new(words.clone()),
            Arc::new(texts().collect::<LargeStringArray>()),
            Arc::new(texts().collect::<StringViewArray>()),
            Arc::new(numbers.clone()),
            Arc::new(TimestampMicrosecondArray::from_iter_values(0..ROWS).with_timezone("UTC")),
            Arc::new(keys.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>()),
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
            Arc::new(FixedSizeListArray::new(fixed, 2, twice, None)),
            Arc::new(FixedSizeBinaryArray::try_from_iter((0..ROWS).map(i64::to_le_bytes)).unwrap()),
            Arc::new(StructArray::new(fields.into(), vec![Arc::new(numbers), Arc::new(words)], None)),
        ]
    }

    fn is_of(batch: &RecordBatch, whole: &ArrayRef) -> bool {
        let start = whole.to_data().buffers()[0].as_ptr_range();
        batch.column(0).to_data().buffers().iter().any(|buffer| start.contains(&buffer.as_ptr()))
    }

    #[test]
    fn slices_count_for_what_they_have() {
        for column in columns() {
            let schema = Arc::new(Schema::new(vec![Field::new("c", column.data_type().clone(), true)]));
            for (start, len) in [(0, 100_000), (8, 1_000), (5, 1_000), (99_999, 1), (77, 0)] {
                let slice = RecordBatch::try_new(schema.clone(), vec![column.slice(start, len)]).unwrap();
                for memory in [BufferOrigin::Mapped, BufferOrigin::Owned] {
                    let found = memory.counted(&slice).unwrap();
                    found.column(0).to_data().validate_full().unwrap();
                    assert_eq!(found, slice);
                    let bytes = found.column(0).get_buffer_memory_size();
                    let most = 2 * (len * 40 + 4 * SLACK);
                    assert!(bytes <= most, "{} {len}: {bytes} bytes of {most}", column.data_type());
                }
            }
        }
    }

    #[test]
    fn values_of_a_dictionary_count_for_what_they_have_and_are_known_to_the_next_batch() {
        // As in a file that has more behind them.
        let words = (0..ROWS).map(|n| Some(format!("the word number {n}"))).collect::<StringArray>();
        let values: ArrayRef = Arc::new(words.slice(0, 500));
        let keys = (0..1000).map(|n| n % 500).collect::<datafusion::arrow::array::Int32Array>();
        let column = DictionaryArray::<Int32Type>::try_new(keys, values).unwrap();
        let batch = RecordBatch::try_from_iter([("c", Arc::new(column) as ArrayRef)]).unwrap();
        let mut known = DictionaryCache::default();
        for memory in [BufferOrigin::Mapped, BufferOrigin::Owned, BufferOrigin::Owned] {
            let found = memory.counted_with(&batch, &mut known).unwrap();
            assert_eq!(found, batch);
            assert!(found.column(0).get_buffer_memory_size() < 40_000);
        }
        assert_eq!(known.0.len(), 1);
    }

    #[test]
    fn slices_of_files_are_not_copied_and_those_of_memory_are() {
        let column: ArrayRef = Arc::new((0..ROWS).collect::<Int64Array>());
        let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, false)]));
        let slice = RecordBatch::try_new(schema, vec![column.slice(8_000, 1_000)]).unwrap();
        assert!(is_of(&BufferOrigin::Mapped.counted(&slice).unwrap(), &column));
        assert!(!is_of(&BufferOrigin::Owned.counted(&slice).unwrap(), &column));
    }
}
