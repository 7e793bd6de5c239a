//! Reads CSV text into record batches.
//!
//! Types are inferred from all values of a column, so they are valid for the whole file. Tried in this order: `Boolean`
//! (`true`, `True`, `TRUE`, and likewise for false), `Int64`, `UInt64`, `Float64` (also `nan`, `inf`, `1e5`), `Date32`
//! (`2000-01-31`, `Jan 31 2000`, `January 31, 2000`, `31 Jan 2000`), `Timestamp` (`2000-01-31T12:34:56.789`, or with a
//! space; in microseconds, or nanoseconds if a value needs them; in UTC if all values end in `Z` or an offset), and
//! `Utf8`. Integers and times must fit exactly, so numbers with leading zeros (zip codes) or a plus sign (phone numbers),
//! integers of more than 64 bits, and, in columns with floats, integers that no float represents exactly, are `Utf8`.
//! Fractions become the nearest `Float64`. Times without seconds, and times of day, are `Utf8`.
//!
//! An empty field is null; in columns other than text, so are `NA`, `N/A`, `null` and `NULL`, unless they are quoted. A
//! quoted empty field is an empty text or no bytes, and null in columns of other types. Blank lines are skipped, but in a
//! text of one column, where each is a null. Spaces are kept.
//!
//! The text is cut behind whole records, and its chunks are parsed by several threads.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::fmt::Display;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use csv::{ReaderBuilder, StringRecord};

use super::chunks::{Chunk, Chunks, Each, RecordEnds, in_waves, read_all};
use super::columns::*;
use super::lines::{Incoming, Parser};
use super::scalar::*;
use crate::error::{Error, ErrorKind, Result};
use crate::types::type_name;

/// Options for reading CSV.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CsvOptions {
    /// The columns to read, found by name in the header, and their types; `None` reads all, with types inferred from
    /// all values.
    pub schema: Option<SchemaRef>,
    /// The names of text columns to dictionary-encode, with the smallest sufficient keys of `Int8`, `Int16` and
    /// `Int32`, and one dictionary for all batches.
    pub dictionary: Vec<String>,
    /// The field delimiter.
    pub delimiter: u8,
    /// What quotes fields that contain delimiters, line breaks or quotes; `None`: nothing does.
    pub quote: Option<u8>,
    /// Whether the first line has the names of the columns. Without, they are called as the schema has them, in that order,
    /// if it has as many, and `column_1` and so on else.
    pub header: bool,
    /// Unquoted fields that are null in any column; `None`: those above.
    pub null_values: Option<Vec<String>>,
    /// Whether decimal numbers have a comma, and no point.
    pub decimal_comma: bool,
    /// The most rows of a record batch. Batches may have fewer: those of a chunk of text.
    pub batch_rows: usize,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            schema: None,
            dictionary: Vec::new(),
            delimiter: b',',
            quote: Some(b'"'),
            header: true,
            null_values: None,
            decimal_comma: false,
            batch_rows: 1 << 20,
        }
    }
}

impl CsvOptions {
    /// The names of `width` columns of a text without a header.
    fn names(&self, width: usize) -> StringRecord {
        let numbered: Vec<String> = (1..=width).map(|number| format!("column_{number}")).collect();
        let fields = self.schema.iter().flat_map(|schema| schema.fields());
        let given: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        let is_by_number = given.iter().all(|name| numbered.iter().any(|numbered| numbered == name));
        if given.len() == width && !is_by_number { given.into() } else { numbered.into() }
    }

    fn check(&self) -> Result<()> {
        check_batch_rows(self.batch_rows).map_err(reading)?;
        if !self.delimiter.is_ascii() || b"\"\r\n".contains(&self.delimiter) {
            let got = self.delimiter.escape_ascii();
            return Err(Error::argument(format!(
                "reading CSV: expected a delimiter in ASCII other than a quote or line break, got {got}; use a comma, \
                 semicolon or tab"
            )));
        }
        if let Some(quote) = self.quote
            && (!quote.is_ascii() || quote == self.delimiter || b"\r\n".contains(&quote))
        {
            let got = quote.escape_ascii();
            return Err(Error::argument(format!(
                "reading CSV: expected a quote in ASCII other than the delimiter or a line break, got {got}"
            )));
        }
        if self.decimal_comma && self.delimiter == b',' {
            return Err(Error::argument(
                "reading CSV: expected another delimiter where numbers have a comma, got a comma; give a semicolon, for example",
            ));
        }
        Ok(())
    }

