//! Any bytes open or are refused; what opens can be counted and printed.
#![no_main]

use arrowwood::{Bytes, OpenOptions};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(dataset) = OpenOptions::new().partial(true).bytes(Bytes::from(bytes.to_vec())) {
        let _ = (dataset.len().is_ok(), dataset.nbytes().is_ok(), dataset.to_string());
    }
});
