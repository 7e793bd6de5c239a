//! Frames messages of an Arrow stream, or of Flight, as bytes to send. Small parts are copied together, large parts are
//! sent in place.

use arrow_buffer::Buffer;
use arrowwood::{EncodedMessage, Error, ErrorKind, Result, StreamEncoder, guard};
use bytes::{BufMut, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::flight::messages::{PREFIX, UNCOMPRESSED};

/// The minimum size in bytes of a buffer that is sent in place. Smaller ones are copied together: sending each
/// separately would take longer.
const MIN_SEPARATE_BYTES: usize = 8 << 10;
/// The maximum number of bytes that are sent at once: HTTP/2 refuses more than 31 bits can count.
const MAX_FRAME_BYTES: usize = 1 << 30;
/// The alignment of bodies and buffers.
const ALIGNMENT: usize = 64;
/// The numbers of the fields of `FlightData` with a message's metadata and its body.
const METADATA_FIELD: u32 = 2;
const BODY_FIELD: u32 = 1000;
/// Room for the numbers and lengths in a frame.
const MAX_HEAD_OVERHEAD: usize = 32;

/// A buffer as an owner of bytes.
struct BufferOwner(Buffer);

impl AsRef<[u8]> for BufferOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The framing of a stream's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The IPC streaming format.
    Stream,
    /// A `FlightData` for each message, as gRPC frames it.
    Flight,
}

impl Framing {
    /// Returns the bytes before the body of a message.
    ///
    /// # Errors
    /// `Unsupported` for messages too long for the framing.
    pub fn head(self, message: &EncodedMessage) -> Result<Vec<u8>> {
        match self {
            Framing::Stream => message.head(),
            Framing::Flight => flight_head(&message.metadata, message.body_len()).ok_or_else(|| {
                let what = format!("{} bytes of a row or of a dictionary", message.body_len());
                let limit = "are more than the 2 GiB of a message of gRPC; the server's GET has no such limit";
                Error::new(ErrorKind::Unsupported, format!("{what} {limit}"))
            }),
        }
    }

    /// Returns the bytes after the last message.
    pub fn end(self) -> &'static [u8] {
        match self {
            Framing::Stream => &StreamEncoder::END,
            Framing::Flight => &[],
        }
    }
}

/// Returns the bytes before the body of a `FlightData` in a gRPC frame: flag, length, the metadata, and the key and
/// length of the body. `None` if the message is longer than protobuf allows, as readers refuse it.
fn flight_head(metadata: &[u8], body: usize) -> Option<Vec<u8>> {
    let body_field = if body > 0 { field_len(BODY_FIELD, body) } else { 0 };
    let len = u32::try_from(field_len(METADATA_FIELD, metadata.len()).checked_add(body_field)?).ok()?;
    if len > i32::MAX as u32 {
        return None;
    }
    let mut head = Vec::with_capacity(metadata.len() + MAX_HEAD_OVERHEAD);
    head.put_u8(UNCOMPRESSED);
    head.put_u32(len);
    encode_key(METADATA_FIELD, WireType::LengthDelimited, &mut head);
    encode_varint(metadata.len() as u64, &mut head);
    head.extend_from_slice(metadata);
    if body > 0 {
        encode_key(BODY_FIELD, WireType::LengthDelimited, &mut head);
        encode_varint(body as u64, &mut head);
    }
    assert!(head.len() + body == PREFIX + len as usize, "a frame of {} bytes is declared as {len}", head.len() + body);
    Some(head)
}

/// Returns the bytes of a protobuf field of `len` bytes, with its key and length.
fn field_len(number: u32, len: usize) -> usize {
    key_len(number) + encoded_len_varint(len as u64) + len
}

/// Returns the bytes of `messages`, concatenated.
pub(crate) fn frames(messages: Vec<EncodedMessage>, framing: Framing) -> Result<Vec<Bytes>> {
    // Small buffers are read here, and may have been truncated.
    guard(|| {
        let mut frames = Vec::new();
        let mut small = Vec::new();
        for message in messages {
            small.extend(framing.head(&message)?);
            for buffer in message.body {
                let len = buffer.len();
                if len < MIN_SEPARATE_BYTES {
                    small.extend_from_slice(&buffer);
                } else {
                    frames.push(Bytes::from(std::mem::take(&mut small)));
                    frames.extend(chunks(Bytes::from_owner(BufferOwner(buffer)), MAX_FRAME_BYTES));
                }
                small.resize(small.len() + (len.next_multiple_of(ALIGNMENT) - len), 0);
            }
        }
        frames.push(Bytes::from(small));
        frames.retain(|frame| !frame.is_empty());
        Ok::<_, Error>(frames)
    })
}

/// Splits bytes into chunks of at most `max_len`, in place.
fn chunks(mut bytes: Bytes, max_len: usize) -> impl Iterator<Item = Bytes> {
    std::iter::from_fn(move || {
        let chunk = bytes.split_to(bytes.len().min(max_len));
        (!chunk.is_empty()).then_some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::flight::messages::FlightData;

    /// Buffers of 2 GiB were never sent over HTTP/2.
    #[test]
    fn large_buffers_are_sent_in_chunks() {
        let whole = Bytes::from((0..=255).collect::<Vec<u8>>());
        for most in [1, 7, 128, 255, 256, 1000] {
            let found: Vec<Bytes> = chunks(whole.clone(), most).collect();
            assert_eq!(found.len(), 256_usize.div_ceil(most));
            assert!(found.iter().all(|chunk| chunk.len() <= most));
            assert_eq!(found.concat(), whole);
            assert_eq!(found[0].as_ptr(), whole.as_ptr());
        }
        assert_eq!(chunks(Bytes::new(), 7).count(), 0);
        assert!(MAX_FRAME_BYTES <= i32::MAX as usize);
    }

    #[test]
    fn encoded_frame_is_a_grpc_message() {
        for (metadata, body) in [(vec![1; 8], vec![]), (vec![2; 300], vec![3; 70_000])] {
            let mut frame = flight_head(&metadata, body.len()).unwrap();
            frame.extend_from_slice(&body);
            assert_eq!((frame[0], &frame[1..5]), (0, &(frame.len() as u32 - 5).to_be_bytes()[..]));
            let read = FlightData::decode(&frame[5..]).unwrap();
            assert_eq!((read.header.to_vec(), read.body.to_vec()), (metadata, body));
        }
        assert!(flight_head(&[], i32::MAX as usize).is_none());
    }
}
