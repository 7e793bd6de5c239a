//! Sends rows of tables.
//!
//! Read in this order: `endpoints` (the routes), `condition` (conditions on rows, as text), `rows` (rows selected by
//! range, columns and condition), `follow` (rows as they are committed), `frames` (messages of a stream as bytes to
//! send).
//!
//! It may use `http`, `ops`, `catalog` and `session`.

pub(crate) mod condition;
pub(crate) mod endpoints;
pub(crate) mod follow;
pub(crate) mod frames;
pub(crate) mod rows;
