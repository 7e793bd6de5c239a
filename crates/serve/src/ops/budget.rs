//! Limits of the time and the memory that a request may take to read rows.
//!
//! Conditions, groups and statistics are evaluated block by block. Before each step a request waits for a share of the
//! memory that all requests have together, which limits the number of concurrent steps; and a request that has used up
//! its time gets no further step. Rows without a condition need no budget: they are as fast as their client.

use std::time::{Duration, Instant};

use hyper::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::blocking::blocking;
use super::limits::Limits;
use super::memory::{Memory, share_bytes};
use crate::http::{Problem, Result};

/// The maximum memory of a step that reads a block of rows.
pub(crate) const STEP_BYTES: usize = 64 << 20;

/// The remaining budget of a request.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    memory: Memory,
    limits: QueryLimits,
    time_left: Duration,
}

/// The limits of queries.
#[derive(Clone, Copy, Debug)]
struct QueryLimits {
    /// The memory of all requests together, in bytes.
    memory: usize,
    /// The time of one request.
    time: Duration,
}

/// The memory that a step may take, and the time by which it ends.
pub(crate) struct Share {
    permit: OwnedSemaphorePermit,
    memory: Memory,
    limits: QueryLimits,
    deadline: Option<Instant>,
}

impl Budget {
    pub fn new(memory: &Memory, limits: &Limits) -> Budget {
        let limits = QueryLimits { memory: limits.query_memory, time: limits.query_timeout };
        Budget { memory: memory.clone(), limits, time_left: limits.time }
    }

    /// Runs a blocking step with a share of `bytes`, once they are free.
    ///
    /// # Errors
    /// 422 if the time is used up, or if there are never that many bytes.
    pub async fn run_blocking<T: Send + 'static>(
        &mut self,
        bytes: usize,
        work: impl FnOnce(&mut Share) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.time_left.is_zero() {
            return Err(too_long(self.limits.time));
        }
        if bytes > self.limits.memory {
            return Err(too_much(self.limits.memory));
        }
        let start = Instant::now();
        let permit =
            timeout(self.time_left, self.memory.wait(bytes)).await.map_err(|_| too_long(self.limits.time))??;
        // A time without an end has no deadline.
        let deadline = start.checked_add(self.time_left);
        let mut share = Share { permit, memory: self.memory.clone(), limits: self.limits, deadline };
        let result = blocking(move || work(&mut share)).await;
        self.time_left = self.time_left.saturating_sub(start.elapsed());
        result.map_err(|_| Problem::internal("the work was given up"))?
    }

    /// Returns the memory of a step that reads a block of rows: [`STEP_BYTES`], or less if the limit is smaller.
    pub fn step(&self) -> usize {
        STEP_BYTES.min(self.limits.memory)
    }
}

impl Share {
    /// Returns the size of the share in bytes.
    pub fn bytes(&self) -> usize {
        share_bytes(&self.permit)
    }

    /// Makes room for `bytes` in total, without waiting.
    ///
    /// # Errors
    /// 422 if there are never that many; 503 if other requests hold them now.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.limits.memory {
            return Err(too_much(self.limits.memory));
        }
        if bytes > self.bytes() {
            let Some(permit) = self.memory.try_share(bytes - self.bytes()) else {
                return Err(Problem::unavailable("the memory for queries is taken; try again"));
            };
            self.permit.merge(permit);
            assert!(self.bytes() >= bytes, "a share of {} bytes after growing to {bytes}", self.bytes());
        }
        Ok(())
    }

    /// Checks that the request has time left.
    ///
    /// # Errors
    /// 422 if the time is used up.
    pub fn check_time(&self) -> Result<()> {
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(too_long(self.limits.time)),
            _ => Ok(()),
        }
    }
}

/// Returns the problem for a query that has used up its time.
pub(crate) fn too_long(max_time: Duration) -> Problem {
    let detail = format!(
        "the server has worked for {} seconds on it, the most that it may (--query-timeout); ask for fewer rows: \
         set from and to, or a condition on a column that the table is sorted or indexed by",
        max_time.as_secs_f64()
    );
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query_timeout", detail)
}

/// Returns the problem for a query that needs more memory than it may take.
pub(crate) fn too_much(max_bytes: usize) -> Problem {
    let detail =
        format!("it takes more than {max_bytes} bytes of memory, the most that it may (--query-memory); ask for less");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "query_memory", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(memory: usize, time: Duration) -> Budget {
        let limits = Limits { query_memory: memory, query_timeout: time, ..Limits::default() };
        Budget::new(&Memory::new(memory), &limits)
    }

    #[tokio::test]
    async fn expired_budget_allows_no_further_step() {
        let mut budget = budget(1 << 20, Duration::from_millis(1));
        let slow = |share: &mut Share| {
            // Simulates work that takes longer than allowed.
            std::thread::sleep(Duration::from_millis(2));
            Ok(share.check_time().is_err())
        };
        assert!(budget.run_blocking(1, slow).await.unwrap());
        assert_eq!(budget.run_blocking(1, |_| Ok(())).await.unwrap_err().code(), "query_timeout");
    }

    #[tokio::test]
    async fn shares_are_returned_and_never_exceed_the_total() {
        let mut first = budget(1 << 20, Duration::MAX);
        let mut second =
            Budget { memory: first.memory.clone(), limits: first.limits, time_left: Duration::from_millis(1) };
        assert_eq!(first.run_blocking((1 << 20) + 1, |_| Ok(())).await.unwrap_err().code(), "query_memory");
        let held = first.memory.try_share(1 << 19).unwrap();
        let grown = |share: &mut Share| Ok([1 << 19, (1 << 19) + 1, (1 << 20) + 1].map(|bytes| share.grow(bytes)));
        let [enough, taken, never] = first.run_blocking(1, grown).await.unwrap();
        assert!(enough.is_ok());
        assert_eq!((taken.unwrap_err().code(), never.unwrap_err().code()), ("unavailable", "query_memory"));
        // A request may wait for memory within its time limit.
        assert_eq!(second.run_blocking(1 << 20, |_| Ok(())).await.unwrap_err().code(), "query_timeout");
        drop(held);
        first.run_blocking(1 << 20, |_| Ok(())).await.unwrap();
    }
}
