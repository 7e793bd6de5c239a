//! Objects into columns: lists and structs are filled value by value, scalars as in CSV.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, SchemaRef};

use super::infer::{CommonType, InferredFields, is_word};
use super::object::{JsonLineError, Line, each_item, each_member, quoted, string};
use super::options::JsonOptions;
use crate::error::{Error, Result};
use crate::text::columns::*;
use crate::text::scalar::*;
use crate::types::{fixed_size, type_name};

/// The columns by name.
pub(super) struct JsonColumns {
    pub filling: BatchBuilder<Filler>,
    members: MemberIndex,
}

/// Finds the columns of members.
struct MemberIndex {
    numbers: HashMap<String, usize>,
    /// The column of each member of the last object, as those of the next are mostly the same.
    last: Vec<usize>,
    /// Whether there must be no others.
    refuse_unknown: bool,
}

/// Collects the values of a column.
pub(super) enum Filler {
    Scalar { sink: Box<dyn Sink>, takes: AcceptedJson },
    List(ListFiller),
    FixedList(FixedListFiller),
    Map(MapFiller),
    Struct(StructFiller),
    Runs(RunFiller),
}

/// The JSON accepted by a scalar column.
#[derive(Clone, Copy)]
pub(super) enum AcceptedJson {
    /// Values convertible to its type.
    Typed,
    /// For text, also all others.
    Any,
    /// Values that don't change the inferred type of a column of these kinds.
    TypeSet(TypeSet),
}

pub(super) struct ListFiller {
    item: Box<TextColumn<Filler>>,
    wide: bool,
    is_view: bool,
    /// The end of each list's items.
    ends: Vec<usize>,
    valid: Vec<bool>,
}

pub(super) struct FixedListFiller {
    item: Box<TextColumn<Filler>>,
    size: usize,
    valid: Vec<bool>,
}

/// Maps, as objects or as lists of `[key, value]`.
pub(super) struct MapFiller {
    entries: FieldRef,
    is_sorted: bool,
    /// Keys and values.
    columns: Box<[TextColumn<Filler>; 2]>,
    /// The end of each map's entries.
    ends: Vec<usize>,
    valid: Vec<bool>,
}

/// Counts how often each value comes in a row.
pub(super) struct RunFiller {
    ends: RunEnds,
    values: Box<TextColumn<Filler>>,
    last: Option<String>,
}

pub(super) struct StructFiller {
    columns: Vec<TextColumn<Filler>>,
    members: MemberIndex,
    valid: Vec<bool>,
}

impl JsonColumns {
    /// For rows of `schema`, which was given or inferred: text takes any JSON then.
    pub(super) fn new(schema: &SchemaRef, options: &JsonOptions) -> Result<JsonColumns> {
        let takes = if options.schema.is_none() { AcceptedJson::Any } else { AcceptedJson::Typed };
        let refuse_unknown = options.refuse_unknown || options.schema.is_none();
        let makers = ColumnFactory { dictionary: &options.dictionary, takes, refuse_unknown };
        let columns = schema.fields().iter().map(|field| {
            // What is inside of others has a name of its own.
            let named = |e: Error| e.context(format_args!("column `{}`", shorten(field.name())));
            makers.column(field).map_err(|e| if field.data_type().is_nested() { named(e) } else { e })
        });
        JsonColumns::with_columns(schema, columns.collect::<Result<_>>()?, refuse_unknown, options.batch_rows)
    }

    /// For rows of `schema`, inferred as `shapes`; refuses values that would change it.
    pub(super) fn exact(schema: &SchemaRef, shapes: &InferredFields, batch_rows: usize) -> Result<JsonColumns> {
        JsonColumns::with_columns(schema, exact_columns(schema.fields(), shapes)?, true, batch_rows)
    }

