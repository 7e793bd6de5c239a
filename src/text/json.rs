//! Reads JSON lines, one object for each row, into record batches.
//!
//! Types are inferred from all values of a column, so they hold to the end of the text: `true` and `false` are
//! `Boolean`, numbers `Int64`, `UInt64` or `Float64` (as in CSV: the first that holds all of them exactly), strings
//! `Date32` or `Timestamp` where all of them are dates or times as CSV has them, `Float64` where they are `NaN`,
//! `Infinity` or `-Infinity`, else `Utf8`; lists are `List`, objects `Struct` with the members of all of them. A column
//! of nulls alone is `Utf8`. So is one whose values agree on nothing else: strings as they are, anything else as the
//! JSON it is, digit by digit.
//!
//! A member that an object does not have is null. Blank lines are skipped.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, GenericListArray, OffsetSizeTrait, RecordBatch, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::columns::*;
use super::lines::{Incoming, Parser};
use super::scalar::*;
use crate::error::{Error, ErrorKind, Result};

/// How to read JSON lines.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JsonOptions {
    /// The columns and their types; `None`: all that any line has, inferred from all values.
    pub schema: Option<SchemaRef>,
    /// The names of text columns to dictionary-encode, with the smallest of `Int8`, `Int16` and `Int32` keys that will
    /// do, and one dictionary for all batches.
    pub dictionary: Vec<String>,
    /// Rows per record batch; the last has what is left.
    pub batch_rows: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        JsonOptions { schema: None, dictionary: Vec::new(), batch_rows: 1 << 20 }
    }
}

/// Reads all of `input`, one JSON object on each line, into record batches.
///
/// # Errors
/// As [`stream_json`].
pub fn read_json_from(mut input: impl Read, options: &JsonOptions) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let mut text = Vec::new();
    input.read_to_end(&mut text).map_err(|e| Error::io(READING, &e))?;
    read(&text, options).map_err(reading)
}

const READING: &str = "reading JSON lines";

fn reading(e: Error) -> Error {
    e.context(READING)
}

fn read(text: &[u8], options: &JsonOptions) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    check_batch_rows(options.batch_rows)?;
    let lines = || Lines { rest: text, number: 0 };
    let schema = match &options.schema {
        Some(schema) => schema.clone(),
        None => Arc::new(infer(lines(), &options.dictionary)?),
    };
    check_dictionary(&options.dictionary, &schema)?;
    let mut table = Table::new(&schema, options)?;
    for line in lines() {
        if table.push(line?)? {
            table.columns.cut()?;
        }
    }
    table.columns.cut()?;
    table.columns.assemble()
}

/// Reads rows of [`JsonOptions::schema`] from `input` as they come, in batches of at most [`JsonOptions::batch_rows`]
/// rows. Rows are handed on when the batch is full, at the end, and when nothing more comes and the first of them has
/// waited for `patience`, so that `input` may be the other end of `tail -f`.
///
/// Each line is an object with any of the schema's columns, and no others. A string is a value of any type that CSV can
/// be read as, as it is there ([`stream_csv`](crate::stream_csv)), but `Boolean`; a number is one of any type of
/// numbers, and the count of a timestamp or time in its unit.
///
/// # Errors
/// `InvalidArgument` without a schema, or with columns to dictionary-encode, which the schema is to tell; `Unsupported`
/// for types that JSON can't be read as. Other errors are items, the last one: they name line, column, value and type.
pub fn stream_json(input: impl Read + Send + 'static, options: &JsonOptions, patience: Duration) -> Result<Incoming> {
    let schema = given_schema(&options.schema, &options.dictionary).map_err(reading)?;
    let table = check_batch_rows(options.batch_rows).and_then(|()| Table::new(&schema, options)).map_err(reading)?;
    Incoming::new(input, schema, Box::new(Rows { table, lines: 0 }), READING, patience)
}

