//! Reads CSV text into record batches.
//!
//! Types are inferred from all values of a column, so they are valid for the whole file. Tried in this order: `Boolean`
//! (`true`, `True`, `TRUE`, and likewise for false), `Int64`, `UInt64`, `Float64` (also `nan`, `inf`, `1e5`), `Date32`
//! (`2000-01-31`, `Jan 31 2000`, `January 31, 2000`, `31 Jan 2000`), `Timestamp` (`2000-01-31T12:34:56.789`, or with a
//! space; in microseconds, or nanoseconds if a value needs them; in UTC if all values end in `Z` or an offset), and
//! `Utf8`. Integers and times must fit exactly, so numbers with leading zeros (zip codes) or a plus sign (phone
//! numbers), integers of more than 64 bits, and, in columns with floats, integers that no float represents exactly, are
//! `Utf8`. Fractions become the nearest `Float64`. Times without seconds, and times of day, are `Utf8`.
//!
//! An empty field is null; in columns other than text, so are `NA`, `N/A`, `null` and `NULL`, unless they are quoted. A
//! quoted empty field is an empty text or no bytes, and null in columns of other types. Blank lines are skipped, but in
//! a text of one column, where each is a null. Spaces are kept.
//!
//! The text is cut behind whole records, and its chunks are parsed by several threads.
//!
//! The modules, each of which uses only those before it: `options`, `splitter` (finds the ends of records), `records`
//! (finds their fields), `table` (fills columns).

mod options;
mod records;
mod splitter;
mod table;

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

pub use self::options::CsvOptions;
use self::options::reading;
use self::records::CsvText;
use self::splitter::CsvSplitter;
use self::table::CsvTable;
use super::chunks::{CHUNK, Chunk, Chunks, RecordSplitter, read_all};
use super::columns::*;
use super::parse::*;
use super::scalar::*;
use super::stream::{StreamParser, TextStream};
use crate::error::{Error, ErrorKind, Result};

/// Reads all of `input` into record batches.
///
/// ```
/// use arrowwood::{CsvOptions, Dataset, read_csv_from};
///
/// let text = "symbol,price\nAAPL,223.02\nIBM,125.55\n";
/// let (schema, batches) = read_csv_from(text.as_bytes(), &CsvOptions::default())?;
/// let dataset = Dataset::from_batches(schema, batches)?;
/// assert_eq!(dataset.column("price")?.max()?.to_string(), "223.02");
/// # Ok::<(), arrowwood::Error>(())
/// ```
///
/// # Errors
/// The errors of [`stream_csv`], but the schema is optional, and the header may name other columns.
pub fn read_csv_from(input: impl Read, options: &CsvOptions) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    options.check()?;
    let text = read_all(input).map_err(|e| Error::io("reading CSV", &e))?;
    let mut batches = TextBatches::default();
    let schema = read_csv_in_order(&|| Ok(&text[..]), options, &mut batches)?;
    Ok((schema, batches.batches))
}

/// Reads a text, which `open` opens once or twice, and passes its record batches to `target` in order.
///
/// The memory needed does not depend on the text's length, unless there are columns to dictionary-encode. If types are
/// to be inferred, the text is parsed by the types of its beginning, and once more if a later value needs another type.
///
/// # Errors
/// The errors of [`read_csv_from`] and of `target`.
pub fn read_csv_in_order<R: Read + Send>(
    open: &dyn Fn() -> Result<R>,
    options: &CsvOptions,
    target: &mut dyn TextTarget,
) -> Result<SchemaRef> {
    read_in_order(open, options, target, CHUNK)
}

fn read_in_order<R: Read + Send>(
    open: &dyn Fn() -> Result<R>,
    options: &CsvOptions,
    target: &mut dyn TextTarget,
    chunk: usize,
) -> Result<SchemaRef> {
    options.check()?;
    let text = CsvChunks::open(open()?, options, chunk)?;
    let header = text.header.clone();
    let parser = CsvChunkParser { header: &header, options };
    let (schema, chunks, passes) = match &options.schema {
        None if options.dictionary.is_empty() && options.schema_overrides.is_empty() => {
            return parse_and_infer(
                &parser,
                text.into_chunks(),
                || reopen_chunks(open()?, options, chunk, &header),
                target,
            );
        }
        None => {
            let types = infer_types(&parser, text.into_chunks(), target)?;
            (parser.schema(&types)?, reopen_chunks(open()?, options, chunk, &header)?, TWO_PASSES)
        }
        Some(schema) => {
            (override_fields(schema, &options.schema_overrides).map_err(reading)?, text.into_chunks(), ONE_PASS)
        }
    };
    let table = CsvTable::new(&schema, &header, options)?;
    let has_dictionary = schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Dictionary(..)));
    if has_dictionary || !options.dictionary.is_empty() {
        return parse_in_sequence(chunks, table, options, target);
    }
    parse_all(&parser, chunks, &schema, passes, target)?;
    Ok(schema)
}

/// Returns the chunks of a text that is read once more.
fn reopen_chunks<R: Read>(input: R, options: &CsvOptions, chunk: usize, header: &[String]) -> Result<TextChunks<R>> {
    let text = CsvChunks::open(input, options, chunk)?;
    if text.header != header {
        let message = "reading CSV: the header changed while the text was read";
        return Err(Error::new(ErrorKind::FileChanged, message));
    }
    Ok(text.into_chunks())
}

/// The chunks of a text, the first of which was read for the header.
type TextChunks<R> = std::iter::Chain<std::iter::Once<Result<Chunk>>, Chunks<R, CsvSplitter>>;

/// The header of a text, and the chunks that begin with it.
struct CsvChunks<R> {
    header: Vec<String>,
    first: Chunk,
    rest: Chunks<R, CsvSplitter>,
}

impl<R: Read> CsvChunks<R> {
    fn open(input: R, options: &CsvOptions, chunk: usize) -> Result<CsvChunks<R>> {
        let mut rest = Chunks::new(input, CsvSplitter::new(options), "reading CSV", chunk);
        // Blank lines before the header may fill chunks.
        loop {
            let chunk = rest.next().ok_or_else(no_header)??;
            let first = Chunk { is_first: true, ..chunk };
            if let Some(header) = CsvText::from_chunk(&first, options).header()? {
                return Ok(CsvChunks { header, first, rest });
            }
        }
    }

