//! A table as its readers see it: sealed segments, which are opened when somebody asks for their rows, and the live one
//! as one commit has it.
//!
//! ```text
//! Dataset ── pieces ──▶ History { segment, segment, … }      shared by all newer datasets until a segment is sealed
//!                  └──▶ Live { segment, commit }             one for each refresh that finds a newer commit
//! ```

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow_data::ArrayData;
use arrow_schema::{Schema, SchemaRef};

use super::chain;
use super::chain::{Chain, open_dense};
use super::durable::open_newest;
use super::segment::Segment;
use crate::array::Unchecked;
use crate::dataset::order::has_order;
use crate::dataset::{Dataset, Footprint, Piece, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::ipc::{Ipc, ReadOptions};
use crate::map::{ChangeCheck, guard};
use crate::table::format::{POSITIONS, Page, Record, SEGMENT_ROWS, SORTED_BY};

/// What all segments of a table share.
#[derive(Debug)]
struct Table {
    folder: PathBuf,
    schema: SchemaRef,
    options: ReadOptions,
    sorted_by: Option<usize>,
}

/// The columns of a segment as one commit has them.
#[derive(Debug)]
struct Snapshot {
    segment: Arc<Segment>,
    record: Record,
    columns: Box<[OnceLock<Unchecked>]>,
    checked: Box<[OnceLock<ArrayData>]>,
}

impl Snapshot {
    fn new(segment: Arc<Segment>, record: Record) -> Snapshot {
        let count = segment.plan.columns.len();
        let columns = (0..count).map(|_| OnceLock::new()).collect();
        let checked = (0..count).map(|_| OnceLock::new()).collect();
        Snapshot { segment, record, columns, checked }
    }

    fn column(&self, column: usize) -> Result<&Unchecked> {
        let missing = || Error::argument(format!("there is no column {column}"));
        let place = self.columns.get(column).ok_or_else(missing)?;
        match place.get() {
            Some(array) => Ok(array),
            None => {
                let array = self.segment.column(column, &self.record)?;
                Ok(place.get_or_init(|| array))
            }
        }
    }

    fn checked(&self, column: usize) -> Result<&ArrayData> {
        if let Some(array) = self.checked.get(column).and_then(OnceLock::get) {
            return Ok(array);
        }
        let array = self.column(column)?.clone();
        let name = self.segment.plan.columns[column].field.name();
        let checked = self.segment.checked(column, array, &self.record);
        let checked = checked.map_err(|e| e.context(format_args!("column '{name}'")).at(self.segment.path()))?;
        Ok(self.checked[column].get_or_init(|| checked))
    }
}

/// A segment that is sealed, or an Arrow file in its place.
#[derive(Debug)]
struct Entry {
    first_row: u64,
    rows: u64,
    opened: OnceLock<Opened>,
}

#[derive(Debug)]
enum Opened {
    Growable(Snapshot),
    Dense(Box<Ipc>),
}

/// All segments but the live one.
#[derive(Debug)]
struct History {
    table: Arc<Table>,
    entries: Vec<Arc<Entry>>,
    /// Whether no live segment follows.
    ended: bool,
}

/// The live segment as one commit has it.
#[derive(Debug)]
struct Live {
    table: Arc<Table>,
    history: Option<Arc<History>>,
    snapshot: Snapshot,
}

/// Opens the table in `folder`; `None` where there is none.
pub(crate) fn open(folder: &Path, options: ReadOptions) -> Result<Option<Dataset>> {
    // The process may go to another folder.
    let folder = &std::path::absolute(folder).map_err(|e| Error::io("finding the table's folder", &e))?;
    guard(|| match Chain::open(folder)? {
        Some(chain) => Ok(Some(of_chain(folder, options, chain, None)?)),
        None => Ok(None),
    })
}

/// What is known of a table from before: segments of its history, and the one that was live.
type Before<'a> = (&'a Arc<Table>, Option<&'a History>, Option<&'a Arc<Segment>>);