    /// Whether `value` is null in a column of `data_type`; `is_quoted` is asked only where that matters.
    fn is_null(&self, value: &str, data_type: &DataType, is_quoted: impl FnOnce() -> bool) -> bool {
        if value.is_empty() {
            // An empty field is nothing, unless it is quoted and may be a value.
            let can_be_empty = is_text(data_type) || matches!(data_type, DataType::Binary | DataType::LargeBinary);
            return !can_be_empty || !is_quoted();
        }
        let is_word = match &self.null_values {
            Some(nulls) => nulls.iter().any(|null| null == value),
            None => !is_text(data_type) && is_null(value),
        };
        is_word && !is_quoted()
    }

    /// A number as the parsers expect it; other values unchanged.
    fn with_point<'a>(&self, value: &'a str) -> Cow<'a, str> {
        if !self.decimal_comma || !value.contains([',', '.']) {
            return Cow::Borrowed(value);
        }
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.,eE".contains(&byte));
        // A point is no part of a number here: two of them are none anywhere.
        if is_number { Cow::Owned(value.replace('.', "..").replace(',', ".")) } else { Cow::Borrowed(value) }
    }
}

/// Reads all of `input` into record batches.
///
/// # Errors
/// As [`stream_csv`], but the schema is optional, and the header may name other columns.
pub fn read_csv_from(input: impl Read, options: &CsvOptions) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    options.check()?;
    let text = read_all(input).map_err(|e| Error::io("reading CSV", &e))?;
    let mut batches = Vec::new();
    let schema = read_csv_in_order(&|| Ok(&text[..]), options, &mut |_, batch| {
        batches.extend(batch);
        Ok(())
    })?;
    Ok((schema, batches))
}

/// Reads a text, which `open` opens once or twice, and hands its record batches to `each` in order: the memory needed does
/// not depend on the text's length, unless there are columns to dictionary-encode. The text is read twice if its types are
/// to be inferred. Now and then `each` gets no batch, so that it can show progress, or stop by an error.
///
/// # Errors
/// Those of [`read_csv_from`] and of `each`.
pub fn read_csv_in_order<R: Read + Send>(
    open: &dyn Fn() -> Result<R>,
    options: &CsvOptions,
    each: Each<'_>,
) -> Result<SchemaRef> {
    options.check()?;
    let text = Chunked::begin(open()?, options)?;
    let Some(schema) = &options.schema else {
        let header = text.header.clone();
        let schema = Arc::new(infer(text, options, each)?);
        let again = Chunked::begin(open()?, options)?;
        if again.header != header {
            let message = "reading CSV: the header changed while the text was read";
            return Err(Error::new(ErrorKind::FileChanged, message));
        }
        return parse(again, &schema, options, each);
    };
    parse(text, schema, options, each)
}

/// A text's header, and the chunks from it on.
struct Chunked<R> {
    header: StringRecord,
    first: Chunk,
    rest: Chunks<R, CsvCut>,
}

impl<R: Read> Chunked<R> {
    fn begin(input: R, options: &CsvOptions) -> Result<Chunked<R>> {
        let mut rest = Chunks::new(input, CsvCut::new(options), "reading CSV");
        // Blank lines before the header may fill chunks.
        loop {
            let chunk = rest.next().ok_or_else(no_header)??;
            let first = Chunk { is_first: true, ..chunk };
            if let Some(header) = Text::of(first.clone(), options).header()? {
                return Ok(Chunked { header, first, rest });
            }
        }
    }

    fn chunks(self) -> impl Iterator<Item = Result<Chunk>> {
        std::iter::once(Ok(self.first)).chain(self.rest)
    }
}

/// Parses the chunks of a text of `schema`, several at a time.
fn parse<R: Read + Send>(
    text: Chunked<R>,
    schema: &SchemaRef,
    options: &CsvOptions,
    each: Each<'_>,
) -> Result<SchemaRef> {
    let header = text.header.clone();
    let table = CsvTable::new(schema, &header, options)?;
    let is_dictionary = |field: &FieldRef| matches!(field.data_type(), DataType::Dictionary(..));
    if !options.dictionary.is_empty() || schema.fields().iter().any(is_dictionary) {
        return parse_in_line(text, table, options, each);
    }
    let work = |chunk: Chunk| {
        let mut table = CsvTable::new(schema, &header, options)?;
        let text = Text::of(chunk, options);
        let mut rows = text.rows(header.len())?;
        let mut batches = Vec::new();
        let mut full = |columns: &mut Filling<_>| columns.take().map(|batch| batches.extend(batch));
        while rows.next()? {
            table.push(&rows, options, &mut full)?;
        }
        full(&mut table.columns).map_err(reading)?;
        Ok(batches)
    };
    in_waves(text.chunks(), work, &mut |batches: Vec<RecordBatch>| {
        batches.into_iter().map(Some).chain([None]).try_for_each(|batch| each(schema, batch))
    })?;
    Ok(schema.clone())
}

