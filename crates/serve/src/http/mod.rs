//! HTTP without tables: errors, parameters, and bodies of responses.
//!
//! Read in this order: `problem` (errors of the API), `query` (parameters and headers), `response_body` (bodies made
//! step by step) with `send_stall` (clients that take nothing), `response` (short responses), `socket_options`.
//!
//! This room uses no other.

mod problem;
mod query;
mod response;
mod response_body;
mod send_stall;
mod socket_options;

pub(crate) use problem::{Problem, Result, ResultExt};
pub(crate) use query::{Query, header, header_name, header_number, media_type, short};
pub(crate) use response::{allow, empty, json_response, text, with_type};
pub use response_body::WorkerBody;
pub(crate) use response_body::{BodyPart, ResponseBody};
pub(crate) use send_stall::SendStall;
pub(crate) use socket_options::set_options;
