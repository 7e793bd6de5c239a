//! Recognizes files of other formats, for errors with advice.

use crate::array::Bytes;
use crate::error::{Error, ErrorKind};
#[cfg(feature = "check")]
use crate::error::{Result, none_if_corrupt};
use crate::ipc::framing::{CONTINUATION, MAGIC};
#[cfg(feature = "check")]
use crate::ipc::framing::{MessageHeader, MessageKind, NextMessage, Window, find_message};

/// The number of bytes that are examined.
const HEAD: usize = 512;

/// The first bytes of files of other formats, what such a file is, and how to read it.
const SIGNATURES: &[(&[u8], &str, &str)] = &[
    (
        b"PAR1",
        "a Parquet file",
        "turn it into Arrow with `arrowwood import` of the Python package, or read it with aw.read_parquet",
    ),
    (b"FEA1", "a Feather V1 file", "read it with pyarrow.feather.read_table and write it as Arrow"),
    (b"\x1f\x8b", "a gzip-compressed file", "decompress it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd-compressed file", "decompress it first, or let Arrow compress its own buffers"),
    (b"\x04\x22\x4d\x18", "an lz4-compressed file", "decompress it first, or let Arrow compress its own buffers"),
    (b"BZh", "a bzip2-compressed file", "decompress it first"),
    (b"\xfd7zXZ", "an xz-compressed file", "decompress it first"),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"ORC", "an ORC file", "read it with pyarrow.orc and write it as Arrow"),
    (b"Obj\x01", "an Avro file", "convert it to Arrow first"),
    (b"\x89HDF", "an HDF5 file", "convert it to Arrow first"),
    (b"\x93NUMPY", "a NumPy array", "map it with numpy.load(path, mmap_mode='r')"),
    (b"SQLite format 3", "an SQLite database", "query it with sqlite3"),
];

/// Returns true if bytes begin or end like an Arrow file, so that either magic may be damaged.
///
/// # Errors
/// The errors of reading the bytes.
#[cfg(feature = "check")]
pub(crate) fn has_file_magic(bytes: &Bytes) -> Result<bool> {
    let Some(last) = bytes.len().checked_sub(MAGIC.len()) else { return Ok(false) };
    for offset in [0, last] {
        let mut magic = [0; MAGIC.len()];
        bytes.read_at(offset, &mut magic)?;
        if magic == *MAGIC {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if bytes have the magic of an Arrow file, or begin like a stream: with the message of a schema.
///
/// # Errors
/// The errors of reading the bytes.
#[cfg(feature = "check")]
pub(crate) fn has_arrow_signature(bytes: &Bytes) -> Result<bool> {
    if has_file_magic(bytes)? {
        return Ok(true);
    }
    let mut head = [0; size_of::<u32>()];
    if bytes.len() < head.len() {
        return Ok(false);
    }
    bytes.read_at(0, &mut head)?;
    if head != CONTINUATION.to_le_bytes() {
        return Ok(false);
    }
    let mut window = Window::new();
    let Some(NextMessage::Message(frame)) = none_if_corrupt(find_message(bytes, &mut window, 0))? else {
        return Ok(false);
    };
    let Some(metadata) = none_if_corrupt(window.get(bytes, frame.metadata, frame.metadata_len))? else {
        return Ok(false);
    };
    Ok(MessageHeader::parse(metadata).is_ok_and(|header| header.kind == MessageKind::Schema))
}

/// Returns the error for bytes that do not begin like an Arrow stream; `cause` is the error of reading them as one.
pub(in crate::ipc) fn not_arrow_error(bytes: &Bytes, cause: Option<Error>) -> Error {
    if bytes.is_empty() {
        return Error::invalid("not Arrow data: the file is empty; expected an Arrow IPC file or stream");
    }
    let head = match bytes.read_to_vec(0, bytes.len().min(HEAD)) {
        Ok(head) => head,
        Err(e) => return e,
    };
    if let Some((_, what, remedy)) = SIGNATURES.iter().find(|(signature, ..)| head.starts_with(signature)) {
        return Error::invalid(format!("not Arrow data: this looks like {what}; {remedy}"));
    }
    let text = describe_text(&head);
    if text.is_none() && ends_with_magic(bytes) {
        return Error::invalid(
            "the first bytes of this Arrow file are damaged, but its end is not; `arrowwood check --repair` \
             finds its rows by the footer",
        );
    }
    if head.iter().all(|&byte| byte == 0) {
        return Error::invalid(
            "not Arrow data: it begins with zeros, as a file that was never written to its end does",
        );
    }
    if head.starts_with(&CONTINUATION.to_le_bytes())
        || cause.as_ref().is_some_and(|e| e.kind() == ErrorKind::Unsupported)
    {
        return cause.unwrap_or_else(|| Error::invalid("an Arrow stream without a schema"));
    }
    if let Some(what) = text {
        return Error::invalid(format!("not Arrow data: this looks like {what}"));
    }
    let cause = cause.map_or_else(String::new, |e| format!(" ({})", e.message()));
    Error::invalid(format!("not Arrow data: expected an Arrow IPC file or stream{cause}"))
}

/// Returns true if bytes end like an Arrow file, and can be read.
fn ends_with_magic(bytes: &Bytes) -> bool {
    let Some(last) = bytes.len().checked_sub(MAGIC.len()) else { return false };
    let mut magic = [0; MAGIC.len()];
    bytes.read_at(last, &mut magic).is_ok() && magic == *MAGIC
}

/// Returns a guess at the format of text, with advice; `None` if the bytes are not text.
fn describe_text(head: &[u8]) -> Option<&'static str> {
    if !head.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\n' | b'\r' | b'\t')) {
        return None;
    }
    let first_line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
    match head.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[') => Some("JSON; if it is one object a line, turn it into Arrow with `arrowwood import`"),
        _ if first_line.iter().any(|byte| matches!(byte, b',' | b';' | b'\t')) => {
            Some("CSV; turn it into Arrow with `arrowwood import` or read_csv")
        }
        _ => Some("text"),
    }
}
