//! Collects values from text into arrays of a given type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int16Array, Int32Array, Int64Array, PrimitiveArray, RecordBatch,
    RecordBatchOptions, downcast_integer,
};
use arrow_buffer::{ArrowNativeType, IntervalDayTime, IntervalMonthDayNano};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit};

use super::scalar::*;
use crate::array::gather::gather;
use crate::array::{UncheckedArray, require_little_endian, to_array, value};
use crate::error::{Error, ErrorKind, Result};
use crate::types::layout::{
    MICROS_PER_SECOND, MILLIS_PER_DAY, MILLIS_PER_SECOND, NANOS_PER_MILLI, NANOS_PER_SECOND, SECONDS_PER_DAY,
};
use crate::types::{is_ordered, is_text_or_binary, type_name};

/// Collects the values of a column, from text.
pub(crate) trait Sink: Finish + Send {
    /// Appends a value, or a null for `None`; returns `None` for values that are not of the type.
    fn push(&mut self, value: Option<&str>) -> Option<()>;
}

/// Builds arrays from the values of a column.
pub(crate) trait Finish {
    /// Returns the values since the last call.
    fn finish(&mut self) -> Result<ArrayRef>;

    /// Converts all arrays to the final type, and returns it with them.
    fn seal(&mut self, field: Field, chunks: Vec<ArrayRef>) -> Result<(Field, Vec<ArrayRef>)> {
        Ok((field, chunks))
    }
}

impl<F: Finish + ?Sized> Finish for Box<F> {
    fn finish(&mut self) -> Result<ArrayRef> {
        (**self).finish()
    }

    fn seal(&mut self, field: Field, chunks: Vec<ArrayRef>) -> Result<(Field, Vec<ArrayRef>)> {
        (**self).seal(field, chunks)
    }
}

/// A column being filled. Its sink has the values since the last cut, and `chunks` the earlier ones, an array for each
/// batch. To *cut* is to end the array of the sink, and so the batch.
pub(crate) struct TextColumn<S> {
    pub(crate) field: Field,
    pub(crate) sink: S,
    /// The number of values since the last cut.
    pub(crate) rows: usize,
    chunks: Vec<ArrayRef>,
}

impl<S: Finish> TextColumn<S> {
    pub(crate) fn new(field: Field, sink: S) -> TextColumn<S> {
        TextColumn { field, sink, rows: 0, chunks: Vec::new() }
    }

    /// Cuts after all values, and returns the first `rows` since the last cut.
    fn cut(&mut self, rows: usize) -> Result<ArrayRef> {
        self.rows = 0;
        Ok(self.sink.finish()?.slice(0, rows))
    }

    /// Cuts after all values, and returns the first `rows` since the last cut. A dictionary has only their values.
    pub(crate) fn take_array(&mut self, rows: usize) -> Result<ArrayRef> {
        let chunk = self.cut(rows)?;
        let (_, mut sealed) = self.sink.seal(self.field.clone(), vec![chunk])?;
        sealed.pop().ok_or_else(|| self.error(Error::invalid("no values")))
    }

    /// Adds the column's name to an error.
    fn error(&self, e: Error) -> Error {
        e.context(format_args!("column `{}`", shorten(self.field.name())))
    }

    /// Returns the final field and all arrays.
    fn seal(mut self) -> Result<(Field, Vec<ArrayRef>)> {
        let chunks = std::mem::take(&mut self.chunks);
        self.sink.seal(self.field.clone(), chunks).map_err(|e| self.error(e))
    }
}

/// Collects rows column by column, and cuts them into batches.
pub(crate) struct BatchBuilder<S> {
    schema: SchemaRef,
    pub(crate) columns: Vec<TextColumn<S>>,
    /// The number of whole rows since the last cut.
    pub(crate) rows: usize,
    batch_rows: usize,
    lengths: Vec<usize>,
}