    fn with_columns(
        schema: &SchemaRef,
        columns: Vec<TextColumn<Filler>>,
        refuse_unknown: bool,
        batch_rows: usize,
    ) -> Result<JsonColumns> {
        let filling = BatchBuilder::new(schema.clone(), columns, batch_rows);
        Ok(JsonColumns { filling, members: MemberIndex::try_new(schema.fields(), refuse_unknown)? })
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
struct ColumnFactory<'a> {
    /// The columns at the top to dictionary-encode.
    dictionary: &'a [String],
    takes: AcceptedJson,
    refuse_unknown: bool,
}

impl ColumnFactory<'_> {
    fn columns(&self, fields: &Fields) -> Result<Vec<TextColumn<Filler>>> {
        fields.iter().map(|field| self.column(field)).collect()
    }

    fn column(&self, field: &FieldRef) -> Result<TextColumn<Filler>> {
        let below = ColumnFactory { dictionary: &[], ..*self };
        let node = match field.data_type() {
            DataType::List(item) => Filler::List(ListFiller::new(below.column(item)?, false, false)),
            DataType::LargeList(item) => Filler::List(ListFiller::new(below.column(item)?, true, false)),
            DataType::ListView(item) => Filler::List(ListFiller::new(below.column(item)?, false, true)),
            DataType::LargeListView(item) => Filler::List(ListFiller::new(below.column(item)?, true, true)),
            DataType::FixedSizeList(item, size) => {
                Filler::FixedList(FixedListFiller::new(below.column(item)?, fixed_size(*size)?))
            }
            DataType::Map(entries, is_sorted) => Filler::Map(MapFiller::new(entries, *is_sorted, &below)?),
            DataType::Struct(fields) => StructFiller::new_filler(fields, below.columns(fields)?, self.refuse_unknown)?,
            DataType::RunEndEncoded(_, values) => {
                Filler::Runs(RunFiller::new(field.data_type(), below.column(values)?))
            }
            _ if is_bool8(field) => Filler::Scalar { sink: sink_of(field, self.dictionary)?, takes: AcceptedJson::Any },
            _ => Filler::Scalar { sink: sink_of(field, self.dictionary)?, takes: self.takes },
        };
        Ok(TextColumn::new(field.as_ref().clone(), node))
    }
}

fn exact_columns(fields: &Fields, shapes: &InferredFields) -> Result<Vec<TextColumn<Filler>>> {
    fields.iter().zip(shapes.types()).map(|(field, shape)| exact_column(field, shape)).collect()
}

fn exact_column(field: &FieldRef, shape: &CommonType) -> Result<TextColumn<Filler>> {
    let node = match (shape, field.data_type()) {
        (CommonType::List(shape), DataType::List(item)) => {
            Filler::List(ListFiller::new(exact_column(item, shape)?, false, false))
        }
        (CommonType::Struct(shapes), DataType::Struct(fields)) => {
            StructFiller::new_filler(fields, exact_columns(fields, shapes)?, true)?
        }
        (CommonType::Scalar(kinds), _) => {
            Filler::Scalar { sink: exact_sink(*kinds), takes: AcceptedJson::TypeSet(*kinds) }
        }
        _ => return Err(Error::invalid("the schema is another one than that of the values")),
    };
    Ok(TextColumn::new(field.as_ref().clone(), node))
}

