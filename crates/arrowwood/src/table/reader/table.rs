//! Opens and refreshes a table for its readers: sealed segments, which are opened when their rows are first needed, and
//! the live one at one commit.
//!
//! A dataset never changes. A refresh compares the number of the newest commit in the live segment, one word, with that
//! of the dataset's commit. If they are equal, and no name has changed that could matter, the dataset is returned
//! again. If only commits were added, the new dataset shares everything but the record. If the segment was sealed, the
//! next ones are found by their names ([`LiveSource::follow_names`]); in all other cases the directory is listed again
//! ([`LiveSource::reopen`]), and segments that are the same files stay open.
//!
//! ```text
//! Dataset ── pieces ──▶ SealedSource { segment, segment, … } shared by all newer datasets until a segment is sealed
//!                  └──▶ LiveSource { segment, commit }       one for each refresh that finds a newer commit
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::Schema;

use super::chain;
use super::chain::{SegmentChain, open_dense, open_last, repeated};
use super::live::{Growth, LiveSource};
use super::sealed_source::{
    self, OpenedSegment, SealedSource, SegmentEntry, Snapshot, TableInfo, dense_positions, dense_settings,
};
use super::segment::Segment;
use crate::dataset::{Batches, Dataset, Origin, Source, SourceSlice, resolve_columns};
use crate::directory::{FileId, exists};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::ReadOptions;
use crate::map::{self, ChangeCheck, boot_id, guard, mappings_are_scarce};
use crate::table::format::{LivePage, Record};

/// Opens the table in `folder`; `None` if there is none.
pub(crate) fn open(folder: &Path, options: ReadOptions) -> Result<Option<Dataset>> {
    // The process may change its working directory.
    let folder = &std::path::absolute(folder).map_err(|e| Error::io("finding the table's directory", &e))?;
    guard(|| {
        repeated(folder, || match SegmentChain::open(folder)? {
            Some(chain) => open_chain(folder, options, chain, None),
            None => Ok(None),
        })
    })
}

/// An earlier state of the table, whose open segments are used again.
struct PreviousTable<'a> {
    table: &'a Arc<TableInfo>,
    history: Option<&'a SealedSource>,
    /// The live segment; `None` if there was none, or if its mapping must not be used again.
    live: Option<&'a Arc<Segment>>,
}

/// Opens the table that `chain` has found; `None` if the files are no table although they have such names.
fn open_chain(
    folder: &Path,
    options: ReadOptions,
    chain: SegmentChain,
    before: Option<PreviousTable<'_>>,
) -> Result<Option<Dataset>> {
    let Some(&last_start) = chain.starts.last() else {
        return Err(Error::new(ErrorKind::NotFound, "a table without segments").at(folder));
    };

    // Its identity is taken before it is opened: if it is replaced in between, the next check finds the difference.
    let last_file = FileId::find(&chain::path(folder, last_start))?.filter(|_| chain.last.is_none());
    let dense = match &chain.last {
        Some(_) => None,
        None => Some(open_dense(&chain::path(folder, last_start), options)?),
    };
    let (schema, settings) = match (&chain.last, &dense) {
        (Some((segment, _)), _) => (segment.plan.schema.schema.clone(), segment.header.settings()),
        (None, Some(ipc)) => (ipc.schema().clone(), dense_settings(ipc.schema()).map_err(|e| e.at(folder))?),
        (None, None) => return Err(Error::internal("a table without a last segment").at(folder)),
    };

    if let Some(ipc) = &dense {
        // Files that were pushed to a store and copied back are no segments, although they have such names.
        if ipc.is_indexed() || ipc.num_batches()? > 1 {
            return Ok(None);
        }
        // A dense segment was opened by its name, which another directory may have as well.
        if FileId::find(folder)? != chain.folder_id {
            return Err(sealed_source::replaced(folder));
        }
    }

    // Segments read with another schema, or from another directory, can't be shared.
    let folder_id = chain.folder_id;
    let before =
        before.filter(|before| before.table.schema.fields() == schema.fields() && before.table.folder_id == folder_id);
    let table = match &before {
        Some(before) => before.table.clone(),
        None => {
            let dropped = AtomicU64::default();
            Arc::new(TableInfo { folder: folder.to_path_buf(), folder_id, schema, options, settings, dropped })
        }
    };

    let mut entries = sealed_entries(&chain.starts, before.as_ref().and_then(|before| before.history));
    if let Some(ipc) = dense {
        let rows = ipc.count_until(u64::MAX)?;
        entries.push(SegmentEntry::opened(last_start, rows, OpenedSegment::Dense(Box::new(ipc))));
    }
    let history = SealedSource::new(&table, entries, last_file);
    let live = chain.last.map(|(segment, record)| {
        let segment = match before.and_then(|before| before.live) {
            Some(live) if live.mapping.is_same_file(&segment.mapping) => live.clone(),
            // An empty segment may have been replaced by a larger file, with the same first row and other offsets.
            _ => Arc::new(segment),
        };
        LiveSource::new(&table, history.clone(), Snapshot::new(segment, record))
    });

    Ok(Some(dataset(&table, history, live)))
}

