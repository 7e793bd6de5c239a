//! Rows as a table, CSV or JSON lines.

use std::io::Write;

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, Row, cut, field_type_name, guard};
use clap::Args;

use crate::shell::{Outcome, Progress, Stdout, width};

/// The most characters of a cell that is printed as it comes.
const CELL: usize = 40;

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

/// Prints rows that come one dataset after the other, under one heading.
pub(crate) struct Printer<'a> {
    form: &'a Form,
    /// How wide the columns of the table had to be so far, and whether they hold numbers, which stand to the right.
    columns: Vec<(usize, bool)>,
    begun: bool,
}

impl Printer<'_> {
    pub(crate) fn new<'a>(schema: &SchemaRef, form: &'a Form) -> Printer<'a> {
        let columns = schema.fields().iter().map(|field| (0, field.data_type().is_numeric())).collect();
        Printer { form, columns, begun: false }
    }

    pub(crate) fn print(&mut self, dataset: &Dataset, out: &mut impl Write) -> Outcome {
        let begun = std::mem::replace(&mut self.begun, true);
        match self.form {
            Form { csv: true, .. } if begun => csv_rows(dataset, out),
            Form { csv: true, .. } => write_csv(dataset, out),
            Form { json: true, .. } => write_json(dataset, out),
            _ => self.table(dataset, begun, out),
        }
    }

    fn table(&mut self, dataset: &Dataset, begun: bool, out: &mut impl Write) -> Outcome {
        let fields = dataset.schema().fields();
        let names: Vec<String> = fields.iter().map(|field| cut(field.name(), CELL)).collect();
        let types: Vec<String> = fields.iter().map(|field| cut(field_type_name(field), CELL)).collect();
        // The heading is as wide as the first rows.
        let first = if begun { dataset.head(0)? } else { dataset.head(100)? };
        for row in first.rows() {
            self.widen(&cells(&row?)?);
        }
        if !begun {
            [&names, &types].into_iter().for_each(|heading| self.widen(heading));
            let rule = self.columns.iter().map(|&(width, _)| "─".repeat(width)).collect();
            [names, types, rule].iter().try_for_each(|heading| self.line(heading, out))?;
        }
        dataset.rows().try_for_each(|row| {
            let cells = cells(&row?)?;
            self.widen(&cells);
            self.line(&cells, out)
        })
    }

    fn widen(&mut self, cells: &[String]) {
        let widths = cells.iter().map(|cell| cell.chars().count());
        self.columns.iter_mut().zip(widths).for_each(|((widest, _), width)| *widest = width.max(*widest));
    }

    fn line(&self, cells: &[String], out: &mut impl Write) -> Outcome {
        let aligned = cells.iter().zip(&self.columns).map(|(cell, &(width, right))| match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:width$}"),
        });
        Ok(writeln!(out, "{}", aligned.collect::<Vec<_>>().join("  ").trim_end())?)
    }
}

fn cells(row: &Row<'_>) -> Outcome<Vec<String>> {
    row.iter().map(|(_, value)| Ok(cut(value?, CELL))).collect()
}

pub(crate) fn write_csv(dataset: &Dataset, out: &mut impl Write) -> Outcome {
    csv_names(dataset.schema(), out)?;
    csv_rows(dataset, out)
}

fn csv_names(schema: &SchemaRef, out: &mut impl Write) -> Outcome {
    let names = schema.fields().iter().map(|field| quoted(field.name()));
    Ok(writeln!(out, "{}", names.collect::<Vec<_>>().join(","))?)
}

fn csv_rows(dataset: &Dataset, out: &mut impl Write) -> Outcome {
    let mut line = String::new();
    for row in watched(dataset)? {
        line.clear();
        let row = row?;
        guard(|| csv_line(&row, &mut line))?;
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The rows, with a bar for those who wait.
fn watched(dataset: &Dataset) -> Outcome<impl Iterator<Item = arrowwood::Result<Row<'_>>>> {
    let total = dataset.len()?;
    let mut progress = Progress::of_output("writing rows");
    Ok((1..).zip(dataset.rows()).map(move |(done, row)| {
        progress.at(done, total);
        row
    }))
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
    for row in watched(dataset)? {
        let mut members = Vec::with_capacity(names.len());
        for (name, (_, value)) in names.iter().zip(row?.iter()) {
            members.push(format!("{name}:{}", value?.to_json()?));
        }
        // Put together by hand, so that columns of the same name all show.
        writeln!(out, "{{{}}}", members.join(","))?;
    }
    Ok(())
}
