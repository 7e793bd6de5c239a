//! Fills columns from objects: lists and structs value by value, scalars as in CSV.

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

/// The columns of a table, which are filled by name.
pub(super) struct JsonColumns {
    pub filling: BatchBuilder<Filler>,
    members: MemberIndex,
}

/// Finds the columns of members.
struct MemberIndex {
    numbers: HashMap<String, usize>,
    /// The column of each member of the last object, as the next object mostly has the same members.
    last: Vec<usize>,
    /// True if objects must not have other members.
    refuse_unknown: bool,
}

/// Collects the values of a column.
pub(super) enum Filler {
    Scalar { sink: Box<dyn Sink>, accepted: AcceptedJson },
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
    /// Any values, which become texts in columns of text.
    Any,
    /// Values that don't change the type of a column that was inferred from values of these kinds.
    TypeSet(TypeSet),
}

/// The layout of lists of any length.
#[derive(Clone, Copy)]
struct ListKind {
    /// True for offsets of 64 bits.
    is_large: bool,
    /// True for views: an offset and a length of each list.
    is_view: bool,
}

impl ListKind {
    const LIST: ListKind = ListKind { is_large: false, is_view: false };
    const LARGE_LIST: ListKind = ListKind { is_large: true, is_view: false };
    const LIST_VIEW: ListKind = ListKind { is_large: false, is_view: true };
    const LARGE_LIST_VIEW: ListKind = ListKind { is_large: true, is_view: true };
}

/// Lists of any length.
pub(super) struct ListFiller {
    item: Box<TextColumn<Filler>>,
    kind: ListKind,
    /// The end of each list's items.
    ends: Vec<usize>,
    /// False for each list that is null.
    valid: Vec<bool>,
}

/// Lists of `size` items.
pub(super) struct FixedListFiller {
    item: Box<TextColumn<Filler>>,
    size: usize,
    /// False for each list that is null, under which there are `size` nulls.
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

/// Encodes runs of equal values.
pub(super) struct RunFiller {
    ends: RunEnds,
    values: Box<TextColumn<Filler>>,
    /// The JSON of the last run.
    last: Option<String>,
}

/// Structs, as objects.
pub(super) struct StructFiller {
    columns: Vec<TextColumn<Filler>>,
    members: MemberIndex,
    valid: Vec<bool>,
}

impl JsonColumns {
    /// Creates columns for rows of `schema`. If it was inferred, columns of text accept any JSON.
    pub(super) fn new(schema: &SchemaRef, options: &JsonOptions) -> Result<JsonColumns> {
        let accepted = if options.schema.is_none() { AcceptedJson::Any } else { AcceptedJson::Typed };
        let refuse_unknown = options.refuse_unknown || options.schema.is_none();
        let factory = ColumnFactory { dictionary: &options.dictionary, accepted, refuse_unknown };
        let mut columns = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            match factory.column(field) {
                Ok(column) => columns.push(column),
                // The error may name a column inside of this one.
                Err(e) if field.data_type().is_nested() => {
                    return Err(e.context(format_args!("column `{}`", shorten(field.name()))));
                }
                Err(e) => return Err(e),
            }
        }
        JsonColumns::with_columns(schema, columns, refuse_unknown, options.batch_rows)
    }

    /// Creates columns for rows of `schema`, which was inferred from `fields`. They refuse values that would change it.
    pub(super) fn exact(schema: &SchemaRef, fields: &InferredFields, batch_rows: usize) -> Result<JsonColumns> {
        JsonColumns::with_columns(schema, exact_columns(schema.fields(), fields)?, true, batch_rows)
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

    /// Adds a row. Returns true if a batch is full.
    pub(super) fn push(&mut self, line: Line<'_>) -> Result<bool> {
        let mut row = RowFiller { columns: &mut self.filling.columns, row: self.filling.rows, position: 0 };
        line.each_member(&mut |name, value| row.push(&mut self.members, name, value))?;
        row.finish().map_err(|e| line.error(e))?;
        Ok(self.filling.count_row())
    }
}

/// Makes columns of given types.
struct ColumnFactory<'a> {
    /// The top-level columns to dictionary-encode.
    dictionary: &'a [String],
    accepted: AcceptedJson,
    refuse_unknown: bool,
}

