//! Parses InfluxDB line protocol: `measurement,tag=a field=1.5,other=2i 1700000000000000000`.
//!
//! A line is parsed in place; only names and texts with escapes are copied. Rows of one measurement become the columns
//! of one batch.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, StringDictionaryBuilder, TimestampNanosecondBuilder,
    UInt64Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrowwood::type_name;

/// The maximum number of tags and fields in a line, and of measurements in a request.
const MAX_NAMES: usize = 1_000;
/// The maximum number of characters of a value in an error.
const MAX_QUOTED_CHARS: usize = 40;
/// The column of timestamps.
const TIME: &str = "time";

/// The problem with a line, or with the rows of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineError {
    /// The line can't be parsed, or its names and values don't go together.
    Invalid(String),
    /// The rows would take more memory than they may.
    TooMuch(String),
}

impl std::fmt::Display for LineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (LineError::Invalid(message) | LineError::TooMuch(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for LineError {}

type Result<T> = std::result::Result<T, LineError>;

fn error<T>(message: impl Into<String>) -> Result<T> {
    Err(LineError::Invalid(message.into()))
}

// ---- lines ----

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// `1.5`, or `1`
    Float(f64),
    /// `1i`
    Int(i64),
    /// `1u`
    UInt(u64),
    /// `t`, `true`, …
    Bool(bool),
    /// `"text"`
    Text(Cow<'a, str>),
}

/// Names, each with its value.
type Pairs<'a, T> = Vec<(Cow<'a, str>, T)>;

/// A parsed line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line<'a> {
    /// The name of the table.
    pub measurement: Cow<'a, str>,
    /// Names and texts.
    pub tags: Pairs<'a, Cow<'a, str>>,
    /// Names and values; at least one.
    pub fields: Pairs<'a, FieldValue<'a>>,
    /// The timestamp, in any unit.
    pub time: Option<i64>,
}

/// Passes each line of `text` to `take`, except comments and empty lines.
///
/// # Errors
/// The errors of `take`, and the error of the first invalid line, with its number.
pub fn each_line<'a>(text: &'a str, mut take: impl FnMut(&Line<'a>) -> Result<()>) -> Result<()> {
    let mut cursor = Cursor { text, position: 0 };
    let mut line = Line::default();
    let mut number = 1;
    while cursor.position < text.len() {
        let start = cursor.position;
        let taken = cursor.line(&mut line).and_then(|is_line| if is_line { take(&line) } else { Ok(()) });
        taken.map_err(|e| match e {
            LineError::Invalid(message) => LineError::Invalid(format!("line {number}: {message}")),
            too_much => too_much,
        })?;
        assert!(start < cursor.position, "no line was parsed at byte {start}");
        // Texts may contain line breaks.
        number += text.as_bytes()[start..cursor.position].iter().filter(|&&byte| byte == b'\n').count();
    }
    Ok(())
}

