//! Parses the Schema message: fields, types, metadata and dictionary ids, within a budget.
//!
//! A flatbuffer may refer to one table many times, so a small file can describe an exponentially large schema. The size
//! of the metadata limits how much of it is visited.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use arrow_schema::{
    DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit, UnionFields, UnionMode,
};

use super::fields;
use super::flatbuffer::{FlatTable, TablePosition};
use super::message::{MessageHeader, MessageKind};
use crate::error::{Error, Result};
use crate::types::{BufferRole, Layout, layout};

/// The limit of nesting, as in Arrow C++.
const MAX_DEPTH: usize = 64;

/// A field of the schema: its part of a record batch, and its dictionary.
#[derive(Debug)]
pub(crate) struct Node {
    /// Name, type, nullability and metadata.
    pub field: FieldRef,
    /// The buffers of this node alone.
    pub layout: Layout,
    /// Child nodes inside the same record batch.
    pub children: Vec<Node>,
    /// The dictionary id, and the node of the dictionary's values.
    pub dictionary: Option<(i64, Arc<Node>)>,
    /// The numbers of entries of a record batch's lists for the node and its children.
    pub share: BatchShare,
}

/// The numbers of field nodes, buffers and variadic counts that a node takes in a record batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchShare {
    pub nodes: usize,
    pub buffers: usize,
    pub variadics: usize,
    /// Unions and run-end encodings, each of which has an additional validity buffer before metadata version 5.
    pub legacy_validities: usize,
}

impl Node {
    /// Returns the bytes per row of a column of fixed-width values without a dictionary.
    pub(in crate::ipc) fn plain_width(&self) -> Option<usize> {
        self.layout.plain_width().filter(|_| self.dictionary.is_none())
    }

    fn new(field: FieldRef, children: Vec<Node>, dictionary: Option<(i64, Arc<Node>)>) -> Node {
        let layout = layout::layout(field.data_type());
        let mut share = BatchShare {
            nodes: 1,
            buffers: layout.roles().count(),
            variadics: usize::from(layout.variadic),
            legacy_validities: usize::from(has_legacy_validity(field.data_type())),
        };
        for child in &children {
            share.nodes += child.share.nodes;
            share.buffers += child.share.buffers;
            share.variadics += child.share.variadics;
            share.legacy_validities += child.share.legacy_validities;
        }
        Node { field, layout, children, dictionary, share }
    }

    pub(crate) fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    /// Calls `visit` with each dictionary of this node and below, dictionaries of dictionary values included.
    pub(crate) fn dictionaries<'a>(&'a self, visit: &mut impl FnMut(i64, &'a Arc<Node>)) {
        if let Some((id, values)) = &self.dictionary {
            visit(*id, values);
            values.dictionaries(visit);
        }
        for child in &self.children {
            child.dictionaries(visit);
        }
    }
}

/// A parsed Schema message.
#[derive(Debug)]
pub(crate) struct IpcSchema {
    pub schema: SchemaRef,
    pub columns: Vec<Node>,
    pub big_endian: bool,
    /// The keys of metadata that the schema lacks because it is not UTF-8.
    pub left_out: Vec<String>,
}

impl IpcSchema {
    /// Parses the metadata of a Schema message.
    pub(crate) fn parse_message(metadata: &[u8]) -> Result<IpcSchema> {
        let header = MessageHeader::parse(metadata)?;
        match header.kind {
            MessageKind::Schema => IpcSchema::parse(header.table, metadata.len()),
            other => Err(Error::invalid(format!("expected a Schema message, got {other:?}"))),
        }
    }

