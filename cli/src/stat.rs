//! `arrowwood stat`.

use std::io::Write;
use std::path::PathBuf;

use arrowwood::{Column, Dataset, ErrorKind, Value, bytes_text, count_text, cut, type_name};
use clap::Args;
use serde_json::{Value as Json, json};

use crate::shell::{Outcome, Progress, Stdout, open, write_aligned};

/// Prints rows, batches and sizes, and nulls, smallest and largest value of each column.
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

/// What is known of a column. Types without an order have no smallest and largest value.
struct Summary {
    name: String,
    type_name: String,
    nulls: u64,
    range: Option<[(String, Json); 2]>,
}

impl Stat {
    pub(crate) fn run(&self, out: &mut Stdout) -> Outcome {
        let dataset = open(&self.paths)?;
        let columns = summaries(&dataset)?;
        let (rows, batches, nbytes) = (dataset.len()?, dataset.num_batches()? as u64, dataset.nbytes()?);
        let footprint = dataset.footprint()?;
        if self.json {
            let columns: Vec<_> = columns.iter().map(Summary::json).collect();
            let (mapped, copied) = (footprint.mapped, footprint.copied);
            let stat = json!({"rows": rows, "batches": batches, "bytes": nbytes, "mapped": mapped, "copied": copied,
                "columns": columns});
            return Ok(writeln!(out, "{stat}")?);
        }
        let mapped = format!("{} mapped, {} copied", bytes_text(footprint.mapped), bytes_text(footprint.copied));
        let facts = [("rows", count_text(rows)), ("batches", count_text(batches)), ("values", bytes_text(nbytes))];
        let facts = facts.into_iter().chain([("files", mapped)]).map(|(name, fact)| vec![name.into(), fact]);
        write_aligned(out, &facts.collect::<Vec<_>>())?;
        writeln!(out)?;
        let header = ["column", "type", "nulls", "min", "max"].map(String::from).to_vec();
        Ok(write_aligned(out, &[vec![header], columns.iter().map(Summary::row).collect()].concat())?)
    }
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
        let (name, type_name) = (cut(column.name(), 60), type_name(column.data_type()));
        Ok(Summary { name, type_name, nulls: column.null_count()?, range: range(column)? })
    }

    fn row(&self) -> Vec<String> {
        let [min, max] = match &self.range {
            Some(range) => range.each_ref().map(|(text, _)| text.clone()),
            None => ["-", "-"].map(String::from),
        };
        vec![self.name.clone(), cut(&self.type_name, 40), count_text(self.nulls), min, max]
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
