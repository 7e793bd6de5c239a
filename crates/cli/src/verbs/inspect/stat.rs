//! Implements `arrowwood stat`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use arrowwood::readable::{ellipsize, format_bytes, format_count};
use arrowwood::{Column, Dataset, ErrorKind, Footprint, MessageKind, TableStat, Value, table_stat, type_name};
use clap::Args;
use serde_json::{Value as Json, json};

use crate::rows::open::open;
use crate::shell::{CliResult, Progress, Stdout, print_json, write_aligned};

/// Print rows, batches and sizes, and nulls, smallest and largest value of each column; for a table also its files,
/// durable rows, and writer.
#[derive(Args)]
#[command(after_help = "Example: arrowwood stat 'ticks/*.arrow'")]
pub(crate) struct Stat {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Files, globs or directories of one schema; - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

/// The maximum number of characters of a column's name.
const MAX_NAME_WIDTH: usize = 60;
/// The maximum number of characters of a type.
const MAX_TYPE_WIDTH: usize = 40;
/// The maximum number of characters of a value.
const MAX_VALUE_WIDTH: usize = 30;

/// The statistics of a column.
struct ColumnSummary {
    name: String,
    type_name: String,
    nulls: u64,
    /// `None` for types without an order.
    range: Option<ValueRange>,
}

/// The smallest and the largest value of a column.
struct ValueRange {
    min: PrintedValue,
    max: PrintedValue,
}

/// A value as text of a limited width, and as JSON.
struct PrintedValue {
    text: String,
    json: Json,
}

impl Stat {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        let dataset = open(&self.paths)?;
        let table = match &self.paths[..] {
            [path] => table_stat(path)?,
            _ => None,
        };
        let summary = DatasetSummary { table, ..DatasetSummary::new(&dataset)? };
        let columns = summarize_columns(&dataset)?;
        if self.json {
            return Ok(print_json(out, summary.to_json(&columns))?);
        }
        write_aligned(out, &summary.to_lines())?;
        writeln!(out)?;
        let header = ["column", "type", "nulls", "min", "max"].map(String::from).to_vec();
        Ok(write_aligned(out, &[vec![header], columns.iter().map(ColumnSummary::to_line).collect()].concat())?)
    }
}

/// The statistics of a dataset.
struct DatasetSummary {
    rows: u64,
    batches: u64,
    /// The size of all buffers in bytes, uncompressed.
    bytes: u64,
    footprint: Footprint,
    /// File or stream, or both if files differ.
    format: String,
    /// The codecs of batches, or none.
    compression: String,
    table: Option<TableStat>,
}

impl DatasetSummary {
    /// Reads the statistics of a dataset, apart from the facts about a table.
    fn new(dataset: &Dataset) -> CliResult<DatasetSummary> {
        let messages = dataset.messages()?;
        let schemas = messages.iter().filter(|message| message.kind == MessageKind::Schema);
        // Only streams begin with a message.
        let format = distinct(schemas.map(|schema| if schema.offset == 0 { "stream" } else { "file" }));
        let batches = messages.iter().filter(|message| message.kind == MessageKind::RecordBatch);
        let compression = distinct(batches.map(|batch| batch.compression.map_or("none", |codec| codec.name())));
        let rows = dataset.len()?;
        let batches = dataset.num_batches()? as u64;
        let bytes = dataset.nbytes()?;
        Ok(DatasetSummary { rows, batches, bytes, footprint: dataset.footprint(), format, compression, table: None })
    }

    fn to_lines(&self) -> Vec<Vec<String>> {
        let mapped = format_bytes(self.footprint.mapped);
        let copied = format_bytes(self.footprint.copied);
        let mut facts = vec![
            ("rows", format_count(self.rows)),
            ("batches", format_count(self.batches)),
            ("values", format_bytes(self.bytes)),
            ("files", format!("{mapped} mapped, {copied} copied")),
            ("format", self.format.clone()),
            ("compression", self.compression.clone()),
        ];
        if let Some(table) = &self.table {
            facts.extend(table_facts(table));
        }
        facts.into_iter().map(|(name, fact)| vec![name.into(), fact]).collect()
    }

