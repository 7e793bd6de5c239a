//! Reads JSON lines, one object per row, or an array of such objects, into record batches.
//!
//! Types are inferred from all values of a column, so they are valid for the whole text: `true` and `false` are
//! `Boolean`, numbers `Int64`, `UInt64` or `Float64` (as in CSV: the first that represents all exactly), strings
//! `Date32` or `Timestamp` if all are dates or times as in CSV, `Float64` if they are `NaN`, `Infinity` or `-Infinity`
//! among numbers, else `Utf8`; lists are `List`, objects `Struct` with the members of all objects. A column of only
//! nulls is `Utf8`, and so is one without a common type: strings are kept, other values become their JSON text, digit
//! by digit. A column of only numbers without a common exact type is an error; give a schema.
//!
//! Missing members are null. Blank lines are skipped.
//!
//! The modules, each of which uses only those before it: `array` (converts an array to lines), `object` (reads lines
//! and their objects), `infer` (infers types), `fill` (fills columns).

mod array;
mod fill;
mod infer;
mod object;
mod options;

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};

use self::array::ArrayLines;
use self::fill::JsonColumns;
use self::infer::{InferredFields, infer_fields};
use self::object::Lines;
pub use self::options::JsonOptions;
use super::chunks::{CHUNK, Chunk, Chunks, RecordSplitter, read_all};
use super::columns::{check_batch_rows, check_dictionary, override_fields, stream_schema};
use super::parse::*;
use super::stream::{StreamParser, TextStream, read_error};
use crate::error::{Error, Result};
use crate::types::layout::children;

/// Reads all of `input`, one JSON object on each line or an array of objects, into record batches.
///
/// In errors, line 3 of an array is its third element.
///
/// ```
/// use arrowwood::{JsonOptions, read_json_from};
///
/// let text = r#"{"symbol": "AAPL", "price": 223.02}
/// {"symbol": "IBM"}"#;
/// let (schema, batches) = read_json_from(text.as_bytes(), &JsonOptions::default())?;
/// assert_eq!((schema.fields().len(), batches[0].num_rows()), (2, 2));
/// # Ok::<(), arrowwood::Error>(())
/// ```
///
/// # Errors
/// The errors of [`stream_json`].
pub fn read_json_from(input: impl Read, options: &JsonOptions) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let text = read_all(input).map_err(|e| read_error(READING, &e))?;
    let mut batches = TextBatches::default();
    let schema = read_json_in_order(&|| Ok(&text[..]), options, &mut batches)?;
    Ok((schema, batches.batches))
}

/// Reads a text, which `open` opens once or twice, and passes its record batches to `target` in order.
///
/// The memory needed does not depend on the text's length, unless there are columns to dictionary-encode. If types are
/// to be inferred, the text is parsed by the types of its beginning, and once more if a later value needs another type.
///
/// # Errors
/// The errors of [`read_json_from`] and of `target`.
pub fn read_json_in_order<R: Read + Send>(
    open: &dyn Fn() -> Result<R>,
    options: &JsonOptions,
    target: &mut dyn TextTarget,
) -> Result<SchemaRef> {
    read_in_order(open, options, target, CHUNK)
}

fn read_in_order<R: Read + Send>(
    open: &dyn Fn() -> Result<R>,
    options: &JsonOptions,
    target: &mut dyn TextTarget,
    chunk: usize,
) -> Result<SchemaRef> {
    check_batch_rows(options.batch_rows).map_err(reading)?;
    let parser = JsonChunkParser(options);
    if options.schema.is_none() && options.dictionary.is_empty() && options.schema_overrides.is_empty() {
        return parse_and_infer(&parser, line_chunks(open()?, chunk), || Ok(line_chunks(open()?, chunk)), target);
    }
    let (schema, passes) = match &options.schema {
        Some(schema) => (override_fields(schema, &options.schema_overrides).map_err(reading)?, ONE_PASS),
        None => (parser.schema(&infer_types(&parser, line_chunks(open()?, chunk), target)?)?, TWO_PASSES),
    };
    check_dictionary(&options.dictionary, &schema).map_err(reading)?;
    let chunks = line_chunks(open()?, chunk);
    if !options.dictionary.is_empty() || schema.fields().iter().any(|field| has_dictionary(field.data_type())) {
        return parse_in_sequence(chunks, &schema, options, target);
    }
    parse_all(&parser, chunks, &schema, passes, target)?;
    Ok(schema)
}

/// Divides a text of lines or of an array into chunks.
fn line_chunks<R: Read>(input: R, chunk: usize) -> Chunks<ArrayLines<R>, LineSplitter> {
    Chunks::new(ArrayLines::new(input), LineSplitter, READING, chunk)
}

struct JsonChunkParser<'a>(&'a JsonOptions);

impl JsonChunkParser<'_> {
    fn fill(&self, chunk: &Chunk, mut columns: JsonColumns) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        for line in Lines::new(&chunk.bytes, chunk.lines) {
            if columns.push(line?)? {
                batches.extend(columns.filling.take()?);
            }
        }
        batches.extend(columns.filling.take()?);
        Ok(batches)
    }
}

