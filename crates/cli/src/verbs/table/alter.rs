//! Implements `arrowwood alter`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{FieldRef, Schema, SchemaRef};
use arrowwood::readable::escape_hidden;
use arrowwood::{alter, field_type_name, open};
use clap::Args;
use serde_json::{Value as Json, json};

use crate::rows::text_args::parse_schema_arg;
use crate::shell::{CliResult, Stdout, print_json, printable_path};

/// Change the columns of a table: add columns, widen numbers, make columns nullable.
///
/// The change is a commit like any other. Existing rows are null in new columns, and their numbers are widened when
/// they are read. Open readers are not affected. Changes already made are skipped.
#[derive(Args)]
#[command(after_help = "Example: arrowwood alter ticks --add 'vol: int64' --widen 'qty: int64'")]
pub(crate) struct Alter {
    /// Columns to add after the existing ones: name and type of each.
    #[arg(long, value_name = "TEXT", value_parser = parse_schema_arg)]
    add: Vec<SchemaRef>,
    /// Columns and their wider types: int8 to int16, int32 or int64, float32 to float64, and so on.
    #[arg(long, value_name = "TEXT", value_parser = parse_schema_arg)]
    widen: Vec<SchemaRef>,
    /// Columns to make nullable.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    nullable: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The table directory, or a directory of partitions (key=value), all of which are changed.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
}

/// Joins the columns of all occurrences of an option.
fn join_columns(schemas: &[SchemaRef]) -> Schema {
    let fields: Vec<FieldRef> = schemas.iter().flat_map(|schema| schema.fields().iter().cloned()).collect();
    Schema::new(fields)
}

impl Alter {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        let is_changed = alter(&self.table, &join_columns(&self.add), &join_columns(&self.widen), &self.nullable)?;
        let schema = Arc::clone(open(&self.table)?.schema());
        if self.json {
            let columns: Vec<_> = schema.fields().iter().map(column_json).collect();
            let table = self.table.to_string_lossy();
            return Ok(print_json(out, json!({"table": table, "changed": is_changed, "columns": columns}))?);
        }
        let name = printable_path(&self.table);
        let columns: Vec<_> = schema.fields().iter().map(column_text).collect();
        let verb = if is_changed { "has now" } else { "has already" };
        Ok(writeln!(out, "{name}: {verb} {}", columns.join(", "))?)
    }
}

fn column_json(field: &FieldRef) -> Json {
    json!({"name": field.name(), "type": field_type_name(field), "nullable": field.is_nullable()})
}

fn column_text(field: &FieldRef) -> String {
    let not_null = if field.is_nullable() { "" } else { " not null" };
    format!("{}: {}{not_null}", escape_hidden(field.name()), field_type_name(field))
}