/// Returns the entries of all segments but the last of those that begin with rows `starts`. Entries of an earlier state
/// that have the same rows are used again.
fn sealed_entries(starts: &[u64], before: Option<&SealedSource>) -> Vec<Arc<SegmentEntry>> {
    let mut entries = Vec::with_capacity(starts.len());
    for (first_row, next) in chain::with_next(starts) {
        assert!(first_row < next, "segments are listed in the order of their rows");
        let rows = next - first_row;
        let entry = match before.and_then(|history| history.find(first_row)) {
            Some(entry) if entry.rows == rows => entry.clone(),
            _ => SegmentEntry::new(first_row, rows),
        };
        entries.push(entry);
    }
    entries
}

/// Makes a dataset of the sealed segments and the live one, with all columns.
fn dataset(table: &Arc<TableInfo>, history: Option<Arc<SealedSource>>, live: Option<LiveSource>) -> Dataset {
    let columns: Arc<[usize]> = (0..table.schema.fields().len()).collect();
    let mut sources: Vec<Arc<dyn Source>> = Vec::with_capacity(2);
    if let Some(history) = history {
        sources.push(history);
    }
    if let Some(live) = live {
        sources.push(Arc::new(live));
    }
    let slices =
        sources.into_iter().map(|source| SourceSlice { source, columns: columns.clone(), start: 0, rows: None });
    Dataset::from_slices(table.schema.clone(), slices.collect())
}

impl LiveSource {
    /// Creates the source of `snapshot`, which follows `history`.
    fn new(table: &Arc<TableInfo>, history: Option<Arc<SealedSource>>, snapshot: Snapshot) -> LiveSource {
        let start = history.as_ref().map_or(snapshot.segment.header.first_row, |history| history.start());
        LiveSource { table: table.clone(), history, start, snapshot }
    }

    /// Returns true if there is no newer commit, and no segment is known to be gone.
    #[inline]
    fn is_newest(&self) -> bool {
        let Snapshot { segment, record, .. } = &self.snapshot;
        // If the files can't be inspected, they may have changed: a refresh returns the error.
        segment.sequence() == segment.expected_sequence(record) && matches!(self.have_files_changed(), Ok(false))
    }

    /// Returns true if other files have rows that this commit lacks, or lack rows that it has.
    #[inline]
    fn have_files_changed(&self) -> Result<bool> {
        Ok(self.snapshot.record.sealed && self.has_more()?
            || self.is_replaced()?
            || self.lacks_segments()
            || self.snapshot.segment.is_left_behind()?
            || self.may_recover_more()?)
    }

    /// Returns true if segments of the history are known to be gone, because a reader didn't find one.
    #[inline]
    fn lacks_segments(&self) -> bool {
        self.table.dropped.load(Ordering::Relaxed) > self.start
    }

    /// Returns true if the first segments were dropped before the commit of `record`.
    ///
    /// A writer that has dropped segments makes a commit without rows. Names are checked only after such a commit, or
    /// after several commits, one of which may be one without rows: checking a name takes as long as a whole refresh
    /// that finds one more commit.
    fn has_dropped(&self, record: &Record) -> Result<bool> {
        let last = &self.snapshot.record;
        let may_have_dropped = record.sequence > last.sequence + 1 || record.counters == last.counters;
        if self.history.is_none() || !may_have_dropped || exists(&chain::path(&self.table.folder, self.start))? {
            return Ok(false);
        }
        // A table that was moved has all of its segments.
        self.is_in_place()
    }

    /// Returns true if rows may follow this sealed segment: the next segment's name exists, or this one was merged,
    /// perhaps with the next. A file that is merged may have other names, as in a backup of links.
    fn has_more(&self) -> Result<bool> {
        Ok(exists(&self.next_path())?
            || self.snapshot.segment.is_removed()?
            || !self.is_in_place()? && exists(&self.table.folder)?)
    }

