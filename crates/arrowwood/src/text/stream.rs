//! Parses a text that arrives in blocks, and returns batches of rows when they are full or when input pauses.
//!
//! ```text
//! a source ── read by a thread ──▶ blocks of bytes ── cut behind whole records ──▶ StreamParser ──▶ batches
//! ```
//! A blocking read can't be interrupted. So the thread only reads, and the parser can wait with a timeout, and return
//! three rows before the fourth is typed.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::error::{Error, Result};

/// The maximum number of bytes per read.
const BLOCK: usize = 256 << 10;
/// The maximum number of blocks that wait to be parsed.
const MAX_WAITING_BLOCKS: usize = 4;

/// The maximum number of bytes of one record, whose end may never arrive.
pub(super) const MAX_RECORD: usize = 256 << 20;

/// A parser that finds and parses records.
pub(crate) trait StreamParser: Send {
    /// Returns the end of the last complete record in `block`, which follows the blocks of earlier calls; `None` if no
    /// record ends there.
    fn find_end(&mut self, block: &[u8]) -> Option<usize>;

    /// Parses whole records, and appends full batches to `ready`.
    fn parse(&mut self, records: Vec<u8>, ready: &mut VecDeque<RecordBatch>) -> Result<()>;

    /// Returns true if there are rows that are not yet in a batch.
    fn has_pending_rows(&self) -> bool;

    /// Returns the pending rows as a batch; `None` if there are none.
    fn take(&mut self) -> Result<Option<RecordBatch>>;

    /// Checks that the text may end here.
    fn end(&self) -> Result<()> {
        Ok(())
    }
}

/// An iterator over record batches of a text's rows, as they arrive: see [`stream_csv`](crate::stream_csv) and
/// [`stream_json`](crate::stream_json).
///
/// A separate thread reads the text. It ends with the text, or when more text arrives after this was dropped. A record
/// of more than 256 MiB is an error.
pub struct TextStream {
    schema: SchemaRef,
    parser: Box<dyn StreamParser>,
    /// The action that errors name.
    action: &'static str,
    /// Blocks of the reading thread, and an empty one at the end.
    blocks: Receiver<io::Result<Vec<u8>>>,
    /// How long the first pending row may wait for a full batch.
    patience: Duration,
    /// The beginning of an incomplete record.
    incomplete: Vec<u8>,
    /// Full batches that were not returned yet.
    ready: VecDeque<RecordBatch>,
    /// When the first pending row arrived.
    pending_since: Option<Instant>,
    has_ended: bool,
    /// The error that ended the stream, until it is returned.
    error: Option<Error>,
}

/// What the reading thread has sent.
enum InputEvent {
    Block(Vec<u8>),
    /// Nothing, while the first pending row has waited long enough.
    Pause,
    End,
}

impl TextStream {
    pub(crate) fn new(
        input: impl Read + Send + 'static,
        schema: SchemaRef,
        parser: Box<dyn StreamParser>,
        action: &'static str,
        patience: Duration,
    ) -> Result<TextStream> {
        let (sender, blocks) = sync_channel(MAX_WAITING_BLOCKS);
        let spawned = thread::Builder::new().name("arrowwood-read".into()).spawn(move || send_blocks(input, &sender));
        spawned.map_err(|e| Error::io("starting a thread", &e))?;
        Ok(TextStream {
            schema,
            parser,
            action,
            blocks,
            patience,
            incomplete: Vec::new(),
            ready: VecDeque::new(),
            pending_since: None,
            has_ended: false,
            error: None,
        })
    }

    /// Returns the schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Waits for input, and parses it.
    fn step(&mut self) -> Result<()> {
        match self.receive()? {
            InputEvent::Block(block) => return self.push(&block),
            InputEvent::Pause => {}
            InputEvent::End => {
                self.has_ended = true;
                let rest = std::mem::take(&mut self.incomplete);
                self.parser.parse(rest, &mut self.ready)?;
                self.parser.end()?;
            }
        }
        self.flush()
    }

