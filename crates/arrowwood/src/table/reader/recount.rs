//! Recomputes the counters of a record from the values themselves.

use super::segment::Segment;
use crate::ipc::count_zero_bits;
use crate::rows::{PlanNode, ROWS, Storage, member_numbers};
use crate::types::{MAX_INLINE, VIEW_WIDTH};

/// The offset of a byte in the file, and the problem there.
pub(in crate::table) type Damage = (u64, String);

/// Recomputes the counters from the values, and returns the differences.
pub(in crate::table) fn recount(segment: &Segment, counters: &[u64]) -> Vec<Damage> {
    let mut damages = Vec::new();
    for column in &segment.plan.columns {
        count_nulls(segment, column, counters[ROWS], counters, &mut damages);
        count_items(segment, column, counters[ROWS], counters, &mut damages);
    }
    for dictionary in &segment.plan.dictionaries {
        count_items(segment, &dictionary.values, counters[dictionary.entries], counters, &mut damages);
    }
    damages
}

/// Compares the nulls in the validity bitmap of each node with its counter.
pub(in crate::table) fn count_nulls(
    segment: &Segment,
    node: &PlanNode,
    rows: u64,
    counters: &[u64],
    damages: &mut Vec<Damage>,
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
            damages.push((at, format!("column '{name}': the validity bitmap has {got}, expected {expected}")));
        }
    }
    let counted = node.each_child(rows, counters, |child, rows| {
        count_nulls(segment, child, rows, counters, damages);
        Some(())
    });
    if counted.is_none() {
        damages.push(too_many(segment, node));
    }
}

/// Compares the last offsets, list views, type ids and views of each node with its counters of items and bytes.
fn count_items(segment: &Segment, node: &PlanNode, rows: u64, counters: &[u64], damages: &mut Vec<Damage>) {
    let name = node.field.name();
    if let Storage::Bytes { width, counter } | Storage::List { width, counter } = node.kind
        && let Some((at, got)) = offset_at(segment, node.values_region(), width, rows)
        && got != counters[counter]
    {
        damages.push((at, format!("column '{name}': the last offset is {got}, expected {}", counters[counter])));
    }
    if let Storage::ListViews { width, counter } = node.kind {
        let end = end_of_list_views(segment, node.region, width, rows);
        if end != Some(counters[counter]) {
            let at = segment.header.regions[node.values_region()].offset;
            damages
                .push((at, format!("column '{name}': the last list ends at {end:?}, expected {}", counters[counter])));
        }
    }

    if let Storage::DenseUnion { first } = node.kind {
        let got = members_of(segment, node, rows);
        let expected = &counters[first..first + node.children.len()];
        if got.as_deref() != Some(expected) {
            let at = segment.header.regions[node.region].offset;
            damages.push((at, format!("column '{name}': members have {got:?} rows, expected {expected:?}")));
        }
    }

    if let Storage::Views { counter } = node.kind {
        let at = segment.header.regions[node.values_region()].offset;
        match end_of_views(segment, node.values_region(), rows) {
            Some(end) if end <= counters[counter] => (),
            Some(end) => damages.push((
                at,
                format!("column '{name}': the text of views ends at byte {end}, expected {}", counters[counter]),
            )),
            None => damages.push((at, format!("column '{name}': there are fewer than {rows} views"))),
        }
    }

    // Counts beyond the values were reported with the nulls.
    let _ = node.each_child(rows, counters, |child, rows| {
        count_items(segment, child, rows, counters, damages);
        Some(())
    });
}

/// Reads number `number` of a region of offsets of `width` bytes. Returns the place of the number in the file, and its
/// value; `None` if the region has fewer numbers.
pub(in crate::table) fn offset_at(segment: &Segment, region: usize, width: usize, number: u64) -> Option<(u64, u64)> {
    let from = number.checked_mul(width as u64)?;
    let raw = segment.region_slice(region, from, from.checked_add(width as u64)?)?;
    let mut wide = [0; size_of::<u64>()];
    wide[..width].copy_from_slice(&raw);
    Some((segment.header.regions.get(region)?.offset + from, u64::from_le_bytes(wide)))
}

/// Returns the item at which the first `rows` list views end, which are in the order of their items; `None` if the
/// regions have fewer views. `region` is the region of the validity bitmap.
pub(in crate::table) fn end_of_list_views(segment: &Segment, region: usize, width: usize, rows: u64) -> Option<u64> {
    let Some(last) = rows.checked_sub(1) else { return Some(0) };
    let (_, offset) = offset_at(segment, region + 1, width, last)?;
    let (_, size) = offset_at(segment, region + 2, width, last)?;
    offset.checked_add(size)
}

/// Counts the rows of each member of a union among its first `rows` rows; `None` if a type id belongs to no member.
pub(in crate::table) fn members_of(segment: &Segment, node: &PlanNode, rows: u64) -> Option<Vec<u64>> {
    let numbers = member_numbers(node.field.data_type());
    let mut counts = vec![0; node.children.len()];
    for &id in segment.region_slice(node.region, 0, rows)?.as_slice() {
        *counts.get_mut(*numbers.get(usize::from(id))?)? += 1;
    }
    Some(counts)
}

/// Returns the end of the text to which the first `rows` views refer; `None` if the region has fewer views.
fn end_of_views(segment: &Segment, region: usize, rows: u64) -> Option<u64> {
    let views = segment.region_slice(region, 0, rows.checked_mul(VIEW_WIDTH as u64)?)?;
    let (views, _) = views.as_chunks::<VIEW_WIDTH>();
    let mut end = 0;
    for view in views {
        let (words, _) = view.as_chunks();
        let &[len, _first_bytes, _buffer, offset] = words else { return None };
        let len = u64::from(u32::from_le_bytes(len));
        if len > MAX_INLINE as u64 {
            end = end.max(u64::from(u32::from_le_bytes(offset)) + len);
        }
    }
    Some(end)
}

/// Returns the damage of a node whose children have too many rows.
fn too_many(segment: &Segment, node: &PlanNode) -> Damage {
    let at = segment.header.regions[node.region].offset;
    (at, format!("column '{}': more items than can be counted", node.field.name()))
}
