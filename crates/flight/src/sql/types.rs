//! Answers `CommandGetXdbcTypeInfo` with the types of columns, as ODBC describes them.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int32Array, ListArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

/// A type of SQL.
struct SqlType {
    name: &'static str,
    /// The number of the type in ODBC.
    number: i32,
    /// The maximum number of digits or characters.
    size: Option<i32>,
    /// The prefix and the suffix of a literal.
    literal: Option<(&'static str, &'static str)>,
    is_signed: Option<bool>,
}

/// `SQL_BIT`, and further numbers of types in ODBC.
const BIT: i32 = -7;
const TINYINT: i32 = -6;
const BIGINT: i32 = -5;
const VARBINARY: i32 = -3;
const INTEGER: i32 = 4;
const SMALLINT: i32 = 5;
const REAL: i32 = 7;
const DOUBLE: i32 = 8;
/// The numbers of dates and times are this one and their subcode.
const TIME_BASE: i32 = 90;
const DATE_SUBCODE: i32 = 1;
const TIME_SUBCODE: i32 = 2;
const TIMESTAMP_SUBCODE: i32 = 3;
/// The maximum number of digits of a decimal, and of digits behind its point.
const MAX_DECIMAL_DIGITS: i32 = 76;
/// The base in which the sizes of numbers are given.
const RADIX: i32 = 10;
/// `SQL_NULLABLE`: columns of the type can have nulls.
const NULLABLE: i32 = 1;
/// `SQL_SEARCHABLE`: the type can be used in any condition.
const SEARCHABLE: i32 = 3;
/// `SQL_DECIMAL`.
const DECIMAL: i32 = 3;
/// `SQL_DATETIME`: all types of dates and times, which differ by their subcodes.
const DATETIME: i32 = 9;
/// `SQL_VARCHAR`.
const VARCHAR: i32 = 12;

impl SqlType {
    /// Returns true for dates, times and timestamps, whose numbers are above [`TIME_BASE`].
    fn is_time(&self) -> bool {
        self.number > TIME_BASE
    }
}

const fn number(name: &'static str, number: i32, size: i32) -> SqlType {
    SqlType { name, number, size: Some(size), literal: None, is_signed: Some(true) }
}

const fn text(name: &'static str, number: i32, size: Option<i32>, before: &'static str) -> SqlType {
    SqlType { name, number, size, literal: Some((before, "'")), is_signed: None }
}

/// The types, ordered by number as ODBC requires.
const TYPES: &[SqlType] = &[
    SqlType { name: "BOOLEAN", number: BIT, size: Some(1), literal: None, is_signed: None },
    number("TINYINT", TINYINT, 3),
    number("BIGINT", BIGINT, 19),
    text("BYTEA", VARBINARY, None, "X'"),
    number("DECIMAL", DECIMAL, MAX_DECIMAL_DIGITS),
    number("INTEGER", INTEGER, 10),
    number("SMALLINT", SMALLINT, 5),
    number("REAL", REAL, 7),
    number("DOUBLE", DOUBLE, 15),
    text("VARCHAR", VARCHAR, None, "'"),
    text("DATE", TIME_BASE + DATE_SUBCODE, Some(10), "DATE '"),
    text("TIME", TIME_BASE + TIME_SUBCODE, Some(18), "TIME '"),
    text("TIMESTAMP", TIME_BASE + TIMESTAMP_SUBCODE, Some(29), "TIMESTAMP '"),
];

/// Returns the columns of the answer to `CommandGetXdbcTypeInfo`.
pub fn xdbc_type_info_schema() -> SchemaRef {
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

/// Returns the answer to `CommandGetXdbcTypeInfo`: the type with the number `data_type`, or all types.
///
/// # Errors
/// Those of [`RecordBatch::try_new`], which are bugs here.
pub fn xdbc_type_info(data_type: Option<i32>) -> Result<RecordBatch, ArrowError> {
    let types: Vec<&SqlType> =
        TYPES.iter().filter(|sql_type| data_type.is_none_or(|number| sql_type.number == number)).collect();
    let item = Arc::new(Field::new("item", DataType::Utf8, false));
    let columns = vec![
        string_column(&types, |sql_type| Some(sql_type.name)),
        int_column(&types, |sql_type| Some(sql_type.number)),
        int_column(&types, |sql_type| sql_type.size),
        string_column(&types, |sql_type| sql_type.literal.map(|(prefix, _)| prefix)),
        string_column(&types, |sql_type| sql_type.literal.map(|(_, suffix)| suffix)),
        Arc::new(ListArray::new_null(item, types.len())),
        int_column(&types, |_| Some(NULLABLE)),
        flag_column(&types, |sql_type| Some(sql_type.number == VARCHAR)),
        int_column(&types, |_| Some(SEARCHABLE)),
        flag_column(&types, |sql_type| sql_type.is_signed.map(|is_signed| !is_signed)),
        flag_column(&types, |_| Some(false)),
        flag_column(&types, |sql_type| sql_type.is_signed.map(|_| false)),
        string_column(&types, |sql_type| Some(sql_type.name)),
        int_column(&types, |sql_type| (sql_type.number == DECIMAL).then_some(0)),
        int_column(&types, |sql_type| (sql_type.number == DECIMAL).then_some(MAX_DECIMAL_DIGITS)),
        int_column(&types, |sql_type| Some(if sql_type.is_time() { DATETIME } else { sql_type.number })),
        int_column(&types, |sql_type| sql_type.is_time().then_some(sql_type.number - TIME_BASE)),
        int_column(&types, |sql_type| sql_type.is_signed.map(|_| RADIX)),
        int_column(&types, |_| None),
    ];
    RecordBatch::try_new(xdbc_type_info_schema(), columns)
}

fn int_column(types: &[&SqlType], value: fn(&SqlType) -> Option<i32>) -> ArrayRef {
    Arc::new(types.iter().map(|sql_type| value(sql_type)).collect::<Int32Array>())
}

fn flag_column(types: &[&SqlType], value: fn(&SqlType) -> Option<bool>) -> ArrayRef {
    Arc::new(types.iter().map(|sql_type| value(sql_type)).collect::<BooleanArray>())
}

fn string_column(types: &[&SqlType], value: fn(&SqlType) -> Option<&'static str>) -> ArrayRef {
    Arc::new(types.iter().map(|sql_type| value(sql_type)).collect::<StringArray>())
}
