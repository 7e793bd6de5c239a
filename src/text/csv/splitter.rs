//! The ends of CSV records, in text in blocks.

use super::options::CsvOptions;
use crate::text::chunks::RecordSplitter;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Finds the ends of records.
pub(super) struct CsvSplitter {
    delimiter: u8,
    quote: Option<u8>,
    place: ParserState,
}

impl CsvSplitter {
    pub(super) fn new(options: &CsvOptions) -> CsvSplitter {
        CsvSplitter { delimiter: options.delimiter, quote: options.quote, place: ParserState::Mark }
    }

    /// The first byte that can change the state, and its position.
    fn next_change<'a>(&self, rest: &'a [u8]) -> Option<(usize, &'a u8)> {
        let at = match (self.place, self.quote) {
            (ParserState::Quoted, Some(quote)) => memchr::memchr(quote, rest)?,
            (ParserState::Field, _) => memchr::memchr3(self.delimiter, b'\n', b'\r', rest)?,
            _ => 0,
        };
        rest.get(at).map(|byte| (at, byte))
    }
}

impl RecordSplitter for CsvSplitter {
    fn whole(&mut self, fresh: &[u8]) -> Option<usize> {
        use ParserState::*;
        let has_quotes = self.quote.is_some_and(|quote| fresh.contains(&quote));
        let mut end = None;
        let mut from = 0;
        // Without quotes, every line break ends a record, and the bytes after the last one determine the state.
        if !has_quotes && matches!(self.place, FieldStart | Field | Quote) {
            from = fresh.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
        }
        let mut i = from;
        while let Some((skipped, &byte)) = fresh.get(i..).and_then(|rest| self.next_change(rest)) {
            i += skipped;
            let place = self.place.next(byte, self.delimiter, self.quote);
            match (self.place, byte) {
                (Quoted, _) => {}
                (_, b'\n') => end = Some(i + 1),
                (Return, _) => end = Some(i),
                _ => {}
            }
            self.place = place;
            i += 1;
        }
        end
    }

    fn lines(&self, records: &[u8]) -> usize {
        line_ends(records, None)
    }
}

/// The parser state after the last byte of a block.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ParserState {
    /// Before the header, in byte order marks.
    Mark,
    FieldStart,
    Field,
    Quoted,
    /// After a quote in a quoted field: the field's end, or half of a doubled quote.
    Quote,
    /// After a carriage return; a line feed may follow.
    Return,
}

impl ParserState {
    /// The state after `byte`.
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

/// The number of line breaks in `text`, followed by `next`.
pub(super) fn line_ends(text: &[u8], next: Option<u8>) -> usize {
    if memchr::memchr(b'\r', text).is_none() {
        return memchr::memchr_iter(b'\n', text).count();
    }
    let after = |i: usize| text.get(i + 1).copied().or(next);
    let ends_line = |&i: &usize| text[i] == b'\n' || (text[i] == b'\r' && after(i) != Some(b'\n'));
    (0..text.len()).filter(ends_line).count()
}
