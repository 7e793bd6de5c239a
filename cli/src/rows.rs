//! Rows as a table, CSV or JSON lines.

use std::io::Write;

use arrowwood::{Dataset, Row};
use clap::Args;

use crate::shell::{Outcome, Stdout, width};

#[derive(Args)]
pub(crate) struct Form {
    /// Print CSV: nulls are empty, nested values are JSON.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON lines: an object for each row.
    #[arg(long)]
    pub json: bool,
}

/// Prints all rows of `dataset` in the form asked for, by default as a table.
pub(crate) fn print(dataset: &Dataset, form: &Form, out: &mut Stdout) -> Outcome {
    match form {
        Form { csv: true, .. } => write_csv(dataset, out),
        Form { json: true, .. } => write_json(dataset, out),
        _ => Ok(write!(out, "{}", dataset.preview().rows(dataset.len()?).width(width()).bare())?),
    }
}

pub(crate) fn write_csv(dataset: &Dataset, out: &mut impl Write) -> Outcome {
    let names = dataset.schema().fields().iter().map(|field| quoted(field.name()));
    writeln!(out, "{}", names.collect::<Vec<_>>().join(","))?;
    let mut line = String::new();
    for row in dataset.rows() {
        line.clear();
        csv_line(&row?, &mut line)?;
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn csv_line(row: &Row<'_>, line: &mut String) -> Outcome {
    for (i, (_, value)) in row.iter().enumerate() {
        line.push_str(if i > 0 { "," } else { "" });
        let value = value?;
        // Null is nothing and an empty string "", but a line with nothing on it would be no row.
        if !matches!(value, arrowwood::Value::Null) || row.len() == 1 {
            line.push_str(&quoted(&value.to_csv_cell()?));
        }
    }
    Ok(())
}

/// A field of CSV, quoted where it must be.
fn quoted(cell: &str) -> String {
    if cell.is_empty() || cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_string()
}

pub(crate) fn write_json(dataset: &Dataset, out: &mut impl Write) -> Outcome {
    let names: Vec<String> = dataset
        .schema()
        .fields()
        .iter()
        .map(|field| serde_json::Value::from(field.name().as_str()).to_string())
        .collect();
    for row in dataset.rows() {
        let mut members = Vec::with_capacity(names.len());
        for (name, (_, value)) in names.iter().zip(row?.iter()) {
            members.push(format!("{name}:{}", value?.to_json()?));
        }
        // Put together by hand, so that columns of the same name all show.
        writeln!(out, "{{{}}}", members.join(","))?;
    }
    Ok(())
}
