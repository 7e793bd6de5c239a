//! The C library: `libarrowwood.so` and `include/arrowwood.h`, which says all that callers have to know.
//!
//! Each function is declared by `export!` (see [`ffi`]) and does its work in safe Rust: `open`, `dataset`, `exchange`
//! (Arrow's C data interface), `chunks` (where a column's values lie), `compute`, `predicate`, `writer`, `builder`,
//! `follow`, `maintain` (tables and files as a whole) and `messages`. `value` is one cell, `error` what went wrong.
//! `capi/README.md` says how to add a function.

#[macro_use]
mod ffi;
mod builder;
mod chunks;
mod compute;
mod dataset;
mod error;
mod exchange;
mod follow;
mod general;
mod maintain;
mod messages;
mod open;
mod predicate;
mod value;
mod writer;