impl MemberIndex {
    fn try_new(fields: &Fields, refuse_unknown: bool) -> Result<MemberIndex> {
        let mut numbers = HashMap::new();
        for (number, field) in fields.iter().enumerate() {
            if numbers.insert(field.name().clone(), number).is_some() {
                let name = shorten(field.name());
                return Err(Error::unsupported(format!(
                    "expected columns with names of their own, got `{name}` again"
                )));
            }
        }
        Ok(MemberIndex { numbers, last: (0..fields.len()).collect(), refuse_unknown })
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
    fn push(&mut self, members: &mut MemberIndex, name: &str, value: &str) -> Result<(), JsonLineError> {
        let number = members.find(self.place, name, self.columns);
        self.place += 1;
        let Some(column) = number.and_then(|number| self.columns.get_mut(number)) else {
            return if members.refuse_unknown { Err(unknown(name, self.columns)) } else { Ok(()) };
        };
        let pushed =
            if column.rows == self.row { column.push(value) } else { Err(JsonLineError::new("given twice".into())) };
        pushed.map_err(|refusal| refusal.inside(name))
    }

    /// Fills missing members with nulls.
    fn end(self) -> Result<(), JsonLineError> {
        for column in self.columns.iter_mut().filter(|column| column.rows == self.row) {
            column.push("null").map_err(|refusal| refusal.inside(column.field.name()))?;
        }
        Ok(())
    }
}

fn unknown(name: &str, columns: &[TextColumn<Filler>]) -> JsonLineError {
    let error = missing(name, "the line", columns.iter().map(|column| column.field.name().as_str()));
    JsonLineError { kind: error.kind(), column: String::new(), fault: error.message().into() }
}

impl TextColumn<Filler> {
    fn push(&mut self, json: &str) -> Result<(), JsonLineError> {
        let value = (json != "null").then_some(json);
        if value.is_none() && !self.field.is_nullable() {
            let expected = type_name(self.field.data_type());
            return Err(JsonLineError::new(format!("expected {expected} without nulls, got none; give a value")));
        }
        self.sink.push(value, self.field.data_type())?;
        self.rows += 1;
        Ok(())
    }
}

impl Filler {
    fn push(&mut self, json: Option<&str>, expected: &DataType) -> Result<(), JsonLineError> {
        let first = json.and_then(|json| json.as_bytes().first());
        match (self, first) {
            (Filler::Scalar { sink, takes }, _) => push_scalar(expected, sink.as_mut(), *takes, json),
            (Filler::List(list), None | Some(b'[')) => list.push(json),
            (Filler::FixedList(list), None | Some(b'[')) => list.push(json),
            (Filler::Map(map), None | Some(b'{' | b'[')) => map.push(json),
            (Filler::Struct(members), None | Some(b'{')) => members.push(json),
            (Filler::Runs(runs), _) => runs.push(json),
            (_, _) => Err(misfit(expected, json.unwrap_or_default())),
        }
    }
}

fn push_scalar(
    data_type: &DataType,
    sink: &mut dyn Sink,
    takes: AcceptedJson,
    json: Option<&str>,
) -> Result<(), JsonLineError> {
    let Some(json) = json else { return sink.push(None).ok_or_else(|| misfit(data_type, "null")) };
    let text = if json.starts_with('"') { string(json)? } else { Cow::Borrowed(json) };
    let fits = match takes {
        AcceptedJson::Typed => can_be(data_type, json),
        AcceptedJson::Any => true,
        AcceptedJson::TypeSet(kinds) => keeps(kinds, json, &text),
    };
    let pushed = fits.then(|| sink.push(Some(&text))).flatten();
    pushed.ok_or_else(|| match utc_offset_hint(data_type, &text) {
        "" => misfit(data_type, json),
        advice => JsonLineError::new(format!("expected {}, got {}{advice}", type_name(data_type), quoted(json))),
    })
}

/// Whether JSON, whose string is `text` if it is one, can leave a column of `kinds` of its type, if its text can.
fn keeps(kinds: TypeSet, json: &str, text: &str) -> bool {
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
    if let Dictionary(_, values) = data_type {
        return can_be(values, json);
    }
    match json.as_bytes().first() {
        Some(b'"') => *data_type != Boolean,
        Some(b't' | b'f') => *data_type == Boolean,
        Some(b'[' | b'{') => false,
        _ => data_type.is_numeric() || matches!(data_type, Timestamp(..) | Time32(_) | Time64(_) | Duration(_)),
    }
}

fn misfit(expected: &DataType, json: &str) -> JsonLineError {
    JsonLineError::new(format!("expected {}, got {}; correct the value", type_name(expected), quoted(json)))
}

/// Checks that 32 bits count the items of a batch.
fn check_ends(item: &TextColumn<Filler>) -> Result<(), JsonLineError> {
    if i32::try_from(item.rows).is_ok() {
        return Ok(());
    }
    Err(JsonLineError::new("expected at most 2^31 items in a batch; use LargeList or a smaller batch_rows".into()))
}

/// The bitmap of a column's values, if any is null.
fn nulls_of(valid: &mut Vec<bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from(std::mem::take(valid))).filter(|nulls| nulls.null_count() > 0)
}

