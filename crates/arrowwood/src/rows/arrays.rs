//! Makes arrays over the buffers of a plan.

use arrow_buffer::Buffer;

use super::plan::{Plan, PlanDictionary, PlanNode, Storage};
use crate::array::{ArrayParts, UncheckedArray};
use crate::error::{Error, Result};

/// The validity bitmaps that an array has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bitmaps {
    /// All, whatever the counters of nulls say.
    All,
    /// Those of columns with nulls, according to the counters.
    WithNulls,
}

/// Makes an array of the first `rows` rows of a node, whose buffers are filled up to `counters`. `part` returns the
/// first bytes of a region.
///
/// # Errors
/// `InvalidData` if a buffer would end past its region.
pub(crate) fn column(
    plan: &Plan,
    node: &PlanNode,
    rows: u64,
    counters: &[u64],
    part: &impl Fn(usize, u64) -> Option<Buffer>,
    bitmaps: Bitmaps,
) -> Result<UncheckedArray> {
    debug_assert_eq!(counters.len(), plan.counters, "a counter for each of the plan's");
    let lengths = node.lengths(rows, counters).ok_or_else(past_region)?;
    let mut buffers = Vec::with_capacity(lengths.len());
    for (number, &length) in lengths.iter().enumerate().take(node.buffers()) {
        buffers.push(part(node.region + number, length).ok_or_else(past_region)?);
    }
    let validity = if node.kind.has_validity() { buffers.remove(0) } else { Buffer::default() };
    let nulls = node.nulls.map(|counter| counters[counter] as usize);
    let validity = nulls.filter(|&nulls| nulls > 0 || bitmaps == Bitmaps::All).map(|nulls| (validity, nulls));
    let children = match node.kind {
        Storage::Keys { number, .. } => vec![dictionary(plan, &plan.dictionaries[number], counters, part)?],
        _ => {
            let mut children = Vec::with_capacity(node.children.len());
            for (number, child) in node.children.iter().enumerate() {
                let rows = node.child_rows(number, rows, counters).ok_or_else(past_region)?;
                children.push(column(plan, child, rows, counters, part, bitmaps)?);
            }
            children
        }
    };
    let data_type = node.field.data_type().clone();
    Ok(ArrayParts { data_type, len: rows as usize, validity, buffers, children }.assemble())
}

fn past_region() -> Error {
    Error::invalid("a buffer ends past its region")
}

/// Makes an array of the values of a dictionary.
pub(crate) fn dictionary(
    plan: &Plan,
    dictionary: &PlanDictionary,
    counters: &[u64],
    part: &impl Fn(usize, u64) -> Option<Buffer>,
) -> Result<UncheckedArray> {
    let values = column(plan, &dictionary.values, counters[dictionary.entries], counters, part, Bitmaps::WithNulls);
    values.map_err(|e| e.context("a dictionary"))
}