/// The lines of a text that comes in blocks.
struct Rows {
    table: Table,
    /// The lines that were parsed.
    lines: usize,
}

impl Parser for Rows {
    fn whole(&mut self, fresh: &[u8]) -> Option<usize> {
        fresh.iter().rposition(|&byte| byte == b'\n').map(|at| at + 1)
    }

    fn parse(&mut self, records: Vec<u8>, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let mut lines = Lines { rest: &records, number: self.lines };
        for line in lines.by_ref() {
            if line.and_then(|line| self.table.push(line)).map_err(reading)? {
                ready.extend(self.take()?);
            }
        }
        self.lines = lines.number;
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.table.columns.rows > 0
    }

    fn take(&mut self) -> Result<Option<RecordBatch>> {
        self.table.columns.take().map_err(reading)
    }
}

// ---- lines ----

/// The lines of a text that are not blank.
struct Lines<'a> {
    rest: &'a [u8],
    /// That of the line before.
    number: usize,
}

#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>>;

    fn next(&mut self) -> Option<Result<Line<'a>>> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|&byte| byte == b'\n').unwrap_or(self.rest.len());
            let line = self.rest.get(..end).unwrap_or_default();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            self.number += 1;
            let marked = if self.number == 1 { line.strip_prefix(b"\xEF\xBB\xBF") } else { None };
            let line = marked.unwrap_or(line).trim_ascii();
            if !line.is_empty() {
                let number = self.number;
                let text = std::str::from_utf8(line).map_err(|_| {
                    Error::invalid(format!("line {number}: expected UTF-8, got other bytes; save the text as UTF-8"))
                });
                return Some(text.map(|text| Line { number, text }));
            }
        }
        None
    }
}

impl<'a> Line<'a> {
    fn object(&self) -> Result<Object<'a>> {
        let object = match self.text.starts_with('{') {
            true => members(self.text),
            false => Err(Refusal::new(format!("expected one object on each line, got {}", quoted(self.text)))),
        };
        object.map_err(|refusal| self.error(refusal))
    }

    fn error(&self, Refusal { kind, column, fault }: Refusal) -> Error {
        let column = if column.is_empty() { column } else { format!(", column `{}`", shorten(&column)) };
        Error::new(kind, format!("line {}{column}: {fault}", self.number))
    }
}

/// What is wrong with a line.
struct Refusal {
    kind: ErrorKind,
    /// Where, as in `a.b`; empty for the line itself.
    column: String,
    fault: String,
}

impl Refusal {
    fn new(fault: String) -> Refusal {
        Refusal { kind: ErrorKind::InvalidData, column: String::new(), fault }
    }

    fn inside(mut self, name: &str) -> Refusal {
        let point = if self.column.is_empty() || self.column.starts_with('[') { "" } else { "." };
        self.column = format!("{name}{point}{}", self.column);
        self
    }
}

fn quoted(value: &str) -> String {
    shorten(value).replace(char::is_control, " ")
}

/// The members of an object, in order, their values not looked into.
struct Object<'a>(Vec<(Text<'a>, &'a RawValue)>);

struct Text<'a>(Cow<'a, str>);

fn members(json: &str) -> Result<Object<'_>, Refusal> {
    serde_json::from_str(json).map_err(|e| not_json(json, &e))
}

fn items(json: &str) -> Result<Vec<&RawValue>, Refusal> {
    serde_json::from_str(json).map_err(|e| not_json(json, &e))
}

fn string(json: &str) -> Result<Cow<'_, str>, Refusal> {
    serde_json::from_str(json).map(|Text(text)| text).map_err(|e| not_json(json, &e))
}

fn not_json(json: &str, e: &serde_json::Error) -> Refusal {
    let what = e.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    Refusal::new(format!("expected JSON, got {} ({what} at character {})", quoted(json), e.column()))
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut found = Vec::new();
                while let Some(member) = map.next_entry()? {
                    found.push(member);
                }
                Ok(Object(found))
            }
        }
        from.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Characters;
        impl<'de> Visitor<'de> for Characters {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.into())))
            }
        }
        from.deserialize_str(Characters)
    }
}

