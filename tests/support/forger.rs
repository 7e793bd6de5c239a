//! Forged tables: headers and commit records with wrong values and correct checksums, as only an attacker writes them.
//! `crates/arrowwood/tests/recovery/forged.rs` tries the fields one by one, `fuzz/fuzz_targets/tables.rs` tries combinations.
//!
//! A forged table must cause no panic, and must not show rows that were never appended, that are in the wrong place or
//! that have changed. Headers don't describe commits, so a table with a forged header gives an error or all of its
//! rows. A forged record is indistinguishable from a real commit: its number of rows is accepted if it is within
//! bounds. Rows after the appended ones may then have any value; the appended ones are unchanged or an error.

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

/// The boot in which the tables are written, and a later one in which some are read.
pub const BOOTS: [[u8; 16]; 2] = [*b"the boot of then", *b"the boot of now."];

/// The number of rows of a template that are durable, and so survive a reboot.
const DURABLE_ROWS: u64 = 23;

/// The page size of the format: headers, the live area, records and log entries begin at multiples of it.
const PAGE: u64 = 4096;

/// The size of a commit record's fixed fields, which its counters follow.
const RECORD_HEADER: u64 = 64;

// ---- templates ----

/// A table to forge, with its expected contents.
pub struct Template {
    pub name: &'static str,
    schema: SchemaRef,
    files: Vec<Image>,
    /// The rows as text, by their numbers.
    rows: Vec<Vec<String>>,
    /// The number of rows after each commit.
    commits: BTreeSet<u64>,
    /// The fields that can be forged, of all segments.
    pub fields: Vec<Site>,
}

/// A segment file, without its pages of zeros.
struct Image {
    name: PathBuf,
    len: u64,
    pages: Vec<(u64, Vec<u8>)>,
    /// The offset of the live area, whose first word is the sequence number of the newest commit.
    live: u64,
    sequence: u64,
    checksums: Vec<Checksum>,
    log_entries: Vec<LogEntry>,
}

/// A range of bytes and the offset of its checksum.
struct Checksum {
    start: u64,
    len: u64,
    position: u64,
    is_header: bool,
}

/// An entry of the log: a record, followed by the contents that were appended.
struct LogEntry {
    start: u64,
    record_len: u64,
    content_len: u64,
}

/// The part of a file that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Header,
    /// The words without a checksum.
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
    offset: u64,
    size: usize,
    original: u64,
    /// The first row of the file, if the field is a number of rows.
    first_row: Option<u64>,
    /// The values of the file's header fields, which may be plausible here, too.
    header_values: Arc<Vec<u64>>,
}

impl Site {
    /// Returns interesting values for this field, without duplicates and without the original.
    pub fn values(&self) -> Vec<u64> {
        let n = self.original;
        let mut values = BTreeSet::new();
        for distance in [1, 2, 8, 16, 64, 4096, 65_536] {
            values.insert(n.wrapping_add(distance));
            values.insert(n.wrapping_sub(distance));
        }
        values.extend([n / 2, n.wrapping_mul(2), n | 1, !n, n.wrapping_neg(), n.swap_bytes()]);
        values.extend([0, 1, 2, 3, 7, 63, 64, 100, 128, 4095, 4096, 65_535, 65_536]);
        values.extend([1 << 28, (1 << 31) - 1, 1 << 31, u32::MAX.into(), 1 << 32, 1 << 47, 1 << 48, 1 << 61, 1 << 62]);
        values.extend([1 << 63, i64::MAX as u64, u64::MAX - 4095, u64::MAX - 1, u64::MAX]);
        values.extend(self.header_values.iter());
        let mask = u64::MAX >> (64 - 8 * self.size);
        let mut values: BTreeSet<u64> = values.into_iter().map(|value| value & mask).collect();
        values.remove(&n);
        values.into_iter().collect()
    }
}

/// A field and its forged value.
pub type Edit<'a> = (&'a Site, u64);

fn field(name: &str, data_type: DataType, nullable: bool) -> Field {
    Field::new(name, data_type, nullable)
}

/// Returns a schema of numbers.
pub fn numbers() -> SchemaRef {
    Arc::new(Schema::new(vec![field("n", DataType::Int64, false), field("x", DataType::Float64, true)]))
}

