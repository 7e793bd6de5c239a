//! What the counters of a record count, counted again in the values themselves.

use super::segment::Segment;
use crate::ipc::zeros;
use crate::rows::{PlanNode, Storage};

/// A byte of the file, and what is wrong there.
pub(in crate::table) type Wrong = (u64, String);

/// Counts what the counters count in the values themselves: where they say something else.
pub(in crate::table) fn recount(segment: &Segment, counters: &[u64]) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    for column in &segment.plan.columns {
        count_nulls(segment, column, counters[0], counters, &mut wrong);
        count_items(segment, column, counters[0], counters, &mut wrong);
    }
    for dictionary in &segment.plan.dictionaries {
        let entries = counters[dictionary.entries];
        let bytes = counters[dictionary.bytes];
        if let Some((at, got)) = offset_at(segment, dictionary.region + 1, 4, entries).filter(|&(_, got)| got != bytes)
        {
            wrong.push((
                at,
                format!("a dictionary of {entries} entries ends at byte {got} of its text, expected {bytes}"),
            ));
        }
    }
    wrong
}

pub(in crate::table) fn count_nulls(
    segment: &Segment,
    node: &PlanNode,
    rows: u64,
    counters: &[u64],
    wrong: &mut Vec<Wrong>,
) {
    if let Some(counter) = node.nulls {
        let name = node.field.name();
        let expected = counters[counter];
        let at = segment.header.regions[node.region].offset;
        let got = segment.part(node.region, 0, rows.div_ceil(8)).map(|bits| zeros(&bits, rows as usize) as u64);
        if got != Some(expected) {
            let got = got.map_or("no bitmap".into(), |got| format!("{got} nulls"));
            wrong.push((at, format!("column '{name}': the validity bitmap has {got}, expected {expected}")));
        }
    }
    let Some(rows) = node.child_rows(rows, counters) else { return wrong.push(too_many(segment, node)) };
    node.children.iter().for_each(|child| count_nulls(segment, child, rows, counters, wrong));
}

fn count_items(segment: &Segment, node: &PlanNode, rows: u64, counters: &[u64], wrong: &mut Vec<Wrong>) {
    let name = node.field.name();
    if let Storage::Bytes { width, counter } | Storage::List { width, counter } = node.kind
        && let Some((at, got)) = offset_at(segment, node.region + 1, width, rows)
        && got != counters[counter]
    {
        wrong.push((at, format!("column '{name}': the last offset is {got}, expected {}", counters[counter])));
    }
    if let Storage::Views { counter } = node.kind {
        let end = end_of_views(segment, node.region + 1, rows);
        if end > counters[counter] {
            let at = segment.header.regions[node.region + 1].offset;
            wrong.push((
                at,
                format!("column '{name}': the text of views ends at byte {end}, expected {}", counters[counter]),
            ));
        }
    }
    // More than can be counted was found with the nulls.
    let Some(rows) = node.child_rows(rows, counters) else { return };
    node.children.iter().for_each(|child| count_items(segment, child, rows, counters, wrong));
}

/// Where offset number `number` of a region stands, and what it is.
pub(in crate::table) fn offset_at(segment: &Segment, region: usize, width: usize, number: u64) -> Option<(u64, u64)> {
    let from = number.checked_mul(width as u64)?;
    let raw = segment.part(region, from, from.checked_add(width as u64)?)?;
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(&raw);
    Some((segment.header.regions.get(region)?.offset + from, u64::from_le_bytes(wide)))
}

/// Where the text of the first `rows` views ends.
fn end_of_views(segment: &Segment, region: usize, rows: u64) -> u64 {
    let views = rows.checked_mul(16).and_then(|len| segment.part(region, 0, len));
    let word =
        |view: &[u8; 16], at: usize| view[at..].first_chunk().map_or(0, |raw| u64::from(u32::from_le_bytes(*raw)));
    let ends = |view: &[u8; 16]| if word(view, 0) > 12 { word(view, 12) + word(view, 0) } else { 0 };
    views.map_or(0, |views| views.as_chunks().0.iter().map(ends).max().unwrap_or(0))
}

fn too_many(segment: &Segment, node: &PlanNode) -> Wrong {
    let at = segment.header.regions[node.region].offset;
    (at, format!("column '{}': more items than can be counted", node.field.name()))
}