    /// Parses the Schema table; `size` is the size in bytes of the metadata that contains it.
    pub(in crate::ipc) fn parse(table: FlatTable<'_>, size: usize) -> Result<IpcSchema> {
        let mut budget = SchemaBudget::for_metadata(size);
        let big_endian = match table.i16(fields::schema::ENDIANNESS)? {
            0 => false,
            1 => true,
            other => return Err(Error::invalid(format!("schema: endianness is 0 or 1, got {other}"))),
        };
        let columns = table.tables(fields::schema::FIELDS)?;
        let columns: Vec<Node> = columns.map(|field| parse_field(field?, 1, &mut budget)).collect::<Result<_>>()?;
        let metadata = parse_metadata(table, fields::schema::CUSTOM_METADATA, &mut budget)?;
        let fields: Fields = columns.iter().map(|node| node.field.clone()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let parsed = IpcSchema { schema, columns, big_endian, left_out: budget.left_out };
        parsed.check_shared_dictionaries()?;
        Ok(parsed)
    }

    /// Checks that the fields that share a dictionary id agree about the type of its values.
    fn check_shared_dictionaries(&self) -> Result<()> {
        let mut values_by_id: HashMap<i64, &Arc<Node>> = HashMap::new();
        let mut clash = None;
        for column in &self.columns {
            column.dictionaries(&mut |id, values| {
                let first = values_by_id.entry(id).or_insert(values);
                if first.data_type() != values.data_type() {
                    clash = Some((id, first.data_type().clone(), values.data_type().clone()));
                }
            });
        }
        match clash {
            Some((id, a, b)) => {
                Err(Error::invalid(format!("dictionary {id} is declared with values of {a} and of {b}")))
            }
            None => Ok(()),
        }
    }
}

/// Caches the schema of the first of many files, as most of the others have the same.
#[derive(Debug, Default)]
pub(crate) struct SchemaCache(OnceLock<CachedSchema>);

#[derive(Debug)]
struct CachedSchema {
    /// The bytes that the schema was parsed from.
    bytes: Box<[u8]>,
    /// The position of its table in `bytes`.
    position: TablePosition,
    schema: Arc<IpcSchema>,
}

impl SchemaCache {
    /// Returns the cached schema if it has the same bytes; parses the table like [`IpcSchema::parse`] otherwise.
    pub(in crate::ipc) fn parse(&self, table: FlatTable<'_>, size: usize) -> Result<Arc<IpcSchema>> {
        // The positions of the file's batches come before the schema in a footer.
        let schema_only = table.without_prefix();
        let bytes = schema_only.bytes();
        let position = schema_only.table_position();
        if let Some(cached) = self.0.get()
            && cached.position == position
            && *cached.bytes == *bytes
        {
            return Ok(cached.schema.clone());
        }
        let Ok(schema) = IpcSchema::parse(schema_only, bytes.len()).map(Arc::new) else {
            return IpcSchema::parse(table, size).map(Arc::new);
        };
        self.0.get_or_init(|| CachedSchema { bytes: bytes.into(), position, schema: schema.clone() });
        Ok(schema)
    }
}

/// Limits the work of parsing a schema, and collects the keys of the metadata that it leaves out.
struct SchemaBudget {
    /// The number of fields and pairs of metadata that may still be visited.
    fields: usize,
    /// The bytes of text that may still be copied.
    text_bytes: usize,
    /// See [`IpcSchema::left_out`].
    left_out: Vec<String>,
}

impl SchemaBudget {
    /// Creates the budget for metadata of `size` bytes, which is enough for any schema that refers to each table once.
    fn for_metadata(size: usize) -> SchemaBudget {
        /// The fewest bytes that a field takes.
        const MIN_FIELD: usize = 8;
        /// How often a text may be referred to, as builders share equal texts.
        const MAX_SHARING: usize = 4;
        /// The bytes of text that any schema may have.
        const FREE_TEXT: usize = 1 << 20;
        let text_bytes = size.saturating_mul(MAX_SHARING).saturating_add(FREE_TEXT);
        SchemaBudget { fields: size / MIN_FIELD, text_bytes, left_out: Vec::new() }
    }

    fn spend_field(&mut self) -> Result<()> {
        self.fields = self
            .fields
            .checked_sub(1)
            .ok_or_else(|| Error::invalid("schema: more fields than its metadata has room for"))?;
        Ok(())
    }

