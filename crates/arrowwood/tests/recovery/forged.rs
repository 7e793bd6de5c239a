//! Tests of tables whose headers and commit records are forged: wrong values under valid checksums.
//!
//! Each field of each header, record and live page is set to about fifty values (0, 1, odd and huge ones, off by one,
//! values of neighbouring fields), alone and in pairs. Then the table is opened, refreshed, followed, checked, written to,
//! repaired and compacted. Nothing may panic, show a wrong row, or lose rows silently; `tests/support/forger.rs` has the
//! details.
//!
//! By default, a sample of the cases runs. `ARROWWOOD_FORGED=all` runs each field with each value, in the boot in which the
//! table was written and in another one, and as many pairs (see `make torture`). `ARROWWOOD_FORGED=N` runs the sample that
//! begins with case N.
#![cfg(target_os = "linux")]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::Instant;

use arrowwood::simulate::simulate_boot;

use crate::dice::Dice;
use crate::forger::{BOOTS, Bench, Edit, Outcome, Site, Template};
use crate::wait::PATIENCE;

/// A sample has one of this many cases.
const SAMPLE_STEP: usize = 41;
/// One of this many cases of a sample is also written to, repaired and compacted.
const THOROUGH_STEP: usize = 5;
/// With the cases of one field, enough for a hundred thousand tables.
const PAIR_COUNT: usize = 12_000;
const MAX_SHOWN_FAILURES: usize = 40;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` without printing its panics; returns the message if it panics.
fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static INSTALL_HOOK: Once = Once::new();
    INSTALL_HOOK.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                default_hook(info)
            }
        }));
    });
    IS_QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(false);
    result.map_err(|payload| {
        let message = if let Some(message) = payload.downcast_ref::<String>() {
            message.as_str()
        } else {
            payload.downcast_ref::<&str>().copied().unwrap_or_default()
        };
        format!("PANIC: {message}")
    })
}

/// Selects every `step`th case, beginning with `first`.
#[derive(Clone, Copy)]
struct Sample {
    step: usize,
    first: usize,
}

impl Sample {
    fn from_env() -> Sample {
        match std::env::var("ARROWWOOD_FORGED") {
            Ok(value) if value == "all" => Sample { step: 1, first: 0 },
            Ok(value) => {
                let first: usize = value.parse().expect("ARROWWOOD_FORGED is a number or \"all\"");
                Sample { step: SAMPLE_STEP, first: first % SAMPLE_STEP }
            }
            Err(_) => Sample { step: SAMPLE_STEP, first: 0 },
        }
    }

    /// Returns true if `case` is also written to, repaired and compacted.
    fn is_thorough(self, case: usize) -> bool {
        self.step == 1 || (case / self.step).is_multiple_of(THOROUGH_STEP)
    }
}

/// The outcomes of a campaign, counted by all threads.
#[derive(Default)]
struct Counts {
    tried: AtomicUsize,
    open: AtomicUsize,
    good: AtomicUsize,
    thorough: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

fn describe_edits(edits: &[Edit<'_>]) -> String {
    let edits: Vec<_> =
        edits.iter().map(|(site, value)| format!("file {}, {} = {value}", site.file, site.name)).collect();
    edits.join("; ")
}

/// Forges and tests a sample of the cases `0..case_count`, on all processors.
fn run_cases<'a>(
    template: &'a Template,
    boot: usize,
    case_count: usize,
    edits_of_case: impl Fn(usize) -> Vec<Edit<'a>> + Sync,
    counts: &Counts,
) {
    let sample = Sample::from_env();
    let next_case = AtomicUsize::new(sample.first);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let bench = Bench::default();
                loop {
                    let case = next_case.fetch_add(sample.step, Ordering::Relaxed);
                    if case >= case_count {
                        break;
                    }
                    let edits = edits_of_case(case);
                    let is_thorough = sample.is_thorough(case);
                    counts.tried.fetch_add(1, Ordering::Relaxed);
                    counts.thorough.fetch_add(usize::from(is_thorough), Ordering::Relaxed);
                    match run_case(&bench, template, &edits, boot, is_thorough) {
                        Ok(outcome) => {
                            counts.open.fetch_add(usize::from(outcome.is_open), Ordering::Relaxed);
                            counts.good.fetch_add(usize::from(outcome.is_good), Ordering::Relaxed);
                        }
                        Err(failure) => {
                            let failure =
                                format!("{}, boot {boot}: {}: {failure}", template.name, describe_edits(&edits));
                            counts.failures.lock().unwrap().push(failure);
                        }
                    }
                }
            });
        }
    });
}

fn run_case(
    bench: &Bench,
    template: &Template,
    edits: &[Edit<'_>],
    boot: usize,
    is_thorough: bool,
) -> Result<Outcome, String> {
    let start = Instant::now();
    let outcome = catch_panic(|| bench.check_edits(template, edits, boot, is_thorough))??;
    // A forged length must not make anything run practically forever.
    if start.elapsed() >= PATIENCE {
        return Err(format!("took {:?}", start.elapsed()));
    }
    Ok(outcome)
}

/// Runs `work` in each boot, one after the other, as the simulated boot is a property of the process.
fn for_each_boot(work: impl Fn(usize)) {
    for (boot, id) in BOOTS.iter().enumerate() {
        simulate_boot(Some(*id));
        work(boot);
    }
    simulate_boot(None);
}

/// Runs `work` in each boot, prints the counts, and fails if any case failed.
fn run_campaign(name: &str, work: impl Fn(usize, &Counts)) {
    let counts = Counts::default();
    for_each_boot(|boot| work(boot, &counts));
    let [tried, open, good, thorough] =
        [&counts.tried, &counts.open, &counts.good, &counts.thorough].map(|count| count.load(Ordering::Relaxed));
    println!("{name}: {tried} tables, {thorough} of them written to, repaired and compacted; {open} open, {good} good");
    let failures = counts.failures.into_inner().unwrap();
    let shown = failures.iter().take(MAX_SHOWN_FAILURES).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {tried}:\n{shown}", failures.len());
    assert!(tried > 0 && open > 0 && open < tried, "{open} of {tried} open");
}

#[test]
fn unforged_table_is_good() {
    alone!();
    let templates = Template::all();
    for_each_boot(|boot| {
        let bench = Bench::default();
        for template in &templates {
            let outcome = bench.check_edits(template, &[], boot, true).unwrap();
            assert!(outcome.is_open && outcome.is_good, "{}: {outcome:?}", template.name);
        }
    });
}

#[test]
fn one_forged_field() {
    alone!();
    let templates = Template::all();
    run_campaign("one forged field", |boot, counts| {
        for template in &templates {
            let mut all_edits: Vec<Edit<'_>> = Vec::new();
            for site in &template.fields {
                all_edits.extend(site.values().into_iter().map(|value| (site, value)));
            }
            run_cases(template, boot, all_edits.len(), |case| vec![all_edits[case]], counts);
        }
    });
}

#[test]
fn two_forged_fields() {
    alone!();
    let templates = Template::all();
    run_campaign("two forged fields", |boot, counts| {
        for template in &templates {
            let edits_of_case = |case: usize| {
                let mut dice = Dice::new((case * BOOTS.len() + boot) as u64);
                let first = random_edit(template, None, &mut dice);
                let second = random_edit(template, Some(first.0), &mut dice);
                vec![first, second]
            };
            run_cases(template, boot, PAIR_COUNT, edits_of_case, counts);
        }
    });
}

/// Draws a field and a value. Half of the fields are from the area of `near`, where fields depend on each other.
fn random_edit<'a>(template: &'a Template, near: Option<&Site>, dice: &mut Dice) -> Edit<'a> {
    let sites: Vec<&Site> = match near {
        Some(near) if dice.below(2) == 0 => {
            template.fields.iter().filter(|site| site.area == near.area && site.file == near.file).collect()
        }
        _ => template.fields.iter().collect(),
    };
    let site = sites[dice.below(sites.len() as u64) as usize];
    let values = site.values();
    (site, values[dice.below(values.len() as u64) as usize])
}