fn of_chain(folder: &Path, options: ReadOptions, chain: Chain, before: Option<Before<'_>>) -> Result<Dataset> {
    let last_start = chain.starts.last().copied().unwrap_or(0);
    let (live, dense) = match chain.last {
        Some((segment, record)) => (Some((Arc::new(segment), record)), None),
        None => (None, Some(open_dense(&chain::path(folder, last_start), options)?)),
    };
    let (schema, sorted_by) = match (&live, &dense) {
        (Some((segment, _)), _) => (segment.plan.schema.schema.clone(), segment.header.sorted_by.map(|c| c as usize)),
        (None, Some(ipc)) => (ipc.schema().clone(), sorted_by_of(ipc.schema()).map_err(|e| e.at(folder))?),
        (None, None) => return Err(Error::new(ErrorKind::NotFound, "a table without segments").at(folder)),
    };
    let table = before.map_or_else(
        || Arc::new(Table { folder: folder.to_path_buf(), schema, options, sorted_by }),
        |(table, ..)| table.clone(),
    );
    let known = before.and_then(|(_, history, _)| history).map_or(&[][..], |history| &history.entries);
    let mut entries = Vec::with_capacity(chain.starts.len());
    for pair in chain.starts.windows(2) {
        entries.push(known_entry(known, pair[0], pair[1] - pair[0]));
    }
    if let Some(ipc) = dense {
        let opened = OnceLock::from(Opened::Dense(Box::new(ipc)));
        let rows = rows_of(&opened)?;
        entries.push(Arc::new(Entry { first_row: last_start, rows, opened }));
    }
    let history =
        (!entries.is_empty()).then(|| Arc::new(History { table: table.clone(), entries, ended: live.is_none() }));
    let live = live.map(|(segment, record)| {
        let known = before.and_then(|(_, _, live)| live).filter(|live| live.header.first_row == last_start);
        let segment = known.cloned().unwrap_or(segment);
        Live { table: table.clone(), history: history.clone(), snapshot: Snapshot::new(segment, record) }
    });
    Ok(dataset(&table, history, live))
}

/// A setting of the table that a dense segment carries in its schema's metadata.
///
/// # Errors
/// `InvalidData` where it is no number.
pub(in crate::table) fn setting(schema: &Schema, key: &str) -> Result<Option<u64>> {
    let wrong = |text: &String| {
        Error::invalid(format!("the schema's metadata has '{text}' for {key}, expected a number; restore the file"))
    };
    schema.metadata().get(key).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
}

/// The column that a dense segment is sorted by.
///
/// # Errors
/// `InvalidData` where the schema's metadata names none that can be.
pub(in crate::table) fn sorted_by_of(schema: &Schema) -> Result<Option<usize>> {
    let Some(number) = setting(schema, SORTED_BY)? else { return Ok(None) };
    let column = usize::try_from(number).ok().and_then(|number| schema.fields().get(number));
    match column.is_some_and(|column| has_order(column.data_type())) {
        true => Ok(Some(number as usize)),
        false => Err(Error::invalid(format!(
            "the schema's metadata has {number} for {SORTED_BY}, expected the number of a column whose values have an \
             order; restore the file"
        ))),
    }
}

/// The schema as it was given when the table was made.
pub(in crate::table) fn without_settings(schema: &SchemaRef) -> SchemaRef {
    let mut metadata = schema.metadata().clone();
    metadata.retain(|key, _| key != SORTED_BY && key != SEGMENT_ROWS && key != POSITIONS);
    Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata))
}

fn known_entry(known: &[Arc<Entry>], first_row: u64, rows: u64) -> Arc<Entry> {
    let found = known.binary_search_by_key(&first_row, |entry| entry.first_row).ok().map(|number| &known[number]);
    match found.filter(|entry| entry.rows == rows) {
        Some(entry) => entry.clone(),
        None => Arc::new(Entry { first_row, rows, opened: OnceLock::new() }),
    }
}

