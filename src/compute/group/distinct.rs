//! The numbers of distinct values of groups: integers that lie close together are counted in sets, which are states of the groups,
//! others by groups of their own.

use arrow_array::{Array, Int64Array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};

use super::aggregate::{Aggregation, BLOCK, GroupPlan, MANY, ProgressCallback, block_rows, tell};
use super::bitsets::IntegerRange;
use super::output::AggregateFunction;
use super::state::{StateKind, is_stored_as_integer};
use crate::array::Value;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::types::is_ordered;

/// The most bits of all groups' sets for each row of a block: clearing and merging them takes less time than the rows.
const SET_BITS_A_ROW: usize = 64;
/// The most bytes of all sets.
const SETS: u64 = 1 << 28;

impl Aggregation<'_> {
    /// The number of distinct values of `column` in each group, of any type: groups of that column as well, and then groups of those.
    pub(super) fn distinct(&self, column: &str) -> Result<ArrayData> {
        let mut by = self.by.clone();
        if !by.iter().any(|name| name == column) {
            by.push(column.to_string());
        }
        let inner = Aggregation { by, outputs: Vec::new(), ..self.clone() };
        let pairs = inner.finish()?;
        let keys: Vec<usize> = (0..self.by.len()).collect();
        // Names that no key has.
        let names: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
        let counted = pairs.select_at(&keys)?.with_names(&names)?.aggregate(&names).count_rows("count").finish()?;
        let counts = counted.column_at(keys.len())?;
        let count = |value: Result<Value<'_>>| match value? {
            Value::Int(count) => Ok(count),
            other => Err(Error::internal(format!("a number of values is {other}"))),
        };
        let counts = counts.values().map(count).collect::<Result<Vec<i64>>>()?;
        Ok(Int64Array::from(counts).into_data())
    }
}

impl GroupPlan {
    /// The numbers of the outputs of which distinct values are asked.
    pub(super) fn asked_distinct(&self) -> Vec<usize> {
        (0..self.outputs.len()).filter(|&number| self.outputs[number].function == AggregateFunction::NUnique).collect()
    }

    /// Lets distinct integers be counted in sets, where these take little memory beside the rows. Returns the numbers of the outputs
    /// of which distinct values are still to be counted.
    pub(super) fn count_in_sets(
        &mut self,
        dataset: &Dataset,
        watch: Option<ProgressCallback<'_>>,
    ) -> Result<Vec<usize>> {
        let mut asked = self.asked_distinct();
        if asked.is_empty() {
            return Ok(asked);
        }
        let frame = self.frame(dataset)?.with_block_rows(BLOCK);
        let is_one = self.keys.is_empty() || frame.num_blocks() == 0;
        let groups = if is_one { 1 } else { self.first_groups(&frame)?.max(1) };
        if groups > MANY {
            return Ok(asked);
        }
        let most = SET_BITS_A_ROW * frame.num_rows().min(block_rows(groups) as u64) as usize / groups;
        let memory = self.memory.map_or(SETS, |memory| SETS.min(memory / 4)) as usize / asked.len();
        let mut found = Vec::new();
        for &number in &asked {
            let output = &self.outputs[number];
            let Some(column) = output.column.filter(|_| is_stored_as_integer(&output.of)) else { continue };
            let is_stored_as_shown = is_stored_as_shown(dataset.schema().field(column));
            let tell = || tell(watch, &frame, 0, 0);
            let range = if is_stored_as_shown { IntegerRange::scan(dataset, column, most, tell)? } else { None };
            let range = range.map(|range| range.within(memory)).filter(|range| range.fits(groups));
            found.extend(range.map(|range| (number, StateKind::Distinct { range, column })));
        }
        for (number, kind) in found {
            asked.retain(|other| *other != number);
            let before = self.outputs[number].kind;
            if self.outputs.iter().filter(|output| output.kind == before).count() == 1 && !self.kinds.contains(&kind) {
                self.kinds[before] = kind;
            }
            self.outputs[number].kind = self.number_of(kind);
        }
        Ok(asked)
    }
}

/// Whether a column's values are the integers that it stores, in their order: a true boolean of one byte is any but 0, the
/// values of date64 are days of milliseconds, and ordered categories have an order of their own.
fn is_stored_as_shown(field: &Field) -> bool {
    let values = match field.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    field.extension_type_name() != Some("arrow.bool8") && *values != DataType::Date64 && !is_ordered(field)
}
