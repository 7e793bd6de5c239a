//! Recognizes files of other formats, for errors with advice.

use crate::array::Bytes;
use crate::error::{Error, ErrorKind};
#[cfg(feature = "check")]
use crate::error::{Result, none_if_corrupt};
#[cfg(feature = "check")]
use crate::ipc::framing::{CONTINUATION, MAGIC, MessageHeader, MessageKind, NextMessage, Window, find_message};

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

/// Whether bytes begin as an Arrow file, or as a stream does: with a message, which is a schema.
///
/// # Errors
/// Those of reading the bytes.
#[cfg(feature = "check")]
pub(crate) fn has_arrow_signature(bytes: &Bytes) -> Result<bool> {
    let mut window = Window::new();
    let begins_with = |magic: &[u8]| -> Result<bool> {
        let mut head = vec![0; magic.len().min(bytes.len())];
        bytes.read_at(0, &mut head)?;
        Ok(head == magic)
    };
    let has_schema = |window: &mut Window| -> Result<bool> {
        let Some(NextMessage::Message(frame)) = none_if_corrupt(find_message(bytes, window, 0))? else {
            return Ok(false);
        };
        let metadata = none_if_corrupt(window.get(bytes, frame.metadata, frame.metadata_len))?;
        Ok(metadata.is_some_and(|raw| MessageHeader::parse(raw).is_ok_and(|header| header.kind == MessageKind::Schema)))
    };
    Ok(begins_with(MAGIC)? || begins_with(&CONTINUATION.to_le_bytes())? && has_schema(&mut window)?)
}

/// Returns the error for bytes that do not begin like an Arrow stream; `cause` is the error of reading them as one.
pub(in crate::ipc) fn not_arrow_error(bytes: &Bytes, cause: Option<Error>) -> Error {
    let mut head = vec![0; bytes.len().min(512)];
    if head.is_empty() {
        return Error::invalid("not Arrow data: the file is empty; expected an Arrow IPC file or stream");
    }
    if let Err(e) = bytes.read_at(0, &mut head) {
        return e;
    }
    if let Some((_, what, remedy)) = SIGNATURES.iter().find(|(signature, ..)| head.starts_with(signature)) {
        return Error::invalid(format!("not Arrow data: this looks like {what}; {remedy}"));
    }
    if head.iter().all(|&byte| byte == 0) {
        return Error::invalid(
            "not Arrow data: it begins with zeros, as a file that was never written to its end does",
        );
    }
    if head.starts_with(&[0xff; 4]) || cause.as_ref().is_some_and(|e| e.kind() == ErrorKind::Unsupported) {
        return cause.unwrap_or_else(|| Error::invalid("an Arrow stream without a schema"));
    }
    if let Some(what) = text(&head) {
        return Error::invalid(format!("not Arrow data: this looks like {what}"));
    }
    let cause = cause.map_or_else(String::new, |e| format!(" ({})", e.message()));
    Error::invalid(format!("not Arrow data: expected an Arrow IPC file or stream{cause}"))
}

fn text(head: &[u8]) -> Option<&'static str> {
    let printable = |&byte: &u8| byte >= b' ' || matches!(byte, b'\n' | b'\r' | b'\t');
    if !head.iter().all(printable) {
        return None;
    }
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    match first {
        Some(b'{' | b'[') => Some("JSON; if it is one object a line, turn it into Arrow with `arrowwood import`"),
        _ if line.iter().any(|byte| matches!(byte, b',' | b';' | b'\t')) => {
            Some("CSV; turn it into Arrow with `arrowwood import` or read_csv")
        }
        _ => Some("text"),
    }
}