/// Returns a schema with texts in several encodings.
pub fn texts() -> SchemaRef {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        field("n", DataType::Int64, false),
        field("text", DataType::Utf8, true),
        field("symbol", dictionary, true),
        field("view", DataType::Utf8View, false),
    ]))
}

/// Returns a schema with a list and a struct.
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

/// Returns rows of one of these schemas, with values derived from their numbers.
pub fn batch(schema: &SchemaRef, rows: Range<i64>) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| column(field.data_type(), rows.clone())).collect();
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

fn column(data_type: &DataType, rows: Range<i64>) -> ArrayRef {
    match data_type {
        DataType::Int64 => Arc::new(Int64Array::from_iter_values(rows)),
        DataType::Float64 => Arc::new(rows.map(|i| (i % 5 != 2).then_some(i as f64)).collect::<Float64Array>()),
        DataType::Utf8 => Arc::new(rows.map(|i| (i % 7 != 3).then(|| text(i))).collect::<StringArray>()),
        DataType::Utf8View => Arc::new(StringViewArray::from_iter_values(rows.map(text))),
        DataType::Boolean => Arc::new(rows.map(|i| (i % 9 != 4).then_some(i % 2 == 0)).collect::<BooleanArray>()),
        DataType::List(_) => Arc::new(lists(rows)),
        DataType::Struct(fields) => Arc::new(structs(fields, rows)),
        _ => {
            let symbols = rows.map(|i| (i % 11 != 6).then(|| ["MSFT", "AMZN", "IBM"][i as usize % 3]));
            Arc::new(symbols.collect::<DictionaryArray<types::Int32Type>>())
        }
    }
}

fn text(i: i64) -> String {
    format!("né {i} {}", "x".repeat(i as usize % 17))
}

fn lists(rows: Range<i64>) -> ListArray {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for i in rows {
        for item in 0..i % 4 {
            lists.values().append_option((item != 2).then_some(item as i32));
        }
        lists.append(i % 6 != 5);
    }
    lists.finish()
}

fn structs(fields: &Fields, rows: Range<i64>) -> StructArray {
    let a: Int32Array = rows.clone().map(|i| (i % 3 != 0).then_some(i as i32)).collect();
    let b = LargeStringArray::from_iter_values(rows.clone().map(text));
    let nulls = rows.map(|i| i % 8 != 1).collect::<Vec<_>>().into();
    StructArray::new(fields.clone(), vec![Arc::new(a), Arc::new(b)], Some(nulls))
}

/// Opens a writer with an index of two columns: the numbers, and the second column unless it is nested.
fn open_writer(path: &Path, schema: Option<&SchemaRef>) -> Result<Writer> {
    let sorted_by = schema.map(|_| "n".to_string());
    let second = schema.and_then(|schema| schema.fields().iter().skip(1).find(|f| !f.data_type().is_nested()));
    let index = second.map(|field| vec!["n".to_string(), field.name().clone()]);
    Writer::open(path, schema.cloned(), &WriterOptions { sorted_by, index, zone_rows: Some(4), ..unsynced(16) })
}

/// Returns each row as text, or the error of reading it.
fn read_rows(dataset: &Dataset) -> Vec<Result<Vec<String>>> {
    dataset.rows().map(|row| row.and_then(|row| read_cells(&row))).collect()
}

fn read_cells(row: &arrowwood::Row<'_>) -> Result<Vec<String>> {
    let mut cells = Vec::new();
    for column in 0..row.len() {
        let cell = row.get(column)?.to_string();
        // Errors in the items of a list or a struct are part of its text.
        if cell.contains("<error: ") {
            return Err(Error::new(ErrorKind::InvalidData, cell));
        }
        cells.push(cell);
    }
    Ok(cells)
}

impl Template {
    /// Creates all templates, written in the boot `BOOTS[0]`.
    pub fn all() -> Vec<Template> {
        simulate_boot(Some(BOOTS[0]));
        let schemas = [("numbers", numbers()), ("texts", texts()), ("nested", nested())];
        let templates = schemas.into_iter().map(|(name, schema)| Template::new(name, schema)).collect();
        simulate_boot(None);
        templates
    }