    fn into_chunks(self) -> TextChunks<R> {
        std::iter::once(Ok(self.first)).chain(self.rest)
    }
}

fn no_header() -> Error {
    Error::invalid("reading CSV: expected a header with the names of the columns, got no text; add it")
}

struct CsvChunkParser<'a> {
    header: &'a [String],
    options: &'a CsvOptions,
}

impl CsvChunkParser<'_> {
    fn fill(&self, chunk: &Chunk, mut table: CsvTable) -> Result<Vec<RecordBatch>> {
        let text = CsvText::from_chunk(chunk, self.options);
        let mut rows = text.rows(self.header.len())?;
        let mut batches = Vec::new();
        while rows.next()? {
            if table.push(&rows, self.options)? {
                batches.extend(table.columns.take().map_err(reading)?);
            }
        }
        batches.extend(table.columns.take().map_err(reading)?);
        Ok(batches)
    }
}

impl ChunkParser for CsvChunkParser<'_> {
    type Types = Vec<TypeSet>;

    fn no_types(&self) -> Vec<TypeSet> {
        let mut types = Vec::with_capacity(self.header.len());
        for name in self.header {
            // The options determine the type of some columns.
            let is_known = self.options.dictionary.contains(name) || self.options.schema_overrides.find(name).is_some();
            types.push(if is_known { TEXT } else { UNSEEN });
        }
        types
    }

    fn types(&self, chunk: &Chunk) -> Result<Vec<TypeSet>> {
        let mut kinds = self.no_types();
        let text = CsvText::from_chunk(chunk, self.options);
        let mut rows = text.rows(self.header.len())?;
        while rows.next()? {
            for (number, kinds) in kinds.iter_mut().enumerate().filter(|(_, kinds)| **kinds != TEXT) {
                let value = rows.field(number);
                if !self.options.is_null(value, &DataType::Null, || rows.is_quoted(number)) {
                    *kinds &= value_kinds(&self.options.with_point(value));
                }
            }
        }
        Ok(kinds)
    }

    fn merge(&self, types: &mut Vec<TypeSet>, later: Vec<TypeSet>) {
        assert_eq!(types.len(), later.len(), "all chunks have the same columns");
        types.iter_mut().zip(later).for_each(|(kinds, later)| *kinds &= later);
    }

    fn schema(&self, types: &Vec<TypeSet>) -> Result<SchemaRef> {
        assert_eq!(types.len(), self.header.len(), "each column has a type");
        let fields = self.header.iter().zip(types).map(|(name, &kinds)| Field::new(name, inferred_type(kinds), true));
        let inferred = Schema::new(fields.collect::<Fields>());
        override_fields(&Arc::new(inferred), &self.options.schema_overrides).map_err(reading)
    }

    fn rows(&self, chunk: &Chunk, schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
        self.fill(chunk, CsvTable::new(schema, self.header, self.options)?)
    }

    fn exact_rows(
        &self,
        chunk: &Chunk,
        schema: &SchemaRef,
        types: &Vec<TypeSet>,
    ) -> Option<TypedBatches<Vec<TypeSet>>> {
        let batches = self.fill(chunk, CsvTable::exact(schema, types, self.options.batch_rows)).ok()?;
        let mut types = types.clone();
        for batch in &batches {
            types.iter_mut().zip(batch.columns()).for_each(|(kinds, column)| *kinds = narrow(*kinds, column));
        }
        Some(TypedBatches { batches, types })
    }
}

/// Parses chunks one after the other, with one dictionary for all batches.
fn parse_in_sequence(
    chunks: impl Iterator<Item = Result<Chunk>>,
    mut table: CsvTable,
    options: &CsvOptions,
    target: &mut dyn TextTarget,
) -> Result<SchemaRef> {
    for chunk in chunks {
        let chunk = chunk?;
        chunk.check_memory()?;
        let text = CsvText::from_chunk(&chunk, options);
        let mut rows = text.rows(table.width)?;
        while rows.next()? {
            if table.push(&rows, options)? {
                table.columns.cut().map_err(reading)?;
            }
        }
    }
    table.columns.cut().map_err(reading)?;
    let (schema, batches) = table.columns.assemble().map_err(reading)?;
    target.begin(&schema)?;
    batches.into_iter().try_for_each(|batch| target.take(batch))?;
    Ok(schema)
}

/// Reads rows of [`CsvOptions::schema`] from `input` as they arrive.
///
/// A batch has at most [`CsvOptions::batch_rows`] rows. It is returned when it is full, at the end, or when no
/// more input is available and its first row has waited for `patience`, so that `input` may be the output of `tail -f`.
///
/// The header must name exactly the schema's columns, in any order. Besides the inferred types, values of type `Time32`
/// and `Time64` are read like `12:34:56.789`, `Decimal32`, `Decimal64` and `Decimal128` like `-12.50` or `1e3`, and
/// `Binary` as hexadecimal digits; timestamps and times may also be integers in the column's unit.
///
/// # Errors
/// `InvalidArgument` without a schema, or with columns to dictionary-encode, which the schema must declare;
/// `Unsupported` for types that can't be read from text. Other errors are returned as the last item.
pub fn stream_csv(input: impl Read + Send + 'static, options: &CsvOptions, patience: Duration) -> Result<TextStream> {
    options.check()?;
    let schema = stream_schema(&options.schema, &options.schema_overrides, &options.dictionary).map_err(reading)?;
    let parser = CsvStreamParser {
        options: options.clone(),
        schema: schema.clone(),
        table: None,
        lines: 0,
        splitter: CsvSplitter::new(options),
    };
    TextStream::new(input, schema, Box::new(parser), "reading CSV", patience)
}

/// Parses the records of a text that arrives in blocks.
struct CsvStreamParser {
    options: CsvOptions,
    schema: SchemaRef,
    /// `None` before the header.
    table: Option<CsvTable>,
    /// The number of parsed lines.
    lines: usize,
    splitter: CsvSplitter,
}

impl StreamParser for CsvStreamParser {
    fn find_end(&mut self, block: &[u8]) -> Option<usize> {
        self.splitter.find_end(block)
    }

    fn parse(&mut self, records: Vec<u8>, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let mut text = CsvText::after(self.lines, &records, &self.options);
        if self.table.is_none()
            && let Some(header) = text.header()?
        {
            self.table = Some(CsvTable::for_all(&self.schema, &header, &self.options)?);
            text.has_header = self.options.header;
        }
        if let Some(table) = &mut self.table {
            let mut rows = text.rows(table.width)?;
            while rows.next()? {
                if table.push(&rows, &self.options)? {
                    ready.extend(table.columns.take().map_err(reading)?);
                }
            }
        }
        self.lines = text.lines();
        Ok(())
    }

