//! Work of several threads on a sequence of items, with results in order as they are ready.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use crate::map::{adopt_fault, guard_on_thread, is_guarded};
use crate::parallel::{available_threads, lock};

/// Runs `work` on each item, on one thread per processor, and `each` on the results: in order, as they are ready, on the
/// caller's thread. At most `ahead` items and results exist at the same time. Returns the first error in order.
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
    let belt = Pipeline::new(std::iter::once(first).chain(items), ahead.max(1));
    let is_guarded = is_guarded();
    thread::scope(|scope| {
        let share = || {
            if is_guarded {
                return guard_on_thread(|| belt.work_off(&work)).1;
            }
            belt.work_off(&work);
            None
        };
        let workers: Vec<_> =
            (0..available_threads()).filter_map(|_| thread::Builder::new().spawn_scoped(scope, share).ok()).collect();
        let stop = StopGuard { belt: &belt, only_in_panic: false };
        let done = if workers.is_empty() { belt.alone(&work, &mut each) } else { belt.take_off(&mut each) };
        drop(stop);
        for worker in workers {
            match worker.join() {
                Ok(fault) => adopt_fault(fault),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

/// Items on their way through the threads of [`in_order`].
struct Pipeline<Items, T, E> {
    /// The items, and the number of the next.
    items: Mutex<(Items, usize)>,
    results: Mutex<Results<T, E>>,
    moved: Condvar,
    ahead: usize,
}

struct Results<T, E> {
    waiting: BTreeMap<usize, Result<T, E>>,
    /// The number of finished results.
    taken: usize,
    /// The number of items, once it is known; of those up to an error.
    end: usize,
    is_stopped: bool,
}

impl<I, T, E, Items: Iterator<Item = Result<I, E>>> Pipeline<Items, T, E> {
    fn new(items: Items, ahead: usize) -> Pipeline<Items, T, E> {
        let results = Results { waiting: BTreeMap::new(), taken: 0, end: usize::MAX, is_stopped: false };
        Pipeline { items: Mutex::new((items, 0)), results: Mutex::new(results), moved: Condvar::new(), ahead }
    }

    fn work_off(&self, work: impl Fn(I) -> Result<T, E>) {
        let _stop = StopGuard { belt: self, only_in_panic: true };
        while let Some((number, item)) = self.claim() {
            let done = item.and_then(&work);
            let mut results = lock(&self.results);
            if done.is_err() {
                results.end = results.end.min(number + 1);
            }
            results.waiting.insert(number, done);
            self.moved.notify_all();
        }
    }

    /// The next item, with its number, as soon as there is room for its result.
    fn claim(&self) -> Option<(usize, Result<I, E>)> {
        let mut items = lock(&self.items);
        let number = items.1;
        let has_no_room =
            |results: &mut Results<T, E>| !results.is_stopped && number >= results.taken.saturating_add(self.ahead);
        let results = self.moved.wait_while(lock(&self.results), has_no_room).unwrap_or_else(PoisonError::into_inner);
        let is_over = results.is_stopped || number >= results.end;
        drop(results);
        let item = if is_over { None } else { items.0.next() };
        items.1 += 1;
        if item.is_none() {
            let mut results = lock(&self.results);
            results.end = results.end.min(number);
            self.moved.notify_all();
        }
        item.map(|item| (number, item))
    }

    fn take_off(&self, mut each: impl FnMut(T) -> Result<(), E>) -> Result<(), E> {
        let is_coming = |results: &mut Results<T, E>| {
            !results.is_stopped && results.taken < results.end && !results.waiting.contains_key(&results.taken)
        };
        loop {
            let mut results =
                self.moved.wait_while(lock(&self.results), is_coming).unwrap_or_else(PoisonError::into_inner);
            let number = results.taken;
            let Some(done) = results.waiting.remove(&number) else { return Ok(()) };
            drop(results);
            each(done?)?;
            lock(&self.results).taken += 1;
            self.moved.notify_all();
        }
    }

    fn alone(&self, work: impl Fn(I) -> Result<T, E>, mut each: impl FnMut(T) -> Result<(), E>) -> Result<(), E> {
        while let Some((_, item)) = self.claim() {
            each(work(item?)?)?;
            lock(&self.results).taken += 1;
        }
        Ok(())
    }
}

/// Wakes all waiting threads at the end.
struct StopGuard<'a, Items, T, E> {
    belt: &'a Pipeline<Items, T, E>,
    only_in_panic: bool,
}

impl<Items, T, E> Drop for StopGuard<'_, Items, T, E> {
    fn drop(&mut self) {
        if !self.only_in_panic || thread::panicking() {
            lock(&self.belt.results).is_stopped = true;
            self.belt.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worked_ahead_is_taken_in_order() {
        for (items, ahead) in [(0, 1), (1, 1), (2, 1), (1000, 1), (1000, 3), (1000, 5000)] {
            let (begun, mut taken) = (Mutex::new(0usize), Vec::new());
            let work = |item: usize| {
                *lock(&begun) += 1;
                if item.is_multiple_of(7) {
                    thread::yield_now();
                }
                Ok::<_, usize>(item)
            };
            let each = |item| {
                assert!(*lock(&begun) <= taken.len() + ahead.max(1));
                taken.push(item);
                Ok(())
            };
            in_order((0..items).map(Ok), ahead, work, each).unwrap();
            assert!(taken.into_iter().eq(0..items));
        }
    }

    #[test]
    fn what_is_worked_ahead_ends_with_the_first_error_or_panic() {
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
