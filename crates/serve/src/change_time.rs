//! Tells whether a file or directory has changed, by the time of its last change.

use std::time::{Duration, SystemTime};

use arrowwood::mapping::os::{FileInfo, changed_time};

/// The granularity of the times of changes. File systems record them with a granularity of at most a second, by a clock
/// that may be slightly late.
const GRANULARITY: Duration = Duration::from_millis(1_100);

/// The time of the last change of a file or directory. Programs can set the time of the last write, but not this one.
///
/// Two changes in quick succession may have the same time. A reader that wants to know later if the file is still as it
/// was read must therefore read the time, ask whether it [is distinct](ChangeTime::is_distinct), and then read the
/// file. Only a time that was distinct by then tells whether the file has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeTime {
    seconds: i64,
    nanos: i64,
}

impl ChangeTime {
    pub fn from_metadata(data: &FileInfo) -> ChangeTime {
        let (seconds, nanos) = changed_time(data);
        ChangeTime { seconds, nanos }
    }

    /// Returns true if a change from now on gets another time than this. Returns false for a time that can't be right,
    /// such as one before 1970 or in the future.
    pub fn is_distinct(self) -> bool {
        self.age().is_some_and(|age| age > GRANULARITY)
    }

    fn age(self) -> Option<Duration> {
        let since_epoch = Duration::new(u64::try_from(self.seconds).ok()?, u32::try_from(self.nanos).ok()?);
        let changed = SystemTime::UNIX_EPOCH.checked_add(since_epoch)?;
        SystemTime::now().duration_since(changed).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_in_the_past_are_distinct() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
        for (seconds, is_distinct) in
            [(now - 10, true), (now + 1_000, false), (-1, false), (i64::MAX, false), (i64::MIN, false)]
        {
            assert_eq!(ChangeTime { seconds, nanos: 0 }.is_distinct(), is_distinct, "{seconds}");
        }
    }
}