impl<S: Finish> BatchBuilder<S> {
    pub(crate) fn new(schema: SchemaRef, columns: Vec<TextColumn<S>>, batch_rows: usize) -> BatchBuilder<S> {
        BatchBuilder { schema, columns, rows: 0, batch_rows, lengths: Vec::new() }
    }

    /// Counts a completed row. Returns true when a batch is full.
    pub(crate) fn count_row(&mut self) -> bool {
        self.rows += 1;
        self.rows >= self.batch_rows
    }

    /// Stores pending rows as a batch, if there are any.
    pub(crate) fn cut(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if rows > 0 {
            for column in &mut self.columns {
                let chunk = column.cut(rows).map_err(|e| column.error(e))?;
                assert_eq!(chunk.len(), rows, "column `{}` has a value for each row", column.field.name());
                column.chunks.push(chunk);
            }
            self.lengths.push(rows);
        }
        Ok(())
    }

    /// Returns all batches. A dictionary-encoded column has one dictionary for all of them.
    pub(crate) fn assemble(self) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        assert_eq!(self.rows, 0, "pending rows are cut before batches are assembled");
        let mut fields = Vec::with_capacity(self.columns.len());
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in self.columns {
            let (field, chunks) = column.seal()?;
            assert_eq!(chunks.len(), self.lengths.len(), "column `{}` has an array for each batch", field.name());
            fields.push(field);
            columns.push(chunks);
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let mut batches = Vec::with_capacity(self.lengths.len());
        for (number, &rows) in self.lengths.iter().enumerate() {
            let arrays = columns.iter().map(|chunks: &Vec<ArrayRef>| chunks[number].clone()).collect();
            batches.push(batch(&schema, arrays, rows)?);
        }
        Ok((schema, batches))
    }

    /// Returns pending rows as an independent batch, if there are any.
    pub(crate) fn take(&mut self) -> Result<Option<RecordBatch>> {
        let rows = std::mem::take(&mut self.rows);
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            let array = column.take_array(rows).map_err(|e| column.error(e))?;
            assert_eq!(array.len(), rows, "column `{}` has a value for each row", column.field.name());
            arrays.push(array);
        }
        if rows == 0 {
            return Ok(None);
        }
        batch(&self.schema, arrays, rows).map(Some)
    }
}

fn batch(schema: &SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(|e| Error::invalid(e.to_string()))
}

/// The default of the maximum number of rows of a batch.
pub(crate) const DEFAULT_BATCH_ROWS: usize = 1 << 20;

/// Checks that `batch_rows` is valid.
pub(crate) fn check_batch_rows(batch_rows: usize) -> Result<()> {
    if batch_rows == 0 {
        return Err(Error::invalid_argument("expected batch_rows of 1 or more, got 0"));
    }
    Ok(())
}

/// Returns the schema of the options for a stream, which must have one, and must declare dictionary columns in it.
pub(crate) fn stream_schema(
    schema: &Option<SchemaRef>,
    overrides: &Fields,
    dictionary: &[String],
) -> Result<SchemaRef> {
    if let Some(name) = dictionary.first() {
        return Err(Error::invalid_argument(format!(
            "expected dictionaries in the schema, got the option for `{name}`"
        )));
    }
    let Some(schema) = schema else {
        return Err(Error::invalid_argument("expected a schema for rows as they come, got none"));
    };
    override_fields(schema, overrides)
}