/// The position in a text that is parsed.
struct Cursor<'a> {
    text: &'a str,
    /// The next byte.
    position: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    /// Consumes `byte` if it comes next, and returns true if it did.
    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.position += usize::from(is_next);
        is_next
    }

    fn skip_spaces(&mut self) {
        while self.eat(b' ') {}
    }

    /// Consumes the end of a line if it comes next, and returns true if it did.
    fn eat_line_end(&mut self) -> bool {
        if self.peek() == Some(b'\r') && self.text.as_bytes().get(self.position + 1) == Some(&b'\n') {
            self.position += 1;
        }
        self.position >= self.text.len() || self.eat(b'\n')
    }

    /// Parses the next line; returns false if it is a comment or empty.
    fn line(&mut self, line: &mut Line<'a>) -> Result<bool> {
        line.tags.clear();
        line.fields.clear();
        line.time = None;
        self.skip_spaces();
        if self.peek() == Some(b'#') {
            self.position = self.text[self.position..].find('\n').map_or(self.text.len(), |end| self.position + end);
        }
        if self.eat_line_end() {
            return Ok(false);
        }
        line.measurement = self.word(b", ", "a measurement")?;
        while self.eat(b',') {
            let name = self.name("a tag")?;
            let value = self.word(b", ", "the value of a tag")?;
            push(&mut line.tags, name, value)?;
        }
        if self.peek() != Some(b' ') {
            return error("a space and fields are expected behind the measurement and its tags");
        }
        self.skip_spaces();
        loop {
            let name = self.name("a field")?;
            let value = self.value().map_err(|e| LineError::Invalid(format!("field '{name}': {e}")))?;
            push(&mut line.fields, name, value)?;
            if !self.eat(b',') {
                break;
            }
        }
        line.time = self.time()?;
        Ok(true)
    }

    /// Parses a name and the `=` after it.
    fn name(&mut self, what: &str) -> Result<Cow<'a, str>> {
        let name = self.word(b"=, ", what)?;
        if self.eat(b'=') { Ok(name) } else { error(format!("'=' is expected behind {what} '{name}'")) }
    }

    /// Parses text up to one of `ends`; a backslash escapes the next character.
    fn word(&mut self, ends: &[u8], what: &str) -> Result<Cow<'a, str>> {
        let start = self.position;
        let mut is_escaped = false;
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => break,
                b'\\' if self.text.as_bytes().get(self.position + 1).is_some_and(|next| b",= ".contains(next)) => {
                    is_escaped = true;
                    self.position += 2;
                }
                _ if ends.contains(&byte) => break,
                _ => self.position += 1,
            }
        }
        let word = &self.text[start..self.position];
        if word.is_empty() {
            return error(format!("{what} is expected"));
        }
        Ok(if is_escaped { Cow::Owned(unescaped(word, b",= ")) } else { Cow::Borrowed(word) })
    }

    fn value(&mut self) -> Result<FieldValue<'a>> {
        if self.eat(b'"') {
            return self.text().map(FieldValue::Text);
        }
        let start = self.position;
        while self.peek().is_some_and(|byte| !b", \r\n".contains(&byte)) {
            self.position += 1;
        }
        let word = &self.text[start..self.position];
        match parse_scalar(word) {
            Some(value) => Ok(value),
            None => error(format!("'{}' is no value; text stands in double quotes", short(word))),
        }
    }

    /// Parses text up to the closing quote.
    fn text(&mut self) -> Result<Cow<'a, str>> {
        let start = self.position;
        let mut is_escaped = false;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    let text = &self.text[start..self.position];
                    self.position += 1;
                    return Ok(if is_escaped { Cow::Owned(unescaped(text, b"\"\\")) } else { Cow::Borrowed(text) });
                }
                b'\\' if self.text.as_bytes().get(self.position + 1).is_some_and(|next| b"\"\\".contains(next)) => {
                    is_escaped = true;
                    self.position += 2;
                }
                _ => self.position += 1,
            }
        }
        error("a text is not closed")
    }

    fn time(&mut self) -> Result<Option<i64>> {
        self.skip_spaces();
        if self.eat_line_end() {
            return Ok(None);
        }
        let start = self.position;
        while self.peek().is_some_and(|byte| !b" \r\n".contains(&byte)) {
            self.position += 1;
        }
        let word = &self.text[start..self.position];
        let time =
            word.parse().map_err(|_| LineError::Invalid(format!("a timestamp is expected, got '{}'", short(word))))?;
        self.skip_spaces();
        if self.eat_line_end() { Ok(Some(time)) } else { error("the end of the line is expected behind the timestamp") }
    }
}

fn push<'a, T>(pairs: &mut Pairs<'a, T>, name: Cow<'a, str>, value: T) -> Result<()> {
    if pairs.len() >= MAX_NAMES {
        return error(format!("a line has at most {MAX_NAMES} tags, and as many fields"));
    }
    pairs.push((name, value));
    Ok(())
}

fn unescaped(text: &str, escapes: &[u8]) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.next_if(|next| c == '\\' && next.is_ascii() && escapes.contains(&(*next as u8)));
        plain.push(next.unwrap_or(c));
    }
    plain
}

fn short(text: &str) -> String {
    text.chars().take(MAX_QUOTED_CHARS).collect()
}

// ---- rows ----

/// Parses a boolean or a number.
fn parse_scalar(word: &str) -> Option<FieldValue<'static>> {
    Some(match word {
        "t" | "T" | "true" | "True" | "TRUE" => FieldValue::Bool(true),
        "f" | "F" | "false" | "False" | "FALSE" => FieldValue::Bool(false),
        _ => match word.as_bytes().last()? {
            b'i' => FieldValue::Int(word[..word.len() - 1].parse().ok()?),
            b'u' => FieldValue::UInt(word[..word.len() - 1].parse().ok()?),
            // The names of special floats, such as `nan`, are not values.
            b'0'..=b'9' | b'.' => FieldValue::Float(word.parse().ok().filter(|number: &f64| number.is_finite())?),
            _ => return None,
        },
    })
}

/// The unit of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// The number of nanoseconds in a unit.
    pub unit: i64,
}

/// Rows of one measurement, column by column.
///
/// A column has values up to the last row that has one; the nulls after it are added before its next value, or at the
/// end. So a line costs only as much as it has names.
pub(crate) struct LineRows {
    columns: Vec<LineColumn>,
    /// The number of the column of each name.
    numbers: HashMap<String, usize>,
    times: TimestampNanosecondBuilder,
    rows: usize,
}

/// A column of tags or fields.
struct LineColumn {
    name: String,
    values: ColumnBuilder,
}