/// As [`parse`], chunk after chunk, with one dictionary for all batches.
fn parse_in_line<R: Read>(
    text: Chunked<R>,
    mut table: CsvTable,
    options: &CsvOptions,
    each: Each<'_>,
) -> Result<SchemaRef> {
    let width = text.header.len();
    for chunk in text.chunks() {
        let chunk = chunk?;
        let text = Text::of(chunk, options);
        let mut rows = text.rows(width)?;
        while rows.next()? {
            table.push(&rows, options, &mut Filling::cut)?;
        }
    }
    let (schema, batches) = table.columns.cut().and_then(|()| table.columns.assemble()).map_err(reading)?;
    batches.into_iter().try_for_each(|batch| each(&schema, Some(batch)))?;
    Ok(schema)
}

/// Reads rows of [`CsvOptions::schema`] from `input` as they arrive, in batches of at most [`CsvOptions::batch_rows`]
/// rows. A batch is returned when it is full, at the end, or when no more input is available and its first row has
/// waited for `patience`, so that `input` may be the output of `tail -f`.
///
/// The header must name exactly the schema's columns, in any order. Besides the inferred types, values of type `Time32`
/// and `Time64` are read like `12:34:56.789`, `Decimal32`, `Decimal64` and `Decimal128` like `-12.50` or `1e3`, and
/// `Binary` as hexadecimal digits; timestamps and times may also be integers in the column's unit.
///
/// # Errors
/// `InvalidArgument` without a schema, or with columns to dictionary-encode, which the schema must declare;
/// `Unsupported` for types that can't be read from text. Other errors are returned as the last item.
pub fn stream_csv(input: impl Read + Send + 'static, options: &CsvOptions, patience: Duration) -> Result<Incoming> {
    options.check()?;
    let schema = given_schema(&options.schema, &options.dictionary).map_err(reading)?;
    let rows = CsvBlocks {
        options: options.clone(),
        schema: schema.clone(),
        table: None,
        lines: 0,
        cut: CsvCut::new(options),
    };
    Incoming::new(input, schema, Box::new(rows), "reading CSV", patience)
}

fn reading(e: Error) -> Error {
    e.context("reading CSV")
}

// ---- rows ----

/// Whole records, with an extra one after their `end`. That record is lost exactly if a quote is left open, which the
/// parser does not report otherwise: it would make the rest of the text one field.
struct Text<'a> {
    bytes: Vec<u8>,
    end: usize,
    options: &'a CsvOptions,
    /// The number of lines before the text.
    lines: usize,
    has_quotes: bool,
    /// Whether the first record has the names of the columns.
    has_header: bool,
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl<'a> Text<'a> {
    fn of(chunk: Chunk, options: &'a CsvOptions) -> Text<'a> {
        let text = Text::after(chunk.lines, chunk.bytes, options);
        Text { has_header: chunk.is_first && options.header, ..text }
    }

    /// Whole records; all but the very last end with a line break.
    fn after(lines: usize, mut bytes: Vec<u8>, options: &'a CsvOptions) -> Text<'a> {
        if lines == 0 {
            without_marks(&mut bytes);
        }
        if !matches!(bytes.last(), None | Some(b'\n' | b'\r')) {
            bytes.push(b'\n');
        }
        let has_quotes = options.quote.is_some_and(|quote| bytes.contains(&quote));
        bytes.push(b'x');
        Text { end: bytes.len() - 1, bytes, options, lines, has_quotes, has_header: false }
    }

    fn records(&self) -> CsvRecords<'_> {
        let mut builder = ReaderBuilder::new();
        let builder = builder.has_headers(false).flexible(true).delimiter(self.options.delimiter);
        let builder = match self.options.quote {
            Some(quote) => builder.quote(quote),
            None => builder.quoting(false),
        };
        let reader = builder.from_reader(&self.bytes[..]);
        let record = StringRecord::new();
        CsvRecords { text: self, reader, record, start: 0, width: None, blank: 0, is_blank: false, is_more: false }
    }

    /// The names of the columns; `None` if there is no record.
    fn header(&self) -> Result<Option<StringRecord>> {
        let mut records = self.records();
        if !records.next()? {
            return Ok(None);
        }
        if !self.options.header {
            return Ok(Some(self.options.names(records.record.len())));
        }
        let mut names = HashSet::new();
        for (i, name) in records.record.iter().enumerate() {
            check_name(i + 1, name, names.insert(name))?;
        }
        Ok(Some(records.record))
    }

    /// The records of `width` fields after the header, if there is one.
    fn rows(&self, width: usize) -> Result<CsvRecords<'_>> {
        let mut records = self.records();
        if self.has_header {
            records.next()?;
        }
        records.width = Some(width);
        Ok(records)
    }

    /// The start of the record that the parser found from `at` on: it leaves line breaks for the next record.
    fn record_start(&self, at: usize) -> usize {
        at + self.bytes[at..].iter().take_while(|byte| b"\r\n".contains(byte)).count()
    }

    /// The number of lines without anything between the end of a record, at `at`, and the next record.
    fn blank_lines(&self, at: usize, next: usize) -> usize {
        let breaks = self.bytes.get(at..next).unwrap_or_default();
        // The line feed of the record's own line break may be left.
        let is_rest = at > 0 && self.bytes.get(at - 1) == Some(&b'\r') && breaks.first() == Some(&b'\n');
        let is_end = |&i: &usize| breaks[i] == b'\n' || breaks.get(i + 1) != Some(&b'\n');
        (usize::from(is_rest)..breaks.len()).filter(is_end).count()
    }

    /// The number of the line with the byte at `at`, from 1. The parser's own number refers to blank lines before a
    /// record.
    fn line(&self, at: usize) -> usize {
        self.lines + 1 + line_ends(&self.bytes[..at], self.bytes.get(at).copied())
    }
}

