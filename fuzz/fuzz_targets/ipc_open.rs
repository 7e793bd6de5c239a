//! Fuzzes opening of Arrow IPC data, truncated data included.
//!
//! Data is either rejected, or the opened dataset can be counted, measured and printed without a panic.
#![no_main]

use arrowwood::{Bytes, OpenOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(dataset) = OpenOptions::new().partial(true).bytes(Bytes::from(bytes.to_vec())) else { return };
    // Record batches are decoded lazily: errors are expected here, panics are not.
    let _ = dataset.len();
    let _ = dataset.nbytes();
    let _ = dataset.to_string();
});