/// Replaces the fields of `schema` by the fields of `overrides` with the same names. Categories are numbered in order
/// of appearance, so they are never ordered, even if the schema says so.
pub(crate) fn override_fields(schema: &SchemaRef, overrides: &Fields) -> Result<SchemaRef> {
    if overrides.is_empty() && !schema.fields().iter().any(|field| is_ordered(field)) {
        return Ok(schema.clone());
    }
    let mut fields = schema.fields().to_vec();
    for field in overrides {
        let Some(replaced) = fields.iter_mut().find(|replaced| replaced.name() == field.name()) else {
            let names = schema.fields().iter().map(|field| field.name().as_str());
            return Err(missing_column(field.name(), "schema_overrides", names));
        };
        *replaced = field.clone();
    }
    for field in fields.iter_mut().filter(|field| is_ordered(field)) {
        *field = Arc::new(field.as_ref().clone().with_dict_is_ordered(false));
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Returns the error for a column `name`, which `wanted_by` names, and which is not in `names`.
pub(crate) fn missing_column<'a>(name: &str, wanted_by: &str, names: impl Iterator<Item = &'a str>) -> Error {
    /// So many names are in the message.
    const MAX_NAMES: usize = 20;
    let names: Vec<_> = names.take(MAX_NAMES).map(|name| format!("`{}`", shorten(name))).collect();
    let message = format!(
        "expected a column `{}`, as {wanted_by} names it, got the columns {}; correct {wanted_by}",
        shorten(name),
        names.join(", ")
    );
    Error::new(ErrorKind::ColumnNotFound, message)
}

/// Checks that `options.dictionary` names columns of `schema`.
pub(crate) fn check_dictionary(dictionary: &[String], schema: &Schema) -> Result<()> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    for wanted in dictionary {
        if names.clone().all(|name| name != wanted) {
            return Err(missing_column(wanted, "the option dictionary", names));
        }
    }
    Ok(())
}

/// Creates the sink of a column, which encodes a dictionary if `dictionary` names the column.
pub(crate) fn column_sink(field: &Field, dictionary: &[String]) -> Result<Box<dyn Sink>> {
    if dictionary.contains(field.name()) { encoding_sink(field) } else { sink(field) }
}

/// Creates the sink of a column of the field's type.
fn sink(field: &Field) -> Result<Box<dyn Sink>> {
    use DataType::*;
    Ok(match field.data_type() {
        Int8 if is_bool8(field) => {
            primitives(Int8Builder::new(), |value| boolean(value).map(i8::from).or_else(|| parse(value)))
        }
        Boolean => parsed(BooleanBuilder::new(), |builder, value| {
            builder.append_option(parse_optional(value, boolean)?);
            Some(())
        }),
        Int8 => primitives(Int8Builder::new(), parse),
        Int16 => primitives(Int16Builder::new(), parse),
        Int32 => primitives(Int32Builder::new(), parse),
        Int64 => primitives(Int64Builder::new(), parse),
        UInt8 => primitives(UInt8Builder::new(), parse),
        UInt16 => primitives(UInt16Builder::new(), parse),
        UInt32 => primitives(UInt32Builder::new(), parse),
        UInt64 => primitives(UInt64Builder::new(), parse),
        Float16 => primitives(Float16Builder::new(), float),
        Float32 => primitives(Float32Builder::new(), float),
        Float64 => primitives(Float64Builder::new(), float),
        Date32 => primitives(Date32Builder::new(), |value| any_date(value)?.try_into().ok()),
        Date64 => primitives(Date64Builder::new(), |value| any_date(value)?.checked_mul(MILLIS_PER_DAY)),
        Timestamp(TimeUnit::Second, zone) => moments(TimestampSecondBuilder::new(), 1, zone),
        Timestamp(TimeUnit::Millisecond, zone) => moments(TimestampMillisecondBuilder::new(), MILLIS_PER_SECOND, zone),
        Timestamp(TimeUnit::Microsecond, zone) => moments(TimestampMicrosecondBuilder::new(), MICROS_PER_SECOND, zone),
        Timestamp(TimeUnit::Nanosecond, zone) => moments(TimestampNanosecondBuilder::new(), NANOS_PER_SECOND, zone),
        Time32(TimeUnit::Second) => primitives(Time32SecondBuilder::new(), |value| time32(value, 1)),
        Time32(TimeUnit::Millisecond) => {
            primitives(Time32MillisecondBuilder::new(), |value| time32(value, MILLIS_PER_SECOND))
        }
        Time64(TimeUnit::Microsecond) => {
            primitives(Time64MicrosecondBuilder::new(), |value| time64(value, MICROS_PER_SECOND))
        }
        Time64(TimeUnit::Nanosecond) => {
            primitives(Time64NanosecondBuilder::new(), |value| time64(value, NANOS_PER_SECOND))
        }
        Duration(_) | Interval(_) => span_sink(field)?,
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => decimal_sink(field)?,
        Utf8 => parsed(StringBuilder::new(), append),
        LargeUtf8 => parsed(LargeStringBuilder::new(), append),
        Utf8View => parsed(StringViewBuilder::new(), append_view),
        Binary => {
            parsed(BinaryBuilder::new(), |builder, value| append(builder, parse_optional(value, bytes)?.as_deref()))
        }
        LargeBinary => parsed(LargeBinaryBuilder::new(), |builder, value| {
            append(builder, parse_optional(value, bytes)?.as_deref())
        }),
        BinaryView => parsed(BinaryViewBuilder::new(), |builder, value| {
            builder.append_option(parse_optional(value, bytes)?);
            Some(())
        }),
        FixedSizeBinary(size) => parsed(FixedSizeBinaryBuilder::new(*size), |builder, value| {
            match parse_optional(value, bytes_or_uuid)? {
                Some(bytes) => builder.append_value(bytes).ok()?,
                None => builder.append_null(),
            }
            Some(())
        }),
        Null => parsed(NullBuilder::new(), |builder, value| value.is_none().then(|| builder.append_null())),
        Dictionary(key, values) if key.is_integer() => DictionaryEncoder::sink(Some(key), field.name(), values)?,
        RunEndEncoded(_, values) => RunEncoder::sink(field, values)?,
        _ => return Err(unsupported(field)),
    })
}

