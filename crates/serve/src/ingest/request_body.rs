//! Receives and decompresses the bodies of requests within limits of size, time and memory.
//!
//! A body holds a share of the memory for rows from its first byte until its rows are committed. A client can't take
//! more than its share, whatever size it claims, nor keep it longer than it takes to send the body.

use std::io::{self, Read};

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::http::{Problem, Result, header};
use crate::ops::{Limits, Memory, blocking, share_bytes};

/// The size in bytes up to which a body is decompressed and parsed at once; larger ones take a thread for blocking
/// work.
pub(crate) const SMALL: usize = 64 << 10;

/// The number of bytes that are decompressed at once.
const BLOCK_BYTES: usize = 64 << 10;
/// The maximum window of a frame of zstd, as the exponent of a power of two: 8 MiB, the limit recommended by the
/// format.
const MAX_ZSTD_WINDOW_LOG: u32 = 23;

/// Returns true if rows with this share of memory are little work.
pub(crate) fn is_small(share: &OwnedSemaphorePermit) -> bool {
    share_bytes(share) <= SMALL
}

/// A body and its share of memory.
pub(crate) struct ReceivedBody {
    pub bytes: Vec<u8>,
    pub share: OwnedSemaphorePermit,
}

impl ReceivedBody {
    /// Grows the share to at least `bytes` in total.
    fn grow(&mut self, memory: &Memory, bytes: usize) -> Result<()> {
        let shared = share_bytes(&self.share);
        if bytes > shared {
            self.share.merge(memory.share(bytes - shared)?);
        }
        assert!(bytes <= share_bytes(&self.share), "a body of {bytes} bytes is larger than its share");
        Ok(())
    }
}

/// Receives a body, and decompresses it.
pub(crate) async fn receive(
    headers: &HeaderMap,
    body: Incoming,
    limits: &Limits,
    memory: &Memory,
) -> Result<ReceivedBody> {
    let encoding = ContentEncoding::from_headers(headers)?;
    let announced = body.size_hint().upper();
    if announced.is_some_and(|bytes| bytes > limits.body as u64) {
        return Err(too_large(limits));
    }
    // The announced size is taken at once, so that half-received bodies don't wait for each other.
    let share = memory.share(announced.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(SMALL))?;
    let received = collect(ReceivedBody { bytes: Vec::new(), share }, body, limits, memory).await?;
    if encoding == ContentEncoding::Plain {
        return Ok(received);
    }
    let limit = limits.body;
    let memory = memory.clone();
    let unpacked = blocking(move || unpack(received, encoding, limit, &memory)).await;
    unpacked.map_err(|_| Problem::internal("unpacking the body was given up"))?
}

fn too_large(limits: &Limits) -> Problem {
    Problem::too_large(format!("a body has at most {} bytes, also when it is unpacked; send several", limits.body))
}

async fn collect(
    mut received: ReceivedBody,
    mut body: Incoming,
    limits: &Limits,
    memory: &Memory,
) -> Result<ReceivedBody> {
    let start = Instant::now();
    loop {
        let Ok(frame) = timeout_at(limits.next_part_deadline(start), body.frame()).await else {
            let detail = format!("no part of the body came for {} seconds", limits.part.as_secs());
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail));
        };
        let Some(frame) = frame else { return Ok(received) };
        let frame = frame.map_err(|_| Problem::bad_request("the body broke off"))?;
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else { continue };
        let len = received.bytes.len() + data.len();
        if len > limits.body {
            return Err(too_large(limits));
        }
        received.grow(memory, len)?;
        received.bytes.extend_from_slice(&data);
    }
}

/// The compression of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentEncoding {
    Plain,
    Gzip,
    Zstd,
}

impl ContentEncoding {
    fn from_headers(headers: &HeaderMap) -> Result<ContentEncoding> {
        match header(headers, header::CONTENT_ENCODING.as_str())?.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "identity") => Ok(ContentEncoding::Plain),
            Some("gzip" | "x-gzip") => Ok(ContentEncoding::Gzip),
            Some("zstd") => Ok(ContentEncoding::Zstd),
            Some(_) => {
                let detail = "a body may be packed with gzip or zstd";
                Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail))
            }
        }
    }
}

