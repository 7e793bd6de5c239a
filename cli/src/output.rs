//! Rows as a table, CSV or JSON lines.

use std::io::{IsTerminal, Write, stdout};

use arrow_schema::SchemaRef;
use arrowwood::{Dataset, JsonLines, Row, csv_header, ellipsize, escape_hidden_lines, field_type_name, push_csv_row};
use clap::Args;

use crate::shell::{CliResult, Progress, Stdout, print_json, terminal_width};

/// Maximum characters of a cell printed as it arrives.
const CELL: usize = 40;

#[derive(Args)]
pub(crate) struct OutputArgs {
    /// Print CSV: nulls are empty, nested values are JSON.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print JSON lines, an object per row.
    #[arg(long)]
    pub json: bool,
}

/// Prints all rows of `dataset` in the requested format, by default as a table.
pub(crate) fn print(dataset: &Dataset, form: &OutputArgs, out: &mut Stdout) -> CliResult {
    match form {
        OutputArgs { csv: true, .. } => write_csv(dataset, out),
        OutputArgs { json: true, .. } => write_json(dataset, out),
        _ => Ok(write!(out, "{}", dataset.preview().rows(dataset.len()?).width(terminal_width()).bare())?),
    }
}

/// Prints rows of successive datasets under one heading.
pub(crate) struct Printer<'a> {
    form: &'a OutputArgs,
    /// The widths of the table's columns so far, and whether they are numbers, which are right-aligned.
    columns: Vec<(usize, bool)>,
    begun: bool,
}

impl Printer<'_> {
    pub(crate) fn new<'a>(schema: &SchemaRef, form: &'a OutputArgs) -> Printer<'a> {
        let columns = schema.fields().iter().map(|field| (0, field.data_type().is_numeric())).collect();
        Printer { form, columns, begun: false }
    }

    pub(crate) fn print(&mut self, dataset: &Dataset, out: &mut impl Write) -> CliResult {
        self.begin(dataset.schema(), out)?;
        match self.form {
            OutputArgs { csv: true, .. } => csv_rows(dataset, out),
            OutputArgs { json: true, .. } => write_json(dataset, out),
            _ => self.table(dataset, out),
        }
    }

    /// Prints the heading of CSV, which doesn't depend on rows.
    pub(crate) fn begin(&mut self, schema: &SchemaRef, out: &mut impl Write) -> CliResult {
        if self.form.csv && !std::mem::replace(&mut self.begun, true) { csv_heading(schema, out) } else { Ok(()) }
    }

    fn table(&mut self, dataset: &Dataset, out: &mut impl Write) -> CliResult {
        let begun = std::mem::replace(&mut self.begun, true);
        let fields = dataset.schema().fields();
        let names: Vec<String> = fields.iter().map(|field| ellipsize(field.name(), CELL)).collect();
        let types: Vec<String> = fields.iter().map(|field| ellipsize(field_type_name(field), CELL)).collect();
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

    fn line(&self, cells: &[String], out: &mut impl Write) -> CliResult {
        let aligned = cells
            .iter()
            .zip(&self.columns)
            .map(|(cell, &(width, right))| if right { format!("{cell:>width$}") } else { format!("{cell:width$}") });
        Ok(writeln!(out, "{}", aligned.collect::<Vec<_>>().join("  ").trim_end())?)
    }
}

fn cells(row: &Row<'_>) -> CliResult<Vec<String>> {
    row.iter().map(|(_, value)| Ok(ellipsize(value?, CELL))).collect()
}

pub(crate) fn write_csv(dataset: &Dataset, out: &mut impl Write) -> CliResult {
    csv_heading(dataset.schema(), out)?;
    csv_rows(dataset, out)
}

fn csv_heading(schema: &SchemaRef, out: &mut impl Write) -> CliResult {
    csv_print(&csv_header(schema), stdout().is_terminal(), out)
}

fn csv_rows(dataset: &Dataset, out: &mut impl Write) -> CliResult {
    let is_terminal = stdout().is_terminal();
    let mut line = String::new();
    for row in watched(dataset)? {
        line.clear();
        push_csv_row(&row?, &mut line)?;
        csv_print(&line, is_terminal, out)?;
    }
    Ok(())
}

/// Prints a line of CSV: unchanged to a file or a program, with escapes to a terminal, which it could control.
fn csv_print(line: &str, is_terminal: bool, out: &mut impl Write) -> CliResult {
    let line = if is_terminal { escape_hidden_lines(line) } else { line.into() };
    Ok(writeln!(out, "{line}")?)
}

/// The rows, with a progress bar.
fn watched(dataset: &Dataset) -> CliResult<impl Iterator<Item = arrowwood::Result<Row<'_>>>> {
    let total = dataset.len()?;
    let mut progress = Progress::for_output("writing rows");
    Ok((1..).zip(dataset.rows()).map(move |(done, row)| {
        progress.update(done, total);
        row
    }))
}

pub(crate) fn write_json(dataset: &Dataset, out: &mut impl Write) -> CliResult {
    let lines = JsonLines::new(dataset.schema())?;
    let mut line = String::new();
    for row in watched(dataset)? {
        line.clear();
        lines.push(&row?, &mut line)?;
        print_json(out, &line)?;
    }
    Ok(())
}