/// Creates the sink of a column of decimals.
fn decimal_sink(field: &Field) -> Result<Box<dyn Sink>> {
    use DataType::*;
    Ok(match field.data_type() {
        Decimal32(precision, scale) => decimals::<Decimal32Type>(*precision, *scale),
        Decimal64(precision, scale) => decimals::<Decimal64Type>(*precision, *scale),
        Decimal128(precision, scale) => decimals::<Decimal128Type>(*precision, *scale),
        Decimal256(precision, scale) => wide_decimals(*precision, *scale),
        _ => return Err(unsupported(field)),
    })
}

/// Creates the sink of a column of durations or intervals.
fn span_sink(field: &Field) -> Result<Box<dyn Sink>> {
    use DataType::*;
    Ok(match field.data_type() {
        Duration(TimeUnit::Second) => primitives(DurationSecondBuilder::new(), |value| duration(value, 1)),
        Duration(TimeUnit::Millisecond) => {
            primitives(DurationMillisecondBuilder::new(), |value| duration(value, MILLIS_PER_SECOND))
        }
        Duration(TimeUnit::Microsecond) => {
            primitives(DurationMicrosecondBuilder::new(), |value| duration(value, MICROS_PER_SECOND))
        }
        Duration(TimeUnit::Nanosecond) => {
            primitives(DurationNanosecondBuilder::new(), |value| duration(value, NANOS_PER_SECOND))
        }
        Interval(IntervalUnit::YearMonth) => primitives(IntervalYearMonthBuilder::new(), |value| {
            let (months, days, nanos) = IsoDuration::parse(value)?.parts()?;
            (days == 0 && nanos == 0).then_some(months)
        }),
        Interval(IntervalUnit::DayTime) => primitives(IntervalDayTimeBuilder::new(), |value| {
            let (months, days, nanos) = IsoDuration::parse(value)?.parts()?;
            let millis =
                i32::try_from(nanos / NANOS_PER_MILLI).ok().filter(|_| months == 0 && nanos % NANOS_PER_MILLI == 0)?;
            Some(IntervalDayTime::new(days, millis))
        }),
        Interval(IntervalUnit::MonthDayNano) => primitives(IntervalMonthDayNanoBuilder::new(), |value| {
            let (months, days, nanos) = IsoDuration::parse(value)?.parts()?;
            Some(IntervalMonthDayNano::new(months, days, nanos))
        }),
        _ => return Err(unsupported(field)),
    })
}

