//! Makes Arrow streams of received messages, and tells what kind a message is without parsing all of it.

use arrow_schema::SchemaRef;
use arrowwood::{MessageKind, StreamEncoder};
use bytes::Bytes;

/// The alignment of messages in an IPC stream.
const IPC_ALIGNMENT: usize = 8;
/// The word before the length of a message in an IPC stream.
const CONTINUATION: u32 = u32::MAX;
/// The bytes in the vtable of a flatbuffer before the offsets of fields: its own length and its table's.
const VTABLE_HEADER: usize = 2 * size_of::<u16>();
/// The number of the field of a `Message` that has the type of its header.
const HEADER_TYPE_FIELD: usize = 1;
/// The types of headers, as in the union `MessageHeader` of Message.fbs.
const SCHEMA_HEADER: u8 = 1;
const DICTIONARY_HEADER: u8 = 2;
const BATCH_HEADER: u8 = 3;

/// Returns the kind of the `Message` of Message.fbs in a [`FlightData`](crate::FlightData)'s `data_header`: a schema, a
/// dictionary or a record batch. `None` if it is damaged, or of another kind.
///
/// Only the type is read. The reader of the stream checks everything else.
pub fn message_kind(metadata: &[u8]) -> Option<MessageKind> {
    let root = usize::try_from(i32_at(metadata, 0)?).ok()?;
    // The root table begins with the distance to its vtable, which has the offset of each field in the table, or 0.
    let vtable = root.checked_sub_signed(isize::try_from(i32_at(metadata, root)?).ok()?)?;
    let entry = VTABLE_HEADER + HEADER_TYPE_FIELD * size_of::<u16>();
    let vtable_len = usize::from(u16_at(metadata, vtable)?);
    let header_type = usize::from(u16_at(metadata, vtable + entry)?);
    if header_type == 0 || vtable_len <= entry {
        return None;
    }
    match *metadata.get(root + header_type)? {
        SCHEMA_HEADER => Some(MessageKind::Schema),
        DICTIONARY_HEADER => Some(MessageKind::DictionaryBatch),
        BATCH_HEADER => Some(MessageKind::RecordBatch),
        _ => None,
    }
}

fn i32_at(bytes: &[u8], offset: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

/// Appends a message to an Arrow stream: the `data_header` and `data_body` of a [`FlightData`](crate::FlightData).
///
/// # Panics
/// If `metadata` has 4 GiB, which no frame of gRPC has.
pub fn push_message(stream: &mut Vec<u8>, metadata: &[u8], body: &[u8]) {
    let padded_len = metadata.len().next_multiple_of(IPC_ALIGNMENT);
    // gRPC frames have lengths of 32 bits, so that metadata received in one fits.
    assert!(u32::try_from(padded_len).is_ok(), "metadata of {padded_len} bytes in a gRPC message");
    stream.extend_from_slice(&CONTINUATION.to_le_bytes());
    stream.extend_from_slice(&(padded_len as u32).to_le_bytes());
    stream.extend_from_slice(metadata);
    stream.resize(stream.len() + (padded_len - metadata.len()), 0);
    stream.extend_from_slice(body);
}

/// Encodes a schema as a message of a stream, as [`FlightInfo`](crate::FlightInfo) and
/// [`SchemaResult`](crate::SchemaResult) have it.
///
/// # Errors
/// `Unsupported` for a schema that can't be written.
pub fn schema_message(schema: &SchemaRef) -> arrowwood::Result<Bytes> {
    let encoder = StreamEncoder::new(schema.clone())?;
    Ok(encoder.schema_message().head()?.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{DictionaryArray, RecordBatch, types::Int32Type};
    use arrowwood::{Dataset, EncodedMessage};

    use super::*;

    fn messages() -> Vec<EncodedMessage> {
        let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        let batch = RecordBatch::try_from_iter([("word", Arc::new(words) as _)]).unwrap();
        let mut encoder = StreamEncoder::new(batch.schema()).unwrap();
        let (batches, _) = encoder.encode(&Dataset::try_from(vec![batch]).unwrap(), 1 << 20).unwrap();
        [encoder.schema_message()].into_iter().chain(batches).collect()
    }

    #[test]
    fn kinds_are_those_of_the_encoder() {
        let messages = messages();
        let kinds: Vec<_> = messages.iter().map(|message| message.kind).collect();
        assert_eq!(kinds, [MessageKind::Schema, MessageKind::DictionaryBatch, MessageKind::RecordBatch]);
        for EncodedMessage { kind, metadata, .. } in &messages {
            assert_eq!(message_kind(metadata), Some(*kind));
        }
    }

    /// Any bytes have a kind or none; no offset leads outside of them.
    #[test]
    fn damaged_metadata_is_read_within_its_bounds() {
        for EncodedMessage { kind, metadata, .. } in messages() {
            for len in 0..metadata.len() {
                assert!([None, Some(kind)].contains(&message_kind(&metadata[..len])));
            }
            for index in 0..metadata.len() {
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut damaged = metadata.clone();
                    damaged[index] = byte;
                    let _ = message_kind(&damaged);
                }
            }
        }
        assert_eq!(message_kind(&[0xff; 64]), None);
    }
}