fn rows_of(opened: &OnceLock<Opened>) -> Result<u64> {
    match opened.get() {
        Some(Opened::Dense(ipc)) => ipc.walk(u64::MAX),
        Some(Opened::Growable(snapshot)) => Ok(snapshot.record.rows()),
        None => Ok(0),
    }
}

fn dataset(table: &Arc<Table>, history: Option<Arc<History>>, live: Option<Live>) -> Dataset {
    let columns: Arc<[usize]> = (0..table.schema.fields().len()).collect();
    let piece = |source: Arc<dyn Source>| Piece { source, columns: columns.clone(), start: 0, rows: None };
    let history = history.map(|history| piece(history));
    let live = live.map(|live| piece(Arc::new(live)));
    Dataset::of_pieces(table.schema.clone(), history.into_iter().chain(live).collect())
}

impl Opened {
    fn close_file(&self) {
        match self {
            Opened::Growable(snapshot) => snapshot.segment.mapping.close_file(),
            Opened::Dense(ipc) => ipc.close_file(),
        }
    }
}

impl Entry {
    fn open(&self, table: &Table) -> Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let path = chain::path(&table.folder, self.first_row);
        let removed = |e: Error| match e.kind() {
            ErrorKind::NotFound => {
                let message = "the segment was removed (drop_before) after the table was opened; refresh the dataset";
                Error::new(ErrorKind::NotFound, message).at(&path)
            }
            _ => e,
        };
        let opened = match open_newest(&path).map_err(removed)? {
            Some((segment, _)) if segment.header.first_row != self.first_row => {
                let message =
                    format!("the segment begins with row {}, which is not its name", segment.header.first_row);
                return Err(Error::invalid(message).at(&path));
            }
            // Rows that a later segment follows are committed, whether or not this one says that it is sealed.
            Some((segment, record)) => Opened::Growable(Snapshot::new(Arc::new(segment), record)),
            None => Opened::Dense(Box::new(open_dense(&path, table.options)?)),
        };
        self.check(&opened, table).map_err(|e| e.at(&path))?;
        // A table may have more segments than a process may have files.
        opened.close_file();
        Ok(self.opened.get_or_init(|| opened))
    }

    fn check(&self, opened: &Opened, table: &Table) -> Result<()> {
        let (rows, batches, schema) = match opened {
            Opened::Growable(snapshot) => (snapshot.record.rows(), 1, &snapshot.segment.plan.schema.schema),
            Opened::Dense(ipc) => (ipc.walk(u64::MAX)?, ipc.num_batches()?, ipc.schema()),
        };
        if let Some(difference) = crate::dataset::schema_difference(&table.schema, schema) {
            let message = format!("the schemas of the table and of this segment differ: {difference}");
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
        if rows != self.rows || batches != 1 {
            let expected = self.rows;
            let message = format!("a segment of {rows} rows in {batches} batches, expected {expected} rows in 1 batch");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    fn column(&self, table: &Table, column: usize) -> Result<&Unchecked> {
        match self.open(table)? {
            Opened::Growable(snapshot) => snapshot.column(column),
            Opened::Dense(ipc) => ipc.column(0, column),
        }
    }

    fn checked(&self, table: &Table, column: usize) -> Result<&ArrayData> {
        match self.open(table)? {
            Opened::Growable(snapshot) => snapshot.checked(column),
            Opened::Dense(ipc) => ipc.checked(0, column),
        }
    }
}

impl History {
    fn entry(&self, batch: usize) -> Result<&Entry> {
        self.entries.get(batch).map(Arc::as_ref).ok_or_else(|| Error::argument(format!("there is no batch {batch}")))
    }

    fn next_path(&self) -> PathBuf {
        chain::path(&self.table.folder, self.entries.last().map_or(0, |last| last.first_row + last.rows))
    }

    /// The last segment, which retention may have removed with those behind it.
    fn last_path(&self) -> PathBuf {
        chain::path(&self.table.folder, self.entries.last().map_or(0, |last| last.first_row))
    }

    fn refresh(&self) -> Result<Dataset> {
        let gone = || Error::new(ErrorKind::NotFound, "the table has gone").at(&self.table.folder);
        let chain = Chain::open(&self.table.folder)?.ok_or_else(gone)?;
        of_chain(&self.table.folder, self.table.options, chain, Some((&self.table, Some(self), None)))
    }

    fn start(&self) -> u64 {
        self.entries.first().map_or(0, |entry| entry.first_row)
    }
}

impl Source for History {
    fn schema(&self) -> &SchemaRef {
        &self.table.schema
    }

    fn walk(&self, _until: u64) -> Result<u64> {
        Ok(self.entries.last().map_or(0, |last| last.first_row + last.rows - self.start()))
    }

    fn num_batches(&self) -> Result<usize> {
        Ok(self.entries.len())
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        let span = |entry: &Arc<Entry>| {
            let start = entry.first_row - self.start();
            start..start + entry.rows
        };
        Ok(self.entries.get(batch).map(span))
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        let row = row + self.start();
        let batch = self.entries.partition_point(|entry| entry.first_row + entry.rows <= row);
        Ok((batch < self.entries.len()).then_some(batch))
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        self.locate_by_len(back)
    }

    fn column(&self, batch: usize, column: usize) -> Result<&Unchecked> {
        self.entry(batch)?.column(&self.table, column)
    }

    fn checked(&self, batch: usize, column: usize) -> Result<&ArrayData> {
        self.entry(batch)?.checked(&self.table, column)
    }

    fn footprint(&self) -> Footprint {
        let of = |entry: &Arc<Entry>| match entry.opened.get() {
            Some(Opened::Growable(snapshot)) => {
                Footprint { mapped: snapshot.segment.used(&snapshot.record), copied: 0 }
            }
            Some(Opened::Dense(ipc)) => ipc.footprint(),
            None => Footprint::default(),
        };
        self.entries.iter().map(of).sum()
    }

    fn look(&self, batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        let batches = batches.start.min(self.entries.len())..batches.end.min(self.entries.len());
        self.entries[batches].iter().try_for_each(|entry| match entry.opened.get() {
            Some(Opened::Growable(snapshot)) => snapshot.segment.look(when),
            Some(Opened::Dense(ipc)) => ipc.look(0..usize::MAX, when),
            None => Ok(()),
        })
    }

    fn resident(&self) -> Result<u64> {
        let of = |entry: &Arc<Entry>| match entry.opened.get() {
            Some(Opened::Growable(snapshot)) => snapshot.segment.mapping.resident().map(|bytes| bytes as u64),
            Some(Opened::Dense(ipc)) => ipc.resident(),
            None => Ok(0),
        };
        self.entries.iter().map(of).sum()
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.table.folder)
    }

    fn files(&self) -> Vec<PathBuf> {
        self.entries.iter().map(|entry| chain::path(&self.table.folder, entry.first_row)).collect()
    }

    fn first_row(&self) -> u64 {
        self.start()
    }

    fn sorted_by(&self) -> Option<usize> {
        self.table.sorted_by
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Source for Live {
    fn schema(&self) -> &SchemaRef {
        &self.table.schema
    }

    fn walk(&self, _until: u64) -> Result<u64> {
        Ok(self.snapshot.record.rows())
    }

    fn num_batches(&self) -> Result<usize> {
        Ok(1)
    }

    fn span(&self, batch: usize) -> Result<Option<Range<u64>>> {
        Ok((batch == 0).then(|| 0..self.snapshot.record.rows()))
    }

    fn locate(&self, row: u64) -> Result<Option<usize>> {
        Ok((row < self.snapshot.record.rows()).then_some(0))
    }

    fn locate_from_end(&self, back: u64) -> Result<Option<(usize, usize)>> {
        let row = self.snapshot.record.rows().checked_sub(back);
        Ok(row.map(|row| (0, row as usize)))
    }

    fn column(&self, _batch: usize, column: usize) -> Result<&Unchecked> {
        self.snapshot.column(column)
    }

    fn checked(&self, _batch: usize, column: usize) -> Result<&ArrayData> {
        self.snapshot.checked(column)
    }

    fn footprint(&self) -> Footprint {
        Footprint { mapped: self.snapshot.segment.used(&self.snapshot.record), copied: 0 }
    }

    fn look(&self, _batches: Range<usize>, when: ChangeCheck) -> Result<()> {
        self.snapshot.segment.look(when)
    }

    fn resident(&self) -> Result<u64> {
        self.snapshot.segment.mapping.resident().map(|bytes| bytes as u64)
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.table.folder)
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.snapshot.segment.path().to_path_buf()]
    }

    fn first_row(&self) -> u64 {
        self.snapshot.segment.header.first_row
    }

    fn sorted_by(&self) -> Option<usize> {
        self.table.sorted_by
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The segment that batch `batch` of a source is, where it is one of a table, and its rows.
pub(super) fn segment_of(source: &dyn Source, batch: usize) -> Result<Option<(&Segment, u64)>> {
    let any = source.as_any();
    let snapshot = match (any.downcast_ref::<Live>(), any.downcast_ref::<History>()) {
        (Some(live), _) => &live.snapshot,
        (None, Some(history)) => match history.entry(batch)?.open(&history.table)? {
            Opened::Growable(snapshot) => snapshot,
            Opened::Dense(_) => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some((&snapshot.segment, snapshot.record.rows())))
}

impl Live {
    /// Whether nothing was committed since.
    #[inline]
    fn is_newest(&self) -> bool {
        let Snapshot { segment, record, .. } = &self.snapshot;
        segment.sequence() == record.sequence && !(record.sealed && self.next_path().exists())
    }

    /// Where rows go on when the segment is sealed. Compacting seals the last one, and replaces it: no word of it changes
    /// any more.
    fn next_path(&self) -> PathBuf {
        let Snapshot { segment, record, .. } = &self.snapshot;
        chain::path(&self.table.folder, segment.header.first_row + record.rows())
    }

    /// The pieces of the table as it is now.
    fn refresh(&self) -> Result<Dataset> {
        let Snapshot { segment, record: known, .. } = &self.snapshot;
        let record = segment.newest()?;
        if record.sequence < known.sequence {
            return Err(segment.mapping.overwritten());
        }
        if !record.sealed && !segment.is_outdated(&record) {
            let snapshot = Snapshot::new(segment.clone(), record);
            let live = Live { table: self.table.clone(), history: self.history.clone(), snapshot };
            return Ok(dataset(&self.table, self.history.clone(), Some(live)));
        }
        let gone = || Error::new(ErrorKind::NotFound, "the table has gone").at(&self.table.folder);
        let chain = Chain::open(&self.table.folder)?.ok_or_else(gone)?;
        // Pages that a writer has not written to since are its own.
        let known = Some(segment).filter(|segment| segment.replayed.is_none());
        let before = (&self.table, self.history.as_deref(), known);
        of_chain(&self.table.folder, self.table.options, chain, Some(before))
    }
}

impl Dataset {
    /// The dataset with the rows that were committed since: a newer one, or this one where there are none. Slices, and
    /// data that doesn't grow, stay as they are; older datasets stay valid.
    ///
    /// # Errors
    /// `InvalidData` where a commit record is damaged, `FileChanged` where somebody else than the writer has changed the
    /// live segment.
    #[inline]
    pub fn refresh(&self) -> Result<Dataset> {
        if self.is_newest() {
            return Ok(self.clone());
        }
        self.watched(ChangeCheck::Seldom, || self.refresh_pieces())
    }

    /// Whether [`Dataset::refresh`] would find nothing new; false where it would find that a file has changed.
    #[inline]
    pub fn is_newest(&self) -> bool {
        guard(|| Ok::<_, Error>(self.pieces().iter().all(is_newest))).unwrap_or(false)
    }

    fn refresh_pieces(&self) -> Result<Dataset> {
        let mut pieces: Vec<Piece> = Vec::new();
        for piece in self.pieces() {
            let newer = match (growing(piece), ended(piece)) {
                (Some(live), _) => live.refresh()?,
                (None, Some(history)) if !is_newest(piece) => history.refresh()?,
                _ => {
                    pieces.push(piece.clone());
                    continue;
                }
            };
            let table = |piece: &Piece| {
                let live = growing(piece).map(|live| Arc::as_ptr(&live.table));
                live.or_else(|| whole_history(piece).map(|history| Arc::as_ptr(&history.table)))
            };
            // What was before the live segment comes anew with it.
            pieces.pop_if(|last| whole_history(last).is_some() && table(last) == table(piece));
            let columns = |newer: &Piece| Piece { columns: piece.columns.clone(), ..newer.clone() };
            pieces.extend(newer.pieces().iter().map(columns));
        }
        Ok(Dataset::of_pieces(self.schema().clone(), pieces))
    }
}

impl Dataset {
    /// The positions of the newest commit of a table that the dataset has, by name: how far its producers are. Empty for
    /// what is no table.
    ///
    /// # Errors
    /// `InvalidData` where the last segment is damaged.
    pub fn positions(&self) -> Result<BTreeMap<String, i64>> {
        Ok(self.position_names()?.into_iter().zip(self.position_values()?).collect())
    }

    pub(in crate::table) fn position_names(&self) -> Result<Vec<String>> {
        self.positions_of(|snapshot| snapshot.segment.position_names(&snapshot.record), |name, _| name.into())
    }

    pub(in crate::table) fn position_values(&self) -> Result<Vec<i64>> {
        self.positions_of(|snapshot| Ok(snapshot.record.positions.clone()), |_, value| value)
    }

    /// One thing of each position, out of the last segment's record or a dense one's metadata.
    fn positions_of<T>(
        &self,
        of_record: impl Fn(&Snapshot) -> Result<Vec<T>>,
        of_line: impl Fn(&str, i64) -> T,
    ) -> Result<Vec<T>> {
        let Some(last) = self.pieces().last().map(|piece| piece.source.as_any()) else { return Ok(Vec::new()) };
        if let Some(live) = last.downcast_ref::<Live>() {
            return of_record(&live.snapshot);
        }
        let Some(history) = last.downcast_ref::<History>() else { return Ok(Vec::new()) };
        let Some(entry) = history.entries.last() else { return Ok(Vec::new()) };
        match entry.open(&history.table)? {
            Opened::Growable(snapshot) => of_record(snapshot),
            Opened::Dense(ipc) => {
                let lines = positions_said(ipc.schema())
                    .map_err(|e| e.at(self::chain::path(&history.table.folder, entry.first_row)))?;
                Ok(lines.iter().map(|(name, value)| of_line(name, *value)).collect())
            }
        }
    }
}

/// The positions that a dense segment carries in its schema's metadata.
fn positions_said(schema: &Schema) -> Result<Vec<(String, i64)>> {
    let text = schema.metadata().get(POSITIONS).map_or("", String::as_str);
    let line = |line: &str| {
        let (value, name) = line.split_once(' ')?;
        Some((name.to_string(), value.parse().ok()?))
    };
    let wrong = || {
        Error::invalid(format!(
            "the schema's metadata has '{text}' for {POSITIONS}, expected a number and a name a line"
        ))
    };
    text.lines().map(|text| line(text).ok_or_else(wrong)).collect()
}

/// The segment of `dataset`, a table, that begins with row number `start`, as a dataset of its own.
pub(in crate::table) fn one_segment(dataset: &Dataset, start: u64) -> Result<Dataset> {
    let mut found = None;
    for piece in dataset.pieces() {
        if let Some(history) = piece.source.as_any().downcast_ref::<History>()
            && let Some(entry) = history.entries.iter().find(|entry| entry.first_row == start)
        {
            found = Some(History { table: history.table.clone(), entries: vec![entry.clone()], ended: false });
        }
        if let Some(live) = growing(piece).filter(|live| live.snapshot.segment.header.first_row == start) {
            let snapshot = Snapshot::new(live.snapshot.segment.clone(), live.snapshot.record.clone());
            return Ok(self::dataset(
                &live.table,
                None,
                Some(Live { table: live.table.clone(), history: None, snapshot }),
            ));
        }
    }
    let history = found.ok_or_else(|| Error::argument(format!("no segment begins with row {start}")))?;
    Ok(self::dataset(&history.table.clone(), Some(Arc::new(history)), None))
}

/// The live segment of a piece that goes to its end.
fn growing(piece: &Piece) -> Option<&Live> {
    piece.source.as_any().downcast_ref::<Live>().filter(|_| piece.rows.is_none())
}

fn whole_history(piece: &Piece) -> Option<&History> {
    piece.source.as_any().downcast_ref::<History>().filter(|_| piece.rows.is_none())
}

/// The segments of a piece that is a table without a live segment: all of it was compacted.
fn ended(piece: &Piece) -> Option<&History> {
    whole_history(piece).filter(|history| history.ended)
}

#[inline]
fn is_newest(piece: &Piece) -> bool {
    match growing(piece) {
        Some(live) => live.is_newest(),
        None => ended(piece).is_none_or(|history| !history.next_path().exists() && history.last_path().exists()),
    }
}

/// See [`Dataset::first_row`].
pub(in crate::table) fn first_row(dataset: &Dataset) -> u64 {
    dataset.first_row()
}

/// What a follower sleeps on: the live segment's file, where its words are, and the sequence it has seen.
pub(super) fn watched(dataset: &Dataset) -> Option<(&Path, Page, u64)> {
    // Nobody is woken by one that is sealed.
    let live = dataset.pieces().last().and_then(growing).filter(|live| !live.snapshot.record.sealed)?;
    Some((live.snapshot.segment.path(), live.snapshot.segment.header.page(), live.snapshot.record.sequence))
}

/// The dataset to go on with, if nobody writes to its live segment any more because another one has its name.
///
/// # Errors
/// `FileChanged` where the table was removed, so that nothing will ever come.
pub(super) fn still_there(dataset: &Dataset) -> Result<Dataset> {
    let live = dataset.pieces().last().and_then(growing);
    let Some(live) = live.filter(|live| live.snapshot.segment.mapping.is_removed()) else { return Ok(dataset.clone()) };
    // Sealed, and removed by retention or replaced by compaction.
    let newer = dataset.refresh()?;
    if !dataset.is_newest() || live.snapshot.record.sealed {
        return Ok(newer);
    }
    let path = live.snapshot.segment.path();
    // A segment without rows makes room for a larger one of the same name.
    if live.snapshot.record.rows() == 0 && path.exists() {
        return open(&live.table.folder, live.table.options)?.ok_or_else(|| removed(path));
    }
    Err(removed(path))
}

fn removed(path: &Path) -> Error {
    let message = "the live segment was removed, or replaced by another table's, while it was followed";
    Error::new(ErrorKind::FileChanged, message).at(path)
}

/// Whether [`Dataset::refresh`] may find more rows at the end.
pub(super) fn can_grow(dataset: &Dataset) -> bool {
    dataset.pieces().last().is_some_and(|piece| growing(piece).is_some() || ended(piece).is_some())
}