impl ColumnFactory<'_> {
    fn columns(&self, fields: &Fields) -> Result<Vec<TextColumn<Filler>>> {
        fields.iter().map(|field| self.column(field)).collect()
    }

    fn column(&self, field: &FieldRef) -> Result<TextColumn<Filler>> {
        let children = ColumnFactory { dictionary: &[], ..*self };
        let filler = match field.data_type() {
            DataType::List(item) => Filler::List(ListFiller::new(children.column(item)?, ListKind::LIST)),
            DataType::LargeList(item) => Filler::List(ListFiller::new(children.column(item)?, ListKind::LARGE_LIST)),
            DataType::ListView(item) => Filler::List(ListFiller::new(children.column(item)?, ListKind::LIST_VIEW)),
            DataType::LargeListView(item) => {
                Filler::List(ListFiller::new(children.column(item)?, ListKind::LARGE_LIST_VIEW))
            }
            DataType::FixedSizeList(item, size) => {
                Filler::FixedList(FixedListFiller::new(children.column(item)?, fixed_size(*size)?))
            }
            DataType::Map(entries, is_sorted) => Filler::Map(MapFiller::new(entries, *is_sorted, &children)?),
            DataType::Struct(fields) => {
                StructFiller::new_filler(fields, children.columns(fields)?, self.refuse_unknown)?
            }
            DataType::RunEndEncoded(_, values) => {
                Filler::Runs(RunFiller::new(field.data_type(), children.column(values)?))
            }
            _ => {
                let accepted = if is_bool8(field) { AcceptedJson::Any } else { self.accepted };
                Filler::Scalar { sink: column_sink(field, self.dictionary)?, accepted }
            }
        };
        Ok(TextColumn::new(field.as_ref().clone(), filler))
    }
}

fn exact_columns(fields: &Fields, inferred: &InferredFields) -> Result<Vec<TextColumn<Filler>>> {
    fields.iter().zip(inferred.types()).map(|(field, common_type)| exact_column(field, common_type)).collect()
}

fn exact_column(field: &FieldRef, common_type: &CommonType) -> Result<TextColumn<Filler>> {
    let filler = match (common_type, field.data_type()) {
        (CommonType::List(item_type), DataType::List(item)) => {
            Filler::List(ListFiller::new(exact_column(item, item_type)?, ListKind::LIST))
        }
        (CommonType::Struct(inferred), DataType::Struct(fields)) => {
            StructFiller::new_filler(fields, exact_columns(fields, inferred)?, true)?
        }
        (CommonType::Scalar(kinds), _) => {
            Filler::Scalar { sink: exact_sink(*kinds), accepted: AcceptedJson::TypeSet(*kinds) }
        }
        _ => return Err(Error::invalid("the schema is another one than that of the values")),
    };
    Ok(TextColumn::new(field.as_ref().clone(), filler))
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

    /// Returns the column of the member at `position` of an object.
    fn find(&mut self, position: usize, name: &str, columns: &[TextColumn<Filler>]) -> Option<usize> {
        let last = self.last.get(position).copied();
        if let Some(column) = last.and_then(|last| columns.get(last))
            && column.field.name() == name
        {
            return last;
        }
        let number = self.numbers.get(name).copied()?;
        if let Some(last) = self.last.get_mut(position) {
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
    position: usize,
}

impl RowFiller<'_> {
    fn push(&mut self, members: &mut MemberIndex, name: &str, value: &str) -> Result<(), JsonLineError> {
        let number = members.find(self.position, name, self.columns);
        self.position += 1;
        let Some(number) = number else {
            return if members.refuse_unknown { Err(unknown_member(name, self.columns)) } else { Ok(()) };
        };
        let column = &mut self.columns[number];
        if column.rows != self.row {
            return Err(JsonLineError::new("given twice".into()).inside(name));
        }
        column.push(value).map_err(|e| e.inside(name))
    }

    /// Fills missing members with nulls.
    fn finish(self) -> Result<(), JsonLineError> {
        for column in self.columns.iter_mut() {
            if column.rows == self.row {
                column.push("null").map_err(|e| e.inside(column.field.name()))?;
            }
            assert_eq!(column.rows, self.row + 1, "column `{}` has a value for each row", column.field.name());
        }
        Ok(())
    }
}

fn unknown_member(name: &str, columns: &[TextColumn<Filler>]) -> JsonLineError {
    let error = missing_column(name, "the line", columns.iter().map(|column| column.field.name().as_str()));
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
        let is_list = json.is_none_or(|json| json.starts_with('['));
        let is_object = json.is_none_or(|json| json.starts_with('{'));
        match self {
            Filler::Scalar { sink, accepted } => push_scalar(expected, sink.as_mut(), *accepted, json),
            Filler::Runs(runs) => runs.push(json),
            Filler::List(list) if is_list => list.push(json),
            Filler::FixedList(list) if is_list => list.push(json),
            Filler::Map(map) if is_object || is_list => map.push(json),
            Filler::Struct(members) if is_object => members.push(json),
            _ => Err(type_mismatch(expected, json.unwrap_or("null"))),
        }
    }
}

