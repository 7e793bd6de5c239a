//! The layout of a schema in a segment: its buffers, and the counters of how far they are filled.
//!
//! A [`Plan`] has one [`PlanNode`] for each field, as a tree, and one [`PlanDictionary`] for each dictionary. Each
//! buffer has a region of the file, and both nodes and records refer to regions and counters by number:
//!
//! ```text
//! counter 0: rows
//! then, depth first over the fields:   nulls, where the field is nullable
//!                                      bytes of text, or items of a list
//!                                      rows of each child of a dense union
//! then for each dictionary in the order of its fields:   entries, and the counters of its values
//! last: bytes of the names of positions
//! ```
//! A node's regions follow each other: the validity bitmap (or the type ids of a union), then values, offsets, views or
//! keys, then text or sizes. Columns may have zones, which are the least and the greatest value of each block of rows;
//! their regions come last, and their length follows from the number of rows.
//!
//! Reader, writer and the published footers all walk the same tree.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef, Schema, UnionMode};

use super::dictionary_entries::DictionaryEntries;
use crate::dataset::order::is_sortable;
use crate::error::{Error, Result};
use crate::ipc::{IpcSchema, Node, schema_metadata};
use crate::types::{BufferRole, MAX_INLINE, VIEW_WIDTH, field_type_name, fixed_size};

/// Buffers begin at multiples of this: whole pages on every system.
pub(crate) const ALIGNMENT: u64 = 65536;

/// The number of the counter of a segment's rows.
pub(crate) const ROWS: usize = 0;

/// The bytes of a view in which the offset of a longer text is.
pub(super) const VIEW_OFFSET: Range<usize> = 12..16;

/// The size in bytes of a dense union's offsets.
pub(crate) const UNION_OFFSET: usize = 4;

/// The region of a buffer: its offset in the file and its capacity in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub offset: u64,
    pub capacity: u64,
}

/// A column with zones, and the number of rows in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneMap {
    pub column: u32,
    pub rows: u32,
}

/// The size of a zone in bytes.
pub(crate) const ZONE: u64 = 72;

/// The zones of a column, with the number of their buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanZones {
    pub column: usize,
    /// The number of rows in a zone.
    pub rows: u64,
    pub region: usize,
}

/// A field with the numbers of its counters and buffers.
#[derive(Debug)]
pub(crate) struct PlanNode {
    pub field: FieldRef,
    pub kind: Storage,
    /// The counter of nulls, if the field is nullable.
    pub nulls: Option<usize>,
    /// The first of the field's own buffers, which is the validity bitmap of types that have one.
    pub region: usize,
    pub children: Vec<PlanNode>,
}

/// How a field's values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Nulls, which have no bytes.
    Nothing,
    /// `width` bytes per row.
    Fixed {
        width: usize,
    },
    Bits,
    /// Offsets of `width` bytes into text, whose bytes `counter` counts.
    Bytes {
        width: usize,
        counter: usize,
    },
    /// Views into text, whose bytes `counter` counts.
    Views {
        counter: usize,
    },
    /// Offsets of `width` bytes into the child, whose rows `counter` counts.
    List {
        width: usize,
        counter: usize,
    },
    /// An offset and a size of `width` bytes each per row into the child, whose rows `counter` counts.
    ListViews {
        width: usize,
        counter: usize,
    },
    FixedList {
        size: u64,
    },
    Struct,
    /// A type id per row, and a row of each child.
    SparseUnion,
    /// A type id and an offset of 4 bytes per row. The rows of the children are counted from counter `first` on.
    DenseUnion {
        first: usize,
    },
    /// Keys of `width` bytes into dictionary number `number`.
    Keys {
        number: usize,
        width: usize,
    },
}

impl Storage {
    /// Returns true if the first buffer is a validity bitmap.
    pub fn has_validity(self) -> bool {
        !matches!(self, Storage::Nothing | Storage::SparseUnion | Storage::DenseUnion { .. })
    }
}

/// A dictionary; it has no nulls.
#[derive(Debug)]
pub(crate) struct PlanDictionary {
    pub id: i64,
    /// How its values are stored: text, bytes, or values of one width.
    pub values: PlanNode,
    /// The counter of its entries.
    pub entries: usize,
    /// The maximum number of entries that keys can address.
    pub most: u64,
}

