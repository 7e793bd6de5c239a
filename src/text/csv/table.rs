//! Columns from records of CSV.

use std::borrow::Cow;

use arrow_schema::{DataType, Field, FieldRef, SchemaRef};

use super::options::{CsvOptions, is_text, reading};
use super::records::CsvRecords;
use crate::error::Result;
use crate::text::columns::*;
use crate::text::scalar::*;
use crate::types::type_name;

/// A header, and the columns read from the records after it.
pub(super) struct CsvTable {
    /// The number of fields.
    pub width: usize,
    /// The field of each column.
    sources: Vec<FieldSource>,
    pub columns: BatchBuilder<Box<dyn Sink>>,
}

/// The source of a column's values.
struct FieldSource {
    number: usize,
    /// Whether the column was inferred without values; any value would change its type.
    is_empty: bool,
}

impl CsvTable {
    pub(super) fn new(schema: &SchemaRef, header: &[String], options: &CsvOptions) -> Result<CsvTable> {
        check_dictionary(&options.dictionary, schema).map_err(reading)?;
        let source = |field: &FieldRef| {
            let found = header.iter().position(|name| name == field.name());
            let number =
                found.ok_or_else(|| reading(missing(field.name(), "the schema", header.iter().map(String::as_str))));
            Ok(FieldSource { number: number?, is_empty: false })
        };
        let sources = schema.fields().iter().map(source).collect::<Result<_>>()?;
        let sink = |field: &FieldRef| sink_of(field, &options.dictionary).map_err(reading);
        let sinks = schema.fields().iter().map(sink).collect::<Result<_>>()?;
        Ok(CsvTable::with_sinks(schema, header.len(), sources, sinks, options.batch_rows))
    }

    /// As `new`, for a header that must not name other columns.
    pub(super) fn for_all(schema: &SchemaRef, header: &[String], options: &CsvOptions) -> Result<CsvTable> {
        let names = || schema.fields().iter().map(|field| field.name().as_str());
        match header.iter().find(|&name| names().all(|known| known != name)) {
            Some(name) => Err(reading(missing(name, "the header", names()))),
            None => CsvTable::new(schema, header, options),
        }
    }

    /// For all columns of `schema`, inferred as `kinds`; refuses values that would change it.
    pub(super) fn exact(schema: &SchemaRef, kinds: &[TypeSet], batch_rows: usize) -> CsvTable {
        let source = |(number, &kinds): (usize, &TypeSet)| FieldSource { number, is_empty: kinds == UNSEEN };
        let sources = kinds.iter().enumerate().map(source).collect();
        let sinks = kinds.iter().map(|&kinds| exact_sink(kinds)).collect();
        CsvTable::with_sinks(schema, kinds.len(), sources, sinks, batch_rows)
    }

    fn with_sinks(
        schema: &SchemaRef,
        width: usize,
        sources: Vec<FieldSource>,
        sinks: Vec<Box<dyn Sink>>,
        batch_rows: usize,
    ) -> CsvTable {
        let fields = schema.fields().iter().zip(sinks);
        let columns = fields.map(|(field, sink)| TextColumn::new(field.as_ref().clone(), sink)).collect();
        CsvTable { width, sources, columns: BatchBuilder::new(schema.clone(), columns, batch_rows) }
    }

    /// Adds the next row, and passes the columns to `full` when a batch is full.
    pub(super) fn push(
        &mut self,
        rows: &CsvRecords<'_>,
        options: &CsvOptions,
        full: &mut impl FnMut(&mut BatchBuilder<Box<dyn Sink>>) -> Result<()>,
    ) -> Result<()> {
        for (column, source) in self.columns.columns.iter_mut().zip(&self.sources) {
            push(column, rows, source, options).map_err(|refusal| rows.error(refusal))?;
        }
        if self.columns.count() { full(&mut self.columns).map_err(reading) } else { Ok(()) }
    }
}

fn push(
    column: &mut TextColumn<Box<dyn Sink>>,
    rows: &CsvRecords<'_>,
    source: &FieldSource,
    options: &CsvOptions,
) -> Result<(), String> {
    let value = rows.field(source.number);
    let is_quoted = || rows.is_quoted(source.number);
    let null = options.is_null(value, column.field.data_type(), is_quoted);
    let fits = !source.is_empty || options.is_null(value, &DataType::Null, is_quoted);
    let allowed = fits && (!null || column.field.is_nullable());
    let parsed = if is_text(column.field.data_type()) { Cow::Borrowed(value) } else { options.with_point(value) };
    let pushed = allowed.then(|| column.sink.push((!null).then_some(&parsed)));
    pushed.flatten().ok_or_else(|| {
        let (expected, way_out) = refusal(&column.field, null);
        let name = shorten(column.field.name());
        let advice = utc_offset_hint(column.field.data_type(), value);
        let way_out = if advice.is_empty() { way_out } else { advice };
        format!("expected {expected} in column `{name}`, got {:?}{way_out}", shorten(value))
    })
}

/// The expected form, and the remedy.
fn refusal(field: &Field, null: bool) -> (String, &'static str) {
    let name = type_name(field.data_type());
    if null {
        return (format!("{name} without nulls"), "; correct the value or make the field nullable");
    }
    if is_text(field.data_type()) {
        return ("at most 2 GiB of text".to_string(), "; read it as large_utf8 or use a smaller batch_rows");
    }
    (name, "; correct the value or read the column as utf8")
}
