//! Reads CSV text into record batches.
//!
//! Types are inferred from all values of a column, so they hold to the end of the file. Tried in this order: `Boolean`
//! (`true`, `True`, `TRUE` and the three of false), `Int64`, `UInt64`, `Float64` (also `nan`, `inf`, `1e5`), `Date32`
//! (`2000-01-31`, `Jan 31 2000`, `January 31, 2000`, `31 Jan 2000`), `Timestamp` (`2000-01-31T12:34:56.789`, or with a
//! space; in microseconds, or nanoseconds where a value needs them; in UTC when all values end in `Z` or an offset),
//! and `Utf8`. Nothing may be lost by it, so `Utf8` it is for numbers with leading zeros (zip codes) or a plus (phone
//! numbers), for whole numbers of more than 64 bits, and for those no float holds exactly where the column has floats.
//!
//! An empty field is a null; in columns that are not text, so are `NA`, `N/A`, `null` and `NULL`. Blank lines are
//! skipped, spaces are kept.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io::Read;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, OffsetSizeTrait, PrimitiveArray, RecordBatch, RecordBatchOptions,
    downcast_integer,
};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use chrono::NaiveDate;
use csv::{Position, ReaderBuilder, StringRecord};

use crate::error::{Error, ErrorKind, Result};

/// How to read a CSV file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CsvOptions {
    /// The columns to read, found by name in the header, and their types; `None`: all, inferred from all values.
    pub schema: Option<SchemaRef>,
    /// The names of text columns to dictionary-encode, with the smallest of `Int8`, `Int16` and `Int32` keys that will
    /// do, and one dictionary for all batches.
    pub dictionary: Vec<String>,
    /// The byte between fields.
    pub delimiter: u8,
    /// Rows per record batch; the last has what is left.
    pub batch_rows: usize,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions { schema: None, dictionary: Vec::new(), delimiter: b',', batch_rows: 1 << 20 }
    }
}

impl CsvOptions {
    fn check(&self) -> Result<()> {
        if self.batch_rows == 0 {
            return Err(Error::argument("reading CSV: expected batch_rows of 1 or more, got 0"));
        }
        if !self.delimiter.is_ascii() || b"\"\r\n".contains(&self.delimiter) {
            let got = self.delimiter.escape_ascii();
            return Err(Error::argument(format!(
                "reading CSV: expected a delimiter in ASCII other than a quote or line break, got {got}; use a comma, \
                 semicolon or tab"
            )));
        }
        Ok(())
    }
}

/// Reads all of `input` into record batches.
pub fn read_csv_from(input: impl Read, options: &CsvOptions) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    options.check()?;
    let text = Text::read(input, options.delimiter)?;
    let header = text.header()?;
    let schema = match &options.schema {
        Some(schema) => schema.clone(),
        None => Arc::new(infer(&text, &header, options)?),
    };
    let mut columns = columns(&schema, &header, options)?;
    let lengths = fill(&text, &mut columns, options.batch_rows)?;
    assemble(&schema, columns, &lengths)
}

// ---- rows ----

/// The text, and behind its `end` one more record. That record is lost exactly when a quote is left open, which the
/// parser does not tell otherwise: it would make the rest of the file one field.
struct Text {
    bytes: Vec<u8>,
    end: usize,
    delimiter: u8,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl Text {
    fn read(input: impl Read, delimiter: u8) -> Result<Text> {
        let mut bytes = Vec::new();
        input.chain(&b"\nx"[..]).read_to_end(&mut bytes).map_err(|e| Error::io("reading CSV", &e))?;
        let marks = bytes.chunks(3).take_while(|&chunk| chunk == BYTE_ORDER_MARK).count();
        bytes.drain(..3 * marks);
        Ok(Text { end: bytes.len() - 1, bytes, delimiter })
    }

    fn records(&self) -> Records<'_> {
        let mut builder = ReaderBuilder::new();
        let builder = builder.has_headers(false).flexible(true).delimiter(self.delimiter);
        let reader = builder.from_reader(&self.bytes[..]);
        Records { text: self, reader, record: StringRecord::new(), start: 0, width: None }
    }

    fn header(&self) -> Result<StringRecord> {
        let mut records = self.records();
        if !records.next()? {
            return Err(Error::invalid(
                "reading CSV: expected a header with the names of the columns, got no text; add it",
            ));
        }
        let mut names = HashSet::new();
        for (i, name) in records.record.iter().enumerate() {
            check_name(i + 1, name, names.insert(name))?;
        }
        Ok(records.record)
    }

    /// The records below the header.
    fn rows(&self) -> Result<Records<'_>> {
        let mut records = self.records();
        records.next()?;
        Ok(records)
    }

    /// Where the record begins that the parser found from `at` on: it leaves line breaks for the next record.
    fn record_start(&self, at: Option<&Position>) -> usize {
        let at = at.map_or(0, |at| self.end.min(at.byte() as usize));
        at + self.bytes[at..].iter().take_while(|byte| b"\r\n".contains(byte)).count()
    }

    /// The number of the line with the byte at `at`, from 1. The parser's own is that of blank lines before a record.
    fn line(&self, at: usize) -> usize {
        let before = &self.bytes[..at];
        let ends_line = |&i: &usize| before[i] == b'\n' || (before[i] == b'\r' && self.bytes[i + 1] != b'\n');
        1 + (0..at).filter(ends_line).count()
    }
}

fn check_name(number: usize, name: &str, new: bool) -> Result<()> {
    let fault = match (name, new) {
        ("", _) => "no name".to_string(),
        (_, true) => return Ok(()),
        (_, false) => format!("`{}` again", shorten(name)),
    };
    Err(Error::invalid(format!(
        "reading CSV: expected a header with a name of its own for each column, got {fault} for column {number}; \
         correct the header"
    )))
}

struct Records<'a> {
    text: &'a Text,
    reader: csv::Reader<&'a [u8]>,
    record: StringRecord,
    start: usize,
    width: Option<usize>,
}