/// Decodes a little-endian number of up to 8 bytes; `None` if there are more.
fn word(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

impl PlanDictionary {
    /// Creates the dictionary in memory, without entries yet.
    pub fn new_entries(&self) -> DictionaryEntries {
        DictionaryEntries::new(self.most)
    }

    /// Returns the bytes of each of its first `count` values. `values` is the buffer after the validity bitmap,
    /// and `text` the length of the text, if there is one. `None` if a value is outside of them.
    pub fn stored<'a>(&self, count: usize, values: &'a [u8], text: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let text = |from: u64, to: u64| text.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?);
        match self.values.kind {
            Storage::Fixed { width } => {
                (0..count).map(|entry| values.get(entry * width..(entry + 1) * width)).collect()
            }
            Storage::Bytes { width, .. } => {
                let offset = |entry: usize| word(values.get(entry * width..(entry + 1) * width)?);
                (0..count).map(|entry| text(offset(entry)?, offset(entry + 1)?)).collect()
            }
            Storage::Views { .. } => {
                let value = |view: &'a [u8; VIEW_WIDTH]| match word(&view[..4])? {
                    len if len <= MAX_INLINE as u64 => view.get(4..4 + len as usize),
                    len => word(&view[VIEW_OFFSET]).and_then(|start| text(start, start + len)),
                };
                let (views, _) = values.as_chunks();
                views.get(..count)?.iter().map(value).collect()
            }
            _ => None,
        }
    }

    /// Returns the counter of the bytes of its texts; `None` for values of one width.
    pub fn bytes(&self) -> Option<usize> {
        match self.values.kind {
            Storage::Bytes { counter, .. } | Storage::Views { counter } => Some(counter),
            _ => None,
        }
    }
}

/// The tree of a schema.
#[derive(Debug)]
pub(crate) struct Plan {
    pub schema: IpcSchema,
    pub columns: Vec<PlanNode>,
    pub dictionaries: Vec<PlanDictionary>,
    pub counters: usize,
    pub regions: usize,
    /// The names of positions (a position is a number that a commit stores under a name, such as the progress of its
    /// producer): their region follows the columns and dictionaries, and the last counter counts their bytes.
    pub names: PlanNames,
    /// The zones of columns: their regions come last.
    pub zones: Vec<PlanZones>,
    /// The columns of text, dictionary-encoded or not.
    pub text_columns: Vec<usize>,
}

/// The region and the counter of the names of positions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlanNames {
    pub region: usize,
    pub bytes: usize,
}

/// Text in one buffer has 31 bits of offset.
const MOST_TEXT: u64 = i32::MAX as u64;
/// The exclusive upper bound of counters.
pub(crate) const MOST_COUNTED: u64 = 1 << 48;
/// The maximum number of rows of an array.
pub(crate) const MOST_IN_MEMORY: u64 = i64::MAX as u64;
/// The maximum number of bytes of text, items and the like in memory that offsets of 64 bits address.
const MOST_BYTES_IN_MEMORY: u64 = 1 << 40;
/// The exclusive upper bound of offsets in a file.
const MOST_OFFSET: u64 = 1 << 62;
/// The maximum size in bytes of the names of positions, each with its length.
const MOST_NAMES: u64 = 256 * 256;

impl Plan {
    /// Makes the plan of a table to be written.
    ///
    /// # Errors
    /// The errors of [`Plan::new`].
    pub fn for_schema(schema: &Schema) -> Result<Plan> {
        let plan = Plan::new(IpcSchema::parse_message(&schema_metadata(schema))?)?;
        // Schema metadata can't express a dictionary of keys: it would describe one of values.
        for (column, field) in plan.columns.iter().zip(schema.fields()) {
            if column.field.data_type() != field.data_type() {
                return Err(unsupported(field).context(format_args!("column '{}'", field.name())));
            }
        }
        Ok(plan)
    }

