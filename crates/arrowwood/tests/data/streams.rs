//! Tests of reading and writing streams through sinks and sources of all kinds, with peers that are slow, broken or
//! hostile.

use std::io::{self, Cursor, Read, Write};
use std::sync::mpsc;
use std::thread;

use arrowwood::{Bytes, Compression, Dataset, ErrorKind, GrowableBuffer, OpenOptions, StreamWriter, open, read_stream};
use proptest::prelude::*;

use crate::columns::{batch, rows};

/// The number of columns of [`batch`].
const COLUMNS: usize = 15;

/// Returns a dataset of one batch for each list of seeds.
fn datasets(batches: &[Vec<u8>]) -> Vec<Dataset> {
    batches.iter().map(|seeds| Dataset::try_from(vec![batch(seeds)]).unwrap()).collect()
}

/// Returns the rows of all parts.
fn all_rows(parts: &[Dataset]) -> Vec<String> {
    rows(&Dataset::concat(parts).unwrap())
}

/// Writes a stream with a batch for each part; returns the sink.
fn send<W: Write>(parts: &[Dataset], sink: W, compression: Option<Compression>) -> W {
    let mut writer = StreamWriter::new(sink, parts[0].schema().clone(), compression).unwrap();
    for part in parts {
        writer.write(part).unwrap();
    }
    assert_eq!(writer.batches(), parts.len());
    writer.finish().unwrap()
}

/// Asserts that a stream has the rows of `parts`, read batch by batch and read as one batch.
fn assert_stream_has<R: Read>(open_stream: impl Fn() -> R, parts: &[Dataset]) {
    let batches = read_stream(open_stream()).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(batches.len(), parts.len());
    let by_batch = Dataset::from_batches(parts[0].schema().clone(), batches).unwrap();
    assert_eq!(rows(&by_batch), all_rows(parts));
    let at_once = read_stream(open_stream()).unwrap().read_all().unwrap();
    at_once.validate(|_, _| ()).unwrap();
    assert_eq!((rows(&at_once), at_once.num_batches().unwrap()), (all_rows(parts), 1));
}

/// A source that returns a few bytes at a time, and is sometimes interrupted.
struct SlowSource<R> {
    inner: R,
    calls: usize,
}

impl<R: Read> Read for SlowSource<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = buffer.len().min(1 + self.calls % 7);
        self.inner.read(&mut buffer[..len])
    }
}

/// A sink that accepts a few bytes at a time, and is sometimes interrupted.
#[derive(Default)]
struct SlowSink {
    bytes: Vec<u8>,
    calls: usize,
}

impl Write for SlowSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(4) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let len = bytes.len().min(1 + self.calls % 11);
        self.bytes.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn sent_rows_are_received(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..6),
        is_selected in prop::collection::vec(any::<bool>(), COLUMNS),
        codec in prop::option::of(prop::bool::ANY),
    ) {
        let codec = codec.map(|is_lz4| if is_lz4 { Compression::Lz4 } else { Compression::Zstd });
        let all_columns = datasets(&batches);
        // Once random columns, and once only numbers, which are read directly into the result.
        let random: Vec<String> = (0..COLUMNS).filter(|&i| is_selected[i]).map(|i| i.to_string()).collect();
        let numbers = ["11", "12", "13"].map(String::from);
        for names in [&random[..], &numbers] {
            let parts: Vec<Dataset> = all_columns.iter().map(|part| part.select(names).unwrap()).collect();
            let stream = send(&parts, GrowableBuffer::new(), codec);
            prop_assert_eq!(&stream[..], &send(&parts, SlowSink::default(), codec).bytes[..]);
            let opened = OpenOptions::new().bytes(Bytes::from(stream[..].to_vec())).unwrap();
            prop_assert_eq!(rows(&opened), all_rows(&parts));
            assert_stream_has(|| &stream[..], &parts);
            assert_stream_has(|| SlowSource { inner: &stream[..], calls: 0 }, &parts);
        }

        let (source, mut sink) = io::pipe().unwrap();
        let sender = thread::spawn({
            let parts = all_columns.clone();
            move || { send(&parts, &mut sink, codec); }
        });
        let received = read_stream(source).unwrap().read_all().unwrap();
        sender.join().unwrap();
        prop_assert_eq!(rows(&received), all_rows(&all_columns));
    }

    #[test]
    fn truncated_streams_are_errors_after_their_complete_batches(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..5),
        end in any::<prop::sample::Index>(),
    ) {
        let parts = datasets(&batches);
        let complete = send(&parts, GrowableBuffer::new(), None);
        let truncated = &complete[..end.index(complete.len())];
        let Ok(stream) = read_stream(truncated) else { return Ok(()) };
        let mut received = Vec::new();
        for batch in stream {
            match batch {
                Ok(batch) => received.push(batch),
                Err(e) => {
                    prop_assert_eq!(e.kind(), ErrorKind::InvalidData);
                    prop_assert!(read_stream(truncated).unwrap().read_all().is_err());
                }
            }
        }
        let received = rows(&Dataset::from_batches(parts[0].schema().clone(), received).unwrap());
        let sent = all_rows(&parts);
        prop_assert_eq!(&received[..], &sent[..received.len()]);
    }

    /// A damaged stream is an error or has rows, and needs no more memory than its bytes.
    #[test]
    fn damaged_streams_are_errors_or_valid(
        seeds in prop::collection::vec(any::<u8>(), 1..40),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        is_selected in prop::bool::ANY,
    ) {
        let mut parts = datasets(&[seeds.clone(), seeds]);
        if is_selected {
            parts = parts.iter().map(|part| part.select(&["11", "12", "13", "0"]).unwrap()).collect();
        }
        let mut bytes = send(&parts, GrowableBuffer::new(), None).to_vec();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Ok(stream) = read_stream(&bytes[..]) && let Ok(received) = stream.read_all() {
            received.validate(|_, _| ()).unwrap();
            rows(&received);
        }
    }
}

