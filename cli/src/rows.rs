//! Rows as a table, CSV or JSON lines.

use std::io::{IsTerminal, Write, stdout};

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, JsonLines, Row, csv_names, cut, field_type_name, push_csv, visible_lines};
use clap::Args;

use crate::shell::{Outcome, Progress, Stdout, print_json, width};

/// Maximum characters of a cell printed as it arrives.
const CELL: usize = 40;

#[derive(Args)]
pub(crate) struct Form {
    /// Print CSV: nulls are empty, nested values are JSON.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON lines, an object per row.
    #[arg(long)]
    pub json: bool,
}

/// Prints all rows of `dataset` in the requested format, by default as a table.
pub(crate) fn print(dataset: &Dataset, form: &Form, out: &mut Stdout) -> Outcome {
    match form {
        Form { csv: true, .. } => write_csv(dataset, out),
        Form { json: true, .. } => write_json(dataset, out),
        _ => Ok(write!(out, "{}", dataset.preview().rows(dataset.len()?).width(width()).bare())?),
    }
}

/// Prints rows of successive datasets under one heading.
pub(crate) struct Printer<'a> {
    form: &'a Form,
    /// The widths of the table's columns so far, and whether they are numbers, which are right-aligned.
    columns: Vec<(usize, bool)>,
    begun: bool,
}

impl Printer<'_> {
    pub(crate) fn new<'a>(schema: &SchemaRef, form: &'a Form) -> Printer<'a> {
        let columns = schema.fields().iter().map(|field| (0, field.data_type().is_numeric())).collect();
        Printer { form, columns, begun: false }
    }

    pub(crate) fn print(&mut self, dataset: &Dataset, out: &mut impl Write) -> Outcome {
        self.begin(dataset.schema(), out)?;
        match self.form {
            Form { csv: true, .. } => csv_rows(dataset, out),
            Form { json: true, .. } => write_json(dataset, out),
            _ => self.table(dataset, out),
        }
    }

    /// Prints the heading of CSV, which doesn't depend on rows.
    pub(crate) fn begin(&mut self, schema: &SchemaRef, out: &mut impl Write) -> Outcome {
        if self.form.csv && !std::mem::replace(&mut self.begun, true) { csv_heading(schema, out) } else { Ok(()) }
    }

    fn table(&mut self, dataset: &Dataset, out: &mut impl Write) -> Outcome {
        let begun = std::mem::replace(&mut self.begun, true);
        let fields = dataset.schema().fields();
        let names: Vec<String> = fields.iter().map(|field| cut(field.name(), CELL)).collect();
        let types: Vec<String> = fields.iter().map(|field| cut(field_type_name(field), CELL)).collect();
        // The first rows determine the width of the heading.
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
        let aligned = cells
            .iter()
            .zip(&self.columns)
            .map(|(cell, &(width, right))| if right { format!("{cell:>width$}") } else { format!("{cell:width$}") });
        Ok(writeln!(out, "{}", aligned.collect::<Vec<_>>().join("  ").trim_end())?)
    }
}

fn cells(row: &Row<'_>) -> Outcome<Vec<String>> {
    row.iter().map(|(_, value)| Ok(cut(value?, CELL))).collect()
}

pub(crate) fn write_csv(dataset: &Dataset, out: &mut impl Write) -> Outcome {
    csv_heading(dataset.schema(), out)?;
    csv_rows(dataset, out)
}

fn csv_heading(schema: &SchemaRef, out: &mut impl Write) -> Outcome {
    csv_print(&csv_names(schema), stdout().is_terminal(), out)
}

fn csv_rows(dataset: &Dataset, out: &mut impl Write) -> Outcome {
    let is_terminal = stdout().is_terminal();
    let mut line = String::new();
    for row in watched(dataset)? {
        line.clear();
        push_csv(&row?, &mut line)?;
        csv_print(&line, is_terminal, out)?;
    }
    Ok(())
}

/// Prints a line of CSV: unchanged to a file or a program, with escapes to a terminal, which it could control.
fn csv_print(line: &str, is_terminal: bool, out: &mut impl Write) -> Outcome {
    let line = if is_terminal { visible_lines(line) } else { line.into() };
    Ok(writeln!(out, "{line}")?)
}

/// The rows, with a progress bar.
fn watched(dataset: &Dataset) -> Outcome<impl Iterator<Item = arrowwood::Result<Row<'_>>>> {
    let total = dataset.len()?;
    let mut progress = Progress::of_output("writing rows");
    Ok((1..).zip(dataset.rows()).map(move |(done, row)| {
        progress.at(done, total);
        row
    }))
}

pub(crate) fn write_json(dataset: &Dataset, out: &mut impl Write) -> Outcome {
    let lines = JsonLines::new(dataset.schema())?;
    let mut line = String::new();
    for row in watched(dataset)? {
        line.clear();
        lines.push(&row?, &mut line)?;
        print_json(out, &line)?;
    }
    Ok(())
}