    /// Returns true if a larger file has replaced this empty segment. Its writer may have been killed before it marked
    /// this one as sealed.
    fn is_replaced(&self) -> Result<bool> {
        Ok(self.snapshot.record.rows() == 0 && self.snapshot.segment.is_replaced_at(&self.path())?)
    }

    /// Returns true if the segment's file still has its name in the table's folder.
    fn is_in_place(&self) -> Result<bool> {
        self.snapshot.segment.is_at(&self.path())
    }

    /// Returns the path with the segment's name in the table's folder.
    fn path(&self) -> PathBuf {
        chain::path(&self.table.folder, self.snapshot.segment.header.first_row)
    }

    /// Returns the path at which rows continue once the segment is sealed. This path has to be watched, as compaction
    /// seals the last segment and replaces it, so that its words don't change any more.
    fn next_path(&self) -> PathBuf {
        let Snapshot { segment, record, .. } = &self.snapshot;
        chain::path(&self.table.folder, segment.header.first_row + record.rows())
    }

    /// Returns the current state of the table.
    fn refresh(&self) -> Result<Dataset> {
        let Snapshot { segment, record: last, .. } = &self.snapshot;
        if self.may_recover_more()? {
            return repeated(&self.table.folder, || self.reopen());
        }
        let record = segment.newest()?;
        if record.sequence < last.sequence {
            return Err(segment.mapping.mark_changed().into());
        }
        let is_replaced = record.rows() == 0 && self.is_replaced()?;
        let lacks_segments = self.lacks_segments() || self.has_dropped(&record)?;
        let is_behind = segment.is_left_behind()?;
        if !is_behind && !record.sealed && !segment.is_outdated(&record) && !is_replaced && !lacks_segments {
            let snapshot = Snapshot::new(segment.clone(), record);
            let live = LiveSource::new(&self.table, self.history.clone(), snapshot);
            return Ok(dataset(&self.table, self.history.clone(), Some(live)));
        }
        if record.sealed
            && !is_behind
            && let Some(dataset) = self.follow_names(&record)?
        {
            return Ok(dataset);
        }
        repeated(&self.table.folder, || self.reopen())
    }

    /// Returns true if the rows were recovered, and another machine may have synced more since, by which the number of the
    /// newest commit need not change.
    #[inline]
    fn may_recover_more(&self) -> Result<bool> {
        let Snapshot { segment, record, .. } = &self.snapshot;
        Ok(record.boot != boot_id() && segment.may_recover_more(record)?)
    }

    /// Lists the folder, and returns the current state of the table.
    fn reopen(&self) -> Result<Dataset> {
        let segment = &self.snapshot.segment;
        let chain = open_existing_chain(&self.table.folder)?;
        // Earlier rows may be in another order, but the live segment's rows are the same while its file is.
        if chain.folder_id != self.table.folder_id && !self.is_in_place()? {
            return Err(self.table.replaced());
        }
        // A replayed segment's pages are private, and miss later writes.
        let is_outdated = segment.replayed.is_some() || segment.is_left_behind()? || self.may_recover_more()?;
        let live = if is_outdated { None } else { Some(segment) };
        let before = PreviousTable { table: &self.table, history: self.history.as_deref(), live };
        let newer = open_chain(&self.table.folder, self.table.options, chain, Some(before))?;
        newer.ok_or_else(|| sealed_source::replaced(&self.table.folder))
    }

    /// Returns the current state of the table, if the segment is sealed by `record`: later segments are found by their
    /// names, without opening the others. `None` if the folder has to be listed.
    fn follow_names(&self, record: &Record) -> Result<Option<Dataset>> {
        let Snapshot { segment, .. } = &self.snapshot;
        let folder = &self.table.folder;

        // A replayed segment's pages are private, and miss later writes.
        if record.boot != boot_id() || segment.replayed.is_some() {
            return Ok(None);
        }

        // Earlier segments may be dropped.
        let first_row = self.history.as_ref().map_or(segment.header.first_row, |history| history.start());
        if !self.table.is_in_place()? || !exists(&chain::path(folder, first_row))? {
            return Ok(None);
        }
        let mut segment = segment.clone();
        let mut record = record.clone();
        let mut sealed = Vec::new();

        while record.sealed {
            let first_row = segment.header.first_row;
            let rows = record.rows();
            if rows == 0 {
                // The next segment has the same name, and may have replaced this one.
                return Ok(None);
            }
            // A sealed segment reaches up to the next one, whatever the next one contains.
            let next = match open_last(&chain::path(folder, first_row + rows)) {
                Ok(Some((next, newest))) if newest.boot == boot_id() && self.has_schema_of(&next) => {
                    (Arc::new(next), newest)
                }
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => return Ok(None),
            };
            sealed.push(if mappings_are_scarce() {
                SegmentEntry::new(first_row, rows)
            } else {
                segment.mapping.close_file();
                SegmentEntry::opened(first_row, rows, OpenedSegment::Growable(Snapshot::new(segment, record)))
            });
            (segment, record) = next;
        }

        // The segments were opened by their names, which another directory may have as well.
        if !self.table.is_in_place()? {
            return Ok(None);
        }
        assert!(!sealed.is_empty(), "the segment was sealed");
        let history = match &self.history {
            Some(history) => history.with(sealed),
            None => SealedSource::new(&self.table, sealed, None),
        };
        let Some(history) = history else { return Ok(None) };
        let snapshot = Snapshot::new(segment, record);
        let live = LiveSource::new(&self.table, Some(history.clone()), snapshot);
        Ok(Some(dataset(&self.table, Some(history), Some(live))))
    }

