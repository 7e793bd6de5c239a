//! Finds the fields of CSV records. Lines without a quote are split at their delimiters; records with quotes are parsed
//! by `csv-core`.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt::Display;
use std::ops::Range;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::options::CsvOptions;
use super::splitter::{ParserState, line_ends};
use crate::error::{Error, Result};
use crate::text::chunks::{BYTE_ORDER_MARK, Chunk};
use crate::text::scalar::shorten;

/// A text of whole records.
pub(super) struct CsvText<'a> {
    bytes: Cow<'a, [u8]>,
    options: &'a CsvOptions,
    /// The number of lines before the text.
    lines: usize,
    /// True if there is a quote anywhere.
    has_quotes: bool,
    /// True if the first record has the names of the columns.
    pub has_header: bool,
}

impl<'a> CsvText<'a> {
    pub(super) fn from_chunk(chunk: &'a Chunk, options: &'a CsvOptions) -> CsvText<'a> {
        let text = CsvText::after(chunk.lines, &chunk.bytes, options);
        CsvText { has_header: chunk.is_first && options.header, ..text }
    }

    /// Creates a text of whole records, which follows `lines` lines. Only the last record of all may lack a line break.
    pub(super) fn after(lines: usize, bytes: &'a [u8], options: &'a CsvOptions) -> CsvText<'a> {
        let mut bytes = bytes;
        if lines == 0 {
            while let Some(rest) = bytes.strip_prefix(BYTE_ORDER_MARK) {
                bytes = rest;
            }
        }
        let is_whole = matches!(bytes.last(), None | Some(b'\n' | b'\r'));
        let bytes = if is_whole { Cow::Borrowed(bytes) } else { Cow::Owned([bytes, b"\n"].concat()) };
        let has_quotes = options.quote.is_some_and(|quote| memchr::memchr(quote, &bytes).is_some());
        CsvText { bytes, options, lines, has_quotes, has_header: false }
    }

    /// Returns all records, including the header.
    pub(super) fn records(&self) -> CsvRecords<'_> {
        let valid = match std::str::from_utf8(&self.bytes) {
            Ok(text) => text,
            Err(_) => self.bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()),
        };
        let quote = self.options.quote.filter(|_| self.has_quotes);
        CsvRecords {
            text: self,
            valid,
            next: 0,
            start: 0,
            fields: Vec::new(),
            quoted: quote.map(|quote| QuotedParser::new(self.options.delimiter, quote)),
            has_quotes: false,
            last_located: Cell::new(FieldPosition { number: 0, start: 0 }),
            width: None,
            blank_lines: 0,
            is_blank: false,
            follows_blank_lines: false,
        }
    }

    /// Returns the names of the columns; `None` if there is no record.
    pub(super) fn header(&self) -> Result<Option<Vec<String>>> {
        let mut records = self.records();
        if !records.next()? {
            return Ok(None);
        }
        let width = records.fields.len();
        if !self.options.header {
            return Ok(Some(self.options.names(width)));
        }
        let mut names = HashSet::new();
        for i in 0..width {
            let name = records.field(i);
            check_name(i + 1, name, names.insert(name))?;
        }
        Ok(Some((0..width).map(|i| records.field(i).into()).collect()))
    }

    /// Returns the records after the header, if the text has one. They must have `width` fields.
    pub(super) fn rows(&self, width: usize) -> Result<CsvRecords<'_>> {
        let mut records = self.records();
        if self.has_header {
            records.next()?;
        }
        records.width = Some(width);
        Ok(records)
    }

    /// Returns the number of lines before the text and in it.
    pub(super) fn lines(&self) -> usize {
        self.line(self.bytes.len()) - 1
    }

    /// Returns the start of the first record at `position` or behind it.
    fn record_start(&self, position: usize) -> usize {
        position + self.bytes.iter().skip(position).take_while(|byte| b"\r\n".contains(byte)).count()
    }

    /// Counts the blank lines between the end of a record and the start of the next one.
    fn blank_lines(&self, end: usize, next: usize) -> usize {
        // The last record may end behind the text, with the line break that it lacks.
        let Some(mut breaks) = self.bytes.get(end..next) else { return 0 };
        // The line feed may be left of the record's own line break.
        if end > 0
            && self.bytes.get(end - 1) == Some(&b'\r')
            && let Some(rest) = breaks.strip_prefix(b"\n")
        {
            breaks = rest;
        }
        line_ends(breaks, None)
    }

    /// Returns the number of the line with the byte at `position`; the first line of all has number 1.
    fn line(&self, position: usize) -> usize {
        let before = self.bytes.get(..position).unwrap_or(&self.bytes);
        self.lines + 1 + line_ends(before, self.bytes.get(position).copied())
    }
}

