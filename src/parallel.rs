//! Work shared between threads that live as long as one call.
//!
//! No pool: a pool's threads don't exist in a forked child (PyTorch's DataLoader forks), which would wait for them
//! forever. Starting a thread costs about 15 µs, so small work stays on the caller's thread.

use crate::map::MutexExt;
use std::convert::Infallible;
use std::iter::Peekable;
use std::num::NonZero;
#[cfg(feature = "compute")]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use crate::blocking::CancelToken;
use crate::map::{adopt_fault, guard_on_thread, is_guarded};

/// Locks, ignoring poison: the data this crate keeps behind locks is consistent at any moment, or was written last.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock_ignoring_poison()
}

/// Bytes of input that justify another thread, and that a thread takes at once.
const SHARE: usize = 1 << 20;
/// Small items that a thread takes at once.
const ITEMS: usize = 64;

/// Runs `work(0) … work(jobs - 1)`, with results in order, on as many threads as `bytes` of input justify.
pub(crate) fn map<T: Send>(jobs: usize, bytes: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let weight = bytes / jobs.max(1);
    match try_map((0..jobs).map(Ok::<_, Infallible>), bytes, |_| weight, |job| Ok(work(job)), || ()) {
        Ok(results) => results,
        Err(never) => match never {},
    }
}

/// As `map`, with something that each thread makes once for all of its jobs, such as memory. Jobs are begun in their order.
#[cfg(feature = "compute")]
pub(crate) fn map_with<S, T: Send>(
    jobs: usize,
    bytes: usize,
    make: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = map((bytes / SHARE).clamp(1, available_threads()).min(jobs), bytes, |_| {
        let mut own = make();
        let mut done = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return done;
            }
            done.push((job, work(&mut own, job)));
        }
    });
    let mut all: Vec<(usize, T)> = done.into_iter().flatten().collect();
    all.sort_unstable_by_key(|&(job, _)| job);
    all.into_iter().map(|(_, done)| done).collect()
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
    let threads = (bytes / SHARE).clamp(1, available_threads());
    if threads == 1 {
        return items.map(|item| work(item?).inspect(|_| tick())).collect();
    }
    let queue = Queue::new(items);
    let mut first = queue.claim(&weight);
    let threads = if queue.is_empty() { 1 } else { threads };
    let done = Mutex::new(Vec::new());
    let work_off = |first, tick: &mut dyn FnMut()| {
        let more = queue.work_off(first, &weight, &work, tick);
        lock(&done).extend(more);
    };
    on_threads(threads - 1, &|| work_off(None, &mut || ()), &mut || work_off(first.take(), &mut tick));
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|&(number, _)| number);
    let mut results = Vec::with_capacity(done.iter().map(|(_, done)| done.as_ref().map_or(0, Vec::len)).sum());
    for (_, done) in done {
        results.extend(done?);
    }
    Ok(results)
}

/// Runs `own` on this thread, and `share` on as many others if the system has them; returns when all have ended.
///
/// It is compiled once, and not for each kind of work, of which there are a hundred.
fn on_threads(others: usize, share: &(dyn Fn() + Sync), own: &mut dyn FnMut()) {
    // A guarded call is guarded on all of its threads.
    let is_guarded = is_guarded();
    let call = CancelToken::current();
    let share = || {
        call.run(|| {
            if is_guarded {
                return guard_on_thread(share).1;
            }
            share();
            None
        })
    };
    thread::scope(|scope| {
        let others: Vec<_> =
            (0..others).filter_map(|_| thread::Builder::new().spawn_scoped(scope, share).ok()).collect();
        call.run(own);
        for other in others {
            call.wait(|| other.is_finished());
            match other.join() {
                Ok(fault) => adopt_fault(fault),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
}

/// Items that threads claim in small groups, so that they finish together; results never depend on which thread claimed
/// which.
struct Queue<I: Iterator> {
    /// The items, and the number of claims.
    items: Mutex<(Peekable<I>, usize)>,
    failed: AtomicBool,
}

/// The number of a claim, and its items or results.
type Claim<C> = (usize, C);

impl<I: Send, E: Send, Items: Iterator<Item = Result<I, E>>> Queue<Items> {
    fn new(items: Items) -> Queue<Items> {
        Queue { items: Mutex::new((items.peekable(), 0)), failed: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, (Peekable<Items>, usize)> {
        // A panic of the items' maker ends the whole call.
        lock(&self.items)
    }

    fn is_empty(&self) -> bool {
        self.lock().0.peek().is_none()
    }

    /// The next items; none after a failure. Claims before the failed one are still completed, so the first error does
    /// not depend on the threads.
    fn claim(&self, weight: impl Fn(&I) -> usize) -> Option<Claim<Vec<Result<I, E>>>> {
        let mut queue = self.lock();
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut claim = Vec::new();
        let mut total = 0usize;
        while total < SHARE {
            let Some(item) = queue.0.next() else { break };
            total = total.saturating_add(item.as_ref().map_or(SHARE, &weight).max(SHARE / ITEMS));
            claim.push(item);
        }
        queue.1 += 1;
        (!claim.is_empty()).then_some((queue.1, claim))
    }

    fn work_off<T>(
        &self,
        first: Option<Claim<Vec<Result<I, E>>>>,
        weight: impl Fn(&I) -> usize,
        work: impl Fn(I) -> Result<T, E>,
        tick: &mut dyn FnMut(),
    ) -> Vec<Claim<Result<Vec<T>, E>>> {
        let mut all = Vec::new();
        let mut next = first.or_else(|| self.claim(&weight));
        while let Some((number, items)) = next {
            let done: Result<Vec<T>, E> = items.into_iter().map(|item| work(item?)).collect();
            self.failed.fetch_or(done.is_err(), Ordering::Relaxed);
            all.push((number, done));
            tick();
            next = self.claim(&weight);
        }
        all
    }
}

/// The number of processors, queried once: the query reads several system files.
pub(crate) fn available_threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_threads() {
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
    fn the_first_error_is_reported_whatever_the_threads() {
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
