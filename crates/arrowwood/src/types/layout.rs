//! The buffers of each type, with their order and lengths, and the types' names.
//!
//! [`layout()`] is the table of *Buffer Listing for Each Layout* in the specification of Arrow's columnar format.

// The decoder, the checker, the writer and the printer all use this one table.

use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit, UnionMode};

use crate::error::{Error, Result};
use crate::escape::escape_hidden;

/// The size in bytes of a view: its length, then either the value, or a prefix of it, a buffer number and an offset.
pub(crate) const VIEW_WIDTH: usize = 16;

/// The length in bytes of the longest value that a view contains itself.
pub(crate) const MAX_INLINE: usize = 12;

/// The word of values that consist of numbers of different sizes, as intervals of months, days and nanoseconds do.
pub(crate) const MIXED_WORDS: usize = 0;

/// What a buffer holds: a validity bitmap, offsets, values, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferRole {
    /// One bit per row: set = valid.
    Validity,
    /// One bit per row: the booleans.
    Bits,
    /// `width` bytes per row.
    Values {
        /// Bytes per row.
        width: usize,
        /// Bytes of each number in a row, for byte swapping; 0 for an interval of two numbers of 4 bytes and one of 8.
        word: usize,
    },
    /// Rows + 1 offsets of `width` bytes into the child or the data.
    Offsets {
        /// Bytes per offset: 4 or 8.
        width: usize,
    },
    /// An offset per row (list views, dense unions).
    Starts {
        /// Bytes per offset: 4 or 8.
        width: usize,
    },
    /// A length per row (list views).
    Sizes {
        /// Bytes per length: 4 or 8.
        width: usize,
    },
    /// Bytes that offsets or views point into.
    Data,
    /// 16 bytes per row: length, prefix, and either the rest or buffer number and offset.
    Views,
    /// One type id per row (unions).
    TypeIds,
}

impl BufferRole {
    /// Returns the role's name in the format's specification.
    pub fn name(self) -> &'static str {
        match self {
            BufferRole::Validity => "validity",
            BufferRole::Bits | BufferRole::Values { .. } => "values",
            BufferRole::Offsets { .. } | BufferRole::Starts { .. } => "offsets",
            BufferRole::Sizes { .. } => "sizes",
            BufferRole::Data => "data",
            BufferRole::Views => "views",
            BufferRole::TypeIds => "type_ids",
        }
    }

    /// Returns true if the bytes of this role differ between big-endian and little-endian files.
    pub fn has_byte_order(self) -> bool {
        !matches!(
            self,
            BufferRole::Validity
                | BufferRole::Bits
                | BufferRole::Data
                | BufferRole::TypeIds
                | BufferRole::Values { word: 1, .. }
        )
    }

    /// Returns the minimum number of bytes of a buffer of this role for `rows` rows; `None` if they exceed `usize`.
    ///
    /// Zero rows need no bytes, not even one offset: "legacy" writers leave the buffer empty (Columnar Format,
    /// *Variable-size Binary Layout*).
    pub fn bytes_for(self, rows: usize) -> Option<usize> {
        match self {
            BufferRole::Validity | BufferRole::Bits => Some(rows.div_ceil(8)),
            BufferRole::Values { width, .. } | BufferRole::Starts { width } | BufferRole::Sizes { width } => {
                rows.checked_mul(width)
            }
            BufferRole::Offsets { .. } if rows == 0 => Some(0),
            BufferRole::Offsets { width } => rows.checked_add(1)?.checked_mul(width),
            BufferRole::Data => Some(0),
            BufferRole::Views => rows.checked_mul(VIEW_WIDTH),
            BufferRole::TypeIds => Some(rows),
        }
    }
}

/// The buffers of one type, without its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    roles: [Option<BufferRole>; 3],
    /// True if any number of `Data` buffers follow (views).
    pub variadic: bool,
}