fn check_name(number: usize, name: &str, is_new: bool) -> Result<()> {
    let fault = match (name, is_new) {
        ("", _) => "no name".to_string(),
        (_, true) => return Ok(()),
        (_, false) => format!("`{}` again", shorten(name)),
    };
    Err(Error::invalid(format!(
        "reading CSV: expected a header with a name of its own for each column, got {fault} for column {number}; \
         correct the header"
    )))
}

/// Iterates over the records of a text. One of them is the current record, which has fields.
pub(super) struct CsvRecords<'a> {
    text: &'a CsvText<'a>,
    /// The text up to the first invalid UTF-8.
    valid: &'a str,
    /// The end of the current record.
    next: usize,
    /// The start of the current record.
    start: usize,
    /// The ranges of the fields, in `valid` or in the unquoted record.
    pub fields: Vec<Range<usize>>,
    quoted: Option<QuotedParser>,
    /// True if the current record has quotes.
    has_quotes: bool,
    /// The field of the current record that [`is_quoted`](CsvRecords::is_quoted) located last.
    last_located: Cell<FieldPosition>,
    /// The number of fields that records must have.
    pub width: Option<usize>,
    /// The number of blank lines before the record that was read, each of which is a record of one field.
    blank_lines: usize,
    /// True if the current record is a blank line.
    is_blank: bool,
    /// True if a record was read that follows the blank lines.
    follows_blank_lines: bool,
}

/// The number of a field, and the position of its first byte.
#[derive(Clone, Copy)]
struct FieldPosition {
    number: usize,
    start: usize,
}

impl CsvRecords<'_> {
    /// Reads the next record. Returns false if there is none.
    pub(super) fn next(&mut self) -> Result<bool> {
        if self.blank_lines > 0 {
            self.blank_lines -= 1;
            self.is_blank = true;
            return Ok(true);
        }
        if self.is_blank {
            self.is_blank = false;
            return Ok(self.follows_blank_lines);
        }
        let end = self.next;
        self.start = self.text.record_start(end);
        self.follows_blank_lines = self.start < self.text.bytes.len();
        // In a text of one column, a blank line is a null, as an empty field is.
        if self.width == Some(1) {
            self.blank_lines = self.text.blank_lines(end, self.start);
        }
        if self.follows_blank_lines {
            self.read()?;
        }
        if self.blank_lines > 0 { self.next() } else { Ok(self.follows_blank_lines) }
    }

    /// Returns field number `number`.
    pub(super) fn field(&self, number: usize) -> &str {
        if self.is_blank {
            return "";
        }
        let text = match &self.quoted {
            Some(quoted) if self.has_quotes => &quoted.text,
            _ => self.valid,
        };
        &text[self.fields[number].clone()]
    }

    /// Returns true if field number `number` begins with a quote. Calls in the order of fields continue from the last
    /// one.
    pub(super) fn is_quoted(&self, number: usize) -> bool {
        if self.is_blank || !self.has_quotes || number >= self.fields.len() {
            return false;
        }
        let delimiter = self.text.options.delimiter;
        let quote = self.text.options.quote;
        let mut field = self.last_located.get();
        if field.number > number {
            field = FieldPosition { number: 0, start: self.start };
        }
        let mut state = ParserState::FieldStart;
        let mut position = field.start;
        while let Some(&byte) = self.text.bytes.get(position) {
            if field.number == number {
                self.last_located.set(FieldPosition { number, start: position });
                return Some(byte) == quote;
            }
            field.number += usize::from(byte == delimiter && state != ParserState::Quoted);
            state = state.next(byte, delimiter, quote);
            position += 1;
        }
        false
    }

    /// Finds the fields of the record at `start`.
    fn read(&mut self) -> Result<()> {
        let rest = &self.text.bytes[self.start..];
        let line = memchr::memchr2(b'\n', b'\r', rest).and_then(|end| rest.get(..end)).unwrap_or(rest);
        let quote = self.text.options.quote.filter(|_| self.text.has_quotes);
        self.has_quotes = quote.is_some_and(|quote| memchr::memchr(quote, line).is_some());
        self.fields.clear();
        self.last_located.set(FieldPosition { number: 0, start: self.start });
        let (end, is_open) = match &mut self.quoted {
            Some(quoted) if self.has_quotes => {
                let (len, is_open) = quoted.read(rest, &mut self.fields);
                self.next = self.start + len;
                (self.next, is_open)
            }
            _ => {
                let end = self.start + line.len();
                self.next = end + 1;
                split(self.start, line, self.text.options.delimiter, &mut self.fields);
                (end, false)
            }
        };
        if end > self.valid.len() {
            let line = self.text.line(self.start);
            let message = "expected UTF-8, got other bytes; save the file as UTF-8";
            return Err(Error::invalid(format!("reading CSV, line {line}: {message}")));
        }
        if is_open {
            return Err(self.error("expected a closing quote, got the end of the text; add it"));
        }
        if let Some(quote) = quote
            && self.has_quotes
            && has_text_behind_quote(&rest[..end - self.start], self.text.options.delimiter, quote)
        {
            let message = "expected a delimiter or the end of the line behind a closing quote, got text; write quotes \
                           that belong to a text twice";
            return Err(self.error(message));
        }
        self.check_width()
    }

    fn check_width(&mut self) -> Result<()> {
        let got = self.fields.len();
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

    pub(super) fn error(&self, message: impl Display) -> Error {
        Error::invalid(format!("reading CSV, line {}: {message}", self.text.line(self.start)))
    }
}

