//! Bounds the memory that rows in a text will take, before the text is parsed. The bounds hold for any text.

use arrow_schema::{DataType, Schema, UnionMode};

/// The maximum number of bytes that refer to a value elsewhere: a view, or the offset and size of a list.
const MAX_POINTER_BYTES: usize = 16;
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Returns the bytes of a null or empty row of this type in an array.
fn row_bytes(data_type: &DataType) -> u64 {
    use DataType::*;
    // A bit of validity counts as a byte.
    1 + match data_type {
        // Arrow has no negative sizes, and refuses arrays with them.
        FixedSizeBinary(size) => (*size).max(0) as u64,
        FixedSizeList(item, size) => ((*size).max(0) as u64).saturating_mul(row_bytes(item.data_type())),
        Struct(fields) => sum(fields.iter().map(|field| row_bytes(field.data_type()))),
        Union(members, UnionMode::Sparse) => sum(members.iter().map(|(_, member)| row_bytes(member.data_type()))),
        Dictionary(keys, _) => row_bytes(keys),
        other => other.primitive_width().unwrap_or(MAX_POINTER_BYTES) as u64,
    }
}

/// Returns the bytes of one item of each list in the type, all together; 0 if it has no lists.
fn item_bytes(data_type: &DataType) -> u64 {
    use DataType::*;
    match data_type {
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) | Map(item, _) => {
            row_bytes(item.data_type()).saturating_add(item_bytes(item.data_type()))
        }
        FixedSizeList(item, _) => item_bytes(item.data_type()),
        Struct(fields) => sum(fields.iter().map(|field| item_bytes(field.data_type()))),
        Union(members, _) => sum(members.iter().map(|(_, member)| item_bytes(member.data_type()))),
        _ => 0,
    }
}

/// Returns true if the type contains maps, whose items are members of objects in JSON.
fn has_maps(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Map(..))
        || arrowwood::layout::children(data_type).into_iter().any(|child| has_maps(child.data_type()))
}

fn sum(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(0, u64::saturating_add)
}

/// The maximum number of rows in a text, and the maximum bytes of their arrays without the values of strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SizeBound {
    pub rows: u64,
    pub bytes: u64,
}

impl SizeBound {
    /// Bounds `rows` null or empty rows.
    pub fn for_rows(rows: u64, schema: &Schema) -> SizeBound {
        let row = sum(schema.fields().iter().map(|field| row_bytes(field.data_type())));
        SizeBound { rows, bytes: rows.saturating_mul(row) }
    }

    /// Adds two bounds.
    pub fn and(self, other: SizeBound) -> SizeBound {
        SizeBound { rows: self.rows.saturating_add(other.rows), bytes: self.bytes.saturating_add(other.bytes) }
    }

    /// Bounds lines of CSV.
    pub fn for_csv(text: &[u8], schema: &Schema) -> SizeBound {
        let line_ends = text.windows(2).filter(|pair| pair[0] == b'\n' || pair[0] == b'\r' && pair[1] != b'\n');
        SizeBound::for_rows(line_ends.count() as u64 + 1, schema)
    }

    /// Bounds objects of JSON, in lines or in an array.
    pub fn for_json(text: &[u8], schema: &Schema) -> SizeBound {
        let item_bytes = sum(schema.fields().iter().map(|field| item_bytes(field.data_type())));
        // The reader skips white space and byte order marks before it decides.
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace() && !BYTE_ORDER_MARK.contains(byte));
        let is_array = first == Some(&b'[');
        if !is_array && item_bytes == 0 {
            let lines = text.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
            return SizeBound::for_rows(lines, schema);
        }
        let counts = if is_array { JsonCounts::from_text(text) } else { JsonCounts::from_lines(text) };
        let has_maps = schema.fields().iter().any(|field| has_maps(field.data_type()));
        let items = counts.items + if has_maps { counts.members } else { 0 };
        let SizeBound { rows, bytes } = SizeBound::for_rows(counts.objects, schema);
        SizeBound { rows, bytes: bytes.saturating_add(items.saturating_mul(item_bytes)) }
    }
}

/// The maximum numbers of values in a text of JSON.
#[derive(Debug, Default)]
struct JsonCounts {
    /// The number of objects in no other object.
    objects: u64,
    /// The number of items of arrays.
    items: u64,
    /// The number of members of objects.
    members: u64,
}

/// An open bracket in a text of JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Array,
    Object,
}