    fn has_pending_rows(&self) -> bool {
        self.table.as_ref().is_some_and(|table| table.columns.rows > 0)
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        match &mut self.table {
            Some(table) => table.columns.take().map_err(reading),
            None => Ok(None),
        }
    }

    fn end(&self) -> Result<()> {
        if self.table.is_some() { Ok(()) } else { Err(no_header()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use DataType::*;
    use TimeUnit::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::*;
    use arrow_array::{Array, ArrayRef};
    use arrow_schema::TimeUnit;
    use chrono::NaiveDate;
    use std::collections::HashMap;

    fn options() -> CsvOptions {
        CsvOptions::default()
    }

    fn with_type(data_type: DataType) -> CsvOptions {
        with_field(Field::new("a", data_type, true))
    }

    fn with_field(field: Field) -> CsvOptions {
        CsvOptions { schema: Some(Arc::new(Schema::new(vec![field]))), ..options() }
    }

    fn encoding(name: &str) -> CsvOptions {
        CsvOptions { dictionary: vec![name.to_string()], ..options() }
    }

    fn read(text: &str, options: &CsvOptions) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        read_csv_from(text.as_bytes(), options)
    }

    /// Reads values of the single column `a`; returns its type and the array of the first batch.
    fn read_column(values: &[&str], options: &CsvOptions) -> Result<(DataType, ArrayRef)> {
        let mut writer = csv::Writer::from_writer(vec![]);
        for value in ["a"].iter().chain(values) {
            writer.write_record([value]).unwrap();
        }
        let (schema, batches) = read_csv_from(&writer.into_inner().unwrap()[..], options)?;
        Ok((schema.field(0).data_type().clone(), batches[0].column(0).clone()))
    }

    fn infer_type(values: &[&str]) -> DataType {
        read_column(values, &options()).unwrap().0
    }

    /// Reads values of the column `a` as a type.
    fn read_typed<T: ArrowPrimitiveType>(values: &[&str], data_type: DataType) -> Result<Vec<Option<T::Native>>> {
        let (actual_type, array) = read_column(values, &with_type(data_type.clone()))?;
        assert_eq!((actual_type, array.data_type()), (data_type.clone(), &data_type));
        Ok(array.as_primitive::<T>().iter().collect())
    }

    #[track_caller]
    fn assert_error(text: impl AsRef<[u8]>, options: &CsvOptions, kind: ErrorKind, parts: &[&str]) {
        let error = read_csv_from(text.as_ref(), options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        for part in parts {
            assert!(error.message().contains(part), "{part:?} not in: {error}");
        }
    }

    #[track_caller]
    fn assert_invalid(text: impl AsRef<[u8]>, parts: &[&str]) {
        assert_error(text, &options(), ErrorKind::InvalidData, parts);
    }

    /// Returns a random number, of the generator xorshift64.
    fn random(state: &mut u64, below: u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % below
    }

    #[test]
    fn stocks() {
        let text = "symbol,date,price\nMSFT,Jan 1 2000,39.81\nMSFT,Feb 1 2000,36.35\nAMZN,Mar 1 2010,128.82\n";
        let (schema, batches) = read(text, &encoding("symbol")).unwrap();
        let symbol = Dictionary(Box::new(Int8), Box::new(Utf8));
        let expected = [("symbol", symbol), ("date", Date32), ("price", Float64)];
        assert_eq!(*schema, Schema::new(expected.map(|(name, kind)| Field::new(name, kind, true)).to_vec()));
        assert_eq!(batches[0].column(1).as_primitive::<Date32Type>().values(), &[10957, 10988, 14669]);
        assert_eq!(batches[0].column(2).as_primitive::<Float64Type>().values(), &[39.81, 36.35, 128.82]);
        assert_eq!(read(text, &options()).unwrap().0.field(0).data_type(), &Utf8);
    }

    #[test]
    fn infers_the_first_type_that_holds_all_values() {
        let zoned = |unit| Timestamp(unit, Some("UTC".into()));
        let cases: &[(&[&str], DataType)] = &[
            (&["", ""], Utf8),
            (&["NA", "null"], Utf8),
            (&["true", "False", "TRUE", "NULL"], Boolean),
            (&["true", "1"], Utf8),
            (&["1", "", "-9223372036854775808", "N/A"], Int64),
            (&["1", "9223372036854775808"], UInt64),
            (&["-1", "9223372036854775808"], Utf8),
            (&["1", "18446744073709551616"], Utf8),
            (&["1", "2.5", "-0", "NaN", "-inf", "1e-5", ".5", "1."], Float64),
            (&["2.5", "100000000000000000"], Float64),
            (&["2.5", "9007199254740993"], Utf8),
            (&["1.5", "1e999"], Utf8),
            (&["10", "00123"], Utf8),
            (&["10", "-01"], Utf8),
            (&["1.5", "+49"], Utf8),
            (&["1", " 2"], Utf8),
            (&["-"], Utf8),
            (&["NA", "1", "x"], Utf8),
            (&["2000-02-29", "Jan 1 2000", "january 01, 2000", "1 Jan 2000", "31 December 1999"], Date32),
            (&["2001-02-29"], Utf8),
            (&["10:00:00"], Utf8),
            (&["2024-01-01T10:00"], Utf8),
            (&["May 2024"], Utf8),
            (&["0000-01-01"], Utf8),
            (&["2000-1-1"], Utf8),
            (&["2000-01-01T12:34:56", "1969-12-31 23:59:59.999999"], Timestamp(Microsecond, None)),
            (&["2000-01-01T12:34:56.000000000"], Timestamp(Microsecond, None)),
            (&["2000-01-01T12:34:56.123456789", "2000-01-01 00:00:00"], Timestamp(Nanosecond, None)),
            (&["2000-01-01T12:34:56.123456789", "1600-01-01 00:00:00"], Utf8),
            (&["2000-01-01T12:34:56Z", "2000-01-01 12:34:56.5+05:30", "2000-01-01 12:34:56-08"], zoned(Microsecond)),
            (&["2000-01-01T12:34:56.000000001Z"], zoned(Nanosecond)),
            (&["2000-01-01T12:34:56Z", "2000-01-01T12:34:56"], Utf8),
            (&["2000-01-01T12:34:56", "2000-01-01"], Utf8),
            (&["2000-01-01T24:00:00"], Utf8),
            (&["2000-01-01T12:34:56."], Utf8),
            (&["2000-01-01T12:34:56ZZ"], Utf8),
            (&["2000-01-01T12:34:56+é"], Utf8),
        ];
        for (values, expected) in cases {
            assert_eq!(&infer_type(values), expected, "{values:?}");
        }
    }

    #[test]
    fn the_last_value_may_change_the_type() {
        let text = format!("a\n{}x\n", "1\n".repeat(100_000));
        assert_eq!(read(&text, &options()).unwrap().0.field(0).data_type(), &Utf8);
    }

    #[test]
    fn null_words_are_text_in_text_columns() {
        let (_, batches) = read("a,b\nNA,\n,\nnull,\nx,\n", &options()).unwrap();
        let texts = batches[0].column(0).as_string::<i32>().iter().collect::<Vec<_>>();
        assert_eq!(texts, [Some("NA"), None, Some("null"), Some("x")]);
        let (_, array) = read_column(&["NA", "", "null", "NULL", "N/A", "7"], &options()).unwrap();
        assert_eq!((array.null_count(), array.as_primitive::<Int64Type>().value(5)), (5, 7));
    }

    #[test]
    fn values_are_parsed_by_the_type_of_the_schema() {
        assert_eq!(
            read_typed::<Int8Type>(&["-128", "+5", "007", ""], Int8).unwrap(),
            [Some(-128), Some(5), Some(7), None]
        );
        assert_eq!(read_typed::<UInt64Type>(&["18446744073709551615"], UInt64).unwrap(), [Some(u64::MAX)]);
        assert_eq!(
            read_typed::<Float32Type>(&["16777217", "inf"], Float32).unwrap(),
            [Some(16777216.), Some(f32::INFINITY)]
        );
        assert_eq!(read_typed::<Date64Type>(&["1969-12-31"], Date64).unwrap(), [Some(-86_400_000)]);
        let (_, array) = read_column(&["001", "é"], &with_type(LargeUtf8)).unwrap();
        assert_eq!(array.as_string::<i64>().iter().flatten().collect::<Vec<_>>(), ["001", "é"]);
        let (_, array) = read_column(&["true", "FALSE"], &with_type(Boolean)).unwrap();
        assert_eq!(array.as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false)]);
    }

    #[test]
    fn timestamps_are_parsed_in_all_units() {
        let values = ["1969-12-31T23:59:59.5Z", "2000-01-01 05:30:00+0530", "2000-01-01 00:00:00Z"];
        let zone = || Some("UTC".into());
        let millis = [Some(-500), Some(946_684_800_000), Some(946_684_800_000)];
        assert_eq!(read_typed::<TimestampMillisecondType>(&values, Timestamp(Millisecond, zone())).unwrap(), millis);
        let nanos = millis.map(|count| count.map(|count| count * 1_000_000));
        assert_eq!(read_typed::<TimestampNanosecondType>(&values, Timestamp(Nanosecond, zone())).unwrap(), nanos);
        read_typed::<TimestampSecondType>(&values, Timestamp(Second, zone())).unwrap_err();
        read_typed::<TimestampNanosecondType>(&["9999-01-01"], Timestamp(Nanosecond, None)).unwrap_err();
    }

    #[test]
    fn timestamps_have_an_offset_if_their_column_has_a_zone() {
        let (with, without) = (["2000-01-01 05:30:00+0530"], ["2000-01-01 00:00:00", "2000-01-01"]);
        let second = Some(946_684_800);
        for zone in ["UTC", "Europe/Berlin", "+01:00"] {
            let zoned = Timestamp(Second, Some(zone.into()));
            assert_eq!(read_typed::<TimestampSecondType>(&with, zoned.clone()).unwrap(), [second]);
            for text in without {
                let text = format!("a\n{text}\n");
                assert_error(
                    text,
                    &with_type(zoned.clone()),
                    ErrorKind::InvalidData,
                    &["line 2", "2026-01-31T12:00:00Z"],
                );
            }
        }
        let naive = Timestamp(Second, None);
        assert_eq!(read_typed::<TimestampSecondType>(&without, naive.clone()).unwrap(), [second; 2]);
        assert_error(format!("a\n{}\n", with[0]), &with_type(naive), ErrorKind::InvalidData, &["without an offset"]);
    }

    #[test]
    fn errors_name_values_and_nulls_that_do_not_fit() {
        let data = ErrorKind::InvalidData;
        let text = "a,b\n1,x\n\n,y\n300,z\n";
        assert_error(text, &with_type(Int8), data, &["line 5", "`a`", "\"300\"", "int8"]);
        assert_error(
            text,
            &with_field(Field::new("a", Int64, false)),
            data,
            &["line 4", "`a`", "int64 without nulls", "\"\""],
        );
        assert_error("a\n1e39\n", &with_type(Float32), data, &["float32", "1e39"]);
        let long = "é".repeat(1000);
        let shortened = "é".repeat(60) + "…\"";
        assert_error(format!("a\n{long}\n"), &with_type(Int8), data, &[&shortened]);
        let list = List(Arc::new(Field::new("item", Int8, true)));
        assert_error(text, &with_type(list), ErrorKind::Unsupported, &["list<int8>", "`a`"]);
        let odd = Dictionary(Box::new(Utf8), Box::new(Utf8));
        assert_error("a\n", &with_type(odd), ErrorKind::Unsupported, &["`a`"]);
    }

    #[test]
    fn a_schema_chooses_columns_and_keeps_its_metadata() {
        let fields = vec![Field::new("c", Int16, false), Field::new("a", Utf8, true)];
        let metadata = HashMap::from([("k".to_string(), "v".to_string())]);
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let options = CsvOptions { schema: Some(schema.clone()), ..options() };
        let (actual_schema, batches) = read("a,b,c\n1,?,3\n", &options).unwrap();
        assert_eq!((&actual_schema, batches[0].schema()), (&schema, schema.clone()));
        assert_eq!(batches[0].column(0).as_primitive::<Int16Type>().values(), &[3]);
        assert_error("a,b\n1,2\n", &options, ErrorKind::ColumnNotFound, &["`c`", "`a`, `b`"]);
        let none = CsvOptions { schema: Some(Arc::new(Schema::empty())), ..options };
        assert_eq!(read("a\n1\n2\n", &none).unwrap().1[0].num_rows(), 2);
    }

    #[test]
    fn overrides_set_the_types_of_single_columns() {
        let zip = || Fields::from(vec![Field::new("zip", Utf8, true)]);
        let text = "id,zip,x\n1,01234,0.5\n2,20095,1\n";
        let overrides = CsvOptions { schema_overrides: zip(), ..options() };
        let (schema, batches) = read(text, &overrides).unwrap();
        let kinds: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(kinds, [Int64, Utf8, Float64]);
        assert_eq!(batches[0].column(1).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["01234", "20095"]);
        // Together with a schema that selects columns, and with a dictionary.
        let schema = Schema::new(vec![Field::new("zip", Int32, true), Field::new("x", Float32, true)]);
        let (schema, _) = read(text, &CsvOptions { schema: Some(Arc::new(schema)), ..overrides.clone() }).unwrap();
        assert_eq!((schema.fields().len(), schema.field(0).data_type()), (2, &Utf8));
        let dictionary_options = CsvOptions { dictionary: vec!["zip".to_string()], ..overrides.clone() };
        assert!(matches!(read(text, &dictionary_options).unwrap().0.field(1).data_type(), Dictionary(..)));
        assert_error("id\n1\n", &overrides, ErrorKind::ColumnNotFound, &["`zip`", "schema_overrides", "`id`"]);
        let int = CsvOptions { schema_overrides: Fields::from(vec![Field::new("x", Int8, true)]), ..options() };
        assert_error(text, &int, ErrorKind::InvalidData, &["line 2", "`x`", "int8"]);
    }

    #[test]
    fn batches_share_one_dictionary_with_the_smallest_keys() {
        for (distinct, key) in [(0, Int8), (128, Int8), (129, Int16), (32_768, Int16), (32_769, Int32)] {
            let values: Vec<_> = (0..distinct).rev().map(|i| i.to_string()).collect();
            let text =
                format!("a,b\n,\n{}\n", values.iter().map(|value| format!("{value},{value}\n")).collect::<String>());
            let (schema, batches) = read(&text, &CsvOptions { batch_rows: 10_000, ..encoding("a") }).unwrap();
            assert_eq!(schema.field(0).data_type(), &Dictionary(Box::new(key), Box::new(Utf8)));
            for batch in &batches {
                assert_eq!(batch.column(0).data_type(), schema.field(0).data_type());
                let dictionary = batch.column(0).as_any_dictionary();
                assert!(Arc::ptr_eq(dictionary.values(), batches[0].column(0).as_any_dictionary().values()));
                assert!(dictionary.values().as_string::<i32>().iter().flatten().eq(&values));
            }
            assert!(batches[0].column(0).is_null(0));
        }
    }

    #[test]
    fn a_schema_may_choose_the_keys() {
        let options = with_type(Dictionary(Box::new(UInt8), Box::new(Utf8)));
        for dictionary in [vec![], vec!["a".to_string()]] {
            let options = CsvOptions { dictionary, ..options.clone() };
            let (_, batches) = read("a\nx\n\ny\nx\n", &options).unwrap();
            let keys = batches[0].column(0).as_dictionary::<UInt8Type>().keys();
            assert_eq!(keys.iter().collect::<Vec<_>>(), [Some(0), None, Some(1), Some(0)]);
        }
        let text = |distinct: u32| (0..distinct).fold("a".to_string(), |text, i| format!("{text}\n{i}"));
        assert!(read(&text(256), &options).is_ok());
        assert_error(text(257), &options, ErrorKind::InvalidData, &["`a`", "UInt8", "257"]);
    }

    #[test]
    fn a_dictionary_needs_a_text_column() {
        assert_error("a,b\n1,2\n", &encoding("c"), ErrorKind::ColumnNotFound, &["`c`", "`a`, `b`"]);
        let options = CsvOptions { dictionary: vec!["a".to_string()], ..with_type(Int8) };
        assert_error("a\n1\n", &options, ErrorKind::InvalidArgument, &["`a`", "int8"]);
    }

    #[test]
    fn malformed_text_is_rejected_with_its_line() {
        for empty in ["", "\n\r\n", "\u{feff}", "\u{feff}\u{feff}\u{feff}\n"] {
            assert_invalid(empty, &["header"]);
        }
        assert_invalid("a,,c\n", &["no name", "column 2"]);
        assert_invalid("a,b,a\n", &["`a` again", "column 3"]);
        assert_invalid("a,b\n1,2\n3\n", &["line 3", "has, 2,", "got 1"]);
        assert_invalid("a,b\r\n\"1\r\n\",2\r\n\r\n1,2,3", &["line 5", "got 3"]);
        assert_invalid("a,b\r1,2\r\r1\r", &["line 4", "got 1"]);
        assert_invalid(b"a,b\n1,2\n\n3,\xff\n", &["line 4", "UTF-8"]);
        assert_invalid(b"\xff\xfea\0", &["line 1", "UTF-8"]);
        assert_invalid("a,b\n1,2\n3,\"4\n5,6\n", &["line 3", "closing quote"]);
        assert_invalid("a\n\"\"\"", &["line 2", "closing quote"]);
        assert_invalid("\"", &["line 1", "closing quote"]);
        // Missing or undoubled quotes would join fields and lines.
        assert_invalid("id,name\n1,\"John\n2,\"Bob\"\n3,x\n", &["line 2", "behind a closing quote"]);
        assert_invalid("a,b\n1,\"x\" \n", &["line 2", "behind a closing quote"]);
        assert_invalid("a,b\n1,2\n\"a \"b\" c\",1\n", &["line 3", "behind a closing quote"]);
    }

    #[test]
    fn invalid_options_are_rejected() {
        for delimiter in [b'"', b'\n', b'\r', 0xe9] {
            assert_error("a\n", &CsvOptions { delimiter, ..options() }, ErrorKind::InvalidArgument, &["delimiter"]);
        }
        assert_error("a\n", &CsvOptions { batch_rows: 0, ..options() }, ErrorKind::InvalidArgument, &["batch_rows"]);
    }

    #[test]
    fn quotes_distinguish_empty_texts_from_nulls() {
        let text = "a,b,c\n\"\",,1\n,\"x\",\"\"\n\"NA\",\"\",NA\n";
        let (schema, batches) = read(text, &options()).unwrap();
        let texts = |column: usize| batches[0].column(column).as_string::<i32>().iter().collect::<Vec<_>>();
        assert_eq!(texts(0), [Some(""), None, Some("NA")]);
        assert_eq!(texts(1), [None, Some("x"), Some("")]);
        // A number cannot be empty.
        assert_eq!((schema.field(2).data_type(), batches[0].column(2).null_count()), (&Int64, 2));
        // Quotes make a word a text.
        let (kind, array) = (read("a\n1\n\"NA\"\n", &options()).unwrap().0, read("a\n1\nNA\n", &options()).unwrap().0);
        assert_eq!((kind.field(0).data_type(), array.field(0).data_type()), (&Utf8, &Int64));
        assert_error("a\n1\n\"NA\"\n", &with_type(Int64), ErrorKind::InvalidData, &["line 3", "\"NA\""]);
        // Quoted numbers are numbers.
        assert_eq!(read("a\n\"1\"\n\"2\"\n", &options()).unwrap().0.field(0).data_type(), &Int64);
    }

    #[test]
    fn a_blank_line_of_one_column_is_a_null() {
        for text in ["a\n1\n\n2\n\n", "a\r\n1\r\n\r\n2\r\n\r\n", "a\r1\r\r2\r\r", "\n\na\n1\n\n2\n\n"] {
            let (_, batches) = read(text, &options()).unwrap();
            let values: Vec<_> = batches[0].column(0).as_primitive::<Int64Type>().iter().collect();
            assert_eq!(values, [Some(1), None, Some(2), None], "{text:?}");
        }
        assert_eq!(read("a\n1\n", &options()).unwrap().1[0].num_rows(), 1);
        assert_eq!(read("a\n1", &options()).unwrap().1[0].num_rows(), 1);
        // With several columns, a blank line is skipped.
        assert_eq!(read("a,b\n1,2\n\n3,4\n\n", &options()).unwrap().1[0].num_rows(), 2);
        assert_error("a\n1\n\nx\n", &with_type(Int64), ErrorKind::InvalidData, &["line 4"]);
    }

    #[test]
    fn options_support_other_dialects() {
        let nulls = |values: &[&str]| Some(values.iter().map(|value| value.to_string()).collect());
        let null_options = CsvOptions { null_values: nulls(&["-", "x"]), ..options() };
        let (schema, batches) = read("a,b\n-,x\n1,NA\n\"\",\"x\"\n", &null_options).unwrap();
        assert_eq!((schema.field(0).data_type(), batches[0].column(0).null_count()), (&Int64, 2));
        let texts: Vec<_> = batches[0].column(1).as_string::<i32>().iter().collect();
        assert_eq!(texts, [None, Some("NA"), Some("x")]);
        let comma_options = CsvOptions { decimal_comma: true, delimiter: b';', ..options() };
        let (schema, batches) =
            read("a;b;c;d\n1,5;1.5;a,b.c;2000-01-01\n-2,25e3;2;d;2000-01-02\n", &comma_options).unwrap();
        let kinds: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(kinds, [Float64, Utf8, Utf8, Date32]);
        assert_eq!(batches[0].column(0).as_primitive::<Float64Type>().values(), &[1.5, -2250.0]);
        assert_eq!(batches[0].column(1).as_string::<i32>().value(0), "1.5");
        let (schema, batches) = read("1,a\n2,b\n", &CsvOptions { header: false, ..options() }).unwrap();
        assert_eq!(
            schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
            ["column_1", "column_2"]
        );
        assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().values(), &[1, 2]);
        let (_, batches) = read("a\n'x\ny'\n\"z\n", &CsvOptions { quote: Some(b'\''), ..options() }).unwrap();
        assert_eq!(batches[0].column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["x\ny", "\"z"]);
        let (_, batches) = read("a\n\"x\n\"y\"\n", &CsvOptions { quote: None, ..options() }).unwrap();
        assert_eq!(batches[0].column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["\"x", "\"y\""]);
        assert_error("a\n", &CsvOptions { quote: Some(b','), ..options() }, ErrorKind::InvalidArgument, &["quote"]);
        assert_error(
            "a\n",
            &CsvOptions { decimal_comma: true, ..options() },
            ErrorKind::InvalidArgument,
            &["delimiter"],
        );
    }

