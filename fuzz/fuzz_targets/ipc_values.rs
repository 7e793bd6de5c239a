//! Fuzzes reading of values from Arrow IPC data.
//!
//! Values of data that opens can be read without a panic. Data that also passes validation can be converted to arrow-rs
//! batches and written.
#![no_main]

use arrowwood::{Bytes, OpenOptions, WriteOptions, write_to};

const MAX_READ_ROWS: usize = 64;
/// Bounds the rows that are validated and converted, as a few bytes can declare billions of rows (of nulls, for example).
const MAX_CONVERTED_ROWS: u64 = 100_000;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(dataset) = OpenOptions::new().bytes(Bytes::from(bytes.to_vec())) else { return };

    // Errors are expected from here on, panics are not.
    for row in dataset.rows().take(MAX_READ_ROWS).flatten() {
        for (_, value) in row.iter() {
            let _ = value.map(|value| value.to_string());
        }
    }

    let is_small = dataset.len().is_ok_and(|len| len < MAX_CONVERTED_ROWS);
    if is_small && dataset.validate(|_, _| ()).is_ok() {
        dataset.to_record_batches().for_each(drop);
        let _ = write_to(&dataset, &mut std::io::sink(), &WriteOptions::default());
    }
});
