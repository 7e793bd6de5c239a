//! Tables whose headers and commit records say something else, under checksums that are right, are refused or show the
//! rows that were written: opened, refreshed, followed, checked, written to, repaired and compacted.
//!
//! The input says what to forge: a byte for the table, the boot and how much is asked, then up to four fields, each by a
//! number of two bytes and a value: one of those that are worth trying, or eight bytes of any.
#![no_main]

#[path = "../../tests/support/forger.rs"]
mod forged;
#[path = "../../tests/support/tables.rs"]
mod tables;
#[path = "../../tests/support/wait.rs"]
mod wait;

use std::sync::OnceLock;

use arrowwood::simulate::simulate_boot;
use forged::{BOOTS, Bench, Edit, Template};

const MOST_EDITS: usize = 4;

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(front)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn edit<'a>(template: &'a Template, bytes: &mut &[u8]) -> Option<Edit<'a>> {
    let site = &template.fields[number(take(bytes, 2)?) as usize % template.fields.len()];
    let values = site.values();
    let value = match number(take(bytes, 1)?) as usize {
        any if any >= 0xf0 => number(take(bytes, 8)?),
        chosen => values[chosen % values.len()],
    };
    Some((site, value))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static TEMPLATES: OnceLock<Vec<Template>> = OnceLock::new();
    static BENCH: OnceLock<Bench> = OnceLock::new();
    let templates = TEMPLATES.get_or_init(Template::all);
    let mut rest = bytes;
    let Some(how) = take(&mut rest, 1).map(|how| how[0] as usize) else { return };
    let template = &templates[how % templates.len()];
    let boot = (how / 8) % BOOTS.len();
    let edits: Vec<Edit<'_>> = std::iter::from_fn(|| edit(template, &mut rest)).take(MOST_EDITS).collect();
    simulate_boot(Some(BOOTS[boot]));
    if let Err(why) = BENCH.get_or_init(Bench::default).check_edits(template, &edits, boot, how >= 0x80) {
        let edits: Vec<_> =
            edits.iter().map(|(site, value)| format!("file {}, {} = {value}", site.file, site.name)).collect();
        panic!("{}, boot {boot}: {}: {why}", template.name, edits.join("; "));
    }
});
