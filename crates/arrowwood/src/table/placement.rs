//! Computes the layout of a segment. The writer chooses limits, slots and their sizes; every offset follows from these
//! and from the schema, so a reader checks a header by computing its offsets again.

use super::format::{Header, LINE, MOST_POSITIONS, PAGE, RECORDS, ROWS, record_len};
use crate::dataset::order::is_sortable;
use crate::error::Result;
use crate::rows::{ALIGNMENT, MOST_COUNTED, Plan, Region};
use crate::types::field_type_name;

/// The exclusive upper bound of row numbers.
pub(super) const MOST_ROWS: u64 = 1 << 62;
/// The possible numbers of slots. One slot is published and the others rest, so there are at least two.
const SLOTS: std::ops::RangeInclusive<u64> = 2..=1 << 16;
/// The maximum size in bytes of a slot, of a footer, and of the log.
const MOST_BYTES: u64 = 1 << 28;

/// Completes `chosen` with all offsets, for an encoded header of `len` bytes at byte `start` of the file. Returns
/// `None` if they are beyond the size of any file.
pub(super) fn place(chosen: &Header, start: usize, len: usize, plan: &Plan) -> Option<Header> {
    assert_eq!(chosen.limits.len(), plan.counters, "a segment has a limit for each counter");
    let live = (start as u64).checked_add(len as u64)?.checked_next_multiple_of(PAGE)?;
    let record = (record_len(plan.counters, MOST_POSITIONS) as u64).checked_next_multiple_of(PAGE)?;
    let ring = live.checked_add(PAGE)?.checked_add(record.checked_mul(RECORDS)?)?.checked_add(chosen.log)?;
    let slots = u64::from(chosen.slots);
    let first = ring.checked_add(chosen.slot.checked_mul(slots)?)?.checked_next_multiple_of(ALIGNMENT)?;
    let (regions, end) = plan.place(first, &chosen.limits)?;
    assert_eq!(regions.len(), plan.regions, "a segment has a region for each buffer");
    let tail = end.checked_add(chosen.footer.checked_mul(slots)?)?.checked_next_multiple_of(PAGE)?;
    Some(Header { live, record, ring, regions, tail, ..chosen.clone() })
}

/// Checks that a header of `len` bytes, at byte `start` of its file, is valid for a segment of this schema: each field
/// is possible, and every offset is the one that the format prescribes.
///
/// # Errors
/// `InvalidData` with the name of the first wrong field, the expected and the found value.
pub(super) fn check(header: &Header, start: usize, len: usize, plan: &Plan) -> Result<(), String> {
    check_lists(header, plan)?;
    check_choices(header)?;
    check_limits(header, plan)?;
    check_order(header, plan)?;
    let Some(expected) = place(header, start, len, plan) else {
        return Err(format!("a segment of {} rows with these limits has no room in a file", header.capacity));
    };
    check_offset("live", expected.live, header.live)?;
    check_offset("record", expected.record, header.record)?;
    check_offset("ring", expected.ring, header.ring)?;
    check_regions(&expected.regions, &header.regions)?;
    check_offset("tail", expected.tail, header.tail)
}

/// Checks that the offset `name` is the expected one.
fn check_offset(name: &str, expected: u64, got: u64) -> Result<(), String> {
    check_that(expected == got, name, expected, got)
}

/// Checks that field `name` is right.
fn check_that(is_right: bool, name: &str, expected: impl std::fmt::Display, got: u64) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(format!("`{name}`: expected {expected}, got {got}")) }
}

/// Checks the lengths of the header's lists.
fn check_lists(header: &Header, plan: &Plan) -> Result<(), String> {
    let lists = [("buffers", plan.regions, header.regions.len()), ("counters", plan.counters, header.limits.len())];
    let wrong = lists.into_iter().find(|(_, expected, got)| expected != got);
    match wrong {
        Some((name, expected, got)) => Err(format!("`{name}`: the schema has {expected}, got {got}")),
        None => Ok(()),
    }
}

