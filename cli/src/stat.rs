//! `arrowwood stat`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use arrowwood::{
    Column, Dataset, ErrorKind, Footprint, Kind, TableStat, Value, bytes_text, count_text, cut, table_stat, type_name,
};
use clap::Args;
use serde_json::{Value as Json, json};

use crate::shell::{Outcome, Progress, Stdout, open, print_json, write_aligned};

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

/// The facts about a column. Types without an order have no smallest and largest value.
struct Summary {
    name: String,
    type_name: String,
    nulls: u64,
    range: Option<[(String, Json); 2]>,
}

impl Stat {
    pub(crate) fn run(&self, out: &mut Stdout) -> Outcome {
        let dataset = open(&self.paths)?;
        let table = match &self.paths[..] {
            [path] => table_stat(path)?,
            _ => None,
        };
        let facts = Facts { table, ..Facts::of(&dataset)? };
        let columns = summaries(&dataset)?;
        if self.json {
            return Ok(print_json(out, facts.json(&columns))?);
        }
        write_aligned(out, &facts.rows())?;
        writeln!(out)?;
        let header = ["column", "type", "nulls", "min", "max"].map(String::from).to_vec();
        Ok(write_aligned(out, &[vec![header], columns.iter().map(Summary::row).collect()].concat())?)
    }
}

/// The facts about the dataset.
struct Facts {
    rows: u64,
    batches: u64,
    /// Bytes of all buffers, uncompressed.
    bytes: u64,
    footprint: Footprint,
    /// File or stream, or both if files differ; likewise for compression.
    format: String,
    compression: String,
    table: Option<TableStat>,
}

impl Facts {
    fn of(dataset: &Dataset) -> Outcome<Facts> {
        let messages = dataset.messages()?;
        let schemas = messages.iter().filter(|message| message.kind == Kind::Schema);
        // Only streams begin with a message.
        let format = distinct(schemas.map(|schema| if schema.offset == 0 { "stream" } else { "file" }));
        let batches = messages.iter().filter(|message| message.kind == Kind::RecordBatch);
        let compression = distinct(batches.map(|batch| batch.compression.map_or("none", |codec| codec.name())));
        let rows = dataset.len()?;
        let batches = dataset.num_batches()? as u64;
        let bytes = dataset.nbytes()?;
        Ok(Facts { rows, batches, bytes, footprint: dataset.footprint(), format, compression, table: None })
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let footprint = (bytes_text(self.footprint.mapped), bytes_text(self.footprint.copied));
        let facts = [
            ("rows", count_text(self.rows)),
            ("batches", count_text(self.batches)),
            ("values", bytes_text(self.bytes)),
            ("files", format!("{} mapped, {} copied", footprint.0, footprint.1)),
            ("format", self.format.clone()),
            ("compression", self.compression.clone()),
        ];
        let of_table = self.table.iter().flat_map(table_facts);
        facts.into_iter().chain(of_table).map(|(name, fact)| vec![name.into(), fact]).collect()
    }

    fn json(&self, columns: &[Summary]) -> Json {
        json!({
            "rows": self.rows,
            "batches": self.batches,
            "bytes": self.bytes,
            "mapped": self.footprint.mapped,
            "copied": self.footprint.copied,
            "format": self.format,
            "compression": self.compression,
            "table": self.table.as_ref().map(table_json),
            "columns": columns.iter().map(Summary::json).collect::<Vec<_>>(),
        })
    }
}

fn table_facts(table: &TableStat) -> Vec<(&'static str, String)> {
    let segments = format!("{}, {} of them dense", count_text(table.segments), count_text(table.dense));
    let last = if table.live { "the last one grows" } else { "none of them grows" };
    let writer = table.writer.map_or("none".into(), |pid| format!("process {pid}"));
    let mut facts = vec![
        ("segments", format!("{segments}, {last}")),
        ("first row", format!("number {}", count_text(table.first_row))),
        ("on disk", format!("{}, with holes {}", bytes_text(table.disk), bytes_text(table.apparent))),
    ];
    if table.live {
        let by = table.sorted_by.as_ref().map_or("nothing".into(), |name| cut(name, 60));
        facts.extend([
            (if table.late { "late rows by" } else { "sorted by" }, by),
            ("writer", writer),
            ("commits", format!("up to number {}", count_text(table.sequence))),
            ("durable", format!("rows before number {}", count_text(table.durable_end))),
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

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect::<BTreeSet<_>>().into_iter().collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn summaries(dataset: &Dataset) -> Outcome<Vec<Summary>> {
    let mut progress = Progress::new("reading columns");
    let count = dataset.num_columns();
    let columns = (0..count).map(|number| {
        progress.at(number as u64, count as u64);
        Summary::of(&dataset.column_at(number)?)
    });
    columns.collect()
}

impl Summary {
    fn of(column: &Column) -> Outcome<Summary> {
        let name = column.name().to_string();
        let type_name = type_name(column.data_type());
        Ok(Summary { name, type_name, nulls: column.null_count()?, range: range(column)? })
    }

    fn row(&self) -> Vec<String> {
        let [min, max] = match &self.range {
            Some(range) => range.each_ref().map(|(text, _)| text.clone()),
            None => ["-", "-"].map(String::from),
        };
        vec![cut(&self.name, 60), cut(&self.type_name, 40), count_text(self.nulls), min, max]
    }

    fn json(&self) -> Json {
        let [min, max] = match &self.range {
            Some(range) => range.each_ref().map(|(_, json)| json.clone()),
            None => [Json::Null, Json::Null],
        };
        json!({"name": self.name, "type": self.type_name, "nulls": self.nulls, "min": min, "max": max})
    }
}

fn range(column: &Column) -> Outcome<Option<[(String, Json); 2]>> {
    let both = |value: Value<'_>| -> Outcome<_> { Ok((cut(&value, 30), value.to_json()?)) };
    match column.min() {
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
        min => Ok(Some([both(min?)?, both(column.max()?)?])),
    }
}