impl Records<'_> {
    /// Reads the next record; false when there is none.
    fn next(&mut self) -> Result<bool> {
        self.reader.read_record(&mut self.record).map_err(|e| self.unreadable(&e))?;
        self.start = self.text.record_start(self.record.position());
        let more = self.start < self.text.end;
        if more {
            self.check()?;
        }
        Ok(more)
    }

    fn check(&mut self) -> Result<()> {
        if self.reader.position().byte() > self.text.end as u64 {
            return Err(self.error("expected a closing quote, got the end of the text; add it"));
        }
        let got = self.record.len();
        let width = *self.width.get_or_insert(got);
        if got != width {
            let message = format!(
                "expected as many fields as the header has, {width}, got {got}; quote fields that contain delimiters"
            );
            return Err(self.error(message));
        }
        Ok(())
    }

    fn unreadable(&self, error: &csv::Error) -> Error {
        let line = self.text.line(self.text.record_start(error.position()));
        Error::invalid(format!("reading CSV, line {line}: expected UTF-8, got other bytes; save the file as UTF-8"))
    }

    fn error(&self, message: impl Display) -> Error {
        Error::invalid(format!("reading CSV, line {}: {message}", self.text.line(self.start)))
    }
}

// ---- inference ----

/// The types a column may still have, a bit for each of [`candidate`]'s.
type Kinds = u16;

const BOOLEAN: Kinds = 1;
const INT: Kinds = 1 << 1;
const UINT: Kinds = 1 << 2;
const FLOAT: Kinds = 1 << 3;
const DATE: Kinds = 1 << 4;
const MICROS: Kinds = 1 << 5;
const NANOS: Kinds = 1 << 6;
const UTC_MICROS: Kinds = 1 << 7;
const UTC_NANOS: Kinds = 1 << 8;
const TEXT: Kinds = 0;
const UNSEEN: Kinds = Kinds::MAX;

fn candidate(kinds: Kinds) -> DataType {
    let utc = || Some("UTC".into());
    match kinds {
        UNSEEN | TEXT => DataType::Utf8,
        _ if kinds & BOOLEAN != 0 => DataType::Boolean,
        _ if kinds & INT != 0 => DataType::Int64,
        _ if kinds & UINT != 0 => DataType::UInt64,
        _ if kinds & FLOAT != 0 => DataType::Float64,
        _ if kinds & DATE != 0 => DataType::Date32,
        _ if kinds & MICROS != 0 => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ if kinds & NANOS != 0 => DataType::Timestamp(TimeUnit::Nanosecond, None),
        _ if kinds & UTC_MICROS != 0 => DataType::Timestamp(TimeUnit::Microsecond, utc()),
        _ => DataType::Timestamp(TimeUnit::Nanosecond, utc()),
    }
}

fn infer(text: &Text, header: &StringRecord, options: &CsvOptions) -> Result<Schema> {
    let encoded = |name: &str| options.dictionary.iter().any(|listed| listed == name);
    let mut kinds: Vec<Kinds> = header.iter().map(|name| if encoded(name) { TEXT } else { UNSEEN }).collect();
    let mut rows = text.rows()?;
    while rows.next()? {
        for (kinds, value) in kinds.iter_mut().zip(&rows.record) {
            narrow(kinds, value);
        }
    }
    let fields = header.iter().zip(kinds).map(|(name, kinds)| Field::new(name, candidate(kinds), true));
    Ok(Schema::new(fields.collect::<Fields>()))
}

fn narrow(kinds: &mut Kinds, value: &str) {
    if *kinds != TEXT && !is_null(value) {
        *kinds &= kinds_of(value);
    }
}

fn is_null(value: &str) -> bool {
    matches!(value, "" | "NA" | "N/A" | "null" | "NULL")
}

fn kinds_of(value: &str) -> Kinds {
    match number_kinds(value) {
        TEXT if boolean(value).is_some() => BOOLEAN,
        TEXT if date(value).is_some() => DATE,
        TEXT => Moment::parse(value).map_or(TEXT, |moment| moment.kinds()),
        kinds => kinds,
    }
}

fn number_kinds(value: &str) -> Kinds {
    let digits = value.strip_prefix('-').unwrap_or(value).as_bytes();
    let padded = digits.starts_with(b"0") && digits.get(1).is_some_and(u8::is_ascii_digit);
    if padded || value.starts_with('+') {
        TEXT
    } else if digits.iter().all(u8::is_ascii_digit) {
        integer_kinds(value)
    } else {
        float::<f64>(value).map_or(TEXT, |_| FLOAT)
    }
}

fn integer_kinds(value: &str) -> Kinds {
    let unsigned = value.parse::<u64>().map_or(TEXT, |_| UINT);
    let exact = |value: i64| (value as f64) as i128 == i128::from(value);
    match value.parse() {
        Ok(value) if exact(value) => INT | FLOAT | unsigned,
        Ok(_) => INT | unsigned,
        Err(_) => unsigned,
    }
}

// ---- values ----

