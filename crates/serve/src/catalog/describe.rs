//! Describes tables for clients.

use arrowwood::mapping::os;
use arrowwood::{TableStat, field_type_name, table_stat};
use serde_json::{Value as Json, json};

use super::snapshot::Snapshot;
use super::table::{Kind, Table};
use crate::http::{Problem, Result, ResultExt};

/// For whom a table is described: the facts that depend on the caller and on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Audience {
    /// The caller has the right to write the table.
    pub may_write: bool,
    /// The caller is on this machine, or at the end of a tunnel.
    pub is_local: bool,
    /// For the page of `arrowwood view`: true if rows can be saved as Parquet.
    pub parquet: Option<bool>,
}

/// Returns the facts about a table. Blocks.
pub(crate) fn facts(snapshot: &Snapshot, audience: Audience) -> Result<Json> {
    let Snapshot { table, rows, id } = snapshot;
    let first_row = rows.first_row();
    let end = first_row + rows.len().or_table_problem()?;
    let mut facts =
        json!({"name": table.name, "kind": kind_name(table.kind), "first_row": first_row, "end": end, "snapshot": id});
    if table.kind == Kind::Table {
        let stat = stat_of(table)?;
        let progress = table.progress().or_table_problem()?;
        facts["durable_end"] = progress.durable_end.max(stat.durable_end).min(end).into();
        facts["sorted_by"] = stat.sorted_by.into();
        facts["late"] = stat.late.into();
        facts["index"] = stat.index.into();
        facts["segments"] = stat.segments.into();
        facts["disk_bytes"] = stat.disk.into();
        facts["writer"] = stat.writer.into();
        facts["numbering"] = table.identity.numbering().into();
    }
    let fields = rows.schema().fields().iter();
    facts["columns"] = fields
        .map(|field| json!({"name": field.name(), "type": field_type_name(field), "nullable": field.is_nullable()}))
        .collect();
    facts["writable"] = (table.kind == Kind::Table && audience.may_write).into();
    if let Some(parquet) = audience.parquet {
        facts["parquet"] = parquet.into();
    }
    if audience.is_local {
        facts["path"] = table.path.display().to_string().into();
        // The client may be at the end of a tunnel, on a machine where another file has this path.
        facts["place"] = os::place_of(&table.path).ok().into();
    }
    Ok(facts)
}

/// Returns the facts about the segments of a table. Blocks.
pub(crate) fn stat_of(table: &Table) -> Result<TableStat> {
    let stat = table_stat(&table.path).or_table_problem()?;
    // Zeros would be false for a table whose directory was removed since it was opened.
    stat.ok_or_else(|| Problem::not_found("the table was removed"))
}

/// Returns the name of a kind in responses.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Table => "table",
        Kind::File => "file",
        Kind::Files => "files",
    }
}