    /// Makes the plan of a parsed schema.
    ///
    /// # Errors
    /// `Unsupported`, naming the column, for types that a table can't store.
    pub fn new(schema: IpcSchema) -> Result<Plan> {
        let mut numbers = PlanBuilder { counters: 1, ..PlanBuilder::default() };
        let mut columns = Vec::with_capacity(schema.columns.len());
        for node in &schema.columns {
            let name = node.field.name();
            columns.push(numbers.node(node).map_err(|e| e.context(format_args!("column '{name}'")))?);
        }
        let mut dictionaries = Vec::new();
        for EncodedValues { id, most, values } in std::mem::take(&mut numbers.encoded) {
            let entries = numbers.take_counter();
            dictionaries.push(PlanDictionary { id, values: numbers.values(&values)?, entries, most });
        }
        let names = PlanNames { region: numbers.take_regions(1), bytes: numbers.take_counter() };
        let is_text =
            |node: &PlanNode| matches!(node.kind, Storage::Bytes { .. } | Storage::Views { .. } | Storage::Keys { .. });
        let text_columns = (0..columns.len()).filter(|&column| is_text(&columns[column])).collect();
        let PlanBuilder { counters, regions, .. } = numbers;
        Ok(Plan { schema, columns, dictionaries, counters, regions, names, zones: Vec::new(), text_columns })
    }

    /// Returns the plan with zones for some of its columns.
    ///
    /// # Errors
    /// A description of the first impossible zone map.
    pub fn with_zones(mut self, maps: &[ZoneMap]) -> Result<Plan, String> {
        assert!(self.zones.is_empty(), "a plan gets its zones once");
        for map in maps {
            let column = map.column as usize;
            let columns = self.columns.len();
            let node = self.columns.get(column);
            let node = node.ok_or_else(|| format!("zones of column {column}, there are {columns} columns"))?;
            let name = node.field.name();
            if !supports_zones(node.field.data_type()) {
                return Err(format!("zones of column '{name}', whose values have no order"));
            }
            if self.zones.iter().any(|known| known.column == column) || map.rows == 0 {
                return Err(format!("zones of {} rows of column '{name}', which may be there already", map.rows));
            }
            let region = self.regions;
            self.regions += 1;
            self.zones.push(PlanZones { column, rows: map.rows.into(), region });
        }
        Ok(self)
    }

    /// Returns true if the plan has exactly these zones.
    pub fn supports_zones(&self, maps: &[ZoneMap]) -> bool {
        let own = self.zones.iter().map(|zones| (zones.column, zones.rows));
        own.eq(maps.iter().map(|map| (map.column as usize, u64::from(map.rows))))
    }

    /// Returns the limit of each counter: the result of `guess`, or what offsets can address if that is less. Every row
    /// may be null, whatever is guessed.
    pub fn limits(&self, guess: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut limits: Vec<u64> = (0..self.counters).map(&guess).collect();
        let mut visit = |node: &PlanNode| {
            for counter in node.offset_counters() {
                limits[counter] = limits[counter].min(MOST_TEXT);
            }
        };
        self.columns.iter().for_each(|column| column.each(&mut visit));
        for dictionary in &self.dictionaries {
            limits[dictionary.entries] = limits[dictionary.entries].min(dictionary.most);
            if let Some(bytes) = dictionary.bytes() {
                limits[bytes] = limits[bytes].min(MOST_TEXT);
            }
        }
        limits[self.names.bytes] = MOST_NAMES;
        self.columns.iter().for_each(|column| column.raise_nulls(limits[ROWS], &mut limits));
        limits
    }

    /// Returns the limits of rows in memory: what offsets can address. Rows without bytes may be as many as an array
    /// can have.
    pub fn limits_in_memory(&self) -> Vec<u64> {
        self.limits(|counter| if counter == ROWS { MOST_IN_MEMORY } else { MOST_BYTES_IN_MEMORY })
    }

    /// Lays out all buffers from byte `start` on, text last, for the given limits. Returns the regions and their end;
    /// `None` past 2⁶².
    pub fn place(&self, start: u64, limits: &[u64]) -> Option<(Vec<Region>, u64)> {
        let mut sizes = vec![RegionSize::default(); self.regions];
        for column in &self.columns {
            column.sizes(limits[ROWS], limits, &mut sizes)?;
        }

        for dictionary in &self.dictionaries {
            dictionary.values.sizes(limits[dictionary.entries], limits, &mut sizes)?;
        }
        sizes[self.names.region] = RegionSize { bytes: limits[self.names.bytes], is_text: false };

        for zones in &self.zones {
            sizes[zones.region] = RegionSize { bytes: zones.bytes(limits[ROWS]), is_text: false };
        }

        let mut regions = vec![Region::default(); self.regions];
        let mut next = start;

        // Dictionaries come first: copying the body of one copies everything before it as well. Text comes last, since
        // it has the most room to spare.
        let columns = self.dictionaries.first().map_or(self.names.region, |dictionary| dictionary.values.region);
        let sizes = &sizes;
        let others = (0..columns).filter(|&region| !sizes[region].is_text);
        let texts = (0..columns).filter(|&region| sizes[region].is_text);

        for region in (columns..self.regions).chain(others).chain(texts) {
            let size = sizes[region].bytes;
            if size > 0 {
                regions[region] = Region { offset: next, capacity: size };
                next = next.checked_add(size)?.checked_next_multiple_of(ALIGNMENT)?;
            }
        }

        (next < MOST_OFFSET).then_some((regions, next))
    }
}

