//! Finds the ends of CSV records in a text that arrives in blocks.

use super::options::CsvOptions;
use crate::text::chunks::{BYTE_ORDER_MARK, RecordSplitter};

/// Finds the ends of records.
pub(super) struct CsvSplitter {
    delimiter: u8,
    quote: Option<u8>,
    /// The state after the last block.
    state: ParserState,
}

impl CsvSplitter {
    pub(super) fn new(options: &CsvOptions) -> CsvSplitter {
        CsvSplitter { delimiter: options.delimiter, quote: options.quote, state: ParserState::Mark }
    }

    /// Returns the position of the first byte that can change the state, and the byte.
    fn next_change<'a>(&self, rest: &'a [u8]) -> Option<(usize, &'a u8)> {
        let position = match (self.state, self.quote) {
            (ParserState::Quoted, Some(quote)) => memchr::memchr(quote, rest)?,
            (ParserState::Field, _) => memchr::memchr3(self.delimiter, b'\n', b'\r', rest)?,
            _ => 0,
        };
        rest.get(position).map(|byte| (position, byte))
    }
}

impl RecordSplitter for CsvSplitter {
    fn find_end(&mut self, block: &[u8]) -> Option<usize> {
        use ParserState::*;
        let has_quotes = self.quote.is_some_and(|quote| block.contains(&quote));
        let mut end = None;
        let mut position = 0;
        // Without quotes, every line break ends a record, and the bytes after the last one determine the state.
        if !has_quotes
            && matches!(self.state, FieldStart | Field | Quote)
            && let Some(last) = block.iter().rposition(|&byte| byte == b'\n')
        {
            position = last;
        }
        while let Some((skipped, &byte)) = block.get(position..).and_then(|rest| self.next_change(rest)) {
            position += skipped;
            match (self.state, byte) {
                (Quoted, _) => {}
                (_, b'\n') => end = Some(position + 1),
                (Return, _) => end = Some(position),
                _ => {}
            }
            self.state = self.state.next(byte, self.delimiter, self.quote);
            position += 1;
        }
        debug_assert!(end.is_none_or(|end| end <= block.len()), "a record ends behind its block");
        end
    }

    fn count_lines(&self, records: &[u8]) -> usize {
        line_ends(records, None)
    }
}

/// The parser state after the last byte of a block.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ParserState {
    /// Before the header, in byte order marks.
    Mark,
    /// Before the first byte of a field.
    FieldStart,
    /// In a field without quotes.
    Field,
    /// In a field, after its opening quote.
    Quoted,
    /// After a quote in a quoted field: the field's end, or half of a doubled quote.
    Quote,
    /// After a carriage return; a line feed may follow.
    Return,
}

impl ParserState {
    /// Returns the state after `byte`.
    pub(super) fn next(self, byte: u8, delimiter: u8, quote: Option<u8>) -> ParserState {
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

/// Counts the line breaks in `text`, which is followed by `next`.
pub(super) fn line_ends(text: &[u8], next: Option<u8>) -> usize {
    if memchr::memchr(b'\r', text).is_none() {
        return memchr::memchr_iter(b'\n', text).count();
    }
    let mut count = 0;
    for (position, &byte) in text.iter().enumerate() {
        let following = text.get(position + 1).copied().or(next);
        if byte == b'\n' || byte == b'\r' && following != Some(b'\n') {
            count += 1;
        }
    }
    count
}