fn push_scalar(
    data_type: &DataType,
    sink: &mut dyn Sink,
    accepted: AcceptedJson,
    json: Option<&str>,
) -> Result<(), JsonLineError> {
    let Some(json) = json else { return sink.push(None).ok_or_else(|| type_mismatch(data_type, "null")) };
    let text = if json.starts_with('"') { string(json)? } else { Cow::Borrowed(json) };
    let is_accepted = match accepted {
        AcceptedJson::Typed => can_be(data_type, json),
        AcceptedJson::Any => true,
        AcceptedJson::TypeSet(kinds) => keeps_type(kinds, json, &text),
    };
    if is_accepted && sink.push(Some(&text)).is_some() {
        return Ok(());
    }
    match utc_offset_advice(data_type, &text) {
        "" => Err(type_mismatch(data_type, json)),
        hint => Err(JsonLineError::new(format!("expected {}, got {}{hint}", type_name(data_type), quoted(json)))),
    }
}

/// Returns true if the kind of a JSON value does not change the type of a column of `kinds`. Its text, or the contents
/// of a string, are `text`.
fn keeps_type(kinds: TypeSet, json: &str, text: &str) -> bool {
    match json.as_bytes().first() {
        _ if kinds == TEXT => true,
        // The first value determines the type.
        _ if kinds == UNSEEN => false,
        Some(b'"') if kinds & FLOAT != 0 => is_word(text),
        _ if kinds & WORD != 0 => false,
        Some(b'"') => kinds & (DATE | MICROS | NANOS | UTC_MICROS | UTC_NANOS) != 0,
        Some(b't' | b'f') => kinds & BOOLEAN != 0,
        Some(b'[' | b'{') => false,
        _ => kinds & (INT | UINT | FLOAT) != 0,
    }
}

/// Returns true if JSON of this kind can be a value of the type.
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

fn type_mismatch(expected: &DataType, json: &str) -> JsonLineError {
    JsonLineError::new(format!("expected {}, got {}; correct the value", type_name(expected), quoted(json)))
}

/// Checks that 32 bits can count the items of a batch.
fn check_offsets(item: &TextColumn<Filler>) -> Result<(), JsonLineError> {
    if i32::try_from(item.rows).is_ok() {
        return Ok(());
    }
    Err(JsonLineError::new("expected at most 2^31 items in a batch; use LargeList or a smaller batch_rows".into()))
}

/// Takes the validity bitmap of a column's values, if any is null.
fn take_nulls(valid: &mut Vec<bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from(std::mem::take(valid))).filter(|nulls| nulls.null_count() > 0)
}

/// Returns the number of items up to the end of the last list.
fn num_items(ends: &[usize]) -> usize {
    ends.last().map_or(0, |end| *end)
}

fn invalid(e: arrow_schema::ArrowError) -> Error {
    Error::invalid(e.to_string())
}

impl ListFiller {
    fn new(item: TextColumn<Filler>, kind: ListKind) -> ListFiller {
        ListFiller { item: Box::new(item), kind, ends: Vec::new(), valid: Vec::new() }
    }

    fn push(&mut self, json: Option<&str>) -> Result<(), JsonLineError> {
        if let Some(json) = json {
            each_item(json, &mut |_, value| self.item.push(value).map_err(|e| e.inside("[]")))?;
        }
        if !self.kind.is_large {
            check_offsets(&self.item)?;
        }
        self.ends.push(self.item.rows);
        self.valid.push(json.is_some());
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let ends = std::mem::take(&mut self.ends);
        assert_eq!(ends.len(), self.valid.len(), "each list has an end");
        let values = self.item.take_array(num_items(&ends))?;
        let field = Arc::new(self.item.field.clone());
        let nulls = take_nulls(&mut self.valid);
        if self.kind.is_large {
            list::<i64>(field, &ends, values, nulls, self.kind.is_view)
        } else {
            list::<i32>(field, &ends, values, nulls, self.kind.is_view)
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
                each_item(json, &mut |_, value| self.item.push(value).map_err(|e| e.inside("[]")))?;
            }
            None => {
                for _ in 0..self.size {
                    self.item.push_hidden_null()?;
                }
            }
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
        let values = self.item.take_array(rows * self.size)?;
        let field = Arc::new(self.item.field.clone());
        let size = i32::try_from(self.size).map_err(|_| Error::internal("a size of more than 32 bits"))?;
        let array = FixedSizeListArray::try_new_with_length(field, size, values, take_nulls(&mut self.valid), rows);
        Ok(Arc::new(array.map_err(invalid)?))
    }
}