impl ChunkParser for JsonChunkParser<'_> {
    type Types = InferredFields;

    fn no_types(&self) -> InferredFields {
        InferredFields::with_overrides(&self.0.schema_overrides)
    }

    fn types(&self, chunk: &Chunk) -> Result<InferredFields> {
        infer_fields(self.no_types(), Lines::new(&chunk.bytes, chunk.lines)).map_err(reading)
    }

    fn merge(&self, types: &mut InferredFields, later: InferredFields) {
        types.merge(later);
    }

    fn schema(&self, types: &InferredFields) -> Result<SchemaRef> {
        let inferred = Arc::new(types.schema(&self.0.dictionary).map_err(reading)?);
        override_fields(&inferred, &self.0.schema_overrides).map_err(reading)
    }

    fn rows(&self, chunk: &Chunk, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
        let columns = JsonColumns::new(schema, self.0).map_err(reading)?;
        self.fill(chunk, columns).map_err(reading)
    }

    fn exact_rows(
        &self,
        chunk: &Chunk,
        schema: &SchemaRef,
        types: &InferredFields,
    ) -> Option<TypedBatches<InferredFields>> {
        let columns = JsonColumns::exact(schema, types, self.0.batch_rows).ok()?;
        let batches = self.fill(chunk, columns).ok()?;
        let mut types = types.clone();
        batches.iter().for_each(|batch| types.narrow(batch.columns()));
        Some(TypedBatches { batches, types })
    }
}

/// Parses chunks one after the other, with one dictionary for all batches.
fn parse_in_sequence(
    chunks: impl Iterator<Item = Result<Chunk>>,
    schema: &SchemaRef,
    options: &JsonOptions,
    target: &mut dyn TextTarget,
) -> Result<SchemaRef> {
    let mut columns = JsonColumns::new(schema, options).map_err(reading)?;
    for chunk in chunks {
        let chunk = chunk?;
        chunk.check_memory()?;
        for line in Lines::new(&chunk.bytes, chunk.lines) {
            if line.and_then(|line| columns.push(line)).map_err(reading)? {
                columns.filling.cut().map_err(reading)?;
            }
        }
    }
    columns.filling.cut().map_err(reading)?;
    let (schema, batches) = columns.filling.assemble().map_err(reading)?;
    target.begin(&schema)?;
    batches.into_iter().try_for_each(|batch| target.take(batch))?;
    Ok(schema)
}

fn has_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
        || children(data_type).into_iter().any(|child| has_dictionary(child.data_type()))
}

const READING: &str = "reading JSON lines";

fn reading(e: Error) -> Error {
    e.context(READING)
}

/// Finds the ends of lines, which are line feeds.
struct LineSplitter;

impl RecordSplitter for LineSplitter {
    fn find_end(&mut self, block: &[u8]) -> Option<usize> {
        memchr::memrchr(b'\n', block).map(|end| end + 1)
    }

    fn count_lines(&self, records: &[u8]) -> usize {
        memchr::memchr_iter(b'\n', records).count()
    }
}

/// Reads rows of [`JsonOptions::schema`] from `input` as they arrive.
///
/// A batch has at most [`JsonOptions::batch_rows`] rows. It is returned when it is full, at the end, or when no
/// more input is available and its first row has waited for `patience`, so that `input` may be the output of `tail -f`.
///
/// Each line is an object with any of the schema's columns, and no others. The objects may also be elements of an
/// array; errors count each element as a line. Strings are read as values of any type, as in CSV
/// ([`stream_csv`](crate::stream_csv)), except `Boolean`; numbers as any numeric type, and as the count of a timestamp
/// or time in its unit.
///
/// # Errors
/// `InvalidArgument` without a schema, or with columns to dictionary-encode, which the schema must declare;
/// `Unsupported` for types that can't be read from JSON. Other errors are returned as the last item: they name line,
/// column, value and type.
pub fn stream_json(input: impl Read + Send + 'static, options: &JsonOptions, patience: Duration) -> Result<TextStream> {
    let schema = stream_schema(&options.schema, &options.schema_overrides, &options.dictionary).map_err(reading)?;
    let options = JsonOptions { refuse_unknown: true, ..options.clone() };
    check_batch_rows(options.batch_rows).map_err(reading)?;
    let columns = JsonColumns::new(&schema, &options).map_err(reading)?;
    TextStream::new(ArrayLines::new(input), schema, Box::new(JsonStreamParser { columns, lines: 0 }), READING, patience)
}

/// Parses the lines of a text that arrives in blocks.
struct JsonStreamParser {
    columns: JsonColumns,
    /// The number of parsed lines.
    lines: usize,
}

impl StreamParser for JsonStreamParser {
    fn find_end(&mut self, block: &[u8]) -> Option<usize> {
        LineSplitter.find_end(block)
    }

    fn parse(&mut self, records: Vec<u8>, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let mut lines = Lines::new(&records, self.lines);
        for line in lines.by_ref() {
            if line.and_then(|line| self.columns.push(line)).map_err(reading)? {
                ready.extend(self.take()?);
            }
        }
        self.lines = lines.number();
        Ok(())
    }

