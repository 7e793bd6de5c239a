//! Tables whose headers and commit records say something else than they should, with checksums that are right: what only
//! somebody who wants to does. `tests/recovery/forged.rs` tries them one by one, `fuzz/fuzz_targets/tables.rs` as a fuzzer
//! likes.
//!
//! What is asked of a table that was forged: no panic; and no row that was never appended, none in another place, none
//! changed. A header says nothing of commits, so with a forged one the answer is an error or all the rows. A forged record
//! is a commit that somebody has made: its own number of rows is believed, where it is within bounds. Rows behind those
//! that were appended may be anything then, those before are what they were, or an error.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::*;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use arrowwood::simulate::simulate_boot;
use arrowwood::{
    Dataset, Error, ErrorKind, Result, Writer, WriterOptions, check, compact, follow, open, repair, table_stat,
};

use crate::tables::{folder_in_memory, unsynced};

/// The boots of the machine in which tables are written, and in which some are looked at.
pub const BOOTS: [[u8; 16]; 2] = [*b"the boot of then", *b"the boot of now."];

// ---- what is forged ----

/// A table to forge, and what is known of it.
pub struct Template {
    pub name: &'static str,
    schema: SchemaRef,
    files: Vec<Image>,
    /// The rows as text, by their number.
    rows: Vec<Vec<String>>,
    /// The number of rows behind each commit.
    commits: BTreeSet<u64>,
    /// What can be forged, all segments together.
    pub fields: Vec<Site>,
}

/// A file: its bytes but for pages of zeros.
struct Image {
    name: PathBuf,
    len: u64,
    pages: Vec<(u64, Vec<u8>)>,
    /// Where the words of a segment that grows stand.
    live: u64,
    sequence: u64,
    /// Bytes under a checksum: where they begin, how many they are, where the checksum stands.
    sums: Vec<(u64, u64, u64)>,
    /// Entries of the log: where they begin, the bytes of the record, and the bytes behind it.
    entries: Vec<(u64, u64, u64)>,
}

/// What a field is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Header,
    /// The words that have no checksum.
    Live,
    Visible,
    Durable,
    /// An entry of the log.
    Log,
}

/// A field in one of the files.
#[derive(Clone, Debug)]
pub struct Site {
    pub name: String,
    pub area: Area,
    pub file: usize,
    at: u64,
    size: usize,
    /// What it is.
    before: u64,
    /// The first row of the file, where the field is a number of rows.
    rows_from: Option<u64>,
    /// Numbers of the same file that are worth putting here.
    others: Arc<Vec<u64>>,
}

impl Site {
    /// Values to put here: each once, and none that is there.
    pub fn values(&self) -> Vec<u64> {
        let n = self.before;
        let near = [1, 2, 8, 16, 64, 4096, 65_536].into_iter().flat_map(|d| [n.wrapping_add(d), n.wrapping_sub(d)]);
        let scaled = [n / 2, n.wrapping_mul(2), n | 1, !n, n.wrapping_neg(), n.swap_bytes()];
        let small = [0, 1, 2, 3, 7, 63, 64, 100, 128, 4095, 4096, 65_535, 65_536];
        let huge = [1 << 28, (1 << 31) - 1, 1 << 31, u32::MAX.into(), 1 << 32, 1 << 47, 1 << 48, 1 << 61, 1 << 62];
        let most = [1 << 63, i64::MAX as u64, u64::MAX - 4095, u64::MAX - 1, u64::MAX];
        let all = near.chain(scaled).chain(small).chain(huge).chain(most).chain(self.others.iter().copied());
        let mask = u64::MAX >> (64 - 8 * self.size);
        let all: BTreeSet<u64> = all.map(|value| value & mask).filter(|&value| value != n).collect();
        all.into_iter().collect()
    }
}

/// A field, and what is put there.
pub type Edit<'a> = (&'a Site, u64);

fn field(name: &str, data_type: DataType, nullable: bool) -> Field {
    Field::new(name, data_type, nullable)
}

/// Schemas of several kinds of columns.
pub fn numbers() -> SchemaRef {
    Arc::new(Schema::new(vec![field("n", DataType::Int64, false), field("x", DataType::Float64, true)]))
}

pub fn texts() -> SchemaRef {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        field("n", DataType::Int64, false),
        field("text", DataType::Utf8, true),
        field("symbol", dictionary, true),
        field("view", DataType::Utf8View, false),
    ]))
}

