//! Decodes the body of a request: rows as Arrow streams and files, JSON lines, CSV; the schema of a new table.

use std::io::Cursor;
use std::time::Duration;

use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema, SchemaRef, UnionMode};
use arrowwood::{
    Bytes, CsvOptions, Dataset, Error, JsonOptions, OpenOptions, Result, parse_schema, read_json_from, stream_csv,
};

use super::expanded_size::{copied_bytes, may_grow};
use super::size_bound::SizeBound;
use crate::http::{Problem, media_type};
use crate::ops::Limits;

/// The buffers of an array of list views.
const VIEW_OFFSETS: usize = 0;
const VIEW_SIZES: usize = 1;
/// The buffers of an array of a dense union.
const UNION_IDS: usize = 0;
const UNION_OFFSETS: usize = 1;

/// The format of sent rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Arrow,
    JsonLines,
    Csv,
}

impl BodyFormat {
    /// Returns the format of a body with this media type.
    pub fn from_content_type(content_type: Option<&str>) -> Result<BodyFormat, Problem> {
        match content_type.map(media_type).as_deref() {
            Some("application/vnd.apache.arrow.stream" | "application/vnd.apache.arrow.file") => Ok(BodyFormat::Arrow),
            Some("application/x-ndjson" | "application/jsonl" | "application/json") => Ok(BodyFormat::JsonLines),
            Some("text/csv") => Ok(BodyFormat::Csv),
            _ => {
                let detail = "Content-Type: application/vnd.apache.arrow.stream, application/vnd.apache.arrow.file, \
                              application/x-ndjson or text/csv is expected";
                let status = hyper::StatusCode::UNSUPPORTED_MEDIA_TYPE;
                Err(Problem::new(status, "unsupported_media_type", detail))
            }
        }
    }
}

/// The columns of a table to be created.
#[derive(Clone, Debug)]
pub(crate) struct RequestedSchema {
    pub schema: Schema,
    /// True if the schema is complete. Text has neither the metadata of columns nor the order of categories.
    is_complete: bool,
}

impl RequestedSchema {
    /// Parses the body of a request: an Arrow stream or file without rows, or text.
    ///
    /// # Errors
    /// 400 if the body is no schema, or has rows.
    pub fn parse(body: Vec<u8>, content_type: Option<&str>) -> Result<RequestedSchema, Problem> {
        if let Ok(BodyFormat::Arrow) = BodyFormat::from_content_type(content_type) {
            let (schema, rows) = read_arrow_schema(body).map_err(|e| Problem::bad_request(e.message()))?;
            if rows > 0 {
                let detail = format!("a table is created without rows, and there are {rows}; append them to it");
                return Err(Problem::bad_request(detail));
            }
            return Ok(RequestedSchema { schema: schema.as_ref().clone(), is_complete: true });
        }
        let text = String::from_utf8(body).map_err(|_| Problem::bad_request("the schema is not UTF-8"))?;
        let schema = parse_schema(&text).map_err(|e| Problem::bad_request(e.message()))?;
        Ok(RequestedSchema { schema, is_complete: false })
    }

    /// Returns true if a table created with these columns, and the columns in `dictionary` encoded as dictionaries, has
    /// the schema `existing`.
    pub fn matches(&self, existing: &Schema, dictionary: &[String]) -> bool {
        let encoded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        existing.fields().len() == self.schema.fields().len()
            && existing.fields().iter().zip(self.schema.fields()).all(|(existing, requested)| {
                let is_encoded = dictionary.contains(requested.name());
                let data_type = if is_encoded { &encoded } else { requested.data_type() };
                let has_same_details = existing.metadata() == requested.metadata()
                    && existing.dict_is_ordered() == requested.dict_is_ordered();
                existing.name() == requested.name()
                    && existing.data_type() == data_type
                    && existing.is_nullable() == requested.is_nullable()
                    && (has_same_details || !self.is_complete)
            })
    }
}