    fn has_pending_rows(&self) -> bool {
        self.columns.filling.rows > 0
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        self.columns.filling.take().map_err(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, ErrorKind};
    use DataType::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::*;
    use arrow_array::{Array, ArrayRef};
    use arrow_schema::IntervalUnit::*;
    use arrow_schema::TimeUnit::*;
    use arrow_schema::{Field, Fields, Schema, UnionFields, UnionMode};
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    fn read(text: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        read_json_from(text.as_bytes(), &JsonOptions::default())
    }

    fn with_schema(fields: Vec<Field>) -> JsonOptions {
        JsonOptions { schema: Some(Arc::new(Schema::new(fields))), ..JsonOptions::default() }
    }

    /// Returns lines of objects with the values of the member `a`.
    fn lines(values: &[&str]) -> String {
        values.iter().map(|value| format!("{{\"a\": {value}}}\n")).collect()
    }

    /// Reads values of the column `a` as a type.
    fn read_typed(values: &[&str], data_type: DataType) -> Result<ArrayRef> {
        let options = with_schema(vec![Field::new("a", data_type.clone(), true)]);
        let (schema, batches) = read_json_from(lines(values).as_bytes(), &options)?;
        assert_eq!((schema.field(0).data_type(), batches[0].column(0).data_type()), (&data_type, &data_type));
        Ok(batches[0].column(0).clone())
    }

    #[track_caller]
    fn assert_error(text: impl AsRef<[u8]>, options: &JsonOptions, parts: &[&str]) {
        let error = read_json_from(text.as_ref(), options).unwrap_err();
        for part in ["reading JSON lines"].iter().chain(parts) {
            assert!(error.message().contains(part), "{part:?} not in: {error}");
        }
    }

    /// Returns the rows as JSON objects.
    fn rows(schema: SchemaRef, batches: Vec<RecordBatch>) -> Vec<Json> {
        let dataset = Dataset::from_batches(schema, batches).unwrap();
        let object = |row: crate::Row<'_>| {
            row.iter().map(|(name, value)| (name.to_string(), value.unwrap().to_json().unwrap())).collect::<Json>()
        };
        dataset.rows().map(|row| object(row.unwrap())).collect()
    }

    #[test]
    fn infers_the_first_type_that_holds_all_values() {
        let zoned = Timestamp(Microsecond, Some("UTC".into()));
        let list = |item| DataType::new_list(item, true);
        let structs = |members: &[(&str, DataType)]| {
            Struct(members.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect())
        };
        let cases: &[(&[&str], DataType)] = &[
            (&["null"], Utf8),
            (&["true", "null", "false"], Boolean),
            (&["1", "-9223372036854775808"], Int64),
            (&["18446744073709551615", "0"], UInt64),
            (&["1", "2.5", "1e300", "\"NaN\"", "\"-Infinity\""], Float64),
            (&["1", "18446744073709551616", "\"x\""], Utf8),
            (&["\"NaN\"", "\"Infinity\""], Utf8),
            (&["\"NaN\"", "null"], Utf8),
            (&["\"x\"", "\"\""], Utf8),
            (&["\"1\""], Utf8),
            (&["\"true\"", "true"], Utf8),
            (&["\"2024-02-29\""], Date32),
            (&["\"2024-02-29T12:00:00\"", "\"1969-12-31 23:59:59.999999\""], Timestamp(Microsecond, None)),
            (&["\"2024-02-29T12:00:00Z\"", "\"2024-02-29T12:00:00+05:30\""], zoned),
            (&["\"2024-02-29T12:00:00Z\"", "\"soon\""], Utf8),
            (&["[]"], list(Utf8)),
            (&["[1, null]", "[]", "[2.5]"], list(Float64)),
            (&["[[1]]", "[[], null]"], list(list(Int64))),
            (&["[1]", "1"], Utf8),
            (&["{}", "[]"], Utf8),
            (&["{\"b\": 1}", "{\"c\": {\"d\": true}}"], structs(&[("b", Int64), ("c", structs(&[("d", Boolean)]))])),
            (&["[{\"b\": 1}, {\"b\": null}]"], list(structs(&[("b", Int64)]))),
        ];
        for (values, expected) in cases {
            let (schema, _) = read(&lines(values)).unwrap_or_else(|e| panic!("{values:?}: {e}"));
            assert_eq!(schema.field(0).data_type(), expected, "{values:?}");
        }
    }

    #[test]
    fn numbers_that_fit_no_type_are_rejected() {
        for values in
            [&["1", "18446744073709551616"][..], &["2.5", "9007199254740993"], &["1e999"], &["1e999", "\"NaN\""]]
        {
            assert_error(lines(values), &JsonOptions::default(), &["column `a`", "no type holds", "schema"]);
            let texts = read_typed(&values[..1], Float64).map(|array| array.len());
            assert!(texts.is_ok() || values[0] == "1e999");
        }
        assert_error("{\"a\": {\"b\": [1, 1e999]}}", &JsonOptions::default(), &["column `a.b[]`"]);
    }

