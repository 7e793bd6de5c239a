//! Datasets made of what other libraries and Python have.
//!
//! The modules, in reading order:
//! - `from_arrow`: what exports Arrow data;
//! - `from_python`: a dict of columns, rows as dicts, a data frame;
//! - `append`: rows appended to given columns;
//! - `builder`: rows gathered in memory.
//!
//! Uses `dataset` and lower rooms.

pub mod append;
pub mod builder;
pub mod from_arrow;
pub mod from_python;
