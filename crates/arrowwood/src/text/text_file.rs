//! Opens texts in files, compressed or not.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// A text in a file, decompressed if it is gzip or zstd; it may be read several times.
#[derive(Clone, Debug)]
pub struct TextFile {
    path: PathBuf,
    len: u64,
    bytes_read: Arc<AtomicU64>,
}

impl TextFile {
    /// Returns the text in the file at `path`, without opening the file.
    ///
    /// # Errors
    /// `NotFound`, `Io`.
    pub fn new(path: impl AsRef<Path>) -> Result<TextFile> {
        let path = path.as_ref().to_path_buf();
        let metadata = std::fs::metadata(&path).map_err(|e| Error::io("opening the text", &e).at(&path))?;
        Ok(TextFile { path, len: metadata.len(), bytes_read: Arc::default() })
    }

    /// Opens the file, and reads the text from its beginning.
    ///
    /// # Errors
    /// `Io`; `Unsupported` for compressed text where the feature `compression` is missing.
    pub fn open(&self) -> Result<Box<dyn Read + Send>> {
        let file = File::open(&self.path).map_err(|e| Error::io("opening the text", &e).at(&self.path))?;
        let reader = CountingReader { file, bytes_read: self.bytes_read.clone() };
        decompress_reader(reader).map_err(|e| e.at(&self.path))
    }

    /// Returns the size of the file in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of bytes of the file that were read so far, over all passes.
    pub fn bytes_read(&self) -> u64 {
        // Relaxed, as the number only shows progress.
        self.bytes_read.load(Ordering::Relaxed)
    }
}

/// A reader of a file that counts the bytes.
struct CountingReader {
    file: File,
    bytes_read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read(buffer)?;
        self.bytes_read.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// The first bytes of a text compressed by gzip.
const GZIP: &[u8] = b"\x1f\x8b";
/// The first bytes of a text compressed by zstd.
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Returns the text of `input`, decompressed if it begins like gzip or zstd.
///
/// # Errors
/// `Io`; `Unsupported` for compressed text where the feature `compression` is missing.
pub fn decompress_reader<'a>(mut input: impl Read + Send + 'a) -> Result<Box<dyn Read + Send + 'a>> {
    let mut head = Vec::new();
    input.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head).map_err(|e| Error::io("reading text", &e))?;
    let is_gzip = head.starts_with(GZIP);
    let is_zstd = head == ZSTD;
    let input = io::Cursor::new(head).chain(input);
    if is_gzip || is_zstd {
        return decoder(BufReader::new(input), is_gzip).map_err(|e| Error::io("reading text", &e));
    }
    Ok(Box::new(input))
}

#[cfg(feature = "compression")]
fn decoder<'a>(input: impl io::BufRead + Send + 'a, is_gzip: bool) -> io::Result<Box<dyn Read + Send + 'a>> {
    if is_gzip {
        return Ok(Box::new(flate2::bufread::MultiGzDecoder::new(input)));
    }
    Ok(Box::new(zstd::stream::read::Decoder::with_buffer(input)?))
}

#[cfg(not(feature = "compression"))]
fn decoder<'a>(_: impl io::BufRead + Send + 'a, is_gzip: bool) -> io::Result<Box<dyn Read + Send + 'a>> {
    let codec = if is_gzip { "gzip" } else { "zstd" };
    let message = format!("the text is compressed with {codec}, and this build has no codecs (feature `compression`)");
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

#[cfg(feature = "compression")]
#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn text_of(bytes: &[u8]) -> Result<String> {
        let mut text = String::new();
        decompress_reader(bytes)?.read_to_string(&mut text).map_err(|e| Error::io("reading", &e))?;
        Ok(text)
    }

    #[test]
    fn texts_are_decompressed_by_their_first_bytes() {
        for text in ["", "a", "a,b\n1,2\n", &"x".repeat(1 << 20)] {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(text.as_bytes()).unwrap();
            let gzip = gzip.finish().unwrap();
            let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
            assert_eq!(text_of(text.as_bytes()).unwrap(), text);
            // Several members or frames form one text.
            for packed in [&gzip, &zstd] {
                assert_eq!(text_of(packed).unwrap(), text);
                assert_eq!(text_of(&[&packed[..], &packed[..]].concat()).unwrap(), text.repeat(2));
                assert!(text_of(&packed[..packed.len() - 1]).is_err());
            }
        }
    }
}