/// Creates the sink of a column whose type was inferred from values of `kinds`. It refuses values that would change its
/// type.
pub(crate) fn exact_sink(kinds: TypeSet) -> Box<dyn Sink> {
    match inferred_type(kinds) {
        DataType::Boolean => parsed(BooleanBuilder::new(), |builder, value| {
            builder.append_option(parse_optional(value, boolean)?);
            Some(())
        }),
        DataType::Int64 => primitives(Int64Builder::new(), exact_int),
        DataType::UInt64 => primitives(UInt64Builder::new(), exact_uint),
        DataType::Float64 => primitives(Float64Builder::new(), exact_float),
        DataType::Date32 => primitives(Date32Builder::new(), date),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let kind = if zone.is_some() { UTC_MICROS } else { MICROS };
            let builder = TimestampMicrosecondBuilder::new().with_timezone_opt(zone);
            primitives(builder, move |value| exact_moment(value, kind)?.count(MICROS_PER_SECOND))
        }
        DataType::Timestamp(_, zone) => {
            let kind = if zone.is_some() { UTC_NANOS } else { NANOS };
            let builder = TimestampNanosecondBuilder::new().with_timezone_opt(zone);
            primitives(builder, move |value| exact_moment(value, kind)?.count(NANOS_PER_SECOND))
        }
        _ => parsed(StringBuilder::new(), append),
    }
}

/// Narrows the kinds of a column by an array's values, which its [`exact_sink`] accepted.
pub(crate) fn narrow(kinds: TypeSet, array: &dyn Array) -> TypeSet {
    match array.data_type() {
        DataType::Int64 => narrow_by_ints(kinds, array.as_primitive::<Int64Type>().values()),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            narrow_by_micros(kinds, array.as_primitive::<TimestampMicrosecondType>().values())
        }
        _ => kinds,
    }
}

fn unsupported(field: &Field) -> Error {
    Error::unsupported(format!(
        "expected a type that text can be read as, got {} for column `{}`; read it as utf8",
        type_name(field.data_type()),
        shorten(field.name())
    ))
}

/// Creates the sink of a column that the options encode as a dictionary. A key type in the schema takes precedence.
fn encoding_sink(field: &Field) -> Result<Box<dyn Sink>> {
    match field.data_type() {
        DataType::Utf8 => DictionaryEncoder::sink(None, field.name(), &DataType::Utf8),
        DataType::Dictionary(..) => sink(field),
        other => Err(Error::invalid_argument(format!(
            "expected utf8 for column `{}`, as the option dictionary names it, got {} in the schema; correct either",
            shorten(field.name()),
            type_name(other)
        ))),
    }
}

/// A sink made of a builder and a function that appends a value to it.
struct ParsingSink<B, F> {
    builder: B,
    append: F,
}

impl<B: ArrayBuilder, F: Fn(&mut B, Option<&str>) -> Option<()> + Send> Sink for ParsingSink<B, F> {
    fn push(&mut self, value: Option<&str>) -> Option<()> {
        (self.append)(&mut self.builder, value)
    }
}

impl<B: ArrayBuilder, F> Finish for ParsingSink<B, F> {
    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(self.builder.finish())
    }
}

fn parsed<B: ArrayBuilder>(
    builder: B,
    append: impl Fn(&mut B, Option<&str>) -> Option<()> + Send + 'static,
) -> Box<dyn Sink> {
    Box::new(ParsingSink { builder, append })
}

/// Parses a value that may be null; returns `None` if there is a value that does not parse.
fn parse_optional<T>(value: Option<&str>, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    value.map_or(Some(None), |value| parse(value).map(Some))
}

fn primitives<T: ArrowPrimitiveType>(
    builder: PrimitiveBuilder<T>,
    parse: impl Fn(&str) -> Option<T::Native> + Send + 'static,
) -> Box<dyn Sink> {
    parsed(builder, move |builder, value| {
        builder.append_option(parse_optional(value, &parse)?);
        Some(())
    })
}