/// The size of a region to be placed in a file.
#[derive(Clone, Copy, Debug, Default)]
struct RegionSize {
    bytes: u64,
    /// True for text, whose regions come last.
    is_text: bool,
}

/// Gives numbers to the counters and buffers of fields, in the order of the tree. Dictionaries are collected in
/// `encoded`, and get their numbers after all fields.
#[derive(Default)]
struct PlanBuilder {
    counters: usize,
    regions: usize,
    /// The dictionaries of the fields so far.
    encoded: Vec<EncodedValues>,
}

/// A dictionary that has no numbers yet.
struct EncodedValues {
    id: i64,
    /// The maximum number of entries that keys can address.
    most: u64,
    values: Arc<Node>,
}

impl PlanBuilder {
    fn take_regions(&mut self, count: usize) -> usize {
        self.regions += count;
        self.regions - count
    }

    /// Takes a region for each of the node's own buffers. The variadic buffers of views are one buffer of text
    /// here.
    fn take_regions_of(&mut self, node: &Node) -> usize {
        self.take_regions(node.layout.roles().count() + usize::from(node.layout.variadic))
    }

    fn take_counters(&mut self, count: usize) -> usize {
        self.counters += count;
        self.counters - count
    }

    fn take_counter(&mut self) -> usize {
        self.take_counters(1)
    }

    fn node(&mut self, node: &Node) -> Result<PlanNode> {
        let has_nulls = node.field.is_nullable() && node.layout.has_validity();
        let nulls = has_nulls.then(|| self.take_counter());
        let region = self.take_regions_of(node);
        let kind = self.kind(node)?;
        let children = node.children.iter().map(|child| self.node(child)).collect::<Result<_>>()?;
        Ok(PlanNode { field: node.field.clone(), kind, nulls, region, children })
    }

    /// Plans the values of a dictionary, as a field without nulls.
    fn values(&mut self, node: &Node) -> Result<PlanNode> {
        let region = self.take_regions_of(node);
        let kind = self.kind(node)?;
        Ok(PlanNode { field: node.field.clone(), kind, nulls: None, region, children: Vec::new() })
    }

    fn kind(&mut self, node: &Node) -> Result<Storage> {
        use DataType::*;
        if let Some((id, values)) = &node.dictionary {
            return self.keys(node, *id, values);
        }
        Ok(match node.data_type() {
            Null => Storage::Nothing,
            Boolean => Storage::Bits,
            Utf8 | Binary => Storage::Bytes { width: 4, counter: self.take_counter() },
            LargeUtf8 | LargeBinary => Storage::Bytes { width: 8, counter: self.take_counter() },
            Utf8View | BinaryView => Storage::Views { counter: self.take_counter() },
            List(_) | Map(..) => Storage::List { width: 4, counter: self.take_counter() },
            LargeList(_) => Storage::List { width: 8, counter: self.take_counter() },
            ListView(_) => Storage::ListViews { width: 4, counter: self.take_counter() },
            LargeListView(_) => Storage::ListViews { width: 8, counter: self.take_counter() },
            FixedSizeList(_, size) => Storage::FixedList { size: fixed_size(*size)? as u64 },
            Struct(_) => Storage::Struct,
            Union(_, UnionMode::Sparse) => Storage::SparseUnion,
            Union(_, UnionMode::Dense) => Storage::DenseUnion { first: self.take_counters(node.children.len()) },
            _ => match node.layout.value_roles().next() {
                Some(BufferRole::Values { width, .. }) if node.layout.has_validity() => Storage::Fixed { width },
                _ => return Err(unsupported(&node.field)),
            },
        })
    }

