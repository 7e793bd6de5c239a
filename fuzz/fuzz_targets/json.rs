//! Fuzzes the JSON reader, with and without a schema.
//!
//! A text is either rejected or, given a schema, read as rows of exactly this schema. Each row is an object, so there are no
//! more rows than opening braces.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow_schema::Schema;
use arrowwood::{JsonOptions, parse_schema, read_json_from};

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let text = "n: int, x: float, s: category, t: timestamp[us, UTC], b: bool, m: decimal(10, 2), list: list<int>";
    Arc::new(parse_schema(text).expect("the schema is valid"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Schema inference must not panic; most inputs are no JSON.
    let _ = read_json_from(bytes, &JsonOptions::default());

    let mut options = JsonOptions::default();
    options.schema = Some(SCHEMA.clone());
    let Ok((schema, batches)) = read_json_from(bytes, &options) else { return };
    assert_eq!(schema, *SCHEMA);
    let row_count: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let brace_count = bytes.iter().filter(|&&byte| byte == b'{').count();
    assert!(row_count <= brace_count, "{row_count} rows from {brace_count} objects");
});