fn boolean(value: &str) -> Option<bool> {
    match value {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

fn parse<T: FromStr>(value: &str) -> Option<T> {
    value.parse().ok()
}

/// Not for digits that are infinite as floats, such as `1e999`.
fn float<T: FromStr + Copy + Into<f64>>(value: &str) -> Option<T> {
    let number: T = value.parse().ok()?;
    let overflow = number.into().is_infinite() && value.contains(|c: char| c.is_ascii_digit());
    (!overflow).then_some(number)
}

/// Exactly `width` digits.
fn digits(value: &str, width: usize) -> Option<u32> {
    let plain = value.len() == width && value.bytes().all(|byte| byte.is_ascii_digit());
    if plain { value.parse().ok() } else { None }
}

/// Days since 1970.
fn date(value: &str) -> Option<i32> {
    iso_date(value).or_else(|| english_date(value))
}

fn iso_date(value: &str) -> Option<i32> {
    let (year, rest) = value.split_at_checked(4)?;
    let (month, day) = rest.strip_prefix('-')?.split_once('-')?;
    days(year, digits(month, 2)?, digits(day, 2)?)
}

fn english_date(value: &str) -> Option<i32> {
    let (first, rest) = value.split_once(' ')?;
    let (second, year) = rest.split_once(' ')?;
    match month(first) {
        Some(month) => days(year, month, day(second.strip_suffix(',').unwrap_or(second))?),
        None => days(year, month(second)?, day(first)?),
    }
}

fn days(year: &str, month: u32, day: u32) -> Option<i32> {
    let year = digits(year, 4).filter(|&year| year > 0)?;
    let date = NaiveDate::from_ymd_opt(year as i32, month, day)?;
    Some(date.to_epoch_days())
}

fn day(value: &str) -> Option<u32> {
    digits(value, 1).or_else(|| digits(value, 2))
}

fn month(value: &str) -> Option<u32> {
    let mut months = "January February March April May June July August September October November December".split(' ');
    let is = |month: &str| value.eq_ignore_ascii_case(month) || value.eq_ignore_ascii_case(&month[..3]);
    months.position(is).map(|index| index as u32 + 1)
}

/// A date and a time: UTC if the value had an `offset`, else by the clock of an unknown place.
struct Moment {
    seconds: i64,
    nanos: i64,
    offset: bool,
}

impl Moment {
    fn parse(value: &str) -> Option<Moment> {
        let (date, time) = value.split_at_checked(10)?;
        let midnight = i64::from(iso_date(date)?) * 86_400;
        let time = time.strip_prefix(['T', ' '])?;
        let (clock, zone) = time.split_at(time.find(['Z', '+', '-']).unwrap_or(time.len()));
        let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, rest)| (clock, Some(rest)));
        let nanos = fraction.map_or(Some(0), nanoseconds)?;
        Some(Moment {
            seconds: midnight + clock_seconds(clock)? - zone_seconds(zone)?,
            nanos,
            offset: !zone.is_empty(),
        })
    }

    /// Also for a date without a time.
    fn parse_or_midnight(value: &str) -> Option<Moment> {
        let midnight = || date(value).map(|days| Moment { seconds: i64::from(days) * 86_400, nanos: 0, offset: false });
        Moment::parse(value).or_else(midnight)
    }

    fn kinds(&self) -> Kinds {
        let (micros, nanos) = if self.offset { (UTC_MICROS, UTC_NANOS) } else { (MICROS, NANOS) };
        let fits = |per_second, kind| self.count(per_second).map_or(TEXT, |_| kind);
        fits(1_000_000, micros) | fits(1_000_000_000, nanos)
    }

    /// Since 1970, in units of which a second has so many; `None` where those do not hold it exactly.
    fn count(&self, per_second: i64) -> Option<i64> {
        let nanos_each = 1_000_000_000 / per_second;
        let whole = self.nanos % nanos_each == 0;
        let count = i128::from(self.seconds) * i128::from(per_second) + i128::from(self.nanos / nanos_each);
        if whole { i64::try_from(count).ok() } else { None }
    }
}

fn nanoseconds(fraction: &str) -> Option<i64> {
    let number = digits(fraction, fraction.len().clamp(1, 9))?;
    Some(i64::from(number) * 10_i64.pow(9 - fraction.len() as u32))
}

fn clock_seconds(clock: &str) -> Option<i64> {
    let (hours, rest) = clock.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let (hours, minutes, seconds) = (digits(hours, 2)?, digits(minutes, 2)?, digits(seconds, 2)?);
    let valid = hours < 24 && minutes < 60 && seconds < 60;
    valid.then_some(i64::from(hours * 3600 + minutes * 60 + seconds))
}

/// Seconds east of Greenwich for nothing, `Z`, `+05`, `+0530` and `+05:30`.
fn zone_seconds(zone: &str) -> Option<i64> {
    let Some(sign) = zone.chars().next().filter(|&sign| sign != 'Z') else {
        return (zone.len() < 2).then_some(0);
    };
    let (hours, rest) = zone[1..].split_at_checked(2)?;
    let minutes = if rest.is_empty() { 0 } else { digits(rest.strip_prefix(':').unwrap_or(rest), 2)? };
    let hours = digits(hours, 2).filter(|&hours| hours < 24 && minutes < 60)?;
    let seconds = i64::from(hours * 3600 + minutes * 60);
    Some(if sign == '-' { -seconds } else { seconds })
}

// ---- columns ----

struct Column {
    field: Field,
    source: usize,
    sink: Box<dyn Sink>,
    chunks: Vec<ArrayRef>,
}

fn columns(schema: &Schema, header: &StringRecord, options: &CsvOptions) -> Result<Vec<Column>> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    for name in &options.dictionary {
        names
            .clone()
            .find(|listed| listed == name)
            .ok_or_else(|| missing(name, "the option dictionary", names.clone()))?;
    }
    schema.fields().iter().map(|field| Column::new(field, header, options)).collect()
}

fn missing<'a>(name: &str, wanted_by: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let names: Vec<_> = names.take(20).map(|name| format!("`{}`", shorten(name))).collect();
    let message = format!(
        "reading CSV: expected a column `{}`, as {wanted_by} names it, got the columns {}; correct {wanted_by}",
        shorten(name),
        names.join(", ")
    );
    Error::new(ErrorKind::ColumnNotFound, message)
}

impl Column {
    fn new(field: &Field, header: &StringRecord, options: &CsvOptions) -> Result<Column> {
        let found = header.iter().position(|name| name == field.name());
        let source = found.ok_or_else(|| missing(field.name(), "the schema", header.iter()))?;
        let sink = if options.dictionary.contains(field.name()) { encoding_sink(field)? } else { sink(field)? };
        Ok(Column { field: field.clone(), source, sink, chunks: Vec::new() })
    }

    fn push(&mut self, rows: &Records) -> Result<()> {
        let value = rows.record.get(self.source).unwrap_or_default();
        let null = if self.is_text() { value.is_empty() } else { is_null(value) };
        let allowed = !null || self.field.is_nullable();
        let pushed = allowed.then(|| self.sink.push((!null).then_some(value)));
        pushed.flatten().ok_or_else(|| rows.error(self.refusal(value, null)))
    }

    fn is_text(&self) -> bool {
        matches!(self.field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Dictionary(..))
    }

