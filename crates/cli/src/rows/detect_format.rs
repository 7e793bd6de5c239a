//! Tells formats by their first bytes.

use std::io::{self, Read};

/// The format suggested by the first bytes of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DetectedFormat {
    File,
    Stream,
    Csv,
    Json,
    /// Compressed by gzip or zstd.
    Compressed,
}

/// The number of bytes that are read at once to detect a format.
const HEAD_BLOCK: usize = 4096;
/// The bytes with which some programs begin a text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads into `head` until the format is clear.
pub(super) fn detect_format(source: &mut impl Read, head: &mut Vec<u8>) -> io::Result<DetectedFormat> {
    let mut block = [0; HEAD_BLOCK];
    loop {
        let len = match source.read(&mut block) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            len => len?,
        };
        head.extend_from_slice(&block[..len]);
        if let Some(format) = classify_head(head, len == 0) {
            return Ok(format);
        }
    }
}

/// Returns the format of an input that begins with `head`, or `None` if more bytes are needed, which can't be if `head`
/// is the whole input.
fn classify_head(head: &[u8], is_all: bool) -> Option<DetectedFormat> {
    const ARROW: &[u8] = b"ARROW1";
    const GZIP: &[u8] = b"\x1f\x8b";
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
    /// The first byte of a message of a stream, which text never has.
    const CONTINUATION: u8 = 0xff;
    /// More white space than a text begins with.
    const MAX_SPACE: usize = 1 << 16;
    /// Without a line break, CSV has at least so many bytes before it is told from the start of anything else.
    const MIN_CSV: usize = 4;
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head).trim_ascii_start();
    match text.first() {
        _ if head.starts_with(ARROW) => Some(DetectedFormat::File),
        _ if [GZIP, ZSTD].iter().any(|magic| head.starts_with(magic)) => Some(DetectedFormat::Compressed),
        _ if !is_all && [ARROW, GZIP, ZSTD].iter().any(|magic| magic.starts_with(head)) => None,
        // Message lengths contain zeros, or are marked by bytes that text never has.
        _ if head.first() == Some(&CONTINUATION) || head.contains(&0) => Some(DetectedFormat::Stream),
        // An empty input has no rows, and text does not begin with pages of spaces.
        None if is_all || head.len() > MAX_SPACE => Some(DetectedFormat::Json),
        None => None,
        Some(b'{' | b'[') => Some(DetectedFormat::Json),
        Some(_) if is_all || head.len() >= MIN_CSV || head.contains(&b'\n') => Some(DetectedFormat::Csv),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classify_head_detects_formats() {
        for (head, expected) in [
            (&b"ARROW1\0\0"[..], DetectedFormat::File),
            (&b"\xff\xff\xff\xff\x10\x01"[..], DetectedFormat::Stream),
            (&b"\x50\x01\0\0"[..], DetectedFormat::Stream),
            (&b"\x1f\x8b\x08\x00"[..], DetectedFormat::Compressed),
            (&b"\x28\xb5\x2f\xfd\0"[..], DetectedFormat::Compressed),
            (&b"  \n{\"a\": 1}"[..], DetectedFormat::Json),
            (&b"\xef\xbb\xbf{"[..], DetectedFormat::Json),
            (&b"a\n"[..], DetectedFormat::Csv),
            (&b"ARROW,b\n"[..], DetectedFormat::Csv),
            (&b"ts,price\n"[..], DetectedFormat::Csv),
        ] {
            assert_eq!(classify_head(head, false), Some(expected), "{head:?}");
        }
        for (head, expected) in
            [(&b"ARRO"[..], DetectedFormat::Csv), (&b"a"[..], DetectedFormat::Csv), (&b"\n"[..], DetectedFormat::Json)]
        {
            assert_eq!(classify_head(head, false), None, "{head:?}");
            assert_eq!(classify_head(head, true), Some(expected), "{head:?}");
        }
    }
}