/// Reads the schema and the number of rows of an Arrow stream or file.
fn read_arrow_schema(body: Vec<u8>) -> Result<(SchemaRef, u64)> {
    let rows = OpenOptions::new().bytes(Bytes::from(body))?;
    Ok((rows.schema().clone(), rows.len()?))
}

/// Returns the approximate memory in bytes of the rows of a body: a line of JSON may be short, and its row long.
///
/// # Errors
/// [`Error::is_limit`] if it exceeds `limits`.
pub(crate) fn cost(body: &[u8], form: BodyFormat, schema: &Schema, limits: &Limits) -> Result<u64> {
    let bound = match form {
        BodyFormat::Arrow => return Ok(body.len() as u64),
        BodyFormat::JsonLines => SizeBound::for_json(body, schema),
        BodyFormat::Csv => SizeBound::for_csv(body, schema),
    };
    let bytes = bound.bytes.saturating_add(body.len() as u64);
    check_bound(SizeBound { bytes, ..bound }, limits)?;
    Ok(bytes)
}

/// Refuses rows that would take more memory than the rows of one body may take.
///
/// # Errors
/// [`Error::is_limit`] if they exceed `limits`.
pub(crate) fn check_bound(SizeBound { rows, bytes }: SizeBound, limits: &Limits) -> Result<()> {
    let (max_bytes, max_rows) = limits.rows;
    if rows > max_rows || bytes > max_bytes {
        return Err(too_many(&format!(
            "{rows} rows, which would take about {bytes} bytes; at most {max_rows} rows and {max_bytes} bytes are \
             taken at once"
        )));
    }
    Ok(())
}

/// Decodes the rows of a body, for a table of `schema`; every value is checked.
///
/// # Errors
/// Any problem with the rows; [`Error::is_limit`] if they would exceed `limits`.
pub(crate) fn decode(body: Vec<u8>, form: BodyFormat, schema: &SchemaRef, limits: &Limits) -> Result<Dataset> {
    match form {
        BodyFormat::Arrow => {
            let rows = OpenOptions::new().max_decompressed_bytes(limits.unpacked as u64).bytes(Bytes::from(body))?;
            check_size(&rows, schema, limits)?;
            rows.validate(|_, _| ())?;
            Ok(rows)
        }
        BodyFormat::JsonLines => {
            let mut options = JsonOptions::default();
            options.schema = Some(schema.clone());
            options.refuse_unknown = true;
            let (schema, batches) = read_json_from(&body[..], &options)?;
            Dataset::from_batches(schema, batches)
        }
        BodyFormat::Csv => {
            let mut options = CsvOptions::default();
            options.schema = Some(schema.clone());
            // Unlike `read_csv_from` it accepts no columns other than the table's.
            let rows = stream_csv(Cursor::new(body), &options, Duration::MAX)?;
            let schema = rows.schema().clone();
            Dataset::from_batches(schema, rows.collect::<Result<Vec<_>>>()?)
        }
    }
}

/// Refuses rows that would take far more memory or disk in the table than in the body: keys, views and runs may all
/// refer to the same long value, list views and dense unions to the same items.
fn check_size(rows: &Dataset, schema: &Schema, limits: &Limits) -> Result<()> {
    let (max_bytes, _) = limits.rows;
    let count = rows.len()?;
    // Columns that were not sent are null, and take memory too.
    check_bound(SizeBound::for_rows(count, schema), limits)?;
    let mut bytes = 0u64;
    for (number, field) in rows.schema().fields().iter().enumerate() {
        let Some((_, wanted)) = schema.column_with_name(field.name()) else { continue };
        if !may_grow(wanted.data_type(), field.data_type()) && !may_share_items(field.data_type()) {
            continue;
        }
        let name = field.name();
        for chunk in rows.column_at(number)?.chunks()? {
            if !has_items_in_order(&chunk) {
                let message = format!(
                    "column '{name}': list views that overlap, or members of a dense union, that are not in the order \
                     of their rows; send lists, or a sparse union"
                );
                return Err(Error::new(arrowwood::ErrorKind::InvalidArgument, message));
            }
            bytes = bytes.saturating_add(copied_bytes(wanted.data_type(), &chunk, max_bytes));
            if bytes > max_bytes {
                return Err(too_many(&format!("column '{name}' would take more than {max_bytes} bytes in the table")));
            }
        }
    }
    Ok(())
}