    #[test]
    fn values_without_a_common_type_keep_their_text() {
        let (_, batches) = read(&lines(&["18446744073709551616", "\"x\"", "[1, 2]", "true", "null", "1.50"])).unwrap();
        let texts: Vec<_> = batches[0].column(0).as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("18446744073709551616"), Some("x"), Some("[1, 2]"), Some("true"), None, Some("1.50")]);
    }

    #[test]
    fn members_may_be_missing_and_in_any_order() {
        let (schema, batches) = read("{\"a\": 1}\n\n{\"b\": [\"x\"], \"a\": null}\r\n  {}  \n{\"b\": null}").unwrap();
        let expected = [json!({"a": 1, "b": null}), json!({"a": null, "b": ["x"]})];
        let none = json!({"a": null, "b": null});
        assert_eq!(rows(schema, batches), [expected.to_vec(), vec![none.clone(), none]].concat());
        let (schema, batches) = read("").unwrap();
        assert!(schema.fields().is_empty() && batches.is_empty());
        assert_eq!(read("\u{feff}{}\n{}").unwrap().1[0].num_rows(), 2);
    }

    #[test]
    fn batches_and_dictionaries() {
        let options = JsonOptions { batch_rows: 2, dictionary: vec!["a".into()], ..JsonOptions::default() };
        let text = lines(&["\"x\"", "\"y\"", "null", "\"x\"", "\"2024-01-01\""]);
        let (schema, batches) = read_json_from(text.as_bytes(), &options).unwrap();
        assert_eq!(schema.field(0).data_type(), &Dictionary(Box::new(Int8), Box::new(Utf8)));
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2, 1]);
        let dictionary = |i: usize| batches[i].column(0).as_any_dictionary().values().clone();
        assert!(Arc::ptr_eq(&dictionary(0), &dictionary(2)));
        assert_error(&text, &JsonOptions { dictionary: vec!["b".into()], ..options.clone() }, &["`b`", "`a`"]);
        assert_error(&text, &JsonOptions { batch_rows: 0, ..options }, &["batch_rows"]);
    }

    #[test]
    fn overrides_set_the_types_of_single_columns() {
        let overrides = |field| JsonOptions { schema_overrides: Fields::from(vec![field]), ..JsonOptions::default() };
        let text = "{\"id\": 1, \"big\": 18446744073709551616}\n{\"id\": 2, \"big\": null, \"late\": [1]}\n";
        let kinds = |options: &JsonOptions| {
            let (schema, _) = read_json_from(text.as_bytes(), options).unwrap();
            schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>()
        };
        let ints = DataType::new_list(Int64, true);
        let decimal = overrides(Field::new("big", Decimal128(20, 0), true));
        assert_eq!(kinds(&decimal), [Int64, Decimal128(20, 0), ints]);
        let text_of_numbers = overrides(Field::new("big", Utf8, true));
        let (_, batches) = read_json_from(text.as_bytes(), &text_of_numbers).unwrap();
        assert_eq!(batches[0].column(1).as_string::<i32>().value(0), "18446744073709551616");
        let late = JsonOptions {
            dictionary: vec!["big".into()],
            ..overrides(Field::new("late", DataType::new_large_list(Int8, true), true))
        };
        assert_eq!(kinds(&late)[2], DataType::new_large_list(Int8, true));
        let unknown = read_json_from(lines(&["1"]).as_bytes(), &overrides(Field::new("b", Utf8, true))).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::ColumnNotFound);
        assert_error(lines(&["1"]), &overrides(Field::new("a", Boolean, true)), &["line 1", "`a`", "bool"]);
    }

    #[test]
    fn schemas_may_have_every_type() {
        let ints = read_typed(&["-128", "\"127\"", "null"], Int8).unwrap();
        assert_eq!(ints.as_primitive::<Int8Type>().iter().collect::<Vec<_>>(), [Some(-128), Some(127), None]);
        let floats = read_typed(&["1", "0.1", "\"-inf\""], Float32).unwrap();
        assert_eq!(floats.as_primitive::<Float32Type>().values(), &[1.0, 0.1, f32::NEG_INFINITY]);
        let half = read_typed(&["1.5"], Float16).unwrap();
        assert_eq!(half.as_primitive::<Float16Type>().value(0).to_f32(), 1.5);
        assert!(read_typed(&["true"], Boolean).unwrap().as_boolean().value(0));
        let decimals =
            read_typed(&["1.5", "\"-12.34\"", "1e3", "0.1200", "-0.0e9", "\".5\""], Decimal128(6, 2)).unwrap();
        assert_eq!(decimals.as_primitive::<Decimal128Type>().values(), &[150, -1234, 100_000, 12, 0, 50]);
        assert_eq!(read_typed(&["99.9"], Decimal32(3, 1)).unwrap().as_primitive::<Decimal32Type>().value(0), 999);
        assert_eq!(read_typed(&["-12300"], Decimal64(3, -2)).unwrap().as_primitive::<Decimal64Type>().value(0), -123);
        assert_eq!(read_typed(&["\"1970-01-02\""], Date32).unwrap().as_primitive::<Date32Type>().value(0), 1);
        let seconds = read_typed(&["\"01:00:01\"", "5"], Time32(Second)).unwrap();
        assert_eq!(seconds.as_primitive::<Time32SecondType>().values(), &[3601, 5]);
        let nanos = read_typed(&["\"23:59:59.999999999\""], Time64(Nanosecond)).unwrap();
        assert_eq!(nanos.as_primitive::<Time64NanosecondType>().value(0), 86_400_000_000_000 - 1);
        for (unit, per_second) in
            [(Second, 1), (Millisecond, 1_000), (Microsecond, 1_000_000), (Nanosecond, 1_000_000_000)]
        {
            let zoned = Timestamp(unit, Some("UTC".into()));
            let stamps =
                read_typed(&["\"1970-01-01T00:00:02Z\"", "-7", "\"1970-01-01T01:00:00+00:00\""], zoned).unwrap();
            let stamps = crate::array::to_array(stamps.to_data().into_builder().data_type(Int64).build().unwrap());
            assert_eq!(stamps.as_primitive::<Int64Type>().values(), &[2 * per_second, -7, 3600 * per_second]);
        }
        for (data_type, text) in [(Utf8, "\u{e9}\u{1f600}\n"), (LargeUtf8, ""), (Utf8View, "longer than twelve bytes")]
        {
            let value = serde_json::to_string(text).unwrap();
            let array = read_typed(&[&value, "null", "\"\\ud83d\\ude00\""], data_type).unwrap();
            let array = crate::dataset::Dataset::from_batches(
                Arc::new(Schema::new(vec![Field::new("a", array.data_type().clone(), true)])),
                vec![RecordBatch::try_from_iter([("a", array)]).unwrap()],
            );
            let column = array.unwrap();
            let actual: Vec<_> = column.rows().map(|row| row.unwrap().get(0).unwrap().to_json().unwrap()).collect();
            assert_eq!(actual, [json!(text), Json::Null, json!("\u{1f600}")]);
        }
        assert_eq!(read_typed(&["\"00fF\"", "\"\""], Binary).unwrap().as_binary::<i32>().value(0), &[0, 255]);
        assert_eq!(read_typed(&["\"0a\""], LargeBinary).unwrap().as_binary::<i64>().value(0), &[10]);
        let encoded =
            read_typed(&["\"x\"", "null", "\"y\"", "\"x\""], Dictionary(Box::new(Int32), Box::new(Utf8))).unwrap();
        assert_eq!(
            encoded.as_dictionary::<Int32Type>().keys().iter().collect::<Vec<_>>(),
            [Some(0), None, Some(1), Some(0)]
        );
        assert_eq!(read_typed(&["null"], Null).unwrap().len(), 1);
        let item = Struct(Fields::from(vec![Field::new("b", Dictionary(Box::new(Int8), Box::new(Utf8)), false)]));
        let nested =
            read_typed(&["[{\"b\": \"x\"}, null]", "null", "[]"], DataType::new_large_list(item, true)).unwrap();
        assert_eq!((nested.len(), nested.null_count(), nested.as_list::<i64>().values().len()), (3, 1, 2));
    }

    #[test]
    fn wide_decimals_runs_and_dictionaries_are_read() {
        let digits = "9".repeat(76);
        let wide = read_typed(&[&format!("\"-{}.{}\"", &digits[..74], &digits[74..]), "1.5", "1e3"], Decimal256(76, 2))
            .unwrap();
        let wide: Vec<_> =
            wide.as_primitive::<Decimal256Type>().values().iter().map(|value| value.to_string()).collect();
        assert_eq!(wide, [format!("-{digits}"), "150".into(), "100000".into()]);
        for text in [format!("{digits}9"), format!("0.{digits}"), "1e300".into(), format!("{digits}x")] {
            assert!(read_typed(&[&format!("{text:?}")], Decimal256(76, 2)).is_err(), "{text}");
        }
        let field = |name: &str, data_type, nullable| Arc::new(Field::new(name, data_type, nullable));
        let runs = |values| RunEndEncoded(field("run_ends", Int32, false), field("values", values, true));
        let lists = read_typed(&["[1]", "[1]", "null", "[]"], runs(DataType::new_list(Int8, true))).unwrap();
        assert_eq!(lists.as_run::<Int32Type>().run_ends().values(), &[2, 3, 4]);
        assert_eq!(lists.as_run::<Int32Type>().values().null_count(), 1);
        let numbers = Dictionary(Box::new(Int8), Box::new(Decimal128(5, 2)));
        let encoded = read_typed(&["1.5", "\"1.50\"", "null", "2"], numbers.clone()).unwrap();
        let encoded = encoded.as_dictionary::<Int8Type>();
        assert_eq!(encoded.keys().iter().collect::<Vec<_>>(), [Some(0), Some(0), None, Some(1)]);
        assert_eq!(encoded.values().as_primitive::<Decimal128Type>().values(), &[150, 200]);
        assert_eq!(read_typed(&["null"], numbers).unwrap().null_count(), 1);
    }

    #[test]
    fn times_beyond_the_calendar_are_read_as_written() {
        let days =
            read_typed(&["\"-0044-03-15\"", "\"0000-01-01\"", "\"+12345-01-31\"", "\"-2147483648 days\""], Date32);
        assert_eq!(days.unwrap().as_primitive::<Date32Type>().values(), &[-735_525, -719_528, 3_789_421, i32::MIN]);
        let zoned = Timestamp(Second, Some("UTC".into()));
        let times = read_typed(&["\"9223372036854775807 s\"", "\"+10000-01-01T00:00:01Z\""], zoned.clone()).unwrap();
        assert_eq!(times.as_primitive::<TimestampSecondType>().values(), &[i64::MAX, 253_402_300_801]);
        for text in ["\"1 ms\"", "\"+999-01-01T00:00:00Z\"", "\"10000-01-01T00:00:00\"", "\"2147483648 days\""] {
            assert!(read_typed(&[text], zoned.clone()).is_err() && read_typed(&[text], Date32).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_name_values_that_do_not_fit() {
        let a = |data_type: &DataType| with_schema(vec![Field::new("a", data_type.clone(), true)]);
        let cases: &[(&str, DataType)] = &[
            ("128", Int8),
            ("1.5", Int64),
            ("\"x\"", Int64),
            ("true", Int64),
            ("\"true\"", Boolean),
            ("1e39", Float32),
            ("1", Utf8),
            ("[]", Utf8),
            ("{}", Float64),
            ("1", DataType::new_list(Int64, true)),
            ("\"2024-02-30\"", Date32),
            ("1", Date32),
            ("\"2024-02-29T12:00:00.5Z\"", Timestamp(Second, Some("UTC".into()))),
            ("\"2024-02-29T12:00:00Z\"", Timestamp(Second, None)),
            ("\"2024-02-29T12:00:00\"", Timestamp(Second, Some("UTC".into()))),
            ("\"2024-02-29\"", Timestamp(Second, Some("Europe/Berlin".into()))),
            ("86400", Time32(Second)),
            ("\"24:00:00\"", Time64(Microsecond)),
            ("0.001", Decimal128(5, 2)),
            ("1000", Decimal128(5, 2)),
            ("1e999", Decimal128(38, 2)),
            ("\"e5\"", Decimal128(38, 2)),
            ("\"1.-5\"", Decimal128(38, 2)),
            ("\"abc\"", Binary),
            ("\"0g\"", Binary),
            ("\"+1\"", Binary),
        ];
        for (value, data_type) in cases {
            let text = lines(&["null", value]);
            assert_error(text, &a(data_type), &["line 2", "column `a`", &crate::type_name(data_type), value]);
        }
        let inner = Field::new("b", DataType::new_list(Int8, true), false);
        let options = with_schema(vec![Field::new("a", Struct(vec![inner].into()), true)]);
        assert_error("\n\n{\"a\": {\"b\": [1, 300]}}", &options, &["line 3", "`a.b[]`", "int8", "300"]);
        assert_error("{\"a\": {}}", &options, &["line 1", "`a.b`", "without nulls"]);
        let strict = JsonOptions { refuse_unknown: true, ..options.clone() };
        assert_error("{\"a\": {\"c\": 1}}", &strict, &["line 1", "`a`", "`c`", "columns `b`"]);
        assert_error("{\"a\": null, \"c\": 1}", &strict, &["line 1", "`c`", "columns `a`"]);
        assert_error("{\"a\": null, \"a\": null}", &options, &["line 1", "`a`", "twice"]);
        assert!(read_json_from(&b"{\"a\": null}"[..], &options).is_ok());
        let members = UnionFields::from_fields(vec![Field::new("m", Int8, true)]);
        assert_error("{}", &a(&Union(members, UnionMode::Dense)), &["dense_union<m: int8>", "`a`"]);
        assert_error(
            "{}",
            &with_schema(vec![Field::new("a", Int8, true), Field::new("a", Int8, true)]),
            &["`a` again"],
        );
    }

    #[test]
    fn members_that_the_schema_does_not_have_are_left_out() {
        let inner = Field::new("b", Int8, true);
        let options = with_schema(vec![Field::new("a", Struct(vec![inner].into()), true)]);
        let text = "{\"z\": 1, \"a\": {\"c\": [1], \"b\": 2}}\n{\"a\": null, \"z\": {}}\n{\"z\": 0}\n";
        let (schema, batches) = read_json_from(text.as_bytes(), &options).unwrap();
        assert_eq!(rows(schema, batches), [json!({"a": {"b": 2}}), json!({"a": null}), json!({"a": null})]);
    }

    /// The command and the server rejected some of these types.
    #[test]
    fn written_json_is_read_back() {
        let kinds: &[(DataType, &[&str])] = &[
            (FixedSizeList(Arc::new(Field::new("item", Float32, true)), 2), &["[0.5,null]", "null", "[1.0,2.0]"]),
            (FixedSizeList(Arc::new(Field::new("item", Int8, false)), 0), &["[]", "null"]),
            (ListView(Arc::new(Field::new("item", Utf8, true))), &["[\"a\",null]", "null", "[]"]),
            (LargeListView(Arc::new(Field::new("item", Int64, true))), &["[1]", "[]"]),
            (map_of(Utf8, Int64), &["{\"a\":1,\"b\":null}", "{}", "null", "[[\"a\",1],[\"a\",2]]"]),
            (map_of(Int32, Utf8), &["[[1,\"a\"],[2,null]]", "{}"]),
            (Duration(Second), &["\"P1DT2H3M4S\"", "\"PT-1M-30S\"", "\"PT0S\"", "null"]),
            (Duration(Millisecond), &["\"PT4.5S\"", "\"PT-0.5S\""]),
            (Duration(Microsecond), &["\"PT0.000001S\"", "\"P106751991DT4H54.775807S\""]),
            (Duration(Nanosecond), &["\"PT0.000000001S\"", "\"P-106751DT-23H-47M-16.854775808S\""]),
            (Interval(YearMonth), &["\"P1Y2M\"", "\"P-1Y-2M\"", "\"PT0S\""]),
            (Interval(DayTime), &["\"P3DT-0.5S\"", "\"P-1D\""]),
            (Interval(MonthDayNano), &["\"P1Y2M-3DT1.000000001S\"", "\"P-178956970Y-8M\""]),
            (FixedSizeBinary(3), &["\"00ff10\"", "null"]),
            (BinaryView, &["\"00ff10\"", "\"\"", "null"]),
        ];
        for (data_type, values) in kinds {
            let options = with_schema(vec![Field::new("a", data_type.clone(), true)]);
            let (schema, batches) = read_json_from(lines(values).as_bytes(), &options).unwrap();
            let result: Vec<_> = rows(schema, batches).iter().map(|row| row["a"].to_string()).collect();
            assert_eq!(&result, values, "{data_type}");
            assert_error(lines(&["null", "true"]), &options, &["line 2", "`a`"]);
        }
        let a = |data_type: DataType| with_schema(vec![Field::new("a", data_type, true)]);
        let pairs = FixedSizeList(Arc::new(Field::new("item", Int8, true)), 2);
        assert_error(lines(&["[1]"]), &a(pairs), &["line 1", "a list of 2 items, got 1"]);
        assert_error(lines(&["[[1]]"]), &a(map_of(Int32, Utf8)), &["line 1", "[key, value]"]);
        assert_error(lines(&["[[null, \"a\"]]"]), &a(map_of(Int32, Utf8)), &["line 1", "without nulls"]);
        for invalid in [
            "P", "PT", "P1", "1D", "P1H", "PT1D", "P1D1Y", "PT1.5M", "PT.5S", "P1DT", "PT1e3S", "P+1D", "P1M", "PT0.5S",
        ] {
            assert_error(lines(&[&format!("\"{invalid}\"")]), &a(Duration(Second)), &["line 1", invalid]);
        }
        let integers = read_typed(&["90", "\"90\""], Duration(Second)).unwrap();
        assert_eq!(integers.as_primitive::<DurationSecondType>().values(), &[90, 90]);
    }

    fn map_of(key: DataType, value: DataType) -> DataType {
        let entries = vec![Field::new("key", key, false), Field::new("value", value, true)];
        Map(Arc::new(Field::new("entries", Struct(entries.into()), false)), false)
    }

    #[test]
    fn malformed_text_is_rejected_with_its_line() {
        let any = JsonOptions::default();
        assert_error("{}\n[{}]\n", &any, &["line 2", "one object on each line", "[{}]"]);
        assert_error("{\n}", &any, &["line 1", "JSON"]);
        assert_error("{\"a\": 1}}", &any, &["line 1", "character 9"]);
        assert_error("{\"a\": 01}", &any, &["line 1"]);
        assert_error("{\"a\": nul}", &any, &["line 1"]);
        assert_error("{\"a\": \"\\ud800\"}", &any, &["line 1", "`a`"]);
        assert_error(b"{\"a\": \"\xff\"}", &any, &["line 1", "UTF-8"]);
        assert_error(lines(&[&("[".repeat(100) + &"]".repeat(100))]), &any, &["line 1", "64 deep"]);
        assert_error(lines(&[&("[".repeat(100_000) + &"]".repeat(100_000))]), &any, &["line 1"]);
    }

    fn json() -> impl Strategy<Value = Json> {
        let scalar = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            (-1e9..1e9).prop_map(Json::from),
            "[a-z\\\\\"\u{e9}\n]{0,5}".prop_map(Json::from),
        ];
        scalar.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::vec(("[abc]", inner), 0..4).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    /// Removes null members, as they may have been missing.
    fn without_nulls(value: Json) -> Json {
        match value {
            Json::Object(members) => {
                let members = members.into_iter().map(|(name, value)| (name, without_nulls(value)));
                let mut members: Vec<_> = members.filter(|(_, value)| !value.is_null()).collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                members.into_iter().collect()
            }
            Json::Array(items) => items.into_iter().map(without_nulls).collect(),
            other => other,
        }
    }

    /// A target that can't restart, so that types are inferred from all values before rows are parsed.
    #[derive(Default)]
    struct NoRestart(TextBatches<'static>);

    impl TextTarget for NoRestart {
        fn begin(&mut self, schema: &SchemaRef) -> Result<()> {
            assert!(self.0.batches.is_empty());
            self.0.begin(schema)
        }

        fn take(&mut self, batch: RecordBatch) -> Result<()> {
            self.0.take(batch)
        }

        fn can_restart(&self) -> bool {
            false
        }
    }

    /// The schema and the rows as texts, or an error message.
    type Outcome = Result<(SchemaRef, Vec<String>), String>;

    fn outcome(schema: Result<SchemaRef>, batches: Vec<RecordBatch>) -> Outcome {
        let schema = schema.map_err(|e| e.to_string())?;
        let dataset = Dataset::from_batches(schema.clone(), batches).unwrap();
        let cells = |row: crate::Row<'_>| row.iter().map(|(_, value)| format!("{};", value.unwrap())).collect();
        Ok((schema, dataset.rows().map(|row| cells(row.unwrap())).collect()))
    }

    /// Reads a text in chunks of `chunk` bytes; returns the outcome, and how often the text was opened.
    fn read_in_chunks(text: &str, chunk: usize) -> (Outcome, usize) {
        let opens = std::cell::Cell::new(0);
        let open = || {
            opens.set(opens.get() + 1);
            Ok(text.as_bytes())
        };
        let mut batches = TextBatches::default();
        let schema = read_in_order(&open, &JsonOptions::default(), &mut batches, chunk);
        (outcome(schema, batches.batches), opens.get())
    }

    /// Reads a text after its types were inferred from all values.
    fn read_after_inference(text: &str, chunk: usize) -> Outcome {
        let mut batches = NoRestart::default();
        let schema = read_in_order(&|| Ok(text.as_bytes()), &JsonOptions::default(), &mut batches, chunk);
        outcome(schema, batches.0.batches)
    }

    #[test]
    fn text_is_read_once_while_its_types_hold() {
        let cases: &[(&[&str], &str, usize)] = &[
            (&["1", "-5"], "7", 1),
            (&["1"], "null", 1),
            (&["1"], "2.5", 2),
            (&["1"], "-0", 2),
            (&["1"], "18446744073709551615", 2),
            (&["18446744073709551615"], "1", 1),
            (&["2.5"], "\"NaN\"", 1),
            (&["2.5"], "1", 1),
            (&["2.5"], "9007199254740993", 1),
            (&["null"], "1", 2),
            (&["null"], "null", 1),
            (&["\"x\""], "[{\"b\": 1}]", 1),
            (&["\"2024-02-29\""], "\"2024-03-01\"", 1),
            (&["\"2024-02-29\""], "\"2024-02-30\"", 2),
            (&["\"2024-02-29T00:00:00.5Z\""], "\"2024-02-29T00:00:00.25+01:00\"", 1),
            (&["\"2024-02-29T00:00:00.5\""], "\"2024-02-29T00:00:00.123456789\"", 2),
            (&["\"2024-02-29T00:00:00.123456789\""], "\"2024-02-29T00:00:00\"", 1),
            (&["{\"b\": [1]}"], "{\"b\": [null, 2]}", 1),
            (&["{\"b\": [1]}"], "{\"c\": true}", 2),
            (&["{\"b\": [1]}"], "{\"b\": [true]}", 2),
            (&["true"], "false", 1),
            (&["true"], "\"true\"", 2),
        ];
        for (first, last, expected_opens) in cases {
            let text = lines(first) + &lines(&[first[0]; 20]) + &lines(&[last]);
            let chunk = lines(first).len() + 4;
            let (result, opens) = read_in_chunks(&text, chunk);
            assert_eq!(opens, *expected_opens, "{first:?} {last}");
            assert_eq!(result, read_after_inference(&text, 1 << 20), "{first:?} {last}");
        }
    }

    /// Generates values of many types, which keep or change the type of a column.
    fn mixed_json() -> impl Strategy<Value = String> {
        let ints =
            "(-?0|-?[1-9][0-9]{0,3}|9007199254740993|-9223372036854775808|18446744073709551615|18446744073709551616)";
        let leaf = prop_oneof![
            3 => ints,
            2 => "(0|[1-9]{1,3})\\.[0-9]{1,2}|1e3|1e999",
            2 => Just("null".to_string()),
            1 => "true|false|\"NaN\"|\"Infinity\"|\"true\"|\"1\"|\"x\\\\n\"|\"\"",
            2 => "\"(0001|1999|2024)-0[12]-2[89]\"",
            3 => "\"(0001|1999|2024)-01-2[89][T ]12:00:0[0-9](\\.[0-9]{3}|\\.[0-9]{7})?\"",
            2 => "\"(0001|1999|2024)-01-2[89]T12:00:0[0-9](\\.[0-9]{3})?(Z|\\+01:00)\"",
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
                prop::collection::vec(("[abé]", inner), 0..3).prop_map(|members| object_of(&members)),
            ]
        })
    }

    fn object_of(members: &[(String, String)]) -> String {
        let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{{}}}", members.join(", "))
    }

    proptest! {
        /// Rows are parsed by types of all values, even if the last value changes a type.
        #[test]
        fn types_depend_on_all_values(
            first in prop::collection::vec(mixed_json(), 1..4),
            copies in 1usize..9,
            others in prop::collection::vec((0usize..3, mixed_json()), 0..3),
            broken in prop::option::weighted(0.1, "[{x]|\\{\"n0\": \\}|\\{\"n0\": 1, \"n0\": 2\\}"),
            chunk in 1usize..200,
        ) {
            let names = ["n0", "n1", "n2"].map(String::from);
            let mut members: Vec<(String, String)> = names.iter().cloned().zip(first).collect();
            let mut text = (object_of(&members) + "\n").repeat(copies);
            for (index, value) in others {
                let index = index % members.len();
                members[index].1 = value;
                text += &(object_of(&members) + "\n");
                members.rotate_left(1);
            }
            text.extend(broken);
            let (result, _) = read_in_chunks(&text, chunk);
            prop_assert_eq!(&result, &read_after_inference(&text, chunk));
            prop_assert_eq!(&result, &read_after_inference(&text, 1 << 20));
        }

        /// All objects can be read. Objects whose columns have one type are unchanged.
        #[test]
        fn objects_round_trip(objects in prop::collection::vec(prop::collection::vec(("[abc]", json()), 0..4), 1..6)) {
            let objects: Vec<Json> = objects.into_iter().map(|members| members.into_iter().collect()).collect();
            let text: String = objects.iter().map(|object| format!("{object}\n")).collect();
            let (schema, batches) = match read(&text) {
                Ok(result) => result,
                Err(e) => {
                    // A column of floats can't hold all integers.
                    prop_assert!(e.message().contains("no type holds all its numbers") && text.contains('.'), "{}", e);
                    return Ok(());
                }
            };
            let has_texts = schema.fields().iter().any(|field| format!("{:?}", field.data_type()).contains("Utf8"));
            let parsed = rows(schema, batches);
            prop_assert_eq!(parsed.len(), objects.len());
            // Values of several types became texts or floats.
            if !has_texts && !text.contains('.') {
                for (actual, expected) in parsed.into_iter().zip(objects) {
                    prop_assert_eq!(without_nulls(actual), without_nulls(expected));
                }
            }
        }

        #[test]
        fn no_text_panics(pieces in prop::collection::vec("[{}\\[\\]\":,\\\\ax1\n. eE+-]|null|true|\"a\":|\\{\"a\":1\\}\n", 0..20)) {
            let text = pieces.concat();
            let nested = with_schema(vec![Field::new("a", DataType::new_list(Decimal128(10, 2), true), true)]);
            for options in [JsonOptions::default(), nested] {
                if let Err(e) = read_json_from(text.as_bytes(), &options) {
                    prop_assert!(e.message().starts_with(READING), "{}", e);
                }
            }
        }
    }
}