    /// Returns true if the next segment has the same schema: each commit may be the first with a newer one.
    fn has_schema_of(&self, next: &Segment) -> bool {
        self.table.schema.fields() == next.plan.schema.schema.fields()
    }
}

/// Returns the current state of a table that had no live segment.
fn refresh_ended(history: &SealedSource) -> Result<Dataset> {
    let chain = open_existing_chain(&history.table.folder)?;
    if chain.folder_id != history.table.folder_id {
        return Err(history.table.replaced());
    }
    let before = PreviousTable { table: &history.table, history: Some(history), live: None };
    let newer = open_chain(&history.table.folder, history.table.options, chain, Some(before))?;
    newer.ok_or_else(|| sealed_source::replaced(&history.table.folder))
}

/// Finds the segments of a table that was open before.
///
/// # Errors
/// `NotFound` if the table is gone, or the errors of [`SegmentChain::open`].
fn open_existing_chain(folder: &Path) -> Result<SegmentChain> {
    SegmentChain::open(folder)?.ok_or_else(|| Error::new(ErrorKind::NotFound, "the table has gone").at(folder))
}

/// # Newer rows
impl Dataset {
    /// Returns the dataset with rows committed since, and without those dropped since.
    ///
    /// That is a newer dataset, or this one if nothing has changed. Slices, and data that doesn't grow, don't change;
    /// older datasets stay valid.
    ///
    /// # Errors
    /// `InvalidData` for a damaged commit record, `FileChanged` if the live segment was changed by another program than
    /// the writer.
    #[inline]
    pub fn refresh(&self) -> Result<Dataset> {
        if self.is_newest() {
            return Ok(self.clone());
        }
        if let Some(origin) = self.origin() {
            return self.refresh_partitions(origin.as_ref());
        }
        map::with_change_check(ChangeCheck::Seldom, |when| self.check_live_unchanged(when), || self.refresh_pieces())
    }

    /// Checks the live segments only: among thousands of segments, no other can have changed.
    fn check_live_unchanged(&self, when: ChangeCheck) -> Result<()> {
        self.pieces().iter().filter_map(growing).try_for_each(|live| live.snapshot.segment.check_unchanged(when))
    }

    /// Returns true if [`Dataset::refresh`] would find nothing new.
    ///
    /// False if it would find that a file has changed.
    #[inline]
    pub fn is_newest(&self) -> bool {
        if let Some(origin) = self.origin() {
            return origin.is_newest();
        }
        guard(|| Ok::<_, Error>(self.pieces().iter().all(is_newest))).unwrap_or(false)
    }

    /// Returns the same columns of all current partitions.
    fn refresh_partitions(&self, origin: &dyn Origin) -> Result<Dataset> {
        let mut columns: Arc<[usize]> = match self.pieces().first() {
            Some(piece) => piece.columns.clone(),
            // All partitions were dropped.
            None => {
                let names = self.schema().fields().iter().map(|field| origin.schema().index_of(field.name()));
                names.collect::<std::result::Result<_, _>>().map_err(|_| {
                    Error::invalid_argument("renamed columns of no partition can't be found in new ones")
                })?
            }
        };
        let (mut pieces, newer) = origin.refresh()?;
        let mut schema = self.schema().clone();
        if origin.schema().fields() != newer.schema().fields() {
            (schema, columns) = resolve_columns(self.schema(), &columns, origin.schema(), newer.schema())?;
        }
        pieces.iter_mut().for_each(|piece| piece.columns = columns.clone());
        Ok(Dataset::from_origin(schema, pieces, newer))
    }

