//! Runs tests of this program once more without ids of mounts, as on systems that have none (Linux before 6.8).
//!
//! There, a reader can't tell whether the page cache is the writer's. Rows that were synced are there all the same, and
//! damage in them is found. What was never synced may be lost or damaged: then `check` names both causes.

use std::process::{Command, Stdio};

/// The environment variable that turns the ids off, and its value.
const VARIABLE: (&str, &str) = ("ARROWWOOD_MOUNT_IDS", "off");

/// Returns true if this process does without ids of mounts.
pub fn are_mount_ids_off() -> bool {
    std::env::var_os(VARIABLE.0).is_some_and(|value| value == VARIABLE.1)
}

/// The number of random runs of a writer. The campaign `page-cache-without-ids` has more.
const RUNS: &str = "1";

/// Runs the tests whose names contain one of `filters` in a process without ids of mounts.
fn run_without_mount_ids(filters: &[&str]) {
    if are_mount_ids_off() {
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(filters).args(["--nocapture", "--skip", "without_mount_ids"]);
    command.env(VARIABLE.0, VARIABLE.1).env("ARROWWOOD_POWER_RUNS", RUNS).stdin(Stdio::null());
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{filters:?}: {}\n{printed}", output.status);
    assert!(!printed.contains("running 0 tests"), "no test has such a name: {filters:?}");
}

#[test]
fn damage_is_found() {
    run_without_mount_ids(&[
        "corruption::check_finds_every_bit_flip",
        "corruption::closed_table",
        "corruption::interrupted_repair",
        "corruption::last_segment",
        "corruption::sealed_segment",
        "corruption::synced_table_of_numbers",
    ]);
}

#[test]
fn tables_are_repaired() {
    run_without_mount_ids(&["repair::"]);
}

#[test]
fn losses_of_the_page_cache_cost_no_durable_row() {
    run_without_mount_ids(&["power::a_lost_page_cache"]);
}
