//! Work shared between threads that live as long as one call.
//!
//! No pool: a pool's threads don't exist in a forked child (PyTorch's DataLoader forks), which would wait for them
//! forever. Starting a thread costs about 15 µs, so small work stays on the caller's thread.

use std::convert::Infallible;
use std::iter::Peekable;
use std::num::NonZero;
#[cfg(feature = "compute")]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use crate::blocking::CancelToken;
use crate::map::{MutexExt, adopt_fault, guard_on_thread, is_guarded};

/// The number of bytes of input that justify another thread, and that a thread claims at once.
const BYTES_PER_CLAIM: usize = 1 << 20;
/// The maximum number of items that a thread claims at once, however small they are.
const MAX_ITEMS_PER_CLAIM: usize = 64;

/// Runs `work(0) … work(jobs - 1)`, with results in order, on as many threads as `bytes` of input justify.
pub(crate) fn map<T: Send>(jobs: usize, bytes: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let weight = bytes / jobs.max(1);
    match try_map((0..jobs).map(Ok::<_, Infallible>), bytes, |_| weight, |job| Ok(work(job)), || ()) {
        Ok(results) => results,
        Err(never) => match never {},
    }
}

/// As [`map`], with a state that each thread makes once for all of its jobs, such as memory. Jobs are begun in order.
#[cfg(feature = "compute")]
pub(crate) fn map_with<S, T: Send>(
    jobs: usize,
    bytes: usize,
    make: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let by_thread = map((bytes / BYTES_PER_CLAIM).clamp(1, available_threads()).min(jobs), bytes, |_| {
        let mut state = make();
        let mut results = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return results;
            }
            results.push((job, work(&mut state, job)));
        }
    });
    let mut results: Vec<(usize, T)> = by_thread.into_iter().flatten().collect();
    results.sort_unstable_by_key(|&(job, _)| job);
    assert_eq!(results.len(), jobs, "a result for each job");
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs `work` on each item, with results in order, on as many threads as `bytes` of input justify; an item has about
/// `weight` bytes. Returns the first error in order; little work starts after it. `tick` is called periodically on the
/// caller's thread.
///
/// Items are made on demand: batches are found while others are decoded.
pub(crate) fn try_map<I: Send, T: Send, E: Send>(
    items: impl Iterator<Item = Result<I, E>> + Send,
    bytes: usize,
    weight: impl Fn(&I) -> usize + Sync,
    work: impl Fn(I) -> Result<T, E> + Sync,
    mut tick: impl FnMut(),
) -> Result<Vec<T>, E> {
    let threads = (bytes / BYTES_PER_CLAIM).clamp(1, available_threads());
    if threads == 1 {
        return items.map(|item| work(item?).inspect(|_| tick())).collect();
    }
    let queue = Queue::new(items);
    let mut first = queue.claim(&weight);
    let threads = if queue.is_empty() { 1 } else { threads };
    let done = Mutex::new(Vec::new());
    on_threads(
        threads - 1,
        &|| {
            let results = queue.work_off(None, &weight, &work, &mut || ());
            done.lock_ignoring_poison().extend(results);
        },
        &mut || {
            let results = queue.work_off(first.take(), &weight, &work, &mut tick);
            done.lock_ignoring_poison().extend(results);
        },
    );

    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(number, _)| number);
    debug_assert!(done.is_sorted_by(|(a, _), (b, _)| a < b), "each claim was completed once");
    let mut results = Vec::with_capacity(done.iter().map(|(_, done)| done.as_ref().map_or(0, Vec::len)).sum());
    for (_, done) in done {
        results.extend(done?);
    }
    Ok(results)
}