pub fn nested() -> SchemaRef {
    let item = Arc::new(field("item", DataType::Int32, true));
    let pair = vec![field("a", DataType::Int32, true), field("b", DataType::LargeUtf8, false)];
    Arc::new(Schema::new(vec![
        field("n", DataType::Int64, false),
        field("list", DataType::List(item), true),
        field("flag", DataType::Boolean, true),
        field("pair", DataType::Struct(pair.into()), true),
    ]))
}

/// Rows of one of these schemas, whose values follow from their numbers.
pub fn batch(schema: &SchemaRef, rows: Range<i64>) -> RecordBatch {
    let text = |i: i64| format!("né {i} {}", "x".repeat(i as usize % 17));
    let lists = || {
        let mut lists = ListBuilder::new(Int32Builder::new());
        for i in rows.clone() {
            (0..i % 4).for_each(|k| lists.values().append_option((k != 2).then_some(k as i32)));
            lists.append(i % 6 != 5);
        }
        lists.finish()
    };
    let pair = |fields: &Fields| {
        let a: Int32Array = rows.clone().map(|i| (i % 3 != 0).then_some(i as i32)).collect();
        let b = LargeStringArray::from_iter_values(rows.clone().map(text));
        let nulls = rows.clone().map(|i| i % 8 != 1).collect::<Vec<_>>().into();
        StructArray::new(fields.clone(), vec![Arc::new(a), Arc::new(b)], Some(nulls))
    };
    let column = |field: &Arc<Field>| -> ArrayRef {
        let numbers = rows.clone();
        match field.data_type() {
            DataType::Int64 => Arc::new(Int64Array::from_iter_values(numbers)),
            DataType::Float64 => Arc::new(numbers.map(|i| (i % 5 != 2).then_some(i as f64)).collect::<Float64Array>()),
            DataType::Utf8 => Arc::new(numbers.map(|i| (i % 7 != 3).then(|| text(i))).collect::<StringArray>()),
            DataType::Utf8View => Arc::new(StringViewArray::from_iter_values(numbers.map(text))),
            DataType::Boolean => {
                Arc::new(numbers.map(|i| (i % 9 != 4).then_some(i % 2 == 0)).collect::<BooleanArray>())
            }
            DataType::List(_) => Arc::new(lists()),
            DataType::Struct(fields) => Arc::new(pair(fields)),
            _ => {
                let symbols = numbers.map(|i| (i % 11 != 6).then(|| ["MSFT", "AMZN", "IBM"][i as usize % 3]));
                Arc::new(symbols.collect::<DictionaryArray<types::Int32Type>>())
            }
        }
    };
    RecordBatch::try_new(schema.clone(), schema.fields().iter().map(column).collect()).unwrap()
}

fn writer(path: &Path, schema: Option<&SchemaRef>) -> Result<Writer> {
    let sorted_by = schema.map(|_| "n".to_string());
    // Two of them: numbers, and whatever the other column is.
    let second = schema.and_then(|schema| schema.fields().iter().skip(1).find(|f| !f.data_type().is_nested()));
    let index = second.map(|field| vec!["n".to_string(), field.name().clone()]);
    Writer::open(path, schema.cloned(), &WriterOptions { sorted_by, index, zone_rows: Some(4), ..unsynced(16) })
}

/// The rows as text, as far as each can be read.
fn rows_of(dataset: &Dataset) -> Vec<Result<Vec<String>>> {
    let cells = |row: Result<arrowwood::Row<'_>>| {
        let row = row?;
        let cells: Vec<String> =
            (0..row.len()).map(|column| row.get(column).map(|value| value.to_string())).collect::<Result<_>>()?;
        // What is wrong inside of a list or a struct is printed there.
        match cells.iter().find(|cell| cell.contains("<error: ")) {
            Some(wrong) => Err(Error::new(ErrorKind::InvalidData, wrong.clone())),
            None => Ok(cells),
        }
    };
    dataset.rows().map(cells).collect()
}

impl Template {
    /// All of them, written by boot `BOOTS[0]`.
    pub fn all() -> Vec<Template> {
        simulate_boot(Some(BOOTS[0]));
        let schemas = [("numbers", numbers()), ("texts", texts()), ("nested", nested())];
        let made = schemas.into_iter().map(|(name, schema)| Template::new(name, schema)).collect();
        simulate_boot(None);
        made
    }

