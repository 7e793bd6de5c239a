//! Which batch of which producer was the last: what makes a repeat harmless.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The most producers of one table; of more the one that was silent for longest is forgotten.
const MOST: usize = 100_000;

/// Where a producer is with one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub epoch: u64,
    /// The number of its last batch.
    pub sequence: u64,
    /// The rows of that batch.
    pub first_row: u64,
    pub end: u64,
}

/// A batch as its producer has numbered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub producer: String,
    pub epoch: u64,
    pub sequence: u64,
}

/// What a numbered batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// To be appended.
    Next,
    /// There already. The rows are known of the last one only.
    Duplicate(Position),
    /// Batches before it did not come.
    Gap { expected: u64 },
    /// From a producer that was replaced.
    Old { epoch: u64 },
}

/// What a batch is, given the producer's position.
pub(crate) fn judge(known: Option<Position>, batch: &Numbered) -> Verdict {
    let Some(known) = known else { return Verdict::Next };
    if batch.epoch < known.epoch {
        return Verdict::Old { epoch: known.epoch };
    }
    match known.sequence.checked_add(1) {
        _ if batch.sequence <= known.sequence => Verdict::Duplicate(known),
        Some(next) if batch.sequence == next => Verdict::Next,
        next => Verdict::Gap { expected: next.unwrap_or(u64::MAX) },
    }
}

/// The positions of one table's producers. Only the thread that writes the table changes them.
pub(crate) trait Positions: Send + Sync {
    fn get(&self, producer: &str) -> Option<Position>;

    /// Takes in the batches of one commit: called behind it, before any of them is acknowledged.
    fn committed(&self, batches: Vec<(Numbered, Position)>);

    /// A producer that was replaced sends nothing any more, though its successor has not sent a batch yet.
    fn fence(&self, producer: &str, epoch: u64);

    /// Whether they are part of the commit, and so survive the server.
    fn are_persistent(&self) -> bool;
}

/// Positions that live as long as the server.
#[derive(Debug, Default)]
pub(crate) struct InMemory(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    positions: HashMap<String, (Position, u64)>,
    /// Counts what was heard, to know who was silent.
    clock: u64,
}

impl Positions for InMemory {
    fn get(&self, producer: &str) -> Option<Position> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.positions.get(producer).map(|(position, _)| *position)
    }

    fn committed(&self, batches: Vec<(Numbered, Position)>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (batch, position) in batches {
            known.clock += 1;
            let clock = known.clock;
            known.positions.insert(batch.producer, (position, clock));
        }
        while known.positions.len() > MOST {
            let silent = known.positions.iter().min_by_key(|(_, (_, heard))| *heard).map(|(name, _)| name.clone());
            let Some(silent) = silent else { return };
            known.positions.remove(&silent);
        }
    }

    fn fence(&self, producer: &str, epoch: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((position, _)) = known.positions.get_mut(producer) {
            position.epoch = position.epoch.max(epoch);
        }
    }

    fn are_persistent(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: u64, sequence: u64) -> Numbered {
        Numbered { producer: "p".into(), epoch, sequence }
    }

    #[test]
    fn a_batch_is_next_or_a_duplicate_or_refused() {
        let known = Position { epoch: 3, sequence: 17, first_row: 5, end: 9 };
        for (epoch, sequence, verdict) in [
            (3, 18, Verdict::Next),
            (4, 18, Verdict::Next),
            (3, 17, Verdict::Duplicate(known)),
            (4, 0, Verdict::Duplicate(known)),
            (3, 19, Verdict::Gap { expected: 18 }),
            (9, 30, Verdict::Gap { expected: 18 }),
            (2, 18, Verdict::Old { epoch: 3 }),
            (2, 17, Verdict::Old { epoch: 3 }),
        ] {
            assert_eq!(judge(Some(known), &batch(epoch, sequence)), verdict, "{epoch} {sequence}");
        }
        assert_eq!(judge(None, &batch(0, 12)), Verdict::Next);
        let last = Position { sequence: u64::MAX, ..known };
        assert_eq!(judge(Some(last), &batch(3, u64::MAX)), Verdict::Duplicate(last));
    }

    #[test]
    fn positions_are_those_of_the_last_commit() {
        let positions = InMemory::default();
        assert_eq!(positions.get("p"), None);
        let position = |sequence| Position { epoch: 1, sequence, first_row: 10 * sequence, end: 10 * sequence + 10 };
        positions.committed(vec![(batch(1, 0), position(0)), (batch(1, 1), position(1))]);
        assert_eq!(positions.get("p"), Some(position(1)));
        positions.fence("p", 7);
        positions.fence("nobody", 7);
        assert_eq!(positions.get("p"), Some(Position { epoch: 7, ..position(1) }));
        assert_eq!(positions.get("nobody"), None);
        assert!(!positions.are_persistent());
    }
}
