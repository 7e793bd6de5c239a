//! The layout of a schema in a segment: its buffers, and the counters of how far they are filled.
//!
//! ```text
//! counter 0: rows
//! then, depth first over the fields:   nulls, where the field is nullable
//!                                      bytes of text, or items of a list
//! then for each dictionary in the order of its fields:   entries, bytes of text
//! last: bytes of the names of positions
//! ```
//! Reader, writer and the published footers all walk the same tree.

use arrow_schema::{DataType, FieldRef, Schema};

use crate::error::{Error, Result};
use crate::ipc::{IpcSchema, Node, schema_metadata};
use crate::types::{Role, field_type_name, fixed_size};

/// Buffers begin at multiples of this: whole pages on every system.
pub(crate) const ALIGNMENT: u64 = 65536;

/// The region of a buffer: its offset in the file and its capacity in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub offset: u64,
    pub capacity: u64,
}

/// A field with the numbers of its counters and buffers.
#[derive(Debug)]
pub(crate) struct PlanNode {
    pub field: FieldRef,
    pub kind: Storage,
    /// The counter of nulls, if the field is nullable.
    pub nulls: Option<usize>,
    /// The first of the field's own buffers, which is the validity bitmap.
    pub region: usize,
    pub children: Vec<PlanNode>,
}

/// How a field's values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
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
    FixedList {
        size: u64,
    },
    Struct,
    /// 4-byte keys into dictionary number `number`.
    Keys {
        number: usize,
    },
}

/// A dictionary of text; it has no nulls.
#[derive(Debug)]
pub(crate) struct PlanDictionary {
    pub id: i64,
    pub value_type: DataType,
    pub region: usize,
    pub entries: usize,
    pub bytes: usize,
}

/// The tree of a schema.
#[derive(Debug)]
pub(crate) struct Plan {
    pub schema: IpcSchema,
    pub columns: Vec<PlanNode>,
    pub dictionaries: Vec<PlanDictionary>,
    pub counters: usize,
    pub regions: usize,
    /// The names of positions: they have the last region, and the last counter, which counts their bytes.
    pub names: PlanNames,
    /// The columns that are text, in a dictionary or not.
    pub texts: Vec<usize>,
}

/// The region and the counter of the names of positions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlanNames {
    pub region: usize,
    pub bytes: usize,
}

/// Text in one buffer has 31 bits of offset.
const MOST_TEXT: u64 = i32::MAX as u64;
/// The most bytes that the names of positions can have, each with its length.
const MOST_NAMES: u64 = 256 * 256;

impl Plan {
    /// Makes the plan of a table to be written.
    ///
    /// # Errors
    /// Those of [`Plan::new`].
    pub fn of(schema: &Schema) -> Result<Plan> {
        Plan::new(IpcSchema::of_metadata(&schema_metadata(schema))?)
    }

    /// Makes the plan of a parsed schema.
    ///
    /// # Errors
    /// `Unsupported`, naming the column, for types that a table can't store.
    pub fn new(schema: IpcSchema) -> Result<Plan> {
        let mut plan = Plan {
            schema,
            columns: Vec::new(),
            dictionaries: Vec::new(),
            counters: 1,
            regions: 0,
            names: PlanNames::default(),
            texts: Vec::new(),
        };
        let nodes = std::mem::take(&mut plan.schema.columns);
        for node in &nodes {
            let name = node.field.name();
            let column = plan.node(node).map_err(|e| e.context(format_args!("column '{name}'")))?;
            plan.columns.push(column);
        }
        plan.schema.columns = nodes;
        let is_text =
            |node: &PlanNode| matches!(node.kind, Storage::Bytes { .. } | Storage::Views { .. } | Storage::Keys { .. });
        plan.texts = (0..plan.columns.len()).filter(|&column| is_text(&plan.columns[column])).collect();
        for number in 0..plan.dictionaries.len() {
            let region = plan.take_regions(3);
            let counter = plan.counters;
            plan.counters += 2;
            let dictionary = &mut plan.dictionaries[number];
            (dictionary.region, dictionary.entries, dictionary.bytes) = (region, counter, counter + 1);
        }
        plan.names = PlanNames { region: plan.take_regions(1), bytes: plan.take_counter() };
        Ok(plan)
    }

    fn take_regions(&mut self, count: usize) -> usize {
        self.regions += count;
        self.regions - count
    }

    fn take_counter(&mut self) -> usize {
        self.counters += 1;
        self.counters - 1
    }

    fn node(&mut self, node: &Node) -> Result<PlanNode> {
        let nulls = node.field.is_nullable().then(|| self.take_counter());
        let region = self.take_regions(node.layout.roles().count() + usize::from(node.layout.variadic));
        let kind = self.kind(node)?;
        let children = node.children.iter().map(|child| self.node(child)).collect::<Result<_>>()?;
        Ok(PlanNode { field: node.field.clone(), kind, nulls, region, children })
    }