    /// Two segments, one full and one that grows; commits, some of them durable.
    fn new(name: &'static str, schema: SchemaRef) -> Template {
        let place = folder_in_memory();
        let table = place.path().join("t");
        let mut writer = writer(&table, Some(&schema)).unwrap();
        let (mut commits, mut from) = (BTreeSet::from([0]), 0);
        for to in [5, 9, 16, 18, 21, 23, 25] {
            writer.append(&batch(&schema, from..to)).unwrap();
            writer.commit_with(&[("rows", to), ("kafka/ticks/0", -to)]).unwrap();
            // The second segment's first one is in its columns, the next one in its log.
            if [5, 16, 21, 23].contains(&to) {
                writer.sync().unwrap();
            }
            commits.insert(to as u64);
            from = to;
        }
        // A copy while it is open: a writer that was killed, and whose last commit is not durable.
        let mut names: Vec<_> = fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let rows = rows_of(&open(&table).unwrap()).into_iter().collect::<Result<Vec<_>>>().unwrap();
        let mut template = Template { name, schema, files: Vec::new(), rows, commits, fields: Vec::new() };
        for path in names {
            template.add_file(&path);
        }
        template
    }

    fn add_file(&mut self, path: &Path) {
        let bytes = fs::read(path).unwrap();
        let word = |at: u64, size: usize| {
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(&bytes[at as usize..at as usize + size]);
            u64::from_le_bytes(wide)
        };
        let schema = 16 + word(12, 4);
        let empty = schema + 8 + word(schema + 4, 4);
        let header = empty.next_multiple_of(4096);
        assert_eq!(word(header, 8).to_le_bytes(), *b"ArrwWood");
        let at = |offset: u64| word(header + offset, 8);
        let (length, live, record) = (word(header + 12, 4), at(40), at(48));
        let (buffers, counters) = (word(header + 96, 4), word(header + 100, 4));
        let records: Vec<u64> = (0..4).map(|number| live + 4096 + number * record).collect();
        let (mut sums, mut entries) = (vec![(header, length, header + 16)], Vec::new());
        let record_len = |at: u64| 64 + 8 * (counters + word(at + 44, 4));
        sums.extend(records.iter().map(|&at| (at, record_len(at), at + 12)));
        let words = 2 * buffers + counters;
        let zones = (0..2 * word(header + 108, 2))
            .map(move |number| (128 + 8 * words + 4 * number, 4, format!("number {number} of its zones")));
        let lists = (0..words).map(|number| (128 + 8 * number, 8, format!("word {number} of its lists")));
        let lists = lists.chain(zones);
        let fixed = [
            (8, 2, "major"),
            (10, 2, "minor"),
            (12, 4, "length"),
            (20, 4, "slots"),
            (24, 8, "first_row"),
            (32, 8, "capacity"),
            (40, 8, "live"),
            (48, 8, "record"),
            (56, 8, "ring"),
            (64, 8, "slot"),
            (72, 8, "tail"),
            (80, 8, "footer"),
            (88, 8, "file"),
            (96, 4, "buffers"),
            (100, 4, "counters"),
            (104, 4, "sorted_by"),
            (108, 2, "zones"),
            (110, 2, "flags"),
            (112, 8, "segment_rows"),
            (120, 8, "log"),
        ];
        let fixed = fixed.into_iter().map(|(at, size, name)| (at, size, name.to_string()));
        let places: Vec<_> =
            fixed.chain(lists).map(|(at, size, name)| (Area::Header, header + at, size, name)).collect();
        let numbers = places.iter().map(|(_, at, size, _)| word(*at, *size)).collect();
        let words = [(0, 8, "sequence"), (64, 4, "waiting"), (128, 4, "writer"), (192, 8, "unsynced")];
        let words = words.map(|(at, size, name)| (Area::Live, live + at, size, name.to_string()));
        let of_records = records.iter().enumerate().flat_map(|(number, &start)| {
            let area = if number < 2 { Area::Visible } else { Area::Durable };
            let fixed = [(0, "sequence"), (16, "boot"), (24, "boot"), (32, "previous")];
            let fixed = fixed.map(|(at, name)| (at, 8, name.to_string())).into_iter();
            let halves = [(8, 4, "state"), (40, 4, "delta"), (44, 4, "positions")];
            let halves = halves.map(|(at, size, name)| (at, size, name.to_string()));
            let counts = (0..counters).map(|number| (64 + 8 * number, 8, format!("counter {number}")));
            let positions =
                (0..word(start + 44, 4)).map(|number| (64 + 8 * (counters + number), 8, format!("position {number}")));
            let counts = counts.chain(positions).collect::<Vec<_>>();
            let place = move |(at, size, name)| (area, start + at, size, format!("record {number}: {name}"));
            fixed.chain(halves).chain(counts).map(place)
        });
        let others: Arc<Vec<u64>> = Arc::new(numbers);
        let mut of_log = Vec::new();
        let log = live + 4096 + 4 * record;
        for start in (log..log + at(120)).step_by(4096).filter(|&start| word(start, 8) > 0) {
            let head = record_len(start);
            let (content, delta) = (&bytes[(start + head) as usize..(start + 4096) as usize], word(start + 40, 4));
            let Some(len) = (0..content.len()).find(|&len| u64::from(crc32c::crc32c(&content[..len])) == delta) else {
                continue;
            };
            entries.push((start, head, len as u64));
            let place = move |(at, size, name): (u64, usize, &str)| {
                (Area::Log, start + at, size, format!("entry of the log: {name}"))
            };
            let fixed =
                [(0, 8, "sequence"), (8, 4, "state"), (16, 8, "boot"), (32, 8, "previous"), (44, 4, "positions")];
            of_log.extend(fixed.map(place));
            let word_of = move |number: u64| (64 + 8 * number, 8, "number");
            of_log.extend((0..(head - 64) / 8 + counters).map(word_of).map(place));
        }
        let first_row = at(24);
        let file = self.files.len();
        let site = |(area, at, size, name): (Area, u64, usize, String)| {
            let is_rows = name.ends_with("counter 0");
            let rows_from = is_rows.then_some(first_row);
            Site { name, area, file, at, size, before: word(at, size), rows_from, others: others.clone() }
        };
        self.fields.extend(places.clone().into_iter().chain(words).chain(of_records).chain(of_log).map(site));
        let pages = bytes.chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|&byte| byte != 0));
        let pages = pages.map(|(number, page)| (4096 * number as u64, page.to_vec())).collect();
        let (name, len) = (PathBuf::from(path.file_name().unwrap()), bytes.len() as u64);
        self.files.push(Image { name, len, pages, live, sequence: word(live, 8), sums, entries });
    }

    /// The files as they were, in a folder that may hold some already.
    fn lay_out(&self, table: &Path) {
        let _ = fs::remove_dir_all(table);
        fs::create_dir_all(table).unwrap();
        for image in &self.files {
            let file = File::create(table.join(&image.name)).unwrap();
            file.set_len(image.len).unwrap();
            image.pages.iter().for_each(|(at, page)| file.write_all_at(page, *at).unwrap());
        }
    }

    /// Puts values into fields of the files in `table`, and repairs the checksums.
    fn forge(&self, table: &Path, edits: &[Edit<'_>]) {
        for (number, image) in self.files.iter().enumerate() {
            let own: Vec<_> = edits.iter().filter(|(site, _)| site.file == number).collect();
            let Ok(file) = File::options().read(true).write(true).open(table.join(&image.name)) else { continue };
            for (site, value) in &own {
                file.write_all_at(&value.to_le_bytes()[..site.size], site.at).unwrap();
            }
            for &(start, len, sum) in &image.sums {
                if own.iter().any(|(site, _)| (start..start + len).contains(&site.at)) {
                    // The header's own length says how many bytes its checksum is of.
                    let own_len = |(site, value): &&Edit<'_>| (site.name == "length").then_some(*value);
                    let is_header = sum == start + 16;
                    let len = own.iter().copied().filter(|_| is_header).find_map(|edit| own_len(&edit)).unwrap_or(len);
                    repair_sum(&file, start, len.min(image.len - start), sum);
                }
            }
            for &(start, head, len) in &image.entries {
                if own.iter().any(|(site, _)| (start..start + head + len).contains(&site.at)) {
                    let mut content = vec![0; len as usize];
                    file.read_exact_at(&mut content, start + head).unwrap();
                    file.write_all_at(&crc32c::crc32c(&content).to_le_bytes(), start + 40).unwrap();
                    repair_sum(&file, start, head, start + 12);
                }
            }
        }
    }

    /// What a table of the edits may have: how many rows are known to be there, and which numbers of rows it may have.
    fn expected(&self, edits: &[Edit<'_>], is_other_boot: bool) -> Expected<'_> {
        let all = self.rows.len() as u64;
        let is_of_header = edits.iter().all(|(site, _)| site.area == Area::Header);
        let mut lens = BTreeSet::from([if is_other_boot { DURABLE } else { all }]);
        if !is_of_header {
            // A commit before, where a record was made one that is not whole; or what a record says of itself.
            lens.extend(self.commits.iter().copied());
            lens.extend(edits.iter().filter_map(|(site, value)| site.rows_from?.checked_add(*value)));
        }
        Expected { rows: &self.rows, lens }
    }
}

/// The rows that were durable.
const DURABLE: u64 = 23;

fn repair_sum(file: &File, start: u64, len: u64, sum: u64) {
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, start).unwrap();
    let at = (sum - start) as usize;
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.fill(0);
    }
    file.write_all_at(&crc32c::crc32c(&bytes).to_le_bytes(), sum).unwrap();
}

