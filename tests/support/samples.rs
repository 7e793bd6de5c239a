//! Three rows of each type, shared by `tests/data/coverage.rs` and `examples/samples`.

use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit, UnionFields};
use arrowwood::Dataset;

fn member_fields() -> Vec<Field> {
    vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)]
}

fn int32_item() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Int32, true))
}

fn six_ints() -> ArrayRef {
    Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6]))
}

fn three_ints() -> ArrayRef {
    Arc::new(Int32Array::from(vec![7, 8, 9]))
}

fn three_texts() -> StringArray {
    StringArray::from(vec![Some("a"), None, Some("a longer piece of text")])
}

fn type_ids() -> ScalarBuffer<i8> {
    ScalarBuffer::from(vec![0i8, 1, 0])
}

/// Returns three rows of each type; the second is null if the type has a validity bitmap.
pub fn samples() -> Vec<ArrayRef> {
    let fields = Fields::from(member_fields());
    let members = UnionFields::from_fields(member_fields());
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("k");
    map.values().append_value(1);
    map.append(true).unwrap();
    map.append(false).unwrap();
    map.append(true).unwrap();
    let mut samples: Vec<ArrayRef> = vec![
        Arc::new(NullArray::new(3)),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Float16Array::from(vec![Some(half::f16::ONE), None, Some(half::f16::PI)])),
        Arc::new(Decimal32Array::from(vec![Some(123), None, Some(-5)]).with_precision_and_scale(9, 2).unwrap()),
        Arc::new(Decimal64Array::from(vec![Some(123), None, Some(-5)]).with_precision_and_scale(18, 2).unwrap()),
        Arc::new(Decimal128Array::from(vec![Some(123), None, Some(-5)]).with_precision_and_scale(38, 2).unwrap()),
        Arc::new(
            Decimal256Array::from(vec![Some(i256::ONE), None, Some(i256::MINUS_ONE)])
                .with_precision_and_scale(76, 2)
                .unwrap(),
        ),
        Arc::new(IntervalYearMonthArray::from(vec![Some(14), None, Some(1)])),
        Arc::new(IntervalDayTimeArray::from(vec![Some(IntervalDayTime::new(1, 2)), None, Some(IntervalDayTime::ZERO)])),
        Arc::new(IntervalMonthDayNanoArray::from(vec![
            Some(IntervalMonthDayNano::new(1, 2, 3)),
            None,
            Some(IntervalMonthDayNano::ZERO),
        ])),
        Arc::new(three_texts()),
        Arc::new(LargeStringArray::from_iter(three_texts().iter())),
        Arc::new(StringViewArray::from_iter(three_texts().iter())),
        Arc::new(BinaryArray::from_iter(three_texts().iter())),
        Arc::new(LargeBinaryArray::from_iter(three_texts().iter())),
        Arc::new(BinaryViewArray::from_iter(three_texts().iter())),
        Arc::new(FixedSizeBinaryArray::try_from_iter(["abc", "def", "ghi"].into_iter()).unwrap()),
        Arc::new(ListArray::new(
            int32_item(),
            OffsetBuffer::new(vec![0, 2, 2, 6].into()),
            six_ints(),
            Some(vec![true, false, true].into()),
        )),
        Arc::new(LargeListArray::new(
            int32_item(),
            OffsetBuffer::new(vec![0, 2, 2, 6].into()),
            six_ints(),
            Some(vec![true, false, true].into()),
        )),
        Arc::new(ListViewArray::new(
            int32_item(),
            vec![4, 0, 1].into(),
            vec![2, 0, 3].into(),
            six_ints(),
            Some(vec![true, false, true].into()),
        )),
        Arc::new(LargeListViewArray::new(
            int32_item(),
            vec![4, 0, 1].into(),
            vec![2, 0, 3].into(),
            six_ints(),
            Some(vec![true, false, true].into()),
        )),
        Arc::new(FixedSizeListArray::new(int32_item(), 2, six_ints(), Some(vec![true, false, true].into()))),
        Arc::new(StructArray::new(
            fields,
            vec![three_ints(), Arc::new(three_texts())],
            Some(vec![true, false, true].into()),
        )),
        Arc::new(map.finish()),
        Arc::new(
            UnionArray::try_new(members.clone(), type_ids(), None, vec![three_ints(), Arc::new(three_texts())])
                .unwrap(),
        ),
        Arc::new(
            UnionArray::try_new(
                members,
                type_ids(),
                Some(vec![0, 2, 1].into()),
                vec![three_ints(), Arc::new(three_texts())],
            )
            .unwrap(),
        ),
        Arc::new(three_texts().iter().collect::<DictionaryArray<Int8Type>>()),
        Arc::new(DictionaryArray::<UInt32Type>::new(vec![1, 0, 1].into(), Arc::new(Int64Array::from(vec![10, 20])))),
        Arc::new(
            RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &StringArray::from(vec!["a", "b"])).unwrap(),
        ),
    ];
    samples.extend(numeric_samples());
    samples
}

/// Returns the types whose values are little-endian numbers: 1, null, and a number that uses all of its bytes, or a
/// day.
fn numeric_samples() -> Vec<ArrayRef> {
    use DataType::*;
    let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let mut types = vec![Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64, Date32, Date64];
    types.extend([Time32(units[0]), Time32(units[1]), Time64(units[2]), Time64(units[3])]);
    types.extend(units.map(|unit| Timestamp(unit, None)));
    types.push(Timestamp(units[1], Some("UTC".into())));
    types.extend(units.map(Duration));
    types.into_iter().map(numeric_sample).collect()
}

fn numeric_sample(data_type: DataType) -> ArrayRef {
    let width = data_type.primitive_width().unwrap();
    let last = match data_type {
        DataType::Date64 => 86_400_000i64.to_le_bytes(),
        _ if data_type.is_temporal() => 3i64.to_le_bytes(),
        _ => [0xFE; 8],
    };
    // Values of Date64 are milliseconds, and must be whole days.
    let first = if data_type == DataType::Date64 { [0; 8] } else { 1i64.to_le_bytes() };
    let bytes = [first, [0; 8], last].iter().flat_map(|number| number[..width].to_vec()).collect::<Vec<u8>>();
    let data = arrow_data::ArrayData::builder(data_type).len(3).add_buffer(Buffer::from_vec(bytes));
    make_array(data.null_bit_buffer(Some(Buffer::from_vec(vec![0b101u8]))).align_buffers(true).build().unwrap())
}

/// Returns a dataset of the single column `c`.
pub fn dataset(array: &ArrayRef) -> Dataset {
    let schema = Arc::new(Schema::new(vec![Field::new("c", array.data_type().clone(), true)]));
    Dataset::from_batches(schema.clone(), vec![RecordBatch::try_new(schema, vec![array.clone()]).unwrap()]).unwrap()
}