    fn spend_text(&mut self, text: &str) -> Result<()> {
        self.text_bytes = self
            .text_bytes
            .checked_sub(text.len())
            .ok_or_else(|| Error::invalid("schema: more text in names and metadata than its metadata has room for"))?;
        Ok(())
    }
}

fn parse_field(table: FlatTable<'_>, depth: usize, budget: &mut SchemaBudget) -> Result<Node> {
    budget.spend_field()?;
    if depth > MAX_DEPTH {
        return Err(Error::invalid(format!("schema: fields are nested deeper than {MAX_DEPTH} levels")));
    }
    let name = table.string(fields::field::NAME)?.unwrap_or("");
    budget.spend_text(name)?;
    parse_named_field(table, name, depth, budget).map_err(|e| {
        if e.message().starts_with("field") { e } else { e.context(format_args!("field '{}'", name.escape_debug())) }
    })
}

fn parse_named_field(table: FlatTable<'_>, name: &str, depth: usize, budget: &mut SchemaBudget) -> Result<Node> {
    let nullable = table.bool(fields::field::NULLABLE)?;
    let children = table.tables(fields::field::CHILDREN)?;
    let children = children.map(|child| parse_field(child?, depth + 1, budget)).collect::<Result<Vec<Node>>>()?;
    let data_type = parse_type(table, &children)?;
    let metadata = parse_metadata(table, fields::field::CUSTOM_METADATA, budget)?;
    let Some(encoding) = table.table(fields::field::DICTIONARY)? else {
        let field = Field::new(name, data_type, nullable).with_metadata(metadata);
        return Ok(Node::new(Arc::new(field), children, None));
    };

    let values = Node::new(Arc::new(Field::new(name, data_type.clone(), true)), children, None);
    let index = match encoding.table(fields::dictionary_encoding::INDEX_TYPE)? {
        Some(int) => int_type(int)?,
        None => DataType::Int32,
    };
    let encoded = DataType::Dictionary(Box::new(index), Box::new(data_type));
    let is_ordered = encoding.bool(fields::dictionary_encoding::IS_ORDERED)?;
    let field = Field::new(name, encoded, nullable).with_dict_is_ordered(is_ordered).with_metadata(metadata);
    let id = encoding.i64(fields::dictionary_encoding::ID)?;
    Ok(Node::new(Arc::new(field), Vec::new(), Some((id, Arc::new(values)))))
}

fn parse_metadata(table: FlatTable<'_>, field: usize, budget: &mut SchemaBudget) -> Result<HashMap<String, String>> {
    let mut metadata = HashMap::new();
    for pair in table.tables(field)? {
        let pair = pair?;
        budget.spend_field()?;
        match (pair_text(pair, fields::key_value::KEY)?, pair_text(pair, fields::key_value::VALUE)?) {
            (Some(key), Some(value)) => {
                budget.spend_text(key)?;
                budget.spend_text(value)?;
                metadata.insert(key.to_owned(), value.to_owned());
            }
            (key, _) => budget.left_out.push(key.unwrap_or("?").to_owned()),
        }
    }
    Ok(metadata)
}

/// Returns the key or value of a pair, by its field; `None` if it is not UTF-8: some libraries store pickles.
fn pair_text(pair: FlatTable<'_>, field: usize) -> Result<Option<&str>> {
    match pair.vector(field, 1)? {
        Some(text) => Ok(str::from_utf8(text.bytes()).ok()),
        None => Ok(Some("")),
    }
}

/// Returns the type of a field, which is numbered as in the union `Type` of Schema.fbs.
fn parse_type(field: FlatTable<'_>, children: &[Node]) -> Result<DataType> {
    Ok(match field.u8(fields::field::TYPE_NUMBER)? {
        1 => DataType::Null,
        2 => int_type(type_table(field)?)?,
        3 => float_type(type_table(field)?)?,
        4 => DataType::Binary,
        5 => DataType::Utf8,
        6 => DataType::Boolean,
        7 => decimal_type(type_table(field)?)?,
        8 => date_type(type_table(field)?)?,
        9 => time_type(type_table(field)?)?,
        10 => timestamp_type(type_table(field)?)?,
        11 => interval_type(type_table(field)?)?,
        12 => DataType::List(only_child(children)?),
        13 => DataType::Struct(fields_of(children)),
        14 => union_type(type_table(field)?, children)?,
        15 => fixed_size_binary_type(type_table(field)?)?,
        16 => fixed_size_list_type(type_table(field)?, children)?,
        17 => DataType::Map(entries_of_map(children)?, type_table(field)?.bool(fields::map::KEYS_SORTED)?),
        18 => DataType::Duration(time_unit(type_table(field)?.i16_or(fields::duration::UNIT, MILLISECOND)?)?),
        19 => DataType::LargeBinary,
        20 => DataType::LargeUtf8,
        21 => DataType::LargeList(only_child(children)?),
        22 => run_end_type(children)?,
        23 => DataType::BinaryView,
        24 => DataType::Utf8View,
        25 => DataType::ListView(only_child(children)?),
        26 => DataType::LargeListView(only_child(children)?),
        other => {
            return Err(Error::unsupported(format!("type number {other} is newer than this version of arrowwood")));
        }
    })
}

/// Returns the table with the parameters of a field's type.
fn type_table(field: FlatTable<'_>) -> Result<FlatTable<'_>> {
    if let Some(table) = field.table(fields::field::TYPE)? {
        return Ok(table);
    }
    let number = field.u8(fields::field::TYPE_NUMBER)?;
    Err(Error::invalid(format!("schema: type number {number} comes without its table")))
}

fn int_type(table: FlatTable<'_>) -> Result<DataType> {
    Ok(match (table.i32_or(fields::int::BIT_WIDTH, 0)?, table.bool(fields::int::IS_SIGNED)?) {
        (8, true) => DataType::Int8,
        (8, false) => DataType::UInt8,
        (16, true) => DataType::Int16,
        (16, false) => DataType::UInt16,
        (32, true) => DataType::Int32,
        (32, false) => DataType::UInt32,
        (64, true) => DataType::Int64,
        (64, false) => DataType::UInt64,
        (bits, _) => return Err(Error::invalid(format!("integers have 8, 16, 32 or 64 bits, got {bits}"))),
    })
}

fn float_type(table: FlatTable<'_>) -> Result<DataType> {
    Ok(match table.i16(fields::floating_point::PRECISION)? {
        0 => DataType::Float16,
        1 => DataType::Float32,
        2 => DataType::Float64,
        other => return Err(Error::invalid(format!("floating-point precision is 0, 1 or 2, got {other}"))),
    })
}

fn decimal_type(table: FlatTable<'_>) -> Result<DataType> {
    let precision = table.i32_or(fields::decimal::PRECISION, 0)?;
    let scale = table.i32_or(fields::decimal::SCALE, 0)?;
    let bits = table.i32_or(fields::decimal::BIT_WIDTH, 128)?;
    let (build, max_precision): (fn(u8, i8) -> DataType, u8) = match bits {
        32 => (DataType::Decimal32, 9),
        64 => (DataType::Decimal64, 18),
        128 => (DataType::Decimal128, 38),
        256 => (DataType::Decimal256, 76),
        _ => return Err(Error::invalid(format!("decimals have 32, 64, 128 or 256 bits, got {bits}"))),
    };
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p), Ok(s)) if (1..=max_precision).contains(&p) => Ok(build(p, s)),
        _ => Err(Error::invalid(format!(
            "a decimal of {bits} bits has a precision of 1 to {max_precision} and a scale of -128 to 127, got \
             {precision}, {scale}"
        ))),
    }
}