    /// Creates a table of two segments, a full one and a growing one, with several commits, some of which are durable.
    fn new(name: &'static str, schema: SchemaRef) -> Template {
        let folder = folder_in_memory();
        let table = folder.path().join("t");
        let mut writer = open_writer(&table, Some(&schema)).unwrap();
        let mut commits = BTreeSet::from([0]);
        let mut start = 0;
        for end in [5, 9, 16, 18, 21, 23, 25] {
            writer.append(&batch(&schema, start..end)).unwrap();
            writer.commit_with(&[("rows", end), ("kafka/ticks/0", -end)]).unwrap();
            // The first sync of the second segment writes its columns, the next one its log.
            if [5, 16, 21, 23].contains(&end) {
                writer.sync().unwrap();
            }
            commits.insert(end as u64);
            start = end;
        }
        // The files are read while the writer is open, as a kill leaves them: the last commit isn't durable.
        let mut paths: Vec<_> = fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let rows = read_rows(&open(&table).unwrap()).into_iter().collect::<Result<Vec<_>>>().unwrap();
        let mut template = Template { name, schema, files: Vec::new(), rows, commits, fields: Vec::new() };
        for path in paths {
            template.add_file(&path);
        }
        template
    }

    fn add_file(&mut self, path: &Path) {
        let bytes = fs::read(path).unwrap();
        let layout = Layout::parse(&bytes);
        let header_fields = layout.header_fields();
        let header_values = header_fields.iter().map(|field| number_at(&bytes, field.offset, field.size)).collect();
        let header_values: Arc<Vec<u64>> = Arc::new(header_values);
        let mut checksums = vec![Checksum {
            start: layout.header,
            len: layout.header_len,
            position: layout.header + 16,
            is_header: true,
        }];
        for start in layout.records() {
            let len = layout.record_len(&bytes, start);
            checksums.push(Checksum { start, len, position: start + 12, is_header: false });
        }
        let log_entries = layout.log_entries(&bytes);

        let mut fields = header_fields;
        fields.extend(layout.live_fields());
        for (number, start) in layout.records().into_iter().enumerate() {
            fields.extend(layout.record_fields(&bytes, number, start));
        }
        for entry in &log_entries {
            fields.extend(layout.log_entry_fields(entry));
        }
        let file = self.files.len();
        for FieldLayout { area, offset, size, name } in fields {
            let first_row = name.ends_with("counter 0").then_some(layout.first_row);
            let original = number_at(&bytes, offset, size);
            let header_values = header_values.clone();
            self.fields.push(Site { name, area, file, offset, size, original, first_row, header_values });
        }

        const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];
        let pages = bytes.chunks(PAGE as usize).enumerate().filter(|(_, page)| **page != ZEROS[..page.len()]);
        self.files.push(Image {
            name: PathBuf::from(path.file_name().unwrap()),
            len: bytes.len() as u64,
            pages: pages.map(|(number, page)| (PAGE * number as u64, page.to_vec())).collect(),
            live: layout.live,
            sequence: number_at(&bytes, layout.live, 8),
            checksums,
            log_entries,
        });
    }

    /// Writes the original files to `table`, and removes all others.
    fn restore(&self, table: &Path) {
        // Fails for the first table, which doesn't exist yet.
        let _ = fs::remove_dir_all(table);
        fs::create_dir_all(table).unwrap();
        for image in &self.files {
            let file = File::create(table.join(&image.name)).unwrap();
            file.set_len(image.len).unwrap();
            for (offset, page) in &image.pages {
                file.write_all_at(page, *offset).unwrap();
            }
        }
    }

    /// Writes forged values to the files in `table`, and corrects the checksums.
    fn forge(&self, table: &Path, edits: &[Edit<'_>]) {
        for (number, image) in self.files.iter().enumerate() {
            let edits: Vec<_> = edits.iter().filter(|(site, _)| site.file == number).collect();
            let Ok(file) = File::options().read(true).write(true).open(table.join(&image.name)) else { continue };
            for (site, value) in &edits {
                file.write_all_at(&value.to_le_bytes()[..site.size], site.offset).unwrap();
            }
            for &Checksum { start, len, position, is_header } in &image.checksums {
                if !edits.iter().any(|(site, _)| (start..start + len).contains(&site.offset)) {
                    continue;
                }
                // A forged length of the header changes the range that its checksum covers.
                let length_edit = edits.iter().find(|(site, _)| is_header && site.name == "length");
                let len = length_edit.map_or(len, |(_, value)| *value);
                repair_checksum(&file, start, len.min(image.len - start), position);
            }
            for &LogEntry { start, record_len, content_len } in &image.log_entries {
                let entry = start..start + record_len + content_len;
                if edits.iter().any(|(site, _)| entry.contains(&site.offset)) {
                    let mut content = vec![0; content_len as usize];
                    file.read_exact_at(&mut content, start + record_len).unwrap();
                    file.write_all_at(&crc32c::crc32c(&content).to_le_bytes(), start + 40).unwrap();
                    repair_checksum(&file, start, record_len, start + 12);
                }
            }
        }
    }

    /// Returns the acceptable contents of a table with these edits.
    fn expected(&self, edits: &[Edit<'_>], is_other_boot: bool) -> Expected<'_> {
        let all = self.rows.len() as u64;
        let mut lens = BTreeSet::from([if is_other_boot { DURABLE_ROWS } else { all }]);
        if edits.iter().any(|(site, _)| site.area != Area::Header) {
            // An earlier commit, if a record became invalid, or the length in a forged record.
            lens.extend(self.commits.iter().copied());
            lens.extend(edits.iter().filter_map(|(site, value)| site.first_row?.checked_add(*value)));
        }
        Expected { rows: &self.rows, lens }
    }
}

/// The positions of the parts of a segment file.
struct Layout {
    header: u64,
    header_len: u64,
    first_row: u64,
    live: u64,
    record_size: u64,
    buffers: u64,
    counters: u64,
    zones: u64,
    log_len: u64,
}

/// A field of a segment file.
struct FieldLayout {
    area: Area,
    offset: u64,
    size: usize,
    name: String,
}

impl FieldLayout {
    fn new(area: Area, offset: u64, size: usize, name: impl Into<String>) -> FieldLayout {
        FieldLayout { area, offset, size, name: name.into() }
    }
}

impl Layout {
    fn parse(bytes: &[u8]) -> Layout {
        // The header follows two IPC messages, the schema and an empty batch; their lengths are 4 bytes in.
        let batch_message = 16 + number_at(bytes, 12, 4);
        let messages_end = batch_message + 8 + number_at(bytes, batch_message + 4, 4);
        let header = messages_end.next_multiple_of(PAGE);
        assert_eq!(number_at(bytes, header, 8).to_le_bytes(), *b"ArrwWood");
        Layout {
            header,
            header_len: number_at(bytes, header + 12, 4),
            first_row: number_at(bytes, header + 24, 8),
            live: number_at(bytes, header + 40, 8),
            record_size: number_at(bytes, header + 48, 8),
            buffers: number_at(bytes, header + 96, 4),
            counters: number_at(bytes, header + 100, 4),
            zones: number_at(bytes, header + 108, 2),
            log_len: number_at(bytes, header + 120, 8),
        }
    }

    /// Returns the offsets of the commit records: two visible ones, then two durable ones.
    fn records(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|number| self.live + PAGE + number * self.record_size)
    }

    /// Returns the length of the record at `start`, which depends on its number of positions.
    fn record_len(&self, bytes: &[u8], start: u64) -> u64 {
        RECORD_HEADER + 8 * (self.counters + number_at(bytes, start + 44, 4))
    }

    fn log_entries(&self, bytes: &[u8]) -> Vec<LogEntry> {
        let mut entries = Vec::new();
        let log = self.live + PAGE + 4 * self.record_size;
        for start in (log..log + self.log_len).step_by(PAGE as usize) {
            if number_at(bytes, start, 8) == 0 {
                continue;
            }
            let record_len = self.record_len(bytes, start);
            let content = &bytes[(start + record_len) as usize..(start + PAGE) as usize];
            let checksum = number_at(bytes, start + 40, 4);
            // The length isn't stored: it is the one for which the checksum is right.
            let content_len = (0..content.len()).find(|&len| u64::from(crc32c::crc32c(&content[..len])) == checksum);
            if let Some(content_len) = content_len {
                entries.push(LogEntry { start, record_len, content_len: content_len as u64 });
            }
        }
        entries
    }

    fn header_fields(&self) -> Vec<FieldLayout> {
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
        let mut fields = Vec::new();
        for (offset, size, name) in fixed {
            fields.push(FieldLayout::new(Area::Header, self.header + offset, size, name));
        }
        let lists = self.header + 128;
        let words = 2 * self.buffers + self.counters;
        for number in 0..words {
            let name = format!("word {number} of its lists");
            fields.push(FieldLayout::new(Area::Header, lists + 8 * number, 8, name));
        }
        let zones = lists + 8 * words;
        for number in 0..2 * self.zones {
            let name = format!("number {number} of its zones");
            fields.push(FieldLayout::new(Area::Header, zones + 4 * number, 4, name));
        }
        fields
    }

    fn live_fields(&self) -> Vec<FieldLayout> {
        let fields = [(0, 8, "sequence"), (64, 4, "waiting"), (128, 4, "writer"), (192, 8, "unsynced")];
        fields.map(|(offset, size, name)| FieldLayout::new(Area::Live, self.live + offset, size, name)).into()
    }

    fn record_fields(&self, bytes: &[u8], number: usize, start: u64) -> Vec<FieldLayout> {
        let area = if number < 2 { Area::Visible } else { Area::Durable };
        let fixed = [
            (0, 8, "sequence"),
            (16, 8, "boot"),
            (24, 8, "boot"),
            (32, 8, "previous"),
            (8, 4, "state"),
            (40, 4, "delta"),
            (44, 4, "positions"),
        ];
        let mut fields = Vec::new();
        for (offset, size, name) in fixed {
            fields.push(FieldLayout::new(area, start + offset, size, format!("record {number}: {name}")));
        }
        let counters = start + RECORD_HEADER;
        for counter in 0..self.counters {
            let name = format!("record {number}: counter {counter}");
            fields.push(FieldLayout::new(area, counters + 8 * counter, 8, name));
        }
        let positions = counters + 8 * self.counters;
        for position in 0..number_at(bytes, start + 44, 4) {
            let name = format!("record {number}: position {position}");
            fields.push(FieldLayout::new(area, positions + 8 * position, 8, name));
        }
        fields
    }

    fn log_entry_fields(&self, entry: &LogEntry) -> Vec<FieldLayout> {
        let fixed = [(0, 8, "sequence"), (8, 4, "state"), (16, 8, "boot"), (32, 8, "previous"), (44, 4, "positions")];
        let mut fields = Vec::new();
        for (offset, size, name) in fixed {
            fields.push(FieldLayout::new(Area::Log, entry.start + offset, size, format!("entry of the log: {name}")));
        }
        // The numbers of the record, and as many of the contents as there are counters.
        let numbers = entry.start + RECORD_HEADER;
        for number in 0..(entry.record_len - RECORD_HEADER) / 8 + self.counters {
            fields.push(FieldLayout::new(Area::Log, numbers + 8 * number, 8, "entry of the log: number"));
        }
        fields
    }
}

/// Returns the little-endian number of `size` bytes at `offset`.
fn number_at(bytes: &[u8], offset: u64, size: usize) -> u64 {
    let mut number = [0; 8];
    number[..size].copy_from_slice(&bytes[offset as usize..][..size]);
    u64::from_le_bytes(number)
}

/// Computes the checksum of a range, in which the checksum itself counts as zero, and stores it at `position`.
fn repair_checksum(file: &File, start: u64, len: u64, position: u64) {
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, start).unwrap();
    let index = (position - start) as usize;
    if let Some(checksum) = bytes.get_mut(index..index + 4) {
        checksum.fill(0);
    }
    file.write_all_at(&crc32c::crc32c(&bytes).to_le_bytes(), position).unwrap();
}

