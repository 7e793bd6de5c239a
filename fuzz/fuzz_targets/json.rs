//! Any text is rows of JSON or is refused; what is taken as rows of a table's columns has as many rows as there are objects.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow_schema::Schema;
use arrowwood::{JsonOptions, parse_schema, read_json_from};

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let text = "n: int, x: float, s: category, t: timestamp[us, UTC], b: bool, m: decimal(10, 2), list: list<int>";
    Arc::new(parse_schema(text).expect("a schema"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = read_json_from(bytes, &JsonOptions::default());
    let mut options = JsonOptions::default();
    options.schema = Some(SCHEMA.clone());
    let Ok((schema, batches)) = read_json_from(bytes, &options) else { return };
    assert_eq!(schema, *SCHEMA);
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert!(rows <= bytes.iter().filter(|&&byte| byte == b'{').count());
});
