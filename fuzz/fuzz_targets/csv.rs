//! Any text is a table or is refused; what was inferred from it reads the same text again.
#![no_main]

use arrowwood::{CsvOptions, read_csv_from};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok((schema, batches)) = read_csv_from(bytes, &CsvOptions::default()) else { return };
    let mut options = CsvOptions::default();
    options.schema = Some(schema);
    let (_, again) = read_csv_from(bytes, &options).expect("the inferred schema fits");
    assert_eq!(batches, again);
});