    fn kind(&mut self, node: &Node) -> Result<Storage> {
        use DataType::*;
        Ok(match node.data_type() {
            Boolean => Storage::Bits,
            Utf8 | Binary => Storage::Bytes { width: 4, counter: self.take_counter() },
            LargeUtf8 | LargeBinary => Storage::Bytes { width: 8, counter: self.take_counter() },
            Utf8View | BinaryView => Storage::Views { counter: self.take_counter() },
            List(_) => Storage::List { width: 4, counter: self.take_counter() },
            LargeList(_) => Storage::List { width: 8, counter: self.take_counter() },
            FixedSizeList(_, size) => Storage::FixedList { size: fixed_size(*size)? as u64 },
            Struct(_) => Storage::Struct,
            Dictionary(key, values) if **key == Int32 && matches!(**values, Utf8) => {
                let id = node.dictionary.as_ref().map(|(id, _)| *id);
                let id = id.ok_or_else(|| Error::internal("a field with a dictionary that has no number"))?;
                let value_type = values.as_ref().clone();
                self.dictionaries.push(PlanDictionary { id, value_type, region: 0, entries: 0, bytes: 0 });
                Storage::Keys { number: self.dictionaries.len() - 1 }
            }
            _ => match node.layout.value_roles().next() {
                Some(Role::Values { width, .. }) if node.dictionary.is_none() && node.layout.has_validity() => {
                    Storage::Fixed { width }
                }
                _ => return Err(unsupported(node)),
            },
        })
    }

    /// Returns the limit of each counter: that of `guess`, or what offsets can address if that is less.
    pub fn limits(&self, guess: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut limits: Vec<u64> = (0..self.counters).map(&guess).collect();
        let cut = |node: &PlanNode| match node.kind {
            Storage::Bytes { width: 4, counter } | Storage::Views { counter } | Storage::List { width: 4, counter } => {
                Some(counter)
            }
            _ => None,
        };
        let mut visit = |node: &PlanNode| {
            if let Some(counter) = cut(node) {
                limits[counter] = limits[counter].min(MOST_TEXT);
            }
        };
        self.columns.iter().for_each(|column| column.each(&mut visit));
        for dictionary in &self.dictionaries {
            limits[dictionary.entries] = limits[dictionary.entries].min(MOST_TEXT);
            limits[dictionary.bytes] = limits[dictionary.bytes].min(MOST_TEXT);
        }
        limits[self.names.bytes] = MOST_NAMES;
        limits
    }

    /// Lays out all buffers from byte `start` on, text last, for the given limits. Returns the regions and their end;
    /// `None` past 2⁶².
    pub fn place(&self, start: u64, limits: &[u64]) -> Option<(Vec<Region>, u64)> {
        let mut sizes = vec![(0u64, false); self.regions];
        for column in &self.columns {
            column.sizes(limits[0], limits, &mut sizes)?;
        }
        for dictionary in &self.dictionaries {
            sizes[dictionary.region + 1] = (limits[dictionary.entries].checked_add(1)?.checked_mul(4)?, false);
            sizes[dictionary.region + 2] = (limits[dictionary.bytes], true);
        }
        sizes[self.names.region] = (limits[self.names.bytes], false);
        let mut regions = vec![Region::default(); self.regions];
        let mut next = start;
        // Dictionaries come first: copying the body of one copies everything before it as well. Text comes last, since
        // it has the most room to spare.
        let columns = self.dictionaries.first().map_or(self.names.region, |dictionary| dictionary.region);
        let sizes = &sizes;
        let part = |is_text: bool| (0..columns).filter(move |&region| sizes[region].1 == is_text);
        for region in (columns..self.regions).chain(part(false)).chain(part(true)) {
            let size = sizes[region].0;
            if size > 0 {
                regions[region] = Region { offset: next, capacity: size };
                next = next.checked_add(size)?.checked_next_multiple_of(ALIGNMENT)?;
            }
        }
        (next < 1 << 62).then_some((regions, next))
    }
}

/// How far a buffer is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub region: usize,
    pub bytes: u64,
    /// For bitmaps, the number of bits in use; the other bits of the last byte are undefined.
    pub bits: Option<u64>,
}

