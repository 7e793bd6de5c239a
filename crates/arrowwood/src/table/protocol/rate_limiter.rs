//! Limits how often footers are published, so that the place of each rests before it is used again: another Arrow
//! reader may pause for that long between any two of its reads.
//!
//! A place *rests* from the time when another footer is published in its stead until [`RateLimiter::rest`] has passed.
//! With `p` places, fewer than `p` footers may be published within that time: `steady` ones at equal intervals, `burst`
//! at once after a pause, and `urgent` more if callers wait for them. One place has the published footer, and a few are
//! spare.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time in µs for which the place of a footer rests after another one was published.
static REST: AtomicU64 = AtomicU64::new(60_000_000);
/// The simulated time in µs that has passed in addition to the clocks' time.
static ELAPSED: AtomicU64 = AtomicU64::new(0);

/// The minimum number of footers that are published within the maximum rest while there are commits.
const MIN_FOOTERS: u32 = 600;

/// A burst takes this part of the places, at most [`MAX_BURST`].
const BURST_PART: u32 = 4;
const MAX_BURST: u32 = 64;
/// Urgent footers take this part of the places, at most [`MAX_URGENT`].
const URGENT_PART: u32 = 8;
const MAX_URGENT: u32 = 128;
/// This part of the places is left for clocks that don't agree.
const SPARE_PART: u32 = 64;

/// Simulates that the places of published footers rest for this long before they are used again, instead of a minute.
#[cfg(feature = "internal")]
pub fn simulate_rest(rest: Duration) {
    REST.store(u64::try_from(rest.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Simulates that this much more time has passed for published footers.
#[cfg(feature = "internal")]
pub fn simulate_elapsed(by: Duration) {
    ELAPSED.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Returns the time that is simulated in addition to the clocks' time.
fn simulated() -> Duration {
    Duration::from_micros(ELAPSED.load(Ordering::Relaxed))
}

/// Returns the current time, including simulated time.
pub(super) fn now() -> Instant {
    Instant::now() + simulated()
}

/// Returns the time since an instant of [`now`].
pub(super) fn elapsed(since: Instant) -> Duration {
    now().saturating_duration_since(since)
}

/// Returns the time in µs since 1970, including simulated time.
pub(super) fn unix_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| (since + simulated()).as_micros() as u64)
}

/// Limits the rate of a segment's footers: some may be published at once, then one each interval, and a few more if a
/// caller waits for them. While a place rests, fewer footers are published than there are places.
#[derive(Debug)]
pub(super) struct RateLimiter {
    /// The time for which a place rests: shorter than a minute if there are too few places for [`MIN_FOOTERS`].
    pub rest: Duration,
    /// The time between two footers while there are commits all the time.
    interval: Duration,
    /// The number of footers that may be published at once after a pause.
    burst: u32,
    /// The number of further footers that may be published at once if callers wait for them.
    urgent: u32,
    /// The time by which all published footers would have been published at the rate of one each interval.
    due: Option<Instant>,
}

impl RateLimiter {
    /// Creates a limiter for `places` footers and their messages.
    pub fn new(places: u64) -> RateLimiter {
        let places = u32::try_from(places).unwrap_or(u32::MAX).max(2);
        let burst = (places / BURST_PART).clamp(1, MAX_BURST);
        let urgent = (places / URGENT_PART).min(MAX_URGENT);
        let spare = (places / SPARE_PART).max(1);
        let published = 1;
        let steady = places.saturating_sub(burst + urgent + spare + published).max(1);
        let max_rest = Duration::from_micros(REST.load(Ordering::Relaxed));
        let rest = max_rest.min(max_rest / MIN_FOOTERS * steady);
        assert!(burst > 0 && steady > 0, "{places} places: {burst} at once, {steady} steady");
        RateLimiter { rest, interval: rest / steady, burst, urgent, due: None }
    }

    /// Returns the time until a footer may be published.
    pub fn wait(&self) -> Duration {
        self.wait_behind(self.burst)
    }

    /// Returns the time until a footer may be published that a caller waits for.
    pub fn wait_if_urgent(&self) -> Duration {
        self.wait_behind(self.burst + self.urgent)
    }

    /// Returns the time until a footer may be published if `burst` may be published at once.
    fn wait_behind(&self, burst: u32) -> Duration {
        let due = self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now()));
        due.saturating_sub(self.interval * (burst - 1))
    }

    /// Counts a footer that was published at `time`.
    pub fn count(&mut self, time: Instant) {
        self.due = Some(self.due.map_or(time, |due| due.max(time)) + self.interval);
    }

    /// Limits the counted footers to those that may be published at once: a larger count shows that a clock was wrong.
    pub fn bound(&mut self) {
        let max_due = now() + self.interval * (self.burst + self.urgent);
        self.due = self.due.map(|due| due.min(max_due));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While a footer rests, fewer footers are published than there are places, even in bursts.
    #[test]
    fn footers_are_not_reused_too_early() {
        for places in [2u32, 3, 9, 64, 128, 420, 1000, 4096, 65_536] {
            let limiter = RateLimiter::new(places.into());
            let regular = limiter.rest.as_nanos().div_ceil(limiter.interval.as_nanos()) as u32;
            let max_footers = limiter.burst + limiter.urgent + regular;
            assert!(places < 9 || max_footers < places, "{places}: {max_footers} footers, {limiter:?}");
            assert!(limiter.interval <= Duration::from_millis(101), "{places}: {limiter:?}");
        }
        let limiter = RateLimiter::new(4096);
        assert_eq!(limiter.rest, Duration::from_secs(60));
        assert_eq!(limiter.burst, MAX_BURST);
        assert!(limiter.interval < Duration::from_millis(16), "{limiter:?}");
        assert_eq!(RateLimiter::new(1000).rest, Duration::from_secs(60));
    }
}