// ---- inference ----

/// What the values of a column have in common.
enum Shape {
    Scalar(Kinds),
    List(Box<Shape>),
    Struct(Shapes),
}

/// Members of objects, in order of first appearance.
#[derive(Default)]
struct Shapes {
    members: Vec<(String, Shape)>,
    numbers: HashMap<String, usize>,
}

/// The depth of nesting that IPC files are read with as well.
const MAX_DEPTH: usize = 64;

fn infer(lines: Lines<'_>, dictionary: &[String]) -> Result<Schema> {
    let mut shapes = Shapes::default();
    for line in lines {
        let line = line?;
        shapes.see(&line.object()?, MAX_DEPTH - 1).map_err(|refusal| line.error(refusal))?;
    }
    for (name, shape) in &mut shapes.members {
        if dictionary.contains(name) {
            *shape = Shape::Scalar(TEXT);
        }
    }
    Ok(Schema::new(shapes.fields()))
}

impl Shapes {
    fn see(&mut self, Object(members): &Object<'_>, depth: usize) -> Result<(), Refusal> {
        for (Text(name), value) in members {
            let number = *self.numbers.entry(name.to_string()).or_insert(self.members.len());
            if number == self.members.len() {
                self.members.push((name.to_string(), Shape::Scalar(UNSEEN)));
            }
            if let Some((_, shape)) = self.members.get_mut(number) {
                shape.see(value.get(), depth).map_err(|refusal| refusal.inside(name))?;
            }
        }
        Ok(())
    }

    fn fields(self) -> Fields {
        self.members.into_iter().map(|(name, shape)| Field::new(name, shape.data_type(), true)).collect()
    }
}

impl Shape {
    fn see(&mut self, json: &str, depth: usize) -> Result<(), Refusal> {
        let below = || depth.checked_sub(1).ok_or_else(|| Refusal::new(format!("nested more than {MAX_DEPTH} deep")));
        match (json.as_bytes().first(), &mut *self) {
            (Some(b'n'), _) => {}
            (Some(b'['), Shape::Scalar(UNSEEN)) => {
                *self = Shape::List(Box::new(Shape::Scalar(UNSEEN)));
                self.see(json, depth)?;
            }
            (Some(b'{'), Shape::Scalar(UNSEEN)) => {
                *self = Shape::Struct(Shapes::default());
                self.see(json, depth)?;
            }
            (Some(b'['), Shape::List(shape)) => {
                let below = below()?;
                items(json)?.iter().try_for_each(|item| shape.see(item.get(), below))?;
            }
            (Some(b'{'), Shape::Struct(shapes)) => shapes.see(&members(json)?, below()?)?,
            (_, Shape::Scalar(TEXT)) => {}
            (_, Shape::Scalar(kinds)) => *kinds &= scalar_kinds(json)?,
            _ => *self = Shape::Scalar(TEXT),
        }
        Ok(())
    }

    fn data_type(self) -> DataType {
        match self {
            Shape::Scalar(kinds) => candidate(kinds),
            Shape::List(shape) => DataType::new_list(shape.data_type(), true),
            Shape::Struct(shapes) => DataType::Struct(shapes.fields()),
        }
    }
}

fn scalar_kinds(json: &str) -> Result<Kinds, Refusal> {
    Ok(match json.as_bytes().first() {
        Some(b'"') => match &*string(json)? {
            "NaN" | "Infinity" | "-Infinity" => FLOAT,
            text => kinds_of(text) & !(BOOLEAN | INT | UINT | FLOAT),
        },
        Some(b'[' | b'{') => TEXT,
        Some(b't' | b'f') => BOOLEAN,
        _ => number_kinds(json),
    })
}

