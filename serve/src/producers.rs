//! The last batch of each producer, which makes repeats harmless. It is part of each commit, as positions of the table,
//! and so survives the server.

use arrowwood::mapping::MutexExt;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

/// The prefix of the position that holds the number of a producer's last batch, followed by the producer's name; and
/// that of its epoch, which is omitted while it is 0.
const SEQUENCE: &str = "producer:";
const EPOCH: &str = "producer-epoch:";

/// The maximum number of a batch and of an epoch: positions are `i64`.
pub(crate) const LARGEST: u64 = i64::MAX as u64;

/// The maximum number of positions of a table.
const MOST: usize = 256;

/// A producer's state in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProducerState {
    pub epoch: u64,
    /// The number of its last batch.
    pub sequence: u64,
    /// The rows of that batch; `None` if another server has committed them.
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
    /// The batch that is `more` after this one.
    pub fn at(&self, more: usize) -> BatchId {
        BatchId { sequence: self.sequence.saturating_add(more as u64), ..self.clone() }
    }
}

/// The kind of a numbered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// To be appended.
    Next,
    /// Already in the table. Its rows are known only if it is the last one.
    Duplicate(ProducerState),
    /// Earlier batches are missing.
    Gap { expected: u64 },
    /// From a producer that was replaced.
    Old { epoch: u64 },
}

/// The kind of a batch, given the producer's state.
pub(crate) fn judge(known: Option<ProducerState>, batch: &BatchId) -> Verdict {
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

/// The state of `producer` in a table's positions.
pub(crate) fn position_in(positions: &BTreeMap<String, i64>, producer: &str) -> Option<ProducerState> {
    let value =
        |prefix: &str| positions.get(&format!("{prefix}{producer}")).and_then(|&value| u64::try_from(value).ok());
    Some(ProducerState { epoch: value(EPOCH).unwrap_or(0), sequence: value(SEQUENCE)?, rows: None })
}

/// The states of one table's producers, as of its newest commit. Only the thread that writes the table changes them.
#[derive(Debug, Default)]
pub(crate) struct Producers(Mutex<HashMap<String, ProducerState>>);

impl Producers {
    fn known(&self) -> MutexGuard<'_, HashMap<String, ProducerState>> {
        self.0.lock_ignoring_poison()
    }

    pub fn get(&self, producer: &str) -> Option<ProducerState> {
        self.known().get(producer).copied()
    }

    /// Loads the positions of the table, which another process may have written since.
    pub fn load(&self, positions: &BTreeMap<String, i64>) {
        let mut known = self.known();
        let names = positions.keys().filter_map(|name| name.strip_prefix(SEQUENCE));
        *known = names
            .filter_map(|name| {
                let position = position_in(positions, name)?;
                let rows = known.get(name).filter(|before| before.sequence == position.sequence);
                Some((name.to_owned(), ProducerState { rows: rows.and_then(|before| before.rows), ..position }))
            })
            .collect();
    }
}

/// The states of producers in the next commit.
#[derive(Debug)]
pub(crate) struct PendingProducers<'a> {
    committed: &'a Producers,
    changed: BTreeMap<String, ProducerState>,
    /// The number of positions that the table has.
    names: usize,
}