fn invalid(e: arrow_schema::ArrowError) -> Error {
    Error::invalid(e.to_string())
}

impl ListFiller {
    fn new(item: TextColumn<Filler>, wide: bool, is_view: bool) -> ListFiller {
        ListFiller { item: Box::new(item), wide, is_view, ends: Vec::new(), valid: Vec::new() }
    }

    fn push(&mut self, json: Option<&str>) -> Result<(), JsonLineError> {
        if let Some(json) = json {
            each_item(json, &mut |_, value| self.item.push(value).map_err(|refusal| refusal.inside("[]")))?;
        }
        if !self.wide {
            check_ends(&self.item)?;
        }
        self.ends.push(self.item.rows);
        self.valid.push(json.is_some());
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let ends = std::mem::take(&mut self.ends);
        let values = self.item.array(ends.last().copied().unwrap_or(0))?;
        let field = Arc::new(self.item.field.clone());
        let nulls = nulls_of(&mut self.valid);
        match self.wide {
            true => list::<i64>(field, &ends, values, nulls, self.is_view),
            false => list::<i32>(field, &ends, values, nulls, self.is_view),
        }
    }
}

fn offsets<O: OffsetSizeTrait>(ends: &[usize]) -> OffsetBuffer<O> {
    OffsetBuffer::new(ScalarBuffer::from_iter([0].iter().chain(ends).map(|&end| O::usize_as(end))))
}

fn list<O: OffsetSizeTrait>(
    item: FieldRef,
    ends: &[usize],
    values: ArrayRef,
    nulls: Option<NullBuffer>,
    is_view: bool,
) -> Result<ArrayRef> {
    let lists = GenericListArray::<O>::try_new(item, offsets(ends), values, nulls).map_err(invalid)?;
    Ok(if is_view { Arc::new(GenericListViewArray::<O>::from(lists)) } else { Arc::new(lists) })
}

impl FixedListFiller {
    fn new(item: TextColumn<Filler>, size: usize) -> FixedListFiller {
        FixedListFiller { item: Box::new(item), size, valid: Vec::new() }
    }

    fn push(&mut self, json: Option<&str>) -> Result<(), JsonLineError> {
        let before = self.item.rows;
        match json {
            Some(json) => {
                each_item(json, &mut |_, value| self.item.push(value).map_err(|refusal| refusal.inside("[]")))?
            }
            None => (0..self.size).try_for_each(|_| self.item.push_hidden())?,
        }
        let got = self.item.rows - before;
        if got != self.size {
            return Err(JsonLineError::new(format!("expected a list of {} items, got {got}", self.size)));
        }
        self.valid.push(json.is_some());
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let rows = self.valid.len();
        let values = self.item.array(rows * self.size)?;
        let field = Arc::new(self.item.field.clone());
        let size = i32::try_from(self.size).map_err(|_| Error::internal("a size of more than 32 bits"))?;
        let array = FixedSizeListArray::try_new_with_length(field, size, values, nulls_of(&mut self.valid), rows);
        Ok(Arc::new(array.map_err(invalid)?))
    }
}