/// What there may be to see.
struct Expected<'a> {
    rows: &'a [Vec<String>],
    lens: BTreeSet<u64>,
}

impl Expected<'_> {
    /// Whether `dataset`, whose first row has the number `from`, is one of those that may be seen.
    fn check(&self, dataset: &Dataset, from: u64) -> Result<(), String> {
        let Ok(len) = dataset.len() else { return Ok(()) };
        if !self.lens.contains(&(from + len)) {
            return Err(format!("rows {from} to {}, expected one of {:?}", from + len, self.lens));
        }
        self.check_rows(&rows_of(dataset), from)?;
        let batches: Result<Vec<_>> = dataset.to_record_batches().collect();
        let checked = batches.and_then(|batches| Dataset::from_batches(dataset.schema().clone(), batches));
        checked.map_or(Ok(()), |checked| self.check_rows(&rows_of(&checked), from))
    }

    fn check_rows(&self, found: &[Result<Vec<String>>], from: u64) -> Result<(), String> {
        for (number, row) in (from as usize..).zip(found) {
            let (Some(expected), Ok(row)) = (self.rows.get(number), row) else { continue };
            if row != expected {
                return Err(format!("row {number} is {row:?}, expected {expected:?}"));
            }
        }
        Ok(())
    }
}

// ---- what is asked ----

