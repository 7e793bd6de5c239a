//! Tests of damaged tables where nothing is written: each golden table is damaged at random places, and read. Nothing may
//! panic, and what is read without an error is consistent.
#![cfg(any(target_os = "linux", windows))]

use std::fs;
use std::path::Path;

use arrowwood::{check, open};

use crate::dice::Dice;
use crate::vectors::{golden_tables, unpack_to_temp};

/// The number of damaged tables made of each golden one.
const MUTANTS: u64 = 8;
/// The length of the first part of a file, where most places are: most of a segment has no bytes.
const FRONT_LEN: u64 = 64 << 10;

/// Damages one file: a bit, a byte, a run of zeros, or its length.
fn damage(table: &Path, dice: &mut Dice) {
    let mut paths: Vec<_> = fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let path = &paths[dice.below(paths.len() as u64) as usize];
    let mut bytes = fs::read(path).unwrap();
    let end = if dice.below(4) > 0 { FRONT_LEN.min(bytes.len() as u64) } else { bytes.len() as u64 };
    let place = dice.below(end.max(1)) as usize;
    match dice.below(4) {
        0 if place < bytes.len() => bytes[place] ^= 1 << dice.below(8),
        1 if place < bytes.len() => bytes[place] = dice.below(256) as u8,
        2 => bytes[place..].iter_mut().take(4096).for_each(|byte| *byte = 0),
        _ => bytes.truncate(place),
    }
    fs::write(path, bytes).unwrap();
}

/// Reads a table in every way. What is damaged is an error.
fn read(table: &Path) {
    let Ok(dataset) = open(table) else { return };
    if dataset.validate(|_, _| ()).is_ok() {
        for row in dataset.rows() {
            let row = row.unwrap();
            for column in 0..dataset.schema().fields().len() {
                row.get(column).unwrap();
            }
        }
    }
    if let Ok(newest) = dataset.refresh() {
        assert!(newest.len().unwrap() >= dataset.len().unwrap(), "rows were lost by a refresh");
    }
}

#[test]
fn damaged_golden_tables_are_read_or_refused() {
    let tables = golden_tables();
    assert!(!tables.is_empty());
    for (number, golden) in (0u64..).zip(&tables) {
        for mutant in 0..MUTANTS {
            let (_folder, table) = unpack_to_temp(golden);
            damage(&table, &mut Dice::new(number * MUTANTS + mutant + 1));
            read(&table);
            // Damage is a finding, or an error of a table that can't be opened.
            let _ = check(&table, |_, _| ());
        }
    }
}
