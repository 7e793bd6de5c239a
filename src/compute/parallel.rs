//! Work shared between threads that live as long as one call.
//!
//! No pool: a pool's threads are gone in a forked child (PyTorch's DataLoader forks), which would then wait for them
//! for ever. Starting a thread costs about 15 µs, so small work stays on the caller's.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Bytes of input that a further thread must have to be worth its start.
const BYTES_PER_THREAD: usize = 1 << 20;

/// `work(0) … work(jobs - 1)` in order of the jobs, done by as many threads as `bytes` of input are worth.
///
/// Threads take the next job when they are done with one, so they finish together; whose thread did which job never
/// shows in the results.
pub(crate) fn map<T: Send>(jobs: usize, bytes: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = (bytes / BYTES_PER_THREAD).clamp(1, available()).min(jobs.max(1));
    if threads == 1 {
        return (0..jobs).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = Vec::with_capacity(jobs / threads + 1);
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return done;
            }
            done.push((job, work(job)));
        }
    };
    let mut results = thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, &share).ok()).collect();
        let mut results = share();
        for other in others {
            match other.join() {
                Ok(done) => results.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_unstable_by_key(|&(job, _)| job);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The number of processors, asked for once: the answer takes reading several files of the system.
fn available() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_order_whatever_the_threads() {
        for bytes in [0, usize::MAX] {
            let squares = super::map(1000, bytes, |job| job * job);
            assert!(squares.iter().enumerate().all(|(job, &square)| square == job * job));
            assert_eq!(squares.len(), 1000);
        }
        assert!(super::map(0, usize::MAX, |job| job).is_empty());
    }
}