fn date_type(table: FlatTable<'_>) -> Result<DataType> {
    /// The unit of dates that don't say theirs, as in the enum `DateUnit` of Schema.fbs.
    const MILLISECOND: i16 = 1;
    match table.i16_or(fields::date::UNIT, MILLISECOND)? {
        0 => Ok(DataType::Date32),
        MILLISECOND => Ok(DataType::Date64),
        other => Err(Error::invalid(format!("the unit of a date is 0 (day) or 1 (millisecond), got {other}"))),
    }
}

fn time_type(table: FlatTable<'_>) -> Result<DataType> {
    let unit = time_unit(table.i16_or(fields::time::UNIT, MILLISECOND)?)?;
    let bits = table.i32_or(fields::time::BIT_WIDTH, 32)?;
    match (bits, unit) {
        (32, TimeUnit::Second | TimeUnit::Millisecond) => Ok(DataType::Time32(unit)),
        (64, TimeUnit::Microsecond | TimeUnit::Nanosecond) => Ok(DataType::Time64(unit)),
        _ => Err(Error::invalid(format!("a time of {bits} bits can't count {unit:?}s"))),
    }
}

fn timestamp_type(table: FlatTable<'_>) -> Result<DataType> {
    let unit = time_unit(table.i16(fields::timestamp::UNIT)?)?;
    Ok(DataType::Timestamp(unit, table.string(fields::timestamp::TIMEZONE)?.map(Arc::from)))
}