// ---- columns ----

/// The columns by their names.
struct Table {
    columns: Filling<Node>,
    numbers: HashMap<String, usize>,
}

/// What collects the values of a column.
enum Node {
    /// If lenient, text takes any JSON.
    Scalar {
        sink: Box<dyn Sink>,
        lenient: bool,
    },
    List(List),
    Struct(Members),
}

struct List {
    item: Box<Column<Node>>,
    wide: bool,
    /// Behind the last item of each list.
    ends: Vec<usize>,
    valid: Vec<bool>,
}

struct Members {
    columns: Vec<Column<Node>>,
    numbers: HashMap<String, usize>,
    valid: Vec<bool>,
}

impl Table {
    fn new(schema: &SchemaRef, options: &JsonOptions) -> Result<Table> {
        let lenient = options.schema.is_none();
        let columns = columns(schema.fields(), &options.dictionary, lenient)?;
        let columns = Filling::new(schema.clone(), columns, options.batch_rows);
        Ok(Table { columns, numbers: numbers(schema.fields())? })
    }

    /// Takes a row in; true when that fills a batch.
    fn push(&mut self, line: Line<'_>) -> Result<bool> {
        let pushed = push_members(&mut self.columns.columns, &self.numbers, &line.object()?, self.columns.rows);
        pushed.map_err(|refusal| line.error(refusal))?;
        Ok(self.columns.count())
    }
}

fn columns(fields: &Fields, dictionary: &[String], lenient: bool) -> Result<Vec<Column<Node>>> {
    fields.iter().map(|field| column(field, dictionary, lenient)).collect()
}

fn column(field: &FieldRef, dictionary: &[String], lenient: bool) -> Result<Column<Node>> {
    let list = |item, wide| {
        let item = Box::new(column(item, &[], lenient)?);
        Ok(Node::List(List { item, wide, ends: Vec::new(), valid: Vec::new() }))
    };
    let node = match field.data_type() {
        DataType::List(item) => list(item, false)?,
        DataType::LargeList(item) => list(item, true)?,
        DataType::Struct(fields) => Node::Struct(Members {
            columns: columns(fields, &[], lenient)?,
            numbers: numbers(fields)?,
            valid: Vec::new(),
        }),
        _ => Node::Scalar { sink: sink_of(field, dictionary)?, lenient },
    };
    Ok(Column::new(field.as_ref().clone(), node))
}

fn numbers(fields: &Fields) -> Result<HashMap<String, usize>> {
    let mut numbers = HashMap::new();
    for (number, field) in fields.iter().enumerate() {
        if numbers.insert(field.name().clone(), number).is_some() {
            let name = shorten(field.name());
            return Err(Error::unsupported(format!("expected columns with names of their own, got `{name}` again")));
        }
    }
    Ok(numbers)
}

/// Takes an object in as number `row`, nulls for what it does not have.
fn push_members(
    columns: &mut [Column<Node>],
    numbers: &HashMap<String, usize>,
    Object(members): &Object<'_>,
    row: usize,
) -> Result<(), Refusal> {
    for (place, (Text(name), value)) in members.iter().enumerate() {
        // Members mostly stand in the order of the columns.
        let here = columns.get(place).is_some_and(|column| column.field.name() == name);
        let number = if here { Some(place) } else { numbers.get(&**name).copied() };
        let Some(column) = number.and_then(|number| columns.get_mut(number)) else {
            return Err(unknown(name, columns));
        };
        let pushed =
            if column.rows == row { column.push(value.get()) } else { Err(Refusal::new("given twice".into())) };
        pushed.map_err(|refusal| refusal.inside(name))?;
    }
    for column in columns.iter_mut().filter(|column| column.rows == row) {
        column.push("null").map_err(|refusal| refusal.inside(column.field.name()))?;
    }
    Ok(())
}

