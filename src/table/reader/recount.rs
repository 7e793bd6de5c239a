//! Recomputes the counters of a record from the values themselves.

use super::segment::Segment;
use crate::ipc::count_zero_bits;
use crate::rows::{PlanNode, Storage, member_numbers};

/// The offset of a byte in the file, and the problem there.
pub(in crate::table) type Damage = (u64, String);

/// Recomputes the counters from the values, and returns the differences.
pub(in crate::table) fn recount(segment: &Segment, counters: &[u64]) -> Vec<Damage> {
    let mut wrong = Vec::new();
    for column in &segment.plan.columns {
        count_nulls(segment, column, counters[0], counters, &mut wrong);
        count_items(segment, column, counters[0], counters, &mut wrong);
    }
    for dictionary in &segment.plan.dictionaries {
        count_items(segment, &dictionary.values, counters[dictionary.entries], counters, &mut wrong);
    }
    wrong
}

pub(in crate::table) fn count_nulls(
    segment: &Segment,
    node: &PlanNode,
    rows: u64,
    counters: &[u64],
    wrong: &mut Vec<Damage>,
) {
    if let Some(counter) = node.nulls {
        let name = node.field.name();
        let expected = counters[counter];
        let at = segment.header.regions[node.region].offset;
        let got = segment
            .region_slice(node.region, 0, rows.div_ceil(8))
            .map(|bits| count_zero_bits(&bits, rows as usize) as u64);
        if got != Some(expected) {
            let got = got.map_or("no bitmap".into(), |got| format!("{got} nulls"));
            wrong.push((at, format!("column '{name}': the validity bitmap has {got}, expected {expected}")));
        }
    }
    let counted = node.each_child(rows, counters, |child, rows| {
        count_nulls(segment, child, rows, counters, wrong);
        Some(())
    });
    if counted.is_none() {
        wrong.push(too_many(segment, node));
    }
}

fn count_items(segment: &Segment, node: &PlanNode, rows: u64, counters: &[u64], wrong: &mut Vec<Damage>) {
    let name = node.field.name();
    if let Storage::Bytes { width, counter } | Storage::List { width, counter } = node.kind
        && let Some((at, got)) = offset_at(segment, node.region + 1, width, rows)
        && got != counters[counter]
    {
        wrong.push((at, format!("column '{name}': the last offset is {got}, expected {}", counters[counter])));
    }
    if let Storage::ListViews { width, counter } = node.kind {
        let end = end_of_list_views(segment, node.region, width, rows);
        if end != Some(counters[counter]) {
            let at = segment.header.regions[node.region + 1].offset;
            wrong.push((at, format!("column '{name}': the last list ends at {end:?}, expected {}", counters[counter])));
        }
    }
    if let Storage::DenseUnion { first } = node.kind {
        let got = members_of(segment, node, rows);
        let expected = &counters[first..first + node.children.len()];
        if got.as_deref() != Some(expected) {
            let at = segment.header.regions[node.region].offset;
            wrong.push((at, format!("column '{name}': members have {got:?} rows, expected {expected:?}")));
        }
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
    // Counts beyond the values were reported with the nulls.
    let _ = node.each_child(rows, counters, |child, rows| {
        count_items(segment, child, rows, counters, wrong);
        Some(())
    });
}

/// Returns the offset in the file of offset number `number` of a region, and its value.
pub(in crate::table) fn offset_at(segment: &Segment, region: usize, width: usize, number: u64) -> Option<(u64, u64)> {
    let from = number.checked_mul(width as u64)?;
    let raw = segment.region_slice(region, from, from.checked_add(width as u64)?)?;
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(&raw);
    Some((segment.header.regions.get(region)?.offset + from, u64::from_le_bytes(wide)))
}

/// Returns the item at which the first `rows` list views end, which are in the order of their items; `None` if there is none.
pub(in crate::table) fn end_of_list_views(segment: &Segment, region: usize, width: usize, rows: u64) -> Option<u64> {
    let Some(last) = rows.checked_sub(1) else { return Some(0) };
    let (_, offset) = offset_at(segment, region + 1, width, last)?;
    let (_, size) = offset_at(segment, region + 2, width, last)?;
    offset.checked_add(size)
}

/// Counts in how many of the first `rows` rows a union has each member; `None` if a type id belongs to no member.
pub(in crate::table) fn members_of(segment: &Segment, node: &PlanNode, rows: u64) -> Option<Vec<u64>> {
    let numbers = member_numbers(node.field.data_type());
    let mut counts = vec![0; node.children.len()];
    for &id in segment.region_slice(node.region, 0, rows)?.as_slice() {
        *counts.get_mut(*numbers.get(usize::from(id))?)? += 1;
    }
    Some(counts)
}

/// The longest text that is stored in its view.
const MAX_INLINE: u64 = 12;

/// Returns the end of the text of the first `rows` views; 0 if there are no such views.
fn end_of_views(segment: &Segment, region: usize, rows: u64) -> u64 {
    let Some(views) = rows.checked_mul(16).and_then(|len| segment.region_slice(region, 0, len)) else { return 0 };
    let (views, _) = views.as_chunks::<16>();
    let mut end = 0;
    for view in views {
        let (words, _) = view.as_chunks::<4>();
        // A view is the length, four bytes of the text, the number of its buffer and its offset there.
        let [len, _, _, offset] = [0, 1, 2, 3].map(|word| u64::from(u32::from_le_bytes(words[word])));
        if len > MAX_INLINE {
            end = end.max(offset + len);
        }
    }
    end
}

fn too_many(segment: &Segment, node: &PlanNode) -> Damage {
    let at = segment.header.regions[node.region].offset;
    (at, format!("column '{}': more items than can be counted", node.field.name()))
}