impl JsonCounts {
    fn from_text(text: &[u8]) -> JsonCounts {
        let mut counts = JsonCounts::default();
        let mut open = Vec::new();
        let mut open_objects = 0u64;
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => skip_string(&mut bytes),
                b'{' => {
                    counts.objects += u64::from(open_objects == 0);
                    counts.members += 1;
                    open_objects += 1;
                    open.push(Bracket::Object);
                }
                b'[' => {
                    counts.items += 1;
                    open.push(Bracket::Array);
                }
                b'}' | b']' => open_objects -= u64::from(open.pop() == Some(Bracket::Object)),
                b',' if open.last() == Some(&Bracket::Array) => counts.items += 1,
                b',' => counts.members += 1,
                _ => (),
            }
        }
        counts
    }

    /// Counts each line by itself. A faulty line hides nothing in others, which may be parsed before the fault is
    /// found.
    fn from_lines(text: &[u8]) -> JsonCounts {
        let mut total = JsonCounts::default();
        for line in text.split(|&byte| byte == b'\n') {
            let counts = JsonCounts::from_text(line);
            total.objects += counts.objects;
            total.items += counts.items;
            total.members += counts.members;
        }
        total
    }
}

/// Advances past the closing quote of a string.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, Fields};

    use super::*;

    fn schema(types: Vec<DataType>) -> Schema {
        let fields = types.into_iter().enumerate();
        Schema::new(
            fields.map(|(number, data_type)| Field::new(number.to_string(), data_type, true)).collect::<Fields>(),
        )
    }

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", item, true)))
    }

    #[test]
    fn row_size_includes_all_members() {
        let wide = DataType::Struct((0..1000).map(|n| Field::new(n.to_string(), DataType::Int64, true)).collect());
        assert_eq!(row_bytes(&wide), 9001);
        assert_eq!(row_bytes(&DataType::FixedSizeBinary(1_000_000)), 1_000_001);
        let blobs = DataType::FixedSizeList(Arc::new(Field::new("item", DataType::FixedSizeBinary(1000), true)), 1000);
        assert_eq!(row_bytes(&blobs), 1_001_001);
        assert_eq!(SizeBound::for_rows(1, &schema(vec![DataType::Boolean, wide])).bytes, 9001 + 17);
    }

    #[test]
    fn objects_are_counted_in_lines_and_arrays() {
        let numbers = schema(vec![DataType::Int64]);
        let rows = |text: &str| SizeBound::for_json(text.as_bytes(), &numbers).rows;
        assert_eq!(rows("{}\n{}\n"), 3);
        assert_eq!(rows("[{},{},{}]"), 3);
        assert_eq!(rows("\u{feff}[{},{},{}]"), 3);
        assert_eq!(rows("\n\u{feff} \u{feff}[{},{}]"), 2);
        assert_eq!(rows(" [{\"a\": \"}{ \\\" {\"}, {\"b\": {\"c\": [{}, {}]}}]"), 2);
        assert_eq!(SizeBound::for_csv(b"a,b\r1,2\r3,4\r", &numbers).rows, 3);
        assert_eq!(SizeBound::for_csv(b"a,b\r\n1,2\r\n3,4\r\n", &numbers).rows, 3);
    }

    /// Several threads parse lines, so lines after an invalid one may be read, too.
    #[test]
    fn invalid_lines_do_not_hide_others() {
        let lists = schema(vec![list(DataType::Int64)]);
        for faulty in ["{\"0", "{\"0\":[{{{", "]]]}}"] {
            let text = format!("{faulty}\n{}", "{\"0\":[1,2]}\n".repeat(10));
            let SizeBound { rows, bytes } = SizeBound::for_json(text.as_bytes(), &lists);
            assert!(rows >= 10 && bytes >= 10 * 17 + 20 * 9, "{faulty}: {rows} rows, {bytes} bytes");
        }
    }

    #[test]
    fn list_items_count_with_their_members() {
        let wide = DataType::Struct((0..10).map(|n| Field::new(n.to_string(), DataType::Int64, true)).collect());
        let lists = schema(vec![list(wide)]);
        let weight = SizeBound::for_json(b"{\"0\":[{},{},{}]}", &lists);
        assert_eq!(weight, SizeBound { rows: 1, bytes: 17 + 3 * 91 });
        assert_eq!(SizeBound::for_json(b"{\"0\":[\",,,\"]}", &schema(vec![list(DataType::Utf8)])).bytes, 17 + 17);
        let map = DataType::Map(
            Arc::new(Field::new(
                "entries",
                DataType::Struct(
                    vec![Field::new("k", DataType::Utf8, false), Field::new("v", DataType::Int64, true)].into(),
                ),
                false,
            )),
            false,
        );
        assert!(SizeBound::for_json(b"{\"0\":{\"a\":1,\"b\":2}}", &schema(vec![map])).bytes >= 17 + 2 * 27);
    }
}
