//! How often footers are published, and how long the place of one rests: so long that another Arrow reader may pause
//! between any two of its reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the place of a footer rests after another one was published, in µs.
static REST: AtomicU64 = AtomicU64::new(60_000_000);
/// How much later it is than the clocks say, in µs.
static LATER: AtomicU64 = AtomicU64::new(0);

/// Footers are published at least this often while there are commits: this part of the rest is the longest interval.
const LEAST: u32 = 600;

/// Simulates that the places of published footers rest for so long before they are used again, which is a minute.
pub fn simulate_rest(rest: Duration) {
    REST.store(u64::try_from(rest.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Simulates that so much more time has passed for published footers.
pub fn simulate_elapsed(by: Duration) {
    LATER.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

fn later() -> Duration {
    Duration::from_micros(LATER.load(Ordering::Relaxed))
}

pub(super) fn now() -> Instant {
    Instant::now() + later()
}

/// As [`Instant::elapsed`], by [`now`].
pub(super) fn elapsed(since: Instant) -> Duration {
    now().saturating_duration_since(since)
}

/// The time in µs since 1970.
pub(super) fn unix_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| (since + later()).as_micros() as u64)
}

/// The pace of a segment's footers. Some may be published at once, then one each interval; a few more if somebody waits
/// for them. So never more of them are published in the time that a place rests than there are places.
#[derive(Debug)]
pub(super) struct RateLimiter {
    pub rest: Duration,
    interval: Duration,
    burst: u32,
    urgent: u32,
    /// When all that was published would have been, one each interval.
    due: Option<Instant>,
}

impl RateLimiter {
    /// For `places` footers and their messages.
    pub fn new(places: u64) -> RateLimiter {
        let places = u32::try_from(places).unwrap_or(u32::MAX).max(2);
        let burst = (places / 4).clamp(1, 64);
        let urgent = (places / 8).min(128);
        // One is published, and some are left for clocks that don't agree.
        let steady = places.saturating_sub(burst + urgent + (places / 64).max(1) + 1).max(1);
        let most = Duration::from_micros(REST.load(Ordering::Relaxed));
        let rest = most.min(most / LEAST * steady);
        RateLimiter { rest, interval: rest / steady, burst, urgent, due: None }
    }

    /// The time until a footer may be published.
    pub fn wait(&self) -> Duration {
        self.wait_behind(self.burst)
    }

    /// The time until a footer may be published that somebody waits for.
    pub fn wait_if_urgent(&self) -> Duration {
        self.wait_behind(self.burst + self.urgent)
    }

    fn wait_behind(&self, burst: u32) -> Duration {
        let due = self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now()));
        due.saturating_sub(self.interval * (burst - 1))
    }

    /// Counts a footer that is published, or was.
    pub fn count(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.max(at)) + self.interval);
    }

    /// Counts no more than the footers that may be published at once: more than that says that a clock was wrong.
    pub fn bound(&mut self) {
        let most = now() + self.interval * (self.burst + self.urgent);
        self.due = self.due.map(|due| due.min(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For any number of places: those that are published within the rest of one, also at once, have another one.
    #[test]
    fn places_rest_for_as_long_as_they_should() {
        for places in [2u32, 3, 9, 64, 128, 420, 1000, 4096, 65_536] {
            let pace = RateLimiter::new(places.into());
            let within = pace.rest.as_nanos().div_ceil(pace.interval.as_nanos()) as u32;
            let most = pace.burst + pace.urgent + within;
            assert!(places < 9 || most < places, "{places}: {most} footers, {pace:?}");
            assert!(pace.interval <= Duration::from_millis(101), "{places}: {pace:?}");
        }
        let pace = RateLimiter::new(4096);
        assert_eq!((pace.rest, pace.burst), (Duration::from_secs(60), 64));
        assert!(pace.interval < Duration::from_millis(16), "{pace:?}");
        assert_eq!(RateLimiter::new(1000).rest, Duration::from_secs(60));
    }
}