    fn keys(&mut self, node: &Node, id: i64, values: &Arc<Node>) -> Result<Storage> {
        use DataType::*;
        let DataType::Dictionary(key, _) = node.data_type() else {
            return Err(Error::internal("a field with a dictionary that is none"));
        };
        let (width, most) = match **key {
            Int8 => (1, 1 << 7),
            UInt8 => (1, 1 << 8),
            Int16 => (2, 1 << 15),
            UInt16 => (2, 1 << 16),
            Int32 | UInt32 => (4, MOST_TEXT),
            _ => (8, MOST_TEXT),
        };
        let is_plain = values.dictionary.is_none() && values.children.is_empty();
        let is_stored = !matches!(values.data_type(), Null | Boolean | RunEndEncoded(..));
        if !is_plain || !is_stored {
            return Err(unsupported(&node.field));
        }
        self.encoded.push(EncodedValues { id, most, values: values.clone() });
        Ok(Storage::Keys { number: self.encoded.len() - 1, width })
    }
}

/// The part of a region that is filled with committed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub region: usize,
    pub bytes: u64,
    /// The number of bits in use if the buffer is a bitmap; the other bits of the last byte are undefined.
    pub bits: Option<u64>,
}

/// How the length of a buffer follows from a counter, for all counters alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferGrowth {
    pub region: usize,
    pub counter: usize,
    pub unit: GrowthUnit,
}

/// The amount that one more of a counter adds to a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GrowthUnit {
    /// So many bytes; `first` were there before.
    Bytes { each: u64, first: u64 },
    /// So many bits.
    Bits { each: u64 },
    /// A zone for so many rows.
    Zones { rows: u32 },
}

impl BufferGrowth {
    /// Returns the number of whole bytes of the buffer, and the number of bits after them, less than 8.
    #[inline]
    pub fn end(&self, counters: &[u64]) -> (u64, u32) {
        self.end_at(counters[self.counter])
    }

    /// Returns the same as [`BufferGrowth::end`], for one value of the counter.
    #[inline]
    pub fn end_at(&self, count: u64) -> (u64, u32) {
        match self.unit {
            GrowthUnit::Bytes { each, first } => (count * each + first, 0),
            GrowthUnit::Bits { each } => (count * each / 8, (count * each % 8) as u32),
            GrowthUnit::Zones { rows } => (count / u64::from(rows.max(1)) * ZONE, 0),
        }
    }
}

impl Plan {
    /// Returns how each buffer grows that can have bytes, in the order of the buffers.
    pub fn growth(&self) -> Vec<BufferGrowth> {
        let mut found = Vec::with_capacity(self.regions);
        self.columns.iter().for_each(|column| column.growth(RowCount::from_counter(ROWS), &mut found));
        self.dictionaries
            .iter()
            .for_each(|entry| entry.values.growth(RowCount::from_counter(entry.entries), &mut found));
        let bytes = |region, counter| BufferGrowth { region, counter, unit: GrowthUnit::Bytes { each: 1, first: 0 } };
        found.push(bytes(self.names.region, self.names.bytes));
        let zones = |map: &PlanZones| BufferGrowth {
            region: map.region,
            counter: ROWS,
            unit: GrowthUnit::Zones { rows: map.rows as u32 },
        };
        found.extend(self.zones.iter().map(zones));
        found.sort_unstable_by_key(|growth| growth.region);
        found
    }

    /// Returns how far each buffer is filled for these counters, which are within limits that have a
    /// [`place`](Plan::place).
    pub fn extents(&self, counters: &[u64]) -> Result<Vec<Extent>> {
        debug_assert_eq!(counters.len(), self.counters, "a counter for each of the plan's");
        let mut found = Vec::with_capacity(self.regions);
        let columns = self.columns.iter().map(|column| (column, counters[ROWS]));
        let dictionaries = self.dictionaries.iter().map(|entry| (&entry.values, counters[entry.entries]));
        for (node, rows) in columns.chain(dictionaries) {
            let within = node.extents(rows, counters, &mut found);
            within.ok_or_else(|| Error::internal(format_args!("{counters:?} rows and bytes can't be addressed")))?;
        }
        found.push(Extent { region: self.names.region, bytes: counters[self.names.bytes], bits: None });
        let zones = |zones: &PlanZones| Extent { region: zones.region, bytes: zones.bytes(counters[ROWS]), bits: None };
        found.extend(self.zones.iter().map(zones));
        debug_assert!(found.iter().all(|used| used.region < self.regions), "extents are of the plan's buffers");
        Ok(found)
    }