    /// Refreshes each table of the dataset, and leaves the other pieces as they are.
    fn refresh_pieces(&self) -> Result<Dataset> {
        let mut pieces: Vec<SourceSlice> = Vec::new();
        let mut schema = self.schema().clone();
        for piece in self.pieces() {
            let newer = match (growing(piece), ended(piece)) {
                (Some(live), _) => live.refresh()?,
                (None, Some(history)) if !is_newest(piece) => {
                    repeated(&history.table.folder, || refresh_ended(history))?
                }
                _ => {
                    pieces.push(piece.clone());
                    continue;
                }
            };
            // The piece before the live segment is replaced together with it.
            pieces.pop_if(|last| whole_history(last).is_some() && is_same_table(last, piece));
            let mut columns = piece.columns.clone();
            if piece.source.schema().fields() != newer.schema().fields() {
                (schema, columns) = resolve_columns(self.schema(), &columns, piece.source.schema(), newer.schema())?;
            }
            pieces.extend(newer.pieces().iter().map(|newer| SourceSlice { columns: columns.clone(), ..newer.clone() }));
        }

        if !Arc::ptr_eq(&schema, self.schema()) {
            pieces.iter().try_for_each(|piece| check_schema(piece, &schema))?;
        }
        Ok(Dataset::from_slices(schema, pieces))
    }
}

/// # Progress of producers
impl Dataset {
    /// Returns the positions of the newest commit that the dataset includes, by name.
    ///
    /// They are the progress of the table's producers. Empty if it is not a table.
    ///
    /// # Errors
    /// `InvalidData` if the last segment is damaged.
    pub fn positions(&self) -> Result<BTreeMap<String, i64>> {
        Ok(self.position_names()?.into_iter().zip(self.position_values()?).collect())
    }

    /// Returns the names of the positions, in the order of [`Dataset::position_values`].
    pub(in crate::table) fn position_names(&self) -> Result<Vec<String>> {
        self.collect_positions(|snapshot| snapshot.segment.position_names(&snapshot.record), |name, _| name.into())
    }

    /// Returns the values of the positions.
    pub(in crate::table) fn position_values(&self) -> Result<Vec<i64>> {
        self.collect_positions(|snapshot| Ok(snapshot.record.positions.clone()), |_, value| value)
    }

    /// Collects one property of each position, from the last segment's record or a dense segment's metadata.
    fn collect_positions<T>(
        &self,
        from_snapshot: impl Fn(&Snapshot) -> Result<Vec<T>>,
        from_metadata: impl Fn(&str, i64) -> T,
    ) -> Result<Vec<T>> {
        let history = match self.pieces().last().map(Growth::for_table) {
            Some(Growth::Live(live)) => return from_snapshot(&live.snapshot),
            Some(Growth::Sealed(history)) => history,
            Some(Growth::Fixed) | None => return Ok(Vec::new()),
        };
        let Some(entry) = history.last() else { return Ok(Vec::new()) };
        match &entry.open(&history.table)?.file {
            OpenedSegment::Growable(snapshot) => from_snapshot(snapshot),
            // Positions belong to the last row, and this dataset ends before it.
            OpenedSegment::DenseSlice(_) => Ok(Vec::new()),
            OpenedSegment::Dense(ipc) => {
                let positions = dense_positions(ipc.schema())
                    .map_err(|e| e.at(self::chain::path(&history.table.folder, entry.first_row)))?;
                Ok(positions.iter().map(|(name, value)| from_metadata(name, *value)).collect())
            }
        }
    }
}

/// Checks that a piece of a dataset of several tables has the dataset's columns.
fn check_schema(piece: &SourceSlice, schema: &Schema) -> Result<()> {
    let stored = piece.source.schema();
    let types = piece.columns.iter().map(|&column| stored.field(column).data_type());
    if types.eq(schema.fields().iter().map(|field| field.data_type())) {
        return Ok(());
    }
    let message = "the schema of a table of the dataset was changed, and is no longer that of this one; open them anew";
    let error = Error::new(ErrorKind::SchemaMismatch, message);
    Err(match piece.source.facts().path {
        Some(path) => error.at(path),
        None => error,
    })
}

