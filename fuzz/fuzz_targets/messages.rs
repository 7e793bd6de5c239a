//! Fuzzes the listing of Arrow IPC messages.
//!
//! Data is either rejected, or its messages can be printed as text and as JSON without a panic.
#![no_main]

use arrowwood::{Bytes, OpenOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(dataset) = OpenOptions::new().bytes(Bytes::from(bytes.to_vec())) else { return };
    for message in dataset.messages().into_iter().flatten() {
        let _ = message.to_string();
        let _ = message.to_json();
    }
});