/// The acceptable contents of a forged table.
struct Expected<'a> {
    rows: &'a [Vec<String>],
    /// The acceptable numbers of rows.
    lens: BTreeSet<u64>,
}

impl Expected<'_> {
    /// Checks a dataset whose first row has the number `first_row`. An error instead of rows is acceptable.
    fn check(&self, dataset: &Dataset, first_row: u64) -> Result<(), String> {
        let Ok(len) = dataset.len() else { return Ok(()) };
        let end = first_row + len;
        if !self.lens.contains(&end) {
            return Err(format!("rows {first_row} to {end}, expected one of {:?}", self.lens));
        }
        self.check_rows(&read_rows(dataset), first_row)?;
        let batches: Result<Vec<_>> = dataset.to_record_batches().collect();
        match batches.and_then(|batches| Dataset::from_batches(dataset.schema().clone(), batches)) {
            Ok(copy) => self.check_rows(&read_rows(&copy), first_row),
            Err(_) => Ok(()),
        }
    }

    fn check_rows(&self, actual: &[Result<Vec<String>>], first_row: u64) -> Result<(), String> {
        for (number, row) in (first_row as usize..).zip(actual) {
            let (Some(expected), Ok(row)) = (self.rows.get(number), row) else { continue };
            if row != expected {
                return Err(format!("row {number} is {row:?}, expected {expected:?}"));
            }
        }
        Ok(())
    }
}

