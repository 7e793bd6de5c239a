//! Objects into columns: lists and structs are filled value by value, scalars as in CSV.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, GenericListArray, OffsetSizeTrait, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, SchemaRef};

use super::infer::{CommonType, Shapes, is_word};
use super::object::{Line, Refusal, each_item, each_member, quoted, string};
use crate::error::{Error, Result};
use crate::text::columns::*;
use crate::text::scalar::*;
use crate::types::type_name;

/// The columns by name.
pub(super) struct JsonColumns {
    pub filling: Filling<Filler>,
    members: MemberPlaces,
}

/// Finds the columns of members.
struct MemberPlaces {
    numbers: HashMap<String, usize>,
    /// The column of each member of the last object, as those of the next are mostly the same.
    last: Vec<usize>,
}

/// Collects the values of a column.
pub(super) enum Filler {
    Scalar { sink: Box<dyn Sink>, takes: Takes },
    List(ListFiller),
    Struct(StructFiller),
}

/// The JSON accepted by a scalar column.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    /// Values convertible to its type.
    Typed,
    /// For text, also all others.
    Any,
    /// Values that don't change the inferred type of a column of these kinds.
    Kinds(Kinds),
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
    members: MemberPlaces,
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
        let makers = Makers { dictionary, takes: if lenient { Takes::Any } else { Takes::Typed } };
        JsonColumns::of(schema, makers.columns(schema.fields())?, batch_rows)
    }

    /// For rows of `schema`, inferred as `shapes`; refuses values that would change it.
    pub(super) fn exact(schema: &SchemaRef, shapes: &Shapes, batch_rows: usize) -> Result<JsonColumns> {
        JsonColumns::of(schema, exact_columns(schema.fields(), shapes)?, batch_rows)
    }

    fn of(schema: &SchemaRef, columns: Vec<TextColumn<Filler>>, batch_rows: usize) -> Result<JsonColumns> {
        let filling = Filling::new(schema.clone(), columns, batch_rows);
        Ok(JsonColumns { filling, members: MemberPlaces::of(schema.fields())? })
    }

    /// Adds a row; returns whether a batch is full.
    pub(super) fn push(&mut self, line: Line<'_>) -> Result<bool> {
        let mut row = RowFiller { columns: &mut self.filling.columns, row: self.filling.rows, place: 0 };
        line.each_member(&mut |name, value| row.push(&mut self.members, name, value))?;
        row.end().map_err(|refusal| line.error(refusal))?;
        Ok(self.filling.count())
    }
}

/// Makes columns of given types.
struct Makers<'a> {
    /// The columns at the top to dictionary-encode.
    dictionary: &'a [String],
    takes: Takes,
}

impl Makers<'_> {
    fn columns(&self, fields: &Fields) -> Result<Vec<TextColumn<Filler>>> {
        fields.iter().map(|field| self.column(field)).collect()
    }

    fn column(&self, field: &FieldRef) -> Result<TextColumn<Filler>> {
        let below = Makers { dictionary: &[], ..*self };
        let node = match field.data_type() {
            DataType::List(item) => ListFiller::of(below.column(item)?, false),
            DataType::LargeList(item) => ListFiller::of(below.column(item)?, true),
            DataType::Struct(fields) => StructFiller::of(fields, below.columns(fields)?)?,
            _ => Filler::Scalar { sink: sink_of(field, self.dictionary)?, takes: self.takes },
        };
        Ok(TextColumn::new(field.as_ref().clone(), node))
    }
}

fn exact_columns(fields: &Fields, shapes: &Shapes) -> Result<Vec<TextColumn<Filler>>> {
    fields.iter().zip(shapes.types()).map(|(field, shape)| exact_column(field, shape)).collect()
}

fn exact_column(field: &FieldRef, shape: &CommonType) -> Result<TextColumn<Filler>> {
    let node = match (shape, field.data_type()) {
        (CommonType::List(shape), DataType::List(item)) => ListFiller::of(exact_column(item, shape)?, false),
        (CommonType::Struct(shapes), DataType::Struct(fields)) => {
            StructFiller::of(fields, exact_columns(fields, shapes)?)?
        }
        (CommonType::Scalar(kinds), _) => Filler::Scalar { sink: exact_sink(*kinds), takes: Takes::Kinds(*kinds) },
        _ => return Err(Error::invalid("the schema is another one than that of the values")),
    };
    Ok(TextColumn::new(field.as_ref().clone(), node))
}

impl MemberPlaces {
    fn of(fields: &Fields) -> Result<MemberPlaces> {
        let mut numbers = HashMap::new();
        for (number, field) in fields.iter().enumerate() {
            if numbers.insert(field.name().clone(), number).is_some() {
                let name = shorten(field.name());
                return Err(Error::unsupported(format!(
                    "expected columns with names of their own, got `{name}` again"
                )));
            }
        }
        Ok(MemberPlaces { numbers, last: (0..fields.len()).collect() })
    }

