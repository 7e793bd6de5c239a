//! Frames messages of an Arrow stream as `FlightData` in gRPC frames.

use arrowwood::{EncodedMessage, Error, ErrorKind, Result};
use bytes::BufMut;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use super::messages::{PREFIX, UNCOMPRESSED};
use crate::read::Framing;

/// The numbers of the fields of `FlightData` with a message's metadata and its body.
const METADATA_FIELD: u32 = 2;
const BODY_FIELD: u32 = 1000;
/// Room for the numbers and lengths in a frame.
const MAX_HEAD_OVERHEAD: usize = 32;

/// A `FlightData` for each message, as gRPC frames it.
pub(super) const FLIGHT_FRAMING: Framing = Framing::new(message_head, &[]);

fn message_head(message: &EncodedMessage) -> Result<Vec<u8>> {
    flight_head(&message.metadata, message.body_len()).ok_or_else(|| {
        let what = format!("{} bytes of a row or of a dictionary", message.body_len());
        let limit = "are more than the 2 GiB of a message of gRPC; the server's GET has no such limit";
        Error::new(ErrorKind::Unsupported, format!("{what} {limit}"))
    })
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

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::flight::messages::FlightData;

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