impl Plan {
    /// Returns how far each buffer is filled for these counters, which are within limits that have a
    /// [`place`](Plan::place).
    pub fn extents(&self, counters: &[u64]) -> Result<Vec<Extent>> {
        debug_assert_eq!(counters.len(), self.counters, "a counter for each of the plan's");
        let mut found = Vec::with_capacity(self.regions);
        for column in &self.columns {
            let within = column.extents(counters[0], counters, &mut found);
            within.ok_or_else(|| Error::internal(format_args!("{counters:?} rows and bytes can't be addressed")))?;
        }
        for dictionary in &self.dictionaries {
            let entries = counters[dictionary.entries];
            let bytes = counters[dictionary.bytes];
            found.push(Extent { region: dictionary.region + 1, bytes: 4 * (entries + 1), bits: None });
            found.push(Extent { region: dictionary.region + 2, bytes, bits: None });
        }
        found.push(Extent { region: self.names.region, bytes: counters[self.names.bytes], bits: None });
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
        if let Some(number) = counters.iter().zip(limits).position(|(count, limit)| count > limit) {
            let count = counters[number];
            let limit = limits[number];
            return Err(format!("counter {number}: expected {limit} at most, got {count}"));
        }
        self.columns.iter().try_for_each(|column| column.check_counters(counters[0], counters))?;
        let wrong = self.dictionaries.iter().find(|entry| counters[entry.entries] == 0 && counters[entry.bytes] > 0);
        match wrong {
            Some(entry) => Err(format!("counter {}: a dictionary without entries has no text", entry.bytes)),
            None => Ok(()),
        }
    }
}

fn unsupported(node: &Node) -> Error {
    let name = field_type_name(&node.field);
    Error::unsupported(format!(
        "{name} can't grow in a table; what can: fixed-width types, bool, text and binary (views too), \
         dictionary<int32, utf8>, lists, fixed-size lists and structs"
    ))
}

impl PlanNode {
    /// Calls `visit` with this node and all nodes below, depth first.
    pub fn each(&self, visit: &mut impl FnMut(&PlanNode)) {
        visit(self);
        self.children.iter().for_each(|child| child.each(visit));
    }

    /// Returns the number of rows of the children of a node of `rows` rows.
    pub fn child_rows(&self, rows: u64, counters: &[u64]) -> Option<u64> {
        match self.kind {
            Storage::List { counter, .. } => counters.get(counter).copied(),
            Storage::FixedList { size } => rows.checked_mul(size),
            _ => Some(rows),
        }
    }

    /// Returns the length in bytes of each of the node's own buffers for `rows` rows, as the format defines it.
    pub fn lengths(&self, rows: u64, counters: &[u64]) -> Option<[u64; 3]> {
        let validity = if self.nulls.is_some() { rows.div_ceil(8) } else { 0 };
        let offsets = |width: usize| rows.checked_add(1)?.checked_mul(width as u64);
        Some(match self.kind {
            Storage::Fixed { width } => [validity, rows.checked_mul(width as u64)?, 0],
            Storage::Keys { .. } => [validity, rows.checked_mul(4)?, 0],
            Storage::Bits => [validity, rows.div_ceil(8), 0],
            Storage::Bytes { width, counter } => [validity, offsets(width)?, *counters.get(counter)?],
            Storage::Views { counter } => [validity, rows.checked_mul(16)?, *counters.get(counter)?],
            Storage::List { width, .. } => [validity, offsets(width)?, 0],
            Storage::FixedList { .. } | Storage::Struct => [validity, 0, 0],
        })
    }

    /// Returns the number of the node's own buffers.
    pub fn buffers(&self) -> usize {
        match self.kind {
            Storage::Bytes { .. } | Storage::Views { .. } => 3,
            Storage::FixedList { .. } | Storage::Struct => 1,
            _ => 2,
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
            Storage::Bytes { counter, .. } | Storage::Views { counter } | Storage::List { counter, .. } => {
                Some(counter)
            }
            _ => None,
        };
        if let Some(counter) = inside.filter(|&counter| rows == 0 && counters[counter] > 0) {
            return Err(format!("counter {counter}: no rows of '{name}' have {} items or bytes", counters[counter]));
        }
        let rows = self.child_rows(rows, counters).ok_or_else(|| format!("too many items of '{name}'"))?;
        self.children.iter().try_for_each(|child| child.check_counters(rows, counters))
    }

    fn extents(&self, rows: u64, counters: &[u64], found: &mut Vec<Extent>) -> Option<()> {
        let lengths = self.lengths(rows, counters)?;
        for (number, &bytes) in lengths.iter().enumerate().take(self.buffers()) {
            let is_bitmap = number == 0 || self.kind == Storage::Bits;
            let bits = is_bitmap.then_some(if bytes == 0 { 0 } else { rows });
            found.push(Extent { region: self.region + number, bytes, bits });
        }
        let rows = self.child_rows(rows, counters)?;
        self.children.iter().try_for_each(|child| child.extents(rows, counters, found))
    }

    /// Sets the size of each buffer of a segment with these limits, and whether it is text.
    fn sizes(&self, rows: u64, limits: &[u64], sizes: &mut [(u64, bool)]) -> Option<()> {
        let lengths = self.lengths(rows, limits)?;
        for (number, &length) in lengths.iter().enumerate().take(self.buffers()) {
            *sizes.get_mut(self.region + number)? = (length, number == 2);
        }
        let rows = self.child_rows(rows, limits)?;
        self.children.iter().try_for_each(|child| child.sizes(rows, limits, sizes))
    }
}