/// The number of line breaks in `text`, which `next` follows.
fn line_ends(text: &[u8], next: Option<u8>) -> usize {
    if !text.contains(&b'\r') {
        return text.iter().filter(|&&byte| byte == b'\n').count();
    }
    let after = |i: usize| text.get(i + 1).copied().or(next);
    let ends_line = |&i: &usize| text[i] == b'\n' || (text[i] == b'\r' && after(i) != Some(b'\n'));
    (0..text.len()).filter(ends_line).count()
}

fn without_marks(bytes: &mut Vec<u8>) {
    let marks = bytes.chunks(3).take_while(|&chunk| chunk == BYTE_ORDER_MARK).count();
    bytes.drain(..3 * marks);
}

fn no_header() -> Error {
    Error::invalid("reading CSV: expected a header with the names of the columns, got no text; add it")
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

struct CsvRecords<'a> {
    text: &'a Text<'a>,
    reader: csv::Reader<&'a [u8]>,
    record: StringRecord,
    start: usize,
    width: Option<usize>,
    /// The number of blank lines that come before `record`, each of which is a record of one field.
    blank: usize,
    /// Whether the present record is one of them.
    is_blank: bool,
    /// Whether `record` is one of the text.
    is_more: bool,
}

impl CsvRecords<'_> {
    /// Reads the next record; false if there is none.
    fn next(&mut self) -> Result<bool> {
        if self.blank > 0 {
            self.blank -= 1;
            self.is_blank = true;
            return Ok(true);
        }
        if self.is_blank {
            self.is_blank = false;
            return Ok(self.is_more);
        }
        self.reader.read_record(&mut self.record).map_err(|e| self.unreadable(&e))?;
        let at = self.record.position().map_or(0, |at| self.text.end.min(at.byte() as usize));
        self.start = self.text.record_start(at);
        self.is_more = self.start < self.text.end;
        // Of one column, nothing is a null as between delimiters.
        if self.width == Some(1) {
            self.blank = self.text.blank_lines(at, self.start.min(self.text.end));
        }
        if self.is_more {
            self.check()?;
        }
        if self.blank > 0 { self.next() } else { Ok(self.is_more) }
    }

    /// Field number `number`.
    fn field(&self, number: usize) -> &str {
        if self.is_blank { "" } else { self.record.get(number).unwrap_or_default() }
    }

    /// Whether field number `number` begins with a quote.
    fn is_quoted(&self, number: usize) -> bool {
        if self.is_blank || !self.text.has_quotes {
            return false;
        }
        let delimiter = self.text.options.delimiter;
        let quote = self.text.options.quote;
        let mut place = ParserState::FieldStart;
        let mut field = 0;
        for &byte in self.text.bytes.get(self.start..).unwrap_or_default() {
            if field == number {
                return Some(byte) == quote;
            }
            let next = place.next(byte, delimiter, quote);
            field += usize::from(byte == delimiter && place != ParserState::Quoted);
            place = next;
        }
        false
    }

    fn check(&mut self) -> Result<()> {
        if self.reader.position().byte() > self.text.end as u64 {
            return Err(self.error("expected a closing quote, got the end of the text; add it"));
        }
        let got = self.record.len();
        let width = *self.width.get_or_insert(got);
        if got != width {
            let whose = if self.text.options.header { "the header" } else { "the first line" };
            let message = format!(
                "expected as many fields as {whose} has, {width}, got {got}; quote fields that contain delimiters"
            );
            return Err(self.error(message));
        }
        Ok(())
    }

    fn unreadable(&self, error: &csv::Error) -> Error {
        let at = error.position().map_or(0, |at| self.text.end.min(at.byte() as usize));
        let line = self.text.line(self.text.record_start(at));
        Error::invalid(format!("reading CSV, line {line}: expected UTF-8, got other bytes; save the file as UTF-8"))
    }

    fn error(&self, message: impl Display) -> Error {
        Error::invalid(format!("reading CSV, line {}: {message}", self.text.line(self.start)))
    }
}

