//! Versions, errors, strings, and settings of the process.

use std::ffi::c_char;

use arrowwood::leave_sigbus_alone;

use crate::error::name;
use crate::ffi::{ErrorIn, Lent, Room, TextIn};

/// Increments when a function or struct changes; `build.rs` and the header have it too.
const ABI_VERSION: u32 = 1;

export_infallible! {
    /// The version of the ABI.
    fn arrowwood_abi_version() -> u32 {
        ABI_VERSION
    }

    /// The version of the library.
    fn arrowwood_version() -> *const c_char {
        concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
    }

    /// The meaning of an error code.
    fn arrowwood_error_name(code: i32) -> *const c_char {
        name(code).as_ptr().cast()
    }

    /// Frees an error's message.
    fn arrowwood_error_clear(error: ErrorIn) {
        error.clear();
    }

    /// Frees a string.
    fn arrowwood_string_free(string: TextIn) {
        string.free();
    }
}

export! {
    /// Copies bytes that may be in a mapped file.
    fn arrowwood_copy(target: Room, source[length]: Lent) {
        source.copy_to(target)
    }

    /// Installs no handler for SIGBUS.
    fn arrowwood_leave_sigbus_alone() {
        Ok(leave_sigbus_alone()?)
    }
}
