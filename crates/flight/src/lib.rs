//! Reads and writes Arrow Flight and Flight SQL as they travel: their messages, the frames of gRPC around them, and
//! statuses. There is no server, no client and no runtime in it; `arrowwood-serve` is a server on top of it.
//!
//! | task | use |
//! |---|---|
//! | read and write messages | [`FlightDescriptor`], [`Ticket`], [`FlightInfo`], [`FlightData`]; [`decode_message`] |
//! | send messages | [`frame_message`]; [`flight_data_head`] for rows, whose bytes are sent from where they lie |
//! | receive messages | [`frame_len`]; [`push_message`] makes an Arrow stream of their rows |
//! | know which table a call means | [`Target`] |
//! | end a call | [`Status`] and its trailers |
//! | speak Flight SQL | [`sql`]: commands, actions, handles of statements, and the columns of answers |
//!
//! Rows become frames, and an Arrow stream again:
//! ```
//! use arrowwood::{Dataset, OpenOptions, StreamEncoder};
//! use arrowwood_flight::{FRAME_PREFIX, FlightData, decode_message, flight_data_head, frame_len, push_message};
//! use bytes::{Buf, BytesMut};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use arrow_array::{Float64Array, RecordBatch};
//! let prices = Float64Array::from(vec![1.5, 2.5]);
//! let dataset = Dataset::try_from(vec![RecordBatch::try_from_iter([("price", std::sync::Arc::new(prices) as _)])?])?;
//! let mut encoder = StreamEncoder::new(dataset.schema().clone())?;
//! let schema = encoder.schema_message();
//! let (batches, _rows) = encoder.encode(&dataset, 2 << 20)?;
//! let mut sent = BytesMut::new();
//! for message in [schema].into_iter().chain(batches) {
//!     sent.extend_from_slice(&flight_data_head(&message)?);
//!     // A server need not copy these, as they may lie in a mapped file.
//!     for buffer in &message.body {
//!         sent.extend_from_slice(buffer);
//!         sent.resize(sent.len() + (buffer.len().next_multiple_of(64) - buffer.len()), 0);
//!     }
//! }
//!
//! let mut stream = Vec::new();
//! while let Some(len) = frame_len(&sent, 16 << 20)? {
//!     let mut frame = sent.split_to(len).freeze();
//!     frame.advance(FRAME_PREFIX);
//!     let data: FlightData = decode_message(frame)?;
//!     push_message(&mut stream, &data.data_header, &data.data_body);
//! }
//! stream.extend(StreamEncoder::END);
//! let received = OpenOptions::new().bytes(arrowwood::Bytes::from(stream))?;
//! assert_eq!(received.column("price")?.mean()?, Some(2.0));
//! # Ok(())
//! # }
//! ```
//! Messages have the names and the numbers of `Flight.proto` and `FlightSql.proto`, and only the fields that are used
//! here; others are skipped when a message is decoded.
//!
//! # Inside
//! The modules in reading order: `status` (the outcome of a call), `messages` (of Flight), `framing` (gRPC's framing of
//! messages), `ipc_stream` (received rows as an Arrow stream), `target` (tickets and descriptors of tables), `sql`.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod framing;
mod ipc_stream;
mod messages;
pub mod sql;
mod status;
mod target;

pub use framing::{FRAME_PREFIX, decode_message, flight_data_head, frame_len, frame_message, frame_messages};
pub use ipc_stream::{message_kind, push_message, schema_message};
pub use messages::{
    Action, ActionResult, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus,
    CloseSessionResult, CloseSessionStatus, DescriptorType, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo,
    PutResult, SERVICE, SchemaResult, Ticket, UNKNOWN,
};
pub use status::{CONTENT_TYPE, Code, Status};
pub use target::Target;