impl Layout {
    /// Returns the buffers in the order of the format, validity first if the type has it.
    pub fn roles(&self) -> impl Iterator<Item = BufferRole> + '_ {
        self.roles.iter().flatten().copied()
    }

    /// Returns the buffers after validity, in the order of the format and of arrow-rs.
    pub fn value_roles(&self) -> impl Iterator<Item = BufferRole> + '_ {
        self.roles().filter(|&role| role != BufferRole::Validity)
    }

    /// Returns true if the type has a validity bitmap.
    pub fn has_validity(&self) -> bool {
        self.roles[0] == Some(BufferRole::Validity)
    }

    /// Returns the bytes per row, if the type has only values and a validity bitmap.
    pub(crate) fn plain_width(&self) -> Option<usize> {
        let mut roles = self.value_roles();
        match (roles.next(), roles.next()) {
            (Some(BufferRole::Values { width, .. }), None) if self.has_validity() => Some(width),
            _ => None,
        }
    }
}

/// Returns the layout of a type. A dictionary-encoded column has the layout of its keys.
pub fn layout(data_type: &DataType) -> Layout {
    use DataType::*;
    match data_type {
        Null => bare([None, None]),
        Boolean => with_validity([Some(BufferRole::Bits), None]),
        Int8 | UInt8 => fixed(1),
        Int16 | UInt16 | Float16 => fixed(2),
        Int32 | UInt32 | Float32 | Date32 | Time32(_) | Decimal32(..) => fixed(4),
        Int64 | UInt64 | Float64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) | Decimal64(..) => fixed(8),
        Decimal128(..) => fixed(16),
        Decimal256(..) => fixed(32),
        Interval(IntervalUnit::YearMonth) => fixed(4),
        Interval(IntervalUnit::DayTime) => with_validity([Some(BufferRole::Values { width: 8, word: 4 }), None]),
        Interval(IntervalUnit::MonthDayNano) => {
            with_validity([Some(BufferRole::Values { width: 16, word: MIXED_WORDS }), None])
        }
        FixedSizeBinary(width) => {
            with_validity([Some(BufferRole::Values { width: fixed_size_or_zero(*width), word: 1 }), None])
        }
        Binary | Utf8 => with_validity([Some(BufferRole::Offsets { width: 4 }), Some(BufferRole::Data)]),
        LargeBinary | LargeUtf8 => with_validity([Some(BufferRole::Offsets { width: 8 }), Some(BufferRole::Data)]),
        BinaryView | Utf8View => Layout { variadic: true, ..with_validity([Some(BufferRole::Views), None]) },
        List(_) | Map(..) => with_validity([Some(BufferRole::Offsets { width: 4 }), None]),
        LargeList(_) => with_validity([Some(BufferRole::Offsets { width: 8 }), None]),
        ListView(_) => with_validity([Some(BufferRole::Starts { width: 4 }), Some(BufferRole::Sizes { width: 4 })]),
        LargeListView(_) => {
            with_validity([Some(BufferRole::Starts { width: 8 }), Some(BufferRole::Sizes { width: 8 })])
        }
        FixedSizeList(..) | Struct(_) => with_validity([None, None]),
        Union(_, UnionMode::Sparse) => bare([Some(BufferRole::TypeIds), None]),
        Union(_, UnionMode::Dense) => bare([Some(BufferRole::TypeIds), Some(BufferRole::Starts { width: 4 })]),
        Dictionary(key, _) => layout(key),
        RunEndEncoded(..) => bare([None, None]),
    }
}

/// Returns the child fields of a type, in the order of the format.
///
/// A dictionary has none, as its values are sent separately.
pub fn children(data_type: &DataType) -> Vec<&FieldRef> {
    use DataType::*;
    match data_type {
        List(field) | LargeList(field) | ListView(field) | LargeListView(field) => vec![field],
        FixedSizeList(field, _) | Map(field, _) => vec![field],
        Struct(fields) => fields.iter().collect(),
        Union(fields, _) => fields.iter().map(|(_, field)| field).collect(),
        RunEndEncoded(run_ends, values) => vec![run_ends, values],
        _ => Vec::new(),
    }
}

/// The number of items in each list of a `fixed_size_list`, or of bytes in each value of a `fixed_size_binary`, of size
/// `size`.
///
/// # Errors
/// `Internal` for a negative size, which occurs neither in a parsed schema nor in an array.
pub(crate) fn fixed_size(size: i32) -> Result<usize> {
    usize::try_from(size).map_err(|_| Error::internal(format_args!("a type with a fixed size of {size}")))
}

