//! Values of what opens can be read, checked, and, once checked, handed to arrow-rs and written.
#![no_main]

use arrowwood::{Bytes, OpenOptions, WriteOptions, write_to};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(dataset) = OpenOptions::new().bytes(Bytes::from(bytes.to_vec())) else { return };
    for (_, value) in dataset.rows().take(64).flatten().flat_map(|row| row.iter().collect::<Vec<_>>()) {
        let _ = value.map(|value| value.to_string());
    }
    if dataset.len().is_ok_and(|len| len < 100_000) && dataset.validate(|_, _| ()).is_ok() {
        let _ = dataset.to_record_batches().map(|batch| batch.is_ok()).filter(|ok| *ok).count();
        let _ = write_to(&dataset, &mut std::io::sink(), &WriteOptions::default());
    }
});
