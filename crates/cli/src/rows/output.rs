//! Prints rows as a table, CSV or JSON lines.

use std::io::{IsTerminal, Write, stdout};

use arrow_schema::SchemaRef;
use arrowwood::readable::{ellipsize, escape_hidden_lines};
use arrowwood::{Dataset, JsonLines, Row, csv_header, field_type_name, push_csv_row};
use clap::Args;

use crate::shell::{CliResult, Progress, Stdout, print_json, terminal_width};

/// The maximum characters of a cell in a table that is printed row by row.
const MAX_CELL_WIDTH: usize = 40;

/// The number of rows that determine the width of columns before they are printed.
const HEADING_ROWS: u64 = 100;
/// The spaces between two columns.
const COLUMN_GAP: &str = "  ";

/// The format of printed rows.
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
    columns: Vec<TableColumn>,
    has_begun: bool,
}

/// The layout of a column in a table.
struct TableColumn {
    /// The width of the widest cell so far, in characters.
    width: usize,
    /// Numbers are right-aligned.
    is_numeric: bool,
}

impl Printer<'_> {
    pub(crate) fn new<'a>(schema: &SchemaRef, form: &'a OutputArgs) -> Printer<'a> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            columns.push(TableColumn { width: 0, is_numeric: field.data_type().is_numeric() });
        }
        Printer { form, columns, has_begun: false }
    }

    pub(crate) fn print(&mut self, dataset: &Dataset, out: &mut impl Write) -> CliResult {
        self.begin(dataset.schema(), out)?;
        match self.form {
            OutputArgs { csv: true, .. } => write_csv_rows(dataset, out),
            OutputArgs { json: true, .. } => write_json(dataset, out),
            _ => self.print_table(dataset, out),
        }
    }

    /// Prints the heading of CSV, which doesn't depend on rows.
    pub(crate) fn begin(&mut self, schema: &SchemaRef, out: &mut impl Write) -> CliResult {
        if self.form.csv && !self.has_begun {
            self.has_begun = true;
            write_csv_heading(schema, out)?;
        }
        Ok(())
    }

    fn print_table(&mut self, dataset: &Dataset, out: &mut impl Write) -> CliResult {
        if !self.has_begun {
            self.has_begun = true;
            self.print_heading(dataset, out)?;
        }
        for row in dataset.rows() {
            let cells = cells(&row?)?;
            self.widen_columns(&cells);
            self.print_line(&cells, out)?;
        }
        Ok(())
    }

    /// Prints the names and types of columns, as wide as the first rows need.
    fn print_heading(&mut self, dataset: &Dataset, out: &mut impl Write) -> CliResult {
        let fields = dataset.schema().fields();
        let names: Vec<String> = fields.iter().map(|field| ellipsize(field.name(), MAX_CELL_WIDTH)).collect();
        let types: Vec<String> = fields.iter().map(|field| ellipsize(field_type_name(field), MAX_CELL_WIDTH)).collect();
        for row in dataset.head(HEADING_ROWS)?.rows() {
            self.widen_columns(&cells(&row?)?);
        }
        self.widen_columns(&names);
        self.widen_columns(&types);
        let rule: Vec<String> = self.columns.iter().map(|column| "─".repeat(column.width)).collect();
        self.print_line(&names, out)?;
        self.print_line(&types, out)?;
        self.print_line(&rule, out)
    }

    fn widen_columns(&mut self, cells: &[String]) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row and the heading have different numbers of columns");
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.width = column.width.max(cell.chars().count());
        }
    }

    fn print_line(&self, cells: &[String], out: &mut impl Write) -> CliResult {
        let mut line = String::new();
        for (cell, &TableColumn { width, is_numeric }) in cells.iter().zip(&self.columns) {
            if !line.is_empty() {
                line.push_str(COLUMN_GAP);
            }
            line.push_str(&if is_numeric { format!("{cell:>width$}") } else { format!("{cell:width$}") });
        }
        Ok(writeln!(out, "{}", line.trim_end())?)
    }
}

/// Returns the texts of a row's cells.
fn cells(row: &Row<'_>) -> CliResult<Vec<String>> {
    row.iter().map(|(_, value)| Ok(ellipsize(value?, MAX_CELL_WIDTH))).collect()
}

/// Writes all rows as CSV, with a heading.
pub(crate) fn write_csv(dataset: &Dataset, out: &mut impl Write) -> CliResult {
    write_csv_heading(dataset.schema(), out)?;
    write_csv_rows(dataset, out)
}

fn write_csv_heading(schema: &SchemaRef, out: &mut impl Write) -> CliResult {
    write_csv_line(&csv_header(schema), stdout().is_terminal(), out)
}

fn write_csv_rows(dataset: &Dataset, out: &mut impl Write) -> CliResult {
    let is_terminal = stdout().is_terminal();
    let mut line = String::new();
    for row in rows_with_progress(dataset)? {
        line.clear();
        push_csv_row(&row?, &mut line)?;
        write_csv_line(&line, is_terminal, out)?;
    }
    Ok(())
}

/// Prints a line of CSV. Characters that could control a terminal are escaped there; files and programs get the line
/// unchanged.
fn write_csv_line(line: &str, is_terminal: bool, out: &mut impl Write) -> CliResult {
    let line = if is_terminal { escape_hidden_lines(line) } else { line.into() };
    Ok(writeln!(out, "{line}")?)
}

/// Iterates over the rows with a progress bar.
fn rows_with_progress(dataset: &Dataset) -> CliResult<impl Iterator<Item = arrowwood::Result<Row<'_>>>> {
    let total = dataset.len()?;
    let mut progress = Progress::for_output("writing rows");
    Ok((1..).zip(dataset.rows()).map(move |(done, row)| {
        progress.update(done, total);
        row
    }))
}

/// Writes all rows as JSON lines.
pub(crate) fn write_json(dataset: &Dataset, out: &mut impl Write) -> CliResult {
    let lines = JsonLines::new(dataset.schema())?;
    let mut line = String::new();
    for row in rows_with_progress(dataset)? {
        line.clear();
        lines.push(&row?, &mut line)?;
        print_json(out, &line)?;
    }
    Ok(())
}
