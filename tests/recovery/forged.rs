//! Tables whose headers and commit records were forged, with checksums that are right: never a panic, never a wrong row,
//! never fewer rows without a word. Every field of every header, record and live page is given some fifty values (0, 1,
//! odd, huge, one more and one less, those of its neighbours), alone and in pairs; then the table is opened, refreshed,
//! followed, checked, written to, repaired and compacted: `tests/support/forger.rs` says what may come of it.
//!
//! The short form takes some of them; with `ARROWWOOD_FORGED=all` it is each field with each value, in the boot in which
//! the table was written and in another one, and as many pairs: `make torture`. A number in its place is the first of a
//! short form.
#![cfg(target_os = "linux")]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::Instant;

use arrowwood::simulate::simulate_boot;

use crate::dice::Dice;
use crate::forger::{BOOTS, Bench, Edit, Site, Template};
use crate::wait::PATIENCE;

/// Of how many tables the short form takes one, and of how many of those all is asked.
const STEP: usize = 41;
const THOROUGH: usize = 5;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What `work` gives, or what it said when it panicked.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info)
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        format!("PANIC: {}", text.unwrap_or_default())
    })
}

/// Which tables are tried: one of how many, beginning with which.
fn form() -> (usize, usize) {
    match std::env::var("ARROWWOOD_FORGED") {
        Ok(all) if all == "all" => (1, 0),
        Ok(first) => (STEP, first.parse().expect("ARROWWOOD_FORGED is a number or \"all\"")),
        Err(_) => (STEP, 0),
    }
}

/// What came of a campaign.
#[derive(Default)]
struct Counts {
    tried: AtomicUsize,
    open: AtomicUsize,
    good: AtomicUsize,
    thorough: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

fn say(edits: &[Edit<'_>]) -> String {
    edits
        .iter()
        .map(|(site, value)| format!("file {}, {} = {value}", site.file, site.name))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Tries `cases`, which are numbers of tables, on all processors. `edits` makes the edits of one.
fn campaign<'a>(
    template: &'a Template,
    boot: usize,
    cases: usize,
    edits: impl Fn(usize) -> Vec<Edit<'a>> + Sync,
    counts: &Counts,
) {
    let (step, first) = form();
    let next = AtomicUsize::new(first % step);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let bench = Bench::default();
                loop {
                    let case = next.fetch_add(step, Ordering::Relaxed);
                    if case >= cases {
                        break;
                    }
                    let edits = edits(case);
                    let is_thorough = (case / step).is_multiple_of(if step == 1 { 1 } else { THOROUGH });
                    let start = Instant::now();
                    let asked =
                        caught(|| bench.check_edits(template, &edits, boot, is_thorough)).and_then(|asked| asked);
                    counts.tried.fetch_add(1, Ordering::Relaxed);
                    counts.thorough.fetch_add(usize::from(is_thorough), Ordering::Relaxed);
                    let failed = match asked {
                        // What takes longer will never be done.
                        Ok(outcome) if start.elapsed() < PATIENCE => {
                            counts.open.fetch_add(usize::from(outcome.is_open), Ordering::Relaxed);
                            counts.good.fetch_add(usize::from(outcome.is_good), Ordering::Relaxed);
                            continue;
                        }
                        Ok(_) => format!("took {:?}", start.elapsed()),
                        Err(why) => why,
                    };
                    let mut failures = counts.failures.lock().unwrap();
                    failures.push(format!("{}, boot {boot}: {}: {failed}", template.name, say(&edits)));
                }
            });
        }
    });
}

/// Does `work` in each boot, one after the other: the boot is that of the whole process.
fn in_each_boot(work: impl Fn(usize)) {
    for (boot, id) in BOOTS.iter().enumerate() {
        simulate_boot(Some(*id));
        work(boot);
    }
    simulate_boot(None);
}

/// Does `work` in each boot, and says what came of it.
fn campaigns(name: &str, work: impl Fn(usize, &Counts)) {
    let counts = Counts::default();
    in_each_boot(|boot| work(boot, &counts));
    let [tried, open, good, thorough] =
        [&counts.tried, &counts.open, &counts.good, &counts.thorough].map(|count| count.load(Ordering::Relaxed));
    println!("{name}: {tried} tables, {thorough} of them written to, repaired and compacted; {open} open, {good} good");
    let failures = counts.failures.into_inner().unwrap();
    let shown = failures.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {tried}:\n{shown}", failures.len());
    assert!(tried > 0 && open > 0 && open < tried, "{open} of {tried} open");
}

#[test]
fn a_table_that_nobody_forged_is_good() {
    alone!();
    let templates = Template::all();
    in_each_boot(|boot| {
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
    campaigns("one forged field", |boot, counts| {
        for template in &templates {
            let all: Vec<Edit<'_>> = template
                .fields
                .iter()
                .flat_map(|site: &Site| site.values().into_iter().map(move |v| (site, v)))
                .collect();
            campaign(template, boot, all.len(), |case| vec![all[case]], counts);
        }
    });
}

#[test]
fn two_forged_fields() {
    alone!();
    let templates = Template::all();
    // Long enough for a hundred thousand with those of one field.
    const PAIRS: usize = 12_000;
    campaigns("two forged fields", |boot, counts| {
        for template in &templates {
            let edits = |case: usize| {
                let mut dice = Dice::new((case * BOOTS.len() + boot) as u64);
                let mut pick = |near: Option<&Site>| {
                    let sites: Vec<&Site> = match near {
                        // Half of them in the same place, which is where fields hang together.
                        Some(near) if dice.below(2) == 0 => {
                            template.fields.iter().filter(|s| s.area == near.area && s.file == near.file).collect()
                        }
                        _ => template.fields.iter().collect(),
                    };
                    let site = sites[dice.below(sites.len() as u64) as usize];
                    let values = site.values();
                    (site, values[dice.below(values.len() as u64) as usize])
                };
                let first = pick(None);
                let second = pick(Some(first.0));
                vec![first, second]
            };
            campaign(template, boot, PAIRS, edits, counts);
        }
    });
}