    /// Waits for the next block. If there are pending rows, waits until the first of them has waited for `patience`.
    fn receive(&self) -> Result<InputEvent> {
        let received = match (self.blocks.try_recv(), self.pending_since) {
            (Ok(block), _) => Ok(block),
            (Err(TryRecvError::Disconnected), _) => Err(RecvTimeoutError::Disconnected),
            (Err(TryRecvError::Empty), None) => self.blocks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            (Err(TryRecvError::Empty), Some(since)) => {
                // Time may have run out already.
                self.blocks.recv_timeout(self.patience.saturating_sub(since.elapsed()))
            }
        };
        match received {
            Ok(Ok(block)) if block.is_empty() => Ok(InputEvent::End),
            Ok(Ok(block)) => Ok(InputEvent::Block(block)),
            Ok(Err(e)) => Err(read_error(self.action, &e)),
            Err(RecvTimeoutError::Timeout) => Ok(InputEvent::Pause),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::io(self.action, &io::Error::other("its reader panicked")))
            }
        }
    }

    fn push(&mut self, block: &[u8]) -> Result<()> {
        let Some(end) = self.parser.find_end(block) else {
            if self.incomplete.len() + block.len() > MAX_RECORD {
                let max = MAX_RECORD >> 20;
                let message = format!("{}: a record of more than {max} MiB; is its end missing?", self.action);
                self.incomplete = Vec::new();
                return Err(Error::invalid(message));
            }
            self.incomplete.extend_from_slice(block);
            return Ok(());
        };
        assert!(end <= block.len(), "a record ends at {end} of {} bytes", block.len());
        let (records, rest) = block.split_at(end);
        self.incomplete.extend_from_slice(records);
        let records = std::mem::replace(&mut self.incomplete, rest.to_vec());
        self.parser.parse(records, &mut self.ready)?;
        self.pending_since = match (self.parser.has_pending_rows(), self.pending_since) {
            (false, _) => None,
            (true, Some(since)) if self.ready.is_empty() => Some(since),
            (true, _) => Some(Instant::now()),
        };
        Ok(())
    }

    /// Moves pending rows to a batch.
    fn flush(&mut self) -> Result<()> {
        self.pending_since = None;
        self.ready.extend(self.parser.take()?);
        assert!(!self.parser.has_pending_rows(), "rows are left out of the last batch");
        Ok(())
    }
}

impl Iterator for TextStream {
    type Item = Result<RecordBatch>;

    /// Returns the next batch. An error is the last item, after the rows before it.
    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Some(Ok(batch));
            }
            if self.has_ended {
                return self.error.take().map(Err);
            }
            if let Err(e) = self.step() {
                self.has_ended = true;
                self.error = Some(e);
                // Pending rows are before the error. An error of their own would be a second one.
                let _ = self.flush();
            }
        }
    }
}

impl std::fmt::Debug for TextStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextStream")
            .field("schema", &self.schema)
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}

/// Converts an error of reading a text, which is in the text if a reader says so.
pub(crate) fn read_error(action: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData => Error::invalid(format!("{action}: {error}")),
        _ => Error::io(action, error),
    }
}

