//! Decompresses buffers of a body and converts their byte order; compresses them for writing.

use std::io;

use arrow_buffer::Buffer;

use super::codec;
use super::message::Compression;
use crate::array::Bytes;
use crate::error::{Error, Result};
use crate::types::{BufferRole, MAX_INLINE, MIXED_WORDS, VIEW_WIDTH};

/// A buffer of a compressed body after decompression.
pub(in crate::ipc) enum DecompressedBuffer {
    /// The bytes after the length are the buffer itself.
    Stored,
    /// The bytes were decompressed.
    Copied(Buffer),
}

/// The number of bytes in front of a compressed buffer: its uncompressed length.
pub(in crate::ipc) const LENGTH_PREFIX: usize = 8;

/// The length of a buffer that is stored as it is.
const STORED: i64 = -1;

/// The limit of bytes in a buffer after the bytes of its rows.
const PADDING: u64 = 1 << 16;

/// Decompresses a buffer of a compressed body: the uncompressed length as i64, or −1 for "stored as it is", then the
/// bytes (Message.fbs, *BodyCompression*). Decompresses at most slightly more than `enough` bytes, if given; fails if
/// this is more than `room`.
///
/// Allocates memory only for the bytes that come out of the frame, whatever length it declares.
pub(in crate::ipc) fn decompress(
    stored: &[u8],
    codec: Compression,
    enough: Option<usize>,
    room: u64,
) -> Result<DecompressedBuffer> {
    let Some((prefix, frame)) = stored.split_first_chunk::<LENGTH_PREFIX>() else {
        return Err(Error::invalid(format!("a compressed buffer begins with 8 bytes of length, got {}", stored.len())));
    };
    let declared = i64::from_le_bytes(*prefix);
    if declared == STORED {
        return Ok(DecompressedBuffer::Stored);
    }
    let Ok(declared) = u64::try_from(declared) else {
        return Err(Error::invalid(format!("a compressed buffer declares a length of {declared}")));
    };
    // Some writers write no frame for an empty buffer.
    if declared == 0 && frame.is_empty() {
        return Ok(DecompressedBuffer::Stored);
    }

    codec::expect(codec)?;
    let wanted = enough.map_or(declared, |enough| declared.min((enough as u64).saturating_add(PADDING)));
    if wanted > room {
        let message =
            format!("a compressed buffer of {wanted} bytes: that is more than the caller allows ({room} are left)");
        return Err(Error::limit(message));
    }
    let Ok(len) = usize::try_from(wanted) else {
        return Err(decompress_error(codec, declared, &io::Error::other("no address space holds them")));
    };

    let is_whole = wanted == declared;
    Bytes::build_buffer(len, |out| codec::decompress(frame, codec, out, is_whole), |e| e)
        .map(DecompressedBuffer::Copied)
        .map_err(|e| decompress_error(codec, declared, &e))
}

fn decompress_error(codec: Compression, declared: u64, e: &io::Error) -> Error {
    Error::invalid(format!("decompressing {codec:?}: {declared} bytes were declared: {e}"))
}

/// Returns the buffer with its numbers converted from big-endian to little-endian.
pub(in crate::ipc) fn little_endian(buffer: &Buffer, role: BufferRole) -> Buffer {
    let mut bytes = buffer.to_vec();
    match role {
        BufferRole::Values { width, word: MIXED_WORDS } => bytes.chunks_exact_mut(width).for_each(reverse_interval),
        BufferRole::Values { word, .. } if word > 1 => reverse_each(&mut bytes, word),
        BufferRole::Offsets { width } | BufferRole::Starts { width } | BufferRole::Sizes { width } => {
            reverse_each(&mut bytes, width)
        }
        BufferRole::Views => bytes.chunks_exact_mut(VIEW_WIDTH).for_each(reverse_view),
        _ => {}
    }
    Buffer::from_vec(bytes)
}

fn reverse_each(bytes: &mut [u8], width: usize) {
    bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
}

/// Reverses an interval of months, days and nanoseconds: two numbers of 4 bytes and one of 8.
fn reverse_interval(interval: &mut [u8]) {
    interval[..4].reverse();
    interval[4..8].reverse();
    interval[8..].reverse();
}

/// Reverses the numbers of a view, but not the bytes of its value.
fn reverse_view(view: &mut [u8]) {
    view[..4].reverse();
    let len = i32::from_le_bytes([view[0], view[1], view[2], view[3]]);
    if len > MAX_INLINE as i32 {
        view[8..12].reverse();
        view[12..].reverse();
    }
}

/// Compresses a buffer. A buffer that does not become smaller is stored as it is.
#[cfg(feature = "write")]
pub(in crate::ipc) fn compress(plain: &Buffer, codec: Compression) -> Result<Buffer> {
    codec::expect(codec)?;
    if plain.is_empty() {
        return Ok(plain.clone());
    }
    let mut stored = (plain.len() as i64).to_le_bytes().to_vec();
    codec::compress(plain, codec, &mut stored).map_err(|e| match e.kind() {
        io::ErrorKind::OutOfMemory => no_memory(plain.len()),
        _ => Error::unsupported(format!("compressing with {codec:?}: {e}")),
    })?;
    assert!(
        stored.len() > LENGTH_PREFIX,
        "the frame of {} bytes is empty, which readers take for an empty buffer",
        plain.len()
    );
    if stored.len() >= plain.len() + LENGTH_PREFIX {
        stored.clear();
        stored.extend(STORED.to_le_bytes());
        stored.try_reserve_exact(plain.len()).map_err(|_| no_memory(plain.len()))?;
        stored.extend_from_slice(plain);
    }
    Ok(Buffer::from_vec(stored))
}

#[cfg(feature = "write")]
fn no_memory(len: usize) -> Error {
    Error::out_of_memory(format!("no memory to compress {len} bytes"))
}