/// Returns the segment of `dataset`, a table, that begins with row number `start`, as a dataset with the segment's own
/// schema.
pub(in crate::table) fn segment_dataset(dataset: &Dataset, start: u64) -> Result<Dataset> {
    for piece in dataset.pieces() {
        if let Some(history) = piece.source.find::<SealedSource>()
            && let Some(entry) = history.find(start)
        {
            let (table, entry) = as_stored(history, entry)?;
            let history = SealedSource::new(&table, vec![entry], None);
            return Ok(self::dataset(&table, history, None));
        }
        if let Some(live) = growing(piece).filter(|live| live.snapshot.segment.header.first_row == start) {
            let snapshot = Snapshot::new(live.snapshot.segment.clone(), live.snapshot.record.clone());
            return Ok(self::dataset(&live.table, None, Some(LiveSource::new(&live.table, None, snapshot))));
        }
    }
    Err(Error::invalid_argument(format!("no segment begins with row {start}")))
}

/// Returns the same segment as [`segment_dataset`], with the schema of the table.
pub(in crate::table) fn converted_segment_dataset(dataset: &Dataset, start: u64) -> Result<Dataset> {
    let histories = dataset.pieces().iter().filter_map(|piece| piece.source.find::<SealedSource>());
    for history in histories {
        if let Some(entry) = history.find(start) {
            let segment = SealedSource::new(&history.table, vec![entry.clone()], None);
            return Ok(self::dataset(&history.table, segment, None));
        }
    }
    // The live segment has that schema.
    segment_dataset(dataset, start)
}

/// Returns a segment of a table with its own schema.
fn as_stored(history: &SealedSource, entry: &Arc<SegmentEntry>) -> Result<(Arc<TableInfo>, Arc<SegmentEntry>)> {
    let opened = entry.open(&history.table)?;
    if opened.conversion.is_none() {
        return Ok((history.table.clone(), entry.clone()));
    }
    let table = TableInfo {
        folder: history.table.folder.clone(),
        folder_id: history.table.folder_id,
        schema: opened.file.schema().clone(),
        options: history.table.options,
        settings: history.table.settings.clone(),
        dropped: AtomicU64::default(),
    };
    Ok((Arc::new(table), SegmentEntry::new(entry.first_row, entry.rows)))
}

/// Returns the live segment of a piece that extends to its end.
fn growing(piece: &SourceSlice) -> Option<&LiveSource> {
    match Growth::for_table(piece) {
        Growth::Live(live) if piece.rows.is_none() => Some(live),
        _ => None,
    }
}

/// Returns the sealed segments of a piece that extends to its end.
fn whole_history(piece: &SourceSlice) -> Option<&SealedSource> {
    match Growth::for_table(piece) {
        Growth::Sealed(history) if piece.rows.is_none() => Some(history),
        _ => None,
    }
}

/// Returns the segments of a piece that is a table without a live segment, because it was compacted.
fn ended(piece: &SourceSlice) -> Option<&SealedSource> {
    whole_history(piece).filter(|history| history.last_file.is_some())
}

#[inline]
fn is_newest(piece: &SourceSlice) -> bool {
    match growing(piece) {
        Some(live) => live.is_newest(),
        // Files that can't be inspected may have changed: a refresh returns the error.
        None => ended(piece).is_none_or(|history| history.is_newest().unwrap_or(false)),
    }
}

/// See [`Dataset::first_row`].
pub(in crate::table) fn first_row(dataset: &Dataset) -> u64 {
    dataset.first_row()
}

/// Closes the open files of a table's segments. They stay mapped, so nothing has to be reopened.
pub(crate) fn close_files(dataset: &Dataset) {
    for piece in dataset.pieces() {
        if let Some(live) = growing(piece) {
            live.snapshot.segment.mapping.close_file();
        }
        let opened = whole_history(piece).into_iter().flat_map(SealedSource::entries);
        opened.filter_map(|entry| entry.file()).for_each(OpenedSegment::close_file);
    }
}

/// The words of a live segment that a follower sleeps on.
#[derive(Clone, Copy)]
pub(super) struct WaitTarget<'a> {
    pub segment: &'a Segment,
    pub page: LivePage,
    /// The number of the newest commit until there is a newer one.
    pub sequence: u64,
    /// True if another machine has committed more, which counts once it is synced. Syncs wake nobody.
    pub awaits_sync: bool,
}

/// Returns the words that a follower of `dataset` sleeps on; `None` if nothing will wake it.
pub(super) fn wait_target(dataset: &Dataset) -> Option<WaitTarget<'_>> {
    let Snapshot { segment, record, .. } = &dataset.pieces().last().and_then(growing)?.snapshot;
    // Nothing wakes the followers of a sealed segment.
    if record.sealed {
        return None;
    }
    let sequence = segment.expected_sequence(record);
    let awaits_sync = record.boot != boot_id() && segment.sequence() != sequence;
    Some(WaitTarget { segment, page: segment.header.page(), sequence, awaits_sync })
}

