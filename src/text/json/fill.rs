//! Objects into columns: lists and structs are filled value by value, scalars as in CSV.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, GenericListArray, OffsetSizeTrait, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, SchemaRef};

use super::object::{JsonObject, JsonText, Line, Refusal, items, members, quoted, string};
use crate::error::{Error, Result};
use crate::text::columns::*;
use crate::text::scalar::{offset_advice, shorten};
use crate::types::type_name;

/// The columns by name.
pub(super) struct JsonColumns {
    pub filling: Filling<Filler>,
    numbers: HashMap<String, usize>,
}

/// Collects the values of a column.
pub(super) enum Filler {
    /// If lenient, text takes any JSON.
    Scalar {
        sink: Box<dyn Sink>,
        lenient: bool,
    },
    List(ListFiller),
    Struct(StructFiller),
}

pub(super) struct ListFiller {
    item: Box<TextColumn<Filler>>,
    wide: bool,
    /// The end of each list's items.
    ends: Vec<usize>,
    valid: Vec<bool>,
}

pub(super) struct StructFiller {
    columns: Vec<TextColumn<Filler>>,
    numbers: HashMap<String, usize>,
    valid: Vec<bool>,
}

impl JsonColumns {
    /// For rows of `schema`, with the columns of `dictionary` dictionary-encoded. If lenient, text takes any JSON.
    pub(super) fn new(
        schema: &SchemaRef,
        dictionary: &[String],
        lenient: bool,
        batch_rows: usize,
    ) -> Result<JsonColumns> {
        let columns = columns(schema.fields(), dictionary, lenient)?;
        let filling = Filling::new(schema.clone(), columns, batch_rows);
        Ok(JsonColumns { filling, numbers: numbers(schema.fields())? })
    }

    /// Adds a row; true if that fills a batch.
    pub(super) fn push(&mut self, line: Line<'_>) -> Result<bool> {
        let pushed = push_members(&mut self.filling.columns, &self.numbers, &line.object()?, self.filling.rows);
        pushed.map_err(|refusal| line.error(refusal))?;
        Ok(self.filling.count())
    }
}

fn columns(fields: &Fields, dictionary: &[String], lenient: bool) -> Result<Vec<TextColumn<Filler>>> {
    fields.iter().map(|field| column(field, dictionary, lenient)).collect()
}

fn column(field: &FieldRef, dictionary: &[String], lenient: bool) -> Result<TextColumn<Filler>> {
    let list = |item, wide| -> Result<Filler> {
        let item = Box::new(column(item, &[], lenient)?);
        Ok(Filler::List(ListFiller { item, wide, ends: Vec::new(), valid: Vec::new() }))
    };
    let node = match field.data_type() {
        DataType::List(item) => list(item, false)?,
        DataType::LargeList(item) => list(item, true)?,
        DataType::Struct(fields) => Filler::Struct(StructFiller {
            columns: columns(fields, &[], lenient)?,
            numbers: numbers(fields)?,
            valid: Vec::new(),
        }),
        _ => Filler::Scalar { sink: sink_of(field, dictionary)?, lenient },
    };
    Ok(TextColumn::new(field.as_ref().clone(), node))
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

/// Adds an object as row `row`, with nulls for missing members.
fn push_members(
    columns: &mut [TextColumn<Filler>],
    numbers: &HashMap<String, usize>,
    JsonObject(members): &JsonObject<'_>,
    row: usize,
) -> Result<(), Refusal> {
    for (place, (JsonText(name), value)) in members.iter().enumerate() {
        // Members are mostly in the order of the columns.
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

fn unknown(name: &str, columns: &[TextColumn<Filler>]) -> Refusal {
    let error = missing(name, "the line", columns.iter().map(|column| column.field.name().as_str()));
    Refusal { kind: error.kind(), column: String::new(), fault: error.message().into() }
}

impl TextColumn<Filler> {
    fn push(&mut self, json: &str) -> Result<(), Refusal> {
        let value = (json != "null").then_some(json);
        if value.is_none() && !self.field.is_nullable() {
            let expected = type_name(self.field.data_type());
            return Err(Refusal::new(format!("expected {expected} without nulls, got none; give a value")));
        }
        self.sink.push(value, self.field.data_type())?;
        self.rows += 1;
        Ok(())
    }
}

impl Filler {
    fn push(&mut self, json: Option<&str>, expected: &DataType) -> Result<(), Refusal> {
        let first = json.and_then(|json| json.as_bytes().first());
        match (self, first) {
            (Filler::Scalar { sink, lenient }, _) => push_scalar(expected, sink.as_mut(), *lenient, json),
            (Filler::List(list), None | Some(b'[')) => list.push(json),
            (Filler::Struct(members), None | Some(b'{')) => members.push(json),
            (_, _) => Err(misfit(expected, json.unwrap_or_default())),
        }
    }
}

fn push_scalar(data_type: &DataType, sink: &mut dyn Sink, lenient: bool, json: Option<&str>) -> Result<(), Refusal> {
    let Some(json) = json else { return sink.push(None).ok_or_else(|| misfit(data_type, "null")) };
    let fits = lenient || takes(data_type, json);
    let text = if json.starts_with('"') { string(json)? } else { Cow::Borrowed(json) };
    let pushed = fits.then(|| sink.push(Some(&text))).flatten();
    pushed.ok_or_else(|| match offset_advice(data_type, &text) {
        "" => misfit(data_type, json),
        advice => Refusal::new(format!("expected {}, got {}{advice}", type_name(data_type), quoted(json))),
    })
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
    Refusal::new(format!("expected {}, got {}; correct the value", type_name(expected), quoted(json)))
}

impl ListFiller {
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

impl StructFiller {
    fn push(&mut self, json: Option<&str>) -> Result<(), Refusal> {
        let row = self.valid.len();
        match json {
            Some(json) => push_members(&mut self.columns, &self.numbers, &members(json)?, row)?,
            None => self.columns.iter_mut().try_for_each(TextColumn::push_hidden)?,
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

impl TextColumn<Filler> {
    /// A value in an object that is null, where even forbidden nulls do no harm.
    fn push_hidden(&mut self) -> Result<(), Refusal> {
        self.sink.push(None, self.field.data_type())?;
        self.rows += 1;
        Ok(())
    }
}

impl Finish for Filler {
    fn finish(&mut self) -> Result<ArrayRef> {
        match self {
            Filler::Scalar { sink, .. } => sink.finish(),
            Filler::List(list) => list.finish(),
            Filler::Struct(members) => members.finish(),
        }
    }

    fn seal(&mut self, field: Field, chunks: Vec<ArrayRef>) -> Result<(Field, Vec<ArrayRef>)> {
        match self {
            Filler::Scalar { sink, .. } => sink.seal(field, chunks),
            _ => Ok((field, chunks)),
        }
    }
}