// ---- inference ----

/// The columns of a text, and the types that hold all their values.
fn infer<R: Read + Send>(text: Chunked<R>, options: &CsvOptions, each: Each<'_>) -> Result<Schema> {
    let header = text.header.clone();
    let encoded = |name: &str| options.dictionary.iter().any(|listed| listed == name);
    let unknown: SchemaRef = Arc::new(Schema::empty());
    let begun: Vec<Kinds> = header.iter().map(|name| if encoded(name) { TEXT } else { UNSEEN }).collect();
    let mut kinds = begun.clone();
    let see = |chunk: Chunk| {
        let mut kinds = begun.clone();
        let text = Text::of(chunk, options);
        let mut rows = text.rows(header.len())?;
        while rows.next()? {
            for (number, kinds) in kinds.iter_mut().enumerate().filter(|(_, kinds)| **kinds != TEXT) {
                let value = rows.field(number);
                if !options.is_null(value, &DataType::Null, || rows.is_quoted(number)) {
                    *kinds &= kinds_of(&options.with_point(value));
                }
            }
        }
        Ok(kinds)
    };
    in_waves(text.chunks(), see, &mut |found: Vec<Kinds>| {
        kinds.iter_mut().zip(found).for_each(|(kinds, found)| *kinds &= found);
        each(&unknown, None)
    })?;
    let fields = header.iter().zip(kinds).map(|(name, kinds)| Field::new(name, candidate(kinds), true));
    Ok(Schema::new(fields.collect::<Fields>()))
}

// ---- columns ----

/// A header, and the columns read from the records after it.
struct CsvTable {
    /// The number of fields.
    width: usize,
    /// The field of each column.
    sources: Vec<usize>,
    columns: Filling<Box<dyn Sink>>,
}

impl CsvTable {
    fn new(schema: &SchemaRef, header: &StringRecord, options: &CsvOptions) -> Result<CsvTable> {
        check_dictionary(&options.dictionary, schema).map_err(reading)?;
        let source = |field: &FieldRef| {
            let found = header.iter().position(|name| name == field.name());
            found.ok_or_else(|| reading(missing(field.name(), "the schema", header.iter())))
        };
        let column = |field: &FieldRef| {
            let sink = sink_of(field, &options.dictionary).map_err(reading)?;
            Ok(TextColumn::new(field.as_ref().clone(), sink))
        };
        let sources = schema.fields().iter().map(source).collect::<Result<_>>()?;
        let columns = schema.fields().iter().map(column).collect::<Result<_>>()?;
        Ok(CsvTable {
            width: header.len(),
            sources,
            columns: Filling::new(schema.clone(), columns, options.batch_rows),
        })
    }

    /// As `new`, for a header that must not name other columns.
    fn for_all(schema: &SchemaRef, header: &StringRecord, options: &CsvOptions) -> Result<CsvTable> {
        let names = || schema.fields().iter().map(|field| field.name().as_str());
        match header.iter().find(|&name| names().all(|known| known != name)) {
            Some(name) => Err(reading(missing(name, "the header", names()))),
            None => CsvTable::new(schema, header, options),
        }
    }

    /// Adds the next row, and passes the columns to `full` when a batch is full.
    fn push(
        &mut self,
        rows: &CsvRecords<'_>,
        options: &CsvOptions,
        full: &mut impl FnMut(&mut Filling<Box<dyn Sink>>) -> Result<()>,
    ) -> Result<()> {
        for (column, &source) in self.columns.columns.iter_mut().zip(&self.sources) {
            push(column, rows, source, options).map_err(|refusal| rows.error(refusal))?;
        }
        if self.columns.count() { full(&mut self.columns).map_err(reading) } else { Ok(()) }
    }
}

fn push(
    column: &mut TextColumn<Box<dyn Sink>>,
    rows: &CsvRecords<'_>,
    source: usize,
    options: &CsvOptions,
) -> Result<(), String> {
    let value = rows.field(source);
    let null = options.is_null(value, column.field.data_type(), || rows.is_quoted(source));
    let allowed = !null || column.field.is_nullable();
    let parsed = if is_text(column.field.data_type()) { Cow::Borrowed(value) } else { options.with_point(value) };
    let pushed = allowed.then(|| column.sink.push((!null).then_some(&parsed)));
    pushed.flatten().ok_or_else(|| {
        let (expected, way_out) = refusal(&column.field, null);
        let name = shorten(column.field.name());
        let advice = offset_advice(column.field.data_type(), value);
        let way_out = if advice.is_empty() { way_out } else { advice };
        format!("expected {expected} in column `{name}`, got {:?}{way_out}", shorten(value))
    })
}

fn is_text(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Dictionary(..))
}

