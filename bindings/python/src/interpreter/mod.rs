//! What every call needs of the interpreter.
//!
//! The modules, in reading order:
//! - `lock`: the interpreter's lock in code that other libraries call back;
//! - `py_call`: calls of Python code that may last until the interpreter ends;
//! - `signals`: Ctrl-C and others, which end waits and loops;
//! - `errors`: errors of the library as exceptions;
//! - `waits`: waits for bytes of a store, while other threads run;
//! - `progress`: bars on the terminal, and work that Ctrl-C ends.
//!
//! Uses no other room.

pub mod errors;
pub mod lock;
pub mod progress;
pub mod py_call;
pub mod signals;
pub mod waits;
