//! Records the last batch of each producer, so that a repeated batch is not appended again.
//!
//! A producer numbers its batches, and has a name and an epoch. Who takes over from a failed producer uses its name
//! with a larger epoch; from then on batches of the earlier epoch are refused. The records are *positions* of the
//! table: named integers that are part of each commit, so that they survive the server and are never newer or older
//! than the rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use arrowwood::mapping::MutexExt;

/// The prefix of the position with the number of a producer's last batch, before the producer's name.
const SEQUENCE: &str = "producer:";
/// The prefix of the position with a producer's epoch, which is omitted while it is 0.
const EPOCH: &str = "producer-epoch:";

/// The epoch of a producer that has not replaced another one. It has no position.
pub(crate) const FIRST_EPOCH: u64 = 0;

/// The maximum number of a batch and of an epoch, as positions are `i64`.
pub(crate) const MAX_NUMBER: u64 = i64::MAX as u64;

/// The maximum number of positions of a table.
pub(crate) const MAX_POSITIONS: usize = 256;

/// A producer's state in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerState {
    pub epoch: u64,
    /// The number of the last batch.
    pub sequence: u64,
    /// The rows of the last batch; `None` if another server has committed them.
    pub rows: Option<RowSpan>,
}

/// The rows of a batch, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSpan {
    pub first_row: u64,
    pub end: u64,
}

/// A batch as numbered by its producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchId {
    pub producer: String,
    pub epoch: u64,
    pub sequence: u64,
}

impl BatchId {
    /// Returns true if `count` batches from this one on have numbers up to [`MAX_NUMBER`].
    pub fn can_number(&self, count: usize) -> bool {
        self.sequence.saturating_add(count as u64) <= MAX_NUMBER + 1
    }

    /// Returns the batch `offset` after this one.
    pub fn nth_after(&self, offset: usize) -> BatchId {
        BatchId { sequence: self.sequence + offset as u64, ..self.clone() }
    }
}

/// The decision about a numbered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The batch is appended.
    Next,
    /// The batch is in the table. Its rows are known only if it is the last one.
    Duplicate(ProducerState),
    /// Earlier batches are missing.
    Gap { expected: u64 },
    /// The producer was replaced by one of a later epoch.
    Old { epoch: u64 },
}

/// Decides about a batch, given the state of its producer in the table.
pub(crate) fn judge(state: Option<ProducerState>, batch: &BatchId) -> Verdict {
    let Some(state) = state else { return Verdict::Next };
    if batch.epoch < state.epoch {
        return Verdict::Old { epoch: state.epoch };
    }
    if batch.sequence <= state.sequence {
        return Verdict::Duplicate(state);
    }
    // The sequence of the batch is larger, so there is a next number.
    let expected = state.sequence + 1;
    if batch.sequence == expected { Verdict::Next } else { Verdict::Gap { expected } }
}

/// Returns the state of `producer` in a table's positions.
pub(crate) fn position_in(positions: &BTreeMap<String, i64>, producer: &str) -> Option<ProducerState> {
    let sequence = position_value(positions, SEQUENCE, producer)?;
    let epoch = position_value(positions, EPOCH, producer).unwrap_or(FIRST_EPOCH);
    Some(ProducerState { epoch, sequence, rows: None })
}

/// Returns the value of a position, unless it is negative, which is none of this server's.
fn position_value(positions: &BTreeMap<String, i64>, prefix: &str, producer: &str) -> Option<u64> {
    let value = positions.get(&format!("{prefix}{producer}"))?;
    u64::try_from(*value).ok()
}

/// The states of one table's producers in its newest commit. Only the thread that writes the table changes them.
#[derive(Debug, Default)]
pub(crate) struct Producers(Mutex<HashMap<String, ProducerState>>);

impl Producers {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, ProducerState>> {
        self.0.lock_ignoring_poison()
    }

    pub fn get(&self, producer: &str) -> Option<ProducerState> {
        self.lock().get(producer).copied()
    }

