//! Work shared between threads that live as long as one call.
//!
//! No pool: a pool's threads are gone in a forked child (PyTorch's DataLoader forks), which would then wait for them
//! for ever. Starting a thread costs about 15 µs, so small work stays on the caller's.

use std::convert::Infallible;
use std::num::NonZero;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Bytes of input that a further thread must have to be worth its start.
const BYTES_PER_THREAD: usize = 1 << 20;

/// `work(0) … work(jobs - 1)` in order of the jobs, done by as many threads as `bytes` of input are worth.
pub(crate) fn map<T: Send>(jobs: usize, bytes: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    match try_map(jobs, bytes, |job| Ok::<T, Infallible>(work(job)), || ()) {
        Ok(results) => results,
        Err(never) => match never {},
    }
}

/// As `map`, of work that can fail: the error is that of the first job that has one, and little is begun after it.
/// `tick` is called on the caller's thread now and then.
pub(crate) fn try_map<T: Send, E: Send>(
    jobs: usize,
    bytes: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
    mut tick: impl FnMut(),
) -> Result<Vec<T>, E> {
    let threads = (bytes / BYTES_PER_THREAD).clamp(1, available()).min(jobs.max(1));
    if threads == 1 {
        return (0..jobs).map(|job| work(job).inspect(|_| tick())).collect();
    }
    let queue = Queue::new(jobs, threads);
    let mut claims = thread::scope(|scope| {
        let share = || queue.work_off(&work, || ());
        let others: Vec<_> =
            (1..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, share).ok()).collect();
        let mut claims = queue.work_off(&work, &mut tick);
        for other in others {
            match other.join() {
                Ok(done) => claims.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        claims
    });
    claims.sort_unstable_by_key(|&(first, _)| first);
    let mut results = Vec::with_capacity(claims.iter().map(|(_, done)| done.as_ref().map_or(0, Vec::len)).sum());
    for (_, done) in claims {
        results.extend(done?);
    }
    Ok(results)
}

/// The first job of a claim, and what came of its jobs.
type Claim<T, E> = (usize, Result<Vec<T>, E>);

/// Jobs that threads claim when they are done with what they had, so they finish together; whose thread did which job
/// never shows in the results.
struct Queue {
    jobs: usize,
    /// Jobs claimed at once: small ones would spend their time on the queue.
    step: usize,
    next: AtomicUsize,
    failed: AtomicBool,
}

impl Queue {
    fn new(jobs: usize, threads: usize) -> Queue {
        let step = (jobs / threads / 16).clamp(1, 64);
        Queue { jobs, step, next: AtomicUsize::new(0), failed: AtomicBool::new(false) }
    }

    /// The next jobs; none after a failure. Claims before a failed one are worked off all the same, so the first error
    /// does not depend on the threads.
    fn claim(&self) -> Option<Range<usize>> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let start = self.next.fetch_add(self.step, Ordering::Relaxed);
        (start < self.jobs).then(|| start..self.jobs.min(start + self.step))
    }

    fn work_off<T, E>(&self, work: impl Fn(usize) -> Result<T, E>, mut tick: impl FnMut()) -> Vec<Claim<T, E>> {
        let mut claims = Vec::new();
        while let Some(jobs) = self.claim() {
            let first = jobs.start;
            let done: Result<Vec<T>, E> = jobs.map(&work).collect();
            self.failed.fetch_or(done.is_err(), Ordering::Relaxed);
            claims.push((first, done));
            tick();
        }
        claims
    }
}

/// The number of processors, asked for once: the answer takes reading several files of the system.
fn available() -> usize {
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
            }
        }
    }

    #[test]
    fn the_first_error_is_reported_whatever_the_threads() {
        for bytes in [0, usize::MAX] {
            for _ in 0..50 {
                let mut ticks = 0;
                let failing = |job| if job % 1000 >= 700 { Err(job) } else { Ok(job) };
                assert_eq!(try_map(100_000, bytes, failing, || ticks += 1), Err(700));
                assert!(ticks <= 1000);
            }
        }
    }
}
