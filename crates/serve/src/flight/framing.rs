//! Frames the rows that are sent.

use arrowwood_flight::flight_data_head;

use crate::read::Framing;

/// A `FlightData` for each message, as gRPC frames it.
pub(super) const FLIGHT_FRAMING: Framing = Framing::new(flight_data_head, &[]);