    /// The rows of a text do not depend on where it is cut into chunks.
    #[test]
    fn large_texts_are_parsed_chunk_by_chunk() {
        let rows = 300_000usize;
        let row = |i: usize| {
            let text = if i.is_multiple_of(7) { "\"a\nb, \"\"c\"\"\"".into() } else { format!("text {i}") };
            format!("{i},{text},{}.5\n", i * 3)
        };
        let text = format!("id,text,x\n{}", (0..rows).map(row).collect::<String>());
        assert!(text.len() > 6 << 20);
        let (schema, batches) = read(&text, &options()).unwrap();
        let kinds: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        assert_eq!(kinds, [Int64, Utf8, Float64]);
        assert!(batches.len() > 2);
        let mut id = 0usize;
        for batch in &batches {
            for at in 0..batch.num_rows() {
                assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(at), id as i64);
                let expected = if id.is_multiple_of(7) { "a\nb, \"c\"".to_string() } else { format!("text {id}") };
                assert_eq!(batch.column(1).as_string::<i32>().value(at), expected);
                id += 1;
            }
        }
        assert_eq!(id, rows);
        let (schema, encoded) = read(&text, &encoding("text")).unwrap();
        assert_eq!(schema.field(1).data_type(), &Dictionary(Box::new(Int32), Box::new(Utf8)));
        assert_eq!(encoded.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
        // Line numbers count line breaks in quoted fields, in any chunk.
        let broken = text.replacen("299998,text 299998,899994.5", "299998,text 299998", 1);
        let line = 1 + 299_998 + (0..299_998usize).filter(|i| i.is_multiple_of(7)).count() + 1;
        assert_invalid(&broken, &[&format!("line {line}"), "got 2"]);
    }

