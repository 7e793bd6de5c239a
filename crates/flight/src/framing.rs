//! Frames messages as gRPC does: a flag and a length before each. The frame of a `FlightData` can surround a body that
//! lies elsewhere.

use arrowwood::{EncodedMessage, Error, ErrorKind};
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::status::Status;

/// The size in bytes of a frame's flag and length, which precede its message.
pub const FRAME_PREFIX: usize = 5;
/// The flag of a frame whose message is not compressed.
const UNCOMPRESSED: u8 = 0;
/// The numbers of the fields of `FlightData` with a message's metadata and its body.
const METADATA_FIELD: u32 = 2;
const BODY_FIELD: u32 = 1000;
/// Room for the numbers and lengths in a frame.
const MAX_HEAD_OVERHEAD: usize = 32;

/// Frames a message, which is copied. Rows are better framed by [`flight_data_head`].
///
/// # Panics
/// If the message has 4 GiB.
pub fn frame_message(message: &impl Message) -> Bytes {
    frame_messages([message])
}

/// Frames messages, one after another.
///
/// # Panics
/// If a message has 4 GiB.
pub fn frame_messages<'a, M: Message + 'a>(messages: impl IntoIterator<Item = &'a M>) -> Bytes {
    let mut frames = BytesMut::new();
    for message in messages {
        let len = message.encoded_len();
        frames.reserve(FRAME_PREFIX + len);
        frames.put_u8(UNCOMPRESSED);
        // Only messages without rows are framed here, which are small. A wrong length would shift all later frames.
        assert!(u32::try_from(len).is_ok(), "a message of {len} bytes does not fit into a frame");
        frames.put_u32(len as u32);
        // Encoding fails only for lack of capacity, which was reserved.
        let encoded = message.encode(&mut frames);
        assert!(encoded.is_ok(), "a message of {len} bytes was not encoded: {encoded:?}");
    }
    frames.freeze()
}

/// Returns the length in bytes of the frame that begins `buffer`, with its prefix of [`FRAME_PREFIX`] bytes; `None` if
/// not all of the prefix has been received. The message itself need not have been.
///
/// # Errors
/// `Unimplemented` for a compressed message, `ResourceExhausted` for one of more than `max_len` bytes.
pub fn frame_len(buffer: &[u8], max_len: usize) -> Result<Option<usize>, Status> {
    let Some([flag, len @ ..]) = buffer.first_chunk::<FRAME_PREFIX>() else { return Ok(None) };
    if *flag != UNCOMPRESSED {
        let message = "compressed messages are not taken; compress the buffers of record batches";
        return Err(Status::unimplemented(message));
    }
    let len = u32::from_be_bytes(*len) as usize;
    if len > max_len {
        let message = format!("a message has at most {max_len} bytes, got {len}; send several");
        return Err(Status::resource_exhausted(message));
    }
    Ok(Some(FRAME_PREFIX + len))
}

/// Decodes a message without its frame. Its fields of bytes are parts of `message` and not copied.
///
/// # Errors
/// `InvalidArgument` for bytes that are no such message.
pub fn decode_message<M: Message + Default>(message: Bytes) -> Result<M, Status> {
    M::decode(message).map_err(|e| Status::invalid_argument(format!("the message is damaged: {e}")))
}

/// Returns the bytes of a framed [`FlightData`](crate::FlightData) before its body: flag, length, the metadata, and the
/// key and length of the body. The buffers of `message` follow, each with zeros up to a multiple of 64 bytes.
///
/// # Errors
/// `Unsupported` for a message of 2 GiB, which readers would refuse.
pub fn flight_data_head(message: &EncodedMessage) -> arrowwood::Result<Vec<u8>> {
    encode_head(&message.metadata, message.body_len()).ok_or_else(|| {
        let what = format!("{} bytes of a row or of a dictionary", message.body_len());
        let limit = "are more than the 2 GiB of a message of gRPC; the server's GET has no such limit";
        Error::new(ErrorKind::Unsupported, format!("{what} {limit}"))
    })
}

/// Returns the bytes before a body of `body` bytes; `None` if the message is longer than protobuf allows.
fn encode_head(metadata: &[u8], body: usize) -> Option<Vec<u8>> {
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
    let frame_len = head.len() + body;
    assert!(frame_len == FRAME_PREFIX + len as usize, "a frame of {frame_len} bytes is declared as {len}");
    Some(head)
}

/// Returns the bytes of a protobuf field of `len` bytes, with its key and length.
fn field_len(number: u32, len: usize) -> usize {
    key_len(number) + encoded_len_varint(len as u64) + len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{FlightData, Ticket};
    use crate::status::Code;

    #[test]
    fn encoded_frame_is_a_grpc_message() {
        for (metadata, body) in [(vec![1; 8], vec![]), (vec![2; 300], vec![3; 70_000])] {
            let mut frame = encode_head(&metadata, body.len()).unwrap();
            frame.extend_from_slice(&body);
            assert_eq!((frame[0], &frame[1..5]), (0, &(frame.len() as u32 - 5).to_be_bytes()[..]));
            let read = FlightData::decode(&frame[5..]).unwrap();
            assert_eq!((read.data_header.to_vec(), read.data_body.to_vec()), (metadata, body));
        }
        assert!(encode_head(&[], i32::MAX as usize).is_none());
    }

    #[test]
    fn frames_are_measured_before_they_have_arrived() {
        let frames = frame_messages(&[Ticket { ticket: vec![7; 300].into() }, Ticket::default()]);
        let first = frame_len(&frames[..FRAME_PREFIX], 400).unwrap().unwrap();
        assert_eq!(decode_message::<Ticket>(frames.slice(FRAME_PREFIX..first)).unwrap().ticket, [7; 300][..]);
        assert_eq!(frame_len(&frames[first..], 0), Ok(Some(FRAME_PREFIX)));
        assert_eq!(frames.len(), first + FRAME_PREFIX);
        assert_eq!(frame_len(&frames[..FRAME_PREFIX - 1], 400), Ok(None));
        assert_eq!(frame_len(&frames, 300).unwrap_err().code, Code::ResourceExhausted);
        assert_eq!(frame_len(&[1, 0, 0, 0, 0], 400).unwrap_err().code, Code::Unimplemented);
    }
}