    /// Checks the counters of a commit of a segment with these limits.
    ///
    /// # Errors
    /// A description of the first wrong counter.
    pub fn check_counters(&self, counters: &[u64], limits: &[u64]) -> Result<(), String> {
        if counters.len() != limits.len() || limits.len() != self.counters {
            return Err(format!("{} counters, expected {}", counters.len(), self.counters));
        }
        // Writers have exceeded the limits of nulls, which no buffer depends on: their number of rows is checked below.
        let nulls = || {
            let mut nulls = Vec::new();
            self.columns.iter().for_each(|column| column.each(&mut |node| nulls.extend(node.nulls)));
            nulls
        };
        let mut exceeded = (0..limits.len()).filter(|&number| counters[number] > limits[number]);
        if let Some(number) = exceeded.find(|number| !nulls().contains(number)) {
            let count = counters[number];
            let limit = limits[number];
            return Err(format!("counter {number}: expected {limit} at most, got {count}"));
        }
        self.columns.iter().try_for_each(|column| column.check_counters(counters[ROWS], counters))?;
        self.dictionaries.iter().try_for_each(|entry| entry.values.check_counters(counters[entry.entries], counters))
    }
}

impl PlanZones {
    /// Returns the number of bytes of the zones of `rows` rows, which are less than 2⁴⁸.
    pub fn bytes(&self, rows: u64) -> u64 {
        debug_assert!(rows < MOST_COUNTED && self.rows > 0, "bounded rows and a size that was checked");
        rows / self.rows.max(1) * ZONE
    }
}

/// Returns true if columns of the type can have zones.
pub(crate) fn supports_zones(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => **values == DataType::Utf8,
        DataType::Boolean => true,
        other => is_sortable(other),
    }
}

fn unsupported(field: &FieldRef) -> Error {
    let name = field_type_name(field);
    Error::unsupported(format!(
        "{name} can't grow in a table; take the type of its values. What can grow is every type but those with run \
         ends, and dictionaries of text, bytes, numbers and times"
    ))
}

/// The counter from which a node's number of rows follows, and the number of its rows for each one that is counted.
#[derive(Clone, Copy, Debug)]
struct RowCount {
    counter: usize,
    each: u64,
}

impl RowCount {
    /// Creates the count of rows that `counter` counts one by one.
    fn from_counter(counter: usize) -> RowCount {
        RowCount { counter, each: 1 }
    }
}

impl PlanNode {
    /// Returns the number of the region of the values, offsets, views or keys, after the validity bitmap; of a dense
    /// union, the region of its offsets, after the type ids.
    #[inline]
    pub fn values_region(&self) -> usize {
        self.region + 1
    }

    /// Returns the number of the region of the text to which offsets or views refer.
    #[inline]
    pub fn text_region(&self) -> usize {
        self.region + 2
    }

    /// Returns the number of the region of the sizes of list views.
    #[inline]
    pub fn sizes_region(&self) -> usize {
        self.region + 2
    }

    /// Calls `visit` with this node and all nodes below, depth first.
    pub fn each(&self, visit: &mut impl FnMut(&PlanNode)) {
        visit(self);
        self.children.iter().for_each(|child| child.each(visit));
    }

    /// Returns the number of rows of child number `child` of a node of `rows` rows.
    pub fn child_rows(&self, child: usize, rows: u64, counters: &[u64]) -> Option<u64> {
        match self.kind {
            Storage::List { counter, .. } | Storage::ListViews { counter, .. } => counters.get(counter).copied(),
            Storage::DenseUnion { first } => counters.get(first + child).copied(),
            Storage::FixedList { size } => rows.checked_mul(size),
            _ => Some(rows),
        }
    }

    /// Calls `visit` with each child and its number of rows, until one returns `None`. Returns `None` then, and for
    /// more rows than can be counted.
    #[inline]
    pub fn each_child(
        &self,
        rows: u64,
        counters: &[u64],
        mut visit: impl FnMut(&PlanNode, u64) -> Option<()>,
    ) -> Option<()> {
        self.children.iter().enumerate().try_for_each(|(number, child)| {
            let rows = self.child_rows(number, rows, counters)?;
            visit(child, rows)
        })
    }