impl MapFiller {
    fn new(entries: &FieldRef, is_sorted: bool, makers: &ColumnFactory<'_>) -> Result<MapFiller> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(Error::internal("a map without keys and values"));
        };
        let columns = makers.columns(fields)?;
        let columns = columns.try_into().map_err(|_| Error::internal("a map without keys and values"))?;
        let entries = entries.clone();
        Ok(MapFiller { entries, is_sorted, columns: Box::new(columns), ends: Vec::new(), valid: Vec::new() })
    }

    fn push(&mut self, json: Option<&str>) -> Result<(), JsonLineError> {
        let [keys, values] = &mut *self.columns;
        match json {
            Some(json) if json.starts_with('{') => each_member(json, &mut |name, value| {
                keys.push(&serde_json::Value::from(name).to_string()).map_err(|refusal| refusal.inside(name))?;
                values.push(value).map_err(|refusal| refusal.inside(name))
            })?,
            Some(json) => each_item(json, &mut |_, pair| push_pair(pair, keys, values))?,
            None => (),
        }
        check_ends(keys)?;
        self.ends.push(keys.rows);
        self.valid.push(json.is_some());
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let ends = std::mem::take(&mut self.ends);
        let count = ends.last().copied().unwrap_or(0);
        let arrays = self.columns.iter_mut().map(|column| column.array(count)).collect::<Result<_>>()?;
        let fields = self.columns.iter().map(|column| column.field.clone()).collect();
        let entries = StructArray::try_new_with_length(fields, arrays, None, count).map_err(invalid)?;
        let nulls = nulls_of(&mut self.valid);
        let map = MapArray::try_new(self.entries.clone(), offsets(&ends), entries, nulls, self.is_sorted);
        Ok(Arc::new(map.map_err(invalid)?))
    }
}

/// Adds an entry of a map, `[key, value]`.
fn push_pair(pair: &str, keys: &mut TextColumn<Filler>, values: &mut TextColumn<Filler>) -> Result<(), JsonLineError> {
    let wrong = || JsonLineError::new(format!("expected [key, value], got {}; correct the value", quoted(pair)));
    if !pair.starts_with('[') {
        return Err(wrong());
    }
    let mut count = 0;
    each_item(pair, &mut |_, value| {
        count += 1;
        match count {
            1 => keys.push(value),
            2 => values.push(value),
            _ => Err(wrong()),
        }
        .map_err(|refusal| refusal.inside("[]"))
    })?;
    if count == 2 { Ok(()) } else { Err(wrong()) }
}

impl StructFiller {
    fn new_filler(fields: &Fields, columns: Vec<TextColumn<Filler>>, refuse_unknown: bool) -> Result<Filler> {
        let members = MemberIndex::try_new(fields, refuse_unknown)?;
        Ok(Filler::Struct(StructFiller { columns, members, valid: Vec::new() }))
    }

    fn push(&mut self, json: Option<&str>) -> Result<(), JsonLineError> {
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
        let nulls = nulls_of(&mut self.valid);
        let arrays = self.columns.iter_mut().map(|column| column.array(rows)).collect::<Result<_>>()?;
        let fields = self.columns.iter().map(|column| column.field.clone()).collect();
        Ok(Arc::new(StructArray::try_new_with_length(fields, arrays, nulls, rows).map_err(invalid)?))
    }
}

impl RunFiller {
    fn new(data_type: &DataType, values: TextColumn<Filler>) -> RunFiller {
        RunFiller { ends: RunEnds::new(data_type), values: Box::new(values), last: None }
    }

    fn push(&mut self, json: Option<&str>) -> Result<(), JsonLineError> {
        let text = json.unwrap_or("null");
        let goes_on = self.last.as_deref() == Some(text);
        if !goes_on {
            match json {
                Some(json) => self.values.push(json)?,
                None => self.values.push_hidden()?,
            }
            self.last = Some(text.into());
        }
        self.ends.push(goes_on);
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        self.last = None;
        let values = self.values.array(self.ends.count())?;
        self.ends.finish(&values)
    }
}

impl TextColumn<Filler> {
    /// A value in an object that is null, where even forbidden nulls do no harm.
    fn push_hidden(&mut self) -> Result<(), JsonLineError> {
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
            Filler::FixedList(list) => list.finish(),
            Filler::Map(map) => map.finish(),
            Filler::Struct(members) => members.finish(),
            Filler::Runs(runs) => runs.finish(),
        }
    }

    fn seal(&mut self, field: Field, chunks: Vec<ArrayRef>) -> Result<(Field, Vec<ArrayRef>)> {
        match self {
            Filler::Scalar { sink, .. } => sink.seal(field, chunks),
            _ => Ok((field, chunks)),
        }
    }
}