/// Checks that the table of `dataset` still exists. Returns the dataset to continue with: a newer one if another file
/// has replaced the live segment, to which no rows are appended then.
///
/// # Errors
/// `FileChanged` if the table was removed, so that no more rows will come.
pub(super) fn check_still_there(dataset: &Dataset) -> Result<Dataset> {
    let Some(live) = dataset.pieces().last().and_then(growing) else { return Ok(dataset.clone()) };
    if !live.snapshot.segment.is_removed()? && !live.is_replaced()? {
        return Ok(dataset.clone());
    }
    // Sealed, then removed by retention or replaced by compaction.
    let newer = dataset.refresh()?;
    if !dataset.is_newest() || live.snapshot.record.sealed {
        return Ok(newer);
    }
    let path = live.snapshot.segment.path();
    // An empty segment may be replaced by a larger one of the same name.
    if live.snapshot.record.rows() == 0 && exists(path)? {
        return open(&live.table.folder, live.table.options)?.ok_or_else(|| sealed_source::removed(path));
    }
    Err(sealed_source::removed(path))
}

/// Returns the whole table `newest` without the open files of segments before row number `next`. Datasets of their rows
/// keep them open as long as they are needed. A follower that kept them, too, would have all segments of months mapped,
/// or copied into memory.
pub(super) fn release_segments(newest: &Dataset, next: u64) -> Dataset {
    let history = newest.pieces().first().and_then(whole_history);
    let live = newest.pieces().last().and_then(growing);
    let (Some(history), Some(live)) = (history, live) else { return newest.clone() };
    let mut entries = Vec::new();
    for entry in history.entries() {
        if entry.first_row + entry.rows <= next && entry.opened.get().is_some() {
            entries.push(SegmentEntry::new(entry.first_row, entry.rows));
        } else {
            entries.push(entry.clone());
        }
    }
    let history = SealedSource::new(&history.table, entries, history.last_file);
    let snapshot = Snapshot::new(live.snapshot.segment.clone(), live.snapshot.record.clone());
    let live = LiveSource::new(&live.table, history.clone(), snapshot);
    dataset(&live.table.clone(), history, Some(live))
}

/// Returns true if some of the rows are in sealed segments.
pub(super) fn has_sealed(rows: &Dataset) -> bool {
    rows.pieces().iter().any(|piece| piece.source.find::<SealedSource>().is_some())
}

/// Opens the table of `dataset` again, without its earlier state.
pub(super) fn reopen(dataset: &Dataset) -> Result<Dataset> {
    let table = dataset.pieces().last().and_then(table_of);
    let table = table.ok_or_else(|| Error::internal("a follower of something that is no table"))?;
    open(&table.folder, table.options)?.ok_or_else(|| sealed_source::removed(&table.folder))
}

/// Checks that a follower of `before`, at row number `next`, continues with the same rows in `newest`: another
/// directory has other row numbers, except in the live segment, while it is the same file.
///
/// # Errors
/// `FileChanged`.
pub(crate) fn check_goes_on(before: &Dataset, newest: &Dataset, next: u64) -> Result<()> {
    let table = before.pieces().last().and_then(table_of);
    let newest_table = newest.pieces().last().and_then(table_of);
    let (Some(table), Some(newest_table)) = (table, newest_table) else { return Ok(()) };
    if table.folder_id == newest_table.folder_id {
        return Ok(());
    }
    if let Some(live) = before.pieces().last().and_then(growing) {
        let segment = &live.snapshot.segment;
        let first_row = segment.header.first_row;
        if next >= first_row && segment.is_at(&chain::path(&newest_table.folder, first_row))? {
            return Ok(());
        }
    }
    Err(table.replaced())
}

/// Returns true if `newest`, which was refreshed from `before`, has the same rows in the same columns, followed by new
/// ones.
#[cfg(feature = "compute")]
pub(super) fn goes_on(before: &Dataset, newest: &Dataset) -> Result<bool> {
    let mut pairs = before.pieces().iter().zip(newest.pieces());
    if before.pieces().len() == newest.pieces().len()
        && pairs.all(|(a, b)| Arc::ptr_eq(&a.source, &b.source) && a.start == b.start && a.rows == b.rows)
    {
        return Ok(true);
    }
    let has_rows = before.first_row() == newest.first_row() && before.len()? <= newest.len()?;
    Ok(is_one_table(before)
        && is_one_table(newest)
        && has_rows
        && before.schema().fields() == newest.schema().fields()
        && check_goes_on(before, newest, before.first_row()).is_ok())
}