impl MapFiller {
    fn new(entries: &FieldRef, is_sorted: bool, factory: &ColumnFactory<'_>) -> Result<MapFiller> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(Error::internal("a map without keys and values"));
        };
        let columns = factory.columns(fields)?;
        let columns = columns.try_into().map_err(|_| Error::internal("a map without keys and values"))?;
        let entries = entries.clone();
        Ok(MapFiller { entries, is_sorted, columns: Box::new(columns), ends: Vec::new(), valid: Vec::new() })
    }

    fn push(&mut self, json: Option<&str>) -> Result<(), JsonLineError> {
        let [keys, values] = &mut *self.columns;
        match json {
            Some(json) if json.starts_with('{') => each_member(json, &mut |name, value| {
                keys.push(&serde_json::Value::from(name).to_string()).map_err(|e| e.inside(name))?;
                values.push(value).map_err(|e| e.inside(name))
            })?,
            Some(json) => each_item(json, &mut |_, pair| push_pair(pair, keys, values))?,
            None => (),
        }
        assert_eq!(keys.rows, values.rows, "each key of a map has a value");
        check_offsets(keys)?;
        self.ends.push(keys.rows);
        self.valid.push(json.is_some());
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let ends = std::mem::take(&mut self.ends);
        assert_eq!(ends.len(), self.valid.len(), "each map has an end");
        let count = num_items(&ends);
        let arrays = self.columns.iter_mut().map(|column| column.take_array(count)).collect::<Result<_>>()?;
        let fields = self.columns.iter().map(|column| column.field.clone()).collect();
        let entries = StructArray::try_new_with_length(fields, arrays, None, count).map_err(invalid)?;
        let nulls = take_nulls(&mut self.valid);
        let map = MapArray::try_new(self.entries.clone(), offsets(&ends), entries, nulls, self.is_sorted);
        Ok(Arc::new(map.map_err(invalid)?))
    }
}

/// Adds an entry of a map, `[key, value]`.
fn push_pair(pair: &str, keys: &mut TextColumn<Filler>, values: &mut TextColumn<Filler>) -> Result<(), JsonLineError> {
    if !pair.starts_with('[') {
        return Err(no_pair(pair));
    }
    let mut count = 0;
    each_item(pair, &mut |_, value| {
        count += 1;
        match count {
            1 => keys.push(value),
            2 => values.push(value),
            _ => Err(no_pair(pair)),
        }
        .map_err(|e| e.inside("[]"))
    })?;
    if count == 2 { Ok(()) } else { Err(no_pair(pair)) }
}

fn no_pair(json: &str) -> JsonLineError {
    JsonLineError::new(format!("expected [key, value], got {}; correct the value", quoted(json)))
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
                let mut filler = RowFiller { columns: &mut self.columns, row, position: 0 };
                each_member(json, &mut |name, value| filler.push(&mut self.members, name, value))?;
                filler.finish()?;
            }
            None => {
                for column in &mut self.columns {
                    column.push_hidden_null()?;
                }
            }
        }
        self.valid.push(json.is_some());
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let rows = self.valid.len();
        let nulls = take_nulls(&mut self.valid);
        let arrays = self.columns.iter_mut().map(|column| column.take_array(rows)).collect::<Result<_>>()?;
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
        let continues_run = self.last.as_deref() == Some(text);
        if !continues_run {
            match json {
                Some(json) => self.values.push(json)?,
                None => self.values.push_hidden_null()?,
            }
            self.last = Some(text.into());
        }
        self.ends.push(continues_run);
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        self.last = None;
        let values = self.values.take_array(self.ends.count())?;
        self.ends.finish(&values)
    }
}

impl TextColumn<Filler> {
    /// Adds a null under a null of the parent, where even a column that forbids nulls may have one.
    fn push_hidden_null(&mut self) -> Result<(), JsonLineError> {
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
