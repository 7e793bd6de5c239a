//! Any bytes are a message of Arrow Flight that means a table and parameters, or are refused.
#![no_main]

use arrowwood_serve::parse_call_target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for method in ["DoGet", "GetFlightInfo", "DoPut"] {
        let Some(name) = parse_call_target(method, bytes) else { continue };
        // What it means is in the message.
        assert!(name.is_empty() || bytes.windows(name.len()).any(|part| part == name.as_bytes()));
    }
});