/// The values of a column, by its type.
enum ColumnBuilder {
    Tag(StringDictionaryBuilder<Int32Type>),
    Float(Float64Builder),
    Int(Int64Builder),
    UInt(UInt64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
}

/// Parses `text` into the rows of each measurement. Lines without a timestamp get `now`, nanoseconds since 1970.
///
/// # Errors
/// [`LineError::TooMuch`] if the rows would take more than `max_bytes`; the errors of [`each_line`]; an error for a tag
/// or field that occurs twice in a line, or with two types.
pub(crate) fn rows_of(
    text: &str,
    precision: Precision,
    now: i64,
    max_bytes: u64,
) -> Result<BTreeMap<String, LineRows>> {
    let mut measurements: BTreeMap<String, LineRows> = BTreeMap::new();
    let mut bytes = 0u64;
    each_line(text, |line| {
        let time = match line.time {
            None => now,
            Some(time) => match time.checked_mul(precision.unit) {
                Some(time) => time,
                None => return error(format!("the timestamp {time} is out of range")),
            },
        };
        let measurement = line.measurement.as_ref();
        if !measurements.contains_key(measurement) && measurements.len() >= MAX_NAMES {
            return error(format!("a request has at most {MAX_NAMES} measurements"));
        }
        let rows = match measurements.get_mut(measurement) {
            Some(rows) => rows,
            None => measurements.entry(measurement.to_owned()).or_insert_with(LineRows::new),
        };
        let bytes_before = rows.bytes();
        rows.push(line, time)?;
        // A new field is a null in each other row.
        bytes = bytes.saturating_add(rows.bytes() - bytes_before);
        if bytes > max_bytes {
            return Err(LineError::TooMuch(format!(
                "the rows would take more than {max_bytes} bytes; send several requests"
            )));
        }
        Ok(())
    })?;
    Ok(measurements)
}

impl LineRows {
    fn new() -> LineRows {
        let columns = Vec::new();
        let numbers = HashMap::new();
        LineRows { columns, numbers, times: TimestampNanosecondBuilder::with_capacity(0), rows: 0 }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> u64 {
        self.rows as u64
    }

    /// Returns the bytes of the columns, without texts, once all of them have all rows.
    fn bytes(&self) -> u64 {
        /// The bytes of a value and its validity.
        const CELL: u64 = 9;
        /// The bytes of a column without rows.
        const COLUMN: u64 = 512;
        let columns = self.columns.len() as u64 + 1;
        self.len().saturating_mul(CELL).saturating_add(COLUMN).saturating_mul(columns)
    }

    fn push(&mut self, line: &Line<'_>, time: i64) -> Result<()> {
        // Lines mostly have the names of the previous line, in the same order.
        let mut guess = 0;
        for (name, value) in &line.tags {
            let number = self.column(name, guess, ColumnBuilder::tags)?;
            self.columns[number].tag(value, self.rows)?;
            guess = number + 1;
        }
        for (name, value) in &line.fields {
            let number = self.column(name, guess, || ColumnBuilder::for_value(value))?;
            self.columns[number].field(value, self.rows)?;
            guess = number + 1;
        }
        self.times.append_value(time);
        self.rows += 1;
        Ok(())
    }

    /// Returns the number of the column named `name`, which is added if it is new. It may be number `guess`.
    fn column(&mut self, name: &str, guess: usize, values: impl FnOnce() -> ColumnBuilder) -> Result<usize> {
        if self.columns.get(guess).is_some_and(|column| column.name == name) {
            return Ok(guess);
        }
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        if name == TIME {
            return error("a tag or field can't be called 'time': that is the column of timestamps");
        }
        if self.columns.len() >= MAX_NAMES {
            return error(format!("a measurement has at most {MAX_NAMES} tags and fields"));
        }
        let number = self.columns.len();
        self.columns.push(LineColumn { name: name.to_owned(), values: values() });
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Returns the schema of a table for such rows: time, tags by name, fields by name.
    pub fn schema(&self) -> SchemaRef {
        let mut columns: Vec<&LineColumn> = self.columns.iter().collect();
        columns.sort_by(|a, b| b.is_tag().cmp(&a.is_tag()).then_with(|| a.name.cmp(&b.name)));
        let time = Field::new(TIME, DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), false);
        let fields = columns.iter().map(|column| Field::new(&column.name, column.values.data_type(), true));
        Arc::new(Schema::new([time].into_iter().chain(fields).collect::<Vec<_>>()))
    }

    /// Converts the rows to a batch for a table of `schema`; columns missing in all lines are null.
    ///
    /// # Errors
    /// The tag or field that the table lacks, or has with another type.
    pub fn batch(mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        for column in &self.columns {
            let name = &column.name;
            let kind = if column.is_tag() { "tag" } else { "field" };
            if schema.column_with_name(name).is_none() {
                return error(format!(
                    "the table has no column '{name}', which is a {kind} here; add it by `arrowwood alter`"
                ));
            }
        }
        let rows = self.rows;
        let times: ArrayRef = match schema.column_with_name(TIME).map(|(_, field)| field.data_type()) {
            Some(DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
                Arc::new(self.times.finish().with_timezone_opt(zone.clone()))
            }
            _ => return error("line protocol needs a table with a column 'time' of type timestamp[ns]"),
        };
        let mut arrays = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            arrays.push(match self.numbers.get(field.name()) {
                _ if field.name() == TIME => times.clone(),
                Some(&number) => self.columns[number].finish(rows),
                None => new_null_array(field.data_type(), rows),
            });
        }
        // Encodings may differ, which the table accepts; it reports types that it does not accept.
        let fields = schema.fields().iter().zip(&arrays);
        let fields = fields.map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options).or_else(|e| error(e.to_string()))
    }
}

