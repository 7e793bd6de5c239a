//! Implements `arrowwood schema`.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::PathBuf;

use arrow_schema::FieldRef;
use arrowwood::field_type_name;
use arrowwood::readable::ellipsize;
use clap::Args;
use serde_json::{Value as Json, json};

use crate::rows::open::open;
use crate::shell::{CliResult, Stdout, print_json, write_aligned};

/// The maximum number of characters of a column's name.
const MAX_NAME_WIDTH: usize = 60;
/// The maximum number of characters of a type, which may be deeply nested.
const MAX_TYPE_WIDTH: usize = 1000;
/// The maximum number of characters of a key or value of metadata.
const MAX_METADATA_WIDTH: usize = 80;

/// Print name, type and metadata of each column.
#[derive(Args)]
#[command(after_help = "Example: arrowwood schema ticks.arrow")]
pub(crate) struct Schema {
    /// Print JSON, with full metadata.
    #[arg(long)]
    json: bool,
    /// Files, globs or directories of one schema; - is standard input.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

impl Schema {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        let dataset = open(&self.paths)?;
        let schema = dataset.schema();
        if self.json {
            let fields: Vec<_> = schema.fields().iter().map(field_json).collect();
            return Ok(print_json(out, json!({"fields": fields, "metadata": schema.metadata()}))?);
        }
        write_aligned(out, &schema.fields().iter().map(field_line).collect::<Vec<_>>())?;
        for field in schema.fields().iter().filter(|field| !field.metadata().is_empty()) {
            write_metadata(out, &format!("metadata of {}", ellipsize(field.name(), MAX_NAME_WIDTH)), field.metadata())?;
        }
        write_metadata(out, "metadata", schema.metadata())
    }
}

fn field_line(field: &FieldRef) -> Vec<String> {
    let nullable = if field.is_nullable() { "" } else { "not null" };
    vec![ellipsize(field.name(), MAX_NAME_WIDTH), ellipsize(field_type_name(field), MAX_TYPE_WIDTH), nullable.into()]
}

fn field_json(field: &FieldRef) -> Json {
    let name = field.name();
    let nullable = field.is_nullable();
    json!({"name": name, "type": field_type_name(field), "nullable": nullable, "metadata": field.metadata()})
}

/// Prints metadata under a title. Long values, as pandas writes them, are cut.
fn write_metadata(out: &mut Stdout, title: &str, metadata: &HashMap<String, String>) -> CliResult {
    if metadata.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}:")?;
    for (key, value) in metadata.iter().collect::<BTreeMap<_, _>>() {
        let short = ellipsize(value, MAX_METADATA_WIDTH);
        let more = if short.ends_with('…') { format!(" ({} bytes)", value.len()) } else { String::new() };
        writeln!(out, "  {}: {short}{more}", ellipsize(key, MAX_METADATA_WIDTH))?;
    }
    Ok(())
}