/// As [`fixed_size`], for functions without errors: values of a negative size have no bytes and no items.
pub(crate) fn fixed_size_or_zero(size: i32) -> usize {
    size.max(0).unsigned_abs() as usize
}

/// The size in bytes of each number of a numeric type, such as a dictionary's keys or run ends.
///
/// # Errors
/// `Internal` for other types.
#[cfg(feature = "write")]
pub(crate) fn number_width(data_type: &DataType) -> Result<usize> {
    let width = data_type.primitive_width();
    width.ok_or_else(|| Error::internal(format_args!("keys or run ends of type {}", type_name(data_type))))
}

/// Returns the layout of numbers of `width` bytes.
fn fixed(width: usize) -> Layout {
    with_validity([Some(BufferRole::Values { width, word: width }), None])
}

fn with_validity(rest: [Option<BufferRole>; 2]) -> Layout {
    Layout { roles: [Some(BufferRole::Validity), rest[0], rest[1]], variadic: false }
}

fn bare(rest: [Option<BufferRole>; 2]) -> Layout {
    Layout { roles: [rest[0], rest[1], None], variadic: false }
}

/// Returns the name of a type, much as pyarrow prints it.
///
/// Examples: `dictionary<int8, utf8>`, `timestamp[ms, UTC]`, `list<int32>`. Hidden characters in the names of members
/// and zones are escaped.
pub fn type_name(data_type: &DataType) -> String {
    use DataType::*;
    match data_type {
        Timestamp(unit, None) => format!("timestamp[{}]", unit_name(*unit)),
        Timestamp(unit, Some(tz)) => format!("timestamp[{}, {}]", unit_name(*unit), escape_hidden(tz)),
        Time32(unit) => format!("time32[{}]", unit_name(*unit)),
        Time64(unit) => format!("time64[{}]", unit_name(*unit)),
        Duration(unit) => format!("duration[{}]", unit_name(*unit)),
        Interval(unit) => format!("interval[{}]", snake_case(&format!("{unit:?}"))),
        FixedSizeBinary(width) => format!("fixed_size_binary[{width}]"),
        Decimal32(precision, scale) => format!("decimal32({precision}, {scale})"),
        Decimal64(precision, scale) => format!("decimal64({precision}, {scale})"),
        Decimal128(precision, scale) => format!("decimal128({precision}, {scale})"),
        Decimal256(precision, scale) => format!("decimal256({precision}, {scale})"),
        List(item) => format!("list<{}>", field_type_name(item)),
        LargeList(item) => format!("large_list<{}>", field_type_name(item)),
        ListView(item) => format!("list_view<{}>", field_type_name(item)),
        LargeListView(item) => format!("large_list_view<{}>", field_type_name(item)),
        FixedSizeList(item, size) => format!("fixed_size_list<{}>[{size}]", field_type_name(item)),
        Struct(fields) => format!("struct<{}>", members(fields.iter())),
        Map(entries, _) => format!("map<{}>", map_types(entries.data_type())),
        Union(fields, UnionMode::Sparse) => format!("sparse_union<{}>", members(fields.iter().map(|(_, field)| field))),
        Union(fields, UnionMode::Dense) => format!("dense_union<{}>", members(fields.iter().map(|(_, field)| field))),
        Dictionary(key, value) => format!("dictionary<{}, {}>", type_name(key), type_name(value)),
        RunEndEncoded(ends, values) => {
            format!("run_end_encoded<{}, {}>", field_type_name(ends), field_type_name(values))
        }
        Boolean => "bool".into(),
        simple => snake_case(&format!("{simple:?}")),
    }
}

/// Returns the name of a field's type.
///
/// It is that of the storage, or `extension<arrow.uuid>` for an extension type.
pub fn field_type_name(field: &Field) -> String {
    match field.extension_type_name() {
        Some(name) => format!("extension<{}>", escape_hidden(name)),
        None => type_name(field.data_type()),
    }
}

/// Returns true if values of the type take memory other than their validity bits.
#[cfg(any(feature = "write", feature = "compute"))]
pub(crate) fn has_bits(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null | DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0) => false,
        DataType::FixedSizeList(item, _) => has_bits(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_bits(field.data_type())),
        _ => true,
    }
}

