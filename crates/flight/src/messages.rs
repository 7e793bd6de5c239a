//! The supported messages of Arrow Flight, with the field numbers of `Flight.proto`, and gRPC's framing.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// The prefix of the paths of all requests.
pub(crate) const SERVICE: &str = "arrow.flight.protocol.FlightService";
/// The size in bytes of a frame's flag and length, which precede its message.
pub(crate) const PREFIX: usize = 5;
/// The flag of a frame whose message is not compressed.
pub(crate) const UNCOMPRESSED: u8 = 0;
/// The value of a number of records or bytes that the server does not know.
pub(crate) const UNKNOWN: i64 = -1;

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

/// Whether a descriptor is a path or a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum DescriptorType {
    Unknown = 0,
    Path = 1,
    Command = 2,
}

/// The request for rows in a `DoGet`, made by this server or written by a client.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ticket {
    #[prost(bytes = "bytes", tag = "1")]
    pub ticket: Bytes,
}

/// A part of a flight, on the server that describes it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FlightEndpoint {
    #[prost(message, optional, tag = "1")]
    pub ticket: Option<Ticket>,
}

/// The description of rows, and the tickets by which all of them are got.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FlightInfo {
    /// The schema as an IPC message.
    #[prost(bytes = "bytes", tag = "1")]
    pub schema: Bytes,
    #[prost(message, optional, tag = "2")]
    pub descriptor: Option<FlightDescriptor>,
    #[prost(message, repeated, tag = "3")]
    pub endpoints: Vec<FlightEndpoint>,
    /// The number of rows, or [`UNKNOWN`].
    #[prost(int64, tag = "4")]
    pub total_records: i64,
    #[prost(int64, tag = "5")]
    pub total_bytes: i64,
    #[prost(bool, tag = "6")]
    pub ordered: bool,
}

/// The schema of rows, as an IPC message.
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

/// The answer to a batch that was sent.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResult {
    #[prost(bytes = "bytes", tag = "1")]
    pub app_metadata: Bytes,
}

/// Frames a message for gRPC.
pub(crate) fn frame_message(message: &impl Message) -> Bytes {
    frame_messages([message])
}

/// Frames messages for gRPC, one after another.
pub(crate) fn frame_messages<'a, M: Message + 'a>(messages: impl IntoIterator<Item = &'a M>) -> Bytes {
    let mut frames = BytesMut::new();
    for message in messages {
        let len = message.encoded_len();
        frames.reserve(PREFIX + len);
        frames.put_u8(UNCOMPRESSED);
        // Only messages of this server are framed here, which are small. A wrong length would shift all later frames.
        assert!(u32::try_from(len).is_ok(), "a message of {len} bytes does not fit into a frame");
        frames.put_u32(len as u32);
        // Encoding fails only for lack of capacity, which was reserved.
        let encoded = message.encode(&mut frames);
        assert!(encoded.is_ok(), "a message of {len} bytes was not encoded: {encoded:?}");
    }
    frames.freeze()
}