    /// Loads the positions of the table, which another process may have written in the meantime.
    pub fn load(&self, positions: &BTreeMap<String, i64>) {
        let mut states = self.lock();
        let mut loaded = HashMap::new();
        for name in positions.keys().filter_map(|name| name.strip_prefix(SEQUENCE)) {
            let Some(mut state) = position_in(positions, name) else { continue };
            // Positions don't contain rows; they are known if this server has committed the same batch.
            if let Some(before) = states.get(name)
                && before.sequence == state.sequence
            {
                state.rows = before.rows;
            }
            loaded.insert(name.to_owned(), state);
        }
        *states = loaded;
    }
}

/// The states of producers in the next commit.
#[derive(Debug)]
pub(crate) struct PendingProducers<'a> {
    committed: &'a Producers,
    changed: BTreeMap<String, ProducerState>,
    /// The number of positions that the table has with the next commit.
    position_count: usize,
}

impl<'a> PendingProducers<'a> {
    /// Begins a commit to a table with `position_count` positions.
    pub fn new(committed: &'a Producers, position_count: usize) -> PendingProducers<'a> {
        PendingProducers { committed, changed: BTreeMap::new(), position_count }
    }

    pub fn get(&self, producer: &str) -> Option<ProducerState> {
        self.changed.get(producer).copied().or_else(|| self.committed.get(producer))
    }

    /// Returns true if the table has room for the position of `batch`.
    pub fn has_room(&self, batch: &BatchId) -> bool {
        self.position_count + self.count_new_positions(batch) <= MAX_POSITIONS
    }

    fn count_new_positions(&self, batch: &BatchId) -> usize {
        match self.get(&batch.producer) {
            None => 1 + usize::from(batch.epoch > FIRST_EPOCH),
            Some(state) => usize::from(state.epoch == FIRST_EPOCH && batch.epoch > FIRST_EPOCH),
        }
    }

    /// Adds a batch to the next commit.
    pub fn set(&mut self, batch: &BatchId, rows: RowSpan) {
        if let Some(state) = self.get(&batch.producer) {
            // An older state would let duplicates be appended again.
            let is_newer = state.epoch <= batch.epoch && state.sequence < batch.sequence;
            assert!(is_newer, "batch {batch:?} is recorded after {state:?}");
        }
        assert!(rows.first_row <= rows.end, "the rows {rows:?} of a batch end before they begin");
        self.position_count += self.count_new_positions(batch);
        let state = ProducerState { epoch: batch.epoch, sequence: batch.sequence, rows: Some(rows) };
        self.changed.insert(batch.producer.clone(), state);
    }

    /// Records that a producer was replaced. Its batches are refused even before its successor has sent a new batch.
    pub fn fence(&mut self, batch: &BatchId) {
        let Some(state) = self.get(&batch.producer) else { return };
        if state.epoch >= batch.epoch {
            return;
        }
        self.position_count += self.count_new_positions(batch);
        self.changed.insert(batch.producer.clone(), ProducerState { epoch: batch.epoch, ..state });
    }

    /// Returns the positions for the commit: names and values.
    pub fn positions(&self) -> Vec<(String, i64)> {
        let mut positions = Vec::new();
        for (name, state) in &self.changed {
            assert!(state.sequence.max(state.epoch) <= MAX_NUMBER, "{state:?} fits into no position");
            positions.push((format!("{SEQUENCE}{name}"), state.sequence as i64));
            if state.epoch > FIRST_EPOCH {
                positions.push((format!("{EPOCH}{name}"), state.epoch as i64));
            }
        }
        positions
    }

    /// Records that the commit was made. Must be called before any batch of it is acknowledged.
    pub fn on_committed(self) {
        self.committed.lock().extend(self.changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: u64, sequence: u64) -> BatchId {
        BatchId { producer: "p".into(), epoch, sequence }
    }

    #[test]
    fn batches_are_next_duplicate_or_refused() {
        let known = ProducerState { epoch: 3, sequence: 17, rows: Some(RowSpan { first_row: 5, end: 9 }) };
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
        let last = ProducerState { sequence: MAX_NUMBER, ..known };
        assert_eq!(judge(Some(last), &batch(3, MAX_NUMBER)), Verdict::Duplicate(last));
    }

    #[test]
    fn batches_are_numbered_up_to_the_maximum() {
        assert!(batch(0, MAX_NUMBER).can_number(1));
        assert!(batch(0, MAX_NUMBER - 2).can_number(3));
        assert!(!batch(0, MAX_NUMBER - 2).can_number(4));
        assert!(!batch(0, MAX_NUMBER).can_number(usize::MAX));
    }

    const ROWS: RowSpan = RowSpan { first_row: 10, end: 20 };

    fn committed(producers: &Producers, batch: &BatchId) -> BTreeMap<String, i64> {
        let mut ahead = PendingProducers::new(producers, 0);
        ahead.set(batch, ROWS);
        let positions = ahead.positions().into_iter().collect();
        ahead.on_committed();
        positions
    }

    #[test]
    fn states_come_from_the_last_commit_or_from_the_table() {
        let producers = Producers::default();
        assert_eq!(producers.get("p"), None);
        let mut given_up = PendingProducers::new(&producers, 0);
        given_up.set(&batch(1, 0), ROWS);
        assert_eq!(given_up.get("p").map(|position| position.sequence), Some(0));
        drop(given_up);
        assert_eq!(producers.get("p"), None);
        let positions = committed(&producers, &batch(1, 4));
        let known = ProducerState { epoch: 1, sequence: 4, rows: Some(ROWS) };
        assert_eq!(producers.get("p"), Some(known));
        // The same table, written by the same server and by another one.
        producers.load(&positions);
        assert_eq!(producers.get("p"), Some(known));
        let other = Producers::default();
        other.load(&positions);
        assert_eq!(other.get("p"), Some(ProducerState { rows: None, ..known }));
        // Another process has rolled the table back.
        producers.load(&BTreeMap::from([("producer:p".into(), 3), ("producer:q".into(), -1), ("mine".into(), 5)]));
        assert_eq!(producers.get("p"), Some(ProducerState { epoch: 0, sequence: 3, rows: None }));
        assert_eq!(producers.get("q"), None);
    }

    #[test]
    fn fence_is_part_of_the_next_commit() {
        let producers = Producers::default();
        committed(&producers, &batch(1, 4));
        let mut ahead = PendingProducers::new(&producers, 2);
        ahead.fence(&batch(0, 4));
        ahead.fence(&BatchId { producer: "nobody".into(), ..batch(7, 0) });
        assert_eq!(ahead.positions(), []);
        ahead.fence(&batch(7, 4));
        assert_eq!(ahead.positions(), [("producer:p".to_owned(), 4), ("producer-epoch:p".to_owned(), 7)]);
        ahead.on_committed();
        assert_eq!(producers.get("p"), Some(ProducerState { epoch: 7, sequence: 4, rows: Some(ROWS) }));
    }

    #[test]
    fn a_table_has_a_maximum_number_of_positions() {
        let producers = Producers::default();
        let mut ahead = PendingProducers::new(&producers, MAX_POSITIONS - 2);
        let batch_by = |producer: &str, epoch| BatchId { producer: producer.into(), ..batch(epoch, 0) };
        ahead.set(&batch_by("a", 0), ROWS);
        assert!(!ahead.has_room(&batch_by("b", 1)), "a sequence and an epoch");
        assert!(ahead.has_room(&batch_by("a", 1)), "an epoch");
        ahead.set(&batch_by("b", 0), ROWS);
        assert!(!ahead.has_room(&batch_by("c", 0)) && !ahead.has_room(&batch_by("a", 1)));
        assert!(ahead.has_room(&batch_by("a", 0)), "nothing new");
    }
}