/// What was expected instead, and the remedy.
fn refusal(field: &Field, null: bool) -> (String, &'static str) {
    let name = type_name(field.data_type());
    if null {
        return (format!("{name} without nulls"), "; correct the value or make the field nullable");
    }
    if is_text(field.data_type()) {
        return ("at most 2 GiB of text".to_string(), "; read it as large_utf8 or use a smaller batch_rows");
    }
    (name, "; correct the value or read the column as utf8")
}

// ---- rows as they come ----

/// The records of a text that arrives in blocks.
struct CsvBlocks {
    options: CsvOptions,
    schema: SchemaRef,
    /// `None` before the header.
    table: Option<CsvTable>,
    /// The number of parsed lines.
    lines: usize,
    cut: CsvCut,
}

/// Finds the ends of records.
struct CsvCut {
    delimiter: u8,
    quote: Option<u8>,
    place: ParserState,
}

impl CsvCut {
    fn new(options: &CsvOptions) -> CsvCut {
        CsvCut { delimiter: options.delimiter, quote: options.quote, place: ParserState::Mark }
    }
}

impl RecordEnds for CsvCut {
    fn whole(&mut self, fresh: &[u8]) -> Option<usize> {
        use ParserState::*;
        let has_quotes = self.quote.is_some_and(|quote| fresh.contains(&quote));
        let mut end = None;
        let mut from = 0;
        // Without quotes, every line break ends a record, and what comes after the last one decides the state.
        if !has_quotes && matches!(self.place, FieldStart | Field | Quote) {
            from = fresh.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
        }
        for (i, &byte) in fresh.iter().enumerate().skip(from) {
            let place = self.place.next(byte, self.delimiter, self.quote);
            match (self.place, byte) {
                (Quoted, _) => {}
                (_, b'\n') => end = Some(i + 1),
                (Return, _) => end = Some(i),
                _ => {}
            }
            self.place = place;
        }
        end
    }

    fn lines(&self, records: &[u8]) -> usize {
        line_ends(records, None)
    }
}

/// The parser state after the last byte of a block.
#[derive(Clone, Copy, PartialEq)]
enum ParserState {
    /// Before the header, in byte order marks.
    Mark,
    FieldStart,
    Field,
    Quoted,
    /// After a quote in a quoted field, which ends it or is doubled.
    Quote,
    /// After a carriage return, which a line feed may follow.
    Return,
}

impl ParserState {
    /// The state after `byte`.
    fn next(self, byte: u8, delimiter: u8, quote: Option<u8>) -> ParserState {
        use ParserState::*;
        let is_quote = Some(byte) == quote;
        match (self, byte) {
            (Quoted, _) if is_quote => Quote,
            (Quoted, _) => Quoted,
            (Mark | FieldStart | Return | Quote, _) if is_quote => Quoted,
            (Mark, byte) if BYTE_ORDER_MARK.contains(&byte) => Mark,
            (_, b'\n') => FieldStart,
            (_, b'\r') => Return,
            (_, byte) if byte == delimiter => FieldStart,
            _ => Field,
        }
    }
}

impl Parser for CsvBlocks {
    fn whole(&mut self, fresh: &[u8]) -> Option<usize> {
        self.cut.whole(fresh)
    }

    fn parse(&mut self, records: Vec<u8>, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let mut text = Text::after(self.lines, records, &self.options);
        if self.table.is_none()
            && let Some(header) = text.header()?
        {
            self.table = Some(CsvTable::for_all(&self.schema, &header, &self.options)?);
            text.has_header = self.options.header;
        }
        if let Some(table) = &mut self.table {
            let mut rows = text.rows(table.width)?;
            let mut full = |columns: &mut Filling<_>| columns.take().map(|batch| ready.extend(batch));
            while rows.next()? {
                table.push(&rows, &self.options, &mut full)?;
            }
        }
        self.lines = text.line(text.end) - 1;
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.table.as_ref().is_some_and(|table| table.columns.rows > 0)
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        self.table.as_mut().map_or(Ok(None), |table| table.columns.take()).map_err(reading)
    }

