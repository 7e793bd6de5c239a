//! Processes a sequence of items on several threads, and passes on the results in order as they are ready.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use crate::map::{MutexExt, adopt_fault, guard_on_thread, is_guarded};
use crate::parallel::available_threads;

/// Runs `work` on each item, on one thread per processor, and `each` on each result, on the caller's thread. Results
/// are in order, and passed as they are ready. At most `ahead` items and results exist at the same time. Returns the
/// first error in order.
pub(super) fn in_order<I: Send, T: Send, E: Send>(
    items: impl Iterator<Item = Result<I, E>> + Send,
    ahead: usize,
    work: impl Fn(I) -> Result<T, E> + Sync,
    mut each: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let mut items = items.peekable();
    let Some(first) = items.next() else { return Ok(()) };
    if available_threads() == 1 || items.peek().is_none() {
        return std::iter::once(first).chain(items).try_for_each(|item| each(work(item?)?));
    }
    let pipeline = Pipeline::new(std::iter::once(first).chain(items), ahead.max(1));
    let is_guarded = is_guarded();
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for _ in 0..available_threads() {
            let worker = thread::Builder::new().spawn_scoped(scope, || {
                if is_guarded {
                    return guard_on_thread(|| pipeline.process_items(&work)).1;
                }
                pipeline.process_items(&work);
                None
            });
            workers.extend(worker);
        }
        let stop = StopGuard { pipeline: &pipeline, only_in_panic: false };
        let result = if workers.is_empty() {
            // The system has no more threads.
            pipeline.process_on_this_thread(&work, &mut each)
        } else {
            pipeline.pass_on_results(&mut each)
        };
        drop(stop);
        for worker in workers {
            match worker.join() {
                Ok(fault) => adopt_fault(fault),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        result
    })
}

/// The items and results of [`in_order`], which its threads share.
///
/// Workers claim items one after the other, and insert each result in `waiting`. The caller's thread removes the result
/// of the next item in order, passes it on, and increments `passed`. A worker claims item `passed + ahead` only after
/// that, and waits for it while it holds the lock of `items`: the other workers could not claim a later item either.
///
/// Two locks are held at the same time only in [`claim`](Pipeline::claim), which takes `items` before `results`. The
/// condition variable belongs to `results`, and is notified after each change of it.
struct Pipeline<Items, T, E> {
    items: Mutex<Unclaimed<Items>>,
    results: Mutex<Results<T, E>>,
    /// Notified when `results` change.
    changed: Condvar,
    /// The maximum number of items that are claimed and not passed on.
    ahead: usize,
}

/// The items that no thread has claimed yet.
struct Unclaimed<Items> {
    rest: Items,
    /// The number of the next item.
    number: usize,
}

/// The progress of a [`Pipeline`].
struct Results<T, E> {
    /// The results that wait for earlier ones, by the number of their item.
    waiting: BTreeMap<usize, Result<T, E>>,
    /// The number of results that were passed on.
    passed: usize,
    /// The number of items up to the end or the first error; [`UNKNOWN_END`] before it is known.
    end: usize,
    /// True once the caller wants no more results, or a thread has panicked.
    is_stopped: bool,
}

const UNKNOWN_END: usize = usize::MAX;

impl<I, T, E, Items: Iterator<Item = Result<I, E>>> Pipeline<Items, T, E> {
    fn new(items: Items, ahead: usize) -> Pipeline<Items, T, E> {
        let results = Results { waiting: BTreeMap::new(), passed: 0, end: UNKNOWN_END, is_stopped: false };
        let items = Unclaimed { rest: items, number: 0 };
        Pipeline { items: Mutex::new(items), results: Mutex::new(results), changed: Condvar::new(), ahead }
    }

    /// Runs `work` on items until there are no more.
    fn process_items(&self, work: impl Fn(I) -> Result<T, E>) {
        let _stop = StopGuard { pipeline: self, only_in_panic: true };
        while let Some((number, item)) = self.claim() {
            let result = item.and_then(&work);
            let mut results = self.results.lock_ignoring_poison();
            if result.is_err() {
                results.end = results.end.min(number + 1);
            }
            let previous = results.waiting.insert(number, result);
            assert!(previous.is_none(), "item {number} was processed twice");
            self.changed.notify_all();
        }
    }