/// Runs `on_caller` on this thread, and `on_other` on up to `others` other threads, as far as the system has them.
/// Returns when all have ended.
///
/// Takes trait objects, so that it is compiled once and not for each of a hundred kinds of work.
fn on_threads(others: usize, on_other: &(dyn Fn() + Sync), on_caller: &mut dyn FnMut()) {
    // A guarded call is guarded on all of its threads.
    let is_guarded = is_guarded();
    let call = CancelToken::current();
    thread::scope(|scope| {
        let mut handles = Vec::with_capacity(others);
        for _ in 0..others {
            let handle = thread::Builder::new().spawn_scoped(scope, || {
                call.run(|| {
                    if is_guarded {
                        return guard_on_thread(on_other).1;
                    }
                    on_other();
                    None
                })
            });
            // Without another thread, the work is done by fewer.
            handles.extend(handle.ok());
        }
        call.run(on_caller);
        for other in handles {
            call.wait(|| other.is_finished());
            match other.join() {
                Ok(fault) => adopt_fault(fault),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
}

/// Items that threads claim in small groups, so that they finish together. Results never depend on the thread that
/// claimed an item.
///
/// Claims are numbered in order under the lock of `rest`. A thread that fails sets `has_failed`, after which no claims
/// are made; those with smaller numbers were made before, and are completed by their threads. So the failure with the
/// smallest number is the same for any number of threads. The flag orders no other memory, so it is relaxed: results
/// are passed by the caller's mutex.
struct Queue<I: Iterator> {
    rest: Mutex<Unclaimed<I>>,
    has_failed: AtomicBool,
}

/// The items that no thread has claimed yet.
struct Unclaimed<I: Iterator> {
    items: Peekable<I>,
    /// The number of claims so far.
    claims: usize,
}

/// The number of a claim, and its items or results.
type Claim<C> = (usize, C);

impl<I: Send, E: Send, Items: Iterator<Item = Result<I, E>>> Queue<Items> {
    fn new(items: Items) -> Queue<Items> {
        let rest = Unclaimed { items: items.peekable(), claims: 0 };
        Queue { rest: Mutex::new(rest), has_failed: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Unclaimed<Items>> {
        // A panic of the items' maker ends the whole call.
        self.rest.lock_ignoring_poison()
    }

    fn is_empty(&self) -> bool {
        self.lock().items.peek().is_none()
    }

    /// Claims the next items; returns `None` at the end and after a failure. Claims before the failed one are still
    /// completed, so the first error does not depend on the threads.
    fn claim(&self, weight: impl Fn(&I) -> usize) -> Option<Claim<Vec<Result<I, E>>>> {
        let mut rest = self.lock();
        if self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut claim = Vec::new();
        let mut total = 0usize;
        while total < BYTES_PER_CLAIM {
            let Some(item) = rest.items.next() else { break };
            total = total.saturating_add(
                item.as_ref().map_or(BYTES_PER_CLAIM, &weight).max(BYTES_PER_CLAIM / MAX_ITEMS_PER_CLAIM),
            );
            claim.push(item);
        }
        rest.claims += 1;
        (!claim.is_empty()).then_some((rest.claims, claim))
    }

    /// Works on `first` and on further claims, until there are none. Returns the results of each claim; those of a
    /// failed one are its first error.
    fn work_off<T>(
        &self,
        first: Option<Claim<Vec<Result<I, E>>>>,
        weight: impl Fn(&I) -> usize,
        work: impl Fn(I) -> Result<T, E>,
        tick: &mut dyn FnMut(),
    ) -> Vec<Claim<Result<Vec<T>, E>>> {
        let mut completed = Vec::new();
        let mut next = first.or_else(|| self.claim(&weight));
        while let Some((number, items)) = next {
            let results: Result<Vec<T>, E> = items.into_iter().map(|item| work(item?)).collect();
            self.has_failed.fetch_or(results.is_err(), Ordering::Relaxed);
            completed.push((number, results));
            tick();
            next = self.claim(&weight);
        }
        completed
    }
}

/// Returns the number of processors. The system is queried once, as the query reads several system files.
pub(crate) fn available_threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_for_all_numbers_of_threads() {
        for bytes in [0, usize::MAX] {
            for jobs in [0, 1, 2, 33, 1000, 100_000] {
                let squares = map(jobs, bytes, |job| job * job);
                assert!(squares.iter().enumerate().all(|(job, &square)| square == job * job));
                assert_eq!(squares.len(), jobs);
                #[cfg(feature = "compute")]
                assert_eq!(
                    map_with(jobs, bytes, Vec::new, |own, job| {
                        own.push(job);
                        own[own.len() - 1].pow(2)
                    }),
                    squares
                );
            }
        }
    }

    #[test]
    fn the_first_error_is_reported_for_all_numbers_of_threads() {
        for bytes in [0, usize::MAX] {
            for _ in 0..50 {
                let mut ticks = 0;
                let failing = |job| if job % 1000 >= 700 { Err(job) } else { Ok(job) };
                assert_eq!(try_map((0..100_000).map(Ok), bytes, |_| 1, failing, || ticks += 1), Err(700));
                let unmade = (0..100_000).map(|job| if job >= 500 { Err(job) } else { Ok(job) });
                assert_eq!(try_map(unmade, bytes, |_| 1, failing, || ticks += 1), Err(500));
                assert!(ticks <= 2000);
            }
        }
    }
}
