//! Versions, errors, strings, and settings of the process.

use std::ffi::c_char;

use arrowwood::disable_sigbus_handler;

use crate::error::error_name;
use crate::ffi::{BytesIn, BytesOut, ErrorIn, OwnedString};

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
        error_name(code).as_ptr().cast()
    }

    /// Frees an error's message.
    fn arrowwood_error_clear(error: ErrorIn) {
        error.clear();
    }

    /// Frees a string.
    fn arrowwood_string_free(string: OwnedString) {
        string.free();
    }
}

export! {
    /// Copies bytes that may be in a mapped file.
    fn arrowwood_copy(target: BytesOut, source[length]: BytesIn) {
        source.copy_to(target)
    }

    /// Installs no handler for SIGBUS.
    fn arrowwood_leave_sigbus_alone() {
        Ok(disable_sigbus_handler()?)
    }
}