fn moments<T: ArrowTimestampType>(
    builder: PrimitiveBuilder<T>,
    per_second: i64,
    zone: &Option<Arc<str>>,
) -> Box<dyn Sink> {
    let has_zone = zone.is_some();
    primitives(builder.with_timezone_opt(zone.clone()), move |value| timestamp(value, per_second, has_zone))
}

/// Parses a timestamp, as a date and time or as a count of its unit.
fn timestamp(value: &str, per_second: i64, has_zone: bool) -> Option<i64> {
    let Some(moment) = Moment::parse_or_midnight(value).or_else(|| Moment::parse_far(value)) else {
        return parse_count(value, per_second).or_else(|| parse(value));
    };
    // A time without an offset may be in any zone, even in a column in UTC: see `utc_offset_advice`.
    if moment.has_offset == has_zone { moment.count(per_second) } else { None }
}

/// Parses a time of day, written as such or as a count of its unit since midnight.
fn time64(value: &str, per_second: i64) -> Option<i64> {
    if let Some(count) = time(value, per_second) {
        return Some(count);
    }
    let count = parse(value)?;
    (0..SECONDS_PER_DAY * per_second).contains(&count).then_some(count)
}

fn time32(value: &str, per_second: i64) -> Option<i32> {
    time64(value, per_second)?.try_into().ok()
}

fn decimals<T: DecimalType<Native: TryFrom<i128>>>(precision: u8, scale: i8) -> Box<dyn Sink> {
    let builder = PrimitiveBuilder::<T>::new().with_data_type(T::TYPE_CONSTRUCTOR(precision, scale));
    primitives(builder, move |value| decimal(value, precision, scale)?.try_into().ok())
}

fn wide_decimals(precision: u8, scale: i8) -> Box<dyn Sink> {
    let builder = Decimal256Builder::new().with_data_type(DataType::Decimal256(precision, scale));
    primitives(builder, move |value| wide_decimal(value, precision, scale))
}

/// Returns true if the numbers of a field are booleans, by its extension type.
pub(crate) fn is_bool8(field: &Field) -> bool {
    *field.data_type() == DataType::Int8 && field.extension_type_name() == Some("arrow.bool8")
}

fn append_view(builder: &mut StringViewBuilder, value: Option<&str>) -> Option<()> {
    match value {
        Some(value) => builder.try_append_value(value).ok()?,
        None => builder.append_null(),
    }
    Some(())
}

fn append<T: ByteArrayType>(builder: &mut GenericByteBuilder<T>, value: Option<&T::Native>) -> Option<()> {
    let added: &[u8] = value.map_or(&[], AsRef::as_ref);
    // The builder panics when its offsets overflow.
    T::Offset::from_usize(builder.values_slice().len() + added.len())?;
    builder.append_option(value);
    Some(())
}

/// Numbers the distinct values in order of first appearance. The key width and the dictionary are only known at the
/// end, so until the encoder is sealed its arrays have only the numbers.
struct DictionaryEncoder {
    /// The type of keys; `None` for the smallest that has enough.
    key: Option<DataType>,
    /// The type of values.
    data_type: DataType,
    /// The number of each distinct text.
    numbers: HashMap<Box<str>, i32>,
    /// The distinct values, in order of their numbers.
    values: Box<dyn Sink>,
    /// The numbers of the rows since the last cut.
    keys: PrimitiveBuilder<Int32Type>,
}

impl DictionaryEncoder {
    /// Creates an encoder with keys of type `key`, or of the smallest sufficient type.
    fn sink(key: Option<&DataType>, name: &str, data_type: &DataType) -> Result<Box<dyn Sink>> {
        let values = sink(&Field::new(name, data_type.clone(), true))?;
        let keys = PrimitiveBuilder::new();
        let key = key.cloned();
        Ok(Box::new(DictionaryEncoder { key, data_type: data_type.clone(), numbers: HashMap::new(), values, keys }))
    }

