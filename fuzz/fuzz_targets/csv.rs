//! Fuzzes the CSV reader.
//!
//! A text is either rejected, or reading it again with the inferred schema yields the same batches.
#![no_main]

use arrowwood::{CsvOptions, read_csv_from};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok((inferred_schema, batches)) = read_csv_from(bytes, &CsvOptions::default()) else { return };
    let mut options = CsvOptions::default();
    options.schema = Some(inferred_schema);
    let (_, batches_with_schema) = read_csv_from(bytes, &options).expect("the inferred schema fits the text");
    assert_eq!(batches, batches_with_schema);
});