/// Returns true if a field has ordered categories: a dictionary that defines the order of its values.
pub(crate) fn is_ordered(field: &Field) -> bool {
    field.dict_is_ordered() == Some(true)
}

/// Returns true if values are text, of any layout without a dictionary.
#[cfg(any(feature = "table", feature = "compute"))]
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Returns true if values are text or binary, of any layout.
pub(crate) fn is_text_or_binary(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// Returns true if the name of a time zone means UTC.
pub(crate) fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Etc/UTC" | "Z" | "+00:00")
}

/// Returns true if a time is compatible with a column, by the time zones that both may have.
///
/// An empty zone means that it is unknown whether the time has one, as with NumPy's times. Such a time is in UTC if the
/// column is, and incompatible with any other zone, where it may be ambiguous or nonexistent.
pub fn zones_agree(column: Option<&str>, time: Option<&str>) -> bool {
    match (column, time) {
        (Some(zone), Some("")) => is_utc(zone),
        (None, time) => time.is_none_or(str::is_empty),
        (Some(_), time) => time.is_some(),
    }
}

pub(crate) fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

pub(crate) const SECONDS_PER_DAY: i64 = 86_400;
pub(crate) const MILLIS_PER_SECOND: i64 = 1_000;
pub(crate) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;
pub(crate) const MILLIS_PER_DAY: i64 = MILLIS_PER_SECOND * SECONDS_PER_DAY;
pub(crate) const NANOS_PER_MILLI: i64 = NANOS_PER_SECOND / MILLIS_PER_SECOND;

/// The number of units in a second.
pub(crate) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => MILLIS_PER_SECOND,
        TimeUnit::Microsecond => MICROS_PER_SECOND,
        TimeUnit::Nanosecond => NANOS_PER_SECOND,
    }
}

/// Converts `LargeUtf8` to `large_utf8`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        // `UInt8` is one word.
        if letter.is_uppercase() && !["", "u"].contains(&&snake[..]) {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

fn members<'a>(fields: impl Iterator<Item = &'a FieldRef>) -> String {
    let members: Vec<String> =
        fields.map(|field| format!("{}: {}", escape_hidden(field.name()), field_type_name(field))).collect();
    members.join(", ")
}

fn map_types(entries: &DataType) -> String {
    match entries {
        DataType::Struct(fields) => fields.iter().map(|field| field_type_name(field)).collect::<Vec<_>>().join(", "),
        other => type_name(other),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Fields, UnionFields};

    use super::*;

    #[test]
    fn types_have_short_names() {
        let int = Arc::new(Field::new("item", DataType::Int32, true));
        let text = Arc::new(Field::new("text", DataType::LargeUtf8, true));
        let fields = Fields::from(vec![int.clone(), text.clone()]);
        let union = UnionFields::from_fields(vec![int.clone(), text.clone()]);
        let dictionary = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
        for (data_type, name) in [
            (DataType::UInt8, "uint8"),
            (DataType::Float16, "float16"),
            (DataType::Boolean, "bool"),
            (DataType::Utf8View, "utf8_view"),
            (DataType::LargeBinary, "large_binary"),
            (DataType::Date64, "date64"),
            (DataType::FixedSizeBinary(16), "fixed_size_binary[16]"),
            (DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), "timestamp[ms, UTC]"),
            (DataType::Time64(TimeUnit::Nanosecond), "time64[ns]"),
            (DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano), "interval[month_day_nano]"),
            (DataType::Decimal128(10, -2), "decimal128(10, -2)"),
            (dictionary, "dictionary<int8, utf8>"),
            (DataType::FixedSizeList(int.clone(), 3), "fixed_size_list<int32>[3]"),
            (DataType::Struct(fields.clone()), "struct<item: int32, text: large_utf8>"),
            (DataType::Union(union, UnionMode::Dense), "dense_union<item: int32, text: large_utf8>"),
            (
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false),
                "map<int32, large_utf8>",
            ),
            (DataType::RunEndEncoded(int, text), "run_end_encoded<int32, large_utf8>"),
        ] {
            assert_eq!(type_name(&data_type), name);
        }
    }
}