// ---- checks ----

/// A folder in which tables are forged, one after the other.
pub struct Bench {
    folder: tempfile::TempDir,
}

/// The result of checking a forged table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// True if the table could be opened.
    pub is_open: bool,
    /// True if `check` reported no findings.
    pub is_good: bool,
}

impl Default for Bench {
    fn default() -> Bench {
        Bench { folder: folder_in_memory() }
    }
}

impl Bench {
    /// Forges a table and checks everything that reads it; also writes, repairs and compacts it if `is_thorough`.
    ///
    /// Returns a description of the first violation. Panics of the library are passed on.
    pub fn check_edits(
        &self,
        template: &Template,
        edits: &[Edit<'_>],
        boot: usize,
        is_thorough: bool,
    ) -> Result<Outcome, String> {
        let table = &self.folder.path().join("t");
        let expected = template.expected(edits, boot > 0);
        template.restore(table);
        let earlier = open_earlier(template, table);
        template.forge(table, edits);
        if let Some(earlier) = earlier {
            check_refresh(&earlier, &expected).map_err(|why| format!("refresh: {why}"))?;
        }
        let opened = open(table);
        let mut outcome = Outcome { is_open: opened.is_ok(), is_good: false };
        if let Ok(dataset) = &opened {
            expected.check(dataset, dataset.first_row()).map_err(|why| format!("open: {why}"))?;
            check_follow(dataset, &expected).map_err(|why| format!("follow: {why}"))?;
        }
        // These may fail, but must not panic.
        for image in &template.files {
            let _ = open(table.join(&image.name)).map(|dataset| read_rows(&dataset).len());
        }
        let _ = table_stat(table).map(|stat| format!("{stat:?}"));
        let report = check(table, |_, _| ()).map_err(|e| format!("check: {e}"))?;
        outcome.is_good = report.is_good();
        if edits.is_empty() && !outcome.is_good {
            return Err(format!("check finds {:?}", report.findings));
        }
        if outcome.is_good
            && let Err(e) = &opened
        {
            return Err(format!("check finds nothing, open says {e}"));
        }
        drop(opened);
        if is_thorough {
            check_writer(template, table, &expected).map_err(|why| format!("writer: {why}"))?;
            self.check_repair(template, edits, &expected).map_err(|why| format!("repair: {why}"))?;
            self.check_compaction(template, edits, &expected).map_err(|why| format!("compact: {why}"))?;
        }
        Ok(outcome)
    }

    /// Forges the table anew, as the previous check has changed it.
    fn forge_again(&self, template: &Template, edits: &[Edit<'_>]) -> PathBuf {
        let table = self.folder.path().join("t");
        // Only exists after a repair.
        let _ = fs::remove_dir_all(self.folder.path().join("t.damaged"));
        template.restore(&table);
        template.forge(&table, edits);
        table
    }

    /// Checks that a repaired table is good, and that a writer can continue it.
    fn check_repair(&self, template: &Template, edits: &[Edit<'_>], expected: &Expected<'_>) -> Result<(), String> {
        let table = self.forge_again(template, edits);
        let Ok(report) = repair(&table, |_, _| ()) else { return Ok(()) };
        let Some(repaired) = report.repaired else { return Ok(()) };
        if fs::read_dir(&table).unwrap().next().is_none() {
            return Ok(());
        }
        let report = check(&table, |_, _| ()).map_err(|e| e.to_string())?;
        if !report.is_good() {
            return Err(format!("check finds {:?}", report.findings));
        }
        let dataset = open(&table).map_err(|e| e.to_string())?;
        let rows = read_rows(&dataset);
        if rows.len() as u64 != repaired.kept {
            return Err(format!("{} rows, it says {}", rows.len(), repaired.kept));
        }
        expected.check_rows(&rows, dataset.first_row())?;
        let any_len = (0..=1 << 20).collect();
        check_writer(template, &table, &Expected { rows: expected.rows, lens: any_len })
    }

    fn check_compaction(&self, template: &Template, edits: &[Edit<'_>], expected: &Expected<'_>) -> Result<(), String> {
        let table = self.forge_again(template, edits);
        if compact(&table, |_, _| ()).is_err() {
            return Ok(());
        }
        let dataset = open(&table).map_err(|e| e.to_string())?;
        expected.check(&dataset, dataset.first_row())
    }
}

/// Opens the table as it was one commit earlier, and restores it.
fn open_earlier(template: &Template, table: &Path) -> Option<Dataset> {
    let image = template.files.last()?;
    let file = File::options().write(true).open(table.join(&image.name)).unwrap();
    file.write_all_at(&(image.sequence - 1).to_le_bytes(), image.live).unwrap();
    let dataset = open(table).unwrap();
    // Maps the segments.
    let _ = (dataset.len(), dataset.column_at(0).and_then(|column| column.chunks()).map(|chunks| chunks.len()));
    file.write_all_at(&image.sequence.to_le_bytes(), image.live).unwrap();
    Some(dataset)
}

fn check_refresh(earlier: &Dataset, expected: &Expected<'_>) -> Result<(), String> {
    let Ok(newer) = earlier.refresh() else { return Ok(()) };
    // A reader that has the segment open goes on with the original header, and so may see all rows.
    let mut lens = expected.lens.clone();
    lens.insert(expected.rows.len() as u64);
    Expected { rows: expected.rows, lens }.check(&newer, newer.first_row())
}

fn check_follow(dataset: &Dataset, expected: &Expected<'_>) -> Result<(), String> {
    let Ok(mut follow) = follow(dataset, Some(3), None) else { return Ok(()) };
    for _ in 0..3 {
        match follow.poll(Duration::ZERO) {
            Ok(Some(rows)) => expected.check(&rows, rows.first_row())?,
            Ok(None) | Err(_) => break,
        }
    }
    Ok(())
}

/// Checks that a writer continues after the existing rows, or refuses the table.
fn check_writer(template: &Template, table: &Path, expected: &Expected<'_>) -> Result<(), String> {
    const APPENDED: i64 = 20;
    let Ok(mut writer) = open_writer(table, None) else { return Ok(()) };
    let rows = writer.rows();
    if !expected.lens.contains(&rows) {
        return Err(format!("goes on behind row {rows}, expected one of {:?}", expected.lens));
    }
    let first = i64::try_from(rows).unwrap_or(0).max(template.rows.len() as i64);
    let appended = writer.append(&batch(&template.schema, first..first + APPENDED)).and_then(|()| writer.commit());
    let closed = writer.close();
    if appended.is_err() || closed.is_err() {
        return Ok(());
    }
    let end = rows + APPENDED as u64;
    let dataset = open(table).map_err(|e| format!("after it: {e}"))?;
    let first_row = dataset.first_row();
    let actual = read_rows(&dataset);
    if first_row + actual.len() as u64 != end {
        return Err(format!("{} rows from {first_row} on, expected an end of {end}", actual.len()));
    }
    let (old_rows, new_rows) = actual.split_at(actual.len() - APPENDED as usize);
    expected.check_rows(old_rows, first_row)?;
    for (number, row) in (first..).zip(new_rows) {
        let row = row.as_ref().map_err(|e| e.to_string())?;
        if row[0] != number.to_string() {
            return Err(format!("an appended row is {row:?}, expected {number}"));
        }
    }
    Ok(())
}