/// Returns true if rows of this type may share items: if it has list views or dense unions inside.
fn may_share_items(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        ListView(_) | LargeListView(_) | Union(_, UnionMode::Dense) => true,
        List(item) | LargeList(item) | FixedSizeList(item, _) | Map(item, _) => may_share_items(item.data_type()),
        Struct(fields) => fields.iter().any(|field| may_share_items(field.data_type())),
        Union(members, _) => members.iter().any(|(_, member)| may_share_items(member.data_type())),
        Dictionary(_, values) => may_share_items(values),
        RunEndEncoded(_, values) => may_share_items(values.data_type()),
        _ => false,
    }
}

/// Returns true if the items of list views, and the members of dense unions, are in the order of their rows: then no
/// two rows share one.
fn has_items_in_order(array: &ArrayData) -> bool {
    let is_in_order = match array.data_type() {
        DataType::ListView(_) => has_views_in_order(array, size_of::<i32>()),
        DataType::LargeListView(_) => has_views_in_order(array, size_of::<i64>()),
        DataType::Union(_, UnionMode::Dense) => has_members_in_order(array),
        _ => true,
    };
    is_in_order && array.child_data().iter().all(has_items_in_order)
}

/// Returns true if each list view begins at or after the end of the one before. Offsets and sizes have `width` bytes.
fn has_views_in_order(array: &ArrayData, width: usize) -> bool {
    let mut end = 0;
    for row in 0..array.len() {
        match (number_at(array, VIEW_OFFSETS, row, width), number_at(array, VIEW_SIZES, row, width)) {
            // An empty view may be anywhere.
            (Some(_), Some(0)) => (),
            (Some(start), Some(size)) if start >= end => end = start.saturating_add(size),
            _ => return false,
        }
    }
    true
}

/// Returns true if the offsets of a dense union increase in each member.
fn has_members_in_order(array: &ArrayData) -> bool {
    // The offset after the last one of each member, by its identifier, which is a byte.
    let mut ends = [0; 1 << u8::BITS];
    for row in 0..array.len() {
        let id = number_at(array, UNION_IDS, row, size_of::<i8>());
        let offset = number_at(array, UNION_OFFSETS, row, size_of::<i32>());
        let (Some(id), Some(offset)) = (id, offset) else { return false };
        let next = &mut ends[id as usize];
        if offset < *next {
            return false;
        }
        *next = offset + 1;
    }
    true
}