    /// Waits until there is room for another result, and returns the next item with its number.
    fn claim(&self) -> Option<(usize, Result<I, E>)> {
        let mut items = self.items.lock_ignoring_poison();
        let number = items.number;
        let results = self.changed.wait_while(self.results.lock_ignoring_poison(), |results| {
            !results.is_stopped && number >= results.passed.saturating_add(self.ahead)
        });
        let results = results.unwrap_or_else(PoisonError::into_inner);
        let is_over = results.is_stopped || number >= results.end;
        drop(results);
        let item = if is_over { None } else { items.rest.next() };
        items.number += 1;
        if item.is_none() {
            let mut results = self.results.lock_ignoring_poison();
            results.end = results.end.min(number);
            self.changed.notify_all();
        }
        item.map(|item| (number, item))
    }

    /// Runs `each` on the results of other threads.
    fn pass_on_results(&self, mut each: impl FnMut(T) -> Result<(), E>) -> Result<(), E> {
        loop {
            let results = self.changed.wait_while(self.results.lock_ignoring_poison(), |results| {
                !results.is_stopped && results.passed < results.end && !results.waiting.contains_key(&results.passed)
            });
            let mut results = results.unwrap_or_else(PoisonError::into_inner);
            let number = results.passed;
            let Some(result) = results.waiting.remove(&number) else { return Ok(()) };
            drop(results);
            each(result?)?;
            self.results.lock_ignoring_poison().passed += 1;
            self.changed.notify_all();
        }
    }

    /// Runs `work` and `each` on this thread, if there are no others.
    fn process_on_this_thread(
        &self,
        work: impl Fn(I) -> Result<T, E>,
        mut each: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((_, item)) = self.claim() {
            each(work(item?)?)?;
            self.results.lock_ignoring_poison().passed += 1;
        }
        Ok(())
    }
}

/// Stops the pipeline when it is dropped, and wakes all waiting threads.
struct StopGuard<'a, Items, T, E> {
    pipeline: &'a Pipeline<Items, T, E>,
    /// True if only a panic stops the pipeline.
    only_in_panic: bool,
}

impl<Items, T, E> Drop for StopGuard<'_, Items, T, E> {
    fn drop(&mut self) {
        if !self.only_in_panic || thread::panicking() {
            self.pipeline.results.lock_ignoring_poison().is_stopped = true;
            self.pipeline.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_passed_in_order() {
        for (items, ahead) in [(0, 1), (1, 1), (2, 1), (1000, 1), (1000, 3), (1000, 5000)] {
            let (begun, mut taken) = (Mutex::new(0usize), Vec::new());
            let work = |item: usize| {
                *begun.lock().unwrap() += 1;
                if item.is_multiple_of(7) {
                    thread::yield_now();
                }
                Ok::<_, usize>(item)
            };
            let each = |item| {
                assert!(*begun.lock().unwrap() <= taken.len() + ahead.max(1));
                taken.push(item);
                Ok(())
            };
            in_order((0..items).map(Ok), ahead, work, each).unwrap();
            assert!(taken.into_iter().eq(0..items));
        }
    }

    #[test]
    fn the_first_error_or_panic_ends_the_pipeline() {
        for _ in 0..100 {
            let mut taken = 0;
            let mut each = |_| {
                taken += 1;
                Ok(())
            };
            let failing = |item| if item >= 70 { Err(item) } else { Ok(item) };
            assert_eq!(in_order((0..1000).map(Ok), 8, failing, &mut each), Err(70));
            let unmade = (0..1000).map(|item| if item >= 50 { Err(item) } else { Ok(item) });
            assert_eq!(in_order(unmade, 8, failing, &mut each), Err(50));
            assert_eq!(taken, 120);
            assert_eq!(in_order((0..1000).map(Ok), 8, Ok, |item| if item == 30 { Err(item) } else { Ok(()) }), Err(30));
            let panics = std::panic::catch_unwind(|| {
                let work = |item: usize| if item == 20 { std::panic::panic_any("wanted") } else { Ok::<_, ()>(item) };
                in_order((0..1000).map(Ok), 4, work, |_| Ok(()))
            });
            assert!(panics.is_err());
        }
    }
}