    /// The column of the member at `place` of an object.
    fn find(&mut self, place: usize, name: &str, columns: &[TextColumn<Filler>]) -> Option<usize> {
        let last = self.last.get(place).copied();
        if let Some(column) = last.and_then(|last| columns.get(last))
            && column.field.name() == name
        {
            return last;
        }
        let number = self.numbers.get(name).copied()?;
        if let Some(last) = self.last.get_mut(place) {
            *last = number;
        }
        Some(number)
    }
}

/// Adds an object as row `row`.
struct RowFiller<'a> {
    columns: &'a mut [TextColumn<Filler>],
    row: usize,
    /// The number of members so far.
    place: usize,
}

impl RowFiller<'_> {
    fn push(&mut self, members: &mut MemberPlaces, name: &str, value: &str) -> Result<(), Refusal> {
        let number = members.find(self.place, name, self.columns);
        self.place += 1;
        let Some(column) = number.and_then(|number| self.columns.get_mut(number)) else {
            return Err(unknown(name, self.columns));
        };
        let pushed = if column.rows == self.row { column.push(value) } else { Err(Refusal::new("given twice".into())) };
        pushed.map_err(|refusal| refusal.inside(name))
    }

    /// Fills missing members with nulls.
    fn end(self) -> Result<(), Refusal> {
        for column in self.columns.iter_mut().filter(|column| column.rows == self.row) {
            column.push("null").map_err(|refusal| refusal.inside(column.field.name()))?;
        }
        Ok(())
    }
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
            (Filler::Scalar { sink, takes }, _) => push_scalar(expected, sink.as_mut(), *takes, json),
            (Filler::List(list), None | Some(b'[')) => list.push(json),
            (Filler::Struct(members), None | Some(b'{')) => members.push(json),
            (_, _) => Err(misfit(expected, json.unwrap_or_default())),
        }
    }
}

fn push_scalar(data_type: &DataType, sink: &mut dyn Sink, takes: Takes, json: Option<&str>) -> Result<(), Refusal> {
    let Some(json) = json else { return sink.push(None).ok_or_else(|| misfit(data_type, "null")) };
    let text = if json.starts_with('"') { string(json)? } else { Cow::Borrowed(json) };
    let fits = match takes {
        Takes::Typed => can_be(data_type, json),
        Takes::Any => true,
        Takes::Kinds(kinds) => keeps(kinds, json, &text),
    };
    let pushed = fits.then(|| sink.push(Some(&text))).flatten();
    pushed.ok_or_else(|| match offset_advice(data_type, &text) {
        "" => misfit(data_type, json),
        advice => Refusal::new(format!("expected {}, got {}{advice}", type_name(data_type), quoted(json))),
    })
}

/// Whether JSON, whose string is `text` if it is one, can leave a column of `kinds` of its type, if its text can.
fn keeps(kinds: Kinds, json: &str, text: &str) -> bool {
    match json.as_bytes().first() {
        _ if kinds == TEXT => true,
        // The first value is still unknown.
        _ if kinds == UNSEEN => false,
        Some(b'"') if kinds & FLOAT != 0 => is_word(text),
        _ if kinds & WORD != 0 => false,
        Some(b'"') => kinds & (DATE | MICROS | NANOS | UTC_MICROS | UTC_NANOS) != 0,
        Some(b't' | b'f') => kinds & BOOLEAN != 0,
        Some(b'[' | b'{') => false,
        _ => kinds & (INT | UINT | FLOAT) != 0,
    }
}

/// Whether JSON of this kind can be a value of the type.
fn can_be(data_type: &DataType, json: &str) -> bool {
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
    fn of(item: TextColumn<Filler>, wide: bool) -> Filler {
        Filler::List(ListFiller { item: Box::new(item), wide, ends: Vec::new(), valid: Vec::new() })
    }

    fn push(&mut self, json: Option<&str>) -> Result<(), Refusal> {
        if let Some(json) = json {
            each_item(json, &mut |_, value| self.item.push(value).map_err(|refusal| refusal.inside("[]")))?;
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
    fn of(fields: &Fields, columns: Vec<TextColumn<Filler>>) -> Result<Filler> {
        Ok(Filler::Struct(StructFiller { columns, members: MemberPlaces::of(fields)?, valid: Vec::new() }))
    }

    fn push(&mut self, json: Option<&str>) -> Result<(), Refusal> {
        let row = self.valid.len();
        match json {
            Some(json) => {
                let mut filler = RowFiller { columns: &mut self.columns, row, place: 0 };
                each_member(json, &mut |name, value| filler.push(&mut self.members, name, value))?;
                filler.end()?;
            }
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