    /// Returns the length in bytes of each of the node's own buffers for `rows` rows, as the format defines it.
    pub fn lengths(&self, rows: u64, counters: &[u64]) -> Option<[u64; 3]> {
        let validity = if self.nulls.is_some() { rows.div_ceil(8) } else { 0 };
        let offsets = |width: usize| rows.checked_add(1)?.checked_mul(width as u64);
        let values = |width: usize| rows.checked_mul(width as u64);
        Some(match self.kind {
            Storage::Nothing => [0, 0, 0],
            Storage::Fixed { width } | Storage::Keys { width, .. } => [validity, values(width)?, 0],
            Storage::Bits => [validity, rows.div_ceil(8), 0],
            Storage::Bytes { width, counter } => [validity, offsets(width)?, *counters.get(counter)?],
            Storage::Views { counter } => [validity, values(VIEW_WIDTH)?, *counters.get(counter)?],
            Storage::List { width, .. } => [validity, offsets(width)?, 0],
            Storage::ListViews { width, .. } => [validity, values(width)?, values(width)?],
            Storage::FixedList { .. } | Storage::Struct => [validity, 0, 0],
            Storage::SparseUnion => [rows, 0, 0],
            Storage::DenseUnion { .. } => [rows, values(UNION_OFFSET)?, 0],
        })
    }

    /// Returns the counters whose values are stored as offsets of 32 bits.
    fn offset_counters(&self) -> Range<usize> {
        match self.kind {
            Storage::Bytes { width: 4, counter }
            | Storage::Views { counter }
            | Storage::List { width: 4, counter }
            | Storage::ListViews { width: 4, counter } => counter..counter + 1,
            Storage::DenseUnion { first } => first..first + self.children.len(),
            _ => 0..0,
        }
    }

    /// Returns the number of the node's own buffers.
    pub fn buffers(&self) -> usize {
        match self.kind {
            Storage::Nothing => 0,
            Storage::FixedList { .. } | Storage::Struct | Storage::SparseUnion => 1,
            Storage::Bytes { .. } | Storage::Views { .. } | Storage::ListViews { .. } => 3,
            _ => 2,
        }
    }

    /// Raises the limits of nulls to the rows of each node, where the column has `rows`.
    fn raise_nulls(&self, rows: u64, limits: &mut [u64]) {
        if let Some(counter) = self.nulls {
            limits[counter] = limits[counter].max(rows.min(MOST_COUNTED - 1));
        }
        for (number, child) in self.children.iter().enumerate() {
            let rows = self.child_rows(number, rows, limits).unwrap_or(MOST_COUNTED);
            child.raise_nulls(rows, limits);
        }
    }

    /// Checks that `rows` rows can have as many nulls, items and bytes of text.
    fn check_counters(&self, rows: u64, counters: &[u64]) -> Result<(), String> {
        let name = self.field.name();
        if let Some(nulls) = self.nulls.filter(|&counter| counters[counter] > rows) {
            let got = counters[nulls];
            return Err(format!("counter {nulls}: expected {rows} nulls of '{name}' at most, got {got}"));
        }
        let inside = match self.kind {
            Storage::Bytes { counter, .. }
            | Storage::Views { counter }
            | Storage::List { counter, .. }
            | Storage::ListViews { counter, .. } => Some(counter),
            _ => None,
        };

        if let Some(counter) = inside.filter(|&counter| rows == 0 && counters[counter] > 0) {
            return Err(format!("counter {counter}: no rows of '{name}' have {} items or bytes", counters[counter]));
        }
        if let Storage::DenseUnion { first } = self.kind {
            let members = &counters[first..first + self.children.len()];
            if members.iter().try_fold(0, |sum: u64, &count| sum.checked_add(count)) != Some(rows) {
                return Err(format!(
                    "counter {first}: expected {rows} rows in all members of '{name}', got {members:?}"
                ));
            }
        }

        self.children.iter().enumerate().try_for_each(|(number, child)| {
            let rows = self.child_rows(number, rows, counters).ok_or_else(|| format!("too many items of '{name}'"))?;
            child.check_counters(rows, counters)
        })
    }