impl ColumnBuilder {
    /// Creates the builder of a column of tags.
    fn tags() -> ColumnBuilder {
        ColumnBuilder::Tag(StringDictionaryBuilder::with_capacity(0, 0, 0))
    }

    /// Creates a builder for values like `value`, without capacity: there may be a column for each value that was sent.
    fn for_value(value: &FieldValue<'_>) -> ColumnBuilder {
        match value {
            FieldValue::Float(_) => ColumnBuilder::Float(Float64Builder::with_capacity(0)),
            FieldValue::Int(_) => ColumnBuilder::Int(Int64Builder::with_capacity(0)),
            FieldValue::UInt(_) => ColumnBuilder::UInt(UInt64Builder::with_capacity(0)),
            FieldValue::Bool(_) => ColumnBuilder::Bool(BooleanBuilder::with_capacity(0)),
            FieldValue::Text(_) => ColumnBuilder::Text(StringBuilder::with_capacity(0, 0)),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            ColumnBuilder::Tag(_) => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            ColumnBuilder::Float(_) => DataType::Float64,
            ColumnBuilder::Int(_) => DataType::Int64,
            ColumnBuilder::UInt(_) => DataType::UInt64,
            ColumnBuilder::Bool(_) => DataType::Boolean,
            ColumnBuilder::Text(_) => DataType::Utf8,
        }
    }
}

/// Evaluates an expression with a builder of any type.
macro_rules! each {
    ($values:expr, $builder:ident => $work:expr) => {
        match $values {
            ColumnBuilder::Tag($builder) => $work,
            ColumnBuilder::Float($builder) => $work,
            ColumnBuilder::Int($builder) => $work,
            ColumnBuilder::UInt($builder) => $work,
            ColumnBuilder::Bool($builder) => $work,
            ColumnBuilder::Text($builder) => $work,
        }
    };
}

impl LineColumn {
    fn is_tag(&self) -> bool {
        matches!(self.values, ColumnBuilder::Tag(_))
    }

    /// Appends nulls before row `row`, the next one with a value.
    fn fill(&mut self, row: usize) -> Result<()> {
        use arrow_array::builder::ArrayBuilder;
        let len = each!(&self.values, builder => builder.len());
        if len > row {
            return error(format!("'{}' comes twice", self.name));
        }
        if len < row {
            each!(&mut self.values, builder => (len..row).for_each(|_| builder.append_null()));
        }
        Ok(())
    }

    fn tag(&mut self, value: &str, row: usize) -> Result<()> {
        self.fill(row)?;
        match &mut self.values {
            ColumnBuilder::Tag(keys) => keys.append_value(value),
            _ => return error(format!("'{}' is a tag here, and a field in another line", self.name)),
        }
        Ok(())
    }

    fn field(&mut self, value: &FieldValue<'_>, row: usize) -> Result<()> {
        self.fill(row)?;
        match (&mut self.values, value) {
            (ColumnBuilder::Float(values), FieldValue::Float(value)) => values.append_value(*value),
            (ColumnBuilder::Int(values), FieldValue::Int(value)) => values.append_value(*value),
            (ColumnBuilder::UInt(values), FieldValue::UInt(value)) => values.append_value(*value),
            (ColumnBuilder::Bool(values), FieldValue::Bool(value)) => values.append_value(*value),
            (ColumnBuilder::Text(values), FieldValue::Text(value)) => values.append_value(value),
            (values, other) => {
                let name = &self.name;
                let here = type_name(&ColumnBuilder::for_value(other).data_type());
                let there = type_name(&values.data_type());
                return error(format!("field '{name}' is {here} here, and {there} in another line"));
            }
        }
        Ok(())
    }

    fn finish(&mut self, rows: usize) -> ArrayRef {
        let filled = self.fill(rows);
        assert!(filled.is_ok(), "column '{}' has more values than there are {rows} rows", self.name);
        each!(&mut self.values, builder => Arc::new(builder.finish()))
    }
}
