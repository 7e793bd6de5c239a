//! Fuzzes tables whose headers and commit records are forged: changed, with valid checksums.
//!
//! A forged table is either rejected or shows the rows that were written, whether it is opened, refreshed, followed,
//! checked, written to, repaired or compacted. `crates/arrowwood/tests/recovery/forged.rs` tries the same fields one by one.
//!
//! An input is
//! - a byte that selects the table, the boot in which it is read, and whether it is also written to, repaired and compacted;
//! - up to [`MAX_EDITS`] edits: the number of a field (two bytes, little-endian), and a byte that either selects one of the
//!   field's typical wrong values or announces that eight bytes with the value follow.
#![no_main]

#[path = "../../tests/support/forger.rs"]
mod forger;
#[path = "../../tests/support/tables.rs"]
mod tables;
#[path = "../../tests/support/wait.rs"]
mod wait;

use std::sync::OnceLock;

use arrowwood::simulate::simulate_boot;
use forger::{BOOTS, Bench, Edit, Template};

const MAX_EDITS: usize = 4;
/// Value selectors from here on announce a literal value.
const FIRST_LITERAL_SELECTOR: usize = 0xf0;
/// First bytes from here on ask for writing, repairing and compacting too.
const FIRST_THOROUGH_MODE: usize = 0x80;
/// The bits of the first byte below this value select the table, the ones above it the boot.
const BOOT_DIVISOR: usize = 8;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static TEMPLATES: OnceLock<Vec<Template>> = OnceLock::new();
    static BENCH: OnceLock<Bench> = OnceLock::new();
    let templates = TEMPLATES.get_or_init(Template::all);

    let mut input = bytes;
    let Some(mode) = take_number(&mut input, 1) else { return };
    let mode = mode as usize;
    let template = &templates[mode % templates.len()];
    let boot = (mode / BOOT_DIVISOR) % BOOTS.len();
    let is_thorough = mode >= FIRST_THOROUGH_MODE;
    let edits: Vec<Edit<'_>> = std::iter::from_fn(|| take_edit(template, &mut input)).take(MAX_EDITS).collect();

    simulate_boot(Some(BOOTS[boot]));
    if let Err(reason) = BENCH.get_or_init(Bench::default).check_edits(template, &edits, boot, is_thorough) {
        panic!("{}, boot {boot}: {}: {reason}", template.name, describe_edits(&edits));
    }
});

/// Takes the next edit from the front of `input`; returns `None` where it ends.
fn take_edit<'a>(template: &'a Template, input: &mut &[u8]) -> Option<Edit<'a>> {
    let field_index = take_number(input, 2)? as usize;
    let field = &template.fields[field_index % template.fields.len()];
    let selector = take_number(input, 1)? as usize;
    if selector >= FIRST_LITERAL_SELECTOR {
        return Some((field, take_number(input, 8)?));
    }
    let values = field.values();
    Some((field, values[selector % values.len()]))
}

/// Takes a little-endian number of `len` bytes from the front of `input`.
fn take_number(input: &mut &[u8], len: usize) -> Option<u64> {
    let (front, rest) = input.split_at_checked(len)?;
    *input = rest;
    let mut word = [0; 8];
    word[..len].copy_from_slice(front);
    Some(u64::from_le_bytes(word))
}

fn describe_edits(edits: &[Edit<'_>]) -> String {
    let edits: Vec<_> =
        edits.iter().map(|(field, value)| format!("file {}, {} = {value}", field.file, field.name)).collect();
    edits.join("; ")
}
