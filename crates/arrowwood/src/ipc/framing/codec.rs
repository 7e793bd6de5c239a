//! Reads and writes frames of lz4 and zstd. `codec_missing` replaces this module in builds without the feature
//! `compression`.

use std::io::{self, Read, Write};

use super::message::Compression;
use crate::error::Result;

/// The level of zstd: the fastest, as files are written once and their rows arrive in real time.
const ZSTD_LEVEL: i32 = 1;

/// Checks that the codec is available, which it always is here.
pub(super) fn expect(_codec: Compression) -> Result<()> {
    Ok(())
}

/// Fills `out` from a frame. If `is_whole`, the frame must hold exactly as many bytes; otherwise it may hold more.
pub(super) fn decompress(frame: &[u8], codec: Compression, out: &mut [u8], is_whole: bool) -> io::Result<()> {
    match codec {
        Compression::Zstd if is_whole => {
            let len = zstd::bulk::Decompressor::new()?.decompress_to_buffer(frame, out)?;
            if len == out.len() { Ok(()) } else { Err(io::Error::other(format!("only {len} came"))) }
        }
        Compression::Zstd => zstd::stream::read::Decoder::with_buffer(frame)?.read_exact(out),
        Compression::Lz4 => {
            let mut decoder = lz4_flex::frame::FrameDecoder::new(frame);
            decoder.read_exact(out)?;
            if is_whole && decoder.read(&mut [0])? > 0 { Err(io::Error::other("more came")) } else { Ok(()) }
        }
    }
}

/// Appends a frame of `plain` to `out`.
pub(super) fn compress(plain: &[u8], codec: Compression, out: &mut Vec<u8>) -> io::Result<()> {
    let out = FallibleWriter(out);
    match codec {
        Compression::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
            encoder.write_all(plain)?;
            encoder.finish()?;
            Ok(())
        }
        Compression::Zstd => zstd::stream::copy_encode(plain, out, ZSTD_LEVEL),
    }
}

/// Appends to a vector; fails, rather than aborts, if there is no memory for more.
struct FallibleWriter<'a>(&'a mut Vec<u8>);

impl Write for FallibleWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_reserve(bytes.len())?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
