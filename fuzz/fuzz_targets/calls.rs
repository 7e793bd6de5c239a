//! Fuzzes the parser of Arrow Flight request messages.
//!
//! A message is either rejected, or the table name parsed from it is a substring of the message.
#![no_main]

use arrowwood_serve::parse_call_target;

libfuzzer_sys::fuzz_target!(|message: &[u8]| {
    for method in ["DoGet", "GetFlightInfo", "DoPut"] {
        if let Some(table_name) = parse_call_target(method, message) {
            assert!(is_substring(table_name.as_bytes(), message), "{method}: {table_name:?} is not in the message");
        }
    }
});

fn is_substring(needle: &[u8], haystack: &[u8]) -> bool {
    needle.is_empty() || haystack.windows(needle.len()).any(|window| window == needle)
}
