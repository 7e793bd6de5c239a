//! Work shared between threads that live as long as one call.
//!
//! No pool: a pool's threads don't exist in a forked child (PyTorch's DataLoader forks), which would wait for them
//! forever. Starting a thread costs about 15 µs, so small work stays on the caller's thread.
//!
//! # What the threads of a call share
//!
//! [`try_map`] puts its items into a [`Queue`]. A thread locks the queue, takes a *claim*, which is the next few items
//! and a number, and works on them without the lock. When nothing is left, it adds the results of its claims to a list
//! that has a lock of its own; no thread holds both locks. The caller's thread joins the others, and then sorts the
//! list by the numbers of claims.
//!
//! Apart from the two locks, threads share one flag, [`Queue::has_failed`]: it is set when a claim has failed, and no
//! claims are made after it was seen. It is read and written with relaxed ordering, as it only saves work. The error
//! that a call returns does not depend on when a thread sees it: claims are numbered in the order of items, so that all
//! claims before the first one that fails were made before it, and a claim that was made is always completed.
//!
//! Results need no ordering of their own: the lock of the list and the joins publish them to the caller's thread. The
//! counter of [`map_with`] is relaxed for the same reason.

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

/// Bytes of input that justify another thread, and that a claim has.
const BYTES_PER_CLAIM: usize = 1 << 20;
/// The maximum number of items of a claim, if they are small.
const MAX_ITEMS_PER_CLAIM: usize = 64;

/// Runs `work(0) … work(jobs - 1)`, with results in order, on as many threads as `bytes` of input justify.
pub(crate) fn map<T: Send>(jobs: usize, bytes: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let weight = bytes / jobs.max(1);
    match try_map((0..jobs).map(Ok::<_, Infallible>), bytes, |_| weight, |job| Ok(work(job)), || ()) {
        Ok(results) => results,
        Err(never) => match never {},
    }
}

/// As [`map`], with a state that each thread makes once for all of its jobs, such as memory to reuse. Jobs are begun in
/// order.
#[cfg(feature = "compute")]
pub(crate) fn map_with<S, T: Send>(
    jobs: usize,
    bytes: usize,
    make: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let by_thread = map(threads_for(bytes).min(jobs), bytes, |_| {
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
/// `weight` bytes. Returns the first error in order; little work starts after it. `tick` is called on the caller's
/// thread, after each group of items that this thread has worked on.
///
/// Items are made on demand: batches are found while others are decoded.
pub(crate) fn try_map<I: Send, T: Send, E: Send>(
    items: impl Iterator<Item = Result<I, E>> + Send,
    bytes: usize,
    weight: impl Fn(&I) -> usize + Sync,
    work: impl Fn(I) -> Result<T, E> + Sync,
    mut tick: impl FnMut(),
) -> Result<Vec<T>, E> {
    let threads = threads_for(bytes);
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
    done.sort_unstable_by_key(|claim| claim.number);
    debug_assert!(done.is_sorted_by(|a, b| a.number < b.number), "each claim was completed once");
    let mut results = Vec::with_capacity(done.iter().map(|claim| claim.content.as_ref().map_or(0, Vec::len)).sum());
    for claim in done {
        results.extend(claim.content?);
    }
    Ok(results)
}

/// Returns the number of threads, the caller's included, that `bytes` of input justify.
fn threads_for(bytes: usize) -> usize {
    (bytes / BYTES_PER_CLAIM).clamp(1, available_threads())
}

/// Runs `on_caller` on this thread, and `on_other` on up to `others` other threads. They are fewer if the system starts
/// no more. Returns when all have ended; a panic of any of them becomes a panic of the caller.
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
            // If a thread can't be started, fewer threads do the work.
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
/// claimed an item. The module's documentation explains the protocol.
struct Queue<I: Iterator> {
    unclaimed: Mutex<UnclaimedItems<I>>,
    /// True if a claim has failed.
    has_failed: AtomicBool,
}

/// The part of a [`Queue`] that its lock guards.
struct UnclaimedItems<I: Iterator> {
    items: Peekable<I>,
    /// The number of claims that were made.
    num_claims: usize,
}

/// Consecutive items that one thread has taken from a [`Queue`], or their results.
struct Claim<C> {
    /// The position of the claim among all claims, from 1.
    number: usize,
    content: C,
}

impl<I: Send, E: Send, Items: Iterator<Item = Result<I, E>>> Queue<Items> {
    fn new(items: Items) -> Queue<Items> {
        let unclaimed = UnclaimedItems { items: items.peekable(), num_claims: 0 };
        Queue { unclaimed: Mutex::new(unclaimed), has_failed: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, UnclaimedItems<Items>> {
        // A panic of the iterator ends the whole call.
        self.unclaimed.lock_ignoring_poison()
    }

    fn is_empty(&self) -> bool {
        self.lock().items.peek().is_none()
    }

    /// Claims the next items; returns `None` at the end and after a failure. Each claim has an item or more.
    fn claim(&self, weight: impl Fn(&I) -> usize) -> Option<Claim<Vec<Result<I, E>>>> {
        let mut unclaimed = self.lock();
        if self.has_failed.load(Ordering::Relaxed) {
            return None;
        }

        let mut claimed = Vec::new();
        let mut bytes = 0usize;
        while bytes < BYTES_PER_CLAIM {
            let Some(item) = unclaimed.items.next() else { break };
            let item_bytes = item.as_ref().map_or(BYTES_PER_CLAIM, &weight);
            bytes = bytes.saturating_add(item_bytes.max(BYTES_PER_CLAIM / MAX_ITEMS_PER_CLAIM));
            claimed.push(item);
        }
        unclaimed.num_claims += 1;
        (!claimed.is_empty()).then_some(Claim { number: unclaimed.num_claims, content: claimed })
    }

    /// Works on claims until there are no more, beginning with `first` if it is given. Returns their results. Calls
    /// `tick` after each.
    fn work_off<T>(
        &self,
        first: Option<Claim<Vec<Result<I, E>>>>,
        weight: impl Fn(&I) -> usize,
        work: impl Fn(I) -> Result<T, E>,
        tick: &mut dyn FnMut(),
    ) -> Vec<Claim<Result<Vec<T>, E>>> {
        let mut all = Vec::new();
        let mut next = first.or_else(|| self.claim(&weight));
        while let Some(Claim { number, content: items }) = next {
            let results: Result<Vec<T>, E> = items.into_iter().map(|item| work(item?)).collect();
            self.has_failed.fetch_or(results.is_err(), Ordering::Relaxed);
            all.push(Claim { number, content: results });
            tick();
            next = self.claim(&weight);
        }
        all
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
    fn results_are_in_order_for_any_number_of_threads() {
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
    fn the_first_error_is_reported_for_any_number_of_threads() {
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