/// Sends blocks of `input`, and an empty one at its end, until the end, an error, or the receiver is dropped.
fn send_blocks(mut input: impl Read, sender: &SyncSender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; BLOCK];
    loop {
        let block = match input.read(&mut buffer) {
            Ok(len) => match buffer.get(..len) {
                Some(block) => Ok(block.to_vec()),
                None => Err(io::Error::other("a reader returned more bytes than it was given room for")),
            },
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => Err(e),
        };
        let is_last = block.as_ref().map_or(true, Vec::is_empty);
        if sender.send(block).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CsvOptions, Dataset, ErrorKind, JsonOptions, read_csv_from, stream_csv, stream_json};
    use arrow_schema::{DataType, Field, Schema};
    use proptest::prelude::*;
    use std::io::Write;
    use std::sync::Arc;

    const SOON: Duration = Duration::from_millis(30);
    const NEVER: Duration = Duration::from_secs(3600);

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)]))
    }

    fn csv(batch_rows: usize) -> CsvOptions {
        CsvOptions { schema: Some(schema()), batch_rows, ..CsvOptions::default() }
    }

    fn json(batch_rows: usize) -> JsonOptions {
        JsonOptions { schema: Some(schema()), batch_rows, ..JsonOptions::default() }
    }

    fn rows(batch: &RecordBatch) -> Vec<String> {
        let dataset = Dataset::try_from(vec![batch.clone()]).unwrap();
        let cells = |row: crate::Row<'_>| row.iter().map(|(_, value)| value.unwrap().to_string()).collect::<Vec<_>>();
        dataset.rows().map(|row| cells(row.unwrap()).join("|")).collect()
    }

    /// Returns all rows, and the error at the end if there is one.
    fn read_all(stream: TextStream) -> (Vec<String>, Option<Error>) {
        let mut result = Vec::new();
        let mut error = None;
        for batch in stream {
            assert!(error.is_none());
            match batch {
                Ok(batch) => result.extend(rows(&batch)),
                Err(e) => error = Some(e),
            }
        }
        (result, error)
    }

    /// A reader that returns pieces of `text` of the lengths in `cuts`, from the last, and then the rest.
    struct Pieces {
        text: Vec<u8>,
        cuts: Vec<usize>,
    }

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.cuts.pop().unwrap_or(usize::MAX).clamp(1, buffer.len()).min(self.text.len());
            let piece: Vec<u8> = self.text.drain(..len).collect();
            buffer[..len].copy_from_slice(&piece);
            Ok(len)
        }
    }

    #[test]
    fn records_without_an_end_are_errors() {
        let endless = |head: &'static [u8]| head.chain(std::io::repeat(b'x'));
        let csv = stream_csv(endless(b"a,b\n1,two\n2,\""), &csv(10), NEVER).unwrap();
        let json = stream_json(endless(b"{\"a\": 1, \"b\": \"two\"}\n{\"b\": \""), &json(10), NEVER).unwrap();
        for mut incoming in [csv, json] {
            // Rows before the endless one are returned first.
            assert_eq!(rows(&incoming.next().unwrap().unwrap()), ["1|two"]);
            let error = incoming.next().unwrap().unwrap_err();
            assert!(error.kind() == ErrorKind::InvalidData && error.to_string().contains("256 MiB"), "{error}");
            assert!(incoming.next().is_none());
        }
    }

    #[test]
    fn pending_rows_are_returned_when_the_source_pauses() {
        for is_csv in [true, false] {
            let (input, mut output) = io::pipe().unwrap();
            let mut incoming = if is_csv {
                stream_csv(input, &csv(1000), SOON).unwrap()
            } else {
                stream_json(input, &json(1000), SOON).unwrap()
            };
            let line = |a: i64, b: &str| {
                if is_csv { format!("{a},{b}\n") } else { format!("{{\"a\": {a}, \"b\": \"{b}\"}}\n") }
            };
            let mut next = || rows(&incoming.next().unwrap().unwrap());
            let header = if is_csv { "a,b\n" } else { "\n" };
            // The third line is incomplete.
            let third = line(3, "z");
            let (head, tail) = third.split_at(third.len() - 2);
            // One write, as rows that arrive later than `SOON` would be in another batch.
            let lines = format!("{header}{}{}{head}", line(1, "x"), line(2, "y"));
            output.write_all(lines.as_bytes()).unwrap();
            assert_eq!(next(), ["1|x", "2|y"]);
            write!(output, "{tail}").unwrap();
            assert_eq!(next(), ["3|z"]);
            write!(output, "{}", line(4, "end").trim_end()).unwrap();
            drop(output);
            assert_eq!(next(), ["4|end"]);
            assert!(incoming.next().is_none() && incoming.next().is_none());
        }
    }

    #[test]
    fn pending_rows_are_returned_while_more_arrive() {
        let (input, mut output) = io::pipe().unwrap();
        let mut incoming = stream_json(input, &json(usize::MAX), SOON).unwrap();
        let (stop, stopped) = sync_channel::<()>(0);
        let writer = thread::spawn(move || {
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                writeln!(output, "{{}}").unwrap();
                // The source's pace.
                thread::sleep(SOON / 10);
            }
        });
        assert!(incoming.next().unwrap().unwrap().num_rows() > 0);
        drop(stop);
        writer.join().unwrap();
    }

    #[test]
    fn full_batches_do_not_wait() {
        let (input, mut output) = io::pipe().unwrap();
        let mut incoming = stream_csv(input, &csv(2), NEVER).unwrap();
        output.write_all(b"b,a\nx,1\ny,2\nz,3\n").unwrap();
        assert_eq!(rows(&incoming.next().unwrap().unwrap()), ["1|x", "2|y"]);
        output.write_all(b"w,4\n").unwrap();
        assert_eq!(rows(&incoming.next().unwrap().unwrap()), ["3|z", "4|w"]);
    }

    #[test]
    fn rows_before_an_error_are_returned_first() {
        let text = "a,b\n1,x\n2,y\n\nz,3\n";
        for cuts in [vec![], vec![1; 100], vec![11]] {
            let pieces = Pieces { text: text.into(), cuts };
            let (rows, error) = read_all(stream_csv(pieces, &csv(100), NEVER).unwrap());
            let error = error.unwrap();
            assert!(error.message().contains("line 5") && error.message().contains("\"z\""), "{error}");
            assert_eq!(rows, ["1|x", "2|y"]);
        }
        // A lone carriage return ends a line, and may be the last byte of a block.
        for cuts in [vec![], vec![1; 100], vec![5], vec![4]] {
            let error = read_all(stream_csv(Pieces { text: "a,b\rz,1\r".into(), cuts }, &csv(1), NEVER).unwrap()).1;
            assert!(error.unwrap().message().contains("line 2"));
        }
        let text = "{\"b\": \"x\"}\n\n{\"b\": \"y\", \"a\": true}\n{}";
        for cuts in [vec![], vec![1; 100]] {
            let (rows, error) = read_all(stream_json(Pieces { text: text.into(), cuts }, &json(100), NEVER).unwrap());
            let error = error.unwrap();
            assert!(error.message().contains("line 3, column `a`"), "{error}");
            assert_eq!(rows, ["null|x"]);
        }
    }

    #[test]
    fn blank_lines_of_one_column_are_nulls_in_all_pieces() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
        for text in ["a\n1\n\n2\n", "a\n1\n\n2", "\na\r\n1\r\n\r\n2\r\n", "a\r1\r\r2\r", "a\n", "a"] {
            let options = CsvOptions { schema: Some(schema.clone()), batch_rows: 100, ..CsvOptions::default() };
            let expected =
                read_csv_from(text.as_bytes(), &options).unwrap().1.iter().flat_map(rows).collect::<Vec<_>>();
            assert_eq!(expected, if text.len() < 4 { &[][..] } else { &["1", "null", "2"] }, "{text:?}");
            for cuts in [vec![], vec![1; 20], vec![4, 3], vec![2; 9]] {
                let pieces = Pieces { text: text.into(), cuts };
                let (rows, error) = read_all(stream_csv(pieces, &options, NEVER).unwrap());
                assert!(error.is_none() && rows == expected, "{text:?}: {rows:?} {error:?}");
            }
        }
    }

    #[test]
    fn headers_must_match_the_schema() {
        let error =
            |text: &str| read_all(stream_csv(Pieces { text: text.into(), cuts: vec![] }, &csv(9), NEVER).unwrap()).1;
        for (text, kind, part) in [
            ("", ErrorKind::InvalidData, "header"),
            ("\n\n", ErrorKind::InvalidData, "header"),
            ("a\n", ErrorKind::ColumnNotFound, "`b`"),
            ("a,b,c\n1,2,3\n", ErrorKind::ColumnNotFound, "`c`"),
            ("a,b,a\n", ErrorKind::InvalidData, "`a` again"),
            ("a,b\n1\n", ErrorKind::InvalidData, "line 2"),
            ("a,b\n1,\"x\n", ErrorKind::InvalidData, "closing quote"),
            ("a,b\n1,\"x", ErrorKind::InvalidData, "line 2"),
        ] {
            let error = error(text).unwrap();
            assert!(error.kind() == kind && error.message().contains(part), "{text:?}: {error}");
        }
        assert!(error("\u{feff}\n\nb,a\n").is_none());
        for options in [CsvOptions::default(), CsvOptions { dictionary: vec!["b".into()], ..csv(1) }, csv(0)] {
            assert_eq!(stream_csv(io::empty(), &options, NEVER).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }

    #[test]
    fn a_source_that_fails_or_panics_is_an_error() {
        struct Failing(bool);
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                assert!(!self.0, "a panic that the test wants");
                Err(io::Error::other("unplugged"))
            }
        }
        for (panics, part) in [(false, "unplugged"), (true, "panicked")] {
            let input = io::Cursor::new("{}\n").chain(Failing(panics));
            let (rows, error) = read_all(stream_json(input, &json(9), NEVER).unwrap());
            let error = error.unwrap();
            assert!(error.kind() == ErrorKind::Io && error.message().contains(part), "{error}");
            assert_eq!(rows.len(), 1);
        }
    }

    proptest! {
        /// The rows are the same however a text is cut into blocks.
        #[test]
        fn rows_do_not_depend_on_pieces(
            records in prop::collection::vec("(1|2|3|4|5|6|7|8|9|z),(|x|\"\"|\"[x,\r\n]{0,4}(\"\")?\"|x\"y)(\n|\r\n|\r|\n\n)", 0..12),
            head in "(\u{feff})?(\n|\r)?\"?",
            cuts in prop::collection::vec(1usize..9, 0..60),
            batch_rows in 1usize..5,
        ) {
            let quote = if head.ends_with('"') { "\"" } else { "" };
            let text = format!("{head}a{quote},b\n{}", records.concat());
            let expected = read_csv_from(text.as_bytes(), &csv(100)).map(|(_, batches)| batches);
            let pieces = Pieces { text: text.into(), cuts };
            let (rows_got, error) = read_all(stream_csv(pieces, &csv(batch_rows), NEVER).unwrap());
            match expected {
                Ok(batches) => {
                    prop_assert!(error.is_none(), "{:?}", error);
                    prop_assert_eq!(rows_got, batches.iter().flat_map(rows).collect::<Vec<_>>());
                }
                Err(e) => prop_assert_eq!(e.message(), error.map_or(String::new(), |e| e.message().to_string())),
            }
        }
    }
}