    fn end(&self) -> Result<()> {
        self.table.as_ref().map(|_| ()).ok_or_else(no_header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use DataType::*;
    use TimeUnit::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::*;
    use arrow_array::{Array, ArrayRef};
    use arrow_schema::TimeUnit;
    use chrono::NaiveDate;
    use std::collections::HashMap;

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
            (&["10:00:00"], Utf8),
            (&["2024-01-01T10:00"], Utf8),
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
        let (_, batches) = read("a,b\nNA,\n,\nnull,\nx,\n", &options()).unwrap();
        let texts = batches[0].column(0).as_string::<i32>().iter().collect::<Vec<_>>();
        assert_eq!(texts, [Some("NA"), None, Some("null"), Some("x")]);
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
        let values = ["1969-12-31T23:59:59.5Z", "2000-01-01 05:30:00+0530", "2000-01-01 00:00:00Z"];
        let zone = || Some("UTC".into());
        let millis = [Some(-500), Some(946_684_800_000), Some(946_684_800_000)];
        assert_eq!(typed::<TimestampMillisecondType>(&values, Timestamp(Millisecond, zone())).unwrap(), millis);
        let nanos = millis.map(|count| count.map(|count| count * 1_000_000));
        assert_eq!(typed::<TimestampNanosecondType>(&values, Timestamp(Nanosecond, zone())).unwrap(), nanos);
        typed::<TimestampSecondType>(&values, Timestamp(Second, zone())).unwrap_err();
        typed::<TimestampNanosecondType>(&["9999-01-01"], Timestamp(Nanosecond, None)).unwrap_err();
    }

    #[test]
    fn a_moment_has_an_offset_where_its_column_has_a_zone() {
        let (with, without) = (["2000-01-01 05:30:00+0530"], ["2000-01-01 00:00:00", "2000-01-01"]);
        let second = Some(946_684_800);
        for zone in ["UTC", "Europe/Berlin", "+01:00"] {
            let zoned = Timestamp(Second, Some(zone.into()));
            assert_eq!(typed::<TimestampSecondType>(&with, zoned.clone()).unwrap(), [second]);
            for text in without {
                let text = format!("a\n{text}\n");
                fails(text, &with_type(zoned.clone()), ErrorKind::InvalidData, &["line 2", "2026-01-31T12:00:00Z"]);
            }
        }
        let naive = Timestamp(Second, None);
        assert_eq!(typed::<TimestampSecondType>(&without, naive.clone()).unwrap(), [second; 2]);
        fails(format!("a\n{}\n", with[0]), &with_type(naive), ErrorKind::InvalidData, &["without an offset"]);
    }

    #[test]
    fn a_value_or_null_that_does_not_fit_is_named() {
        let data = ErrorKind::InvalidData;
        let text = "a,b\n1,x\n\n,y\n300,z\n";
        fails(text, &with_type(Int8), data, &["line 5", "`a`", "\"300\"", "int8"]);
        fails(
            text,
            &with_field(Field::new("a", Int64, false)),
            data,
            &["line 4", "`a`", "int64 without nulls", "\"\""],
        );
        fails("a\n1e39\n", &with_type(Float32), data, &["float32", "1e39"]);
        let long = "é".repeat(1000);
        let shown = "é".repeat(60) + "…\"";
        fails(format!("a\n{long}\n"), &with_type(Int8), data, &[&shown]);
        let list = List(Arc::new(Field::new("item", Int8, true)));
        fails(text, &with_type(list), ErrorKind::Unsupported, &["list<int8>", "`a`"]);
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
            let options = CsvOptions { dictionary, ..options.clone() };
            let (_, batches) = read("a\nx\n\ny\nx\n", &options).unwrap();
            let keys = batches[0].column(0).as_dictionary::<UInt8Type>().keys();
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
        fails("a\n1\n", &options, ErrorKind::InvalidArgument, &["`a`", "int8"]);
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
    fn quotes_tell_nothing_from_an_empty_text() {
        let text = "a,b,c\n\"\",,1\n,\"x\",\"\"\n\"NA\",\"\",NA\n";
        let (schema, batches) = read(text, &options()).unwrap();
        let texts = |column: usize| batches[0].column(column).as_string::<i32>().iter().collect::<Vec<_>>();
        assert_eq!(texts(0), [Some(""), None, Some("NA")]);
        assert_eq!(texts(1), [None, Some("x"), Some("")]);
        // No number is there to be empty.
        assert_eq!((schema.field(2).data_type(), batches[0].column(2).null_count()), (&Int64, 2));
        // What is quoted says that it is text.
        let (kind, array) = (read("a\n1\n\"NA\"\n", &options()).unwrap().0, read("a\n1\nNA\n", &options()).unwrap().0);
        assert_eq!((kind.field(0).data_type(), array.field(0).data_type()), (&Utf8, &Int64));
        fails("a\n1\n\"NA\"\n", &with_type(Int64), ErrorKind::InvalidData, &["line 3", "\"NA\""]);
        // Quoted numbers are numbers.
        assert_eq!(read("a\n\"1\"\n\"2\"\n", &options()).unwrap().0.field(0).data_type(), &Int64);
    }

    #[test]
    fn a_blank_line_of_one_column_is_a_null() {
        for text in ["a\n1\n\n2\n\n", "a\r\n1\r\n\r\n2\r\n\r\n", "a\r1\r\r2\r\r", "\n\na\n1\n\n2\n\n"] {
            let (_, batches) = read(text, &options()).unwrap();
            let values: Vec<_> = batches[0].column(0).as_primitive::<Int64Type>().iter().collect();
            assert_eq!(values, [Some(1), None, Some(2), None], "{text:?}");
        }
        assert_eq!(read("a\n1\n", &options()).unwrap().1[0].num_rows(), 1);
        assert_eq!(read("a\n1", &options()).unwrap().1[0].num_rows(), 1);
        // Of several columns it is nothing.
        assert_eq!(read("a,b\n1,2\n\n3,4\n\n", &options()).unwrap().1[0].num_rows(), 2);
        fails("a\n1\n\nx\n", &with_type(Int64), ErrorKind::InvalidData, &["line 4"]);
    }

    #[test]
    fn options_of_other_texts() {
        let nulls = |values: &[&str]| Some(values.iter().map(|value| value.to_string()).collect());
        let given = CsvOptions { null_values: nulls(&["-", "x"]), ..options() };
        let (schema, batches) = read("a,b\n-,x\n1,NA\n\"\",\"x\"\n", &given).unwrap();
        assert_eq!((schema.field(0).data_type(), batches[0].column(0).null_count()), (&Int64, 2));
        let texts: Vec<_> = batches[0].column(1).as_string::<i32>().iter().collect();
        assert_eq!(texts, [None, Some("NA"), Some("x")]);
        let given = CsvOptions { decimal_comma: true, delimiter: b';', ..options() };
        let (schema, batches) = read("a;b;c;d\n1,5;1.5;a,b.c;2000-01-01\n-2,25e3;2;d;2000-01-02\n", &given).unwrap();
        let kinds: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(kinds, [Float64, Utf8, Utf8, Date32]);
        assert_eq!(batches[0].column(0).as_primitive::<Float64Type>().values(), &[1.5, -2250.0]);
        assert_eq!(batches[0].column(1).as_string::<i32>().value(0), "1.5");
        let (schema, batches) = read("1,a\n2,b\n", &CsvOptions { header: false, ..options() }).unwrap();
        assert_eq!(
            schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
            ["column_1", "column_2"]
        );
        assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().values(), &[1, 2]);
        let (_, batches) = read("a\n'x\ny'\n\"z\n", &CsvOptions { quote: Some(b'\''), ..options() }).unwrap();
        assert_eq!(batches[0].column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["x\ny", "\"z"]);
        let (_, batches) = read("a\n\"x\n\"y\"\n", &CsvOptions { quote: None, ..options() }).unwrap();
        assert_eq!(batches[0].column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["\"x", "\"y\""]);
        fails("a\n", &CsvOptions { quote: Some(b','), ..options() }, ErrorKind::InvalidArgument, &["quote"]);
        fails("a\n", &CsvOptions { decimal_comma: true, ..options() }, ErrorKind::InvalidArgument, &["delimiter"]);
    }

    /// A text of several chunks is what its rows are, wherever it is cut.
    #[test]
    fn large_texts_are_parsed_chunk_by_chunk() {
        let rows = 300_000usize;
        let row = |i: usize| {
            let text = if i.is_multiple_of(7) { "\"a\nb, \"\"c\"\"\"".into() } else { format!("text {i}") };
            format!("{i},{text},{}.5\n", i * 3)
        };
        let text = format!("id,text,x\n{}", (0..rows).map(row).collect::<String>());
        assert!(text.len() > 6 << 20);
        let (schema, batches) = read(&text, &options()).unwrap();
        let kinds: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(kinds, [Int64, Utf8, Float64]);
        assert!(batches.len() > 2);
        let mut id = 0usize;
        for batch in &batches {
            for at in 0..batch.num_rows() {
                assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(at), id as i64);
                let expected = if id.is_multiple_of(7) { "a\nb, \"c\"".to_string() } else { format!("text {id}") };
                assert_eq!(batch.column(1).as_string::<i32>().value(at), expected);
                id += 1;
            }
        }
        assert_eq!(id, rows);
        let (schema, encoded) = read(&text, &encoding("text")).unwrap();
        assert_eq!(schema.field(1).data_type(), &Dictionary(Box::new(Int32), Box::new(Utf8)));
        assert_eq!(encoded.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
        // The line counts those of quoted fields, in whichever chunk it is.
        let broken = text.replacen("299998,text 299998,899994.5", "299998,text 299998", 1);
        let line = 1 + 299_998 + (0..299_998usize).filter(|i| i.is_multiple_of(7)).count() + 1;
        invalid(&broken, &[&format!("line {line}"), "got 2"]);
    }

    #[test]
    fn marks_line_ends_quotes_and_delimiters() {
        let expected = column(&["x", "é\"q\"\r\n", "z"], &options()).unwrap().1;
        for text in ["a\nx\n\"é\"\"q\"\"\r\n\"\nz", "\u{feff}\"a\"\r\nx\r\n\"é\"\"q\"\"\r\n\"\r\nz\r\n"] {
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