fn fixed_size_binary_type(table: FlatTable<'_>) -> Result<DataType> {
    let width = table.i32_or(fields::fixed_size_binary::BYTE_WIDTH, 0)?;
    Ok(DataType::FixedSizeBinary(not_negative("byte width", width)?))
}

fn fixed_size_list_type(table: FlatTable<'_>, children: &[Node]) -> Result<DataType> {
    let size = table.i32_or(fields::fixed_size_list::LIST_SIZE, 0)?;
    Ok(DataType::FixedSizeList(only_child(children)?, not_negative("list size", size)?))
}

/// The unit of times and durations that don't say theirs, as in the enum `TimeUnit` of Schema.fbs.
const MILLISECOND: i16 = 1;

/// Returns a unit, which is numbered as in the enum `TimeUnit` of Schema.fbs.
fn time_unit(number: i16) -> Result<TimeUnit> {
    Ok(match number {
        0 => TimeUnit::Second,
        MILLISECOND => TimeUnit::Millisecond,
        2 => TimeUnit::Microsecond,
        3 => TimeUnit::Nanosecond,
        other => return Err(Error::invalid(format!("a time unit is a number from 0 to 3, got {other}"))),
    })
}

fn interval_type(table: FlatTable<'_>) -> Result<DataType> {
    Ok(DataType::Interval(match table.i16(fields::interval::UNIT)? {
        0 => IntervalUnit::YearMonth,
        1 => IntervalUnit::DayTime,
        2 => IntervalUnit::MonthDayNano,
        other => return Err(Error::invalid(format!("the unit of an interval is a number from 0 to 2, got {other}"))),
    }))
}

fn union_type(table: FlatTable<'_>, children: &[Node]) -> Result<DataType> {
    let mode = match table.i16(fields::union::MODE)? {
        0 => UnionMode::Sparse,
        1 => UnionMode::Dense,
        other => return Err(Error::invalid(format!("the mode of a union is 0 or 1, got {other}"))),
    };
    let ids: Vec<i32> = match table.vector(fields::union::TYPE_IDS, size_of::<i32>())? {
        Some(ids) => (0..ids.len()).map(|i| ids.i32(i, 0)).collect::<Result<_>>()?,
        None => (0..).take(children.len()).collect(),
    };
    let are_in_range = ids.iter().all(|id| (0..=i32::from(i8::MAX)).contains(id));
    let are_distinct = ids.iter().collect::<HashSet<_>>().len() == ids.len();
    if !are_in_range || !are_distinct || ids.len() != children.len() {
        let count = children.len();
        return Err(Error::invalid(format!(
            "the type ids of a union of {count} children are {count} different numbers from 0 to 127, got {ids:?}"
        )));
    }
    let fields = ids.iter().map(|&id| id as i8).zip(children.iter().map(|child| child.field.clone()));
    Ok(DataType::Union(fields.collect::<UnionFields>(), mode))
}

fn run_end_type(children: &[Node]) -> Result<DataType> {
    let [run_ends, values] = children else {
        return Err(Error::invalid(format!("run-end encoding has 2 children, got {}", children.len())));
    };
    match run_ends.data_type() {
        DataType::Int16 | DataType::Int32 | DataType::Int64 if run_ends.dictionary.is_none() => {
            Ok(DataType::RunEndEncoded(run_ends.field.clone(), values.field.clone()))
        }
        other => Err(Error::invalid(format!("run ends are int16, int32 or int64, got {other}"))),
    }
}