    fn number(&mut self, value: &str) -> Option<i32> {
        if let Some(&number) = self.numbers.get(value) {
            return Some(number);
        }
        let number = i32::try_from(self.numbers.len()).ok()?;
        self.values.push(Some(value))?;
        self.numbers.insert(value.into(), number);
        Some(number)
    }

    fn smallest_key(&self) -> DataType {
        /// Keys of `i8` and `i16` number so many values, from 0 to their maximum.
        const MAX_INT8: usize = i8::MAX as usize + 1;
        const MAX_INT16: usize = i16::MAX as usize + 1;
        let len = self.numbers.len();
        if len <= MAX_INT8 {
            DataType::Int8
        } else if len <= MAX_INT16 {
            DataType::Int16
        } else {
            DataType::Int32
        }
    }
}

impl Sink for DictionaryEncoder {
    fn push(&mut self, value: Option<&str>) -> Option<()> {
        let number = value.map_or(Some(None), |value| self.number(value).map(Some))?;
        self.keys.append_option(number);
        Some(())
    }
}

impl Finish for DictionaryEncoder {
    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(Arc::new(self.keys.finish()))
    }

    fn seal(&mut self, field: Field, chunks: Vec<ArrayRef>) -> Result<(Field, Vec<ArrayRef>)> {
        // Keys under nulls are arbitrary.
        const KEY_OF_NULL: i32 = 0;
        let key = self.key.clone().unwrap_or_else(|| self.smallest_key());
        self.numbers.clear();
        let (values, numbers) = remove_duplicates(self.values.finish()?)?;
        let mut encoded = Vec::with_capacity(chunks.len());
        for keys in &chunks {
            let keys = keys.as_primitive::<Int32Type>();
            encoded.push(match &numbers {
                Some(numbers) => {
                    let keys = keys.unary(|key| numbers.get(key as usize).copied().unwrap_or(KEY_OF_NULL));
                    with_dictionary(&key, &keys, &values)?
                }
                None => with_dictionary(&key, keys, &values)?,
            });
        }
        let data_type = DataType::Dictionary(Box::new(key), Box::new(self.data_type.clone()));
        Ok((field.with_data_type(data_type), encoded))
    }
}

/// Removes equal values with different texts, such as 1.5 and 1.50. Returns the distinct values and the number of each
/// value among them; `None` for columns of text, which have no such values.
fn remove_duplicates(values: ArrayRef) -> Result<(ArrayRef, Option<Vec<i32>>)> {
    if is_text_or_binary(values.data_type()) {
        return Ok((values, None));
    }
    require_little_endian("encoding values by a dictionary")?;
    let array = values.to_data();
    let array = UncheckedArray::from_ref(&array);
    let mut numbers_by_text = HashMap::new();
    let mut numbers = Vec::with_capacity(values.len());
    let mut picks = Vec::new();
    for row in 0..values.len() {
        let next = picks.len() as i32;
        let number = *numbers_by_text.entry(value(array, row)?.to_csv_cell()?.into_owned()).or_insert(next);
        if number == next {
            picks.push((0, row));
        }
        numbers.push(number);
    }
    let values = gather(values.data_type(), &[array], &picks)?.checked(&[])?;
    Ok((to_array(values), Some(numbers)))
}

/// Encodes runs of equal values.
struct RunEncoder {
    ends: RunEnds,
    values: Box<dyn Sink>,
    /// The value of the last run, which may be null; `None` before the first run.
    last: Option<Option<Box<str>>>,
}

impl RunEncoder {
    fn sink(field: &Field, values: &Field) -> Result<Box<dyn Sink>> {
        let values = sink(&values.clone().with_name(field.name()))?;
        Ok(Box::new(RunEncoder { ends: RunEnds::new(field.data_type()), values, last: None }))
    }
}

impl Sink for RunEncoder {
    fn push(&mut self, value: Option<&str>) -> Option<()> {
        let continues_run = self.last.as_ref().is_some_and(|last| last.as_deref() == value);
        if !continues_run {
            self.values.push(value)?;
            self.last = Some(value.map(Into::into));
        }
        self.ends.push(continues_run);
        Some(())
    }
}

