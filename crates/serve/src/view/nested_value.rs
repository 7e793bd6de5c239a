//! Renders a nested value as a tree, cut to the size of a page.

use arrowwood::Value;
use serde_json::{Value as Json, json};

use super::exact_text::{ExactText, exact};

/// The maximum number of values in a tree.
const MAX_VALUES: usize = 500;
/// The maximum depth of a tree.
const MAX_LEVELS: usize = 20;
/// The maximum number of characters of a value.
const MAX_VALUE_CHARS: usize = 1_000;

/// Returns the text of a value with all digits; a text that was cut ends with `…`.
fn value_text(value: &Value<'_>) -> String {
    match exact(value, MAX_VALUE_CHARS) {
        Ok(ExactText { text, is_whole: true }) => text,
        Ok(ExactText { text, .. }) => text + "…",
        Err(e) => e.message().to_owned(),
    }
}

/// Renders one nested value.
#[derive(Debug)]
pub(crate) struct TreeRenderer {
    /// How many more values may be rendered.
    values: usize,
    /// How many more levels may be rendered.
    levels: usize,
}

impl Default for TreeRenderer {
    fn default() -> TreeRenderer {
        TreeRenderer { values: MAX_VALUES, levels: MAX_LEVELS }
    }
}

impl TreeRenderer {
    /// Returns null, text, or `{"kind", "count", "items": [[name, value]]}`, whose items are the first of `count`.
    pub fn render(&mut self, value: &Value<'_>) -> Json {
        let (kind, count) = match value {
            Value::Null => return Json::Null,
            Value::List(items) => ("list", items.len()),
            Value::Map(items) => ("map", items.len()),
            Value::Struct(members) => ("struct", members.len()),
            Value::Union(_, member) => return self.render(member),
            other => return value_text(other).into(),
        };
        if self.levels == 0 {
            return value_text(value).into();
        }
        self.levels -= 1;
        let mut items = Vec::new();
        while items.len() < count && self.values > 0 {
            self.values -= 1;
            items.push(self.item(value, items.len()));
        }
        self.levels += 1;
        json!({"kind": kind, "count": count, "items": items})
    }

    /// Returns the name and the value of an item.
    fn item(&mut self, value: &Value<'_>, number: usize) -> Json {
        match value {
            Value::List(items) => json!([number.to_string(), self.render_result(items.get(number))]),
            Value::Struct(members) => {
                let name = members.iter().nth(number).map(|(field, _)| field.name().clone());
                json!([name, self.render_result(members.get(number))])
            }
            Value::Map(entries) => match entries.get(number) {
                Ok(Value::Struct(entry)) => {
                    let key = entry.get(0).map_or_else(|e| e.message().to_owned(), |key| value_text(&key));
                    json!([key, self.render_result(entry.get(1))])
                }
                other => json!([number.to_string(), self.render_result(other)]),
            },
            other => json!(["", self.render(other)]),
        }
    }

    fn render_result(&mut self, value: arrowwood::Result<Value<'_>>) -> Json {
        value.map_or_else(|e| json!({"error": e.message()}), |value| self.render(&value))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
    use arrow_schema::Field;
    use arrowwood::Dataset;

    use super::*;

    fn tree(array: ArrayRef, row: u64) -> Json {
        let batch = RecordBatch::try_from_iter_with_nullable([("n", array, true)]).unwrap();
        let rows = Dataset::try_from(vec![batch]).unwrap();
        TreeRenderer::default().render(&rows.row(row).unwrap().get(0).unwrap())
    }

    fn lists(rows: [i32; 3]) -> ArrayRef {
        let mut lists = ListBuilder::new(Int32Builder::new());
        rows.iter().for_each(|&count| lists.append_value((0..count).map(|n| (n != 1).then_some(n))));
        Arc::new(lists.finish())
    }

    #[test]
    fn nested_values_are_rendered_by_their_kind() {
        let expected = json!({"kind": "list", "count": 3, "items": [["0", "0"], ["1", null], ["2", "2"]]});
        assert_eq!(tree(lists([0, 3, 1]), 1), expected);
        let inner = lists([0, 3, 1]);
        let field = Arc::new(Field::new("<b>", inner.data_type().clone(), true));
        let group = tree(Arc::new(StructArray::from(vec![(field, inner)])), 1);
        assert_eq!(group, json!({"kind": "struct", "count": 1, "items": [["<b>", expected]]}));
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        maps.keys().append_value("null");
        maps.values().append_value(7);
        maps.append(true).unwrap();
        let map = tree(Arc::new(maps.finish()), 0);
        assert_eq!(map, json!({"kind": "map", "count": 1, "items": [["null", "7"]]}));
    }

    #[test]
    fn long_values_are_truncated() {
        let told = tree(lists([1, 100_000, 1]), 1);
        assert_eq!((&told["count"], told["items"].as_array().unwrap().len()), (&json!(100_000), MAX_VALUES));
    }
}