fn entries_of_map(children: &[Node]) -> Result<FieldRef> {
    let entries = only_child(children)?;
    match entries.data_type() {
        DataType::Struct(fields) if fields.len() == 2 && children[0].dictionary.is_none() => Ok(entries),
        other => Err(Error::invalid(format!("the entries of a map are a struct of key and value, got {other}"))),
    }
}

fn only_child(children: &[Node]) -> Result<FieldRef> {
    match children {
        [child] => Ok(child.field.clone()),
        _ => Err(Error::invalid(format!("a list or map has 1 child, got {}", children.len()))),
    }
}

fn fields_of(children: &[Node]) -> Fields {
    children.iter().map(|child| child.field.clone()).collect()
}

fn not_negative(what: &str, value: i32) -> Result<i32> {
    if value >= 0 { Ok(value) } else { Err(Error::invalid(format!("a {what} can't be negative, got {value}"))) }
}

/// Returns true for types that have a validity buffer before metadata version 5 only. Run-end encoding is younger than
/// version 5, but Arrow C++ and arrow-rs both write it that way.
pub(in crate::ipc) fn has_legacy_validity(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Union(..) | DataType::RunEndEncoded(..))
}

/// Returns the roles of a node's buffers in metadata of `version`.
pub(in crate::ipc) fn buffer_roles(node: &Node, version: i16) -> Vec<BufferRole> {
    let validity =
        (version < super::message::V5 && has_legacy_validity(node.data_type())).then_some(BufferRole::Validity);
    validity.into_iter().chain(node.layout.roles()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::flatbuffer::FlatTable;
    use super::*;

    /// Parses the schema of the footer of a file with `batches` batches.
    #[cfg(feature = "write")]
    fn parse_footer_schema(cache: &SchemaCache, schema: &Schema, batches: i64) -> Arc<IpcSchema> {
        use super::super::metadata::{Block, footer};
        let blocks: Vec<_> = (0..batches).map(|number| Block::new(8 + number * 4096, 256, 3840)).collect();
        let notes = [("arrowwood.rows", format!("{batches}x512"))];
        let bytes = footer(schema, &[], &blocks, &notes);
        let table = FlatTable::root(&bytes).unwrap().table(1).unwrap().unwrap();
        cache.parse(table, bytes.len()).unwrap()
    }

    #[cfg(feature = "write")]
    #[test]
    fn files_with_different_footers_share_a_schema() {
        let fields = |name| vec![Field::new("a", DataType::Int64, true), Field::new(name, DataType::Utf8, false)];
        let (ours, other) = (Schema::new(fields("b")), Schema::new(fields("c")));
        let cache = SchemaCache::default();
        let first = parse_footer_schema(&cache, &ours, 1);
        assert_eq!(*first.schema, ours);
        assert!(Arc::ptr_eq(&first, &parse_footer_schema(&cache, &ours, 700)));
        assert_eq!(*parse_footer_schema(&cache, &other, 1).schema, other);
        assert!(Arc::ptr_eq(&first, &parse_footer_schema(&cache, &ours, 2)));
    }

    #[test]
    fn a_schema_may_refer_to_bytes_in_front_of_it() {
        // Vtables may be anywhere: here, the field's is at byte 4, the schema's at 16, and the schema's table at 24.
        let mut bytes = vec![0; 48];
        bytes[0] = 24;
        bytes[4..14].copy_from_slice(&[10, 0, 6, 0, 0, 0, 0, 0, 4, 0]);
        bytes[16..24].copy_from_slice(&[8, 0, 8, 0, 0, 0, 4, 0]);
        // The schema has a vector of one field at byte 32. The field at byte 40 has the type null.
        for (at, value) in [(24, 8), (28, 4), (32, 1), (36, 4), (40, 36), (44, 1)] {
            bytes[at] = value;
        }
        let cache = SchemaCache::default();
        for _ in 0..2 {
            let table = FlatTable::root(&bytes).unwrap();
            assert_eq!(*cache.parse(table, bytes.len()).unwrap().columns[0].data_type(), DataType::Null);
        }
    }
}
