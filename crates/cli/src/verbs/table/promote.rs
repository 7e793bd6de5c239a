//! Implements `arrowwood promote`.

use std::io::Write;
use std::path::PathBuf;

use arrowwood::readable::plural;
use arrowwood::{Writer, WriterOptions};
use clap::Args;

use crate::shell::{CliResult, Stdout, printable_path};

/// Make a replica a table of its own, after the server that it was pulled from is gone.
///
/// A replica has the rows of a server's table, and not how far its producers were. Until it is promoted it takes no
/// rows from producers that number their batches, and no positions: a producer that begins anew would append again what
/// is there. Give the last number of each that goes on here, as far as its rows are in the replica; the others begin
/// anew.
#[derive(Args)]
#[command(after_help = "Example: arrowwood promote ticks --producer sensor-9=4711")]
pub(crate) struct Promote {
    /// The last batch of a producer whose rows are in the replica. May be repeated.
    #[arg(long, value_name = "NAME=SEQUENCE", value_parser = parse_assignment)]
    producer: Vec<(String, i64)>,
    /// A position of the table, as a writer commits it. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_assignment)]
    position: Vec<(String, i64)>,
    /// The table directory.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
}

/// Parses a name and a number, divided by the last `=`.
fn parse_assignment(text: &str) -> Result<(String, i64), String> {
    if let Some((name, value)) = text.rsplit_once('=')
        && !name.is_empty()
        && let Ok(value) = value.parse()
    {
        return Ok((name.into(), value));
    }
    Err("expected a name, =, and a whole number".into())
}

impl Promote {
    pub(crate) fn run(&self, out: &mut Stdout) -> CliResult {
        let producers = self.producer.iter().map(|(name, sequence)| (format!("producer:{name}"), *sequence));
        let positions: Vec<(String, i64)> = producers.chain(self.position.iter().cloned()).collect();
        let mut writer = Writer::open(&self.table, None, &WriterOptions::default())?;
        writer.promote(&positions.iter().map(|(name, value)| (&name[..], *value)).collect::<Vec<_>>())?;
        let rows = writer.committed_rows();
        writer.close()?;
        let name = printable_path(&self.table);
        let rows = plural(rows, "row", "rows");
        let positions = plural(positions.len() as u64, "position is known", "positions are known");
        Ok(writeln!(out, "{name}: promoted, {rows}; {positions}")?)
    }
}