    #[test]
    fn byte_classes_of_line_ends_quotes_and_delimiters() {
        let expected = read_column(&["x", "é\"q\"\r\n", "z"], &options()).unwrap().1;
        for text in ["a\nx\n\"é\"\"q\"\"\r\n\"\nz", "\u{feff}\"a\"\r\nx\r\n\"é\"\"q\"\"\r\n\"\r\nz\r\n"] {
            assert_eq!(read(text, &options()).unwrap().1[0].column(0), &expected);
        }
        for delimiter in [b'\t', b';', b'x', b'|', b' '] {
            let text = "a,b\n1,2\n3,4".replace(',', std::str::from_utf8(&[delimiter]).unwrap());
            let (_, batches) = read(&text, &CsvOptions { delimiter, ..options() }).unwrap();
            assert_eq!(batches[0].column(1).as_primitive::<Int64Type>().values(), &[2, 4]);
        }
    }

    #[test]
    fn batches_have_the_rows_asked_for() {
        for (rows, batch_rows, expected) in
            [(0, 2, vec![]), (4, 2, vec![2, 2]), (5, 2, vec![2, 2, 1]), (5, usize::MAX, vec![5])]
        {
            let text = format!("a\n{}", "1\n".repeat(rows));
            let (schema, batches) = read(&text, &CsvOptions { batch_rows, ..options() }).unwrap();
            assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), expected);
            assert_eq!(schema.field(0).data_type() == &Utf8, rows == 0);
        }
    }

    #[test]
    fn a_failing_reader_is_an_io_error() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("unplugged"))
            }
        }
        let error = read_csv_from(Failing, &options()).unwrap_err();
        assert!(error.kind() == ErrorKind::Io && error.message().contains("unplugged"));
    }

    #[test]
    fn dates_are_converted_to_days() {
        let first = NaiveDate::from_ymd_opt(1, 1, 1).unwrap();
        let last = NaiveDate::from_ymd_opt(9999, 12, 31).unwrap();
        for (number, day) in (-719_162..).zip(first.iter_days().take_while(|day| day <= &last)) {
            let text = day.format("%Y-%m-%d").to_string();
            assert_eq!(date(&text), Some(number), "{text}");
            let moment = Moment::parse(&format!("{text}T23:59:59.000001")).unwrap();
            assert_eq!(moment.count(1_000_000), Some((i64::from(number) + 1) * 86_400_000_000 - 999_999), "{text}");
        }
        assert_eq!(date("9999-12-31"), Some(2_932_896));
    }

    #[test]
    fn times_equal_the_times_of_chrono() {
        let state = &mut 1;
        for _ in 0..20_000 {
            let nanos = random(state, 1 << 62) as i64 * 2 - (1 << 62);
            let time = chrono::DateTime::from_timestamp_nanos(nanos);
            let minutes = random(state, 2 * 1439) as i32 - 1439;
            let zone = chrono::FixedOffset::east_opt(minutes * 60).unwrap();
            let text = time.with_timezone(&zone).format("%Y-%m-%d %H:%M:%S%.f%:z").to_string();
            assert_eq!(Moment::parse(&text).unwrap().count(1_000_000_000), Some(nanos), "{text}");
        }
    }

    /// Rows are kept as they were written; the standard library formats the numbers that were read.
    #[test]
    fn random_tables_equal_their_naive_parse() {
        let state = &mut 7;
        for _ in 0..300 {
            let rows: Vec<[String; 3]> = (0..1 + random(state, 40)).map(|_| random_row(state)).collect();
            let mut writer = csv::Writer::from_writer(vec![]);
            writer.write_record(["int", "float", "te,xt"]).unwrap();
            for row in &rows {
                writer.write_record(row).unwrap();
            }
            let batch_rows = 1 + random(state, 20) as usize;
            let has_dictionary = batch_rows.is_multiple_of(2);
            let options = CsvOptions { batch_rows, ..if has_dictionary { encoding("te,xt") } else { options() } };
            let (_, batches) = read_csv_from(&writer.into_inner().unwrap()[..], &options).unwrap();
            let parsed = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| format_row(batch, row)));
            assert!(parsed.eq(rows.iter().cloned()), "{rows:?}");
        }
    }

    fn random_row(state: &mut u64) -> [String; 3] {
        let pieces = ["", "a", "é", ",", "\"", "\n", "\r\n", " ", "1"];
        let int = random(state, u64::MAX) as i64 >> random(state, 64);
        let float = f64::from_bits(random(state, 1 << 62)) + 0.5;
        let text: String = (0..random(state, 5)).map(|_| pieces[random(state, 9) as usize]).collect();
        [int.to_string(), format!("{float:?}"), format!("x{text}")]
    }

    fn format_row(batch: &RecordBatch, row: usize) -> [String; 3] {
        let text = match batch.column(2).as_dictionary_opt::<Int8Type>() {
            Some(array) => {
                array.downcast_dict::<arrow_array::StringArray>().unwrap().into_iter().nth(row).unwrap().unwrap()
            }
            None => batch.column(2).as_string::<i32>().value(row),
        };
        let int = batch.column(0).as_primitive::<Int64Type>().value(row);
        let float = batch.column(1).as_primitive::<Float64Type>().value(row);
        [int.to_string(), format!("{float:?}"), text.to_string()]
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
        let dataset = crate::Dataset::from_batches(schema.clone(), batches).unwrap();
        let cells = |row: crate::Row<'_>| row.iter().map(|(_, value)| format!("{:?};", value.unwrap())).collect();
        Ok((schema, dataset.rows().map(|row| cells(row.unwrap())).collect()))
    }

    /// Reads a text in chunks of `chunk` bytes; returns the outcome, and how often the text was opened.
    fn read_in_chunks(text: &[u8], options: &CsvOptions, chunk: usize) -> (Outcome, usize) {
        let opens = std::cell::Cell::new(0);
        let open = || {
            opens.set(opens.get() + 1);
            Ok(text)
        };
        let mut batches = TextBatches::default();
        let schema = read_in_order(&open, options, &mut batches, chunk);
        (outcome(schema, batches.batches), opens.get())
    }

    /// Reads a text after its types were inferred from all values.
    fn read_after_inference(text: &[u8], options: &CsvOptions, chunk: usize) -> Outcome {
        let mut batches = NoRestart::default();
        let schema = read_in_order(&|| Ok(text), options, &mut batches, chunk);
        outcome(schema, batches.0.batches)
    }

    #[test]
    fn text_is_read_once_while_its_types_hold() {
        for (first, last, expected_opens) in [
            ("1", "-7", 1),
            ("1", "NA", 1),
            ("1", "\"2\"", 1),
            ("1", "2.5", 2),
            ("1", "007", 2),
            ("1", "+1", 2),
            ("1", "-0", 2),
            ("1", "18446744073709551615", 2),
            ("18446744073709551615", "1", 1),
            ("2.5", "7", 1),
            ("2.5", "nan", 1),
            ("2.5", "9007199254740993", 2),
            ("NA", "NA", 1),
            ("NA", "1", 2),
            ("x", "1", 1),
            ("2024-02-29", "Jan 31 2000", 1),
            ("2024-02-29", "2024-02-30", 2),
            ("2024-02-29 00:00:00.5", "2024-02-29T00:00:00", 1),
            ("2024-02-29 00:00:00.5", "2024-02-29 00:00:00.123456789", 2),
            ("2024-02-29 00:00:00.5", "2024-02-29", 2),
            ("2024-02-29 00:00:00.123456789", "2024-02-29 00:00:00", 1),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00+02:00", 1),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00", 2),
            ("true", "FALSE", 1),
            ("true", "1", 2),
        ] {
            let text = format!("a,b\n{}{last},x\n", format!("{first},x\n").repeat(20));
            let (result, opens) = read_in_chunks(text.as_bytes(), &options(), first.len() + 9);
            assert_eq!(opens, expected_opens, "{first:?} {last:?}");
            assert_eq!(result, read_after_inference(text.as_bytes(), &options(), 1 << 20), "{first:?} {last:?}");
        }
    }

    /// Rows are parsed by types of all values, even if the last value changes a type.
    #[test]
    fn types_depend_on_all_values() {
        let values = [
            "1",
            "-7",
            "0",
            "-0",
            "007",
            "+1",
            "9007199254740993",
            "18446744073709551615",
            "2.5",
            "1e3",
            "nan",
            "true",
            "False",
            "2024-02-29",
            "0001-01-01",
            "Jan 31 2000",
            "2024-02-29 00:00:00.5",
            "0001-02-03 00:00:00.5",
            "2024-02-29 00:00:00.123456789",
            "2024-02-29T00:00:00Z",
            "2024-02-29T00:00:00.5+02:00",
            "x",
            "\u{e9}",
            "NA",
            "",
            "\"\"",
            "\"NA\"",
            "\"1\"",
            "\"a\"\"b\nc\"",
            "a\"b",
            "-",
            "1,5",
        ];
        let state = &mut 11;
        let mut opened_once = 0;
        for _ in 0..4000 {
            let mut pick = || values[random(state, values.len() as u64 - 1) as usize];
            let row = [pick(), pick()];
            let other_row = [pick(), pick()];
            let copies = 1 + random(state, 12) as usize;
            let mut text = format!("a,b\n{}", format!("{},{}\n", row[0], row[1]).repeat(copies));
            for _ in 0..random(state, 3) {
                text += &match random(state, 8) {
                    0 => format!("{},{}\n", row[0], other_row[1]),
                    1 => format!("{},{}\r\n", other_row[0], row[1]),
                    2 => "\n".to_string(),
                    3 => format!("{}\n", other_row[0]),
                    _ => format!("{},{}\n", row[0], row[1]),
                };
            }
            let options = match random(state, 4) {
                0 => CsvOptions { null_values: Some(vec!["x".into(), "1".into()]), ..options() },
                1 => CsvOptions { batch_rows: 2, ..options() },
                2 => CsvOptions { header: false, quote: None, ..options() },
                _ => options(),
            };
            let chunk = 1 + random(state, 60) as usize;
            let bytes = &text.as_bytes()[..text.len() - random(state, 2) as usize];
            let (result, opens) = read_in_chunks(bytes, &options, chunk);
            opened_once += usize::from(opens == 1 && result.is_ok());
            assert_eq!(result, read_after_inference(bytes, &options, chunk), "{text:?} {chunk}");
            assert_eq!(result, read_after_inference(bytes, &options, 1 << 20), "{text:?} {chunk}");
        }
        assert!(opened_once > 500, "{opened_once}");
    }

    /// The crate `csv` is independent of this library.
    #[test]
    fn records_equal_those_of_the_csv_crate() {
        let pieces =
            ["a", ",", ",", "\"", "\"", "\n", "\n", "\r", "\u{e9}", "1", "x y", "\"a,\nb\"", "\"\"\"\"", "\r\n"];
        let state = &mut 5;
        let mut unclosed_quotes = 0;
        for _ in 0..30_000 {
            let text: String = (0..random(state, 24)).map(|_| pieces[random(state, 13) as usize]).collect();
            let quote = if random(state, 4) == 0 { None } else { Some(b'"') };
            let options = CsvOptions { quote, ..options() };
            let text = format!("{text}\n");
            let chunk = Chunk { bytes: text.clone().into(), lines: 1, is_first: false };
            let csv_text = CsvText::from_chunk(&chunk, &options);
            let mut builder = csv::ReaderBuilder::new();
            let mut reader =
                builder.has_headers(false).flexible(true).quoting(quote.is_some()).from_reader(text.as_bytes());
            let mut records = csv_text.records();
            for record in reader.records() {
                let record = record.unwrap();
                // Records may differ in their number of fields.
                records.width = None;
                match records.next() {
                    Ok(has_record) => assert!(has_record, "{text:?}"),
                    Err(e) => {
                        assert!(e.message().contains("closing quote"), "{text:?}: {e}");
                        unclosed_quotes += 1;
                        break;
                    }
                }
                let fields: Vec<_> = (0..records.fields.len()).map(|i| records.field(i)).collect();
                assert_eq!(fields, record.iter().collect::<Vec<_>>(), "{text:?}");
            }
        }
        assert!(unclosed_quotes > 1000);
    }

    #[test]
    fn no_text_panics() {
        let pieces =
            ["a", ",", "\"", "\n", "\r", "\u{feff}", "é", "1", "-", "+", "T", "Z", ":", ".", " ", "2000-01-01"];
        let state = &mut 3;
        for _ in 0..20_000 {
            let text: String = (0..random(state, 24)).map(|_| pieces[random(state, 16) as usize]).collect();
            let bytes = &text.as_bytes()[..text.len().saturating_sub(random(state, 2) as usize)];
            let header = text.split([',', '\n']).next().unwrap_or_default().to_string();
            for options in [options(), encoding(&header), with_type(Timestamp(Second, None)), with_type(Boolean)] {
                if let Err(error) = read_csv_from(bytes, &options) {
                    assert!(error.message().starts_with("reading CSV"), "{error}");
                }
            }
        }
    }
}