/// Returns true if text follows the closing quote of a field. Then quotes are missing, or were not doubled, and the
/// fields are not what was meant.
fn has_text_behind_quote(record: &[u8], delimiter: u8, quote: u8) -> bool {
    let mut rest = record;
    loop {
        let end = if rest.first() == Some(&quote) {
            let closing = closing_quote(rest, quote);
            match rest.get(closing + 1) {
                Some(&byte) if byte == delimiter => closing + 1,
                None | Some(b'\n' | b'\r') => return false,
                Some(_) => return true,
            }
        } else {
            match memchr::memchr3(delimiter, b'\n', b'\r', rest) {
                Some(end) if rest[end] == delimiter => end,
                _ => return false,
            }
        };
        rest = &rest[end + 1..];
    }
}

/// Returns the position of the quote that closes a field, which begins with one; the length if there is none.
fn closing_quote(field: &[u8], quote: u8) -> usize {
    let mut start = 1;
    while let Some(offset) = field.get(start..).and_then(|rest| memchr::memchr(quote, rest)) {
        let position = start + offset;
        if field.get(position + 1) != Some(&quote) {
            return position;
        }
        start = position + 2;
    }
    field.len()
}

/// Adds the fields of the line at `start`.
fn split(start: usize, line: &[u8], delimiter: u8, fields: &mut Vec<Range<usize>>) {
    let mut field_start = start;
    for offset in memchr::memchr_iter(delimiter, line) {
        fields.push(field_start..start + offset);
        field_start = start + offset + 1;
    }
    fields.push(field_start..start + line.len());
}

/// Parses records with quotes.
struct QuotedParser {
    parser: Reader,
    /// The fields of the last record, one after the other.
    text: String,
    /// Room for the parser's output.
    output: Vec<u8>,
    /// Room for the ends of the fields in the output.
    ends: Vec<usize>,
}

impl QuotedParser {
    fn new(delimiter: u8, quote: u8) -> QuotedParser {
        /// The room for a record at first; both lengths double until it fits.
        const INITIAL_BYTES: usize = 256;
        const INITIAL_FIELDS: usize = 16;
        let mut parser = ReaderBuilder::new().delimiter(delimiter).quote(quote).build();
        // The parser skips a byte order mark in its first record. It must not do so here, as it gets parts of a text.
        parser.read_record(b"\n", &mut [0], &mut [0]);
        QuotedParser { parser, text: String::new(), output: vec![0; INITIAL_BYTES], ends: vec![0; INITIAL_FIELDS] }
    }

    /// Adds the ranges in `text` of the fields of the first record of `bytes`. Returns the length of the record with
    /// its line break, and true if a quote is left open.
    fn read(&mut self, bytes: &[u8], fields: &mut Vec<Range<usize>>) -> (usize, bool) {
        let mut read = 0;
        let mut written = 0;
        let mut num_ends = 0;
        let is_open = loop {
            let input = &bytes[read..];
            if input.is_empty() {
                break true;
            }
            let (result, new_read, new_written, new_ends) =
                self.parser.read_record(input, &mut self.output[written..], &mut self.ends[num_ends..]);
            read += new_read;
            written += new_written;
            num_ends += new_ends;
            match result {
                ReadRecordResult::Record => break false,
                ReadRecordResult::OutputFull => self.output.resize(2 * self.output.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => break true,
            }
        };
        self.text.clear();
        // Invalid UTF-8 is an error of the record, so its fields are not read.
        if let Ok(text) = std::str::from_utf8(&self.output[..written]) {
            self.text.push_str(text);
        }
        let mut start = 0;
        for &end in &self.ends[..num_ends] {
            fields.push(start..end);
            start = end;
        }
        (read, is_open)
    }
}
