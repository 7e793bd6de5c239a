//! The buffers of a plan as arrays.

use arrow_buffer::Buffer;

use super::plan::{Plan, PlanDictionary, PlanNode, Storage};
use crate::array::{Parts, Unchecked};
use crate::error::{Error, Result};

/// Makes an array of the first `rows` rows of a node, whose buffers are filled up to `counters`. `part` returns the
/// first bytes of a region. Leaves out validity bitmaps without nulls, according to the counters, unless
/// `keeps_bitmaps`.
pub(crate) fn column(
    plan: &Plan,
    node: &PlanNode,
    rows: u64,
    counters: &[u64],
    part: &impl Fn(usize, u64) -> Option<Buffer>,
    keeps_bitmaps: bool,
) -> Result<Unchecked> {
    debug_assert_eq!(counters.len(), plan.counters, "a counter for each of the plan's");
    let past = || Error::invalid("a buffer ends past its region");
    let lengths = node.lengths(rows, counters).ok_or_else(past)?;
    let mut buffers = Vec::with_capacity(3);
    for (number, &length) in lengths.iter().enumerate().take(node.buffers()) {
        buffers.push(part(node.region + number, length).ok_or_else(past)?);
    }
    let validity = buffers.remove(0);
    let nulls = node.nulls.map(|counter| counters[counter] as usize);
    let validity = nulls.filter(|&nulls| nulls > 0 || keeps_bitmaps).map(|nulls| (validity, nulls));
    let children = match node.kind {
        Storage::Keys { number } => vec![dictionary(&plan.dictionaries[number], counters, part)?],
        _ => {
            let rows = node.child_rows(rows, counters).ok_or_else(past)?;
            let children = node.children.iter();
            children.map(|child| column(plan, child, rows, counters, part, keeps_bitmaps)).collect::<Result<_>>()?
        }
    };
    let data_type = node.field.data_type().clone();
    Ok(Parts { data_type, len: rows as usize, validity, buffers, children }.assemble())
}

/// Makes an array of the values of a dictionary.
pub(crate) fn dictionary(
    dictionary: &PlanDictionary,
    counters: &[u64],
    part: &impl Fn(usize, u64) -> Option<Buffer>,
) -> Result<Unchecked> {
    let entries = counters[dictionary.entries];
    let bytes = counters[dictionary.bytes];
    let parts = part(dictionary.region + 1, 4 * (entries + 1)).zip(part(dictionary.region + 2, bytes));
    let (offsets, text) = parts.ok_or_else(|| Error::invalid("a dictionary ends past its region"))?;
    let data_type = dictionary.value_type.clone();
    let buffers = vec![offsets, text];
    Ok(Parts { data_type, len: entries as usize, validity: None, buffers, children: Vec::new() }.assemble())
}
