//! Records of CSV. Lines without a quote are split where their delimiters are; records with quotes are left to `csv-core`.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt::Display;
use std::ops::Range;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::options::CsvOptions;
use super::splitter::{BYTE_ORDER_MARK, ParserState, line_ends};
use crate::error::{Error, Result};
use crate::text::chunks::Chunk;
use crate::text::scalar::shorten;

/// Whole records.
pub(super) struct CsvText<'a> {
    bytes: Cow<'a, [u8]>,
    options: &'a CsvOptions,
    /// The number of lines before the text.
    lines: usize,
    has_quotes: bool,
    /// Whether the first record has the names of the columns.
    pub has_header: bool,
}

impl<'a> CsvText<'a> {
    pub(super) fn from_chunk(chunk: &'a Chunk, options: &'a CsvOptions) -> CsvText<'a> {
        let text = CsvText::after(chunk.lines, &chunk.bytes, options);
        CsvText { has_header: chunk.is_first && options.header, ..text }
    }

    /// Whole records; all but the very last end with a line break.
    pub(super) fn after(lines: usize, bytes: &'a [u8], options: &'a CsvOptions) -> CsvText<'a> {
        let marks = bytes.chunks(3).take_while(|&chunk| lines == 0 && chunk == BYTE_ORDER_MARK).count();
        let bytes = bytes.get(3 * marks..).unwrap_or_default();
        let is_whole = matches!(bytes.last(), None | Some(b'\n' | b'\r'));
        let bytes = if is_whole { Cow::Borrowed(bytes) } else { Cow::Owned([bytes, b"\n"].concat()) };
        let has_quotes = options.quote.is_some_and(|quote| memchr::memchr(quote, &bytes).is_some());
        CsvText { bytes, options, lines, has_quotes, has_header: false }
    }

    pub(super) fn records(&self) -> CsvRecords<'_> {
        let valid = match std::str::from_utf8(&self.bytes) {
            Ok(text) => text,
            Err(e) => std::str::from_utf8(self.bytes.get(..e.valid_up_to()).unwrap_or_default()).unwrap_or_default(),
        };
        CsvRecords {
            text: self,
            valid,
            next: 0,
            start: 0,
            fields: Vec::new(),
            quoted: self
                .options
                .quote
                .filter(|_| self.has_quotes)
                .map(|quote| Quoted::new(self.options.delimiter, quote)),
            has_quotes: false,
            asked: Cell::default(),
            width: None,
            blank: 0,
            is_blank: false,
            is_more: false,
        }
    }

    /// The names of the columns; `None` if there is no record.
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

    /// The records of `width` fields after the header, if there is one.
    pub(super) fn rows(&self, width: usize) -> Result<CsvRecords<'_>> {
        let mut records = self.records();
        if self.has_header {
            records.next()?;
        }
        records.width = Some(width);
        Ok(records)
    }

    /// The number of lines up to the text's end.
    pub(super) fn lines(&self) -> usize {
        self.line(self.bytes.len()) - 1
    }

    /// The start of the first record from `at` on.
    fn record_start(&self, at: usize) -> usize {
        at + self.bytes.iter().skip(at).take_while(|byte| b"\r\n".contains(byte)).count()
    }

    /// The number of lines without anything between the end of a record, at `at`, and the next record.
    fn blank_lines(&self, at: usize, next: usize) -> usize {
        let breaks = self.bytes.get(at..next).unwrap_or_default();
        // The line feed of the record's own line break may be left.
        let is_rest = at > 0 && self.bytes.get(at - 1) == Some(&b'\r') && breaks.first() == Some(&b'\n');
        let is_end = |&i: &usize| breaks[i] == b'\n' || breaks.get(i + 1) != Some(&b'\n');
        (usize::from(is_rest)..breaks.len()).filter(is_end).count()
    }

    /// The number of the line with the byte at `at`, from 1.
    fn line(&self, at: usize) -> usize {
        let before = self.bytes.get(..at).unwrap_or(&self.bytes);
        self.lines + 1 + line_ends(before, self.bytes.get(at).copied())
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

pub(super) struct CsvRecords<'a> {
    text: &'a CsvText<'a>,
    /// The text up to the first invalid UTF-8.
    valid: &'a str,
    /// The end of the present record.
    next: usize,
    start: usize,
    /// The ranges of the fields, in `valid` or in the unquoted record.
    pub fields: Vec<Range<usize>>,
    quoted: Option<Quoted>,
    /// Whether the present record has quotes.
    has_quotes: bool,
    /// Where a field of the present record begins of which was asked last whether it is quoted, its number and its first byte.
    asked: Cell<(usize, usize)>,
    pub width: Option<usize>,
    /// The number of blank lines before the record, each a record of one field.
    blank: usize,
    /// Whether the present record is one of them.
    is_blank: bool,
    /// Whether a record follows them.
    is_more: bool,
}