impl<'a> PendingProducers<'a> {
    /// `names`: the number of positions that the table has.
    pub fn new(committed: &'a Producers, names: usize) -> PendingProducers<'a> {
        PendingProducers { committed, changed: BTreeMap::new(), names }
    }

    pub fn get(&self, producer: &str) -> Option<ProducerState> {
        self.changed.get(producer).copied().or_else(|| self.committed.get(producer))
    }

    /// Whether the table has room for the position of `batch`.
    pub fn has_room(&self, batch: &BatchId) -> bool {
        self.names + self.new_names(batch) <= MOST
    }

    fn new_names(&self, batch: &BatchId) -> usize {
        match self.get(&batch.producer) {
            None => 1 + usize::from(batch.epoch > 0),
            Some(known) => usize::from(known.epoch == 0 && batch.epoch > 0),
        }
    }

    /// Adds a batch to the next commit.
    pub fn set(&mut self, batch: &BatchId, rows: RowSpan) {
        self.names += self.new_names(batch);
        let position = ProducerState { epoch: batch.epoch, sequence: batch.sequence, rows: Some(rows) };
        self.changed.insert(batch.producer.clone(), position);
    }

    /// Records that a producer was replaced: its batches are refused, though its successor has not sent a new batch
    /// yet.
    pub fn fence(&mut self, batch: &BatchId) {
        let Some(known) = self.get(&batch.producer).filter(|known| known.epoch < batch.epoch) else { return };
        self.names += self.new_names(batch);
        self.changed.insert(batch.producer.clone(), ProducerState { epoch: batch.epoch, ..known });
    }

    /// The positions for the commit: names and values.
    pub fn positions(&self) -> Vec<(String, i64)> {
        let value = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let of = |(name, position): (&String, &ProducerState)| {
            let epoch = (position.epoch > 0).then(|| (format!("{EPOCH}{name}"), value(position.epoch)));
            [Some((format!("{SEQUENCE}{name}"), value(position.sequence))), epoch].into_iter().flatten()
        };
        self.changed.iter().flat_map(of).collect()
    }

    /// Records that the commit was made; called before any batch of it is acknowledged.
    pub fn committed(self) {
        self.committed.known().extend(self.changed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: u64, sequence: u64) -> BatchId {
        BatchId { producer: "p".into(), epoch, sequence }
    }

    #[test]
    fn a_batch_is_next_or_a_duplicate_or_refused() {
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
        let last = ProducerState { sequence: LARGEST, ..known };
        assert_eq!(judge(Some(last), &batch(3, LARGEST)), Verdict::Duplicate(last));
    }

    const ROWS: RowSpan = RowSpan { first_row: 10, end: 20 };

    fn committed(producers: &Producers, batch: &BatchId) -> BTreeMap<String, i64> {
        let mut ahead = PendingProducers::new(producers, 0);
        ahead.set(batch, ROWS);
        let positions = ahead.positions().into_iter().collect();
        ahead.committed();
        positions
    }

    #[test]
    fn positions_are_those_of_the_last_commit_and_of_a_table() {
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
        // The same table, by the same server and by another one.
        producers.load(&positions);
        assert_eq!(producers.get("p"), Some(known));
        let other = Producers::default();
        other.load(&positions);
        assert_eq!(other.get("p"), Some(ProducerState { rows: None, ..known }));
        // Rolled back by another process.
        producers.load(&BTreeMap::from([("producer:p".into(), 3), ("producer:q".into(), -1), ("mine".into(), 5)]));
        assert_eq!(producers.get("p"), Some(ProducerState { epoch: 0, sequence: 3, rows: None }));
        assert_eq!(producers.get("q"), None);
    }

    #[test]
    fn a_fence_is_part_of_the_next_commit() {
        let producers = Producers::default();
        committed(&producers, &batch(1, 4));
        let mut ahead = PendingProducers::new(&producers, 2);
        ahead.fence(&batch(0, 4));
        ahead.fence(&BatchId { producer: "nobody".into(), ..batch(7, 0) });
        assert_eq!(ahead.positions(), []);
        ahead.fence(&batch(7, 4));
        assert_eq!(ahead.positions(), [("producer:p".to_owned(), 4), ("producer-epoch:p".to_owned(), 7)]);
        ahead.committed();
        assert_eq!(producers.get("p"), Some(ProducerState { epoch: 7, sequence: 4, rows: Some(ROWS) }));
    }

    #[test]
    fn a_table_has_room_for_so_many_positions() {
        let producers = Producers::default();
        let mut ahead = PendingProducers::new(&producers, MOST - 2);
        let of = |producer: &str, epoch| BatchId { producer: producer.into(), ..batch(epoch, 0) };
        ahead.set(&of("a", 0), ROWS);
        assert!(!ahead.has_room(&of("b", 1)), "a sequence and an epoch");
        assert!(ahead.has_room(&of("a", 1)), "an epoch");
        ahead.set(&of("b", 0), ROWS);
        assert!(!ahead.has_room(&of("c", 0)) && !ahead.has_room(&of("a", 1)));
        assert!(ahead.has_room(&of("a", 0)), "nothing new");
    }
}