/// Reads the number of `width` bytes of a row; `None` if the buffer is too short.
fn number_at(array: &ArrayData, buffer: usize, row: usize, width: usize) -> Option<u64> {
    debug_assert!(width <= size_of::<u64>(), "a number of {width} bytes");
    let start = (array.offset() + row).checked_mul(width)?;
    let bytes = array.buffers().get(buffer)?.get(start..start.checked_add(width)?)?;
    let mut word = [0; size_of::<u64>()];
    word[..width].copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

fn too_many(what: &str) -> Error {
    Error::limit(format!("{what}; send several requests"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::{Int8Type, Int64Type};
    use arrow_array::*;
    use arrow_schema::Field;
    use arrowwood::{ErrorKind, Format, WriteOptions, write_to};

    use super::*;

    fn sent(column: ArrayRef, compression: Option<arrowwood::Compression>) -> Vec<u8> {
        let batch = RecordBatch::try_from_iter([("c", column)]).unwrap();
        let mut bytes = Vec::new();
        let options = WriteOptions { format: Format::Stream, compression, ..WriteOptions::default() };
        write_to(&Dataset::try_from(vec![batch]).unwrap(), &mut bytes, &options).unwrap();
        bytes
    }

    fn schema(text: &str) -> SchemaRef {
        Arc::new(arrowwood::parse_schema(text).unwrap())
    }

    fn limits() -> Limits {
        Limits { unpacked: 1 << 20, rows: (1 << 20, 100_000), ..Limits::default() }
    }

    #[test]
    fn rows_of_all_formats_are_equal() {
        let schema = schema("n: int, word: text");
        let json = "{\"n\":1,\"word\":\"a\"}\n{\"word\":null,\"n\":2}\n";
        let csv = "word,n\na,1\n,2\n";
        let rows = |text: &str, form| {
            let rows = decode(text.as_bytes().to_vec(), form, &schema, &limits()).unwrap();
            rows.rows()
                .map(|row| row.unwrap().iter().map(|(_, v)| v.unwrap().to_string()).collect())
                .collect::<Vec<Vec<_>>>()
        };
        assert_eq!(rows(json, BodyFormat::JsonLines), rows(csv, BodyFormat::Csv));
        assert_eq!(rows(json, BodyFormat::JsonLines)[1], ["2", "null"]);
        for (text, form) in
            [("{\"x\":1}", BodyFormat::JsonLines), ("n,word,x\n1,a,2\n", BodyFormat::Csv), ("n\n1\n", BodyFormat::Csv)]
        {
            assert!(decode(text.as_bytes().to_vec(), form, &schema, &limits()).is_err(), "{text}");
        }
    }

    #[test]
    fn amplifying_encodings_are_refused() {
        let refused = |bytes: Vec<u8>, text: &str| {
            let e = decode(bytes, BodyFormat::Arrow, &schema(text), &limits()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
            e.to_string()
        };
        let long = "x".repeat(100_000);
        let keys = Int8Array::from(vec![0; 1_000]);
        let dictionary: ArrayRef =
            Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(vec![long.clone()]))));
        assert!(refused(sent(dictionary.clone(), None), "c: text").contains("column 'c'"));
        // Stored as dictionary keys, they take no more memory than before.
        assert_eq!(
            decode(sent(dictionary, None), BodyFormat::Arrow, &schema("c: category"), &limits())
                .unwrap()
                .len()
                .unwrap(),
            1_000
        );
        let mut builder = arrow_array::builder::StringViewBuilder::new().with_deduplicate_strings();
        (0..1_000).for_each(|_| builder.append_value(&long));
        let views: ArrayRef = Arc::new(builder.finish());
        assert!(refused(sent(views, None), "c: text").contains("column 'c'"));
        let runs = |end: i64, values: &dyn Array| -> ArrayRef {
            Arc::new(RunArray::<Int64Type>::try_new(&Int64Array::from(vec![end]), values).unwrap())
        };
        let one = Int64Array::from(vec![7]);
        assert!(refused(sent(runs(1 << 40, &one), None), "c: int").contains("rows"));
        assert!(
            refused(sent(runs(1_000, &StringArray::from(vec![long.clone()])), None), "c: text").contains("column 'c'")
        );
        // Rows that share one long list, by run-end or dictionary encoding.
        let item = |data_type: DataType| Arc::new(Field::new("item", data_type, true));
        let list = |items: ArrayRef| -> ArrayRef {
            let offsets = arrow_buffer::OffsetBuffer::new(vec![0, items.len() as i64].into());
            Arc::new(LargeListArray::new(item(items.data_type().clone()), offsets, items, None))
        };
        assert!(refused(sent(list(runs(1 << 40, &one)), None), "c: large_list<int64>").contains("column 'c'"));
        let items: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
        assert!(refused(sent(runs(1_000, &list(items.clone())), None), "c: large_list<int64>").contains("column 'c'"));
        let lists: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0; 1_000]), list(items)));
        assert!(refused(sent(lists, None), "c: large_list<int64>").contains("column 'c'"));
        let few = decode(sent(runs(1_000, &one), None), BodyFormat::Arrow, &schema("c: int"), &limits()).unwrap();
        assert_eq!(few.len().unwrap(), 1_000);
        // A dictionary of views into the same text, each of another part: separate entries in the table's dictionary.
        let mut views = arrow_array::builder::StringViewBuilder::new();
        let block = views.append_block(long.into_bytes().into());
        (0..100).for_each(|start| views.try_append_view(block, start, 99_000).unwrap());
        let views: ArrayRef = Arc::new(views.finish());
        let views = DictionaryArray::<Int8Type>::new(Int8Array::from_iter_values(0..100), views);
        assert!(refused(sent(Arc::new(views), None), "c: category").contains("column 'c'"));
        let many: ArrayRef = Arc::new(BooleanArray::from(vec![true; 100_001]));
        assert!(refused(sent(many, None), "c: bool").contains("100001 rows"));
        let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; 90_000 * 2]));
        assert!(refused(sent(zeros, Some(arrowwood::Compression::Zstd)), "c: int").contains("rows"));
        let zeros: ArrayRef = Arc::new(arrow_array::Decimal256Array::from(vec![arrow_buffer::i256::ZERO; 90_000]));
        assert!(refused(sent(zeros, Some(arrowwood::Compression::Lz4)), "c: int").contains("compressed"));
    }

    /// A thousand rows that share one long list, or one member, would become a thousand copies in the table.
    #[test]
    fn rows_with_shared_values_are_refused() {
        let items = Arc::new(Int64Array::from_iter_values(0..1_000));
        let item = Arc::new(Field::new("item", DataType::Int64, true));
        let views = |starts: Vec<i32>, sizes: Vec<i32>| -> ArrayRef {
            Arc::new(ListViewArray::new(item.clone(), starts.into(), sizes.into(), items.clone(), None))
        };
        let members: arrow_schema::UnionFields = [(3, item.clone())].into_iter().collect();
        let union = |offsets: Vec<i32>| -> ArrayRef {
            let ids = vec![3i8; offsets.len()].into();
            Arc::new(UnionArray::try_new(members.clone(), ids, Some(offsets.into()), vec![items.clone()]).unwrap())
        };
        let sent_to_own = |column: ArrayRef| {
            let schema = Arc::new(Schema::new(vec![Field::new("c", column.data_type().clone(), true)]));
            decode(sent(column, None), BodyFormat::Arrow, &schema, &limits())
        };
        for shared in [views(vec![0; 500], vec![1_000; 500]), views(vec![5, 0], vec![5, 6]), union(vec![7; 500])] {
            let e = sent_to_own(shared).unwrap_err();
            assert!(e.to_string().contains("column 'c': list views that overlap"), "{e}");
        }
        for straight in [views(vec![0, 10, 3], vec![10, 900, 0]), union((0..1_000).collect())] {
            let rows = straight.len() as u64;
            assert_eq!(sent_to_own(straight).unwrap().len().unwrap(), rows);
        }
    }

    /// A column of categories whose rows are all null.
    #[test]
    fn dictionaries_with_only_null_keys_need_no_values() {
        let keys = Int8Array::from(vec![None; 3]);
        let values: [ArrayRef; 2] =
            [Arc::new(StringArray::from(Vec::<&str>::new())), Arc::new(StringViewArray::from(Vec::<&str>::new()))];
        for values in values {
            let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(keys.clone(), values));
            assert_eq!(copied_bytes(&DataType::Utf8, &dictionary.to_data(), 1 << 20), 0);
            let rows = decode(sent(dictionary, None), BodyFormat::Arrow, &schema("c: text"), &limits()).unwrap();
            assert_eq!(rows.len().unwrap(), 3);
        }
    }

    #[test]
    fn short_lines_of_a_wide_table_are_counted_as_rows() {
        let wide: Vec<String> = (0..1_000).map(|number| format!("c{number}: int")).collect();
        let schema = schema(&wide.join(", "));
        let cost = |lines: usize| cost("{}\n".repeat(lines).as_bytes(), BodyFormat::JsonLines, &schema, &limits());
        assert!((90_000..100_000).contains(&cost(9).unwrap()));
        assert_eq!(cost(200).unwrap_err().kind(), ErrorKind::Unsupported);
        let none = size_of_empty_request();
        assert!(none < 100);
    }

    fn size_of_empty_request() -> u64 {
        cost(b"", BodyFormat::Csv, &schema("n: int"), &limits()).unwrap()
    }
}