    fn refusal(&self, value: &str, null: bool) -> String {
        let (name, data_type) = (self.field.name(), self.field.data_type());
        let (expected, way_out) = match null {
            false if self.is_text() => {
                ("at most 2 GiB of text".to_string(), "read it as LargeUtf8 or use a smaller batch_rows")
            }
            true => (format!("{data_type} without nulls"), "correct the value or make the field nullable"),
            false => (data_type.to_string(), "correct the value or read the column as Utf8"),
        };
        format!("expected {expected} in column `{}`, got {:?}; {way_out}", shorten(name), shorten(value))
    }

    fn finish(mut self) -> Result<(Field, Vec<ArrayRef>)> {
        let context = format!("reading CSV, column `{}`", shorten(self.field.name()));
        self.sink.seal(self.field, self.chunks).map_err(|e| e.context(context))
    }
}

/// Fields can be as long as the file; messages should not.
fn shorten(value: &str) -> String {
    let mut short: String = value.chars().take(60).collect();
    if short.len() < value.len() {
        short.push('…');
    }
    short
}

/// Parses all rows into the columns, and says how many rows each batch has.
fn fill(text: &Text, columns: &mut [Column], batch_rows: usize) -> Result<Vec<usize>> {
    let (mut lengths, mut length) = (Vec::new(), 0);
    let mut rows = text.rows()?;
    while rows.next()? {
        columns.iter_mut().try_for_each(|column| column.push(&rows))?;
        length += 1;
        if length == batch_rows {
            lengths.push(cut(columns, &mut length));
        }
    }
    if length > 0 {
        lengths.push(cut(columns, &mut length));
    }
    Ok(lengths)
}

fn cut(columns: &mut [Column], length: &mut usize) -> usize {
    for column in columns {
        let chunk = column.sink.finish();
        column.chunks.push(chunk);
    }
    std::mem::take(length)
}

