//! The supported messages of Arrow Flight, with the field numbers of `Flight.proto`.

use std::fmt;

use bytes::Bytes;
use prost::{Enumeration, Message};

/// The prefix of the paths of all requests.
pub const SERVICE: &str = "arrow.flight.protocol.FlightService";
/// The value of a number of records or bytes that the server does not know.
pub const UNKNOWN: i64 = -1;

/// The source or destination of rows: a command, or a path.
#[derive(Clone, PartialEq, Message)]
pub struct FlightDescriptor {
    /// A [`DescriptorType`], which the method of this name returns.
    #[prost(enumeration = "DescriptorType", tag = "1")]
    pub r#type: i32,
    /// The command, if it is one.
    #[prost(bytes = "bytes", tag = "2")]
    pub cmd: Bytes,
    /// The path, if it is one.
    #[prost(string, repeated, tag = "3")]
    pub path: Vec<String>,
}

/// Whether a descriptor is a path or a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum DescriptorType {
    /// Neither of them.
    Unknown = 0,
    /// A path.
    Path = 1,
    /// A command.
    Cmd = 2,
}

/// The request for rows in a `DoGet`, made by a server or written by a client.
#[derive(Clone, PartialEq, Message)]
pub struct Ticket {
    /// What the server needs to find the rows.
    #[prost(bytes = "bytes", tag = "1")]
    pub ticket: Bytes,
}

/// A part of a flight, on the server that describes it.
#[derive(Clone, PartialEq, Message)]
pub struct FlightEndpoint {
    /// The ticket for the rows of this part.
    #[prost(message, optional, tag = "1")]
    pub ticket: Option<Ticket>,
}

/// The description of rows, and the tickets by which all of them are got.
#[derive(Clone, PartialEq, Message)]
pub struct FlightInfo {
    /// The schema as an IPC message.
    #[prost(bytes = "bytes", tag = "1")]
    pub schema: Bytes,
    /// The descriptor that was asked for.
    #[prost(message, optional, tag = "2")]
    pub flight_descriptor: Option<FlightDescriptor>,
    /// The parts of the rows.
    #[prost(message, repeated, tag = "3")]
    pub endpoint: Vec<FlightEndpoint>,
    /// The number of rows, or [`UNKNOWN`].
    #[prost(int64, tag = "4")]
    pub total_records: i64,
    /// The number of bytes, or [`UNKNOWN`].
    #[prost(int64, tag = "5")]
    pub total_bytes: i64,
    /// True if the rows of each part precede those of the next one.
    #[prost(bool, tag = "6")]
    pub ordered: bool,
}

/// The schema of rows, as an IPC message.
#[derive(Clone, PartialEq, Message)]
pub struct SchemaResult {
    /// The message.
    #[prost(bytes = "bytes", tag = "1")]
    pub schema: Bytes,
}

/// A message of an Arrow stream.
///
/// [`flight_data_head`](crate::flight_data_head) encodes one around a body that lies elsewhere.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct FlightData {
    /// The destination of rows that a client sends, in its first message.
    #[prost(message, optional, tag = "1")]
    pub flight_descriptor: Option<FlightDescriptor>,
    /// The metadata, a `Message` of Message.fbs.
    #[prost(bytes = "bytes", tag = "2")]
    pub data_header: Bytes,
    /// Bytes that belong to the application.
    #[prost(bytes = "bytes", tag = "3")]
    pub app_metadata: Bytes,
    /// The buffers of a record batch or a dictionary.
    #[prost(bytes = "bytes", tag = "1000")]
    pub data_body: Bytes,
}

/// Shows how many bytes the parts have: a body may have gigabytes.
impl fmt::Debug for FlightData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FlightData");
        shown.field("flight_descriptor", &self.flight_descriptor).field("data_header_len", &self.data_header.len());
        shown.field("app_metadata_len", &self.app_metadata.len()).field("data_body_len", &self.data_body.len());
        shown.finish()
    }
}

/// The answer to a batch that was sent.
#[derive(Clone, PartialEq, Message)]
pub struct PutResult {
    /// Bytes that belong to the application.
    #[prost(bytes = "bytes", tag = "1")]
    pub app_metadata: Bytes,
}

/// The request of a `DoAction`.
#[derive(Clone, PartialEq, Message)]
pub struct Action {
    /// The name of the action.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// The message of the action.
    #[prost(bytes = "bytes", tag = "2")]
    pub body: Bytes,
}

/// An action that a server has, in its answer to `ListActions`.
#[derive(Clone, PartialEq, Message)]
pub struct ActionType {
    /// The name of the action.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// What it does.
    #[prost(string, tag = "2")]
    pub description: String,
}

/// A part of the answer to a `DoAction`, which `Flight.proto` calls `Result`.
#[derive(Clone, PartialEq, Message)]
pub struct ActionResult {
    /// The message that the action returns.
    #[prost(bytes = "bytes", tag = "1")]
    pub body: Bytes,
}

/// The request of the action `CancelFlightInfo`.
#[derive(Clone, PartialEq, Message)]
pub struct CancelFlightInfoRequest {
    /// The flight, as it was described.
    #[prost(message, optional, tag = "1")]
    pub info: Option<FlightInfo>,
}

/// The answer to the action `CancelFlightInfo`.
#[derive(Clone, PartialEq, Message)]
pub struct CancelFlightInfoResult {
    /// A [`CancelStatus`], which the method of this name returns.
    #[prost(enumeration = "CancelStatus", tag = "1")]
    pub status: i32,
}

/// What has become of a flight that was to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum CancelStatus {
    /// Unknown.
    Unspecified = 0,
    /// It is cancelled.
    Cancelled = 1,
    /// It will be cancelled.
    Cancelling = 2,
    /// It can't be cancelled, as it has ended, or never ran.
    NotCancellable = 3,
}

/// The answer to the action `CloseSession`.
#[derive(Clone, PartialEq, Message)]
pub struct CloseSessionResult {
    /// A [`CloseSessionStatus`], which the method of this name returns.
    #[prost(enumeration = "CloseSessionStatus", tag = "1")]
    pub status: i32,
}

/// What has become of a session that was to be closed: `CloseSessionResult.Status` in `Flight.proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum CloseSessionStatus {
    /// Unknown.
    Unspecified = 0,
    /// It is closed.
    Closed = 1,
    /// It will be closed.
    Closing = 2,
    /// It can't be closed.
    NotCloseable = 3,
}