impl Finish for RunEncoder {
    fn finish(&mut self) -> Result<ArrayRef> {
        self.last = None;
        let values = self.values.finish()?;
        let (_, mut sealed) = self.values.seal(Field::new("values", values.data_type().clone(), true), vec![values])?;
        let values = sealed.pop().ok_or_else(|| Error::internal("no values of runs"))?;
        self.ends.finish(&values)
    }
}

/// The ends of runs of equal values, in an array of `data_type`.
pub(crate) struct RunEnds {
    data_type: DataType,
    /// The number of rows up to the end of each run.
    ends: Vec<i64>,
}

impl RunEnds {
    pub(crate) fn new(data_type: &DataType) -> RunEnds {
        RunEnds { data_type: data_type.clone(), ends: Vec::new() }
    }

    /// Adds a row to the last run, or begins another run with it.
    pub(crate) fn push(&mut self, continues_run: bool) {
        let rows = self.rows();
        match self.ends.last_mut() {
            Some(end) if continues_run => *end += 1,
            last => {
                assert!(last.is_some() || !continues_run, "the first row begins a run");
                self.ends.push(rows + 1);
            }
        }
    }

    /// Returns the number of rows.
    fn rows(&self) -> i64 {
        self.ends.last().map_or(0, |end| *end)
    }

    /// Returns the number of runs.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the array of the rows since the last call, with a value for each run.
    pub(crate) fn finish(&mut self, values: &dyn Array) -> Result<ArrayRef> {
        let DataType::RunEndEncoded(run, _) = &self.data_type else {
            return Err(Error::internal("runs of a type that has none"));
        };
        assert_eq!(values.len(), self.ends.len(), "each run has a value");
        let rows = self.rows();
        let ends = std::mem::take(&mut self.ends);
        let ends: ArrayRef = match run.data_type() {
            DataType::Int16 => {
                check_rows(rows, i16::MAX.into())?;
                Arc::new(Int16Array::from_iter_values(ends.iter().map(|&end| end as i16)))
            }
            DataType::Int32 => {
                check_rows(rows, i32::MAX.into())?;
                Arc::new(Int32Array::from_iter_values(ends.iter().map(|&end| end as i32)))
            }
            _ => Arc::new(Int64Array::from(ends)),
        };
        let array = ArrayData::builder(self.data_type.clone()).len(rows as usize);
        let array = array.child_data(vec![ends.to_data(), values.to_data()]).build();
        array.map(to_array).map_err(|e| Error::invalid(e.to_string()))
    }
}

/// Checks that run ends can count `rows` rows.
fn check_rows(rows: i64, max: i64) -> Result<()> {
    if rows <= max {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "expected at most {max} rows in a batch, as the run ends can count, got {rows}; use int32"
    )))
}

fn with_dictionary(key: &DataType, keys: &Int32Array, values: &ArrayRef) -> Result<ArrayRef> {
    macro_rules! with_keys {
        ($key:ty) => {
            with_keys::<$key>(keys, values)
        };
    }
    downcast_integer! {
        key => (with_keys),
        other => Err(Error::unsupported(format!("expected a dictionary with integer keys, got {other}; use Int32")))
    }
}

fn with_keys<K: ArrowDictionaryKeyType>(keys: &Int32Array, values: &ArrayRef) -> Result<ArrayRef> {
    let count = values.len();
    if count > 0 && K::Native::from_usize(count - 1).is_none() {
        let key = K::DATA_TYPE;
        return Err(Error::invalid(format!(
            "expected as many distinct values as {key} keys can number, got {count}; use Int32 keys"
        )));
    }
    let keys: PrimitiveArray<K> = keys.unary(|key| K::Native::usize_as(key as usize));
    let array = DictionaryArray::try_new(keys, values.clone());
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|e| Error::invalid(e.to_string()))
}
