//! Streams through every kind of sink and source, and peers that are slow, broken or lie.

use std::io::{self, Cursor, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use arrowwood::{Bytes, Compression, Dataset, ErrorKind, GrowableBuffer, OpenOptions, StreamWriter, open, read_stream};
use proptest::prelude::*;

use crate::columns::{batch, rows};

fn datasets(batches: &[Vec<u8>]) -> Vec<Dataset> {
    batches.iter().map(|seeds| Dataset::try_from(vec![batch(seeds)]).unwrap()).collect()
}

fn whole(parts: &[Dataset]) -> Dataset {
    Dataset::concat(parts).unwrap()
}

fn sent<W: Write>(parts: &[Dataset], sink: W, compression: Option<Compression>) -> W {
    let mut writer = StreamWriter::new(sink, parts[0].schema().clone(), compression).unwrap();
    parts.iter().for_each(|part| writer.write(part).unwrap());
    assert_eq!(writer.batches(), parts.len());
    writer.finish().unwrap()
}

/// All batches, and all as one, of a stream that is read twice.
fn check<R: Read>(make: impl Fn() -> R, parts: &[Dataset]) {
    let batches = read_stream(make()).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(batches.len(), parts.len());
    let read = Dataset::from_batches(parts[0].schema().clone(), batches).unwrap();
    assert_eq!(rows(&read), rows(&whole(parts)));
    let one = read_stream(make()).unwrap().read_all().unwrap();
    one.validate(|_, _| ()).unwrap();
    assert_eq!((rows(&one), one.num_batches().unwrap()), (rows(&whole(parts)), 1));
}

/// Hands out a few bytes at a time, and is interrupted now and then.
struct Slow<R> {
    inner: R,
    count: usize,
}

impl<R: Read> Read for Slow<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.count += 1;
        if self.count.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = into.len().min(1 + self.count % 7);
        self.inner.read(&mut into[..most])
    }
}

/// Takes a few bytes at a time.
struct Narrow(Vec<u8>, usize);

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(4) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = bytes.len().min(1 + self.1 % 11);
        self.0.extend_from_slice(&bytes[..most]);
        Ok(most)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_sent_is_what_comes(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..6),
        wanted in prop::collection::vec(any::<bool>(), 15),
        codec in prop::option::of(prop::bool::ANY),
    ) {
        let codec = codec.map(|lz4| if lz4 { Compression::Lz4 } else { Compression::Zstd });
        let parts = datasets(&batches);
        // All columns, and those that were drawn: some streams have only what comes straight to its place.
        let names: Vec<String> = (0..15).filter(|&i| wanted[i]).map(|i| i.to_string()).collect();
        let numbers = ["11", "12", "13"].map(String::from);
        for names in [&names[..], &numbers] {
            let parts: Vec<Dataset> = parts.iter().map(|part| part.select(names).unwrap()).collect();
            let memory = sent(&parts, GrowableBuffer::new(), codec);
            prop_assert_eq!(&memory[..], &sent(&parts, Narrow(Vec::new(), 0), codec).0[..]);
            let opened = OpenOptions::new().bytes(Bytes::from(memory[..].to_vec())).unwrap();
            prop_assert_eq!(rows(&opened), rows(&whole(&parts)));
            check(|| &memory[..], &parts);
            check(|| Slow { inner: &memory[..], count: 0 }, &parts);
        }
        let (mut to, from) = UnixStream::pair().unwrap();
        let sender = thread::spawn({
            let parts = parts.clone();
            move || { sent(&parts, &mut to, codec); }
        });
        let one = read_stream(from).unwrap().read_all().unwrap();
        sender.join().unwrap();
        prop_assert_eq!(rows(&one), rows(&whole(&parts)));
    }

    #[test]
    fn a_stream_that_ends_early_is_an_error_and_its_batches_are_kept(
        batches in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..5),
        end in any::<prop::sample::Index>(),
    ) {
        let parts = datasets(&batches);
        let memory = sent(&parts, GrowableBuffer::new(), None);
        let cut = &memory[..end.index(memory.len())];
        let Ok(stream) = read_stream(cut) else { return Ok(()) };
        let mut kept = Vec::new();
        for next in stream {
            match next {
                Ok(batch) => kept.push(batch),
                Err(e) => {
                    prop_assert_eq!(e.kind(), ErrorKind::InvalidData);
                    prop_assert!(read_stream(cut).unwrap().read_all().is_err());
                }
            }
        }
        let read = Dataset::from_batches(parts[0].schema().clone(), kept).unwrap();
        let all = rows(&whole(&parts));
        let read = rows(&read);
        prop_assert_eq!(&read[..], &all[..read.len()]);
    }

    /// A peer may say anything: an error or rows, and no more memory than it has sent.
    #[test]
    fn a_peer_that_lies_costs_nothing(
        seeds in prop::collection::vec(any::<u8>(), 1..40),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        select in prop::bool::ANY,
    ) {
        let mut parts = datasets(&[seeds.clone(), seeds]);
        if select {
            parts = parts.iter().map(|part| part.select(&["11", "12", "13", "0"]).unwrap()).collect();
        }
        let mut bytes = sent(&parts, GrowableBuffer::new(), None).to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(stream) = read_stream(&bytes[..]) && let Ok(one) = stream.read_all() {
            one.validate(|_, _| ()).unwrap();
            rows(&one);
        }
    }
}

#[test]
fn batches_come_while_the_stream_goes_on() {
    let parts = datasets(&[vec![1; 10], vec![2; 20]]);
    let (to, from) = UnixStream::pair().unwrap();
    let mut writer = StreamWriter::new(to, parts[0].schema().clone(), None).unwrap();
    let mut stream = read_stream(from).unwrap();
    for part in &parts {
        writer.write(part).unwrap();
        assert_eq!(stream.next().unwrap().unwrap().num_rows() as u64, part.len().unwrap());
    }
    writer.finish().unwrap();
    assert!(stream.next().is_none());
}

#[test]
fn a_peer_that_is_gone_is_an_error_and_stays_one() {
    let parts = datasets(&[vec![1; 10]]);
    let (to, from) = UnixStream::pair().unwrap();
    let mut writer = StreamWriter::new(to, parts[0].schema().clone(), None).unwrap();
    drop(from);
    for _ in 0..2 {
        assert_eq!(writer.write(&parts[0]).unwrap_err().kind(), ErrorKind::Io);
    }
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn rows_of_another_schema_are_refused_and_the_stream_goes_on() {
    let parts = datasets(&[vec![1; 10]]);
    let mut writer = StreamWriter::new(Vec::new(), parts[0].schema().clone(), None).unwrap();
    let other = parts[0].select(&["1"]).unwrap();
    assert_eq!(writer.write(&other).unwrap_err().kind(), ErrorKind::SchemaMismatch);
    writer.write(&parts[0]).unwrap();
    let bytes = writer.finish().unwrap();
    check(|| Cursor::new(bytes.clone()), &parts);
}

#[test]
fn a_path_and_a_full_disk() {
    let parts = datasets(&[vec![1; 10], vec![7; 9]]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.arrows");
    sent(&parts, std::fs::File::create(&path).unwrap(), None);
    assert_eq!(rows(&open(&path).unwrap()), rows(&whole(&parts)));
    check(|| std::fs::File::open(&path).unwrap(), &parts);
    if let Ok(full) = std::fs::File::options().write(true).open("/dev/full") {
        let error = StreamWriter::new(full, parts[0].schema().clone(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
    }
}
