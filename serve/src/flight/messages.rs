//! The supported messages of Arrow Flight, with the field numbers of `Flight.proto`, and gRPC's framing.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// The prefix of the paths of all calls.
pub(crate) const SERVICE: &str = "arrow.flight.protocol.FlightService";
/// The size of a message's flag and length.
pub(crate) const PREFIX: usize = 5;

/// The source or destination of rows: a command, or the path of one name.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FlightDescriptor {
    #[prost(enumeration = "DescriptorType", tag = "1")]
    pub kind: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub command: Bytes,
    #[prost(string, repeated, tag = "3")]
    pub path: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum DescriptorType {
    Unknown = 0,
    Path = 1,
    Command = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ticket {
    #[prost(bytes = "bytes", tag = "1")]
    pub ticket: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FlightEndpoint {
    #[prost(message, optional, tag = "1")]
    pub ticket: Option<Ticket>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FlightInfo {
    /// The schema as an IPC message.
    #[prost(bytes = "bytes", tag = "1")]
    pub schema: Bytes,
    #[prost(message, optional, tag = "2")]
    pub descriptor: Option<FlightDescriptor>,
    #[prost(message, repeated, tag = "3")]
    pub endpoints: Vec<FlightEndpoint>,
    /// -1 if unknown.
    #[prost(int64, tag = "4")]
    pub total_records: i64,
    #[prost(int64, tag = "5")]
    pub total_bytes: i64,
    #[prost(bool, tag = "6")]
    pub ordered: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SchemaResult {
    #[prost(bytes = "bytes", tag = "1")]
    pub schema: Bytes,
}

/// A received message of an Arrow stream.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FlightData {
    #[prost(message, optional, tag = "1")]
    pub descriptor: Option<FlightDescriptor>,
    /// The metadata, a `Message` of Message.fbs.
    #[prost(bytes = "bytes", tag = "2")]
    pub header: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub app_metadata: Bytes,
    #[prost(bytes = "bytes", tag = "1000")]
    pub body: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResult {
    #[prost(bytes = "bytes", tag = "1")]
    pub app_metadata: Bytes,
}

/// Frames a message for gRPC.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    all_framed([message])
}

/// Frames messages for gRPC, one after another.
pub(crate) fn all_framed<'a, M: Message + 'a>(messages: impl IntoIterator<Item = &'a M>) -> Bytes {
    let mut frames = BytesMut::new();
    for message in messages {
        let len = message.encoded_len();
        frames.reserve(PREFIX + len);
        frames.put_u8(0);
        // Framed messages are made here, and small.
        frames.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
        // The capacity suffices, which is the only possible failure.
        let encoded = message.encode(&mut frames);
        debug_assert!(encoded.is_ok(), "{encoded:?}");
    }
    frames.freeze()
}
