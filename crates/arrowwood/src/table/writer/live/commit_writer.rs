//! Makes the commits of a segment visible to readers: counts them, proves them, and writes their records.

use super::file::LiveFile;
use crate::error::Result;
use crate::map::{SharedWords, boot_id};
use crate::rows::FillState;
use crate::table::format::{CommitState, EncodedRecord, Proof, RecordHead};
use crate::table::protocol::proof::Checksums;
use crate::table::protocol::publish;

/// The commits of one segment.
#[derive(Debug)]
pub(super) struct CommitWriter {
    /// The number of the newest commit.
    sequence: u64,
    /// Kept to save allocations.
    record: EncodedRecord,
    /// The checksums of what was committed since the durable record `base`.
    sums: Checksums,
    /// The number of that durable record; 0 for an empty segment.
    base: u64,
    /// The mount through which the segment is written.
    mount: u64,
}

impl CommitWriter {
    /// Creates the writer of the commits after commit `sequence`.
    ///
    /// # Errors
    /// The error of asking for the mount.
    pub fn new(file: &LiveFile, sequence: u64) -> std::io::Result<CommitWriter> {
        let counters = file.plan.counters;
        Ok(CommitWriter {
            sequence,
            record: EncodedRecord::new(boot_id(), counters),
            sums: Checksums::since(&file.plan, &file.header, &vec![0; counters]),
            base: 0,
            mount: file.store.mount()?,
        })
    }

    /// Returns the number of the newest commit.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the checksums of what was written, which the next commit takes in.
    pub fn checksums(&mut self) -> &mut Checksums {
        &mut self.sums
    }

    /// Restarts the checksums at the newest durable record. The next commit takes in what is in the file by then.
    #[cold]
    pub fn follow_base(&mut self, file: &LiveFile) {
        let base = file.base.get();
        let zeros = vec![0; file.plan.counters];
        let from = if base.counters.is_empty() { &zeros } else { &base.counters };
        self.sums = Checksums::since(&file.plan, &file.header, from);
        self.base = base.sequence;
    }

    /// Returns true if the next commit is proven since the newest durable record.
    #[inline]
    pub fn is_base_newest(&self, file: &LiveFile) -> bool {
        file.base.sequence() == self.base
    }

    /// Makes the rows up to `filled` visible, by a commit proven since the base. Readers in other processes see them as
    /// soon as this returns.
    ///
    /// # Errors
    /// `Io` if rows can't be read back; nothing was made visible then.
    #[inline]
    pub fn publish(
        &mut self,
        file: &LiveFile,
        filled: &FillState,
        positions: &[i64],
        state: CommitState,
    ) -> Result<()> {
        debug_assert_eq!(
            file.plan.check_counters(&filled.counters, &file.header.limits),
            Ok(()),
            "readers refuse other counters"
        );
        let word = self.sums.advance(&filled.counters, &file.store)?;
        self.sequence += 1;
        self.set_record(self.sequence, state, word, filled, positions);
        publish::commit(&file.store, file.header.page(), self.sequence, self.record.bytes());
        Ok(file.store.check_stored()?)
    }

    /// Writes the record of the commit that will seal the segment, for the next writer to publish if this one is killed
    /// before it does.
    ///
    /// # Errors
    /// `Io` if rows can't be read back; nothing was written then.
    pub fn prepare(
        &mut self,
        file: &LiveFile,
        filled: &FillState,
        positions: &[i64],
        state: CommitState,
    ) -> Result<()> {
        assert!(state.sealed, "only the commit that seals a segment is prepared");
        // Without changing the checksums: the rows may still be rolled back.
        let word = self.sums.clone().advance(&filled.counters, &file.store)?;
        self.set_record(self.sequence + 1, state, word, filled, positions);
        publish::prepare(&file.store, file.header.page(), self.sequence + 1, self.record.bytes());
        Ok(())
    }

    /// Undoes [`CommitWriter::prepare`].
    pub fn forget_prepared(&self, file: &LiveFile) {
        SharedWords::store_words(&file.store, file.header.page().record(self.sequence + 1), &[0; size_of::<u64>()]);
    }

    /// Encodes the record of commit `sequence`, proven by `word`.
    #[inline]
    fn set_record(&mut self, sequence: u64, state: CommitState, word: u32, filled: &FillState, positions: &[i64]) {
        let proof = Proof { word, base: self.base, mount: self.mount };
        self.record.set(RecordHead { sequence, state, proof }, &filled.counters, positions);
    }
}