    fn to_json(&self, columns: &[ColumnSummary]) -> Json {
        json!({
            "rows": self.rows,
            "batches": self.batches,
            "bytes": self.bytes,
            "mapped": self.footprint.mapped,
            "copied": self.footprint.copied,
            "format": self.format,
            "compression": self.compression,
            "table": self.table.as_ref().map(table_json),
            "columns": columns.iter().map(ColumnSummary::to_json).collect::<Vec<_>>(),
        })
    }
}

fn table_facts(table: &TableStat) -> Vec<(&'static str, String)> {
    let segments = format!("{}, {} of them dense", format_count(table.segments), format_count(table.dense));
    let last = if table.live { "the last one grows" } else { "none of them grows" };
    let writer = table.writer.map_or("none".into(), |pid| format!("process {pid}"));
    let mut facts = vec![
        ("segments", format!("{segments}, {last}")),
        ("first row", format!("number {}", format_count(table.first_row))),
        ("on disk", format!("{}, with holes {}", format_bytes(table.disk), format_bytes(table.apparent))),
    ];
    if table.live {
        let sorted_by = table.sorted_by.as_ref().map_or("nothing".into(), |name| ellipsize(name, MAX_NAME_WIDTH));
        facts.extend([
            (if table.late { "late rows by" } else { "sorted by" }, sorted_by),
            ("writer", writer),
            ("commits", format!("up to number {}", format_count(table.sequence))),
            ("durable", format!("rows before number {}", format_count(table.durable_end))),
        ]);
    }
    facts
}

fn table_json(table: &TableStat) -> Json {
    json!({
        "segments": table.segments,
        "dense": table.dense,
        "live": table.live,
        "first_row": table.first_row,
        "end": table.end,
        "durable_end": table.durable_end,
        "sequence": table.sequence,
        "writer": table.writer,
        "disk": table.disk,
        "apparent": table.apparent,
        "sorted_by": table.sorted_by,
        "late": table.late,
        "index": table.index,
        "segment_rows": table.segment_rows,
    })
}

/// Joins the distinct names.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect::<BTreeSet<_>>().into_iter().collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn summarize_columns(dataset: &Dataset) -> CliResult<Vec<ColumnSummary>> {
    let mut progress = Progress::new("reading columns");
    let count = dataset.num_columns();
    let mut summaries = Vec::with_capacity(count);
    for index in 0..count {
        progress.update(index as u64, count as u64);
        summaries.push(ColumnSummary::new(&dataset.column_at(index)?)?);
    }
    Ok(summaries)
}

impl ColumnSummary {
    /// Reads the statistics of a column.
    fn new(column: &Column) -> CliResult<ColumnSummary> {
        let name = column.name().to_string();
        let type_name = type_name(column.data_type());
        Ok(ColumnSummary { name, type_name, nulls: column.null_count()?, range: ValueRange::new(column)? })
    }

    fn to_line(&self) -> Vec<String> {
        let (min, max) = match &self.range {
            Some(range) => (range.min.text.clone(), range.max.text.clone()),
            None => ("-".into(), "-".into()),
        };
        vec![
            ellipsize(&self.name, MAX_NAME_WIDTH),
            ellipsize(&self.type_name, MAX_TYPE_WIDTH),
            format_count(self.nulls),
            min,
            max,
        ]
    }

    fn to_json(&self) -> Json {
        let (min, max) = match &self.range {
            Some(range) => (range.min.json.clone(), range.max.json.clone()),
            None => (Json::Null, Json::Null),
        };
        json!({"name": self.name, "type": self.type_name, "nulls": self.nulls, "min": min, "max": max})
    }
}

impl ValueRange {
    /// Computes the range of a column, or returns `None` for types without an order.
    fn new(column: &Column) -> CliResult<Option<ValueRange>> {
        let min = match column.min() {
            Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(None),
            min => min?,
        };
        let max = column.max()?;
        Ok(Some(ValueRange { min: PrintedValue::new(&min)?, max: PrintedValue::new(&max)? }))
    }
}

impl PrintedValue {
    fn new(value: &Value<'_>) -> CliResult<PrintedValue> {
        Ok(PrintedValue { text: ellipsize(value, MAX_VALUE_WIDTH), json: value.to_json()? })
    }
}
