//! Fuzzes the parser and the evaluation of filter conditions.
//!
//! A condition is either rejected or can be evaluated, and no row satisfies both a condition and its negation. libFuzzer's
//! timeout catches conditions that take too long for their length.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow_schema::Schema;
use arrowwood::{Dataset, ErrorKind, JsonOptions, parse_schema, read_json_from};
use arrowwood_serve::parse_condition;

const ROW_COUNT: u64 = 2;

const SCHEMA_TEXT: &str =
    "n: int, x: float, s: category, t: timestamp[us, UTC], d: date, b: bool, m: decimal(10, 2), \"a b\": text";

/// One row with a value in each column, and one of nulls.
const JSON_LINES: &str = r#"{"n":1,"x":2.5,"s":"a","t":"2024-01-01T00:00:00Z","d":"2024-01-01","b":true,"m":"1.50","a b":"x"}
{}
"#;

static DATASET: LazyLock<Dataset> = LazyLock::new(|| {
    let schema: Arc<Schema> = Arc::new(parse_schema(SCHEMA_TEXT).expect("the schema is valid"));
    let mut options = JsonOptions::default();
    options.schema = Some(schema);
    let (schema, batches) = read_json_from(JSON_LINES.as_bytes(), &options).expect("the rows are valid JSON");
    Dataset::from_batches(schema, batches).expect("the batches have the schema")
});

libfuzzer_sys::fuzz_target!(|text: &str| {
    let dataset = &*DATASET;
    let Ok(predicate) = parse_condition(text, dataset.schema()) else { return };
    let matching = match dataset.filter(&predicate) {
        Ok(matching) => matching,
        // A number computed from the rows may be too large, which only evaluation finds out.
        Err(error) if error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("does not fit") => return,
        Err(error) => panic!("a parsed condition can't be evaluated: {error}"),
    };
    let not_matching = dataset.filter(&!predicate).expect("the negated condition can be evaluated");
    // Nulls satisfy neither, so the sum may be smaller than the number of rows.
    assert!(count_rows(&matching) + count_rows(&not_matching) <= ROW_COUNT);
});

fn count_rows(dataset: &Dataset) -> u64 {
    dataset.len().expect("a filtered dataset knows its length")
}