fn assemble(schema: &Schema, columns: Vec<Column>, lengths: &[usize]) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let columns = columns.into_iter().map(Column::finish).collect::<Result<Vec<_>>>()?;
    let (fields, chunks): (Vec<Field>, Vec<_>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let batch = |(i, &length): (usize, &usize)| {
        let arrays = chunks.iter().map(|chunks: &Vec<ArrayRef>| chunks[i].clone()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        RecordBatch::try_new_with_options(schema.clone(), arrays, &options)
    };
    let batches = lengths.iter().enumerate().map(batch).collect::<Result<_, _>>();
    Ok((schema.clone(), batches.map_err(|e| Error::invalid(format!("reading CSV: {e}")))?))
}

// ---- sinks ----

/// Collects the values of a column into arrays.
trait Sink {
    /// Appends a value, or a null for `None`; refuses with `None` what the type does not have.
    fn push(&mut self, value: Option<&str>) -> Option<()>;

    /// The values since the last call.
    fn finish(&mut self) -> ArrayRef;

    /// The final type and arrays, from all arrays there are.
    fn seal(&mut self, field: Field, chunks: Vec<ArrayRef>) -> Result<(Field, Vec<ArrayRef>)> {
        Ok((field, chunks))
    }
}

fn sink(field: &Field) -> Result<Box<dyn Sink>> {
    use DataType::*;
    Ok(match field.data_type() {
        Boolean => parsed(BooleanBuilder::new(), |builder, value| {
            builder.append_option(optionally(value, boolean)?);
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
        Float32 => primitives(Float32Builder::new(), float),
        Float64 => primitives(Float64Builder::new(), float),
        Date32 => primitives(Date32Builder::new(), date),
        Date64 => primitives(Date64Builder::new(), |value| Some(i64::from(date(value)?) * 86_400_000)),
        Timestamp(TimeUnit::Second, zone) => moments(TimestampSecondBuilder::new(), 1, zone),
        Timestamp(TimeUnit::Millisecond, zone) => moments(TimestampMillisecondBuilder::new(), 1_000, zone),
        Timestamp(TimeUnit::Microsecond, zone) => moments(TimestampMicrosecondBuilder::new(), 1_000_000, zone),
        Timestamp(TimeUnit::Nanosecond, zone) => moments(TimestampNanosecondBuilder::new(), 1_000_000_000, zone),
        Utf8 => parsed(StringBuilder::new(), append_text),
        LargeUtf8 => parsed(LargeStringBuilder::new(), append_text),
        Dictionary(key, value) if key.is_integer() && **value == Utf8 => Encoder::sink(Some(key.as_ref().clone())),
        _ => return Err(unsupported(field)),
    })
}

fn unsupported(field: &Field) -> Error {
    Error::unsupported(format!(
        "reading CSV: expected a type that CSV can be read as, got {} for column `{}`; read it as Utf8",
        field.data_type(),
        shorten(field.name())
    ))
}

/// The sink of a field that the options list as dictionary-encoded; a schema's own choice of keys holds.
fn encoding_sink(field: &Field) -> Result<Box<dyn Sink>> {
    match field.data_type() {
        DataType::Utf8 => Ok(Encoder::sink(None)),
        DataType::Dictionary(..) => sink(field),
        other => Err(Error::argument(format!(
            "reading CSV: expected Utf8 for column `{}`, as the option dictionary names it, got {other} in the schema; correct either",
            shorten(field.name())
        ))),
    }
}

/// A builder, and how to append a value to it.
struct Parsed<B, F> {
    builder: B,
    append: F,
}

impl<B: ArrayBuilder, F: Fn(&mut B, Option<&str>) -> Option<()>> Sink for Parsed<B, F> {
    fn push(&mut self, value: Option<&str>) -> Option<()> {
        (self.append)(&mut self.builder, value)
    }

    fn finish(&mut self) -> ArrayRef {
        self.builder.finish()
    }
}

fn parsed<B: ArrayBuilder>(builder: B, append: impl Fn(&mut B, Option<&str>) -> Option<()> + 'static) -> Box<dyn Sink> {
    Box::new(Parsed { builder, append })
}

/// `None` when there is a value and it does not parse.
fn optionally<T>(value: Option<&str>, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    value.map_or(Some(None), |value| parse(value).map(Some))
}

fn primitives<T: ArrowPrimitiveType>(
    builder: PrimitiveBuilder<T>,
    parse: impl Fn(&str) -> Option<T::Native> + 'static,
) -> Box<dyn Sink> {
    parsed(builder, move |builder, value| {
        builder.append_option(optionally(value, &parse)?);
        Some(())
    })
}

fn moments<T: ArrowTimestampType>(
    builder: PrimitiveBuilder<T>,
    per_second: i64,
    zone: &Option<Arc<str>>,
) -> Box<dyn Sink> {
    let zoned = zone.is_some();
    let utc = matches!(zone.as_deref(), Some("UTC" | "Z" | "+00:00"));
    let parse = move |value: &str| {
        let moment = Moment::parse_or_midnight(value)?;
        // An offset means nothing to a clock of no place, and without one a local time may be two moments or none.
        let sound = if moment.offset { zoned } else { utc || !zoned };
        if sound { moment.count(per_second) } else { None }
    };
    primitives(builder.with_timezone_opt(zone.clone()), parse)
}

fn append_text<O: OffsetSizeTrait>(builder: &mut GenericStringBuilder<O>, value: Option<&str>) -> Option<()> {
    // The builder panics when its offsets overflow.
    O::from_usize(builder.values_slice().len() + value.map_or(0, str::len))?;
    builder.append_option(value);
    Some(())
}

/// Numbers the distinct values in order of first appearance. Only the whole file tells how wide keys must be and what
/// the dictionary is, so until it is sealed its arrays are just the numbers.
struct Encoder {
    key: Option<DataType>,
    numbers: HashMap<Box<str>, i32>,
    values: StringBuilder,
    keys: PrimitiveBuilder<Int32Type>,
}

impl Encoder {
    /// With keys of the type given, or the smallest that will do.
    fn sink(key: Option<DataType>) -> Box<dyn Sink> {
        let (values, keys) = (StringBuilder::new(), PrimitiveBuilder::new());
        Box::new(Encoder { key, numbers: HashMap::new(), values, keys })
    }

    fn number(&mut self, value: &str) -> Option<i32> {
        if let Some(&number) = self.numbers.get(value) {
            return Some(number);
        }
        let number = i32::try_from(self.numbers.len()).ok()?;
        append_text(&mut self.values, Some(value))?;
        self.numbers.insert(value.into(), number);
        Some(number)
    }

    fn smallest_key(&self) -> DataType {
        match self.numbers.len() {
            0..=0x80 => DataType::Int8,
            0x81..=0x8000 => DataType::Int16,
            _ => DataType::Int32,
        }
    }
}

impl Sink for Encoder {
    fn push(&mut self, value: Option<&str>) -> Option<()> {
        let number = value.map_or(Some(None), |value| self.number(value).map(Some))?;
        self.keys.append_option(number);
        Some(())
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.keys.finish())
    }

    fn seal(&mut self, field: Field, chunks: Vec<ArrayRef>) -> Result<(Field, Vec<ArrayRef>)> {
        let key = self.key.take().unwrap_or_else(|| self.smallest_key());
        let values: ArrayRef = Arc::new(self.values.finish());
        let encode = |keys: &ArrayRef| with_dictionary(&key, keys.as_primitive(), &values);
        let chunks = chunks.iter().map(encode).collect::<Result<_>>()?;
        let data_type = DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
        Ok((field.with_data_type(data_type), chunks))
    }
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
    K::Native::from_usize(count.saturating_sub(1)).ok_or_else(|| {
        let key = K::DATA_TYPE;
        Error::invalid(format!(
            "expected as many distinct values as {key} keys can number, got {count}; use Int32 keys"
        ))
    })?;
    let keys: PrimitiveArray<K> = keys.unary(|key| K::Native::usize_as(key as usize));
    let array = DictionaryArray::try_new(keys, values.clone());
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|e| Error::invalid(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::*;
    use TimeUnit::*;

    fn options() -> CsvOptions {
        CsvOptions::default()
    }

    fn with_type(data_type: DataType) -> CsvOptions {
        with_field(Field::new("a", data_type, true))
    }

    fn with_field(field: Field) -> CsvOptions {
        CsvOptions { schema: Some(Arc::new(Schema::new(vec![field]))), ..options() }
    }

    fn encoding(name: &str) -> CsvOptions {
        CsvOptions { dictionary: vec![name.to_string()], ..options() }
    }

    fn read(text: &str, options: &CsvOptions) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        read_csv_from(text.as_bytes(), options)
    }

    /// The type and the array of a single column `a` with these values.
    fn column(values: &[&str], options: &CsvOptions) -> Result<(DataType, ArrayRef)> {
        let mut writer = csv::Writer::from_writer(vec![]);
        ["a"].iter().chain(values).for_each(|value| writer.write_record([value]).unwrap());
        let (schema, batches) = read_csv_from(&writer.into_inner().unwrap()[..], options)?;
        Ok((schema.field(0).data_type().clone(), batches[0].column(0).clone()))
    }

    fn inferred(values: &[&str]) -> DataType {
        column(values, &options()).unwrap().0
    }

    fn typed<T: ArrowPrimitiveType>(values: &[&str], data_type: DataType) -> Result<Vec<Option<T::Native>>> {
        let (got, array) = column(values, &with_type(data_type.clone()))?;
        assert_eq!((got, array.data_type()), (data_type.clone(), &data_type));
        Ok(array.as_primitive::<T>().iter().collect())
    }

    #[track_caller]
    fn fails(text: impl AsRef<[u8]>, options: &CsvOptions, kind: ErrorKind, parts: &[&str]) {
        let error = read_csv_from(text.as_ref(), options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        parts.iter().for_each(|part| assert!(error.message().contains(part), "{part:?} not in: {error}"));
    }

    fn invalid(text: impl AsRef<[u8]>, parts: &[&str]) {
        fails(text, &options(), ErrorKind::InvalidData, parts);
    }

    /// xorshift
    fn random(state: &mut u64, below: u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % below
    }

    #[test]
    fn stocks() {
        let text = "symbol,date,price\nMSFT,Jan 1 2000,39.81\nMSFT,Feb 1 2000,36.35\nAMZN,Mar 1 2010,128.82\n";
        let (schema, batches) = read(text, &encoding("symbol")).unwrap();
        let symbol = Dictionary(Box::new(Int8), Box::new(Utf8));
        let expected = [("symbol", symbol), ("date", Date32), ("price", Float64)];
        assert_eq!(*schema, Schema::new(expected.map(|(name, kind)| Field::new(name, kind, true)).to_vec()));
        assert_eq!(batches[0].column(1).as_primitive::<Date32Type>().values(), &[10957, 10988, 14669]);
        assert_eq!(batches[0].column(2).as_primitive::<Float64Type>().values(), &[39.81, 36.35, 128.82]);
        assert_eq!(read(text, &options()).unwrap().0.field(0).data_type(), &Utf8);
    }

    #[test]
    fn infers_the_first_type_that_holds_all_values() {
        let zoned = |unit| Timestamp(unit, Some("UTC".into()));
        let cases: &[(&[&str], DataType)] = &[
            (&["", ""], Utf8),
            (&["NA", "null"], Utf8),
            (&["true", "False", "TRUE", "NULL"], Boolean),
            (&["true", "1"], Utf8),
            (&["1", "", "-9223372036854775808", "N/A"], Int64),
            (&["1", "9223372036854775808"], UInt64),
            (&["-1", "9223372036854775808"], Utf8),
            (&["1", "18446744073709551616"], Utf8),
            (&["1", "2.5", "-0", "NaN", "-inf", "1e-5", ".5", "1."], Float64),
            (&["2.5", "100000000000000000"], Float64),
            (&["2.5", "9007199254740993"], Utf8),
            (&["1.5", "1e999"], Utf8),
            (&["10", "00123"], Utf8),
            (&["10", "-01"], Utf8),
            (&["1.5", "+49"], Utf8),
            (&["1", " 2"], Utf8),
            (&["-"], Utf8),
            (&["NA", "1", "x"], Utf8),
            (&["2000-02-29", "Jan 1 2000", "january 01, 2000", "1 Jan 2000", "31 December 1999"], Date32),
            (&["2001-02-29"], Utf8),
            (&["May 2024"], Utf8),
            (&["0000-01-01"], Utf8),
            (&["2000-1-1"], Utf8),
            (&["2000-01-01T12:34:56", "1969-12-31 23:59:59.999999"], Timestamp(Microsecond, None)),
            (&["2000-01-01T12:34:56.000000000"], Timestamp(Microsecond, None)),
            (&["2000-01-01T12:34:56.123456789", "2000-01-01 00:00:00"], Timestamp(Nanosecond, None)),
            (&["2000-01-01T12:34:56.123456789", "1600-01-01 00:00:00"], Utf8),
            (&["2000-01-01T12:34:56Z", "2000-01-01 12:34:56.5+05:30", "2000-01-01 12:34:56-08"], zoned(Microsecond)),
            (&["2000-01-01T12:34:56.000000001Z"], zoned(Nanosecond)),
            (&["2000-01-01T12:34:56Z", "2000-01-01T12:34:56"], Utf8),
            (&["2000-01-01T12:34:56", "2000-01-01"], Utf8),
            (&["2000-01-01T24:00:00"], Utf8),
            (&["2000-01-01T12:34:56."], Utf8),
            (&["2000-01-01T12:34:56ZZ"], Utf8),
            (&["2000-01-01T12:34:56+é"], Utf8),
        ];
        for (values, expected) in cases {
            assert_eq!(&inferred(values), expected, "{values:?}");
        }
    }

    #[test]
    fn the_last_value_counts() {
        let text = format!("a\n{}x\n", "1\n".repeat(100_000));
        assert_eq!(read(&text, &options()).unwrap().0.field(0).data_type(), &Utf8);
    }

    #[test]
    fn words_for_null_are_text_in_text() {
        let (_, array) = column(&["NA", "", "null", "x"], &options()).unwrap();
        assert_eq!(array.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("NA"), None, Some("null"), Some("x")]);
        let (_, array) = column(&["NA", "", "null", "NULL", "N/A", "7"], &options()).unwrap();
        assert_eq!((array.null_count(), array.as_primitive::<Int64Type>().value(5)), (5, 7));
    }

    #[test]
    fn parses_what_the_schema_says() {
        assert_eq!(typed::<Int8Type>(&["-128", "+5", "007", ""], Int8).unwrap(), [Some(-128), Some(5), Some(7), None]);
        assert_eq!(typed::<UInt64Type>(&["18446744073709551615"], UInt64).unwrap(), [Some(u64::MAX)]);
        assert_eq!(
            typed::<Float32Type>(&["16777217", "inf"], Float32).unwrap(),
            [Some(16777216.), Some(f32::INFINITY)]
        );
        assert_eq!(typed::<Date64Type>(&["1969-12-31"], Date64).unwrap(), [Some(-86_400_000)]);
        let (_, array) = column(&["001", "é"], &with_type(LargeUtf8)).unwrap();
        assert_eq!(array.as_string::<i64>().iter().flatten().collect::<Vec<_>>(), ["001", "é"]);
        let (_, array) = column(&["true", "FALSE"], &with_type(Boolean)).unwrap();
        assert_eq!(array.as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false)]);
    }

    #[test]
    fn parses_moments_in_any_unit() {
        let values = ["1969-12-31T23:59:59.5Z", "2000-01-01 05:30:00+0530", "2000-01-01"];
        let zone = || Some("UTC".into());
        let millis = [Some(-500), Some(946_684_800_000), Some(946_684_800_000)];
        assert_eq!(typed::<TimestampMillisecondType>(&values, Timestamp(Millisecond, zone())).unwrap(), millis);
        let nanos = millis.map(|count| count.map(|count| count * 1_000_000));
        assert_eq!(typed::<TimestampNanosecondType>(&values, Timestamp(Nanosecond, zone())).unwrap(), nanos);
        assert_eq!(typed::<TimestampSecondType>(&values[2..], Timestamp(Second, None)).unwrap(), [Some(946_684_800)]);
        typed::<TimestampSecondType>(&values, Timestamp(Second, zone())).unwrap_err();
        typed::<TimestampSecondType>(&values[1..], Timestamp(Second, None)).unwrap_err();
        let berlin = Timestamp(Second, Some("Europe/Berlin".into()));
        assert_eq!(typed::<TimestampSecondType>(&values[1..2], berlin.clone()).unwrap(), [Some(946_684_800)]);
        typed::<TimestampSecondType>(&values[2..], berlin).unwrap_err();
        typed::<TimestampNanosecondType>(&["9999-01-01"], Timestamp(Nanosecond, None)).unwrap_err();
    }

    #[test]
    fn a_value_or_null_that_does_not_fit_is_named() {
        let (data, text) = (ErrorKind::InvalidData, "a,b\n1,x\n\n,y\n300,z\n");
        fails(text, &with_type(Int8), data, &["line 5", "`a`", "\"300\"", "Int8"]);
        fails(
            text,
            &with_field(Field::new("a", Int64, false)),
            data,
            &["line 4", "`a`", "Int64 without nulls", "\"\""],
        );
        fails("a\n1e39\n", &with_type(Float32), data, &["Float32", "1e39"]);
        let (long, shown) = ("é".repeat(1000), "é".repeat(60) + "…\"");
        fails(format!("a\n{long}\n"), &with_type(Int8), data, &[&shown]);
        let list = List(Arc::new(Field::new("item", Int8, true)));
        fails(text, &with_type(list), ErrorKind::Unsupported, &["List", "`a`"]);
        let odd = Dictionary(Box::new(Utf8), Box::new(Utf8));
        fails("a\n", &with_type(odd), ErrorKind::Unsupported, &["`a`"]);
    }

    #[test]
    fn a_schema_chooses_columns_and_keeps_its_metadata() {
        let fields = vec![Field::new("c", Int16, false), Field::new("a", Utf8, true)];
        let metadata = HashMap::from([("k".to_string(), "v".to_string())]);
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let options = CsvOptions { schema: Some(schema.clone()), ..options() };
        let (got, batches) = read("a,b,c\n1,?,3\n", &options).unwrap();
        assert_eq!((&got, batches[0].schema()), (&schema, schema.clone()));
        assert_eq!(batches[0].column(0).as_primitive::<Int16Type>().values(), &[3]);
        fails("a,b\n1,2\n", &options, ErrorKind::ColumnNotFound, &["`c`", "`a`, `b`"]);
        let none = CsvOptions { schema: Some(Arc::new(Schema::empty())), ..options };
        assert_eq!(read("a\n1\n2\n", &none).unwrap().1[0].num_rows(), 2);
    }

    #[test]
    fn one_dictionary_with_the_smallest_keys_for_all_batches() {
        for (distinct, key) in [(0, Int8), (128, Int8), (129, Int16), (32_768, Int16), (32_769, Int32)] {
            let values: Vec<_> = (0..distinct).rev().map(|i| i.to_string()).collect();
            let text =
                format!("a,b\n,\n{}\n", values.iter().map(|value| format!("{value},{value}\n")).collect::<String>());
            let (schema, batches) = read(&text, &CsvOptions { batch_rows: 10_000, ..encoding("a") }).unwrap();
            assert_eq!(schema.field(0).data_type(), &Dictionary(Box::new(key), Box::new(Utf8)));
            for batch in &batches {
                assert_eq!(batch.column(0).data_type(), schema.field(0).data_type());
                let dictionary = batch.column(0).as_any_dictionary();
                assert!(Arc::ptr_eq(dictionary.values(), batches[0].column(0).as_any_dictionary().values()));
                assert!(dictionary.values().as_string::<i32>().iter().flatten().eq(&values));
            }
            assert!(batches[0].column(0).is_null(0));
        }
    }

    #[test]
    fn a_schema_may_choose_the_keys() {
        let options = with_type(Dictionary(Box::new(UInt8), Box::new(Utf8)));
        for dictionary in [vec![], vec!["a".to_string()]] {
            let (_, array) = column(&["x", "", "y", "x"], &CsvOptions { dictionary, ..options.clone() }).unwrap();
            let keys = array.as_dictionary::<UInt8Type>().keys();
            assert_eq!(keys.iter().collect::<Vec<_>>(), [Some(0), None, Some(1), Some(0)]);
        }
        let text = |distinct: u32| (0..distinct).fold("a".to_string(), |text, i| format!("{text}\n{i}"));
        assert!(read(&text(256), &options).is_ok());
        fails(text(257), &options, ErrorKind::InvalidData, &["`a`", "UInt8", "257"]);
    }

    #[test]
    fn a_dictionary_needs_a_text_column() {
        fails("a,b\n1,2\n", &encoding("c"), ErrorKind::ColumnNotFound, &["`c`", "`a`, `b`"]);
        let options = CsvOptions { dictionary: vec!["a".to_string()], ..with_type(Int8) };
        fails("a\n1\n", &options, ErrorKind::InvalidArgument, &["`a`", "Int8"]);
    }

    #[test]
    fn faulty_text_is_refused_with_its_line() {
        for empty in ["", "\n\r\n", "\u{feff}", "\u{feff}\u{feff}\u{feff}\n"] {
            invalid(empty, &["header"]);
        }
        invalid("a,,c\n", &["no name", "column 2"]);
        invalid("a,b,a\n", &["`a` again", "column 3"]);
        invalid("a,b\n1,2\n3\n", &["line 3", "has, 2,", "got 1"]);
        invalid("a,b\r\n\"1\r\n\",2\r\n\r\n1,2,3", &["line 5", "got 3"]);
        invalid("a,b\r1,2\r\r1\r", &["line 4", "got 1"]);
        invalid(b"a,b\n1,2\n\n3,\xff\n", &["line 4", "UTF-8"]);
        invalid(b"\xff\xfea\0", &["line 1", "UTF-8"]);
        invalid("a,b\n1,2\n3,\"4\n5,6\n", &["line 3", "closing quote"]);
        invalid("a\n\"\"\"", &["line 2", "closing quote"]);
        invalid("\"", &["line 1", "closing quote"]);
    }

    #[test]
    fn faulty_options_are_refused() {
        for delimiter in [b'"', b'\n', b'\r', 0xe9] {
            fails("a\n", &CsvOptions { delimiter, ..options() }, ErrorKind::InvalidArgument, &["delimiter"]);
        }
        fails("a\n", &CsvOptions { batch_rows: 0, ..options() }, ErrorKind::InvalidArgument, &["batch_rows"]);
    }

    #[test]
    fn marks_line_ends_quotes_and_delimiters() {
        let expected = column(&["x", "é\"q\"\r\n", "z"], &options()).unwrap().1;
        for text in ["a\nx\n\"é\"\"q\"\"\r\n\"\nz", "\u{feff}\"a\"\r\nx\r\n\n\"é\"\"q\"\"\r\n\"\r\nz\r\n\r\n"] {
            assert_eq!(read(text, &options()).unwrap().1[0].column(0), &expected);
        }
        for delimiter in [b'\t', b';', b'x', b'|', b' '] {
            let text = "a,b\n1,2\n3,4".replace(',', std::str::from_utf8(&[delimiter]).unwrap());
            let (_, batches) = read(&text, &CsvOptions { delimiter, ..options() }).unwrap();
            assert_eq!(batches[0].column(1).as_primitive::<Int64Type>().values(), &[2, 4]);
        }
    }

    #[test]
    fn batches_have_the_rows_asked_for() {
        for (rows, batch_rows, expected) in
            [(0, 2, vec![]), (4, 2, vec![2, 2]), (5, 2, vec![2, 2, 1]), (5, usize::MAX, vec![5])]
        {
            let text = format!("a\n{}", "1\n".repeat(rows));
            let (schema, batches) = read(&text, &CsvOptions { batch_rows, ..options() }).unwrap();
            assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), expected);
            assert_eq!(schema.field(0).data_type() == &Utf8, rows == 0);
        }
    }

    #[test]
    fn a_failing_reader_is_an_io_error() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("unplugged"))
            }
        }
        let error = read_csv_from(Failing, &options()).unwrap_err();
        assert!(error.kind() == ErrorKind::Io && error.message().contains("unplugged"));
    }

    #[test]
    fn every_day_has_its_number() {
        let first = NaiveDate::from_ymd_opt(1, 1, 1).unwrap();
        let last = NaiveDate::from_ymd_opt(9999, 12, 31).unwrap();
        for (number, day) in (-719_162..).zip(first.iter_days().take_while(|day| day <= &last)) {
            let text = day.format("%Y-%m-%d").to_string();
            assert_eq!(date(&text), Some(number), "{text}");
            let moment = Moment::parse(&format!("{text}T23:59:59.000001")).unwrap();
            assert_eq!(moment.count(1_000_000), Some((i64::from(number) + 1) * 86_400_000_000 - 999_999), "{text}");
        }
        assert_eq!(date("9999-12-31"), Some(2_932_896));
    }

    #[test]
    fn times_are_those_of_chrono() {
        let state = &mut 1;
        for _ in 0..20_000 {
            let nanos = random(state, 1 << 62) as i64 * 2 - (1 << 62);
            let time = chrono::DateTime::from_timestamp_nanos(nanos);
            let minutes = random(state, 2 * 1439) as i32 - 1439;
            let zone = chrono::FixedOffset::east_opt(minutes * 60).unwrap();
            let text = time.with_timezone(&zone).format("%Y-%m-%d %H:%M:%S%.f%:z").to_string();
            assert_eq!(Moment::parse(&text).unwrap().count(1_000_000_000), Some(nanos), "{text}");
        }
    }

    /// The twin keeps the fields as written, and reads them with the standard library.
    #[test]
    fn random_tables_come_back() {
        let state = &mut 7;
        for _ in 0..300 {
            let rows: Vec<[String; 3]> = (0..1 + random(state, 40)).map(|_| random_row(state)).collect();
            let mut writer = csv::Writer::from_writer(vec![]);
            writer.write_record(["int", "float", "te,xt"]).unwrap();
            rows.iter().for_each(|row| writer.write_record(row).unwrap());
            let batch_rows = 1 + random(state, 20) as usize;
            let options =
                CsvOptions { batch_rows, ..if batch_rows.is_multiple_of(2) { encoding("te,xt") } else { options() } };
            let (_, batches) = read_csv_from(&writer.into_inner().unwrap()[..], &options).unwrap();
            let got = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |i| written(batch, i)));
            assert!(got.eq(rows.iter().cloned()), "{rows:?}");
        }
    }

    fn random_row(state: &mut u64) -> [String; 3] {
        let pieces = ["", "a", "é", ",", "\"", "\n", "\r\n", " ", "1"];
        let int = random(state, u64::MAX) as i64 >> random(state, 64);
        let float = f64::from_bits(random(state, 1 << 62)) + 0.5;
        let text: String = (0..random(state, 5)).map(|_| pieces[random(state, 9) as usize]).collect();
        [int.to_string(), format!("{float:?}"), format!("x{text}")]
    }

    fn written(batch: &RecordBatch, i: usize) -> [String; 3] {
        let text = match batch.column(2).as_dictionary_opt::<Int8Type>() {
            Some(array) => {
                array.downcast_dict::<arrow_array::StringArray>().unwrap().into_iter().nth(i).unwrap().unwrap()
            }
            None => batch.column(2).as_string::<i32>().value(i),
        };
        let (int, float) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Float64Type>());
        [int.value(i).to_string(), format!("{:?}", float.value(i)), text.to_string()]
    }

    #[test]
    fn no_text_panics() {
        let pieces =
            ["a", ",", "\"", "\n", "\r", "\u{feff}", "é", "1", "-", "+", "T", "Z", ":", ".", " ", "2000-01-01"];
        let state = &mut 3;
        for _ in 0..20_000 {
            let text: String = (0..random(state, 24)).map(|_| pieces[random(state, 16) as usize]).collect();
            let bytes = &text.as_bytes()[..text.len().saturating_sub(random(state, 2) as usize)];
            let header = text.split([',', '\n']).next().unwrap_or_default().to_string();
            for options in [options(), encoding(&header), with_type(Timestamp(Second, None)), with_type(Boolean)] {
                if let Err(error) = read_csv_from(bytes, &options) {
                    assert!(error.message().starts_with("reading CSV"), "{error}");
                }
            }
        }
    }
}