impl CsvRecords<'_> {
    /// Reads the next record; false if there is none.
    pub(super) fn next(&mut self) -> Result<bool> {
        if self.blank > 0 {
            self.blank -= 1;
            self.is_blank = true;
            return Ok(true);
        }
        if self.is_blank {
            self.is_blank = false;
            return Ok(self.is_more);
        }
        let at = self.next;
        self.start = self.text.record_start(at);
        self.is_more = self.start < self.text.bytes.len();
        // Of one column, nothing is a null as between delimiters.
        if self.width == Some(1) {
            self.blank = self.text.blank_lines(at, self.start);
        }
        if self.is_more {
            self.read()?;
        }
        if self.blank > 0 { self.next() } else { Ok(self.is_more) }
    }

    /// Field number `number`.
    pub(super) fn field(&self, number: usize) -> &str {
        let whole = match &self.quoted {
            _ if self.is_blank => "",
            Some(quoted) if self.has_quotes => &quoted.text,
            _ => self.valid,
        };
        self.fields.get(number).and_then(|range| whole.get(range.clone())).unwrap_or_default()
    }

    /// Whether field number `number` begins with a quote. Fields are asked for in their order: what is before the last one is
    /// not read again.
    pub(super) fn is_quoted(&self, number: usize) -> bool {
        if self.is_blank || !self.has_quotes || number >= self.fields.len() {
            return false;
        }
        let delimiter = self.text.options.delimiter;
        let quote = self.text.options.quote;
        let (mut field, mut at) = Some(self.asked.get()).filter(|asked| asked.0 <= number).unwrap_or((0, self.start));
        let mut place = ParserState::FieldStart;
        while let Some(&byte) = self.text.bytes.get(at) {
            if field == number {
                self.asked.set((field, at));
                return Some(byte) == quote;
            }
            let next = place.next(byte, delimiter, quote);
            field += usize::from(byte == delimiter && place != ParserState::Quoted);
            place = next;
            at += 1;
        }
        false
    }

    /// Finds the fields of the record at `start`.
    fn read(&mut self) -> Result<()> {
        let rest = self.text.bytes.get(self.start..).unwrap_or_default();
        let line = memchr::memchr2(b'\n', b'\r', rest).and_then(|end| rest.get(..end)).unwrap_or(rest);
        let quote = self.text.options.quote.filter(|_| self.text.has_quotes);
        self.has_quotes = quote.is_some_and(|quote| memchr::memchr(quote, line).is_some());
        self.fields.clear();
        self.asked.set((0, self.start));
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
            && goes_on_behind_quote(rest.get(..end - self.start).unwrap_or(rest), self.text.options.delimiter, quote)
        {
            let message = "expected a delimiter or the end of the line behind a closing quote, got text; write quotes that \
                           belong to a text twice";
            return Err(self.error(message));
        }
        self.check()
    }

    fn check(&mut self) -> Result<()> {
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

/// Whether text follows the closing quote of a field: quotes are missing, or were not doubled, and the fields are not what
/// was meant.
fn goes_on_behind_quote(record: &[u8], delimiter: u8, quote: u8) -> bool {
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
                Some(at) if rest.get(at) == Some(&delimiter) => at,
                _ => return false,
            }
        };
        rest = rest.get(end + 1..).unwrap_or_default();
    }
}

/// Where the quote is that closes the field that begins with one.
fn closing_quote(field: &[u8], quote: u8) -> usize {
    let mut from = 1;
    while let Some(at) = memchr::memchr(quote, field.get(from..).unwrap_or_default()) {
        let at = from + at;
        if field.get(at + 1) != Some(&quote) {
            return at;
        }
        from = at + 2;
    }
    field.len()
}

/// Adds the fields of the line at `start`.
fn split(start: usize, line: &[u8], delimiter: u8, fields: &mut Vec<Range<usize>>) {
    let mut from = start;
    for at in memchr::memchr_iter(delimiter, line) {
        fields.push(from..start + at);
        from = start + at + 1;
    }
    fields.push(from..start + line.len());
}

/// Parses records with quotes.
struct Quoted {
    parser: Reader,
    /// The fields of the last record, one after the other.
    text: String,
    output: Vec<u8>,
    ends: Vec<usize>,
}

impl Quoted {
    fn new(delimiter: u8, quote: u8) -> Quoted {
        let mut parser = ReaderBuilder::new().delimiter(delimiter).quote(quote).build();
        // A byte order mark counts only at the beginning of the text.
        parser.read_record(b"\n", &mut [0], &mut [0]);
        Quoted { parser, text: String::new(), output: vec![0; 256], ends: vec![0; 16] }
    }

    /// Adds the fields of the first record of `bytes`, as they are in `text`. Returns the record's length, with its line break,
    /// and whether a quote is left open.
    fn read(&mut self, bytes: &[u8], fields: &mut Vec<Range<usize>>) -> (usize, bool) {
        let (mut used, mut written, mut ended) = (0, 0, 0);
        let is_open = loop {
            let input = bytes.get(used..).filter(|input| !input.is_empty());
            let output = self.output.get_mut(written..).unwrap_or_default();
            let ends = self.ends.get_mut(ended..).unwrap_or_default();
            let Some(input) = input else { break true };
            let (result, read, more, fields) = self.parser.read_record(input, output, ends);
            used += read;
            written += more;
            ended += fields;
            match result {
                ReadRecordResult::Record => break false,
                ReadRecordResult::OutputFull => self.output.resize(2 * self.output.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => break true,
            }
        };
        self.text.clear();
        let output = self.output.get(..written).unwrap_or_default();
        // Invalid UTF-8 is not read: the text is an error.
        self.text.push_str(std::str::from_utf8(output).unwrap_or_default());
        let mut from = 0;
        for &end in self.ends.iter().take(ended) {
            fields.push(from..end);
            from = end;
        }
        (used, is_open)
    }
}