/// A folder in which one table after the other is forged.
pub struct Bench {
    place: tempfile::TempDir,
}

/// What came of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Whether it could be opened.
    pub is_open: bool,
    /// Whether `check` found nothing.
    pub is_good: bool,
}

impl Default for Bench {
    fn default() -> Bench {
        Bench { place: folder_in_memory() }
    }
}

impl Bench {
    /// Forges `template` and asks all there is to ask; writing, repairing and compacting only if `is_thorough`. What was
    /// wrong, in words. Panics go on.
    pub fn ask(
        &self,
        template: &Template,
        edits: &[Edit<'_>],
        boot: usize,
        is_thorough: bool,
    ) -> Result<Outcome, String> {
        let table = &self.place.path().join("t");
        let expected = template.expected(edits, boot > 0);
        template.lay_out(table);
        let before = earlier(template, table);
        template.forge(table, edits);
        if let Some(before) = before {
            refreshed(&before, &expected).map_err(|why| format!("refresh: {why}"))?;
        }
        let opened = open(table);
        let mut outcome = Outcome { is_open: opened.is_ok(), is_good: false };
        if let Ok(dataset) = &opened {
            expected.check(dataset, dataset.first_row()).map_err(|why| format!("open: {why}"))?;
            followed(dataset, &expected).map_err(|why| format!("follow: {why}"))?;
        }
        for image in &template.files {
            let _ = open(table.join(&image.name)).map(|dataset| rows_of(&dataset).len());
        }
        let _ = table_stat(table).map(|stat| format!("{stat:?}"));
        let report = check(table, |_, _| ()).map_err(|e| format!("check: {e}"))?;
        outcome.is_good = report.is_good();
        if edits.is_empty() && !outcome.is_good {
            return Err(format!("check finds {:?}", report.findings));
        }
        if !outcome.is_open && outcome.is_good {
            return Err(format!(
                "check finds nothing, open says {}",
                opened.err().map_or("".into(), |e| e.to_string())
            ));
        }
        drop(opened);
        if is_thorough {
            written(template, table, &expected).map_err(|why| format!("writer: {why}"))?;
            self.repaired(template, edits, &expected).map_err(|why| format!("repair: {why}"))?;
            self.compacted(template, edits, &expected).map_err(|why| format!("compact: {why}"))?;
        }
        Ok(outcome)
    }

    fn fresh(&self, template: &Template, edits: &[Edit<'_>]) -> PathBuf {
        let table = self.place.path().join("t");
        let _ = fs::remove_dir_all(self.place.path().join("t.damaged"));
        template.lay_out(&table);
        template.forge(&table, edits);
        table
    }

    /// A repaired table is good, and goes on.
    fn repaired(&self, template: &Template, edits: &[Edit<'_>], expected: &Expected<'_>) -> Result<(), String> {
        let table = self.fresh(template, edits);
        let Ok(report) = repair(&table, |_, _| ()) else { return Ok(()) };
        let Some(repaired) = report.repaired else { return Ok(()) };
        if fs::read_dir(&table).unwrap().next().is_none() {
            return Ok(());
        }
        let again = check(&table, |_, _| ()).map_err(|e| e.to_string())?;
        if !again.is_good() {
            return Err(format!("check finds {:?}", again.findings));
        }
        let dataset = open(&table).map_err(|e| e.to_string())?;
        let rows = rows_of(&dataset);
        if rows.len() as u64 != repaired.kept {
            return Err(format!("{} rows, it says {}", rows.len(), repaired.kept));
        }
        expected.check_rows(&rows, dataset.first_row())?;
        written(template, &table, &Expected { rows: expected.rows, lens: (0..=1 << 20).collect() })
    }

    fn compacted(&self, template: &Template, edits: &[Edit<'_>], expected: &Expected<'_>) -> Result<(), String> {
        let table = self.fresh(template, edits);
        if compact(&table, |_, _| ()).is_err() {
            return Ok(());
        }
        let dataset = open(&table).map_err(|e| e.to_string())?;
        expected.check(&dataset, dataset.first_row())
    }
}

/// The table as it was one commit earlier, opened by somebody who refreshes it now.
fn earlier(template: &Template, table: &Path) -> Option<Dataset> {
    let image = template.files.last()?;
    let file = File::options().write(true).open(table.join(&image.name)).unwrap();
    file.write_all_at(&(image.sequence - 1).to_le_bytes(), image.live).unwrap();
    let dataset = open(table).unwrap();
    let _ = (dataset.len(), dataset.column_at(0).and_then(|column| column.chunks()).map(|chunks| chunks.len()));
    file.write_all_at(&image.sequence.to_le_bytes(), image.live).unwrap();
    Some(dataset)
}

fn refreshed(before: &Dataset, expected: &Expected<'_>) -> Result<(), String> {
    let Ok(newer) = before.refresh() else { return Ok(()) };
    // Whoever has a segment open goes on with the header that it had.
    let all = Expected {
        rows: expected.rows,
        lens: expected.lens.iter().copied().chain([expected.rows.len() as u64]).collect(),
    };
    all.check(&newer, newer.first_row())
}

fn followed(dataset: &Dataset, expected: &Expected<'_>) -> Result<(), String> {
    let Ok(mut follow) = follow(dataset, Some(3), None) else { return Ok(()) };
    for _ in 0..3 {
        match follow.poll(Duration::ZERO) {
            Ok(Some(rows)) => expected.check(&rows, rows.first_row())?,
            Ok(None) | Err(_) => break,
        }
    }
    Ok(())
}

/// A writer goes on behind what is there, or refuses the table.
fn written(template: &Template, table: &Path, expected: &Expected<'_>) -> Result<(), String> {
    let Ok(mut writer) = writer(table, None) else { return Ok(()) };
    let rows = writer.rows();
    if !expected.lens.contains(&rows) {
        return Err(format!("goes on behind row {rows}, expected one of {:?}", expected.lens));
    }
    let first = i64::try_from(rows).unwrap_or(0).max(template.rows.len() as i64);
    let more = batch(&template.schema, first..first + 20);
    let appended = writer.append(&more).and_then(|()| writer.commit());
    let end = rows + if appended.is_ok() { 20 } else { 0 };
    let closed = writer.close();
    if appended.is_err() || closed.is_err() {
        return Ok(());
    }
    let dataset = open(table).map_err(|e| format!("after it: {e}"))?;
    let (from, found) = (dataset.first_row(), rows_of(&dataset));
    if from + found.len() as u64 != end {
        return Err(format!("{} rows from {from} on, expected an end of {end}", found.len()));
    }
    let known = found.len() - 20;
    expected.check_rows(&found[..known], from)?;
    for (number, row) in (first..).zip(&found[known..]) {
        let row = row.as_ref().map_err(|e| e.to_string())?;
        if row[0] != number.to_string() {
            return Err(format!("an appended row is {row:?}, expected {number}"));
        }
    }
    Ok(())
}
