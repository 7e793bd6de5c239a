//! The C library: `libarrowwood.so` for `include/arrowwood.h`, which documents it.
//!
//! `export!` (see [`ffi`]) declares each function, whose body is safe Rust: `open`, `dataset`, `cdata` (the Arrow C
//! data interface), `chunks` (the buffers of a column), `compute`, `predicate`, `writer`, `builder`, `follow`,
//! `maintain` (files and tables as a whole) and `messages`. `value` converts cells, `columns` columns of C values,
//! `checked_mutex` is what one thread uses at a time, `error` numbers errors, `translation` has their messages.
//! `bindings/c/README.md` explains how to add a function.

#[macro_use]
mod ffi;
mod builder;
mod cdata;
mod checked_mutex;
mod chunks;
mod columns;
mod compute;
mod dataset;
mod error;
mod follow;
mod library;
mod maintain;
mod messages;
mod open;
mod predicate;
mod translation;
mod value;
mod writer;

/// Small allocations that fail would end the program.
#[global_allocator]
static ALLOCATOR: arrowwood::mapping::ReserveAllocator = arrowwood::mapping::ReserveAllocator;