fn unknown(name: &str, columns: &[Column<Node>]) -> Refusal {
    let error = missing(name, "the line", columns.iter().map(|column| column.field.name().as_str()));
    Refusal { kind: error.kind(), column: String::new(), fault: error.message().into() }
}

impl Column<Node> {
    fn push(&mut self, json: &str) -> Result<(), Refusal> {
        let value = (json != "null").then_some(json);
        if value.is_none() && !self.field.is_nullable() {
            let expected = self.field.data_type();
            return Err(Refusal::new(format!("expected {expected} without nulls, got none; give a value")));
        }
        self.sink.push(value, self.field.data_type())?;
        self.rows += 1;
        Ok(())
    }
}

impl Node {
    fn push(&mut self, json: Option<&str>, expected: &DataType) -> Result<(), Refusal> {
        let first = json.and_then(|json| json.as_bytes().first());
        match (self, first) {
            (Node::Scalar { sink, lenient }, _) => push_scalar(expected, sink.as_mut(), *lenient, json),
            (Node::List(list), None | Some(b'[')) => list.push(json),
            (Node::Struct(members), None | Some(b'{')) => members.push(json),
            (_, _) => Err(misfit(expected, json.unwrap_or_default())),
        }
    }
}

fn push_scalar(data_type: &DataType, sink: &mut dyn Sink, lenient: bool, json: Option<&str>) -> Result<(), Refusal> {
    let Some(json) = json else { return sink.push(None).ok_or_else(|| misfit(data_type, "null")) };
    let fits = lenient || takes(data_type, json);
    let text = if json.starts_with('"') { string(json)? } else { Cow::Borrowed(json) };
    let pushed = fits.then(|| sink.push(Some(&text))).flatten();
    pushed.ok_or_else(|| misfit(data_type, json))
}

/// Whether JSON of this kind can be a value of the type.
fn takes(data_type: &DataType, json: &str) -> bool {
    use DataType::*;
    match json.as_bytes().first() {
        Some(b'"') => *data_type != Boolean,
        Some(b't' | b'f') => *data_type == Boolean,
        Some(b'[' | b'{') => false,
        _ => data_type.is_numeric() || matches!(data_type, Timestamp(..) | Time32(_) | Time64(_)),
    }
}

fn misfit(expected: &DataType, json: &str) -> Refusal {
    Refusal::new(format!("expected {expected}, got {}; correct the value", quoted(json)))
}

impl List {
    fn push(&mut self, json: Option<&str>) -> Result<(), Refusal> {
        for value in json.map_or(Ok(Vec::new()), items)? {
            self.item.push(value.get()).map_err(|refusal| refusal.inside("[]"))?;
        }
        if !self.wide && i32::try_from(self.item.rows).is_err() {
            return Err(Refusal::new(
                "expected at most 2^31 items in a batch; use LargeList or a smaller batch_rows".into(),
            ));
        }
        self.ends.push(self.item.rows);
        self.valid.push(json.is_some());
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let ends = std::mem::take(&mut self.ends);
        let nulls = NullBuffer::from(std::mem::take(&mut self.valid));
        let values = self.item.array(ends.last().copied().unwrap_or(0))?;
        let field = Arc::new(self.item.field.clone());
        if self.wide { list::<i64>(field, &ends, values, nulls) } else { list::<i32>(field, &ends, values, nulls) }
    }
}

fn list<O: OffsetSizeTrait>(item: FieldRef, ends: &[usize], values: ArrayRef, nulls: NullBuffer) -> Result<ArrayRef> {
    let offsets = [0].iter().chain(ends).map(|&end| O::usize_as(end));
    let offsets = OffsetBuffer::new(ScalarBuffer::from_iter(offsets));
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    let array = GenericListArray::try_new(item, offsets, values, nulls);
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|e| Error::invalid(e.to_string()))
}