/// Decompresses a body to at most `limit` bytes. Blocks.
fn unpack(packed: ReceivedBody, encoding: ContentEncoding, limit: usize, memory: &Memory) -> Result<ReceivedBody> {
    let ReceivedBody { bytes, share } = packed;
    let mut source: Box<dyn Read> = match encoding {
        ContentEncoding::Plain => Box::new(&bytes[..]),
        ContentEncoding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(&bytes[..])),
        ContentEncoding::Zstd => Box::new(zstd_decoder(&bytes).map_err(|e| unpacking_problem(&e))?),
    };
    // The compressed bytes keep their share until they are released.
    let mut unpacked = ReceivedBody { bytes: Vec::new(), share: memory.share(SMALL)? };
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let len = match source.read(&mut block) {
            Ok(0) => break,
            Ok(len) => len,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(unpacking_problem(&e)),
        };
        assert!(len <= block.len(), "a decoder has filled {len} bytes of a block of {}", block.len());
        let total = unpacked.bytes.len() + len;
        if total > limit {
            return Err(Problem::too_large(format!("the body is unpacked to more than {limit} bytes; send several")));
        }
        unpacked.grow(memory, total)?;
        unpacked.bytes.extend_from_slice(&block[..len]);
    }
    drop(share);
    Ok(unpacked)
}

fn unpacking_problem(e: &io::Error) -> Problem {
    Problem::bad_request(format!("unpacking the body: {e}"))
}

/// Creates a decoder that refuses frames with larger windows than [`MAX_ZSTD_WINDOW_LOG`].
fn zstd_decoder(bytes: &[u8]) -> io::Result<zstd::stream::read::Decoder<'static, io::BufReader<io::Cursor<Vec<u8>>>>> {
    let mut decoder = zstd::stream::read::Decoder::new(io::Cursor::new(bytes.to_vec()))?;
    decoder.window_log_max(MAX_ZSTD_WINDOW_LOG)?;
    Ok(decoder)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(bytes: Vec<u8>, memory: &Memory) -> ReceivedBody {
        let share = memory.share(bytes.len()).unwrap();
        ReceivedBody { bytes, share }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn decompression_bombs_are_refused() {
        let memory = Memory::new(64 << 20);
        let zeros = vec![0; 32 << 20];
        let bombs =
            [(ContentEncoding::Gzip, gzip(&zeros)), (ContentEncoding::Zstd, zstd::bulk::compress(&zeros, 3).unwrap())];
        for (encoding, bomb) in bombs {
            assert!(bomb.len() < 1 << 20);
            let whole = unpack(packed(bomb.clone(), &memory), encoding, 32 << 20, &memory).unwrap();
            assert_eq!(whole.bytes.len(), zeros.len());
            assert!(share_bytes(&whole.share) >= zeros.len());
            drop(whole);
            let refusal =
                unpack(packed(bomb.clone(), &memory), encoding, (32 << 20) - 1, &memory).map(drop).unwrap_err();
            assert_eq!(refusal.status(), StatusCode::PAYLOAD_TOO_LARGE);
            let little = Memory::new(8 << 20);
            let refusal = unpack(packed(bomb, &little), encoding, 32 << 20, &little).map(drop).unwrap_err();
            assert_eq!(refusal.status(), StatusCode::SERVICE_UNAVAILABLE);
            // Everything was released.
            assert!(little.share(8 << 20).is_ok() && memory.share(64 << 20).is_ok());
        }
    }

    #[test]
    fn bodies_in_another_encoding_are_refused() {
        let memory = Memory::new(1 << 20);
        for encoding in [ContentEncoding::Gzip, ContentEncoding::Zstd] {
            let cut = |bytes: Vec<u8>| bytes[..bytes.len() - 4].to_vec();
            let half = if encoding == ContentEncoding::Gzip {
                cut(gzip(b"text"))
            } else {
                cut(zstd::bulk::compress(b"text", 3).unwrap())
            };
            for bytes in [b"plain".to_vec(), half] {
                let refusal = unpack(packed(bytes, &memory), encoding, 1 << 20, &memory).map(drop).unwrap_err();
                assert_eq!(refusal.status(), StatusCode::BAD_REQUEST, "{encoding:?}");
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, "br".parse().unwrap());
        assert_eq!(ContentEncoding::from_headers(&headers).unwrap_err().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
}