/// Checks the sizes of the log, the ring and the footers.
fn check_choices(header: &Header) -> Result<(), String> {
    let slots = u64::from(header.slots);
    check_that(SLOTS.contains(&slots), "slots", format_args!("{} to {}", SLOTS.start(), SLOTS.end()), slots)?;
    for (name, bytes) in [("slot", header.slot), ("footer", header.footer)] {
        let is_right = bytes.is_multiple_of(LINE) && (LINE..=MOST_BYTES).contains(&bytes);
        check_that(is_right, name, format_args!("a multiple of {LINE} up to {MOST_BYTES}"), bytes)?;
    }
    let is_right = header.log.is_multiple_of(PAGE) && header.log <= MOST_BYTES;
    check_that(is_right, "log", format_args!("a multiple of {PAGE} up to {MOST_BYTES}"), header.log)?;
    // The schema must leave two footers: the published one, and the one that is written next.
    let shares_schema = u64::from(header.minor > 0);
    let max_shared = (slots - SLOTS.start()) * shares_schema;
    check_that(
        (shares_schema..=max_shared).contains(&header.shared),
        "shared",
        format_args!("1 to {max_shared}"),
        header.shared,
    )?;
    // The published footer is identified by its distance from the end, in 31 bits.
    let max_bytes = i32::MAX as u64 / slots;
    let expected = format_args!("{max_bytes} bytes at most for {slots} slots");
    check_that(header.footer <= max_bytes, "footer", expected, header.footer)
}

/// Checks the number of rows, and the limit of each counter.
fn check_limits(header: &Header, plan: &Plan) -> Result<(), String> {
    let Header { first_row, capacity, segment_rows, limits, .. } = header;
    check_that(*first_row < MOST_ROWS, "first_row", "less than 2^62", *first_row)?;
    check_that((1..MOST_COUNTED).contains(capacity), "capacity", "1 to 2^48 - 1 rows", *capacity)?;
    let allowed_rows = *capacity..MOST_COUNTED;
    let expected = format_args!("{capacity} to 2^48 - 1");
    check_that(allowed_rows.contains(segment_rows), "segment_rows", expected, *segment_rows)?;
    check_that(
        limits[ROWS] == *capacity,
        "the limit of rows",
        format_args!("{capacity}, as `capacity`"),
        limits[ROWS],
    )?;
    let allowed = plan.limits(|_| MOST_COUNTED - 1);
    assert_eq!(allowed.len(), limits.len(), "the lists' lengths were checked before");
    match limits.iter().zip(&allowed).position(|(limit, allowed)| limit > allowed) {
        Some(n) => Err(format!("the limit of counter {n}: expected {} at most, got {}", allowed[n], limits[n])),
        None => Ok(()),
    }
}

/// Checks the column that the rows are sorted by.
fn check_order(header: &Header, plan: &Plan) -> Result<(), String> {
    let Some(number) = header.sorted_by else {
        let is_right = !header.is_late;
        return check_that(is_right, "flags", "0 where the rows are in no order", header.is_late.into());
    };
    let Some(column) = plan.columns.get(number as usize) else {
        let columns = plan.columns.len();
        return Err(format!("`sorted_by`: expected the number of one of {columns} columns, got {number}"));
    };
    if is_sortable(column.field.data_type()) {
        return Ok(());
    }
    let name = column.field.name();
    let data_type = field_type_name(&column.field);
    Err(format!("`sorted_by`: expected a column whose values have an order, got '{name}' of type {data_type}"))
}

/// Checks the places of the buffers.
fn check_regions(expected: &[Region], got: &[Region]) -> Result<(), String> {
    assert_eq!(expected.len(), got.len(), "the lists' lengths were checked before");
    for (number, (expected, got)) in expected.iter().zip(got).enumerate() {
        if expected != got {
            return Err(format!(
                "buffer {number}: expected room for {} bytes at byte {}, got {} bytes at byte {}",
                expected.capacity, expected.offset, got.capacity, got.offset
            ));
        }
    }
    Ok(())
}
