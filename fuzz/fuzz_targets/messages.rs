//! Any bytes can be taken apart or are refused, and the parts can be printed.
#![no_main]

use arrowwood::{Bytes, OpenOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(dataset) = OpenOptions::new().bytes(Bytes::from(bytes.to_vec())) else { return };
    for message in dataset.messages().into_iter().flatten() {
        let _ = (message.to_string(), message.to_json());
    }
});
