//! Counts the distinct values of groups.
//!
//! Integers that lie close together are counted in sets, which are states of the groups. Other values are counted by
//! another aggregation, whose groups have the values among their keys. It takes memory only for existing values, but
//! more time: for 1,000 groups with 1,000 values, six times as much as sets.

use arrow_array::{Array, Int64Array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};

use super::aggregate::{Aggregation, ProgressCallback};
use super::plan::{BLOCK, GroupPlan, MANY_GROUPS, block_rows, report_progress};
use super::state::{AggregateFunction, IntegerRange, StateKind, is_stored_as_integer};
use crate::array::Value;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::types::is_ordered;

/// The maximum number of bits of all groups' sets for each row of a block: clearing and merging these takes less time
/// than the row.
const SET_BITS_PER_ROW: usize = 64;
/// The maximum number of bytes of all sets.
const MAX_SET_BYTES: u64 = 1 << 28;
/// The part of the memory limit that sets may take, as one of so many parts.
const MEMORY_PER_SETS: u64 = 4;

impl Aggregation<'_> {
    /// Counts the distinct values of `column` in each group, of any type: groups rows by that column as well, and
    /// counts the groups that have the same other keys.
    pub(super) fn distinct(&self, column: &str) -> Result<ArrayData> {
        let mut by = self.by.clone();
        if !by.iter().any(|name| name == column) {
            by.push(column.to_string());
        }
        let inner = Aggregation { by, outputs: Vec::new(), ..self.clone() };
        let pairs = inner.finish()?;
        let keys: Vec<usize> = (0..self.by.len()).collect();
        // Numbers as names cannot equal "count".
        let names: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
        let counted = pairs.select_at(&keys)?.with_names(&names)?.aggregate(&names).count_rows("count").finish()?;
        let mut counts = Vec::with_capacity(counted.len()? as usize);
        for value in counted.column_at(keys.len())?.values() {
            match value? {
                Value::Int(count) => counts.push(count),
                other => return Err(Error::internal(format!("a number of values is {other}"))),
            }
        }
        Ok(Int64Array::from(counts).into_data())
    }
}

impl GroupPlan {
    /// Returns the numbers of the outputs that are numbers of distinct values.
    pub(super) fn distinct_outputs(&self) -> Vec<usize> {
        (0..self.outputs.len()).filter(|&number| self.outputs[number].function == AggregateFunction::NUnique).collect()
    }

    /// Lets distinct integers be counted in sets, where these take little memory compared with the rows. Returns the
    /// numbers of the outputs whose distinct values are still to be counted.
    pub(super) fn count_in_sets(
        &mut self,
        dataset: &Dataset,
        watch: Option<ProgressCallback<'_>>,
    ) -> Result<Vec<usize>> {
        let mut uncounted = self.distinct_outputs();
        if uncounted.is_empty() {
            return Ok(uncounted);
        }

        let frame = self.frame(dataset)?.with_block_rows(BLOCK);
        let is_one_group = self.keys.is_empty() || frame.num_blocks() == 0;
        let groups = if is_one_group { 1 } else { self.count_first_groups(&frame)?.max(1) };
        if groups > MANY_GROUPS {
            return Ok(uncounted);
        }
        let max_bits = SET_BITS_PER_ROW * frame.num_rows().min(block_rows(groups) as u64) as usize / groups;
        let max_bytes =
            self.memory.map_or(MAX_SET_BYTES, |memory| MAX_SET_BYTES.min(memory / MEMORY_PER_SETS)) as usize;
        let max_bytes = max_bytes / uncounted.len();

        let mut sets = Vec::new();
        for &number in &uncounted {
            let output = &self.outputs[number];
            let Some(column) = output.column else { continue };
            if !is_stored_as_integer(&output.source_type) || !has_stored_values(dataset.schema().field(column)) {
                continue;
            }
            let range = IntegerRange::scan(dataset, column, max_bits, || report_progress(watch, &frame, 0, 0))?;
            let Some(range) = range.map(|range| range.with_max_bytes(max_bytes)) else { continue };
            if range.fits(groups) {
                sets.push((number, StateKind::Distinct { range, column }));
            }
        }

        for (number, kind) in sets {
            uncounted.retain(|other| *other != number);
            // Replaces the state that the output had, if no other output needs it.
            let previous = self.outputs[number].kind;
            let users = self.outputs.iter().filter(|output| output.kind == previous).count();
            if users == 1 && !self.kinds.contains(&kind) {
                self.kinds[previous] = kind;
            }
            self.outputs[number].kind = self.add_kind(kind);
        }
        Ok(uncounted)
    }
}

/// Returns true if a column's values are the integers that it stores, in their order. Exceptions are `arrow.bool8`,
/// where any byte but 0 is true, `Date64`, whose values are days although it stores milliseconds, and ordered
/// categories.
fn has_stored_values(field: &Field) -> bool {
    let values = match field.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    field.extension_type_name() != Some("arrow.bool8") && *values != DataType::Date64 && !is_ordered(field)
}