/// Returns true if the dataset has all rows of a table, and no others.
#[cfg(feature = "compute")]
fn is_one_table(dataset: &Dataset) -> bool {
    match dataset.pieces() {
        _ if dataset.origin().is_some() => false,
        [piece] => table_of(piece).is_some(),
        [history, live] => whole_history(history).is_some() && growing(live).is_some() && is_same_table(history, live),
        _ => false,
    }
}

/// Returns true if both pieces belong to the same table, or neither to one.
fn is_same_table(a: &SourceSlice, b: &SourceSlice) -> bool {
    table_of(a).map(Arc::as_ptr) == table_of(b).map(Arc::as_ptr)
}

/// Returns the table to which a piece belongs, as its live segment or its history.
fn table_of(piece: &SourceSlice) -> Option<&Arc<TableInfo>> {
    let live = growing(piece).map(|live| &live.table);
    live.or_else(|| whole_history(piece).map(|history| &history.table))
}

/// Returns true if [`Dataset::refresh`] may find more rows at the end.
pub(super) fn can_grow(dataset: &Dataset) -> bool {
    dataset.pieces().last().is_some_and(|piece| growing(piece).is_some() || ended(piece).is_some())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use crate::dataset::Dataset;
    use crate::error::Result;
    use crate::table::reader::chain::MEANWHILE;
    use crate::table::reader::recovery::BEFORE_READING;
    use crate::table::{CompactOptions, Writer, WriterOptions, compact, compact_with};
    use crate::{Value, open, parse_schema};

    /// The last segment was dense, and was merged with the previous one after a reader had listed both. The reader
    /// didn't find its file, and reported the table as not found.
    #[test]
    fn open_lists_again_if_the_last_segment_was_merged() {
        type OpenMerged = fn(&Path, [Dataset; 2]) -> Result<Dataset>;
        let cases: [OpenMerged; 3] = [
            |table, _| crate::open(table),
            |_, [without_writer, _]| without_writer.refresh(),
            |_, [_, with_two_segments]| with_two_segments.refresh(),
        ];

        for (number, open_merged) in cases.into_iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let table = folder.path().join("t");
            let write = |text: &str| {
                let schema = Arc::new(parse_schema(text).unwrap());
                let mut writer = Writer::open(&table, Some(schema), &WriterOptions::default()).unwrap();
                for number in 0..4 {
                    writer.append_row(&[Value::Int(number)]).unwrap();
                }
                writer.close().unwrap();
            };
            write("n: int32");
            compact(&table, |_, _| ()).unwrap();
            let without_writer = open(&table).unwrap();
            write("n: int64");
            let with_two_segments = open(&table).unwrap();
            // Segments of different schemas are not merged.
            compact(&table, |_, _| ()).unwrap();
            let count_files = || std::fs::read_dir(&table).unwrap().count();
            assert_eq!(count_files(), 2);
            let merged = table.clone();
            let rewrite = CompactOptions { rewrite: true, sort: false };
            MEANWHILE.set(Some(Box::new(move || _ = compact_with(&merged, rewrite, |_, _| ()).unwrap())));
            let dataset = open_merged(&table, [without_writer, with_two_segments]).unwrap();
            assert_eq!(dataset.len().unwrap(), 8, "case {number}");
            assert_eq!(count_files(), 1, "case {number}");
        }
    }

    /// After a reader had listed the only segment, a commit filled several segments, and the first of them were
    /// dropped. As the second segment was missing, the rows of the first were taken for the whole table.
    #[test]
    fn open_sees_no_part_of_a_commit_whose_first_rows_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t");
        let schema = Arc::new(parse_schema("n: int64").unwrap());
        let options = WriterOptions { segment_rows: Some(1), ..WriterOptions::default() };
        let mut writer = Writer::open(&table, Some(schema), &options).unwrap();
        BEFORE_READING.set(Some(Box::new(move || {
            for number in 0..8 {
                writer.append_row(&[Value::Int(number)]).unwrap();
            }
            writer.commit().unwrap();
            assert_eq!(writer.drop_before(5).unwrap(), 5);
        })));
        let dataset = open(&table).unwrap();
        assert_eq!((dataset.first_row(), dataset.len().unwrap()), (5, 3));
    }
}