    /// Adds how far the buffers of the node and its children are filled.
    fn extents(&self, rows: u64, counters: &[u64], found: &mut Vec<Extent>) -> Option<()> {
        let lengths = self.lengths(rows, counters)?;
        for (number, &bytes) in lengths.iter().enumerate().take(self.buffers()) {
            let is_bitmap = self.kind.has_validity() && number == 0 || self.kind == Storage::Bits;
            let bits = is_bitmap.then_some(if bytes == 0 { 0 } else { rows });
            found.push(Extent { region: self.region + number, bytes, bits });
        }
        self.each_child(rows, counters, |child, rows| child.extents(rows, counters, found))
    }

    /// Adds how the node's buffers grow with its rows.
    fn growth(&self, rows: RowCount, found: &mut Vec<BufferGrowth>) {
        let RowCount { counter, each } = rows;
        let mut add = |number: usize, counter, unit| {
            found.push(BufferGrowth { region: self.region + number, counter, unit });
        };
        let bytes = |width: usize| GrowthUnit::Bytes { each: each * width as u64, first: 0 };

        // The first offset is 0, and is not written.
        let offsets = |width: usize| GrowthUnit::Bytes { each: each * width as u64, first: width as u64 };
        let data = GrowthUnit::Bytes { each: 1, first: 0 };
        if self.nulls.is_some() {
            add(0, counter, GrowthUnit::Bits { each });
        }

        match self.kind {
            Storage::Fixed { width } | Storage::Keys { width, .. } => add(1, counter, bytes(width)),
            Storage::Bits => add(1, counter, GrowthUnit::Bits { each }),
            Storage::Bytes { width, counter: text } => {
                add(1, counter, offsets(width));
                add(2, text, data);
            }
            Storage::Views { counter: text } => {
                add(1, counter, bytes(VIEW_WIDTH));
                add(2, text, data);
            }
            Storage::List { width, .. } => add(1, counter, offsets(width)),
            Storage::ListViews { width, .. } => {
                [1, 2].into_iter().for_each(|number| add(number, counter, bytes(width)))
            }
            Storage::SparseUnion => add(0, counter, bytes(1)),
            Storage::DenseUnion { .. } => {
                add(0, counter, bytes(1));
                add(1, counter, bytes(UNION_OFFSET));
            }
            Storage::Nothing | Storage::FixedList { .. } | Storage::Struct => (),
        }

        for (number, child) in self.children.iter().enumerate() {
            let rows = match self.kind {
                Storage::List { counter, .. } | Storage::ListViews { counter, .. } => RowCount::from_counter(counter),
                Storage::DenseUnion { first } => RowCount::from_counter(first + number),
                Storage::FixedList { size } => RowCount { counter, each: each * size },
                _ => rows,
            };
            child.growth(rows, found);
        }
    }

    /// Sets the size of each buffer of a segment with these limits, and whether it is text.
    fn sizes(&self, rows: u64, limits: &[u64], sizes: &mut [RegionSize]) -> Option<()> {
        let lengths = self.lengths(rows, limits)?;
        let has_text = matches!(self.kind, Storage::Bytes { .. } | Storage::Views { .. });
        for (region, &bytes) in (self.region..).zip(&lengths).take(self.buffers()) {
            let is_text = has_text && region == self.text_region();
            *sizes.get_mut(region)? = RegionSize { bytes, is_text };
        }
        self.each_child(rows, limits, |child, rows| child.sizes(rows, limits, sizes))
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn all_rows_may_be_null_unlike_in_early_writers() {
        let fields = vec![Field::new("n", DataType::Int64, true), Field::new("text", DataType::Utf8, true)];
        let plan = Plan::for_schema(&Arc::new(Schema::new(fields))).unwrap();
        // The counters are rows, nulls of each column, bytes of text, and bytes of names. Early writers had less room
        // for nulls than for rows.
        assert_eq!(plan.limits(|counter| if counter == ROWS { 1000 } else { 10 }), [1000, 1000, 1000, 10, MOST_NAMES]);
        let check = |counters: [u64; 5]| plan.check_counters(&counters, &[1000, 10, 10, 10, 10]);
        assert_eq!(check([900, 900, 11, 10, 10]), Ok(()));
        for (counters, number) in
            [([1001, 0, 0, 0, 0], 0), ([900, 901, 0, 0, 0], 1), ([900, 0, 0, 11, 0], 3), ([0, 0, 0, 0, 11], 4)]
        {
            let message = check(counters).unwrap_err();
            assert!(message.starts_with(&format!("counter {number}: ")), "{message}");
        }
    }
}
