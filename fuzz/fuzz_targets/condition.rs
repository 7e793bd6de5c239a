//! Any text is a condition or is refused, in time that its length justifies; a condition can be asked of rows.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow_schema::Schema;
use arrowwood::{Dataset, ErrorKind, parse_schema, read_json_from};
use arrowwood_serve::parse_condition;

static ROWS: LazyLock<Dataset> = LazyLock::new(|| {
    let text =
        "n: int, x: float, s: category, t: timestamp[us, UTC], d: date, b: bool, m: decimal(10, 2), \"a b\": text";
    let schema: Arc<Schema> = Arc::new(parse_schema(text).expect("a schema"));
    let mut options = arrowwood::JsonOptions::default();
    options.schema = Some(schema.clone());
    let lines = "{\"n\":1,\"x\":2.5,\"s\":\"a\",\"t\":\"2024-01-01T00:00:00Z\",\"d\":\"2024-01-01\",\"b\":true,\"m\":\"1.50\",\"a b\":\"x\"}\n{}\n";
    let (schema, batches) = read_json_from(lines.as_bytes(), &options).expect("rows");
    Dataset::from_batches(schema, batches).expect("rows")
});

libfuzzer_sys::fuzz_target!(|text: &str| {
    let rows = &*ROWS;
    let Ok(predicate) = parse_condition(text, rows.schema()) else { return };
    let found = match rows.filter(&predicate) {
        Ok(found) => found,
        // The numbers in it are too large: an answer too.
        Err(e) if e.kind() == ErrorKind::InvalidArgument && e.to_string().contains("does not fit") => return,
        Err(e) => panic!("a condition that was taken can be asked: {e}"),
    };
    let others = rows.filter(&!predicate).expect("and its opposite");
    assert!(found.len().unwrap_or(9) + others.len().unwrap_or(9) <= 2);
});
