//! Sends rows of tables.
//!
//! Read in this order: `endpoints` (the routes), `condition` (conditions on rows, as text), `rows` (rows selected by
//! range, columns and condition), `follow` (rows as they are committed), `frames` (messages of a stream as bytes to
//! send).
//!
//! It may use `http`, `ops`, `catalog` and `session`.

mod condition;
pub(crate) mod endpoints;
pub(crate) mod follow;
mod frames;
pub(crate) mod rows;

pub use condition::{ConditionError, parse_condition};
pub(crate) use condition::{MAX_ROW_VALUE_BYTES, is_temporal, parse_condition_on, size_of_value};
pub(crate) use follow::Follower;
pub(crate) use frames::Framing;
pub(crate) use rows::{RowEncoder, RowFormat, Selection, check_start, whole_body, whole_framed_body};