impl Members {
    fn push(&mut self, json: Option<&str>) -> Result<(), Refusal> {
        let row = self.valid.len();
        match json {
            Some(json) => push_members(&mut self.columns, &self.numbers, &members(json)?, row)?,
            None => self.columns.iter_mut().try_for_each(Column::push_hidden)?,
        }
        self.valid.push(json.is_some());
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let rows = self.valid.len();
        let nulls = NullBuffer::from(std::mem::take(&mut self.valid));
        let arrays = self.columns.iter_mut().map(|column| column.array(rows)).collect::<Result<_>>()?;
        let fields = self.columns.iter().map(|column| column.field.clone()).collect();
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        let array = StructArray::try_new_with_length(fields, arrays, nulls, rows);
        array.map(|array| Arc::new(array) as ArrayRef).map_err(|e| Error::invalid(e.to_string()))
    }
}

impl Column<Node> {
    /// The place of a value in an object that is null, where even nulls that are not allowed do no harm.
    fn push_hidden(&mut self) -> Result<(), Refusal> {
        self.sink.push(None, self.field.data_type())?;
        self.rows += 1;
        Ok(())
    }
}

impl Finish for Node {
    fn finish(&mut self) -> Result<ArrayRef> {
        match self {
            Node::Scalar { sink, .. } => sink.finish(),
            Node::List(list) => list.finish(),
            Node::Struct(members) => members.finish(),
        }
    }