#[test]
fn batches_are_received_before_the_stream_ends() {
    let parts = datasets(&[vec![1; 10], vec![2; 20]]);
    let (source, sink) = io::pipe().unwrap();
    let (sender, received) = mpsc::channel();
    thread::scope(|scope| {
        // A pipe of Windows has no room for a batch, so another thread writes.
        scope.spawn(|| {
            let received = received;
            let mut writer = StreamWriter::new(sink, parts[0].schema().clone(), None).unwrap();
            for part in &parts {
                writer.write(part).unwrap();
                received.recv().unwrap();
            }
            writer.finish().unwrap();
        });
        let sender = sender;
        let mut stream = read_stream(source).unwrap();
        for part in &parts {
            assert_eq!(stream.next().unwrap().unwrap().num_rows() as u64, part.len().unwrap());
            sender.send(()).unwrap();
        }
        assert!(stream.next().is_none());
    });
}

#[test]
fn writing_to_a_closed_peer_fails_each_time() {
    let parts = datasets(&[vec![1; 10]]);
    let (source, sink) = io::pipe().unwrap();
    let mut writer = StreamWriter::new(sink, parts[0].schema().clone(), None).unwrap();
    drop(source);
    for _ in 0..2 {
        assert_eq!(writer.write(&parts[0]).unwrap_err().kind(), ErrorKind::Io);
    }
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn write_rejects_another_schema_and_the_stream_stays_usable() {
    let parts = datasets(&[vec![1; 10]]);
    let mut writer = StreamWriter::new(Vec::new(), parts[0].schema().clone(), None).unwrap();
    let other_schema = parts[0].select(&["1"]).unwrap();
    assert_eq!(writer.write(&other_schema).unwrap_err().kind(), ErrorKind::SchemaMismatch);
    writer.write(&parts[0]).unwrap();
    let bytes = writer.finish().unwrap();
    assert_stream_has(|| Cursor::new(bytes.clone()), &parts);
}

#[test]
fn streams_are_written_to_files() {
    let parts = datasets(&[vec![1; 10], vec![7; 9]]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.arrows");
    send(&parts, std::fs::File::create(&path).unwrap(), None);
    assert_eq!(rows(&open(&path).unwrap()), all_rows(&parts));
    assert_stream_has(|| std::fs::File::open(&path).unwrap(), &parts);
}

#[test]
fn a_full_disk_is_an_io_error() {
    let parts = datasets(&[vec![1; 10]]);
    // Not every system has /dev/full.
    if let Ok(full) = std::fs::File::options().write(true).open("/dev/full") {
        let error = StreamWriter::new(full, parts[0].schema().clone(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
    }
}
