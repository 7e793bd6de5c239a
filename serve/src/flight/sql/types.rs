//! The types of columns in ODBC's terms: `CommandGetXdbcTypeInfo`.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, ListArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

/// A type: its name in SQL, its number, its number of digits or characters, the prefix and suffix of a literal.
struct SqlType {
    name: &'static str,
    number: i32,
    size: Option<i32>,
    literal: Option<(&'static str, &'static str)>,
    is_signed: Option<bool>,
}

const fn number(name: &'static str, number: i32, size: i32) -> SqlType {
    SqlType { name, number, size: Some(size), literal: None, is_signed: Some(true) }
}

const fn text(name: &'static str, number: i32, size: Option<i32>, before: &'static str) -> SqlType {
    SqlType { name, number, size, literal: Some((before, "'")), is_signed: None }
}

/// By number, as ODBC orders them.
const TYPES: &[SqlType] = &[
    SqlType { name: "BOOLEAN", number: -7, size: Some(1), literal: None, is_signed: None },
    number("TINYINT", -6, 3),
    number("BIGINT", -5, 19),
    text("BYTEA", -3, None, "X'"),
    number("DECIMAL", 3, 76),
    number("INTEGER", 4, 10),
    number("SMALLINT", 5, 5),
    number("REAL", 7, 7),
    number("DOUBLE", 8, 15),
    text("VARCHAR", 12, None, "'"),
    text("DATE", 91, Some(10), "DATE '"),
    text("TIME", 92, Some(18), "TIME '"),
    text("TIMESTAMP", 93, Some(29), "TIMESTAMP '"),
];

/// The columns of the result.
pub(super) fn schema() -> SchemaRef {
    use DataType::{Boolean, Int32, List, Utf8};
    let parameters = List(Arc::new(Field::new("item", Utf8, false)));
    let columns = [
        ("type_name", Utf8, false),
        ("data_type", Int32, false),
        ("column_size", Int32, true),
        ("literal_prefix", Utf8, true),
        ("literal_suffix", Utf8, true),
        ("create_params", parameters, true),
        ("nullable", Int32, false),
        ("case_sensitive", Boolean, false),
        ("searchable", Int32, false),
        ("unsigned_attribute", Boolean, true),
        ("fixed_prec_scale", Boolean, false),
        ("auto_increment", Boolean, true),
        ("local_type_name", Utf8, true),
        ("minimum_scale", Int32, true),
        ("maximum_scale", Int32, true),
        ("sql_data_type", Int32, false),
        ("datetime_subcode", Int32, true),
        ("num_prec_radix", Int32, true),
        ("interval_precision", Int32, true),
    ];
    let fields = columns.map(|(name, data_type, nullable)| Field::new(name, data_type, nullable));
    Arc::new(Schema::new(fields.to_vec()))
}

/// The type with number `wanted`, or all types.
pub(super) fn types(wanted: Option<i32>) -> Result<RecordBatch, ArrowError> {
    let found: Vec<&SqlType> =
        TYPES.iter().filter(|known| wanted.is_none_or(|number| known.number == number)).collect();
    let numbers = |value: fn(&SqlType) -> Option<i32>| -> ArrayRef {
        Arc::new(found.iter().map(|known| value(known)).collect::<Int32Array>())
    };
    let flags = |value: fn(&SqlType) -> Option<bool>| -> ArrayRef {
        Arc::new(found.iter().map(|known| value(known)).collect::<BooleanArray>())
    };
    let texts = |value: fn(&SqlType) -> Option<&'static str>| -> ArrayRef {
        Arc::new(found.iter().map(|known| value(known)).collect::<StringArray>())
    };
    let item = Arc::new(Field::new("item", DataType::Utf8, false));
    let is_time = |known: &SqlType| known.number > 90;
    let columns = vec![
        texts(|known| Some(known.name)),
        numbers(|known| Some(known.number)),
        numbers(|known| known.size),
        texts(|known| known.literal.map(|(before, _)| before)),
        texts(|known| known.literal.map(|(_, behind)| behind)),
        Arc::new(ListArray::new_null(item, found.len())),
        // Nullable, and usable in any condition.
        numbers(|_| Some(1)),
        flags(|known| Some(known.number == 12)),
        numbers(|_| Some(3)),
        flags(|known| known.is_signed.map(|is_signed| !is_signed)),
        flags(|_| Some(false)),
        flags(|known| known.is_signed.map(|_| false)),
        texts(|known| Some(known.name)),
        numbers(|known| (known.number == 3).then_some(0)),
        numbers(|known| (known.number == 3).then_some(76)),
        Arc::new(found.iter().map(|known| if is_time(known) { 9 } else { known.number }).collect::<Int32Array>()),
        Arc::new(found.iter().map(|known| is_time(known).then_some(known.number - 90)).collect::<Int32Array>()),
        numbers(|known| known.is_signed.map(|_| 10)),
        numbers(|_| None),
    ];
    RecordBatch::try_new(schema(), columns)
}