    fn seal(&mut self, field: Field, chunks: Vec<ArrayRef>) -> Result<(Field, Vec<ArrayRef>)> {
        match self {
            Node::Scalar { sink, .. } => sink.seal(field, chunks),
            _ => Ok((field, chunks)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;
    use DataType::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::*;
    use arrow_schema::TimeUnit::*;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    fn read(text: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        read_json_from(text.as_bytes(), &JsonOptions::default())
    }

    fn with(fields: Vec<Field>) -> JsonOptions {
        JsonOptions { schema: Some(Arc::new(Schema::new(fields))), ..JsonOptions::default() }
    }

    /// The values of a single column `a`, as lines.
    fn lines(values: &[&str]) -> String {
        values.iter().map(|value| format!("{{\"a\": {value}}}\n")).collect()
    }

    fn typed(values: &[&str], data_type: DataType) -> Result<ArrayRef> {
        let options = with(vec![Field::new("a", data_type.clone(), true)]);
        let (schema, batches) = read_json_from(lines(values).as_bytes(), &options)?;
        assert_eq!((schema.field(0).data_type(), batches[0].column(0).data_type()), (&data_type, &data_type));
        Ok(batches[0].column(0).clone())
    }

    #[track_caller]
    fn refused(text: impl AsRef<[u8]>, options: &JsonOptions, parts: &[&str]) {
        let error = read_json_from(text.as_ref(), options).unwrap_err();
        let parts = ["reading JSON lines"].iter().chain(parts);
        parts.for_each(|part| assert!(error.message().contains(part), "{part:?} not in: {error}"));
    }

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
            (&["1", "18446744073709551616"], Utf8),
            (&["2.5", "9007199254740993"], Utf8),
            (&["1e999"], Utf8),
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
    fn what_agrees_on_nothing_stays_as_it_is() {
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
        refused(&text, &JsonOptions { dictionary: vec!["b".into()], ..options.clone() }, &["`b`", "`a`"]);
        refused(&text, &JsonOptions { batch_rows: 0, ..options }, &["batch_rows"]);
    }

    #[test]
    fn every_type_of_a_schema() {
        let ints = typed(&["-128", "\"127\"", "null"], Int8).unwrap();
        assert_eq!(ints.as_primitive::<Int8Type>().iter().collect::<Vec<_>>(), [Some(-128), Some(127), None]);
        let floats = typed(&["1", "0.1", "\"-inf\""], Float32).unwrap();
        assert_eq!(floats.as_primitive::<Float32Type>().values(), &[1.0, 0.1, f32::NEG_INFINITY]);
        let half = typed(&["1.5"], Float16).unwrap();
        assert_eq!(half.as_primitive::<Float16Type>().value(0).to_f32(), 1.5);
        assert!(typed(&["true"], Boolean).unwrap().as_boolean().value(0));
        let decimals = typed(&["1.5", "\"-12.34\"", "1e3", "0.1200", "-0.0e9", "\".5\""], Decimal128(6, 2)).unwrap();
        assert_eq!(decimals.as_primitive::<Decimal128Type>().values(), &[150, -1234, 100_000, 12, 0, 50]);
        assert_eq!(typed(&["99.9"], Decimal32(3, 1)).unwrap().as_primitive::<Decimal32Type>().value(0), 999);
        assert_eq!(typed(&["-12300"], Decimal64(3, -2)).unwrap().as_primitive::<Decimal64Type>().value(0), -123);
        assert_eq!(typed(&["\"1970-01-02\""], Date32).unwrap().as_primitive::<Date32Type>().value(0), 1);
        let seconds = typed(&["\"01:00:01\"", "5"], Time32(Second)).unwrap();
        assert_eq!(seconds.as_primitive::<Time32SecondType>().values(), &[3601, 5]);
        let nanos = typed(&["\"23:59:59.999999999\""], Time64(Nanosecond)).unwrap();
        assert_eq!(nanos.as_primitive::<Time64NanosecondType>().value(0), 86_400_000_000_000 - 1);
        for (unit, per_second) in
            [(Second, 1), (Millisecond, 1_000), (Microsecond, 1_000_000), (Nanosecond, 1_000_000_000)]
        {
            let zoned = Timestamp(unit, Some("UTC".into()));
            let stamps = typed(&["\"1970-01-01T00:00:02Z\"", "-7", "\"1970-01-01T01:00:00\""], zoned).unwrap();
            let stamps = crate::array::to_array(stamps.to_data().into_builder().data_type(Int64).build().unwrap());
            assert_eq!(stamps.as_primitive::<Int64Type>().values(), &[2 * per_second, -7, 3600 * per_second]);
        }
        for (data_type, text) in [(Utf8, "\u{e9}\u{1f600}\n"), (LargeUtf8, ""), (Utf8View, "longer than twelve bytes")]
        {
            let value = serde_json::to_string(text).unwrap();
            let array = typed(&[&value, "null", "\"\\ud83d\\ude00\""], data_type).unwrap();
            let array = crate::dataset::Dataset::from_batches(
                Arc::new(Schema::new(vec![Field::new("a", array.data_type().clone(), true)])),
                vec![RecordBatch::try_from_iter([("a", array)]).unwrap()],
            );
            let column = array.unwrap();
            let got: Vec<_> = column.rows().map(|row| row.unwrap().get(0).unwrap().to_json().unwrap()).collect();
            assert_eq!(got, [json!(text), Json::Null, json!("\u{1f600}")]);
        }
        assert_eq!(typed(&["\"00fF\"", "\"\""], Binary).unwrap().as_binary::<i32>().value(0), &[0, 255]);
        assert_eq!(typed(&["\"0a\""], LargeBinary).unwrap().as_binary::<i64>().value(0), &[10]);
        let encoded = typed(&["\"x\"", "null", "\"y\"", "\"x\""], Dictionary(Box::new(Int32), Box::new(Utf8))).unwrap();
        assert_eq!(
            encoded.as_dictionary::<Int32Type>().keys().iter().collect::<Vec<_>>(),
            [Some(0), None, Some(1), Some(0)]
        );
        assert_eq!(typed(&["null"], Null).unwrap().len(), 1);
        let item = Struct(Fields::from(vec![Field::new("b", Dictionary(Box::new(Int8), Box::new(Utf8)), false)]));
        let nested = typed(&["[{\"b\": \"x\"}, null]", "null", "[]"], DataType::new_large_list(item, true)).unwrap();
        assert_eq!((nested.len(), nested.null_count(), nested.as_list::<i64>().values().len()), (3, 1, 2));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let a = |data_type: &DataType| with(vec![Field::new("a", data_type.clone(), true)]);
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
            refused(text, &a(data_type), &["line 2", "column `a`", &data_type.to_string(), value]);
        }
        let inner = Field::new("b", DataType::new_list(Int8, true), false);
        let options = with(vec![Field::new("a", Struct(vec![inner].into()), true)]);
        refused("\n\n{\"a\": {\"b\": [1, 300]}}", &options, &["line 3", "`a.b[]`", "Int8", "300"]);
        refused("{\"a\": {}}", &options, &["line 1", "`a.b`", "without nulls"]);
        refused("{\"a\": {\"c\": 1}}", &options, &["line 1", "`a`", "`c`", "columns `b`"]);
        refused("{\"a\": null, \"c\": 1}", &options, &["line 1", "`c`", "columns `a`"]);
        refused("{\"a\": null, \"a\": null}", &options, &["line 1", "`a`", "twice"]);
        assert!(read_json_from(&b"{\"a\": null}"[..], &options).is_ok());
        refused("{}", &a(&Duration(Second)), &["Duration", "`a`"]);
        refused("{}", &with(vec![Field::new("a", Int8, true), Field::new("a", Int8, true)]), &["`a` again"]);
    }

    #[test]
    fn faulty_text_is_refused_with_its_line() {
        let any = JsonOptions::default();
        refused("{}\n[{}]\n", &any, &["line 2", "one object on each line", "[{}]"]);
        refused("{\n}", &any, &["line 1", "JSON"]);
        refused("{\"a\": 1}}", &any, &["line 1", "character 9"]);
        refused("{\"a\": 01}", &any, &["line 1"]);
        refused("{\"a\": nul}", &any, &["line 1"]);
        refused("{\"a\": \"\\ud800\"}", &any, &["line 1", "`a`"]);
        refused(b"{\"a\": \"\xff\"}", &any, &["line 1", "UTF-8"]);
        refused(lines(&[&("[".repeat(100) + &"]".repeat(100))]), &any, &["line 1", "64 deep"]);
        refused(lines(&[&("[".repeat(100_000) + &"]".repeat(100_000))]), &any, &["line 1"]);
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

    /// What came in but for nulls, which may be members that were not there.
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

    proptest! {
        /// Any objects can be read, and those whose columns have one type come back as they were.
        #[test]
        fn values_come_back(objects in prop::collection::vec(prop::collection::vec(("[abc]", json()), 0..4), 1..6)) {
            let objects: Vec<Json> = objects.into_iter().map(|members| members.into_iter().collect()).collect();
            let text: String = objects.iter().map(|object| format!("{object}\n")).collect();
            let (schema, batches) = read(&text).unwrap();
            let strange = schema.fields().iter().any(|field| format!("{:?}", field.data_type()).contains("Utf8"));
            let came = rows(schema, batches);
            prop_assert_eq!(came.len(), objects.len());
            if !strange && !text.contains('.') {
                for (came, went) in came.into_iter().zip(objects) {
                    prop_assert_eq!(without_nulls(came), without_nulls(went));
                }
            }
        }

        #[test]
        fn no_text_panics(pieces in prop::collection::vec("[{}\\[\\]\":,\\\\ax1\n. eE+-]|null|true|\"a\":|\\{\"a\":1\\}\n", 0..20)) {
            let text = pieces.concat();
            let nested = with(vec![Field::new("a", DataType::new_list(Decimal128(10, 2), true), true)]);
            for options in [JsonOptions::default(), nested] {
                if let Err(e) = read_json_from(text.as_bytes(), &options) {
                    prop_assert!(e.message().starts_with(READING), "{}", e);
                }
            }
        }
    }
}
